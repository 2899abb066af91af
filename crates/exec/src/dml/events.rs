//! Checks that wait: to the end of the statement, or of the transaction.
//!
//! Foreign keys are looked at when the statement has written all its rows, as PostgreSQL's constraint triggers are: a
//! statement may insert a child before its parent. Rows that a CASCADE changes queue further checks. What is
//! deferrable and deferred (INITIALLY DEFERRED, SET CONSTRAINTS) moves on to the transaction's queue, which the
//! session runs before it commits.
//!
//! A statement, or a transaction, may write any number of rows: beyond some thousands, its checks wait in a file
//! (`event_log.rs`).
//!
//! What SET CONSTRAINTS IMMEDIATE has checked stays in the transaction's queue and only counts as checked: rolling back to an earlier
//! savepoint may bring back rows that it found in order then, or did not find any more.
//!
//! The session owns one [`TransactionConstraints`] for each transaction and calls
//! - [`TransactionConstraints::check`] before COMMIT (an error rolls the transaction back),
//! - [`TransactionConstraints::set_mode`] for SET CONSTRAINTS,
//! - [`TransactionConstraints::has_pending`] before DDL on a table,
//! - [`TransactionConstraints::mark`] and [`TransactionConstraints::rollback_to`] with its savepoints.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use cairn_types::{Oid, Result, Row, sqlstate};

use super::event_log::{EventLog, EventReader, Place};
use super::foreign_key::{self, ForeignKey};
use super::target::Targets;
use super::unique::{self, DeferredUnique};
use crate::context::{ExecContext, Frame};

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
            Event::Parent(event) if !event.key.acts(event.new.is_some()) => &event.key.constraint,
            Event::Parent(_) => return None,
            Event::Unique(event) => &event.constraint,
        };
        constraint.deferrable.then_some((constraint.oid, constraint.deferred))
    }

    /// The table whose row was written.
    fn table(&self) -> Oid {
        match self {
            Event::Child(event) => event.key.child.relation.oid,
            Event::Parent(event) => event.key.parent.relation.oid,
            Event::Unique(event) => event.table.relation.oid,
        }
    }

    fn check(self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        match self {
            Event::Child(event) => foreign_key::check_child(cx, &event),
            Event::Parent(event) => foreign_key::check_parent(cx, frame, &event),
            Event::Unique(event) => unique::check_deferred(cx, &event),
        }
    }
}

/// Events of a running statement, first in, first out.
#[derive(Debug, Default)]
pub struct StatementEvents {
    log: EventLog,
    reader: EventReader,
}

impl StatementEvents {
    pub(super) fn push(&mut self, event: Event) -> Result<()> {
        self.log.push(event)
    }

    fn pop(&mut self) -> Result<Option<Event>> {
        let event = self.log.take_next(&mut self.reader)?;
        if event.is_none() {
            // All have been read: the next ones have the memory again.
            self.log.cut(Place::default());
            self.reader = EventReader::default();
        }
        Ok(event)
    }

    pub(super) fn len(&self) -> usize {
        (self.log.end().number - self.reader.place().number) as usize
    }
}

/// Ends a statement: checks what it queued, or hands it over to the transaction.
pub fn end_statement(cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    while let Some(event) = frame.events.pop()? {
        frame.tick(cx)?;
        match event.deferrable() {
            Some((constraint, initially)) if cx.constraints.is_deferred(constraint, initially) => {
                cx.constraints.defer(constraint, event)?;
            }
            _ => event.check(cx, frame)?,
        }
    }
    Ok(())
}

/// Deferred checks of one transaction, and which constraints are deferred.
#[derive(Debug, Default)]
pub struct TransactionConstraints {
    inner: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Everything that was deferred, checked meanwhile or not.
    log: EventLog,
    standing: Arc<Standing>,
}

/// What SET CONSTRAINTS has said, what is queued and what of it was checked. All is undone with a savepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// SET CONSTRAINTS ALL, and those set by name after it.
    all: Option<bool>,
    by_oid: HashMap<Oid, bool>,
    /// Events before this place have been checked; of some constraints, those before these numbers.
    checked: Place,
    checked_by_oid: HashMap<Oid, u64>,
    /// By table and constraint, the last event, and whether it asks for a unique value.
    last: HashMap<(Oid, Oid), (u64, bool)>,
}

impl Standing {
    fn is_pending(&self, number: u64, constraint: Oid) -> bool {
        number >= self.checked.number
            && self.checked_by_oid.get(&constraint).is_none_or(|checked| number >= *checked)
    }
}

/// A point to which a savepoint's rollback returns.
#[derive(Clone, Debug)]
pub struct ConstraintMark {
    end: Place,
    standing: Arc<Standing>,
}

impl TransactionConstraints {
    pub fn new() -> Self {
        Self::default()
    }

    fn is_deferred(&self, constraint: Oid, initially: bool) -> bool {
        let standing = &self.inner.borrow().standing;
        standing.by_oid.get(&constraint).copied().or(standing.all).unwrap_or(initially)
    }

