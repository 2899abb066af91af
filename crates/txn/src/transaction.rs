//! One transaction: snapshots, reads, own writes, savepoints, its end.
//!
//! Reads see the store at the snapshot's time with the transaction's own writes of earlier commands laid over
//! it ([`crate::write_set`], and [`crate::spill`] when they outgrow memory), and key spaces that it loads in bulk at times of their own ([`crate::bulk`]).
//!
//! What is shared with cursors lives in [`Core`]; dropping the [`Txn`] rolls back, whatever cursors remain.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cairn_storage::{PastPin, PinKind, ReadStats, key};
use parking_lot::Mutex;

use crate::ascending::Ascending;
use crate::bulk::Bulk;
use crate::count;
use crate::cursor::MergeCursor;
use crate::database::Inner;
use crate::locks::{LockMark, LockOwner};
use crate::serializable::ReadSet;
use crate::snapshots::SnapshotPins;
use crate::spill::{self, DEFAULT_TRANSACTION_MEMORY, Spill};
use crate::spilled_locks::{self, Holder};
use crate::write_set::{UndoMark, WriteSet};
use crate::{
    BeginOptions, CommandId, Conflict, Cursor, Direction, Durability, Error, Isolation, KeyRange,
    LockOutcome, LockScope, LockTag, Newest, ReadCounters, Result, Retention, RowLockMode, SavepointId,
    Snapshot, StorageId, TableLockMode, Timestamp, Transaction, WaitPolicy,
};

/// A key space that this transaction created.
#[derive(Debug)]
struct Created {
    storage: StorageId,
    /// What was visible then. Whoever creates an index has locked its table before: nobody has changed it since.
    since: Timestamp,
    bulk: Bulk,
}

#[derive(Debug)]
struct Savepoint {
    id: SavepointId,
    undo: UndoMark,
    locks: LockMark,
    created: usize,
    dropped: usize,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) writes: WriteSet,
    pub(crate) spill: Option<Spill>,
    savepoints: Vec<Savepoint>,
    last_savepoint: u32,
    created: Vec<Created>,
    dropped: Vec<StorageId>,
    retentions: Vec<(StorageId, Option<Retention>)>,
    finished: bool,
}

impl State {
    fn created_mut(&mut self, key: &[u8]) -> Option<&mut Bulk> {
        if self.created.is_empty() {
            return None;
        }
        let storage = key::storage_of(key)?;
        self.created.iter_mut().find(|created| created.storage == storage).map(|created| &mut created.bulk)
    }

    fn can_bulk_load(&self, storage: StorageId) -> bool {
        let level_start = self.savepoints.last().map_or(0, |savepoint| savepoint.created);
        self.created.get(level_start..).is_some_and(|level| level.iter().any(|c| c.storage == storage))
    }

    fn has_work(&self) -> bool {
        !self.writes.is_empty()
            || self.spill.is_some()
            || !self.created.is_empty()
            || !self.dropped.is_empty()
            || !self.retentions.is_empty()
    }
}

/// Where a read of a key finds committed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAt {
    Time(Timestamp),
    /// A new key space of this transaction, to which it may add rows in the past.
    Private(Timestamp),
    /// A new key space without rows that the snapshot sees, or one that came to be after the snapshot.
    Nothing,
}

pub(crate) struct Core {
    pub(crate) database: Arc<Inner>,
    pub(crate) state: Mutex<State>,
    /// Whether `state` has anything that reads must look at; spares most of them the lock.
    touched: AtomicBool,
    /// It is serializable and may write: what it reads is remembered.
    remembers: AtomicBool,
    reads: Mutex<ReadSet>,
    stats: Mutex<ReadStats>,
    /// The time that the transaction was asked to read at.
    past: Option<PastPin>,
    /// Cursors report at each row.
    watched: AtomicBool,
    uncounted: AtomicBool,
}

impl Core {
    /// Where a read at the transaction's own time is remembered, if it is serializable.
    pub(crate) fn reads(&self) -> Option<&Mutex<ReadSet>> {
        self.remembers.load(Ordering::Acquire).then_some(&self.reads)
    }

    /// A read could not be remembered: the transaction cannot commit writes any more.
    pub(crate) fn doom_reads(&self) {
        if let Some(reads) = self.reads() {
            reads.lock().doom();
        }
    }

    pub(crate) fn touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    /// On the thread that has read.
    pub(crate) fn add_stats(&self, stats: &ReadStats) {
        let mut sum = self.stats.lock();
        sum.add(stats);
        sum.add_hidden();
    }

