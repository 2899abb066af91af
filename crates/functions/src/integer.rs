//! smallint, integer, bigint and oid: arithmetic, bits, casts, number theory.

use cairn_types::{Datum, Error, Result, bail, err};

use crate::{Args, ScalarFn};

#[cold]
pub fn out_of_range(type_name: &str) -> Error {
    err!(NUMERIC_VALUE_OUT_OF_RANGE, "{type_name} out of range")
}

#[cold]
pub fn division_by_zero() -> Error {
    err!(DIVISION_BY_ZERO, "division by zero")
}

fn small(value: Option<i16>) -> Result<Datum> {
    value.map(Datum::Int2).ok_or_else(|| out_of_range("smallint"))
}

fn int(value: Option<i32>) -> Result<Datum> {
    value.map(Datum::Int4).ok_or_else(|| out_of_range("integer"))
}

fn big(value: Option<i64>) -> Result<Datum> {
    value.map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))
}

/// The one quotient that overflows is minimum / -1, so a `None` behind this check is an overflow.
macro_rules! nonzero {
    ($divisor:expr) => {{
        let divisor = $divisor;
        if divisor == 0 {
            return Err(division_by_zero());
        }
        divisor
    }};
}

/// Arithmetic of two argument types in the wider one.
macro_rules! arithmetic {
    ($($prefix:literal, $wrap:ident, $args:ident => $a:expr, $b:expr;)*) => {
        &[$(
            (concat!($prefix, "pl"), |_, $args| $wrap($a.checked_add($b))),
            (concat!($prefix, "mi"), |_, $args| $wrap($a.checked_sub($b))),
            (concat!($prefix, "mul"), |_, $args| $wrap($a.checked_mul($b))),
            (concat!($prefix, "div"), |_, $args| {
                let divisor = nonzero!($b);
                $wrap($a.checked_div(divisor))
            }),
        )*]
    };
}

pub const ARITHMETIC: &[(&str, ScalarFn)] = arithmetic! {
    "int2", small, a => a.int2(0)?, a.int2(1)?;
    "int4", int, a => a.int4(0)?, a.int4(1)?;
    "int8", big, a => a.int8(0)?, a.int8(1)?;
    "int24", int, a => i32::from(a.int2(0)?), a.int4(1)?;
    "int42", int, a => a.int4(0)?, i32::from(a.int2(1)?);
    "int28", big, a => i64::from(a.int2(0)?), a.int8(1)?;
    "int82", big, a => a.int8(0)?, i64::from(a.int2(1)?);
    "int48", big, a => i64::from(a.int4(0)?), a.int8(1)?;
    "int84", big, a => a.int8(0)?, i64::from(a.int4(1)?);
};

/// What each of the three types has of its own.
macro_rules! own {
    ($($prefix:literal, $getter:ident, $variant:ident, $wrap:ident;)*) => {
        &[$(
            // minimum % -1 is 0, though the quotient overflows.
            (concat!($prefix, "mod"), |_, a| {
                let divisor = nonzero!(a.$getter(1)?);
                Ok(Datum::$variant(a.$getter(0)?.wrapping_rem(divisor)))
            }),
            (concat!($prefix, "um"), |_, a| $wrap(a.$getter(0)?.checked_neg())),
            (concat!($prefix, "up"), |_, a| Ok(Datum::$variant(a.$getter(0)?))),
            (concat!($prefix, "abs"), |_, a| $wrap(a.$getter(0)?.checked_abs())),
            (concat!($prefix, "and"), |_, a| Ok(Datum::$variant(a.$getter(0)? & a.$getter(1)?))),
            (concat!($prefix, "or"), |_, a| Ok(Datum::$variant(a.$getter(0)? | a.$getter(1)?))),
            (concat!($prefix, "xor"), |_, a| Ok(Datum::$variant(a.$getter(0)? ^ a.$getter(1)?))),
            (concat!($prefix, "not"), |_, a| Ok(Datum::$variant(!a.$getter(0)?))),
        )*]
    };
}

pub const OWN: &[(&str, ScalarFn)] = own! {
    "int2", int2, Int2, small;
    "int4", int4, Int4, int;
    "int8", int8, Int8, big;
};

