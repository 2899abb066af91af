-- Rows that a function changes while the statement that calls it is about to change them.
create table t (id int primary key, v int);
insert into t values (1, 1), (2, 2), (3, 3);
create function bump(which int) returns int language plpgsql as $$ begin update t set v = v + 10 where id = which; return 1; end $$;
create function bump_sql(which int) returns int language sql as $$ update t set v = v + 10 where id = which returning 1 $$;
create function remove(which int) returns int language plpgsql as $$ begin delete from t where id = which; return 1; end $$;

-- Before the statement comes to the row.
update t set v = v + 1 where bump(id) = 1;
update t set v = v + 1 where bump_sql(id) = 1;
delete from t where bump(id) = 1;
update t set v = v + bump(id % 3 + 1);
update t set v = 0 where remove(id) = 1;
delete from t where remove(id) = 1;
-- While it makes the new row.
update t set v = v + bump(id);
update t set v = v + bump_sql(id);
update t set v = remove(id);
insert into t values (1, 0) on conflict (id) do update set v = t.v + bump(1);
select * from t order by id;
-- Afterwards, and other rows.
update t set v = v + bump(id - 1);
select * from t order by id;
update t set v = v + bump(3) where id < 3;
select * from t order by id;
with w as (update t set v = 0 returning id, bump(id)) select * from w order by id;
select * from t order by id;
-- What is undone was not done.
create function try(which int) returns int language plpgsql as $$
begin
  begin update t set v = 100 where id = which; raise exception 'undo'; exception when others then null; end;
  return 1;
end $$;
update t set v = v + try(id);
update t set v = v + 1 where try(id) = 1;
select * from t order by id;
-- Parts of one statement leave each other's rows alone; a function is none of its parts.
with w as (update t set v = v + 1 where id = 1 returning id) update t set v = v + 100 from w where t.id = w.id;
select * from t order by id;
with w as (update t set v = v + 1 where id = 1 returning id, bump(id)) update t set v = v + 100 from w where t.id = w.id;
with w as (update t set v = v + 1 where id = 1 returning id, bump(id)) delete from t using w where t.id = w.id;
with w as (select id, bump(id) from t where id = 2) update t set v = v + 100 from w where t.id = w.id;
with w as (select id, bump(id) from t where id = 2) select t.id, t.v from t, w where t.id = w.id for update of t;
select * from t order by id;

-- In PL/pgSQL a statement that changes rows is over before its first row is looked at.
update t set v = id;
do $$ declare r record; begin
  for r in update t set v = v + 1 returning id loop exit; end loop;
  for r in update t set v = v + 1 returning * loop
    raise notice '%', r.v between 3 and 5;
    update t set v = v * 10 where id = 3;
  end loop;
  for r in with w as (update t set v = v + 1 returning id) select * from w loop exit; end loop;
end $$;
select * from t order by id;
do $$ declare x int; begin update t set v = v + 1 returning id into x; end $$;
do $$ declare x int; begin insert into t values (5, 5), (6, 6) returning id into x; end $$;
do $$ declare x int; n int; begin
  update t set v = v + 1 where id = 2 returning id into x;
  get diagnostics n = row_count;
  raise notice '% %', x, n;
  select id into x from t order by id desc;
  get diagnostics n = row_count;
  raise notice '% % %', x, n, found;
  execute 'select id from t order by id desc' into x;
  get diagnostics n = row_count;
  raise notice '% %', x, n;
  execute 'update t set v = v + 1 returning id' into x;
  get diagnostics n = row_count;
  raise notice '% %', x is not null, n;
  with w as (update t set v = v + 1 returning id) select id into x from w order by id;
  get diagnostics n = row_count;
  raise notice '% %', x, n;
  select bump(id) into x from t order by id;
  select id into strict x from t order by id;
end $$;
do $$ declare x int; begin
  select bump(id) into x from t order by id;
  with w as (update t set v = v + 1 returning id) select id into x from w order by id;
end $$;
select * from t order by id;
