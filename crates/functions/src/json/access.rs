//! The operators that look into a value: `->`, `->>`, `#>`, `#>>`, `@>`, `?`, comparison; types, lengths, casts.

use std::cmp::Ordering;
use std::sync::Arc;

use cairn_types::json::text::{Node, NodeKind, outline};
use cairn_types::{Array, Datum, Jsonb, Numeric, Result};

use super::{invalid, jsonb};
use crate::string::int4;
use crate::{Args, ScalarFn};

/// The steps of a path; `None` is a null.
pub(super) fn path(array: &Array) -> Result<Vec<Option<&str>>> {
    if array.dimensions.len() > 1 {
        return Err(cairn_types::err!(ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts"));
    }
    Ok(array
        .elements
        .iter()
        .map(|step| if let Datum::Text(step) = step { Some(&**step) } else { None })
        .collect())
}

fn part(found: Option<&Jsonb>) -> Datum {
    found.map_or(Datum::Null, |value| jsonb(value.clone()))
}

fn part_text(found: Option<&Jsonb>) -> Datum {
    found.and_then(Jsonb::to_plain_text).map_or(Datum::Null, Datum::text)
}

/// The element of `jsonb -> integer`. A scalar at the top level counts as an array of one, as it does in PostgreSQL.
fn element(args: &[Datum]) -> Result<Option<&Jsonb>> {
    let (value, index) = (args.jsonb(0)?, args.int4(1)?);
    Ok(match &**value {
        scalar if !scalar.is_container() => matches!(index, 0 | -1).then_some(scalar),
        container => container.get_index(index.into()),
    })
}

fn node(found: Option<&Node<'_>>) -> Datum {
    found.map_or(Datum::Null, |node| Datum::text(node.text))
}

fn node_text(found: Option<&Node<'_>>) -> Datum {
    found.and_then(Node::plain_text).map_or(Datum::Null, Datum::text)
}

fn order(args: &[Datum]) -> Result<Ordering> {
    Ok(args.jsonb(0)?.cmp(args.jsonb(1)?))
}

/// The texts of an array, nulls left out.
fn keys(array: &Array) -> Vec<&str> {
    array
        .elements
        .iter()
        .filter_map(|key| if let Datum::Text(key) = key { Some(&**key) } else { None })
        .collect()
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("jsonb_object_field", |_, a| Ok(part(a.jsonb(0)?.get_key(a.str(1)?)))),
    ("jsonb_object_field_text", |_, a| Ok(part_text(a.jsonb(0)?.get_key(a.str(1)?)))),
    ("jsonb_array_element", |_, a| Ok(part(element(a)?))),
    ("jsonb_array_element_text", |_, a| Ok(part_text(element(a)?))),
    ("jsonb_extract_path", |_, a| Ok(part(a.jsonb(0)?.get_path(&path(a.array(1)?)?)))),
    ("jsonb_extract_path_text", |_, a| Ok(part_text(a.jsonb(0)?.get_path(&path(a.array(1)?)?)))),
    ("json_object_field", |_, a| Ok(node(outline(a.str(0)?)?.get_key(a.str(1)?)))),
    ("json_object_field_text", |_, a| Ok(node_text(outline(a.str(0)?)?.get_key(a.str(1)?)))),
    ("json_array_element", |_, a| Ok(node(outline(a.str(0)?)?.get_index(a.int4(1)?.into())))),
    ("json_array_element_text", |_, a| Ok(node_text(outline(a.str(0)?)?.get_index(a.int4(1)?.into())))),
    ("json_extract_path", |_, a| Ok(node(outline(a.str(0)?)?.get_path(&path(a.array(1)?)?)))),
    ("json_extract_path_text", |_, a| Ok(node_text(outline(a.str(0)?)?.get_path(&path(a.array(1)?)?)))),
    ("jsonb_contains", |_, a| Ok(Datum::Bool(a.jsonb(0)?.contains(a.jsonb(1)?)))),
    ("jsonb_contained", |_, a| Ok(Datum::Bool(a.jsonb(1)?.contains(a.jsonb(0)?)))),
    ("jsonb_exists", |_, a| Ok(Datum::Bool(a.jsonb(0)?.exists(a.str(1)?)))),
    ("jsonb_exists_any", |_, a| {
        let value = a.jsonb(0)?;
        Ok(Datum::Bool(keys(a.array(1)?).into_iter().any(|key| value.exists(key))))
    }),
    ("jsonb_exists_all", |_, a| {
        let value = a.jsonb(0)?;
        Ok(Datum::Bool(keys(a.array(1)?).into_iter().all(|key| value.exists(key))))
    }),
    ("jsonb_eq", |_, a| Ok(Datum::Bool(order(a)?.is_eq()))),
    ("jsonb_ne", |_, a| Ok(Datum::Bool(order(a)?.is_ne()))),
    ("jsonb_lt", |_, a| Ok(Datum::Bool(order(a)?.is_lt()))),
    ("jsonb_le", |_, a| Ok(Datum::Bool(order(a)?.is_le()))),
    ("jsonb_gt", |_, a| Ok(Datum::Bool(order(a)?.is_gt()))),
    ("jsonb_ge", |_, a| Ok(Datum::Bool(order(a)?.is_ge()))),
    ("jsonb_cmp", |_, a| Ok(Datum::Int4(order(a)? as i32))),
    ("jsonb_typeof", |_, a| Ok(Datum::text(a.jsonb(0)?.type_name()))),
    ("json_typeof", |_, a| Ok(Datum::text(outline(a.str(0)?)?.type_name()))),
    ("jsonb_array_length", |_, a| match &**a.jsonb(0)? {
        Jsonb::Array(array) => int4(array.items.len()),
        Jsonb::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }),
    ("json_array_length", |_, a| match outline(a.str(0)?)?.kind {
        NodeKind::Array(items) => int4(items.len()),
        NodeKind::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }),
    ("jsonb_pretty", |_, a| {
        let mut out = String::new();
        a.jsonb(0)?.print_pretty(&mut out);
        Ok(Datum::text(out))
    }),
    ("jsonb_strip_nulls", |_, a| Ok(jsonb(a.jsonb(0)?.strip_nulls()?))),
    ("json_strip_nulls", |_, a| {
        let mut out = String::new();
        outline(a.str(0)?)?.print_without_nulls(&mut out);
        Ok(Datum::text(out))
    }),
    ("jsonb_bool", |_, a| match &**a.jsonb(0)? {
        Jsonb::Bool(value) => Ok(Datum::Bool(*value)),
        other => Err(cannot_cast(other, "boolean")),
    }),
    ("jsonb_numeric", |_, a| Ok(Datum::Numeric(number(a, "numeric")?.clone()))),
    ("jsonb_int2", |_, a| number(a, "smallint")?.to_i16().map(Datum::Int2)),
    ("jsonb_int4", |_, a| number(a, "integer")?.to_i32().map(Datum::Int4)),
    ("jsonb_int8", |_, a| number(a, "bigint")?.to_i64().map(Datum::Int8)),
    ("jsonb_float4", |_, a| number(a, "real")?.to_f32().map(Datum::Float4)),
    ("jsonb_float8", |_, a| number(a, "double precision")?.to_f64().map(Datum::Float8)),
];

fn cannot_cast(value: &Jsonb, target: &str) -> cairn_types::Error {
    let kind = match value {
        Jsonb::Bool(_) => "boolean",
        Jsonb::Number(_) => "numeric",
        other => other.type_name(),
    };
    invalid(format!("cannot cast jsonb {kind} to type {target}"))
}

fn number<'a>(args: &'a [Datum], target: &str) -> Result<&'a Arc<Numeric>> {
    match &**args.jsonb(0)? {
        Jsonb::Number(number) => Ok(number),
        other => Err(cannot_cast(other, target)),
    }
}
