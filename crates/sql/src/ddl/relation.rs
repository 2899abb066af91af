//! Making a relation: its pg_class, pg_type and pg_attribute rows, its key space.

use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::*;
use cairn_catalog::{RelationKind, TypeRef};
use cairn_exec::TxnResultExt;
use cairn_types::oid::access_methods;
use cairn_types::{Oid, Result, Text, err};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::rows;

/// A column as pg_attribute will have it.
#[derive(Clone, Debug)]
pub struct ColumnSpec {
    pub name: String,
    pub ty: TypeRef,
    pub dimensions: i32,
    pub not_null: bool,
    /// `a`, `d` or 0.
    pub identity: u8,
    /// `s` or 0.
    pub generated: u8,
}

impl ColumnSpec {
    pub fn new(name: impl Into<String>, ty: TypeRef) -> Self {
        ColumnSpec { name: name.into(), ty, dimensions: 0, not_null: false, identity: 0, generated: 0 }
    }
}

pub struct RelationSpec<'a> {
    pub name: &'a str,
    pub namespace: Oid,
    pub kind: RelationKind,
    /// pg_class.relpersistence.
    pub persistence: u8,
    pub columns: &'a [ColumnSpec],
    pub options: Vec<Text>,
}

/// pg_class.relkind.
pub fn kind_code(kind: RelationKind) -> u8 {
    match kind {
        RelationKind::Table => b'r',
        RelationKind::Index => b'i',
        RelationKind::Sequence => b'S',
        RelationKind::View => b'v',
        RelationKind::MaterializedView => b'm',
        RelationKind::CompositeType => b'c',
        RelationKind::PartitionedTable => b'p',
        RelationKind::Toast => b't',
    }
}

const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"];

/// Refuses names of system columns and repetitions. 42701, 54011.
pub fn check_columns(cx: &DdlContext<'_>, kind: RelationKind, columns: &[ColumnSpec]) -> Result<()> {
    if columns.len() > 1600 {
        return Err(err!(TOO_MANY_COLUMNS, "tables can have at most 1600 columns"));
    }
    for (at, column) in columns.iter().enumerate() {
        if SYSTEM_COLUMNS.contains(&&*column.name)
            && !matches!(kind, RelationKind::View | RelationKind::CompositeType)
        {
            return Err(err!(
                DUPLICATE_COLUMN,
                "column name \"{}\" conflicts with a system column name",
                column.name
            ));
        }
        if columns[..at].iter().any(|other| other.name == column.name) {
            return Err(err!(DUPLICATE_COLUMN, "column \"{}\" specified more than once", column.name));
        }
        super::text::check_column_type(cx, &column.name, column.ty.oid)?;
    }
    Ok(())
}

