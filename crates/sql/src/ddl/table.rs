//! CREATE TABLE.
//!
//! In PostgreSQL's order: sequences of serial and identity columns, the table, defaults and generation expressions,
//! CHECKs, indexes of keys, comments and indexes of LIKE, foreign keys. Each step is a change of its own that the next
//! one sees.

use std::sync::Arc;

use cairn_analyze::parse::KeyOrder;
use cairn_catalog::columns::*;
use cairn_catalog::{ConstraintKind, Identity, IndexKeyColumn, Relation, RelationKind, TypeRef};
use cairn_types::{Datum, Error, Oid, Result, Text, err, types};
use pg_query::protobuf::{self, ConstrType, Node, OnCommitAction, node::Node as NodeEnum};

use super::context::{DdlContext, OnCommit};
use super::depend::{self, Address, Dependency};
use super::index::{IndexSpec, KeySpec};
use super::node::{inner, required, strings};
use super::relation::{self, ColumnSpec, RelationSpec};
use super::{constraint, index, names, reloptions, rows, sequence, text};

/// What a column's default is made of.
#[derive(Clone)]
pub enum Default {
    Expression(Box<Node>),
    /// Canonical text (LIKE ... INCLUDING DEFAULTS).
    Stored(Text),
    /// `nextval` of a sequence that was made for a serial column.
    Serial {
        sequence: Oid,
    },
    /// `generated always as (...) stored`.
    Generated(Box<Node>),
    StoredGenerated(Text),
}

/// One column of a definition.
#[derive(Clone)]
pub struct Column {
    pub spec: ColumnSpec,
    pub default: Option<Default>,
    /// Options of `generated ... as identity (...)`.
    pub identity_options: Vec<Node>,
}

/// A table definition, read but not yet made.
#[derive(Default)]
pub struct Definition {
    pub columns: Vec<Column>,
    pub checks: Vec<protobuf::Constraint>,
    /// CHECKs of LIKE: name and canonical text.
    pub stored_checks: Vec<(String, Text)>,
    pub indexes: Vec<IndexSpec>,
    pub foreign_keys: Vec<(protobuf::Constraint, Vec<Node>)>,
    pub likes: Vec<(Arc<Relation>, u32)>,
}

/// CREATE_TABLE_LIKE_* bits.
const LIKE_COMMENTS: u32 = 1;
const LIKE_CONSTRAINTS: u32 = 4;
const LIKE_DEFAULTS: u32 = 8;
const LIKE_GENERATED: u32 = 16;
const LIKE_IDENTITY: u32 = 32;
const LIKE_INDEXES: u32 = 64;

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::CreateStmt, orders: &[KeyOrder]) -> Result<()> {
    let name = required(&statement.relation)?;
    refuse_unsupported(statement)?;
    reloptions::check_tablespace(&statement.tablespacename)?;
    if !statement.access_method.is_empty() && statement.access_method != "heap" {
        return Err(err!(UNDEFINED_OBJECT, "access method \"{}\" does not exist", statement.access_method));
    }
    let options = reloptions::table_options(&statement.options)?;
    let on_commit = on_commit(statement.oncommit(), name)?;
    let namespace = names::creation_namespace(cx, name).map_err(|error| error.at(name.location))?;
    let relname = names::truncate_name(&name.relname, names::NAME_MAX).to_owned();
    if !relation::check_name_is_free(cx, namespace, &relname, statement.if_not_exists)? {
        return Ok(());
    }
    relation::check_type_is_free(cx, namespace, &relname)?;
    let persistence = sequence::persistence(name);
    let mut definition = Definition::default();
    read_elements(cx, &statement.table_elts, &relname, &mut definition)?;
    for node in &statement.constraints {
        read_table_constraint(node, &mut definition)?;
    }
    apply_key_orders(&mut definition, orders);
    let oid = make(cx, namespace, &relname, persistence, options, definition)?;
    if let Some(action) = on_commit {
        cx.host.on_commit(oid, action);
    }
    Ok(())
}

