//! Row, table and advisory locks of one database, in memory.
//!
//! First cut: one table behind one mutex, PostgreSQL's conflict tables, waits with timeout and cancellation.
//! Queues with direct hand-off and deadlock detection replace the inside; the interface stays.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{
    Error, LockOutcome, LockScope, LockTag, Result, RowLockMode, SessionHandle, TableLockMode, WaitPolicy,
    while_waiting,
};

/// Unique per transaction in this process, assigned when it begins.
pub type TransactionNumber = u64;

/// Who holds or wants locks: one transaction of one session.
#[derive(Clone, Debug)]
pub struct LockOwner {
    session: Arc<SessionHandle>,
    number: TransactionNumber,
}

impl LockOwner {
    pub fn new(session: Arc<SessionHandle>, number: TransactionNumber) -> Self {
        LockOwner { session, number }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    Row(Box<[u8]>),
    Object(LockTag),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Row(RowLockMode),
    Object(TableLockMode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Transaction { session: i32, number: TransactionNumber },
    Session(i32),
}

impl Holder {
    fn session(&self) -> i32 {
        match self {
            Holder::Transaction { session, .. } | Holder::Session(session) => *session,
        }
    }
}

#[derive(Debug)]
struct Grant {
    holder: Holder,
    mode: Mode,
    /// Place in the order of all grants: what a savepoint marks.
    order: u64,
}

#[derive(Debug, Default)]
struct Table {
    grants: HashMap<Target, Vec<Grant>>,
    /// Targets of each transaction, so that its end does not look at the others'.
    of_transaction: HashMap<TransactionNumber, Vec<Target>>,
    next_order: u64,
}

#[derive(Debug, Default)]
pub struct LockManager {
    table: Mutex<Table>,
    released: Condvar,
}

/// A point to which a transaction's locks can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockMark(u64);

/// How often a waiter looks whether it was cancelled.
const INTERRUPT_CHECK: Duration = Duration::from_millis(20);

impl LockManager {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn lock_row(
        &self,
        owner: &LockOwner,
        key: &[u8],
        mode: RowLockMode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let holder = Holder::Transaction { session: owner.session.pid, number: owner.number };
        self.lock(owner, holder, Target::Row(key.into()), Mode::Row(mode), wait)
    }

    pub fn lock_object(
        &self,
        owner: &LockOwner,
        tag: LockTag,
        mode: TableLockMode,
        scope: LockScope,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let holder = match scope {
            LockScope::Transaction => {
                Holder::Transaction { session: owner.session.pid, number: owner.number }
            }
            LockScope::Session => Holder::Session(owner.session.pid),
        };
        self.lock(owner, holder, Target::Object(tag), Mode::Object(mode), wait)
    }

    fn lock(
        &self,
        owner: &LockOwner,
        holder: Holder,
        target: Target,
        mode: Mode,
        wait: WaitPolicy,
    ) -> Result<LockOutcome> {
        let mut table = self.table.lock();
        if table.try_grant(holder, &target, mode) {
            return Ok(LockOutcome::Acquired { waited: false });
        }
        let deadline = match wait {
            WaitPolicy::Skip => return Ok(LockOutcome::Skipped),
            WaitPolicy::Error => return Err(Error::LockNotAvailable),
            WaitPolicy::Block { timeout } => (!timeout.is_zero()).then(|| Instant::now() + timeout),
        };
        while_waiting(|| {
            loop {
                owner.session.interrupt.check()?;
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(Error::LockTimeout);
                }
                self.released.wait_for(&mut table, INTERRUPT_CHECK);
                if table.try_grant(holder, &target, mode) {
                    return Ok(LockOutcome::Acquired { waited: true });
                }
            }
        })
    }

    pub fn savepoint(&self, _owner: &LockOwner) -> LockMark {
        LockMark(self.table.lock().next_order)
    }

    pub fn rollback_to(&self, owner: &LockOwner, mark: LockMark) {
        self.table.lock().release_transaction(owner.number, mark.0);
        self.released.notify_all();
    }

    pub fn release_all(&self, owner: &LockOwner) {
        let mut table = self.table.lock();
        if table.of_transaction.contains_key(&owner.number) {
            table.release_transaction(owner.number, 0);
            drop(table);
            self.released.notify_all();
        }
    }

    pub fn unlock_object(&self, session: &SessionHandle, tag: LockTag, mode: TableLockMode) -> bool {
        let mut table = self.table.lock();
        let Some(grants) = table.grants.get_mut(&Target::Object(tag)) else { return false };
        let wanted = (Holder::Session(session.pid), Mode::Object(mode));
        let Some(at) = grants.iter().position(|grant| (grant.holder, grant.mode) == wanted) else {
            return false;
        };
        grants.remove(at);
        if grants.is_empty() {
            table.grants.remove(&Target::Object(tag));
        }
        drop(table);
        self.released.notify_all();
        true
    }

    pub fn unlock_session(&self, session: &SessionHandle) {
        let mut table = self.table.lock();
        table.grants.retain(|_, grants| {
            grants.retain(|grant| grant.holder != Holder::Session(session.pid));
            !grants.is_empty()
        });
        drop(table);
        self.released.notify_all();
    }
}

impl Table {
    fn try_grant(&mut self, holder: Holder, target: &Target, mode: Mode) -> bool {
        let order = self.next_order;
        let grants = self.grants.entry(target.clone()).or_default();
        let conflict =
            |grant: &Grant| grant.holder.session() != holder.session() && conflicts(grant.mode, mode);
        if grants.iter().any(conflict) {
            return false;
        }
        // Session locks are counted: each hold is released by name.
        let held = matches!(holder, Holder::Transaction { .. })
            && grants.iter().any(|grant| grant.holder == holder && grant.mode == mode);
        if !held {
            grants.push(Grant { holder, mode, order });
            self.next_order += 1;
            if let Holder::Transaction { number, .. } = holder {
                self.of_transaction.entry(number).or_default().push(target.clone());
            }
        }
        true
    }

