-- What PL/pgSQL refuses when a function is created, and how values fit what a function returns.
\set VERBOSITY default
create function out_value(in i int, out j int) returns int language plpgsql as $$
begin
  return i + 1;
end$$;
create function missing_value() returns int language plpgsql as $$
begin
    return ;
end$$;
create function void_value() returns void language plpgsql as $$
begin
    return 5;
end$$;
create function set_value() returns setof int language plpgsql as $$
begin
    return 5;
end$$;
create procedure procedure_value() language plpgsql as $$ begin return 5; end$$;
create function next_in_plain() returns int language plpgsql as $$ begin return next 5; end$$;
create function query_in_plain() returns int language plpgsql as $$ begin return query select 5; end$$;
create function next_with_outputs(out a int) returns setof int language plpgsql as $$ begin return next 5; end$$;
create function next_without_value() returns setof int language plpgsql as $$ begin return next; end$$;
do $$begin return 1; end$$;
create function bad_query() returns int language plpgsql as $$
declare r record;
begin
    for r in select I fought the law, the law won loop
        raise notice 'in loop';
    end loop;
    return 5;
end$$;

-- Rows as results.
create type compostype as (x int, y varchar);
create function compos1() returns compostype language plpgsql as $$ declare v record; begin v := (1, 'hello'::varchar); return v; end$$;
select compos1();
create function compos2() returns compostype language plpgsql as $$ begin return (1, 'hello'::varchar); end$$;
select compos2();
select * from compos2();
create function compos3() returns compostype language plpgsql as $$ begin return (1, 'hello'); end$$;
select compos3();
create function compos4() returns compostype language plpgsql as $$ begin return (1, 'hello'::varchar, 2); end$$;
select compos4();
create function compos5() returns compostype language plpgsql as $$ begin return 2; end$$;
select compos5();
create function compos6() returns record language plpgsql as $$ declare v int := 42; begin return v; end$$;
select * from compos6() as (x int);
create function compos7() returns compostype language plpgsql as $$ declare v compostype; begin return v; end$$;
select compos7();
create function compos8() returns compostype language plpgsql as $$ begin return null; end$$;
select compos8() is null;
create function as_int() returns int language plpgsql as $$ begin return 'abc'; end$$;
select as_int();
create function no_return() returns int language plpgsql as $$ begin end$$;
select no_return();

-- A table's row type whose columns have come and gone.
create table shifting (a int, b int, c int);
insert into shifting values (1, 2, 3), (4, 5, 6);
create function shifting_rows() returns setof shifting language plpgsql as $$
begin
  return query select * from shifting;
  return query execute 'select * from shifting';
end$$;
select * from shifting_rows();
alter table shifting drop column b;
select * from shifting_rows();
select c from shifting_rows() where a = 4;
alter table shifting add column d int default 7;
select * from shifting_rows();
select f.*, g from rows from (shifting_rows(), generate_series(1, 2)) with ordinality as f(a, c, d, g, n) limit 2;

-- Cursors with named arguments.
create table rc_test (a int, b int);
insert into rc_test values (1, 10), (50, 500), (100, 1000);
create function named(int, int) returns int language plpgsql as $$
declare
    c1 cursor (param1 int, param12 int) for select * from rc_test where a > param1 and b > param12;
    r record;
begin
    open c1(param12 := $2, param1 := $1);
    fetch c1 into r;
    close c1;
    for q in c1 (param12 := 0, param1 := 60) loop raise notice '%', q; end loop;
    for q in c1 ($1 + 1, greatest(1, 2)) loop raise notice '%', q; end loop;
    return r.a;
end$$;
select named(20, 20), named(0, 600);
do $$ declare c1 cursor (p1 int, p2 int) for select 1; begin open c1(p1 := 20, p1 := 21); end $$;
do $$ declare c1 cursor (p1 int, p2 int) for select 1; begin open c1(p2 := 20, 21); end $$;
do $$ declare c1 cursor (p1 int, p2 int) for select 1; begin open c1(20, p3 := 21); end $$;
do $$ declare c1 cursor (p1 int, p2 int) for select 1; begin open c1(20); end $$;
do $$ declare c1 cursor (p1 int, p2 int) for select 1; begin open c1(20, 21, 22); end $$;
do $$ declare c1 cursor (p1 int, p2 int) for select 1; begin open c1; end $$;
do $$ declare c1 cursor for select 1; begin open c1(1); end $$;
do $$ declare rc constant refcursor; begin open rc for select a from rc_test; end $$;
do $$ declare rc constant refcursor := 'my_cursor'; begin open rc for select a from rc_test; raise notice '%', rc; close rc; end $$;
do $$ declare c1 constant refcursor := null; begin open c1 for execute 'select 1'; end $$;

-- A variable is not seen by what stands before its declaration.
do $$
declare x int := x + 1;
begin
  raise notice 'x = %', x;
end$$;
do $$
declare y int := x + 1;
        x int := 42;
begin
  raise notice 'x = %, y = %', x, y;
end$$;
do $$
declare x int := 42;
        y int := x + 1;
begin
  declare x int := x + 100;
  begin
    raise notice 'x = %, y = %', x, y;
  end;
end$$;

