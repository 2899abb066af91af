//! Advisory locks (manual, section 9.27.10).
//!
//! All forms are one: `pg_[try_]advisory_[xact_]lock[_shared]`, each with one bigint or two integers as its key, which
//! are two separate spaces of keys.

use cairn_exec::TxnResultExt;
use cairn_txn::{LockOutcome, LockScope, LockTag, TableLockMode, WaitPolicy};
use cairn_types::{Datum, Error, Result, sqlstate};

use super::{Arguments, System, void};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let (attempt, rest) = match system.name.strip_prefix("pg_try_advisory_") {
        Some(rest) => (true, rest),
        None => match system.name.strip_prefix("pg_advisory_") {
            Some(rest) => (false, rest),
            None => return Ok(None),
        },
    };
    if rest == "unlock_all" {
        system.host.store().unlock_all(system.host.handle());
        return Ok(Some(void()));
    }
    let tag = if rest.ends_with("_int4") {
        LockTag::AdvisoryPair(a.int4(0)?, a.int4(1)?)
    } else {
        LockTag::Advisory(a.int8(0)?)
    };
    let mode = if rest.contains("_shared") { TableLockMode::Share } else { TableLockMode::Exclusive };
    if rest.starts_with("unlock") {
        let released = system.host.store().unlock_object(system.host.handle(), tag, mode);
        if !released {
            let name = if mode == TableLockMode::Share { "ShareLock" } else { "ExclusiveLock" };
            let message = format!("you don't own a lock of type {name}");
            system.env.notice(Error::warning(sqlstate::WARNING, message));
        }
        return Ok(Some(Datum::Bool(released)));
    }
    let scope = if rest.starts_with("xact") { LockScope::Transaction } else { LockScope::Session };
    let wait =
        if attempt { WaitPolicy::Skip } else { WaitPolicy::Block { timeout: system.host.lock_timeout() } };
    let outcome = system.host.transaction()?.lock_object(tag, mode, scope, wait).sql()?;
    Ok(Some(if attempt { Datum::Bool(matches!(outcome, LockOutcome::Acquired { .. })) } else { void() }))
}
