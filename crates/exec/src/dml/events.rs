//! Checks that wait: to the end of the statement, or of the transaction.
//!
//! Foreign keys are looked at when the statement has written all its rows, as PostgreSQL's constraint triggers are: a
//! statement may insert a child before its parent. Rows that a CASCADE changes queue further checks. What is
//! deferrable and deferred (INITIALLY DEFERRED, SET CONSTRAINTS) moves on to the transaction's queue, which the
//! session runs before it commits.
//!
//! A statement may write any number of rows: beyond some thousands, its checks wait in a file. What is deferred to the
//! commit stays in memory.
//!
//! The session owns one [`TransactionConstraints`] for each transaction and calls
//! - [`TransactionConstraints::check`] before COMMIT (an error rolls the transaction back),
//! - [`TransactionConstraints::set_mode`] for SET CONSTRAINTS,
//! - [`TransactionConstraints::mark`] and [`TransactionConstraints::rollback_to`] with its savepoints.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn_catalog::Constraint;
use cairn_types::row::{decode_datum, encode_datum};
use cairn_types::{Datum, Error, Oid, Result, Row};

use super::foreign_key::{self, ForeignKey};
use super::target::Targets;
use super::unique::{self, DeferredUnique};
use crate::context::{ExecContext, Frame};
use crate::spill::{RunFile, RunWriter};
use crate::table::TableLayout;

/// What is to be looked at when the statement ends.
#[derive(Clone, Debug)]
pub enum Event {
    /// A row that refers to a parent was written.
    Child(ChildEvent),
    /// A row that others may refer to lost its key.
    Parent(ParentEvent),
    /// Two rows may have the same value of a deferrable unique constraint.
    Unique(DeferredUnique),
}

#[derive(Clone, Debug)]
pub struct ChildEvent {
    pub key: Arc<ForeignKey>,
    pub row_key: Vec<u8>,
    /// In the order of the constraint's columns.
    pub values: Row,
}

#[derive(Clone, Debug)]
pub struct ParentEvent {
    pub key: Arc<ForeignKey>,
    /// Where a cascade finds how to write the child: tables of the plan, and the child's place among them.
    pub targets: Arc<Targets>,
    pub child: Option<usize>,
    /// Referenced values that the row had, and those that it has now; `None`: it was deleted.
    pub old: Row,
    pub new: Option<Row>,
}

impl Event {
    /// The constraint if it may be deferred. Actions that change rows never are.
    fn deferrable(&self) -> Option<(Oid, bool)> {
        let constraint = match self {
            Event::Child(event) => &event.key.constraint,
            Event::Parent(event) if !event.acts() => &event.key.constraint,
            Event::Parent(_) => return None,
            Event::Unique(event) => &event.constraint,
        };
        constraint.deferrable.then_some((constraint.oid, constraint.deferred))
    }

    fn check(self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        match self {
            Event::Child(event) => foreign_key::check_child(cx, &event),
            Event::Parent(event) => foreign_key::check_parent(cx, frame, &event),
            Event::Unique(event) => unique::check_deferred(cx, &event),
        }
    }
}

/// So many events are kept in memory; those behind them wait in a file.
pub(super) const IN_MEMORY: usize = 4_000;

/// Events of a running statement, first in, first out: in memory, then in the file that is being read, then in the
/// one that is being written.
#[derive(Default)]
pub struct StatementEvents {
    memory: VecDeque<Event>,
    reading: Option<RunFile>,
    writing: Option<RunWriter>,
    /// What events in files have in common, by number.
    shapes: Vec<Shape>,
    length: usize,
}

/// An event without what differs from row to row.
#[derive(Clone, Debug)]
enum Shape {
    Child(Arc<ForeignKey>),
    /// With whether there is a new row.
    Parent(Arc<ForeignKey>, Arc<Targets>, Option<usize>, bool),
    Unique(Arc<Constraint>, Arc<TableLayout>, String),
}

/// Values in a file: the shape's number, a key, datums.
const COLUMNS: usize = 3;

impl std::fmt::Debug for StatementEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementEvents").field("length", &self.length).finish_non_exhaustive()
    }
}

impl StatementEvents {
    pub(super) fn push(&mut self, event: Event) -> Result<()> {
        self.length += 1;
        if self.reading.is_none() && self.writing.is_none() && self.memory.len() < IN_MEMORY {
            self.memory.push_back(event);
            return Ok(());
        }
        let row = self.to_row(event);
        match &mut self.writing {
            Some(writer) => writer.write(&row),
            None => self.writing.insert(RunWriter::new()?).write(&row),
        }
    }

    fn pop(&mut self) -> Result<Option<Event>> {
        let event = match self.memory.pop_front() {
            Some(event) => Some(event),
            None => self.pop_from_file()?,
        };
        self.length -= usize::from(event.is_some());
        Ok(event)
    }

