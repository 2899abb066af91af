//! User objects in the database's store.
//!
//! Every system catalog is a key space of its own, its storage id being the catalog's oid (all below 16384, where the
//! storage ids of tables begin):
//!
//! ```text
//! key   := catalog oid (4 bytes, big endian), primary key columns as in cairn_types::key
//! value := packed row as in cairn_types::row: PostgreSQL's columns, then Cairn's own (crate::system_table)
//! ```
//!
//! A row that has the key of a built-in one takes its place; one in pg_namespace without a name hides it. Reading at a
//! snapshot of the past gives the objects of that time. A writer locks the key of each row that it writes; what a
//! name means is protected by the locks that DDL takes on names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_storage::Error as StorageError;
use cairn_txn::{Direction, KeyRange, Result, RowLockMode, Snapshot, Transaction, WaitPolicy};
use cairn_types::row::{RowReader, encode_row};
use cairn_types::{Datum, Oid};

use crate::catalog::Catalog;
use crate::objects::Touched;
use crate::rows::{Rows, StoredRows};
use crate::system_table::{CatalogRow, SystemTable, system_table, system_tables};

/// Form of stored catalog rows; goes up when Cairn's own columns change.
const ROW_VERSION: u32 = 1;

/// Gives every picture a number of its own.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

fn next_version() -> u64 {
    NEXT_VERSION.fetch_add(1, Ordering::Relaxed)
}

fn corrupt(what: &'static str, detail: impl std::fmt::Display) -> cairn_txn::Error {
    StorageError::Corruption { what, detail: detail.to_string() }.into()
}

fn stored_key(table: &SystemTable, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(4 + key.len());
    stored.extend_from_slice(&table.oid.to_be_bytes());
    stored.extend_from_slice(key);
    stored
}

fn row_key(table: &SystemTable, row: &[Datum]) -> Result<Vec<u8>> {
    table.row_key(row).map_err(|error| corrupt("catalog key", error))
}

impl Catalog {
    /// Reads all user objects as of `snapshot`.
    pub fn load(txn: &dyn Transaction, snapshot: &Snapshot) -> Result<Catalog> {
        let mut stored = StoredRows::default();
        for table in system_tables().filter(|table| !table.shared) {
            let range = KeyRange {
                low: table.oid.to_be_bytes().to_vec(),
                high: (table.oid + 1).to_be_bytes().to_vec(),
            };
            let mut cursor = txn.scan(snapshot, range, Direction::Forward)?;
            let Some(rows) = stored.table_mut(table.oid) else { continue };
            let kinds = table.stored_kinds();
            while let Some((_, value)) = cursor.next()? {
                let read = RowReader::new(value).and_then(|reader| {
                    let mut row = reader.decode_all(&kinds)?;
                    row.resize(kinds.len(), Datum::Null);
                    Ok(row)
                });
                let row = read.map_err(|error| corrupt("catalog row", error))?;
                rows.insert(row.into());
            }
        }
        Ok(Catalog::from_rows(stored, next_version()))
    }
}

impl Catalog {
    /// The same picture in which a table has no index but its primary key: for reading it while the entries of the
    /// others are still being made.
    pub fn without_secondary_indexes(&self, table: Oid) -> Catalog {
        use crate::RowExt;
        use crate::columns::pg_index;
        let mut rows = self.stored().clone();
        let mut touched = Touched::default();
        let hidden: Vec<CatalogRow> = rows
            .find(pg_index::TABLE, &[(pg_index::INDRELID, Datum::Oid(table))])
            .filter(|row| !row.bool(pg_index::INDISPRIMARY))
            .cloned()
            .collect();
        for row in hidden {
            touched.note(pg_index::TABLE, &row);
            let key = system_table(pg_index::TABLE).and_then(|index| index.row_key(&row).ok());
            if let (Some(key), Some(rows)) = (key, rows.table_mut(pg_index::TABLE)) {
                rows.remove(&key);
            }
        }
        self.changed(rows, &touched, next_version())
    }
}

/// Changes catalog rows inside a transaction, and gives the picture after the changes.
pub struct CatalogWriter<'a> {
    txn: &'a dyn Transaction,
    base: Arc<Catalog>,
    rows: StoredRows,
    touched: Touched,
}

