//! Joins: nested loop (the inner side reads the outer row in its registers: index lookups, LATERAL) and hash join.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_types::{Datum, Result, Row};

use super::simple_scans::passes;
use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::expr::{Code, eval_all};
use crate::hash::{Identity, hash_row, row_bytes, rows_equal};
use crate::instrument::count;
use crate::node::{Node, Operator};
use crate::spill::{Partitions, RunFile};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinType {
    Inner,
    /// Outer (probe) rows without partner are kept.
    Left,
    /// Inner (build) rows without partner are kept; hash join only.
    Right,
    Full,
    /// Outer rows with a partner, once.
    Semi,
    /// Outer rows without a partner.
    Anti,
}

impl JoinType {
    fn name(self) -> &'static str {
        match self {
            JoinType::Inner => "Inner",
            JoinType::Left => "Left",
            JoinType::Right => "Right",
            JoinType::Full => "Full",
            JoinType::Semi => "Semi",
            JoinType::Anti => "Anti",
        }
    }

    fn explain(self, base: &str, properties: &mut Properties) {
        let words = match self {
            JoinType::Inner => String::new(),
            other => format!(" {} Join", other.name()),
        };
        properties.node_type = base.to_owned();
        properties.target = match (base, self) {
            ("Hash Join", JoinType::Inner) => String::new(),
            _ => words,
        };
        // "Hash Left Join", but "Nested Loop Left Join".
        if base == "Hash Join" && self != JoinType::Inner {
            properties.text_type = Some(format!("Hash {} Join", self.name()));
            properties.target = String::new();
        }
        properties.line("Join Type", Value::Hidden(self.name().to_owned()));
    }
}

#[derive(Debug)]
pub struct NestedLoop {
    pub kind: JoinType,
    /// Decides whether two rows are partners.
    pub condition: Option<Code>,
    /// Applied to joined rows, null-extended ones too.
    pub filter: Option<Code>,
    /// Registers of the inner side, nulled for an outer row without partner.
    pub inner_registers: Vec<usize>,
    /// At most one inner row matches an outer one.
    pub inner_unique: bool,
    pub condition_text: String,
    pub filter_text: String,
}

struct NestedLoopState {
    plan: Arc<NestedLoop>,
    number: usize,
    outer: Box<dyn Node>,
    inner: Box<dyn Node>,
    have_outer: bool,
    matched: bool,
    inner_started: bool,
}

impl Operator for NestedLoop {
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        let mut children = children.into_iter();
        let (Some(outer), Some(inner)) = (children.next(), children.next()) else {
            return super::append::empty();
        };
        Box::new(NestedLoopState {
            plan: self,
            number,
            outer,
            inner,
            have_outer: false,
            matched: false,
            inner_started: false,
        })
    }

    fn explain(&self, properties: &mut Properties) {
        self.kind.explain("Nested Loop", properties);
        properties.condition("Join Filter", &self.condition_text);
        properties.join_filtered = !self.condition_text.is_empty();
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl Node for NestedLoopState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        loop {
            // The inner side may be in memory, and the condition may reject all of it.
            frame.tick(cx)?;
            if !self.have_outer {
                if !self.outer.next(cx, frame)? {
                    return Ok(false);
                }
                self.have_outer = true;
                self.matched = false;
                if self.inner_started {
                    self.inner.rescan(cx, frame)?;
                }
                self.inner_started = true;
            }
            if self.inner.next(cx, frame)? {
                if let Some(condition) = &plan.condition
                    && !condition.holds(cx, frame)?
                {
                    count(frame, self.number, |counters| counters.removed_by_join_filter += 1);
                    continue;
                }
                self.matched = true;
                match plan.kind {
                    JoinType::Anti => {
                        self.have_outer = false;
                        continue;
                    }
                    JoinType::Semi => self.have_outer = false,
                    _ if plan.inner_unique => self.have_outer = false,
                    _ => {}
                }
                if passes(&plan.filter, self.number, cx, frame)? {
                    return Ok(true);
                }
                continue;
            }
            self.have_outer = false;
            if !self.matched && matches!(plan.kind, JoinType::Left | JoinType::Anti) {
                frame.clear(&plan.inner_registers);
                if passes(&plan.filter, self.number, cx, frame)? {
                    return Ok(true);
                }
            }
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.have_outer = false;
        self.outer.rescan(cx, frame)
    }
}

#[derive(Debug)]
pub struct HashJoin {
    pub kind: JoinType,
    /// Keys of the outer (probe) and the inner (build) side, pairwise equal.
    pub outer_keys: Vec<Code>,
    pub inner_keys: Vec<Code>,
    pub blank_padded: Vec<bool>,
    /// Further condition on partners.
    pub condition: Option<Code>,
    pub filter: Option<Code>,
    pub outer_registers: Vec<usize>,
    pub inner_registers: Vec<usize>,
    /// The inner side depends on nothing outside: its table outlives a rescan.
    pub keep_table: bool,
    pub hash_text: String,
    pub condition_text: String,
    pub filter_text: String,
}

