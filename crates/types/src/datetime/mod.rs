//! date, time, timetz, timestamp, timestamptz and interval as text, and the calendar and zones under them.
//!
//! Values are PostgreSQL's: days or microseconds since 2000-01-01, infinities at the ends of the integers, local
//! time for `timestamp`, UTC for `timestamptz`. `now_us` is the transaction's time in UTC, which `now`, `today`
//! and their kin refer to.
//!
//! [`calendar`] counts days, [`zone`] knows offsets, `token` and `parse` read, `format` writes, `interval` does
//! both for intervals.

pub mod calendar;
mod format;
mod interval;
mod parse;
pub mod posix_zone;
mod token;
pub mod zone;

pub use format::{format_date, format_time, format_timestamp, format_timestamptz, format_timetz};
pub use interval::{adjust_interval, format_interval, parse_interval};
pub use parse::{parse_date, parse_time, parse_timestamp, parse_timestamptz, parse_timetz};

use calendar::{TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY};

use crate::{Result, err};

/// Rounds a time of day to the precision of a type modifier (digits of a second; negative: none).
pub fn adjust_time(time_us: i64, typmod: i32) -> i64 {
    let Ok(precision) = u32::try_from(typmod) else { return time_us };
    interval::round_us(time_us, precision).unwrap_or(time_us)
}

/// Rounds a timestamp of either kind to the precision of a type modifier; infinities stay.
pub fn adjust_timestamp(timestamp_us: i64, typmod: i32) -> Result<i64> {
    let infinite = matches!(timestamp_us, TIMESTAMP_INFINITY | TIMESTAMP_NEG_INFINITY);
    let Ok(precision) = u32::try_from(typmod) else { return Ok(timestamp_us) };
    if infinite {
        return Ok(timestamp_us);
    }
    interval::round_us(timestamp_us, precision)
        .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}
