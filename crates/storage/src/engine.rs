//! One directory of versions.
//!
//! Writing is atomic per [`Batch`] and lands in the log and the memtable; nothing is durable before
//! [`Engine::sync`]. The log keeps the order of the writes: what survives a crash is a prefix of them.
//!
//! Opening recovers: RocksDB replays its log, then the format is checked, key spaces of transactions that died
//! in a bulk load are deleted ([`crate::meta`], pending storages), and the clock moves above the ceiling.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, WriteBatch, WriteOptions};

use crate::dead_ranges::Writing;
use crate::gc::horizon::History;
use crate::gc::writes::BatchWrites;
use crate::gc::{self, Retention};
use crate::iterator::{Mode, OwnedIterator, Pool};
use crate::log_check::{self, Note};
use crate::log_files::{LogFiles, logs};
use crate::manifest_check;
use crate::meta::{self, Counter, SequenceRecord};
use crate::row_locks::COLUMN_FAMILY as ROW_LOCKS;
use crate::spills::{Entry, EntryReader, Spills, place};
use crate::{
    Clock, DeadRanges, EngineOptions, Error, Pins, ReadStats, Resources, Result, StorageId, Timestamp, clock,
    key, options, value,
};

const VERSIONS: &str = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;

/// A version of a row: its time, and its value unless it is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub time: Timestamp,
    pub value: Option<Bytes>,
}

pub struct Engine {
    // Idle iterators own the store too, so the order of these fields does not matter for safety.
    pool: Pool,
    pub(crate) db: Arc<DB>,
    path: PathBuf,
    pub(crate) write_options: WriteOptions,
    /// The persisted clock ceiling.
    ceiling: AtomicU64,
    raise_ceiling: Mutex<()>,
    clock_reserve: u64,
    /// The ceiling that was found when the directory was opened.
    recovered: Timestamp,
    sync_observer: OnceLock<SyncObserver>,
    dead_ranges: Arc<DeadRanges>,
    pub(crate) gc: Arc<gc::Shared>,
    /// Taken before `gc`'s locks, and inside the commit section by commits that set retentions: nobody waits for the section with it.
    pub(crate) history: Mutex<History>,
    /// One collector at a time.
    pub(crate) collecting: Mutex<()>,
    log_files: Mutex<LogFiles>,
    /// The sequence number up to which everything is durable, which each batch notes ([`log_check`]).
    synced: AtomicU64,
    /// The log that was new when the directory was opened.
    first_log: u32,
    manifest: manifest_check::Saver,
}

