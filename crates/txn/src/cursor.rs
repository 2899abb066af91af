//! A scan of a transaction: the store's visible rows with the transaction's own writes laid over them.
//!
//! Both sides are in key order; the smaller key (going backward: the larger one) comes next, and where both have
//! it the own write wins. What the snapshot sees of the own writes does not change while the cursor is open (see
//! [`crate::write_set`]), so the next own key is looked up once and kept until it is used.
//!
//! Own writes that have outgrown memory are on the store's side ([`crate::spill`]). If writes go there while the cursor is open, it
//! is told when it looks for the next own key, and goes on with a new cursor of the store.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cairn_storage::Timestamp;
use cairn_storage::key::behind;
use cairn_storage::spills::{OwnWrites, Reading};

use crate::transaction::{Core, ReadAt, State};
use crate::{Cursor, Direction, KeyRange, Result, Snapshot};

pub(crate) struct MergeCursor {
    core: Arc<Core>,
    snapshot: Snapshot,
    direction: Direction,
    range: KeyRange,
    /// `None` until a range with committed rows is read.
    store: Option<(cairn_storage::Cursor, StoreKind)>,
    /// Where `store` reads, and whether that is a new key space of this transaction.
    store_at: StoreAt,
    store_side: Side,
    own_side: Side,
    /// The next own key and what is written there, while `own_side` is `Waiting`; the last one otherwise.
    own_key: Vec<u8>,
    own_value: Option<Bytes>,
    /// Of the transaction's spill when `store` was made, if it sees own writes; 0 if not.
    generation: u64,
    /// The time of all of the transaction's snapshots.
    own_time: Timestamp,
    /// Serializable only: the last key that was given out of this range.
    last: Option<Vec<u8>>,
    /// How much of the store cursor's reading the transaction knows to wait for.
    reported: Timestamp,
}

/// How far one of the two sides is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// Its row was given out (or none was looked up yet): it has to move on.
    Consumed,
    /// Its row is waiting to be given out.
    Waiting,
    /// It has no further rows in this range.
    End,
}

