//! What transactions hold back of history, and what they may read of it. The clock is driven by hand.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use cairn_txn::{
    BeginOptions, Clock, Database, Direction, Durability, EngineOptions, Error, Interrupt, Isolation,
    KeyRange, PinInfo, PinKind, Resources, Retention, SessionHandle, Store, TimeSource, Timestamp,
    Transaction,
};
use tempfile::TempDir;

/// Both clocks of the machine.
struct Hand {
    monotonic: AtomicI64,
    /// What the wall clock has been set forward by.
    set: AtomicI64,
}

impl TimeSource for Hand {
    fn now_micros(&self) -> i64 {
        self.monotonic_micros() + self.set.load(Ordering::Relaxed)
    }

    fn monotonic_micros(&self) -> i64 {
        self.monotonic.load(Ordering::Relaxed)
    }
}

struct World {
    database: Database,
    hand: Arc<Hand>,
    _directory: TempDir,
}

const TABLE: u32 = 20_000;

fn key(storage: u32, number: u32) -> Vec<u8> {
    [storage.to_be_bytes(), number.to_be_bytes()].concat()
}

impl World {
    fn new(retention_seconds: i64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let hand = Arc::new(Hand { monotonic: AtomicI64::new(1_000_000_000), set: AtomicI64::new(0) });
        let retention = Retention::Micros(retention_seconds * 1_000_000);
        let options = EngineOptions { retention, ..EngineOptions::default() };
        let clock = Arc::new(Clock::new(hand.clone()));
        let resources = Resources::new(16 << 20, 8 << 20);
        let database = Database::open(directory.path(), &options, &resources, clock).unwrap();
        World { database, hand, _directory: directory }
    }

    /// So many seconds go by, with a collector that looks at the clock all the time, and everything is compacted.
    fn pass(&self, seconds: i64) {
        for _ in 0..seconds / 5 {
            self.hand.monotonic.fetch_add(5_000_000, Ordering::Relaxed);
            // Something is committed and durable all the time.
            self.put(1, 0, "x");
            self.database.collect_garbage().unwrap();
        }
        self.database.engine().flush().unwrap();
        self.database.engine().compact();
    }

    fn begin(
        &self,
        isolation: Isolation,
        read_time: Option<Timestamp>,
    ) -> Result<Arc<dyn Transaction>, Error> {
        static NEXT: AtomicI32 = AtomicI32::new(1);
        let pid = NEXT.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::default()) });
        self.database.begin(BeginOptions { session, isolation, read_only: false, read_time })
    }

    fn put(&self, storage: u32, number: u32, value: &str) -> Timestamp {
        let txn = self.begin(Isolation::ReadCommitted, None).unwrap();
        txn.put(&key(storage, number), value.as_bytes()).unwrap();
        txn.commit(Durability::Sync, None).unwrap().unwrap()
    }

    fn pins(&self) -> Vec<PinInfo> {
        self.database.engine().pins().pins()
    }
}

fn get(txn: &Arc<dyn Transaction>, storage: u32, number: u32) -> Result<Option<String>, Error> {
    let value = txn.get(&txn.snapshot().unwrap(), &key(storage, number))?;
    Ok(value.map(|value| String::from_utf8(value.to_vec()).unwrap()))
}

#[test]
fn a_repeatable_read_snapshot_outlives_the_retention() {
    let world = World::new(0);
    world.put(TABLE, 1, "first");
    let txn = world.begin(Isolation::RepeatableRead, None).unwrap();
    assert_eq!(world.pins(), [], "a transaction without a snapshot holds nothing");
    assert_eq!(get(&txn, TABLE, 1).unwrap().as_deref(), Some("first"));
    for turn in 0..20 {
        world.put(TABLE, 1, &format!("turn {turn}"));
    }
    world.pass(60);
    assert_eq!(get(&txn, TABLE, 1).unwrap().as_deref(), Some("first"));
    assert_eq!(world.pins().len(), 1);
    assert_eq!(world.pins()[0].kind, PinKind::Transaction);
    txn.commit(Durability::Sync, None).unwrap();
    assert_eq!(world.pins(), []);
    let mut past = Timestamp::MAX;
    let mut versions = 0;
    world.pass(5);
    let engine = world.database.engine();
    while let Some(version) = engine.get(&key(TABLE, 1), past, &mut Default::default()).unwrap() {
        versions += 1;
        past = Timestamp(version.time.0 - 1);
    }
    assert_eq!(versions, 1);
}

