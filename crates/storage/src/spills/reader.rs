//! What a reader makes of the entries that it meets: versions, and provisional records.

use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::record::{self, Writes};
use super::{Commit, OwnVersion, SpillNumber, SpillState, Spills, Undone};
use crate::value::{self, Stored};
use crate::{Engine, ReadStats, Result, Timestamp, Version};

/// An entry of the store to a reader. Payloads are `None` for tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'v> {
    /// Committed at this time.
    Version(Timestamp, Option<&'v [u8]>),
    /// The reader's own uncommitted write.
    Own(Option<&'v [u8]>),
    /// Uncommitted: if it is ever committed, then later than every time that was visible when the entry was read.
    Running,
    /// Rolled back; or an own write that the reader's command does not see.
    Nothing,
}

/// Where in an entry a part of it lies.
#[inline]
pub(crate) fn place(entry: &[u8], part: Option<&[u8]>) -> Option<Range<usize>> {
    part.map(|part| {
        let from = part.as_ptr() as usize - entry.as_ptr() as usize;
        from..from + part.len()
    })
}

/// Which of its transaction's spilled writes a reader sees.
#[derive(Clone, Debug)]
pub struct OwnWrites {
    pub number: SpillNumber,
    /// Those of commands before this one.
    pub command: u32,
    pub undone: Arc<Undone>,
}

/// How a cursor reads.
#[derive(Clone, Debug)]
pub enum Reading {
    /// What is committed.
    Committed,
    /// That, and the reader's own writes laid over it.
    Own(OwnWrites),
    /// A key space that only its reader knows and to which it still adds rows in the past (bulk load): nothing is learned of it. Own
    /// writes as above.
    Private(Option<OwnWrites>),
}

/// Tells what entries are. It remembers the spill that it met last, so that it is good for many rows of one reader.
pub(crate) struct EntryReader<S> {
    spills: S,
    own: Option<OwnWrites>,
    /// One that has ended; `None`: it was rolled back.
    last: Option<(SpillNumber, Option<Commit>)>,
}

impl<S: Deref<Target = Spills>> EntryReader<S> {
    pub(crate) fn new(spills: S, own: Option<OwnWrites>) -> Self {
        EntryReader { spills, own, last: None }
    }

    /// Whether it sees writes of a running transaction.
    #[inline]
    pub(crate) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// What an entry is whose key has `time`.
    #[inline]
    pub(crate) fn read<'v>(&mut self, time: Timestamp, stored: &'v [u8]) -> Result<Entry<'v>> {
        match value::read_stored(stored)? {
            Stored::Version(own_time, payload) => Ok(Entry::Version(own_time.unwrap_or(time), payload)),
            Stored::Provisional(record) => self.read_record(record),
        }
    }

    fn read_record<'v>(&mut self, record: &'v [u8]) -> Result<Entry<'v>> {
        let (number, writes) = record::split(record)?;
        if let Some((last, commit)) = &self.last
            && *last == number
        {
            return of_ended(commit.as_ref(), writes);
        }
        if let Some(own) = &self.own
            && own.number == number
        {
            let seen =
                |write: &OwnVersion<'_>| write.command < own.command && !own.undone.contains(write.epoch);
            return Ok(writes.last(seen)?.map_or(Entry::Nothing, |write| Entry::Own(write.value)));
        }
        let commit = match self.spills.state(number) {
            SpillState::Running => return Ok(Entry::Running),
            SpillState::Committed(commit) => Some(commit),
            SpillState::RolledBack => None,
        };
        let (_, commit) = self.last.insert((number, commit));
        of_ended(commit.as_ref(), writes)
    }
}

#[inline]
fn of_ended<'v>(commit: Option<&Commit>, writes: Writes<'v>) -> Result<Entry<'v>> {
    let Some(commit) = commit else { return Ok(Entry::Nothing) };
    let newest = writes.newest(&commit.undone)?;
    Ok(newest.map_or(Entry::Nothing, |write| Entry::Version(commit.time, write.value)))
}

impl Engine {
    /// For reads of what is committed.
    pub(crate) fn entry_reader(&self) -> EntryReader<&Spills> {
        EntryReader::new(self.spills(), None)
    }