/// Told of every [`Engine::sync`]: before it begins, and after it succeeded.
pub type SyncObserver = Box<dyn Fn(SyncPhase) + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPhase {
    Begins,
    Succeeded,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens or creates the directory and moves `clock` above everything in it. [`Error::Locked`] if another
    /// store has it open, [`Error::NewerFormat`] if a newer version wrote it.
    pub fn open(
        path: &Path,
        engine_options: &EngineOptions,
        resources: &Resources,
        clock: &Clock,
    ) -> Result<Self> {
        if engine_options.create {
            std::fs::create_dir_all(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        }
        refuse_without_current(path, engine_options.create)?;
        manifest_check::check(path)?;
        let collector = Arc::new(gc::Shared::new(engine_options.garbage_collection));
        let rocks = options::directory(engine_options, resources);
        // Column families of a newer version must be named to open the directory at all, and only an open one
        // can tell its format.
        let present = if path.join("CURRENT").exists() { DB::list_cf(&rocks, path)? } else { Vec::new() };
        if path.exists() {
            log_check::check(path, engine_options.recovery.truncate_damaged_log)?;
        }
        let mut families = vec![
            ColumnFamilyDescriptor::new(VERSIONS, options::versions(engine_options, resources, &collector)),
            ColumnFamilyDescriptor::new(meta::COLUMN_FAMILY, options::meta(resources)),
            ColumnFamilyDescriptor::new(ROW_LOCKS, options::row_locks(engine_options, resources)),
        ];
        for name in present {
            if name != VERSIONS && name != meta::COLUMN_FAMILY && name != ROW_LOCKS {
                families.push(ColumnFamilyDescriptor::new(name, options::meta(resources)));
            }
        }
        let db = DB::open_cf_descriptors(&rocks, path, families).map_err(|error| {
            if error.as_ref().contains("lock ") && error.as_ref().contains("/LOCK") {
                Error::Locked { path: path.to_owned(), holder: None }
            } else {
                Error::from(error)
            }
        })?;
        let newest_log = logs(path).map_err(|source| Error::File { path: path.to_owned(), source })?.pop();
        let pins = collector.pins.clone();
        let mut engine = Engine {
            pool: Pool::new(),
            db: Arc::new(db),
            path: path.to_owned(),
            write_options: WriteOptions::default(),
            ceiling: AtomicU64::new(0),
            raise_ceiling: Mutex::new(()),
            clock_reserve: engine_options.clock_reserve_micros << crate::timestamp::LOGICAL_BITS,
            recovered: Timestamp::MIN,
            sync_observer: OnceLock::new(),
            dead_ranges: Arc::new(DeadRanges::new(
                engine_options.dead_range_bytes,
                Arc::new(move |from, to| pins.pinned_between(from, to)),
            )),
            gc: collector,
            history: Mutex::new(History::new(engine_options.retention)),
            collecting: Mutex::new(()),
            log_files: Mutex::default(),
            synced: AtomicU64::new(0),
            // A number that is too large makes notes say nothing.
            first_log: newest_log.and_then(|log| log.number.try_into().ok()).unwrap_or(u32::MAX),
            manifest: manifest_check::Saver::default(),
        };
        engine.check_format()?;
        engine.delete_pending_storages()?;
        engine.forget_all_row_locks()?;
        engine.recover_spills()?;
        let ceiling = match engine.meta_get(meta::CEILING_KEY)? {
            Some(bytes) => meta::read_time("clock ceiling", &bytes)?,
            None => Timestamp::MIN,
        };
        if ceiling >= clock::TICK_MAX {
            let what = "clock ceiling";
            let detail = format!("{ceiling:?}: a wall clock of the year 2112 or later was believed once");
            return Err(Error::Corruption { what, detail });
        }
        engine.ceiling = AtomicU64::new(ceiling.0);
        engine.recovered = ceiling;
        engine.dead_ranges.settle(ceiling);
        engine.note_durable(ceiling);
        engine.read_history()?;
        clock.advance_past(ceiling);
        engine.save_manifest()?;
        Ok(engine)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// At or above the time of every version that was there when the directory was opened.
    pub fn recovered_up_to(&self) -> Timestamp {
        self.recovered
    }

    /// The times that somebody reads at.
    pub fn pins(&self) -> &Arc<Pins> {
        &self.gc.pins
    }

    fn check_format(&self) -> Result<()> {
        if let Some(bytes) = self.meta_get(meta::FORMAT_KEY)? {
            let found = meta::read_u32("format number", &bytes)?;
            let path = self.path.clone();
            if found > meta::FORMAT {
                return Err(Error::NewerFormat { path, found, supported: meta::FORMAT });
            }
            if found == meta::FORMAT {
                return Ok(());
            }
            if self.has_records_of_format_1()? {
                return Err(Error::OldRecords { path, found });
            }
        }
        let mut batch = self.batch();
        batch.meta_put(meta::FORMAT_KEY, &meta::FORMAT.to_be_bytes());
        self.write(batch)?;
        self.sync()
    }

    fn read_history(&self) -> Result<()> {
        let mut history = self.history.lock();
        if let Some(record) = self.meta_get(meta::HISTORY_KEY)? {
            history.read(&record)?;
        }
        for (key, record) in self.meta_scan(&[meta::RETENTION])? {
            history.read_own(meta::read_storage_key(&key)?, &record)?;
        }
        history.seen_until(self.recovered);
        self.gc.publish(history.horizons());
        Ok(())
    }

    fn delete_pending_storages(&self) -> Result<()> {
        let pending = self.meta_scan(&[meta::PENDING])?;
        if pending.is_empty() {
            return Ok(());
        }
        let mut batch = self.batch();
        for (key, _) in &pending {
            let storage = meta::read_storage_key(key)?;
            tracing::info!(storage, path = %self.path.display(), "removing an unfinished bulk load");
            batch.delete_pending_storage(storage);
        }
        self.write(batch)
    }

    // ---- writing ----------------------------------------------------------------------------------------

    pub fn batch(&self) -> Batch<'_> {
        self.batch_in(BatchMemory::default())
    }

    /// The same in memory that was made before: for inside of the commit section.
    pub fn batch_in(&self, memory: BatchMemory) -> Batch<'_> {
        let BatchMemory { mut rocks, key, value } = memory;
        let note = Note { synced: self.synced.load(Ordering::Relaxed), first_log: self.first_log };
        rocks.put_log_data(note.encode());
        Batch {
            in_flight: InFlight { engine: self, writing: self.dead_ranges.begin_write() },
            rocks,
            key,
            value,
            writes: self.gc.writes.batch(),
            history: None,
        }
    }

    /// Writes the batch to log and memtable; not durable before the next [`Engine::sync`].
    pub fn write(&self, batch: Batch<'_>) -> Result<()> {
        self.write_and_leave(batch).map(drop)
    }

    fn write_and_leave(&self, batch: Batch<'_>) -> Result<Leftovers<'_>> {
        let Batch { in_flight, rocks, key, value, writes, history } = batch;
        self.db.write_opt(rocks, &self.write_options)?;
        // At once: while it is in flight, scans can learn less.
        drop(in_flight);
        if let Some((mut history, next)) = history {
            *history = next;
            self.gc.publish(history.horizons());
        }
        Ok(Leftovers { engine: self, writes, _memory: (key, value) })
    }

    /// The same for a batch whose newest version is of `newest`: raises the clock ceiling with it if need be.
    pub fn write_at(&self, batch: Batch<'_>, newest: Timestamp) -> Result<()> {
        self.write_at_and_leave(batch, newest).map(drop)
    }

    /// The same for inside of the commit section: what need not be done there is left over.
    pub fn write_at_and_leave(&self, mut batch: Batch<'_>, newest: Timestamp) -> Result<Leftovers<'_>> {
        if newest.0 <= self.ceiling.load(Ordering::Acquire) {
            return self.write_and_leave(batch);
        }
        let _one_at_a_time = self.raise_ceiling.lock();
        // Another writer may have raised it further meanwhile.
        let ceiling = newest.0.saturating_add(self.clock_reserve).max(self.ceiling.load(Ordering::Acquire));
        batch.meta_put(meta::CEILING_KEY, &ceiling.to_be_bytes());
        let leftovers = self.write_and_leave(batch)?;
        self.ceiling.fetch_max(ceiling, Ordering::AcqRel);
        Ok(leftovers)
    }

    /// Makes everything durable that was written before the call.
    pub fn sync(&self) -> Result<()> {
        let observer = self.sync_observer.get();
        if let Some(observer) = observer {
            observer(SyncPhase::Begins);
        }
        let written = self.db.latest_sequence_number();
        self.db.flush_wal(true)?;
        self.synced.fetch_max(written, Ordering::Relaxed);
        if let Some(observer) = observer {
            observer(SyncPhase::Succeeded);
        }
        Ok(())
    }

    /// For tests that lose what was not synced. The first observer stays.
    pub fn observe_syncs(&self, observer: SyncObserver) {
        let _ = self.sync_observer.set(observer);
    }

    /// Ends cleanly: the clock may restart right above `newest`, and there is no log to replay.
    pub fn close(&self, newest: Timestamp) -> Result<()> {
        self.save_dead_range_hints()?;
        let mut batch = self.batch();
        let ceiling = newest.max(self.recovered);
        batch.meta_put(meta::CEILING_KEY, &ceiling.0.to_be_bytes());
        self.write(batch)?;
        self.ceiling.store(ceiling.0, Ordering::Release);
        self.sync()?;
        self.pool.clear();
        self.flush()?;
        self.manifest.save(&self.path, false)
    }

    // ---- reading ----------------------------------------------------------------------------------------

    /// For several point reads in a row: sees what was written before the call.
    pub fn point_reader(&self) -> Result<PointReader<'_>> {
        let iterator = self.pool.take(&self.db, Mode::Point)?;
        Ok(PointReader { engine: self, iterator: Some(iterator), entries: self.entry_reader() })
    }

    /// The newest version of `key` at or before `at`.
    pub fn get(&self, key: &[u8], at: Timestamp, stats: &mut ReadStats) -> Result<Option<Version>> {
        self.point_reader()?.get(key, at, stats)
    }

    pub(crate) fn take_range_iterator(&self) -> Result<OwnedIterator> {
        self.pool.take(&self.db, Mode::Range)
    }

    pub(crate) fn give_back_range_iterator(&self, iterator: OwnedIterator) {
        self.pool.give_back(Mode::Range, iterator);
    }

    /// To be called every second or so, with the present: lets go of memory and files that idle iterators hold, keeps the index of
    /// dead ranges small, and gives a new log room.
    pub fn sweep(&self, now: Timestamp) {
        self.pool.sweep();
        self.dead_ranges.sweep(now);
        self.log_files.lock().make_room(&self.path);
    }

    /// Where nothing is visible.
    pub fn dead_ranges(&self) -> &Arc<DeadRanges> {
        &self.dead_ranges
    }

    /// Transactions that are too large for memory.
    pub fn spills(&self) -> &Spills {
        &self.gc.spills
    }

    // ---- without versions -------------------------------------------------------------------------------

    pub(crate) fn meta_family(&self) -> &ColumnFamily {
        self.db.cf_handle(meta::COLUMN_FAMILY).expect("the column family is named when the store is opened")
    }

    pub(crate) fn row_lock_family(&self) -> &ColumnFamily {
        self.db.cf_handle(ROW_LOCKS).expect("the column family is named when the store is opened")
    }

    pub(crate) fn meta_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.db.get_cf(self.meta_family(), key)?)
    }

    /// All entries whose key begins with `prefix`, in order.
    pub(crate) fn meta_scan(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut iterator = self.db.raw_iterator_cf(self.meta_family());
        let mut entries = Vec::new();
        iterator.seek(prefix);
        while let Some((key, value)) = iterator.item() {
            if !key.starts_with(prefix) {
                break;
            }
            entries.push((key.to_vec(), value.to_vec()));
            iterator.next();
        }
        iterator.status()?;
        Ok(entries)
    }

    /// The first number of a counter that was never reserved; `None` for a new store.
    pub fn counter(&self, counter: Counter) -> Result<Option<u64>> {
        self.meta_get(&meta::counter_key(counter))?.map(|bytes| meta::read_u64("counter", &bytes)).transpose()
    }

    pub fn sequence(&self, storage: StorageId) -> Result<Option<SequenceRecord>> {
        self.meta_get(&meta::sequence_key(storage))?.map(|bytes| SequenceRecord::decode(&bytes)).transpose()
    }

    /// Key spaces that were given up, each with the time of its drop.
    pub fn dropped_storages(&self) -> Result<Vec<(StorageId, Timestamp)>> {
        self.meta_scan(&[meta::DROPPED])?
            .iter()
            .map(|(key, time)| Ok((meta::read_storage_key(key)?, meta::read_time("dropped storage", time)?)))
            .collect()
    }

    /// Key spaces with a pending record: of running transactions that load in bulk.
    pub fn pending_storages(&self) -> Result<Vec<StorageId>> {
        self.meta_scan(&[meta::PENDING])?.iter().map(|(key, _)| meta::read_storage_key(key)).collect()
    }

    /// A record of the floor above.
    pub fn record(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.meta_get(&meta::record_key(name))
    }

    /// Records of the floor above whose name begins with `prefix`, in order.
    pub fn records(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut records = self.meta_scan(&meta::record_key(prefix))?;
        for (name, _) in &mut records {
            name.remove(0);
        }
        Ok(records)
    }

    // ---- files ------------------------------------------------------------------------------------------

    /// A consistent copy in a new directory on the same file system, by hard links.
    pub fn checkpoint(&self, path: &Path) -> Result<()> {
        Ok(Checkpoint::new(&self.db)?.create_checkpoint(path)?)
    }

    /// Writes down what the MANIFEST and the logs are, if that is news: the next opening refuses a directory that has less. To be called after a
    /// flush that matters, and now and then.
    pub fn save_manifest(&self) -> Result<()> {
        self.manifest.save(&self.path, true)
    }

    /// Writes the memtables to files.
    pub fn flush(&self) -> Result<()> {
        self.db.flush()?;
        self.db.flush_cf(self.row_lock_family())?;
        Ok(self.db.flush_cf(self.meta_family())?)
    }

    /// Rewrites all files into the lowest level.
    pub fn compact(&self) {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
    }
}

