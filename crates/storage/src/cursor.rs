//! Visible rows of a range at a read time, in either direction.
//!
//! Versions of a row are neighbours, newest first:
//!
//! ```text
//! read time 50              forward ->
//!   (a, 70) (a, 40) (a, 10)   (b, 60)   (c, 30 tombstone) (c, 20)   (d, 50)
//!    newer    row    hidden    newer         no row        hidden     row
//! ```
//!
//! Going forward, versions newer than the read time come first, then the one that counts, then those it hides.
//! Going backward they come oldest first, and the last one at or before the read time counts. In both, a few
//! versions of a row are stepped over one by one, because a step costs a tenth of a seek; after
//! [`STEPS_BEFORE_SEEK`] of them a seek jumps over the rest, so that 100,000 versions of a row cost what four do.
//!
//! A run of rows that are all invisible is walked here. Remembering such runs and jumping over them belongs into
//! [`Cursor::advance_forward`] and [`Cursor::advance_backward`], where one row's verdict is known and the next
//! row is about to be looked at.
//!
//! The rule a reader must not break: bounds are compared with keys, never with stored keys (see [`crate::key`]).

use std::sync::Arc;

use crate::iterator::OwnedIterator;
use crate::{Engine, ReadStats, Result, Timestamp, key, value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// So many versions of one row are stepped over before a seek.
const STEPS_BEFORE_SEEK: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not positioned yet.
    Start,
    /// Forward: on the current row's version. Backward: before the current row's versions.
    OnRow,
    /// Nothing more in this range.
    End,
}

/// A cursor sees what was written before it was made.
pub struct Cursor {
    engine: Arc<Engine>,
    /// `None` only while it is being dropped.
    iterator: Option<OwnedIterator>,
    direction: Direction,
    at: Timestamp,
    low: Vec<u8>,
    high: Vec<u8>,
    state: State,
    /// The current row's key.
    key: Vec<u8>,
    /// Backward only: the current row's value, which the iterator has left.
    value: Vec<u8>,
    time: Timestamp,
    stats: ReadStats,
}

impl Cursor {
    /// Rows with `low <= key < high` as of `at`.
    pub fn open(
        engine: Arc<Engine>,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        at: Timestamp,
    ) -> Result<Self> {
        let iterator = engine.take_range_iterator()?;
        Ok(Cursor {
            engine,
            iterator: Some(iterator),
            direction,
            at,
            low: low.to_vec(),
            high: high.to_vec(),
            state: State::Start,
            key: Vec::with_capacity(64),
            value: Vec::new(),
            time: Timestamp::MIN,
            stats: ReadStats::default(),
        })
    }

    /// Starts over on another range and time; still sees only what was written before the cursor was made.
    pub fn reset(&mut self, low: &[u8], high: &[u8], at: Timestamp) {
        self.low.clear();
        self.low.extend_from_slice(low);
        self.high.clear();
        self.high.extend_from_slice(high);
        self.at = at;
        self.state = State::Start;
    }

