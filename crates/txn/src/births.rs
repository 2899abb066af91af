//! When key spaces came to be: for a snapshot from before there is nothing in them.
//!
//! The catalog is read at the head, so that an old snapshot meets key spaces that are younger than itself. What a bulk load
//! has put into them carries times from before the commit ([`crate::bulk`]); whoever reads between the two must not see a
//! part of the transaction. And an index that was built later knows nothing of rows that are gone by then.
//!
//! All of this is about snapshots that are held while the commit happens, so it is kept in memory: they end with the
//! process. Who reads at a time in the past has the catalog of that time, and no younger key space in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::{StorageId, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Births {
    /// Of all; spares most reads the map.
    newest: AtomicU64,
    /// Commit time of the transaction that made it. One that is missing is older than every snapshot.
    times: RwLock<HashMap<StorageId, Timestamp>>,
}

impl Births {
    /// Inside the commit section, before anybody can see what the commit at `time` has done: these key spaces are there from now on, and
    /// those are gone.
    pub(crate) fn note(
        &self,
        time: Timestamp,
        created: impl Iterator<Item = StorageId>,
        dropped: &[StorageId],
    ) {
        let mut created = created.peekable();
        if created.peek().is_none() && dropped.is_empty() {
            return;
        }
        let mut times = self.times.write();
        for storage in created {
            times.insert(storage, time);
            self.newest.fetch_max(time.0, Ordering::AcqRel);
        }
        for storage in dropped {
            times.remove(storage);
        }
    }

    /// Whether the key space came to be after `time`.
    #[inline]
    pub(crate) fn is_after(&self, storage: StorageId, time: Timestamp) -> bool {
        self.newest.load(Ordering::Acquire) > time.0 && self.look_up(storage, time)
    }

    #[cold]
    fn look_up(&self, storage: StorageId, time: Timestamp) -> bool {
        self.times.read().get(&storage).is_some_and(|birth| *birth > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_is_younger() {
        let births = Births::default();
        assert!(!births.is_after(1, Timestamp::MIN));
        births.note(Timestamp(10), [1, 2].into_iter(), &[]);
        births.note(Timestamp(20), [3].into_iter(), &[2]);
        assert!(births.is_after(1, Timestamp(9)));
        assert!(!births.is_after(1, Timestamp(10)));
        assert!(!births.is_after(2, Timestamp(9)), "gone");
        assert!(births.is_after(3, Timestamp(19)));
        assert!(!births.is_after(3, Timestamp(20)));
        assert!(!births.is_after(4, Timestamp(5)), "older than all that is known");
    }
}
