//! The field names that extract, date_part and date_trunc take.

use cairn_types::{Error, err};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

/// Only the first ten letters of a name count.
const SIGNIFICANT: usize = 10;

impl Unit {
    pub fn parse(name: &str) -> Option<Unit> {
        let lower = name.to_ascii_lowercase();
        Some(match lower.get(..SIGNIFICANT).unwrap_or(&lower) {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microseconds,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Milliseconds,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "qtr" | "quarter" => Unit::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
            "j" | "jd" | "julian" => Unit::Julian,
            "isoyear" => Unit::IsoYear,
            "dow" => Unit::Dow,
            "isodow" => Unit::IsoDow,
            "doy" => Unit::Doy,
            "epoch" => Unit::Epoch,
            "timezone" => Unit::Timezone,
            "timezone_h" => Unit::TimezoneHour,
            "timezone_m" => Unit::TimezoneMinute,
            _ => return None,
        })
    }

    /// A unit that is a span of time, which date_trunc can cut to.
    pub fn parse_span(name: &str) -> Option<Unit> {
        let is_point = |unit: &Unit| {
            matches!(unit, Unit::Julian | Unit::IsoYear | Unit::Dow | Unit::IsoDow | Unit::Doy | Unit::Epoch)
        };
        Unit::parse(name).filter(|unit| !is_point(unit))
    }
}

pub fn not_recognized(name: &str, type_name: &str) -> Error {
    let name = name.to_ascii_lowercase();
    err!(INVALID_PARAMETER_VALUE, "unit \"{name}\" not recognized for type {type_name}")
}

pub fn not_supported(name: &str, type_name: &str) -> Error {
    let name = name.to_ascii_lowercase();
    err!(FEATURE_NOT_SUPPORTED, "unit \"{name}\" not supported for type {type_name}")
}
