//! CREATE, ALTER SEQUENCE, and the sequences behind serial and identity columns.

use std::sync::Arc;

use cairn_catalog::columns::*;
use cairn_catalog::system_table::blank_row;
use cairn_catalog::{Relation, RelationKind, SequenceInfo};
use cairn_exec::TxnResultExt;
use cairn_txn::{SequenceOptions, SequenceState, TableLockMode};
use cairn_types::{Datum, Oid, Result, err, types};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::names;
use super::node::{option_int, options, strings};
use super::relation::{self, ColumnSpec, RelationSpec};
use super::rows;

/// What the options of a statement say.
#[derive(Default)]
struct Changes {
    restart: Option<i64>,
    restarts: bool,
}

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::CreateSeqStmt) -> Result<()> {
    let name = super::node::required(&statement.sequence)?;
    let namespace = names::creation_namespace(cx, name)?;
    if !relation::check_name_is_free(cx, namespace, &name.relname, statement.if_not_exists)? {
        return Ok(());
    }
    let persistence = persistence(name);
    let oid = create_named(cx, namespace, &name.relname, persistence, types::INT8, &statement.options)?;
    let changes = apply_owner(cx, &statement.options)?;
    set_owner(cx, oid, changes)
}

/// pg_class.relpersistence of a name in a statement.
pub fn persistence(name: &protobuf::RangeVar) -> u8 {
    match &*name.relpersistence {
        "t" => b't',
        "u" => b'u',
        _ if name.schemaname == "pg_temp" => b't',
        _ => b'p',
    }
}

/// Makes a sequence whose type is `default_type` unless the options say otherwise.
pub fn create_named(
    cx: &mut DdlContext<'_>,
    namespace: Oid,
    name: &str,
    persistence: u8,
    default_type: Oid,
    option_nodes: &[Node],
) -> Result<Oid> {
    let mut info = SequenceInfo {
        type_oid: default_type,
        start: 0,
        increment: 1,
        min: 0,
        max: 0,
        cache: 1,
        cycle: false,
    };
    let changes = read_options(cx, option_nodes, &mut info, None)?;
    let column = |name: &str, oid: Oid| {
        let ty = cairn_catalog::TypeRef { oid, typmod: -1, collation: 0 };
        ColumnSpec { not_null: true, ..ColumnSpec::new(name, ty) }
    };
    let columns =
        [column("last_value", types::INT8), column("log_cnt", types::INT8), column("is_called", types::BOOL)];
    let spec = RelationSpec {
        name,
        namespace,
        kind: RelationKind::Sequence,
        persistence,
        columns: &columns,
        options: Vec::new(),
    };
    let oid = relation::create(cx, &spec)?;
    put_info(cx, oid, &info)?;
    if let Some(value) = changes.restart.filter(|value| *value != info.start) {
        let storage = cx.relation(oid)?.storage;
        cx.store.sequence_set(storage, value, false).sql()?;
    }
    Ok(oid)
}

fn put_info(cx: &mut DdlContext<'_>, oid: Oid, info: &SequenceInfo) -> Result<()> {
    use pg_sequence as c;
    let mut row = blank_row(c::TABLE);
    row[c::SEQRELID] = Datum::Oid(oid);
    row[c::SEQTYPID] = Datum::Oid(info.type_oid);
    row[c::SEQSTART] = Datum::Int8(info.start);
    row[c::SEQINCREMENT] = Datum::Int8(info.increment);
    row[c::SEQMAX] = Datum::Int8(info.max);
    row[c::SEQMIN] = Datum::Int8(info.min);
    row[c::SEQCACHE] = Datum::Int8(info.cache);
    row[c::SEQCYCLE] = Datum::Bool(info.cycle);
    cx.change(|writer| rows::put(writer, c::TABLE, row))
}

pub fn sequence_options(info: &SequenceInfo) -> SequenceOptions {
    SequenceOptions {
        start: info.start,
        increment: info.increment,
        min: info.min,
        max: info.max,
        cycle: info.cycle,
    }
}

