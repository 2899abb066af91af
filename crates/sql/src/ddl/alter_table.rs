//! ALTER TABLE (and what ALTER INDEX, VIEW, SEQUENCE, MATERIALIZED VIEW and TYPE share with it).
//!
//! The actions of one statement are done in PostgreSQL's order: drops, changes of types, new columns, constraints, column
//! attributes, the rest. An action that changes the stored form of rows rewrites the table at once.

use std::sync::Arc;

use cairn_analyze::parse::KeyOrder;
use cairn_analyze::query::Expr;
use cairn_catalog::columns::*;
use cairn_catalog::system_table::{array_of, oidvector};
use cairn_catalog::{
    Catalog, CatalogWriter, Column, ConstraintKind, Identity, IndexKeyColumn, Relation, RelationKind, RowExt,
    Volatility,
};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::oid::access_methods;
use cairn_types::{Datum, Error, Oid, Result, err};
use pg_query::protobuf::{
    self, AlterTableCmd, AlterTableType as Action, ConstrType, DropBehavior, Node, ObjectType,
    node::Node as NodeEnum,
};

use super::context::DdlContext;
use super::data::{self, NewColumn};
use super::depend::{self, Address, Dependency};
use super::node::{inner, required};
use super::table::{self, Default, Definition};
use super::{constraint, index, names, reloptions, rename, row_types, rows, sequence, text};

/// The attribute number of a column. 42703.
pub fn column_number(relation: &Relation, name: &str) -> Result<i16> {
    column_number_or(&relation.columns, name, || {
        err!(UNDEFINED_COLUMN, "column \"{name}\" of relation \"{}\" does not exist", relation.name)
    })
}

pub fn column_number_or(columns: &[Column], name: &str, missing: impl FnOnce() -> Error) -> Result<i16> {
    let found = columns.iter().find(|column| !column.dropped && &*column.name == name);
    found.map(|column| column.attnum).ok_or_else(missing)
}

/// Changes a pg_attribute row.
pub fn update_attribute(
    writer: &mut CatalogWriter<'_>,
    relation: Oid,
    number: i16,
    change: impl Fn(&mut Vec<Datum>),
) -> Result<()> {
    use pg_attribute as c;
    let key = [(c::ATTRELID, Datum::Oid(relation)), (c::ATTNUM, Datum::Int2(number))];
    writer.update_by(c::TABLE, &key, change).sql()
}

/// The order in which the actions of one statement are done.
fn pass(command: &AlterTableCmd) -> u8 {
    match command.subtype() {
        Action::AtDropColumn | Action::AtDropConstraint | Action::AtDropExpression => 0,
        Action::AtAlterColumnType => 1,
        Action::AtAddColumn => 2,
        Action::AtSetNotNull | Action::AtDropNotNull => 3,
        Action::AtColumnDefault | Action::AtAddIdentity | Action::AtSetIdentity | Action::AtDropIdentity => 4,
        Action::AtAddIndex | Action::AtAddConstraint => 5,
        _ => 6,
    }
}

pub fn alter(
    cx: &mut DdlContext<'_>,
    statement: &protobuf::AlterTableStmt,
    orders: &[KeyOrder],
) -> Result<()> {
    let name = required(&statement.relation)?;
    let mode = lock_mode(statement)?;
    let Some(relation) = names::open_checked(cx, name, mode, &names::check_own)? else {
        if statement.missing_ok {
            cx.notice(format!("relation \"{}\" does not exist, skipping", names::display(name)));
            return Ok(());
        }
        return Err(names::undefined(name));
    };
    names::check_not_system(&relation)?;
    cx.require_table_owner(&relation)?;
    check_kind(&relation, statement.objtype())?;
    cx.require_not_in_use(&relation, "ALTER TABLE")?;
    let mut commands = Vec::new();
    for node in &statement.cmds {
        if let NodeEnum::AlterTableCmd(command) = inner(node)? {
            commands.push(command);
        }
    }
    commands.sort_by_key(|command| pass(command));
    let oid = relation.oid;
    for command in commands {
        let relation = cx.relation(oid)?;
        run(cx, &relation, command, orders)?;
    }
    Ok(())
}

/// The strongest lock that one of the statement's actions needs, as in PostgreSQL.
fn lock_mode(statement: &protobuf::AlterTableStmt) -> Result<TableLockMode> {
    let mut strongest = TableLockMode::ShareUpdateExclusive;
    for node in &statement.cmds {
        let NodeEnum::AlterTableCmd(command) = inner(node)? else { continue };
        let mode = match command.subtype() {
            Action::AtValidateConstraint | Action::AtSetStatistics => TableLockMode::ShareUpdateExclusive,
            Action::AtAddConstraint => match command.def.as_deref().map(inner) {
                Some(Ok(NodeEnum::Constraint(constraint)))
                    if constraint.contype() == protobuf::ConstrType::ConstrForeign =>
                {
                    TableLockMode::ShareRowExclusive
                }
                _ => TableLockMode::AccessExclusive,
            },
            _ => TableLockMode::AccessExclusive,
        };
        strongest = strongest.max(mode);
    }
    Ok(strongest)
}

