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
//! 3. A new request that conflicts with a waiter queues behind it, even where the holders would let it in, unless it holds
//!    the key already in a mode that the waiter waits for: then it goes in front (upgrade).
//! 4. Every thread sleeps in its own slot (park / unpark); a cancel request, a timeout and a grant all wake that slot and
//!    the shard's mutex decides which came first.
//! 5. A transaction's list of acquisitions is in order; a savepoint is a place in it. An entry is made only where a mode was
//!    really added, so undoing entries from the end restores exactly the modes held at the savepoint.
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
//! ```
//! Order of mutexes: graph before shards, shards in ascending order. A transaction's own list and the sessions' lists
//! are never held while a shard or the graph is.
//!
//! Cost: an uncontended row lock is one hash, one shard mutex, one allocation (its key); a table lock the same without the
//! allocation. Finding one's own hold is linear in the number of holders of that key.

mod deadlock;
mod modes;
mod queue;
pub(crate) mod sync;
mod table;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::hash_table::Entry as TableEntry;

use self::deadlock::{Verdict, WaitGraph, transaction_of};
use self::modes::Mode;
use self::queue::{Agent, Attempt, LockState, SESSION_SCOPE, SessionId, Waiter};
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
}

impl LockOwner {
    pub fn new(session: Arc<SessionHandle>, number: TransactionNumber) -> Self {
        let agent = Agent { session: SessionId::of(&session), number, pid: session.pid };
        LockOwner { session, agent, acquired: Mutex::new(AcquiredList::default()) }
    }

    /// The session's number, as clients know it.
    pub fn pid(&self) -> i32 {
        self.session.pid
    }

    pub fn number(&self) -> TransactionNumber {
        self.agent.number
    }
}

/// What a transaction has acquired, in order.
#[derive(Debug, Default)]
struct AcquiredList {
    entries: Vec<Acquired>,
    /// Place of the last one, from 1 up; not every place is there, since locks may be handed over to the store.
    last: u64,
}

impl AcquiredList {
    fn push(&mut self, mut acquired: Acquired) {
        self.last += 1;
        acquired.place = self.last;
        self.entries.push(acquired);
    }
}

/// A mode that was added to what the transaction holds of a key.
#[derive(Debug)]
struct Acquired {
    place: u64,
    key: LockKey,
    hash: u64,
    mode: Mode,
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
}

impl Default for LockManager {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`LockManager::lock`] did; `acquired` is for the owner's list.
struct Locked {
    outcome: LockOutcome,
    acquired: Option<Acquired>,
}

