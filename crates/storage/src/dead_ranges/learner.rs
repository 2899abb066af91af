//! What a cursor does with the index: jump over what is known, remember what it has walked over.
//!
//! A run begins at the first key that the cursor cannot see and ends at the next one that it can. It grows in one
//! direction from its `near` border:
//!
//! ```text
//! forward:    near |- dead - dead - dead -| last          backward:   last |- dead - dead - dead -| near
//! ```
//!
//! Runs are published in pieces while they grow, so that others jump over what this cursor is still walking
//! through. Between a piece and the segment that it ends at lies no key at all (the cursor would have met it): the
//! piece covers the gap too, so that both become one jump. Where the range begins with a gap, the first segment reaches
//! over it.
//!
//! Garbage collection turns dead versions into delete marks of RocksDB's own, which linger until they are compacted away:
//! no key is met where they lie, but each scan steps over all of them below its iterator ([`crate::hidden`]). A
//! gap with many of them is a run, too.

use std::sync::Arc;

use super::{DeadRanges, Edge, EdgeKind, Finding, Found, Jump, Mark, Published, Reach, Space};
use crate::{Direction, StorageId, Timestamp, hidden, key};

/// Runs of fewer keys are not worth remembering, unless they touch what is known and have settled: nobody has made more
/// of them for a while, and each scan that jumps would walk them. In a busy queue the dead keys behind a segment
/// are milliseconds old.
const MIN_RUN: u32 = 8;
/// A long run is published in pieces of so many keys.
const PIECE: u32 = 256;
/// RocksDB's own delete marks between two rows from which on the gap is worth remembering, as if it were a run.
const MIN_HIDDEN: u64 = 32;
/// Marks are looked for at the beginning of a range, and then once in so many rows,
const SAMPLE: u32 = 64;
/// but at each of so many rows of the next scans once there were many.
const WATCH: u32 = 4096;
/// Somebody else may have learned what lies ahead: look again after so many keys.
const LOOK_AGAIN: u32 = 32;

/// What the cursor has to do at a dead key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Go on to the next key.
    Walk,
    /// Go on at the far end of the jump.
    Jump(Jump),
    /// Go on to the next key on a new iterator: this one is too old to learn from.
    Renew,
}

pub(crate) struct Learner {
    ranges: Arc<DeadRanges>,
    direction: Direction,
    storage: StorageId,
    /// The range is not inside one key space: nothing is asked or learned.
    off: bool,
    /// The cursor sees uncommitted writes: it learns nothing, and uses no layers, which may hide those writes.
    of_writer: bool,
    space: Option<Arc<Space>>,
    mark: Mark,
    at: Timestamp,
    /// No key of the range was met yet: `near` is its beginning.
    at_start: bool,
    running: bool,
    near: Edge,
    /// `near` is the end of something known, so that even a gap behind it joins two segments.
    joins: bool,
    /// `near` is the end of a segment.
    known: bool,
    /// The run is the first of the range, and nothing of it is published yet.
    begins: bool,
    /// The bound at which the range begins, if the run is its first.
    bound: Edge,
    /// The dead key met last.
    last: Vec<u8>,
    keys: u32,
    since: Timestamp,
    closed: bool,
    /// The cursor's steps when the piece began.
    steps_before: u64,
    /// Keys until the index is asked again; a known border is asked about when it is met.
    countdown: u32,
    border: Option<Vec<u8>>,
    /// Whether `border` tells where the next segment begins (or that there is none).
    border_known: bool,
    /// A piece was spoiled: nothing is learned before the iterator is renewed.
    spoiled: bool,
    /// The thread's count of delete marks when it was last asked for.
    marks: u64,
    /// Rows until it is asked for again.
    sample_in: u32,
    /// Rows after each of which it is asked for.
    watch: u32,
    /// `near` is the border of the row met last (or of the range), though no dead key was met since.
    gap: bool,
}

impl Learner {
    /// Of a cursor that sees its transaction's uncommitted writes.
    pub(crate) fn of_writer(ranges: Arc<DeadRanges>, direction: Direction) -> Self {
        let mark = ranges.mark();
        Learner { of_writer: true, ..Self::new(ranges, direction, mark) }
    }

