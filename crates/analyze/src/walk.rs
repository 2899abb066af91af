//! Visiting the expressions of a query tree.
//!
//! The visitors go one step: [`children`] hands out an expression's direct operands, [`query_expressions`] the
//! expressions that hang directly on a query, [`query_subqueries`] the queries nested in its range table and WITH
//! list. A caller recurses as its question needs, and decides at each [`Expr::SubLink`] whether to enter
//! the query (which lies one level deeper, so that a Var of ours has `levels_up` 1 there).

use crate::query::*;

macro_rules! visitors {
    ($children:ident, $query_expressions:ident, $query_subqueries:ident, $($m:tt)?) => {
        /// Calls `f` with each direct operand; a sublink's query is not entered.
        pub fn $children<'a>(expr: &'a $($m)? Expr, f: &mut dyn FnMut(&'a $($m)? Expr)) {
            match expr {
                Expr::Const { .. }
                | Expr::Var(_)
                | Expr::Param { .. }
                | Expr::TestValue { .. }
                | Expr::SqlValue { .. }
                | Expr::Default { .. }
                | Expr::CurrentOf { .. }
                | Expr::NextValue { .. } => {}
                Expr::Function(call) => visitors!(@each call.args, f, $($m)?),
                Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => {
                    visitors!(@each call.args, f, $($m)?)
                }
                Expr::ArrayOperator(call) => {
                    f(& $($m)? call.left);
                    f(& $($m)? call.array);
                }
                Expr::And(args) | Expr::Or(args) => visitors!(@each args, f, $($m)?),
                Expr::Not(arg)
                | Expr::Field { record: arg, .. }
                | Expr::Relabel { arg, .. }
                | Expr::CoerceViaIo { arg, .. }
                | Expr::ConvertRow { arg, .. }
                | Expr::CoerceToDomain { arg, .. }
                | Expr::Collate { arg, .. }
                | Expr::NullTest { arg, .. }
                | Expr::BooleanTest { arg, .. } => f(arg),
                Expr::ArrayCoerce { arg, element, .. } => {
                    f(arg);
                    f(element);
                }
                Expr::SubLink(link) => match & $($m)? link.kind {
                    SubLinkKind::Any(comparison) | SubLinkKind::All(comparison) => {
                        visitors!(@each comparison.left, f, $($m)?);
                        visitors!(@each comparison.right_casts, f, $($m)?);
                    }
                    SubLinkKind::Exists
                    | SubLinkKind::Expr
                    | SubLinkKind::Row
                    | SubLinkKind::RowSource
                    | SubLinkKind::Array => {}
                },
                Expr::Aggregate(call) => {
                    visitors!(@each call.direct_args, f, $($m)?);
                    visitors!(@each call.args, f, $($m)?);
                    for order in & $($m)? call.order {
                        f(& $($m)? order.expr);
                    }
                    if let Some(filter) = & $($m)? call.filter {
                        f(filter);
                    }
                }
                Expr::Window(call) => {
                    visitors!(@each call.args, f, $($m)?);
                    if let Some(filter) = & $($m)? call.filter {
                        f(filter);
                    }
                }
                Expr::Grouping { args, .. } => visitors!(@each args, f, $($m)?),
                Expr::Subscript(subscript) => {
                    f(& $($m)? subscript.container);
                    for index in & $($m)? subscript.upper {
                        if let Some(index) = index {
                            f(index);
                        }
                    }
                    for index in & $($m)? subscript.lower {
                        if let Some(index) = index {
                            f(index);
                        }
                    }
                    if let Some(value) = & $($m)? subscript.assignment {
                        f(value);
                    }
                }
                Expr::Case(case) => {
                    if let Some(arg) = & $($m)? case.arg {
                        f(arg);
                    }
                    for (when, then) in & $($m)? case.whens {
                        f(when);
                        f(then);
                    }
                    f(& $($m)? case.default);
                }
                Expr::Array { elements, .. } => visitors!(@each elements, f, $($m)?),
                Expr::Row { fields, .. } => visitors!(@each fields, f, $($m)?),
                Expr::RowCompare { left, right, .. } => {
                    visitors!(@each left, f, $($m)?);
                    visitors!(@each right, f, $($m)?);
                }
                Expr::Coalesce { args, .. } | Expr::MinMax { args, .. } => visitors!(@each args, f, $($m)?),
            }
        }

        /// Calls `f` with each expression that hangs directly on the query: targets, conditions, function calls and
        /// VALUES lists of the range table, join conditions, limits, RETURNING, ON CONFLICT, window frames.
        pub fn $query_expressions<'a>(query: &'a $($m)? Query, f: &mut dyn FnMut(&'a $($m)? Expr)) {
            for entry in & $($m)? query.range_table {
                match & $($m)? entry.kind {
                    RangeTableKind::Relation { sample: Some(sample), .. } => {
                        visitors!(@each sample.args, f, $($m)?);
                        if let Some(seed) = & $($m)? sample.repeatable {
                            f(seed);
                        }
                    }
                    RangeTableKind::Function { functions, .. } => {
                        for function in functions {
                            f(& $($m)? function.call);
                        }
                    }
                    RangeTableKind::Values { rows } => {
                        for row in rows {
                            visitors!(@each row, f, $($m)?);
                        }
                    }
                    RangeTableKind::Join { columns, .. } => visitors!(@each columns, f, $($m)?),
                    RangeTableKind::Relation { sample: None, .. }
                    | RangeTableKind::Subquery { .. }
                    | RangeTableKind::Cte { .. }
                    | RangeTableKind::Result => {}
                }
            }
            let mut pending: Vec<&'a $($m)? JoinTree> = Vec::new();
            for item in & $($m)? query.from {
                pending.push(item);
            }
            while let Some(item) = pending.pop() {
                if let JoinTree::Join { left, right, condition, .. } = item {
                    if let Some(condition) = condition {
                        f(condition);
                    }
                    pending.push(right);
                    pending.push(left);
                }
            }
            if let Some(filter) = & $($m)? query.filter {
                f(filter);
            }
            for target in & $($m)? query.targets {
                f(& $($m)? target.expr);
            }
            if let Some(conflict) = & $($m)? query.on_conflict {
                if let Some(partial) = & $($m)? conflict.partial {
                    f(& $($m)? partial.condition);
                }
                if let Some(update) = & $($m)? conflict.update {
                    for target in & $($m)? update.targets {
                        f(& $($m)? target.expr);
                    }
                    if let Some(filter) = & $($m)? update.filter {
                        f(filter);
                    }
                }
            }
            for target in & $($m)? query.returning {
                f(& $($m)? target.expr);
            }
            if let Some(having) = & $($m)? query.having {
                f(having);
            }
            for window in & $($m)? query.windows {
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = & $($m)? window.frame.start {
                    f(offset);
                }
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = & $($m)? window.frame.end {
                    f(offset);
                }
            }
            if let Some(offset) = & $($m)? query.offset {
                f(offset);
            }
            if let Some(limit) = & $($m)? query.limit {
                f(limit);
            }
        }

        /// Calls `f` with the queries one level down: those of the range table and of WITH.
        pub fn $query_subqueries<'a>(query: &'a $($m)? Query, f: &mut dyn FnMut(&'a $($m)? Query)) {
            for entry in & $($m)? query.range_table {
                if let RangeTableKind::Subquery { query, .. } = & $($m)? entry.kind {
                    f(query);
                }
            }
            for cte in & $($m)? query.ctes {
                f(& $($m)? cte.query);
            }
        }
    };
    (@each $list:expr, $f:ident, $($m:tt)?) => {
        for item in & $($m)? *$list {
            $f(item);
        }
    };
}

