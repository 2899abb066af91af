//! CREATE INDEX, and the indexes behind primary keys and unique constraints.

use std::sync::Arc;

use cairn_analyze::parse::KeyOrder;
use cairn_analyze::query::Expr;
use cairn_analyze::{ExprKind, expr_type};
use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::*;
use cairn_catalog::system_table::{INDOPTION_DESC, INDOPTION_HASH, INDOPTION_NULLS_FIRST};
use cairn_catalog::{CatalogWriter, Relation, RelationKind, TypeRef, Volatility};
use cairn_txn::TableLockMode;
use cairn_types::oid::access_methods;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{self, Node, SortByDir, SortByNulls, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::node::{inner, options, qualified};
use super::{data, names, reloptions, rows, text};

/// An index to be made.
#[derive(Clone, Debug, Default)]
pub struct IndexSpec {
    /// Empty: a name is chosen.
    pub name: String,
    pub keys: Vec<KeySpec>,
    /// Names of INCLUDE columns.
    pub include: Vec<String>,
    pub unique: bool,
    pub primary: bool,
    pub nulls_not_distinct: bool,
    pub predicate: Option<Box<Node>>,
    pub options: Vec<cairn_types::Text>,
    /// For a constraint: deferrable, initially deferred.
    pub constraint: Option<(bool, bool)>,
    /// Where it stands in the statement; 0 if nowhere.
    pub location: i32,
}

impl IndexSpec {
    /// Whether it is a deferrable constraint's.
    pub fn is_deferrable(&self) -> bool {
        self.constraint.is_some_and(|(deferrable, _)| deferrable)
    }
}

#[derive(Clone, Debug, Default)]
pub struct KeySpec {
    /// Empty: an expression.
    pub column: String,
    pub expression: Option<Box<Node>>,
    pub collation: Vec<Node>,
    pub opclass: Vec<Node>,
    pub descending: bool,
    pub nulls_first: Option<bool>,
    pub hash: bool,
}

impl KeySpec {
    pub fn column(name: impl Into<String>) -> Self {
        KeySpec { column: name.into(), ..KeySpec::default() }
    }
}

/// A key column after analysis.
struct Key {
    attribute: i16,
    expression: Option<Expr>,
    text: Option<String>,
    name: String,
    ty: TypeRef,
    opclass: Oid,
    option: i16,
}

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::IndexStmt, orders: &[KeyOrder]) -> Result<()> {
    let name = super::node::required(&statement.relation)?;
    let own = |cx: &DdlContext<'_>, table: &std::sync::Arc<Relation>| cx.require_table_owner(table);
    let table = names::open_existing(cx, name, TableLockMode::Share, &own)?;
    if !matches!(table.kind, RelationKind::Table | RelationKind::MaterializedView) {
        return Err(err!(WRONG_OBJECT_TYPE, "cannot create index on relation \"{}\"", table.name).detail(
            match table.kind {
                RelationKind::View => "This operation is not supported for views.",
                RelationKind::Index => "This operation is not supported for indexes.",
                RelationKind::Sequence => "This operation is not supported for sequences.",
                _ => "This operation is not supported for this kind of relation.",
            },
        ));
    }
    names::check_not_system(&table)?;
    cx.require_table_owner(&table)?;
    cx.require_not_in_use(&table, "CREATE INDEX")?;
    let mut spec = read(statement)?;
    for order in orders {
        for key in spec.keys.iter_mut().filter(|key| *key.column == *order.column) {
            key.hash |= order.hash;
        }
    }
    check_method(cx, &statement.access_method, &mut spec)?;
    // Each method has parameters of its own: the method first.
    spec.options = reloptions::index_options(&statement.options)?;
    reloptions::check_tablespace(&statement.table_space)?;
    if !spec.name.is_empty()
        && !super::relation::check_name_is_free(cx, table.namespace, &spec.name, statement.if_not_exists)?
    {
        return Ok(());
    }
    let index = define(cx, &table, &spec)?;
    data::build_index(cx, index)
}

