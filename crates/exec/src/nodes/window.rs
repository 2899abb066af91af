//! Window functions: the input comes sorted by partition and order columns; a partition is read whole, then each of its
//! rows gets its values.

use std::sync::Arc;

use cairn_analyze::query::{FrameExclusion, FrameMode};
use cairn_types::key::ColumnOrder;
use cairn_types::{Datum, Error, Result, Row, bail};

use super::aggregate::{AggregateSpec, Running};
use crate::context::{ExecContext, Frame};
use crate::explain::Properties;
use crate::expr::{Code, Function};
use crate::hash::rows_equal;
use crate::node::{Node, Operator};

/// A built-in window function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

impl WindowFunction {
    /// By pg_proc.prosrc.
    pub fn from_source(source: &str) -> Option<Self> {
        Some(match source {
            "window_row_number" => WindowFunction::RowNumber,
            "window_rank" => WindowFunction::Rank,
            "window_dense_rank" => WindowFunction::DenseRank,
            "window_percent_rank" => WindowFunction::PercentRank,
            "window_cume_dist" => WindowFunction::CumeDist,
            "window_ntile" => WindowFunction::Ntile,
            "window_lag" | "window_lag_with_offset" | "window_lag_with_offset_and_default" => {
                WindowFunction::Lag
            }
            "window_lead" | "window_lead_with_offset" | "window_lead_with_offset_and_default" => {
                WindowFunction::Lead
            }
            "window_first_value" => WindowFunction::FirstValue,
            "window_last_value" => WindowFunction::LastValue,
            "window_nth_value" => WindowFunction::NthValue,
            _ => return None,
        })
    }
}

#[derive(Debug)]
pub enum WindowKind {
    Function { function: WindowFunction, args: Vec<Code> },
    Aggregate(AggregateSpec),
}

#[derive(Debug)]
pub struct WindowSpec {
    pub kind: WindowKind,
    pub register: usize,
}

/// One end of a frame. Offsets do not depend on the row.
#[derive(Debug)]
pub enum Edge {
    Unbounded,
    CurrentRow,
    Preceding(Code),
    Following(Code),
}

#[derive(Debug)]
pub struct WindowAggregation {
    pub registers: Vec<usize>,
    pub partition: Vec<Code>,
    pub partition_padded: Vec<bool>,
    pub order: Vec<Code>,
    pub orders: Vec<ColumnOrder>,
    pub mode: FrameMode,
    pub start: Edge,
    pub end: Edge,
    pub exclusion: FrameExclusion,
    /// RANGE with offsets: the in_range support function of either end.
    pub start_in_range: Option<Box<Function>>,
    pub end_in_range: Option<Box<Function>>,
    pub specs: Vec<WindowSpec>,
}

struct WindowState {
    plan: Arc<WindowAggregation>,
    child: Box<dyn Node>,
    child_done: bool,
    /// First row of the next partition.
    pending: Option<(Row, Row)>,
    rows: Vec<Row>,
    /// Order columns of each row.
    keys: Vec<Row>,
    /// Number of the peer group of each row, and where each begins.
    groups: Vec<usize>,
    group_starts: Vec<usize>,
    at: usize,
    start_offset: Datum,
    end_offset: Datum,
    offsets_known: bool,
    /// Aggregates whose frame only grows: state, rows taken, value for the current extent.
    growing: Vec<Option<(Running, usize, Datum)>>,
}

impl Operator for WindowAggregation {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(WindowState {
                plan: self,
                child,
                child_done: false,
                pending: None,
                rows: Vec::new(),
                keys: Vec::new(),
                groups: Vec::new(),
                group_starts: Vec::new(),
                at: 0,
                start_offset: Datum::Null,
                end_offset: Datum::Null,
                offsets_known: false,
                growing: Vec::new(),
            }),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "WindowAgg".into();
    }
}

fn padded(orders: &[ColumnOrder]) -> Vec<bool> {
    orders.iter().map(|order| order.blank_padded).collect()
}

