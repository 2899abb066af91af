-- The system views of schema pg_catalog (manual, chapter 54 and section 28.2). Names, order and types of their
-- columns are PostgreSQL 15's and in data/pg_attribute.tsv; a test compares.

create view pg_tables as
select n.nspname as schemaname, c.relname as tablename, pg_get_userbyid(c.relowner) as tableowner,
       t.spcname as tablespace, c.relhasindex as hasindexes, c.relhasrules as hasrules,
       c.relhastriggers as hastriggers, c.relrowsecurity as rowsecurity
from pg_class c left join pg_namespace n on n.oid = c.relnamespace left join pg_tablespace t on t.oid = c.reltablespace
where c.relkind in ('r', 'p');

create view pg_views as
select n.nspname as schemaname, c.relname as viewname, pg_get_userbyid(c.relowner) as viewowner,
       pg_get_viewdef(c.oid) as definition
from pg_class c left join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v';

create view pg_matviews as
select n.nspname as schemaname, c.relname as matviewname, pg_get_userbyid(c.relowner) as matviewowner,
       t.spcname as tablespace, c.relhasindex as hasindexes, c.relispopulated as ispopulated,
       pg_get_viewdef(c.oid) as definition
from pg_class c left join pg_namespace n on n.oid = c.relnamespace left join pg_tablespace t on t.oid = c.reltablespace
where c.relkind = 'm';

create view pg_indexes as
select n.nspname as schemaname, c.relname as tablename, i.relname as indexname, t.spcname as tablespace,
       pg_get_indexdef(i.oid) as indexdef
from pg_index x join pg_class c on c.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
     left join pg_namespace n on n.oid = c.relnamespace left join pg_tablespace t on t.oid = i.reltablespace
where c.relkind in ('r', 'm', 'p') and i.relkind in ('i', 'I');

create view pg_sequences as
select n.nspname as schemaname, c.relname as sequencename, pg_get_userbyid(c.relowner) as sequenceowner,
       s.seqtypid::regtype as data_type, s.seqstart as start_value, s.seqmin as min_value, s.seqmax as max_value,
       s.seqincrement as increment_by, s.seqcycle as cycle, s.seqcache as cache_size,
       case when has_sequence_privilege(c.oid, 'select,usage') then pg_sequence_last_value(c.oid) end as last_value
from pg_sequence s join pg_class c on c.oid = s.seqrelid left join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'S' and not pg_is_other_temp_schema(n.oid);

create view pg_rules as
select n.nspname as schemaname, c.relname as tablename, r.rulename, pg_get_ruledef(r.oid) as definition
from pg_rewrite r join pg_class c on c.oid = r.ev_class left join pg_namespace n on n.oid = c.relnamespace
where r.rulename <> '_RETURN';

create view pg_policies as
select n.nspname as schemaname, c.relname as tablename, p.polname as policyname,
       case when p.polpermissive then 'PERMISSIVE' else 'RESTRICTIVE' end as permissive,
       case when p.polroles = '{0}'::oid[] then '{public}'::name[]
            else array(select a.rolname from pg_authid a where a.oid = any (p.polroles) order by a.rolname) end as roles,
       case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE'
                     when '*' then 'ALL' end as cmd,
       pg_get_expr(p.polqual, p.polrelid) as qual, pg_get_expr(p.polwithcheck, p.polrelid) as with_check
from pg_policy p join pg_class c on c.oid = p.polrelid left join pg_namespace n on n.oid = c.relnamespace;

create view pg_roles as
select a.rolname, a.rolsuper, a.rolinherit, a.rolcreaterole, a.rolcreatedb, a.rolcanlogin, a.rolreplication,
       a.rolconnlimit, '********'::text as rolpassword, a.rolvaliduntil, a.rolbypassrls, s.setconfig as rolconfig, a.oid
from pg_authid a left join pg_db_role_setting s on s.setrole = a.oid and s.setdatabase = 0;

create view pg_shadow as
select a.rolname as usename, a.oid as usesysid, a.rolcreatedb as usecreatedb, a.rolsuper as usesuper,
       a.rolreplication as userepl, a.rolbypassrls as usebypassrls, a.rolpassword as passwd,
       a.rolvaliduntil as valuntil, s.setconfig as useconfig
