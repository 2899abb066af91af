//! The analyzer: raw parse tree to query tree.
//!
//! [`Analyzer`] holds a stack of query levels, the outermost first; each has its range table and the names that are
//! visible at the moment ([`scope`]). The files follow the grammar: [`statement`] dispatches, [`select`], [`insert`],
//! [`update`] and their like build one [`Query`] each, [`from`] the range table, [`expression`] everything that has a
//! value, [`operators`] and [`functions`] resolve names over the catalog, [`coerce`] makes types fit. A last walk
//! ([`collate`]) decides collations.
//!
//! Rule: an expression that leaves the analyzer has no operand of type unknown, and every coercion in it is a node.

/// Returns early with an error at a position.
macro_rules! bail_at {
    ($location:expr, $state:ident, $($arg:tt)*) => {
        return Err(cairn_types::err!($state, $($arg)*).at($location))
    };
}

mod aggregates;
mod clauses;
pub(crate) mod coerce;
mod collate;
mod cte;
mod expression;
mod from;
mod functions;
mod grouping;
mod insert;
mod literal;
pub(crate) mod lookup;
pub(crate) mod names;
mod operators;
mod parameters;
mod polymorphic;
mod scope;
mod select;
mod set_operations;
mod statement;
mod sublinks;
mod targets;
mod type_names;
mod typmod;
mod update;
mod views;
mod windows;

use std::cell::RefCell;

use cairn_catalog::{Catalog, SearchPath, TypeRef};
use cairn_types::{Env, Oid, Result, types};

pub use coerce::Coercion;
pub use names::QualifiedName;
pub(crate) use type_names::forget_locations;

use crate::{parse::RawStatement, query::*};
use lookup::Lookup;
use scope::Level;

/// What a statement is analyzed against.
#[derive(Clone, Copy)]
pub struct AnalyzeContext<'a> {
    pub catalog: &'a Catalog,
    pub search_path: &'a SearchPath,
    pub env: &'a dyn Env,
    pub parameters: Parameters<'a>,
}

