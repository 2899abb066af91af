//! Time zones: offsets at a moment, from local time to UTC, names and abbreviations.
//!
//! The IANA database comes with the binary, so that two machines give one answer. Abbreviations (`EST`, `CET`)
//! are PostgreSQL's default set (manual, appendix B.4), kept as data.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use jiff::tz::{Offset, TimeZone as Iana, TimeZoneDatabase};

use super::calendar::{UNIX_TO_POSTGRES_SECONDS, US_PER_DAY, US_PER_SECOND, civil_from_days};
use super::posix_zone::{self, Phase, PosixZone};
use crate::{Error, FormatSettings, Result, TimeZone, bail, err};

/// Offset of local time east of UTC at one moment, with what else output needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    pub seconds_east: i32,
    pub is_dst: bool,
    pub abbreviation: String,
}

/// What a zone word in a value or in AT TIME ZONE means.
#[derive(Clone, Debug)]
pub enum NamedZone {
    /// An abbreviation with one meaning, in seconds east of UTC.
    Fixed {
        seconds_east: i32,
    },
    /// An abbreviation whose offset has changed over time: what the zone meant by it at the time in question.
    Dynamic {
        abbreviation: String,
        zone: Iana,
    },
    Full(TimeZone),
}

fn database() -> &'static TimeZoneDatabase {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    DATABASE.get_or_init(TimeZoneDatabase::bundled)
}

enum Abbreviation {
    Fixed(i32),
    Dynamic(&'static str),
}

fn abbreviations() -> &'static HashMap<&'static str, Abbreviation> {
    static TABLE: OnceLock<HashMap<&'static str, Abbreviation>> = OnceLock::new();
    TABLE.get_or_init(|| {
        include_str!("abbreviations.tsv")
            .lines()
            .filter_map(|line| {
                let mut fields = line.split('\t');
                let name = fields.next()?;
                let meaning = fields.next()?;
                let meaning = match meaning.parse() {
                    Ok(seconds_east) => Abbreviation::Fixed(seconds_east),
                    Err(_) => Abbreviation::Dynamic(meaning),
                };
                Some((name, meaning))
            })
            .collect()
    })
}

/// A zone abbreviation, in any case.
pub fn abbreviation(word: &str) -> Option<NamedZone> {
    let upper = word.to_ascii_uppercase();
    match abbreviations().get(upper.as_str())? {
        Abbreviation::Fixed(seconds_east) => Some(NamedZone::Fixed { seconds_east: *seconds_east }),
        Abbreviation::Dynamic(zone) => {
            Some(NamedZone::Dynamic { abbreviation: upper, zone: database().get(zone).ok()? })
        }
    }
}

/// A zone by full name (`Europe/Berlin`, in any case) or POSIX rule (`EST5EDT`, `UTC+3`, `<+03>-03`).
pub fn zone_by_name(name: &str) -> Option<TimeZone> {
    if let Ok(zone) = database().get(name) {
        return Some(TimeZone::Named(zone));
    }
    posix_zone::parse(name).map(|zone| TimeZone::Posix(Arc::new(zone)))
}

/// What `AT TIME ZONE 'word'`, `timezone(word, ...)` and values mean by a zone word: 22023 if nothing.
pub fn named_zone(word: &str) -> Result<NamedZone> {
    if let Some(zone) = abbreviation(word) {
        return Ok(zone);
    }
    match zone_by_name(word) {
        Some(zone) => Ok(NamedZone::Full(zone)),
        None => bail!(INVALID_PARAMETER_VALUE, "time zone \"{word}\" not recognized"),
    }
}

/// What a client may set `timezone` to: hours east of UTC, `interval '...'`, a name, a POSIX rule. `None` if it is not a
/// zone; an error where there is more to say about it, worded as PostgreSQL's checks do, for the setting `setting`.
pub fn check_time_zone(setting: &str, text: &str) -> Result<Option<TimeZone>> {
    let refused = |detail: &str| -> Error {
        err!(INVALID_PARAMETER_VALUE, "invalid value for parameter \"{setting}\": \"{text}\"").detail(detail)
    };
    let at_offset = |seconds_east: i64| match i32::try_from(seconds_east) {
        Ok(seconds_east) if seconds_east.abs() < 168 * 3600 => Ok(Some(TimeZone::Fixed(seconds_east))),
        _ => Err(refused("UTC timezone offset is out of range.")),
    };
    let word = "interval";
    if text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)) {
        let quoted =
            text[word.len()..].trim_start().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        let Some(quoted) = quoted else { return Ok(None) };
        let interval = super::parse_interval(quoted, &FormatSettings::default(), -1)?;
        if interval.months != 0 {
            return Err(refused("Cannot specify months in time zone interval."));
        }
        if interval.days != 0 {
            return Err(refused("Cannot specify days in time zone interval."));
        }
        return at_offset(interval.time_us / US_PER_SECOND);
    }
    if let Some(hours) = text.trim_start().parse::<f64>().ok().filter(|hours| !hours.is_nan()) {
        return at_offset((hours * 3600.0) as i64);
    }
    let Some(zone) = zone_by_name(text) else { return Ok(None) };
    // At 2000-01-01, as PostgreSQL looks at it.
    if offset_at(&zone, 0) % 60 != 0 {
        return Err(err!(INVALID_PARAMETER_VALUE, "time zone \"{text}\" appears to use leap seconds")
            .detail("PostgreSQL does not support leap seconds."));
    }
    Ok(Some(zone))
}

