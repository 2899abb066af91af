//! Encoding and decoding of rows and index entries of one table.

use std::sync::Arc;

use cairn_catalog::{Catalog, Index, IndexKey, Relation};
use cairn_txn::{KeyRange, StorageId};
use cairn_types::key::{ColumnOrder, check_key_size, encode_key_column};
use cairn_types::row::{PhysicalKind, RowReader, encode_row};
use cairn_types::{Datum, Error, Result};

/// The first bytes of every key of a key space.
pub fn storage_prefix(storage: StorageId) -> Vec<u8> {
    storage.to_be_bytes().to_vec()
}

/// All keys of a key space.
pub fn storage_range(storage: StorageId) -> KeyRange {
    let high = match storage.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xFF; 64],
    };
    KeyRange { low: storage_prefix(storage), high }
}

/// How a key column is ordered.
pub fn key_order(key: &IndexKey, catalog: &Catalog) -> ColumnOrder {
    ColumnOrder::of_type(catalog.base_type(key.ty.oid), key.descending, key.nulls_first)
}

/// What reading and writing rows of a table needs, prepared once.
#[derive(Debug)]
pub struct TableLayout {
    pub relation: Arc<Relation>,
    /// By attribute number - 1.
    pub kinds: Vec<PhysicalKind>,
    /// Primary key columns: index into the row, and order. Empty: rows have hidden numbers.
    pub key: Vec<(usize, ColumnOrder)>,
    /// Columns with a value for rows that are older than they: index and value.
    missing: Vec<(usize, Datum)>,
}

impl TableLayout {
    pub fn new(relation: &Arc<Relation>, catalog: &Catalog) -> Result<Self> {
        let kinds = relation.columns.iter().map(|column| catalog.physical_kind(column.ty.oid)).collect();
        let mut key = Vec::new();
        if let Some(primary) = &relation.primary_key {
            for column in &primary.keys {
                let cairn_catalog::IndexKeyColumn::Attribute(attnum) = &column.key else {
                    return Err(Error::internal("a primary key over an expression"));
                };
                key.push(((*attnum as usize).saturating_sub(1), key_order(column, catalog)));
            }
        }
        let missing = relation
            .columns
            .iter()
            .enumerate()
            .filter_map(|(index, column)| column.missing.clone().map(|value| (index, value)))
            .collect();
        Ok(TableLayout { relation: Arc::clone(relation), kinds, key, missing })
    }

    /// Decodes the wanted columns (ascending indexes) of a stored row into `out[index]`.
    pub fn decode(&self, row: &[u8], wanted: &[usize], out: &mut [Datum]) -> Result<()> {
        let reader = RowReader::new(row)?;
        reader.decode(&self.kinds, wanted, out)?;
        let present = reader.attributes();
        if wanted.last().is_some_and(|last| *last >= present) {
            for &index in wanted.iter().filter(|index| **index >= present) {
                let value = self.missing.iter().find(|(column, _)| *column == index);
                out[index] = value.map_or(Datum::Null, |(_, value)| value.clone());
            }
        }
        Ok(())
    }

    /// Decodes a whole row: one value per attribute number, null where a column was dropped.
    pub fn decode_all(&self, row: &[u8]) -> Result<Vec<Datum>> {
        let mut out = vec![Datum::Null; self.kinds.len()];
        let wanted: Vec<usize> =
            (0..self.kinds.len()).filter(|index| !self.relation.columns[*index].dropped).collect();
        self.decode(row, &wanted, &mut out)?;
        Ok(out)
    }

    /// The stored form of a row: one value per attribute number.
    pub fn encode(&self, values: &[Datum], out: &mut Vec<u8>) {
        encode_row(self.relation.schema_version, values, out);
    }

    pub fn has_hidden_key(&self) -> bool {
        self.key.is_empty()
    }

    /// The row's key, from its primary key columns. Only for tables that have them.
    pub fn row_key(&self, values: &[Datum]) -> Result<Vec<u8>> {
        let mut key = storage_prefix(self.relation.storage);
        for (index, order) in &self.key {
            encode_key_column(values.get(*index).unwrap_or(&Datum::Null), *order, &mut key)?;
        }
        Ok(key)
    }