/// Where the types of `$n` come from.
#[derive(Clone, Copy)]
pub enum Parameters<'a> {
    /// There are none.
    None,
    /// Known types, by number from 1.
    Fixed(&'a [TypeRef]),
    /// Known where not 0 (or unknown); the others are inferred from context and written back. The list grows with the
    /// numbers that occur.
    Infer(&'a RefCell<Vec<Oid>>),
    /// plpgsql's variables, a SQL function's arguments.
    Resolver(&'a dyn ParamResolver),
}

/// Names and numbers that stand for values from outside of the statement.
pub trait ParamResolver {
    /// The variable of a dotted name (one to three parts, already folded): its parameter number and type. A name that
    /// is only a prefix (`record.field`) is asked for again without its last part.
    fn by_name(&self, name: &[&str]) -> Option<(u32, TypeRef)>;

    /// The type of `$number`.
    fn by_number(&self, number: u32) -> Option<TypeRef>;

    /// What to do about a name that is a column too.
    fn on_conflict(&self) -> NameConflict;
}

/// plpgsql's `variable_conflict`; a SQL function's arguments yield to columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameConflict {
    Error,
    UseVariable,
    UseColumn,
}

/// Analyzes one statement. Utility statements come back as they are.
///
/// Errors are PostgreSQL's, with the position in the statement's source.
pub fn analyze(statement: &RawStatement, context: &AnalyzeContext<'_>) -> Result<Statement> {
    let mut analyzer = Analyzer::new(context);
    let result = analyzer.statement(&statement.node)?;
    analyzer.check_inferred_parameters()?;
    Ok(result)
}

/// Analyzes an expression over the columns of a relation (from attribute 1, range table index 0), for defaults, checks,
/// index keys and predicates, generated columns; `relation` is `None` where no column may occur. The text is SQL as
/// [`crate::deparse`] prints it.
pub fn analyze_expression(
    text: &str,
    relation: Option<&std::sync::Arc<cairn_catalog::Relation>>,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let node = crate::parse::parse_expression(text)?;
    analyze_expression_node(&node, relation, ExprKind::Other, context)
}

/// [`analyze_expression`] of a parse tree, with the clause that it stands in.
pub fn analyze_expression_node(
    node: &pg_query::protobuf::Node,
    relation: Option<&std::sync::Arc<cairn_catalog::Relation>>,
    kind: ExprKind,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let mut analyzer = Analyzer::new(context);
    analyzer.push_level();
    if let Some(relation) = relation {
        analyzer.add_relation_scope(relation, None);
    }
    let mut expr = analyzer.expression_of_kind(Some(node), kind)?;
    analyzer.assign_expression_collations(&mut expr)?;
    Ok(expr)
}

/// [`analyze_expression`] of what the catalog keeps for a column: its default, or what it is generated from. The text
/// leaves out the casts that storing it implies; they are assignments (`varchar(3)` refuses what is too long).
pub fn analyze_stored_value(
    text: &str,
    relation: &std::sync::Arc<cairn_catalog::Relation>,
    column: &cairn_catalog::Column,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let node = crate::parse::parse_expression(text)?;
    let kind = if column.generated { ExprKind::GeneratedColumn } else { ExprKind::Other };
    analyze_column_expression(&node, Some(relation), kind, &column.name, column.ty, context)
}

/// Analyzes an expression and coerces it as an assignment to a column does: for DEFAULT and generated columns.
pub fn analyze_column_expression(
    node: &pg_query::protobuf::Node,
    relation: Option<&std::sync::Arc<cairn_catalog::Relation>>,
    kind: ExprKind,
    column: &str,
    ty: TypeRef,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let mut analyzer = Analyzer::new(context);
    analyzer.push_level();
    if let Some(relation) = relation {
        analyzer.add_relation_scope(relation, None);
    }
    let expr = analyzer.expression_of_kind(Some(node), kind)?;
    let source = expr_type(&expr).oid;
    let location = expr_location(&expr);
    let coerced = analyzer.coerce_to_target(
        expr,
        source,
        ty.oid,
        ty.typmod,
        Coercion::Assignment,
        CallForm::ImplicitCast,
        -1,
    )?;
    let mut expr = match coerced {
        Some(expr) => expr,
        None => {
            let what = if kind == ExprKind::GeneratedColumn {
                "generation expression"
            } else {
                "default expression"
            };
            return Err(cairn_types::err!(
                DATATYPE_MISMATCH,
                "column \"{column}\" is of type {} but {what} is of type {}",
                analyzer.type_text(ty.oid),
                analyzer.type_text(source)
            )
            .hint("You will need to rewrite or cast the expression.")
            .at(location));
        }
    };
    analyzer.assign_expression_collations(&mut expr)?;
    Ok(expr)
}

/// Analyzes an expression and makes it boolean: CHECK, WHERE of an index, WHEN of plpgsql.
pub fn analyze_condition(
    node: &pg_query::protobuf::Node,
    relation: Option<&std::sync::Arc<cairn_catalog::Relation>>,
    kind: ExprKind,
    construct: &str,
    context: &AnalyzeContext<'_>,
) -> Result<Expr> {
    let mut analyzer = Analyzer::new(context);
    analyzer.push_level();
    if let Some(relation) = relation {
        analyzer.add_relation_scope(relation, None);
    }
    let mut expr = analyzer.condition(node, kind, construct)?;
    analyzer.assign_expression_collations(&mut expr)?;
    Ok(expr)
}

/// Resolves a type name of the parse tree: its oid and modifier. Errors: 42704 and its kin.
pub fn resolve_type_name(
    name: &pg_query::protobuf::TypeName,
    context: &AnalyzeContext<'_>,
) -> Result<(Oid, i32)> {
    Analyzer::new(context).resolve_type(name)
}

/// Parses and resolves a type's name, for `regtype`, plpgsql declarations and casts in dynamic SQL.
pub fn parse_type_name(text: &str, context: &AnalyzeContext<'_>) -> Result<(Oid, i32)> {
    let name = crate::parse::parse_type_name(text)?;
    Analyzer::new(context).resolve_type(&name)
}

/// An expression that coerces [`Expr::TestValue`] of one type to another, as plpgsql's assignment does; `None` where
/// there is no way.
pub fn coercion_expression(
    source: TypeRef,
    target: TypeRef,
    how: Coercion,
    context: &AnalyzeContext<'_>,
) -> Result<Option<Expr>> {
    let mut analyzer = Analyzer::new(context);
    analyzer.push_level();
    let value = Expr::TestValue { ty: source };
    analyzer.coerce_to_target(value, source.oid, target.oid, target.typmod, how, CallForm::ImplicitCast, -1)
}

/// The clause that an expression stands in; it decides whether aggregates, window functions, set-returning functions
/// and subqueries are welcome, and how errors name the place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExprKind {
    /// Anything goes that makes sense nowhere in particular: standalone expressions.
    #[default]
    Other,
    JoinOn,
    JoinUsing,
    FromSubselect,
    FromFunction,
    Where,
    Having,
    Filter,
    WindowPartition,
    WindowOrder,
    WindowFrameRange,
    WindowFrameRows,
    WindowFrameGroups,
    SelectTarget,
    InsertTarget,
    UpdateSource,
    UpdateTarget,
    GroupBy,
    OrderBy,
    DistinctOn,
    Limit,
    Offset,
    Returning,
    Values,
    ValuesSingle,
    CheckConstraint,
    DomainCheck,
    ColumnDefault,
    FunctionDefault,
    IndexExpression,
    IndexPredicate,
    ExecuteParameter,
    CallArgument,
    CopyWhere,
    GeneratedColumn,
    CycleMark,
}

