//! From names in statements to relations and schemas, and names for objects that were given none.

use std::sync::Arc;

use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::columns::{pg_class, pg_constraint, pg_namespace};
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{Catalog, Relation, RelationKind};
use cairn_txn::TableLockMode;
use cairn_types::oid::namespaces;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::RangeVar;

use super::context::DdlContext;

/// Longest identifier in bytes (NAMEDATALEN - 1).
pub const NAME_MAX: usize = 63;

/// How messages call a kind of relation.
pub fn kind_name(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::Table | RelationKind::PartitionedTable => "table",
        RelationKind::Index => "index",
        RelationKind::Sequence => "sequence",
        RelationKind::View => "view",
        RelationKind::MaterializedView => "materialized view",
        RelationKind::CompositeType => "composite type",
        RelationKind::Toast => "TOAST table",
    }
}

/// `schema.name` if a schema was written, else `name`.
pub fn display(name: &RangeVar) -> String {
    if name.schemaname.is_empty() {
        name.relname.clone()
    } else {
        format!("{}.{}", name.schemaname, name.relname)
    }
}

pub fn undefined(name: &RangeVar) -> Error {
    err!(UNDEFINED_TABLE, "relation \"{}\" does not exist", display(name))
}

fn check_database(cx: &DdlContext<'_>, name: &RangeVar) -> Result<()> {
    if !name.catalogname.is_empty() && *name.catalogname != *cx.env.current_database() {
        return Err(err!(
            FEATURE_NOT_SUPPORTED,
            "cross-database references are not implemented: \"{}.{}.{}\"",
            name.catalogname,
            name.schemaname,
            name.relname
        ));
    }
    Ok(())
}

/// The relation of this name, without a lock; `None` if there is none. 3F000 for a schema that does not exist.
pub fn find_relation(cx: &DdlContext<'_>, name: &RangeVar) -> Result<Option<Arc<Relation>>> {
    check_database(cx, name)?;
    let schema = (!name.schemaname.is_empty()).then_some(&*name.schemaname);
    if let Some(schema) = schema {
        cx.catalog.check_namespace(&cx.search_path, schema)?;
    }
    Ok(cx.catalog.resolve_relation(&cx.search_path, schema, &name.relname).cloned())
}

/// Finds and locks a relation; looks again if it changed while the lock was waited for.
pub fn open_optional(
    cx: &mut DdlContext<'_>,
    name: &RangeVar,
    mode: TableLockMode,
) -> Result<Option<Arc<Relation>>> {
    open_checked(cx, name, mode, &|_, _| Ok(()))
}

/// [`open_optional`], asking for rights before the lock: who may not touch a relation cannot stand in its way either.
pub fn open_checked(
    cx: &mut DdlContext<'_>,
    name: &RangeVar,
    mode: TableLockMode,
    check: &dyn Fn(&DdlContext<'_>, &Arc<Relation>) -> Result<()>,
) -> Result<Option<Arc<Relation>>> {
    loop {
        let Some(found) = find_relation(cx, name)? else { return Ok(None) };
        check(cx, &found)?;
        cx.lock(pg_class::TABLE, found.oid, mode)?;
        match find_relation(cx, name)? {
            Some(again) if again.oid == found.oid => return Ok(Some(again)),
            _ => {}
        }
    }
}

/// [`open_optional`]; 42P01 if there is no such relation.
pub fn open(cx: &mut DdlContext<'_>, name: &RangeVar, mode: TableLockMode) -> Result<Arc<Relation>> {
    open_existing(cx, name, mode, &|_, _| Ok(()))
}

/// [`open_checked`]; 42P01 if there is no such relation.
pub fn open_existing(
    cx: &mut DdlContext<'_>,
    name: &RangeVar,
    mode: TableLockMode,
    check: &dyn Fn(&DdlContext<'_>, &Arc<Relation>) -> Result<()>,
) -> Result<Arc<Relation>> {
    match open_checked(cx, name, mode, check)? {
        Some(relation) => Ok(relation),
        None => {
            if !name.schemaname.is_empty()
                && cx.catalog.resolve_namespace(&cx.search_path, &name.schemaname).is_none()
            {
                return Err(undefined_schema(&name.schemaname));
            }
            Err(undefined(name))
        }
    }
}

pub fn undefined_schema(name: &str) -> Error {
    err!(INVALID_SCHEMA_NAME, "schema \"{name}\" does not exist")
}

pub fn namespace(cx: &DdlContext<'_>, name: &str) -> Result<Oid> {
    cx.catalog
        .resolve_namespace(&cx.search_path, name)
        .ok_or_else(|| cx.catalog.missing_namespace(&cx.search_path, name))
}

/// 42501 for a relation of the system's, or of somebody else.
pub fn check_own(cx: &DdlContext<'_>, relation: &Arc<Relation>) -> Result<()> {
    check_not_system(relation)?;
    cx.require_table_owner(relation)
}

/// Refuses changes of objects that come with Cairn.
pub fn check_not_system(relation: &Relation) -> Result<()> {
    if relation.oid < cairn_types::oid::FIRST_USER_OID {
        return Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "permission denied: \"{}\" is a system catalog",
            relation.name
        ));
    }
    Ok(())
}

