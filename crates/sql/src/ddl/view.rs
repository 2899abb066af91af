//! CREATE VIEW.

use cairn_analyze::query::{CommandType, Query, RangeTableKind, Statement};
use cairn_analyze::{RawStatement, expr_type};
use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{CatalogWriter, Persistence, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::{Datum, Error, Oid, Result, err, types};
use pg_query::protobuf::{self, ViewCheckOption};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::node::{required, strings};
use super::relation::{self, ColumnSpec, RelationSpec};
use super::{names, reloptions, rows, sequence, text};

/// Analyzes the query of a view or of `create ... as`.
fn analyze(cx: &DdlContext<'_>, node: &protobuf::Node, raw: &RawStatement) -> Result<Query> {
    let node = super::node::inner(node)?;
    if let protobuf::node::Node::SelectStmt(select) = node
        && select.into_clause.is_some()
    {
        return Err(err!(FEATURE_NOT_SUPPORTED, "views must not contain SELECT INTO"));
    }
    let statement = RawStatement { node: Box::new(node.clone()), ..raw.clone() };
    match cairn_analyze::analyze(&statement, &cx.analyze_context())? {
        Statement::Query(query) if query.command == CommandType::Select => Ok(*query),
        _ => Err(Error::internal("the query of a view is none")),
    }
}

/// Result columns of a query, under the names of `aliases` as far as they go.
pub fn query_columns(query: &Query, aliases: &[cairn_types::Text]) -> Vec<ColumnSpec> {
    let targets = query.output().iter().filter(|target| !target.junk);
    targets
        .enumerate()
        .map(|(at, target)| {
            let mut ty = expr_type(&target.expr);
            if ty.oid == types::UNKNOWN {
                ty = cairn_catalog::TypeRef { oid: types::TEXT, typmod: -1, collation: 100 };
            }
            ColumnSpec::new(aliases.get(at).unwrap_or(&target.name).to_string(), ty)
        })
        .collect()
}

/// Gives a query's result columns other names.
pub fn name_targets<'n>(query: &mut Query, names: impl Iterator<Item = &'n str>) {
    let targets = query.targets.iter_mut().filter(|target| !target.junk);
    for (target, name) in targets.zip(names) {
        if *target.name != *name {
            target.name = name.into();
        }
    }
}

/// Whether a query reads temporary relations, its subqueries included.
fn uses_temporary(query: &Query) -> bool {
    let mut found = query.range_table.iter().any(|entry| match &entry.kind {
        RangeTableKind::Relation { relation, .. } => relation.persistence == Persistence::Temporary,
        _ => false,
    });
    cairn_analyze::walk::query_subqueries(query, &mut |query| found |= uses_temporary(query));
    found
}

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::ViewStmt, raw: &RawStatement) -> Result<()> {
    let mut name = required(&statement.view)?.clone();
    if matches!(
        statement.with_check_option(),
        ViewCheckOption::LocalCheckOption | ViewCheckOption::CascadedCheckOption
    ) {
        return Err(Error::unsupported("WITH CHECK OPTION is"));
    }
    let options = reloptions::view_options(&statement.options)?;
    if name.relpersistence == "u" {
        return Err(err!(SYNTAX_ERROR, "views cannot be unlogged because they do not have storage"));
    }
    let node = statement.query.as_deref().ok_or_else(|| Error::internal("a view without a query"))?;
    let mut query = analyze(cx, node, raw)?;
    let aliases = strings(&statement.aliases);
    let mut columns = query_columns(&query, &aliases);
    if aliases.len() > columns.len() {
        return Err(err!(SYNTAX_ERROR, "CREATE VIEW specifies more column names than columns"));
    }
    for column in &mut columns {
        column.name = names::truncate_name(&column.name, names::NAME_MAX).to_owned();
    }
    if name.relpersistence != "t" && uses_temporary(&query) {
        cx.notice(format!("view \"{}\" will be a temporary view", name.relname));
        name.relpersistence = "t".into();
    }
    name_targets(&mut query, columns.iter().map(|column| &*column.name));
    let namespace = names::creation_namespace(cx, &name)?;
    cx.lock_name(pg_class::TABLE, namespace, &name.relname)?;
    let existing = cx.catalog.relation_by_name(namespace, &name.relname).cloned();
    let stored = text::stored_query(&query, &cx.catalog, cx.env)?;
    let on = depend::of_query(&query, &cx.catalog);
    let oid = match existing {
        Some(existing) if statement.replace => {
            cx.lock(pg_class::TABLE, existing.oid, TableLockMode::AccessExclusive)?;
            let view = cx.relation(existing.oid)?;
            cx.require_table_owner(&view)?;
            replace(cx, existing.oid, &columns, &options)?;
            existing.oid
        }
        Some(_) => return Err(err!(DUPLICATE_TABLE, "relation \"{}\" already exists", name.relname)),
        None => {
            relation::check_type_is_free(cx, namespace, &name.relname)?;
            let spec = RelationSpec {
                name: &name.relname,
                namespace,
                kind: RelationKind::View,
                persistence: sequence::persistence(&name),
                columns: &columns,
                options,
            };
            relation::create(cx, &spec)?
        }
    };
    let rule = cx.new_oid()?;
    cx.change(|writer| put_rule(writer, rule, oid, &stored, &on))
}

