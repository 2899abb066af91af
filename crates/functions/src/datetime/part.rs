//! extract (numeric results) and date_part (double precision results) of every type.

use std::sync::Arc;

use cairn_types::datetime::calendar::{
    Civil, DATE_INFINITY, DATE_NEG_INFINITY, POSTGRES_EPOCH_JULIAN, TIMESTAMP_INFINITY,
    UNIX_TO_POSTGRES_SECONDS, US_PER_DAY, US_PER_SECOND, civil_from_timestamp, day_of_week, day_of_year,
    days_from_civil, iso_week, join_time, split_time,
};
use cairn_types::datetime::zone::offset_at;
use cairn_types::{Datum, Interval, Numeric, Result};

use super::is_finite;
use super::unit::{Unit, not_recognized, not_supported};
use crate::{Args, Call, ScalarFn};

/// A field's value before it takes its SQL type.
enum Part {
    Whole(i64),
    /// Microseconds, shown as seconds.
    Seconds(i64),
    /// Microseconds, shown as milliseconds.
    Milliseconds(i64),
    /// Microseconds since 1970, shown as seconds.
    Epoch(i128),
    /// Julian day and microseconds of that day.
    Julian(i64, i64),
    /// The field of an infinite value that grows without bound.
    Infinite {
        positive: bool,
    },
    Null,
}

fn numeric(part: Part) -> Result<Datum> {
    let number = |value: Numeric| Ok(Datum::Numeric(Arc::new(value)));
    match part {
        Part::Whole(value) => number(Numeric::from(value)),
        Part::Seconds(us) => number(Numeric::new(us.into(), 6)),
        Part::Milliseconds(us) => number(Numeric::new(us.into(), 3)),
        Part::Epoch(us) => number(Numeric::new(us, 6)),
        Part::Julian(day, us) => {
            let fraction = Numeric::from(us).div(&Numeric::from(US_PER_DAY))?;
            number(Numeric::from(day).add(&fraction)?)
        }
        Part::Infinite { positive } => {
            number(if positive { Numeric::INFINITY } else { Numeric::NEG_INFINITY })
        }
        Part::Null => Ok(Datum::Null),
    }
}

fn float(part: Part) -> Result<Datum> {
    Ok(Datum::Float8(match part {
        Part::Whole(value) => value as f64,
        Part::Seconds(us) => (us / US_PER_SECOND) as f64 + (us % US_PER_SECOND) as f64 / 1e6,
        Part::Milliseconds(us) => (us / US_PER_SECOND) as f64 * 1000.0 + (us % US_PER_SECOND) as f64 / 1000.0,
        Part::Epoch(us) => us as f64 / 1e6,
        Part::Julian(day, us) => {
            let seconds = (us / US_PER_SECOND) as f64 + (us % US_PER_SECOND) as f64 / 1e6;
            day as f64 + seconds / 86_400.0
        }
        Part::Infinite { positive: true } => f64::INFINITY,
        Part::Infinite { positive: false } => f64::NEG_INFINITY,
        Part::Null => return Ok(Datum::Null),
    }))
}

const TIMESTAMP: &str = "timestamp without time zone";
const TIMESTAMPTZ: &str = "timestamp with time zone";
const TIME: &str = "time without time zone";
const TIMETZ: &str = "time with time zone";

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("timestamp_part", |_, a| float(of_timestamp(a.str(0)?, a.timestamp(1)?, None)?)),
    ("extract_timestamp", |_, a| numeric(of_timestamp(a.str(0)?, a.timestamp(1)?, None)?)),
    ("timestamptz_part", |call, a| float(of_timestamptz(call, a)?)),
    ("extract_timestamptz", |call, a| numeric(of_timestamptz(call, a)?)),
    ("extract_date", |_, a| numeric(of_date(a.str(0)?, a.date(1)?)?)),
    ("time_part", |_, a| float(of_time(a.str(0)?, a.time(1)?, None)?)),
    ("extract_time", |_, a| numeric(of_time(a.str(0)?, a.time(1)?, None)?)),
    ("timetz_part", |_, a| {
        let value = a.timetz(1)?;
        float(of_time(a.str(0)?, value.time_us, Some(value.zone_seconds_west))?)
    }),
    ("extract_timetz", |_, a| {
        let value = a.timetz(1)?;
        numeric(of_time(a.str(0)?, value.time_us, Some(value.zone_seconds_west))?)
    }),
    ("interval_part", |_, a| float(of_interval(a.str(0)?, a.interval(1)?)?)),
    ("extract_interval", |_, a| numeric(of_interval(a.str(0)?, a.interval(1)?)?)),
];

