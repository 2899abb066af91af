//! Whole runs of dead rows go with one range deletion.
//!
//! The tombstone that is the newest version of its row may go only together with everything older of that row, wherever
//! it lies. A compaction does not see everything; a fresh iterator does. So the collector walks a stretch and finds runs of
//! rows each of which is dead to everybody:
//!
//! ```text
//!   newest version is a tombstone of time D <= horizon
//!   and no pinned time P with  oldest version's time <= P < D
//! ```
//!
//! and deletes each run with one RocksDB range deletion, which covers files and memtables alike.
//!
//! **Writers.** A row may be written into the run while it is walked. A *watch* on the stretch is set before the iterator is
//! made, and both that and the deletion happen inside the commit section, where no commit is under way:
//!
//! ```text
//!  section { set the watch }   make the iterator, walk   section { lift the watch; delete the runs   }
//!                                                                { around the keys that were written }
//! ```
//!
//! A commit before the first section is seen by the iterator, one between the two is noted by the watch, one after the
//! second has a higher RocksDB sequence number than the range deletion, which therefore does not touch it. Bulk loads
//! write outside the section, but only into storages that have no tombstone yet, hence no run. Large transactions write
//! their records inside the section too, and a row with a record of one that runs is in no run ([`crate::spills`]).
//!
//! Runs that are short are not worth a range deletion, which every reader of the neighbourhood has to look at. Where dead rows are
//! many all the same, scattered among living ones, their versions are deleted one by one. That needs no watch: a stored
//! key is written once, so a version that comes to the row later has another one; and a row goes in one batch. (Records are
//! written once more when they settle, but not while this is under way: [`crate::spills`].)
//!
//! Pins need no second look: the view was taken before the walk and stays valid ([`crate::pins`]). Nor does the index of
//! dead ranges: nothing was visible there before, and nothing is afterwards.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rocksdb::{DBRawIterator, WriteBatch};

use super::filter::View;
use super::findings::{DEAD_PART, SPAN_ROWS_MIN, Stretch};
use crate::spills::Entry;
use crate::{Engine, Result, Timestamp, key};

/// Runs a closure inside the commit section: no commit is between its batch and its publication.
pub type Section<'a> = &'a dyn Fn(&mut dyn FnMut());

/// A walk is cut into pieces of so many versions.
const WALK_MAX: u64 = 200_000;
/// Keys deleted one by one, in a batch.
const KEYS_PER_BATCH: usize = 1000;
/// A watch that more keys than these were written under gives up.
const WATCHED_MAX: usize = 4096;

/// Notes keys of one stretch that are written while it is set. One stretch at a time.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    active: AtomicBool,
    state: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    low: Vec<u8>,
    high: Vec<u8>,
    written: Vec<Vec<u8>>,
    overflown: bool,
}

impl Watch {
    fn set(&self, stretch: &Stretch) {
        let mut state = self.state.lock();
        *state = Watched { low: stretch.low.clone(), high: stretch.high.clone(), ..Watched::default() };
        self.active.store(true, Ordering::Release);
    }

    fn lift(&self) -> Watched {
        self.active.store(false, Ordering::Release);
        std::mem::take(&mut *self.state.lock())
    }

    /// A version of this key is about to be written.
    #[inline]
    pub(crate) fn note(&self, key: &[u8]) {
        if self.active.load(Ordering::Acquire) {
            self.note_watched(key);
        }
    }

    #[cold]
    fn note_watched(&self, key: &[u8]) {
        let mut state = self.state.lock();
        if key >= &state.low[..] && key <= &state.high[..] {
            if state.written.len() < WATCHED_MAX {
                state.written.push(key.to_vec());
            } else {
                state.overflown = true;
            }
        }
    }
}

impl Watched {
    /// What is left of a run between the keys that were written into it, as stored keys: from, and to exclusive.
    fn pieces(&self, run: &Run) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.overflown {
            return Vec::new();
        }
        let mut pieces = Vec::new();
        let mut from = run.low.clone();
        for key in self.written.iter().filter(|key| **key >= run.low && **key <= run.high) {
            if from < *key {
                pieces.push((from, key.clone()));
            }
            from = behind(key);
        }
        let end = behind(&run.high);
        if from < end {
            pieces.push((from, end));
        }
        pieces
    }
}

/// The first possible stored key behind all versions of a key.
fn behind(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + key::TIME_BYTES + 1);
    key::write_stored(&mut stored, key, Timestamp::MIN);
    stored.push(0);
    stored
}

