//! Planner and executor: from a [`Query`](cairn_analyze::query::Query) to rows.
//!
//! - [`plan()`] makes a [`Plan`], immutable and shared;
//! - [`Execution`] runs it: [`Execution::next_row`] until there is none, then [`Execution::finish`];
//! - [`explain`] shows it.
//!
//! Read [`context`] first (what registers are), then [`node`], [`expr`] and [`planner`].

pub mod activity;
mod context;
pub mod dml;
pub mod error;
pub mod execution;
pub mod explain;
pub mod expr;
pub mod hash;
pub mod instrument;
pub mod node;
pub mod nodes;
pub mod plan;
pub mod planner;
mod spill;
pub mod stack;
pub mod subplan;
pub mod table;

pub use context::{ExecContext, Frame, FunctionRunner};
pub use error::{TxnResultExt, row_lock_error, txn_error};
pub use execution::Execution;
pub use node::{Node, Operator, PlanTree};
pub use plan::{IndexUse, Plan, RelationUse, ResultColumn, Usage};
pub use planner::value_classes::ValueClasses;
pub use planner::value_dependent::value_dependent_parameters;
pub use planner::{
    ExpressionSource, PlanContext, Planned, Planner, ReadTime, plan, plan_cursor, plan_prepared,
    result_columns,
};
pub use spill::RowStore;