/// An index by the statement.
fn read(statement: &protobuf::IndexStmt) -> Result<IndexSpec> {
    if !statement.exclude_op_names.is_empty() {
        return Err(Error::unsupported("exclusion constraints are"));
    }
    let mut keys = Vec::new();
    for node in &statement.index_params {
        keys.push(read_key(node)?);
    }
    let mut include = Vec::new();
    for node in &statement.index_including_params {
        let key = read_key(node)?;
        if key.column.is_empty() {
            return Err(err!(FEATURE_NOT_SUPPORTED, "expressions are not supported in included columns"));
        }
        include.push(key.column);
    }
    Ok(IndexSpec {
        name: statement.idxname.clone(),
        keys,
        include,
        unique: statement.unique,
        primary: statement.primary,
        nulls_not_distinct: statement.nulls_not_distinct,
        predicate: statement.where_clause.clone(),
        options: Vec::new(),
        constraint: None,
        location: -1,
    })
}

pub fn read_key(node: &Node) -> Result<KeySpec> {
    let NodeEnum::IndexElem(element) = inner(node)? else {
        return Err(Error::internal("an index column that is none"));
    };
    if options(&element.opclassopts).next().is_some() {
        return Err(Error::unsupported("operator class options are"));
    }
    Ok(KeySpec {
        column: element.name.clone(),
        expression: element.expr.clone(),
        collation: element.collation.clone(),
        opclass: element.opclass.clone(),
        descending: element.ordering() == SortByDir::SortbyDesc,
        nulls_first: match element.nulls_ordering() {
            SortByNulls::SortbyNullsFirst => Some(true),
            SortByNulls::SortbyNullsLast => Some(false),
            _ => None,
        },
        hash: false,
    })
}

/// All indexes are ordered; `using hash` is accepted for one column, whose `=` is all it promises.
fn check_method(cx: &DdlContext<'_>, method: &str, spec: &mut IndexSpec) -> Result<()> {
    match method {
        "" | "btree" => Ok(()),
        "hash" => {
            if spec.unique {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "access method \"hash\" does not support unique indexes"
                ));
            }
            if spec.keys.len() > 1 {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "access method \"hash\" does not support multicolumn indexes"
                ));
            }
            for key in &mut spec.keys {
                key.hash = true;
            }
            Ok(())
        }
        other if cx.catalog.access_method_by_name(other).is_some() => {
            Err(Error::unsupported(format!("access method \"{other}\" is")))
        }
        other => Err(err!(UNDEFINED_OBJECT, "access method \"{other}\" does not exist")),
    }
}

fn analyze_key(cx: &DdlContext<'_>, table: &Arc<Relation>, key: &KeySpec) -> Result<Key> {
    let (attribute, expression, name, mut ty) = if key.column.is_empty() {
        let node =
            key.expression.as_deref().ok_or_else(|| Error::internal("an index column without expression"))?;
        let expr = cairn_analyze::analyze_expression_node(
            node,
            Some(table),
            ExprKind::IndexExpression,
            &cx.analyze_context(),
        )?;
        if text::volatility(&expr, &cx.catalog) != Volatility::Immutable {
            return Err(err!(
                INVALID_OBJECT_DEFINITION,
                "functions in index expression must be marked IMMUTABLE"
            ));
        }
        let ty = expr_type(&expr);
        match &expr {
            // A plain column in parentheses is that column.
            Expr::Var(var) if var.attno > 0 => {
                let column = &table.columns[var.attno as usize - 1];
                (var.attno, None, column.name.to_string(), ty)
            }
            _ => (0, Some(expr), expression_name(node), ty),
        }
    } else {
        let number = super::alter_table::column_number_or(&table.columns, &key.column, || {
            err!(UNDEFINED_COLUMN, "column \"{}\" does not exist", key.column)
        })?;
        let column = &table.columns[number as usize - 1];
        (number, None, column.name.to_string(), column.ty)
    };
    if !key.collation.is_empty() {
        let (_, collation) = qualified(cx, &key.collation)?;
        ty.collation = cx
            .catalog
            .collation_by_name(&collation)
            .ok_or_else(|| {
                err!(UNDEFINED_OBJECT, "collation \"{collation}\" for encoding \"UTF8\" does not exist")
            })?
            .oid;
    }
    let opclass = opclass(cx, key, ty.oid)?;
    let nulls_first = key.nulls_first.unwrap_or(key.descending);
    let option = if key.descending { INDOPTION_DESC } else { 0 }
        | if nulls_first { INDOPTION_NULLS_FIRST } else { 0 }
        | if key.hash { INDOPTION_HASH } else { 0 };
    let text = match &expression {
        Some(expr) => Some(text::stored_expression(expr, Some(table), &cx.catalog, cx.env)?),
        None => None,
    };
    Ok(Key { attribute, expression, text, name, ty, opclass, option })
}

