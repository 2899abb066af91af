//! to_char of timestamps and intervals.

use std::fmt::Write;

use cairn_types::datetime::calendar::{
    Civil, DAYS, MONTHS, MONTHS_FULL, POSTGRES_EPOCH_JULIAN, US_PER_HOUR, US_PER_MINUTE, US_PER_SECOND,
    civil_from_timestamp, day_of_week, day_of_year, days_from_civil, iso_week, iso_year_start,
};
use cairn_types::datetime::zone::{ZoneInfo, info_at};
use cairn_types::{Datum, Error, Interval, Result, err};

use super::spell::{ordinal_ending, spelled};
use super::template::{Case, Field, Node, Pattern, parse};
use crate::datetime::is_finite;
use crate::{Args, Call};

/// The fields of a value; for an interval the calendar is months of 30 days.
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    day_of_year: i64,
    /// Days since 2000-01-01; meaningless for an interval.
    days: i64,
    is_interval: bool,
    zone: Option<ZoneInfo>,
}

impl Fields {
    fn of_timestamp(local_us: i64, zone: Option<ZoneInfo>) -> Self {
        let Civil { year, month, day, hour, minute, second, us } = civil_from_timestamp(local_us);
        Fields {
            year: year.into(),
            month: month.into(),
            day: day.into(),
            hour: hour.into(),
            minute: minute.into(),
            second: second.into(),
            us: us.into(),
            day_of_year: day_of_year(year, month, day).into(),
            days: days_from_civil(year, month, day),
            is_interval: false,
            zone,
        }
    }

    fn of_interval(value: Interval) -> Self {
        let (year, month, day) =
            (i64::from(value.months / 12), i64::from(value.months % 12), i64::from(value.days));
        Fields {
            year,
            month,
            day,
            hour: value.time_us / US_PER_HOUR,
            minute: value.time_us / US_PER_MINUTE % 60,
            second: value.time_us / US_PER_SECOND % 60,
            us: value.time_us % US_PER_SECOND,
            day_of_year: (year * 12 + month) * 30 + day,
            days: 0,
            is_interval: true,
            zone: None,
        }
    }

