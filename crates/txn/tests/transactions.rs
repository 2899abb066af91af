//! What one transaction sees of itself and of others, one named case each.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use cairn_txn::{
    BeginOptions, Clock, Conflict, Database, Direction, Durability, EngineOptions, Error, Interrupt,
    Isolation, KeyRange, LockOutcome, Resources, RowLockMode, SessionHandle, Store, SyncPhase, Timestamp,
    Transaction, WaitPolicy,
};

fn open(path: &Path) -> Database {
    let resources = Resources::new(16 << 20, 8 << 20);
    Database::open(path, &EngineOptions::default(), &resources, Arc::new(Clock::system())).unwrap()
}

fn session() -> Arc<SessionHandle> {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    let pid = NEXT.fetch_add(1, Ordering::Relaxed);
    Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::default()) })
}

fn begin(database: &Database, isolation: Isolation) -> Arc<dyn Transaction> {
    database.begin(BeginOptions { session: session(), isolation, read_only: false, read_time: None }).unwrap()
}

fn read_committed(database: &Database) -> Arc<dyn Transaction> {
    begin(database, Isolation::ReadCommitted)
}

fn repeatable_read(database: &Database) -> Arc<dyn Transaction> {
    begin(database, Isolation::RepeatableRead)
}

fn key(name: &str) -> Vec<u8> {
    [&9u32.to_be_bytes()[..], name.as_bytes(), &[0]].concat()
}

fn whole(storage: u32) -> KeyRange {
    KeyRange { low: storage.to_be_bytes().to_vec(), high: (storage + 1).to_be_bytes().to_vec() }
}

fn all() -> KeyRange {
    whole(9)
}

fn get(txn: &Arc<dyn Transaction>, name: &str) -> Option<String> {
    let value = txn.get(&txn.snapshot().unwrap(), &key(name)).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn put(txn: &Arc<dyn Transaction>, name: &str, value: &str) {
    txn.put(&key(name), value.as_bytes()).unwrap();
    txn.advance_command();
}

fn commit(txn: &Arc<dyn Transaction>) -> Option<Timestamp> {
    txn.commit(Durability::Sync, None).unwrap()
}

fn scan(txn: &Arc<dyn Transaction>, direction: Direction) -> String {
    let mut cursor = txn.scan(&txn.snapshot().unwrap(), all(), direction).unwrap();
    let mut text = String::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        let name = std::str::from_utf8(&key[4..key.len() - 1]).unwrap();
        text += &format!("{name}={} ", std::str::from_utf8(value).unwrap());
    }
    text.trim_end().to_owned()
}

fn setup(database: &Database, rows: &[(&str, &str)]) {
    let txn = read_committed(database);
    for (name, value) in rows {
        put(&txn, name, value);
    }
    commit(&txn);
}

const BLOCK: WaitPolicy = WaitPolicy::Block { timeout: Duration::ZERO };

#[test]
fn read_committed_sees_each_commit_repeatable_read_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "1")]);
    let (one, two) = (read_committed(&database), repeatable_read(&database));
    assert_eq!((get(&one, "a"), get(&two, "a")), (Some("1".into()), Some("1".into())));
    setup(&database, &[("a", "2"), ("b", "1")]);
    assert_eq!(scan(&one, Direction::Forward), "a=2 b=1");
    assert_eq!(scan(&two, Direction::Forward), "a=1");
    assert_eq!(get(&two, "b"), None);
}

#[test]
fn own_writes_are_merged_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("b", "1"), ("d", "1"), ("f", "1")]);
    let txn = read_committed(&database);
    for (name, value) in [("a", "new"), ("c", "new"), ("d", "own"), ("g", "new")] {
        put(&txn, name, value);
    }
    txn.delete(&key("f")).unwrap();
    txn.delete(&key("e")).unwrap();
    txn.advance_command();
    assert_eq!(scan(&txn, Direction::Forward), "a=new b=1 c=new d=own g=new");
    assert_eq!(scan(&txn, Direction::Backward), "g=new d=own c=new b=1 a=new");
    assert_eq!(scan(&read_committed(&database), Direction::Forward), "b=1 d=1 f=1");
    commit(&txn);
    assert_eq!(scan(&read_committed(&database), Direction::Backward), "g=new d=own c=new b=1 a=new");
}

