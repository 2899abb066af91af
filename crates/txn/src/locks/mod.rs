//! Row, table and advisory locks of one database, in memory.
//!
//! One mechanism serves all three: a key (row key or object tag), modes with a conflict table ([`modes`]), holders and one
//! FIFO queue per key ([`queue`]), a sharded hash table ([`table`]), deadlock search ([`deadlock`]).
//!
//! **Invariants**
//! 1. Two agents never hold conflicting modes of one key.
//! 2. Direct hand-off: whoever releases a lock gives it to the head of the queue, and to those behind it that conflict neither
//!    with a holder nor with a waiter in front of them, before anybody else can ask. A woken thread owns what it waited
//!    for; it never asks again. So nobody starves, and a hot row wakes one thread per release.
//! 3. A new request for a table or advisory lock that conflicts with a waiter queues behind it, even where the holders would
//!    let it in, unless it holds the key already in a mode that the waiter waits for: then it goes in front (upgrade). A
//!    row's new sharers go past those who wait, as in PostgreSQL; whoever conflicts with a holder queues in the same way.
//! 4. Every thread sleeps in its own slot (park / unpark); a cancel request, a timeout and a grant all wake that slot and
//!    the shard's mutex decides which came first.
//! 5. A transaction's list of acquisitions is in order; a savepoint is a place in it. An entry is made only where a mode was
//!    really added, so undoing entries from the end restores exactly the modes held at the savepoint.
//! 6. Row locks may be handed over to the store, but not while anybody waits for them ([`crate::spilled_locks`]).
//!
//! **Protocol**
//! ```text
//! lock(key, mode):
//!   shard mutex:
//!     no entry                          -> insert it with one holder; done         (the uncontended path)
//!     held already in a covering mode   -> done
//!     no conflict with holders, nor with waiters in front of our place -> add holder; done
//!     else SKIP LOCKED / NOWAIT         -> give up
//!     else enqueue a Waiter{thread} at our place
//!   register with the session's interrupt
//!   graph mutex: waiting[session] := waiter; deadlock? (see `deadlock`)  -> withdraw, error
//!   loop: granted? done. interrupted or timed out? withdraw under the shard mutex (unless granted meanwhile). park.
//!   graph mutex: remove waiting[session]
//!
//! release(key, mode or all):
//!   shard mutex: remove from holders; grant waiters; drop the entry if unused
//!   unpark the granted
//!
//! end of the transaction: release its rows, then its objects
//! ```
//! Order of mutexes: a transaction's own list or the graph before shards, shards in ascending order. The sessions' lists
//! are never held while a shard or the graph is.
//!
//! Cost: an uncontended row lock is one hash, one shard mutex, one allocation (its key); a table lock the same without the
//! allocation. Who has to wait reads the clock, after the shard's mutex was let go. Finding one's own hold is linear in the number
//! of holders of that key.

mod acquired;
mod deadlock;
mod modes;
mod queue;
pub(crate) mod sync;
mod table;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hashbrown::hash_table::Entry as TableEntry;

use self::acquired::{Acquired, AcquiredList};
use self::deadlock::{Verdict, WaitGraph, transaction_of};
use self::modes::Mode;
use self::queue::{Agent, Attempt, Granted, LockState, SESSION_SCOPE, SessionId, Waiter};
use self::sync::{Mutex, park, park_timeout};
use self::table::{Entry, KeyRef, LockKey, LockTable};
use crate::{
    Error, LockOutcome, LockScope, LockTag, Result, RowLockMode, SessionHandle, TableLockMode, WaitPolicy,
    while_waiting,
};

/// Unique per transaction in this process, assigned when it begins; below `u64::MAX`.
pub type TransactionNumber = u64;

/// Who holds or wants locks: one transaction of one session, with the list of what it got.
#[derive(Debug)]
pub struct LockOwner {
    session: Arc<SessionHandle>,
    agent: Agent,
    acquired: Mutex<AcquiredList>,
    /// What the list says of its memory.
    memory: AtomicUsize,
}

/// A row lock's mode and its place among what its transaction has acquired.
pub(crate) type PlacedMode = (u64, RowLockMode);

