//! Transactions that are larger than their memory: what they and others see and wait for while their writes are in the store.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use cairn_storage::spills::SettleStep;
use cairn_txn::locks::LockTarget;
use cairn_txn::{
    BeginOptions, Clock, Conflict, Database, Direction, Durability, EngineOptions, Error, Interrupt,
    Isolation, KeyRange, LockOutcome, LockTag, Resources, Retention, RowLockMode, SessionHandle, Snapshot,
    Store, Timestamp, Transaction, WaitPolicy,
};

const MODES: [RowLockMode; 6] = [
    RowLockMode::Witness,
    RowLockMode::KeyShare,
    RowLockMode::Share,
    RowLockMode::NoKeyUpdate,
    RowLockMode::Update,
    RowLockMode::Remove,
];

type Handle = Arc<dyn Transaction>;

fn open_with(path: &Path, options: &EngineOptions) -> Database {
    let resources = Resources::new(16 << 20, 8 << 20);
    Database::open(path, options, &resources, Arc::new(Clock::system())).unwrap()
}

fn open(path: &Path) -> Database {
    open_with(path, &EngineOptions::default())
}

fn begin(database: &Database, isolation: Isolation) -> Handle {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let pid = NEXT.fetch_add(1, Ordering::Relaxed);
    let session = Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::default()) });
    database.begin(BeginOptions { session, isolation, read_only: false, read_time: None }).unwrap()
}

/// Keeps nothing in memory.
fn spilling(database: &Database) -> Handle {
    let txn = begin(database, Isolation::ReadCommitted);
    txn.set_memory_limit(0);
    txn
}

fn read_committed(database: &Database) -> Handle {
    begin(database, Isolation::ReadCommitted)
}

fn key(number: u32) -> Vec<u8> {
    [9u32.to_be_bytes(), number.to_be_bytes()].concat()
}

fn update(txn: &Handle, number: u32, mode: RowLockMode, value: &str) {
    let wait = WaitPolicy::Block { timeout: Duration::from_secs(20) };
    txn.lock_row(&key(number), mode, wait).unwrap();
    txn.put(&key(number), value.as_bytes()).unwrap();
}

fn get(txn: &Handle, number: u32) -> Option<String> {
    let value = txn.get(&txn.snapshot().unwrap(), &key(number)).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn scan(txn: &Handle, direction: Direction) -> Vec<(u32, String)> {
    let range = KeyRange { low: 9u32.to_be_bytes().to_vec(), high: 10u32.to_be_bytes().to_vec() };
    let mut cursor = txn.scan(&txn.snapshot().unwrap(), range, direction).unwrap();
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        let number = u32::from_be_bytes(key[4..].try_into().unwrap());
        rows.push((number, String::from_utf8(value.to_vec()).unwrap()));
    }
    if direction == Direction::Backward {
        rows.reverse();
    }
    rows
}

fn fill(database: &Database, rows: u32) {
    let txn = read_committed(database);
    for number in 0..rows {
        txn.put(&key(number), b"old").unwrap();
    }
    txn.commit(Durability::Async, None).unwrap();
}

/// Settles all records: `by_compaction`, or by the walk.
fn settle(database: &Database, by_compaction: bool) {
    let durable = read_committed(database);
    durable.put(&[8, 0, 0, 0, 1], b"").unwrap();
    durable.commit(Durability::Sync, None).unwrap();
    if by_compaction {
        database.engine().flush().unwrap();
        database.engine().compact();
    } else {
        database.settle_large_transactions().unwrap();
        assert!(!database.engine().spills().any_unsettled());
    }
}

/// Provisional records among the rows' entries.
fn records(database: &Database, rows: u32) -> usize {
    (0..rows).map(|number| database.engine().provisional_records(&key(number)).unwrap()).sum()
}

/// What may have happened to records since their transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Nothing,
    Compacted,
    Walked,
}

impl Since {
    const ALL: [Since; 3] = [Since::Nothing, Since::Compacted, Since::Walked];

    fn happens(self, database: &Database) {
        match self {
            Since::Nothing => {}
            Since::Compacted => settle(database, true),
            Since::Walked => settle(database, false),
        }
    }
}

