//! COMMENT ON.

use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::oid::languages;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, Node, ObjectType, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::Address;
use super::names::{self, kind_name};
use super::node::{inner, list, range_var, string, strings};
use super::rows;

pub fn comment(cx: &mut DdlContext<'_>, statement: &protobuf::CommentStmt) -> Result<()> {
    let object = statement.object.as_deref().ok_or_else(|| Error::internal("a comment without an object"))?;
    let text = (!statement.comment.is_empty()).then_some(&*statement.comment);
    if let ObjectType::ObjectDatabase | ObjectType::ObjectRole | ObjectType::ObjectTablespace =
        statement.objtype()
    {
        return shared_comment(cx, statement.objtype(), object, text);
    }
    let address = resolve(cx, statement.objtype(), object)?;
    require_owner(cx, address)?;
    set(cx, address, text)
}

fn resolve(cx: &mut DdlContext<'_>, kind: ObjectType, object: &Node) -> Result<Address> {
    let relation = |cx: &mut DdlContext<'_>, kind: RelationKind| -> Result<Address> {
        let name = range_var(cx, list(object))?;
        let found = names::open(cx, &name, TableLockMode::ShareUpdateExclusive)?;
        if found.kind != kind {
            let article = if kind == RelationKind::Index { "an" } else { "a" };
            return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not {article} {}", found.name, kind_name(kind)));
        }
        Ok(Address::relation(found.oid))
    };
    match kind {
        ObjectType::ObjectTable => relation(cx, RelationKind::Table),
        ObjectType::ObjectIndex => relation(cx, RelationKind::Index),
        ObjectType::ObjectSequence => relation(cx, RelationKind::Sequence),
        ObjectType::ObjectView => relation(cx, RelationKind::View),
        ObjectType::ObjectMatview => relation(cx, RelationKind::MaterializedView),
        ObjectType::ObjectColumn => {
            let parts = list(object);
            let Some((column, table)) = parts.split_last() else {
                return Err(Error::internal("a column without a name"));
            };
            if table.is_empty() {
                return Err(err!(SYNTAX_ERROR, "column name must be qualified"));
            }
            let name = range_var(cx, table)?;
            let found = names::open(cx, &name, TableLockMode::ShareUpdateExclusive)?;
            let number = super::alter_table::column_number(&found, string(column).unwrap_or(""))?;
            Ok(Address::column(found.oid, number))
        }
        ObjectType::ObjectTabconstraint => {
            let parts = list(object);
            let Some((constraint, table)) = parts.split_last() else {
                return Err(Error::internal("a constraint without a name"));
            };
            let name = range_var(cx, table)?;
            let found = names::open(cx, &name, TableLockMode::ShareUpdateExclusive)?;
            let wanted = string(constraint).unwrap_or("");
            let constraint = found.constraints.iter().find(|constraint| &*constraint.name == wanted);
            let constraint = constraint.ok_or_else(|| {
                err!(UNDEFINED_OBJECT, "constraint \"{wanted}\" for table \"{}\" does not exist", found.name)
            })?;
            Ok(Address::new(pg_constraint::TABLE, constraint.oid))
        }
        ObjectType::ObjectSchema => {
            Ok(Address::new(pg_namespace::TABLE, names::namespace(cx, string(object).unwrap_or(""))?))
        }
        ObjectType::ObjectType | ObjectType::ObjectDomain => {
            let NodeEnum::TypeName(name) = inner(object)? else {
                return Err(Error::internal("a type without a name"));
            };
            let (oid, _) = cairn_analyze::resolve_type_name(name, &cx.analyze_context())?;
            Ok(Address::new(pg_type::TABLE, oid))
        }
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            let NodeEnum::ObjectWithArgs(signature) = inner(object)? else {
                return Err(Error::internal("a function without a name"));
            };
            let found = super::function::find(cx, signature, kind, false)?;
            let proc = found.ok_or_else(|| Error::internal("a function that is not there"))?;
            Ok(Address::new(pg_proc::TABLE, proc.oid))
        }
        ObjectType::ObjectExtension => {
            let name = string(object).unwrap_or("");
            let oid = cx
                .catalog
                .extension(name)
                .ok_or_else(|| err!(UNDEFINED_OBJECT, "extension \"{name}\" does not exist"))?;
            Ok(Address::new(pg_extension::TABLE, oid))
        }
        ObjectType::ObjectLanguage => {
            let name = string(object).unwrap_or("");
            let oid = cx
                .catalog
                .language_by_name(name)
                .ok_or_else(|| err!(UNDEFINED_OBJECT, "language \"{name}\" does not exist"))?;
            Ok(Address::new(pg_language::TABLE, oid))
        }
        _ => {
            let name = match &object.node {
                Some(NodeEnum::List(list)) => strings(&list.items).join("."),
                _ => String::new(),
            };
            Err(Error::unsupported(format!("a comment on this kind of object ({name}) is")))
        }
    }
}

