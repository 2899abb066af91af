//! Where nothing is visible: intervals that scans jump over.
//!
//! A scan that has stepped over a run of keys, none of which it can see, remembers the run here; a later scan jumps
//! over it with one seek. So scanning costs the live rows, not the history.
//!
//! ```text
//! key space of a queue table, oldest job first            live rows
//!   +--------------------------------------+-------+----+-------------------
//!   | since 09:00:00, nothing is visible   | 09:14 |    | job, job, job ...
//!   +--------------------------------------+-------+----+-------------------
//!     \__ segments that touch: one jump ________/    \__ deleted since; the next scan learns them
//! ```
//!
//! Two kinds of knowledge about a key space ([`Space`]):
//! - **Open** segments: nothing in it is visible at `since` or any later time, because nothing was written
//!   there since. A value that is written into one takes its key out of it.
//! - **Layers**, one for a read time T: nothing in the segment is visible from `since` to T. It may have newer
//!   rows. Writers do not touch layers: new versions are always later than T, which was visible when it was
//!   chosen. They make a snapshot that is held for hours as quick as it was at first.
//!
//! Invariants:
//! - Everything that is recorded is true, for every read time that it names, at every moment in which a reader
//!   of such a time may look: readers choose their time when commits up to it are visible, and a commit takes its
//!   keys out of the open segments before it is visible.
//! - A learner proves that nobody wrote into its interval behind its back. Every batch has a number and is *in
//!   flight* from before its first version is registered until the memtable has it. A learner takes its
//!   [`Mark`] before its iterator is made: batches below the mark are in the iterator; all others are in the
//!   space's log of registered keys (or the log does not reach back, and nothing is published). What the
//!   log says lies in the interval spoils it.
//! - A tombstone need not be registered: it makes nothing visible.
//! - The uncommitted writes of large transactions are registered when they are written ([`crate::spills`]): an open segment has
//!   none. Layers may have some, committed later than the layer's time, so who sees his own of them uses no layers.
//! - Commit times are greater than every `since`. Whatever adds versions in the past has to call
//!   [`DeadRanges::clear`]; rows that a transaction loads directly lie in a key space that only it reads, and its
//!   cursors do not learn.
//! - Nothing here is needed for right answers: any of it may be forgotten at any time, and a restart
//!   begins with nothing.

mod hints;
mod learner;
mod segments;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

pub(crate) use learner::{Learner, Step};
pub(crate) use segments::{Edge, EdgeKind, Jump, Reach, Segments};
use smallvec::SmallVec;

use crate::sync::{AtomicU64, Mutex, Ordering, RwLock};
use crate::{StorageId, Timestamp, key, timestamp};

/// Registered keys that a space remembers for learners whose iterator is older. A learner that is older still
/// renews its iterator.
const LOG_KEYS: usize = 1024;

/// Layers that a space keeps; the one that was not used for longest goes.
const LAYERS: usize = 32;

/// Answers whether an open snapshot reads at a time in `from <= time < to`.
pub type PinnedBetween = Arc<dyn Fn(Timestamp, Timestamp) -> bool + Send + Sync>;

/// The moment before an iterator was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// A batch in flight.
#[derive(Debug)]
pub struct Writing {
    number: u64,
    /// Key spaces that it wrote to, as they were when it first did.
    spaces: SmallVec<[(StorageId, Option<Arc<Space>>); 2]>,
}

#[derive(Debug, Default)]
struct InFlight {
    next: u64,
    numbers: Vec<u64>,
}

/// What one interval is about to be remembered as.
#[derive(Debug)]
pub struct Finding {
    pub(crate) low: Edge,
    pub(crate) high: Edge,
    /// The newest tombstone that the run rests on.
    pub(crate) since: Timestamp,
    /// Steps that the run took.
    pub(crate) worth: u32,
    /// Newer versions than the read time were seen: true up to the read time only.
    pub(crate) closed: bool,
    /// Bounds between which and the interval there was no key.
    pub(crate) reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Yes,
    /// Somebody wrote into the interval, or may have: a new iterator is needed to learn any more.
    Spoiled,
}

/// What a space knows about a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Jump(Jump),
    /// Nothing here; the next segment in the direction of the scan begins at this border.
    Next(Option<Vec<u8>>),
}

#[derive(Debug, Default)]
struct Layer {
    segments: Segments,
    used: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The log has every registered key of batches from this number on.
    complete_from: u64,
    log: VecDeque<(u64, Box<[u8]>)>,
    open: Segments,
    layers: BTreeMap<Timestamp, Layer>,
    /// Taken out of the index: it learns no more.
    retired: bool,
}

