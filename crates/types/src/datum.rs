//! A value of an SQL type in memory.
//!
//! A [`Datum`] knows its physical form, not its SQL type: `text`, `varchar` and `json` are all
//! [`Datum::Text`]. The type travels beside it, in the expression or column that it belongs to.
//! Cloning is cheap: large values are shared.

use std::sync::Arc;

use crate::{Jsonb, Numeric, Oid};

/// Shared, immutable UTF-8 text.
pub type Text = Arc<str>;

/// A row of values in memory.
pub type Row = Vec<Datum>;

#[derive(Clone, Debug, Default)]
pub enum Datum {
    #[default]
    Null,
    Bool(bool),
    /// The one-byte type `"char"`.
    Char(u8),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    /// oid, the reg* types, xid, cid.
    Oid(Oid),
    /// xid8, pg_lsn.
    UInt8(u64),
    Float4(f32),
    Float8(f64),
    Numeric(Arc<Numeric>),
    /// text, varchar, bpchar (blank-padded), name, json, xml, unknown, cstring, refcursor.
    Text(Text),
    Bytea(Arc<[u8]>),
    /// Days since 2000-01-01; `i32::MIN` is -infinity, `i32::MAX` infinity.
    Date(i32),
    /// Microseconds since midnight, 0 to 86,400,000,000.
    Time(i64),
    TimeTz(TimeTz),
    /// Microseconds since 2000-01-01 00:00 without zone; `i64::MIN` is -infinity, `i64::MAX` infinity.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00 UTC; infinities as for `Timestamp`.
    TimestampTz(i64),
    Interval(Interval),
    Uuid([u8; 16]),
    Jsonb(Arc<Jsonb>),
    Enum(EnumValue),
    Array(Arc<Array>),
    Record(Arc<Record>),
    /// tid: in Cairn a row's hidden number, never a physical place.
    Tid(u64),
}

/// time with time zone: local time and the zone's offset in seconds west of UTC (as PostgreSQL stores it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeTz {
    pub time_us: i64,
    pub zone_seconds_west: i32,
}

/// interval: three fields that are not converted into each other (manual, section 8.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub time_us: i64,
}

/// A value of an enum type. The order travels with the value, so that comparing and key encoding need
/// no catalog; a label's order never changes once it exists.
#[derive(Clone, Copy, Debug)]
pub struct EnumValue {
    /// The label's row in pg_enum.
    pub oid: Oid,
    /// pg_enum.enumsortorder.
    pub sort_order: f32,
}

/// An array of any number of dimensions; the elements are in row-major order.
#[derive(Clone, Debug)]
pub struct Array {
    pub element_type: Oid,
    /// Empty for the empty array. The product of the lengths is `elements.len()`.
    pub dimensions: Vec<Dimension>,
    pub elements: Vec<Datum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub length: usize,
    pub lower_bound: i32,
}

impl Array {
    /// A one-dimensional array that begins at 1; empty without elements.
    pub fn from_elements(element_type: Oid, elements: Vec<Datum>) -> Self {
        let dimensions = if elements.is_empty() {
            Vec::new()
        } else {
            vec![Dimension { length: elements.len(), lower_bound: 1 }]
        };
        Array { element_type, dimensions, elements }
    }
}

/// A composite value: a row of a named composite type, or an anonymous record.
#[derive(Clone, Debug)]
pub struct Record {
    /// The composite type, or `types::RECORD` for an anonymous one.
    pub type_oid: Oid,
    /// One per field; the names are "f1", "f2", ... where nothing better is known.
    pub fields: Arc<[RecordField]>,
    pub values: Vec<Datum>,
}

#[derive(Clone, Debug)]
pub struct RecordField {
    pub name: Text,
    pub type_oid: Oid,
    pub typmod: i32,
}

impl Datum {
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    pub fn text(value: impl Into<Text>) -> Self {
        Datum::Text(value.into())
    }
}
