//! Reading dates and times: the grammar of the manual's appendix B.1.
//!
//! Text is split into fields ([`super::token`]); each field then says what it is by its form, and, for bare
//! numbers, by what is still missing and by the order of DateStyle. A part that is given twice is an error.

use super::calendar::{
    Civil, DATE_INFINITY, DATE_NEG_INFINITY, POSTGRES_EPOCH_JULIAN, TIMESTAMP_INFINITY,
    TIMESTAMP_NEG_INFINITY, US_PER_DAY, US_PER_SECOND, civil_from_days, civil_from_timestamp,
    days_from_civil, days_in_month, in_date_range, in_timestamp_range, is_valid_julian, join_time,
    split_time, timestamp_from_civil,
};
use super::token::{Field, split};
use super::zone::{NamedZone, abbreviation, is_constant, offset_at, offset_of_local, zone_by_name};
use crate::{DateOrder, Error, FormatSettings, Result, TimeTz, err};

/// Why a text is not a value; [`Failure::error`] makes PostgreSQL's error of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Format,
    Field,
    /// A field out of range that another order of day and month may repair.
    MonthOrDay,
    Interval,
    ZoneOffset,
}

impl Failure {
    pub fn error(self, type_name: &str, text: &str) -> Error {
        match self {
            Failure::Format => {
                err!(INVALID_DATETIME_FORMAT, "invalid input syntax for type {type_name}: \"{text}\"")
            }
            Failure::Field => {
                err!(DATETIME_FIELD_OVERFLOW, "date/time field value out of range: \"{text}\"")
            }
            Failure::MonthOrDay => {
                err!(DATETIME_FIELD_OVERFLOW, "date/time field value out of range: \"{text}\"")
                    .hint("Perhaps you need a different \"datestyle\" setting.")
            }
            Failure::Interval => {
                err!(INTERVAL_FIELD_OVERFLOW, "interval field value out of range: \"{text}\"")
            }
            Failure::ZoneOffset => {
                err!(INVALID_TIME_ZONE_DISPLACEMENT_VALUE, "time zone displacement out of range: \"{text}\"")
            }
        }
    }
}

/// Either a reason that names the whole input, or a finished error (an unknown zone).
enum Stop {
    Because(Failure),
    Error(Error),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Because(failure)
    }
}

type Parsed<T> = std::result::Result<T, Stop>;

fn report<T>(parsed: Parsed<T>, type_name: &str, text: &str) -> Result<T> {
    parsed.map_err(|stop| match stop {
        Stop::Because(failure) => failure.error(type_name, text),
        Stop::Error(error) => error,
    })
}

// The parts of a value that have been seen, as bits.
const YEAR: u32 = 1;
const MONTH: u32 = 1 << 1;
const DAY: u32 = 1 << 2;
const HOUR: u32 = 1 << 3;
const MINUTE: u32 = 1 << 4;
const SECOND: u32 = 1 << 5;
const ZONE: u32 = 1 << 6;
const SUMMER: u32 = 1 << 7;
const ZONE_ABBREVIATION: u32 = 1 << 8;
const WEEKDAY: u32 = 1 << 9;
const DAY_OF_YEAR: u32 = 1 << 10;
const MERIDIEM: u32 = 1 << 11;
const ERA: u32 = 1 << 12;
const ISO_TIME: u32 = 1 << 13;
const DATE: u32 = YEAR | MONTH | DAY;
const TIME: u32 = HOUR | MINUTE | SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Epoch,
    Infinity,
    NegInfinity,
}

/// What the next bare number is, after a unit letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Zulu,
    Special(Special),
    Month(i32),
    Weekday,
    Am,
    Pm,
    Ad,
    Bc,
    Summer,
    Unit(Unit),
    Ignored,
}

fn known_word(word: &str) -> Option<Word> {
    Some(match word {
        "now" => Word::Now,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "yesterday" => Word::Yesterday,
        "allballs" => Word::Zulu,
        "epoch" => Word::Special(Special::Epoch),
        "infinity" | "+infinity" => Word::Special(Special::Infinity),
        "-infinity" => Word::Special(Special::NegInfinity),
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday"
        | "thu" | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "am" => Word::Am,
        "pm" => Word::Pm,
        "ad" => Word::Ad,
        "bc" => Word::Bc,
        "dst" => Word::Summer,
        "y" => Word::Unit(Unit::Year),
        "m" => Word::Unit(Unit::Month),
        "d" => Word::Unit(Unit::Day),
        "h" => Word::Unit(Unit::Hour),
        "mm" => Word::Unit(Unit::Minute),
        "s" => Word::Unit(Unit::Second),
        "j" | "jd" | "julian" => Word::Unit(Unit::Julian),
        "t" => Word::Unit(Unit::Time),
        "at" | "on" => Word::Ignored,
        _ => return None,
    })
}

