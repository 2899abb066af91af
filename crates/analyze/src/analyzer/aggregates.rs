//! Aggregate calls: to which query level they belong, where they may stand, and what they may hold.

use cairn_catalog::{Aggregate, Proc, TypeRef};
use cairn_types::{Result, err, types};
use pg_query::protobuf;

use super::{Analyzer, ExprKind, expr_location, expr_type};
use crate::query::*;

impl Analyzer<'_> {
    #[expect(clippy::too_many_arguments, reason = "the call and what was found for it")]
    pub(crate) fn aggregate_call(
        &mut self,
        call: &protobuf::FuncCall,
        proc: &Proc,
        aggregate: &Aggregate,
        mut args: Vec<Expr>,
        filter: Option<Expr>,
        variadic: bool,
        ty: TypeRef,
    ) -> Result<Expr> {
        let location = call.location;
        let mut direct_args = Vec::new();
        let mut order = Vec::new();
        if aggregate.kind == b'n' {
            order = self.aggregate_order(call, &mut args)?;
            if call.agg_distinct {
                self.check_distinct(&args, &order, location)?;
            }
        } else {
            // WITHIN GROUP: the last arguments are sorted by.
            let count = call.agg_order.len();
            let sorted = args.split_off(args.len() - count.min(args.len()));
            direct_args = std::mem::take(&mut args);
            for (node, expr) in call.agg_order.iter().zip(sorted) {
                let Some(protobuf::node::Node::SortBy(sort)) = &node.node else {
                    return Err(cairn_types::Error::internal("unrecognized ORDER BY item"));
                };
                order.push(self.sort_order(sort, expr.clone())?);
                args.push(expr);
            }
        }
        let mut whole = AggregateCall {
            function: proc.oid,
            direct_args,
            args,
            star: call.agg_star,
            distinct: call.agg_distinct,
            order,
            filter,
            variadic,
            ty,
            collation: 0,
            levels_up: 0,
            location,
        };
        let inside = Inside::of(&whole);
        if let Some(nested) = inside.nested {
            return Err(err!(GROUPING_ERROR, "aggregate function calls cannot be nested").at(nested));
        }
        if let Some(window) = inside.window {
            return Err(err!(
                GROUPING_ERROR,
                "aggregate function calls cannot contain window function calls"
            )
            .at(window));
        }
        if let Some(set) = inside.set {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "aggregate function calls cannot contain set-returning function calls"
            )
            .hint("You might be able to move the set-returning function into a LATERAL FROM item.")
            .at(set));
        }
        let level = inside.level.unwrap_or(0);
        // An aggregate over outer columns only belongs to the outer query.
        let index = self.levels().len().saturating_sub(1 + level as usize);
        let kind = self.levels()[index].kind;
        self.check_aggregate_place(kind, index, location, false)?;
        self.levels_mut()[index].has_aggregates = true;
        whole.levels_up = level;
        Ok(Expr::Aggregate(Box::new(whole)))
    }

    /// ORDER BY within the call: over the arguments, or over expressions of its own.
    fn aggregate_order(
        &mut self,
        call: &protobuf::FuncCall,
        args: &mut [Expr],
    ) -> Result<Vec<AggregateOrder>> {
        for arg in args.iter_mut() {
            if expr_type(arg).oid == types::UNKNOWN {
                let given = std::mem::replace(arg, Expr::CurrentOf { cursor: "".into() });
                *arg = self.resolve_unknown(given)?;
            }
        }
        let mut order = Vec::with_capacity(call.agg_order.len());
        for node in &call.agg_order {
            let Some(protobuf::node::Node::SortBy(sort)) = &node.node else {
                return Err(cairn_types::Error::internal("unrecognized ORDER BY item"));
            };
            let kind = self.level_ref().kind;
            let expr = self.expression_of_kind(sort.node.as_deref(), kind)?;
            let expr = self.resolve_unknown(expr)?;
            order.push(self.sort_order(sort, expr)?);
        }
        Ok(order)
    }

    fn sort_order(&mut self, sort: &protobuf::SortBy, expr: Expr) -> Result<AggregateOrder> {
        let mut targets = vec![self.target(expr, "".into(), 0)?];
        let mut clauses = Vec::new();
        self.add_sort_clause(sort, 0, &mut targets, &mut clauses)?;
        match (targets.pop(), clauses.pop()) {
            (Some(target), Some(clause)) => Ok(AggregateOrder {
                expr: target.expr,
                sort_operator: clause.sort_operator,
                descending: clause.descending,
                nulls_first: clause.nulls_first,
            }),
            _ => Err(cairn_types::Error::internal("ORDER BY without a clause")),
        }
    }

    /// agg(distinct x order by y): y must be x.
    fn check_distinct(&self, args: &[Expr], order: &[AggregateOrder], location: Location) -> Result<()> {
        if args.is_empty() {
            return Err(err!(INVALID_COLUMN_REFERENCE, "DISTINCT aggregate must have at least one argument")
                .at(location));
        }
        for item in order {
            if !args.iter().any(|arg| crate::compare::same(arg, &item.expr)) {
                return Err(err!(
                    INVALID_COLUMN_REFERENCE,
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list"
                )
                .at(expr_location(&item.expr)));
            }
        }
        for arg in args {
            let ty = expr_type(arg).oid;
            if self.lookup.sort_operators(ty).is_none() {
                return Err(err!(
                    UNDEFINED_FUNCTION,
                    "could not identify an equality operator for type {}",
                    self.type_text(ty)
                )
                .at(expr_location(arg)));
            }
        }
        Ok(())
    }

    /// Whether an aggregate (or GROUPING) is welcome in the clause. Errors: 42803.
    fn check_aggregate_place(
        &self,
        kind: ExprKind,
        level: usize,
        location: Location,
        grouping: bool,
    ) -> Result<()> {
        let what = if grouping { "grouping operations" } else { "aggregate functions" };
        let message = match kind {
            ExprKind::SelectTarget | ExprKind::Having | ExprKind::OrderBy | ExprKind::DistinctOn => {
                return Ok(());
            }
            ExprKind::WindowPartition | ExprKind::WindowOrder => return Ok(()),
            ExprKind::Other if level == 0 && !self.levels()[level].range_table.is_empty() => return Ok(()),
            ExprKind::JoinOn | ExprKind::JoinUsing => format!("{what} are not allowed in JOIN conditions"),
            ExprKind::FromSubselect => {
                format!("{what} are not allowed in FROM clause of their own query level")
            }
            ExprKind::FromFunction => format!("{what} are not allowed in functions in FROM"),
            ExprKind::WindowFrameRange => format!("{what} are not allowed in window RANGE"),
            ExprKind::WindowFrameRows => format!("{what} are not allowed in window ROWS"),
            ExprKind::WindowFrameGroups => format!("{what} are not allowed in window GROUPS"),
            other => format!("{what} are not allowed in {}", other.phrase()),
        };
        let _ = level;
        Err(err!(GROUPING_ERROR, "{message}").at(location))
    }

    pub(crate) fn grouping_function(&mut self, grouping: &protobuf::GroupingFunc) -> Result<Expr> {
        let mut args = Vec::with_capacity(grouping.args.len());
        if grouping.args.len() > 31 {
            return Err(
                err!(TOO_MANY_ARGUMENTS, "GROUPING must have fewer than 32 arguments").at(grouping.location)
            );
        }
        for node in &grouping.args {
            args.push(self.expression_inner(super::names::inner(node)?)?);
        }
        let level = self.levels().len() - 1;
        let kind = self.level_ref().kind;
        self.check_aggregate_place(kind, level, grouping.location, true)?;
        // The references are found once GROUP BY is known.
        Ok(Expr::Grouping { args, references: Vec::new(), location: grouping.location })
    }
}

