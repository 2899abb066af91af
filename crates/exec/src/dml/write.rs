//! Writing one row with its index entries: the heart of INSERT, UPDATE, DELETE, COPY and cascades.
//!
//! ```text
//! insert: row block complete and checked
//!   primary key: claim it: lock (UPDATE), read its newest state -> 23505 if a row is there
//!   put the row
//!   each index:  unique entry: claim its key -> 23505; put the entry
//!   queue foreign key checks
//! update: old row locked and known, row block holds the new one
//!   a key that foreign keys may refer to changes -> lock UPDATE (the caller has NO KEY UPDATE)
//!   the primary key changes -> claim the new one as for insert; delete the old row
//!   put the row
//!   each index that depends on an assigned column (all, if the row's key changes): entries differ -> delete old, insert new
//! delete: old row locked (UPDATE): delete the row and its entries
//! ```
//! Removing a unique entry locks its key, so that whoever wants the value waits for the end of this transaction.
//!
//! A table that this transaction created is written past the transaction's memory (`bulk`); nobody else sees it, so
//! nothing is locked, but a duplicate key is still looked for.

use cairn_types::key::check_key_size;
use cairn_types::{Datum, Error, Result};
use smallvec::SmallVec;

use super::events::{ChildEvent, Event, ParentEvent};
use super::target::{Entry, IndexTarget, Target, Targets};
use super::unique::{self, DeferredUnique};
use super::{lock_rows, row_number};
use crate::context::{ExecContext, Frame};
use crate::error::TxnResultExt;
use crate::table::{IndexLayout, TableLayout};

/// Which key spaces of a table take rows directly; looked up once a statement.
#[derive(Clone, Debug, Default)]
pub struct BulkPaths {
    pub table: bool,
    pub indexes: SmallVec<[bool; 4]>,
}

impl BulkPaths {
    pub fn of(cx: &ExecContext<'_>, target: &Target) -> Self {
        let can = |storage| cx.txn.can_bulk_load(storage);
        BulkPaths {
            table: can(target.relation().storage),
            indexes: target.indexes.iter().map(|index| can(index.layout.index.storage)).collect(),
        }
    }
}

fn put(cx: &ExecContext<'_>, bulk: bool, key: &[u8], value: &[u8]) -> Result<()> {
    if bulk { cx.txn.bulk_put(key, value).sql() } else { cx.txn.put(key, value).sql() }
}

impl Target {
    /// The key that the row in the row block will have.
    pub(super) fn new_key(&self, cx: &ExecContext<'_>, frame: &Frame) -> Result<Vec<u8>> {
        if self.layout.has_hidden_key() {
            Ok(self.layout.hidden_key(row_number::next(cx.store.as_ref())))
        } else {
            self.layout.new_row_key(self.row(frame))
        }
    }

    /// Inserts the row in the row block, which is complete and checked, under `key`. `claimed`: places in
    /// [`Target::indexes`] whose key is locked and known to be free, and whether the primary key is.
    pub(super) fn insert_row(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        key: &[u8],
        bulk: &BulkPaths,
        claimed: &Claimed,
    ) -> Result<()> {
        if !self.layout.has_hidden_key() && !claimed.primary {
            self.claim_primary(cx, frame, key, bulk.table)?;
        }
        frame.note_write(cx.txn.command());
        self.put_row(cx, frame, key, bulk.table)?;
        for (place, index) in self.indexes.iter().enumerate() {
            let Some(values) = index.values(cx, frame, self.first)? else { continue };
            let entry = index.entry_of(&values, key)?;
            let bulk = bulk.indexes.get(place).copied().unwrap_or(false);
            let is_claimed = claimed.indexes.contains(&place);
            self.add_entry(cx, frame, index, &values, &entry, bulk, is_claimed)?;
        }
        self.queue_child_checks(frame, key, None)?;
        self.counted.count(cx, cairn_txn::Event::Insert, 1);
        Ok(())
    }

    fn put_row(&self, cx: &ExecContext<'_>, frame: &Frame, key: &[u8], bulk: bool) -> Result<()> {
        let mut value = Vec::with_capacity(128);
        self.layout.encode(self.row(frame), &mut value);
        put(cx, bulk, key, &value)
    }

    /// 23505 if the primary key in the row block is taken.
    fn claim_primary(&self, cx: &ExecContext<'_>, frame: &Frame, key: &[u8], bulk: bool) -> Result<()> {
        let newest = if bulk { cx.txn.newest(key).sql()? } else { unique::claim(cx, key)? };
        if newest.value.is_some() { Err(self.primary_violation(cx, frame)) } else { Ok(()) }
    }

