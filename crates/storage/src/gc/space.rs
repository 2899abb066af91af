//! Giving space back: dropped storages, and stretches of which much is garbage.
//!
//! RocksDB compacts what was written, not what is garbage. The collector asks for compactions of its own where
//! a look at the data says that at least a third would go:
//!
//! - regions that an earlier compaction noted ([`super::findings`]), when the horizon has passed their garbage;
//! - storages that much was written to ([`super::writes`]), when the horizon has passed half of it;
//! - files that are full of RocksDB's own deletes, which the filter leaves behind;
//! - stretches whose dead rows were just deleted as ranges (those runs come from compactions and from scans).
//!
//! So each byte of garbage is rewritten a few times at most, and data that does not change is left alone.
//!
//! A dropped storage goes as a whole when its horizon is past the drop and no pin is older. Nobody writes to it
//! any more, or unlinking files would not be allowed at all. The range deletion is durable before files are unlinked: a file
//! may hold what hides versions of an older one.

use std::sync::atomic::Ordering;

use rocksdb::{BottommostLevelCompaction, CompactOptions, Range, WriteBatch};

use super::dead_span::Section;
use super::filter::View;
use super::findings::{GARBAGE_PART, Stretch};
use crate::spills::Entry;
use crate::{Engine, Result, StorageId, Timestamp, key, meta};

/// A dropped storage of at most so many versions is deleted one by one: range deletions cost readers more.
const SMALL_STORAGE_VERSIONS: usize = 256;
/// From each sampled key on, so many versions are looked at.
const LOOK_VERSIONS: u64 = 64;
/// Versions looked at from the beginning of a region.
const REGION_LOOK_VERSIONS: u64 = 1000;
/// Of the dead ranges that scans have learned, so many are looked at in a round.
const LEARNED_SPANS_MAX: usize = 1000;
/// Files, and what scans have learned, are looked at every so many rounds.
const ROUNDS_PER_LOOK_AT_FILES: u64 = 30;
/// Stretches handled in one round of the collector.
const PER_ROUND: usize = 16;
/// Versions that a round walks over, looking for dead rows: a fraction of a second's work.
const VERSIONS_PER_ROUND: u64 = 1_000_000;
/// So many deleted rows are worth a compaction at once.
const ROWS_TO_COMPACT: u64 = 10_000;
/// Files smaller than this are not worth a compaction because of their deletes.
const FILE_BYTES_MIN: usize = 256 << 10;

/// How much of what was looked at is garbage.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    versions: u64,
    garbage: u64,
}

impl Look {
    fn is_worth_it(self) -> bool {
        self.garbage > 0 && self.garbage * GARBAGE_PART >= self.versions
    }
}

impl Engine {
    // ---- dropped storages -------------------------------------------------------------------------------

    /// Removes the storages that nobody can read any more; how many.
    pub(crate) fn remove_dropped_storages(&self, stop: &dyn Fn() -> bool) -> Result<u64> {
        let dropped = self.dropped_storages()?;
        if dropped.is_empty() {
            return Ok(0);
        }
        let view = self.gc.view();
        let may_go =
            |storage: StorageId, at: Timestamp| view.may_go(view.horizons.of(storage), Timestamp::MIN, at);
        let mut removed = 0;
        for (storage, _) in dropped.iter().filter(|(storage, at)| may_go(*storage, *at)) {
            if stop() {
                break;
            }
            self.remove_storage(*storage)?;
            removed += 1;
        }
        self.gc.totals.storages_removed.fetch_add(removed, Ordering::Relaxed);
        Ok(removed)
    }

