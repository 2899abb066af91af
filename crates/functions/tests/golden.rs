//! Bodies against what PostgreSQL 15 answered (`golden/regenerate.py` asks it again).
//!
//! Each line of `golden/expected/*.tsv` is one call: the function's `prosrc`, its result type, the expected text
//! and the arguments. The function's own rows are those of the catalog data.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;
use std::sync::OnceLock;

use cairn_functions::{AggregateRow, Call, SetFn, aggregate, built_in_sql, scalar, set_returning};
use cairn_types::datetime::zone::zone_by_name;
use cairn_types::key::ColumnOrder;
use cairn_types::{CallInfo, Datum, Error, Oid, Record, RecordField, Result, io};

mod support;

use support::{TestEnv, data, rows};

fn value(text: &str, type_oid: Oid, env: &TestEnv) -> Result<Datum> {
    if text == "\\N" { Ok(Datum::Null) } else { io::input(text, type_oid, -1, env) }
}

fn shown(result: Result<Datum>, type_oid: Oid, env: &TestEnv) -> String {
    let text = result.and_then(|value| match value {
        Datum::Null => Ok("\\N".to_owned()),
        // A cast to text, which is what the data holds, prints the word.
        Datum::Bool(value) => Ok(value.to_string()),
        value => {
            let text = io::output_string(&value, type_oid, env)?;
            Ok(text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n"))
        }
    });
    text.unwrap_or_else(|error| {
        let report = error.report();
        let detail = report.detail.as_ref().map(|text| format!(" DETAIL {text}")).unwrap_or_default();
        let hint = report.hint.as_ref().map(|text| format!(" HINT {text}")).unwrap_or_default();
        format!("ERROR {} {}{detail}{hint}", report.sqlstate, report.message)
    })
}

/// `oid=text` fields.
fn arguments<'a>(fields: &[&'a str]) -> Vec<(Oid, &'a str)> {
    let split =
        |field: &&'a str| field.split_once('=').map(|(oid, text)| (oid.parse().unwrap(), text)).unwrap();
    fields.iter().map(split).collect()
}

fn call_scalar(prosrc: &str, result_type: Oid, fields: &[&str], env: &TestEnv, strict: bool) -> String {
    let run = || {
        let arguments = arguments(fields);
        let arg_types: Vec<Oid> = arguments.iter().map(|(oid, _)| *oid).collect();
        let mut args = Vec::new();
        for (oid, text) in &arguments {
            args.push(value(text, *oid, env)?);
        }
        if strict && args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let info =
            CallInfo { arg_types: &arg_types, result_type, collation: 100, columns: &[], variadic: false };
        let call = Call { env, info };
        if let Some(oid) = prosrc.strip_prefix("oid ") {
            let body = built_in_sql(oid.parse().unwrap()).ok_or_else(|| Error::internal("no body"))?;
            return body(&call, &args);
        }
        if let Some(body) = set_returning(prosrc) {
            return rows_text(&call, &args, body, result_type, env);
        }
        let body = scalar(prosrc).ok_or_else(|| Error::internal(format!("{prosrc} has no body")))?;
        body(&call, &args)
    };
    shown(run(), result_type, env)
}

/// The rows of a set-returning function, one after the other.
fn rows_text(call: &Call<'_>, args: &[Datum], body: SetFn, result_type: Oid, env: &TestEnv) -> Result<Datum> {
    let mut stream = body(call, args)?;
    let mut row = Vec::new();
    let mut shown = Vec::new();
    while stream.next(call, &mut row)? {
        let value = if row.len() == 1 {
            row.remove(0)
        } else {
            let field = RecordField { name: "".into(), type_oid: 25, typmod: -1 };
            let fields = vec![field; row.len()].into();
            Datum::Record(Record { type_oid: 2249, fields, values: std::mem::take(&mut row) }.into())
        };
        shown.push(match value {
            Datum::Null => "\\N".to_owned(),
            value => io::output_string(&value, result_type, env)?,
        });
    }
    Ok(if shown.is_empty() { Datum::Null } else { Datum::text(shown.join(" ;; ")) })
}

