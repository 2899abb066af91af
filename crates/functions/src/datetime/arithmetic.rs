//! `+`, `-`, `*`, `/`, age, justify_*, overlaps.

use cairn_types::datetime::calendar::{
    Civil, DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, US_PER_DAY,
    US_PER_SECOND, civil_from_timestamp, days_in_month, in_date_range, in_timestamp_range, join_time,
    timestamp_from_civil,
};
use cairn_types::{Datum, Env, Interval, Result, TimeTz, bail, err};

use super::{date_out_of_range, interval_out_of_range, is_finite, timestamp_out_of_range, to_local, to_utc};
use crate::compare::timetz_order;
use crate::integer::division_by_zero;
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("date_pli", |_, a| date_plus_days(a.date(0)?, a.int4(1)?.into())),
    ("date_mii", |_, a| date_plus_days(a.date(0)?, -i64::from(a.int4(1)?))),
    ("date_mi", |_, a| {
        let (left, right) = (a.date(0)?, a.date(1)?);
        if !date_is_finite(left) || !date_is_finite(right) {
            bail!(DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates");
        }
        Ok(Datum::Int4(left - right))
    }),
    ("date_pl_interval", |_, a| {
        timestamp_plus(date_to_timestamp(a.date(0)?)?, a.interval(1)?).map(Datum::Timestamp)
    }),
    ("date_mi_interval", |_, a| {
        timestamp_plus(date_to_timestamp(a.date(0)?)?, negate(a.interval(1)?)?).map(Datum::Timestamp)
    }),
    ("timestamp_pl_interval", |_, a| timestamp_plus(a.timestamp(0)?, a.interval(1)?).map(Datum::Timestamp)),
    ("timestamp_mi_interval", |_, a| {
        timestamp_plus(a.timestamp(0)?, negate(a.interval(1)?)?).map(Datum::Timestamp)
    }),
    ("timestamptz_pl_interval", |call, a| {
        timestamptz_plus(call.env, a.timestamptz(0)?, a.interval(1)?).map(Datum::TimestampTz)
    }),
    ("timestamptz_mi_interval", |call, a| {
        timestamptz_plus(call.env, a.timestamptz(0)?, negate(a.interval(1)?)?).map(Datum::TimestampTz)
    }),
    ("timestamp_mi", timestamp_difference),
    ("time_pl_interval", |_, a| Ok(Datum::Time(time_plus(a.time(0)?, a.interval(1)?.time_us)))),
    ("time_mi_interval", |_, a| {
        Ok(Datum::Time(time_plus(a.time(0)?, -(a.interval(1)?.time_us % US_PER_DAY))))
    }),
    ("timetz_pl_interval", |_, a| {
        let value = a.timetz(0)?;
        Ok(Datum::TimeTz(TimeTz { time_us: time_plus(value.time_us, a.interval(1)?.time_us), ..value }))
    }),
    ("timetz_mi_interval", |_, a| {
        let value = a.timetz(0)?;
        let back_us = -(a.interval(1)?.time_us % US_PER_DAY);
        Ok(Datum::TimeTz(TimeTz { time_us: time_plus(value.time_us, back_us), ..value }))
    }),
    ("time_mi_time", |_, a| {
        Ok(Datum::Interval(Interval { time_us: a.time(0)? - a.time(1)?, ..Interval::default() }))
    }),
    ("interval_um", |_, a| negate(a.interval(0)?).map(Datum::Interval)),
    ("interval_pl", |_, a| interval_sum(a.interval(0)?, a.interval(1)?).map(Datum::Interval)),
    ("interval_mi", |_, a| {
        let (left, right) = (a.interval(0)?, a.interval(1)?);
        let difference = || {
            Some(Interval {
                months: left.months.checked_sub(right.months)?,
                days: left.days.checked_sub(right.days)?,
                time_us: left.time_us.checked_sub(right.time_us)?,
            })
        };
        difference().map(Datum::Interval).ok_or_else(interval_out_of_range)
    }),
    ("interval_mul", |_, a| interval_product(a.interval(0)?, a.float8(1)?).map(Datum::Interval)),
    ("mul_d_interval", |_, a| interval_product(a.interval(1)?, a.float8(0)?).map(Datum::Interval)),
    ("interval_div", |_, a| interval_quotient(a.interval(0)?, a.float8(1)?).map(Datum::Interval)),
    ("timestamp_age", |_, a| age(a.timestamp(0)?, a.timestamp(1)?)),
    ("timestamptz_age", |call, a| {
        age(to_local(call.env, a.timestamptz(0)?), to_local(call.env, a.timestamptz(1)?))
    }),
    ("interval_justify_hours", |_, a| justify_hours(a.interval(0)?).map(Datum::Interval)),
    ("interval_justify_days", |_, a| justify_days(a.interval(0)?).map(Datum::Interval)),
    ("interval_justify_interval", |_, a| justify_interval(a.interval(0)?).map(Datum::Interval)),
    ("date_finite", |_, a| Ok(Datum::Bool(date_is_finite(a.date(0)?)))),
    ("timestamp_finite", |_, a| match a.any(0) {
        Datum::TimestampTz(value) => Ok(Datum::Bool(is_finite(*value))),
        _ => Ok(Datum::Bool(is_finite(a.timestamp(0)?))),
    }),
    ("interval_finite", |_, _| Ok(Datum::Bool(true))),
    ("overlaps_time", |_, a| overlaps(a, |x: i64, y| x.cmp(&y), |a, i| a.time(i))),
    ("overlaps_timetz", |_, a| overlaps(a, timetz_order, |a, i| a.timetz(i))),
    ("overlaps_timestamp", |_, a| {
        overlaps(
            a,
            |x: i64, y| x.cmp(&y),
            |a, i| match a.any(i) {
                Datum::TimestampTz(value) => Ok(*value),
                _ => a.timestamp(i),
            },
        )
    }),
];