impl WindowState {
    fn offsets(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        if self.offsets_known {
            return Ok(());
        }
        self.offsets_known = true;
        let plan = Arc::clone(&self.plan);
        for (edge, name, slot) in
            [(&plan.start, "starting", &mut self.start_offset), (&plan.end, "ending", &mut self.end_offset)]
        {
            let (Edge::Preceding(code) | Edge::Following(code)) = edge else { continue };
            *slot = code.eval(cx, frame)?;
            if slot.is_null() {
                bail!(NULL_VALUE_NOT_ALLOWED, "frame {name} offset must not be null");
            }
            if plan.mode != FrameMode::Range && matches!(slot, Datum::Int8(value) if *value < 0) {
                bail!(INVALID_PRECEDING_OR_FOLLOWING_SIZE, "frame {name} offset must not be negative");
            }
        }
        Ok(())
    }

    /// Reads the next partition; false if there is none.
    fn read_partition(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        self.rows.clear();
        self.keys.clear();
        self.groups.clear();
        self.group_starts.clear();
        self.at = 0;
        self.growing = plan.specs.iter().map(|_| None).collect();
        let mut partition = None;
        if let Some((row, key)) = self.pending.take() {
            frame.restore(&plan.registers, &row);
            self.add(row, cx, frame)?;
            partition = Some(key);
        }
        while !self.child_done {
            if !self.child.next(cx, frame)? {
                self.child_done = true;
                break;
            }
            frame.tick(cx)?;
            let key = crate::expr::eval_all(&plan.partition, cx, frame)?.into_vec();
            let row = frame.save(&plan.registers);
            match &partition {
                None => partition = Some(key),
                Some(current) if rows_equal(current, &key, &plan.partition_padded) => {}
                Some(_) => {
                    self.pending = Some((row, key));
                    break;
                }
            }
            self.add(row, cx, frame)?;
        }
        if self.rows.is_empty() {
            return Ok(false);
        }
        let padded = padded(&plan.orders);
        for index in 0..self.rows.len() {
            let new = index == 0 || !rows_equal(&self.keys[index - 1], &self.keys[index], &padded);
            if new {
                self.group_starts.push(index);
            }
            self.groups.push(self.group_starts.len() - 1);
        }
        Ok(true)
    }

    fn add(&mut self, row: Row, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        let key = crate::expr::eval_all(&self.plan.order, cx, frame)?.into_vec();
        self.keys.push(key);
        self.rows.push(row);
        Ok(())
    }

    fn group_end(&self, group: usize) -> usize {
        self.group_starts.get(group + 1).copied().unwrap_or(self.rows.len())
    }

    /// The frame of row `at`, as a half-open range before exclusion.
    fn frame_of(&self, at: usize, cx: &ExecContext<'_>) -> Result<(usize, usize)> {
        let plan = &self.plan;
        let rows = self.rows.len();
        let offset = |value: &Datum| match value {
            Datum::Int8(value) => usize::try_from(*value).unwrap_or(usize::MAX),
            _ => 0,
        };
        let start = match (&plan.start, plan.mode) {
            (Edge::Unbounded, _) => 0,
            (Edge::CurrentRow, FrameMode::Rows) => at,
            (Edge::CurrentRow, _) => self.group_starts[self.groups[at]],
            (Edge::Preceding(_), FrameMode::Rows) => at.saturating_sub(offset(&self.start_offset)),
            (Edge::Following(_), FrameMode::Rows) => at.saturating_add(offset(&self.start_offset)).min(rows),
            (Edge::Preceding(_), FrameMode::Groups) => {
                self.group_starts[self.groups[at].saturating_sub(offset(&self.start_offset))]
            }
            (Edge::Following(_), FrameMode::Groups) => {
                let group = self.groups[at].saturating_add(offset(&self.start_offset));
                self.group_starts.get(group).copied().unwrap_or(rows)
            }
            (edge, FrameMode::Range) => self.range_edge(at, matches!(edge, Edge::Preceding(_)), true, cx)?,
        };
        let end = match (&plan.end, plan.mode) {
            (Edge::Unbounded, _) => rows,
            (Edge::CurrentRow, FrameMode::Rows) => at + 1,
            (Edge::CurrentRow, _) => self.group_end(self.groups[at]),
            (Edge::Preceding(_), FrameMode::Rows) => (at + 1).saturating_sub(offset(&self.end_offset)),
            (Edge::Following(_), FrameMode::Rows) => {
                (at + 1).saturating_add(offset(&self.end_offset)).min(rows)
            }
            (Edge::Preceding(_), FrameMode::Groups) => {
                match self.groups[at].checked_sub(offset(&self.end_offset)) {
                    Some(group) => self.group_end(group),
                    None => 0,
                }
            }
            (Edge::Following(_), FrameMode::Groups) => {
                let group = self.groups[at].saturating_add(offset(&self.end_offset));
                if group >= self.group_starts.len() { rows } else { self.group_end(group) }
            }
            (edge, FrameMode::Range) => self.range_edge(at, matches!(edge, Edge::Preceding(_)), false, cx)?,
        };
        Ok((start.min(rows), end.max(start).min(rows)))
    }

