//! DROP of anything, with everything that depends on it.
//!
//! pg_depend is walked from the objects that were named. What is reached by an internal or automatic dependency goes
//! silently; what is reached by a normal one needs CASCADE. An object that is part of another one (an index of a
//! constraint) cannot be dropped alone; reached from elsewhere, the whole goes.

use std::collections::HashMap;

use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::*;
use cairn_catalog::{CatalogWriter, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::oid::{FIRST_USER_OID, namespaces};
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, DropBehavior, ObjectType, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::{self, Address, describe};
use super::names::{self, kind_name};
use super::node::{list, qualified, range_var, strings};
use super::{function, index, row_types};

pub fn drop(cx: &mut DdlContext<'_>, statement: &protobuf::DropStmt) -> Result<()> {
    let cascade = statement.behavior() == DropBehavior::DropCascade;
    let mut targets = Vec::new();
    for object in &statement.objects {
        if let Some(address) = resolve(cx, statement.remove_type(), object, statement.missing_ok)? {
            check_owner(cx, address, object)?;
            targets.push(address);
        }
    }
    drop_objects(cx, &targets, cascade)
}

/// 42501 unless the object, or the schema that it is in, is the role's own.
fn check_owner(cx: &DdlContext<'_>, address: Address, object: &protobuf::Node) -> Result<()> {
    if cx.roles.is_superuser(cx.user) {
        return Ok(());
    }
    let catalog = &cx.catalog;
    let (kind, namespace) = match address.class {
        pg_class::TABLE => {
            (ObjectKind::Table, catalog.relation(address.object).map(|object| object.namespace))
        }
        pg_type::TABLE => {
            (ObjectKind::Type, catalog.type_by_oid(address.object).map(|object| object.namespace))
        }
        pg_proc::TABLE => (ObjectKind::Function, catalog.proc(address.object).map(|object| object.namespace)),
        pg_namespace::TABLE => (ObjectKind::Schema, None),
        pg_extension::TABLE => {
            let row = catalog.row_by_oid(pg_extension::TABLE, address.object);
            let owner = row.as_ref().map_or(0, |row| row.oid(pg_extension::EXTOWNER));
            if cx.roles.has_privileges_of(cx.user, owner) {
                return Ok(());
            }
            let name = row.map_or_else(String::new, |row| row.str(pg_extension::EXTNAME).to_owned());
            return Err(err!(INSUFFICIENT_PRIVILEGE, "must be owner of extension {name}"));
        }
        _ => return Ok(()),
    };
    if namespace.is_some_and(|namespace| cx.rights().is_owner(cx.user, ObjectKind::Schema, namespace)) {
        return Ok(());
    }
    if let (Some(NodeEnum::ObjectWithArgs(signature)), Some(proc)) =
        (&object.node, catalog.proc(address.object))
    {
        // A function is called what the statement calls it.
        if !cx.roles.has_privileges_of(cx.user, proc.owner) {
            let noun = if proc.kind == cairn_catalog::ProcKind::Procedure { "procedure" } else { "function" };
            let name = strings(&signature.objname).join(".");
            return Err(err!(INSUFFICIENT_PRIVILEGE, "must be owner of {noun} {name}"));
        }
    }
    cx.require_owner(kind, address.object)
}

/// The object that a DROP names; `None` if it is missing and that is welcome (the notice is out).
fn resolve(
    cx: &mut DdlContext<'_>,
    kind: ObjectType,
    object: &protobuf::Node,
    missing_ok: bool,
) -> Result<Option<Address>> {
    match kind {
        ObjectType::ObjectTable => relation(cx, object, RelationKind::Table, missing_ok),
        ObjectType::ObjectIndex => relation(cx, object, RelationKind::Index, missing_ok),
        ObjectType::ObjectSequence => relation(cx, object, RelationKind::Sequence, missing_ok),
        ObjectType::ObjectView => relation(cx, object, RelationKind::View, missing_ok),
        ObjectType::ObjectMatview => relation(cx, object, RelationKind::MaterializedView, missing_ok),
        ObjectType::ObjectType | ObjectType::ObjectDomain => type_(cx, object, kind, missing_ok),
        ObjectType::ObjectSchema => schema(cx, object, missing_ok),
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            let Some(NodeEnum::ObjectWithArgs(signature)) = &object.node else {
                return Err(Error::internal("a function without a name"));
            };
            let found = function::find(cx, signature, kind, missing_ok)?;
            Ok(found.map(|proc| Address::new(pg_proc::TABLE, proc.oid)))
        }
        ObjectType::ObjectExtension => extension(cx, object, missing_ok),
        other => missing_or_unsupported(cx, object, other, missing_ok),
    }
}

