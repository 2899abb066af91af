//! Rows of several inputs one after the other (UNION ALL), and nodes that pass rows through with a change: computed
//! columns, the output of a subquery.

use std::sync::Arc;

use cairn_types::Result;

use super::simple_scans::passes;
use crate::context::{ExecContext, Frame};
use crate::explain::{Properties, Value};
use crate::expr::Code;
use crate::node::{Node, Operator};
use crate::subplan::CteState;

struct Empty;

impl Node for Empty {
    fn next(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<bool> {
        Ok(false)
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        Ok(())
    }
}

/// A node without rows.
pub fn empty() -> Box<dyn Node> {
    Box::new(Empty)
}

#[derive(Debug)]
pub struct Append {
    /// For each child what goes into `registers`.
    pub outputs: Vec<Vec<Code>>,
    pub registers: Vec<usize>,
    /// Register for the number of the child that a row comes from (EXCEPT, INTERSECT).
    pub flag: Option<usize>,
}

struct AppendState {
    plan: Arc<Append>,
    children: Vec<Box<dyn Node>>,
    at: usize,
}

impl Operator for Append {
    fn start(self: Arc<Self>, _: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(AppendState { plan: self, children, at: 0 })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "Append".into();
    }
}

impl Node for AppendState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        while let Some(child) = self.children.get_mut(self.at) {
            frame.tick(cx)?;
            if child.next(cx, frame)? {
                let row = crate::expr::eval_all(&plan.outputs[self.at], cx, frame)?.into_vec();
                frame.restore_owned(&plan.registers, row);
                if let Some(flag) = plan.flag {
                    frame.registers[flag] = cairn_types::Datum::Int4(self.at as i32);
                }
                return Ok(true);
            }
            self.at += 1;
        }
        Ok(false)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.at = 0;
        for child in &mut self.children {
            child.rescan(cx, frame)?;
        }
        Ok(())
    }
}

/// Computes expressions over the child's row into registers, then filters.
#[derive(Debug)]
pub struct Project {
    pub computed: Vec<(usize, Code)>,
    pub filter: Option<Code>,
    /// WITH queries below that look outside: computed anew at a rescan.
    pub reset_ctes: Vec<usize>,
    /// `Subquery Scan on alias`; empty: not shown by EXPLAIN.
    pub alias: String,
    pub filter_text: String,
}

struct ProjectState {
    plan: Arc<Project>,
    number: usize,
    child: Box<dyn Node>,
}

impl Operator for Project {
    fn start(self: Arc<Self>, number: usize, children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        match children.into_iter().next() {
            Some(child) => Box::new(ProjectState { plan: self, number, child }),
            None => empty(),
        }
    }

    fn explain(&self, properties: &mut Properties) {
        if self.alias.is_empty() {
            properties.transparent = self.filter_text.is_empty();
            properties.node_type = "Result".into();
        } else {
            properties.transparent = self.filter_text.is_empty();
            properties.node_type = "Subquery Scan".into();
            properties.target = format!(" on {}", self.alias);
            properties.line("Alias", Value::Hidden(self.alias.clone()));
        }
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl Node for ProjectState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        while self.child.next(cx, frame)? {
            frame.tick(cx)?;
            for (register, code) in &plan.computed {
                let value = code.eval(cx, frame)?;
                frame.registers[*register] = value;
            }
            if passes(&plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        for cte in &self.plan.reset_ctes {
            frame.ctes[*cte] = CteState::default();
        }
        self.child.rescan(cx, frame)
    }
}
