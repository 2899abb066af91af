//! The catalog: PostgreSQL's own objects as data, user objects as versioned rows of the store.
//!
//! [`Catalog`] is an immutable picture of all objects, with the lookups that name resolution, planning and execution
//! need; [`SearchPath`] says what unqualified names mean. The system catalogs themselves (rows, columns, keys) are in
//! [`system_table`] and [`columns`].

pub mod acl;
mod builtin;
mod cache;
mod catalog;
pub mod columns;
mod format_type;
pub mod model;
mod objects;
mod own;
mod rows;
mod search_path;
pub mod shared;
mod shared_map;
pub mod statistics;
mod store;
pub mod system_table;
mod tsv;
mod views;

pub use cache::CatalogCache;
pub use catalog::Catalog;
pub use model::*;
pub use search_path::SearchPath;
pub use shared::{ClusterCatalog, SharedCatalogs};
pub use statistics::{ColumnStatistics, TableStatistics};
pub use store::CatalogWriter;
pub use system_table::{CatalogRow, RowExt};
