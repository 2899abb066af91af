//! What one transaction has acquired, in order: to be given back at its end, or from the end back to a savepoint.
//!
//! Row locks that need too much memory are *handed over*: their entries leave this list and the lock table, and a record in the
//! store stands for them ([`crate::spilled_locks`]). When somebody wants to wait for one it is *brought back*. So what is here is
//! what can be waited for; and the places that were rolled back are remembered, for they may have records.

use cairn_storage::spills::Undone;

use super::modes::Mode;
use super::table::LockKey;

/// What a row lock takes, beside its key: its entry in the lock table, which is half empty, and its place here. About.
const LOCK_BYTES: usize = 250;

/// A mode that was added to what the transaction holds of a key.
#[derive(Debug)]
pub(super) struct Acquired {
    /// From 1 up; 0 before it is put into the list.
    pub(super) place: u64,
    pub(super) key: LockKey,
    pub(super) hash: u64,
    pub(super) mode: Mode,
}

impl Acquired {
    fn bytes(&self) -> usize {
        match &self.key {
            LockKey::Row(key) => LOCK_BYTES + key.len(),
            LockKey::Object(_) => LOCK_BYTES,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct AcquiredList {
    /// Ascending by place; not every place is there.
    entries: Vec<Acquired>,
    last: u64,
    bytes: usize,
    /// No later place has a record.
    handed_over: u64,
    /// Places that were rolled back and may have records.
    undone: Undone<u64>,
    ended: bool,
}

impl AcquiredList {
    pub(super) fn push(&mut self, mut acquired: Acquired) {
        self.last += 1;
        acquired.place = self.last;
        self.bytes += acquired.bytes();
        self.entries.push(acquired);
    }

    /// Puts it before all others, where no savepoint undoes it.
    pub(super) fn push_front(&mut self, acquired: Acquired) {
        self.bytes += acquired.bytes();
        self.entries.insert(0, acquired);
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Acquired> {
        self.entries.iter()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The transaction ends: takes everything.
    pub(super) fn end(&mut self) -> Vec<Acquired> {
        self.ended = true;
        self.bytes = 0;
        std::mem::take(&mut self.entries)
    }

    /// Takes what has a later place than `mark`.
    pub(super) fn split_off(&mut self, mark: u64) -> Vec<Acquired> {
        if self.handed_over > mark {
            self.undone.add(mark + 1, self.last);
        }
        let from = self.entries.partition_point(|entry| entry.place <= mark);
        let undone = self.entries.split_off(from);
        self.bytes -= undone.iter().map(Acquired::bytes).sum::<usize>();
        undone
    }

    /// Whether a lock that was handed over has been rolled back since.
    pub(super) fn is_undone(&self, place: u64) -> bool {
        self.undone.contains(place)
    }

    /// Records are going to be written, of places up to this one.
    pub(super) fn begin_hand_over(&mut self, up_to: u64) {
        self.handed_over = self.handed_over.max(up_to);
    }

    /// Takes those of which `gone` says so: they have records.
    pub(super) fn hand_over(&mut self, mut gone: impl FnMut(&Acquired) -> bool) {
        for entry in self.entries.extract_if(.., |entry| gone(entry)) {
            self.bytes -= entry.bytes();
        }
        if self.entries.capacity() > 2 * self.entries.len() {
            self.entries.shrink_to_fit();
        }
    }

    pub(super) fn has(&self, place: u64) -> bool {
        self.entries.binary_search_by_key(&place, |entry| entry.place).is_ok()
    }

    /// Puts one back that was handed over.
    pub(super) fn bring_back(&mut self, acquired: Acquired) {
        let at = self.entries.partition_point(|entry| entry.place < acquired.place);
        self.bytes += acquired.bytes();
        self.entries.insert(at, acquired);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::RowLockMode;

    fn row() -> Acquired {
        let key = LockKey::Row(Arc::from(&b"k"[..]));
        Acquired { place: 0, key, hash: 0, mode: Mode::of_row(RowLockMode::Share) }
    }

    fn places(list: &AcquiredList) -> Vec<u64> {
        list.iter().map(|entry| entry.place).collect()
    }

    #[test]
    fn what_comes_back_takes_its_old_place() {
        let mut list = AcquiredList::default();
        (0..6).for_each(|_| list.push(row()));
        list.begin_hand_over(6);
        list.hand_over(|entry| entry.place < 6);
        assert_eq!(places(&list), [6]);
        list.bring_back(Acquired { place: 3, ..row() });
        list.bring_back(Acquired { place: 2, ..row() });
        assert_eq!(places(&list), [2, 3, 6]);
        assert!(list.has(3) && !list.has(4));
        let undone = list.split_off(2);
        assert_eq!(undone.iter().map(|entry| entry.place).collect::<Vec<_>>(), [3, 6]);
        assert!(
            !list.is_undone(2) && list.is_undone(3) && list.is_undone(5),
            "the record of 5 counts for nothing"
        );
        list.push(row());
        assert_eq!(places(&list), [2, 7]);
        assert!(!list.is_undone(7));
        assert_eq!(list.end().len(), 2);
        assert_eq!(list.bytes(), 0);
    }

    proptest! {
        #[test]
        fn undone_is_the_union(steps in proptest::collection::vec((0u64..4, 0u64..6), 0..12)) {
            let (mut list, mut places, mut newest) =
                (AcquiredList::default(), std::collections::BTreeSet::new(), 1);
            for (forward, back) in steps {
                newest += forward;
                let first = newest.saturating_sub(back);
                list.undone.add(first, newest);
                places.extend(first..=newest);
            }
            for place in 0..newest + 3 {
                prop_assert_eq!(list.is_undone(place), places.contains(&place), "{}", place);
            }
        }
    }
}
