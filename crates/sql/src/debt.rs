//! What a session owes its client: silence, until what an answer rests on is durable.
//!
//! Rows are visible to others, and their locks free, before they are on disk. So nothing may leave for a client before the
//! commits that it tells of, its own and those that were read, are. A session writes down the newest of them here,
//! and whoever sends its output pays before every byte: by waiting, or by leaving the answer to the thread that makes it durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cairn_txn::{Answer, Store, Timestamp};

/// One session's. Only the session's own thread uses it.
pub struct Debt {
    store: Arc<dyn Store>,
    /// 0: none.
    owed: AtomicU64,
    /// Somebody sends the session's output and pays; else every debt is paid when it is made.
    deferred: AtomicBool,
}

impl Debt {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Debt { store, owed: AtomicU64::new(0), deferred: AtomicBool::new(false) }
    }

    /// From now on the caller pays, before it sends anything.
    pub(crate) fn defer(&self) {
        self.deferred.store(true, Ordering::Relaxed);
    }

    /// Nothing that the session says from now on may be heard before everything up to `time` is durable.
    pub(crate) fn owe(&self, time: Timestamp) {
        self.owed.fetch_max(time.0, Ordering::Relaxed);
        if !self.deferred.load(Ordering::Relaxed) {
            self.pay();
        }
    }

    pub fn is_open(&self) -> bool {
        self.owed.load(Ordering::Relaxed) != 0
    }

    /// Returns when the session may be heard.
    pub fn pay(&self) {
        if self.is_open() {
            self.store.wait_durable(self.take());
        }
    }

    /// Gives `answer` when the session may be heard: at once, or on another thread.
    pub fn pay_with(&self, answer: Arc<dyn Answer>) {
        self.store.answer_when_durable(self.take(), answer);
    }

    fn take(&self) -> Timestamp {
        Timestamp(self.owed.swap(0, Ordering::Relaxed))
    }
}
