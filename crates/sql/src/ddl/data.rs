//! Rows under DDL: building indexes, rewriting tables, checking what is already there.
//!
//! Reading and computing goes through the session as SQL ([`DdlHost::select`](super::DdlHost::select)), over all rows that are
//! there under the table's lock: a repeatable read transaction's snapshot would leave out what others have committed
//! since, for good. Writing goes straight into storages that nobody else sees yet, in key order.

use std::sync::Arc;

use cairn_analyze::query::Expr;
use cairn_catalog::columns::*;
use cairn_catalog::{Catalog, ConstraintKind, Index, IndexKeyColumn, Relation, RowExt};
use cairn_exec::TxnResultExt;
use cairn_exec::dml::row_number;
use cairn_exec::table::{IndexLayout, TableLayout};
use cairn_types::quote::{quote_identifier, quote_qualified};
use cairn_types::{Datum, Error, Oid, Result, err, sqlstate};

use super::context::DdlContext;
use super::entries::Entries;
use super::{constraint, index};

/// `"schema"."table"`.
pub fn table_name(catalog: &Catalog, relation: &Relation) -> String {
    quote_qualified(&catalog.namespace_name(relation.namespace), &relation.name)
}

/// A row's columns as a SELECT list: null for dropped ones.
pub fn all_columns(relation: &Relation) -> String {
    let columns: Vec<String> = relation
        .columns
        .iter()
        .map(|column| if column.dropped { "null".to_owned() } else { quote_identifier(&column.name) })
        .collect();
    if columns.is_empty() { "null".to_owned() } else { columns.join(", ") }
}

/// Computes and writes the entries of a new index. 23505 where rows contradict it.
pub fn build_index(cx: &mut DdlContext<'_>, oid: Oid) -> Result<()> {
    let index = cx.index(oid)?;
    let table = cx.relation(index.table)?;
    if table.is_ordered_by(&index) {
        return Ok(());
    }
    let layout = TableLayout::new(&table, &cx.catalog)?;
    let entry_layout = IndexLayout::new(&index, &cx.catalog);
    let mut list: Vec<String> = index
        .keys
        .iter()
        .map(|key| match &key.key {
            IndexKeyColumn::Attribute(number) => quote_identifier(&table.columns[*number as usize - 1].name),
            IndexKeyColumn::Expression(text) => format!("({text})"),
        })
        .collect();
    // Behind them the row's own key.
    if layout.has_hidden_key() {
        list.push("ctid".to_owned());
    } else {
        list.extend(layout.key.iter().map(|(at, _)| quote_identifier(&table.columns[*at].name)));
    }
    let filter = rows_of(&index);
    let query = format!("select {} from only {}{filter}", list.join(", "), table_name(&cx.catalog, &table));
    let mut entries = Entries::default();
    let key_count = index.keys.len();
    // Neither this index nor others that are still empty may serve the query.
    let reading = Arc::new(cx.catalog.without_secondary_indexes(table.oid));
    cx.host.select(&reading, &query, &mut |row| {
        let (values, own) = row.split_at(key_count.min(row.len()));
        let row_key = if layout.has_hidden_key() {
            match own.first() {
                Some(Datum::Tid(number)) => layout.hidden_key(*number),
                _ => return Err(Error::internal("ctid is not a tid")),
            }
        } else {
            let mut full = vec![Datum::Null; table.columns.len()];
            for ((at, _), value) in layout.key.iter().zip(own) {
                full[*at] = value.clone();
            }
            layout.row_key(&full)?
        };
        let (key, value) = entry_layout.entry(values, &row_key)?;
        IndexLayout::check_key_size(&key, &value)?;
        entries.add(key, value)?;
        Ok(true)
    })?;
    let duplicate = || duplicate_error(cx, &reading, &table, &index);
    entries.write(cx, duplicate)
}

/// WHERE of a partial index's rows. In this form it implies no index's predicate: the new index, which the catalog lists
/// already, must not be read while it is empty.
fn rows_of(index: &Index) -> String {
    index.predicate.as_ref().map_or(String::new(), |text| format!(" where ({text}) is true"))
}

