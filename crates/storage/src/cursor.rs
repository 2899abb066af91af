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
//! A run of rows that are all invisible is walked once, remembered, and jumped over by later scans
//! ([`crate::dead_ranges`]).
//!
//! The rule a reader must not break: bounds are compared with keys, never with stored keys (see [`crate::key`]).

use std::sync::Arc;

use crate::dead_ranges::{EdgeKind, Jump, Learner, Step};
use crate::iterator::OwnedIterator;
use crate::spills::{Resolver, SpillNumber};
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
    /// The current row's version is in `value`. Forward: the iterator is somewhere in the row, or right behind it. Backward:
    /// it is on one that is too new.
    OnResolved,
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
    /// The current row's value, where the iterator has left it: going backward, and in a provisional record.
    value: Vec<u8>,
    time: Timestamp,
    stats: ReadStats,
    /// `None`: does not use the index of dead ranges.
    learner: Option<Learner>,
    /// Rows may have markers of commits that the read time sees ([`crate::spills`]).
    resolves: bool,
    resolver: Resolver,
    /// Spills that have a marker on the current row.
    markers: Vec<SpillNumber>,
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
        let ranges = engine.dead_ranges();
        let learner = ranges.enabled().then(|| Learner::new(ranges.clone(), direction, ranges.mark()));
        Self::with_learner(engine, low, high, direction, at, learner)
    }

    /// For a key space that only its reader knows and to which it still adds rows in the past (bulk load).
    pub fn open_private(
        engine: Arc<Engine>,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        at: Timestamp,
    ) -> Result<Self> {
        Self::with_learner(engine, low, high, direction, at, None)
    }

    /// The learner's mark precedes the iterator.
    fn with_learner(
        engine: Arc<Engine>,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        at: Timestamp,
        learner: Option<Learner>,
    ) -> Result<Self> {
        // Before the iterator is made: what was moved by then is in it.
        // Who reads the newest state sees commits that are still to come, too.
        let resolves = engine.spills().unmoved() > 0 || at >= Timestamp::LAST;
        let iterator = engine.take_range_iterator()?;
        Ok(Cursor {
            resolves,
            resolver: Resolver::of_scan(direction),
            markers: Vec::new(),
            learner,
            engine,
            iterator: Some(iterator),
            direction,
            at: at.min(Timestamp::LAST),
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
        self.at = at.min(Timestamp::LAST);
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
        match (self.direction, self.state) {
            (Direction::Backward, _) | (_, State::OnResolved) => &self.value,
            // The version was checked when the cursor stopped on it; its first byte is the kind.
            (Direction::Forward, _) => {
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
        let known = match self.state {
            State::End => return Ok(false),
            State::Start => {
                begin(&self.engine, &mut self.learner, &mut walk, (&self.low, &self.high), self.at)?
            }
            State::OnRow => {
                self.learner.as_mut().and_then(|l| l.leave(&self.key, walk.stats.counters.steps()))
            }
            State::OnResolved => None,
        };
        match (known, self.state) {
            (Some(jump), _) => {
                if !walk.jump_forward(&jump, &self.high)? {
                    return Ok(self.end_of_range());
                }
            }
            (None, State::OnRow) => walk.leave_row(&self.key)?,
            (None, State::OnResolved) => walk.pass_row(&self.key)?,
            (None, State::Start | State::End) => walk.seek_bound(&self.low)?,
        }
        while let Some((found, time)) = walk.current()? {
            if found >= &self.high[..] {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(found);
            if self.resolves && time.is_provisional() {
                let stored = walk.pass_markers(&self.key, self.at, &mut self.markers)?;
                let after = stored.unwrap_or(Timestamp::MIN);
                let (resolver, markers, value) = (&mut self.resolver, &self.markers, &mut self.value);
                let resolved = resolver.resolve(&self.engine, &self.key, markers, after, self.at, value)?;
                let visible = match (resolved, stored) {
                    (None, Some(time)) => Some((time, walk.read_payload(value)?)),
                    (resolved, _) => resolved,
                };
                if let Some((time, is_value)) = visible {
                    walk.stats.newest_seen = walk.stats.newest_seen.max(time);
                    if is_value {
                        return Ok(self.give_row(time, State::OnResolved, self.value.len()));
                    }
                    walk.stats.counters.tombstones_skipped += 1;
                }
                if let Some(learner) = &mut self.learner {
                    // Nothing is learned here: the versions are still on their way.
                    learner.live(&self.key, walk.stats.counters.steps());
                }
                walk.pass_row(&self.key)?;
                continue;
            }
            let newer = time > self.at;
            // The version that counts; without one the iterator is on another key now, or at the end.
            let visible = if newer { walk.find_at(&self.key, self.at)? } else { Some(time) };
            let mut since = Timestamp::MIN;
            if let Some(time) = visible {
                walk.stats.newest_seen = walk.stats.newest_seen.max(time);
                if let Some(payload) = value::split_stored(walk.iterator.value().unwrap_or(&[]))? {
                    let value_bytes = payload.len();
                    return Ok(self.give_row(time, State::OnRow, value_bytes));
                }
                walk.stats.counters.tombstones_skipped += 1;
                since = time;
            }
            let step = match &mut self.learner {
                Some(learner) => learner.dead(&self.key, since, newer, walk.stats.counters.steps()),
                None => Step::Walk,
            };
            match step {
                Step::Walk if visible.is_some() => walk.leave_row(&self.key)?,
                Step::Walk => {}
                Step::Jump(jump) => {
                    if !walk.jump_forward(&jump, &self.high)? {
                        break;
                    }
                }
                Step::Renew => {
                    renew_if_needed(&self.engine, &mut self.learner, &mut walk)?;
                    walk.seek_behind(&self.key);
                }
            }
        }
        Ok(self.end_of_range())
    }

    fn advance_backward(&mut self) -> Result<bool> {
        let mut walk = Walk {
            iterator: self.iterator.as_mut().expect("the iterator is given back on drop only"),
            stats: &mut self.stats,
        };
        match self.state {
            State::End => return Ok(false),
            State::Start => {
                match begin(&self.engine, &mut self.learner, &mut walk, (&self.low, &self.high), self.at)? {
                    Some(jump) => {
                        if !walk.jump_backward(&jump, &self.low, &mut self.key)? {
                            return Ok(self.end_of_range());
                        }
                    }
                    None => walk.seek_last_before(&self.high, &mut self.key)?,
                }
            }
            State::OnRow => {}
            State::OnResolved => {
                self.markers.clear();
                walk.skip_newer(&self.key, &mut self.markers)?;
            }
        }
        while let Some((found, _)) = walk.current()? {
            if found < &self.low[..] {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(found);
            let markers = &mut self.markers;
            markers.clear();
            let mut row = walk.newest_from_oldest(&self.key, self.at, &mut self.value)?;
            if let Some((time, true)) = row.visible
                && row.newer_ahead
                && !self.resolves
            {
                // Who wants one row is spared the steps to the next.
                walk.stats.newest_seen = walk.stats.newest_seen.max(time);
                return Ok(self.give_row(time, State::OnResolved, self.value.len()));
            }
            if row.newer_ahead {
                row.overleapt = walk.skip_newer(&self.key, markers)?;
            }
            if self.resolves && row.overleapt {
                markers.clear();
                walk.seek_version(&self.key, Timestamp::MAX);
                walk.collect_markers(&self.key, markers)?;
                walk.seek_before(&self.key);
            }
            let marked = self.resolves && !markers.is_empty();
            if marked {
                let after = row.visible.map_or(Timestamp::MIN, |(time, _)| time);
                let (resolver, value) = (&mut self.resolver, &mut self.value);
                let resolved = resolver.resolve(&self.engine, &self.key, markers, after, self.at, value)?;
                row.visible = resolved.or(row.visible);
            }
            let mut since = Timestamp::MIN;
            if let Some((time, is_value)) = row.visible {
                walk.stats.newest_seen = walk.stats.newest_seen.max(time);
                if is_value {
                    return Ok(self.give_row(time, State::OnRow, self.value.len()));
                }
                walk.stats.counters.tombstones_skipped += 1;
                since = time;
            }
            let step = match &mut self.learner {
                Some(learner) if marked => {
                    // Nothing is learned here: the versions are still on their way.
                    learner.live(&self.key, walk.stats.counters.steps());
                    Step::Walk
                }
                Some(learner) => learner.dead(&self.key, since, row.newer, walk.stats.counters.steps()),
                None => Step::Walk,
            };
            match step {
                // The iterator is before the key already.
                Step::Walk => {}
                Step::Jump(jump) => {
                    if !walk.jump_backward(&jump, &self.low, &mut self.key)? {
                        break;
                    }
                }
                Step::Renew => {
                    renew_if_needed(&self.engine, &mut self.learner, &mut walk)?;
                    walk.seek_before(&self.key);
                }
            }
        }
        Ok(self.end_of_range())
    }

    /// Gives out the row of `self.key`, a value of so many bytes. `true`, for [`Cursor::advance`] to return.
    #[inline]
    fn give_row(&mut self, time: Timestamp, state: State, value_bytes: usize) -> bool {
        self.stats.counters.keys_found += 1;
        self.stats.counters.bytes_read += (self.key.len() + value_bytes) as u64;
        self.time = time;
        self.state = state;
        if let Some(learner) = &mut self.learner {
            learner.live(&self.key, self.stats.counters.steps());
        }
        true
    }

    /// Nothing is left of the range. `false`, for [`Cursor::advance`] to return.
    fn end_of_range(&mut self) -> bool {
        if let Some(learner) = &mut self.learner {
            let bound = match self.direction {
                Direction::Forward => &self.high,
                Direction::Backward => &self.low,
            };
            learner.end(bound, self.stats.counters.steps());
        }
        self.state = State::End;
        false
    }
}

/// Begins with a range: what is known to be dead at its beginning, if anything is.
fn begin(
    engine: &Engine,
    learner: &mut Option<Learner>,
    walk: &mut Walk<'_>,
    (low, high): (&[u8], &[u8]),
    at: Timestamp,
) -> Result<Option<Jump>> {
    walk.stats.counters.requests += 1;
    renew_if_needed(engine, learner, walk)?;
    Ok(learner.as_mut().and_then(|learner| learner.begin(low, high, at)))
}

/// Replaces a learner's iterator that is too old to learn from; the caller positions it. What the cursor sees
/// stays the same: the versions at its read time.
fn renew_if_needed(engine: &Engine, learner: &mut Option<Learner>, walk: &mut Walk<'_>) -> Result<()> {
    if let Some(learner) = learner
        && learner.needs_renewal()
    {
        let mark = engine.dead_ranges().mark();
        walk.iterator.refresh()?;
        learner.renewed(mark, walk.stats.counters.steps());
    }
    Ok(())
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if let Some(iterator) = self.iterator.take() {
            self.engine.give_back_range_iterator(iterator);
        }
    }
}

/// What a row's versions are to a read time.
struct RowSeen {
    /// Time of the version that counts, and whether it is a value.
    visible: Option<(Timestamp, bool)>,
    /// There are versions later than the read time.
    newer: bool,
    /// The iterator is on the first of those, not before the key.
    newer_ahead: bool,
    /// Not all of those were seen: there may be markers among them.
    overleapt: bool,
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
        self.stats.counters.nexts += 1;
        self.iterator.next();
    }

    #[inline]
    fn prev(&mut self) {
        self.stats.counters.nexts += 1;
        self.iterator.prev();
    }

    /// To the first version of a key at or behind `bound`.
    fn seek_bound(&mut self, bound: &[u8]) -> Result<()> {
        self.stats.counters.seeks += 1;
        self.iterator.seek(bound);
        // A stored key behind the bound may belong to a key before it, of which the bound is an extension.
        let before = match self.current()? {
            Some((found, _)) if found < bound => found.len(),
            _ => return Ok(()),
        };
        self.seek_behind(&bound[..before]);
        Ok(())
    }

    fn count_jump(&mut self, jump: &Jump) {
        self.stats.counters.ranges_skipped += 1;
        self.stats.newest_seen = self.stats.newest_seen.max(jump.since);
    }

    /// To the first version of a key at or behind a border; `false`, and nowhere, if that is beyond `high`.
    fn jump_forward(&mut self, jump: &Jump, high: &[u8]) -> Result<bool> {
        self.count_jump(jump);
        if jump.to.bytes[..] >= *high {
            return Ok(false);
        }
        match (jump.to.kind, jump.to.key_before()) {
            (_, Some(key)) => self.seek_behind(key),
            (EdgeKind::Key, None) => self.seek_version(&jump.to.bytes, Timestamp::MAX),
            (_, None) => self.seek_bound(&jump.to.bytes)?,
        }
        Ok(true)
    }

    /// To the last version of a key before a border; `false`, and nowhere, if that is beyond `low`. `scratch` is
    /// overwritten.
    fn jump_backward(&mut self, jump: &Jump, low: &[u8], scratch: &mut Vec<u8>) -> Result<bool> {
        self.count_jump(jump);
        if jump.to.bytes[..] <= *low {
            return Ok(false);
        }
        match (jump.to.kind, jump.to.key_before()) {
            (_, Some(key)) => self.seek_last_of(key),
            (EdgeKind::Key, None) => self.seek_before(&jump.to.bytes),
            (_, None) => self.seek_last_before(&jump.to.bytes, scratch)?,
        }
        Ok(true)
    }

    /// To the oldest version of `key`, or before it if there is none.
    fn seek_last_of(&mut self, key: &[u8]) {
        let mut target = std::mem::take(&mut self.iterator.target);
        key::write_stored(&mut target, key, Timestamp::MIN);
        self.stats.counters.seeks += 1;
        self.iterator.seek_for_prev(&target);
        self.iterator.target = target;
    }

    /// To the newest version of `key` at or before `at`, or behind the key.
    fn seek_version(&mut self, key: &[u8], at: Timestamp) {
        let mut target = std::mem::take(&mut self.iterator.target);
        key::write_stored(&mut target, key, at);
        self.stats.counters.seeks += 1;
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
        self.stats.counters.seeks += 1;
        self.iterator.seek_for_prev(&target);
        self.iterator.target = target;
    }

    /// To the last stored key whose key is below `bound`. `scratch` is overwritten.
    fn seek_last_before(&mut self, bound: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        // A key that is a proper prefix of the bound is below it, though its stored keys may lie behind it. That
        // needs a bound that is longer than a storage id.
        if bound.len() > key::STORAGE_ID_BYTES {
            self.stats.counters.seeks += 1;
            self.iterator.seek(bound);
            if let Some((found, _)) = self.current()?
                && found < bound
            {
                scratch.clear();
                scratch.extend_from_slice(found);
                self.seek_last_of(scratch);
                return Ok(());
            }
        }
        self.stats.counters.seeks += 1;
        self.iterator.seek_for_prev(bound);
        Ok(())
    }

    /// From a version of `key` that is too new: on to the newest at or before `at`, and its time; `None` if there
    /// is none, with the iterator behind the key.
    fn find_at(&mut self, key: &[u8], at: Timestamp) -> Result<Option<Timestamp>> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.stats.counters.versions_skipped += 1;
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
        self.stats.counters.versions_skipped += 1;
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
                Some((found, _)) if found == key => self.stats.counters.versions_skipped += 1,
                _ => return Ok(()),
            }
        }
        self.seek_behind(key);
        Ok(())
    }

    /// From anywhere in `key`, or right behind it, on to the first version of another key.
    fn pass_row(&mut self, key: &[u8]) -> Result<()> {
        match self.current()? {
            Some((found, _)) if found == key => self.leave_row(key),
            _ => Ok(()),
        }
    }

    /// Steps over the markers of `key`, the first of which the iterator is on if there is any, and adds their spills.
    fn collect_markers(&mut self, key: &[u8], markers: &mut Vec<SpillNumber>) -> Result<()> {
        while let Some((found, time)) = self.current()?
            && found == key
            && time.is_provisional()
        {
            markers.push(time.spill());
            self.stats.counters.versions_skipped += 1;
            self.next();
        }
        Ok(())
    }

    /// From the first marker of `key` on to the newest version at or before `at`, whose time it is; the iterator is behind the key
    /// if there is none. `markers` becomes the spills that have markers.
    #[cold]
    fn pass_markers(
        &mut self,
        key: &[u8],
        at: Timestamp,
        markers: &mut Vec<SpillNumber>,
    ) -> Result<Option<Timestamp>> {
        markers.clear();
        self.collect_markers(key, markers)?;
        match self.current()? {
            Some((found, time)) if found == key => match time > at {
                true => self.find_at(key, at),
                false => Ok(Some(time)),
            },
            _ => Ok(None),
        }
    }

    /// From the oldest version of `key`: the newest at or before `at`, its payload in `payload`. Leaves the iterator
    /// before the key, or on its first version that is too new.
    fn newest_from_oldest(&mut self, key: &[u8], at: Timestamp, payload: &mut Vec<u8>) -> Result<RowSeen> {
        let mut visible = None;
        for _ in 0..=STEPS_BEFORE_SEEK {
            let time = match self.current()? {
                Some((found, time)) if found == key => time,
                _ => return Ok(RowSeen { visible, newer: false, newer_ahead: false, overleapt: false }),
            };
            if time > at {
                return Ok(RowSeen { visible, newer: true, newer_ahead: true, overleapt: false });
            }
            if visible.is_some() {
                self.stats.counters.versions_skipped += 1;
            }
            visible = Some((time, self.read_payload(payload)?));
            self.prev();
        }
        match self.current()? {
            Some((found, _)) if found == key => {}
            _ => return Ok(RowSeen { visible, newer: false, newer_ahead: false, overleapt: false }),
        }
        self.stats.counters.versions_skipped += 1;
        self.seek_version(key, at);
        if let Some((found, time)) = self.current()?
            && found == key
        {
            visible = Some((time, self.read_payload(payload)?));
        }
        self.prev();
        let newer = matches!(self.current()?, Some((found, _)) if found == key);
        if newer {
            self.stats.counters.versions_skipped += 1;
            self.seek_before(key);
        }
        Ok(RowSeen { visible, newer, newer_ahead: false, overleapt: newer })
    }

    /// From a version of `key` that is too new, going backward: before the key. Adds the spills of markers that it steps over;
    /// `true` if it has leapt over some of the versions.
    fn skip_newer(&mut self, key: &[u8], markers: &mut Vec<SpillNumber>) -> Result<bool> {
        let mut steps = 0;
        loop {
            match self.current()? {
                Some((found, time)) if found == key => {
                    if time.is_provisional() {
                        markers.push(time.spill());
                    }
                }
                _ => return Ok(false),
            }
            self.stats.counters.versions_skipped += 1;
            if steps == STEPS_BEFORE_SEEK {
                self.seek_before(key);
                return Ok(true);
            }
            steps += 1;
            self.prev();
        }
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