    pub(crate) fn watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// [`Error::HistoryGone`] where the transaction's read time lies before what is kept of the key's storage.
    #[inline]
    pub(crate) fn check_past(&self, key: &[u8]) -> Result<()> {
        match (&self.past, key::storage_of(key)) {
            (Some(past), Some(storage)) => past
                .check(storage)
                .map_err(|oldest| Error::HistoryGone { requested: past.pin.time(), oldest }),
            _ => Ok(()),
        }
    }

    /// What a snapshot reads under `key`'s storage id, which this transaction has not created.
    #[inline]
    pub(crate) fn read_others_at(&self, snapshot: &Snapshot, key: &[u8]) -> ReadAt {
        match key::storage_of(key) {
            Some(storage) if self.database.births.is_after(storage, snapshot.read_time) => ReadAt::Nothing,
            _ => ReadAt::Time(snapshot.read_time),
        }
    }

    /// What a snapshot reads under `key`'s storage id; hands bulk rows over to the store first.
    pub(crate) fn read_at(&self, state: &mut State, snapshot: &Snapshot, key: &[u8]) -> Result<ReadAt> {
        match state.created_mut(key) {
            None => Ok(self.read_others_at(snapshot, key)),
            Some(bulk) => match bulk.read_time(snapshot.command) {
                None => Ok(ReadAt::Nothing),
                Some(time) => {
                    bulk.flush(&self.database.pipeline.engine)?;
                    Ok(ReadAt::Private(time))
                }
            },
        }
    }
}

impl Drop for Core {
    /// The transaction and its cursors are gone.
    fn drop(&mut self) {
        if !*self.uncounted.get_mut() {
            self.database.totals.add(self.stats.get_mut().counters);
        }
    }
}

pub(crate) struct Txn {
    core: Arc<Core>,
    owner: Arc<LockOwner>,
    /// Once any row locks are in the store.
    spilled_locks: OnceLock<Arc<Holder>>,
    /// An [`Isolation`].
    isolation: AtomicU8,
    read_only: AtomicBool,
    /// A snapshot was taken.
    has_read: AtomicBool,
    command: AtomicU32,
    memory_limit: AtomicUsize,
    /// The time of all snapshots; 0 until it is taken, and always for read committed.
    fixed_time: AtomicU64,
    pins: Mutex<SnapshotPins>,
    ascending: Mutex<Ascending>,
}

impl Txn {
    /// [`Error::HistoryGone`] for a read time whose history may have been collected.
    pub(crate) fn begin(database: Arc<Inner>, options: BeginOptions) -> Result<Self> {
        let number = database.next_transaction.fetch_add(1, Ordering::Relaxed);
        let mut past = None;
        if let Some(requested) = options.read_time {
            // A time in the future is not repeatable: the present will do.
            let time = requested.min(database.pipeline.visible()).max(Timestamp(1));
            let pinned = database.pipeline.engine.pin_past(options.session.pid, time);
            past = Some(pinned.map_err(|oldest| Error::HistoryGone { requested, oldest })?);
        }
        let fixed = past.as_ref().map(|past: &PastPin| past.pin.time());
        let owner = Arc::new(LockOwner::new(options.session, number));
        let read_only = options.read_only || fixed.is_some();
        Ok(Txn {
            core: Arc::new(Core {
                database,
                state: Mutex::default(),
                touched: AtomicBool::new(false),
                remembers: AtomicBool::new(options.isolation == Isolation::Serializable && !read_only),
                reads: Mutex::default(),
                stats: Mutex::default(),
                past,
                watched: AtomicBool::new(false),
                uncounted: AtomicBool::new(false),
            }),
            owner,
            spilled_locks: OnceLock::new(),
            isolation: AtomicU8::new(options.isolation as u8),
            read_only: AtomicBool::new(read_only),
            has_read: AtomicBool::new(false),
            command: AtomicU32::new(0),
            memory_limit: AtomicUsize::new(DEFAULT_TRANSACTION_MEMORY),
            fixed_time: AtomicU64::new(fixed.map_or(0, |time| time.0)),
            pins: Mutex::default(),
            ascending: Mutex::default(),
        })
    }

    fn release_pins(&self) {
        self.pins.lock().release_all(self.core.database.pipeline.engine.pins());
    }

    /// Pins what is visible now, and returns its time.
    fn pin_visible(&self, kind: PinKind) -> Timestamp {
        let pipeline = &self.core.database.pipeline;
        let mut pins = self.pins.lock();
        pins.take(pipeline.engine.pins(), self.owner.pid(), kind, || pipeline.visible())
    }

    /// The time of all snapshots, if there is one and it was taken.
    fn fixed(&self) -> Timestamp {
        Timestamp(self.fixed_time.load(Ordering::Acquire))
    }