impl LockOwner {
    pub fn new(session: Arc<SessionHandle>, number: TransactionNumber) -> Self {
        let agent = Agent { session: SessionId::of(&session), number, pid: session.pid };
        LockOwner {
            session,
            agent,
            acquired: Mutex::new(AcquiredList::default()),
            memory: AtomicUsize::new(0),
        }
    }

    /// Bytes that its locks take, about.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    fn push(&self, acquired: Acquired) {
        let mut list = self.acquired.lock();
        list.push(acquired);
        self.memory.store(list.bytes(), Ordering::Relaxed);
    }

    /// The strongest of these row locks that was not rolled back.
    pub(crate) fn strongest(&self, stored: &[PlacedMode]) -> Option<RowLockMode> {
        let list = self.acquired.lock();
        stored.iter().filter(|(place, _)| !list.is_undone(*place)).map(|(_, mode)| *mode).max()
    }

    /// Drops those that were rolled back.
    pub(crate) fn retain_valid(&self, stored: &mut Vec<PlacedMode>) {
        let list = self.acquired.lock();
        stored.retain(|(place, _)| !list.is_undone(*place));
    }

    /// The session's number, as clients know it.
    pub fn pid(&self) -> i32 {
        self.session.pid
    }

    pub fn number(&self) -> TransactionNumber {
        self.agent.number
    }
}

/// A point to which a transaction's locks can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockMark(u64);

/// What a lock in a listing is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockTarget {
    /// A row's key, storage id first.
    Row(Arc<[u8]>),
    Object(LockTag),
}

/// One line of `pg_locks`.
#[derive(Clone, Debug)]
pub struct LockInfo {
    pub target: LockTarget,
    /// `RowExclusiveLock`; row locks have names of their own (`RowNoKeyUpdateLock`).
    pub mode: &'static str,
    pub granted: bool,
    pub pid: i32,
    /// `None`: session-level.
    pub transaction: Option<TransactionNumber>,
    /// When a waiter began to wait.
    pub waiting_since: Option<Instant>,
}

/// One session-level lock with the number of times it was asked for.
#[derive(Debug)]
struct SessionHold {
    tag: LockTag,
    mode: Mode,
    count: usize,
}

#[derive(Debug)]
pub struct LockManager {
    table: LockTable,
    graph: Mutex<WaitGraph>,
    session_holds: Mutex<HashMap<SessionId, Vec<SessionHold>>>,
    /// How often row locks were handed over to the store.
    hand_overs: AtomicU64,
}

impl Default for LockManager {
    fn default() -> Self {
        Self::new()
    }
}

/// Locks of a transaction that are worth giving back the lock table's memory.
const MANY: usize = 20_000;

/// Only who asks for it is told that rows were handed over.
const MOVED: Error = Error::Misuse("a lock was handed over");

/// What [`LockManager::lock`] did; `acquired` is for the owner's list.
struct Locked {
    outcome: LockOutcome,
    acquired: Option<Acquired>,
}

impl LockManager {
    pub fn new() -> Self {
        LockManager {
            table: LockTable::new(),
            graph: Mutex::default(),
            session_holds: Mutex::default(),
            hand_overs: AtomicU64::new(0),
        }
    }

    /// Locks a row's key, there or absent, for the transaction. Errors: deadlock, timeout, cancellation, and
    /// [`Error::LockNotAvailable`] for [`WaitPolicy::Error`].
    pub fn lock_row(
        &self,
        owner: &LockOwner,
        key: &[u8],
        mode: RowLockMode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        self.lock_for(owner, KeyRef::Row(key), Mode::of_row(mode), wait, None)?.ok_or(MOVED)
    }

    /// The same if the number of hand-overs is still this one, `None` otherwise.
    pub(crate) fn lock_row_unless_moved(
        &self,
        owner: &LockOwner,
        key: &[u8],
        mode: RowLockMode,
        wait: WaitPolicy,
        hand_overs: u64,
    ) -> Result<Option<LockOutcome>> {
        self.lock_for(owner, KeyRef::Row(key), Mode::of_row(mode), wait, Some(hand_overs))
    }

    /// Locks a table or other object, or takes an advisory lock. Errors as for rows.
    pub fn lock_object(
        &self,
        owner: &LockOwner,
        tag: LockTag,
        mode: TableLockMode,
        scope: LockScope,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let mode = Mode::of_table(mode);
        match scope {
            LockScope::Transaction => {
                self.lock_for(owner, KeyRef::Object(tag), mode, wait, None)?.ok_or(MOVED)
            }
            LockScope::Session => self.lock_session(owner, tag, mode, wait),
        }
    }

