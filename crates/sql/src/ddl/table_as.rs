//! CREATE TABLE AS, SELECT INTO, CREATE and REFRESH MATERIALIZED VIEW.

use std::sync::Arc;

use cairn_analyze::query::Query;
use cairn_catalog::columns::pg_class;
use cairn_catalog::{Relation, RelationKind};
use cairn_txn::TableLockMode;
use cairn_types::{Datum, Error, Result, err};
use pg_query::protobuf::{self, ObjectType, OnCommitAction};

use super::context::{DdlContext, OnCommit};
use super::node::{required, strings};
use super::relation::{self, RelationSpec};
use super::{data, depend, index, names, reloptions, sequence, text, view};

/// Makes the table and fills it with the query's rows. The command tag.
pub fn create_table_as(
    cx: &mut DdlContext<'_>,
    statement: &protobuf::CreateTableAsStmt,
    query: &Query,
) -> Result<String> {
    let into = statement.into.as_deref().ok_or_else(|| Error::internal("no target of CREATE TABLE AS"))?;
    let name = required(&into.rel)?;
    let is_view = statement.objtype() == ObjectType::ObjectMatview;
    reloptions::check_tablespace(&into.table_space_name)?;
    if !into.access_method.is_empty() && into.access_method != "heap" {
        return Err(err!(UNDEFINED_OBJECT, "access method \"{}\" does not exist", into.access_method));
    }
    let options = reloptions::table_options(&into.options)?;
    let namespace = names::creation_namespace(cx, name)?;
    if !relation::check_name_is_free(cx, namespace, &name.relname, statement.if_not_exists)? {
        return Ok(if is_view { "CREATE MATERIALIZED VIEW" } else { "CREATE TABLE AS" }.to_owned());
    }
    relation::check_type_is_free(cx, namespace, &name.relname)?;
    let aliases = strings(&into.col_names);
    let columns = view::query_columns(query, &aliases);
    if aliases.len() > columns.len() {
        return Err(err!(SYNTAX_ERROR, "too many column names were specified"));
    }
    let on_commit = match into.on_commit() {
        OnCommitAction::OncommitDeleteRows => Some(OnCommit::DeleteRows),
        OnCommitAction::OncommitDrop => Some(OnCommit::Drop),
        _ => None,
    };
    let persistence = sequence::persistence(name);
    if on_commit.is_some() && persistence != b't' {
        return Err(err!(INVALID_TABLE_DEFINITION, "ON COMMIT can only be used on temporary tables"));
    }
    let kind = if is_view { RelationKind::MaterializedView } else { RelationKind::Table };
    let spec = RelationSpec { name: &name.relname, namespace, kind, persistence, columns: &columns, options };
    let oid = relation::create(cx, &spec)?;
    if is_view {
        let mut named = query.clone();
        view::name_targets(&mut named, columns.iter().map(|column| &*column.name));
        let stored = text::stored_query(&named, &cx.catalog, cx.env)?;
        let on = depend::of_query(query, &cx.catalog);
        let rule = cx.new_oid()?;
        cx.change(|writer| view::put_rule(writer, rule, oid, &stored, &on))?;
        set_populated(cx, oid, !into.skip_data)?;
    }
    if let Some(action) = on_commit {
        cx.host.on_commit(oid, action);
    }
    if into.skip_data {
        return Ok(if is_view { "CREATE MATERIALIZED VIEW" } else { "CREATE TABLE AS" }.to_owned());
    }
    let table = cx.relation(oid)?;
    let rows = fill(cx, &table, query)?;
    Ok(format!("SELECT {rows}"))
}

fn set_populated(cx: &mut DdlContext<'_>, oid: u32, populated: bool) -> Result<()> {
    cx.change(|writer| {
        index::update_class(writer, oid, |row| row[pg_class::RELISPOPULATED] = Datum::Bool(populated))
    })
}

/// Writes a query's rows into an empty table.
fn fill(cx: &mut DdlContext<'_>, table: &Arc<Relation>, query: &Query) -> Result<u64> {
    let mut loader = data::Loader::new(cx, table)?;
    let mut rows = 0;
    {
        let cx = &*cx;
        cx.host.run_query(&cx.catalog, query, &mut |row| {
            rows += 1;
            loader.add(cx, &row)?;
            Ok(true)
        })?;
    }
    loader.finish(cx)?;
    Ok(rows)
}

pub fn refresh(cx: &mut DdlContext<'_>, statement: &protobuf::RefreshMatViewStmt) -> Result<()> {
    let name = required(&statement.relation)?;
    let view = names::open(cx, name, TableLockMode::AccessExclusive)?;
    cx.require_table_owner(&view)?;
    if !matches!(view.kind, RelationKind::MaterializedView | RelationKind::Table) {
        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a table or materialized view", view.name));
    }
    if view.kind != RelationKind::MaterializedView {
        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a materialized view", view.name));
    }
    if statement.concurrent && statement.skip_data {
        return Err(err!(
            SYNTAX_ERROR,
            "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together"
        ));
    }
    if statement.concurrent && !view.indexes.iter().any(|index| index.unique && index.predicate.is_none()) {
        let shown =
            cairn_types::quote::quote_qualified(&cx.catalog.namespace_name(view.namespace), &view.name);
        return Err(err!(
            OBJECT_NOT_IN_PREREQUISITE_STATE,
            "cannot refresh materialized view \"{}\" concurrently",
            shown.replace('"', "")
        )
        .hint(
            "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
        ));
    }
    cx.require_not_in_use(&view, "REFRESH MATERIALIZED VIEW")?;
    let stored =
        view.view_query.clone().ok_or_else(|| Error::internal("a materialized view without a query"))?;
    let query = text::read_query(&stored, &cx.catalog, cx.env)?;
    data::replace_storage(cx, &view)?;
    set_populated(cx, view.oid, !statement.skip_data)?;
    if !statement.skip_data {
        let view = cx.relation(view.oid)?;
        fill(cx, &view, &query)?;
    }
    Ok(())
}
