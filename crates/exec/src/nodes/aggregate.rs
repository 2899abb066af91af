//! Grouping and aggregates: one group, groups in input order, hashed groups, grouping sets.

use std::sync::Arc;

use cairn_functions::{Accumulator, Aggregate, Call};
use cairn_types::compare::compare_ordered;
use cairn_types::key::ColumnOrder;
use cairn_types::{CallInfo, Datum, Oid, Result, Row};

use super::distinct::DEPTH_MAX;
use super::simple_scans::passes;
use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::expr::{Code, eval_all};
use crate::hash::{RowIndex, hash_row, row_bytes, rows_equal};
use crate::node::{Node, Operator};
use crate::spill::{Partitions, RunFile};

/// One aggregate call.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    pub aggregate: Arc<dyn Aggregate>,
    pub args: Vec<Code>,
    /// Direct arguments, over the group's keys.
    pub direct: Vec<Code>,
    pub filter: Option<Code>,
    /// DISTINCT: equal argument lists count once.
    pub distinct: bool,
    /// ORDER BY: what to sort by, beside the arguments.
    pub order: Vec<(Code, ColumnOrder)>,
    pub blank_padded: Vec<bool>,
    pub arg_types: Box<[Oid]>,
    pub result_type: Oid,
    pub collation: Oid,
    pub variadic: bool,
}

impl AggregateSpec {
    pub fn info(&self) -> CallInfo<'_> {
        CallInfo {
            arg_types: &self.arg_types,
            result_type: self.result_type,
            collation: self.collation,
            columns: &[],
            variadic: self.variadic,
        }
    }

    pub fn start(&self) -> Running {
        let buffered = self.distinct || !self.order.is_empty();
        Running { accumulator: self.aggregate.new_state(), buffer: buffered.then(Vec::new) }
    }
}

/// One aggregate of one group.
pub struct Running {
    accumulator: Box<dyn Accumulator>,
    /// Rows of arguments and sort columns that wait to be sorted or made distinct.
    buffer: Option<Vec<Row>>,
}

impl Running {
    /// Takes the current row.
    pub fn take(&mut self, spec: &AggregateSpec, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        if let Some(filter) = &spec.filter
            && !filter.holds(cx, frame)?
        {
            return Ok(());
        }
        let args = eval_all(&spec.args, cx, frame)?;
        match &mut self.buffer {
            None => self.accumulator.accumulate(&Call { env: cx.env, info: spec.info() }, &args),
            Some(buffer) => {
                let mut row = args.into_vec();
                for (code, _) in &spec.order {
                    let value = code.eval(cx, frame)?;
                    row.push(value);
                }
                buffer.push(row);
                Ok(())
            }
        }
    }

    /// The result so far.
    pub fn finish(&mut self, spec: &AggregateSpec, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
        let call = Call { env: cx.env, info: spec.info() };
        if let Some(mut rows) = self.buffer.take() {
            let width = spec.args.len();
            if spec.order.is_empty() {
                // DISTINCT alone sorts by the arguments.
                rows.sort_by(|a, b| {
                    a.iter()
                        .zip(b)
                        .enumerate()
                        .map(|(index, (a, b))| {
                            let blank_padded = spec.blank_padded.get(index).copied().unwrap_or(false);
                            compare_ordered(a, b, ColumnOrder { blank_padded, ..ColumnOrder::ASC })
                        })
                        .find(|ordering| ordering.is_ne())
                        .unwrap_or(std::cmp::Ordering::Equal)
                });
            } else {
                rows.sort_by(|a, b| {
                    spec.order
                        .iter()
                        .enumerate()
                        .map(|(index, (_, order))| {
                            compare_ordered(&a[width + index], &b[width + index], *order)
                        })
                        .find(|ordering| ordering.is_ne())
                        .unwrap_or(std::cmp::Ordering::Equal)
                });
            }
            let mut last: Option<&[Datum]> = None;
            for row in &rows {
                frame.tick(cx)?;
                let args = &row[..width];
                if spec.distinct && last.is_some_and(|last| rows_equal(last, args, &spec.blank_padded)) {
                    continue;
                }
                self.accumulator.accumulate(&call, args)?;
                last = Some(args);
            }
        }
        let direct = eval_all(&spec.direct, cx, frame)?;
        self.accumulator.finish(&call, &direct)
    }