/// 23505 with the key that is there twice, as PostgreSQL finds it: by a query, because the entries have lost the values.
fn duplicate_error(
    cx: &DdlContext<'_>,
    catalog: &Arc<Catalog>,
    table: &Relation,
    index: &Index,
) -> Result<Error> {
    let columns: Vec<String> = index
        .keys
        .iter()
        .map(|key| match &key.key {
            IndexKeyColumn::Attribute(number) => quote_identifier(&table.columns[*number as usize - 1].name),
            IndexKeyColumn::Expression(text) => text.to_string(),
        })
        .collect();
    let listed = columns.iter().map(|column| format!("({column})::text")).collect::<Vec<_>>().join(", ");
    let filter = rows_of(index);
    let query = format!(
        "select {listed} from only {}{filter} group by {} having count(*) > 1 limit 1",
        table_name(catalog, table),
        columns.join(", ")
    );
    let error = err!(UNIQUE_VIOLATION, "could not create unique index \"{}\"", index.name)
        .table(catalog.namespace_name(table.namespace).to_string(), table.name.to_string())
        .constraint(index.name.to_string());
    let mut detail = None;
    cx.host.select(catalog, &query, &mut |row| {
        let values: Vec<String> = row
            .iter()
            .map(|value| match value {
                Datum::Text(text) => text.to_string(),
                _ => "null".to_owned(),
            })
            .collect();
        let shown: Vec<String> = columns.iter().map(|column| column.trim_matches('"').to_owned()).collect();
        detail = Some(format!("Key ({})=({}) is duplicated.", shown.join(", "), values.join(", ")));
        Ok(false)
    })?;
    Ok(match detail {
        Some(detail) => error.detail(detail),
        None => error,
    })
}

/// Computes an index's entries anew.
pub fn rebuild_index(cx: &mut DdlContext<'_>, oid: Oid) -> Result<()> {
    let old = cx.index(oid)?.storage;
    let new = cx.txn.create_storage().sql()?;
    cx.txn.drop_storage(old).sql()?;
    cx.change(|writer| index::update_class(writer, oid, |row| row[pg_class::RELFILENODE] = Datum::Oid(new)))?;
    build_index(cx, oid)
}

/// Gives a relation and its indexes new, empty storages; the old ones go at commit.
pub fn replace_storage(cx: &mut DdlContext<'_>, relation: &Arc<Relation>) -> Result<()> {
    let mut changes = vec![(relation.oid, relation.storage)];
    for index in relation.indexes.iter().filter(|index| !relation.is_ordered_by(index)) {
        changes.push((index.oid, index.storage));
    }
    let mut storages = Vec::new();
    for (oid, old) in changes {
        let new = cx.txn.create_storage().sql()?;
        if old != 0 {
            cx.txn.drop_storage(old).sql()?;
        }
        storages.push((oid, new));
    }
    cx.change(|writer| {
        for (oid, storage) in &storages {
            index::update_class(writer, *oid, |row| {
                row[pg_class::RELFILENODE] = Datum::Oid(*storage);
                if !matches!(row.char(pg_class::RELKIND), b'i' | b'S') {
                    row[pg_class::RELTUPLES] = Datum::Float4(-1.0);
                }
            })?;
        }
        Ok(())
    })
}

/// Writes rows into a table whose storage is new: full rows, one value per attribute number.
pub struct Loader {
    layout: TableLayout,
    rows: Entries,
    table: Arc<Relation>,
}

impl Loader {
    pub fn new(cx: &DdlContext<'_>, table: &Arc<Relation>) -> Result<Self> {
        Ok(Loader {
            layout: TableLayout::new(table, &cx.catalog)?,
            rows: Entries::default(),
            table: table.clone(),
        })
    }

