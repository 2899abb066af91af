//! The commit pipeline of one database.
//!
//! ```text
//! commit section (one at a time)                          | outside
//!   tick -> write log + memtable -> before_visible        | release row locks -> fsync with others -> reply
//!        -> publish `visible`                             |
//! ```
//! Everybody's commits pass through the section, so what needs no order is kept out of it: memory is allocated before
//! ([`BatchMemory`]), statistics are counted afterwards ([`cairn_storage::Leftovers`]).
//!
//! Invariants:
//! - Commit times are assigned in the order in which commits are written to the log, so a crash leaves a prefix
//!   of the history and one fsync covers every time at or below the one visible when it begins.
//! - `visible`: every commit at or below it is in the memtable, and no commit at or below it is still to come. A
//!   snapshot is taken at `visible`, before its iterator is made.
//! - A row lock is released when the commit is visible, before it is durable. Whoever sees its effect carries its
//!   time along and does not reply before that time is durable ([`Pipeline::settled_at`]). A crash between the
//!   two takes both away, the later commit first.
//! - A panic inside the section ends the process: the log may have what memory has not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_storage::{Batch, BatchMemory, Clock, Engine, Timestamp};
use parking_lot::Mutex;

use crate::group_sync::GroupSync;
use crate::{Durability, Error, Result};

pub(crate) struct Pipeline {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<Clock>,
    section: Mutex<()>,
    visible: Arc<AtomicU64>,
    /// The newest commit that promised to be durable.
    last_sync_commit: AtomicU64,
    pub(crate) sync: GroupSync,
}

impl Pipeline {
    pub(crate) fn new(engine: Arc<Engine>, clock: Arc<Clock>) -> Self {
        // Whatever was recovered is visible. It is durable too: opening the store replayed and rewrote its log.
        let recovered = engine.recovered_up_to().max(Timestamp(1));
        let visible = Arc::new(AtomicU64::new(recovered.0));
        let sync = GroupSync::new(engine.clone(), clock.clone(), visible.clone(), recovered);
        Pipeline {
            engine,
            clock,
            section: Mutex::new(()),
            visible,
            last_sync_commit: AtomicU64::new(recovered.0),
            sync,
        }
    }

    /// The time for a snapshot that is taken now.
    #[inline]
    pub(crate) fn visible(&self) -> Timestamp {
        Timestamp(self.visible.load(Ordering::Acquire))
    }

    /// Runs `choose` inside the commit section: all commits up to now are visible, none is half done.
    pub(crate) fn between_commits<T>(&self, choose: impl FnOnce() -> T) -> T {
        let _section = self.section.lock();
        choose()
    }

    /// Runs `validate`, which may refuse, then `fill` with the commit time, writes what it filled in, and publishes it. Not durable yet.
    /// `bytes`: about so much is going to be filled in.
    ///
    /// An error means that nothing happened. An input/output error other than a full disk leaves open whether
    /// something did, so it ends the process.
    pub(crate) fn commit(
        &self,
        durability: Durability,
        bytes: usize,
        validate: impl FnOnce() -> Result<()>,
        fill: impl FnOnce(&mut Batch<'_>, Timestamp),
        before_visible: Option<&dyn Fn()>,
    ) -> Result<Timestamp> {
        let memory = BatchMemory::for_bytes(bytes);
        let section = self.section.lock();
        validate()?;
        let ends_process = EndProcessOnPanic;
        let time = self.clock.tick();
        let mut batch = self.engine.batch_in(memory);
        fill(&mut batch, time);
        let leftovers = match self.checked(self.engine.write_at_and_leave(batch, time)) {
            Ok(leftovers) => leftovers,
            Err(error) => {
                std::mem::forget(ends_process);
                return Err(error);
            }
        };
        if durability != Durability::Async {
            self.last_sync_commit.store(time.0, Ordering::Release);
        }
        if let Some(before_visible) = before_visible {
            before_visible();
        }
        self.visible.store(time.0, Ordering::Release);
        std::mem::forget(ends_process);
        drop(section);
        drop(leftovers);
        if durability == Durability::Async {
            self.sync.sync_soon();
        }
        Ok(time)
    }

    /// Writes what `fill` fills in while no commit is under way, with the time of the write. Errors as for [`Pipeline::commit`].
    pub(crate) fn write_between_commits(&self, fill: impl FnOnce(&mut Batch<'_>, Timestamp)) -> Result<()> {
        let section = self.section.lock();
        let ends_process = EndProcessOnPanic;
        let time = self.clock.tick();
        let mut batch = self.engine.batch();
        fill(&mut batch, time);
        let written = self.engine.write_at_and_leave(batch, time);
        std::mem::forget(ends_process);
        drop(section);
        self.checked(written).map(drop)
    }

    /// Ends the process if the log cannot be written: nobody knows what it has.
    pub(crate) fn checked<T>(&self, written: cairn_storage::Result<T>) -> Result<T> {
        if let Err(error @ cairn_storage::Error::Io(_)) = &written {
            tracing::error!(%error, "the log cannot be written; the server ends");
            eprintln!("FATAL: writing the log of {} failed: {error}", self.engine.path().display());
            std::process::abort();
        }
        written.map_err(Error::Storage)
    }

    /// Runs `work` while no commit is under way.
    pub(crate) fn in_section(&self, work: &mut dyn FnMut()) {
        let section = self.section.lock();
        let ends_process = EndProcessOnPanic;
        work();
        std::mem::forget(ends_process);
        drop(section);
    }

    /// Returns when a commit of this time is durable.
    pub(crate) fn wait_durable(&self, time: Timestamp) {
        self.sync.wait(time);
    }

    /// The time that must be durable before anybody may be told what was seen: every commit at or below `seen` is durable then,
    /// or was asynchronous. It is visible.
    pub(crate) fn settled_at(&self, seen: Timestamp) -> Timestamp {
        if seen > self.visible() {
            // Whoever reads the newest state meets commits that are in the memtable and not visible yet. What they promise is
            // known when they have left the section. (Or it is a row of a bulk load, whose time is nobody's commit.)
            drop(self.section.lock());
        }
        // If the newest promise lies beyond what was seen, an older one may still be open: then it is `seen` itself.
        seen.min(Timestamp(self.last_sync_commit.load(Ordering::Acquire)))
    }
}

struct EndProcessOnPanic;

impl Drop for EndProcessOnPanic {
    fn drop(&mut self) {
        tracing::error!("panic inside the commit section; the server ends");
        eprintln!("FATAL: panic inside the commit section");
        std::process::abort();
    }
}
