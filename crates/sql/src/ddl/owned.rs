//! DROP OWNED, REASSIGN OWNED, and what keeps a role from being dropped: its objects and privileges in this database, and
//! the databases themselves.

use cairn_catalog::acl::{Acl, ObjectKind};
use cairn_catalog::columns::*;
use cairn_catalog::{RelationKind, RowExt, SharedCatalogs};
use cairn_exec::TxnResultExt;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, DropBehavior, Node, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::{Address, describe};
use super::grant;
use super::node::{inner, required};
use crate::rights::columns_of;

const KINDS: &[ObjectKind] = &[ObjectKind::Table, ObjectKind::Function, ObjectKind::Schema, ObjectKind::Type];

/// A list that names the role: where it is.
enum Listed {
    Object(ObjectKind, Oid),
    Column(Oid, i16),
    Database(Oid, String),
    /// A row of pg_default_acl.
    Default(Oid),
}

fn names_role(acl: &Acl, role: Oid) -> bool {
    acl.items.iter().any(|item| item.grantee == role || item.grantor == role)
}

/// All access lists that name the role, owners' own entries not counted.
fn listed(cx: &DdlContext<'_>, role: Oid) -> Vec<(Listed, Acl)> {
    let by_name = |name: &str| cx.roles.by_name(name);
    let mut found = Vec::new();
    for kind in KINDS {
        let (catalog, owner, list) = columns_of(*kind);
        for row in cx.catalog.user_rows(catalog).filter(|row| !row.datum(list).is_null()) {
            let kind = match kind {
                ObjectKind::Table if row.char(pg_class::RELKIND) == b'S' => ObjectKind::Sequence,
                kind => *kind,
            };
            let acl = Acl::of(kind, row.oid(owner), row.datum(list), &by_name);
            if row.oid(owner) != role && names_role(&acl, role) {
                found.push((Listed::Object(kind, row.oid(0)), acl));
            }
        }
    }
    for row in
        cx.catalog.user_rows(pg_attribute::TABLE).filter(|row| !row.datum(pg_attribute::ATTACL).is_null())
    {
        let acl = Acl::of(ObjectKind::Column, 0, row.datum(pg_attribute::ATTACL), &by_name);
        let table = row.oid(pg_attribute::ATTRELID);
        let own = cx.catalog.relation(table).is_some_and(|relation| relation.owner == role);
        if !own && names_role(&acl, role) {
            found.push((Listed::Column(table, row.int(pg_attribute::ATTNUM) as i16), acl));
        }
    }
    for row in cx.catalog.user_rows(pg_default_acl::TABLE) {
        let acl = Acl::of(ObjectKind::Table, 0, row.datum(pg_default_acl::DEFACLACL), &by_name);
        if row.oid(pg_default_acl::DEFACLROLE) == role || names_role(&acl, role) {
            found.push((Listed::Default(row.oid(pg_default_acl::OID)), acl));
        }
    }
    for row in cx.shared.iter().flat_map(|shared| shared.rows(pg_database::TABLE)) {
        if row.datum(pg_database::DATACL).is_null() || row.oid(pg_database::DATDBA) == role {
            continue;
        }
        let acl = Acl::of(
            ObjectKind::Database,
            row.oid(pg_database::DATDBA),
            row.datum(pg_database::DATACL),
            &by_name,
        );
        if names_role(&acl, role) {
            let name = row.str(pg_database::DATNAME).to_owned();
            found.push((Listed::Database(row.oid(pg_database::OID), name), acl));
        }
    }
    found
}

/// `privileges for table t`: lines of the DETAIL that DROP ROLE fails with.
pub fn privileges_of(cx: &DdlContext<'_>, role: Oid) -> Vec<String> {
    let describe = |address| describe(&cx.catalog, &cx.search_path, address);
    let mut lines = Vec::new();
    for (listed, _) in listed(cx, role) {
        lines.push(match listed {
            Listed::Object(kind, oid) => {
                format!("privileges for {}", describe(Address::new(columns_of(kind).0, oid)))
            }
            Listed::Column(table, number) => {
                format!("privileges for {}", describe(Address::column(table, number)))
            }
            Listed::Database(_, name) => format!("privileges for database {name}"),
            Listed::Default(oid) => {
                let row = cx.catalog.row_by_oid(pg_default_acl::TABLE, oid);
                let row = row.as_deref().unwrap_or_default();
                let what = match row.char(pg_default_acl::DEFACLOBJTYPE) {
                    b'S' => "sequences",
                    b'f' => "functions",
                    b'T' => "types",
                    b'n' => "schemas",
                    _ => "relations",
                };
                let of = row.oid(pg_default_acl::DEFACLROLE);
                let verb = if of == role { "owner of" } else { "privileges for" };
                let name = cx.role_name(of).unwrap_or_else(|| "".into());
                let schema = row.oid(pg_default_acl::DEFACLNAMESPACE);
                let tail = if schema == 0 {
                    String::new()
                } else {
                    format!(" in schema {}", cx.catalog.namespace_name(schema))
                };
                format!("{verb} default privileges on new {what} belonging to role {name}{tail}")
            }
        });
    }
    lines
}

