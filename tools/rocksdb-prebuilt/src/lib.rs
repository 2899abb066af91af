//! Exists so that cargo compiles librocksdb; has no code.