/// Whether letters before digits or a plus are a word of their own rather than the start of a zone name.
pub(super) fn ends_word(word: &str) -> bool {
    known_word(word).is_some()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Meridiem {
    Am,
    Pm,
}

/// The time zone that the text names.
#[derive(Clone, Debug)]
enum Zone {
    Offset(i32),
    Named(NamedZone),
}

/// A value in the making.
struct Decoder<'a> {
    settings: &'a FormatSettings,
    now_us: i64,
    civil: Civil,
    seen: u32,
    two_digit_year: bool,
    text_month: bool,
    bc: bool,
    meridiem: Option<Meridiem>,
    julian: bool,
    day_of_year: i32,
    zone: Option<Zone>,
    special: Option<Special>,
}

impl<'a> Decoder<'a> {
    fn new(settings: &'a FormatSettings, now_us: i64) -> Self {
        Decoder {
            settings,
            now_us,
            civil: Civil::default(),
            seen: 0,
            two_digit_year: false,
            text_month: false,
            bc: false,
            meridiem: None,
            julian: false,
            day_of_year: 0,
            zone: None,
            special: None,
        }
    }

    /// Notes parts as seen; a part that is there already is an error.
    fn see(&mut self, parts: u32) -> Parsed<()> {
        if self.seen & parts != 0 {
            return Err(Failure::Format.into());
        }
        self.seen |= parts;
        Ok(())
    }

    fn set_today(&mut self, days_ahead: i64) {
        let local_us = self.local_now();
        let days = local_us.div_euclid(US_PER_DAY) + days_ahead;
        (self.civil.year, self.civil.month, self.civil.day) = civil_from_days(days);
    }

    fn local_now(&self) -> i64 {
        self.now_us + i64::from(offset_at(&self.settings.time_zone, self.now_us)) * US_PER_SECOND
    }

    /// `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`; `mm:ss.fff` too.
    fn time(&mut self, text: &str) -> Parsed<()> {
        let time = decode_clock(text).ok_or(Failure::Format)?;
        (self.civil.hour, self.civil.minute, self.civil.second, self.civil.us) =
            time.fields().ok_or(Failure::Field)?;
        Ok(())
    }

