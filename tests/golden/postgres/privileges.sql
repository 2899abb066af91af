-- Who may do what: access lists are asked before a statement runs.
create role priv_owner createdb;
create role priv_alice;
create role priv_bob noinherit;
create role priv_group;
grant priv_group to priv_alice;
grant priv_group to priv_bob;

create schema priv authorization priv_owner;
set role priv_owner;
set search_path to priv;
create table t (id int primary key, secret text, note text);
insert into t values (1, 's1', 'n1'), (2, 's2', 'n2');
create sequence s;
create view v as select id, note from t;
create function f(int) returns int language sql as 'select $1 + 1';
create type color as enum ('red', 'green');
reset role;

-- Without USAGE on the schema nothing in it is found.
set role priv_alice;
select * from priv.t;
select priv.f(1);
select * from t;
create table priv.u (a int);
reset role;
grant usage on schema priv to public;

-- Tables.
set role priv_alice;
select * from priv.t;
select 1 from priv.t where false;
insert into priv.t values (3, 'x', 'y');
update priv.t set note = 'z';
delete from priv.t;
truncate priv.t;
select * from priv.v;
explain (costs off) select * from priv.t;
select * from priv.t for update;
lock table priv.t;
copy priv.t to stdout;
\copy priv.t from '/dev/null'
select count(*) from priv.t;
prepare p as select * from priv.t;
execute p;
reset role;

-- The view is checked as its owner.
set role priv_owner;
grant select on priv.v to priv_alice;
reset role;
set role priv_alice;
select * from priv.v order by id;
reset role;
set role priv_owner;
revoke select on t from priv_owner;
reset role;
set role priv_alice;
select * from priv.v;
reset role;
set role priv_owner;
select * from t;
grant all on t to priv_owner;
create view vi with (security_invoker = true) as select id from t;
grant select on vi to priv_alice;
reset role;
set role priv_alice;
select * from priv.vi;
reset role;

-- Columns.
set role priv_owner;
grant select (id, note), update (note), insert (id) on t to priv_alice;
reset role;
set role priv_alice;
select id, note from priv.t order by id;
select secret from priv.t;
select * from priv.t;
select t from priv.t;
select count(*) from priv.t;
select id from priv.t where secret = 's1';
update priv.t set note = 'changed' where id = 1 returning id;
update priv.t set note = 'changed' where id = 1 returning *;
update priv.t set secret = 'changed';
insert into priv.t (id) values (10);
insert into priv.t values (11, 'a');
insert into priv.t (id) values (10) on conflict (id) do update set note = excluded.note;
insert into priv.t (id) values (10) on conflict (id) do update set secret = excluded.secret;
insert into priv.t (id) values (12) returning secret;
delete from priv.t where id = 1;
select a.id from priv.t a join priv.t b using (id) where a.id = 1;
select a.secret from priv.t a join priv.t b using (secret);
select id from priv.t where id = 1 for update;
copy (select id from priv.t order by id) to stdout;
copy priv.t (secret) to stdout;
select has_column_privilege('priv.t', 'id', 'select'), has_column_privilege('priv.t', 'secret', 'select'),
  has_any_column_privilege('priv.t', 'select'), has_table_privilege('priv.t', 'select');
reset role;
select attname, attacl from pg_attribute where attrelid = 'priv.t'::regclass and attnum > 0 order by attnum;
revoke select on priv.t from priv_alice;
select attname, attacl from pg_attribute where attrelid = 'priv.t'::regclass and attnum > 0 order by attnum;
select relacl from pg_class where oid = 'priv.t'::regclass;

-- Groups: with and without inheritance.
grant select, delete on priv.t to priv_group;
set role priv_alice;
select id from priv.t order by id;
reset role;
set role priv_bob;
select id from priv.t order by id;
set role priv_group;
select id from priv.t order by id;
reset role;
select has_table_privilege('priv_bob', 'priv.t', 'select'), has_table_privilege('priv_alice', 'priv.t', 'select'),
  pg_has_role('priv_bob', 'priv_group', 'member'), pg_has_role('priv_bob', 'priv_group', 'usage');

-- Sequences.
set role priv_alice;
select nextval('priv.s');
reset role;
grant usage on sequence priv.s to priv_alice;
set role priv_alice;
select nextval('priv.s');
select currval('priv.s');
select setval('priv.s', 10);
select last_value from priv.s;
reset role;
grant update, select on sequence priv.s to priv_alice;
set role priv_alice;
select setval('priv.s', 10);
select last_value from priv.s;
reset role;

-- Functions.
set role priv_alice;
select priv.f(1);
reset role;
revoke execute on function priv.f(int) from public;
set role priv_alice;
select priv.f(1);
select id from priv.t where priv.f(id) = 2;
reset role;
set search_path to priv;
create function peek() returns bigint language sql security definer set search_path to priv as 'select count(*) from t where secret is not null';
create function who() returns text language plpgsql security definer as $$ begin return current_user || ' ' || session_user; end $$;
alter function who() owner to priv_owner;
set role priv_alice;
select priv.peek();
select priv.who(), current_user;
reset role;