    #[cold]
    fn primary_violation(&self, cx: &ExecContext<'_>, frame: &Frame) -> Error {
        let relation = self.relation();
        let row = self.row(frame);
        let names: Vec<String> =
            self.primary.iter().map(|column| relation.columns[*column].name.to_string()).collect();
        let values: Vec<_> = self
            .primary
            .iter()
            .map(|column| (row[*column].clone(), relation.columns[*column].ty.oid))
            .collect();
        let index = relation.primary_key.as_ref().map_or("", |index| &index.name);
        unique::violation(cx, &self.layout, index, &unique::describe_key(cx, &names, &values))
    }

    #[expect(clippy::too_many_arguments, reason = "one entry's whole story; a struct would only rename them")]
    fn add_entry(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        index: &IndexTarget,
        values: &[Datum],
        entry: &Entry,
        bulk: bool,
        claimed: bool,
    ) -> Result<()> {
        IndexLayout::check_key_size(&entry.key, &entry.value)?;
        if entry.unique && !claimed {
            let newest = if bulk { cx.txn.newest(&entry.key).sql()? } else { unique::claim(cx, &entry.key)? };
            if newest.value.is_some() {
                return Err(unique::violation(
                    cx,
                    &self.layout,
                    &index.layout.index.name,
                    &index.describe(cx, values),
                ));
            }
        }
        put(cx, bulk, &entry.key, &entry.value)?;
        let nulls_are_equal = index.layout.index.nulls_not_distinct;
        if let Some(constraint) = &index.deferrable
            && (nulls_are_equal || !values.iter().any(Datum::is_null))
        {
            let check = DeferredUnique::new(cx, constraint, &self.layout, index, values)?;
            frame.events.push(Event::Unique(check))?;
        }
        Ok(())
    }

    fn remove_entry(&self, cx: &ExecContext<'_>, entry: &Entry) -> Result<()> {
        if entry.unique {
            cx.txn.lock_row(&entry.key, cairn_txn::RowLockMode::Remove, unique::wait(cx)).sql()?;
        }
        cx.txn.delete(&entry.key).sql()
    }

