//! What the floors below SQL cost, without SQL: `cargo run --profile quick -p cairn-txn --example store_bench [rows]`.
//!
//! Prints nanoseconds per operation on one thread, then commits per second and fsyncs per commit for several.

#![expect(clippy::unwrap_used, reason = "a measurement that fails has nothing to report")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_txn::{
    BeginOptions, Clock, Database, Direction, Durability, EngineOptions, Interrupt, Isolation, KeyRange,
    Resources, RowLockMode, SessionHandle, Store, Transaction, WaitPolicy,
};

const STORAGE: u32 = 1;
const BLOCK: WaitPolicy = WaitPolicy::Block { timeout: Duration::ZERO };

fn key(row: u64) -> Vec<u8> {
    [&STORAGE.to_be_bytes()[..], &row.to_be_bytes()].concat()
}

fn begin(database: &Database, session: &Arc<SessionHandle>) -> Arc<dyn Transaction> {
    database
        .begin(BeginOptions {
            session: session.clone(),
            isolation: Isolation::ReadCommitted,
            read_only: false,
            read_time: None,
        })
        .unwrap()
}

fn session(pid: i32) -> Arc<SessionHandle> {
    Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::default()) })
}

/// Runs `operation` `times` times and prints the nanoseconds that one took.
fn measure(name: &str, times: u64, mut operation: impl FnMut(u64)) {
    let started = Instant::now();
    for turn in 0..times {
        operation(turn);
    }
    let nanoseconds = started.elapsed().as_nanos() as u64 / times;
    println!("{name:<48} {nanoseconds:>8} ns");
}

fn mixed(seed: u64) -> u64 {
    let x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11
}

fn main() {
    let rows: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().unwrap());
    let directory =
        std::env::args().nth(2).map_or_else(|| std::env::temp_dir().join("cairn-store-bench"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&directory);
    let resources = Resources::new(2 << 30, 256 << 20);
    let database =
        Database::open(&directory, &EngineOptions::default(), &resources, Arc::new(Clock::system())).unwrap();
    let session_one = session(1);
    let payload = [7u8; 100];

    {
        let txn = begin(&database, &session_one);
        let storage = txn.create_storage().unwrap();
        measure("bulk_put, in key order", rows, |row| {
            txn.bulk_put(&[&storage.to_be_bytes()[..], &row.to_be_bytes()].concat(), &payload).unwrap();
        });
        txn.commit(Durability::Sync, None).unwrap();
    }
    {
        let txn = begin(&database, &session_one);
        measure("put into the write set", rows, |row| txn.put(&key(row), &payload).unwrap());
        let started = Instant::now();
        txn.commit(Durability::Sync, None).unwrap();
        println!("{:<48} {:>8} ns", "commit of those, per row", started.elapsed().as_nanos() as u64 / rows);
    }
    for (state, settle) in [("memtable and fresh files", false), ("compacted", true)] {
        if settle {
            database.engine().flush().unwrap();
            database.engine().compact();
        }
        println!("-- {state}");
        measure("begin, snapshot, get, read-only commit", 200_000, |turn| {
            let txn = begin(&database, &session_one);
            let snapshot = txn.snapshot().unwrap();
            assert!(txn.get(&snapshot, &key(mixed(turn) % rows)).unwrap().is_some());
            txn.commit(Durability::Sync, None).unwrap();
        });
        let txn = begin(&database, &session_one);
        let snapshot = txn.snapshot().unwrap();
        measure("get", 200_000, |turn| {
            assert!(txn.get(&snapshot, &key(mixed(turn) % rows)).unwrap().is_some());
        });
        measure("get of an absent key", 200_000, |turn| {
            assert!(txn.get(&snapshot, &key(rows + mixed(turn) % rows)).unwrap().is_none());
        });
        let batch: Vec<Vec<u8>> = (0..100).map(|turn| key(mixed(turn) % rows)).collect();
        measure("get_batch of 100, each", 2_000, |_| {
            assert_eq!(txn.get_batch(&snapshot, &batch).unwrap().len(), 100);
        });
        let range = |first: u64, count: u64| KeyRange { low: key(first), high: key(first + count) };
        for direction in [Direction::Forward, Direction::Backward] {
            measure(&format!("open a cursor, one row, {direction:?}"), 100_000, |turn| {
                let mut cursor = txn.scan(&snapshot, range(mixed(turn) % rows, 1), direction).unwrap();
                assert!(cursor.next().unwrap().is_some());
            });
            let mut cursor = txn.scan(&snapshot, range(0, rows), direction).unwrap();
            measure(&format!("next row, {direction:?}"), rows, |_| {
                assert!(cursor.next().unwrap().is_some());
            });
        }
        let mut cursor = txn.scan(&snapshot, range(0, 1), Direction::Forward).unwrap();
        measure("reset a cursor, one row", 100_000, |turn| {
            cursor.reset(range(mixed(turn) % rows, 1)).unwrap();
            assert!(cursor.next().unwrap().is_some());
        });
        drop(cursor);
        drop(txn);
    }
    println!("-- writing");
    let update = |session: &Arc<SessionHandle>, row: u64, durability| {
        let txn = begin(&database, session);
        let _snapshot = txn.snapshot().unwrap();
        txn.lock_row(&key(row), RowLockMode::NoKeyUpdate, BLOCK).unwrap();
        assert!(txn.newest(&key(row)).unwrap().value.is_some());
        txn.put(&key(row), &payload).unwrap();
        txn.commit(durability, None).unwrap();
    };
    measure("lock, newest, put, commit without fsync", 200_000, |turn| {
        update(&session_one, mixed(turn) % rows, Durability::Async);
    });
    measure("put, commit without fsync", 200_000, |turn| {
        let txn = begin(&database, &session_one);
        txn.put(&key(mixed(turn) % rows), &payload).unwrap();
        txn.commit(Durability::Async, None).unwrap();
    });
    measure("lock, newest, put, commit with fsync", 3_000, |turn| {
        update(&session_one, mixed(turn) % rows, Durability::Sync);
    });
    for threads in [2u64, 4, 10, 32] {
        let before = database.fsyncs();
        let started = Instant::now();
        let commits = 20_000 / threads;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let update = &update;
                scope.spawn(move || {
                    let session = session(100 + thread as i32);
                    for turn in 0..commits {
                        update(&session, mixed(thread * 1_000_000 + turn) % rows, Durability::Sync);
                    }
                });
            }
        });
        let total = commits * threads;
        println!(
            "{:<48} {:>8.0} /s, {:.2} fsyncs per commit",
            format!("the same on {threads} threads"),
            total as f64 / started.elapsed().as_secs_f64(),
            (database.fsyncs() - before) as f64 / total as f64
        );
    }
    drop(database);
    std::fs::remove_dir_all(&directory).unwrap();
}
