//! The packed row: how the columns of a stored version are laid out, and datums that describe themselves
//! (spill files, array elements).
//!
//! ```text
//! row        := format version attributes nulls? values
//! format     := 10  no column is null, 11  there is a null bitmap
//! version    := varint, the table's schema version at writing
//! attributes := varint, how many attribute numbers the row covers: 1 ..= attributes
//! nulls      := bitmap of (attributes + 7) / 8 bytes; bit (n - 1) % 8 of byte (n - 1) / 8 set: attribute n is null
//! values     := for each attribute that is not null, in order of attribute numbers, its bytes
//! varint     := 7 bits a byte, lowest first, high bit set on all but the last; at most 10 bytes
//! ```
//! An attribute number is never reused and never changes its kind. A dropped column is written as null. A row
//! that covers fewer attributes than the table has now was written before those columns were added:
//! [`RowReader::attributes`] tells, and the caller puts the column's missing value there.
//!
//! | kind | bytes (all integers little-endian) |
//! |---|---|
//! | bool, "char" | 1 |
//! | int2; int4, oid, date, float4; int8, uint8, float8, time, timestamp(tz), tid | 2; 4; 8 |
//! | timetz | 8 time, 4 zone |
//! | interval | 8 time, 4 days, 4 months |
//! | uuid | 16 |
//! | enum | 4 oid, 4 sort order (float4) |
//! | text, bytea | varint length, bytes |
//! | numeric | varint length, then: 1 byte scale and the coefficient's two's complement bytes, lowest first, the fewest that hold it; or FF and the binary wire format |
//! | jsonb | varint length, *json* |
//! | array | varint length, element type (4), kind of elements, varint dimensions, for each length and lower bound (4, 4), null bitmap over the elements, elements |
//! | record | varint length, type (4), varint fields, for each: name (varint length, bytes), type (4), typmod (4), *datum* |
//!
//! *json*: one byte of kind (0 null, 1 false, 2 true, 3 number, 4 string, 5 array, 6 object), then for numbers and strings
//! as above, for arrays a varint count and the elements, for objects a varint count and each member's key (as text) and value.
//!
//! *datum*: the kind's byte, 0 for null, then the value.
//!
//! Bytes are not trusted: whatever does not decode is XX001, never a panic.

use std::sync::Arc;

use crate::json::DEPTH_MAX;
use crate::{
    Array, Datum, Dimension, EnumValue, Error, Interval, Jsonb, Numeric, Record, RecordField, Result, Text,
    TimeTz,
};

const FORMAT: u8 = 0x10;
const FORMAT_NULLS: u8 = 0x11;
/// The marker of a numeric in wire format.
const NUMERIC_WIRE: u8 = 0xFF;

/// The physical form of a type: the variant of [`Datum`] that its values have. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PhysicalKind {
    Bool = 1,
    Char = 2,
    Int2 = 3,
    Int4 = 4,
    Int8 = 5,
    Oid = 6,
    UInt8 = 7,
    Float4 = 8,
    Float8 = 9,
    Numeric = 10,
    Text = 11,
    Bytea = 12,
    Date = 13,
    Time = 14,
    TimeTz = 15,
    Timestamp = 16,
    TimestampTz = 17,
    Interval = 18,
    Uuid = 19,
    Jsonb = 20,
    Enum = 21,
    Array = 22,
    Record = 23,
    Tid = 24,
}

impl PhysicalKind {
    const ALL: [PhysicalKind; 24] = [
        PhysicalKind::Bool,
        PhysicalKind::Char,
        PhysicalKind::Int2,
        PhysicalKind::Int4,
        PhysicalKind::Int8,
        PhysicalKind::Oid,
        PhysicalKind::UInt8,
        PhysicalKind::Float4,
        PhysicalKind::Float8,
        PhysicalKind::Numeric,
        PhysicalKind::Text,
        PhysicalKind::Bytea,
        PhysicalKind::Date,
        PhysicalKind::Time,
        PhysicalKind::TimeTz,
        PhysicalKind::Timestamp,
        PhysicalKind::TimestampTz,
        PhysicalKind::Interval,
        PhysicalKind::Uuid,
        PhysicalKind::Jsonb,
        PhysicalKind::Enum,
        PhysicalKind::Array,
        PhysicalKind::Record,
        PhysicalKind::Tid,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }

