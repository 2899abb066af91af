//! What provisional records and commit records look like.
//!
//! ```text
//! provisional record, behind the kind of the stored value
//! +--------------+-----------+-----------+-----------+---------+ ...
//! | spill number | command   | epoch     | length    | value   |    further writes of the key, oldest first
//! | u64          | u32       | u32       | u32       | bytes   |
//! +--------------+-----------+-----------+-----------+---------+ ...
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
use crate::{Error, Result, Timestamp, meta, value};

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

/// The writes of a provisional record, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes<'a>(&'a [u8]);

/// Divides a provisional record, without its kind, into the spill's number and the writes.
#[inline]
pub(crate) fn split(record: &[u8]) -> Result<(SpillNumber, Writes<'_>)> {
    match record.split_first_chunk() {
        Some((number, writes)) => Ok((u64::from_be_bytes(*number), Writes(writes))),
        None => Err(corrupt(record)),
    }
}

#[cold]
fn corrupt(bytes: &[u8]) -> Error {
    Error::Corruption {
        what: "provisional record",
        detail: format!("{} bytes, first {:02x?}", bytes.len(), bytes.get(..16).unwrap_or(bytes)),
    }
}

impl<'a> Writes<'a> {
    /// The last of the writes for which `counts`.
    #[inline]
    pub(crate) fn last(self, counts: impl Fn(&OwnVersion<'a>) -> bool) -> Result<Option<OwnVersion<'a>>> {
        let mut last = None;
        for write in self {
            last = Some(write?).filter(&counts).or(last);
        }
        Ok(last)
    }

    /// The last write that was not undone.
    #[inline]
    pub(crate) fn newest(self, undone: &Undone) -> Result<Option<OwnVersion<'a>>> {
        self.last(|write| !undone.contains(write.epoch))
    }
}

impl<'a> Iterator for Writes<'a> {
    type Item = Result<OwnVersion<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = |rest: &mut &'a [u8]| {
            let (number, behind) = rest.split_first_chunk::<4>()?;
            *rest = behind;
            Some(u32::from_be_bytes(*number))
        };
        let write = |rest: &mut &'a [u8]| {
            let (command, epoch, length) = (read(rest)?, read(rest)?, read(rest)?);
            let value = if length == DELETED {
                None
            } else {
                let (value, behind) = rest.split_at_checked(length as usize)?;
                *rest = behind;
                Some(value)
            };
            Some(OwnVersion { command, epoch, value })
        };
        let before = self.0;
        let found = write(&mut self.0);
        if found.is_none() {
            self.0 = &[];
        }
        Some(found.ok_or_else(|| corrupt(before)))
    }
}

/// Appends the stored value of a provisional record without writes.
pub fn begin_record(stored: &mut Vec<u8>, number: SpillNumber) {
    stored.push(value::PROVISIONAL);
    stored.extend_from_slice(&number.to_be_bytes());
}

/// Adds a write, later than those before it.
pub fn push_version(stored: &mut Vec<u8>, version: OwnVersion<'_>) {
    stored.extend_from_slice(&version.command.to_be_bytes());
    stored.extend_from_slice(&version.epoch.to_be_bytes());
    // A value is far shorter than 4 GB.
    let length = version.value.map_or(DELETED, |value| value.len() as u32);
    stored.extend_from_slice(&length.to_be_bytes());
    stored.extend_from_slice(version.value.unwrap_or_default());
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

    #[inline]
    pub fn contains(&self, number: N) -> bool {
        !self.0.is_empty() && self.contains_in_list(number)
    }

    fn contains_in_list(&self, number: N) -> bool {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn writes(record: &[u8]) -> Writes<'_> {
        split(&record[1..]).unwrap().1
    }

    #[test]
    fn layouts_are_pinned() {
        let mut bytes = Vec::new();
        begin_record(&mut bytes, 258);
        push_version(&mut bytes, OwnVersion { command: 1, epoch: 3, value: Some(b"ab") });
        push_version(&mut bytes, OwnVersion { command: 2, epoch: 4, value: None });
        let number = [3, 0, 0, 0, 0, 0, 0, 1, 2];
        let first = [0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, b'a', b'b'];
        assert_eq!(bytes, [&number[..], &first, &[0, 0, 0, 2, 0, 0, 0, 4, 255, 255, 255, 255]].concat());
        assert_eq!(split(&bytes[1..]).unwrap().0, 258);
        let mut undone = Undone::default();
        undone.add(5, 6);
        let commit = undone.encode_commit(Timestamp(7));
        assert_eq!(commit, [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 6]);
        assert_eq!(Undone::decode_commit(&commit).unwrap(), (Timestamp(7), undone));
    }

    #[test]
    fn undone_writes_do_not_count() {
        let version = |command, epoch, value| OwnVersion { command, epoch, value };
        let mut record = Vec::new();
        begin_record(&mut record, 1);
        for version in [version(1, 0, Some(&b"a"[..])), version(1, 2, Some(&b"b"[..])), version(4, 3, None)] {
            push_version(&mut record, version);
        }
        let mut undone = Undone::default();
        assert_eq!(writes(&record).newest(&undone).unwrap(), Some(version(4, 3, None)));
        assert_eq!(writes(&record).last(|write| write.command < 4).unwrap(), Some(version(1, 2, Some(b"b"))));
        undone.add(2, 3);
        assert_eq!(writes(&record).newest(&undone).unwrap(), Some(version(1, 0, Some(b"a"))));
        undone.add(0, 4);
        assert_eq!(writes(&record).newest(&undone).unwrap(), None);
        // Cut off.
        record.pop();
        assert!(writes(&record).newest(&undone).is_err());
    }

    proptest! {
        #[test]
        fn decoders_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((_, writes)) = split(&bytes) {
                let _ = writes.newest(&Undone::default());
            }
            let _ = Undone::decode_commit(&bytes);
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
