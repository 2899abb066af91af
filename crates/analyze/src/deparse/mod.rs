//! From analyzed trees back to SQL text.
//!
//! Two readers, two forms:
//! - **Canonical** text is stored in the catalog (defaults, checks, index expressions, predicates, view queries). It means the same under
//!   every search path: whatever is outside of pg_catalog is qualified, reg* constants are written as oids.
//!   Analyzing it again gives the same tree.
//! - **Display** text is what pg_get_expr, pg_get_viewdef and EXPLAIN show: names as short as the session's search path allows,
//!   in PostgreSQL's own layout; `pretty` leaves out parentheses that precedence makes needless.

mod expression;
mod query;

pub use query::without_implicit_casts;

use cairn_catalog::{Catalog, SearchPath, TypeRef};
use cairn_types::quote::{push_identifier, quote_qualified};
use cairn_types::{Env, Oid};

use crate::query::{Expr, Query, Var};

/// What the text is made against.
#[derive(Clone, Copy)]
pub struct DeparseContext<'a> {
    pub catalog: &'a Catalog,
    /// Decides what needs no schema; [`SearchPath::pg_catalog`] for canonical text.
    pub path: &'a SearchPath,
    pub env: &'a dyn Env,
    pub form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For storing.
    Canonical,
    /// For people; `pretty` with as few parentheses as can be.
    Display { pretty: bool },
}

/// Names of the columns that an expression stands on, outside of a query.
pub trait VarNames {
    fn name(&self, var: &Var) -> String;
}

/// Columns of one relation, unqualified: checks, defaults, index expressions.
pub struct RelationColumns<'a>(pub &'a cairn_catalog::Relation);

impl VarNames for RelationColumns<'_> {
    fn name(&self, var: &Var) -> String {
        let mut name = String::new();
        match usize::try_from(var.attno).ok().and_then(|attno| self.0.columns.get(attno.checked_sub(1)?)) {
            Some(column) => push_identifier(&column.name, &mut name),
            None if var.attno == 0 => {
                push_identifier(&self.0.name, &mut name);
                name.push_str(".*");
            }
            None => name.push_str(system_column_name(var.attno)),
        }
        name
    }
}

/// One expression.
pub fn deparse_expression<'a>(
    expr: &'a Expr,
    names: &'a dyn VarNames,
    context: &DeparseContext<'a>,
) -> String {
    let mut deparser = Deparser::new(context, Some(names), false);
    deparser.expr(expr, None);
    deparser.out
}

/// A whole SELECT (or data-modifying statement), without a semicolon, laid out as PostgreSQL shows a view.
pub fn deparse_query<'a>(query: &'a Query, context: &DeparseContext<'a>) -> String {
    let mut deparser = Deparser::new(context, None, true);
    deparser.query(query, None);
    deparser.out
}

/// An expression inside of queries (the innermost last) whose own text is not wanted: conditions in EXPLAIN. Columns carry
/// their table's name if `qualify`.
pub fn deparse_in_queries<'a>(
    expr: &'a Expr,
    queries: &[&'a Query],
    qualify: bool,
    context: &DeparseContext<'a>,
) -> String {
    let mut deparser = Deparser::new(context, None, false);
    for query in queries {
        let mut level = deparser.level(query);
        level.qualify = qualify;
        deparser.levels.push(level);
    }
    deparser.expr(expr, None);
    deparser.out
}

fn system_column_name(attno: i16) -> &'static str {
    use crate::query::system_columns::*;
    match attno {
        CTID => "ctid",
        XMIN => "xmin",
        CMIN => "cmin",
        XMAX => "xmax",
        CMAX => "cmax",
        _ => "tableoid",
    }
}

struct Deparser<'a> {
    catalog: &'a Catalog,
    path: &'a SearchPath,
    env: &'a dyn Env,
    form: Form,
    names: Option<&'a dyn VarNames>,
    /// Query levels, the innermost last.
    levels: Vec<Level<'a>>,
    /// Lay out over lines (queries), with so many columns of indentation.
    lines: bool,
    indent: usize,
    /// Whether anybody sees the output names of the query that is being written.
    names_visible: bool,
    out: String,
}

/// A query with the names that it gives its range table entries.
struct Level<'a> {
    query: &'a Query,
    /// Unique names, by range table index; empty for joins.
    aliases: Vec<String>,
    /// Column names, by range table index.
    columns: Vec<Vec<String>>,
    /// Only one entry: columns need no qualification in INSERT ... and the like.
    qualify: bool,
}

impl<'a> Deparser<'a> {
    fn new(context: &DeparseContext<'a>, names: Option<&'a dyn VarNames>, lines: bool) -> Self {
        Deparser {
            catalog: context.catalog,
            path: context.path,
            env: context.env,
            form: context.form,
            names,
            levels: Vec::new(),
            lines,
            indent: 0,
            names_visible: true,
            out: String::new(),
        }
    }

    fn pretty(&self) -> bool {
        self.form == Form::Display { pretty: true }
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn identifier(&mut self, name: &str) {
        push_identifier(name, &mut self.out);
    }

    fn type_name(&mut self, ty: TypeRef) {
        let name = self.catalog.format_type(ty.oid, ty.typmod, self.path);
        self.out.push_str(&name);
    }

    /// A function's name, qualified unless the search path finds it.
    fn function_name(&mut self, oid: Oid) {
        let Some(proc) = self.catalog.proc(oid) else {
            return self.out.push_str("???");
        };
        if self.catalog.is_proc_visible(self.path, proc) {
            push_identifier(&proc.name, &mut self.out);
        } else {
            let name = quote_qualified(&self.catalog.namespace_name(proc.namespace), &proc.name);
            self.out.push_str(&name);
        }
    }

    /// An operator's symbol; `OPERATOR(schema.+)` outside of pg_catalog.
    fn operator_name(&self, oid: Oid) -> String {
        let Some(operator) = self.catalog.operator(oid) else { return "???".to_owned() };
        if operator.namespace == cairn_types::oid::namespaces::PG_CATALOG
            || self.path.namespaces.contains(&operator.namespace)
        {
            return operator.name.to_string();
        }
        let mut name = "OPERATOR(".to_owned();
        push_identifier(&self.catalog.namespace_name(operator.namespace), &mut name);
        format!("{name}.{})", operator.name)
    }

    fn relation_name(&mut self, relation: &cairn_catalog::Relation) {
        if self.catalog.is_relation_visible(self.path, relation) {
            push_identifier(&relation.name, &mut self.out);
        } else {
            let name = quote_qualified(&self.catalog.namespace_name(relation.namespace), &relation.name);
            self.out.push_str(&name);
        }
    }

    /// Starts a new line, `extra` columns further in than the query.
    fn new_line(&mut self, extra: usize) {
        if self.lines {
            while self.out.ends_with(' ') {
                self.out.pop();
            }
            if !self.out.is_empty() && !self.out.ends_with('\n') {
                self.out.push('\n');
            }
            self.out.extend(std::iter::repeat_n(' ', self.indent + extra));
        } else if !self.out.ends_with([' ', '(']) && !self.out.is_empty() {
            self.out.push(' ');
        }
    }
}