    /// There is no year 0 before the reader's eyes.
    fn shown_year(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    fn civil(&self) -> (i32, i32, i32) {
        (self.year as i32, self.month as i32, self.day as i32)
    }

    fn iso_year(&self) -> i64 {
        let (year, month, day) = self.civil();
        iso_week(year, month.max(1), day.max(1)).0.into()
    }
}

pub fn timestamp_to_char(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (value, template) = (args.timestamp(0)?, args.str(1)?);
    if !is_finite(value) || template.is_empty() {
        return Ok(Datum::Null);
    }
    written(call, template, &Fields::of_timestamp(value, None))
}

pub fn timestamptz_to_char(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (value, template) = (args.timestamptz(0)?, args.str(1)?);
    if !is_finite(value) || template.is_empty() {
        return Ok(Datum::Null);
    }
    let zone = info_at(&call.env.format().time_zone, value);
    let local = value + i64::from(zone.seconds_east) * US_PER_SECOND;
    written(call, template, &Fields::of_timestamp(local, Some(zone)))
}

pub fn interval_to_char(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (value, template) = (args.interval(0)?, args.str(1)?);
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    written(call, template, &Fields::of_interval(value))
}

fn written(call: &Call<'_>, template: &str, fields: &Fields) -> Result<Datum> {
    let mut out = String::with_capacity(template.len() + 16);
    for node in parse(template) {
        match node {
            Node::Text(c) | Node::Separator(c) | Node::Space(c) => out.push(c),
            Node::Pattern(pattern) => put(call, &mut out, &pattern, fields)?,
        }
    }
    Ok(Datum::text(out))
}

fn not_for_interval() -> Error {
    err!(INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
        .hint("Intervals are not tied to specific calendar dates.")
}

fn in_case(text: &str, case: Case) -> String {
    match case {
        Case::Upper => text.to_ascii_uppercase(),
        Case::Capital => text.to_owned(),
        Case::Lower => text.to_ascii_lowercase(),
    }
}

/// A number of at least `width` digits, a minus sign before them.
fn digits(value: i64, width: usize) -> String {
    if value < 0 { format!("-{:0width$}", value.unsigned_abs()) } else { format!("{value:0width$}") }
}

fn put(call: &Call<'_>, out: &mut String, pattern: &Pattern, fields: &Fields) -> Result<()> {
    let modifiers = pattern.modifiers;
    let width = |normal: usize| if modifiers.fill { 0 } else { normal };
    // A name is padded to the longest one's length.
    let padded = |out: &mut String, text: &str, normal: usize| {
        let normal = if modifiers.fill || modifiers.translate { 0 } else { normal };
        let _ = write!(out, "{text:<normal$}");
    };
    let calendar_only = || if fields.is_interval { Err(not_for_interval()) } else { Ok(()) };
    let number = match pattern.field {
        Field::Fixed => return Ok(()),
        Field::Meridiem { dots } => {
            let afternoon = fields.hour % 24 >= 12;
            let text = match (dots, afternoon) {
                (true, true) => "P.M.",
                (true, false) => "A.M.",
                (false, true) => "PM",
                (false, false) => "AM",
            };
            out.push_str(&in_case(text, pattern.case));
            return Ok(());
        }
        Field::Era { dots } => {
            calendar_only()?;
            let text = match (dots, fields.year <= 0) {
                (true, true) => "B.C.",
                (true, false) => "A.D.",
                (false, true) => "BC",
                (false, false) => "AD",
            };
            out.push_str(&in_case(text, pattern.case));
            return Ok(());
        }
        Field::MonthName | Field::MonthAbbreviation => {
            calendar_only()?;
            let index = (fields.month - 1) as usize;
            let (names, normal) =
                if pattern.field == Field::MonthName { (&MONTHS_FULL, 9) } else { (&MONTHS, 0) };
            padded(out, &in_case(names[index], pattern.case), normal);
            return Ok(());
        }
        Field::DayName => {
            calendar_only()?;
            padded(out, &in_case(DAYS[day_of_week(fields.days) as usize], pattern.case), 9);
            return Ok(());
        }
        Field::DayAbbreviation => {
            calendar_only()?;
            out.push_str(&in_case(&DAYS[day_of_week(fields.days) as usize][..3], pattern.case));
            return Ok(());
        }
        Field::RomanMonth => {
            if let Some(text) = roman_month(fields) {
                let text = in_case(text, pattern.case);
                let normal = width(4);
                let _ = write!(out, "{text:<normal$}");
            }
            return Ok(());
        }
        Field::ZoneAbbreviation | Field::ZoneHours | Field::ZoneMinutes | Field::ZoneOffset => {
            calendar_only()?;
            put_zone(out, pattern, fields);
            return Ok(());
        }
        Field::Hour12 => digits(twelve(fields.hour), width(2)),
        Field::Hour24 => digits(fields.hour, width(2)),
        Field::Minute => digits(fields.minute, width(2)),
        Field::Second => digits(fields.second, width(2)),
        Field::Millisecond => digits(fields.us / 1000, 3),
        Field::Microsecond => digits(fields.us, 6),
        Field::Fraction(count) => digits(fields.us / 10i64.pow(6 - u32::from(count)), count.into()),
        Field::SecondsOfDay => (fields.hour * 3600 + fields.minute * 60 + fields.second).to_string(),
        Field::Month => digits(fields.month, width(2)),
        // Of a negative number of days the sign counts as a digit.
        Field::Day => {
            let width = width(2);
            format!("{:0width$}", fields.day)
        }
        Field::DayOfYear => digits(fields.day_of_year, width(3)),
        Field::IsoDayOfYear => {
            calendar_only()?;
            let start = iso_year_start(fields.iso_year() as i32);
            digits(fields.days - start + 1, width(3))
        }
        Field::DayOfWeek => {
            calendar_only()?;
            (day_of_week(fields.days) + 1).to_string()
        }
        Field::IsoDayOfWeek => {
            calendar_only()?;
            ((day_of_week(fields.days) + 6) % 7 + 1).to_string()
        }
        Field::Week => digits((fields.day_of_year - 1) / 7 + 1, width(2)),
        Field::IsoWeek => {
            calendar_only()?;
            let (year, month, day) = fields.civil();
            digits(iso_week(year, month, day).1.into(), width(2))
        }
        Field::WeekOfMonth => ((fields.day - 1) / 7 + 1).to_string(),
        Field::Quarter => {
            if fields.month == 0 {
                return Ok(());
            }
            ((fields.month - 1) / 3 + 1).to_string()
        }
        Field::Century => {
            let century = if fields.is_interval {
                fields.year / 100
            } else if fields.year > 0 {
                (fields.year - 1) / 100 + 1
            } else {
                fields.year / 100 - 1
            };
            if (-99..=99).contains(&century) { digits(century, width(2)) } else { century.to_string() }
        }
        Field::YearWithComma => {
            let year = fields.shown_year(fields.year);
            format!("{},{:03}", year / 1000, year % 1000)
        }
        Field::Year(count) => cut_year(fields.shown_year(fields.year), count, &width),
        Field::IsoYear(count) => {
            let year = if fields.is_interval { fields.year } else { fields.iso_year() };
            cut_year(fields.shown_year(year), count, &width)
        }
        Field::Julian => calendar_only_julian(fields).to_string(),
    };
    if modifiers.spelled && call.env.extension_installed("orafce") {
        out.push_str(&spelled(&number, pattern.case));
        return Ok(());
    }
    out.push_str(&number);
    if let Some(case) = modifiers.ordinal {
        out.push_str(ordinal_ending(&number, case));
    }
    Ok(())
}

/// An interval's Julian day counts from its fields read as a date, as PostgreSQL does.
fn calendar_only_julian(fields: &Fields) -> i64 {
    if !fields.is_interval {
        return fields.days + i64::from(POSTGRES_EPOCH_JULIAN);
    }
    let month = fields.month.clamp(1, 12) as i32;
    days_from_civil(fields.year as i32, month, fields.day as i32) + i64::from(POSTGRES_EPOCH_JULIAN)
}

fn twelve(hour: i64) -> i64 {
    if hour % 12 == 0 { 12 } else { hour % 12 }
}

/// The last `count` digits of a year.
fn cut_year(year: i64, count: u8, width: &impl Fn(usize) -> usize) -> String {
    match count {
        4 => digits(year, width(4)),
        count => digits(year % 10i64.pow(count.into()), width(count.into())),
    }
}

fn roman_month(fields: &Fields) -> Option<&'static str> {
    const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
    // An interval of whole years ends in its twelfth month; a negative one counts from the year's other end.
    let index = match fields.month {
        0 if fields.year == 0 => return None,
        0 if fields.year > 0 => 11,
        0 => 0,
        month if month < 0 => 12 + month,
        month => month - 1,
    };
    usize::try_from(index).ok().and_then(|index| ROMAN.get(index)).copied()
}

fn put_zone(out: &mut String, pattern: &Pattern, fields: &Fields) {
    let seconds_east = fields.zone.as_ref().map_or(0, |zone| zone.seconds_east);
    let sign = if seconds_east < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds_east.abs() / 3600, seconds_east.abs() % 3600 / 60);
    match pattern.field {
        Field::ZoneAbbreviation => {
            if let Some(zone) = &fields.zone {
                out.push_str(&in_case(&zone.abbreviation, pattern.case));
            }
        }
        Field::ZoneHours => {
            let _ = write!(out, "{sign}{hours:02}");
        }
        Field::ZoneMinutes => {
            let _ = write!(out, "{minutes:02}");
        }
        _ => {
            let width = if pattern.modifiers.fill { 0 } else { 2 };
            let _ = write!(out, "{sign}{hours:0width$}");
            if seconds_east % 3600 != 0 {
                let _ = write!(out, ":{minutes:02}");
            }
        }
    }
}
