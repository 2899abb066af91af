//! Foreign keys: does the parent exist, may it go, and what happens to its children.
//!
//! A child's writer locks its parent's row KEY SHARE and then reads its newest state; whoever deletes a parent, or changes
//! its referenced columns, holds UPDATE on the row. So when a parent's key goes, every child that was ever written
//! for it is committed or our own, and a read of the newest state finds them all, at every isolation level. Of a child that
//! another transaction is deleting, or whose key it changes, that transaction's end is waited for.
//!
//! Children are found through an index of theirs that begins with the foreign key's columns (in any order), through
//! their primary key likewise, or else by reading the whole table.

use std::sync::Arc;

use cairn_catalog::{Constraint, ForeignKeyAction, IndexKeyColumn, Relation};
use cairn_txn::{Conflict, Direction, Error as TxnError, KeyRange, RowLockMode};
use cairn_types::key::{ColumnOrder, encode_key_column, prefix_successor};
use cairn_types::row::PhysicalKind;
use cairn_types::{Datum, Error, Numeric, Result, Row, err};

use super::events::{ChildEvent, ParentEvent};
use super::target::column_index;
use super::write::Assigned;
use super::{NEWEST, unique};
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::planner::Planner;
use crate::table::{IndexLayout, TableLayout, key_order, storage_prefix, storage_range};

/// A foreign key, ready to be checked from both sides.
#[derive(Debug)]
pub struct ForeignKey {
    pub constraint: Arc<Constraint>,
    pub child: Arc<TableLayout>,
    pub parent: Arc<TableLayout>,
    /// In the constraint's order.
    pub child_columns: Vec<usize>,
    pub parent_columns: Vec<usize>,
    /// The referenced unique index: places in the constraint's columns with their order, in the index's order.
    parent_key: Vec<(usize, ColumnOrder)>,
    /// The referenced index, if it is not the primary key that orders the rows.
    parent_index: Option<IndexLayout>,
    probe: Probe,
}

/// How the children of a parent are found.
#[derive(Debug)]
enum Probe {
    /// A key space that begins with the foreign key's columns: places in the constraint's columns with their order.
    Prefix {
        storage: cairn_txn::StorageId,
        columns: Vec<(usize, ColumnOrder)>,
        is_index: bool,
    },
    Scan,
}

impl ForeignKey {
    pub(super) fn compile(
        planner: &Planner<'_>,
        constraint: &Arc<Constraint>,
        child: &Arc<Relation>,
        parent: &Arc<Relation>,
    ) -> Result<ForeignKey> {
        let catalog = planner.catalog();
        let broken =
            || Error::internal(format!("foreign key \"{}\" does not fit its index", constraint.name));
        let child_columns: Vec<usize> =
            constraint.columns.iter().map(|attnum| column_index(*attnum)).collect();
        let parent_columns: Vec<usize> =
            constraint.foreign_columns.iter().map(|attnum| column_index(*attnum)).collect();
        let index = parent
            .indexes
            .iter()
            .find(|index| index.oid == constraint.index)
            .or_else(|| parent.primary_key.as_ref().filter(|index| index.oid == constraint.index))
            .ok_or_else(broken)?;
        let mut parent_key = Vec::with_capacity(index.keys.len());
        for key in &index.keys {
            let IndexKeyColumn::Attribute(attnum) = &key.key else { return Err(broken()) };
            let column = column_index(*attnum);
            let place = parent_columns.iter().position(|other| *other == column).ok_or_else(broken)?;
            parent_key.push((place, key_order(key, catalog)));
        }
        let parent_index = (index.storage != parent.storage).then(|| IndexLayout::new(index, catalog));
        let probe = Probe::choose(planner, child, &child_columns);
        Ok(ForeignKey {
            constraint: Arc::clone(constraint),
            child: Arc::new(TableLayout::new(child, catalog)?),
            parent: Arc::new(TableLayout::new(parent, catalog)?),
            child_columns,
            parent_columns,
            parent_key,
            parent_index,
            probe,
        })
    }

