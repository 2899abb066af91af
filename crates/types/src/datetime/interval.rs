//! Reading and writing intervals (manual, section 8.5.4 and 8.5.5).

use super::calendar::{US_PER_DAY, US_PER_HOUR, US_PER_MINUTE, US_PER_SECOND};
use super::format::{put, put_fraction};
use super::parse::{Failure, decode_clock, ends_word};
use super::token::{Field, split};
use crate::{FormatSettings, Interval, IntervalStyle, Result, err};

type Parsed<T> = std::result::Result<T, Failure>;

// The fields of an interval's type modifier; PostgreSQL's numbers, because they are in pg_attribute.atttypmod.
const RANGE_YEAR: i32 = 1 << 2;
const RANGE_MONTH: i32 = 1 << 1;
const RANGE_DAY: i32 = 1 << 3;
const RANGE_HOUR: i32 = 1 << 10;
const RANGE_MINUTE: i32 = 1 << 11;
const RANGE_SECOND: i32 = 1 << 12;
const RANGE_ALL: i32 = 0x7FFF;
const PRECISION_ALL: i32 = 0xFFFF;

/// Splits a type modifier into the mask of its fields and its precision in seconds.
fn split_typmod(typmod: i32) -> (i32, Option<u32>) {
    if typmod < 0 {
        return (RANGE_ALL, None);
    }
    let precision = typmod & 0xFFFF;
    ((typmod >> 16) & RANGE_ALL, (precision != PRECISION_ALL).then_some(precision as u32))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
    /// `quarter` and `ago`: no number may stand before them.
    NoNumber,
}

enum Word {
    Unit(Unit),
    Ago,
    /// A leading `@` is skipped as punctuation; the words of ISO style have no meaning here.
    Unknown,
}

fn word(text: &str) -> Word {
    // Only the first ten letters count: `millenniums`, `microseconds`.
    let text = text.get(..10).unwrap_or(text);
    let unit = match text {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "qtr" | "quarter" => Unit::NoNumber,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        "ago" => return Word::Ago,
        _ => return Word::Unknown,
    };
    Word::Unit(unit)
}

/// An interval in the making, with room for overflow checks.
#[derive(Default)]
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    us: i64,
}

impl Parts {
    fn add_us(&mut self, value: i64, fraction: f64, scale: i64) -> Parsed<()> {
        let whole = value.checked_mul(scale).and_then(|us| self.us.checked_add(us)).ok_or(Failure::Field)?;
        self.us = whole;
        self.add_fraction_us(fraction, scale)
    }

    fn add_fraction_us(&mut self, fraction: f64, scale: i64) -> Parsed<()> {
        if fraction == 0.0 {
            return Ok(());
        }
        let scaled = fraction * scale as f64;
        let mut us = scaled as i64;
        let rest = scaled - us as f64;
        if rest > 0.5 {
            us += 1;
        } else if rest < -0.5 {
            us -= 1;
        }
        self.us = self.us.checked_add(us).ok_or(Failure::Field)?;
        Ok(())
    }

    fn add_days(&mut self, value: i64, scale: i64) -> Parsed<()> {
        let days =
            value.checked_mul(scale).and_then(|days| i32::try_from(days).ok()).ok_or(Failure::Field)?;
        self.days = self.days.checked_add(days).ok_or(Failure::Field)?;
        Ok(())
    }

    /// The fraction of a span of `scale` days, what is left of a day as time.
    fn add_fraction_days(&mut self, fraction: f64, scale: i32) -> Parsed<()> {
        if fraction == 0.0 {
            return Ok(());
        }
        let scaled = fraction * f64::from(scale);
        let days = scaled as i32;
        self.days = self.days.checked_add(days).ok_or(Failure::Field)?;
        self.add_fraction_us(scaled - f64::from(days), US_PER_DAY)
    }

    fn add_months(&mut self, value: i64) -> Parsed<()> {
        let value = i32::try_from(value).map_err(|_| Failure::Field)?;
        self.months = self.months.checked_add(value).ok_or(Failure::Field)?;
        Ok(())
    }

