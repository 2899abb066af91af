//! Values as text and in the binary protocol format: what pg_type's input, output, receive and send
//! functions do.
//!
//! [`input`] and [`recv`] build a datum of a type, [`output`] and [`send`] append to a buffer; [`apply_typmod`] is the cast
//! of a type to itself with a modifier. Types that need the catalog (enums, composites, domains, arrays of
//! them, names of `reg*` objects) ask it through [`Env`]. Output is on the path of every result column: it looks
//! at the datum first and at the type only where the datum does not decide.
//!
//! Errors are PostgreSQL's: 22P02 for text that is not the type's, 22003 out of range, 22P03 and 08P01 for
//! binary data, 22001 for what a modifier cuts off, 0A000 for types that Cairn does not have.

mod array;
mod binary;
mod bytea;
mod float;
mod record;
mod scalar;
mod typmod;

use std::sync::Arc;

use crate::{Datum, Env, Error, Numeric, Oid, Result, Text, TypeShape, datetime, err, json, types};

pub use array::{array_element_output, array_output};
pub use binary::{recv, send};
pub use bytea::{decode_hex, encode_hex_into, parse_bytea, print_bytea};
pub use float::{parse_float4, parse_float8, print_float4, print_float8};
pub use record::{record_input, record_output};
pub use scalar::{
    clip_name, parse_bool, parse_char, parse_int2, parse_int4, parse_int8, parse_lsn, parse_oid, parse_tid,
    parse_uuid, parse_xid8, print_char, print_lsn, print_tid, print_uuid,
};
pub use typmod::apply_typmod;

pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn invalid_syntax(type_name: &str, text: &str) -> Error {
    err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type {type_name}: \"{text}\"")
}

/// 0A000 for a type that Cairn does not have, named as SQL names it.
fn unsupported_type(type_oid: Oid, env: &dyn Env) -> Error {
    Error::unsupported(format!("type {} is", env.format_type(type_oid, -1)))
}

/// True for the types that hold the oid of a catalog object and are read and written by its name.
pub fn is_reg_type(type_oid: Oid) -> bool {
    matches!(
        type_oid,
        types::REGPROC
            | types::REGPROCEDURE
            | types::REGOPER
            | types::REGOPERATOR
            | types::REGCLASS
            | types::REGTYPE
            | types::REGNAMESPACE
            | types::REGROLE
            | types::REGCOLLATION
            | types::REGCONFIG
            | types::REGDICTIONARY
    )
}

/// Reads a value of a type from text and applies the type modifier (-1: none).
pub fn input(text: &str, type_oid: Oid, typmod: i32, env: &dyn Env) -> Result<Datum> {
    input_at(text, type_oid, typmod, env, 0)
}

/// Composite types and arrays nest; so deep and no deeper.
const NESTING_MAX: u32 = 64;