    fn remove_storage(&self, storage: StorageId) -> Result<()> {
        let (low, high) = key::storage_range(storage);
        let mut small = Vec::new();
        let mut iterator = self.walking_iterator();
        iterator.seek(&low);
        while let Some(stored) = iterator.key()
            && stored < &high[..]
            && small.len() <= SMALL_STORAGE_VERSIONS
        {
            small.push(stored.to_vec());
            iterator.next();
        }
        iterator.status()?;
        drop(iterator);
        let mut batch = WriteBatch::default();
        let is_small = small.len() <= SMALL_STORAGE_VERSIONS;
        if is_small {
            small.iter().for_each(|stored| batch.delete(stored));
        } else {
            batch.delete_range(&low[..], &high[..]);
        }
        let mut history = self.history.lock();
        batch.delete_cf(self.meta_family(), meta::dropped_key(storage));
        // Its horizon is remembered until the others have passed it: reading it at an older time is refused, not empty.
        let mut next = history.clone();
        next.set_own_retention(storage, None);
        if let Some(record) = next.encode_own(storage) {
            batch.put_cf(self.meta_family(), meta::retention_key(storage), record);
        }
        self.db.write_opt(batch, &self.write_options)?;
        *history = next;
        drop(history);
        self.dead_ranges().clear(storage);
        self.gc.writes.take(storage);
        if !is_small {
            self.sync()?;
            self.db.delete_file_in_range(&low, &high)?;
            self.compact_stretch(&low, &high, false);
        }
        Ok(())
    }

    // ---- garbage ----------------------------------------------------------------------------------------

    /// One round: deletes dead rows, compacts what is mostly garbage.
    pub(crate) fn collect_garbage(&self, section: Section<'_>, stop: &dyn Fn() -> bool) -> Result<()> {
        let horizons = self.gc.view().horizons;
        let is_ripe = |stretch: &Stretch| horizons.of(stretch.storage()) >= stretch.ripe;
        let mut to_compact: Vec<Stretch> = Vec::new();
        let round = self.gc.totals.rounds.fetch_add(1, Ordering::Relaxed);
        let mut spans = self.gc.findings.lock().take_spans(is_ripe, PER_ROUND);
        if round.is_multiple_of(ROUNDS_PER_LOOK_AT_FILES) {
            // Scans have found out as well where nothing lives.
            let learned = self.dead_ranges().dead_spans(horizons.highest());
            let stretch = |(low, high)| Stretch { low, high, ripe: Timestamp::MIN, weight: 0 };
            spans.extend(learned.into_iter().take(LEARNED_SPANS_MAX).map(stretch));
        }
        let mut budget = VERSIONS_PER_ROUND;
        for span in spans {
            if stop() {
                return Ok(());
            }
            let deleted = self.delete_dead_rows(span.clone(), false, &mut budget, section, stop)?;
            tracing::debug!(storage = span.storage(), rows = deleted.rows, "dead rows deleted");
            if deleted.rows >= ROWS_TO_COMPACT {
                let high = deleted.rest.as_ref().map_or(&span.high, |rest| &rest.low).clone();
                to_compact.push(Stretch { high, ..span });
            }
            if let Some(rest) = deleted.rest {
                self.gc.findings.lock().add_span(rest);
            }
        }
        for (storage, written) in self.gc.writes.take_due(|storage| horizons.of(storage)) {
            let view = self.gc.view();
            let mut look = Look::default();
            for sample in &written.samples {
                self.look(&view, sample, LOOK_VERSIONS, &mut look)?;
            }
            tracing::debug!(
                storage,
                versions = written.versions,
                looked_at = look.versions,
                garbage = look.garbage,
                "much was written"
            );
            let (Some(low), Some(high)) = (written.samples.iter().min(), written.samples.iter().max()) else {
                self.gc.writes.put_back(storage, written);
                continue;
            };
            if !look.is_worth_it() {
                continue;
            }
            // What lies between the samples may be much more than what was written.
            if self.file_bytes_between(low, high) > written.bytes.saturating_mul(GARBAGE_PART) {
                self.gc.writes.put_back(storage, written);
                continue;
            }
            let stretch =
                Stretch { low: low.clone(), high: high.clone(), ripe: Timestamp::MIN, weight: written.bytes };
            if written.tombstones * GARBAGE_PART >= written.versions {
                let mut budget = written.versions.saturating_mul(4).min(VERSIONS_PER_ROUND);
                self.delete_dead_rows(stretch.clone(), false, &mut budget, section, stop)?;
            }
            to_compact.push(stretch);
        }
        let regions = self.gc.findings.lock().take_regions(is_ripe, PER_ROUND);
        for region in regions {
            // The records that a transaction has rolled back may lie far apart: then the rest is not worth rewriting for them.
            if self.file_bytes_between(&region.low, &region.high)
                > region.weight.saturating_mul(GARBAGE_PART * 2)
            {
                continue;
            }
            let mut look = Look::default();
            self.look(&self.gc.view(), &region.low, REGION_LOOK_VERSIONS, &mut look)?;
            if look.is_worth_it() {
                to_compact.push(region);
            }
        }
        if round.is_multiple_of(ROUNDS_PER_LOOK_AT_FILES) {
            to_compact.extend(self.files_full_of_deletes()?);
        }
        for stretch in to_compact {
            if stop() {
                return Ok(());
            }
            tracing::debug!(storage = stretch.storage(), bytes = stretch.weight, "compacting");
            self.compact_rows(&stretch.low, &stretch.high, false);
        }
        Ok(())
    }

