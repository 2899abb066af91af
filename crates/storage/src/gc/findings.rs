//! What a compaction saw and could not remove: where to look again, and when.
//!
//! - A *region* is a stretch of keys of which a good part is garbage that had not reached the horizon yet. It ripens when
//!   the horizon reaches the youngest of it; compacting the stretch then gives the space back.
//! - A *dead span* is a run of rows whose newest version, as far as this compaction saw, is a tombstone. It ripens when the
//!   horizon reaches the youngest; then the whole run may be deleted, if it really is dead.
//!
//! Both are hints, held in memory only and bounded in number. Whoever acts on one looks for himself first.

use crate::{StorageId, Timestamp, key};

/// A region is so many bytes or a storage, whichever is less.
const REGION_BYTES: u64 = 256 << 10;
/// Garbage is worth a compaction if it is at least this part of what is there: 1 in 3.
pub(crate) const GARBAGE_PART: u64 = 3;
/// A shorter run of dead rows stays where it is: every range deletion is something that readers have to look at.
pub(crate) const SPAN_ROWS_MIN: u64 = 128;
/// A region with fewer dead rows, 1 in 4 of its versions, is left as it is.
pub(crate) const DEAD_PART: u64 = 4;
/// Beyond so many findings of a kind the smallest are forgotten; a later compaction finds them again.
const FINDINGS_MAX: usize = 1024;

/// Keys from `low` to `high`, both included, of one storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) low: Vec<u8>,
    pub(crate) high: Vec<u8>,
    /// When the horizon is here, it is worth a look.
    pub(crate) ripe: Timestamp,
    /// Garbage bytes of a region, rows of a dead span.
    pub(crate) weight: u64,
}

impl Stretch {
    pub(crate) fn storage(&self) -> StorageId {
        key::storage_of(&self.low).unwrap_or(0)
    }

    fn overlaps(&self, other: &Stretch) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Gathers the findings of one compaction, row by row.
#[derive(Default)]
pub(crate) struct Observer {
    regions: Vec<Stretch>,
    spans: Vec<Stretch>,
    region: Option<Region>,
    span: Option<Stretch>,
}

struct Region {
    stretch: Stretch,
    bytes: u64,
    versions: u64,
    /// Rows whose newest version is a tombstone, in runs that are too short, and the time of the youngest.
    dead_rows: u64,
    dead_since: Timestamp,
}

impl Observer {
    /// The newest version of a row that this compaction has.
    pub(crate) fn newest(&mut self, row: &[u8], time: Timestamp, bytes: u64, is_tombstone: bool) {
        let storage = key::storage_of(row).unwrap_or(0);
        match &mut self.span {
            Some(span) if is_tombstone && span.storage() == storage => {
                span.high.clear();
                span.high.extend_from_slice(row);
                span.ripe = span.ripe.max(time);
                span.weight += 1;
            }
            _ => {
                self.end_span();
                if is_tombstone {
                    self.span =
                        Some(Stretch { low: row.to_vec(), high: row.to_vec(), ripe: time, weight: 1 });
                }
            }
        }
        match &mut self.region {
            Some(region) if region.bytes < REGION_BYTES && region.stretch.storage() == storage => {
                region.stretch.high.clear();
                region.stretch.high.extend_from_slice(row);
                region.bytes += bytes;
            }
            _ => {
                self.end_region();
                let stretch =
                    Stretch { low: row.to_vec(), high: row.to_vec(), ripe: Timestamp::MIN, weight: 0 };
                self.region =
                    Some(Region { stretch, bytes, versions: 0, dead_rows: 0, dead_since: Timestamp::MIN });
            }
        }
        if let Some(region) = &mut self.region {
            region.versions += 1;
        }
    }

    /// An older version of the same row that stays; `ripens`: until the horizon reaches `newer`.
    pub(crate) fn older(&mut self, newer: Timestamp, bytes: u64, ripens: bool) {
        if let Some(region) = &mut self.region {
            region.bytes += bytes;
            region.versions += 1;
            if ripens {
                region.stretch.weight += bytes;
                region.stretch.ripe = region.stretch.ripe.max(newer);
            }
        }
    }

    fn end_span(&mut self) {
        let Some(span) = self.span.take() else { return };
        if span.weight >= SPAN_ROWS_MIN {
            push_bounded(&mut self.spans, span);
        } else if let Some(region) = &mut self.region {
            region.dead_rows += span.weight;
            region.dead_since = region.dead_since.max(span.ripe);
        }
    }

    fn end_region(&mut self) {
        let Some(region) = self.region.take() else { return };
        let Region { stretch, bytes, versions, dead_rows, dead_since } = region;
        if dead_rows >= SPAN_ROWS_MIN && dead_rows * DEAD_PART >= versions {
            push_bounded(&mut self.spans, Stretch { ripe: dead_since, weight: dead_rows, ..stretch.clone() });
        }
        if stretch.weight * GARBAGE_PART >= bytes && stretch.weight > 0 {
            match self.regions.last_mut() {
                // Neighbours are one region, as long as it is not too large to be compacted at a time.
                Some(last) if last.storage() == stretch.storage() && last.weight < 64 * REGION_BYTES => {
                    last.high = stretch.high;
                    last.ripe = last.ripe.max(stretch.ripe);
                    last.weight += stretch.weight;
                }
                _ => push_bounded(&mut self.regions, stretch),
            }
        }
    }
}

/// What compactions have found so far.
#[derive(Default)]
pub(crate) struct Findings {
    regions: Vec<Stretch>,
    spans: Vec<Stretch>,
}

impl Findings {
    pub(crate) fn add(&mut self, mut observer: Observer) {
        observer.end_span();
        observer.end_region();
        for region in observer.regions {
            push_bounded(&mut self.regions, region);
        }
        for span in observer.spans {
            push_bounded(&mut self.spans, span);
        }
    }

