//! Writing dates and times in the styles of DateStyle (manual, section 8.5.2).

use super::calendar::{
    Civil, DATE_INFINITY, DATE_NEG_INFINITY, DAYS, MONTHS, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY,
    US_PER_SECOND, civil_from_days, civil_from_timestamp, day_of_week, days_from_civil, split_time,
};
use super::zone::{info_at, offset_at};
use crate::{DateOrder, DateStyle, FormatSettings, TimeTz};

/// Writing into a `String` cannot fail; this keeps the call sites readable.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{ let _ = std::fmt::Write::write_fmt($out, format_args!($($arg)*)); }};
}
pub(super) use put;

/// Two digits, the commonest number of this file.
fn two(out: &mut String, value: i32) {
    out.push((b'0' + (value / 10 % 10) as u8) as char);
    out.push((b'0' + (value % 10) as u8) as char);
}

/// The year as written: BC years count from 1.
fn shown_year(year: i32) -> i32 {
    if year > 0 { year } else { 1 - year }
}

fn put_year(out: &mut String, year: i32) {
    let year = shown_year(year);
    if year < 10_000 {
        two(out, year / 100);
        two(out, year % 100);
    } else {
        put!(out, "{year}");
    }
}

fn put_date(out: &mut String, civil: &Civil, settings: &FormatSettings) {
    let (month, day) = (civil.month, civil.day);
    let day_first = settings.date_order == DateOrder::Dmy;
    let mut parts = |first: i32, second: i32, mark: char| {
        two(out, first);
        out.push(mark);
        two(out, second);
        out.push(mark);
        put_year(out, civil.year);
    };
    match settings.date_style {
        DateStyle::Iso => {
            put_year(out, civil.year);
            out.push('-');
            two(out, month);
            out.push('-');
            two(out, day);
        }
        DateStyle::Sql if day_first => parts(day, month, '/'),
        DateStyle::Sql => parts(month, day, '/'),
        DateStyle::German => parts(day, month, '.'),
        DateStyle::Postgres if day_first => parts(day, month, '-'),
        DateStyle::Postgres => parts(month, day, '-'),
    }
}

fn put_clock(out: &mut String, hour: i32, minute: i32, second: i32, us: i32) {
    two(out, hour);
    out.push(':');
    two(out, minute);
    out.push(':');
    two(out, second);
    put_fraction(out, us);
}

/// `.5` for 500,000 microseconds: no trailing zeros.
pub(super) fn put_fraction(out: &mut String, us: i32) {
    if us == 0 {
        return;
    }
    let mut digits = 6;
    let mut value = us.unsigned_abs();
    while value.is_multiple_of(10) {
        value /= 10;
        digits -= 1;
    }
    put!(out, ".{value:0digits$}");
}

fn put_offset(out: &mut String, seconds_east: i32) {
    out.push(if seconds_east < 0 { '-' } else { '+' });
    let seconds = seconds_east.abs();
    two(out, seconds / 3600);
    if seconds % 3600 != 0 {
        out.push(':');
        two(out, seconds / 60 % 60);
        if seconds % 60 != 0 {
            out.push(':');
            two(out, seconds % 60);
        }
    }
}

fn put_era(out: &mut String, year: i32) {
    if year <= 0 {
        out.push_str(" BC");
    }
}

pub fn format_date(days: i32, settings: &FormatSettings, out: &mut String) {
    match days {
        DATE_NEG_INFINITY => out.push_str("-infinity"),
        DATE_INFINITY => out.push_str("infinity"),
        _ => {
            let (year, month, day) = civil_from_days(days.into());
            put_date(out, &Civil { year, month, day, ..Civil::default() }, settings);
            put_era(out, year);
        }
    }
}

pub fn format_time(time_us: i64, _: &FormatSettings, out: &mut String) {
    let (hour, minute, second, us) = split_time(time_us);
    put_clock(out, hour, minute, second, us);
}

pub fn format_timetz(value: TimeTz, settings: &FormatSettings, out: &mut String) {
    format_time(value.time_us, settings, out);
    put_offset(out, -value.zone_seconds_west);
}

fn put_infinite(out: &mut String, timestamp_us: i64) -> bool {
    match timestamp_us {
        TIMESTAMP_NEG_INFINITY => out.push_str("-infinity"),
        TIMESTAMP_INFINITY => out.push_str("infinity"),
        _ => return false,
    }
    true
}

pub fn format_timestamp(timestamp_us: i64, settings: &FormatSettings, out: &mut String) {
    if !put_infinite(out, timestamp_us) {
        put_timestamp(out, &civil_from_timestamp(timestamp_us), settings, |_| {});
    }
}

pub fn format_timestamptz(timestamp_us: i64, settings: &FormatSettings, out: &mut String) {
    if put_infinite(out, timestamp_us) {
        return;
    }
    let zone = &settings.time_zone;
    if settings.date_style == DateStyle::Iso {
        let seconds_east = offset_at(zone, timestamp_us);
        let local = timestamp_us + i64::from(seconds_east) * US_PER_SECOND;
        put_timestamp(out, &civil_from_timestamp(local), settings, |out| put_offset(out, seconds_east));
    } else {
        let info = info_at(zone, timestamp_us);
        let local = timestamp_us + i64::from(info.seconds_east) * US_PER_SECOND;
        put_timestamp(out, &civil_from_timestamp(local), settings, |out| {
            out.push(' ');
            out.push_str(&info.abbreviation);
        });
    }
}

fn put_timestamp(out: &mut String, civil: &Civil, settings: &FormatSettings, zone: impl FnOnce(&mut String)) {
    let Civil { year, month, day, hour, minute, second, us } = *civil;
    if settings.date_style == DateStyle::Postgres {
        let weekday = DAYS[day_of_week(days_from_civil(year, month, day)) as usize];
        out.push_str(&weekday[..3]);
        out.push(' ');
        let month_name = MONTHS[(month - 1) as usize];
        if settings.date_order == DateOrder::Dmy {
            put!(out, "{day:02} {month_name} ");
        } else {
            put!(out, "{month_name} {day:02} ");
        }
        put_clock(out, hour, minute, second, us);
        out.push(' ');
        put_year(out, year);
        zone(out);
    } else {
        put_date(out, civil, settings);
        out.push(' ');
        put_clock(out, hour, minute, second, us);
        zone(out);
    }
    put_era(out, year);
}
