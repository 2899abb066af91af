//! Scripts whose answers are PostgreSQL's: `*.sql` beside this file, with what psql printed in `*.out`.
//! `CAIRN_REGENERATE=1` asks the PostgreSQL at PGHOST/PGPORT again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod server;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn scripts() -> Vec<std::path::PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/select");
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    found.sort();
    found
}

/// What PostgreSQL says, in a schema of its own.
fn ask_postgres(sql: &str) -> String {
    let mut child = Command::new("psql")
        .args(["-X", "-q", "-A", "-t", "-P", "null=<null>", "-v", "VERBOSITY=terse", "-d", "postgres"])
        .env("PGUSER", "postgres")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Errors come on stdout too, in their place: psql's own copy of stderr is not in order.
    let script = format!(
        "begin; create schema select_golden; set search_path = select_golden;\n\\set ON_ERROR_ROLLBACK on\n{sql}\nrollback;\n"
    );
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// One statement at a time, so that an error stands where it happened.
fn golden(sql: &str) -> String {
    let statements = cairn_analyze::parse(sql).unwrap();
    let mut marked = String::new();
    for statement in &statements {
        marked.push_str(statement.text());
        marked.push_str(";\n\\echo :ERROR :LAST_ERROR_MESSAGE\n");
    }
    let raw = ask_postgres(&marked);
    let mut out = String::new();
    for line in raw.lines() {
        if let Some(rest) = line.strip_prefix("true ") {
            out.push_str(&format!("ERROR:  {rest}\n"));
        } else if !line.starts_with("false ") && !line.starts_with("ERROR:") && !line.starts_with("NOTICE:") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[test]
fn answers_are_those_of_postgres() {
    let only = std::env::var("SCRIPT").ok();
    let mut failed = Vec::new();
    for path in scripts() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let sql = std::fs::read_to_string(&path).unwrap();
        let expected_path = path.with_extension("out");
        if std::env::var_os("CAIRN_REGENERATE").is_some() {
            std::fs::write(&expected_path, golden(&sql)).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_path).unwrap();
        // Statement by statement, to tell which one it was.
        let found = server::Server::new().script(&sql);
        if found != expected {
            let differing = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
            std::fs::write(std::env::temp_dir().join(format!("{name}.found")), &found).unwrap();
            failed.push(format!("{name}: first differing line {differing:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The same answers where nothing fits into memory, but for the order that nobody asked for.
#[test]
fn answers_do_not_depend_on_memory() {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for path in scripts() {
        let sql = std::fs::read_to_string(&path).unwrap();
        let expected = std::fs::read_to_string(path.with_extension("out")).unwrap();
        let mut server = server::Server::new();
        server.work_mem = 200;
        assert_eq!(sorted(&server.script(&sql)), sorted(&expected), "{}", path.display());
    }
}
