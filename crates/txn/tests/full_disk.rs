//! A full disk: commits fail with an error that says so, nothing acknowledged is lost, and when there is room again
//! the same server goes on. Needs the right to mount a small file system; says so and passes where it has none.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_testkit::SmallDisk;
use cairn_txn::{
    Clock, Database, Direction, Durability, EngineOptions, Error, KeyRange, Resources, StorageError,
};
use common::begin;

fn open(directory: &Path) -> Database {
    let options = EngineOptions { memtable_bytes: 1 << 20, ..EngineOptions::default() };
    let resources = Resources::new(16 << 20, 8 << 20);
    Database::open(&directory.join("store"), &options, &resources, Arc::new(Clock::system())).unwrap()
}

fn insert(database: &Database, number: u64) -> Result<(), Error> {
    // Does not compress.
    let payload: Vec<u8> = (0..2_000u64)
        .map(|at| ((at + number * 2_003).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
        .collect();
    let txn = begin(database);
    txn.put(&[&1u32.to_be_bytes()[..], &number.to_be_bytes()].concat(), &payload).unwrap();
    txn.commit(Durability::Sync, None).map(|_| ())
}

fn count(database: &Database) -> u64 {
    let txn = begin(database);
    let range = KeyRange { low: 1u32.to_be_bytes().to_vec(), high: 2u32.to_be_bytes().to_vec() };
    let mut cursor = txn.scan(&txn.snapshot().unwrap(), range, Direction::Forward).unwrap();
    let mut rows = 0;
    while cursor.next().unwrap().is_some() {
        rows += 1;
    }
    rows
}

#[test]
fn full_disk() {
    let Some(disk) = SmallDisk::mount(20).unwrap() else { return };
    let directory = disk.path();
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![0; 8 << 20]).unwrap();
    let database = open(directory);
    let mut acknowledged = 0;
    loop {
        match insert(&database, acknowledged) {
            Ok(()) => acknowledged += 1,
            Err(Error::Storage(StorageError::DiskFull(_))) => break,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(acknowledged > 1_000);
    assert!(matches!(insert(&database, 1 << 40), Err(Error::Storage(StorageError::DiskFull(_)))));
    assert_eq!(count(&database), acknowledged, "reading goes on");
    std::fs::remove_file(&ballast).unwrap();
    let freed = Instant::now();
    while insert(&database, 1 << 41).is_err() {
        assert!(freed.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(count(&database), acknowledged + 1);
    // What a kill -9 would leave: the log has a write that was cut short, somewhere, and acknowledged ones behind it.
    let killed = tempfile::tempdir().unwrap();
    std::fs::create_dir(killed.path().join("store")).unwrap();
    for entry in std::fs::read_dir(directory.join("store")).unwrap() {
        let path = entry.unwrap().path();
        // What RocksDB deletes meanwhile is needed no more.
        match std::fs::copy(&path, killed.path().join("store").join(path.file_name().unwrap())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(count(&open(killed.path())), acknowledged + 1);
    drop(database);
    assert_eq!(count(&open(directory)), acknowledged + 1);
}