    /// Gives back the pins, and the place in the log of commits; at the end of the transaction.
    fn release_times(&self) {
        self.ascending.lock().clear();
        self.release_pins();
        if self.core.reads().is_some() && self.fixed() != Timestamp::MIN {
            self.core.database.commit_log.unregister(self.fixed());
        }
    }

    /// A key was read in the store.
    fn note_read(&self, snapshot: &Snapshot, key: &[u8]) -> Result<()> {
        match self.core.reads() {
            Some(reads) if snapshot.read_time == self.fixed() => reads.lock().add_key(key),
            _ => Ok(()),
        }
    }

    /// For a write: the state, if writing is allowed.
    fn writing(&self) -> Result<parking_lot::MutexGuard<'_, State>> {
        if self.read_only.load(Ordering::Relaxed) {
            return Err(Error::ReadOnly);
        }
        let state = self.core.state.lock();
        if state.finished {
            return Err(Error::Misuse("the transaction has ended"));
        }
        self.core.touched.store(true, Ordering::Release);
        Ok(state)
    }

    fn write(&self, key: &[u8], value: Option<Bytes>) -> Result<()> {
        if key.len() < key::STORAGE_ID_BYTES {
            return Err(Error::Misuse("a key begins with a storage id"));
        }
        let mut state = self.writing()?;
        let logged = !state.savepoints.is_empty();
        state.writes.write(key, self.command(), value, logged);
        self.bound_memory(&mut state)
    }

    /// What needs too much memory goes to the store: writes, row locks or both, whichever have a good part of it.
    #[inline]
    fn bound_memory(&self, state: &mut State) -> Result<()> {
        let limit = self.memory_limit.load(Ordering::Relaxed);
        if state.writes.bytes() + self.owner.memory() <= limit { Ok(()) } else { self.spill(state, limit) }
    }

    #[cold]
    fn spill(&self, state: &mut State, limit: usize) -> Result<()> {
        let database = &self.core.database;
        if self.owner.memory() > limit / 4 {
            spilled_locks::write_out(database, &self.owner, &self.spilled_locks)?;
        }
        if state.writes.bytes() > limit / 2 {
            self.write_out(state, false)?;
        }
        Ok(())
    }

    /// All writes in memory go to the store.
    fn write_out(&self, state: &mut State, is_commit: bool) -> Result<()> {
        let State { writes, spill, created, .. } = state;
        let unrecorded = created.iter().filter(|created| !created.bulk.recorded());
        let mut pending: Vec<StorageId> = unrecorded.map(|created| created.storage).collect();
        let written =
            spill::write_out(&self.core.database, &self.owner, writes, spill, &mut pending, is_commit);
        for created in created.iter_mut().filter(|created| !pending.contains(&created.storage)) {
            created.bulk.set_recorded();
        }
        written
    }

    /// End of the transaction.
    fn release_locks(&self) {
        let database = &self.core.database;
        database.locks.release_all(&self.owner);
        if let Some(holder) = self.spilled_locks.get() {
            database.spilled_locks.remove(&database.pipeline.engine, holder);
        }
    }

    /// The newest own write of a key.
    fn own_newest(&self, state: &State, key: &[u8]) -> Result<Option<(CommandId, Option<Bytes>)>> {
        if let Some((command, value)) = state.writes.newest(key) {
            return Ok(Some((command, value.clone())));
        }
        match &state.spill {
            Some(spill) => spill.newest(&self.core.database.pipeline.engine, key),
            None => Ok(None),
        }
    }

    fn own_or_time(&self, snapshot: &Snapshot, key: &[u8]) -> Result<OwnOrTime> {
        self.core.check_past(key)?;
        let read_at = if self.core.touched() {
            let mut state = self.core.state.lock();
            if let Some(value) = state.writes.visible(key, snapshot.command) {
                return Ok(OwnOrTime::Own(value.clone()));
            }
            if let Some(spill) = &state.spill
                && let Some(value) =
                    spill.visible(&self.core.database.pipeline.engine, key, snapshot.command)?
            {
                return Ok(OwnOrTime::Own(value));
            }
            self.core.read_at(&mut state, snapshot, key)?
        } else {
            self.core.read_others_at(snapshot, key)
        };
        Ok(match read_at {
            ReadAt::Time(time) | ReadAt::Private(time) => OwnOrTime::Time(time),
            ReadAt::Nothing => OwnOrTime::Own(None),
        })
    }

    /// First updater wins: whether somebody changed, since the snapshot, a row that it sees.
    fn check_unchanged(&self, key: &[u8], mode: RowLockMode) -> Result<()> {
        let fixed = Timestamp(self.fixed_time.load(Ordering::Acquire));
        if self.isolation() == Isolation::ReadCommitted || fixed == Timestamp::MIN {
            return Ok(());
        }
        if !self.core.database.recent.may_be_newer(key, fixed) {
            return Ok(());
        }
        let mut stats = ReadStats::default();
        let mut reader = self.core.database.pipeline.engine.point_reader()?;
        let newest = reader.time(key, Timestamp::MAX, &mut stats)?;
        let conflict = match newest {
            Some((time, is_value)) if time > fixed => {
                // An absent row that somebody made meanwhile is no conflict: what is wanted of it is to be absent,
                // and its unique check looks at the newest state anyway.
                match reader.time(key, fixed, &mut stats)? {
                    Some((_, true)) if !is_value => Some(Conflict::Delete),
                    // KEY SHARE does not mind changes of other columns.
                    Some((_, true)) if mode != RowLockMode::KeyShare => Some(Conflict::Update),
                    _ => None,
                }
            }
            _ => None,
        };
        drop(reader);
        self.core.add_stats(&stats);
        conflict.map_or(Ok(()), |conflict| Err(Error::Serialization(conflict)))
    }

    /// Removes what the store has of key spaces that will never be.
    fn discard(&self, created: &[Created]) -> Result<()> {
        let database = &self.core.database;
        let mut batch = database.pipeline.engine.batch();
        for created in created {
            if created.bulk.recorded() {
                batch.delete_pending_storage(created.storage);
            }
            if database.sequences.forget(created.storage) {
                batch.delete_sequence(created.storage);
            }
        }
        if batch.is_empty() { Ok(()) } else { Ok(database.pipeline.engine.write(batch)?) }
    }

    fn roll_back(&self, state: &mut State) {
        state.finished = true;
        self.release_times();
        state.writes.clear();
        if let Some(spill) = state.spill.take() {
            spill.rolled_back(&self.core.database.pipeline.engine);
        }
        let created = std::mem::take(&mut state.created);
        if !created.is_empty()
            && let Err(error) = self.discard(&created)
        {
            // The pending records stay; opening the store next time removes the key spaces.
            tracing::warn!(%error, "could not remove an unfinished bulk load");
        }
        self.release_locks();
    }

    fn savepoint_position(state: &State, id: SavepointId) -> Result<usize> {
        let position = state.savepoints.iter().position(|savepoint| savepoint.id == id);
        position.ok_or(Error::NoSuchSavepoint(id))
    }
}