#[test]
fn a_commit_is_seen_whether_it_has_settled_or_not() {
    for since in Since::ALL {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path());
        fill(&database, 300);
        let before = begin(&database, Isolation::RepeatableRead);
        assert_eq!(get(&before, 0).as_deref(), Some("old"));
        let txn = spilling(&database);
        for number in (0..300).step_by(2) {
            update(&txn, number, RowLockMode::NoKeyUpdate, "new");
        }
        txn.lock_row(&key(1), RowLockMode::Update, WaitPolicy::Error).unwrap();
        txn.delete(&key(1)).unwrap();
        txn.put(&key(1000), b"more").unwrap();
        let others = read_committed(&database);
        assert_eq!(get(&others, 0).as_deref(), Some("old"));
        assert_eq!(scan(&others, Direction::Forward).len(), 300);
        txn.advance_command();
        let own = scan(&txn, Direction::Forward);
        assert_eq!(scan(&txn, Direction::Backward), own);
        let time = txn.commit(Durability::Async, None).unwrap().unwrap();
        assert_eq!(records(&database, 300), 151);
        since.happens(&database);
        assert_eq!(records(&database, 300), if since == Since::Nothing { 151 } else { 0 });
        let after = read_committed(&database);
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(scan(&before, direction).len(), 300);
            assert!(scan(&before, direction).iter().all(|(_, value)| value == "old"));
            assert_eq!(scan(&after, direction), own);
        }
        assert_eq!(get(&before, 1).as_deref(), Some("old"));
        assert_eq!(get(&after, 1), None);
        assert_eq!(get(&after, 2).as_deref(), Some("new"));
        assert_eq!(get(&after, 3).as_deref(), Some("old"));
        assert_eq!(get(&after, 1000).as_deref(), Some("more"));
        assert_eq!(after.newest(&key(2)).unwrap().committed_at, time);
        assert!(before.newer(&before.snapshot().unwrap(), &key(2)).unwrap().is_some());
        let late = before.lock_row(&key(2), RowLockMode::NoKeyUpdate, WaitPolicy::Error);
        assert!(matches!(late, Err(Error::Serialization(Conflict::Update))), "{late:?}");
        assert_eq!(own.len(), 300);
    }
}

/// A commit that a power loss may still take away is not written into files as a fact.
#[test]
fn records_settle_when_their_commit_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 10);
    settle(&database, false);
    // Nothing is fsynced until the first asynchronous commit is due, which is later than this takes, as a rule.
    let txn = spilling(&database);
    (0..10).for_each(|number| update(&txn, number, RowLockMode::Update, "new"));
    let time = txn.commit(Durability::Async, None).unwrap().unwrap();
    database.settle_large_transactions().unwrap();
    if !database.is_durable(time) {
        assert_eq!(records(&database, 10), 10);
    }
    database.wait_durable(time);
    database.settle_large_transactions().unwrap();
    assert_eq!(records(&database, 10), 0);
}

/// Rows with several records, rows with more versions than are stepped over.
#[test]
fn scans_find_the_newest_of_many_spills() {
    for since in Since::ALL {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path());
        const ROWS: u32 = 60;
        fill(&database, ROWS);
        let mut expected = vec!["old".to_owned(); ROWS as usize];
        let mut snapshots = Vec::new();
        for round in 0..7_u32 {
            for (name, txn) in [("small", read_committed(&database)), ("large", spilling(&database))] {
                for number in 0..ROWS {
                    let chosen = match name {
                        "small" => number % 5 == 0,
                        _ if number % 5 == 0 => round % 3 == 2,
                        _ => number % 7 >= round || number % 11 == 0,
                    };
                    if chosen {
                        let value = format!("{name} {round}");
                        update(&txn, number, RowLockMode::NoKeyUpdate, &value);
                        expected[number as usize] = value;
                    }
                }
                txn.commit(Durability::Async, None).unwrap();
            }
            // What was rolled back lies among the others.
            let never = spilling(&database);
            (0..ROWS).for_each(|number| update(&never, number, RowLockMode::NoKeyUpdate, "never"));
            never.rollback();
            snapshots.push((begin(&database, Isolation::RepeatableRead), expected.clone()));
            // Chooses its time.
            get(&snapshots[round as usize].0, 0);
        }
        since.happens(&database);
        for (reader, expected) in &snapshots {
            for direction in [Direction::Forward, Direction::Backward] {
                let found: Vec<String> =
                    scan(reader, direction).into_iter().map(|(_, value)| value).collect();
                assert_eq!(&found, expected, "{direction:?}, {since:?}");
            }
            for number in 0..ROWS {
                assert_eq!(get(reader, number).as_ref(), expected.get(number as usize), "{since:?}");
            }
        }
    }
}

#[test]
fn rows_are_counted_before_they_settle() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 100);
    let txn = spilling(&database);
    for number in 50..200 {
        update(&txn, number, RowLockMode::NoKeyUpdate, "new");
    }
    txn.commit(Durability::Async, None).unwrap();
    for settled in [false, true] {
        if settled {
            settle(&database, false);
        }
        assert_eq!(records(&database, 200), if settled { 0 } else { 150 });
        std::thread::sleep(Duration::from_millis(600));
        let census = database.census(9).unwrap();
        assert_eq!((census.live, census.versions, census.tombstones), (200, 250, 0));
    }
}