from pg_authid a left join pg_db_role_setting s on s.setrole = a.oid and s.setdatabase = 0
where a.rolcanlogin;

create view pg_user as
select a.rolname as usename, a.oid as usesysid, a.rolcreatedb as usecreatedb, a.rolsuper as usesuper,
       a.rolreplication as userepl, a.rolbypassrls as usebypassrls, '********'::text as passwd,
       a.rolvaliduntil as valuntil, s.setconfig as useconfig
from pg_authid a left join pg_db_role_setting s on s.setrole = a.oid and s.setdatabase = 0
where a.rolcanlogin;

create view pg_group as
select a.rolname as groname, a.oid as grosysid,
       array(select m.member from pg_auth_members m where m.roleid = a.oid) as grolist
from pg_authid a
where not a.rolcanlogin;

create view pg_settings as
select s.name, s.setting, s.unit, s.category, s.short_desc, s.extra_desc, s.context, s.vartype, s.source, s.min_val,
       s.max_val, s.enumvals, s.boot_val, s.reset_val, s.sourcefile, s.sourceline, s.pending_restart
from pg_show_all_settings() s;

create view pg_file_settings as
select f.sourcefile, f.sourceline, f.seqno, f.name, f.setting, f.applied, f.error
from pg_show_all_file_settings() f;

create view pg_hba_file_rules as
select h.line_number, h.type, h.database, h.user_name, h.address, h.netmask, h.auth_method, h.options, h.error
from pg_hba_file_rules() h;

create view pg_timezone_names as
select z.name, z.abbrev, z.utc_offset, z.is_dst from pg_timezone_names() z;

create view pg_timezone_abbrevs as
select z.abbrev, z.utc_offset, z.is_dst from pg_timezone_abbrevs() z;

create view pg_prepared_statements as
select p.name, p.statement, p.prepare_time, p.parameter_types, p.from_sql, p.generic_plans, p.custom_plans
from pg_prepared_statement() p;

create view pg_cursors as
select c.name, c.statement, c.is_holdable, c.is_binary, c.is_scrollable, c.creation_time from pg_cursor() c;

create view pg_prepared_xacts as
select p.transaction, p.gid, p.prepared, a.rolname as owner, d.datname as database
from pg_prepared_xact() p left join pg_authid a on a.oid = p.ownerid left join pg_database d on d.oid = p.dbid;

create view pg_locks as
select l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid, l.objid,
       l.objsubid, l.virtualtransaction, l.pid, l.mode, l.granted, l.fastpath, l.waitstart
from pg_lock_status() l;

create view pg_available_extensions as
select e.name, e.default_version, x.extversion as installed_version, e.comment
from pg_available_extensions() e left join pg_extension x on x.extname = e.name;

create view pg_available_extension_versions as
select e.name, e.version, x.extname is not null as installed, e.superuser, e.trusted, e.relocatable, e.schema,
       e.requires, e.comment
from pg_available_extension_versions() e
     left join pg_extension x on x.extname = e.name and x.extversion = e.version;

create view pg_stat_activity as
select s.datid, d.datname, s.pid, s.leader_pid, s.usesysid, u.rolname as usename, s.application_name, s.client_addr,
       s.client_hostname, s.client_port, s.backend_start, s.xact_start, s.query_start, s.state_change,
       s.wait_event_type, s.wait_event, s.state, s.backend_xid, s.backend_xmin, s.query_id, s.query, s.backend_type
from pg_stat_get_activity(null) s left join pg_database d on d.oid = s.datid left join pg_authid u on u.oid = s.usesysid;

create view pg_stat_ssl as
select s.pid, s.ssl, s.sslversion as version, s.sslcipher as cipher, s.sslbits as bits,
       s.ssl_client_dn as client_dn, s.ssl_client_serial as client_serial, s.ssl_issuer_dn as issuer_dn
from pg_stat_get_activity(null) s
where s.client_port is not null;

create view pg_stat_gssapi as
select s.pid, s.gss_auth as gss_authenticated, s.gss_princ as principal, s.gss_enc as encrypted
from pg_stat_get_activity(null) s
where s.client_port is not null;

