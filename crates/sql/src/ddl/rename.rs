//! ALTER ... RENAME, SET SCHEMA, OWNER TO.
//!
//! Expressions and queries are stored as text with names in it. After a change of a name each stored text that has the
//! old one in it is read under the old picture and written again under the new one: what it means stays the same.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, RangeTableKind};
use cairn_catalog::acl::{self, Acl, ObjectKind};
use cairn_catalog::columns::*;
use cairn_catalog::{Catalog, Relation, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::oid::FIRST_USER_OID;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, Node, ObjectType, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::Address;
use super::names::{self, kind_name};
use super::node::{inner, qualified, required, string};
use super::{database, function, index, rows, text};

/// The kind of object that the command tag names.
pub fn tag_kind(statement: &protobuf::RenameStmt) -> ObjectType {
    match statement.rename_type() {
        ObjectType::ObjectColumn | ObjectType::ObjectAttribute => statement.relation_type(),
        ObjectType::ObjectTabconstraint => ObjectType::ObjectTable,
        other => other,
    }
}

pub fn rename(cx: &mut DdlContext<'_>, statement: &protobuf::RenameStmt) -> Result<()> {
    let new_name = names::truncate_name(&statement.newname, names::NAME_MAX).to_owned();
    match statement.rename_type() {
        ObjectType::ObjectTable
        | ObjectType::ObjectIndex
        | ObjectType::ObjectSequence
        | ObjectType::ObjectView
        | ObjectType::ObjectMatview => rename_relation(cx, statement, &new_name),
        ObjectType::ObjectColumn | ObjectType::ObjectAttribute => rename_column(cx, statement, &new_name),
        ObjectType::ObjectTabconstraint => rename_constraint(cx, statement, &new_name),
        ObjectType::ObjectType | ObjectType::ObjectDomain => {
            rename_type(cx, object(&statement.object)?, &new_name)
        }
        ObjectType::ObjectSchema => rename_schema(cx, &statement.subname, &new_name),
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            rename_function(cx, statement, &new_name)
        }
        ObjectType::ObjectDatabase => database::rename(cx, &statement.subname, &new_name),
        ObjectType::ObjectRole => super::role::rename(cx, &statement.subname, &new_name),
        _ => Err(Error::unsupported("renaming this kind of object is")),
    }
}

fn object(node: &Option<Box<Node>>) -> Result<&Node> {
    node.as_deref().ok_or_else(|| Error::internal("missing object in a parse tree"))
}

fn find(
    cx: &mut DdlContext<'_>,
    name: &protobuf::RangeVar,
    missing_ok: bool,
) -> Result<Option<Arc<Relation>>> {
    match names::open_checked(cx, name, TableLockMode::AccessExclusive, &names::check_own)? {
        Some(found) => {
            names::check_not_system(&found)?;
            cx.require_table_owner(&found)?;
            Ok(Some(found))
        }
        None if missing_ok => {
            cx.notice(format!("relation \"{}\" does not exist, skipping", names::display(name)));
            Ok(None)
        }
        None => Err(names::undefined(name)),
    }
}

fn check_word(relation: &Relation, kind: ObjectType) -> Result<()> {
    let wanted = match kind {
        ObjectType::ObjectIndex => RelationKind::Index,
        ObjectType::ObjectSequence => RelationKind::Sequence,
        ObjectType::ObjectView => RelationKind::View,
        ObjectType::ObjectMatview => RelationKind::MaterializedView,
        ObjectType::ObjectType => RelationKind::CompositeType,
        _ => return Ok(()),
    };
    if relation.kind == wanted {
        return Ok(());
    }
    let article = if wanted == RelationKind::Index { "an" } else { "a" };
    Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not {article} {}", relation.name, kind_name(wanted)))
}