/// Where a new object of this name goes. 3F000 without a schema to create in.
pub fn creation_namespace(cx: &mut DdlContext<'_>, name: &RangeVar) -> Result<Oid> {
    check_database(cx, name)?;
    let temporary = name.relpersistence == "t";
    if temporary {
        if !name.schemaname.is_empty() && name.schemaname != "pg_temp" {
            return Err(err!(
                INVALID_TABLE_DEFINITION,
                "cannot create temporary relation in non-temporary schema"
            ));
        }
        return temporary_namespace(cx);
    }
    let namespace = match &*name.schemaname {
        "pg_temp" => return temporary_namespace(cx),
        "" => cx.search_path.creation.ok_or_else(|| {
            err!(INVALID_SCHEMA_NAME, "no schema has been selected to create in").at(name.location)
        })?,
        schema => namespace(cx, schema).map_err(|error| error.at(name.location))?,
    };
    check_creatable(cx, namespace, "schema")?;
    Ok(namespace)
}

/// 42501 for a schema of the system's.
pub fn check_not_system_schema(cx: &DdlContext<'_>, namespace: Oid) -> Result<()> {
    if matches!(namespace, namespaces::PG_CATALOG | namespaces::PG_TOAST | namespaces::INFORMATION_SCHEMA) {
        let name = cx.catalog.namespace_name(namespace);
        return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied for schema {name}"));
    }
    Ok(())
}

/// Users create nothing in the system's schemas, and elsewhere with the privilege CREATE.
pub fn check_creatable(cx: &DdlContext<'_>, namespace: Oid, what: &str) -> Result<()> {
    if matches!(
        namespace,
        namespaces::PG_CATALOG | namespaces::PG_TOAST | namespaces::INFORMATION_SCHEMA | namespaces::CAIRN
    ) {
        return Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "permission denied for {what} {}",
            cx.catalog.namespace_name(namespace)
        ));
    }
    if Some(namespace) == cx.search_path.temporary {
        return Ok(());
    }
    cx.require(ObjectKind::Schema, namespace, acl::CREATE)
}