create view pg_stat_replication as
select s.pid, s.usesysid, u.rolname as usename, s.application_name, s.client_addr, s.client_hostname, s.client_port,
       s.backend_start, s.backend_xmin, w.state, w.sent_lsn, w.write_lsn, w.flush_lsn, w.replay_lsn, w.write_lag,
       w.flush_lag, w.replay_lag, w.sync_priority, w.sync_state, w.reply_time
from pg_stat_get_activity(null) s join pg_stat_get_wal_senders() w on w.pid = s.pid
     left join pg_authid u on u.oid = s.usesysid;

create view pg_replication_slots as
select s.slot_name, s.plugin, s.slot_type, s.datoid, d.datname as database, s.temporary, s.active, s.active_pid, s.xmin,
       s.catalog_xmin, s.restart_lsn, s.confirmed_flush_lsn, s.wal_status, s.safe_wal_size, s.two_phase
from pg_get_replication_slots() s left join pg_database d on d.oid = s.datoid;

create view pg_publication_tables as
select p.pubname, n.nspname as schemaname, c.relname as tablename,
       array(select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
             order by a.attnum) as attnames,
       pg_get_expr(g.qual, g.relid) as rowfilter
from pg_publication p, lateral pg_get_publication_tables(p.pubname) g, pg_class c
     join pg_namespace n on n.oid = c.relnamespace
where c.oid = g.relid;

create view pg_stat_database as
select d.oid as datid, d.datname, pg_stat_get_db_numbackends(d.oid) as numbackends,
       pg_stat_get_db_xact_commit(d.oid) as xact_commit, pg_stat_get_db_xact_rollback(d.oid) as xact_rollback,
       pg_stat_get_db_blocks_fetched(d.oid) - pg_stat_get_db_blocks_hit(d.oid) as blks_read,
       pg_stat_get_db_blocks_hit(d.oid) as blks_hit, pg_stat_get_db_tuples_returned(d.oid) as tup_returned,
       pg_stat_get_db_tuples_fetched(d.oid) as tup_fetched, pg_stat_get_db_tuples_inserted(d.oid) as tup_inserted,
       pg_stat_get_db_tuples_updated(d.oid) as tup_updated, pg_stat_get_db_tuples_deleted(d.oid) as tup_deleted,
       pg_stat_get_db_conflict_all(d.oid) as conflicts, pg_stat_get_db_temp_files(d.oid) as temp_files,
       pg_stat_get_db_temp_bytes(d.oid) as temp_bytes, pg_stat_get_db_deadlocks(d.oid) as deadlocks,
       pg_stat_get_db_checksum_failures(d.oid) as checksum_failures,
       pg_stat_get_db_checksum_last_failure(d.oid) as checksum_last_failure,
       pg_stat_get_db_blk_read_time(d.oid) as blk_read_time, pg_stat_get_db_blk_write_time(d.oid) as blk_write_time,
       pg_stat_get_db_session_time(d.oid) as session_time, pg_stat_get_db_active_time(d.oid) as active_time,
       pg_stat_get_db_idle_in_transaction_time(d.oid) as idle_in_transaction_time,
       pg_stat_get_db_sessions(d.oid) as sessions, pg_stat_get_db_sessions_abandoned(d.oid) as sessions_abandoned,
       pg_stat_get_db_sessions_fatal(d.oid) as sessions_fatal, pg_stat_get_db_sessions_killed(d.oid) as sessions_killed,
       pg_stat_get_db_stat_reset_time(d.oid) as stats_reset
from (select 0::oid as oid, null::name as datname union all select b.oid, b.datname from pg_database b) d;

create view pg_stat_database_conflicts as
select d.oid as datid, d.datname, pg_stat_get_db_conflict_tablespace(d.oid) as confl_tablespace,
       pg_stat_get_db_conflict_lock(d.oid) as confl_lock, pg_stat_get_db_conflict_snapshot(d.oid) as confl_snapshot,
       pg_stat_get_db_conflict_bufferpin(d.oid) as confl_bufferpin,
       pg_stat_get_db_conflict_startup_deadlock(d.oid) as confl_deadlock
from pg_database d;

