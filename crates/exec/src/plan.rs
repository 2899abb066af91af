//! Plans: what [`plan`](crate::plan()) makes from a query, and what an execution runs.
//!
//! A plan is immutable and shared; it holds no values of parameters and no rows, so one plan serves many
//! executions, also at the same time. It is good as long as the catalog objects that it was made from are
//! (the session compares catalog versions).

use std::sync::Arc;

use cairn_analyze::privileges::RequiredAccess;
use cairn_analyze::query::{CommandType, LockStrength};
use cairn_catalog::TypeRef;
use cairn_txn::{StorageId, Timestamp, Transaction};
use cairn_types::{Oid, Text};

use crate::expr::Code;
use crate::node::PlanTree;
use crate::subplan::SubPlan;

/// A query that is ready to run.
#[derive(Debug)]
pub struct Plan {
    pub command: CommandType,
    pub root: PlanTree,
    /// The result row, over the registers; empty for INSERT, UPDATE, DELETE without RETURNING.
    pub outputs: Vec<Code>,
    pub columns: Arc<[ResultColumn]>,
    /// Length of [`crate::Frame::registers`].
    pub registers: usize,
    /// Number of nodes, those of subplans and CTEs included.
    pub nodes: usize,
    pub subplans: Vec<SubPlan>,
    pub ctes: Vec<CtePlan>,
    /// Whether it writes, or locks rows: such a statement needs a transaction that may write.
    pub modifies: bool,
    /// Tables read or written and how, for table locks: once each, the strongest use.
    pub relations: Vec<RelationUse>,
    /// Secondary indexes that are read, once each.
    pub indexes: Vec<IndexUse>,
    /// The time that it was made to read at, if there are indexes that do not serve that time, so that there may be a better
    /// plan for later ones.
    pub passed_over: Option<Timestamp>,
    /// For a cursor: where the keys of the rows are that make up a result row.
    pub positions: Vec<Position>,
    /// Functions of constants in it fail, which was left to the execution.
    pub has_failures: bool,
    /// The privileges that running it takes; who runs it asks for them.
    pub access: RequiredAccess,
}

impl Plan {
    /// Whether the statement returns rows.
    pub fn returns_rows(&self) -> bool {
        !self.columns.is_empty() || self.command == CommandType::Select
    }

    /// Whether its indexes have all that is visible at a time, and no others would do so as well. None: a time that is still to
    /// come.
    pub fn suits(&self, time: Option<Timestamp>, transaction: Option<&dyn Transaction>) -> bool {
        if self.passed_over.is_some() && self.passed_over != time {
            return false;
        }
        let (Some(time), Some(transaction)) = (time, transaction) else { return true };
        self.indexes.iter().all(|used| transaction.index_serves(time, used.table, used.index))
    }
}

/// An index that the plan reads, by storage ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexUse {
    pub table: StorageId,
    pub index: StorageId,
}

/// A table whose rows a cursor stands on (`where current of`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub relation: Oid,
    /// Register of the row's key; null where an outer join made the row up.
    pub key: usize,
}

/// A table that the plan touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationUse {
    pub relation: Oid,
    pub usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Read,
    Lock(LockStrength),
    Write,
}

/// One column of the result.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    pub name: Text,
    pub ty: TypeRef,
    /// Table and attribute that it comes from; 0 if it is computed.
    pub origin_table: Oid,
    pub origin_column: i16,
}

/// A WITH query that is computed once and read by its references.
#[derive(Debug)]
pub struct CtePlan {
    pub name: Text,
    pub root: PlanTree,
    pub outputs: Vec<Code>,
    /// INSERT, UPDATE, DELETE: run to its end even if nobody reads it.
    pub modifies: bool,
    /// Depends on rows of an outer query: computed again when that query's row changes.
    pub correlated: bool,
}