    /// Takes out the regions that are ripe, largest first; overlapping ones become one.
    pub(crate) fn take_regions(&mut self, is_ripe: impl Fn(&Stretch) -> bool, most: usize) -> Vec<Stretch> {
        take(&mut self.regions, is_ripe, most)
    }

    /// Takes out the dead spans that are ripe, largest first; overlapping ones become one.
    pub(crate) fn take_spans(&mut self, is_ripe: impl Fn(&Stretch) -> bool, most: usize) -> Vec<Stretch> {
        take(&mut self.spans, is_ripe, most)
    }

    pub(crate) fn add_region(&mut self, region: Stretch) {
        push_bounded(&mut self.regions, region);
    }

    pub(crate) fn add_span(&mut self, span: Stretch) {
        push_bounded(&mut self.spans, span);
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.regions.len(), self.spans.len())
    }
}

fn take(all: &mut Vec<Stretch>, is_ripe: impl Fn(&Stretch) -> bool, most: usize) -> Vec<Stretch> {
    let mut ripe: Vec<Stretch> = all.extract_if(.., |one| is_ripe(one)).collect();
    ripe.sort_by(|a, b| a.low.cmp(&b.low));
    let mut merged: Vec<Stretch> = Vec::with_capacity(ripe.len());
    for one in ripe {
        match merged.last_mut() {
            Some(last) if last.overlaps(&one) => {
                last.high = one.high.max(std::mem::take(&mut last.high));
                last.ripe = last.ripe.max(one.ripe);
                last.weight = last.weight.max(one.weight);
            }
            _ => merged.push(one),
        }
    }
    merged.sort_by_key(|one| std::cmp::Reverse(one.weight));
    let rest = merged.split_off(most.min(merged.len()));
    all.extend(rest);
    merged
}

fn push_bounded(list: &mut Vec<Stretch>, one: Stretch) {
    if list.len() >= FINDINGS_MAX {
        let smallest = list.iter().enumerate().min_by_key(|(_, other)| other.weight).map(|(index, _)| index);
        match smallest {
            Some(index) if list[index].weight < one.weight => list[index] = one,
            _ => {}
        }
        return;
    }
    list.push(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(storage: u32, number: u32) -> Vec<u8> {
        [storage.to_be_bytes(), number.to_be_bytes()].concat()
    }

    #[test]
    fn runs_of_dead_rows_are_found() {
        let mut observer = Observer::default();
        for number in 0..1000u32 {
            let is_tombstone = number != 500;
            observer.newest(&row(1, number), Timestamp(u64::from(number) + 1), 20, is_tombstone);
        }
        for number in 0..200 {
            observer.newest(&row(2, number), Timestamp(7), 20, true);
        }
        for number in 0..100 {
            observer.newest(&row(3, number), Timestamp(7), 20, true);
        }
        let mut findings = Findings::default();
        findings.add(observer);
        assert_eq!(findings.counts(), (0, 3));
        let spans = findings.take_spans(|span| span.ripe <= Timestamp(500), 10);
        assert_eq!(spans.len(), 2);
        let first = Stretch { low: row(1, 0), high: row(1, 499), ripe: Timestamp(500), weight: 500 };
        assert_eq!(spans[0], first);
        assert_eq!(spans[1].storage(), 2);
        assert_eq!(findings.counts(), (0, 1));
    }

    #[test]
    fn regions_of_garbage_are_found() {
        let mut observer = Observer::default();
        for number in 0..10_000u32 {
            observer.newest(&row(1, number), Timestamp(90), 100, false);
            if number < 5000 {
                observer.older(Timestamp(90), 100, true);
                observer.older(Timestamp(80), 100, false);
            }
        }
        let mut findings = Findings::default();
        findings.add(observer);
        assert_eq!(findings.counts(), (1, 0));
        let region = findings.take_regions(|_| true, 1).remove(0);
        assert_eq!(region.ripe, Timestamp(90));
        assert!(region.low == row(1, 0) && region.high >= row(1, 4000) && region.high < row(1, 6000));
    }

    #[test]
    fn dead_rows_among_living_ones_are_found_if_there_are_many() {
        for (every, found) in [(2, true), (10, false)] {
            let mut observer = Observer::default();
            for number in 0..2000u32 {
                observer.newest(&row(1, number), Timestamp(7), 100, number % every == 0);
            }
            let mut findings = Findings::default();
            findings.add(observer);
            assert_eq!(findings.counts(), (0, usize::from(found)), "every {every}th row");
        }
    }

    #[test]
    fn the_smallest_findings_give_way() {
        let mut list = Vec::new();
        for weight in 0..3000u64 {
            let low = row(1, weight as u32);
            push_bounded(&mut list, Stretch { high: low.clone(), low, ripe: Timestamp(1), weight });
        }
        assert_eq!(list.len(), FINDINGS_MAX);
        assert!(list.iter().all(|one| one.weight >= 3000 - FINDINGS_MAX as u64));
    }
}
