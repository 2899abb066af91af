//! CREATE EXTENSION: the few whose functions Cairn has built in.

use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_types::{Datum, Result, err};
use pg_query::protobuf;

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::node::{option_text, options};
use super::{names, rows};
use crate::system_functions::extensions;

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::CreateExtensionStmt) -> Result<()> {
    let name = &*statement.extname;
    if cx.catalog.extension(name).is_some() {
        if statement.if_not_exists {
            cx.env.notice(
                err!(DUPLICATE_OBJECT, "extension \"{name}\" already exists, skipping")
                    .severity(cairn_types::Severity::Notice),
            );
            return Ok(());
        }
        return Err(err!(DUPLICATE_OBJECT, "extension \"{name}\" already exists"));
    }
    let known = extensions::AVAILABLE.iter().find(|known| known.name == name);
    let unavailable = || {
        err!(FEATURE_NOT_SUPPORTED, "extension \"{name}\" is not available")
            .detail(format!("Cairn has no extension of this name built in: \"{name}\"."))
            .hint("The extension must first be installed on the system where PostgreSQL is running.")
    };
    if known.is_none() && !extensions::MISSING.contains(&name) {
        return Err(unavailable());
    }
    let database = super::database::oid(cx, &cx.env.current_database())?;
    if cx.require(ObjectKind::Database, database, acl::CREATE).is_err() {
        return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to create extension \"{name}\"")
            .hint("Must have CREATE privilege on current database to create this extension."));
    }
    let known = known.ok_or_else(unavailable)?;
    let mut schema = cx.search_path.creation;
    let mut version = known.version.to_owned();
    for option in options(&statement.options) {
        match &*option.defname {
            "schema" => schema = Some(names::namespace(cx, &option_text(option)?.unwrap_or_default())?),
            "new_version" => version = option_text(option)?.unwrap_or(version),
            // What it needs is built in as well.
            "cascade" => {}
            other => return Err(err!(SYNTAX_ERROR, "unrecognized option: {other}")),
        }
    }
    let schema =
        schema.ok_or_else(|| err!(INVALID_SCHEMA_NAME, "no schema has been selected to create in"))?;
    let oid = cx.new_oid()?;
    let owner = cx.user;
    cx.change(|writer| {
        use pg_extension as c;
        let mut row = blank_row(c::TABLE);
        row[c::OID] = Datum::Oid(oid);
        row[c::EXTNAME] = Datum::text(name);
        row[c::EXTOWNER] = Datum::Oid(owner);
        row[c::EXTNAMESPACE] = Datum::Oid(schema);
        row[c::EXTRELOCATABLE] = Datum::Bool(true);
        row[c::EXTVERSION] = Datum::text(version);
        rows::put(writer, c::TABLE, row)?;
        let address = Address::new(pg_extension::TABLE, oid);
        depend::record(writer, address, Address::new(pg_namespace::TABLE, schema), Dependency::Normal)
    })
}
