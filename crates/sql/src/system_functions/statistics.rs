//! The counters behind the pg_stat views.
//!
//! Cairn counts few of them yet. What is not counted is null, so that a view says "not known" and not "never"; there is
//! nothing to reset, so resetting succeeds. Relations and databases that do not exist are null too.

use cairn_types::{Datum, Result};

use super::{Arguments, System, void};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let value = match system.name {
        "pg_stat_get_live_tuples" => {
            let relation = system.catalog.relation(a.oid(0)?);
            // Negative: never estimated.
            let rows = relation.map(|relation| relation.estimated_rows).filter(|rows| *rows >= 0.0);
            rows.map_or(Datum::Null, |rows| Datum::Int8(rows as i64))
        }
        "pg_stat_get_db_numbackends" => {
            let database = a.oid(0)?;
            let count = system.host.sessions().iter().filter(|session| session.database == database).count();
            Datum::Int4(i32::try_from(count).unwrap_or(i32::MAX))
        }
        "pg_stat_clear_snapshot"
        | "pg_stat_force_next_flush"
        | "pg_stat_reset"
        | "pg_stat_reset_replication_slot"
        | "pg_stat_reset_shared"
        | "pg_stat_reset_single_function_counters"
        | "pg_stat_reset_single_table_counters"
        | "pg_stat_reset_slru"
        | "pg_stat_reset_subscription_stats" => void(),
        name if name.starts_with("pg_stat_get_") => Datum::Null,
        _ => return Ok(None),
    };
    Ok(Some(value))
}
