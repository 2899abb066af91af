//! CHECK and FOREIGN KEY constraints; key constraints are made with their index ([`super::index`]).

use std::sync::Arc;

use cairn_analyze::ExprKind;
use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{
    BtreeStrategy, CastContext, ConstraintKind, IndexKeyColumn, Relation, RelationKind, TypeKind,
};
use cairn_txn::TableLockMode;
use cairn_types::quote::{quote_identifier, quote_qualified};
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, Node};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::node::strings;
use super::{names, rows, text};

/// What a pg_constraint row says.
#[derive(Clone, Default)]
pub struct Row<'a> {
    pub oid: Oid,
    pub name: &'a str,
    pub namespace: Oid,
    pub kind: u8,
    pub table: Oid,
    pub domain: Oid,
    pub index: Oid,
    pub columns: Vec<i16>,
    pub expression: Option<&'a str>,
    pub deferrable: bool,
    pub deferred: bool,
    pub not_validated: bool,
    pub no_inherit: bool,
    pub foreign: Option<Foreign>,
}

#[derive(Clone, Default)]
pub struct Foreign {
    pub table: Oid,
    pub columns: Vec<i16>,
    pub on_update: u8,
    pub on_delete: u8,
    pub match_type: u8,
    pub on_delete_columns: Vec<i16>,
    /// `=` between key and reference, among keys, among references.
    pub operators: Vec<[Oid; 3]>,
}

pub fn row(constraint: &Row<'_>) -> Vec<Datum> {
    use pg_constraint as c;
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(constraint.oid);
    row[c::CONNAME] = Datum::text(constraint.name);
    row[c::CONNAMESPACE] = Datum::Oid(constraint.namespace);
    row[c::CONTYPE] = Datum::Char(constraint.kind);
    row[c::CONDEFERRABLE] = Datum::Bool(constraint.deferrable);
    row[c::CONDEFERRED] = Datum::Bool(constraint.deferred);
    row[c::CONVALIDATED] = Datum::Bool(!constraint.not_validated);
    row[c::CONRELID] = Datum::Oid(constraint.table);
    row[c::CONTYPID] = Datum::Oid(constraint.domain);
    row[c::CONINDID] = Datum::Oid(constraint.index);
    row[c::CONISLOCAL] = Datum::Bool(true);
    row[c::CONNOINHERIT] = Datum::Bool(constraint.no_inherit || constraint.kind != b'c');
    for column in [c::CONFUPDTYPE, c::CONFDELTYPE, c::CONFMATCHTYPE] {
        row[column] = Datum::Char(b' ');
    }
    if !constraint.columns.is_empty() {
        row[c::CONKEY] = rows::int2_array(constraint.columns.iter().copied());
    }
    row[c::CONBIN] = constraint.expression.map_or(Datum::Null, Datum::text);
    if let Some(foreign) = &constraint.foreign {
        row[c::CONFRELID] = Datum::Oid(foreign.table);
        row[c::CONFUPDTYPE] = Datum::Char(foreign.on_update);
        row[c::CONFDELTYPE] = Datum::Char(foreign.on_delete);
        row[c::CONFMATCHTYPE] = Datum::Char(foreign.match_type);
        row[c::CONFKEY] = rows::int2_array(foreign.columns.iter().copied());
        let operators = |which: usize| rows::oid_array(foreign.operators.iter().map(|all| all[which]));
        row[c::CONPFEQOP] = operators(0);
        row[c::CONPPEQOP] = operators(1);
        row[c::CONFFEQOP] = operators(2);
        if !foreign.on_delete_columns.is_empty() {
            row[c::CONFDELSETCOLS] = rows::int2_array(foreign.on_delete_columns.iter().copied());
        }
    }
    row
}

/// 42710 where the table has a constraint of this name.
pub fn check_name(table: &Relation, name: &str) -> Result<()> {
    if table.constraints.iter().any(|constraint| &*constraint.name == name) {
        return Err(err!(
            DUPLICATE_OBJECT,
            "constraint \"{name}\" for relation \"{}\" already exists",
            table.name
        ));
    }
    Ok(())
}

