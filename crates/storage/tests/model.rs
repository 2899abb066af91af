//! The versioned store and an in-memory map of versions run the same history and must give the same answers,
//! whatever the options: filters on and off, dead ranges on, off and without room, tiny memtables, flushes,
//! compactions and restarts in between, cursors held open while others write.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_storage::{Clock, Cursor, Direction, Engine, EngineOptions, ReadStats, Resources, Timestamp};
use proptest::prelude::*;

type Key = Vec<u8>;

/// All versions ever written: `None` is a tombstone.
#[derive(Default)]
struct Model {
    versions: BTreeMap<Key, BTreeMap<u64, Option<Vec<u8>>>>,
}

impl Model {
    fn get(&self, key: &[u8], at: u64) -> Option<(u64, Option<Vec<u8>>)> {
        let (time, value) = self.versions.get(key)?.range(..=at).next_back()?;
        Some((*time, value.clone()))
    }

    fn scan(&self, low: &[u8], high: &[u8], at: u64) -> Vec<(Key, Vec<u8>)> {
        if low >= high {
            return Vec::new();
        }
        self.versions
            .range(low.to_vec()..high.to_vec())
            .filter_map(|(key, _)| Some((key.clone(), self.get(key, at)?.1?)))
            .collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A commit: these keys get a value, or a tombstone.
    Write(Vec<(Key, Option<Vec<u8>>)>),
    /// Many versions of one key, so that seeks replace steps.
    Churn(Key, u8),
    Get {
        key: Key,
        age: u64,
    },
    Scan {
        low: Key,
        high: Key,
        age: u64,
        backward: bool,
    },
    /// All rows of a range get a tombstone, in one commit or one each.
    DeleteRange {
        low: Key,
        high: Key,
        one_by_one: bool,
    },
    /// A cursor that stays open while others write.
    Hold {
        low: Key,
        high: Key,
        age: u64,
        backward: bool,
    },
    /// So many rows of one of the held cursors; then it may get another range.
    Pull {
        which: usize,
        rows: usize,
        then: Option<(Key, Key)>,
    },
    /// One cursor, used for several ranges.
    Reset {
        ranges: Vec<(Key, Key)>,
        age: u64,
        backward: bool,
    },
    Flush,
    Compact,
    Sweep,
    Restart,
    /// Rows come and go in the middle of a key space, and scans walk over them as many times.
    Graveyard {
        scans: u8,
        backward: bool,
    },
}

/// No key is a prefix of another: the last byte occurs nowhere else.
fn key() -> impl Strategy<Value = Key> {
    (1u32..3, proptest::collection::vec(prop_oneof![Just(0u8), Just(2), Just(0xff)], 0..4))
        .prop_map(|(storage, middle)| [&storage.to_be_bytes()[..], &middle, &[1]].concat())
}

/// A key, a prefix of one, or a little behind one.
fn bound() -> impl Strategy<Value = Key> {
    (
        key(),
        0usize..9,
        prop_oneof![Just(&b""[..]), Just(&b"\0"[..]), Just(&b"\xff"[..]), Just(&b"\x9b\0"[..])],
    )
        .prop_map(|(key, cut, suffix)| [&key[..cut.min(key.len())], suffix].concat())
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![2 => proptest::collection::vec(any::<u8>(), 0..12).prop_map(Some), 1 => Just(None)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => proptest::collection::vec((key(), value()), 1..5).prop_map(Step::Write),
        2 => (key(), 2u8..12).prop_map(|(key, times)| Step::Churn(key, times)),
        6 => (key(), 0u64..30).prop_map(|(key, age)| Step::Get { key, age }),
        10 => (bound(), bound(), 0u64..30, any::<bool>())
            .prop_map(|(low, high, age, backward)| Step::Scan { low, high, age, backward }),
        3 => (proptest::collection::vec((bound(), bound()), 1..4), 0u64..30, any::<bool>())
            .prop_map(|(ranges, age, backward)| Step::Reset { ranges, age, backward }),
        3 => (bound(), bound(), any::<bool>())
            .prop_map(|(low, high, one_by_one)| Step::DeleteRange { low, high, one_by_one }),
        2 => any::<bool>().prop_map(|one_by_one| Step::DeleteRange {
            low: vec![0, 0, 0, 1], high: vec![0, 0, 0, 2], one_by_one
        }),
        2 => (0u64..30, any::<bool>()).prop_map(|(age, backward)| Step::Scan {
            low: vec![0, 0, 0, 1], high: vec![0, 0, 0, 2], age, backward
        }),
        3 => (bound(), bound(), 0u64..30, any::<bool>())
            .prop_map(|(low, high, age, backward)| Step::Hold { low, high, age, backward }),
        6 => (0usize..4, 0usize..12, proptest::option::of((bound(), bound())))
            .prop_map(|(which, rows, then)| Step::Pull { which, rows, then }),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
        1 => graveyard(),
    ]
}

fn graveyard() -> impl Strategy<Value = Step> {
    (0u8..4, any::<bool>()).prop_map(|(scans, backward)| Step::Graveyard { scans, backward })
}

fn collect(cursor: &mut Cursor) -> Vec<(Key, Vec<u8>)> {
    let mut rows = Vec::new();
    while cursor.advance().unwrap() {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    assert!(!cursor.advance().unwrap(), "the end is the end");
    rows
}

fn expected(model: &Model, low: &[u8], high: &[u8], at: u64, backward: bool) -> Vec<(Key, Vec<u8>)> {
    let mut rows = model.scan(low, high, at);
    if backward {
        rows.reverse();
    }
    rows
}

fn direction(backward: bool) -> Direction {
    if backward { Direction::Backward } else { Direction::Forward }
}

/// A cursor in use, and what it has yet to give.
struct Held {
    cursor: Cursor,
    backward: bool,
    at: u64,
    wanted: std::collections::VecDeque<(Key, Vec<u8>)>,
}

/// `first_time` small and large: inverted times begin with ff or with something in the middle. `tick` between commits: what
/// was deleted long ago is remembered in smaller pieces.
fn run(steps: &[Step], filters: bool, dead_range_bytes: usize, first_time: u64, tick: u64) {
    let directory = tempfile::tempdir().unwrap();
    let resources = Resources::new(8 << 20, 1 << 20);
    let options = EngineOptions {
        memtable_bytes: 64 << 10,
        file_bytes: 64 << 10,
        filters,
        dead_range_bytes,
        ..EngineOptions::default()
    };
    let clock = Clock::system();
    let open = || Arc::new(Engine::open(directory.path(), &options, &resources, &clock).unwrap());
    let mut engine = open();
    let mut model = Model::default();
    let mut now = first_time;
    let mut held: Vec<Held> = Vec::new();
    for step in steps {
        match step {
            Step::Write(writes) => {
                now += tick;
                let mut batch = engine.batch();
                for (key, value) in writes {
                    batch.version(key, Timestamp(now), value.as_deref());
                    model.versions.entry(key.clone()).or_default().insert(now, value.clone());
                }
                engine.write_at(batch, Timestamp(now)).unwrap();
            }
            Step::Churn(key, times) => {
                for turn in 0..*times {
                    now += tick;
                    let value = (turn % 3 != 0).then(|| vec![turn]);
                    let mut batch = engine.batch();
                    batch.version(key, Timestamp(now), value.as_deref());
                    engine.write_at(batch, Timestamp(now)).unwrap();
                    model.versions.entry(key.clone()).or_default().insert(now, value);
                }
            }
            Step::Get { key, age } => {
                let at = now.saturating_sub(*age * tick);
                let mut stats = ReadStats::default();
                let found = engine.get(key, Timestamp(at), &mut stats).unwrap();
                let found = found.map(|version| (version.time.0, version.value.map(|v| v.to_vec())));
                let wanted = model.get(key, at);
                assert_eq!(found, wanted, "get {key:?} at {at}");
                assert_eq!(stats.newest_seen.0, wanted.map_or(0, |(time, _)| time));
            }
            Step::Scan { low, high, age, backward } => {
                let at = now.saturating_sub(*age * tick);
                let mut cursor =
                    Cursor::open(engine.clone(), low, high, direction(*backward), Timestamp(at)).unwrap();
                assert_eq!(
                    collect(&mut cursor),
                    expected(&model, low, high, at, *backward),
                    "scan {low:?}..{high:?} at {at}, backward: {backward}"
                );
            }
            Step::Reset { ranges, age, backward } => {
                let at = now.saturating_sub(*age * tick);
                let mut cursor =
                    Cursor::open(engine.clone(), &[], &[], direction(*backward), Timestamp(at)).unwrap();
                for (low, high) in ranges {
                    cursor.reset(low, high, Timestamp(at));
                    assert_eq!(collect(&mut cursor), expected(&model, low, high, at, *backward));
                }
            }
            Step::DeleteRange { low, high, one_by_one } => {
                let rows = model.scan(low, high, now);
                let mut batch = engine.batch();
                now += tick;
                for (key, _) in rows {
                    if *one_by_one {
                        engine
                            .write_at(std::mem::replace(&mut batch, engine.batch()), Timestamp(now))
                            .unwrap();
                        now += tick;
                    }
                    batch.delete(&key, Timestamp(now));
                    model.versions.entry(key).or_default().insert(now, None);
                }
                engine.write_at(batch, Timestamp(now)).unwrap();
            }
            Step::Hold { low, high, age, backward } => {
                let at = now.saturating_sub(*age * tick);
                let cursor =
                    Cursor::open(engine.clone(), low, high, direction(*backward), Timestamp(at)).unwrap();
                let wanted = expected(&model, low, high, at, *backward).into();
                held.insert(0, Held { cursor, backward: *backward, at, wanted });
                held.truncate(4);
            }
            Step::Pull { which, rows, then } => {
                let Some(held) = held.get_mut(*which) else { continue };
                for _ in 0..*rows {
                    let found = held.cursor.advance().unwrap();
                    let row = found.then(|| (held.cursor.key().to_vec(), held.cursor.value().to_vec()));
                    assert_eq!(row, held.wanted.pop_front(), "held at {}", held.at);
                }
                if let Some((low, high)) = then {
                    held.cursor.reset(low, high, Timestamp(held.at));
                    held.wanted = expected(&model, low, high, held.at, held.backward).into();
                }
            }
            Step::Graveyard { scans, backward } => {
                let middle = |number: u8| {
                    [&[0, 0, 0, 1, 2][..], &[[0, 2, 0xff][usize::from(number % 3)]; 2], &[20 + number, 1]]
                        .concat()
                };
                for value in [Some(b"x".to_vec()), None] {
                    now += tick;
                    let mut batch = engine.batch();
                    for key in (0..12).map(middle) {
                        batch.version(&key, Timestamp(now), value.as_deref());
                        model.versions.entry(key).or_default().insert(now, value.clone());
                    }
                    engine.write_at(batch, Timestamp(now)).unwrap();
                }
                for _ in 0..*scans {
                    let (low, high) = cairn_storage::key::storage_range(1);
                    let mut cursor =
                        Cursor::open(engine.clone(), &low, &high, direction(*backward), Timestamp(now))
                            .unwrap();
                    assert_eq!(collect(&mut cursor), expected(&model, &low, &high, now, *backward));
                }
            }
            Step::Flush => engine.flush().unwrap(),
            Step::Compact => engine.compact(),
            Step::Sweep => engine.sweep(Timestamp(now)),
            Step::Restart => {
                held.clear();
                drop(engine);
                engine = open();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn store_agrees_with_the_model(
        first in proptest::option::of(graveyard()),
        then in proptest::collection::vec(step(), 1..120),
        filters in any::<bool>(),
        dead_range_bytes in prop_oneof![3 => Just(32 << 20), 1 => Just(0), 1 => Just(2000)],
        recent in any::<bool>(),
        slow in any::<bool>(),
    ) {
        let first_time = if recent { 7_300_000_000_000_000_000 } else { 0 };
        let tick = if slow { Timestamp::from_micros(2_000_000).0 } else { 1 };
        let steps: Vec<Step> = first.into_iter().chain(then).collect();
        run(&steps, filters, dead_range_bytes, first_time, tick);
    }
}