enum OwnOrTime {
    Own(Option<Bytes>),
    Time(Timestamp),
}

impl Transaction for Txn {
    fn isolation(&self) -> Isolation {
        match self.isolation.load(Ordering::Relaxed) {
            at if at == Isolation::ReadCommitted as u8 => Isolation::ReadCommitted,
            at if at == Isolation::RepeatableRead as u8 => Isolation::RepeatableRead,
            _ => Isolation::Serializable,
        }
    }

    fn set_options(&self, isolation: Isolation, read_only: bool) -> bool {
        if self.has_read.load(Ordering::Acquire) || self.has_writes() || self.core.past.is_some() {
            return false;
        }
        self.isolation.store(isolation as u8, Ordering::Relaxed);
        self.read_only.store(read_only, Ordering::Relaxed);
        self.core.remembers.store(isolation == Isolation::Serializable && !read_only, Ordering::Release);
        true
    }

    fn number(&self) -> u64 {
        self.owner.number()
    }

    fn snapshot(&self) -> Result<Snapshot> {
        self.has_read.store(true, Ordering::Release);
        let fixed = self.fixed_time.load(Ordering::Acquire);
        let read_time = if fixed != 0 {
            Timestamp(fixed)
        } else {
            match self.isolation() {
                Isolation::ReadCommitted => self.pin_visible(PinKind::Statement),
                Isolation::RepeatableRead | Isolation::Serializable => {
                    let visible = if self.core.reads().is_some() {
                        let database = &self.core.database;
                        database.pipeline.between_commits(|| {
                            let visible = self.pin_visible(PinKind::Transaction);
                            database.commit_log.register(visible);
                            visible
                        })
                    } else {
                        self.pin_visible(PinKind::Transaction)
                    };
                    self.fixed_time.store(visible.0, Ordering::Release);
                    visible
                }
            }
        };
        Ok(Snapshot { read_time, command: self.command() })
    }

    fn fixed_time(&self) -> Option<Timestamp> {
        Some(self.fixed()).filter(|time| *time != Timestamp::MIN)
    }

