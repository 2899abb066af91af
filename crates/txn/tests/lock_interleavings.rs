//! The lock queues under many interleavings of their threads. Run with `cargo test -p cairn-txn --features shuttle`.
#![cfg(feature = "shuttle")]

use std::time::Duration;

use cairn_txn::locks::{LockManager, LockOwner};
use cairn_txn::{
    CancelReason, Error, Interrupt, LockOutcome, LockScope, LockTag, RowLockMode, SessionHandle,
    TableLockMode, WaitPolicy,
};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

const BLOCK: WaitPolicy = WaitPolicy::Block { timeout: Duration::ZERO };
const ITERATIONS: usize = 3000;

fn session(pid: i32) -> std::sync::Arc<SessionHandle> {
    std::sync::Arc::new(SessionHandle { pid, interrupt: std::sync::Arc::new(Interrupt::new()) })
}

/// Three writers of one key: one at a time, all of them in the end.
#[test]
fn hand_off_loses_nobody() {
    shuttle::check_random(
        || {
            let manager = Arc::new(LockManager::new());
            let inside = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (1..=3)
                .map(|number| {
                    let (manager, inside) = (manager.clone(), inside.clone());
                    thread::spawn(move || {
                        let owner = LockOwner::new(session(number), number as u64);
                        let mode = if number == 3 { RowLockMode::Update } else { RowLockMode::NoKeyUpdate };
                        manager.lock_row(&owner, b"k", mode, BLOCK).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        manager.release_all(&owner);
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(manager.list().is_empty());
        },
        ITERATIONS,
    );
}

/// Keys in opposite order, by three sessions: whatever happens, nobody hangs, and at least one gets both.
#[test]
fn circles_end_with_victims_and_survivors() {
    shuttle::check_random(
        || {
            let manager = Arc::new(LockManager::new());
            let survivors = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = [(b"a", b"b"), (b"b", b"c"), (b"c", b"a")]
                .into_iter()
                .enumerate()
                .map(|(number, (first, second))| {
                    let (manager, survivors) = (manager.clone(), survivors.clone());
                    thread::spawn(move || {
                        let owner = LockOwner::new(session(number as i32), number as u64);
                        manager.lock_row(&owner, first, RowLockMode::Update, BLOCK).unwrap();
                        match manager.lock_row(&owner, second, RowLockMode::Update, BLOCK) {
                            Ok(_) => {
                                survivors.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(Error::Deadlock { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                        manager.release_all(&owner);
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(survivors.load(Ordering::SeqCst) >= 2);
            assert!(manager.list().is_empty());
        },
        ITERATIONS,
    );
}

/// Sharers that upgrade, with a third party in the queue between them.
#[test]
fn upgrades_of_sharers() {
    shuttle::check_random(
        || {
            let manager = Arc::new(LockManager::new());
            let threads: Vec<_> = (1..=3)
                .map(|number| {
                    let manager = manager.clone();
                    thread::spawn(move || {
                        let owner = LockOwner::new(session(number), number as u64);
                        let mode = if number == 3 { RowLockMode::Update } else { RowLockMode::Share };
                        let granted = manager
                            .lock_row(&owner, b"k", mode, BLOCK)
                            .and_then(|_| manager.lock_row(&owner, b"k", RowLockMode::Update, BLOCK));
                        assert!(matches!(granted, Ok(_) | Err(Error::Deadlock { .. })));
                        manager.release_all(&owner);
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(manager.list().is_empty());
        },
        ITERATIONS,
    );
}

/// A cancel request that races with the grant: either the lock is held or nothing is, and those behind go on.
#[test]
fn cancel_against_grant() {
    shuttle::check_random(
        || {
            let manager = Arc::new(LockManager::new());
            let holder = LockOwner::new(session(1), 1);
            manager.lock_row(&holder, b"k", RowLockMode::Update, BLOCK).unwrap();
            let victim = session(2);
            let cancelled = {
                let (manager, victim) = (manager.clone(), victim.clone());
                thread::spawn(move || {
                    let owner = LockOwner::new(victim, 2);
                    match manager.lock_row(&owner, b"k", RowLockMode::Update, BLOCK) {
                        Ok(outcome) => assert!(outcome != LockOutcome::Skipped),
                        Err(error) => assert!(matches!(error, Error::Cancelled(CancelReason::UserRequest))),
                    }
                    manager.release_all(&owner);
                })
            };
            let behind = {
                let manager = manager.clone();
                thread::spawn(move || {
                    let owner = LockOwner::new(session(3), 3);
                    manager.lock_row(&owner, b"k", RowLockMode::Update, BLOCK).unwrap();
                    manager.release_all(&owner);
                })
            };
            let raiser = thread::spawn(move || victim.interrupt.raise(CancelReason::UserRequest));
            manager.release_all(&holder);
            for thread in [cancelled, behind, raiser] {
                thread.join().unwrap();
            }
            assert!(manager.list().is_empty());
        },
        ITERATIONS,
    );
}

/// Table locks: readers, writers and one exclusive owner, with SKIP in between.
#[test]
fn table_locks() {
    shuttle::check_random(
        || {
            let manager = Arc::new(LockManager::new());
            let tag = LockTag::Object { class: 1259, object: 1 };
            let modes =
                [TableLockMode::AccessShare, TableLockMode::RowExclusive, TableLockMode::AccessExclusive];
            let threads: Vec<_> = modes
                .into_iter()
                .enumerate()
                .map(|(number, mode)| {
                    let manager = manager.clone();
                    thread::spawn(move || {
                        let owner = LockOwner::new(session(number as i32), number as u64);
                        let scope = LockScope::Transaction;
                        manager
                            .lock_object(&owner, tag, TableLockMode::AccessShare, scope, WaitPolicy::Skip)
                            .unwrap();
                        let granted = manager.lock_object(&owner, tag, mode, scope, BLOCK);
                        assert!(matches!(granted, Ok(_) | Err(Error::Deadlock { .. })));
                        manager.release_all(&owner);
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert!(manager.list().is_empty());
        },
        ITERATIONS,
    );
}
