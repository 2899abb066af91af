//! UNION, INTERSECT, EXCEPT.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, RangeTableKind, SetOperation, SetOperator, Var};
use cairn_catalog::{CastMethod, TypeRef};
use cairn_types::key::ColumnOrder;
use cairn_types::row::PhysicalKind;
use cairn_types::{Datum, Error, Result};

use super::estimate::clamp_rows;
use super::select::Stream;
use super::{Planned, Planner};
use crate::expr::Code;
use crate::expr::compile::build_call;
use crate::nodes::append::Append;
use crate::nodes::distinct::{Distinct, SetKind, SetOperation as SetNode};
use crate::nodes::sort::Sort;
use cairn_analyze::expr_type;

impl Planner<'_> {
    /// A query whose rows come from a set operation; ORDER BY and LIMIT are on top.
    pub(crate) fn plan_set_query(&mut self, query: &Arc<Query>) -> Result<Planned> {
        let Some(operation) = &query.set_operation else { return Err(Error::internal("no set operation")) };
        let (planned, _) = self.plan_set_operation(query, operation)?;
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

    /// The rows of one part, and the types of its columns.
    fn plan_set_operation(
        &mut self,
        query: &Arc<Query>,
        operation: &SetOperation,
    ) -> Result<(Planned, Vec<TypeRef>)> {
        crate::stack::check()?;
        match operation {
            SetOperation::Leaf(range) => match &query.range_table[*range].kind {
                RangeTableKind::Subquery { query, .. } => {
                    let types = query.targets.iter().filter(|target| !target.junk);
                    let types = types.map(|target| expr_type(&target.expr)).collect();
                    Ok((self.plan_query(query)?, types))
                }
                _ => Err(Error::internal("a leaf of a set operation is no subquery")),
            },
            SetOperation::Node { operation: kind, all, left, right, column_types, .. } => {
                let mut parts = Vec::new();
                if *kind == SetOperator::Union {
                    // A chain of the same operation is one Append.
                    self.flatten_union(query, left, *all, column_types, &mut parts)?;
                    self.flatten_union(query, right, *all, column_types, &mut parts)?;
                } else {
                    parts.push(self.plan_set_operation(query, left)?);
                    parts.push(self.plan_set_operation(query, right)?);
                }
                let mut children = Vec::with_capacity(parts.len());
                for (mut part, types) in parts {
                    let outputs = std::mem::take(&mut part.outputs);
                    for ((code, from), to) in outputs.into_iter().zip(types).zip(column_types) {
                        part.outputs.push(self.coerce_code(code, from, *to)?);
                    }
                    children.push(part);
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
                        // Two rows are sorted: that is cheaper than a hash table.
                        let sorted = rows <= 2.0;
                        if sorted {
                            let order = |blank_padded: &bool| ColumnOrder {
                                blank_padded: *blank_padded,
                                ..ColumnOrder::ASC
                            };
                            let keys = blank_padded.iter().map(order).enumerate().collect();
                            let sort = Sort {
                                keys,
                                registers: registers.clone(),
                                bound: None,
                                key_texts: Vec::new(),
                            };
                            tree = self.node(sort, vec![tree]);
                        }
                        tree = self.node(
                            Distinct {
                                registers: registers.clone(),
                                blank_padded,
                                sorted,
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
                let outputs = registers.into_iter().map(Code::Register).collect();
                Ok((Planned { tree, outputs }, column_types.clone()))
            }
        }
    }

    fn flatten_union(
        &mut self,
        query: &Arc<Query>,
        operation: &SetOperation,
        all: bool,
        types: &[TypeRef],
        out: &mut Vec<(Planned, Vec<TypeRef>)>,
    ) -> Result<()> {
        match operation {
            // Rows that are made distinct in another type stay apart.
            SetOperation::Node {
                operation: SetOperator::Union,
                all: inner,
                left,
                right,
                column_types,
                ..
            } if *inner == all && (all || column_types == types) => {
                crate::stack::check()?;
                self.flatten_union(query, left, all, types, out)?;
                self.flatten_union(query, right, all, types, out)
            }
            other => {
                out.push(self.plan_set_operation(query, other)?);
                Ok(())
            }
        }
    }

    /// The implicit cast of a set operation's column to the common type.
    pub(crate) fn coerce_code(&self, code: Code, from: TypeRef, to: TypeRef) -> Result<Code> {
        let (source, target) = (self.catalog().base_type(from.oid), self.catalog().base_type(to.oid));
        if source == target {
            return Ok(code);
        }
        match self.catalog().cast(source, target).map(|cast| cast.method) {
            Some(CastMethod::Binary) => {
                let kinds = (self.catalog().physical_kind(source), self.catalog().physical_kind(target));
                Ok(match kinds {
                    (PhysicalKind::Int4, PhysicalKind::Oid) => Code::Int4AsOid(Box::new(code)),
                    (PhysicalKind::Oid, PhysicalKind::Int4) => Code::OidAsInt4(Box::new(code)),
                    _ => code,
                })
            }
            Some(CastMethod::Function(oid)) => {
                let Some(proc) = self.catalog().proc(oid) else {
                    return Err(Error::internal("a cast without function"));
                };
                let mut args = vec![code];
                let mut types = vec![source];
                // Further parameters are the type modifier and whether the cast was written out.
                if proc.arg_types.len() > 1 {
                    args.push(Code::Const(Datum::Int4(to.typmod)));
                    types.push(cairn_types::types::INT4);
                }
                if proc.arg_types.len() > 2 {
                    args.push(Code::Const(Datum::Bool(false)));
                    types.push(cairn_types::types::BOOL);
                }
                let function = self.function(oid, types, to.oid, to.collation, false)?;
                self.fold(build_call(function, args))
            }
            None if self.catalog().is_binary_coercible(source, target) => Ok(code),
            Some(CastMethod::InOut) | None => {
                Ok(Code::ViaIo { arg: Box::new(code), source: from.oid, target: to.oid, typmod: to.typmod })
            }
        }
    }
}