/// Adds a CHECK to a table. `taken`: names already promised in this statement. Returns the constraint's oid; rows that
/// are there are checked by [`super::data`].
pub fn add_check(
    cx: &mut DdlContext<'_>,
    table: &Arc<Relation>,
    constraint: &protobuf::Constraint,
    not_validated: bool,
) -> Result<Oid> {
    let node = constraint.raw_expr.as_deref().ok_or_else(|| Error::internal("a check without expression"))?;
    let expr = text::condition(cx, node, table, ExprKind::CheckConstraint, "CHECK")?;
    let used = text::columns_used(&expr);
    let stored = text::stored_expression(&expr, Some(table), &cx.catalog, cx.env)?;
    let name = if constraint.conname.is_empty() {
        let column = match used.as_slice() {
            [number] if *number > 0 => Some(table.columns[*number as usize - 1].name.clone()),
            _ => None,
        };
        names::free_constraint_name(
            &cx.catalog,
            table.namespace,
            &table.name,
            column.as_deref(),
            "check",
            &[],
        )
    } else {
        check_name(table, &constraint.conname)?;
        constraint.conname.clone()
    };
    let oid = cx.new_oid()?;
    let on = depend::of_expression(&expr, table.oid, &cx.catalog);
    let checks = 1 + table.constraints.iter().filter(|other| other.kind == ConstraintKind::Check).count();
    cx.change(|writer| {
        let row = Row {
            oid,
            name: &name,
            namespace: table.namespace,
            kind: b'c',
            table: table.oid,
            columns: used.iter().copied().filter(|number| *number > 0).collect(),
            expression: Some(&stored),
            not_validated,
            no_inherit: constraint.is_no_inherit,
            ..Row::default()
        };
        rows::put(writer, pg_constraint::TABLE, self::row(&row))?;
        let address = Address::new(pg_constraint::TABLE, oid);
        let mut own = false;
        for on in on {
            let is_own = on.class == pg_class::TABLE && on.object == table.oid;
            own |= is_own;
            depend::record(writer, address, on, if is_own { Dependency::Auto } else { Dependency::Normal })?;
        }
        if !own {
            depend::record(writer, address, Address::relation(table.oid), Dependency::Auto)?;
        }
        super::index::update_class(writer, table.oid, |row| {
            row[pg_class::RELCHECKS] = Datum::Int2(checks as i16);
        })
    })?;
    Ok(oid)
}

fn numbers(table: &Relation, names: &[cairn_types::Text]) -> Result<Vec<i16>> {
    names
        .iter()
        .map(|name| {
            super::alter_table::column_number_or(&table.columns, name, || {
                err!(
                    UNDEFINED_COLUMN,
                    "column \"{name}\" referenced in foreign key constraint does not exist"
                )
            })
        })
        .collect()
}

fn action_code(action: &str) -> u8 {
    action.bytes().next().unwrap_or(b'a')
}

/// 42501 unless the role may refer to these columns.
fn require_references(cx: &DdlContext<'_>, table: &Relation, columns: &[i16]) -> Result<()> {
    if cx.roles.is_superuser(cx.user) {
        return Ok(());
    }
    let rights = cx.rights();
    let by_column =
        |column: &i16| rights.column_privileges(cx.user, table.oid, *column).0 & acl::REFERENCES != 0;
    if !columns.is_empty() && columns.iter().all(by_column) {
        return Ok(());
    }
    rights.require(cx.user, ObjectKind::Table, table.oid, acl::REFERENCES)
}

