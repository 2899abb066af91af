//! Counting the rows of a range: without making them, and, where they are many, on several threads.
//!
//! A long rest of the range is divided into parts by interpolation between its first and its last key. The parts may be very
//! unequal, so there are more of them than threads, and each thread takes the next one when it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use cairn_storage::{Cursor, Engine, Timestamp};

use crate::cursor::MergeCursor;
use crate::transaction::Core;
use crate::{Error, KeyRange, Result};

/// Rows between two questions whether to go on.
const ROWS_PER_STEP: u64 = 4096;
/// Fewer rows than these are counted before more threads pay.
const SERIAL_ROWS: u64 = 16 * ROWS_PER_STEP;
const PARTS: usize = 64;
/// PostgreSQL's `max_parallel_workers_per_gather`, and the session's own thread.
const THREADS_MAX: usize = 3;

/// Counts what the cursor has still to show. `go_on` as for [`crate::Transaction::count`].
pub(crate) fn count(
    core: &Arc<Core>,
    mut cursor: MergeCursor,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<u64> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let mut rows = 0;
    loop {
        let step = cursor.count(ROWS_PER_STEP)?;
        rows += step;
        if step < ROWS_PER_STEP || !go_on() {
            return Ok(rows);
        }
        if rows >= SERIAL_ROWS
            && threads > 1
            && let Some((rest, time)) = cursor.committed_rest()
        {
            drop(cursor);
            return Ok(rows + count_in_parts(core, &rest, time, threads, go_on)?);
        }
    }
}

/// Parts that several threads count.
struct Parts<'a> {
    core: &'a Core,
    borders: Vec<Vec<u8>>,
    time: Timestamp,
    next: AtomicUsize,
    rows: AtomicU64,
    stop: AtomicBool,
}

fn count_in_parts(
    core: &Arc<Core>,
    rest: &KeyRange,
    time: Timestamp,
    threads: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<u64> {
    let engine = &core.database.pipeline.engine;
    let mut borders = engine.divide(&rest.low, &rest.high, PARTS)?;
    borders.insert(0, rest.low.clone());
    borders.push(rest.high.clone());
    let parts = Parts {
        core,
        borders,
        time,
        next: AtomicUsize::new(0),
        rows: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .filter_map(|_| {
                // Without one it takes longer.
                let helper = std::thread::Builder::new().name("cairn-count".to_owned());
                helper.spawn_scoped(scope, || parts.count(engine, &mut || true)).ok()
            })
            .collect();
        let mut counted = parts.count(engine, go_on);
        for helper in helpers {
            let of_helper = helper.join().unwrap_or(Err(Error::Misuse("a counting thread has panicked")));
            counted = counted.and(of_helper);
        }
        counted
    })?;
    Ok(parts.rows.into_inner())
}

impl Parts<'_> {
    /// The work of one thread.
    fn count(&self, engine: &Arc<Engine>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let counted = self.count_until_stopped(engine, go_on);
        if counted.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        counted
    }

    fn count_until_stopped(&self, engine: &Arc<Engine>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let direction = cairn_storage::Direction::Forward;
        let mut cursor: Option<Cursor> = None;
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            let Some([low, high]) = self.borders.get(part..part + 2) else { break };
            let cursor = match &mut cursor {
                Some(cursor) => {
                    cursor.reset(low, high, self.time);
                    cursor
                }
                None => cursor.insert(Cursor::open(engine.clone(), low, high, direction, self.time)?),
            };
            let mut rows = 0;
            while cursor.advance()? {
                rows += 1;
                if rows % ROWS_PER_STEP == 0 && (self.stop.load(Ordering::Relaxed) || !go_on()) {
                    self.stop.store(true, Ordering::Relaxed);
                    break;
                }
            }
            self.rows.fetch_add(rows, Ordering::Relaxed);
            self.core.add_stats(&cursor.take_stats());
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }
}