    /// Counts the versions from `low` on, and those that a compaction or a range deletion would remove.
    fn look(&self, view: &View, low: &[u8], most: u64, look: &mut Look) -> Result<()> {
        let Some(storage) = key::storage_of(low) else { return Ok(()) };
        let horizon = view.horizons.of(storage);
        let mut iterator = self.walking_iterator();
        iterator.seek(low);
        let mut entries = self.entry_reader();
        let mut row: Vec<u8> = Vec::new();
        let mut newer = Timestamp::MIN;
        for _ in 0..most {
            let Some((stored, stored_value)) = iterator.item() else { break };
            let (found, time) = key::split_stored(stored)?;
            if key::storage_of(found) != Some(storage) {
                break;
            }
            look.versions += 1;
            let (time, is_tombstone) = match entries.read(time, stored_value)? {
                Entry::Version(time, payload) => (time, payload.is_none()),
                Entry::Running | Entry::Own(_) => (Timestamp::MAX, false),
                Entry::Nothing => {
                    look.garbage += 1;
                    iterator.next();
                    continue;
                }
            };
            if found == &row[..] {
                look.garbage += u64::from(view.may_go(horizon, time, newer));
            } else {
                row.clear();
                row.extend_from_slice(found);
                look.garbage += u64::from(is_tombstone && time <= horizon);
            }
            newer = time;
            iterator.next();
        }
        Ok(iterator.status()?)
    }

    /// Files at least a third of whose entries are deletes of RocksDB's own.
    fn files_full_of_deletes(&self) -> Result<Vec<Stretch>> {
        let files = self.db.live_files()?;
        let lowest = files.iter().map(|file| file.level).max().unwrap_or(0);
        let mut found = Vec::new();
        for file in files {
            if file.column_family_name != rocksdb::DEFAULT_COLUMN_FAMILY_NAME
                || file.size < FILE_BYTES_MIN
                || file.num_deletions * GARBAGE_PART < file.num_entries
                // In the lowest level and in level 0 others will see to them.
                || file.level == 0
                || file.level == lowest
            {
                continue;
            }
            if let (Some(low), Some(high)) = (file.start_key, file.end_key) {
                let weight = file.size as u64;
                found.push(Stretch { low, high, ripe: Timestamp::MIN, weight });
            }
        }
        found.truncate(1);
        Ok(found)
    }

    /// Compacts all versions of the rows from `low` to `high`.
    fn compact_rows(&self, low: &[u8], high: &[u8], all: bool) {
        let mut end = Vec::new();
        key::write_stored(&mut end, high, Timestamp::MIN);
        self.compact_stretch(low, &end, all);
    }

    /// Compacts stored keys from `low` to `high` down to the lowest level; `all`: files too that are there already.
    pub(crate) fn compact_stretch(&self, low: &[u8], high: &[u8], all: bool) {
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        options.set_bottommost_level_compaction(if all {
            BottommostLevelCompaction::Force
        } else {
            BottommostLevelCompaction::IfHaveCompactionFilter
        });
        self.db.compact_range_opt(Some(low), Some(high), &options);
        // The log of what was just flushed is held by what `meta` has not flushed.
        if let Err(error) = self.db.flush_cf(self.meta_family()) {
            tracing::warn!(%error, "could not flush after a compaction");
        }
        self.gc.totals.compactions.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes of files between two keys.
    fn file_bytes_between(&self, low: &[u8], high: &[u8]) -> u64 {
        self.db.get_approximate_sizes(&[Range::new(low, high)]).first().copied().unwrap_or(0)
    }
}