    /// [`TableLayout::row_key`] of a row that is going to be written. 54000 if it is too long.
    pub fn new_row_key(&self, values: &[Datum]) -> Result<Vec<u8>> {
        let key = self.row_key(values)?;
        check_key_size(key.len())?;
        Ok(key)
    }

    /// The key of the row with a hidden number.
    pub fn hidden_key(&self, number: u64) -> Vec<u8> {
        let mut key = storage_prefix(self.relation.storage);
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// The hidden number in a key.
    pub fn hidden_number(key: &[u8]) -> Result<u64> {
        key.last_chunk::<8>()
            .map(|bytes| u64::from_be_bytes(*bytes))
            .ok_or_else(|| Error::corrupted("row key is too short"))
    }

    /// From the part of a row key that index entries hold to the key.
    pub fn key_from_suffix(&self, suffix: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.relation.storage.to_be_bytes());
        out.extend_from_slice(suffix);
    }
}

const SUFFIX_IN_KEY: u8 = 0x20;
const SUFFIX_IN_VALUE: u8 = 0x21;

/// The entries of one secondary index.
#[derive(Clone, Debug)]
pub struct IndexLayout {
    pub index: Arc<Index>,
    pub orders: Vec<ColumnOrder>,
}

impl IndexLayout {
    pub fn new(index: &Arc<Index>, catalog: &Catalog) -> Self {
        let orders = index.keys.iter().map(|key| key_order(key, catalog)).collect();
        IndexLayout { index: Arc::clone(index), orders }
    }

    /// The encoded key columns behind the index's storage id: what a unique index locks.
    pub fn encode_columns(&self, values: &[Datum]) -> Result<Vec<u8>> {
        let mut key = storage_prefix(self.index.storage);
        for (value, order) in values.iter().zip(&self.orders) {
            encode_key_column(value, *order, &mut key)?;
        }
        Ok(key)
    }

    /// Whether no two rows may have these key columns at any moment, so that they alone are the entry's key. A deferrable
    /// constraint may be broken for a while: its entries end in the row key.
    pub fn enforces_unique(&self, values: &[Datum]) -> bool {
        self.index.unique
            && !self.index.deferrable
            && (self.index.nulls_not_distinct || !values.iter().any(Datum::is_null))
    }

    /// Key and value of the entry of a row.
    pub fn entry(&self, values: &[Datum], row_key: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut key = self.encode_columns(values)?;
        let suffix = row_key.get(4..).ok_or_else(|| Error::internal("row key without storage id"))?;
        let mut value = Vec::with_capacity(1 + suffix.len());
        if self.enforces_unique(values) {
            value.push(SUFFIX_IN_VALUE);
            value.extend_from_slice(suffix);
        } else {
            key.extend_from_slice(suffix);
            value.push(SUFFIX_IN_KEY);
            value.extend_from_slice(&(suffix.len() as u32).to_le_bytes());
        }
        Ok((key, value))
    }

    /// 54000 for an entry whose columns are too long to be written.
    pub fn check_key_size(key: &[u8], value: &[u8]) -> Result<()> {
        let row = if value.first() == Some(&SUFFIX_IN_KEY) { Self::suffix(key, value)?.len() } else { 0 };
        check_key_size(key.len() - row)
    }

    /// The row key without storage id that an entry stands for. Errors: XX001.
    pub fn suffix<'e>(key: &'e [u8], value: &'e [u8]) -> Result<&'e [u8]> {
        let corrupt = || Error::corrupted("index entry does not name its row");
        match value.split_first() {
            Some((&SUFFIX_IN_VALUE, suffix)) => Ok(suffix),
            Some((&SUFFIX_IN_KEY, length)) => {
                let length = length.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
                let start = length.and_then(|length| key.len().checked_sub(length)).ok_or_else(corrupt)?;
                key.get(start..).ok_or_else(corrupt)
            }
            _ => Err(corrupt()),
        }
    }
}
