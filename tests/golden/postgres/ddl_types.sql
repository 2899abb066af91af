create type mood as enum ('sad', 'ok', 'happy');
create type mood as enum ('a');
alter type mood add value 'better' after 'ok';
alter type mood add value 'worst' before 'sad';
alter type mood add value 'ok';
alter type mood add value if not exists 'ok';
alter type mood add value 'x' before 'nothing';
alter type mood rename value 'sad' to 'unhappy';
alter type mood rename value 'sad' to 'x';
alter type mood rename value 'ok' to 'happy';
select enum_range(null::mood);
create table m (a mood default 'ok' check (a <> 'happy'), b mood[] default '{ok}');
insert into m default values returning *;
insert into m values ('happy');
alter type mood rename value 'ok' to 'fine';
insert into m default values returning *;
alter type mood rename to feeling;
\d m
select array_agg(a order by a) from m;
create index on m (a);
select a from m where a > 'unhappy' order by a;
create type pair as (x int, y text);
create type pair as (x int);
create table c (p pair, q pair[]);
insert into c values (row(1, 'a'), array[row(2, 'b')::pair]);
select p, (p).x, (p).y, q[1].y from c;
\d pair
alter type pair add attribute z int;
alter type pair rename to couple;
\d c
create domain positive as int check (value > 0) not null;
create domain short as varchar(3) default 'abc';
create table d (a positive, b short);
insert into d values (1);
insert into d values (0);
insert into d values (null);
insert into d values (1, 'long');
select * from d;
\d d
select 5::positive, (-5)::positive;
\dD
drop domain positive;
drop domain short cascade;
create table rowtype (x int, y couple);
select r from rowtype r;
drop type couple;