create view pg_stat_bgwriter as
select pg_stat_get_bgwriter_timed_checkpoints() as checkpoints_timed,
       pg_stat_get_bgwriter_requested_checkpoints() as checkpoints_req,
       pg_stat_get_checkpoint_write_time() as checkpoint_write_time,
       pg_stat_get_checkpoint_sync_time() as checkpoint_sync_time,
       pg_stat_get_bgwriter_buf_written_checkpoints() as buffers_checkpoint,
       pg_stat_get_bgwriter_buf_written_clean() as buffers_clean,
       pg_stat_get_bgwriter_maxwritten_clean() as maxwritten_clean,
       pg_stat_get_buf_written_backend() as buffers_backend, pg_stat_get_buf_fsync_backend() as buffers_backend_fsync,
       pg_stat_get_buf_alloc() as buffers_alloc, pg_stat_get_bgwriter_stat_reset_time() as stats_reset;

create view pg_stat_all_tables as
select c.oid as relid, n.nspname as schemaname, c.relname, pg_stat_get_numscans(c.oid) as seq_scan,
       pg_stat_get_tuples_returned(c.oid) as seq_tup_read,
       (select sum(pg_stat_get_numscans(x.indexrelid)) from pg_index x where x.indrelid = c.oid)::bigint as idx_scan,
       (select sum(pg_stat_get_tuples_fetched(x.indexrelid)) from pg_index x where x.indrelid = c.oid)::bigint
           as idx_tup_fetch,
       pg_stat_get_tuples_inserted(c.oid) as n_tup_ins,
       pg_stat_get_tuples_updated(c.oid) as n_tup_upd, pg_stat_get_tuples_deleted(c.oid) as n_tup_del,
       pg_stat_get_tuples_hot_updated(c.oid) as n_tup_hot_upd, pg_stat_get_live_tuples(c.oid) as n_live_tup,
       pg_stat_get_dead_tuples(c.oid) as n_dead_tup, pg_stat_get_mod_since_analyze(c.oid) as n_mod_since_analyze,
       pg_stat_get_ins_since_vacuum(c.oid) as n_ins_since_vacuum, pg_stat_get_last_vacuum_time(c.oid) as last_vacuum,
       pg_stat_get_last_autovacuum_time(c.oid) as last_autovacuum,
       pg_stat_get_last_analyze_time(c.oid) as last_analyze,
       pg_stat_get_last_autoanalyze_time(c.oid) as last_autoanalyze, pg_stat_get_vacuum_count(c.oid) as vacuum_count,
       pg_stat_get_autovacuum_count(c.oid) as autovacuum_count, pg_stat_get_analyze_count(c.oid) as analyze_count,
       pg_stat_get_autoanalyze_count(c.oid) as autoanalyze_count
from pg_class c left join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm', 'p');

create view pg_stat_sys_tables as
select t.relid, t.schemaname, t.relname, t.seq_scan, t.seq_tup_read, t.idx_scan, t.idx_tup_fetch, t.n_tup_ins,
       t.n_tup_upd, t.n_tup_del, t.n_tup_hot_upd, t.n_live_tup, t.n_dead_tup, t.n_mod_since_analyze,
       t.n_ins_since_vacuum, t.last_vacuum, t.last_autovacuum, t.last_analyze, t.last_autoanalyze, t.vacuum_count,
       t.autovacuum_count, t.analyze_count, t.autoanalyze_count
from pg_stat_all_tables t
where t.schemaname in ('pg_catalog', 'information_schema') or t.schemaname ~ '^pg_toast';

create view pg_stat_user_tables as
select t.relid, t.schemaname, t.relname, t.seq_scan, t.seq_tup_read, t.idx_scan, t.idx_tup_fetch, t.n_tup_ins,
       t.n_tup_upd, t.n_tup_del, t.n_tup_hot_upd, t.n_live_tup, t.n_dead_tup, t.n_mod_since_analyze,
       t.n_ins_since_vacuum, t.last_vacuum, t.last_autovacuum, t.last_analyze, t.last_autoanalyze, t.vacuum_count,
       t.autovacuum_count, t.analyze_count, t.autoanalyze_count
from pg_stat_all_tables t
where t.schemaname not in ('pg_catalog', 'information_schema') and t.schemaname !~ '^pg_toast';

