//! Versions on RocksDB: clock, keys, reads at a time, durable writes.
mod error;
mod timestamp;

pub use error::{Error, Result};
pub use timestamp::Timestamp;

/// Names a key space: a table, an index, a sequence. Never used again for another one.
pub type StorageId = u32;
