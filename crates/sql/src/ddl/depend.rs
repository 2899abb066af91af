//! Who needs whom: pg_depend rows, and the names of objects in messages about them.

use cairn_analyze::query::{Expr, Query, RangeTableKind};
use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{Catalog, CatalogWriter, ConstraintKind, ProcKind, RelationKind, RowExt, SearchPath};
use cairn_exec::TxnResultExt;
use cairn_types::oid::{FIRST_USER_OID, namespaces};
use cairn_types::quote::{quote_identifier, quote_qualified};
use cairn_types::{Datum, Oid, Result, types};

use super::names::kind_name;

/// An object, or a column of a relation (`sub` > 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub class: Oid,
    pub object: Oid,
    pub sub: i32,
}

impl Address {
    pub fn new(class: Oid, object: Oid) -> Self {
        Address { class, object, sub: 0 }
    }

    pub fn relation(object: Oid) -> Self {
        Address::new(pg_class::TABLE, object)
    }

    pub fn column(object: Oid, number: i16) -> Self {
        Address { class: pg_class::TABLE, object, sub: i32::from(number) }
    }

    /// Objects of PostgreSQL itself are never dropped, so nothing is recorded about them; `public` can be.
    fn is_pinned(self) -> bool {
        self.object < FIRST_USER_OID
            && !(self.class == pg_namespace::TABLE && self.object == namespaces::PUBLIC)
    }
}

/// pg_depend.deptype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency {
    /// Dropping the referenced object needs CASCADE.
    Normal,
    /// Dropped together with the referenced object.
    Auto,
    /// Part of the referenced object: cannot be dropped on its own.
    Internal,
}

impl Dependency {
    pub fn code(self) -> u8 {
        match self {
            Dependency::Normal => b'n',
            Dependency::Auto => b'a',
            Dependency::Internal => b'i',
        }
    }
}

/// Records that `object` depends on `on`. Once is enough.
pub fn record(writer: &mut CatalogWriter<'_>, object: Address, on: Address, kind: Dependency) -> Result<()> {
    use pg_depend as c;
    if on.is_pinned() || object == on {
        return Ok(());
    }
    let mut row = blank_row(c::TABLE);
    row[c::CLASSID] = Datum::Oid(object.class);
    row[c::OBJID] = Datum::Oid(object.object);
    row[c::OBJSUBID] = Datum::Int4(object.sub);
    row[c::REFCLASSID] = Datum::Oid(on.class);
    row[c::REFOBJID] = Datum::Oid(on.object);
    row[c::REFOBJSUBID] = Datum::Int4(on.sub);
    row[c::DEPTYPE] = Datum::Char(kind.code());
    writer.put(c::TABLE, row).sql()
}

/// Objects that an expression over `relation` (range table index 0) needs. Its own columns are among them.
pub fn of_expression(expr: &Expr, relation: Oid, catalog: &Catalog) -> Vec<Address> {
    let mut found = Vec::new();
    cairn_analyze::walk::deep(expr, 0, &mut |expr, level| {
        of_node(expr, catalog, &mut found);
        if let Expr::Var(var) = expr
            && var.levels_up == level
            && var.attno > 0
            && relation != 0
        {
            found.push(Address::column(relation, var.attno));
        }
        if let Expr::SubLink(sublink) = expr {
            found.extend(of_query(&sublink.query, catalog));
        }
    });
    distinct(found)
}

fn of_node(expr: &Expr, catalog: &Catalog, found: &mut Vec<Address>) {
    let mut function = |oid: Oid| found.push(Address::new(pg_proc::TABLE, oid));
    match expr {
        Expr::Function(call) => function(call.function),
        Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => function(call.function),
        Expr::ArrayOperator(call) => function(call.function),
        Expr::Aggregate(call) => function(call.function),
        Expr::Window(call) => function(call.function),
        Expr::Const { value: Datum::Oid(oid), ty, .. } => match ty.oid {
            types::REGCLASS => found.push(Address::relation(*oid)),
            types::REGTYPE => found.push(Address::new(pg_type::TABLE, *oid)),
            types::REGPROC | types::REGPROCEDURE => found.push(Address::new(pg_proc::TABLE, *oid)),
            types::REGNAMESPACE => found.push(Address::new(pg_namespace::TABLE, *oid)),
            _ => {}
        },
        Expr::Const { ty, .. } => found.extend(of_type(ty.oid, catalog)),
        Expr::Relabel { ty, .. }
        | Expr::CoerceViaIo { ty, .. }
        | Expr::ArrayCoerce { ty, .. }
        | Expr::ConvertRow { ty, .. }
        | Expr::CoerceToDomain { ty, .. }
        | Expr::Row { ty, .. }
        | Expr::Array { ty, .. } => found.extend(of_type(ty.oid, catalog)),
        Expr::Field { record, number, .. } => {
            let row_type = catalog.base_type(cairn_analyze::expr_type(record).oid);
            if let Some(relation) = catalog.type_by_oid(row_type).map(|object| object.relation)
                && relation != 0
            {
                found.push(Address::column(relation, *number));
            }
        }
        Expr::NextValue { sequence, .. } => found.push(Address::relation(*sequence)),
        _ => {}
    }
}

