//! Session information and settings, pg_typeof, sizes for people (manual, sections 9.26 and 9.27), as far as they
//! need no catalog: those that do are in [`crate::system`].

use cairn_types::datetime::zone::{abbreviation, abbreviation_names, info_at, zone_by_name, zone_names};
use cairn_types::{Datum, Interval, Numeric, Result, Row, bail, err, sqlstate, types};

use crate::set_returning::{RowStream, Rows, SetFn};
use crate::{Args, Call, ScalarFn, encodings};

/// What `version()` says. Clients look for the leading words and number.
pub const VERSION: &str = concat!("PostgreSQL 15.0 (Cairn ", env!("CARGO_PKG_VERSION"), ")");

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("pgsql_version", |_, _| Ok(Datum::text(VERSION))),
    ("current_database", |call, _| Ok(Datum::Text(call.env.current_database()))),
    ("current_user", |call, _| Ok(Datum::Text(call.env.current_user()))),
    ("session_user", |call, _| Ok(Datum::Text(call.env.session_user()))),
    ("pg_backend_pid", |call, _| Ok(Datum::Int4(call.env.backend_pid()))),
    ("pg_sleep", |call, a| {
        call.env.sleep(a.float8(0)?)?;
        Ok(void())
    }),
    ("getdatabaseencoding", |_, _| Ok(Datum::text("UTF8"))),
    ("pg_client_encoding", |call, _| {
        let encoding = call.env.setting("client_encoding").unwrap_or_else(|| "UTF8".to_owned());
        Ok(Datum::text(encoding))
    }),
    ("PG_encoding_to_char", |_, a| {
        Ok(Datum::text(encodings::by_number(a.int4(0)?).map_or("", |encoding| encoding.name)))
    }),
    ("PG_char_to_encoding", |_, a| Ok(Datum::Int4(encodings::number(a.str(0)?).unwrap_or(-1)))),
    ("pg_encoding_max_length_sql", |_, a| {
        Ok(encodings::by_number(a.int4(0)?).map_or(Datum::Null, |encoding| Datum::Int4(encoding.max_bytes)))
    }),
    ("show_config_by_name", |call, a| show(call, a.str(0)?, false)),
    ("show_config_by_name_missing_ok", |call, a| show(call, a.str(0)?, a.bool(1)?)),
    ("set_config_by_name", set_config),
    ("pg_typeof", |call, _| Ok(Datum::Oid(call.info.arg_types.first().copied().unwrap_or(types::UNKNOWN)))),
    ("to_regclass", |call, a| lookup(call, types::REGCLASS, a)),
    ("to_regproc", |call, a| lookup(call, types::REGPROC, a)),
    ("to_regprocedure", |call, a| lookup(call, types::REGPROCEDURE, a)),
    ("to_regoper", |call, a| lookup(call, types::REGOPER, a)),
    ("to_regoperator", |call, a| lookup(call, types::REGOPERATOR, a)),
    ("to_regtype", |call, a| lookup(call, types::REGTYPE, a)),
    ("to_regnamespace", |call, a| lookup(call, types::REGNAMESPACE, a)),
    ("to_regrole", |call, a| lookup(call, types::REGROLE, a)),
    ("to_regcollation", |call, a| lookup(call, types::REGCOLLATION, a)),
    ("pg_num_nulls", |call, a| count_nulls(call, a, true)),
    ("pg_num_nonnulls", |call, a| count_nulls(call, a, false)),
    ("pg_size_pretty", |_, a| Ok(Datum::text(size_pretty(a.int8(0)?)))),
    ("pg_size_pretty_numeric", |_, a| numeric_size_pretty(a.numeric(0)?)),
    ("pg_size_bytes", |_, a| size_bytes(a.str(0)?)),
    ("pg_is_in_recovery", |_, _| Ok(Datum::Bool(false))),
    ("pg_jit_available", |_, _| Ok(Datum::Bool(false))),
    // Cairn has no row-level security, so no table has it active.
    ("row_security_active", |_, _| Ok(Datum::Bool(false))),
    ("row_security_active_name", |call, a| {
        call.env.reg_lookup(types::REGCLASS, a.str(0)?)?;
        Ok(Datum::Bool(false))
    }),
];

pub const SET_BODIES: &[(&str, SetFn)] = &[
    ("pg_timezone_names", |call, _| Ok(timezone_names(call))),
    ("pg_timezone_abbrevs", |call, _| Ok(timezone_abbrevs(call))),
];

/// The value of a function that returns void.
pub fn void() -> Datum {
    Datum::text("")
}

fn show(call: &Call<'_>, name: &str, missing_ok: bool) -> Result<Datum> {
    match call.env.setting(&name.to_ascii_lowercase()) {
        Some(value) => Ok(Datum::text(value)),
        None if missing_ok => Ok(Datum::Null),
        None => bail!(UNDEFINED_OBJECT, "unrecognized configuration parameter \"{name}\""),
    }
}

/// `set_config(name, value, is_local)`; not strict: a null value resets.
fn set_config(call: &Call<'_>, a: &[Datum]) -> Result<Datum> {
    if a.is_null(0) {
        bail!(NULL_VALUE_NOT_ALLOWED, "SET requires parameter name");
    }
    let name = a.str(0)?;
    let value = if a.is_null(1) { "" } else { a.str(1)? };
    let local = !a.is_null(2) && a.bool(2)?;
    call.env.set_setting(name, value, local)?;
    show(call, name, false)
}

