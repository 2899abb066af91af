//! ModifyTable: takes the rows that its input finds or makes, and inserts, updates or deletes them.
//!
//! Registers: a row of the target that the input scanned is in the *old block* (those of the range table entry, filled by the
//! scan), the row as it is written in the target's *row block* ([`super::target`]). SET, WHERE and the expressions of
//! ON CONFLICT read the old block; checks, index entries and RETURNING read the row block.
//!
//! The input reads at the statement's snapshot and never sees what the statement writes (command numbers). If it delivers
//! the same target row twice, the first time counts.

use std::sync::Arc;

use cairn_catalog::TypeRef;
use cairn_txn::{CommandId, Isolation, Newest, RowLockMode};
use cairn_types::{Datum, Error, Result, Row, Text, bail, err};
use smallvec::SmallVec;

use super::events;
use super::lock_rows::RowPlace;
use super::target::{Entry, Target, Targets};
use super::unique;
use super::write::{Assigned, BulkPaths, Claimed, Current, lock_current, row_identifier};
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::explain::Properties;
use crate::expr::Code;
use crate::node::{Node, Operator};
use crate::table::IndexLayout;

#[derive(Debug)]
pub struct Modify {
    /// The statement's table first.
    pub targets: Arc<Targets>,
    pub action: Action,
    /// Whether rows are handed up.
    pub returning: bool,
    /// The statement itself, not a WITH query of it: its rows count.
    pub main: bool,
    /// Register of `ctid` where RETURNING reads it.
    pub tid: Option<usize>,
    /// For EXPLAIN.
    pub alias: String,
    /// `where current of`: the cursor has to stand on a row of the table, whatever rows the input finds.
    pub cursor: Option<Text>,
}

#[derive(Debug)]
pub enum Action {
    Insert { values: Vec<(usize, Code)>, conflict: Option<Conflict> },
    Update { row: Located, set: SetList },
    Delete { row: Located },
}

/// Where the input has put the target's row.
#[derive(Debug)]
pub struct Located {
    /// The old block.
    pub place: RowPlace,
    /// Register of the row's key.
    pub key: usize,
    /// Conditions to be asked again if the row changed.
    pub recheck: Option<Code>,
}

#[derive(Debug)]
pub struct SetList {
    pub set: Vec<(usize, Code)>,
    pub assigned: Assigned,
}

/// ON CONFLICT.
#[derive(Debug)]
pub struct Conflict {
    /// Whether the primary key arbitrates, and the places of other arbiters in the target's indexes.
    pub primary: bool,
    pub indexes: Vec<usize>,
    pub update: Option<ConflictUpdate>,
}

#[derive(Debug)]
pub struct ConflictUpdate {
    /// The old block, for the row that is there.
    pub place: RowPlace,
    /// First register of `excluded`.
    pub excluded: usize,
    pub filter: Option<Code>,
    pub set: SetList,
    pub tid: Option<usize>,
}

impl Operator for Modify {
    fn start(self: Arc<Self>, _: usize, mut children: Vec<Box<dyn Node>>) -> Box<dyn Node> {
        Box::new(ModifyState {
            plan: self,
            input: children.remove(0),
            bulk: BulkPaths::default(),
            inserted: 0,
            old: Row::new(),
            started: false,
            done: false,
        })
    }

    fn explain(&self, properties: &mut Properties) {
        let operation = match self.action {
            Action::Insert { .. } => "Insert",
            Action::Update { .. } => "Update",
            Action::Delete { .. } => "Delete",
        };
        let name = &self.targets.tables[0].relation().name;
        let shown = if self.alias == **name { name.to_string() } else { format!("{name} {}", self.alias) };
        properties.node_type = operation.to_owned();
        properties.target = format!(" on {shown}");
        if let Action::Insert { conflict: Some(conflict), .. } = &self.action {
            let resolution = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
            properties.line("Conflict Resolution", crate::explain::Value::Text(resolution.to_owned()));
            let target = &self.targets.tables[0];
            let primary = target.relation().primary_key.iter().filter(|_| conflict.primary);
            let others = conflict.indexes.iter().map(|place| &target.indexes[*place].layout.index);
            let arbiters: Vec<String> = primary.chain(others).map(|index| index.name.to_string()).collect();
            if !arbiters.is_empty() && (conflict.update.is_some() || arbiters.len() == 1) {
                properties.line("Conflict Arbiter Indexes", crate::explain::Value::List(arbiters));
            }
        }
    }
}

