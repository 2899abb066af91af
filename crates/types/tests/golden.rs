//! Text and binary forms against what PostgreSQL 15 answered (`golden/regenerate` asks it again).

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use cairn_types::{Env, Error, FormatSettings, Oid, Result, TypeShape, io, types};

struct TestEnv(FormatSettings);

impl Env for TestEnv {
    cairn_testkit::env_of_an_idle_session!(database: "postgres", time: 0);
    cairn_testkit::env_without_objects!();
    fn format(&self) -> &FormatSettings {
        &self.0
    }
    fn type_shape(&self, type_oid: Oid) -> Option<TypeShape> {
        let element = ARRAYS.iter().find(|(array, _)| *array == type_oid)?.1;
        Some(TypeShape::Array { element, delimiter: ',' })
    }
    fn format_type(&self, type_oid: Oid, _: i32) -> String {
        format!("type{type_oid}")
    }
    fn parse_type(&self, _: &str) -> Result<(Oid, i32)> {
        Err(Error::internal("not here"))
    }
    fn extension_installed(&self, _: &str) -> bool {
        false
    }
}

const ARRAYS: &[(Oid, Oid)] = &[
    (types::INT4_ARRAY, types::INT4),
    (types::TEXT_ARRAY, types::TEXT),
    (types::VARCHAR_ARRAY, types::VARCHAR),
    (types::NUMERIC_ARRAY, types::NUMERIC),
    (types::BOOL_ARRAY, types::BOOL),
    (types::BYTEA_ARRAY, types::BYTEA),
    (types::TIMESTAMP_ARRAY, types::TIMESTAMP),
    (types::JSONB_ARRAY, types::JSONB),
];