/// The operator class that orders the column; keys are ordered by their types' default classes alone.
fn opclass(cx: &DdlContext<'_>, key: &KeySpec, type_oid: Oid) -> Result<Oid> {
    let type_name = cx.catalog.type_name(type_oid, &cx.search_path);
    let default = cx.catalog.default_opclass(access_methods::BTREE, type_oid);
    if key.opclass.is_empty() {
        return match default {
            Some(class) if cx.catalog.sort_operators(type_oid).is_some() => Ok(class.oid),
            _ => Err(err!(
                UNDEFINED_OBJECT,
                "data type {type_name} has no default operator class for access method \"btree\""
            )
            .hint(
                "You must specify an operator class for the index or define a default operator class for the data type.",
            )),
        };
    }
    let (_, name) = qualified(cx, &key.opclass)?;
    let class = cx.catalog.opclass_by_name(access_methods::BTREE, &name).ok_or_else(|| {
        err!(UNDEFINED_OBJECT, "operator class \"{name}\" does not exist for access method \"btree\"")
    })?;
    if !cx.catalog.is_binary_coercible(type_oid, class.input_type) {
        return Err(err!(
            DATATYPE_MISMATCH,
            "operator class \"{name}\" does not accept data type {type_name}"
        ));
    }
    let same_order = default.is_some_and(|default| default.family == class.family)
        // Under C.UTF-8 these order as the default classes do.
        || matches!(&*name, "text_pattern_ops" | "varchar_pattern_ops" | "bpchar_pattern_ops");
    if !same_order {
        return Err(Error::unsupported(format!("operator class \"{name}\" is")));
    }
    Ok(class.oid)
}

/// What a column over an expression is called: its function, or `expr`.
fn expression_name(node: &Node) -> String {
    match &node.node {
        Some(NodeEnum::FuncCall(call)) => {
            call.funcname.last().and_then(super::node::string).unwrap_or("expr").to_owned()
        }
        Some(NodeEnum::TypeCast(cast)) => match cast.arg.as_deref() {
            Some(arg) if expression_name(arg) != "expr" => expression_name(arg),
            _ => cast
                .type_name
                .as_ref()
                .and_then(|name| name.names.last())
                .and_then(super::node::string)
                .unwrap_or("expr")
                .to_owned(),
        },
        Some(NodeEnum::ColumnRef(column)) => {
            column.fields.last().and_then(super::node::string).unwrap_or("expr").to_owned()
        }
        Some(NodeEnum::CoalesceExpr(_)) => "coalesce".to_owned(),
        Some(NodeEnum::CaseExpr(_)) => "case".to_owned(),
        Some(NodeEnum::CollateClause(clause)) => {
            clause.arg.as_deref().map_or("expr".to_owned(), expression_name)
        }
        _ => "expr".to_owned(),
    }
}

/// Makes the names of an index's columns different from each other.
fn distinct_names(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.clone();
        let mut number = 0;
        while distinct.contains(&candidate) {
            number += 1;
            let suffix = number.to_string();
            candidate = format!("{}{suffix}", names::truncate_name(&name, names::NAME_MAX - suffix.len()));
        }
        distinct.push(candidate);
    }
    distinct
}