impl LockManager {
    pub fn new() -> Self {
        LockManager { table: LockTable::new(), graph: Mutex::default(), session_holds: Mutex::default() }
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
        self.lock_for(owner, KeyRef::Row(key), Mode::of_row(mode), wait)
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
            LockScope::Transaction => self.lock_for(owner, KeyRef::Object(tag), mode, wait),
            LockScope::Session => self.lock_session(owner, tag, mode, wait),
        }
    }

    fn lock_for(
        &self,
        owner: &LockOwner,
        key: KeyRef<'_>,
        mode: Mode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let locked = self.lock(&owner.session, owner.agent, key, mode, wait)?;
        if let Some(acquired) = locked.acquired {
            owner.acquired.lock().push(acquired);
        }
        Ok(locked.outcome)
    }

    fn lock_session(
        &self,
        owner: &LockOwner,
        tag: LockTag,
        mode: Mode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let agent = Agent { number: SESSION_SCOPE, ..owner.agent };
        let locked = self.lock(&owner.session, agent, KeyRef::Object(tag), mode, wait)?;
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

    fn lock(
        &self,
        session: &SessionHandle,
        agent: Agent,
        key: KeyRef<'_>,
        mode: Mode,
        wait: WaitPolicy,
    ) -> Result<Locked> {
        let hash = self.table.hash(key);
        let mut shard = self.table.shard(hash);
        let entry = shard.0.entry(hash, |entry| key.is(&entry.key), |entry| entry.hash);
        let (owned, place, state) = match entry {
            TableEntry::Vacant(vacant) => {
                let owned = key.to_key();
                let state = LockState::held_by(agent, mode);
                vacant.insert(Entry { key: owned.clone(), hash, state });
                return Ok(Locked {
                    outcome: LockOutcome::Acquired { waited: false },
                    acquired: Some(Acquired { place: 0, key: owned, hash, mode }),
                });
            }
            TableEntry::Occupied(occupied) => {
                let entry = occupied.into_mut();
                let outcome = LockOutcome::Acquired { waited: false };
                match entry.state.attempt(agent, mode) {
                    Attempt::AlreadyHeld => return Ok(Locked { outcome, acquired: None }),
                    Attempt::Granted => {
                        let acquired = Acquired { place: 0, key: entry.key.clone(), hash, mode };
                        return Ok(Locked { outcome, acquired: Some(acquired) });
                    }
                    Attempt::Blocked { place } => (entry.key.clone(), place, &mut entry.state),
                }
            }
        };
        let deadline = match wait {
            WaitPolicy::Skip => return Ok(Locked { outcome: LockOutcome::Skipped, acquired: None }),
            WaitPolicy::Error => return Err(Error::LockNotAvailable),
            WaitPolicy::Block { timeout } => {
                (!timeout.is_zero()).then(|| Instant::now().checked_add(timeout)).flatten()
            }
        };
        let waiter = Arc::new(Waiter::new(agent, mode, owned.clone(), hash));
        state.waiters.insert(place, waiter.clone());
        drop(shard);
        self.wait(session, &waiter, deadline)?;
        Ok(Locked {
            outcome: LockOutcome::Acquired { waited: true },
            acquired: Some(Acquired { place: 0, key: owned, hash, mode }),
        })
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
        let mut granted = Vec::new();
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
        let mut granted = Vec::new();
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
        LockMark(owner.acquired.lock().last)
    }

    /// Gives back what was acquired since the mark, and undoes upgrades of locks held before it.
    pub fn rollback_to(&self, owner: &LockOwner, mark: LockMark) {
        let undone = {
            let mut acquired = owner.acquired.lock();
            let from = acquired.entries.partition_point(|entry| entry.place <= mark.0);
            acquired.entries.split_off(from)
        };
        for entry in undone.iter().rev() {
            self.release(owner.agent, entry.key.as_ref(), entry.hash, Some(entry.mode));
        }
    }

    /// End of the transaction: all its locks of transaction scope.
    pub fn release_all(&self, owner: &LockOwner) {
        let acquired = std::mem::take(&mut owner.acquired.lock().entries);
        for entry in &acquired {
            self.release(owner.agent, entry.key.as_ref(), entry.hash, None);
        }
    }

    /// The transaction is going to hand row locks over to the store: others can wait for its end
    /// ([`LockManager::wait_for_end`]). No savepoint undoes it.
    pub(crate) fn announce(&self, owner: &LockOwner) -> Result<()> {
        let key = KeyRef::Object(LockTag::Transaction(owner.number()));
        let mode = Mode::of_table(TableLockMode::Exclusive);
        let locked = self.lock(&owner.session, owner.agent, key, mode, WaitPolicy::Error)?;
        if let Some(acquired) = locked.acquired {
            owner.acquired.lock().entries.insert(0, acquired);
        }
        Ok(())
    }

    /// Returns when the transaction has ended. Errors as for [`LockManager::lock_row`].
    pub(crate) fn wait_for_end(
        &self,
        owner: &LockOwner,
        number: TransactionNumber,
        wait: WaitPolicy,
    ) -> Result<()> {
        let mark = self.savepoint(owner);
        let tag = LockTag::Transaction(number);
        self.lock_object(owner, tag, TableLockMode::Share, LockScope::Transaction, wait)?;
        self.rollback_to(owner, mark);
        Ok(())
    }

    /// The strongest mode that the transaction holds of each row of which `wanted` says so.
    pub(crate) fn row_modes(
        &self,
        owner: &LockOwner,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> HashMap<Arc<[u8]>, RowLockMode> {
        let mut modes: HashMap<Arc<[u8]>, RowLockMode> = HashMap::new();
        for entry in &owner.acquired.lock().entries {
            if let LockKey::Row(key) = &entry.key
                && let Some(mode) = entry.mode.row_mode()
                && wanted(key)
            {
                let strongest = modes.entry(key.clone()).or_insert(mode);
                *strongest = mode.max(*strongest);
            }
        }
        modes
    }

    /// Gives back the locks of rows of which `gone` says so: something in the store stands for them now.
    pub(crate) fn hand_over_rows(&self, owner: &LockOwner, gone: impl Fn(&[u8]) -> bool) {
        let handed_over: Vec<Acquired> = {
            let mut acquired = owner.acquired.lock();
            let is_gone = |entry: &mut Acquired| matches!(&entry.key, LockKey::Row(key) if gone(key));
            let handed_over = acquired.entries.extract_if(.., is_gone).collect();
            if acquired.entries.capacity() > 2 * acquired.entries.len() {
                acquired.entries.shrink_to_fit();
            }
            handed_over
        };
        for entry in &handed_over {
            self.release(owner.agent, entry.key.as_ref(), entry.hash, None);
        }
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
                    waiting_since: Some(waiter.since),
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
            waiting_since: Some(waiter.since),
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
