//! Typed access to a body's arguments.
//!
//! The analyzer has made sure of the types, so a mismatch is a bug of ours; it ends as XX000 in the client, not
//! as a panic. Each getter is a bounds check and a compare: arithmetic on integers stays a handful of
//! instructions.

use std::sync::Arc;

use cairn_types::{
    Array, Datum, EnumValue, Error, Interval, Jsonb, Numeric, Oid, Record, Result, Text, TimeTz,
};

/// Getters by physical form; `i` counts from 0.
pub trait Args {
    fn bool(&self, i: usize) -> Result<bool>;
    fn char(&self, i: usize) -> Result<u8>;
    fn int2(&self, i: usize) -> Result<i16>;
    fn int4(&self, i: usize) -> Result<i32>;
    fn int8(&self, i: usize) -> Result<i64>;
    fn oid(&self, i: usize) -> Result<Oid>;
    fn uint8(&self, i: usize) -> Result<u64>;
    fn float4(&self, i: usize) -> Result<f32>;
    fn float8(&self, i: usize) -> Result<f64>;
    fn numeric(&self, i: usize) -> Result<&Arc<Numeric>>;
    fn str(&self, i: usize) -> Result<&str>;
    fn text(&self, i: usize) -> Result<&Text>;
    fn bytea(&self, i: usize) -> Result<&Arc<[u8]>>;
    fn date(&self, i: usize) -> Result<i32>;
    fn time(&self, i: usize) -> Result<i64>;
    fn timetz(&self, i: usize) -> Result<TimeTz>;
    fn timestamp(&self, i: usize) -> Result<i64>;
    fn timestamptz(&self, i: usize) -> Result<i64>;
    fn interval(&self, i: usize) -> Result<Interval>;
    fn uuid(&self, i: usize) -> Result<&[u8; 16]>;
    fn jsonb(&self, i: usize) -> Result<&Arc<Jsonb>>;
    fn enum_value(&self, i: usize) -> Result<EnumValue>;
    fn array(&self, i: usize) -> Result<&Arc<Array>>;
    fn record(&self, i: usize) -> Result<&Arc<Record>>;
    fn tid(&self, i: usize) -> Result<u64>;
    /// Any value, null too; null where the call has fewer arguments.
    fn any(&self, i: usize) -> &Datum;
    fn is_null(&self, i: usize) -> bool;
}

static NULL: Datum = Datum::Null;

#[cold]
#[inline(never)]
fn wrong(args: &[Datum], i: usize, want: &str) -> Error {
    match args.get(i) {
        Some(got) => Error::internal(format!("argument {} should be {want}, but is {got:?}", i + 1)),
        None => Error::internal(format!("argument {} of type {want} is missing", i + 1)),
    }
}

macro_rules! getters {
    ($($method:ident, $variant:ident, $type:ty, $want:literal;)*) => {
        $(#[inline]
        fn $method(&self, i: usize) -> Result<$type> {
            match self.get(i) {
                Some(Datum::$variant(value)) => Ok(*value),
                _ => Err(wrong(self, i, $want)),
            }
        })*
    };
}

macro_rules! ref_getters {
    ($($method:ident, $variant:ident, $type:ty, $want:literal;)*) => {
        $(#[inline]
        fn $method(&self, i: usize) -> Result<&$type> {
            match self.get(i) {
                Some(Datum::$variant(value)) => Ok(value),
                _ => Err(wrong(self, i, $want)),
            }
        })*
    };
}

impl Args for [Datum] {
    getters! {
        bool, Bool, bool, "boolean";
        char, Char, u8, "\"char\"";
        int2, Int2, i16, "smallint";
        int4, Int4, i32, "integer";
        int8, Int8, i64, "bigint";
        oid, Oid, Oid, "oid";
        uint8, UInt8, u64, "xid8";
        float4, Float4, f32, "real";
        float8, Float8, f64, "double precision";
        date, Date, i32, "date";
        time, Time, i64, "time";
        timetz, TimeTz, TimeTz, "timetz";
        timestamp, Timestamp, i64, "timestamp";
        timestamptz, TimestampTz, i64, "timestamptz";
        interval, Interval, Interval, "interval";
        enum_value, Enum, EnumValue, "enum";
        tid, Tid, u64, "tid";
    }

    ref_getters! {
        numeric, Numeric, Arc<Numeric>, "numeric";
        text, Text, Text, "text";
        bytea, Bytea, Arc<[u8]>, "bytea";
        uuid, Uuid, [u8; 16], "uuid";
        jsonb, Jsonb, Arc<Jsonb>, "jsonb";
        array, Array, Arc<Array>, "array";
        record, Record, Arc<Record>, "record";
    }

    #[inline]
    fn str(&self, i: usize) -> Result<&str> {
        match self.get(i) {
            Some(Datum::Text(value)) => Ok(value),
            _ => Err(wrong(self, i, "text")),
        }
    }

    #[inline]
    fn any(&self, i: usize) -> &Datum {
        self.get(i).unwrap_or(&NULL)
    }

    #[inline]
    fn is_null(&self, i: usize) -> bool {
        self.any(i).is_null()
    }
}
