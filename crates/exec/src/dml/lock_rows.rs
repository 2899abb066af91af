//! Locking rows that a scan has found, and looking at them again.
//!
//! A scan reads at the statement's snapshot; the row may have changed since. Under its lock the newest state counts:
//! unchanged, the row is used as it was read; changed, its new version takes the old one's place in the registers and
//! the statement's conditions are asked again (read committed; a repeatable read transaction has got 40001 from the
//! lock); deleted, it is passed over. A row whose primary key another transaction changed counts as deleted.

use std::sync::Arc;

use cairn_analyze::query::{LockStrength, LockWait, RowMark};
use cairn_catalog::{IndexKey, IndexKeyColumn};
use cairn_txn::{CommandId, LockOutcome, RowLockMode, WaitPolicy};
use cairn_types::{Datum, Result, bail, err};

use crate::context::{ExecContext, Frame};
use crate::error::{TxnResultExt, row_lock_error};
use crate::explain::Properties;
use crate::expr::Code;
use crate::node::{Node, Operator, PlanTree};
use crate::plan::Usage;
use crate::planner::Planner;
use crate::planner::conditions::RelSet;
use crate::planner::prepare::{FromItem, FromTree};
use crate::table::TableLayout;

/// What became of a row that was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Current {
    /// As the snapshot sees it.
    Same,
    /// Changed since; the registers hold the new version.
    Changed,
    Deleted,
    /// Written by this transaction since the snapshot, under this command: by the statement itself, or by a function that it has called.
    OwnWork(CommandId),
    /// SKIP LOCKED.
    Skipped,
}

/// Where a row's columns are: the first register, and the columns that the statement reads.
#[derive(Clone, Debug)]
pub struct RowPlace {
    pub layout: Arc<TableLayout>,
    pub first: usize,
    /// Ascending.
    pub wanted: Vec<usize>,
}

/// Locks a row and brings its registers up to date.
pub fn lock_current(
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    place: &RowPlace,
    key: &[u8],
    mode: RowLockMode,
    wait: WaitPolicy,
) -> Result<Current> {
    let locked = cx.txn.lock_row(key, mode, wait);
    if locked.map_err(|error| row_lock_error(error, &place.layout.relation.name))? == LockOutcome::Skipped {
        return Ok(Current::Skipped);
    }
    let Some(newest) = cx.txn.newer(&frame.snapshot, key).sql()? else { return Ok(Current::Same) };
    if let Some(command) = newest.own_command {
        return Ok(Current::OwnWork(command));
    }
    let Some(row) = newest.value else { return Ok(Current::Deleted) };
    if mode == RowLockMode::KeyShare && !key_changed(cx, frame, place, key, &row)? {
        // What KEY SHARE is about has not changed: the row is used as it was read, as in PostgreSQL.
        return Ok(Current::Same);
    }
    let columns = place.layout.kinds.len();
    place.layout.decode(&row, &place.wanted, &mut frame.registers[place.first..place.first + columns])?;
    Ok(Current::Changed)
}

/// Whether a column that a foreign key could refer to differs between the row that the snapshot sees and its newest
/// version. The primary key does not: it is the row's place.
fn key_changed(
    cx: &ExecContext<'_>,
    frame: &Frame,
    place: &RowPlace,
    key: &[u8],
    newest: &[u8],
) -> Result<bool> {
    let attribute = |key: &IndexKey| match key.key {
        IndexKeyColumn::Attribute(number) => usize::try_from(number - 1).ok(),
        IndexKeyColumn::Expression(_) => None,
    };
    let mut columns: Vec<usize> = Vec::new();
    for index in place
        .layout
        .relation
        .indexes
        .iter()
        .filter(|index| index.unique && !index.primary && !index.deferrable)
    {
        if index.predicate.is_none() && index.keys.iter().all(|key| attribute(key).is_some()) {
            columns.extend(index.keys.iter().filter_map(attribute));
        }
    }
    if columns.is_empty() {
        return Ok(false);
    }
    columns.sort_unstable();
    columns.dedup();
    let Some(seen) = cx.txn.get(&frame.snapshot, key).sql()? else { return Ok(true) };
    let count = place.layout.kinds.len();
    let (mut old, mut new) = (vec![Datum::Null; count], vec![Datum::Null; count]);
    place.layout.decode(&seen, &columns, &mut old)?;
    place.layout.decode(newest, &columns, &mut new)?;
    Ok(columns.iter().any(|column| {
        let (old, new) = (&old[*column], &new[*column]);
        old.is_null() != new.is_null() || !cairn_types::compare::equal(old, new, false)
    }))
}

