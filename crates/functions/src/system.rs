//! Functions that need the catalog, the storage or the transaction: their bodies are in the session, behind
//! [`Env::system_function`](cairn_types::Env::system_function), which is called with the row's `prosrc`.
//!
//! Adding one is adding a name here and an arm there. A name without its arm there is refused with 0A000 when it
//! is called, not when it is planned, so a name comes with its arm.
//!
//! A set-returning one returns an array: a record for each row where the function has several OUT columns, the
//! row's value where it has one.

use cairn_types::{Datum, Result, Row};

use crate::set_returning::{RowStream, Rows, SetFn};
use crate::{Call, ScalarFn};

/// Expands each name to a body that hands the call to the session, and lists the names.
macro_rules! routed {
    ($($name:ident)*) => {
        /// The `prosrc` of every scalar function that the session implements.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub const BODIES: &[(&str, ScalarFn)] = &[$((stringify!($name), {
            fn route(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
                call.env.system_function(stringify!($name), args, &call.info)
            }
            route
        })),*];
    };
}

macro_rules! routed_sets {
    ($($name:ident)*) => {
        /// The `prosrc` of every set-returning function that the session implements.
        pub const SET_NAMES: &[&str] = &[$(stringify!($name)),*];

        pub const SET_BODIES: &[(&str, SetFn)] = &[$((stringify!($name), {
            fn route(call: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
                rows_of(call.env.system_function(stringify!($name), args, &call.info)?)
            }
            route
        })),*];
    };
}

fn rows_of(value: Datum) -> Result<Box<dyn RowStream>> {
    let Datum::Array(array) = value else { return Ok(Rows::boxed(Vec::new())) };
    let row = |element: &Datum| -> Row {
        match element {
            Datum::Record(record) => record.values.clone(),
            value => vec![value.clone()],
        }
    };
    Ok(Rows::boxed(array.elements.iter().map(row).collect()))
}

