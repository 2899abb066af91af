//! Serializable transactions: what they read must still be so when they commit.
//!
//! A serializable transaction reads at one time, as a repeatable read one does, and remembers which keys and ranges
//! it has looked at ([`ReadSet`]). When it commits writes, the commit section compares them with what others have
//! committed since its snapshot ([`CommitLog`]); if any of that lies in what was read, the transaction fails with
//! [`crate::Conflict::ReadWrite`]. So every transaction that commits could have run in one moment, the one of its
//! commit, and commit order is a serial order. (Optimistic concurrency control with backward validation: Härder
//! 1984.)
//!
//! - A transaction that writes nothing needs no check: its reads are a prefix of the commit order. It never fails.
//! - Reading a range means the part of it that was looked at: from its beginning to the last row that was given out, or
//!   all of it if the end was reached. Spans that a dead range let the cursor jump over are in it.
//! - The log is kept from the oldest serializable snapshot on, and not at all while there is none. A snapshot is
//!   registered inside the commit section: no commit later than it can miss the log.
//! - The log is bounded, however long a snapshot is held: the oldest commits are folded into one span of keys for each key
//!   space when they need too much memory. A commit of more keys than memory holds is noted as such spans at once. Conflicts that
//!   are none are possible there, none is missed. Whoever's snapshot is younger than what was folded notices nothing.
//! - Reads that are not at the transaction's own time (unique and foreign key checks look at the newest state, under
//!   locks) are not remembered.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use cairn_storage::key::{behind, storage_of, storage_range};

use crate::{Error, Result, StorageId, Timestamp};

/// A read set larger than this goes to a file, in sorted runs.
const MEMORY_BYTES: usize = 16 << 20;
/// Up to so many intervals are compared with the log after each writing statement: who cannot commit should not go on.
const SMALL: usize = 64;

// ---- the log of commits ---------------------------------------------------------------------------------

/// Keys of commits that need more memory than this are folded.
const LOG_BYTES: usize = 64 << 20;
/// So many spans of large commits are kept apart.
const RANGES_MAX: usize = 1024;
/// So many key spaces have a span of their own: beyond it nobody knows any more where the oldest commits have written.
const FOLDED_MAX: usize = 4096;
/// A span with a longer key is that of the whole key space.
const FOLDED_KEY_BYTES: usize = 256;
/// What a commit of a key takes beside the key, and what a key takes that is there for the first time. About.
const COMMIT_BYTES: usize = 40;
const KEY_BYTES: usize = 60;
/// So many commits since a snapshot are compared one by one with what it was used to read.
const FEW: usize = if cfg!(test) { 20 } else { 256 };
/// Keys forgotten before commits have their turn.
const FORGOTTEN_AT_ONCE: usize = 512;

/// The keys that were committed since the oldest serializable snapshot.
#[derive(Debug)]
pub(crate) struct CommitLog {
    /// Number of registered snapshots; spares commits the lock while there are none.
    active: AtomicUsize,
    most_bytes: usize,
    state: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// Registered snapshots, and how many transactions have each.
    snapshots: BTreeMap<Timestamp, usize>,
    /// Time of the latest commit of each key.
    latest: BTreeMap<Arc<[u8]>, Timestamp>,
    /// Commits in order, for forgetting and folding them.
    order: VecDeque<(Timestamp, Arc<[u8]>)>,
    /// Memory of the two, about.
    bytes: usize,
    /// What large commits wrote, in order.
    ranges: VecDeque<(Timestamp, KeySpan)>,
    /// Where older commits wrote, and the time of the last of them; one for each key space.
    folded: BTreeMap<StorageId, (Timestamp, KeySpan)>,
    /// Commits up to this one may have written anything.
    anything: Timestamp,
    /// The newest commit that is in `ranges`, `folded` or `anything`.
    newest_span: Timestamp,
}

/// From key to key, both included, of one key space.
type KeySpan = (Vec<u8>, Vec<u8>);

impl Default for CommitLog {
    fn default() -> Self {
        Self::with_memory(LOG_BYTES)
    }
}

impl CommitLog {
    fn with_memory(most_bytes: usize) -> Self {
        CommitLog { active: AtomicUsize::new(0), most_bytes, state: Mutex::default() }
    }

