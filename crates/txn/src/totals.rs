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

#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe {
    transactions: AtomicU64,
    /// In the order of [`ReadCounters::values`].
    reads: [AtomicU64; ReadCounters::COUNT],
}

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
    pub(crate) fn add(&self, reads: ReadCounters) {
        let Some(stripe) = self.stripes.get(stripe()) else { return };
        stripe.transactions.fetch_add(1, Ordering::Relaxed);
        for (counter, value) in stripe.reads.iter().zip(reads.values()) {
            if value != 0 {
                counter.fetch_add(value, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn sum(&self) -> ReadTotals {
        let mut totals = ReadTotals::default();
        for stripe in &self.stripes {
            totals.transactions += stripe.transactions.load(Ordering::Relaxed);
            for (sum, counter) in totals.reads.all_mut().into_iter().zip(&stripe.reads) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        totals
    }
}
