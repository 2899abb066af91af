//! The value of a stored version.
//!
//! ```text
//! +----------+---------------------------+
//! | kind     | payload                   |
//! | 1 byte   | rest                      |
//! +----------+---------------------------+
//! kind 1: a value; the payload is what the floor above wrote, byte for byte
//! kind 2: a tombstone; no payload
//! kind 3: a marker, no version at all: the key has an uncommitted write ([`crate::spills`]); no payload
//! ```
//!
//! Other kinds are corruption to this version of Cairn, and so is a marker to whoever asks for a version: markers are told
//! by the time in their key. Schema version and packed row live in the payload.

use crate::{Error, Result};

pub(crate) const VALUE: u8 = 1;
pub(crate) const TOMBSTONE: u8 = 2;
pub(crate) const MARKER: u8 = 3;

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

/// The payload, or `None` for a tombstone.
#[inline]
pub fn split_stored(stored: &[u8]) -> Result<Option<&[u8]>> {
    match stored {
        [VALUE, payload @ ..] => Ok(Some(payload)),
        [TOMBSTONE] => Ok(None),
        _ => Err(Error::Corruption {
            what: "stored value",
            detail: match stored.first() {
                Some(kind) => format!("kind {kind}, {} bytes", stored.len()),
                None => "no bytes at all".to_owned(),
            },
        }),
    }
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
        assert!(split_stored(&[]).is_err());
        assert!(split_stored(&[2, 0]).is_err());
        assert!(split_stored(&[3]).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(payload in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20))) {
            let mut stored = Vec::new();
            write_stored(&mut stored, payload.as_deref());
            prop_assert_eq!(split_stored(&stored).unwrap(), payload.as_deref());
        }

        #[test]
        fn split_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = split_stored(&bytes);
        }
    }
}
