//! Comparison of a date with a timestamp, and of timestamps with and without zone.
//!
//! The side that carries less is carried over to the other's type; a date too late for a timestamp is later than
//! any.

use std::cmp::Ordering;

use cairn_types::datetime::calendar::{
    DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, US_PER_DAY, US_PER_SECOND,
};
use cairn_types::datetime::zone::offset_of_local;
use cairn_types::{Datum, Env, Result};

use super::is_finite;
use crate::{Args, Call, ScalarFn};

/// Midnight of a date, with room for dates that no timestamp holds; infinities keep their place.
fn wide(days: i32) -> i128 {
    match days {
        DATE_INFINITY => i128::from(TIMESTAMP_INFINITY) << 32,
        DATE_NEG_INFINITY => i128::from(TIMESTAMP_NEG_INFINITY) << 32,
        _ => i128::from(days) * i128::from(US_PER_DAY),
    }
}

fn wide_timestamp(timestamp_us: i64) -> i128 {
    match timestamp_us {
        TIMESTAMP_INFINITY => i128::from(TIMESTAMP_INFINITY) << 32,
        TIMESTAMP_NEG_INFINITY => i128::from(TIMESTAMP_NEG_INFINITY) << 32,
        _ => i128::from(timestamp_us),
    }
}

/// The moment of a local time in the session's zone.
fn wide_utc(env: &dyn Env, local: i128) -> i128 {
    match i64::try_from(local) {
        Ok(local_us) if is_finite(local_us) => {
            local - i128::from(offset_of_local(&env.format().time_zone, local_us)) * i128::from(US_PER_SECOND)
        }
        _ => local,
    }
}

fn date_timestamp(_: &Call<'_>, a: &[Datum]) -> Result<Ordering> {
    Ok(wide(a.date(0)?).cmp(&wide_timestamp(a.timestamp(1)?)))
}

fn timestamp_date(_: &Call<'_>, a: &[Datum]) -> Result<Ordering> {
    Ok(wide_timestamp(a.timestamp(0)?).cmp(&wide(a.date(1)?)))
}

fn date_timestamptz(call: &Call<'_>, a: &[Datum]) -> Result<Ordering> {
    Ok(wide_utc(call.env, wide(a.date(0)?)).cmp(&wide_timestamp(a.timestamptz(1)?)))
}

fn timestamptz_date(call: &Call<'_>, a: &[Datum]) -> Result<Ordering> {
    Ok(wide_timestamp(a.timestamptz(0)?).cmp(&wide_utc(call.env, wide(a.date(1)?))))
}

fn timestamp_timestamptz(call: &Call<'_>, a: &[Datum]) -> Result<Ordering> {
    Ok(wide_utc(call.env, wide_timestamp(a.timestamp(0)?)).cmp(&wide_timestamp(a.timestamptz(1)?)))
}

fn timestamptz_timestamp(call: &Call<'_>, a: &[Datum]) -> Result<Ordering> {
    Ok(wide_timestamp(a.timestamptz(0)?).cmp(&wide_utc(call.env, wide_timestamp(a.timestamp(1)?))))
}

macro_rules! cross {
    ($($left:literal, $right:literal, $order:ident;)*) => {
        &[$(
            (concat!($left, "_eq_", $right), |call, a| Ok(Datum::Bool($order(call, a)? == Ordering::Equal))),
            (concat!($left, "_ne_", $right), |call, a| Ok(Datum::Bool($order(call, a)? != Ordering::Equal))),
            (concat!($left, "_lt_", $right), |call, a| Ok(Datum::Bool($order(call, a)? == Ordering::Less))),
            (concat!($left, "_le_", $right), |call, a| Ok(Datum::Bool($order(call, a)? != Ordering::Greater))),
            (concat!($left, "_gt_", $right), |call, a| Ok(Datum::Bool($order(call, a)? == Ordering::Greater))),
            (concat!($left, "_ge_", $right), |call, a| Ok(Datum::Bool($order(call, a)? != Ordering::Less))),
            (concat!($left, "_cmp_", $right), |call, a| Ok(Datum::Int4($order(call, a)? as i32))),
        )*]
    };
}

pub const BODIES: &[(&str, ScalarFn)] = cross! {
    "date", "timestamp", date_timestamp;
    "timestamp", "date", timestamp_date;
    "date", "timestamptz", date_timestamptz;
    "timestamptz", "date", timestamptz_date;
    "timestamp", "timestamptz", timestamp_timestamptz;
    "timestamptz", "timestamp", timestamptz_timestamp;
};