/// Oid and modifier of a type as the file names it.
fn type_named(name: &str) -> (Oid, i32) {
    let (base, is_array) = match name.strip_suffix("[]") {
        Some(base) => (base, true),
        None => (name, false),
    };
    let (base, modifier) = match base.split_once('(') {
        Some((base, rest)) => (base, Some(rest.trim_end_matches(')'))),
        None => (base, None),
    };
    let oid = match base {
        "boolean" => types::BOOL,
        "smallint" => types::INT2,
        "integer" => types::INT4,
        "bigint" => types::INT8,
        "oid" => types::OID,
        "real" => types::FLOAT4,
        "double precision" => types::FLOAT8,
        "numeric" => types::NUMERIC,
        "text" => types::TEXT,
        "varchar" => types::VARCHAR,
        "char" => types::BPCHAR,
        "\"char\"" => types::CHAR,
        "name" => types::NAME,
        "bytea" => types::BYTEA,
        "uuid" => types::UUID,
        "pg_lsn" => types::PG_LSN,
        "xid" => types::XID,
        "xid8" => types::XID8,
        "tid" => types::TID,
        "date" => types::DATE,
        "time" => types::TIME,
        "timetz" => types::TIMETZ,
        "timestamp" => types::TIMESTAMP,
        "timestamptz" => types::TIMESTAMPTZ,
        "interval" => types::INTERVAL,
        "int2vector" => types::INT2VECTOR,
        "oidvector" => types::OIDVECTOR,
        "json" => types::JSON,
        "jsonb" => types::JSONB,
        other => panic!("{other}"),
    };
    let typmod = modifier.map_or(-1, |modifier| {
        let numbers: Vec<i32> = modifier.split(',').map(|number| number.parse().unwrap()).collect();
        match (oid, numbers.as_slice()) {
            (types::NUMERIC, [precision, scale]) => ((precision << 16) | (scale & 0x7ff)) + 4,
            (types::VARCHAR | types::BPCHAR, [length]) => length + 4,
            (_, [precision]) => *precision,
            _ => panic!("{name}"),
        }
    });
    if is_array {
        (ARRAYS.iter().find(|(_, element)| *element == oid).unwrap().0, typmod)
    } else {
        (oid, typmod)
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    out
}

fn show_error(error: &Error) -> String {
    let report = error.report();
    let context = report.context.first().map_or("", String::as_str);
    format!("!{} {}|{}|{context}", report.sqlstate, report.message, report.detail.as_deref().unwrap_or(""))
}

#[test]
fn text_and_binary_forms_are_postgresqls() {
    let env = TestEnv(FormatSettings::default());
    let mut wrong = Vec::new();
    for line in include_str!("golden/io.tsv").lines() {
        let mut columns = line.splitn(4, '\t');
        let mut column = || columns.next().unwrap();
        let (kind, type_name, text, expected) = (column(), column(), column(), column());
        let (oid, typmod) = type_named(type_name);
        // The file was made with explicit casts, which cut text off where input refuses.
        let text = &unescape(text);
        let input = if type_name.contains("char(") {
            io::input(text, oid, -1, &env).and_then(|value| io::apply_typmod(value, oid, typmod, true))
        } else {
            io::input(text, oid, typmod, &env)
        };
        let got = input.and_then(|value| match kind {
            "text" => io::output_string(&value, oid, &env),
            _ => {
                let mut bytes = Vec::new();
                io::send(&value, oid, &env, &mut bytes)?;
                let back = io::recv(&bytes, oid, typmod, &env)?;
                assert_eq!(io::output_string(&back, oid, &env)?, io::output_string(&value, oid, &env)?);
                // What is cut short or too long is refused, not misread.
                for end in 0..bytes.len() {
                    let _ = io::recv(&bytes[..end], oid, typmod, &env);
                }
                let mut hex = String::new();
                io::encode_hex_into(&bytes, &mut hex);
                Ok(hex)
            }
        });
        let got = escape(&got.unwrap_or_else(|error| show_error(&error)));
        if got != expected {
            wrong.push(format!("{kind} {type_name} {text:?}\n  expected {expected}\n  got      {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn input_refuses_text_that_is_too_long() {
    let env = TestEnv(FormatSettings::default());
    let message = |text, oid| io::input(text, oid, 7, &env).unwrap_err().message().to_owned();
    assert_eq!(message("abcd", types::VARCHAR), "value too long for type character varying(3)");
    assert_eq!(message("abcd", types::BPCHAR), "value too long for type character(3)");
    assert!(io::input("abc   ", types::VARCHAR, 7, &env).is_ok());
}

const ALL_TYPES: &[Oid] = &[
    types::BOOL,
    types::INT2,
    types::INT4,
    types::INT8,
    types::OID,
    types::FLOAT4,
    types::FLOAT8,
    types::NUMERIC,
    types::TEXT,
    types::VARCHAR,
    types::BPCHAR,
    types::CHAR,
    types::NAME,
    types::BYTEA,
    types::UUID,
    types::PG_LSN,
    types::XID,
    types::XID8,
    types::TID,
    types::DATE,
    types::TIME,
    types::TIMETZ,
    types::TIMESTAMP,
    types::TIMESTAMPTZ,
    types::INTERVAL,
    types::INT2VECTOR,
    types::OIDVECTOR,
    types::JSON,
    types::JSONB,
    types::INT4_ARRAY,
    types::TEXT_ARRAY,
    types::NUMERIC_ARRAY,
    types::TIMESTAMP_ARRAY,
    types::JSONB_ARRAY,
    types::JSONPATH,
];

mod any_input {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn text_never_panics(text in "[-+0-9aefnxTZ:.,$@?*%<>!=&| {}\\[\\]\"\\\\()/é]{0,24}", typmod in prop_oneof![Just(-1), 0i32..8]) {
            let env = TestEnv(FormatSettings::default());
            for oid in ALL_TYPES {
                if let Ok(value) = io::input(&text, *oid, typmod, &env) {
                    let shown = io::output_string(&value, *oid, &env).unwrap();
                    // What is printed can be read again.
                    prop_assert!(io::input(&shown, *oid, -1, &env).is_ok(), "{} {:?} {:?}", oid, text, shown);
                }
            }
        }

        #[test]
        fn bytes_never_panic(bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..40)) {
            let env = TestEnv(FormatSettings::default());
            for oid in ALL_TYPES {
                if let Ok(value) = io::recv(&bytes, *oid, -1, &env) {
                    io::output_string(&value, *oid, &env).unwrap();
                }
            }
        }
    }
}