/// The Halloween problem: rows that a statement writes ahead of its own scan stay unseen.
#[test]
fn a_statement_does_not_see_its_own_writes() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "1"), ("b", "1")]);
    for direction in [Direction::Forward, Direction::Backward] {
        let txn = read_committed(&database);
        put(&txn, "c", "earlier command");
        let snapshot = txn.snapshot().unwrap();
        let mut cursor = txn.scan(&snapshot, all(), direction).unwrap();
        let mut seen = 0;
        while let Some((found, _)) = cursor.next().unwrap() {
            let found = found.to_vec();
            seen += 1;
            assert!(seen < 10);
            txn.delete(&found).unwrap();
            txn.put(&[&found[..4], b"z", &found[4..]].concat(), b"ahead").unwrap();
            txn.put(&[&found[..4], b"A", &found[4..]].concat(), b"ahead").unwrap();
            assert!(txn.get(&snapshot, &found).unwrap().is_some(), "still there for this command");
        }
        assert_eq!(seen, 3);
        txn.advance_command();
        assert_eq!(scan(&txn, Direction::Forward).matches('=').count(), 6);
    }
}

#[test]
fn a_cursor_keeps_its_command_while_later_ones_write() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("b", "1"), ("d", "1")]);
    let txn = read_committed(&database);
    put(&txn, "c", "first");
    let mut cursor = txn.scan(&txn.snapshot().unwrap(), all(), Direction::Forward).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap().0, key("b"));
    put(&txn, "c", "second");
    put(&txn, "cc", "second");
    txn.delete(&key("d")).unwrap();
    txn.advance_command();
    setup(&database, &[("ccc", "somebody else's")]);
    assert_eq!(cursor.next().unwrap().unwrap(), (&key("c")[..], &b"first"[..]));
    assert_eq!(cursor.next().unwrap().unwrap(), (&key("d")[..], &b"1"[..]));
    assert_eq!(cursor.next().unwrap(), None);
    cursor.reset(KeyRange { low: key("c"), high: key("d") }).unwrap();
    assert_eq!(cursor.next().unwrap().unwrap(), (&key("c")[..], &b"first"[..]));
    assert_eq!(cursor.next().unwrap(), None);
    assert_eq!(scan(&txn, Direction::Forward), "b=1 c=second cc=second ccc=somebody else's");
}

#[test]
fn savepoints_undo_writes_and_locks() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "0")]);
    let txn = read_committed(&database);
    put(&txn, "a", "1");
    let outer = txn.savepoint();
    put(&txn, "a", "2");
    put(&txn, "b", "2");
    txn.lock_row(&key("locked"), RowLockMode::Update, BLOCK).unwrap();
    let inner = txn.savepoint();
    put(&txn, "a", "3");
    txn.delete(&key("b")).unwrap();
    txn.advance_command();
    assert_eq!(scan(&txn, Direction::Forward), "a=3");
    txn.rollback_to(inner).unwrap();
    assert_eq!(scan(&txn, Direction::Forward), "a=2 b=2");
    put(&txn, "c", "again inside");
    txn.rollback_to(inner).unwrap();
    assert_eq!(scan(&txn, Direction::Forward), "a=2 b=2");
    let other = read_committed(&database);
    let wanted =
        |txn: &Arc<dyn Transaction>| txn.lock_row(&key("locked"), RowLockMode::Update, WaitPolicy::Skip);
    assert_eq!(wanted(&other).unwrap(), LockOutcome::Skipped);
    txn.rollback_to(outer).unwrap();
    assert_eq!(wanted(&other).unwrap(), LockOutcome::Acquired { waited: false });
    assert!(matches!(txn.rollback_to(inner), Err(Error::NoSuchSavepoint(_))));
    assert_eq!(scan(&txn, Direction::Forward), "a=1");
    put(&txn, "d", "kept");
    txn.release(outer).unwrap();
    assert!(matches!(txn.rollback_to(outer), Err(Error::NoSuchSavepoint(_))));
    commit(&txn);
    assert_eq!(scan(&read_committed(&database), Direction::Forward), "a=1 d=kept");
}

