//! UNION, INTERSECT, EXCEPT.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, RangeTableKind, SetOperation, SetOperator, Var};
use cairn_types::{Error, Result};

use super::estimate::clamp_rows;
use super::select::Stream;
use super::{Planned, Planner};
use crate::expr::Code;
use crate::nodes::append::Append;
use crate::nodes::distinct::{Distinct, SetKind, SetOperation as SetNode};

impl Planner<'_> {
    /// A query whose rows come from a set operation; ORDER BY and LIMIT are on top.
    pub(crate) fn plan_set_query(&mut self, query: &Arc<Query>) -> Result<Planned> {
        let Some(operation) = &query.set_operation else { return Err(Error::internal("no set operation")) };
        let planned = self.plan_set_operation(query, operation)?;
        let registers = self.output_registers(&planned.outputs)?;
        // The targets are columns of the leftmost leaf.
        let mut leaves = Vec::new();
        super::prepare::leaves(operation, &mut leaves);
        let Some(leftmost) = leaves.first().copied() else { return Err(Error::internal("no leaf")) };
        let columns = &query.range_table[leftmost].columns;
        let computed = columns
            .iter()
            .zip(&registers)
            .enumerate()
            .map(|(index, (column, register))| {
                let var = Var {
                    varno: leftmost,
                    attno: index as i16 + 1,
                    levels_up: 0,
                    ty: column.ty,
                    location: -1,
                };
                (Expr::Var(var), *register)
            })
            .collect();
        let stage = &mut self.level_mut().stage;
        stage.computed = computed;
        stage.closed = true;
        let stream = Stream { tree: planned.tree, live: registers, order: Vec::new(), constants: Vec::new() };
        self.finish_select(stream, query)
    }

    fn output_registers(&self, outputs: &[Code]) -> Result<Vec<usize>> {
        outputs
            .iter()
            .map(|output| match output {
                Code::Register(register) => Ok(*register),
                _ => Err(Error::internal("a set operation's column is no register")),
            })
            .collect()
    }

    fn plan_set_operation(&mut self, query: &Arc<Query>, operation: &SetOperation) -> Result<Planned> {
        crate::stack::check()?;
        match operation {
            SetOperation::Leaf(range) => match &query.range_table[*range].kind {
                RangeTableKind::Subquery { query, .. } => self.plan_query(query),
                _ => Err(Error::internal("a leaf of a set operation is no subquery")),
            },
            SetOperation::Node { operation: kind, all, left, right, column_types, .. } => {
                let mut children = Vec::new();
                if *kind == SetOperator::Union {
                    // A chain of the same operation is one Append.
                    self.flatten_union(query, left, *all, &mut children)?;
                    self.flatten_union(query, right, *all, &mut children)?;
                } else {
                    children.push(self.plan_set_operation(query, left)?);
                    children.push(self.plan_set_operation(query, right)?);
                }
                let registers: Vec<usize> = column_types.iter().map(|_| self.register()).collect();
                let blank_padded: Vec<bool> = column_types
                    .iter()
                    .map(|ty| self.catalog().base_type(ty.oid) == cairn_types::types::BPCHAR)
                    .collect();
                let flag = (*kind != SetOperator::Union).then(|| self.register());
                let rows: f64 = children.iter().map(|child| child.tree.rows).sum();
                let total: f64 = children.iter().map(|child| child.tree.total_cost).sum();
                let width = children.first().map_or(0, |child| child.tree.width);
                let (trees, outputs): (Vec<_>, Vec<_>) =
                    children.into_iter().map(|child| (child.tree, child.outputs)).unzip();
                let mut tree = self.node(Append { outputs, registers: registers.clone(), flag }, trees);
                tree.rows = rows;
                tree.total_cost = total + rows * 0.005;
                tree.width = width;
                match (kind, all, flag) {
                    (SetOperator::Union, true, _) => {}
                    (SetOperator::Union, false, _) => {
                        tree = self.node(
                            Distinct {
                                registers: registers.clone(),
                                blank_padded,
                                sorted: false,
                                key_texts: Vec::new(),
                            },
                            vec![tree],
                        );
                        tree.rows = clamp_rows(rows);
                        tree.total_cost = total + rows * 0.01;
                    }
                    (kind, all, flag) => {
                        let kind = match (kind, all) {
                            (SetOperator::Intersect, false) => SetKind::Intersect,
                            (SetOperator::Intersect, true) => SetKind::IntersectAll,
                            (_, false) => SetKind::Except,
                            (_, true) => SetKind::ExceptAll,
                        };
                        let flag = flag.ok_or_else(|| Error::internal("no flag for a set operation"))?;
                        tree = self.node(
                            SetNode { kind, registers: registers.clone(), blank_padded, flag },
                            vec![tree],
                        );
                        tree.rows = clamp_rows(rows / 2.0);
                        tree.total_cost = total + rows * 0.01;
                    }
                }
                Ok(Planned { tree, outputs: registers.into_iter().map(Code::Register).collect() })
            }
        }
    }

    fn flatten_union(
        &mut self,
        query: &Arc<Query>,
        operation: &SetOperation,
        all: bool,
        out: &mut Vec<Planned>,
    ) -> Result<()> {
        match operation {
            SetOperation::Node { operation: SetOperator::Union, all: inner, left, right, .. }
                if *inner == all =>
            {
                crate::stack::check()?;
                self.flatten_union(query, left, all, out)?;
                self.flatten_union(query, right, all, out)
            }
            other => {
                out.push(self.plan_set_operation(query, other)?);
                Ok(())
            }
        }
    }
}