fn refuse_unsupported(statement: &protobuf::CreateStmt) -> Result<()> {
    if !statement.inh_relations.is_empty() && statement.partbound.is_none() {
        return Err(Error::unsupported("table inheritance is"));
    }
    if statement.partspec.is_some() || statement.partbound.is_some() {
        return Err(Error::unsupported("table partitioning is"));
    }
    if statement.of_typename.is_some() {
        return Err(Error::unsupported("typed tables are"));
    }
    Ok(())
}

fn on_commit(action: OnCommitAction, name: &protobuf::RangeVar) -> Result<Option<OnCommit>> {
    let action = match action {
        OnCommitAction::OncommitDeleteRows => Some(OnCommit::DeleteRows),
        OnCommitAction::OncommitDrop => Some(OnCommit::Drop),
        OnCommitAction::OncommitPreserveRows => None,
        _ => return Ok(None),
    };
    if sequence::persistence(name) != b't' {
        return Err(err!(INVALID_TABLE_DEFINITION, "ON COMMIT can only be used on temporary tables"));
    }
    Ok(action)
}

/// Makes everything that a definition asks for. Returns the table's oid.
pub fn make(
    cx: &mut DdlContext<'_>,
    namespace: Oid,
    name: &str,
    persistence: u8,
    options: Vec<Text>,
    mut definition: Definition,
) -> Result<Oid> {
    mark_key_columns(&mut definition, name)?;
    let specs: Vec<ColumnSpec> = definition.columns.iter().map(|column| column.spec.clone()).collect();
    relation::check_columns(cx, RelationKind::Table, &specs)?;
    let sequences = make_sequences(cx, namespace, name, persistence, &mut definition)?;
    let spec =
        RelationSpec { name, namespace, kind: RelationKind::Table, persistence, columns: &specs, options };
    let oid = relation::create(cx, &spec)?;
    own_sequences(cx, oid, &sequences)?;
    make_defaults(cx, oid, &definition.columns, 1)?;
    let checks = std::mem::take(&mut definition.checks);
    for check in &checks {
        let table = cx.relation(oid)?;
        constraint::add_check(cx, &table, check, false)?;
    }
    add_stored_checks(cx, oid, &definition.stored_checks)?;
    let indexes = merge_keys(std::mem::take(&mut definition.indexes));
    for spec in &indexes {
        let table = cx.relation(oid)?;
        index::define(cx, &table, spec)?;
    }
    copy_comments(cx, oid, &definition.likes)?;
    for (foreign, columns) in &definition.foreign_keys {
        let table = cx.relation(oid)?;
        constraint::add_foreign_key(cx, &table, foreign, columns, false)?;
    }
    Ok(oid)
}

fn read_elements(
    cx: &mut DdlContext<'_>,
    elements: &[Node],
    table: &str,
    definition: &mut Definition,
) -> Result<()> {
    for element in elements {
        match inner(element)? {
            NodeEnum::ColumnDef(column) => {
                let column = read_column(cx, column, table, definition)?;
                definition.columns.push(column);
            }
            NodeEnum::TableLikeClause(like) => read_like(cx, like, definition)?,
            NodeEnum::Constraint(_) => {}
            _ => return Err(Error::unsupported("this table element is")),
        }
    }
    for element in elements {
        if let NodeEnum::Constraint(_) = inner(element)? {
            read_table_constraint(element, definition)?;
        }
    }
    Ok(())
}

/// The integer type of a serial pseudo-type.
fn serial_type(name: &protobuf::TypeName) -> Option<Oid> {
    let [only] = name.names.as_slice() else { return None };
    if name.pct_type || !name.array_bounds.is_empty() {
        return None;
    }
    match super::node::string(only)? {
        "smallserial" | "serial2" => Some(types::INT2),
        "serial" | "serial4" => Some(types::INT4),
        "bigserial" | "serial8" => Some(types::INT8),
        _ => None,
    }
}

