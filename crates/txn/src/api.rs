//! The key-value API that SQL stands on.
//!
//! Keys are ordered byte strings that begin with a storage id (4 bytes, big endian); values are byte strings.
//! SQL sees neither RocksDB nor the timestamp at the end of a stored key: it reads through a [`Snapshot`] and
//! writes into a [`Transaction`]. The traits are small and object-safe because a second implementation, over a
//! distributed engine, is planned behind them.
//!
//! Rules that a caller keeps:
//! - Within one storage id no key is a prefix of another (`cairn_types::key` sees to that).
//! - Whoever writes a key that others may write too locks it first.
//! - A transaction is used by one thread at a time; cursors of it may be open while it writes.

use std::sync::Arc;
use std::time::Duration;

pub use cairn_storage::{Census, Collected, PinInfo, PinKind, ReadCounters, Retention, StorageId, Timestamp};

pub use crate::totals::ReadTotals;

use crate::Activity;
pub use crate::group_sync::Answer;
use crate::locks::LockInfo;
use crate::{Error, Interrupt};

pub type Result<T> = std::result::Result<T, Error>;

/// Number of a command within its transaction. A read at command `c` sees the transaction's own writes
/// of commands before `c` only (Halloween problem, data-modifying CTEs).
pub type CommandId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement reads at a time of its own.
    ReadCommitted,
    /// One time for the whole transaction; writing a row that changed since then is [`Error::Serialization`].
    RepeatableRead,
    /// One time for the whole transaction, and what it has read must still be so when it commits writes:
    /// [`Error::Serialization`] otherwise (crate docs: `serializable`).
    Serializable,
}

/// What a read sees: versions committed at or before `read_time`, and own writes of commands before `command`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub read_time: Timestamp,
    pub command: CommandId,
}

/// One session as the transaction floor knows it; shared by the session's transactions.
#[derive(Debug)]
pub struct SessionHandle {
    /// The number by which clients know the session (BackendKeyData, deadlock reports).
    pub pid: i32,
    /// Cancel requests and timeouts: waiting for a lock ends when it is raised.
    pub interrupt: Arc<Interrupt>,
}

#[derive(Clone)]
pub struct BeginOptions {
    pub session: Arc<SessionHandle>,
    pub isolation: Isolation,
    /// Writing is refused with [`Error::ReadOnly`].
    pub read_only: bool,
    /// Reads at a time in the past; implies `read_only`. [`Error::HistoryGone`] if nothing of that time is kept.
    pub read_time: Option<Timestamp>,
}

/// Row lock modes, weakest first: PostgreSQL's with their conflict table (manual, section 13.3.2), and one on either side
/// of them that tell a row's removal from a lock that is as strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLockMode {
    /// Waits for who removes the key, and for nobody else (ON CONFLICT DO NOTHING).
    Witness,
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
    /// UPDATE of who deletes the key.
    Remove,
}

impl RowLockMode {
    pub(crate) const ALL: [RowLockMode; 6] = [
        RowLockMode::Witness,
        RowLockMode::KeyShare,
        RowLockMode::Share,
        RowLockMode::NoKeyUpdate,
        RowLockMode::Update,
        RowLockMode::Remove,
    ];

    /// Whether two transactions cannot hold the two at once.
    pub(crate) fn conflicts_with(self, other: RowLockMode) -> bool {
        // The table is a triangle: the stronger the one is, the weaker the other has to be.
        self as u8 + other as u8 > RowLockMode::Update as u8
    }
}

/// Table lock modes with PostgreSQL's conflict table (manual, section 13.3.1), weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableLockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// What to do where another transaction holds a conflicting lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Wait, at the most so long (`lock_timeout`; zero: without end).
    Block { timeout: Duration },
    /// SKIP LOCKED: give up quietly.
    Skip,
    /// NOWAIT: [`Error::LockNotAvailable`].
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The lock is held now. `waited` tells that somebody else held it first, so that what was read may be old.
    Acquired { waited: bool },
    /// Only for [`WaitPolicy::Skip`].
    Skipped,
}

/// What a table or advisory lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockTag {
    /// An object of the catalog: class (pg_class, ...) and object oid.
    Object { class: u32, object: u32 },
    /// `pg_advisory_lock(bigint)`.
    Advisory(i64),
    /// `pg_advisory_lock(int, int)`.
    AdvisoryPair(i32, i32),
    /// The end of the transaction of this number; itself holds it exclusively once its writes have outgrown memory and
    /// its row locks are in the store.
    Transaction(u64),
}

