//! What dead ranges promise: scans cost the live rows, and no row is ever hidden.
//!
//! The second half are the ways in which a known store's conversion of deletes into ranges has gone wrong
//! (RocksDB 11.3's change notes and fixes), each with a test of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use cairn_storage::spills::Reading;
use cairn_storage::{
    Clock, Cursor, Direction, Engine, EngineOptions, PinKind, ReadStats, Resources, Timestamp, key,
};

struct Store {
    engine: Arc<Engine>,
    now: u64,
    _directory: tempfile::TempDir,
}

fn store_with(options: EngineOptions) -> Store {
    let directory = tempfile::tempdir().unwrap();
    let resources = Resources::new(32 << 20, 16 << 20);
    let engine = Arc::new(Engine::open(directory.path(), &options, &resources, &Clock::system()).unwrap());
    Store { engine, now: 1000, _directory: directory }
}

fn store() -> Store {
    store_with(EngineOptions::default())
}

fn open_at(directory: &std::path::Path) -> Arc<Engine> {
    let resources = Resources::new(32 << 20, 16 << 20);
    Arc::new(Engine::open(directory, &EngineOptions::default(), &resources, &Clock::system()).unwrap())
}

fn row(number: u32) -> Vec<u8> {
    [7u32.to_be_bytes(), number.to_be_bytes()].concat()
}

impl Store {
    /// One commit: a value for each key, or a tombstone.
    fn write(&mut self, numbers: impl IntoIterator<Item = u32>, value: Option<&[u8]>) {
        self.now += 1;
        let mut batch = self.engine.batch();
        for number in numbers {
            batch.version(&row(number), Timestamp(self.now), value);
        }
        self.engine.write_at(batch, Timestamp(self.now)).unwrap();
    }

    fn open(&self, direction: Direction, at: u64) -> Cursor {
        let (low, high) = key::storage_range(7);
        Cursor::open(self.engine.clone(), &low, &high, direction, Timestamp(at)).unwrap()
    }

    /// The first row that a scan finds, and what finding it costs.
    fn first(&self, direction: Direction, at: u64) -> (Option<u32>, ReadStats) {
        let mut cursor = self.open(direction, at);
        let found = cursor.advance().unwrap().then(|| number(cursor.key()));
        (found, cursor.take_stats())
    }

    fn all(&self, direction: Direction, at: u64) -> (Vec<u32>, ReadStats) {
        let mut cursor = self.open(direction, at);
        let mut found = Vec::new();
        while cursor.advance().unwrap() {
            found.push(number(cursor.key()));
        }
        (found, cursor.take_stats())
    }
}

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(*key.last_chunk().unwrap())
}

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

#[test]
fn first_row_behind_a_graveyard() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..20_000, Some(b"x"));
        store.write(20_000..20_010, Some(b"x"));
        let before = store.now;
        let (dead, last, live) = match direction {
            Direction::Forward => (0..20_000, 20_000, 20_000..20_010),
            Direction::Backward => (10..20_010, 9, 0..10),
        };
        store.write(dead, None);
        let (found, walked) = store.first(direction, store.now);
        assert_eq!(found, Some(last));
        assert!(walked.counters.nexts > 20_000, "{walked:?}");
        let (found, jumped) = store.first(direction, store.now);
        assert_eq!(found, Some(last));
        assert!(jumped.counters.seeks <= 2 && jumped.counters.nexts <= 3, "{direction:?}: {jumped:?}");
        assert!(jumped.newest_seen >= Timestamp(store.now - 1), "the answer rests on the deletion");
        // A snapshot from before the deletion still sees everything.
        assert_eq!(store.all(direction, before).0.len(), 20_010);
        // Counting costs the live rows.
        let (found, counted) = store.all(Direction::Forward, store.now);
        assert_eq!(found, live.collect::<Vec<_>>());
        assert!(counted.counters.seeks <= 3 && counted.counters.nexts <= 30, "{counted:?}");
    }
}