/// The statement's word must fit what the name is. ALTER TABLE is for all.
fn check_kind(relation: &Relation, wanted: ObjectType) -> Result<()> {
    let (what, fits) = match wanted {
        ObjectType::ObjectIndex => ("an index", relation.kind == RelationKind::Index),
        ObjectType::ObjectSequence => ("a sequence", relation.kind == RelationKind::Sequence),
        ObjectType::ObjectView => ("a view", relation.kind == RelationKind::View),
        ObjectType::ObjectMatview => ("a materialized view", relation.kind == RelationKind::MaterializedView),
        ObjectType::ObjectType => ("a composite type", relation.kind == RelationKind::CompositeType),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not {what}", relation.name)) }
}

/// 42809 for an action that this kind of relation does not have.
fn require_kind(relation: &Relation, action: &str, kinds: &[RelationKind]) -> Result<()> {
    if kinds.contains(&relation.kind) {
        return Ok(());
    }
    let plural = match relation.kind {
        RelationKind::View => "views",
        RelationKind::Index => "indexes",
        RelationKind::Sequence => "sequences",
        RelationKind::MaterializedView => "materialized views",
        RelationKind::CompositeType => "composite types",
        _ => "tables",
    };
    Err(err!(
        WRONG_OBJECT_TYPE,
        "ALTER action {action} cannot be performed on relation \"{}\"",
        relation.name
    )
    .detail(format!("This operation is not supported for {plural}.")))
}

const TABLE: &[RelationKind] = &[RelationKind::Table];
const TABLE_OR_TYPE: &[RelationKind] = &[RelationKind::Table, RelationKind::CompositeType];
const TABLE_OR_VIEW: &[RelationKind] = &[RelationKind::Table, RelationKind::View];
const STORED: &[RelationKind] = &[RelationKind::Table, RelationKind::MaterializedView];

fn run(
    cx: &mut DdlContext<'_>,
    relation: &Arc<Relation>,
    command: &AlterTableCmd,
    orders: &[KeyOrder],
) -> Result<()> {
    let oid = relation.oid;
    match command.subtype() {
        Action::AtAddColumn => {
            require_kind(relation, "ADD COLUMN", TABLE_OR_TYPE)?;
            add_column(cx, relation, command)
        }
        Action::AtDropColumn => {
            require_kind(relation, "DROP COLUMN", TABLE_OR_TYPE)?;
            drop_column(cx, relation, command)
        }
        Action::AtColumnDefault => {
            require_kind(relation, "ALTER COLUMN ... SET DEFAULT", TABLE_OR_VIEW)?;
            set_default(cx, relation, command)
        }
        Action::AtSetNotNull => {
            require_kind(relation, "ALTER COLUMN ... SET NOT NULL", TABLE)?;
            set_not_null(cx, relation, column_number(relation, &command.name)?)
        }
        Action::AtDropNotNull => {
            require_kind(relation, "ALTER COLUMN ... DROP NOT NULL", TABLE)?;
            drop_not_null(cx, relation, &command.name)
        }
        Action::AtAlterColumnType => {
            require_kind(relation, "ALTER COLUMN ... SET DATA TYPE", TABLE_OR_TYPE)?;
            super::alter_type::alter_column_type(cx, relation, command)
        }
        Action::AtAddConstraint | Action::AtAddIndex => {
            require_kind(relation, "ADD CONSTRAINT", TABLE)?;
            let definition = command.def.as_deref().ok_or_else(|| Error::internal("no constraint"))?;
            let NodeEnum::Constraint(constraint) = inner(definition)? else {
                return Err(Error::unsupported("this constraint is"));
            };
            add_constraint(cx, relation, constraint, orders)
        }
        Action::AtDropConstraint => {
            require_kind(relation, "DROP CONSTRAINT", TABLE)?;
            drop_constraint(cx, relation, command)
        }
        Action::AtValidateConstraint => validate_constraint(cx, relation, &command.name),
        Action::AtAlterConstraint => alter_constraint(cx, relation, command),
        Action::AtAddIdentity => add_identity(cx, relation, command),
        Action::AtSetIdentity => set_identity(cx, relation, command),
        Action::AtDropIdentity => drop_identity(cx, relation, command),
        Action::AtDropExpression => drop_expression(cx, relation, command),
        Action::AtChangeOwner => {
            let owner = super::node::role(cx, required(&command.newowner)?)?;
            rename::change_relation_owner(cx, relation, owner)
        }
        Action::AtSetRelOptions | Action::AtResetRelOptions | Action::AtReplaceRelOptions => {
            set_options(cx, relation, command)
        }
        Action::AtSetStatistics => set_statistics(cx, relation, command),
        Action::AtSetStorage => set_storage(cx, relation, command),
        Action::AtSetOptions | Action::AtResetOptions => set_attribute_options(cx, relation, command),
        Action::AtSetCompression => {
            let number = column_number(relation, &command.name)?;
            let method = command.def.as_deref().and_then(super::node::string).unwrap_or("default").to_owned();
            let code = match &*method {
                "pglz" => b'p',
                "lz4" => b'l',
                "default" => 0,
                _ => return Err(err!(INVALID_PARAMETER_VALUE, "invalid compression method \"{method}\"")),
            };
            cx.change(|writer| {
                update_attribute(writer, oid, number, |row| {
                    row[pg_attribute::ATTCOMPRESSION] = Datum::Char(code);
                })
            })
        }
        Action::AtSetLogged => set_persistence(cx, relation, b'p'),
        Action::AtSetUnLogged => set_persistence(cx, relation, b'u'),
        Action::AtClusterOn => cluster_on(cx, relation, Some(&command.name)),
        Action::AtDropCluster => cluster_on(cx, relation, None),
        Action::AtReplicaIdentity => replica_identity(cx, relation, command),
        Action::AtSetTableSpace => reloptions::check_tablespace(&command.name),
        Action::AtSetAccessMethod if command.name == "heap" => Ok(()),
        Action::AtSetAccessMethod => {
            Err(err!(UNDEFINED_OBJECT, "access method \"{}\" does not exist", command.name))
        }
        Action::AtDropOids => Ok(()),
        Action::AtEnableRowSecurity | Action::AtForceRowSecurity => {
            Err(Error::unsupported("row-level security is"))
        }
        // It is never on.
        Action::AtDisableRowSecurity | Action::AtNoForceRowSecurity => Ok(()),
        Action::AtEnableTrigAll | Action::AtEnableTrigUser | Action::AtDisableTrigUser => Ok(()),
        Action::AtDisableTrigAll => Err(Error::unsupported("disabling the triggers of foreign keys is")),
        Action::AtEnableTrig
        | Action::AtEnableAlwaysTrig
        | Action::AtEnableReplicaTrig
        | Action::AtDisableTrig => Err(err!(
            UNDEFINED_OBJECT,
            "trigger \"{}\" for table \"{}\" does not exist",
            command.name,
            relation.name
        )),
        Action::AtEnableRule
        | Action::AtEnableAlwaysRule
        | Action::AtEnableReplicaRule
        | Action::AtDisableRule => Err(err!(
            UNDEFINED_OBJECT,
            "rule \"{}\" for relation \"{}\" does not exist",
            command.name,
            relation.name
        )),
        Action::AtAddInherit | Action::AtDropInherit => Err(Error::unsupported("table inheritance is")),
        Action::AtAttachPartition | Action::AtDetachPartition | Action::AtDetachPartitionFinalize => {
            Err(Error::unsupported("table partitioning is"))
        }
        Action::AtAddOf | Action::AtDropOf => Err(Error::unsupported("typed tables are")),
        Action::AtSetExpression => Err(Error::unsupported("ALTER COLUMN ... SET EXPRESSION is")),
        _ => Err(Error::unsupported("this ALTER TABLE action is")),
    }
}

/// What a rewrite keeps of every column, by attribute number.
pub fn same_columns(relation: &Relation) -> Vec<NewColumn> {
    relation
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| if column.dropped { NewColumn::Null } else { NewColumn::Same(at) })
        .collect()
}

