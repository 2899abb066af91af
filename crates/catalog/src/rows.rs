//! Rows of the system catalogs, found by their keys.
//!
//! A catalog's rows are kept under the keys of all indexes that PostgreSQL has on it ([`SystemTable::indexes`]). Queries use
//! these, and so does what builds objects from rows: the cost of a lookup, or of a change, does not depend on how many
//! objects there are.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_types::key::{ColumnOrder, encode_key_column};
use cairn_types::{Datum, Oid};

use crate::shared_map::SharedMap;
use crate::system_table::{CatalogRow, SystemIndex, SystemTable, system_table};

/// Where rows come from, by catalog.
pub(crate) trait Rows {
    fn rows(&self, catalog: Oid) -> Box<dyn Iterator<Item = &CatalogRow> + '_>;

    /// The rows that have these values in the first columns of an index: columns and values, in the index's order. The index
    /// exists; the values are not null.
    fn find(&self, catalog: Oid, wanted: &[(usize, Datum)]) -> Box<dyn Iterator<Item = &CatalogRow> + '_>;
}

/// Encoded columns of an index and behind them, so that no two are alike, those of the primary key.
type Key = Arc<[u8]>;

/// Rows of one catalog. A clone shares what is not changed afterwards.
#[derive(Clone)]
pub(crate) struct RowTable {
    table: &'static SystemTable,
    /// One for each of the table's indexes; the first is the primary key.
    indexes: Vec<SharedMap<Key, CatalogRow>>,
}

/// Columns of a row, encoded. What has no order, and cannot be a key, is nowhere among catalogs' keys.
pub(crate) fn encode<'a>(values: impl IntoIterator<Item = &'a Datum>) -> Vec<u8> {
    let mut key = Vec::with_capacity(24);
    for value in values {
        if encode_key_column(value, ColumnOrder::ASC, &mut key).is_err() {
            break;
        }
    }
    key
}

impl RowTable {
    pub fn new(table: &'static SystemTable) -> Self {
        RowTable { table, indexes: vec![SharedMap::default(); table.indexes.len()] }
    }

    pub fn of_rows(table: &'static SystemTable, rows: impl IntoIterator<Item = CatalogRow>) -> Self {
        let mut all = Self::new(table);
        for row in rows {
            all.insert(row);
        }
        all
    }

    /// The row's key in each index.
    fn keys(&self, row: &[Datum]) -> Vec<Key> {
        let columns = |index: &SystemIndex| {
            encode(index.columns.iter().map(|column| row.get(*column).unwrap_or(&Datum::Null)))
        };
        let (first, others) = self.table.indexes.split_first().expect("every catalog has a primary key");
        let primary = columns(first);
        let mut keys = Vec::with_capacity(others.len() + 1);
        keys.push(Key::from(&primary[..]));
        keys.extend(others.iter().map(|index| {
            let mut key = columns(index);
            key.extend_from_slice(&primary);
            Key::from(key)
        }));
        keys
    }

    /// Puts a row in the place of the one with its primary key, if there is one.
    pub fn insert(&mut self, row: CatalogRow) {
        let keys = self.keys(&row);
        self.remove(&keys[0]);
        for (index, key) in self.indexes.iter_mut().zip(keys) {
            index.insert(key, row.clone());
        }
    }

    /// Takes the row with this primary key away, if there is one.
    pub fn remove(&mut self, key: &[u8]) {
        let Some(row) = self.get(key).cloned() else { return };
        let keys = self.keys(&row);
        for (index, key) in self.indexes.iter_mut().zip(keys) {
            index.remove(&*key);
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<&CatalogRow> {
        self.indexes[0].get(key)
    }

    pub fn len(&self) -> usize {
        self.indexes[0].len()
    }

    pub fn rows(&self) -> impl Iterator<Item = &CatalogRow> {
        self.indexes[0].values()
    }

    /// The rows whose key in the index with this number begins so ([`encode`]).
    pub fn find(&self, number: usize, prefix: Vec<u8>) -> impl Iterator<Item = &CatalogRow> + use<'_> {
        let rest = self.indexes.get(number).map(|index| index.from(&prefix[..]));
        let with_prefix = rest.into_iter().flatten().take_while(move |(key, _)| key.starts_with(&prefix));
        with_prefix.map(|(_, row)| row)
    }
}

/// Rows of the store by catalog. A clone shares what is not changed afterwards.
#[derive(Clone, Default)]
pub struct StoredRows {
    tables: HashMap<Oid, Arc<RowTable>>,
}

impl StoredRows {
    /// `None` for an oid that is no system catalog.
    pub(crate) fn table_mut(&mut self, catalog: Oid) -> Option<&mut RowTable> {
        let table = system_table(catalog)?;
        Some(Arc::make_mut(self.tables.entry(catalog).or_insert_with(|| Arc::new(RowTable::new(table)))))
    }

    pub(crate) fn of(&self, catalog: Oid) -> Option<&RowTable> {
        self.tables.get(&catalog).map(|rows| &**rows)
    }

    pub(crate) fn table(&self, catalog: Oid) -> impl Iterator<Item = &CatalogRow> {
        self.of(catalog).into_iter().flat_map(RowTable::rows)
    }

    pub(crate) fn get(&self, catalog: Oid, key: &[u8]) -> Option<&CatalogRow> {
        self.of(catalog)?.get(key)
    }
}

impl Rows for StoredRows {
    fn rows(&self, catalog: Oid) -> Box<dyn Iterator<Item = &CatalogRow> + '_> {
        Box::new(self.table(catalog))
    }

    fn find(&self, catalog: Oid, wanted: &[(usize, Datum)]) -> Box<dyn Iterator<Item = &CatalogRow> + '_> {
        let Some(rows) = self.of(catalog) else { return Box::new(std::iter::empty()) };
        let columns = wanted.iter().map(|(column, _)| *column);
        let number =
            rows.table.index_on(columns).expect("a catalog has the indexes that objects are built by");
        Box::new(rows.find(number, encode(wanted.iter().map(|(_, value)| value))))
    }
}