    /// Shows the writes that a running spill has made of a key, newest first, until `visit` answers `false`.
    pub fn visit_own_writes(
        &self,
        number: SpillNumber,
        key: &[u8],
        mut visit: impl FnMut(OwnVersion<'_>) -> bool,
    ) -> Result<()> {
        let mut reader = self.point_reader()?;
        reader.seek_version(key, Timestamp::MAX);
        // Own writes that count are in front of what others have committed: the row has been locked since the first of them. What
        // others have rolled back may lie anywhere.
        while let Some((_, stored)) = reader.entry_of(key)?
            && let Stored::Provisional(record) = value::read_stored(stored)?
        {
            let (of, writes) = record::split(record)?;
            if of == number {
                let oldest_first = writes.collect::<Result<smallvec::SmallVec<[OwnVersion<'_>; 2]>>>()?;
                if !oldest_first.into_iter().rev().all(&mut visit) {
                    return Ok(());
                }
            } else if !matches!(self.spills().state(of), SpillState::RolledBack) {
                return Ok(());
            }
            reader.next();
        }
        Ok(())
    }

    /// The last write that a running spill has made of a key and not undone, with its command; and the newest committed version.
    pub fn newest_with_own(
        &self,
        number: SpillNumber,
        undone: &Undone,
        key: &[u8],
        stats: &mut ReadStats,
    ) -> Result<(Option<(u32, Option<Bytes>)>, Option<Version>)> {
        stats.counters.requests += 1;
        stats.counters.seeks += 1;
        let mut entries = self.entry_reader();
        let mut reader = self.point_reader()?;
        reader.seek_version(key, Timestamp::MAX);
        let mut own = None;
        while let Some((time, stored)) = reader.entry_of(key)? {
            if let Stored::Provisional(record) = value::read_stored(stored)?
                && let (of, writes) = record::split(record)?
                && of == number
            {
                if own.is_none() {
                    let newest = writes.newest(undone)?;
                    own = newest.map(|write| (write.command, write.value.map(Bytes::copy_from_slice)));
                }
            } else if let Entry::Version(time, payload) = entries.read(time, stored)? {
                stats.newest_seen = stats.newest_seen.max(time);
                let value = payload.map(Bytes::copy_from_slice);
                return Ok((own, Some(Version { time, value })));
            }
            stats.counters.versions_skipped += 1;
            stats.counters.nexts += 1;
            reader.next();
        }
        Ok((own, None))
    }

    /// Provisional records among the entries of a key; for tests.
    pub fn provisional_records(&self, key: &[u8]) -> Result<usize> {
        let mut reader = self.point_reader()?;
        reader.seek_version(key, Timestamp::MAX);
        let mut count = 0;
        while let Some((_, stored)) = reader.entry_of(key)? {
            count += usize::from(matches!(value::read_stored(stored)?, Stored::Provisional(_)));
            reader.next();
        }
        Ok(count)
    }
}

impl crate::Batch<'_> {
    /// Provisional records, written at `time`, which is the clock's: key, record ([`record::begin_record`]), and whether it deletes
    /// and nothing else. Ascending by key. The batch is built and written inside the commit section.
    pub fn provisional<'r>(
        &mut self,
        time: Timestamp,
        records: impl Iterator<Item = (&'r [u8], &'r [u8], bool)> + Clone,
    ) {
        // A tombstone makes nothing visible.
        let values: Vec<&[u8]> =
            records.clone().filter(|(.., is_tombstone)| !is_tombstone).map(|(key, ..)| key).collect();
        self.register_values(&values);
        for (key, record, is_tombstone) in records {
            self.entry(key, time, record, is_tombstone);
        }
    }

    /// Before the first record of a spill in a storage, or with it.
    pub fn note_spill_storage(&mut self, number: SpillNumber, storage: crate::StorageId) {
        self.meta_put(&crate::meta::spill_storage_key(number, storage), &[]);
    }

    /// From this batch on, the spill's records are versions of `time`.
    pub fn commit_spill(&mut self, number: SpillNumber, time: Timestamp, undone: &Undone) {
        self.meta_put(&crate::meta::spill_key(number), &undone.encode_commit(time));
    }
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is somebody's who runs, or whose commit is not durable yet.
    NotYet,
    /// It is a version now: the stored value that the caller gave.
    Version,
    /// It is nothing.
    Gone,
}

impl<S: Deref<Target = Spills>> EntryReader<S> {
    /// What becomes of a stored value if it is a record; [`Settled::NotYet`] for versions.
    pub(crate) fn settle(&mut self, stored: &[u8], settled: &mut Vec<u8>) -> Result<Settled> {
        let Stored::Provisional(record) = value::read_stored(stored)? else { return Ok(Settled::NotYet) };
        let (number, writes) = record::split(record)?;
        if self.read_record(record)? == Entry::Running {
            return Ok(Settled::NotYet);
        }
        match &self.last {
            Some((of, Some(commit))) if *of == number => {
                if commit.time > self.spills.durable() {
                    return Ok(Settled::NotYet);
                }
                let Some(newest) = writes.newest(&commit.undone)? else { return Ok(Settled::Gone) };
                value::write_timed(settled, commit.time, newest.value);
                Ok(Settled::Version)
            }
            _ => Ok(Settled::Gone),
        }
    }
}
