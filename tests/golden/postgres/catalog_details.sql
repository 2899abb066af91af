-- Small facts of the catalogs that dumps and tools read.
create table ck (a int, constraint c check (a > 0) no inherit, constraint d check (a < 9));
select conname, connoinherit, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'ck'::regclass order by 1;
alter table ck add constraint e check (a <> 5) no inherit;
select pg_get_constraintdef(oid) from pg_constraint where conname = 'e';
\d ck
create index ck_a on ck (a); create index ck_b on ck ((a + 1));
cluster ck using ck_a; select indexrelid::regclass, indisclustered from pg_index where indrelid = 'ck'::regclass order by 1::text;
cluster ck using ck_b; select indexrelid::regclass, indisclustered from pg_index where indrelid = 'ck'::regclass order by 1::text;
alter table ck set without cluster; select indexrelid::regclass, indisclustered from pg_index where indrelid = 'ck'::regclass order by 1::text;
cluster ck using nope; cluster ck;
-- Domains with a collation.
create domain dcoll as text collate "C"; create domain dplain as varchar(10);
select typname, typcollation::regcollation from pg_type where typname in ('dcoll', 'dplain') order by 1;
create domain dnocoll as int collate "C";
create table tc (v dcoll, w dplain, x dcoll collate "POSIX");
select attname, attcollation::regcollation from pg_attribute where attrelid = 'tc'::regclass and attnum > 0 order by attnum;
\dD
-- Text with backslashes.
create domain email as varchar check (value ~ '[^@]+@[^@]+\.[^@]+');
select pg_get_constraintdef(oid) from pg_constraint where contypid = 'email'::regtype;
create table bs (t text default 'a\b' check (t <> 'it''s \n')); create view vbs as select 'x\y' as t, E'tab\there' as u;
select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'bs'::regclass; select pg_get_viewdef('vbs'::regclass); select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'bs'::regclass;
-- Parameters of functions.
create function va(a int, variadic c int[] default '{}') returns int language sql as 'select a';
create function vo(inout a int, out b text) language sql as 'select 1, ''x''::text';
create function vt(a int) returns table (x int, y text) language sql as 'select 1, ''x''::text';
select specific_name ~ '^va', parameter_name, parameter_mode, data_type from information_schema.parameters where specific_schema = 'public' order by specific_name, ordinal_position;
-- System columns.
select attname, attnum, atttypid::regtype, attlen, attnotnull from pg_attribute where attrelid = 'ck'::regclass and attnum < 0 order by attnum;
select attname from pg_attribute where attrelid = 'vbs'::regclass and attnum < 0 order by 1;
select attname from pg_attribute where attrelid = 'ck_a'::regclass and attnum < 0 order by 1;
select attname from pg_attribute where attrelid = 'pg_class'::regclass and attnum < 0 order by 1;
create type comp as (a int); select attname from pg_attribute where attrelid = 'comp'::regclass and attnum < 0 order by 1;
create sequence sq; select attname from pg_attribute where attrelid = 'sq'::regclass and attnum < 0 order by 1;
-- Recursive views.
create view vr as with recursive r(i) as (select 1 union all select i + 1 from r where i < 3) select i from r; select pg_get_viewdef('vr'::regclass);
create view vw as with w as (select a + 1 from ck), v as (select count(*), a from ck group by a) select * from w, v; select pg_get_viewdef('vw'::regclass);
