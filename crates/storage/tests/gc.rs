//! Garbage collection: one test for each rule, and the same random history with and without it.
//!
//! Nothing here asks a clock what time it is: `now` and `settled` are given to the collector by hand.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_storage::{
    Clock, Cursor, Direction, Engine, EngineOptions, PinGuard, PinKind, ReadStats, Resources, Retention,
    Timestamp,
};
use proptest::prelude::*;
use tempfile::TempDir;

/// Seconds of the hand-driven clock.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(i64::try_from(seconds).unwrap() * 1_000_000)
}

fn options() -> EngineOptions {
    EngineOptions {
        memtable_bytes: 64 << 10,
        file_bytes: 64 << 10,
        retention: Retention::Micros(0),
        ..EngineOptions::default()
    }
}

struct Store {
    directory: TempDir,
    options: EngineOptions,
    engine: Arc<Engine>,
}

const TABLE: u32 = 20_000;

fn key(number: u32) -> Vec<u8> {
    [TABLE.to_be_bytes(), number.to_be_bytes()].concat()
}

impl Store {
    fn new(options: EngineOptions) -> Self {
        // In memory, if there is such a place: nothing here is about disks, and every round ends with an fsync.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let engine = Self::open(&directory, &options);
        Store { directory, options, engine }
    }

    fn open(directory: &TempDir, options: &EngineOptions) -> Arc<Engine> {
        let resources = Resources::new(8 << 20, 1 << 20);
        Arc::new(Engine::open(directory.path(), options, &resources, &Clock::system()).unwrap())
    }

    fn restart(self) -> Self {
        let Store { directory, options, engine } = self;
        drop(engine);
        let engine = Self::open(&directory, &options);
        Store { directory, options, engine }
    }

    fn write(&self, key: &[u8], time: Timestamp, value: Option<&[u8]>) {
        let mut batch = self.engine.batch();
        batch.version(key, time, value);
        self.engine.write_at(batch, time).unwrap();
    }

    /// A round of the collector at a time at which everything is settled.
    fn collect(&self, now: Timestamp) {
        self.engine.collect(now, now, &|work| work(), &|| false).unwrap();
    }

    fn get(&self, key: &[u8], time: Timestamp) -> Option<(Timestamp, Option<Vec<u8>>)> {
        let found = self.engine.get(key, time, &mut ReadStats::default()).unwrap();
        found.map(|version| (version.time, version.value.map(|value| value.to_vec())))
    }

    fn scan(
        &self,
        low: &[u8],
        high: &[u8],
        time: Timestamp,
        direction: Direction,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut cursor = Cursor::open(self.engine.clone(), low, high, direction, time).unwrap();
        let mut rows = Vec::new();
        while cursor.advance().unwrap() {
            rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        }
        rows
    }

    /// Times of the versions of a row that are still there, newest first.
    fn versions(&self, key: &[u8]) -> Vec<Timestamp> {
        let mut times = Vec::new();
        let mut at = Timestamp::MAX;
        while let Some((time, _)) = self.get(key, at) {
            times.push(time);
            at = Timestamp(time.0 - 1);
        }
        times
    }

    fn flush_and_compact(&self) {
        self.engine.flush().unwrap();
        self.engine.compact();
    }

    fn pin(&self, time: Timestamp) -> PinGuard {
        self.engine.pins().pin_newest(1, PinKind::Statement, || time)
    }
}

#[test]
fn overwritten_versions_go_when_the_horizon_has_passed() {
    let store = Store::new(EngineOptions { retention: Retention::Micros(60_000_000), ..options() });
    for second in 100..110 {
        store.write(&key(1), at(second), Some(&[1]));
        store.collect(at(second));
    }
    store.flush_and_compact();
    assert_eq!(store.versions(&key(1)).len(), 10, "all of it is within the retention");
    for second in 110..165 {
        store.collect(at(second));
    }
    store.flush_and_compact();
    // The horizon is at 104.06 or a step before.
    assert_eq!(store.versions(&key(1)).last(), Some(&at(104)));
    assert_eq!(store.engine.pin_past(1, at(103)).unwrap_err(), store.engine.horizons().lowest());
    assert!(store.engine.pin_past(1, at(105)).is_ok());
}