    fn add_years(&mut self, value: i64, fraction: f64, scale: i32) -> Parsed<()> {
        let years = value
            .checked_mul(scale.into())
            .and_then(|years| i32::try_from(years).ok())
            .and_then(|years| self.years.checked_add(years))
            .ok_or(Failure::Field)?;
        self.years = years;
        let months = (fraction * f64::from(scale) * 12.0).round_ties_even() as i32;
        self.months = self.months.checked_add(months).ok_or(Failure::Field)?;
        Ok(())
    }

    fn add(&mut self, unit: Unit, value: i64, fraction: f64) -> Parsed<()> {
        match unit {
            Unit::Microsecond => self.add_us(value, fraction, 1),
            Unit::Millisecond => self.add_us(value, fraction, 1000),
            Unit::Second => self.add_us(value, fraction, US_PER_SECOND),
            Unit::Minute => self.add_us(value, fraction, US_PER_MINUTE),
            Unit::Hour => self.add_us(value, fraction, US_PER_HOUR),
            Unit::Day => {
                self.add_days(value, 1)?;
                self.add_fraction_us(fraction, US_PER_DAY)
            }
            Unit::Week => {
                self.add_days(value, 7)?;
                self.add_fraction_days(fraction, 7)
            }
            Unit::Month => {
                self.add_months(value)?;
                self.add_fraction_days(fraction, 30)
            }
            Unit::Year => self.add_years(value, fraction, 1),
            Unit::Decade => self.add_years(value, fraction, 10),
            Unit::Century => self.add_years(value, fraction, 100),
            Unit::Millennium => self.add_years(value, fraction, 1000),
            Unit::NoNumber => Err(Failure::Format),
        }
    }

    fn negate(&mut self) -> Parsed<()> {
        self.years = self.years.checked_neg().ok_or(Failure::Field)?;
        self.months = self.months.checked_neg().ok_or(Failure::Field)?;
        self.days = self.days.checked_neg().ok_or(Failure::Field)?;
        self.us = self.us.checked_neg().ok_or(Failure::Field)?;
        Ok(())
    }
}

/// The unit of a number without one: the last field that the type modifier names.
fn default_unit(range: i32) -> Unit {
    match range {
        RANGE_YEAR => Unit::Year,
        _ if range == RANGE_MONTH || range == RANGE_YEAR | RANGE_MONTH => Unit::Month,
        RANGE_DAY => Unit::Day,
        _ if range == RANGE_HOUR || range == RANGE_DAY | RANGE_HOUR => Unit::Hour,
        _ if range & RANGE_MINUTE != 0 && range & RANGE_SECOND == 0 => Unit::Minute,
        _ => Unit::Second,
    }
}

fn decode(text: &str, settings: &FormatSettings, range: i32) -> Parsed<Parts> {
    let fields = split(text, ends_word).ok_or(Failure::Format)?;
    if fields.is_empty() {
        return Err(Failure::Format);
    }
    let mut parts = Parts::default();
    // Under sql_standard one leading minus holds for all fields, unless another sign is written.
    let all_negative = settings.interval_style == IntervalStyle::SqlStandard
        && fields.iter().enumerate().all(|(i, field)| match field {
            Field::Offset(text) => i == 0 && text.starts_with('-'),
            _ => i > 0,
        });
    let mut ago = false;
    let mut unit: Option<Unit> = None;
    // One bit per unit, so that none is given twice.
    let mut seen: u32 = 0;
    for field in fields.iter().rev() {
        match field {
            Field::Time(text) => {
                decode_clock_into(&mut parts, text, all_negative, range)?;
                see(&mut seen, CLOCK)?;
                unit = Some(Unit::Day);
            }
            Field::Offset(text) if text.contains(':') => {
                let negative = text.starts_with('-');
                decode_clock_into(&mut parts, &text[1..], negative || all_negative, range)
                    .map_err(|_| Failure::Format)?;
                see(&mut seen, CLOCK)?;
                unit = Some(Unit::Day);
            }
            Field::Offset(text) | Field::Date(text) | Field::Number(text) => {
                let number_unit = unit.unwrap_or_else(|| default_unit(range));
                decode_number(&mut parts, text, number_unit, &mut seen, all_negative)?;
                // To the left of hours stand days: `1 10`.
                unit = Some(if number_unit == Unit::Hour { Unit::Day } else { number_unit });
            }
            Field::Word(text) => match word(text) {
                Word::Unit(next) => unit = Some(next),
                Word::Ago => {
                    ago = true;
                    unit = Some(Unit::NoNumber);
                }
                Word::Unknown => return Err(Failure::Format),
            },
            Field::SignedWord(_) => return Err(Failure::Format),
        }
    }
    if seen == 0 {
        return Err(Failure::Format);
    }
    if ago {
        parts.negate()?;
    }
    Ok(parts)
}

