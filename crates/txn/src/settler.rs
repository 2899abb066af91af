//! The thread that works for large transactions when they have ended ([`cairn_storage::spills`]).
//!
//! - Right after the commit of a large deletion it learns the dead ranges, so that the first scans need not.
//! - Much later it settles the records that no compaction has met, one part in five of a core.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairn_storage::Timestamp;
use cairn_storage::spills::SettleStep;
use parking_lot::{Condvar, Mutex};

use crate::pipeline::Pipeline;

/// Compactions have until then.
const SETTLE_AFTER: Duration = Duration::from_secs(120);
/// How often it looks whether there is anything to settle.
const LOOK: Duration = Duration::from_secs(10);
/// The pause behind a step of settling, in times of that step.
const PAUSE: u32 = 4;
/// The pause while the collector is at work.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Stops the thread when it is dropped, and waits for it.
pub(crate) struct Settler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Some of the keys that a large transaction has deleted, and its commit time.
type Deleted = (Vec<Vec<u8>>, Timestamp);

#[derive(Default)]
struct Shared {
    stopping: Arc<AtomicBool>,
    deleted: Mutex<VecDeque<Deleted>>,
    wake: Condvar,
}

impl Settler {
    pub(crate) fn start(pipeline: Arc<Pipeline>) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("cairn-settler".to_owned())
            .spawn(move || of_thread.run(&pipeline))?;
        Ok(Settler { shared, thread: Some(thread) })
    }

    /// A large transaction has deleted these keys, among others.
    pub(crate) fn learn(&self, keys: Vec<Vec<u8>>, time: Timestamp) {
        self.shared.deleted.lock().push_back((keys, time));
        self.shared.wake.notify_one();
    }
}

impl Settler {
    /// Tells the thread to end, without waiting for it.
    pub(crate) fn stop(&self) {
        let _deleted = self.shared.deleted.lock();
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake.notify_one();
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the settler ended by a panic");
        }
    }
}

impl Shared {
    fn run(&self, pipeline: &Pipeline) {
        let engine = &pipeline.engine;
        while let Some(deleted) = self.sleep(LOOK) {
            let result = match deleted {
                Some((keys, time)) => {
                    engine.learn_deleted(&keys, time, &self.stopping).map_err(crate::Error::from)
                }
                None if engine.spills().oldest_unsettled() >= Some(SETTLE_AFTER) => self.settle(pipeline),
                None => Ok(()),
            };
            if let Err(error) = result {
                tracing::warn!(%error, path = %engine.path().display(), "work behind a large transaction failed");
            }
        }
    }

    /// At most so long, less if there is something to learn. `None`: the thread is to end.
    fn sleep(&self, time: Duration) -> Option<Option<Deleted>> {
        let until = Instant::now() + time;
        let mut deleted = self.deleted.lock();
        loop {
            if self.stops() {
                return None;
            }
            if let Some(next) = deleted.pop_front() {
                return Some(Some(next));
            }
            if self.wake.wait_until(&mut deleted, until).timed_out() {
                return if self.stops() { None } else { Some(deleted.pop_front()) };
            }
        }
    }

    fn stops(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn settle(&self, pipeline: &Pipeline) -> crate::Result<()> {
        let Some(mut walk) = pipeline.engine.begin_settling() else { return Ok(()) };
        loop {
            let began = Instant::now();
            let pause = match pipeline.checked(pipeline.engine.settle_some(&mut walk))? {
                SettleStep::Finished => return Ok(()),
                SettleStep::Busy => BUSY_PAUSE,
                SettleStep::Done => began.elapsed() * PAUSE,
            };
            match self.sleep(pause) {
                None => return Ok(()),
                Some(Some((keys, time))) => pipeline.engine.learn_deleted(&keys, time, &self.stopping)?,
                Some(None) => {}
            }
        }
    }
}
