//! kill -9 at any moment loses nothing acknowledged and leaves nothing half done.
//!
//! The test runs itself as a child that commits on several threads and prints a line for every acknowledgement;
//! the parent kills it, opens the directory and compares it with what it was told: the oracle. Then it goes on
//! with the same directory.
//!
//! A killed process loses nothing that it wrote, synced or not. The second test takes away what was not synced,
//! too: the child keeps the size that the log had when its last fsync began, and the parent cuts the log there.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cairn_storage::log_files::written_bytes;
use cairn_txn::{
    Cluster, Database, Direction, Durability, EngineOptions, Error, KeyRange, Origin, Resources, Retention,
    RowLockMode, SequenceOptions, Store, SyncPhase, Transaction, WaitPolicy,
};
use common::begin;

const LARGE: u32 = 10;
/// Rows of it.
const LARGE_ROWS: u32 = 400;

const KILLS: u32 = 20;
const THREADS: u32 = 4;
const DIRECTORY: &str = "CAIRN_CRASH_TEST_DIRECTORY";
/// Set if unsynced writes will be lost.
const LOSSY: &str = "CAIRN_CRASH_TEST_LOSSY";

// Storage ids below the first one that is given out.
const LOG: u32 = 1;
const LEFT: u32 = 2;
const RIGHT: u32 = 3;
const LOADS: u32 = 4;
const SEQUENCE: u32 = 5;
/// Of each thread, the [`CHURN_ROWS`] rows of its last commit; those before were deleted, and collected as fast as can be.
const CHURN: u32 = 6;
const CHURN_ROWS: u64 = 30;

const COUNT_UP: SequenceOptions =
    SequenceOptions { start: 1, increment: 1, min: 1, max: i64::MAX, cycle: false };

fn cluster(directory: &Path) -> Cluster {
    let options = EngineOptions {
        memtable_bytes: 256 << 10,
        file_bytes: 256 << 10,
        retention: Retention::Micros(0),
        ..EngineOptions::default()
    };
    let resources = Resources::new(16 << 20, 8 << 20);
    Cluster::open_with(directory, options, resources, cairn_txn::Clock::system()).unwrap()
}

fn database(cluster: &Cluster) -> Database {
    match cluster.database("crash") {
        Err(Error::NoSuchDatabase(_)) => {
            cluster.create_database_with_oid("crash", 5, 10, Origin::Empty).unwrap();
            cluster.database("crash").unwrap()
        }
        found => found.unwrap(),
    }
}

fn row(storage: u32, thread: u32) -> Vec<u8> {
    [storage.to_be_bytes(), thread.to_be_bytes()].concat()
}

fn numbered_row(storage: u32, thread: u32, number: u64) -> Vec<u8> {
    [&row(storage, thread)[..], &number.to_be_bytes()].concat()
}

fn number(txn: &Arc<dyn Transaction>, key: &[u8]) -> u64 {
    let value = txn.get(&txn.snapshot().unwrap(), key).unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()))
}

fn rows(database: &Database, storage: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let txn = begin(database);
    let range = KeyRange { low: storage.to_be_bytes().to_vec(), high: (storage + 1).to_be_bytes().to_vec() };
    let mut cursor = txn.scan(&txn.snapshot().unwrap(), range, Direction::Forward).unwrap();
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    rows
}

fn acknowledge(line: std::fmt::Arguments<'_>) {
    // One write call a line, so that lines of several threads do not mix.
    let _ = std::io::stdout().lock().write_all(format!("\nACK {line}\n").as_bytes());
}

/// The child: it is run by the test below and does nothing by itself.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let cluster = cluster(Path::new(&directory));
    let database = database(&cluster);
    let lossy = std::env::var_os(LOSSY).is_some();
    if lossy {
        keep_synced_log_size(Path::new(&directory), &database);
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                for turn in 0.. {
                    write_one(database, thread, turn, lossy);
                }
            });
        }
        scope.spawn(|| {
            // A reader tells only what is settled, and only news.
            let mut told = [0; THREADS as usize];
            for thread in (0..THREADS).cycle() {
                let txn = begin(&database);
                let seen = number(&txn, &row(LEFT, thread));
                database.wait_durable(txn.settled_at());
                if seen > std::mem::replace(&mut told[thread as usize], seen) {
                    acknowledge(format_args!("commit {thread} {seen}"));
                }
            }
        });
        scope.spawn(|| {
            for turn in 0u32.. {
                load_one(&database, turn);
            }
        });
        scope.spawn(|| {
            for turn in 0u32.. {
                write_large(&database, turn);
            }
        });
        scope.spawn(|| {
            loop {
                database.vacuum(&[CHURN, LEFT, LARGE], false, &|| false).unwrap();
                let dead = database.engine().collected().dead_rows_deleted;
                acknowledge(format_args!("collected 0 {dead}"));
            }
        });
    });
}