/// Seconds with decimals say all that milliseconds and microseconds could.
const SECONDS: u32 = 1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;
const CLOCK: u32 = 1 << Unit::Hour as u32 | 1 << Unit::Minute as u32 | SECONDS;

fn see(seen: &mut u32, units: u32) -> Parsed<()> {
    if *seen & units != 0 {
        return Err(Failure::Format);
    }
    *seen |= units;
    Ok(())
}

/// `hh:mm[:ss[.fff]]`; two parts are minutes and seconds where the type modifier says so.
fn decode_clock_into(parts: &mut Parts, text: &str, negative: bool, range: i32) -> Parsed<()> {
    let mut clock = decode_clock(text).ok_or(Failure::Format)?;
    if range == RANGE_MINUTE | RANGE_SECOND && text.matches(':').count() == 1 && !text.contains('.') {
        clock.second = clock.minute;
        clock.minute = i32::try_from(clock.hour).map_err(|_| Failure::Field)?;
        clock.hour = 0;
    }
    if !clock.in_range() {
        return Err(Failure::Field);
    }
    let us = clock
        .hour
        .checked_mul(US_PER_HOUR)
        .and_then(|us| us.checked_add(i64::from(clock.minute) * US_PER_MINUTE))
        .and_then(|us| us.checked_add(i64::from(clock.second) * US_PER_SECOND + i64::from(clock.us)))
        .ok_or(Failure::Field)?;
    parts.us = parts.us.checked_add(if negative { -us } else { us }).ok_or(Failure::Field)?;
    Ok(())
}

/// A number with its unit, or SQL's `years-months`.
fn decode_number(
    parts: &mut Parts,
    text: &str,
    unit: Unit,
    seen: &mut u32,
    all_negative: bool,
) -> Parsed<()> {
    let (signed_negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = body.split_at(digits);
    // With its sign: there is one negative number more than positive ones.
    let signed = if signed_negative { &text[..1 + digits] } else { whole };
    let mut value: i64 = if whole.is_empty() { 0 } else { signed.parse().map_err(|_| Failure::Field)? };
    let mut fraction = 0.0;
    let mut unit = unit;
    if let Some(months) = rest.strip_prefix('-') {
        let months: i64 = match months.parse() {
            Ok(months @ 0..12) => months,
            Ok(_) => return Err(Failure::Field),
            Err(_) => return Err(Failure::Format),
        };
        let months = if signed_negative { -months } else { months };
        value = value.checked_mul(12).and_then(|value| value.checked_add(months)).ok_or(Failure::Field)?;
        unit = Unit::Month;
    } else if let Some(decimals) = rest.strip_prefix('.') {
        if !decimals.is_empty() {
            if !decimals.bytes().all(|c| c.is_ascii_digit()) {
                return Err(Failure::Format);
            }
            fraction = format!("0.{decimals}").parse().map_err(|_| Failure::Format)?;
        } else if whole.is_empty() {
            return Err(Failure::Format);
        }
    } else if !rest.is_empty() || whole.is_empty() {
        return Err(Failure::Format);
    }
    if signed_negative || all_negative {
        fraction = -fraction;
        value = if value > 0 { -value } else { value };
    }
    parts.add(unit, value, fraction)?;
    see(seen, if unit == Unit::Second && fraction != 0.0 { SECONDS } else { 1 << unit as u32 })
}

/// ISO 8601: `P1Y2M3DT4H5M6.7S`, `P2W`, `P0001-02-03T04:05:06`, `P00010203T040506`.
fn decode_iso8601(text: &str) -> Parsed<Parts> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Failure::Format)?;
    let mut parts = Parts::default();
    let mut in_date = true;
    let mut any_field = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (rest, in_date, any_field) = (after, false, false);
            continue;
        }
        let (number, after) = iso_number(rest)?;
        let designator = after.chars().next();
        let unit = match (in_date, designator) {
            (true, Some('Y')) => Unit::Year,
            (true, Some('M')) => Unit::Month,
            (true, Some('W')) => Unit::Week,
            (true, Some('D')) => Unit::Day,
            (false, Some('H')) => Unit::Hour,
            (false, Some('M')) => Unit::Minute,
            (false, Some('S')) => Unit::Second,
            // The alternative form, which has no designators.
            (true, None | Some('-' | 'T')) if !any_field => {
                rest = iso_date(&mut parts, &number, after)?;
                continue;
            }
            (false, None | Some(':')) if !any_field => {
                iso_clock(&mut parts, &number, after)?;
                return Ok(parts);
            }
            _ => return Err(Failure::Format),
        };
        parts.add(unit, number.whole, number.fraction)?;
        rest = &after[1..];
        any_field = true;
    }
    Ok(parts)
}

