//! Opening, closing, locks, formats, recovery, and what a read costs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use cairn_storage::meta::{self, Counter, SequenceRecord};
use cairn_storage::spills::record::{begin_record, push_version};
use cairn_storage::spills::{OwnVersion, SettleStep};
use cairn_storage::{
    Clock, Cursor, Direction, Engine, EngineOptions, Error, ReadStats, Resources, Timestamp, key,
};

fn open(path: &std::path::Path, clock: &Clock) -> Result<Engine, Error> {
    Engine::open(path, &EngineOptions::default(), &Resources::new(8 << 20, 4 << 20), clock)
}

fn put(engine: &Engine, key: &[u8], time: u64, value: &[u8]) {
    let mut batch = engine.batch();
    batch.put(key, Timestamp(time), value);
    engine.write_at(batch, Timestamp(time)).unwrap();
}

fn row(storage: u32, name: u32) -> Vec<u8> {
    [storage.to_be_bytes(), name.to_be_bytes()].concat()
}

#[test]
fn second_store_on_a_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let first = open(directory.path(), &clock).unwrap();
    assert!(matches!(open(directory.path(), &clock), Err(Error::Locked { .. })));
    drop(first);
    open(directory.path(), &clock).unwrap();
}

#[test]
fn newer_format_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), &Clock::system()).unwrap());
    {
        let rocks = rocksdb::Options::default();
        let mut db =
            rocksdb::DB::open_cf(&rocks, directory.path(), ["default", "meta", "provisional"]).unwrap();
        let family = db.cf_handle("meta").unwrap();
        db.put_cf(family, [1], (meta::FORMAT + 1).to_be_bytes()).unwrap();
        db.create_cf("something of the future", &rocks).unwrap();
    }
    match open(directory.path(), &Clock::system()) {
        Err(Error::NewerFormat { found, supported, .. }) => {
            assert_eq!((found, supported), (meta::FORMAT + 1, meta::FORMAT));
        }
        other => panic!("{other:?}"),
    }
}

/// Records that were rolled back go by compactions, by the walk that settles them, or with their storage: in any order, in the same
/// files or not.
#[test]
fn records_that_were_rolled_back_go_in_any_way() {
    let mut record = Vec::new();
    begin_record(&mut record, 5);
    push_version(&mut record, OwnVersion { command: 0, epoch: 0, value: Some(b"never") });
    for choice in 0..16u32 {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let engine = open(directory.path(), &Clock::system()).unwrap();
        let to_files = |step: u32| {
            if choice & 1 << step != 0 {
                engine.flush().unwrap();
                engine.compact();
            }
        };
        engine.spills().begin(5);
        let mut batch = engine.batch();
        batch.add_pending_storage(7);
        batch.note_spill_storage(5, 7);
        let keys: Vec<Vec<u8>> = (0..50).map(|name| row(7, name)).collect();
        batch.provisional(Timestamp(3), keys.iter().map(|key| (&key[..], &record[..], false)));
        engine.write(batch).unwrap();
        to_files(0);
        engine.spill_rolled_back(5, vec![(row(7, 0), row(7, 49))], 1000);
        for step in 1..3 {
            if (step == 1) == (choice & 8 == 0) {
                let mut batch = engine.batch();
                batch.delete_pending_storage(7);
                engine.write(batch).unwrap();
            } else {
                let mut walk = engine.begin_settling().unwrap();
                while engine.settle_some(&mut walk).unwrap() != SettleStep::Finished {}
            }
            to_files(step);
        }
        engine.flush().unwrap();
        engine.compact();
        put(&engine, &row(1, 1), 10, b"x");
        engine.flush().unwrap();
        assert!((0..50).all(|name| engine.provisional_records(&row(7, name)).unwrap() == 0), "{choice}");
        drop(engine);
        let engine = open(directory.path(), &Clock::system()).unwrap();
        assert!(!engine.spills().any_unsettled());
    }
}