fn rename_relation(cx: &mut DdlContext<'_>, statement: &protobuf::RenameStmt, new_name: &str) -> Result<()> {
    let Some(relation) = find(cx, required(&statement.relation)?, statement.missing_ok)? else {
        return Ok(());
    };
    if statement.rename_type() != ObjectType::ObjectIndex || relation.kind == RelationKind::Sequence {
        check_word(&relation, statement.rename_type())?;
    }
    names::check_creatable(cx, relation.namespace, "schema")?;
    super::relation::check_name_is_free(cx, relation.namespace, new_name, false)?;
    let before = cx.catalog.clone();
    let array_name = super::rows::array_type_name(&cx.catalog, relation.namespace, new_name);
    let array = cx.catalog.type_by_oid(relation.row_type).map_or(0, |object| object.array);
    cx.change(|writer| {
        index::update_class(writer, relation.oid, |row| row[pg_class::RELNAME] = Datum::text(new_name))?;
        for (oid, name) in [(relation.row_type, new_name), (array, &*array_name)] {
            if oid != 0 {
                set_type_name(writer, oid, name)?;
            }
        }
        // The constraint of a key has its index's name.
        writer
            .update_where(
                pg_constraint::TABLE,
                |row| {
                    row.oid(pg_constraint::CONINDID) == relation.oid
                        && matches!(row.char(pg_constraint::CONTYPE), b'p' | b'u' | b'x')
                },
                |row| row[pg_constraint::CONNAME] = Datum::text(new_name),
            )
            .sql()?;
        Ok(())
    })?;
    refresh_texts(cx, &before, &relation.name)
}

fn set_type_name(writer: &mut cairn_catalog::CatalogWriter<'_>, oid: Oid, name: &str) -> Result<()> {
    writer
        .update_where(
            pg_type::TABLE,
            |row| row.oid(pg_type::OID) == oid,
            |row| row[pg_type::TYPNAME] = Datum::text(name),
        )
        .sql()?;
    Ok(())
}

fn rename_column(cx: &mut DdlContext<'_>, statement: &protobuf::RenameStmt, new_name: &str) -> Result<()> {
    let Some(relation) = find(cx, required(&statement.relation)?, statement.missing_ok)? else {
        return Ok(());
    };
    check_word(&relation, statement.relation_type())?;
    if matches!(relation.kind, RelationKind::Sequence) {
        return Err(err!(WRONG_OBJECT_TYPE, "cannot rename columns of relation \"{}\"", relation.name)
            .detail("This operation is not supported for sequences."));
    }
    let number = match relation.kind {
        // An index's columns have names of their own.
        RelationKind::Index => index_column(cx, &relation, &statement.subname)?,
        _ => super::alter_table::column_number_or(&relation.columns, &statement.subname, || {
            err!(UNDEFINED_COLUMN, "column \"{}\" does not exist", statement.subname)
        })?,
    };
    if relation.columns.iter().any(|column| !column.dropped && *column.name == *new_name) {
        return Err(err!(
            DUPLICATE_COLUMN,
            "column \"{new_name}\" of relation \"{}\" already exists",
            relation.name
        ));
    }
    super::row_types::lock_users(cx, &relation)?;
    let before = cx.catalog.clone();
    cx.change(|writer| {
        super::alter_table::update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTNAME] = Datum::text(new_name);
        })
    })?;
    if matches!(relation.kind, RelationKind::View | RelationKind::MaterializedView) {
        rename_view_column(cx, relation.oid)?;
    }
    refresh_texts(cx, &before, &statement.subname)?;
    super::row_types::conform(cx, &before, relation.oid)
}

/// The query of a view gives its columns the view's names.
fn rename_view_column(cx: &mut DdlContext<'_>, oid: Oid) -> Result<()> {
    let view = cx.relation(oid)?;
    let Some(stored) = &view.view_query else { return Ok(()) };
    let mut query = text::read_query(stored, &cx.catalog, cx.env)?;
    super::view::name_targets(&mut query, view.columns.iter().map(|column| &*column.name));
    let stored = text::stored_query(&query, &cx.catalog, cx.env)?;
    cx.change(|writer| {
        writer
            .update_where(
                pg_rewrite::TABLE,
                |row| row.oid(pg_rewrite::EV_CLASS) == oid,
                |row| row[pg_rewrite::EV_ACTION] = Datum::text(&*stored),
            )
            .sql()?;
        Ok(())
    })
}

fn index_column(cx: &DdlContext<'_>, relation: &Relation, name: &str) -> Result<i16> {
    let found = cx.catalog.user_rows(pg_attribute::TABLE).find(|row| {
        row.oid(pg_attribute::ATTRELID) == relation.oid && row.str(pg_attribute::ATTNAME) == name
    });
    found
        .map(|row| row.int(pg_attribute::ATTNUM) as i16)
        .ok_or_else(|| err!(UNDEFINED_COLUMN, "column \"{name}\" does not exist"))
}

