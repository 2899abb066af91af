//! Work done by reads, and the newest version that they stepped on.

use crate::Timestamp;

/// Work done by reads (`explain (analyze, dist, debug)`); plain numbers, so that counting costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Point reads, and ranges that a cursor began on.
    pub requests: u64,
    /// Positionings by key.
    pub seeks: u64,
    /// Steps to a neighbouring version, in either direction.
    pub nexts: u64,
    /// Rows given to the caller.
    pub keys_found: u64,
    /// Versions stepped over because a newer one, or the read time, hid them.
    pub versions_skipped: u64,
    /// Tombstones that were the visible version of their key.
    pub tombstones_skipped: u64,
    /// Jumps over dead ranges.
    pub ranges_skipped: u64,
    /// Bytes of keys and values given to the caller.
    pub bytes_read: u64,
    /// Delete marks of RocksDB's own that its iterators stepped over.
    pub hidden_deletes: u64,
    /// Entries that RocksDB's iterators passed, those that they stopped on included: see
    /// [`ReadCounters::hidden_keys`].
    pub internal_keys: u64,
}

impl ReadCounters {
    /// How many counters there are.
    pub const COUNT: usize = 10;

    /// All counters, in an order that stays the same while the process runs: whoever treats them alike does it by this list.
    #[inline]
    pub fn all_mut(&mut self) -> [&mut u64; Self::COUNT] {
        let ReadCounters {
            requests,
            seeks,
            nexts,
            keys_found,
            versions_skipped,
            tombstones_skipped,
            ranges_skipped,
            bytes_read,
            hidden_deletes,
            internal_keys,
        } = self;
        [
            requests,
            seeks,
            nexts,
            keys_found,
            versions_skipped,
            tombstones_skipped,
            ranges_skipped,
            bytes_read,
            hidden_deletes,
            internal_keys,
        ]
    }

    /// The values in the order of [`ReadCounters::all_mut`].
    #[inline]
    pub fn values(mut self) -> [u64; Self::COUNT] {
        self.all_mut().map(|counter| *counter)
    }

    /// Entries that RocksDB's iterators stepped over without showing them. It counts each step of an iterator as one entry
    /// passed; the others are hidden.
    pub fn hidden_keys(&self) -> u64 {
        self.internal_keys.saturating_sub(self.nexts)
    }

    /// Everything that an iterator had to do, hidden steps included.
    pub fn work(&self) -> u64 {
        self.seeks + self.nexts + self.hidden_deletes + self.hidden_keys()
    }

    /// Work in steps; a seek costs about as much as sixteen.
    pub(crate) fn steps(&self) -> u64 {
        self.nexts + 16 * self.seeks
    }

    /// What was counted since `before`.
    pub fn since(mut self, before: &ReadCounters) -> ReadCounters {
        for (counter, before) in self.all_mut().into_iter().zip(before.values()) {
            *counter = counter.saturating_sub(before);
        }
        self
    }

    #[inline]
    pub fn add(&mut self, other: &ReadCounters) {
        for (counter, other) in self.all_mut().into_iter().zip(other.values()) {
            *counter += other;
        }
    }
}

/// What one reader has done and seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    pub counters: ReadCounters,
    /// Time of the newest version that the answer rests on, tombstones included. A reply built on it must not
    /// leave before that version is durable.
    pub newest_seen: Timestamp,
}

impl ReadStats {
    /// Adds RocksDB's hidden steps of this thread since the last call to this (see `hidden.rs`). To be called where a
    /// reader reports its counters, on the thread that has read.
    #[inline]
    pub fn add_hidden(&mut self) {
        crate::hidden::add_to(&mut self.counters);
    }

    #[inline]
    pub fn add(&mut self, other: &ReadStats) {
        self.counters.add(&other.counters);
        self.newest_seen = self.newest_seen.max(other.newest_seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that is missing in the list, or in it twice, is lost in sums.
    #[test]
    fn the_list_has_every_counter_once() {
        let mut counters = ReadCounters::default();
        for (number, counter) in (1..).zip(counters.all_mut()) {
            *counter = number;
        }
        let mut shown: Vec<u64> = format!("{counters:?}")
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        shown.sort_unstable();
        assert_eq!(shown, (1..=ReadCounters::COUNT as u64).collect::<Vec<_>>());
        let mut twice = counters;
        twice.add(&counters);
        assert_eq!(twice.since(&counters), counters);
    }
}
