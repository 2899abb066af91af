//! Text input and output of the date and time types against PostgreSQL's (tests/datetime/).

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
        "timezone" => settings.time_zone = zone::time_zone_from_setting(value).unwrap(),
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