/// Without CURRENT, RocksDB takes a directory for an empty one, and removes what it finds there; or begins one, and then refuses it.
fn refuse_without_current(path: &Path, create: bool) -> Result<()> {
    let current = path.join("CURRENT");
    if current.exists() {
        return Ok(());
    }
    if !create {
        let detail = format!("\"{}\" is missing", current.display());
        return Err(Error::Corruption { what: "database directory", detail });
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) };
    for entry in entries {
        let found = entry.map_err(|source| Error::File { path: path.to_owned(), source })?.path();
        // A crash while the directory was being created leaves neither.
        if found.extension().is_some_and(|extension| extension == "sst" || extension == "log") {
            let detail = format!("\"{}\" is missing, \"{}\" is there", current.display(), found.display());
            return Err(Error::Corruption { what: "database directory", detail });
        }
    }
    Ok(())
}

/// Memory for a batch that is about to be built where others wait.
#[derive(Default)]
pub struct BatchMemory {
    rocks: WriteBatch,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl BatchMemory {
    /// For about so many bytes of keys and values; a batch may become larger.
    pub fn for_bytes(bytes: usize) -> Self {
        // Whoever writes more has other costs than these.
        const BATCH_MAX: usize = 64 << 10;
        const VALUE_MAX: usize = 1 << 10;
        const KEY: usize = 64;
        BatchMemory {
            rocks: WriteBatch::with_capacity_bytes(bytes.min(BATCH_MAX)),
            key: Vec::with_capacity(KEY),
            value: Vec::with_capacity(bytes.min(VALUE_MAX)),
        }
    }
}

/// What is still to be done when a batch is written, in no order with other batches: statistics, and memory to be freed. Done
/// when it is dropped; outside of the commit section, if the batch was written inside.
pub struct Leftovers<'engine> {
    engine: &'engine Engine,
    writes: BatchWrites,
    _memory: (Vec<u8>, Vec<u8>),
}

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        self.engine.gc.writes.add(std::mem::take(&mut self.writes));
    }
}

