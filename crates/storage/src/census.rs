//! How many versions a key space has, how many of them are garbage, and what room they take: for people who look.
//!
//! A small key space, or one that is all in memory, is counted. Of a large one some stretches are counted, spread over its
//! files, and the result is scaled up to the number of entries that RocksDB keeps for each file. Nothing depends on
//! the answer.

use rocksdb::{DBRawIterator, Range, ReadOptions, properties};

use crate::log_files::written_bytes;
use crate::spills::{Entry, EntryReader};
use crate::{Engine, Error, Result, Spills, StorageId, key};

/// Versions of a key space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    pub versions: u64,
    pub tombstones: u64,
    /// Keys whose newest version is a value.
    pub live: u64,
    /// Scaled up from a sample.
    pub estimated: bool,
}

/// Bytes that a key space occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Uncompressed. RocksDB does not tell it for a range: what is there beyond the files, or for a large key space the
    /// share of all memtables that it has of all files.
    pub memtable_bytes: u64,
    /// As estimated by RocksDB from block offsets, after compression.
    pub file_bytes: u64,
}

/// Where a count ends: rows may be large, then it is the bytes that take time.
#[derive(Clone, Copy)]
struct Limit {
    versions: u64,
    bytes: u64,
}

/// A key space with no more than this is counted: some 10 ms.
const COUNTED_MAX: Limit = Limit { versions: 50_000, bytes: 16 << 20 };
/// To find what is in memory beside files, so much is looked at.
const SPACE_COUNTED_MAX: Limit = Limit { versions: 4096, bytes: 1 << 20 };
/// The same for one that is in memory only, about which RocksDB knows nothing.
const COUNTED_IN_MEMORY_MAX: Limit = Limit { versions: 2_000_000, bytes: u64::MAX };
/// Otherwise so many stretches of so many versions, with as many bytes of files between each two.
const SAMPLES: u64 = 12;
const SAMPLE: Limit = Limit { versions: 4_000, bytes: 1 << 20 };

impl Engine {
    /// Counts or estimates the versions of a key space.
    pub fn census(&self, storage: StorageId) -> Result<Census> {
        let (low, high) = key::storage_range(storage);
        let mut iterator = self.passing_iterator();
        let mut reader = self.entry_reader();
        let mut census = Census::default();
        let in_files = self.bytes_in_files(&low, &high);
        let counted = if in_files == 0 { COUNTED_IN_MEMORY_MAX } else { COUNTED_MAX };
        iterator.seek(&low);
        if count(&mut iterator, &mut reader, &high, counted, &mut census)?.complete {
            return Ok(census);
        }
        let files = self.db.live_files()?;
        let (mut bytes, mut entries, mut all_bytes) = (0u64, 0u64, 0u64);
        for file in &files {
            let (Some(start), Some(end)) = (&file.start_key, &file.end_key) else { continue };
            if file.column_family_name != rocksdb::DEFAULT_COLUMN_FAMILY_NAME {
                continue;
            }
            all_bytes += file.size as u64;
            if start[..] < high[..] && end[..] >= low[..] {
                bytes += file.size as u64;
                entries += file.num_entries;
            }
        }
        let mut total = (entries as f64 * in_files as f64 / bytes.max(1) as f64) as u64;
        let memtable = self.memtable_entries()?;
        // What is in memory is taken to be spread as the files are.
        total += match all_bytes {
            0 => memtable,
            all => (memtable as f64 * in_files as f64 / all as f64) as u64,
        };
        iterator.seek(&low);
        let first = iterator.key().map(<[u8]>::to_vec).unwrap_or_default();
        iterator.seek_for_prev(&high);
        let last = iterator.key().map(<[u8]>::to_vec).unwrap_or_default();
        // Each stretch stands for as many bytes, and so for more versions the smaller they are.
        let (mut weights, mut tombstones, mut live) = (0.0, 0.0, 0.0);
        for sample in 0..SAMPLES {
            iterator.seek(self.key_behind(&first, &last, in_files * sample / SAMPLES));
            let mut stretch = Census::default();
            let counted = count(&mut iterator, &mut reader, &high, SAMPLE, &mut stretch)?;
            if stretch.versions > 0 {
                let per_byte = 1.0 / counted.bytes.max(1) as f64;
                weights += stretch.versions as f64 * per_byte;
                tombstones += stretch.tombstones as f64 * per_byte;
                live += stretch.live as f64 * per_byte;
            }
        }
        let scaled =
            |weight: f64| (weight / f64::max(weights, f64::MIN_POSITIVE) * total as f64).round() as u64;
        Ok(Census { versions: total, tombstones: scaled(tombstones), live: scaled(live), estimated: true })
    }

