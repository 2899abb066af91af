\set VERBOSITY verbose
\set SHOW_CONTEXT never
\set VERBOSITY default
create table a (id int primary key, b text unique);
create table r (id int references a, bb text references a (b), c int default 3);
create view v1 as select id, b from a;
create view v2 as select id from v1;
create view v3 as select b from a where id > 0;
drop table a;
drop view v1;
alter table a drop column b;
alter table a drop constraint a_pkey;
drop index a_pkey;
drop table r;
alter table a drop column b cascade;
\d a
select relname from pg_class where relname in ('v1', 'v2', 'v3') order by 1;
drop table a cascade;
create type color as enum ('red', 'green');
create table t (c color, d color[], e int);
create function f(color) returns int language sql as 'select 1';
drop type color;
drop type color cascade;
\d t
create sequence s;
create table u (id int default nextval('s'), other int);
drop sequence s;
drop sequence s cascade;
\d u
alter sequence if exists s owned by u.id;
create sequence s2 owned by u.id;
drop table u;
select count(*) from pg_class where relname = 's2';
create table idt (id int generated always as identity);
drop sequence idt_id_seq;
drop table idt;
create schema sc;
create table sc.x (y int);
create view sc.xv as select * from sc.x;
create function sc.g() returns int language sql as 'select 1';
drop schema sc;
drop schema sc restrict;
drop schema if exists nothing;
drop schema nothing;
drop schema pg_catalog;
drop schema sc cascade;
create table m (n int);
create view mv as select n from m;
drop view m;
drop table mv;
drop index m;
drop sequence m;
drop table if exists none1, none2;
drop view if exists none;
drop index if exists none;
drop sequence if exists none;
drop type if exists none;
drop function if exists none(int);
drop function none(int);
drop function none;
drop procedure if exists none();
drop materialized view if exists none;
drop trigger if exists tr on m;
drop extension if exists none;
drop type none;
drop table nothere.x;
drop table if exists nothere.x;
create function h(a int) returns int language sql as 'select a';
create function h(a text) returns int language sql as 'select 1';
drop function h;
drop function h(text);
drop function h;
create table g (a int, b int generated always as (a * 2) stored);
alter table g drop column a;
alter table g drop column a cascade;
\d g
create table w (a int, b int, c int check (a < b));
alter table w drop column b;
\d w
create table truncated (id serial primary key);
create table referring (id int references truncated);
truncate truncated;
insert into truncated default values;
truncate truncated, referring restart identity;
insert into truncated default values returning id;
truncate truncated cascade;
insert into truncated default values returning id;
truncate nothing;
truncate mv;
