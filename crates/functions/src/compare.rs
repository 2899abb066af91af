//! Comparison operators, `larger` / `smaller` and btree support functions: `int4lt`, `text_lt`, `bttextcmp`,
//! `date_larger`, ... Arrays, records and jsonb are compared beside the rest of their functions.
//!
//! Texts are compared by their bytes: C.UTF-8 is the only collation that Cairn orders by so far, and the
//! analyzer refuses the others.

use std::cmp::Ordering;

use cairn_types::{Datum, Interval, Result, TimeTz};

use crate::{Args, ScalarFn};

/// PostgreSQL's order of floats: NaN equals NaN and is above everything; -0 equals 0.
pub fn float8_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// An interval as one number of microseconds, a month counting 30 days and a day 24 hours.
pub fn interval_span(value: Interval) -> i128 {
    const DAY_US: i128 = 86_400_000_000;
    i128::from(value.time_us) + i128::from(value.days) * DAY_US + i128::from(value.months) * 30 * DAY_US
}

/// By the moment in UTC, then by zone, so that only identical values are equal.
pub fn timetz_order(a: TimeTz, b: TimeTz) -> Ordering {
    let utc = |value: TimeTz| value.time_us + i64::from(value.zone_seconds_west) * 1_000_000;
    utc(a).cmp(&utc(b)).then(a.zone_seconds_west.cmp(&b.zone_seconds_west))
}

/// bpchar compares without its padding.
pub fn bpchar_significant(value: &str) -> &str {
    value.trim_end_matches(' ')
}

/// Bodies over expressions `a` and `b` of comparable types: operators named `prefix` + eq, ne, lt, le, gt, ge,
/// and the support function named last.
macro_rules! ordered {
    ($($prefix:literal, $cmp:literal, $args:ident => $a:expr, $b:expr;)*) => {
        &[$(
            (concat!($prefix, "eq"), |_, $args| Ok(Datum::Bool($a == $b))),
            (concat!($prefix, "ne"), |_, $args| Ok(Datum::Bool($a != $b))),
            (concat!($prefix, "lt"), |_, $args| Ok(Datum::Bool($a < $b))),
            (concat!($prefix, "le"), |_, $args| Ok(Datum::Bool($a <= $b))),
            (concat!($prefix, "gt"), |_, $args| Ok(Datum::Bool($a > $b))),
            (concat!($prefix, "ge"), |_, $args| Ok(Datum::Bool($a >= $b))),
            ($cmp, |_, $args| Ok(Datum::Int4($a.cmp(&$b) as i32))),
        )*]
    };
}

/// As [`ordered`], over a function that returns the order of arguments 0 and 1.
macro_rules! ordered_by {
    ($($prefix:literal, $cmp:literal, $order:expr;)*) => {
        &[$(
            (concat!($prefix, "eq"), |_, args| Ok(Datum::Bool($order(args)? == Ordering::Equal))),
            (concat!($prefix, "ne"), |_, args| Ok(Datum::Bool($order(args)? != Ordering::Equal))),
            (concat!($prefix, "lt"), |_, args| Ok(Datum::Bool($order(args)? == Ordering::Less))),
            (concat!($prefix, "le"), |_, args| Ok(Datum::Bool($order(args)? != Ordering::Greater))),
            (concat!($prefix, "gt"), |_, args| Ok(Datum::Bool($order(args)? == Ordering::Greater))),
            (concat!($prefix, "ge"), |_, args| Ok(Datum::Bool($order(args)? != Ordering::Less))),
            ($cmp, |_, args| Ok(Datum::Int4($order(args)? as i32))),
        )*]
    };
}

/// The argument that is larger (or smaller); the second of two equal ones, as PostgreSQL's `larger` functions.
macro_rules! larger_smaller {
    ($($prefix:literal, $order:expr;)*) => {
        &[$(
            (concat!($prefix, "larger"), |_, args| pick(args, $order(args)? == Ordering::Greater)),
            (concat!($prefix, "smaller"), |_, args| pick(args, $order(args)? == Ordering::Less)),
        )*]
    };
}