/// Resolves a column's type and collation.
pub fn column_type(cx: &DdlContext<'_>, column: &protobuf::ColumnDef) -> Result<TypeRef> {
    let name = required(&column.type_name)?;
    if name.setof {
        return Err(err!(INVALID_TABLE_DEFINITION, "column \"{}\" cannot be declared SETOF", column.colname));
    }
    let (oid, typmod) = cairn_analyze::resolve_type_name(name, &cx.analyze_context())?;
    let mut ty = text::type_ref(&cx.catalog, oid, typmod);
    if let Some(clause) = &column.coll_clause {
        ty.collation = collation(cx, clause, ty)?;
    }
    Ok(ty)
}

/// The collation that COLLATE names, for a type that has one. 42704, 42804.
pub fn collation(
    cx: &DdlContext<'_>,
    clause: &protobuf::CollateClause,
    ty: TypeRef,
) -> Result<cairn_types::Oid> {
    let (_, name) = super::node::qualified(cx, &clause.collname)?;
    let found = cx.catalog.collation_by_name(&name).ok_or_else(|| {
        err!(UNDEFINED_OBJECT, "collation \"{name}\" for encoding \"UTF8\" does not exist")
            .at(clause.location)
    })?;
    if ty.collation == 0 {
        return Err(err!(
            DATATYPE_MISMATCH,
            "collations are not supported by type {}",
            cx.catalog.type_name(ty.oid, &cx.search_path)
        )
        .at(clause.location));
    }
    Ok(found.oid)
}

/// Reads a column with its constraints; those of the table's kind (checks, keys) go into the definition.
pub fn read_column(
    cx: &mut DdlContext<'_>,
    column: &protobuf::ColumnDef,
    table: &str,
    definition: &mut Definition,
) -> Result<Column> {
    let name = names::truncate_name(&column.colname, names::NAME_MAX).to_owned();
    let type_name = required(&column.type_name)?;
    let serial = serial_type(type_name);
    let ty = match serial {
        Some(oid) => TypeRef { oid, typmod: -1, collation: 0 },
        None => column_type(cx, column)?,
    };
    let mut spec = ColumnSpec::new(name.clone(), ty);
    spec.dimensions = type_name.array_bounds.len() as i32;
    let mut result = Column { spec, default: None, identity_options: Vec::new() };
    if serial.is_some() {
        result.spec.not_null = true;
        // The sequence's oid is filled in when it is made.
        result.default = Some(Default::Serial { sequence: 0 });
    }
    let conflict = |what: String, location: i32| Err(err!(SYNTAX_ERROR, "{what}").at(location));
    let (mut saw_null, mut saw_not_null, mut saw_default) = (false, serial.is_some(), serial.is_some());
    let place = format!("column \"{name}\" of table \"{table}\"");
    let mut last: Option<LastKey> = None;
    for node in &column.constraints {
        let NodeEnum::Constraint(constraint) = inner(node)? else { continue };
        let at = constraint.location;
        let mut clause = (**constraint).clone();
        match constraint.contype() {
            ConstrType::ConstrNull => {
                if saw_not_null && serial.is_none() || result.spec.not_null {
                    return conflict(format!("conflicting NULL/NOT NULL declarations for {place}"), at);
                }
                saw_null = true;
            }
            ConstrType::ConstrNotnull => {
                if saw_null {
                    return conflict(format!("conflicting NULL/NOT NULL declarations for {place}"), at);
                }
                saw_not_null = true;
                result.spec.not_null = true;
            }
            ConstrType::ConstrDefault => {
                if saw_default {
                    return conflict(format!("multiple default values specified for {place}"), at);
                }
                saw_default = true;
                result.default = constraint.raw_expr.clone().map(Default::Expression);
            }
            ConstrType::ConstrIdentity => {
                if result.spec.identity != 0 {
                    return conflict(format!("multiple identity specifications for {place}"), at);
                }
                if !matches!(ty.oid, types::INT2 | types::INT4 | types::INT8) {
                    return Err(err!(
                        INVALID_PARAMETER_VALUE,
                        "identity column type must be smallint, integer, or bigint"
                    ));
                }
                result.spec.identity = if constraint.generated_when == "a" { b'a' } else { b'd' };
                result.identity_options = constraint.options.clone();
                result.spec.not_null = true;
            }
            ConstrType::ConstrGenerated => {
                if result.spec.generated != 0 {
                    return conflict(format!("multiple generation clauses specified for {place}"), at);
                }
                if constraint.generated_kind == "v" {
                    return Err(err!(SYNTAX_ERROR, "syntax error at or near \"VIRTUAL\"").at(at));
                }
                result.spec.generated = b's';
                if result.default.is_some() {
                    return conflict(
                        format!("both default and generation expression specified for {place}"),
                        at,
                    );
                }
                result.default = constraint.raw_expr.clone().map(Default::Generated);
            }
            ConstrType::ConstrCheck => {
                definition.checks.push(clause);
                last = None;
            }
            ConstrType::ConstrPrimary | ConstrType::ConstrUnique => {
                clause.keys = vec![string_node(&name)];
                definition.indexes.push(key_spec(&clause)?);
                last = Some(LastKey::Index);
            }
            ConstrType::ConstrForeign => {
                definition.foreign_keys.push((clause, vec![string_node(&name)]));
                last = Some(LastKey::Foreign);
            }
            ConstrType::ConstrAttrDeferrable
            | ConstrType::ConstrAttrNotDeferrable
            | ConstrType::ConstrAttrDeferred
            | ConstrType::ConstrAttrImmediate => {
                apply_attribute(definition, &last, constraint)?;
            }
            _ => return Err(Error::unsupported("this column constraint is")),
        }
    }
    if result.spec.identity != 0 && result.default.is_some() {
        return conflict(
            format!(
                "both {} and identity specified for {place}",
                if result.spec.generated != 0 { "generation expression" } else { "default" }
            ),
            column.location,
        );
    }
    if result.spec.identity != 0 && result.spec.generated != 0 {
        return conflict(
            format!("both identity and generation expression specified for {place}"),
            column.location,
        );
    }
    Ok(result)
}