/// A queue: insert at the end, delete at the front (or at the end), with a snapshot from the beginning.
#[test]
fn queue_costs_the_same_after_ten_thousand_jobs() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..100, Some(b"job"));
        let snapshot = store.now;
        let mut costs = Vec::new();
        for job in 100..10_100 {
            store.write([job], Some(b"job"));
            let (head, stats) = store.first(direction, store.now);
            costs.push(stats.counters.seeks * 16 + stats.counters.nexts);
            store.write([head.unwrap()], None);
            if job % 500 == 0 {
                let (oldest, stats) = store.first(direction, snapshot);
                assert_eq!(oldest, Some(if direction == Direction::Forward { 0 } else { 99 }));
                let (again, repeated) = store.first(direction, snapshot);
                assert_eq!(again, oldest);
                assert!(
                    repeated.counters.seeks <= 3 && repeated.counters.nexts <= 40,
                    "{direction:?} {job}: {stats:?} {repeated:?}"
                );
            }
        }
        let work = |costs: &[u64]| costs.iter().sum::<u64>() as f64 / costs.len() as f64;
        let (first, last) = (work(&costs[..1000]), work(&costs[9000..]));
        assert!(last <= first * 1.1, "{direction:?}: {first} -> {last}");
    }
}

/// By priority, then age: rows come in at the end of each priority's stretch, in the middle of the index.
#[test]
fn priority_queue_costs_the_same_after_ten_thousand_jobs() {
    let mut store = store();
    let mut random = 7u64;
    let mut next = [0u32; 5];
    let mut add = |store: &mut Store| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let band = (random >> 33) as usize % 5;
        next[band] += 1;
        store.write([band as u32 * 1_000_000 + next[band]], Some(b"job"));
    };
    (0..100).for_each(|_| add(&mut store));
    let mut costs = Vec::new();
    // Other consumers, each with a snapshot of a moment ago.
    let mut others = std::collections::VecDeque::new();
    for _ in 0..10_000 {
        add(&mut store);
        let now = Timestamp(store.now);
        others.push_back(store.engine.pins().pin_newest(1, PinKind::Statement, || now));
        if others.len() > 10 {
            others.pop_front();
        }
        let (head, stats) = store.first(Direction::Forward, store.now);
        costs.push(stats.counters.seeks + stats.counters.nexts);
        store.write([head.unwrap()], None);
    }
    let work = |costs: &[u64]| costs.iter().sum::<u64>() as f64 / costs.len() as f64;
    let (first, last) = (work(&costs[1000..2000]), work(&costs[9000..]));
    assert!(last <= first * 1.1 && last < 25.0, "{first} -> {last}");
}

/// A snapshot that reads over rows which came to be later.
#[test]
fn newer_rows_cost_an_old_snapshot_nothing_the_second_time() {
    for direction in BOTH {
        let mut store = store();
        let (old, new) = match direction {
            Direction::Forward => (5_000..5_010, 0..5_000),
            Direction::Backward => (0..10, 10..5_010),
        };
        store.write(old, Some(b"old"));
        let snapshot = store.now;
        for number in new {
            store.write([number], Some(b"new"));
        }
        let (first, walked) = store.first(direction, snapshot);
        assert!(walked.counters.nexts >= 5_000);
        let (again, jumped) = store.first(direction, snapshot);
        assert_eq!(first, again);
        assert!(jumped.counters.seeks <= 3 && jumped.counters.nexts <= 3, "{jumped:?}");
        assert_eq!(store.all(direction, store.now).0.len(), 5_010);
    }
}

#[test]
fn memory_is_bounded() {
    let mut store = store_with(EngineOptions { dead_range_bytes: 20_000, ..EngineOptions::default() });
    // Runs of ten dead rows between live ones.
    store.write(0..11_000, Some(b"x"));
    store.write((0..11_000).filter(|number| number % 11 != 0), None);
    for direction in BOTH {
        assert_eq!(store.all(direction, store.now).0.len(), 1000);
        assert_eq!(store.all(direction, store.now).0.len(), 1000);
    }
    assert!(store.engine.dead_ranges().bytes() <= 20_000);
    assert!(store.engine.dead_ranges().count(7) > 10, "what there is room for is known");
}