routed! {
    current_query current_schema current_schemas
    acldefault_sql currval_oid enum_first enum_last enum_range_all enum_range_bounds format_type has_any_column_privilege_id
    has_any_column_privilege_id_id has_any_column_privilege_id_name has_any_column_privilege_name
    has_any_column_privilege_name_id has_any_column_privilege_name_name has_column_privilege_id_attnum
    has_column_privilege_id_id_attnum has_column_privilege_id_id_name has_column_privilege_id_name
    has_column_privilege_id_name_attnum has_column_privilege_id_name_name has_column_privilege_name_attnum
    has_column_privilege_name_id_attnum has_column_privilege_name_id_name has_column_privilege_name_name
    has_column_privilege_name_name_attnum has_column_privilege_name_name_name has_database_privilege_id
    has_database_privilege_id_id has_database_privilege_id_name has_database_privilege_name
    has_database_privilege_name_id has_database_privilege_name_name has_foreign_data_wrapper_privilege_id
    has_foreign_data_wrapper_privilege_id_id has_foreign_data_wrapper_privilege_id_name
    has_foreign_data_wrapper_privilege_name has_foreign_data_wrapper_privilege_name_id
    has_foreign_data_wrapper_privilege_name_name has_function_privilege_id has_function_privilege_id_id
    has_function_privilege_id_name has_function_privilege_name has_function_privilege_name_id
    has_function_privilege_name_name has_language_privilege_id has_language_privilege_id_id
    has_language_privilege_id_name has_language_privilege_name has_language_privilege_name_id
    has_language_privilege_name_name has_parameter_privilege_id_name has_parameter_privilege_name
    has_parameter_privilege_name_name has_schema_privilege_id has_schema_privilege_id_id
    has_schema_privilege_id_name has_schema_privilege_name has_schema_privilege_name_id
    has_schema_privilege_name_name has_sequence_privilege_id has_sequence_privilege_id_id
    has_sequence_privilege_id_name has_sequence_privilege_name has_sequence_privilege_name_id
    has_sequence_privilege_name_name has_server_privilege_id has_server_privilege_id_id
    has_server_privilege_id_name has_server_privilege_name has_server_privilege_name_id
    has_server_privilege_name_name has_table_privilege_id has_table_privilege_id_id
    has_table_privilege_id_name has_table_privilege_name has_table_privilege_name_id
    has_table_privilege_name_name has_tablespace_privilege_id has_tablespace_privilege_id_id
    has_tablespace_privilege_id_name has_tablespace_privilege_name has_tablespace_privilege_name_id
    has_tablespace_privilege_name_name has_type_privilege_id has_type_privilege_id_id
    has_type_privilege_id_name has_type_privilege_name has_type_privilege_name_id
    has_type_privilege_name_name inet_client_addr inet_client_port inet_server_addr inet_server_port lastval
    mxid_age nextval_oid pg_advisory_lock_int4 pg_advisory_lock_int8
    pg_advisory_lock_shared_int4 pg_advisory_lock_shared_int8 pg_advisory_unlock_all pg_advisory_unlock_int4
    pg_advisory_unlock_int8 pg_advisory_unlock_shared_int4 pg_advisory_unlock_shared_int8
    pg_advisory_xact_lock_int4 pg_advisory_xact_lock_int8 pg_advisory_xact_lock_shared_int4
    pg_advisory_xact_lock_shared_int8 pg_blocking_pids pg_cancel_backend     pg_collation_for pg_collation_is_visible pg_column_compression pg_column_is_updatable pg_conf_load_time
    pg_conversion_is_visible pg_current_snapshot pg_current_xact_id pg_current_xact_id_if_assigned
    pg_database_size_name pg_database_size_oid pg_describe_object
    pg_export_snapshot pg_extension_config_dump pg_filenode_relation pg_function_is_visible
    pg_get_constraintdef pg_get_constraintdef_ext pg_get_expr pg_get_expr_ext pg_get_function_arg_default
    pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result
    pg_get_function_sqlbody pg_get_functiondef pg_get_indexdef pg_get_indexdef_ext pg_get_object_address
    pg_get_partition_constraintdef pg_get_partkeydef pg_get_replica_identity_index pg_get_ruledef
    pg_get_ruledef_ext pg_get_serial_sequence pg_get_statisticsobjdef pg_get_statisticsobjdef_columns
    pg_get_statisticsobjdef_expressions pg_get_triggerdef pg_get_triggerdef_ext pg_get_userbyid
    pg_get_viewdef pg_get_viewdef_ext pg_get_viewdef_name pg_get_viewdef_name_ext pg_get_viewdef_wrap
    pg_has_role_id pg_has_role_id_id pg_has_role_id_name pg_has_role_name pg_has_role_name_id
    pg_has_role_name_name pg_identify_object pg_identify_object_as_address pg_index_column_has_property
    pg_index_has_property pg_indexam_has_property pg_indexes_size pg_is_other_temp_schema
    pg_isolation_test_session_is_blocked pg_last_committed_xact pg_my_temp_schema
    pg_notification_queue_usage pg_notify pg_opclass_is_visible pg_operator_is_visible
    pg_opfamily_is_visible pg_partition_root pg_postmaster_start_time pg_promote pg_relation_filenode
    pg_relation_filepath pg_relation_is_publishable pg_relation_is_updatable pg_relation_size pg_reload_conf
    pg_rotate_logfile pg_rotate_logfile_v2 pg_safe_snapshot_blocking_pids pg_sequence_last_value
    pg_sequence_parameters pg_settings_get_flags pg_snapshot_xmax pg_snapshot_xmin pg_stat_clear_snapshot
    pg_stat_force_next_flush pg_stat_get_analyze_count pg_stat_get_autoanalyze_count
    pg_stat_get_autovacuum_count pg_stat_get_backend_activity pg_stat_get_backend_activity_start
    pg_stat_get_backend_client_addr pg_stat_get_backend_client_port pg_stat_get_backend_dbid
    pg_stat_get_backend_pid pg_stat_get_backend_start pg_stat_get_backend_userid
    pg_stat_get_backend_wait_event pg_stat_get_backend_wait_event_type pg_stat_get_backend_xact_start
    pg_stat_get_bgwriter_buf_written_checkpoints pg_stat_get_bgwriter_buf_written_clean
    pg_stat_get_bgwriter_maxwritten_clean pg_stat_get_bgwriter_requested_checkpoints
    pg_stat_get_bgwriter_stat_reset_time pg_stat_get_bgwriter_timed_checkpoints pg_stat_get_blocks_fetched
    pg_stat_get_blocks_hit pg_stat_get_buf_alloc pg_stat_get_buf_fsync_backend
    pg_stat_get_buf_written_backend pg_stat_get_checkpoint_sync_time pg_stat_get_checkpoint_write_time
    pg_stat_get_db_active_time pg_stat_get_db_blk_read_time pg_stat_get_db_blk_write_time
    pg_stat_get_db_blocks_fetched pg_stat_get_db_blocks_hit pg_stat_get_db_checksum_failures
    pg_stat_get_db_checksum_last_failure pg_stat_get_db_conflict_all pg_stat_get_db_conflict_bufferpin
    pg_stat_get_db_conflict_lock pg_stat_get_db_conflict_snapshot pg_stat_get_db_conflict_startup_deadlock
    pg_stat_get_db_conflict_tablespace pg_stat_get_db_deadlocks pg_stat_get_db_idle_in_transaction_time
    pg_stat_get_db_numbackends pg_stat_get_db_session_time pg_stat_get_db_sessions
    pg_stat_get_db_sessions_abandoned pg_stat_get_db_sessions_fatal pg_stat_get_db_sessions_killed
    pg_stat_get_db_stat_reset_time pg_stat_get_db_temp_bytes pg_stat_get_db_temp_files
    pg_stat_get_db_tuples_deleted pg_stat_get_db_tuples_fetched pg_stat_get_db_tuples_inserted
    pg_stat_get_db_tuples_returned pg_stat_get_db_tuples_updated pg_stat_get_db_xact_commit
    pg_stat_get_db_xact_rollback pg_stat_get_dead_tuples pg_stat_get_function_calls
    pg_stat_get_function_self_time pg_stat_get_function_total_time pg_stat_get_ins_since_vacuum
    pg_stat_get_last_analyze_time pg_stat_get_last_autoanalyze_time pg_stat_get_last_autovacuum_time
    pg_stat_get_last_vacuum_time pg_stat_get_live_tuples pg_stat_get_mod_since_analyze pg_stat_get_numscans
    pg_stat_get_tuples_deleted pg_stat_get_tuples_fetched pg_stat_get_tuples_hot_updated
    pg_stat_get_tuples_inserted pg_stat_get_tuples_returned pg_stat_get_tuples_updated
    pg_stat_get_vacuum_count pg_stat_get_xact_blocks_fetched pg_stat_get_xact_blocks_hit
    pg_stat_get_xact_function_calls pg_stat_get_xact_function_self_time pg_stat_get_xact_function_total_time
    pg_stat_get_xact_numscans pg_stat_get_xact_tuples_deleted pg_stat_get_xact_tuples_fetched
    pg_stat_get_xact_tuples_hot_updated pg_stat_get_xact_tuples_inserted pg_stat_get_xact_tuples_returned
    pg_stat_get_xact_tuples_updated pg_stat_reset pg_stat_reset_replication_slot pg_stat_reset_shared
    pg_stat_reset_single_function_counters pg_stat_reset_single_table_counters pg_stat_reset_slru
    pg_stat_reset_subscription_stats pg_statistics_obj_is_visible pg_switch_wal pg_table_is_visible
    pg_table_size pg_tablespace_location pg_tablespace_size_name pg_tablespace_size_oid pg_terminate_backend
    pg_total_relation_size pg_trigger_depth pg_try_advisory_lock_int4 pg_try_advisory_lock_int8
    pg_try_advisory_lock_shared_int4 pg_try_advisory_lock_shared_int8 pg_try_advisory_xact_lock_int4
    pg_try_advisory_xact_lock_int8 pg_try_advisory_xact_lock_shared_int4
    pg_try_advisory_xact_lock_shared_int8 pg_ts_config_is_visible pg_ts_dict_is_visible
    pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible pg_visible_in_snapshot
    pg_xact_commit_timestamp pg_xact_status     satisfies_hash_partition setval3_oid setval_oid xid_age
}

routed_sets! {
    cairn_pins cairn_storage_counters cairn_tables
    aclexplode pg_available_extension_versions pg_available_extensions pg_cursor pg_extension_update_paths
    pg_get_catalog_foreign_keys pg_get_keywords pg_get_publication_tables pg_get_replication_slots
    pg_hba_file_rules pg_listening_channels pg_lock_status pg_options_to_table pg_partition_ancestors
    pg_partition_tree pg_prepared_statement pg_prepared_xact pg_snapshot_xip pg_stat_get_activity
    pg_stat_get_backend_idset pg_stat_get_progress_info pg_stat_get_subscription pg_stat_get_wal_senders
    pg_tablespace_databases show_all_file_settings show_all_settings
}
