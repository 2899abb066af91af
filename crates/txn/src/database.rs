//! One database: a directory of versions, its locks, its commit pipeline, its sequences.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairn_storage::meta::Counter;
use cairn_storage::spills::SettleStep;
use cairn_storage::{Clock, Engine, EngineOptions, Resources};
use parking_lot::Mutex;

use crate::activity::{Activities, Activity};
use crate::api::Answer;
use crate::births::Births;
use crate::collector::{self, Collector};
use crate::ids::IdAllocator;
use crate::locks::{LockInfo, LockManager};
use crate::pipeline::Pipeline;
use crate::recent::RecentWrites;
use crate::sequences::Sequences;
use crate::serializable::CommitLog;
use crate::settler::Settler;
use crate::spilled_locks::SpilledLocks;
use crate::totals::{ReadTotals, Totals};
use crate::transaction::Txn;
use crate::{
    BeginOptions, Census, Error, HistoryInfo, LockTag, PinInfo, Result, Retention, SequenceOptions,
    SequenceState, SessionHandle, SpaceUsage, StorageId, Store, TableLockMode, Timestamp, Transaction,
};

/// How long a count of versions is good enough for people who look.
const CENSUS_VALID: Duration = Duration::from_millis(500);

/// What all transactions of a database share. It closes the directory when the last of them, and the
/// [`Database`], are gone.
pub(crate) struct Inner {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) locks: LockManager,
    pub(crate) spilled_locks: SpilledLocks,
    pub(crate) recent: RecentWrites,
    pub(crate) births: Births,
    pub(crate) commit_log: CommitLog,
    pub(crate) sequences: Sequences,
    pub(crate) storage_ids: IdAllocator,
    pub(crate) spill_numbers: IdAllocator,
    oids: IdAllocator,
    pub(crate) next_transaction: AtomicU64,
    pub(crate) totals: Totals,
    activities: Activities,
    censuses: Mutex<HashMap<StorageId, (Instant, Census)>>,
    sync_thread: Option<JoinHandle<()>>,
    collector: Option<Collector>,
    settler: Option<Settler>,
}

/// An open database. Cheap to clone; the clones are the same database.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("engine", &self.inner.pipeline.engine).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens or creates the directory. The clock is shared by the databases of a server.
    pub fn open(
        path: &Path,
        options: &EngineOptions,
        resources: &Resources,
        clock: Arc<Clock>,
    ) -> Result<Self> {
        let engine = Arc::new(Engine::open(path, options, resources, &clock)?);
        let storage_ids = IdAllocator::open(&engine, Counter::StorageId)?;
        let oids = IdAllocator::open(&engine, Counter::Oid)?;
        let spill_numbers = IdAllocator::open(&engine, Counter::Spill)?;
        let pipeline = Arc::new(Pipeline::new(engine, clock));
        let sync_thread = {
            let pipeline = pipeline.clone();
            std::thread::Builder::new()
                .name("cairn-sync".to_owned())
                .spawn(move || pipeline.sync.run())
                .map_err(|source| cairn_storage::Error::File { path: path.to_owned(), source })?
        };
        let collector = if options.garbage_collection {
            let started = Collector::start(pipeline.clone());
            Some(started.map_err(|source| cairn_storage::Error::File { path: path.to_owned(), source })?)
        } else {
            None
        };
        let settler = Settler::start(pipeline.clone());
        let settler =
            settler.map_err(|source| cairn_storage::Error::File { path: path.to_owned(), source })?;
        Ok(Database {
            inner: Arc::new(Inner {
                pipeline,
                locks: LockManager::new(),
                spilled_locks: SpilledLocks::default(),
                recent: RecentWrites::default(),
                births: Births::default(),
                commit_log: CommitLog::default(),
                sequences: Sequences::default(),
                storage_ids,
                spill_numbers,
                oids,
                next_transaction: AtomicU64::new(1),
                totals: Totals::default(),
                activities: Activities::default(),
                censuses: Mutex::default(),
                sync_thread: Some(sync_thread),
                collector,
                settler: Some(settler),
            }),
        })
    }

    /// The engine below, for tests and tools; transactions do not go through it.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.inner.pipeline.engine
    }

    /// The row and object locks, for views over them (`pg_locks`).
    pub fn locks(&self) -> &LockManager {
        &self.inner.locks
    }

    /// Number of fsyncs for commits since the database was opened.
    pub fn fsyncs(&self) -> u64 {
        self.inner.pipeline.sync.fsyncs()
    }

    /// Whether everything that was committed up to a time is durable.
    pub fn is_durable(&self, time: Timestamp) -> bool {
        self.inner.pipeline.sync.durable() >= time
    }

    /// The time up to which everything is visible.
    pub fn visible(&self) -> Timestamp {
        self.inner.pipeline.visible()
    }

    /// A consistent copy of what is committed, in a new directory on the same file system.
    pub fn checkpoint(&self, path: &Path) -> Result<()> {
        let engine = &self.inner.pipeline.engine;
        // The copy restarts its counters and sequences where they are now.
        self.inner.write_exact_state()?;
        engine.sync()?;
        Ok(engine.checkpoint(path)?)
    }

    /// One round of garbage collection, now.
    pub fn collect_garbage(&self) -> Result<()> {
        collector::round(&self.inner.pipeline, &|| false)
    }

    /// Settles the records of large transactions that have ended, now.
    pub fn settle_large_transactions(&self) -> Result<()> {
        let pipeline = &self.inner.pipeline;
        if let Some(mut walk) = pipeline.engine.begin_settling() {
            while pipeline.checked(pipeline.engine.settle_some(&mut walk))? != SettleStep::Finished {}
        }
        Ok(())
    }

    /// How many handles and transactions are alive, this one included.
    pub(crate) fn users(&self) -> usize {
        Arc::strong_count(&self.inner)
    }
}