pub fn date_is_finite(days: i32) -> bool {
    !matches!(days, DATE_INFINITY | DATE_NEG_INFINITY)
}

fn date_plus_days(days: i32, more: i64) -> Result<Datum> {
    if !date_is_finite(days) {
        return Ok(Datum::Date(days));
    }
    in_date_range(i64::from(days) + more).map(Datum::Date).ok_or_else(date_out_of_range)
}

/// Midnight of a date. Errors: 22008 for dates beyond the timestamps.
pub fn date_to_timestamp(days: i32) -> Result<i64> {
    match days {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_NEG_INFINITY => Ok(TIMESTAMP_NEG_INFINITY),
        _ => i64::from(days)
            .checked_mul(US_PER_DAY)
            .and_then(in_timestamp_range)
            .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")),
    }
}

pub fn negate(value: Interval) -> Result<Interval> {
    let negated = || {
        Some(Interval {
            months: value.months.checked_neg()?,
            days: value.days.checked_neg()?,
            time_us: value.time_us.checked_neg()?,
        })
    };
    negated().ok_or_else(interval_out_of_range)
}

pub fn interval_sum(left: Interval, right: Interval) -> Result<Interval> {
    let sum = || {
        Some(Interval {
            months: left.months.checked_add(right.months)?,
            days: left.days.checked_add(right.days)?,
            time_us: left.time_us.checked_add(right.time_us)?,
        })
    };
    sum().ok_or_else(interval_out_of_range)
}

/// Adds months (the day moves back to the month's last if need be), then days; the clock stays.
fn plus_calendar(local_us: i64, months: i32, days: i32) -> Option<i64> {
    let mut local_us = local_us;
    if months != 0 {
        let civil = civil_from_timestamp(local_us);
        let month = i64::from(civil.month) - 1 + i64::from(months);
        let year = i32::try_from(i64::from(civil.year) + month.div_euclid(12)).ok()?;
        let month = month.rem_euclid(12) as i32 + 1;
        let day = civil.day.min(days_in_month(year, month));
        local_us = timestamp_from_civil(&Civil { year, month, day, ..civil })?;
    }
    if days != 0 {
        local_us = in_timestamp_range(local_us.checked_add(i64::from(days).checked_mul(US_PER_DAY)?)?)?;
    }
    Some(local_us)
}

/// `timestamp + interval`: months, then days, then time.
pub fn timestamp_plus(timestamp_us: i64, span: Interval) -> Result<i64> {
    if !is_finite(timestamp_us) {
        return Ok(timestamp_us);
    }
    plus_calendar(timestamp_us, span.months, span.days)
        .and_then(|moved| moved.checked_add(span.time_us))
        .and_then(in_timestamp_range)
        .ok_or_else(timestamp_out_of_range)
}

