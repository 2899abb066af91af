//! Small families that the system catalogs use: oidvector, record images, pg_lsn arithmetic.

use std::cmp::Ordering;

use cairn_types::compare::{compare, compare_records};
use cairn_types::{Array, Datum, Numeric, Result, bail, err, types};

use crate::{Args, ScalarFn};

/// Shorter vectors come first; equally long ones compare by their numbers.
fn vectors(args: &[Datum]) -> Result<Ordering> {
    let (a, b): (&Array, &Array) = (args.array(0)?, args.array(1)?);
    let by_element = || {
        let pairs = a.elements.iter().zip(&b.elements);
        pairs.map(|(a, b)| compare(a, b, false)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    Ok(a.elements.len().cmp(&b.elements.len()).then_with(by_element))
}

/// Cairn's values have one form each, so that equal images are equal values and the other way round (except for
/// numerics, whose scale is part of their image).
fn images(args: &[Datum]) -> Result<Ordering> {
    let (a, b) = (args.record(0)?, args.record(1)?);
    let scale = |value: &Datum| match value {
        Datum::Numeric(number) => number.scale(),
        _ => None,
    };
    let by_scale = || {
        let pairs = a.values.iter().zip(&b.values);
        pairs.map(|(a, b)| scale(a).cmp(&scale(b))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    Ok(compare_records(a, b).then_with(by_scale))
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("oidvectoreq", |_, a| Ok(Datum::Bool(vectors(a)?.is_eq()))),
    ("oidvectorne", |_, a| Ok(Datum::Bool(vectors(a)?.is_ne()))),
    ("oidvectorlt", |_, a| Ok(Datum::Bool(vectors(a)?.is_lt()))),
    ("oidvectorle", |_, a| Ok(Datum::Bool(vectors(a)?.is_le()))),
    ("oidvectorgt", |_, a| Ok(Datum::Bool(vectors(a)?.is_gt()))),
    ("oidvectorge", |_, a| Ok(Datum::Bool(vectors(a)?.is_ge()))),
    ("btoidvectorcmp", |_, a| Ok(Datum::Int4(vectors(a)? as i32))),
    ("oidvectortypes", |call, a| {
        let name = |value: &Datum| match value {
            Datum::Oid(oid) => call.env.format_type(*oid, -1),
            _ => String::new(),
        };
        Ok(Datum::text(a.array(0)?.elements.iter().map(name).collect::<Vec<_>>().join(", ")))
    }),
    ("record_image_eq", |_, a| Ok(Datum::Bool(images(a)?.is_eq()))),
    ("record_image_ne", |_, a| Ok(Datum::Bool(images(a)?.is_ne()))),
    ("record_image_lt", |_, a| Ok(Datum::Bool(images(a)?.is_lt()))),
    ("record_image_le", |_, a| Ok(Datum::Bool(images(a)?.is_le()))),
    ("record_image_gt", |_, a| Ok(Datum::Bool(images(a)?.is_gt()))),
    ("record_image_ge", |_, a| Ok(Datum::Bool(images(a)?.is_ge()))),
    ("btrecordimagecmp", |_, a| Ok(Datum::Int4(images(a)? as i32))),
    ("text_regclass", |call, a| call.env.reg_lookup(types::REGCLASS, a.str(0)?).map(Datum::Oid)),
    ("pg_lsn_mi", |_, a| {
        let difference = i128::from(a.uint8(0)?) - i128::from(a.uint8(1)?);
        Ok(Datum::Numeric(Numeric::from(difference).into()))
    }),
    ("pg_lsn_pli", |_, a| moved(a, "add NaN to", Numeric::clone)),
    ("pg_lsn_mii", |_, a| moved(a, "subtract NaN from", Numeric::neg)),
    ("numeric_pg_lsn", |_, a| lsn(a.numeric(0)?)),
    ("pg_encoding_max_length_sql", |_, a| {
        Ok(match a.int4(0)? {
            0 | 8 => Datum::Int4(1),
            6 => Datum::Int4(4),
            _ => Datum::Null,
        })
    }),
];

fn lsn(value: &Numeric) -> Result<Datum> {
    if value.is_nan() {
        bail!(FEATURE_NOT_SUPPORTED, "cannot convert NaN to pg_lsn");
    }
    if value.is_infinite() {
        bail!(FEATURE_NOT_SUPPORTED, "cannot convert infinity to pg_lsn");
    }
    let text = value.round(0)?.to_string();
    let parsed = text.parse::<u64>();
    parsed.map(Datum::UInt8).map_err(|_| err!(INVALID_PARAMETER_VALUE, "pg_lsn out of range"))
}

fn moved(args: &[Datum], what: &str, step: impl Fn(&Numeric) -> Numeric) -> Result<Datum> {
    let bytes = args.numeric(1)?;
    if bytes.is_nan() {
        bail!(FEATURE_NOT_SUPPORTED, "cannot {what} pg_lsn");
    }
    lsn(&Numeric::from(args.uint8(0)?).add(&step(bytes))?)
}