    fn lock_for(
        &self,
        owner: &LockOwner,
        key: KeyRef<'_>,
        mode: Mode,
        wait: WaitPolicy,
        hand_overs: Option<u64>,
    ) -> Result<Option<LockOutcome>> {
        let Some(locked) = self.lock(&owner.session, owner.agent, key, mode, wait, hand_overs)? else {
            return Ok(None);
        };
        if let Some(acquired) = locked.acquired {
            owner.push(acquired);
        }
        Ok(Some(locked.outcome))
    }

    fn lock_session(
        &self,
        owner: &LockOwner,
        tag: LockTag,
        mode: Mode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let agent = Agent { number: SESSION_SCOPE, ..owner.agent };
        let locked = self.lock(&owner.session, agent, KeyRef::Object(tag), mode, wait, None)?.ok_or(MOVED)?;
        if locked.outcome != LockOutcome::Skipped {
            let mut sessions = self.session_holds.lock();
            let holds = sessions.entry(agent.session).or_default();
            match holds.iter_mut().find(|hold| (hold.tag, hold.mode) == (tag, mode)) {
                Some(hold) => hold.count += 1,
                None => holds.push(SessionHold { tag, mode, count: 1 }),
            }
        }
        Ok(locked.outcome)
    }

    /// `None`: row locks were handed over since there were so many `hand_overs`.
    fn lock(
        &self,
        session: &SessionHandle,
        agent: Agent,
        key: KeyRef<'_>,
        mode: Mode,
        wait: WaitPolicy,
        hand_overs: Option<u64>,
    ) -> Result<Option<Locked>> {
        let hash = self.table.hash(key);
        let mut shard = self.table.shard(hash);
        if hand_overs.is_some_and(|known| known != self.hand_overs()) {
            return Ok(None);
        }
        let entry = shard.0.entry(hash, |entry| key.is(&entry.key), |entry| entry.hash);
        let (owned, place, state) = match entry {
            TableEntry::Vacant(vacant) => {
                let owned = key.to_key();
                let state = LockState::held_by(agent, mode);
                vacant.insert(Entry { key: owned.clone(), hash, state });
                return Ok(Some(Locked {
                    outcome: LockOutcome::Acquired { waited: false },
                    acquired: Some(Acquired { place: 0, key: owned, hash, mode }),
                }));
            }
            TableEntry::Occupied(occupied) => {
                let entry = occupied.into_mut();
                let outcome = LockOutcome::Acquired { waited: false };
                match entry.state.attempt(agent, mode) {
                    Attempt::AlreadyHeld => return Ok(Some(Locked { outcome, acquired: None })),
                    Attempt::Granted => {
                        let acquired = Acquired { place: 0, key: entry.key.clone(), hash, mode };
                        return Ok(Some(Locked { outcome, acquired: Some(acquired) }));
                    }
                    Attempt::Blocked { place } => (entry.key.clone(), place, &mut entry.state),
                }
            }
        };
        let timeout = match wait {
            WaitPolicy::Skip => {
                return Ok(Some(Locked { outcome: LockOutcome::Skipped, acquired: None }));
            }
            WaitPolicy::Error => return Err(Error::LockNotAvailable),
            WaitPolicy::Block { timeout } => timeout,
        };
        let waiter = Arc::new(Waiter::new(agent, mode, owned.clone(), hash));
        state.enqueue(place, waiter.clone());
        drop(shard);
        // Before the graph has it, where its age counts.
        let since = waiter.since();
        let deadline = (!timeout.is_zero()).then(|| since.checked_add(timeout)).flatten();
        self.wait(session, &waiter, deadline)?;
        Ok(Some(Locked {
            outcome: LockOutcome::Acquired { waited: true },
            acquired: Some(Acquired { place: 0, key: owned, hash, mode }),
        }))
    }

