//! A data directory: databases come, are copied, renamed and go; sequences and oids outlive a restart.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_txn::{
    BeginOptions, Clock, Cluster, Database, Durability, EngineOptions, Error, FIRST_NORMAL_ID, Interrupt,
    Isolation, Origin, Resources, SequenceOptions, SequenceState, SessionHandle, StorageError, Store,
    Transaction,
};

fn open(directory: &Path) -> Result<Cluster, Error> {
    let resources = Resources::new(16 << 20, 8 << 20);
    Cluster::open_with(directory, EngineOptions::default(), resources, Clock::system())
}

fn begin(database: &Database) -> Arc<dyn Transaction> {
    let session = Arc::new(SessionHandle { pid: 1, interrupt: Arc::new(Interrupt::default()) });
    database
        .begin(BeginOptions {
            session,
            isolation: Isolation::ReadCommitted,
            read_only: false,
            read_time: None,
        })
        .unwrap()
}

fn put(database: &Database, value: &[u8]) {
    let txn = begin(database);
    txn.put(b"\0\0\0\x01k", value).unwrap();
    txn.commit(Durability::Sync, None).unwrap();
}

fn get(database: &Database) -> Option<Vec<u8>> {
    let txn = begin(database);
    txn.get(&txn.snapshot().unwrap(), b"\0\0\0\x01k").unwrap().map(|value| value.to_vec())
}

const COUNT: SequenceOptions = SequenceOptions { start: 10, increment: 2, min: 1, max: 10_000, cycle: false };

#[test]
fn databases_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    {
        let cluster = open(directory.path()).unwrap();
        assert!(matches!(cluster.database("a"), Err(Error::NoSuchDatabase(_))));
        cluster.create_database_with_oid("a", 1, 10, Origin::Empty).unwrap();
        assert!(matches!(cluster.create_database("a", 10, Origin::Empty), Err(Error::DatabaseExists(_))));
        let a = cluster.database("a").unwrap();
        put(&a, b"in a");
        assert_eq!(a.sequence_next(3, &COUNT).unwrap(), 10);
        assert_eq!(a.allocate_oid().unwrap(), FIRST_NORMAL_ID);
        let template = Origin::Template("a");
        assert!(matches!(cluster.create_database("b", 10, template), Err(Error::DatabaseInUse(_))));
        drop(a);
        let b = cluster.create_database("b", 11, template).unwrap();
        assert_eq!((b.oid, b.owner), (16385, 11), "the refused one had an oid already");
        let b = cluster.database("b").unwrap();
        assert_eq!(get(&b).as_deref(), Some(&b"in a"[..]));
        assert_eq!(b.sequence_next(3, &COUNT).unwrap(), 12, "copied where it was");
        assert_eq!(b.allocate_oid().unwrap(), FIRST_NORMAL_ID + 1);
        put(&b, b"in b");
        assert_eq!(get(&cluster.database("a").unwrap()).as_deref(), Some(&b"in a"[..]));
        assert!(matches!(cluster.drop_database("b"), Err(Error::DatabaseInUse(_))));
        let txn = begin(&b);
        drop(b);
        assert!(matches!(cluster.drop_database("b"), Err(Error::DatabaseInUse(_))), "a transaction is left");
        assert!(matches!(cluster.rename_database("b", "c"), Err(Error::DatabaseInUse(_))));
        drop(txn);
        cluster.rename_database("b", "c").unwrap();
        cluster.create_database("gone", 10, Origin::Empty).unwrap();
        cluster.drop_database("gone").unwrap();
        let mut info = cluster.database_info("c").unwrap();
        info.is_template = true;
        cluster.alter_database(&info).unwrap();
    }
    // A crash in the middle of create database leaves a directory without a record.
    std::fs::create_dir(directory.path().join("databases/77777")).unwrap();
    let cluster = open(directory.path()).unwrap();
    assert!(!directory.path().join("databases/77777").exists());
    let names: Vec<_> = cluster.databases().into_iter().map(|info| (info.name, info.is_template)).collect();
    assert_eq!(names, [("a".to_owned(), false), ("c".to_owned(), true)]);
    assert_eq!(get(&cluster.database("c").unwrap()).as_deref(), Some(&b"in b"[..]));
    assert!(cluster.create_database("d", 10, Origin::Empty).unwrap().oid > 16385, "oids are not used again");
}