/// `to_regclass(text)` and its kin: null where the cast would say that there is no such object.
fn lookup(call: &Call<'_>, reg_type: cairn_types::Oid, a: &[Datum]) -> Result<Datum> {
    match call.env.reg_lookup(reg_type, a.str(0)?) {
        Ok(oid) => Ok(Datum::Oid(oid)),
        Err(error)
            if [
                sqlstate::UNDEFINED_TABLE,
                sqlstate::UNDEFINED_FUNCTION,
                sqlstate::UNDEFINED_OBJECT,
                sqlstate::INVALID_SCHEMA_NAME,
                sqlstate::AMBIGUOUS_FUNCTION,
                sqlstate::UNDEFINED_COLUMN,
            ]
            .contains(&error.sqlstate()) =>
        {
            Ok(Datum::Null)
        }
        Err(error) => Err(error),
    }
}

/// `num_nulls(variadic "any")`: the arguments, or the elements of the one array after VARIADIC.
fn count_nulls(call: &Call<'_>, a: &[Datum], nulls: bool) -> Result<Datum> {
    let matching = |values: &[Datum]| values.iter().filter(|value| value.is_null() == nulls).count();
    if call.info.variadic {
        return match a.last() {
            Some(Datum::Array(array)) => Ok(Datum::Int4(matching(&array.elements) as i32)),
            _ => Ok(Datum::Null),
        };
    }
    Ok(Datum::Int4(matching(a) as i32))
}

/// Unit, the size from which the next one is used, whether its value is rounded from half units.
const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];

/// Up to 10,239 of a unit are shown in it; beyond, the value is halved up to the next.
fn size_pretty(bytes: i64) -> String {
    let magnitude = i128::from(bytes).abs();
    let sign = if bytes < 0 { "-" } else { "" };
    if magnitude < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // From here on in half units, so that the last step rounds half up.
    let mut halves = magnitude >> 9;
    let mut unit = 1;
    while unit < UNITS.len() - 1 && halves >= 20 * 1024 - 1 {
        halves >>= 10;
        unit += 1;
    }
    format!("{sign}{} {}", (halves + 1) / 2, UNITS[unit])
}

fn numeric_size_pretty(size: &Numeric) -> Result<Datum> {
    let limit = Numeric::from(10 * 1024);
    if size.abs() < limit {
        return Ok(Datum::text(format!("{size} bytes")));
    }
    if !size.is_finite() {
        return Ok(Datum::text(format!("{size} PB")));
    }
    let half_limit = Numeric::from(20 * 1024 - 1);
    let shift = Numeric::from(1024);
    let mut halves = size.div_truncated(&Numeric::from(512))?;
    let mut unit = 1;
    while unit < UNITS.len() - 1 && halves.abs() >= half_limit {
        halves = halves.div_truncated(&shift)?;
        unit += 1;
    }
    let one = if halves.is_negative() { Numeric::from(-1) } else { Numeric::ONE };
    let rounded = halves.add(&one)?.div_truncated(&Numeric::from(2))?;
    Ok(Datum::text(format!("{rounded} {}", UNITS[unit])))
}

/// `1.5 GB`; units in any case.
fn size_bytes(text: &str) -> Result<Datum> {
    let bad = || err!(INVALID_PARAMETER_VALUE, "invalid size: \"{text}\"");
    let trimmed = text.trim();
    let bytes = trimmed.as_bytes();
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let digits_start = end;
    let digits = |end: &mut usize| {
        while bytes.get(*end).is_some_and(u8::is_ascii_digit) {
            *end += 1;
        }
    };
    digits(&mut end);
    let mut have_digits = end > digits_start;
    if bytes.get(end) == Some(&b'.') {
        let point = end;
        end += 1;
        digits(&mut end);
        have_digits |= end > point + 1;
    }
    if !have_digits {
        return Err(bad());
    }
    // An exponent only if digits follow; otherwise the letter begins the unit.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let mut exponent = end + 1;
        if matches!(bytes.get(exponent), Some(b'+' | b'-')) {
            exponent += 1;
        }
        let first_digit = exponent;
        digits(&mut exponent);
        if exponent > first_digit {
            end = exponent;
        }
    }
    let number = Numeric::parse(&trimmed[..end])?;
    let unit = trimmed[end..].trim_start();
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "bytes" | "b" => 0,
        "kb" => 1,
        "mb" => 2,
        "gb" => 3,
        "tb" => 4,
        "pb" => 5,
        _ => {
            return Err(bad()
                .detail(format!("Invalid size unit: \"{unit}\"."))
                .hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        }
    };
    let factor = Numeric::from(1024i64.pow(power));
    number.mul(&factor)?.to_i64().map(Datum::Int8)
}

fn zone_row(call: &Call<'_>, name: &str) -> Option<Row> {
    let zone = zone_by_name(name)?;
    let info = info_at(&zone, call.env.transaction_time());
    Some(vec![
        Datum::text(name),
        Datum::text(info.abbreviation),
        offset(info.seconds_east),
        Datum::Bool(info.is_dst),
    ])
}

fn offset(seconds_east: i32) -> Datum {
    Datum::Interval(Interval { time_us: i64::from(seconds_east) * 1_000_000, ..Interval::default() })
}

/// Columns name, abbrev, utc_offset, is_dst.
fn timezone_names(call: &Call<'_>) -> Box<dyn RowStream> {
    Rows::boxed(zone_names().iter().filter_map(|name| zone_row(call, name)).collect())
}

/// Columns abbrev, utc_offset, is_dst.
fn timezone_abbrevs(call: &Call<'_>) -> Box<dyn RowStream> {
    let now = call.env.transaction_time();
    let row = |(name, is_dst): &(&'static str, bool)| -> Option<Row> {
        let seconds_east = abbreviation(name)?.offset_at(now);
        Some(vec![Datum::text(*name), offset(seconds_east), Datum::Bool(*is_dst)])
    };
    Rows::boxed(abbreviation_names().iter().filter_map(row).collect())
}