    /// A date whose parts are joined by marks.
    fn date(&mut self, text: &str) -> Parsed<()> {
        let mut parts: Vec<&str> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) else { break };
            rest = &rest[start..];
            let digits = rest.starts_with(|c: char| c.is_ascii_digit());
            let end = rest
                .find(|c: char| if digits { !c.is_ascii_digit() } else { !c.is_ascii_alphabetic() })
                .unwrap_or(rest.len());
            parts.push(&rest[..end]);
            rest = &rest[end..];
        }
        if parts.len() > 3 && parts.iter().filter(|part| known_word(part) != Some(Word::Ignored)).count() > 3
        {
            return Err(Failure::Format.into());
        }
        let mut numbers = Vec::new();
        for part in parts {
            if part.starts_with(|c: char| c.is_ascii_alphabetic()) {
                match known_word(part) {
                    Some(Word::Ignored) => continue,
                    Some(Word::Month(month)) => {
                        self.see(MONTH)?;
                        self.civil.month = month;
                        self.text_month = true;
                    }
                    _ => return Err(Failure::Format.into()),
                }
            } else {
                numbers.push(part);
            }
        }
        for number in numbers {
            let parts = self.number(number)?;
            self.see(parts)?;
        }
        // A joined date stands before the time, and alone makes the date complete.
        if self.seen & !(DAY_OF_YEAR | ZONE | ZONE_ABBREVIATION) != DATE {
            return Err(Failure::Format.into());
        }
        Ok(())
    }

    /// A bare number; returns the parts that it is.
    fn number(&mut self, text: &str) -> Parsed<u32> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if text[digits..].starts_with('.') && digits > 2 {
            // More than two digits before the point can only be a run-together time.
            return self.number_field(text, self.seen | DATE);
        }
        let value: i32 =
            text[..digits].parse().map_err(|_| if digits == 0 { Failure::Format } else { Failure::Field })?;
        if text[digits..].starts_with('.') {
            self.civil.us = fraction_us(&text[digits..]).ok_or(Failure::Format)?;
        }
        if digits == 3 && self.seen & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let order = self.settings.date_order;
        let year_first = digits >= 3 || order == DateOrder::Ymd;
        let part = match self.seen & DATE {
            0 if year_first => YEAR,
            0 if order == DateOrder::Dmy => DAY,
            0 => MONTH,
            YEAR => MONTH,
            MONTH if self.text_month && year_first => YEAR,
            MONTH => DAY,
            DAY => MONTH,
            seen if seen == YEAR | MONTH => {
                if self.text_month && digits >= 3 && self.two_digit_year {
                    // `08-JAN-1999` read in year-first order: what looked like the year is the day.
                    self.civil.day = self.civil.year;
                    self.civil.year = value;
                    self.two_digit_year = false;
                    return Ok(DAY);
                }
                DAY
            }
            seen if seen == MONTH | DAY => YEAR,
            DATE => return self.number_field(text, self.seen),
            _ => return Err(Failure::Format.into()),
        };
        match part {
            YEAR => {
                self.civil.year = value;
                self.two_digit_year = digits <= 2;
            }
            MONTH => self.civil.month = value,
            _ => self.civil.day = value,
        }
        Ok(part)
    }

    /// Run-together digits: `19990108`, `990108`, `040506.789`, `0405`.
    fn number_field(&mut self, text: &str, seen: u32) -> Parsed<u32> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let part = |from: usize, to: usize| -> Parsed<i32> {
            text.get(from..to).and_then(|part| part.parse().ok()).ok_or(Stop::Because(Failure::Field))
        };
        if text[digits..].starts_with('.') {
            self.civil.us = fraction_us(&text[digits..]).ok_or(Failure::Format)?;
        } else if seen & DATE != DATE && digits >= 6 {
            self.civil.day = part(digits - 2, digits)?;
            self.civil.month = part(digits - 4, digits - 2)?;
            self.civil.year = part(0, digits - 4)?;
            self.two_digit_year = digits - 4 == 2;
            return Ok(DATE);
        }
        if seen & TIME != TIME {
            if digits == 6 {
                self.civil.hour = part(0, 2)?;
                self.civil.minute = part(2, 4)?;
                self.civil.second = part(4, 6)?;
                return Ok(TIME);
            }
            if digits == 4 {
                self.civil.hour = part(0, 2)?;
                self.civil.minute = part(2, 4)?;
                self.civil.second = 0;
                return Ok(TIME);
            }
        }
        Err(Failure::Format.into())
    }

    /// A number after a unit letter: `j2451187`, `t040506`, `y2001m02d04`.
    fn unit_number(&mut self, unit: Unit, text: &str) -> Parsed<()> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let value: i32 = text[..digits].parse().map_err(|_| Failure::Field)?;
        let fraction = &text[digits..];
        if !fraction.is_empty() && !matches!(unit, Unit::Julian | Unit::Time | Unit::Second) {
            return Err(Failure::Format.into());
        }
        match unit {
            Unit::Year => {
                self.see(YEAR)?;
                self.civil.year = value;
            }
            // A month after an hour is a minute.
            Unit::Month if self.seen & (MONTH | HOUR) == MONTH | HOUR => {
                self.see(MINUTE)?;
                self.civil.minute = value;
            }
            Unit::Month => {
                self.see(MONTH)?;
                self.civil.month = value;
            }
            Unit::Day => {
                self.see(DAY)?;
                self.civil.day = value;
            }
            Unit::Hour => {
                self.see(HOUR)?;
                self.civil.hour = value;
            }
            Unit::Minute => {
                self.see(MINUTE)?;
                self.civil.minute = value;
            }
            Unit::Second => {
                self.see(SECOND)?;
                self.civil.second = value;
                if !fraction.is_empty() {
                    self.civil.us = fraction_us(fraction).ok_or(Failure::Format)?;
                }
            }
            Unit::Julian => {
                self.see(DATE)?;
                let days = i64::from(value) - i64::from(POSTGRES_EPOCH_JULIAN);
                (self.civil.year, self.civil.month, self.civil.day) = civil_from_days(days);
                self.julian = true;
                if !fraction.is_empty() {
                    self.see(TIME)?;
                    let part: f64 = format!("0{fraction}").parse().map_err(|_| Failure::Format)?;
                    let us = (part * US_PER_DAY as f64).round_ties_even() as i64;
                    (self.civil.hour, self.civil.minute, self.civil.second, self.civil.us) = split_time(us);
                }
            }
            Unit::Time => {
                let parts = self.number_field(text, self.seen | DATE)?;
                if parts != TIME {
                    return Err(Failure::Format.into());
                }
                self.see(TIME)?;
            }
        }
        Ok(())
    }

    /// A word; returns the unit that the next number has, if the word says so.
    fn word(&mut self, word: &str) -> Parsed<Option<Unit>> {
        // An abbreviation of the zone set wins over the language's words, as in PostgreSQL.
        if let Some(zone) = abbreviation(word) {
            return self.abbreviated_zone(zone);
        }
        match known_word(word) {
            Some(Word::Now) => {
                self.see(DATE | TIME | ZONE)?;
                self.civil = civil_from_timestamp(self.local_now());
                self.zone = Some(Zone::Offset(offset_at(&self.settings.time_zone, self.now_us)));
            }
            Some(Word::Today) => {
                self.see(DATE)?;
                self.set_today(0);
            }
            Some(Word::Tomorrow) => {
                self.see(DATE)?;
                self.set_today(1);
            }
            Some(Word::Yesterday) => {
                self.see(DATE)?;
                self.set_today(-1);
            }
            Some(Word::Zulu) => {
                self.see(TIME | ZONE)?;
                (self.civil.hour, self.civil.minute, self.civil.second, self.civil.us) = (0, 0, 0, 0);
                self.zone = Some(Zone::Offset(0));
            }
            Some(Word::Special(special)) => {
                if self.special.is_some() {
                    return Err(Failure::Format.into());
                }
                self.special = Some(special);
            }
            Some(Word::Month(month)) => {
                // `01 jan 1999` in month-first order: the number that came first was the day.
                if self.seen & MONTH != 0
                    && !self.text_month
                    && self.seen & DAY == 0
                    && (1..=31).contains(&self.civil.month)
                {
                    self.civil.day = self.civil.month;
                    self.seen = self.seen & !MONTH | DAY;
                }
                self.text_month = true;
                self.see(MONTH)?;
                self.civil.month = month;
            }
            Some(Word::Weekday) => self.see(WEEKDAY)?,
            Some(Word::Am) => {
                self.see(MERIDIEM)?;
                self.meridiem = Some(Meridiem::Am);
            }
            Some(Word::Pm) => {
                self.see(MERIDIEM)?;
                self.meridiem = Some(Meridiem::Pm);
            }
            Some(Word::Ad) => self.see(ERA)?,
            Some(Word::Bc) => {
                self.see(ERA)?;
                self.bc = true;
            }
            Some(Word::Summer) => {
                self.see(SUMMER)?;
                match &mut self.zone {
                    Some(Zone::Offset(seconds_east)) => *seconds_east += 3600,
                    Some(Zone::Named(NamedZone::Fixed { seconds_east })) => *seconds_east += 3600,
                    _ => return Err(Failure::Format.into()),
                }
            }
            Some(Word::Unit(Unit::Time)) => {
                // Only a date may stand before it.
                if self.seen & DATE != DATE {
                    return Err(Failure::Format.into());
                }
                self.see(ISO_TIME)?;
                return Ok(Some(Unit::Time));
            }
            Some(Word::Unit(unit)) => return Ok(Some(unit)),
            Some(Word::Ignored) => {}
            None => self.zone_name(word)?,
        }
        Ok(None)
    }

    fn abbreviated_zone(&mut self, zone: NamedZone) -> Parsed<Option<Unit>> {
        // An offset after it refines it: `gmt+8` style texts arrive as two fields.
        self.see(ZONE | ZONE_ABBREVIATION)?;
        self.zone = Some(Zone::Named(zone));
        Ok(None)
    }

    /// A full zone name; an unknown one that looks like a name has an error of its own.
    fn zone_name(&mut self, name: &str) -> Parsed<()> {
        match zone_by_name(name) {
            Some(zone) => {
                self.see(ZONE)?;
                self.zone = Some(Zone::Named(NamedZone::Full(zone)));
                Ok(())
            }
            None => Err(Failure::Format.into()),
        }
    }

    fn offset(&mut self, text: &str) -> Parsed<()> {
        let seconds_east = decode_offset(text)?;
        // `EST+3` in separate fields is refused as a second zone.
        self.see(ZONE)?;
        self.zone = Some(Zone::Offset(seconds_east));
        Ok(())
    }

    /// `040506-08`: a run-together time with its offset.
    fn time_with_offset(&mut self, text: &str) -> Parsed<()> {
        let split = text.find(['-', '+']).ok_or(Failure::Format)?;
        let parts = self.number_field(&text[..split], self.seen | DATE)?;
        if parts != TIME {
            return Err(Failure::Format.into());
        }
        self.see(TIME)?;
        self.offset(&text[split..])
    }

    /// Checks that the time is within the day: 24:00 is the day's end.
    fn check_hour(&self) -> Parsed<()> {
        let Civil { hour, minute, second, us, .. } = self.civil;
        if hour > 24 || join_time(hour, minute, second, us) > US_PER_DAY {
            return Err(Failure::Field.into());
        }
        Ok(())
    }

    fn apply_meridiem(&mut self) -> Parsed<()> {
        let Some(meridiem) = &self.meridiem else { return Ok(()) };
        if self.civil.hour > 12 {
            return Err(Failure::Field.into());
        }
        match meridiem {
            Meridiem::Am if self.civil.hour == 12 => self.civil.hour = 0,
            Meridiem::Pm if self.civil.hour != 12 => self.civil.hour += 12,
            _ => {}
        }
        Ok(())
    }

    /// Two-digit years, BC, days of the year; then month and day must exist.
    fn validate_date(&mut self) -> Parsed<()> {
        let civil = &mut self.civil;
        if self.seen & YEAR != 0 && !self.julian {
            if self.bc {
                if civil.year <= 0 {
                    return Err(Failure::Field.into());
                }
                civil.year = 1 - civil.year;
            } else if self.two_digit_year {
                if civil.year < 0 {
                    return Err(Failure::Field.into());
                }
                civil.year += if civil.year < 70 { 2000 } else { 1900 };
            } else if civil.year <= 0 {
                return Err(Failure::Field.into());
            }
        }
        if self.seen & DAY_OF_YEAR != 0 {
            let days = days_from_civil(civil.year, 1, self.day_of_year);
            (civil.year, civil.month, civil.day) = civil_from_days(days);
        }
        if self.seen & MONTH != 0 && !(1..=12).contains(&civil.month) {
            return Err(Failure::MonthOrDay.into());
        }
        if self.seen & DAY != 0 && !(1..=31).contains(&civil.day) {
            return Err(Failure::MonthOrDay.into());
        }
        if self.seen & DATE == DATE && civil.day > days_in_month(civil.year, civil.month) {
            return Err(Failure::Field.into());
        }
        Ok(())
    }

    /// Seconds east of UTC that the finished local time has.
    fn seconds_east(&self) -> i32 {
        match &self.zone {
            Some(Zone::Offset(seconds_east)) => *seconds_east,
            Some(Zone::Named(zone)) => zone.offset_of_local(self.local_us()),
            None => offset_of_local(&self.settings.time_zone, self.local_us()),
        }
    }

    /// The local time for asking zones, wherever it lies.
    fn local_us(&self) -> i64 {
        let Civil { year, month, day, hour, minute, second, us } = self.civil;
        if !is_valid_julian(year, month) {
            return 0;
        }
        days_from_civil(year, month, day)
            .saturating_mul(US_PER_DAY)
            .saturating_add(join_time(hour, minute, second, us))
    }

    /// Reads the fields of a date or timestamp.
    fn decode(&mut self, fields: Vec<Field>) -> Parsed<()> {
        if fields.is_empty() {
            return Err(Failure::Format.into());
        }
        let mut unit: Option<Unit> = None;
        for field in fields {
            match field {
                Field::Date(text) => {
                    let starts_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
                    if unit == Some(Unit::Julian) {
                        // `j2451187-0800`: a Julian day with a zone.
                        let split = text.find(['-', '/', '.']).ok_or(Failure::Format)?;
                        self.unit_number(Unit::Julian, &text[..split])?;
                        self.see(TIME)?;
                        self.offset(&text[split..])?;
                        unit = None;
                    } else if unit.is_some() || self.seen & (MONTH | DAY) == MONTH | DAY {
                        // With the date complete this is a zone name or `hhmmss-zz`.
                        if starts_with_digit || unit.is_some() {
                            if unit.take().is_some_and(|unit| unit != Unit::Time) {
                                return Err(Failure::Format.into());
                            }
                            if self.seen & TIME != 0 && starts_with_digit {
                                return Err(Failure::Format.into());
                            }
                            self.time_with_offset(&text)?;
                        } else {
                            self.full_zone_name(&text)?;
                        }
                    } else {
                        self.date(&text)?;
                    }
                }
                Field::Time(text) => {
                    if unit.take().is_some_and(|unit| unit != Unit::Time) {
                        return Err(Failure::Format.into());
                    }
                    self.see(TIME)?;
                    self.time(&text)?;
                    self.check_hour()?;
                }
                Field::Offset(text) => {
                    if unit.is_some() {
                        return Err(Failure::Format.into());
                    }
                    self.offset(&text)?;
                }
                Field::Number(text) => match unit.take() {
                    Some(unit) => self.unit_number(unit, &text)?,
                    None => self.bare_number(&text)?,
                },
                Field::Word(word) => match self.word(&word) {
                    Ok(next) => unit = next,
                    Err(stop) => return Err(stop),
                },
                Field::SignedWord(word) => match known_word(&word) {
                    Some(Word::Special(_)) => unit = self.word(&word)?,
                    _ => return Err(Failure::Format.into()),
                },
            }
        }
        if unit.is_some() {
            return Err(Failure::Format.into());
        }
        if self.special.is_some() {
            return Ok(());
        }
        self.validate_date()?;
        self.apply_meridiem()?;
        if self.seen & DATE != DATE {
            return Err(Failure::Format.into());
        }
        Ok(())
    }

    fn full_zone_name(&mut self, text: &str) -> Parsed<()> {
        let Some(zone) = zone_by_name(text) else {
            return Err(Stop::Error(err!(INVALID_PARAMETER_VALUE, "time zone \"{text}\" not recognized")));
        };
        self.see(ZONE)?;
        self.zone = Some(Zone::Named(NamedZone::Full(zone)));
        Ok(())
    }

    fn bare_number(&mut self, text: &str) -> Parsed<()> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let has_point = text[digits..].starts_with('.');
        if has_point && self.seen & DATE == 0 {
            // `1999.123` is a year and its day.
            return self.date(text);
        }
        // Six digits and more are a whole date or time, as long as one of them is missing.
        let run_together = digits >= 6 && (self.seen & DATE == 0 || self.seen & TIME == 0);
        let is_field = if has_point { digits > 2 } else { run_together };
        let parts = if is_field { self.number_field(text, self.seen)? } else { self.number(text)? };
        self.see(parts)?;
        Ok(())
    }

    fn check_clock(&self) -> Parsed<()> {
        let Civil { minute, second, .. } = self.civil;
        if !(0..60).contains(&minute) || !(0..=60).contains(&second) {
            return Err(Failure::Field.into());
        }
        self.check_hour()
    }

    /// Reads the fields of a time of day; a date may stand beside it, for the sake of its zone.
    fn decode_time(&mut self, fields: Vec<Field>) -> Parsed<()> {
        if fields.is_empty() {
            return Err(Failure::Format.into());
        }
        let count = fields.len();
        let second_is_time = matches!(fields.get(1), Some(Field::Time(_)));
        let last_is_date = matches!(fields.last(), Some(Field::Date(_)));
        let mut unit: Option<Unit> = None;
        for (i, field) in fields.into_iter().enumerate() {
            match field {
                Field::Date(text) => {
                    if i == 0 && count >= 2 && (last_is_date || second_is_time) {
                        self.date(&text)?;
                    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
                        if unit.take().is_some_and(|unit| unit != Unit::Time) {
                            return Err(Failure::Format.into());
                        }
                        self.time_with_offset(&text)?;
                    } else {
                        self.full_zone_name(&text)?;
                    }
                }
                Field::Time(text) => {
                    if unit.take().is_some_and(|unit| unit != Unit::Time) {
                        return Err(Failure::Format.into());
                    }
                    self.see(TIME)?;
                    self.time(&text)?;
                }
                Field::Offset(text) => self.offset(&text)?,
                Field::Number(text) => match unit.take() {
                    Some(unit) => self.unit_number(unit, &text)?,
                    None => {
                        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                        let parts = if i == 0 && count >= 2 && last_is_date && digits < text.len() {
                            self.number_field(&text, self.seen)?
                        } else {
                            self.number_field(&text, self.seen | DATE)?
                        };
                        self.see(parts)?;
                    }
                },
                Field::Word(word) => match known_word(&word) {
                    Some(Word::Unit(Unit::Time)) => unit = Some(Unit::Time),
                    Some(Word::Now) => {
                        self.see(TIME)?;
                        let local = civil_from_timestamp(self.local_now());
                        (self.civil.hour, self.civil.minute, self.civil.second, self.civil.us) =
                            (local.hour, local.minute, local.second, local.us);
                    }
                    Some(
                        Word::Month(_) | Word::Today | Word::Tomorrow | Word::Yesterday | Word::Special(_),
                    ) => {
                        return Err(Failure::Format.into());
                    }
                    _ => unit = self.word(&word)?,
                },
                Field::SignedWord(_) => return Err(Failure::Format.into()),
            }
        }
        if unit.is_some() {
            return Err(Failure::Format.into());
        }
        self.validate_date()?;
        self.apply_meridiem()?;
        if self.seen & TIME != TIME {
            return Err(Failure::Format.into());
        }
        self.check_clock()?;
        // A zone with summer time has no offset without a date.
        if self.seen & DATE != DATE
            && let Some(Zone::Named(NamedZone::Full(zone))) = &self.zone
            && !is_constant(zone)
        {
            return Err(Failure::Format.into());
        }
        Ok(())
    }
}

