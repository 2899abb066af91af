//! The thread that collects the garbage of one database.
//!
//! About once a second it does a round of [`cairn_storage::Engine::collect`]. What it may collect is decided there; here are
//! the two things that only this floor knows: what is durable (the horizon never passes it), and the commit section. Before its first
//! round it learns the dead ranges again that were known when the database was last open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::pipeline::Pipeline;
use crate::{Result, StorageId};

const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// A crash forgets dead ranges learned since then; they are learned again by those who meet them.
const ROUNDS_PER_HINTS: u64 = 60;

/// Stops the thread when it is dropped, and waits for it.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Collector {
    pub(crate) fn start(pipeline: Arc<Pipeline>) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("cairn-gc".to_owned())
            .spawn(move || of_thread.run(&pipeline))?;
        Ok(Collector { shared, thread: Some(thread) })
    }
}

impl Collector {
    /// Tells the thread to end, without waiting for it.
    pub(crate) fn stop(&self) {
        let _sleep = self.shared.sleep.lock();
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake.notify_one();
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the collector ended by a panic");
        }
    }
}

impl Shared {
    fn run(&self, pipeline: &Pipeline) {
        let stopping = || self.stopping.load(Ordering::Acquire);
        if let Err(error) = pipeline.engine.learn_dead_ranges(pipeline.visible(), &stopping) {
            tracing::warn!(%error, path = %pipeline.engine.path().display(), "learning dead ranges again failed");
        }
        let mut rounds = 0u64;
        loop {
            {
                let mut sleep = self.sleep.lock();
                if stopping() {
                    return;
                }
                self.wake.wait_for(&mut sleep, ROUND_INTERVAL);
                if stopping() {
                    return;
                }
            }
            rounds += 1;
            if rounds.is_multiple_of(ROUNDS_PER_HINTS)
                && let Err(error) = checked(pipeline, pipeline.engine.save_dead_range_hints())
            {
                tracing::warn!(%error, path = %pipeline.engine.path().display(), "noting dead ranges failed");
            }
            if let Err(error) = round(pipeline, &stopping) {
                tracing::warn!(%error, path = %pipeline.engine.path().display(), "collecting garbage failed");
            }
            // Not on the sync thread, which others wait for: it has fsyncs of its own.
            if let Err(error) = checked(pipeline, pipeline.engine.save_manifest()) {
                tracing::warn!(%error, path = %pipeline.engine.path().display(), "checking the MANIFEST failed");
            }
        }
    }
}

/// One round.
pub(crate) fn round(pipeline: &Pipeline, stop: &dyn Fn() -> bool) -> Result<()> {
    // What is durable first: the clock is at or above it.
    let settled = pipeline.sync.durable();
    let now = pipeline.clock.now();
    let collected = pipeline.engine.collect(now, settled, &|work| pipeline.in_section(work), stop);
    checked(pipeline, collected)
}

/// VACUUM of a storage.
pub(crate) fn vacuum(
    pipeline: &Pipeline,
    storage: StorageId,
    full: bool,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    let vacuumed = pipeline.engine.vacuum(storage, &|work| pipeline.in_section(work), stop, full);
    checked(pipeline, vacuumed)
}

/// The log is shared with the commits: what they could not go on after, neither can the collector.
fn checked(pipeline: &Pipeline, result: cairn_storage::Result<()>) -> Result<()> {
    pipeline.checked(result)
}
