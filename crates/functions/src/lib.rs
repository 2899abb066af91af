//! The bodies of PostgreSQL's built-in functions.
//!
//! A function is one Rust body bound to one row of pg_proc. The row (in `cairn-catalog`) says everything that
//! name resolution needs; the body is found by the row's `prosrc`, so rows that share a `prosrc` share the
//! body, as they do in PostgreSQL. Operators, casts and comparison support all end in such a row.
//!
//! - [`scalar`]: bodies that return one value;
//! - [`set_returning`]: bodies that return rows;
//! - [`aggregate`]: accumulators, found by their transition and final functions.
//!
//! All three are asked once, when a query is planned. `None` means that Cairn has the row but no body: the
//! planner then refuses the query with 0A000 ([`missing`] builds the error).
//!
//! Rules that a body keeps:
//! - the caller has handled `proisstrict`: a strict body never sees [`Datum::Null`](cairn_types::Datum::Null);
//! - arguments have the physical form that the row's declared types say; a body that finds another form
//!   returns XX000, it does not panic;
//! - a body reaches clock, random numbers, settings and catalog through [`Call::env`] only.
//!
//! Adding a function is adding a line to the table `BODIES` of the file of its family; a function that needs
//! the catalog or the storage is a line in [`system`].

mod aggregate;
mod args;
mod built_in_sql;
mod call;
mod registry;
pub mod session;
mod set_returning;
pub mod system;
mod text;
mod text_io;
mod to_char;
mod type_facts;

pub mod array;
mod boolean;
mod bytea;
mod compare;
pub mod datetime;
pub mod encodings;
mod float;
mod hash;
mod in_range;
mod integer;
mod json;
mod numeric;
mod pg_lsn;
pub mod regex;
pub mod string;
mod uuid;

pub use aggregate::{Accumulator, Aggregate, AggregateRow, aggregate};
pub use args::Args;
pub use built_in_sql::built_in_sql;
pub use call::Call;
pub use registry::{ScalarFn, missing, scalar, scalar_names, set_returning};
pub use set_returning::{RowStream, Rows, SetFn};
