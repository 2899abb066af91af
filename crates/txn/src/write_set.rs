//! A transaction's uncommitted writes, in memory and in key order.
//!
//! Each key has a list of versions, one for each command that wrote it, oldest first. A snapshot of command c
//! sees the last one of a command before c. Writes always carry the current command, which is at or above that
//! of every snapshot taken so far; so **what a snapshot sees here never changes while it is in use**, and a
//! cursor may keep what it looked up. The one exception, rolling back to a savepoint, ends the cursors that were
//! opened after it; those from before it see only writes from before it.
//!
//! Every write also carries its *epoch*, which goes up where a savepoint is set behind writes: what a rollback to a savepoint takes
//! back is what was written in the savepoint's epoch or later. Versions that have spilled are told by it.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use smallvec::SmallVec;

use cairn_storage::spills::OwnVersion as StoredVersion;

use crate::{CommandId, Direction};

#[derive(Debug)]
pub(crate) struct OwnVersion {
    command: CommandId,
    epoch: u32,
    /// `None`: deleted.
    value: Option<Bytes>,
}

pub(crate) type Versions = SmallVec<[OwnVersion; 1]>;

/// In the map itself as long as it is short: following a pointer for each comparison would take most of a write's time.
pub(crate) type Key = SmallVec<[u8; 32]>;

/// All writes of a write set, on their way to the store.
#[derive(Debug)]
pub(crate) struct Taken {
    /// In key order.
    pub(crate) keys: std::collections::btree_map::IntoIter<Key, Versions>,
    undo: Vec<Key>,
}

/// What a version takes in memory beside key and value: about, and rather more.
const VERSION_BYTES: usize = 130;

/// A position in the undo log, and the epoch that began there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoMark {
    position: u64,
    pub(crate) epoch: u32,
}

#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    keys: BTreeMap<Key, Versions>,
    /// Keys to which a version was added, in order. Filled only while a savepoint is open.
    undo: Vec<Key>,
    /// Entries of `undo` that were forgotten because their versions have spilled.
    undo_forgotten: u64,
    /// Of the next write.
    epoch: u32,
    /// Something was written in this epoch.
    epoch_used: bool,
    /// Memory in use, about.
    bytes: usize,
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// `logged`: a savepoint is open, so that this write may have to be taken back alone.
    pub(crate) fn write(&mut self, key: &[u8], command: CommandId, value: Option<Bytes>, logged: bool) {
        let epoch = self.epoch;
        self.epoch_used = true;
        let version = OwnVersion { command, epoch, value };
        let added = size_of_version(key, &version);
        let Some(versions) = self.keys.get_mut(key) else {
            let key = Key::from_slice(key);
            if logged {
                self.undo.push(key.clone());
            }
            self.keys.insert(key, SmallVec::from_buf([version]));
            self.bytes += added;
            return;
        };
        self.bytes += added;
        match versions.last_mut() {
            // Whoever takes back the one takes back the other.
            Some(last) if (last.command, last.epoch) == (command, epoch) => {
                self.bytes -= size_of_version(key, last);
                *last = version;
            }
            _ => {
                versions.push(version);
                if logged && let Some((key, _)) = self.keys.get_key_value(key) {
                    let key = key.clone();
                    self.undo.push(key);
                }
            }
        }
    }

    /// Memory in use, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Takes all writes out: the store is going to have them.
    pub(crate) fn take(&mut self) -> Taken {
        self.bytes = 0;
        self.undo_forgotten += self.undo.len() as u64;
        Taken { keys: std::mem::take(&mut self.keys).into_iter(), undo: std::mem::take(&mut self.undo) }
    }

    /// Puts back what the store did not take: `first`, and what is left of `taken`.
    pub(crate) fn put_back(&mut self, first: Vec<(Key, Versions)>, taken: Taken) {
        let Taken { keys, undo } = taken;
        self.undo_forgotten -= undo.len() as u64;
        self.undo = undo;
        self.keys = first.into_iter().chain(keys).collect();
        let all = self.keys.iter().flat_map(|(key, versions)| versions.iter().map(move |one| (key, one)));
        self.bytes = all.map(|(key, version)| size_of_version(key, version)).sum();
    }

    /// What a snapshot of `command` sees: `None` if nothing of its own, `Some(None)` if it deleted the key.
    pub(crate) fn visible(&self, key: &[u8], command: CommandId) -> Option<&Option<Bytes>> {
        visible(self.keys.get(key)?, command)
    }

    /// The last write of a key, whatever its command.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<(CommandId, &Option<Bytes>)> {
        self.keys.get(key)?.last().map(|version| (version.command, &version.value))
    }

    /// The first of the commands from `since` on that have written the key.
    pub(crate) fn first_command(&self, key: &[u8], since: CommandId) -> Option<CommandId> {
        self.keys.get(key)?.iter().map(|version| version.command).find(|command| *command >= since)
    }

    /// The first key between the bounds, in `direction`, of which `command` sees an own version.
    pub(crate) fn next_visible(
        &self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        direction: Direction,
        command: CommandId,
    ) -> Option<(&[u8], &Option<Bytes>)> {
        if !is_range(low, high) {
            return None;
        }
        let mut range = self.keys.range::<[u8], _>((low, high));
        let seen = |(key, versions)| -> Option<(&[u8], &Option<Bytes>)> {
            let key: &Key = key;
            visible(versions, command).map(|value| (&key[..], value))
        };
        match direction {
            Direction::Forward => range.find_map(seen),
            Direction::Backward => range.rev().find_map(seen),
        }
    }

    /// The last write of every key, in key order: what a commit makes everybody's.
    pub(crate) fn outcome(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.keys.iter().filter_map(|(key, versions)| Some((&key[..], versions.last()?.value.as_deref())))
    }

    /// What is written from now on can be taken back by itself.
    pub(crate) fn mark(&mut self) -> UndoMark {
        if self.epoch_used {
            self.next_epoch();
        }
        UndoMark { position: self.undo_forgotten + self.undo.len() as u64, epoch: self.epoch }
    }

    pub(crate) fn next_epoch(&mut self) {
        self.epoch += 1;
        self.epoch_used = false;
    }

    /// Takes back everything that was logged since the mark and is still here.
    pub(crate) fn undo_to(&mut self, mark: UndoMark) {
        while self.undo_forgotten + self.undo.len() as u64 > mark.position {
            let Some(key) = self.undo.pop() else { return };
            if let Some(versions) = self.keys.get_mut(&key) {
                while let Some(last) = versions.last()
                    && last.epoch >= mark.epoch
                {
                    self.bytes -= size_of_version(&key, last);
                    versions.pop();
                }
                if versions.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
    }

    /// No savepoint is open any more.
    pub(crate) fn forget_undo(&mut self) {
        self.undo_forgotten += self.undo.len() as u64;
        self.undo = Vec::new();
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.undo = Vec::new();
        self.bytes = 0;
    }
}

impl OwnVersion {
    /// As a record has it.
    pub(crate) fn stored(&self) -> StoredVersion<'_> {
        StoredVersion { command: self.command, epoch: self.epoch, value: self.value.as_deref() }
    }
}

