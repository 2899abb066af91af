//! What a store keeps without versions: the column family `meta`.
//!
//! ```text
//! key                      value
//! 01                       format of the directory, u32
//! 02                       clock ceiling, u64 (a Timestamp)
//! 03 [counter]             first number of a counter that was never reserved, u64
//! 04                       retention, horizon, jumps of the clock: layout in `gc/horizon.rs`
//! 05                       where dead ranges were: layout in `dead_ranges/hints.rs`
//! 10 [storage id, 4 bytes] sequence: 01, last value i64, is_called u8
//! 20 [storage id, 4 bytes] pending storage: empty
//! 21 [storage id, 4 bytes] dropped storage: time of the drop, u64
//! 22 [storage id, 4 bytes] retention and horizon of its own: layout in `gc/horizon.rs`
//! 23 [spill number, 8 bytes] commit record of a spill: layout in `spills/record.rs`
//! 24 [spill number, 8 bytes] [storage id, 4 bytes] the spill has written to the storage: empty
//! 30 [name]                record of the floor above (the system store's databases and roles)
//! ```
//! All numbers are big endian.
//!
//! Invariants and recovery:
//! - Format: written when the directory is created, raised by upgrades. A newer one is refused before anything
//!   else is read or written.
//! - Ceiling: at or above every version's time in the same store. The clock restarts above it.
//! - Counters: numbers below the stored one may have been given out. A reservation precedes its use in the log.
//! - Sequences: the stored value is at or past every value given out.
//! - A pending record precedes the first directly written version of its storage in the log and is removed by
//!   the batch that commits the creating transaction. Whoever opens the directory finds records of transactions
//!   that died: it deletes the key space and the record in one batch.
//! - Horizons: durable before anything is collected by them; they never go back.
//! - A spill's commit record is what commits it; it goes when none of its provisional records is left ([`crate::spills`]).
//! - The record of a spill's storage precedes its first provisional record there in the log, and goes with the commit record.
//! - A dropped record is written by the batch that commits the drop; versions of that storage may be removed
//!   once no retained time lies before the drop.

use crate::{Error, Result, StorageId, Timestamp};

/// Format of the directory that this code writes; it reads this one and all before it. Format 1 had the values of provisional
/// records apart from the versions.
pub const FORMAT: u32 = 2;

pub(crate) const COLUMN_FAMILY: &str = "meta";

pub(crate) const FORMAT_KEY: &[u8] = &[0x01];
pub(crate) const CEILING_KEY: &[u8] = &[0x02];
const COUNTER: u8 = 0x03;
pub(crate) const HISTORY_KEY: &[u8] = &[0x04];
pub(crate) const DEAD_RANGE_HINTS_KEY: &[u8] = &[0x05];
const SEQUENCE: u8 = 0x10;
pub(crate) const PENDING: u8 = 0x20;
pub(crate) const DROPPED: u8 = 0x21;
pub(crate) const RETENTION: u8 = 0x22;
pub(crate) const SPILL: u8 = 0x23;
pub(crate) const SPILL_STORAGE: u8 = 0x24;
pub(crate) const RECORD: u8 = 0x30;

/// Numbers that are reserved ahead and never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Oids of catalog objects.
    Oid = 1,
    StorageId = 2,
    /// Spill numbers.
    Spill = 3,
}

/// Persisted state of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRecord {
    pub last_value: i64,
    pub is_called: bool,
}

pub(crate) fn counter_key(counter: Counter) -> [u8; 2] {
    [COUNTER, counter as u8]
}

fn storage_key(kind: u8, storage: StorageId) -> [u8; 5] {
    let [a, b, c, d] = storage.to_be_bytes();
    [kind, a, b, c, d]
}

pub(crate) fn sequence_key(storage: StorageId) -> [u8; 5] {
    storage_key(SEQUENCE, storage)
}

pub(crate) fn pending_key(storage: StorageId) -> [u8; 5] {
    storage_key(PENDING, storage)
}

pub(crate) fn dropped_key(storage: StorageId) -> [u8; 5] {
    storage_key(DROPPED, storage)
}

pub(crate) fn retention_key(storage: StorageId) -> [u8; 5] {
    storage_key(RETENTION, storage)
}