/// Rounds that take half a minute each, with looks at the clock in between: time counts all the same.
#[test]
fn a_long_round_is_not_a_jump_of_the_clock() {
    let store = Store::new(EngineOptions { retention: Retention::Micros(60_000_000), ..options() });
    for second in 100..400 {
        store.engine.look_at_clock(at(second));
        if second % 30 == 0 {
            store.collect(at(second));
        }
    }
    assert_eq!(store.engine.horizons().default, at(330));
}

#[test]
fn a_pin_keeps_exactly_one_version() {
    let store = Store::new(options());
    for second in 100..150 {
        store.write(&key(1), at(second), Some(&[1]));
        store.write(&key(2), at(second), if second % 2 == 0 { Some(&[2]) } else { None });
    }
    let pins = [store.pin(at(120)), store.pin(at(131))];
    store.collect(at(200));
    store.flush_and_compact();
    assert_eq!(store.versions(&key(1)), [at(149), at(131), at(120)]);
    assert_eq!(store.versions(&key(2)), [at(149), at(131), at(120)], "a tombstone that is seen stays too");
    let [first, second] = pins;
    drop(first);
    store.engine.compact();
    assert_eq!(store.versions(&key(1)), [at(149), at(131)]);
    drop(second);
    store.engine.compact();
    assert_eq!(store.versions(&key(1)), [at(149)]);
    assert_eq!(store.versions(&key(2)), [at(149)], "the newest tombstone is not for the filter to remove");
}

/// The value is in a file of a deeper level, its tombstone in one that is compacted without it.
#[test]
fn the_newest_tombstone_stays_while_an_older_version_is_elsewhere() {
    let store = Store::new(options());
    store.write(&key(1), at(100), Some(&[1]));
    store.flush_and_compact();
    let pin = store.pin(at(105));
    store.write(&key(1), at(110), None);
    store.write(&key(1), at(111), None);
    store.engine.flush().unwrap();
    store.collect(at(200));
    store.engine.compact();
    assert_eq!(store.versions(&key(1)), [at(111), at(100)]);
    drop(pin);
    let store = store.restart();
    assert_eq!(store.get(&key(1), at(300)), Some((at(111), None)));
    store.engine.compact();
    assert_eq!(store.versions(&key(1)), [at(111)]);
    assert_eq!(store.scan(&key(0), &key(9), at(300), Direction::Forward), []);
}

#[test]
fn horizons_survive_a_restart_and_never_go_back() {
    let mut store = Store::new(options());
    store.write(&key(1), at(100), Some(&[1]));
    store.write(&key(1), at(110), Some(&[2]));
    store.collect(at(200));
    store.flush_and_compact();
    assert_eq!(store.versions(&key(1)), [at(110)]);
    store.options.retention = Retention::Forever;
    let store = store.restart();
    assert_eq!(store.engine.horizons().lowest(), at(200));
    assert_eq!(store.engine.pin_past(1, at(150)).unwrap_err(), at(200));
    store.engine.set_retention(Some(Retention::Micros(3_600_000_000))).unwrap();
    store.collect(at(205));
    let store = store.restart();
    assert_eq!(store.engine.retention(), Retention::Micros(3_600_000_000));
    assert_eq!(store.engine.horizons().lowest(), at(200));
}

#[test]
fn never_past_what_is_settled() {
    let store = Store::new(options());
    store.write(&key(1), at(100), Some(&[1]));
    store.write(&key(1), at(110), Some(&[2]));
    store.engine.collect(at(200), at(105), &|work| work(), &|| false).unwrap();
    store.flush_and_compact();
    assert_eq!(store.versions(&key(1)), [at(110), at(100)]);
}