fn size_of_version(key: &[u8], version: &OwnVersion) -> usize {
    // The key is in the map and in the lock table.
    VERSION_BYTES + 2 * key.len() + version.value.as_ref().map_or(0, Bytes::len)
}

fn visible(versions: &Versions, command: CommandId) -> Option<&Option<Bytes>> {
    versions.iter().rev().find(|version| version.command < command).map(|version| &version.value)
}

/// `BTreeMap::range` panics on what this refuses.
fn is_range(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(low), Bound::Excluded(high)) => low < high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low <= high
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_command_sees_writes_of_earlier_ones() {
        let mut writes = WriteSet::default();
        writes.write(b"k", 1, bytes("one"), false);
        writes.write(b"k", 3, None, false);
        writes.write(b"k", 3, bytes("three"), false);
        assert_eq!(writes.visible(b"k", 1), None);
        assert_eq!(writes.visible(b"k", 2), Some(&bytes("one")));
        assert_eq!(writes.visible(b"k", 3), Some(&bytes("one")));
        assert_eq!(writes.visible(b"k", 4), Some(&bytes("three")));
        assert_eq!(writes.newest(b"k"), Some((3, &bytes("three"))));
    }

    #[test]
    fn undo_restores_every_state() {
        let mut writes = WriteSet::default();
        writes.write(b"a", 1, bytes("1"), false);
        let used = writes.bytes();
        let mark = writes.mark();
        writes.write(b"a", 1, bytes("same command"), true);
        writes.write(b"a", 1, bytes("once more"), true);
        writes.write(b"a", 2, None, true);
        writes.write(b"b", 2, bytes("new"), true);
        writes.undo_to(mark);
        assert_eq!(writes.bytes(), used);
        assert_eq!(writes.newest(b"a"), Some((1, &bytes("1"))));
        assert_eq!(writes.newest(b"b"), None);
        assert_eq!(writes.outcome().count(), 1);
    }

    #[test]
    fn what_has_spilled_is_forgotten() {
        let mut writes = WriteSet::default();
        writes.write(b"a", 1, bytes("1"), false);
        let mark = writes.mark();
        writes.write(b"b", 1, bytes("2"), true);
        drop(writes.take());
        assert!(writes.newest(b"a").is_none() && writes.newest(b"b").is_none());
        assert_eq!((writes.bytes(), writes.undo.len()), (0, 0));
        writes.write(b"b", 1, bytes("3"), true);
        let inner = writes.mark();
        writes.write(b"c", 2, bytes("4"), true);
        writes.undo_to(inner);
        assert_eq!(writes.outcome().count(), 1);
        writes.undo_to(mark);
        assert!(writes.is_empty());
    }

    #[test]
    fn what_the_store_did_not_take_can_be_undone() {
        let mut writes = WriteSet::default();
        writes.write(b"a", 1, bytes("1"), false);
        writes.write(b"b", 1, bytes("1"), false);
        let mark = writes.mark();
        writes.write(b"b", 2, bytes("2"), true);
        writes.write(b"c", 2, bytes("2"), true);
        let used = writes.bytes();
        let mut taken = writes.take();
        let first: Vec<_> = taken.keys.by_ref().take(2).collect();
        writes.put_back(first, taken);
        assert_eq!(writes.bytes(), used);
        assert_eq!(writes.newest(b"b"), Some((2, &bytes("2"))));
        // The store has the first key this time.
        let mut taken = writes.take();
        drop(taken.keys.next());
        writes.put_back(Vec::new(), taken);
        writes.undo_to(mark);
        let left: Vec<_> = writes.outcome().collect();
        assert_eq!(left, [(&b"b"[..], Some(&b"1"[..]))]);
    }

    #[test]
    fn empty_and_inverted_ranges_are_empty() {
        let mut writes = WriteSet::default();
        writes.write(b"b", 1, bytes("1"), false);
        for (low, high) in [(&b"b"[..], &b"b"[..]), (b"c", b"a")] {
            for direction in [Direction::Forward, Direction::Backward] {
                assert!(
                    writes.next_visible(Bound::Included(low), Bound::Excluded(high), direction, 2).is_none()
                );
                assert!(
                    writes.next_visible(Bound::Excluded(low), Bound::Excluded(high), direction, 2).is_none()
                );
            }
        }
    }
}
