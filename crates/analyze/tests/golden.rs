//! What statements return and how wrong ones are refused, against PostgreSQL 15 (`golden/regenerate.py` asks it again).

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::cell::RefCell;
use std::fmt::Write;

use cairn_analyze::query::{Statement, TargetEntry};
use cairn_analyze::{Parameters, analyze, expr_type, parse};
use cairn_types::{Env, Result};
use support::TestEnv;

fn lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.strip_suffix(';').unwrap_or(line))
        .collect()
}

fn run(env: &TestEnv, sql: &str, parameters: &RefCell<Vec<u32>>) -> Result<Statement> {
    let mut statements = parse(sql)?;
    assert_eq!(statements.len(), 1, "{sql}");
    analyze(&statements.remove(0), &env.context(Parameters::Infer(parameters)))
}

fn describe(env: &TestEnv, sql: &str) -> Result<String> {
    let parameters = RefCell::new(Vec::new());
    let statement = run(env, sql, &parameters)?;
    let mut out = String::new();
    let targets: Vec<TargetEntry> = match &statement {
        Statement::Query(query) => query.output().iter().filter(|target| !target.junk).cloned().collect(),
        _ => Vec::new(),
    };
    for (i, target) in targets.iter().enumerate() {
        let ty = expr_type(&target.expr);
        // The protocol shows a domain as its base type.
        let name = env.format_type(env.catalog.base_type(ty.oid), ty.typmod);
        let _ = write!(out, "{}{}:{name}", if i > 0 { "|" } else { "" }, target.name);
    }
    let parameters = parameters.borrow();
    if !parameters.is_empty() {
        let names: Vec<String> = parameters.iter().map(|oid| env.format_type(*oid, -1)).collect();
        let _ = write!(out, " <- {}", names.join(", "));
    }
    Ok(out)
}

fn complaint(env: &TestEnv, sql: &str) -> String {
    match describe(env, sql) {
        Ok(found) => format!("no error: {found}"),
        Err(error) => {
            let report = error.report();
            let position = report.location.map_or_else(String::new, |location| {
                (sql[..(location as usize).min(sql.len())].chars().count() + 1).to_string()
            });
            format!(
                "{}|{position}|{}|{}|{}",
                report.sqlstate,
                report.message,
                report.detail.as_deref().unwrap_or(""),
                report.hint.as_deref().unwrap_or("")
            )
        }
    }
}

fn compare(name: &str, statements: &str, expected: &str, answer: impl Fn(&str) -> String) {
    let statements = lines(statements);
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(statements.len(), expected.len(), "{name}: regenerate the expectations");
    let mut report = String::new();
    let mut different = 0;
    for (sql, expected) in statements.iter().zip(expected) {
        let found = answer(sql);
        if found != expected {
            different += 1;
            let _ = writeln!(report, "{sql}\n  PostgreSQL: {expected}\n  Cairn:      {found}");
        }
    }
    assert!(different == 0, "{different} of {} differ:\n{report}", statements.len());
}

#[test]
fn right_statements() {
    let env = TestEnv::new();
    compare("right", include_str!("golden/right.sql"), include_str!("golden/right.expected"), |sql| {
        describe(&env, sql).unwrap_or_else(|error| format!("{error}"))
    });
}

/// What psql's `\d` commands send. System views are not part of the catalog that this test is made against.
#[test]
fn catalog_queries_of_psql() {
    let env = TestEnv::new();
    let is_absent = |sql: &str| ["pg_roles", "pg_settings"].iter().any(|view| sql.contains(view));
    let pairs: Vec<(&str, &str)> = lines(include_str!("golden/psql.sql"))
        .into_iter()
        .zip(include_str!("golden/psql.expected").lines())
        .filter(|(sql, _)| !is_absent(sql))
        .collect();
    let statements: Vec<&str> = pairs.iter().map(|(sql, _)| *sql).collect();
    let expected: Vec<&str> = pairs.iter().map(|(_, expected)| *expected).collect();
    compare("psql", &statements.join("\n"), &expected.join("\n"), |sql| {
        describe(&env, sql).unwrap_or_else(|error| format!("{error}"))
    });
}

#[test]
fn wrong_statements() {
    let env = TestEnv::new();
    compare("wrong", include_str!("golden/wrong.sql"), include_str!("golden/wrong.expected"), |sql| {
        complaint(&env, sql)
    });
}

