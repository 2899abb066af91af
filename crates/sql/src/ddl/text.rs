//! Expressions and queries as the catalog stores them: canonical SQL text.
//!
//! Stored text is resolved with `pg_catalog` alone in the search path, so everything of users is written with its schema;
//! objects in constants of reg* types are written as numbers, because the text must survive their renaming.
//! What else is renamed makes [`super::rename`] write the texts anew.

use std::sync::Arc;

use cairn_analyze::deparse::{
    DeparseContext, Form, RelationColumns, VarNames, deparse_expression, deparse_query,
};
use cairn_analyze::query::{Expr, Query, Statement, Var};
use cairn_analyze::{
    AnalyzeContext, ExprKind, NameConflict, ParamResolver, Parameters, analyze_column_expression,
    analyze_condition,
};
use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::{Catalog, Relation, SearchPath, TypeRef};
use cairn_types::{Env, Result, types};
use pg_query::protobuf::Node;

use super::context::DdlContext;

/// What stored text is read in.
pub fn stored_context<'a>(
    catalog: &'a Catalog,
    path: &'a SearchPath,
    env: &'a dyn Env,
) -> AnalyzeContext<'a> {
    AnalyzeContext { catalog, search_path: path, env, parameters: Parameters::None }
}

/// Names for expressions that stand on no relation.
struct NoColumns;

impl VarNames for NoColumns {
    fn name(&self, var: &Var) -> String {
        format!("column {}", var.attno)
    }
}

/// Canonical text of an expression over a relation's columns, for the catalog.
pub fn stored_expression(
    expr: &Expr,
    relation: Option<&Arc<Relation>>,
    catalog: &Catalog,
    env: &dyn Env,
) -> Result<String> {
    let path = SearchPath::pg_catalog();
    let context = DeparseContext { catalog, path: &path, env, form: Form::Canonical };
    Ok(match relation {
        Some(relation) => deparse_expression(expr, &RelationColumns(relation), &context),
        None => deparse_expression(expr, &NoColumns, &context),
    })
}

/// Canonical text of what a column's value comes from: a default (over no relation), or a generated column's expression.
/// Using it coerces it to the column's type once more, as an assignment; so the implicit casts around it are left out,
/// and `default 0.00` of a numeric(10,2) column is shown as it was written.
pub fn stored_value(
    expr: &Expr,
    relation: Option<&Arc<Relation>>,
    catalog: &Catalog,
    env: &dyn Env,
) -> Result<String> {
    stored_expression(cairn_analyze::deparse::without_implicit_casts(expr), relation, catalog, env)
}

/// Canonical text of a query, for the catalog.
pub fn stored_query(query: &Query, catalog: &Catalog, env: &dyn Env) -> Result<String> {
    let path = SearchPath::pg_catalog();
    Ok(deparse_query(query, &DeparseContext { catalog, path: &path, env, form: Form::Canonical }))
}

/// Analyzes stored text over a relation.
pub fn read_expression(
    text: &str,
    relation: Option<&Arc<Relation>>,
    catalog: &Catalog,
    env: &dyn Env,
) -> Result<Expr> {
    let path = SearchPath::pg_catalog();
    cairn_analyze::analyze_expression(text, relation, &stored_context(catalog, &path, env))
}

/// Reads a stored query.
pub fn read_query(text: &str, catalog: &Catalog, env: &dyn Env) -> Result<Query> {
    let path = SearchPath::pg_catalog();
    let context = stored_context(catalog, &path, env);
    let statements = cairn_analyze::parse::parse(text)?;
    let [statement] = statements.as_slice() else {
        return Err(cairn_types::Error::corrupted("a stored query is not one statement"));
    };
    match cairn_analyze::analyze(statement, &context)? {
        Statement::Query(query) => Ok(*query),
        _ => Err(cairn_types::Error::corrupted("a stored query is no query")),
    }
}

/// DEFAULT of a column: no column references, coerced to the column's type.
pub fn default_expression(cx: &DdlContext<'_>, node: &Node, column: &str, ty: TypeRef) -> Result<Expr> {
    analyze_column_expression(node, None, ExprKind::ColumnDefault, column, ty, &cx.analyze_context())
}