/// A batch's place among those in flight: until it is written, or dropped.
struct InFlight<'engine> {
    engine: &'engine Engine,
    writing: Writing,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.engine.dead_ranges.end_write(&self.writing);
    }
}

/// Changes that become visible together.
pub struct Batch<'engine> {
    in_flight: InFlight<'engine>,
    rocks: WriteBatch,
    key: Vec<u8>,
    value: Vec<u8>,
    /// For the collector.
    writes: BatchWrites,
    /// Once it sets a retention: the history as it is, locked until the batch is written, and as it is then. A retention and a
    /// horizon share a record: whoever moves horizons meanwhile would be undone by what is in the batch, or undo it.
    history: Option<(MutexGuard<'engine, History>, History)>,
}

impl<'engine> Batch<'engine> {
    pub fn put(&mut self, key: &[u8], time: Timestamp, payload: &[u8]) {
        self.version(key, time, Some(payload));
    }

    pub fn delete(&mut self, key: &[u8], time: Timestamp) {
        self.version(key, time, None);
    }

    /// A value, or a tombstone for `None`.
    pub fn version(&mut self, key: &[u8], time: Timestamp, payload: Option<&[u8]>) {
        if payload.is_some() {
            let InFlight { engine, writing } = &mut self.in_flight;
            engine.dead_ranges.register(writing, key);
        }
        let mut value = std::mem::take(&mut self.value);
        value::write_stored(&mut value, payload);
        self.entry(key, time, &value, payload.is_none());
        self.value = value;
    }