/// How long a table or advisory lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    Transaction,
    /// Until it is released by name, or the session ends; survives rollback.
    Session,
}

/// The newest state of a key: committed, or the transaction's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Time of the newest committed version (value or tombstone); [`Timestamp::MIN`] where there is none.
    pub committed_at: Timestamp,
    /// The command of an own write of the key, if there is one; `value` is that write's then.
    pub own_command: Option<CommandId>,
    /// `None`: deleted, or never there.
    pub value: Option<bytes::Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// `low <= key < high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub low: Vec<u8>,
    pub high: Vec<u8>,
}

/// Visible rows of a range, in key order. Own writes made while it is open stay unseen (command number).
pub trait Cursor: Send {
    /// The next row; the slices live until the next call.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
    /// Starts over on another range, keeping what is expensive to make (inner side of a nested loop).
    fn reset(&mut self, range: KeyRange) -> Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// `commit` returns after the fsync.
    Sync,
    /// The same promise, kept by the caller: `commit` returns before the fsync, and nobody may be told of it before
    /// [`Store::wait_durable`] or [`Store::answer_when_durable`] have seen its time durable.
    Promised,
    /// `synchronous_commit = off`: `commit` returns at once; the fsync follows within a second.
    Async,
}

/// One transaction. Dropping it without `commit` rolls it back.
pub trait Transaction: Send + Sync {
    fn isolation(&self) -> Isolation;
    /// Other options than it began with (SET TRANSACTION), as long as it has done no more than lock something. `false` from its
    /// first snapshot or write on, and of one that reads in the past.
    fn set_options(&self, isolation: Isolation, read_only: bool) -> bool;
    /// Goes up with each transaction of this database, from the time that it was opened.
    fn number(&self) -> u64;

    /// The snapshot for a statement that starts now: a new time in read committed, the transaction's own
    /// otherwise; `command` is the current one.
    fn snapshot(&self) -> Result<Snapshot>;
    /// Everything that is committed now and all own writes of earlier commands, whatever the isolation level: what DDL reads
    /// the rows of a table at that it has locked. To be given back with [`Transaction::release_snapshot`]. Every commit
    /// that was written when it is asked for is visible at it.
    fn newest_snapshot(&self) -> Result<Snapshot>;
    /// Snapshots of this transaction other than these are no longer in use, so that history need not be kept for them. The
    /// end of the transaction releases all; repeatable read keeps its one until then.
    fn release_snapshots(&self, _still_used: &[Snapshot]) {}
    /// The time of all snapshots, if there is one and it was taken: repeatable read, and reading in the past.
    fn fixed_time(&self) -> Option<Timestamp>;
    /// Whether `index` has the entries of all rows that a snapshot of this time sees in `table` (the storage ids of an index and its
    /// table in the newest catalog). An index that was built later has not: rows that were gone by then are not in it.
    fn index_serves(&self, time: Timestamp, table: StorageId, index: StorageId) -> bool;
    /// A snapshot that is in use is used once more; each use is given back by [`Transaction::release_snapshot`].
    fn hold_snapshot(&self, snapshot: &Snapshot);
    /// One snapshot, as given by one call of [`Transaction::snapshot`] or [`Transaction::newest_snapshot`], is no longer in use.
    fn release_snapshot(&self, _snapshot: &Snapshot) {}
    /// The current command: what is written now is its work. Goes up only.
    fn command(&self) -> CommandId;
    /// Ends a command: writes so far become visible to snapshots taken from now on.
    fn advance_command(&self) -> CommandId;

