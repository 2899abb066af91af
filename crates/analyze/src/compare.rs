//! Whether two expressions are the same, positions and the way casts were written left aside.

use cairn_types::Datum;

use crate::query::*;

/// Structural equality of expressions, as GROUP BY and ORDER BY compare them with the select list.
pub fn same(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Const { value: x, ty: s, .. }, Expr::Const { value: y, ty: t, .. }) => {
            s == t && same_datum(x, y)
        }
        (Expr::Var(x), Expr::Var(y)) => same_var(x, y),
        (Expr::Param { number: x, ty: s, .. }, Expr::Param { number: y, ty: t, .. }) => {
            x == y && s.oid == t.oid
        }
        (Expr::Function(x), Expr::Function(y)) => {
            x.function == y.function
                && x.ty.oid == y.ty.oid
                && x.variadic == y.variadic
                && all(&x.args, &y.args)
        }
        (Expr::Operator(x), Expr::Operator(y))
        | (Expr::DistinctFrom(x), Expr::DistinctFrom(y))
        | (Expr::NullIf(x), Expr::NullIf(y)) => x.operator == y.operator && all(&x.args, &y.args),
        (Expr::ArrayOperator(x), Expr::ArrayOperator(y)) => {
            x.operator == y.operator && x.any == y.any && same(&x.left, &y.left) && same(&x.array, &y.array)
        }
        (Expr::And(x), Expr::And(y)) | (Expr::Or(x), Expr::Or(y)) => all(x, y),
        (Expr::Not(x), Expr::Not(y)) => same(x, y),
        (Expr::Aggregate(x), Expr::Aggregate(y)) => {
            x.function == y.function
                && x.star == y.star
                && x.distinct == y.distinct
                && x.levels_up == y.levels_up
                && all(&x.direct_args, &y.direct_args)
                && all(&x.args, &y.args)
                && x.order.len() == y.order.len()
                && x.order.iter().zip(&y.order).all(|(a, b)| {
                    a.sort_operator == b.sort_operator
                        && a.nulls_first == b.nulls_first
                        && same(&a.expr, &b.expr)
                })
                && match (&x.filter, &y.filter) {
                    (None, None) => true,
                    (Some(x), Some(y)) => same(x, y),
                    _ => false,
                }
        }
        (Expr::Window(x), Expr::Window(y)) => {
            x.function == y.function
                && x.window == y.window
                && x.star == y.star
                && all(&x.args, &y.args)
                && match (&x.filter, &y.filter) {
                    (None, None) => true,
                    (Some(x), Some(y)) => same(x, y),
                    _ => false,
                }
        }
        (Expr::Grouping { args: x, .. }, Expr::Grouping { args: y, .. }) => all(x, y),
        (Expr::Subscript(x), Expr::Subscript(y)) => {
            let options = |x: &[Option<Expr>], y: &[Option<Expr>]| {
                x.len() == y.len()
                    && x.iter().zip(y).all(|pair| match pair {
                        (None, None) => true,
                        (Some(x), Some(y)) => same(x, y),
                        _ => false,
                    })
            };
            x.slice == y.slice
                && x.assignment.is_none()
                && y.assignment.is_none()
                && same(&x.container, &y.container)
                && options(&x.upper, &y.upper)
                && options(&x.lower, &y.lower)
        }
        (Expr::Field { record: x, number: m, .. }, Expr::Field { record: y, number: n, .. }) => {
            m == n && same(x, y)
        }
        (Expr::Relabel { arg: x, ty: s, .. }, Expr::Relabel { arg: y, ty: t, .. })
        | (Expr::CoerceViaIo { arg: x, ty: s, .. }, Expr::CoerceViaIo { arg: y, ty: t, .. })
        | (Expr::ConvertRow { arg: x, ty: s, .. }, Expr::ConvertRow { arg: y, ty: t, .. })
        | (Expr::CoerceToDomain { arg: x, ty: s, .. }, Expr::CoerceToDomain { arg: y, ty: t, .. }) => {
            s.oid == t.oid && s.typmod == t.typmod && same(x, y)
        }
        (
            Expr::ArrayCoerce { arg: x, element: e, ty: s, .. },
            Expr::ArrayCoerce { arg: y, element: f, ty: t, .. },
        ) => s.oid == t.oid && s.typmod == t.typmod && same(x, y) && same(e, f),
        (Expr::TestValue { ty: s }, Expr::TestValue { ty: t }) => s.oid == t.oid,
        (Expr::Collate { arg: x, collation: c, .. }, Expr::Collate { arg: y, collation: d, .. }) => {
            c == d && same(x, y)
        }
        (Expr::Case(x), Expr::Case(y)) => {
            x.ty.oid == y.ty.oid
                && match (&x.arg, &y.arg) {
                    (None, None) => true,
                    (Some(x), Some(y)) => same(x, y),
                    _ => false,
                }
                && x.whens.len() == y.whens.len()
                && x.whens.iter().zip(&y.whens).all(|((a, b), (c, d))| same(a, c) && same(b, d))
                && same(&x.default, &y.default)
        }
        (Expr::Array { elements: x, ty: s, .. }, Expr::Array { elements: y, ty: t, .. })
        | (Expr::Row { fields: x, ty: s, .. }, Expr::Row { fields: y, ty: t, .. })
        | (Expr::Coalesce { args: x, ty: s, .. }, Expr::Coalesce { args: y, ty: t, .. }) => {
            s.oid == t.oid && all(x, y)
        }
        (
            Expr::RowCompare { strategy: s, operators: o, left: a, right: b, .. },
            Expr::RowCompare { strategy: t, operators: p, left: c, right: d, .. },
        ) => s == t && o == p && all(a, c) && all(b, d),
        (Expr::MinMax { greatest: g, args: x, .. }, Expr::MinMax { greatest: h, args: y, .. }) => {
            g == h && all(x, y)
        }
        (Expr::SqlValue { function: x, ty: s, .. }, Expr::SqlValue { function: y, ty: t, .. }) => {
            x == y && s.typmod == t.typmod
        }
        (Expr::NullTest { arg: x, is_null: m, .. }, Expr::NullTest { arg: y, is_null: n, .. }) => {
            m == n && same(x, y)
        }
        (Expr::BooleanTest { arg: x, test: m, .. }, Expr::BooleanTest { arg: y, test: n, .. }) => {
            m == n && same(x, y)
        }
        (Expr::SubLink(x), Expr::SubLink(y)) => same_sublink(x, y),
        _ => false,
    }
}

