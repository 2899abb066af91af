create sequence s1 start 5 increment 2 minvalue 1 maxvalue 9 cycle cache 1;
select nextval('s1'), nextval('s1'), nextval('s1'), nextval('s1');
create sequence s2 as smallint;
\d s2
alter sequence s2 as int;
\d s2
create sequence s3 increment -1;
select nextval('s3'), nextval('s3');
create sequence bad increment 0;
create sequence bad minvalue 5 maxvalue 4;
create sequence bad start 0;
create sequence bad maxvalue 99999999999 as int;
create sequence if not exists s1;
create sequence s1;
alter sequence s1 restart;
select nextval('s1');
alter sequence s1 maxvalue 100 no cycle;
\d s1
alter sequence nothing restart;
create table owner (a int, b int);
alter sequence s1 owned by owner.a;
\d s1
alter sequence s1 owned by none;
create unlogged table ul (a int);
create table opts (a int) with (fillfactor = 50, autovacuum_enabled = false);
\d+ opts
create table bad (a int) with (nonsense = 1);
create table bad (a int) with (fillfactor = 1000);
create table bad (a int, primary key (b));
create table bad (a int, unique (a, a));
create table bad (a int references nothing);
create table bad (a int null not null);
create table bad (a int default 1 default 2);
create table bad (a int default b);
create table bad (a int check (b > 1));
create table bad (a int check (a));
create table bad (a int check (sum(a) > 1));
create table bad (a int generated always as (random()) stored);
create table bad (a int, b int generated always as (a) stored, c int generated always as (b) stored);
create table bad (a text generated always as identity);
create table bad (a int default 'x');
create table bad (ctid int);
create table bad (a anyelement);
create table nothere.t (a int);
create temp table pg_temp.tt (a int);
create table named (a int constraint positive check (a > 0) constraint uq unique, b int constraint nn not null, constraint pk primary key (b), constraint ck check (a < b));
\d named
create table long_names_are_shortened_where_they_would_not_fit_into_li (a_very_long_column_name_that_goes_on_and_on_and_on int unique, b int primary key);
select relname from pg_class where relname like 'long_names%' order by 1;
create table dup (a int unique, b int, unique (a), unique (a, b));
\d dup
create index on dup (a);
create index on dup (a);
create index on dup ((a + b), lower(a::text));
create index on dup (a desc, b nulls first) include (b);
create unique index on dup (b) where a > 0;
create index on dup (random());
create index on dup (nothing);
create index on dup using nothing (a);
create index on dup (a nothing_ops);
create index concurrently conc on dup (b);
\d dup
reindex table dup;
reindex index conc;
reindex index dup;
insert into dup values (1, 1), (2, 1);
create unique index on dup (b);
create unique index on dup (b, a) nulls not distinct;
create view v as select a, b from dup;
create view v as select 1;
create or replace view v as select a, b, a + b as c from dup;
create or replace view v as select a from dup;
create or replace view v as select a::text, b, a + b as c from dup;
create or replace view v as select a as x, b, a + b as c from dup;
create or replace view dup as select 1;
create view v2 (p, q) as select a, b from dup;
create view v3 (p, q, r) as select a, b from dup;
select * from v2 order by p;
\d+ v2
create view v4 as select * from nothing;
create materialized view mv as select a, count(*) from dup group by a;
select * from mv order by a;
insert into dup values (3, 3);
refresh materialized view mv;
select * from mv order by a;
create unique index on mv (a);
refresh materialized view concurrently mv;
\d mv
drop materialized view mv;
refresh materialized view v;
create table ctas (x, y) as select 1, 'two'::text;
create table ctas as select 1;
create table if not exists ctas as select 1;
create table ctas2 (x, y, z) as select 1, 2;
create table ctas3 as select 1 as a with no data;
select * from ctas3;
create table ctas4 as select 1 as a, 2 as a;
\d ctas
comment on table ctas is 'table';
comment on column ctas.x is 'column';
comment on column ctas.nothing is 'column';
comment on view v2 is 'view';
comment on index conc is 'index';
comment on sequence s1 is 'sequence';
comment on schema public is 'schema';
comment on table nothing is 'x';
comment on view ctas is 'x';
select obj_description('ctas'::regclass), col_description('ctas'::regclass, 1), obj_description('v2'::regclass), obj_description('public'::regnamespace, 'pg_namespace');
comment on table ctas is null;
select obj_description('ctas'::regclass);
create extension if not exists plpgsql;
create extension plpgsql;
create schema pg_mine;
create schema sch;
create schema sch;
create schema if not exists sch;
create schema with_parts create table inner_t (a int primary key) create view inner_v as select * from inner_t;
select * from with_parts.inner_v;
create role gr;
grant select, insert on ctas to gr;
grant usage on schema sch to gr with grant option;
grant all on s1 to gr;
grant nothing on ctas to gr;
grant execute on ctas to gr;
\dp ctas
revoke insert on ctas from gr;
select relacl from pg_class where relname = 'ctas';
select has_table_privilege('gr', 'ctas', 'select'), has_table_privilege('gr', 'ctas', 'insert');
revoke all on ctas, s1 from gr;
revoke all on schema sch from gr;
drop role gr;
drop role gr;
drop role if exists gr;
create table l1 (a int primary key default 5, b text not null check (b <> ''), c int generated always as (a) stored, d int generated always as identity);
create index on l1 (b) where a > 1;
comment on column l1.a is 'copied';
create table l2 (like l1);
\d l2
create table l3 (like l1 including all);
\d+ l3
create table l4 (like nothing);
