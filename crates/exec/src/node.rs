//! The executor's nodes: Volcano iterators over shared registers.

use std::fmt::Debug;
use std::sync::Arc;

use cairn_types::Result;

use crate::context::{ExecContext, Frame};
use crate::explain::Properties;
use crate::instrument::Instrumented;

/// The running state of a plan node.
pub trait Node: Send {
    /// Advances to the next row, which is in the node's registers then. False after the last; a further call
    /// says false again.
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool>;
    /// Instead of the first `next`: the number of all rows, if they are counted without being made; the registers stay as they are.
    fn count_rows(&mut self, _cx: &ExecContext<'_>, _frame: &mut Frame) -> Result<Option<u64>> {
        Ok(None)
    }
    /// Starts over; registers and parameters that the node's expressions read may have changed.
    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()>;
}

/// The immutable half of a node: what to do. Shared by all executions of a plan.
pub trait Operator: Send + Sync + Debug {
    /// Makes the running state; `children` are those of the [`PlanTree`], in order.
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node>;
    /// Names the node and its properties for EXPLAIN.
    fn explain(&self, properties: &mut Properties);
    /// Whether its rows change with each round of a WITH RECURSIVE around it.
    fn reads_working_table(&self) -> bool {
        false
    }
}

/// A node of a plan with its estimates.
#[derive(Clone, Debug)]
pub struct PlanTree {
    pub operator: Arc<dyn Operator>,
    pub children: Vec<PlanTree>,
    /// Number within the plan, for instrumentation.
    pub number: usize,
    pub startup_cost: f64,
    pub total_cost: f64,
    pub rows: f64,
    /// Bytes.
    pub width: u32,
    /// InitPlans and SubPlans that hang on this node, by their number in [`crate::plan::Plan::subplans`], for EXPLAIN.
    pub subplans: Vec<usize>,
    /// CTEs that EXPLAIN shows below this node.
    pub ctes: Vec<usize>,
}

impl PlanTree {
    /// Whether the tree's rows change with each round of a WITH RECURSIVE around it, so that none may be kept.
    pub fn reads_working_table(&self) -> bool {
        self.operator.reads_working_table() || self.children.iter().any(PlanTree::reads_working_table)
    }

    /// Builds the running state of the tree; `watch`: wrapped for EXPLAIN ANALYZE.
    pub fn start(&self, watch: bool) -> Box<dyn Node> {
        let children: Vec<_> = self.children.iter().map(|child| child.start(watch)).collect();
        let leaf = children.is_empty();
        let node = Arc::clone(&self.operator).start(self.number, children);
        if watch { Box::new(Instrumented::new(node, self.number, leaf)) } else { node }
    }
}