impl<'a> CatalogWriter<'a> {
    /// `base` is the picture that the transaction sees now.
    pub fn new(txn: &'a dyn Transaction, base: Arc<Catalog>) -> Self {
        let rows = base.stored().clone();
        CatalogWriter { txn, base, rows, touched: Touched::default() }
    }

    pub fn transaction(&self) -> &'a dyn Transaction {
        self.txn
    }

    fn table(catalog: Oid) -> Result<&'static SystemTable> {
        system_table(catalog).ok_or(cairn_txn::Error::Misuse("not a system catalog"))
    }

    /// Inserts a row, or replaces the one with the same primary key.
    pub fn put(&mut self, catalog: Oid, mut row: Vec<Datum>) -> Result<()> {
        let table = Self::table(catalog)?;
        row.resize(table.stored_kinds().len(), Datum::Null);
        let key = row_key(table, &row)?;
        let stored = stored_key(table, &key);
        self.txn.lock_row(&stored, RowLockMode::Update, WaitPolicy::Block { timeout: Duration::ZERO })?;
        let mut value = Vec::with_capacity(256);
        encode_row(ROW_VERSION, &row, &mut value);
        self.txn.put(&stored, &value)?;
        self.touched.note(catalog, &row);
        if let Some(rows) = self.rows.table_mut(catalog) {
            rows.insert(row.into());
        }
        Ok(())
    }

    /// Removes a stored row.
    pub fn delete(&mut self, catalog: Oid, row: &[Datum]) -> Result<()> {
        let table = Self::table(catalog)?;
        let key = row_key(table, row)?;
        let stored = stored_key(table, &key);
        self.txn.lock_row(&stored, RowLockMode::Update, WaitPolicy::Block { timeout: Duration::ZERO })?;
        self.txn.delete(&stored)?;
        self.touched.note(catalog, row);
        if let Some(rows) = self.rows.table_mut(catalog) {
            rows.remove(&key);
        }
        Ok(())
    }

    /// Removes the stored rows for which `condition` holds; how many.
    pub fn delete_where(&mut self, catalog: Oid, condition: impl Fn(&[Datum]) -> bool) -> Result<usize> {
        let rows = self.rows_where(catalog, condition);
        for row in &rows {
            self.delete(catalog, row)?;
        }
        Ok(rows.len())
    }

    /// Changes the stored rows for which `condition` holds; how many. The primary key must stay.
    pub fn update_where(
        &mut self,
        catalog: Oid,
        condition: impl Fn(&[Datum]) -> bool,
        change: impl Fn(&mut Vec<Datum>),
    ) -> Result<usize> {
        let rows = self.rows_where(catalog, condition);
        for row in &rows {
            let mut row = row.to_vec();
            change(&mut row);
            self.put(catalog, row)?;
        }
        Ok(rows.len())
    }

    /// Stored rows for which `condition` holds.
    pub fn rows_where(&self, catalog: Oid, condition: impl Fn(&[Datum]) -> bool) -> Vec<CatalogRow> {
        self.rows.table(catalog).filter(|row| condition(row)).cloned().collect()
    }

    /// Stored rows that have these values in the first columns of one of the catalog's indexes: columns and values, in the
    /// index's order.
    pub fn rows_by(&self, catalog: Oid, key: &[(usize, Datum)]) -> Vec<CatalogRow> {
        self.rows.find(catalog, key).cloned().collect()
    }

    /// Removes [`CatalogWriter::rows_by`].
    pub fn delete_by(&mut self, catalog: Oid, key: &[(usize, Datum)]) -> Result<()> {
        for row in self.rows_by(catalog, key) {
            self.delete(catalog, &row)?;
        }
        Ok(())
    }

    /// Changes [`CatalogWriter::rows_by`]. The primary key must stay.
    pub fn update_by(
        &mut self,
        catalog: Oid,
        key: &[(usize, Datum)],
        change: impl Fn(&mut Vec<Datum>),
    ) -> Result<()> {
        for row in self.rows_by(catalog, key) {
            let mut row = row.to_vec();
            change(&mut row);
            self.put(catalog, row)?;
        }
        Ok(())
    }

    /// The picture with all changes so far. The transaction's next command sees them in the store too once the caller
    /// has advanced the command number.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::new(self.base.changed(self.rows.clone(), &self.touched, next_version()))
    }
}
