//! What ANALYZE found out about columns: rows of pg_statistic, and how the planner sees them.
//!
//! PostgreSQL's layout has five *slots* a row; ANALYZE fills those for the most common values (kind 1: values and
//! frequencies), the histogram (kind 2: values) and the correlation (kind 3: one number). A row belongs to a table's
//! column, or to an index and the number of a key that is an expression.
//!
//! A stored row keeps its arrays (stanumbersN, stavaluesN) *packed*: each is a bytea with the array as
//! [`cairn_types::row::encode_datum`] writes it. Every picture of the catalog reads every row, but hardly any of these arrays
//! is looked at: they are unpacked for SQL ([`shown`]) and, column by column, for the planner
//! ([`StoredStatistics::get`]). Rule: rows in a [`crate::StoredRows`] are packed, rows that leave the catalog are not.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cairn_types::row::{PhysicalKind, decode_datum, encode_datum};
use cairn_types::{Array, Datum, Oid, types};

use crate::columns::pg_statistic as c;
use crate::system_table::{CatalogRow, RowExt};

/// pg_statistic.stakindN.
pub mod kind {
    pub const MOST_COMMON_VALUES: i16 = 1;
    pub const HISTOGRAM: i16 = 2;
    pub const CORRELATION: i16 = 3;
}

const SLOTS: usize = 5;

/// The distribution of a column's values, or of an indexed expression's.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// Part of the rows in which it is null, 0 to 1.
    pub null_fraction: f64,
    /// Bytes of a value that is not null, on average, in PostgreSQL's format.
    pub average_width: i32,
    /// Different values that are not null: above 0 their number, below 0 the number divided by that of all rows, negated; 0:
    /// not known.
    pub distinct: f64,
    /// Most common values, the most common first, and the part of all rows that has each; as many of these as of those.
    pub common_values: Vec<Datum>,
    pub common_frequencies: Vec<f64>,
    /// Values in ascending order that divide those which are not common ones into parts of the same size; empty, or two and more.
    pub histogram: Vec<Datum>,
    /// Between the order of the values and that of the rows, -1 to 1.
    pub correlation: Option<f64>,
}

impl ColumnStatistics {
    /// Part of the rows that has one of the common values.
    pub fn common_fraction(&self) -> f64 {
        self.common_frequencies.iter().sum()
    }
}

/// What identifies the comparison that a slot was made with: equality and order of the type, its collation.
#[derive(Clone, Copy, Debug)]
pub struct SlotOperators {
    pub equal: Oid,
    pub less: Oid,
    pub collation: Oid,
}

/// A row of pg_statistic as it is stored: `relation` is the table or, for its expressions, the index. `element` is the type
/// of the values.
pub fn stored_row(
    relation: Oid,
    attribute: i16,
    statistics: &ColumnStatistics,
    element: Oid,
    operators: SlotOperators,
) -> Vec<Datum> {
    let mut row = vec![Datum::Null; c::COLUMN_COUNT];
    row[c::STARELID] = Datum::Oid(relation);
    row[c::STAATTNUM] = Datum::Int2(attribute);
    row[c::STAINHERIT] = Datum::Bool(false);
    row[c::STANULLFRAC] = Datum::Float4(statistics.null_fraction as f32);
    row[c::STAWIDTH] = Datum::Int4(statistics.average_width);
    row[c::STADISTINCT] = Datum::Float4(statistics.distinct as f32);
    for slot in 0..SLOTS {
        row[c::STAKIND1 + slot] = Datum::Int2(0);
        row[c::STAOP1 + slot] = Datum::Oid(0);
        row[c::STACOLL1 + slot] = Datum::Oid(0);
    }
    let numbers = |numbers: &[f64]| {
        let floats = numbers.iter().map(|number| Datum::Float4(*number as f32)).collect();
        packed(&Array::from_elements(types::FLOAT4, floats))
    };
    let values = |values: &[Datum]| packed(&Array::from_elements(element, values.to_vec()));
    let mut next = 0;
    let mut fill = |kind: i16, operator: Oid, numbers: Option<Datum>, values: Option<Datum>| {
        row[c::STAKIND1 + next] = Datum::Int2(kind);
        row[c::STAOP1 + next] = Datum::Oid(operator);
        row[c::STACOLL1 + next] = Datum::Oid(operators.collation);
        row[c::STANUMBERS1 + next] = numbers.unwrap_or(Datum::Null);
        row[c::STAVALUES1 + next] = values.unwrap_or(Datum::Null);
        next += 1;
    };
    if !statistics.common_values.is_empty() {
        fill(
            kind::MOST_COMMON_VALUES,
            operators.equal,
            Some(numbers(&statistics.common_frequencies)),
            Some(values(&statistics.common_values)),
        );
    }
    if !statistics.histogram.is_empty() {
        fill(kind::HISTOGRAM, operators.less, None, Some(values(&statistics.histogram)));
    }
    if let Some(correlation) = statistics.correlation {
        fill(kind::CORRELATION, operators.less, Some(numbers(&[correlation])), None);
    }
    row
}