/// Column names, joined for the name of an index or constraint.
pub fn joined_names(names: &[String]) -> String {
    let mut joined = String::new();
    for name in names {
        if !joined.is_empty() {
            joined.push('_');
        }
        joined.push_str(name);
        if joined.len() >= names::NAME_MAX {
            break;
        }
    }
    names::truncate_name(&joined, names::NAME_MAX).to_owned()
}

/// Makes the catalog rows of an index (and of its constraint); the entries are [`data::build_index`]'s. Returns its oid.
pub fn define(cx: &mut DdlContext<'_>, table: &Arc<Relation>, spec: &IndexSpec) -> Result<Oid> {
    let mut keys = Vec::with_capacity(spec.keys.len());
    for key in &spec.keys {
        keys.push(analyze_key(cx, table, key)?);
    }
    if keys.len() + spec.include.len() > 32 {
        return Err(err!(TOO_MANY_COLUMNS, "cannot use more than 32 columns in an index"));
    }
    let mut include = Vec::new();
    for column in &spec.include {
        include.push(super::alter_table::column_number_or(&table.columns, column, || {
            err!(UNDEFINED_COLUMN, "column \"{column}\" does not exist")
        })?);
    }
    let predicate = match &spec.predicate {
        Some(node) => {
            let expr = text::condition(cx, node, table, ExprKind::IndexPredicate, "WHERE")?;
            if text::volatility(&expr, &cx.catalog) != Volatility::Immutable {
                return Err(err!(
                    INVALID_OBJECT_DEFINITION,
                    "functions in index predicate must be marked IMMUTABLE"
                ));
            }
            Some(expr)
        }
        None => None,
    };
    let predicate_text = match &predicate {
        Some(expr) => Some(text::stored_expression(expr, Some(table), &cx.catalog, cx.env)?),
        None => None,
    };
    let mut column_names: Vec<String> = keys.iter().map(|key| key.name.clone()).collect();
    column_names.extend(spec.include.iter().cloned());
    let column_names = distinct_names(column_names);
    let name = if spec.name.is_empty() {
        let joined = joined_names(&column_names);
        match (spec.primary, spec.constraint) {
            (true, _) => {
                names::free_relation_name(&cx.catalog, table.namespace, &table.name, None, "pkey", true)
            }
            (_, Some(_)) => names::free_relation_name(
                &cx.catalog,
                table.namespace,
                &table.name,
                Some(&joined),
                "key",
                true,
            ),
            _ => names::free_relation_name(
                &cx.catalog,
                table.namespace,
                &table.name,
                Some(&joined),
                "idx",
                false,
            ),
        }
    } else {
        spec.name.clone()
    };
    super::relation::check_name_is_free(cx, table.namespace, &name, false)?;
    if keys.iter().any(|key| key.option & INDOPTION_HASH != 0) && !spec.primary {
        tracing::debug!(index = %name, "hash index is kept in order");
    }
    write(
        cx,
        table,
        spec,
        &name,
        &keys,
        &include,
        &column_names,
        predicate.as_ref(),
        predicate_text.as_deref(),
    )
}

