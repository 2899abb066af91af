//! Text input and output of the date and time types against PostgreSQL's (tests/datetime/).

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use cairn_types::datetime::{self, zone};
use cairn_types::{DateOrder, DateStyle, FormatSettings, IntervalStyle, Result};

/// PostgreSQL's interval type modifiers: fields << 16 | precision.
fn typmod(kind: &str) -> i32 {
    let precision = |kind: &str| {
        let (_, digits) = kind.split_once('(')?;
        digits.trim_end_matches(')').parse::<i32>().ok()
    };
    let Some(fields) = kind.strip_prefix("interval") else { return precision(kind).unwrap_or(-1) };
    let bit = |word: &str| match word {
        "year" => 1 << 2,
        "month" => 1 << 1,
        "day" => 1 << 3,
        "hour" => 1 << 10,
        "minute" => 1 << 11,
        "second" => 1 << 12,
        other => panic!("unit {other}"),
    };
    let words = fields.split('(').next().unwrap_or("").trim();
    let range = match words {
        "" if fields.is_empty() => return -1,
        "" => 0x7FFF,
        _ => {
            let order = ["year", "month", "day", "hour", "minute", "second"];
            let ends: Vec<usize> = words
                .split(" to ")
                .map(|word| order.iter().position(|unit| *unit == word).unwrap())
                .collect();
            order[ends[0]..=*ends.last().unwrap()].iter().map(|unit| bit(unit)).sum()
        }
    };
    range << 16 | precision(fields).unwrap_or(0xFFFF)
}

fn round_trip(kind: &str, text: &str, settings: &FormatSettings) -> Result<String> {
    let now_us = 800_000_000_000_000;
    let typmod = typmod(kind);
    let mut out = String::new();
    let base = kind.split([' ', '(']).next().unwrap();
    match base {
        "date" => datetime::format_date(datetime::parse_date(text, settings, now_us)?, settings, &mut out),
        "time" => {
            let value = datetime::parse_time(text, settings, now_us)?;
            datetime::format_time(datetime::adjust_time(value, typmod), settings, &mut out);
        }
        "timetz" => {
            let mut value = datetime::parse_timetz(text, settings, now_us)?;
            value.time_us = datetime::adjust_time(value.time_us, typmod);
            datetime::format_timetz(value, settings, &mut out);
        }
        "timestamp" => {
            let value = datetime::parse_timestamp(text, settings, now_us)?;
            datetime::format_timestamp(datetime::adjust_timestamp(value, typmod)?, settings, &mut out);
        }
        "timestamptz" => {
            let value = datetime::parse_timestamptz(text, settings, now_us)?;
            datetime::format_timestamptz(datetime::adjust_timestamp(value, typmod)?, settings, &mut out);
        }
        "interval" => {
            datetime::format_interval(datetime::parse_interval(text, settings, typmod)?, settings, &mut out);
        }
        other => panic!("type {other}"),
    }
    Ok(out)
}

fn set(settings: &mut FormatSettings, line: &str) {
    let (name, value) = line.split_once(" = ").unwrap();
    let value = value.trim_matches('\'');
    match name {
        "datestyle" => {
            let (style, order) = value.split_once(", ").unwrap();
            settings.date_style = match style {
                "ISO" => DateStyle::Iso,
                "Postgres" => DateStyle::Postgres,
                "SQL" => DateStyle::Sql,
                "German" => DateStyle::German,
                other => panic!("{other}"),
            };
            settings.date_order = match order {
                "MDY" => DateOrder::Mdy,
                "DMY" => DateOrder::Dmy,
                "YMD" => DateOrder::Ymd,
                other => panic!("{other}"),
            };
        }
        "timezone" => settings.time_zone = zone::check_time_zone("TimeZone", value).unwrap().unwrap(),
        "intervalstyle" => {
            settings.interval_style = match value {
                "postgres" => IntervalStyle::Postgres,
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                other => panic!("{other}"),
            }
        }
        other => panic!("setting {other}"),
    }
}