/// Rows from `low` to `high`, all dead.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    low: Vec<u8>,
    high: Vec<u8>,
    rows: u64,
    /// All versions, as stored keys, as long as the run is short.
    stored: Vec<Vec<u8>>,
    /// Not short after all: a row of it has very many versions.
    has_large_row: bool,
}

impl Run {
    fn is_long(&self) -> bool {
        self.rows >= SPAN_ROWS_MIN || self.has_large_row
    }
}

/// What a walk has found.
#[derive(Default)]
struct Found {
    long: Vec<Run>,
    /// Versions of short runs, in batches that do not divide a row.
    scattered: Vec<Vec<Vec<u8>>>,
    scattered_rows: u64,
    walked: u64,
    /// Where to go on.
    resume: Option<Vec<u8>>,
}

impl Found {
    fn end_run(&mut self, run: Option<Run>) {
        let Some(run) = run else { return };
        if run.is_long() {
            self.long.push(run);
            return;
        }
        self.scattered_rows += run.rows;
        match self.scattered.last_mut() {
            Some(batch) if batch.len() < KEYS_PER_BATCH => batch.extend(run.stored),
            _ => self.scattered.push(run.stored),
        }
    }
}

/// What came of a deletion.
pub(crate) struct Deleted {
    pub(crate) rows: u64,
    /// Where the budget ended.
    pub(crate) rest: Option<Stretch>,
}

/// What came of one piece of it.
struct Piece {
    rows: u64,
    walked: u64,
    /// Where to go on.
    resume: Option<Vec<u8>>,
}

/// A row under the walk.
struct Row {
    key: Vec<u8>,
    /// Time of the newest version, [`Timestamp::MIN`] if there is none.
    newest: Timestamp,
    /// The newest version is a tombstone, and nobody is writing the row.
    newest_is_tombstone: bool,
    oldest: Timestamp,
    /// Its versions if it may be dead, unless they are very many.
    stored: Vec<Vec<u8>>,
    is_large: bool,
}

impl Row {
    fn is_dead(&self, view: &View, horizon: Timestamp) -> bool {
        self.newest_is_tombstone
            && self.newest <= horizon
            && !(self.oldest < self.newest && view.pins.pinned_between(self.oldest, self.newest))
    }
}