impl Inner {
    fn write_exact_state(&self) -> Result<()> {
        self.sequences.close(&self.pipeline)?;
        self.storage_ids.close(&self.pipeline.engine)?;
        self.spill_numbers.close(&self.pipeline.engine)?;
        self.oids.close(&self.pipeline.engine)
    }

    /// A large transaction has committed, and deleted these keys, among others.
    pub(crate) fn learn_deleted(&self, keys: Vec<Vec<u8>>, time: Timestamp) {
        if let Some(settler) = self.settler.as_ref().filter(|_| !keys.is_empty()) {
            settler.learn(keys, time);
        }
    }

    fn close(&mut self) -> Result<()> {
        // Both are told before either is waited for: one may be waiting for the other.
        self.settler.iter().for_each(Settler::stop);
        self.collector.iter().for_each(Collector::stop);
        drop(self.settler.take());
        drop(self.collector.take());
        self.pipeline.sync.stop();
        if let Some(thread) = self.sync_thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the sync thread ended by a panic");
        }
        self.write_exact_state()?;
        // What large transactions have written and rolled back may be later than the last commit.
        Ok(self.pipeline.engine.close(self.pipeline.clock.now())?)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            // Nothing acknowledged is lost: the log has it.
            tracing::error!(%error, "closing the database failed");
        }
    }
}

impl Store for Database {
    fn begin(&self, options: BeginOptions) -> Result<Arc<dyn Transaction>> {
        Ok(Arc::new(Txn::begin(self.inner.clone(), options)?))
    }

    fn wait_durable(&self, time: Timestamp) {
        self.inner.pipeline.wait_durable(time);
    }

    fn answer_when_durable(&self, time: Timestamp, answer: Arc<dyn Answer>) {
        self.inner.pipeline.sync.answer(time, answer);
    }

    fn allocate_oid(&self) -> Result<u32> {
        self.inner.oids.allocate(&self.inner.pipeline.engine)
    }

    fn sequence_next(&self, sequence: StorageId, options: &SequenceOptions) -> Result<i64> {
        self.inner.sequences.next(&self.inner.pipeline, sequence, options)
    }

    fn sequence_set(&self, sequence: StorageId, value: i64, is_called: bool) -> Result<()> {
        self.inner.sequences.set(&self.inner.pipeline, sequence, value, is_called)
    }

    fn sequence_state(&self, sequence: StorageId) -> Result<Option<SequenceState>> {
        self.inner.sequences.state(&self.inner.pipeline, sequence)
    }