create view pg_stat_xact_all_tables as
select c.oid as relid, n.nspname as schemaname, c.relname, pg_stat_get_xact_numscans(c.oid) as seq_scan,
       pg_stat_get_xact_tuples_returned(c.oid) as seq_tup_read, null::bigint as idx_scan,
       pg_stat_get_xact_tuples_fetched(c.oid) as idx_tup_fetch, pg_stat_get_xact_tuples_inserted(c.oid) as n_tup_ins,
       pg_stat_get_xact_tuples_updated(c.oid) as n_tup_upd, pg_stat_get_xact_tuples_deleted(c.oid) as n_tup_del,
       pg_stat_get_xact_tuples_hot_updated(c.oid) as n_tup_hot_upd
from pg_class c left join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm', 'p');

create view pg_stat_xact_sys_tables as
select t.relid, t.schemaname, t.relname, t.seq_scan, t.seq_tup_read, t.idx_scan, t.idx_tup_fetch, t.n_tup_ins,
       t.n_tup_upd, t.n_tup_del, t.n_tup_hot_upd
from pg_stat_xact_all_tables t
where t.schemaname in ('pg_catalog', 'information_schema') or t.schemaname ~ '^pg_toast';

create view pg_stat_xact_user_tables as
select t.relid, t.schemaname, t.relname, t.seq_scan, t.seq_tup_read, t.idx_scan, t.idx_tup_fetch, t.n_tup_ins,
       t.n_tup_upd, t.n_tup_del, t.n_tup_hot_upd
from pg_stat_xact_all_tables t
where t.schemaname not in ('pg_catalog', 'information_schema') and t.schemaname !~ '^pg_toast';

create view pg_stat_all_indexes as
select c.oid as relid, i.oid as indexrelid, n.nspname as schemaname, c.relname, i.relname as indexrelname,
       pg_stat_get_numscans(i.oid) as idx_scan, pg_stat_get_tuples_returned(i.oid) as idx_tup_read,
       pg_stat_get_tuples_fetched(i.oid) as idx_tup_fetch
from pg_index x join pg_class c on c.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
     left join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm');

create view pg_stat_sys_indexes as
select t.relid, t.indexrelid, t.schemaname, t.relname, t.indexrelname, t.idx_scan, t.idx_tup_read, t.idx_tup_fetch
from pg_stat_all_indexes t
where t.schemaname in ('pg_catalog', 'information_schema') or t.schemaname ~ '^pg_toast';

create view pg_stat_user_indexes as
select t.relid, t.indexrelid, t.schemaname, t.relname, t.indexrelname, t.idx_scan, t.idx_tup_read, t.idx_tup_fetch
from pg_stat_all_indexes t
where t.schemaname not in ('pg_catalog', 'information_schema') and t.schemaname !~ '^pg_toast';

create view pg_statio_all_tables as
select c.oid as relid, n.nspname as schemaname, c.relname,
       pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) as heap_blks_read,
       pg_stat_get_blocks_hit(c.oid) as heap_blks_hit, null::bigint as idx_blks_read, null::bigint as idx_blks_hit,
       null::bigint as toast_blks_read, null::bigint as toast_blks_hit, null::bigint as tidx_blks_read,
       null::bigint as tidx_blks_hit
from pg_class c left join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm');

create view pg_statio_sys_tables as
select t.relid, t.schemaname, t.relname, t.heap_blks_read, t.heap_blks_hit, t.idx_blks_read, t.idx_blks_hit,
       t.toast_blks_read, t.toast_blks_hit, t.tidx_blks_read, t.tidx_blks_hit
from pg_statio_all_tables t
where t.schemaname in ('pg_catalog', 'information_schema') or t.schemaname ~ '^pg_toast';

create view pg_statio_user_tables as
select t.relid, t.schemaname, t.relname, t.heap_blks_read, t.heap_blks_hit, t.idx_blks_read, t.idx_blks_hit,
       t.toast_blks_read, t.toast_blks_hit, t.tidx_blks_read, t.tidx_blks_hit
from pg_statio_all_tables t
where t.schemaname not in ('pg_catalog', 'information_schema') and t.schemaname !~ '^pg_toast';

