//! ALTER DEFAULT PRIVILEGES: lists that new objects begin with (pg_default_acl).
//!
//! A row without a schema replaces the built-in default of what a role makes; one with a schema adds to it.

use cairn_catalog::acl::{Acl, ObjectKind};
use cairn_catalog::columns::pg_default_acl as c;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{CatalogRow, RowExt};
use cairn_exec::TxnResultExt;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, ObjectType, node::Node as NodeEnum};

use super::context::DdlContext;
use super::grant::{self, Change};
use super::names;
use super::node::{inner, list, options, string};

/// pg_default_acl.defaclobjtype.
fn code(kind: ObjectKind) -> u8 {
    match kind {
        ObjectKind::Sequence => b'S',
        ObjectKind::Function => b'f',
        ObjectKind::Type => b'T',
        ObjectKind::Schema => b'n',
        _ => b'r',
    }
}

pub fn alter(cx: &mut DdlContext<'_>, statement: &protobuf::AlterDefaultPrivilegesStmt) -> Result<()> {
    let action = statement.action.as_ref().ok_or_else(|| Error::internal("no action"))?;
    let kind = match action.objtype() {
        ObjectType::ObjectSequence => ObjectKind::Sequence,
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            ObjectKind::Function
        }
        ObjectType::ObjectType => ObjectKind::Type,
        ObjectType::ObjectSchema => ObjectKind::Schema,
        _ => ObjectKind::Table,
    };
    let (mut schemas, mut roles) = (vec![0], vec![cx.user]);
    for option in options(&statement.options) {
        let nodes = option.arg.as_deref().map_or(&[][..], list);
        if option.defname == "schemas" {
            schemas.clear();
            for node in nodes {
                schemas.push(names::namespace(cx, string(node).unwrap_or(""))?);
            }
        } else {
            roles.clear();
            for node in nodes {
                let NodeEnum::RoleSpec(spec) = inner(node)? else { continue };
                roles.push(super::node::role(cx, spec)?);
            }
        }
    }
    if kind == ObjectKind::Schema && schemas != [0] {
        return Err(err!(
            INVALID_GRANT_OPERATION,
            "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS"
        ));
    }
    let change = Change::read(cx, action)?;
    let (privileges, columns) = grant::privileges(action, kind)?;
    if !columns.is_empty() {
        return Err(err!(INVALID_GRANT_OPERATION, "default privileges cannot be set for columns"));
    }
    for role in roles {
        if !cx.roles.has_privileges_of(cx.user, role) {
            return Err(err!(
                INSUFFICIENT_PRIVILEGE,
                "must be member of role \"{}\"",
                cx.roles.name(role).map_or_else(String::new, |name| name.to_string())
            ));
        }
        for schema in &schemas {
            let old = row(cx, role, *schema, kind);
            let built_in = if *schema == 0 { Acl::default_of(kind, role) } else { Acl::default() };
            let mut acl = match &old {
                Some(row) => Acl::of(kind, role, row.datum(c::DEFACLACL), &|name| cx.roles.by_name(name)),
                None => built_in.clone(),
            };
            change.apply(&mut acl, role, role, privileges)?;
            put(cx, role, *schema, kind, &acl, old.as_ref(), &built_in)?;
        }
    }
    Ok(())
}

fn row(cx: &DdlContext<'_>, role: Oid, schema: Oid, kind: ObjectKind) -> Option<CatalogRow> {
    let mut rows = cx.catalog.user_rows(c::TABLE);
    rows.find(|row| {
        row.oid(c::DEFACLROLE) == role
            && row.oid(c::DEFACLNAMESPACE) == schema
            && row.char(c::DEFACLOBJTYPE) == code(kind)
    })
    .cloned()
}

/// Whether two lists say the same, in whatever order.
fn same(a: &Acl, b: &Acl) -> bool {
    a.items.len() == b.items.len() && a.items.iter().all(|item| b.items.contains(item))
}

fn put(
    cx: &mut DdlContext<'_>,
    role: Oid,
    schema: Oid,
    kind: ObjectKind,
    acl: &Acl,
    old: Option<&CatalogRow>,
    built_in: &Acl,
) -> Result<()> {
    let oid = match old {
        Some(old) => old.oid(c::OID),
        None => cx.new_oid()?,
    };
    if same(acl, built_in) {
        if old.is_none() {
            return Ok(());
        }
        return cx.change(|writer| {
            writer.delete_where(c::TABLE, |row| row.oid(c::OID) == oid).sql()?;
            Ok(())
        });
    }
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(oid);
    row[c::DEFACLROLE] = Datum::Oid(role);
    row[c::DEFACLNAMESPACE] = Datum::Oid(schema);
    row[c::DEFACLOBJTYPE] = Datum::Char(code(kind));
    row[c::DEFACLACL] = acl.to_datum();
    cx.change(|writer| super::rows::put(writer, c::TABLE, row))
}

/// Gives an object that was just made the list that its owner's default privileges ask for.
pub fn apply(cx: &mut DdlContext<'_>, kind: ObjectKind, oid: Oid, owner: Oid, schema: Oid) -> Result<()> {
    if cx.catalog.user_rows(c::TABLE).next().is_none() {
        return Ok(());
    }
    let read =
        |row: CatalogRow| Acl::of(kind, owner, row.datum(c::DEFACLACL), &|name| cx.roles.by_name(name));
    let built_in = Acl::default_of(kind, owner);
    let mut acl = row(cx, owner, 0, kind).map_or_else(|| built_in.clone(), read);
    if schema != 0
        && let Some(more) = row(cx, owner, schema, kind).map(read)
    {
        for item in more.items {
            acl.grant(item.grantee, item.grantor, item.privileges, item.options);
        }
    }
    if same(&acl, &built_in) { Ok(()) } else { grant::store(cx, kind, oid, &acl) }
}

/// Forgets a schema's default privileges with the schema.
pub fn forget_schema(writer: &mut cairn_catalog::CatalogWriter<'_>, schema: Oid) -> Result<()> {
    writer.delete_where(c::TABLE, |row| row.oid(c::DEFACLNAMESPACE) == schema).sql()?;
    Ok(())
}