/// The row of pg_aggregate for an aggregate's name and argument types.
fn aggregate_row(name: &str, arg_types: &[Oid], env: &TestEnv) -> Option<AggregateRow<'static>> {
    static PROCS: OnceLock<Vec<HashMap<&str, &str>>> = OnceLock::new();
    let procs = PROCS.get_or_init(|| rows(data::PROC).collect());
    let polymorphic = |oid: &str| ["2276", "2277", "2283", "2776", "3500"].contains(&oid);
    let hypothetical = ["rank", "dense_rank", "percent_rank", "cume_dist"].contains(&name);
    let matches = |row: &&HashMap<&str, &str>| {
        if hypothetical {
            return row["proname"] == name && row["prokind"] == "a";
        }
        let types: Vec<_> = row["proargtypes"].split(' ').collect();
        row["proname"] == name
            && row["prokind"] == "a"
            && types.len() == arg_types.len()
            && types.iter().zip(arg_types).all(|(declared, actual)| {
                let is_array = env.elements.contains_key(actual);
                match *declared {
                    "2277" => is_array,
                    "2776" => !is_array,
                    declared => polymorphic(declared) || declared == actual.to_string(),
                }
            })
    };
    let proc = procs.iter().find(matches)?;
    let strict = |prosrc: &str| procs.iter().any(|row| row["prosrc"] == prosrc && row["proisstrict"] == "t");
    // The file's rows are by oid of the function, in either notation.
    let is_it = |row: &HashMap<&str, &str>| row["aggfnoid"] == proc["oid"];
    let row = rows(data::AGGREGATE).find(is_it)?;
    let source = |function: &'static str| {
        let named = procs.iter().find(|row| row["oid"] == function || row["proname"] == function);
        named.map(|row| row["prosrc"])
    };
    let transition = source(row["aggtransfn"])?;
    let final_function =
        (!["-", "0"].contains(&row["aggfinalfn"])).then(|| source(row["aggfinalfn"])).flatten();
    Some(AggregateRow {
        transition,
        transition_strict: strict(transition),
        final_function,
        final_strict: final_function.is_some_and(strict),
        initial: Datum::Null,
        order: &[],
    })
}

fn call_aggregate(name: &str, result_type: &str, fields: &[&str], env: &TestEnv) -> String {
    let result_type = result_type.parse().unwrap_or(25);
    let run = || {
        let columns = arguments(fields);
        let arg_types: Vec<Oid> = columns.iter().map(|(oid, _)| *oid).collect();
        let row = aggregate_row(name, &arg_types, env).ok_or_else(|| Error::internal("no such aggregate"))?;
        let aggregate = aggregate(&row).ok_or_else(|| Error::internal("no body"))?;
        let info =
            CallInfo { arg_types: &arg_types, result_type, collation: 100, columns: &[], variadic: false };
        let call = Call { env, info };
        let columns: Vec<(Oid, Vec<&str>)> =
            columns.iter().map(|(oid, values)| (*oid, values.split(" ;; ").collect())).collect();
        let count = columns.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        let mut state = aggregate.new_state();
        for i in 0..count {
            let mut args = Vec::new();
            for (oid, values) in &columns {
                args.push(value(values.get(i).copied().unwrap_or("\\N"), *oid, env)?);
            }
            state.accumulate(&call, &args)?;
        }
        state.finish(&call, &[])
    };
    shown(run(), result_type, env)
}

/// An ordered-set aggregate: its direct argument (`-` for none), then the column of WITHIN GROUP.
fn call_ordered(name: &str, result_type: &str, fields: &[&str], env: &TestEnv) -> String {
    let result_type = result_type.parse().unwrap_or(25);
    let run = || {
        let direct = if fields[0] == "-" { Vec::new() } else { arguments(&fields[..1]) };
        let (column_type, values) = arguments(&fields[1..])[0];
        let signature: Vec<Oid> = direct.iter().map(|(oid, _)| *oid).chain([column_type]).collect();
        let row = aggregate_row(name, &signature, env).ok_or_else(|| Error::internal("no such aggregate"))?;
        let row = AggregateRow { order: &[ColumnOrder::ASC], ..row };
        let aggregate = aggregate(&row).ok_or_else(|| Error::internal("no body"))?;
        let arg_types = [column_type];
        let info =
            CallInfo { arg_types: &arg_types, result_type, collation: 100, columns: &[], variadic: false };
        let call = Call { env, info };
        let mut sorted = Vec::new();
        for text in values.split(" ;; ") {
            sorted.push(value(text, column_type, env)?);
        }
        sorted.sort_by(|a, b| cairn_types::compare::compare_ordered(a, b, ColumnOrder::ASC));
        let mut state = aggregate.new_state();
        for value in sorted {
            state.accumulate(&call, &[value])?;
        }
        let direct: Vec<Datum> =
            direct.iter().map(|(oid, text)| value(text, *oid, env)).collect::<Result<_>>()?;
        state.finish(&call, &direct)
    };
    shown(run(), result_type, env)
}

