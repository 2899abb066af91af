//! Whether two analyzed expressions say the same, whatever their place in the text: GROUP BY keys and their uses,
//! index expressions, partial index predicates.

use cairn_analyze::query::{AggregateCall, Expr, FunctionCall, OperatorCall, Var};
use cairn_types::{Datum, compare};

fn all(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn option(a: Option<&Expr>, b: Option<&Expr>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b),
        _ => false,
    }
}

fn options(a: &[Option<Expr>], b: &[Option<Expr>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| option(a.as_ref(), b.as_ref()))
}

fn vars(a: &Var, b: &Var) -> bool {
    a.varno == b.varno && a.attno == b.attno && a.levels_up == b.levels_up
}

fn functions(a: &FunctionCall, b: &FunctionCall) -> bool {
    a.function == b.function
        && a.variadic == b.variadic
        && a.collation == b.collation
        && all(&a.args, &b.args)
}

fn operators(a: &OperatorCall, b: &OperatorCall) -> bool {
    a.operator == b.operator && a.collation == b.collation && all(&a.args, &b.args)
}

pub fn same_constants(a: &Datum, b: &Datum) -> bool {
    if a.is_null() || b.is_null() {
        return a.is_null() && b.is_null();
    }
    std::mem::discriminant(a) == std::mem::discriminant(b)
        && compare::equal(a, b, false)
        // 1.0 and 1.00 are equal and yet print differently.
        && (!matches!(a, Datum::Numeric(_)) || format!("{a:?}") == format!("{b:?}"))
}

pub fn same_aggregates(a: &AggregateCall, b: &AggregateCall) -> bool {
    a.function == b.function
        && a.star == b.star
        && a.distinct == b.distinct
        && a.variadic == b.variadic
        && a.collation == b.collation
        && a.levels_up == b.levels_up
        && all(&a.direct_args, &b.direct_args)
        && all(&a.args, &b.args)
        && option(a.filter.as_ref(), b.filter.as_ref())
        && a.order.len() == b.order.len()
        && a.order.iter().zip(&b.order).all(|(a, b)| {
            a.sort_operator == b.sort_operator && a.nulls_first == b.nulls_first && same(&a.expr, &b.expr)
        })
}

/// Structural equality. Subqueries are never taken for equal.
pub fn same(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Const { value: a, ty: at, .. }, Expr::Const { value: b, ty: bt, .. }) => {
            at.oid == bt.oid && same_constants(a, b)
        }
        (Expr::Var(a), Expr::Var(b)) => vars(a, b),
        (Expr::Param { number: a, .. }, Expr::Param { number: b, .. }) => a == b,
        (Expr::Function(a), Expr::Function(b)) => functions(a, b),
        (Expr::Operator(a), Expr::Operator(b))
        | (Expr::DistinctFrom(a), Expr::DistinctFrom(b))
        | (Expr::NullIf(a), Expr::NullIf(b)) => operators(a, b),
        (Expr::ArrayOperator(a), Expr::ArrayOperator(b)) => {
            a.operator == b.operator && a.any == b.any && same(&a.left, &b.left) && same(&a.array, &b.array)
        }
        (Expr::And(a), Expr::And(b)) | (Expr::Or(a), Expr::Or(b)) => all(a, b),
        (Expr::Not(a), Expr::Not(b)) => same(a, b),
        (Expr::SubLink(_), Expr::SubLink(_)) => std::ptr::eq(a, b) || cairn_analyze::compare::same(a, b),
        (Expr::Aggregate(a), Expr::Aggregate(b)) => same_aggregates(a, b),
        (Expr::Window(a), Expr::Window(b)) => {
            a.function == b.function
                && a.window == b.window
                && a.star == b.star
                && all(&a.args, &b.args)
                && option(a.filter.as_ref(), b.filter.as_ref())
        }
        (Expr::Grouping { references: a, .. }, Expr::Grouping { references: b, .. }) => a == b,
        (Expr::Subscript(a), Expr::Subscript(b)) => {
            a.slice == b.slice
                && same(&a.container, &b.container)
                && options(&a.upper, &b.upper)
                && options(&a.lower, &b.lower)
                && option(a.assignment.as_ref(), b.assignment.as_ref())
        }
        (Expr::Field { record: a, number: an, .. }, Expr::Field { record: b, number: bn, .. }) => {
            an == bn && same(a, b)
        }
        (Expr::Relabel { arg: a, ty: at, .. }, Expr::Relabel { arg: b, ty: bt, .. })
        | (Expr::CoerceViaIo { arg: a, ty: at, .. }, Expr::CoerceViaIo { arg: b, ty: bt, .. })
        | (Expr::ConvertRow { arg: a, ty: at, .. }, Expr::ConvertRow { arg: b, ty: bt, .. })
        | (Expr::CoerceToDomain { arg: a, ty: at, .. }, Expr::CoerceToDomain { arg: b, ty: bt, .. }) => {
            at.oid == bt.oid && at.typmod == bt.typmod && same(a, b)
        }
        (
            Expr::ArrayCoerce { arg: a, element: ae, ty: at, .. },
            Expr::ArrayCoerce { arg: b, element: be, ty: bt, .. },
        ) => at == bt && same(a, b) && same(ae, be),
        (Expr::TestValue { ty: a }, Expr::TestValue { ty: b }) => a.oid == b.oid,
        (Expr::Collate { arg: a, collation: ac, .. }, Expr::Collate { arg: b, collation: bc, .. }) => {
            ac == bc && same(a, b)
        }
        (Expr::Case(a), Expr::Case(b)) => {
            option(a.arg.as_ref(), b.arg.as_ref())
                && a.whens.len() == b.whens.len()
                && a.whens.iter().zip(&b.whens).all(|(a, b)| same(&a.0, &b.0) && same(&a.1, &b.1))
                && same(&a.default, &b.default)
        }
        (Expr::Array { elements: a, ty: at, .. }, Expr::Array { elements: b, ty: bt, .. }) => {
            at.oid == bt.oid && all(a, b)
        }
        (Expr::Row { fields: a, ty: at, .. }, Expr::Row { fields: b, ty: bt, .. }) => {
            at.oid == bt.oid && all(a, b)
        }
        (
            Expr::RowCompare { operators: ao, left: al, right: ar, .. },
            Expr::RowCompare { operators: bo, left: bl, right: br, .. },
        ) => ao == bo && all(al, bl) && all(ar, br),
        (Expr::Coalesce { args: a, .. }, Expr::Coalesce { args: b, .. }) => all(a, b),
        (Expr::MinMax { greatest: ag, args: a, .. }, Expr::MinMax { greatest: bg, args: b, .. }) => {
            ag == bg && all(a, b)
        }
        (Expr::SqlValue { function: a, ty: at, .. }, Expr::SqlValue { function: b, ty: bt, .. }) => {
            a == b && at == bt
        }
        (Expr::NullTest { arg: a, is_null: an, .. }, Expr::NullTest { arg: b, is_null: bn, .. }) => {
            an == bn && same(a, b)
        }
        (Expr::BooleanTest { arg: a, test: at, .. }, Expr::BooleanTest { arg: b, test: bt, .. }) => {
            at == bt && same(a, b)
        }
        _ => false,
    }
}
