-- A domain's checks hold whatever way a value comes.
create domain email as varchar check (value ~ '[^@]+@[^@]+\.[^@]+');
create domain di as int check (value > 0);
create domain dt as text check (value > 'm');
create domain dn as int not null;
create domain dd as di check (value < 100);
create domain dshort as varchar(3) check (value <> 'no');
create table t (id serial, e email, i di, t dt, d dd, s dshort);
-- Literals, in statements that are alike but for them.
insert into t (e) values ('fred');
insert into t (e) values ('fred@example.org');
insert into t (e) values ('wilma');
insert into t (i) values (-1);
insert into t (i) values ('-1');
insert into t (t) values ('a');
insert into t (d) values ('100');
insert into t (d) values ('0');
insert into t (s) values ('no');
insert into t (s) values ('long');
insert into t (s) values ('yes');
update t set e = 'barney' where id = 1;
select '-1'::di; select '5'::di; select 'fred'::email; select '150'::dd; select '-1'::dd; select null::dn; select ''::dn;
select '{1,-1}'::di[]; select '{a}'::dt[]; select array['a']::dt[]; select array['z']::dt[]; select '{NULL}'::dn[]; select '{1}'::dn[];
select count(*) from t;
-- Parameters without a type, with one, and of statements kept for later.
prepare p_email as insert into t (e) values ($1) returning e;
execute p_email('fred'); execute p_email('x@y.z');
prepare p_typed(email) as select $1;
execute p_typed('fred'); execute p_typed('x@y.z');
prepare p_array(di[]) as select $1;
execute p_array('{1,-2}'); execute p_array('{1,2}');
-- COPY.
copy t (i, t) from stdin;
1	z
-1	z
\.
copy t (i, t) from stdin;
1	a
\.
copy t (e) from stdin csv;
x@y.z
fred
\.
select count(*) from t where i = 1;
-- Composite types, by text and by row.
create type pair as (i di, t dt, n dn);
select '(1,z,1)'::pair; select '(-1,z,1)'::pair; select '(1,z,)'::pair; select '{"(1,a,1)"}'::pair[];
select row(1, 'z', 1)::pair; select row(-1, 'z', 1)::pair; select row(1, 'a', 1)::pair; select row(1, 'z', null)::pair;
create domain dpair as pair check ((value).i < 10);
select '(1,z,1)'::dpair; select '(11,z,1)'::dpair; select '(-1,z,1)'::dpair; select row(1, 'z', 1)::dpair; select row(11, 'z', 1)::dpair;
create domain dlist as int[] check (value[1] > 0);
select '{1,2}'::dlist; select '{0,2}'::dlist; select array[0, 1]::dlist;
create table l (f dlist); insert into l values ('{1}'); update l set f[1] = 0; update l set f[2] = 0; select * from l;
-- JSON.
select json_populate_record(null::pair, '{"i":1,"t":"z","n":1}');
select json_populate_record(null::pair, '{"i":-1,"t":"z","n":1}');
select json_populate_record(null::pair, '{"i":1,"t":"a","n":1}');
select json_populate_record(null::pair, '{"i":1,"t":"z"}');
select jsonb_populate_record(null::pair, '{"i":1,"t":"z","n":null}');
select jsonb_populate_record(row(1, 'z', 1)::pair, '{"i":2}');
select * from json_populate_recordset(null::pair, '[{"i":1,"t":"z","n":1},{"i":0,"t":"z","n":1}]');
select * from json_to_record('{"a":"x","l":[0]}') as x(a email, l dlist);
select * from jsonb_to_record('{"a":"x@y.z","l":[1]}') as x(a email, l dlist);
select json_populate_record(null::dpair, '{"i":11,"t":"z","n":1}');
-- Arguments and results of functions.
create function of_text(dt) returns text language sql as 'select $1::text';
select of_text('a'); select of_text('z');
create function to_dt(text) returns dt language sql as 'select $1';
select to_dt('z'); select to_dt('a');
create function many(text) returns setof dt language sql as 'select $1 union all select ''z''';
select many('y'); select many('a');
do $$ declare v dt := 'z'; begin v := 'a'; end $$;
do $$ declare v dn; begin end $$;
-- Columns: defaults, added ones, types that change.
create table c (a int); insert into c values (1);
alter table c add column n dn;
alter table c add column i di default -1;
alter table c add column i di default 1;
alter table c alter column a type di; alter table c alter column a type di using -a;
select * from c;
-- A qualified name where the search path does not have the domain.
create schema elsewhere; create domain elsewhere.da as int check (value > 0); select '-1'::elsewhere.da; select (-1)::elsewhere.da;
-- A check that fails by itself, and one that calls a function.
create domain dquotient as int check (10 / value > 0); select '0'::dquotient; select '5'::dquotient;
create function is_even(int) returns boolean language plpgsql as 'begin return $1 % 2 = 0; end';
create domain deven as int check (is_even(value)); select '3'::deven; select '{2,3}'::deven[]; select '4'::deven;
copy (select '4'::deven) to stdout;
