//! Transactions: isolation, row locks, deadlocks, commit. SQL sees only [`api`].
pub mod api;
pub use api::*;

#[derive(Debug, thiserror::Error)]
pub enum Error {}
#[derive(Debug)]
pub struct Interrupt;