/// Raises the version of the rows' form and sets the number of columns.
pub fn bump_schema(writer: &mut CatalogWriter<'_>, oid: Oid, columns: Option<usize>) -> Result<()> {
    index::update_class(writer, oid, |row| {
        let version = row.int(cairn_catalog::system_table::SCHEMA_VERSION) as i32 + 1;
        row[cairn_catalog::system_table::SCHEMA_VERSION] = Datum::Int4(version);
        if let Some(columns) = columns {
            row[pg_class::RELNATTS] = Datum::Int2(columns as i16);
        }
    })
}

fn add_column(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let definition = command.def.as_deref().ok_or_else(|| Error::internal("no column"))?;
    let NodeEnum::ColumnDef(node) = inner(definition)? else {
        return Err(Error::internal("a column that is none"));
    };
    let oid = relation.oid;
    if relation.columns.iter().any(|column| !column.dropped && *column.name == *node.colname) {
        let message = format!("column \"{}\" of relation \"{}\" already exists", node.colname, relation.name);
        if command.missing_ok {
            cx.env.notice(
                err!(DUPLICATE_COLUMN, "{message}, skipping").severity(cairn_types::Severity::Notice),
            );
            return Ok(());
        }
        return Err(err!(DUPLICATE_COLUMN, "{message}"));
    }
    let mut definition = Definition::default();
    let mut column = table::read_column(cx, node, &relation.name, &mut definition)?;
    let primary = definition.indexes.iter().any(|spec| spec.primary);
    column.spec.not_null |= primary;
    super::relation::check_columns(cx, relation.kind, std::slice::from_ref(&column.spec))?;
    if relation.columns.len() >= 1600 {
        return Err(err!(TOO_MANY_COLUMNS, "tables can have at most 1600 columns"));
    }
    let number = relation.columns.len() as i16 + 1;
    let persistence = index::persistence_code(relation);
    let made = table::make_sequence(cx, relation.namespace, &relation.name, persistence, &mut column)?;
    row_types::lock_users(cx, relation)?;
    if column.default.is_some() || made.is_some() {
        row_types::refuse_users(cx, relation)?;
    }
    // Rows are read through this picture, if they must be written again.
    let before = cx.catalog.clone();
    let old = cx.relation(oid)?;
    let catalog = cx.catalog.clone();
    cx.change(|writer| {
        super::relation::put_column(writer, &catalog, oid, number, &column.spec)?;
        bump_schema(writer, oid, Some(number as usize))
    })?;
    if let Some((sequence, kind)) = made {
        table::own_sequences(cx, oid, &[(sequence, number, kind)])?;
    }
    table::make_defaults(cx, oid, std::slice::from_ref(&column), number)?;
    if relation.kind == RelationKind::Table {
        fill_column(cx, &before, &old, number, made.map(|(sequence, _)| sequence))?;
    }
    row_types::conform(cx, &before, oid)?;
    add_parts(cx, oid, &definition)
}

