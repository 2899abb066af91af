-- RANGE frames with offsets: every type that has in_range, and the edges of their values.
create table pay (salary int, enrolled date, at timestamptz);
insert into pay values (5000, '2006-10-01', '2006-10-01 12:00+00'), (6000, '2006-10-01', '2006-10-01 18:00+00'),
    (3900, '2006-12-23', '2006-12-23 00:00+00'), (4800, '2007-08-01', '2007-08-01 06:00+00'),
    (4200, '2008-01-01', '2008-01-01 06:00+00'), (1, null, null);
select sum(salary) over w, count(*) over w, salary, enrolled from pay
    window w as (order by enrolled range between '1 year'::interval preceding and '1 year'::interval following)
    order by enrolled, salary;
select sum(salary) over w, salary, enrolled from pay
    window w as (order by enrolled desc nulls first range between '3 months' preceding and '1 day' following exclude current row)
    order by enrolled, salary;
select first_value(salary) over w, last_value(salary) over w, salary from pay
    window w as (order by at, salary groups between 1 preceding and 1 following) order by at, salary;
select sum(salary) over (order by at range between '6 hours' preceding and current row), salary from pay order by at;

-- Infinities and NaN.
create table numerics (id int, f4 float4, f8 float8, n numeric);
insert into numerics values (0, '-inf', '-inf', '-inf'), (1, -3, -3, -3), (2, -1, -1, -1), (3, 0, 0, 0),
    (4, 1.1, 1.1, 1.1), (7, 100, 100, 100), (8, 'inf', 'inf', 'inf'), (9, 'nan', 'nan', 'nan');
select id, f8, first_value(id) over w, last_value(id) over w from numerics
    window w as (order by f8 range between 'inf' preceding and 'inf' following);
select id, f8, first_value(id) over w, last_value(id) over w from numerics
    window w as (order by f8 range between 'inf' preceding and 'inf' preceding);
select id, f8, first_value(id) over w, last_value(id) over w from numerics
    window w as (order by f8 range between 'inf' following and 'inf' following);
select id, f4, first_value(id) over w, last_value(id) over w from numerics
    window w as (order by f4 desc range between 1.1 preceding and 'inf' following);
select id, n, first_value(id) over w, last_value(id) over w from numerics
    window w as (order by n range between 'inf' preceding and 'inf' following);
select id, n, first_value(id) over w, last_value(id) over w from numerics
    window w as (order by n range between 1.1 preceding and 'inf' preceding);
select id, f8, first_value(id) over w from numerics
    window w as (order by f8 range between 'NaN' preceding and 'inf' following);
select id, n, first_value(id) over w from numerics
    window w as (order by n range between 1.1 preceding and 'NaN' following);

-- An edge past the type's values stops at them.
select x, last_value(x) over (order by x::smallint range between current row and 2147450884 following)
    from generate_series(32764, 32766) x;
select x, last_value(x) over (order by x::smallint desc range between current row and 2147450885 following)
    from generate_series(-32766, -32764) x;
select x, last_value(x) over (order by x range between current row and 4 following)
    from generate_series(2147483644, 2147483646) x;
select x, last_value(x) over (order by x desc range between current row and 5 following)
    from generate_series(-2147483646, -2147483644) x;
select x, last_value(x) over (order by x range between current row and 4 following)
    from generate_series(9223372036854775804, 9223372036854775806) x;
select sum(x) over (order by x range between 2::int8 preceding and 1::int2 preceding), x from generate_series(1, 5) x;
select sum(x) over (order by x range between 1 preceding and -1 following), x from generate_series(1, 3) x;

-- Times of day and intervals.
create table times (id int, t time, tz timetz, i interval);
insert into times values (1, '11:00', '11:00+01', '1 year'), (2, '12:00', '12:00+01', '2 years'),
    (3, '13:00', '13:00+01', '3 years'), (4, '22:00', '22:00+01', '9 years'), (5, '23:30', '23:30-05', '10 years');
select id, t, first_value(id) over w, last_value(id) over w from times
    window w as (order by t range between '70 min'::interval preceding and '2 hours'::interval following);
select id, t, first_value(id) over w, last_value(id) over w from times
    window w as (order by t desc range between '70 min' preceding and '2 hours' following);
select id, tz, first_value(id) over w, last_value(id) over w from times
    window w as (order by tz range between '70 min'::interval preceding and '1 year 2 hours' following);
select id, i, first_value(id) over w, last_value(id) over w from times
    window w as (order by i range between '1 year' preceding and '1 year' following);
select id, i, first_value(id) over w from times
    window w as (order by i range between '-1 year' preceding and '1 year' following);
select id, t, first_value(id) over w from times
    window w as (order by t range between '-1 min' preceding and '1 year' following);