    fn get(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<bytes::Bytes>>;
    /// One answer per key, in order.
    fn get_batch(&self, snapshot: &Snapshot, keys: &[Vec<u8>]) -> Result<Vec<Option<bytes::Bytes>>>;
    /// The newest state of a key, whatever the snapshot: re-checks after a lock, unique and foreign key checks.
    fn newest(&self, key: &[u8]) -> Result<Newest>;
    /// The same for a key that is locked; quicker where one such key after another is asked for in ascending order.
    fn newest_of_locked(&self, key: &[u8]) -> Result<Newest> {
        self.newest(key)
    }
    /// For a key that is locked: its newest state, if that is not what the snapshot sees: somebody committed it later,
    /// or the transaction itself wrote it at the snapshot's command or a later one.
    fn newer(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Option<Newest>> {
        let newest = self.newest(key)?;
        let is_newer = match newest.own_command {
            Some(command) => command >= snapshot.command,
            None => newest.committed_at > snapshot.read_time,
        };
        Ok(is_newer.then_some(newest))
    }
    /// The first of the commands from `since` on under which the transaction itself has written a key (other than past its memory,
    /// where no key is written twice).
    fn first_own_command(&self, key: &[u8], since: CommandId) -> Result<Option<CommandId>>;
    fn scan(&self, snapshot: &Snapshot, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>>;

    /// The number of rows that [`Transaction::scan`] would show. `go_on` is asked now and then, on the calling thread, whether to:
    /// after a no, the answer is worth nothing.
    fn count(&self, snapshot: &Snapshot, range: KeyRange, go_on: &mut dyn FnMut() -> bool) -> Result<u64> {
        const ROWS_PER_QUESTION: u64 = 4096;
        let mut cursor = self.scan(snapshot, range, Direction::Forward)?;
        let mut rows = 0u64;
        while cursor.next()?.is_some() {
            rows += 1;
            if rows.is_multiple_of(ROWS_PER_QUESTION) && !go_on() {
                break;
            }
        }
        Ok(rows)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// A new, empty storage id that nobody else sees before the commit; a rollback gives its space back.
    fn create_storage(&self) -> Result<StorageId>;
    /// The storage is given up at commit (drop, truncate, rewrite); older snapshots may still read it. For those the one that
    /// takes its place is empty.
    fn drop_storage(&self, storage: StorageId) -> Result<()>;
    /// From the commit on, the storage has a retention of its own, or none again.
    fn set_retention(&self, storage: StorageId, retention: Option<Retention>) -> Result<()>;
    /// Whether [`Transaction::bulk_put`] may write into it: created by this transaction in the current savepoint.
    fn can_bulk_load(&self, storage: StorageId) -> bool;
    /// Writes a key that is not there yet past the transaction's memory, straight into the store; visible to
    /// the transaction's later commands, to others after the commit. Only where `can_bulk_load`.
    fn bulk_put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Locks a row key, there or absent. Held to the end of the transaction (or of the savepoint, if rolled back).
    fn lock_row(&self, key: &[u8], mode: RowLockMode, wait: WaitPolicy) -> Result<LockOutcome>;
    /// Shared or exclusive advisory locks use `Share` and `Exclusive`.
    fn lock_object(
        &self,
        tag: LockTag,
        mode: TableLockMode,
        scope: LockScope,
        wait: WaitPolicy,
    ) -> Result<LockOutcome>;

    /// Opens a savepoint (subtransaction); they nest.
    fn savepoint(&self) -> SavepointId;
    /// Undoes writes, locks and storages since the savepoint, which stays open.
    fn rollback_to(&self, savepoint: SavepointId) -> Result<()>;
    /// Keeps what was done since, closes it and those inside it.
    fn release(&self, savepoint: SavepointId) -> Result<()>;

    /// Writes and row locks that need more memory than this, about, go to the store before the commit. From the next write on.
    fn set_memory_limit(&self, _bytes: usize) {}
    /// Whether it has written anything.
    fn has_writes(&self) -> bool;
    /// What reads have cost so far. Cursors report now and then and when they end; while reads are watched, at each row.
    fn counters(&self) -> ReadCounters;
    fn watch_reads(&self, _watched: bool) {}
    /// No client waits for this transaction: what it reads is not added to [`Store::read_totals`].
    fn leave_uncounted(&self) {}
    /// Serializable: fails now if the commit is going to, because something that was read has changed.
    /// `only_if_cheap`: a large read set is not looked through.
    fn check_reads(&self, _only_if_cheap: bool) -> Result<()> {
        Ok(())
    }
    /// What has to be durable before anybody is told what this transaction has read so far.
    fn settled_at(&self) -> Timestamp;
    /// Commits; the commit time, or `None` if nothing was written. Locks are released before the fsync.
    /// `before_visible` runs inside the commit section, after the writes and before anybody can see them: what must change
    /// together with the data (catalog version) changes there.
    /// A transaction that wrote nothing waits until what it has read is durable, unless `durability` is a promise.
    fn commit(&self, durability: Durability, before_visible: Option<&dyn Fn()>) -> Result<Option<Timestamp>>;
    fn rollback(&self);
}

/// Depth-independent name of a savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SavepointId(pub u32);

/// How a sequence counts (`pg_sequence`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
}

/// A sequence's state as `select * from seq` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    pub last_value: i64,
    pub is_called: bool,
}

/// Bytes that a storage id occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUsage {
    pub memtable_bytes: u64,
    pub sst_bytes: u64,
}

/// How much of the past of a key space is there, and what holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryInfo {
    /// In force: its own, the database's or the server's.
    pub retention: Retention,
    /// Times at or above it are readable.
    pub readable_from: Timestamp,
    /// The pinned time that holds back the most history, of the whole database.
    pub oldest_pin: Option<PinInfo>,
    /// What the collector has done since the database was opened.
    pub collected: Collected,
}