/// Gives the rows that are there the new column's value: as a missing value if it is one value for all, else by
/// writing the table again. 23502.
fn fill_column(
    cx: &mut DdlContext<'_>,
    before: &Arc<Catalog>,
    old: &Arc<Relation>,
    number: i16,
    sequence: Option<Oid>,
) -> Result<()> {
    let relation = cx.relation(old.oid)?;
    let column = relation.columns[number as usize - 1].clone();
    let expr = match (&column.default, sequence) {
        (_, Some(sequence)) => Some(Expr::NextValue { sequence, ty: column.ty }),
        (Some(stored), None) => {
            let over = column.generated.then_some(&relation);
            let expr = text::read_expression(stored, over, &cx.catalog, cx.env)?;
            Some(text::coerce_assignment(cx, expr, &column.name, column.ty)?)
        }
        (None, None) => None,
    };
    let Some(expr) = expr else {
        let is_domain = cx.catalog.base_type(column.ty.oid) != column.ty.oid;
        if (column.not_null || is_domain) && data::has_rows(cx, &relation)? {
            if column.not_null {
                return Err(data::contains_nulls(cx, &relation, number as usize - 1));
            }
            cx.env.check_domain(column.ty.oid, &Datum::Null)?;
        }
        return Ok(());
    };
    let volatile = text::volatility(&expr, &cx.catalog) == Volatility::Volatile;
    let domain_checks = cx.catalog.base_type(column.ty.oid) != column.ty.oid;
    if column.generated || volatile || domain_checks {
        if !data::has_rows(cx, &relation)? {
            return Ok(());
        }
        let mut columns = same_columns(old);
        columns.push(NewColumn::Expression(Box::new(expr)));
        return data::rewrite(cx, before, old, columns);
    }
    let value = data::evaluate(cx, &expr)?;
    if value.is_null() {
        if column.not_null && data::has_rows(cx, &relation)? {
            return Err(data::contains_nulls(cx, &relation, number as usize - 1));
        }
        return Ok(());
    }
    cx.change(|writer| {
        update_attribute(writer, old.oid, number, |row| {
            row[pg_attribute::ATTHASMISSING] = Datum::Bool(true);
            row[pg_attribute::ATTMISSINGVAL] = array_of(column.ty.oid, vec![value.clone()]);
        })
    })
}

/// Constraints that came with a column.
fn add_parts(cx: &mut DdlContext<'_>, oid: Oid, definition: &Definition) -> Result<()> {
    for check in &definition.checks {
        let relation = cx.relation(oid)?;
        let made = constraint::add_check(cx, &relation, check, false)?;
        data::validate(cx, made)?;
    }
    for spec in &definition.indexes {
        let relation = cx.relation(oid)?;
        add_key(cx, &relation, spec)?;
    }
    for (foreign, columns) in &definition.foreign_keys {
        let relation = cx.relation(oid)?;
        let made = constraint::add_foreign_key(cx, &relation, foreign, columns, false)?;
        data::validate(cx, made)?;
    }
    Ok(())
}

fn drop_column(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let found = relation.columns.iter().find(|column| !column.dropped && *column.name == *command.name);
    let Some(column) = found else {
        let message = format!("column \"{}\" of relation \"{}\" does not exist", command.name, relation.name);
        if command.missing_ok {
            cx.notice(format!("{message}, skipping"));
            return Ok(());
        }
        return Err(err!(UNDEFINED_COLUMN, "{message}"));
    };
    let cascade = command.behavior() == DropBehavior::DropCascade;
    super::drop::drop_objects(cx, &[Address::column(relation.oid, column.attnum)], cascade)
}

/// Removes a column's default. The dependencies of the expression go with it.
pub fn remove_default(cx: &mut DdlContext<'_>, relation: &Relation, number: i16) -> Result<()> {
    let defaults: Vec<Address> = cx
        .catalog
        .user_rows_by(
            pg_attrdef::TABLE,
            &[(pg_attrdef::ADRELID, Datum::Oid(relation.oid)), (pg_attrdef::ADNUM, Datum::Int2(number))],
        )
        .map(|row| Address::new(pg_attrdef::TABLE, row.oid(pg_attrdef::OID)))
        .collect();
    super::drop::drop_objects(cx, &defaults, true)
}