/// What a cursor of the store is good for: a new key space of this transaction or not, and the generation of own writes that it sees.
type StoreKind = (bool, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoreAt {
    time: Timestamp,
    private: bool,
}

#[derive(Clone, Copy)]
enum Pick {
    Store,
    Own,
}

impl MergeCursor {
    pub(crate) fn open(
        core: Arc<Core>,
        snapshot: Snapshot,
        range: KeyRange,
        direction: Direction,
        own_time: Timestamp,
    ) -> Result<Self> {
        let mut cursor = MergeCursor {
            own_time,
            core,
            snapshot,
            direction,
            range,
            store: None,
            store_at: StoreAt { time: Timestamp::MIN, private: false },
            store_side: Side::End,
            own_side: Side::End,
            own_key: Vec::new(),
            own_value: None,
            generation: 0,
            last: None,
            reported: Timestamp::MIN,
        };
        cursor.start()?;
        Ok(cursor)
    }

    fn start(&mut self) -> Result<()> {
        self.core.check_past(&self.range.low)?;
        self.own_side = Side::End;
        let mut own = (None, 0);
        let read_at = if self.core.touched() {
            let core = self.core.clone();
            let mut state = core.state.lock();
            own = self.spilled(&state);
            let read_at = core.read_at(&mut state, &self.snapshot, &self.range.low)?;
            self.find_in_memory(&state, None);
            read_at
        } else {
            self.core.read_others_at(&self.snapshot, &self.range.low)
        };
        self.store_at = match read_at {
            // Nothing of others, that is.
            ReadAt::Nothing => StoreAt { time: Timestamp::MIN, private: true },
            ReadAt::Time(time) => StoreAt { time, private: false },
            ReadAt::Private(time) => StoreAt { time, private: true },
        };
        if read_at == ReadAt::Nothing && own.0.is_none() {
            self.store_side = Side::End;
            return Ok(());
        }
        let KeyRange { low, high } = self.range.clone();
        self.start_store(&low, &high, own)
    }

    /// What the cursor sees of the transaction's writes in the store, if there may be any in its range, and their generation.
    fn spilled(&self, state: &State) -> (Option<OwnWrites>, u64) {
        let KeyRange { low, high } = &self.range;
        match &state.spill {
            Some(spill) if spill.may_have_between(low, high) => {
                (Some(spill.own_writes(self.snapshot.command)), spill.generation())
            }
            _ => (None, 0),
        }
    }

    fn start_store(
        &mut self,
        low: &[u8],
        high: &[u8],
        (own, generation): (Option<OwnWrites>, u64),
    ) -> Result<()> {
        let StoreAt { time, private } = self.store_at;
        let key = (private, generation);
        match &mut self.store {
            Some((store, made_for)) if *made_for == key => store.reset(low, high, time),
            _ => {
                self.report();
                let direction = match self.direction {
                    Direction::Forward => cairn_storage::Direction::Forward,
                    Direction::Backward => cairn_storage::Direction::Backward,
                };
                let engine = self.core.database.pipeline.engine.clone();
                let reading = match (private, own) {
                    (true, own) => Reading::Private(own),
                    (false, Some(own)) => Reading::Own(own),
                    (false, None) => Reading::Committed,
                };
                let store = cairn_storage::Cursor::open_reading(engine, low, high, direction, time, reading)?;
                self.store = Some((store, key));
            }
        }
        self.generation = generation;
        self.store_side = Side::Consumed;
        Ok(())
    }

    /// Looks up the own key in memory that follows `after`, or the first one.
    fn find_in_memory(&mut self, state: &State, after: Option<()>) {
        let (low, high) = (&self.range.low[..], &self.range.high[..]);
        let (low, high) = match (self.direction, after) {
            (_, None) => (Bound::Included(low), Bound::Excluded(high)),
            (Direction::Forward, Some(())) => (Bound::Excluded(&self.own_key[..]), Bound::Excluded(high)),
            (Direction::Backward, Some(())) => (Bound::Included(low), Bound::Excluded(&self.own_key[..])),
        };
        let found = state.writes.next_visible(low, high, self.direction, self.snapshot.command);
        // `own_key` is borrowed as a bound until here.
        let found = found.map(|(key, value)| (key.to_vec(), value.clone()));
        self.own_side = match found {
            Some((key, value)) => {
                self.own_key = key;
                self.own_value = value;
                Side::Waiting
            }
            None => Side::End,
        };
    }

    /// The own key behind the last one.
    fn next_own(&mut self) -> Result<()> {
        let core = self.core.clone();
        let state = core.state.lock();
        let spilled = self.spilled(&state);
        let last = (spilled.1 != self.generation).then(|| self.own_key.clone());
        self.find_in_memory(&state, Some(()));
        drop(state);
        if let Some(last) = last {
            // What was in memory behind the last key may be in the store now.
            let KeyRange { low, high } = self.range.clone();
            match self.direction {
                Direction::Forward => self.start_store(&behind(&last), &high, spilled)?,
                Direction::Backward => self.start_store(&low, &last, spilled)?,
            }
        }
        Ok(())
    }

    fn advance_store(&mut self) -> Result<()> {
        let Some((store, _)) = &mut self.store else {
            self.store_side = Side::End;
            return Ok(());
        };
        let advanced = store.advance();
        let seen = store.stats().newest_seen;
        if seen > self.reported || self.core.watched() {
            self.reported = self.reported.max(seen);
            self.report();
        }
        self.store_side = if advanced? { Side::Waiting } else { Side::End };
        if self.store_side == Side::End {
            self.report();
        }
        Ok(())
    }

    /// Serializable: remembers how far the range was read.
    fn remember(&mut self, pick: Option<Pick>) -> Result<()> {
        match (pick, &self.store) {
            (Some(Pick::Store), Some((store, _))) => {
                store.key().clone_into(self.last.get_or_insert_default())
            }
            (Some(_), _) => self.own_key.clone_into(self.last.get_or_insert_default()),
            (None, _) => {
                self.last = None;
                self.note(None)?;
            }
        }
        Ok(())
    }

    /// Adds the part of the range that was read, and not yet noted, to the read set.
    fn note_range(&mut self) -> Result<()> {
        match self.last.take() {
            Some(last) => self.note(Some(&last)),
            None => Ok(()),
        }
    }

    /// The range up to the last row given out, or all of it.
    fn note(&self, last: Option<&[u8]>) -> Result<()> {
        let Some(reads) = self.core.reads() else { return Ok(()) };
        if self.snapshot.read_time != self.own_time {
            return Ok(());
        }
        let KeyRange { low, high } = &self.range;
        match (last, self.direction) {
            (None, _) => reads.lock().add(low, high),
            (Some(last), Direction::Forward) => reads.lock().add(low, &behind(last)),
            (Some(last), Direction::Backward) => reads.lock().add(last, high),
        }
    }

    /// Counts the next rows, at most so many; fewer if there are no more.
    pub(crate) fn count(&mut self, most: u64) -> Result<u64> {
        let mut rows = 0;
        if self.core.reads().is_some() || self.own_side != Side::End {
            while rows < most && self.next()?.is_some() {
                rows += 1;
            }
            return Ok(rows);
        }
        while rows < most && self.store_side != Side::End {
            self.advance_store()?;
            rows += u64::from(self.store_side == Side::Waiting);
        }
        Ok(rows)
    }

    /// What is left to be read, if that is nothing but what others have committed: the range, and the time of the read.
    pub(crate) fn committed_rest(&self) -> Option<(KeyRange, Timestamp)> {
        let (store, _) = self.store.as_ref()?;
        let is_committed = self.generation == 0
            && !self.store_at.private
            && self.own_side == Side::End
            && self.core.reads().is_none()
            && self.direction == Direction::Forward;
        let range = KeyRange { low: behind(store.key()), high: self.range.high.clone() };
        is_committed.then_some((range, self.store_at.time))
    }

    /// Adds the store cursor's counters to the transaction's.
    fn report(&mut self) {
        if let Some((store, _)) = &mut self.store {
            let mut stats = store.take_stats();
            stats.newest_seen = stats.newest_seen.max(self.reported);
            self.core.add_stats(&stats);
        }
    }

    fn pick(&mut self) -> Result<Option<Pick>> {
        loop {
            // The own side first: it may begin anew on the store's.
            if self.own_side == Side::Consumed {
                self.next_own()?;
            }
            if self.store_side == Side::Consumed {
                self.advance_store()?;
            }
            let order = match (self.store_side, self.own_side, &self.store) {
                (Side::Waiting, Side::Waiting, Some((store, _))) => match self.direction {
                    Direction::Forward => store.key().cmp(&self.own_key[..]),
                    Direction::Backward => self.own_key[..].cmp(store.key()),
                },
                (Side::Waiting, _, _) => Ordering::Less,
                (_, Side::Waiting, _) => Ordering::Greater,
                _ => return Ok(None),
            };
            if order == Ordering::Less {
                self.store_side = Side::Consumed;
                return Ok(Some(Pick::Store));
            }
            if order == Ordering::Equal {
                self.store_side = Side::Consumed;
            }
            self.own_side = Side::Consumed;
            if self.own_value.is_some() {
                return Ok(Some(Pick::Own));
            }
        }
    }
}

impl Cursor for MergeCursor {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let pick = self.pick()?;
        if self.core.reads().is_some() {
            self.remember(pick)?;
        }
        Ok(match (pick, &self.store) {
            (None, _) => None,
            (Some(Pick::Store), Some((store, _))) => Some((store.key(), store.value())),
            (Some(Pick::Own), _) => Some((&self.own_key, self.own_value.as_deref().unwrap_or_default())),
            (Some(Pick::Store), None) => None,
        })
    }

    fn reset(&mut self, range: KeyRange) -> Result<()> {
        self.note_range()?;
        self.range = range;
        self.start()
    }
}

impl Drop for MergeCursor {
    fn drop(&mut self) {
        self.report();
        if let Err(error) = self.note_range() {
            // Whether what was read still holds can no longer be told.
            self.core.doom_reads();
            tracing::warn!(%error, "the read set of a serializable transaction cannot be written");
        }
    }
}