fn check(file: &str) {
    let mut env = TestEnv::new();
    env.settings.time_zone = zone_by_name("UTC").unwrap();
    let strict: HashMap<_, _> =
        rows(data::PROC).map(|row| (row["prosrc"], row["proisstrict"] == "t")).collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in file.lines() {
        if let Some(assignment) = line.strip_prefix("set ") {
            let (name, value) = assignment.split_once(" = ").unwrap();
            let value = value.trim_matches('\'');
            match name {
                "timezone" => env.settings.time_zone = zone_by_name(value).unwrap(),
                "extension" => env.extension = value == "orafce",
                other => panic!("setting {other}"),
            }
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let (name, result_type, expected) = (fields[0], fields[1], fields[2]);
        let got = match name.strip_prefix("aggregate ") {
            None if name.starts_with("ordered ") => call_ordered(&name[8..], result_type, &fields[3..], &env),
            Some(name) => call_aggregate(name, result_type, &fields[3..], &env),
            None => {
                let strict =
                    strict.get(name).copied().unwrap_or(name.starts_with("oid ") && name != "oid 1290");
                call_scalar(name, result_type.parse().unwrap(), &fields[3..], &env, strict)
            }
        };
        count += 1;
        if got != expected {
            wrong.push(format!("{name} {}\n      is {got}\n  should {expected}", fields[3..].join(" | ")));
        }
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn numbers() {
    check(include_str!("golden/expected/numbers.tsv"));
}

#[test]
fn datetime() {
    check(include_str!("golden/expected/datetime.tsv"));
}

#[test]
fn strings() {
    check(include_str!("golden/expected/strings.tsv"));
}

#[test]
fn regex() {
    check(include_str!("golden/expected/regex.tsv"));
}

#[test]
fn arrays() {
    check(include_str!("golden/expected/arrays.tsv"));
}

#[test]
fn json() {
    check(include_str!("golden/expected/json.tsv"));
}

#[test]
fn misc() {
    check(include_str!("golden/expected/misc.tsv"));
}

#[test]
fn to_char() {
    check(include_str!("golden/expected/to_char.tsv"));
}

/// `SP` is literal text in PostgreSQL; with the extension orafce it spells the number.
#[test]
fn spelled_numbers_with_orafce() {
    let template = "\"At the third stroke, it will be \"HH24SP hours MISP \"minutes and\" SSSP \"seconds\"";
    let fields = ["1114=2026-11-21 23:00:40".to_owned(), format!("25={template}")];
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let mut env = TestEnv::new();
    assert_eq!(
        call_scalar("timestamp_to_char", 25, &fields, &env, true),
        "At the third stroke, it will be 23 hours 00 minutes and 40 seconds"
    );
    env.extension = true;
    assert_eq!(
        call_scalar("timestamp_to_char", 25, &fields, &env, true),
        "At the third stroke, it will be TWENTY-THREE hours ZERO minutes and FORTY seconds"
    );
}

/// Which built-in functions of language internal have no body yet. The number may only fall.
#[test]
fn functions_without_body() {
    let has_body =
        |prosrc: &str| scalar(prosrc).is_some() || cairn_functions::set_returning(prosrc).is_some();
    // What the type system, the planner and indexes do by themselves, without calling the row: input and output,
    // type modifiers, selectivity, planner support, access methods.
    let internal_types = ["2281", "2278", "2279", "2275", "269", "325", "3310", "3838", "3115", "2280"];
    let mut missing = std::collections::BTreeSet::new();
    let mut total = 0;
    for row in rows(data::PROC) {
        let by_itself = internal_types.contains(&row["prorettype"])
            || row["proargtypes"].split(' ').any(|oid| internal_types.contains(&oid));
        if row["prolang"] != "12" || row["prokind"] != "f" || by_itself {
            continue;
        }
        total += 1;
        if !has_body(row["prosrc"]) {
            missing.insert(row["prosrc"]);
        }
    }
    let list: Vec<_> = missing.iter().copied().collect();
    println!("{} of {total} without body: {}", list.len(), list.join(" "));
    assert!(list.len() <= MISSING_MAX, "{} functions have no body, {MISSING_MAX} had none", list.len());
}

const MISSING_MAX: usize = 772;

#[test]
fn sql() {
    check(include_str!("golden/expected/sql.tsv"));
}