/// Subqueries are compared as a whole, in a form without positions. This is slow, and rare.
fn same_sublink(a: &SubLink, b: &SubLink) -> bool {
    if a.ty.oid != b.ty.oid || a.query.range_table.len() != b.query.range_table.len() {
        return false;
    }
    let plain = |link: &SubLink| {
        let mut expr = Expr::SubLink(Box::new(link.clone()));
        crate::analyzer::forget_locations(&mut expr);
        format!("{expr:?}")
    };
    plain(a) == plain(b)
}

fn all(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Two Vars of one column.
pub fn same_var(a: &Var, b: &Var) -> bool {
    a.varno == b.varno && a.attno == b.attno && a.levels_up == b.levels_up
}

/// Identity of constants, not SQL equality: null is itself, 1.0 is not 1.00.
fn same_datum(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Null, Datum::Null) => true,
        (Datum::Bool(x), Datum::Bool(y)) => x == y,
        (Datum::Char(x), Datum::Char(y)) => x == y,
        (Datum::Int2(x), Datum::Int2(y)) => x == y,
        (Datum::Int4(x), Datum::Int4(y)) => x == y,
        (Datum::Int8(x), Datum::Int8(y)) => x == y,
        (Datum::Oid(x), Datum::Oid(y)) => x == y,
        (Datum::UInt8(x), Datum::UInt8(y)) => x == y,
        (Datum::Float4(x), Datum::Float4(y)) => x.to_bits() == y.to_bits(),
        (Datum::Float8(x), Datum::Float8(y)) => x.to_bits() == y.to_bits(),
        (Datum::Text(x), Datum::Text(y)) => x == y,
        (Datum::Bytea(x), Datum::Bytea(y)) => x == y,
        (Datum::Date(x), Datum::Date(y)) => x == y,
        (Datum::Time(x), Datum::Time(y))
        | (Datum::Timestamp(x), Datum::Timestamp(y))
        | (Datum::TimestampTz(x), Datum::TimestampTz(y)) => x == y,
        (Datum::TimeTz(x), Datum::TimeTz(y)) => x == y,
        (Datum::Interval(x), Datum::Interval(y)) => x == y,
        (Datum::Uuid(x), Datum::Uuid(y)) => x == y,
        (Datum::Enum(x), Datum::Enum(y)) => x.oid == y.oid,
        (Datum::Tid(x), Datum::Tid(y)) => x == y,
        (Datum::Array(x), Datum::Array(y)) => {
            x.element_type == y.element_type
                && x.dimensions == y.dimensions
                && x.elements.len() == y.elements.len()
                && x.elements.iter().zip(&y.elements).all(|(x, y)| same_datum(x, y))
        }
        // The rest has a text form that tells all of it.
        (Datum::Numeric(x), Datum::Numeric(y)) => x.to_string() == y.to_string(),
        (Datum::Jsonb(x), Datum::Jsonb(y)) => std::sync::Arc::ptr_eq(x, y),
        (Datum::Record(x), Datum::Record(y)) => std::sync::Arc::ptr_eq(x, y),
        _ => false,
    }
}
