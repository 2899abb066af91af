//! Golden scripts: what psql shows for a script on Cairn must be what it shows on PostgreSQL.
//!
//! `tests/golden/postgres/*.sql` run against both servers. The `.out` beside a script is PostgreSQL's answer; where
//! PostgreSQL 15 is installed it is asked again, so that a stale file fails too. `tests/golden/cairn/*.sql` use what
//! only Cairn has, and their `.out` is checked by hand. Each script gets a new database.
//!
//! The answers hold for every minor version of 15 (a script shows no version number, and a refused COPY FROM STDIN,
//! behind which psql 15.20 skips data and 15.18 does not, is a `\copy` from a file). `RECORDED_BY` says which version
//! gave them. With a psql of another major version, or none, the scripts are ignored, with a word about it.
//!
//! `CAIRN_REGENERATE=1 cargo test -p cairn --test golden` writes the `.out` files anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_testkit::Server;
use cairn_testkit::recorded::{Verdict, Versions};
use libtest_mimic::{Arguments, Failed, Trial};

struct Servers {
    cairn: Server,
    postgres: Option<Server>,
    versions: Versions,
    regenerate: bool,
}

fn main() {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let shared = scripts(&root.join("postgres"));
    let own = scripts(&root.join("cairn"));
    if arguments.list || shared.is_empty() && own.is_empty() {
        let trials = shared.iter().chain(&own).map(|path| Trial::test(name(path), || Ok(()))).collect();
        libtest_mimic::run(&arguments, trials).exit();
    }
    if let Some(reason) = cairn_testkit::psql_is_another() {
        eprintln!("skipped: {reason}");
        let ignored = |path: &PathBuf| Trial::test(name(path), || Ok(())).with_ignored_flag(true);
        libtest_mimic::run(&arguments, shared.iter().chain(&own).map(ignored).collect()).exit();
    }
    let regenerate = std::env::var_os("CAIRN_REGENERATE").is_some();
    let postgres = Server::reference(&[("fsync", "off")]).expect("PostgreSQL starts");
    let server = postgres.as_ref().map_or("no PostgreSQL", Server::name);
    let present = format!("{server}, psql {}", cairn_testkit::psql_version().unwrap_or_default());
    if regenerate && postgres.is_some() {
        Versions::record(&root.join("postgres"), &present).expect("the version can be written");
    }
    let servers = Arc::new(Servers {
        cairn: Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts"),
        versions: Versions::of(&root.join("postgres"), &present).expect("RECORDED_BY can be read"),
        postgres,
        regenerate,
    });
    let mut trials = Vec::new();
    for (paths, is_shared) in [(shared, true), (own, false)] {
        for path in paths {
            let servers = Arc::clone(&servers);
            trials.push(Trial::test(name(&path), move || check(&servers, &path, is_shared)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end with their values, which `exit` would not drop.
    let failed = conclusion.has_failed();
    drop(servers);
    std::process::exit(if failed { 101 } else { 0 });
}

fn check(servers: &Servers, path: &Path, is_shared: bool) -> Result<(), Failed> {
    let expected_path = path.with_extension("out");
    let on_cairn = run(&servers.cairn, path)?;
    let on_postgres = match &servers.postgres {
        Some(server) if is_shared => Some(run(server, path)?),
        _ => None,
    };
    if servers.regenerate {
        fs::write(&expected_path, on_postgres.as_ref().unwrap_or(&on_cairn))?;
    }
    let expected = fs::read_to_string(&expected_path)
        .map_err(|error| format!("{}: {error}; run with CAIRN_REGENERATE=1", expected_path.display()))?;
    if !is_shared {
        let wrong =
            || format!("Cairn (+) differs from what is expected (-):\n{}", difference(&expected, &on_cairn));
        return if on_cairn == expected { Ok(()) } else { Err(wrong().into()) };
    }
    match servers.versions.judge(&expected, on_postgres.as_deref(), &on_cairn) {
        Verdict::Right => Ok(()),
        Verdict::Noted(note) => {
            eprintln!("{}: {note}", name(path));
            Ok(())
        }
        Verdict::Stale(message) => {
            let answer = on_postgres.unwrap_or_default();
            Err(format!("{message} (-):\n{}", difference(&expected, &answer)).into())
        }
        Verdict::Wrong(message) => {
            Err(format!("{message} (-):\n{}", difference(&expected, &on_cairn)).into())
        }
    }
}

/// Runs a script in a new database; what psql printed, errors in their places.
fn run(server: &Server, path: &Path) -> Result<String, Failed> {
    let database = format!("golden_{}", name(path).replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    server.sql(&format!("drop database if exists {database}"))?;
    server.sql(&format!("create database {database}"))?;
    let folder = path.parent().ok_or("a script has a folder")?;
    let output = server
        .client("sh")
        .args(["-c", "exec psql -X -a -q -f \"$0\" 2>&1"])
        .arg(path.file_name().ok_or("a script has a name")?)
        .env("PGDATABASE", &database)
        .current_dir(folder)
        .output()?;
    server.sql(&format!("drop database {database}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    paths.sort();
    paths
}

/// "postgres/joins".
fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    format!("{folder}/{stem}")
}

/// The lines that differ, with two lines around them, at most so many.
fn difference(expected: &str, actual: &str) -> String {
    const LINES_MAX: usize = 80;
    let diff = similar::TextDiff::from_lines(expected, actual);
    let text = diff.unified_diff().context_radius(2).to_string();
    let mut lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    if text.lines().count() > LINES_MAX {
        lines.push("...");
    }
    lines.join("\n")
}
