create table a (id serial primary key, name varchar(10) default 'none', created timestamp);
\d a
create table a (x int);
create table if not exists a (x int);
insert into a (created) values ('2026-01-01');
alter table a add column note text not null default 'n/a';
alter table a add column flag boolean;
alter table a add column if not exists flag boolean;
alter table a add column name int;
select * from a;
alter table a drop column created;
alter table a drop column nothing;
alter table a drop column if exists nothing;
alter table a rename column note to remark;
alter table a alter column name type text;
alter table a alter column name set default 'x', alter column remark drop not null;
alter table a alter column flag type int using case when flag then 1 else 0 end;
insert into a (flag) values (3);
select * from a order by id;
alter table a rename to b;
\d b
select * from a;
create index b_name on b (name);
create unique index on b (lower(name), remark desc nulls last) where id > 1;
create index if not exists b_name on b (name);
create index b_name on b (name);
create index on b (nothing);
\d b
drop index b_name;
drop index b_name;
drop index if exists b_name;
create view v as select id, name from b where id > 0;
\d v
select * from v order by id;
create or replace view v as select id, name, remark from b;
create or replace view v as select name from b;
drop table b;
drop table b cascade;
create schema s;
create table s.t (x int);
insert into s.t values (1);
select * from s.t;
select * from t;
set search_path to s, public;
select * from t;
create table u (y int);
\dt
reset search_path;
drop schema s;
drop schema s cascade;
create type mood as enum ('sad', 'ok', 'happy');
create table p (m mood, n mood[]);
insert into p values ('ok', '{happy,sad}'), ('happy', null);
insert into p values ('mad');
select * from p where m > 'sad' order by m desc;
alter type mood add value 'meh' before 'ok';
select enum_range(null::mood), 'meh'::mood < 'ok'::mood;
\dT mood
drop type mood;
create sequence q increment 5 start 10 maxvalue 25;
select nextval('q'), nextval('q'), currval('q');
select nextval('q');
select nextval('q');
select nextval('q');
select setval('q', 10), nextval('q'), lastval();
select last_value, is_called from q;
alter sequence q restart with 20 cycle;
select nextval('q'), nextval('q'), nextval('q');
\d q
create temp table tmp (x int) on commit drop;
begin; create temp table tmp (x int) on commit delete rows; insert into tmp values (1); select * from tmp; commit; select * from tmp;
create table copy_of as select 1 as one, 'two'::text as two;
\d copy_of
select * into into_table from copy_of;
select * from into_table;
create table like_it (like copy_of including all, extra int);
\d like_it
comment on table copy_of is 'a comment';
select obj_description('copy_of'::regclass);
create table bad (x nothing);
create table bad (x int, x int);
create table bad (x int primary key, y int primary key);
create table nokey (a int, b text);
insert into nokey values (2, 'b'), (1, 'a'), (3, null);
alter table nokey add primary key (a);
select * from nokey order by a;
\d nokey
alter table nokey add primary key (b);
insert into nokey values (1, 'again');
alter table nokey add constraint bb unique (b);
alter table nokey drop constraint nokey_pkey;
insert into nokey values (1, 'again');
alter table nokey alter column a set not null;
drop table nothing;
drop table if exists nothing, copy_of;
drop view v;
drop sequence q;
