//! Transactions: isolation, row locks, deadlocks, commit. SQL sees only [`api`].
//!
//! Read in this order: [`api`] (what the floor above may do), `transaction` (one transaction), `write_set`,
//! `bulk`, `births`, `spill` and `cursor` (what it reads and writes), `spilled_locks`, `pipeline` and `group_sync` (how it becomes
//! visible and durable), `settler` (what is done behind a large one), [`locks`], `sequences`, `database`, [`Cluster`] (a data
//! directory), `system_store` (its list of databases).

mod activity;
pub mod api;
mod ascending;
mod births;
mod blocking;
mod bulk;
mod cluster;
mod collector;
mod count;
mod cursor;
mod database;
mod error;
mod group_sync;
mod ids;
mod interrupt;
pub mod locks;
mod pipeline;
mod recent;
mod sequences;
mod serializable;
mod settler;
mod snapshots;
mod spill;
mod spilled_locks;
mod system_store;
mod totals;
mod transaction;
mod write_set;

pub use activity::{Activity, Event};
pub use api::*;
pub use blocking::{WaitWrapper, set_wait_wrapper, while_waiting};
pub use cairn_storage::{
    Clock, Collected, DEFAULT_RETENTION, EngineOptions, Error as StorageError, PinInfo, PinKind, Recovery,
    Resources, Retention, SyncPhase, SystemTime, TimeSource,
};
pub use cluster::{Cluster, DatabaseInfo, Origin};
pub use database::Database;
pub use error::{CancelReason, Conflict, Error};
pub use ids::FIRST_NORMAL_ID;
pub use interrupt::{Interrupt, Sleeping};
pub use spill::DEFAULT_TRANSACTION_MEMORY;