fn rename_constraint(
    cx: &mut DdlContext<'_>,
    statement: &protobuf::RenameStmt,
    new_name: &str,
) -> Result<()> {
    let Some(relation) = find(cx, required(&statement.relation)?, statement.missing_ok)? else {
        return Ok(());
    };
    let old = &*statement.subname;
    let found = relation.constraints.iter().find(|constraint| &*constraint.name == old).ok_or_else(|| {
        err!(UNDEFINED_OBJECT, "constraint \"{old}\" for table \"{}\" does not exist", relation.name)
    })?;
    super::constraint::check_name(&relation, new_name)?;
    let key = super::depend::is_key(found.kind);
    if key {
        super::relation::check_name_is_free(cx, relation.namespace, new_name, false)?;
    }
    let (oid, index) = (found.oid, found.index);
    super::alter_table::update_constraint(cx, oid, |row| {
        row[pg_constraint::CONNAME] = Datum::text(new_name);
    })?;
    if key {
        cx.change(|writer| {
            index::update_class(writer, index, |row| row[pg_class::RELNAME] = Datum::text(new_name))
        })?;
    }
    Ok(())
}

/// The type that a dotted name means. 42704.
fn find_type(cx: &mut DdlContext<'_>, node: &Node) -> Result<Arc<cairn_catalog::Type>> {
    let (schema, name) = match inner(node)? {
        NodeEnum::List(list) => qualified(cx, &list.items)?,
        NodeEnum::TypeName(name) => qualified(cx, &name.names)?,
        _ => return Err(Error::internal("a type without a name")),
    };
    let schema_part = (!schema.is_empty()).then_some(&*schema);
    let found = cx.catalog.resolve_type(&cx.search_path, schema_part, &name).cloned().ok_or_else(|| {
        let shown = if schema.is_empty() { name.clone() } else { format!("{schema}.{name}") };
        err!(UNDEFINED_OBJECT, "type \"{shown}\" does not exist")
    })?;
    if found.oid < FIRST_USER_OID {
        return Err(err!(INSUFFICIENT_PRIVILEGE, "must be owner of type {name}"));
    }
    cx.require_owner(ObjectKind::Type, found.oid)?;
    cx.lock(pg_type::TABLE, found.oid, TableLockMode::AccessExclusive)?;
    Ok(found)
}

fn rename_type(cx: &mut DdlContext<'_>, node: &Node, new_name: &str) -> Result<()> {
    let object = find_type(cx, node)?;
    if object.relation != 0 {
        let relation = cx.relation(object.relation)?;
        if relation.kind != RelationKind::CompositeType {
            return Err(err!(
                WRONG_OBJECT_TYPE,
                "{} is a table's row type",
                cx.catalog.type_name(object.oid, &cx.search_path)
            )
            .hint("Use ALTER TABLE instead."));
        }
    }
    if cx.catalog.type_by_name(object.namespace, new_name).is_some() {
        return Err(err!(DUPLICATE_OBJECT, "type \"{new_name}\" already exists"));
    }
    let before = cx.catalog.clone();
    let array_name = rows::array_type_name(&cx.catalog, object.namespace, new_name);
    cx.change(|writer| {
        set_type_name(writer, object.oid, new_name)?;
        if object.array != 0 {
            set_type_name(writer, object.array, &array_name)?;
        }
        if object.relation != 0 {
            index::update_class(writer, object.relation, |row| {
                row[pg_class::RELNAME] = Datum::text(new_name);
            })?;
        }
        Ok(())
    })?;
    refresh_texts(cx, &before, &object.name)
}

