//! What readers who meet markers make of them: the version that a committed spill has made of the row.
//!
//! A scan over what a large transaction wrote meets a marker at every row, and the records lie in the order of the rows. So from the
//! second record on a scan steps along the records beside it; a look-up for each cost ten times as much.

use std::borrow::Cow;
use std::sync::Arc;

use super::record::{Record, Undone};
use super::store::ProvisionalCursor;
use super::{SpillNumber, SpillState};
use crate::{Direction, Engine, Result, Timestamp, key, value};

/// Records of more spills than that are looked up.
const SPILLS_BESIDE: usize = 4;

/// One reader's.
#[derive(Default)]
pub(crate) struct Resolver {
    /// Where a scan is going; `None`: rows are asked for in any order.
    direction: Option<Direction>,
    has_resolved: bool,
    /// At the record that was asked for last, or at the next one if it was not there.
    beside: Vec<(SpillNumber, ProvisionalCursor)>,
}

impl Resolver {
    pub fn of_scan(direction: Direction) -> Self {
        Resolver { direction: Some(direction), ..Resolver::default() }
    }

    /// The version that a spill has made of `key`, if one of `numbers` was committed at a time in `after < time <= at`: its time
    /// and whether it is a value, which replaces `payload`.
    pub fn resolve(
        &mut self,
        engine: &Engine,
        key: &[u8],
        numbers: &[SpillNumber],
        after: Timestamp,
        at: Timestamp,
        payload: &mut Vec<u8>,
    ) -> Result<Option<(Timestamp, bool)>> {
        let mut committed: Vec<(Timestamp, SpillNumber, Arc<Undone>)> = Vec::new();
        for number in numbers {
            if let Some(SpillState::Committed { time, undone }) = engine.spills().state(*number)
                && time > after
                && time <= at
            {
                committed.push((time, *number, undone));
            }
        }
        committed.sort_unstable_by_key(|(time, ..)| std::cmp::Reverse(*time));
        for (time, number, undone) in committed {
            if let Some(bytes) = self.record(engine, number, key)? {
                if let Some(newest) = Record::decode(&bytes)?.newest(&undone) {
                    replace(payload, newest.value);
                    return Ok(Some((time, newest.value.is_some())));
                }
                // Everything that it wrote here was undone.
                continue;
            }
            // It was moved since the reader's iterator was made; nobody collects what the reader's time sees.
            let mut stored = Vec::with_capacity(key.len() + key::TIME_BYTES);
            key::write_stored(&mut stored, key, time);
            if let Some(version) = engine.db.get(&stored)? {
                let moved = value::split_stored(&version)?;
                replace(payload, moved);
                return Ok(Some((time, moved.is_some())));
            }
        }
        Ok(None)
    }

    /// The record of a committed spill: such a record does not change, so it does not matter when the iterator beside was made.
    fn record(&mut self, engine: &Engine, number: SpillNumber, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let at = self.beside.iter().position(|(of, _)| *of == number);
        // An iterator costs more than a look-up: who reads a single row does without.
        let looks_up = !std::mem::replace(&mut self.has_resolved, true) || self.beside.len() == SPILLS_BESIDE;
        let direction = match self.direction {
            Some(direction) if at.is_some() || !looks_up => direction,
            _ => return Ok(engine.provisional_record(number, key)?.map(Cow::Owned)),
        };
        let at = at.unwrap_or_else(|| {
            self.beside.push((number, engine.provisional_cursor(number)));
            self.beside.len() - 1
        });
        Ok(self.beside[at].1.find(key, direction)?.map(Cow::Borrowed))
    }
}

fn replace(payload: &mut Vec<u8>, value: Option<&[u8]>) {
    payload.clear();
    payload.extend_from_slice(value.unwrap_or_default());
}