fn type_bounds(oid: Oid) -> (i64, i64) {
    match oid {
        types::INT2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        types::INT4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Applies options to `info`. `old`: the sequence as it was, for ALTER.
fn read_options(
    cx: &DdlContext<'_>,
    nodes: &[Node],
    info: &mut SequenceInfo,
    old: Option<&SequenceInfo>,
) -> Result<Changes> {
    let mut changes = Changes::default();
    let (mut start, mut min, mut max) = (None, None, None);
    let (mut reset_min, mut reset_max) = (old.is_none(), old.is_none());
    let mut seen: Vec<&str> = Vec::new();
    for option in options(nodes) {
        if seen.contains(&&*option.defname) {
            return Err(err!(SYNTAX_ERROR, "conflicting or redundant options").at(option.location));
        }
        seen.push(&option.defname);
        let has_value = option.arg.is_some();
        match &*option.defname {
            "as" => {
                let Some(NodeEnum::TypeName(name)) = option.arg.as_deref().and_then(|arg| arg.node.as_ref())
                else {
                    continue;
                };
                let (oid, _) = cairn_analyze::resolve_type_name(name, &cx.analyze_context())?;
                if !matches!(oid, types::INT2 | types::INT4 | types::INT8) {
                    return Err(err!(
                        INVALID_PARAMETER_VALUE,
                        "sequence type must be smallint, integer, or bigint"
                    ));
                }
                // Bounds that were those of the old type follow the new one.
                if let Some(old) = old {
                    let (low, high) = type_bounds(old.type_oid);
                    let ascending = old.increment > 0;
                    reset_max |= old.max == if ascending { high } else { -1 };
                    reset_min |= old.min == if ascending { 1 } else { low };
                }
                info.type_oid = oid;
            }
            "increment" => {
                info.increment = option_int(option)?;
                if info.increment == 0 {
                    return Err(err!(INVALID_PARAMETER_VALUE, "INCREMENT must not be zero"));
                }
            }
            "minvalue" if has_value => min = Some(option_int(option)?),
            "maxvalue" if has_value => max = Some(option_int(option)?),
            "minvalue" => reset_min = true,
            "maxvalue" => reset_max = true,
            "start" => start = Some(option_int(option)?),
            "restart" => {
                changes.restarts = true;
                changes.restart = if has_value { Some(option_int(option)?) } else { None };
            }
            "cache" => {
                info.cache = option_int(option)?;
                if info.cache <= 0 {
                    return Err(err!(
                        INVALID_PARAMETER_VALUE,
                        "CACHE ({}) must be greater than zero",
                        info.cache
                    ));
                }
            }
            "cycle" => info.cycle = super::node::option_bool(option)?,
            "owned_by" | "sequence_name" | "logged" | "unlogged" => {}
            other => return Err(err!(SYNTAX_ERROR, "invalid sequence option: {other}")),
        }
    }
    let (low, high) = type_bounds(info.type_oid);
    let ascending = info.increment > 0;
    match max {
        Some(value) => info.max = value,
        None if reset_max => info.max = if ascending { high } else { -1 },
        None => {}
    }
    match min {
        Some(value) => info.min = value,
        None if reset_min => info.min = if ascending { 1 } else { low },
        None => {}
    }
    let type_name = cx.catalog.type_name(info.type_oid, &cx.search_path);
    if info.max > high || info.max < low {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "MAXVALUE ({}) is out of range for sequence data type {type_name}",
            info.max
        ));
    }
    if info.min > high || info.min < low {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "MINVALUE ({}) is out of range for sequence data type {type_name}",
            info.min
        ));
    }
    if info.min >= info.max {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "MINVALUE ({}) must be less than MAXVALUE ({})",
            info.min,
            info.max
        ));
    }
    match start {
        Some(value) => info.start = value,
        None if old.is_none() => info.start = if ascending { info.min } else { info.max },
        None => {}
    }
    check_value("START", info.start, info)?;
    if changes.restarts {
        let value = changes.restart.unwrap_or(info.start);
        check_value("RESTART", value, info)?;
        changes.restart = Some(value);
    }
    Ok(changes)
}

fn check_value(what: &str, value: i64, info: &SequenceInfo) -> Result<()> {
    if value < info.min {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "{what} value ({value}) cannot be less than MINVALUE ({})",
            info.min
        ));
    }
    if value > info.max {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "{what} value ({value}) cannot be greater than MAXVALUE ({})",
            info.max
        ));
    }
    Ok(())
}

/// `owned by`: `None` if the options do not say it.
fn apply_owner(cx: &mut DdlContext<'_>, nodes: &[Node]) -> Result<Option<Option<(Arc<Relation>, i16)>>> {
    let Some(option) = options(nodes).find(|option| option.defname == "owned_by") else { return Ok(None) };
    let parts = match option.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
        Some(NodeEnum::List(list)) => strings(&list.items),
        _ => Vec::new(),
    };
    match parts.as_slice() {
        [none] if &**none == "none" => Ok(Some(None)),
        [] | [_] => Err(err!(SYNTAX_ERROR, "invalid OWNED BY option")
            .hint("Specify OWNED BY table.column or OWNED BY NONE.")),
        [table @ .., column] => {
            let nodes: Vec<Node> = table
                .iter()
                .map(|part| Node {
                    node: Some(NodeEnum::String(protobuf::String { sval: part.to_string() })),
                })
                .collect();
            let name = super::node::range_var(cx, &nodes)?;
            let table = names::open(cx, &name, TableLockMode::AccessShare)?;
            if !matches!(
                table.kind,
                RelationKind::Table | RelationKind::View | RelationKind::PartitionedTable
            ) {
                return Err(err!(
                    WRONG_OBJECT_TYPE,
                    "sequence cannot be owned by relation \"{}\"",
                    table.name
                ));
            }
            let number = super::alter_table::column_number(&table, column)?;
            Ok(Some(Some((table, number))))
        }
    }
}