/// Rows that always change together.
fn write_one(database: &Database, thread: u32, turn: u64, lossy: bool) {
    let txn = begin(database);
    let next = number(&txn, &row(LEFT, thread)) + 1;
    let value = database.sequence_next(SEQUENCE, &COUNT_UP).unwrap();
    txn.put(&row(LEFT, thread), &next.to_be_bytes()).unwrap();
    txn.put(&row(RIGHT, thread), &next.to_be_bytes()).unwrap();
    txn.put(&numbered_row(LOG, thread, next), &[thread as u8; 200]).unwrap();
    for churned in 0..CHURN_ROWS {
        txn.put(&numbered_row(CHURN, thread, next * CHURN_ROWS + churned), &[thread as u8; 20]).unwrap();
        txn.delete(&numbered_row(CHURN, thread, (next - 1) * CHURN_ROWS + churned)).unwrap();
    }
    match turn % 5 {
        4 => txn.rollback(),
        // Readers may tell what such a commit did before it is durable: nobody promised that.
        3 if !lossy => assert!(txn.commit(Durability::Async, None).unwrap().is_some()),
        _ => {
            txn.commit(Durability::Sync, None).unwrap();
            acknowledge(format_args!("commit {thread} {next}"));
        }
    }
    acknowledge(format_args!("sequence 0 {value}"));
}

/// All rows get the same number, by a transaction that goes past its memory again and again; every third one is rolled back.
fn write_large(database: &Database, turn: u32) {
    let txn = begin(database);
    txn.set_memory_limit(20_000);
    let next = number(&txn, &row(LARGE, 0)) + 1;
    let lock = |number| {
        let locked = txn.lock_row(&row(LARGE, number), RowLockMode::Update, WaitPolicy::Error);
        // Nobody else is here: what is in the way is a lock that a crash has left behind.
        assert!(locked.is_ok(), "row {number}: {locked:?}");
    };
    for number in 0..LARGE_ROWS / 2 {
        lock(number);
        txn.put(&row(LARGE, number), &next.to_be_bytes()).unwrap();
    }
    let savepoint = txn.savepoint();
    for number in 0..LARGE_ROWS {
        lock(number);
        txn.put(&row(LARGE, number), &u64::MAX.to_be_bytes()).unwrap();
    }
    txn.rollback_to(savepoint).unwrap();
    for number in LARGE_ROWS / 2..LARGE_ROWS {
        txn.put(&row(LARGE, number), &next.to_be_bytes()).unwrap();
    }
    if turn % 3 == 2 {
        txn.rollback();
    } else {
        txn.commit(Durability::Sync, None).unwrap();
        acknowledge(format_args!("large 0 {next}"));
    }
}

/// The number that all rows have; 0: there are none.
fn large_number(database: &Database) -> u64 {
    let rows = rows(database, LARGE);
    let Some((_, first)) = rows.first() else { return 0 };
    assert_eq!(rows.len(), LARGE_ROWS as usize);
    assert!(rows.iter().all(|(_, value)| value == first), "half a large transaction");
    u64::from_be_bytes(first[..].try_into().unwrap())
}

/// A bulk load of 2,000 rows, named by one row; every other one is rolled back.
fn load_one(database: &Database, turn: u32) {
    let txn = begin(database);
    let storage = txn.create_storage().unwrap();
    for number in 0..2_000 {
        txn.bulk_put(&row(storage, number), &[1; 700]).unwrap();
    }
    txn.put(&row(LOADS, storage), b"").unwrap();
    if turn.is_multiple_of(2) {
        txn.commit(Durability::Sync, None).unwrap();
        acknowledge(format_args!("load {storage} 2000"));
    }
}

/// Number and size of the newest log file, without the room that it has ahead.
fn newest_log(path: &Path) -> (u64, u64) {
    let logs = std::fs::read_dir(path).unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok()?;
        Some((number, written_bytes(&entry.path()).ok()?))
    });
    logs.max().unwrap_or_default()
}

fn synced_file(directory: &Path) -> std::path::PathBuf {
    directory.join("synced-log")
}

/// Writes down, after each fsync, how long the log was when it began.
fn keep_synced_log_size(directory: &Path, database: &Database) {
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(synced_file(directory))
        .unwrap();
    let path = database.engine().path().to_owned();
    let began = std::sync::Mutex::new((0, 0));
    database.engine().observe_syncs(Box::new(move |phase| match phase {
        SyncPhase::Begins => *began.lock().unwrap() = newest_log(&path),
        SyncPhase::Succeeded => {
            let (number, size) = *began.lock().unwrap();
            file.write_all_at(&[number.to_be_bytes(), size.to_be_bytes()].concat(), 0).unwrap();
        }
    }));
}

/// Cuts the newest log where its last fsync began; logs before it were synced when they were closed.
fn lose_unsynced_writes(directory: &Path, database: &Path) {
    let (newest, size) = newest_log(database);
    let synced = std::fs::read(synced_file(directory)).unwrap_or_default();
    let kept = match synced.split_first_chunk::<8>() {
        Some((number, kept)) if *number == newest.to_be_bytes() => {
            u64::from_be_bytes(kept.try_into().unwrap())
        }
        _ => 0,
    };
    assert!(kept <= size);
    let log = database.join(format!("{newest:06}.log"));
    if log.exists() {
        std::fs::File::options().write(true).open(log).unwrap().set_len(kept).unwrap();
    }
}

