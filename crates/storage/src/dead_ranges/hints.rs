//! Where dead ranges were, for the next start.
//!
//! The index itself is not stored: it would have to be proved true again. What is stored is where its largest segments
//! were. After a start a background thread walks those intervals once, as any scan would, and learns on the way; so the
//! first queries after a restart do not have to.
//!
//! Layout of the record (`meta`, key 05): repeated intervals, each
//!
//! ```text
//! low: length u32, bytes | high: length u32, bytes        numbers big endian
//! ```
//!
//! Any bytes are right: an interval that is not dead any more is walked for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Cursor, Direction, Engine, Error, Result, Timestamp, meta};

/// Intervals that are stored at the most.
const HINTS: usize = 256;
/// Walking a segment of less worth costs its first scan nothing to speak of.
const WORTH_MIN: u32 = 1000;
/// Rows between two looks at whether to stop.
const ROWS_PER_LOOK: usize = 1000;

pub(crate) fn encode(intervals: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut record = Vec::new();
    for edge in intervals.iter().flat_map(|(low, high)| [low, high]) {
        // A key is far shorter than 4 GB.
        record.extend_from_slice(&(edge.len() as u32).to_be_bytes());
        record.extend_from_slice(edge);
    }
    record
}

pub(crate) fn decode(mut record: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let corrupt =
        || Error::Corruption { what: "dead range hints", detail: "an interval is cut off".to_owned() };
    let edge = |rest: &mut &[u8]| {
        let (length, behind) = rest.split_first_chunk().ok_or_else(corrupt)?;
        let (edge, behind) =
            behind.split_at_checked(u32::from_be_bytes(*length) as usize).ok_or_else(corrupt)?;
        *rest = behind;
        Ok::<_, Error>(edge.to_vec())
    };
    let mut intervals = Vec::new();
    while !record.is_empty() {
        intervals.push((edge(&mut record)?, edge(&mut record)?));
    }
    Ok(intervals)
}

impl Engine {
    /// Stores where the largest dead ranges are, if that has changed; to be called now and then, and at the end.
    pub fn save_dead_range_hints(&self) -> Result<()> {
        let intervals = self.dead_ranges().largest(HINTS, WORTH_MIN);
        let record = encode(&intervals);
        if self.meta_get(meta::DEAD_RANGE_HINTS_KEY)?.unwrap_or_default() == record {
            return Ok(());
        }
        let mut batch = self.batch();
        batch.meta_put(meta::DEAD_RANGE_HINTS_KEY, &record);
        self.write(batch)
    }

    /// Learns the dead ranges again that were known before a restart, by reading at `at`; the number of
    /// intervals walked. `stop` is asked now and then.
    pub fn learn_dead_ranges(self: &Arc<Self>, at: Timestamp, stop: &dyn Fn() -> bool) -> Result<usize> {
        let Some(record) = self.meta_get(meta::DEAD_RANGE_HINTS_KEY)? else { return Ok(0) };
        let intervals = decode(&record)?;
        // The first run in a key space makes it known; only from then on can be learned.
        let known =
            |low: &[u8]| crate::key::storage_of(low).map(|storage| self.dead_ranges().activate(storage));
        for (low, _) in &intervals {
            known(low);
        }
        let mut walked = 0;
        for (low, high) in intervals {
            let mut cursor = Cursor::open(self.clone(), &low, &high, Direction::Forward, at)?;
            let mut rows = 0;
            while cursor.advance()? {
                rows += 1;
                if rows % ROWS_PER_LOOK == 0 && stop() {
                    return Ok(walked);
                }
            }
            walked += 1;
        }
        Ok(walked)
    }
}

/// Read times of held snapshots for which a large deletion is walked over as well.
const SNAPSHOTS: usize = 4;

impl Engine {
    /// Learns what a large transaction has deleted, so that the first scan over it need not: from each of some of the deleted keys,
    /// in ascending order, up to the next row that is there. By reading at `at`, and at the times of a few held snapshots. Ends soon
    /// after `stop` has become true.
    pub fn learn_deleted(
        self: &Arc<Self>,
        keys: &[Vec<u8>],
        at: Timestamp,
        stop: &Arc<AtomicBool>,
    ) -> Result<()> {
        if !self.dead_ranges().enabled() {
            return Ok(());
        }
        let mut times: Vec<Timestamp> = self.pins().pins().iter().map(|pin| pin.time).collect();
        times.sort_unstable();
        times.dedup();
        times.truncate(SNAPSHOTS);
        for time in std::iter::once(at).chain(times) {
            let Ok(_pin) = self.pin_past(0, time) else { continue };
            let mut behind: Vec<u8> = Vec::new();
            for key in keys.iter() {
                let Some(storage) = crate::key::storage_of(key).filter(|_| *key >= behind) else { continue };
                if stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                self.dead_ranges().activate(storage);
                let (_, high) = crate::key::storage_range(storage);
                let mut cursor = Cursor::open(self.clone(), key, &high, Direction::Forward, time)?;
                cursor.end_when(stop.clone());
                behind = if cursor.advance()? { cursor.key().to_vec() } else { high };
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout_is_pinned() {
        assert_eq!(encode(&[(vec![7], vec![8, 9])]), [0, 0, 0, 1, 7, 0, 0, 0, 2, 8, 9]);
    }

    proptest! {
        #[test]
        fn round_trip(intervals in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..5)) {
            prop_assert_eq!(decode(&encode(&intervals)).unwrap(), intervals);
        }

        #[test]
        fn decode_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = decode(&bytes);
        }
    }
}
