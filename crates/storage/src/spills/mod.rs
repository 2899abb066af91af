//! Uncommitted writes that are too large for memory: provisional records in the store.
//!
//! A transaction whose writes outgrow memory *spills* them. It has a *spill number* then, given once and never again.
//!
//! ```text
//! column family   key                                           value
//! default         [storage id][key][inverted provisional time]  03                     a marker
//! provisional     [spill number u64][storage id][key]           a record ([`record`])  the writes
//! meta            23 [spill number u64]                         a commit record        once it is committed
//! ```
//!
//! The *provisional time* of spill n is `FFF0...0 + n`: later than all times that the clock ever gives. So a marker lies in
//! front of a row's versions, and whoever reads at a time takes it for one of the newer versions that it steps over.
//! The same makes a row with a marker nobody's garbage, and no open dead range contains it.
//!
//! **Life of a spill.** Records and markers are written in the same batches, while the transaction runs. It commits by one
//! commit record: *from then on the records count as versions of the commit time* ([`Resolver`]). In the background
//! they are *moved*: a version of the commit time is put, record and marker are deleted, in one batch. The batch that moves
//! the last one deletes the commit record. Of a transaction that rolled back, records and markers are deleted the
//! same way; nobody waits for that.
//!
//! **Savepoints.** Each write carries the *epoch* that it was made in; rolling back to a savepoint makes the epochs
//! since then [`Undone`], which the commit record names.
//!
//! Invariants:
//! - Per spill and key there is one marker and one record, or neither. A marker is put once and removed by a
//!   single delete, which leaves nothing behind for scans to step over once the two meet.
//! - Nobody else deletes a marker: RocksDB takes a plain delete and a single delete of one key for corruption. A range deletion
//!   over it, before the single delete or after it, does no harm: it hides the marker, and a single delete that meets none
//!   goes with the last level. So the storage of an unfinished bulk load goes at any time. A dropped storage, of which plain
//!   deletes and whole files may go, waits until it has no markers (`gc/space.rs`).
//! - [`Spills`] knows the commit before it is visible, and never forgets it: an iterator may be older than the move.
//! - A reader whose time was chosen when nothing committed was left to be moved needs no resolving: its iterator sees the
//!   versions. So reads cost what they did, unless there is something to move ([`Spills::unmoved`]).
//! - The horizon stays below the commit time of what is not moved yet: the move adds versions in the past.
//! - Batches with markers are built and written inside the commit section, where dead rows are deleted too
//!   (`gc/dead_span.rs`); moving needs no section, since a row with a marker is not dead.
//! - Recovery: numbers with a commit record are committed, all others are rolled back.

pub mod record;
mod resolver;
mod store;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

pub use record::{OwnVersion, Record, Undone};
pub(crate) use resolver::Resolver;
pub(crate) use store::COLUMN_FAMILY;
pub use store::ProvisionalCursor;

use crate::Timestamp;

/// Names a transaction that has spilled. Below 2^52.
pub type SpillNumber = u64;

/// What became of a spill. One that is not known was rolled back.
#[derive(Clone, Debug)]
pub enum SpillState {
    InProgress,
    Committed { time: Timestamp, undone: Arc<Undone> },
}

/// All spills of a store since it was opened.
#[derive(Debug, Default)]
pub struct Spills {
    unmoved: AtomicU64,
    states: RwLock<HashMap<SpillNumber, SpillState>>,
    /// Ended, and records may be left: the commit time if it was committed.
    unfinished: Mutex<VecDeque<(SpillNumber, Option<Timestamp>)>>,
}

impl Spills {
    /// The transaction begins to spill; before its first marker.
    pub fn begin(&self, number: SpillNumber) {
        self.states.write().insert(number, SpillState::InProgress);
    }

    /// It was committed; before the commit is visible.
    pub fn commit(&self, number: SpillNumber, time: Timestamp, undone: Arc<Undone>) {
        self.states.write().insert(number, SpillState::Committed { time, undone });
        self.unfinished.lock().push_back((number, Some(time)));
        self.unmoved.fetch_add(1, Ordering::AcqRel);
    }

    /// It was rolled back.
    pub fn abort(&self, number: SpillNumber) {
        self.states.write().remove(&number);
        self.unfinished.lock().push_back((number, None));
    }

    pub(crate) fn recovered(&self, number: SpillNumber, commit: Option<(Timestamp, Undone)>) {
        let time = commit.as_ref().map(|(time, _)| *time);
        if let Some((time, undone)) = commit {
            let state = SpillState::Committed { time, undone: Arc::new(undone) };
            self.states.write().insert(number, state);
            self.unmoved.fetch_add(1, Ordering::AcqRel);
        }
        self.unfinished.lock().push_back((number, time));
    }

    /// Nothing of it is left in the store.
    pub(crate) fn finished(&self, number: SpillNumber) {
        let mut unfinished = self.unfinished.lock();
        let Some(at) = unfinished.iter().position(|(other, _)| *other == number) else { return };
        if let Some((_, Some(_))) = unfinished.remove(at) {
            self.unmoved.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub fn state(&self, number: SpillNumber) -> Option<SpillState> {
        self.states.read().get(&number).cloned()
    }

    /// Number of committed spills that are not moved yet.
    pub fn unmoved(&self) -> u64 {
        self.unmoved.load(Ordering::Acquire)
    }

    /// One that has ended and is not cleared away.
    pub fn next_unfinished(&self) -> Option<SpillNumber> {
        self.unfinished.lock().front().map(|(number, _)| *number)
    }

    /// The last time before all commits that are not moved yet.
    pub fn horizon_limit(&self) -> Timestamp {
        let unfinished = self.unfinished.lock();
        let oldest = unfinished.iter().filter_map(|(_, time)| *time).min();
        oldest.map_or(Timestamp::MAX, |time| Timestamp(time.0.saturating_sub(1)))
    }
}