/// Adds a FOREIGN KEY to a table. Returns its oid; rows that are there are checked by [`super::data`].
pub fn add_foreign_key(
    cx: &mut DdlContext<'_>,
    table: &Arc<Relation>,
    constraint: &protobuf::Constraint,
    columns: &[Node],
    not_validated: bool,
) -> Result<Oid> {
    let target = super::node::required(&constraint.pktable)?;
    let referenced = names::open(cx, target, TableLockMode::ShareRowExclusive)?;
    // Its own definition may have been refreshed by the lock.
    let table = cx.relation(table.oid)?;
    if !matches!(referenced.kind, RelationKind::Table) {
        return Err(err!(WRONG_OBJECT_TYPE, "referenced relation \"{}\" is not a table", referenced.name));
    }
    names::check_not_system(&referenced)?;
    check_persistence(&table, &referenced)?;
    let keys = numbers(&table, &strings(columns))?;
    let (index, foreign_columns) = referenced_key(&referenced, constraint)?;
    require_references(cx, &referenced, &foreign_columns)?;
    if keys.len() != foreign_columns.len() {
        return Err(err!(
            INVALID_FOREIGN_KEY,
            "number of referencing and referenced columns for foreign key disagree"
        ));
    }
    let name = if constraint.conname.is_empty() {
        let joined: Vec<String> = strings(columns).iter().map(|name| name.to_string()).collect();
        let joined = super::index::joined_names(&joined);
        names::free_constraint_name(&cx.catalog, table.namespace, &table.name, Some(&joined), "fkey", &[])
    } else {
        check_name(&table, &constraint.conname)?;
        constraint.conname.clone()
    };
    let mut operators = Vec::new();
    for (key, foreign) in keys.iter().zip(&foreign_columns) {
        operators.push(equality(cx, &name, &table, *key, &referenced, *foreign)?);
    }
    check_actions(&table, constraint, &keys)?;
    let match_type = match &*constraint.fk_matchtype {
        "f" => b'f',
        "p" => return Err(err!(FEATURE_NOT_SUPPORTED, "MATCH PARTIAL not yet implemented")),
        _ => b's',
    };
    let on_delete_columns = numbers(&table, &strings(&constraint.fk_del_set_cols))?;
    if let Some(outside) = on_delete_columns.iter().find(|column| !keys.contains(column)) {
        return Err(err!(
            INVALID_COLUMN_REFERENCE,
            "column \"{}\" referenced in ON DELETE SET action must be part of foreign key",
            table.columns[*outside as usize - 1].name
        ));
    }
    let oid = cx.new_oid()?;
    cx.change(|writer| {
        let row = Row {
            oid,
            name: &name,
            namespace: table.namespace,
            kind: b'f',
            table: table.oid,
            index,
            columns: keys.clone(),
            deferrable: constraint.deferrable,
            deferred: constraint.initdeferred,
            not_validated,
            foreign: Some(Foreign {
                table: referenced.oid,
                columns: foreign_columns.clone(),
                on_update: action_code(&constraint.fk_upd_action),
                on_delete: action_code(&constraint.fk_del_action),
                match_type,
                on_delete_columns: on_delete_columns.clone(),
                operators: operators.clone(),
            }),
            ..Row::default()
        };
        rows::put(writer, pg_constraint::TABLE, self::row(&row))?;
        let address = Address::new(pg_constraint::TABLE, oid);
        for key in &keys {
            depend::record(writer, address, Address::column(table.oid, *key), Dependency::Auto)?;
        }
        for column in &foreign_columns {
            depend::record(writer, address, Address::column(referenced.oid, *column), Dependency::Normal)?;
        }
        depend::record(writer, address, Address::relation(index), Dependency::Normal)?;
        for relation in [table.oid, referenced.oid] {
            super::index::update_class(writer, relation, |row| {
                row[pg_class::RELHASTRIGGERS] = Datum::Bool(true)
            })?;
        }
        Ok(())
    })?;
    Ok(oid)
}

fn check_persistence(table: &Relation, referenced: &Relation) -> Result<()> {
    use cairn_catalog::Persistence::*;
    let message = match (table.persistence, referenced.persistence) {
        (Permanent, Unlogged | Temporary) => {
            "constraints on permanent tables may reference only permanent tables"
        }
        (Unlogged, Temporary) => {
            "constraints on unlogged tables may reference only permanent or unlogged tables"
        }
        (Temporary, Permanent | Unlogged) => {
            "constraints on temporary tables may reference only temporary tables"
        }
        _ => return Ok(()),
    };
    Err(err!(INVALID_TABLE_DEFINITION, "{message}"))
}

/// SET NULL and SET DEFAULT make no sense on generated columns.
fn check_actions(table: &Relation, constraint: &protobuf::Constraint, keys: &[i16]) -> Result<()> {
    let generated = keys.iter().any(|key| table.columns[*key as usize - 1].generated);
    if !generated {
        return Ok(());
    }
    let invalid = |clause: &str, action: &str| {
        err!(
            SYNTAX_ERROR,
            "invalid {clause} action for foreign key constraint containing generated column{}",
            action
        )
    };
    if matches!(&*constraint.fk_upd_action, "n" | "d" | "c") {
        return Err(invalid("ON UPDATE", ""));
    }
    if matches!(&*constraint.fk_del_action, "n" | "d") {
        return Err(invalid("ON DELETE", ""));
    }
    Ok(())
}

