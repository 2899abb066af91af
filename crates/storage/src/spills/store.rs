//! Reading, writing, moving and recovering provisional records.

use super::record::{self, Record, Undone};
use super::{SpillNumber, SpillState};
use crate::iterator::OwnedIterator;
use crate::{Batch, Direction, Engine, ReadStats, Result, StorageId, Timestamp, key, meta, row_locks};

pub(crate) const COLUMN_FAMILY: &str = "provisional";

/// A batch of the mover has about so many bytes of records.
const MOVED_AT_ONCE: usize = 256 << 10;

impl Batch<'_> {
    /// The writes of `key` by a spill. `first`: the spill has no record of the key yet. The batch is built and written
    /// inside the commit section.
    pub fn provisional(&mut self, number: SpillNumber, key: &[u8], record: &[u8], first: bool) {
        if first {
            self.marker(key, Timestamp::provisional(number));
        }
        let mut record_key = Vec::with_capacity(8 + key.len());
        record::write_key(&mut record_key, number, key);
        let family = self.engine().provisional_family();
        self.rocks().put_cf(family, &record_key, record);
    }

    /// From this batch on, the spill's records are versions of `time`.
    pub fn commit_spill(&mut self, number: SpillNumber, time: Timestamp, undone: &Undone) {
        self.meta_put(&meta::spill_key(number), &undone.encode_commit(time));
    }
}

impl Engine {
    /// The record that a spill has of a key.
    pub fn provisional_record(&self, number: SpillNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut record_key = Vec::with_capacity(8 + key.len());
        record::write_key(&mut record_key, number, key);
        Ok(self.db.get_cf(self.provisional_family(), &record_key)?)
    }

    /// Spills that have a marker on the key now, ended ones among them.
    pub fn spills_of(&self, key: &[u8]) -> Result<Vec<SpillNumber>> {
        self.point_reader()?.spills_of(key)
    }

    /// The records of a spill, as they are now.
    pub fn provisional_cursor(&self, number: SpillNumber) -> ProvisionalCursor {
        let iterator = OwnedIterator::of_family(self.db.clone(), COLUMN_FAMILY);
        ProvisionalCursor { iterator, prefix: record::prefix(number) }
    }

    /// Clears away the next records of a spill that has ended, behind those of key `behind`, which is replaced: moves them if it was
    /// committed, deletes them otherwise. `false`: nothing is left.
    pub fn settle_spill(&self, number: SpillNumber, behind: &mut Vec<u8>) -> Result<bool> {
        let commit = match self.spills.state(number) {
            Some(SpillState::InProgress) => return Ok(false),
            Some(SpillState::Committed { time, undone }) => Some((time, undone)),
            None => None,
        };
        let mut batch = self.batch();
        let mut cursor = self.provisional_cursor(number);
        cursor.seek(behind);
        let mut first = None;
        let mut bytes = 0;
        while let Some((key, record)) = cursor.current()? {
            if bytes >= MOVED_AT_ONCE {
                break;
            }
            if let Some((time, undone)) = &commit
                && let Some(newest) = Record::decode(record)?.newest(undone)
            {
                batch.version(key, *time, newest.value);
            }
            batch.delete_marker(key, Timestamp::provisional(number));
            bytes += key.len() + record.len() + key::TIME_BYTES;
            first.get_or_insert_with(|| key.to_vec());
            behind.clear();
            behind.extend_from_slice(key);
            behind.push(0);
            cursor.step(Direction::Forward);
        }
        let more = cursor.current()?.is_some();
        if let Some(first) = first {
            let (mut from, mut to) = (Vec::new(), Vec::new());
            record::write_key(&mut from, number, &first);
            record::write_key(&mut to, number, behind);
            let family = self.provisional_family();
            batch.rocks().delete_range_cf(family, from, to);
        }
        if !more && commit.is_some() {
            batch.meta_delete(&meta::spill_key(number));
        }
        if !batch.is_empty() {
            self.write(batch)?;
        }
        if !more {
            self.spills.finished(number);
        }
        Ok(more)
    }