#[test]
fn storages_have_retentions_of_their_own() {
    let store = Store::new(EngineOptions { retention: Retention::Micros(60_000_000), ..options() });
    let other = [(TABLE + 1).to_be_bytes(), 1u32.to_be_bytes()].concat();
    for second in 100..110 {
        store.write(&key(1), at(second), Some(&[1]));
        store.write(&other, at(second), Some(&[1]));
        store.collect(at(second));
    }
    let mut batch = store.engine.batch();
    batch.set_retention(TABLE + 1, Some(Retention::Micros(0)));
    store.engine.write(batch).unwrap();
    store.collect(at(110));
    store.flush_and_compact();
    assert_eq!((store.versions(&key(1)).len(), store.versions(&other).len()), (10, 1));
    let past = store.engine.pin_past(1, at(105)).unwrap();
    assert_eq!(past.check(TABLE), Ok(()));
    assert_eq!(past.check(TABLE + 1), Err(at(110)));
    assert_eq!(past.check(1259), Ok(()), "the catalog is readable whenever a table is");
    drop(past);
    let store = store.restart();
    assert_eq!(store.engine.storage_retention(TABLE + 1), Some(Retention::Micros(0)));
    assert_eq!(store.engine.horizons().of(TABLE + 1), at(110));
}

/// A commit sets a retention while the collector moves the horizon that is in the same record: what is found again has both.
#[test]
fn retentions_and_horizons_do_not_undo_each_other() {
    let store = Store::new(EngineOptions { retention: Retention::Micros(60_000_000), ..options() });
    let mut batch = store.engine.batch();
    batch.set_retention(TABLE, Some(Retention::Micros(0)));
    store.engine.write(batch).unwrap();
    store.collect(at(100));
    assert_eq!(store.engine.horizons().of(TABLE), at(100));
    let mut batch = store.engine.batch();
    batch.set_retention(TABLE, Some(Retention::Micros(1_000_000)));
    batch.set_retention(TABLE + 1, Some(Retention::Forever));
    let engine = store.engine.clone();
    let collector = std::thread::spawn(move || engine.advance_horizons(at(110), at(110)).unwrap());
    // Time enough for it to go ahead, if nothing holds it back.
    let begun = Instant::now();
    while !collector.is_finished() && begun.elapsed() < Duration::from_millis(200) {
        std::thread::sleep(Duration::from_millis(1));
    }
    store.engine.write(batch).unwrap();
    collector.join().unwrap();
    let horizons = store.engine.horizons();
    assert!(horizons.of(TABLE) > at(100));
    let store = store.restart();
    assert_eq!(store.engine.horizons(), horizons);
    assert_eq!(store.engine.storage_retention(TABLE), Some(Retention::Micros(1_000_000)));
    assert_eq!(store.engine.storage_retention(TABLE + 1), Some(Retention::Forever));
}

fn fill_and_delete(store: &Store, numbers: std::ops::Range<u32>, from: u64) {
    for (second, value) in [(from, Some(&[1][..])), (from + 1, None)] {
        let mut batch = store.engine.batch();
        for number in numbers.clone() {
            batch.version(&key(number), at(second), value);
        }
        store.engine.write_at(batch, at(second)).unwrap();
    }
}

fn stored_versions(store: &Store, numbers: std::ops::Range<u32>) -> usize {
    numbers.map(|number| store.versions(&key(number)).len()).sum()
}

