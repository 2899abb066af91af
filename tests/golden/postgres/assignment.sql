-- What is stored implies a coercion to the column's type, and that is an assignment: too long is an error.

create table generated_text (
  id int primary key,
  a text,
  short varchar(3) generated always as (a) stored,
  fixed char(4) generated always as (a || '') stored
);
insert into generated_text values (1, 'abc');
insert into generated_text values (2, 'abcd');
insert into generated_text values (3, 'ab    ');
insert into generated_text (id, a) values (4, 'x') on conflict (id) do update set a = 'yy';
insert into generated_text (id, a) values (4, 'x') on conflict (id) do update set a = 'toolong';
update generated_text set a = 'toolong' where id = 1;
update generated_text set a = 'xyz' where id = 1;
select *, length(short) as short_length, octet_length(fixed) as fixed_length from generated_text order by id;

-- An explicit cast truncates.
create table generated_cast (a text, b varchar(3) generated always as (a::varchar(3)) stored,
  c varchar(5) generated always as (a::varchar(3)) stored);
insert into generated_cast values ('abcdef');
select * from generated_cast;
\d generated_cast

create table generated_number (
  a numeric,
  b numeric(4, 2) generated always as (a) stored,
  c int generated always as (a * 2) stored,
  d smallint generated always as (a * 1000) stored
);
insert into generated_number values (1.239);
insert into generated_number values (10.996);
insert into generated_number values (99.995);
insert into generated_number values (40);
select * from generated_number;

create domain digit as int check (value between 0 and 9);
create domain word as varchar(4) not null;
create table generated_domain (a int, b digit generated always as (a + 1) stored, w word generated always as ('w' || a::text) stored);
insert into generated_domain values (3);
insert into generated_domain values (9);
insert into generated_domain values (null);
update generated_domain set a = 20;
update generated_domain set a = 8;
select * from generated_domain;
create table generated_domain2 (a int, w word generated always as ('word' || a::text) stored);
insert into generated_domain2 values (1);

-- Defaults.
create table defaults (id int, v varchar(3) default 'abcdef', c char(2) default 'x', n numeric(4,1) default 1.25, d digit default 12, s smallint default 70000);
insert into defaults (id) values (1);
insert into defaults (id, v) values (1, 'a');
insert into defaults (id, v, d) values (1, 'a', 1);
insert into defaults (id, v, d, s) values (1, 'a', 1, 1);
insert into defaults values (2, 'b', 'abc', 1, 1, 1);
insert into defaults values (2, 'b', 'ab   ', 123.45, 1, 1);
insert into defaults values (3, 'b', default, 1234.5, 1, 1);
update defaults set v = default;
update defaults set n = default, c = default;
select *, octet_length(c) from defaults order by id;
alter table defaults add column late varchar(3) default 'abcdef';
alter table defaults add column late varchar(3) default 'abc';
alter table defaults alter column s drop default;
alter table defaults alter column late set default 'abcdef';
insert into defaults (id, v, d) values (4, 'a', 1);
alter table defaults add column g varchar(2) generated always as (v || v || v) stored;
alter table defaults add column g varchar(3) generated always as (v || v || v) stored;
select * from defaults order by id;

create type pair as (x varchar(2), y digit);
create table composite (p pair, q varchar(2)[] default array['abc'], r digit[] generated always as (array[1, 2]) stored);
insert into composite values (default, array['a']);
insert into composite values (null, default);
insert into composite values (row('ab', 1), array['abc']);
insert into composite values (row('abc', 1), array['ab']);
insert into composite values (row('ab', 10), array['ab']);
insert into composite values (row('ab', 1), array['ab']);
update composite set p.x = 'abc';
update composite set p.y = 11;
update composite set q[2] = 'abc';
update composite set q[2] = 'abc'::varchar(2);
select * from composite;
\d composite

-- Assignments of statements.
create table assigned (id int primary key, v varchar(3), n numeric(3, 1), c char(3));
insert into assigned values (1, 'abcd', 1, 'a');
insert into assigned values (1, 'abc   ', 1.25, 'a');
insert into assigned select 2, 'x' || 'yzw', 1, 'a';
insert into assigned values (1, 'x', 1, 'a') on conflict (id) do update set v = excluded.v || 'long';
insert into assigned values (1, 'x', 1, 'a') on conflict (id) do update set n = 1000;
insert into assigned values (1, 'x', 1, 'a') on conflict (id) do update set n = 99.96;
insert into assigned values (1, 'x', 1, 'a') on conflict (id) do update set v = 'q', n = 99.94, c = 'z';
update assigned set v = v || 'long';
update assigned set (v, n) = (select 'long!', 1);
update assigned set (v, n) = ('long!', 1);
select *, octet_length(c) from assigned;

-- A type change assigns too when it is by default, and says what it cannot do.
alter table assigned alter column v type varchar(2);
update assigned set v = 'abc';
alter table assigned alter column v type varchar(2);
alter table assigned alter column v type varchar(2) using v::varchar(2);
select v from assigned;
