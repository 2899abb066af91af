//! Unique indexes: the encoded key, there or absent, is locked, and then its newest state is read, at every isolation level.
//!
//! Whoever makes an entry and whoever removes one holds UPDATE on the entry's key until the end of the transaction. So a
//! second inserter waits for the first one's end, and one that meets an uncommitted removal waits for that.
//!
//! A deferrable constraint's entries end in the row key, like those of an index that is not unique, so that two rows
//! can have the value for a while; that there is only one is checked when the statement or the transaction ends.

use std::sync::Arc;

use cairn_catalog::Constraint;
use cairn_txn::{KeyRange, Newest, RowLockMode, WaitPolicy};
use cairn_types::key::prefix_successor;
use cairn_types::{Datum, Error, Result, err};

use super::target::IndexTarget;
use crate::context::ExecContext;
use crate::error::TxnResultExt;
use crate::table::TableLayout;

pub(super) fn wait(cx: &ExecContext<'_>) -> WaitPolicy {
    WaitPolicy::Block { timeout: cx.lock_timeout }
}

/// Locks the key for its writer and reads what is there.
pub(super) fn claim(cx: &ExecContext<'_>, key: &[u8]) -> Result<Newest> {
    cx.txn.lock_row(key, RowLockMode::Update, wait(cx)).sql()?;
    cx.txn.newest_of_locked(key).sql()
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