fn pick(args: &[Datum], first: bool) -> Result<Datum> {
    Ok(args.any(if first { 0 } else { 1 }).clone())
}

pub const BODIES: &[(&str, ScalarFn)] = ordered! {
    "int2", "btint2cmp", a => a.int2(0)?, a.int2(1)?;
    "int4", "btint4cmp", a => a.int4(0)?, a.int4(1)?;
    "int8", "btint8cmp", a => a.int8(0)?, a.int8(1)?;
    "int24", "btint24cmp", a => i32::from(a.int2(0)?), a.int4(1)?;
    "int42", "btint42cmp", a => a.int4(0)?, i32::from(a.int2(1)?);
    "int28", "btint28cmp", a => i64::from(a.int2(0)?), a.int8(1)?;
    "int82", "btint82cmp", a => a.int8(0)?, i64::from(a.int2(1)?);
    "int48", "btint48cmp", a => i64::from(a.int4(0)?), a.int8(1)?;
    "int84", "btint84cmp", a => a.int8(0)?, i64::from(a.int4(1)?);
    "bool", "btboolcmp", a => a.bool(0)?, a.bool(1)?;
    "char", "btcharcmp", a => a.char(0)?, a.char(1)?;
    "oid", "btoidcmp", a => a.oid(0)?, a.oid(1)?;
    "xid8", "xid8cmp", a => a.uint8(0)?, a.uint8(1)?;
    "pg_lsn_", "pg_lsn_cmp", a => a.uint8(0)?, a.uint8(1)?;
    "tid", "bttidcmp", a => a.tid(0)?, a.tid(1)?;
    "name", "btnamecmp", a => a.str(0)?, a.str(1)?;
    "bpchar", "bpcharcmp", a => bpchar_significant(a.str(0)?), bpchar_significant(a.str(1)?);
    "bytea", "byteacmp", a => **a.bytea(0)?, **a.bytea(1)?;
    "uuid_", "uuid_cmp", a => *a.uuid(0)?, *a.uuid(1)?;
    "date_", "date_cmp", a => a.date(0)?, a.date(1)?;
    "time_", "time_cmp", a => a.time(0)?, a.time(1)?;
    "interval_", "interval_cmp", a => interval_span(a.interval(0)?), interval_span(a.interval(1)?);
};

pub const FLOATS_AND_TIMETZ: &[(&str, ScalarFn)] = ordered_by! {
    "float4", "btfloat4cmp", |a: &[Datum]| float_order(a.float4(0)?, a.float4(1)?);
    "float8", "btfloat8cmp", |a: &[Datum]| float_order(a.float8(0)?, a.float8(1)?);
    "float48", "btfloat48cmp", |a: &[Datum]| float_order(a.float4(0)?, a.float8(1)?);
    "float84", "btfloat84cmp", |a: &[Datum]| float_order(a.float8(0)?, a.float4(1)?);
    "timetz_", "timetz_cmp", |a: &[Datum]| Result::Ok(timetz_order(a.timetz(0)?, a.timetz(1)?));
};

fn float_order(a: impl Into<f64>, b: impl Into<f64>) -> Result<Ordering> {
    Ok(float8_order(a.into(), b.into()))
}

/// Timestamps with and without zone share the operators' code: both are microseconds, so the pairs' `prosrc`
/// are the same.
fn timestamp_order(args: &[Datum]) -> Result<Ordering> {
    let us = |datum: &Datum, i| match datum {
        Datum::Timestamp(us) | Datum::TimestampTz(us) => Ok(*us),
        _ => args.timestamptz(i),
    };
    Ok(us(args.any(0), 0)?.cmp(&us(args.any(1), 1)?))
}

