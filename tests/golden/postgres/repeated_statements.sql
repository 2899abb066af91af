-- The same statement again, with other values, after changes: each time it means what its text says.
create table done (a int, b text);
create procedure note(a int, b text default 'nothing') language sql as $$ insert into done values (a, b) $$;
call note(1, 'one');
call note(2, 'two');
call note(3);
call note(4);
call note(b => 'named', a => 5);
call note(b => 'named', a => 6);
call note(a => -7, b => null);
call note('8', 'eight');
call note('x', 'eight');
call note('9', 'nine');
select * from done order by a, b;
-- Another one by the same name fits better from now on.
create procedure note(a bigint, b text) language sql as $$ insert into done values (a::int * 10, b) $$;
call note(1, 'int');
call note(1::bigint, 'bigint');
call note(2::bigint, 'bigint');
drop procedure note(int, text);
call note(3, 'int is bigint now');
call note(4, 'int is bigint now');
create or replace procedure note(a bigint, b text) language sql as $$ insert into done values (a::int * 100, b || '!') $$;
call note(5, 'replaced');
call note(6, 'replaced');
select * from done where b !~ '^(one|two|named|eight|nine)' order by a, b;
drop procedure note;
call note(7, 'gone');
-- Results, and the end of the transaction.
create procedure twice(inout a int, inout b text) language plpgsql as $$ begin a := a * 2; b := b || b; end $$;
call twice(2, 'ab');
call twice(3, 'cd');
call twice(null, 'cd');
call twice('four', 'cd');
create procedure steps(n int) language plpgsql as $$
begin
  for i in 1..n loop insert into done values (1000 + i, 'step'); commit; end loop;
  n := 1 / (n - 3);
end $$;
truncate done;
call steps(2);
call steps(3);
select count(*) from done;
begin;
call steps(2);
rollback;
call steps(1);
select count(*) from done;
-- Without literals.
select a, b from done where a > 1000 order by a;
select a, b from done where a > 1000 order by a;
alter table done rename b to c;
select a, b from done order by a;
alter table done rename c to b;
select count(*) from done;
delete from done;
select count(*) from done;
-- What a literal means may depend on settings.
create table day (d date);
set datestyle = 'ISO, MDY';
insert into day values ('01/02/2026');
select date '01/02/2026' + 0, d from day;
select d from day where d = '01/02/2026';
set datestyle = 'SQL, DMY';
insert into day values ('01/02/2026');
select date '01/02/2026' + 0, d from day;
select d from day where d = '01/02/2026';
select d from day order by d;
begin;
set local datestyle = 'ISO, YMD';
select d from day order by d;
select date '2026-03-04' + 0;
rollback;
select d from day order by d;
select date '2026-03-04' + 0;
-- Names found elsewhere.
create schema other;
create table other.day (d text);
insert into other.day values ('another table');
set search_path = other, public;
select d from day order by d;
reset search_path;
select d from day order by d;