#[test]
fn read_committed_holds_what_its_statements_use() {
    let world = World::new(0);
    world.put(TABLE, 1, "a");
    let txn = world.begin(Isolation::ReadCommitted, None).unwrap();
    let first = txn.snapshot().unwrap();
    world.put(TABLE, 1, "b");
    let second = txn.snapshot().unwrap();
    assert_eq!(world.pins().len(), 2);
    world.pass(30);
    let read = |snapshot| txn.get(&snapshot, &key(TABLE, 1)).unwrap().unwrap();
    assert_eq!((&read(first)[..], &read(second)[..]), (&b"a"[..], &b"b"[..]));
    txn.release_snapshots(&[second]);
    assert_eq!(world.pins().len(), 1);
    assert_eq!(world.pins()[0].time, second.read_time);
    txn.release_snapshots(&[]);
    assert_eq!(world.pins(), [], "idle in its block it holds nothing");
    // More snapshots at once than are pinned one by one.
    let many: Vec<_> = (0..30)
        .map(|turn| {
            world.put(TABLE, 1, &format!("turn {turn}"));
            txn.snapshot().unwrap()
        })
        .collect();
    world.pass(30);
    for (turn, snapshot) in many.iter().enumerate() {
        assert_eq!(read(*snapshot), format!("turn {turn}"));
    }
    drop(txn);
    assert_eq!(world.pins(), []);
}

#[test]
fn the_past_is_readable_back_to_the_horizon() {
    let world = World::new(60);
    let old = world.put(TABLE, 1, "old");
    world.pass(10);
    let newer = world.put(TABLE, 1, "newer");
    world.pass(40);
    let reader = world.begin(Isolation::ReadCommitted, Some(old)).unwrap();
    assert_eq!(get(&reader, TABLE, 1).unwrap().as_deref(), Some("old"));
    world.pass(60);
    assert_eq!(get(&reader, TABLE, 1).unwrap().as_deref(), Some("old"), "it was pinned in time");
    match world.begin(Isolation::ReadCommitted, Some(newer)) {
        Err(Error::HistoryGone { requested, oldest }) => assert!(requested == newer && oldest > newer),
        _ => panic!("the history of that time is gone"),
    }
    drop(reader);
    assert_eq!(world.pins(), []);
}

#[test]
fn a_storage_keeps_more_or_less_than_the_others() {
    let world = World::new(60);
    let txn = world.begin(Isolation::ReadCommitted, None).unwrap();
    txn.set_retention(TABLE, Some(Retention::Micros(0))).unwrap();
    txn.set_retention(TABLE + 1, Some(Retention::Forever)).unwrap();
    txn.commit(Durability::Sync, None).unwrap();
    assert_eq!(world.database.storage_retentions().len(), 2);
    let times: Vec<_> = (0..3).map(|number| world.put(TABLE + number, 1, "old")).collect();
    let time = times[2];
    (0..3).for_each(|number| {
        world.put(TABLE + number, 1, "new");
    });
    world.pass(20);
    let past = world.begin(Isolation::ReadCommitted, Some(time)).unwrap();
    assert!(matches!(get(&past, TABLE, 1), Err(Error::HistoryGone { .. })));
    let range = KeyRange { low: key(TABLE, 0), high: key(TABLE, 9) };
    assert!(past.scan(&past.snapshot().unwrap(), range, Direction::Forward).is_err());
    assert_eq!(get(&past, TABLE + 1, 1).unwrap().as_deref(), Some("old"));
    assert_eq!(get(&past, TABLE + 2, 1).unwrap().as_deref(), Some("old"));
    drop(past);
    world.pass(100);
    let past = world.begin(Isolation::ReadCommitted, Some(time)).unwrap();
    assert_eq!(get(&past, TABLE + 1, 1).unwrap().as_deref(), Some("old"));
    assert!(matches!(get(&past, TABLE + 2, 1), Err(Error::HistoryGone { .. })));
    drop(past);
    let info = world.database.history(TABLE + 1);
    assert_eq!((info.retention, info.oldest_pin), (Retention::Forever, None));
}