pub(super) fn row_lock_mode(strength: LockStrength) -> RowLockMode {
    match strength {
        LockStrength::KeyShare => RowLockMode::KeyShare,
        LockStrength::Share => RowLockMode::Share,
        LockStrength::NoKeyUpdate => RowLockMode::NoKeyUpdate,
        LockStrength::Update => RowLockMode::Update,
    }
}

/// `for update` and its kin: locks the rows that its input delivers, after the sort and before the limit.
#[derive(Debug)]
struct LockRows {
    marks: Vec<Mark>,
}

#[derive(Debug)]
struct Mark {
    place: RowPlace,
    /// Register of the row's key; null in a row that an outer join made up.
    key: usize,
    mode: RowLockMode,
    wait: LockWait,
    recheck: Option<Code>,
}

struct LockRowsState {
    plan: Arc<LockRows>,
    child: Box<dyn Node>,
}

/// Puts the node on `child` that locks the current rows of the entered query's marks.
pub fn plan(planner: &mut Planner<'_>, child: PlanTree, row_marks: &[RowMark]) -> Result<PlanTree> {
    let mut marks = Vec::with_capacity(row_marks.len());
    let nullable = nullable_side(&planner.level().from);
    for mark in row_marks {
        let rel = planner.rel(mark.range).clone();
        if nullable.overlaps(RelSet::of(mark.range)) {
            bail!(
                FEATURE_NOT_SUPPORTED,
                "{} cannot be applied to the nullable side of an outer join",
                clause_name(mark.strength)
            );
        }
        // A subquery locks its own rows: the analyzer has given it marks too.
        let Some(relation) = &rel.relation else { continue };
        if planner.catalog().is_system_catalog(relation) {
            return Err(err!(WRONG_OBJECT_TYPE, "cannot lock rows in system catalog \"{}\"", relation.name));
        }
        planner.uses(relation.oid, Usage::Lock(mark.strength));
        let key = planner.need_key(mark.range);
        let layout = Arc::new(TableLayout::new(relation, planner.catalog())?);
        let wanted = rel.used.iter().map(|attno| *attno as usize - 1).collect();
        marks.push(Mark {
            place: RowPlace { layout, first: rel.first, wanted },
            key,
            mode: row_lock_mode(mark.strength),
            wait: mark.wait,
            recheck: planner.recheck_condition(mark.range)?,
        });
    }
    if marks.is_empty() {
        return Ok(child);
    }
    let (startup_cost, total_cost, rows, width) =
        (child.startup_cost, child.total_cost, child.rows, child.width);
    let mut tree = planner.node(LockRows { marks }, vec![child]);
    tree.startup_cost = startup_cost;
    tree.total_cost = total_cost + rows * 0.01;
    (tree.rows, tree.width) = (rows, width);
    Ok(tree)
}

fn clause_name(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    }
}

/// Entries whose rows an outer join may make up.
fn nullable_side(tree: &FromTree) -> RelSet {
    tree.items.iter().fold(RelSet::EMPTY, |set, item| match item {
        FromItem::Outer { full: true, .. } => set.union(item.rels()),
        FromItem::Outer { left, right, .. } => set.union(right.rels()).union(nullable_side(left)),
        FromItem::Range(_) | FromItem::Semi { .. } => set,
    })
}

impl Operator for LockRows {
    fn start(self: Arc<Self>, _: usize, mut children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(LockRowsState { plan: self, child: children.remove(0) })
    }

    fn explain(&self, properties: &mut Properties) {
        properties.node_type = "LockRows".into();
    }
}

impl Node for LockRowsState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        'rows: loop {
            if !self.child.next(cx, frame)? {
                return Ok(false);
            }
            frame.tick(cx)?;
            let plan = &self.plan;
            let mut changed = false;
            for mark in &plan.marks {
                let Datum::Bytea(key) = &frame.registers[mark.key] else { continue };
                let key = Arc::clone(key);
                let wait = match mark.wait {
                    LockWait::Block => WaitPolicy::Block { timeout: cx.lock_timeout },
                    LockWait::Skip => WaitPolicy::Skip,
                    LockWait::Error => WaitPolicy::Error,
                };
                match lock_current(cx, frame, &mark.place, &key, mark.mode, wait)? {
                    Current::Same => {}
                    Current::Changed => changed = true,
                    Current::Deleted | Current::OwnWork(_) | Current::Skipped => continue 'rows,
                }
            }
            if changed {
                // All rows are locked and new; the conditions must hold for all of them together.
                for mark in &plan.marks {
                    if let Some(recheck) = &mark.recheck
                        && !recheck.holds(cx, frame)?
                    {
                        continue 'rows;
                    }
                }
            }
            return Ok(true);
        }
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.child.rescan(cx, frame)
    }
}
