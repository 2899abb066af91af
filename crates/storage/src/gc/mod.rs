//! Garbage collection: versions that nobody can see any more go, between snapshots too.
//!
//! ```text
//!  horizon     how far back unpinned times are readable; moves forward with the clock and what is durable
//!  filter      drops middle versions and middle tombstones whenever RocksDB compacts
//!  findings    what a compaction saw but could not remove yet
//!  writes      what was written since the last compaction
//!  dead_span   rows that are dead to everybody go as whole ranges
//!  space       dropped storages; compactions where much is garbage
//! ```
//!
//! The rule a reader must not break: **a time is read only while it is pinned, or at or above the horizon that was published
//! last** ([`crate::pins`]). The rule a collector must not break: horizon first, pins afterwards ([`Shared::view`]).
//!
//! [`Engine::collect`] does one round; the floor above calls it about once a second, from a thread of its own.

mod dead_span;
pub(crate) mod filter;
mod findings;
pub mod horizon;
mod space;
pub(crate) mod writes;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

pub use dead_span::Section;
use dead_span::Watch;
use filter::View;
use findings::{Findings, Observer, Stretch};
pub use horizon::{DEFAULT_RETENTION, Horizons, Retention};
use writes::Writes;

/// How often a VACUUM that waits asks whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(20);
/// How often it looks whether its compaction has ended: that of a small table takes some milliseconds.
const SHORT_INTERVAL: Duration = Duration::from_millis(1);

use crate::spills::KeySpan;
use crate::{Engine, PinGuard, PinKind, Pins, Result, SpillNumber, Spills, StorageId, Timestamp, key, meta};

/// What collection has done since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Versions and tombstones that compactions dropped.
    pub versions_dropped: u64,
    /// Rows that went with range deletions.
    pub dead_rows_deleted: u64,
    pub storages_removed: u64,
    /// Compactions that the collector asked for.
    pub compactions: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    versions_dropped: AtomicU64,
    dead_rows_deleted: AtomicU64,
    storages_removed: AtomicU64,
    compactions: AtomicU64,
    rounds: AtomicU64,
}

/// What the store shares with RocksDB's compaction threads.
pub(crate) struct Shared {
    pub(crate) enabled: bool,
    pub(crate) pins: Arc<Pins>,
    /// The horizons that are in force. Before the store has read its own, nothing is garbage.
    published: Mutex<Arc<Horizons>>,
    findings: Mutex<Findings>,
    pub(crate) writes: Writes,
    pub(crate) watch: Watch,
    pub(crate) spills: Arc<Spills>,
    totals: Totals,
}

impl Shared {
    pub(crate) fn new(enabled: bool) -> Self {
        Shared {
            enabled,
            pins: Arc::default(),
            published: Mutex::default(),
            findings: Mutex::default(),
            writes: Writes::default(),
            watch: Watch::default(),
            spills: Arc::default(),
            totals: Totals::default(),
        }
    }

    /// Horizons and pins of this moment, in this order.
    pub(crate) fn view(&self) -> View {
        let horizons = self.published.lock().clone();
        View { horizons, pins: self.pins.view() }
    }

    /// To be called when the horizons are durable.
    pub(crate) fn publish(&self, horizons: Horizons) {
        self.pins.raise_floor(horizons.highest());
        *self.published.lock() = Arc::new(horizons);
    }

    /// A compaction has ended.
    fn compacted(&self, removed: u64, observer: Observer) {
        self.totals.versions_dropped.fetch_add(removed, Ordering::Relaxed);
        if self.enabled {
            self.findings.lock().add(observer);
        }
    }
}

/// A time in the past, pinned; it knows what was readable at that time when the pin was taken.
#[derive(Debug)]
pub struct PastPin {
    pub pin: PinGuard,
    horizons: Arc<Horizons>,
}

impl PastPin {
    /// `Err` with the beginning of the history that is kept, if this storage's no longer reaches back to the pinned time.
    pub fn check(&self, storage: StorageId) -> std::result::Result<(), Timestamp> {
        let horizon = self.horizons.of(storage);
        if self.pin.time() < horizon { Err(horizon) } else { Ok(()) }
    }
}

impl Engine {
    /// Pins a time in the past; `Err` with the beginning of the history that is kept if the time lies before it.
    pub fn pin_past(&self, pid: i32, time: Timestamp) -> std::result::Result<PastPin, Timestamp> {
        let pin = self.gc.pins.pin_unchecked(pid, PinKind::Transaction, time);
        // After the pin: a collector that missed it had published its horizons before.
        let horizons = self.gc.published.lock().clone();
        let oldest = horizons.lowest();
        if time < oldest { Err(oldest) } else { Ok(PastPin { pin, horizons }) }
    }

    /// The horizons in force.
    pub fn horizons(&self) -> Arc<Horizons> {
        self.gc.published.lock().clone()
    }

    /// How long history is kept where a storage has no retention of its own.
    pub fn retention(&self) -> Retention {
        self.history.lock().retention()
    }

    /// The database's own retention, if it has one.
    pub fn database_retention(&self) -> Option<Retention> {
        self.history.lock().database_retention()
    }

    /// Storages with a retention of their own.
    pub fn storage_retentions(&self) -> HashMap<StorageId, Retention> {
        self.history.lock().own_retentions()
    }

    pub fn storage_retention(&self, storage: StorageId) -> Option<Retention> {
        self.history.lock().own_retention(storage)
    }