#[test]
fn first_updater_wins_in_repeatable_read() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "1"), ("b", "1"), ("c", "1")]);
    let txn = repeatable_read(&database);
    assert_eq!(scan(&txn, Direction::Forward), "a=1 b=1 c=1");
    setup(&database, &[("a", "2"), ("new", "2")]);
    let other = read_committed(&database);
    other.delete(&key("b")).unwrap();
    commit(&other);
    let lock = |name: &str, mode| txn.lock_row(&key(name), mode, BLOCK);
    assert!(matches!(lock("a", RowLockMode::Update), Err(Error::Serialization(Conflict::Update))));
    assert!(matches!(lock("a", RowLockMode::Share), Err(Error::Serialization(Conflict::Update))));
    assert!(lock("a", RowLockMode::KeyShare).is_ok());
    assert!(matches!(lock("b", RowLockMode::KeyShare), Err(Error::Serialization(Conflict::Delete))));
    assert!(lock("c", RowLockMode::Update).is_ok());
    // Absent in the snapshot: the unique check looks at the newest state and reports a duplicate key.
    assert!(lock("new", RowLockMode::Update).is_ok());
    let newest = txn.newest(&key("new")).unwrap();
    assert_eq!((newest.own_command, newest.value.as_deref()), (None, Some(&b"2"[..])));
    assert!(newest.committed_at > txn.snapshot().unwrap().read_time);
}

#[test]
fn newest_prefers_own_writes() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "1")]);
    let txn = read_committed(&database);
    let absent = txn.newest(&key("x")).unwrap();
    assert_eq!((absent.committed_at, absent.own_command, absent.value), (Timestamp::MIN, None, None));
    txn.advance_command();
    txn.delete(&key("a")).unwrap();
    let newest = txn.newest(&key("a")).unwrap();
    assert!(newest.committed_at > Timestamp::MIN);
    assert_eq!((newest.own_command, newest.value), (Some(1), None));
}

#[test]
fn reading_the_past() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "1")]);
    let between = database.visible();
    setup(&database, &[("a", "2"), ("b", "2")]);
    let past = |time| {
        let options = BeginOptions {
            session: session(),
            isolation: Isolation::ReadCommitted,
            read_only: false,
            read_time: Some(time),
        };
        database.begin(options).unwrap()
    };
    assert_eq!(scan(&past(between), Direction::Forward), "a=1");
    assert_eq!(scan(&past(Timestamp(5)), Direction::Backward), "");
    assert!(matches!(past(between).put(&key("a"), b"x"), Err(Error::ReadOnly)));
    let future = past(Timestamp::MAX);
    setup(&database, &[("c", "3")]);
    assert_eq!(scan(&future, Direction::Forward), "a=2 b=2");
}

#[test]
fn what_must_change_with_the_data_changes_before_it_is_visible() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let txn = read_committed(&database);
    put(&txn, "a", "1");
    let seen = std::cell::RefCell::new(None);
    txn.commit(Durability::Sync, Some(&|| *seen.borrow_mut() = get(&read_committed(&database), "a")))
        .unwrap();
    assert_eq!(*seen.borrow(), None);
    assert!(txn.put(&key("b"), b"x").is_err(), "it has ended");
    assert!(txn.commit(Durability::Sync, None).is_err());
}

