//! Row locks that need too much memory, in the store ([`cairn_storage`], `row_locks`).
//!
//! A transaction's row locks that outgrow its memory are handed over: each locked key gets a record of its own, and the lock manager
//! forgets it. While any transaction of the database has such records, whoever locks a row looks for them first.
//! What stands in the way and is to be waited for is *brought back* into the lock manager, on behalf of its holder, and then
//! waited for there. So order, hand-off, deadlock search and timeouts are those of all other locks, and what is kept in memory is
//! bounded by what is waited for.
//!
//! ```text
//! hand over                                  lock a row
//!   write the records                          g := number of hand-overs
//!   number of hand-overs += 1                  look for records, bring back those in the way
//!   forget the rows, but not those that        shard mutex: number of hand-overs still g? else once more
//!   somebody waits for (shard mutex)                        grant or queue
//! ```
//! The second look at the number makes the two exclude each other: a row that is missing in the lock manager was either never
//! locked, or its record was there to be found. A row in whose queue somebody stands stays where it is, so nobody who waits has to
//! look again.
//!
//! A record is a list of acquisitions (`place u64, mode u8`, big endian, ascending by place). Rolling back to a savepoint visits none of
//! them: the transaction's list remembers which places count for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_storage::{Engine, SpillNumber, key};
use parking_lot::RwLock;

use crate::database::Inner;
use crate::locks::{LockManager, LockOwner, PlacedMode};
use crate::{Error, Result, RowLockMode, StorageId};

/// Bytes of records that are written at a time.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// One acquisition in a record.
const ACQUISITION_BYTES: usize = 9;

/// Smallest and largest key of each storage.
type Spans = BTreeMap<StorageId, (Vec<u8>, Vec<u8>)>;

/// A running transaction some of whose row locks are in the store.
#[derive(Debug)]
pub(crate) struct Holder {
    number: SpillNumber,
    owner: Arc<LockOwner>,
    spans: RwLock<Spans>,
}

impl Holder {
    fn may_have(&self, key: &[u8]) -> bool {
        let Some(storage) = key::storage_of(key) else { return false };
        let spans = self.spans.read();
        spans.get(&storage).is_some_and(|(low, high)| &low[..] <= key && key <= &high[..])
    }

    /// What the store has of a key, undone or not.
    fn acquisitions(&self, engine: &Engine, key: &[u8]) -> Result<Vec<PlacedMode>> {
        if !self.may_have(key) {
            return Ok(Vec::new());
        }
        engine.row_lock(self.number, key)?.map_or(Ok(Vec::new()), |record| decode(&record))
    }

    /// The strongest mode in which the store has the key.
    pub(crate) fn mode(&self, engine: &Engine, key: &[u8]) -> Result<Option<RowLockMode>> {
        Ok(self.owner.strongest(&self.acquisitions(engine, key)?))
    }

    fn widen(&self, key: &[u8]) {
        let Some(storage) = key::storage_of(key) else { return };
        if self.may_have(key) {
            return;
        }
        let mut spans = self.spans.write();
        let (low, high) = spans.entry(storage).or_insert_with(|| (key.to_vec(), key.to_vec()));
        if key < &low[..] {
            *low = key.to_vec();
        } else if key > &high[..] {
            *high = key.to_vec();
        }
    }
}

/// The transactions of a database that have handed row locks over.
#[derive(Debug, Default)]
pub(crate) struct SpilledLocks {
    count: AtomicUsize,
    holders: RwLock<Vec<Arc<Holder>>>,
}

impl SpilledLocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn add(&self, holder: Arc<Holder>) {
        let mut holders = self.holders.write();
        holders.push(holder);
        self.count.store(holders.len(), Ordering::Release);
    }

    /// Its transaction has released its locks.
    pub(crate) fn remove(&self, engine: &Engine, holder: &Arc<Holder>) {
        {
            let mut holders = self.holders.write();
            holders.retain(|other| !Arc::ptr_eq(other, holder));
            self.count.store(holders.len(), Ordering::Release);
        }
        if let Err(error) = engine.forget_row_locks(holder.number) {
            // Nobody looks for them any more; they go when the store is opened next.
            tracing::warn!(%error, "could not remove the records of row locks");
        }
    }

    /// Whether locks of other transactions in the store stand in the way. If they are to be `waited_for`, the lock manager has
    /// them afterwards.
    #[cold]
    pub(crate) fn in_the_way(
        &self,
        engine: &Engine,
        locks: &LockManager,
        owner: &Arc<LockOwner>,
        key: &[u8],
        mode: RowLockMode,
        waited_for: bool,
    ) -> Result<bool> {
        let mut found = false;
        let others: Vec<Arc<Holder>> = {
            let holders = self.holders.read();
            let others = holders.iter().filter(|holder| !Arc::ptr_eq(&holder.owner, owner));
            others.filter(|holder| holder.may_have(key)).cloned().collect()
        };
        for holder in others {
            let stored = holder.acquisitions(engine, key)?;
            found |= locks.bring_back(&holder.owner, key, &stored, mode, waited_for);
        }
        Ok(found)
    }
}

