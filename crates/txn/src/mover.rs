//! The thread that clears away what large transactions have left in the store: it makes versions of the records of those that were
//! committed, and deletes those of the others ([`cairn_storage::spills`]). It sleeps while there is nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::pipeline::Pipeline;

/// After an error: until the next try.
const RETRY: Duration = Duration::from_secs(1);

/// Stops the thread when it is dropped, and waits for it.
pub(crate) struct Mover {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    /// Tests hold it up.
    paused: AtomicBool,
    work: Mutex<bool>,
    wake: Condvar,
}

impl Mover {
    pub(crate) fn start(pipeline: Arc<Pipeline>) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        // What recovery has found.
        *shared.work.lock() = true;
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("cairn-mover".to_owned())
            .spawn(move || of_thread.run(&pipeline))?;
        Ok(Mover { shared, thread: Some(thread) })
    }

    /// A transaction that has spilled has ended.
    pub(crate) fn wake(&self) {
        *self.shared.work.lock() = true;
        self.shared.wake.notify_one();
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.shared.paused.store(paused, Ordering::Release);
        self.wake();
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the mover ended by a panic");
        }
    }
}

impl Shared {
    fn run(&self, pipeline: &Pipeline) {
        loop {
            {
                let mut work = self.work.lock();
                while !std::mem::take(&mut *work) {
                    self.wake.wait(&mut work);
                }
            }
            if self.stops() {
                return;
            }
            while let Err(error) = self.clear_away(pipeline) {
                let path = pipeline.engine.path().display();
                tracing::warn!(%error, %path, "moving the records of a large transaction failed");
                let mut work = self.work.lock();
                self.wake.wait_for(&mut work, RETRY);
                drop(work);
                if self.stops() {
                    return;
                }
            }
        }
    }

    fn stops(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn clear_away(&self, pipeline: &Pipeline) -> crate::Result<()> {
        while let Some(number) = pipeline.engine.spills().next_unfinished() {
            let mut behind = Vec::new();
            loop {
                if self.stops() || self.paused.load(Ordering::Acquire) {
                    return Ok(());
                }
                if !pipeline.checked(pipeline.engine.settle_spill(number, &mut behind))? {
                    break;
                }
            }
        }
        Ok(())
    }
}