    /// `mark` was taken before the cursor's iterator was made.
    pub(crate) fn new(ranges: Arc<DeadRanges>, direction: Direction, mark: Mark) -> Self {
        Learner {
            ranges,
            direction,
            storage: 0,
            off: true,
            of_writer: false,
            space: None,
            mark,
            at: Timestamp::MIN,
            at_start: false,
            running: false,
            near: Edge::default(),
            joins: false,
            known: false,
            begins: false,
            bound: Edge::default(),
            last: Vec::new(),
            keys: 0,
            since: Timestamp::MIN,
            closed: false,
            steps_before: 0,
            countdown: 0,
            border: None,
            border_known: false,
            spoiled: false,
            marks: 0,
            sample_in: SAMPLE,
            watch: 0,
            gap: false,
        }
    }

    /// The cursor begins with a range. A jump, if its beginning is known to be dead.
    pub(crate) fn begin(&mut self, low: &[u8], high: &[u8], at: Timestamp) -> Option<Jump> {
        self.running = false;
        self.known = false;
        self.begins = false;
        self.gap = false;
        self.marks = hidden::deletes();
        self.at_start = true;
        self.set_near(if self.direction == Direction::Forward { low } else { high }, EdgeKind::Bound);
        self.at = at;
        let storage = key::storage_of(low).unwrap_or_default();
        let ends_inside =
            key::storage_of(high) == Some(storage) || storage.wrapping_add(1).to_be_bytes() == *high;
        self.off = low.len() < key::STORAGE_ID_BYTES || !ends_inside;
        if self.off {
            self.at_start = false;
            self.watch = 0;
            return None;
        }
        if storage != self.storage || self.space.is_none() {
            self.storage = storage;
            self.space = self.ranges.space(storage);
        }
        let Some(space) = &self.space else {
            self.watch = 0;
            return None;
        };
        self.watch = if space.is_watched() { WATCH } else { 0 };
        let found = match self.direction {
            Direction::Forward => space.forward(low, at, !self.of_writer),
            Direction::Backward => space.backward(high, at, !self.of_writer),
        };
        let jump = self.take_found(found)?;
        self.at_start = false;
        self.continue_behind(&jump, 0);
        Some(jump)
    }

    /// Forward: the cursor is about to leave a row that it could see. A jump, if what lies right behind it is known.
    #[inline]
    pub(crate) fn leave(&mut self, key: &[u8], steps: u64) -> Option<Jump> {
        let space = self.space.as_ref().filter(|_| !self.off)?;
        let met = match &self.border {
            Some(border) => {
                key >= &border[..] || matches!(border.split_last(), Some((0, rest)) if rest == key)
            }
            None => false,
        };
        if !met && self.border_known {
            return None;
        }
        let found = space.forward(&Edge::behind(key).bytes, self.at, !self.of_writer);
        let jump = self.take_found(found)?;
        self.continue_behind(&jump, steps);
        Some(jump)
    }

    fn take_found(&mut self, found: Found) -> Option<Jump> {
        match found {
            Found::Jump(jump) => Some(jump),
            Found::Next(border) => {
                self.border = border;
                self.border_known = true;
                None
            }
        }
    }

    /// The cursor stands on a key that it can see.
    #[inline]
    pub(crate) fn live(&mut self, key: &[u8], steps: u64) {
        if self.off {
            return;
        }
        // `near` is a border of the row met last: it has to move on, even when nobody watches any more.
        if self.running || self.at_start || self.gap || self.watch > 0 || self.sample_in == 0 {
            let (near_kind, far_kind) = match self.direction {
                Direction::Forward => (EdgeKind::Key, EdgeKind::Behind),
                Direction::Backward => (EdgeKind::Behind, EdgeKind::Key),
            };
            self.end_run(key, near_kind, steps);
            if self.watch > 0 {
                self.watch -= 1;
                self.gap = true;
                self.set_near(key, far_kind);
                self.begin_piece(steps);
            }
        } else {
            self.sample_in -= 1;
        }
    }