/// Objects that Cairn does not have cannot be there: `if exists` is satisfied, all else is refused.
fn missing_or_unsupported(
    cx: &mut DdlContext<'_>,
    object: &protobuf::Node,
    kind: ObjectType,
    missing_ok: bool,
) -> Result<Option<Address>> {
    let name = match &object.node {
        Some(NodeEnum::List(list)) => strings(&list.items).join("."),
        Some(NodeEnum::String(string)) => string.sval.clone(),
        _ => String::new(),
    };
    let (what, parts): (&str, _) = match kind {
        ObjectType::ObjectTrigger => ("trigger", true),
        ObjectType::ObjectRule => ("rule", true),
        ObjectType::ObjectPolicy => ("policy", true),
        ObjectType::ObjectAggregate => ("aggregate", false),
        ObjectType::ObjectForeignTable => ("foreign table", false),
        ObjectType::ObjectPublication => ("publication", false),
        ObjectType::ObjectStatisticExt => ("statistics object", false),
        ObjectType::ObjectForeignServer => ("server", false),
        ObjectType::ObjectFdw => ("foreign-data wrapper", false),
        ObjectType::ObjectCollation => ("collation", false),
        ObjectType::ObjectEventTrigger => ("event trigger", false),
        ObjectType::ObjectAccessMethod => ("access method", false),
        ObjectType::ObjectLanguage => ("language", false),
        ObjectType::ObjectOperator => ("operator", false),
        ObjectType::ObjectCast => ("cast", false),
        _ => return Err(Error::unsupported("dropping this kind of object is")),
    };
    let message = match (parts, name.rsplit_once('.')) {
        (true, Some((table, name))) => format!("{what} \"{name}\" for relation \"{table}\" does not exist"),
        _ => format!("{what} \"{name}\" does not exist"),
    };
    if missing_ok {
        cx.notice(format!("{message}, skipping"));
        return Ok(None);
    }
    Err(err!(UNDEFINED_OBJECT, "{message}"))
}

fn relation(
    cx: &mut DdlContext<'_>,
    object: &protobuf::Node,
    kind: RelationKind,
    missing_ok: bool,
) -> Result<Option<Address>> {
    let name = range_var(cx, list(object))?;
    let what = kind_name(kind);
    let Some(found) = names::open_optional(cx, &name, TableLockMode::AccessExclusive)? else {
        let missing_schema = !name.schemaname.is_empty()
            && cx.catalog.resolve_namespace(&cx.search_path, &name.schemaname).is_none();
        if missing_ok {
            if missing_schema {
                cx.notice(format!("schema \"{}\" does not exist, skipping", name.schemaname));
            } else {
                cx.notice(format!("{what} \"{}\" does not exist, skipping", name.relname));
            }
            return Ok(None);
        }
        if missing_schema {
            return Err(names::undefined_schema(&name.schemaname));
        }
        return Err(match kind {
            RelationKind::Index => {
                err!(UNDEFINED_OBJECT, "index \"{}\" does not exist", names::display(&name))
            }
            _ => err!(UNDEFINED_TABLE, "{what} \"{}\" does not exist", names::display(&name)),
        });
    };
    if found.kind != kind {
        return Err(wrong_kind(&found.name, kind, found.kind));
    }
    if found.oid < FIRST_USER_OID {
        return Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "permission denied: \"{}\" is a system catalog",
            found.name
        ));
    }
    if kind == RelationKind::Index {
        // Whoever drops an index keeps its table from being written.
        let table = cx.index(found.oid)?.table;
        cx.lock(pg_class::TABLE, table, TableLockMode::AccessExclusive)?;
    }
    Ok(Some(Address::relation(found.oid)))
}