fn rename_schema(cx: &mut DdlContext<'_>, old: &str, new_name: &str) -> Result<()> {
    let oid = names::namespace(cx, old)?;
    if new_name.starts_with("pg_") {
        return Err(err!(RESERVED_NAME, "unacceptable schema name \"{new_name}\"")
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if cx.catalog.namespace_by_name(new_name).is_some() {
        return Err(err!(DUPLICATE_SCHEMA, "schema \"{new_name}\" already exists"));
    }
    names::check_not_system_schema(cx, oid)?;
    cx.require_owner(ObjectKind::Schema, oid)?;
    let database = database::oid(cx, &cx.env.current_database())?;
    cx.require(ObjectKind::Database, database, acl::CREATE)?;
    let before = cx.catalog.clone();
    change_namespace_row(cx, oid, |row| row[pg_namespace::NSPNAME] = Datum::text(new_name))?;
    refresh_texts(cx, &before, old)
}

/// Changes a schema's row; that of a built-in one (public) becomes a stored row.
fn change_namespace_row(cx: &mut DdlContext<'_>, oid: Oid, change: impl Fn(&mut Vec<Datum>)) -> Result<()> {
    let row = cx.catalog.row_by_oid(pg_namespace::TABLE, oid);
    let mut row = row.ok_or_else(|| Error::internal("a schema without a row"))?.to_vec();
    change(&mut row);
    cx.change(|writer| rows::put(writer, pg_namespace::TABLE, row))
}

fn rename_function(cx: &mut DdlContext<'_>, statement: &protobuf::RenameStmt, new_name: &str) -> Result<()> {
    let NodeEnum::ObjectWithArgs(signature) = inner(object(&statement.object)?)? else {
        return Err(Error::internal("a function without a name"));
    };
    let proc = function::find(cx, signature, statement.rename_type(), false)?
        .ok_or_else(|| Error::internal("a function that is not there"))?;
    check_user_proc(cx, &proc)?;
    check_signature_is_free(cx, &proc, proc.namespace, new_name)?;
    let before = cx.catalog.clone();
    change_proc(cx, proc.oid, |row| row[pg_proc::PRONAME] = Datum::text(new_name))?;
    refresh_texts(cx, &before, &proc.name)
}

fn check_user_proc(cx: &DdlContext<'_>, proc: &cairn_catalog::Proc) -> Result<()> {
    if proc.oid < FIRST_USER_OID {
        return Err(err!(INSUFFICIENT_PRIVILEGE, "must be owner of function {}", proc.name));
    }
    cx.require_owner(ObjectKind::Function, proc.oid)
}

fn check_signature_is_free(
    cx: &DdlContext<'_>,
    proc: &cairn_catalog::Proc,
    namespace: Oid,
    name: &str,
) -> Result<()> {
    let taken = cx
        .catalog
        .procs_by_name(name)
        .iter()
        .any(|other| other.namespace == namespace && other.arg_types == proc.arg_types);
    if taken {
        let args =
            proc.arg_types.iter().map(|oid| cx.catalog.type_name(*oid, &cx.search_path)).collect::<Vec<_>>();
        return Err(err!(
            DUPLICATE_FUNCTION,
            "function {name}({}) already exists in schema \"{}\"",
            args.join(", "),
            cx.catalog.namespace_name(namespace)
        ));
    }
    Ok(())
}

fn change_proc(cx: &mut DdlContext<'_>, oid: Oid, change: impl Fn(&mut Vec<Datum>)) -> Result<()> {
    cx.change(|writer| {
        writer.update_where(pg_proc::TABLE, |row| row.oid(pg_proc::OID) == oid, change).sql()?;
        Ok(())
    })
}

// SET SCHEMA.

pub fn set_schema(cx: &mut DdlContext<'_>, statement: &protobuf::AlterObjectSchemaStmt) -> Result<()> {
    match statement.object_type() {
        ObjectType::ObjectTable
        | ObjectType::ObjectSequence
        | ObjectType::ObjectView
        | ObjectType::ObjectMatview => {
            let name = required(&statement.relation)?;
            let Some(relation) = find(cx, name, statement.missing_ok)? else { return Ok(()) };
            check_movable(&relation)?;
            check_word(&relation, statement.object_type())?;
            let namespace = names::namespace(cx, &statement.newschema)?;
            move_relation(cx, &relation, namespace)
        }
        ObjectType::ObjectType | ObjectType::ObjectDomain => {
            let object = find_type(cx, object(&statement.object)?)?;
            let namespace = names::namespace(cx, &statement.newschema)?;
            move_type(cx, &object, namespace)
        }
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            let NodeEnum::ObjectWithArgs(signature) = inner(object(&statement.object)?)? else {
                return Err(Error::internal("a function without a name"));
            };
            let proc = function::find(cx, signature, statement.object_type(), false)?
                .ok_or_else(|| Error::internal("a function that is not there"))?;
            check_user_proc(cx, &proc)?;
            let namespace = names::namespace(cx, &statement.newschema)?;
            names::check_creatable(cx, namespace, "schema")?;
            check_signature_is_free(cx, &proc, namespace, &proc.name)?;
            let before = cx.catalog.clone();
            change_proc(cx, proc.oid, |row| row[pg_proc::PRONAMESPACE] = Datum::Oid(namespace))?;
            move_dependency(cx, Address::new(pg_proc::TABLE, proc.oid), proc.namespace, namespace)?;
            refresh_texts(cx, &before, &proc.name)
        }
        _ => Err(Error::unsupported("moving this kind of object to another schema is")),
    }
}

fn check_movable(relation: &Relation) -> Result<()> {
    let hint = match relation.kind {
        RelationKind::Index => "Change the schema of the table instead.",
        RelationKind::CompositeType => "Use ALTER TYPE instead.",
        _ => return Ok(()),
    };
    Err(err!(WRONG_OBJECT_TYPE, "cannot change schema of {} \"{}\"", kind_name(relation.kind), relation.name)
        .hint(hint))
}

fn move_dependency(cx: &mut DdlContext<'_>, object: Address, from: Oid, to: Oid) -> Result<()> {
    cx.change(|writer| {
        use pg_depend as d;
        writer
            .delete_where(d::TABLE, |row| {
                row.oid(d::CLASSID) == object.class
                    && row.oid(d::OBJID) == object.object
                    && row.oid(d::REFCLASSID) == pg_namespace::TABLE
                    && row.oid(d::REFOBJID) == from
            })
            .sql()?;
        let schema = Address::new(pg_namespace::TABLE, to);
        super::depend::record(writer, object, schema, super::depend::Dependency::Normal)
    })
}

fn move_relation(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, namespace: Oid) -> Result<()> {
    names::check_creatable(cx, namespace, "schema")?;
    if relation.namespace == namespace {
        return Ok(());
    }
    if relation.kind == RelationKind::Sequence
        && let Some(owner) = cx.catalog.user_rows(pg_depend::TABLE).find(|row| {
            row.oid(pg_depend::CLASSID) == pg_class::TABLE
                && row.oid(pg_depend::OBJID) == relation.oid
                && row.int(pg_depend::REFOBJSUBID) > 0
        })
    {
        let table = cx.relation(owner.oid(pg_depend::REFOBJID))?;
        return Err(err!(FEATURE_NOT_SUPPORTED, "cannot move an owned sequence into another schema")
            .detail(format!("Sequence \"{}\" is linked to table \"{}\".", relation.name, table.name)));
    }
    let mut moved: Vec<Oid> = vec![relation.oid];
    moved.extend(relation.indexes.iter().map(|index| index.oid));
    moved.extend(super::truncate::owned_sequences(cx, relation.oid).iter().map(|sequence| sequence.oid));
    for oid in &moved {
        let name = cx.relation(*oid)?.name.clone();
        if cx.catalog.relation_by_name(namespace, &name).is_some() {
            return Err(err!(
                DUPLICATE_TABLE,
                "relation \"{name}\" already exists in schema \"{}\"",
                cx.catalog.namespace_name(namespace)
            ));
        }
    }
    let before = cx.catalog.clone();
    let array = cx.catalog.type_by_oid(relation.row_type).map_or(0, |object| object.array);
    let row_type = relation.row_type;
    let old_namespace = relation.namespace;
    cx.change(|writer| {
        for oid in &moved {
            index::update_class(writer, *oid, |row| row[pg_class::RELNAMESPACE] = Datum::Oid(namespace))?;
        }
        writer
            .update_where(
                pg_type::TABLE,
                |row| row_type != 0 && [row_type, array].contains(&row.oid(pg_type::OID)),
                |row| row[pg_type::TYPNAMESPACE] = Datum::Oid(namespace),
            )
            .sql()?;
        writer
            .update_where(
                pg_constraint::TABLE,
                |row| row.oid(pg_constraint::CONRELID) == relation.oid,
                |row| row[pg_constraint::CONNAMESPACE] = Datum::Oid(namespace),
            )
            .sql()?;
        Ok(())
    })?;
    for oid in moved {
        if cx.relation(oid)?.kind != RelationKind::Index {
            move_dependency(cx, Address::relation(oid), old_namespace, namespace)?;
        }
    }
    refresh_texts(cx, &before, &relation.name)
}

fn move_type(cx: &mut DdlContext<'_>, object: &cairn_catalog::Type, namespace: Oid) -> Result<()> {
    names::check_creatable(cx, namespace, "schema")?;
    if cx.catalog.type_by_name(namespace, &object.name).is_some() {
        return Err(err!(
            DUPLICATE_OBJECT,
            "type \"{}\" already exists in schema \"{}\"",
            object.name,
            cx.catalog.namespace_name(namespace)
        ));
    }
    if object.relation != 0 && cx.relation(object.relation)?.kind != RelationKind::CompositeType {
        return Err(err!(
            WRONG_OBJECT_TYPE,
            "{} is a table's row type",
            cx.catalog.type_name(object.oid, &cx.search_path)
        )
        .hint("Use ALTER TABLE instead."));
    }
    let before = cx.catalog.clone();
    cx.change(|writer| {
        writer
            .update_where(
                pg_type::TABLE,
                |row| {
                    let oid = row.oid(pg_type::OID);
                    oid == object.oid || (object.array != 0 && oid == object.array)
                },
                |row| row[pg_type::TYPNAMESPACE] = Datum::Oid(namespace),
            )
            .sql()?;
        if object.relation != 0 {
            index::update_class(writer, object.relation, |row| {
                row[pg_class::RELNAMESPACE] = Datum::Oid(namespace);
            })?;
        }
        Ok(())
    })?;
    move_dependency(cx, Address::new(pg_type::TABLE, object.oid), object.namespace, namespace)?;
    refresh_texts(cx, &before, &object.name)
}

// OWNER TO.

pub fn set_owner(cx: &mut DdlContext<'_>, statement: &protobuf::AlterOwnerStmt) -> Result<()> {
    let owner = super::node::role(cx, required(&statement.newowner)?)?;
    match statement.object_type() {
        ObjectType::ObjectSchema => {
            let name = string(object(&statement.object)?).unwrap_or("");
            let oid = cx.catalog.any_namespace(&cx.search_path, name);
            let oid = oid.ok_or_else(|| names::undefined_schema(name))?;
            check_new_owner(cx, ObjectKind::Schema, oid, owner)?;
            let database = database::oid(cx, &cx.env.current_database())?;
            cx.require(ObjectKind::Database, database, acl::CREATE)?;
            change_namespace_owner(cx, oid, owner)
        }
        ObjectType::ObjectDatabase => {
            let name = string(object(&statement.object)?).unwrap_or("").to_owned();
            database::set_owner(cx, &name, owner)
        }
        ObjectType::ObjectType | ObjectType::ObjectDomain => {
            let object = find_type(cx, object(&statement.object)?)?;
            check_new_owner(cx, ObjectKind::Type, object.oid, owner)?;
            check_owner_creates(cx, object.namespace, owner)?;
            change_type_owner(cx, &object, owner)
        }
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            let NodeEnum::ObjectWithArgs(signature) = inner(object(&statement.object)?)? else {
                return Err(Error::internal("a function without a name"));
            };
            let proc = function::find(cx, signature, statement.object_type(), false)?
                .ok_or_else(|| Error::internal("a function that is not there"))?;
            check_user_proc(cx, &proc)?;
            check_new_owner(cx, ObjectKind::Function, proc.oid, owner)?;
            check_owner_creates(cx, proc.namespace, owner)?;
            change_proc_owner(cx, &proc, owner)
        }
        _ => Err(Error::unsupported("changing the owner of this kind of object is")),
    }
}

