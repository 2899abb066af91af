//! Unique indexes: the encoded key, there or absent, is locked, and then its newest state is read, at every isolation level.
//!
//! Whoever makes an entry and whoever removes one holds UPDATE on the entry's key until the end of the transaction. So a
//! second inserter waits for the first one's end, and one that meets an uncommitted removal waits for that. A row that is merely
//! locked by others is no reason to wait: its duplicate fails in any case.
//!
//! Entries are locked behind their rows, never before them: see `docs/locks.md`, "Order".
//!
//! A deferrable constraint's entries end in the row key, like those of an index that is not unique, so that two rows
//! can have the value for a while; that there is only one is checked when the statement or the transaction ends.

use std::sync::Arc;

use cairn_catalog::Constraint;
use cairn_txn::{KeyRange, LockOutcome, Newest, RowLockMode, WaitPolicy};
use cairn_types::key::prefix_successor;
use cairn_types::{Datum, Error, Result, err};

use super::target::IndexTarget;
use crate::context::ExecContext;
use crate::error::TxnResultExt;
use crate::table::TableLayout;

pub(super) fn wait(cx: &ExecContext<'_>) -> WaitPolicy {
    WaitPolicy::Block { timeout: cx.lock_timeout }
}

/// Locks the key for its writer, if nobody has it, and reads what is there. A row that is there and stays, whoever
/// holds locks of it, is the answer at once, without a lock: its duplicate is an error anyway.
pub(super) fn claim(cx: &ExecContext<'_>, key: &[u8]) -> Result<Newest> {
    let newest = match cx.txn.lock_row(key, RowLockMode::Update, WaitPolicy::Skip) {
        Ok(LockOutcome::Acquired { .. }) => return cx.txn.newest_of_locked(key).sql(),
        Ok(LockOutcome::Skipped) => match staying(cx, key)? {
            Some(newest) => Ok(newest),
            None => match cx.txn.lock_row(key, RowLockMode::Update, wait(cx)) {
                Ok(_) => return cx.txn.newest_of_locked(key).sql(),
                Err(error) => Err(error),
            },
        },
        Err(error) => Err(error),
    };
    match newest {
        // A row that the transaction's snapshot shows in another version is a duplicate all the same.
        Err(error @ cairn_txn::Error::Serialization(_)) => {
            let newest = cx.txn.newest(key).sql()?;
            if newest.value.is_some() { Ok(newest) } else { Err(error).sql() }
        }
        newest => newest.sql(),
    }
}

/// The newest state of a key under which there is a row that nobody is removing. Who is gets waited for.
pub(super) fn staying(cx: &ExecContext<'_>, key: &[u8]) -> Result<Option<Newest>> {
    let present = |newest: Newest| newest.value.is_some().then_some(newest);
    let Some(newest) = present(cx.txn.newest(key).sql()?) else { return Ok(None) };
    if newest.own_command.is_some() {
        return Ok(Some(newest));
    }
    let outcome = passing(cx, || cx.txn.lock_row(key, RowLockMode::Witness, wait(cx)).sql())?;
    if outcome == (LockOutcome::Acquired { waited: false }) {
        return Ok(Some(newest));
    }
    Ok(present(cx.txn.newest(key).sql()?))
}

/// Gives back at once the locks that `lock` takes.
pub(super) fn passing<T>(cx: &ExecContext<'_>, lock: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = cx.txn.savepoint();
    let result = lock();
    cx.txn.rollback_to(before).sql()?;
    cx.txn.release(before).sql()?;
    result
}

/// Keeps the locks that `lock` takes if it finds something, and else gives them back.
pub(super) fn keeping_if_found<T>(
    cx: &ExecContext<'_>,
    lock: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let before = cx.txn.savepoint();
    let result = lock();
    if !matches!(result, Ok(Some(_))) {
        cx.txn.rollback_to(before).sql()?;
    }
    cx.txn.release(before).sql()?;
    result
}

/// `Key (a, b)=(1, 2)`, as PostgreSQL words it.
pub(super) fn describe_key(
    cx: &ExecContext<'_>,
    names: &[String],
    values: &[(Datum, cairn_types::Oid)],
) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|(value, type_oid)| match value {
            Datum::Null => "null".to_owned(),
            value => {
                cairn_types::io::output_string(value, *type_oid, cx.env).unwrap_or_else(|_| "?".to_owned())
            }
        })
        .collect();
    format!("Key ({})=({})", names.join(", "), texts.join(", "))
}

/// 23505.
#[cold]
pub(super) fn violation(cx: &ExecContext<'_>, table: &TableLayout, index: &str, key: &str) -> Error {
    // A serializable transaction that has read otherwise is told so: run again, it may not try.
    if let Err(error) = cx.txn.check_reads(false).sql() {
        return error;
    }
    let relation = &table.relation;
    err!(UNIQUE_VIOLATION, "duplicate key value violates unique constraint \"{index}\"")
        .detail(format!("{key} already exists."))
        .table(cx.catalog.namespace_name(relation.namespace).to_string(), relation.name.to_string())
        .constraint(index)
}

/// A value that a deferrable unique constraint must find once only.
#[derive(Clone, Debug)]
pub struct DeferredUnique {
    pub constraint: Arc<Constraint>,
    pub table: Arc<TableLayout>,
    pub index: String,
    /// The encoded key columns, storage id first.
    pub prefix: Vec<u8>,
    /// `Key (a)=(1)`, for the error.
    pub key: String,
}

impl DeferredUnique {
    pub(super) fn new(
        cx: &ExecContext<'_>,
        constraint: &Arc<Constraint>,
        table: &Arc<TableLayout>,
        index: &IndexTarget,
        values: &[Datum],
    ) -> Result<Self> {
        Ok(DeferredUnique {
            constraint: Arc::clone(constraint),
            table: Arc::clone(table),
            index: index.layout.index.name.to_string(),
            prefix: index.layout.encode_columns(values)?,
            key: index.describe(cx, values),
        })
    }
}

/// Looks whether more than one row has the value now.
pub(super) fn check_deferred(cx: &ExecContext<'_>, check: &DeferredUnique) -> Result<()> {
    // Its lock keeps others from adding the value until this transaction has ended.
    cx.txn.lock_row(&check.prefix, RowLockMode::Update, wait(cx)).sql()?;
    let Some(high) = prefix_successor(&check.prefix) else {
        return Err(Error::internal("an index key without end"));
    };
    let range = KeyRange { low: check.prefix.clone(), high };
    let mut cursor = cx.txn.scan(&super::NEWEST, range, cairn_txn::Direction::Forward).sql()?;
    let mut rows = 0;
    while rows < 2 && cursor.next().sql()?.is_some() {
        rows += 1;
    }
    if rows > 1 { Err(violation(cx, &check.table, &check.index, &check.key)) } else { Ok(()) }
}