#[test]
fn off_means_off() {
    let mut store = store_with(EngineOptions { dead_range_bytes: 0, ..EngineOptions::default() });
    store.write(0..1000, Some(b"x"));
    store.write(0..999, None);
    store.first(Direction::Forward, store.now);
    assert!(store.first(Direction::Forward, store.now).1.counters.nexts > 1000);
}

/// Keys that are the border of a segment and an extension of it: seeking there lands on neither too early nor late.
#[test]
fn keys_around_a_border() {
    let mut store = store();
    let name = |suffix: &[u8]| [&7u32.to_be_bytes()[..], suffix].concat();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for byte in 0..20u8 {
        for rest in [&[0u8, 0][..], &[0, 1, 0], &[0, 1, 255], &[1, 0], &[255]] {
            keys.push(name(&[&[byte][..], rest].concat()));
        }
    }
    store.now += 1;
    let mut batch = store.engine.batch();
    for key in &keys {
        batch.put(key, Timestamp(store.now), b"x");
    }
    store.engine.write_at(batch, Timestamp(store.now)).unwrap();
    for from in 0..keys.len() - 12 {
        let to = from + 12;
        store.now += 1;
        let mut batch = store.engine.batch();
        for (position, key) in keys.iter().enumerate() {
            let dead = (from..to).contains(&position);
            batch.version(key, Timestamp(store.now), (!dead).then_some(b"x"));
        }
        store.engine.write_at(batch, Timestamp(store.now)).unwrap();
        for direction in [Direction::Forward, Direction::Backward, Direction::Forward, Direction::Backward] {
            assert_eq!(store.all(direction, store.now).0.len(), keys.len() - 12);
        }
    }
}

/// After a restart the ranges are learned again in the background, before anybody meets them.
#[test]
fn known_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || open_at(directory.path());
    let mut store = Store { engine: open(), now: 1000, _directory: tempfile::tempdir().unwrap() };
    store.write(0..10_000, Some(b"x"));
    store.write(100..9_000, None);
    assert_eq!(store.all(Direction::Forward, store.now).0.len(), 1100);
    assert_eq!(store.all(Direction::Forward, store.now).0.len(), 1100);
    store.engine.close(Timestamp(store.now)).unwrap();
    // One store at a time has the directory.
    let elsewhere = tempfile::tempdir().unwrap();
    store.engine = open_at(elsewhere.path());
    store.engine = open();
    assert_eq!(store.engine.dead_ranges().count(7), 0);
    assert_eq!(store.engine.learn_dead_ranges(Timestamp(store.now), &|| false).unwrap(), 1);
    let (found, stats) = store.all(Direction::Forward, store.now);
    assert_eq!(found.len(), 1100);
    assert!(stats.counters.nexts < 1300, "{stats:?}");
}

