//! Writers, readers and the collector at once: with no retention at all, only pins protect what is read.
//!
//! Writers move rows to other keys, so that there are always [`ROWS`] of them, in ever new places, among ever more dead
//! ones. Readers of every kind count them. The collector, which also compacts all the time, must never be noticed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_txn::{
    BeginOptions, Clock, Database, Direction, Durability, EngineOptions, Interrupt, Isolation, KeyRange,
    Resources, Retention, SessionHandle, Snapshot, Store, Transaction,
};

const TABLE: u32 = 20_000;
const ROWS: usize = 200;

fn key(number: u64) -> Vec<u8> {
    [&TABLE.to_be_bytes()[..], &number.to_be_bytes()].concat()
}

fn begin(database: &Database, isolation: Isolation) -> Arc<dyn Transaction> {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let pid = NEXT.fetch_add(1, Ordering::Relaxed);
    let session = Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::default()) });
    database.begin(BeginOptions { session, isolation, read_only: false, read_time: None }).unwrap()
}

fn count(txn: &Arc<dyn Transaction>, snapshot: &Snapshot, direction: Direction) -> usize {
    let range = KeyRange { low: key(0), high: key(u64::MAX) };
    let mut cursor = txn.scan(snapshot, range, direction).unwrap();
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    rows
}

/// Moves its own rows to new keys, a few at a time. Some of its transactions leave their writes in the store before they
/// commit, or roll back.
fn write(database: &Database, next: &AtomicU64, mut own: Vec<u64>, stop: &AtomicBool) {
    for turn in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let txn = begin(database, Isolation::ReadCommitted);
        if turn % 3 == 0 {
            txn.set_memory_limit(0);
        }
        if turn % 7 == 0 {
            for row in &own {
                txn.delete(&key(*row)).unwrap();
            }
            txn.rollback();
            continue;
        }
        let moved = own.len().min(7);
        for old in own.drain(..moved).collect::<Vec<_>>() {
            let new = next.fetch_add(1, Ordering::Relaxed);
            txn.delete(&key(old)).unwrap();
            txn.put(&key(new), b"row").unwrap();
            own.push(new);
        }
        txn.commit(Durability::Async, None).unwrap();
    }
}

/// Counts at a repeatable read snapshot, or at several statement snapshots that stay in use.
fn read(database: &Database, isolation: Isolation, stop: &AtomicBool) -> u64 {
    let mut counts = 0;
    while !stop.load(Ordering::Relaxed) {
        let txn = begin(database, isolation);
        let mut snapshots = Vec::new();
        for turn in 0..4 {
            snapshots.push(txn.snapshot().unwrap());
            for snapshot in &snapshots {
                let direction = if turn % 2 == 0 { Direction::Forward } else { Direction::Backward };
                assert_eq!(count(&txn, snapshot, direction), ROWS, "{isolation:?}, {snapshot:?}");
                counts += 1;
            }
            if turn == 2 && isolation == Isolation::ReadCommitted {
                let kept = snapshots.split_off(1);
                txn.release_snapshots(&kept);
                snapshots = kept;
            }
        }
    }
    counts
}

#[test]
fn nobody_notices_the_collector() {
    let directory = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        memtable_bytes: 256 << 10,
        file_bytes: 256 << 10,
        retention: Retention::Micros(0),
        ..EngineOptions::default()
    };
    let resources = Resources::new(16 << 20, 8 << 20);
    let database = Database::open(directory.path(), &options, &resources, Arc::new(Clock::system())).unwrap();
    let next = AtomicU64::new(0);
    let txn = begin(&database, Isolation::ReadCommitted);
    for _ in 0..ROWS {
        txn.put(&key(next.fetch_add(1, Ordering::Relaxed)), b"row").unwrap();
    }
    txn.commit(Durability::Sync, None).unwrap();
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let half = ROWS as u64 / 2;
        for own in [0..half, half..ROWS as u64] {
            let (database, next, stop) = (&database, &next, &stop);
            scope.spawn(move || write(database, next, own.collect(), stop));
        }
        let readers: Vec<_> = [Isolation::RepeatableRead, Isolation::ReadCommitted]
            .into_iter()
            .map(|isolation| {
                let (database, stop) = (&database, &stop);
                scope.spawn(move || read(database, isolation, stop))
            })
            .collect();
        while started.elapsed() < Duration::from_secs(3) && readers.iter().all(|reader| !reader.is_finished())
        {
            database.collect_garbage().unwrap();
            database.engine().flush().unwrap();
            database.engine().compact();
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    let collected = database.engine().collected();
    assert!(collected.dead_rows_deleted > 1000 && collected.versions_dropped > 1000, "{collected:?}");
    let txn = begin(&database, Isolation::ReadCommitted);
    assert_eq!(count(&txn, &txn.snapshot().unwrap(), Direction::Forward), ROWS);
}