create view pg_statio_all_indexes as
select c.oid as relid, i.oid as indexrelid, n.nspname as schemaname, c.relname, i.relname as indexrelname,
       pg_stat_get_blocks_fetched(i.oid) - pg_stat_get_blocks_hit(i.oid) as idx_blks_read,
       pg_stat_get_blocks_hit(i.oid) as idx_blks_hit
from pg_index x join pg_class c on c.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
     left join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 't', 'm');

create view pg_statio_sys_indexes as
select t.relid, t.indexrelid, t.schemaname, t.relname, t.indexrelname, t.idx_blks_read, t.idx_blks_hit
from pg_statio_all_indexes t
where t.schemaname in ('pg_catalog', 'information_schema') or t.schemaname ~ '^pg_toast';

create view pg_statio_user_indexes as
select t.relid, t.indexrelid, t.schemaname, t.relname, t.indexrelname, t.idx_blks_read, t.idx_blks_hit
from pg_statio_all_indexes t
where t.schemaname not in ('pg_catalog', 'information_schema') and t.schemaname !~ '^pg_toast';

create view pg_statio_all_sequences as
select c.oid as relid, n.nspname as schemaname, c.relname,
       pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) as blks_read,
       pg_stat_get_blocks_hit(c.oid) as blks_hit
from pg_class c left join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'S';

create view pg_statio_sys_sequences as
select t.relid, t.schemaname, t.relname, t.blks_read, t.blks_hit
from pg_statio_all_sequences t
where t.schemaname in ('pg_catalog', 'information_schema') or t.schemaname ~ '^pg_toast';

create view pg_statio_user_sequences as
select t.relid, t.schemaname, t.relname, t.blks_read, t.blks_hit
from pg_statio_all_sequences t
where t.schemaname not in ('pg_catalog', 'information_schema') and t.schemaname !~ '^pg_toast';

create view pg_stat_user_functions as
select p.oid as funcid, n.nspname as schemaname, p.proname as funcname, pg_stat_get_function_calls(p.oid) as calls,
       pg_stat_get_function_total_time(p.oid) as total_time, pg_stat_get_function_self_time(p.oid) as self_time
from pg_proc p left join pg_namespace n on n.oid = p.pronamespace
where p.prolang <> 12 and pg_stat_get_function_calls(p.oid) is not null;

create view pg_stat_xact_user_functions as
select p.oid as funcid, n.nspname as schemaname, p.proname as funcname, pg_stat_get_xact_function_calls(p.oid) as calls,
       pg_stat_get_xact_function_total_time(p.oid) as total_time,
       pg_stat_get_xact_function_self_time(p.oid) as self_time
from pg_proc p left join pg_namespace n on n.oid = p.pronamespace
where p.prolang <> 12 and pg_stat_get_xact_function_calls(p.oid) is not null;

create view pg_stats as
select n.nspname as schemaname, c.relname as tablename, a.attname, s.stainherit as inherited,
       s.stanullfrac as null_frac, s.stawidth as avg_width, s.stadistinct as n_distinct,
       case when s.stakind1 = 1 then s.stavalues1 when s.stakind2 = 1 then s.stavalues2
            when s.stakind3 = 1 then s.stavalues3 when s.stakind4 = 1 then s.stavalues4
            when s.stakind5 = 1 then s.stavalues5 end as most_common_vals,
       case when s.stakind1 = 1 then s.stanumbers1 when s.stakind2 = 1 then s.stanumbers2
            when s.stakind3 = 1 then s.stanumbers3 when s.stakind4 = 1 then s.stanumbers4
            when s.stakind5 = 1 then s.stanumbers5 end as most_common_freqs,
       case when s.stakind1 = 2 then s.stavalues1 when s.stakind2 = 2 then s.stavalues2
            when s.stakind3 = 2 then s.stavalues3 when s.stakind4 = 2 then s.stavalues4
            when s.stakind5 = 2 then s.stavalues5 end as histogram_bounds,
       case when s.stakind1 = 3 then s.stanumbers1[1] when s.stakind2 = 3 then s.stanumbers2[1]
            when s.stakind3 = 3 then s.stanumbers3[1] when s.stakind4 = 3 then s.stanumbers4[1]
            when s.stakind5 = 3 then s.stanumbers5[1] end as correlation,
       case when s.stakind1 = 4 then s.stavalues1 when s.stakind2 = 4 then s.stavalues2
            when s.stakind3 = 4 then s.stavalues3 when s.stakind4 = 4 then s.stavalues4
            when s.stakind5 = 4 then s.stavalues5 end as most_common_elems,
       case when s.stakind1 = 4 then s.stanumbers1 when s.stakind2 = 4 then s.stanumbers2
            when s.stakind3 = 4 then s.stanumbers3 when s.stakind4 = 4 then s.stanumbers4
            when s.stakind5 = 4 then s.stanumbers5 end as most_common_elem_freqs,
       case when s.stakind1 = 5 then s.stanumbers1 when s.stakind2 = 5 then s.stanumbers2
            when s.stakind3 = 5 then s.stanumbers3 when s.stakind4 = 5 then s.stanumbers4
            when s.stakind5 = 5 then s.stanumbers5 end as elem_count_histogram