    fn release_transaction(&mut self, number: TransactionNumber, from_order: u64) {
        let Some(targets) = self.of_transaction.get_mut(&number) else { return };
        let grants = &mut self.grants;
        targets.retain(|target| {
            let Some(list) = grants.get_mut(target) else { return false };
            let is_ours =
                |grant: &Grant| matches!(grant.holder, Holder::Transaction { number: n, .. } if n == number);
            list.retain(|grant| !(is_ours(grant) && grant.order >= from_order));
            let held = list.iter().any(is_ours);
            if list.is_empty() {
                grants.remove(target);
            }
            held
        });
        if targets.is_empty() {
            self.of_transaction.remove(&number);
        }
    }
}

fn conflicts(held: Mode, wanted: Mode) -> bool {
    match (held, wanted) {
        (Mode::Row(held), Mode::Row(wanted)) => row_modes_conflict(held, wanted),
        (Mode::Object(held), Mode::Object(wanted)) => table_modes_conflict(held, wanted),
        (Mode::Row(_), Mode::Object(_)) | (Mode::Object(_), Mode::Row(_)) => false,
    }
}

/// Manual, table 13.3.
fn row_modes_conflict(held: RowLockMode, wanted: RowLockMode) -> bool {
    use RowLockMode::{KeyShare, NoKeyUpdate, Share, Update};
    match (held, wanted) {
        (Update, _) | (_, Update) => true,
        (NoKeyUpdate, NoKeyUpdate | Share) | (Share, NoKeyUpdate) => true,
        (KeyShare, _) | (_, KeyShare) | (Share, Share) => false,
    }
}

/// Manual, table 13.2.
fn table_modes_conflict(held: TableLockMode, wanted: TableLockMode) -> bool {
    use TableLockMode::{
        AccessExclusive, AccessShare, Exclusive, RowExclusive, RowShare, Share, ShareRowExclusive,
        ShareUpdateExclusive,
    };
    let pair = |weaker: TableLockMode, stronger: TableLockMode| match weaker {
        AccessShare => stronger == AccessExclusive,
        RowShare => stronger >= Exclusive,
        RowExclusive => stronger >= Share,
        ShareUpdateExclusive => stronger >= ShareUpdateExclusive,
        Share => stronger > Share,
        ShareRowExclusive | Exclusive | AccessExclusive => true,
    };
    pair(held.min(wanted), held.max(wanted))
}
