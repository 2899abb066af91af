//! system_functions: by engineer sysviews
//!
//! What SQL functions may ask of the catalog, the store and the session: the bodies behind
//! [`Env::system_function`](cairn_types::Env::system_function), one arm for each `prosrc` that
//! `cairn_functions::system` routes here.