impl ExprKind {
    /// The clause's name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ExprKind::Other => "expression",
            ExprKind::JoinOn => "JOIN/ON",
            ExprKind::JoinUsing => "JOIN/USING",
            ExprKind::FromSubselect => "sub-SELECT in FROM",
            ExprKind::FromFunction => "functions in FROM",
            ExprKind::Where => "WHERE",
            ExprKind::Having => "HAVING",
            ExprKind::Filter => "FILTER",
            ExprKind::WindowPartition => "window PARTITION BY",
            ExprKind::WindowOrder => "window ORDER BY",
            ExprKind::WindowFrameRange => "window RANGE",
            ExprKind::WindowFrameRows => "window ROWS",
            ExprKind::WindowFrameGroups => "window GROUPS",
            ExprKind::SelectTarget => "SELECT",
            ExprKind::InsertTarget => "INSERT",
            ExprKind::UpdateSource | ExprKind::UpdateTarget => "UPDATE",
            ExprKind::GroupBy => "GROUP BY",
            ExprKind::OrderBy => "ORDER BY",
            ExprKind::DistinctOn => "DISTINCT ON",
            ExprKind::Limit => "LIMIT",
            ExprKind::Offset => "OFFSET",
            ExprKind::Returning => "RETURNING",
            ExprKind::Values | ExprKind::ValuesSingle => "VALUES",
            ExprKind::CheckConstraint | ExprKind::DomainCheck => "CHECK",
            ExprKind::ColumnDefault | ExprKind::FunctionDefault => "DEFAULT",
            ExprKind::IndexExpression => "index expression",
            ExprKind::IndexPredicate => "index predicate",
            ExprKind::ExecuteParameter => "EXECUTE",
            ExprKind::CallArgument => "CALL",
            ExprKind::CopyWhere => "WHERE",
            ExprKind::GeneratedColumn => "GENERATED AS",
            ExprKind::CycleMark => "CYCLE",
        }
    }

    /// The place as "in ..." or "in the ..." of most refusals.
    pub(crate) fn phrase(self) -> String {
        match self {
            ExprKind::JoinOn | ExprKind::JoinUsing => "JOIN conditions".into(),
            ExprKind::FromFunction => "functions in FROM".into(),
            ExprKind::CheckConstraint | ExprKind::DomainCheck => "check constraints".into(),
            ExprKind::ColumnDefault | ExprKind::FunctionDefault => "DEFAULT expressions".into(),
            ExprKind::IndexExpression => "index expressions".into(),
            ExprKind::IndexPredicate => "index predicates".into(),
            ExprKind::ExecuteParameter => "EXECUTE parameters".into(),
            ExprKind::CallArgument => "CALL arguments".into(),
            ExprKind::CopyWhere => "COPY FROM WHERE conditions".into(),
            ExprKind::GeneratedColumn => "column generation expressions".into(),
            other => other.name().into(),
        }
    }
}

/// One analysis under way.
pub(crate) struct Analyzer<'a> {
    pub(crate) context: &'a AnalyzeContext<'a>,
    pub(crate) lookup: Lookup<'a>,
    pub(crate) parameters: Parameters<'a>,
    /// Query levels, the outermost first.
    levels: Vec<Level>,
    depth: usize,
}

/// Recursion of the analyzer that stands for nested text; a view's text starts anew, so views over views count too.
const DEPTH_MAX: usize = 4 * crate::parse::depth::DEPTH_MAX;

impl<'a> Analyzer<'a> {
    pub(crate) fn new(context: &'a AnalyzeContext<'a>) -> Self {
        Analyzer {
            context,
            lookup: Lookup::new(context.catalog, context.search_path),
            parameters: context.parameters,
            levels: Vec::new(),
            depth: 0,
        }
    }

    /// Counts one more level of recursion. Errors: 54001.
    pub(crate) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(crate::parse::too_deep());
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// A type's name for messages.
    pub(crate) fn type_text(&self, ty: Oid) -> String {
        self.context.catalog.type_name(ty, self.context.search_path)
    }
}

