//! Built-in functions whose language is SQL.
//!
//! PostgreSQL keeps a short SQL expression for each of them. Cairn computes it here, out of the bodies that the
//! expression names, so that `lpad(x, 5)` costs a call and not a query. Those that read the catalog are not
//! here: they run as SQL.

use cairn_types::{Datum, Error, Interval, Numeric, Oid, Result, io, types};

use crate::{Args, Call, ScalarFn, type_facts};

/// The body of the built-in function with this oid, if its language is SQL and Cairn computes it directly.
pub fn built_in_sql(function: Oid) -> Option<ScalarFn> {
    BODIES.iter().find(|(oid, _)| *oid == function).map(|(_, body)| *body)
}

const BODIES: &[(Oid, ScalarFn)] = &[
    // lpad(text, integer), rpad(text, integer)
    (879, |call, a| run("lpad", call, &[a.any(0).clone(), a.any(1).clone(), Datum::text(" ")])),
    (880, |call, a| run("rpad", call, &[a.any(0).clone(), a.any(1).clone(), Datum::text(" ")])),
    // quote_literal(anyelement), quote_nullable(anyelement)
    (1285, |call, a| Ok(Datum::text(crate::string::quote_literal(&text_of(call, a, 0)?)))),
    (1290, |call, a| {
        if a.is_null(0) {
            return Ok(Datum::text("NULL"));
        }
        Ok(Datum::text(crate::string::quote_literal(&text_of(call, a, 0)?)))
    }),
    // text || anynonarray, anynonarray || text
    (2003, |call, a| Ok(Datum::text(a.str(0)?.to_owned() + &text_of(call, a, 1)?))),
    (2004, |call, a| Ok(Datum::text(text_of(call, a, 0)? + a.str(1)?))),
    // substring(text similar text escape text)
    (2074, |call, a| {
        let pattern = run("similar_to_escape_2", call, &[a.any(1).clone(), a.any(2).clone()])?;
        run("textregexsubstr", call, &[a.any(0).clone(), pattern])
    }),
    // bit_length(bytea), bit_length(text)
    (1810, |_, a| Ok(Datum::Int4(bits(a.bytea(0)?.len())?))),
    (1811, |_, a| Ok(Datum::Int4(bits(a.str(0)?.len())?))),
    // log10(numeric), log(numeric), round(numeric), trunc(numeric)
    (1481, |_, a| Ok(Datum::Numeric(a.numeric(0)?.log10()?.into()))),
    (1741, |_, a| Ok(Datum::Numeric(a.numeric(0)?.log10()?.into()))),
    (1708, |_, a| Ok(Datum::Numeric(a.numeric(0)?.round(0)?.into()))),
    (1710, |_, a| Ok(Datum::Numeric(a.numeric(0)?.trunc(0)?.into()))),
    // Operators with their operands exchanged: time + date, timetz + date, interval + ..., integer + date,
    // numeric + pg_lsn
    (1296, |call, a| run("datetime_timestamp", call, &exchanged(a))),
    (1298, |call, a| run("datetimetz_timestamptz", call, &exchanged(a))),
    (1848, |call, a| run("time_pl_interval", call, &exchanged(a))),
    (2546, |call, a| run("date_pl_interval", call, &exchanged(a))),
    (2547, |call, a| run("timetz_pl_interval", call, &exchanged(a))),
    (2548, |call, a| run("timestamp_pl_interval", call, &exchanged(a))),
    (2549, |call, a| run("timestamptz_pl_interval", call, &exchanged(a))),
    (2550, |call, a| run("date_pli", call, &exchanged(a))),
    (5023, |call, a| run("pg_lsn_pli", call, &exchanged(a))),
    // timestamptz(date, time)
    (1176, |call, a| {
        let local = run("datetime_timestamp", call, a)?;
        run("timestamp_timestamptz", call, &[local])
    }),
    // date_part(text, date)
    (1384, |call, a| {
        let midnight = run("date_timestamp", call, &[a.any(1).clone()])?;
        run("timestamp_part", call, &[a.any(0).clone(), midnight])
    }),
    // age(timestamptz), age(timestamp): since midnight of today
    (1386, |call, a| {
        let midnight = run("date_timestamptz", call, &[today(call)?])?;
        run("timestamptz_age", call, &[midnight, a.any(0).clone()])
    }),
    (2059, |call, a| {
        let midnight = run("date_timestamp", call, &[today(call)?])?;
        run("timestamp_age", call, &[midnight, a.any(0).clone()])
    }),
    // (a, b) overlaps (c, d), an interval in place of either end
    (1305, |call, a| overlaps(call, a, "overlaps_timestamp", "timestamptz_pl_interval")),
    (1306, |call, a| overlaps(call, a, "overlaps_timestamp", "timestamptz_pl_interval")),
    (1307, |call, a| overlaps(call, a, "overlaps_timestamp", "timestamptz_pl_interval")),
    (2042, |call, a| overlaps(call, a, "overlaps_timestamp", "timestamp_pl_interval")),
    (2043, |call, a| overlaps(call, a, "overlaps_timestamp", "timestamp_pl_interval")),
    (2044, |call, a| overlaps(call, a, "overlaps_timestamp", "timestamp_pl_interval")),
    (1309, |call, a| overlaps(call, a, "overlaps_time", "time_pl_interval")),
    (1310, |call, a| overlaps(call, a, "overlaps_time", "time_pl_interval")),
    (1311, |call, a| overlaps(call, a, "overlaps_time", "time_pl_interval")),
    // pg_relation_size(regclass)
    (2325, |call, a| run("pg_relation_size", call, &[a.any(0).clone(), Datum::text("main")])),
    // obj_description(oid, name), obj_description(oid), col_description(oid, integer), shobj_description(oid, name)
    (1215, |call, a| call.env.system_function("obj_description", a, &call.info)),
    (1348, |call, a| call.env.system_function("obj_description", a, &call.info)),
    (1216, |call, a| call.env.system_function("col_description", a, &call.info)),
    (1993, |call, a| call.env.system_function("shobj_description", a, &call.info)),
    // information_schema._pg_char_max_length(typid, typmod) and its kin
    (13212, |_, a| Ok(type_facts::char_max_length(a.oid(0)?, a.int4(1)?))),
    (13213, |_, a| Ok(type_facts::char_octet_length(a.oid(0)?, a.int4(1)?))),
    (13215, |_, a| Ok(type_facts::numeric_precision(a.oid(0)?, a.int4(1)?))),
    (13216, |_, a| Ok(type_facts::numeric_precision_radix(a.oid(0)?))),
    (13217, |_, a| Ok(type_facts::numeric_scale(a.oid(0)?, a.int4(1)?))),
    (13218, |_, a| Ok(type_facts::datetime_precision(a.oid(0)?, a.int4(1)?))),
    (13219, |call, a| Ok(type_facts::interval_type(call.env, a.oid(0)?, a.int4(1)?))),
    // pg_sleep_for(interval), pg_sleep_until(timestamptz)
    (3935, |call, a| {
        let now = Datum::TimestampTz(call.env.clock_time());
        let until = run("timestamptz_pl_interval", call, &[now, a.any(0).clone()])?;
        sleep_until(call, &until)
    }),
    (3936, |call, a| sleep_until(call, a.any(0))),
];