/// `timestamptz + interval`: months and days on the session's calendar, so that a day may have 23 hours.
pub fn timestamptz_plus(env: &dyn Env, utc_us: i64, span: Interval) -> Result<i64> {
    if !is_finite(utc_us) {
        return Ok(utc_us);
    }
    let mut moved = utc_us;
    if span.months != 0 {
        let local = plus_calendar(to_local(env, moved), span.months, 0).ok_or_else(timestamp_out_of_range)?;
        moved = to_utc(env, local)?;
    }
    if span.days != 0 {
        let local = plus_calendar(to_local(env, moved), 0, span.days).ok_or_else(timestamp_out_of_range)?;
        moved = to_utc(env, local)?;
    }
    moved.checked_add(span.time_us).and_then(in_timestamp_range).ok_or_else(timestamp_out_of_range)
}

/// `timestamp - timestamp` of either kind: days and time.
fn timestamp_difference(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let us = |i: usize| match args.any(i) {
        Datum::TimestampTz(value) => Ok(*value),
        _ => args.timestamp(i),
    };
    let (left, right) = (us(0)?, us(1)?);
    if !is_finite(left) || !is_finite(right) {
        bail!(DATETIME_FIELD_OVERFLOW, "cannot subtract infinite timestamps");
    }
    let time_us = left.checked_sub(right).ok_or_else(interval_out_of_range)?;
    justify_hours(Interval { time_us, ..Interval::default() }).map(Datum::Interval)
}

/// A time of day moved by a span, around midnight.
fn time_plus(time_us: i64, span_us: i64) -> i64 {
    (time_us + span_us % US_PER_DAY).rem_euclid(US_PER_DAY)
}

/// Rounds to microseconds, which hides the noise of the multiplication.
fn round_us(seconds: f64) -> f64 {
    (seconds * 1e6).round_ties_even() / 1e6
}

fn as_i32(value: f64) -> Result<i32> {
    if value.is_nan() || !(-2_147_483_648.0..2_147_483_648.0).contains(&value) {
        return Err(interval_out_of_range());
    }
    Ok(value as i32)
}

/// Applies a factor to each field; what is left of a month goes to the days (30 of them), what is left of a
/// day to the time.
fn scaled(value: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    const SECONDS_PER_DAY: f64 = 86_400.0;
    let months_exact = scale(f64::from(value.months));
    let days_exact = scale(f64::from(value.days));
    let months = as_i32(months_exact)?;
    let mut days = as_i32(days_exact)?;
    let month_rest_days = round_us((months_exact - f64::from(months)) * 30.0);
    let whole_rest_days = month_rest_days as i32;
    let mut rest_seconds = round_us(
        (days_exact - f64::from(days) + month_rest_days - f64::from(whole_rest_days)) * SECONDS_PER_DAY,
    );
    if rest_seconds.abs() >= SECONDS_PER_DAY {
        let more = as_i32(rest_seconds / SECONDS_PER_DAY)?;
        days = days.checked_add(more).ok_or_else(interval_out_of_range)?;
        rest_seconds -= f64::from(more) * SECONDS_PER_DAY;
    }
    let days = days.checked_add(whole_rest_days).ok_or_else(interval_out_of_range)?;
    let time = (scale(value.time_us as f64) + rest_seconds * US_PER_SECOND as f64).round_ties_even();
    if time.is_nan() || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&time) {
        return Err(interval_out_of_range());
    }
    Ok(Interval { months, days, time_us: time as i64 })
}

pub fn interval_product(value: Interval, factor: f64) -> Result<Interval> {
    scaled(value, |x| x * factor)
}

pub fn interval_quotient(value: Interval, divisor: f64) -> Result<Interval> {
    if divisor == 0.0 {
        return Err(division_by_zero());
    }
    scaled(value, |x| x / divisor)
}