#[test]
fn a_second_server_is_told_who_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = open(directory.path()).unwrap();
    match open(directory.path()) {
        Err(Error::Storage(error @ StorageError::Locked { .. })) => {
            let text = error.to_string();
            assert!(text.contains(&std::process::id().to_string()), "{text}");
        }
        other => panic!("{other:?}"),
    }
    drop(cluster);
    let started = Instant::now();
    open(directory.path()).unwrap();
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[test]
fn records_of_the_floor_above() {
    let directory = tempfile::tempdir().unwrap();
    {
        let cluster = open(directory.path()).unwrap();
        cluster.system_put(b"role/1", b"one").unwrap();
        cluster.system_put(b"role/2", b"two").unwrap();
        cluster.system_put(b"setting/x", b"y").unwrap();
        cluster.system_delete(b"role/1").unwrap();
    }
    let cluster = open(directory.path()).unwrap();
    assert_eq!(cluster.system_get(b"role/1").unwrap(), None);
    assert_eq!(cluster.system_scan(b"role/").unwrap(), [(b"role/2".to_vec(), b"two".to_vec())]);
    assert_eq!(cluster.system_scan(b"").unwrap().len(), 2);
    assert!(cluster.databases().is_empty());
}

#[test]
fn sequences() {
    let directory = tempfile::tempdir().unwrap();
    let state = |last_value, is_called| Some(SequenceState { last_value, is_called });
    {
        let cluster = open(directory.path()).unwrap();
        cluster.create_database("a", 10, Origin::Empty).unwrap();
        let a = cluster.database("a").unwrap();
        assert_eq!(a.sequence_state(1).unwrap(), None);
        for turn in 0..1_000 {
            assert_eq!(a.sequence_next(1, &COUNT).unwrap(), 10 + 2 * turn);
        }
        assert_eq!(a.sequence_state(1).unwrap(), state(2_008, true));
        let down = SequenceOptions { increment: -3, ..COUNT };
        assert_eq!(a.sequence_next(1, &down).unwrap(), 2_005);
        a.sequence_set(1, 7, true).unwrap();
        assert_eq!(a.sequence_next(1, &down).unwrap(), 4);
        assert_eq!(a.sequence_next(1, &down).unwrap(), 1);
        assert!(matches!(
            a.sequence_next(1, &down),
            Err(Error::SequenceExhausted { limit: 1, ascending: false })
        ));
        assert_eq!(a.sequence_next(1, &SequenceOptions { cycle: true, ..down }).unwrap(), 10_000);
        a.sequence_set(1, 50, false).unwrap();
        assert_eq!(a.sequence_state(1).unwrap(), state(50, false));
        assert_eq!(a.sequence_next(1, &COUNT).unwrap(), 50);
        // One that wraps around every few values.
        let small = SequenceOptions { start: 1, increment: 1, min: 1, max: 5, cycle: true };
        let values: Vec<i64> = (0..12).map(|_| a.sequence_next(2, &small).unwrap()).collect();
        assert_eq!(values, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]);
        // Dropped with its storage, and rolled back with its creation.
        let txn = begin(&a);
        txn.drop_storage(2).unwrap();
        let created = txn.create_storage().unwrap();
        assert_eq!(a.sequence_next(created, &small).unwrap(), 1);
        txn.commit(Durability::Sync, None).unwrap();
        assert_eq!(a.sequence_state(2).unwrap(), None);
        let txn = begin(&a);
        let never = txn.create_storage().unwrap();
        assert_eq!(a.sequence_next(never, &small).unwrap(), 1);
        txn.rollback();
        assert_eq!(a.sequence_state(never).unwrap(), None);
        assert_eq!(a.sequence_state(created).unwrap(), state(1, true));
    }
    let cluster = open(directory.path()).unwrap();
    let a = cluster.database("a").unwrap();
    assert_eq!(a.sequence_state(1).unwrap(), state(50, true), "a clean end loses no value");
    assert_eq!(a.sequence_next(1, &COUNT).unwrap(), 52);
}

/// Ten threads draw values while others commit: no value twice, and drawing does not cost an fsync each.
#[test]
fn sequence_values_are_unique_and_cheap() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = open(directory.path()).unwrap();
    cluster.create_database("a", 10, Origin::Empty).unwrap();
    let a = cluster.database("a").unwrap();
    let before = a.fsyncs();
    let all = SequenceOptions { start: 1, increment: 1, min: 1, max: i64::MAX, cycle: false };
    let mut values: Vec<i64> = std::thread::scope(|scope| {
        let draw = || (0..2_000).map(|_| a.sequence_next(1, &all).unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(draw)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    values.sort_unstable();
    assert!(values.iter().copied().eq(1..=20_000));
    assert!(a.fsyncs() - before < 100, "{}", a.fsyncs() - before);
}
