//! Work done by reads, and the newest version that they stepped on.

use crate::Timestamp;

/// Counters of one reader; plain numbers, so that counting costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
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
    /// Entries that RocksDB's iterators passed, those that they stopped on included: see [`ReadStats::hidden_keys`].
    pub internal_keys: u64,
    /// Time of the newest version that the answer rests on, tombstones included. A reply built on it must not
    /// leave before that version is durable.
    pub newest_seen: Timestamp,
}

impl ReadStats {
    /// Work in steps; a seek costs about as much as sixteen.
    pub(crate) fn steps(&self) -> u64 {
        self.nexts + 16 * self.seeks
    }

    /// Entries that RocksDB's iterators stepped over without showing them. It counts each step of an iterator as one entry
    /// passed; the others are hidden.
    pub fn hidden_keys(&self) -> u64 {
        self.internal_keys.saturating_sub(self.nexts)
    }

    /// Adds RocksDB's hidden steps of this thread since the last call to this (see `hidden.rs`). To be called where a
    /// reader reports its counters, on the thread that has read.
    #[inline]
    pub fn add_hidden(&mut self) {
        crate::hidden::add_to(self);
    }

    pub fn add(&mut self, other: &ReadStats) {
        self.requests += other.requests;
        self.seeks += other.seeks;
        self.nexts += other.nexts;
        self.keys_found += other.keys_found;
        self.versions_skipped += other.versions_skipped;
        self.tombstones_skipped += other.tombstones_skipped;
        self.ranges_skipped += other.ranges_skipped;
        self.bytes_read += other.bytes_read;
        self.hidden_deletes += other.hidden_deletes;
        self.internal_keys += other.internal_keys;
        self.newest_seen = self.newest_seen.max(other.newest_seen);
    }
}
