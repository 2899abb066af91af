//! Versions on RocksDB: clock, keys, reads at a time, durable writes.

/// Placeholder until the store lands: see DESIGN section 2.
pub type StorageId = u32;
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);
