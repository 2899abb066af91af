-- ON CONFLICT (...) WHERE: partial indexes that arbitrate, by constants and by parameters.
create table oc (a int, b text, n int, t timestamptz);
create unique index oc_ab on oc (a, b) where b = 'x';
prepare po(int, text, text) as insert into oc values ($1, $2, 1) on conflict (a, b) where b = $3 do update set n = oc.n + 1 returning n;
execute po(1, 'x', 'x'); execute po(1, 'x', 'x'); execute po(1, 'y', 'x'); execute po(1, 'y', 'x');
execute po(1, 'x', 'y');
execute po(1, 'x', null);
insert into oc values (1, 'x', 1) on conflict (a, b) where b = 'x' do update set n = oc.n + 1 returning n;
insert into oc values (1, 'x', 1) on conflict (a, b) where b = 'y' do update set n = oc.n + 1 returning n;
insert into oc values (1, 'x', 1) on conflict (a, b) do nothing;
insert into oc values (1, 'x', 1) on conflict (a, b) where b = 'x' and n > 0 do nothing returning n;
insert into oc values (1, 'x', 1) on conflict (b, a) where b in ('x') do nothing returning n;
insert into oc values (1, 'x', 1) on conflict (a) where b = 'x' do nothing;
-- A condition that says more than the predicate.
create unique index oc_n on oc (n) where n > 10;
insert into oc values (2, 'q', 20), (3, 'q', 21) on conflict (n) where n > 10 do nothing;
insert into oc values (2, 'q', 20) on conflict (n) where n > 15 do nothing returning *;
insert into oc values (2, 'q', 20) on conflict (n) where n = 20 do update set b = 'again' returning a, b, n;
insert into oc values (2, 'q', 20) on conflict (n) where n > 5 do nothing;
prepare pn(int) as insert into oc values (9, 'p', 21) on conflict (n) where n > $1 do update set b = oc.b || '!' returning a, b, n;
execute pn(12); execute pn(20); execute pn(10); execute pn(9);
-- Without a condition of its own, one that is not partial; with one, both kinds.
create unique index oc_a on oc (a) where b is not null; create unique index oc_all on oc (t);
insert into oc values (50, 'z', 1, '2026-01-01') on conflict (t) where a > 5 do nothing;
insert into oc values (51, 'z', 1, '2026-01-01') on conflict (t) where a > 5 do nothing returning a;
insert into oc values (50, 'zz', 7, null) on conflict (a) where b is not null do update set b = excluded.b returning a, b;
insert into oc values (50, 'zz', 7, null) on conflict (a) where b = 'zz' do update set b = 'strict' returning a, b;
with w as (insert into oc values (50, 'w', 7, null) on conflict (a) where b is not null do update set b = excluded.b returning a, b) select * from w;
do $$ declare k text := 'x'; begin insert into oc values (1, 'x', 1) on conflict (a, b) where b = k do update set n = 99; end $$;
select a, b, n from oc order by a, b, n;