    fn index_serves(&self, time: Timestamp, table: StorageId, index: StorageId) -> bool {
        if self.core.touched() {
            let state = self.core.state.lock();
            let created = |storage| state.created.iter().find(|created| created.storage == storage);
            if let Some(index) = created(index) {
                // All rows of a table of our own are our own, whenever the snapshot was taken.
                return index.since <= time || created(table).is_some();
            }
        }
        // For a snapshot that is older than the table as well, both are empty.
        let births = &self.core.database.births;
        !births.is_after(index, time) || births.is_after(table, time)
    }

    fn newest_snapshot(&self) -> Result<Snapshot> {
        if self.core.past.is_some() {
            // It writes nothing, so nothing that it reads may be newer.
            return self.snapshot();
        }
        self.has_read.store(true, Ordering::Release);
        let pipeline = &self.core.database.pipeline;
        let read_time = pipeline.between_commits(|| self.pin_visible(PinKind::Statement));
        Ok(Snapshot { read_time, command: self.command() })
    }

    fn release_snapshots(&self, still_used: &[Snapshot]) {
        if self.fixed_time.load(Ordering::Acquire) != 0 {
            return;
        }
        let used: Vec<Timestamp> = still_used.iter().map(|snapshot| snapshot.read_time).collect();
        let pins = self.core.database.pipeline.engine.pins();
        self.pins.lock().release_except(pins, &used);
    }

    fn hold_snapshot(&self, snapshot: &Snapshot) {
        self.pins.lock().hold(snapshot.read_time);
    }

    fn release_snapshot(&self, snapshot: &Snapshot) {
        // The one of a repeatable read transaction is in use to its end.
        if snapshot.read_time != self.fixed() {
            let pins = self.core.database.pipeline.engine.pins();
            self.pins.lock().release_one(pins, snapshot.read_time);
        }
    }

    fn command(&self) -> CommandId {
        self.command.load(Ordering::Acquire)
    }

    fn advance_command(&self) -> CommandId {
        self.ascending.lock().clear();
        self.command.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn get(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
        let time = match self.own_or_time(snapshot, key)? {
            OwnOrTime::Own(value) => return Ok(value),
            OwnOrTime::Time(time) => time,
        };
        let mut stats = ReadStats::default();
        let version = self.core.database.pipeline.engine.get(key, time, &mut stats)?;
        self.core.add_stats(&stats);
        self.note_read(snapshot, key)?;
        Ok(version.and_then(|version| version.value))
    }

    fn get_batch(&self, snapshot: &Snapshot, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        let mut stats = ReadStats::default();
        // Bulk rows must reach the store before the reader is made.
        let places = keys.iter().map(|key| self.own_or_time(snapshot, key)).collect::<Result<Vec<_>>>()?;
        let mut reader = self.core.database.pipeline.engine.point_reader()?;
        let mut values = vec![None; keys.len()];
        // In key order, neighbours share blocks.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        if !keys.is_sorted() {
            order.sort_unstable_by(|a, b| keys.get(*a).cmp(&keys.get(*b)));
        }
        for index in order {
            if let (Some(key), Some(place), Some(value)) =
                (keys.get(index), places.get(index), values.get_mut(index))
            {
                *value = match place {
                    OwnOrTime::Own(own) => own.clone(),
                    OwnOrTime::Time(time) => {
                        self.note_read(snapshot, key)?;
                        reader.get(key, *time, &mut stats)?.and_then(|version| version.value)
                    }
                };
            }
        }
        drop(reader);
        self.core.add_stats(&stats);
        Ok(values)
    }

    fn newest(&self, key: &[u8]) -> Result<Newest> {
        let engine = &self.core.database.pipeline.engine;
        let mut stats = ReadStats::default();
        let mut own = None;
        let mut committed = None;
        let mut is_bulk = false;
        if self.core.touched() {
            let mut state = self.core.state.lock();
            own = state.writes.newest(key).map(|(command, value)| (command, value.clone()));
            if let (None, Some(spill)) = (&own, &state.spill) {
                let (spilled, version) = spill.newest_with_committed(engine, key, &mut stats)?;
                own = spilled;
                committed = Some(version);
            }
            if let Some(bulk) = state.created_mut(key) {
                own = own.or(bulk.buffered(key).map(|(command, value)| (command, Some(value.clone()))));
                if own.is_some() || !bulk.may_be_stored(key) {
                    let (own_command, value) = own.map_or((None, None), |(c, value)| (Some(c), value));
                    return Ok(Newest { committed_at: Timestamp::MIN, own_command, value });
                }
                is_bulk = true;
            }
        }
        let version = match committed {
            Some(version) => version,
            None => engine.get(key, Timestamp::MAX, &mut stats)?,
        };
        self.core.add_stats(&stats);
        let (time, value) = version.map_or((Timestamp::MIN, None), |version| (version.time, version.value));
        if is_bulk {
            let mut state = self.core.state.lock();
            let own_command = state.created_mut(key).and_then(|bulk| bulk.command_of(time));
            return Ok(Newest { committed_at: Timestamp::MIN, own_command, value });
        }
        Ok(match own {
            Some((command, own)) => Newest { committed_at: time, own_command: Some(command), value: own },
            None => Newest { committed_at: time, own_command: None, value },
        })
    }

