//! `timezone(...)`, which is what AT TIME ZONE calls.

use cairn_types::datetime::calendar::{US_PER_DAY, US_PER_SECOND, in_timestamp_range};
use cairn_types::datetime::format_interval;
use cairn_types::datetime::zone::{NamedZone, named_zone};
use cairn_types::{Datum, Env, FormatSettings, Interval, Result, TimeTz, bail};

use super::{is_finite, timestamp_out_of_range, to_local};
use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("timestamp_zone", |_, a| local_to_moment(a.timestamp(1)?, || named_zone(a.str(0)?))),
    ("timestamptz_zone", |_, a| moment_to_local(a.timestamptz(1)?, || named_zone(a.str(0)?))),
    ("timestamp_izone", |_, a| local_to_moment(a.timestamp(1)?, || interval_zone(a.interval(0)?))),
    ("timestamptz_izone", |_, a| moment_to_local(a.timestamptz(1)?, || interval_zone(a.interval(0)?))),
    ("timetz_zone", |call, a| Ok(moved(call.env, a.timetz(1)?, &named_zone(a.str(0)?)?))),
    ("timetz_izone", |call, a| Ok(moved(call.env, a.timetz(1)?, &interval_zone(a.interval(0)?)?))),
];

/// An interval as zone: its time is the offset east of UTC.
fn interval_zone(value: Interval) -> Result<NamedZone> {
    if value.months != 0 || value.days != 0 {
        let mut text = String::new();
        format_interval(value, &FormatSettings::default(), &mut text);
        bail!(INVALID_PARAMETER_VALUE, "interval time zone \"{text}\" must not include months or days");
    }
    let seconds_east = i32::try_from(value.time_us / US_PER_SECOND).map_err(|_| timestamp_out_of_range())?;
    Ok(NamedZone::Fixed { seconds_east })
}

/// The zone is looked up only where it matters: infinity is the same everywhere.
fn local_to_moment(local_us: i64, zone: impl FnOnce() -> Result<NamedZone>) -> Result<Datum> {
    if !is_finite(local_us) {
        return Ok(Datum::TimestampTz(local_us));
    }
    let offset_us = i64::from(zone()?.offset_of_local(local_us)) * US_PER_SECOND;
    in_timestamp_range(local_us - offset_us).map(Datum::TimestampTz).ok_or_else(timestamp_out_of_range)
}

fn moment_to_local(utc_us: i64, zone: impl FnOnce() -> Result<NamedZone>) -> Result<Datum> {
    if !is_finite(utc_us) {
        return Ok(Datum::Timestamp(utc_us));
    }
    let offset_us = i64::from(zone()?.offset_at(utc_us)) * US_PER_SECOND;
    in_timestamp_range(utc_us + offset_us).map(Datum::Timestamp).ok_or_else(timestamp_out_of_range)
}

/// The same moment of the day in another zone, whose offset is today's.
fn moved(env: &dyn Env, value: TimeTz, zone: &NamedZone) -> Datum {
    let now = env.transaction_time();
    let seconds_east = match zone {
        NamedZone::Full(_) => zone.offset_at(now),
        _ => zone.offset_of_local(to_local(env, now)),
    };
    let utc_us = value.time_us + i64::from(value.zone_seconds_west) * US_PER_SECOND;
    let time_us = (utc_us + i64::from(seconds_east) * US_PER_SECOND).rem_euclid(US_PER_DAY);
    Datum::TimeTz(TimeTz { time_us, zone_seconds_west: -seconds_east })
}