/// 42809 with the statement that would have been right.
fn wrong_kind(name: &str, wanted: RelationKind, found: RelationKind) -> Error {
    let article = |kind: RelationKind| match kind {
        RelationKind::Index => "an index",
        RelationKind::Sequence => "a sequence",
        RelationKind::View => "a view",
        RelationKind::MaterializedView => "a materialized view",
        RelationKind::CompositeType => "a type",
        _ => "a table",
    };
    let error = err!(WRONG_OBJECT_TYPE, "\"{name}\" is not {}", article(wanted));
    let statement = match found {
        RelationKind::Table | RelationKind::PartitionedTable => "DROP TABLE to remove a table",
        RelationKind::Index => "DROP INDEX to remove an index",
        RelationKind::Sequence => "DROP SEQUENCE to remove a sequence",
        RelationKind::View => "DROP VIEW to remove a view",
        RelationKind::MaterializedView => "DROP MATERIALIZED VIEW to remove a materialized view",
        RelationKind::CompositeType => "DROP TYPE to remove a type",
        RelationKind::Toast => return error,
    };
    error.hint(format!("Use {statement}."))
}

fn type_(
    cx: &mut DdlContext<'_>,
    object: &protobuf::Node,
    kind: ObjectType,
    missing_ok: bool,
) -> Result<Option<Address>> {
    let Some(NodeEnum::TypeName(name)) = &object.node else {
        return Err(Error::internal("a type without a name"));
    };
    let (schema, plain) = qualified(cx, &name.names)?;
    let schema_part = (!schema.is_empty()).then_some(&*schema);
    let found = cx.catalog.resolve_type(&cx.search_path, schema_part, &plain).cloned();
    let Some(found) = found else {
        let shown = if schema.is_empty() { plain } else { format!("{schema}.{plain}") };
        if missing_ok {
            cx.notice(format!("type \"{shown}\" does not exist, skipping"));
            return Ok(None);
        }
        return Err(err!(UNDEFINED_OBJECT, "type \"{shown}\" does not exist"));
    };
    if kind == ObjectType::ObjectDomain && found.kind != cairn_catalog::TypeKind::Domain {
        return Err(err!(
            WRONG_OBJECT_TYPE,
            "\"{}\" is not a domain",
            cx.catalog.type_name(found.oid, &cx.search_path)
        ));
    }
    cx.lock(pg_type::TABLE, found.oid, TableLockMode::AccessExclusive)?;
    Ok(Some(Address::new(pg_type::TABLE, found.oid)))
}

fn schema(cx: &mut DdlContext<'_>, object: &protobuf::Node, missing_ok: bool) -> Result<Option<Address>> {
    let name = super::node::string(object).unwrap_or("").to_owned();
    let Some(found) = cx.catalog.namespace_by_name(&name).cloned() else {
        if missing_ok {
            cx.notice(format!("schema \"{name}\" does not exist, skipping"));
            return Ok(None);
        }
        return Err(names::undefined_schema(&name));
    };
    if found.oid < FIRST_USER_OID && found.oid != namespaces::PUBLIC {
        return Err(err!(
            DEPENDENT_OBJECTS_STILL_EXIST,
            "cannot drop schema {name} because it is required by the database system"
        ));
    }
    cx.lock(pg_namespace::TABLE, found.oid, TableLockMode::AccessExclusive)?;
    Ok(Some(Address::new(pg_namespace::TABLE, found.oid)))
}

fn extension(cx: &mut DdlContext<'_>, object: &protobuf::Node, missing_ok: bool) -> Result<Option<Address>> {
    let name = super::node::string(object).unwrap_or("").to_owned();
    match cx.catalog.extension(&name) {
        Some(oid) if oid >= FIRST_USER_OID => Ok(Some(Address::new(pg_extension::TABLE, oid))),
        Some(_) => Err(Error::unsupported(format!("dropping extension \"{name}\" is"))),
        None if missing_ok => {
            cx.notice(format!("extension \"{name}\" does not exist, skipping"));
            Ok(None)
        }
        None => Err(err!(UNDEFINED_OBJECT, "extension \"{name}\" does not exist")),
    }
}

