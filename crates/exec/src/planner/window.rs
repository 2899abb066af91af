//! Window functions: one sort and one node for each window that is used.

use std::sync::Arc;

use cairn_analyze::query::{AggregateCall, Expr, FrameBound, FrameMode, Query, WindowCall, WindowClause};
use cairn_types::key::ColumnOrder;
use cairn_types::oid::namespaces;
use cairn_types::{Error, Result, types};

use super::Planner;
use super::join::{Wish, is_blank_padded};
use super::path::OrderKey;
use super::select::{Stream, target_of};
use crate::expr::Function;
use crate::nodes::window::{Edge, WindowAggregation, WindowFunction, WindowKind, WindowSpec};
use cairn_analyze::expr_type;
use cairn_analyze::walk;

impl Planner<'_> {
    pub(crate) fn plan_windows(&mut self, mut stream: Stream, query: &Arc<Query>) -> Result<Stream> {
        let mut calls: Vec<WindowCall> = Vec::new();
        for target in &query.targets {
            collect(&target.expr, &mut calls);
        }
        for (number, window) in query.windows.iter().enumerate() {
            let own: Vec<WindowCall> = calls.iter().filter(|call| call.window == number).cloned().collect();
            if !own.is_empty() {
                stream = self.plan_window(stream, query, window, own)?;
            }
        }
        Ok(stream)
    }

    fn plan_window(
        &mut self,
        mut stream: Stream,
        query: &Query,
        window: &WindowClause,
        calls: Vec<WindowCall>,
    ) -> Result<Stream> {
        let mut wanted = Vec::new();
        let mut partition_exprs = Vec::new();
        let mut order_exprs = Vec::new();
        let mut orders = Vec::new();
        for clause in window.partition.iter().chain(&window.order) {
            let expr = target_of(query, clause)?.expr.clone();
            wanted.push(OrderKey { expr, descending: clause.descending, nulls_first: clause.nulls_first });
        }
        for clause in &window.partition {
            partition_exprs.push(target_of(query, clause)?.expr.clone());
        }
        for clause in &window.order {
            let expr = target_of(query, clause)?.expr.clone();
            orders.push(ColumnOrder {
                desc: clause.descending,
                nulls_first: clause.nulls_first,
                blank_padded: is_blank_padded(self, &expr),
            });
            order_exprs.push(expr);
        }
        let wish = Wish { order: wanted.clone(), constants: stream.constants.clone(), ..Wish::default() };
        if !wanted.is_empty() && !self.satisfies(&stream.order, &wish) {
            stream = self.sort_by(stream, wanted, None)?;
        }
        let partition_padded = partition_exprs.iter().map(|expr| is_blank_padded(self, expr)).collect();
        let partition = self.compile_all(&partition_exprs)?;
        let order = self.compile_all(&order_exprs)?;
        let (start, end) = (self.edge(&window.frame.start)?, self.edge(&window.frame.end)?);
        let (start_in_range, end_in_range) = if window.frame.mode == FrameMode::Range {
            let frame = &window.frame;
            (self.range_function(&order_exprs, &frame.start)?, self.range_function(&order_exprs, &frame.end)?)
        } else {
            (None, None)
        };
        let mut specs = Vec::new();
        let mut computed = Vec::new();
        for call in calls {
            let register = self.register();
            let kind = if call.aggregate {
                let aggregate = AggregateCall {
                    function: call.function,
                    direct_args: Vec::new(),
                    args: call.args.clone(),
                    star: call.star,
                    distinct: false,
                    order: Vec::new(),
                    filter: call.filter.clone(),
                    variadic: false,
                    ty: call.ty,
                    collation: call.collation,
                    levels_up: 0,
                    location: call.location,
                };
                WindowKind::Aggregate(self.aggregate_spec(&aggregate)?)
            } else {
                let proc = self.catalog().proc(call.function);
                let function = proc.and_then(|proc| WindowFunction::from_source(&proc.source));
                let Some(function) = function else {
                    let name = proc.map_or_else(String::new, |proc| proc.name.to_string());
                    return Err(Error::unsupported(format!("window function {name} is")));
                };
                WindowKind::Function { function, args: self.compile_all(&call.args)? }
            };
            specs.push(WindowSpec { kind, register });
            computed.push((Expr::Window(Box::new(call)), register));
        }
        let registers = stream.live.clone();
        stream.live.extend(specs.iter().map(|spec| spec.register));
        let (rows, total) = (stream.tree.rows, stream.tree.total_cost);
        let count = specs.len() as f64;
        stream.tree = self.node(
            WindowAggregation {
                registers,
                partition,
                partition_padded,
                order,
                orders,
                mode: window.frame.mode,
                start,
                end,
                exclusion: window.frame.exclusion,
                start_in_range,
                end_in_range,
                specs,
            },
            vec![stream.tree],
        );
        stream.tree.rows = rows;
        stream.tree.total_cost = total + rows * 0.01 * count;
        self.level_mut().stage.computed.extend(computed);
        Ok(stream)
    }

    fn edge(&mut self, bound: &FrameBound) -> Result<Edge> {
        Ok(match bound {
            FrameBound::UnboundedPreceding | FrameBound::UnboundedFollowing => Edge::Unbounded,
            FrameBound::CurrentRow => Edge::CurrentRow,
            FrameBound::Preceding(offset) => Edge::Preceding(self.compile(offset)?),
            FrameBound::Following(offset) => Edge::Following(self.compile(offset)?),
        })
    }

    /// The in_range support function of the order column's type for the offset of a RANGE bound.
    fn range_function(&self, order: &[Expr], bound: &FrameBound) -> Result<Option<Box<Function>>> {
        let (FrameBound::Preceding(offset) | FrameBound::Following(offset), Some(column)) =
            (bound, order.first())
        else {
            return Ok(None);
        };
        let column = self.catalog().base_type(expr_type(column).oid);
        let offset = expr_type(offset).oid;
        let found = self.catalog().procs_by_name("in_range").iter().find(|proc| {
            proc.namespace == namespaces::PG_CATALOG
                && proc.arg_types.first() == Some(&column)
                && proc.arg_types.get(2) == Some(&offset)
        });
        let Some(proc) = found else {
            return Err(Error::unsupported("RANGE with offset PRECEDING/FOLLOWING for this type is"));
        };
        let function = self.function(proc.oid, proc.arg_types.to_vec(), types::BOOL, 0, false)?;
        Ok(Some(Box::new(function)))
    }
}

fn collect(expr: &Expr, calls: &mut Vec<WindowCall>) {
    if let Expr::Window(call) = expr {
        if !calls.iter().any(|other| crate::expr::equal::same(&Expr::Window(Box::new(other.clone())), expr)) {
            calls.push((**call).clone());
        }
        return;
    }
    walk::children(expr, &mut |child| collect(child, calls));
}
