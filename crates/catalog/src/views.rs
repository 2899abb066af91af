//! The texts of the system views.
//!
//! `data/views/*.sql` are our own; oids and columns are PostgreSQL's and in the other data files. A view of the
//! information schema lists the columns that its query computes. What is stored casts these to their declared types and
//! makes the others null, so that the queries need not say `information_schema.sql_identifier` a thousand times.
//!
//! Rule: a view ends with the first `;` at the end of a line.

use std::collections::HashMap;
use std::sync::Arc;

use cairn_types::oid::namespaces;
use cairn_types::{Datum, Oid};

use crate::columns::{pg_attribute, pg_class, pg_rewrite, pg_type};
use crate::system_table::{CatalogRow, RowExt, system_table};

const PG_CATALOG: &str = include_str!("../data/views/pg_catalog.sql");
const INFORMATION_SCHEMA: &str = include_str!("../data/views/information_schema.sql");

/// One `create view`.
struct View<'a> {
    name: &'a str,
    /// Columns that the query computes; empty: all, as they are.
    columns: Vec<&'a str>,
    query: &'a str,
}

fn views(text: &str) -> impl Iterator<Item = View<'_>> {
    text.split("create view ").skip(1).filter_map(|part| {
        let (head, rest) = part.split_once(" as\n")?;
        let query = rest.split_once(";\n")?.0;
        let (name, columns) = match head.split_once('(') {
            Some((name, columns)) => {
                (name.trim(), columns.trim_end_matches(')').split(',').map(str::trim).collect())
            }
            None => (head.trim(), Vec::new()),
        };
        Some(View { name, columns, query })
    })
}

fn rows(catalog: Oid) -> &'static [CatalogRow] {
    system_table(catalog).map_or(&[], |table| table.builtin_rows())
}

/// Puts the texts into the rows of pg_rewrite.
pub(crate) fn rewrite_rows(plain: Vec<CatalogRow>) -> Vec<CatalogRow> {
    let classes: HashMap<(Oid, &str), Oid> = rows(pg_class::TABLE)
        .iter()
        .map(|row| ((row.oid(pg_class::RELNAMESPACE), row.str(pg_class::RELNAME)), row.oid(pg_class::OID)))
        .collect();
    let types: HashMap<Oid, &CatalogRow> =
        rows(pg_type::TABLE).iter().map(|row| (row.oid(pg_type::OID), row)).collect();
    let mut columns: HashMap<Oid, Vec<&CatalogRow>> = HashMap::new();
    for row in rows(pg_attribute::TABLE).iter().filter(|row| row.int(pg_attribute::ATTNUM) > 0) {
        columns.entry(row.oid(pg_attribute::ATTRELID)).or_default().push(row);
    }
    let mut texts: HashMap<Oid, String> = HashMap::new();
    for (namespace, file) in
        [(namespaces::PG_CATALOG, PG_CATALOG), (namespaces::INFORMATION_SCHEMA, INFORMATION_SCHEMA)]
    {
        for view in views(file) {
            let Some(oid) = classes.get(&(namespace, view.name)) else { continue };
            let text = if view.columns.is_empty() {
                view.query.to_owned()
            } else {
                let mut declared = columns.get(oid).cloned().unwrap_or_default();
                declared.sort_by_key(|row| row.int(pg_attribute::ATTNUM));
                cast_columns(&view, &declared, &types)
            };
            texts.insert(*oid, text);
        }
    }
    plain
        .into_iter()
        .map(|row| {
            let mut values = row.to_vec();
            values[pg_rewrite::EV_QUAL] = Datum::text("<>");
            if let Some(text) = texts.remove(&row.oid(pg_rewrite::EV_CLASS)) {
                values[pg_rewrite::EV_ACTION] = Datum::text(text);
            }
            Arc::from(values)
        })
        .collect()
}

/// `select x.a::type, null::type, ... from (query) x(a, ...)`
fn cast_columns(view: &View<'_>, declared: &[&CatalogRow], types: &HashMap<Oid, &CatalogRow>) -> String {
    let mut text = String::from("select ");
    for (position, row) in declared.iter().enumerate() {
        let name = row.str(pg_attribute::ATTNAME);
        let type_row = types.get(&row.oid(pg_attribute::ATTTYPID));
        let type_name = type_row.map_or("text", |row| row.str(pg_type::TYPNAME));
        let in_catalog = type_row.is_none_or(|row| row.oid(pg_type::TYPNAMESPACE) == namespaces::PG_CATALOG);
        let schema = if in_catalog { "pg_catalog" } else { "information_schema" };
        let value = if view.columns.contains(&name) { format!("x.{name}") } else { "null".to_owned() };
        let comma = if position > 0 { ", " } else { "" };
        text.push_str(&format!("{comma}{value}::{schema}.{type_name} as {name}"));
    }
    text.push_str(&format!(" from ({}) x({})", view.query, view.columns.join(", ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_has_a_text_and_every_text_a_view() {
        let with_text =
            rows(pg_rewrite::TABLE).iter().filter(|row| !row.datum(pg_rewrite::EV_ACTION).is_null());
        let own = system_table(pg_rewrite::TABLE).map_or(0, |table| crate::own::rows(table).len());
        let written = views(PG_CATALOG).count() + views(INFORMATION_SCHEMA).count() + own;
        assert_eq!(with_text.count(), written);
        assert_eq!(rows(pg_rewrite::TABLE).len(), written);
        assert!(written > 90);
        // Columns that a view lists exist.
        let catalog = crate::Catalog::builtin();
        for view in views(INFORMATION_SCHEMA) {
            let relation = catalog.relation_by_name(namespaces::INFORMATION_SCHEMA, view.name).unwrap();
            for column in &view.columns {
                let found = relation.columns.iter().any(|declared| &*declared.name == *column);
                assert!(found, "{}.{column}", view.name);
            }
        }
    }
}
