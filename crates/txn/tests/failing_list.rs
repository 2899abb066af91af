//! A disk that fails while the list of databases changes: whatever the call said, the next start agrees with it.
//!
//! The test runs itself as a child on a disk of which one fsync or write of the system store fails (`cairn_powerloss`). The child
//! drops a database. If it is told that this failed, it goes on to write into the database, and what is acknowledged there
//! must be found by the next start.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use cairn_powerloss::{Fault, FaultyCall, Recorder};
use cairn_txn::{Clock, Cluster, Durability, EngineOptions, Origin, Resources};
use common::begin;

const DIRECTORY: &str = "CAIRN_FAILING_LIST_DIRECTORY";
const EIO: i32 = 5;
const KEY: &[u8] = b"\0\0\0\x01k";

fn open(directory: &Path) -> Cluster {
    let resources = Resources::new(16 << 20, 8 << 20);
    let options = EngineOptions { garbage_collection: false, ..EngineOptions::default() };
    Cluster::open_with(directory, options, resources, Clock::system()).unwrap()
}

/// The child: it is run by the test below and does nothing by itself.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let cluster = open(Path::new(&directory));
    println!("\nDID open");
    if cluster.drop_database("doomed").is_ok() {
        println!("\nDID drop");
    } else if let Ok(database) = cluster.database("doomed") {
        let txn = begin(&database);
        txn.put(KEY, b"afterwards").unwrap();
        txn.commit(Durability::Sync, None).unwrap();
        println!("\nDID write");
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            std::fs::copy(&path, &copied).unwrap();
        }
    }
}

#[test]
fn a_change_of_the_list_that_fails_ends_the_process() {
    if std::env::var_os(DIRECTORY).is_some() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let cluster = open(base.path());
    cluster.create_database("doomed", 10, Origin::Empty).unwrap();
    cluster.create_database("stays", 10, Origin::Empty).unwrap();
    drop(cluster);
    let mut ended_while_dropping = 0;
    // There are many more writes than fsyncs, and most are of files that nobody needs.
    for (call, step) in [(FaultyCall::Sync, 1), (FaultyCall::Write, 5)] {
        for first in (1..).step_by(step) {
            assert!(first < 200, "the child never came to its end");
            let scratch = tempfile::tempdir().unwrap();
            let directory = scratch.path().join("data");
            copy(base.path(), &directory);
            let recorder = Recorder::start(&directory, &scratch.path().join("journal")).unwrap();
            let fault = Fault { call, error: EIO, part: "system/".to_owned(), first, count: 1 };
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["child", "--exact", "--nocapture"])
                .env(DIRECTORY, &directory)
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            recorder.watch(&mut command, 0, Some(&fault));
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let did = |what: &str| said.lines().any(|line| line == format!("DID {what}"));
            let faults = recorder.journal().unwrap().faults();
            if faults.is_empty() {
                assert!(did("drop"), "{said}");
                break;
            }
            let problem = format!("{call:?} {first} of {faults:?}: {said}");
            if did("open") && !output.status.success() {
                ended_while_dropping += 1;
            }
            let cluster = open(&directory);
            assert!(cluster.database("stays").is_ok());
            let doomed = cluster.database_info("doomed");
            assert_eq!(doomed.is_some(), directory.join("databases/16384").exists(), "{problem}");
            assert!(!(did("drop") && doomed.is_some()), "{problem}");
            if did("write") {
                let database =
                    cluster.database("doomed").unwrap_or_else(|error| panic!("{error}: {problem}"));
                let txn = begin(&database);
                let value = txn.get(&txn.snapshot().unwrap(), KEY).unwrap();
                assert_eq!(value.as_deref(), Some(&b"afterwards"[..]), "{problem}");
            }
        }
    }
    assert!(ended_while_dropping >= 2, "{ended_while_dropping}");
}