pub fn change_namespace_owner(cx: &mut DdlContext<'_>, oid: Oid, owner: Oid) -> Result<()> {
    let list = list_of_new_owner(cx, ObjectKind::Schema, oid, owner);
    change_namespace_row(cx, oid, |row| {
        row[pg_namespace::NSPOWNER] = Datum::Oid(owner);
        if let Some(list) = &list {
            row[pg_namespace::NSPACL] = list.clone();
        }
    })
}

pub fn change_type_owner(cx: &mut DdlContext<'_>, object: &cairn_catalog::Type, owner: Oid) -> Result<()> {
    let list = list_of_new_owner(cx, ObjectKind::Type, object.oid, owner);
    let (oid, array, relation) = (object.oid, object.array, object.relation);
    cx.change(|writer| {
        writer
            .update_where(
                pg_type::TABLE,
                |row| row.oid(pg_type::OID) == oid || (array != 0 && row.oid(pg_type::OID) == array),
                |row| {
                    row[pg_type::TYPOWNER] = Datum::Oid(owner);
                    if let (Some(list), true) = (&list, row.oid(pg_type::OID) == oid) {
                        row[pg_type::TYPACL] = list.clone();
                    }
                },
            )
            .sql()?;
        if relation != 0 {
            index::update_class(writer, relation, |row| row[pg_class::RELOWNER] = Datum::Oid(owner))?;
        }
        Ok(())
    })
}

