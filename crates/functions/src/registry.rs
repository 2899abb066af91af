//! From `prosrc` to body.

use std::collections::HashMap;
use std::sync::OnceLock;

use cairn_types::{Datum, Error, Result};

use crate::{Call, SetFn};

/// A body that returns one value.
pub type ScalarFn = fn(&Call<'_>, &[Datum]) -> Result<Datum>;

/// The tables of all families. A name that occurs twice is a bug, which a test finds.
const SCALAR_FAMILIES: &[&[(&str, ScalarFn)]] = &[
    crate::array::BODIES,
    crate::array::build::BODIES,
    crate::array::search::BODIES,
    crate::array::shape::BODIES,
    crate::boolean::BODIES,
    crate::bytea::BODIES,
    crate::compare::BODIES,
    crate::compare::FLOATS_AND_TIMETZ,
    crate::compare::LARGER_SMALLER,
    crate::compare::OTHERS,
    crate::compare::TIMESTAMPS,
    crate::datetime::arithmetic::BODIES,
    crate::datetime::cast::BODIES,
    crate::datetime::clock::BODIES,
    crate::datetime::compare::BODIES,
    crate::datetime::construct::BODIES,
    crate::datetime::part::BODIES,
    crate::datetime::truncate::BODIES,
    crate::datetime::zone::BODIES,
    crate::float::ARITHMETIC,
    crate::float::BODIES,
    crate::hash::BODIES,
    crate::in_range::BODIES,
    crate::integer::ARITHMETIC,
    crate::integer::BODIES,
    crate::integer::OWN,
    crate::json::access::BODIES,
    crate::json::build::BODIES,
    crate::json::convert::BODIES,
    crate::json::edit::BODIES,
    crate::json::path::BODIES,
    crate::json::populate::BODIES,
    crate::numeric::BODIES,
    crate::pg_lsn::BODIES,
    crate::regex::BODIES,
    crate::session::BODIES,
    crate::string::BODIES,
    crate::string::case::BODIES,
    crate::string::cut::BODIES,
    crate::string::format::BODIES,
    crate::string::like::BODIES,
    crate::string::quote::BODIES,
    crate::string::split::BODIES,
    crate::system::BODIES,
    crate::to_char::BODIES,
    crate::text_io::BODIES,
    crate::text_io::GENERIC,
    crate::uuid::BODIES,
];

const SET_FAMILIES: &[&[(&str, SetFn)]] = &[
    crate::datetime::series::BODIES,
    crate::session::SET_BODIES,
    crate::set_returning::BODIES,
    crate::system::SET_BODIES,
    crate::array::shape::SET_BODIES,
    crate::json::path::SET_BODIES,
    crate::json::populate::SET_BODIES,
    crate::json::rows::SET_BODIES,
    crate::regex::SET_BODIES,
    crate::string::split::SET_BODIES,
];

fn scalars() -> &'static HashMap<&'static str, ScalarFn> {
    static TABLE: OnceLock<HashMap<&'static str, ScalarFn>> = OnceLock::new();
    TABLE.get_or_init(|| SCALAR_FAMILIES.iter().copied().flatten().copied().collect())
}

fn sets() -> &'static HashMap<&'static str, SetFn> {
    static TABLE: OnceLock<HashMap<&'static str, SetFn>> = OnceLock::new();
    TABLE.get_or_init(|| SET_FAMILIES.iter().copied().flatten().copied().collect())
}

/// The body of the internal function with this `prosrc`; `None` if Cairn has none.
pub fn scalar(prosrc: &str) -> Option<ScalarFn> {
    scalars().get(prosrc).copied()
}

/// The body of the internal set-returning function with this `prosrc`; `None` if Cairn has none.
pub fn set_returning(prosrc: &str) -> Option<SetFn> {
    sets().get(prosrc).copied()
}

/// Every `prosrc` that has a scalar or set-returning body, with repetitions if a table has them.
pub fn scalar_names() -> impl Iterator<Item = &'static str> {
    let scalar = SCALAR_FAMILIES.iter().copied().flatten().map(|(name, _)| *name);
    scalar.chain(SET_FAMILIES.iter().copied().flatten().map(|(name, _)| *name))
}

/// The refusal of a call whose function is in pg_proc and has no body. `signature` is the function as PostgreSQL
/// names it in messages: `foo(integer, text)`.
pub fn missing(signature: &str) -> Error {
    Error::unsupported(format!("function {signature} is"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn no_body_is_bound_twice() {
        let mut seen = HashSet::new();
        for name in super::scalar_names() {
            assert!(seen.insert(name), "two bodies for {name}");
        }
    }
}
