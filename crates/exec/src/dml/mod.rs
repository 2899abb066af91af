//! Data-modifying statements, row locks, constraints, and writing rows for those who have no statement (COPY).
//!
//! Read in this order: [`target`] (a table and how to write it), [`write`](mod@write) (one row with its index entries), [`unique`],
//! [`foreign_key`] and [`events`] (what is checked when), [`lock_rows`] (locking what a scan has found), [`modify`]
//! (the ModifyTable node), [`bulk`] (COPY). Who locks what is told in `docs/locks.md`.

pub mod bulk;
mod constraints;
mod event_log;
pub mod events;
pub mod foreign_key;
pub mod lock_rows;
pub mod modify;
pub mod row_number;
mod scratch;
pub mod target;
pub mod unique;
pub mod write;

use std::sync::Arc;

use cairn_analyze::query::{CommandType, Expr, OnConflict, Query, TargetEntry};
use cairn_catalog::Relation;
use cairn_txn::{CommandId, Snapshot, Timestamp};
use cairn_types::{Error, Result, Text, err};

use self::lock_rows::RowPlace;
use self::modify::{Action, Conflict, ConflictUpdate, Located, Modify, SetList};
use self::target::{Changes, Purpose, Target, Targets, column_index};
use self::write::Assigned;
use crate::expr::Code;
use crate::node::PlanTree;
use crate::plan::Usage;
use crate::planner::{Planned, Planner};
use crate::table::TableLayout;

pub use bulk::{IndexValues, Loader};
pub use events::{ConstraintMark, StatementEvents, TransactionConstraints, end_statement};
pub use write::row_identifier;

/// Sees everything that is committed, and everything that the transaction itself has written.
pub(crate) const NEWEST: Snapshot = Snapshot { read_time: Timestamp::MAX, command: CommandId::MAX };

/// Plans an INSERT, UPDATE or DELETE.
pub fn plan(planner: &mut Planner<'_>, query: &Query) -> Result<Planned> {
    let main = planner.levels.is_empty();
    let cursor = cursor_of(query);
    let source = planner.plan_source(query)?;
    let range =
        query.result_relation.ok_or_else(|| Error::internal("a data-modifying query without target"))?;
    let query = Arc::clone(&planner.level().query);
    let Some(relation) = planner.rel(range).relation.clone() else {
        return Err(Error::unsupported("changing rows of a view is"));
    };
    if planner.catalog().is_system_catalog(&relation) {
        return Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "permission denied: \"{}\" is a system catalog",
            relation.name
        ));
    }
    planner.uses(relation.oid, Usage::Write);
    let conflict_update = query.on_conflict.as_ref().and_then(|clause| clause.update.as_ref());
    let assigned: &[TargetEntry] = match (query.command, conflict_update) {
        (CommandType::Update, _) => &query.targets,
        (_, Some(update)) => &update.targets,
        _ => &[],
    };
    let changes = Changes {
        inserts: query.command == CommandType::Insert,
        deletes: query.command == CommandType::Delete,
        columns: assigned.iter().filter(|entry| !entry.junk).map(|entry| column_index(entry.resno)).collect(),
    };
    let purpose = Purpose { changes, constraints: true };
    let targets = Targets::compile(planner, &relation, purpose)?;
    let target = &targets.tables[0];
    let action = match query.command {
        CommandType::Insert => Action::Insert {
            values: failing_first(assignments(planner, &query.targets)?),
            conflict: match &query.on_conflict {
                Some(clause) => Some(plan_conflict(planner, clause, range, target)?),
                None => None,
            },
        },
        CommandType::Update => {
            let set = assignments(planner, &query.targets)?;
            let assigned = Assigned::new(target, set.iter().map(|(column, _)| *column));
            Action::Update { row: locate(planner, range, &relation)?, set: SetList { set, assigned } }
        }
        CommandType::Delete => Action::Delete { row: locate(planner, range, &relation)? },
        CommandType::Select => return Err(Error::internal("SELECT planned as a data-modifying statement")),
    };
    // RETURNING sees the row as it was written.
    let old_first = std::mem::replace(&mut planner.level_mut().rels[range].first, target.first);
    let outputs: Result<Vec<Code>> = query
        .returning
        .iter()
        .filter(|entry| !entry.junk)
        .map(|entry| planner.compile(&entry.expr))
        .collect();
    let rel = &mut planner.level_mut().rels[range];
    rel.first = old_first;
    let tid = rel.tid;
    let outputs = outputs?;
    let alias = query.range_table[range].alias.to_string();
    let operator = Modify { returning: !outputs.is_empty(), targets, action, main, tid, alias, cursor };
    let (startup, total, width) = (source.startup_cost, source.total_cost, source.width);
    let rows = source.rows;
    let mut tree = planner.node(operator, vec![source]);
    (tree.startup_cost, tree.total_cost) = (startup, total);
    // Without RETURNING nothing comes out, and PostgreSQL shows it so.
    (tree.rows, tree.width) = if outputs.is_empty() { (0.0, 0) } else { (rows, width) };
    Ok(Planned { tree, outputs })
}

