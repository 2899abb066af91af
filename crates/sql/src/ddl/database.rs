//! CREATE, DROP and ALTER DATABASE. They change the cluster at once: no transaction undoes them.

use std::sync::Arc;

use cairn_catalog::acl::{Acl, ObjectKind};
use cairn_catalog::{ClusterCatalog, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::Origin;
use cairn_types::{Error, Result, err};
use pg_query::protobuf;

use super::context::DdlContext;
use super::node::{option_bool, option_text, options};

fn cluster(cx: &DdlContext<'_>) -> Result<Arc<ClusterCatalog>> {
    cx.shared.clone().ok_or_else(|| Error::unsupported("other databases of an embedded one are"))
}

fn refuse_in_block(cx: &DdlContext<'_>, what: &str) -> Result<()> {
    if cx.host.in_transaction_block() {
        return Err(err!(ACTIVE_SQL_TRANSACTION, "{what} cannot run inside a transaction block"));
    }
    Ok(())
}

/// The database with this name. 3D000.
pub fn oid(cx: &DdlContext<'_>, name: &str) -> Result<u32> {
    let info = cluster(cx)?.cluster().database_info(name);
    info.map(|info| info.oid).ok_or_else(|| err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"))
}

fn require_owner(cx: &DdlContext<'_>, info: &cairn_txn::DatabaseInfo) -> Result<()> {
    if cx.roles.has_privileges_of(cx.user, info.owner) {
        return Ok(());
    }
    Err(err!(INSUFFICIENT_PRIVILEGE, "must be owner of database {}", info.name))
}

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::CreatedbStmt) -> Result<()> {
    refuse_in_block(cx, "CREATE DATABASE")?;
    let cluster = cluster(cx)?;
    let name = &*statement.dbname;
    let mut template = "template1".to_owned();
    let mut owner = cx.user;
    let mut is_template = false;
    let mut allows_connections = true;
    for option in options(&statement.options) {
        let text = option_text(option)?.unwrap_or_default();
        match &*option.defname {
            "template" if text.is_empty() || text == "default" => {}
            "template" => template = text,
            "owner" => owner = cx.role(&text)?,
            "encoding" => check_encoding(&text)?,
            "lc_collate" | "lc_ctype" | "locale" => check_locale(&text)?,
            "locale_provider" if text == "libc" => {}
            "locale_provider" => return Err(Error::unsupported(format!("locale provider \"{text}\" is"))),
            "is_template" => is_template = option_bool(option)?,
            "allow_connections" => allows_connections = option_bool(option)?,
            "connection_limit" => refuse_limit(&text)?,
            "tablespace" => super::reloptions::check_tablespace(&text)?,
            "strategy" | "collation_version" | "oid" => {}
            other => return Err(err!(SYNTAX_ERROR, "option \"{other}\" not recognized").at(option.location)),
        }
    }
    if !cx.roles.has(cx.user, |role| role.create_database) {
        return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to create database"));
    }
    if !cx.roles.is_member(cx.user, owner) {
        return Err(must_be_member(cx, owner));
    }
    if cluster.cluster().database_info(name).is_some() {
        return Err(err!(DUPLICATE_DATABASE, "database \"{name}\" already exists"));
    }
    let info = cluster.cluster().database_info(&template);
    let origin = match (&*template, &info) {
        // The templates are empty until somebody puts something into them.
        ("template0" | "template1", None) => Origin::Empty,
        (_, None) => {
            return Err(err!(INVALID_CATALOG_NAME, "template database \"{template}\" does not exist"));
        }
        (_, Some(_)) => Origin::Template(&template),
    };
    if let Some(info) = info.as_ref().filter(|info| !info.is_template)
        && !cx.roles.has_privileges_of(cx.user, info.owner)
    {
        return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to copy database \"{template}\""));
    }
    let made = while_in_use(cx, || cluster.cluster().create_database(name, owner, origin))?;
    let made = made.map_err(|error| match error {
        cairn_txn::Error::DatabaseInUse(name) => {
            err!(OBJECT_IN_USE, "source database \"{name}\" is being accessed by other users")
        }
        other => cairn_exec::txn_error(other),
    })?;
    if is_template || !allows_connections {
        let changed = cairn_txn::DatabaseInfo { is_template, allows_connections, ..made };
        cluster.cluster().alter_database(&changed).sql()?;
    }
    Ok(())
}

/// Sessions that have just ended may still be closing: like PostgreSQL, tries for 5 seconds.
fn while_in_use<T>(
    cx: &DdlContext<'_>,
    mut change: impl FnMut() -> cairn_txn::Result<T>,
) -> Result<cairn_txn::Result<T>> {
    const TRIES: u32 = 50;
    const PAUSE_SECONDS: f64 = 0.1;
    for _ in 0..TRIES {
        match change() {
            Err(cairn_txn::Error::DatabaseInUse(_)) => cx.env.sleep(PAUSE_SECONDS)?,
            done => return Ok(done),
        }
    }
    Ok(change())
}

