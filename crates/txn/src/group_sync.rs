//! One fsync for everybody who waits.
//!
//! The log is written in commit order, so an fsync that begins when everything up to T is written makes
//! everything up to T durable. Whoever needs a time durable comes here:
//!
//! - Nobody is syncing: it does the fsync itself. A single client pays for no change of threads.
//! - Somebody is: it joins the next batch and sleeps. When the running fsync ends, the sync thread takes over,
//!   syncs for that batch, wakes all of it with one system call, and goes on while another batch has formed.
//!
//! Who only has something to do at that moment, and no reason to sleep until then, leaves it as an [`Answer`]: the thread
//! that made it durable gives it. A change of threads costs more than everything else in a small commit.
//!
//! Invariants: at most one fsync runs at a time (`syncing`); the batch is taken before the time that the fsync
//! will cover is read, so each of its members is covered; `durable` only grows.
//! A failed fsync ends the process: the kernel may have dropped the pages, and a second try would lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_storage::{Clock, Engine, Timestamp};
use parking_lot::{Condvar, Mutex};

use crate::blocking::while_waiting;

/// An asynchronous commit is durable after at most so long, and the fsync's own time.
const ASYNC_DELAY: Duration = Duration::from_millis(200);
/// How often idle iterators are let go.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What is to be done as soon as something is durable.
pub trait Answer: Send + Sync {
    /// Runs on a thread for which others wait: must not block, and not take long.
    fn give(&self);
}

/// Those who sleep until the same fsync ends; 1 when it has.
#[derive(Default)]
struct Batch {
    done: AtomicU32,
}

struct State {
    /// Somebody runs an fsync, or the sync thread was asked to.
    syncing: bool,
    /// The sync thread is to take over.
    handed_over: bool,
    /// Who arrived since the last fsync began: those who sleep, how many they are, and answers to be given.
    next: Arc<Batch>,
    sleepers: u32,
    answers: Vec<Arc<dyn Answer>>,
    /// An asynchronous commit waits for its fsync since then.
    async_since: Option<Instant>,
    stopping: bool,
}

impl State {
    /// Whether somebody waits for an fsync that has not begun.
    fn has_next(&self) -> bool {
        self.sleepers > 0 || !self.answers.is_empty()
    }

    /// Whoever calls it runs the next fsync, which covers the asynchronous commits so far too.
    fn claim(&mut self) {
        self.syncing = true;
        self.async_since = None;
    }
}

pub(crate) struct GroupSync {
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    /// Everything at or below is in the log and the memtable.
    visible: Arc<AtomicU64>,
    /// Everything at or below has been through an fsync.
    durable: AtomicU64,
    /// Whether `async_since` is set: spares most asynchronous commits the lock.
    async_pending: AtomicBool,
    state: Mutex<State>,
    wake_sync_thread: Condvar,
    /// Number of fsyncs so far.
    fsyncs: AtomicU64,
}

impl GroupSync {
    /// `durable`: what is durable already.
    pub(crate) fn new(
        engine: Arc<Engine>,
        clock: Arc<Clock>,
        visible: Arc<AtomicU64>,
        durable: Timestamp,
    ) -> Self {
        GroupSync {
            engine,
            clock,
            visible,
            durable: AtomicU64::new(durable.0),
            async_pending: AtomicBool::new(false),
            state: Mutex::new(State {
                syncing: false,
                handed_over: false,
                next: Arc::default(),
                sleepers: 0,
                answers: Vec::new(),
                async_since: None,
                stopping: false,
            }),
            wake_sync_thread: Condvar::new(),
            fsyncs: AtomicU64::new(0),
        }
    }