    /// Of a look that leaves nothing in the cache.
    fn passing_iterator(&self) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        options.fill_cache(false);
        self.db.raw_iterator_opt(options)
    }

    /// Between two stored keys, as RocksDB estimates it.
    fn bytes_in_files(&self, low: &[u8], high: &[u8]) -> u64 {
        self.db.get_approximate_sizes(&[Range::new(low, high)]).first().copied().unwrap_or(0)
    }

    fn memtable_entries(&self) -> Result<u64> {
        let mut entries = 0;
        for property in [properties::NUM_ENTRIES_ACTIVE_MEM_TABLE, properties::NUM_ENTRIES_IMM_MEM_TABLES] {
            entries += self.property(property)?;
        }
        Ok(entries)
    }

    /// For each of some fractions, ascending, a key before which about that part of the key space's bytes in files lies. Keys
    /// need not be there. Empty where the key space is.
    pub fn keys_at(&self, storage: StorageId, fractions: &[f64]) -> Result<Vec<Vec<u8>>> {
        let (low, high) = key::storage_range(storage);
        let in_files = self.bytes_in_files(&low, &high);
        let mut iterator = self.passing_iterator();
        iterator.seek(&low);
        let Some(first) = iterator.key().filter(|key| *key < &high[..]).map(<[u8]>::to_vec) else {
            iterator.status()?;
            return Ok(Vec::new());
        };
        iterator.seek_for_prev(&high);
        let last = iterator.key().map_or_else(|| first.clone(), <[u8]>::to_vec);
        let place = |fraction: &f64| {
            self.key_behind(&first, &last, (fraction.clamp(0.0, 1.0) * in_files as f64) as u64)
        };
        Ok(fractions.iter().map(place).collect())
    }

    /// Borders between parts of the keys in `low <= key < high`, ascending, by interpolation: the parts may be very unequal.
    pub fn divide(&self, low: &[u8], high: &[u8], parts: usize) -> Result<Vec<Vec<u8>>> {
        let mut iterator = self.passing_iterator();
        iterator.seek_for_prev(high);
        let last = iterator.key().map(<[u8]>::to_vec);
        iterator.status()?;
        let Some(last) = last.filter(|last| &last[..] > low) else { return Ok(Vec::new()) };
        let line = Line::between(low, &last);
        let step = line.length() / parts.max(1) as u128;
        let mut borders: Vec<Vec<u8>> = (1..parts as u128).map(|part| line.key(step * part)).collect();
        borders.retain(|border| &border[..] > low && &border[..] < high);
        borders.dedup();
        Ok(borders)
    }

    /// A key between two others with about so many bytes of files between the first and it.
    fn key_behind(&self, first: &[u8], last: &[u8], bytes: u64) -> Vec<u8> {
        let line = Line::between(first, last);
        let (mut low, mut high) = (0, line.length());
        // Files are told apart by blocks of some KB: more steps find nothing more.
        for _ in 0..64 {
            let middle = low + (high - low) / 2;
            if self.bytes_in_files(first, &line.key(middle)) < bytes {
                low = middle;
            } else {
                high = middle;
            }
        }
        line.key(low)
    }

    /// How much room a key space takes.
    pub fn space(&self, storage: StorageId) -> Result<Space> {
        let (low, high) = key::storage_range(storage);
        let file_bytes = self.bytes_in_files(&low, &high);
        let memtables = self.property(properties::CUR_SIZE_ALL_MEM_TABLES)?;
        let counted_max = if file_bytes == 0 { COUNTED_IN_MEMORY_MAX } else { SPACE_COUNTED_MAX };
        let mut iterator = self.take_range_iterator()?;
        iterator.seek(&low);
        let mut bytes = 0;
        let mut complete = false;
        for _ in 0..counted_max.versions {
            match iterator.item() {
                Some((stored, value)) if stored < &high[..] => {
                    bytes += (stored.len() + value.len()) as u64;
                    if bytes >= counted_max.bytes {
                        break;
                    }
                    iterator.next();
                }
                _ => {
                    complete = true;
                    break;
                }
            }
        }
        iterator.status()?;
        self.give_back_range_iterator(iterator);
        let memtable_bytes = if complete || file_bytes == 0 {
            bytes.saturating_sub(file_bytes).min(memtables)
        } else {
            let all_files = self.property(properties::LIVE_SST_FILES_SIZE)?.max(file_bytes);
            (memtables as f64 * file_bytes as f64 / all_files as f64) as u64
        };
        Ok(Space { memtable_bytes, file_bytes })
    }

    /// 0 where RocksDB does not know it.
    fn property(&self, name: &properties::PropName) -> Result<u64> {
        Ok(self.db.property_int_value(name)?.unwrap_or(0))
    }

    /// Bytes of the write-ahead logs that are still needed, or not removed yet.
    pub fn wal_bytes(&self) -> Result<u64> {
        let failed = |source| Error::File { path: self.path().to_owned(), source };
        let mut bytes = 0;
        for entry in std::fs::read_dir(self.path()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Files go away meanwhile.
            if entry.path().extension().is_some_and(|extension| extension == "log")
                && let Ok(written) = written_bytes(&entry.path())
            {
                bytes += written;
            }
        }
        Ok(bytes)
    }
}

/// Keys as numbers: what two of them have in common, and the sixteen bytes behind it.
struct Line<'k> {
    common: &'k [u8],
    from: u128,
    to: u128,
}

