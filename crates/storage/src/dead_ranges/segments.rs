//! Segments of one key space in which nothing is visible, for one class of read times.
//!
//! A [`Segments`] knows intervals of keys `[low, high)` that do not overlap, each with a time `since`: nothing in
//! it is visible to a read at `since` or later (up to what the owner of the whole says: for ever, or up to the
//! time of a layer). Segments that touch form a chain, and a scan jumps over a whole chain at once, so their
//! number costs memory and a walk through this map, never a seek.
//!
//! Segments that touch are made one unless an open snapshot lies between their times: that snapshot can use the
//! older one alone. So fresh deletes never take an old segment away from a reader that is a little older.
//!
//! Beyond its borders, which are those of dead keys, a segment may *reach* further: up to there lies no key at all.
//!
//! ```text
//!      reach_low .. [low   dead dead dead dead   high) .. reach_high          live
//! ```
//!
//! Scans begin anywhere in the reach as if at the border, and where a jump ends is still the border of a key. A row that is
//! added there ends the reach; the segment stays whole.
//!
//! Invariant: reaches do not extend over other segments, so that a write ends those of the segments beside it only.

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
    reach: Reach,
}

/// Bounds up to which there is no key before the low border and behind the high one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) low: Option<Box<[u8]>>,
    pub(crate) high: Option<Box<[u8]>>,
}

impl Segment {
    /// What it takes with its keys, about.
    fn memory(&self, low: &[u8]) -> usize {
        SEGMENT_BYTES + low.len() + self.high.bytes.len() + self.reach.bytes()
    }
}

impl Reach {
    fn bytes(&self) -> usize {
        [&self.low, &self.high].into_iter().flatten().map(|bound| bound.len()).sum()
    }
}

/// A jump over a chain of segments, to its far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// Where the chain begins as seen by the scan; in the first segment's reach, where the scan is.
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