impl State {
    fn bytes(&self) -> usize {
        self.open.bytes() + self.layers.values().map(|layer| layer.segments.bytes()).sum::<usize>()
    }

    /// Whether somebody wrote into the interval since an iterator's mark, or may have.
    fn is_spoiled(&self, mark: Mark, from: &[u8], to: &[u8]) -> bool {
        mark.0 < self.complete_from
            || self
                .log
                .iter()
                .any(|(number, written)| *number >= mark.0 && *from <= written[..] && written[..] < *to)
    }

    fn layer(&self, at: Timestamp) -> Option<&Layer> {
        self.layers.range(at..).next().map(|(_, layer)| layer)
    }
}

/// What is known about one key space.
#[derive(Debug, Default)]
pub struct Space {
    state: RwLock<State>,
    uses: AtomicU64,
    /// Sweeps since something was known or learned.
    idle_sweeps: AtomicU64,
    /// Scans that are still to look for delete marks behind every row.
    watched: AtomicU64,
    /// Where the next sweep begins.
    swept_to: Mutex<Vec<u8>>,
}

/// After delete marks were found, so many scans look for more.
const WATCHED_SCANS: u64 = 64;

impl Space {
    /// Delete marks were found somewhere between two looks.
    pub(crate) fn watch(&self) {
        self.watched.store(WATCHED_SCANS, Ordering::Relaxed);
    }