/// A bulk load: seen by later commands of its transaction, by nobody else before the commit.
#[test]
fn bulk_load() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let txn = repeatable_read(&database);
    txn.snapshot().unwrap();
    let storage = txn.create_storage().unwrap();
    assert!(storage >= cairn_txn::FIRST_NORMAL_ID && txn.can_bulk_load(storage) && !txn.can_bulk_load(9));
    let row = |number: u32| [storage.to_be_bytes(), number.to_be_bytes()].concat();
    let payload = vec![7u8; 500];
    let count = |txn: &Arc<dyn Transaction>| {
        let mut cursor = txn.scan(&txn.snapshot().unwrap(), whole(storage), Direction::Backward).unwrap();
        let mut rows = 0;
        while cursor.next().unwrap().is_some() {
            rows += 1;
        }
        rows
    };
    for number in 0..5_000 {
        assert_eq!(txn.newest(&row(number)).unwrap().value, None);
        txn.bulk_put(&row(number), &payload).unwrap();
    }
    assert_eq!(count(&txn), 0, "same command");
    for number in [0, 4_999] {
        let newest = txn.newest(&row(number)).unwrap();
        assert_eq!((newest.own_command, newest.value.is_some()), (Some(0), true));
    }
    txn.advance_command();
    assert_eq!(count(&txn), 5_000);
    // Rows written the usual way lie above, and a second load below them.
    txn.delete(&row(1)).unwrap();
    txn.put(&row(2), b"own").unwrap();
    txn.bulk_put(&row(9_000), b"x").unwrap();
    assert_eq!(count(&txn), 5_000);
    txn.advance_command();
    assert_eq!(count(&txn), 5_000);
    txn.bulk_put(&row(1), b"back again").unwrap();
    txn.advance_command();
    assert_eq!(count(&txn), 5_001);
    assert_eq!(count(&read_committed(&database)), 0);
    let savepoint = txn.savepoint();
    assert!(!txn.can_bulk_load(storage), "could not be undone alone");
    assert!(matches!(txn.bulk_put(&row(3), b"x"), Err(Error::NoBulkLoad(_))));
    let inner = txn.create_storage().unwrap();
    txn.bulk_put(&[inner.to_be_bytes(), [0; 4]].concat(), b"x").unwrap();
    txn.rollback_to(savepoint).unwrap();
    assert!(!txn.can_bulk_load(inner));
    txn.release(savepoint).unwrap();
    assert!(txn.can_bulk_load(storage));
    commit(&txn);
    let reader = read_committed(&database);
    assert_eq!(count(&reader), 5_001);
    let read = |number| reader.get(&reader.snapshot().unwrap(), &row(number)).unwrap();
    assert_eq!(read(2).as_deref(), Some(&b"own"[..]));
    assert_eq!(read(1).as_deref(), Some(&b"back again"[..]));
    assert!(database.engine().pending_storages().unwrap().is_empty());
}

#[test]
fn a_bulk_load_that_is_rolled_back_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let storage;
    {
        let database = open(directory.path());
        let txn = read_committed(&database);
        storage = txn.create_storage().unwrap();
        for number in 0..3_000u32 {
            txn.bulk_put(&[storage.to_be_bytes(), number.to_be_bytes()].concat(), &[1; 600]).unwrap();
        }
        assert_eq!(database.engine().pending_storages().unwrap(), [storage]);
        drop(txn);
        assert!(database.engine().pending_storages().unwrap().is_empty());
        assert_eq!(database.space_usage(storage).unwrap().memtable_bytes, 0);
        let txn = read_committed(&database);
        assert!(txn.create_storage().unwrap() > storage, "never used again");
        // Created and dropped by the same transaction: nothing either.
        let gone = txn.create_storage().unwrap();
        for number in 0..3_000u32 {
            txn.bulk_put(&[gone.to_be_bytes(), number.to_be_bytes()].concat(), &[1; 600]).unwrap();
        }
        txn.drop_storage(gone).unwrap();
        txn.drop_storage(9).unwrap();
        let time = commit(&txn).unwrap();
        assert_eq!(database.space_usage(gone).unwrap().memtable_bytes, 0);
        assert_eq!(database.engine().dropped_storages().unwrap(), [(9, time)]);
    }
    let database = open(directory.path());
    assert!(read_committed(&database).create_storage().unwrap() > storage);
}

#[test]
fn asynchronous_commits_are_synced_soon_and_nobody_waits_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let before = database.fsyncs();
    let txn = read_committed(&database);
    put(&txn, "a", "1");
    txn.commit(Durability::Async, None).unwrap();
    let reader = read_committed(&database);
    assert_eq!(get(&reader, "a"), Some("1".into()));
    database.wait_durable(reader.settled_at());
    assert_eq!(database.fsyncs(), before, "nobody asked for one");
    let started = Instant::now();
    while database.fsyncs() == before {
        assert!(started.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads of the newest state meet commits that have not left the commit section, and owe as much to those as to others.
#[test]
fn what_a_commit_under_way_promises_is_owed() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(500) {
                let txn = read_committed(&database);
                put(&txn, "a", "1");
                txn.commit(Durability::Promised, None).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let reader = read_committed(&database);
            let newest = reader.newest(&key("a")).unwrap();
            assert_eq!(reader.settled_at(), newest.committed_at);
            assert!(reader.settled_at() <= database.visible());
        }
    });
}

