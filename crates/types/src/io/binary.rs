//! The binary format of the protocol: what the types' send and receive functions do. All integers big-endian.

use std::sync::Arc;

use super::array::DIMENSIONS_MAX;
use super::{NESTING_MAX, clip_name, is_reg_type, typmod, unsupported_type};
use crate::{
    Array, Datum, Dimension, Env, Error, Interval, Numeric, Oid, Record, RecordField, Result, Text, TimeTz,
    TypeShape, datetime, err, json, types,
};

/// Appends the binary form of a value. Nulls have none: the caller handles them.
pub fn send(value: &Datum, type_oid: Oid, env: &dyn Env, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Char(value) => out.push(*value),
        Datum::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int4(value) | Datum::Date(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::UInt8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Tid(value) => {
            out.extend_from_slice(&((value >> 16) as u32).to_be_bytes());
            out.extend_from_slice(&(*value as u16).to_be_bytes());
        }
        Datum::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => value.send(out),
        Datum::Text(text) => {
            if type_oid == types::JSONPATH {
                out.push(1);
            }
            out.extend_from_slice(text.as_bytes());
        }
        Datum::Bytea(bytes) => out.extend_from_slice(bytes),
        Datum::TimeTz(value) => {
            out.extend_from_slice(&value.time_us.to_be_bytes());
            out.extend_from_slice(&value.zone_seconds_west.to_be_bytes());
        }
        Datum::Interval(value) => {
            out.extend_from_slice(&value.time_us.to_be_bytes());
            out.extend_from_slice(&value.days.to_be_bytes());
            out.extend_from_slice(&value.months.to_be_bytes());
        }
        Datum::Uuid(bytes) => out.extend_from_slice(bytes),
        Datum::Jsonb(value) => {
            // The version of the format, then text.
            out.push(1);
            out.extend_from_slice(value.to_string().as_bytes());
        }
        Datum::Enum(_) => out.extend_from_slice(super::output_string(value, type_oid, env)?.as_bytes()),
        Datum::Array(array) => send_array(array, env, out)?,
        Datum::Record(record) => send_record(record, env, out)?,
    }
    Ok(())
}