/// The cursor of `where current of`, which is all that WHERE says then.
fn cursor_of(query: &Query) -> Option<Text> {
    match &query.filter {
        Some(Expr::CurrentOf { cursor }) => Some(Arc::clone(cursor)),
        _ => None,
    }
}

/// Values by column.
fn assignments(planner: &mut Planner<'_>, targets: &[TargetEntry]) -> Result<Vec<(usize, Code)>> {
    targets
        .iter()
        .filter(|target| !target.junk)
        .map(|target| Ok((column_index(target.resno), planner.compile(&target.expr)?)))
        .collect()
}

/// A constant that could not be folded will fail, a parameter may. PostgreSQL finds out while it plans (it plans with the
/// parameters' values), before any sequence has moved.
fn failing_first(mut values: Vec<(usize, Code)>) -> Vec<(usize, Code)> {
    let is_const = |code: &Code| matches!(code, Code::Const(_) | Code::Param(_));
    values.sort_by_key(|(_, code)| match code {
        Code::Call { function, args } => !(is_immutable(function) && args.iter().all(is_const)),
        Code::Call1 { function, arg } => !(is_immutable(function) && is_const(arg)),
        Code::Call2 { function, args } => !(is_immutable(function) && args.iter().all(is_const)),
        _ => true,
    });
    values
}

fn is_immutable(function: &crate::expr::Function) -> bool {
    function.proc.volatility == cairn_catalog::Volatility::Immutable
}

fn old_place(planner: &Planner<'_>, range: usize, relation: &Arc<Relation>) -> Result<RowPlace> {
    let layout = Arc::new(TableLayout::new(relation, planner.catalog())?);
    let wanted = (0..relation.columns.len()).filter(|index| !relation.columns[*index].dropped).collect();
    Ok(RowPlace { layout, first: planner.rel(range).first, wanted })
}

fn locate(planner: &mut Planner<'_>, range: usize, relation: &Arc<Relation>) -> Result<Located> {
    Ok(Located {
        place: old_place(planner, range, relation)?,
        key: planner.need_key(range),
        recheck: planner.recheck_condition(range)?,
    })
}

fn plan_conflict(
    planner: &mut Planner<'_>,
    clause: &OnConflict,
    range: usize,
    target: &Target,
) -> Result<Conflict> {
    let relation = Arc::clone(target.relation());
    let arbiters = planner.arbiters(clause, &relation, range)?;
    let any = arbiters.is_empty();
    let primary = relation.primary_key.as_ref().is_some_and(|index| any || arbiters.contains(&index.oid));
    let arbitrates = |index: &target::IndexTarget| {
        let index = &index.layout.index;
        index.unique && !index.deferrable && (any || arbiters.contains(&index.oid))
    };
    let indexes = (0..target.indexes.len()).filter(|place| arbitrates(&target.indexes[*place])).collect();
    let update = match &clause.update {
        Some(update) => {
            let set = assignments(planner, &update.targets)?;
            let assigned = Assigned::new(target, set.iter().map(|(column, _)| *column));
            Some(ConflictUpdate {
                place: old_place(planner, range, &relation)?,
                excluded: planner.rel(update.excluded).first,
                filter: update.filter.as_ref().map(|filter| planner.compile(filter)).transpose()?,
                set: SetList { set, assigned },
                tid: planner.rel(range).tid,
            })
        }
        None => None,
    };
    Ok(Conflict { primary, indexes, update })
}

/// Puts the node that locks the current rows of the entered query's `row_marks` on `child`.
pub fn plan_lock_rows(planner: &mut Planner<'_>, child: PlanTree, query: &Query) -> Result<PlanTree> {
    lock_rows::plan(planner, child, &query.row_marks)
}