    /// Inside the commit section: `time` is visible, and the commits after it are still to come.
    pub(crate) fn register(&self, time: Timestamp) {
        let mut log = self.state.lock();
        *log.snapshots.entry(time).or_insert(0) += 1;
        self.active.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn unregister(&self, time: Timestamp) {
        let mut log = self.state.lock();
        if let Some(count) = log.snapshots.get_mut(&time) {
            *count -= 1;
            if *count == 0 {
                log.snapshots.remove(&time);
            }
            self.active.fetch_sub(1, Ordering::AcqRel);
        }
        // Commits take the mutex inside their section: they must not wait for much memory to be freed.
        if log.snapshots.is_empty() {
            let all = std::mem::take(&mut *log);
            drop(log);
            drop(all);
            return;
        }
        while log.forget_some() {
            MutexGuard::bump(&mut log);
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire) != 0
    }

    /// Inside the commit section: the commit at `time` writes these keys.
    pub(crate) fn record<'a>(&self, time: Timestamp, keys: impl Iterator<Item = &'a [u8]>) {
        let mut log = self.state.lock();
        if log.snapshots.is_empty() {
            return;
        }
        for key in keys {
            log.add(time, key);
            // Takes out about as much as was put in: a commit pays for its own keys.
            while log.bytes > self.most_bytes
                && let Some((time, key)) = log.take_oldest()
            {
                if let Some(key) = key {
                    log.fold(time, &key, &key);
                }
            }
        }
    }

    /// Inside the commit section: the commit at `time` writes keys from `low` to `high`, of one key space.
    pub(crate) fn record_range(&self, time: Timestamp, low: &[u8], high: &[u8]) {
        let mut log = self.state.lock();
        if log.snapshots.is_empty() {
            return;
        }
        log.newest_span = log.newest_span.max(time);
        log.ranges.push_back((time, (low.to_vec(), high.to_vec())));
        if log.ranges.len() > RANGES_MAX
            && let Some((time, (low, high))) = log.ranges.pop_front()
        {
            log.fold(time, &low, &high);
        }
    }

    /// Whether a commit after `since` wrote anything that was read. Inside the commit section the answer is final;
    /// outside of it, a yes is.
    pub(crate) fn conflicts(&self, since: Timestamp, reads: &mut ReadSet) -> Result<bool> {
        let log = self.state.lock();
        if reads.doomed {
            return Ok(true);
        }
        let newer = log.order.len() - log.order.partition_point(|(time, _)| *time <= since);
        let spans_are_newer = log.newest_span > since;
        if newer == 0 && !spans_are_newer {
            return Ok(false);
        }
        // Others may read at times long ago: what was committed since then is not to be looked through each time.
        let are_few = newer <= FEW && reads.runs.is_empty();
        if are_few {
            if log.order.iter().rev().take(newer).any(|(_, key)| reads.contains(key)) {
                return Ok(true);
            }
            if !spans_are_newer {
                return Ok(false);
            }
        }
        reads.any(|low, high| {
            spans_are_newer && log.spans_meet(since, low, high) || !are_few && log.keys_meet(since, low, high)
        })
    }
}

/// The key space that a bound of an interval lies in; a bound that is too short to tell lies in all.
fn storage_or(bound: &[u8], otherwise: StorageId) -> StorageId {
    storage_of(bound).unwrap_or(otherwise)
}

impl Log {
    fn add(&mut self, time: Timestamp, key: &[u8]) {
        let known = self.latest.get_key_value(key).map(|(key, _)| key.clone());
        let key = known.unwrap_or_else(|| {
            self.bytes += KEY_BYTES + key.len();
            Arc::from(key)
        });
        self.latest.insert(key.clone(), time);
        self.order.push_back((time, key));
        self.bytes += COMMIT_BYTES;
    }

    /// Takes out the oldest commit of a key, with the key if it has no later one.
    fn take_oldest(&mut self) -> Option<(Timestamp, Option<Arc<[u8]>>)> {
        let (time, key) = self.order.pop_front()?;
        self.bytes -= COMMIT_BYTES;
        if self.latest.get(&key) != Some(&time) {
            return Some((time, None));
        }
        self.latest.remove(&key);
        self.bytes -= KEY_BYTES + key.len();
        Some((time, Some(key)))
    }

    /// Remembers of a commit only that it wrote keys from `low` to `high`, of one key space.
    fn fold(&mut self, time: Timestamp, low: &[u8], high: &[u8]) {
        self.newest_span = self.newest_span.max(time);
        let storage = storage_or(low, 0);
        let (low, high) = if low.len().max(high.len()) <= FOLDED_KEY_BYTES {
            (low.to_vec(), high.to_vec())
        } else {
            storage_range(storage)
        };
        match self.folded.entry(storage) {
            Entry::Vacant(vacant) => {
                vacant.insert((time, (low, high)));
            }
            Entry::Occupied(mut occupied) => {
                let (newest, (first, last)) = occupied.get_mut();
                *newest = time.max(*newest);
                if low < *first {
                    *first = low;
                }
                if high > *last {
                    *last = high;
                }
            }
        }
        if self.folded.len() > FOLDED_MAX {
            self.anything = self.folded.values().map(|(time, _)| *time).max().unwrap_or(time);
            self.folded.clear();
        }
    }

