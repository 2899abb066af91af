//! A transaction's writes that have outgrown memory ([`cairn_storage::spills`] has their life and their layout).
//!
//! For a key of which both have writes, those in memory are later than those in the store. A record answers by command and
//! epoch just as the write set does, so what a snapshot sees does not change when writes move from the one to the other, in the
//! middle of a statement; cursors are told by the *generation* that they have to look for them elsewhere.
//!
//! Row locks go to the store by a way of their own ([`crate::spilled_locks`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cairn_storage::spills::record::{begin_record, push_version};
use cairn_storage::spills::{Commit, KeySpan, OwnVersion as StoredVersion, OwnWrites, Undone};
use cairn_storage::{Engine, ReadStats, SpillNumber, Timestamp, Version, key};

use crate::database::Inner;
use crate::locks::LockOwner;
use crate::write_set::{Key, OwnVersion, Versions, WriteSet};
use crate::{CommandId, Result, StorageId};

/// Writes and row locks of a transaction that need more memory than this go to the store.
pub const DEFAULT_TRANSACTION_MEMORY: usize = 64 << 20;

/// Bytes of records that are written at a time; commits wait meanwhile.
const WRITTEN_AT_ONCE: usize = 256 << 10;
/// Writes of a key in one record: whoever reads the row before it settles reads all of the record.
const WRITES_PER_RECORD: usize = 16;

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

    /// Whether it may have records of the key.
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
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

    /// The same, and the newest version that others have committed.
    pub(crate) fn newest_with_committed(
        &self,
        engine: &Engine,
        key: &[u8],
        stats: &mut ReadStats,
    ) -> Result<(Option<(CommandId, Option<Bytes>)>, Option<Version>)> {
        match self.may_have(key) {
            true => Ok(engine.newest_with_own(self.number, &self.undone, key, stats)?),
            false => Ok((None, engine.get(key, Timestamp::MAX, stats)?)),
        }
    }

    fn newest_where(
        &self,
        engine: &Engine,
        key: &[u8],
        counts: impl Fn(&StoredVersion<'_>) -> bool,
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
        mut visit: impl FnMut(StoredVersion<'_>) -> bool,
    ) -> Result<()> {
        if !self.may_have(key) {
            return Ok(());
        }
        let visit = |write: StoredVersion<'_>| self.undone.contains(write.epoch) || visit(write);
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

    /// It gets records of keys from `first` to `last`, of one storage.
    fn widen(&mut self, storage: StorageId, first: &[u8], last: &[u8]) {
        let (low, high) = self.spans.entry(storage).or_insert_with(|| (first.to_vec(), last.to_vec()));
        if first < &low[..] {
            *low = first.to_vec();
        }
        if last > &high[..] {
            *high = last.to_vec();
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

/// Records that are about to be written in one batch, ascending by key.
#[derive(Default)]
struct Records {
    writes: Vec<(Key, Versions)>,
    bytes: Vec<u8>,
    /// Of each key: where its record ends, and whether it is deletions alone.
    ends: Vec<(usize, bool)>,
    size: usize,
}

impl Records {
    fn add(&mut self, spill: &mut Spill, key: Key, versions: Versions) {
        begin_record(&mut self.bytes, spill.number);
        let (mut is_deletion, mut is_tombstone) = (false, true);
        for version in versions.iter().map(OwnVersion::stored) {
            spill.newest_epoch = spill.newest_epoch.max(version.epoch);
            is_deletion = version.value.is_none();
            is_tombstone &= is_deletion;
            push_version(&mut self.bytes, version);
        }
        if is_deletion {
            spill.deleted.note(&key);
        }
        self.size += key.len() + key::TIME_BYTES;
        self.ends.push((self.bytes.len(), is_tombstone));
        self.writes.push((key, versions));
    }

    fn is_full(&self) -> bool {
        self.size + self.bytes.len() >= WRITTEN_AT_ONCE
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], bool)> + Clone {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        let records = self.writes.iter().zip(begins.zip(&self.ends));
        records.map(|((key, _), (begin, (end, is_tombstone)))| {
            (&key[..], self.bytes.get(begin..*end).unwrap_or_default(), *is_tombstone)
        })
    }

    /// First and last key of each storage.
    fn storages(&self) -> impl Iterator<Item = (StorageId, &[u8], &[u8])> {
        let of_storages = self.writes.chunk_by(|(a, _), (b, _)| key::storage_of(a) == key::storage_of(b));
        of_storages.filter_map(|keys| {
            let ((first, _), (last, _)) = (keys.first()?, keys.last()?);
            Some((key::storage_of(first)?, &first[..], &last[..]))
        })
    }
}

/// Hands all writes in memory over to the store. `pending`: storages of this transaction that are to be recorded as pending with their
/// first row; those that were are taken out. `is_commit`: nothing is read or taken back any more. After an error some writes are here and
/// some there.
pub(crate) fn write_out(
    database: &Inner,
    owner: &LockOwner,
    writes: &mut WriteSet,
    spill: &mut Option<Spill>,
    pending: &mut Vec<StorageId>,
    is_commit: bool,
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
    let mut taken = writes.take();
    // Later writes of the key that was written last.
    let mut rest: Option<(Key, Versions)> = None;
    loop {
        let mut records = Records::default();
        while let Some((key, mut versions)) = rest.take().or_else(|| taken.keys.next()) {
            if is_commit && let Some(last) = versions.pop() {
                // Nobody is left who could see the others.
                versions = Versions::from_buf([last]);
            }
            if versions.len() > WRITES_PER_RECORD {
                let later = versions.drain(WRITES_PER_RECORD..).collect();
                rest = Some((key.clone(), later));
            }
            records.add(spill, key, versions);
            // A key has one record at a time.
            if rest.is_some() || records.is_full() {
                break;
            }
        }
        if records.writes.is_empty() {
            return Ok(());
        }
        let written = database.pipeline.write_between_commits(|batch, time| {
            for (storage, ..) in records.storages() {
                if !spill.spans.contains_key(&storage) {
                    batch.note_spill_storage(spill.number, storage);
                }
                if pending.contains(&storage) {
                    batch.add_pending_storage(storage);
                }
            }
            batch.provisional(time, records.iter());
        });
        if let Err(error) = written {
            if let (Some((_, later)), Some((_, versions))) = (rest, records.writes.last_mut()) {
                versions.extend(later);
            }
            writes.put_back(records.writes, taken);
            return Err(error);
        }
        for (storage, first, last) in records.storages() {
            spill.widen(storage, first, last);
            pending.retain(|pending| *pending != storage);
        }
        spill.bytes += records.bytes.len() as u64;
        spill.generation += 1;
    }
}