    /// Adds a row; the caller has checked its constraints, except keys and NOT NULL of the primary key.
    pub fn add(&mut self, cx: &DdlContext<'_>, row: &[Datum]) -> Result<()> {
        let key = if self.layout.has_hidden_key() {
            self.layout.hidden_key(row_number::next(cx.store.as_ref()))
        } else {
            self.layout.new_row_key(row)?
        };
        let mut value = Vec::with_capacity(64);
        self.layout.encode(row, &mut value);
        if self.layout.has_hidden_key() {
            return cx.txn.bulk_put(&key, &value).sql();
        }
        self.rows.add(key, value)
    }

    /// Writes what is left, then the table's other indexes. 23505.
    pub fn finish(self, cx: &mut DdlContext<'_>) -> Result<()> {
        if let Some(primary) = self.table.primary_key.clone() {
            let table = self.table.clone();
            let duplicate = || -> Result<Error> {
                Ok(err!(UNIQUE_VIOLATION, "could not create unique index \"{}\"", primary.name)
                    .table(cx.catalog.namespace_name(table.namespace).to_string(), table.name.to_string())
                    .constraint(primary.name.to_string()))
            };
            self.rows.write(cx, duplicate)?;
        }
        cx.txn.advance_command();
        let table = &self.table;
        let others = table.indexes.iter().filter(|index| !table.is_ordered_by(index));
        let indexes: Vec<Oid> = others.map(|index| index.oid).collect();
        for oid in indexes {
            build_index(cx, oid)?;
        }
        Ok(())
    }
}

/// Where a column of a rewritten row comes from.
pub enum NewColumn {
    /// This column (from 0) of the old row.
    Same(usize),
    Null,
    /// This column of the old row, whose type has other fields now.
    Changed(usize, super::row_types::Change),
    /// Over the old row: range table index 0.
    Expression(Box<Expr>),
}

/// Fills a table again from what it was: `old` in `old_catalog`, by the new attribute numbers.
pub fn rewrite(
    cx: &mut DdlContext<'_>,
    old_catalog: &Arc<Catalog>,
    old: &Arc<Relation>,
    columns: Vec<NewColumn>,
) -> Result<()> {
    let list: Vec<String> = columns
        .iter()
        .map(|column| match column {
            NewColumn::Same(at) | NewColumn::Changed(at, _) => quote_identifier(&old.columns[*at].name),
            NewColumn::Null | NewColumn::Expression(_) => "null".to_owned(),
        })
        .collect();
    let list = if list.is_empty() { "null".to_owned() } else { list.join(", ") };
    let query = format!("select {list} from only {}", table_name(old_catalog, old));
    let mut query = super::text::read_query(&query, old_catalog, cx.env)?;
    let mut changes = Vec::new();
    for (at, (target, column)) in query.targets.iter_mut().zip(columns).enumerate() {
        match column {
            NewColumn::Expression(expr) => target.expr = *expr,
            NewColumn::Changed(_, change) => changes.push((at, change)),
            NewColumn::Same(_) | NewColumn::Null => {}
        }
    }
    let relation = cx.relation(old.oid)?;
    replace_storage(cx, &relation)?;
    let relation = cx.relation(old.oid)?;
    let mut loader = Loader::new(cx, &relation)?;
    let width = relation.columns.len();
    let required: Vec<usize> =
        (0..width).filter(|at| relation.columns[*at].not_null && !relation.columns[*at].dropped).collect();
    {
        let cx = &*cx;
        cx.host.read_rows(old_catalog, &query, &mut |mut row| {
            row.resize(width, Datum::Null);
            for (at, change) in &changes {
                row[*at] = change.apply(std::mem::take(&mut row[*at]));
            }
            for at in &required {
                if row[*at].is_null() {
                    return Err(contains_nulls(cx, &relation, *at));
                }
            }
            loader.add(cx, &row)?;
            Ok(true)
        })?;
    }
    loader.finish(cx).map_err(|error| {
        let primary = relation.primary_key.as_ref();
        match primary
            .filter(|_| error.sqlstate() == sqlstate::UNIQUE_VIOLATION && error.report().detail.is_none())
        {
            // The rows can still be asked for as they were.
            Some(primary) => duplicate_error(cx, old_catalog, old, primary).unwrap_or(error),
            None => error,
        }
    })
}

