//! SQL values: their forms in memory, as text, in the binary protocol, in stored rows and in keys.
//!
//! This crate knows no catalog, no transaction and no session; where a type's text depends on them
//! (enum labels, `regclass`, the time zone) it asks through [`Env`].

mod datum;
mod env;
mod error;
pub mod oid;

pub use datum::*;
pub use env::*;
pub use error::*;
pub use oid::{Oid, types};

#[derive(Clone, Debug)]
pub struct Numeric;
#[derive(Clone, Debug)]
pub struct Jsonb;
