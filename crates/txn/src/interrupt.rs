//! How a session is told to stop what it does: cancel requests, timeouts, the end of the server.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::{CancelReason, Error, Result};

/// Raised by others, looked at by the session between rows and while it waits.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicU8,
}

impl Interrupt {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn raise(&self, reason: CancelReason) {
        let code = match reason {
            CancelReason::UserRequest => 1,
            CancelReason::StatementTimeout => 2,
            CancelReason::IdleInTransactionTimeout => 3,
            CancelReason::Terminate => 4,
        };
        self.raised.fetch_max(code, Ordering::AcqRel);
    }

    /// A new statement begins; a termination stays raised.
    pub fn clear(&self) {
        let _ = self.raised.fetch_update(Ordering::AcqRel, Ordering::Acquire, |code| (code < 3).then_some(0));
    }

    pub fn raised(&self) -> Option<CancelReason> {
        match self.raised.load(Ordering::Acquire) {
            1 => Some(CancelReason::UserRequest),
            2 => Some(CancelReason::StatementTimeout),
            3 => Some(CancelReason::IdleInTransactionTimeout),
            4 => Some(CancelReason::Terminate),
            _ => None,
        }
    }

    /// [`Error::Cancelled`] if it was raised.
    pub fn check(&self) -> Result<()> {
        self.raised().map_or(Ok(()), |reason| Err(Error::Cancelled(reason)))
    }
}
