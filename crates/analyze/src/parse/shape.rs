//! The shape of a statement.