#[test]
fn kill_nine() {
    kill_repeatedly(false);
}

#[test]
fn kill_nine_and_lose_what_was_not_synced() {
    kill_repeatedly(true);
}

fn kill_repeatedly(lossy: bool) {
    if std::env::var_os(DIRECTORY).is_some() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = vec![0u64; THREADS as usize];
    let mut loads = HashSet::new();
    let mut large = 0;
    let mut sequence_values = HashSet::new();
    let mut total = 0;
    let mut collected = 0;
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .envs(lossy.then_some((LOSSY, "1")))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines();
            lines.map_while(Result::ok).filter(|line| line.starts_with("ACK ")).collect::<Vec<_>>()
        });
        // Different moments: while opening, early, late; and now and then when the collector has found something to do.
        let late = if round % 5 == 4 { 500 } else { 0 };
        std::thread::sleep(Duration::from_millis(u64::from(20 + round * 37 % 200 + late)));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in reader.join().unwrap() {
            let words: Vec<&str> = line.split(' ').collect();
            // The last line may be cut short.
            let [_, kind, subject, value] = words[..] else { continue };
            let (Ok(subject), Ok(value)) = (subject.parse::<u32>(), value.parse::<u64>()) else { continue };
            total += 1;
            match kind {
                "commit" => {
                    let newest = &mut acknowledged[subject as usize];
                    *newest = value.max(*newest);
                }
                "large" => large = value.max(large),
                "load" => assert!(loads.insert(subject), "storage {subject} was given out twice"),
                "sequence" => assert!(sequence_values.insert(value), "{value} was given out twice"),
                "collected" => collected += value,
                other => panic!("{other}"),
            }
        }
        let path = directory.path().join("databases/5");
        if lossy && path.exists() {
            lose_unsynced_writes(directory.path(), &path);
        }
        let cluster = cluster(directory.path());
        let database = database(&cluster);
        let txn = begin(&database);
        let log = rows(&database, LOG);
        let mut logged = 0;
        for thread in 0..THREADS {
            let (left, right) = (number(&txn, &row(LEFT, thread)), number(&txn, &row(RIGHT, thread)));
            assert_eq!(left, right, "half a transaction, round {round}");
            assert!(left >= acknowledged[thread as usize], "a commit was lost, round {round}");
            assert!(left == 0 || number_of_log_rows(&log, thread) == left, "round {round}");
            logged += left;
            let churn: Vec<_> = (0..CHURN_ROWS)
                .filter(|_| left > 0)
                .map(|number| numbered_row(CHURN, thread, left * CHURN_ROWS + number))
                .collect();
            let of_thread = row(CHURN, thread);
            let mut found = rows(&database, CHURN);
            found.retain(|(key, _)| key.starts_with(&of_thread));
            assert!(found.iter().map(|(key, _)| key).eq(&churn), "deleted rows came back, round {round}");
        }
        assert_eq!(log.len() as u64, logged);
        let committed: HashSet<u32> = rows(&database, LOADS)
            .iter()
            .map(|(key, _)| u32::from_be_bytes(key[4..].try_into().unwrap()))
            .collect();
        assert!(loads.is_subset(&committed), "a load was lost, round {round}");
        let newest = begin(&database).create_storage().unwrap();
        for storage in cairn_txn::FIRST_NORMAL_ID..newest {
            let expected = if committed.contains(&storage) { 2_000 } else { 0 };
            assert_eq!(rows(&database, storage).len(), expected, "storage {storage}, round {round}");
        }
        // The child may not have got so far.
        database.vacuum(&[CHURN], false, &|| false).unwrap();
        collected += database.engine().collected().dead_rows_deleted;
        // Before it settles, and afterwards.
        let found = large_number(&database);
        assert!(found >= large, "a large commit was lost, round {round}");
        database.settle_large_transactions().unwrap();
        assert!(!database.engine().spills().any_unsettled());
        assert_eq!(large_number(&database), found);
        for number in 0..LARGE_ROWS {
            assert_eq!(database.engine().provisional_records(&row(LARGE, number)).unwrap(), 0);
        }
        let value = database.sequence_next(SEQUENCE, &COUNT_UP).unwrap();
        assert!(sequence_values.insert(value as u64), "{value} was given out twice");
    }
    assert!(collected > 0, "nothing was collected: the test tests less than it says");
    assert!(total > 100, "only {total} acknowledgements: the test tests nothing");
}

fn number_of_log_rows(log: &[(Vec<u8>, Vec<u8>)], thread: u32) -> u64 {
    log.iter().filter(|(key, _)| key.starts_with(&row(LOG, thread))).count() as u64
}