/// The value of an expression without columns.
pub fn evaluate(cx: &DdlContext<'_>, expr: &Expr) -> Result<Datum> {
    let mut query = super::text::read_query("select null", &cx.catalog, cx.env)?;
    if let Some(target) = query.targets.first_mut() {
        target.expr = expr.clone();
    }
    let mut value = Datum::Null;
    cx.host.run_query(&cx.catalog, &query, &mut |mut row| {
        value = row.swap_remove(0);
        Ok(false)
    })?;
    Ok(value)
}

pub fn has_rows(cx: &DdlContext<'_>, table: &Relation) -> Result<bool> {
    finds_row(cx, &format!("select 1 from only {} limit 1", table_name(&cx.catalog, table)))
}

pub fn contains_nulls(cx: &DdlContext<'_>, relation: &Relation, at: usize) -> Error {
    let column = &relation.columns[at].name;
    err!(NOT_NULL_VIOLATION, "column \"{column}\" of relation \"{}\" contains null values", relation.name)
        .table(cx.catalog.namespace_name(relation.namespace).to_string(), relation.name.to_string())
        .column(column.to_string())
}

/// Whether a query gives any row.
pub fn finds_row(cx: &DdlContext<'_>, query: &str) -> Result<bool> {
    let mut found = false;
    cx.host.select(&cx.catalog, query, &mut |_| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// 23502 where a column that is to be NOT NULL has nulls.
pub fn check_not_null(cx: &DdlContext<'_>, table: &Relation, at: usize) -> Result<()> {
    let column = quote_identifier(&table.columns[at].name);
    let query =
        format!("select 1 from only {} where {column} is null limit 1", table_name(&cx.catalog, table));
    if finds_row(cx, &query)? { Err(contains_nulls(cx, table, at)) } else { Ok(()) }
}

/// Checks all rows against a CHECK or FOREIGN KEY constraint. 23514, 23503.
pub fn validate(cx: &DdlContext<'_>, oid: Oid) -> Result<()> {
    let Some(constraint) = cx.catalog.constraint(oid).cloned() else { return Ok(()) };
    let table = cx.relation(constraint.table)?;
    let schema = cx.catalog.namespace_name(table.namespace).to_string();
    match constraint.kind {
        ConstraintKind::Check => {
            let text = constraint.expression.as_deref().unwrap_or("true");
            let query =
                format!("select 1 from only {} where not ({text}) limit 1", table_name(&cx.catalog, &table));
            if finds_row(cx, &query)? {
                return Err(err!(
                    CHECK_VIOLATION,
                    "check constraint \"{}\" of relation \"{}\" is violated by some row",
                    constraint.name,
                    table.name
                )
                .table(schema, table.name.to_string())
                .constraint(constraint.name.to_string()));
            }
        }
        ConstraintKind::ForeignKey => {
            let referenced = cx.relation(constraint.foreign_table)?;
            let query = constraint::violation_query(
                &table,
                &referenced,
                &constraint.columns,
                &constraint.foreign_columns,
                constraint.match_full,
                &|namespace| cx.catalog.namespace_name(namespace),
            );
            let shown = format!("select v::text from ({query} limit 1) as v");
            let mut detail = None;
            cx.host.select(&cx.catalog, &shown, &mut |row| {
                detail = Some(match row.first() {
                    Some(Datum::Text(text)) => text.trim_matches(['(', ')']).replace(',', ", "),
                    _ => String::new(),
                });
                Ok(false)
            })?;
            if let Some(values) = detail {
                let columns: Vec<&str> = constraint
                    .columns
                    .iter()
                    .map(|number| &*table.columns[*number as usize - 1].name)
                    .collect();
                return Err(err!(
                    FOREIGN_KEY_VIOLATION,
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    table.name,
                    constraint.name
                )
                .detail(format!(
                    "Key ({})=({values}) is not present in table \"{}\".",
                    columns.join(", "),
                    referenced.name
                ))
                .table(schema, table.name.to_string())
                .constraint(constraint.name.to_string()));
            }
        }
        _ => {}
    }
    Ok(())
}