/// `generated always as (...) stored`.
pub fn generation_expression(
    cx: &DdlContext<'_>,
    node: &Node,
    relation: &Arc<Relation>,
    column: &str,
    ty: TypeRef,
) -> Result<Expr> {
    let expr = analyze_column_expression(
        node,
        Some(relation),
        ExprKind::GeneratedColumn,
        column,
        ty,
        &cx.analyze_context(),
    )?;
    let mut generated = None;
    let mut system = false;
    cairn_analyze::walk::deep(&expr, 0, &mut |expr, _| {
        if let Expr::Var(var) = expr {
            if var.attno < 0 {
                system = true;
            }
            let found = usize::try_from(var.attno - 1).ok().and_then(|at| relation.columns.get(at));
            if let Some(found) = found.filter(|found| found.generated || &*found.name == column) {
                generated = Some((found.name.clone(), var.location));
            }
        }
    });
    if let Some((name, location)) = generated {
        return Err(cairn_types::err!(
            INVALID_OBJECT_DEFINITION,
            "cannot use generated column \"{name}\" in column generation expression"
        )
        .detail("A generated column cannot reference another generated column.")
        .at(location));
    }
    if system {
        return Err(cairn_types::err!(
            INVALID_COLUMN_REFERENCE,
            "cannot use system column in column generation expression"
        ));
    }
    if volatility(&expr, &cx.catalog) != cairn_catalog::Volatility::Immutable {
        return Err(cairn_types::err!(INVALID_OBJECT_DEFINITION, "generation expression is not immutable"));
    }
    Ok(expr)
}

/// A condition over a relation's columns.
pub fn condition(
    cx: &DdlContext<'_>,
    node: &Node,
    relation: &Arc<Relation>,
    kind: ExprKind,
    construct: &str,
) -> Result<Expr> {
    analyze_condition(node, Some(relation), kind, construct, &cx.analyze_context())
}

/// The most volatile function in an expression decides.
pub fn volatility(expr: &Expr, catalog: &Catalog) -> cairn_catalog::Volatility {
    use cairn_catalog::Volatility;
    let mut result = Volatility::Immutable;
    let mut see = |function: cairn_types::Oid| match catalog.proc(function).map(|proc| proc.volatility) {
        Some(Volatility::Volatile) => result = Volatility::Volatile,
        Some(Volatility::Stable) if result == Volatility::Immutable => result = Volatility::Stable,
        _ => {}
    };
    let mut stable = false;
    let mut volatile = false;
    cairn_analyze::walk::deep(expr, 0, &mut |expr, _| match expr {
        Expr::Function(call) => see(call.function),
        Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => see(call.function),
        Expr::ArrayOperator(call) => see(call.function),
        Expr::Aggregate(call) => see(call.function),
        Expr::CoerceViaIo { arg, ty, .. } => {
            let source = cairn_analyze::expr_type(arg).oid;
            for (oid, input) in [(source, false), (ty.oid, true)] {
                if let Some(object) = catalog.type_by_oid(oid) {
                    see(if input { object.input } else { object.output });
                }
            }
        }
        Expr::SqlValue { .. } => stable = true,
        Expr::NextValue { .. } => volatile = true,
        _ => {}
    });
    if volatile {
        return Volatility::Volatile;
    }
    if stable && result == Volatility::Immutable { Volatility::Stable } else { result }
}

/// Attribute numbers of the relation's columns that an expression uses, ascending.
pub fn columns_used(expr: &Expr) -> Vec<i16> {
    let mut columns = Vec::new();
    cairn_analyze::walk::deep(expr, 0, &mut |expr, level| {
        if let Expr::Var(var) = expr
            && var.levels_up == level
            && !columns.contains(&var.attno)
        {
            columns.push(var.attno);
        }
    });
    columns.sort_unstable();
    columns
}

/// Type of a column: its oid, modifier and the collation it has by default.
pub fn type_ref(catalog: &Catalog, oid: cairn_types::Oid, typmod: i32) -> TypeRef {
    let collation = catalog.type_by_oid(oid).map_or(0, |object| object.collation);
    TypeRef { oid, typmod, collation }
}

/// Whether the type is one that columns can have. 42P16.
pub fn check_column_type(cx: &DdlContext<'_>, column: &str, oid: cairn_types::Oid) -> Result<()> {
    use cairn_catalog::TypeKind;
    let kind = cx.catalog.type_by_oid(oid).map(|object| object.kind);
    if kind == Some(TypeKind::Pseudo) && oid != types::UNKNOWN {
        return Err(cairn_types::err!(
            INVALID_TABLE_DEFINITION,
            "column \"{column}\" has pseudo-type {}",
            cx.catalog.type_name(oid, &cx.search_path)
        ));
    }
    check_type_usage(cx, oid)
}

