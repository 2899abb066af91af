//! A scan of a transaction: the store's visible rows with the transaction's own writes laid over them.
//!
//! Both sides are in key order; the smaller key (going backward: the larger one) comes next, and where both have
//! it the own write wins. What the snapshot sees of the own writes does not change while the cursor is open (see
//! [`crate::write_set`]), so the next own key is looked up once and kept until it is used.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cairn_storage::key::behind;
use cairn_storage::spills::Record;
use cairn_storage::{Engine, ProvisionalCursor, Timestamp};

use crate::spill::Spill;
use crate::transaction::{Core, ReadAt};
use crate::{CommandId, Cursor, Direction, KeyRange, Result, Snapshot};

pub(crate) struct MergeCursor {
    core: Arc<Core>,
    snapshot: Snapshot,
    direction: Direction,
    range: KeyRange,
    /// `None` until a range with committed rows is read.
    store: Option<cairn_storage::Cursor>,
    /// Whether `store` reads a new key space of this transaction.
    private: bool,
    store_side: Side,
    own_side: Side,
    /// The next own key and what is written there, while `own_side` is `Waiting`; the last one otherwise.
    own_key: Vec<u8>,
    own_value: Option<Bytes>,
    /// Own writes that are in the store.
    spilled: SpilledSide,
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
            private: false,
            store_side: Side::End,
            own_side: Side::End,
            own_key: Vec::new(),
            own_value: None,
            spilled: SpilledSide::default(),
            last: None,
            reported: Timestamp::MIN,
        };
        cursor.start()?;
        Ok(cursor)
    }

    fn start(&mut self) -> Result<()> {
        self.core.check_past(&self.range.low)?;
        self.own_side = Side::End;
        let read_at = if self.core.touched() {
            let core = self.core.clone();
            let mut state = core.state.lock();
            let read_at = core.read_at(&mut state, &self.snapshot, &self.range.low)?;
            drop(state);
            self.find_own(None)?;
            read_at
        } else {
            self.core.read_others_at(&self.snapshot, &self.range.low)
        };
        match read_at {
            ReadAt::Nothing => self.store_side = Side::End,
            ReadAt::Time(time) => self.start_store(time, false)?,
            ReadAt::Private(time) => self.start_store(time, true)?,
        }
        Ok(())
    }

    fn start_store(&mut self, time: Timestamp, private: bool) -> Result<()> {
        let (low, high) = (&self.range.low[..], &self.range.high[..]);
        match &mut self.store {
            Some(store) if self.private == private => store.reset(low, high, time),
            store => {
                let direction = match self.direction {
                    Direction::Forward => cairn_storage::Direction::Forward,
                    Direction::Backward => cairn_storage::Direction::Backward,
                };
                let engine = self.core.database.pipeline.engine.clone();
                let open =
                    if private { cairn_storage::Cursor::open_private } else { cairn_storage::Cursor::open };
                *store = Some(open(engine, low, high, direction, time)?);
                self.private = private;
            }
        }
        self.store_side = Side::Consumed;
        Ok(())
    }

    /// Looks up the own key that follows `after`, or the first one.
    fn find_own(&mut self, after: Option<()>) -> Result<()> {
        let state = self.core.state.lock();
        let (low, high) = (&self.range.low[..], &self.range.high[..]);
        let (low, high) = match (self.direction, after) {
            (_, None) => (Bound::Included(low), Bound::Excluded(high)),
            (Direction::Forward, Some(())) => (Bound::Excluded(&self.own_key[..]), Bound::Excluded(high)),
            (Direction::Backward, Some(())) => (Bound::Included(low), Bound::Excluded(&self.own_key[..])),
        };
        let command = self.snapshot.command;
        let found = state.writes.next_visible(low, high, self.direction, command);
        // `own_key` is borrowed as a bound until here.
        let mut found = found.map(|(key, value)| (key.to_vec(), value.clone()));
        if let Some(spill) = &state.spill
            && spill.may_have_between(&self.range.low, &self.range.high)
        {
            let engine = &self.core.database.pipeline.engine;
            let from = after.map(|()| &self.own_key[..]);
            let spilled = self.spilled.next(engine, spill, &self.range, self.direction, from, command)?;
            found = match (found, spilled) {
                // What both have is later in memory.
                (Some(own), Some(spilled)) => {
                    let order = own.0.cmp(&spilled.0);
                    let spilled_first = match self.direction {
                        Direction::Forward => order == Ordering::Greater,
                        Direction::Backward => order == Ordering::Less,
                    };
                    Some(if spilled_first { spilled } else { own })
                }
                (own, spilled) => own.or(spilled),
            };
        }
        drop(state);
        self.own_side = match found {
            Some((key, value)) => {
                self.own_key = key;
                self.own_value = value;
                Side::Waiting
            }
            None => Side::End,
        };
        Ok(())
    }

    fn advance_store(&mut self) -> Result<()> {
        let Some(store) = &mut self.store else {
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
            (Some(Pick::Store), Some(store)) => store.key().clone_into(self.last.get_or_insert_default()),
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

    /// Adds the store cursor's counters to the transaction's.
    fn report(&mut self) {
        if let Some(store) = &mut self.store {
            let mut stats = store.take_stats();
            stats.newest_seen = stats.newest_seen.max(self.reported);
            self.core.add_stats(&stats);
        }
    }

    fn pick(&mut self) -> Result<Option<Pick>> {
        loop {
            if self.store_side == Side::Consumed {
                self.advance_store()?;
            }
            if self.own_side == Side::Consumed {
                self.find_own(Some(()))?;
            }
            let order = match (self.store_side, self.own_side, &self.store) {
                (Side::Waiting, Side::Waiting, Some(store)) => match self.direction {
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

/// Goes through the records of the transaction's spill.
#[derive(Default)]
struct SpilledSide {
    records: Option<ProvisionalCursor>,
    /// Of the spill when `records` was made; records written since are not in it.
    generation: u64,
}

impl SpilledSide {
    /// The first key of the range, behind `from` in the direction, of which `command` sees an own version that has spilled.
    fn next(
        &mut self,
        engine: &Engine,
        spill: &Spill,
        range: &KeyRange,
        direction: Direction,
        from: Option<&[u8]>,
        command: CommandId,
    ) -> Result<Option<(Vec<u8>, Option<Bytes>)>> {
        let is_new = self.records.is_none() || self.generation != spill.generation;
        if is_new {
            self.records = Some(engine.provisional_cursor(spill.number));
            self.generation = spill.generation;
        }
        let Some(records) = &mut self.records else { return Ok(None) };
        let (KeyRange { low, high }, step) = match direction {
            Direction::Forward => (range, cairn_storage::Direction::Forward),
            Direction::Backward => (range, cairn_storage::Direction::Backward),
        };
        if is_new || from.is_none() {
            match direction {
                Direction::Forward => records.seek(from.unwrap_or(low)),
                Direction::Backward => records.seek_before(from.unwrap_or(high)),
            }
        }
        loop {
            let Some((key, record)) = records.current()? else { return Ok(None) };
            let (is_consumed, is_outside) = match direction {
                Direction::Forward => (from.is_some_and(|from| key <= from), key >= &high[..]),
                Direction::Backward => (from.is_some_and(|from| key >= from), key < &low[..]),
            };
            if is_outside {
                return Ok(None);
            }
            if !is_consumed && let Some(version) = Record::decode(record)?.visible(command, &spill.undone) {
                return Ok(Some((key.to_vec(), version.value.map(Bytes::copy_from_slice))));
            }
            records.step(step);
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
            (Some(Pick::Store), Some(store)) => Some((store.key(), store.value())),
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
