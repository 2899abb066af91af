//! to_timestamp and to_date: reading text by a template (manual, section 9.8).
//!
//! Outside FX mode the spacing is lenient: blanks before a field are skipped, a separator of the template matches
//! any one separator or blank or nothing, and other text of the template skips one character whatever it is.

use cairn_types::datetime::calendar::{
    Civil, DAYS, MONTHS, MONTHS_FULL, POSTGRES_EPOCH_JULIAN, US_PER_SECOND, civil_from_days, days_from_civil,
    days_in_month, in_date_range, in_timestamp_range, is_leap, is_valid_julian, iso_year_start,
};
use cairn_types::datetime::{adjust_timestamp, zone::offset_of_local};
use cairn_types::{Datum, Error, Result, err};

use super::template::{Field, Node, Pattern, is_separator, parse};
use crate::datetime::timestamp_out_of_range;
use crate::{Args, Call};

/// Values as found in the text; 0 is "not given", as the conflict rule of the manual implies.
#[derive(Default)]
struct Found {
    hour: i32,
    minute: i32,
    second: i32,
    seconds_of_day: i32,
    day: i32,
    month: i32,
    millisecond: i32,
    microsecond: i32,
    year: i32,
    day_of_week: i32,
    day_of_year: i32,
    week: i32,
    week_of_month: i32,
    century: i32,
    julian: i32,
    bc: i32,
    afternoon: i32,
    twelve_hour_clock: bool,
    /// How many digits the year's pattern has.
    year_digits: u8,
    /// Digits of FFn.
    fraction_digits: i32,
    zone_sign: i32,
    zone_hours: i32,
    zone_minutes: i32,
    /// `Some(true)` once an ISO week pattern was met, `Some(false)` once a Gregorian one.
    iso: Option<bool>,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_char(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn skip_spaces(&mut self) -> i32 {
        let rest = self.rest();
        let skipped = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_whitespace()).len();
        self.at += skipped;
        skipped as i32
    }
}

fn malformed(message: String, detail: impl Into<String>) -> Error {
    err!(INVALID_DATETIME_FORMAT, "{message}").detail(detail)
}

const FIXED_WIDTH_HINT: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// Sets a field that must not contradict an earlier setting.
fn set(target: &mut i32, value: i32, pattern: &Pattern) -> Result<()> {
    if *target != 0 && *target != value {
        return Err(malformed(
            format!("conflicting values for \"{}\" field in formatting string", pattern.text),
            "This value contradicts a previous setting for the same field type.",
        ));
    }
    *target = value;
    Ok(())
}

/// Whether a number may take all digits that are there, because no digit can follow it.
fn next_is_no_digit(pattern: &Pattern, next: Option<&Node>) -> bool {
    if pattern.modifiers.ordinal.is_some() {
        return true;
    }
    match next {
        None => true,
        Some(Node::Pattern(next)) => !next.is_digit,
        Some(Node::Text(c) | Node::Separator(c) | Node::Space(c)) => !c.is_ascii_digit(),
    }
}

/// Length of an integer at the start, its blanks and sign included; 0 if there is none.
fn integer_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = bytes.iter().take_while(|c| c.is_ascii_whitespace()).count();
    if matches!(bytes.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let digits = bytes.iter().skip(at).take_while(|c| c.is_ascii_digit()).count();
    if digits == 0 { 0 } else { at + digits }
}

