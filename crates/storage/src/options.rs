//! What RocksDB is told, and why.
//!
//! Three column families: `default` holds versions, `provisional` row locks that need too much memory, `meta` what has
//! no versions. More than one matters: with several
//! column families RocksDB syncs closed logs before it installs a flushed file, so data in a file never
//! outlives a record in `meta` that came before it in the log (pending storages, counters).
//!
//! - Prefix extractor: the stored key without its time. Point reads seek in prefix mode and ask the filters in
//!   files and memtable; range scans set `total_order_seek`, or they would silently miss keys.
//! - The data block hash index is not used: RocksDB consults it in `Get` alone, and a read at a time is a seek.
//! - Filters and index blocks are pinned in the cache: they count against it, yet cost no look-up.
//! - Levels 0 and 1 are rewritten soon and stay uncompressed; below, zstd at its quickest level.
//! - Recovery is to a point in time: the log is replayed up to its first torn record, which is at or behind the
//!   last fsync; closed logs are recorded in the manifest, so that a missing or short one is an error.
//! - The log is kept for every write; `fsync` is asked for explicitly and never per write.

use std::sync::Arc;

use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, Cache, DBCompressionType, DBRecoveryMode, Options,
    SliceTransform, WriteBufferManager,
};

use crate::gc::filter::FilterFactory;
use crate::{DEFAULT_RETENTION, Retention, gc, key, memory};

/// Memory that all stores of a server share.
#[derive(Clone)]
pub struct Resources {
    cache_bytes: usize,
    pub(crate) cache: Cache,
    pub(crate) write_buffers: WriteBufferManager,
}

impl Resources {
    /// `cache_bytes` bounds blocks and memtables together; `write_buffer_bytes` is the memtables' part of it.
    pub fn new(cache_bytes: usize, write_buffer_bytes: usize) -> Self {
        let cache = Cache::new_hyper_clock_cache(cache_bytes, 0);
        let write_buffers =
            WriteBufferManager::new_write_buffer_manager_with_cache(write_buffer_bytes, false, cache.clone());
        Resources { cache_bytes, cache, write_buffers }
    }

    /// `cache_bytes` in all; a quarter of it for memtables, 1 GB at most.
    pub fn with_cache(cache_bytes: usize) -> Self {
        Self::new(cache_bytes, (cache_bytes / 4).min(1 << 30))
    }

    /// A quarter of the memory that the process may use, between 64 MB and 16 GB, in whole megabytes.
    pub fn for_this_machine() -> Self {
        let cache = (memory::available_bytes().unwrap_or(4 << 30) / 4).clamp(64 << 20, 16 << 30);
        Self::with_cache(cache & !((1 << 20) - 1))
    }

    /// What bounds [`Resources::usage_bytes`], about.
    pub fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    /// Bytes in use: blocks, filters, memtables.
    pub fn usage_bytes(&self) -> usize {
        self.cache.get_usage()
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::for_this_machine()
    }
}

/// Settings of one store. The defaults are what a server uses; tests make everything small or switch parts off.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Size at which a memtable becomes a file.
    pub memtable_bytes: usize,
    /// Target size of a file.
    pub file_bytes: u64,
    /// Prefix filters in files and memtable. Answers never depend on them.
    pub filters: bool,
    /// Memory for the index of dead ranges, about; 0 switches it off. Answers never depend on it.
    pub dead_range_bytes: usize,
    /// How far ahead of the clock the persisted ceiling runs: an unclean restart begins up to so much later.
    pub clock_reserve_micros: u64,
    /// Whether a missing directory is created.
    pub create: bool,
    /// How long history is kept, in databases that say nothing else.
    pub retention: Retention,
    /// Whether anything is collected at all. Answers about retained times never depend on it.
    pub garbage_collection: bool,
    /// What may be done to open a damaged directory.
    pub recovery: Recovery,
}

