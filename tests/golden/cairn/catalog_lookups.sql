-- Rows of system catalogs are found by key: what a query visits (rows, and those removed by filters), and what DDL
-- reads, does not grow with the number of objects.
do $$
begin
  for number in 1..60 loop
    execute format('create table many_%s (a int primary key, b text not null, c int default 7)', number);
  end loop;
end
$$;
create table child (a int references many_7);
create function plan_of(query text) returns setof text language plpgsql as $$
begin
  return query execute 'explain (analyze, costs off, timing off, summary off) ' || query;
end
$$;
select plan_of($$select attname from pg_attribute where attrelid = 'many_7'::regclass and attnum > 0$$);
select plan_of($$select relkind from pg_class where oid = 'many_7'::regclass$$);
select plan_of($$select a.attname, t.typname from pg_class c join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid join pg_type t on t.oid = a.atttypid
  where c.relname = 'many_7' and n.nspname = 'public' and a.attnum = 2$$);
select plan_of($$select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'many_7'::regclass and adnum = 3$$);
select plan_of($$select conname from pg_constraint where confrelid = 'many_7'::regclass$$);
select plan_of($$select classid::regclass from pg_depend
  where refclassid = 'pg_class'::regclass and refobjid = 'many_7'::regclass$$);
-- What is not there.
select plan_of($$select oid from pg_type where typname = 'many_77' and typnamespace = 'public'::regnamespace$$);
select plan_of($$select oid from pg_class where oid = null::oid$$);

-- DDL reads no catalog from the store: the next command goes on with the picture that the last one left.
create table first (a int primary key);
select keys_found as before from cairn.storage_counters \gset
create table second (a int primary key);
drop table first;
select keys_found - :before < 60 as few from cairn.storage_counters;
