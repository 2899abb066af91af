//! The state of one lock: who holds it, who waits for it in which order. Pure data, changed under its shard's mutex.
//!
//! Invariants between any two changes:
//! - Holders of different agents do not conflict.
//! - Every waiter has a reason: its mode conflicts with a holder of another agent, or with the mode of a waiter
//!   in front of it. (A row's waiter has come because of a holder, and may stay because of a waiter.) So after each change that takes something away, [`LockState::grant_waiters`] runs.
//! - A waiter that already holds the lock in some mode stands in front of those whom that mode keeps waiting.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use smallvec::SmallVec;

use super::modes::{Mode, ModeSet};
use super::sync::{AtomicU8, Ordering, Thread, current_thread};
use super::table::LockKey;
use crate::api::SessionHandle;

/// The session behind a lock, by the address of its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SessionId(usize);

impl SessionId {
    pub(super) fn of(session: &SessionHandle) -> Self {
        SessionId(std::ptr::from_ref(session) as usize)
    }
}

/// Who holds or wants a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) session: SessionId,
    /// The transaction; [`SESSION_SCOPE`] for locks that outlive it.
    pub(super) number: u64,
    pub(super) pid: i32,
}

/// The transaction number of session-level locks.
pub(super) const SESSION_SCOPE: u64 = u64::MAX;

impl Agent {
    /// Whether the two never stand in each other's way: row locks belong to a transaction, table and
    /// advisory locks to the whole session.
    pub(super) fn is_one_with(&self, other: &Agent, mode: Mode) -> bool {
        self.session == other.session && (!mode.is_row() || self.number == other.number)
    }
}

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) agent: Agent,
    pub(super) modes: ModeSet,
}

/// A request that waits, and the thread that sleeps for it.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) agent: Agent,
    pub(super) mode: Mode,
    pub(super) key: LockKey,
    pub(super) hash: u64,
    since: OnceLock<Instant>,
    thread: Thread,
    state: AtomicU8,
}

const WAITING: u8 = 0;
const GRANTED: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Waiter {
    pub(super) fn new(agent: Agent, mode: Mode, key: LockKey, hash: u64) -> Self {
        Waiter {
            agent,
            mode,
            key,
            hash,
            since: OnceLock::new(),
            thread: current_thread(),
            state: AtomicU8::new(WAITING),
        }
    }

    /// When it began to wait: the first time that this is asked, which its thread does as soon as it has let go of the shard's mutex.
    pub(super) fn since(&self) -> Instant {
        *self.since.get_or_init(Instant::now)
    }

    pub(super) fn is_granted(&self) -> bool {
        self.state.load(Ordering::Acquire) == GRANTED
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }

    /// Wakes the thread; to be called after the shard's mutex was let go.
    pub(super) fn wake(&self) {
        self.thread.unpark();
    }
}

/// Waiters that were given their locks, and are to be woken when the shard's mutex is let go.
pub(super) type Granted = SmallVec<[Arc<Waiter>; 4]>;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Nothing changed: it holds as much already.
    AlreadyHeld,
    Granted,
    /// It has to wait, at this place of the queue.
    Blocked {
        place: usize,
    },
}

#[derive(Debug, Default)]
pub(super) struct LockState {
    pub(super) holds: SmallVec<[Hold; 1]>,
    pub(super) waiters: VecDeque<Arc<Waiter>>,
    /// Modes that are waited for, and perhaps some that nobody waits for any more.
    waiting: ModeSet,
}

impl LockState {
    pub(super) fn held_by(agent: Agent, mode: Mode) -> Self {
        let mut state = LockState::default();
        state.holds.push(Hold { agent, modes: ModeSet::of(mode) });
        state
    }

    pub(super) fn is_held_by(&self, agent: Agent) -> bool {
        self.holds.iter().any(|hold| hold.agent == agent)
    }

    pub(super) fn is_unused(&self) -> bool {
        self.holds.is_empty() && self.waiters.is_empty()
    }

