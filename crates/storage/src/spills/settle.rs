//! Records that no compaction has met are settled by a walk over where they are, in the background and without hurry.
//!
//! The walk replaces a record under its own key, by the version that it has become, or deletes it. What readers see is the same
//! before and after. It excludes the collector ([`crate::gc`]), which may find meanwhile that the row is dead and delete all of its
//! entries: an entry that was put back would come to light. A compaction may remove an old version beside it; one that is put
//! back then is removed by the next.
//!
//! Recovery: the commit record goes in the batch behind all others. Who finds it walks again.

use std::collections::{BTreeMap, HashSet};

use rocksdb::WriteBatch;

use super::reader::Settled;
use super::record::Undone;
use super::{Commit, KeySpan, SpillNumber};
use crate::{Engine, Result, Timestamp, key, meta};

/// Entries that one step of the walk looks at.
const ENTRIES_PER_STEP: usize = 2000;

/// A walk over the records of some spills.
#[derive(Debug)]
pub struct Settling {
    numbers: HashSet<SpillNumber>,
    /// What is still to be walked over, apart, the next one last.
    spans: Vec<KeySpan>,
    settled: Vec<u8>,
}

/// What a step of the walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleStep {
    Done,
    /// The collector was at work: nothing was done.
    Busy,
    /// Everything has settled.
    Finished,
}

impl Engine {
    /// Begins a walk that settles the records of all spills that have ended, durably if they were committed.
    pub fn begin_settling(&self) -> Option<Settling> {
        let durable = self.spills().durable();
        let mut numbers = HashSet::new();
        let mut spans: Vec<KeySpan> = Vec::new();
        for ended in self.spills().ended.lock().iter() {
            if ended.time.is_none_or(|time| time <= durable) {
                numbers.insert(ended.number);
                spans.extend_from_slice(&ended.spans);
            }
        }
        if numbers.is_empty() {
            return None;
        }
        spans.sort_unstable();
        spans.dedup_by(|next, before| {
            let overlaps = next.0 <= before.1;
            if overlaps && next.1 > before.1 {
                before.1 = std::mem::take(&mut next.1);
            }
            overlaps
        });
        spans.reverse();
        Some(Settling { numbers, spans, settled: Vec::new() })
    }

    /// A step of the walk: a few milliseconds of work, or none while the collector is at work.
    pub fn settle_some(&self, walk: &mut Settling) -> Result<SettleStep> {
        let Some(_no_collector) = self.collecting.try_lock() else { return Ok(SettleStep::Busy) };
        let Some((low, high)) = walk.spans.pop() else {
            self.forget_spills(&walk.numbers)?;
            return Ok(SettleStep::Finished);
        };
        let mut reader = self.entry_reader();
        let mut batch = WriteBatch::default();
        let mut iterator = self.walking_iterator();
        iterator.seek(&low);
        for _ in 0..ENTRIES_PER_STEP {
            let Some((stored, value)) = iterator.item() else { break };
            if key::split_stored(stored)?.0 > &high[..] {
                break;
            }
            match reader.settle(value, &mut walk.settled)? {
                Settled::NotYet => {}
                Settled::Version => batch.put(stored, &walk.settled),
                Settled::Gone => batch.delete(stored),
            }
            iterator.next();
        }
        match iterator.key() {
            Some(stored) if key::split_stored(stored)?.0 <= &high[..] => {
                walk.spans.push((stored.to_vec(), high));
            }
            _ => iterator.status()?,
        }
        drop(iterator);
        if !batch.is_empty() {
            self.db.write_opt(batch, &self.write_options)?;
        }
        Ok(SettleStep::Done)
    }

    /// Nothing is left of these spills.
    fn forget_spills(&self, numbers: &HashSet<SpillNumber>) -> Result<()> {
        let mut batch = self.batch();
        for number in numbers {
            batch.meta_delete(&meta::spill_key(*number));
        }
        for (key, _) in self.meta_scan(&[meta::SPILL_STORAGE])? {
            if numbers.contains(&meta::read_spill_storage_key(&key)?.0) {
                batch.meta_delete(&key);
            }
        }
        self.write(batch)?;
        self.spills().ended.lock().retain(|ended| !numbers.contains(&ended.number));
        Ok(())
    }

    /// Finds the spills that were there when the store was last open.
    pub(crate) fn recover_spills(&self) -> Result<()> {
        let mut found: BTreeMap<SpillNumber, (Option<Commit>, Vec<KeySpan>)> = BTreeMap::new();
        for (key, record) in self.meta_scan(&[meta::SPILL])? {
            let (time, undone) = Undone::decode_commit(&record)?;
            let commit = Commit { time, undone: std::sync::Arc::new(undone) };
            found.entry(meta::read_spill_key(&key)?).or_default().0 = Some(commit);
        }
        for (key, _) in self.meta_scan(&[meta::SPILL_STORAGE])? {
            let (number, storage) = meta::read_spill_storage_key(&key)?;
            found.entry(number).or_default().1.push(key::storage_range(storage));
        }
        if !found.is_empty() {
            let (transactions, path) = (found.len(), self.path().display());
            tracing::info!(transactions, %path, "records of large transactions have not settled yet");
        }
        self.spills().recovered(found);
        Ok(())
    }

    /// Commits up to `time` are durable: files may rely on them.
    pub fn note_durable(&self, time: Timestamp) {
        self.spills().set_durable(time);
    }
}
