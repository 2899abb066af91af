//! Set-returning functions in the select list: all advance in lockstep, those that end early give nulls.

use std::sync::Arc;

use cairn_functions::{Call, RowStream};
use cairn_types::{Datum, Record, Result, Row};

use crate::context::{ExecContext, Frame};
use crate::explain::Properties;
use crate::expr::{Code, Function, eval_all};
use crate::node::{Node, Operator};

#[derive(Debug)]
pub struct SetCall {
    pub function: Function,
    pub args: Vec<Code>,
    /// Where its value goes.
    pub register: usize,
    /// Fields, if it returns more than one column: the value is a record.
    pub shape: Option<(cairn_types::Oid, Arc<[cairn_types::RecordField]>)>,
}

#[derive(Debug)]
pub struct ProjectSet {
    pub calls: Vec<SetCall>,
}

struct ProjectSetState {
    plan: Arc<ProjectSet>,
    child: Box<dyn Node>,
    /// Streams of the current input row.
    streams: Option<Vec<Option<Box<dyn RowStream>>>>,
    row: Row,
}

impl Operator for ProjectSet {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(ProjectSetState { plan: self, child, streams: None, row: Row::new() }),
            None => super::append::empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "ProjectSet".into();
    }
}

impl Node for ProjectSetState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        loop {
            frame.tick(cx)?;
            let mut streams = match self.streams.take() {
                Some(streams) => streams,
                None => {
                    if !self.child.next(cx, frame)? {
                        return Ok(false);
                    }
                    let mut streams = Vec::with_capacity(plan.calls.len());
                    for call in &plan.calls {
                        let args = eval_all(&call.args, cx, frame)?;
                        streams.push(call.function.call_set(cx, &args)?);
                    }
                    streams
                }
            };
            let mut any = false;
            for (stream, call) in streams.iter_mut().zip(&plan.calls) {
                let mut value = Datum::Null;
                if let Some(rows) = stream {
                    self.row.clear();
                    if rows.next(&Call { env: cx.env, info: call.function.info() }, &mut self.row)? {
                        any = true;
                        value = match &call.shape {
                            Some((type_oid, shape))
                                if self.row.len() == shape.len() && self.row.len() > 1 =>
                            {
                                Datum::Record(Arc::new(Record {
                                    type_oid: *type_oid,
                                    fields: Arc::clone(shape),
                                    values: std::mem::take(&mut self.row),
                                }))
                            }
                            _ => self.row.pop().unwrap_or_default(),
                        };
                    } else {
                        *stream = None;
                    }
                }
                frame.registers[call.register] = value;
            }
            if any {
                self.streams = Some(streams);
                return Ok(true);
            }
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.streams = None;
        self.child.rescan(cx, frame)
    }
}