    /// Moves to the next row; `false` at the end of the range.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        match self.direction {
            Direction::Forward => self.advance_forward(),
            Direction::Backward => self.advance_backward(),
        }
    }

    /// The current row's key. Meaningful only after [`Cursor::advance`] returned `true`.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The current row's value. Meaningful only after [`Cursor::advance`] returned `true`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.direction {
            Direction::Backward => &self.value,
            // The version was checked when the cursor stopped on it; its first byte is the kind.
            Direction::Forward => {
                self.iterator.as_ref().and_then(|it| it.value()).and_then(|v| v.get(1..)).unwrap_or(&[])
            }
        }
    }

    /// Time of the current row's version.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    pub fn direction(&self) -> Direction {
        self.direction
    }

    pub fn stats(&self) -> &ReadStats {
        &self.stats
    }

    /// The counters since the last call.
    pub fn take_stats(&mut self) -> ReadStats {
        std::mem::take(&mut self.stats)
    }

    fn advance_forward(&mut self) -> Result<bool> {
        let mut walk = Walk {
            iterator: self.iterator.as_mut().expect("the iterator is given back on drop only"),
            stats: &mut self.stats,
        };
        match self.state {
            State::End => return Ok(false),
            State::Start => {
                walk.seek_bound(&self.low);
                // A stored key behind the bound may belong to a key before it, of which the bound is an extension.
                if let Some((found, _)) = walk.current()?
                    && found < &self.low[..]
                {
                    self.key.clear();
                    self.key.extend_from_slice(found);
                    walk.seek_behind(&self.key);
                }
            }
            State::OnRow => walk.leave_row(&self.key)?,
        }
        loop {
            let Some((found, time)) = walk.current()? else {
                self.state = State::End;
                return Ok(false);
            };
            if found >= &self.high[..] {
                self.state = State::End;
                return Ok(false);
            }
            self.key.clear();
            self.key.extend_from_slice(found);
            let time = if time <= self.at {
                time
            } else {
                match walk.find_at(&self.key, self.at)? {
                    Some(time) => time,
                    // The iterator is on another key now, or at the end.
                    None => continue,
                }
            };
            walk.stats.newest_seen = walk.stats.newest_seen.max(time);
            match value::split_stored(walk.iterator.value().unwrap_or(&[]))? {
                Some(payload) => {
                    walk.stats.keys_found += 1;
                    walk.stats.bytes_read += (self.key.len() + payload.len()) as u64;
                    self.time = time;
                    self.state = State::OnRow;
                    return Ok(true);
                }
                None => {
                    walk.stats.tombstones_skipped += 1;
                    walk.leave_row(&self.key)?;
                }
            }
        }
    }

    fn advance_backward(&mut self) -> Result<bool> {
        let mut walk = Walk {
            iterator: self.iterator.as_mut().expect("the iterator is given back on drop only"),
            stats: &mut self.stats,
        };
        match self.state {
            State::End => return Ok(false),
            State::Start => walk.seek_last_before(&self.high, &mut self.key)?,
            State::OnRow => {}
        }
        loop {
            let Some((found, _)) = walk.current()? else {
                self.state = State::End;
                return Ok(false);
            };
            if found < &self.low[..] {
                self.state = State::End;
                return Ok(false);
            }
            self.key.clear();
            self.key.extend_from_slice(found);
            let Some((time, is_value)) = walk.newest_from_oldest(&self.key, self.at, &mut self.value)? else {
                continue;
            };
            walk.stats.newest_seen = walk.stats.newest_seen.max(time);
            if is_value {
                walk.stats.keys_found += 1;
                walk.stats.bytes_read += (self.key.len() + self.value.len()) as u64;
                self.time = time;
                self.state = State::OnRow;
                return Ok(true);
            }
            walk.stats.tombstones_skipped += 1;
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if let Some(iterator) = self.iterator.take() {
            self.engine.give_back_range_iterator(iterator);
        }
    }
}

/// Moves of the iterator, counted.
struct Walk<'cursor> {
    iterator: &'cursor mut OwnedIterator,
    stats: &'cursor mut ReadStats,
}