    /// Forgets what was committed at or before the oldest snapshot. `false`: that was all; otherwise there may be more.
    fn forget_some(&mut self) -> bool {
        let oldest = self.snapshots.first_key_value().map_or(Timestamp::MAX, |(time, _)| *time);
        for _ in 0..FORGOTTEN_AT_ONCE {
            if self.order.front().is_none_or(|(time, _)| *time > oldest) {
                if self.order.capacity() > 4 * (self.order.len() + FORGOTTEN_AT_ONCE) {
                    self.order.shrink_to_fit();
                }
                while self.ranges.front().is_some_and(|(time, _)| *time <= oldest) {
                    self.ranges.pop_front();
                }
                self.folded.retain(|_, (time, _)| *time > oldest);
                return false;
            }
            self.take_oldest();
        }
        true
    }

    /// Whether a commit after `since` wrote in `low <= key < high`, by what is known of spans.
    fn spans_meet(&self, since: Timestamp, low: &[u8], high: &[u8]) -> bool {
        let meets = |(time, (first, last)): &(Timestamp, KeySpan)| {
            *time > since && &first[..] < high && low <= &last[..]
        };
        let storages = storage_or(low, 0)..=storage_or(high, StorageId::MAX);
        self.anything > since
            || self.ranges.iter().any(meets)
            || self.folded.range(storages).any(|(_, span)| meets(span))
    }

    /// The same by what is known of keys.
    fn keys_meet(&self, since: Timestamp, low: &[u8], high: &[u8]) -> bool {
        let written = self.latest.range::<[u8], _>((Bound::Included(low), Bound::Excluded(high)));
        written.into_iter().any(|(_, time)| *time > since)
    }
}

// ---- what was read --------------------------------------------------------------------------------------

/// Intervals `[low, high)` of keys; a point is the interval up to the key and a byte 00.
#[derive(Debug)]
pub(crate) struct ReadSet {
    /// By low; they neither overlap nor touch.
    intervals: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    memory_bytes: usize,
    /// Sorted runs: lengths (u32, little endian) and bytes of low and high, one after the other.
    runs: Vec<File>,
    /// Something that was read is missing.
    doomed: bool,
}

impl Default for ReadSet {
    fn default() -> Self {
        Self::with_memory(MEMORY_BYTES)
    }
}

impl ReadSet {
    fn with_memory(memory_bytes: usize) -> Self {
        ReadSet { intervals: BTreeMap::new(), bytes: 0, memory_bytes, runs: Vec::new(), doomed: false }
    }

    /// Whether looking through it costs next to nothing.
    pub(crate) fn is_small(&self) -> bool {
        self.runs.is_empty() && self.intervals.len() <= SMALL
    }

    /// Something that was read could not be remembered: anything may be in conflict with it.
    pub(crate) fn doom(&mut self) {
        self.doomed = true;
    }

    pub(crate) fn add_key(&mut self, key: &[u8]) -> Result<()> {
        self.add(key, &behind(key))
    }