#[test]
fn a_rollback_returns_at_once_and_leaves_nothing() {
    for by_compaction in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path());
        fill(&database, 200);
        let txn = spilling(&database);
        for number in 0..200 {
            update(&txn, number, RowLockMode::Update, "never");
        }
        assert_eq!(records(&database, 200), 200);
        txn.rollback();
        let other = read_committed(&database);
        assert!(scan(&other, Direction::Forward).iter().all(|(_, value)| value == "old"));
        other.lock_row(&key(7), RowLockMode::Update, WaitPolicy::Error).unwrap();
        settle(&database, by_compaction);
        assert_eq!(records(&database, 200), 0);
        assert!(scan(&other, Direction::Backward).iter().all(|(_, value)| value == "old"));
    }
}

#[test]
fn savepoints_take_back_what_has_spilled() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 4);
    let txn = spilling(&database);
    update(&txn, 0, RowLockMode::Update, "kept");
    let outer = txn.savepoint();
    update(&txn, 0, RowLockMode::Update, "undone");
    update(&txn, 1, RowLockMode::Update, "undone");
    let inner = txn.savepoint();
    txn.delete(&key(0)).unwrap();
    txn.rollback_to(inner).unwrap();
    txn.advance_command();
    assert_eq!(get(&txn, 0).as_deref(), Some("undone"));
    txn.rollback_to(outer).unwrap();
    assert_eq!(get(&txn, 0).as_deref(), Some("kept"));
    assert_eq!(get(&txn, 1).as_deref(), Some("old"));
    update(&txn, 2, RowLockMode::Update, "again");
    txn.rollback_to(outer).unwrap();
    update(&txn, 3, RowLockMode::Update, "last");
    txn.release(outer).unwrap();
    txn.commit(Durability::Async, None).unwrap();
    let expected: Vec<(u32, String)> =
        [(0, "kept"), (1, "old"), (2, "old"), (3, "last")].map(|(n, v)| (n, v.to_owned())).to_vec();
    assert_eq!(scan(&read_committed(&database), Direction::Forward), expected);
    drop(txn);
    // What is undone stays undone after a restart.
    drop(database);
    let database = open(directory.path());
    assert_eq!(scan(&read_committed(&database), Direction::Backward), expected);
    assert!(database.engine().spills().any_unsettled());
    settle(&database, false);
    assert_eq!(scan(&read_committed(&database), Direction::Forward), expected);
}

/// The conflict table, for a row whose lock is a record in the store.
#[test]
fn a_record_stands_for_the_row_lock() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 6);
    let holder = spilling(&database);
    for (number, mode) in MODES.into_iter().enumerate() {
        update(&holder, number as u32, mode, "new");
    }
    assert_eq!(row_locks(&database), 0, "the lock manager has forgotten them");
    let tag = LockTarget::Object(LockTag::Transaction(holder.number()));
    assert!(database.locks().list().iter().any(|lock| lock.target == tag && lock.granted));
    for (held, row) in [".....x", "....xx", "...xxx", "..xxxx", ".xxxxx", "xxxxxx"].into_iter().enumerate() {
        for (wanted, conflict) in row.chars().enumerate() {
            let other = read_committed(&database);
            let skip = other.lock_row(&key(held as u32), MODES[wanted], WaitPolicy::Skip).unwrap();
            assert_eq!(skip == LockOutcome::Skipped, conflict == 'x', "{held} {wanted}");
            drop(other);
            let other = read_committed(&database);
            let nowait = other.lock_row(&key(held as u32), MODES[wanted], WaitPolicy::Error);
            match conflict {
                'x' => assert!(matches!(nowait, Err(Error::LockNotAvailable)), "{nowait:?}"),
                _ => assert!(matches!(nowait, Ok(LockOutcome::Acquired { waited: false })), "{nowait:?}"),
            }
            drop(other);
            let other = read_committed(&database);
            let soon = WaitPolicy::Block { timeout: Duration::from_millis(20) };
            let timeout = other.lock_row(&key(held as u32), MODES[wanted], soon);
            assert_eq!(matches!(timeout, Err(Error::LockTimeout)), conflict == 'x', "{timeout:?}");
        }
    }
    // The holder itself has its locks, and makes them stronger.
    for number in 0..6 {
        holder.lock_row(&key(number), RowLockMode::Update, WaitPolicy::Error).unwrap();
    }
    holder.rollback();
    let other = read_committed(&database);
    other.lock_row(&key(3), RowLockMode::Update, WaitPolicy::Error).unwrap();
    drop(other);
    assert!(database.locks().list().is_empty());
}