pub fn change_proc_owner(cx: &mut DdlContext<'_>, proc: &cairn_catalog::Proc, owner: Oid) -> Result<()> {
    let list = list_of_new_owner(cx, ObjectKind::Function, proc.oid, owner);
    change_proc(cx, proc.oid, |row| {
        row[pg_proc::PROOWNER] = Datum::Oid(owner);
        if let Some(list) = &list {
            row[pg_proc::PROACL] = list.clone();
        }
    })
}

/// 42501 unless the object is the role's own, and it could act for the one that is to have it.
fn check_new_owner(cx: &DdlContext<'_>, kind: ObjectKind, object: Oid, owner: Oid) -> Result<()> {
    cx.require_owner(kind, object)?;
    if cx.roles.is_member(cx.user, owner) { Ok(()) } else { Err(database::must_be_member(cx, owner)) }
}

/// Who gets an object must be able to create such in its schema, unless a superuser gives it.
fn check_owner_creates(cx: &DdlContext<'_>, namespace: Oid, owner: Oid) -> Result<()> {
    if cx.roles.is_superuser(cx.user) {
        return Ok(());
    }
    cx.rights().require(owner, ObjectKind::Schema, namespace, acl::CREATE)
}

/// An object's access list once it is `owner`'s; `None` where it has the default.
fn list_of_new_owner(cx: &DdlContext<'_>, kind: ObjectKind, object: Oid, owner: Oid) -> Option<Datum> {
    let rights = cx.rights();
    let (_, owner_column, list_column) = crate::rights::columns_of(kind);
    let row = rights.row(kind, object)?;
    let value = row.datum(list_column);
    if value.is_null() {
        return None;
    }
    let old = row.oid(owner_column);
    let mut list = Acl::of(kind, old, value, &|name| cx.roles.by_name(name));
    list.change_owner(old, owner);
    Some(list.to_datum())
}

