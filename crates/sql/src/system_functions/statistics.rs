//! The counters behind the pg_stat views.
//!
//! What is not counted is null, so that a view says "not known" and not "never"; resetting it succeeds. Counters begin when
//! the database is opened, those of ANALYZE too. Live and dead rows are counted in the storage when they are asked for, or estimated where
//! there are many.

use cairn_exec::TxnResultExt;
use cairn_txn::{Census, Event};
use cairn_types::{Datum, Oid, Result};

use super::{Arguments, System, void};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let value = match system.name {
        "pg_stat_get_numscans" => system.counted(a.oid(0)?, Event::Scan),
        "pg_stat_get_tuples_returned" => system.counted(a.oid(0)?, Event::Read),
        "pg_stat_get_tuples_fetched" => system.counted(a.oid(0)?, Event::Fetch),
        "pg_stat_get_tuples_inserted" => system.counted(a.oid(0)?, Event::Insert),
        "pg_stat_get_tuples_updated" => system.counted(a.oid(0)?, Event::Update),
        "pg_stat_get_tuples_deleted" => system.counted(a.oid(0)?, Event::Delete),
        // A heap-only update is one that touches no index: there is no such difference here.
        "pg_stat_get_tuples_hot_updated" => Datum::Null,
        "pg_stat_get_live_tuples" => system.census(a.oid(0)?, |census| census.live)?,
        "pg_stat_get_dead_tuples" => {
            system.census(a.oid(0)?, |census| census.versions.saturating_sub(census.live))?
        }
        "pg_stat_get_mod_since_analyze" => {
            let changes = system.host.changes_since_analyze(a.oid(0)?);
            Datum::Int8(i64::try_from(changes).unwrap_or(i64::MAX))
        }
        "pg_stat_get_analyze_count" => Datum::Int8(system.host.analyzed(a.oid(0)?).by_hand as i64),
        "pg_stat_get_autoanalyze_count" => Datum::Int8(system.host.analyzed(a.oid(0)?).automatic as i64),
        "pg_stat_get_last_analyze_time" => time(system.host.analyzed(a.oid(0)?).last_by_hand_us),
        "pg_stat_get_last_autoanalyze_time" => time(system.host.analyzed(a.oid(0)?).last_automatic_us),
        "pg_stat_get_db_numbackends" => {
            let database = a.oid(0)?;
            let count = system.host.sessions().iter().filter(|session| session.database == database).count();
            Datum::Int4(i32::try_from(count).unwrap_or(i32::MAX))
        }
        "pg_stat_reset" => {
            system.host.store().reset_activity(None);
            void()
        }
        "pg_stat_reset_single_table_counters" => {
            system.host.store().reset_activity(Some(a.oid(0)?));
            void()
        }
        "pg_stat_clear_snapshot"
        | "pg_stat_force_next_flush"
        | "pg_stat_reset_slru"
        | "pg_stat_reset_replication_slot"
        | "pg_stat_reset_shared"
        | "pg_stat_reset_single_function_counters"
        | "pg_stat_reset_subscription_stats" => void(),
        name if name.starts_with("pg_stat_get_") => Datum::Null,
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Null: never.
fn time(time_us: Option<i64>) -> Datum {
    time_us.map_or(Datum::Null, Datum::TimestampTz)
}

impl System<'_> {
    /// As in PostgreSQL 0 where nothing was counted, or nothing has the oid.
    fn counted(&self, oid: Oid, event: Event) -> Datum {
        let counted = self.host.store().known_activity(oid).map_or(0, |activity| activity.sum(event));
        Datum::Int8(i64::try_from(counted).unwrap_or(i64::MAX))
    }

    /// 0 for what keeps no rows of its own.
    fn census(&self, oid: Oid, figure: impl FnOnce(&Census) -> u64) -> Result<Datum> {
        let relation = self.catalog.relation(oid).filter(|relation| super::storage::keeps_rows(relation));
        let Some(relation) = relation else { return Ok(Datum::Int8(0)) };
        let census = self.host.store().census(relation.storage).sql()?;
        Ok(Datum::Int8(i64::try_from(figure(&census)).unwrap_or(i64::MAX)))
    }
}