    /// Values are going to be written at these keys, which are ascending.
    pub(crate) fn register_values(&mut self, keys: &[&[u8]]) {
        let InFlight { engine, writing } = &mut self.in_flight;
        engine.dead_ranges.register_many(writing, keys);
    }

    /// An entry with this stored value. The key of a value was registered with the index of dead ranges.
    pub(crate) fn entry(&mut self, key: &[u8], time: Timestamp, value: &[u8], is_tombstone: bool) {
        debug_assert!(key.len() >= key::STORAGE_ID_BYTES && time > Timestamp::MIN && time <= Timestamp::LAST);
        let engine = self.engine();
        key::write_stored(&mut self.key, key, time);
        engine.gc.watch.note(key);
        let bytes = self.key.len() + value.len();
        let storage = key::storage_of(key).unwrap_or_default();
        self.writes.note(storage, key, time, is_tombstone, bytes);
        self.rocks.put(&self.key, value);
    }

    pub(crate) fn engine(&self) -> &'engine Engine {
        self.in_flight.engine
    }

    pub fn set_counter(&mut self, counter: Counter, first_unreserved: u64) {
        self.meta_put(&meta::counter_key(counter), &first_unreserved.to_be_bytes());
    }

    pub fn set_sequence(&mut self, storage: StorageId, record: SequenceRecord) {
        self.meta_put(&meta::sequence_key(storage), &record.encode());
    }

    pub fn delete_sequence(&mut self, storage: StorageId) {
        self.meta_delete(&meta::sequence_key(storage));
    }

    /// Before the first direct write into a storage whose transaction is open.
    pub fn add_pending_storage(&mut self, storage: StorageId) {
        self.meta_put(&meta::pending_key(storage), &[]);
    }

    /// The transaction commits: its direct writes stay.
    pub fn keep_pending_storage(&mut self, storage: StorageId) {
        self.meta_delete(&meta::pending_key(storage));
    }

    /// The transaction is gone: so are its direct writes.
    pub fn delete_pending_storage(&mut self, storage: StorageId) {
        let (low, high) = key::storage_range(storage);
        self.rocks.delete_range(low, high);
        self.meta_delete(&meta::pending_key(storage));
        self.meta_delete(&meta::sequence_key(storage));
    }

    pub fn add_dropped_storage(&mut self, storage: StorageId, at: Timestamp) {
        self.meta_put(&meta::dropped_key(storage), &at.0.to_be_bytes());
    }

    /// The storage's own retention; `None`: it follows the database's. Horizons stand still until the batch is written, or dropped.
    pub fn set_retention(&mut self, storage: StorageId, retention: Option<Retention>) {
        let engine = self.engine();
        let (_, next) = self.history.get_or_insert_with(|| {
            let history = engine.history.lock();
            let next = history.clone();
            (history, next)
        });
        next.set_own_retention(storage, retention);
        if let Some(record) = next.encode_own(storage) {
            self.meta_put(&meta::retention_key(storage), &record);
        }
    }

    pub fn put_record(&mut self, name: &[u8], value: &[u8]) {
        self.meta_put(&meta::record_key(name), value);
    }

    pub fn delete_record(&mut self, name: &[u8]) {
        self.meta_delete(&meta::record_key(name));
    }

    pub fn is_empty(&self) -> bool {
        self.rocks.is_empty()
    }

    pub fn size_bytes(&self) -> usize {
        self.rocks.size_in_bytes()
    }

    pub(crate) fn meta_put(&mut self, key: &[u8], value: &[u8]) {
        self.rocks.put_cf(self.engine().meta_family(), key, value);
    }

    pub(crate) fn meta_delete(&mut self, key: &[u8]) {
        self.rocks.delete_cf(self.engine().meta_family(), key);
    }
}

