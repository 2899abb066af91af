//! Segments of one key space in which nothing is visible, for one class of read times.
//!
//! A [`Segments`] knows intervals of keys `[low, high)` that do not overlap, each with a time `since`: nothing in
//! it is visible to a read at `since` or later (up to what the owner of the whole says: for ever, or up to the
//! time of a layer). Segments that touch form a chain, and a scan jumps over a whole chain at once, so their
//! number costs memory and a walk through this map, never a seek.
//!
//! Segments that touch are made one unless an open snapshot lies between their times: that snapshot can use the
//! older one alone. So fresh deletes never take an old segment away from a reader that is a little older.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::{Timestamp, key};

/// What a border was made from; it decides how to seek there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EdgeKind {
    /// Any bytes: the bound of a scan.
    #[default]
    Bound,
    /// Before a key of the store. No other key of its key space is a prefix of it.
    Key,
    /// Behind a key of the store: that key, and a byte 00.
    Behind,
}

/// A border between keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    /// Compares with keys.
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: EdgeKind,
}

impl Edge {
    pub(crate) fn before(key: &[u8]) -> Self {
        Edge { bytes: key.to_vec(), kind: EdgeKind::Key }
    }

    pub(crate) fn behind(key: &[u8]) -> Self {
        Edge { bytes: key::behind(key), kind: EdgeKind::Behind }
    }

    /// The key that it lies behind.
    pub(crate) fn key_before(&self) -> Option<&[u8]> {
        match (&self.bytes[..], self.kind) {
            ([key @ .., 0], EdgeKind::Behind) => Some(key),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    low_kind: EdgeKind,
    high: Edge,
    since: Timestamp,
    /// Steps that jumping over it spares.
    worth: u32,
}

/// A jump over a chain of segments, to its far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// Where the chain begins as seen by the scan.
    pub(crate) from: Edge,
    /// Where it goes on.
    pub(crate) to: Edge,
    /// The newest deletion that the jump rests on.
    pub(crate) since: Timestamp,
    pub(crate) worth: u64,
}

/// A segment with less worth is dropped, not split, by a write into it.
const SPLIT_WORTH: u32 = 16;
/// Halves of a segment that is worth so much are worth so much, too: where in it the dead keys lie is not known, and
/// a queue that adds its rows in the middle of an index splits and joins the same segment with every job.
const SPLIT_WORTH_KEPT: u32 = 64;

/// What a segment's bookkeeping takes beside its keys, about.
const SEGMENT_BYTES: usize = 160;

#[derive(Debug, Default)]
pub(crate) struct Segments {
    by_low: BTreeMap<Box<[u8]>, Segment>,
    bytes: usize,
}

impl Segments {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_low.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_low.len()
    }

