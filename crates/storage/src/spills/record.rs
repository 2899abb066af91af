//! What the records of a spill look like.
//!
//! ```text
//! record of a key
//! +--------+-----------+-----------+-----------+---------+ ...
//! | 00     | command   | epoch     | length    | value   |    further writes of the key, oldest first
//! | 1 byte | u32       | u32       | u32       | bytes   |
//! +--------+-----------+-----------+-----------+---------+ ...
//! length ffffffff: the key was deleted; no value follows
//!
//! commit record
//! +----+-------------+-----------------------------+ ...
//! | 01 | commit time | first and last undone epoch |    further undone epochs, ascending
//! |    | u64         | u32, u32                    |
//! +----+-------------+-----------------------------+ ...
//! ```
//! All numbers are big endian.

use crate::spills::SpillNumber;
use crate::{Error, Result, Timestamp, meta};

const DELETED: u32 = u32::MAX;
const COMMIT_FORMAT: u8 = 1;

/// One write of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnVersion<'a> {
    pub command: u32,
    pub epoch: u32,
    /// `None`: deleted.
    pub value: Option<&'a [u8]>,
}

/// The writes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Oldest first.
    pub versions: Vec<OwnVersion<'a>>,
}

impl<'a> Record<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let corrupt = || Error::Corruption {
            what: "provisional record",
            detail: format!("{} bytes, first {:02x?}", bytes.len(), bytes.get(..16).unwrap_or(bytes)),
        };
        let (_, mut rest) = bytes.split_first().ok_or_else(corrupt)?;
        let mut versions = Vec::with_capacity(1);
        let number = |rest: &mut &'a [u8]| -> Result<u32> {
            let (number, behind) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
            *rest = behind;
            Ok(u32::from_be_bytes(*number))
        };
        while !rest.is_empty() {
            let command = number(&mut rest)?;
            let epoch = number(&mut rest)?;
            let length = number(&mut rest)?;
            let value = if length == DELETED {
                None
            } else {
                let (value, behind) = rest.split_at_checked(length as usize).ok_or_else(corrupt)?;
                rest = behind;
                Some(value)
            };
            versions.push(OwnVersion { command, epoch, value });
        }
        Ok(Record { versions })
    }

    /// What a snapshot of `command` sees: `None` if nothing of the transaction's own.
    pub fn visible(&self, command: u32, undone: &Undone) -> Option<OwnVersion<'a>> {
        let seen = |version: &&OwnVersion<'_>| version.command < command && !undone.contains(version.epoch);
        self.versions.iter().rev().find(seen).copied()
    }

    /// The last write that was not undone.
    pub fn newest(&self, undone: &Undone) -> Option<OwnVersion<'a>> {
        self.versions.iter().rev().find(|version| !undone.contains(version.epoch)).copied()
    }

    /// The first of the commands from `since` on whose write was not undone.
    pub fn first_command(&self, since: u32, undone: &Undone) -> Option<u32> {
        let counts = |version: &&OwnVersion<'_>| version.command >= since && !undone.contains(version.epoch);
        self.versions.iter().find(counts).map(|version| version.command)
    }
}

/// Replaces `bytes` by a record without writes.
pub fn begin_record(bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.push(0);
}

/// Adds a write, later than those before it.
pub fn push_version(bytes: &mut Vec<u8>, version: OwnVersion<'_>) {
    bytes.extend_from_slice(&version.command.to_be_bytes());
    bytes.extend_from_slice(&version.epoch.to_be_bytes());
    // A value is far shorter than 4 GB.
    let length = version.value.map_or(DELETED, |value| value.len() as u32);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(version.value.unwrap_or_default());
}

/// What a transaction has taken back of something that it numbers as it goes, epochs as a rule: intervals, both ends
/// included, ascending and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone<N = u32>(Vec<(N, N)>);

impl<N: Copy + Ord + Into<u64>> Undone<N> {
    /// All from `first` to `last`, which is the newest one.
    pub fn add(&mut self, mut first: N, last: N) {
        while let Some((low, high)) = self.0.last().copied()
            && first.into() <= high.into().saturating_add(1)
        {
            first = first.min(low);
            self.0.pop();
        }
        self.0.push((first, last));
    }

    pub fn contains(&self, number: N) -> bool {
        let behind = self.0.partition_point(|(first, _)| *first <= number);
        behind.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, last)| number <= *last)
    }
}

