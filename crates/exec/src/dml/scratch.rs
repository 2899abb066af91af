//! A frame without a statement: for work on rows that no plan asked for (index builds, COPY, checks at commit).

use std::sync::{Arc, LazyLock};

use cairn_analyze::privileges::RequiredAccess;
use cairn_analyze::query::CommandType;
use cairn_txn::Snapshot;
use cairn_types::{Datum, Result};

use crate::context::{ExecContext, Frame};
use crate::explain::Properties;
use crate::node::{Node, Operator, PlanTree};
use crate::plan::Plan;

#[derive(Debug)]
struct Nothing;

impl Operator for Nothing {
    fn start(self: Arc<Self>, _: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(NothingState)
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Result".into();
    }
}

struct NothingState;

impl Node for NothingState {
    fn next(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<bool> {
        Ok(false)
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        Ok(())
    }
}

static EMPTY: LazyLock<Arc<Plan>> = LazyLock::new(|| {
    Arc::new(Plan {
        command: CommandType::Select,
        root: PlanTree {
            operator: Arc::new(Nothing),
            children: Vec::new(),
            number: 0,
            startup_cost: 0.0,
            total_cost: 0.0,
            rows: 0.0,
            width: 0,
            subplans: Vec::new(),
            ctes: Vec::new(),
        },
        outputs: Vec::new(),
        columns: Arc::from([]),
        registers: 0,
        nodes: 1,
        subplans: Vec::new(),
        ctes: Vec::new(),
        modifies: true,
        relations: Vec::new(),
        indexes: Vec::new(),
        passed_over: None,
        positions: Vec::new(),
        has_failures: false,
        access: RequiredAccess::default(),
    })
});

/// A frame with so many registers, all null.
pub(super) fn frame(registers: usize, snapshot: Snapshot) -> Frame {
    let mut frame = Frame::new(Arc::clone(&EMPTY), Arc::from([]), snapshot);
    frame.registers.resize(registers, Datum::Null);
    frame
}
