//! Hash tables over rows of datums, with SQL's rules for nulls.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use cairn_types::{Datum, Row, compare};

/// A fixed-seed hasher: fast, and the same in every run, so that unordered results are reproducible.
#[derive(Clone, Default)]
pub struct RowHasher(u64);

impl Hasher for RowHasher {
    fn finish(&self) -> u64 {
        // Spread the low bits' entropy over the high ones, which the table uses.
        let hash = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^ (hash >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_i32(&mut self, value: i32) {
        self.write_u64(value as u64);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// For maps whose keys are hashes already.
#[derive(Clone, Copy, Default, Debug)]
pub struct Identity;

pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

pub fn hash_row(row: &[Datum], blank_padded: &[bool]) -> u64 {
    let mut hasher = RowHasher::default();
    for (index, value) in row.iter().enumerate() {
        compare::hash(value, blank_padded.get(index).copied().unwrap_or(false), &mut hasher);
    }
    hasher.finish()
}

/// Equality as for grouping: nulls are equal.
pub fn rows_equal(a: &[Datum], b: &[Datum], blank_padded: &[bool]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .enumerate()
            .all(|(index, (a, b))| compare::equal(a, b, blank_padded.get(index).copied().unwrap_or(false)))
}

/// About how many bytes a row takes in memory.
pub fn row_bytes(row: &[Datum]) -> usize {
    size_of::<Row>() + row.iter().map(datum_bytes).sum::<usize>()
}

fn datum_bytes(value: &Datum) -> usize {
    size_of::<Datum>()
        + match value {
            Datum::Text(text) => text.len() + 16,
            Datum::Bytea(bytes) => bytes.len() + 16,
            Datum::Numeric(_) => 48,
            Datum::Array(array) => 64 + array.elements.iter().map(datum_bytes).sum::<usize>(),
            Datum::Record(record) => 64 + record.values.iter().map(datum_bytes).sum::<usize>(),
            Datum::Jsonb(_) => 128,
            _ => 0,
        }
}

/// From rows to numbers, in order of first appearance.
#[derive(Debug, Default)]
pub struct RowIndex {
    map: HashMap<u64, Vec<u32>, Identity>,
    rows: Vec<Row>,
    blank_padded: Vec<bool>,
    bytes: usize,
}

impl RowIndex {
    pub fn new(blank_padded: &[bool]) -> Self {
        RowIndex { blank_padded: blank_padded.to_vec(), ..RowIndex::default() }
    }

    pub fn find(&self, row: &[Datum]) -> Option<usize> {
        let candidates = self.map.get(&hash_row(row, &self.blank_padded))?;
        candidates
            .iter()
            .map(|number| *number as usize)
            .find(|number| rows_equal(&self.rows[*number], row, &self.blank_padded))
    }

    /// The row's number, and whether it is new.
    pub fn insert(&mut self, row: &[Datum]) -> (usize, bool) {
        let candidates = self.map.entry(hash_row(row, &self.blank_padded)).or_default();
        let found = candidates
            .iter()
            .map(|number| *number as usize)
            .find(|number| rows_equal(&self.rows[*number], row, &self.blank_padded));
        match found {
            Some(number) => (number, false),
            None => {
                let number = self.rows.len();
                candidates.push(number as u32);
                self.bytes += row_bytes(row) + 48;
                self.rows.push(row.to_vec());
                (number, true)
            }
        }
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn clear(&mut self) {
        self.map.clear();
        self.rows.clear();
        self.bytes = 0;
    }
}

/// The rows of `x in (select ...)`.
#[derive(Debug)]
pub struct ValueSet {
    index: RowIndex,
    /// Rows with a null somewhere: they make a miss unknown.
    partial: Vec<Row>,
}

impl ValueSet {
    pub fn new(blank_padded: &[bool]) -> Self {
        ValueSet { index: RowIndex::new(blank_padded), partial: Vec::new() }
    }

    pub fn insert(&mut self, row: Row) {
        if row.iter().any(Datum::is_null) {
            // All that can match is kept; many equal ones add nothing.
            if !self.partial.iter().any(|other| rows_equal(other, &row, &self.index.blank_padded)) {
                self.partial.push(row);
            }
        } else {
            self.index.insert(&row);
        }
    }

    /// `row in (...)`; `None`: unknown.
    pub fn contains(&self, row: &[Datum]) -> Option<bool> {
        if self.index.rows.is_empty() && self.partial.is_empty() {
            return Some(false);
        }
        if row.iter().any(Datum::is_null) {
            let unknown = self.index.rows.iter().chain(&self.partial).any(|other| self.may_match(row, other));
            return if unknown { None } else { Some(false) };
        }
        if self.index.find(row).is_some() {
            return Some(true);
        }
        if self.partial.iter().any(|other| self.may_match(row, other)) { None } else { Some(false) }
    }

    /// Whether no column tells the rows apart, nulls counting as unknown.
    fn may_match(&self, a: &[Datum], b: &[Datum]) -> bool {
        a.iter().zip(b).enumerate().all(|(index, (a, b))| {
            a.is_null()
                || b.is_null()
                || compare::equal(a, b, self.index.blank_padded.get(index).copied().unwrap_or(false))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_with_nulls() {
        let mut set = ValueSet::new(&[false]);
        assert_eq!(set.contains(&[Datum::Null]), Some(false));
        set.insert(vec![Datum::Int4(1)]);
        assert_eq!(set.contains(&[Datum::Int4(1)]), Some(true));
        assert_eq!(set.contains(&[Datum::Int8(2)]), Some(false));
        assert_eq!(set.contains(&[Datum::Null]), None);
        set.insert(vec![Datum::Null]);
        assert_eq!(set.contains(&[Datum::Int4(2)]), None);
        assert_eq!(set.contains(&[Datum::Int4(1)]), Some(true));
    }
}
