-- Transactions that need more memory than they have: their writes go to the store before they commit. (PostgreSQL takes the
-- setting for one of an extension that is not there.)
set cairn.transaction_memory = '64kB';
create table items (id int primary key, kind int, amount int, note text);
create index items_kind on items (kind);
create table parts (item int references items on delete cascade on update cascade, part int, primary key (item, part));
insert into items select g, g % 7, 0, 'note ' || g from generate_series(1, 3000) g;
insert into parts select g, p from generate_series(1, 3000) g, generate_series(1, 2) p;

-- Own writes are seen by the next command, not by their own.
begin;
update items set amount = amount + 1;
select count(*), sum(amount) from items;
update items set amount = amount + 1 where kind < 3;
select kind, count(*), sum(amount) from items group by kind order by kind;
select id, amount from items where kind = 2 order by id desc limit 3;
update items set kind = kind + 10 where id % 2 = 0;
select kind, count(*) from items group by kind order by kind;
select count(*) from items where kind = 12;
delete from items where kind = 12;
select count(*) from items;
select count(*) from parts;
insert into items select id, 20, -1, null from generate_series(2990, 3020) id on conflict (id) do update set kind = 21;
select kind, count(*) from items where kind >= 20 group by kind order by kind;
commit;
select kind, count(*), sum(amount) from items group by kind order by kind;
select count(*) from parts;

-- A statement that fails, and a transaction that is rolled back, leave nothing.
begin;
update items set amount = 1000;
rollback;
select max(amount) from items;
update items set amount = 1 / (id - 2999);
select max(amount) from items;
insert into items select g, 0, 0, null from generate_series(5000, 2000, -1) g;
select count(*), max(id) from items;

-- Savepoints.
begin;
update items set amount = 50;
savepoint a;
update items set amount = 60, kind = 0;
insert into items select g, 99, 0, null from generate_series(10000, 12000) g;
select count(*), sum(amount) from items;
savepoint b;
delete from items;
select count(*) from items;
rollback to b;
select count(*), sum(amount) from items;
rollback to a;
select count(*), sum(amount) from items;
select count(*) from items where kind = 0;
insert into items select g, 98, 50, null from generate_series(10000, 11000) g;
release a;
commit;
select kind, count(*), sum(amount) from items group by kind order by kind;

-- Cursors go on over rows that change under them.
begin;
declare upwards cursor for select id, amount from items order by id;
fetch 2 from upwards;
update items set amount = amount + id;
fetch 2 from upwards;
declare downwards cursor for select id, amount from items order by id desc;
fetch 2 from downwards;
update items set amount = -1;
fetch 2 from downwards;
fetch 1 from upwards;
delete from items where id > 100;
fetch 2 from downwards;
move 2000 from upwards;
fetch 1 from upwards;
rollback;

-- Keys move; unique keys are checked at once.
begin;
update items set id = id + 100000;
select min(id), max(id), count(*) from items;
select min(item), max(item), count(*) from parts;
update items set id = id - 100000;
commit;
select min(id), max(id), count(*) from items;
begin;
update items set note = 'row ' || id;
update items set id = id + 1 where id = 1;
rollback;
select count(*) from items where note like 'row%';

-- In functions, where every block is a savepoint.
create function shift() returns int language plpgsql as $$
declare done int := 0;
begin
  for i in 1 .. 20 loop
    begin
      update items set amount = amount + i where id % 20 = i - 1;
      if i % 3 = 0 then raise exception 'no'; end if;
      done := done + 1;
    exception when raise_exception then null;
    end;
  end loop;
  return done;
end $$;
update items set amount = 0;
select shift();
select amount, count(*) from items group by amount order by amount;

-- A table of the transaction itself.
begin;
create table copies as select * from items;
alter table copies add primary key (id);
update copies set amount = 7;
delete from copies where id % 2 = 0;
select count(*), sum(amount) from copies;
drop table copies;
create table copies (id int primary key, v int);
insert into copies select g, g from generate_series(1, 2000) g;
update copies set v = v * 2;
commit;
select count(*), sum(v) from copies;
truncate copies;
select count(*) from copies;
