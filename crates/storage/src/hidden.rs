//! The steps that RocksDB takes below its iterators.
//!
//! One step of an iterator may pass over many entries that nobody sees: RocksDB's own delete marks, entries that these
//! or newer ones hide, entries that are newer than the iterator. RocksDB counts them for each thread (its *perf context*,
//! whose default level, counts only, is always on), so reading them costs two calls and nothing at each step.
//!
//! A thread runs one statement at a time: what it has counted since it last asked belongs to the reader that asks now. Work
//! of a cursor that has not reported yet goes to the next reader of the same transaction; the sums of a
//! transaction are right.

use std::cell::{Cell, RefCell};

use rocksdb::perf::{PerfContext, PerfMetric};

use crate::ReadCounters;

thread_local! {
    static CONTEXT: RefCell<PerfContext> = RefCell::default();
    /// The thread's counters when they were last asked for.
    static TAKEN: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

/// Delete marks that this thread's iterators have stepped over, since it began.
#[inline]
pub(crate) fn deletes() -> u64 {
    CONTEXT.with_borrow(|context| context.metric(PerfMetric::InternalDeleteSkippedCount))
}

/// Adds what this thread has counted since the last call.
#[inline]
pub(crate) fn add_to(counters: &mut ReadCounters) {
    CONTEXT.with_borrow(|context| {
        let now = [
            context.metric(PerfMetric::InternalKeySkippedCount),
            context.metric(PerfMetric::InternalDeleteSkippedCount),
            context.metric(PerfMetric::InternalRecentSkippedCount),
        ];
        let [keys, deletes, recent] = TAKEN.replace(now);
        counters.internal_keys += now[0].wrapping_sub(keys) + now[2].wrapping_sub(recent);
        counters.hidden_deletes += now[1].wrapping_sub(deletes);
    });
}