pub const TIMESTAMPS: &[(&str, ScalarFn)] = ordered_by! {
    "timestamp_", "timestamp_cmp", timestamp_order;
};

fn texts(args: &[Datum]) -> Result<Ordering> {
    Ok(args.str(0)?.cmp(args.str(1)?))
}

fn bpchars(args: &[Datum]) -> Result<Ordering> {
    Ok(bpchar_significant(args.str(0)?).cmp(bpchar_significant(args.str(1)?)))
}

fn enums(args: &[Datum]) -> Result<Ordering> {
    let (a, b) = (args.enum_value(0)?, args.enum_value(1)?);
    Ok(a.sort_order.total_cmp(&b.sort_order))
}

/// `xid = integer` has the same body as `xid = xid`.
fn xid_or_integer(args: &[Datum], i: usize) -> Result<u32> {
    match args.any(i) {
        Datum::Int4(value) => Ok(*value as u32),
        _ => args.oid(i),
    }
}

/// Types whose functions do not follow the common naming.
pub const OTHERS: &[(&str, ScalarFn)] = &[
    ("texteq", |_, a| Ok(Datum::Bool(a.str(0)? == a.str(1)?))),
    ("textne", |_, a| Ok(Datum::Bool(a.str(0)? != a.str(1)?))),
    ("text_lt", |_, a| Ok(Datum::Bool(a.str(0)? < a.str(1)?))),
    ("text_le", |_, a| Ok(Datum::Bool(a.str(0)? <= a.str(1)?))),
    ("text_gt", |_, a| Ok(Datum::Bool(a.str(0)? > a.str(1)?))),
    ("text_ge", |_, a| Ok(Datum::Bool(a.str(0)? >= a.str(1)?))),
    ("bttextcmp", |_, a| Ok(Datum::Int4(texts(a)? as i32))),
    ("text_pattern_lt", |_, a| Ok(Datum::Bool(a.str(0)? < a.str(1)?))),
    ("text_pattern_le", |_, a| Ok(Datum::Bool(a.str(0)? <= a.str(1)?))),
    ("text_pattern_gt", |_, a| Ok(Datum::Bool(a.str(0)? > a.str(1)?))),
    ("text_pattern_ge", |_, a| Ok(Datum::Bool(a.str(0)? >= a.str(1)?))),
    ("bttext_pattern_cmp", |_, a| Ok(Datum::Int4(texts(a)? as i32))),
    ("text_starts_with", |_, a| Ok(Datum::Bool(a.str(0)?.starts_with(a.str(1)?)))),
    ("bpchar_pattern_lt", |_, a| Ok(Datum::Bool(bpchars(a)? == Ordering::Less))),
    ("bpchar_pattern_le", |_, a| Ok(Datum::Bool(bpchars(a)? != Ordering::Greater))),
    ("bpchar_pattern_gt", |_, a| Ok(Datum::Bool(bpchars(a)? == Ordering::Greater))),
    ("bpchar_pattern_ge", |_, a| Ok(Datum::Bool(bpchars(a)? != Ordering::Less))),
    ("btbpchar_pattern_cmp", |_, a| Ok(Datum::Int4(bpchars(a)? as i32))),
    // The first of two equal ones, unlike the others.
    ("bpchar_larger", |_, a| pick(a, bpchars(a)? != Ordering::Less)),
    ("bpchar_smaller", |_, a| pick(a, bpchars(a)? != Ordering::Greater)),
    ("nameeqtext", |_, a| Ok(Datum::Bool(a.str(0)? == a.str(1)?))),
    ("namenetext", |_, a| Ok(Datum::Bool(a.str(0)? != a.str(1)?))),
    ("namelttext", |_, a| Ok(Datum::Bool(a.str(0)? < a.str(1)?))),
    ("nameletext", |_, a| Ok(Datum::Bool(a.str(0)? <= a.str(1)?))),
    ("namegttext", |_, a| Ok(Datum::Bool(a.str(0)? > a.str(1)?))),
    ("namegetext", |_, a| Ok(Datum::Bool(a.str(0)? >= a.str(1)?))),
    ("btnametextcmp", |_, a| Ok(Datum::Int4(texts(a)? as i32))),
    ("texteqname", |_, a| Ok(Datum::Bool(a.str(0)? == a.str(1)?))),
    ("textnename", |_, a| Ok(Datum::Bool(a.str(0)? != a.str(1)?))),
    ("textltname", |_, a| Ok(Datum::Bool(a.str(0)? < a.str(1)?))),
    ("textlename", |_, a| Ok(Datum::Bool(a.str(0)? <= a.str(1)?))),
    ("textgtname", |_, a| Ok(Datum::Bool(a.str(0)? > a.str(1)?))),
    ("textgename", |_, a| Ok(Datum::Bool(a.str(0)? >= a.str(1)?))),
    ("bttextnamecmp", |_, a| Ok(Datum::Int4(texts(a)? as i32))),
    ("enum_eq", |_, a| Ok(Datum::Bool(a.enum_value(0)?.oid == a.enum_value(1)?.oid))),
    ("enum_ne", |_, a| Ok(Datum::Bool(a.enum_value(0)?.oid != a.enum_value(1)?.oid))),
    ("enum_lt", |_, a| Ok(Datum::Bool(enums(a)? == Ordering::Less))),
    ("enum_le", |_, a| Ok(Datum::Bool(enums(a)? != Ordering::Greater))),
    ("enum_gt", |_, a| Ok(Datum::Bool(enums(a)? == Ordering::Greater))),
    ("enum_ge", |_, a| Ok(Datum::Bool(enums(a)? != Ordering::Less))),
    ("enum_cmp", |_, a| Ok(Datum::Int4(enums(a)? as i32))),
    ("xideq", |_, a| Ok(Datum::Bool(a.oid(0)? == xid_or_integer(a, 1)?))),
    ("xidneq", |_, a| Ok(Datum::Bool(a.oid(0)? != xid_or_integer(a, 1)?))),
    ("cideq", |_, a| Ok(Datum::Bool(a.oid(0)? == a.oid(1)?))),
];