from pg_statistic s join pg_class c on c.oid = s.starelid
     join pg_attribute a on a.attrelid = c.oid and a.attnum = s.staattnum
     left join pg_namespace n on n.oid = c.relnamespace
where not a.attisdropped and has_column_privilege(c.oid, a.attnum, 'select');

create view pg_user_mappings as
select m.oid as umid, s.oid as srvid, s.srvname, m.umuser,
       case when m.umuser = 0 then 'public' else u.rolname end as usename, m.umoptions
from pg_user_mapping m join pg_foreign_server s on s.oid = m.umserver left join pg_authid u on u.oid = m.umuser;

create view pg_seclabels as
select l.objoid, l.classoid, l.objsubid, i.type as objtype, c.relnamespace as objnamespace, i.identity as objname,
       l.provider, l.label
from pg_seclabel l cross join lateral pg_identify_object(l.classoid, l.objoid, l.objsubid) i
     left join pg_class c on l.classoid = 1259 and c.oid = l.objoid;

create view pg_stat_progress_vacuum as
select p.pid, p.datid, d.datname, p.relid, p.param1::text as phase, p.param2 as heap_blks_total,
       p.param3 as heap_blks_scanned, p.param4 as heap_blks_vacuumed, p.param5 as index_vacuum_count,
       p.param6 as max_dead_tuples, p.param7 as num_dead_tuples
from pg_stat_get_progress_info('VACUUM') p left join pg_database d on d.oid = p.datid;

create view pg_stat_progress_create_index as
select p.pid, p.datid, d.datname, p.relid, p.param7::oid as index_relid, p.param1::text as command,
       p.param10::text as phase, p.param4 as lockers_total, p.param5 as lockers_done, p.param6 as current_locker_pid,
       p.param16 as blocks_total, p.param17 as blocks_done, p.param12 as tuples_total, p.param13 as tuples_done,
       p.param14 as partitions_total, p.param15 as partitions_done
from pg_stat_get_progress_info('CREATE INDEX') p left join pg_database d on d.oid = p.datid;

create view pg_stat_subscription as
select s.oid as subid, s.subname, g.pid, g.relid, g.received_lsn, g.last_msg_send_time, g.last_msg_receipt_time,
       g.latest_end_lsn, g.latest_end_time
from pg_subscription s left join pg_stat_get_subscription(null) g on g.subid = s.oid;

create view pg_stats_ext as
select n.nspname as schemaname, c.relname as tablename, sn.nspname as statistics_schemaname,
       x.stxname as statistics_name, pg_get_userbyid(x.stxowner) as statistics_owner, null::name[] as attnames,
       pg_get_statisticsobjdef_expressions(x.oid) as exprs, x.stxkind as kinds, d.stxdinherit as inherited,
       d.stxdndistinct as n_distinct, d.stxddependencies as dependencies, null::text[] as most_common_vals,
       null::boolean[] as most_common_val_nulls, null::double precision[] as most_common_freqs,
       null::double precision[] as most_common_base_freqs
from pg_statistic_ext x join pg_class c on c.oid = x.stxrelid join pg_statistic_ext_data d on d.stxoid = x.oid
     left join pg_namespace n on n.oid = c.relnamespace left join pg_namespace sn on sn.oid = x.stxnamespace;