fn set_default(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let number = column_number(relation, &command.name)?;
    let column = relation.columns[number as usize - 1].clone();
    if column.identity != Identity::None {
        let error = err!(
            SYNTAX_ERROR,
            "column \"{}\" of relation \"{}\" is an identity column",
            column.name,
            relation.name
        );
        return Err(if command.def.is_none() {
            error.hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
        } else {
            error
        });
    }
    if column.generated {
        let error = err!(
            SYNTAX_ERROR,
            "column \"{}\" of relation \"{}\" is a generated column",
            column.name,
            relation.name
        );
        return Err(if command.def.is_none() {
            error.hint("Use ALTER TABLE ... ALTER COLUMN ... DROP EXPRESSION instead.")
        } else {
            error
        });
    }
    // The new expression is checked before the old one goes.
    let new = match command.def.as_deref() {
        Some(node) => {
            // PostgreSQL tells no position here.
            let expr = text::default_expression(cx, node, &column.name, column.ty).map_err(|mut error| {
                error.report_mut().location = None;
                error
            })?;
            if table::is_null_constant(&expr) {
                None
            } else {
                let stored = text::stored_value(&expr, None, &cx.catalog, cx.env)?;
                Some((stored, depend::of_expression(&expr, 0, &cx.catalog)))
            }
        }
        None => None,
    };
    remove_default(cx, relation, number)?;
    if let Some((stored, on)) = new {
        let oid = cx.new_oid()?;
        cx.change(|writer| table::put_default(writer, oid, relation.oid, number, &stored, &on, false))?;
    }
    Ok(())
}

fn set_not_null(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, number: i16) -> Result<()> {
    let at = number as usize - 1;
    if relation.columns[at].not_null {
        return Ok(());
    }
    data::check_not_null(cx, relation, at)?;
    cx.change(|writer| {
        update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTNOTNULL] = Datum::Bool(true);
        })
    })
}

fn drop_not_null(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, name: &str) -> Result<()> {
    let number = column_number(relation, name)?;
    let column = &relation.columns[number as usize - 1];
    if column.identity != Identity::None {
        return Err(err!(
            SYNTAX_ERROR,
            "column \"{name}\" of relation \"{}\" is an identity column",
            relation.name
        ));
    }
    let in_key = relation
        .indexes
        .iter()
        .find(|index| index.primary)
        .is_some_and(|key| key.keys.iter().any(|key| key.key == IndexKeyColumn::Attribute(number)));
    if in_key {
        return Err(err!(INVALID_TABLE_DEFINITION, "column \"{name}\" is in a primary key"));
    }
    cx.change(|writer| {
        update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTNOTNULL] = Datum::Bool(false);
        })
    })
}

fn add_constraint(
    cx: &mut DdlContext<'_>,
    relation: &Arc<Relation>,
    node: &protobuf::Constraint,
    orders: &[KeyOrder],
) -> Result<()> {
    match node.contype() {
        ConstrType::ConstrCheck => {
            let oid = constraint::add_check(cx, relation, node, node.skip_validation)?;
            if node.skip_validation { Ok(()) } else { data::validate(cx, oid) }
        }
        ConstrType::ConstrForeign => {
            let oid = constraint::add_foreign_key(cx, relation, node, &node.fk_attrs, node.skip_validation)?;
            if node.skip_validation { Ok(()) } else { data::validate(cx, oid) }
        }
        ConstrType::ConstrPrimary | ConstrType::ConstrUnique => {
            if !node.indexname.is_empty() {
                return Err(Error::unsupported("ADD CONSTRAINT ... USING INDEX is"));
            }
            let mut definition =
                Definition { indexes: vec![table::key_spec(node)?], ..Definition::default() };
            table::apply_key_orders(&mut definition, orders);
            let spec = definition.indexes.remove(0);
            add_key(cx, relation, &spec)
        }
        ConstrType::ConstrExclusion => Err(Error::unsupported("exclusion constraints are")),
        _ => Err(Error::unsupported("this constraint is")),
    }
}

/// Adds a primary key (which puts the rows into its order) or a unique constraint.
fn add_key(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, spec: &index::IndexSpec) -> Result<()> {
    if !spec.name.is_empty() {
        constraint::check_name(relation, &spec.name)?;
    }
    let what = if spec.primary { "primary key" } else { "unique" };
    for (at, key) in spec.keys.iter().enumerate() {
        column_number_or(&relation.columns, &key.column, || {
            err!(UNDEFINED_COLUMN, "column \"{}\" named in key does not exist", key.column)
        })?;
        if spec.keys[..at].iter().any(|other| other.column == key.column) {
            return Err(err!(
                DUPLICATE_COLUMN,
                "column \"{}\" appears twice in {what} constraint",
                key.column
            ));
        }
    }
    if !spec.primary {
        let oid = index::define(cx, relation, spec)?;
        return data::build_index(cx, oid);
    }
    if relation.indexes.iter().any(|index| index.primary) {
        return Err(err!(
            INVALID_TABLE_DEFINITION,
            "multiple primary keys for table \"{}\" are not allowed",
            relation.name
        ));
    }
    for key in &spec.keys {
        let relation = cx.relation(relation.oid)?;
        set_not_null(cx, &relation, column_number(&relation, &key.column)?)?;
    }
    let before = cx.catalog.clone();
    let old = cx.relation(relation.oid)?;
    let oid = index::define(cx, &old, spec)?;
    if spec.is_deferrable() {
        return data::build_index(cx, oid);
    }
    let columns = same_columns(&old);
    data::rewrite(cx, &before, &old, columns)
}