    /// Whether the two were made from the same constraint and tables, and so do the same.
    pub(super) fn is_same(&self, other: &ForeignKey) -> bool {
        let relations =
            |key: &ForeignKey| (Arc::as_ptr(&key.child.relation), Arc::as_ptr(&key.parent.relation));
        Arc::ptr_eq(&self.constraint, &other.constraint) && relations(self) == relations(other)
    }

    /// What a change (or else the removal) of a parent's key does to its children.
    fn action(&self, updated: bool) -> ForeignKeyAction {
        if updated { self.constraint.on_update } else { self.constraint.on_delete }
    }

    /// Whether that changes other rows, rather than looking for them.
    pub(super) fn acts(&self, updated: bool) -> bool {
        // RESTRICT is never deferred either.
        self.action(updated) != ForeignKeyAction::NoAction
    }

    /// Whether the row must have a parent (or is at fault itself, under MATCH FULL).
    pub(super) fn needs_check(&self, row: &[Datum]) -> bool {
        let nulls = self.child_columns.iter().filter(|column| row[**column].is_null()).count();
        nulls == 0 || (self.constraint.match_full && nulls < self.child_columns.len())
    }

    /// The key in the referenced index of a parent with these values. `None`: no such parent can exist.
    fn parent_entry(&self, values: &[Datum]) -> Result<Option<Vec<u8>>> {
        let storage = match &self.parent_index {
            Some(index) => index.index.storage,
            None => self.parent.relation.storage,
        };
        let mut key = storage_prefix(storage);
        for (place, order) in &self.parent_key {
            let kind = self.parent.kinds[self.parent_columns[*place]];
            let Some(value) = converted(&values[*place], kind)? else { return Ok(None) };
            encode_key_column(&value, *order, &mut key)?;
        }
        Ok(Some(key))
    }

    /// Whether a parent with these values exists now. With `lock` its row is locked KEY SHARE and stays.
    fn parent_exists(&self, cx: &ExecContext<'_>, values: &[Datum], lock: bool) -> Result<bool> {
        let Some(entry) = self.parent_entry(values)? else { return Ok(false) };
        if self.parent_index.is_none() {
            if lock {
                share_key(cx, &entry)?;
            }
            return Ok(cx.txn.newest(&entry).sql()?.value.is_some());
        }
        let mut row_key = Vec::new();
        loop {
            let Some(value) = cx.txn.newest(&entry).sql()?.value else { return Ok(false) };
            self.parent.key_from_suffix(IndexLayout::suffix(&entry, &value)?, &mut row_key);
            if !lock {
                return Ok(true);
            }
            share_key(cx, &row_key)?;
            // While we waited the entry may have gone, or become another row's.
            if cx.txn.newest(&entry).sql()?.value.as_ref() == Some(&value) {
                return Ok(true);
            }
        }
    }

