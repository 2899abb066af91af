//! What the information schema says of a type and its modifier: lengths, precisions, scales.

use cairn_types::{Datum, Env, Oid, types};

/// Bytes that a character takes at the most in UTF-8.
const BYTES_PER_CHARACTER: i32 = 4;

fn number(value: i32) -> Datum {
    Datum::Int4(value)
}

fn is_char(ty: Oid) -> bool {
    matches!(ty, types::BPCHAR | types::VARCHAR)
}

/// Declared length in characters or bits; null where there is no limit.
pub fn char_max_length(ty: Oid, typmod: i32) -> Datum {
    match ty {
        _ if typmod == -1 => Datum::Null,
        ty if is_char(ty) => number(typmod - 4),
        types::BIT | types::VARBIT => number(typmod),
        _ => Datum::Null,
    }
}

pub fn char_octet_length(ty: Oid, typmod: i32) -> Datum {
    match ty {
        // The most that a value of any length can have.
        types::TEXT => number(1 << 30),
        ty if is_char(ty) && typmod == -1 => number(1 << 30),
        ty if is_char(ty) => number((typmod - 4).saturating_mul(BYTES_PER_CHARACTER)),
        _ => Datum::Null,
    }
}

/// Bits of binary numbers, decimal digits of numeric.
pub fn numeric_precision(ty: Oid, typmod: i32) -> Datum {
    match ty {
        types::INT2 => number(16),
        types::INT4 => number(32),
        types::INT8 => number(64),
        types::FLOAT4 => number(24),
        types::FLOAT8 => number(53),
        types::NUMERIC if typmod != -1 => number(((typmod - 4) >> 16) & 0xFFFF),
        _ => Datum::Null,
    }
}

pub fn numeric_precision_radix(ty: Oid) -> Datum {
    match ty {
        types::INT2 | types::INT4 | types::INT8 | types::FLOAT4 | types::FLOAT8 => number(2),
        types::NUMERIC => number(10),
        _ => Datum::Null,
    }
}

pub fn numeric_scale(ty: Oid, typmod: i32) -> Datum {
    match ty {
        types::INT2 | types::INT4 | types::INT8 => number(0),
        // The scale is signed: 11 bits.
        types::NUMERIC if typmod != -1 => number((((typmod - 4) & 0x7FF) ^ 1024) - 1024),
        _ => Datum::Null,
    }
}

/// Digits of the fraction of a second.
pub fn datetime_precision(ty: Oid, typmod: i32) -> Datum {
    match ty {
        types::DATE => number(0),
        types::TIME | types::TIMETZ | types::TIMESTAMP | types::TIMESTAMPTZ => {
            number(if typmod < 0 { 6 } else { typmod })
        }
        types::INTERVAL => {
            let precision = typmod & 0xFFFF;
            number(if typmod < 0 || precision == 0xFFFF { 6 } else { precision })
        }
        _ => Datum::Null,
    }
}

/// The fields of an interval, for example `DAY TO SECOND`; null for all.
pub fn interval_type(env: &dyn Env, ty: Oid, typmod: i32) -> Datum {
    if ty != types::INTERVAL {
        return Datum::Null;
    }
    let name = env.format_type(ty, typmod).to_ascii_uppercase();
    // `interval day to second(3)`
    match name.strip_prefix("INTERVAL ") {
        Some(fields) => Datum::text(fields),
        None => Datum::Null,
    }
}