/// Which kind of constraint `deferrable` belongs to.
enum LastKey {
    Index,
    Foreign,
}

fn apply_attribute(
    definition: &mut Definition,
    last: &Option<LastKey>,
    attribute: &protobuf::Constraint,
) -> Result<()> {
    let misplaced =
        |clause: &str| Err(err!(SYNTAX_ERROR, "misplaced {clause} clause").at(attribute.location));
    let clause = match attribute.contype() {
        ConstrType::ConstrAttrDeferrable => "DEFERRABLE",
        ConstrType::ConstrAttrNotDeferrable => "NOT DEFERRABLE",
        ConstrType::ConstrAttrDeferred => "INITIALLY DEFERRED",
        _ => "INITIALLY IMMEDIATE",
    };
    let change = |deferrable: &mut bool, deferred: &mut bool| match attribute.contype() {
        ConstrType::ConstrAttrDeferrable => *deferrable = true,
        ConstrType::ConstrAttrDeferred => {
            *deferrable = true;
            *deferred = true;
        }
        _ => {}
    };
    match last {
        Some(LastKey::Index) => {
            if let Some((deferrable, deferred)) =
                definition.indexes.last_mut().and_then(|spec| spec.constraint.as_mut())
            {
                change(deferrable, deferred);
            }
            Ok(())
        }
        Some(LastKey::Foreign) => {
            if let Some((constraint, _)) = definition.foreign_keys.last_mut() {
                change(&mut constraint.deferrable, &mut constraint.initdeferred);
            }
            Ok(())
        }
        None => misplaced(clause),
    }
}

pub fn string_node(text: &str) -> Node {
    Node { node: Some(NodeEnum::String(protobuf::String { sval: text.to_owned() })) }
}