    /// The kind of a datum; `None` for null.
    pub fn of(value: &Datum) -> Option<PhysicalKind> {
        Some(match value {
            Datum::Null => return None,
            Datum::Bool(_) => PhysicalKind::Bool,
            Datum::Char(_) => PhysicalKind::Char,
            Datum::Int2(_) => PhysicalKind::Int2,
            Datum::Int4(_) => PhysicalKind::Int4,
            Datum::Int8(_) => PhysicalKind::Int8,
            Datum::Oid(_) => PhysicalKind::Oid,
            Datum::UInt8(_) => PhysicalKind::UInt8,
            Datum::Float4(_) => PhysicalKind::Float4,
            Datum::Float8(_) => PhysicalKind::Float8,
            Datum::Numeric(_) => PhysicalKind::Numeric,
            Datum::Text(_) => PhysicalKind::Text,
            Datum::Bytea(_) => PhysicalKind::Bytea,
            Datum::Date(_) => PhysicalKind::Date,
            Datum::Time(_) => PhysicalKind::Time,
            Datum::TimeTz(_) => PhysicalKind::TimeTz,
            Datum::Timestamp(_) => PhysicalKind::Timestamp,
            Datum::TimestampTz(_) => PhysicalKind::TimestampTz,
            Datum::Interval(_) => PhysicalKind::Interval,
            Datum::Uuid(_) => PhysicalKind::Uuid,
            Datum::Jsonb(_) => PhysicalKind::Jsonb,
            Datum::Enum(_) => PhysicalKind::Enum,
            Datum::Array(_) => PhysicalKind::Array,
            Datum::Record(_) => PhysicalKind::Record,
            Datum::Tid(_) => PhysicalKind::Tid,
        })
    }

    /// The width in bytes of kinds that have one width.
    fn fixed_width(self) -> Option<usize> {
        match self {
            PhysicalKind::Bool | PhysicalKind::Char => Some(1),
            PhysicalKind::Int2 => Some(2),
            PhysicalKind::Int4 | PhysicalKind::Oid | PhysicalKind::Float4 | PhysicalKind::Date => Some(4),
            PhysicalKind::Int8
            | PhysicalKind::UInt8
            | PhysicalKind::Float8
            | PhysicalKind::Time
            | PhysicalKind::Timestamp
            | PhysicalKind::TimestampTz
            | PhysicalKind::Enum
            | PhysicalKind::Tid => Some(8),
            PhysicalKind::TimeTz => Some(12),
            PhysicalKind::Interval | PhysicalKind::Uuid => Some(16),
            PhysicalKind::Numeric
            | PhysicalKind::Text
            | PhysicalKind::Bytea
            | PhysicalKind::Jsonb
            | PhysicalKind::Array
            | PhysicalKind::Record => None,
        }
    }
}

