//! How a table's rows and index entries lie in the key-value store.
//!
//! ```text
//! row key           := storage id (4, big-endian) primary key columns          table with a primary key
//!                    | storage id (4, big-endian) row number (8, big-endian)   table without one
//! row value         := packed row, see cairn_types::row
//! index entry key   := storage id of the index, key columns                    unique, no key column null
//!                    | storage id of the index, key columns, row key without its storage id     otherwise
//! index entry value := 20 length (4, little-endian)     the row key without storage id is the last `length` bytes of the key
//!                    | 21 row key without storage id
//! ```
//! Key columns are encoded as `cairn_types::key` says, so entries lie in the index's order and no key is a prefix of
//! another. With NULLS NOT DISTINCT a null counts as a value: the entry is of the first form.

pub mod bounds;
mod layout;

pub use layout::{IndexLayout, TableLayout, key_order, storage_prefix, storage_range};