/// Writes the rule that says what the relation selects, in place of an older one.
pub fn put_rule(
    writer: &mut CatalogWriter<'_>,
    rule: Oid,
    relation: Oid,
    stored: &str,
    on: &[Address],
) -> Result<()> {
    use pg_rewrite as c;
    let old = writer.rows_where(c::TABLE, |row| row.oid(c::EV_CLASS) == relation);
    let rule = old.first().map_or(rule, |row| row.oid(c::OID));
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(rule);
    row[c::RULENAME] = Datum::text("_RETURN");
    row[c::EV_CLASS] = Datum::Oid(relation);
    row[c::EV_TYPE] = Datum::Char(b'1');
    row[c::EV_ENABLED] = Datum::Char(b'O');
    row[c::IS_INSTEAD] = Datum::Bool(true);
    row[c::EV_QUAL] = Datum::text("<>");
    row[c::EV_ACTION] = Datum::text(stored);
    rows::put(writer, c::TABLE, row)?;
    writer
        .delete_where(pg_depend::TABLE, |row| {
            row.oid(pg_depend::CLASSID) == c::TABLE && row.oid(pg_depend::OBJID) == rule
        })
        .sql()?;
    let address = Address::new(c::TABLE, rule);
    // A part of the relation, and a user of it: PostgreSQL records both.
    for kind in [Dependency::Internal, Dependency::Normal] {
        depend::record(writer, address, Address::relation(relation), kind)?;
    }
    for on in on {
        depend::record(writer, address, *on, Dependency::Normal)?;
    }
    Ok(())
}

/// CREATE OR REPLACE: the old columns stay as they are, new ones may follow. 42P16.
fn replace(
    cx: &mut DdlContext<'_>,
    oid: Oid,
    columns: &[ColumnSpec],
    options: &[cairn_types::Text],
) -> Result<()> {
    let view = cx.relation(oid)?;
    if view.kind != RelationKind::View {
        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a view", view.name));
    }
    if columns.len() < view.columns.len() {
        return Err(err!(INVALID_TABLE_DEFINITION, "cannot drop columns from view"));
    }
    for (old, new) in view.columns.iter().zip(columns) {
        if *old.name != *new.name {
            return Err(err!(
                INVALID_TABLE_DEFINITION,
                "cannot change name of view column \"{}\" to \"{}\"",
                old.name,
                new.name
            )
            .hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if (old.ty.oid, old.ty.typmod) != (new.ty.oid, new.ty.typmod) {
            let show =
                |ty: cairn_catalog::TypeRef| cx.catalog.format_type(ty.oid, ty.typmod, &cx.search_path);
            return Err(err!(
                INVALID_TABLE_DEFINITION,
                "cannot change data type of view column \"{}\" from {} to {}",
                old.name,
                show(old.ty),
                show(new.ty)
            ));
        }
    }
    let catalog = cx.catalog.clone();
    let first_new = view.columns.len();
    cx.change(|writer| {
        for (at, column) in columns.iter().enumerate().skip(first_new) {
            relation::put_column(writer, &catalog, oid, at as i16 + 1, column)?;
        }
        super::index::update_class(writer, oid, |row| {
            row[pg_class::RELNATTS] = Datum::Int2(columns.len() as i16);
            row[pg_class::RELOPTIONS] =
                cairn_catalog::system_table::text_array_or_null(options.iter().cloned());
        })
    })
}
