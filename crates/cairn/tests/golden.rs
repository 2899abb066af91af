//! Golden scripts: what psql shows for a script on Cairn must be what it shows on PostgreSQL.
//!
//! `tests/golden/postgres/*.sql` run against both servers. The `.out` beside a script is PostgreSQL's answer; where
//! a PostgreSQL is installed it is asked again, so that a stale file fails too. `tests/golden/cairn/*.sql` use what
//! only Cairn has, and their `.out` is checked by hand. Each script gets a new database.
//!
//! `CAIRN_REGENERATE=1 cargo test -p cairn --test golden` writes the `.out` files anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_testkit::Server;
use libtest_mimic::{Arguments, Failed, Trial};

struct Servers {
    cairn: Server,
    postgres: Option<Server>,
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
    let servers = Arc::new(Servers {
        cairn: Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts"),
        postgres: Server::postgres(&[("fsync", "off")]).expect("PostgreSQL starts"),
        regenerate: std::env::var_os("CAIRN_REGENERATE").is_some(),
    });
    if servers.postgres.is_none() {
        eprintln!("no PostgreSQL is installed: comparing with its recorded answers only");
    }
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
    if let Some(answer) = on_postgres.filter(|answer| *answer != expected) {
        return Err(
            format!("PostgreSQL no longer answers as recorded:\n{}", difference(&expected, &answer)).into()
        );
    }
    if on_cairn != expected {
        return Err(format!(
            "Cairn (+) differs from what is expected (-):\n{}",
            difference(&expected, &on_cairn)
        )
        .into());
    }
    Ok(())
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
