//! A transaction's writes that have outgrown memory ([`cairn_storage::spills`] has their life and their layout).
//!
//! For a key of which both have writes, those in memory are later than those in the store. A record answers by command and
//! epoch just as the write set does, so what a snapshot sees does not change when writes move from the one to the other, in the
//! middle of a statement; cursors are told by the *generation* that they have to look for them elsewhere.
//!
//! Row locks go to the store by a way of their own ([`crate::spilled_locks`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cairn_storage::spills::record::{begin_record, push_version};
use cairn_storage::spills::{Commit, KeySpan, OwnVersion, OwnWrites, Undone};
use cairn_storage::{Engine, SpillNumber, Timestamp, key};

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
    number: SpillNumber,
    /// Smallest and largest key of each storage that has records.
    spans: BTreeMap<StorageId, KeySpan>,
    undone: Arc<Undone>,
    /// Of a write that has a record.
    newest_epoch: u32,
    /// Goes up with every batch of records, from 1.
    generation: u64,
    bytes: u64,
    deleted: DeletedKeys,
}

impl Spill {
    fn new(number: SpillNumber) -> Self {
        Spill {
            number,
            spans: BTreeMap::new(),
            undone: Arc::default(),
            newest_epoch: 0,
            generation: 0,
            bytes: 0,
            deleted: DeletedKeys::default(),
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = &KeySpan> {
        self.spans.values()
    }

    fn may_have(&self, key: &[u8]) -> bool {
        let span = key::storage_of(key).and_then(|storage| self.spans.get(&storage));
        span.is_some_and(|(low, high)| &low[..] <= key && key <= &high[..])
    }

    /// The same for keys in `low <= key < high`.
    pub(crate) fn may_have_between(&self, low: &[u8], high: &[u8]) -> bool {
        self.spans.values().any(|(first, last)| &first[..] < high && low <= &last[..])
    }

    /// For a cursor of `command`.
    pub(crate) fn own_writes(&self, command: CommandId) -> OwnWrites {
        OwnWrites { number: self.number, command, undone: self.undone.clone() }
    }

    /// What a snapshot of `command` sees: `None` if nothing of its own, `Some(None)` if it deleted the key.
    pub(crate) fn visible(
        &self,
        engine: &Engine,
        key: &[u8],
        command: CommandId,
    ) -> Result<Option<Option<Bytes>>> {
        let newest = self.newest_where(engine, key, |write| write.command < command)?;
        Ok(newest.map(|(_, value)| value))
    }

    /// The last write of a key, whatever its command.
    pub(crate) fn newest(&self, engine: &Engine, key: &[u8]) -> Result<Option<(CommandId, Option<Bytes>)>> {
        self.newest_where(engine, key, |_| true)
    }

    fn newest_where(
        &self,
        engine: &Engine,
        key: &[u8],
        counts: impl Fn(&OwnVersion<'_>) -> bool,
    ) -> Result<Option<(CommandId, Option<Bytes>)>> {
        let mut newest = None;
        self.visit(engine, key, |write| {
            if counts(&write) {
                newest = Some((write.command, write.value.map(Bytes::copy_from_slice)));
            }
            newest.is_none()
        })?;
        Ok(newest)
    }

    /// The first of the commands from `since` on that have written the key.
    pub(crate) fn first_command(
        &self,
        engine: &Engine,
        key: &[u8],
        since: CommandId,
    ) -> Result<Option<CommandId>> {
        let mut first = None;
        self.visit(engine, key, |write| {
            if write.command >= since {
                first = Some(write.command);
            }
            write.command > since
        })?;
        Ok(first)
    }

    /// Writes of a key that are not undone, newest first, until `visit` answers `false`.
    fn visit(
        &self,
        engine: &Engine,
        key: &[u8],
        mut visit: impl FnMut(OwnVersion<'_>) -> bool,
    ) -> Result<()> {
        if !self.may_have(key) {
            return Ok(());
        }
        let visit = |write: OwnVersion<'_>| self.undone.contains(write.epoch) || visit(write);
        Ok(engine.visit_own_writes(self.number, key, visit)?)
    }

    /// Rolling back to a savepoint whose epoch is `from`: records from it on count for nothing. `false`: there are none.
    pub(crate) fn undo(&mut self, from: u32, last: u32) -> bool {
        let any = self.newest_epoch >= from;
        if any {
            Arc::make_mut(&mut self.undone).add(from, last);
        }
        any
    }

    /// Fills in what commits it.
    pub(crate) fn fill_commit(&self, batch: &mut cairn_storage::Batch<'_>, time: Timestamp) {
        batch.commit_spill(self.number, time, &self.undone);
    }

    /// It is committed; inside the commit section, before anybody can see it.
    pub(crate) fn committed(&self, engine: &Engine, time: Timestamp) {
        let commit = Commit { time, undone: self.undone.clone() };
        engine.spills().commit(self.number, commit, self.spans.values().cloned().collect());
    }

    pub(crate) fn rolled_back(self, engine: &Engine) {
        engine.spill_rolled_back(self.number, self.spans.into_values().collect(), self.bytes);
    }

    /// Some of the keys that it has deleted, in ascending order.
    pub(crate) fn into_deleted(self) -> Vec<Vec<u8>> {
        let mut keys = self.deleted.keys;
        keys.sort_unstable();
        keys
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

/// Every so many-th deleted key, for learning dead ranges when they are committed.
#[derive(Debug)]
struct DeletedKeys {
    keys: Vec<Vec<u8>>,
    every: u64,
    seen: u64,
}

impl Default for DeletedKeys {
    fn default() -> Self {
        DeletedKeys { keys: Vec::new(), every: 256, seen: 0 }
    }
}

impl DeletedKeys {
    const KEYS_MAX: usize = 8192;

    fn note(&mut self, key: &[u8]) {
        self.seen += 1;
        if self.seen.is_multiple_of(self.every) {
            self.keys.push(key.to_vec());
            if self.keys.len() >= Self::KEYS_MAX {
                let mut keep = false;
                self.keys.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
        }
    }
}

/// Records that are about to be written in one batch.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    /// Key, where its record is, and whether it is a deletion alone.
    places: Vec<(Arc<[u8]>, Range<usize>, bool)>,
}

/// Hands all writes in memory over to the store. `pend` tells of a storage that gets its first record whether it is a new one of this
/// transaction, which has to be recorded as pending. After an error some writes are here and some there.
pub(crate) fn write_out(
    database: &Inner,
    owner: &LockOwner,
    writes: &mut WriteSet,
    spill: &mut Option<Spill>,
    pend: &mut dyn FnMut(StorageId) -> bool,
) -> Result<()> {
    let engine = &database.pipeline.engine;
    let spill = match spill {
        Some(spill) => spill,
        None => {
            database.locks.announce(owner)?;
            let number = database.spill_numbers.allocate_wide(engine)?;
            engine.spills().begin(number);
            spill.insert(Spill::new(number))
        }
    };
    while !writes.is_empty() {
        let mut records = Records::default();
        let mut new_storages: Vec<(StorageId, bool)> = Vec::new();
        for (key, versions) in writes.all() {
            let from = records.bytes.len();
            begin_record(&mut records.bytes, spill.number);
            let (mut is_deletion, mut is_tombstone) = (false, true);
            for version in versions {
                spill.newest_epoch = spill.newest_epoch.max(version.epoch);
                is_deletion = version.value.is_none();
                is_tombstone &= is_deletion;
                push_version(&mut records.bytes, version);
            }
            if is_deletion {
                spill.deleted.note(key);
            }
            if let Some(storage) = key::storage_of(key)
                && !spill.spans.contains_key(&storage)
            {
                new_storages.push((storage, pend(storage)));
            }
            spill.note(key);
            records.places.push((key.clone(), from..records.bytes.len(), is_tombstone));
            if records.bytes.len() + records.places.len() * (key.len() + key::TIME_BYTES) >= WRITTEN_AT_ONCE {
                break;
            }
        }
        database.pipeline.write_between_commits(|batch, time| {
            for (storage, is_pending) in &new_storages {
                batch.note_spill_storage(spill.number, *storage);
                if *is_pending {
                    batch.add_pending_storage(*storage);
                }
            }
            let records = records.places.iter().map(|(key, place, is_tombstone)| {
                (&key[..], records.bytes.get(place.clone()).unwrap_or_default(), *is_tombstone)
            });
            batch.provisional(time, records);
        })?;
        spill.bytes += records.bytes.len() as u64;
        spill.generation += 1;
        writes.forget_first(records.places.len());
    }
    Ok(())
}