fn input_at(text: &str, type_oid: Oid, typmod: i32, env: &dyn Env, depth: u32) -> Result<Datum> {
    if depth > NESTING_MAX {
        return Err(err!(STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
    }
    let value = match type_oid {
        types::INT4 => Datum::Int4(parse_int4(text)?),
        types::INT8 => Datum::Int8(parse_int8(text)?),
        types::INT2 => Datum::Int2(parse_int2(text)?),
        types::TEXT | types::UNKNOWN | types::CSTRING | types::REFCURSOR | types::PG_NODE_TREE => {
            return Ok(Datum::text(text));
        }
        types::VARCHAR | types::BPCHAR => {
            return typmod::apply_to_text(Text::from(text), type_oid, typmod, false);
        }
        types::BOOL => Datum::Bool(parse_bool(text)?),
        types::FLOAT8 => Datum::Float8(parse_float8(text)?),
        types::FLOAT4 => Datum::Float4(parse_float4(text)?),
        types::NUMERIC => {
            let number = Numeric::parse(text)?;
            Datum::Numeric(Arc::new(if typmod >= 0 { number.apply_typmod(typmod)? } else { number }))
        }
        types::NAME => Datum::text(clip_name(text)),
        types::CHAR => Datum::Char(parse_char(text)),
        types::BYTEA => Datum::Bytea(parse_bytea(text)?.into()),
        types::UUID => Datum::Uuid(parse_uuid(text)?),
        types::JSON => {
            json::validate(text)?;
            Datum::text(text)
        }
        types::JSONB => Datum::Jsonb(Arc::new(json::parse(text)?)),
        // Kept in its canonical spelling.
        types::JSONPATH => Datum::text(json::path::parse_path(text)?.to_string()),
        types::ACLITEM => Datum::Text(env.acl_item_input(text)?),
        types::OID => Datum::Oid(parse_oid(text, "oid")?),
        types::XID => Datum::Oid(scalar::parse_xid(text)),
        types::CID => Datum::Oid(scalar::parse_xid(text)),
        types::XID8 => Datum::UInt8(parse_xid8(text)),
        types::PG_LSN => Datum::UInt8(parse_lsn(text)?),
        types::TID => Datum::Tid(parse_tid(text)?),
        types::INT2VECTOR | types::OIDVECTOR => return array::vector_input(text, type_oid),
        types::DATE => Datum::Date(datetime::parse_date(text, env.format(), env.transaction_time())?),
        types::TIME => {
            let time = datetime::parse_time(text, env.format(), env.transaction_time())?;
            Datum::Time(datetime::adjust_time(time, typmod))
        }
        types::TIMETZ => {
            let mut time = datetime::parse_timetz(text, env.format(), env.transaction_time())?;
            time.time_us = datetime::adjust_time(time.time_us, typmod);
            Datum::TimeTz(time)
        }
        types::TIMESTAMP => {
            let timestamp = datetime::parse_timestamp(text, env.format(), env.transaction_time())?;
            Datum::Timestamp(datetime::adjust_timestamp(timestamp, typmod)?)
        }
        types::TIMESTAMPTZ => {
            let timestamp = datetime::parse_timestamptz(text, env.format(), env.transaction_time())?;
            Datum::TimestampTz(datetime::adjust_timestamp(timestamp, typmod)?)
        }
        types::INTERVAL => Datum::Interval(datetime::parse_interval(text, env.format(), typmod)?),
        types::VOID => Datum::text(""),
        types::RECORD => {
            return Err(err!(FEATURE_NOT_SUPPORTED, "input of anonymous composite types is not implemented"));
        }
        _ if is_reg_type(type_oid) => reg_input(text, type_oid, env)?,
        _ => return catalog_input(text, type_oid, typmod, env, depth),
    };
    Ok(value)
}

fn reg_input(text: &str, type_oid: Oid, env: &dyn Env) -> Result<Datum> {
    if text == "-" {
        return Ok(Datum::Oid(0));
    }
    // An oid is taken as it is, whether or not there is such an object.
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Datum::Oid(parse_oid(text, "oid")?));
    }
    let found = env.reg_lookup(type_oid, text).map_err(|mut error| {
        // A place in the name is no place in the statement.
        error.report_mut().location = None;
        error
    });
    Ok(Datum::Oid(found?))
}

/// The first type under a domain that is no domain, and the modifier of its values.
fn domain_base(mut base: Oid, mut typmod: i32, env: &dyn Env) -> (Oid, i32) {
    while base > LAST_FIXED_TYPE
        && let Some(TypeShape::Domain { base: under, typmod: its }) = env.type_shape(base)
    {
        (base, typmod) = (under, its);
    }
    (base, typmod)
}

/// The oids of types that the code knows by name; no domain is among them.
const LAST_FIXED_TYPE: Oid = 9999;

/// A null of a type, which a domain may refuse: [`input`] and [`recv`] of a value that is not there.
pub fn null(type_oid: Oid, env: &dyn Env) -> Result<Datum> {
    if type_oid > LAST_FIXED_TYPE && matches!(env.type_shape(type_oid), Some(TypeShape::Domain { .. })) {
        env.check_domain(type_oid, &Datum::Null)?;
    }
    Ok(Datum::Null)
}