/// How an object was reached.
#[derive(Clone, Copy)]
struct Reached {
    /// Named by the statement.
    named: bool,
    /// By an automatic or internal dependency.
    silent: bool,
    /// What it depends on, for the report.
    on: Address,
}

struct Walk<'c> {
    catalog: &'c cairn_catalog::Catalog,
    reached: HashMap<Address, Reached>,
    /// Dependents before what they depend on.
    order: Vec<Address>,
    stack: Vec<Address>,
}

/// Drops objects. 2BP01 where others depend on them and `cascade` was not said.
pub fn drop_objects(cx: &mut DdlContext<'_>, targets: &[Address], cascade: bool) -> Result<()> {
    drop_with(cx, targets, Some(cascade))
}

/// Drops an object and all that depends on it, without a word.
pub fn drop_silently(cx: &mut DdlContext<'_>, target: Address) -> Result<()> {
    drop_with(cx, &[target], None)
}

/// `cascade`: `None` cascades and says nothing.
fn drop_with(cx: &mut DdlContext<'_>, targets: &[Address], cascade: Option<bool>) -> Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    let catalog = cx.catalog.clone();
    let mut walk = Walk { catalog: &catalog, reached: HashMap::new(), order: Vec::new(), stack: Vec::new() };
    for target in targets {
        walk.reached.insert(*target, Reached { named: true, silent: true, on: *target });
    }
    for target in targets {
        walk.check_whole(cx, *target, targets)?;
        walk.visit(*target)?;
    }
    if let Some(cascade) = cascade {
        report(cx, &walk, targets, cascade)?;
    }
    let order = walk.order;
    lock_all(cx, &order)?;
    let mut changed: Vec<Oid> = order
        .iter()
        .filter(|address| address.class == pg_class::TABLE && address.sub != 0)
        .map(|address| address.object)
        .collect();
    changed.dedup();
    for relation in &changed {
        if let Some(relation) = cx.catalog.relation(*relation).cloned() {
            row_types::lock_users(cx, &relation)?;
        }
    }
    let before = cx.catalog.clone();
    cx.change(|writer| {
        for address in &order {
            remove(writer, &catalog, *address)?;
        }
        Ok(())
    })?;
    for address in order.iter().filter(|address| address.class == pg_class::TABLE && address.sub == 0) {
        cx.store.forget_activity(address.object);
    }
    reorder_tables(cx, &before, &order)?;
    for relation in changed {
        row_types::conform(cx, &before, relation)?;
    }
    Ok(())
}

/// A table that has lost its primary key has its rows under hidden numbers from now on.
fn reorder_tables(
    cx: &mut DdlContext<'_>,
    before: &std::sync::Arc<cairn_catalog::Catalog>,
    dropped: &[Address],
) -> Result<()> {
    for address in dropped.iter().filter(|address| address.class == pg_constraint::TABLE) {
        let Some(constraint) = before.constraint(address.object) else { continue };
        if constraint.kind != cairn_catalog::ConstraintKind::PrimaryKey {
            continue;
        }
        let (Some(old), Some(new)) =
            (before.relation(constraint.table), cx.catalog.relation(constraint.table))
        else {
            continue;
        };
        if old.primary_key.is_none() {
            continue;
        }
        let columns = super::alter_table::same_columns(new);
        let old = old.clone();
        super::data::rewrite(cx, before, &old, columns)?;
    }
    Ok(())
}

fn lock_all(cx: &mut DdlContext<'_>, objects: &[Address]) -> Result<()> {
    for address in objects.iter().filter(|address| address.class == pg_class::TABLE && address.sub == 0) {
        cx.lock(pg_class::TABLE, address.object, TableLockMode::AccessExclusive)?;
        cx.require_index_not_in_use(address.object, "DROP INDEX")?;
        if let Some(relation) = cx.catalog.relation(address.object) {
            cx.require_not_in_use(relation, "DROP TABLE")?;
        }
    }
    Ok(())
}