/// 42501 unless the object, or what it is part of, is the role's own.
fn require_owner(cx: &DdlContext<'_>, address: Address) -> Result<()> {
    let (kind, object) = match address.class {
        pg_constraint::TABLE => {
            let table = cx.catalog.constraint(address.object).map_or(0, |constraint| constraint.table);
            (ObjectKind::Table, table)
        }
        pg_class::TABLE => (ObjectKind::Table, address.object),
        pg_namespace::TABLE => (ObjectKind::Schema, address.object),
        pg_type::TABLE => (ObjectKind::Type, address.object),
        pg_proc::TABLE => (ObjectKind::Function, address.object),
        _ => (ObjectKind::Language, languages::PLPGSQL),
    };
    cx.require_owner(kind, object)
}

/// Sets or removes the comment on an object.
pub fn set(cx: &mut DdlContext<'_>, address: Address, text: Option<&str>) -> Result<()> {
    use pg_description as c;
    cx.change(|writer| {
        let has_builtin = address.object < cairn_types::oid::FIRST_USER_OID;
        match text {
            Some(_) => {}
            // The comment that PostgreSQL itself has is hidden by an empty one.
            None if has_builtin => {}
            None => {
                writer
                    .delete_where(c::TABLE, |row| {
                        row.oid(c::CLASSOID) == address.class
                            && row.oid(c::OBJOID) == address.object
                            && row.int(c::OBJSUBID) == i64::from(address.sub)
                    })
                    .sql()?;
                return Ok(());
            }
        }
        let mut row = blank_row(c::TABLE);
        row[c::OBJOID] = Datum::Oid(address.object);
        row[c::CLASSOID] = Datum::Oid(address.class);
        row[c::OBJSUBID] = Datum::Int4(address.sub);
        row[c::DESCRIPTION] = Datum::text(text.unwrap_or(""));
        rows::put(writer, c::TABLE, row)
    })
}

fn shared_comment(
    cx: &mut DdlContext<'_>,
    kind: ObjectType,
    object: &Node,
    text: Option<&str>,
) -> Result<()> {
    use pg_shdescription as c;
    let shared =
        cx.shared.clone().ok_or_else(|| Error::unsupported("comments on databases and roles are"))?;
    let name = string(object).map(str::to_owned).or_else(|| match &object.node {
        Some(NodeEnum::RoleSpec(spec)) => Some(spec.rolename.clone()),
        _ => None,
    });
    let name = name.unwrap_or_default();
    let (class, oid): (Oid, Oid) = match kind {
        ObjectType::ObjectRole => (pg_authid::TABLE, cx.role(&name)?),
        ObjectType::ObjectDatabase => {
            let found = shared
                .cluster()
                .database_info(&name)
                .ok_or_else(|| err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"))?;
            (pg_database::TABLE, found.oid)
        }
        _ => return Err(Error::unsupported("comments on tablespaces are")),
    };
    let mut row = blank_row(c::TABLE);
    row[c::OBJOID] = Datum::Oid(oid);
    row[c::CLASSOID] = Datum::Oid(class);
    row[c::DESCRIPTION] = text.map_or(Datum::Null, Datum::text);
    match text {
        Some(_) => shared.put(c::TABLE, row).sql(),
        None => shared.delete(c::TABLE, &row).sql(),
    }
}
