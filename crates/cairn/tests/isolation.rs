//! Sessions side by side: `tests/isolation/*.txt` step through several sessions, and what each sees, waits for and
//! fails with must be what PostgreSQL gives. The `.out` beside a script is PostgreSQL's answer, asked again where
//! one is installed; `CAIRN_REGENERATE=1` writes it anew.
//!
//! A script's lines: `setup: SQL` before the sessions start; `name: SQL` runs in a session and ends; `name*: SQL` must
//! wait for another session; `name: ...` alone collects the answer of its waiting statement. Lines that begin with `#` are
//! comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use cairn_testkit::Server;
use cairn_testkit::recorded::{Verdict, Versions};
use libtest_mimic::{Arguments, Failed, Trial};
use postgres::{Client, NoTls, SimpleQueryMessage};

/// A statement that should end has this long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A statement that should wait is watched this long.
const WAIT_OBSERVED: Duration = Duration::from_millis(150);

struct Servers {
    cairn: Server,
    postgres: Option<Server>,
    versions: Versions,
    regenerate: bool,
}

fn main() {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/isolation");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    if arguments.list {
        let trials = paths.iter().map(|path| Trial::test(name(path), || Ok(()))).collect();
        libtest_mimic::run(&arguments, trials).exit();
    }
    let regenerate = std::env::var_os("CAIRN_REGENERATE").is_some();
    let postgres = Server::reference(&[("fsync", "off"), ("deadlock_timeout", "100ms")]);
    let postgres = postgres.expect("PostgreSQL starts");
    let present = postgres.as_ref().map_or("no PostgreSQL", Server::name);
    if regenerate && postgres.is_some() {
        Versions::record(&folder, present).expect("the version can be written");
    }
    let servers = Arc::new(Servers {
        cairn: Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts"),
        versions: Versions::of(&folder, present).expect("RECORDED_BY can be read"),
        postgres,
        regenerate,
    });
    let trials = paths
        .into_iter()
        .map(|path| {
            let servers = Arc::clone(&servers);
            Trial::test(name(&path), move || check(&servers, &path))
        })
        .collect();
    let failed = libtest_mimic::run(&arguments, trials).has_failed();
    drop(servers);
    std::process::exit(if failed { 101 } else { 0 });
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn check(servers: &Servers, path: &Path) -> Result<(), Failed> {
    let expected_path = path.with_extension("out");
    let on_postgres = servers.postgres.as_ref().map(|server| run(server, path)).transpose()?;
    if let (true, Some(answer)) = (servers.regenerate, &on_postgres) {
        fs::write(&expected_path, answer)?;
    }
    let expected = fs::read_to_string(&expected_path)?;
    let on_cairn = run(&servers.cairn, path)?;
    let difference = |answer: &str| {
        similar::TextDiff::from_lines(expected.as_str(), answer).unified_diff().context_radius(3).to_string()
    };
    match servers.versions.judge(&expected, on_postgres.as_deref(), &on_cairn) {
        Verdict::Right => Ok(()),
        Verdict::Noted(note) => {
            eprintln!("{}: {note}", name(path));
            Ok(())
        }
        Verdict::Stale(message) => {
            Err(format!("{message}:\n{}", difference(&on_postgres.unwrap_or_default())).into())
        }
        Verdict::Wrong(message) => Err(format!("{message}:\n{}", difference(&on_cairn)).into()),
    }
}

struct Session {
    commands: Sender<String>,
    answers: Receiver<String>,
    waiting: bool,
}

fn run(server: &Server, path: &Path) -> Result<String, Failed> {
    let database = format!("isolation_{}", name(path));
    server.sql(&format!("drop database if exists {database}"))?;
    server.sql(&format!("create database {database}"))?;
    let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
    let mut setup = start_session(server, &database)?;
    let mut output = String::new();
    for line in fs::read_to_string(path)?.lines() {
        let Some((who, statement)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        output.push_str(line);
        output.push('\n');
        let (who, must_wait) = match who.strip_suffix('*') {
            Some(who) => (who, true),
            None => (who, false),
        };
        let session = match who {
            "setup" => &mut setup,
            _ => match sessions.entry(who.to_owned()) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(start_session(server, &database)?)
                }
            },
        };
        if statement == "..." {
            if !session.waiting {
                output.push_str("  did not wait\n");
                continue;
            }
        } else {
            session.commands.send(statement.to_owned())?;
        }
        if must_wait {
            match session.answers.recv_timeout(WAIT_OBSERVED) {
                Err(RecvTimeoutError::Timeout) => {
                    output.push_str("  waits\n");
                    session.waiting = true;
                }
                Ok(answer) => output.push_str(&answer),
                Err(error) => return Err(format!("{line}: {error}").into()),
            }
        } else {
            let answer = session
                .answers
                .recv_timeout(ANSWER_TIMEOUT)
                .map_err(|error| format!("{line}: {error}\n{output}"))?;
            output.push_str(&answer);
            session.waiting = false;
        }
    }
    Ok(output)
}

fn start_session(server: &Server, database: &str) -> Result<Session, Failed> {
    let parameters = format!("host=127.0.0.1 port={} user=postgres dbname={database}", server.port());
    let mut client = Client::connect(&parameters, NoTls)?;
    let (commands, to_run) = channel::<String>();
    let (send_answer, answers) = channel();
    thread::spawn(move || {
        for statement in to_run {
            if send_answer.send(answer(&mut client, &statement)).is_err() {
                break;
            }
        }
    });
    Ok(Session { commands, answers, waiting: false })
}

/// What a statement gave: its rows, or its error.
fn answer(client: &mut Client, statement: &str) -> String {
    match client.simple_query(statement) {
        Ok(messages) => messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values: Vec<&str> =
                        (0..row.len()).map(|column| row.get(column).unwrap_or("NULL")).collect();
                    Some(format!("  {}\n", values.join(" | ")))
                }
                _ => None,
            })
            .collect(),
        Err(error) => match error.as_db_error() {
            Some(error) => format!("  ERROR {}: {}\n", error.code().code(), error.message()),
            None => format!("  {error}\n"),
        },
    }
}
