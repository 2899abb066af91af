//! Client drivers, unchanged, against Cairn: each runs a script of its own under `tests/drivers/`.
//!
//! `scripts/setup --tests` installs the drivers and makes the link `.drivers`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

use cairn_testkit::{Server, succeed};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn installed() -> PathBuf {
    let drivers = root().join(".drivers");
    assert!(drivers.join("ready").exists(), "the drivers are not installed: run scripts/setup --tests");
    drivers
}

fn run(program: &Path, script: &str) {
    let server = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).unwrap();
    let mut command: Command = server.client(program.to_str().unwrap());
    command.arg(root().join("tests/drivers").join(script)).env("NODE_PATH", installed().join("node_modules"));
    let output = command.output().unwrap();
    succeed(script, output).unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
}

#[test]
fn psycopg() {
    run(&installed().join("python/bin/python"), "psycopg_test.py");
}

#[test]
fn asyncpg() {
    run(&installed().join("python/bin/python"), "asyncpg_test.py");
}

#[test]
fn node_postgres() {
    run(Path::new("node"), "node_postgres_test.js");
}
