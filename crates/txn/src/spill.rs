//! A transaction's writes that have outgrown memory ([`cairn_storage::spills`] has their life and their layout).
//!
//! Own reads look into memory first, then into the records of the spill: for a key that both have, what is in memory
//! is later. A record answers by command and epoch just as the write set does, so what a snapshot sees
//! does not change when writes move from the one to the other, in the middle of a statement.
//!
//! Row locks go to the store by a way of their own ([`crate::spilled_locks`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cairn_storage::spills::record::{begin_record, push_version};
use cairn_storage::spills::{OwnVersion, Record, Undone};
use cairn_storage::{Engine, SpillNumber, key};

use crate::database::Inner;
use crate::locks::LockOwner;
use crate::write_set::WriteSet;
use crate::{CommandId, Result, StorageId};

/// Writes and row locks of a transaction that need more memory than this go to the store.
pub const DEFAULT_TRANSACTION_MEMORY: usize = 64 << 20;

/// Bytes of records that are written at a time; commits wait meanwhile.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// What a transaction knows of its records.
#[derive(Debug)]
pub(crate) struct Spill {
    pub(crate) number: SpillNumber,
    /// Smallest and largest key of each storage that has records.
    pub(crate) spans: BTreeMap<StorageId, (Vec<u8>, Vec<u8>)>,
    pub(crate) undone: Undone,
    /// Of a write that has a record.
    newest_epoch: u32,
    /// Goes up with every batch of records.
    pub(crate) generation: u64,
}

impl Spill {
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        let span = key::storage_of(key).and_then(|storage| self.spans.get(&storage));
        span.is_some_and(|(low, high)| &low[..] <= key && key <= &high[..])
    }

    /// The same for keys in `low <= key < high`.
    pub(crate) fn may_have_between(&self, low: &[u8], high: &[u8]) -> bool {
        self.spans.values().any(|(first, last)| &first[..] < high && low <= &last[..])
    }

    /// What a snapshot of `command` sees: `None` if nothing of its own, `Some(None)` if it deleted the key.
    pub(crate) fn visible(
        &self,
        engine: &Engine,
        key: &[u8],
        command: CommandId,
    ) -> Result<Option<Option<Bytes>>> {
        let seen = self.look(engine, key, |record| {
            record.visible(command, &self.undone).map(|version| version.value.map(Bytes::copy_from_slice))
        })?;
        Ok(seen.flatten())
    }

    /// The last write of a key, whatever its command.
    pub(crate) fn newest(&self, engine: &Engine, key: &[u8]) -> Result<Option<(CommandId, Option<Bytes>)>> {
        let newest = self.look(engine, key, |record| {
            let newest = record.newest(&self.undone)?;
            Some((newest.command, newest.value.map(Bytes::copy_from_slice)))
        })?;
        Ok(newest.flatten())
    }

    /// The first of the commands from `since` on that have written the key.
    pub(crate) fn first_command(
        &self,
        engine: &Engine,
        key: &[u8],
        since: CommandId,
    ) -> Result<Option<CommandId>> {
        Ok(self.look(engine, key, |record| record.first_command(since, &self.undone))?.flatten())
    }

    fn look<T>(
        &self,
        engine: &Engine,
        key: &[u8],
        answer: impl FnOnce(&Record<'_>) -> T,
    ) -> Result<Option<T>> {
        if !self.may_have(key) {
            return Ok(None);
        }
        let Some(bytes) = engine.provisional_record(self.number, key)? else { return Ok(None) };
        Ok(Some(answer(&Record::decode(&bytes)?)))
    }

    /// Rolling back to a savepoint whose epoch is `from`: records from it on count for nothing. `false`: there are none.
    pub(crate) fn undo(&mut self, from: u32, last: u32) -> bool {
        let any = self.newest_epoch >= from;
        if any {
            self.undone.add(from, last);
        }
        any
    }

    fn note(&mut self, key: &[u8]) {
        let Some(storage) = key::storage_of(key) else { return };
        match self.spans.get_mut(&storage) {
            None => drop(self.spans.insert(storage, (key.to_vec(), key.to_vec()))),
            Some((low, _)) if key < &low[..] => *low = key.to_vec(),
            Some((_, high)) if key > &high[..] => *high = key.to_vec(),
            Some(_) => {}
        }
    }
}

/// Hands all writes in memory over to the store. After an error some are here and some there.
pub(crate) fn write_out(
    database: &Inner,
    owner: &LockOwner,
    writes: &mut WriteSet,
    spill: &mut Option<Spill>,
) -> Result<()> {
    let engine = &database.pipeline.engine;
    let spill = match spill {
        Some(spill) => spill,
        None => {
            database.locks.announce(owner)?;
            let number = database.spill_numbers.allocate_wide(engine)?;
            engine.spills().begin(number);
            spill.insert(Spill {
                number,
                spans: BTreeMap::new(),
                undone: Undone::default(),
                newest_epoch: 0,
                generation: 0,
            })
        }
    };
    while !writes.is_empty() {
        let mut records: Vec<(Arc<[u8]>, Vec<u8>, bool)> = Vec::new();
        let mut bytes = 0;
        for (key, versions) in writes.all() {
            let older =
                if spill.may_have(key) { engine.provisional_record(spill.number, key)? } else { None };
            let older = older.as_deref().map(Record::decode).transpose()?;
            let mut record = Vec::new();
            begin_record(&mut record);
            let kept = older.iter().flat_map(|older| &older.versions).copied();
            for version in kept.filter(|version| !spill.undone.contains(version.epoch)) {
                push_version(&mut record, version);
            }
            for version in versions {
                let OwnVersion { epoch, .. } = version;
                spill.newest_epoch = spill.newest_epoch.max(epoch);
                push_version(&mut record, version);
            }
            bytes += 2 * key.len() + record.len();
            records.push((key.clone(), record, older.is_none()));
            if bytes >= WRITTEN_AT_ONCE {
                break;
            }
        }
        database.pipeline.write_between_commits(|batch| {
            for (key, record, first) in &records {
                batch.provisional(spill.number, key, record, *first);
            }
        })?;
        for (key, _, _) in &records {
            spill.note(key);
        }
        spill.generation += 1;
        writes.forget_first(records.len());
    }
    Ok(())
}
