//! `jsonb` values and `json` text.
//!
//! A [`Jsonb`] is a parsed tree whose parts are shared, so that taking a part out copies nothing. Rules that
//! every value keeps, because comparison and search rely on them:
//! - the keys of an object are unique and ordered by length, then by bytes (PostgreSQL's storage order);
//! - nesting is at most [`DEPTH_MAX`] deep, so that code may recurse over a value. The constructors
//!   [`Jsonb::array`] and [`Jsonb::object`] are the only way to nest, and they refuse more (54001).

mod compare;
mod operations;
mod parse;
pub mod path;
mod print;
pub mod text;

use std::sync::Arc;

use crate::{Error, Numeric, Result, Text, err};

pub use parse::{parse, validate};
pub use print::escape_into;

/// The deepest nesting of arrays and objects that is accepted.
pub const DEPTH_MAX: u16 = 1000;

/// A `jsonb` value.
#[derive(Clone, Debug)]
pub enum Jsonb {
    Null,
    Bool(bool),
    /// Always finite.
    Number(Arc<Numeric>),
    String(Text),
    Array(Arc<JsonArray>),
    Object(Arc<JsonObject>),
}

#[derive(Debug)]
pub struct JsonArray {
    depth: u16,
    pub items: Vec<Jsonb>,
}

#[derive(Debug)]
pub struct JsonObject {
    depth: u16,
    /// Ordered by [`key_order`], without duplicates.
    pub members: Vec<(Text, Jsonb)>,
}

/// The order of keys in an object: shorter ones first, then by bytes.
pub fn key_order(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

fn too_deep() -> Error {
    err!(STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint(format!("JSON values can be nested {DEPTH_MAX} levels deep."))
}

fn one_deeper(depth: u16) -> Result<u16> {
    if depth >= DEPTH_MAX { Err(too_deep()) } else { Ok(depth + 1) }
}

impl Jsonb {
    /// 0 for a scalar, 1 for an array or object of scalars, and so on.
    pub fn depth(&self) -> u16 {
        match self {
            Jsonb::Array(array) => array.depth,
            Jsonb::Object(object) => object.depth,
            _ => 0,
        }
    }

    /// Errors: 54001 where the nesting gets too deep.
    pub fn array(items: Vec<Jsonb>) -> Result<Jsonb> {
        let depth = one_deeper(items.iter().map(Jsonb::depth).max().unwrap_or(0))?;
        Ok(Jsonb::Array(Arc::new(JsonArray { depth, items })))
    }

    /// An object of members in any order; of members with one key the last wins. Errors: 54001.
    pub fn object(mut members: Vec<(Text, Jsonb)>) -> Result<Jsonb> {
        let in_order = members.windows(2).all(|pair| key_order(&pair[0].0, &pair[1].0).is_lt());
        if !in_order {
            // Stable, so that the last of equal keys stays last; reversed, so that it is the one kept.
            members.reverse();
            members.sort_by(|a, b| key_order(&a.0, &b.0));
            members.dedup_by(|later, kept| later.0 == kept.0);
        }
        let depth = one_deeper(members.iter().map(|(_, value)| value.depth()).max().unwrap_or(0))?;
        Ok(Jsonb::Object(Arc::new(JsonObject { depth, members })))
    }

    pub fn string(text: impl Into<Text>) -> Jsonb {
        Jsonb::String(text.into())
    }

    pub fn number(number: Numeric) -> Jsonb {
        Jsonb::Number(Arc::new(number))
    }
}

impl JsonObject {
    /// The member with the key, by binary search.
    pub fn get(&self, key: &str) -> Option<&Jsonb> {
        let at = self.members.binary_search_by(|(have, _)| key_order(have, key)).ok()?;
        Some(&self.members[at].1)
    }
}