/// A date without designators whose first number is read: `yyyymmdd`, or `y`, `y-m`, `y-m-d`. The rest is empty
/// or begins with the T of the time.
fn iso_date<'a>(parts: &mut Parts, first: &IsoNumber, rest: &'a str) -> Parsed<&'a str> {
    let IsoNumber { whole, fraction, digits } = *first;
    if digits == 8 && !rest.starts_with('-') {
        parts.add(Unit::Year, whole / 10_000, 0.0)?;
        parts.add(Unit::Month, whole / 100 % 100, 0.0)?;
        parts.add(Unit::Day, whole % 100, fraction)?;
        return Ok(rest);
    }
    parts.add(Unit::Year, whole, fraction)?;
    let mut rest = rest;
    for unit in [Unit::Month, Unit::Day] {
        let Some(after) = rest.strip_prefix('-') else { break };
        let (number, after) = iso_number(after)?;
        parts.add(unit, number.whole, number.fraction)?;
        rest = after;
    }
    if rest.is_empty() || rest.starts_with('T') { Ok(rest) } else { Err(Failure::Format) }
}

/// A time without designators whose first number is read: `hhmmss`, or `h`, `h:m`, `h:m:s`.
fn iso_clock(parts: &mut Parts, first: &IsoNumber, rest: &str) -> Parsed<()> {
    let IsoNumber { whole, fraction, digits } = *first;
    if digits == 6 && rest.is_empty() {
        parts.add(Unit::Hour, whole / 10_000, 0.0)?;
        parts.add(Unit::Minute, whole / 100 % 100, 0.0)?;
        parts.add(Unit::Second, whole % 100, 0.0)?;
        // PostgreSQL 15 takes the fraction as one of a microsecond.
        return parts.add(Unit::Microsecond, 0, fraction);
    }
    parts.add(Unit::Hour, whole, fraction)?;
    let mut rest = rest;
    for unit in [Unit::Minute, Unit::Second] {
        let Some(after) = rest.strip_prefix(':') else { break };
        let (number, after) = iso_number(after)?;
        parts.add(unit, number.whole, number.fraction)?;
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(Failure::Format) }
}

/// A number of the ISO 8601 form. The fraction has the sign of the whole part; it is what floating point leaves
/// of the number, as in PostgreSQL, so `9.2` months are 9 and a little less than 0.2.
struct IsoNumber {
    whole: i64,
    fraction: f64,
    /// How many digits stand before the point; they tell `hhmmss` from `h`.
    digits: usize,
}

/// Reads a decimal, with an exponent or without; returns it and what follows.
fn iso_number(text: &str) -> Parsed<(IsoNumber, &str)> {
    let bytes = text.as_bytes();
    let digits_from = |at: usize| {
        at + bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|c| c.is_ascii_digit()).count())
    };
    let start = usize::from(bytes.first() == Some(&b'-'));
    let whole_end = digits_from(start);
    let mut end = if bytes.get(whole_end) == Some(&b'.') { digits_from(whole_end + 1) } else { whole_end };
    if !bytes[start..end].iter().any(u8::is_ascii_digit) {
        return Err(Failure::Format);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent_end = digits_from(exponent);
        if exponent_end > exponent {
            end = exponent_end;
        }
    }
    let number: f64 = text[..end].parse().map_err(|_| Failure::Format)?;
    if number.is_infinite() {
        return Err(Failure::Format);
    }
    if !(-1e15..=1e15).contains(&number) {
        return Err(Failure::Field);
    }
    let whole = number.trunc();
    let digits = whole_end - start;
    Ok((IsoNumber { whole: whole as i64, fraction: number - whole, digits }, &text[end..]))
}