fn run(prosrc: &str, call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let body = crate::scalar(prosrc).ok_or_else(|| Error::internal(format!("{prosrc} has no body")))?;
    body(call, args)
}

/// Argument `i` cast to text.
fn text_of(call: &Call<'_>, args: &[Datum], i: usize) -> Result<String> {
    let type_oid = call.info.arg_types.get(i).copied().unwrap_or(types::UNKNOWN);
    match args.any(i) {
        // The cast of boolean to text spells the word out; char(n) loses its padding.
        Datum::Bool(value) => Ok(value.to_string()),
        Datum::Text(text) if type_oid == types::BPCHAR => Ok(text.trim_end_matches(' ').to_owned()),
        value => io::output_string(value, type_oid, call.env),
    }
}

fn bits(bytes: usize) -> Result<i32> {
    let too_many = || cairn_types::err!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    i32::try_from(bytes).ok().and_then(|bytes| bytes.checked_mul(8)).ok_or_else(too_many)
}

fn exchanged(args: &[Datum]) -> [Datum; 2] {
    [args.any(1).clone(), args.any(0).clone()]
}

/// `current_date`
fn today(call: &Call<'_>) -> Result<Datum> {
    run("timestamptz_date", call, &[Datum::TimestampTz(call.env.transaction_time())])
}

/// The second of each pair may be a length.
fn overlaps(call: &Call<'_>, args: &[Datum], prosrc: &str, add: &str) -> Result<Datum> {
    let mut ends = Vec::with_capacity(4);
    for i in 0..4 {
        ends.push(match args.any(i) {
            length @ Datum::Interval(Interval { .. }) if !args.is_null(i - 1) => {
                run(add, call, &[args.any(i - 1).clone(), length.clone()])?
            }
            Datum::Interval(_) => Datum::Null,
            end => end.clone(),
        });
    }
    run(prosrc, call, &ends)
}

fn sleep_until(call: &Call<'_>, until: &Datum) -> Result<Datum> {
    let until = std::slice::from_ref(until).timestamptz(0)?;
    let seconds = Numeric::new(i128::from(until) - i128::from(call.env.clock_time()), 6).to_f64_lossy();
    call.env.sleep(seconds)?;
    Ok(crate::session::void())
}