impl Engine {
    /// Deletes the dead rows of the stretch (scattered ones only where they are many, unless `all`), as far as `budget` allows; the number of versions walked over is taken
    /// from it.
    pub(crate) fn delete_dead_rows(
        &self,
        stretch: Stretch,
        all: bool,
        budget: &mut u64,
        section: Section<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Deleted> {
        let mut deleted = Deleted { rows: 0, rest: Some(stretch) };
        while let Some(stretch) = &deleted.rest
            && *budget > 0
            && !stop()
        {
            let piece = self.delete_dead_rows_of_piece(stretch, all, section)?;
            *budget = budget.saturating_sub(piece.walked);
            deleted.rows += piece.rows;
            deleted.rest = piece.resume.map(|low| Stretch { low, ..stretch.clone() });
        }
        Ok(deleted)
    }

    fn delete_dead_rows_of_piece(&self, stretch: &Stretch, all: bool, section: Section<'_>) -> Result<Piece> {
        let watch = &self.gc.watch;
        section(&mut || watch.set(stretch));
        let walked = self.walk_for_dead_rows(stretch);
        let found = match walked {
            Ok(found) => found,
            Err(error) => {
                watch.lift();
                return Err(error);
            }
        };
        let mut piece = Piece { rows: 0, walked: found.walked, resume: found.resume };
        let mut written = Ok(());
        if found.long.is_empty() {
            watch.lift();
        } else {
            section(&mut || {
                let mut watched = watch.lift();
                watched.written.sort_unstable();
                let mut batch = WriteBatch::default();
                for run in &found.long {
                    let pieces = watched.pieces(run);
                    for (from, to) in &pieces {
                        batch.delete_range(&from[..], &to[..]);
                    }
                    if !pieces.is_empty() {
                        piece.rows += run.rows;
                    }
                }
                if !batch.is_empty() {
                    written = self.db.write_opt(batch, &self.write_options);
                }
            });
        }
        written?;
        if all || found.scattered_rows * DEAD_PART * 2 >= found.walked {
            for keys in &found.scattered {
                let mut batch = WriteBatch::default();
                keys.iter().for_each(|key| batch.delete(key));
                self.db.write_opt(batch, &self.write_options)?;
            }
            piece.rows += found.scattered_rows;
        }
        self.gc.totals.dead_rows_deleted.fetch_add(piece.rows, Ordering::Relaxed);
        Ok(piece)
    }

    fn walk_for_dead_rows(&self, stretch: &Stretch) -> Result<Found> {
        let view = self.gc.view();
        let horizon = view.horizons.of(stretch.storage());
        let mut iterator = self.walking_iterator();
        iterator.seek(&stretch.low);
        let mut entries = self.entry_reader();
        let mut result = Found::default();
        let mut run = None;
        let mut row: Option<Row> = None;
        while let Some((stored, stored_value)) = iterator.item() {
            let (found, time) = key::split_stored(stored)?;
            if found > &stretch.high[..] {
                break;
            }
            let entry = entries.read(time, stored_value)?;
            if row.as_ref().is_none_or(|row| row.key != found) {
                end_row(row.take(), &view, horizon, &mut run, &mut result);
                if result.walked >= WALK_MAX {
                    result.resume = Some(found.to_vec());
                    break;
                }
            }
            let row = row.get_or_insert_with(|| Row {
                key: found.to_vec(),
                newest: Timestamp::MIN,
                newest_is_tombstone: true,
                oldest: Timestamp::MIN,
                stored: Vec::new(),
                is_large: false,
            });
            match entry {
                Entry::Version(time, payload) => {
                    if row.newest == Timestamp::MIN {
                        row.newest = time;
                        row.newest_is_tombstone &= payload.is_none();
                    }
                    row.oldest = time;
                }
                Entry::Running | Entry::Own(_) => row.newest_is_tombstone = false,
                Entry::Nothing => {}
            }
            row.is_large |= row.stored.len() >= KEYS_PER_BATCH;
            if row.newest_is_tombstone && !row.is_large {
                row.stored.push(stored.to_vec());
            }
            result.walked += 1;
            iterator.next();
        }
        iterator.status()?;
        end_row(row, &view, horizon, &mut run, &mut result);
        result.end_run(run);
        Ok(result)
    }

    /// An iterator over everything, for a walk that leaves the block cache to those who read.
    pub(crate) fn walking_iterator(&self) -> DBRawIterator<'_> {
        let mut options = rocksdb::ReadOptions::default();
        options.set_total_order_seek(true);
        options.fill_cache(false);
        options.set_background_purge_on_iterator_cleanup(true);
        self.db.raw_iterator_opt(options)
    }
}

fn end_row(row: Option<Row>, view: &View, horizon: Timestamp, run: &mut Option<Run>, found: &mut Found) {
    let Some(row) = row else { return };
    if !row.is_dead(view, horizon) {
        found.end_run(run.take());
        return;
    }
    let run = run.get_or_insert_with(|| Run {
        low: row.key.clone(),
        high: Vec::new(),
        rows: 0,
        stored: Vec::new(),
        has_large_row: false,
    });
    run.high = row.key;
    run.rows += 1;
    run.has_large_row |= row.is_large;
    if run.is_long() {
        run.stored = Vec::new();
    } else {
        run.stored.extend(row.stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_deleted_around_what_was_written_into_it() {
        let run = Run {
            low: b"\0\0\0\x01b".to_vec(),
            high: b"\0\0\0\x01y".to_vec(),
            rows: 9,
            stored: Vec::new(),
            has_large_row: false,
        };
        let key = |letter: u8| [0, 0, 0, 1, letter].to_vec();
        let end = behind(&run.high);
        let pieces = |letters: &[u8]| {
            Watched { written: letters.iter().map(|letter| key(*letter)).collect(), ..Watched::default() }
                .pieces(&run)
        };
        assert_eq!(pieces(b""), [(run.low.clone(), end.clone())]);
        assert_eq!(pieces(b"a"), [(run.low.clone(), end.clone())]);
        assert_eq!(pieces(b"z"), [(run.low.clone(), end.clone())]);
        let split = [(run.low.clone(), key(b'k')), (behind(&key(b'k')), end.clone())];
        assert_eq!(pieces(b"k"), split);
        assert_eq!(pieces(b"kk"), split);
        assert_eq!(pieces(b"b"), [(behind(&key(b'b')), end)]);
        assert_eq!(pieces(b"y"), [(run.low.clone(), key(b'y'))]);
        let overflown = Watched { overflown: true, ..Watched::default() };
        assert_eq!(overflown.pieces(&run), []);
    }
}