fn set_owner(
    cx: &mut DdlContext<'_>,
    sequence: Oid,
    owner: Option<Option<(Arc<Relation>, i16)>>,
) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let relation = cx.relation(sequence)?;
    if let Some((table, _)) = &owner {
        if table.namespace != relation.namespace {
            return Err(err!(
                OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must be in same schema as table it is linked to"
            ));
        }
        if table.owner != relation.owner {
            return Err(err!(
                OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must have same owner as table it is linked to"
            ));
        }
    }
    cx.change(|writer| {
        writer
            .delete_where(pg_depend::TABLE, |row| {
                use cairn_catalog::RowExt;
                row.oid(pg_depend::CLASSID) == pg_class::TABLE
                    && row.oid(pg_depend::OBJID) == sequence
                    && row.char(pg_depend::DEPTYPE) == b'a'
            })
            .sql()?;
        match owner {
            Some((table, number)) => own(writer, sequence, table.oid, number, Dependency::Auto),
            None => Ok(()),
        }
    })
}

/// Ties a sequence to its column.
pub fn own(
    writer: &mut cairn_catalog::CatalogWriter<'_>,
    sequence: Oid,
    table: Oid,
    column: i16,
    kind: Dependency,
) -> Result<()> {
    depend::record(writer, Address::relation(sequence), Address::column(table, column), kind)
}

pub fn alter(cx: &mut DdlContext<'_>, statement: &protobuf::AlterSeqStmt) -> Result<()> {
    let name = super::node::required(&statement.sequence)?;
    let found = names::open_checked(cx, name, TableLockMode::ShareRowExclusive, &names::check_own)?;
    let Some(sequence) = found else {
        if statement.missing_ok {
            cx.notice(format!("relation \"{}\" does not exist, skipping", names::display(name)));
            return Ok(());
        }
        return Err(names::undefined(name));
    };
    if sequence.kind != RelationKind::Sequence {
        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a sequence", sequence.name));
    }
    cx.require_table_owner(&sequence)?;
    alter_relation(cx, &sequence, &statement.options)?;
    let owner = apply_owner(cx, &statement.options)?;
    set_owner(cx, sequence.oid, owner)
}

/// Applies options to an existing sequence, whose lock is held. Any option but OWNED BY moves the sequence to a new storage id,
/// where it goes on from what it has given out or starts over: a rollback brings the old one back as it was.
pub fn alter_relation(cx: &mut DdlContext<'_>, sequence: &Arc<Relation>, nodes: &[Node]) -> Result<()> {
    let Some(old) = sequence.sequence.clone() else {
        return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a sequence", sequence.name));
    };
    if options(nodes).all(|option| option.defname == "owned_by") {
        return Ok(());
    }
    let mut info = old.clone();
    let changes = read_options(cx, nodes, &mut info, Some(&old))?;
    let state = match changes.restart {
        Some(last_value) => SequenceState { last_value, is_called: false },
        None => {
            let never_used = SequenceState { last_value: old.start, is_called: false };
            let state = cx.store.sequence_state(sequence.storage).sql()?.unwrap_or(never_used);
            // The bounds may exclude where the sequence stands.
            check_value("RESTART", state.last_value, &info)?;
            state
        }
    };
    super::data::replace_storage(cx, sequence)?;
    put_info(cx, sequence.oid, &info)?;
    if state != (SequenceState { last_value: info.start, is_called: false }) {
        let storage = cx.relation(sequence.oid)?.storage;
        cx.store.sequence_set(storage, state.last_value, state.is_called).sql()?;
    }
    Ok(())
}

/// Starts over, as `truncate ... restart identity` does: under a new storage id, so that a rollback undoes it. Nobody else may
/// draw from the old one until the transaction has ended.
pub fn restart(cx: &mut DdlContext<'_>, sequence: &Arc<Relation>) -> Result<()> {
    cx.lock(pg_class::TABLE, sequence.oid, TableLockMode::AccessExclusive)?;
    let sequence = cx.relation(sequence.oid)?;
    super::data::replace_storage(cx, &sequence)?;
    Ok(())
}