#[expect(clippy::too_many_arguments, reason = "one call site; the parts of one index")]
fn write(
    cx: &mut DdlContext<'_>,
    table: &Arc<Relation>,
    spec: &IndexSpec,
    name: &str,
    keys: &[Key],
    include: &[i16],
    column_names: &[String],
    predicate: Option<&Expr>,
    predicate_text: Option<&str>,
) -> Result<Oid> {
    let index = cx.new_oid()?;
    let constraint = if spec.constraint.is_some() || spec.primary { cx.new_oid()? } else { 0 };
    // A primary key's entries are the table's rows, unless it is deferrable.
    let ordering = spec.primary && !spec.is_deferrable();
    let storage = if ordering { 0 } else { cairn_exec::TxnResultExt::sql(cx.txn.create_storage())? };
    let catalog = cx.catalog.clone();
    let owner = cx.user;
    let is_hash = !spec.primary && keys.iter().any(|key| key.option & INDOPTION_HASH != 0);
    let expressions: Vec<&str> = keys.iter().filter_map(|key| key.text.as_deref()).collect();
    let attributes: Vec<i16> = keys.iter().map(|key| key.attribute).chain(include.iter().copied()).collect();
    let (deferrable, deferred) = spec.constraint.unwrap_or((false, false));
    cx.change(|writer| {
        let class = rows::Class {
            oid: index,
            name,
            namespace: table.namespace,
            owner,
            kind: b'i',
            persistence: persistence_code(table),
            row_type: 0,
            method: if is_hash { access_methods::HASH } else { access_methods::BTREE },
            storage,
            column_count: attributes.len(),
            options: spec.options.clone(),
        };
        rows::put(writer, pg_class::TABLE, rows::class_row(&class))?;
        let types = keys
            .iter()
            .map(|key| key.ty)
            .chain(include.iter().map(|number| table.columns[*number as usize - 1].ty));
        for (at, (ty, column)) in types.zip(column_names).enumerate() {
            let attribute = rows::Attribute {
                relation: index,
                number: (at + 1) as i16,
                name: column,
                ty,
                dimensions: 0,
                not_null: false,
                has_default: false,
                identity: 0,
                generated: 0,
            };
            rows::put(writer, pg_attribute::TABLE, rows::attribute_row(&catalog, &attribute))?;
        }
        let row = rows::IndexRow {
            index,
            table: table.oid,
            attributes: attributes.clone(),
            key_count: keys.len(),
            opclasses: keys.iter().map(|key| key.opclass).collect(),
            collations: keys.iter().map(|key| key.ty.collation).chain(include.iter().map(|_| 0)).collect(),
            options: keys.iter().map(|key| key.option).collect(),
            expressions: (!expressions.is_empty()).then(|| expressions.join(", ")),
            predicate: predicate_text,
            unique: spec.unique || spec.primary,
            primary: spec.primary,
            nulls_not_distinct: spec.nulls_not_distinct,
            immediate: !deferrable,
        };
        rows::put(writer, pg_index::TABLE, rows::index_row(&row))?;
        let this = Address::relation(index);
        if constraint != 0 {
            let address = Address::new(pg_constraint::TABLE, constraint);
            let row = super::constraint::Row {
                oid: constraint,
                name,
                namespace: table.namespace,
                kind: if spec.primary { b'p' } else { b'u' },
                table: table.oid,
                index,
                columns: keys.iter().map(|key| key.attribute).collect(),
                deferrable,
                deferred,
                ..super::constraint::Row::default()
            };
            rows::put(writer, pg_constraint::TABLE, super::constraint::row(&row))?;
            depend::record(writer, this, address, Dependency::Internal)?;
            for attribute in &attributes {
                depend::record(writer, address, Address::column(table.oid, *attribute), Dependency::Auto)?;
            }
        } else {
            let mut used: Vec<i16> = attributes.iter().copied().filter(|attribute| *attribute > 0).collect();
            let expressions = keys.iter().filter_map(|key| key.expression.as_ref()).chain(predicate);
            for expr in expressions {
                for on in depend::of_expression(expr, table.oid, &catalog) {
                    if on.class == pg_class::TABLE && on.object == table.oid {
                        used.push(on.sub as i16);
                    } else {
                        depend::record(writer, this, on, Dependency::Normal)?;
                    }
                }
            }
            if used.is_empty() {
                depend::record(writer, this, Address::relation(table.oid), Dependency::Auto)?;
            }
            for number in used {
                depend::record(writer, this, Address::column(table.oid, number), Dependency::Auto)?;
            }
        }
        mark_has_index(writer, table.oid)
    })?;
    Ok(index)
}

/// pg_class.relhasindex.
fn mark_has_index(writer: &mut CatalogWriter<'_>, table: Oid) -> Result<()> {
    update_class(writer, table, |row| row[pg_class::RELHASINDEX] = Datum::Bool(true))
}

/// Changes a relation's pg_class row.
pub fn update_class(
    writer: &mut CatalogWriter<'_>,
    oid: Oid,
    change: impl Fn(&mut Vec<Datum>),
) -> Result<()> {
    let key = [(pg_class::OID, Datum::Oid(oid))];
    cairn_exec::TxnResultExt::sql(writer.update_by(pg_class::TABLE, &key, change))
}

