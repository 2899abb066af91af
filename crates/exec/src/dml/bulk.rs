//! Writing rows without a statement (COPY), and an index's values of rows that somebody else has read (ANALYZE).
//!
//! Rows go the way of [`super::write`]. Where the table was created in this transaction (and savepoint), they go past the
//! transaction's memory straight into the store.

use std::sync::Arc;

use cairn_catalog::{Index, Relation};
use cairn_types::{Datum, Error, Result};

use super::target::{Changes, Purpose, Targets, default_expr};
use super::write::{BulkPaths, Claimed};
use super::{event_log, events, scratch};
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::expr::Code;
use crate::planner::{PlanContext, Planner};

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
        let targets = Targets::compile(
            &mut planner,
            relation,
            Purpose { changes: Changes { inserts: true, ..Changes::default() }, constraints: true },
        )?;
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
        let mut planner = Planner::new(*plan);
        let purpose = Purpose { changes: Changes::default(), constraints: false };
        let targets = Targets::compile(&mut planner, &Arc::new(only), purpose)?;
        let frame = scratch::frame(planner.registers, cx.txn.snapshot().sql()?);
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
