//! A transaction's uncommitted writes, in memory and in key order.
//!
//! Each key has a list of versions, one for each command that wrote it, oldest first. A snapshot of command c
//! sees the last one of a command before c. Writes always carry the current command, which is at or above that
//! of every snapshot taken so far; so **what a snapshot sees here never changes while it is in use**, and a
//! cursor may keep what it looked up. The one exception, rolling back to a savepoint, ends the cursors that were
//! opened after it; those from before it see only writes from before it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{CommandId, Direction};

#[derive(Debug)]
struct OwnVersion {
    command: CommandId,
    /// `None`: deleted.
    value: Option<Bytes>,
}

type Versions = SmallVec<[OwnVersion; 1]>;

/// How to take back one write.
#[derive(Debug)]
enum Undo {
    /// A version was added.
    Added { key: Arc<[u8]> },
    /// The last version, of the same command, was overwritten.
    Replaced { key: Arc<[u8]>, value: Option<Bytes> },
}

/// A position in the undo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoMark(usize);

#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    keys: BTreeMap<Arc<[u8]>, Versions>,
    /// Filled only while a savepoint is open.
    undo: Vec<Undo>,
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// `logged`: a savepoint is open, so that this write may have to be taken back alone.
    pub(crate) fn write(&mut self, key: &[u8], command: CommandId, value: Option<Bytes>, logged: bool) {
        let Some(versions) = self.keys.get_mut(key) else {
            let key: Arc<[u8]> = Arc::from(key);
            if logged {
                self.undo.push(Undo::Added { key: key.clone() });
            }
            self.keys.insert(key, SmallVec::from_buf([OwnVersion { command, value }]));
            return;
        };
        let replaced = match versions.last_mut() {
            Some(last) if last.command == command => Some(std::mem::replace(&mut last.value, value)),
            _ => {
                versions.push(OwnVersion { command, value });
                None
            }
        };
        if logged && let Some((key, _)) = self.keys.get_key_value(key) {
            let key = key.clone();
            self.undo.push(match replaced {
                Some(value) => Undo::Replaced { key, value },
                None => Undo::Added { key },
            });
        }
    }

    /// What a snapshot of `command` sees: `None` if nothing of its own, `Some(None)` if it deleted the key.
    pub(crate) fn visible(&self, key: &[u8], command: CommandId) -> Option<&Option<Bytes>> {
        visible(self.keys.get(key)?, command)
    }

    /// The last write of a key, whatever its command.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<(CommandId, &Option<Bytes>)> {
        self.keys.get(key)?.last().map(|version| (version.command, &version.value))
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
            let key: &Arc<[u8]> = key;
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

    pub(crate) fn mark(&self) -> UndoMark {
        UndoMark(self.undo.len())
    }

    /// Takes back everything that was logged since the mark.
    pub(crate) fn undo_to(&mut self, mark: UndoMark) {
        while self.undo.len() > mark.0 {
            match self.undo.pop() {
                None => return,
                Some(Undo::Added { key }) => {
                    if let Some(versions) = self.keys.get_mut(&key) {
                        versions.pop();
                        if versions.is_empty() {
                            self.keys.remove(&key);
                        }
                    }
                }
                Some(Undo::Replaced { key, value }) => {
                    if let Some(last) = self.keys.get_mut(&key).and_then(|versions| versions.last_mut()) {
                        last.value = value;
                    }
                }
            }
        }
    }

    /// No savepoint is open any more.
    pub(crate) fn forget_undo(&mut self) {
        self.undo = Vec::new();
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.undo = Vec::new();
    }
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
        let mark = writes.mark();
        writes.write(b"a", 1, bytes("same command"), true);
        writes.write(b"a", 2, None, true);
        writes.write(b"b", 2, bytes("new"), true);
        writes.undo_to(mark);
        assert_eq!(writes.newest(b"a"), Some((1, &bytes("1"))));
        assert_eq!(writes.newest(b"b"), None);
        assert_eq!(writes.outcome().count(), 1);
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
