//! Sources of rows that are not tables of the store: VALUES, functions, nothing at all.

use std::sync::Arc;

use cairn_functions::{Call, RowStream};
use cairn_types::{Datum, Env, Error, Result, Row};

use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::expr::{Code, Function, eval_all};
use crate::instrument::count;
use crate::node::{Node, Operator};

/// Evaluates a filter and counts what it removes.
#[inline]
pub fn passes(filter: &Option<Code>, number: usize, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
    let Some(filter) = filter else { return Ok(true) };
    let accepted = filter.holds(cx, frame)?;
    if !accepted {
        count(frame, number, |counters| counters.removed_by_filter += 1);
    }
    Ok(accepted)
}

/// One row without columns; with a child, its rows if a condition holds that does not depend on them.
#[derive(Debug)]
pub struct ResultNode {
    pub one_time: Option<Code>,
    pub filter: Option<Code>,
    pub one_time_text: String,
    pub filter_text: String,
}

struct ResultState {
    plan: Arc<ResultNode>,
    number: usize,
    child: Option<Box<dyn Node>>,
    done: bool,
    checked: bool,
}

impl Operator for ResultNode {
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(ResultState {
            plan: self,
            number,
            child: children.into_iter().next(),
            done: false,
            checked: false,
        })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Result".into();
        properties.condition("One-Time Filter", &self.one_time_text);
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl Node for ResultState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if !self.checked {
            self.checked = true;
            if let Some(condition) = &self.plan.one_time
                && !condition.holds(cx, frame)?
            {
                self.done = true;
            }
        }
        while !self.done {
            frame.tick(cx)?;
            match &mut self.child {
                None => self.done = true,
                Some(child) => {
                    if !child.next(cx, frame)? {
                        self.done = true;
                        return Ok(false);
                    }
                }
            }
            if passes(&self.plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.done = false;
        self.checked = false;
        self.child.as_mut().map_or(Ok(()), |child| child.rescan(cx, frame))
    }
}

#[derive(Debug)]
pub struct ValuesScan {
    pub rows: Vec<Vec<Code>>,
    pub first: usize,
    pub filter: Option<Code>,
    pub alias: String,
    pub filter_text: String,
}

struct ValuesState {
    plan: Arc<ValuesScan>,
    number: usize,
    at: usize,
}

impl Operator for ValuesScan {
    fn start(self: Arc<Self>, number: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(ValuesState { plan: self, number, at: 0 })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Values Scan".into();
        properties.target = format!(" on \"{}\"", self.alias);
        properties.line("Alias", Value::Hidden(self.alias.clone()));
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl Node for ValuesState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        while let Some(row) = plan.rows.get(self.at) {
            self.at += 1;
            frame.tick(cx)?;
            for (column, code) in row.iter().enumerate() {
                let value = code.eval(cx, frame)?;
                frame.registers[plan.first + column] = value;
            }
            if passes(&plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.at = 0;
        Ok(())
    }
}

/// A function in FROM.
#[derive(Debug)]
pub struct FunctionSource {
    pub function: Function,
    pub args: Vec<Code>,
    /// Columns of the scan that it fills.
    pub columns: usize,
    /// Those that its rows have values for, where some are dropped columns of a composite type.
    pub live: Box<[usize]>,
    /// Its rows are composite values to be spread over the columns.
    pub composite: bool,
}

/// An expression in FROM that is no plain call (a cast, a SQL value function): one row.
#[derive(Debug)]
pub enum Source {
    Function(Box<FunctionSource>),
    Scalar { code: Code, columns: usize, live: Box<[usize]>, composite: bool },
}

#[derive(Debug)]
pub struct FunctionScan {
    pub sources: Vec<Source>,
    pub ordinality: bool,
    pub first: usize,
    pub filter: Option<Code>,
    pub name: String,
    pub alias: String,
    pub filter_text: String,
}

enum Stream {
    Rows(Box<dyn RowStream>),
    One(Datum),
    End,
}

struct FunctionState {
    plan: Arc<FunctionScan>,
    number: usize,
    streams: Option<Vec<Stream>>,
    ordinal: i64,
    row: Row,
}

impl Operator for FunctionScan {
    fn start(self: Arc<Self>, number: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(FunctionState { plan: self, number, streams: None, ordinal: 0, row: Row::new() })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Function Scan".into();
        properties.target = if self.alias == self.name || self.name.is_empty() {
            format!(" on {}", self.alias)
        } else {
            format!(" on {} {}", self.name, self.alias)
        };
        properties.line("Function Name", Value::Hidden(self.name.clone()));
        properties.line("Alias", Value::Hidden(self.alias.clone()));
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl FunctionState {
    fn open(&self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Vec<Stream>> {
        let mut streams = Vec::with_capacity(self.plan.sources.len());
        for source in &self.plan.sources {
            streams.push(match source {
                Source::Function(source) => {
                    let args = eval_all(&source.args, cx, frame)?;
                    source.function.call_set(cx, &args)?.map_or(Stream::End, Stream::Rows)
                }
                Source::Scalar { code, .. } => Stream::One(code.eval(cx, frame)?),
            });
        }
        Ok(streams)
    }
}

/// Next row of one source into registers from `first`; false at its end.
fn pull(
    stream: &mut Stream,
    source: &Source,
    first: usize,
    row: &mut Row,
    env: &dyn Env,
    frame: &mut Frame,
) -> Result<bool> {
    let (columns, live, composite) = match source {
        Source::Function(source) => (source.columns, &source.live, source.composite),
        Source::Scalar { columns, live, composite, .. } => (*columns, live, *composite),
    };
    match (&mut *stream, source) {
        (Stream::Rows(rows), Source::Function(source)) => {
            row.clear();
            if !rows.next(&Call { env, info: source.function.info() }, row)? {
                *stream = Stream::End;
            }
        }
        (Stream::One(value), _) => {
            row.clear();
            row.push(std::mem::take(value));
        }
        _ => *stream = Stream::End,
    }
    if matches!(stream, Stream::End) {
        for column in 0..columns {
            frame.registers[first + column] = Datum::Null;
        }
        return Ok(false);
    }
    if matches!(stream, Stream::One(_)) {
        *stream = Stream::End;
    }
    if composite && row.len() == 1 && matches!(row[0], Datum::Record(_) | Datum::Null) {
        match std::mem::take(&mut row[0]) {
            Datum::Record(record) => {
                if record.values.len() == live.len() {
                    spread(record.values.iter().cloned(), columns, live, first, frame);
                    return Ok(true);
                }
                if record.values.len() != columns {
                    return Err(cairn_types::err!(
                        DATATYPE_MISMATCH,
                        "function return row and query-specified return row do not match"
                    )
                    .detail(format!(
                        "Returned row contains {} attributes, but query expects {columns}.",
                        record.values.len()
                    )));
                }
                for (column, value) in record.values.iter().enumerate() {
                    frame.registers[first + column] = value.clone();
                }
            }
            _ => {
                for column in 0..columns {
                    frame.registers[first + column] = Datum::Null;
                }
            }
        }
        return Ok(true);
    }
    if row.len() == live.len() {
        spread(row.drain(..), columns, live, first, frame);
        return Ok(true);
    }
    if row.len() < columns {
        return Err(Error::internal("a function returned too few columns"));
    }
    for (column, value) in row.drain(..).take(columns).enumerate() {
        frame.registers[first + column] = value;
    }
    Ok(true)
}

/// Puts a row without dropped columns into its registers; the dropped columns are null.
fn spread(
    values: impl Iterator<Item = Datum>,
    columns: usize,
    live: &[usize],
    first: usize,
    frame: &mut Frame,
) {
    frame.registers[first..first + columns].fill(Datum::Null);
    for (column, value) in live.iter().zip(values) {
        frame.registers[first + column] = value;
    }
}

impl Node for FunctionState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let mut streams = match self.streams.take() {
            Some(streams) => streams,
            None => self.open(cx, frame)?,
        };
        let found = loop {
            frame.tick(cx)?;
            let mut any = false;
            let mut first = plan.first;
            for (stream, source) in streams.iter_mut().zip(&plan.sources) {
                any |= pull(stream, source, first, &mut self.row, cx.env, frame)?;
                first += match source {
                    Source::Function(source) => source.columns,
                    Source::Scalar { columns, .. } => *columns,
                };
            }
            if !any {
                break false;
            }
            self.ordinal += 1;
            if plan.ordinality {
                frame.registers[first] = Datum::Int8(self.ordinal);
            }
            if passes(&plan.filter, self.number, cx, frame)? {
                break true;
            }
        };
        self.streams = Some(streams);
        Ok(found)
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.streams = None;
        self.ordinal = 0;
        Ok(())
    }
}