pub fn persistence_code(relation: &Relation) -> u8 {
    match relation.persistence {
        cairn_catalog::Persistence::Permanent => b'p',
        cairn_catalog::Persistence::Unlogged => b'u',
        cairn_catalog::Persistence::Temporary => b't',
    }
}

/// REINDEX: the entries are computed anew into a new storage.
pub fn reindex(cx: &mut DdlContext<'_>, statement: &protobuf::ReindexStmt) -> Result<()> {
    use protobuf::ReindexObjectType as Kind;
    let concurrently = statement.params.iter().any(
        |param| matches!(&param.node, Some(NodeEnum::DefElem(option)) if option.defname == "concurrently"),
    );
    let refuse_system = |cx: &DdlContext<'_>, table: Oid| match concurrently {
        true if cx.catalog.is_system_catalog(&*cx.relation(table)?) => {
            Err(err!(FEATURE_NOT_SUPPORTED, "cannot reindex system catalogs concurrently"))
        }
        _ => Ok(()),
    };
    let indexes: Vec<Oid> = match statement.kind() {
        Kind::ReindexObjectIndex => {
            let name = super::node::required(&statement.relation)?;
            let relation = names::open(cx, name, TableLockMode::AccessExclusive)?;
            if relation.kind != RelationKind::Index {
                return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not an index", relation.name));
            }
            cx.require_table_owner(&relation)?;
            refuse_system(cx, cx.index(relation.oid)?.table)?;
            vec![relation.oid]
        }
        Kind::ReindexObjectTable => {
            let name = super::node::required(&statement.relation)?;
            let table = names::open(cx, name, TableLockMode::Share)?;
            if !matches!(table.kind, RelationKind::Table | RelationKind::MaterializedView) {
                return Err(err!(
                    WRONG_OBJECT_TYPE,
                    "\"{}\" is not a table or materialized view",
                    table.name
                ));
            }
            cx.require_table_owner(&table)?;
            refuse_system(cx, table.oid)?;
            if table.indexes.is_empty() && !cx.catalog.is_system_catalog(&table) {
                cx.notice(format!("table \"{}\" has no indexes to reindex", table.name));
            }
            table.indexes.iter().map(|index| index.oid).collect()
        }
        Kind::ReindexObjectSchema => {
            let namespace = names::namespace(cx, &statement.name)?;
            cx.require_owner(ObjectKind::Schema, namespace)?;
            let tables = cx.catalog.user_relations().filter(|relation| relation.namespace == namespace);
            tables.flat_map(|table| table.indexes.iter().map(|index| index.oid)).collect()
        }
        Kind::ReindexObjectDatabase | Kind::ReindexObjectSystem => {
            if !statement.name.is_empty() && *statement.name != *cx.env.current_database() {
                return Err(err!(FEATURE_NOT_SUPPORTED, "can only reindex the currently open database"));
            }
            let database = super::database::oid(cx, &cx.env.current_database())?;
            cx.require_owner(ObjectKind::Database, database)?;
            // System catalogs have no entries of their own.
            let all = statement.kind() == Kind::ReindexObjectDatabase;
            let tables = cx.catalog.user_relations().filter(|_| all);
            tables.flat_map(|table| table.indexes.iter().map(|index| index.oid)).collect()
        }
        Kind::Undefined => Vec::new(),
    };
    for oid in indexes {
        let Ok(index) = cx.index(oid) else { continue };
        cx.lock(pg_class::TABLE, index.table, TableLockMode::Share)?;
        // The table may have been dropped while we waited.
        if cx.index(oid).is_err() {
            continue;
        }
        let table = cx.relation(index.table)?;
        // System catalogs have no entries of their own.
        if table.is_ordered_by(&index) || cx.catalog.is_system_catalog(&table) {
            continue;
        }
        cx.require_index_not_in_use(oid, "REINDEX INDEX")?;
        data::rebuild_index(cx, oid)?;
    }
    Ok(())
}
