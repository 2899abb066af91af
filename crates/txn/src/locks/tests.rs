//! The lock manager with real threads: waits, hand-off, deadlocks, savepoints, session locks.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::{CancelReason, Interrupt};

const BLOCK: WaitPolicy = WaitPolicy::Block { timeout: Duration::ZERO };
const GRANTED: LockOutcome = LockOutcome::Acquired { waited: false };
const WAITED: LockOutcome = LockOutcome::Acquired { waited: true };

fn session(pid: i32) -> Arc<SessionHandle> {
    Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::new()) })
}

fn owner(number: u64) -> LockOwner {
    LockOwner::new(session(number as i32), number)
}

/// A transaction on a thread of its own that does what it is told.
struct Actor {
    session: Arc<SessionHandle>,
    orders: mpsc::Sender<Box<dyn FnOnce(&LockManager, &LockOwner) -> Result<LockOutcome> + Send>>,
    answers: mpsc::Receiver<Result<LockOutcome>>,
}

impl Actor {
    fn start(manager: &Arc<LockManager>, number: u64) -> Actor {
        let session = session(number as i32);
        let owner = LockOwner::new(session.clone(), number);
        let manager = manager.clone();
        let (orders, inbox) =
            mpsc::channel::<Box<dyn FnOnce(&LockManager, &LockOwner) -> Result<LockOutcome> + Send>>();
        let (outbox, answers) = mpsc::channel();
        thread::spawn(move || {
            for order in inbox {
                let answer = order(&manager, &owner);
                if matches!(answer, Err(Error::Deadlock { .. })) {
                    manager.release_all(&owner);
                }
                if outbox.send(answer).is_err() {
                    return;
                }
            }
            manager.release_all(&owner);
        });
        Actor { session, orders, answers }
    }

    fn begin_row(&self, key: &'static str, mode: RowLockMode, wait: WaitPolicy) {
        self.orders.send(Box::new(move |m, o| m.lock_row(o, key.as_bytes(), mode, wait))).unwrap();
    }

    fn row(&self, key: &'static str, mode: RowLockMode) -> Result<LockOutcome> {
        self.begin_row(key, mode, BLOCK);
        self.answer()
    }

    fn begin_table(&self, object: u32, mode: TableLockMode) {
        let tag = LockTag::Object { class: 1259, object };
        let order =
            move |m: &LockManager, o: &LockOwner| m.lock_object(o, tag, mode, LockScope::Transaction, BLOCK);
        self.orders.send(Box::new(order)).unwrap();
    }

    fn release(&self) {
        let order = |m: &LockManager, o: &LockOwner| {
            m.release_all(o);
            Ok(LockOutcome::Skipped)
        };
        self.orders.send(Box::new(order)).unwrap();
        self.answer().unwrap();
    }

    fn answer(&self) -> Result<LockOutcome> {
        self.answers.recv_timeout(Duration::from_secs(10)).expect("an answer in time")
    }

    fn is_silent(&self) -> bool {
        self.answers.try_recv().is_err()
    }
}