    /// Whether the scan that begins is to look for delete marks.
    pub(crate) fn is_watched(&self) -> bool {
        let left = self.watched.load(Ordering::Relaxed);
        if left > 0 {
            self.watched.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// What lies at and behind a key, or a border, for a read at `at`, as far as open segments know, and `layers`.
    pub(crate) fn forward(&self, key: &[u8], at: Timestamp, layers: bool) -> Found {
        self.find(key, at, layers, Segments::forward, |state, layer| {
            let borders = [state.open.next_low(key), layer.and_then(|layer| layer.segments.next_low(key))];
            borders.into_iter().flatten().min().map(<[u8]>::to_vec)
        })
    }

    /// What lies before a border.
    pub(crate) fn backward(&self, border: &[u8], at: Timestamp, layers: bool) -> Found {
        self.find(border, at, layers, Segments::backward, |state, layer| {
            let borders =
                [state.open.last_high(border), layer.and_then(|layer| layer.segments.last_high(border))];
            borders.into_iter().flatten().max().map(<[u8]>::to_vec)
        })
    }

    fn find(
        &self,
        position: &[u8],
        at: Timestamp,
        layers: bool,
        jump: impl Fn(&Segments, &[u8], Timestamp) -> Option<Jump>,
        next: impl Fn(&State, Option<&Layer>) -> Option<Vec<u8>>,
    ) -> Found {
        let state = self.state.read();
        let layer = if layers { state.layer(at) } else { None };
        let one = |position: &[u8]| {
            jump(&state.open, position, at).or_else(|| {
                let layer = layer?;
                let found = jump(&layer.segments, position, at)?;
                layer.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                Some(found)
            })
        };
        let Some(mut found) = one(position) else { return Found::Next(next(&state, layer)) };
        while let Some(further) = one(&found.to.bytes) {
            found.since = found.since.max(further.since);
            found.worth += further.worth;
            found.to = further.to;
        }
        Found::Jump(found)
    }

    /// Memory in use before and after.
    fn register(&self, number: u64, key: &[u8]) -> (usize, usize) {
        let mut state = self.state.write();
        let before = state.open.bytes();
        if state.retired {
            return (before, before);
        }
        if state.log.len() >= LOG_KEYS
            && let Some((forgotten, _)) = state.log.pop_front()
        {
            state.complete_from = state.complete_from.max(forgotten + 1);
        }
        state.log.push_back((number, key.into()));
        state.open.exclude(key);
        (before, state.open.bytes())
    }

    /// The same for keys of one batch, ascending.
    fn register_many(&self, number: u64, keys: &[&[u8]]) -> (usize, usize) {
        let mut state = self.state.write();
        let before = state.open.bytes();
        if state.retired {
            return (before, before);
        }
        if keys.len() + state.log.len() > LOG_KEYS {
            // The log would not hold them: learners need a newer iterator.
            state.complete_from = state.complete_from.max(number + 1);
            state.log.retain(|(other, _)| *other > number);
        } else {
            state.log.extend(keys.iter().map(|key| (number, (*key).into())));
        }
        state.open.exclude_many(keys);
        (before, state.open.bytes())
    }
}

/// The index of one store.
pub struct DeadRanges {
    spaces: RwLock<HashMap<StorageId, Arc<Space>>>,
    /// Number of spaces; spares most batches and cursors the map.
    active: AtomicU64,
    in_flight: Mutex<InFlight>,
    /// The oldest number in flight, or else the next one.
    oldest: AtomicU64,
    bytes: AtomicU64,
    max_bytes: usize,
    pinned_between: PinnedBetween,
    /// What died up to here has settled.
    settled: AtomicU64,
}

impl std::fmt::Debug for DeadRanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadRanges").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl DeadRanges {
    /// `max_bytes` bounds the memory, about; 0 switches the index off.
    pub fn new(max_bytes: usize, pinned_between: PinnedBetween) -> Self {
        DeadRanges {
            spaces: RwLock::default(),
            active: AtomicU64::new(0),
            in_flight: Mutex::default(),
            oldest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            max_bytes,
            pinned_between,
            settled: AtomicU64::new(0),
        }
    }

    pub(crate) fn enabled(&self) -> bool {
        self.max_bytes > 0
    }

    // ---- writers ----------------------------------------------------------------------------------------

    /// Before a batch gets its first version.
    pub fn begin_write(&self) -> Writing {
        let mut in_flight = self.in_flight.lock();
        let number = in_flight.next;
        in_flight.next += 1;
        in_flight.numbers.push(number);
        self.publish_oldest(&in_flight);
        Writing { number, spaces: SmallVec::new() }
    }

    /// The batch is going to write a value at `key`.
    #[inline]
    pub fn register(&self, writing: &mut Writing, key: &[u8]) {
        if self.active.load(Ordering::Acquire) != 0 {
            self.register_key(writing, key);
        }
    }

    /// The batch is going to write values at these keys, which are ascending.
    pub(crate) fn register_many(&self, writing: &mut Writing, keys: &[&[u8]]) {
        if self.active.load(Ordering::Acquire) == 0 {
            return;
        }
        for of_storage in keys.chunk_by(|a, b| key::storage_of(a) == key::storage_of(b)) {
            let storage = of_storage.first().and_then(|key| key::storage_of(key));
            if let Some(space) = storage.and_then(|storage| self.space_for(writing, storage)) {
                let (before, after) = space.register_many(writing.number, of_storage);
                self.account(before, after);
            }
        }
    }

    fn register_key(&self, writing: &mut Writing, key: &[u8]) {
        let Some(storage) = key::storage_of(key) else { return };
        if let Some(space) = self.space_for(writing, storage) {
            let (before, after) = space.register(writing.number, key);
            self.account(before, after);
        }
    }

    /// The space as the batch has met it first.
    fn space_for(&self, writing: &mut Writing, storage: StorageId) -> Option<Arc<Space>> {
        if let Some((_, space)) = writing.spaces.iter().find(|(known, _)| *known == storage) {
            return space.clone();
        }
        // A space that comes to be later counts from batches that begin later (see `activate`).
        let space = self.space(storage);
        writing.spaces.push((storage, space.clone()));
        space
    }

    /// The memtable has the batch, or it was given up.
    pub fn end_write(&self, writing: &Writing) {
        let mut in_flight = self.in_flight.lock();
        in_flight.numbers.retain(|number| *number != writing.number);
        self.publish_oldest(&in_flight);
    }

    fn publish_oldest(&self, in_flight: &InFlight) {
        let oldest = in_flight.numbers.iter().min().copied().unwrap_or(in_flight.next);
        self.oldest.store(oldest, Ordering::Release);
    }

    // ---- readers ----------------------------------------------------------------------------------------

    /// To be taken before an iterator is made.
    pub fn mark(&self) -> Mark {
        Mark(self.oldest.load(Ordering::Acquire))
    }

    /// What is known about a key space, if anything.
    pub fn space(&self, storage: StorageId) -> Option<Arc<Space>> {
        if self.active.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.spaces.read().get(&storage).cloned()
    }

    /// From now on registered keys of this key space are remembered. A batch that looked for the space before has a
    /// number below `complete_from`.
    pub(crate) fn activate(&self, storage: StorageId) -> Arc<Space> {
        let mut spaces = self.spaces.write();
        if let Some(space) = spaces.get(&storage) {
            return space.clone();
        }
        let space = Arc::new(Space::default());
        // A batch that finds the space waits for this lock; one that looked before has a number below the next one.
        let mut state = space.state.write();
        spaces.insert(storage, space.clone());
        self.active.store(spaces.len() as u64, Ordering::Release);
        drop(spaces);
        state.complete_from = self.in_flight.lock().next;
        drop(state);
        space
    }

    /// Remembers what a scan at `at`, on an iterator made after `mark`, has found.
    pub fn publish(&self, space: &Space, mark: Mark, at: Timestamp, finding: Finding) -> Published {
        let mut state = space.state.write();
        if state.retired {
            return Published::Spoiled;
        }
        let bytes_before = state.bytes();
        let Finding { low, high, since, worth, closed, reach } = finding;
        debug_assert!(since <= at, "a run rests on what its reader sees");
        if closed {
            if !state.layers.contains_key(&at) && state.layers.len() >= LAYERS {
                let oldest = state.layers.iter().min_by_key(|(_, layer)| layer.used.load(Ordering::Relaxed));
                if let Some(oldest) = oldest.map(|(at, _)| *at) {
                    state.layers.remove(&oldest);
                }
            }
            let layer = state.layers.entry(at).or_default();
            layer.used.store(space.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            // Every reader of the layer's own time may use all of it; that is whom it is for.
            layer.segments.insert(low, high, since, worth, reach, &|_, _| false);
        } else {
            let from = reach.low.as_deref().unwrap_or(&low.bytes);
            let to = reach.high.as_deref().unwrap_or(&high.bytes);
            if state.is_spoiled(mark, from, to) {
                return Published::Spoiled;
            }
            state.open.insert(low, high, since, worth, reach, &*self.pinned_between);
        }
        let bytes_after = state.bytes();
        let total = self.account(bytes_before, bytes_after);
        if total > self.max_bytes as u64 {
            self.shrink(&mut state, total);
        }
        Published::Yes
    }

    /// Remembers that a scan at `at`, on an iterator made after `mark`, has met no key between a bound and the border of
    /// the segment that it jumped over next.
    pub(crate) fn extend_reach(
        &self,
        space: &Space,
        mark: Mark,
        at: Timestamp,
        border: &[u8],
        bound: &[u8],
    ) -> Published {
        let mut state = space.state.write();
        let (from, to) = if bound < border { (bound, border) } else { (border, bound) };
        if state.retired || state.is_spoiled(mark, from, to) {
            return Published::Spoiled;
        }
        let bytes_before = state.bytes();
        if !state.open.extend_reach(border, bound)
            && let Some((_, layer)) = state.layers.range_mut(at..).next()
        {
            layer.segments.extend_reach(border, bound);
        }
        self.account(bytes_before, state.bytes());
        Published::Yes
    }

    // ---- memory -----------------------------------------------------------------------------------------

    fn account(&self, before: usize, after: usize) -> u64 {
        if after >= before {
            let grown = (after - before) as u64;
            self.bytes.fetch_add(grown, Ordering::Relaxed) + grown
        } else {
            let shrunk = (before - after) as u64;
            self.bytes.fetch_sub(shrunk, Ordering::Relaxed).saturating_sub(shrunk)
        }
    }

    /// Makes room where the last segment was learned: layers first, then what spares least.
    fn shrink(&self, state: &mut State, mut total: u64) {
        while total > self.max_bytes as u64 && state.bytes() > 0 {
            let before = state.bytes();
            if state.layers.is_empty() {
                state.open.forget_half();
            } else {
                state.layers.clear();
            }
            total = self.account(before, state.bytes());
        }
    }

    /// Memory in use, about.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of segments of a key space.
    pub fn count(&self, storage: StorageId) -> u64 {
        self.space(storage).map_or(0, |space| {
            let state = space.state.read();
            (state.open.len() + state.layers.values().map(|layer| layer.segments.len()).sum::<usize>()) as u64
        })
    }

    /// Versions in the past were added, or the key space is gone.
    pub fn clear(&self, storage: StorageId) {
        let space = {
            let mut spaces = self.spaces.write();
            let space = spaces.remove(&storage);
            self.active.store(spaces.len() as u64, Ordering::Release);
            space
        };
        if let Some(space) = space {
            self.retire(&space);
        }
    }

    fn retire(&self, space: &Space) {
        let mut state = space.state.write();
        let before = state.bytes();
        *state = State { retired: true, ..State::default() };
        self.account(before, 0);
    }

    /// What died up to `time` has settled: whoever deletes there would have deleted more by now.
    pub(crate) fn settle(&self, time: Timestamp) {
        self.settled.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Whether a deletion, or a read time, has settled.
    pub(crate) fn is_settled(&self, since: Timestamp) -> bool {
        since.0 <= self.settled.load(Ordering::Relaxed)
    }

    /// To be called every second or so, with the present: joins segments that no snapshot keeps apart any more, some at a time because
    /// writers wait meanwhile, and lets go of spaces about which nothing was known for a minute.
    pub fn sweep(&self, now: Timestamp) {
        const IDLE_SWEEPS: u64 = 60;
        const SEGMENTS_PER_SWEEP: usize = 2000;
        const SETTLED_AFTER: u64 = 1_000_000 << timestamp::LOGICAL_BITS;
        self.settle(Timestamp(now.0.saturating_sub(SETTLED_AFTER)));
        let spaces: Vec<(StorageId, Arc<Space>)> =
            self.spaces.read().iter().map(|(storage, space)| (*storage, space.clone())).collect();
        for (storage, space) in spaces {
            let mut from = space.swept_to.lock();
            let mut state = space.state.write();
            let before = state.bytes();
            *from = state.open.join_some(&from, SEGMENTS_PER_SWEEP, &*self.pinned_between);
            self.account(before, state.bytes());
            drop(from);
            let empty = state.open.is_empty() && state.layers.is_empty();
            drop(state);
            if !empty {
                space.idle_sweeps.store(0, Ordering::Relaxed);
            } else if space.idle_sweeps.fetch_add(1, Ordering::Relaxed) >= IDLE_SWEEPS {
                self.clear(storage);
            }
        }
    }

    /// The intervals whose walk would cost most, at least `worth_min` steps each.
    pub(crate) fn largest(&self, count: usize, worth_min: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let spaces: Vec<Arc<Space>> = self.spaces.read().values().cloned().collect();
        let mut found = Vec::new();
        for space in spaces {
            found.extend(space.state.read().open.worth_at_least(worth_min));
        }
        found.sort_by_key(|(worth, ..)| std::cmp::Reverse(*worth));
        found.truncate(count);
        found.sort_by(|(_, a, _), (_, b, _)| a.cmp(b));
        found.into_iter().map(|(_, low, high)| (low, high)).collect()
    }

    /// The intervals of a key space that are dead for every read at `up_to` or later: where garbage lies together.
    pub fn dead_spans(&self, up_to: Timestamp) -> Vec<(Vec<u8>, Vec<u8>)> {
        let spaces: Vec<Arc<Space>> = self.spaces.read().values().cloned().collect();
        let mut spans = Vec::new();
        for space in spaces {
            let state = space.state.read();
            spans.extend(state.open.up_to(up_to).map(|(low, high)| (low.to_vec(), high.to_vec())));
        }
        spans
    }
}

/// A cursor's side of the index without a cursor, for the test of interleavings.
#[cfg(feature = "shuttle")]
pub mod model {
    use std::sync::Arc;

    use super::{DeadRanges, Learner, Mark, Step};
    use crate::{Direction, StorageId, Timestamp, key};

    pub struct Reader {
        learner: Learner,
        storage: StorageId,
        at: Timestamp,
        steps: u64,
    }

    #[derive(Debug, PartialEq, Eq)]
    pub enum Walked {
        On,
        /// Forward: to the first key at or behind this border; backward: to the last one before it.
        Jump(Vec<u8>),
        Renew,
    }

    impl Reader {
        pub fn new(
            ranges: Arc<DeadRanges>,
            backward: bool,
            mark: Mark,
            storage: StorageId,
            at: Timestamp,
        ) -> Self {
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            Reader { learner: Learner::new(ranges, direction, mark), storage, at, steps: 0 }
        }

        pub fn begin(&mut self) -> Option<Vec<u8>> {
            let (low, high) = key::storage_range(self.storage);
            self.learner.begin(&low, &high, self.at).map(|jump| jump.to.bytes)
        }

        pub fn live(&mut self, key: &[u8]) {
            self.learner.live(key, self.steps);
        }

        pub fn end(&mut self, bound: &[u8]) {
            self.learner.end(bound, self.steps);
        }

        pub fn dead(&mut self, key: &[u8], since: Timestamp, newer: bool) -> Walked {
            self.steps += 1;
            match self.learner.dead(key, since, newer, self.steps) {
                Step::Walk => Walked::On,
                Step::Jump(jump) => Walked::Jump(jump.to.bytes),
                Step::Renew => Walked::Renew,
            }
        }

        pub fn renewed(&mut self, mark: Mark) {
            self.learner.renewed(mark, self.steps);
        }
    }
}