/// A clock reading that may exceed a day, for intervals.
pub(super) struct Clock {
    pub hour: i64,
    pub minute: i32,
    pub second: i32,
    pub us: i32,
}

impl Clock {
    fn fields(&self) -> Option<(i32, i32, i32, i32)> {
        let hour = i32::try_from(self.hour).ok()?;
        self.in_range().then_some((hour, self.minute, self.second, self.us))
    }

    pub fn in_range(&self) -> bool {
        (0..60).contains(&self.minute) && (0..=60).contains(&self.second) && self.hour >= 0
    }
}

/// `None` if the text has not this form; ranges are the caller's.
pub(super) fn decode_clock(text: &str) -> Option<Clock> {
    let (whole, fraction) = match text.find('.') {
        Some(point) => (&text[..point], &text[point..]),
        None => (text, ""),
    };
    let us = if fraction.is_empty() { 0 } else { fraction_us(fraction)? };
    let mut numbers = whole.split(':');
    let hour: i64 = numbers.next()?.parse().ok()?;
    let minute: i32 = match numbers.next()? {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let second: Option<i32> = match numbers.next() {
        None => None,
        Some("") => Some(0),
        Some(digits) => Some(digits.parse().ok()?),
    };
    if numbers.next().is_some() {
        return None;
    }
    match second {
        Some(second) => Some(Clock { hour, minute, second, us }),
        // A fraction belongs to seconds, so what stands before it are minutes and seconds.
        None if !fraction.is_empty() => {
            Some(Clock { hour: 0, minute: i32::try_from(hour).ok()?, second: minute, us })
        }
        None => Some(Clock { hour, minute, second: 0, us: 0 }),
    }
}

/// Microseconds of `.123456789`, rounded.
pub(super) fn fraction_us(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('.')?;
    if digits.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let value: f64 = format!("0.{digits}").parse().ok()?;
    Some((value * 1e6).round_ties_even() as i32)
}

/// Seconds east of UTC of `-08`, `+0530`, `+05:30:15`.
fn decode_offset(text: &str) -> Parsed<i32> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let body = &text[1..];
    let mut numbers = body.split(':');
    let first = numbers.next().unwrap_or_default();
    if first.is_empty() || !first.bytes().all(|c| c.is_ascii_digit()) {
        return Err(Failure::Format.into());
    }
    let mut hour: i64 = first.parse().map_err(|_| Failure::ZoneOffset)?;
    let part = |text: Option<&str>| -> Parsed<i64> {
        match text {
            None => Ok(0),
            Some(digits) if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) => {
                digits.parse().map_err(|_| Failure::ZoneOffset.into())
            }
            Some(_) => Err(Failure::Format.into()),
        }
    };
    let minutes_given = numbers.next();
    let mut minute = part(minutes_given)?;
    let second = part(numbers.next())?;
    if numbers.next().is_some() {
        return Err(Failure::Format.into());
    }
    if minutes_given.is_none() && text.len() > 3 {
        (hour, minute) = (hour / 100, hour % 100);
    }
    if hour > 15 || minute >= 60 || second >= 60 {
        return Err(Failure::ZoneOffset.into());
    }
    Ok(sign * (hour * 3600 + minute * 60 + second) as i32)
}