/// A type that users made; `None` for a built-in one.
pub fn of_type(oid: Oid, catalog: &Catalog) -> Option<Address> {
    let object = catalog.type_by_oid(oid)?;
    Some(Address::new(pg_type::TABLE, object.oid)).filter(|address| !address.is_pinned())
}

/// Relations, columns, functions and types that a query needs. An expanded view counts, what is in it does not.
pub fn of_query(query: &Query, catalog: &Catalog) -> Vec<Address> {
    let mut found = Vec::new();
    collect_query(query, catalog, &mut Vec::new(), &mut found);
    distinct(found)
}

fn collect_query<'q>(
    query: &'q Query,
    catalog: &Catalog,
    outer: &mut Vec<&'q Query>,
    found: &mut Vec<Address>,
) {
    outer.push(query);
    for entry in &query.range_table {
        match &entry.kind {
            RangeTableKind::Relation { relation, .. } => found.push(Address::relation(relation.oid)),
            RangeTableKind::Subquery { view: Some(view), .. } => found.push(Address::relation(*view)),
            RangeTableKind::Subquery { query, view: None } => collect_query(query, catalog, outer, found),
            _ => {}
        }
    }
    for cte in &query.ctes {
        collect_query(&cte.query, catalog, outer, found);
    }
    found.extend(query.constraints.iter().map(|oid| Address::new(pg_constraint::TABLE, *oid)));
    // The columns of a join stand for all that its sides have: those that are used come with the Vars that mean them.
    let unused = |expr: &Expr| {
        query.range_table.iter().any(|entry| match &entry.kind {
            RangeTableKind::Join { columns, .. } => {
                columns.iter().any(|column| std::ptr::eq(column, expr)) && matches!(expr, Expr::Var(_))
            }
            _ => false,
        })
    };
    cairn_analyze::walk::query_expressions(query, &mut |expr| {
        if !unused(expr) {
            collect_expression(expr, catalog, outer, found);
        }
    });
    outer.pop();
}

fn collect_expression<'q>(
    expr: &'q Expr,
    catalog: &Catalog,
    outer: &mut Vec<&'q Query>,
    found: &mut Vec<Address>,
) {
    of_node(expr, catalog, found);
    match expr {
        Expr::Var(var) if var.attno > 0 => {
            let query =
                outer.len().checked_sub(1 + var.levels_up as usize).and_then(|level| outer.get(level));
            let entry = query.and_then(|query| query.range_table.get(var.varno));
            match entry.map(|entry| &entry.kind) {
                Some(RangeTableKind::Relation { relation, .. }) => {
                    found.push(Address::column(relation.oid, var.attno));
                }
                Some(RangeTableKind::Subquery { view: Some(view), .. }) => {
                    found.push(Address::column(*view, var.attno));
                }
                Some(RangeTableKind::Join { columns, .. }) => {
                    if let Some(column) = columns.get(var.attno as usize - 1) {
                        let level = outer.len() - var.levels_up as usize;
                        collect_expression(column, catalog, &mut outer[..level].to_vec(), found);
                    }
                }
                _ => {}
            }
        }
        Expr::SubLink(sublink) => collect_query(&sublink.query, catalog, outer, found),
        _ => {}
    }
    cairn_analyze::walk::children(expr, &mut |child| collect_expression(child, catalog, outer, found));
}

/// Without repetitions and pinned objects; a relation whose columns are there is left out.
fn distinct(mut found: Vec<Address>) -> Vec<Address> {
    found.retain(|address| !address.is_pinned());
    found.sort_unstable();
    found.dedup();
    let columns: Vec<(Oid, Oid)> = found
        .iter()
        .filter(|address| address.sub != 0)
        .map(|address| (address.class, address.object))
        .collect();
    found.retain(|address| address.sub != 0 || !columns.contains(&(address.class, address.object)));
    found
}

/// The schema's name and a dot where the search path does not show the object.
fn qualify(catalog: &Catalog, namespace: Oid, name: &str, visible: bool) -> String {
    if visible { quote_identifier(name) } else { quote_qualified(&catalog.namespace_name(namespace), name) }
}

