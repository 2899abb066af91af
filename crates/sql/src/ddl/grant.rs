//! GRANT and REVOKE on objects (manual, section 5.7): changes of access lists.
//!
//! Who grants what belongs to somebody else acts for the owner if it has the owner's privileges, else with the grant options
//! that it was given; what it may not pass on is left out with a warning.

use std::sync::Arc;

use cairn_catalog::acl::{self, Acl, ObjectKind, PUBLIC, Privileges};
use cairn_catalog::columns::*;
use cairn_catalog::{Relation, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::oid::FIRST_USER_OID;
use cairn_types::{Datum, Error, Oid, Result, err, sqlstate};
use pg_query::protobuf::{
    self, DropBehavior, GrantTargetType, ObjectType, RoleSpecType, node::Node as NodeEnum,
};

use super::context::DdlContext;
use super::names;
use super::node::{inner, string, strings};
use crate::rights::{columns_of, denied};

/// What a GRANT or REVOKE says, whatever it is about.
pub struct Change {
    is_grant: bool,
    /// WITH GRANT OPTION, GRANT OPTION FOR.
    options: bool,
    cascade: bool,
    grantees: Vec<Oid>,
    /// ALL PRIVILEGES.
    all: bool,
}

/// One object whose list changes.
struct Target {
    kind: ObjectKind,
    oid: Oid,
    /// How messages call it.
    noun: String,
    name: String,
}

pub fn grant(cx: &mut DdlContext<'_>, statement: &protobuf::GrantStmt) -> Result<()> {
    let change = Change::read(cx, statement)?;
    for target in targets(cx, statement)? {
        match target.kind {
            ObjectKind::Table | ObjectKind::Sequence => grant_on_relation(cx, statement, &change, &target)?,
            _ => {
                let (privileges, columns) = privileges(statement, target.kind)?;
                if !columns.is_empty() {
                    return Err(err!(
                        INVALID_GRANT_OPERATION,
                        "column privileges are only valid for relations"
                    ));
                }
                change_object(cx, &change, &target, privileges)?;
            }
        }
    }
    Ok(())
}

impl Change {
    pub fn read(cx: &DdlContext<'_>, statement: &protobuf::GrantStmt) -> Result<Change> {
        if let Some(grantor) = &statement.grantor
            && super::node::role(cx, grantor)? != cx.user
        {
            return Err(err!(FEATURE_NOT_SUPPORTED, "grantor must be current user"));
        }
        let mut grantees = Vec::new();
        for node in &statement.grantees {
            let NodeEnum::RoleSpec(spec) = inner(node)? else { continue };
            if spec.roletype() == RoleSpecType::RolespecPublic {
                if statement.grant_option && statement.is_grant {
                    return Err(err!(INVALID_GRANT_OPERATION, "grant options can only be granted to roles"));
                }
                grantees.push(PUBLIC);
                continue;
            }
            grantees.push(super::node::role(cx, spec)?);
        }
        Ok(Change {
            is_grant: statement.is_grant,
            options: statement.grant_option,
            cascade: statement.behavior() == DropBehavior::DropCascade,
            grantees,
            all: statement.privileges.is_empty(),
        })
    }

    /// Applies the change to a list, as granted by `grantor`.
    pub fn apply(&self, acl: &mut Acl, grantor: Oid, owner: Oid, privileges: Privileges) -> Result<()> {
        for grantee in &self.grantees {
            if self.is_grant {
                acl.grant(*grantee, grantor, privileges, if self.options { privileges } else { 0 });
                continue;
            }
            acl.revoke(*grantee, grantor, privileges, self.options, owner, self.cascade).map_err(|_| {
                err!(DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist")
                    .hint("Use CASCADE to revoke them too.")
            })?;
        }
        Ok(())
    }
}

/// Privileges on the whole object, and those on columns. 0LP01 for one that the kind does not have.
pub fn privileges(
    statement: &protobuf::GrantStmt,
    kind: ObjectKind,
) -> Result<(Privileges, Vec<(Privileges, Vec<String>)>)> {
    if statement.privileges.is_empty() {
        return Ok((kind.all(), Vec::new()));
    }
    let (mut whole, mut columns) = (0, Vec::new());
    for node in &statement.privileges {
        let NodeEnum::AccessPriv(privilege) = inner(node)? else { continue };
        let word = &privilege.priv_name;
        let on_columns = !privilege.cols.is_empty();
        let allowed = if on_columns { ObjectKind::Column } else { kind };
        let bit = if word.is_empty() {
            // ALL (columns).
            allowed.all()
        } else {
            acl::by_name(word).ok_or_else(|| {
                err!(SYNTAX_ERROR, "unrecognized privilege type \"{}\"", word.to_lowercase())
            })?
        };
        // What is said of tables may be meant for sequences.
        let sequences = if allowed == ObjectKind::Table { acl::USAGE } else { 0 };
        if (allowed.all() | sequences) & bit != bit {
            return Err(err!(
                INVALID_GRANT_OPERATION,
                "invalid privilege type {} for {}",
                word.to_uppercase(),
                match allowed {
                    ObjectKind::Table => "relation",
                    ObjectKind::Column => "column",
                    ObjectKind::Sequence => "sequence",
                    ObjectKind::Database => "database",
                    ObjectKind::Function => match statement.objtype() {
                        ObjectType::ObjectProcedure => "procedure",
                        ObjectType::ObjectRoutine => "routine",
                        _ => "function",
                    },
                    ObjectKind::Language => "language",
                    ObjectKind::Schema => "schema",
                    _ => "type",
                }
            ));
        }
        if on_columns {
            columns.push((bit, strings(&privilege.cols).iter().map(ToString::to_string).collect()));
        } else {
            whole |= bit;
        }
    }
    Ok((whole, columns))
}

fn relation_target(cx: &DdlContext<'_>, relation: &Relation) -> Target {
    let kind = if relation.kind == RelationKind::Sequence { ObjectKind::Sequence } else { ObjectKind::Table };
    target(cx, kind, relation.oid, names::kind_name(relation.kind), &relation.name)
}

fn target(_: &DdlContext<'_>, kind: ObjectKind, oid: Oid, noun: &str, name: &str) -> Target {
    Target { kind, oid, noun: noun.to_owned(), name: name.to_owned() }
}

/// The objects that the statement is about.
fn targets(cx: &mut DdlContext<'_>, statement: &protobuf::GrantStmt) -> Result<Vec<Target>> {
    let in_schema = statement.targtype() == GrantTargetType::AclTargetAllInSchema;
    let mut result = Vec::new();
    for node in &statement.objects {
        if in_schema {
            let name = string(node).unwrap_or("");
            let namespace = names::namespace(cx, name)?;
            all_in_schema(cx, statement.objtype(), namespace, &mut result)?;
            continue;
        }
        match statement.objtype() {
            ObjectType::ObjectTable | ObjectType::ObjectSequence => {
                let NodeEnum::RangeVar(name) = inner(node)? else { continue };
                let relation: Arc<Relation> = names::open(cx, name, TableLockMode::AccessShare)?;
                if relation.oid < FIRST_USER_OID {
                    return Err(Error::unsupported("privileges on system catalogs are"));
                }
                match relation.kind {
                    RelationKind::Index => {
                        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is an index", relation.name));
                    }
                    RelationKind::CompositeType => {
                        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is a composite type", relation.name));
                    }
                    _ => {}
                }
                if statement.objtype() == ObjectType::ObjectSequence
                    && relation.kind != RelationKind::Sequence
                {
                    return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a sequence", relation.name));
                }
                result.push(relation_target(cx, &relation));
            }
            ObjectType::ObjectSchema => {
                let name = string(node).unwrap_or("");
                let oid = cx.catalog.any_namespace(&cx.search_path, name);
                let oid = oid.ok_or_else(|| names::undefined_schema(name))?;
                result.push(target(cx, ObjectKind::Schema, oid, "schema", name));
            }
            kind @ (ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine) => {
                let NodeEnum::ObjectWithArgs(signature) = inner(node)? else { continue };
                let found = super::function::find(cx, signature, kind, false)?;
                let proc = found.ok_or_else(|| Error::internal("a function that is not there"))?;
                if proc.oid < FIRST_USER_OID {
                    return Err(Error::unsupported("privileges on system functions are"));
                }
                result.push(target(cx, ObjectKind::Function, proc.oid, "function", &proc.name));
            }
            ObjectType::ObjectType | ObjectType::ObjectDomain => {
                let parts = strings(super::node::list(node));
                let (schema, name) = match parts.as_slice() {
                    [schema, name] => (Some(&**schema), name),
                    [name] => (None, name),
                    _ => return Err(Error::internal("a type without a name")),
                };
                if let Some(schema) = schema {
                    cx.catalog.check_namespace(&cx.search_path, schema)?;
                }
                let object = cx.catalog.resolve_type(&cx.search_path, schema, name);
                let object =
                    object.ok_or_else(|| err!(UNDEFINED_OBJECT, "type \"{name}\" does not exist"))?;
                if object.oid < FIRST_USER_OID {
                    return Err(Error::unsupported("privileges on system types are"));
                }
                result.push(target(cx, ObjectKind::Type, object.oid, "type", name));
            }
            ObjectType::ObjectLanguage => {
                let name = string(node).unwrap_or("");
                if cx.catalog.language_by_name(name).is_none() {
                    return Err(err!(UNDEFINED_OBJECT, "language \"{name}\" does not exist"));
                }
                return Err(Error::unsupported("privileges on languages are"));
            }
            ObjectType::ObjectDatabase => {
                let name = string(node).unwrap_or("");
                let oid = super::database::oid(cx, name)?;
                result.push(target(cx, ObjectKind::Database, oid, "database", name));
            }
            _ => return Err(Error::unsupported("privileges on this kind of object are")),
        }
    }
    Ok(result)
}

fn all_in_schema(
    cx: &DdlContext<'_>,
    kind: ObjectType,
    namespace: Oid,
    result: &mut Vec<Target>,
) -> Result<()> {
    match kind {
        ObjectType::ObjectTable | ObjectType::ObjectSequence => {
            let sequences = kind == ObjectType::ObjectSequence;
            let relations = cx.catalog.user_relations().filter(|relation| {
                relation.namespace == namespace
                    && match relation.kind {
                        RelationKind::Sequence => sequences,
                        RelationKind::Table | RelationKind::View | RelationKind::MaterializedView => {
                            !sequences
                        }
                        _ => false,
                    }
            });
            result.extend(relations.map(|relation| relation_target(cx, relation)));
            Ok(())
        }
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            let procs = cx.catalog.user_procs().filter(|proc| {
                proc.namespace == namespace
                    && match kind {
                        ObjectType::ObjectFunction => proc.kind != cairn_catalog::ProcKind::Procedure,
                        ObjectType::ObjectProcedure => proc.kind == cairn_catalog::ProcKind::Procedure,
                        _ => true,
                    }
            });
            result
                .extend(procs.map(|proc| target(cx, ObjectKind::Function, proc.oid, "function", &proc.name)));
            Ok(())
        }
        _ => Err(Error::unsupported("privileges on all objects of this kind are")),
    }
}

/// Who grants, and what it may pass on: for the owner if it can act as that, else with the best options that any of
/// its roles has.
fn best_grantor(cx: &DdlContext<'_>, acl: &Acl, owner: Oid, wanted: Privileges) -> (Oid, Privileges) {
    if cx.roles.has_privileges_of(cx.user, owner) {
        return (owner, Privileges::MAX);
    }
    let mut best: (Oid, Privileges) = (cx.user, 0);
    for role in &*cx.roles.groups(cx.user, true) {
        let (_, options) = acl.allowed(Oid::MAX, 0, &|other| other == *role);
        let options = options & wanted;
        if options == wanted {
            return (*role, options);
        }
        if options.count_ones() > best.1.count_ones() {
            best = (*role, options);
        }
    }
    best
}

/// What of the privileges the grantor may pass on. 42501 if it has no business with the object at all.
fn passable(
    cx: &DdlContext<'_>,
    change: &Change,
    target: &Target,
    column: Option<&str>,
    wanted: Privileges,
    options: Privileges,
) -> Result<Privileges> {
    if options == 0 {
        let rights = cx.rights();
        let (mut has, mut may_pass) = rights.privileges(cx.user, target.kind, target.oid);
        if matches!(target.kind, ObjectKind::Table) {
            for column in rights.live_columns(target.oid) {
                let (more, options) = rights.column_privileges(cx.user, target.oid, column);
                has |= more;
                may_pass |= options;
            }
        }
        if has == 0 && may_pass == 0 {
            return Err(match column {
                Some(column) => err!(
                    INSUFFICIENT_PRIVILEGE,
                    "permission denied for column \"{column}\" of relation \"{}\"",
                    target.name
                ),
                None => denied(&target.noun, &target.name),
            });
        }
    }
    let given = wanted & options;
    let complaint = match (change.is_grant, given) {
        _ if given == wanted => None,
        (true, 0) => Some("no privileges were granted for"),
        (true, _) if !change.all => Some("not all privileges were granted for"),
        (false, 0) => Some("no privileges could be revoked for"),
        (false, _) if !change.all => Some("not all privileges could be revoked for"),
        _ => None,
    };
    if let Some(complaint) = complaint {
        let state = if change.is_grant {
            sqlstate::WARNING_PRIVILEGE_NOT_GRANTED
        } else {
            sqlstate::WARNING_PRIVILEGE_NOT_REVOKED
        };
        let message = match column {
            Some(column) => format!("{complaint} column \"{column}\" of relation \"{}\"", target.name),
            None => format!("{complaint} \"{}\"", target.name),
        };
        cx.env.notice(Error::warning(state, message));
    }
    Ok(given)
}

/// Changes the list of one object that has no columns.
fn change_object(
    cx: &mut DdlContext<'_>,
    change: &Change,
    target: &Target,
    wanted: Privileges,
) -> Result<()> {
    let access = cx.rights().access(target.kind, target.oid);
    let access = access.ok_or_else(|| Error::internal("an object without a row"))?;
    let mut acl = access.acl;
    let (grantor, options) = best_grantor(cx, &acl, access.owner, wanted);
    let given = passable(cx, change, target, None, wanted, options)?;
    change.apply(&mut acl, grantor, access.owner, given)?;
    store(cx, target.kind, target.oid, &acl)
}

/// Writes an object's list.
pub fn store(cx: &mut DdlContext<'_>, kind: ObjectKind, oid: Oid, acl: &Acl) -> Result<()> {
    let value = acl.to_datum();
    if kind == ObjectKind::Database {
        let shared = cx.shared.clone().ok_or_else(|| Error::unsupported("other databases are"))?;
        return shared.put_database_acl(oid, &value).sql();
    }
    let (catalog, _, column) = columns_of(kind);
    let row = cx.catalog.row_by_oid(catalog, oid);
    let mut row = row.ok_or_else(|| Error::internal("an object without a row"))?.to_vec();
    row[column] = value;
    cx.change(|writer| super::rows::put(writer, catalog, row))
}

fn grant_on_relation(
    cx: &mut DdlContext<'_>,
    statement: &protobuf::GrantStmt,
    change: &Change,
    target: &Target,
) -> Result<()> {
    // GRANT ... ON TABLE is welcome for sequences too, as far as the privileges are.
    let said = match statement.objtype() {
        ObjectType::ObjectSequence => ObjectKind::Sequence,
        _ => ObjectKind::Table,
    };
    let (mut whole, columns) = privileges(statement, said)?;
    if target.kind == ObjectKind::Sequence {
        if !change.all && said == ObjectKind::Table && whole & !ObjectKind::Sequence.all() != 0 {
            cx.env.notice(Error::warning(
                sqlstate::INVALID_GRANT_OPERATION,
                format!("sequence \"{}\" only supports USAGE, SELECT, and UPDATE privileges", target.name),
            ));
        }
        whole = if change.all { ObjectKind::Sequence.all() } else { whole & ObjectKind::Sequence.all() };
        if !columns.is_empty() {
            return Err(err!(
                INVALID_GRANT_OPERATION,
                "sequence \"{}\" only supports SELECT column privileges",
                target.name
            ));
        }
    }
    if target.kind == ObjectKind::Table && whole & acl::USAGE != 0 {
        return Err(err!(INVALID_GRANT_OPERATION, "invalid privilege type USAGE for table"));
    }
    let relation = cx.relation(target.oid)?;
    let access = cx.rights().access(target.kind, target.oid);
    let access = access.ok_or_else(|| Error::internal("a relation without a row"))?;
    let table_list = access.acl.clone();
    if whole != 0 {
        let mut acl = access.acl;
        let (grantor, options) = best_grantor(cx, &acl, access.owner, whole);
        let given = passable(cx, change, target, None, whole, options)?;
        change.apply(&mut acl, grantor, access.owner, given)?;
        store(cx, target.kind, target.oid, &acl)?;
    }
    // What is taken from the table is taken from its columns as well.
    let mut by_column: Vec<(i16, String, Privileges, bool)> = Vec::new();
    if !statement.is_grant && whole & ObjectKind::Column.all() != 0 {
        let from = whole & ObjectKind::Column.all();
        for (name, number) in SYSTEM_COLUMNS {
            by_column.push((*number, (*name).to_owned(), from, true));
        }
        for column in relation.columns.iter().filter(|column| !column.dropped) {
            by_column.push((column.attnum, column.name.to_string(), from, true));
        }
    }
    for (bits, names) in columns {
        for name in names {
            let number = super::alter_table::column_number(&relation, &name)?;
            match by_column.iter_mut().find(|(known, ..)| *known == number) {
                Some(known) => {
                    known.2 |= bits;
                    known.3 = false;
                }
                None => by_column.push((number, name, bits, false)),
            }
        }
    }
    for (number, name, bits, silent) in by_column {
        change_column(cx, change, target, access.owner, &table_list, (number, &name, bits, silent))?;
    }
    Ok(())
}

/// Taken along where privileges on all columns are revoked; nobody can have been given any on them.
const SYSTEM_COLUMNS: &[(&str, i16)] =
    &[("tableoid", -6), ("cmax", -5), ("xmax", -4), ("cmin", -3), ("xmin", -2), ("ctid", -1)];

/// Changes a column's list. `silent`: it was not named, so nobody misses what it does not have.
fn change_column(
    cx: &mut DdlContext<'_>,
    change: &Change,
    target: &Target,
    owner: Oid,
    table_list: &Acl,
    (number, name, wanted, silent): (i16, &str, Privileges, bool),
) -> Result<()> {
    let key = [Datum::Oid(target.oid), Datum::Int2(number)];
    let row = cx.catalog.row(pg_attribute::TABLE, &key);
    let value = match &row {
        Some(row) => row.datum(pg_attribute::ATTACL),
        None => &Datum::Null,
    };
    let untouched = silent && value.is_null();
    let mut acl = Acl::of(ObjectKind::Column, owner, value, &|name| cx.roles.by_name(name));
    // Options on the table are options on its columns.
    let mut both = table_list.clone();
    both.items.extend(acl.items.iter().copied());
    let (grantor, options) = best_grantor(cx, &both, owner, wanted);
    let given = passable(cx, change, target, Some(name), wanted, options)?;
    if untouched {
        return Ok(());
    }
    change.apply(&mut acl, grantor, owner, given)?;
    store_column(cx, target.oid, number, &acl)
}

/// Writes a column's list; an empty one is none.
pub fn store_column(cx: &mut DdlContext<'_>, table: Oid, number: i16, acl: &Acl) -> Result<()> {
    let value = if acl.items.is_empty() { Datum::Null } else { acl.to_datum() };
    cx.change(|writer| {
        writer
            .update_where(
                pg_attribute::TABLE,
                |row| {
                    row.oid(pg_attribute::ATTRELID) == table
                        && row.int(pg_attribute::ATTNUM) == i64::from(number)
                },
                |row| row[pg_attribute::ATTACL] = value.clone(),
            )
            .sql()?;
        Ok(())
    })
}