/// The session's temporary schema, made when first needed.
fn temporary_namespace(cx: &mut DdlContext<'_>) -> Result<Oid> {
    if let Some(oid) = cx.search_path.temporary {
        return Ok(oid);
    }
    let database = super::database::oid(cx, &cx.env.current_database())?;
    if !cx.roles.is_superuser(cx.user) {
        let (has, _) = cx.rights().privileges(cx.user, ObjectKind::Database, database);
        if has & acl::TEMPORARY == 0 {
            return Err(err!(
                INSUFFICIENT_PRIVILEGE,
                "permission denied to create temporary tables in database \"{}\"",
                cx.env.current_database()
            ));
        }
    }
    let name = format!("pg_temp_{}", cx.env.backend_pid());
    // A session that ended with the server may have left objects under the same number.
    if let Some(left) = cx.catalog.namespace_by_name(&name).map(|namespace| namespace.oid) {
        super::drop::drop_silently(cx, super::depend::Address::new(pg_namespace::TABLE, left))?;
    }
    let oid = match cx.catalog.namespace_by_name(&name) {
        Some(found) => found.oid,
        None => {
            let oid = cx.new_oid()?;
            let owner = cx.user;
            cx.change(|writer| {
                let mut row = blank_row(pg_namespace::TABLE);
                row[pg_namespace::OID] = Datum::Oid(oid);
                row[pg_namespace::NSPNAME] = Datum::text(name);
                row[pg_namespace::NSPOWNER] = Datum::Oid(owner);
                super::rows::put(writer, pg_namespace::TABLE, row)
            })?;
            oid
        }
    };
    cx.search_path.temporary = Some(oid);
    cx.search_path.namespaces.insert(0, oid);
    cx.host.set_temporary_namespace(oid);
    Ok(oid)
}

/// Cuts to the longest prefix of whole characters that fits.
pub fn truncate_name(name: &str, bytes: usize) -> &str {
    if name.len() <= bytes {
        return name;
    }
    let mut end = bytes;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// `first_second_label`, the longer of the first two shortened until all fits.
pub fn object_name(first: &str, second: Option<&str>, label: &str) -> String {
    let overhead = label.len() + usize::from(!label.is_empty()) + usize::from(second.is_some());
    let room = NAME_MAX.saturating_sub(overhead);
    let (mut a, mut b) = (first.len(), second.map_or(0, str::len));
    while a + b > room {
        if a > b { a -= 1 } else { b -= 1 }
    }
    let mut name = truncate_name(first, a).to_owned();
    if let Some(second) = second {
        name.push('_');
        name.push_str(truncate_name(second, b));
    }
    if !label.is_empty() {
        name.push('_');
        name.push_str(label);
    }
    name
}

fn is_constraint_name(catalog: &Catalog, namespace: Oid, name: &str) -> bool {
    let name = (pg_constraint::CONNAME, Datum::text(name));
    let key = [name, (pg_constraint::CONNAMESPACE, Datum::Oid(namespace))];
    catalog.user_rows_by(pg_constraint::TABLE, &key).next().is_some()
}

/// A name for a new relation that is free in the schema; numbers are added until it is. `constraint`: the name
/// must be free as a constraint's too.
pub fn free_relation_name(
    catalog: &Catalog,
    namespace: Oid,
    first: &str,
    second: Option<&str>,
    label: &str,
    constraint: bool,
) -> String {
    numbered(first, second, label, |name| {
        catalog.relation_by_name(namespace, name).is_some()
            || (constraint && is_constraint_name(catalog, namespace, name))
    })
}

/// A name for a new constraint that no other of the schema has, nor any of `taken`.
pub fn free_constraint_name(
    catalog: &Catalog,
    namespace: Oid,
    table: &str,
    column: Option<&str>,
    label: &str,
    taken: &[String],
) -> String {
    numbered(table, column, label, |name| {
        taken.iter().any(|other| other == name) || is_constraint_name(catalog, namespace, name)
    })
}

fn numbered(first: &str, second: Option<&str>, label: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = object_name(first, second, label);
    let mut number = 0;
    while is_taken(&name) {
        number += 1;
        name = object_name(first, second, &format!("{label}{number}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_to_fit() {
        assert_eq!(object_name("t", Some("a"), "idx"), "t_a_idx");
        assert_eq!(object_name("t", None, "pkey"), "t_pkey");
        let long = "x".repeat(63);
        assert_eq!(object_name(&long, Some("a"), "key").len(), 63);
        assert!(object_name(&long, Some("a"), "key").ends_with("x_a_key"));
        assert_eq!(object_name(&long, Some(&long), "fkey").len(), 63);
    }
}
