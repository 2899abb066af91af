//! Sequences: outside transactions, a number is never given twice.
//!
//! The store holds, for each sequence, a value at or past everything given out: a reservation. Values are given
//! out only from a reservation that is durable, so whatever a client was told survives a crash. To keep the
//! fsync off this path, the next reservation is written when half of the current one is used; any commit's fsync
//! makes it durable meanwhile. Only who runs into its end waits.
//!
//! A reservation is a commit of its own, so a sequence that is used much reserves more at a time: the window doubles where somebody
//! had to wait, and where a window was used up within [`BUSY`]. It falls back to [`WINDOW_MIN`] for sequences that are quiet. A
//! crash loses at most the rest of two windows: what somebody waited for, or fractions of a second's worth of values. A clean end
//! loses nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_storage::Timestamp;
use cairn_storage::meta::SequenceRecord;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::pipeline::Pipeline;
use crate::{Durability, Error, Result, SequenceOptions, SequenceState, StorageId};

/// What a reservation takes in the log, about.
const RECORD_BYTES: usize = 64;
const WINDOW_MIN: u32 = 32;
const WINDOW_MAX: u32 = 32 << 10;
/// A window that lasted longer than this needs not be so large.
const QUIET: Duration = Duration::from_millis(500);
/// A window that was used up in less than this should have been larger. Far from [`QUIET`]: twice the window lasts twice as long.
const BUSY: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Sequence {
    state: Option<SequenceState>,
    /// Values that may still be given out: the reservation covers them and is durable.
    left: u32,
    /// The increment that `left` counts in.
    increment: i64,
    /// The next reservation is in the log: how many values it adds, and the time that must be durable first.
    coming: Option<(u32, Timestamp)>,
    window: u32,
    reserved_at: Instant,
    /// When `left` was last filled up; `None`: not since the sequence was opened.
    began_at: Option<Instant>,
    /// The store's record equals `state`.
    stored_exactly: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Sequences {
    open: Mutex<HashMap<StorageId, Arc<Mutex<Sequence>>>>,
}

impl Sequences {
    fn sequence(&self, pipeline: &Pipeline, storage: StorageId) -> Result<Arc<Mutex<Sequence>>> {
        let mut open = self.open.lock();
        if let Some(sequence) = open.get(&storage) {
            return Ok(sequence.clone());
        }
        let record = pipeline.engine.sequence(storage)?;
        let sequence = Arc::new(Mutex::new(Sequence {
            state: record.map(|r| SequenceState { last_value: r.last_value, is_called: r.is_called }),
            left: 0,
            increment: 0,
            coming: None,
            window: WINDOW_MIN,
            reserved_at: Instant::now(),
            began_at: None,
            stored_exactly: true,
        }));
        open.insert(storage, sequence.clone());
        Ok(sequence)
    }

    pub(crate) fn next(
        &self,
        pipeline: &Pipeline,
        storage: StorageId,
        options: &SequenceOptions,
    ) -> Result<i64> {
        let sequence = self.sequence(pipeline, storage)?;
        let mut sequence = sequence.lock();
        let (value, wrapped) = following(sequence.state, options)?;
        if wrapped || sequence.increment != options.increment {
            sequence.left = 0;
            sequence.coming = None;
            sequence.increment = options.increment;
        }
        if sequence.left == 0 {
            let (count, time) = match sequence.coming.take() {
                Some(coming) => coming,
                None => sequence.reserve(pipeline, storage, options, value, 0)?,
            };
            let waits = pipeline.sync.durable() < time;
            if waits || sequence.began_at.is_some_and(|began| began.elapsed() < BUSY) {
                sequence.window = sequence.window.saturating_mul(2).min(WINDOW_MAX);
            }
            if waits {
                pipeline.wait_durable(time);
            }
            sequence.began_at = Some(Instant::now());
            sequence.left = count;
        }
        sequence.state = Some(SequenceState { last_value: value, is_called: true });
        sequence.left -= 1;
        sequence.stored_exactly = false;
        if sequence.left <= sequence.window / 2 && sequence.coming.is_none() {
            let left = sequence.left;
            if let Ok((next, false)) = following(sequence.state, options) {
                let coming = sequence.reserve(pipeline, storage, options, next, left)?;
                sequence.coming = (coming.0 > 0).then_some(coming);
            }
        }
        Ok(value)
    }

    pub(crate) fn set(
        &self,
        pipeline: &Pipeline,
        storage: StorageId,
        value: i64,
        is_called: bool,
    ) -> Result<()> {
        let sequence = self.sequence(pipeline, storage)?;
        let mut sequence = sequence.lock();
        let record = SequenceRecord { last_value: value, is_called };
        let time = pipeline.commit(
            Durability::Sync,
            RECORD_BYTES,
            || Ok(()),
            |batch, _| batch.set_sequence(storage, record),
            None,
        )?;
        sequence.state = Some(SequenceState { last_value: value, is_called });
        sequence.left = 0;
        sequence.coming = None;
        sequence.stored_exactly = true;
        drop(sequence);
        pipeline.wait_durable(time);
        Ok(())
    }

    pub(crate) fn state(&self, pipeline: &Pipeline, storage: StorageId) -> Result<Option<SequenceState>> {
        Ok(self.sequence(pipeline, storage)?.lock().state)
    }

    /// The sequence is gone, or never came to be. Whether it was known.
    pub(crate) fn forget(&self, storage: StorageId) -> bool {
        self.open.lock().remove(&storage).is_some()
    }

    /// A clean end: what was reserved and not used is not lost.
    pub(crate) fn close(&self, pipeline: &Pipeline) -> Result<()> {
        let mut batch = pipeline.engine.batch();
        for (storage, sequence) in self.open.lock().iter() {
            let mut sequence = sequence.lock();
            if let (Some(state), false) = (sequence.state, sequence.stored_exactly) {
                let SequenceState { last_value, is_called } = state;
                batch.set_sequence(*storage, SequenceRecord { last_value, is_called });
                sequence.left = 0;
                sequence.coming = None;
                sequence.stored_exactly = true;
            }
        }
        Ok(pipeline.engine.write(batch)?)
    }
}

impl Sequence {
    /// Writes a reservation of a window's worth of values that begins `skip` steps behind `first`, as far as the
    /// bounds allow; how many values that are, and the time to wait for.
    fn reserve(
        &mut self,
        pipeline: &Pipeline,
        storage: StorageId,
        options: &SequenceOptions,
        first: i64,
        skip: u32,
    ) -> Result<(u32, Timestamp)> {
        if self.reserved_at.elapsed() > QUIET {
            self.window = WINDOW_MIN;
        }
        self.reserved_at = Instant::now();
        let room = steps_to_bound(first, options).saturating_add(1).saturating_sub(u64::from(skip));
        let count = u32::try_from(room).unwrap_or(u32::MAX).min(self.window);
        if count == 0 {
            return Ok((0, Timestamp::MIN));
        }
        // Inside the bounds by the choice of `count`.
        let steps = i128::from(skip) + i128::from(count) - 1;
        let last = i128::from(first) + i128::from(options.increment) * steps;
        let last_value =
            i64::try_from(last).map_err(|_| Error::Misuse("sequence reservation left its bounds"))?;
        let record = SequenceRecord { last_value, is_called: true };
        // Counts as a commit with a promise: whoever waits for `settled` past it waits for it too.
        let time = pipeline.commit(
            Durability::Sync,
            RECORD_BYTES,
            || Ok(()),
            |batch, _| batch.set_sequence(storage, record),
            None,
        )?;
        Ok((count, time))
    }
}

/// How many further steps fit between a value and the bound that the sequence runs towards.
fn steps_to_bound(value: i64, options: &SequenceOptions) -> u64 {
    let bound = if options.increment > 0 { options.max } else { options.min };
    let distance = (i128::from(bound) - i128::from(value)) / i128::from(options.increment);
    u64::try_from(distance).unwrap_or(0)
}

/// The next value, and whether it is the first of a new cycle.
fn following(state: Option<SequenceState>, options: &SequenceOptions) -> Result<(i64, bool)> {
    let SequenceOptions { start, increment, min, max, cycle } = *options;
    if increment == 0 {
        return Err(Error::Misuse("a sequence's increment is not zero"));
    }
    let value = match state {
        None => start,
        Some(SequenceState { last_value, is_called: false }) => last_value,
        Some(SequenceState { last_value, is_called: true }) => {
            let ascending = increment > 0;
            match last_value.checked_add(increment).filter(|value| (min..=max).contains(value)) {
                Some(value) => return Ok((value, false)),
                None if cycle => return Ok((if ascending { min } else { max }, true)),
                None => {
                    let limit = if ascending { max } else { min };
                    return Err(Error::SequenceExhausted { limit, ascending });
                }
            }
        }
    };
    if (min..=max).contains(&value) {
        Ok((value, false))
    } else {
        Err(Error::SequenceOutOfBounds { value, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(increment: i64, min: i64, max: i64, cycle: bool) -> SequenceOptions {
        SequenceOptions { start: if increment > 0 { min } else { max }, increment, min, max, cycle }
    }

    fn at(last_value: i64) -> Option<SequenceState> {
        Some(SequenceState { last_value, is_called: true })
    }

    /// The fsyncs of others keep up with it, so that it never waits; all the same a reservation is soon for more values.
    #[test]
    fn a_busy_sequence_reserves_more_at_a_time() {
        use cairn_storage::{Clock, Engine, EngineOptions, Resources};

        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::system());
        let resources = Resources::new(8 << 20, 4 << 20);
        let engine = Engine::open(directory.path(), &EngineOptions::default(), &resources, &clock).unwrap();
        let pipeline = Pipeline::new(Arc::new(engine), clock);
        let sequences = Sequences::default();
        let all = options(1, 1, i64::MAX, false);
        let mut waited = 0;
        for value in 1..=10_000 {
            let durable = pipeline.sync.durable();
            assert_eq!(sequences.next(&pipeline, 7, &all).unwrap(), value);
            waited += u32::from(pipeline.sync.durable() > durable);
            pipeline.wait_durable(pipeline.visible());
        }
        assert_eq!(waited, 1, "for the first reservation");
        let window = sequences.sequence(&pipeline, 7).unwrap().lock().window;
        assert!(window >= 512, "{window}");
    }

    #[test]
    fn values_follow_postgresql() {
        let up = options(3, 1, 8, false);
        assert_eq!(following(None, &up).unwrap(), (1, false));
        assert_eq!(following(at(1), &up).unwrap(), (4, false));
        assert!(matches!(following(at(7), &up), Err(Error::SequenceExhausted { limit: 8, ascending: true })));
        assert_eq!(following(at(7), &options(3, 1, 8, true)).unwrap(), (1, true));
        assert_eq!(following(at(-7), &options(-3, -8, -1, true)).unwrap(), (-1, true));
        let all = options(1, i64::MIN, i64::MAX, false);
        assert!(matches!(following(at(i64::MAX), &all), Err(Error::SequenceExhausted { .. })));
        assert_eq!(steps_to_bound(1, &up), 2);
        assert_eq!(steps_to_bound(i64::MIN, &all), u64::MAX);
        assert_eq!(steps_to_bound(-7, &options(-3, -8, -1, true)), 0);
    }
}