impl Walk<'_> {
    /// Key and time under the iterator; `None` at either end of the store.
    #[inline]
    fn current(&self) -> Result<Option<(&[u8], Timestamp)>> {
        match self.iterator.key() {
            Some(stored) => key::split_stored(stored).map(Some),
            None => {
                self.iterator.status()?;
                Ok(None)
            }
        }
    }

    #[inline]
    fn next(&mut self) {
        self.stats.nexts += 1;
        self.iterator.next();
    }

    #[inline]
    fn prev(&mut self) {
        self.stats.nexts += 1;
        self.iterator.prev();
    }

    fn seek_bound(&mut self, bound: &[u8]) {
        self.stats.seeks += 1;
        self.iterator.seek(bound);
    }

    /// To the newest version of `key` at or before `at`, or behind the key.
    fn seek_version(&mut self, key: &[u8], at: Timestamp) {
        let mut target = std::mem::take(&mut self.iterator.target);
        key::write_stored(&mut target, key, at);
        self.stats.seeks += 1;
        self.iterator.seek(&target);
        self.iterator.target = target;
    }

    /// Behind all versions of `key`: no version has time 0.
    fn seek_behind(&mut self, key: &[u8]) {
        self.seek_version(key, Timestamp::MIN);
    }

    /// Before all versions of `key`: no version has the largest time.
    fn seek_before(&mut self, key: &[u8]) {
        let mut target = std::mem::take(&mut self.iterator.target);
        key::write_stored(&mut target, key, Timestamp::MAX);
        self.stats.seeks += 1;
        self.iterator.seek_for_prev(&target);
        self.iterator.target = target;
    }

    /// To the last stored key whose key is below `bound`. `scratch` is overwritten.
    fn seek_last_before(&mut self, bound: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        // A key that is a proper prefix of the bound is below it, though its stored keys may lie behind it. That
        // needs a bound that is longer than a storage id.
        if bound.len() > key::STORAGE_ID_BYTES {
            self.seek_bound(bound);
            if let Some((found, _)) = self.current()?
                && found < bound
            {
                scratch.clear();
                scratch.extend_from_slice(found);
                let mut target = std::mem::take(&mut self.iterator.target);
                key::write_stored(&mut target, scratch, Timestamp::MIN);
                self.stats.seeks += 1;
                self.iterator.seek_for_prev(&target);
                self.iterator.target = target;
                return Ok(());
            }
        }
        self.stats.seeks += 1;
        self.iterator.seek_for_prev(bound);
        Ok(())
    }

    /// From a version of `key` that is too new: on to the newest at or before `at`, and its time; `None` if there
    /// is none, with the iterator behind the key.
    fn find_at(&mut self, key: &[u8], at: Timestamp) -> Result<Option<Timestamp>> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.stats.versions_skipped += 1;
            self.next();
            match self.current()? {
                Some((found, time)) if found == key => {
                    if time <= at {
                        return Ok(Some(time));
                    }
                }
                _ => return Ok(None),
            }
        }
        self.stats.versions_skipped += 1;
        self.seek_version(key, at);
        match self.current()? {
            Some((found, time)) if found == key => Ok(Some(time)),
            _ => Ok(None),
        }
    }

    /// From a version of `key` on to the first version of another key.
    fn leave_row(&mut self, key: &[u8]) -> Result<()> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.next();
            match self.current()? {
                Some((found, _)) if found == key => self.stats.versions_skipped += 1,
                _ => return Ok(()),
            }
        }
        self.seek_behind(key);
        Ok(())
    }

    /// From the oldest version of `key`: the newest at or before `at`, its payload in `payload`, as time and
    /// whether it is a value; `None` if there is none. Leaves the iterator before the key.
    fn newest_from_oldest(
        &mut self,
        key: &[u8],
        at: Timestamp,
        payload: &mut Vec<u8>,
    ) -> Result<Option<(Timestamp, bool)>> {
        let mut newest = None;
        for _ in 0..=STEPS_BEFORE_SEEK {
            let time = match self.current()? {
                Some((found, time)) if found == key => time,
                _ => return Ok(newest),
            };
            if time > at {
                self.stats.versions_skipped += 1;
                // Only newer ones lie ahead.
                return self.skip_newer(key).map(|()| newest);
            }
            if newest.is_some() {
                self.stats.versions_skipped += 1;
            }
            newest = Some((time, self.read_payload(payload)?));
            self.prev();
        }
        match self.current()? {
            Some((found, _)) if found == key => {}
            _ => return Ok(newest),
        }
        self.stats.versions_skipped += 1;
        self.seek_version(key, at);
        if let Some((found, time)) = self.current()?
            && found == key
        {
            newest = Some((time, self.read_payload(payload)?));
        }
        self.seek_before(key);
        Ok(newest)
    }

    /// From a version of `key` that is too new, going backward: before the key.
    fn skip_newer(&mut self, key: &[u8]) -> Result<()> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.prev();
            match self.current()? {
                Some((found, _)) if found == key => self.stats.versions_skipped += 1,
                _ => return Ok(()),
            }
        }
        self.seek_before(key);
        Ok(())
    }

    /// Copies the payload under the iterator; `false` for a tombstone.
    fn read_payload(&self, payload: &mut Vec<u8>) -> Result<bool> {
        payload.clear();
        match value::split_stored(self.iterator.value().unwrap_or(&[]))? {
            Some(bytes) => {
                payload.extend_from_slice(bytes);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
