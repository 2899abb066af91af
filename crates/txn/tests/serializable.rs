//! Serializable transactions: what must fail, what must not, and random histories against the one order that counts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use cairn_txn::{
    BeginOptions, Clock, Conflict, Database, Direction, Durability, EngineOptions, Error, Interrupt,
    Isolation, KeyRange, Resources, RowLockMode, SessionHandle, Store, Timestamp, Transaction, WaitPolicy,
};

fn open(path: &Path) -> Database {
    let resources = Resources::new(16 << 20, 8 << 20);
    Database::open(path, &EngineOptions::default(), &resources, Arc::new(Clock::system())).unwrap()
}

fn begin_with(database: &Database, isolation: Isolation, read_only: bool) -> Arc<dyn Transaction> {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let pid = NEXT.fetch_add(1, Ordering::Relaxed);
    let session = Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::default()) });
    database.begin(BeginOptions { session, isolation, read_only, read_time: None }).unwrap()
}

fn begin(database: &Database) -> Arc<dyn Transaction> {
    begin_with(database, Isolation::Serializable, false)
}

fn key(number: u8) -> Vec<u8> {
    vec![0, 0, 0, 9, number, 1]
}

fn range(low: u8, high: u8) -> KeyRange {
    KeyRange { low: vec![0, 0, 0, 9, low], high: vec![0, 0, 0, 9, high] }
}

fn get(txn: &Arc<dyn Transaction>, number: u8) -> Option<Vec<u8>> {
    txn.get(&txn.snapshot().unwrap(), &key(number)).unwrap().map(|value| value.to_vec())
}

/// The first `limit` rows.
fn scan(
    txn: &Arc<dyn Transaction>,
    range: KeyRange,
    direction: Direction,
    limit: usize,
) -> Vec<(u8, Vec<u8>)> {
    let mut cursor = txn.scan(&txn.snapshot().unwrap(), range, direction).unwrap();
    let mut rows = Vec::new();
    while rows.len() < limit
        && let Some((key, value)) = cursor.next().unwrap()
    {
        rows.push((key[4], value.to_vec()));
    }
    rows
}

fn put(txn: &Arc<dyn Transaction>, number: u8, value: &[u8]) -> Result<(), Error> {
    let wait = WaitPolicy::Block { timeout: std::time::Duration::from_secs(5) };
    txn.lock_row(&key(number), RowLockMode::Update, wait)?;
    txn.put(&key(number), value)?;
    txn.advance_command();
    Ok(())
}

fn commit(txn: &Arc<dyn Transaction>) -> Result<Option<Timestamp>, Error> {
    txn.commit(Durability::Async, None)
}

fn setup(database: &Database, numbers: &[u8]) {
    let txn = begin_with(database, Isolation::ReadCommitted, false);
    for number in numbers {
        put(&txn, *number, b"0").unwrap();
    }
    commit(&txn).unwrap();
}

fn is_conflict(result: Result<Option<Timestamp>, Error>) -> bool {
    matches!(result, Err(Error::Serialization(Conflict::ReadWrite)))
}

#[test]
fn write_skew() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[1, 2]);
    let (a, b) = (begin(&database), begin(&database));
    get(&a, 1);
    get(&b, 2);
    put(&a, 2, b"a").unwrap();
    put(&b, 1, b"b").unwrap();
    commit(&a).unwrap();
    assert!(is_conflict(commit(&b)));
    assert_eq!(get(&begin(&database), 1).unwrap(), b"0", "nothing of it stays");
}

#[test]
fn phantoms_and_what_was_not_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[10, 20, 30]);
    for direction in [Direction::Forward, Direction::Backward] {
        // (how many rows are read, key that another one writes, conflict forward, backward)
        for (limit, written, forward, backward) in [
            (9, 15, true, true),
            (1, 5, true, false),
            (1, 15, false, false),
            (1, 35, false, true),
            (2, 15, true, false),
            (9, 35, true, true),
            (9, 60, false, false),
            (0, 15, false, false),
        ] {
            let reader = begin(&database);
            scan(&reader, range(0, 50), direction, limit);
            let other = begin_with(&database, Isolation::ReadCommitted, false);
            put(&other, written, b"x").unwrap();
            commit(&other).unwrap();
            put(&reader, 100, b"y").unwrap();
            let conflict = if direction == Direction::Forward { forward } else { backward };
            assert_eq!(is_conflict(commit(&reader)), conflict, "{direction:?} {limit} {written}");
            let cleanup = begin_with(&database, Isolation::ReadCommitted, false);
            if ![10, 20, 30].contains(&written) {
                cleanup.delete(&key(written)).unwrap();
            }
            commit(&cleanup).unwrap();
        }
    }
}