    pub(crate) fn add(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        if low >= high {
            return Ok(());
        }
        let before = self.intervals.range::<[u8], _>((Bound::Unbounded, Bound::Included(low))).next_back();
        let mut new_low = low.to_vec();
        let mut new_high = high.to_vec();
        if let Some((known_low, known_high)) = before
            && &known_high[..] >= low
        {
            if &known_high[..] >= high {
                return Ok(());
            }
            new_low.clone_from(known_low);
        }
        loop {
            let inside = (Bound::Included(&new_low[..]), Bound::Included(&new_high[..]));
            let Some(known_low) = self.intervals.range::<[u8], _>(inside).next().map(|(low, _)| low.clone())
            else {
                break;
            };
            if let Some(known_high) = self.intervals.remove(&known_low) {
                self.bytes -= INTERVAL_BYTES + known_low.len() + known_high.len();
                new_high = new_high.max(known_high);
            }
        }
        self.bytes += INTERVAL_BYTES + new_low.len() + new_high.len();
        self.intervals.insert(new_low, new_high);
        if self.bytes > self.memory_bytes { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let mut run = BufWriter::new(tempfile::tempfile()?);
        for (low, high) in &self.intervals {
            for part in [low, high] {
                // A key is far shorter than 4 GB.
                run.write_all(&(part.len() as u32).to_le_bytes())?;
                run.write_all(part)?;
            }
        }
        self.runs.push(run.into_inner().map_err(|error| Error::from(error.into_error()))?);
        self.intervals.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Whether the key was read, as far as memory knows.
    fn contains(&self, key: &[u8]) -> bool {
        let before = self.intervals.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.is_some_and(|(_, high)| key < &high[..])
    }

    /// Whether `hit` says so of any interval.
    fn any(&mut self, hit: impl Fn(&[u8], &[u8]) -> bool) -> Result<bool> {
        if self.intervals.iter().any(|(low, high)| hit(low, high)) {
            return Ok(true);
        }
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for run in &mut self.runs {
            run.seek(SeekFrom::Start(0))?;
            let mut run = BufReader::new(run);
            while read_part(&mut run, &mut low)? && read_part(&mut run, &mut high)? {
                if hit(&low, &high) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// What an interval takes beside its keys, about.
const INTERVAL_BYTES: usize = 80;

/// `false` at the end of the run.
fn read_part(run: &mut impl Read, part: &mut Vec<u8>) -> Result<bool> {
    let mut length = [0; 4];
    match run.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    part.resize(u32::from_le_bytes(length) as usize, 0);
    run.read_exact(part)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn log_begins_with_the_oldest_snapshot() {
        let log = CommitLog::default();
        log.register(Timestamp(10));
        log.register(Timestamp(20));
        log.record(Timestamp(15), [&b"a"[..], b"b"].into_iter());
        log.record(Timestamp(25), [&b"b"[..]].into_iter());
        let conflicts = |since, key: &[u8]| {
            let mut reads = ReadSet::default();
            reads.add_key(key).unwrap();
            log.conflicts(Timestamp(since), &mut reads).unwrap()
        };
        assert!(conflicts(10, b"a"));
        assert!(!conflicts(20, b"a"));
        assert!(conflicts(20, b"b"));
        log.unregister(Timestamp(10));
        assert_eq!(log.state.lock().order.len(), 1);
        assert!(conflicts(20, b"b"));
        log.unregister(Timestamp(20));
        assert!(!log.is_active());
        assert_eq!(log.state.lock().latest.len(), 0);
        log.record(Timestamp(30), [&b"b"[..]].into_iter());
        assert_eq!(log.state.lock().order.len(), 0, "nobody is going to ask");
    }

    fn key(storage: u32, number: u32) -> Vec<u8> {
        [storage.to_be_bytes(), number.to_be_bytes()].concat()
    }

    /// Whether a snapshot of `since` that has read these keys is in conflict.
    fn conflicts(log: &CommitLog, since: u64, low: &[u8], high: &[u8]) -> bool {
        let mut reads = ReadSet::default();
        reads.add(low, high).unwrap();
        log.conflicts(Timestamp(since), &mut reads).unwrap()
    }

    /// One transaction is idle, and everybody else goes on.
    #[test]
    fn a_snapshot_that_is_held_does_not_cost_more_and_more() {
        let log = CommitLog::with_memory(200_000);
        log.register(Timestamp(10));
        for time in 11..20_000 {
            let number = time as u32;
            log.record(Timestamp(time), [&key(1, 7)[..], &key(2, number % 100)].into_iter());
        }
        assert!(log.state.lock().bytes <= 200_000);
        assert!(log.state.lock().folded.is_empty(), "they were written again since then");
        for time in 20_000..40_000 {
            log.record(Timestamp(time), [&key(3, time as u32)[..]].into_iter());
        }
        assert!(log.state.lock().bytes <= 200_000);
        assert!(log.state.lock().order.capacity() <= 10_000);
        let conflicts =
            |since, storage, low, high| conflicts(&log, since, &key(storage, low), &key(storage, high));
        assert!(conflicts(10, 3, 20_000, 20_001) && conflicts(10, 3, 39_999, 40_000));
        assert!(conflicts(10, 1, 0, 8) && conflicts(10, 2, 50, 51));
        assert!(!conflicts(10, 1, 8, 100), "behind everything that was written there");
        assert!(!conflicts(10, 4, 0, u32::MAX) && !conflicts(10, 0, 0, u32::MAX));
        log.register(Timestamp(39_000));
        assert!(!conflicts(39_000, 3, 20_000, 39_001), "what was folded is older");
        assert!(conflicts(39_000, 3, 20_000, 39_002));
        log.unregister(Timestamp(10));
        assert_eq!(log.state.lock().order.len(), 999);
        assert!(log.state.lock().folded.is_empty());
        log.unregister(Timestamp(39_000));
        assert_eq!(log.state.lock().bytes, 0);
    }

    #[test]
    fn not_even_key_spaces_without_number_cost_more_and_more() {
        let log = CommitLog::with_memory(0);
        log.register(Timestamp(10));
        let long = [7u8; 10_000];
        log.record(Timestamp(11), [&long[..]].into_iter());
        assert!(log.state.lock().folded.values().all(|(_, (low, high))| low.len() + high.len() < 100));
        let (low, high) = (&[7, 7, 7, 7, 6][..], &[7, 7, 7, 7, 8][..]);
        assert!(conflicts(&log, 10, low, high) && !conflicts(&log, 11, low, high));
        for storage in 0..2 * FOLDED_MAX as u32 {
            log.record(Timestamp(20 + u64::from(storage)), [&key(storage, 1)[..]].into_iter());
            log.record_range(Timestamp(20 + u64::from(storage)), &key(storage, 1), &key(storage, 2));
        }
        assert!(log.state.lock().folded.len() <= FOLDED_MAX);
        assert!(log.state.lock().ranges.len() <= RANGES_MAX);
        let anything = log.state.lock().anything;
        assert!(conflicts(&log, 10, &key(u32::MAX, 1), &key(u32::MAX, 2)));
        assert!(!conflicts(&log, anything.0, &key(u32::MAX, 1), &key(u32::MAX, 2)));
    }

    proptest! {
        /// With memory enough the answer is exact; without, no conflict is missed.
        #[test]
        fn no_conflict_is_missed(
            commits in proptest::collection::vec(
                (proptest::collection::btree_set((0u32..3, 0u32..20), 1..4), any::<bool>()), 0..60),
            held in proptest::collection::vec(0u64..60, 1..4),
            let_go in 0usize..3,
            reads in proptest::collection::vec((0u32..3, 0u32..20, 1u32..4), 1..4),
            since in 0u64..60,
            most_bytes in prop_oneof![Just(0usize), Just(400), Just(2000), Just(1 << 20)],
        ) {
            let log = CommitLog::with_memory(most_bytes);
            let at = |time: u64| Timestamp(time + 1);
            let held: Vec<u64> = [since].into_iter().chain(held).collect();
            let mut conflict = false;
            for (time, (written, as_range)) in commits.iter().enumerate() {
                let time = time as u64;
                held.iter().filter(|held| **held == time).for_each(|held| log.register(at(*held)));
                let keys: Vec<Vec<u8>> = written.iter().map(|(storage, number)| key(*storage, *number)).collect();
                if !log.is_active() {
                    continue;
                }
                // One key is its own span.
                if *as_range && keys.len() == 1 {
                    log.record_range(Timestamp(time + 2), &keys[0], &keys[0]);
                } else {
                    log.record(Timestamp(time + 2), keys.iter().map(|key| &key[..]));
                }
                let is_read = |(storage, number): &(u32, u32)| reads.iter()
                    .any(|(of, low, count)| of == storage && (*low..low + count).contains(number));
                conflict |= time >= since && written.iter().any(is_read);
            }
            if since < commits.len() as u64 {
                for other in held.iter().skip(1).take(let_go).filter(|held| **held < commits.len() as u64) {
                    log.unregister(at(*other));
                }
                let mut set = ReadSet::default();
                for (storage, low, count) in &reads {
                    set.add(&key(*storage, *low), &key(*storage, low + count)).unwrap();
                }
                let found = log.conflicts(at(since), &mut set).unwrap();
                prop_assert!(found || !conflict);
                prop_assert!(found == conflict || most_bytes < 1 << 20);
                prop_assert!(log.state.lock().bytes <= most_bytes);
            }
        }

        /// Merged or spilled, an interval set has exactly the keys that were added.
        #[test]
        fn read_set_is_the_union(
            added in proptest::collection::vec((0u8..40, 1u8..6), 0..40),
            memory_bytes in prop_oneof![Just(100usize), Just(1 << 20)],
        ) {
            let mut reads = ReadSet::with_memory(memory_bytes);
            for (low, length) in &added {
                reads.add(&[*low], &[low + length]).unwrap();
            }
            for key in 0..50u8 {
                let wanted = added.iter().any(|(low, length)| (*low..low + length).contains(&key));
                let found = reads.any(|low, high| low <= &[key][..] && &[key][..] < high).unwrap();
                prop_assert_eq!(found, wanted, "{}", key);
            }
        }
    }
}