/// After a restart the borders are those of the background's scan, with a few dead rows left over: the first scans make
/// them exact, and then finding the first row costs what it does where nothing was ever deleted.
#[test]
fn what_is_left_at_a_border_is_learned_once_it_is_old() {
    for direction in BOTH {
        let micros = |micros: i64| Timestamp::from_micros(1_700_000_000_000_000 + micros).0;
        let mut store = Store { now: micros(0), ..store() };
        store.write(0..2000, Some(b"x"));
        let (live, rest, dead) = match direction {
            Direction::Forward => (1000, 995..1000, 0..995),
            Direction::Backward => (999, 1000..1005, 1005..2000),
        };
        let twin = store_with(EngineOptions::default());
        let mut twin = Store { now: micros(0), ..twin };
        twin.write(if direction == Direction::Forward { 1000..2000 } else { 0..1000 }, Some(b"x"));
        let (_, twin) = twin.first(direction, twin.now);
        store.write(dead, None);
        // What the background walks after a restart is any interval.
        let (low, high) = match direction {
            Direction::Forward => (row(0), row(995)),
            Direction::Backward => (row(1005), row(2000)),
        };
        let mut cursor =
            Cursor::open(store.engine.clone(), &low, &high, Direction::Forward, Timestamp(store.now))
                .unwrap();
        assert!(!cursor.advance().unwrap());
        store.write(rest, None);
        // A queue's latest jobs: whoever comes next will make more of them. Nor does it reach to the range's end yet.
        store.first(direction, store.now);
        for _ in 0..3 {
            let (found, stats) = store.first(direction, store.now);
            assert_eq!(found, Some(live));
            assert_eq!(stats.counters.tombstones_skipped, 6, "{direction:?}");
        }
        store.engine.sweep(Timestamp(micros(2_000_000)));
        store.first(direction, store.now);
        let (found, stats) = store.first(direction, store.now);
        assert_eq!(found, Some(live));
        let (work, twin) = (stats.counters, twin.counters);
        assert_eq!((work.tombstones_skipped, work.seeks), (0, twin.seeks), "{direction:?} {work:?} {twin:?}");
        assert!(work.nexts <= twin.nexts, "{direction:?} {work:?} {twin:?}");
    }
}

/// A scan begins at a bound that no row ever was at: the segment reaches up to there, and its border is that of a row.
#[test]
fn a_bound_is_no_border() {
    let mut store = store();
    store.write((0..1000).map(|number| number * 2), Some(b"x"));
    store.write((500..1000).map(|number| number * 2), None);
    // Behind row 998, as `where id > 998` asks, and before the first dead one.
    let (low, high) = (key::behind(&row(998)), row(5000));
    let walk = |store: &Store, direction, at| {
        let mut cursor = Cursor::open(store.engine.clone(), &low, &high, direction, Timestamp(at)).unwrap();
        let found = cursor.advance().unwrap();
        (found, cursor.take_stats().counters)
    };
    // Whoever learns the segment learns how far it reaches from where the scan began; others do once what died has settled.
    for (direction, seeks) in [(Direction::Forward, 1), (Direction::Backward, 3)] {
        assert!(!walk(&store, direction, store.now).0);
        let (found, again) = walk(&store, direction, store.now);
        assert_eq!((found, again.seeks), (false, seeks), "{direction:?}: {again:?}");
    }
    let (found, jump) = store.first(Direction::Backward, store.now);
    assert_eq!((found, jump.counters.seeks), (Some(998), 2), "from the last dead row: {jump:?}");
    store.engine.sweep(Timestamp(store.now + Timestamp::from_micros(2_000_000).0));
    assert!(!walk(&store, Direction::Backward, store.now).0);
    assert_eq!(walk(&store, Direction::Backward, store.now).1.seeks, 1);
    // The same for a snapshot, over rows that came later.
    let mut late = store_with(EngineOptions::default());
    late.write((0..500).map(|number| number * 2), Some(b"x"));
    let snapshot = late.now;
    late.write((500..1000).map(|number| number * 2), Some(b"x"));
    late.engine.sweep(Timestamp(late.now + Timestamp::from_micros(2_000_000).0));
    for _ in 0..2 {
        assert!(!walk(&late, Direction::Forward, snapshot).0);
        assert!(!walk(&late, Direction::Backward, snapshot).0);
    }
    for direction in BOTH {
        assert_eq!(walk(&late, direction, snapshot).1.seeks, 1, "{direction:?}");
        assert!(walk(&late, direction, late.now).0);
    }
    // Rows that come in between are seen.
    store.write([999], Some(b"x"));
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(999));
    assert!(walk(&store, Direction::Forward, store.now).0);
    store.write([4000], Some(b"x"));
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(4000));
}

