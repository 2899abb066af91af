//! What statements do with each table and index, counted since the database was opened (`pg_stat_user_tables`).
//!
//! An object is known by a number that the floor above chooses. As in PostgreSQL, what a transaction did counts even if it
//! is rolled back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::totals::{STRIPES, stripe};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Scan,
    /// A table's rows, or an index's entries, that a scan gave.
    Read,
    /// A table's rows that an index led to.
    Fetch,
    Insert,
    Update,
    Delete,
}

/// Threads add to different lines of memory.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; 6]);

/// The counters of one object.
#[derive(Debug, Default)]
pub struct Activity {
    lines: Box<[Line; STRIPES]>,
}

impl Activity {
    #[inline]
    pub fn count(&self, event: Event, times: u64) {
        if times != 0
            && let Some(counter) = self.lines.get(stripe()).and_then(|line| line.0.get(event as usize))
        {
            counter.fetch_add(times, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        for counter in self.lines.iter().flat_map(|line| &line.0) {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub fn sum(&self, event: Event) -> u64 {
        let counters = self.lines.iter().filter_map(|line| line.0.get(event as usize));
        counters.map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Activities {
    objects: RwLock<HashMap<u32, Arc<Activity>>>,
}

impl Activities {
    pub(crate) fn of(&self, object: u32) -> Arc<Activity> {
        if let Some(activity) = self.find(object) {
            return activity;
        }
        self.objects.write().entry(object).or_default().clone()
    }

    pub(crate) fn find(&self, object: u32) -> Option<Arc<Activity>> {
        self.objects.read().get(&object).cloned()
    }

    pub(crate) fn forget(&self, object: u32) {
        self.objects.write().remove(&object);
    }

    /// Plans hold on to the counters, so they are set to 0, not replaced.
    pub(crate) fn reset(&self, object: Option<u32>) {
        for (_, activity) in
            self.objects.read().iter().filter(|(id, _)| object.is_none_or(|object| object == **id))
        {
            activity.reset();
        }
    }
}
