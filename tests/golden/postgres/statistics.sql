-- Counters of tables and indexes, sizes.
create table counted (id int primary key, v int, t text);
create index counted_v on counted (v);
create view counted_view as select * from counted;
insert into counted select g, g % 7, 'row ' || g from generate_series(1, 500) g;
update counted set v = 100 where id between 1 and 20;
delete from counted where id > 450;
begin;
insert into counted values (1000, 1, 'rolled back');
rollback;
insert into counted values (1, 1, 'there') on conflict do nothing;
insert into counted values (1, 1, 'there') on conflict (id) do update set t = excluded.t;
copy counted from stdin;
600	1	a
601	2	b
\.
select pg_stat_force_next_flush();
select n_tup_ins, n_tup_upd, n_tup_del, n_live_tup from pg_stat_user_tables where relname = 'counted';
select relname, n_tup_ins from pg_stat_all_tables where relname = 'counted_view';
select indexrelname from pg_stat_user_indexes where relname = 'counted' order by 1;
select pg_stat_get_tuples_inserted('counted'::regclass), pg_stat_get_tuples_inserted(1);
select pg_stat_reset_single_table_counters('counted'::regclass);
select n_tup_ins, n_tup_upd, seq_scan from pg_stat_user_tables where relname = 'counted';
select pg_relation_size('counted') > 0, pg_table_size('counted') >= pg_relation_size('counted'),
       pg_indexes_size('counted') > 0,
       pg_total_relation_size('counted') = pg_table_size('counted') + pg_indexes_size('counted');
select pg_relation_size('counted_view'), pg_table_size('counted_view'), pg_total_relation_size('counted_view');
select pg_relation_size('counted', 'init'), pg_relation_size('counted', 'nothing');
select pg_database_size(current_database()) > 0, pg_database_size('nowhere');
select pg_relation_size(1), pg_table_size(1), pg_total_relation_size(1);
