//! SQL values: their forms in memory, as text, in the binary protocol, in stored rows and in keys.
//!
//! This crate knows no catalog, no transaction and no session; where a type's text depends on them
//! (enum labels, `regclass`, the time zone) it asks through [`Env`].

pub mod compare;
pub mod datetime;
mod datum;
mod env;
mod error;
pub mod io;
pub mod json;
pub mod key;
pub mod numeric;
pub mod oid;
pub mod quote;
pub mod row;
#[cfg(test)]
mod test_datums;

pub use datum::*;
pub use env::*;
pub use error::*;
pub use json::Jsonb;
pub use numeric::Numeric;
pub use oid::{Oid, types};
