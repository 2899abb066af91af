//! The catalog: PostgreSQL's own objects as data, user objects as versioned rows of the store.

pub mod model;
pub use model::*;
