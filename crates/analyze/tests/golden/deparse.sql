select id, a + 1 as x, -a as neg, b || 'x' as n from t
select (a > 1 and id < 5 or not (b is null)) as c, a = any (arr) as an, a in (1, 2, 3) as inn, a between 1 and 2 as bt from t
select case when id = 1 then 'a'::text else b end as cs, case a when 1 then 2 end as c2 from t
select coalesce(b, 'z') as co, nullif(a, 3) as ni, greatest(a, 2) as gr, least(a, 1) as le from t
select arr[1] as el, arr[1:2] as sl, j -> 'a' as jj, array[1, 2, a] as ar, array[]::int[] as em from t
select b like 'a%' as lk, b ilike 'x' as il, d + 1 as dd, d::timestamp as ts1, extract(year from d) as ex, c::text as nt, id::int as ii from t
select b collate "C" as col, b is null as nu, (a > 1) is true as ft, a is distinct from 5 as dis from t
select current_date as cd, now() as nw, substring(b from 2 for 3) as sb, trim(both 'x' from b) as tr, position('a' in b) as ps, d at time zone 'UTC' as az, localtimestamp(3) as lts from t
select 'x'::varchar(3) as vc, 1.5 as num, interval '1 day' as iv, true as bo, date '2026-01-01' as dl, -5 as m5, n::numeric(5,1) as nt5, 100000000000 as bi, '{1,2}'::int[] as lit, 'happy'::mood as md from t
select (p).a as pa, (p).b as pb, (id, b) = (1, 'x') as rc, (id, b) < (1, 'x') as rl, row(a, b)::text as rt from t
select array(select a from u) as ars, (select max(id) from u) as mx, not exists (select 1 from u) as ne from t
select -(-a) as nn, (a + 1) * 2 as mul, a + 1 * 2 as mul2, format('%s', a) as fm, a - (1 - 2) as su from t
select t.id, u.name from t join u on u.t_id = t.id where t.a > 1 order by u.name desc nulls last, 1 limit 5 offset 2
select t.id, u.name from t left join u on u.t_id = t.id and u.a > 0, g where g.id = t.id
select x.id, y.b from t x, t y where x.id = y.a
select count(*) as cnt, sum(a) filter (where id > 2) as s, string_agg(b, ',' order by id desc) as sa, count(distinct a) as cd from t group by d having count(*) > 1
with x(q) as (select id from t where id > 1) select x.q from x where x.q in (select id from u) and x.q > (select min(id) from u)
select id from t union all select id from u
select id from t union (select a from u except select 1) order by 1
select distinct on (a) a, row_number() over (partition by b order by id) as rn, sum(n) over w as sw from t window w as (order by id rows between 1 preceding and current row)
select gs, un.x, f.q from generate_series(1, 3) gs, unnest(array[1, 2]) with ordinality un(x, o), (values (1, 'a'), (2, 'b')) f(p, q)
select * from (select id as one, a from t) s where s.one > 1
values (1, 'a'), (2, 'b')
select v.id, v.a from v where exists (select from u where u.id = v.id)
select percentile_cont(0.5) within group (order by a) as pc, mode() within group (order by b desc) as mo from t
select id from t for update