#[test]
fn dead_rows_go_as_ranges() {
    let store = Store::new(options());
    fill_and_delete(&store, 0..1000, 100);
    store.write(&key(500), at(105), Some(&[5]));
    // Few dead rows among living ones stay.
    store.write(&key(1999), at(100), Some(&[1]));
    fill_and_delete(&store, 2000..2010, 100);
    store.write(&key(2010), at(100), Some(&[1]));
    // Compacting finds the runs, a round deletes them.
    store.collect(at(103));
    store.flush_and_compact();
    assert_eq!(stored_versions(&store, 0..1000), 1000 + 1, "one that is not past the horizon");
    store.collect(at(110));
    assert_eq!(store.engine.collected().dead_rows_deleted, 999);
    assert_eq!(store.versions(&key(500)), [at(105), at(101)]);
    assert_eq!(stored_versions(&store, 0..1000), 2);
    assert_eq!(stored_versions(&store, 2000..2010), 10);
    // Written afterwards: untouched by what was deleted before.
    store.write(&key(7), at(111), Some(&[7]));
    let store = store.restart();
    store.flush_and_compact();
    let rows = store.scan(&key(0), &key(1000), at(200), Direction::Backward);
    assert_eq!(rows, [(key(500), vec![5]), (key(7), vec![7])]);
}

/// Every other row of a table is deleted: no run is worth a range deletion, but half of the table is dead.
#[test]
fn many_scattered_dead_rows_go_one_by_one() {
    let store = Store::new(options());
    for number in 0..2000 {
        store.write(&key(number), at(100), Some(&[1]));
    }
    for number in (0..2000).filter(|number| number % 2 == 0) {
        store.write(&key(number), at(101), Some(&[2]));
        store.write(&key(number), at(102), None);
    }
    let pin = store.pin(at(3001));
    store.collect(at(3000));
    store.flush_and_compact();
    store.collect(at(3001));
    assert_eq!(store.engine.collected().dead_rows_deleted, 1000);
    store.engine.vacuum(TABLE, &|work| work(), &|| false, false).unwrap();
    assert_eq!(stored_versions(&store, 0..2000), 1000);
    assert_eq!(store.scan(&key(0), &key(9000), pin.time(), Direction::Forward).len(), 1000);
    // What comes back afterwards is not touched.
    store.write(&key(2), at(3002), Some(&[3]));
    let store = store.restart();
    store.flush_and_compact();
    assert_eq!(store.versions(&key(2)), [at(3002)]);
}

/// Too many versions to delete them one by one: even a single row goes with a range deletion.
#[test]
fn a_row_of_many_versions_is_vacuumed() {
    let store = Store::new(options());
    for second in 103..3000 {
        store.write(&key(1), at(second), (second < 2999).then_some(&[1]));
    }
    store.collect(at(3001));
    store.engine.vacuum(TABLE, &|work| work(), &|| false, false).unwrap();
    assert_eq!(store.versions(&key(1)), []);
    assert_eq!(store.engine.collected().dead_rows_deleted, 1);
}

#[test]
fn dead_rows_stay_while_a_pin_sees_them() {
    let store = Store::new(options());
    fill_and_delete(&store, 0..1000, 100);
    let pin = store.pin(Timestamp(at(101).0 - 1));
    store.collect(at(200));
    store.flush_and_compact();
    store.collect(at(201));
    assert_eq!(stored_versions(&store, 0..1000), 2000);
    assert_eq!(store.scan(&key(0), &key(1000), pin.time(), Direction::Forward).len(), 1000);
    // One that sees nothing of it does not hold it.
    let older = store.engine.pins().pin_newest(1, PinKind::Statement, || at(300));
    drop(pin);
    store.engine.vacuum(TABLE, &|work| work(), &|| false, true).unwrap();
    assert_eq!(stored_versions(&store, 0..1000), 0);
    drop(older);
}

