//! DISTINCT, UNION, INTERSECT and EXCEPT: rows compared with nulls equal to nulls.

use std::sync::Arc;

use cairn_types::{Datum, Result, Row};

use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::hash::{RowIndex, rows_equal};
use crate::node::{Node, Operator};

/// The first of each group of rows that agree in some columns. `sorted`: equal rows come together (DISTINCT ON, or an input
/// in order); otherwise by hashing, in order of first appearance.
#[derive(Debug)]
pub struct Distinct {
    pub registers: Vec<usize>,
    pub blank_padded: Vec<bool>,
    pub sorted: bool,
    pub key_texts: Vec<String>,
}

struct DistinctState {
    plan: Arc<Distinct>,
    child: Box<dyn Node>,
    seen: RowIndex,
    last: Option<Row>,
}

impl Operator for Distinct {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => {
                let seen = RowIndex::new(&self.blank_padded);
                Box::new(DistinctState { plan: self, child, seen, last: None })
            }
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        if self.sorted {
            properties.node_type = "Unique".into();
        } else {
            properties.node_type = "HashAggregate".into();
            properties.line("Strategy", Value::Hidden("Hashed".into()));
            if !self.key_texts.is_empty() {
                properties.line("Group Key", Value::List(self.key_texts.clone()));
            }
        }
    }
}

impl Node for DistinctState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        while self.child.next(cx, frame)? {
            frame.tick(cx)?;
            let row = frame.save(&plan.registers);
            if plan.sorted {
                if self.last.as_ref().is_some_and(|last| rows_equal(last, &row, &plan.blank_padded)) {
                    continue;
                }
                self.last = Some(row);
                return Ok(true);
            }
            if self.seen.insert(&row).1 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.seen.clear();
        self.last = None;
        self.child.rescan(cx, frame)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    Intersect,
    IntersectAll,
    Except,
    ExceptAll,
}

/// INTERSECT and EXCEPT over an [`Append`](super::append::Append) whose flag register tells the side.
#[derive(Debug)]
pub struct SetOperation {
    pub kind: SetKind,
    pub registers: Vec<usize>,
    pub blank_padded: Vec<bool>,
    pub flag: usize,
}

struct SetState {
    plan: Arc<SetOperation>,
    child: Box<dyn Node>,
    rows: RowIndex,
    /// How often each row came from the left and from the right.
    counts: Vec<[u64; 2]>,
    at: usize,
    /// Copies of row `at` that are still to be returned.
    copies: u64,
    filled: bool,
}

impl Operator for SetOperation {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => {
                let rows = RowIndex::new(&self.blank_padded);
                Box::new(SetState {
                    plan: self,
                    child,
                    rows,
                    counts: Vec::new(),
                    at: 0,
                    copies: 0,
                    filled: false,
                })
            }
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "SetOp".into();
        properties.text_type = Some("HashSetOp".into());
        properties.target = format!(
            " {}",
            match self.kind {
                SetKind::Intersect => "Intersect",
                SetKind::IntersectAll => "Intersect All",
                SetKind::Except => "Except",
                SetKind::ExceptAll => "Except All",
            }
        );
    }
}

impl Node for SetState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        if !self.filled {
            self.filled = true;
            while self.child.next(cx, frame)? {
                frame.tick(cx)?;
                let (number, new) = self.rows.insert(&frame.save(&plan.registers));
                if new {
                    self.counts.push([0, 0]);
                }
                let side = usize::from(!matches!(frame.registers[plan.flag], Datum::Int4(0)));
                self.counts[number][side] += 1;
            }
        }
        loop {
            if self.copies > 0 {
                self.copies -= 1;
                frame.restore(&plan.registers, &self.rows.rows()[self.at - 1]);
                return Ok(true);
            }
            let Some([left, right]) = self.counts.get(self.at).copied() else { return Ok(false) };
            self.at += 1;
            self.copies = match plan.kind {
                SetKind::Intersect => u64::from(left > 0 && right > 0),
                SetKind::IntersectAll => left.min(right),
                SetKind::Except => u64::from(left > 0 && right == 0),
                SetKind::ExceptAll => left.saturating_sub(right),
            };
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.rows.clear();
        self.counts.clear();
        self.at = 0;
        self.copies = 0;
        self.filled = false;
        self.child.rescan(cx, frame)
    }
}