    /// Sleeps until the enqueued request is granted, or takes it back.
    fn wait(&self, session: &SessionHandle, waiter: &Arc<Waiter>, deadline: Option<Instant>) -> Result<()> {
        let _sleeping = session.interrupt.sleeping();
        let verdict = self.graph.lock().add(&self.table, waiter);
        let result = match verdict {
            Verdict::Deadlock { detail } if self.withdraw(waiter) => Err(Error::Deadlock { detail }),
            Verdict::Wait | Verdict::Deadlock { .. } => self.sleep(session, waiter, deadline),
            Verdict::Reordered(granted) => {
                wake(&granted);
                self.sleep(session, waiter, deadline)
            }
        };
        self.graph.lock().waiting.remove(&waiter.agent.session);
        result
    }

    fn sleep(&self, session: &SessionHandle, waiter: &Arc<Waiter>, deadline: Option<Instant>) -> Result<()> {
        if waiter.is_granted() {
            return Ok(());
        }
        while_waiting(|| {
            loop {
                if waiter.is_granted() {
                    return Ok(());
                }
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                let stop = match session.interrupt.check() {
                    Err(error) => Some(error),
                    Ok(()) if left == Some(Duration::ZERO) => Some(Error::LockTimeout),
                    Ok(()) => None,
                };
                match (stop, left) {
                    (Some(error), _) => return if self.withdraw(waiter) { Err(error) } else { Ok(()) },
                    (None, Some(left)) => park_timeout(left),
                    (None, None) => park(),
                }
            }
        })
    }

    /// Takes a request back; `false` if it was granted before.
    fn withdraw(&self, waiter: &Arc<Waiter>) -> bool {
        let mut granted = Granted::new();
        let mut shard = self.table.shard(waiter.hash);
        let mut withdrawn = false;
        if let Some(state) = shard.state(waiter.hash, waiter.key.as_ref()) {
            withdrawn = state.withdraw(waiter);
            if withdrawn {
                state.grant_waiters(&mut granted);
            }
        }
        shard.remove_unused(waiter.hash, waiter.key.as_ref());
        drop(shard);
        wake(&granted);
        withdrawn
    }

    fn release(&self, agent: Agent, key: KeyRef<'_>, hash: u64, mode: Option<Mode>) {
        let mut granted = Granted::new();
        let mut shard = self.table.shard(hash);
        if let Ok(mut entry) = shard.0.find_entry(hash, |entry| key.is(&entry.key)) {
            let state = &mut entry.get_mut().state;
            if state.release(agent, mode) {
                if !state.waiters.is_empty() {
                    state.grant_waiters(&mut granted);
                }
                if state.is_unused() {
                    entry.remove();
                }
            }
        }
        drop(shard);
        wake(&granted);
    }

    pub fn savepoint(&self, owner: &LockOwner) -> LockMark {
        LockMark(owner.acquired.lock().last())
    }

    /// Gives back what was acquired since the mark, and undoes upgrades of locks held before it.
    pub fn rollback_to(&self, owner: &LockOwner, mark: LockMark) {
        let undone = {
            let mut list = owner.acquired.lock();
            let undone = list.split_off(mark.0);
            owner.memory.store(list.bytes(), Ordering::Relaxed);
            undone
        };
        for entry in undone.iter().rev() {
            self.release(owner.agent, entry.key.as_ref(), entry.hash, Some(entry.mode));
        }
    }

    /// End of the transaction: all its locks of transaction scope. Rows first, for whose hand-over others wait most often; nothing
    /// rests on the order, since nobody asks for more in the name of a transaction that has ended.
    pub fn release_all(&self, owner: &LockOwner) {
        let acquired = {
            let mut list = owner.acquired.lock();
            owner.memory.store(0, Ordering::Relaxed);
            list.end()
        };
        let is_row = |entry: &&Acquired| matches!(entry.key, LockKey::Row(_));
        let objects = acquired.iter().filter(|entry| !is_row(entry));
        for entry in acquired.iter().filter(is_row).chain(objects) {
            self.release(owner.agent, entry.key.as_ref(), entry.hash, None);
        }
        if acquired.len() > MANY {
            self.table.shrink();
        }
    }

    /// The transaction is going to hand something over to the store: `pg_locks` is to show that it has a number. No savepoint
    /// undoes it.
    pub(crate) fn announce(&self, owner: &LockOwner) -> Result<()> {
        let key = KeyRef::Object(LockTag::Transaction(owner.number()));
        let mode = Mode::of_table(TableLockMode::Exclusive);
        let locked = self.lock(&owner.session, owner.agent, key, mode, WaitPolicy::Error, None)?;
        if let Some(acquired) = locked.and_then(|locked| locked.acquired) {
            owner.acquired.lock().push_front(acquired);
        }
        Ok(())
    }

