//! Uncommitted writes that are too large for memory: provisional records in the store.
//!
//! A transaction whose writes outgrow memory *spills* them. It has a *spill number* then, given once and never again.
//!
//! ```text
//! column family   key                                       value
//! default         [storage id][key][inverted write time]    03 [spill number] [writes]   a provisional record ([`record`])
//! meta            23 [spill number u64]                     a commit record, once it is committed
//! meta            24 [spill number u64] [storage id u32]    empty: the spill has records in this storage
//! ```
//!
//! A record lies among the versions of its row, at the time of the clock at which it was written. It has the whole value, so
//! that reading it costs what reading a version does. Its commit time is found by its number in a small map in memory ([`Spills`]).
//! One commit record makes versions of all records at once; nothing has to be moved.
//!
//! **Order.** Whoever writes a row holds its lock from before the write until after the commit. So what others commit to the row lies
//! before the record in time, or was written after its commit: *the versions of a row are in the order of their commit times, whether
//! they are records or not.* A reader at time T need not look at what was written after T: it was committed later still.
//!
//! **Settling.** Compactions rewrite the records that they meet ([`crate::gc::filter`]): those of a commit that is durable get
//! their commit time into the value, those that were rolled back go. Much later a walk does the same to the records that no
//! compaction has met, and the commit record goes ([`settle`]). Nobody waits for any of this.
//!
//! **Savepoints.** Each write carries the *epoch* that it was made in; rolling back to a savepoint makes the epochs
//! since then [`Undone`], which the commit record names.
//!
//! Invariants:
//! - [`Spills`] knows a number from before its first record, and a commit from before it is visible. It never forgets a commit: an
//!   iterator may be older than the settling. A number that it does not know was rolled back.
//! - Records are written inside the commit section, like versions, and are registered with the index of dead ranges and with the
//!   collector's watch ([`crate::gc`]): a row with a record of a running transaction is in no open dead range, and is not dead.
//! - A record becomes a version in a file only when its commit is durable: files outlive the unsynced end of the log.
//! - A commit record goes when no record of its number is left.
//! - Recovery: numbers with a commit record are committed, all others are rolled back. Until the commit records are read, every
//!   number counts as running, so that a compaction leaves its records alone.

mod reader;
pub mod record;
mod settle;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

pub(crate) use reader::{Entry, EntryReader, Settled, place};
pub use reader::{OwnWrites, Reading};
pub use record::{OwnVersion, Undone};
pub use settle::{SettleStep, Settling};

use crate::Timestamp;

/// Names a transaction that has spilled.
pub type SpillNumber = u64;

/// What became of a spill.
#[derive(Clone, Debug)]
pub enum SpillState {
    Running,
    Committed(Commit),
    RolledBack,
}

/// How a spill was committed.
#[derive(Clone, Debug)]
pub struct Commit {
    pub time: Timestamp,
    pub undone: Arc<Undone>,
}

/// Keys from the first to the second, both included.
pub type KeySpan = (Vec<u8>, Vec<u8>);

/// A spill that has ended; the store may still have records of it.
#[derive(Clone, Debug)]
struct Ended {
    number: SpillNumber,
    /// `None`: rolled back.
    time: Option<Timestamp>,
    /// Where its records are, one span for each storage.
    spans: Vec<KeySpan>,
    since: Instant,
}

/// All spills of a store since it was opened.
#[derive(Debug, Default)]
pub struct Spills {
    states: RwLock<HashMap<SpillNumber, SpillState>>,
    /// The commit records were read: a number that is not known was rolled back.
    recovered: AtomicBool,
    /// Commits up to here are durable.
    durable: AtomicU64,
    ended: Mutex<Vec<Ended>>,
}

impl Spills {
    /// The transaction begins to spill; before its first record.
    pub fn begin(&self, number: SpillNumber) {
        self.states.write().insert(number, SpillState::Running);
    }

    /// It was committed; before the commit is visible.
    pub fn commit(&self, number: SpillNumber, commit: Commit, spans: Vec<KeySpan>) {
        let time = Some(commit.time);
        self.states.write().insert(number, SpillState::Committed(commit));
        self.ended.lock().push(Ended { number, time, spans, since: Instant::now() });
    }

    /// It was rolled back.
    pub fn roll_back(&self, number: SpillNumber, spans: Vec<KeySpan>) {
        self.states.write().remove(&number);
        self.ended.lock().push(Ended { number, time: None, spans, since: Instant::now() });
    }

    pub fn state(&self, number: SpillNumber) -> SpillState {
        match self.states.read().get(&number) {
            Some(state) => state.clone(),
            None if self.recovered.load(Ordering::Acquire) => SpillState::RolledBack,
            None => SpillState::Running,
        }
    }

    /// Whether the store may have records of spills that have ended.
    pub fn any_unsettled(&self) -> bool {
        !self.ended.lock().is_empty()
    }

    /// Time since the end of the oldest spill that may have records.
    pub fn oldest_unsettled(&self) -> Option<Duration> {
        self.ended.lock().iter().map(|ended| ended.since.elapsed()).max()
    }

    /// Everything that was committed up to `time` is durable.
    pub(crate) fn set_durable(&self, time: Timestamp) {
        self.durable.fetch_max(time.0, Ordering::AcqRel);
    }

    pub(crate) fn durable(&self) -> Timestamp {
        Timestamp(self.durable.load(Ordering::Acquire))
    }

    /// What recovery has found; from now on all others were rolled back.
    fn recovered(&self, found: BTreeMap<SpillNumber, (Option<Commit>, Vec<KeySpan>)>) {
        for (number, (commit, spans)) in found {
            match commit {
                Some(commit) => self.commit(number, commit, spans),
                None => self.roll_back(number, spans),
            }
        }
        self.recovered.store(true, Ordering::Release);
    }
}