/// A relation's name as messages show it: with its schema where the search path does not show it.
pub fn relation_name(catalog: &Catalog, path: &SearchPath, oid: Oid) -> String {
    match catalog.relation(oid) {
        Some(relation) => {
            qualify(catalog, relation.namespace, &relation.name, catalog.is_relation_visible(path, relation))
        }
        None => oid.to_string(),
    }
}

/// `f(integer, text)`.
pub fn proc_signature(catalog: &Catalog, path: &SearchPath, oid: Oid) -> String {
    let Some(proc) = catalog.proc(oid) else { return oid.to_string() };
    let args: Vec<String> = proc.arg_types.iter().map(|oid| catalog.type_name(*oid, path)).collect();
    let name = qualify(catalog, proc.namespace, &proc.name, catalog.is_proc_visible(path, proc));
    format!("{name}({})", args.join(","))
}

/// An object as messages call it: `table t`, `column a of table t`, `constraint c on table t`.
pub fn describe(catalog: &Catalog, path: &SearchPath, address: Address) -> String {
    let oid = address.object;
    let relation = |oid: Oid| -> String {
        let kind = catalog.relation(oid).map_or("relation", |relation| kind_name(relation.kind));
        format!("{kind} {}", relation_name(catalog, path, oid))
    };
    let row = catalog.row_by_oid(address.class, oid);
    let row_name =
        |column: usize| row.as_ref().map_or_else(|| oid.to_string(), |row| quote_identifier(row.str(column)));
    match address.class {
        pg_class::TABLE if address.sub != 0 => {
            let name = catalog
                .relation(oid)
                .and_then(|relation| relation.columns.get(address.sub as usize - 1))
                .map_or_else(String::new, |column| quote_identifier(&column.name));
            format!("column {name} of {}", relation(oid))
        }
        pg_class::TABLE => relation(oid),
        pg_type::TABLE => format!("type {}", catalog.type_name(oid, path)),
        pg_proc::TABLE => {
            let kind = match catalog.proc(oid).map(|proc| proc.kind) {
                Some(ProcKind::Procedure) => "procedure",
                Some(ProcKind::Aggregate) => "aggregate",
                _ => "function",
            };
            format!("{kind} {}", proc_signature(catalog, path, oid))
        }
        pg_constraint::TABLE => match catalog.constraint(oid) {
            Some(constraint) if constraint.table != 0 => {
                format!("constraint {} on {}", quote_identifier(&constraint.name), relation(constraint.table))
            }
            _ => format!("constraint {}", row_name(pg_constraint::CONNAME)),
        },
        pg_attrdef::TABLE => {
            let column = row.as_ref().map(|row| {
                let column = Address {
                    class: pg_class::TABLE,
                    object: row.oid(pg_attrdef::ADRELID),
                    sub: row.int(pg_attrdef::ADNUM) as i32,
                };
                describe(catalog, path, column)
            });
            format!("default value for {}", column.unwrap_or_default())
        }
        pg_rewrite::TABLE => {
            let view = row.as_ref().map(|row| relation(row.oid(pg_rewrite::EV_CLASS)));
            format!("rule {} on {}", row_name(pg_rewrite::RULENAME), view.unwrap_or_default())
        }
        pg_namespace::TABLE => format!("schema {}", row_name(pg_namespace::NSPNAME)),
        pg_extension::TABLE => format!("extension {}", row_name(pg_extension::EXTNAME)),
        pg_language::TABLE => format!("language {}", row_name(pg_language::LANNAME)),
        _ => format!("object {oid}"),
    }
}

/// Whether the constraint is one whose index cannot be dropped without it.
pub fn is_key(kind: ConstraintKind) -> bool {
    matches!(kind, ConstraintKind::PrimaryKey | ConstraintKind::Unique | ConstraintKind::Exclusion)
}

/// Whether rows of the relation are stored.
pub fn has_storage(kind: RelationKind) -> bool {
    matches!(
        kind,
        RelationKind::Table | RelationKind::MaterializedView | RelationKind::Sequence | RelationKind::Index
    )
}

/// A built-in type whose values are stored like those of `oid`, for a dropped column: its own type may go.
pub fn stored_form(catalog: &Catalog, oid: Oid) -> Oid {
    use cairn_types::row::PhysicalKind;
    if oid < FIRST_USER_OID {
        return oid;
    }
    match catalog.physical_kind(oid) {
        PhysicalKind::Enum => types::ANYENUM,
        PhysicalKind::Array => types::ANYARRAY,
        PhysicalKind::Record => types::RECORD,
        _ => catalog.base_type(oid),
    }
}
