//! Events in the order in which they came: the first few thousand in memory, those behind them in a file.
//!
//! Reading removes nothing, so the same log serves a statement, whose checks queue further checks behind those that wait,
//! and a transaction, whose deferred checks must be there again after `rollback to savepoint`. Events are taken back from
//! the end only ([`EventLog::cut`]).
//!
//! In the file an event is a row: the number of its *shape* (what it has in common with others: constraint, tables), a key,
//! and its values. Shapes stay in memory; there are as many as there are constraints.

use std::sync::Arc;

use cairn_catalog::Constraint;
use cairn_types::row::{decode_datum, encode_datum};
use cairn_types::{Datum, Error, Result, Row};

use super::events::{ChildEvent, Event, ParentEvent};
use super::foreign_key::ForeignKey;
use super::target::Targets;
use super::unique::DeferredUnique;
use crate::spill::{LogReader, RowLog};
use crate::table::TableLayout;

/// So many events are kept in memory.
pub(super) const IN_MEMORY: usize = 4_000;

/// Values of an event in the file: the shape's number, a key, datums.
const COLUMNS: usize = 3;

/// A place between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Events before it.
    pub number: u64,
    /// Bytes of the file before it.
    offset: u64,
}

#[derive(Default)]
pub(super) struct EventLog {
    /// `None`: taken by its reader.
    memory: Vec<Option<Event>>,
    file: Option<RowLog>,
    shapes: Vec<Shape>,
    length: u64,
}

/// How far a log has been read.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    number: u64,
    file: LogReader,
}

impl EventReader {
    /// Reads on from there.
    pub fn new(place: Place) -> Self {
        EventReader { number: place.number, file: LogReader::new(place.offset) }
    }

    /// Before the next event.
    pub fn place(&self) -> Place {
        Place { number: self.number, offset: self.file.at() }
    }
}

/// An event without what differs from row to row.
#[derive(Clone, Debug)]
enum Shape {
    Child(Arc<ForeignKey>),
    /// With whether there is a new row.
    Parent(Arc<ForeignKey>, Arc<Targets>, Option<usize>, bool),
    Unique(Arc<Constraint>, Arc<TableLayout>, String),
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog")
            .field("length", &self.length)
            .field("shapes", &self.shapes.len())
            .finish_non_exhaustive()
    }
}

impl EventLog {
    pub fn push(&mut self, event: Event) -> Result<()> {
        if self.file.is_none() && self.memory.len() < IN_MEMORY {
            self.memory.push(Some(event));
        } else {
            let row = self.to_row(event);
            match &mut self.file {
                Some(file) => file.push(&row)?,
                None => self.file.insert(RowLog::new(COLUMNS)?).push(&row)?,
            }
        }
        self.length += 1;
        Ok(())
    }

    /// Whether nothing was ever written to it.
    pub fn is_new(&self) -> bool {
        self.length == 0 && self.shapes.is_empty()
    }

    /// Behind the last event.
    pub fn end(&self) -> Place {
        Place { number: self.length, offset: self.file.as_ref().map_or(0, RowLog::end) }
    }

    /// Forgets the events behind a place where the log once ended.
    pub fn cut(&mut self, place: Place) {
        if place.number >= self.length {
            return;
        }
        self.length = place.number;
        self.memory.truncate(usize::try_from(place.number).unwrap_or(usize::MAX));
        // A file is begun when the memory's share is full, and not before.
        if self.memory.len() < IN_MEMORY {
            self.file = None;
        } else if let Some(file) = &mut self.file {
            file.cut(place.offset);
        }
    }

    /// The next event for a reader; `None` where there is none yet.
    pub fn next(&mut self, reader: &mut EventReader) -> Result<Option<Event>> {
        self.read(reader, |slot| slot.clone())
    }

    /// [`EventLog::next`] for the only reader that the log has.
    pub fn take_next(&mut self, reader: &mut EventReader) -> Result<Option<Event>> {
        self.read(reader, Option::take)
    }

    fn read(
        &mut self,
        reader: &mut EventReader,
        get: impl FnOnce(&mut Option<Event>) -> Option<Event>,
    ) -> Result<Option<Event>> {
        let slot = usize::try_from(reader.number).ok().and_then(|index| self.memory.get_mut(index));
        let event = match (slot, &mut self.file) {
            (Some(slot), _) => get(slot),
            (None, Some(file)) => match file.next(&mut reader.file)? {
                Some(row) => Some(self.from_row(&row)?),
                None => None,
            },
            (None, None) => None,
        };
        reader.number += u64::from(event.is_some());
        Ok(event)
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
        // The last one first: events of one statement come together.
        let number = match self.shapes.iter().rposition(|known| known.is(&shape)) {
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
    /// Whether an event of the one is checked like one of the other. Each plan has foreign keys and layouts of its own; they are
    /// the same where they were made from the same constraint and tables.
    fn is(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Child(a), Shape::Child(b)) => a.is_same(b),
            (Shape::Parent(a, of_a, child_a, new_a), Shape::Parent(b, of_b, child_b, new_b)) => {
                // Only who changes children needs the plan's targets.
                let same_targets = || Arc::ptr_eq(of_a, of_b) && child_a == child_b;
                new_a == new_b && a.is_same(b) && (!a.acts(*new_a) || same_targets())
            }
            (Shape::Unique(a, of_a, index_a), Shape::Unique(b, of_b, index_b)) => {
                Arc::ptr_eq(a, b) && Arc::ptr_eq(&of_a.relation, &of_b.relation) && index_a == index_b
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
