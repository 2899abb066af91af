-- Constraints that wait: SET CONSTRAINTS, INITIALLY DEFERRED, at the end of the statement and of the transaction.
create table parent (id int primary key, code int unique deferrable initially immediate, other int unique deferrable initially deferred);
insert into parent values (1, 1, 1), (2, 2, 2), (3, 3, 3);

-- Deferrable immediate: at the end of the statement, not row by row.
update parent set code = code + 1;
select * from parent order by id;
update parent set code = 2;
begin; insert into parent values (4, 2, 9); rollback;
begin; set constraints parent_code_key deferred; insert into parent values (4, 2, 9); update parent set code = 10 where id = 4; commit;
begin; set constraints all deferred; insert into parent values (5, 2, 10); set constraints all immediate; rollback;
begin; set constraints all deferred; insert into parent values (5, 2, 10); commit;
begin; insert into parent values (6, 20, 1); select count(*) from parent; update parent set other = 60 where id = 6; commit;
begin; insert into parent values (7, 21, 1); commit;
begin; insert into parent values (8, 22, 1); savepoint a; insert into parent values (9, 23, 1); rollback to a; delete from parent where id = 8; commit;
insert into parent values (10, 30, 1);
insert into parent values (10, 30, 100) on conflict (code) do nothing;
insert into parent values (1, 30, 100) on conflict do nothing;
select * from parent order by id;
begin; set constraints nowhere deferred; rollback;
begin; set constraints parent_pkey deferred; rollback;
set constraints all deferred;

-- A deferrable primary key.
create table seat (n int primary key deferrable initially deferred, who text);
insert into seat values (1, 'a'), (2, 'b'), (3, 'c');
update seat set n = n + 1;
select * from seat order by n;
begin; insert into seat values (2, 'd'); select count(*) from seat where n = 2; delete from seat where who = 'a'; commit;
begin; insert into seat values (3, 'e'); commit;
begin; set constraints seat_pkey immediate; insert into seat values (3, 'e'); rollback;
select * from seat order by n;
insert into seat values (null, 'x');
create table swap (n int primary key deferrable);
insert into swap select generate_series(1, 5);
update swap set n = 6 - n;
update swap set n = n + 1;
update swap set n = 1;
insert into swap values (2);
select * from swap order by n;
\d swap
create table needs_swap (n int references swap);
create table needs_seat (n int references seat (n));
alter table swap alter constraint swap_pkey deferrable initially deferred;
delete from swap where n = 2; select count(*) from swap;
select * from swap where n = 3;
drop table swap;

-- Foreign keys.
create table child (id int primary key, p int references parent deferrable initially deferred, q int references parent deferrable);
begin; insert into child values (1, 100, 1); insert into parent values (100, 100, 100); commit;
begin; insert into child values (2, 101, 1); commit;
begin; insert into child values (2, 1, 101); rollback;
begin; set constraints child_q_fkey deferred; insert into child values (2, 1, 101); set constraints child_q_fkey immediate; rollback;
begin; delete from parent where id = 100; insert into parent values (100, 101, 101); commit;
begin; delete from parent where id = 100; commit;
begin; delete from parent where id = 1; rollback;
begin; set constraints all deferred; delete from parent where id = 1; insert into parent values (1, 2, 1); commit;
begin; savepoint a; insert into child values (3, 999, 1); rollback to a; commit;
begin; insert into child values (3, 999, 1); delete from child where id = 3; commit;
begin; insert into child values (3, 999, 1); update child set p = 1 where id = 3; commit;
select * from child order by id;
alter table child alter constraint child_p_fkey not deferrable;
insert into child values (4, 999, 1);
alter table child alter constraint child_p_fkey deferrable initially deferred;
\d child

-- Actions.
create table act (id int primary key, a int default 2, b int default 7);
insert into parent values (7, 70, 70);
alter table act add constraint f1 foreign key (a) references parent on delete set default on update cascade;
alter table act add constraint f2 foreign key (b) references parent on delete set null on update set null;
insert into act values (1, 3, 3), (2, 3, 7), (3, 7, 3);
delete from parent where id = 3;
select * from act order by id;
update parent set id = 70 where id = 7;
select * from act order by id;
create table two (x int, y int, z int, primary key (x, y));
create table of_two (id int primary key, x int default 9, y int, foreign key (x, y) references two on delete set null (y));
create table of_two_default (id int primary key, x int default 9, y int default 9, foreign key (x, y) references two on delete set default (x));
insert into two values (1, 1), (2, 2), (9, 2);
insert into of_two values (1, 1, 1), (2, 2, 2);
insert into of_two_default values (2, 2, 2);
delete from two where x = 1;
select * from of_two order by id;
delete from two where x = 2;
select * from of_two_default;
select * from of_two order by id;
create table restricts (p int references parent on delete restrict deferrable initially deferred);
drop table act;
insert into restricts values (2);
begin; delete from parent where id = 2; commit;

-- From triggers' point of view: a transaction that fails at its end leaves nothing.
begin; insert into parent values (200, 200, 200); insert into child values (200, 201, 1); commit;
select count(*) from parent where id = 200;
do $$ begin insert into child values (300, 301, 1); exception when foreign_key_violation then raise notice 'caught'; end $$;

-- Rolling back to a savepoint undoes SET CONSTRAINTS, and what it had checked is checked again.
begin; insert into child values (400, 998, 1); savepoint a; delete from child where id = 400; set constraints all immediate; rollback to a; commit;
begin; savepoint a; set constraints child_p_fkey immediate; rollback to a; insert into child values (401, 998, 1); commit;
begin; savepoint a; set constraints child_p_fkey immediate; release a; insert into child values (401, 998, 1); rollback;
begin; insert into child values (402, 998, 1); savepoint a; insert into child values (403, 997, 1); savepoint b; delete from child where id in (402, 403); set constraints child_p_fkey immediate; rollback to b; delete from child where id = 402; commit;
do $$ begin
  insert into child values (404, 998, 1);
  begin delete from child where id = 404; set constraints all immediate; raise exception 'undo'; exception when others then raise notice '%', sqlerrm; end;
end $$;
select count(*) from child where id >= 400;

-- A table stays as it is while its rows wait for a check.
begin; insert into child values (410, 998, 1); alter table child add column extra int; rollback;
begin; insert into child values (410, 998, 1); truncate child; rollback;
begin; insert into child values (410, 998, 1); drop table child; rollback;
begin; insert into child values (410, 998, 1); create index on child (p); rollback;
begin; delete from parent where id = 2; alter table parent add column extra int; rollback;
begin; insert into parent values (411, 411, 1); alter table parent add column extra int; rollback;
begin; insert into child values (410, 1, 1); set constraints child_q_fkey immediate; alter table child add column extra int; rollback;
begin; insert into child values (410, 1, 1); set constraints child_p_fkey immediate; alter table child add column extra int; rollback;
begin; savepoint a; insert into child values (410, 998, 1); rollback to a; alter table child add column extra int; rollback;
begin; insert into child values (410, 1, 1); savepoint a; set constraints all immediate; rollback to a; alter table child add column extra int; rollback;
begin; insert into child values (410, 998, 1); alter table two add column extra int; rollback;
begin; insert into parent values (412, 412, 412); alter table parent add column extra int; insert into parent values (413, 413, 412); commit;
begin; insert into parent values (412, 412, 412); delete from parent where id = 412; drop table parent; rollback;
select count(*) from parent where id > 400;