/// A row comes back to life between the walk and the deletion.
#[test]
fn what_is_written_during_the_walk_survives() {
    let store = Store::new(options());
    fill_and_delete(&store, 0..1000, 100);
    store.collect(at(150));
    store.flush_and_compact();
    let entered = RefCell::new(0);
    let section = |work: &mut dyn FnMut()| {
        let mut entered = entered.borrow_mut();
        *entered += 1;
        if *entered == 2 {
            // A commit that came in before the section was free.
            store.write(&key(300), at(160), Some(&[3]));
        }
        work();
        if *entered == 1 {
            // And one right after the watch was set: the iterator sees it, and it is noted as well.
            store.write(&key(600), at(155), Some(&[6]));
        }
    };
    store.engine.collect(at(159), at(159), &section, &|| false).unwrap();
    assert_eq!(*entered.borrow(), 2);
    let rows = store.scan(&key(0), &key(1000), at(200), Direction::Forward);
    assert_eq!(rows, [(key(300), vec![3]), (key(600), vec![6])]);
    assert_eq!(
        store.versions(&key(300)),
        [at(160), at(101)],
        "its tombstone stays, the run was deleted around it"
    );
    assert_eq!(stored_versions(&store, 0..1000), 4);
}

#[test]
fn dropped_storages_go_after_the_retention() {
    let store = Store::new(EngineOptions { retention: Retention::Micros(60_000_000), ..options() });
    for number in 0..3000 {
        store.write(&key(number), at(100), Some(&[0; 100]));
    }
    let small = (TABLE + 1).to_be_bytes().to_vec();
    store.write(&small, at(100), Some(&[1]));
    store.engine.flush().unwrap();
    let mut batch = store.engine.batch();
    batch.add_dropped_storage(TABLE, at(110));
    batch.add_dropped_storage(TABLE + 1, at(110));
    store.engine.write_at(batch, at(110)).unwrap();
    for second in 110..165 {
        store.collect(at(second));
    }
    assert_eq!(store.engine.dropped_storages().unwrap().len(), 2);
    assert_eq!(store.scan(&key(0), &key(9999), at(105), Direction::Forward).len(), 3000);
    let pin = store.pin(at(164));
    for second in 165..180 {
        store.collect(at(second));
    }
    assert_eq!(store.engine.dropped_storages().unwrap(), []);
    assert_eq!(store.engine.collected().storages_removed, 2);
    let store = store.restart();
    assert_eq!(store.scan(&[], &[0xff; 8], at(300), Direction::Forward), []);
    assert!(store.engine.space(TABLE).unwrap().file_bytes < 10_000);
    drop(pin);
}

/// A table that kept less history than the catalog does was dropped: its rows are refused, not missing.
#[test]
fn the_horizon_of_a_dropped_storage_is_remembered() {
    let store = Store::new(EngineOptions { retention: Retention::Micros(60_000_000), ..options() });
    store.write(&key(1), at(100), Some(&[1]));
    store.collect(at(100));
    let mut batch = store.engine.batch();
    batch.set_retention(TABLE, Some(Retention::Micros(0)));
    batch.add_dropped_storage(TABLE, at(110));
    store.engine.write_at(batch, at(110)).unwrap();
    store.collect(at(120));
    assert_eq!(store.engine.dropped_storages().unwrap(), []);
    let store = store.restart();
    let past = store.engine.pin_past(1, at(105)).unwrap();
    assert_eq!(past.check(TABLE), Err(at(120)));
    assert_eq!(past.check(TABLE + 1), Ok(()));
    drop(past);
    for second in 120..200 {
        store.collect(at(second));
    }
    assert_eq!(store.engine.horizons().own.len(), 0, "all others have passed it");
}

#[test]
fn a_dropped_storage_waits_for_older_pins() {
    let store = Store::new(options());
    store.write(&key(1), at(100), Some(&[1]));
    let pin = store.pin(at(105));
    let mut batch = store.engine.batch();
    batch.add_dropped_storage(TABLE, at(110));
    store.engine.write_at(batch, at(110)).unwrap();
    store.collect(at(200));
    assert_eq!(store.get(&key(1), pin.time()), Some((at(100), Some(vec![1]))));
    drop(pin);
    store.collect(at(201));
    assert_eq!(store.get(&key(1), at(300)), None);
}