#[test]
fn reads_and_writes_as_postgresql() {
    let mut settings = FormatSettings::default();
    let mut wrong = Vec::new();
    let mut context = String::new();
    let mut count = 0;
    for line in include_str!("datetime/expected.tsv").lines() {
        if let Some(assignment) = line.strip_prefix("set ") {
            set(&mut settings, assignment);
            context =
                format!("{:?} {:?} {:?}", settings.date_style, settings.date_order, settings.interval_style);
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let (kind, text, expected) = (fields[0], fields[1], fields[2]);
        let got = round_trip(kind, text, &settings).unwrap_or_else(|error| {
            let report = error.report();
            let hint = report.hint.as_ref().map(|hint| format!(" HINT {hint}")).unwrap_or_default();
            format!("ERROR {} {}{hint}", report.sqlstate, report.message)
        });
        count += 1;
        if got != expected {
            wrong.push(format!("{context} {kind} '{text}'\n      is {got}\n  should {expected}"));
        }
    }
    assert!(count > 300);
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

mod properties {
    use cairn_types::datetime::calendar::{TIMESTAMP_END, TIMESTAMP_MIN};
    use cairn_types::{DateOrder, DateStyle, FormatSettings, Interval, IntervalStyle, TimeTz};
    use proptest::prelude::*;

    use super::datetime::{self, zone};

    /// Text made of the pieces that dates are made of.
    fn dateish() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("-".to_owned()),
            Just("/".to_owned()),
            Just(":".to_owned()),
            Just(".".to_owned()),
            Just(" ".to_owned()),
            Just("+".to_owned()),
            Just("T".to_owned()),
            Just("P".to_owned()),
            Just("ago".to_owned()),
            Just("j".to_owned()),
            Just("jan".to_owned()),
            Just("bc".to_owned()),
            Just("pm".to_owned()),
            Just("utc".to_owned()),
            Just("america/new_york".to_owned()),
            Just("days".to_owned()),
            Just("mons".to_owned()),
            Just("infinity".to_owned()),
            Just("y".to_owned()),
            Just("é".to_owned()),
            Just("now".to_owned()),
            Just("dst".to_owned()),
            Just("msk".to_owned()),
            Just("99999999999999999999".to_owned()),
            Just("2147483647".to_owned()),
            "[0-9]{1,9}",
            "\\PC",
        ];
        proptest::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    fn settings() -> impl Strategy<Value = FormatSettings> {
        let style = prop_oneof![
            Just(DateStyle::Iso),
            Just(DateStyle::Postgres),
            Just(DateStyle::Sql),
            Just(DateStyle::German)
        ];
        let order = prop_oneof![Just(DateOrder::Mdy), Just(DateOrder::Dmy), Just(DateOrder::Ymd)];
        let interval = prop_oneof![
            Just(IntervalStyle::Postgres),
            Just(IntervalStyle::PostgresVerbose),
            Just(IntervalStyle::Iso8601)
        ];
        (style, order, interval).prop_map(|(date_style, date_order, interval_style)| FormatSettings {
            date_style,
            date_order,
            interval_style,
            ..FormatSettings::default()
        })
    }

    proptest! {
        /// No text panics.
        #[test]
        fn any_text_is_read_or_refused(text in dateish(), settings in settings()) {
            let now_us = 800_000_000_000_000;
            let _ = datetime::parse_date(&text, &settings, now_us);
            let _ = datetime::parse_time(&text, &settings, now_us);
            let _ = datetime::parse_timetz(&text, &settings, now_us);
            let _ = datetime::parse_timestamp(&text, &settings, now_us);
            let _ = datetime::parse_timestamptz(&text, &settings, now_us);
            let _ = datetime::parse_interval(&text, &settings, -1);
            let _ = datetime::parse_interval(&text, &settings, (1 << 11 | 1 << 12) << 16 | 2);
            let _ = zone::named_zone(&text);
            let _ = zone::check_time_zone("TimeZone", &text);
        }

        /// What is written is read back, in every style.
        #[test]
        fn timestamps_survive(value in TIMESTAMP_MIN..TIMESTAMP_END, settings in settings(), zone in 0..3usize) {
            let mut settings = settings;
            // Year-first order is only unambiguous where the style writes the year first.
            if settings.date_style != DateStyle::Iso && settings.date_order == DateOrder::Ymd {
                settings.date_order = DateOrder::Mdy;
            }
            if settings.date_style == DateStyle::German {
                settings.date_order = DateOrder::Dmy;
            }
            let mut text = String::new();
            datetime::format_timestamp(value, &settings, &mut text);
            prop_assert_eq!(datetime::parse_timestamp(&text, &settings, 0).unwrap(), value, "{}", text);
            settings.date_style = DateStyle::Iso;
            settings.time_zone =
                zone::zone_by_name(["UTC", "America/New_York", "Asia/Kolkata"][zone]).unwrap();
            let mut text = String::new();
            datetime::format_timestamptz(value, &settings, &mut text);
            let back = datetime::parse_timestamptz(&text, &settings, 0);
            // The zone may carry the local time past the type's ends.
            if (TIMESTAMP_MIN + 86_400_000_000..TIMESTAMP_END - 86_400_000_000).contains(&value) {
                prop_assert_eq!(back.unwrap(), value, "{}", text);
            }
        }

        #[test]
        fn intervals_survive(months: i32, days: i32, time_us: i64, settings in settings()) {
            let value = Interval { months, days, time_us };
            let mut text = String::new();
            datetime::format_interval(value, &settings, &mut text);
            if let Ok(back) = datetime::parse_interval(&text, &settings, -1) {
                prop_assert_eq!(back, value, "{}", text);
            } else {
                // The minimum's magnitude has no positive counterpart to be read through.
                let verbose = settings.interval_style == IntervalStyle::PostgresVerbose;
                prop_assert!(verbose || [months, days].contains(&i32::MIN) || time_us.abs() > i64::MAX / 4, "{}", text);
            }
        }

        #[test]
        fn times_with_zone_survive(time_us in 0..=86_400_000_000i64, zone_seconds_west in -57_599..57_600) {
            let settings = FormatSettings::default();
            let value = TimeTz { time_us, zone_seconds_west };
            let mut text = String::new();
            datetime::format_timetz(value, &settings, &mut text);
            prop_assert_eq!(datetime::parse_timetz(&text, &settings, 0).unwrap(), value);
        }
    }
}
