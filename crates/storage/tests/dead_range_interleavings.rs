//! Learners, writers and readers of dead ranges under many interleavings of their threads. Run with
//! `cargo test -p cairn-storage --features shuttle --test dead_range_interleavings`.
//!
//! The store is a list of versions behind a mutex; an iterator is a copy of it. What is tested is the protocol: a
//! reader never jumps over a row that it must see.
#![cfg(feature = "shuttle")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use cairn_storage::dead_ranges::model::{Reader, Walked};
use cairn_storage::{DeadRanges, Timestamp};
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

const ITERATIONS: usize = 4000;
const KEYS: u8 = 20;

fn key(number: u8) -> Vec<u8> {
    vec![0, 0, 0, 1, number]
}

type Versions = BTreeMap<u8, BTreeMap<u64, bool>>;

struct Store {
    ranges: std::sync::Arc<DeadRanges>,
    versions: Mutex<Versions>,
    section: Mutex<()>,
    clock: AtomicU64,
    visible: AtomicU64,
}

const SECOND: u64 = 1_000_000 << 12;

impl Store {
    /// Rows 0 to 9 are dead at time 2, the others were never there.
    fn new() -> Arc<Self> {
        let mut versions = Versions::new();
        for number in 0..10 {
            versions.insert(number, BTreeMap::from([(1, true), (2, false)]));
        }
        Arc::new(Store {
            ranges: std::sync::Arc::new(DeadRanges::new(1 << 20, std::sync::Arc::new(|_, _| false))),
            versions: Mutex::new(versions),
            section: Mutex::new(()),
            clock: AtomicU64::new(2),
            visible: AtomicU64::new(2),
        })
    }

    /// As the commit pipeline does it.
    fn commit(&self, number: u8, is_value: bool) {
        let section = self.section.lock().unwrap();
        let time = self.clock.fetch_add(1, Ordering::SeqCst) + 1;
        let mut writing = self.ranges.begin_write();
        if is_value {
            self.ranges.register(&mut writing, &key(number));
        }
        self.versions.lock().unwrap().entry(number).or_default().insert(time, is_value);
        self.ranges.end_write(&writing);
        self.visible.store(time, Ordering::SeqCst);
        drop(section);
    }

    /// What a read at `at` finds without any index.
    fn truth(versions: &Versions, at: u64) -> Vec<u8> {
        let live =
            |versions: &BTreeMap<u64, bool>| versions.range(..=at).next_back().is_some_and(|(_, live)| *live);
        versions.iter().filter(|(_, versions)| live(versions)).map(|(number, _)| *number).collect()
    }

    /// Scans all keys as a cursor does, and compares with the truth.
    fn scan(&self, backward: bool) {
        let at = self.visible.load(Ordering::SeqCst);
        let mark = self.ranges.mark();
        let mut iterator = self.versions.lock().unwrap().clone();
        let truth = Self::truth(&iterator, at);
        let mut reader = Reader::new(self.ranges.clone(), backward, mark, 1, Timestamp(at));
        let mut found = Vec::new();
        let mut numbers: Vec<u8> = (0..KEYS).collect();
        if backward {
            numbers.reverse();
        }
        let mut jump_to = reader.begin();
        for number in numbers {
            let key = key(number);
            let jumped = match &jump_to {
                Some(border) if backward => key >= *border,
                Some(border) => key < *border,
                None => false,
            };
            let Some(versions) = iterator.get(&number).filter(|_| !jumped) else { continue };
            let newer = versions.keys().next_back().is_some_and(|newest| *newest > at);
            let visible = versions.range(..=at).next_back();
            if let Some((_, true)) = visible {
                reader.live(&key);
                found.push(number);
                continue;
            }
            match reader.dead(&key, Timestamp(visible.map_or(0, |(time, _)| *time)), newer) {
                Walked::On => {}
                Walked::Jump(border) => jump_to = Some(border),
                Walked::Renew => {
                    let mark = self.ranges.mark();
                    iterator = self.versions.lock().unwrap().clone();
                    reader.renewed(mark);
                }
            }
        }
        reader.end(&[0, 0, 0, if backward { 1 } else { 2 }]);
        if backward {
            found.reverse();
        }
        assert_eq!(found, truth, "at {at}");
    }
}

fn check(body: impl Fn(&Arc<Store>) -> Vec<thread::JoinHandle<()>> + Send + Sync + 'static) {
    shuttle::check_random(
        move || {
            let store = Store::new();
            for thread in body(&store) {
                thread.join().unwrap();
            }
            for backward in [false, true] {
                store.scan(backward);
                store.scan(backward);
            }
        },
        ITERATIONS,
    );
}

fn run(store: &Arc<Store>, work: impl FnOnce(&Store) + Send + 'static) -> thread::JoinHandle<()> {
    let store = store.clone();
    thread::spawn(move || work(&store))
}

/// The space comes to be while a batch that has not seen it is in flight.
#[test]
fn first_learners_and_a_writer() {
    check(|store| {
        vec![
            run(store, |store| store.scan(false)),
            run(store, |store| store.scan(true)),
            run(store, |store| {
                store.commit(5, true);
                store.commit(15, true);
            }),
        ]
    });
}

#[test]
fn learners_and_writers_of_a_known_space() {
    check(|store| {
        store.scan(false);
        store.scan(false);
        // Some of what is dead has settled, some will die anew.
        store.ranges.sweep(Timestamp(store.visible.load(Ordering::SeqCst) + SECOND));
        vec![
            run(store, |store| {
                store.commit(3, true);
                store.commit(12, true);
                store.scan(true);
            }),
            run(store, |store| {
                store.commit(7, true);
                store.commit(7, false);
            }),
            run(store, |store| {
                store.scan(false);
                store.scan(false);
            }),
        ]
    });
}

/// A row comes into the gap that a scan is about to remember: behind a run that it learns, and behind one that is known.
#[test]
fn a_row_comes_into_a_gap() {
    for known in [false, true] {
        check(move |store| {
            store.scan(false);
            if known {
                store.scan(false);
                store.ranges.sweep(Timestamp(store.visible.load(Ordering::SeqCst) + SECOND));
            }
            vec![
                run(store, |store| store.scan(true)),
                run(store, |store| store.commit(15, true)),
                run(store, |store| store.scan(true)),
            ]
        });
    }
}

#[test]
fn spaces_that_are_cleared_meanwhile() {
    check(|store| {
        store.scan(false);
        vec![
            run(store, |store| store.ranges.clear(1)),
            run(store, |store| store.scan(false)),
            run(store, |store| {
                store.commit(4, true);
                store.scan(false);
            }),
        ]
    });
}