pub const LARGER_SMALLER: &[(&str, ScalarFn)] = larger_smaller! {
    "int2", |a: &[Datum]| Result::Ok(a.int2(0)?.cmp(&a.int2(1)?));
    "int4", |a: &[Datum]| Result::Ok(a.int4(0)?.cmp(&a.int4(1)?));
    "int8", |a: &[Datum]| Result::Ok(a.int8(0)?.cmp(&a.int8(1)?));
    "oid", |a: &[Datum]| Result::Ok(a.oid(0)?.cmp(&a.oid(1)?));
    "xid8_", |a: &[Datum]| Result::Ok(a.uint8(0)?.cmp(&a.uint8(1)?));
    "pg_lsn_", |a: &[Datum]| Result::Ok(a.uint8(0)?.cmp(&a.uint8(1)?));
    "tid", |a: &[Datum]| Result::Ok(a.tid(0)?.cmp(&a.tid(1)?));
    "float4", |a: &[Datum]| float_order(a.float4(0)?, a.float4(1)?);
    "float8", |a: &[Datum]| float_order(a.float8(0)?, a.float8(1)?);
    "text_", texts;
    "date_", |a: &[Datum]| Result::Ok(a.date(0)?.cmp(&a.date(1)?));
    "time_", |a: &[Datum]| Result::Ok(a.time(0)?.cmp(&a.time(1)?));
    "timetz_", |a: &[Datum]| Result::Ok(timetz_order(a.timetz(0)?, a.timetz(1)?));
    "timestamp_", timestamp_order;
    "interval_", |a: &[Datum]| Result::Ok(interval_span(a.interval(0)?).cmp(&interval_span(a.interval(1)?)));
    "enum_", enums;
};