    /// Grants the request if nobody holds or waits in its way.
    pub(super) fn attempt(&mut self, agent: Agent, mode: Mode) -> Attempt {
        let conflicts = mode.conflicts();
        let mut own_at = None;
        let mut own = ModeSet::default();
        let mut blocked = false;
        for (at, hold) in self.holds.iter().enumerate() {
            if hold.agent == agent {
                if hold.modes.cover(mode) {
                    return Attempt::AlreadyHeld;
                }
                own_at = Some(at);
                own.add(hold.modes);
            } else if hold.agent.is_one_with(&agent, mode) {
                own.add(hold.modes);
            } else if hold.modes.intersects(conflicts) {
                blocked = true;
            }
        }
        let place = self.place(own);
        let waits_behind = |waiter: &Arc<Waiter>| {
            !waiter.agent.is_one_with(&agent, mode) && ModeSet::of(waiter.mode).intersects(conflicts)
        };
        // A row's sharers do not wait for those who only wait to change it, but for those who share it themselves: each one
        // more would be one more deadlock.
        let is_passed = |waiter: &Arc<Waiter>| mode.is_row() && !self.is_held_by(waiter.agent);
        if blocked || self.waiters.iter().take(place).any(|w| waits_behind(w) && !is_passed(w)) {
            return Attempt::Blocked { place };
        }
        match own_at {
            Some(at) => self.holds[at].modes.add(ModeSet::of(mode)),
            None => self.holds.push(Hold { agent, modes: ModeSet::of(mode) }),
        }
        Attempt::Granted
    }

    /// Where somebody who holds `own` already queues: in front of the first whom that keeps waiting, else last.
    fn place(&self, own: ModeSet) -> usize {
        if own.is_empty() {
            return self.waiters.len();
        }
        self.waiters
            .iter()
            .position(|waiter| waiter.mode.conflicts().intersects(own))
            .unwrap_or(self.waiters.len())
    }

    /// Whether a holder stands in the waiter's way.
    pub(super) fn holders_block(&self, waiter: &Waiter) -> bool {
        self.blocking_holds(waiter).next().is_some()
    }

    pub(super) fn blocking_holds<'a>(&'a self, waiter: &'a Waiter) -> impl Iterator<Item = &'a Hold> {
        let conflicts = waiter.mode.conflicts();
        self.holds.iter().filter(move |hold| {
            hold.modes.intersects(conflicts) && !hold.agent.is_one_with(&waiter.agent, waiter.mode)
        })
    }

    /// Puts a request at its place ([`Attempt::Blocked`]).
    pub(super) fn enqueue(&mut self, place: usize, waiter: Arc<Waiter>) {
        self.waiting.add(ModeSet::of(waiter.mode));
        self.waiters.insert(place, waiter);
    }

    /// Hands the lock to every waiter that nothing blocks any more, in order; they are added to `granted` and
    /// must be woken by the caller. Does not look at more of a long queue than it must.
    pub(super) fn grant_waiters(&mut self, granted: &mut Granted) {
        let mut ahead = ModeSet::default();
        let mut at = 0;
        while let Some(waiter) = self.waiters.get(at) {
            if ahead.intersects(waiter.mode.conflicts()) || self.holders_block(waiter) {
                ahead.add(ModeSet::of(waiter.mode));
                at += 1;
                if self.waiting.iter().all(|mode| ahead.intersects(mode.conflicts())) {
                    return;
                }
            } else if let Some(waiter) = self.waiters.remove(at) {
                self.add_hold(waiter.agent, waiter.mode);
                waiter.state.store(GRANTED, Ordering::Release);
                granted.push(waiter);
            }
        }
        self.waiting = ahead;
    }

    pub(super) fn add_hold(&mut self, agent: Agent, mode: Mode) {
        match self.holds.iter_mut().find(|hold| hold.agent == agent) {
            Some(hold) => hold.modes.add(ModeSet::of(mode)),
            None => self.holds.push(Hold { agent, modes: ModeSet::of(mode) }),
        }
    }

    /// Takes one mode from a holder, or all of them. Returns whether anything changed.
    pub(super) fn release(&mut self, agent: Agent, mode: Option<Mode>) -> bool {
        let Some(at) = self.holds.iter().position(|hold| hold.agent == agent) else { return false };
        match mode {
            Some(mode) => self.holds[at].modes.remove(mode),
            None => self.holds[at].modes = ModeSet::default(),
        }
        if self.holds[at].modes.is_empty() {
            self.holds.swap_remove(at);
        }
        true
    }

