//! From SQL text to a [`query::Query`]: parsing, name resolution, types, coercions.

pub mod query;
