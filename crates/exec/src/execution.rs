//! One run of a plan.

use std::sync::Arc;

use cairn_txn::Snapshot;
use cairn_types::{Datum, Result, Row};

use crate::context::{ExecContext, Frame};
use crate::expr::Code;
use crate::instrument::Instrument;
use crate::node::Node;
use crate::plan::Plan;

/// A plan that is being run. It borrows nothing, so a portal can hold it between messages; the session around it
/// is passed to each call.
pub struct Execution {
    plan: Arc<Plan>,
    pub frame: Frame,
    root: Box<dyn Node>,
    row: Row,
    done: bool,
}

/// Whether and how an execution is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    Off,
    /// Rows and loops.
    Counts,
    /// Times as well.
    Timing,
}

impl Execution {
    /// Prepares to run; nothing is read yet.
    pub fn start(plan: Arc<Plan>, params: Arc<[Datum]>, snapshot: Snapshot, watch: Watch) -> Execution {
        let root = plan.root.start(watch != Watch::Off);
        let mut frame = Frame::new(Arc::clone(&plan), params, snapshot);
        if watch != Watch::Off {
            frame.instrument = Some(Box::new(Instrument::new(plan.nodes, watch == Watch::Timing)));
        }
        Execution { plan, frame, root, row: Row::new(), done: false }
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The next result row; it lives until the next call.
    pub fn next_row(&mut self, cx: &ExecContext<'_>) -> Result<Option<&[Datum]>> {
        if self.done {
            return Ok(None);
        }
        self.frame.tick(cx)?;
        if !self.root.next(cx, &mut self.frame)? {
            self.done = true;
            return Ok(None);
        }
        self.row.clear();
        for output in &self.plan.outputs {
            let value = match output {
                Code::Register(register) => self.frame.registers[*register].clone(),
                code => code.eval(cx, &mut self.frame)?,
            };
            self.row.push(value);
        }
        Ok(Some(&self.row))
    }

    /// Keys of the rows that make up the row that [`Execution::next_row`] gave last, in the order of [`Plan::positions`].
    pub fn position(&self) -> Vec<Datum> {
        self.plan.positions.iter().map(|position| self.frame.registers[position.key].clone()).collect()
    }

    /// Runs to the end without looking at rows.
    pub fn run(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        while !self.done {
            self.frame.tick(cx)?;
            self.done = !self.root.next(cx, &mut self.frame)?;
        }
        Ok(())
    }

    /// Ends the statement: data-modifying parts that nobody has read to the end are completed. To be called once, also
    /// for a portal that is closed early, and before the command counter is advanced.
    pub fn finish(&mut self, cx: &ExecContext<'_>) -> Result<()> {
        if self.plan.command != cairn_analyze::query::CommandType::Select {
            self.run(cx)?;
        }
        crate::subplan::complete_modifying_ctes(cx, &mut self.frame)?;
        crate::dml::end_statement(cx, &mut self.frame)
    }

    /// Rows inserted, updated or deleted by the statement itself.
    pub fn processed(&self) -> u64 {
        self.frame.processed
    }
}