    /// The server's retention: for databases that have none of their own. Not stored.
    pub fn set_server_retention(&self, retention: Retention) {
        self.history.lock().set_server_retention(retention);
    }

    /// The database's own retention; `None`: that of the server. Durable when it returns.
    pub fn set_retention(&self, retention: Option<Retention>) -> Result<()> {
        let mut history = self.history.lock();
        let mut next = history.clone();
        next.set_retention(retention);
        let mut batch = self.batch();
        batch.meta_put(meta::HISTORY_KEY, &next.encode());
        self.write(batch)?;
        self.sync()?;
        *history = next;
        Ok(())
    }

    /// To be called every second or so, whatever the collector is doing: time counts only while somebody looks.
    pub fn look_at_clock(&self, now: Timestamp) {
        if let Some(mut history) = self.history.try_lock() {
            history.look(now);
        }
    }

    /// Moves the horizons on. `now`: of the clock; `settled`: everything at or below is durable.
    pub fn advance_horizons(&self, now: Timestamp, settled: Timestamp) -> Result<()> {
        let mut history = self.history.lock();
        let mut next = history.clone();
        next.look(now);
        let changed = next.advance(settled);
        if !changed.is_empty() {
            let mut batch = self.batch();
            batch.meta_put(meta::HISTORY_KEY, &next.encode());
            for storage in changed.into_iter().flatten() {
                match next.encode_own(storage) {
                    Some(record) => batch.meta_put(&meta::retention_key(storage), &record),
                    None => batch.meta_delete(&meta::retention_key(storage)),
                }
            }
            self.write(batch)?;
            // Before anything is collected by it: or a restart would promise history that is gone.
            self.sync()?;
            self.gc.publish(next.horizons());
        }
        *history = next;
        Ok(())
    }

    /// One round of collection: moves the horizons, removes dropped storages, deletes dead rows, compacts where much is
    /// garbage. `stop` is asked now and then.
    pub fn collect(
        &self,
        now: Timestamp,
        settled: Timestamp,
        section: Section<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let _one_at_a_time = self.collecting.lock();
        self.advance_horizons(now, settled)?;
        if !self.gc.enabled || stop() {
            return Ok(());
        }
        self.remove_dropped_storages(stop)?;
        self.collect_garbage(section, stop)
    }

    /// VACUUM: deletes what is dead in a storage and compacts it; `full`: even where there is nothing to gain. Returns soon after `stop`
    /// has answered `true`; a compaction that has begun goes on by itself.
    pub fn vacuum(
        self: &Arc<Self>,
        storage: StorageId,
        section: Section<'_>,
        stop: &dyn Fn() -> bool,
        full: bool,
    ) -> Result<()> {
        if !self.gc.enabled {
            return Ok(());
        }
        let one_at_a_time = loop {
            if let Some(guard) = self.collecting.try_lock_for(STOP_INTERVAL) {
                break guard;
            }
            if stop() {
                return Ok(());
            }
        };
        let written = self.gc.writes.take(storage);
        let (low, high) = key::storage_range(storage);
        let stretch = Stretch { low: low.clone(), high: high.clone(), ripe: Timestamp::MIN, weight: 0 };
        let deleted = self.delete_dead_rows(stretch, true, &mut { u64::MAX }, section, stop)?;
        drop(one_at_a_time);
        if full || deleted.rows > 0 || written.is_some_and(|written| written.versions > 0) {
            let (engine, from, to) = (self.clone(), low.clone(), high.clone());
            let thread = std::thread::Builder::new().name("cairn-vacuum".to_owned());
            match thread.spawn(move || engine.compact_stretch(&from, &to, full)) {
                Ok(compaction) => {
                    while !compaction.is_finished() && !stop() {
                        std::thread::sleep(SHORT_INTERVAL);
                    }
                }
                // Without a thread to spare it cannot be stopped.
                Err(_) => self.compact_stretch(&low, &high, full),
            }
        }
        Ok(())
    }

    /// What collection has done since the store was opened.
    pub fn collected(&self) -> Collected {
        let totals = &self.gc.totals;
        Collected {
            versions_dropped: totals.versions_dropped.load(Ordering::Relaxed),
            dead_rows_deleted: totals.dead_rows_deleted.load(Ordering::Relaxed),
            storages_removed: totals.storages_removed.load(Ordering::Relaxed),
            compactions: totals.compactions.load(Ordering::Relaxed),
        }
    }

    /// A hint that the rows from `low` to `high` (of one storage) are dead since `dead_since`; the collector looks for
    /// itself when the horizon gets there.
    pub fn suggest_dead_span(&self, low: &[u8], high: &[u8], dead_since: Timestamp, rows: u64) {
        let span = Stretch { low: low.to_vec(), high: high.to_vec(), ripe: dead_since, weight: rows };
        self.gc.findings.lock().add_span(span);
    }

    /// A spill was rolled back whose records, so many bytes, lie in these spans: the collector has a look.
    pub fn spill_rolled_back(&self, number: SpillNumber, spans: Vec<KeySpan>, bytes: u64) {
        let mut findings = self.gc.findings.lock();
        for (low, high) in &spans {
            let (low, high) = (low.clone(), high.clone());
            findings.add_region(Stretch { low, high, ripe: Timestamp::MIN, weight: bytes });
        }
        drop(findings);
        self.gc.spills.roll_back(number, spans);
    }

    /// Versions, and tombstones among them, that were written to a storage since its last compaction.
    pub fn written_since_compaction(&self, storage: StorageId) -> (u64, u64) {
        self.gc.writes.counts(storage)
    }
}
