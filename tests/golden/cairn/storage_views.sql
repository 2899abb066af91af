-- What the storage does and keeps: schema cairn, and explain with its counters.
\d cairn.storage_counters
\d cairn.pins
\d cairn.tables
create table jobs (id int primary key, due int, payload text);
create index jobs_due on jobs (due);
insert into jobs select g, g % 5, 'job ' || g from generate_series(1, 500) g;
delete from jobs where id <= 400;
-- The first scan walks over what is dead, the second jumps.
explain (analyze, dist, debug, costs off, timing off, summary off) select id from jobs order by id limit 1;
explain (analyze, dist, debug, costs off, timing off, summary off) select id from jobs order by id limit 1;
explain (analyze, dist, costs off, timing off, summary off) select id from jobs where due = 3 and payload > 'job 9';
select schema_name, table_name, index_name, live_rows, versions, tombstones, estimated, oldest_pin_kind
from cairn.tables order by 1, 2, 3;
-- A snapshot that is held.
begin isolation level repeatable read;
select count(*) from jobs;
select pid = pg_backend_pid() as mine, kind, and_later, age < '1 hour' as young from cairn.pins where kind = 'transaction';
select distinct oldest_pin_pid = pg_backend_pid() as mine, oldest_pin_kind from cairn.tables;
commit;
select count(*) from cairn.pins where kind = 'transaction';
select transactions > 5, seeks > 50, nexts > 500, keys_found > 100, tombstones_skipped >= 400, ranges_skipped > 0
from cairn.storage_counters;
-- The schema is the system's.
create view cairn.mine as select 1;
drop view cairn.tables;
delete from cairn.pins;
drop schema cairn;
select nspname from pg_namespace where nspname = 'cairn';