/// What somebody has allowed to be done to a damaged data directory. By default nothing: it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Directories of databases that the list of databases does not have are put into it.
    pub adopt_databases: bool,
    /// A log that is damaged counts up to the damage; what lies behind is given up.
    pub truncate_damaged_log: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            memtable_bytes: 64 << 20,
            file_bytes: 64 << 20,
            filters: true,
            dead_range_bytes: 32 << 20,
            clock_reserve_micros: 1_000_000,
            create: true,
            retention: DEFAULT_RETENTION,
            garbage_collection: true,
            recovery: Recovery::default(),
        }
    }
}

/// Options of the whole directory, and of a column family that nobody described.
pub(crate) fn directory(options: &EngineOptions, resources: &Resources) -> Options {
    let mut rocks = Options::default();
    rocks.create_if_missing(options.create);
    rocks.create_missing_column_families(true);
    rocks.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    rocks.set_track_and_verify_wals_in_manifest(true);
    rocks.set_write_buffer_manager(&resources.write_buffers);
    rocks.set_max_background_jobs(4);
    rocks.set_max_open_files(-1);
    rocks.set_bytes_per_sync(1 << 20);
    // Beyond it the oldest memtable is flushed.
    rocks.set_max_total_wal_size((options.memtable_bytes as u64).saturating_mul(8));
    rocks.set_keep_log_file_num(4);
    rocks.set_max_log_file_size(4 << 20);
    rocks.set_stats_dump_period_sec(0);
    rocks.set_stats_persist_period_sec(0);
    // An idle iterator may be the last user of a file; deleting it is not its user's work.
    rocks.set_avoid_unnecessary_blocking_io(true);
    rocks
}

/// The column family of versions.
pub(crate) fn versions(
    options: &EngineOptions,
    resources: &Resources,
    collector: &Arc<gc::Shared>,
) -> Options {
    let mut rocks = Options::default();
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&resources.cache);
    table.set_block_size(8 << 10);
    table.set_cache_index_and_filter_blocks(true);
    table.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    table.set_format_version(6);
    table.set_whole_key_filtering(false);
    if options.filters {
        table.set_bloom_filter(10.0, false);
        table.set_optimize_filters_for_memory(true);
        rocks.set_memtable_prefix_bloom_ratio(0.1);
    }
    rocks.set_block_based_table_factory(&table);
    rocks.set_prefix_extractor(SliceTransform::create(
        "cairn.key-without-time.1",
        key::filter_prefix,
        Some(key::has_filter_prefix),
    ));
    rocks.set_compaction_filter_factory(FilterFactory(collector.clone()));
    // The collector knows better which files are worth rewriting than their age does.
    rocks.set_periodic_compaction_seconds(0);
    rocks.set_write_buffer_size(options.memtable_bytes);
    rocks.set_max_write_buffer_number(4);
    rocks.set_target_file_size_base(options.file_bytes);
    rocks.set_max_bytes_for_level_base(options.file_bytes.saturating_mul(4));
    rocks.set_level_compaction_dynamic_level_bytes(true);
    rocks.set_compression_options(-14, 1, 0, 0);
    rocks.set_compression_per_level(&[
        DBCompressionType::None,
        DBCompressionType::None,
        DBCompressionType::Zstd,
        DBCompressionType::Zstd,
        DBCompressionType::Zstd,
        DBCompressionType::Zstd,
        DBCompressionType::Zstd,
    ]);
    rocks
}

/// The column family of row locks: written in key order per transaction, read one by one, then deleted by ranges.
pub(crate) fn row_locks(options: &EngineOptions, resources: &Resources) -> Options {
    let mut rocks = Options::default();
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&resources.cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_bloom_filter(10.0, false);
    rocks.set_block_based_table_factory(&table);
    rocks.set_write_buffer_size(options.memtable_bytes.min(16 << 20));
    rocks.set_target_file_size_base(options.file_bytes);
    rocks.set_compression_type(DBCompressionType::None);
    rocks
}

/// The column family of what has no versions: small and always in memory.
pub(crate) fn meta(resources: &Resources) -> Options {
    let mut rocks = Options::default();
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&resources.cache);
    table.set_bloom_filter(10.0, false);
    rocks.set_block_based_table_factory(&table);
    rocks.set_write_buffer_size(4 << 20);
    rocks
}