fn of_timestamptz(call: &Call<'_>, args: &[Datum]) -> Result<Part> {
    let utc_us = args.timestamptz(1)?;
    let zone = &call.env.format().time_zone;
    let seconds_east = if is_finite(utc_us) { offset_at(zone, utc_us) } else { 0 };
    of_timestamp(args.str(0)?, utc_us, Some(seconds_east))
}

/// What an infinite value has of a field: fields that grow without bound are infinite, the others null.
fn of_infinity(unit: Unit, positive: bool) -> Part {
    match unit {
        Unit::Year
        | Unit::Decade
        | Unit::Century
        | Unit::Millennium
        | Unit::Julian
        | Unit::IsoYear
        | Unit::Epoch => Part::Infinite { positive },
        _ => Part::Null,
    }
}

/// `zone`: seconds east, for a timestamptz; the value is then in UTC.
fn of_timestamp(name: &str, value_us: i64, zone: Option<i32>) -> Result<Part> {
    let type_name = if zone.is_some() { TIMESTAMPTZ } else { TIMESTAMP };
    let unit = Unit::parse(name).ok_or_else(|| not_recognized(name, type_name))?;
    if !is_finite(value_us) {
        return Ok(of_infinity(unit, value_us == TIMESTAMP_INFINITY));
    }
    let zone_unit = matches!(unit, Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute);
    if zone_unit && zone.is_none() {
        return Err(not_supported(name, type_name));
    }
    let seconds_east = zone.unwrap_or(0);
    let local_us = value_us + i64::from(seconds_east) * US_PER_SECOND;
    let civil = civil_from_timestamp(local_us);
    let clock_us = local_us.rem_euclid(US_PER_DAY);
    Ok(match unit {
        Unit::Epoch => Part::Epoch(
            i128::from(value_us) + i128::from(UNIX_TO_POSTGRES_SECONDS) * i128::from(US_PER_SECOND),
        ),
        Unit::Julian => {
            let day = days_from_civil(civil.year, civil.month, civil.day) + i64::from(POSTGRES_EPOCH_JULIAN);
            Part::Julian(day, clock_us)
        }
        Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute => zone_part(unit, seconds_east),
        _ => match clock_part(unit, clock_us) {
            Some(part) => part,
            None => calendar_part(unit, &civil).ok_or_else(|| not_supported(name, type_name))?,
        },
    })
}

fn zone_part(unit: Unit, seconds_east: i32) -> Part {
    Part::Whole(match unit {
        Unit::Timezone => seconds_east.into(),
        Unit::TimezoneHour => (seconds_east / 3600).into(),
        _ => (seconds_east / 60 % 60).into(),
    })
}

fn clock_part(unit: Unit, clock_us: i64) -> Option<Part> {
    let (hour, minute, second, us) = split_time(clock_us);
    let seconds_us = i64::from(second) * US_PER_SECOND + i64::from(us);
    Some(match unit {
        Unit::Microseconds => Part::Whole(seconds_us),
        Unit::Milliseconds => Part::Milliseconds(seconds_us),
        Unit::Second => Part::Seconds(seconds_us),
        Unit::Minute => Part::Whole(minute.into()),
        Unit::Hour => Part::Whole(hour.into()),
        _ => return None,
    })
}

/// Centuries and millennia count from 1, and there is no year 0.
pub fn century(year: i32) -> i32 {
    if year > 0 { (year + 99) / 100 } else { -((99 - (year - 1)) / 100) }
}

pub fn millennium(year: i32) -> i32 {
    if year > 0 { (year + 999) / 1000 } else { -((999 - (year - 1)) / 1000) }
}

pub fn decade(year: i32) -> i32 {
    if year >= 0 { year / 10 } else { -((8 - (year - 1)) / 10) }
}