fn row_locks(database: &Database) -> usize {
    database.locks().list().iter().filter(|lock| matches!(lock.target, LockTarget::Row(_))).count()
}

/// Row locks without writes are bounded as well, sharers side by side.
#[test]
fn locks_alone_spill() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 500);
    let holder = read_committed(&database);
    holder.set_memory_limit(20_000);
    let sharer = read_committed(&database);
    sharer.set_memory_limit(20_000);
    for number in 0..500 {
        holder.lock_row(&key(number), RowLockMode::Share, WaitPolicy::Error).unwrap();
        sharer.lock_row(&key(number), RowLockMode::KeyShare, WaitPolicy::Error).unwrap();
    }
    assert!(row_locks(&database) < 170, "{}", row_locks(&database));
    assert_eq!(records(&database, 500), 0, "readers do not meet them");
    let other = read_committed(&database);
    for number in 0..500 {
        let share = other.lock_row(&key(number), RowLockMode::Share, WaitPolicy::Skip).unwrap();
        assert_eq!(share, LockOutcome::Acquired { waited: false });
        let update = other.lock_row(&key(number), RowLockMode::NoKeyUpdate, WaitPolicy::Skip).unwrap();
        assert_eq!(update, LockOutcome::Skipped);
    }
    assert_eq!(holder.commit(Durability::Async, None).unwrap(), None, "nothing was written");
    drop(other);
    let other = read_committed(&database);
    for number in 0..500 {
        update(&other, number, RowLockMode::NoKeyUpdate, "new");
        let remove = other.lock_row(&key(number), RowLockMode::Update, WaitPolicy::Skip).unwrap();
        assert_eq!(remove, LockOutcome::Skipped);
    }
    other.commit(Durability::Async, None).unwrap();
    drop(sharer);
    let other = read_committed(&database);
    for number in 0..500 {
        other.lock_row(&key(number), RowLockMode::Update, WaitPolicy::Error).unwrap();
    }
    drop(other);
    assert!(database.locks().list().is_empty());
}

/// Those who wait for a row whose lock is in the store get it in the order in which they came.
#[test]
fn spilled_rows_have_queues() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let holder = spilling(&database);
    holder.lock_row(&key(0), RowLockMode::NoKeyUpdate, WaitPolicy::Error).unwrap();
    assert_eq!(row_locks(&database), 0);
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..20 {
            let waiter = spilling(&database);
            let order = &order;
            scope.spawn(move || {
                let wait = WaitPolicy::Block { timeout: Duration::from_secs(20) };
                waiter.lock_row(&key(0), RowLockMode::Update, wait).unwrap();
                order.lock().unwrap().push(number);
                waiter.rollback();
            });
            while database.locks().list().iter().filter(|lock| !lock.granted).count() <= number {
                std::thread::yield_now();
            }
            // What the holder hands over now leaves the row that is waited for where it is.
            holder.lock_row(&key(1 + number as u32), RowLockMode::Update, WaitPolicy::Error).unwrap();
        }
        holder.rollback();
    });
    assert_eq!(order.into_inner().unwrap(), (0..20).collect::<Vec<_>>());
    assert!(database.locks().list().is_empty());
}

#[test]
fn rolling_back_to_a_savepoint_gives_back_spilled_locks() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 4);
    let holder = spilling(&database);
    holder.lock_row(&key(0), RowLockMode::Share, WaitPolicy::Error).unwrap();
    let savepoint = holder.savepoint();
    update(&holder, 0, RowLockMode::Update, "undone");
    update(&holder, 1, RowLockMode::Update, "undone");
    holder.lock_row(&key(2), RowLockMode::Update, WaitPolicy::Error).unwrap();
    assert_eq!(row_locks(&database), 0);
    let other = read_committed(&database);
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let wait = WaitPolicy::Block { timeout: Duration::from_secs(20) };
            other.lock_row(&key(1), RowLockMode::Update, wait)
        });
        while !database.locks().list().iter().any(|lock| !lock.granted) {
            std::thread::yield_now();
        }
        holder.rollback_to(savepoint).unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(waiting.unwrap(), LockOutcome::Acquired { waited: true });
    other.lock_row(&key(2), RowLockMode::Update, WaitPolicy::Error).unwrap();
    other.lock_row(&key(0), RowLockMode::Share, WaitPolicy::Error).unwrap();
    let stronger = other.lock_row(&key(0), RowLockMode::NoKeyUpdate, WaitPolicy::Skip).unwrap();
    assert_eq!(stronger, LockOutcome::Skipped, "what was held before the savepoint is held still");
    let own = holder.lock_row(&key(2), RowLockMode::KeyShare, WaitPolicy::Skip).unwrap();
    assert_eq!(own, LockOutcome::Skipped, "and what was held since is not");
    holder.rollback();
    other.lock_row(&key(0), RowLockMode::Update, WaitPolicy::Error).unwrap();
}

