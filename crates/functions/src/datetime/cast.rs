//! Casts among the date and time types, and to their type modifiers.

use cairn_types::datetime::calendar::{
    DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, UNIX_TO_POSTGRES_SECONDS,
    US_PER_DAY, US_PER_SECOND, in_timestamp_range,
};
use cairn_types::datetime::zone::offset_of_local;
use cairn_types::datetime::{adjust_interval, adjust_time, adjust_timestamp};
use cairn_types::{Datum, Interval, Result, TimeTz, bail};

use super::arithmetic::date_to_timestamp;
use super::{is_finite, timestamp_out_of_range, to_local, to_utc};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("date_timestamp", |_, a| date_to_timestamp(a.date(0)?).map(Datum::Timestamp)),
    ("date_timestamptz", |call, a| to_utc(call.env, date_to_timestamp(a.date(0)?)?).map(Datum::TimestampTz)),
    ("timestamp_date", |_, a| Ok(Datum::Date(date_of(a.timestamp(0)?)))),
    ("timestamptz_date", |call, a| Ok(Datum::Date(date_of(to_local(call.env, a.timestamptz(0)?))))),
    ("timestamp_timestamptz", |call, a| to_utc(call.env, a.timestamp(0)?).map(Datum::TimestampTz)),
    ("timestamptz_timestamp", |call, a| {
        let local = to_local(call.env, a.timestamptz(0)?);
        if is_finite(local) && in_timestamp_range(local).is_none() {
            return Err(timestamp_out_of_range());
        }
        Ok(Datum::Timestamp(local))
    }),
    // Infinity has no time of day.
    ("timestamp_time", |_, a| Ok(time_of(a.timestamp(0)?).map_or(Datum::Null, Datum::Time))),
    ("timestamptz_time", |call, a| {
        Ok(time_of(to_local(call.env, a.timestamptz(0)?)).map_or(Datum::Null, Datum::Time))
    }),
    ("timestamptz_timetz", |call, a| {
        let utc_us = a.timestamptz(0)?;
        let local_us = to_local(call.env, utc_us);
        Ok(time_of(local_us).map_or(Datum::Null, |time_us| {
            let zone_seconds_west = ((utc_us - local_us) / US_PER_SECOND) as i32;
            Datum::TimeTz(TimeTz { time_us, zone_seconds_west })
        }))
    }),
    ("timetz_time", |_, a| Ok(Datum::Time(a.timetz(0)?.time_us))),
    ("time_timetz", time_to_timetz),
    ("time_interval", |_, a| Ok(Datum::Interval(Interval { time_us: a.time(0)?, ..Interval::default() }))),
    ("interval_time", |_, a| Ok(Datum::Time(a.interval(0)?.time_us.rem_euclid(US_PER_DAY)))),
    ("datetime_timestamp", |_, a| {
        let midnight = date_to_timestamp(a.date(0)?)?;
        if !is_finite(midnight) {
            return Ok(Datum::Timestamp(midnight));
        }
        in_timestamp_range(midnight + a.time(1)?).map(Datum::Timestamp).ok_or_else(timestamp_out_of_range)
    }),
    ("datetimetz_timestamptz", |_, a| {
        let midnight = date_to_timestamp(a.date(0)?)?;
        if !is_finite(midnight) {
            return Ok(Datum::TimestampTz(midnight));
        }
        let time = a.timetz(1)?;
        in_timestamp_range(midnight + time.time_us + i64::from(time.zone_seconds_west) * US_PER_SECOND)
            .map(Datum::TimestampTz)
            .ok_or_else(timestamp_out_of_range)
    }),
    ("timestamp_scale", |_, a| {
        adjust_timestamp(a.timestamp(0)?, precision(a.int4(1)?)?).map(Datum::Timestamp)
    }),
    ("timestamptz_scale", |_, a| {
        adjust_timestamp(a.timestamptz(0)?, precision(a.int4(1)?)?).map(Datum::TimestampTz)
    }),
    ("time_scale", |_, a| Ok(Datum::Time(adjust_time(a.time(0)?, a.int4(1)?)))),
    ("timetz_scale", |_, a| {
        let value = a.timetz(0)?;
        Ok(Datum::TimeTz(TimeTz { time_us: adjust_time(value.time_us, a.int4(1)?), ..value }))
    }),
    ("interval_scale", |_, a| adjust_interval(a.interval(0)?, a.int4(1)?).map(Datum::Interval)),
    ("float8_timestamptz", |_, a| unix_seconds(a.float8(0)?)),
];

/// A declaration's precision is in range; one from a direct call need not be.
fn precision(typmod: i32) -> Result<i32> {
    if !(-1..=6).contains(&typmod) {
        bail!(INVALID_PARAMETER_VALUE, "timestamp({typmod}) precision must be between 0 and 6");
    }
    Ok(typmod)
}

fn date_of(local_us: i64) -> i32 {
    match local_us {
        TIMESTAMP_INFINITY => DATE_INFINITY,
        TIMESTAMP_NEG_INFINITY => DATE_NEG_INFINITY,
        _ => local_us.div_euclid(US_PER_DAY) as i32,
    }
}

fn time_of(local_us: i64) -> Option<i64> {
    is_finite(local_us).then(|| local_us.rem_euclid(US_PER_DAY))
}

/// The zone's offset is that of the time on the current date.
fn time_to_timetz(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let time_us = args.time(0)?;
    let today = to_local(call.env, call.env.transaction_time()).div_euclid(US_PER_DAY) * US_PER_DAY;
    let seconds_east = offset_of_local(&call.env.format().time_zone, today + time_us);
    Ok(Datum::TimeTz(TimeTz { time_us, zone_seconds_west: -seconds_east }))
}

/// `to_timestamp(seconds since 1970)`
fn unix_seconds(seconds: f64) -> Result<Datum> {
    if seconds.is_nan() {
        bail!(DATETIME_FIELD_OVERFLOW, "timestamp cannot be NaN");
    }
    if seconds.is_infinite() {
        return Ok(Datum::TimestampTz(if seconds > 0.0 {
            TIMESTAMP_INFINITY
        } else {
            TIMESTAMP_NEG_INFINITY
        }));
    }
    let us = ((seconds - UNIX_TO_POSTGRES_SECONDS as f64) * 1e6).round_ties_even();
    let in_range = (-9.3e18..9.3e18).contains(&us).then_some(us as i64).and_then(in_timestamp_range);
    match in_range {
        Some(us) => Ok(Datum::TimestampTz(us)),
        None => {
            bail!(DATETIME_FIELD_OVERFLOW, "timestamp out of range: \"{}\"", crate::text::general(seconds))
        }
    }
}
