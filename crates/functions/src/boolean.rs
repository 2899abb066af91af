//! boolean.

use cairn_types::Datum;

use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("booland_statefunc", |_, a| Ok(Datum::Bool(a.bool(0)? & a.bool(1)?))),
    ("boolor_statefunc", |_, a| Ok(Datum::Bool(a.bool(0)? | a.bool(1)?))),
    ("booltext", |_, a| Ok(Datum::text(if a.bool(0)? { "true" } else { "false" }))),
    ("bool_int4", |_, a| Ok(Datum::Int4(a.bool(0)?.into()))),
    ("int4_bool", |_, a| Ok(Datum::Bool(a.int4(0)? != 0))),
];