/// One database.
pub trait Store: Send + Sync {
    fn begin(&self, options: BeginOptions) -> Result<Arc<dyn Transaction>>;
    /// Returns when every commit up to `time` is durable.
    fn wait_durable(&self, time: Timestamp);
    /// Gives `answer` when every commit up to `time` is durable: at once, or on the thread that makes it so.
    fn answer_when_durable(&self, time: Timestamp, answer: Arc<dyn Answer>);
    /// A new object oid, never given twice.
    fn allocate_oid(&self) -> Result<u32>;
    /// Sequences stand outside transactions. The state is kept under the sequence's storage id; a storage
    /// id without state begins at `start`. [`Error::SequenceExhausted`] at the end of one that does not cycle.
    fn sequence_next(&self, sequence: StorageId, options: &SequenceOptions) -> Result<i64>;
    fn sequence_set(&self, sequence: StorageId, value: i64, is_called: bool) -> Result<()>;
    /// `None`: never used.
    fn sequence_state(&self, sequence: StorageId) -> Result<Option<SequenceState>>;
    /// Releases one hold of a session-level lock; `false` if it was not held.
    fn unlock_object(&self, session: &SessionHandle, tag: LockTag, mode: TableLockMode) -> bool;
    fn unlock_all(&self, session: &SessionHandle);
    /// Every lock that is held or waited for (`pg_locks`).
    fn locks(&self) -> Vec<LockInfo>;
    /// Only what is waited for.
    fn waits(&self) -> Vec<LockInfo>;
    /// For whom a session waits (`pg_blocking_pids`).
    fn blocking_pids(&self, pid: i32) -> Vec<i32>;
    fn space_usage(&self, storage: StorageId) -> Result<SpaceUsage>;
    /// VACUUM: collects what is garbage in these key spaces now; `full`: rewrites them whether it gains anything or not. `stop` is
    /// asked now and then.
    fn vacuum(&self, storages: &[StorageId], full: bool, stop: &dyn Fn() -> bool) -> Result<()>;
    /// How long history is kept where a key space has no retention of its own.
    fn retention(&self) -> Retention;
    /// How long history is kept; `None`: as long as the server says. Durable when it returns.
    fn set_retention(&self, retention: Option<Retention>) -> Result<()>;
    /// Key spaces with a retention of their own ([`Transaction::set_retention`]).
    fn storage_retentions(&self) -> std::collections::HashMap<StorageId, Retention>;
    fn history(&self, storage: StorageId) -> HistoryInfo;
    /// The counters of a table or index, by whatever number the caller knows it.
    fn activity(&self, object: u32) -> Arc<Activity>;
    /// The same; `None` if nothing was counted yet.
    fn known_activity(&self, object: u32) -> Option<Arc<Activity>>;
    /// An object's counters begin anew; `None`: those of all objects.
    fn reset_activity(&self, object: Option<u32>);
    /// The object is gone.
    fn forget_activity(&self, object: u32);
    /// Reads of all ended transactions since the database was opened.
    fn read_totals(&self) -> ReadTotals;
    /// Versions of a key space, counted or estimated.
    fn census(&self, storage: StorageId) -> Result<Census>;
    /// For each of some fractions, ascending, a key before which about that part of a key space's bytes lies: places to
    /// take samples at. Empty where nothing is stored.
    fn keys_at(&self, storage: StorageId, fractions: &[f64]) -> Result<Vec<Vec<u8>>>;
    /// Number of dead ranges that scans of a key space may jump over.
    fn dead_ranges(&self, storage: StorageId) -> u64;
    /// Bytes of the database's write-ahead logs.
    fn wal_bytes(&self) -> Result<u64>;
    /// The past times that somebody reads at.
    fn pins(&self) -> Vec<PinInfo>;
    /// The clock, for `cairn.read_time` and display.
    fn now(&self) -> Timestamp;
    /// A time that nobody had before, later than all those. It moves the clock: commits from now on are later still, and after
    /// a restart the clock begins above all commits.
    fn tick(&self) -> Timestamp;
    /// Microseconds since 1970 of a timestamp, as the wall clock has it now: while the clock is ahead of the wall clock, less.
    fn wall_clock_us(&self, timestamp: Timestamp) -> i64;
    /// The timestamp that reads everything committed up to a wall clock time, as the wall clock is set now.
    fn timestamp_at(&self, wall_clock_us: i64) -> Timestamp;
}
