//! From SQL text to a [`query::Query`]: parsing, name resolution, types, coercions.
//!
//! [`parse`] turns text into raw trees, [`analyze`] a raw tree into a [`query::Statement`]. The planner reads that.
//! `docs/analyzer.md` is the guide.

pub mod analyzer;
pub mod compare;
pub mod deparse;
pub mod parse;
pub mod privileges;
pub mod query;
pub mod walk;

pub use analyzer::{
    AnalyzeContext, Coercion, ExprKind, NameConflict, ParamResolver, Parameters, analyze,
    analyze_column_expression, analyze_condition, analyze_expression, analyze_expression_node,
    analyze_stored_value, coercion_expression, expr_location, expr_type, parse_type_name, resolve_type_name,
};
pub use parse::{RawStatement, parse};
