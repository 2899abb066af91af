-- Zeros of any scale are equal.
select 0.0::numeric(50,40) = 0 as a, round(0.0, 80) = 0 as b, round(5e-16383, 16381) = 0 as c, trunc(5e-16383, 16382) = 0 as d,
    0 >= round(0.0, 80) as e, -round(0.0, 80) < 0 as f;
select count(distinct v) from (values (0), (round(0.0, 80)), (0.0::numeric(50,40))) v(v);
select count(*) from (values (0.0::numeric)) a(v) join (values (round(0.0, 80))) b(v) using (v);
select coalesce(nullif(0.9999999999 ^ 23300000000000, 0), 0) as a, coalesce(nullif(0.9999999999 ^ 70000000000000, 0), 0) as b,
    coalesce(nullif(exp(-5000::numeric), 0), 0) as c, coalesce(nullif(exp(-10000::numeric), 0), 0) as d;

-- Numbers at the limits of numeric.
select round(5.5e131071, -131073), round(5.5e131071, -1000000), trunc(9.9e131071, -131072), trunc(9.9e131071, -1000000);
select round(5.5e131071, -131072);
select (i / (10::numeric ^ 131071))::numeric(1,0)
    from generate_series(-6 * (10::numeric ^ 131071), -9 * (10::numeric ^ 131071), -(10::numeric ^ 131071)) as a(i);
select trim_scale(variance(a) * 1e1000) from (select 1e-8191 * i as a from generate_series(1, 10) i) s;
select trim_scale(variance(a) * 1e1000) from (select (1e-500 + i * 1e-500) as a from generate_series(1, 10) i) s;
select variance(a) from (select 9e131071 + i * 1e-16383 as a from generate_series(1, 3) i) s;
select variance(a) from (select 9e131071 + i as a from generate_series(1, 5) i) s;
select sum(a) from (values (9e131071), (9e131071)) v(a);
select sum(a) = 9e131071 from (values (9e131071), (9e131071), (-9e131071)) v(a);
select stddev_pop(b::numeric), stddev_samp(b::numeric), var_pop(b::numeric) from (values (99.097), (7.8), (0.09561), (324.78)) v(b);

-- Operators whose operands are exchanged.
select 16::numeric + '0/16AE7F7'::pg_lsn;

-- Intervals.
select '4 millenniums 5 centuries 4 decades 1 year 4 months 4 days 17 minutes 31 seconds'::interval;
select '3 microsecondsxyz'::interval, '-1 millisecondst ago'::interval;
select interval '1 decadesss';
select interval 'PT2562047788.0152155019444', interval 'PT-2562047788.0152155022222';
select interval 'P0002', interval 'P0002-10', interval 'P0002-10-15', interval 'P0002T1S', interval 'P0002-10T1S',
    interval 'P0002-10-15T1S', interval 'PT10', interval 'PT10:30', interval 'P1TT1H', interval 'P1DT', interval 'P0002-10T';
select interval 'P10.5e4Y', interval 'PT1.5e1', interval 'P-.5Y', interval 'P00010203.5T01', interval 'P0001-02.5T01',
    interval 'PT1234567.5', interval 'P1-2-3T4:5.5:6', interval 'PT102030.9', interval 'PT';
select interval 'P+1Y';
select interval 'P1Y2-3';
select interval 'PT1H20:30';
select interval 'P0002-T1';
select interval 'P1e400Y';
select interval '-9223372036854775808 microseconds', interval '-2147483648 months -2147483648 days -9223372036854775808 us';
set intervalstyle = sql_standard;
select interval '-2147483648 months -2147483648 days -9223372036854775808 us', interval '-1-2', interval '-23 hours 45 min 12.34 sec';
set intervalstyle = iso_8601;
select interval '-2147483648 months -2147483648 days -9223372036854775808 us';
set intervalstyle = postgres_verbose;
select interval '-2147483648 months -2147483648 days -9223372036854775808 us';
reset intervalstyle;
select interval '-9223372036854775808 microseconds ago';

-- Abbreviations whose meaning has changed: what the zone meant by them at that local time.
set timezone = 'UTC';
select '2011-03-26 23:00:00 MSK'::timestamptz, '2011-03-27 00:00:00 MSK'::timestamptz, '2011-03-27 01:00:00 MSK'::timestamptz,
    '2011-03-27 02:00:00 MSK'::timestamptz, '2011-03-27 03:00:00 MSK'::timestamptz, '2011-03-27 04:00:00 MSK'::timestamptz;
select '2014-10-25 23:00:00 MSK'::timestamptz, '2014-10-26 00:00:00 MSK'::timestamptz, '2014-10-26 01:00:00 MSK'::timestamptz,
    '2014-10-26 02:00:00 MSK'::timestamptz, '2014-10-26 03:00:00 MSK'::timestamptz;
