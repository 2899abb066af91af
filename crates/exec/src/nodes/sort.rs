//! Sorting: all rows, or only the first n where a LIMIT says so; past `work_mem` in runs on disk that are merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use cairn_types::compare::compare_ordered;
use cairn_types::key::ColumnOrder;
use cairn_types::{Datum, Result, Row};

use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::expr::Code;
use crate::hash::row_bytes;
use crate::instrument::count;
use crate::node::{Node, Operator};
use crate::spill::{RunFile, RunWriter};

#[derive(Debug)]
pub struct Sort {
    /// Positions of the sort columns in `registers`.
    pub keys: Vec<(usize, ColumnOrder)>,
    /// What is kept of each input row.
    pub registers: Vec<usize>,
    /// Only so many first rows will be asked for: limit and offset.
    pub bound: Option<(Code, Option<Code>)>,
    pub key_texts: Vec<String>,
}

struct Item {
    row: Row,
    /// Keeps the order of equal rows.
    sequence: u64,
    plan: Arc<Sort>,
    /// Run that it comes from, while merging.
    run: usize,
}

impl Item {
    fn order(&self, other: &Item) -> Ordering {
        compare_rows(&self.plan, &self.row, &other.row).then(self.sequence.cmp(&other.sequence))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

fn compare_rows(plan: &Sort, a: &[Datum], b: &[Datum]) -> Ordering {
    for (column, order) in &plan.keys {
        let ordering = compare_ordered(&a[*column], &b[*column], *order);
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

enum Output {
    Unsorted,
    Memory(std::vec::IntoIter<Row>),
    /// Heads of the runs, smallest on top.
    Merge(BinaryHeap<std::cmp::Reverse<Item>>, Vec<RunFile>),
}

struct SortState {
    plan: Arc<Sort>,
    number: usize,
    child: Box<dyn Node>,
    output: Output,
    child_started: bool,
}

impl Operator for Sort {
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(SortState {
                plan: self,
                number,
                child,
                output: Output::Unsorted,
                child_started: false,
            }),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Sort".into();
        if !self.key_texts.is_empty() {
            properties.line("Sort Key", Value::List(self.key_texts.clone()));
        }
        properties.sort_method = Some(if self.bound.is_some() { "top-N heapsort" } else { "quicksort" });
    }
}

impl SortState {
    fn fill(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        if self.child_started {
            self.child.rescan(cx, frame)?;
        }
        self.child_started = true;
        let bound = match &plan.bound {
            Some((limit, offset)) => super::limit::bound(limit, offset.as_ref(), cx, frame)?,
            None => None,
        };
        if let Some(bound) = bound
            && bound <= 100_000
        {
            return self.fill_top(bound as usize, cx, frame);
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut bytes = 0;
        let mut runs = Vec::new();
        let mut disk = 0;
        while self.child.next(cx, frame)? {
            frame.tick(cx)?;
            let row = frame.save(&plan.registers);
            bytes += row_bytes(&row);
            rows.push(row);
            if bytes > cx.work_mem {
                rows.sort_by(|a, b| compare_rows(&plan, a, b));
                let mut writer = RunWriter::new()?;
                for row in rows.drain(..) {
                    writer.write(&row)?;
                }
                let (run, size) = writer.finish(plan.registers.len())?;
                disk += size;
                runs.push(run);
                bytes = 0;
            }
        }
        rows.sort_by(|a, b| compare_rows(&plan, a, b));
        count(frame, self.number, |counters| {
            counters.memory_bytes = counters.memory_bytes.max(bytes as u64);
            counters.disk_bytes = counters.disk_bytes.max(disk);
        });
        if runs.is_empty() {
            self.output = Output::Memory(rows.into_iter());
            return Ok(());
        }
        let mut writer = RunWriter::new()?;
        for row in rows {
            writer.write(&row)?;
        }
        runs.push(writer.finish(plan.registers.len())?.0);
        let mut heap = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            if let Some(row) = run.next()? {
                // Equal rows come from the earlier run first.
                heap.push(std::cmp::Reverse(Item {
                    row,
                    sequence: index as u64,
                    plan: Arc::clone(&plan),
                    run: index,
                }));
            }
        }
        self.output = Output::Merge(heap, runs);
        Ok(())
    }

    /// Keeps the first `bound` rows in a heap whose top is the last of them.
    fn fill_top(&mut self, bound: usize, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let mut heap: BinaryHeap<Item> = BinaryHeap::with_capacity(bound.min(1024) + 1);
        let mut sequence = 0;
        while bound > 0 && self.child.next(cx, frame)? {
            frame.tick(cx)?;
            sequence += 1;
            if heap.len() >= bound
                && let Some(last) = heap.peek()
            {
                let behind = plan
                    .keys
                    .iter()
                    .map(|(column, order)| {
                        compare_ordered(&frame.registers[plan.registers[*column]], &last.row[*column], *order)
                    })
                    .find(|ordering| ordering.is_ne())
                    .unwrap_or(Ordering::Greater);
                if behind.is_gt() {
                    continue;
                }
                heap.pop();
            }
            heap.push(Item { row: frame.save(&plan.registers), sequence, plan: Arc::clone(&plan), run: 0 });
        }
        let bytes: usize = heap.iter().map(|item| row_bytes(&item.row)).sum();
        count(frame, self.number, |counters| counters.memory_bytes = counters.memory_bytes.max(bytes as u64));
        let rows: Vec<Row> = heap.into_sorted_vec().into_iter().map(|item| item.row).collect();
        self.output = Output::Memory(rows.into_iter());
        Ok(())
    }
}

impl Node for SortState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if matches!(self.output, Output::Unsorted) {
            self.fill(cx, frame)?;
        }
        let row = match &mut self.output {
            Output::Unsorted => None,
            Output::Memory(rows) => rows.next(),
            Output::Merge(heap, runs) => match heap.pop() {
                None => None,
                Some(std::cmp::Reverse(mut head)) => {
                    let run = head.run;
                    match runs[run].next()? {
                        Some(next) => {
                            let row = std::mem::replace(&mut head.row, next);
                            heap.push(std::cmp::Reverse(head));
                            Some(row)
                        }
                        None => Some(head.row),
                    }
                }
            },
        };
        match row {
            Some(row) => {
                frame.restore_owned(&self.plan.registers, row);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.output = Output::Unsorted;
        Ok(())
    }
}
