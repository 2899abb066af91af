//! Removes versions that nobody can see any more, while RocksDB compacts.
//!
//! A version v whose row has a newer version w may go when
//!
//! ```text
//!   w.time <= horizon   and   no pinned time P with  v.time <= P < w.time
//! ```
//!
//! since v is what a reader sees exactly at the times from v.time up to w.time, and every reader's time is pinned or
//! at or above the horizon. So a snapshot that is held for hours keeps one version of each row, not all since. The
//! newest version of a row stays, a tombstone too: an older version may lie in a file that this compaction does not
//! see, and would come to light. (Those tombstones go as whole ranges: [`super::dead_span`].)
//!
//! **Why it is enough to look at one compaction.** It shows a row's versions newest first, but only those of its
//! files. Let w be the newer version of the row that came last, whether it was kept or removed:
//!
//! - There may be another version u between them elsewhere. Then v is visible from v.time to u.time only, and the
//!   question was asked of a longer stretch: stricter than needed, never wrong.
//! - w may have been removed just now, or be covered by a range deletion, because of a newer x. Nobody reads at
//!   w.time <= T < x.time (that is why it could go), and from x.time on x is found first. So v does not come to light.
//! - w is durable: its time is at or below the horizon, which never passes what is durable.
//!
//! Horizon and pins are looked at once, when the compaction begins. That stays valid for as long as it runs
//! ([`crate::pins`]): a pin taken later is at or above a horizon of that moment, which is not below ours.
//!
//! RocksDB turns a removed key into a delete of its own, which lingers where deeper levels may have the key. Each of our
//! keys is written once, so it never hides anything; [`super::space`] compacts files that have many.
//!
//! Of a provisional record ([`crate::spills`]) the commit time counts, not that of its key. One that runs is later than every
//! horizon: it stays, and so does the newest version of its row. One that was rolled back goes. One whose commit is durable
//! gets its commit time into its value: it is a version from then on.
//!
//! While it is there, the filter also gathers where garbage remains and where whole runs of rows are dead, for
//! the collector to come back to ([`super::findings`]).

use std::ffi::CStr;
use std::sync::Arc;

use rocksdb::CompactionDecision;
use rocksdb::compaction_filter::CompactionFilter;
use rocksdb::compaction_filter_factory::{CompactionFilterContext, CompactionFilterFactory};

use super::Shared;
use super::findings::Observer;
use crate::spills::{Entry, EntryReader, Settled};
use crate::{PinView, Spills, StorageId, Timestamp, key};

/// Horizons and pins of one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) horizons: Arc<super::Horizons>,
    pub(crate) pins: PinView,
}

impl View {
    /// Whether nobody can see a version of time `from` that has a newer one of time `to`.
    #[inline]
    pub(crate) fn may_go(&self, horizon: Timestamp, from: Timestamp, to: Timestamp) -> bool {
        to <= horizon && !self.pins.pinned_between(from, to)
    }
}

pub(crate) struct FilterFactory(pub(crate) Arc<Shared>);

impl CompactionFilterFactory for FilterFactory {
    type Filter = Filter;

    // RocksDB may call it from several threads at a time: nothing here may change anything without a lock.
    fn create(&mut self, _: CompactionFilterContext) -> Filter {
        Filter {
            view: self.0.view(),
            entries: EntryReader::new(self.0.spills.clone(), None),
            settled: Vec::new(),
            shared: self.0.clone(),
            storage: None,
            horizon: Timestamp::MIN,
            row: Vec::with_capacity(64),
            newer: Timestamp::MIN,
            removed: 0,
            observer: Observer::default(),
        }
    }

    fn name(&self) -> &CStr {
        c"cairn.versions"
    }
}

/// Of one compaction.
pub(crate) struct Filter {
    shared: Arc<Shared>,
    entries: EntryReader<Arc<Spills>>,
    /// What the record that came last is replaced by.
    settled: Vec<u8>,
    view: View,
    storage: Option<StorageId>,
    /// Of `storage`.
    horizon: Timestamp,
    /// Key of the version that came last; empty at the beginning.
    row: Vec<u8>,
    /// Its time.
    newer: Timestamp,
    removed: u64,
    observer: Observer,
}

impl CompactionFilter for Filter {
    fn filter(&mut self, _level: u32, stored: &[u8], stored_value: &[u8]) -> CompactionDecision {
        if !self.shared.enabled {
            return CompactionDecision::Keep;
        }
        // What cannot be read is somebody else's to report.
        let Ok((row, time)) = key::split_stored(stored) else { return CompactionDecision::Keep };
        let bytes = (stored.len() + stored_value.len()) as u64;
        let (time, is_tombstone) = match self.entries.read(time, stored_value) {
            Ok(Entry::Version(time, payload)) => (time, payload.is_none()),
            Ok(Entry::Running) => (Timestamp::MAX, false),
            Ok(Entry::Nothing) => {
                self.removed += 1;
                return CompactionDecision::Remove;
            }
            Ok(Entry::Own(_)) | Err(_) => return CompactionDecision::Keep,
        };
        if row != self.row {
            let storage = key::storage_of(row);
            if storage != self.storage {
                self.storage = storage;
                self.horizon = storage.map_or(Timestamp::MIN, |storage| self.view.horizons.of(storage));
            }
            self.row.clear();
            self.row.extend_from_slice(row);
            self.newer = time;
            self.observer.newest(row, time, bytes, is_tombstone);
            return self.keep(stored_value);
        }
        let newer = std::mem::replace(&mut self.newer, time);
        if self.view.may_go(self.horizon, time, newer) {
            self.removed += 1;
            return CompactionDecision::Remove;
        }
        // A version that waits for the horizon is garbage of tomorrow; one that is pinned is not.
        // The same goes for one that only has an uncommitted write in front of it.
        let ripens = newer > self.horizon && newer < Timestamp::MAX;
        self.observer.older(newer, bytes, ripens);
        self.keep(stored_value)
    }

    fn name(&self) -> &CStr {
        c"cairn.versions"
    }
}

impl Filter {
    /// Keeps an entry, settled if it is a record that can be.
    fn keep(&mut self, stored_value: &[u8]) -> CompactionDecision {
        match self.entries.settle(stored_value, &mut self.settled) {
            Ok(Settled::Version) => {
                let settled: &[u8] = &self.settled;
                // SAFETY: RocksDB's wrapper copies the value as soon as this returns, before the filter is called again or
                // dropped; nobody else changes `settled`. (The wrapper's type asks for more than that.)
                let settled = unsafe { std::mem::transmute::<&[u8], &'static [u8]>(settled) };
                CompactionDecision::Change(settled)
            }
            Ok(Settled::NotYet | Settled::Gone) | Err(_) => CompactionDecision::Keep,
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.shared.compacted(self.removed, std::mem::take(&mut self.observer));
    }
}