fn refuse_limit(text: &str) -> Result<()> {
    if text == "-1" { Ok(()) } else { Err(Error::unsupported("a connection limit is")) }
}

fn check_encoding(name: &str) -> Result<()> {
    if matches!(
        name.to_ascii_lowercase().replace(['-', '_'], "").as_str(),
        "utf8" | "unicode" | "6" | "default"
    ) {
        return Ok(());
    }
    Err(Error::unsupported(format!("encoding \"{name}\" is")))
}

fn check_locale(name: &str) -> Result<()> {
    if matches!(name.to_ascii_lowercase().as_str(), "c.utf-8" | "c.utf8" | "c" | "posix" | "default") {
        return Ok(());
    }
    Err(Error::unsupported(format!("locale \"{name}\" is")))
}

pub fn drop(cx: &mut DdlContext<'_>, statement: &protobuf::DropdbStmt) -> Result<()> {
    refuse_in_block(cx, "DROP DATABASE")?;
    let cluster = cluster(cx)?;
    let name = &*statement.dbname;
    let Some(info) = cluster.cluster().database_info(name) else {
        if statement.missing_ok {
            cx.notice(format!("database \"{name}\" does not exist, skipping"));
            return Ok(());
        }
        return Err(err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"));
    };
    require_owner(cx, &info)?;
    if info.is_template {
        return Err(err!(WRONG_OBJECT_TYPE, "cannot drop a template database"));
    }
    if *name == *cx.env.current_database() {
        return Err(err!(OBJECT_IN_USE, "cannot drop the currently open database"));
    }
    if options(&statement.options).any(|option| option.defname == "force") {
        cx.host.terminate_sessions_of(name)?;
    }
    cx.host.stop_automatic_work(info.oid);
    while_in_use(cx, || cluster.cluster().drop_database(name))?.sql()?;
    cluster.put_database_acl(info.oid, &cairn_types::Datum::Null).sql()
}

pub fn alter(cx: &mut DdlContext<'_>, statement: &protobuf::AlterDatabaseStmt) -> Result<()> {
    let cluster = cluster(cx)?;
    let name = &*statement.dbname;
    let mut info = cluster
        .cluster()
        .database_info(name)
        .ok_or_else(|| err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"))?;
    require_owner(cx, &info)?;
    for option in options(&statement.options) {
        let text = option_text(option)?.unwrap_or_default();
        match &*option.defname {
            "is_template" => info.is_template = option_bool(option)?,
            "allow_connections" => info.allows_connections = option_bool(option)?,
            "connection_limit" => refuse_limit(&text)?,
            "tablespace" => super::reloptions::check_tablespace(&text)?,
            other => return Err(err!(SYNTAX_ERROR, "option \"{other}\" not recognized").at(option.location)),
        }
    }
    cluster.cluster().alter_database(&info).sql()
}

pub fn rename(cx: &mut DdlContext<'_>, name: &str, new_name: &str) -> Result<()> {
    refuse_in_block(cx, "ALTER DATABASE ... RENAME")?;
    let cluster = cluster(cx)?;
    if let Some(info) = cluster.cluster().database_info(name) {
        require_owner(cx, &info)?;
        if !cx.roles.has(cx.user, |role| role.create_database) {
            return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to rename database"));
        }
    }
    if *name == *cx.env.current_database() {
        return Err(err!(FEATURE_NOT_SUPPORTED, "current database cannot be renamed"));
    }
    while_in_use(cx, || cluster.cluster().rename_database(name, new_name))?.sql()
}

pub fn set_owner(cx: &mut DdlContext<'_>, name: &str, owner: u32) -> Result<()> {
    let cluster = cluster(cx)?;
    let mut info = cluster
        .cluster()
        .database_info(name)
        .ok_or_else(|| err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"))?;
    require_owner(cx, &info)?;
    if !cx.roles.is_member(cx.user, owner) {
        return Err(must_be_member(cx, owner));
    }
    let old = std::mem::replace(&mut info.owner, owner);
    if let Some(access) = cx.rights().access(ObjectKind::Database, info.oid) {
        let mut acl = access.acl;
        if acl != Acl::default_of(ObjectKind::Database, old) {
            acl.change_owner(old, owner);
            super::grant::store(cx, ObjectKind::Database, info.oid, &acl)?;
        }
    }
    cluster.cluster().alter_database(&info).sql()
}

/// 42501: nobody gives things to a role that it cannot act for.
pub fn must_be_member(cx: &DdlContext<'_>, role: u32) -> Error {
    let name = cx.roles.name(role).map_or_else(String::new, |name| name.to_string());
    err!(INSUFFICIENT_PRIVILEGE, "must be member of role \"{name}\"")
}

/// Databases that a role owns, for DROP ROLE.
pub fn owned_by(cluster: &ClusterCatalog, role: u32) -> Vec<String> {
    use cairn_catalog::SharedCatalogs;
    use cairn_catalog::columns::pg_database as c;
    cluster
        .rows(c::TABLE)
        .iter()
        .filter(|row| row.oid(c::DATDBA) == role)
        .map(|row| row.str(c::DATNAME).to_owned())
        .collect()
}