impl Undone {
    pub(crate) fn encode_commit(&self, time: Timestamp) -> Vec<u8> {
        let mut bytes = vec![COMMIT_FORMAT];
        bytes.extend_from_slice(&time.0.to_be_bytes());
        for (first, last) in &self.0 {
            bytes.extend_from_slice(&first.to_be_bytes());
            bytes.extend_from_slice(&last.to_be_bytes());
        }
        bytes
    }

    pub(crate) fn decode_commit(bytes: &[u8]) -> Result<(Timestamp, Self)> {
        const WHAT: &str = "commit record";
        let [COMMIT_FORMAT, rest @ ..] = bytes else { return Err(meta::corrupt(WHAT, bytes)) };
        let (time, intervals) = rest.split_at_checked(8).ok_or_else(|| meta::corrupt(WHAT, bytes))?;
        if !intervals.len().is_multiple_of(8) {
            return Err(meta::corrupt(WHAT, bytes));
        }
        let intervals = intervals.chunks_exact(8).map(|interval| {
            Ok((meta::read_u32(WHAT, &interval[..4])?, meta::read_u32(WHAT, &interval[4..])?))
        });
        Ok((meta::read_time(WHAT, time)?, Undone(intervals.collect::<Result<_>>()?)))
    }
}

/// Key of a record, without the row's key: all records of the spill begin with it.
pub(crate) fn prefix(number: SpillNumber) -> [u8; 8] {
    number.to_be_bytes()
}

/// Replaces `bytes` by the key of a record.
pub(crate) fn write_key(bytes: &mut Vec<u8>, number: SpillNumber, key: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(&prefix(number));
    bytes.extend_from_slice(key);
}

/// Takes the key of a record apart.
pub(crate) fn split_key(bytes: &[u8]) -> Result<(SpillNumber, &[u8])> {
    let corrupt = || meta::corrupt("key of a provisional record", bytes);
    let (number, key) = bytes.split_first_chunk::<8>().ok_or_else(corrupt)?;
    Ok((u64::from_be_bytes(*number), key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layouts_are_pinned() {
        let mut bytes = vec![9];
        begin_record(&mut bytes);
        push_version(&mut bytes, OwnVersion { command: 1, epoch: 3, value: Some(b"ab") });
        push_version(&mut bytes, OwnVersion { command: 2, epoch: 4, value: None });
        let expected = [0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, b'a', b'b'];
        assert_eq!(bytes, [&expected[..], &[0, 0, 0, 2, 0, 0, 0, 4, 255, 255, 255, 255]].concat());
        let mut undone = Undone::default();
        undone.add(5, 6);
        let commit = undone.encode_commit(Timestamp(7));
        assert_eq!(commit, [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 6]);
        assert_eq!(Undone::decode_commit(&commit).unwrap(), (Timestamp(7), undone));
        write_key(&mut bytes, 258, b"k");
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 1, 2, b'k']);
        assert_eq!(split_key(&bytes).unwrap(), (258, &b"k"[..]));
    }

    #[test]
    fn undone_writes_do_not_count() {
        let version = |command, epoch, value| OwnVersion { command, epoch, value };
        let versions =
            vec![version(1, 0, Some(&b"a"[..])), version(1, 2, Some(&b"b"[..])), version(4, 3, None)];
        let record = Record { versions };
        let mut undone = Undone::default();
        assert_eq!(record.newest(&undone), Some(version(4, 3, None)));
        assert_eq!(record.visible(4, &undone), Some(version(1, 2, Some(b"b"))));
        undone.add(2, 3);
        assert_eq!(record.newest(&undone), Some(version(1, 0, Some(b"a"))));
        assert_eq!(record.visible(1, &undone), None);
        undone.add(0, 4);
        assert_eq!(record.newest(&undone), None);
    }

    proptest! {
        #[test]
        fn decoders_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Record::decode(&bytes);
            let _ = Undone::decode_commit(&bytes);
            let _ = split_key(&bytes);
        }

        #[test]
        fn undone_is_the_union(steps in proptest::collection::vec((0u32..4, 0u32..6), 0..12)) {
            let (mut undone, mut epochs, mut newest) = (Undone::default(), std::collections::BTreeSet::new(), 0);
            for (forward, back) in steps {
                newest += forward;
                let first = newest.saturating_sub(back);
                undone.add(first, newest);
                epochs.extend(first..=newest);
            }
            for epoch in 0..newest + 3 {
                prop_assert_eq!(undone.contains(epoch), epochs.contains(&epoch), "{}", epoch);
            }
        }
    }
}