impl Reader<'_> {
    /// An integer of `width` characters, or of all that are there if nothing numeric follows. Returns it with the
    /// number of characters that it took.
    fn integer(&mut self, width: usize, pattern: &Pattern, next: Option<&Node>) -> Result<(i32, usize)> {
        self.skip_spaces();
        let rest = self.rest();
        let shown: String = rest.chars().take(width).collect();
        let taken = if pattern.modifiers.fill || next_is_no_digit(pattern, next) {
            integer_length(rest)
        } else {
            if shown.len() < width {
                return Err(malformed(
                    format!("source string too short for \"{}\" formatting field", pattern.text),
                    format!("Field requires {width} characters, but only {} remain.", shown.len()),
                )
                .hint(FIXED_WIDTH_HINT));
            }
            let taken = integer_length(&shown);
            if taken > 0 && taken < width {
                return Err(malformed(
                    format!("invalid value \"{shown}\" for \"{}\"", pattern.text),
                    format!("Field requires {width} characters, but only {taken} could be parsed."),
                )
                .hint(FIXED_WIDTH_HINT));
            }
            taken
        };
        if taken == 0 {
            return Err(malformed(
                format!("invalid value \"{shown}\" for \"{}\"", pattern.text),
                "Value must be an integer.",
            ));
        }
        let value = rest[..taken].trim().parse::<i32>().map_err(|_| {
            err!(DATETIME_FIELD_OVERFLOW, "value for \"{}\" in source string is out of range", pattern.text)
                .detail(format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX))
        })?;
        self.at += taken;
        Ok((value, taken))
    }

    /// One of a list of words, in any case; returns its index.
    fn word(&mut self, words: &[&str], pattern: &Pattern) -> Result<usize> {
        let rest = self.rest();
        let found = words
            .iter()
            .position(|word| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
        match found {
            Some(index) => {
                self.at += words[index].len();
                Ok(index)
            }
            None => {
                let shown = rest.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or("");
                Err(malformed(
                    format!("invalid value \"{shown}\" for \"{}\"", pattern.text),
                    "The given value did not match any of the allowed values for this field.",
                ))
            }
        }
    }

    fn skip_ordinal(&mut self, pattern: &Pattern) {
        if pattern.modifiers.ordinal.is_some() {
            self.skip_char();
            self.skip_char();
        }
    }
}

fn read(text: &str, nodes: &[Node]) -> Result<Found> {
    let mut found = Found::default();
    let mut reader = Reader { text, at: 0 };
    let mut fixed = false;
    // Characters skipped beyond what the template accounts for.
    let mut extra = 0;
    for (i, node) in nodes.iter().enumerate() {
        if reader.rest().is_empty() {
            break;
        }
        if !fixed && (i == 0 || matches!(node, Node::Pattern(_))) {
            extra += reader.skip_spaces();
        }
        match node {
            Node::Space(_) | Node::Separator(_) if fixed => reader.skip_char(),
            Node::Space(_) | Node::Separator(_) => {
                extra -= 1;
                if reader.peek().is_some_and(|c| c.is_ascii_whitespace() || is_separator(c)) {
                    reader.skip_char();
                    extra += 1;
                }
            }
            Node::Text(_) if !fixed && extra > 0 => extra -= 1,
            Node::Text(_) => reader.skip_char(),
            Node::Pattern(pattern) => {
                if pattern.field == Field::Fixed {
                    fixed = true;
                    continue;
                }
                read_field(&mut reader, &mut found, pattern, nodes.get(i + 1), extra)?;
                if !fixed {
                    extra = reader.skip_spaces();
                }
            }
        }
    }
    Ok(found)
}