fn find_constraint<'r>(relation: &'r Relation, name: &str) -> Result<&'r Arc<cairn_catalog::Constraint>> {
    relation.constraints.iter().find(|constraint| &*constraint.name == name).ok_or_else(|| {
        err!(UNDEFINED_OBJECT, "constraint \"{name}\" of relation \"{}\" does not exist", relation.name)
    })
}

fn drop_constraint(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let found = match find_constraint(relation, &command.name) {
        Ok(found) => found.oid,
        Err(error) if command.missing_ok => {
            cx.notice(format!("{}, skipping", error.message()));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let cascade = command.behavior() == DropBehavior::DropCascade;
    super::drop::drop_objects(cx, &[Address::new(pg_constraint::TABLE, found)], cascade)
}

fn validate_constraint(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, name: &str) -> Result<()> {
    let found = find_constraint(relation, name)?.clone();
    if !matches!(found.kind, ConstraintKind::Check | ConstraintKind::ForeignKey) {
        return Err(err!(
            WRONG_OBJECT_TYPE,
            "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
            relation.name
        ));
    }
    if found.validated {
        return Ok(());
    }
    data::validate(cx, found.oid)?;
    update_constraint(cx, found.oid, |row| row[pg_constraint::CONVALIDATED] = Datum::Bool(true))
}

/// Changes a pg_constraint row.
pub fn update_constraint(cx: &mut DdlContext<'_>, oid: Oid, change: impl Fn(&mut Vec<Datum>)) -> Result<()> {
    cx.change(|writer| {
        writer.update_where(pg_constraint::TABLE, |row| row.oid(pg_constraint::OID) == oid, change).sql()?;
        Ok(())
    })
}

fn alter_constraint(
    cx: &mut DdlContext<'_>,
    relation: &Arc<Relation>,
    command: &AlterTableCmd,
) -> Result<()> {
    let (name, deferrable, deferred) = match command.def.as_deref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::Constraint(node)) => (node.conname.clone(), node.deferrable, node.initdeferred),
        Some(NodeEnum::AtalterConstraint(node)) => {
            if node.alter_enforceability || node.alter_inheritability {
                return Err(Error::unsupported("this ALTER CONSTRAINT is"));
            }
            (node.conname.clone(), node.deferrable, node.initdeferred)
        }
        _ => return Err(Error::unsupported("this ALTER CONSTRAINT is")),
    };
    let found = find_constraint(relation, &name)?;
    if found.kind != ConstraintKind::ForeignKey {
        return Err(err!(
            WRONG_OBJECT_TYPE,
            "constraint \"{name}\" of relation \"{}\" is not a foreign key constraint",
            relation.name
        ));
    }
    update_constraint(cx, found.oid, |row| {
        row[pg_constraint::CONDEFERRABLE] = Datum::Bool(deferrable || deferred);
        row[pg_constraint::CONDEFERRED] = Datum::Bool(deferred);
    })
}

fn add_identity(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let number = column_number(relation, &command.name)?;
    let column = relation.columns[number as usize - 1].clone();
    let Some(NodeEnum::Constraint(node)) = command.def.as_deref().and_then(|node| node.node.as_ref()) else {
        return Err(Error::internal("no identity"));
    };
    let place = format!("column \"{}\" of relation \"{}\"", column.name, relation.name);
    if column.identity != Identity::None {
        return Err(err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "{place} is already an identity column"));
    }
    if !column.not_null {
        return Err(err!(
            OBJECT_NOT_IN_PREREQUISITE_STATE,
            "{place} must be declared NOT NULL before identity can be added"
        ));
    }
    if column.default.is_some() {
        return Err(err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "{place} already has a default value"));
    }
    let identity = if node.generated_when == "a" { b'a' } else { b'd' };
    let mut spec = super::relation::ColumnSpec::new(column.name.to_string(), column.ty);
    spec.identity = identity;
    let mut definition =
        table::Column { spec, default: None::<Default>, identity_options: node.options.clone() };
    let persistence = index::persistence_code(relation);
    let made = table::make_sequence(cx, relation.namespace, &relation.name, persistence, &mut definition)?;
    cx.change(|writer| {
        update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTIDENTITY] = Datum::Char(identity);
        })
    })?;
    match made {
        Some((sequence, _)) => {
            table::own_sequences(cx, relation.oid, &[(sequence, number, Dependency::Internal)])
        }
        None => Ok(()),
    }
}

fn identity_column(relation: &Relation, name: &str) -> Result<Column> {
    let number = column_number(relation, name)?;
    let column = relation.columns[number as usize - 1].clone();
    if column.identity == Identity::None {
        return Err(err!(
            OBJECT_NOT_IN_PREREQUISITE_STATE,
            "column \"{name}\" of relation \"{}\" is not an identity column",
            relation.name
        ));
    }
    Ok(column)
}

