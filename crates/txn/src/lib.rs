//! Transactions: isolation, row locks, deadlocks, commit. SQL sees only [`api`].
pub mod api;
mod blocking;
mod error;

pub use api::*;
pub use blocking::{WaitWrapper, set_wait_wrapper, while_waiting};
pub use error::{CancelReason, Conflict, Error};

#[derive(Debug)]
pub struct Interrupt;