fn set_convention(found: &mut Found, field: Field) -> Result<()> {
    let iso = match field {
        Field::IsoYear(_) | Field::IsoWeek | Field::IsoDayOfYear | Field::IsoDayOfWeek => true,
        Field::Year(_)
        | Field::YearWithComma
        | Field::Month
        | Field::MonthName
        | Field::MonthAbbreviation
        | Field::RomanMonth
        | Field::Day
        | Field::DayOfYear
        | Field::DayOfWeek
        | Field::Week
        | Field::WeekOfMonth => false,
        _ => return Ok(()),
    };
    if found.iso.is_some_and(|before| before != iso) {
        return Err(err!(INVALID_DATETIME_FORMAT, "invalid combination of date conventions")
            .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
    }
    found.iso = Some(iso);
    Ok(())
}

/// Two- and three-digit years are those nearest to 2020.
fn near_2020(year: i32) -> i32 {
    match year {
        ..=-1 => year,
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        100..=519 => year + 2000,
        520..=999 => year + 1000,
        _ => year,
    }
}

fn read_field(
    reader: &mut Reader<'_>,
    found: &mut Found,
    pattern: &Pattern,
    next: Option<&Node>,
    extra: i32,
) -> Result<()> {
    set_convention(found, pattern.field)?;
    let width = pattern.text.len();
    match pattern.field {
        Field::Fixed => {}
        Field::Meridiem { dots } => {
            let words: [&str; 4] =
                if dots { ["a.m.", "p.m.", "A.M.", "P.M."] } else { ["am", "pm", "AM", "PM"] };
            let value = reader.word(&words, pattern)?;
            set(&mut found.afternoon, (value % 2) as i32, pattern)?;
            found.twelve_hour_clock = true;
        }
        Field::Era { dots } => {
            let words: [&str; 2] = if dots { ["a.d.", "b.c."] } else { ["ad", "bc"] };
            let value = reader.word(&words, pattern)?;
            set(&mut found.bc, value as i32, pattern)?;
        }
        Field::Hour12 => {
            let (value, _) = reader.integer(2, pattern, next)?;
            set(&mut found.hour, value, pattern)?;
            found.twelve_hour_clock = true;
            reader.skip_ordinal(pattern);
        }
        Field::Hour24 => {
            let (value, _) = reader.integer(2, pattern, next)?;
            set(&mut found.hour, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Minute => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.minute, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Second => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.second, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Millisecond => {
            // The digits are a decimal fraction: `5` is 500 ms.
            let (value, taken) = reader.integer(3, pattern, next)?;
            let scale = match taken {
                1 => 100,
                2 => 10,
                _ => 1,
            };
            set(&mut found.millisecond, value.saturating_mul(scale), pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Microsecond | Field::Fraction(_) => {
            let digits = match pattern.field {
                Field::Fraction(digits) => {
                    found.fraction_digits = digits.into();
                    usize::from(digits)
                }
                _ => 6,
            };
            let (value, taken) = reader.integer(digits, pattern, next)?;
            let scale = 10i32.pow(6u32.saturating_sub(taken as u32));
            set(&mut found.microsecond, value.saturating_mul(scale), pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::SecondsOfDay => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.seconds_of_day, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::ZoneAbbreviation | Field::ZoneOffset => {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "formatting field \"{}\" is only supported in to_char",
                pattern.text
            ));
        }
        Field::ZoneHours => {
            match reader.peek() {
                Some('-') => {
                    found.zone_sign = -1;
                    reader.skip_char();
                }
                Some('+' | ' ') => {
                    found.zone_sign = 1;
                    reader.skip_char();
                }
                // The sign may have been taken for a separator.
                _ if extra > 0 && reader.text[..reader.at].ends_with('-') => found.zone_sign = -1,
                _ => found.zone_sign = 1,
            }
            let (value, _) = reader.integer(2, pattern, next)?;
            set(&mut found.zone_hours, value, pattern)?;
        }
        Field::ZoneMinutes => {
            if found.zone_sign == 0 {
                found.zone_sign = 1;
            }
            let (value, _) = reader.integer(2, pattern, next)?;
            set(&mut found.zone_minutes, value, pattern)?;
        }
        Field::MonthName => {
            let value = reader.word(&MONTHS_FULL, pattern)?;
            set(&mut found.month, value as i32 + 1, pattern)?;
        }
        Field::MonthAbbreviation => {
            let value = reader.word(&MONTHS, pattern)?;
            set(&mut found.month, value as i32 + 1, pattern)?;
        }
        Field::Month => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.month, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::DayName => {
            let value = reader.word(&DAYS, pattern)?;
            set(&mut found.day_of_week, value as i32 + 1, pattern)?;
        }
        Field::DayAbbreviation => {
            let short: Vec<&str> = DAYS.iter().map(|day| &day[..3]).collect();
            let value = reader.word(&short, pattern)?;
            set(&mut found.day_of_week, value as i32 + 1, pattern)?;
        }
        Field::DayOfYear => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.day_of_year, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::IsoDayOfYear => {
            let (value, _) = reader.integer(3, pattern, next)?;
            set(&mut found.day_of_year, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Day => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.day, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::DayOfWeek => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.day_of_week, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::IsoDayOfWeek => {
            // Monday is 1 here; inside Sunday is.
            let (value, _) = reader.integer(1, pattern, next)?;
            set(&mut found.day_of_week, if value >= 7 { 1 } else { value + 1 }, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Week | Field::IsoWeek => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.week, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Quarter => {
            // Read and ignored: a quarter names no date.
            reader.integer(width, pattern, next)?;
            reader.skip_ordinal(pattern);
        }
        Field::Century => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.century, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::YearWithComma => {
            let year = year_with_comma(reader)
                .ok_or_else(|| err!(INVALID_DATETIME_FORMAT, "invalid input string for \"Y,YYY\""))?;
            set(&mut found.year, year, pattern)?;
            found.year_digits = 4;
            reader.skip_ordinal(pattern);
        }
        Field::Year(digits) | Field::IsoYear(digits) => {
            let (value, taken) = reader.integer(width, pattern, next)?;
            let value = if digits < 4 && taken < 4 { near_2020(value) } else { value };
            set(&mut found.year, value, pattern)?;
            found.year_digits = digits;
            reader.skip_ordinal(pattern);
        }
        Field::RomanMonth => {
            // Longer numerals first, so that `iv` is not read as `i`.
            const ROMAN: [&str; 12] =
                ["xii", "xi", "x", "ix", "viii", "vii", "vi", "v", "iv", "iii", "ii", "i"];
            let value = reader.word(&ROMAN, pattern)?;
            set(&mut found.month, 12 - value as i32, pattern)?;
        }
        Field::WeekOfMonth => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.week_of_month, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
        Field::Julian => {
            let (value, _) = reader.integer(width, pattern, next)?;
            set(&mut found.julian, value, pattern)?;
            reader.skip_ordinal(pattern);
        }
    }
    Ok(())
}

/// `2,020`
fn year_with_comma(reader: &mut Reader<'_>) -> Option<i32> {
    let (thousands, rest) = reader.rest().split_once(',')?;
    let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
    let year =
        thousands.trim().parse::<i32>().ok()?.checked_mul(1000)?.checked_add(rest[..digits].parse().ok()?)?;
    reader.at += thousands.len() + 1 + digits;
    Some(year)
}

/// Local time, offset east of UTC if the text has one, digits of FFn.
struct Moment {
    civil: Civil,
    seconds_east: Option<i32>,
    fraction_digits: i32,
}

/// Makes a date and time of what was found (manual: usage notes of section 9.8).
fn assembled(mut found: Found, text: &str) -> Result<Moment> {
    let out_of_range = || err!(DATETIME_FIELD_OVERFLOW, "date/time field value out of range: \"{text}\"");
    let iso = found.iso == Some(true);
    let mut civil = Civil { year: 0, month: 1, day: 1, ..Civil::default() };
    if found.seconds_of_day != 0 {
        civil.hour = found.seconds_of_day / 3600;
        civil.minute = found.seconds_of_day / 60 % 60;
        civil.second = found.seconds_of_day % 60;
    }
    for (target, value) in
        [(&mut civil.second, found.second), (&mut civil.minute, found.minute), (&mut civil.hour, found.hour)]
    {
        if value != 0 {
            *target = value;
        }
    }
    if found.twelve_hour_clock {
        if !(1..=12).contains(&civil.hour) {
            return Err(err!(
                INVALID_DATETIME_FORMAT,
                "hour \"{}\" is invalid for the 12-hour clock",
                civil.hour
            )
            .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        if found.afternoon != 0 && civil.hour < 12 {
            civil.hour += 12;
        } else if found.afternoon == 0 && civil.hour == 12 {
            civil.hour = 0;
        }
    }
    let bc = found.bc != 0;
    // Which of year, month and day are known.
    let (mut has_year, mut has_month, mut has_day) = (false, false, false);
    if found.year != 0 {
        has_year = true;
        civil.year = year_in_century(&found, bc).ok_or_else(out_of_range)?;
    } else if found.century != 0 {
        has_year = true;
        let century = if bc { -found.century } else { found.century };
        let first = if century >= 0 { century - 1 } else { century };
        civil.year = first.checked_mul(100).and_then(|year| year.checked_add(1)).ok_or_else(out_of_range)?;
    }
    let set_days = |civil: &mut Civil, days: i64| {
        (civil.year, civil.month, civil.day) = civil_from_days(days);
    };
    if found.julian != 0 {
        set_days(&mut civil, i64::from(found.julian) - i64::from(POSTGRES_EPOCH_JULIAN));
        (has_year, has_month, has_day) = (true, true, true);
    }
    if found.week != 0 {
        if iso {
            let monday = iso_year_start(civil.year) + (i64::from(found.week) - 1) * 7;
            let weekday = match found.day_of_week {
                0 | 2 => 0,
                1 => 6,
                day => i64::from(day) - 2,
            };
            set_days(&mut civil, monday + weekday);
            (has_year, has_month, has_day) = (true, true, true);
        } else {
            found.day_of_year = found.week.saturating_sub(1).saturating_mul(7).saturating_add(1);
        }
    }
    if found.week_of_month != 0 {
        found.day = found.week_of_month.saturating_sub(1).saturating_mul(7).saturating_add(1);
    }
    if found.day != 0 {
        civil.day = found.day;
        has_day = true;
    }
    if found.month != 0 {
        civil.month = found.month;
        has_month = true;
    }
    if found.day_of_year != 0 && (civil.month <= 1 || civil.day <= 1) {
        if civil.year == 0 && !bc {
            return Err(err!(
                INVALID_DATETIME_FORMAT,
                "cannot calculate day of year without year information"
            ));
        }
        if iso {
            let before = iso_year_start(civil.year) - 1;
            set_days(&mut civil, before + i64::from(found.day_of_year));
        } else {
            let (month, day) = month_of_day(civil.year, found.day_of_year);
            if civil.month <= 1 {
                civil.month = month;
            }
            if civil.day <= 1 {
                civil.day = day;
            }
        }
        (has_month, has_day) = (true, true);
    }
    let us = i64::from(found.millisecond) * 1000 + i64::from(found.microsecond);
    civil.us = i32::try_from(us).map_err(|_| out_of_range())?;
    let bad_month = has_month && !(1..=12).contains(&civil.month);
    let bad_day = has_day && !(1..=31).contains(&civil.day);
    if bad_month
        || bad_day
        || (has_year && has_month && has_day && civil.day > days_in_month(civil.year, civil.month))
    {
        return Err(out_of_range());
    }
    let in_clock = (0..24).contains(&civil.hour)
        && (0..60).contains(&civil.minute)
        && (0..60).contains(&civil.second)
        && (0..1_000_000).contains(&civil.us);
    if !in_clock {
        return Err(out_of_range());
    }
    let seconds_east = match found.zone_sign {
        0 => None,
        sign => {
            if !(0..=15).contains(&found.zone_hours) || !(0..60).contains(&found.zone_minutes) {
                return Err(out_of_range());
            }
            Some(sign * (found.zone_hours * 3600 + found.zone_minutes * 60))
        }
    };
    Ok(Moment { civil, seconds_east, fraction_digits: found.fraction_digits })
}

/// The astronomical year; with CC, YY and Y are a century's years.
fn year_in_century(found: &Found, bc: bool) -> Option<i32> {
    if found.century != 0 && found.year_digits <= 2 {
        let century = if bc { -found.century } else { found.century };
        let year = found.year % 100;
        return if year == 0 {
            century.checked_mul(100)?.checked_add(if century >= 0 { 0 } else { 1 })
        } else if century >= 0 {
            (century - 1).checked_mul(100)?.checked_add(year)
        } else {
            (century + 1).checked_mul(100)?.checked_sub(year)?.checked_add(1)
        };
    }
    let year = if bc { found.year.checked_neg()? } else { found.year };
    Some(if year < 0 { year + 1 } else { year })
}

/// Month and day of a day of the year; the 13th month is the caller's error.
fn month_of_day(year: i32, day_of_year: i32) -> (i32, i32) {
    let mut rest = day_of_year;
    for month in 1..=12 {
        let length = if month == 2 { 28 + i32::from(is_leap(year)) } else { days_in_month(year, month) };
        if rest <= length {
            return (month, rest);
        }
        rest -= length;
    }
    (13, rest)
}

pub fn to_timestamp(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (text, template) = (args.str(0)?, args.str(1)?);
    let moment = assembled(read(text, &parse(template))?, text)?;
    let civil = &moment.civil;
    if !is_valid_julian(civil.year, civil.month) {
        return Err(timestamp_out_of_range());
    }
    let time_us =
        cairn_types::datetime::calendar::join_time(civil.hour, civil.minute, civil.second, civil.us);
    let local_us = days_from_civil(civil.year, civil.month, civil.day)
        .checked_mul(86_400 * US_PER_SECOND)
        .and_then(|us| us.checked_add(time_us))
        .ok_or_else(timestamp_out_of_range)?;
    let seconds_east = match moment.seconds_east {
        Some(seconds_east) => seconds_east,
        None => offset_of_local(&call.env.format().time_zone, local_us),
    };
    let utc_us = local_us
        .checked_sub(i64::from(seconds_east) * US_PER_SECOND)
        .and_then(in_timestamp_range)
        .ok_or_else(timestamp_out_of_range)?;
    let typmod = if moment.fraction_digits > 0 { moment.fraction_digits } else { -1 };
    adjust_timestamp(utc_us, typmod).map(Datum::TimestampTz)
}

pub fn to_date(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (text, template) = (args.str(0)?, args.str(1)?);
    let Civil { year, month, day, .. } = assembled(read(text, &parse(template))?, text)?.civil;
    let days = is_valid_julian(year, month).then(|| days_from_civil(year, month, day));
    days.and_then(in_date_range)
        .map(Datum::Date)
        .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "date out of range: \"{text}\""))
}
