//! `pg_dump` of a Cairn database can be restored: into another database of Cairn, whose dump is the same again, and
//! into PostgreSQL, whose dump is the same but for what PostgreSQL writes differently.

use std::path::Path;

use cairn_testkit::{Server, succeed};

/// What is dumped: `tests/dump/objects.sql`.
fn objects() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/dump/objects.sql")
}

fn psql(server: &Server, database: &str, file: &Path) -> String {
    let output = server
        .client("psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"])
        .arg(file)
        .env("PGDATABASE", database)
        .output()
        .expect("psql starts");
    succeed("psql", output).expect("the script runs")
}

/// The dump, without the lines that differ each time.
fn dump(server: &Server, database: &str) -> String {
    let output = server.client("pg_dump").arg(database).output().expect("pg_dump starts");
    let text = succeed("pg_dump", output).expect("the database can be dumped");
    let varies = ["\\restrict", "\\unrestrict", "-- Dumped from", "-- Dumped by"];
    text.lines().filter(|line| !varies.iter().any(|start| line.starts_with(start))).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    )
}

fn restore(server: &Server, database: &str, dump: &str) {
    server.sql(&format!("create database {database}")).expect("a new database");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), dump).expect("the dump is written");
    psql(server, database, file.path());
}

fn assert_same(expected: &str, actual: &str, what: &str) {
    let diff = similar::TextDiff::from_lines(expected, actual);
    assert!(expected == actual, "{what}:\n{}", diff.unified_diff().context_radius(2));
}

#[test]
fn a_dump_is_restored() {
    if let Some(reason) = cairn_testkit::psql_is_another() {
        eprintln!("skipped: {reason}");
        return;
    }
    let cairn = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts");
    cairn.sql("create database origin").expect("a new database");
    psql(&cairn, "origin", &objects());
    let dumped = dump(&cairn, "origin");
    assert!(dumped.contains("CREATE TABLE app.types"), "{dumped}");

    restore(&cairn, "copy", &dumped);
    assert_same(&dumped, &dump(&cairn, "copy"), "the copy's dump differs");

    if let Some(postgres) = Server::reference(&[("fsync", "off")]).expect("PostgreSQL starts") {
        restore(&postgres, "copy", &dumped);
        assert_same(&dumped, &dump(&postgres, "copy"), "PostgreSQL's dump of the copy differs");
    }
}