    /// Takes a waiter out of the queue; `false` if it was granted meanwhile.
    pub(super) fn withdraw(&mut self, waiter: &Arc<Waiter>) -> bool {
        let Some(at) = self.waiters.iter().position(|other| Arc::ptr_eq(other, waiter)) else {
            return false;
        };
        self.waiters.remove(at);
        waiter.state.store(WITHDRAWN, Ordering::Release);
        true
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::RowLockMode::{self, KeyShare, NoKeyUpdate, Share, Update};

    fn agent(number: u64) -> Agent {
        Agent { session: SessionId(number as usize), number, pid: number as i32 }
    }

    struct Bench(LockState);

    impl Bench {
        fn ask(&mut self, number: u64, mode: RowLockMode) -> bool {
            let mode = Mode::of_row(mode);
            match self.0.attempt(agent(number), mode) {
                Attempt::Blocked { place } => {
                    let key = LockKey::Row(Arc::from(&b"k"[..]));
                    self.0.enqueue(place, Arc::new(Waiter::new(agent(number), mode, key, 0)));
                    false
                }
                Attempt::Granted | Attempt::AlreadyHeld => true,
            }
        }

        fn release(&mut self, number: u64) -> Vec<u64> {
            let mut granted = Granted::new();
            self.0.release(agent(number), None);
            self.0.grant_waiters(&mut granted);
            granted.iter().map(|waiter| waiter.agent.number).collect()
        }

        fn queue(&self) -> Vec<u64> {
            self.0.waiters.iter().map(|waiter| waiter.agent.number).collect()
        }
    }

    #[test]
    fn first_come_first_served_and_compatible_ones_together() {
        let mut lock = Bench(LockState::default());
        assert!(lock.ask(1, Update));
        for (number, mode) in [(2, Share), (3, Share), (4, NoKeyUpdate), (5, Share), (6, KeyShare)] {
            assert!(!lock.ask(number, mode));
        }
        // 6 does not conflict with 4, and passes it.
        assert_eq!(lock.release(1), [2, 3, 6]);
        assert_eq!(lock.queue(), [4, 5]);
        assert!(lock.release(2).is_empty());
        assert_eq!(lock.release(3), [4]);
        assert_eq!(lock.release(4), [5]);
    }

    #[test]
    fn only_sharers_overtake() {
        let mut lock = Bench(LockState::default());
        assert!(lock.ask(1, Share));
        assert!(!lock.ask(2, NoKeyUpdate));
        assert!(lock.ask(3, Share), "compatible with the holder");
        assert!(lock.ask(4, KeyShare));
        assert!(!lock.ask(5, Update));
        assert!(!lock.ask(6, NoKeyUpdate));
        assert!(lock.release(1).is_empty());
        assert_eq!(lock.release(3), [2], "4 is not in its way");
        assert!(!lock.ask(7, Share), "now it conflicts with the holder");
        assert!(lock.release(4).is_empty());
        assert_eq!(lock.release(2), [5]);
        assert_eq!(lock.release(5), [6]);
        assert_eq!(lock.release(6), [7]);
    }

    #[test]
    fn nobody_overtakes_a_sharer_who_wants_more() {
        let mut lock = Bench(LockState::default());
        assert!(lock.ask(1, Share));
        assert!(lock.ask(2, Share));
        assert!(!lock.ask(1, NoKeyUpdate));
        assert!(!lock.ask(3, Share), "it would keep 1 waiting when 2 is gone");
        assert_eq!(lock.release(2), [1]);
        assert_eq!(lock.release(1), [3]);
    }

    #[test]
    fn tables_are_locked_in_the_order_of_requests() {
        let mut lock = LockState::held_by(agent(1), Mode::of_table(crate::TableLockMode::AccessShare));
        let exclusive = Mode::of_table(crate::TableLockMode::AccessExclusive);
        let Attempt::Blocked { place } = lock.attempt(agent(2), exclusive) else { panic!() };
        let key = LockKey::Row(Arc::from(&b"k"[..]));
        lock.enqueue(place, Arc::new(Waiter::new(agent(2), exclusive, key, 0)));
        let share = Mode::of_table(crate::TableLockMode::AccessShare);
        assert_eq!(lock.attempt(agent(3), share), Attempt::Blocked { place: 1 });
    }

    #[test]
    fn an_upgrade_goes_in_front_of_those_who_wait_for_it() {
        let mut lock = Bench(LockState::default());
        assert!(lock.ask(1, Share));
        assert!(lock.ask(2, Share));
        assert!(!lock.ask(3, Update));
        assert!(!lock.ask(1, NoKeyUpdate));
        assert_eq!(lock.queue(), [1, 3]);
        assert_eq!(lock.release(2), [1]);
        assert!(lock.ask(1, Update), "alone among the holders");
        assert_eq!(lock.release(1), [3]);
    }

    #[test]
    fn a_withdrawn_waiter_lets_those_behind_it_through() {
        let mut lock = Bench(LockState::default());
        assert!(lock.ask(1, KeyShare));
        assert!(lock.ask(4, Share));
        assert!(!lock.ask(2, Update));
        assert!(!lock.ask(3, NoKeyUpdate));
        assert!(lock.release(4).is_empty(), "2 was first");
        let waiter = lock.0.waiters[0].clone();
        assert!(lock.0.withdraw(&waiter));
        assert!(!lock.0.withdraw(&waiter));
        let mut granted = Granted::new();
        lock.0.grant_waiters(&mut granted);
        assert_eq!(granted[0].agent.number, 3);
    }
}
