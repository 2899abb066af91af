//! pg_lsn: arithmetic. (Comparison is with the other types'.)

use cairn_types::{Datum, Numeric, Result, bail, err};

use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("pg_lsn_mi", |_, a| {
        let difference = i128::from(a.uint8(0)?) - i128::from(a.uint8(1)?);
        Ok(Datum::Numeric(Numeric::from(difference).into()))
    }),
    ("pg_lsn_pli", |_, a| moved(a, "add NaN to", Numeric::clone)),
    ("pg_lsn_mii", |_, a| moved(a, "subtract NaN from", Numeric::neg)),
    ("numeric_pg_lsn", |_, a| position(a.numeric(0)?)),
];

fn position(value: &Numeric) -> Result<Datum> {
    if value.is_nan() {
        bail!(FEATURE_NOT_SUPPORTED, "cannot convert NaN to pg_lsn");
    }
    if value.is_infinite() {
        bail!(FEATURE_NOT_SUPPORTED, "cannot convert infinity to pg_lsn");
    }
    let parsed = value.round(0)?.to_string().parse::<u64>();
    parsed.map(Datum::UInt8).map_err(|_| err!(INVALID_PARAMETER_VALUE, "pg_lsn out of range"))
}

fn moved(args: &[Datum], what: &str, step: impl Fn(&Numeric) -> Numeric) -> Result<Datum> {
    let bytes = args.numeric(1)?;
    if bytes.is_nan() {
        bail!(FEATURE_NOT_SUPPORTED, "cannot {what} pg_lsn");
    }
    position(&Numeric::from(args.uint8(0)?).add(&step(bytes))?)
}
