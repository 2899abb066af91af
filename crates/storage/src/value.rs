//! The value of a stored version.
//!
//! ```text
//! +----------+---------------------------------------------+
//! | kind     | rest                                        |
//! | 1 byte   |                                             |
//! +----------+---------------------------------------------+
//! kind 1: a value: the payload, what the floor above wrote, byte for byte
//! kind 2: a tombstone: nothing
//! kind 3: a provisional record: writes of a large transaction, layout in `spills/record.rs`
//! kind 4: a value with a commit time of its own: the time, u64 big endian, and the payload
//! kind 5: a tombstone with a commit time of its own: the time
//! ```
//!
//! The commit time of kinds 1 and 2 is the time in the key. Kinds 4 and 5 are what a provisional record becomes once its
//! transaction has committed: the time in the key stays the one of the write, at or before the commit time
//! ([`crate::spills`]). Other kinds are corruption to this version of Cairn. Schema version and packed row live in the payload.

use crate::{Error, Result, Timestamp};

pub(crate) const VALUE: u8 = 1;
pub(crate) const TOMBSTONE: u8 = 2;
pub(crate) const PROVISIONAL: u8 = 3;
const TIMED_VALUE: u8 = 4;
const TIMED_TOMBSTONE: u8 = 5;

/// What a stored value says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored<'a> {
    /// A version: its commit time, if that is not the one in the key, and its payload; `None` for a tombstone.
    Version(Option<Timestamp>, Option<&'a [u8]>),
    /// A provisional record, without the kind.
    Provisional(&'a [u8]),
}

/// Replaces `stored` by the stored form of a value, or of a tombstone.
#[inline]
pub fn write_stored(stored: &mut Vec<u8>, payload: Option<&[u8]>) {
    stored.clear();
    match payload {
        Some(payload) => {
            stored.push(VALUE);
            stored.extend_from_slice(payload);
        }
        None => stored.push(TOMBSTONE),
    }
}

/// The same with a commit time of its own.
pub(crate) fn write_timed(stored: &mut Vec<u8>, time: Timestamp, payload: Option<&[u8]>) {
    stored.clear();
    stored.push(if payload.is_some() { TIMED_VALUE } else { TIMED_TOMBSTONE });
    stored.extend_from_slice(&time.0.to_be_bytes());
    stored.extend_from_slice(payload.unwrap_or_default());
}

/// Tells the kinds apart.
#[inline]
pub(crate) fn read_stored(stored: &[u8]) -> Result<Stored<'_>> {
    match stored {
        [VALUE, payload @ ..] => Ok(Stored::Version(None, Some(payload))),
        [TOMBSTONE] => Ok(Stored::Version(None, None)),
        [PROVISIONAL, record @ ..] => Ok(Stored::Provisional(record)),
        _ => read_timed(stored),
    }
}

fn read_timed(stored: &[u8]) -> Result<Stored<'_>> {
    if let [kind @ (TIMED_VALUE | TIMED_TOMBSTONE), rest @ ..] = stored
        && let Some((time, payload)) = rest.split_first_chunk()
        && (*kind == TIMED_VALUE || payload.is_empty())
    {
        let time = Timestamp(u64::from_be_bytes(*time));
        return Ok(Stored::Version(Some(time), (*kind == TIMED_VALUE).then_some(payload)));
    }
    Err(Error::Corruption {
        what: "stored value",
        detail: match stored.first() {
            Some(kind) => format!("kind {kind}, {} bytes", stored.len()),
            None => "no bytes at all".to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn layout_is_pinned() {
        let mut stored = Vec::new();
        write_stored(&mut stored, Some(b"ab"));
        assert_eq!(stored, [1, b'a', b'b']);
        write_stored(&mut stored, None);
        assert_eq!(stored, [2]);
        write_timed(&mut stored, Timestamp(258), Some(b"c"));
        assert_eq!(stored, [4, 0, 0, 0, 0, 0, 0, 1, 2, b'c']);
        write_timed(&mut stored, Timestamp(258), None);
        assert_eq!(stored, [5, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(read_stored(&[3, 7]).unwrap(), Stored::Provisional(&[7]));
        for damaged in [&[][..], &[0], &[2, 0], &[4, 0, 0, 0], &[5, 0, 0, 0, 0, 0, 0, 1, 2, 3], &[6]] {
            assert!(read_stored(damaged).is_err(), "{damaged:?}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(payload in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), time in any::<u64>()) {
            let mut stored = Vec::new();
            write_stored(&mut stored, payload.as_deref());
            prop_assert_eq!(read_stored(&stored).unwrap(), Stored::Version(None, payload.as_deref()));
            write_timed(&mut stored, Timestamp(time), payload.as_deref());
            let expected = Stored::Version(Some(Timestamp(time)), payload.as_deref());
            prop_assert_eq!(read_stored(&stored).unwrap(), expected);
        }

        #[test]
        fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = read_stored(&bytes);
        }
    }
}
