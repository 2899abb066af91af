//! Changed copies of a jsonb: `||`, `-`, `#-`, `jsonb_set`, `jsonb_insert`.

use cairn_types::{Datum, Jsonb, Result, err};

use super::access::path;
use super::{invalid, jsonb};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("jsonb_concat", |_, a| Ok(jsonb(a.jsonb(0)?.concat(a.jsonb(1)?)?))),
    ("jsonb_delete", |_, a| Ok(jsonb(a.jsonb(0)?.delete_keys(&[a.str(1)?])?))),
    ("jsonb_delete_array", |_, a| {
        let keys: Vec<&str> = path(a.array(1)?)?.into_iter().flatten().collect();
        Ok(jsonb(a.jsonb(0)?.delete_keys(&keys)?))
    }),
    ("jsonb_delete_idx", |_, a| Ok(jsonb(a.jsonb(0)?.delete_index(a.int4(1)?.into())?))),
    ("jsonb_delete_path", |_, a| Ok(jsonb(a.jsonb(0)?.delete_path(&path(a.array(1)?)?)?))),
    ("jsonb_set", |_, a| Ok(jsonb(a.jsonb(0)?.set_path(&path(a.array(1)?)?, a.jsonb(2)?, a.bool(3)?)?))),
    ("jsonb_set_lax", jsonb_set_lax),
    ("jsonb_insert", |_, a| {
        Ok(jsonb(a.jsonb(0)?.insert_path(&path(a.array(1)?)?, a.jsonb(2)?, a.bool(3)?)?))
    }),
];

/// `jsonb_set` with a choice of what a null for the new value means.
fn jsonb_set_lax(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    if args.is_null(0) || args.is_null(1) || args.is_null(3) {
        return Ok(Datum::Null);
    }
    const TREATMENTS: &str = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \"raise_exception\"";
    if args.is_null(4) {
        return Err(invalid(TREATMENTS));
    }
    let (target, steps) = (args.jsonb(0)?, path(args.array(1)?)?);
    if !args.is_null(2) {
        return Ok(jsonb(target.set_path(&steps, args.jsonb(2)?, args.bool(3)?)?));
    }
    match args.str(4)? {
        "raise_exception" => Err(err!(NULL_VALUE_NOT_ALLOWED, "JSON value must not be null")
            .detail("Exception was raised because null_value_treatment is \"raise_exception\".")
            .hint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.")),
        "use_json_null" => Ok(jsonb(target.set_path(&steps, &Jsonb::Null, args.bool(3)?)?)),
        "delete_key" => Ok(jsonb(target.delete_path(&steps)?)),
        "return_target" => Ok(Datum::Jsonb(target.clone())),
        _ => Err(invalid(TREATMENTS)),
    }
}