/// A relation's owner, with that of its row type, indexes and sequences.
pub fn change_relation_owner(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, owner: Oid) -> Result<()> {
    let mut changed: Vec<Oid> = vec![relation.oid];
    changed.extend(relation.indexes.iter().map(|index| index.oid));
    changed.extend(super::truncate::owned_sequences(cx, relation.oid).iter().map(|sequence| sequence.oid));
    let array = cx.catalog.type_by_oid(relation.row_type).map_or(0, |object| object.array);
    let row_type = relation.row_type;
    if owner != relation.owner {
        check_new_owner(cx, ObjectKind::Table, relation.oid, owner)?;
        check_owner_creates(cx, relation.namespace, owner)?;
    }
    let lists: Vec<(Oid, Option<Datum>)> =
        changed.iter().map(|oid| (*oid, list_of_new_owner(cx, ObjectKind::Table, *oid, owner))).collect();
    cx.change(|writer| {
        for (oid, list) in lists {
            index::update_class(writer, oid, |row| {
                row[pg_class::RELOWNER] = Datum::Oid(owner);
                if let Some(list) = &list {
                    row[pg_class::RELACL] = list.clone();
                }
            })?;
        }
        writer
            .update_where(
                pg_type::TABLE,
                |row| row_type != 0 && [row_type, array].contains(&row.oid(pg_type::OID)),
                |row| row[pg_type::TYPOWNER] = Datum::Oid(owner),
            )
            .sql()?;
        Ok(())
    })
}

// Stored texts.

/// A stored text that may have to be written again: where it is, and what it means.
struct Stored {
    catalog: Oid,
    key_column: usize,
    oid: Oid,
    column: usize,
    old: String,
    meaning: Meaning,
}

enum Meaning {
    /// Expressions over the columns of a relation (0: of none); several are joined.
    Expressions {
        relation: Oid,
        expressions: Vec<Expr>,
    },
    Query(Box<Query>),
}

