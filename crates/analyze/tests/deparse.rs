//! Queries through the analyzer and back to text, as PostgreSQL 15 shows them (`golden/deparse.py` asks it).

mod support;

use cairn_analyze::Parameters;
use cairn_analyze::deparse::{DeparseContext, Form, deparse_query};
use cairn_analyze::query::{Query, Statement};
use cairn_catalog::SearchPath;
use support::TestEnv;

fn analyzed(env: &TestEnv, text: &str) -> Box<Query> {
    let raw = cairn_analyze::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).remove(0);
    match cairn_analyze::analyze(&raw, &env.context(Parameters::None)) {
        Ok(Statement::Query(query)) => query,
        other => panic!("{text}: {other:?}"),
    }
}

fn shown(env: &TestEnv, query: &Query, form: Form) -> String {
    let path = if form == Form::Canonical { SearchPath::pg_catalog() } else { env.path.clone() };
    deparse_query(query, &DeparseContext { catalog: &env.catalog, path: &path, env, form })
}

#[test]
fn queries_are_shown_as_postgresql_shows_them() {
    let env = TestEnv::new();
    let queries = include_str!("golden/deparse.sql").lines();
    let mut wrong = Vec::new();
    for (text, expected) in queries.zip(include_str!("golden/deparse.expected").lines()) {
        let query = analyzed(&env, text);
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        for (name, form) in
            [("plain", Form::Display { pretty: false }), ("pretty", Form::Display { pretty: true })]
        {
            let got = format!(" {};", shown(&env, &query, form));
            let expected = expected[name].as_str().unwrap();
            if got != expected {
                wrong.push(format!("{text}\n--- expected ({name})\n{expected}\n--- got\n{got}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Canonical text means the same when it is read again, whatever the search path.
#[test]
fn canonical_text_is_stable() {
    let env = TestEnv::new();
    for text in include_str!("golden/deparse.sql").lines() {
        let once = shown(&env, &analyzed(&env, text), Form::Canonical);
        let twice = shown(&env, &analyzed(&env, &once), Form::Canonical);
        assert_eq!(once, twice, "{text}");
    }
}
