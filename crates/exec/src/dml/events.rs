//! Checks that wait: to the end of the statement, or of the transaction.
//!
//! Foreign keys are looked at when the statement has written all its rows, as PostgreSQL's constraint triggers are: a
//! statement may insert a child before its parent. Rows that a CASCADE changes queue further checks. What is
//! deferrable and deferred (INITIALLY DEFERRED, SET CONSTRAINTS) moves on to the transaction's queue, which the
//! session runs before it commits.
//!
//! The session owns one [`TransactionConstraints`] for each transaction and calls
//! - [`TransactionConstraints::check`] before COMMIT (an error rolls the transaction back),
//! - [`TransactionConstraints::set_mode`] for SET CONSTRAINTS,
//! - [`TransactionConstraints::mark`] and [`TransactionConstraints::rollback_to`] with its savepoints.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cairn_types::{Oid, Result, Row};

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

/// Events of a running statement.
#[derive(Debug, Default)]
pub struct StatementEvents(VecDeque<Event>);

impl StatementEvents {
    pub(super) fn push(&mut self, event: Event) {
        self.0.push_back(event);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Ends a statement: checks what it queued, or hands it over to the transaction.
pub fn end_statement(cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
    while let Some(event) = frame.events.0.pop_front() {
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
