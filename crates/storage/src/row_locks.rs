//! Row locks of running transactions that have too many of them for memory.
//!
//! A record per key lies among the provisional ones, behind those of all spills:
//!
//! ```text
//! column family   key                                                value
//! provisional     [number u64, the highest bit set][storage][key]    what the floor above makes of it
//! ```
//!
//! They end with the process: they are written past the log, and what a crash leaves of them in files is deleted when the
//! store is opened. A transaction's records are forgotten by one range delete, however many they are.

use rocksdb::{WriteBatch, WriteOptions};

use crate::spills::{SpillNumber, record};
use crate::{Engine, Result};

/// Apart from the numbers of spills, which are below 2^52.
pub(crate) const LOCKS: u64 = 1 << 63;

fn past_the_log() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn record_key(number: SpillNumber, key: &[u8]) -> Vec<u8> {
    let mut record_key = Vec::with_capacity(8 + key.len());
    record::write_key(&mut record_key, LOCKS | number, key);
    record_key
}

impl Engine {
    /// Writes a transaction's records of so many keys; those that are there already are replaced.
    pub fn put_row_locks<'a>(
        &self,
        number: SpillNumber,
        records: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, record) in records {
            batch.put_cf(self.provisional_family(), record_key(number, key), record);
        }
        Ok(self.db.write_opt(batch, &past_the_log())?)
    }

    /// A transaction's record of a key.
    pub fn row_lock(&self, number: SpillNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.provisional_record(LOCKS | number, key)
    }

    /// The transaction has ended.
    pub fn forget_row_locks(&self, number: SpillNumber) -> Result<()> {
        self.forget_from(LOCKS | number, LOCKS | (number + 1))
    }

    /// No transaction runs.
    pub(crate) fn forget_all_row_locks(&self) -> Result<()> {
        let mut iterator = self.db.raw_iterator_cf(self.provisional_family());
        iterator.seek(record::prefix(LOCKS));
        let any = iterator.valid();
        iterator.status()?;
        if any { self.forget_from(LOCKS, u64::MAX) } else { Ok(()) }
    }

    fn forget_from(&self, first: u64, behind: u64) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(self.provisional_family(), record::prefix(first), record::prefix(behind));
        Ok(self.db.write_opt(batch, &past_the_log())?)
    }
}
