//! The newest state of keys that a transaction locks in ascending order, as loads do: read along the store instead of one by one.
//!
//! What is read this way is as old as the reader. That nobody has committed the key since is known from [`crate::recent`], because its
//! lock is held; where it is not known, the key is read by itself, and after some of those there is a new reader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_storage::{AscendingReader, Engine, ReadStats, StorageId, Timestamp, Version, key};

use crate::Result;
use crate::recent::RecentWrites;

/// Keys in a row from which on it pays.
const STREAK: u32 = 16;
/// Of so many keys, less than half may have to be sought.
const WATCHED: u32 = 64;
/// Key spaces that are watched; a table and its unique indexes, as a rule.
const SPACES: usize = 8;
/// Keys that a reader is too old for, until there is a new one.
const STALE_MAX: u32 = 16;
/// An older reader holds on to memtables and files that are no longer in use.
const RENEWED_AFTER: Duration = Duration::from_secs(1);

/// What is known of one transaction's claims, until the end of its statement.
#[derive(Default)]
pub(crate) struct Ascending {
    spaces: Vec<Space>,
}

struct Space {
    storage: StorageId,
    last: Vec<u8>,
    streak: u32,
    reader: Option<Reader>,
}

struct Reader {
    reader: AscendingReader,
    /// It sees all commits up to here.
    since: Timestamp,
    asked: u32,
    seeks_before: u64,
    stale: u32,
    made: Instant,
}

impl Ascending {
    /// The newest version of a key whose lock is held, and which the transaction has not written; `None`: to be read by itself.
    /// `visible` is asked before a reader is made.
    pub(crate) fn newest(
        &mut self,
        engine: &Arc<Engine>,
        recent: &RecentWrites,
        visible: impl FnOnce() -> Timestamp,
        key: &[u8],
        stats: &mut ReadStats,
    ) -> Result<Option<Option<Version>>> {
        let Some(storage) = key::storage_of(key) else { return Ok(None) };
        let Some(space) = self.space(storage) else { return Ok(None) };
        let ascends = space.last[..] < *key;
        space.last.clear();
        space.last.extend_from_slice(key);
        if !ascends {
            space.streak = 0;
            space.reader = None;
            return Ok(None);
        }
        space.streak = space.streak.saturating_add(1);
        if space.streak < STREAK {
            return Ok(None);
        }
        let reader = match &mut space.reader {
            Some(reader) => reader,
            None => {
                let since = visible();
                let reader = AscendingReader::open(engine.clone())?;
                space.reader.insert(Reader {
                    reader,
                    since,
                    asked: 0,
                    seeks_before: 0,
                    stale: 0,
                    made: Instant::now(),
                })
            }
        };
        if recent.may_be_newer(key, reader.since) {
            reader.stale += 1;
            if reader.stale >= STALE_MAX {
                space.reader = None;
            }
            return Ok(None);
        }
        let found = reader.reader.newest(key, stats)?;
        reader.asked += 1;
        if reader.asked == WATCHED {
            if reader.reader.seeks() - reader.seeks_before > u64::from(WATCHED / 2) {
                // The keys are far apart: point reads find them sooner.
                space.streak = 0;
                space.reader = None;
            } else if reader.made.elapsed() > RENEWED_AFTER {
                space.reader = None;
            } else {
                reader.asked = 0;
                reader.seeks_before = reader.reader.seeks();
            }
        }
        Ok(Some(found))
    }

    fn space(&mut self, storage: StorageId) -> Option<&mut Space> {
        let at = match self.spaces.iter().position(|space| space.storage == storage) {
            Some(at) => at,
            None if self.spaces.len() == SPACES => return None,
            None => {
                self.spaces.push(Space { storage, last: Vec::new(), streak: 0, reader: None });
                self.spaces.len() - 1
            }
        };
        self.spaces.get_mut(at)
    }

    /// The statement has ended: an idle reader would hold on to memtables and files.
    pub(crate) fn clear(&mut self) {
        self.spaces.clear();
    }
}