#[derive(Default)]
struct Table {
    map: HashMap<u64, Vec<u32>, Identity>,
    keys: Vec<Row>,
    rows: Vec<Row>,
    matched: Vec<bool>,
    bytes: usize,
}

enum Phase {
    Build,
    Probe,
    /// Unmatched inner rows, from this one on.
    Rest(usize),
    Done,
}

struct HashJoinState {
    plan: Arc<HashJoin>,
    /// [`Frame::working_round`] when the table was built.
    round: u64,
    number: usize,
    outer: Box<dyn Node>,
    inner: Box<dyn Node>,
    inner_started: bool,
    table: Table,
    phase: Phase,
    have_outer: bool,
    matched: bool,
    /// Candidates of the current outer row that are still to be tried, and its key.
    candidates: Vec<u32>,
    key: Row,
    /// Past `work_mem` both sides are divided by the hash of their keys: the parts still to be joined (inner, outer), and
    /// the outer rows of the part whose inner rows are in the table.
    parts: Vec<(Option<RunFile>, Option<RunFile>)>,
    outer_part: Option<RunFile>,
    divided: bool,
}

impl Operator for HashJoin {
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        let mut children = children.into_iter();
        let (Some(outer), Some(inner)) = (children.next(), children.next()) else {
            return super::append::empty();
        };
        Box::new(HashJoinState {
            plan: self,
            round: 0,
            number,
            outer,
            inner,
            inner_started: false,
            table: Table::default(),
            phase: Phase::Build,
            have_outer: false,
            matched: false,
            candidates: Vec::new(),
            key: Row::new(),
            parts: Vec::new(),
            outer_part: None,
            divided: false,
        })
    }

    fn explain(&self, properties: &mut Properties) {
        self.kind.explain("Hash Join", properties);
        properties.condition("Hash Cond", &self.hash_text);
        properties.condition("Join Filter", &self.condition_text);
        properties.join_filtered = !self.condition_text.is_empty();
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl HashJoinState {
    fn build(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        self.round = frame.working_round;
        if self.inner_started {
            self.inner.rescan(cx, frame)?;
        }
        self.inner_started = true;
        self.table = Table::default();
        self.parts.clear();
        self.outer_part = None;
        self.divided = false;
        let keep_nulls = matches!(plan.kind, JoinType::Right | JoinType::Full);
        let mut aside: Option<Partitions> = None;
        while self.inner.next(cx, frame)? {
            frame.tick(cx)?;
            let key = eval_all(&plan.inner_keys, cx, frame)?.into_vec();
            if !keep_nulls && key.iter().any(Datum::is_null) {
                continue;
            }
            let row = frame.save(&plan.inner_registers);
            match &mut aside {
                Some(aside) => write_aside(aside, &plan, key, row)?,
                None => {
                    self.table.add(&plan, key, row);
                    if self.table.bytes > cx.work_mem.saturating_mul(2) {
                        let mut parts =
                            Partitions::new(0, plan.inner_keys.len() + plan.inner_registers.len());
                        let table = std::mem::take(&mut self.table);
                        for (key, row) in table.keys.into_iter().zip(table.rows) {
                            write_aside(&mut parts, &plan, key, row)?;
                        }
                        aside = Some(parts);
                    }
                }
            }
        }
        let bytes = self.table.bytes as u64;
        count(frame, self.number, |counters| counters.memory_bytes = counters.memory_bytes.max(bytes));
        match aside {
            Some(inner) => self.divide_outer(inner, cx, frame),
            None => Ok(()),
        }
    }

    /// Divides the outer side like the inner one.
    fn divide_outer(&mut self, inner: Partitions, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        self.divided = true;
        let mut outer = Partitions::new(0, plan.outer_keys.len() + plan.outer_registers.len());
        while self.outer.next(cx, frame)? {
            frame.tick(cx)?;
            let key = eval_all(&plan.outer_keys, cx, frame)?.into_vec();
            write_aside(&mut outer, &plan, key, frame.save(&plan.outer_registers))?;
        }
        let (inner, outer) = (inner.finish()?, outer.finish()?);
        self.parts = inner
            .into_iter()
            .zip(outer)
            .map(|(inner, outer)| (inner.map(|(file, _)| file), outer.map(|(file, _)| file)))
            .collect();
        self.next_part(cx, frame)?;
        Ok(())
    }

    /// Loads the inner rows of the next part; false if there is none.
    fn next_part(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let Some((inner, outer)) = self.parts.pop() else { return Ok(false) };
        self.table = Table::default();
        if let Some(mut inner) = inner {
            while let Some(mut key) = inner.next()? {
                frame.tick(cx)?;
                let row = key.split_off(plan.inner_keys.len());
                self.table.add(&plan, key, row);
            }
        }
        self.table.matched = vec![false; self.table.rows.len()];
        self.outer_part = outer;
        self.have_outer = false;
        Ok(true)
    }

    /// The next outer row with its key; false at the end of the input or of the part.
    fn next_outer(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        if self.divided {
            let Some(part) = &mut self.outer_part else { return Ok(false) };
            let Some(mut key) = part.next()? else { return Ok(false) };
            let row = key.split_off(plan.outer_keys.len());
            frame.restore_owned(&plan.outer_registers, row);
            self.key = key;
            return Ok(true);
        }
        if !self.outer.next(cx, frame)? {
            return Ok(false);
        }
        self.key.clear();
        for code in &plan.outer_keys {
            let value = code.eval(cx, frame)?;
            self.key.push(value);
        }
        Ok(true)
    }
}

impl Table {
    fn add(&mut self, plan: &HashJoin, key: Row, row: Row) {
        self.bytes += row_bytes(&row) + row_bytes(&key) + 48;
        // A null matches nothing, but a right or full join still returns its row.
        if !key.iter().any(Datum::is_null) {
            let position = self.rows.len() as u32;
            self.map.entry(hash_row(&key, &plan.blank_padded)).or_default().push(position);
        }
        self.keys.push(key);
        self.rows.push(row);
    }
}

fn write_aside(aside: &mut Partitions, plan: &HashJoin, mut key: Row, row: Row) -> Result<()> {
    let hash = hash_row(&key, &plan.blank_padded);
    key.extend(row);
    aside.write(hash, &key)
}

impl Node for HashJoinState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        if matches!(self.phase, Phase::Build) {
            self.build(cx, frame)?;
            self.table.matched = vec![false; self.table.rows.len()];
            self.phase = Phase::Probe;
            self.have_outer = false;
            // Nothing can match: the outer side need not be read.
            if !self.divided
                && self.table.rows.is_empty()
                && matches!(plan.kind, JoinType::Inner | JoinType::Semi | JoinType::Right)
            {
                self.phase = Phase::Done;
            }
        }
        loop {
            if self.join_table(cx, frame)? {
                return Ok(true);
            }
            if !self.next_part(cx, frame)? {
                return Ok(false);
            }
            self.phase = Phase::Probe;
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let kept = self.plan.keep_table && self.round == frame.working_round;
        if kept && !matches!(self.phase, Phase::Build) && !self.divided {
            self.table.matched = vec![false; self.table.rows.len()];
            self.phase = Phase::Probe;
        } else {
            self.phase = Phase::Build;
        }
        self.have_outer = false;
        self.outer.rescan(cx, frame)
    }
}

