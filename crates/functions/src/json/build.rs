//! Objects and arrays from arguments: `json_build_object`, `json_object` and their jsonb twins.

use cairn_types::{Array, Datum, Error, Jsonb, Result, Text, err, json};

use super::convert::{key_text, push_json, to_jsonb};
use super::{invalid, jsonb};
use crate::string::variadic_arguments;
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("json_build_object", |call, a| json_build_object(call, a)),
    ("json_build_object_noargs", |_, _| Ok(Datum::text("{}"))),
    ("json_build_array", |call, a| json_build_array(call, a)),
    ("json_build_array_noargs", |_, _| Ok(Datum::text("[]"))),
    ("jsonb_build_object", |call, a| jsonb_build_object(call, a)),
    ("jsonb_build_object_noargs", |_, _| Ok(jsonb(Jsonb::object(Vec::new())?))),
    ("jsonb_build_array", |call, a| jsonb_build_array(call, a)),
    ("jsonb_build_array_noargs", |_, _| Ok(jsonb(Jsonb::array(Vec::new())?))),
    ("json_object", |_, a| Ok(text_object(&pairs_of(a.array(0)?)?))),
    ("json_object_two_arg", |_, a| Ok(text_object(&pairs_of_two(a.array(0)?, a.array(1)?)?))),
    ("jsonb_object", |_, a| binary_object(pairs_of(a.array(0)?)?)),
    ("jsonb_object_two_arg", |_, a| binary_object(pairs_of_two(a.array(0)?, a.array(1)?)?)),
];

type Arguments<'a> = Vec<(&'a Datum, u32)>;

/// The arguments of `..._build_object`, an even number of them.
fn object_arguments<'a>(call: &Call<'_>, args: &'a [Datum], name: &str) -> Result<Option<Arguments<'a>>> {
    let Some(values) = variadic_arguments(call, args, 0)? else {
        return Ok(None);
    };
    if values.len() % 2 != 0 {
        return Err(invalid("argument list must have even number of elements")
            .hint(format!("The arguments of {name}() must consist of alternating keys and values.")));
    }
    Ok(Some(values))
}

fn json_build_object(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(values) = object_arguments(call, args, "json_build_object")? else {
        return Ok(Datum::Null);
    };
    let mut out = String::from("{");
    for (index, pair) in values.chunks_exact(2).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if pair[0].0.is_null() {
            return Err(invalid(format!("argument {} cannot be null", 2 * index + 1))
                .hint("Object keys should be text."));
        }
        json::escape_into(&key_text(call, pair[0].0, pair[0].1)?, &mut out);
        out.push_str(" : ");
        push_json(call, pair[1].0, pair[1].1, &mut out)?;
    }
    out.push('}');
    Ok(Datum::text(out))
}

fn jsonb_build_object(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(values) = object_arguments(call, args, "jsonb_build_object")? else {
        return Ok(Datum::Null);
    };
    let mut members = Vec::with_capacity(values.len() / 2);
    for (index, pair) in values.chunks_exact(2).enumerate() {
        if pair[0].0.is_null() {
            return Err(invalid(format!("argument {}: key must not be null", 2 * index + 1)));
        }
        let key = Text::from(key_text(call, pair[0].0, pair[0].1)?);
        members.push((key, to_jsonb(call, pair[1].0, pair[1].1)?));
    }
    Ok(jsonb(Jsonb::object(members)?))
}

fn json_build_array(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(values) = variadic_arguments(call, args, 0)? else {
        return Ok(Datum::Null);
    };
    let mut out = String::from("[");
    for (index, (value, type_oid)) in values.into_iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_json(call, value, type_oid, &mut out)?;
    }
    out.push(']');
    Ok(Datum::text(out))
}

fn jsonb_build_array(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(values) = variadic_arguments(call, args, 0)? else {
        return Ok(Datum::Null);
    };
    let items = values.into_iter().map(|(value, type_oid)| to_jsonb(call, value, type_oid));
    Ok(jsonb(Jsonb::array(items.collect::<Result<_>>()?)?))
}

type Pairs<'a> = Vec<(&'a str, Option<&'a str>)>;

fn null_key() -> Error {
    err!(NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key")
}

fn wrong_subscripts(message: &str) -> Error {
    err!(ARRAY_SUBSCRIPT_ERROR, "{message}")
}

fn pair<'a>(key: &'a Datum, value: &'a Datum) -> Result<(&'a str, Option<&'a str>)> {
    let Datum::Text(key) = key else {
        return Err(null_key());
    };
    Ok((
        key,
        match value {
            Datum::Text(text) => Some(text),
            _ => None,
        },
    ))
}

/// Keys and values of `json_object(text[])`: alternating, or two columns.
fn pairs_of(array: &Array) -> Result<Pairs<'_>> {
    match array.dimensions.as_slice() {
        [] => Ok(Vec::new()),
        [only] if only.length % 2 != 0 => Err(wrong_subscripts("array must have even number of elements")),
        [_] => array.elements.chunks_exact(2).map(|two| pair(&two[0], &two[1])).collect(),
        [_, columns] if columns.length != 2 => Err(wrong_subscripts("array must have two columns")),
        [_, _] => array.elements.chunks_exact(2).map(|two| pair(&two[0], &two[1])).collect(),
        _ => Err(wrong_subscripts("wrong number of array subscripts")),
    }
}

fn pairs_of_two<'a>(keys: &'a Array, values: &'a Array) -> Result<Pairs<'a>> {
    if keys.dimensions.len() > 1 || keys.dimensions.len() != values.dimensions.len() {
        return Err(wrong_subscripts("wrong number of array subscripts"));
    }
    if keys.elements.len() != values.elements.len() {
        return Err(wrong_subscripts("mismatched array dimensions"));
    }
    keys.elements.iter().zip(&values.elements).map(|(key, value)| pair(key, value)).collect()
}

fn text_object(pairs: &Pairs<'_>) -> Datum {
    let mut out = String::from("{");
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        json::escape_into(key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => json::escape_into(value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Datum::text(out)
}

fn binary_object(pairs: Pairs<'_>) -> Result<Datum> {
    let members =
        pairs.into_iter().map(|(key, value)| (Text::from(key), value.map_or(Jsonb::Null, Jsonb::string)));
    Ok(jsonb(Jsonb::object(members.collect())?))
}
