//! Rows of a system catalog, from the statement's picture of the catalog.

use std::sync::Arc;

use cairn_types::{Datum, Oid, Result};

use super::simple_scans::passes;
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::explain::{Properties, Value};
use crate::expr::Code;
use crate::instrument::count;
use crate::node::{Node, Operator};

#[derive(Debug)]
pub struct SystemScan {
    pub relation: Oid,
    pub name: String,
    pub alias: String,
    pub first: usize,
    pub wanted: Vec<usize>,
    /// `None`: all rows.
    pub key: Option<SystemKey>,
    /// Equalities, tried before a row is copied: column index and value.
    pub equal: Vec<(usize, Code)>,
    pub filter: Option<Code>,
    pub filter_text: String,
}

/// Rows with these values in the first columns of an index.
#[derive(Debug)]
pub struct SystemKey {
    /// Number of the index in the catalog's list.
    pub index: usize,
    pub values: Vec<Code>,
    /// `None` where PostgreSQL has no such index.
    pub name: Option<String>,
    pub condition_text: String,
}

struct SystemState {
    plan: Arc<SystemScan>,
    number: usize,
    rows: Option<Arc<Vec<Arc<[Datum]>>>>,
    at: usize,
    equal: Vec<Datum>,
    evaluated: bool,
}

impl Operator for SystemScan {
    fn start(self: Arc<Self>, number: usize, _: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(SystemState { plan: self, number, rows: None, at: 0, equal: Vec::new(), evaluated: false })
    }

    fn explain(&self, properties: &mut Properties) {
        let name =
            if self.alias == self.name { self.name.clone() } else { format!("{} {}", self.name, self.alias) };
        let index = self.key.as_ref().and_then(|key| Some((key, key.name.as_ref()?)));
        match index {
            Some((_, index)) => {
                properties.node_type = "Index Scan".into();
                properties.target = format!(" using {index} on {name}");
                properties.line("Scan Direction", Value::Hidden("Forward".into()));
                properties.line("Index Name", Value::Hidden(index.clone()));
            }
            None => {
                properties.node_type = "Seq Scan".into();
                properties.target = format!(" on {name}");
            }
        }
        properties.line("Relation Name", Value::Hidden(self.name.clone()));
        properties.line("Alias", Value::Hidden(self.alias.clone()));
        if let Some((key, _)) = index {
            properties.condition("Index Cond", &key.condition_text);
        }
        properties.condition("Filter", &self.filter_text);
        properties.filtered = !self.filter_text.is_empty();
    }
}

impl SystemState {
    fn read(&self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Vec<Arc<[Datum]>>> {
        let relation = self.plan.relation;
        if let Some(key) = &self.plan.key {
            let mut values = Vec::with_capacity(key.values.len());
            for code in &key.values {
                values.push(code.eval(cx, frame)?);
            }
            if values.iter().any(Datum::is_null) {
                return Ok(Vec::new());
            }
            return Ok(cx.catalog.system_rows_by_key(relation, key.index, &values));
        }
        if let Some(rows) = cx.runner.system_rows(cx, relation)? {
            return Ok(rows);
        }
        Ok(match sequence_row(cx, relation)? {
            Some(row) => vec![row],
            None => cx.catalog.system_rows(relation),
        })
    }
}

impl Node for SystemState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let plan = Arc::clone(&self.plan);
        let rows = match &self.rows {
            Some(rows) => Arc::clone(rows),
            None => {
                let rows = Arc::new(self.read(cx, frame)?);
                self.rows = Some(Arc::clone(&rows));
                rows
            }
        };
        if !self.evaluated {
            self.evaluated = true;
            self.equal.clear();
            for (_, code) in &plan.equal {
                let value = code.eval(cx, frame)?;
                self.equal.push(value);
            }
        }
        while let Some(row) = rows.get(self.at) {
            self.at += 1;
            frame.tick(cx)?;
            let candidate = plan.equal.iter().zip(&self.equal).all(|((column, _), value)| {
                !value.is_null()
                    && row.get(*column).is_some_and(|own| cairn_types::compare::equal(own, value, false))
            });
            if !candidate {
                count(frame, self.number, |counters| counters.removed_by_filter += 1);
                continue;
            }
            for column in &plan.wanted {
                let value = row.get(*column).cloned().unwrap_or_default();
                frame.registers[plan.first + *column] = value;
            }
            if passes(&plan.filter, self.number, cx, frame)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        self.at = 0;
        self.evaluated = false;
        if self.plan.key.is_some() {
            self.rows = None;
        }
        Ok(())
    }
}

/// The one row of a sequence (last_value, log_cnt, is_called); `None` for any other relation.
fn sequence_row(cx: &ExecContext<'_>, relation: Oid) -> Result<Option<Arc<[Datum]>>> {
    let Some(relation) = cx.catalog.relation(relation) else { return Ok(None) };
    let Some(info) = &relation.sequence else { return Ok(None) };
    let state = cx.store.sequence_state(relation.storage).sql()?;
    let (last_value, is_called) =
        state.map_or((info.start, false), |state| (state.last_value, state.is_called));
    // Nothing is logged ahead as PostgreSQL does it.
    Ok(Some(Arc::from([Datum::Int8(last_value), Datum::Int8(0), Datum::Bool(is_called)])))
}