impl Walk<'_> {
    /// What depends on an object or its parts: dependent, part, and the row's code. The newest first, as PostgreSQL drops them;
    /// the report goes the other way round.
    fn dependents(&self, on: Address) -> Vec<(Address, i32, u8)> {
        use pg_depend as c;
        let key = [(c::REFCLASSID, Datum::Oid(on.class)), (c::REFOBJID, Datum::Oid(on.object))];
        let rows = self.catalog.user_rows_by(c::TABLE, &key);
        let mut dependents: Vec<_> = rows
            .map(|row| {
                let object = Address {
                    class: row.oid(c::CLASSID),
                    object: row.oid(c::OBJID),
                    sub: row.int(c::OBJSUBID) as i32,
                };
                (object, row.int(c::REFOBJSUBID) as i32, row.char(c::DEPTYPE))
            })
            .collect();
        dependents
            .sort_by_key(|(address, ..)| (std::cmp::Reverse(address.object), address.class, address.sub));
        dependents
    }

    /// What an object is a part of.
    fn whole(&self, part: Address) -> Option<Address> {
        use pg_depend as c;
        let key = [
            (c::CLASSID, Datum::Oid(part.class)),
            (c::OBJID, Datum::Oid(part.object)),
            (c::OBJSUBID, Datum::Int4(0)),
        ];
        let internal = self.catalog.user_rows_by(c::TABLE, &key).find(|row| row.char(c::DEPTYPE) == b'i')?;
        Some(Address {
            class: internal.oid(c::REFCLASSID),
            object: internal.oid(c::REFOBJID),
            sub: internal.int(c::REFOBJSUBID) as i32,
        })
    }

    /// 2BP01 for a named object that is part of one that is not dropped.
    fn check_whole(&self, cx: &DdlContext<'_>, target: Address, targets: &[Address]) -> Result<()> {
        if target.sub != 0 {
            return Ok(());
        }
        let Some(whole) = self.whole(target) else { return Ok(()) };
        if targets.contains(&whole) || targets.contains(&Address { sub: 0, ..whole }) {
            return Ok(());
        }
        let describe = |address| describe(&cx.catalog, &cx.search_path, address);
        let whole = describe(whole);
        Err(err!(
            DEPENDENT_OBJECTS_STILL_EXIST,
            "cannot drop {} because {whole} requires it",
            describe(target)
        )
        .hint(format!("You can drop {whole} instead.")))
    }

    fn visit(&mut self, address: Address) -> Result<()> {
        cairn_exec::stack::check()?;
        if self.order.contains(&address) || self.stack.contains(&address) {
            return Ok(());
        }
        self.stack.push(address);
        for (object, sub, code) in self.dependents(address) {
            // Dropping a column concerns what depends on that column.
            if address.sub != 0 && sub != address.sub {
                continue;
            }
            // A column's own table goes as a whole.
            if object.class == address.class && object.object == address.object && address.sub == 0 {
                continue;
            }
            let silent = code != b'n';
            // A part is dropped by dropping the whole, unless the whole is what we come from.
            let mut object = object;
            if let Some(whole) = self.whole(object) {
                let from_whole = whole.class == address.class && whole.object == address.object;
                if code != b'i' && !from_whole && object.sub == 0 {
                    object = whole;
                }
            }
            let entry = self.reached.entry(object).or_insert(Reached { named: false, silent, on: address });
            entry.silent |= silent;
            self.visit(object)?;
        }
        self.stack.pop();
        self.order.push(address);
        Ok(())
    }
}