#[test]
fn a_crash_leaves_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 200);
    let holder = spilling(&database);
    for number in 0..200 {
        holder.lock_row(&key(number), RowLockMode::Update, WaitPolicy::Error).unwrap();
    }
    database.engine().flush().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy");
    database.checkpoint(&path).unwrap();
    let copy = open(&path);
    assert!(!copy.engine().spills().any_unsettled());
    for limit in [usize::MAX, 0] {
        let other = read_committed(&copy);
        other.set_memory_limit(limit);
        for number in 0..200 {
            other.lock_row(&key(number), RowLockMode::Update, WaitPolicy::Error).unwrap();
        }
    }
}

/// Many threads lock few rows, some keeping their locks in the store, some in memory: never two at once.
#[test]
fn handing_over_and_asking_exclude_each_other() {
    const ROWS: u32 = 4;
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let inside: Vec<AtomicI32> = (0..ROWS).map(|_| AtomicI32::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let (database, inside) = (&database, &inside);
            scope.spawn(move || {
                for round in 0..150 {
                    let txn = read_committed(database);
                    txn.set_memory_limit(if (thread + round) % 3 == 0 { usize::MAX } else { 0 });
                    let first = (thread * 7 + round) % ROWS;
                    let (first, second) = (first.min(ROWS - 2), first.min(ROWS - 2) + 1);
                    let wait = WaitPolicy::Block { timeout: Duration::from_secs(30) };
                    let mode = if round % 2 == 0 { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
                    let mut held = Vec::new();
                    for number in [first, second] {
                        let shared = txn.lock_row(&key(number), RowLockMode::KeyShare, wait);
                        if let Err(error) = shared.and_then(|_| txn.lock_row(&key(number), mode, wait)) {
                            // Two sharers, both of whom want more.
                            assert!(matches!(error, Error::Deadlock { .. }), "{error}");
                            break;
                        }
                        assert_eq!(inside[number as usize].fetch_add(1, Ordering::SeqCst), 0);
                        held.push(number);
                        std::thread::yield_now();
                    }
                    for number in held {
                        inside[number as usize].fetch_sub(1, Ordering::SeqCst);
                    }
                    txn.rollback();
                }
            });
        }
    });
    assert!(database.locks().list().is_empty(), "{:?}", database.locks().list());
}

#[test]
fn whoever_waits_gets_the_row_when_the_transaction_ends() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 2);
    for commits in [true, false] {
        let holder = spilling(&database);
        update(&holder, 0, RowLockMode::NoKeyUpdate, "first");
        let waiter = read_committed(&database);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let wait = WaitPolicy::Block { timeout: Duration::from_secs(20) };
                let outcome = waiter.lock_row(&key(0), RowLockMode::NoKeyUpdate, wait).unwrap();
                assert_eq!(outcome, LockOutcome::Acquired { waited: true });
                waiter.newest(&key(0)).unwrap().value
            });
            while !database.locks().list().iter().any(|lock| !lock.granted) {
                std::thread::yield_now();
            }
            // Nobody who waits for it is in the holder's way.
            update(&holder, 0, RowLockMode::Update, "second");
            if commits {
                holder.commit(Durability::Async, None).unwrap();
            } else {
                holder.rollback();
            }
            let found = waiting.join().unwrap().unwrap();
            // The second time, what the first one committed.
            assert_eq!(&found[..], b"second");
        });
        waiter.rollback();
    }
}

#[test]
fn deadlocks_through_records_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 2);
    let (a, b) = (spilling(&database), spilling(&database));
    update(&a, 0, RowLockMode::Update, "a");
    update(&b, 1, RowLockMode::Update, "b");
    let wait = WaitPolicy::Block { timeout: Duration::from_secs(20) };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| a.lock_row(&key(1), RowLockMode::Update, wait));
        while !database.locks().list().iter().any(|lock| !lock.granted) {
            std::thread::yield_now();
        }
        let second = b.lock_row(&key(0), RowLockMode::Update, wait);
        assert!(
            matches!(&second, Err(Error::Deadlock { detail }) if detail.contains("ShareLock on transaction"))
        );
        b.rollback();
        assert!(waiting.join().unwrap().is_ok());
    });
}

