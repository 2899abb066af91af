//! What the reads of a database have cost since it was opened: the sums of its ended transactions.
//!
//! A transaction adds its counters once, when it and its cursors are gone. Threads add to different lines of memory, so
//! that counting does not make them wait for each other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::ReadCounters;

/// Threads share these round robin.
pub(crate) const STRIPES: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// The stripe of this thread; the first where the thread is about to end.
#[inline]
pub(crate) fn stripe() -> usize {
    STRIPE.try_with(|stripe| *stripe).unwrap_or(0)
}

const COUNTERS: usize = 11;

#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe([AtomicU64; COUNTERS]);

#[derive(Debug, Default)]
pub(crate) struct Totals {
    stripes: [Stripe; STRIPES],
}

/// Reads of all ended transactions of a database since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadTotals {
    /// Transactions that have read or written, or could have.
    pub transactions: u64,
    pub reads: ReadCounters,
}

impl Totals {
    pub(crate) fn add(&self, reads: &ReadCounters) {
        let Some(stripe) = self.stripes.get(stripe()) else { return };
        let values = [
            1,
            reads.seeks,
            reads.nexts,
            reads.keys_found,
            reads.versions_skipped,
            reads.tombstones_skipped,
            reads.ranges_skipped,
            reads.bytes_read,
            reads.hidden_deletes,
            reads.internal_keys,
            reads.requests,
        ];
        for (counter, value) in stripe.0.iter().zip(values) {
            if value != 0 {
                counter.fetch_add(value, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn sum(&self) -> ReadTotals {
        let mut sums = [0u64; COUNTERS];
        for stripe in &self.stripes {
            for (sum, counter) in sums.iter_mut().zip(&stripe.0) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        let [
            transactions,
            seeks,
            nexts,
            keys_found,
            versions_skipped,
            tombstones_skipped,
            ranges_skipped,
            bytes_read,
            hidden_deletes,
            internal_keys,
            requests,
        ] = sums;
        ReadTotals {
            transactions,
            reads: ReadCounters {
                requests,
                seeks,
                nexts,
                keys_found,
                versions_skipped,
                tombstones_skipped,
                ranges_skipped,
                bytes_read,
                hidden_deletes,
                internal_keys,
            },
        }
    }
}
