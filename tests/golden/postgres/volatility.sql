-- What functions see: volatile ones what was done before each of their queries, others what the query sees that calls them.
create table t (a int);
create function add(n int) returns int language plpgsql as $$ begin insert into t values (n); return n; end $$;
create function count_now() returns bigint language plpgsql volatile as $$ begin return (select count(*) from t); end $$;
create function count_then() returns bigint language plpgsql stable as $$ begin return (select count(*) from t); end $$;
create function count_then_into() returns bigint language plpgsql stable as $$ declare n bigint; begin select count(*) into n from t; return n; end $$;
create function count_then_loop() returns bigint language plpgsql stable as $$
declare n bigint := 0; r record; begin for r in select a from t loop n := n + 1; end loop; return n; end $$;
create function count_then_dynamic() returns bigint language plpgsql immutable as $$ declare n bigint; begin execute 'select count(*) from t' into n; return n; end $$;
create function count_then_cursor() returns bigint language plpgsql stable as $$
declare c cursor for select a from t; n bigint := 0; x int;
begin open c; loop fetch c into x; exit when not found; n := n + 1; end loop; close c; return n; end $$;
select add(1), count_now(), count_then(), count_then_into(), count_then_loop(), count_then_dynamic(), count_then_cursor();
select add(2), count_now(), count_then(), count_then_into(), count_then_loop(), count_then_dynamic(), count_then_cursor();
select count_now(), count_then(), count_then_into(), count_then_loop(), count_then_dynamic(), count_then_cursor();
-- One that calls another sees as it is declared itself.
create function nested() returns text language plpgsql volatile as $$
declare before bigint := count_then(); begin insert into t values (10); return before || ' ' || count_then() || ' ' || count_now(); end $$;
create function nested_stable() returns text language plpgsql stable as $$
begin return count_then() || ' ' || count_now(); end $$;
select nested(), count_then();
select add(11), nested_stable();
-- Those that only read cannot change anything.
create function changes() returns int language plpgsql stable as $$ begin insert into t values (1); return 1; end $$;
select changes();
create function changes_dynamic() returns int language plpgsql stable as $$ begin execute 'delete from t'; return 1; end $$;
select changes_dynamic();
create function locks() returns int language plpgsql stable as $$ declare x int; begin select a into x from t limit 1 for update; return x; end $$;
select locks();
create function changes_inside() returns int language plpgsql stable as $$ begin return add(5); end $$;
select changes_inside();
select a from t order by a;
do $$ begin perform count_then(); insert into t values (20); raise notice '%', count_then(); end $$;