/// A cursor that was opened before its transaction spilled goes on over what has moved to the store under it.
#[test]
fn an_open_cursor_does_not_notice() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 100);
    for direction in [Direction::Forward, Direction::Backward] {
        let txn = read_committed(&database);
        for number in (0..200).step_by(3) {
            txn.put(&key(number), b"own").unwrap();
        }
        txn.advance_command();
        let expected = scan(&txn, direction);
        assert_eq!(expected.len(), 100 + 33);
        let range = KeyRange { low: key(0), high: key(1000) };
        let mut cursor = txn.scan(&txn.snapshot().unwrap(), range, direction).unwrap();
        txn.set_memory_limit(2000);
        let mut found = 0;
        while let Some((key, value)) = cursor.next().unwrap() {
            assert!(value == b"old" || value == b"own");
            let key = key.to_vec();
            txn.put(&key, b"changed").unwrap();
            found += 1;
        }
        drop(cursor);
        assert_eq!(found, expected.len());
        txn.advance_command();
        assert!(scan(&txn, direction).iter().all(|(_, value)| value == "changed"));
    }
}

#[test]
fn serializable_readers_conflict_with_what_has_spilled() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 10);
    let (reader, bystander) =
        (begin(&database, Isolation::Serializable), begin(&database, Isolation::Serializable));
    assert_eq!(get(&reader, 5).as_deref(), Some("old"));
    assert_eq!(get(&bystander, 500), None);
    let txn = spilling(&database);
    for number in 4..7 {
        update(&txn, number, RowLockMode::Update, "new");
    }
    txn.commit(Durability::Async, None).unwrap();
    for txn in [&reader, &bystander] {
        txn.put(&key(100), b"result").unwrap();
    }
    let failed = reader.commit(Durability::Async, None);
    assert!(matches!(failed, Err(Error::Serialization(Conflict::ReadWrite))), "{failed:?}");
    bystander.commit(Durability::Async, None).unwrap();
}

/// A read of the newest state meets rows that are not committed yet: it must not remember them as dead.
#[test]
fn reading_the_newest_state_learns_nothing_of_records() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    for direction in [Direction::Forward, Direction::Backward] {
        let txn = spilling(&database);
        for number in 0..200 {
            txn.put(&key(number), b"new").unwrap();
        }
        let other = read_committed(&database);
        for _ in 0..3 {
            let newest = Snapshot { read_time: Timestamp::MAX, command: 0 };
            let range = KeyRange { low: key(0), high: key(1000) };
            assert!(other.scan(&newest, range, direction).unwrap().next().unwrap().is_none());
        }
        txn.commit(Durability::Async, None).unwrap();
        assert_eq!(scan(&read_committed(&database), direction).len(), 200);
        let txn = read_committed(&database);
        (0..200).for_each(|number| txn.delete(&key(number)).unwrap());
        txn.commit(Durability::Async, None).unwrap();
    }
}

/// Everything is garbage at once, and collected all the time, while rows are in every state that a spill has.
#[test]
fn collection_and_dead_ranges_leave_records_alone() {
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        memtable_bytes: 64 << 10,
        file_bytes: 64 << 10,
        retention: Retention::Micros(0),
        ..EngineOptions::default()
    };
    let database = open_with(directory.path(), &options);
    const ROWS: u32 = 1000;
    fill(&database, ROWS);
    let collect = || {
        database.engine().flush().unwrap();
        database.engine().compact();
        database.collect_garbage().unwrap();
        database.vacuum(&[9], true, &|| false).unwrap();
    };
    let delete_all = |txn: &Handle| {
        for number in 0..ROWS {
            txn.delete(&key(number)).unwrap();
        }
    };
    // Dead rows, known as such; then rows in the middle of them that are on their way.
    let txn = read_committed(&database);
    delete_all(&txn);
    txn.commit(Durability::Sync, None).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(scan(&read_committed(&database), direction), []);
    }
    let txn = spilling(&database);
    for number in (0..ROWS).step_by(100) {
        update(&txn, number, RowLockMode::Update, "new");
    }
    assert_eq!(scan(&read_committed(&database), Direction::Forward), []);
    collect();
    assert_eq!(scan(&read_committed(&database), Direction::Backward), []);
    assert_eq!(records(&database, ROWS), 10);
    txn.commit(Durability::Sync, None).unwrap();
    let held = begin(&database, Isolation::RepeatableRead);
    assert_eq!(scan(&held, Direction::Forward).len(), 10);
    // Deleted again by a second one.
    let txn = spilling(&database);
    delete_all(&txn);
    txn.commit(Durability::Sync, None).unwrap();
    for step in 0..3 {
        match step {
            0 => {}
            1 => collect(),
            _ => settle(&database, false),
        }
        for direction in [Direction::Forward, Direction::Backward] {
            assert_eq!(scan(&held, direction).len(), 10, "{step}");
            assert_eq!(scan(&read_committed(&database), direction), [], "{step}");
        }
    }
    held.rollback();
    fill(&database, 1);
    collect();
    assert_eq!(scan(&read_committed(&database), Direction::Forward).len(), 1);
}

