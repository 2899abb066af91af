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
//! piece covers the gap too, so that both become one jump.

use std::sync::Arc;

use super::{DeadRanges, Edge, Finding, Found, Jump, Mark, Published, Space};
use crate::{Direction, StorageId, Timestamp, key};

/// Runs of fewer keys are not worth remembering.
const MIN_RUN: u32 = 8;
/// A long run is published in pieces of so many keys.
const PIECE: u32 = 256;
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
    space: Option<Arc<Space>>,
    mark: Mark,
    at: Timestamp,
    /// Forward: where the range begins, as long as no key was met.
    start: Option<Edge>,
    running: bool,
    near: Edge,
    /// `near` is the end of something known, so that even a gap behind it joins two segments.
    joins: bool,
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
    /// A piece was spoiled: nothing is learned before the iterator is renewed.
    spoiled: bool,
}

impl Learner {
    /// `mark` was taken before the cursor's iterator was made.
    pub(crate) fn new(ranges: Arc<DeadRanges>, direction: Direction, mark: Mark) -> Self {
        Learner {
            ranges,
            direction,
            storage: 0,
            space: None,
            mark,
            at: Timestamp::MIN,
            start: None,
            running: false,
            near: Edge::default(),
            joins: false,
            last: Vec::new(),
            keys: 0,
            since: Timestamp::MIN,
            closed: false,
            steps_before: 0,
            countdown: 0,
            border: None,
            spoiled: false,
        }
    }

    /// The cursor begins with a range. A jump, if its beginning is known to be dead.
    pub(crate) fn begin(&mut self, low: &[u8], high: &[u8], at: Timestamp) -> Option<Jump> {
        self.running = false;
        self.start = None;
        self.at = at;
        let storage = key::storage_of(low).unwrap_or_default();
        if storage != self.storage || self.space.is_none() {
            self.storage = storage;
            self.space = self.ranges.space(storage);
        }
        let found = match (&self.space, self.direction) {
            (None, Direction::Forward) => {
                self.start = Some(Edge::bound(low));
                return None;
            }
            (None, Direction::Backward) => return None,
            (Some(space), Direction::Forward) => space.forward(low, at),
            (Some(space), Direction::Backward) => space.backward(high, at),
        };
        match found {
            Found::Jump(jump) => {
                self.continue_behind(&jump, 0);
                Some(jump)
            }
            Found::Next(_) => {
                if self.direction == Direction::Forward {
                    self.start = Some(Edge::bound(low));
                }
                None
            }
        }
    }

    /// The cursor stands on a key that it can see, or at the end of its range.
    #[inline]
    pub(crate) fn live(&mut self, steps: u64) {
        self.start = None;
        if self.running {
            self.end_run(steps);
        }
    }

    fn end_run(&mut self, steps: u64) {
        self.running = false;
        if self.keys >= MIN_RUN {
            let far = self.far_edge();
            self.publish(far, steps);
        }
    }

    /// The cursor has met a key without a visible version: its newest tombstone at or before the read time
    /// (or none at all), and whether it has, or may have, newer versions.
    pub(crate) fn dead(&mut self, key: &[u8], since: Timestamp, newer: bool, steps: u64) -> Step {
        if !self.running {
            self.running = true;
            self.joins = self.start.is_some();
            self.near = self.start.take().unwrap_or_else(|| match self.direction {
                Direction::Forward => Edge::before(key),
                Direction::Backward => Edge::behind(key),
            });
            self.begin_piece(steps);
            self.countdown = 0;
        }
        if let Some(jump) = self.look(key) {
            // The gap, or the keys, between the last piece and the segment make one of both.
            if self.keys > 0 || self.joins {
                self.publish(jump.from.clone(), steps);
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
        if self.running {
            self.near = self.far_edge();
            self.joins = false;
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
            Direction::Forward => space.forward(key, self.at),
            Direction::Backward => space.backward(&Edge::behind(key).bytes, self.at),
        };
        match found {
            Found::Jump(jump) => Some(jump),
            Found::Next(border) => {
                self.border = border;
                None
            }
        }
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
        self.countdown = 0;
        self.border = None;
        self.begin_piece(steps);
    }

    /// The border behind the key met last.
    fn far_edge(&self) -> Edge {
        match self.direction {
            Direction::Forward => Edge::behind(&self.last),
            Direction::Backward => Edge::before(&self.last),
        }
    }

    /// Publishes what lies between the near border and `far`, and goes on behind it.
    fn publish(&mut self, far: Edge, steps: u64) {
        let near = std::mem::replace(&mut self.near, far.clone());
        let (low, high) = match self.direction {
            Direction::Forward => (near, far),
            Direction::Backward => (far, near),
        };
        let worth = u32::try_from(steps.saturating_sub(self.steps_before)).unwrap_or(u32::MAX).max(1);
        let (since, closed) = (self.since, self.closed);
        self.begin_piece(steps);
        self.joins = true;
        if self.spoiled || low.bytes >= high.bytes {
            return;
        }
        let space = match &self.space {
            Some(space) => space,
            // Registered keys count from now on: the iterator is too old.
            None => self.space.insert(self.ranges.activate(self.storage)),
        };
        let finding = Finding { low, high, since, worth, closed };
        self.spoiled = self.ranges.publish(space, self.mark, self.at, finding) == Published::Spoiled;
        if self.spoiled {
            self.joins = false;
        }
    }
}