/// What lies inside of an aggregate call.
struct Inside {
    /// Smallest number of levels up of any column or aggregate in it.
    level: Option<u32>,
    nested: Option<Location>,
    window: Option<Location>,
    set: Option<Location>,
}

impl Inside {
    fn of(call: &AggregateCall) -> Inside {
        let mut inside = Inside { level: None, nested: None, window: None, set: None };
        let mut nested_levels: Vec<(u32, Location)> = Vec::new();
        let mut visit = |expr: &Expr, depth: u32| {
            let mut at_level = |levels_up: u32| {
                // Columns of queries inside of the call do not count.
                if let Some(above) = levels_up.checked_sub(depth) {
                    inside.level = Some(inside.level.map_or(above, |level| level.min(above)));
                }
            };
            match expr {
                Expr::Var(var) => at_level(var.levels_up),
                Expr::Aggregate(nested) => {
                    if let Some(above) = nested.levels_up.checked_sub(depth) {
                        nested_levels.push((above, nested.location));
                        at_level(nested.levels_up);
                    }
                }
                Expr::Window(window) if depth == 0 => inside.window = Some(window.location),
                other if depth == 0 && super::returns_set(other) => inside.set = Some(expr_location(other)),
                _ => {}
            }
        };
        for expr in
            call.args.iter().chain(call.order.iter().map(|order| &order.expr)).chain(call.filter.as_ref())
        {
            crate::walk::deep(expr, 0, &mut visit);
        }
        // Direct arguments are evaluated once a group: columns of deeper levels than the call's are refused later.
        for expr in &call.direct_args {
            crate::walk::deep(expr, 0, &mut visit);
        }
        let level = inside.level.unwrap_or(0);
        inside.nested =
            nested_levels.iter().find(|(above, _)| *above == level).map(|(_, location)| *location);
        inside
    }
}