-- Checks that are asked for.
create table foo (f1 int, f2 text);
insert into foo values (1, 'a'), (2, 'b'), (3, null);
create function strict_on(int, q text) returns void language plpgsql as $$
#print_strict_params on
declare x record; p1 int := 0; p3 text := 'fo''o'; n text;
begin
  select * from foo where f1 > p1 + $1 or f2 = p3 or f2 = n or f2 = q into strict x;
end$$;
select strict_on(0, 'x');
select strict_on(3, 'x');
create function strict_off() returns void language plpgsql as $$
#print_strict_params off
declare x record; p1 int := 0;
begin
  select * from foo where f1 > p1 into strict x;
end$$;
set plpgsql.print_strict_params to on;
select strict_off();
do $$ declare x record; p1 int := 0; begin select * from foo where f1 > p1 into strict x; end$$;
do $$ declare x record; begin execute 'select * from foo where f1 > $1 or f2 = $2' into strict x using 0, null::text; end$$;
do $$ declare x record; begin execute 'select * from foo where f1 = $1' into strict x using 7; end$$;
do $$ declare x record; begin execute 'select * from foo' into strict x; end$$;
do $$ declare x record; begin update foo set f1 = f1 returning * into x; end$$;
reset plpgsql.print_strict_params;
set plpgsql.extra_errors to 'too_many_rows';
do $$ declare x record; begin select * from foo into x; end$$;
do $$ declare x record; begin execute 'select * from foo' into x; end$$;
set plpgsql.extra_errors to 'strict_multi_assignment';
do $$ declare x int; y int; begin select 1 into x, y; end$$;
do $$ declare x int; y int; begin select 1, 2 into x, y; select 1, 2, 3 into x, y; end$$;
do $$ declare x int; begin select * from foo into x; end$$;
do $$ declare t foo; begin select 1, 'b' into t; raise notice 'ok'; select 1, 'b', 3 into t; end$$;
do $$ declare t foo; begin select 1 into t; end$$;
reset plpgsql.extra_errors;
do $$ declare t foo; begin select 1 into t; raise notice '%', t; select 1, 'b', 3 into t; raise notice '%', t; end$$;
set plpgsql.extra_warnings to 'strict_multi_assignment,too_many_rows';
do $$ declare x int; begin select f1, f2 from foo into x; raise notice '%', x; end$$;
reset plpgsql.extra_warnings;
set plpgsql.extra_errors to 'shadowed_variables';
create function shadows(f1 int) returns boolean language plpgsql as $$
declare f1 int; begin return 1; end $$;
set plpgsql.extra_errors to 'none';
set plpgsql.extra_warnings to 'all';
create function shadows(f1 int) returns boolean language plpgsql as $$
declare
  f2 int;
  c1 cursor (f2 int) for select 1;
begin
  declare f1 int; begin return 1; end;
end $$;
select shadows(1);
reset plpgsql.extra_errors;
reset plpgsql.extra_warnings;
set plpgsql.check_asserts to off;
do $$ begin assert 1 = 0; raise notice 'passed'; end$$;
reset plpgsql.check_asserts;
do $$ begin assert 1 = 0; end$$;

-- Arrays.
create function is_sorted(int[]) returns boolean immutable language sql as 'select $1[1] < $1[2]';
create domain ordered as int[2] constraint sorted check (is_sorted(value));
create function assign_element(x1 int, x2 int, x3 int) returns ordered language plpgsql as $$
declare res ordered;
begin
  res := array[x1, x2];
  res[2] := x3;
  return res;
end$$;
select assign_element(1, 2, 3);
select assign_element(2, 1, 3);
select assign_element(1, 2, 1);
create type xy as (x int, y int);
do $$
declare a int; b int; r record;
begin
  foreach a, b in array array[(10, 20), (40, 69)]::xy[] loop raise notice 'x = %, y = %', a, b; end loop;
  foreach r in array array[[(10, 20), (40, 69)], [(35, 78), (88, 76)]]::xy[] loop raise notice 'x = %, y = %', r.x, r.y; end loop;
end$$;
do $$ declare a int; begin foreach a slice 1 in array array[1, 2] loop raise notice '%', a; end loop; end$$;
do $$ declare a int[]; begin foreach a in array array[1, 2] loop raise notice '%', a; end loop; end$$;
do $$ declare a int[]; begin foreach a slice 1 in array array[[1, 2], [3, 4]] loop raise notice '%', a; end loop; end$$;
do $$ declare a int; begin foreach a in array 5 loop raise notice '%', a; end loop; end$$;

-- RAISE options given twice.
do $$ begin raise notice 'some message' using message = 'custom message', errcode = '22012'; end$$;
do $$ begin raise division_by_zero using message = 'custom message', errcode = '22012'; end$$;
do $$ begin raise exception using detail = 'a', detail = 'b'; end$$;

-- A window function that GROUP BY names.
select rank() over (order by 1), count(*) from foo group by 1;
select count(*) from foo group by 1;
select sum(f1) as s from foo group by s;

-- System catalogs keep no indexes of their own to be rebuilt.
reindex index concurrently pg_class_oid_index;
reindex table concurrently pg_class;
reindex index pg_class_oid_index;