/// The difference in calendar years, months and days, as a person would count it.
fn age(later_us: i64, earlier_us: i64) -> Result<Datum> {
    if !is_finite(later_us) || !is_finite(earlier_us) {
        bail!(DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    }
    let negative = later_us < earlier_us;
    let (later, earlier) = (civil_from_timestamp(later_us), civil_from_timestamp(earlier_us));
    let clock = |civil: &Civil| join_time(civil.hour, civil.minute, civil.second, civil.us);
    let sign = if negative { -1 } else { 1 };
    let mut years = sign * (later.year - earlier.year);
    let mut months = sign * (later.month - earlier.month);
    let mut days = sign * (later.day - earlier.day);
    let mut time_us = i64::from(sign) * (clock(&later) - clock(&earlier));
    while time_us < 0 {
        time_us += US_PER_DAY;
        days -= 1;
    }
    // Days are borrowed from the month in which the span begins.
    let borrowed = if negative { &later } else { &earlier };
    while days < 0 {
        days += days_in_month(borrowed.year, borrowed.month);
        months -= 1;
    }
    while months < 0 {
        months += 12;
        years -= 1;
    }
    Ok(Datum::Interval(Interval {
        months: sign * (years * 12 + months),
        days: sign * days,
        time_us: i64::from(sign) * time_us,
    }))
}

/// Full days of the time go to the days; both end with one sign.
fn justify_hours(value: Interval) -> Result<Interval> {
    let whole = i32::try_from(value.time_us / US_PER_DAY).map_err(|_| interval_out_of_range())?;
    let mut days = value.days.checked_add(whole).ok_or_else(interval_out_of_range)?;
    let mut time_us = value.time_us % US_PER_DAY;
    if days > 0 && time_us < 0 {
        time_us += US_PER_DAY;
        days -= 1;
    } else if days < 0 && time_us > 0 {
        time_us -= US_PER_DAY;
        days += 1;
    }
    Ok(Interval { days, time_us, ..value })
}

/// Each 30 days go to the months; both end with one sign.
fn justify_days(value: Interval) -> Result<Interval> {
    let mut months = value.months.checked_add(value.days / 30).ok_or_else(interval_out_of_range)?;
    let mut days = value.days % 30;
    if months > 0 && days < 0 {
        days += 30;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= 30;
        months += 1;
    }
    Ok(Interval { months, days, ..value })
}

fn justify_interval(value: Interval) -> Result<Interval> {
    let mut value = value;
    // Days of the sign of the time first go to the months, which leaves them room.
    if (value.days > 0 && value.time_us > 0) || (value.days < 0 && value.time_us < 0) {
        value.months = value.months.checked_add(value.days / 30).ok_or_else(interval_out_of_range)?;
        value.days %= 30;
    }
    let whole = i32::try_from(value.time_us / US_PER_DAY).map_err(|_| interval_out_of_range())?;
    value.days = value.days.checked_add(whole).ok_or_else(interval_out_of_range)?;
    value.time_us %= US_PER_DAY;
    value.months = value.months.checked_add(value.days / 30).ok_or_else(interval_out_of_range)?;
    value.days %= 30;
    if value.months > 0 && (value.days < 0 || (value.days == 0 && value.time_us < 0)) {
        value.days += 30;
        value.months -= 1;
    } else if value.months < 0 && (value.days > 0 || (value.days == 0 && value.time_us > 0)) {
        value.days -= 30;
        value.months += 1;
    }
    if value.days > 0 && value.time_us < 0 {
        value.time_us += US_PER_DAY;
        value.days -= 1;
    } else if value.days < 0 && value.time_us > 0 {
        value.time_us -= US_PER_DAY;
        value.days += 1;
    }
    Ok(value)
}

/// `(s1, e1) overlaps (s2, e2)`: half-open spans, an end may be null (manual, section 9.9).
fn overlaps<T: Copy>(
    args: &[Datum],
    compare: impl Fn(T, T) -> std::cmp::Ordering,
    get: impl Fn(&[Datum], usize) -> Result<T>,
) -> Result<Datum> {
    use std::cmp::Ordering::{Greater, Less};
    let optional = |i: usize| if args.is_null(i) { Ok(None) } else { get(args, i).map(Some) };
    // Each span in order; a null end stays second, and a span of two nulls has no answer.
    let span = |start: Option<T>, end: Option<T>| match (start, end) {
        (None, None) => None,
        (None, Some(end)) => Some((end, None)),
        (Some(start), None) => Some((start, None)),
        (Some(start), Some(end)) if compare(start, end) == Greater => Some((end, Some(start))),
        (Some(start), Some(end)) => Some((start, Some(end))),
    };
    let (Some(first), Some(second)) = (span(optional(0)?, optional(1)?), span(optional(2)?, optional(3)?))
    else {
        return Ok(Datum::Null);
    };
    let (early, late) = match compare(first.0, second.0) {
        Greater => (second, first),
        Less => (first, second),
        // They share their start: only nulls leave doubt.
        _ => {
            let known = first.1.is_some() && second.1.is_some();
            return Ok(if known { Datum::Bool(true) } else { Datum::Null });
        }
    };
    Ok(match early.1 {
        None => Datum::Null,
        Some(end) if compare(late.0, end) == Less => Datum::Bool(true),
        // The other begins after this one's end; whether that is before its own end, a null leaves open.
        Some(_) if late.1.is_none() => Datum::Null,
        Some(_) => Datum::Bool(false),
    })
}
