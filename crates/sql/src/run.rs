//! Running plans: snapshot, table locks, rows to whoever wants them, the end of the command.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::{CommandType, LockStrength};
use cairn_catalog::Index;
use cairn_exec::execution::Watch;
use cairn_exec::plan::RelationUse;
use cairn_exec::{ExecContext, Execution, Plan, TxnResultExt, Usage};
use cairn_txn::{LockScope, LockTag, Snapshot, TableLockMode, Transaction, WaitPolicy};
use cairn_types::oid::{FIRST_USER_OID, catalogs};
use cairn_types::{Datum, Oid, Result, err};

use crate::client::{Client, ResultShape};
use crate::core::Core;
use crate::statement::Compiled;
use crate::transaction::Phase;

/// While it lives, the tables of a plan count as used by the session.
pub(crate) struct InUse {
    running: Rc<RefCell<Vec<Arc<Plan>>>>,
    plan: *const Plan,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut running = self.running.borrow_mut();
        if let Some(place) = running.iter().rposition(|plan| Arc::as_ptr(plan) == self.plan) {
            running.swap_remove(place);
        }
    }
}

impl Core {
    /// The session as the executor wants it; a transaction must have begun.
    pub(crate) fn with_exec<R>(&self, work: impl FnOnce(&ExecContext<'_>) -> Result<R>) -> Result<R> {
        let transaction = self.transaction()?;
        let catalog = self.session_catalog()?;
        let (work_mem, transaction_memory, lock_timeout) =
            self.hot(|hot| (hot.work_mem_bytes, hot.transaction_memory_bytes, hot.lock_timeout));
        transaction.set_memory_limit(transaction_memory);
        work(&ExecContext {
            txn: &transaction,
            store: &self.database.store,
            catalog: &catalog,
            env: self,
            runner: self,
            work_mem,
            lock_timeout,
            constraints: &self.constraints,
        })
    }

    /// Locks the plan's tables, and asks whether the role may do with them what it is about to; whether the catalog is still the one that the plan was made from is the caller's
    /// question, to be asked afterwards.
    pub(crate) fn lock_relations(&self, plan: &Plan, transaction: &Arc<dyn Transaction>) -> Result<()> {
        let timeout = self.hot(|hot| hot.lock_timeout);
        for used in &plan.relations {
            if used.relation < FIRST_USER_OID {
                continue;
            }
            let mode = match used.usage {
                Usage::Read => TableLockMode::AccessShare,
                Usage::Lock(_) => TableLockMode::RowShare,
                Usage::Write => TableLockMode::RowExclusive,
            };
            let tag = LockTag::Object { class: catalogs::PG_CLASS, object: used.relation };
            transaction
                .lock_object(tag, mode, LockScope::Transaction, WaitPolicy::Block { timeout })
                .sql()?;
        }
        self.check_access(&plan.access)
    }

    /// Gets a plan ready to run: a transaction, table locks, and a plan that fits the catalog as it is under them.
    /// `compile` makes the statement anew.
    pub(crate) fn prepare_to_run(
        &self,
        mut compiled: Rc<Compiled>,
        compile: &mut dyn FnMut() -> Result<Rc<Compiled>>,
    ) -> Result<Rc<Compiled>> {
        let transaction = self.ensure_transaction()?;
        // Each round another session's DDL has come in between; it ends when none does.
        loop {
            let Some(plan) = compiled.plan() else { return Ok(compiled) };
            self.check_read_only(plan)?;
            self.lock_relations(plan, &transaction)?;
            if compiled.is_current(self)? {
                return Ok(compiled);
            }
            compiled = compile()?;
        }
    }

    /// Locks one table, to the end of the transaction.
    pub(crate) fn lock_relation(
        &self,
        relation: &cairn_catalog::Relation,
        mode: TableLockMode,
    ) -> Result<()> {
        let tag = LockTag::Object { class: catalogs::PG_CLASS, object: relation.oid };
        let wait = WaitPolicy::Block { timeout: self.hot(|hot| hot.lock_timeout) };
        self.ensure_transaction()?.lock_object(tag, mode, LockScope::Transaction, wait).sql()?;
        Ok(())
    }

    /// 25006 for a plan that writes in a transaction that may not.
    pub(crate) fn check_plan_writes(&self, plan: &Plan) -> Result<()> {
        self.check_read_only(plan)
    }

    fn check_read_only(&self, plan: &Plan) -> Result<()> {
        if !plan.modifies || !self.block.borrow().read_only {
            return Ok(());
        }
        let temporary = |oid| {
            self.catalog().is_ok_and(|catalog| {
                catalog
                    .relation(oid)
                    .is_some_and(|relation| relation.persistence == cairn_catalog::Persistence::Temporary)
            })
        };
        let forbidden = plan.relations.iter().any(|used| match used.usage {
            Usage::Read => false,
            Usage::Lock(_) => true,
            Usage::Write => !temporary(used.relation),
        });
        if !forbidden {
            return Ok(());
        }
        Err(read_only_error(command_name(plan)))
    }

    /// A snapshot for a statement that begins, pushed for the functions that it calls; [`Core::pop_snapshot`] ends it.
    pub(crate) fn push_snapshot(&self, transaction: &Arc<dyn Transaction>) -> Result<Snapshot> {
        let snapshot = transaction.snapshot().sql()?;
        self.snapshots.borrow_mut().push(snapshot);
        Ok(snapshot)
    }

    pub(crate) fn pop_snapshot(&self) {
        self.snapshots.borrow_mut().pop();
    }

    /// The snapshot that a query reads at which runs in steps, to be given back: one of its own, or the caller's in a function
    /// that is not volatile, which may not change anything.
    pub(crate) fn snapshot_for(&self, plan: &Plan, transaction: &Arc<dyn Transaction>) -> Result<Snapshot> {
        let callers = self.reads_as_caller.get().then(|| self.snapshots.borrow().last().copied());
        match callers.flatten() {
            Some(snapshot) => {
                self.forbid_changes(plan)?;
                transaction.hold_snapshot(&snapshot);
                Ok(snapshot)
            }
            None => transaction.snapshot().sql(),
        }
    }

    /// 0A000 for a plan that changes something, in a function that only reads.
    pub(crate) fn forbid_changes(&self, plan: &Plan) -> Result<()> {
        if !plan.modifies {
            return Ok(());
        }
        Err(err!(FEATURE_NOT_SUPPORTED, "{} is not allowed in a non-volatile function", command_name(plan)))
    }

    /// A statement of the client has ended inside a block: history is kept for open cursors only, and for the snapshot of a
    /// repeatable read transaction. (The end of a transaction needs no help.)
    pub(crate) fn release_snapshots(&self) {
        if self.phase() == Phase::Idle || !self.snapshots.borrow().is_empty() {
            return;
        }
        if let Some(transaction) = self.transaction_if_begun() {
            transaction.release_snapshots(&self.portals.borrow().running_snapshots());
        }
    }

    /// The tables of a plan are in use by this session, which must not alter them, for as long as the answer lives.
    pub(crate) fn uses(&self, plan: &Arc<Plan>) -> InUse {
        self.running.borrow_mut().push(Arc::clone(plan));
        InUse { running: Rc::clone(&self.running), plan: Arc::as_ptr(plan) }
    }

    /// Whether a running statement or an open cursor of this session reads or writes a relation.
    pub(crate) fn is_in_use(&self, relation: Oid) -> bool {
        let uses = |plan: &Arc<Plan>| plan.relations.iter().any(|used| used.relation == relation);
        self.running.borrow().iter().any(uses)
    }

    /// The same of an index: read by a scan, or kept up to date with its table.
    pub(crate) fn is_index_in_use(&self, index: &Index) -> bool {
        let uses = |plan: &Arc<Plan>| {
            let writes = |used: &RelationUse| used.relation == index.table && used.usage == Usage::Write;
            plan.indexes.iter().any(|used| used.index == index.storage) || plan.relations.iter().any(writes)
        };
        self.running.borrow().iter().any(uses)
    }

    /// Runs a plan to its end. `sink` gets every row. The number of rows, or of rows changed.
    pub(crate) fn run_plan(
        &self,
        plan: &Arc<Plan>,
        params: Arc<[Datum]>,
        sink: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<u64> {
        let transaction = self.ensure_transaction()?;
        let snapshot = self.push_snapshot(&transaction)?;
        let result = self.run_plan_at(plan, params, snapshot, sink);
        self.pop_snapshot();
        transaction.release_snapshot(&snapshot);
        let count = result?;
        if plan.modifies {
            transaction.advance_command();
            transaction.check_reads(true).sql()?;
        }
        Ok(count)
    }

    /// [`Core::run_plan`] at a snapshot of the caller's; the command is not ended.
    pub(crate) fn run_plan_at(
        &self,
        plan: &Arc<Plan>,
        params: Arc<[Datum]>,
        snapshot: Snapshot,
        sink: &mut dyn FnMut(&[Datum]) -> Result<()>,
    ) -> Result<u64> {
        let mut execution = Execution::start(Arc::clone(plan), params, snapshot, Watch::Off);
        let _in_use = self.uses(plan);
        self.with_exec(|cx| {
            let mut rows = 0;
            if plan.returns_rows() {
                while let Some(row) = execution.next_row(cx)? {
                    sink(row)?;
                    rows += 1;
                }
            }
            execution.finish(cx)?;
            Ok(if plan.command == CommandType::Select { rows } else { execution.processed() })
        })
    }

    /// Before rows may leave for the client in the middle of a statement, and at its end: what they were read from must
    /// be durable. Inside a block, a statement that locks rows is excused: the block's end waits.
    pub(crate) fn settle(&self, plan: &Plan) {
        if plan.modifies && self.phase() == Phase::Block {
            return;
        }
        if let Some(transaction) = self.transaction_if_begun() {
            self.debt.owe(transaction.settled_at());
        }
    }

    /// One row to the client, notices before it.
    pub(crate) fn send_row(
        &self,
        client: &mut dyn Client,
        shape: &ResultShape,
        plan: &Plan,
        row: &[Datum],
    ) -> Result<()> {
        self.send_notices(client);
        client.row(shape, self, row)?;
        if client.wants_flush() {
            self.settle(plan);
            client.flush()?;
        }
        Ok(())
    }
}

/// What an error calls a plan's command.
fn command_name(plan: &Plan) -> &'static str {
    match plan.command {
        CommandType::Insert => "INSERT",
        CommandType::Update => "UPDATE",
        CommandType::Delete => "DELETE",
        CommandType::Select => {
            let strongest = plan.relations.iter().filter_map(|used| match used.usage {
                Usage::Lock(strength) => Some(strength),
                _ => None,
            });
            match strongest.max() {
                Some(LockStrength::Update) => "SELECT FOR UPDATE",
                Some(LockStrength::NoKeyUpdate) => "SELECT FOR NO KEY UPDATE",
                Some(LockStrength::Share) => "SELECT FOR SHARE",
                Some(LockStrength::KeyShare) => "SELECT FOR KEY SHARE",
                None => "SELECT",
            }
        }
    }
}

/// 25006.
pub(crate) fn read_only_error(what: &str) -> cairn_types::Error {
    err!(READ_ONLY_SQL_TRANSACTION, "cannot execute {what} in a read-only transaction")
}

/// The command tag of a plan that has run.
pub(crate) fn tag(command: CommandType, count: u64) -> String {
    match command {
        CommandType::Select => format!("SELECT {count}"),
        CommandType::Insert => format!("INSERT 0 {count}"),
        CommandType::Update => format!("UPDATE {count}"),
        CommandType::Delete => format!("DELETE {count}"),
    }
}

/// What remains to be checked at the end of a transaction: deferred constraints.
pub(crate) fn before_commit(core: &Core) -> Result<()> {
    core.with_exec(|cx| core.constraints.check(cx))
}