#[test]
fn clock_restarts_above_every_version() {
    let directory = tempfile::tempdir().unwrap();
    let far = Clock::system().now().0 + (3_600_000_000 << 12);
    put(&open(directory.path(), &Clock::system()).unwrap(), &row(1, 1), far, b"x");
    let clock = Clock::system();
    let engine = open(directory.path(), &clock).unwrap();
    assert!(engine.recovered_up_to() > Timestamp(far), "not closed: up to the reserve later");
    assert!(clock.tick() > engine.recovered_up_to());
    engine.close(Timestamp(far + 5)).unwrap();
    drop(engine);
    let clock = Clock::system();
    let engine = open(directory.path(), &clock).unwrap();
    assert!(clock.tick() > engine.recovered_up_to());
}

#[test]
fn unfinished_bulk_load_is_removed_on_opening() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let engine = open(directory.path(), &clock).unwrap();
    let mut batch = engine.batch();
    batch.add_pending_storage(7);
    batch.add_pending_storage(8);
    engine.write(batch).unwrap();
    for storage in [6, 7, 8, 9] {
        put(&engine, &row(storage, 1), 5, b"x");
    }
    engine.flush().unwrap();
    for storage in [6, 7, 8, 9] {
        put(&engine, &row(storage, 2), 6, b"x");
    }
    let mut batch = engine.batch();
    batch.keep_pending_storage(8);
    batch.set_sequence(8, SequenceRecord { last_value: 3, is_called: true });
    engine.write(batch).unwrap();
    drop(engine);
    let engine = open(directory.path(), &clock).unwrap();
    let mut stats = ReadStats::default();
    for (storage, there) in [(6, true), (7, false), (8, true), (9, true)] {
        for name in [1, 2] {
            let found = engine.get(&row(storage, name), Timestamp(10), &mut stats).unwrap();
            assert_eq!(found.is_some(), there, "{storage} {name}");
        }
    }
    assert!(engine.pending_storages().unwrap().is_empty());
    assert_eq!(engine.sequence(8).unwrap(), Some(SequenceRecord { last_value: 3, is_called: true }));
}

#[test]
fn what_has_no_versions_survives() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let engine = open(directory.path(), &clock).unwrap();
    assert_eq!(engine.counter(Counter::Oid).unwrap(), None);
    let mut batch = engine.batch();
    batch.set_counter(Counter::Oid, 17);
    batch.add_dropped_storage(3, Timestamp(9));
    batch.put_record(b"role/a", b"1");
    batch.put_record(b"role/b", b"2");
    batch.put_record(b"database/a", b"3");
    engine.write(batch).unwrap();
    drop(engine);
    let engine = open(directory.path(), &clock).unwrap();
    assert_eq!(engine.counter(Counter::Oid).unwrap(), Some(17));
    assert_eq!(engine.counter(Counter::StorageId).unwrap(), None);
    assert_eq!(engine.dropped_storages().unwrap(), [(3, Timestamp(9))]);
    let names: Vec<_> = engine.records(b"role/").unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [b"role/a".to_vec(), b"role/b".to_vec()]);
    assert_eq!(engine.record(b"database/a").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!(engine.record(b"database").unwrap(), None);
}

/// DESIGN, section 6: at most 1 seek and 3 nexts more than without the newer versions; the same for older ones.
#[test]
fn many_versions_of_a_row_cost_what_a_few_do() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(directory.path(), &Clock::system()).unwrap());
    for name in 0..10 {
        put(&engine, &row(1, name), 1, b"old");
    }
    for time in 2..2_000 {
        put(&engine, &row(1, 4), time, b"new");
    }
    let (low, high) = key::storage_range(1);
    for direction in [Direction::Forward, Direction::Backward] {
        for at in [1, 1_000, 5_000] {
            let mut cursor = Cursor::open(engine.clone(), &low, &high, direction, Timestamp(at)).unwrap();
            let mut rows = 0;
            while cursor.advance().unwrap() {
                rows += 1;
            }
            assert_eq!(rows, 10);
            let stats = cursor.stats();
            // One way to the right version, one way out of the row again.
            assert!(
                stats.counters.seeks <= 1 + 2 && stats.counters.nexts <= 10 + 2 * 4,
                "{direction:?} at {at}: {stats:?}"
            );
        }
    }
}