    pub fn heap_bytes(&self) -> usize {
        self.accumulator.heap_bytes() + 64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// No GROUP BY: one group, even without rows.
    Plain,
    /// The input comes in order of the group columns.
    Sorted,
    Hashed,
}

#[derive(Debug)]
pub struct Aggregation {
    pub strategy: Strategy,
    pub keys: Vec<Code>,
    pub blank_padded: Vec<bool>,
    /// Where each key goes.
    pub key_registers: Vec<usize>,
    /// Registers below that keep the value of the group's first row (columns that the keys determine), and where they go.
    pub carried: Vec<(usize, usize)>,
    pub aggregates: Vec<AggregateSpec>,
    pub aggregate_registers: Vec<usize>,
    /// Grouping sets as positions in `keys`; empty for a plain GROUP BY.
    pub sets: Vec<Vec<usize>>,
    /// Register for the number of the set.
    pub set_register: Option<usize>,
    /// What must be kept of an input row that is set aside.
    pub input_registers: Vec<usize>,
    /// HAVING.
    pub filter: Option<Code>,
    pub key_texts: Vec<String>,
    pub filter_text: String,
}

struct Group {
    carried: Row,
    running: Vec<Running>,
}

struct AggregationState {
    plan: Arc<Aggregation>,
    number: usize,
    child: Box<dyn Node>,
    child_done: bool,
    /// Hashed: one table for each grouping set.
    tables: Vec<(RowIndex, Vec<Group>)>,
    filled: bool,
    /// Next group to return: table and number.
    at: (usize, usize),
    /// Hashed, past `work_mem`: rows of groups that have no place in the table, parts still to be worked on (with how often
    /// their rows have been divided), and the depth of the part that is in the table.
    aside: Option<Partitions>,
    parts: Vec<(RunFile, u32)>,
    depth: u32,
    /// Sorted: the group that is being collected, and its key.
    current: Option<(Row, Group)>,
}

impl Operator for Aggregation {
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(AggregationState {
                plan: self,
                number,
                child,
                child_done: false,
                tables: Vec::new(),
                filled: false,
                at: (0, 0),
                current: None,
                aside: None,
                parts: Vec::new(),
                depth: 0,
            }),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Aggregate".into();
        let (text, strategy) = match self.strategy {
            Strategy::Plain => ("Aggregate", "Plain"),
            Strategy::Sorted => ("GroupAggregate", "Sorted"),
            Strategy::Hashed if self.sets.is_empty() => ("HashAggregate", "Hashed"),
            Strategy::Hashed => ("MixedAggregate", "Mixed"),
        };
        if self.aggregates.is_empty() && self.strategy == Strategy::Sorted {
            properties.text_type = Some("Group".into());
        } else {
            properties.text_type = Some(text.into());
        }
        properties.line("Strategy", Value::Hidden(strategy.into()));
        if !self.key_texts.is_empty() {
            properties.line("Group Key", Value::List(self.key_texts.clone()));
        }
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl Aggregation {
    fn new_group(&self, frame: &Frame) -> Group {
        Group {
            carried: self.carried.iter().map(|(from, _)| frame.registers[*from].clone()).collect(),
            running: self.aggregates.iter().map(AggregateSpec::start).collect(),
        }
    }

    fn advance(&self, group: &mut Group, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        for (running, spec) in group.running.iter_mut().zip(&self.aggregates) {
            running.take(spec, cx, frame)?;
        }
        Ok(())
    }

    /// Puts a finished group into the registers; true if HAVING accepts it.
    fn emit(
        &self,
        number: usize,
        key: &[Datum],
        group: &mut Group,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
    ) -> Result<bool> {
        frame.restore(&self.key_registers, key);
        for ((_, to), value) in self.carried.iter().zip(std::mem::take(&mut group.carried)) {
            frame.registers[*to] = value;
        }
        let mut results = Row::with_capacity(group.running.len());
        for (running, spec) in group.running.iter_mut().zip(&self.aggregates) {
            results.push(running.finish(spec, cx, frame)?);
        }
        frame.restore_owned(&self.aggregate_registers, results);
        passes(&self.filter, number, cx, frame)
    }
}

impl AggregationState {
    fn fill_tables(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let sets = plan.sets.len().max(1);
        self.tables = (0..sets).map(|_| (RowIndex::new(&plan.blank_padded), Vec::new())).collect();
        let mut memory = 0;
        while self.child.next(cx, frame)? {
            frame.tick(cx)?;
            self.take_row(&plan, &mut memory, cx, frame)?;
        }
        // The grand total is there without rows, too.
        for (set, (index, groups)) in self.tables.iter_mut().enumerate() {
            if plan.sets.get(set).is_some_and(Vec::is_empty) && groups.is_empty() {
                index.insert(&vec![Datum::Null; plan.keys.len()]);
                let mut group = plan.new_group(frame);
                group.carried = vec![Datum::Null; plan.carried.len()];
                groups.push(group);
            }
        }
        self.count_memory(frame);
        Ok(())
    }

    fn count_memory(&self, frame: &mut Frame) {
        let bytes: usize = self
            .tables
            .iter()
            .map(|(index, groups)| {
                index.bytes()
                    + groups.iter().flat_map(|group| &group.running).map(Running::heap_bytes).sum::<usize>()
            })
            .sum();
        crate::instrument::count(frame, self.number, |counters| {
            counters.memory_bytes = counters.memory_bytes.max(bytes as u64);
        });
    }