/// A statement's shape (literals as parameters) returns what the statement returns.
#[test]
fn shapes_mean_the_same() {
    let env = TestEnv::new();
    let mut compared = 0;
    for sql in lines(include_str!("golden/right.sql")) {
        let Some(shape) = cairn_analyze::parse::shape::shape(sql) else { continue };
        let types = RefCell::new(shape.parameter_types());
        let columns = |statement: Statement| match statement {
            Statement::Query(query) => query
                .output()
                .iter()
                .filter(|target| !target.junk)
                .map(|target| {
                    (target.name.clone(), expr_type(&target.expr).oid, expr_type(&target.expr).typmod)
                })
                .collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        let found = match run(&env, shape.text(), &types) {
            Ok(statement) => columns(statement),
            // The session analyzes the original then.
            Err(error) if error.sqlstate() == cairn_types::sqlstate::INDETERMINATE_DATATYPE => continue,
            Err(error) => panic!("{sql}\n{}\n{error}", shape.text()),
        };
        let expected = columns(run(&env, sql, &RefCell::new(Vec::new())).unwrap());
        assert_eq!(found, expected, "{sql}\n{}", shape.text());
        assert_eq!(types.borrow().len(), shape.literals.len(), "{sql}");
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
}

/// Nothing that is written makes the analyzer panic: pieces of right statements, put together at random.
#[test]
fn no_input_panics() {
    let env = TestEnv::new();
    let statements = lines(include_str!("golden/right.sql"));
    let words: Vec<Vec<&str>> = statements.iter().map(|sql| sql.split(' ').collect()).collect();
    let mut seed = 88172645463325252u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..4000 {
        let mut text: Vec<&str> = words[random(words.len())].clone();
        for _ in 0..=random(3) {
            let other = &words[random(words.len())];
            let from = random(other.len());
            let to = (from + 1 + random(6)).min(other.len());
            let at = random(text.len());
            let end = (at + random(3)).min(text.len());
            text.splice(at..end, other[from..to].iter().copied());
        }
        let sql = text.join(" ");
        let _ = cairn_analyze::parse::shape::shape(&sql);
        if let Ok(parsed) = parse(&sql) {
            for statement in &parsed {
                let _ = analyze(statement, &env.context(Parameters::Infer(&RefCell::new(Vec::new()))));
            }
        }
    }
}

/// Threads that run statements need this much stack for the deepest ones (debug builds are the greedy ones).
const STACK_BYTES: usize = 8 << 20;

#[test]
fn depth_is_bounded() {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(deep_statements).unwrap().join().unwrap();
}

fn deep_statements() {
    let env = TestEnv::new();
    let deep = |sql: String| {
        let parameters = RefCell::new(Vec::new());
        match parse(&sql) {
            Ok(mut parsed) => {
                analyze(&parsed.remove(0), &env.context(Parameters::Infer(&parameters))).map(|_| ())
            }
            Err(error) => Err(error),
        }
    };
    for sql in [
        format!("select {}1", "1+".repeat(100_000)),
        format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("select {} true", "not ".repeat(100_000)),
        format!("select {}1{}", "(select ".repeat(50_000), ")".repeat(50_000)),
        format!("select 1{}", " union select 1".repeat(50_000)),
        format!("select {}1{}", "case when true then ".repeat(20_000), " end".repeat(20_000)),
        format!("select * from t{}", " join t".repeat(20_000)),
        format!("select {}", "[1".repeat(20_000)),
        format!("select 1{}", "::int".repeat(50_000)),
        format!("select a{} from t", "[1]".repeat(50_000)),
        format!("select {}1{}", "abs(".repeat(50_000), ")".repeat(50_000)),
    ] {
        let error = deep(sql).unwrap_err();
        assert!(matches!(error.sqlstate().as_str(), "54001" | "42601" | "42804"), "{error}");
    }
    for sql in [
        format!("select {}1", "1+".repeat(600)),
        format!("select {}1{}", "(select ".repeat(100), ")".repeat(100)),
        format!("select 1{}", " union select 1".repeat(500)),
        format!("select 1 from t where a = 1{}", " or a = 1".repeat(5000)),
        format!("select a in (1{}) from t", ", 1".repeat(20_000)),
        format!("values (1, 'x'){}", ", (1, 'x')".repeat(5000)),
    ] {
        deep(sql.clone()).unwrap_or_else(|error| panic!("{}...: {error}", &sql[..60]));
    }
}
