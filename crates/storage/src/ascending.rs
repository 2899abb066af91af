//! The newest state of many keys that are asked for in ascending order: a load checks each of its keys.
//!
//! A point read positions an iterator in every file that may have the key. Here one iterator goes along instead, and a key costs a
//! step or two where the next one is near.

use std::sync::Arc;

use bytes::Bytes;

use crate::iterator::OwnedIterator;
use crate::spills::{Entry, EntryReader};
use crate::{Engine, ReadStats, Result, Spills, Timestamp, Version, key};

/// Entries that are stepped over on the way to a key before a seek.
const STEPS_BEFORE_SEEK: u32 = 24;

/// Sees what was written before it was made.
pub struct AscendingReader {
    engine: Arc<Engine>,
    /// `None` only while it is being dropped.
    iterator: Option<OwnedIterator>,
    entries: EntryReader<Arc<Spills>>,
    /// The key asked for last. The iterator is on the first entry at or behind it, or further on within its row; nowhere at first.
    last: Vec<u8>,
    seeks: u64,
}

impl AscendingReader {
    pub fn open(engine: Arc<Engine>) -> Result<Self> {
        let iterator = engine.take_range_iterator()?;
        let entries = EntryReader::new(engine.gc.spills.clone(), None);
        Ok(AscendingReader { engine, iterator: Some(iterator), entries, last: Vec::new(), seeks: 0 })
    }

    /// Keys that had to be sought so far.
    pub fn seeks(&self) -> u64 {
        self.seeks
    }

    /// The newest version of a key.
    pub fn newest(&mut self, key: &[u8], stats: &mut ReadStats) -> Result<Option<Version>> {
        stats.counters.requests += 1;
        let iterator = self.iterator.as_mut().expect("the iterator is given back on drop only");
        let is_ahead = !self.last.is_empty() && key > &self.last[..];
        if !is_ahead || !step_to(iterator, key, stats)? {
            self.seeks += 1;
            stats.counters.seeks += 1;
            let mut target = std::mem::take(&mut iterator.target);
            key::write_stored(&mut target, key, Timestamp::MAX);
            iterator.seek(&target);
            iterator.target = target;
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        while let Some((stored, value)) = iterator.item() {
            let (found, time) = key::split_stored(stored)?;
            if found != key {
                return Ok(None);
            }
            if let Entry::Version(time, payload) = self.entries.read(time, value)? {
                stats.newest_seen = stats.newest_seen.max(time);
                stats.counters.keys_found += u64::from(payload.is_some());
                stats.counters.tombstones_skipped += u64::from(payload.is_none());
                let value = payload.map(Bytes::copy_from_slice);
                return Ok(Some(Version { time, value }));
            }
            stats.counters.versions_skipped += 1;
            stats.counters.nexts += 1;
            iterator.next();
        }
        iterator.status()?;
        Ok(None)
    }
}

/// From before a key to its first entry, or behind it if it has none; `false` if that is too far.
fn step_to(iterator: &mut OwnedIterator, key: &[u8], stats: &mut ReadStats) -> Result<bool> {
    for _ in 0..STEPS_BEFORE_SEEK {
        match iterator.key() {
            Some(stored) if key::split_stored(stored)?.0 < key => {}
            Some(_) => return Ok(true),
            None => {
                iterator.status()?;
                return Ok(true);
            }
        }
        stats.counters.nexts += 1;
        iterator.next();
    }
    Ok(false)
}

impl Drop for AscendingReader {
    fn drop(&mut self) {
        if let Some(iterator) = self.iterator.take() {
            self.engine.give_back_range_iterator(iterator);
        }
    }
}
