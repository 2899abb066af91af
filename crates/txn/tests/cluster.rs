//! A data directory: databases come, are copied, renamed and go; sequences and oids outlive a restart.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use cairn_txn::{
    Clock, Cluster, Database, Durability, EngineOptions, Error, FIRST_NORMAL_ID, Origin, Recovery, Resources,
    SequenceOptions, SequenceState, StorageError, Store,
};
use common::begin;

fn open(directory: &Path) -> Result<Cluster, Error> {
    open_allowing(directory, Recovery::default())
}

fn open_allowing(directory: &Path, recovery: Recovery) -> Result<Cluster, Error> {
    let resources = Resources::new(16 << 20, 8 << 20);
    let options = EngineOptions { recovery, ..EngineOptions::default() };
    Cluster::open_with(directory, options, resources, Clock::system())
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
        assert_eq!((b.oid, b.owner), (16384, 11), "the refused one took no oid");
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
    let cluster = open(directory.path()).unwrap();
    let names: Vec<_> = cluster.databases().into_iter().map(|info| (info.name, info.is_template)).collect();
    assert_eq!(names, [("a".to_owned(), false), ("c".to_owned(), true)]);
    assert_eq!(get(&cluster.database("c").unwrap()).as_deref(), Some(&b"in b"[..]));
    assert!(cluster.create_database("d", 10, Origin::Empty).unwrap().oid > 16385, "oids are not used again");
}

/// Copies a directory: beside a running server, that is what a kill -9 of it would leave.
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

/// A directory with the databases `a` and `b`, as a kill -9 leaves it, and as a clean end does.
fn two_databases() -> (tempfile::TempDir, tempfile::TempDir) {
    let (stopped, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = open(stopped.path()).unwrap();
    for (name, value) in [("a", b"in a"), ("b", b"in b")] {
        cluster.create_database(name, 10, Origin::Empty).unwrap();
        put(&cluster.database(name).unwrap(), value);
    }
    copy(stopped.path(), killed.path());
    drop(cluster);
    (stopped, killed)
}

/// Opens a copy of the directory after `damage`: either all is there, or the start is refused and nothing was removed.
/// Whether it was refused.
fn refused_after(directory: &Path, what: &str, damage: impl FnOnce(&Path)) -> bool {
    let copied = tempfile::tempdir().unwrap();
    copy(directory, copied.path());
    damage(copied.path());
    let opened = open(copied.path());
    for oid in [16384, 16385] {
        assert!(copied.path().join(format!("databases/{oid}/CURRENT")).exists(), "{what}: {oid} was removed");
    }
    match opened {
        Ok(cluster) => {
            assert_eq!(get(&cluster.database("a").unwrap()).as_deref(), Some(&b"in a"[..]), "{what}");
            assert_eq!(get(&cluster.database("b").unwrap()).as_deref(), Some(&b"in b"[..]), "{what}");
            false
        }
        Err(_) => true,
    }
}

fn files(directory: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// The list of databases is no reason to remove one, whatever has happened to it.
#[test]
fn a_damaged_list_takes_no_database_with_it() {
    let (stopped, killed) = two_databases();
    for (directory, kind) in [(stopped.path(), "stopped"), (killed.path(), "killed")] {
        let length =
            |log: &Path| std::fs::read(log).unwrap().iter().rposition(|&byte| byte != 0).unwrap_or(0);
        let longest =
            files(&directory.join("system"), "log").iter().map(|log| length(log)).max().unwrap_or(0);
        for at in (0..=longest).step_by(7) {
            refused_after(directory, &format!("{kind}: byte {at} of the log"), |copied| {
                for log in files(&copied.join("system"), "log") {
                    let mut bytes = std::fs::read(&log).unwrap();
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1;
                    }
                    std::fs::write(&log, bytes).unwrap();
                }
            });
        }
        refused_after(directory, &format!("{kind}: an empty log"), |copied| {
            files(&copied.join("system"), "log").iter().for_each(|log| std::fs::write(log, b"").unwrap());
        });
        refused_after(directory, &format!("{kind}: no log"), |copied| {
            files(&copied.join("system"), "log").iter().for_each(|log| std::fs::remove_file(log).unwrap());
        });
        let refused = refused_after(directory, &format!("{kind}: no CURRENT"), |copied| {
            std::fs::remove_file(copied.join("system/CURRENT")).unwrap();
        });
        assert!(refused);
        let refused = refused_after(directory, &format!("{kind}: no system store"), |copied| {
            std::fs::remove_dir_all(copied.join("system")).unwrap();
        });
        assert!(refused);
    }
}

#[test]
fn a_list_cut_short_takes_no_database_with_it() {
    let (stopped, killed) = two_databases();
    let manifest = |directory: &Path| {
        let current = std::fs::read_to_string(directory.join("system/CURRENT")).unwrap();
        directory.join("system").join(current.trim_end())
    };
    for (directory, kind) in [(stopped.path(), "stopped"), (killed.path(), "killed")] {
        let length = std::fs::metadata(manifest(directory)).unwrap().len();
        for cut in (0..length).step_by(7) {
            refused_after(directory, &format!("{kind}: manifest cut at {cut}"), |copied| {
                let file = std::fs::File::options().write(true).open(manifest(copied)).unwrap();
                file.set_len(cut).unwrap();
            });
        }
    }
}

#[test]
fn databases_that_the_list_has_lost_are_adopted_on_demand() {
    let (stopped, _) = two_databases();
    let directory = stopped.path();
    std::fs::remove_dir_all(directory.join("system")).unwrap();
    // Something that is not a store is not adopted.
    std::fs::create_dir(directory.join("databases/77777")).unwrap();
    let adopt = Recovery { adopt_databases: true, ..Recovery::default() };
    for (recovery, left) in [(Recovery::default(), 3), (adopt, 1)] {
        match open_allowing(directory, recovery) {
            Err(Error::UnlistedDatabases { paths }) => {
                assert_eq!(paths.len(), left);
                assert!(paths.contains(&directory.join("databases/77777")));
            }
            other => panic!("{other:?}"),
        }
    }
    std::fs::remove_dir(directory.join("databases/77777")).unwrap();
    let cluster = open(directory).unwrap();
    let names: Vec<_> = cluster.databases().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["recovered_16384", "recovered_16385"]);
    assert_eq!(get(&cluster.database("recovered_16385").unwrap()).as_deref(), Some(&b"in b"[..]));
    cluster.rename_database("recovered_16384", "a").unwrap();
    assert_eq!(cluster.create_database("c", 10, Origin::Empty).unwrap().oid, 16386);
}

