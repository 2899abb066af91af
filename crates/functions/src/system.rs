//! Functions that need the catalog, the storage or the transaction: their bodies are in the session, behind
//! [`Env::system_function`](cairn_types::Env::system_function), which is called with the row's `prosrc`.
//!
//! Adding one is adding a line here and an arm there.

use cairn_types::{Datum, Result};

use crate::{Call, ScalarFn};

/// Expands each name to a body that hands the call to the session, and lists the names.
macro_rules! routed {
    ($($name:ident)*) => {
        /// The `prosrc` of every function that the session implements.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub const BODIES: &[(&str, ScalarFn)] = &[$((stringify!($name), {
            fn route(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
                call.env.system_function(stringify!($name), args, &call.info)
            }
            route
        })),*];
    };
}

routed! {
    nextval_oid currval_oid setval_oid setval3_oid lastval
}