-- Ownership.
set role priv_alice;
alter table priv.t add column x int;
alter table priv.t rename to tt;
drop table priv.t;
drop view priv.v;
drop sequence priv.s;
drop function priv.f(int);
drop type priv.color;
drop schema priv;
alter schema priv rename to p2;
create index on priv.t (note);
comment on table priv.t is 'mine';
alter sequence priv.s restart;
alter function priv.f(int) owner to priv_alice;
alter table priv.t owner to priv_alice;
create or replace function priv.f(int) returns int language sql as 'select 0';
create or replace view priv.v as select 1;
grant select on priv.t to priv_bob;
revoke select on priv.t from priv_group;
vacuum priv.t;
reset role;

-- Creating.
set role priv_alice;
create table priv.n (a int);
create function priv.n() returns int language sql as 'select 1';
create type priv.n as enum ('a');
create schema mine;
create database priv_db;
create role priv_x;
alter role priv_bob createdb;
drop role priv_bob;
grant priv_owner to priv_bob;
create extension pgcrypto;
create temporary table tmp (a int);
insert into tmp values (1);
select * from tmp;
reset role;
grant create on schema priv to priv_alice;
set role priv_alice;
create table priv.n (a priv.color);
create table priv.child (id int references priv.t);
reset role;
grant references on priv.t to priv_alice;
revoke usage on type priv.color from public;
set role priv_alice;
create table priv.child (id int references priv.t);
create table priv.n2 (a priv.color);
create table priv.n3 (a priv.color[]);
reset role;

-- Grant options.
set role priv_owner;
grant select on t to priv_alice with grant option;
reset role;
set role priv_alice;
grant select on priv.t to priv_bob;
grant select, update on priv.t to priv_bob;
grant all on priv.t to priv_bob;
grant update on priv.t to priv_bob;
reset role;
select relacl from pg_class where oid = 'priv.t'::regclass;
set role priv_owner;
revoke select on t from priv_alice;
revoke grant option for select on t from priv_alice cascade;
select relacl from pg_class where oid = 't'::regclass;
revoke all on t from priv_alice;
grant select on t to public with grant option;
grant usage on t to priv_alice;
grant execute on schema priv to priv_alice;
reset role;

-- Default privileges.
alter default privileges for role priv_owner in schema priv grant select on tables to priv_bob;
alter default privileges for role priv_owner revoke execute on functions from public;
set role priv_owner;
create table d (a int);
create function d() returns int language sql as 'select 1';
reset role;
select relacl from pg_class where oid = 'priv.d'::regclass;
select proacl from pg_proc where oid = 'priv.d()'::regprocedure;
select defaclobjtype, defaclnamespace::regnamespace, defaclacl from pg_default_acl order by 1;
set role priv_bob;
select * from priv.d;
select priv.d();
reset role;

-- Roles.
set session authorization priv_bob;
set role priv_group;
select current_user, session_user;
set role priv_owner;
set role none;
set session authorization priv_alice;
show is_superuser;
reset session authorization;
begin;
set local role priv_bob;
select current_user;
commit;
select current_user;
begin;
set role priv_bob;
savepoint a;
set role priv_alice;
rollback to a;
select current_user;
rollback;
select current_user;
select * from pg_authid where false;
set role priv_bob;
select * from pg_authid;
select rolname from pg_roles where rolname = 'priv_bob';
select pg_reload_conf();
checkpoint;
set log_statement = 'all';
reset role;

-- A renamed role keeps what it has.
alter role priv_bob rename to priv_robert;
select relacl from pg_class where oid = 'priv.d'::regclass;
alter table priv.d owner to priv_alice;
select relacl from pg_class where oid = 'priv.d'::regclass;

-- In functions and blocks.
create function reads() returns bigint language plpgsql as $$ declare n bigint; begin select count(*) into n from priv.d; return n; end $$;
grant execute on function reads() to priv_robert;
select priv.reads();
set role priv_group;
select priv.reads();
do $$ begin perform 1 from priv.d; exception when insufficient_privilege then raise notice 'no: %', sqlerrm; end $$;
reset role;

select has_schema_privilege('priv_group', 'priv', 'usage'), has_schema_privilege('priv_group', 'priv', 'create'),
  has_function_privilege('priv_group', 'priv.f(int)', 'execute'), has_sequence_privilege('priv_alice', 'priv.s', 'usage'),
  has_type_privilege('priv_group', 'priv.color', 'usage'), has_language_privilege('priv_group', 'sql', 'usage'),
  has_table_privilege('priv_owner', 'priv.t', 'select with grant option');
select 'priv_alice=r*w/priv_owner'::aclitem;
select 'nobody_there=r/priv_owner'::aclitem;
select grantor::regrole, grantee::regrole::text, privilege_type, is_grantable
  from aclexplode((select relacl from pg_class where oid = 'priv.t'::regclass)) order by 1, 2, 3 limit 3;

-- Going away.
\set VERBOSITY terse
drop role priv_robert;
\set VERBOSITY default
drop owned by priv_robert;
drop role priv_robert;
reassign owned by priv_owner to priv_alice;
drop owned by priv_owner;
drop role priv_owner;
drop owned by priv_alice cascade;
drop owned by priv_group;
drop role priv_alice, priv_group;