fn calendar_part(unit: Unit, civil: &Civil) -> Option<Part> {
    let Civil { year, month, day, .. } = *civil;
    let no_year_zero = |year: i32| if year > 0 { year } else { year - 1 };
    let weekday = || day_of_week(days_from_civil(year, month, day));
    Some(Part::Whole(i64::from(match unit {
        Unit::Day => day,
        Unit::Month => month,
        Unit::Quarter => (month - 1) / 3 + 1,
        Unit::Week => iso_week(year, month, day).1,
        Unit::Year => no_year_zero(year),
        Unit::Decade => decade(year),
        Unit::Century => century(year),
        Unit::Millennium => millennium(year),
        Unit::IsoYear => no_year_zero(iso_week(year, month, day).0),
        Unit::Dow => weekday(),
        Unit::IsoDow => (weekday() + 6) % 7 + 1,
        Unit::Doy => day_of_year(year, month, day),
        _ => return None,
    })))
}

fn of_date(name: &str, days: i32) -> Result<Part> {
    let unit = Unit::parse(name).ok_or_else(|| not_recognized(name, "date"))?;
    let clock_unit = matches!(
        unit,
        Unit::Microseconds
            | Unit::Milliseconds
            | Unit::Second
            | Unit::Minute
            | Unit::Hour
            | Unit::Timezone
            | Unit::TimezoneHour
            | Unit::TimezoneMinute
    );
    if clock_unit {
        return Err(not_supported(name, "date"));
    }
    if matches!(days, DATE_INFINITY | DATE_NEG_INFINITY) {
        return Ok(of_infinity(unit, days == DATE_INFINITY));
    }
    let days = i64::from(days);
    match unit {
        Unit::Epoch => Ok(Part::Whole(days * 86_400 + UNIX_TO_POSTGRES_SECONDS)),
        Unit::Julian => Ok(Part::Whole(days + i64::from(POSTGRES_EPOCH_JULIAN))),
        _ => {
            let (year, month, day) = cairn_types::datetime::calendar::civil_from_days(days);
            let civil = Civil { year, month, day, ..Civil::default() };
            calendar_part(unit, &civil).ok_or_else(|| not_supported(name, "date"))
        }
    }
}

/// `zone`: seconds west, for a timetz.
fn of_time(name: &str, time_us: i64, zone: Option<i32>) -> Result<Part> {
    let type_name = if zone.is_some() { TIMETZ } else { TIME };
    let unit = Unit::parse(name).ok_or_else(|| not_recognized(name, type_name))?;
    match (unit, zone) {
        (Unit::Epoch, _) => {
            let west_us = i64::from(zone.unwrap_or(0)) * US_PER_SECOND;
            Ok(Part::Epoch(i128::from(time_us + west_us)))
        }
        (Unit::Timezone | Unit::TimezoneHour | Unit::TimezoneMinute, Some(west)) => {
            Ok(zone_part(unit, -west))
        }
        _ => clock_part(unit, time_us).ok_or_else(|| not_supported(name, type_name)),
    }
}

fn of_interval(name: &str, value: Interval) -> Result<Part> {
    let unit = Unit::parse(name).ok_or_else(|| not_recognized(name, "interval"))?;
    let (years, months) = (value.months / 12, value.months % 12);
    let seconds_us = value.time_us % (60 * US_PER_SECOND);
    Ok(match unit {
        Unit::Microseconds => Part::Whole(seconds_us),
        Unit::Milliseconds => Part::Milliseconds(seconds_us),
        Unit::Second => Part::Seconds(seconds_us),
        Unit::Minute => Part::Whole(value.time_us / join_time(0, 1, 0, 0) % 60),
        Unit::Hour => Part::Whole(value.time_us / join_time(1, 0, 0, 0)),
        Unit::Day => Part::Whole(value.days.into()),
        Unit::Month => Part::Whole(months.into()),
        Unit::Quarter => Part::Whole((months / 3 + 1).into()),
        Unit::Year => Part::Whole(years.into()),
        Unit::Decade => Part::Whole((years / 10).into()),
        Unit::Century => Part::Whole((years / 100).into()),
        Unit::Millennium => Part::Whole((years / 1000).into()),
        Unit::Epoch => {
            // A year counts 365.25 days here, a month 30: in quarters of a day to stay exact.
            let quarter_days =
                i128::from(years) * 1461 + i128::from(months) * 120 + i128::from(value.days) * 4;
            Part::Epoch(quarter_days * i128::from(US_PER_DAY / 4) + i128::from(value.time_us))
        }
        _ => return Err(not_supported(name, "interval")),
    })
}
