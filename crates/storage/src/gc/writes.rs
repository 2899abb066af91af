//! How much was written to each storage since it was last compacted, and a few keys of it.
//!
//! A version and the one that replaces it usually lie in different files, or still in the memtable, where no
//! compaction sees them together. So the writes are counted, and when half of them are past the horizon, a look
//! at the sampled keys tells how much of them is garbage ([`super::space`]).
//!
//! Nothing rests on these counts but when to look, so a batch is counted after the commit section: a look may come before it.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::{StorageId, Timestamp};

/// Fewer versions and bytes than these are not worth a look.
const VERSIONS_MIN: u64 = 4096;
const BYTES_MIN: u64 = 1 << 20;

const SAMPLES: usize = 32;
const BATCHES_PER_SAMPLE: u64 = 8;
/// Within a batch.
const VERSIONS_PER_SAMPLE: u64 = 1024;

/// What was written to a storage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) versions: u64,
    pub(crate) tombstones: u64,
    pub(crate) bytes: u64,
    /// Time of the first and the last of it.
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// A random choice of keys.
    pub(crate) samples: Vec<Vec<u8>>,
    sampled: u64,
}

/// Numbers that look like chance, of numbers that count up; the multiplier is that of splitmix64.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// What one batch writes to one storage.
#[derive(Debug)]
struct Touched {
    storage: StorageId,
    versions: u64,
    tombstones: u64,
    bytes: u64,
    newest: Timestamp,
    samples: Vec<Vec<u8>>,
}

/// The storages of one batch; few.
#[derive(Debug, Default)]
pub(crate) struct BatchWrites {
    /// A table and its key, as a rule.
    touched: SmallVec<[Touched; 2]>,
    /// The first key of each storage is a sample. Of a large batch there are further ones anyway.
    leaves_samples: bool,
}

impl BatchWrites {
    #[inline]
    pub(crate) fn note(
        &mut self,
        storage: StorageId,
        key: &[u8],
        time: Timestamp,
        is_tombstone: bool,
        bytes: usize,
    ) {
        let index = match self.touched.iter().rposition(|touched| touched.storage == storage) {
            Some(index) => index,
            None => {
                self.touched.push(Touched {
                    storage,
                    versions: 0,
                    tombstones: 0,
                    bytes: 0,
                    newest: Timestamp::MIN,
                    samples: Vec::new(),
                });
                self.touched.len() - 1
            }
        };
        let touched = &mut self.touched[index];
        let is_sample = touched.versions.is_multiple_of(VERSIONS_PER_SAMPLE)
            && (self.leaves_samples || touched.versions > 0);
        if is_sample && touched.samples.len() < SAMPLES {
            touched.samples.push(key.to_vec());
        }
        touched.versions += 1;
        touched.tombstones += u64::from(is_tombstone);
        touched.bytes += bytes as u64;
        touched.newest = touched.newest.max(time);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Writes {
    by_storage: Mutex<HashMap<StorageId, Written>>,
    batches: AtomicU64,
}

impl Writes {
    pub(crate) fn batch(&self) -> BatchWrites {
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        // Not every eighth one: what comes in turns would be missed or hit each time.
        BatchWrites {
            touched: SmallVec::new(),
            leaves_samples: spread(number).is_multiple_of(BATCHES_PER_SAMPLE),
        }
    }

    pub(crate) fn add(&self, batch: BatchWrites) {
        if batch.touched.is_empty() {
            return;
        }
        let mut by_storage = self.by_storage.lock();
        for touched in batch.touched {
            let written = by_storage.entry(touched.storage).or_default();
            if written.versions == 0 {
                written.first = touched.newest;
            }
            written.last = written.last.max(touched.newest);
            written.versions += touched.versions;
            written.tombstones += touched.tombstones;
            written.bytes += touched.bytes;
            for sample in touched.samples {
                written.sampled += 1;
                if written.samples.len() < SAMPLES {
                    written.samples.push(sample);
                } else {
                    // Each has the same chance to be among the samples in the end, early ones too.
                    let slot = (spread(written.sampled) % written.sampled) as usize;
                    if let Some(slot) = written.samples.get_mut(slot) {
                        *slot = sample;
                    }
                }
            }
        }
    }

    /// Takes out the storages of which half of what was written may be garbage by now.
    pub(crate) fn take_due(&self, horizon: impl Fn(StorageId) -> Timestamp) -> Vec<(StorageId, Written)> {
        let mut by_storage = self.by_storage.lock();
        let due = by_storage.extract_if(|storage, written| {
            let middle = written.first.0 / 2 + written.last.0 / 2;
            (written.versions >= VERSIONS_MIN || written.bytes >= BYTES_MIN) && horizon(*storage).0 >= middle
        });
        due.collect()
    }

    /// Gives back what was taken; it comes up again when as much history has passed once more.
    pub(crate) fn put_back(&self, storage: StorageId, mut taken: Written) {
        let mut by_storage = self.by_storage.lock();
        taken.first = taken.last;
        let written = by_storage.entry(storage).or_default();
        taken.last = taken.last.max(written.last);
        taken.versions += written.versions;
        taken.tombstones += written.tombstones;
        taken.bytes += written.bytes;
        *written = taken;
    }

    /// What was written to it since its last compaction; forgotten.
    pub(crate) fn take(&self, storage: StorageId) -> Option<Written> {
        self.by_storage.lock().remove(&storage)
    }

    /// Versions and tombstones written since the last compaction.
    pub(crate) fn counts(&self, storage: StorageId) -> (u64, u64) {
        let by_storage = self.by_storage.lock();
        by_storage.get(&storage).map_or((0, 0), |written| (written.versions, written.tombstones))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_when_half_of_it_is_past_the_horizon() {
        let writes = Writes::default();
        for time in 1..=5000u64 {
            let mut batch = writes.batch();
            batch.note(1, &time.to_be_bytes(), Timestamp(time), time % 2 == 0, 10);
            batch.note(2, b"k", Timestamp(time), false, 10);
            writes.add(batch);
        }
        assert_eq!(writes.counts(1), (5000, 2500));
        assert!(writes.take_due(|_| Timestamp(2000)).is_empty());
        let due = writes.take_due(|storage| Timestamp(if storage == 1 { 2500 } else { 0 }));
        assert_eq!(due.len(), 1);
        let samples = &due[0].1.samples;
        assert_eq!(samples.len(), SAMPLES);
        let early = samples.iter().filter(|key| key[..] < 2500u64.to_be_bytes()[..]).count();
        assert!((8..24).contains(&early), "{early} of {SAMPLES} samples are of the first half");
        assert_eq!(writes.counts(1), (0, 0));
        assert_eq!(writes.counts(2), (5000, 0));
    }
}