fn fields(text: &str) -> Parsed<Vec<Field>> {
    split(text, ends_word).ok_or(Failure::Format.into())
}

fn decoded<'a>(text: &str, settings: &'a FormatSettings, now_us: i64) -> Parsed<Decoder<'a>> {
    let mut decoder = Decoder::new(settings, now_us);
    decoder.decode(fields(text)?)?;
    Ok(decoder)
}

/// Input of date (manual, 8.5.1.1): days since 2000-01-01.
pub fn parse_date(text: &str, settings: &FormatSettings, now_us: i64) -> Result<i32> {
    let decoder = report(decoded(text, settings, now_us), "date", text)?;
    match decoder.special {
        Some(Special::Epoch) => return Ok(-10_957),
        Some(Special::Infinity) => return Ok(DATE_INFINITY),
        Some(Special::NegInfinity) => return Ok(DATE_NEG_INFINITY),
        None => {}
    }
    let Civil { year, month, day, .. } = decoder.civil;
    let days = is_valid_julian(year, month).then(|| days_from_civil(year, month, day));
    days.and_then(in_date_range).ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "date out of range: \"{text}\""))
}

/// Input of timestamp: a zone in the text is read and ignored.
pub fn parse_timestamp(text: &str, settings: &FormatSettings, now_us: i64) -> Result<i64> {
    let decoder = report(decoded(text, settings, now_us), "timestamp", text)?;
    match decoder.special {
        Some(Special::Epoch) => return Ok(-UNIX_US),
        Some(Special::Infinity) => return Ok(TIMESTAMP_INFINITY),
        Some(Special::NegInfinity) => return Ok(TIMESTAMP_NEG_INFINITY),
        None => {}
    }
    timestamp_from_civil(&decoder.civil)
        .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "timestamp out of range: \"{text}\""))
}