    /// How often row locks were handed over so far.
    pub(crate) fn hand_overs(&self) -> u64 {
        self.hand_overs.load(Ordering::Acquire)
    }

    /// The row locks that the transaction has here, by key and place, and the last of their places. From now on they may have
    /// records, whatever becomes of the hand-over: rolling back takes those back too.
    pub(crate) fn begin_hand_over(&self, owner: &LockOwner) -> (Vec<(Arc<[u8]>, PlacedMode)>, u64) {
        let mut rows: Vec<(Arc<[u8]>, PlacedMode)> = Vec::new();
        let mut up_to = 0;
        let mut list = owner.acquired.lock();
        for entry in list.iter() {
            if let LockKey::Row(key) = &entry.key
                && let Some(mode) = entry.mode.row_mode()
            {
                rows.push((key.clone(), (entry.place, mode)));
                up_to = up_to.max(entry.place);
            }
        }
        list.begin_hand_over(up_to);
        drop(list);
        rows.sort_unstable();
        (rows, up_to)
    }

    /// Forgets row locks that have records now: those up to a place, save those that somebody waits for.
    pub(crate) fn hand_over_rows(&self, owner: &LockOwner, up_to: u64) {
        // Before the first is forgotten ([`crate::spilled_locks`]).
        self.hand_overs.fetch_add(1, Ordering::AcqRel);
        {
            let mut list = owner.acquired.lock();
            list.hand_over(|entry| entry.place <= up_to && self.hand_over(owner.agent, entry));
            owner.memory.store(list.bytes(), Ordering::Relaxed);
        }
        self.table.shrink();
    }

    /// Takes its own mode from the holder, and no other: the key's other entries may stay, because somebody waited when they
    /// were looked at or does when they are. `false` if this one stays.
    fn hand_over(&self, agent: Agent, entry: &Acquired) -> bool {
        let LockKey::Row(key) = &entry.key else { return false };
        let mut shard = self.table.shard(entry.hash);
        let Some(state) = shard.state(entry.hash, KeyRef::Row(key)) else { return true };
        if !state.waiters.is_empty() && state.is_held_by(agent) {
            return false;
        }
        state.release(agent, Some(entry.mode));
        shard.remove_unused(entry.hash, KeyRef::Row(key));
        true
    }

    /// Whether row locks that `owner` has in the store stand in the way of `mode`. If so and they are to be `waited_for`, they are
    /// put back among those that are here.
    pub(crate) fn bring_back(
        &self,
        owner: &LockOwner,
        key: &[u8],
        stored: &[PlacedMode],
        mode: RowLockMode,
        waited_for: bool,
    ) -> bool {
        let mut list = owner.acquired.lock();
        let held = || stored.iter().filter(|(place, _)| !list.is_undone(*place));
        if list.has_ended() || !held().any(|(_, held)| held.conflicts_with(mode)) {
            return false;
        }
        let missing: Vec<PlacedMode> = held().filter(|(place, _)| !list.has(*place)).copied().collect();
        if !waited_for || missing.is_empty() {
            return true;
        }
        let key = KeyRef::Row(key);
        let hash = self.table.hash(key);
        let mut shard = self.table.shard(hash);
        let entry = shard.0.entry(hash, |entry| key.is(&entry.key), |entry| entry.hash);
        let mut entry =
            entry.or_insert_with(|| Entry { key: key.to_key(), hash, state: LockState::default() });
        let entry = entry.get_mut();
        for (place, mode) in missing {
            let mode = Mode::of_row(mode);
            entry.state.add_hold(owner.agent, mode);
            list.bring_back(Acquired { place, key: entry.key.clone(), hash, mode });
        }
        owner.memory.store(list.bytes(), Ordering::Relaxed);
        true
    }

