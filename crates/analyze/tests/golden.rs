//! What statements return and how wrong ones are refused, against PostgreSQL 15 (`golden/regenerate.py` asks it again).

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

#[test]
fn wrong_statements() {
    let env = TestEnv::new();
    compare("wrong", include_str!("golden/wrong.sql"), include_str!("golden/wrong.expected"), |sql| {
        complaint(&env, sql)
    });
}