/// The zone as SHOW prints it.
pub fn time_zone_name(zone: &TimeZone) -> String {
    match zone {
        TimeZone::Named(zone) => zone.iana_name().unwrap_or("UTC").to_owned(),
        TimeZone::Posix(zone) => zone.name.clone(),
        TimeZone::Fixed(seconds_east) => {
            let east = offset_digits(*seconds_east);
            let west = offset_digits(-seconds_east);
            format!("<{east}>{west}")
        }
    }
}

/// `+05:30`: hours always, minutes and seconds where they are not 0.
pub fn offset_digits(seconds_east: i32) -> String {
    let sign = if seconds_east < 0 { '-' } else { '+' };
    let seconds = seconds_east.unsigned_abs();
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minute, second) {
        (0, 0) => format!("{sign}{hour:02}"),
        (_, 0) => format!("{sign}{hour:02}:{minute:02}"),
        _ => format!("{sign}{hour:02}:{minute:02}:{second:02}"),
    }
}

/// Zone rules repeat every 400 years; years beyond the library's calendar are looked up inside it.
const CYCLE_DAYS: i64 = 146_097;
/// 9000-01-01, in days since 2000-01-01.
const FAR_DAYS: i64 = 2_556_696;

fn near_us(us: i64) -> i64 {
    let days = us.div_euclid(US_PER_DAY);
    if days < FAR_DAYS {
        return us;
    }
    us - ((days - FAR_DAYS) / CYCLE_DAYS + 1) * CYCLE_DAYS * US_PER_DAY
}