pub const BODIES: &[(&str, ScalarFn)] = &[
    // A shift count is taken modulo the width, as PostgreSQL's hardware does it. A smallint is shifted as an
    // integer and cut.
    ("int2shl", |_, a| Ok(Datum::Int2(i32::from(a.int2(0)?).wrapping_shl(a.int4(1)? as u32) as i16))),
    ("int2shr", |_, a| Ok(Datum::Int2(i32::from(a.int2(0)?).wrapping_shr(a.int4(1)? as u32) as i16))),
    ("int4shl", |_, a| Ok(Datum::Int4(a.int4(0)?.wrapping_shl(a.int4(1)? as u32)))),
    ("int4shr", |_, a| Ok(Datum::Int4(a.int4(0)?.wrapping_shr(a.int4(1)? as u32)))),
    ("int8shl", |_, a| Ok(Datum::Int8(a.int8(0)?.wrapping_shl(a.int4(1)? as u32)))),
    ("int8shr", |_, a| Ok(Datum::Int8(a.int8(0)?.wrapping_shr(a.int4(1)? as u32)))),
    ("int4inc", |_, a| int(a.int4(0)?.checked_add(1))),
    ("int8inc", |_, a| big(a.int8(0)?.checked_add(1))),
    ("int8inc_any", |_, a| big(a.int8(0)?.checked_add(1))),
    ("int8inc_float8_float8", |_, a| big(a.int8(0)?.checked_add(1))),
    ("int8dec", |_, a| big(a.int8(0)?.checked_sub(1))),
    ("int8dec_any", |_, a| big(a.int8(0)?.checked_sub(1))),
    ("int4gcd", |_, a| gcd(a.int4(0)?.into(), a.int4(1)?.into()).and_then(|v| int(i32::try_from(v).ok()))),
    ("int8gcd", |_, a| gcd(a.int8(0)?.into(), a.int8(1)?.into()).and_then(|v| big(i64::try_from(v).ok()))),
    ("int4lcm", |_, a| lcm(a.int4(0)?.into(), a.int4(1)?.into()).and_then(|v| int(i32::try_from(v).ok()))),
    ("int8lcm", |_, a| lcm(a.int8(0)?.into(), a.int8(1)?.into()).and_then(|v| big(i64::try_from(v).ok()))),
    // Casts. Functions named "to" a narrower type check the range, the others cannot fail.
    ("i2toi4", |_, a| Ok(Datum::Int4(a.int2(0)?.into()))),
    ("i4toi2", |_, a| small(a.int4(0)?.try_into().ok())),
    ("int28", |_, a| Ok(Datum::Int8(a.int2(0)?.into()))),
    ("int48", |_, a| Ok(Datum::Int8(a.int4(0)?.into()))),
    ("int82", |_, a| small(a.int8(0)?.try_into().ok())),
    ("int84", |_, a| int(a.int8(0)?.try_into().ok())),
    ("i8tooid", |_, a| {
        u32::try_from(a.int8(0)?)
            .map(Datum::Oid)
            .map_err(|_| err!(NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))
    }),
    ("oidtoi8", |_, a| Ok(Datum::Int8(a.oid(0)?.into()))),
    ("i4tochar", |_, a| match i8::try_from(a.int4(0)?) {
        Ok(value) => Ok(Datum::Char(value as u8)),
        Err(_) => bail!(NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range"),
    }),
    ("chartoi4", |_, a| Ok(Datum::Int4((a.char(0)? as i8).into()))),
    ("xid8toxid", |_, a| Ok(Datum::Oid(a.uint8(0)? as u32))),
    ("to_hex32", |_, a| Ok(Datum::text(format!("{:x}", a.int4(0)?)))),
    ("to_hex64", |_, a| Ok(Datum::text(format!("{:x}", a.int8(0)?)))),
];

fn gcd(a: i128, b: i128) -> Result<i128> {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Ok(a)
}

/// 0 if either is 0.
fn lcm(a: i128, b: i128) -> Result<i128> {
    if a == 0 || b == 0 {
        return Ok(0);
    }
    Ok((a / gcd(a, b)? * b).abs())
}
