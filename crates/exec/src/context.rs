//! What a running statement stands on.
//!
//! Two halves: [`ExecContext`] is the session around it, borrowed anew for every call (a portal lives longer than
//! one protocol message); [`Frame`] is the statement's own state, from its start to its end.
//!
//! **Registers.** All columns that a plan computes live in one array, [`Frame::registers`]. A scan writes the columns of its
//! table there, a join leaves both sides' columns where they are, an expression reads by register number, a correlated
//! subquery reads the outer row in place. Nothing is copied between nodes; whoever keeps rows for later (sort, hash,
//! materialize) saves the registers of its input and restores them one row at a time.
//! The rule: a node's registers hold its current row until its `next` is called again, or another row of the
//! same subtree is restored.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use cairn_catalog::{Catalog, Proc};
use cairn_functions::RowStream;
use cairn_txn::{CommandId, Snapshot, Store, Transaction};
use cairn_types::{CallInfo, Datum, Env, Result, Row};

use crate::dml::{StatementEvents, TransactionConstraints};
use crate::instrument::Instrument;
use crate::plan::Plan;
use crate::subplan::{CteState, SubPlanState};

/// The session as a statement sees it.
#[derive(Clone, Copy)]
pub struct ExecContext<'a> {
    pub txn: &'a Arc<dyn Transaction>,
    pub store: &'a Arc<dyn Store>,
    pub catalog: &'a Arc<Catalog>,
    pub env: &'a dyn Env,
    pub runner: &'a dyn FunctionRunner,
    /// Bytes that a sort or a hash table may take before it goes to disk.
    pub work_mem: usize,
    /// How long a row or table lock is waited for; zero: without end.
    pub lock_timeout: Duration,
    /// The transaction's deferred checks.
    pub constraints: &'a TransactionConstraints,
}

/// Functions that are themselves SQL: language sql, plpgsql. Crate `sql` implements it.
pub trait FunctionRunner {
    /// One value. Strictness has been handled.
    fn call(
        &self,
        cx: &ExecContext<'_>,
        proc: &Arc<Proc>,
        args: &[Datum],
        info: &CallInfo<'_>,
    ) -> Result<Datum>;
    /// Rows of a set-returning function: one value per row for a scalar type, one per column otherwise.
    fn call_set(
        &self,
        cx: &ExecContext<'_>,
        proc: &Arc<Proc>,
        args: &[Datum],
        info: &CallInfo<'_>,
    ) -> Result<Box<dyn RowStream>>;
    /// Rows of a system catalog or system view that the cluster or the session keeps (pg_database, pg_authid,
    /// pg_stat_activity, pg_settings, ...); `None`: the catalog has them.
    fn system_rows(
        &self,
        cx: &ExecContext<'_>,
        relation: cairn_types::Oid,
    ) -> Result<Option<Vec<Arc<[Datum]>>>>;
    /// Row key of the current row of an open cursor over the table (`where current of name`), if the cursor is
    /// positioned on one of its rows.
    fn cursor_position(&self, cursor: &str, table: cairn_types::Oid) -> Result<Option<Vec<u8>>>;
}

/// The state of one execution.
pub struct Frame {
    pub plan: Arc<Plan>,
    pub registers: Vec<Datum>,
    /// `$1` is the first.
    pub params: Arc<[Datum]>,
    pub snapshot: Snapshot,
    pub subplans: Vec<SubPlanState>,
    pub ctes: Vec<CteState>,
    /// Rows of the last round of each WITH RECURSIVE.
    pub working_tables: Vec<Arc<Vec<Row>>>,
    /// Goes up when a working table changes: rows that a node has kept from before no longer count.
    pub working_round: u64,
    /// Rows inserted, updated, deleted by the statement's own ModifyTable (not those of its WITH queries).
    pub processed: u64,
    pub instrument: Option<Box<Instrument>>,
    /// State that a crate above or `dml` keeps for the statement (trigger queues, deferred checks), by plan-wide slot.
    pub extensions: Vec<Option<Box<dyn Any + Send>>>,
    /// Checks that wait for the statement's last row.
    pub events: StatementEvents,
    /// Commands under which the statement itself has written, ascending. Those in between are of functions that it calls.
    own_commands: Vec<CommandId>,
    ticks: u32,
}

impl Frame {
    pub fn new(plan: Arc<Plan>, params: Arc<[Datum]>, snapshot: Snapshot) -> Self {
        let mut registers = Vec::with_capacity(plan.registers);
        registers.resize(plan.registers, Datum::Null);
        let subplans = plan.subplans.iter().map(|_| SubPlanState::default()).collect();
        let ctes = plan.ctes.iter().map(|_| CteState::default()).collect();
        Frame {
            plan,
            registers,
            params,
            snapshot,
            subplans,
            ctes,
            working_tables: Vec::new(),
            working_round: 0,
            processed: 0,
            instrument: None,
            extensions: Vec::new(),
            events: StatementEvents::default(),
            own_commands: Vec::new(),
            ticks: 0,
        }
    }

    /// To be called once per row by whatever can run long: asks for interrupts now and then.
    #[inline]
    pub fn tick(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks & 0xFF == 0 { cx.env.check_interrupts() } else { Ok(()) }
    }

    /// The statement itself writes a row under this command, the transaction's current one.
    #[inline]
    pub(crate) fn note_write(&mut self, command: CommandId) {
        if self.own_commands.last() != Some(&command) {
            self.own_commands.push(command);
        }
    }

    /// Whether a row of this command was written by the statement itself.
    pub(crate) fn wrote_under(&self, command: CommandId) -> bool {
        self.own_commands.binary_search(&command).is_ok()
    }

    /// Copies registers out.
    pub fn save(&self, registers: &[usize]) -> Row {
        registers.iter().map(|register| self.registers[*register].clone()).collect()
    }

    /// Copies a saved row back.
    pub fn restore(&mut self, registers: &[usize], row: &[Datum]) {
        for (register, value) in registers.iter().zip(row) {
            self.registers[*register].clone_from(value);
        }
    }

    /// Moves a saved row back.
    pub fn restore_owned(&mut self, registers: &[usize], row: Row) {
        for (register, value) in registers.iter().zip(row) {
            self.registers[*register] = value;
        }
    }

    /// Null-extends.
    pub fn clear(&mut self, registers: &[usize]) {
        for register in registers {
            self.registers[*register] = Datum::Null;
        }
    }
}