/// The error without CASCADE, the notice with it.
fn report(cx: &DdlContext<'_>, walk: &Walk<'_>, targets: &[Address], cascade: bool) -> Result<()> {
    let describe = |address| describe(&cx.catalog, &cx.search_path, address);
    let mut lines = Vec::new();
    for &address in walk.order.iter().rev() {
        let Some(reached) = walk.reached.get(&address) else { continue };
        if reached.named || reached.silent {
            continue;
        }
        // A column's whole table is going, or the other way round.
        if address.sub != 0 && walk.reached.contains_key(&Address { sub: 0, ..address }) {
            continue;
        }
        lines.push((address, reached.on));
    }
    if lines.is_empty() {
        return Ok(());
    }
    if cascade {
        let dropped: Vec<String> =
            lines.iter().map(|(address, _)| format!("drop cascades to {}", describe(*address))).collect();
        cx.env.notice(match dropped.as_slice() {
            [only] => Error::notice(only.clone()),
            many => Error::notice(format!("drop cascades to {} other objects", many.len()))
                .detail(many.join("\n")),
        });
        return Ok(());
    }
    let detail: Vec<String> = lines
        .iter()
        .map(|(address, on)| format!("{} depends on {}", describe(*address), describe(*on)))
        .collect();
    let error = match targets {
        [only] => err!(
            DEPENDENT_OBJECTS_STILL_EXIST,
            "cannot drop {} because other objects depend on it",
            describe(*only)
        ),
        _ => err!(
            DEPENDENT_OBJECTS_STILL_EXIST,
            "cannot drop desired object(s) because other objects depend on them"
        ),
    };
    Err(error.detail(detail.join("\n")).hint("Use DROP ... CASCADE to drop the dependent objects too."))
}

/// Removes one object's rows. What depends on it is gone already.
fn remove(writer: &mut CatalogWriter<'_>, catalog: &cairn_catalog::Catalog, address: Address) -> Result<()> {
    let oid = address.object;
    match address.class {
        pg_class::TABLE if address.sub != 0 => remove_column(writer, catalog, oid, address.sub as i16)?,
        pg_class::TABLE => remove_relation(writer, oid)?,
        pg_type::TABLE => {
            delete_by_oid(writer, pg_enum::TABLE, pg_enum::ENUMTYPID, oid)?;
            delete_by_oid(writer, pg_type::TABLE, pg_type::OID, oid)?;
        }
        pg_proc::TABLE => delete_by_oid(writer, pg_proc::TABLE, pg_proc::OID, oid)?,
        pg_constraint::TABLE => remove_constraint(writer, oid)?,
        pg_attrdef::TABLE => remove_default(writer, oid)?,
        pg_rewrite::TABLE => delete_by_oid(writer, pg_rewrite::TABLE, pg_rewrite::OID, oid)?,
        pg_extension::TABLE => delete_by_oid(writer, pg_extension::TABLE, pg_extension::OID, oid)?,
        pg_namespace::TABLE => {
            delete_by_oid(writer, pg_namespace::TABLE, pg_namespace::OID, oid)?;
            super::default_privileges::forget_schema(writer, oid)?;
            if oid < FIRST_USER_OID {
                // A built-in row is hidden by one without a name.
                let mut row = cairn_catalog::system_table::blank_row(pg_namespace::TABLE);
                row[pg_namespace::OID] = Datum::Oid(oid);
                super::rows::put(writer, pg_namespace::TABLE, row)?;
            }
        }
        other => return Err(Error::internal(format!("cannot drop objects of class {other}"))),
    }
    forget(writer, address)
}

/// Dependencies and comments of an object that is gone.
fn forget(writer: &mut CatalogWriter<'_>, address: Address) -> Result<()> {
    use pg_depend as d;
    use pg_description as c;
    let (class, object) = (Datum::Oid(address.class), Datum::Oid(address.object));
    for (catalog, key, sub) in [
        (d::TABLE, [(d::CLASSID, &class), (d::OBJID, &object)], d::OBJSUBID),
        (d::TABLE, [(d::REFCLASSID, &class), (d::REFOBJID, &object)], d::REFOBJSUBID),
        (c::TABLE, [(c::OBJOID, &object), (c::CLASSOID, &class)], c::OBJSUBID),
    ] {
        for row in writer.rows_by(catalog, &key.map(|(column, value)| (column, value.clone()))) {
            if address.sub == 0 || row.int(sub) == i64::from(address.sub) {
                writer.delete(catalog, &row).sql()?;
            }
        }
    }
    Ok(())
}

