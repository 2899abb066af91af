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
//! - A commit of more keys than memory holds is one range of keys for each key space: conflicts that are none are possible
//!   there, none is missed.
//! - Reads that are not at the transaction's own time (unique and foreign key checks look at the newest state, under
//!   locks) are not remembered.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use cairn_storage::key::behind;

use crate::{Error, Result, Timestamp};

/// A read set larger than this goes to a file, in sorted runs.
const MEMORY_BYTES: usize = 16 << 20;
/// Up to so many intervals are compared with the log after each writing statement: who cannot commit should not go on.
const SMALL: usize = 64;

// ---- the log of commits ---------------------------------------------------------------------------------

/// The keys that were committed since the oldest serializable snapshot.
#[derive(Debug, Default)]
pub(crate) struct CommitLog {
    /// Number of registered snapshots; spares commits the lock while there are none.
    active: AtomicUsize,
    state: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// Registered snapshots, and how many transactions have each.
    snapshots: BTreeMap<Timestamp, usize>,
    /// Time of the latest commit of each key.
    latest: BTreeMap<Box<[u8]>, Timestamp>,
    /// Commits in order, for forgetting them.
    order: VecDeque<(Timestamp, Box<[u8]>)>,
    /// What large commits wrote, in order: from key to key, both included.
    ranges: VecDeque<(Timestamp, KeySpan)>,
}

type KeySpan = (Vec<u8>, Vec<u8>);

impl CommitLog {
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
        let oldest = log.snapshots.first_key_value().map_or(Timestamp::MAX, |(time, _)| *time);
        while log.order.front().is_some_and(|(time, _)| *time <= oldest) {
            if let Some((time, key)) = log.order.pop_front()
                && log.latest.get(&key) == Some(&time)
            {
                log.latest.remove(&key);
            }
        }
        while log.ranges.front().is_some_and(|(time, _)| *time <= oldest) {
            log.ranges.pop_front();
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire) != 0
    }

    /// Inside the commit section: the commit at `time` writes these keys.
    pub(crate) fn record<'a>(&self, time: Timestamp, keys: impl Iterator<Item = &'a [u8]>) {
        let mut log = self.state.lock();
        for key in keys {
            let key: Box<[u8]> = key.into();
            log.latest.insert(key.clone(), time);
            log.order.push_back((time, key));
        }
    }

    /// Inside the commit section: the commit at `time` writes keys from `low` to `high`.
    pub(crate) fn record_range(&self, time: Timestamp, low: &[u8], high: &[u8]) {
        self.state.lock().ranges.push_back((time, (low.to_vec(), high.to_vec())));
    }

    /// Whether a commit after `since` wrote anything that was read. Inside the commit section the answer is final;
    /// outside of it, a yes is.
    pub(crate) fn conflicts(&self, since: Timestamp, reads: &mut ReadSet) -> Result<bool> {
        let log = self.state.lock();
        if reads.doomed {
            return Ok(true);
        }
        let newest = [log.order.back().map(|(time, _)| *time), log.ranges.back().map(|(time, _)| *time)];
        if newest.into_iter().flatten().all(|time| time <= since) {
            return Ok(false);
        }
        reads.any(|low, high| {
            let in_range = |(time, (first, last)): &(Timestamp, KeySpan)| {
                *time > since && &first[..] < high && low <= &last[..]
            };
            if log.ranges.iter().any(in_range) {
                return true;
            }
            let written = log.latest.range::<[u8], _>((Bound::Included(low), Bound::Excluded(high)));
            written.into_iter().any(|(_, time)| *time > since)
        })
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
    }

    proptest! {
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