fn set_identity(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let column = identity_column(relation, &command.name)?;
    let nodes: Vec<Node> =
        command.def.as_deref().map_or_else(Vec::new, |node| super::node::list(node).to_vec());
    let (kind, rest): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(
        |node| matches!(&node.node, Some(NodeEnum::DefElem(option)) if option.defname == "generated"),
    );
    for option in super::node::options(&kind) {
        // The grammar gives the code of the letter.
        let always = super::node::option_text(option)?.is_some_and(|text| text == "97" || text == "a");
        cx.change(|writer| {
            update_attribute(writer, relation.oid, column.attnum, |row| {
                row[pg_attribute::ATTIDENTITY] = Datum::Char(if always { b'a' } else { b'd' });
            })
        })?;
    }
    if rest.is_empty() {
        return Ok(());
    }
    cx.lock(pg_class::TABLE, column.identity_sequence, TableLockMode::ShareRowExclusive)?;
    let sequence = cx.relation(column.identity_sequence)?;
    sequence::alter_relation(cx, &sequence, &rest)
}

fn drop_identity(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let column = match identity_column(relation, &command.name) {
        Ok(column) => column,
        Err(error) if command.missing_ok && error.sqlstate() != cairn_types::sqlstate::UNDEFINED_COLUMN => {
            cx.notice(format!("{}, skipping", error.message()));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let sequence = column.identity_sequence;
    cx.change(|writer| {
        update_attribute(writer, relation.oid, column.attnum, |row| {
            row[pg_attribute::ATTIDENTITY] = Datum::Char(0);
        })?;
        // It is no part of the column any more.
        writer
            .delete_where(pg_depend::TABLE, |row| {
                row.oid(pg_depend::CLASSID) == pg_class::TABLE
                    && row.oid(pg_depend::OBJID) == sequence
                    && row.char(pg_depend::DEPTYPE) == b'i'
            })
            .sql()?;
        Ok(())
    })?;
    super::drop::drop_objects(cx, &[Address::relation(sequence)], false)
}

fn drop_expression(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let number = column_number(relation, &command.name)?;
    if !relation.columns[number as usize - 1].generated {
        let message = format!(
            "column \"{}\" of relation \"{}\" is not a stored generated column",
            command.name, relation.name
        );
        if command.missing_ok {
            cx.notice(format!("{message}, skipping"));
            return Ok(());
        }
        return Err(err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "{message}"));
    }
    remove_default(cx, relation, number)?;
    cx.change(|writer| {
        // Its values no longer need the columns that they came from.
        writer
            .delete_where(pg_depend::TABLE, |row| {
                use pg_depend as d;
                row.oid(d::CLASSID) == pg_class::TABLE
                    && row.oid(d::OBJID) == relation.oid
                    && row.int(d::OBJSUBID) == i64::from(number)
                    && row.oid(d::REFOBJID) == relation.oid
            })
            .sql()?;
        update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTGENERATED] = Datum::Char(0);
        })
    })
}

fn set_options(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let nodes = command.def.as_deref().map_or(&[][..], super::node::list);
    let reset = command.subtype() == Action::AtResetRelOptions;
    let options = match relation.kind {
        RelationKind::View if reset => reloptions::changed(&relation.options, nodes, true, false)?,
        RelationKind::View => {
            return Err(Error::unsupported("options of views are"));
        }
        kind => reloptions::changed(&relation.options, nodes, reset, kind == RelationKind::Index)?,
    };
    cx.change(|writer| {
        index::update_class(writer, relation.oid, |row| {
            row[pg_class::RELOPTIONS] =
                cairn_catalog::system_table::text_array_or_null(options.iter().cloned());
        })
    })
}

fn set_statistics(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let number =
        if command.name.is_empty() { command.num as i16 } else { column_number(relation, &command.name)? };
    let target = match command.def.as_deref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::Integer(value)) => value.ival.clamp(-1, 10000),
        _ => -1,
    };
    cx.change(|writer| {
        update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTSTATTARGET] = Datum::Int4(target);
        })
    })
}

fn set_storage(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, command: &AlterTableCmd) -> Result<()> {
    let number = column_number(relation, &command.name)?;
    let word = command.def.as_deref().and_then(super::node::string).unwrap_or("").to_ascii_lowercase();
    let code = match &*word {
        "plain" => b'p',
        "external" => b'e',
        "extended" => b'x',
        "main" => b'm',
        _ => return Err(err!(INVALID_PARAMETER_VALUE, "invalid storage type \"{word}\"")),
    };
    let column = &relation.columns[number as usize - 1];
    let fixed = cx.catalog.type_by_oid(column.ty.oid).is_some_and(|object| object.length >= 0);
    if fixed && code != b'p' {
        return Err(err!(
            FEATURE_NOT_SUPPORTED,
            "column data type {} can only have storage PLAIN",
            cx.catalog.type_name(column.ty.oid, &cx.search_path)
        ));
    }
    cx.change(|writer| {
        update_attribute(writer, relation.oid, number, |row| {
            row[pg_attribute::ATTSTORAGE] = Datum::Char(code);
        })
    })
}

