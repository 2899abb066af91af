//! How a session is told to stop what it does: cancel requests, timeouts, the end of the server.
//!
//! A thread that is about to sleep on behalf of a session (for a lock, in `pg_sleep`) registers itself with
//! [`Interrupt::sleeping`], looks at [`Interrupt::check`], and then parks; whoever raises the interrupt unparks it. The order
//! matters: registering before looking, raising before unparking, so that no raise falls in between.

use std::time::{Duration, Instant};

use crate::locks::sync::{AtomicU8, Mutex, Ordering, Thread, current_thread, park_timeout};
use crate::{CancelReason, Error, Result, while_waiting};

/// Raised by others, looked at by the session between rows and while it waits.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicU8,
    /// Threads that sleep for the session; one at most, except while a portal's thread hands over.
    sleepers: Mutex<Vec<Thread>>,
}

impl Interrupt {
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the session to stop and wakes it if it sleeps. Of several reasons the gravest counts.
    pub fn raise(&self, reason: CancelReason) {
        let code = match reason {
            CancelReason::UserRequest => 1,
            CancelReason::StatementTimeout => 2,
            CancelReason::IdleInTransactionTimeout => 3,
            CancelReason::ClientLost => 4,
            CancelReason::Terminate => 5,
        };
        self.raised.fetch_max(code, Ordering::SeqCst);
        for sleeper in self.sleepers.lock().iter() {
            sleeper.unpark();
        }
    }

    /// A new statement begins; a termination stays raised.
    pub fn clear(&self) {
        let _ = self.raised.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |code| (code < 3).then_some(0));
    }

    pub fn raised(&self) -> Option<CancelReason> {
        match self.raised.load(Ordering::SeqCst) {
            1 => Some(CancelReason::UserRequest),
            2 => Some(CancelReason::StatementTimeout),
            3 => Some(CancelReason::IdleInTransactionTimeout),
            4 => Some(CancelReason::ClientLost),
            5 => Some(CancelReason::Terminate),
            _ => None,
        }
    }

    /// [`Error::Cancelled`] if it was raised.
    pub fn check(&self) -> Result<()> {
        self.raised().map_or(Ok(()), |reason| Err(Error::Cancelled(reason)))
    }

    /// Has the current thread unparked by [`Interrupt::raise`] until the guard is dropped.
    pub fn sleeping(&self) -> Sleeping<'_> {
        let thread = current_thread();
        self.sleepers.lock().push(thread.clone());
        Sleeping { interrupt: self, thread }
    }

    /// Sleeps so long, or until the interrupt is raised ([`Error::Cancelled`]).
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        let _sleeping = self.sleeping();
        // A duration beyond what the clock can express is as good as for ever.
        let deadline = Instant::now().checked_add(duration);
        while_waiting(|| {
            loop {
                self.check()?;
                let left = match deadline {
                    Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                    None => Duration::MAX,
                };
                if left.is_zero() {
                    return Ok(());
                }
                park_timeout(left);
            }
        })
    }
}

/// A thread that sleeps for a session; see [`Interrupt::sleeping`].
#[derive(Debug)]
pub struct Sleeping<'a> {
    interrupt: &'a Interrupt,
    thread: Thread,
}

impl Drop for Sleeping<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.interrupt.sleepers.lock();
        if let Some(at) = sleepers.iter().position(|thread| thread.id() == self.thread.id()) {
            sleepers.swap_remove(at);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn raising_ends_a_sleep_at_once() {
        let interrupt = Arc::new(Interrupt::new());
        let sleeper = {
            let interrupt = interrupt.clone();
            std::thread::spawn(move || interrupt.sleep(Duration::from_secs(60)))
        };
        std::thread::sleep(Duration::from_millis(20));
        interrupt.raise(CancelReason::UserRequest);
        let ended = sleeper.join().unwrap();
        assert!(matches!(ended, Err(Error::Cancelled(CancelReason::UserRequest))));
        interrupt.clear();
        interrupt.check().unwrap();
        interrupt.sleep(Duration::from_millis(1)).unwrap();
    }

    #[test]
    fn a_termination_outlives_the_statement_and_hides_a_cancel() {
        let interrupt = Interrupt::new();
        interrupt.raise(CancelReason::Terminate);
        interrupt.raise(CancelReason::UserRequest);
        interrupt.clear();
        assert_eq!(interrupt.raised(), Some(CancelReason::Terminate));
    }
}