/// Time and payload of a version, `None` for a tombstone's.
type Found<'iterator> = (Timestamp, Option<&'iterator [u8]>);

/// An iterator on loan for point reads.
pub struct PointReader<'engine> {
    engine: &'engine Engine,
    /// `None` only while it is being dropped.
    iterator: Option<OwnedIterator>,
    entries: EntryReader<&'engine Spills>,
}

impl PointReader<'_> {
    /// The newest version of `key` at or before `at`.
    pub fn get(&mut self, key: &[u8], at: Timestamp, stats: &mut ReadStats) -> Result<Option<Version>> {
        Ok(self.find(key, at, stats)?.map(|(time, payload)| {
            let value = payload.map(Bytes::copy_from_slice);
            Version { time, value }
        }))
    }

    /// Time of the newest version of `key` at or before `at`, and whether it is a value.
    pub fn time(
        &mut self,
        key: &[u8],
        at: Timestamp,
        stats: &mut ReadStats,
    ) -> Result<Option<(Timestamp, bool)>> {
        Ok(self.find(key, at, stats)?.map(|(time, payload)| (time, payload.is_some())))
    }

    #[inline]
    fn find(&mut self, key: &[u8], at: Timestamp, stats: &mut ReadStats) -> Result<Option<Found<'_>>> {
        stats.counters.requests += 1;
        stats.counters.seeks += 1;
        self.seek_version(key, at);
        let iterator = self.iterator.as_mut().expect("the iterator is given back on drop only");
        let (time, payload) = loop {
            let Some((time, stored)) = entry_of(iterator, key)? else { return Ok(None) };
            match self.entries.read(time, stored)? {
                Entry::Version(time, payload) if time <= at => break (time, place(stored, payload)),
                // Uncommitted, rolled back, or committed later than it was written.
                _ => {
                    stats.counters.versions_skipped += 1;
                    stats.counters.nexts += 1;
                    iterator.next();
                }
            }
        };
        stats.newest_seen = stats.newest_seen.max(time);
        let payload = payload.and_then(|place| iterator.value()?.get(place));
        match payload {
            Some(payload) => {
                stats.counters.keys_found += 1;
                stats.counters.bytes_read += (key.len() + payload.len()) as u64;
            }
            None => stats.counters.tombstones_skipped += 1,
        }
        Ok(Some((time, payload)))
    }

    fn iterator(&mut self) -> &mut OwnedIterator {
        self.iterator.as_mut().expect("the iterator is given back on drop only")
    }

    /// To the newest entry of `key` of a time at or before `at`.
    pub(crate) fn seek_version(&mut self, key: &[u8], at: Timestamp) {
        let iterator = self.iterator();
        let mut target = std::mem::take(&mut iterator.target);
        key::write_stored(&mut target, key, at);
        iterator.seek(&target);
        iterator.target = target;
    }

    pub(crate) fn next(&mut self) {
        self.iterator().next();
    }

    /// Time and stored value of the entry under the iterator, if it is one of `key`.
    pub(crate) fn entry_of(&mut self, key: &[u8]) -> Result<Option<(Timestamp, &[u8])>> {
        entry_of(self.iterator(), key)
    }
}