/// A snapshot from before a deletion, that wants one row: newer versions cost no more than it takes to see them.
#[test]
fn one_row_that_is_deleted_later() {
    let mut store = store();
    store.write(0..10, Some(b"x"));
    let before = store.now;
    store.write(0..10, None);
    for (direction, row, nexts) in [(Direction::Forward, 0, 1), (Direction::Backward, 9, 1)] {
        let (found, stats) = store.first(direction, before);
        assert_eq!(
            (found, stats.counters.seeks, stats.counters.nexts),
            (Some(row), 1, nexts),
            "{direction:?}"
        );
        assert_eq!(store.all(direction, before).0.len(), 10);
    }
}

/// What lies behind the last dead row is known to be empty. Rows that are added there leave the segment whole, and none of
/// their own.
#[test]
fn rows_added_behind_a_graveyard() {
    let mut store = store();
    store.write((0..10_000).chain([50_000]), Some(b"x"));
    store.write(10..10_000, None);
    store.engine.sweep(Timestamp(store.now + Timestamp::from_micros(2_000_000).0));
    let last = |store: &Store| {
        let (low, _) = key::storage_range(7);
        let mut cursor =
            Cursor::open(store.engine.clone(), &low, &row(40_000), Direction::Backward, Timestamp(store.now))
                .unwrap();
        let found = cursor.advance().unwrap().then(|| number(cursor.key()));
        (found, cursor.take_stats().counters)
    };
    for _ in 0..2 {
        assert_eq!(last(&store).0, Some(9));
    }
    let (_, known) = last(&store);
    assert_eq!((known.seeks, known.nexts), (1, 1), "from the bound to the first live row");
    assert_eq!(store.all(Direction::Forward, store.now).0.len(), 11);
    assert_eq!(store.all(Direction::Backward, store.now).0.len(), 11);
    for row in 10_000..11_000 {
        store.write([row], Some(b"x"));
        assert_eq!(last(&store).0, Some(row));
    }
    assert_eq!(store.engine.dead_ranges().count(7), 1);
    let (found, stats) = store.all(Direction::Forward, store.now);
    assert_eq!(found.len(), 1011);
    assert!(stats.counters.seeks <= 3, "{stats:?}");
}

/// Rows come into a stretch of a graveyard that was drained: what is dead on both sides stays known.
#[test]
fn rows_added_inside_a_graveyard() {
    for direction in BOTH {
        let mut store = store();
        store.write((0..10).chain(1000..1010).chain(2000..12_000).chain(20_000..20_010), Some(b"x"));
        store.write((1000..1010).chain(2000..12_000), None);
        store.engine.sweep(Timestamp(store.now + Timestamp::from_micros(2_000_000).0));
        for _ in 0..2 {
            assert_eq!(store.all(direction, store.now).0.len(), 20);
        }
        for row in 1010..1030 {
            store.write([row], Some(b"x"));
        }
        let (found, stats) = store.all(direction, store.now);
        assert_eq!(found.len(), 40);
        assert!(stats.counters.tombstones_skipped < 100, "{direction:?}: {stats:?}");
    }
}

/// What was deleted before a restart has settled: one scan learns all of it, up to where scans begin.
#[test]
fn learned_in_one_scan_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || open_at(directory.path());
    let mut store = Store { engine: open(), now: 1000, _directory: tempfile::tempdir().unwrap() };
    store.write(0..1000, Some(b"x"));
    store.write(10..1000, None);
    store.engine.close(Timestamp(store.now)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    store.engine = open_at(elsewhere.path());
    store.engine = open();
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(9));
    // The first scan of all makes the key space known, the next one learns.
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(9));
    let (found, stats) = store.first(Direction::Backward, store.now);
    assert_eq!((found, stats.counters.seeks, stats.counters.nexts), (Some(9), 1, 1), "{stats:?}");
}

/// As the compaction filter leaves them where older files lie below.
fn leave_marks(directory: &std::path::Path, rows: &[u32], times: &[u64]) {
    let rocks = rocksdb::Options::default();
    let db = rocksdb::DB::open_cf(&rocks, directory, ["default", "meta", "provisional"]).unwrap();
    for number in rows {
        for time in times {
            let mut stored = Vec::new();
            key::write_stored(&mut stored, &row(*number), Timestamp(*time));
            db.delete(&stored).unwrap();
        }
    }
}