/// The index of a PRIMARY KEY or UNIQUE constraint.
pub fn key_spec(constraint: &protobuf::Constraint) -> Result<IndexSpec> {
    if constraint.without_overlaps {
        return Err(Error::unsupported("WITHOUT OVERLAPS is"));
    }
    reloptions::check_tablespace(&constraint.indexspace)?;
    Ok(IndexSpec {
        name: constraint.conname.clone(),
        keys: strings(&constraint.keys).iter().map(|name| KeySpec::column(name.to_string())).collect(),
        include: strings(&constraint.including).iter().map(|name| name.to_string()).collect(),
        unique: true,
        primary: constraint.contype() == ConstrType::ConstrPrimary,
        nulls_not_distinct: constraint.nulls_not_distinct,
        predicate: None,
        options: reloptions::index_options(&constraint.options)?,
        constraint: Some((constraint.deferrable, constraint.initdeferred)),
        location: constraint.location,
    })
}

pub fn read_table_constraint(node: &Node, definition: &mut Definition) -> Result<()> {
    let NodeEnum::Constraint(constraint) = inner(node)? else { return Ok(()) };
    match constraint.contype() {
        ConstrType::ConstrCheck => definition.checks.push((**constraint).clone()),
        ConstrType::ConstrPrimary | ConstrType::ConstrUnique => {
            definition.indexes.push(key_spec(constraint)?)
        }
        ConstrType::ConstrForeign => {
            definition.foreign_keys.push(((**constraint).clone(), constraint.fk_attrs.clone()));
        }
        ConstrType::ConstrExclusion => return Err(Error::unsupported("exclusion constraints are")),
        ConstrType::ConstrNotnull => {
            return Err(err!(SYNTAX_ERROR, "syntax error at or near \"not\"").at(constraint.location));
        }
        _ => return Err(Error::unsupported("this table constraint is")),
    }
    Ok(())
}

/// Orders of key columns that the grammar does not know (`asc`, `desc`, `hash`): the statement's keys, in the order in
/// which they stand in the text.
pub fn apply_key_orders(definition: &mut Definition, orders: &[KeyOrder]) {
    for order in orders {
        for spec in &mut definition.indexes {
            for key in spec.keys.iter_mut().filter(|key| *key.column == *order.column) {
                key.descending |= order.descending;
                key.hash |= order.hash;
            }
        }
    }
}

/// Columns of the primary key are NOT NULL; there is one primary key; key columns exist.
fn mark_key_columns(definition: &mut Definition, table: &str) -> Result<()> {
    let mut primary = false;
    for spec in &definition.indexes {
        if spec.primary {
            if primary {
                return Err(err!(
                    INVALID_TABLE_DEFINITION,
                    "multiple primary keys for table \"{table}\" are not allowed"
                )
                .at(spec.location));
            }
            primary = true;
        }
        let what = if spec.primary { "primary key" } else { "unique" };
        let mut seen: Vec<&str> = Vec::new();
        for key in spec.keys.iter().filter(|key| !key.column.is_empty()) {
            let Some(column) = definition.columns.iter_mut().find(|column| column.spec.name == key.column)
            else {
                return Err(err!(UNDEFINED_COLUMN, "column \"{}\" named in key does not exist", key.column)
                    .at(spec.location));
            };
            if spec.constraint.is_some() && seen.contains(&&*key.column) {
                return Err(err!(
                    DUPLICATE_COLUMN,
                    "column \"{}\" appears twice in {what} constraint",
                    key.column
                )
                .at(spec.location));
            }
            seen.push(&key.column);
            column.spec.not_null |= spec.primary;
        }
    }
    Ok(())
}