/// Inserts and deletes without end, and a snapshot from the beginning: the store does not grow.
#[test]
fn size_levels_off_under_churn() {
    for hold in [false, true] {
        let store = Store::new(EngineOptions {
            memtable_bytes: 1 << 20,
            file_bytes: 1 << 20,
            retention: Retention::Micros(10_000_000),
            ..options()
        });
        let mut next = 0u32;
        let mut pin = None;
        let mut sizes = Vec::new();
        for second in 100..250u64 {
            // A hundred jobs a second: each inserted, taken, and deleted two seconds later.
            for step in 0..3u32 {
                let time = Timestamp(at(second).0 + u64::from(step) + 1);
                let mut batch = store.engine.batch();
                for job in 0..100 {
                    match step {
                        0 => batch.put(&key(next + job), time, &[7; 200]),
                        1 => batch.put(&key(next + job), time, &[8; 200]),
                        _ if next >= 200 => batch.delete(&key(next - 200 + job), time),
                        _ => {}
                    }
                }
                store.engine.write_at(batch, time).unwrap();
            }
            next += 100;
            if hold && second == 110 {
                pin = Some(store.pin(at(110)));
            }
            store.collect(at(second));
            if second % 50 == 49 {
                store.engine.flush().unwrap();
                let entries: usize = stored_versions(&store, 0..next);
                sizes.push(entries);
            }
        }
        let (early, late) = (sizes[0], sizes[sizes.len() - 1]);
        assert!(late < early * 3 / 2, "held: {hold}, versions: {sizes:?}, {:?}", store.engine.collected());
        let rows = store.scan(&key(0), &key(u32::MAX), at(1000), Direction::Forward);
        assert_eq!(rows.len(), 200);
        if let Some(pin) = pin {
            assert_eq!(store.scan(&key(0), &key(u32::MAX), pin.time(), Direction::Forward).len(), 200);
        }
    }
}

// ---- the same history with and without collection -----------------------------------------------------------

#[derive(Clone, Debug)]
enum Step {
    /// A commit: these rows get a value, or a tombstone.
    Write(Vec<(u8, Option<u8>)>),
    /// A stretch of rows is written and deleted.
    Churn {
        first: u8,
        count: u8,
        pin: bool,
    },
    Pin,
    Unpin(usize),
    /// A round of the collector.
    Collect,
    SetRetention(u8),
    SetOwnRetention(u8),
    Flush,
    Compact,
    Vacuum,
    /// What is expected to find something to do: flush, compact, collect.
    Tidy,
    Check {
        low: u8,
        high: u8,
        backward: bool,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => proptest::collection::vec((any::<u8>(), proptest::option::weighted(0.6, any::<u8>())), 1..6).prop_map(Step::Write),
        4 => (any::<u8>(), 1u8..=255, any::<bool>()).prop_map(|(first, count, pin)| Step::Churn { first, count, pin }),
        4 => Just(Step::Pin),
        3 => (0usize..4).prop_map(Step::Unpin),
        6 => Just(Step::Collect),
        1 => (0u8..20).prop_map(Step::SetRetention),
        1 => (0u8..20).prop_map(Step::SetOwnRetention),
        3 => Just(Step::Flush),
        3 => Just(Step::Compact),
        1 => Just(Step::Vacuum),
        4 => Just(Step::Tidy),
        8 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(low, high, backward)| Step::Check { low, high, backward }),
        1 => Just(Step::Restart),
    ]
}

type History = BTreeMap<Vec<u8>, BTreeMap<Timestamp, Option<Vec<u8>>>>;