    /// Puts the current row into its groups, or aside if there is no room for a new one.
    fn take_row(
        &mut self,
        plan: &Aggregation,
        memory: &mut usize,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
    ) -> Result<()> {
        let key = eval_all(&plan.keys, cx, frame)?;
        let full = *memory > cx.work_mem.saturating_mul(2) && plan.sets.is_empty() && self.depth < DEPTH_MAX;
        for (set, (index, groups)) in self.tables.iter_mut().enumerate() {
            let number = match plan.sets.get(set) {
                None if full => match index.find(&key) {
                    Some(number) => (number, false),
                    None => {
                        let columns = plan.input_registers.len();
                        let depth = self.depth;
                        let aside = self.aside.get_or_insert_with(|| Partitions::new(depth, columns));
                        aside
                            .write(hash_row(&key, &plan.blank_padded), &frame.save(&plan.input_registers))?;
                        continue;
                    }
                },
                None => index.insert(&key),
                Some(columns) => {
                    let mut partial = vec![Datum::Null; key.len()];
                    for column in columns {
                        partial[*column].clone_from(&key[*column]);
                    }
                    index.insert(&partial)
                }
            };
            if number.1 {
                groups.push(plan.new_group(frame));
                *memory += 256 + 128 * plan.aggregates.len() + row_bytes(&key);
            }
            plan.advance(&mut groups[number.0], cx, frame)?;
        }
        Ok(())
    }

    /// Loads the next part that was set aside; false if there is none.
    fn next_part(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        if let Some(aside) = self.aside.take() {
            let depth = self.depth + 1;
            self.parts.extend(aside.finish()?.into_iter().flatten().map(|(file, _)| (file, depth)));
        }
        let Some((mut part, depth)) = self.parts.pop() else { return Ok(false) };
        self.depth = depth;
        self.tables = vec![(RowIndex::new(&plan.blank_padded), Vec::new())];
        self.at = (0, 0);
        let mut memory = 0;
        while let Some(row) = part.next()? {
            frame.tick(cx)?;
            frame.restore_owned(&plan.input_registers, row);
            self.take_row(&plan, &mut memory, cx, frame)?;
        }
        Ok(true)
    }

    fn next_hashed(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        if !self.filled {
            self.filled = true;
            self.fill_tables(cx, frame)?;
        }
        loop {
            while let Some((index, groups)) = self.tables.get_mut(self.at.0) {
                frame.tick(cx)?;
                let Some(group) = groups.get_mut(self.at.1) else {
                    self.at = (self.at.0 + 1, 0);
                    continue;
                };
                let number = self.at.1;
                self.at.1 += 1;
                if let Some(register) = plan.set_register {
                    frame.registers[register] = Datum::Int4(self.at.0 as i32);
                }
                if plan.emit(self.number, &index.rows()[number], group, cx, frame)? {
                    return Ok(true);
                }
            }
            if !self.next_part(cx, frame)? {
                return Ok(false);
            }
        }
    }

    /// `count(*)` of rows that can be counted without being made; `false` if that is not what is asked for.
    fn count_rows(&mut self, group: &mut Group, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let specs = &self.plan.aggregates;
        let counts = |(running, spec): (&mut Running, &AggregateSpec)| {
            spec.filter.is_none() && running.buffer.is_none() && running.accumulator.accumulate_rows(0)
        };
        if specs.is_empty() || !group.running.iter_mut().zip(specs).all(counts) {
            return Ok(false);
        }
        let Some(rows) = self.child.count_rows(cx, frame)? else { return Ok(false) };
        for running in &mut group.running {
            running.accumulator.accumulate_rows(rows);
        }
        Ok(true)
    }

    fn next_plain(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if self.child_done {
            return Ok(false);
        }
        self.child_done = true;
        let plan = Arc::clone(&self.plan);
        let mut group = plan.new_group(frame);
        if !self.count_rows(&mut group, cx, frame)? {
            while self.child.next(cx, frame)? {
                frame.tick(cx)?;
                plan.advance(&mut group, cx, frame)?;
            }
        }
        plan.emit(self.number, &[], &mut group, cx, frame)
    }

    fn next_sorted(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        loop {
            let mut finished = None;
            while !self.child_done {
                if !self.child.next(cx, frame)? {
                    self.child_done = true;
                    break;
                }
                frame.tick(cx)?;
                let key = eval_all(&plan.keys, cx, frame)?;
                match &mut self.current {
                    Some((current, group)) if rows_equal(current, &key, &plan.blank_padded) => {
                        plan.advance(group, cx, frame)?;
                    }
                    current => {
                        let mut group = plan.new_group(frame);
                        plan.advance(&mut group, cx, frame)?;
                        finished = current.replace((key.into_vec(), group));
                        if finished.is_some() {
                            break;
                        }
                    }
                }
            }
            let Some((key, mut group)) = finished.or_else(|| self.current.take()) else { return Ok(false) };
            // The child's registers are not needed any more: its next row overwrites them anyway.
            if plan.emit(self.number, &key, &mut group, cx, frame)? {
                return Ok(true);
            }
        }
    }
}

impl Node for AggregationState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        match self.plan.strategy {
            Strategy::Plain => self.next_plain(cx, frame),
            Strategy::Sorted => self.next_sorted(cx, frame),
            Strategy::Hashed => self.next_hashed(cx, frame),
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.child_done = false;
        self.filled = false;
        self.tables.clear();
        self.at = (0, 0);
        self.current = None;
        self.aside = None;
        self.parts.clear();
        self.depth = 0;
        self.child.rescan(cx, frame)
    }
}