/// Microseconds from 1970-01-01 to 2000-01-01.
const UNIX_US: i64 = super::calendar::UNIX_TO_POSTGRES_SECONDS * US_PER_SECOND;

/// Input of timestamptz: the moment in UTC, in the session's zone if the text names none.
pub fn parse_timestamptz(text: &str, settings: &FormatSettings, now_us: i64) -> Result<i64> {
    let decoder = report(decoded(text, settings, now_us), "timestamp with time zone", text)?;
    match decoder.special {
        Some(Special::Epoch) => return Ok(-UNIX_US),
        Some(Special::Infinity) => return Ok(TIMESTAMP_INFINITY),
        Some(Special::NegInfinity) => return Ok(TIMESTAMP_NEG_INFINITY),
        None => {}
    }
    let civil = &decoder.civil;
    let local = is_valid_julian(civil.year, civil.month).then(|| decoder.local_us());
    local
        .and_then(|local| local.checked_sub(i64::from(decoder.seconds_east()) * US_PER_SECOND))
        .and_then(in_timestamp_range)
        .ok_or_else(|| err!(DATETIME_FIELD_OVERFLOW, "timestamp out of range: \"{text}\""))
}

fn decoded_time<'a>(text: &str, settings: &'a FormatSettings, now_us: i64) -> Parsed<Decoder<'a>> {
    let mut decoder = Decoder::new(settings, now_us);
    decoder.decode_time(fields(text)?)?;
    Ok(decoder)
}

fn time_us(civil: &Civil) -> i64 {
    join_time(civil.hour, civil.minute, civil.second, civil.us)
}

/// Input of time: a zone in the text is read and ignored.
pub fn parse_time(text: &str, settings: &FormatSettings, now_us: i64) -> Result<i64> {
    let decoder = report(decoded_time(text, settings, now_us), "time", text)?;
    Ok(time_us(&decoder.civil))
}

/// Input of timetz: without a zone in the text, the session's zone on the given or the current date.
pub fn parse_timetz(text: &str, settings: &FormatSettings, now_us: i64) -> Result<TimeTz> {
    let mut decoder = report(decoded_time(text, settings, now_us), "time with time zone", text)?;
    let time_us = time_us(&decoder.civil);
    if decoder.seen & DATE != DATE {
        decoder.set_today(0);
    }
    Ok(TimeTz { time_us, zone_seconds_west: -decoder.seconds_east() })
}
