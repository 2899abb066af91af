//! JSON values as rows: `json_each`, `json_array_elements`, `json_object_keys` and their jsonb twins.

use cairn_types::json::text::{Node, NodeKind, outline};
use cairn_types::{Datum, Jsonb, Result};

use super::{invalid, jsonb};
use crate::{Args, RowStream, Rows, SetFn};

pub const SET_BODIES: &[(&str, SetFn)] = &[
    ("jsonb_array_elements", |_, a| elements(a, |item| jsonb(item.clone()))),
    ("jsonb_array_elements_text", |_, a| elements(a, plain_text)),
    ("json_array_elements", |_, a| text_elements(a, "json_array_elements", |node| Datum::text(node.text))),
    ("json_array_elements_text", |_, a| text_elements(a, "json_array_elements_text", node_text)),
    ("jsonb_each", |_, a| members(a, "jsonb_each", |value| jsonb(value.clone()))),
    ("jsonb_each_text", |_, a| members(a, "jsonb_each_text", plain_text)),
    ("json_each", |_, a| text_members(a, |node| Datum::text(node.text))),
    ("json_each_text", |_, a| text_members(a, node_text)),
    ("jsonb_object_keys", |_, a| match &**a.jsonb(0)? {
        Jsonb::Object(object) => {
            Ok(Rows::of_values(object.members.iter().map(|(key, _)| Datum::Text(key.clone()))))
        }
        Jsonb::Array(_) => Err(invalid("cannot call jsonb_object_keys on an array")),
        _ => Err(invalid("cannot call jsonb_object_keys on a scalar")),
    }),
    ("json_object_keys", |_, a| match outline(a.str(0)?)?.kind {
        NodeKind::Object(members) => {
            Ok(Rows::of_values(members.into_iter().map(|(key, _)| Datum::text(key))))
        }
        NodeKind::Array(_) => Err(invalid("cannot call json_object_keys on an array")),
        _ => Err(invalid("cannot call json_object_keys on a scalar")),
    }),
];

fn plain_text(value: &Jsonb) -> Datum {
    value.to_plain_text().map_or(Datum::Null, Datum::text)
}

fn node_text(node: &Node<'_>) -> Datum {
    node.plain_text().map_or(Datum::Null, Datum::text)
}

fn elements(args: &[Datum], make: fn(&Jsonb) -> Datum) -> Result<Box<dyn RowStream>> {
    match &**args.jsonb(0)? {
        Jsonb::Array(array) => Ok(Rows::of_values(array.items.iter().map(make))),
        Jsonb::Object(_) => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

fn text_elements(args: &[Datum], name: &str, make: fn(&Node<'_>) -> Datum) -> Result<Box<dyn RowStream>> {
    match &outline(args.str(0)?)?.kind {
        NodeKind::Array(items) => Ok(Rows::of_values(items.iter().map(make))),
        NodeKind::Object(_) => Err(invalid(format!("cannot call {name} on a non-array"))),
        _ => Err(invalid(format!("cannot call {name} on a scalar"))),
    }
}

fn members(args: &[Datum], name: &str, make: fn(&Jsonb) -> Datum) -> Result<Box<dyn RowStream>> {
    match &**args.jsonb(0)? {
        Jsonb::Object(object) => {
            let rows = object.members.iter().map(|(key, value)| vec![Datum::Text(key.clone()), make(value)]);
            Ok(Rows::boxed(rows.collect()))
        }
        _ => Err(invalid(format!("cannot call {name} on a non-object"))),
    }
}

fn text_members(args: &[Datum], make: fn(&Node<'_>) -> Datum) -> Result<Box<dyn RowStream>> {
    match &outline(args.str(0)?)?.kind {
        NodeKind::Object(members) => {
            let rows = members.iter().map(|(key, node)| vec![Datum::text(key.as_str()), make(node)]);
            Ok(Rows::boxed(rows.collect()))
        }
        NodeKind::Array(_) => Err(invalid("cannot deconstruct an array as an object")),
        _ => Err(invalid("cannot deconstruct a scalar")),
    }
}