select make_timestamptz(2014, 10, 26, 0, 0, 0, 'MSK'), make_timestamptz(2014, 10, 26, 1, 0, 0, 'MSK'),
    make_timestamptz(2014, 10, 26, 3, 0, 0, 'MSK');
reset timezone;

-- xid and tid: numbers as C reads them.
select '010'::xid, '42'::xid, '0xffffffff'::xid, '-1'::xid, '010'::xid8, '42'::xid8, '0xffffffffffffffff'::xid8, '-1'::xid8,
    '089'::xid, '0xzz'::xid, ' 12'::xid, '99999999999999999999999'::xid8, '-5'::xid8;
select '(-1,0)'::tid, '(4294967295,65535)'::tid, '(-5,3)'::tid, '( 1, 2)'::tid, '(+1,+2)'::tid;
select '(1,65536)'::tid;
select '(1,-1)'::tid;

-- Identifiers are not cut.
select length(a[1]), length(a[2]) from parse_ident('"' || repeat('x', 100) || '".' || repeat('y', 70)) a;

-- jsonpath: an item before an error is enough, and signs pass over what is no number.
select jsonb '["1",2,0,3]' @? '-$[*]', jsonb '[1,"2",0,3]' @? '-$[*]', jsonb '["1","2"]' @? '-$[*]', jsonb '["1",2]' @? 'strict -$[*]';
select jsonb '[1,"2",0,3]' @? '$[*].double()', jsonb '["x",1]' @? '$[*].double()', jsonb '["x",1]' @? 'exists (-$[*])';
select jsonb_path_exists('["1",2]', '-$[*]'), jsonb_path_exists('[1,"x"]', '$[*].double()');
select jsonb_path_exists('[1,"x"]', 'strict $[*].double()');
select jsonb_path_exists('["x",1]', '$[*].double()');
select '1.2.type()'::jsonpath, '1.2.e'::jsonpath, '1.e3.e'::jsonpath, '1.e3.e4'::jsonpath, '1.2.e3'::jsonpath, '1..e'::jsonpath,
    '1..e3'::jsonpath, '(1.2).type()'::jsonpath;
select '1.type()'::jsonpath;
select '1.2e'::jsonpath;

-- Images of rows: numbers without a sign.
create type pair as (a int, b int);
create type things as (f float8, n numeric, b bool, t text);
select row(1, -2)::pair *< row(1, 3)::pair as a, row(1, -2)::pair *> row(1, 3)::pair as b, row(1, -2)::pair *= row(1, -2)::pair as c,
    row(null, 1)::pair *> row(1, 1)::pair as d, row(1, 2)::pair *<> row(1, 2)::pair as e;
select row(-1.5, 1, true, 'a')::things *< row(1.5, 1, true, 'a')::things as a, row(1, 1.0, true, 'a')::things *= row(1, 1.00, true, 'a')::things as b,
    row(1, 1, true, 'a')::things *> row(1, 1, false, 'a')::things as c, row(1, 1, true, 'a')::things *< row(1, 1, true, 'b')::things as d;

-- Groups inside of lookarounds capture nothing.
select regexp_match('xyz', '(?=(y))y(z)'), 'xyz' ~ 'x(?=(y)(z))';
select 'xyz' ~ 'x(\w)(?=\1)';
select 'xyz' ~ 'x(\w)(?=(\1))';

-- Direct arguments of ordered-set aggregates are the group's.
select p, percentile_cont(p) within group (order by x::float8)
    from generate_series(1, 5) x, (values (0::float8), (0.1), (0.25), (0.5), (0.9), (1)) v(p) group by p order by p;
select p, percentile_disc(array[p, p / 2]) within group (order by x)
    from generate_series(1, 5) x, (values (0::float8), (0.25), (1)) v(p) group by rollup (p) order by p;
select dense_rank(x) within group (order by x) from (values (1), (1), (2), (2), (3), (3)) v(x) group by (x) order by 1;
create table keyed (k int primary key, p float8);
insert into keyed values (1, 0), (2, 1);
select k, percentile_cont(p) within group (order by x::float8) from keyed, generate_series(1, 5) x group by k order by k;

-- Operators and collations of a schema.
select regoper('pg_catalog.||/'), regoperator('pg_catalog.+(int4,int4)'), regcollation('pg_catalog."POSIX"');
select to_regoper('ng_catalog.||/'), to_regoperator('ng_catalog.+(int4,int4)'), to_regcollation('ng_catalog."POSIX"'),
    to_regoper('public.||/');
select regoper('ng_catalog.||/');
select regoper('public.||/');
select regoperator('ng_catalog.+(int4,int4)');
select regcollation('ng_catalog."POSIX"');
select regcollation('pg_catalog.nope');
select regnamespace('foo.bar');
select regrole('foo.bar');
