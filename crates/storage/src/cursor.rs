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
//! versions of a row are stepped over one by one, because a step costs a tenth of a seek or less; after
//! [`STEPS_BEFORE_SEEK`] of them a seek jumps over the rest, so that 100,000 versions of a row cost what four do. A cursor that has
//! passed a few rows takes more steps ([`STEPS_OF_LONG_SCAN`]): as a rule all rows of a table have been written about as often.
//!
//! Among the versions lie writes of large transactions ([`crate::spills`]): what they are, and when they were committed, is told by
//! their number. One that runs, or was rolled back, is stepped over.
//!
//! A run of rows that are all invisible is walked once, remembered, and jumped over by later scans
//! ([`crate::dead_ranges`]).
//!
//! The rule a reader must not break: bounds are compared with keys, never with stored keys (see [`crate::key`]).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dead_ranges::{EdgeKind, Jump, Learner, Step};
use crate::iterator::OwnedIterator;
use crate::spills::{Entry, EntryReader, OwnWrites, Reading, place};
use crate::{Engine, ReadStats, Result, Spills, Timestamp, key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// So many versions of one row are stepped over before a seek.
const STEPS_BEFORE_SEEK: u32 = 3;
/// The same behind the first rows of a scan.
const STEPS_OF_LONG_SCAN: u32 = 24;
/// Rows between two looks at whether to stop.
const ROWS_PER_LOOK: u32 = 1024;
/// Rows that a cursor has passed before its scan counts as long.
const LONG_SCAN: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not positioned yet.
    Start,
    /// Forward: on the current row's version. Backward: before the current row's versions.
    OnRow,
    /// Backward only: on the first of the current row's versions that are too new; the one that counts is in `value`.
    OnNewer,
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
    /// Backward: the current row's value.
    value: Vec<u8>,
    /// Forward: where in the entry under the iterator it is.
    payload: Range<usize>,
    time: Timestamp,
    stats: ReadStats,
    /// Rows met since the cursor was made.
    passed: u32,
    /// `None`: does not use the index of dead ranges.
    learner: Option<Learner>,
    entries: EntryReader<Arc<Spills>>,
    stop: Option<Arc<AtomicBool>>,
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
        Self::open_reading(engine, low, high, direction, at, Reading::Committed)
    }

    /// The same, with what else the reader sees.
    pub fn open_reading(
        engine: Arc<Engine>,
        low: &[u8],
        high: &[u8],
        direction: Direction,
        at: Timestamp,
        reading: Reading,
    ) -> Result<Self> {
        let ranges = engine.dead_ranges();
        // The mark precedes the iterator.
        let (learner, own) = match reading {
            _ if !ranges.enabled() => (None, own_writes(reading)),
            Reading::Committed => (Some(Learner::new(ranges.clone(), direction, ranges.mark())), None),
            Reading::Own(own) => (Some(Learner::of_writer(ranges.clone(), direction)), Some(own)),
            Reading::Private(own) => (None, own),
        };
        let iterator = engine.take_range_iterator()?;
        Ok(Cursor {
            entries: EntryReader::new(engine.gc.spills.clone(), own),
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
            payload: 0..0,
            time: Timestamp::MIN,
            stats: ReadStats::default(),
            passed: 0,
            stop: None,
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

    /// From now on the cursor ends soon after `stop` has become true, in the middle of a long run of dead rows too.
    pub fn end_when(&mut self, stop: Arc<AtomicBool>) {
        self.stop = Some(stop);
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
            // The entry was read when the cursor stopped on it.
            Direction::Forward => {
                let entry = self.iterator.as_ref().and_then(|it| it.value());
                entry.and_then(|entry| entry.get(self.payload.clone())).unwrap_or(&[])
            }
        }
    }

    /// Time of the current row's version; [`Timestamp::MIN`] for an own write.
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
            passed: &mut self.passed,
        };
        let known = match self.state {
            State::End => return Ok(false),
            State::Start => {
                begin(&self.engine, &mut self.learner, &mut walk, (&self.low, &self.high), self.at)?
            }
            State::OnRow => {
                self.learner.as_mut().and_then(|l| l.leave(&self.key, walk.stats.counters.steps()))
            }
            // Backward only.
            State::OnNewer => None,
        };
        match (known, self.state) {
            (Some(jump), _) => {
                if !walk.jump_forward(&jump, &self.high)? {
                    return Ok(self.end_of_range());
                }
            }
            (None, State::OnRow) => walk.leave_row(&self.key)?,
            (None, _) => walk.seek_bound(&self.low)?,
        }
        while let Some((found, time)) = walk.current()? {
            if found >= &self.high[..] {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(found);
            *walk.passed = walk.passed.saturating_add(1);
            if (*walk.passed).is_multiple_of(ROWS_PER_LOOK)
                && self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Acquire))
            {
                self.state = State::End;
                return Ok(false);
            }
            let row = walk.find_visible(&self.key, time, self.at, &mut self.entries)?;
            match row.visible {
                Sight::Version(time, Some(payload)) => {
                    walk.stats.newest_seen = walk.stats.newest_seen.max(time);
                    self.payload = payload;
                    return Ok(self.give_row(time, State::OnRow, self.payload.len()));
                }
                Sight::Own(Some(payload)) => {
                    self.payload = payload;
                    return Ok(self.give_row(Timestamp::MIN, State::OnRow, self.payload.len()));
                }
                _ => {}
            }
            let step = pass_dead(&mut self.learner, &self.key, self.at, &row, walk.stats);
            match step {
                // Without a version the iterator is on another key now, or at the end.
                Step::Walk if !matches!(row.visible, Sight::Nothing) => walk.leave_row(&self.key)?,
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
            passed: &mut self.passed,
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
            State::OnNewer => walk.skip_newer(&self.key)?,
        }
        while let Some((found, _)) = walk.current()? {
            if found < &self.low[..] {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(found);
            *walk.passed = walk.passed.saturating_add(1);
            let (row, newer_ahead) =
                walk.newest_from_oldest(&self.key, self.at, &mut self.entries, &mut self.value)?;
            let given = match row.visible {
                Sight::Version(time, Some(_)) => Some(time),
                Sight::Own(Some(_)) => Some(Timestamp::MIN),
                _ => None,
            };
            if let Some(time) = given {
                walk.stats.newest_seen = walk.stats.newest_seen.max(time);
                // Who wants one row is spared the steps to the next.
                let state = if newer_ahead { State::OnNewer } else { State::OnRow };
                return Ok(self.give_row(time, state, self.value.len()));
            }
            if newer_ahead {
                walk.skip_newer(&self.key)?;
            }
            match pass_dead(&mut self.learner, &self.key, self.at, &row, walk.stats) {
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

fn own_writes(reading: Reading) -> Option<OwnWrites> {
    match reading {
        Reading::Committed => None,
        Reading::Own(own) => Some(own),
        Reading::Private(own) => own,
    }
}

/// A row of which the cursor can see nothing: what to do next.
fn pass_dead(
    learner: &mut Option<Learner>,
    key: &[u8],
    at: Timestamp,
    row: &RowSeen,
    stats: &mut ReadStats,
) -> Step {
    let since = match row.visible {
        Sight::Version(time, _) => {
            stats.newest_seen = stats.newest_seen.max(time);
            stats.counters.tombstones_skipped += 1;
            time
        }
        Sight::Own(_) => {
            stats.counters.tombstones_skipped += 1;
            Timestamp::MIN
        }
        Sight::Nothing => Timestamp::MIN,
    };
    let Some(learner) = learner else { return Step::Walk };
    if row.running && at == Timestamp::LAST {
        // "Up to the newest time" would outlive the commit: nothing can be learned here.
        learner.live(key, stats.counters.steps());
        return Step::Walk;
    }
    learner.dead(key, since, row.newer || row.running, stats.counters.steps())
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

/// What a cursor sees of a row: where in the entry the payload is, `None` for a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    Nothing,
    Version(Timestamp, Option<Range<usize>>),
    /// An own write.
    Own(Option<Range<usize>>),
}

/// What a row's versions are to a cursor.
#[derive(Debug)]
struct RowSeen {
    visible: Sight,
    /// There are versions later than the read time.
    newer: bool,
    /// There are uncommitted writes of others.
    running: bool,
}

/// Moves of the iterator, counted.
struct Walk<'cursor> {
    iterator: &'cursor mut OwnedIterator,
    stats: &'cursor mut ReadStats,
    /// Rows met so far.
    passed: &'cursor mut u32,
}

impl Walk<'_> {
    /// Versions of a row that are stepped over before a seek.
    #[inline]
    fn steps_before_seek(&self) -> u32 {
        if *self.passed > LONG_SCAN { STEPS_OF_LONG_SCAN } else { STEPS_BEFORE_SEEK }
    }

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

    /// From the first entry of `key`, whose time is given, on to the one that counts at `at`. Without one the iterator is behind the
    /// key.
    #[inline]
    fn find_visible(
        &mut self,
        key: &[u8],
        time: Timestamp,
        at: Timestamp,
        entries: &mut EntryReader<Arc<Spills>>,
    ) -> Result<RowSeen> {
        if time <= at {
            let entry = self.iterator.value().unwrap_or(&[]);
            if let Entry::Version(time, payload) = entries.read(time, entry)?
                && time <= at
            {
                let visible = Sight::Version(time, place(entry, payload));
                return Ok(RowSeen { visible, newer: false, running: false });
            }
        }
        self.find_behind(key, time, at, entries)
    }

    /// The same, where the first entry may not be it.
    fn find_behind(
        &mut self,
        key: &[u8],
        mut time: Timestamp,
        at: Timestamp,
        entries: &mut EntryReader<Arc<Spills>>,
    ) -> Result<RowSeen> {
        let mut row = RowSeen { visible: Sight::Nothing, newer: false, running: false };
        // Own writes are in front of all others, later than the read time or not.
        let mut may_be_own = entries.has_own();
        let mut steps = 0;
        loop {
            let mut is_own = false;
            if time <= at || may_be_own {
                let entry = self.iterator.value().unwrap_or(&[]);
                match entries.read(time, entry)? {
                    Entry::Version(time, payload) if time <= at => {
                        row.visible = Sight::Version(time, place(entry, payload));
                        return Ok(row);
                    }
                    Entry::Version(..) => row.newer = true,
                    Entry::Own(payload) => {
                        row.visible = Sight::Own(place(entry, payload));
                        return Ok(row);
                    }
                    Entry::Running => row.running = true,
                    Entry::Nothing => is_own = true,
                }
            } else {
                // Whatever it is, it was committed later, if at all.
                row.newer = true;
            }
            may_be_own &= is_own;
            self.stats.counters.versions_skipped += 1;
            if steps >= self.steps_before_seek() && time > at && !may_be_own {
                self.seek_version(key, at);
            } else {
                steps += 1;
                self.next();
            }
            time = match self.current()? {
                Some((found, time)) if found == key => time,
                _ => return Ok(row),
            };
        }
    }

    /// From a version of `key` on to the first version of another key.
    fn leave_row(&mut self, key: &[u8]) -> Result<()> {
        for _ in 0..self.steps_before_seek() {
            self.next();
            match self.current()? {
                Some((found, _)) if found == key => self.stats.counters.versions_skipped += 1,
                _ => return Ok(()),
            }
        }
        self.seek_behind(key);
        Ok(())
    }

    /// From the oldest version of `key`: the newest that counts at `at`, its payload in `payload`. Leaves the iterator
    /// before the key, or, if the second answer is `true`, on its first version that is too new.
    fn newest_from_oldest(
        &mut self,
        key: &[u8],
        at: Timestamp,
        entries: &mut EntryReader<Arc<Spills>>,
        payload: &mut Vec<u8>,
    ) -> Result<(RowSeen, bool)> {
        let mut row = RowSeen { visible: Sight::Nothing, newer: false, running: false };
        let may_be_own = entries.has_own();
        for _ in 0..=self.steps_before_seek() {
            let time = match self.current()? {
                Some((found, time)) if found == key => time,
                _ => return Ok((row, false)),
            };
            if time > at && !may_be_own {
                row.newer = true;
                return Ok((row, true));
            }
            let entry = self.iterator.value().unwrap_or(&[]);
            let seen = match entries.read(time, entry)? {
                Entry::Version(time, value) if time <= at => {
                    Some((Sight::Version(time, place(entry, value)), value))
                }
                Entry::Own(value) => Some((Sight::Own(place(entry, value)), value)),
                Entry::Version(..) => {
                    row.newer = true;
                    None
                }
                Entry::Running => {
                    row.running = true;
                    None
                }
                Entry::Nothing => None,
            };
            if let Some((sight, value)) = seen {
                if !matches!(row.visible, Sight::Nothing) {
                    self.stats.counters.versions_skipped += 1;
                }
                row.visible = sight;
                payload.clear();
                payload.extend_from_slice(value.unwrap_or_default());
            }
            self.prev();
        }
        match self.current()? {
            Some((found, _)) if found == key => {}
            _ => return Ok((row, false)),
        }
        // Many versions: from the other side.
        self.stats.counters.versions_skipped += 1;
        self.seek_version(key, if may_be_own { Timestamp::MAX } else { at });
        let row = match self.current()? {
            Some((found, time)) if found == key => self.find_behind(key, time, at, entries)?,
            _ => row,
        };
        let copied = match &row.visible {
            Sight::Version(_, place) | Sight::Own(place) => place.clone(),
            Sight::Nothing => None,
        };
        payload.clear();
        if let Some(bytes) = copied.and_then(|place| self.iterator.value()?.get(place)) {
            payload.extend_from_slice(bytes);
        }
        // What lies between here and the front of the row, if anything, is newer.
        let has_newer = if row.visible == Sight::Nothing {
            at < Timestamp::LAST
        } else {
            self.prev();
            matches!(self.current()?, Some((found, _)) if found == key)
        };
        if has_newer || row.visible == Sight::Nothing {
            self.stats.counters.versions_skipped += 1;
            self.seek_before(key);
        }
        Ok((RowSeen { newer: row.newer || has_newer, ..row }, false))
    }

    /// From a version of `key` that is too new, going backward: before the key.
    fn skip_newer(&mut self, key: &[u8]) -> Result<()> {
        let mut steps = 0;
        while matches!(self.current()?, Some((found, _)) if found == key) {
            self.stats.counters.versions_skipped += 1;
            if steps == self.steps_before_seek() {
                self.seek_before(key);
                return Ok(());
            }
            steps += 1;
            self.prev();
        }
        Ok(())
    }
}