fn packed(array: &Array) -> Datum {
    let mut bytes = Vec::new();
    encode_datum(&Datum::Array(Arc::new(array.clone())), &mut bytes);
    Datum::Bytea(bytes.into())
}

/// The array in a packed column; null where there is none, or where the bytes are none: a statistic that cannot be read is one
/// that was never gathered.
fn unpacked(value: &Datum) -> Datum {
    match value {
        Datum::Bytea(bytes) => decode_datum(&mut &bytes[..]).unwrap_or(Datum::Null),
        _ => Datum::Null,
    }
}

/// The row as SQL sees it.
pub(crate) fn shown(row: &CatalogRow) -> CatalogRow {
    let mut row = row.to_vec();
    for value in row.iter_mut().skip(c::STANUMBERS1) {
        *value = unpacked(value);
    }
    row.into()
}

/// The physical kind of a column of stored rows, where it is not that of its type.
pub(crate) fn stored_kind(column: usize) -> Option<PhysicalKind> {
    (column >= c::STANUMBERS1).then_some(PhysicalKind::Bytea)
}

/// One row, unpacked when it is first asked for.
#[derive(Debug)]
pub struct StoredStatistics {
    row: CatalogRow,
    unpacked: OnceLock<ColumnStatistics>,
}

impl StoredStatistics {
    pub(crate) fn new(row: &CatalogRow) -> Self {
        StoredStatistics { row: Arc::clone(row), unpacked: OnceLock::new() }
    }

    pub fn get(&self) -> &ColumnStatistics {
        self.unpacked.get_or_init(|| read(&self.row))
    }
}

fn number(value: &Datum) -> f64 {
    match value {
        Datum::Float4(value) => f64::from(*value),
        _ => 0.0,
    }
}

fn read(row: &CatalogRow) -> ColumnStatistics {
    let elements = |column: usize| match unpacked(row.datum(column)) {
        Datum::Array(array) => Arc::unwrap_or_clone(array).elements,
        _ => Vec::new(),
    };
    let mut statistics = ColumnStatistics {
        null_fraction: number(row.datum(c::STANULLFRAC)).clamp(0.0, 1.0),
        average_width: row.int(c::STAWIDTH) as i32,
        distinct: number(row.datum(c::STADISTINCT)),
        ..ColumnStatistics::default()
    };
    for slot in 0..SLOTS {
        let numbers = || elements(c::STANUMBERS1 + slot).iter().map(number).collect::<Vec<f64>>();
        match row.int(c::STAKIND1 + slot) as i16 {
            kind::MOST_COMMON_VALUES => {
                statistics.common_values = elements(c::STAVALUES1 + slot);
                statistics.common_frequencies = numbers();
                let both = statistics.common_values.len().min(statistics.common_frequencies.len());
                statistics.common_values.truncate(both);
                statistics.common_frequencies.truncate(both);
            }
            kind::HISTOGRAM => {
                statistics.histogram = elements(c::STAVALUES1 + slot);
                if statistics.histogram.len() < 2 {
                    statistics.histogram.clear();
                }
            }
            kind::CORRELATION => statistics.correlation = numbers().first().copied(),
            _ => {}
        }
    }
    statistics
}

