//! date_trunc and date_bin.

use cairn_types::datetime::calendar::{
    Civil, US_PER_DAY, US_PER_HOUR, US_PER_MINUTE, US_PER_SECOND, civil_from_days, civil_from_timestamp,
    in_timestamp_range, iso_week, iso_year_start, timestamp_from_civil,
};
use cairn_types::datetime::zone::{NamedZone, named_zone};
use cairn_types::{Datum, Interval, Result, bail};

use super::part::{century, decade, millennium};
use super::unit::{Unit, not_recognized, not_supported};
use super::{is_finite, timestamp_out_of_range};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("timestamp_trunc", |_, a| {
        let (unit, timestamp_us) = (a.str(0)?, a.timestamp(1)?);
        let type_name = "timestamp without time zone";
        if !is_finite(timestamp_us) {
            return Ok(Datum::Timestamp(timestamp_us));
        }
        let parsed = Unit::parse_span(unit).ok_or_else(|| not_recognized(unit, type_name))?;
        match truncated(parsed, timestamp_us) {
            Some(us) => us.map(Datum::Timestamp),
            None => Err(not_supported(unit, type_name)),
        }
    }),
    ("timestamptz_trunc", |call, a| {
        let zone = NamedZone::Full(call.env.format().time_zone.clone());
        truncated_in_zone(a.str(0)?, a.timestamptz(1)?, &zone)
    }),
    ("timestamptz_trunc_zone", |_, a| {
        let timestamp_us = a.timestamptz(1)?;
        if !is_finite(timestamp_us) {
            return Ok(Datum::TimestampTz(timestamp_us));
        }
        truncated_in_zone(a.str(0)?, timestamp_us, &named_zone(a.str(2)?)?)
    }),
    ("interval_trunc", |_, a| truncated_interval(a.str(0)?, a.interval(1)?)),
    ("timestamp_bin", |_, a| binned(a.interval(0)?, a.timestamp(1)?, a.timestamp(2)?).map(Datum::Timestamp)),
    ("timestamptz_bin", timestamptz_bin),
];

fn timestamptz_bin(_: &Call<'_>, a: &[Datum]) -> Result<Datum> {
    binned(a.interval(0)?, a.timestamptz(1)?, a.timestamptz(2)?).map(Datum::TimestampTz)
}

/// The start of the unit in which a local time lies; `None` if the unit cannot be cut to.
fn truncated(unit: Unit, local_us: i64) -> Option<Result<i64>> {
    let down = |step: i64| Some(Ok(local_us - local_us.rem_euclid(step)));
    let civil = civil_from_timestamp(local_us);
    let (year, month, day) = match unit {
        Unit::Microseconds => return Some(Ok(local_us)),
        Unit::Milliseconds => return down(1000),
        Unit::Second => return down(US_PER_SECOND),
        Unit::Minute => return down(US_PER_MINUTE),
        Unit::Hour => return down(US_PER_HOUR),
        Unit::Day => return down(US_PER_DAY),
        Unit::Week => civil_from_days(iso_year_start_of(&civil)),
        Unit::Month => (civil.year, civil.month, 1),
        Unit::Quarter => (civil.year, (civil.month - 1) / 3 * 3 + 1, 1),
        Unit::Year => (civil.year, 1, 1),
        Unit::Decade => (if civil.year > 0 { civil.year / 10 * 10 } else { decade(civil.year) * 10 }, 1, 1),
        Unit::Century => (
            if civil.year > 0 { century(civil.year) * 100 - 99 } else { century(civil.year) * 100 + 1 },
            1,
            1,
        ),
        Unit::Millennium => {
            let count = millennium(civil.year) * 1000;
            (if civil.year > 0 { count - 999 } else { count + 1 }, 1, 1)
        }
        _ => return None,
    };
    let start = Civil { year, month, day, ..Civil::default() };
    Some(timestamp_from_civil(&start).ok_or_else(timestamp_out_of_range))
}

/// The Monday of the week in which a day lies.
fn iso_year_start_of(civil: &Civil) -> i64 {
    let (year, week) = iso_week(civil.year, civil.month, civil.day);
    iso_year_start(year) + 7 * i64::from(week - 1)
}

fn truncated_in_zone(name: &str, utc_us: i64, zone: &NamedZone) -> Result<Datum> {
    let type_name = "timestamp with time zone";
    if !is_finite(utc_us) {
        return Ok(Datum::TimestampTz(utc_us));
    }
    let unit = Unit::parse_span(name).ok_or_else(|| not_recognized(name, type_name))?;
    let offset_us = i64::from(zone.offset_at(utc_us)) * US_PER_SECOND;
    let local = truncated(unit, utc_us + offset_us).ok_or_else(|| not_supported(name, type_name))??;
    // Below a day the offset stays what it was: two equal clock readings of a night in autumn stay apart.
    let keeps_offset =
        matches!(unit, Unit::Microseconds | Unit::Milliseconds | Unit::Second | Unit::Minute | Unit::Hour);
    let offset_us =
        if keeps_offset { offset_us } else { i64::from(zone.offset_of_local(local)) * US_PER_SECOND };
    in_timestamp_range(local - offset_us).map(Datum::TimestampTz).ok_or_else(timestamp_out_of_range)
}

fn truncated_interval(name: &str, value: Interval) -> Result<Datum> {
    let unit = Unit::parse_span(name).ok_or_else(|| not_recognized(name, "interval"))?;
    let months = |step: i32| Interval { months: value.months / step * step, days: 0, time_us: 0 };
    let time = |step: i64| Interval { time_us: value.time_us / step * step, ..value };
    Ok(Datum::Interval(match unit {
        Unit::Millennium => months(12_000),
        Unit::Century => months(1200),
        Unit::Decade => months(120),
        Unit::Year => months(12),
        Unit::Quarter => months(3),
        Unit::Month => months(1),
        Unit::Day => Interval { time_us: 0, ..value },
        Unit::Hour => time(US_PER_HOUR),
        Unit::Minute => time(US_PER_MINUTE),
        Unit::Second => time(US_PER_SECOND),
        Unit::Milliseconds => time(1000),
        Unit::Microseconds => value,
        Unit::Week => {
            return Err(not_supported(name, "interval").detail("Months usually have fractional weeks."));
        }
        _ => return Err(not_supported(name, "interval")),
    }))
}

/// The start of the bin of width `stride`, counted from `origin`, in which a timestamp lies.
fn binned(stride: Interval, source_us: i64, origin_us: i64) -> Result<i64> {
    if !is_finite(source_us) {
        return Ok(source_us);
    }
    if !is_finite(origin_us) {
        bail!(DATETIME_FIELD_OVERFLOW, "origin out of range");
    }
    if stride.months != 0 {
        bail!(FEATURE_NOT_SUPPORTED, "timestamps cannot be binned into intervals containing months or years");
    }
    let out = super::interval_out_of_range;
    let days_us = i64::from(stride.days).checked_mul(US_PER_DAY).ok_or_else(out)?;
    let stride_us = days_us.checked_add(stride.time_us).ok_or_else(out)?;
    if stride_us <= 0 {
        bail!(DATETIME_FIELD_OVERFLOW, "stride must be greater than zero");
    }
    let distance = source_us.checked_sub(origin_us).ok_or_else(out)?;
    let start = distance.checked_sub(distance.rem_euclid(stride_us)).ok_or_else(timestamp_out_of_range)?;
    origin_us.checked_add(start).and_then(in_timestamp_range).ok_or_else(timestamp_out_of_range)
}
