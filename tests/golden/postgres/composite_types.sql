-- Row types that change while values of them are stored.
create type typ1 as (x int, y int);
create table tab1 (a int primary key, b typ1, l typ1[]);
create index tab1_x on tab1 (((b).x));
insert into tab1 values (1, (2, 3), array[(4, 5)::typ1, null, (6, null)::typ1]), (0, null, '{}'), (9, (null, null), null);
alter type typ1 add attribute c text;
insert into tab1 values (2, (2, 3, 'z'), '{"(1,2,q)"}');
select * from tab1 order by a;
select a, (b).c, b is null, b::text, row_to_json(b), to_json(l) from tab1 order by a;
alter type typ1 drop attribute y;
select a, (b).x, (b).c, b::text, row_to_json(b), l, to_json(l) from tab1 order by a;
select b::text::typ1 from tab1 order by a;
alter type typ1 rename attribute x to first;
select row_to_json(b), (b).first from tab1 order by a;
select a from tab1 where (b).first = 2 order by a;
select a from tab1 where b = (2, 'z')::typ1;
alter type typ1 add attribute y numeric, add attribute d date;
update tab1 set b.y = 1.5 where a = 1; update tab1 set b.d = '2026-01-01' where a = 2;
select * from tab1 order by a;
alter type typ1 drop attribute first, drop attribute if exists nothing, drop attribute d cascade;
select * from tab1 order by a;
alter type typ1 add attribute c int;
alter type typ1 drop attribute nope;
-- Values within values, through other types, arrays and domains.
create type inner_t as (i int);
create type outer_t as (n inner_t, m inner_t[]);
create domain outer_d as outer_t check ((value).n is not null);
create table nested (id int, o outer_t, d outer_d, p outer_t[]);
insert into nested values (1, row(row(1), array[row(2)::inner_t]), row(row(3), null), array[row(row(4), '{}')::outer_t]);
alter type inner_t add attribute j text;
select * from nested; select ((o).n).j, ((o).m)[1] from nested;
update nested set o.n.j = 'x'; select o, row_to_json(o), row_to_json(d), to_json(p) from nested;
alter type inner_t rename attribute i to k; select row_to_json(o), to_json(p) from nested;
alter type inner_t drop attribute k; select * from nested;
create materialized view kept as select o, p from nested;
alter type inner_t add attribute z int; select * from kept;
-- The row type of a table.
create table base (a int, b text); create table uses (id serial, r base);
insert into base values (1, 'one'); insert into uses (r) select base from base;
alter table base add column c int; select r, row_to_json(r) from uses;
alter table base drop column a; select r, row_to_json(r) from uses;
alter table base rename column b to bb; select r, row_to_json(r), (r).bb from uses;
alter table base add column d int default 5;
alter table base alter column c type bigint;
select base, base::text::base = base from base;
-- Within a transaction, and taken back.
begin; alter type typ1 add attribute t text; select b from tab1 where a = 1; savepoint s; alter type typ1 drop attribute c; select b from tab1 where a = 1; rollback to s; select b from tab1 where a = 1; rollback;
select b from tab1 where a = 1;
-- Attributes that go with the type they have.
create type gone as enum ('g'); alter type typ1 add attribute e gone; update tab1 set b.e = 'g' where a = 1;
select b from tab1 where a = 1; drop type gone; drop type gone cascade; select b from tab1 where a = 1;