fn jiff_timestamp(utc_us: i64) -> jiff::Timestamp {
    let second = near_us(utc_us).div_euclid(US_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS;
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// Whether the zone has had one offset ever.
pub fn is_constant(zone: &TimeZone) -> bool {
    match zone {
        TimeZone::Fixed(_) => true,
        TimeZone::Posix(zone) => zone.summer.is_none(),
        TimeZone::Named(zone) => {
            let epoch = jiff::Timestamp::UNIX_EPOCH;
            zone.preceding(epoch).next().is_none() && zone.following(epoch).next().is_none()
        }
    }
}

/// Seconds east of UTC at a moment (microseconds since 2000-01-01 UTC, finite).
pub fn offset_at(zone: &TimeZone, utc_us: i64) -> i32 {
    match zone {
        TimeZone::Fixed(seconds_east) => *seconds_east,
        TimeZone::Named(zone) if *zone == Iana::UTC => 0,
        TimeZone::Named(zone) => zone.to_offset(jiff_timestamp(utc_us)).seconds(),
        TimeZone::Posix(zone) => posix_phase(zone, utc_us).0.seconds_east,
    }
}

/// As [`offset_at`], with the abbreviation in use and whether it is summer time.
pub fn info_at(zone: &TimeZone, utc_us: i64) -> ZoneInfo {
    match zone {
        TimeZone::Fixed(seconds_east) => ZoneInfo {
            seconds_east: *seconds_east,
            is_dst: false,
            abbreviation: offset_digits(*seconds_east),
        },
        TimeZone::Named(zone) => {
            let info = zone.to_offset_info(jiff_timestamp(utc_us));
            ZoneInfo {
                seconds_east: info.offset().seconds(),
                is_dst: info.dst().is_dst(),
                abbreviation: info.abbreviation().to_owned(),
            }
        }
        TimeZone::Posix(zone) => {
            let (Phase { abbreviation, seconds_east }, is_dst) = posix_phase(zone, utc_us);
            ZoneInfo { seconds_east: *seconds_east, is_dst, abbreviation: abbreviation.clone() }
        }
    }
}

/// Standard time or summer time, whichever it is at a moment, and whether it is the latter.
fn posix_phase(zone: &PosixZone, utc_us: i64) -> (&Phase, bool) {
    match &zone.summer {
        Some(summer) if summer.zone.to_offset_info(jiff_timestamp(utc_us)).dst().is_dst() => {
            (&summer.phase, true)
        }
        _ => (&zone.standard, false),
    }
}

/// Seconds east of UTC that a local time has. In the hour that spring skips and in the one that autumn repeats,
/// PostgreSQL takes standard time: the offset before the gap, the offset after the fold.
pub fn offset_of_local(zone: &TimeZone, local_us: i64) -> i32 {
    match zone {
        TimeZone::Fixed(seconds_east) => *seconds_east,
        TimeZone::Named(zone) if *zone == Iana::UTC => 0,
        TimeZone::Named(zone) => local_offset(zone, local_us),
        TimeZone::Posix(zone) => match &zone.summer {
            Some(summer) => local_offset(&summer.zone, local_us),
            None => zone.standard.seconds_east,
        },
    }
}

fn local_offset(zone: &Iana, local_us: i64) -> i32 {
    let near = near_us(local_us);
    let (year, month, day) = civil_from_days(near.div_euclid(US_PER_DAY));
    let second = near.rem_euclid(US_PER_DAY) / US_PER_SECOND;
    let local = i16::try_from(year).ok().and_then(|year| {
        jiff::civil::DateTime::new(
            year,
            month as i8,
            day as i8,
            (second / 3600) as i8,
            (second / 60 % 60) as i8,
            (second % 60) as i8,
            0,
        )
        .ok()
    });
    let Some(local) = local else { return 0 };
    use jiff::tz::AmbiguousOffset::{Fold, Gap, Unambiguous};
    let offset = match zone.to_ambiguous_timestamp(local).offset() {
        Unambiguous { offset } => offset,
        Gap { before, .. } => before,
        Fold { after, .. } => after,
    };
    offset.seconds()
}

impl NamedZone {
    /// Seconds east of UTC of a local time.
    pub fn offset_of_local(&self, local_us: i64) -> i32 {
        match self {
            NamedZone::Fixed { seconds_east } => *seconds_east,
            NamedZone::Full(zone) => offset_of_local(zone, local_us),
            NamedZone::Dynamic { abbreviation, zone } => {
                // The moment that the zone itself would take the local time for.
                let offset = offset_of_local(&TimeZone::Named(zone.clone()), local_us);
                let utc_us = local_us.saturating_sub(i64::from(offset) * US_PER_SECOND);
                dynamic_offset(abbreviation, zone, utc_us).unwrap_or(offset)
            }
        }
    }

    /// Seconds east of UTC at a moment.
    pub fn offset_at(&self, utc_us: i64) -> i32 {
        match self {
            NamedZone::Fixed { seconds_east } => *seconds_east,
            NamedZone::Full(zone) => offset_at(zone, utc_us),
            NamedZone::Dynamic { abbreviation, zone } => dynamic_offset(abbreviation, zone, utc_us)
                .unwrap_or_else(|| offset_at(&TimeZone::Named(zone.clone()), utc_us)),
        }
    }
}

/// What the zone meant by the abbreviation at, or most recently before, or else first after a moment.
fn dynamic_offset(abbreviation: &str, zone: &Iana, us: i64) -> Option<i32> {
    let at = jiff_timestamp(us);
    let now = zone.to_offset_info(at);
    if now.abbreviation() == abbreviation {
        return Some(now.offset().seconds());
    }
    let is_it = |offset: &Offset, name: &str| (name == abbreviation).then_some(offset.seconds());
    zone.preceding(at)
        .take(500)
        .find_map(|transition| is_it(&transition.offset(), transition.abbreviation()))
        .or_else(|| {
            zone.following(at)
                .take(500)
                .find_map(|transition| is_it(&transition.offset(), transition.abbreviation()))
        })
}

/// Names of the IANA database, for pg_timezone_names.
pub fn zone_names() -> Vec<String> {
    database().available().map(|name| name.as_str().to_owned()).collect()
}

/// Abbreviations of the default set, and whether each names summer time, for pg_timezone_abbrevs.
pub fn abbreviation_names() -> Vec<(&'static str, bool)> {
    include_str!("abbreviations.tsv")
        .lines()
        .filter_map(|line| Some((line.split('\t').next()?, line.ends_with("\tdst"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::calendar::days_from_civil;
    use super::*;

    fn at(year: i32, month: i32, day: i32, hour: i64) -> i64 {
        days_from_civil(year, month, day) * US_PER_DAY + hour * 3_600 * US_PER_SECOND
    }

    #[test]
    fn summer_time() {
        let zone = zone_by_name("europe/berlin").unwrap();
        assert_eq!(offset_at(&zone, at(2024, 7, 1, 0)), 7200);
        assert_eq!(offset_of_local(&zone, at(2024, 1, 1, 0)), 3600);
        assert_eq!(offset_at(&zone, at(200_000, 7, 1, 0)), 7200);
        assert_eq!(time_zone_name(&zone), "Europe/Berlin");
    }

    #[test]
    fn posix_rules() {
        let summer = at(2020, 7, 1, 0);
        for (text, winter_offset, summer_offset, abbreviation) in [
            ("UTC+3", -3, -3, "UTC"),
            ("<+03>-03", 3, 3, "+03"),
            ("+02:00", -2, -2, ""),
            ("a1", -1, -1, "A"),
            ("xyz30", -30, -30, "XYZ"),
            ("foo5bar", -5, -4, "BAR"),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1, 2, "CEST"),
            ("xyz3<q>2,J60/1:30,300/-2", -3, -2, "Q"),
        ] {
            let zone = zone_by_name(text).unwrap();
            let info = info_at(&zone, summer);
            assert_eq!(offset_at(&zone, 0), winter_offset * 3600, "{text}");
            assert_eq!(
                (info.seconds_east, info.abbreviation.as_str()),
                (summer_offset * 3600, abbreviation),
                "{text}"
            );
            assert_eq!(info.is_dst, winter_offset != summer_offset, "{text}");
            assert_eq!(offset_of_local(&zone, summer), summer_offset * 3600, "{text}");
            assert_eq!(time_zone_name(&zone), text.to_ascii_uppercase());
            assert_eq!(zone_by_name(&time_zone_name(&zone)), Some(zone), "{text}");
        }
        for text in
            ["", "foo", "XYZ3,", "xyz168", "<a", "<a>", "5:60", "EST5EDT4,M13.1.0,M1.1.0", "EST5+4", "é"]
        {
            assert_eq!(zone_by_name(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_setting_may_be() {
        let zone = |text| check_time_zone("TimeZone", text).unwrap().unwrap();
        assert_eq!(zone("3"), TimeZone::Fixed(3 * 3600));
        assert_eq!(zone("-8.5"), TimeZone::Fixed(-85 * 360));
        assert_eq!(zone("interval '-0:00:07'"), TimeZone::Fixed(-7));
        assert_eq!(time_zone_name(&zone("5.5")), "<+05:30>-05:30");
        assert_eq!(check_time_zone("TimeZone", "nowhere").unwrap(), None);
        for text in ["200", "interval '1 month'", "interval '1 day'", "interval 'x'", "a3:30:15"] {
            check_time_zone("TimeZone", text).expect_err(text);
        }
    }

    #[test]
    fn gap_and_fold_take_standard_time() {
        let zone = zone_by_name("America/New_York").unwrap();
        assert_eq!(offset_of_local(&zone, at(2024, 3, 10, 2)), -5 * 3600);
        assert_eq!(offset_of_local(&zone, at(2024, 11, 3, 1)), -5 * 3600);
    }

    #[test]
    fn abbreviations_mean_what_they_meant() {
        let NamedZone::Fixed { seconds_east } = abbreviation("pst").unwrap() else { panic!() };
        assert_eq!(seconds_east, -8 * 3600);
        let msk = abbreviation("MSK").unwrap();
        assert_eq!(msk.offset_of_local(at(2012, 1, 1, 0)), 4 * 3600);
        assert_eq!(msk.offset_of_local(at(2020, 1, 1, 0)), 3 * 3600);
    }
}