/// Until so many requests wait.
fn until_waiting(manager: &LockManager, count: usize) {
    for _ in 0..2000 {
        let waiting = manager.list().iter().filter(|lock| !lock.granted).count();
        if waiting == count && manager.graph.lock().waiting.len() == count {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{count} waiters expected: {:?}", manager.list());
}

#[test]
fn every_pair_of_modes_waits_or_not_as_the_manual_says() {
    let row = [RowLockMode::KeyShare, RowLockMode::Share, RowLockMode::NoKeyUpdate, RowLockMode::Update];
    for held in row {
        for wanted in row {
            let manager = LockManager::new();
            let (a, b) = (owner(1), owner(2));
            assert_eq!(manager.lock_row(&a, b"k", held, BLOCK).unwrap(), GRANTED);
            let conflict =
                Mode::of_row(held).conflicts().intersects(modes::ModeSet::of(Mode::of_row(wanted)));
            let expected = if conflict { LockOutcome::Skipped } else { GRANTED };
            assert_eq!(manager.lock_row(&b, b"k", wanted, WaitPolicy::Skip).unwrap(), expected);
            assert_eq!(manager.lock_row(&b, b"k", wanted, WaitPolicy::Error).is_err(), conflict);
            manager.release_all(&a);
            assert_eq!(manager.lock_row(&b, b"k", wanted, WaitPolicy::Error).unwrap(), GRANTED);
            manager.release_all(&b);
            assert!(manager.list().is_empty(), "nothing is left of a lock that nobody holds");
        }
    }
}

#[test]
fn the_queue_hands_over_in_order() {
    let manager = Arc::new(LockManager::new());
    let actors: Vec<Actor> = (1..=4).map(|number| Actor::start(&manager, number)).collect();
    assert_eq!(actors[0].row("k", RowLockMode::Update).unwrap(), GRANTED);
    for (waiting, actor) in actors.iter().enumerate().skip(1) {
        actor.begin_row("k", RowLockMode::Update, BLOCK);
        until_waiting(&manager, waiting);
    }
    assert_eq!(manager.blocking_pids(3), [1, 2]);
    for pair in actors.windows(2) {
        assert!(pair[1].is_silent());
        pair[0].release();
        assert_eq!(pair[1].answer().unwrap(), WAITED);
    }
}

#[test]
fn timeouts_cancels_and_nowait() {
    let manager = Arc::new(LockManager::new());
    let (a, b) = (owner(1), owner(2));
    manager.lock_row(&a, b"k", RowLockMode::Update, BLOCK).unwrap();
    let brief = WaitPolicy::Block { timeout: Duration::from_millis(10) };
    assert!(matches!(manager.lock_row(&b, b"k", RowLockMode::Share, brief), Err(Error::LockTimeout)));
    assert!(matches!(
        manager.lock_row(&b, b"k", RowLockMode::Share, WaitPolicy::Error),
        Err(Error::LockNotAvailable)
    ));
    let c = Actor::start(&manager, 3);
    let d = Actor::start(&manager, 4);
    c.begin_row("k", RowLockMode::Update, BLOCK);
    until_waiting(&manager, 1);
    d.begin_row("k", RowLockMode::Update, BLOCK);
    until_waiting(&manager, 2);
    c.session.interrupt.raise(CancelReason::UserRequest);
    assert!(matches!(c.answer(), Err(Error::Cancelled(CancelReason::UserRequest))));
    manager.release_all(&a);
    assert_eq!(d.answer().unwrap(), WAITED);
}

#[test]
fn two_transactions_that_wait_for_each_other() {
    let manager = Arc::new(LockManager::new());
    let (a, b) = (Actor::start(&manager, 11), Actor::start(&manager, 12));
    a.row("x", RowLockMode::Update).unwrap();
    b.row("y", RowLockMode::Update).unwrap();
    a.begin_row("y", RowLockMode::Update, BLOCK);
    until_waiting(&manager, 1);
    let Err(Error::Deadlock { detail }) = b.row("x", RowLockMode::Update) else { panic!("a deadlock") };
    assert_eq!(
        detail,
        "Process 12 waits for ShareLock on transaction 11; blocked by process 11.\n\
         Process 11 waits for ShareLock on transaction 12; blocked by process 12."
    );
    assert_eq!(a.answer().unwrap(), WAITED, "the victim's rollback lets the other one through");
}

#[test]
fn two_shares_that_both_want_more() {
    let manager = Arc::new(LockManager::new());
    let (a, b) = (Actor::start(&manager, 1), Actor::start(&manager, 2));
    a.row("x", RowLockMode::Share).unwrap();
    b.row("x", RowLockMode::Share).unwrap();
    a.begin_row("x", RowLockMode::Update, BLOCK);
    until_waiting(&manager, 1);
    assert!(matches!(b.row("x", RowLockMode::Update), Err(Error::Deadlock { .. })));
    assert_eq!(a.answer().unwrap(), WAITED);
}

#[test]
fn a_circle_of_five_over_rows_and_tables() {
    let manager = Arc::new(LockManager::new());
    let actors: Vec<Actor> = (1..=5).map(|number| Actor::start(&manager, number)).collect();
    let keys = ["a", "b", "c", "d"];
    for (actor, key) in actors.iter().zip(keys) {
        actor.row(key, RowLockMode::Update).unwrap();
    }
    actors[4].begin_table(7, TableLockMode::AccessExclusive);
    actors[4].answer().unwrap();
    for at in 0..3 {
        actors[at].begin_row(keys[at + 1], RowLockMode::NoKeyUpdate, BLOCK);
        until_waiting(&manager, at + 1);
    }
    actors[3].begin_table(7, TableLockMode::AccessShare);
    until_waiting(&manager, 4);
    let Err(Error::Deadlock { detail }) = actors[4].row("a", RowLockMode::KeyShare) else {
        panic!("a deadlock")
    };
    assert_eq!(detail.lines().count(), 5);
    assert!(
        detail.contains("Process 4 waits for AccessShareLock on relation 7; blocked by process 5."),
        "{detail}"
    );
    assert_eq!(actors[3].answer().unwrap(), WAITED);
}

/// 1 holds table x; 2 waits for it exclusively; 3 holds row y and asks to share x, so queues behind 2. Then 1 asks for y: a
/// circle 1 -> 3 -> 2 -> 1 with one soft edge (3 behind 2), and letting 3 in first solves it without a victim.
#[test]
fn a_soft_edge_is_turned_around() {
    let manager = Arc::new(LockManager::new());
    let (a, b, c) = (Actor::start(&manager, 1), Actor::start(&manager, 2), Actor::start(&manager, 3));
    a.begin_table(7, TableLockMode::AccessShare);
    a.answer().unwrap();
    c.row("y", RowLockMode::Update).unwrap();
    b.begin_table(7, TableLockMode::AccessExclusive);
    until_waiting(&manager, 1);
    c.begin_table(7, TableLockMode::AccessShare);
    until_waiting(&manager, 2);
    a.begin_row("y", RowLockMode::Update, BLOCK);
    assert_eq!(c.answer().unwrap(), WAITED);
    assert!(b.is_silent() && a.is_silent());
    c.release();
    assert_eq!(a.answer().unwrap(), WAITED);
    a.release();
    assert_eq!(b.answer().unwrap(), WAITED);
}

#[test]
fn savepoints_give_back_locks_and_undo_upgrades() {
    let manager = LockManager::new();
    let (a, b) = (owner(1), owner(2));
    manager.lock_row(&a, b"k", RowLockMode::KeyShare, BLOCK).unwrap();
    let mark = manager.savepoint(&a);
    manager.lock_row(&a, b"k", RowLockMode::Update, BLOCK).unwrap();
    manager.lock_row(&a, b"other", RowLockMode::Update, BLOCK).unwrap();
    assert_eq!(
        manager.lock_row(&b, b"k", RowLockMode::Share, WaitPolicy::Skip).unwrap(),
        LockOutcome::Skipped
    );
    manager.rollback_to(&a, mark);
    manager.lock_row(&b, b"other", RowLockMode::Update, WaitPolicy::Error).unwrap();
    manager.lock_row(&b, b"k", RowLockMode::NoKeyUpdate, WaitPolicy::Error).unwrap();
    assert!(
        manager.lock_row(&b, b"k", RowLockMode::Update, WaitPolicy::Error).is_err(),
        "the key share stays"
    );
}

#[test]
fn session_locks_are_counted_and_survive_the_transaction() {
    let manager = LockManager::new();
    let shared = session(1);
    let (a, b) = (LockOwner::new(shared.clone(), 1), owner(2));
    let tag = LockTag::Advisory(5);
    let exclusive = TableLockMode::Exclusive;
    let take = |scope| manager.lock_object(&a, tag, exclusive, scope, BLOCK).unwrap();
    take(LockScope::Session);
    take(LockScope::Session);
    take(LockScope::Transaction);
    let blocked = || {
        let outcome =
            manager.lock_object(&b, tag, exclusive, LockScope::Transaction, WaitPolicy::Skip).unwrap();
        outcome == LockOutcome::Skipped
    };
    assert!(blocked());
    assert!(manager.unlock_object(&shared, tag, exclusive));
    assert!(manager.unlock_object(&shared, tag, exclusive));
    assert!(!manager.unlock_object(&shared, tag, exclusive));
    assert!(blocked(), "the transaction still has it");
    take(LockScope::Session);
    manager.release_all(&a);
    assert!(blocked());
    manager.unlock_session(&shared);
    assert!(!blocked());
}

#[test]
fn one_session_is_not_in_its_own_way_on_tables() {
    let manager = LockManager::new();
    let a = owner(1);
    let tag = LockTag::Object { class: 1259, object: 1 };
    for mode in [TableLockMode::AccessShare, TableLockMode::AccessExclusive, TableLockMode::RowExclusive] {
        assert_eq!(manager.lock_object(&a, tag, mode, LockScope::Transaction, BLOCK).unwrap(), GRANTED);
    }
    assert_eq!(manager.list().len(), 3);
}

/// Model: counters that only a holder of the matching lock touches, with threads that take random locks in random
/// order. Exclusion holds, deadlocks end, nothing is left over.
#[test]
fn storm_of_random_locks_ends() {
    const KEYS: usize = 5;
    let manager = Arc::new(LockManager::new());
    // Positive: so many sharers; -1: one exclusive holder.
    let state: Arc<Vec<AtomicI64>> = Arc::new((0..KEYS).map(|_| AtomicI64::new(0)).collect());
    let (deadlocks, commits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..8u64)
        .map(|seed| {
            let (manager, state) = (manager.clone(), state.clone());
            let (deadlocks, commits) = (deadlocks.clone(), commits.clone());
            thread::spawn(move || {
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                let mut next = |bound: u64| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random % bound
                };
                let session = session(seed as i32);
                for round in 0..300 {
                    let owner = LockOwner::new(session.clone(), seed * 1000 + round + 1);
                    let mut held = [0i64; KEYS];
                    let mut failed = false;
                    for _ in 0..4 {
                        let key = next(KEYS as u64) as usize;
                        let exclusive = next(2) == 0;
                        let mode = if exclusive { RowLockMode::Update } else { RowLockMode::Share };
                        match manager.lock_row(&owner, &[key as u8], mode, BLOCK) {
                            Ok(_) => {}
                            Err(Error::Deadlock { detail }) => {
                                assert!(detail.lines().count() >= 2, "{detail}");
                                deadlocks.fetch_add(1, Ordering::Relaxed);
                                failed = true;
                                break;
                            }
                            Err(other) => panic!("{other}"),
                        }
                        if exclusive && held[key] != -1 {
                            let expected = held[key];
                            assert_eq!(state[key].swap(-1, Ordering::SeqCst), expected);
                            held[key] = -1;
                        } else if !exclusive && held[key] == 0 {
                            assert!(state[key].fetch_add(1, Ordering::SeqCst) >= 0);
                            held[key] = 1;
                        }
                    }
                    for (key, held) in held.into_iter().enumerate() {
                        match held {
                            0 => {}
                            -1 => assert_eq!(state[key].swap(0, Ordering::SeqCst), -1),
                            _ => assert!(state[key].fetch_sub(1, Ordering::SeqCst) >= 1),
                        }
                    }
                    manager.release_all(&owner);
                    if !failed {
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(manager.list().is_empty());
    assert!(manager.graph.lock().waiting.is_empty());
    assert_eq!(deadlocks.load(Ordering::Relaxed) + commits.load(Ordering::Relaxed), 8 * 300);
    assert!(commits.load(Ordering::Relaxed) > 0);
}

/// Every session gets a hot row equally often, give or take one.
#[test]
fn a_hot_row_goes_round() {
    const SESSIONS: usize = 6;
    let manager = Arc::new(LockManager::new());
    let turns: Arc<Vec<AtomicUsize>> = Arc::new((0..SESSIONS).map(|_| AtomicUsize::new(0)).collect());
    let gate = owner(99);
    manager.lock_row(&gate, b"hot", RowLockMode::Update, BLOCK).unwrap();
    let threads: Vec<_> = (0..SESSIONS)
        .map(|at| {
            let (manager, turns) = (manager.clone(), turns.clone());
            thread::spawn(move || {
                let session = session(at as i32);
                for round in 0..50u64 {
                    let owner = LockOwner::new(session.clone(), at as u64 * 1000 + round);
                    manager.lock_row(&owner, b"hot", RowLockMode::Update, BLOCK).unwrap();
                    let mine = turns[at].fetch_add(1, Ordering::SeqCst) + 1;
                    if round > 0 && round < 40 {
                        // While this one held it last, everybody else who still runs had a turn.
                        let least = turns.iter().map(|turns| turns.load(Ordering::SeqCst)).min().unwrap();
                        assert!(mine <= least + 3, "turn {mine}, somebody else had only {least}");
                    }
                    // Let the others queue up before it is passed on.
                    for _ in 0..1000 {
                        if manager.list().iter().filter(|lock| !lock.granted).count() == SESSIONS - 1
                            || round >= 40
                        {
                            break;
                        }
                        thread::yield_now();
                    }
                    manager.release_all(&owner);
                }
            })
        })
        .collect();
    until_waiting(&manager, SESSIONS);
    manager.release_all(&gate);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(turns.iter().all(|turns| turns.load(Ordering::SeqCst) == 50));
}

/// Who asks with an old number of hand-overs might not have seen the record of what was handed over since.
#[test]
fn hand_overs_are_noticed_and_come_back() {
    let manager = LockManager::new();
    let (a, b) = (owner(1), owner(2));
    let before = manager.hand_overs();
    manager.lock_row(&a, b"k", RowLockMode::Share, BLOCK).unwrap();
    manager.lock_row(&a, b"k", RowLockMode::Update, BLOCK).unwrap();
    let (rows, up_to) = manager.begin_hand_over(&a);
    let stored: Vec<PlacedMode> = rows.iter().map(|(_, placed)| *placed).collect();
    assert_eq!(stored, [(1, RowLockMode::Share), (2, RowLockMode::Update)]);
    assert!(a.memory() > 0);
    manager.hand_over_rows(&a, up_to);
    assert!(manager.list().is_empty() && a.memory() == 0);
    let ask = |mode, number| manager.lock_row_unless_moved(&b, b"k", mode, WaitPolicy::Skip, number).unwrap();
    assert_eq!(ask(RowLockMode::Update, before), None);
    assert!(manager.bring_back(&a, b"k", &stored, RowLockMode::KeyShare, true));
    assert_eq!(ask(RowLockMode::Update, manager.hand_overs()), Some(LockOutcome::Skipped));
    manager.rollback_to(&a, LockMark(1));
    assert!(!manager.bring_back(&a, b"k", &stored, RowLockMode::Share, true), "the update was undone");
    assert_eq!(ask(RowLockMode::Share, manager.hand_overs()), Some(GRANTED));
    assert_eq!(ask(RowLockMode::NoKeyUpdate, manager.hand_overs()), Some(LockOutcome::Skipped));
    manager.release_all(&a);
    assert!(!manager.bring_back(&a, b"k", &stored, RowLockMode::Update, true), "it has ended");
    manager.release_all(&b);
    assert!(manager.list().is_empty());
}

/// Somebody waits when the first of a key's entries is looked at, and has given up when the second one is.
#[test]
fn handing_over_one_mode_leaves_the_other() {
    let manager = Arc::new(LockManager::new());
    let a = owner(1);
    manager.lock_row(&a, b"other", RowLockMode::Share, BLOCK).unwrap();
    manager.lock_row(&a, b"k", RowLockMode::Share, BLOCK).unwrap();
    let mark = manager.savepoint(&a);
    manager.lock_row(&a, b"k", RowLockMode::NoKeyUpdate, BLOCK).unwrap();
    let (rows, up_to) = manager.begin_hand_over(&a);
    let stored: Vec<PlacedMode> =
        rows.iter().map(|(_, placed)| *placed).filter(|(place, _)| *place > 1).collect();
    assert_eq!((up_to, &stored[..]), (3, &[(2, RowLockMode::Share), (3, RowLockMode::NoKeyUpdate)][..]));
    let waiting = Actor::start(&manager, 2);
    waiting.begin_row("k", RowLockMode::Update, BLOCK);
    until_waiting(&manager, 1);
    a.acquired.lock().hand_over(|entry| {
        let goes = manager.hand_over(a.agent, entry);
        if !goes {
            waiting.session.interrupt.raise(CancelReason::UserRequest);
            assert!(matches!(waiting.answer(), Err(Error::Cancelled(_))));
        }
        goes
    });
    manager.rollback_to(&a, mark);
    let b = owner(3);
    assert!(manager.bring_back(&a, b"k", &stored, RowLockMode::Update, true));
    assert_eq!(
        manager.lock_row(&b, b"k", RowLockMode::Update, WaitPolicy::Skip).unwrap(),
        LockOutcome::Skipped
    );
    assert_eq!(manager.lock_row(&b, b"k", RowLockMode::Share, WaitPolicy::Skip).unwrap(), GRANTED);
    manager.release_all(&a);
    manager.release_all(&b);
    assert!(manager.list().is_empty());
}

/// Some of the records were written, then there was no room: rolling back takes those back too.
#[test]
fn records_of_a_failed_hand_over_can_be_rolled_back() {
    let manager = LockManager::new();
    let a = owner(1);
    manager.lock_row(&a, b"before", RowLockMode::Update, BLOCK).unwrap();
    let mark = manager.savepoint(&a);
    manager.lock_row(&a, b"k", RowLockMode::Update, BLOCK).unwrap();
    let (rows, _) = manager.begin_hand_over(&a);
    let stored = |key: &[u8]| -> Vec<PlacedMode> {
        rows.iter().filter(|(of, _)| **of == *key).map(|(_, placed)| *placed).collect()
    };
    manager.rollback_to(&a, mark);
    assert!(!manager.bring_back(&a, b"k", &stored(b"k"), RowLockMode::Update, true));
    assert!(manager.bring_back(&a, b"before", &stored(b"before"), RowLockMode::Update, true));
    assert_eq!(a.strongest(&stored(b"k")), None);
    assert_eq!(a.strongest(&stored(b"before")), Some(RowLockMode::Update));
    manager.release_all(&a);
    assert!(manager.list().is_empty());
}