pub(crate) fn spill_key(number: u64) -> [u8; 9] {
    let mut key = [SPILL; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn spill_storages_prefix(number: u64) -> [u8; 9] {
    let mut key = [SPILL_STORAGE; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn spill_storage_key(number: u64, storage: StorageId) -> Vec<u8> {
    [&spill_storages_prefix(number)[..], &storage.to_be_bytes()].concat()
}

pub(crate) fn read_spill_key(key: &[u8]) -> Result<u64> {
    read_u64("commit record's key", key.get(1..).unwrap_or_default())
}

pub(crate) fn read_spill_storage_key(key: &[u8]) -> Result<(u64, StorageId)> {
    const WHAT: &str = "key of a spill's storage";
    let (number, storage) =
        key.get(1..).and_then(|rest| rest.split_at_checked(8)).ok_or_else(|| corrupt(WHAT, key))?;
    Ok((read_u64(WHAT, number)?, read_u32(WHAT, storage)?))
}

pub(crate) fn record_key(name: &[u8]) -> Vec<u8> {
    [&[RECORD], name].concat()
}

pub(crate) fn corrupt(what: &'static str, bytes: &[u8]) -> Error {
    Error::Corruption { what, detail: format!("{} bytes: {bytes:02x?}", bytes.len()) }
}

pub(crate) fn read_u32(what: &'static str, bytes: &[u8]) -> Result<u32> {
    bytes.try_into().map(u32::from_be_bytes).map_err(|_| corrupt(what, bytes))
}

pub(crate) fn read_u64(what: &'static str, bytes: &[u8]) -> Result<u64> {
    bytes.try_into().map(u64::from_be_bytes).map_err(|_| corrupt(what, bytes))
}

pub(crate) fn read_time(what: &'static str, bytes: &[u8]) -> Result<Timestamp> {
    read_u64(what, bytes).map(Timestamp)
}

/// The storage id of a pending or dropped record's key.
pub(crate) fn read_storage_key(key: &[u8]) -> Result<StorageId> {
    match key {
        [_, id @ ..] => read_u32("storage record", id),
        [] => Err(corrupt("storage record", key)),
    }
}

impl SequenceRecord {
    pub(crate) fn encode(&self) -> [u8; 10] {
        let mut bytes = [1; 10];
        bytes[1..9].copy_from_slice(&self.last_value.to_be_bytes());
        bytes[9] = u8::from(self.is_called);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes {
            [1, value @ .., is_called @ (0 | 1)] => Ok(SequenceRecord {
                last_value: read_u64("sequence", value)? as i64,
                is_called: *is_called == 1,
            }),
            _ => Err(corrupt("sequence", bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout_is_pinned() {
        assert_eq!(FORMAT, 2, "a new format needs a test that the old one still opens (engine.rs)");
        assert_eq!(counter_key(Counter::Oid), [3, 1]);
        assert_eq!(counter_key(Counter::StorageId), [3, 2]);
        assert_eq!(sequence_key(258), [0x10, 0, 0, 1, 2]);
        assert_eq!(pending_key(258), [0x20, 0, 0, 1, 2]);
        assert_eq!(dropped_key(258), [0x21, 0, 0, 1, 2]);
        assert_eq!(retention_key(258), [0x22, 0, 0, 1, 2]);
        assert_eq!(spill_key(258), [0x23, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(spill_storage_key(258, 3), [0x24, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3]);
        assert_eq!(read_spill_key(&spill_key(258)).unwrap(), 258);
        assert_eq!(read_spill_storage_key(&spill_storage_key(258, 3)).unwrap(), (258, 3));
        assert_eq!(counter_key(Counter::Spill), [3, 3]);
        assert_eq!(HISTORY_KEY, [4]);
        assert_eq!(record_key(b"x"), [0x30, b'x']);
        let record = SequenceRecord { last_value: -2, is_called: true };
        assert_eq!(record.encode(), [1, 255, 255, 255, 255, 255, 255, 255, 254, 1]);
        assert_eq!(SequenceRecord::decode(&record.encode()).unwrap(), record);
    }

    proptest! {
        #[test]
        fn decoders_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            let _ = SequenceRecord::decode(&bytes);
            let _ = read_storage_key(&bytes);
            let _ = read_spill_key(&bytes);
            let _ = read_spill_storage_key(&bytes);
            let _ = read_u32("x", &bytes);
            let _ = read_time("x", &bytes);
        }
    }
}
