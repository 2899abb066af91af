//! Values of a row type that changes, where they are stored: in the columns of other tables.
//!
//! A stored composite value has the fields that its type had when it was written. Everything that reads one takes it for a
//! value of the type as it is (fields by position, text, JSON). So the tables that store such values are written anew when
//! an attribute comes, goes or gets another name; a reader at an earlier time sees the earlier rows, by the earlier type.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_catalog::columns::*;
use cairn_catalog::{Catalog, Relation, RelationKind, RowExt};
use cairn_txn::TableLockMode;
use cairn_types::{Array, Datum, Oid, Record, RecordField, Result, err};

use super::alter_table::same_columns;
use super::context::DdlContext;
use super::data::{self, NewColumn};

/// How values of a row type become values of what it is now.
#[derive(Clone)]
pub struct Change {
    row_type: Oid,
    fields: Arc<[RecordField]>,
    /// For each field, where it was; `None`: it is new, and null.
    origins: Arc<[Option<usize>]>,
}

impl Change {
    /// Between two states of a relation; `None` if values stay as they are.
    fn between(old: &Relation, new: &Relation, catalog: &Catalog) -> Option<Change> {
        let before: Vec<_> = old.columns.iter().filter(|column| !column.dropped).collect();
        let now = new.columns.iter().filter(|column| !column.dropped);
        let origins = now.map(|column| before.iter().position(|old| old.attnum == column.attnum)).collect();
        let fields = crate::names::composite_fields(catalog, new.row_type)?;
        let same = before.len() == fields.len()
            && before.iter().zip(fields.iter()).all(|(old, field)| *old.name == *field.name);
        (!same).then_some(Change { row_type: new.row_type, fields, origins })
    }

    /// The value with every value of the row type in it changed.
    pub fn apply(&self, value: Datum) -> Datum {
        match value {
            Datum::Record(record) => Datum::Record(Arc::new(self.apply_to_record(&record))),
            Datum::Array(array) => Datum::Array(Arc::new(Array {
                element_type: array.element_type,
                dimensions: array.dimensions.clone(),
                elements: array.elements.iter().map(|element| self.apply(element.clone())).collect(),
            })),
            other => other,
        }
    }

    fn apply_to_record(&self, record: &Record) -> Record {
        let values = record.values.iter().map(|value| self.apply(value.clone()));
        if record.type_oid != self.row_type {
            let fields = Arc::clone(&record.fields);
            return Record { type_oid: record.type_oid, fields, values: values.collect() };
        }
        let mut old: Vec<Datum> = values.collect();
        let moved = |origin: &Option<usize>| {
            origin.and_then(|at| old.get_mut(at)).map(std::mem::take).unwrap_or_default()
        };
        let values = self.origins.iter().map(moved).collect();
        Record { type_oid: self.row_type, fields: Arc::clone(&self.fields), values }
    }
}

/// The types whose values have values of a row type in them: itself, arrays, domains, other row types.
fn types_with(catalog: &Catalog, row_type: Oid) -> HashSet<Oid> {
    let mut found = HashSet::from([row_type]);
    loop {
        let before = found.len();
        for row in catalog.user_rows(pg_type::TABLE) {
            let inside = [row.oid(pg_type::TYPELEM), row.oid(pg_type::TYPBASETYPE)];
            if inside.iter().any(|oid| found.contains(oid)) {
                found.insert(row.oid(pg_type::OID));
            }
        }
        for row in catalog.user_rows(pg_attribute::TABLE) {
            if !row.bool(pg_attribute::ATTISDROPPED)
                && found.contains(&row.oid(pg_attribute::ATTTYPID))
                && let Some(relation) = catalog.relation(row.oid(pg_attribute::ATTRELID))
                && relation.row_type != 0
            {
                found.insert(relation.row_type);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The tables that store values of a relation's row type, and in which columns (from 0).
fn users(catalog: &Catalog, relation: &Relation) -> Vec<(Arc<Relation>, Vec<usize>)> {
    if relation.row_type == 0 {
        return Vec::new();
    }
    let types = types_with(catalog, relation.row_type);
    let mut tables: Vec<Oid> = catalog
        .user_rows(pg_attribute::TABLE)
        .filter(|row| {
            types.contains(&row.oid(pg_attribute::ATTTYPID)) && !row.bool(pg_attribute::ATTISDROPPED)
        })
        .map(|row| row.oid(pg_attribute::ATTRELID))
        .collect();
    tables.sort_unstable();
    tables.dedup();
    let stored =
        |table: &&Arc<Relation>| matches!(table.kind, RelationKind::Table | RelationKind::MaterializedView);
    tables
        .into_iter()
        .filter_map(|oid| catalog.relation(oid).filter(stored).cloned())
        .map(|table| {
            let concerned =
                |column: &cairn_catalog::Column| !column.dropped && types.contains(&column.ty.oid);
            let columns = (0..table.columns.len()).filter(|at| concerned(&table.columns[*at])).collect();
            (table, columns)
        })
        .collect()
}

/// Locks the tables that [`conform`] will write anew, before anything changes.
pub fn lock_users(cx: &mut DdlContext<'_>, relation: &Relation) -> Result<()> {
    for (table, _) in users(&cx.catalog, relation) {
        cx.lock(pg_class::TABLE, table.oid, TableLockMode::AccessExclusive)?;
        cx.require_not_in_use(&table, "ALTER TABLE")?;
    }
    Ok(())
}

/// Writes the tables anew that store values of a relation's row type, which was another in `before`.
pub fn conform(cx: &mut DdlContext<'_>, before: &Arc<Catalog>, relation: Oid) -> Result<()> {
    let (Some(old), Some(new)) = (before.relation(relation).cloned(), cx.catalog.relation(relation).cloned())
    else {
        return Ok(());
    };
    let Some(change) = Change::between(&old, &new, &cx.catalog) else { return Ok(()) };
    for (table, concerned) in users(&cx.catalog, &new) {
        let Some(old) = before.relation(table.oid).cloned() else { continue };
        let mut columns = same_columns(&old);
        // Columns that went at the same time.
        for (column, now) in columns.iter_mut().zip(&table.columns) {
            if now.dropped {
                *column = NewColumn::Null;
            }
        }
        for at in concerned {
            let number = at as i16 + 1;
            cx.change(|writer| crate::statistics::forget(writer, table.oid, number))?;
            if let Some(column) = columns.get_mut(at) {
                *column = NewColumn::Changed(at, change.clone());
            }
        }
        data::rewrite(cx, before, &old, columns)?;
    }
    Ok(())
}

/// 0A000 where other tables store values of the row type, which would need a value for the new column.
pub fn refuse_users(cx: &DdlContext<'_>, relation: &Relation) -> Result<()> {
    match users(&cx.catalog, relation).into_iter().next() {
        Some((table, columns)) => {
            let what = if relation.kind == RelationKind::CompositeType { "type" } else { "table" };
            let column = columns.first().map_or("", |at| &*table.columns[*at].name);
            Err(err!(
                FEATURE_NOT_SUPPORTED,
                "cannot alter {what} \"{}\" because column \"{}.{column}\" uses its row type",
                relation.name,
                table.name
            ))
        }
        None => Ok(()),
    }
}