impl HashJoinState {
    /// The next joined row of what is in the table.
    fn join_table(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        while matches!(self.phase, Phase::Probe) {
            frame.tick(cx)?;
            if !self.have_outer {
                if !self.next_outer(cx, frame)? {
                    let rest = matches!(plan.kind, JoinType::Right | JoinType::Full);
                    self.phase = if rest { Phase::Rest(0) } else { Phase::Done };
                    break;
                }
                self.have_outer = true;
                self.matched = false;
                self.candidates.clear();
                if !self.key.iter().any(Datum::is_null)
                    && let Some(found) = self.table.map.get(&hash_row(&self.key, &plan.blank_padded))
                {
                    self.candidates.extend(found.iter().rev());
                }
            }
            if let Some(candidate) = self.candidates.pop() {
                let candidate = candidate as usize;
                if !rows_equal(&self.table.keys[candidate], &self.key, &plan.blank_padded) {
                    continue;
                }
                frame.restore(&plan.inner_registers, &self.table.rows[candidate]);
                if let Some(condition) = &plan.condition
                    && !condition.holds(cx, frame)?
                {
                    count(frame, self.number, |counters| counters.removed_by_join_filter += 1);
                    continue;
                }
                self.matched = true;
                self.table.matched[candidate] = true;
                match plan.kind {
                    JoinType::Anti => {
                        self.have_outer = false;
                        continue;
                    }
                    JoinType::Semi => self.have_outer = false,
                    _ => {}
                }
                if passes(&plan.filter, self.number, cx, frame)? {
                    return Ok(true);
                }
                continue;
            }
            self.have_outer = false;
            if !self.matched && matches!(plan.kind, JoinType::Left | JoinType::Full | JoinType::Anti) {
                frame.clear(&plan.inner_registers);
                if passes(&plan.filter, self.number, cx, frame)? {
                    return Ok(true);
                }
            }
        }
        while let Phase::Rest(at) = self.phase {
            frame.tick(cx)?;
            let Some(row) = self.table.rows.get(at) else {
                self.phase = Phase::Done;
                break;
            };
            self.phase = Phase::Rest(at + 1);
            if self.table.matched[at] {
                continue;
            }
            frame.clear(&plan.outer_registers);
            frame.restore(&plan.inner_registers, row);
            if passes(&plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The `Hash` node that PostgreSQL shows between a hash join and its inner side; passes rows through.
#[derive(Debug)]
pub struct HashNode;

struct PassThrough(Box<dyn Node>);

impl Operator for HashNode {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(PassThrough(child)),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Hash".into();
    }
}

impl Node for PassThrough {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        self.0.next(cx, frame)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.0.rescan(cx, frame)
    }
}