/// 42501 unless the role may use the type; of an array, its elements' type counts.
pub fn check_type_usage(cx: &DdlContext<'_>, oid: cairn_types::Oid) -> Result<()> {
    if oid < cairn_types::oid::FIRST_USER_OID {
        return Ok(());
    }
    let element = cx.catalog.array_element(oid);
    cx.require(ObjectKind::Type, if element == 0 { oid } else { element }, acl::USAGE)
}

/// An expression as an assignment to a column of type `target` converts it; `None` where there is no way.
pub fn coerce(cx: &DdlContext<'_>, expr: Expr, target: TypeRef) -> Result<Option<Expr>> {
    let source = cairn_analyze::expr_type(&expr);
    let conversion = cairn_analyze::coercion_expression(
        source,
        target,
        cairn_analyze::Coercion::Assignment,
        &cx.analyze_context(),
    )?;
    let Some(mut conversion) = conversion else { return Ok(None) };
    let mut value = Some(expr);
    place(&mut conversion, &mut value);
    Ok(Some(conversion))
}

/// Puts the value in place of the conversion's [`Expr::TestValue`], the innermost of which is the operand.
fn place(conversion: &mut Expr, value: &mut Option<Expr>) {
    if matches!(conversion, Expr::TestValue { .. }) {
        if let Some(value) = value.take() {
            *conversion = value;
        }
        return;
    }
    match conversion {
        // The element conversion of an array has a value of its own.
        Expr::ArrayCoerce { arg, .. } => place(arg, value),
        other => cairn_analyze::walk::children_mut(other, &mut |child| {
            if value.is_some() {
                place(child, value);
            }
        }),
    }
}

/// [`coerce`] for a default that was stored under the column's type; 42804 should that have become impossible.
pub fn coerce_assignment(cx: &DdlContext<'_>, expr: Expr, column: &str, target: TypeRef) -> Result<Expr> {
    let source = cairn_analyze::expr_type(&expr).oid;
    coerce(cx, expr, target)?.ok_or_else(|| {
        cairn_types::err!(
            DATATYPE_MISMATCH,
            "column \"{column}\" is of type {} but default expression is of type {}",
            cx.catalog.type_name(target.oid, &cx.search_path),
            cx.catalog.type_name(source, &cx.search_path)
        )
    })
}

/// The value under check in a domain's constraint: the only name there is.
struct DomainValue(TypeRef);

impl ParamResolver for DomainValue {
    fn by_name(&self, name: &[&str]) -> Option<(u32, TypeRef)> {
        (name == ["value"]).then_some((1, self.0))
    }

    fn by_number(&self, _: u32) -> Option<TypeRef> {
        None
    }

    fn on_conflict(&self) -> NameConflict {
        NameConflict::UseVariable
    }
}

/// A CHECK of a domain; the value under check is a [`Var`] of range table index 0.
pub fn domain_check(cx: &DdlContext<'_>, node: &Node, domain: cairn_types::Oid) -> Result<Expr> {
    let base = cx.catalog.type_by_oid(domain).map_or((0, -1), |object| (object.base, object.base_typmod));
    let value = DomainValue(type_ref(&cx.catalog, base.0, base.1));
    let context = AnalyzeContext { parameters: Parameters::Resolver(&value), ..cx.analyze_context() };
    let mut expr = analyze_condition(node, None, ExprKind::DomainCheck, "CHECK", &context)?;
    cairn_analyze::walk::deep_mut(&mut expr, 0, &mut |expr, level| {
        if let Expr::Param { ty, location, .. } = expr {
            *expr = Expr::Var(Var { varno: 0, attno: 1, levels_up: level, ty: *ty, location: *location });
        }
    });
    Ok(expr)
}

struct ValueName;

impl VarNames for ValueName {
    fn name(&self, _: &Var) -> String {
        "VALUE".to_owned()
    }
}

/// Canonical text of a domain's CHECK.
pub fn stored_domain_expression(expr: &Expr, catalog: &Catalog, env: &dyn Env) -> Result<String> {
    let path = SearchPath::pg_catalog();
    let context = DeparseContext { catalog, path: &path, env, form: Form::Canonical };
    Ok(deparse_expression(expr, &ValueName, &context))
}