    /// RANGE with an offset: the first row not before (start), or behind (end), `value -/+ offset`.
    fn range_edge(&self, at: usize, preceding: bool, start: bool, cx: &ExecContext<'_>) -> Result<usize> {
        let plan = &self.plan;
        let (Some(key), Some(order)) = (self.keys[at].first(), plan.orders.first()) else {
            return Err(Error::internal("RANGE with an offset without ORDER BY"));
        };
        let group = self.groups[at];
        if key.is_null() {
            return Ok(if start { self.group_starts[group] } else { self.group_end(group) });
        }
        let (function, offset) = if start {
            (&plan.start_in_range, &self.start_offset)
        } else {
            (&plan.end_in_range, &self.end_offset)
        };
        let Some(function) = function else {
            return Err(Error::internal("RANGE with an offset without its function"));
        };
        // in_range(value, base, offset, subtract, less): the value is not above (less) or not below the edge.
        let subtract = Datum::Bool(preceding != order.desc);
        let less = Datum::Bool(start == order.desc);
        let mut failure = None;
        let position = self.keys.partition_point(|row| {
            if row[0].is_null() {
                return order.nulls_first;
            }
            let args = [row[0].clone(), key.clone(), offset.clone(), subtract.clone(), less.clone()];
            match function.call(cx, &args) {
                Ok(within) => start != matches!(within, Datum::Bool(true)),
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        });
        failure.map_or(Ok(position), Err)
    }

    /// Whether row `index` of the frame is excluded for row `at`.
    fn excluded(&self, at: usize, index: usize) -> bool {
        match self.plan.exclusion {
            FrameExclusion::None => false,
            FrameExclusion::CurrentRow => index == at,
            FrameExclusion::Group => self.groups[index] == self.groups[at],
            FrameExclusion::Ties => index != at && self.groups[index] == self.groups[at],
        }
    }

    fn value_at(&self, index: usize, code: &Code, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
        frame.restore(&self.plan.registers, &self.rows[index]);
        code.eval(cx, frame)
    }

    fn function(
        &self,
        function: WindowFunction,
        args: &[Code],
        at: usize,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
    ) -> Result<Datum> {
        let rows = self.rows.len();
        let group = self.groups[at];
        frame.restore(&self.plan.registers, &self.rows[at]);
        let integer = |value: Datum| match value {
            Datum::Int4(value) => Some(i64::from(value)),
            Datum::Int8(value) => Some(value),
            _ => None,
        };
        let null = Code::Const(Datum::Null);
        let first = args.first().unwrap_or(&null);
        Ok(match function {
            WindowFunction::RowNumber => Datum::Int8(at as i64 + 1),
            WindowFunction::Rank => Datum::Int8(self.group_starts[group] as i64 + 1),
            WindowFunction::DenseRank => Datum::Int8(group as i64 + 1),
            WindowFunction::PercentRank => Datum::Float8(if rows <= 1 {
                0.0
            } else {
                self.group_starts[group] as f64 / (rows - 1) as f64
            }),
            WindowFunction::CumeDist => Datum::Float8(self.group_end(group) as f64 / rows as f64),
            WindowFunction::Ntile => {
                let Some(buckets) = integer(self.value_at(0, first, cx, frame)?) else {
                    return Ok(Datum::Null);
                };
                if buckets <= 0 {
                    bail!(INVALID_ARGUMENT_FOR_NTILE_FUNCTION, "argument of ntile must be greater than zero");
                }
                let (buckets, rows, at) = (buckets as u64, rows as u64, at as u64);
                // The first `rest` buckets have a row more.
                let (size, rest) = (rows / buckets, rows % buckets);
                let large = rest * (size + 1);
                Datum::Int4(
                    if at < large { at / (size + 1) } else { rest + (at - large) / size.max(1) } as i32 + 1,
                )
            }
            WindowFunction::Lag | WindowFunction::Lead => {
                let offset = match args.get(1) {
                    Some(code) => match integer(code.eval(cx, frame)?) {
                        Some(offset) => offset,
                        None => return Ok(Datum::Null),
                    },
                    None => 1,
                };
                let target =
                    if function == WindowFunction::Lag { at as i64 - offset } else { at as i64 + offset };
                match usize::try_from(target).ok().filter(|target| *target < rows) {
                    Some(target) => self.value_at(target, first, cx, frame)?,
                    None => args.get(2).map_or(Ok(Datum::Null), |default| default.eval(cx, frame))?,
                }
            }
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                let nth = match function {
                    WindowFunction::NthValue => {
                        match args.get(1).map(|code| code.eval(cx, frame)).transpose()? {
                            Some(value) => match integer(value) {
                                Some(nth) if nth > 0 => nth as usize,
                                Some(_) => bail!(
                                    INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION,
                                    "argument of nth_value must be greater than zero"
                                ),
                                None => return Ok(Datum::Null),
                            },
                            None => 1,
                        }
                    }
                    _ => 1,
                };
                let (start, end) = self.frame_of(at, cx)?;
                let found = if function == WindowFunction::LastValue {
                    (start..end).rev().find(|index| !self.excluded(at, *index))
                } else {
                    (start..end).filter(|index| !self.excluded(at, *index)).nth(nth - 1)
                };
                match found {
                    Some(index) => self.value_at(index, first, cx, frame)?,
                    None => Datum::Null,
                }
            }
        })
    }