/// The column is the first of an index of the catalog.
fn delete_by_oid(writer: &mut CatalogWriter<'_>, catalog: Oid, column: usize, oid: Oid) -> Result<()> {
    writer.delete_by(catalog, &[(column, Datum::Oid(oid))]).sql()
}

fn remove_relation(writer: &mut CatalogWriter<'_>, oid: Oid) -> Result<()> {
    let rows = writer.rows_by(pg_class::TABLE, &[(pg_class::OID, Datum::Oid(oid))]);
    for row in &rows {
        let storage = row.oid(pg_class::RELFILENODE);
        if storage != 0 {
            writer.transaction().drop_storage(storage).sql()?;
        }
        writer.delete(pg_class::TABLE, row).sql()?;
    }
    crate::statistics::forget(writer, oid, 0)?;
    delete_by_oid(writer, pg_attribute::TABLE, pg_attribute::ATTRELID, oid)?;
    delete_by_oid(writer, pg_attrdef::TABLE, pg_attrdef::ADRELID, oid)?;
    delete_by_oid(writer, pg_index::TABLE, pg_index::INDEXRELID, oid)?;
    delete_by_oid(writer, pg_sequence::TABLE, pg_sequence::SEQRELID, oid)?;
    delete_by_oid(writer, pg_rewrite::TABLE, pg_rewrite::EV_CLASS, oid)
}

fn remove_constraint(writer: &mut CatalogWriter<'_>, oid: Oid) -> Result<()> {
    let rows = writer.rows_by(pg_constraint::TABLE, &[(pg_constraint::OID, Datum::Oid(oid))]);
    for row in &rows {
        let table = row.oid(pg_constraint::CONRELID);
        let check = row.char(pg_constraint::CONTYPE) == b'c' && table != 0;
        writer.delete(pg_constraint::TABLE, row).sql()?;
        if check {
            index::update_class(writer, table, |row| {
                row[pg_class::RELCHECKS] = Datum::Int2((row.int(pg_class::RELCHECKS) - 1).max(0) as i16);
            })?;
        }
    }
    Ok(())
}

fn remove_default(writer: &mut CatalogWriter<'_>, oid: Oid) -> Result<()> {
    let rows = writer.rows_by(pg_attrdef::TABLE, &[(pg_attrdef::OID, Datum::Oid(oid))]);
    for row in &rows {
        let (table, number) = (row.oid(pg_attrdef::ADRELID), row.int(pg_attrdef::ADNUM) as i16);
        writer.delete(pg_attrdef::TABLE, row).sql()?;
        super::alter_table::update_attribute(writer, table, number, |row| {
            row[pg_attribute::ATTHASDEF] = Datum::Bool(false);
        })?;
    }
    Ok(())
}

/// The column keeps its place, under a name that nobody can say, and a built-in type of the same stored form.
fn remove_column(
    writer: &mut CatalogWriter<'_>,
    catalog: &cairn_catalog::Catalog,
    table: Oid,
    number: i16,
) -> Result<()> {
    crate::statistics::forget(writer, table, number)?;
    super::alter_table::update_attribute(writer, table, number, |row| {
        use pg_attribute as c;
        row[c::ATTNAME] = Datum::text(format!("........pg.dropped.{number}........"));
        row[c::ATTTYPID] = Datum::Oid(depend::stored_form(catalog, row.oid(c::ATTTYPID)));
        row[c::ATTISDROPPED] = Datum::Bool(true);
        row[c::ATTNOTNULL] = Datum::Bool(false);
        row[c::ATTHASDEF] = Datum::Bool(false);
        row[c::ATTHASMISSING] = Datum::Bool(false);
        row[c::ATTMISSINGVAL] = Datum::Null;
        row[c::ATTIDENTITY] = Datum::Char(0);
        row[c::ATTGENERATED] = Datum::Char(0);
    })
}