    pub(crate) fn durable(&self) -> Timestamp {
        Timestamp(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn fsyncs(&self) -> u64 {
        self.fsyncs.load(Ordering::Relaxed)
    }

    /// Returns when everything up to `time`, which is visible already, is durable.
    pub(crate) fn wait(&self, time: Timestamp) {
        if self.durable() < time {
            while_waiting(|| self.wait_slowly(time));
        }
    }

    fn wait_slowly(&self, time: Timestamp) {
        let batch = {
            let mut state = self.state.lock();
            if self.durable() >= time {
                return;
            }
            if state.syncing {
                state.sleepers += 1;
                Some(state.next.clone())
            } else {
                state.claim();
                None
            }
        };
        match batch {
            Some(batch) => {
                while batch.done.load(Ordering::Acquire) == 0 {
                    atomic_wait::wait(&batch.done, 0);
                }
            }
            None => self.sync_as_first(),
        }
        debug_assert!(self.durable() >= time);
    }

    /// Gives `answer` when everything up to `time`, which is visible already, is durable: before this returns if that is so
    /// or nobody is syncing (then this thread does), else on the sync thread.
    pub(crate) fn answer(&self, time: Timestamp, answer: Arc<dyn Answer>) {
        if self.durable() < time {
            let mut state = self.state.lock();
            if self.durable() < time {
                if state.syncing {
                    state.answers.push(answer);
                    return;
                }
                state.claim();
                drop(state);
                while_waiting(|| self.sync_as_first());
            }
        }
        debug_assert!(self.durable() >= time);
        answer.give();
    }

    /// The fsync of somebody who found nobody syncing; those who came meanwhile are left to the sync thread.
    fn sync_as_first(&self) {
        self.sync();
        let mut state = self.state.lock();
        if state.has_next() {
            state.handed_over = true;
            self.wake_sync_thread.notify_one();
        } else {
            state.syncing = false;
            if state.async_since.is_some_and(|since| since.elapsed() >= ASYNC_DELAY) {
                // The sync thread has found it due, and somebody syncing.
                self.wake_sync_thread.notify_one();
            }
        }
    }

    /// An asynchronous commit happened: its fsync follows.
    pub(crate) fn sync_soon(&self) {
        if self.async_pending.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.state.lock();
        state.async_since = Some(Instant::now());
        self.wake_sync_thread.notify_one();
    }

    /// One fsync, by whoever owns `syncing`.
    fn sync(&self) {
        // Acquires what those who found it set had made visible before.
        self.async_pending.swap(false, Ordering::AcqRel);
        let covered = self.visible.load(Ordering::Acquire);
        if let Err(error) = self.engine.sync() {
            tracing::error!(%error, path = %self.engine.path().display(), "fsync failed; the server ends");
            eprintln!("FATAL: fsync of {} failed: {error}", self.engine.path().display());
            std::process::abort();
        }
        self.fsyncs.fetch_add(1, Ordering::Relaxed);
        self.durable.fetch_max(covered, Ordering::AcqRel);
        self.engine.note_durable(Timestamp(covered));
    }

    /// The body of the sync thread; returns after [`GroupSync::stop`].
    pub(crate) fn run(&self) {
        let mut next_sweep = Instant::now() + SWEEP_INTERVAL;
        let mut answers = Vec::new();
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            if now >= next_sweep {
                next_sweep = now + SWEEP_INTERVAL;
                drop(state);
                self.clock.adjust();
                let present = self.clock.now();
                self.engine.sweep(present);
                // A round of the collector may take longer than a clock may be ahead without having jumped.
                self.engine.look_at_clock(present);
                state = self.state.lock();
            }
            let async_due = state.async_since.map(|since| since + ASYNC_DELAY);
            let takes_over = state.handed_over || (!state.syncing && async_due.is_some_and(|due| now >= due));
            if !takes_over {
                if state.stopping {
                    return;
                }
                // What is due already, while somebody syncs, is waited for until that ends.
                let wake_at =
                    async_due.filter(|due| now < *due).map_or(next_sweep, |due| due.min(next_sweep));
                self.wake_sync_thread.wait_until(&mut state, wake_at);
                continue;
            }
            state.handed_over = false;
            state.claim();
            let sleepers = std::mem::take(&mut state.sleepers);
            std::mem::swap(&mut answers, &mut state.answers);
            let batch = if sleepers > 0 { std::mem::take(&mut state.next) } else { Arc::clone(&state.next) };
            drop(state);
            self.sync();
            if sleepers > 0 {
                batch.done.store(1, Ordering::Release);
                atomic_wait::wake_all(&batch.done);
            }
            for answer in answers.drain(..) {
                answer.give();
            }
            state = self.state.lock();
            if state.has_next() {
                state.handed_over = true;
            } else {
                state.syncing = false;
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake_sync_thread.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use cairn_storage::{EngineOptions, Resources, SyncPhase};

    use super::*;

    /// How many fsyncs have begun, and how many may end.
    #[derive(Default)]
    struct Gate {
        counts: Mutex<(u64, u64)>,
        changed: Condvar,
    }

    impl Gate {
        fn begin(&self) {
            let mut counts = self.counts.lock();
            counts.0 += 1;
            let number = counts.0;
            self.changed.notify_all();
            self.changed.wait_while(&mut counts, |counts| counts.1 < number);
        }

        fn allow(&self, number: u64) {
            self.counts.lock().1 = number;
            self.changed.notify_all();
        }

        /// Whether so many have begun, or did within a while.
        fn has_begun(&self, number: u64) -> bool {
            let mut counts = self.counts.lock();
            let patience = Duration::from_secs(5);
            !self.changed.wait_while_for(&mut counts, |counts| counts.0 < number, patience).timed_out()
        }
    }

    fn group_sync(directory: &std::path::Path) -> (GroupSync, Arc<AtomicU64>) {
        let clock = Arc::new(Clock::system());
        let resources = Resources::new(8 << 20, 4 << 20);
        let engine = Engine::open(directory, &EngineOptions::default(), &resources, &clock).unwrap();
        let visible = Arc::new(AtomicU64::new(1));
        (GroupSync::new(Arc::new(engine), clock, visible.clone(), Timestamp(1)), visible)
    }

    #[test]
    fn a_due_asynchronous_commit_waits_for_the_running_fsync_and_no_longer() {
        let directory = tempfile::tempdir().unwrap();
        let (sync, visible) = group_sync(directory.path());
        let gate = Arc::new(Gate::default());
        let gated = gate.clone();
        sync.engine.observe_syncs(Box::new(move |phase| {
            if phase == SyncPhase::Begins {
                gated.begin();
            }
        }));
        let begun = Instant::now();
        let waited = std::thread::scope(|scope| {
            let sync_thread = scope.spawn(|| sync.run());
            visible.store(10, Ordering::Release);
            scope.spawn(|| sync.wait(Timestamp(10)));
            assert!(gate.has_begun(1));
            visible.store(20, Ordering::Release);
            sync.sync_soon();
            std::thread::sleep(ASYNC_DELAY + ASYNC_DELAY / 4);
            gate.allow(1);
            gate.has_begun(2);
            let waited = begun.elapsed();
            gate.allow(u64::MAX);
            sync.stop();
            sync_thread.join().unwrap();
            waited
        });
        assert!(waited < SWEEP_INTERVAL, "{waited:?}");
        assert_eq!(sync.durable(), Timestamp(20));
    }

    #[test]
    fn an_fsync_for_somebody_else_covers_asynchronous_commits() {
        let directory = tempfile::tempdir().unwrap();
        let (sync, visible) = group_sync(directory.path());
        std::thread::scope(|scope| {
            let sync_thread = scope.spawn(|| sync.run());
            visible.store(10, Ordering::Release);
            sync.sync_soon();
            sync.wait(Timestamp(10));
            let fsyncs = sync.fsyncs();
            std::thread::sleep(ASYNC_DELAY + ASYNC_DELAY / 2);
            let more = sync.fsyncs() - fsyncs;
            sync.stop();
            sync_thread.join().unwrap();
            assert_eq!(more, 0);
        });
    }
}