/// The statistics of a table's columns and of the expressions of its indexes.
#[derive(Clone, Debug, Default)]
pub struct TableStatistics(Option<Arc<HashMap<(Oid, i16), StoredStatistics>>>);

impl TableStatistics {
    pub(crate) fn new(rows: impl Iterator<Item = CatalogRow>) -> Self {
        let by_column: HashMap<(Oid, i16), StoredStatistics> = rows
            .filter(|row| !row.bool(c::STAINHERIT))
            .map(|row| {
                let key = (row.oid(c::STARELID), row.int(c::STAATTNUM) as i16);
                (key, StoredStatistics::new(&row))
            })
            .collect();
        TableStatistics((!by_column.is_empty()).then(|| Arc::new(by_column)))
    }

    /// For tests of the planner.
    pub fn of_columns(table: Oid, columns: impl IntoIterator<Item = (i16, ColumnStatistics)>) -> Self {
        let operators = SlotOperators { equal: 0, less: 0, collation: 0 };
        let row = |(attribute, statistics): (i16, ColumnStatistics)| -> CatalogRow {
            stored_row(table, attribute, &statistics, 0, operators).into()
        };
        Self::new(columns.into_iter().map(row))
    }

    /// Nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Of an attribute of the table or, from 1, a key of one of its indexes.
    pub fn get(&self, relation: Oid, attribute: i16) -> Option<&ColumnStatistics> {
        Some(self.0.as_ref()?.get(&(relation, attribute))?.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back() {
        let statistics = ColumnStatistics {
            null_fraction: 0.25,
            average_width: 4,
            distinct: -0.5,
            common_values: vec![Datum::Int4(7), Datum::Int4(1)],
            common_frequencies: vec![0.5, 0.125],
            histogram: vec![Datum::Int4(2), Datum::Int4(5), Datum::Int4(9)],
            correlation: Some(-1.0),
        };
        let operators = SlotOperators { equal: 96, less: 97, collation: 0 };
        let row: CatalogRow = stored_row(20000, 3, &statistics, types::INT4, operators).into();
        let table = TableStatistics::new(std::iter::once(row.clone()));
        assert_eq!(format!("{:?}", table.get(20000, 3)), format!("{:?}", Some(&statistics)));
        assert!(table.get(20000, 2).is_none() && table.get(20001, 3).is_none());
        let shown = shown(&row);
        assert_eq!(shown.int(c::STAKIND1), 1);
        assert_eq!((shown.oid(c::STAOP1), shown.oid(c::STAOP2), shown.oid(c::STAOP3)), (96, 97, 97));
        assert_eq!(shown.elements(c::STAVALUES2).len(), 3);
        assert_eq!(format!("{:?}", shown.elements(c::STANUMBERS1)), "[Float4(0.5), Float4(0.125)]");
        assert!(shown.datum(c::STANUMBERS2).is_null() && shown.datum(c::STAVALUES4).is_null());
    }

    #[test]
    fn bytes_that_are_no_array_are_no_statistics() {
        let operators = SlotOperators { equal: 96, less: 97, collation: 0 };
        let known =
            ColumnStatistics { histogram: vec![Datum::Int4(1), Datum::Int4(2)], ..Default::default() };
        let mut row = stored_row(20000, 1, &known, types::INT4, operators);
        row[c::STAVALUES1] = Datum::Bytea(vec![22, 200, 1].into());
        let table = TableStatistics::new(std::iter::once(row.into()));
        assert!(table.get(20000, 1).is_some_and(|statistics| statistics.histogram.is_empty()));
    }
}