/// Makes the relation; its name must be free ([`check_name_is_free`]). Returns its oid.
pub fn create(cx: &mut DdlContext<'_>, spec: &RelationSpec<'_>) -> Result<Oid> {
    check_columns(cx, spec.kind, spec.columns)?;
    let oid = cx.new_oid()?;
    let has_type = spec.kind != RelationKind::Sequence;
    let (row_type, array_type) = if has_type { (cx.new_oid()?, cx.new_oid()?) } else { (0, 0) };
    let storage = if depend::has_storage(spec.kind) { cx.txn.create_storage().sql()? } else { 0 };
    let owner = cx.user;
    let catalog = cx.catalog.clone();
    let method = match spec.kind {
        RelationKind::Table | RelationKind::MaterializedView => access_methods::HEAP,
        _ => 0,
    };
    cx.change(|writer| {
        let class = rows::Class {
            oid,
            name: spec.name,
            namespace: spec.namespace,
            owner,
            kind: kind_code(spec.kind),
            persistence: spec.persistence,
            row_type,
            method,
            storage,
            column_count: spec.columns.len(),
            options: spec.options.clone(),
        };
        rows::put(writer, pg_class::TABLE, rows::class_row(&class))?;
        for (at, column) in spec.columns.iter().enumerate() {
            put_column(writer, &catalog, oid, (at + 1) as i16, column)?;
        }
        let this = Address::relation(oid);
        let schema = Address::new(pg_namespace::TABLE, spec.namespace);
        // A free-standing composite type is listed as a type: its relation is the part.
        let is_type = spec.kind == RelationKind::CompositeType;
        if !is_type {
            depend::record(writer, this, schema, Dependency::Normal)?;
        }
        if has_type {
            let array_name = rows::array_type_name(&catalog, spec.namespace, spec.name);
            let row = rows::TypeRow {
                oid: row_type,
                name: spec.name,
                namespace: spec.namespace,
                owner,
                kind: b'c',
                relation: oid,
                element: 0,
                array: array_type,
            };
            rows::put(writer, pg_type::TABLE, rows::type_row(&row))?;
            let array = rows::TypeRow {
                oid: array_type,
                name: &array_name,
                kind: b'b',
                relation: 0,
                element: row_type,
                array: 0,
                ..row
            };
            rows::put(writer, pg_type::TABLE, rows::type_row(&array))?;
            let row_address = Address::new(pg_type::TABLE, row_type);
            if is_type {
                depend::record(writer, this, row_address, Dependency::Internal)?;
                depend::record(writer, row_address, schema, Dependency::Normal)?;
            } else {
                depend::record(writer, row_address, this, Dependency::Internal)?;
            }
            depend::record(
                writer,
                Address::new(pg_type::TABLE, array_type),
                row_address,
                Dependency::Internal,
            )?;
        }
        Ok(())
    })?;
    match spec.kind {
        RelationKind::Sequence => {
            super::default_privileges::apply(cx, ObjectKind::Sequence, oid, owner, spec.namespace)?;
        }
        RelationKind::Table | RelationKind::View | RelationKind::MaterializedView => {
            super::default_privileges::apply(cx, ObjectKind::Table, oid, owner, spec.namespace)?;
        }
        _ => {}
    }
    Ok(oid)
}

/// Writes a column's pg_attribute row and what it depends on.
pub fn put_column(
    writer: &mut cairn_catalog::CatalogWriter<'_>,
    catalog: &cairn_catalog::Catalog,
    relation: Oid,
    number: i16,
    column: &ColumnSpec,
) -> Result<()> {
    let attribute = rows::Attribute {
        relation,
        number,
        name: &column.name,
        ty: column.ty,
        dimensions: column.dimensions,
        not_null: column.not_null,
        has_default: false,
        identity: column.identity,
        generated: column.generated,
    };
    rows::put(writer, pg_attribute::TABLE, rows::attribute_row(catalog, &attribute))?;
    if let Some(on) = depend::of_type(column.ty.oid, catalog) {
        depend::record(writer, Address::column(relation, number), on, Dependency::Normal)?;
    }
    Ok(())
}

/// Whether a name can be given to a new relation; locks it. `Ok(false)`: taken, and `if_not_exists` was said (the
/// notice is out).
pub fn check_name_is_free(
    cx: &mut DdlContext<'_>,
    namespace: Oid,
    name: &str,
    if_not_exists: bool,
) -> Result<bool> {
    cx.lock_name(pg_class::TABLE, namespace, name)?;
    if cx.catalog.relation_by_name(namespace, name).is_some() {
        let message = format!("relation \"{name}\" already exists");
        if if_not_exists {
            cx.env
                .notice(err!(DUPLICATE_TABLE, "{message}, skipping").severity(cairn_types::Severity::Notice));
            return Ok(false);
        }
        return Err(err!(DUPLICATE_TABLE, "{message}"));
    }
    Ok(true)
}

/// A type of the same name stands in the way of a new table's row type. 42710.
pub fn check_type_is_free(cx: &DdlContext<'_>, namespace: Oid, name: &str) -> Result<()> {
    if cx.catalog.type_by_name(namespace, name).is_some() {
        return Err(err!(DUPLICATE_OBJECT, "type \"{name}\" already exists").hint(
            "A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.",
        ));
    }
    Ok(())
}