    fn unlock_object(&self, session: &SessionHandle, tag: LockTag, mode: TableLockMode) -> bool {
        self.inner.locks.unlock_object(session, tag, mode)
    }

    fn unlock_all(&self, session: &SessionHandle) {
        self.inner.locks.unlock_session(session);
    }

    fn locks(&self) -> Vec<LockInfo> {
        Database::locks(self).list()
    }

    fn waits(&self) -> Vec<LockInfo> {
        Database::locks(self).waits()
    }

    fn blocking_pids(&self, pid: i32) -> Vec<i32> {
        Database::locks(self).blocking_pids(pid)
    }

    fn space_usage(&self, storage: StorageId) -> Result<SpaceUsage> {
        let space = self.inner.pipeline.engine.space(storage)?;
        Ok(SpaceUsage { memtable_bytes: space.memtable_bytes, sst_bytes: space.file_bytes })
    }

    fn vacuum(&self, storages: &[StorageId], full: bool, stop: &dyn Fn() -> bool) -> Result<()> {
        self.collect_garbage()?;
        for storage in storages {
            if !stop() {
                collector::vacuum(&self.inner.pipeline, *storage, full, stop)?;
            }
        }
        Ok(())
    }

    fn retention(&self) -> Retention {
        self.inner.pipeline.engine.retention()
    }

    fn set_retention(&self, retention: Option<Retention>) -> Result<()> {
        Ok(self.inner.pipeline.engine.set_retention(retention)?)
    }

    fn storage_retentions(&self) -> HashMap<StorageId, Retention> {
        self.inner.pipeline.engine.storage_retentions()
    }

    fn history(&self, storage: StorageId) -> HistoryInfo {
        let engine = &self.inner.pipeline.engine;
        HistoryInfo {
            retention: engine.storage_retention(storage).unwrap_or_else(|| engine.retention()),
            readable_from: engine.horizons().of(storage),
            oldest_pin: engine.pins().oldest_pin(),
            collected: engine.collected(),
        }
    }

    fn activity(&self, object: u32) -> Arc<Activity> {
        self.inner.activities.of(object)
    }

    fn known_activity(&self, object: u32) -> Option<Arc<Activity>> {
        self.inner.activities.find(object)
    }

    fn reset_activity(&self, object: Option<u32>) {
        self.inner.activities.reset(object);
    }

    fn forget_activity(&self, object: u32) {
        self.inner.activities.forget(object);
    }

    fn read_totals(&self) -> ReadTotals {
        self.inner.totals.sum()
    }

    fn census(&self, storage: StorageId) -> Result<Census> {
        // A view asks several times for each table.
        let mut known = self.inner.censuses.lock();
        known.retain(|_, (at, _)| at.elapsed() < CENSUS_VALID);
        if let Some((_, census)) = known.get(&storage) {
            return Ok(*census);
        }
        drop(known);
        let census = self.inner.pipeline.engine.census(storage)?;
        self.inner.censuses.lock().insert(storage, (Instant::now(), census));
        Ok(census)
    }

    fn keys_at(&self, storage: StorageId, fractions: &[f64]) -> Result<Vec<Vec<u8>>> {
        Ok(self.inner.pipeline.engine.keys_at(storage, fractions)?)
    }

    fn dead_ranges(&self, storage: StorageId) -> u64 {
        self.inner.pipeline.engine.dead_ranges().count(storage)
    }

    fn wal_bytes(&self) -> Result<u64> {
        Ok(self.inner.pipeline.engine.wal_bytes()?)
    }

    fn pins(&self) -> Vec<PinInfo> {
        self.inner.pipeline.engine.pins().pins()
    }

    fn now(&self) -> Timestamp {
        self.inner.pipeline.clock.now()
    }

    fn tick(&self) -> Timestamp {
        self.inner.pipeline.clock.tick()
    }

    fn wall_clock_us(&self, timestamp: Timestamp) -> i64 {
        timestamp.micros().saturating_sub(self.inner.pipeline.clock.lead_micros())
    }

    fn timestamp_at(&self, wall_clock_us: i64) -> Timestamp {
        let lead = self.inner.pipeline.clock.lead_micros();
        Timestamp::last_of_micros(wall_clock_us.saturating_add(lead))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Storage(cairn_storage::Error::Io(error.to_string()))
    }
}