    fn aggregate(
        &mut self,
        number: usize,
        at: usize,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
    ) -> Result<Datum> {
        let plan = Arc::clone(&self.plan);
        let WindowKind::Aggregate(spec) = &plan.specs[number].kind else { return Ok(Datum::Null) };
        let (start, end) = self.frame_of(at, cx)?;
        if matches!(plan.start, Edge::Unbounded) && plan.exclusion == FrameExclusion::None {
            // Such a frame only grows from row to row.
            let (mut running, mut taken, mut value) = match self.growing[number].take() {
                Some(state) => state,
                None => (spec.start(), 0, Datum::Null),
            };
            if taken < end || taken == 0 {
                while taken < end {
                    frame.tick(cx)?;
                    frame.restore(&plan.registers, &self.rows[taken]);
                    running.take(spec, cx, frame)?;
                    taken += 1;
                }
                value = running.finish(spec, cx, frame)?;
            }
            self.growing[number] = Some((running, taken, value.clone()));
            return Ok(value);
        }
        let mut running = spec.start();
        for index in start..end {
            if self.excluded(at, index) {
                continue;
            }
            frame.tick(cx)?;
            frame.restore(&plan.registers, &self.rows[index]);
            running.take(spec, cx, frame)?;
        }
        running.finish(spec, cx, frame)
    }
}

impl Node for WindowState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        self.offsets(cx, frame)?;
        if self.at >= self.rows.len() && !self.read_partition(cx, frame)? {
            return Ok(false);
        }
        frame.tick(cx)?;
        let plan = Arc::clone(&self.plan);
        let at = self.at;
        self.at += 1;
        let mut values = Row::with_capacity(plan.specs.len());
        for (number, spec) in plan.specs.iter().enumerate() {
            values.push(match &spec.kind {
                WindowKind::Function { function, args } => self.function(*function, args, at, cx, frame)?,
                WindowKind::Aggregate(_) => self.aggregate(number, at, cx, frame)?,
            });
        }
        frame.restore(&plan.registers, &self.rows[at]);
        for (spec, value) in plan.specs.iter().zip(values) {
            frame.registers[spec.register] = value;
        }
        Ok(true)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.child_done = false;
        self.pending = None;
        self.rows.clear();
        self.at = 0;
        self.offsets_known = false;
        self.child.rescan(cx, frame)
    }
}