#[inline]
fn entry_of<'iterator>(
    iterator: &'iterator OwnedIterator,
    key: &[u8],
) -> Result<Option<(Timestamp, &'iterator [u8])>> {
    let Some((stored, value)) = iterator.item() else {
        iterator.status()?;
        return Ok(None);
    };
    let (found, time) = key::split_stored(stored)?;
    Ok((found == key).then_some((time, value)))
}

impl Drop for PointReader<'_> {
    fn drop(&mut self) {
        if let Some(iterator) = self.iterator.take() {
            self.engine.pool.give_back(Mode::Point, iterator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of format 1 opens, and is of the present format from then on, unless a large transaction's records are in it.
    #[test]
    fn format_1_opens() {
        for has_records in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let open = || {
                let resources = Resources::new(8 << 20, 4 << 20);
                Engine::open(directory.path(), &EngineOptions::default(), &resources, &Clock::system())
            };
            let engine = open().unwrap();
            engine.db.put_cf(engine.meta_family(), meta::FORMAT_KEY, 1u32.to_be_bytes()).unwrap();
            // What format 1 had there: spill number, storage id, key.
            let record = [&7u64.to_be_bytes()[..], &9u32.to_be_bytes(), b"k"].concat();
            if has_records {
                engine.db.put_cf(engine.row_lock_family(), record, [0]).unwrap();
            }
            drop(engine);
            match open() {
                Ok(engine) => {
                    assert!(!has_records);
                    let format = engine.meta_get(meta::FORMAT_KEY).unwrap().unwrap();
                    assert_eq!(format, meta::FORMAT.to_be_bytes());
                }
                Err(Error::OldRecords { found: 1, .. }) => assert!(has_records),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