/// The unique index that the reference is to, and its columns in the order in which they were named.
fn referenced_key(referenced: &Arc<Relation>, constraint: &protobuf::Constraint) -> Result<(Oid, Vec<i16>)> {
    let key_columns = |index: &cairn_catalog::Index| -> Option<Vec<i16>> {
        index
            .keys
            .iter()
            .map(|key| match key.key {
                IndexKeyColumn::Attribute(number) => Some(number),
                IndexKeyColumn::Expression(_) => None,
            })
            .collect()
    };
    if constraint.pk_attrs.is_empty() {
        let primary = referenced.indexes.iter().find(|index| index.primary).ok_or_else(|| {
            err!(UNDEFINED_OBJECT, "there is no primary key for referenced table \"{}\"", referenced.name)
        })?;
        if primary.deferrable {
            return Err(deferrable(referenced, "primary key"));
        }
        return Ok((primary.oid, key_columns(primary).unwrap_or_default()));
    }
    let columns = numbers(referenced, &strings(&constraint.pk_attrs))?;
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].contains(column) {
            return Err(err!(
                INVALID_FOREIGN_KEY,
                "foreign key referenced-columns list must not contain duplicates"
            ));
        }
    }
    let mut found_deferrable = false;
    for index in &referenced.indexes {
        if !index.unique || !index.valid || index.predicate.is_some() {
            continue;
        }
        let Some(mut key) = key_columns(index) else { continue };
        let mut wanted = columns.clone();
        key.sort_unstable();
        wanted.sort_unstable();
        if key == wanted {
            if index.deferrable {
                found_deferrable = true;
                continue;
            }
            return Ok((index.oid, columns));
        }
    }
    if found_deferrable {
        return Err(deferrable(referenced, "unique constraint"));
    }
    Err(err!(
        INVALID_FOREIGN_KEY,
        "there is no unique constraint matching given keys for referenced table \"{}\"",
        referenced.name
    ))
}

fn deferrable(referenced: &Relation, what: &str) -> Error {
    err!(
        OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot use a deferrable {what} for referenced table \"{}\"",
        referenced.name
    )
}

/// The `=` operators of one pair of columns: key with reference, references among themselves, keys among themselves. 42804.
fn equality(
    cx: &DdlContext<'_>,
    name: &str,
    table: &Relation,
    key: i16,
    referenced: &Relation,
    foreign: i16,
) -> Result<[Oid; 3]> {
    let key_column = &table.columns[key as usize - 1];
    let foreign_column = &referenced.columns[foreign as usize - 1];
    let catalog = &cx.catalog;
    let (key_type, foreign_type) =
        (catalog.base_type(key_column.ty.oid), catalog.base_type(foreign_column.ty.oid));
    let incompatible = || {
        err!(DATATYPE_MISMATCH, "foreign key constraint \"{name}\" cannot be implemented").detail(format!(
            "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
            key_column.name,
            foreign_column.name,
            catalog.type_name(key_column.ty.oid, &cx.search_path),
            catalog.type_name(foreign_column.ty.oid, &cx.search_path),
        ))
    };
    let operators = catalog.sort_operators(foreign_type).ok_or_else(incompatible)?;
    let direct = |left: Oid, right: Oid| {
        catalog.opfamily_operator(operators.opfamily, left, right, BtreeStrategy::Equal)
    };
    if let Some(found) = direct(foreign_type, key_type) {
        let own = direct(key_type, key_type).unwrap_or(operators.equal);
        return Ok([found, operators.equal, own]);
    }
    // One that the key's type coerces to without being asked.
    let polymorphic =
        catalog.type_by_oid(operators.input_type).is_some_and(|object| object.kind == TypeKind::Pseudo);
    let coercible = if polymorphic {
        key_type == foreign_type
    } else {
        catalog.is_binary_coercible(key_type, operators.input_type)
            || catalog
                .cast(key_type, operators.input_type)
                .is_some_and(|cast| cast.context == CastContext::Implicit)
    };
    if !coercible {
        return Err(incompatible());
    }
    Ok([operators.equal; 3])
}

/// A query that finds a row of `table` which violates the foreign key.
pub fn violation_query(
    table: &Relation,
    referenced: &Relation,
    columns: &[i16],
    foreign_columns: &[i16],
    match_full: bool,
    name_of: &dyn Fn(Oid) -> cairn_types::Text,
) -> String {
    let column =
        |relation: &Relation, number: i16| quote_identifier(&relation.columns[number as usize - 1].name);
    let keys: Vec<String> = columns.iter().map(|number| format!("fk.{}", column(table, *number))).collect();
    let matches: Vec<String> = keys
        .iter()
        .zip(foreign_columns)
        .map(|(key, number)| format!("pk.{} = {key}", column(referenced, *number)))
        .collect();
    let not_null = keys.iter().map(|key| format!("{key} is not null")).collect::<Vec<_>>();
    let checked = not_null.join(if match_full { " or " } else { " and " });
    format!(
        "select {} from only {} fk where ({checked}) and not exists (select 1 from only {} pk where {})",
        keys.join(", "),
        quote_qualified(&name_of(table.namespace), &table.name),
        quote_qualified(&name_of(referenced.namespace), &referenced.name),
        matches.join(" and "),
    )
}
