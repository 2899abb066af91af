//! Data-modifying statements.
//!
//! What the planner gives to [`plan`] (frame for `dml`):
//! - `planner.prepare(query) -> Result<Arc<Query>>` rewrites, `planner.enter(query)` gives every range table entry its
//!   registers: column n of entry r is in register `planner.rel(r).register(n)`; the target's and `excluded`'s columns
//!   are all decoded, `planner.rel(target).key` is the register with the row's key (`Datum::Bytea`, storage id
//!   included);
//! - `planner.plan_source() -> Result<PlanTree>` plans FROM and WHERE of the entered query (UPDATE, DELETE: the target
//!   is scanned too; INSERT: the rows to insert): after each `next` the registers hold the joined row;
//! - `planner.compile(expr) -> Code` compiles target expressions, RETURNING, checks over those registers;
//! - `planner.recheck_condition(range) -> Result<Option<Code>>`: WHERE and inner join conditions that look at the entry, for
//!   the re-check after a lock: put the row's new version into the registers, then `code.holds(cx, frame)`;
//! - `planner.node(operator, children)` makes the tree; `planner.uses(oid, Usage::Write)`.
//! - LockRows: `plan_lock_rows(planner, child, marks) -> Result<PlanTree>` is called by `planner::select` above the sort
//!   and below the limit.

use cairn_analyze::query::Query;
use cairn_types::{Error, Result};

use crate::node::PlanTree;
use crate::planner::{Planned, Planner};

/// Plans an INSERT, UPDATE or DELETE.
pub fn plan(_: &mut Planner<'_>, _: &Query) -> Result<Planned> {
    Err(Error::unsupported("INSERT, UPDATE and DELETE are"))
}

/// Puts the node that locks the current rows of the entered query's `row_marks` on `child`.
pub fn plan_lock_rows(_: &mut Planner<'_>, _: PlanTree, _: &Query) -> Result<PlanTree> {
    Err(Error::unsupported("FOR UPDATE and its kin are"))
}