/// A table with records goes as a whole, and nothing comes back into it.
#[test]
fn a_dropped_storage_takes_its_records_along() {
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions { retention: Retention::Micros(0), ..EngineOptions::default() };
    let database = open_with(directory.path(), &options);
    let (rolled_back, back_to_savepoint) = (spilling(&database), spilling(&database));
    let savepoint = back_to_savepoint.savepoint();
    for number in 0..50 {
        rolled_back.put(&key(number), b"never").unwrap();
        back_to_savepoint.put(&key(50 + number), b"never").unwrap();
    }
    back_to_savepoint.rollback_to(savepoint).unwrap();
    rolled_back.rollback();
    let dropping = read_committed(&database);
    dropping.drop_storage(9).unwrap();
    dropping.commit(Durability::Sync, None).unwrap();
    database.collect_garbage().unwrap();
    assert_eq!(database.engine().dropped_storages().unwrap(), []);
    assert_eq!(records(&database, 100), 0);
    back_to_savepoint.put(&[8, 0, 0, 0, 1], b"").unwrap();
    back_to_savepoint.commit(Durability::Sync, None).unwrap();
    settle(&database, false);
    assert_eq!(records(&database, 100), 0);
    drop((rolled_back, back_to_savepoint, dropping, database));
    let database = open_with(directory.path(), &options);
    assert_eq!(scan(&read_committed(&database), Direction::Forward), []);
}

/// What a large transaction writes into a table that it has created goes with the table: by a rollback, and by a crash.
#[test]
fn a_new_storage_that_is_given_up_leaves_no_records() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let row = |storage: u32, number: u32| [storage.to_be_bytes(), number.to_be_bytes()].concat();
    let left = |database: &Database, storage: u32| -> usize {
        (0..20).map(|number| database.engine().provisional_records(&row(storage, number)).unwrap()).sum()
    };
    let write = |txn: &Handle| {
        let storage = txn.create_storage().unwrap();
        (0..20).for_each(|number| txn.put(&row(storage, number), b"never").unwrap());
        storage
    };
    let (rolled_back, lost, kept) = (spilling(&database), spilling(&database), spilling(&database));
    let storage = write(&rolled_back);
    assert_eq!(left(&database, storage), 20);
    rolled_back.rollback();
    assert_eq!(left(&database, storage), 0);
    let storage = write(&lost);
    let kept_storage = write(&kept);
    kept.commit(Durability::Sync, None).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy");
    database.checkpoint(&path).unwrap();
    let copy = open(&path);
    assert_eq!(left(&copy, storage), 0);
    assert_eq!(left(&copy, kept_storage), 20);
    settle(&copy, false);
    let txn = read_committed(&copy);
    let snapshot = txn.snapshot().unwrap();
    assert!((0..20).all(|number| txn.get(&snapshot, &row(kept_storage, number)).unwrap().is_some()));
}

/// The first scan over what a large transaction has deleted does not walk over it.
#[test]
fn large_deletions_are_known_as_soon_as_they_are_committed() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    const ROWS: u32 = 20_000;
    fill(&database, ROWS);
    let held = begin(&database, Isolation::RepeatableRead);
    assert_eq!(scan(&held, Direction::Forward).len(), ROWS as usize);
    let txn = spilling(&database);
    txn.set_memory_limit(100_000);
    for number in 0..ROWS / 2 {
        txn.lock_row(&key(number), RowLockMode::Remove, WaitPolicy::Error).unwrap();
        txn.delete(&key(number)).unwrap();
    }
    txn.commit(Durability::Async, None).unwrap();
    let start = Instant::now();
    while database.engine().dead_ranges().count(9) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing is learned");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    let reader = read_committed(&database);
    let range = KeyRange { low: 9u32.to_be_bytes().to_vec(), high: 10u32.to_be_bytes().to_vec() };
    let mut cursor = reader.scan(&reader.snapshot().unwrap(), range, Direction::Forward).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().0, key(ROWS / 2));
    drop(cursor);
    // The first of the sampled keys is not the first of the deleted ones.
    assert!(reader.counters().nexts < 1_000, "{:?}", reader.counters());
    assert_eq!(scan(&held, Direction::Forward).len(), ROWS as usize);
}