/// Too few dead rows to remember where the range begins, then live ones, then marks: what is remembered of the marks does
/// not reach to the beginning.
#[test]
fn marks_behind_a_short_run() {
    let directory = tempfile::tempdir().unwrap();
    let mut store =
        Store { engine: open_at(directory.path()), now: 1000, _directory: tempfile::tempdir().unwrap() };
    store.write(0..1000, Some(b"x"));
    let written = store.now;
    store.write((0..3).chain(997..1000), None);
    let now = store.now;
    store.engine.flush().unwrap();
    drop(store);
    let doomed: Vec<u32> = (10..990).filter(|number| *number != 500).collect();
    leave_marks(directory.path(), &doomed, &[written]);
    let store = Store { engine: open_at(directory.path()), now, _directory: tempfile::tempdir().unwrap() };
    let live: Vec<u32> = (3..10).chain([500]).chain(990..997).collect();
    for direction in BOTH {
        for _ in 0..4 {
            let mut found = store.all(direction, now).0;
            found.sort_unstable();
            assert_eq!(found, live, "{direction:?}");
        }
    }
}

/// A scan looks for marks behind each of some thousand rows, then no more, and there are marks all the way.
#[test]
fn marks_where_nobody_looks_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let mut store =
        Store { engine: open_at(directory.path()), now: 1000, _directory: tempfile::tempdir().unwrap() };
    store.write(0..10_000, Some(b"x"));
    let now = store.now;
    store.engine.flush().unwrap();
    drop(store);
    let (doomed, live): (Vec<u32>, Vec<u32>) =
        (0..10_000).partition(|number| (1..100).contains(number) || *number > 1000 && number % 2 == 1);
    leave_marks(directory.path(), &doomed, &[now]);
    let store = Store { engine: open_at(directory.path()), now, _directory: tempfile::tempdir().unwrap() };
    for direction in BOTH {
        for _ in 0..4 {
            assert_eq!(store.all(direction, now).0.len(), live.len(), "{direction:?}");
        }
    }
}

/// Delete marks of RocksDB's own are stepped over once: between two rows going forward, behind the last one backward.
#[test]
fn marks_that_a_collection_leaves_behind() {
    for (direction, live) in [(Direction::Forward, [0, 4_999]), (Direction::Backward, [1, 0])] {
        let directory = tempfile::tempdir().unwrap();
        let open = || open_at(directory.path());
        let mut store = Store { engine: open(), now: 1000, _directory: tempfile::tempdir().unwrap() };
        let doomed: Vec<u32> = (0..5_000).filter(|number| !live.contains(number)).collect();
        store.write(0..5_000, Some(b"x"));
        store.write(doomed.iter().copied(), None);
        store.engine.flush().unwrap();
        let (value_time, now) = (store.now - 1, store.now);
        drop(store);
        leave_marks(directory.path(), &doomed, &[value_time, now]);
        let store = Store { engine: open(), now, _directory: tempfile::tempdir().unwrap() };
        let marks = || {
            ReadStats::default().add_hidden();
            let (found, mut stats) = store.all(direction, store.now);
            assert_eq!(found, live);
            stats.add_hidden();
            stats.counters.hidden_deletes
        };
        let first = marks();
        assert!(first > 5_000, "{first}");
        // The next scans know that there are marks, and learn where.
        marks();
        marks();
        let last = marks();
        assert!(last < 50, "{direction:?}: {first} -> {last}");
    }
}

// ---- how it has gone wrong elsewhere -------------------------------------------------------------------

#[test]
fn learned_at_an_old_read_time_hides_no_newer_row() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..100, Some(b"x"));
        store.write(0..100, None);
        let old = store.now;
        store.write([50], Some(b"newer"));
        for _ in 0..3 {
            assert_eq!(store.all(direction, old).0, []);
            assert_eq!(store.all(direction, store.now).0, [50]);
        }
    }
}