    /// Entries of an old row in the indexes that `chosen` picks, by place. The row block is as before afterwards.
    fn old_entries(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        old: &mut Vec<Datum>,
        key: &[u8],
        chosen: impl Fn(&IndexTarget) -> bool,
    ) -> Result<SmallVec<[(usize, Option<Entry>); 4]>> {
        let mut entries = SmallVec::new();
        if !self.indexes.iter().any(&chosen) {
            return Ok(entries);
        }
        self.swap(frame, old);
        let mut result = Ok(());
        for (place, index) in self.indexes.iter().enumerate().filter(|(_, index)| chosen(index)) {
            match index.entry(cx, frame, self.first, key) {
                Ok(entry) => entries.push((place, entry)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.swap(frame, old);
        result.map(|()| entries)
    }

    fn swap(&self, frame: &mut Frame, row: &mut Vec<Datum>) {
        row.resize(self.layout.kinds.len(), Datum::Null);
        self.row_mut(frame).swap_with_slice(row);
    }

    /// Updates a row that is locked. The row block holds the new row, complete and checked; `old` the old one, `assigned`
    /// the columns that may differ. Returns the row's new key.
    pub(super) fn update_row(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        targets: &std::sync::Arc<Targets>,
        old: &mut Vec<Datum>,
        old_key: &[u8],
        assigned: &Assigned,
    ) -> Result<Option<Vec<u8>>> {
        let differs = |frame: &Frame, column: usize| {
            !cairn_types::compare::equal(&old[column], &frame.registers[self.first + column], false)
        };
        let mode =
            if assigned.primary { cairn_txn::RowLockMode::Remove } else { cairn_txn::RowLockMode::Update };
        if assigned.keys.iter().any(|column| differs(frame, *column)) {
            cx.txn.lock_row(old_key, mode, unique::wait(cx)).sql()?;
        }
        frame.note_write(cx.txn.command());
        let mut moved = None;
        if assigned.primary {
            let key = self.layout.row_key(self.row(frame))?;
            if key != old_key {
                check_key_size(key.len())?;
                self.claim_primary(cx, frame, &key, false)?;
                cx.txn.delete(old_key).sql()?;
                moved = Some(key);
            }
        }
        let key = moved.as_deref().unwrap_or(old_key);
        self.put_row(cx, frame, key, false)?;
        let is_moved = moved.is_some();
        let entries = self.old_entries(cx, frame, old, old_key, |index| {
            is_moved || index.depends_on_any(&assigned.columns)
        })?;
        for (place, old_entry) in entries {
            let index = &self.indexes[place];
            let values = index.values(cx, frame, self.first)?;
            let new_entry = values.as_ref().map(|values| index.entry_of(values, key)).transpose()?;
            if old_entry == new_entry {
                continue;
            }
            let same_key = matches!((&old_entry, &new_entry), (Some(old), Some(new)) if old.key == new.key);
            match &old_entry {
                // The entry of a moved row is overwritten in place.
                Some(_) if same_key => {}
                Some(entry) => self.remove_entry(cx, entry)?,
                None => {}
            }
            if let (Some(entry), Some(values)) = (&new_entry, &values) {
                self.add_entry(cx, frame, index, values, entry, false, same_key)?;
            }
        }
        self.queue_child_checks(frame, key, Some((old, assigned)))?;
        self.queue_parent_checks(frame, targets, old, true)?;
        self.counted.count(cx, cairn_txn::Event::Update, 1);
        Ok(moved)
    }

    /// Deletes a row that is locked; the row block holds it.
    pub(super) fn delete_row(
        &self,
        cx: &ExecContext<'_>,
        frame: &mut Frame,
        targets: &std::sync::Arc<Targets>,
        key: &[u8],
    ) -> Result<()> {
        frame.note_write(cx.txn.command());
        cx.txn.delete(key).sql()?;
        for index in &self.indexes {
            if let Some(entry) = index.entry(cx, frame, self.first, key)? {
                self.remove_entry(cx, &entry)?;
            }
        }
        if !self.referenced_by.is_empty() {
            let old = self.row(frame).to_vec();
            self.queue_parent_checks(frame, targets, &old, false)?;
        }
        self.counted.count(cx, cairn_txn::Event::Delete, 1);
        Ok(())
    }

    /// Foreign keys of the row in the row block; after an update those only whose columns changed.
    fn queue_child_checks(
        &self,
        frame: &mut Frame,
        key: &[u8],
        update: Option<(&[Datum], &Assigned)>,
    ) -> Result<()> {
        for foreign in &self.foreign_keys {
            let row = self.row(frame);
            let unchanged = update.is_some_and(|(old, assigned)| {
                foreign.child_columns.iter().all(|column| {
                    !assigned.columns.contains(column)
                        || cairn_types::compare::equal(&old[*column], &row[*column], false)
                })
            });
            if unchanged || !foreign.needs_check(row) {
                continue;
            }
            let values = foreign.child_columns.iter().map(|column| row[*column].clone()).collect();
            let event = ChildEvent { key: foreign.clone(), row_key: key.to_vec(), values };
            frame.events.push(Event::Child(event))?;
        }
        Ok(())
    }

    /// Foreign keys of others to the old row. After an update the row block holds the new one.
    fn queue_parent_checks(
        &self,
        frame: &mut Frame,
        targets: &std::sync::Arc<Targets>,
        old: &[Datum],
        updated: bool,
    ) -> Result<()> {
        for (foreign, child) in &self.referenced_by {
            let of = |row: &[Datum]| -> Vec<Datum> {
                foreign.parent_columns.iter().map(|column| row[*column].clone()).collect()
            };
            let before = of(old);
            // Nobody refers to a key with a null in it.
            if before.iter().any(Datum::is_null) {
                continue;
            }
            let after = updated.then(|| of(self.row(frame)));
            let is_same = |after: &Vec<Datum>| {
                before.iter().zip(after).all(|(a, b)| cairn_types::compare::equal(a, b, false))
            };
            if after.as_ref().is_some_and(is_same) {
                continue;
            }
            frame.events.push(Event::Parent(ParentEvent {
                key: foreign.clone(),
                targets: targets.clone(),
                child: *child,
                old: before,
                new: after,
            }))?;
        }
        Ok(())
    }
}

/// The columns that an UPDATE assigns, sorted out at planning.
#[derive(Clone, Debug, Default)]
pub struct Assigned {
    /// Generated columns included; ascending.
    pub columns: Vec<usize>,
    /// Those that foreign keys may refer to.
    pub keys: Vec<usize>,
    /// Whether a primary key column is among them.
    pub primary: bool,
}

impl Assigned {
    pub fn new(target: &Target, set: impl IntoIterator<Item = usize>) -> Self {
        let mut columns: Vec<usize> =
            set.into_iter().chain(target.generated.iter().map(|(column, _)| *column)).collect();
        columns.sort_unstable();
        columns.dedup();
        let keys = columns.iter().copied().filter(|column| target.key_columns.contains(column)).collect();
        let primary = columns.iter().any(|column| target.primary.contains(column));
        Assigned { columns, keys, primary }
    }
}

/// Keys that were locked and found free before the insert (ON CONFLICT).
#[derive(Clone, Debug, Default)]
pub struct Claimed {
    pub primary: bool,
    /// Places in [`Target::indexes`].
    pub indexes: SmallVec<[usize; 4]>,
}

/// The stable row identifier that `ctid` shows.
pub fn row_identifier(layout: &TableLayout, key: &[u8]) -> Result<u64> {
    if layout.has_hidden_key() {
        return TableLayout::hidden_number(key);
    }
    // A fingerprint of the key: the same as long as the row has it (FNV-1a, whose bytes never change).
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    Ok(hash)
}

/// Locks a row of a table for a write and tells whether it may go on; see [`lock_rows::lock_current`].
pub(super) use lock_rows::{Current, lock_current};