visitors!(children, query_expressions, query_subqueries,);
visitors!(children_mut, query_expressions_mut, query_subqueries_mut, mut);

/// Whether `test` holds for the expression or any operand below it; sublinks' queries are not entered.
pub fn any(expr: &Expr, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
    if test(expr) {
        return true;
    }
    let mut found = false;
    children(expr, &mut |child| found = found || any(child, test));
    found
}

/// Calls `f` with every expression that belongs to query level `level` or refers to it, at any depth: `f` gets the
/// expression and the number of query levels between it and the starting point.
pub fn deep(expr: &Expr, level: u32, f: &mut dyn FnMut(&Expr, u32)) {
    f(expr, level);
    children(expr, &mut |child| deep(child, level, f));
    if let Expr::SubLink(link) = expr {
        deep_query(&link.query, level + 1, f);
    }
}

/// [`deep`] for a whole query, whose own expressions are at `level`.
pub fn deep_query(query: &Query, level: u32, f: &mut dyn FnMut(&Expr, u32)) {
    query_expressions(query, &mut |expr| deep(expr, level, f));
    query_subqueries(query, &mut |query| deep_query(query, level + 1, f));
}

/// [`deep`] over a tree that may be changed; `f` runs before an expression's operands are visited.
pub fn deep_mut(expr: &mut Expr, level: u32, f: &mut dyn FnMut(&mut Expr, u32)) {
    f(expr, level);
    children_mut(expr, &mut |child| deep_mut(child, level, f));
    if let Expr::SubLink(link) = expr {
        deep_query_mut(&mut link.query, level + 1, f);
    }
}

pub fn deep_query_mut(query: &mut Query, level: u32, f: &mut dyn FnMut(&mut Expr, u32)) {
    query_expressions_mut(query, &mut |expr| deep_mut(expr, level, f));
    query_subqueries_mut(query, &mut |query| deep_query_mut(query, level + 1, f));
}

/// Adds `delta` to `levels_up` of every Var and aggregate that reaches out of the expression: for moving it into a
/// query that lies `delta` levels deeper. References to WITH queries are not moved.
pub fn raise_levels(expr: &mut Expr, delta: u32) {
    if delta == 0 {
        return;
    }
    deep_mut(expr, 0, &mut |expr, level| match expr {
        Expr::Var(var) if var.levels_up >= level => var.levels_up += delta,
        Expr::Aggregate(call) if call.levels_up >= level && level > 0 => call.levels_up += delta,
        _ => {}
    });
}