/// Many writers share fsyncs.
#[test]
fn group_commit() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let before = database.fsyncs();
    const THREADS: u64 = 16;
    const COMMITS: u64 = 50;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let database = &database;
            scope.spawn(move || {
                for turn in 0..COMMITS {
                    let txn = read_committed(database);
                    put(&txn, &format!("{thread}-{turn}"), "x");
                    commit(&txn);
                }
            });
        }
    });
    let fsyncs = database.fsyncs() - before;
    assert!((1..THREADS * COMMITS / 2).contains(&fsyncs), "{fsyncs}");
    assert_eq!(
        scan(&read_committed(&database), Direction::Forward).matches('=').count() as u64,
        THREADS * COMMITS
    );
}

/// Read, add one, write back under the row's lock: no update is lost, whoever waits sees the newest value.
/// Notes whether it was given.
#[derive(Default)]
struct Told(std::sync::atomic::AtomicBool);

impl cairn_txn::Answer for Told {
    fn give(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn nobody_is_told_of_a_promised_commit_before_it_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    // Each fsync waits for a permission; asks for it when it begins.
    let (ask, asked) = std::sync::mpsc::channel();
    let (allow, allowed) = std::sync::mpsc::channel::<()>();
    let allowed = std::sync::Mutex::new(allowed);
    database.engine().observe_syncs(Box::new(move |phase| {
        if phase == SyncPhase::Begins {
            // In the end nobody listens any more.
            let _ = ask.send(());
            let _ = allowed.lock().unwrap().recv();
        }
    }));
    let told: [Arc<Told>; 3] = Default::default();
    let is_told = || [0, 1, 2].map(|number: usize| told[number].0.load(Ordering::SeqCst));
    let write = |name, answer: &Arc<Told>| {
        let txn = read_committed(&database);
        put(&txn, name, "1");
        let time = txn.commit(Durability::Promised, None).unwrap().unwrap();
        database.answer_when_durable(time, answer.clone());
    };
    std::thread::scope(|scope| {
        // The first to come does the fsync itself.
        scope.spawn(|| write("a", &told[0]));
        asked.recv().unwrap();
        // Who comes while it runs does not wait, and the running fsync is none for it.
        write("b", &told[1]);
        let reader = read_committed(&database);
        assert_eq!(get(&reader, "b"), Some("1".into()));
        assert_eq!(reader.commit(Durability::Promised, None).unwrap(), None, "does not wait either");
        database.answer_when_durable(reader.settled_at(), told[2].clone());
        assert_eq!(is_told(), [false; 3]);
        allow.send(()).unwrap();
        asked.recv().unwrap();
        assert!(!is_told()[1] && !is_told()[2], "before their fsync");
        allow.send(()).unwrap();
        let started = Instant::now();
        while is_told() != [true; 3] {
            assert!(started.elapsed() < Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // What is durable is told at once.
    let told = Arc::new(Told::default());
    database.answer_when_durable(reader_time(&database), told.clone());
    assert!(told.0.load(Ordering::SeqCst));
    drop(allow);
}

fn reader_time(database: &Database) -> Timestamp {
    let reader = read_committed(database);
    assert_eq!(get(&reader, "a"), Some("1".into()));
    reader.settled_at()
}

#[test]
fn row_locks_serialize_writers() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("n", "0")]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let txn = read_committed(&database);
                    txn.lock_row(&key("n"), RowLockMode::Update, BLOCK).unwrap();
                    let value = txn.newest(&key("n")).unwrap().value.unwrap();
                    let value: u64 = std::str::from_utf8(&value).unwrap().parse().unwrap();
                    txn.put(&key("n"), (value + 1).to_string().as_bytes()).unwrap();
                    commit(&txn);
                }
            });
        }
    });
    assert_eq!(get(&read_committed(&database), "n"), Some("200".into()));
}