/// Hands the transaction's row locks over to the store. After an error they are still here, and some of them in the store as well:
/// whoever rolls back takes both back.
pub(crate) fn write_out(
    database: &Inner,
    owner: &Arc<LockOwner>,
    own: &std::sync::OnceLock<Arc<Holder>>,
) -> Result<()> {
    let engine = &database.pipeline.engine;
    let (rows, up_to) = database.locks.begin_hand_over(owner);
    if rows.is_empty() {
        return Ok(());
    }
    let holder = match own.get() {
        Some(holder) => holder.clone(),
        None => {
            database.locks.announce(owner)?;
            let number = database.spill_numbers.allocate_wide(engine)?;
            let holder = Arc::new(Holder { number, owner: owner.clone(), spans: RwLock::default() });
            database.spilled_locks.add(holder.clone());
            own.get_or_init(|| holder).clone()
        }
    };
    let before = holder.spans.read().clone();
    let may_have = |key: &[u8]| {
        let span = key::storage_of(key).and_then(|storage| before.get(&storage));
        span.is_some_and(|(low, high)| &low[..] <= key && key <= &high[..])
    };
    let mut records: Vec<(Arc<[u8]>, Vec<u8>)> = Vec::new();
    let mut bytes = 0;
    for of_key in rows.chunk_by(|(a, _), (b, _)| a == b) {
        let Some((key, _)) = of_key.first() else { continue };
        let older = if may_have(key) { holder.acquisitions(engine, key)? } else { Vec::new() };
        let record = encode(owner, &older, of_key.iter().map(|(_, placed)| *placed));
        bytes += 2 * key.len() + record.len();
        records.push((key.clone(), record));
        if bytes >= WRITTEN_AT_ONCE {
            write(engine, &holder, &mut records)?;
            bytes = 0;
        }
    }
    write(engine, &holder, &mut records)?;
    database.locks.hand_over_rows(owner, up_to);
    Ok(())
}

fn write(engine: &Engine, holder: &Holder, records: &mut Vec<(Arc<[u8]>, Vec<u8>)>) -> Result<()> {
    if let (Some((first, _)), Some((last, _))) = (records.first(), records.last()) {
        if key::storage_of(first) == key::storage_of(last) {
            // In key order, these are the smallest and the largest.
            holder.widen(first);
            holder.widen(last);
        } else {
            records.iter().for_each(|(key, _)| holder.widen(key));
        }
    }
    engine.put_row_locks(holder.number, records.iter().map(|(key, record)| (&**key, &**record)))?;
    records.clear();
    Ok(())
}

fn encode(owner: &LockOwner, older: &[PlacedMode], newer: impl Iterator<Item = PlacedMode>) -> Vec<u8> {
    let mut all: Vec<PlacedMode> = older.iter().copied().chain(newer).collect();
    all.sort_unstable_by_key(|(place, _)| *place);
    // What was brought back and is handed over again has a record already.
    all.dedup_by_key(|(place, _)| *place);
    owner.retain_valid(&mut all);
    let mut record = Vec::with_capacity(all.len() * ACQUISITION_BYTES);
    for (place, mode) in all {
        record.extend_from_slice(&place.to_be_bytes());
        record.push(mode as u8);
    }
    record
}

fn decode(record: &[u8]) -> Result<Vec<PlacedMode>> {
    const CORRUPT: Error = Error::Misuse("the record of a row lock is damaged");
    let (acquisitions, []) = record.as_chunks::<ACQUISITION_BYTES>() else { return Err(CORRUPT) };
    let placed = acquisitions.iter().map(|[place @ .., mode]| {
        let mode = RowLockMode::ALL.get(usize::from(*mode)).ok_or(CORRUPT)?;
        Ok((u64::from_be_bytes(*place), *mode))
    });
    placed.collect()
}
