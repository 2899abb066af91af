//! DISTINCT, UNION, INTERSECT and EXCEPT: rows compared with nulls equal to nulls.

use std::sync::Arc;

use cairn_types::{Datum, Result, Row};

use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::hash::{RowIndex, hash_row, rows_equal};
use crate::node::{Node, Operator};
use crate::spill::{Partitions, RunFile};

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
    /// Rows that may be new, once the table is full.
    aside: Option<Partitions>,
    /// Parts still to be worked on, and how often their rows have been divided.
    parts: Vec<(RunFile, u32)>,
    part: Option<(RunFile, u32)>,
    input_done: bool,
}

impl Operator for Distinct {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => {
                let seen = RowIndex::new(&self.blank_padded);
                Box::new(DistinctState {
                    plan: self,
                    child,
                    seen,
                    last: None,
                    aside: None,
                    parts: Vec::new(),
                    part: None,
                    input_done: false,
                })
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

impl DistinctState {
    /// The next row of the input, or of the part that is being worked on.
    fn pull(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Option<Row>> {
        if !self.input_done {
            if self.child.next(cx, frame)? {
                return Ok(Some(frame.save(&self.plan.registers)));
            }
            self.input_done = true;
            self.turn(0)?;
        }
        loop {
            let Some((part, depth)) = &mut self.part else { return Ok(None) };
            if let Some(row) = part.next()? {
                return Ok(Some(row));
            }
            let depth = *depth;
            self.part = None;
            self.turn(depth)?;
        }
    }

    /// Ends a round: what was set aside becomes parts, and the next part is begun with an empty table.
    fn turn(&mut self, depth: u32) -> Result<()> {
        if let Some(aside) = self.aside.take() {
            self.parts.extend(aside.finish()?.into_iter().flatten().map(|(file, _)| (file, depth + 1)));
        }
        self.part = self.parts.pop();
        self.seen.clear();
        Ok(())
    }
}

impl Node for DistinctState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        if plan.sorted {
            while self.child.next(cx, frame)? {
                frame.tick(cx)?;
                let row = frame.save(&plan.registers);
                if self.last.as_ref().is_some_and(|last| rows_equal(last, &row, &plan.blank_padded)) {
                    continue;
                }
                self.last = Some(row);
                return Ok(true);
            }
            return Ok(false);
        }
        while let Some(row) = self.pull(cx, frame)? {
            frame.tick(cx)?;
            let depth = self.part.as_ref().map_or(0, |(_, depth)| *depth);
            if self.seen.bytes() > cx.work_mem && depth < DEPTH_MAX {
                if self.seen.find(&row).is_none() {
                    let aside =
                        self.aside.get_or_insert_with(|| Partitions::new(depth, plan.registers.len()));
                    aside.write(hash_row(&row, &plan.blank_padded), &row)?;
                }
            } else if self.seen.insert(&row).1 {
                frame.restore_owned(&plan.registers, row);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.seen.clear();
        self.last = None;
        self.aside = None;
        self.parts.clear();
        self.part = None;
        self.input_done = false;
        self.child.rescan(cx, frame)
    }
}

/// Rows that agree in so many hash bits are equal, as good as always: dividing them further is of no use.
pub(crate) const DEPTH_MAX: u32 = 8;

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
            frame.tick(cx)?;
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