fn run(steps: &[Step], retention: Retention) {
    let mut store = Store::new(EngineOptions { retention, ..options() });
    let mut history = History::new();
    let mut now = 1000u64;
    let mut pins: Vec<PinGuard> = Vec::new();
    let write = |store: &Store, history: &mut History, rows: &[(u32, Option<u8>)], now: u64| {
        let mut batch = store.engine.batch();
        for (number, value) in rows {
            let value = value.map(|value| vec![value; 3]);
            batch.version(&key(*number), at(now), value.as_deref());
            history.entry(key(*number)).or_default().insert(at(now), value);
        }
        store.engine.write_at(batch, at(now)).unwrap();
    };
    let visible = |history: &History, key: &[u8], time: Timestamp| {
        let (time, value) = history.get(key)?.range(..=time).next_back()?;
        Some((*time, value.clone()?))
    };
    for step in steps {
        now += 1;
        match step {
            Step::Write(rows) => {
                let rows: Vec<_> = rows.iter().map(|(number, value)| (u32::from(*number), *value)).collect();
                write(&store, &mut history, &rows, now);
            }
            Step::Churn { first, count, pin } => {
                let numbers = || (0..u32::from(*count)).map(|number| 1000 + u32::from(*first) + number);
                write(&store, &mut history, &numbers().map(|n| (n, Some(1))).collect::<Vec<_>>(), now);
                if *pin {
                    pins.push(store.pin(at(now)));
                }
                now += 1;
                write(&store, &mut history, &numbers().map(|n| (n, None)).collect::<Vec<_>>(), now);
            }
            Step::Pin => {
                // The time of the last commit, if one came just before.
                now -= 1;
                pins.push(store.pin(at(now)));
            }
            Step::Unpin(index) => {
                if *index < pins.len() {
                    pins.swap_remove(*index);
                }
            }
            Step::Collect => store.collect(at(now)),
            Step::SetRetention(seconds) => {
                let retention = Retention::Micros(i64::from(*seconds) * 1_000_000);
                store.engine.set_retention(Some(retention)).unwrap();
            }
            Step::SetOwnRetention(seconds) => {
                let retention = (*seconds > 4).then(|| Retention::Micros(i64::from(*seconds) * 1_000_000));
                let mut batch = store.engine.batch();
                batch.set_retention(TABLE, retention);
                store.engine.write(batch).unwrap();
            }
            Step::Flush => store.engine.flush().unwrap(),
            Step::Compact => store.engine.compact(),
            Step::Vacuum => store.engine.vacuum(TABLE, &|work| work(), &|| false, false).unwrap(),
            Step::Tidy => {
                store.collect(at(now));
                store.flush_and_compact();
                store.collect(at(now));
            }
            Step::Check { low, high, backward } => {
                let (low, high) = (key(u32::from(*low) * 6), key(u32::from(*high) * 6));
                let horizon = store.engine.horizons().of(TABLE);
                let mut times: Vec<Timestamp> = pins.iter().map(PinGuard::time).collect();
                times.extend((0..now + 2).map(at).filter(|time| *time >= horizon).take(50));
                for time in times {
                    let mut expected: Vec<_> = history
                        .range(low.clone()..high.clone().max(low.clone()))
                        .filter_map(|(key, _)| Some((key.clone(), visible(&history, key, time)?.1)))
                        .collect();
                    if *backward {
                        expected.reverse();
                    }
                    let direction = if *backward { Direction::Backward } else { Direction::Forward };
                    let found =
                        if low < high { store.scan(&low, &high, time, direction) } else { Vec::new() };
                    assert_eq!(found, expected, "at {time:?}, horizon {horizon:?}");
                    let found = store.get(&low, time).and_then(|(time, value)| Some((time, value?)));
                    assert_eq!(found, visible(&history, &low, time), "at {time:?}");
                }
            }
            Step::Restart => {
                // Nobody reads any more.
                pins.clear();
                let before = store.engine.horizons().of(TABLE);
                store = store.restart();
                assert!(store.engine.horizons().of(TABLE) >= before);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_retained_time_reads_as_before(
        steps in proptest::collection::vec(step(), 1..120),
        retention in prop_oneof![Just(Retention::Micros(0)), Just(Retention::Micros(5_000_000)), Just(Retention::Forever)],
    ) {
        run(&steps, retention);
    }
}
