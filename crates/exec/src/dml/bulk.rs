//! Writing rows without a statement: COPY, index builds, table rewrites, validation of new constraints.
//!
//! All of them go the way of [`super::write`]. Where the table or index was created in this transaction (and savepoint),
//! rows go past the transaction's memory straight into the store.

use std::sync::Arc;

use cairn_catalog::{Constraint, ConstraintKind, Index, Relation};
use cairn_txn::{Direction, Transaction};
use cairn_types::{Datum, Error, Result, err};

use super::events::{self, ChildEvent};
use super::foreign_key;
use super::target::{Purpose, Targets, default_expr};
use super::write::{BulkPaths, Claimed};
use super::{NEWEST, event_log, scratch};
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::expr::Code;
use crate::planner::{PlanContext, Planner};
use crate::table::{TableLayout, storage_range};

/// Compiles a table outside of any plan; the frame has the registers that it needs.
fn open(
    cx: &ExecContext<'_>,
    plan: &PlanContext<'_>,
    relation: &Arc<Relation>,
    constraints: bool,
) -> Result<(Arc<Targets>, Frame)> {
    let mut planner = Planner::new(*plan);
    let targets = Targets::compile(&mut planner, relation, Purpose { removes: false, constraints })?;
    let frame = scratch::frame(planner.registers, cx.txn.snapshot().sql()?);
    Ok((targets, frame))
}

/// Inserts many rows into a table: COPY's way in.
///
/// ```text
/// let mut loader = Loader::new(cx, plan, relation, Some(&columns))?;
/// for each row: loader.insert(cx, values)?;
/// let rows = loader.finish(cx)?;
/// ```
/// All checks of INSERT are made, those of foreign keys in `finish`.
pub struct Loader {
    targets: Arc<Targets>,
    frame: Frame,
    bulk: BulkPaths,
    /// Columns that the caller gives, in its order.
    given: Vec<usize>,
    /// The others, with their defaults.
    defaults: Vec<(usize, Code)>,
    /// No foreign key refers to the table itself: checks need not wait for its last row.
    checks_early: bool,
    rows: u64,
}

impl Loader {
    /// `columns`: attribute numbers that each row gives values for, in order; `None`: all, in the table's order. The others get
    /// their defaults. Generated columns must not be among them.
    pub fn new(
        cx: &ExecContext<'_>,
        plan: &PlanContext<'_>,
        relation: &Arc<Relation>,
        columns: Option<&[i16]>,
    ) -> Result<Loader> {
        let mut planner = Planner::new(*plan);
        let targets =
            Targets::compile(&mut planner, relation, Purpose { removes: false, constraints: true })?;
        let target = &targets.tables[0];
        let given: Vec<usize> = match columns {
            Some(columns) => columns.iter().map(|attnum| super::target::column_index(*attnum)).collect(),
            None => {
                target.live.iter().copied().filter(|column| !relation.columns[*column].generated).collect()
            }
        };
        let mut defaults = Vec::new();
        for &column in target.live.iter().filter(|column| !given.contains(column)) {
            if let Some(expr) = default_expr(&planner, relation, column)? {
                defaults.push((column, planner.compile(&expr)?));
            }
        }
        let bulk = BulkPaths::of(cx, target);
        let frame = scratch::frame(planner.registers, cx.txn.snapshot().sql()?);
        let checks_early = target.foreign_keys.iter().all(|key| key.constraint.foreign_table != relation.oid)
            && target.indexes.iter().all(|index| index.deferrable.is_none());
        Ok(Loader { targets, frame, bulk, given, defaults, checks_early, rows: 0 })
    }

    /// Inserts a row of the given columns' values.
    pub fn insert(&mut self, cx: &ExecContext<'_>, values: impl IntoIterator<Item = Datum>) -> Result<()> {
        let target = &self.targets.tables[0];
        let frame = &mut self.frame;
        frame.tick(cx)?;
        let mut values = values.into_iter();
        for column in &self.given {
            let value = values.next().ok_or_else(|| Error::internal("a row with too few values"))?;
            frame.registers[target.first + column] = value;
        }
        for (column, code) in &self.defaults {
            let value = code.eval(cx, frame)?;
            frame.registers[target.first + column] = value;
        }
        target.generate(cx, frame)?;
        target.check_row(cx, frame)?;
        let key = target.new_key(cx, frame)?;
        target.insert_row(cx, frame, &key, &self.bulk, &Claimed::default())?;
        self.rows += 1;
        if self.checks_early && frame.events.len() >= event_log::IN_MEMORY {
            events::end_statement(cx, frame)?;
        }
        Ok(())
    }

    /// Checks what waited for the last row; the number of rows.
    pub fn finish(mut self, cx: &ExecContext<'_>) -> Result<u64> {
        events::end_statement(cx, &mut self.frame)?;
        Ok(self.rows)
    }
}