/// The primary key first; a unique constraint over the same columns as another is left out, if it has no other name.
pub fn merge_keys(specs: Vec<IndexSpec>) -> Vec<IndexSpec> {
    let (primary, others): (Vec<_>, Vec<_>) = specs.into_iter().partition(|spec| spec.primary);
    let mut result: Vec<IndexSpec> = primary;
    for spec in others {
        let columns = |spec: &IndexSpec| -> Vec<String> {
            spec.keys.iter().map(|key| key.column.clone()).chain(spec.include.iter().cloned()).collect()
        };
        let same = |other: &&mut IndexSpec| {
            other.constraint.is_some()
                && other.constraint == spec.constraint
                && columns(other) == columns(&spec)
                && other.keys.iter().all(|key| !key.column.is_empty())
        };
        if spec.constraint.is_some()
            && let Some(other) = result.iter_mut().find(same)
        {
            if other.name.is_empty() {
                other.name = spec.name.clone();
            }
            continue;
        }
        result.push(spec);
    }
    result
}

/// Sequences of serial and identity columns; for each its oid, its column's number and the kind of ownership.
fn make_sequences(
    cx: &mut DdlContext<'_>,
    namespace: Oid,
    table: &str,
    persistence: u8,
    definition: &mut Definition,
) -> Result<Vec<(Oid, i16, Dependency)>> {
    let mut made = Vec::new();
    for (at, column) in definition.columns.iter_mut().enumerate() {
        if let Some(found) = make_sequence(cx, namespace, table, persistence, column)? {
            made.push((found.0, (at + 1) as i16, found.1));
        }
    }
    Ok(made)
}

/// The sequence of one column, if it needs one.
pub fn make_sequence(
    cx: &mut DdlContext<'_>,
    namespace: Oid,
    table: &str,
    persistence: u8,
    column: &mut Column,
) -> Result<Option<(Oid, Dependency)>> {
    let serial = matches!(column.default, Some(Default::Serial { .. }));
    if !serial && column.spec.identity == 0 {
        return Ok(None);
    }
    let explicit =
        super::node::options(&column.identity_options).find(|option| option.defname == "sequence_name");
    let (namespace, name) = match explicit.and_then(|option| option.arg.as_deref()) {
        Some(node) => {
            let (schema, name) = super::node::qualified(cx, super::node::list(node))?;
            (if schema.is_empty() { namespace } else { names::namespace(cx, &schema)? }, name)
        }
        None => (
            namespace,
            names::free_relation_name(&cx.catalog, namespace, table, Some(&column.spec.name), "seq", false),
        ),
    };
    relation::check_name_is_free(cx, namespace, &name, false)?;
    let oid = sequence::create_named(
        cx,
        namespace,
        &name,
        persistence,
        column.spec.ty.oid,
        &column.identity_options,
    )?;
    if serial {
        column.default = Some(Default::Serial { sequence: oid });
    }
    Ok(Some((oid, if serial { Dependency::Auto } else { Dependency::Internal })))
}

pub fn own_sequences(
    cx: &mut DdlContext<'_>,
    table: Oid,
    sequences: &[(Oid, i16, Dependency)],
) -> Result<()> {
    if sequences.is_empty() {
        return Ok(());
    }
    cx.change(|writer| {
        for (sequence, number, kind) in sequences {
            sequence::own(writer, *sequence, table, *number, *kind)?;
        }
        Ok(())
    })
}