impl<'k> Line<'k> {
    fn between(first: &'k [u8], last: &[u8]) -> Self {
        let same = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let number = |key: &[u8]| {
            let mut number = [0; 16];
            for (byte, from) in number.iter_mut().zip(key.get(same..).unwrap_or_default()) {
                *byte = *from;
            }
            u128::from_be_bytes(number)
        };
        Line { common: first.get(..same).unwrap_or_default(), from: number(first), to: number(last) }
    }

    fn length(&self) -> u128 {
        self.to.saturating_sub(self.from)
    }

    /// The key so far behind the first.
    fn key(&self, distance: u128) -> Vec<u8> {
        [self.common, &self.from.saturating_add(distance).to_be_bytes()].concat()
    }
}

/// How far a count came.
#[derive(Clone, Copy, Default)]
struct Counted {
    bytes: u64,
    /// To the end of the key space.
    complete: bool,
}

/// Counts versions below `high`. An uncommitted write is none yet.
fn count(
    iterator: &mut DBRawIterator<'_>,
    entries: &mut EntryReader<&Spills>,
    high: &[u8],
    max: Limit,
    census: &mut Census,
) -> Result<Counted> {
    let mut row = Vec::new();
    let mut passed = 0;
    let mut counted = Counted::default();
    while passed < max.versions && counted.bytes < max.bytes {
        let Some((stored, payload)) = iterator.item().filter(|(stored, _)| *stored < high) else {
            iterator.status()?;
            counted.complete = true;
            break;
        };
        let (key, time) = key::split_stored(stored)?;
        if let Entry::Version(_, payload) = entries.read(time, payload)? {
            if row != key {
                row.clear();
                row.extend_from_slice(key);
                census.live += u64::from(payload.is_some());
            }
            census.versions += 1;
            census.tombstones += u64::from(payload.is_none());
        }
        passed += 1;
        counted.bytes += (stored.len() + payload.len()) as u64;
        iterator.next();
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, EngineOptions, Resources, Timestamp};

    fn near(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) <= expected / 5
    }

    #[test]
    fn garbage_is_counted_or_estimated() {
        let directory = tempfile::tempdir().unwrap();
        let resources = Resources::new(8 << 20, 64 << 20);
        let engine =
            Engine::open(directory.path(), &EngineOptions::default(), &resources, &Clock::system()).unwrap();
        const ROWS: u32 = 120_000;
        let write = |storage: u32, time: u64, rows: std::ops::Range<u32>, value: Option<&[u8]>| {
            let mut batch = engine.batch();
            for row in rows {
                // Keys as integers have them: short ones first.
                let number = row.to_be_bytes();
                let zeros = number.iter().take_while(|byte| **byte == 0).count();
                let key = [&storage.to_be_bytes()[..], &[4 - zeros as u8], &number[zeros..]].concat();
                batch.version(&key, Timestamp(time), value);
            }
            engine.write_at(batch, Timestamp(time)).unwrap();
        };
        // The first half is deleted, the last quarter was updated.
        for storage in [1, 2] {
            write(storage, 1, 0..ROWS, Some(b"a value"));
            write(storage, 2, 0..ROWS / 2, None);
            write(storage, 3, ROWS / 4 * 3..ROWS, Some(b"another"));
        }
        write(3, 1, 0..10, Some(b"x"));
        let memory = engine.space(1).unwrap();
        assert!(memory.file_bytes == 0 && memory.memtable_bytes > u64::from(ROWS) * 20, "{memory:?}");
        let rows = u64::from(ROWS);
        let exact = Census { versions: rows / 4 * 7, tombstones: rows / 2, live: rows / 2, estimated: false };
        assert_eq!(engine.census(1).unwrap(), exact);
        assert!(engine.wal_bytes().unwrap() > 0);
        engine.flush().unwrap();
        let files = engine.space(1).unwrap();
        assert!(files.file_bytes > 0 && files.memtable_bytes < memory.memtable_bytes / 4, "{files:?}");
        let found = engine.census(2).unwrap();
        assert!(found.estimated && near(found.versions, exact.versions), "{found:?}");
        assert!(near(found.tombstones, exact.tombstones) && near(found.live, exact.live), "{found:?}");
        assert_eq!(engine.census(3).unwrap(), Census { versions: 10, live: 10, ..Census::default() });
        assert_eq!(engine.census(4).unwrap(), Census::default());
        // Of large rows as many bytes are looked at as of small ones.
        let large = vec![7; 100_000];
        for time in 1..=5 {
            write(5, time, 0..200, Some(&large));
        }
        engine.flush().unwrap();
        let found = engine.census(5).unwrap();
        // A stretch ends in the middle of a row that counts as live.
        assert!(found.estimated && near(found.versions, 1000), "{found:?}");
        assert!((180..=300).contains(&found.live), "{found:?}");
        let space = engine.space(5).unwrap();
        assert!(space.file_bytes > 0, "{space:?}");
    }
}