/// Inserts all rows of an iterator, each with a value for every column that is not generated. Returns how many.
pub fn insert_rows(
    cx: &ExecContext<'_>,
    plan: &PlanContext<'_>,
    relation: &Arc<Relation>,
    rows: impl IntoIterator<Item = Result<Vec<Datum>>>,
) -> Result<u64> {
    let mut loader = Loader::new(cx, plan, relation, None)?;
    for row in rows {
        loader.insert(cx, row?)?;
    }
    loader.finish(cx)
}

/// Calls `each` with key and stored row of every row that there is now.
fn each_row(
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    layout: &TableLayout,
    mut each: impl FnMut(&mut Frame, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor =
        cx.txn.scan(&NEWEST, storage_range(layout.relation.storage), Direction::Forward).sql()?;
    while let Some((key, row)) = cursor.next().sql()? {
        frame.tick(cx)?;
        each(frame, key, row)?;
    }
    Ok(())
}

/// Makes the entries of a new index of the table, for all rows that there are. The caller holds a lock that keeps
/// writers away. Errors: 23505 (`could not create unique index`).
pub fn build_index(
    cx: &ExecContext<'_>,
    plan: &PlanContext<'_>,
    relation: &Arc<Relation>,
    index: &Arc<Index>,
) -> Result<()> {
    if index.storage == relation.storage {
        return Ok(());
    }
    let mut only = Relation::clone(relation);
    only.indexes = vec![Arc::clone(index)];
    let (targets, mut frame) = open(cx, plan, &Arc::new(only), false)?;
    let target = &targets.tables[0];
    let entries = &target.indexes[0];
    let bulk = cx.txn.can_bulk_load(index.storage);
    each_row(cx, &mut frame, &target.layout, |frame, key, row| {
        target.load(frame, row)?;
        let Some(values) = entries.values(cx, frame, target.first)? else { return Ok(()) };
        let entry = entries.entry_of(&values, key)?;
        let is_duplicate = if entry.unique {
            cx.txn.newest(&entry.key).sql()?.value.is_some()
        } else if entries.deferrable.is_some() && !values.iter().any(Datum::is_null) {
            has_entry_with(cx.txn.as_ref(), &entries.layout.encode_columns(&values)?)?
        } else {
            false
        };
        if is_duplicate {
            return Err(err!(UNIQUE_VIOLATION, "could not create unique index \"{}\"", index.name)
                .detail(format!("{} is duplicated.", entries.describe(cx, &values)))
                .table(cx.catalog.namespace_name(relation.namespace).to_string(), relation.name.to_string())
                .constraint(index.name.to_string()));
        }
        if bulk {
            cx.txn.bulk_put(&entry.key, &entry.value).sql()
        } else {
            cx.txn.put(&entry.key, &entry.value).sql()
        }
    })
}

/// What an index has for rows of its table: the values of its keys.
pub struct IndexValues {
    targets: Arc<Targets>,
    frame: Frame,
}

impl IndexValues {
    /// `index` must not be the one that orders the table's rows.
    pub fn new(
        cx: &ExecContext<'_>,
        plan: &PlanContext<'_>,
        relation: &Arc<Relation>,
        index: &Arc<Index>,
    ) -> Result<IndexValues> {
        let mut only = Relation::clone(relation);
        only.indexes = vec![Arc::clone(index)];
        let (targets, frame) = open(cx, plan, &Arc::new(only), false)?;
        Ok(IndexValues { targets, frame })
    }

    /// The keys of a stored row; `None` if the index leaves it out.
    pub fn of_row(&mut self, cx: &ExecContext<'_>, row: &[u8]) -> Result<Option<Vec<Datum>>> {
        let target = &self.targets.tables[0];
        let Some(entries) = target.indexes.first() else { return Ok(None) };
        target.load(&mut self.frame, row)?;
        Ok(entries.values(cx, &mut self.frame, target.first)?.map(|values| values.into_vec()))
    }
}

fn has_entry_with(txn: &dyn Transaction, prefix: &[u8]) -> Result<bool> {
    let high = cairn_types::key::prefix_successor(prefix)
        .ok_or_else(|| Error::internal("a key prefix without end"))?;
    let range = cairn_txn::KeyRange { low: prefix.to_vec(), high };
    let mut cursor = txn.scan(&NEWEST, range, Direction::Forward).sql()?;
    Ok(cursor.next().sql()?.is_some())
}

/// Copies all rows of `old` into `new`, which has storage ids of its own (also for its indexes), made in this transaction.
///
/// `transform` gets a row of `old` by attribute number (null where a column was dropped) and gives one of `new`. Generated columns,
/// NOT NULL, CHECK and unique constraints of `new` are computed and checked; foreign keys are not. A row with a hidden
/// number keeps it. Errors: 23502, 23514, 23505.
pub fn rewrite_table(
    cx: &ExecContext<'_>,
    plan: &PlanContext<'_>,
    old: &Arc<Relation>,
    new: &Arc<Relation>,
    mut transform: impl FnMut(Vec<Datum>) -> Result<Vec<Datum>>,
) -> Result<u64> {
    // Foreign keys hold before and after: the values that they look at stay.
    let mut unreferenced = Relation::clone(new);
    unreferenced.constraints.retain(|constraint| constraint.kind != ConstraintKind::ForeignKey);
    let (targets, mut frame) = open(cx, plan, &Arc::new(unreferenced), true)?;
    let target = &targets.tables[0];
    let old_layout = TableLayout::new(old, plan.catalog)?;
    let bulk = BulkPaths::of(cx, target);
    let keeps_number = old_layout.has_hidden_key() && target.layout.has_hidden_key();
    let mut rows = 0;
    let rename = |error: Error| creation_error(error);
    each_row(cx, &mut frame, &old_layout, |frame, key, row| {
        let values = transform(old_layout.decode_all(row)?)?;
        target.clear_row(frame);
        for (register, value) in target.row_mut(frame).iter_mut().zip(values) {
            *register = value;
        }
        target.generate(cx, frame)?;
        target.check_row(cx, frame).map_err(existing_rows_error)?;
        let new_key = if keeps_number {
            target.layout.hidden_key(TableLayout::hidden_number(key)?)
        } else {
            target.new_key(cx, frame)?
        };
        target.insert_row(cx, frame, &new_key, &bulk, &Claimed::default()).map_err(rename)?;
        rows += 1;
        Ok(())
    })?;
    Ok(rows)
}

/// A duplicate that is met while a key is being made is worded as PostgreSQL words a failed index build.
fn creation_error(mut error: Error) -> Error {
    if error.sqlstate() == cairn_types::sqlstate::UNIQUE_VIOLATION {
        let report = error.report_mut();
        if let Some(constraint) = &report.constraint {
            report.message = format!("could not create unique index \"{constraint}\"");
        }
        if let Some(detail) = &mut report.detail {
            *detail = detail.replace(" already exists.", " is duplicated.");
        }
    }
    error
}

/// A constraint that an existing row breaks is worded as ALTER TABLE words it.
fn existing_rows_error(mut error: Error) -> Error {
    let report = error.report_mut();
    let table = report.table.clone().unwrap_or_default();
    match (report.sqlstate, &report.column, &report.constraint) {
        (cairn_types::sqlstate::NOT_NULL_VIOLATION, Some(column), _) => {
            report.message = format!("column \"{column}\" of relation \"{table}\" contains null values");
            report.detail = None;
        }
        (cairn_types::sqlstate::CHECK_VIOLATION, _, Some(constraint)) => {
            report.message =
                format!("check constraint \"{constraint}\" of relation \"{table}\" is violated by some row");
            report.detail = None;
        }
        _ => {}
    }
    error
}

/// Checks that every row of the table obeys a constraint that is being added: CHECK or FOREIGN KEY.
/// `relation` must list it already. Errors: 23514, 23503.
pub fn validate_constraint(
    cx: &ExecContext<'_>,
    plan: &PlanContext<'_>,
    relation: &Arc<Relation>,
    constraint: &Arc<Constraint>,
) -> Result<()> {
    let mut only = Relation::clone(relation);
    only.constraints = vec![Arc::clone(constraint)];
    only.indexes.clear();
    for column in &mut only.columns {
        column.not_null = false;
    }
    if let Some(full) = plan.catalog.relation(constraint.foreign_table)
        && full.oid == relation.oid
    {
        // A table that refers to itself is its own parent, with all its indexes.
        only.indexes = relation.indexes.clone();
    }
    let (targets, mut frame) = open(cx, plan, &Arc::new(only), true)?;
    let target = &targets.tables[0];
    each_row(cx, &mut frame, &target.layout, |frame, key, row| {
        target.load(frame, row)?;
        target.check_row(cx, frame).map_err(existing_rows_error)?;
        for foreign in &target.foreign_keys {
            if foreign.needs_check(target.row(frame)) {
                let row = target.row(frame);
                let values = foreign.child_columns.iter().map(|column| row[*column].clone()).collect();
                let event = ChildEvent { key: Arc::clone(foreign), row_key: key.to_vec(), values };
                foreign_key::check_child(cx, &event)?;
            }
        }
        Ok(())
    })
}

/// Checks that no row has a null in the column (ALTER COLUMN SET NOT NULL). Errors: 23502.
pub fn validate_not_null(cx: &ExecContext<'_>, relation: &Arc<Relation>, attnum: i16) -> Result<()> {
    let layout = TableLayout::new(relation, cx.catalog)?;
    let column = super::target::column_index(attnum);
    let mut row = vec![Datum::Null; layout.kinds.len()];
    let mut frame = scratch::frame(0, cx.txn.snapshot().sql()?);
    each_row(cx, &mut frame, &layout, |_, _, stored| {
        layout.decode(stored, &[column], &mut row)?;
        if row[column].is_null() {
            let name = &relation.columns[column].name;
            return Err(err!(
                NOT_NULL_VIOLATION,
                "column \"{name}\" of relation \"{}\" contains null values",
                relation.name
            )
            .table(cx.catalog.namespace_name(relation.namespace).to_string(), relation.name.to_string())
            .column(name.to_string()));
        }
        Ok(())
    })
}