    /// Whether anything in a storage is a spill's, which may run, or have ended and not be cleared away. Of a storage that nobody
    /// writes to any more, a no is final.
    pub(crate) fn has_records_of_spills(&self, storage: StorageId) -> Result<bool> {
        let (low, high) = key::storage_range(storage);
        let mut iterator = self.db.raw_iterator_cf(self.provisional_family());
        let mut target = Vec::new();
        iterator.seek(&target);
        while let Some(found) = iterator.key() {
            let (number, key) = record::split_key(found)?;
            if number >= row_locks::LOCKS {
                break;
            }
            if key < &low[..] {
                record::write_key(&mut target, number, &low);
            } else if key < &high[..] {
                return Ok(true);
            } else {
                record::write_key(&mut target, number + 1, &[]);
            }
            iterator.seek(&target);
        }
        iterator.status()?;
        Ok(false)
    }

    /// Finds the spills that were there when the store was last open.
    pub(crate) fn recover_spills(&self) -> Result<()> {
        let mut iterator = self.db.raw_iterator_cf(self.provisional_family());
        let mut target = Vec::new();
        iterator.seek(&target);
        // Row locks are gone by now.
        while let Some(found) = iterator.key() {
            let (number, _) = record::split_key(found)?;
            let commit = self.meta_get(&meta::spill_key(number))?;
            let commit = commit.map(|record| Undone::decode_commit(&record)).transpose()?;
            tracing::info!(
                number,
                committed = commit.is_some(),
                path = %self.path().display(),
                "a large transaction's records are to be cleared away"
            );
            self.spills.recovered(number, commit);
            target.clear();
            target.extend_from_slice(&record::prefix(number + 1));
            iterator.seek(&target);
        }
        Ok(iterator.status()?)
    }
}

/// The records of one spill, in key order.
pub struct ProvisionalCursor {
    iterator: OwnedIterator,
    prefix: [u8; 8],
}

impl ProvisionalCursor {
    /// To the first record at or behind `bound`.
    pub fn seek(&mut self, bound: &[u8]) {
        let target = [&self.prefix, bound].concat();
        self.iterator.seek(&target);
    }

    /// To the last record before `bound`.
    pub fn seek_before(&mut self, bound: &[u8]) {
        let target = [&self.prefix, bound].concat();
        self.iterator.seek_for_prev(&target);
        if self.iterator.key() == Some(&target[..]) {
            self.iterator.prev();
        }
    }

    pub fn step(&mut self, direction: Direction) {
        match direction {
            Direction::Forward => self.iterator.next(),
            Direction::Backward => self.iterator.prev(),
        }
    }

    /// The record of `key`: a step from the one asked for before if the two are neighbours, a seek if not.
    pub(crate) fn find(&mut self, key: &[u8], direction: Direction) -> Result<Option<&[u8]>> {
        if self.current()?.is_some() {
            self.step(direction);
        }
        if !matches!(self.current()?, Some((found, _)) if found == key) {
            self.seek(key);
        }
        Ok(self.current()?.and_then(|(found, record)| (found == key).then_some(record)))
    }

    /// Key and record; `None` at either end of the spill.
    pub fn current(&self) -> Result<Option<(&[u8], &[u8])>> {
        match self.iterator.item() {
            Some((key, record)) => Ok(key.strip_prefix(&self.prefix).map(|key| (key, record))),
            None => {
                self.iterator.status()?;
                Ok(None)
            }
        }
    }
}

impl crate::PointReader<'_> {
    /// Spills that have a marker on the key, ended ones among them.
    pub fn spills_of(&mut self, key: &[u8]) -> Result<Vec<SpillNumber>> {
        let mut stats = ReadStats::default();
        self.seek_version(key, Timestamp::MAX);
        self.pass_markers(key, &mut stats)
    }
}