/// RocksDB's own delete marks are counted; steps over what is there are not called hidden.
#[test]
fn hidden_steps_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Arc::new(open(directory.path(), &Clock::system()).unwrap());
    for name in 0..100 {
        put(&engine, &row(1, name), 1, b"row");
        put(&engine, &row(2, name), 1, b"row");
    }
    drop(engine);
    {
        let rocks = rocksdb::Options::default();
        let db = rocksdb::DB::open_cf(&rocks, directory.path(), ["default", "meta", "provisional"]).unwrap();
        let mut stored = Vec::new();
        for name in 10..90 {
            key::write_stored(&mut stored, &row(1, name), Timestamp(1));
            db.delete(&stored).unwrap();
        }
        db.flush().unwrap();
    }
    let engine = Arc::new(open(directory.path(), &Clock::system()).unwrap());
    let scan = |storage, direction| {
        ReadStats::default().add_hidden();
        let (low, high) = key::storage_range(storage);
        let mut cursor = Cursor::open(engine.clone(), &low, &high, direction, Timestamp(5)).unwrap();
        let mut rows = 0;
        while cursor.advance().unwrap() {
            rows += 1;
        }
        let mut stats = cursor.take_stats();
        stats.add_hidden();
        (rows, stats)
    };
    for direction in [Direction::Forward, Direction::Backward] {
        let (rows, stats) = scan(2, direction);
        assert_eq!((rows, stats.counters.hidden_deletes), (100, 0), "{direction:?}");
        assert!(stats.counters.hidden_keys() <= 2, "{direction:?} {stats:?}");
        let (rows, stats) = scan(1, direction);
        assert_eq!((rows, stats.counters.hidden_deletes), (20, 80), "{direction:?}");
        // Forward the values under the marks; backward the marks are passed once more.
        assert!(matches!(stats.counters.hidden_keys(), 80..=162), "{direction:?} {stats:?}");
    }
}

#[test]
fn checkpoint_is_a_store_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let engine = open(&directory.path().join("one"), &clock).unwrap();
    put(&engine, &row(1, 1), 1, b"shared");
    engine.checkpoint(&directory.path().join("two")).unwrap();
    put(&engine, &row(1, 1), 2, b"one only");
    let copy = open(&directory.path().join("two"), &clock).unwrap();
    let mut stats = ReadStats::default();
    let found = copy.get(&row(1, 1), Timestamp::MAX, &mut stats).unwrap().unwrap();
    assert_eq!(found.value.as_deref(), Some(&b"shared"[..]));
    assert_eq!(engine.get(&row(1, 1), Timestamp::MAX, &mut stats).unwrap().unwrap().time, Timestamp(2));
    let space = copy.space(1).unwrap();
    assert!(space.memtable_bytes + space.file_bytes > 0);
}

/// Bytes from disk are never trusted.
#[test]
fn foreign_bytes_are_corruption() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), &Clock::system()).unwrap());
    {
        let rocks = rocksdb::Options::default();
        let db = rocksdb::DB::open_cf(&rocks, directory.path(), ["default", "meta", "provisional"]).unwrap();
        let mut stored = Vec::new();
        key::write_stored(&mut stored, &row(1, 1), Timestamp(5));
        db.put(&stored, [77, 1, 2]).unwrap();
        db.put([0, 0, 0, 2, 9], [1]).unwrap();
    }
    let engine = Arc::new(open(directory.path(), &Clock::system()).unwrap());
    let mut stats = ReadStats::default();
    assert!(matches!(engine.get(&row(1, 1), Timestamp::MAX, &mut stats), Err(Error::Corruption { .. })));
    for storage in [1, 2] {
        for direction in [Direction::Forward, Direction::Backward] {
            let (low, high) = key::storage_range(storage);
            let mut cursor = Cursor::open(engine.clone(), &low, &high, direction, Timestamp::MAX).unwrap();
            assert!(matches!(cursor.advance(), Err(Error::Corruption { .. })), "{storage} {direction:?}");
        }
    }
}