/// Writes the defaults of columns; the first has attribute number `first`.
pub fn make_defaults(cx: &mut DdlContext<'_>, table: Oid, columns: &[Column], first: i16) -> Result<()> {
    let relation = cx.relation(table)?;
    let mut written = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let number = first + at as i16;
        let (name, ty) = (&column.spec.name, column.spec.ty);
        let (stored, on) = match &column.default {
            None => continue,
            Some(Default::Serial { sequence }) => {
                (format!("nextval('{sequence}'::regclass)"), vec![Address::relation(*sequence)])
            }
            Some(Default::Expression(node)) => {
                let expr = text::default_expression(cx, node, name, ty)?;
                if is_null_constant(&expr) {
                    continue;
                }
                let stored = text::stored_value(&expr, None, &cx.catalog, cx.env)?;
                (stored, depend::of_expression(&expr, 0, &cx.catalog))
            }
            Some(Default::Generated(node)) => {
                let expr = text::generation_expression(cx, node, &relation, name, ty)?;
                let stored = text::stored_value(&expr, Some(&relation), &cx.catalog, cx.env)?;
                (stored, depend::of_expression(&expr, table, &cx.catalog))
            }
            Some(Default::Stored(stored)) => {
                let expr = text::read_expression(stored, None, &cx.catalog, cx.env)?;
                (stored.to_string(), depend::of_expression(&expr, 0, &cx.catalog))
            }
            Some(Default::StoredGenerated(stored)) => {
                let expr = text::read_expression(stored, Some(&relation), &cx.catalog, cx.env)?;
                (stored.to_string(), depend::of_expression(&expr, table, &cx.catalog))
            }
        };
        written.push((cx.new_oid()?, number, stored, on, column.spec.generated != 0));
    }
    if written.is_empty() {
        return Ok(());
    }
    cx.change(|writer| {
        for (oid, number, stored, on, generated) in &written {
            put_default(writer, *oid, table, *number, stored, on, *generated)?;
        }
        Ok(())
    })
}

pub fn is_null_constant(expr: &cairn_analyze::query::Expr) -> bool {
    matches!(expr, cairn_analyze::query::Expr::Const { value: Datum::Null, .. })
}

/// Writes a default, marks the column, records what the expression needs.
pub fn put_default(
    writer: &mut cairn_catalog::CatalogWriter<'_>,
    oid: Oid,
    table: Oid,
    number: i16,
    stored: &str,
    on: &[Address],
    generated: bool,
) -> Result<()> {
    rows::put(writer, pg_attrdef::TABLE, rows::default_row(oid, table, number, stored))?;
    super::alter_table::update_attribute(writer, table, number, |row| {
        row[pg_attribute::ATTHASDEF] = Datum::Bool(true);
    })?;
    let address = Address::new(pg_attrdef::TABLE, oid);
    depend::record(writer, address, Address::column(table, number), Dependency::Auto)?;
    for on in on {
        let own = on.class == pg_class::TABLE && on.object == table;
        // Dropping a column that a generated one is computed from needs CASCADE, which drops that column.
        if own && generated {
            depend::record(writer, Address::column(table, number), *on, Dependency::Normal)?;
        } else {
            depend::record(writer, address, *on, Dependency::Normal)?;
        }
    }
    Ok(())
}

fn read_like(
    cx: &mut DdlContext<'_>,
    like: &protobuf::TableLikeClause,
    definition: &mut Definition,
) -> Result<()> {
    let name = required(&like.relation)?;
    let source = names::open(cx, name, cairn_txn::TableLockMode::AccessShare)
        .map_err(|error| error.at(name.location))?;
    if !matches!(
        source.kind,
        RelationKind::Table
            | RelationKind::View
            | RelationKind::MaterializedView
            | RelationKind::CompositeType
    ) {
        return Err(err!(WRONG_OBJECT_TYPE, "relation \"{}\" is invalid in LIKE clause", source.name));
    }
    let has = |bit: u32| like.options & bit != 0;
    for column in source.columns.iter().filter(|column| !column.dropped) {
        let mut spec = ColumnSpec::new(column.name.to_string(), column.ty);
        spec.not_null = column.not_null;
        let mut identity_options = Vec::new();
        let mut default = None;
        if column.generated && has(LIKE_GENERATED) {
            spec.generated = b's';
            default = column.default.clone().map(Default::StoredGenerated);
        } else if !column.generated && has(LIKE_DEFAULTS) {
            default = column.default.clone().map(Default::Stored);
        }
        if column.identity != Identity::None && has(LIKE_IDENTITY) {
            spec.identity = if column.identity == Identity::Always { b'a' } else { b'd' };
            if let Some(info) =
                cx.catalog.relation(column.identity_sequence).and_then(|seq| seq.sequence.clone())
            {
                identity_options = sequence_options(&info);
            }
        }
        definition.columns.push(Column { spec, default, identity_options });
    }
    if has(LIKE_CONSTRAINTS) {
        for constraint in source.constraints.iter().filter(|c| c.kind == ConstraintKind::Check) {
            if let Some(expression) = &constraint.expression {
                definition.stored_checks.push((constraint.name.to_string(), expression.clone()));
            }
        }
    }
    if has(LIKE_INDEXES) {
        for index in &source.indexes {
            definition.indexes.push(like_index(&source, index)?);
        }
    }
    definition.likes.push((source, like.options));
    Ok(())
}