#[test]
fn newer_tells_what_a_snapshot_does_not_see() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let key = |n: u8| key(&n.to_string());
    let first = read_committed(&database);
    first.put(&key(1), b"old").unwrap();
    first.put(&key(2), b"old").unwrap();
    first.commit(Durability::Async, None).unwrap();

    let reader = read_committed(&database);
    let before = reader.snapshot().unwrap();
    assert_eq!(reader.newer(&before, &key(1)).unwrap(), None);
    let writer = read_committed(&database);
    writer.put(&key(1), b"new").unwrap();
    writer.delete(&key(2)).unwrap();
    writer.commit(Durability::Async, None).unwrap();
    assert_eq!(reader.newer(&before, &key(1)).unwrap().unwrap().value.as_deref(), Some(&b"new"[..]));
    assert_eq!(reader.newer(&before, &key(2)).unwrap().unwrap().value, None);
    let after = reader.snapshot().unwrap();
    assert_eq!(reader.newer(&after, &key(1)).unwrap(), None);

    // Own writes count from their command on.
    reader.put(&key(1), b"own").unwrap();
    let own = reader.newer(&after, &key(1)).unwrap().unwrap();
    assert_eq!((own.own_command, own.value.as_deref()), (Some(after.command), Some(&b"own"[..])));
    reader.advance_command();
    let later = reader.snapshot().unwrap();
    assert_eq!(reader.newer(&later, &key(1)).unwrap(), None);
}

/// For a snapshot that is older than a key space there is nothing in it, also where rows were loaded before the snapshot was
/// taken; and an index that is younger than a snapshot lacks rows that it sees.
#[test]
fn key_spaces_that_are_younger_than_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    setup(&database, &[("a", "1")]);
    let before = repeatable_read(&database);
    let first = before.snapshot().unwrap();
    let maker = repeatable_read(&database);
    let old = maker.snapshot().unwrap();
    setup(&database, &[("b", "1")]);
    let (table, index) = (maker.create_storage().unwrap(), maker.create_storage().unwrap());
    let row = |storage: u32| [storage.to_be_bytes(), [0; 4]].concat();
    maker.bulk_put(&row(table), b"loaded").unwrap();
    maker.advance_command();
    // Its own index over a table of others lacks what `setup` may have changed; over its own table nothing.
    assert!(!maker.index_serves(old.read_time, 9, index));
    assert!(maker.index_serves(old.read_time, table, index));
    let newest = maker.newest_snapshot().unwrap();
    assert!(maker.index_serves(newest.read_time, 9, index));
    setup(&database, &[("c", "1")]);
    let between = repeatable_read(&database);
    let second = between.snapshot().unwrap();
    commit(&maker);
    for (txn, snapshot) in [(&before, first), (&between, second)] {
        for touched in [false, true] {
            if touched {
                txn.lock_row(&key("z"), RowLockMode::Update, WaitPolicy::Error).unwrap();
                put(txn, "z", "own");
            }
            assert_eq!(txn.get(&snapshot, &row(table)).unwrap(), None);
            assert_eq!(txn.get_batch(&snapshot, &[row(table)]).unwrap(), [None]);
            let mut cursor = txn.scan(&snapshot, whole(table), Direction::Forward).unwrap();
            assert_eq!(cursor.next().unwrap(), None);
        }
        txn.rollback();
        assert!(!txn.index_serves(snapshot.read_time, 9, index));
        assert!(txn.index_serves(snapshot.read_time, table, index), "both are empty");
        assert!(txn.index_serves(snapshot.read_time, 9, 8), "old ones serve everybody");
    }
    let after = repeatable_read(&database);
    let third = after.snapshot().unwrap();
    assert!(after.index_serves(third.read_time, 9, index));
    assert_eq!(after.get(&third, &row(table)).unwrap().as_deref(), Some(&b"loaded"[..]));
    assert_eq!((before.fixed_time(), read_committed(&database).fixed_time()), (Some(first.read_time), None));
}

fn numbered(number: u32) -> Vec<u8> {
    [9u32.to_be_bytes(), number.to_be_bytes()].concat()
}