/// What is in `databases/` and is no database of this server stays as it is.
#[test]
fn files_of_others_stay() {
    let directory = tempfile::tempdir().unwrap();
    let databases = directory.path().join("databases");
    std::fs::create_dir_all(databases.join("my-thesis")).unwrap();
    std::fs::write(databases.join("my-thesis/chapter1.txt"), "years of work").unwrap();
    std::fs::write(databases.join("notes"), "more").unwrap();
    for number in 0..2 {
        let cluster = open(directory.path()).unwrap();
        let oid = cluster.create_database(&format!("db{number}"), 10, Origin::Empty).unwrap().oid;
        drop(cluster);
        copy(&databases.join(oid.to_string()), &databases.join(format!("{oid}.bak")));
        copy(&databases.join(oid.to_string()), &databases.join(format!("0{oid}")));
    }
    assert_eq!(open(directory.path()).unwrap().databases().len(), 2);
    assert!(databases.join("my-thesis/chapter1.txt").exists() && databases.join("notes").exists());
    assert!(databases.join("16384.bak/CURRENT").exists() && databases.join("016385/CURRENT").exists());
    // A directory that stands where a new database would be is not taken, nor removed.
    let cluster = open(directory.path()).unwrap();
    std::fs::create_dir(databases.join("16386")).unwrap();
    std::fs::write(databases.join("16386/file"), "mine").unwrap();
    assert!(cluster.create_database("db2", 10, Origin::Empty).is_err());
    drop(cluster);
    assert!(matches!(open(directory.path()), Err(Error::UnlistedDatabases { .. })));
    assert!(databases.join("16386/file").exists());
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