    fn newest_of_locked(&self, key: &[u8]) -> Result<Newest> {
        if self.core.touched() {
            let mut state = self.core.state.lock();
            // Where there may be own writes, one pass finds those and the committed ones.
            let may_have_own = state.writes.newest(key).is_some()
                || state.spill.as_ref().is_some_and(|spill| spill.may_have(key));
            if may_have_own || state.created_mut(key).is_some() {
                drop(state);
                return self.newest(key);
            }
        }
        let database = &self.core.database;
        let engine = &database.pipeline.engine;
        let visible = || database.pipeline.visible();
        let mut stats = ReadStats::default();
        let found = self.ascending.lock().newest(engine, &database.recent, visible, key, &mut stats)?;
        let version = match found {
            Some(version) => version,
            None => engine.get(key, Timestamp::MAX, &mut stats)?,
        };
        self.core.add_stats(&stats);
        let (committed_at, value) =
            version.map_or((Timestamp::MIN, None), |version| (version.time, version.value));
        Ok(Newest { committed_at, own_command: None, value })
    }

    fn newer(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Newest>> {
        if self.core.touched() {
            let mut state = self.core.state.lock();
            if let Some((command, value)) = self.own_newest(&state, key)? {
                // Nobody else can have written since the own write, whose lock is held.
                return Ok((command >= snapshot.command).then_some(Newest {
                    committed_at: Timestamp::MIN,
                    own_command: Some(command),
                    value,
                }));
            }
            if state.created_mut(key).is_some() {
                drop(state);
                let newest = self.newest(key)?;
                let is_newer = newest.own_command.is_some_and(|command| command >= snapshot.command);
                return Ok(is_newer.then_some(newest));
            }
        }
        if !self.core.database.recent.may_be_newer(key, snapshot.read_time) {
            return Ok(None);
        }
        let newest = self.newest(key)?;
        Ok((newest.committed_at > snapshot.read_time).then_some(newest))
    }

    fn first_own_command(&self, key: &[u8], since: CommandId) -> Result<Option<CommandId>> {
        let state = self.core.state.lock();
        // What has spilled is older than what has not.
        if let Some(spill) = &state.spill
            && let Some(first) = spill.first_command(&self.core.database.pipeline.engine, key, since)?
        {
            return Ok(Some(first));
        }
        Ok(state.writes.first_command(key, since))
    }

    fn scan(&self, snapshot: &Snapshot, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(MergeCursor::open(self.core.clone(), *snapshot, range, direction, self.fixed())?))
    }

    fn count(&self, snapshot: &Snapshot, range: KeyRange, go_on: &mut dyn FnMut() -> bool) -> Result<u64> {
        let cursor =
            MergeCursor::open(self.core.clone(), *snapshot, range, Direction::Forward, self.fixed())?;
        count::count(&self.core, cursor, go_on)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(key, Some(Bytes::copy_from_slice(value)))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(key, None)
    }

    fn create_storage(&self) -> Result<StorageId> {
        let mut state = self.writing()?;
        let database = &self.core.database;
        let storage = database.storage_ids.allocate(&database.pipeline.engine)?;
        let since = database.pipeline.visible();
        state.created.push(Created { storage, since, bulk: Bulk::new(storage) });
        Ok(storage)
    }

    fn drop_storage(&self, storage: StorageId) -> Result<()> {
        self.writing()?.dropped.push(storage);
        Ok(())
    }

    fn set_retention(&self, storage: StorageId, retention: Option<Retention>) -> Result<()> {
        self.writing()?.retentions.push((storage, retention));
        Ok(())
    }

    fn can_bulk_load(&self, storage: StorageId) -> bool {
        self.core.touched() && self.core.state.lock().can_bulk_load(storage)
    }