#[test]
fn a_restart_finishes_what_was_committed_and_drops_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 100);
    let committed = spilling(&database);
    let rolled_back = spilling(&database);
    let lost = spilling(&database);
    for number in 0..30 {
        update(&committed, number, RowLockMode::Update, "new");
        update(&rolled_back, 30 + number, RowLockMode::Update, "never");
        update(&lost, 60 + number, RowLockMode::Update, "never");
    }
    committed.commit(Durability::Sync, None).unwrap();
    rolled_back.rollback();
    // As a crash would leave it.
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy");
    database.checkpoint(&path).unwrap();
    let copy = open(&path);
    let check = || {
        let rows = scan(&read_committed(&copy), Direction::Forward);
        assert_eq!(rows.len(), 100);
        assert!(rows.iter().all(|(number, value)| value == if *number < 30 { "new" } else { "old" }));
    };
    check();
    assert!(records(&copy, 100) > 0);
    settle(&copy, false);
    check();
    assert_eq!(records(&copy, 100), 0);
    let txn = spilling(&copy);
    for number in 0..100 {
        update(&txn, number, RowLockMode::Update, "later");
    }
    txn.commit(Durability::Sync, None).unwrap();
    settle(&copy, true);
    assert!(scan(&read_committed(&copy), Direction::Forward).iter().all(|(_, value)| value == "later"));
}

/// Whatever the settling has done when the server is killed, the next start goes on from there.
#[test]
fn a_crash_at_any_step_of_settling_loses_nothing() {
    const ROWS: u32 = 5_000;
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, ROWS);
    let committed = spilling(&database);
    let rolled_back = spilling(&database);
    committed.set_memory_limit(50_000);
    rolled_back.set_memory_limit(50_000);
    for number in 0..ROWS {
        match number % 4 {
            0 => update(&committed, number, RowLockMode::Update, "new"),
            1 => committed.delete(&key(number)).unwrap(),
            2 => update(&rolled_back, number, RowLockMode::Update, "never"),
            _ => {}
        }
    }
    committed.commit(Durability::Sync, None).unwrap();
    rolled_back.rollback();
    let check = |database: &Database| {
        for direction in [Direction::Forward, Direction::Backward] {
            let rows = scan(&read_committed(database), direction);
            assert_eq!(rows.len(), (ROWS / 4 * 3) as usize);
            let is_right = |(number, value): &(u32, String)| match number % 4 {
                0 => value == "new",
                other => other != 1 && value == "old",
            };
            assert!(rows.iter().all(is_right));
        }
    };
    let mut walk = database.engine().begin_settling().unwrap();
    let mut steps = 0;
    loop {
        let copies = tempfile::tempdir().unwrap();
        let path = copies.path().join("copy");
        // What a crash now would leave.
        database.engine().checkpoint(&path).unwrap();
        let copy = open(&path);
        check(&copy);
        copy.settle_large_transactions().unwrap();
        check(&copy);
        assert_eq!(records(&copy, ROWS), 0);
        drop(copy);
        check(&database);
        steps += 1;
        // The collector may be at work.
        if database.engine().settle_some(&mut walk).unwrap() == SettleStep::Finished {
            break;
        }
    }
    assert!(steps > 3, "{steps}");
    assert_eq!(records(&database, ROWS), 0);
    check(&database);
}

/// A row that one transaction has written very often: each command sees its own, and nobody reads all of them.
#[test]
fn a_row_may_be_written_very_often() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    fill(&database, 3);
    for limit in [0, 20_000, usize::MAX] {
        let txn = read_committed(&database);
        txn.set_memory_limit(limit);
        txn.lock_row(&key(1), RowLockMode::Update, WaitPolicy::Error).unwrap();
        let mut snapshots = Vec::new();
        for round in 0..300 {
            txn.put(&key(1), round.to_string().as_bytes()).unwrap();
            txn.advance_command();
            snapshots.push((txn.snapshot().unwrap(), round));
        }
        // What is still in memory goes to the store in several records.
        txn.set_memory_limit(0);
        txn.put(&key(2), b"last").unwrap();
        for (snapshot, round) in &snapshots {
            let value = txn.get(snapshot, &key(1)).unwrap().unwrap();
            assert_eq!(value, round.to_string().as_bytes());
        }
        txn.commit(Durability::Async, None).unwrap();
        for since in Since::ALL {
            since.happens(&database);
            for direction in [Direction::Forward, Direction::Backward] {
                let rows = scan(&read_committed(&database), direction);
                let values: Vec<&str> = rows.iter().map(|(_, value)| &value[..]).collect();
                assert_eq!(values, ["old", "299", "last"], "{since:?}");
            }
        }
    }
}