fn set_attribute_options(
    cx: &mut DdlContext<'_>,
    relation: &Arc<Relation>,
    command: &AlterTableCmd,
) -> Result<()> {
    let number = column_number(relation, &command.name)?;
    let nodes = command.def.as_deref().map_or(&[][..], super::node::list);
    let reset = command.subtype() == Action::AtResetOptions;
    let mut changes = Vec::new();
    for option in super::node::options(nodes) {
        if !matches!(&*option.defname, "n_distinct" | "n_distinct_inherited") {
            return Err(err!(INVALID_PARAMETER_VALUE, "unrecognized parameter \"{}\"", option.defname));
        }
        changes.push((option.defname.clone(), super::node::option_text(option)?.unwrap_or_default()));
    }
    cx.change(|writer| {
        update_attribute(writer, relation.oid, number, |row| {
            let mut options = row.texts(pg_attribute::ATTOPTIONS);
            for (name, value) in &changes {
                options.retain(|option| option.split('=').next() != Some(name));
                if !reset {
                    options.push(format!("{name}={value}").into());
                }
            }
            row[pg_attribute::ATTOPTIONS] = cairn_catalog::system_table::text_array_or_null(options);
        })
    })
}

fn set_persistence(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, persistence: u8) -> Result<()> {
    require_kind(relation, "SET LOGGED", STORED)?;
    let current = index::persistence_code(relation);
    if current == b't' {
        return Err(err!(
            INVALID_TABLE_DEFINITION,
            "cannot change logged status of table \"{}\" because it is temporary",
            relation.name
        ));
    }
    cx.change(|writer| {
        let change = |row: &mut Vec<Datum>| row[pg_class::RELPERSISTENCE] = Datum::Char(persistence);
        index::update_class(writer, relation.oid, change)?;
        for index in &relation.indexes {
            index::update_class(writer, index.oid, change)?;
        }
        Ok(())
    })
}

fn cluster_on(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, name: Option<&str>) -> Result<()> {
    let chosen = match name {
        Some(name) => {
            let found = relation.indexes.iter().find(|index| &*index.name == name);
            let found = found.ok_or_else(|| {
                err!(UNDEFINED_OBJECT, "index \"{name}\" for table \"{}\" does not exist", relation.name)
            })?;
            Some(found.oid)
        }
        None => None,
    };
    cx.change(|writer| {
        writer
            .update_where(
                pg_index::TABLE,
                |row| row.oid(pg_index::INDRELID) == relation.oid,
                |row| {
                    let is_chosen = Some(row.oid(pg_index::INDEXRELID)) == chosen;
                    row[pg_index::INDISCLUSTERED] = Datum::Bool(is_chosen);
                },
            )
            .sql()?;
        Ok(())
    })
}

fn replica_identity(
    cx: &mut DdlContext<'_>,
    relation: &Arc<Relation>,
    command: &AlterTableCmd,
) -> Result<()> {
    let Some(NodeEnum::ReplicaIdentityStmt(node)) =
        command.def.as_deref().and_then(|node| node.node.as_ref())
    else {
        return Err(Error::internal("no replica identity"));
    };
    let code = node.identity_type.bytes().next().unwrap_or(b'd');
    if code == b'i' && !relation.indexes.iter().any(|index| *index.name == *node.name) {
        return Err(err!(
            UNDEFINED_OBJECT,
            "index \"{}\" for table \"{}\" does not exist",
            node.name,
            relation.name
        ));
    }
    cx.change(|writer| {
        index::update_class(writer, relation.oid, |row| row[pg_class::RELREPLIDENT] = Datum::Char(code))
    })
}

/// After a change of a column's type: indexes over it get the new type's operator class.
pub fn refresh_indexes(cx: &mut DdlContext<'_>, relation: &Arc<Relation>, number: i16) -> Result<()> {
    let catalog = cx.catalog.clone();
    let mut changes = Vec::new();
    for index in &relation.indexes {
        let positions: Vec<usize> = index
            .keys
            .iter()
            .enumerate()
            .filter(|(_, key)| key.key == IndexKeyColumn::Attribute(number))
            .map(|(position, _)| position)
            .collect();
        if positions.is_empty() && !index.include.contains(&number) {
            continue;
        }
        let ty = relation.columns[number as usize - 1].ty;
        let class = catalog.default_opclass(access_methods::BTREE, ty.oid).ok_or_else(|| {
            err!(
                UNDEFINED_OBJECT,
                "data type {} has no default operator class for access method \"btree\"",
                catalog.type_name(ty.oid, &cx.search_path)
            )
        })?;
        let classes: Vec<Oid> = index
            .keys
            .iter()
            .enumerate()
            .map(|(position, key)| if positions.contains(&position) { class.oid } else { key.opclass })
            .collect();
        changes.push((index.oid, positions, classes, ty));
    }
    cx.change(|writer| {
        for (index, positions, classes, ty) in &changes {
            writer
                .update_where(
                    pg_index::TABLE,
                    |row| row.oid(pg_index::INDEXRELID) == *index,
                    |row| {
                        row[pg_index::INDCLASS] = oidvector(classes.iter().copied());
                        let mut collations = row.oids(pg_index::INDCOLLATION);
                        for position in positions {
                            if let Some(collation) = collations.get_mut(*position) {
                                *collation = ty.collation;
                            }
                        }
                        row[pg_index::INDCOLLATION] = oidvector(collations);
                    },
                )
                .sql()?;
            for position in positions {
                update_attribute(writer, *index, *position as i16 + 1, |row| {
                    rows::set_attribute_type(&catalog, row, *ty);
                })?;
            }
        }
        Ok(())
    })
}