/// Input of interval; `typmod` chooses the unit of a bare number and cuts the result to its fields.
pub fn parse_interval(text: &str, settings: &FormatSettings, typmod: i32) -> Result<Interval> {
    let (range, _) = split_typmod(typmod);
    let parts = match decode(text, settings, range) {
        Err(Failure::Format) => decode_iso8601(text),
        other => other,
    };
    let parts = parts.map_err(|failure| {
        let failure = if failure == Failure::Field { Failure::Interval } else { failure };
        failure.error("interval", text)
    })?;
    let months = i64::from(parts.years) * 12 + i64::from(parts.months);
    let months = i32::try_from(months).map_err(|_| err!(DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
    adjust_interval(Interval { months, days: parts.days, time_us: parts.us }, typmod)
}

/// Cuts an interval to the fields and rounds it to the precision of a type modifier.
pub fn adjust_interval(value: Interval, typmod: i32) -> Result<Interval> {
    let (range, precision) = split_typmod(typmod);
    let mut value = value;
    let smallest = range & range.wrapping_neg();
    if range == RANGE_ALL {
        // Nothing to cut.
    } else if range == RANGE_YEAR {
        value = Interval { months: value.months / 12 * 12, days: 0, time_us: 0 };
    } else if range == RANGE_MONTH || range == RANGE_YEAR | RANGE_MONTH {
        value = Interval { months: value.months, days: 0, time_us: 0 };
    } else if range == RANGE_DAY {
        value.time_us = 0;
    } else if range & RANGE_SECOND == 0 && range & RANGE_MINUTE != 0 {
        value.time_us = value.time_us / US_PER_MINUTE * US_PER_MINUTE;
    } else if range & RANGE_SECOND == 0 && smallest != 0 && range & RANGE_HOUR != 0 {
        value.time_us = value.time_us / US_PER_HOUR * US_PER_HOUR;
    }
    if let Some(precision) = precision {
        value.time_us = round_us(value.time_us, precision)
            .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "interval out of range"))?;
    }
    Ok(value)
}

/// Rounds microseconds half away from zero to so many digits of a second.
pub(super) fn round_us(us: i64, precision: u32) -> Option<i64> {
    if precision >= 6 {
        return Some(us);
    }
    let scale = 10i64.pow(6 - precision);
    let half = scale / 2;
    let shifted = if us >= 0 { us.checked_add(half)? } else { us.checked_sub(half)? };
    Some(shifted / scale * scale)
}

/// An interval taken apart for writing; all parts of one group share a sign.
struct Shown {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i64,
    seconds: i64,
    us: i32,
}

impl Shown {
    fn new(value: Interval) -> Self {
        Shown {
            years: value.months / 12,
            months: value.months % 12,
            days: value.days,
            hours: value.time_us / US_PER_HOUR,
            minutes: value.time_us / US_PER_MINUTE % 60,
            seconds: value.time_us / US_PER_SECOND % 60,
            us: (value.time_us % US_PER_SECOND) as i32,
        }
    }
}

pub fn format_interval(value: Interval, settings: &FormatSettings, out: &mut String) {
    let shown = Shown::new(value);
    match settings.interval_style {
        IntervalStyle::Postgres => postgres(&shown, value.time_us, out),
        IntervalStyle::PostgresVerbose => verbose(&shown, out),
        IntervalStyle::SqlStandard => sql_standard(&shown, value, out),
        IntervalStyle::Iso8601 => iso8601(&shown, value, out),
    }
}

fn put_seconds(out: &mut String, seconds: i64, us: i32, width: usize) {
    put!(out, "{:0width$}", seconds.unsigned_abs());
    put_fraction(out, us);
}

fn put_clock(out: &mut String, shown: &Shown) {
    put!(out, "{:02}:{:02}:", shown.hours.unsigned_abs(), shown.minutes.unsigned_abs());
    put_seconds(out, shown.seconds, shown.us, 2);
}