/// Rows of one batch that come into a segment take it apart into so many pieces at the most.
const PIECES_MAX: usize = if cfg!(test) { 4 } else { 64 };

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
        self.bytes += segment.memory(&low);
        let before = self.by_low.insert(low, segment);
        debug_assert!(before.is_none(), "segments do not overlap");
    }

    fn take(&mut self, low: &[u8]) -> Option<(Box<[u8]>, Segment)> {
        let (low, segment) = self.by_low.remove_entry(low)?;
        self.bytes -= segment.memory(&low);
        Some((low, segment))
    }

    /// The last segment that begins at or before `key`.
    fn before(&self, key: &[u8]) -> Option<(&[u8], &Segment)> {
        let before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.map(|(low, segment)| (&low[..], segment))
    }

    /// The first segment that begins behind `key`.
    fn behind(&self, key: &[u8]) -> Option<(&[u8], &Segment)> {
        let behind = self.by_low.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded)).next();
        behind.map(|(low, segment)| (&low[..], segment))
    }

    /// Changes the reach of the segment that begins at `low`.
    fn change_reach(&mut self, low: &[u8], change: impl FnOnce(&mut Reach)) {
        if let Some(segment) = self.by_low.get_mut(low) {
            let before = segment.reach.bytes();
            change(&mut segment.reach);
            self.bytes = self.bytes + segment.reach.bytes() - before;
        }
    }

    fn containing(&self, key: &[u8]) -> Option<(&[u8], &Segment)> {
        self.before(key).filter(|(_, segment)| key < &segment.high.bytes[..])
    }

    /// From `key`, or a border, on over the chain of segments that a read at `at` may use.
    pub(crate) fn forward(&self, key: &[u8], at: Timestamp) -> Option<Jump> {
        let reaching = || {
            let reaches = |segment: &Segment| segment.reach.low.as_ref().is_some_and(|low| low[..] <= *key);
            self.behind(key).filter(|(_, segment)| reaches(segment))
        };
        let (low, first) =
            self.containing(key).or_else(reaching).filter(|(_, segment)| segment.since <= at)?;
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
        let from = match low > key {
            true => Edge { bytes: key.to_vec(), kind: EdgeKind::Bound },
            false => Edge { bytes: low.to_vec(), kind: first.low_kind },
        };
        Some(Jump { from, to: last.high.clone(), since, worth })
    }

    /// The same towards smaller keys, from the last key before `border`.
    pub(crate) fn backward(&self, border: &[u8], at: Timestamp) -> Option<Jump> {
        let mut before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(border))).rev();
        let (low, first) = before.next()?;
        let end = first.reach.high.as_deref().unwrap_or(&first.high.bytes);
        if end < border || first.since > at {
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
        let from = match &first.high.bytes[..] < border {
            true => Edge { bytes: border.to_vec(), kind: EdgeKind::Bound },
            false => first.high.clone(),
        };
        Some(Jump { from, to, since, worth })
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

    /// A value is written at `key`: from now on the key belongs to no segment, and to the reach of none.
    pub(crate) fn exclude(&mut self, key: &[u8]) {
        let Some(low) = self.containing(key).map(|(low, _)| low.to_vec()) else {
            self.end_reach(key);
            return;
        };
        let Some((low, segment)) = self.take(&low) else { return };
        if segment.worth < SPLIT_WORTH {
            return;
        }
        let Segment { low_kind, high, since, worth, reach } = segment;
        let worth = (worth / 2).max(worth.min(SPLIT_WORTH_KEPT));
        let behind = Edge::behind(key);
        if behind.bytes < high.bytes {
            let low = behind.bytes.into_boxed_slice();
            let reach = Reach { low: None, high: reach.high };
            self.put(low, Segment { low_kind: behind.kind, high, since, worth, reach });
        }
        if low[..] < *key {
            let reach = Reach { low: reach.low, high: None };
            self.put(low, Segment { low_kind, high: Edge::before(key), since, worth, reach });
        }
    }

    /// Values are written at these keys, which are ascending. Where many of them fall into one segment, what lies between the first
    /// and the last of those is forgotten: as a rule nothing, and a piece for each would take more than it spares.
    pub(crate) fn exclude_many(&mut self, mut keys: &[&[u8]]) {
        while let Some((key, rest)) = keys.split_first() {
            let high = self.containing(key).map(|(_, segment)| segment.high.bytes.clone());
            let inside = high.map_or(0, |high| rest.partition_point(|key| **key < high[..]));
            self.exclude(key);
            if inside < PIECES_MAX {
                keys = rest;
                continue;
            }
            let (inside, rest) = rest.split_at(inside);
            if let Some(last) = inside.last() {
                self.exclude(last);
                // What is left between the two is one piece.
                if let Some(low) = self.containing(&key::behind(key)).map(|(low, _)| low.to_vec())
                    && low < last.to_vec()
                {
                    self.take(&low);
                }
            }
            keys = rest;
        }
    }

    fn end_reach(&mut self, key: &[u8]) {
        let before = self.before(key).filter(|(_, segment)| segment.reach.high.as_deref() > Some(key));
        if let Some(low) = before.map(|(low, _)| low.to_vec()) {
            self.change_reach(&low, |reach| reach.high = None);
        }
        let reaches = |segment: &Segment| segment.reach.low.as_ref().is_some_and(|low| low[..] <= *key);
        let behind = self.behind(key).filter(|(_, segment)| reaches(segment));
        if let Some(low) = behind.map(|(low, _)| low.to_vec()) {
            self.change_reach(&low, |reach| reach.low = None);
        }
    }

    /// There is no key between the border of a segment and a bound; `false` if no segment has that border.
    pub(crate) fn extend_reach(&mut self, border: &[u8], bound: &[u8]) -> bool {
        let below = bound < border;
        let segment = match below {
            true => self.by_low.get_key_value(border).map(|(low, _)| &low[..]),
            false => {
                let mut before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(border)));
                before
                    .next_back()
                    .filter(|(_, segment)| segment.high.bytes == border)
                    .map(|(low, _)| &low[..])
            }
        };
        let Some(low) = segment.map(<[u8]>::to_vec) else { return false };
        self.change_reach(&low, |reach| match below {
            true => reach.low = Some(bound.into()),
            false => reach.high = Some(bound.into()),
        });
        self.clip_reach(&low);
        true
    }

    /// Keeps the reach of a segment, and those of its neighbours, from going over each other's keys.
    fn clip_reach(&mut self, low: &[u8]) {
        let before = self.by_low.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(low))).next_back();
        let before = before.map(|(low, segment)| (low.clone(), segment.high.bytes.clone()));
        let behind = self.behind(low).map(|(low, _)| low.to_vec());
        let Some(high) = self.by_low.get(low).map(|segment| segment.high.bytes.clone()) else { return };
        let within = |bound: Option<Box<[u8]>>, from: &[u8], to: &[u8]| {
            bound.map(|bound| (&bound[..]).clamp(from, to).into()).filter(|_| from < to)
        };
        if let Some((before, end)) = &before {
            self.change_reach(before, |reach| reach.high = within(reach.high.take(), end, low));
        }
        if let Some(behind) = &behind {
            self.change_reach(behind, |reach| reach.low = within(reach.low.take(), &high, behind));
        }
        self.change_reach(low, |reach| {
            if let Some((_, end)) = &before {
                reach.low = within(reach.low.take(), end, low);
            }
            if let Some(behind) = &behind {
                reach.high = within(reach.high.take(), &high, behind);
            }
        });
    }

    /// Adds what a scan learned. Where it overlaps with what is known, the earlier `since` stays.
    pub(crate) fn insert(
        &mut self,
        low: Edge,
        high: Edge,
        since: Timestamp,
        worth: u32,
        reach: Reach,
        pinned_between: &dyn Fn(Timestamp, Timestamp) -> bool,
    ) {
        if low.bytes >= high.bytes {
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
        // What is reached beyond the outermost borders, by whom they belong to.
        let mut reaches = vec![(low.bytes.clone(), high.bytes.clone(), reach)];
        // What of the new interval no segment covers yet begins here.
        let mut open = low.clone();
        for known_low in known {
            let Some((known_low, segment)) = self.take(&known_low) else { continue };
            let known_low = Edge { bytes: known_low.into_vec(), kind: segment.low_kind };
            reaches.push((known_low.bytes.clone(), segment.high.bytes.clone(), segment.reach));
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
            let mut reach = Reach::default();
            for (outer_low, outer_high, outer) in &mut reaches {
                if low.bytes == first && *outer_low == first && outer.low.is_some() {
                    reach.low = outer.low.take();
                }
                if high.bytes == last && *outer_high == last && outer.high.is_some() {
                    reach.high = outer.high.take();
                }
            }
            let low_kind = low.kind;
            self.put(low.bytes.clone().into_boxed_slice(), Segment { low_kind, high, since, worth, reach });
            self.clip_reach(&low.bytes);
        }
        self.join(&first, &last, pinned_between);
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
                left.reach.high = right.reach.high;
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

    /// Makes one of segments that touch, where snapshots that kept them apart are gone: of `most` segments from `from` on. Where to go
    /// on next time; at the end, at the beginning.
    pub(crate) fn join_some(
        &mut self,
        from: &[u8],
        most: usize,
        pinned_between: &dyn Fn(Timestamp, Timestamp) -> bool,
    ) -> Vec<u8> {
        let mut from_here = self.by_low.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        let first = from_here.next().map(|(low, _)| low.to_vec());
        let last = from_here.nth(most.saturating_sub(2)).map(|(low, _)| low.to_vec());
        let end = last.clone().or_else(|| self.by_low.last_key_value().map(|(low, _)| low.to_vec()));
        if let (Some(first), Some(end)) = (first, end) {
            self.join(&first, &end, pinned_between);
        }
        last.unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Change {
        /// Keys from..to have died, and a scan between two bounds has met no others.
        Learn {
            from: u8,
            to: u8,
            below: u8,
            above: u8,
            since: u64,
        },
        /// A scan has met no key between a bound and the border of what it jumped over.
        Reach {
            at: u8,
            bound: u8,
        },
        Write(u8),
        /// Keys from..to, all of one batch.
        WriteMany(u8, u8),
        Join(u8, usize),
        Forget,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (0u8..40, 1u8..8, 0u8..8, 0u8..8, 0u64..4).prop_map(|(from, count, below, above, since)| {
                let to = from + count;
                Change::Learn { from, to, below: from.saturating_sub(below), above: to + above, since }
            }),
            2 => (0u8..48, 0u8..56).prop_map(|(at, bound)| Change::Reach { at, bound }),
            4 => (0u8..56).prop_map(Change::Write),
            1 => (0u8..56, 0u8..56).prop_map(|(from, to)| Change::WriteMany(from, to)),
            1 => (0u8..56, 1usize..20).prop_map(|(from, most)| Change::Join(from, most)),
            1 => Just(Change::Forget),
        ]
    }

    fn live(alive: &BTreeSet<u8>, from: &[u8], to: &[u8]) -> bool {
        alive.iter().any(|key| *from <= [*key][..] && [*key][..] < *to)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        /// Whatever is learned, reached and written: no jump passes over a key that was written after it died.
        #[test]
        fn no_jump_passes_over_a_row(changes in proptest::collection::vec(change(), 1..40), pins in any::<bool>()) {
            let mut segments = Segments::default();
            let mut alive = BTreeSet::new();
            let pinned = move |_, _| pins;
            for change in changes {
                match change {
                    Change::Learn { from, to, below, above, since } => {
                        alive.retain(|key| !(from..to).contains(key));
                        let (low, high) = (Edge::before(&[from]), Edge::behind(&[to - 1]));
                        let reach = Reach {
                            low: (!live(&alive, &[below], &low.bytes)).then(|| [below].into()),
                            high: (!live(&alive, &high.bytes, &[above])).then(|| [above].into()),
                        };
                        segments.insert(low, high, Timestamp(since), 40, reach, &pinned);
                    }
                    Change::Reach { at, bound } => {
                        let Some(jump) = segments.forward(&[at], Timestamp::LAST) else { continue };
                        let border = if [bound][..] < *jump.from.bytes { &jump.from.bytes } else { &jump.to.bytes };
                        let (from, to) = if [bound][..] < **border { (&[bound][..], &border[..]) } else { (&border[..], &[bound][..]) };
                        if !live(&alive, from, to) && from < to {
                            segments.extend_reach(border, &[bound]);
                        }
                    }
                    Change::Write(key) => {
                        segments.exclude(&[key]);
                        alive.insert(key);
                    }
                    Change::WriteMany(from, to) => {
                        let keys: Vec<[u8; 1]> = (from..to).map(|key| [key]).collect();
                        segments.exclude_many(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
                        alive.extend(from..to);
                    }
                    Change::Join(from, most) => drop(segments.join_some(&[from], most, &|_, _| false)),
                    Change::Forget => segments.forget_half(),
                }
                let bytes: usize = segments.by_low.iter().map(|(low, segment)| segment.memory(low)).sum();
                prop_assert_eq!(segments.bytes(), bytes);
                for at in 0..60u8 {
                    if let Some(jump) = segments.forward(&[at], Timestamp::LAST) {
                        prop_assert!(!live(&alive, &[at], &jump.to.bytes), "forward from {} {:?}", at, jump);
                    }
                    if let Some(jump) = segments.backward(&[at], Timestamp::LAST) {
                        prop_assert!(!live(&alive, &jump.to.bytes, &[at]), "backward from {} {:?}", at, jump);
                    }
                }
            }
        }
    }
}