/// An INSERT of so many rows into a table that the transaction itself created goes past its memory from here on. (Each
/// statement that does so costs the store a batch of its own, which few rows are not worth.)
const BULK_AFTER_ROWS: u64 = 1000;

struct ModifyState {
    plan: Arc<Modify>,
    input: Box<dyn Node>,
    bulk: BulkPaths,
    /// Rows inserted by a statement that may take the direct paths.
    inserted: u64,
    /// The old row; kept for its allocation.
    old: Row,
    started: bool,
    done: bool,
}

impl Node for ModifyState {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        if !std::mem::replace(&mut self.started, true)
            && let Some(cursor) = &self.plan.cursor
        {
            cx.runner.cursor_position(cursor, self.plan.targets.tables[0].relation().oid)?;
        }
        while !self.done {
            if !self.input.next(cx, frame)? {
                self.done = true;
                break;
            }
            frame.tick(cx)?;
            let plan = Arc::clone(&self.plan);
            let written = match &plan.action {
                Action::Insert { values, conflict } => {
                    self.insert(cx, frame, &plan, values, conflict.as_ref())?
                }
                Action::Update { row, set } => self.update(cx, frame, &plan, row, set)?,
                Action::Delete { row } => self.delete(cx, frame, &plan, row)?,
            };
            if !written {
                continue;
            }
            if plan.main {
                frame.processed += 1;
            }
            if plan.returning {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rescan(&mut self, _: &ExecContext<'_>, _: &mut Frame) -> Result<()> {
        Err(Error::internal("a data-modifying statement cannot start over"))
    }
}

impl ModifyState {
    fn insert(
        &mut self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        plan: &Modify,
        values: &[(usize, Code)],
        conflict: Option<&Conflict>,
    ) -> Result<bool> {
        let target = &plan.targets.tables[0];
        if conflict.is_some_and(|conflict| conflict.update.is_some()) {
            // A row before this one may have left its updated values in the block.
            frame.registers[target.first..target.first + target.layout.kinds.len()].fill(Datum::Null);
        }
        for (column, code) in values {
            let value = code.eval(cx, frame)?;
            frame.registers[target.first + column] = value;
        }
        target.generate(cx, frame)?;
        target.check_row(cx, frame)?;
        let key = target.new_key(cx, frame)?;
        let mut claimed = Claimed::default();
        if let Some(conflict) = conflict {
            loop {
                match find_conflict(cx, frame, plan, conflict, &key)? {
                    Found::Free(free) => {
                        claimed = free;
                        break;
                    }
                    Found::Row => return Ok(false),
                    Found::Update { key, row } => {
                        return self.update_conflicting(cx, frame, plan, conflict, &key, &row);
                    }
                    // The row that was in the way is gone.
                    Found::Again => {}
                }
            }
        }
        if conflict.is_none() {
            // An ON CONFLICT statement reads what it wrote itself, and so stays in memory.
            self.inserted += 1;
            if self.inserted == BULK_AFTER_ROWS {
                self.bulk = BulkPaths::of(cx, target);
            }
        }
        target.insert_row(cx, frame, &key, &self.bulk, &claimed)?;
        if let Some(register) = plan.tid {
            frame.registers[register] = Datum::Tid(row_identifier(&target.layout, &key)?);
        }
        Ok(true)
    }

    /// DO UPDATE: the row is locked and newest; the row block holds the proposed one.
    fn update_conflicting(
        &mut self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        plan: &Modify,
        conflict: &Conflict,
        key: &[u8],
        stored: &[u8],
    ) -> Result<bool> {
        let target = &plan.targets.tables[0];
        let Some(update) = &conflict.update else { return Ok(false) };
        let columns = target.layout.kinds.len();
        for column in 0..columns {
            frame.registers[update.excluded + column] =
                std::mem::take(&mut frame.registers[target.first + column]);
        }
        let old_block = update.place.first..update.place.first + columns;
        target.layout.decode(stored, &target.live, &mut frame.registers[old_block])?;
        if let Some(register) = update.tid {
            frame.registers[register] = Datum::Tid(row_identifier(&target.layout, key)?);
        }
        if let Some(filter) = &update.filter
            && !filter.holds(cx, frame)?
        {
            return Ok(false);
        }
        self.write_update(cx, frame, plan, update.place.first, key, &update.set)
    }

    fn update(
        &mut self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        plan: &Modify,
        row: &Located,
        set: &SetList,
    ) -> Result<bool> {
        let Some(key) = lock_located(cx, frame, row, Written::Updated)? else { return Ok(false) };
        self.write_update(cx, frame, plan, row.place.first, &key, set)
    }

    /// Updates the locked row in the block that begins at `old_first`.
    fn write_update(
        &mut self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        plan: &Modify,
        old_first: usize,
        key: &[u8],
        set: &SetList,
    ) -> Result<bool> {
        let target = &plan.targets.tables[0];
        let columns = target.layout.kinds.len();
        let before = cx.txn.command();
        self.old.clear();
        self.old.extend_from_slice(&frame.registers[old_first..old_first + columns]);
        for column in 0..columns {
            frame.registers[target.first + column] = frame.registers[old_first + column].clone();
        }
        for (column, code) in &set.set {
            let value = code.eval(cx, frame)?;
            frame.registers[target.first + column] = value;
        }
        target.generate(cx, frame)?;
        target.check_row(cx, frame)?;
        check_untouched(cx, frame, key, before, Written::Updated)?;
        let moved = target.update_row(cx, frame, &plan.targets, &mut self.old, key, &set.assigned)?;
        if let Some(register) = plan.tid {
            let key = moved.as_deref().unwrap_or(key);
            frame.registers[register] = Datum::Tid(row_identifier(&target.layout, key)?);
        }
        Ok(true)
    }

    fn delete(
        &mut self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        plan: &Modify,
        row: &Located,
    ) -> Result<bool> {
        let Some(key) = lock_located(cx, frame, row, Written::Deleted)? else { return Ok(false) };
        let target = &plan.targets.tables[0];
        for column in 0..target.layout.kinds.len() {
            frame.registers[target.first + column] = frame.registers[row.place.first + column].clone();
        }
        target.delete_row(cx, frame, &plan.targets, &key)?;
        Ok(true)
    }
}

/// What a statement does to the rows that its input finds.
#[derive(Clone, Copy, Debug)]
enum Written {
    Updated,
    Deleted,
}

/// Locks the row that the input found. `None`: it is not to be written (deleted, changed so that the conditions fail, or
/// written by this statement before). 27000 if a function that the statement calls has written it.
fn lock_located(
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    row: &Located,
    written: Written,
) -> Result<Option<Arc<[u8]>>> {
    let mode = match written {
        Written::Updated => RowLockMode::NoKeyUpdate,
        Written::Deleted => RowLockMode::Remove,
    };
    let Datum::Bytea(key) = &frame.registers[row.key] else {
        // An outer join made the row up.
        return Ok(None);
    };
    let key = Arc::clone(key);
    let before = cx.txn.command();
    match lock_current(cx, frame, &row.place, &key, mode, unique::wait(cx))? {
        Current::Same => Ok(Some(key)),
        Current::Changed => match &row.recheck {
            Some(recheck) if !recheck.holds(cx, frame)? => Ok(None),
            _ => {
                check_untouched(cx, frame, &key, before, written)?;
                Ok(Some(key))
            }
        },
        Current::OwnWork(command) => match is_own_work(cx, frame, &key, command)? {
            true => Ok(None),
            false => Err(touched(written)),
        },
        Current::Deleted | Current::Skipped => Ok(None),
    }
}

/// Whether a row that the transaction has written since the snapshot, last under `newest`, was written by the statement itself, as
/// PostgreSQL sees it: by who wrote it first, or last if another transaction had changed it before.
fn is_own_work(cx: &ExecContext<'_>, frame: &Frame, key: &[u8], newest: CommandId) -> Result<bool> {
    if frame.wrote_under(newest) {
        return Ok(true);
    }
    if cx.txn.newest(key).sql()?.committed_at > frame.snapshot.read_time {
        return Ok(false);
    }
    let first = cx.txn.first_own_command(key, frame.snapshot.command).sql()?;
    Ok(first.is_some_and(|command| frame.wrote_under(command)))
}

/// 27000 if a function that was called since the command `before` has written the row, which is locked.
fn check_untouched(
    cx: &ExecContext<'_>,
    frame: &Frame,
    key: &[u8],
    before: CommandId,
    written: Written,
) -> Result<()> {
    // Functions that write end commands.
    if cx.txn.command() == before {
        return Ok(());
    }
    let own = cx.txn.newer(&frame.snapshot, key).sql()?.and_then(|newest| newest.own_command);
    if own.is_some_and(|command| !frame.wrote_under(command)) { Err(touched(written)) } else { Ok(()) }
}

#[cold]
fn touched(written: Written) -> Error {
    let done = match written {
        Written::Updated => "updated",
        Written::Deleted => "deleted",
    };
    err!(
        TRIGGERED_DATA_CHANGE_VIOLATION,
        "tuple to be {done} was already modified by an operation triggered by the current command"
    )
    .hint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")
}

/// What stands in a proposed row's way.
enum Found {
    /// Nothing; the arbiters' keys are locked.
    Free(Claimed),
    /// A row, and DO NOTHING.
    Row,
    /// A row, locked; with its key and newest version.
    Update {
        key: Vec<u8>,
        row: bytes::Bytes,
    },
    Again,
}

/// Looks through the arbiters. `key` is the proposed row's.
///
/// A row that is there is found through its entry and locked before the entry is, as every other writer locks: the entry's own
/// lock is taken only to insert, and behind the row's. So upserts run into no deadlock with deletes and key updates.
fn find_conflict(
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    plan: &Modify,
    conflict: &Conflict,
    key: &[u8],
) -> Result<Found> {
    let target = &plan.targets.tables[0];
    if conflict.primary
        && let Some(newest) = primary_in_the_way(cx, key, conflict)?
    {
        return found(cx, frame, conflict, key.to_vec(), newest);
    }
    let entries = entries_to_claim(cx, frame, target, conflict, key)?;
    for (_, entry) in entries.iter().filter(|(place, _)| conflict.indexes.contains(place)) {
        if conflict.update.is_some() {
            if let Some((row_key, row)) = lock_row_of(cx, target, entry)? {
                return found(cx, frame, conflict, row_key, row);
            }
        } else if let Some(newest) = unique::staying(cx, &entry.key)? {
            return found(cx, frame, conflict, Vec::new(), newest);
        }
    }
    let claimed = unique::keeping_if_found(cx, || claim_free(cx, target, conflict, key, &entries))?;
    Ok(claimed.map_or(Found::Again, Found::Free))
}

/// What becomes of the proposed row because of one that is there, in its newest state. DO UPDATE has it locked.
fn found(
    cx: &ExecContext<'_>,
    frame: &Frame,
    conflict: &Conflict,
    key: Vec<u8>,
    newest: Newest,
) -> Result<Found> {
    check_visible(cx, frame, &newest)?;
    match newest.value {
        Some(row) if conflict.update.is_some() => {
            check_not_own(frame, &newest.own_command)?;
            Ok(Found::Update { key, row })
        }
        _ => Ok(Found::Row),
    }
}

/// The newest state of the row that has the proposed row's primary key, if there is one.
fn primary_in_the_way(cx: &ExecContext<'_>, key: &[u8], conflict: &Conflict) -> Result<Option<Newest>> {
    if conflict.update.is_none() {
        // DO NOTHING leaves a row that is there alone, its locks included, once it is clear that nobody is removing it.
        return unique::staying(cx, key);
    }
    // What is there will be updated: its lock is what an UPDATE takes. Nobody else can insert meanwhile.
    cx.txn.lock_row(key, RowLockMode::NoKeyUpdate, unique::wait(cx)).sql()?;
    let newest = cx.txn.newest(key).sql()?;
    Ok(newest.value.is_some().then_some(newest))
}

/// The proposed row's entries in unique indexes up to the last arbiter, with the places of those.
fn entries_to_claim(
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    target: &Target,
    conflict: &Conflict,
    key: &[u8],
) -> Result<SmallVec<[(usize, Entry); 2]>> {
    let mut entries = SmallVec::new();
    let count = conflict.indexes.last().map_or(0, |last| last + 1);
    for (place, index) in target.indexes.iter().enumerate().take(count) {
        if index.layout.index.unique
            && let Some(entry) = index.entry(cx, frame, target.first, key)?
            && entry.unique
        {
            IndexLayout::check_key_size(&entry.key, &entry.value)?;
            entries.push((place, entry));
        }
    }
    Ok(entries)
}

/// Locks the row that has an entry, as an UPDATE does; its key and newest state. `None`: there is no such entry.
fn lock_row_of(cx: &ExecContext<'_>, target: &Target, entry: &Entry) -> Result<Option<(Vec<u8>, Newest)>> {
    let mut key = Vec::new();
    loop {
        let Some(value) = cx.txn.newest(&entry.key).sql()?.value else { return Ok(None) };
        target.layout.key_from_suffix(IndexLayout::suffix(&entry.key, &value)?, &mut key);
        let row = unique::keeping_if_found(cx, || {
            cx.txn.lock_row(&key, RowLockMode::NoKeyUpdate, unique::wait(cx)).sql()?;
            // Meanwhile the entry may have gone, or become another row's.
            let is_same = cx.txn.newest(&entry.key).sql()?.value.as_ref() == Some(&value);
            if is_same { cx.txn.newest(&key).sql().map(Some) } else { Ok(None) }
        })?;
        if let Some(row) = row {
            return Ok(Some((key, row)));
        }
    }
}

/// Locks the proposed row's key and its entries for the insert, in the order in which all writers lock them. `None`: an
/// arbiter is no longer free.
fn claim_free(
    cx: &ExecContext<'_>,
    target: &Target,
    conflict: &Conflict,
    key: &[u8],
    entries: &[(usize, Entry)],
) -> Result<Option<Claimed>> {
    let mut claimed = Claimed::default();
    let primary = (!target.layout.has_hidden_key()).then_some((None, key));
    let keys = entries.iter().map(|(place, entry)| (Some(*place), &entry.key[..]));
    for (place, key) in primary.into_iter().chain(keys) {
        if unique::claim(cx, key)?.value.is_none() {
            match place {
                Some(place) => claimed.indexes.push(place),
                None => claimed.primary = true,
            }
            continue;
        }
        let is_arbiter = |place: &usize| conflict.indexes.contains(place);
        if place.as_ref().map_or(conflict.primary, is_arbiter) {
            return Ok(None);
        }
        // Another constraint stands in the way, which the insert reports. But whoever was waited for may have
        // taken an arbiter too, and that comes first.
        for (_, entry) in entries.iter().filter(|(place, _)| is_arbiter(place)) {
            if cx.txn.newest(&entry.key).sql()?.value.is_some() {
                return Ok(None);
            }
        }
        break;
    }
    Ok(Some(claimed))
}

/// A repeatable read transaction cannot act on a row that it does not see.
fn check_visible(cx: &ExecContext<'_>, frame: &Frame, newest: &Newest) -> Result<()> {
    if cx.txn.isolation() != Isolation::ReadCommitted
        && newest.own_command.is_none()
        && newest.committed_at > frame.snapshot.read_time
    {
        bail!(SERIALIZATION_FAILURE, "could not serialize access due to concurrent update");
    }
    Ok(())
}

fn check_not_own(frame: &Frame, own_command: &Option<CommandId>) -> Result<()> {
    if own_command.is_some_and(|command| command >= frame.snapshot.command) {
        return Err(err!(
            CARDINALITY_VIOLATION,
            "ON CONFLICT DO UPDATE command cannot affect row a second time"
        )
        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."));
    }
    Ok(())
}

/// Ends the statement: foreign keys and what else waited for its last row.
pub fn end_statement(cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    events::end_statement(cx, frame)
}

/// The type of a column, for those who compile values for it.
pub fn column_type(targets: &Targets, column: usize) -> TypeRef {
    targets.tables[0].relation().columns[column].ty
}
