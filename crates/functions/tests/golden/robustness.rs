//! No call panics: every body is called with the values of each type that break things.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// Values as text: extremes, empty ones, and some that mean something to functions of text.
fn values(type_oid: Oid) -> &'static [&'static str] {
    match type_oid {
        16 => &["t", "f"],
        17 => &["", "\\x00", "\\xff00ff", "abc", "\\xf0"],
        18 => &["", "a", "\\377"],
        19 | 25 | 1042 | 1043 | 705 | 2275 => &[
            "",
            "a",
            "abc",
            "é",
            "aé\u{1F600}b",
            "%",
            "\\",
            "a\\",
            "_",
            "(",
            "[a",
            "(a)(b)?",
            "a*",
            "x|",
            "-1",
            "1e400",
            "NaN",
            "utf8",
            "hex",
            "base64",
            "escape",
            "NFC",
            "g",
            "$.a",
            "{",
            "{1,2}",
            "[1]",
            "now",
            "infinity",
            "2024-02-30",
            "UTC",
            "+15:59",
            "day",
            "YYYY-MM-DD HH24:MI:SS.US TZ",
            "FM999,999.99MI",
            "9.99EEEE",
            "RN",
            "%1$s %I %L",
            "%*s",
            "  b ",
            "\"",
            "a.b.\"C\"",
            "1 kB",
        ],
        20 => &["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "4294967296"],
        21 => &["0", "1", "-1", "32767", "-32768"],
        23 => &["0", "1", "-1", "2", "7", "1000", "2147483647", "-2147483648"],
        26 | 24 | 2202..=2206 | 4089 | 4096 => &["0", "25", "4294967295"],
        27 => &["(0,0)", "(4294967295,65535)"],
        28 | 29 => &["0", "4294967295"],
        700 => &["0", "-0", "1.5", "3.4028235e38", "NaN", "-Infinity", "1e-45"],
        701 => {
            &["0", "-0", "1.5", "1.7976931348623157e308", "NaN", "Infinity", "-Infinity", "5e-324", "-1e10"]
        }
        1082 => &["2024-02-29", "infinity", "-infinity", "4714-11-24 BC", "5874897-12-31"],
        1083 => &["00:00", "24:00", "12:34:56.789"],
        1114 => &[
            "2024-02-29 12:00",
            "infinity",
            "-infinity",
            "4714-11-24 00:00 BC",
            "294276-12-31 23:59:59.999999",
        ],
        1184 => &[
            "2024-02-29 12:00+00",
            "infinity",
            "-infinity",
            "4714-11-24 00:00+00 BC",
            "294276-12-31 23:59:59+00",
        ],
        1186 => &[
            "0",
            "1 mon -1 day 00:00:01",
            "178956970 years 7 mons",
            "-178956970 years",
            "2147483647 days",
            "-2147483648 days",
        ],
        1266 => &["00:00+15:59", "24:00-15:59"],
        1700 => &[
            "0",
            "0.000",
            "-1.5",
            "1e100",
            "1e-100",
            "NaN",
            "Infinity",
            "-Infinity",
            "99999999999999999999999999999999999999999",
            "170141183460469231731687303715884105727",
            "-170141183460469231731687303715884105728",
            "0.5",
        ],
        2950 => &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
        114 | 3802 => {
            &["null", "1", "\"a\"", "[]", "{}", "[1,[2],{\"a\":null}]", "{\"a\":[1],\"b\":\"x\"}", "1e1000"]
        }
        3220 | 5069 => &["0", "18446744073709551615"],
        22 => &["", "1 2"],
        30 => &["", "1 25"],
        1005 | 1007 | 1016 => &[
            "{}",
            "{1}",
            "{NULL}",
            "[5:6]={1,2}",
            "{{1,2},{3,4}}",
            "[2147483645:2147483646]={1,2}",
            "{-1}",
            "{7,7,7,7,7,7,7}",
        ],
        1009 | 1015 | 1002 => &["{}", "{a}", "{NULL}", "{a,b}", "{{a,b},{c,d}}", "{0,x}"],
        1231 | 1021 | 1022 => &["{}", "{1.5,NaN}", "{NULL}", "{1,2,3,4,5,6,7,8}"],
        1000 => &["{}", "{t,f,NULL}"],
        1182 => &["{}", "{2024-01-01}"],
        199 | 3807 => &["{}", "{1,null}"],
        _ => &[],
    }
}

/// Types to stand for a polymorphic or `"any"` parameter.
fn concrete(type_oid: Oid) -> Oid {
    match type_oid {
        2276 | 2283 | 2776 | 5077 | 5079 => 23,
        2277 | 5078 => 1007,
        other => other,
    }
}

fn next_random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

#[test]
fn no_call_panics() {
    let env = TestEnv::new();
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let mut panicked = std::collections::BTreeSet::new();
    let mut calls = 0;
    std::panic::set_hook(Box::new(|_| {}));
    for row in rows(data::PROC) {
        let prosrc = row["prosrc"];
        let scalar_body = scalar(prosrc);
        let set_body = set_returning(prosrc);
        let built_in = row["oid"].parse().ok().and_then(built_in_sql);
        if (scalar_body.is_none() && set_body.is_none() && built_in.is_none())
            || prosrc.starts_with("pg_sleep")
        {
            continue;
        }
        let types: Vec<Oid> =
            row["proargtypes"].split(' ').filter_map(|oid| oid.parse().ok()).map(concrete).collect();
        if types.iter().any(|oid| values(*oid).is_empty()) {
            continue;
        }
        let strict = row["proisstrict"] == "t";
        let rounds = if types.is_empty() { 1 } else { (values(types[0]).len() * 4).clamp(8, 60) };
        for _ in 0..rounds {
            let texts: Vec<&str> =
                types.iter().map(|oid| values(*oid)[next_random(&mut state) % values(*oid).len()]).collect();
            let mut args: Vec<Datum> = Vec::new();
            for (text, oid) in texts.iter().zip(&types) {
                if !strict && next_random(&mut state) % 8 == 0 {
                    args.push(Datum::Null);
                } else if let Ok(value) = io::input(text, *oid, -1, &env) {
                    args.push(value);
                }
            }
            if args.len() != types.len() || asks_for_too_much(prosrc, &args) {
                continue;
            }
            calls += 1;
            let result_type = row["prorettype"].parse().unwrap_or(25);
            let info =
                CallInfo { arg_types: &types, result_type, collation: 100, columns: &[], variadic: false };
            let call = Call { env: &env, info };
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                if let Some(body) = scalar_body.or(built_in) {
                    if let Ok(value) = body(&call, &args) {
                        let _ = io::output_string(&value, result_type, &env);
                        let _ = io::send(&value, result_type, &env, &mut Vec::new());
                    }
                } else if let Some(body) = set_body
                    && let Ok(mut rows) = body(&call, &args)
                {
                    let mut row = Vec::new();
                    for _ in 0..100 {
                        if !rows.next(&call, &mut row).unwrap_or(false) {
                            break;
                        }
                    }
                }
            }));
            if outcome.is_err() {
                panicked.insert(format!("{prosrc}({})", texts.join(" | ")));
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(calls > 10_000, "{calls}");
    assert!(
        panicked.is_empty(),
        "{} calls panic:\n{}",
        panicked.len(),
        panicked.into_iter().collect::<Vec<_>>().join("\n")
    );
}

/// Calls that work, but on more memory or time than a test should take.
fn asks_for_too_much(prosrc: &str, args: &[Datum]) -> bool {
    let large = args.iter().any(|arg| match arg {
        Datum::Int4(value) => *value > 100_000,
        Datum::Int8(value) => *value > 100_000,
        _ => false,
    });
    large && ["lpad", "rpad", "repeat"].contains(&prosrc)
}