    /// The range ends at `bound`.
    pub(crate) fn end(&mut self, bound: &[u8], steps: u64) {
        if !self.off {
            self.end_run(bound, EdgeKind::Bound, steps);
        }
    }

    fn set_near(&mut self, bytes: &[u8], kind: EdgeKind) {
        self.near.bytes.clear();
        self.near.bytes.extend_from_slice(bytes);
        self.near.kind = kind;
        if kind == EdgeKind::Behind {
            self.near.bytes.push(0);
        }
    }

    /// A row, of which this is the near side, or the bound, ends the run.
    fn end_run(&mut self, bytes: &[u8], kind: EdgeKind, steps: u64) {
        let marks = hidden::deletes();
        let hidden = marks - std::mem::replace(&mut self.marks, marks);
        self.sample_in = SAMPLE;
        if hidden >= MIN_HIDDEN && !self.of_writer {
            self.space.get_or_insert_with(|| self.ranges.activate(self.storage)).watch();
            self.watch = WATCH;
        }
        if !self.running && (self.gap || self.at_start) && hidden >= MIN_HIDDEN {
            self.begin_piece(steps);
            self.running = true;
        }
        let many_marks = hidden >= MIN_HIDDEN;
        if self.running && (self.keys >= MIN_RUN || many_marks || self.is_settled_rest()) {
            // The marks may lie behind the last dead key.
            let far = match kind {
                _ if !many_marks => self.far_edge(),
                EdgeKind::Behind => Edge::behind(bytes),
                kind => Edge { bytes: bytes.to_vec(), kind },
            };
            self.publish(far, steps + hidden);
        }
        self.running = false;
        self.known = false;
        self.begins = false;
        self.gap = false;
        self.at_start = false;
    }

    /// A few dead keys next to a segment, to which nobody has added them for long. (Next to a segment of a layer they may
    /// come to be an open one of their own, which spares its readers little.)
    fn is_settled_rest(&self) -> bool {
        self.known && self.keys > 0 && self.is_settled(self.since, self.closed)
    }

    /// What is closed is remembered for the read time alone, so that it has to be an old snapshot's.
    fn is_settled(&self, since: Timestamp, closed: bool) -> bool {
        self.ranges.is_settled(if closed { self.at } else { since })
    }

