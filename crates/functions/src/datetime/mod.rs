//! Dates and times: operators, casts and functions (manual, section 9.9).
//!
//! Values are as in [`cairn_types::datetime`]: `timestamp` is local time, `timestamptz` a moment in UTC. What is
//! said of local time of a moment is said in the session's zone.

pub mod arithmetic;
pub mod cast;
pub mod clock;
pub mod compare;
pub mod construct;
pub mod part;
pub mod series;
pub mod truncate;
pub mod unit;
pub mod zone;

use cairn_types::datetime::calendar::{
    TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, US_PER_SECOND, in_timestamp_range,
};
use cairn_types::datetime::zone::{offset_at, offset_of_local};
use cairn_types::{Env, Error, Result, err};

/// Neither infinity.
pub fn is_finite(timestamp_us: i64) -> bool {
    !matches!(timestamp_us, TIMESTAMP_INFINITY | TIMESTAMP_NEG_INFINITY)
}

#[cold]
pub fn timestamp_out_of_range() -> Error {
    err!(DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cold]
pub fn date_out_of_range() -> Error {
    err!(DATETIME_FIELD_OVERFLOW, "date out of range")
}

#[cold]
pub fn interval_out_of_range() -> Error {
    err!(DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Local time, in the session's zone, of a moment; infinities stay.
pub fn to_local(env: &dyn Env, utc_us: i64) -> i64 {
    if !is_finite(utc_us) {
        return utc_us;
    }
    utc_us + i64::from(offset_at(&env.format().time_zone, utc_us)) * US_PER_SECOND
}

/// The moment of a local time in the session's zone; infinities stay.
pub fn to_utc(env: &dyn Env, local_us: i64) -> Result<i64> {
    if !is_finite(local_us) {
        return Ok(local_us);
    }
    let offset = i64::from(offset_of_local(&env.format().time_zone, local_us)) * US_PER_SECOND;
    in_timestamp_range(local_us - offset).ok_or_else(timestamp_out_of_range)
}