/// The type of an expression's value.
pub fn expr_type(expr: &Expr) -> TypeRef {
    const BOOL: TypeRef = TypeRef { oid: types::BOOL, typmod: -1, collation: 0 };
    match expr {
        Expr::Const { ty, .. }
        | Expr::Param { ty, .. }
        | Expr::Field { ty, .. }
        | Expr::Relabel { ty, .. }
        | Expr::CoerceViaIo { ty, .. }
        | Expr::ArrayCoerce { ty, .. }
        | Expr::ConvertRow { ty, .. }
        | Expr::TestValue { ty }
        | Expr::CoerceToDomain { ty, .. }
        | Expr::Array { ty, .. }
        | Expr::Row { ty, .. }
        | Expr::Coalesce { ty, .. }
        | Expr::MinMax { ty, .. }
        | Expr::SqlValue { ty, .. }
        | Expr::Default { ty, .. }
        | Expr::NextValue { ty, .. } => *ty,
        Expr::Var(var) => var.ty,
        Expr::Function(call) => call.ty,
        Expr::Operator(call) | Expr::NullIf(call) => call.ty,
        Expr::SubLink(link) => link.ty,
        Expr::Aggregate(call) => call.ty,
        Expr::Window(call) => call.ty,
        Expr::Subscript(subscript) => subscript.ty,
        Expr::Case(case) => case.ty,
        Expr::Collate { arg, collation, .. } => TypeRef { collation: *collation, ..expr_type(arg) },
        Expr::Grouping { .. } => TypeRef { oid: types::INT4, typmod: -1, collation: 0 },
        Expr::DistinctFrom(_)
        | Expr::ArrayOperator(_)
        | Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::RowCompare { .. }
        | Expr::NullTest { .. }
        | Expr::BooleanTest { .. }
        | Expr::CurrentOf { .. } => BOOL,
    }
}

/// Where an expression starts in the source: the leftmost known position of it and its operands, as PostgreSQL
/// reports it.
pub fn expr_location(expr: &Expr) -> Location {
    fn leftmost(a: Location, b: Location) -> Location {
        if a < 0 {
            b
        } else if b < 0 {
            a
        } else {
            a.min(b)
        }
    }
    fn first(args: &[Expr]) -> Location {
        args.iter().map(expr_location).find(|&location| location >= 0).unwrap_or(-1)
    }
    match expr {
        Expr::Const { location, .. }
        | Expr::Param { location, .. }
        | Expr::Grouping { location, .. }
        | Expr::Array { location, .. }
        | Expr::Row { location, .. }
        | Expr::RowCompare { location, .. }
        | Expr::Coalesce { location, .. }
        | Expr::MinMax { location, .. }
        | Expr::SqlValue { location, .. }
        | Expr::Default { location, .. } => *location,
        Expr::Var(var) => var.location,
        Expr::Function(call) => leftmost(call.location, first(&call.args)),
        Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => {
            leftmost(call.location, first(&call.args))
        }
        Expr::ArrayOperator(call) => leftmost(call.location, expr_location(&call.left)),
        Expr::And(args) | Expr::Or(args) => first(args),
        Expr::Not(arg) => expr_location(arg),
        Expr::SubLink(link) => match &link.kind {
            SubLinkKind::Any(comparison) | SubLinkKind::All(comparison) => {
                leftmost(first(&comparison.left), link.location)
            }
            _ => link.location,
        },
        Expr::Aggregate(call) => call.location,
        Expr::Window(call) => call.location,
        Expr::Subscript(subscript) => expr_location(&subscript.container),
        Expr::Field { record, .. } => expr_location(record),
        Expr::Relabel { arg, location, .. }
        | Expr::CoerceViaIo { arg, location, .. }
        | Expr::ArrayCoerce { arg, location, .. }
        | Expr::ConvertRow { arg, location, .. }
        | Expr::CoerceToDomain { arg, location, .. } => leftmost(*location, expr_location(arg)),
        Expr::Collate { arg, location, .. } => leftmost(*location, expr_location(arg)),
        Expr::NullTest { arg, location, .. } | Expr::BooleanTest { arg, location, .. } => {
            leftmost(*location, expr_location(arg))
        }
        Expr::Case(case) => case.location,
        Expr::TestValue { .. } | Expr::CurrentOf { .. } | Expr::NextValue { .. } => -1,
    }
}

/// Whether the expression itself (not an operand) returns a set.
pub(crate) fn returns_set(expr: &Expr) -> bool {
    match expr {
        Expr::Function(call) => call.returns_set,
        Expr::Operator(call) => call.returns_set,
        _ => false,
    }
}
