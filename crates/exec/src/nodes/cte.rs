//! WITH: reading a shared result, recursion, and keeping rows of a subtree for rescans.

use std::sync::Arc;

use cairn_types::{Result, Row};

use super::simple_scans::passes;
use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::expr::{Code, eval_all};
use crate::hash::RowIndex;
use crate::node::{Node, Operator};
use crate::spill::RowStore;
use crate::subplan::{CteState, cte_row};

#[derive(Debug)]
pub struct CteScan {
    pub cte: usize,
    pub registers: Vec<usize>,
    pub filter: Option<Code>,
    pub name: String,
    pub alias: String,
    pub filter_text: String,
}

struct CteScanState {
    plan: Arc<CteScan>,
    number: usize,
    at: usize,
}

fn named(name: &str, alias: &str) -> String {
    if name == alias { format!(" on {name}") } else { format!(" on {name} {alias}") }
}

impl Operator for CteScan {
    fn start(self: Arc<Self>, number: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(CteScanState { plan: self, number, at: 0 })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "CTE Scan".into();
        properties.target = named(&self.name, &self.alias);
        properties.line("CTE Name", Value::Hidden(self.name.clone()));
        properties.line("Alias", Value::Hidden(self.alias.clone()));
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl Node for CteScanState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        loop {
            frame.tick(cx)?;
            let Some(row) = cte_row(self.plan.cte, self.at, cx, frame)? else { return Ok(false) };
            self.at += 1;
            frame.restore_owned(&self.plan.registers, row);
            if passes(&self.plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.at = 0;
        Ok(())
    }
}

/// The recursive term's reference to its own query: the rows of the last round.
#[derive(Debug)]
pub struct WorkTableScan {
    /// Index into [`Frame::working_tables`].
    pub slot: usize,
    pub registers: Vec<usize>,
    pub filter: Option<Code>,
    pub name: String,
    pub alias: String,
    pub filter_text: String,
}

struct WorkTableState {
    plan: Arc<WorkTableScan>,
    number: usize,
    at: usize,
}

impl Operator for WorkTableScan {
    fn start(self: Arc<Self>, number: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(WorkTableState { plan: self, number, at: 0 })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "WorkTable Scan".into();
        properties.target = named(&self.name, &self.alias);
        properties.line("CTE Name", Value::Hidden(self.name.clone()));
        properties.line("Alias", Value::Hidden(self.alias.clone()));
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }

    fn reads_working_table(&self) -> bool {
        true
    }
}

impl Node for WorkTableState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        loop {
            frame.tick(cx)?;
            let table = frame.working_tables.get(self.plan.slot).cloned().unwrap_or_default();
            let Some(row) = table.get(self.at) else { return Ok(false) };
            self.at += 1;
            frame.restore(&self.plan.registers, row);
            if passes(&self.plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.at = 0;
        Ok(())
    }
}

/// WITH RECURSIVE: the first term, then the second over the rows of the round before until there are none.
#[derive(Debug)]
pub struct RecursiveUnion {
    pub slot: usize,
    /// UNION rather than UNION ALL: rows that were there already are dropped.
    pub distinct: bool,
    pub blank_padded: Vec<bool>,
    /// WITH queries of the second term: computed anew in each round.
    pub reset_ctes: Vec<usize>,
    /// What the two terms give.
    pub outputs: [Vec<Code>; 2],
    pub registers: Vec<usize>,
}

struct RecursiveState {
    plan: Arc<RecursiveUnion>,
    first: Box<dyn Node>,
    second: Box<dyn Node>,
    second_started: bool,
    recursing: bool,
    seen: RowIndex,
    next_round: Vec<Row>,
}

impl Operator for RecursiveUnion {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        let mut children = children.into_iter();
        let (Some(first), Some(second)) = (children.next(), children.next()) else {
            return super::append::empty();
        };
        let seen = RowIndex::new(&self.blank_padded);
        Box::new(RecursiveState {
            plan: self,
            first,
            second,
            second_started: false,
            recursing: false,
            seen,
            next_round: Vec::new(),
        })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Recursive Union".into();
    }
}

impl RecursiveState {
    /// Takes a row of a term; false if it was there already.
    fn take(&mut self, term: usize, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let row = eval_all(&self.plan.outputs[term], cx, frame)?.into_vec();
        if self.plan.distinct && !self.seen.insert(&row).1 {
            return Ok(false);
        }
        self.next_round.push(row.clone());
        frame.restore_owned(&self.plan.registers, row);
        Ok(true)
    }

    /// Makes the rows of this round the working table; false if there are none.
    fn turn(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if self.next_round.is_empty() {
            return Ok(false);
        }
        let slot = self.plan.slot;
        if frame.working_tables.len() <= slot {
            frame.working_tables.resize(slot + 1, Arc::default());
        }
        frame.working_round += 1;
        frame.working_tables[slot] = Arc::new(std::mem::take(&mut self.next_round));
        for cte in &self.plan.reset_ctes {
            frame.ctes[*cte] = CteState::default();
        }
        if self.second_started {
            self.second.rescan(cx, frame)?;
        }
        self.second_started = true;
        Ok(true)
    }
}

impl Node for RecursiveState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if !self.recursing {
            while self.first.next(cx, frame)? {
                if self.take(0, cx, frame)? {
                    return Ok(true);
                }
            }
            self.recursing = true;
            if !self.turn(cx, frame)? {
                return Ok(false);
            }
        }
        loop {
            frame.tick(cx)?;
            while self.second.next(cx, frame)? {
                frame.tick(cx)?;
                if self.take(1, cx, frame)? {
                    return Ok(true);
                }
            }
            if !self.turn(cx, frame)? {
                return Ok(false);
            }
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.recursing = false;
        self.seen.clear();
        self.next_round.clear();
        self.first.rescan(cx, frame)
    }
}

/// Keeps the rows of a subtree that depends on nothing outside, so that a rescan repeats them.
#[derive(Debug)]
pub struct Materialize {
    pub registers: Vec<usize>,
}

struct MaterializeState {
    plan: Arc<Materialize>,
    child: Box<dyn Node>,
    rows: RowStore,
    complete: bool,
    at: usize,
    /// [`Frame::working_round`] when the rows were gathered.
    round: u64,
}

impl Operator for Materialize {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(MaterializeState {
                plan: self,
                child,
                rows: RowStore::default(),
                complete: false,
                at: 0,
                round: 0,
            }),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Materialize".into();
    }
}

impl Node for MaterializeState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if self.at < self.rows.len()
            && let Some(row) = self.rows.get(self.at)?
        {
            self.at += 1;
            frame.restore_owned(&self.plan.registers, row);
            return Ok(true);
        }
        if self.complete {
            return Ok(false);
        }
        if !self.child.next(cx, frame)? {
            self.complete = true;
            self.round = frame.working_round;
            return Ok(false);
        }
        self.round = frame.working_round;
        self.rows.push(frame.save(&self.plan.registers), cx.work_mem)?;
        self.at += 1;
        Ok(true)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.at = 0;
        if self.round != frame.working_round {
            self.rows = RowStore::default();
            self.complete = false;
            self.child.rescan(cx, frame)?;
        }
        Ok(())
    }
}