/// Types that only the catalog knows.
fn catalog_input(text: &str, type_oid: Oid, typmod: i32, env: &dyn Env, depth: u32) -> Result<Datum> {
    match env.type_shape(type_oid) {
        Some(TypeShape::Array { element, delimiter }) => {
            array::array_input(text, element, delimiter, typmod, env, depth)
        }
        Some(TypeShape::Enum) => match env.enum_value(type_oid, text) {
            Some(value) => Ok(Datum::Enum(value)),
            None => Err(err!(
                INVALID_TEXT_REPRESENTATION,
                "invalid input value for enum {}: \"{text}\"",
                env.format_type(type_oid, -1)
            )),
        },
        Some(TypeShape::Domain { base, typmod }) => {
            let (base, typmod) = domain_base(base, typmod, env);
            let value = input_at(text, base, typmod, env, depth + 1)?;
            env.check_domain(type_oid, &value)?;
            Ok(value)
        }
        Some(TypeShape::Composite { fields }) => {
            record::record_input(text, type_oid, &fields, env, depth + 1)
        }
        Some(TypeShape::Pseudo) => Err(err!(
            FEATURE_NOT_SUPPORTED,
            "cannot accept a value of type {}",
            env.format_type(type_oid, -1)
        )),
        Some(TypeShape::Base) => Err(unsupported_type(type_oid, env)),
        None => Err(Error::internal(format!("cache lookup failed for type {type_oid}"))),
    }
}

/// Appends a value as text. Nulls have no text: the caller handles them.
pub fn output(value: &Datum, type_oid: Oid, env: &dyn Env, out: &mut String) -> Result<()> {
    match value {
        Datum::Null => {}
        Datum::Text(text) if type_oid == types::ACLITEM => out.push_str(&env.acl_item_output(text)),
        Datum::Text(text) => out.push_str(text),
        Datum::Int4(value) => out.push_str(itoa::Buffer::new().format(*value)),
        Datum::Int8(value) => out.push_str(itoa::Buffer::new().format(*value)),
        Datum::Int2(value) => out.push_str(itoa::Buffer::new().format(*value)),
        Datum::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Datum::Float8(value) => print_float8(*value, env.format().extra_float_digits, out),
        Datum::Float4(value) => print_float4(*value, env.format().extra_float_digits, out),
        Datum::Numeric(value) => value.print(out),
        Datum::Char(value) => print_char(*value, out),
        Datum::Bytea(bytes) => print_bytea(bytes, env.format().bytea_hex, out),
        Datum::Date(days) => datetime::format_date(*days, env.format(), out),
        Datum::Time(us) => datetime::format_time(*us, env.format(), out),
        Datum::TimeTz(value) => datetime::format_timetz(*value, env.format(), out),
        Datum::Timestamp(us) => datetime::format_timestamp(*us, env.format(), out),
        Datum::TimestampTz(us) => datetime::format_timestamptz(*us, env.format(), out),
        Datum::Interval(value) => datetime::format_interval(*value, env.format(), out),
        Datum::Uuid(bytes) => print_uuid(bytes, out),
        Datum::Jsonb(value) => value.print(out),
        Datum::Oid(value) => output_oid(*value, type_oid, env, out),
        Datum::UInt8(value) => {
            if type_oid == types::PG_LSN {
                print_lsn(*value, out);
            } else {
                out.push_str(itoa::Buffer::new().format(*value));
            }
        }
        Datum::Tid(value) => print_tid(*value, out),
        Datum::Enum(value) => {
            let label = env.enum_label(value.oid).ok_or_else(|| {
                err!(INVALID_BINARY_REPRESENTATION, "invalid internal value for enum: {}", value.oid)
            })?;
            out.push_str(&label);
        }
        Datum::Array(array) => array::array_output(array, type_oid, env, out)?,
        Datum::Record(record) => record::record_output(record, env, out)?,
    }
    Ok(())
}

fn output_oid(value: Oid, type_oid: Oid, env: &dyn Env, out: &mut String) {
    if is_reg_type(type_oid) {
        if value == 0 {
            out.push('-');
            return;
        }
        if let Some(name) = env.reg_name(type_oid, value) {
            out.push_str(&name);
            return;
        }
    }
    out.push_str(itoa::Buffer::new().format(value));
}

/// [`output`] into a string of its own.
pub fn output_string(value: &Datum, type_oid: Oid, env: &dyn Env) -> Result<String> {
    let mut text = String::new();
    output(value, type_oid, env, &mut text)?;
    Ok(text)
}