#[test]
fn row_written_between_the_iterator_and_the_publishing() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..100, Some(b"x"));
        store.write(0..99, None);
        // The space is known, so that learning needs no new iterator.
        store.first(direction, store.now);
        store.write([99], None);
        store.engine.dead_ranges().clear(7);
        store.first(direction, store.now);
        let mut cursor = store.open(direction, store.now);
        store.write([50], Some(b"meanwhile"));
        assert!(!cursor.advance().unwrap(), "not yet there at its time");
        drop(cursor);
        for _ in 0..2 {
            assert_eq!(store.all(direction, store.now).0, [50]);
        }
    }
}

/// The batch exists, and has registered nothing yet, when the learner begins and publishes.
#[test]
fn batch_in_flight_while_others_learn() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..100, Some(b"x"));
        store.write(0..100, None);
        let engine = store.engine.clone();
        let mut batch = engine.batch();
        assert_eq!(store.all(direction, store.now).0, []);
        store.now += 1;
        batch.put(&row(50), Timestamp(store.now), b"x");
        let before = store.now - 1;
        assert_eq!(store.all(direction, before).0, []);
        engine.write_at(batch, Timestamp(store.now)).unwrap();
        for _ in 0..2 {
            assert_eq!(store.all(direction, store.now).0, [50]);
        }
    }
}

/// A bulk load writes below the present into a key space that its transaction reads meanwhile.
#[test]
fn race_with_a_bulk_load() {
    let mut store = store();
    store.write(0..100, Some(b"x"));
    store.write(0..100, None);
    let (low, high) = key::storage_range(7);
    let private = || Reading::Private(None);
    let open = |at| {
        Cursor::open_reading(store.engine.clone(), &low, &high, Direction::Forward, at, private()).unwrap()
    };
    let at = Timestamp(store.now + 5);
    assert!(!open(at).advance().unwrap());
    assert!(!open(at).advance().unwrap());
    let mut batch = store.engine.batch();
    batch.put(&row(50), at, b"loaded");
    store.engine.write_at(batch, at).unwrap();
    assert!(open(at).advance().unwrap());
    assert_eq!(store.engine.dead_ranges().count(7), 0, "nothing was learned");
}

#[test]
fn wrong_bound_on_seek_to_last() {
    let mut store = store();
    store.write(0..100, Some(b"x"));
    store.write(10..100, None);
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(9));
    // Behind and inside of what is known by now.
    store.write([100], Some(b"x"));
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(100));
    store.write([100], None);
    store.write([99], Some(b"x"));
    assert_eq!(store.first(Direction::Backward, store.now).0, Some(99));
    for high in [10, 11, 50, 99, 100] {
        let (low, high) = (key::storage_range(7).0, row(high));
        let mut cursor =
            Cursor::open(store.engine.clone(), &low, &high, Direction::Backward, Timestamp(store.now))
                .unwrap();
        assert!(cursor.advance().unwrap());
        assert_eq!(number(cursor.key()), if high == row(100) { 99 } else { 9 });
    }
}

/// Reading at the very time of the newest deletion, and at the one before.
#[test]
fn ties() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..50, Some(b"x"));
        for number in 0..50 {
            store.write([number], None);
        }
        let last = store.now;
        for _ in 0..2 {
            assert_eq!(store.all(direction, last).0, []);
            assert_eq!(store.all(direction, last - 1).0, [49]);
            assert_eq!(store.all(direction, last - 2).0.len(), 2);
        }
    }
}

#[test]
fn rows_come_back_into_a_graveyard() {
    for direction in BOTH {
        let mut store = store();
        store.write(0..1000, Some(b"x"));
        store.write(0..1000, None);
        assert_eq!(store.all(direction, store.now).0, []);
        assert_eq!(store.all(direction, store.now).0, []);
        let mut back: Vec<u32> = Vec::new();
        for number in (0..1000).step_by(7) {
            store.write([number], Some(b"again"));
            back.push(number);
            let mut found = store.all(direction, store.now).0;
            found.sort_unstable();
            assert_eq!(found, back);
        }
    }
}