    /// Whether rows refer to these values and stay: who is deleting one, or changing its key, gets waited for.
    fn has_children(&self, cx: &ExecContext<'_>, frame: &mut Frame, values: &[Datum]) -> Result<bool> {
        let mut wanted = self.child_columns.clone();
        wanted.sort_unstable();
        wanted.dedup();
        let mut row = vec![Datum::Null; self.child.kinds.len()];
        while let Some(key) = self.children(cx, frame, values, 1)?.pop() {
            unique::passing(cx, || share_key(cx, &key))?;
            // Meanwhile the row may have gone, or refer to another parent; then there may be another child.
            if let Some(stored) = cx.txn.newest(&key).sql()?.value {
                self.child.decode(&stored, &wanted, &mut row)?;
                if self.refers(&row, values)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Keys of the rows that refer to these values, at most so many.
    fn children(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        values: &[Datum],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        match &self.probe {
            Probe::Prefix { storage, columns, is_index } => {
                let mut low = storage_prefix(*storage);
                for (place, order) in columns {
                    let kind = self.child.kinds[self.child_columns[*place]];
                    let Some(value) = converted(&values[*place], kind)? else { return Ok(found) };
                    encode_key_column(&value, *order, &mut low)?;
                }
                let high =
                    prefix_successor(&low).ok_or_else(|| Error::internal("a key prefix without end"))?;
                let mut cursor = cx.txn.scan(&NEWEST, KeyRange { low, high }, Direction::Forward).sql()?;
                while found.len() < limit
                    && let Some((key, value)) = cursor.next().sql()?
                {
                    frame.tick(cx)?;
                    if *is_index {
                        let mut row_key = Vec::new();
                        self.child.key_from_suffix(IndexLayout::suffix(key, value)?, &mut row_key);
                        found.push(row_key);
                    } else {
                        found.push(key.to_vec());
                    }
                }
            }
            Probe::Scan => {
                let mut wanted = self.child_columns.clone();
                wanted.sort_unstable();
                wanted.dedup();
                let mut row = vec![Datum::Null; self.child.kinds.len()];
                let range = storage_range(self.child.relation.storage);
                let mut cursor = cx.txn.scan(&NEWEST, range, Direction::Forward).sql()?;
                while found.len() < limit
                    && let Some((key, stored)) = cursor.next().sql()?
                {
                    frame.tick(cx)?;
                    self.child.decode(stored, &wanted, &mut row)?;
                    if self.refers(&row, values)? {
                        found.push(key.to_vec());
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether a child row's columns are these values of a parent.
    fn refers(&self, child: &[Datum], values: &[Datum]) -> Result<bool> {
        for (place, column) in self.child_columns.iter().enumerate() {
            let own = &child[*column];
            if own.is_null() {
                return Ok(false);
            }
            let kind = self.parent.kinds[self.parent_columns[place]];
            match converted(own, kind)? {
                Some(value)
                    if cairn_types::compare::equal(&value, &values[place], self.parent_padded(place)) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn parent_padded(&self, place: usize) -> bool {
        self.parent_key.iter().any(|(other, order)| *other == place && order.blank_padded)
    }

    fn key_text(
        &self,
        cx: &ExecContext<'_>,
        of: &TableLayout,
        columns: &[usize],
        values: &[Datum],
    ) -> String {
        let columns: Vec<_> = columns.iter().map(|column| &of.relation.columns[*column]).collect();
        let names: Vec<String> = columns.iter().map(|column| column.name.to_string()).collect();
        let values: Vec<_> = values.iter().cloned().zip(columns.iter().map(|column| column.ty.oid)).collect();
        unique::describe_key(cx, &names, &values)
    }

    fn error(&self, cx: &ExecContext<'_>, message: String, detail: String) -> Error {
        let child = &self.child.relation;
        err!(FOREIGN_KEY_VIOLATION, "{message}")
            .detail(detail)
            .table(cx.catalog.namespace_name(child.namespace).to_string(), child.name.to_string())
            .constraint(self.constraint.name.to_string())
    }

    #[cold]
    fn missing_parent(&self, cx: &ExecContext<'_>, values: &[Datum]) -> Error {
        let message = format!(
            "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
            self.child.relation.name, self.constraint.name
        );
        if values.iter().any(Datum::is_null) {
            return self.error(
                cx,
                message,
                "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned(),
            );
        }
        let key = self.key_text(cx, &self.child, &self.child_columns, values);
        let detail = format!("{key} is not present in table \"{}\".", self.parent.relation.name);
        self.error(cx, message, detail)
    }

    #[cold]
    fn still_referenced(&self, cx: &ExecContext<'_>, values: &[Datum]) -> Error {
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            self.parent.relation.name, self.constraint.name, self.child.relation.name
        );
        let key = self.key_text(cx, &self.parent, &self.parent_columns, values);
        let detail = format!("{key} is still referenced from table \"{}\".", self.child.relation.name);
        self.error(cx, message, detail)
    }
}

/// Locks a row so that it keeps its key.
fn share_key(cx: &ExecContext<'_>, key: &[u8]) -> Result<()> {
    match cx.txn.lock_row(key, RowLockMode::KeyShare, unique::wait(cx)) {
        // PostgreSQL's checks lock rows by a SELECT, which makes no difference between the two.
        Err(TxnError::Serialization(Conflict::Delete)) => Err(TxnError::Serialization(Conflict::Update)),
        locked => locked,
    }
    .sql()?;
    Ok(())
}

impl Probe {
    fn choose(planner: &Planner<'_>, child: &Relation, columns: &[usize]) -> Probe {
        for index in child.primary_key.iter().chain(&child.indexes) {
            if index.predicate.is_some() || !index.valid || index.keys.len() < columns.len() {
                continue;
            }
            let leading = index.keys.iter().take(columns.len()).map(|key| match key.key {
                IndexKeyColumn::Attribute(attnum) => {
                    let place = columns.iter().position(|column| *column == column_index(attnum))?;
                    Some((place, key_order(key, planner.catalog())))
                }
                IndexKeyColumn::Expression(_) => None,
            });
            let Some(leading) = leading.collect::<Option<Vec<_>>>() else { continue };
            // The same column twice in front is no help.
            if (0..columns.len()).all(|place| leading.iter().any(|(other, _)| *other == place)) {
                let is_index = index.storage != child.storage;
                return Probe::Prefix { storage: index.storage, columns: leading, is_index };
            }
        }
        Probe::Scan
    }
}

/// The value in the form of the other side's column type; `None` if that type has no such value.
fn converted(value: &Datum, kind: PhysicalKind) -> Result<Option<Datum>> {
    let same_encoding = |a, b| {
        use PhysicalKind::{Float4, Float8, Int2, Int4, Int8};
        a == b
            || matches!((a, b), (Int2 | Int4 | Int8, Int2 | Int4 | Int8) | (Float4 | Float8, Float4 | Float8))
    };
    let Some(given) = PhysicalKind::of(value) else { return Ok(Some(Datum::Null)) };
    if same_encoding(given, kind) {
        return Ok(Some(value.clone()));
    }
    let integer = |value: &Datum| match value {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    };
    match (value, kind) {
        (Datum::Numeric(number), PhysicalKind::Int2 | PhysicalKind::Int4 | PhysicalKind::Int8) => {
            // Only a whole number can be the same.
            let Ok(rounded) = number.to_i64() else { return Ok(None) };
            Ok((Numeric::from(rounded) == **number).then_some(Datum::Int8(rounded)))
        }
        (value, PhysicalKind::Numeric) if integer(value).is_some() => {
            Ok(integer(value).map(|value| Datum::Numeric(Arc::new(Numeric::from(value)))))
        }
        (value, PhysicalKind::Float8 | PhysicalKind::Float4) if integer(value).is_some() => {
            Ok(integer(value).map(|value| Datum::Float8(value as f64)))
        }
        _ => Err(Error::unsupported("a foreign key between columns of these types is")),
    }
}

/// 23503 unless the child's parent is there.
pub(super) fn check_child(cx: &ExecContext<'_>, event: &ChildEvent) -> Result<()> {
    let key = &event.key;
    // A row that was deleted or changed again meanwhile has its own event, or needs none.
    let Some(stored) = cx.txn.newest(&event.row_key).sql()?.value else { return Ok(()) };
    let mut row = vec![Datum::Null; key.child.kinds.len()];
    let mut wanted = key.child_columns.clone();
    wanted.sort_unstable();
    wanted.dedup();
    key.child.decode(&stored, &wanted, &mut row)?;
    let is_current =
        |(column, value): (&usize, &Datum)| cairn_types::compare::equal(&row[*column], value, false);
    if !key.child_columns.iter().zip(&event.values).all(is_current) {
        return Ok(());
    }
    if event.values.iter().any(Datum::is_null) || !key.parent_exists(cx, &event.values, true)? {
        return Err(key.missing_parent(cx, &event.values));
    }
    Ok(())
}

/// A parent's key has gone: refuses, or changes its children.
pub(super) fn check_parent(cx: &ExecContext<'_>, frame: &mut Frame, event: &ParentEvent) -> Result<()> {
    let key = &event.key;
    match key.action(event.new.is_some()) {
        ForeignKeyAction::NoAction => {
            // Somebody may have taken the key over before the statement ended.
            if !key.parent_exists(cx, &event.old, false)? && key.has_children(cx, frame, &event.old)? {
                return Err(key.still_referenced(cx, &event.old));
            }
            Ok(())
        }
        ForeignKeyAction::Restrict => {
            if key.has_children(cx, frame, &event.old)? {
                return Err(key.still_referenced(cx, &event.old));
            }
            Ok(())
        }
        action @ (ForeignKeyAction::Cascade | ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault) => {
            cascade(cx, frame, event, action)
        }
    }
}

fn cascade(
    cx: &ExecContext<'_>,
    frame: &mut Frame,
    event: &ParentEvent,
    action: ForeignKeyAction,
) -> Result<()> {
    let key = &event.key;
    let Some(target) = event.child.and_then(|place| event.targets.tables.get(place)) else {
        return Err(Error::internal("a cascade into a table that was not planned"));
    };
    let deletes = event.new.is_none() && action == ForeignKeyAction::Cascade;
    let mode = if deletes { RowLockMode::Remove } else { RowLockMode::NoKeyUpdate };
    let columns: Vec<usize> = match action {
        ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault
            if event.new.is_none() && !key.constraint.on_delete_columns.is_empty() =>
        {
            key.constraint.on_delete_columns.iter().map(|attnum| column_index(*attnum)).collect()
        }
        _ => key.child_columns.clone(),
    };
    let assigned = Assigned::new(target, columns.iter().copied());
    for row_key in key.children(cx, frame, &event.old, usize::MAX)? {
        frame.tick(cx)?;
        cx.txn.lock_row(&row_key, mode, unique::wait(cx)).sql()?;
        let Some(stored) = cx.txn.newest(&row_key).sql()?.value else { continue };
        target.clear_row(frame);
        target.load(frame, &stored)?;
        if !key.refers(target.row(frame), &event.old)? {
            continue;
        }
        if deletes {
            target.delete_row(cx, frame, &event.targets, &row_key)?;
            continue;
        }
        let mut old: Row = target.row(frame).to_vec();
        for &column in &columns {
            let value = match (action, &event.new) {
                (ForeignKeyAction::Cascade, Some(new)) => {
                    let place = key.child_columns.iter().position(|other| *other == column);
                    let value = place.map(|place| (&new[place], target.layout.kinds[column]));
                    match value {
                        Some((value, kind)) => narrowed(value, kind)?,
                        None => continue,
                    }
                }
                (ForeignKeyAction::SetDefault, _) => {
                    match target.defaults.iter().find(|(other, _)| *other == column) {
                        Some((_, code)) => code.eval(cx, frame)?,
                        None => Datum::Null,
                    }
                }
                _ => Datum::Null,
            };
            frame.registers[target.first + column] = value;
        }
        target.generate(cx, frame)?;
        target.check_row(cx, frame)?;
        target.update_row(cx, frame, &event.targets, &mut old, &row_key, &assigned)?;
    }
    Ok(())
}

/// A parent's new value for a child's column.
fn narrowed(value: &Datum, kind: PhysicalKind) -> Result<Datum> {
    let out_of_range = || match kind {
        PhysicalKind::Int2 => err!(NUMERIC_VALUE_OUT_OF_RANGE, "smallint out of range"),
        PhysicalKind::Int4 => err!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"),
        _ => err!(NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"),
    };
    let value = converted(value, kind)?.ok_or_else(out_of_range)?;
    let wide = match &value {
        Datum::Int2(value) => i64::from(*value),
        Datum::Int4(value) => i64::from(*value),
        Datum::Int8(value) => *value,
        _ => return Ok(value),
    };
    Ok(match kind {
        PhysicalKind::Int2 => Datum::Int2(i16::try_from(wide).map_err(|_| out_of_range())?),
        PhysicalKind::Int4 => Datum::Int4(i32::try_from(wide).map_err(|_| out_of_range())?),
        PhysicalKind::Int8 => Datum::Int8(wide),
        _ => value,
    })
}
