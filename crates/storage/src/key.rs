//! The key of a stored version.
//!
//! ```text
//! +----------------------+---------------------------+--------------------------+
//! | storage id           | key                       | inverted time            |
//! | 4 bytes, big endian  | any bytes, may be empty   | 8 bytes, big endian, !ts |
//! +----------------------+---------------------------+--------------------------+
//! ```
//!
//! In this crate and above, "key" means the first two parts; only this crate sees the third.
//!
//! Invariants:
//! - Byte order is (storage id, key, time descending): the versions of a row are neighbours, newest first, and a
//!   read at time T is one seek to `(key, T)`.
//! - **Within a storage id no key is a proper prefix of another.** Otherwise the inverted time of the shorter one
//!   would be compared with key bytes of the longer one, versions of two rows would interleave, and the prefix
//!   filter (the stored key without its last 8 bytes) would not describe a contiguous run.
//! - Range bounds are free of that rule: a bound may have a stored key as a prefix (`key 00` is the usual way to
//!   say "behind `key`"), so bounds are compared with keys, never with stored keys.
//! - No version has time 0 or the largest time; both are bounds.
//! - The time in the key is the commit time, or, of a write of a large transaction, the time of the write; then the value
//!   says what the commit time is ([`crate::value`]). Commit times of a row's versions are in the order of these times, because
//!   whoever writes a row holds its lock from before the write until after the commit.

use crate::{Error, Result, Timestamp};

/// Names a key space: a table, an index, a sequence. Never used again for another one.
pub type StorageId = u32;

/// Length of the storage id at the front of a key.
pub const STORAGE_ID_BYTES: usize = 4;
/// Length of the inverted time at the end of a stored key.
pub const TIME_BYTES: usize = 8;

/// Replaces `stored` by the stored key of a version.
#[inline]
pub fn write_stored(stored: &mut Vec<u8>, key: &[u8], time: Timestamp) {
    stored.clear();
    stored.extend_from_slice(key);
    stored.extend_from_slice(&(!time.0).to_be_bytes());
}

/// Takes a stored key apart.
#[inline]
pub fn split_stored(stored: &[u8]) -> Result<(&[u8], Timestamp)> {
    match stored.split_last_chunk::<TIME_BYTES>() {
        Some((key, time)) if key.len() >= STORAGE_ID_BYTES => {
            Ok((key, Timestamp(!u64::from_be_bytes(*time))))
        }
        _ => Err(Error::Corruption {
            what: "stored key",
            detail: format!("{} bytes are too few for a storage id and a time", stored.len()),
        }),
    }
}

/// The storage id of a key, `None` if the key is too short to have one.
#[inline]
pub fn storage_of(key: &[u8]) -> Option<StorageId> {
    key.first_chunk::<STORAGE_ID_BYTES>().map(|id| StorageId::from_be_bytes(*id))
}

/// The smallest bytes greater than `key`: the bound behind it.
pub fn behind(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 1);
    bytes.extend_from_slice(key);
    bytes.push(0);
    bytes
}

/// `low <= key < high` for all keys of a storage id.
pub fn storage_range(storage: StorageId) -> (Vec<u8>, Vec<u8>) {
    let low = storage.to_be_bytes().to_vec();
    let high = match storage.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        // Nothing lies behind the last id; ids are given out from below and never get there.
        None => vec![0xff; STORAGE_ID_BYTES + TIME_BYTES],
    };
    (low, high)
}

/// What RocksDB's prefix filters work on: the stored key without the time.
pub(crate) fn filter_prefix(stored: &[u8]) -> &[u8] {
    stored.split_last_chunk::<TIME_BYTES>().map_or(stored, |(key, _)| key)
}

pub(crate) fn has_filter_prefix(stored: &[u8]) -> bool {
    stored.len() >= STORAGE_ID_BYTES + TIME_BYTES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout_is_pinned() {
        let mut stored = Vec::new();
        write_stored(&mut stored, &[0, 0, 1, 2, b'k'], Timestamp(0x0102));
        assert_eq!(stored, [0, 0, 1, 2, b'k', 255, 255, 255, 255, 255, 255, 0xfe, 0xfd]);
        assert_eq!(storage_of(&stored), Some(0x0102));
        assert_eq!(storage_range(7), (vec![0, 0, 0, 7], vec![0, 0, 0, 8]));
    }

    proptest! {
        #[test]
        fn split_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((key, time)) = split_stored(&bytes) {
                let mut again = Vec::new();
                write_stored(&mut again, key, time);
                prop_assert_eq!(again, bytes);
            } else {
                prop_assert!(bytes.len() < STORAGE_ID_BYTES + TIME_BYTES);
            }
        }

        /// Stored order is key order, then newest first, as long as no key is a prefix of the other.
        #[test]
        fn order_is_preserved(
            a in (any::<u32>(), proptest::collection::vec(0u8..4, 0..6), any::<u64>()),
            b in (any::<u32>(), proptest::collection::vec(0u8..4, 0..6), any::<u64>()),
            same_storage in any::<bool>(),
        ) {
            let key = |(storage, bytes, _): &(u32, Vec<u8>, u64)| {
                let storage = if same_storage { 5 } else { *storage };
                [&storage.to_be_bytes()[..], &bytes[..]].concat()
            };
            let (key_a, key_b) = (key(&a), key(&b));
            prop_assume!(key_a == key_b || !(key_a.starts_with(&key_b) || key_b.starts_with(&key_a)));
            let (mut stored_a, mut stored_b) = (Vec::new(), Vec::new());
            write_stored(&mut stored_a, &key_a, Timestamp(a.2));
            write_stored(&mut stored_b, &key_b, Timestamp(b.2));
            prop_assert_eq!(stored_a.cmp(&stored_b), key_a.cmp(&key_b).then(b.2.cmp(&a.2)));
            prop_assert_eq!(filter_prefix(&stored_a), &key_a[..]);
            prop_assert!(has_filter_prefix(&stored_a));
        }

        /// Every key of a storage id, and every version of it, lies inside the storage's range.
        #[test]
        fn storage_range_holds_all(storage in any::<u32>(), rest in proptest::collection::vec(any::<u8>(), 0..9)) {
            let key = [&storage.to_be_bytes()[..], &rest[..]].concat();
            let (low, high) = storage_range(storage);
            prop_assert!(low <= key);
            prop_assert!(key < high || storage == u32::MAX);
            prop_assert_eq!(storage_of(&key), Some(storage));
        }
    }
}