fn truncated() -> Error {
    Error::corrupted("stored row ends in the middle of a value")
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a packed row: the values of the attributes 1, 2, ... in order.
pub fn encode_row(schema_version: u32, values: &[Datum], out: &mut Vec<u8>) {
    let has_nulls = values.iter().any(Datum::is_null);
    out.push(if has_nulls { FORMAT_NULLS } else { FORMAT });
    push_varint(u64::from(schema_version), out);
    push_varint(values.len() as u64, out);
    if has_nulls {
        push_null_bitmap(values, out);
    }
    for value in values {
        encode_value(value, out);
    }
}

fn push_null_bitmap(values: &[Datum], out: &mut Vec<u8>) {
    for chunk in values.chunks(8) {
        let byte = chunk
            .iter()
            .enumerate()
            .fold(0u8, |byte, (bit, value)| if value.is_null() { byte | 1 << bit } else { byte });
        out.push(byte);
    }
}

/// Appends a datum with its kind, so that [`decode_datum`] needs nothing else.
pub fn encode_datum(value: &Datum, out: &mut Vec<u8>) {
    out.push(PhysicalKind::of(value).map_or(0, |kind| kind as u8));
    encode_value(value, out);
}

/// Reads what [`encode_datum`] wrote and moves `bytes` behind it. Errors: XX001.
pub fn decode_datum(bytes: &mut &[u8]) -> Result<Datum> {
    let mut reader = Bytes(bytes);
    let value = reader.tagged_datum(0)?;
    *bytes = reader.0;
    Ok(value)
}

fn encode_value(value: &Datum, out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Char(value) => out.push(*value),
        Datum::Int2(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Int4(value) | Datum::Date(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Oid(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::UInt8(value) | Datum::Tid(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Float4(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_le_bytes()),
        Datum::Text(text) => push_bytes(text.as_bytes(), out),
        Datum::Bytea(bytes) => push_bytes(bytes, out),
        Datum::TimeTz(value) => {
            out.extend_from_slice(&value.time_us.to_le_bytes());
            out.extend_from_slice(&value.zone_seconds_west.to_le_bytes());
        }
        Datum::Interval(value) => {
            out.extend_from_slice(&value.time_us.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.months.to_le_bytes());
        }
        Datum::Uuid(bytes) => out.extend_from_slice(bytes),
        Datum::Enum(value) => {
            out.extend_from_slice(&value.oid.to_le_bytes());
            out.extend_from_slice(&value.sort_order.to_le_bytes());
        }
        Datum::Numeric(value) => encode_numeric(value, out),
        Datum::Jsonb(value) => with_length(out, |out| encode_json(value, out)),
        Datum::Array(array) => with_length(out, |out| encode_array(array, out)),
        Datum::Record(record) => with_length(out, |out| encode_record(record, out)),
    }
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a value behind its length.
fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    write(&mut body);
    push_bytes(&body, out);
}

fn encode_numeric(value: &Numeric, out: &mut Vec<u8>) {
    match value.small_parts() {
        Some((coefficient, scale)) if scale < u16::from(NUMERIC_WIRE) => {
            let bytes = coefficient.to_le_bytes();
            // Bytes above that only repeat the sign are left out.
            let unused =
                if coefficient < 0 { coefficient.leading_ones() } else { coefficient.leading_zeros() };
            let length = 16 - (unused.saturating_sub(1) / 8) as usize;
            push_varint(length as u64 + 1, out);
            out.push(scale as u8);
            out.extend_from_slice(&bytes[..length]);
        }
        _ => with_length(out, |out| {
            out.push(NUMERIC_WIRE);
            value.send(out);
        }),
    }
}

fn encode_json(value: &Jsonb, out: &mut Vec<u8>) {
    match value {
        Jsonb::Null => out.push(0),
        Jsonb::Bool(false) => out.push(1),
        Jsonb::Bool(true) => out.push(2),
        Jsonb::Number(number) => {
            out.push(3);
            encode_numeric(number, out);
        }
        Jsonb::String(text) => {
            out.push(4);
            push_bytes(text.as_bytes(), out);
        }
        Jsonb::Array(array) => {
            out.push(5);
            push_varint(array.items.len() as u64, out);
            for item in &array.items {
                encode_json(item, out);
            }
        }
        Jsonb::Object(object) => {
            out.push(6);
            push_varint(object.members.len() as u64, out);
            for (key, value) in &object.members {
                push_bytes(key.as_bytes(), out);
                encode_json(value, out);
            }
        }
    }
}

fn encode_array(array: &Array, out: &mut Vec<u8>) {
    out.extend_from_slice(&array.element_type.to_le_bytes());
    let kind = array.elements.iter().find_map(PhysicalKind::of);
    out.push(kind.map_or(0, |kind| kind as u8));
    push_varint(array.dimensions.len() as u64, out);
    for dimension in &array.dimensions {
        out.extend_from_slice(&(dimension.length as u32).to_le_bytes());
        out.extend_from_slice(&dimension.lower_bound.to_le_bytes());
    }
    push_null_bitmap(&array.elements, out);
    for element in &array.elements {
        encode_value(element, out);
    }
}

fn encode_record(record: &Record, out: &mut Vec<u8>) {
    out.extend_from_slice(&record.type_oid.to_le_bytes());
    push_varint(record.values.len() as u64, out);
    for (value, field) in record.values.iter().zip(record.fields.iter()) {
        push_bytes(field.name.as_bytes(), out);
        out.extend_from_slice(&field.type_oid.to_le_bytes());
        out.extend_from_slice(&field.typmod.to_le_bytes());
        encode_datum(value, out);
    }
}

/// A packed row that is being read.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    schema_version: u32,
    attributes: usize,
    /// Empty if there are no nulls.
    nulls: &'a [u8],
    values: &'a [u8],
}

impl<'a> RowReader<'a> {
    /// Reads the head of a row. Errors: XX001 for what is not a packed row.
    pub fn new(row: &'a [u8]) -> Result<Self> {
        let mut bytes = Bytes(row);
        let has_nulls = match bytes.byte()? {
            FORMAT => false,
            FORMAT_NULLS => true,
            other => return Err(Error::corrupted(format!("unknown row format {other:#04x}"))),
        };
        let schema_version =
            u32::try_from(bytes.varint()?).map_err(|_| Error::corrupted("schema version out of range"))?;
        let attributes = bytes.varint()?;
        if attributes > u64::from(u16::MAX) {
            return Err(Error::corrupted(format!("stored row has {attributes} attributes")));
        }
        let attributes = attributes as usize;
        let nulls = if has_nulls { bytes.take(attributes.div_ceil(8))? } else { &[] };
        Ok(RowReader { schema_version, attributes, nulls, values: bytes.0 })
    }

    pub fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// The attribute numbers 1 to this one are in the row; later columns have their missing value.
    pub fn attributes(&self) -> usize {
        self.attributes
    }

    fn is_null(&self, index: usize) -> bool {
        self.nulls.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }

    /// Decodes the attributes that are wanted into `out[attribute number - 1]` and leaves the others as they are.
    /// `kinds` has one entry for each attribute number of the table; `wanted` are indexes into it, ascending.
    /// Entries at or above [`RowReader::attributes`] are not touched: the caller fills in missing values.
    /// Errors: XX001.
    pub fn decode(&self, kinds: &[PhysicalKind], wanted: &[usize], out: &mut [Datum]) -> Result<()> {
        let mut bytes = Bytes(self.values);
        let mut at = 0;
        for &index in wanted {
            if index >= self.attributes {
                break;
            }
            while at < index {
                if !self.is_null(at) {
                    bytes.skip(*kinds.get(at).ok_or_else(unknown_attribute)?)?;
                }
                at += 1;
            }
            let slot = out.get_mut(index).ok_or_else(unknown_attribute)?;
            if self.is_null(index) {
                *slot = Datum::Null;
            } else {
                *slot = bytes.value(*kinds.get(index).ok_or_else(unknown_attribute)?, 0)?;
            }
            at = index + 1;
        }
        Ok(())
    }

    /// Decodes all attributes that the row has.
    pub fn decode_all(&self, kinds: &[PhysicalKind]) -> Result<Vec<Datum>> {
        let mut bytes = Bytes(self.values);
        let mut values = Vec::with_capacity(kinds.len());
        for (index, kind) in kinds.iter().enumerate().take(self.attributes) {
            values.push(if self.is_null(index) { Datum::Null } else { bytes.value(*kind, 0)? });
        }
        Ok(values)
    }
}

fn unknown_attribute() -> Error {
    Error::corrupted("stored row has an attribute that its table does not have")
}

/// What remains to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length).ok_or_else(truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn byte(&mut self) -> Result<u8> {
        let (byte, rest) = self.0.split_first().ok_or_else(truncated)?;
        self.0 = rest;
        Ok(*byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::corrupted("length in a stored row is too long"))
    }

    /// A count of things that take at least one byte (or one bit) each, so that a lie about it cannot ask
    /// for more memory than the row's own size warrants.
    fn count(&mut self, per_byte: usize) -> Result<usize> {
        let count = self.varint()?;
        if count > (self.0.len() as u64).saturating_mul(per_byte as u64) {
            return Err(truncated());
        }
        Ok(count as usize)
    }

    fn counted(&mut self) -> Result<&'a [u8]> {
        let length = usize::try_from(self.varint()?).map_err(|_| truncated())?;
        self.take(length)
    }

    fn text(&mut self) -> Result<Text> {
        let text = std::str::from_utf8(self.counted()?)
            .map_err(|_| Error::corrupted("text in a stored row is not UTF-8"))?;
        Ok(Text::from(text))
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn skip(&mut self, kind: PhysicalKind) -> Result<()> {
        match kind.fixed_width() {
            Some(width) => self.take(width)?,
            None => self.counted()?,
        };
        Ok(())
    }

    fn value(&mut self, kind: PhysicalKind, depth: u16) -> Result<Datum> {
        Ok(match kind {
            PhysicalKind::Bool => Datum::Bool(self.byte()? != 0),
            PhysicalKind::Char => Datum::Char(self.byte()?),
            PhysicalKind::Int2 => Datum::Int2(i16::from_le_bytes(self.array()?)),
            PhysicalKind::Int4 => Datum::Int4(self.i32()?),
            PhysicalKind::Int8 => Datum::Int8(self.i64()?),
            PhysicalKind::Oid => Datum::Oid(self.u32()?),
            PhysicalKind::UInt8 => Datum::UInt8(u64::from_le_bytes(self.array()?)),
            PhysicalKind::Tid => Datum::Tid(u64::from_le_bytes(self.array()?)),
            PhysicalKind::Float4 => Datum::Float4(f32::from_le_bytes(self.array()?)),
            PhysicalKind::Float8 => Datum::Float8(f64::from_le_bytes(self.array()?)),
            PhysicalKind::Numeric => Datum::Numeric(Arc::new(self.numeric()?)),
            PhysicalKind::Text => Datum::Text(self.text()?),
            PhysicalKind::Bytea => Datum::Bytea(self.counted()?.into()),
            PhysicalKind::Date => Datum::Date(self.i32()?),
            PhysicalKind::Time => Datum::Time(self.i64()?),
            PhysicalKind::Timestamp => Datum::Timestamp(self.i64()?),
            PhysicalKind::TimestampTz => Datum::TimestampTz(self.i64()?),
            PhysicalKind::TimeTz => {
                Datum::TimeTz(TimeTz { time_us: self.i64()?, zone_seconds_west: self.i32()? })
            }
            PhysicalKind::Interval => {
                let (time_us, days, months) = (self.i64()?, self.i32()?, self.i32()?);
                Datum::Interval(Interval { months, days, time_us })
            }
            PhysicalKind::Uuid => Datum::Uuid(self.array()?),
            PhysicalKind::Enum => {
                Datum::Enum(EnumValue { oid: self.u32()?, sort_order: f32::from_le_bytes(self.array()?) })
            }
            PhysicalKind::Jsonb => {
                let mut body = Bytes(self.counted()?);
                Datum::Jsonb(Arc::new(body.json(0)?))
            }
            PhysicalKind::Array => {
                let mut body = Bytes(self.counted()?);
                Datum::Array(Arc::new(body.sql_array(depth)?))
            }
            PhysicalKind::Record => {
                let mut body = Bytes(self.counted()?);
                Datum::Record(Arc::new(body.record(depth)?))
            }
        })
    }

    fn tagged_datum(&mut self, depth: u16) -> Result<Datum> {
        match self.byte()? {
            0 => Ok(Datum::Null),
            byte => {
                let kind = PhysicalKind::from_byte(byte)
                    .ok_or_else(|| Error::corrupted(format!("unknown kind of value {byte}")))?;
                self.value(kind, depth)
            }
        }
    }

    fn numeric(&mut self) -> Result<Numeric> {
        let body = self.counted()?;
        let (scale, bytes) = body.split_first().ok_or_else(truncated)?;
        if *scale == NUMERIC_WIRE {
            return Numeric::recv(bytes).map_err(|error| Error::corrupted(error.message()));
        }
        if bytes.is_empty() || bytes.len() > 16 {
            return Err(Error::corrupted("numeric in a stored row has a wrong length"));
        }
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = if negative { [0xFF; 16] } else { [0; 16] };
        wide[..bytes.len()].copy_from_slice(bytes);
        Ok(Numeric::new(i128::from_le_bytes(wide), u16::from(*scale)))
    }

    fn json(&mut self, depth: u16) -> Result<Jsonb> {
        if depth > DEPTH_MAX {
            return Err(Error::corrupted("stored jsonb is nested too deep"));
        }
        Ok(match self.byte()? {
            0 => Jsonb::Null,
            1 => Jsonb::Bool(false),
            2 => Jsonb::Bool(true),
            3 => Jsonb::number(self.numeric()?),
            4 => Jsonb::String(self.text()?),
            5 => {
                let count = self.count(1)?;
                let mut items = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    items.push(self.json(depth + 1)?);
                }
                Jsonb::array(items)?
            }
            6 => {
                let count = self.count(1)?;
                let mut members = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    let key = self.text()?;
                    members.push((key, self.json(depth + 1)?));
                }
                Jsonb::object(members)?
            }
            other => return Err(Error::corrupted(format!("unknown kind of json value {other}"))),
        })
    }

    fn sql_array(&mut self, depth: u16) -> Result<Array> {
        if depth > 100 {
            return Err(Error::corrupted("stored array is nested too deep"));
        }
        let element_type = self.u32()?;
        let kind = self.byte()?;
        let kind = match kind {
            0 => None,
            byte => Some(
                PhysicalKind::from_byte(byte)
                    .ok_or_else(|| Error::corrupted(format!("unknown kind of array element {byte}")))?,
            ),
        };
        let mut dimensions = Vec::new();
        let mut count: usize = 1;
        for _ in 0..self.count(1)? {
            let length = self.u32()? as usize;
            let lower_bound = self.i32()?;
            count = count.checked_mul(length).ok_or_else(truncated)?;
            dimensions.push(Dimension { length, lower_bound });
        }
        if dimensions.is_empty() {
            count = 0;
        }
        let nulls = self.take(count.div_ceil(8))?;
        let mut elements = Vec::with_capacity(count);
        for index in 0..count {
            let is_null = nulls.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0);
            elements.push(match kind {
                Some(kind) if !is_null => self.value(kind, depth + 1)?,
                None if !is_null => return Err(Error::corrupted("stored array has elements of no kind")),
                _ => Datum::Null,
            });
        }
        Ok(Array { element_type, dimensions, elements })
    }

    fn record(&mut self, depth: u16) -> Result<Record> {
        if depth > 100 {
            return Err(Error::corrupted("stored record is nested too deep"));
        }
        let type_oid = self.u32()?;
        let count = self.count(1)?;
        let mut fields = Vec::with_capacity(count.min(1024));
        let mut values = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            let name = self.text()?;
            let field_type = self.u32()?;
            fields.push(RecordField { name, type_oid: field_type, typmod: self.i32()? });
            values.push(self.tagged_datum(depth + 1)?);
        }
        Ok(Record { type_oid, fields: fields.into(), values })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::equal;
    use crate::test_datums::datum;

    fn row_of(values: &[Datum]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_row(3, values, &mut out);
        out
    }

    /// Pins the format: these bytes are on disk.
    #[test]
    fn bytes_of_the_format() {
        assert_eq!(row_of(&[Datum::Int4(7), Datum::text("ab")]), [0x10, 3, 2, 7, 0, 0, 0, 2, b'a', b'b']);
        assert_eq!(row_of(&[Datum::Null, Datum::Bool(true)]), [0x11, 3, 2, 0b01, 1]);
        let numeric = Datum::Numeric(Arc::new(Numeric::new(-300, 2)));
        assert_eq!(row_of(&[numeric]), [0x10, 3, 1, 3, 2, 0xD4, 0xFE]);
    }

    #[test]
    fn missing_attributes_are_left_to_the_caller() {
        let row = row_of(&[Datum::Int4(1), Datum::Int4(2)]);
        let reader = RowReader::new(&row).unwrap();
        assert_eq!((reader.attributes(), reader.schema_version()), (2, 3));
        let mut out = vec![Datum::Null, Datum::Null, Datum::Int4(9)];
        reader.decode(&[PhysicalKind::Int4; 3], &[1, 2], &mut out).unwrap();
        assert!(out[0].is_null());
        assert!(matches!(out[1..], [Datum::Int4(2), Datum::Int4(9)]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn rows_round_trip(values in proptest::collection::vec(prop_oneof![datum(), Just(Datum::Null)], 0..12)) {
            let row = row_of(&values);
            let kinds: Vec<_> = values.iter().map(|v| PhysicalKind::of(v).unwrap_or(PhysicalKind::Text)).collect();
            let reader = RowReader::new(&row).unwrap();
            let back = reader.decode_all(&kinds).unwrap();
            prop_assert_eq!(back.len(), values.len());
            for (a, b) in values.iter().zip(&back) {
                prop_assert!(equal(a, b, false), "{:?} {:?}", a, b);
            }
            // Any subset of columns reads the same.
            let wanted: Vec<usize> = (0..values.len()).filter(|i| i % 2 == 1).collect();
            let mut out = vec![Datum::Null; values.len()];
            reader.decode(&kinds, &wanted, &mut out).unwrap();
            for index in wanted {
                prop_assert!(equal(&values[index], &out[index], false));
            }
            for value in &values {
                let mut bytes = Vec::new();
                encode_datum(value, &mut bytes);
                let mut rest = bytes.as_slice();
                prop_assert!(equal(value, &decode_datum(&mut rest).unwrap(), false));
                prop_assert!(rest.is_empty());
            }
        }

        #[test]
        fn damaged_bytes_never_panic(
            values in proptest::collection::vec(datum(), 0..6),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut row = row_of(&values);
            for (at, byte) in flips {
                let at = at.index(row.len());
                row[at] = byte;
            }
            row.truncate(cut.index(row.len()) + 1);
            let kinds: Vec<_> = values.iter().filter_map(PhysicalKind::of).collect();
            if let Ok(reader) = RowReader::new(&row) {
                let _ = reader.decode_all(&kinds);
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode_datum(&mut bytes.as_slice());
            if let Ok(reader) = RowReader::new(&bytes) {
                for kind in PhysicalKind::ALL {
                    let _ = reader.decode_all(&[kind; 8]);
                }
            }
        }
    }
}
