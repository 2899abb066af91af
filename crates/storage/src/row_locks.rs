//! Row locks of running transactions that have too many of them for memory.
//!
//! ```text
//! column family   key                                                value
//! provisional     [number u64, the highest bit set][storage][key]    what the floor above makes of it
//! ```
//!
//! They end with the process: they are written past the log, and what a crash leaves of them in files is deleted when the
//! store is opened. A transaction's records are forgotten by one range delete, however many they are. (Numbers without the highest
//! bit are records of writes, of directories of format 1.)

use rocksdb::{WriteBatch, WriteOptions};

use crate::spills::SpillNumber;
use crate::{Engine, Result};

/// Its name is older than what it holds.
pub(crate) const COLUMN_FAMILY: &str = "provisional";

/// The highest bit.
const LOCKS: u64 = 1 << 63;

fn past_the_log() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn record_key(number: SpillNumber, key: &[u8]) -> Vec<u8> {
    [&prefix(LOCKS | number)[..], key].concat()
}

/// All records of a transaction begin with it.
fn prefix(number: u64) -> [u8; 8] {
    number.to_be_bytes()
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
            batch.put_cf(self.row_lock_family(), record_key(number, key), record);
        }
        Ok(self.db.write_opt(batch, &past_the_log())?)
    }

    /// A transaction's record of a key.
    pub fn row_lock(&self, number: SpillNumber, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.db.get_cf(self.row_lock_family(), record_key(number, key))?)
    }

    /// The transaction has ended.
    pub fn forget_row_locks(&self, number: SpillNumber) -> Result<()> {
        self.forget_from(LOCKS | number, LOCKS | (number + 1))
    }

    /// No transaction runs.
    pub(crate) fn forget_all_row_locks(&self) -> Result<()> {
        let mut iterator = self.db.raw_iterator_cf(self.row_lock_family());
        iterator.seek(prefix(LOCKS));
        let any = iterator.valid();
        iterator.status()?;
        if any { self.forget_from(LOCKS, u64::MAX) } else { Ok(()) }
    }

    /// Whether there are writes of large transactions as format 1 had them.
    pub(crate) fn has_records_of_format_1(&self) -> Result<bool> {
        let mut iterator = self.db.raw_iterator_cf(self.row_lock_family());
        iterator.seek_to_first();
        let found = iterator.key().is_some_and(|key| key < &prefix(LOCKS)[..]);
        iterator.status()?;
        Ok(found)
    }

    fn forget_from(&self, first: u64, behind: u64) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(self.row_lock_family(), prefix(first), prefix(behind));
        Ok(self.db.write_opt(batch, &past_the_log())?)
    }
}
