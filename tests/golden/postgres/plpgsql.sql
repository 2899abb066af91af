create table log (id int generated always as identity primary key, line text);
do $$ begin insert into log (line) values ('from do'); end $$;
create function fact(n int) returns numeric language plpgsql as $$
declare result numeric := 1; i int;
begin
  for i in 1..n loop result := result * i; end loop;
  return result;
end $$;
select fact(5), fact(20);
create or replace function grade(score int) returns text language plpgsql immutable as $$
begin
  if score is null then return 'none';
  elsif score >= 90 then return 'A';
  elsif score >= 80 then return 'B';
  else return 'C'; end if;
end $$;
select grade(95), grade(85), grade(10), grade(null);
create function walk() returns setof text language plpgsql as $$
declare r record; n int := 0;
begin
  for r in select * from log order by id loop n := n + 1; return next n || ': ' || r.line; end loop;
  while n < 3 loop n := n + 1; continue when n = 2; return next 'n = ' || n; end loop;
  loop n := n + 1; exit when n > 5; end loop;
  return query select 'last ' || n;
end $$;
select * from walk();
create function add_line(t text) returns int language plpgsql as $$
declare new_id int;
begin
  insert into log (line) values (t) returning id into new_id;
  if not found then raise exception 'impossible'; end if;
  return new_id;
end $$;
select add_line('second'), add_line('third');
do $$
declare plan json; v int; rows_changed int; names text[];
begin
  execute 'select count(*) from log where id > $1' into v using 1;
  raise notice 'counted %', v;
  execute format('explain (format json) %s', 'select 1') into plan;
  raise notice 'plan has %', json_array_length(plan);
  update log set line = line || '!';
  get diagnostics rows_changed = row_count;
  raise notice 'changed % of %', rows_changed, (select count(*) from log);
  perform pg_sleep(0.001);
  select array_agg(line order by id) into names from log;
  foreach plan in array array['1', '2']::json[] loop raise notice 'element %', plan; end loop;
  for v in reverse 3..1 by 2 loop raise info 'v = %', v; end loop;
  raise notice '%', names;
end $$;
create function guarded(a int, b int) returns text language plpgsql as $$
begin
  begin
    insert into log (line) values ('will be undone');
    return (a / b)::text;
  exception when division_by_zero then return 'division: ' || sqlerrm || ' ' || sqlstate;
    when others then return 'other';
  end;
end $$;
select guarded(6, 3), guarded(1, 0);
select count(*) from log;
do $$ begin raise exception 'custom % and %', 1, 'two' using errcode = 'AB123', hint = 'a hint', detail = 'a detail'; end $$;
do $$ begin raise division_by_zero; end $$;
do $$ declare x int; begin select 1 into strict x where false; end $$;
do $$ declare x int := 'a'; begin end $$;
do $$ begin perform nothing_there(); end $$;
do $$ begin assert 1 = 2, 'no'; end $$;
create function bad() returns int language plpgsql as $$ begin retrun 1; end $$;
create function no_return() returns int language plpgsql as $$ begin end $$;
select no_return();
do $$ declare c cursor for select line from log order by id; l text; begin open c; fetch c into l; raise notice '%', l; close c; end $$;
do $$ declare r log%rowtype; s log.line%type; begin select * into r from log order by id limit 1; s := r.line; raise notice '% %', r.id, s; case when r.id = 1 then raise notice 'one'; else raise notice 'more'; end case; end $$;
create procedure committing() language plpgsql as $$ begin insert into log (line) values ('kept'); commit; insert into log (line) values ('lost'); rollback; end $$;
call committing(); select line from log where line in ('kept', 'lost');
-- Assignment to slices.
do $$
declare a int[] := array[1, 2, 3, 4, 5]; b text[]; m int[] := array[[1, 2], [3, 4]];
begin
  a[2:3] := array[20, 30];
  raise notice '%', a;
  a[4:] := array[40, 50];
  a[:1] := '{10}';
  raise notice '%', a;
  b[3:4] := array['x', 'y'];
  raise notice '% %', b, array_dims(b);
  a[6:7] := array[60, 70, 80];
  raise notice '%', a;
  a[1:3] := array[1];
end $$;

-- What a client is warned of or kept from is not so in a function.
do $$ begin set local work_mem = '1MB'; set constraints all immediate; lock table log; set transaction read only; end $$;
do $$ begin vacuum log; end $$;
-- Whose an error is that comes while rows are fetched.
create table divisors (a int primary key);
insert into divisors values (1), (0);
do $$ begin insert into divisors values (2); insert into divisors values (1); end $$;
do $$ declare x int; begin select 1 / a into x from divisors where a = 0; end $$;
do $$ begin perform 1 / a from divisors; end $$;
do $$ declare x int; begin execute 'select 1 / a from divisors where a = 0' into x; end $$;
do $$ declare x int; begin for x in select 1 / a from divisors loop null; end loop; end $$;
do $$ declare x int; begin for x in execute 'select 1 / a from divisors' loop null; end loop; end $$;
do $$ declare c cursor for select 1 / a from divisors; x int; begin open c; fetch c into x; fetch c into x; end $$;
create function divided() returns setof int language plpgsql as $$ begin return query select 1 / a from divisors; end $$;
select * from divided();
create function divided_dynamically() returns setof int language plpgsql as $$ begin return query execute 'select 1 / a from divisors'; end $$;
select * from divided_dynamically();
