//! Roles: CREATE, ALTER, DROP, membership, settings. They are the cluster's and change at once.

use std::sync::Arc;

use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::*;
use cairn_catalog::shared::role_row;
use cairn_catalog::system_table::{blank_row, text_array_or_null};
use cairn_catalog::{CatalogRow, ClusterCatalog, RowExt, SharedCatalogs};
use cairn_exec::TxnResultExt;
use cairn_txn::Store;
use cairn_types::oid::BOOTSTRAP_ROLE;
use cairn_types::{Datum, Error, Oid, Result, Text, err};
use pg_query::protobuf::{self, Node, RoleSpecType, RoleStmtType, VariableSetKind, node::Node as NodeEnum};

use super::context::DdlContext;
use super::node::{inner, option_bool, option_int, option_text, options, required};
use crate::settings::RETENTION;

fn cluster(cx: &DdlContext<'_>) -> Result<Arc<ClusterCatalog>> {
    cx.shared.clone().ok_or_else(|| Error::unsupported("roles in an embedded database are"))
}

fn denied(message: impl Into<String>) -> Error {
    Error::new(cairn_types::sqlstate::INSUFFICIENT_PRIVILEGE, message)
}

/// 42501 unless the current role may change roles.
fn check_may_change(cx: &DdlContext<'_>, what: &str) -> Result<()> {
    if cx.roles.has(cx.user, |role| role.create_role) {
        return Ok(());
    }
    Err(denied(format!("permission denied to {what} role")))
}

/// Superusers are the superusers' business.
fn check_superusers(cx: &DdlContext<'_>, concerns_superuser: bool, message: &str) -> Result<()> {
    if concerns_superuser && !cx.roles.is_superuser(cx.user) { Err(denied(message)) } else { Ok(()) }
}

/// 42501 unless the current role may admit others to a role, or put them out.
fn check_may_admit(cx: &DdlContext<'_>, role: Oid) -> Result<()> {
    check_superusers(cx, cx.roles.is_superuser(role), "must be superuser to alter superusers")?;
    if cx.roles.has(cx.user, |role| role.create_role) || cx.roles.is_admin(cx.user, role) {
        return Ok(());
    }
    let name = cx.roles.name(role).map_or_else(String::new, |name| name.to_string());
    Err(denied(format!("must have admin option on role \"{name}\"")))
}