    /// Memory in use, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn put(&mut self, low: Box<[u8]>, segment: Segment) {
        debug_assert!(low[..] < segment.high.bytes[..]);
        self.bytes += SEGMENT_BYTES + low.len() + segment.high.bytes.len();
        let before = self.by_low.insert(low, segment);
        debug_assert!(before.is_none(), "segments do not overlap");
    }

    fn take(&mut self, low: &[u8]) -> Option<(Box<[u8]>, Segment)> {
        let (low, segment) = self.by_low.remove_entry(low)?;
        self.bytes -= SEGMENT_BYTES + low.len() + segment.high.bytes.len();
        Some((low, segment))
    }

    fn containing(&self, key: &[u8]) -> Option<(&[u8], &Segment)> {
        let (low, segment) =
            self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        (key < &segment.high.bytes[..]).then_some((&low[..], segment))
    }

    /// From `key`, or a border, on over the chain of segments that a read at `at` may use.
    pub(crate) fn forward(&self, key: &[u8], at: Timestamp) -> Option<Jump> {
        let (low, first) = self.containing(key).filter(|(_, segment)| segment.since <= at)?;
        let mut since = first.since;
        let mut worth = u64::from(first.worth);
        let mut last = first;
        let behind = self.by_low.range::<[u8], _>((Bound::Excluded(low), Bound::Unbounded));
        for (next_low, next) in behind {
            if next_low[..] != last.high.bytes[..] || next.since > at {
                break;
            }
            since = since.max(next.since);
            worth += u64::from(next.worth);
            last = next;
        }
        let from = Edge { bytes: low.to_vec(), kind: first.low_kind };
        Some(Jump { from, to: last.high.clone(), since, worth })
    }

    /// The same towards smaller keys, from the last key before `border`.
    pub(crate) fn backward(&self, border: &[u8], at: Timestamp) -> Option<Jump> {
        let mut before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(border))).rev();
        let (low, first) = before.next()?;
        if &first.high.bytes[..] < border || first.since > at {
            return None;
        }
        let mut since = first.since;
        let mut worth = u64::from(first.worth);
        let mut to = (low, first.low_kind);
        for (low, next) in before {
            if next.high.bytes[..] != **to.0 || next.since > at {
                break;
            }
            since = since.max(next.since);
            worth += u64::from(next.worth);
            to = (low, next.low_kind);
        }
        let to = Edge { bytes: to.0.to_vec(), kind: to.1 };
        Some(Jump { from: first.high.clone(), to, since, worth })
    }

    /// The first border at or behind `key` where a segment begins.
    pub(crate) fn next_low(&self, key: &[u8]) -> Option<&[u8]> {
        let mut behind = self.by_low.range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
        behind.next().map(|(low, _)| &low[..])
    }

    /// The last border before `key` where a segment ends.
    pub(crate) fn last_high(&self, key: &[u8]) -> Option<&[u8]> {
        let mut before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key)));
        before.next_back().map(|(_, segment)| &segment.high.bytes[..])
    }

    /// A value is written at `key`: from now on the key belongs to no segment.
    pub(crate) fn exclude(&mut self, key: &[u8]) {
        let Some(low) = self.containing(key).map(|(low, _)| low.to_vec()) else { return };
        let Some((low, segment)) = self.take(&low) else { return };
        if segment.worth < SPLIT_WORTH {
            return;
        }
        let Segment { low_kind, high, since, worth } = segment;
        let half = worth / 2;
        let worth = half.max(worth.min(SPLIT_WORTH_KEPT));
        let behind = Edge::behind(key);
        if behind.bytes < high.bytes {
            let low = behind.bytes.into_boxed_slice();
            // Up to a bound there may be no dead key at all: rows that are added there one behind the other would leave
            // an empty segment each.
            let worth = if high.kind == EdgeKind::Bound { half } else { worth };
            self.put(low, Segment { low_kind: behind.kind, high, since, worth });
        }
        if low[..] < *key {
            self.put(low, Segment { low_kind, high: Edge::before(key), since, worth });
        }
    }

    /// Adds what a scan learned. Where it overlaps with what is known, the earlier `since` stays. Of an empty interval
    /// that is what its border is.
    pub(crate) fn insert(
        &mut self,
        low: Edge,
        high: Edge,
        since: Timestamp,
        worth: u32,
        pinned_between: &dyn Fn(Timestamp, Timestamp) -> bool,
    ) {
        debug_assert!(low.bytes <= high.bytes);
        if low.bytes == high.bytes {
            self.name_border(if low.kind == EdgeKind::Bound { high } else { low });
            return;
        }
        let first = match self.containing(&low.bytes) {
            Some((first, _)) => first.to_vec(),
            None => low.bytes.clone(),
        };
        let known: Vec<Box<[u8]>> = self
            .by_low
            .range::<[u8], _>((Bound::Included(&first[..]), Bound::Excluded(&high.bytes[..])))
            .map(|(low, _)| low.clone())
            .collect();
        let mut pieces = Vec::with_capacity(known.len() + 2);
        // What of the new interval no segment covers yet begins here.
        let mut open = low.clone();
        for known_low in known {
            let Some((known_low, segment)) = self.take(&known_low) else { continue };
            let known_low = Edge { bytes: known_low.into_vec(), kind: segment.low_kind };
            if segment.since <= since {
                if open.bytes < known_low.bytes {
                    pieces.push((open, known_low.clone(), since, worth));
                }
                open = segment.high.clone();
                pieces.push((known_low, segment.high, segment.since, segment.worth));
            } else {
                let parts =
                    u32::from(known_low.bytes < low.bytes) + u32::from(high.bytes < segment.high.bytes);
                let part_worth = segment.worth / parts.max(1);
                if known_low.bytes < low.bytes {
                    pieces.push((known_low, low.clone(), segment.since, part_worth));
                }
                if high.bytes < segment.high.bytes {
                    if open.bytes < high.bytes {
                        pieces.push((open, high.clone(), since, worth));
                    }
                    open = high.clone();
                    pieces.push((high.clone(), segment.high, segment.since, part_worth));
                }
            }
        }
        if open.bytes < high.bytes {
            pieces.push((open, high, since, worth));
        }
        let (Some(first), Some(last)) = (
            pieces.first().map(|(low, ..)| low.bytes.clone()),
            pieces.last().map(|(_, high, ..)| high.bytes.clone()),
        ) else {
            return;
        };
        for (low, high, since, worth) in pieces {
            let low_kind = low.kind;
            self.put(low.bytes.into_boxed_slice(), Segment { low_kind, high, since, worth });
        }
        self.join(&first, &last, pinned_between);
    }

    /// A border that was any bytes is known to be one of a key.
    fn name_border(&mut self, edge: Edge) {
        if let Some(behind) = self.by_low.get_mut(&edge.bytes[..]) {
            behind.low_kind = edge.kind;
        }
        let mut before =
            self.by_low.range_mut::<[u8], _>((Bound::Unbounded, Bound::Excluded(&edge.bytes[..])));
        if let Some((_, before)) = before.next_back()
            && before.high.bytes == edge.bytes
        {
            before.high.kind = edge.kind;
        }
    }

    /// Makes one of segments that touch, from the one before `first` to the one behind `last`.
    fn join(&mut self, first: &[u8], last: &[u8], pinned_between: &dyn Fn(Timestamp, Timestamp) -> bool) {
        let before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(first))).next_back();
        let mut at: Box<[u8]> = before.map_or_else(|| first.into(), |(low, _)| low.clone());
        loop {
            let Some(left) = self.by_low.get(&at) else { return };
            let next = left.high.bytes.clone();
            let Some(right) = self.by_low.get(&next[..]) else {
                // A hole; whatever lies behind it, up to the last piece.
                let behind = (Bound::Excluded(&at[..]), Bound::Included(last));
                match self.by_low.range::<[u8], _>(behind).next() {
                    Some((low, _)) => at = low.clone(),
                    None => return,
                }
                continue;
            };
            let (from, to) = (left.since.min(right.since), left.since.max(right.since));
            if from == to || !pinned_between(from, to) {
                let (Some((_, right)), Some((low, mut left))) = (self.take(&next), self.take(&at)) else {
                    return;
                };
                left.high = right.high;
                left.since = to;
                left.worth = left.worth.saturating_add(right.worth);
                self.put(low, left);
            } else {
                if &next[..] > last {
                    return;
                }
                at = next.into_boxed_slice();
            }
        }
    }

    /// Makes one of all segments that may be: snapshots that kept them apart are gone.
    pub(crate) fn join_all(&mut self, pinned_between: &dyn Fn(Timestamp, Timestamp) -> bool) {
        let first = self.by_low.first_key_value().map(|(low, _)| low.to_vec());
        let last = self.by_low.last_key_value().map(|(low, _)| low.to_vec());
        if let (Some(first), Some(last)) = (first, last) {
            self.join(&first, &last, pinned_between);
        }
    }

    /// Forgets the segments that spare least, half of all.
    pub(crate) fn forget_half(&mut self) {
        let mut worths: Vec<u32> = self.by_low.values().map(|segment| segment.worth).collect();
        let middle = worths.len() / 2;
        let Some((_, median, _)) = (middle < worths.len()).then(|| worths.select_nth_unstable(middle)) else {
            return;
        };
        let median = *median;
        let mut ties = worths.iter().take(middle).filter(|worth| **worth == median).count() + 1;
        let all = std::mem::take(&mut self.by_low);
        self.bytes = 0;
        for (low, segment) in all {
            let forget = segment.worth < median || (segment.worth == median && ties > 0);
            if forget {
                ties -= usize::from(segment.worth == median);
            } else {
                self.put(low, segment);
            }
        }
    }

    /// Segments worth so much: worth, low, high.
    pub(crate) fn worth_at_least(&self, worth_min: u32) -> impl Iterator<Item = (u32, Vec<u8>, Vec<u8>)> {
        let large = self.by_low.iter().filter(move |(_, segment)| segment.worth >= worth_min);
        large.map(|(low, segment)| (segment.worth, low.to_vec(), segment.high.bytes.clone()))
    }

    /// Every segment whose deletions are no later than `up_to`, in key order: low, high.
    pub(crate) fn up_to(&self, up_to: Timestamp) -> impl Iterator<Item = (&[u8], &[u8])> {
        let old = self.by_low.iter().filter(move |(_, segment)| segment.since <= up_to);
        old.map(|(low, segment)| (&low[..], &segment.high.bytes[..]))
    }
}