/// The roles that the statement names. 42501 for one whose privileges the current role does not have.
fn roles(cx: &DdlContext<'_>, nodes: &[Node]) -> Result<Vec<Oid>> {
    let mut roles = Vec::new();
    for node in nodes {
        let NodeEnum::RoleSpec(spec) = inner(node)? else { continue };
        let role = super::node::role(cx, spec)?;
        if !cx.roles.has_privileges_of(cx.user, role) {
            return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to drop objects"));
        }
        roles.push(role);
    }
    Ok(roles)
}

/// Objects of this database that belong to the role; what is part of another one is left out.
fn objects_of(cx: &DdlContext<'_>, role: Oid) -> Vec<Address> {
    let mut found = Vec::new();
    for relation in cx.catalog.user_relations().filter(|relation| relation.owner == role) {
        if !matches!(relation.kind, RelationKind::Index | RelationKind::CompositeType) {
            found.push(Address::relation(relation.oid));
        }
    }
    for proc in cx.catalog.user_procs().filter(|proc| proc.owner == role) {
        found.push(Address::new(pg_proc::TABLE, proc.oid));
    }
    for row in cx.catalog.user_rows(pg_type::TABLE).filter(|row| row.oid(pg_type::TYPOWNER) == role) {
        let relation = cx.catalog.relation(row.oid(pg_type::TYPRELID));
        let of_table = relation.is_some_and(|relation| relation.kind != RelationKind::CompositeType);
        if !of_table && row.oid(pg_type::TYPELEM) == 0 {
            found.push(Address::new(pg_type::TABLE, row.oid(pg_type::OID)));
        }
    }
    for row in cx.catalog.user_rows(pg_namespace::TABLE).filter(|row| row.oid(pg_namespace::NSPOWNER) == role)
    {
        found.push(Address::new(pg_namespace::TABLE, row.oid(pg_namespace::OID)));
    }
    // An owned sequence or another part goes with its whole.
    let parts: Vec<Oid> = cx
        .catalog
        .user_rows(pg_depend::TABLE)
        .filter(|row| {
            row.oid(pg_depend::CLASSID) == pg_class::TABLE
                && matches!(row.char(pg_depend::DEPTYPE), b'a' | b'i')
        })
        .map(|row| row.oid(pg_depend::OBJID))
        .collect();
    found.retain(|address| address.class != pg_class::TABLE || !parts.contains(&address.object));
    found
}

/// DROP OWNED: the roles' objects in this database, and what was granted to them.
pub fn drop(cx: &mut DdlContext<'_>, statement: &protobuf::DropOwnedStmt) -> Result<()> {
    let cascade = statement.behavior() == DropBehavior::DropCascade;
    let roles = roles(cx, &statement.roles)?;
    for role in &roles {
        if *role == cairn_types::oid::BOOTSTRAP_ROLE {
            return Err(err!(
                DEPENDENT_OBJECTS_STILL_EXIST,
                "cannot drop objects owned by role postgres because they are required by the database system"
            ));
        }
        for (place, mut acl) in listed(cx, *role) {
            acl.items.retain(|item| item.grantee != *role && item.grantor != *role);
            match place {
                Listed::Object(kind, oid) => grant::store(cx, kind, oid, &acl)?,
                Listed::Column(table, number) => grant::store_column(cx, table, number, &acl)?,
                Listed::Database(oid, _) => grant::store(cx, ObjectKind::Database, oid, &acl)?,
                Listed::Default(oid) => cx.change(|writer| {
                    let own = |row: &[Datum]| row.oid(pg_default_acl::OID) == oid;
                    if acl.items.is_empty() {
                        writer.delete_where(pg_default_acl::TABLE, own).sql()?;
                    } else {
                        let list = acl.to_datum();
                        let change = |row: &mut Vec<Datum>| row[pg_default_acl::DEFACLACL] = list.clone();
                        writer.update_where(pg_default_acl::TABLE, own, change).sql()?;
                    }
                    Ok(())
                })?,
            }
        }
    }
    let mut objects = Vec::new();
    for role in roles {
        objects.extend(objects_of(cx, role));
    }
    super::drop::drop_objects(cx, &objects, cascade)
}

/// REASSIGN OWNED: the roles' objects in this database, and their databases, get another owner.
pub fn reassign(cx: &mut DdlContext<'_>, statement: &protobuf::ReassignOwnedStmt) -> Result<()> {
    let roles = roles(cx, &statement.roles)?;
    let owner = super::node::role(cx, required(&statement.newrole)?)?;
    if !cx.roles.has_privileges_of(cx.user, owner) {
        return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to reassign objects"));
    }
    for role in roles {
        for address in objects_of(cx, role) {
            match address.class {
                pg_class::TABLE => {
                    let relation = cx.relation(address.object)?;
                    super::rename::change_relation_owner(cx, &relation, owner)?;
                }
                pg_proc::TABLE => {
                    let proc = cx.catalog.proc(address.object).cloned();
                    let proc = proc.ok_or_else(|| Error::internal("a function is gone"))?;
                    super::rename::change_proc_owner(cx, &proc, owner)?;
                }
                pg_type::TABLE => {
                    let object = cx.catalog.type_by_oid(address.object).cloned();
                    let object = object.ok_or_else(|| Error::internal("a type is gone"))?;
                    super::rename::change_type_owner(cx, &object, owner)?;
                }
                _ => super::rename::change_namespace_owner(cx, address.object, owner)?,
            }
        }
        if let Some(shared) = cx.shared.clone() {
            for name in super::database::owned_by(&shared, role) {
                super::database::set_owner(cx, &name, owner)?;
            }
        }
    }
    Ok(())
}