#[test]
fn the_newest_snapshot_is_pinned_while_it_is_used() {
    let world = World::new(0);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        world.put(TABLE, 1, "old");
        let txn = world.begin(isolation, None).unwrap();
        let own = txn.snapshot().unwrap();
        world.put(TABLE, 1, "new");
        let newest = txn.newest_snapshot().unwrap();
        assert!(newest.read_time > own.read_time);
        for turn in 0..20 {
            world.put(TABLE, 1, &format!("turn {turn}"));
        }
        world.pass(60);
        let read = |snapshot| txn.get(&snapshot, &key(TABLE, 1)).unwrap().unwrap();
        assert_eq!((&read(own)[..], &read(newest)[..]), (&b"old"[..], &b"new"[..]));
        assert_eq!(world.pins().len(), 2);
        txn.release_snapshot(&newest);
        assert_eq!(world.pins().len(), 1);
        // At the same time as the transaction's own, which stays.
        world.put(TABLE, 2, "x");
        let other = world.begin(isolation, None).unwrap();
        let first = other.snapshot().unwrap();
        other.release_snapshot(&other.newest_snapshot().unwrap());
        assert!(world.pins().iter().any(|pin| pin.time == first.read_time));
    }
    assert_eq!(world.pins(), []);
}

/// Whatever the wall clock is set to, and back: old versions are collected, young ones are kept, nothing is lost.
#[test]
fn a_wall_clock_that_is_set_stops_no_collection_and_ages_nothing() {
    const SECOND: i64 = 1_000_000;
    const YEAR: i64 = 365 * 24 * 3600 * SECOND;
    for steps in [[-3600 * SECOND, 3600 * SECOND], [YEAR, -YEAR], [-YEAR, YEAR], [100 * YEAR, -100 * YEAR]] {
        let world = World::new(60);
        world.put(TABLE, 1, "first");
        world.pass(30);
        for step in steps {
            world.hand.set.fetch_add(step, Ordering::Relaxed);
            let now = world.put(TABLE, 1, "young");
            world.put(TABLE, 1, "younger");
            let wall = world.hand.now_micros();
            if step.abs() < YEAR * 50 {
                assert!(world.database.timestamp_at(wall) > now, "{step}: the present of the wall clock");
            }
            world.pass(20);
            let past = world.begin(Isolation::ReadCommitted, Some(now)).unwrap();
            assert_eq!(
                get(&past, TABLE, 1).unwrap().as_deref(),
                Some("young"),
                "{step}: its retention is 60 s"
            );
            drop(past);
            world.pass(300);
            let late = world.begin(Isolation::ReadCommitted, Some(now)).map(|txn| get(&txn, TABLE, 1));
            assert!(matches!(late, Err(Error::HistoryGone { .. })), "{step}: nothing was collected");
            let present = world.begin(Isolation::ReadCommitted, None).unwrap();
            assert_eq!(get(&present, TABLE, 1).unwrap().as_deref(), Some("younger"));
        }
    }
}

/// A database that was idle for longer than its retention keeps what is committed after the wall clock was set back.
#[test]
fn an_idle_database_keeps_its_history_when_the_wall_clock_is_set_back() {
    let world = World::new(60);
    world.put(TABLE, 1, "first");
    for _ in 0..100 {
        // Only the collector looks at the clock.
        world.hand.monotonic.fetch_add(5_000_000, Ordering::Relaxed);
        world.database.collect_garbage().unwrap();
    }
    world.hand.set.fetch_sub(400_000_000, Ordering::Relaxed);
    let time = world.put(TABLE, 1, "second");
    world.put(TABLE, 1, "third");
    world.pass(20);
    let past = world.begin(Isolation::ReadCommitted, Some(time)).unwrap();
    assert_eq!(get(&past, TABLE, 1).unwrap().as_deref(), Some("second"));
}