    fn bulk_put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut state = self.writing()?;
        let storage = key::storage_of(key).ok_or(Error::Misuse("a key begins with a storage id"))?;
        if !state.can_bulk_load(storage) {
            return Err(Error::NoBulkLoad(storage));
        }
        if self.own_newest(&state, key)?.is_some() {
            // The commit will write what is in memory above anything written directly.
            let logged = !state.savepoints.is_empty();
            state.writes.write(key, self.command(), Some(Bytes::copy_from_slice(value)), logged);
            return self.bound_memory(&mut state);
        }
        let pipeline = &self.core.database.pipeline;
        match state.created_mut(key) {
            None => Err(Error::NoBulkLoad(storage)),
            Some(bulk) => bulk.put(&pipeline.engine, || pipeline.clock.tick(), self.command(), key, value),
        }
    }

    fn lock_row(&self, key: &[u8], mode: RowLockMode, wait: WaitPolicy) -> Result<LockOutcome> {
        let database = &self.core.database;
        let engine = &database.pipeline.engine;
        if let Some(own) = self.spilled_locks.get()
            && own.mode(engine, key)?.is_some_and(|held| held >= mode)
        {
            return Ok(LockOutcome::Acquired { waited: false });
        }
        let locks = &database.locks;
        let outcome = loop {
            let hand_overs = locks.hand_overs();
            let spilled = &database.spilled_locks;
            let waits = matches!(wait, WaitPolicy::Block { .. });
            if !spilled.is_empty() && spilled.in_the_way(engine, locks, &self.owner, key, mode, waits)? {
                match wait {
                    WaitPolicy::Skip => return Ok(LockOutcome::Skipped),
                    WaitPolicy::Error => return Err(Error::LockNotAvailable),
                    WaitPolicy::Block { .. } => {}
                }
            }
            if let Some(outcome) = locks.lock_row_unless_moved(&self.owner, key, mode, wait, hand_overs)? {
                break outcome;
            }
        };
        if outcome == LockOutcome::Skipped {
            return Ok(outcome);
        }
        if mode != RowLockMode::Witness {
            self.check_unchanged(key, mode)?;
        }
        if self.owner.memory() > self.memory_limit.load(Ordering::Relaxed) / 4 {
            self.bound_memory(&mut self.core.state.lock())?;
        }
        Ok(outcome)
    }

    fn lock_object(
        &self,
        tag: LockTag,
        mode: TableLockMode,
        scope: LockScope,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        self.core.database.locks.lock_object(&self.owner, tag, mode, scope, wait)
    }

    fn savepoint(&self) -> SavepointId {
        let mut state = self.core.state.lock();
        state.last_savepoint += 1;
        let id = SavepointId(state.last_savepoint);
        let savepoint = Savepoint {
            id,
            undo: state.writes.mark(),
            locks: self.core.database.locks.savepoint(&self.owner),
            created: state.created.len(),
            dropped: state.dropped.len(),
        };
        state.savepoints.push(savepoint);
        id
    }

    fn rollback_to(&self, savepoint: SavepointId) -> Result<()> {
        let mut state = self.core.state.lock();
        let position = Self::savepoint_position(&state, savepoint)?;
        state.savepoints.truncate(position + 1);
        let Some(mut point) = state.savepoints.pop() else {
            return Err(Error::NoSuchSavepoint(savepoint));
        };
        state.writes.undo_to(point.undo);
        let last = state.writes.epoch();
        if state.spill.as_mut().is_some_and(|spill| spill.undo(point.undo.epoch, last)) {
            state.writes.next_epoch();
        }
        state.dropped.truncate(point.dropped);
        let kept = point.created.min(state.created.len());
        let created = state.created.split_off(kept);
        let locks = &self.core.database.locks;
        locks.rollback_to(&self.owner, point.locks);
        point.locks = locks.savepoint(&self.owner);
        state.savepoints.push(point);
        drop(state);
        self.discard(&created)
    }

    fn release(&self, savepoint: SavepointId) -> Result<()> {
        let mut state = self.core.state.lock();
        let position = Self::savepoint_position(&state, savepoint)?;
        state.savepoints.truncate(position);
        if state.savepoints.is_empty() {
            state.writes.forget_undo();
        }
        Ok(())
    }

    fn set_memory_limit(&self, bytes: usize) {
        self.memory_limit.store(bytes, Ordering::Relaxed);
    }

    fn has_writes(&self) -> bool {
        self.core.touched() && self.core.state.lock().has_work()
    }

    fn counters(&self) -> ReadCounters {
        self.core.stats.lock().counters
    }

    fn check_reads(&self, only_if_cheap: bool) -> Result<()> {
        let Some(reads) = self.core.reads() else { return Ok(()) };
        let mut reads = reads.lock();
        if only_if_cheap && !reads.is_small() {
            return Ok(());
        }
        if self.core.database.commit_log.conflicts(self.fixed(), &mut reads)? {
            return Err(Error::Serialization(Conflict::ReadWrite));
        }
        Ok(())
    }

    fn watch_reads(&self, watched: bool) {
        self.core.watched.store(watched, Ordering::Relaxed);
    }

    fn leave_uncounted(&self) {
        self.core.uncounted.store(true, Ordering::Relaxed);
    }

    fn settled_at(&self) -> Timestamp {
        let seen = self.core.stats.lock().newest_seen;
        self.core.database.pipeline.settled_at(seen)
    }

    fn commit(&self, durability: Durability, before_visible: Option<&dyn Fn()>) -> Result<Option<Timestamp>> {
        let database = &self.core.database;
        let engine = &database.pipeline.engine;
        let mut state = self.core.state.lock();
        if state.finished {
            return Err(Error::Misuse("the transaction has ended"));
        }
        if !state.has_work() {
            state.finished = true;
            drop(state);
            self.release_times();
            self.release_locks();
            if durability != Durability::Promised {
                database.pipeline.wait_durable(self.settled_at());
            }
            return Ok(None);
        }
        let dropped = std::mem::take(&mut state.dropped);
        let mut flushed = Ok(());
        for created in &mut state.created {
            if flushed.is_ok() && !dropped.contains(&created.storage) {
                flushed = created.bulk.flush(engine);
            }
        }
        if flushed.is_ok() && state.spill.is_some() {
            // All of it becomes visible in the same way.
            flushed = self.write_out(&mut state, true);
        }
        if let Err(error) = flushed {
            self.roll_back(&mut state);
            return Err(error);
        }
        let is_created = |storage| state.created.iter().any(|created| created.storage == storage);
        let born_dead = |key: &[u8]| {
            !dropped.is_empty()
                && key::storage_of(key)
                    .is_some_and(|storage| dropped.contains(&storage) && is_created(storage))
        };
        let commit_time = Cell::new(Timestamp::MIN);
        let fill = |batch: &mut cairn_storage::Batch<'_>, time| {
            commit_time.set(time);
            if let Some(spill) = &state.spill {
                spill.fill_commit(batch, time);
                if database.commit_log.is_active() {
                    for (low, high) in spill.spans() {
                        database.commit_log.record_range(time, low, high);
                    }
                }
            }
            if database.commit_log.is_active() {
                database.commit_log.record(time, state.writes.outcome().map(|(key, _)| key));
            }
            for (key, value) in state.writes.outcome() {
                if !born_dead(key) {
                    batch.version(key, time, value);
                }
            }
            for created in &state.created {
                if created.bulk.recorded() {
                    if dropped.contains(&created.storage) {
                        batch.delete_pending_storage(created.storage);
                    } else {
                        batch.keep_pending_storage(created.storage);
                    }
                }
            }
            for storage in &dropped {
                if !is_created(*storage) {
                    batch.add_dropped_storage(*storage, time);
                }
                batch.delete_sequence(*storage);
            }
            for (storage, retention) in &state.retentions {
                batch.set_retention(*storage, *retention);
            }
        };
        let validate = || match self.core.reads() {
            Some(reads) if database.commit_log.conflicts(self.fixed(), &mut reads.lock())? => {
                Err(Error::Serialization(Conflict::ReadWrite))
            }
            _ => Ok(()),
        };
        let publish = || {
            let created = state.created.iter().map(|created| created.storage);
            let created = created.filter(|storage| !dropped.contains(storage));
            database.births.note(commit_time.get(), created, &dropped);
            if let Some(spill) = &state.spill {
                spill.committed(engine, commit_time.get());
            }
            if let Some(before_visible) = before_visible {
                before_visible();
            }
        };
        match database.pipeline.commit(durability, state.writes.bytes(), validate, fill, Some(&publish)) {
            Ok(time) => {
                state.finished = true;
                if let Some(spill) = state.spill.take() {
                    database.recent.note_all(time);
                    database.learn_deleted(spill.into_deleted(), time);
                }
                for (key, _) in state.writes.outcome() {
                    database.recent.note(key, time);
                }
                drop(state);
                self.release_times();
                for storage in dropped {
                    database.sequences.forget(storage);
                }
                self.release_locks();
                if durability == Durability::Sync {
                    database.pipeline.wait_durable(time);
                }
                Ok(Some(time))
            }
            Err(error) => {
                self.roll_back(&mut state);
                Err(error)
            }
        }
    }

    fn rollback(&self) {
        let mut state = self.core.state.lock();
        if !state.finished {
            self.roll_back(&mut state);
        }
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        self.rollback();
    }
}
