//! LIMIT and OFFSET, with ties if asked for.

use std::sync::Arc;

use cairn_types::{Datum, Result, Row, bail};

use crate::context::{ExecContext, Frame};
use crate::explain::Properties;
use crate::expr::Code;
use crate::hash::rows_equal;
use crate::node::{Node, Operator};

#[derive(Debug)]
pub struct Limit {
    pub limit: Option<Code>,
    pub offset: Option<Code>,
    /// WITH TIES: registers of the sort columns, and which of them ignore blanks at the end.
    pub ties: Option<(Vec<usize>, Vec<bool>)>,
}

struct LimitState {
    plan: Arc<Limit>,
    child: Box<dyn Node>,
    started: bool,
    limit: Option<u64>,
    returned: u64,
    done: bool,
    /// The sort columns of the last row inside the limit.
    last: Row,
}

fn number(code: Option<&Code>, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Option<i64>> {
    let Some(code) = code else { return Ok(None) };
    Ok(match code.eval(cx, frame)? {
        Datum::Int8(value) => Some(value),
        Datum::Int4(value) => Some(value.into()),
        Datum::Int2(value) => Some(value.into()),
        _ => None,
    })
}

fn limit_value(code: Option<&Code>, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Option<u64>> {
    match number(code, cx, frame)? {
        Some(value) if value < 0 => bail!(INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT must not be negative"),
        other => Ok(other.map(|value| value as u64)),
    }
}

fn offset_value(code: Option<&Code>, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<u64> {
    match number(code, cx, frame)? {
        Some(value) if value < 0 => {
            bail!(INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, "OFFSET must not be negative")
        }
        other => Ok(other.unwrap_or(0) as u64),
    }
}

/// How many rows of a sort's output will be read at the most.
pub fn bound(
    limit: &Code,
    offset: Option<&Code>,
    cx: &ExecContext<'_>,
    frame: &mut Frame,
) -> Result<Option<u64>> {
    let offset = offset_value(offset, cx, frame)?;
    Ok(limit_value(Some(limit), cx, frame)?.map(|limit| limit.saturating_add(offset)))
}

impl Operator for Limit {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(LimitState {
                plan: self,
                child,
                started: false,
                limit: None,
                returned: 0,
                done: false,
                last: Row::new(),
            }),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Limit".into();
    }
}

impl Node for LimitState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        if !self.started {
            self.started = true;
            let offset = offset_value(self.plan.offset.as_ref(), cx, frame)?;
            self.limit = limit_value(self.plan.limit.as_ref(), cx, frame)?;
            if self.limit != Some(0) {
                for _ in 0..offset {
                    if !self.child.next(cx, frame)? {
                        self.done = true;
                        return Ok(false);
                    }
                }
            }
        }
        if self.limit.is_some_and(|limit| self.returned >= limit) {
            // Past the limit only rows that tie with the last one are let through.
            let tie = match &self.plan.ties {
                Some((registers, blank_padded)) if self.returned > 0 && self.child.next(cx, frame)? => {
                    rows_equal(&frame.save(registers), &self.last, blank_padded)
                }
                _ => false,
            };
            self.done = !tie;
            return Ok(tie);
        }
        if !self.child.next(cx, frame)? {
            self.done = true;
            return Ok(false);
        }
        self.returned += 1;
        if let Some((registers, _)) = &self.plan.ties
            && Some(self.returned) == self.limit
        {
            self.last = frame.save(registers);
        }
        Ok(true)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.started = false;
        self.done = false;
        self.returned = 0;
        self.child.rescan(cx, frame)
    }
}