/// `1 year 2 mons -3 days +04:05:06`
fn postgres(shown: &Shown, time_us: i64, out: &mut String) {
    let mut first = true;
    let mut after_negative = false;
    for (value, name) in [(shown.years, "year"), (shown.months, "mon"), (shown.days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if first { "" } else { " " };
        let plus = if after_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        put!(out, "{space}{plus}{value} {name}{plural}");
        after_negative = value < 0;
        first = false;
    }
    if first || time_us != 0 {
        out.push_str(if first { "" } else { " " });
        out.push_str(if time_us < 0 {
            "-"
        } else if after_negative {
            "+"
        } else {
            ""
        });
        put_clock(out, shown);
    }
}

/// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs ago`
fn verbose(shown: &Shown, out: &mut String) {
    out.push('@');
    let mut ago = false;
    let mut empty = true;
    let parts: [(i64, &str); 5] = [
        (shown.years.into(), "year"),
        (shown.months.into(), "mon"),
        (shown.days.into(), "day"),
        (shown.hours, "hour"),
        (shown.minutes, "min"),
    ];
    for (value, name) in parts {
        if value == 0 {
            continue;
        }
        let value = if empty {
            ago = value < 0;
            value.abs()
        } else if ago {
            -value
        } else {
            value
        };
        let plural = if value == 1 { "" } else { "s" };
        put!(out, " {value} {name}{plural}");
        empty = false;
    }
    if shown.seconds != 0 || shown.us != 0 {
        let negative = shown.seconds < 0 || shown.us < 0;
        out.push(' ');
        if empty {
            ago = negative;
        } else if negative != ago {
            out.push('-');
        }
        put_seconds(out, shown.seconds, shown.us, 1);
        out.push_str(if shown.seconds.abs() == 1 && shown.us == 0 { " sec" } else { " secs" });
        empty = false;
    }
    if empty {
        out.push_str(" 0");
    }
    if ago {
        out.push_str(" ago");
    }
}

/// `+1-2 -3 +4:05:06`, or one of its parts alone
fn sql_standard(shown: &Shown, value: Interval, out: &mut String) {
    let Shown { years, months, days, .. } = *shown;
    let (has_months, has_days, has_time) = (value.months != 0, value.days != 0, value.time_us != 0);
    let negative = value.months < 0 || value.days < 0 || value.time_us < 0;
    let positive = value.months > 0 || value.days > 0 || value.time_us > 0;
    let put_time = |out: &mut String| {
        put!(out, "{}:{:02}:", shown.hours.unsigned_abs(), shown.minutes.unsigned_abs());
        put_seconds(out, shown.seconds, shown.us, 2);
    };
    let sign = |negative: bool| if negative { '-' } else { '+' };
    if !has_months && !has_days && !has_time {
        out.push('0');
    } else if (negative && positive) || (has_months && (has_days || has_time)) {
        // Mixed signs, or a mix of both classes, which the standard has no form for: every part with its sign.
        put!(
            out,
            "{}{}-{} {}{} ",
            sign(value.months < 0),
            years.unsigned_abs(),
            months.unsigned_abs(),
            sign(days < 0),
            days.unsigned_abs()
        );
        out.push(sign(value.time_us < 0));
        put_time(out);
    } else {
        if negative {
            out.push('-');
        }
        if has_months {
            put!(out, "{}-{}", years.unsigned_abs(), months.unsigned_abs());
        } else {
            if has_days {
                put!(out, "{} ", days.unsigned_abs());
            }
            put_time(out);
        }
    }
}

/// `P1Y2M3DT4H5M6S`
fn iso8601(shown: &Shown, value: Interval, out: &mut String) {
    if value == Interval::default() {
        out.push_str("PT0S");
        return;
    }
    out.push('P');
    for (number, letter) in [(shown.years, 'Y'), (shown.months, 'M'), (shown.days, 'D')] {
        if number != 0 {
            put!(out, "{number}{letter}");
        }
    }
    if value.time_us == 0 {
        return;
    }
    out.push('T');
    for (number, letter) in [(shown.hours, 'H'), (shown.minutes, 'M')] {
        if number != 0 {
            put!(out, "{number}{letter}");
        }
    }
    if shown.seconds != 0 || shown.us != 0 {
        if shown.seconds < 0 || shown.us < 0 {
            out.push('-');
        }
        put_seconds(out, shown.seconds, shown.us, 1);
        out.push('S');
    }
}