    fn pop_from_file(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(row) = self.reading.as_mut().map(RunFile::next).transpose()?.flatten() {
                return self.from_row(&row).map(Some);
            }
            self.reading = match self.writing.take() {
                Some(writer) => Some(writer.finish(COLUMNS)?.0),
                None => return Ok(None),
            };
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    fn to_row(&mut self, event: Event) -> [Datum; COLUMNS] {
        let (shape, key, values) = match event {
            Event::Child(event) => (Shape::Child(event.key), event.row_key, encoded(&event.values)),
            Event::Parent(event) => {
                let shape = Shape::Parent(event.key, event.targets, event.child, event.new.is_some());
                let mut values = encoded(&event.old);
                values.extend(encoded(&event.new.unwrap_or_default()));
                (shape, Vec::new(), values)
            }
            Event::Unique(event) => {
                let shape = Shape::Unique(event.constraint, event.table, event.index);
                (shape, event.prefix, encoded(&[Datum::text(event.key)]))
            }
        };
        // A statement has as many as its tables have constraints.
        let number = match self.shapes.iter().position(|known| known.is(&shape)) {
            Some(number) => number,
            None => {
                self.shapes.push(shape);
                self.shapes.len() - 1
            }
        };
        [Datum::Int4(number as i32), Datum::Bytea(key.into()), Datum::Bytea(values.into())]
    }

    fn from_row(&self, row: &[Datum]) -> Result<Event> {
        let broken = || Error::internal("a queued check cannot be read");
        let [Datum::Int4(number), Datum::Bytea(key), Datum::Bytea(values)] = row else {
            return Err(broken());
        };
        let mut rest = &values[..];
        let mut values = Row::new();
        while !rest.is_empty() {
            values.push(decode_datum(&mut rest)?);
        }
        Ok(match self.shapes.get(*number as usize).cloned().ok_or_else(broken)? {
            Shape::Child(foreign) => Event::Child(ChildEvent { key: foreign, row_key: key.to_vec(), values }),
            Shape::Parent(foreign, targets, child, has_new) => {
                let new = has_new.then(|| values.split_off(values.len() / 2));
                Event::Parent(ParentEvent { key: foreign, targets, child, old: values, new })
            }
            Shape::Unique(constraint, table, index) => {
                let Some(Datum::Text(text)) = values.first() else { return Err(broken()) };
                let (prefix, key) = (key.to_vec(), text.to_string());
                Event::Unique(DeferredUnique { constraint, table, index, prefix, key })
            }
        })
    }
}

impl Shape {
    fn is(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Child(a), Shape::Child(b)) => Arc::ptr_eq(a, b),
            (Shape::Parent(a, of_a, child_a, new_a), Shape::Parent(b, of_b, child_b, new_b)) => {
                Arc::ptr_eq(a, b) && Arc::ptr_eq(of_a, of_b) && child_a == child_b && new_a == new_b
            }
            (Shape::Unique(a, of_a, index_a), Shape::Unique(b, of_b, index_b)) => {
                Arc::ptr_eq(a, b) && Arc::ptr_eq(of_a, of_b) && index_a == index_b
            }
            _ => false,
        }
    }
}

fn encoded(values: &[Datum]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        encode_datum(value, &mut bytes);
    }
    bytes
}

/// Ends a statement: checks what it queued, or hands it over to the transaction.
pub fn end_statement(cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    while let Some(event) = frame.events.pop()? {
        frame.tick(cx)?;
        match event.deferrable() {
            Some((constraint, initially)) if cx.constraints.is_deferred(constraint, initially) => {
                cx.constraints.inner.borrow_mut().pending.push(event);
            }
            _ => event.check(cx, frame)?,
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct State {
    /// SET CONSTRAINTS ALL, and those set by name after it.
    all: Option<bool>,
    by_oid: HashMap<Oid, bool>,
    pending: Vec<Event>,
}

/// Deferred checks of one transaction, and which constraints are deferred.
#[derive(Debug, Default)]
pub struct TransactionConstraints {
    inner: RefCell<State>,
}

/// A point to which a savepoint's rollback returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstraintMark(usize);

impl TransactionConstraints {
    pub fn new() -> Self {
        Self::default()
    }

    fn is_deferred(&self, constraint: Oid, initially: bool) -> bool {
        let state = self.inner.borrow();
        state.by_oid.get(&constraint).copied().or(state.all).unwrap_or(initially)
    }

    /// SET CONSTRAINTS: `None` means ALL. Making constraints immediate checks what is pending for them; on error nothing
    /// changes. That the named ones exist and are deferrable is the caller's to see (42704, 42809).
    pub fn set_mode(&self, cx: &ExecContext<'_>, constraints: Option<&[Oid]>, deferred: bool) -> Result<()> {
        if !deferred {
            self.check_some(cx, |oid| constraints.is_none_or(|list| list.contains(&oid)))?;
        }
        let mut state = self.inner.borrow_mut();
        match constraints {
            None => {
                state.all = Some(deferred);
                state.by_oid.clear();
            }
            Some(list) => state.by_oid.extend(list.iter().map(|oid| (*oid, deferred))),
        }
        Ok(())
    }

    /// Checks everything that is pending; before a commit.
    pub fn check(&self, cx: &ExecContext<'_>) -> Result<()> {
        if self.inner.borrow().pending.is_empty() { Ok(()) } else { self.check_some(cx, |_| true) }
    }

    fn check_some(&self, cx: &ExecContext<'_>, chosen: impl Fn(Oid) -> bool) -> Result<()> {
        let snapshot = cx.txn.snapshot().map_err(crate::txn_error)?;
        let mut frame = super::scratch::frame(0, snapshot);
        let due: Vec<Event> = {
            let state = self.inner.borrow();
            let is_due = |event: &&Event| event.deferrable().is_none_or(|(oid, _)| chosen(oid));
            state.pending.iter().filter(is_due).cloned().collect()
        };
        for event in due {
            event.check(cx, &mut frame)?;
        }
        self.inner
            .borrow_mut()
            .pending
            .retain(|event| event.deferrable().is_some_and(|(oid, _)| !chosen(oid)));
        Ok(())
    }

    /// The transaction has ended.
    pub fn reset(&self) {
        *self.inner.borrow_mut() = State::default();
    }

    pub fn mark(&self) -> ConstraintMark {
        ConstraintMark(self.inner.borrow().pending.len())
    }

    /// Forgets what was queued since.
    pub fn rollback_to(&self, mark: ConstraintMark) {
        self.inner.borrow_mut().pending.truncate(mark.0);
    }
}