    /// Releases one hold of a session-level lock; `false` if it was not held.
    pub fn unlock_object(&self, session: &SessionHandle, tag: LockTag, mode: TableLockMode) -> bool {
        let mode = Mode::of_table(mode);
        let session_id = SessionId::of(session);
        let last = {
            let mut sessions = self.session_holds.lock();
            let Some(holds) = sessions.get_mut(&session_id) else { return false };
            let Some(at) = holds.iter().position(|hold| (hold.tag, hold.mode) == (tag, mode)) else {
                return false;
            };
            holds[at].count -= 1;
            let last = holds[at].count == 0;
            if last {
                holds.swap_remove(at);
            }
            if holds.is_empty() {
                sessions.remove(&session_id);
            }
            last
        };
        if last {
            self.release_session_hold(session, tag, mode);
        }
        true
    }

    /// Releases all session-level locks; to be called when the session ends.
    pub fn unlock_session(&self, session: &SessionHandle) {
        let holds = self.session_holds.lock().remove(&SessionId::of(session)).unwrap_or_default();
        for hold in holds {
            self.release_session_hold(session, hold.tag, hold.mode);
        }
    }

    fn release_session_hold(&self, session: &SessionHandle, tag: LockTag, mode: Mode) {
        let agent = Agent { session: SessionId::of(session), number: SESSION_SCOPE, pid: session.pid };
        let key = KeyRef::Object(tag);
        self.release(agent, key, self.table.hash(key), Some(mode));
    }

    /// Every lock that is held or waited for, shard by shard (not one moment's picture).
    pub fn list(&self) -> Vec<LockInfo> {
        let mut list = Vec::new();
        self.table.each_shard(|shard| {
            for entry in &shard.0 {
                let target = match &entry.key {
                    LockKey::Row(key) => LockTarget::Row(key.clone()),
                    LockKey::Object(tag) => LockTarget::Object(*tag),
                };
                for hold in &entry.state.holds {
                    list.extend(hold.modes.iter().map(|mode| LockInfo {
                        target: target.clone(),
                        mode: mode.name(),
                        granted: true,
                        pid: hold.agent.pid,
                        transaction: transaction_of(&hold.agent),
                        waiting_since: None,
                    }));
                }
                list.extend(entry.state.waiters.iter().map(|waiter| LockInfo {
                    target: target.clone(),
                    mode: waiter.mode.name(),
                    granted: false,
                    pid: waiter.agent.pid,
                    transaction: transaction_of(&waiter.agent),
                    waiting_since: Some(waiter.since()),
                }));
            }
        });
        list
    }

    /// Who waits for what, in the order in which they began to.
    pub fn waits(&self) -> Vec<LockInfo> {
        let graph = self.graph.lock();
        let waiting = graph.waiting.values().filter(|waiter| waiter.is_waiting());
        let info = |waiter: &Arc<Waiter>| LockInfo {
            target: match &waiter.key {
                LockKey::Row(key) => LockTarget::Row(key.clone()),
                LockKey::Object(tag) => LockTarget::Object(*tag),
            },
            mode: waiter.mode.name(),
            granted: false,
            pid: waiter.agent.pid,
            transaction: transaction_of(&waiter.agent),
            waiting_since: Some(waiter.since()),
        };
        let mut waits: Vec<LockInfo> = waiting.map(info).collect();
        waits.sort_by_key(|wait| wait.waiting_since);
        waits
    }

    /// `pg_blocking_pids`: whom the session waits for, holders first, then those in front of it in the queue.
    pub fn blocking_pids(&self, pid: i32) -> Vec<i32> {
        let waiters: Vec<Arc<Waiter>> = {
            let graph = self.graph.lock();
            graph.waiting.values().filter(|waiter| waiter.agent.pid == pid).cloned().collect()
        };
        let mut pids = Vec::new();
        for waiter in waiters {
            let mut shard = self.table.shard(waiter.hash);
            let Some(state) = shard.state(waiter.hash, waiter.key.as_ref()) else { continue };
            if !waiter.is_waiting() {
                continue;
            }
            pids.extend(state.blocking_holds(&waiter).map(|hold| hold.agent.pid));
            let ahead = state.waiters.iter().take_while(|other| !Arc::ptr_eq(other, &waiter));
            let conflicts = waiter.mode.conflicts();
            pids.extend(
                ahead
                    .filter(|other| modes::ModeSet::of(other.mode).intersects(conflicts))
                    .map(|other| other.agent.pid),
            );
        }
        pids
    }
}

fn wake(granted: &[Arc<Waiter>]) {
    for waiter in granted {
        waiter.wake();
    }
}