    fn defer(&self, constraint: Oid, event: Event) -> Result<()> {
        let State { log, standing } = &mut *self.inner.borrow_mut();
        let subject = (event.table(), constraint);
        let last = (log.end().number, matches!(event, Event::Unique(_)));
        Arc::make_mut(standing).last.insert(subject, last);
        log.push(event)
    }

    /// Whether rows of the table wait for a check: it must stay as it is until they have been looked at. Values that are
    /// unique now count as looked at: PostgreSQL queues a check where it meets a second one only.
    pub fn has_pending(&self, cx: &ExecContext<'_>, table: Oid) -> Result<bool> {
        let (mut pending, mut all_unique) = (false, true);
        let mut reader = {
            let standing = &self.inner.borrow().standing;
            for ((of, constraint), (last, is_unique)) in &standing.last {
                if *of == table && standing.is_pending(*last, *constraint) {
                    pending = true;
                    all_unique &= is_unique;
                }
            }
            EventReader::new(standing.checked)
        };
        if !(pending && all_unique) {
            return Ok(pending);
        }
        let snapshot = cx.txn.snapshot().map_err(crate::txn_error)?;
        let mut frame = super::scratch::frame(0, snapshot);
        loop {
            let number = reader.place().number;
            let next = self.inner.borrow_mut().log.next(&mut reader)?;
            let Some(event) = next else { return Ok(false) };
            frame.tick(cx)?;
            let constraint = event.deferrable().map_or(0, |(oid, _)| oid);
            if event.table() != table || !self.inner.borrow().standing.is_pending(number, constraint) {
                continue;
            }
            match event.check(cx, &mut frame) {
                Err(error) if error.sqlstate() == sqlstate::UNIQUE_VIOLATION => return Ok(true),
                checked => checked?,
            }
        }
    }

    /// SET CONSTRAINTS: `None` means ALL. Making constraints immediate checks what is pending for them; on error nothing
    /// changes. That the named ones exist and are deferrable is the caller's to see (42704, 42809).
    pub fn set_mode(&self, cx: &ExecContext<'_>, constraints: Option<&[Oid]>, deferred: bool) -> Result<()> {
        if !deferred {
            self.check_some(cx, constraints)?;
        }
        let mut state = self.inner.borrow_mut();
        let standing = Arc::make_mut(&mut state.standing);
        match constraints {
            None => {
                standing.all = Some(deferred);
                standing.by_oid.clear();
            }
            Some(list) => standing.by_oid.extend(list.iter().map(|oid| (*oid, deferred))),
        }
        Ok(())
    }

    /// Checks everything that is pending; before a commit.
    pub fn check(&self, cx: &ExecContext<'_>) -> Result<()> {
        self.check_some(cx, None)
    }

    /// Checks what is pending, of all constraints or of these, in the order in which it was queued.
    fn check_some(&self, cx: &ExecContext<'_>, chosen: Option<&[Oid]>) -> Result<()> {
        let (mut reader, end) = {
            let state = self.inner.borrow();
            (EventReader::new(state.standing.checked), state.log.end())
        };
        if reader.place() == end {
            return Ok(());
        }
        let snapshot = cx.txn.snapshot().map_err(crate::txn_error)?;
        let mut frame = super::scratch::frame(0, snapshot);
        let mut first_left = None;
        loop {
            let place = reader.place();
            let next = self.inner.borrow_mut().log.next(&mut reader)?;
            let Some(event) = next else { break };
            frame.tick(cx)?;
            let constraint = event.deferrable().map_or(0, |(oid, _)| oid);
            if !self.inner.borrow().standing.is_pending(place.number, constraint) {
                continue;
            }
            if chosen.is_none_or(|list| list.contains(&constraint)) {
                event.check(cx, &mut frame)?;
            } else {
                first_left.get_or_insert(place);
            }
        }
        debug_assert_eq!(reader.place(), end, "a check defers nothing, and what was taken back is not read");
        let mut state = self.inner.borrow_mut();
        let standing = Arc::make_mut(&mut state.standing);
        match (first_left, chosen) {
            (Some(place), Some(list)) => {
                standing.checked = place;
                standing.checked_by_oid.extend(list.iter().map(|oid| (*oid, end.number)));
            }
            _ => {
                standing.checked = end;
                standing.checked_by_oid.clear();
            }
        }
        Ok(())
    }

    /// The transaction has ended.
    pub fn reset(&self) {
        let mut state = self.inner.borrow_mut();
        // Most transactions leave it as it is.
        if !state.log.is_new() || *state.standing != Standing::default() {
            *state = State::default();
        }
    }

    pub fn mark(&self) -> ConstraintMark {
        let state = self.inner.borrow();
        ConstraintMark { end: state.log.end(), standing: Arc::clone(&state.standing) }
    }

    /// Forgets what was queued since, and what SET CONSTRAINTS has done: what it had checked then is pending again.
    pub fn rollback_to(&self, mark: &ConstraintMark) {
        let mut state = self.inner.borrow_mut();
        state.log.cut(mark.end);
        state.standing = Arc::clone(&mark.standing);
    }
}