    /// The cursor has met a key without a visible version: its newest tombstone at or before the read time
    /// (or none at all), and whether it has, or may have, newer versions.
    pub(crate) fn dead(&mut self, key: &[u8], since: Timestamp, newer: bool, steps: u64) -> Step {
        if self.off {
            return Step::Walk;
        }
        if !self.running {
            self.running = true;
            self.begins = self.at_start;
            if self.at_start {
                std::mem::swap(&mut self.bound, &mut self.near);
            }
            self.joins = false;
            self.known = false;
            self.set_near(
                key,
                match self.direction {
                    Direction::Forward => EdgeKind::Key,
                    Direction::Backward => EdgeKind::Behind,
                },
            );
            self.at_start = false;
            self.gap = false;
            self.begin_piece(steps);
            self.countdown = 0;
        }
        if let Some(jump) = self.look(key) {
            // The gap, or the keys, between the last piece and the segment make one of both.
            if self.keys > 0 || self.joins {
                self.publish(jump.from.clone(), steps);
            } else if self.begins && !self.spoiled && self.is_settled(since, newer) {
                self.extend_reach(&jump.from.bytes);
            }
            self.continue_behind(&jump, steps);
            return Step::Jump(jump);
        }
        if newer && !self.closed && self.keys >= MIN_RUN {
            // What came before is true for later readers too.
            let far = self.far_edge();
            self.publish(far, steps);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.keys += 1;
        self.since = self.since.max(since);
        self.closed |= newer;
        if self.keys >= PIECE || (self.keys >= MIN_RUN && self.space.is_none()) {
            let far = self.far_edge();
            self.publish(far, steps);
        }
        if self.spoiled { Step::Renew } else { Step::Walk }
    }

    /// Nothing can be learned from the cursor's iterator any more.
    pub(crate) fn needs_renewal(&self) -> bool {
        self.spoiled
    }

    /// The cursor has made a new iterator, after taking `mark`. What the old one has shown proves nothing any more.
    pub(crate) fn renewed(&mut self, mark: Mark, steps: u64) {
        self.mark = mark;
        self.spoiled = false;
        // The one that it knew may have been given up: then nothing can be published there any more.
        self.space = self.ranges.space(self.storage);
        if self.running {
            self.near = self.far_edge();
            self.joins = false;
            self.known = false;
            self.begins = false;
            self.begin_piece(steps);
        }
    }

    /// Asks the index about a dead key, if it may know something.
    fn look(&mut self, key: &[u8]) -> Option<Jump> {
        let space = self.space.as_ref()?;
        let at_border = self.border.as_ref().is_some_and(|border| match self.direction {
            Direction::Forward => key >= &border[..],
            Direction::Backward => key < &border[..],
        });
        if self.countdown > 0 && !at_border {
            self.countdown -= 1;
            return None;
        }
        self.countdown = LOOK_AGAIN;
        let found = match self.direction {
            Direction::Forward => space.forward(key, self.at, !self.of_writer),
            Direction::Backward => space.backward(&Edge::behind(key).bytes, self.at, !self.of_writer),
        };
        self.take_found(found)
    }

    fn begin_piece(&mut self, steps: u64) {
        self.keys = 0;
        self.since = Timestamp::MIN;
        self.closed = false;
        self.steps_before = steps;
    }

    fn continue_behind(&mut self, jump: &Jump, steps: u64) {
        self.running = true;
        self.near = jump.to.clone();
        self.joins = true;
        self.known = true;
        self.begins = false;
        self.countdown = 0;
        self.border = None;
        self.border_known = false;
        self.begin_piece(steps);
    }

    /// The border behind the key met last.
    fn far_edge(&self) -> Edge {
        match self.direction {
            Direction::Forward => Edge::behind(&self.last),
            Direction::Backward => Edge::before(&self.last),
        }
    }

    /// The range began with a gap, up to the segment that has this border.
    fn extend_reach(&mut self, border: &[u8]) {
        let Some(space) = self.space.as_ref().filter(|_| !self.of_writer) else { return };
        let published = self.ranges.extend_reach(space, self.mark, self.at, border, &self.bound.bytes);
        self.spoiled = published == Published::Spoiled;
    }

    /// Publishes what lies between the near border and `far`, and goes on behind it.
    fn publish(&mut self, far: Edge, steps: u64) {
        let begins = std::mem::take(&mut self.begins);
        let near = std::mem::replace(&mut self.near, far.clone());
        let (low, high) = match self.direction {
            Direction::Forward => (near, far),
            Direction::Backward => (far, near),
        };
        let worth = u32::try_from(steps.saturating_sub(self.steps_before)).unwrap_or(u32::MAX).max(1);
        let (since, closed) = (self.since, self.closed);
        self.begin_piece(steps);
        self.joins = true;
        self.known = true;
        if self.spoiled || self.of_writer || low.bytes >= high.bytes {
            return;
        }
        let space = match &self.space {
            Some(space) => space,
            // Registered keys count from now on: the iterator is too old.
            None => self.space.insert(self.ranges.activate(self.storage)),
        };
        let mut reach = Reach::default();
        if begins {
            let bound = Some(&self.bound.bytes[..]);
            match self.direction {
                Direction::Forward => {
                    reach.low = bound.filter(|bound| **bound < low.bytes[..]).map(Into::into)
                }
                Direction::Backward => {
                    reach.high = bound.filter(|bound| **bound > high.bytes[..]).map(Into::into)
                }
            }
        }
        let finding = Finding { low, high, since, worth, closed, reach };
        self.spoiled = self.ranges.publish(space, self.mark, self.at, finding) == Published::Spoiled;
        if self.spoiled {
            self.joins = false;
            self.known = false;
        }
    }
}