/// A load asks for one locked key after another, in order: what others have committed meanwhile is found all the same.
#[test]
fn claims_in_ascending_order_see_what_was_committed_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let setup = read_committed(&database);
    for number in (0..2000).filter(|number| number % 3 == 0) {
        setup.put(&numbered(number), b"old").unwrap();
    }
    commit(&setup);
    let gone = read_committed(&database);
    (0..2000).filter(|number| number % 9 == 0).for_each(|number| gone.delete(&numbered(number)).unwrap());
    commit(&gone);
    let load = read_committed(&database);
    let mut seeks = 0;
    for number in 0..2000u32 {
        if number % 100 == 50 {
            // Ahead of the load, and behind it, by a small and by a large transaction.
            let other = read_committed(&database);
            if number % 200 == 50 {
                other.set_memory_limit(0);
            }
            for changed in [number + 1, number + 7, number.saturating_sub(3)] {
                if other.lock_row(&numbered(changed), RowLockMode::Update, WaitPolicy::Skip).unwrap()
                    != LockOutcome::Skipped
                {
                    other.put(&numbered(changed), b"meanwhile").unwrap();
                }
            }
            other.commit(Durability::Async, None).unwrap();
        }
        let key = numbered(number);
        load.lock_row(&key, RowLockMode::Update, WaitPolicy::Error).unwrap();
        let before = load.counters().seeks;
        let found = load.newest_of_locked(&key).unwrap();
        seeks += load.counters().seeks - before;
        assert_eq!(found, load.newest(&key).unwrap(), "{number}");
        if number % 2 == 0 {
            load.put(&key, b"new").unwrap();
            assert_eq!(load.newest_of_locked(&key).unwrap().value.as_deref(), Some(&b"new"[..]));
        }
    }
    assert!(seeks < 1500, "{seeks}: the test tests less than it says");
}

/// Counting in parts, on several threads, is counting.
#[test]
fn counts_are_those_of_a_scan() {
    const ROWS: u32 = 150_000;
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let setup = read_committed(&database);
    // Two heaps far apart, with a gap between.
    let place = |number: u32| if number < ROWS / 3 { number } else { number + (1 << 30) };
    (0..ROWS).for_each(|number| setup.put(&numbered(place(number)), b"v").unwrap());
    setup.commit(Durability::Async, None).unwrap();
    let before = repeatable_read(&database);
    let held = before.snapshot().unwrap();
    let change = read_committed(&database);
    for number in (0..ROWS).filter(|number| number % 5 == 0 || (50_000..80_000).contains(number)) {
        change.delete(&numbered(place(number))).unwrap();
    }
    change.commit(Durability::Async, None).unwrap();
    let count = |txn: &Arc<dyn Transaction>, snapshot, range: KeyRange| {
        txn.count(&snapshot, range, &mut || true).unwrap()
    };
    assert_eq!(count(&before, held, all()), u64::from(ROWS));
    let after = read_committed(&database);
    let left = (0..ROWS).filter(|number| number % 5 != 0 && !(50_000..80_000).contains(number)).count();
    assert_eq!(count(&after, after.snapshot().unwrap(), all()), left as u64);
    let from_the_middle = KeyRange { low: numbered(30_000), high: all().high };
    let behind = (30_000..ROWS).filter(|number| number % 5 != 0 && !(50_000..80_000).contains(number));
    assert_eq!(count(&after, after.snapshot().unwrap(), from_the_middle), behind.count() as u64);
    // With own writes, in memory and in the store.
    for limit in [usize::MAX, 0] {
        let own = read_committed(&database);
        own.set_memory_limit(limit);
        own.put(&numbered(1 << 20), b"own").unwrap();
        own.delete(&numbered(1)).unwrap();
        own.delete(&numbered(place(ROWS - 1))).unwrap();
        own.advance_command();
        assert_eq!(count(&own, own.snapshot().unwrap(), all()), left as u64 - 1);
    }
    // A count that is told to stop does.
    let mut asked = 0;
    let stopped = after.count(&after.snapshot().unwrap(), all(), &mut || {
        asked += 1;
        asked < 3
    });
    assert!(stopped.unwrap() < left as u64);
}
