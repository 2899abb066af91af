//! What reading the rows of a large transaction costs, beside the same rows written by many small ones:
//! `cargo run --profile quick -p cairn-txn --example large_bench [rows]`.
//!
//! Two databases get the same rows and the same update of every row: one by small transactions, the other by a single one whose writes
//! are provisional records. Prints nanoseconds per operation in both, and their ratio: before anything has settled, with
//! several large updates before, within the transaction itself, and after compaction.

#![expect(clippy::unwrap_used, reason = "a measurement that fails has nothing to report")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cairn_txn::{
    BeginOptions, Clock, Database, Direction, Durability, EngineOptions, Interrupt, Isolation, KeyRange,
    Resources, SessionHandle, Store, Transaction,
};

const STORAGE: u32 = 20_000;
const ROUNDS: usize = 5;

fn key(row: u64) -> Vec<u8> {
    [&STORAGE.to_be_bytes()[..], &row.to_be_bytes()].concat()
}

fn mixed(seed: u64) -> u64 {
    let x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11
}

fn open(directory: &Path) -> Database {
    let resources = Resources::new(2 << 30, 512 << 20);
    Database::open(directory, &EngineOptions::default(), &resources, Arc::new(Clock::system())).unwrap()
}

fn begin(database: &Database) -> Arc<dyn Transaction> {
    let session = Arc::new(SessionHandle { pid: 1, interrupt: Arc::new(Interrupt::default()) });
    let isolation = Isolation::ReadCommitted;
    database.begin(BeginOptions { session, isolation, read_only: false, read_time: None }).unwrap()
}

/// Writes every row, `per_transaction` at a time.
fn write(database: &Database, rows: u64, per_transaction: u64, payload: &[u8]) {
    for first in (0..rows).step_by(per_transaction as usize) {
        let txn = begin(database);
        (first..(first + per_transaction).min(rows)).for_each(|row| txn.put(&key(row), payload).unwrap());
        txn.commit(Durability::Async, None).unwrap();
    }
}

/// Nanoseconds of each kind of read, the median of several rounds.
fn reads(txn: &Arc<dyn Transaction>, rows: u64) -> Vec<(String, f64)> {
    let snapshot = txn.snapshot().unwrap();
    let range = |first: u64, count: u64| KeyRange { low: key(first), high: key(first + count) };
    let mut figures: Vec<(String, Vec<f64>)> = Vec::new();
    for _ in 0..ROUNDS {
        let mut note = |name: String, times: u64, operation: &mut dyn FnMut(u64)| {
            let begin = Instant::now();
            (0..times).for_each(&mut *operation);
            let nanoseconds = begin.elapsed().as_nanos() as f64 / times as f64;
            match figures.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(nanoseconds),
                None => figures.push((name, vec![nanoseconds])),
            }
        };
        note("point read".to_owned(), 100_000, &mut |turn| {
            assert!(txn.get(&snapshot, &key(mixed(turn) % rows)).unwrap().is_some());
        });
        note("newest state (conflict check)".to_owned(), 100_000, &mut |turn| {
            assert!(txn.newest(&key(mixed(turn) % rows)).unwrap().value.is_some());
        });
        for direction in [Direction::Forward, Direction::Backward] {
            note(format!("cursor with its first row, {direction:?}"), 50_000, &mut |turn| {
                let mut cursor = txn.scan(&snapshot, range(mixed(turn) % rows, 1), direction).unwrap();
                assert!(cursor.next().unwrap().is_some());
            });
            let mut cursor = txn.scan(&snapshot, range(0, rows), direction).unwrap();
            note(format!("next row, {direction:?}"), rows, &mut |_| {
                assert!(cursor.next().unwrap().is_some());
            });
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    figures.into_iter().map(|(name, all)| (name, median(all))).collect()
}

fn compare(title: &str, small: &[(String, f64)], large: &[(String, f64)]) {
    println!("-- {title:<44} {:>10} {:>10} {:>7}", "small, ns", "large, ns", "ratio");
    for ((name, small), (_, large)) in small.iter().zip(large) {
        println!("   {name:<44} {small:>10.0} {large:>10.0} {:>7.2}", large / small);
    }
}

fn main() {
    let rows: u64 = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().unwrap());
    let directory = std::env::temp_dir().join("cairn-large-bench");
    let _ = std::fs::remove_dir_all(&directory);
    let (small, large) = (open(&directory.join("small")), open(&directory.join("large")));
    let payload = [7u8; 60];
    for database in [&small, &large] {
        write(database, rows, 10_000, &payload);
    }
    write(&small, rows, 10_000, &payload);
    {
        // Of its own: the last update is not committed yet.
        let txn = begin(&large);
        (0..rows).for_each(|row| txn.put(&key(row), &payload).unwrap());
        txn.advance_command();
        let own = reads(&txn, rows);
        compare("the transaction itself, uncommitted", &reads(&begin(&small), rows), &own);
        txn.commit(Durability::Async, None).unwrap();
    }
    compare("right after the commit", &reads(&begin(&small), rows), &reads(&begin(&large), rows));
    for _ in 0..4 {
        write(&small, rows, 10_000, &payload);
        write(&large, rows, rows, &payload);
    }
    compare("after five updates", &reads(&begin(&small), rows), &reads(&begin(&large), rows));
    for database in [&small, &large] {
        database.engine().flush().unwrap();
        database.engine().compact();
    }
    compare("after compaction", &reads(&begin(&small), rows), &reads(&begin(&large), rows));
    drop((small, large));
    std::fs::remove_dir_all(&directory).unwrap();
}