/// Writes a length and the value, or -1 for null.
fn send_with_length(value: &Datum, type_oid: Oid, env: &dyn Env, out: &mut Vec<u8>) -> Result<()> {
    if value.is_null() {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    send(value, type_oid, env, out)?;
    let length = i32::try_from(out.len() - at - 4)
        .map_err(|_| err!(PROGRAM_LIMIT_EXCEEDED, "value is too long for the binary format"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn send_array(array: &Array, env: &dyn Env, out: &mut Vec<u8>) -> Result<()> {
    let has_nulls = array.elements.iter().any(Datum::is_null);
    out.extend_from_slice(&(array.dimensions.len() as i32).to_be_bytes());
    out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
    out.extend_from_slice(&array.element_type.to_be_bytes());
    for dimension in &array.dimensions {
        out.extend_from_slice(&(dimension.length as i32).to_be_bytes());
        out.extend_from_slice(&dimension.lower_bound.to_be_bytes());
    }
    for element in &array.elements {
        send_with_length(element, array.element_type, env, out)?;
    }
    Ok(())
}

fn send_record(record: &Record, env: &dyn Env, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&(record.values.len() as i32).to_be_bytes());
    for (value, field) in record.values.iter().zip(record.fields.iter()) {
        out.extend_from_slice(&field.type_oid.to_be_bytes());
        send_with_length(value, field.type_oid, env, out)?;
    }
    Ok(())
}

/// Reads a value of a type from its binary form and applies the type modifier (-1: none).
pub fn recv(bytes: &[u8], type_oid: Oid, typmod: i32, env: &dyn Env) -> Result<Datum> {
    recv_at(bytes, type_oid, typmod, env, 0)
}

fn recv_at(bytes: &[u8], type_oid: Oid, typmod: i32, env: &dyn Env, depth: u32) -> Result<Datum> {
    if depth > NESTING_MAX {
        return Err(err!(STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
    }
    let mut wire = Wire(bytes);
    let value = wire.value(type_oid, typmod, env, depth)?;
    if wire.0.is_empty() {
        Ok(value)
    } else {
        Err(err!(INVALID_BINARY_REPRESENTATION, "incorrect binary data format"))
    }
}

struct Wire<'a>(&'a [u8]);

fn insufficient() -> Error {
    err!(PROTOCOL_VIOLATION, "insufficient data left in message")
}

impl<'a> Wire<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(insufficient)?;
        self.0 = rest;
        Ok(*head)
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self) -> Result<&'a str> {
        let bytes = self.rest();
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let bad = &bytes[error.valid_up_to()..];
            let length = error.error_len().unwrap_or(bad.len()).clamp(1, 4).min(bad.len());
            invalid_utf8(&bad[..length])
        })?;
        if text.contains('\0') {
            return Err(invalid_utf8(&[0]));
        }
        Ok(text)
    }

    /// A value behind its length; `None` is null.
    fn counted(&mut self) -> Result<Option<&'a [u8]>> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| insufficient())?;
        let (head, rest) = self.0.split_at_checked(length).ok_or_else(insufficient)?;
        self.0 = rest;
        Ok(Some(head))
    }

    fn value(&mut self, type_oid: Oid, typmod: i32, env: &dyn Env, depth: u32) -> Result<Datum> {
        Ok(match type_oid {
            types::INT4 => Datum::Int4(self.i32()?),
            types::INT8 => Datum::Int8(self.i64()?),
            types::INT2 => Datum::Int2(i16::from_be_bytes(self.array()?)),
            types::TEXT | types::UNKNOWN | types::CSTRING | types::REFCURSOR => Datum::text(self.text()?),
            types::VARCHAR | types::BPCHAR => {
                return typmod::apply_to_text(Text::from(self.text()?), type_oid, typmod, false);
            }
            types::NAME => Datum::text(clip_name(self.text()?)),
            types::JSON => {
                let text = self.text()?;
                json::validate(text)?;
                Datum::text(text)
            }
            types::JSONB => {
                let [version] = self.array::<1>()?;
                if version != 1 {
                    return Err(Error::internal(format!("unsupported jsonb version number {version}")));
                }
                Datum::Jsonb(Arc::new(json::parse(self.text()?)?))
            }
            types::JSONPATH => {
                let [version] = self.array::<1>()?;
                if version != 1 {
                    return Err(Error::internal(format!("unsupported jsonpath version number: {version}")));
                }
                Datum::text(json::path::parse_path(self.text()?)?.to_string())
            }
            types::BOOL => Datum::Bool(self.array::<1>()?[0] != 0),
            types::CHAR => Datum::Char(self.array::<1>()?[0]),
            types::FLOAT8 => Datum::Float8(f64::from_be_bytes(self.array()?)),
            types::FLOAT4 => Datum::Float4(f32::from_be_bytes(self.array()?)),
            types::NUMERIC => {
                let number = Numeric::recv(self.rest())?;
                Datum::Numeric(Arc::new(if typmod >= 0 { number.apply_typmod(typmod)? } else { number }))
            }
            types::BYTEA => Datum::Bytea(self.rest().into()),
            types::UUID => Datum::Uuid(self.array()?),
            types::OID | types::XID | types::CID => Datum::Oid(self.u32()?),
            types::XID8 | types::PG_LSN => Datum::UInt8(u64::from_be_bytes(self.array()?)),
            types::TID => {
                let block = self.u32()?;
                Datum::Tid((u64::from(block) << 16) | u64::from(u16::from_be_bytes(self.array()?)))
            }
            types::DATE => Datum::Date(self.date()?),
            types::TIME => Datum::Time(datetime::adjust_time(self.time()?, typmod)),
            types::TIMETZ => self.timetz(typmod)?,
            types::TIMESTAMP => Datum::Timestamp(datetime::adjust_timestamp(self.timestamp()?, typmod)?),
            types::TIMESTAMPTZ => Datum::TimestampTz(datetime::adjust_timestamp(self.timestamp()?, typmod)?),
            types::INTERVAL => {
                let (time_us, days, months) = (self.i64()?, self.i32()?, self.i32()?);
                Datum::Interval(datetime::adjust_interval(Interval { months, days, time_us }, typmod)?)
            }
            types::VOID => Datum::text(""),
            types::INT2VECTOR => self.sql_array(types::INT2, -1, env, depth)?,
            types::OIDVECTOR => self.sql_array(types::OID, -1, env, depth)?,
            types::RECORD => {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "input of anonymous composite types is not implemented"
                ));
            }
            _ if is_reg_type(type_oid) => Datum::Oid(self.u32()?),
            _ => return self.catalog_value(type_oid, typmod, env, depth),
        })
    }

    fn catalog_value(&mut self, type_oid: Oid, typmod: i32, env: &dyn Env, depth: u32) -> Result<Datum> {
        match env.type_shape(type_oid) {
            Some(TypeShape::Array { element, .. }) => self.sql_array(element, typmod, env, depth),
            Some(TypeShape::Enum) => super::input(self.text()?, type_oid, -1, env),
            Some(TypeShape::Domain { base, typmod }) => {
                let (base, typmod) = super::domain_base(base, typmod, env);
                let value = self.value(base, typmod, env, depth + 1)?;
                env.check_domain(type_oid, &value)?;
                Ok(value)
            }
            Some(TypeShape::Composite { fields }) => self.record(type_oid, &fields, env, depth),
            Some(TypeShape::Pseudo) => Err(err!(
                FEATURE_NOT_SUPPORTED,
                "cannot accept a value of type {}",
                env.format_type(type_oid, -1)
            )),
            Some(TypeShape::Base) => Err(unsupported_type(type_oid, env)),
            None => Err(Error::internal(format!("cache lookup failed for type {type_oid}"))),
        }
    }

    fn date(&mut self) -> Result<i32> {
        let days = self.i32()?;
        if days == i32::MIN
            || days == i32::MAX
            || datetime::calendar::in_date_range(i64::from(days)).is_some()
        {
            Ok(days)
        } else {
            Err(err!(DATETIME_FIELD_OVERFLOW, "date out of range"))
        }
    }

    fn time(&mut self) -> Result<i64> {
        let time_us = self.i64()?;
        if (0..=86_400_000_000).contains(&time_us) {
            Ok(time_us)
        } else {
            Err(err!(DATETIME_FIELD_OVERFLOW, "time out of range"))
        }
    }

    fn timetz(&mut self, typmod: i32) -> Result<Datum> {
        let time_us = datetime::adjust_time(self.time()?, typmod);
        let zone_seconds_west = self.i32()?;
        // Sixteen hours, the furthest zone that PostgreSQL accepts.
        if zone_seconds_west.unsigned_abs() >= 16 * 3600 {
            return Err(err!(INVALID_TIME_ZONE_DISPLACEMENT_VALUE, "time zone displacement out of range"));
        }
        Ok(Datum::TimeTz(TimeTz { time_us, zone_seconds_west }))
    }

    fn timestamp(&mut self) -> Result<i64> {
        let us = self.i64()?;
        if us == i64::MIN || us == i64::MAX || datetime::calendar::in_timestamp_range(us).is_some() {
            Ok(us)
        } else {
            Err(err!(DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
        }
    }

    fn sql_array(&mut self, element_type: Oid, typmod: i32, env: &dyn Env, depth: u32) -> Result<Datum> {
        let dimension_count = self.i32()?;
        if dimension_count < 0 {
            return Err(err!(
                INVALID_BINARY_REPRESENTATION,
                "invalid number of dimensions: {dimension_count}"
            ));
        }
        if dimension_count as usize > DIMENSIONS_MAX {
            return Err(err!(
                PROGRAM_LIMIT_EXCEEDED,
                "number of array dimensions ({dimension_count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
            ));
        }
        if !matches!(self.i32()?, 0 | 1) {
            return Err(err!(INVALID_BINARY_REPRESENTATION, "invalid array flags"));
        }
        let sent_type = self.u32()?;
        if sent_type != element_type {
            return Err(err!(
                DATATYPE_MISMATCH,
                "binary data has array element type {sent_type} ({}) instead of expected {element_type} ({})",
                env.format_type(sent_type, -1),
                env.format_type(element_type, -1)
            ));
        }
        let mut dimensions = Vec::with_capacity(dimension_count as usize);
        let mut count: usize = 1;
        for _ in 0..dimension_count {
            let length = self.i32()?;
            let lower_bound = self.i32()?;
            let length = usize::try_from(length).map_err(|_| {
                err!(PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed (134217727)")
            })?;
            // Each element has at least its length: more cannot be in the message.
            count =
                count.checked_mul(length).filter(|count| *count <= self.0.len()).ok_or_else(insufficient)?;
            dimensions.push(Dimension { length, lower_bound });
        }
        if dimensions.is_empty() || count == 0 {
            return Ok(Datum::Array(Arc::new(Array {
                element_type,
                dimensions: Vec::new(),
                elements: Vec::new(),
            })));
        }
        let mut elements = Vec::with_capacity(count);
        for index in 0..count {
            elements.push(match self.counted()? {
                None => Datum::Null,
                Some(bytes) => recv_at(bytes, element_type, typmod, env, depth + 1).map_err(|error| {
                    if error.message() == "incorrect binary data format" {
                        err!(
                            INVALID_BINARY_REPRESENTATION,
                            "improper binary format in array element {}",
                            index + 1
                        )
                    } else {
                        error
                    }
                })?,
            });
        }
        Ok(Datum::Array(Arc::new(Array { element_type, dimensions, elements })))
    }

    fn record(
        &mut self,
        type_oid: Oid,
        fields: &Arc<[RecordField]>,
        env: &dyn Env,
        depth: u32,
    ) -> Result<Datum> {
        let count = self.i32()?;
        if usize::try_from(count) != Ok(fields.len()) {
            return Err(err!(
                DATATYPE_MISMATCH,
                "wrong number of columns: {count}, expected {}",
                fields.len()
            ));
        }
        let mut values = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            let sent_type = self.u32()?;
            if sent_type != field.type_oid {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "binary data has type {sent_type} ({}) instead of expected {} ({}) in record column {}",
                    env.format_type(sent_type, -1),
                    field.type_oid,
                    env.format_type(field.type_oid, -1),
                    index + 1
                ));
            }
            values.push(match self.counted()? {
                None => super::null(field.type_oid, env)?,
                Some(bytes) => recv_at(bytes, field.type_oid, field.typmod, env, depth + 1)?,
            });
        }
        Ok(Datum::Record(Arc::new(Record { type_oid, fields: fields.clone(), values })))
    }
}

fn invalid_utf8(bytes: &[u8]) -> Error {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    err!(CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "))
}