/// Applies options to a pg_authid row; lists of members are left to the caller.
fn apply(cx: &DdlContext<'_>, row: &mut [Datum], nodes: &[Node]) -> Result<()> {
    use pg_authid as c;
    let mut seen: Vec<&str> = Vec::new();
    for option in options(nodes) {
        let name = &*option.defname;
        if seen.contains(&name) {
            return Err(err!(SYNTAX_ERROR, "conflicting or redundant options").at(option.location));
        }
        seen.push(name);
        let flag = match name {
            "superuser" => Some(c::ROLSUPER),
            "inherit" => Some(c::ROLINHERIT),
            "createrole" => Some(c::ROLCREATEROLE),
            "createdb" => Some(c::ROLCREATEDB),
            "canlogin" => Some(c::ROLCANLOGIN),
            "isreplication" => Some(c::ROLREPLICATION),
            "bypassrls" => Some(c::ROLBYPASSRLS),
            _ => None,
        };
        if let Some(column) = flag {
            row[column] = Datum::Bool(option_bool(option)?);
            continue;
        }
        match name {
            "password" => {
                row[c::ROLPASSWORD] = match option_text(option)? {
                    None => Datum::Null,
                    Some(text) if text.is_empty() => {
                        cx.notice("empty string is not a valid password, clearing password");
                        Datum::Null
                    }
                    Some(text) => Datum::text(cx.host.password_verifier(&text)?),
                };
            }
            "connectionlimit" => {
                let limit = option_int(option)?;
                if limit != -1 {
                    return Err(Error::unsupported("a connection limit is"));
                }
                row[c::ROLCONNLIMIT] = Datum::Int4(-1);
            }
            "validUntil" => {
                let text = option_text(option)?.unwrap_or_default();
                let time = cairn_types::io::input(&text, cairn_types::types::TIMESTAMPTZ, -1, cx.env)?;
                row[c::ROLVALIDUNTIL] = time;
            }
            "sysid" => cx.notice("SYSID can no longer be specified"),
            "addroleto" | "rolemembers" | "adminmembers" => {}
            other => return Err(err!(SYNTAX_ERROR, "option \"{other}\" not recognized").at(option.location)),
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<()> {
    if name.starts_with("pg_") {
        return Err(err!(RESERVED_NAME, "role name \"{name}\" is reserved")
            .detail("Role names starting with \"pg_\" are reserved."));
    }
    if matches!(name, "public" | "none") {
        return Err(err!(RESERVED_NAME, "role name \"{name}\" is reserved"));
    }
    Ok(())
}

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::CreateRoleStmt) -> Result<()> {
    let shared = cluster(cx)?;
    let _changing = shared.change();
    for option in options(&statement.options) {
        let what = match &*option.defname {
            "superuser" => "superusers",
            "isreplication" => "replication users",
            "bypassrls" => "bypassrls users",
            _ => continue,
        };
        check_superusers(cx, option_bool(option)?, &format!("must be superuser to create {what}"))?;
    }
    check_may_change(cx, "create")?;
    let name = &*statement.role;
    check_name(name)?;
    if shared.role(name).is_some() {
        return Err(err!(DUPLICATE_OBJECT, "role \"{name}\" already exists"));
    }
    let oid = shared.new_role_oid().sql()?;
    let mut row = role_row(oid, name, statement.stmt_type() == RoleStmtType::RolestmtUser);
    apply(cx, &mut row, &statement.options)?;
    shared.put(pg_authid::TABLE, row).sql()?;
    for option in options(&statement.options) {
        let members = option.arg.as_deref().map_or(&[][..], super::node::list);
        match &*option.defname {
            "addroleto" => {
                for group in members {
                    let group = role_of(cx, group)?;
                    check_may_admit(cx, group)?;
                    add_member(cx, &shared, group, oid, false)?;
                }
            }
            "rolemembers" | "adminmembers" => {
                for member in members {
                    add_member(cx, &shared, oid, role_of(cx, member)?, option.defname == "adminmembers")?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn role_of(cx: &DdlContext<'_>, node: &Node) -> Result<Oid> {
    match inner(node)? {
        NodeEnum::RoleSpec(spec) => super::node::role(cx, spec),
        NodeEnum::AccessPriv(privilege) => cx.role(&privilege.priv_name),
        _ => Err(Error::internal("a role that is none")),
    }
}

fn find_row(shared: &ClusterCatalog, oid: Oid) -> Result<CatalogRow> {
    let rows = shared.rows(pg_authid::TABLE);
    rows.into_iter()
        .find(|row| row.oid(pg_authid::OID) == oid)
        .ok_or_else(|| err!(UNDEFINED_OBJECT, "role with OID {oid} does not exist"))
}

pub fn alter(cx: &mut DdlContext<'_>, statement: &protobuf::AlterRoleStmt) -> Result<()> {
    let shared = cluster(cx)?;
    let _changing = shared.change();
    let oid = super::node::role(cx, required(&statement.role)?)?;
    let changes =
        |names: &[&str]| options(&statement.options).any(|option| names.contains(&&*option.defname));
    check_superusers(
        cx,
        cx.roles.is_superuser(oid) || changes(&["superuser"]),
        "must be superuser to alter superuser roles or change superuser attribute",
    )?;
    check_superusers(
        cx,
        cx.roles.role(oid).is_some_and(|role| role.replication) || changes(&["isreplication"]),
        "must be superuser to alter replication roles or change replication attribute",
    )?;
    check_superusers(cx, changes(&["bypassrls"]), "must be superuser to change bypassrls attribute")?;
    let only_members = changes(&["rolemembers"]);
    // Everybody may change their own password.
    let own_password =
        oid == cx.user && options(&statement.options).all(|option| option.defname == "password");
    if only_members {
        check_may_admit(cx, oid)?;
    } else if !own_password && !cx.roles.has(cx.user, |role| role.create_role) {
        return Err(denied("permission denied"));
    }
    let mut row = find_row(&shared, oid)?.to_vec();
    apply(cx, &mut row, &statement.options)?;
    shared.put(pg_authid::TABLE, row).sql()?;
    for option in options(&statement.options).filter(|option| option.defname == "rolemembers") {
        for member in option.arg.as_deref().map_or(&[][..], super::node::list) {
            let member = role_of(cx, member)?;
            if statement.action >= 0 {
                add_member(cx, &shared, oid, member, false)?;
            } else {
                remove_member(cx, &shared, oid, member, false)?;
            }
        }
    }
    Ok(())
}

pub fn rename(cx: &mut DdlContext<'_>, name: &str, new_name: &str) -> Result<()> {
    let shared = cluster(cx)?;
    let _changing = shared.change();
    check_name(name)?;
    check_name(new_name)?;
    let oid = cx.role(name)?;
    if *name == *cx.env.session_user() {
        return Err(err!(FEATURE_NOT_SUPPORTED, "session user cannot be renamed"));
    }
    if oid == cx.user {
        return Err(err!(FEATURE_NOT_SUPPORTED, "current user cannot be renamed"));
    }
    check_superusers(cx, cx.roles.is_superuser(oid), "must be superuser to rename superusers")?;
    check_may_change(cx, "rename")?;
    if shared.role(new_name).is_some() {
        return Err(err!(DUPLICATE_OBJECT, "role \"{new_name}\" already exists"));
    }
    let mut row = find_row(&shared, oid)?.to_vec();
    row[pg_authid::ROLNAME] = Datum::text(new_name);
    shared.put(pg_authid::TABLE, row).sql()
}

pub fn drop(cx: &mut DdlContext<'_>, statement: &protobuf::DropRoleStmt) -> Result<()> {
    let shared = cluster(cx)?;
    let _changing = shared.change();
    check_may_change(cx, "drop")?;
    for node in &statement.roles {
        let NodeEnum::RoleSpec(spec) = inner(node)? else { continue };
        if spec.roletype() != RoleSpecType::RolespecCstring {
            return Err(err!(INVALID_PARAMETER_VALUE, "cannot use special role specifier in DROP ROLE"));
        }
        let name = &*spec.rolename;
        let Some(row) = shared.role(name) else {
            if statement.missing_ok {
                cx.notice(format!("role \"{name}\" does not exist, skipping"));
                continue;
            }
            return Err(err!(UNDEFINED_OBJECT, "role \"{name}\" does not exist"));
        };
        let oid = row.oid(pg_authid::OID);
        if oid == cx.user {
            return Err(err!(OBJECT_IN_USE, "current user cannot be dropped"));
        }
        if oid == cx.role(&cx.env.session_user()).unwrap_or(0) {
            return Err(err!(OBJECT_IN_USE, "session user cannot be dropped"));
        }
        check_superusers(cx, cx.roles.is_superuser(oid), "must be superuser to drop superusers")?;
        check_owns_nothing(cx, &shared, oid, name)?;
        for member in shared.rows(pg_auth_members::TABLE) {
            if [member.oid(pg_auth_members::ROLEID), member.oid(pg_auth_members::MEMBER)].contains(&oid) {
                shared.delete(pg_auth_members::TABLE, &member).sql()?;
            }
        }
        for setting in shared.rows(pg_db_role_setting::TABLE) {
            if setting.oid(pg_db_role_setting::SETROLE) == oid {
                shared.delete(pg_db_role_setting::TABLE, &setting).sql()?;
            }
        }
        shared.delete(pg_authid::TABLE, &row).sql()?;
    }
    Ok(())
}

/// 2BP01 while objects of this database, or databases, belong to the role.
fn check_owns_nothing(cx: &DdlContext<'_>, shared: &ClusterCatalog, oid: Oid, name: &str) -> Result<()> {
    let mut lines: Vec<String> = super::database::owned_by(shared, oid)
        .iter()
        .map(|database| format!("owner of database {database}"))
        .collect();
    for relation in cx.catalog.user_relations().filter(|relation| relation.owner == oid) {
        if relation.kind == cairn_catalog::RelationKind::Index {
            continue;
        }
        let address = super::depend::Address::relation(relation.oid);
        lines.push(format!("owner of {}", super::depend::describe(&cx.catalog, &cx.search_path, address)));
    }
    for proc in cx.catalog.user_procs().filter(|proc| proc.owner == oid) {
        let address = super::depend::Address::new(pg_proc::TABLE, proc.oid);
        lines.push(format!("owner of {}", super::depend::describe(&cx.catalog, &cx.search_path, address)));
    }
    for row in cx.catalog.system_rows(pg_namespace::TABLE) {
        if row.oid(pg_namespace::NSPOWNER) == oid {
            lines.push(format!("owner of schema {}", row.str(pg_namespace::NSPNAME)));
        }
    }
    lines.sort();
    lines.extend(super::owned::privileges_of(cx, oid));
    if lines.is_empty() || oid == BOOTSTRAP_ROLE {
        return if oid == BOOTSTRAP_ROLE {
            Err(err!(
                DEPENDENT_OBJECTS_STILL_EXIST,
                "cannot drop role {name} because it is required by the database system"
            ))
        } else {
            Ok(())
        };
    }
    Err(err!(
        DEPENDENT_OBJECTS_STILL_EXIST,
        "role \"{name}\" cannot be dropped because some objects depend on it"
    )
    .detail(lines.join("\n")))
}

// Membership.

fn member_row(shared: &ClusterCatalog, role: Oid, member: Oid) -> Option<CatalogRow> {
    shared
        .rows(pg_auth_members::TABLE)
        .into_iter()
        .find(|row| row.oid(pg_auth_members::ROLEID) == role && row.oid(pg_auth_members::MEMBER) == member)
}

/// Whether `member` is, directly or not, a member of `role`.
pub fn is_member(shared: &dyn SharedCatalogs, member: Oid, role: Oid) -> bool {
    let rows = shared.rows(pg_auth_members::TABLE);
    let mut seen = vec![member];
    let mut at = 0;
    while let Some(current) = seen.get(at).copied() {
        if current == role {
            return true;
        }
        at += 1;
        for row in rows.iter().filter(|row| row.oid(pg_auth_members::MEMBER) == current) {
            let group = row.oid(pg_auth_members::ROLEID);
            if !seen.contains(&group) {
                seen.push(group);
            }
        }
    }
    false
}

fn add_member(
    cx: &DdlContext<'_>,
    shared: &Arc<ClusterCatalog>,
    role: Oid,
    member: Oid,
    admin: bool,
) -> Result<()> {
    let name = |oid: Oid| shared.role_name(oid).unwrap_or_else(|| Text::from(""));
    if is_member(&**shared, role, member) {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "role \"{}\" is a member of role \"{}\"",
            name(role),
            name(member)
        ));
    }
    if let Some(old) = member_row(shared, role, member)
        && (old.bool(pg_auth_members::ADMIN_OPTION) || !admin)
    {
        cx.notice(format!("role \"{}\" is already a member of role \"{}\"", name(member), name(role)));
        return Ok(());
    }
    let mut row = blank_row(pg_auth_members::TABLE);
    row[pg_auth_members::ROLEID] = Datum::Oid(role);
    row[pg_auth_members::MEMBER] = Datum::Oid(member);
    row[pg_auth_members::GRANTOR] = Datum::Oid(cx.user);
    row[pg_auth_members::ADMIN_OPTION] = Datum::Bool(admin);
    shared.put(pg_auth_members::TABLE, row).sql()
}

/// `only_admin`: the membership stays, the right to admit others goes.
fn remove_member(
    cx: &DdlContext<'_>,
    shared: &Arc<ClusterCatalog>,
    role: Oid,
    member: Oid,
    only_admin: bool,
) -> Result<()> {
    match member_row(shared, role, member) {
        Some(row) if only_admin => {
            let mut row = row.to_vec();
            row[pg_auth_members::ADMIN_OPTION] = Datum::Bool(false);
            shared.put(pg_auth_members::TABLE, row).sql()
        }
        Some(row) => shared.delete(pg_auth_members::TABLE, &row).sql(),
        None => {
            let name = |oid: Oid| shared.role_name(oid).unwrap_or_else(|| Text::from(""));
            cx.env.notice(Error::warning(
                cairn_types::sqlstate::WARNING,
                format!("role \"{}\" is not a member of role \"{}\"", name(member), name(role)),
            ));
            Ok(())
        }
    }
}

pub fn grant(cx: &mut DdlContext<'_>, statement: &protobuf::GrantRoleStmt) -> Result<()> {
    let shared = cluster(cx)?;
    let _changing = shared.change();
    let admin = options(&statement.opt).any(|option| option.defname == "admin");
    for role in &statement.granted_roles {
        let role = role_of(cx, role)?;
        check_may_admit(cx, role)?;
        for member in &statement.grantee_roles {
            let member = role_of(cx, member)?;
            if statement.is_grant {
                add_member(cx, &shared, role, member, admin)?;
            } else {
                remove_member(cx, &shared, role, member, admin)?;
            }
        }
    }
    Ok(())
}

// Settings of roles and databases.

pub fn set(cx: &mut DdlContext<'_>, statement: &protobuf::AlterRoleSetStmt) -> Result<()> {
    let role = match &statement.role {
        Some(spec) => {
            let role = super::node::role(cx, spec)?;
            check_superusers(cx, cx.roles.is_superuser(role), "must be superuser to alter superusers")?;
            if role != cx.user && !cx.roles.has(cx.user, |role| role.create_role) {
                return Err(denied("permission denied"));
            }
            role
        }
        None => {
            let message = "must be superuser to alter settings globally";
            check_superusers(cx, statement.database.is_empty(), message)?;
            0
        }
    };
    if !statement.database.is_empty() && statement.role.is_none() {
        let database = database_oid(cx, &statement.database)?;
        cx.require_owner(ObjectKind::Database, database)?;
    }
    let database = if statement.database.is_empty() { 0 } else { database_oid(cx, &statement.database)? };
    change_settings(cx, database, role, required(&statement.setstmt)?)
}

pub fn set_for_database(cx: &mut DdlContext<'_>, statement: &protobuf::AlterDatabaseSetStmt) -> Result<()> {
    let database = database_oid(cx, &statement.dbname)?;
    cx.require_owner(ObjectKind::Database, database)?;
    change_settings(cx, database, 0, required(&statement.setstmt)?)
}

/// Whether `name=value` is of this setting.
fn is_setting(setting: &str, name: &str) -> bool {
    setting.split('=').next().is_some_and(|own| own.eq_ignore_ascii_case(name))
}

/// The store of a database keeps its retention itself: it is in force whether anybody is connected or not.
fn keep_retention(shared: &ClusterCatalog, database: Oid, value: Option<&str>) -> Result<()> {
    let retention = value.map(crate::settings::retention).transpose()?;
    let cluster = shared.cluster();
    let info = cluster.databases().into_iter().find(|info| info.oid == database);
    let Some(info) = info else { return Ok(()) };
    Store::set_retention(&cluster.database(&info.name).sql()?, retention).sql()
}

fn database_oid(cx: &DdlContext<'_>, name: &str) -> Result<Oid> {
    let info = cluster(cx)?.cluster().database_info(name);
    info.map(|info| info.oid).ok_or_else(|| err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"))
}

fn change_settings(
    cx: &mut DdlContext<'_>,
    database: Oid,
    role: Oid,
    set: &protobuf::VariableSetStmt,
) -> Result<()> {
    let shared = cluster(cx)?;
    let _changing = shared.change();
    use pg_db_role_setting as c;
    let old = shared
        .rows(c::TABLE)
        .into_iter()
        .find(|row| row.oid(c::SETDATABASE) == database && row.oid(c::SETROLE) == role);
    let mut settings = old.as_ref().map_or_else(Vec::new, |row| row.texts(c::SETCONFIG));
    let name = &*set.name;
    let is_retention = name.eq_ignore_ascii_case(RETENTION);
    if is_retention && (database == 0 || role != 0) {
        return Err(err!(CANT_CHANGE_RUNTIME_PARAM, "parameter \"{RETENTION}\" cannot be set for a role")
            .hint("Use ALTER DATABASE, or ALTER TABLE for one table."));
    }
    let had_retention = settings.iter().any(|setting| is_setting(setting, RETENTION));
    match set.kind() {
        VariableSetKind::VarSetValue | VariableSetKind::VarSetCurrent => {
            let value = if set.kind() == VariableSetKind::VarSetCurrent {
                cx.env.setting(&name.to_ascii_lowercase()).ok_or_else(|| {
                    err!(UNDEFINED_OBJECT, "unrecognized configuration parameter \"{name}\"")
                })?
            } else {
                crate::variables::value_text(name, &set.args)?
            };
            let name = if is_retention {
                crate::settings::retention(&value)?;
                RETENTION.to_owned()
            } else {
                crate::settings::check_for_later(name, &value, cx.roles.is_superuser(cx.user))?
            };
            let new = format!("{name}={value}").into();
            match settings.iter_mut().find(|setting| is_setting(setting, &name)) {
                Some(old) => *old = new,
                None => settings.push(new),
            }
        }
        VariableSetKind::VarSetDefault | VariableSetKind::VarReset => {
            settings.retain(|setting| !is_setting(setting, name));
        }
        VariableSetKind::VarResetAll => settings.clear(),
        _ => return Err(Error::unsupported("this SET clause is")),
    }
    let retention = settings.iter().find(|setting| is_setting(setting, RETENTION));
    if is_retention || had_retention && retention.is_none() {
        let value = retention.and_then(|setting| setting.split_once('=')).map(|(_, value)| value);
        keep_retention(&shared, database, value)?;
    }
    let mut row = blank_row(c::TABLE);
    row[c::SETDATABASE] = Datum::Oid(database);
    row[c::SETROLE] = Datum::Oid(role);
    row[c::SETCONFIG] = text_array_or_null(settings.iter().cloned());
    if settings.is_empty() {
        return if old.is_some() { shared.delete(c::TABLE, &row).sql() } else { Ok(()) };
    }
    shared.put(c::TABLE, row).sql()
}