/// Writes the stored texts that have `name` in them again, as they read under the new picture.
pub fn refresh_texts(cx: &mut DdlContext<'_>, before: &Arc<Catalog>, name: &str) -> Result<()> {
    // Constants are read by the session, which must see the old names too.
    cx.host.set_catalog(before);
    let read = read_texts(cx, before, name);
    cx.host.set_catalog(&cx.catalog);
    let mut changes = Vec::new();
    for mut stored in read? {
        let text = match &mut stored.meaning {
            Meaning::Expressions { relation, expressions } => {
                let relation = cx.catalog.relation(*relation);
                let texts = expressions
                    .iter()
                    .map(|expr| text::stored_expression(expr, relation, &cx.catalog, cx.env))
                    .collect::<Result<Vec<_>>>()?;
                texts.join(", ")
            }
            Meaning::Query(query) => {
                replace_relations(query, &cx.catalog);
                text::stored_query(query, &cx.catalog, cx.env)?
            }
        };
        if text != stored.old {
            changes.push((stored, text));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    cx.change(|writer| {
        for (stored, text) in &changes {
            writer
                .update_where(
                    stored.catalog,
                    |row| row.oid(stored.key_column) == stored.oid,
                    |row| row[stored.column] = Datum::text(&**text),
                )
                .sql()?;
        }
        Ok(())
    })
}

fn read_texts(cx: &DdlContext<'_>, before: &Arc<Catalog>, name: &str) -> Result<Vec<Stored>> {
    let mut found = Vec::new();
    let over = |text: &str, relation: Option<&Arc<Relation>>| -> Result<Vec<Expr>> {
        cairn_catalog::system_table::split_expressions(text)
            .iter()
            .map(|text| text::read_expression(text, relation, before, cx.env))
            .collect()
    };
    let mut add =
        |catalog, key_column, column, row: &[Datum], relation: Option<&Arc<Relation>>| -> Result<()> {
            let text = row.str(column);
            if text.contains(name) {
                let expressions = over(text, relation)?;
                let relation = relation.map_or(0, |relation| relation.oid);
                let meaning = Meaning::Expressions { relation, expressions };
                let (oid, old) = (row.oid(key_column), text.to_owned());
                found.push(Stored { catalog, key_column, oid, column, old, meaning });
            }
            Ok(())
        };
    for row in before.user_rows(pg_attrdef::TABLE) {
        let relation = before.relation(row.oid(pg_attrdef::ADRELID));
        let at = (row.int(pg_attrdef::ADNUM) as usize).wrapping_sub(1);
        let generated =
            relation.and_then(|relation| relation.columns.get(at)).is_some_and(|column| column.generated);
        add(pg_attrdef::TABLE, pg_attrdef::OID, pg_attrdef::ADBIN, row, relation.filter(|_| generated))?;
    }
    for row in before.user_rows(pg_constraint::TABLE) {
        // A domain's check has no relation, and names nothing but its value and functions.
        if let Some(relation) = before.relation(row.oid(pg_constraint::CONRELID)) {
            add(pg_constraint::TABLE, pg_constraint::OID, pg_constraint::CONBIN, row, Some(relation))?;
        }
    }
    for row in before.user_rows(pg_index::TABLE) {
        let relation = before.relation(row.oid(pg_index::INDRELID));
        for column in [pg_index::INDEXPRS, pg_index::INDPRED] {
            add(pg_index::TABLE, pg_index::INDEXRELID, column, row, relation)?;
        }
    }
    for row in before.user_rows(pg_proc::TABLE) {
        add(pg_proc::TABLE, pg_proc::OID, pg_proc::PROARGDEFAULTS, row, None)?;
    }
    for row in before.user_rows(pg_rewrite::TABLE) {
        let text = row.str(pg_rewrite::EV_ACTION);
        if text.contains(name) {
            found.push(Stored {
                catalog: pg_rewrite::TABLE,
                key_column: pg_rewrite::OID,
                oid: row.oid(pg_rewrite::OID),
                column: pg_rewrite::EV_ACTION,
                old: text.to_owned(),
                meaning: Meaning::Query(Box::new(text::read_query(text, before, cx.env)?)),
            });
        }
    }
    Ok(found)
}

/// Puts the new picture's relations into a query of the old one.
fn replace_relations(query: &mut Query, catalog: &Catalog) {
    for entry in &mut query.range_table {
        let relation = match &mut entry.kind {
            RangeTableKind::Relation { relation, .. } => {
                if let Some(new) = catalog.relation(relation.oid) {
                    *relation = new.clone();
                }
                Some(relation.clone())
            }
            RangeTableKind::Subquery { view: Some(view), .. } => catalog.relation(*view).cloned(),
            _ => None,
        };
        let Some(relation) = relation else { continue };
        for (column, new) in entry.columns.iter_mut().zip(&relation.columns) {
            if !new.dropped {
                column.name = new.name.clone();
            }
        }
    }
    cairn_analyze::walk::query_subqueries_mut(query, &mut |query| replace_relations(query, catalog));
    cairn_analyze::walk::query_expressions_mut(query, &mut |expr| {
        cairn_analyze::walk::deep_mut(expr, 0, &mut |expr, _| {
            if let Expr::SubLink(link) = expr {
                replace_relations(&mut link.query, catalog);
            }
        });
    });
}