fn sequence_options(info: &cairn_catalog::SequenceInfo) -> Vec<Node> {
    let option = |name: &str, value: String| Node {
        node: Some(NodeEnum::DefElem(Box::new(protobuf::DefElem {
            defname: name.to_owned(),
            arg: Some(Box::new(Node { node: Some(NodeEnum::Float(protobuf::Float { fval: value })) })),
            ..protobuf::DefElem::default()
        }))),
    };
    let mut options = vec![
        option("increment", info.increment.to_string()),
        option("minvalue", info.min.to_string()),
        option("maxvalue", info.max.to_string()),
        option("start", info.start.to_string()),
        option("cache", info.cache.to_string()),
    ];
    if info.cycle {
        options.push(option("cycle", "1".to_owned()));
    }
    options
}

/// The definition of an index of the LIKE source, under a name to be chosen.
fn like_index(source: &Relation, index: &cairn_catalog::Index) -> Result<IndexSpec> {
    let mut keys = Vec::new();
    for key in &index.keys {
        let mut spec = match &key.key {
            IndexKeyColumn::Attribute(number) => {
                KeySpec::column(source.columns[*number as usize - 1].name.to_string())
            }
            IndexKeyColumn::Expression(text) => KeySpec {
                expression: Some(Box::new(cairn_analyze::parse::parse_expression(text)?)),
                ..KeySpec::default()
            },
        };
        spec.descending = key.descending;
        spec.nulls_first = Some(key.nulls_first);
        spec.hash = key.hash;
        keys.push(spec);
    }
    let predicate = match &index.predicate {
        Some(text) => Some(Box::new(cairn_analyze::parse::parse_expression(text)?)),
        None => None,
    };
    Ok(IndexSpec {
        name: String::new(),
        keys,
        include: index
            .include
            .iter()
            .map(|number| source.columns[*number as usize - 1].name.to_string())
            .collect(),
        unique: index.unique,
        primary: index.primary,
        nulls_not_distinct: index.nulls_not_distinct,
        predicate,
        options: Vec::new(),
        constraint: (index.constraint != 0).then_some((index.deferrable, false)),
        location: -1,
    })
}

/// CHECKs of LIKE keep their names and texts.
fn add_stored_checks(cx: &mut DdlContext<'_>, table: Oid, checks: &[(String, Text)]) -> Result<()> {
    for (name, stored) in checks {
        let node = cairn_analyze::parse::parse_expression(stored)?;
        let constraint = protobuf::Constraint {
            conname: name.clone(),
            raw_expr: Some(Box::new(node)),
            ..protobuf::Constraint::default()
        };
        let relation = cx.relation(table)?;
        constraint::add_check(cx, &relation, &constraint, false)?;
    }
    Ok(())
}

/// INCLUDING COMMENTS: those of columns.
fn copy_comments(cx: &mut DdlContext<'_>, table: Oid, likes: &[(Arc<Relation>, u32)]) -> Result<()> {
    let target = cx.relation(table)?;
    for (source, options) in likes {
        if options & LIKE_COMMENTS == 0 {
            continue;
        }
        for column in source.columns.iter().filter(|column| !column.dropped) {
            let comment = cx.catalog.comment(pg_class::TABLE, source.oid, i32::from(column.attnum));
            let number =
                target.columns.iter().find(|other| other.name == column.name).map(|other| other.attnum);
            if let (Some(comment), Some(number)) = (comment, number) {
                super::comment::set(cx, Address::column(table, number), Some(&comment))?;
            }
        }
    }
    Ok(())
}
