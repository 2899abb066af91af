//! Versions on RocksDB: clock, keys, reads at a time, writes without and with fsync.
//!
//! Every row version carries its commit time in its key, so a read at time T is one seek to `(key, T)` and the
//! past stays readable. This crate knows key spaces ([`StorageId`]), keys, times and bytes; it knows neither
//! transactions (crate `txn`) nor SQL types. Read in this order:
//!
//! - [`timestamp`]: what a time is; [`clock`]: where times come from
//! - [`key`] and [`value`]: the stored bytes of a version
//! - [`meta`]: everything that has no versions (format number, counters, sequences, given-up key spaces)
//! - [`Engine`]: one directory: open and recovery, writing, point reads
//! - [`Cursor`]: visible rows of a range, in both directions; [`AscendingReader`]: the newest state of key after key
//! - [`pins`]: which past times somebody still reads; [`gc`]: what goes when nobody does
//! - [`spills`]: uncommitted writes that are too large for memory
//! - [`dead_ranges`]: where nothing is visible, so that cursors need not look
//! - [`options`]: what RocksDB is told, and why
//!
//! The rule a reader must not break: **one storage id, no key a prefix of another** (see [`key`]).

mod ascending;
mod census;
pub mod clock;
mod cursor;
pub mod dead_ranges;
mod engine;
mod error;
pub mod gc;
mod hidden;
mod iterator;
pub mod key;
mod log_check;
pub mod log_files;
mod manifest_check;
mod memory;
pub mod meta;
pub mod options;
pub mod pins;
mod row_locks;
pub mod spills;
mod stats;
mod sync;
pub mod timestamp;
pub mod value;

pub use ascending::AscendingReader;
pub use census::{Census, Space};
pub use clock::{Clock, SystemTime, TimeSource};
pub use cursor::{Cursor, Direction};
pub use dead_ranges::DeadRanges;
pub use engine::{Batch, BatchMemory, Engine, Leftovers, PointReader, SyncObserver, SyncPhase, Version};
pub use error::{Error, Result};
pub use gc::{Collected, DEFAULT_RETENTION, Horizons, PastPin, Retention, Section};
pub use key::StorageId;
pub use options::{EngineOptions, Recovery, Resources};
pub use pins::{Pin, PinGuard, PinInfo, PinKind, PinView, Pins};
pub use spills::{SpillNumber, SpillState, Spills};
pub use stats::{ReadCounters, ReadStats};
pub use timestamp::Timestamp;
