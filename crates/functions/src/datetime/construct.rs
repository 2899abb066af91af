//! make_date, make_time, make_timestamp(tz), make_interval.

use cairn_types::datetime::calendar::{
    Civil, US_PER_SECOND, days_from_civil, days_in_month, in_date_range, in_timestamp_range, is_valid_julian,
    join_time,
};
use cairn_types::datetime::zone::{NamedZone, abbreviation, zone_by_name};
use cairn_types::{Datum, Interval, Result, bail, err};

use super::{interval_out_of_range, timestamp_out_of_range, to_utc};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("make_date", |_, a| date(a.int4(0)?, a.int4(1)?, a.int4(2)?).map(Datum::Date)),
    ("make_time", |_, a| time(a.int4(0)?, a.int4(1)?, a.float8(2)?).map(Datum::Time)),
    ("make_timestamp", |_, a| timestamp(a).map(Datum::Timestamp)),
    ("make_timestamptz", |call, a| to_utc(call.env, timestamp(a)?).map(Datum::TimestampTz)),
    ("make_timestamptz_at_timezone", |_, a| {
        let local_us = timestamp(a)?;
        let offset = zone_offset(a.str(6)?, local_us)?;
        in_timestamp_range(local_us - i64::from(offset) * US_PER_SECOND)
            .map(Datum::TimestampTz)
            .ok_or_else(timestamp_out_of_range)
    }),
    ("make_interval", make_interval),
];

/// A negative year is BC; there is no year 0.
fn date(year: i32, month: i32, day: i32) -> Result<i32> {
    // PostgreSQL's message has the astronomical year too.
    let astronomical = if year < 0 && year != i32::MIN { year + 1 } else { year };
    let bad =
        || err!(DATETIME_FIELD_OVERFLOW, "date field value out of range: {astronomical}-{month:02}-{day:02}");
    if year == 0 || year == i32::MIN {
        return Err(bad());
    }
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(astronomical, month) {
        return Err(bad());
    }
    let days = is_valid_julian(astronomical, month).then(|| days_from_civil(astronomical, month, day));
    days.and_then(in_date_range)
        .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "date out of range: {year}-{month:02}-{day:02}"))
}

fn time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let whole = second.trunc();
    let us = ((second - whole) * 1e6).round_ties_even();
    let in_range = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0).contains(&second)
        && (hour < 24 || (minute == 0 && second == 0.0));
    if !in_range {
        bail!(
            DATETIME_FIELD_OVERFLOW,
            "time field value out of range: {hour}:{minute:02}:{}",
            padded_general(second)
        );
    }
    Ok(join_time(hour, minute, whole as i32, us as i32))
}

/// As C's `%02g`.
fn padded_general(value: f64) -> String {
    let text = crate::text::general(value);
    if text.len() < 2 { format!("0{text}") } else { text }
}

fn timestamp(a: &[Datum]) -> Result<i64> {
    let (year, month, day) = (a.int4(0)?, a.int4(1)?, a.int4(2)?);
    let (hour, minute, second) = (a.int4(3)?, a.int4(4)?, a.float8(5)?);
    let astronomical = if year < 0 { year.saturating_add(1) } else { year };
    if matches!(year, 0 | i32::MIN)
        || !(1..=12).contains(&month)
        || day < 1
        || day > days_in_month(astronomical, month)
    {
        bail!(DATETIME_FIELD_OVERFLOW, "date field value out of range: {year}-{month:02}-{day:02}");
    }
    if !is_valid_julian(astronomical, month) {
        bail!(DATETIME_FIELD_OVERFLOW, "date out of range: {year}-{month:02}-{day:02}");
    }
    let time_us = time(hour, minute, second)?;
    let civil = Civil { year: astronomical, month, day, ..Civil::default() };
    let midnight = is_valid_julian(civil.year, civil.month)
        .then(|| days_from_civil(civil.year, civil.month, civil.day))
        .and_then(|days| days.checked_mul(86_400 * US_PER_SECOND));
    midnight.and_then(|us| us.checked_add(time_us)).and_then(in_timestamp_range).ok_or_else(|| {
        err!(
            DATETIME_FIELD_OVERFLOW,
            "timestamp out of range: {year}-{month:02}-{day:02} {hour}:{minute:02}:{}",
            padded_general(second)
        )
    })
}

/// Seconds east of UTC. Unlike AT TIME ZONE, a number is read as ISO reads it (east is positive) and needs a sign.
fn zone_offset(zone: &str, local_us: i64) -> Result<i32> {
    if zone.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "invalid input syntax for type numeric time zone: \"{zone}\""
        )
        .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    if zone.starts_with(['-', '+']) {
        return signed_offset(zone);
    }
    let named = abbreviation(zone).or_else(|| zone_by_name(zone).map(NamedZone::Full));
    match named {
        Some(named) => Ok(named.offset_of_local(local_us)),
        None => bail!(INVALID_PARAMETER_VALUE, "time zone \"{zone}\" not recognized"),
    }
}

fn signed_offset(zone: &str) -> Result<i32> {
    let bad = || err!(INVALID_PARAMETER_VALUE, "invalid input syntax for type numeric time zone: \"{zone}\"");
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let mut numbers = Vec::new();
    for digits in zone[1..].split(':') {
        numbers.push(digits.parse::<u32>().map_err(|_| bad())? as i32);
    }
    let (hour, minute, second) = match numbers.as_slice() {
        [packed] if zone.len() > 3 => (packed / 100, packed % 100, 0),
        [hour] => (*hour, 0, 0),
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return Err(bad()),
    };
    if hour > 15 || minute >= 60 || second >= 60 {
        bail!(INVALID_PARAMETER_VALUE, "numeric time zone \"{zone}\" out of range");
    }
    Ok(sign * (hour * 3600 + minute * 60 + second))
}

fn make_interval(_: &Call<'_>, a: &[Datum]) -> Result<Datum> {
    let (years, months, weeks, days) = (a.int4(0)?, a.int4(1)?, a.int4(2)?, a.int4(3)?);
    let (hours, minutes, seconds) = (a.int4(4)?, a.int4(5)?, a.float8(6)?);
    if !seconds.is_finite() {
        return Err(interval_out_of_range());
    }
    let build = || {
        let months = years.checked_mul(12)?.checked_add(months)?;
        let days = weeks.checked_mul(7)?.checked_add(days)?;
        let seconds_us = (seconds * 1e6).round_ties_even();
        if !(-9.223_372_036_854_775e18..9.223_372_036_854_775e18).contains(&seconds_us) {
            return None;
        }
        let time_us = (i64::from(hours) * 3600 + i64::from(minutes) * 60).checked_mul(US_PER_SECOND)?;
        Some(Interval { months, days, time_us: time_us.checked_add(seconds_us as i64)? })
    };
    build().map(Datum::Interval).ok_or_else(interval_out_of_range)
}