#[test]
fn who_only_reads_never_fails_and_who_only_writes_neither() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[1, 2]);
    let reader = begin(&database);
    let declared = begin_with(&database, Isolation::Serializable, true);
    get(&declared, 1);
    scan(&reader, range(0, 255), Direction::Forward, 9);
    let (blind, other) = (begin(&database), begin(&database));
    blind.snapshot().unwrap();
    put(&other, 1, b"x").unwrap();
    commit(&other).unwrap();
    put(&blind, 2, b"y").unwrap();
    commit(&blind).unwrap();
    assert_eq!(get(&reader, 2).unwrap(), b"0");
    commit(&reader).unwrap();
    commit(&declared).unwrap();
}

/// Rows of dead ranges that a scan jumped over are read all the same.
#[test]
fn skipped_spans_count_as_read() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &(0..100).collect::<Vec<_>>());
    let delete = begin_with(&database, Isolation::ReadCommitted, false);
    for number in 0..90 {
        delete.delete(&key(number)).unwrap();
    }
    commit(&delete).unwrap();
    for _ in 0..3 {
        assert_eq!(scan(&begin(&database), range(0, 255), Direction::Forward, 1)[0].0, 90);
    }
    let reader = begin(&database);
    scan(&reader, range(0, 255), Direction::Forward, 1);
    let other = begin(&database);
    put(&other, 50, b"x").unwrap();
    commit(&other).unwrap();
    put(&reader, 99, b"y").unwrap();
    assert!(is_conflict(commit(&reader)));
}

#[derive(Clone, Debug)]
enum Seen {
    Row(u8, Option<Vec<u8>>),
    Rows { low: u8, high: u8, backward: bool, limit: usize, rows: Vec<(u8, Vec<u8>)> },
}

/// A transaction that committed: when, what it saw before its first write, what it wrote.
#[derive(Clone, Debug)]
struct Committed {
    time: Timestamp,
    seen: Vec<Seen>,
    written: Vec<(u8, Vec<u8>)>,
}

/// Threads run random transactions; played one after the other in commit order, each must see what it saw.
#[test]
fn commit_order_is_a_serial_order() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[]);
    let history: Mutex<Vec<Committed>> = Mutex::default();
    let failures = AtomicI32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (database, history, failures) = (&database, &history, &failures);
            scope.spawn(move || {
                let mut random = thread + 1;
                let mut below = move |limit: u64| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (random >> 33) % limit
                };
                for number in 0..400u32 {
                    let txn = begin(database);
                    let mut seen = Vec::new();
                    for _ in 0..below(4) {
                        let (low, length) = (below(12) as u8, below(6) as u8);
                        if below(2) == 0 {
                            seen.push(Seen::Row(low, get(&txn, low)));
                        } else {
                            let (backward, limit) = (below(2) == 0, below(4) as usize);
                            let direction = if backward { Direction::Backward } else { Direction::Forward };
                            let (low, high) = (low, low + length);
                            let rows = scan(&txn, range(low, high), direction, limit);
                            seen.push(Seen::Rows { low, high, backward, limit, rows });
                        }
                        if below(3) == 0 {
                            std::thread::yield_now();
                        }
                    }
                    let mut written = Vec::new();
                    let mut run = || {
                        for _ in 0..=below(2) {
                            let value = format!("{thread}/{number}").into_bytes();
                            let target = below(12) as u8;
                            put(&txn, target, &value)?;
                            written.push((target, value));
                        }
                        commit(&txn)
                    };
                    match run() {
                        Ok(time) => {
                            history.lock().unwrap().push(Committed { time: time.unwrap(), seen, written });
                        }
                        Err(Error::Serialization(_) | Error::Deadlock { .. }) => {
                            txn.rollback();
                            failures.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let mut history = history.into_inner().unwrap();
    history.sort_by_key(|committed| committed.time);
    assert!(history.len() > 300 && failures.into_inner() > 0, "{} committed", history.len());
    let mut state: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for committed in history {
        for seen in &committed.seen {
            match seen {
                Seen::Row(number, value) => assert_eq!(state.get(number), value.as_ref(), "{committed:?}"),
                Seen::Rows { low, high, backward, limit, rows } => {
                    let mut wanted: Vec<_> =
                        state.range(*low..*high).map(|(number, value)| (*number, value.clone())).collect();
                    if *backward {
                        wanted.reverse();
                    }
                    wanted.truncate(*limit);
                    assert_eq!(&wanted, rows, "{committed:?}");
                }
            }
        }
        state.extend(committed.written);
    }
}
