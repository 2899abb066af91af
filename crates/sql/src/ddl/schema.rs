//! CREATE SCHEMA.

use cairn_analyze::RawStatement;
use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_types::{Datum, Result, err};
use pg_query::protobuf::{self, node::Node as NodeEnum};

use super::context::DdlContext;
use super::{node, rows};

pub fn create(
    cx: &mut DdlContext<'_>,
    statement: &protobuf::CreateSchemaStmt,
    raw: &RawStatement,
) -> Result<()> {
    let owner = match &statement.authrole {
        Some(role) => node::role(cx, role)?,
        None => cx.user,
    };
    let name = if statement.schemaname.is_empty() {
        cx.role_name(owner).map_or_else(String::new, |name| name.to_string())
    } else {
        statement.schemaname.clone()
    };
    let database = super::database::oid(cx, &cx.env.current_database())?;
    cx.require(ObjectKind::Database, database, acl::CREATE)?;
    if !cx.roles.is_member(cx.user, owner) {
        return Err(super::database::must_be_member(cx, owner));
    }
    if name.starts_with("pg_") {
        return Err(err!(RESERVED_NAME, "unacceptable schema name \"{name}\"")
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    cx.lock_name(pg_namespace::TABLE, 0, &name)?;
    if cx.catalog.namespace_by_name(&name).is_some() {
        if statement.if_not_exists {
            cx.env.notice(
                err!(DUPLICATE_SCHEMA, "schema \"{name}\" already exists, skipping")
                    .severity(cairn_types::Severity::Notice),
            );
            return Ok(());
        }
        return Err(err!(DUPLICATE_SCHEMA, "schema \"{name}\" already exists"));
    }
    let oid = cx.new_oid()?;
    cx.change(|writer| {
        use pg_namespace as c;
        let mut row = blank_row(c::TABLE);
        row[c::OID] = Datum::Oid(oid);
        row[c::NSPNAME] = Datum::text(&*name);
        row[c::NSPOWNER] = Datum::Oid(owner);
        rows::put(writer, c::TABLE, row)
    })?;
    super::default_privileges::apply(cx, ObjectKind::Schema, oid, owner, 0)?;
    // Its elements are made in it, for its owner.
    let user = std::mem::replace(&mut cx.user, owner);
    let saved = cx.search_path.clone();
    cx.search_path.creation = Some(oid);
    cx.search_path.namespaces.insert(0, oid);
    for element in &statement.schema_elts {
        let result = match node::inner(element)? {
            inner @ (NodeEnum::CreateStmt(_)
            | NodeEnum::IndexStmt(_)
            | NodeEnum::ViewStmt(_)
            | NodeEnum::CreateSeqStmt(_)
            | NodeEnum::GrantStmt(_)
            | NodeEnum::CreateTrigStmt(_)) => super::run_element(cx, inner, raw),
            _ => Err(cairn_types::Error::unsupported("this schema element is")),
        };
        if result.is_err() {
            cx.user = user;
        }
        result?;
    }
    cx.user = user;
    cx.search_path = saved;
    Ok(())
}
