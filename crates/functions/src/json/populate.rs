//! JSON objects as composite values: `json_populate_record`, `json_to_record`, their sets and jsonb twins.
//!
//! A set of records delivers one value per column where the call has a column list ([`CallInfo::columns`]), and one
//! composite value a row where its type is a named one.
//!
//! [`CallInfo::columns`]: cairn_types::CallInfo::columns

use std::sync::Arc;

use cairn_types::json::text::{Node, NodeKind, outline};
use cairn_types::{
    Array, Datum, Dimension, Error, Jsonb, Oid, Record, RecordField, Result, Row, TypeShape, err, io, json,
    types,
};

use super::convert::{argument_type, base_type};
use super::{invalid, jsonb};
use crate::{Args, Call, RowStream, Rows, ScalarFn, SetFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("jsonb_populate_record", |call, a| populate(call, a, "jsonb_populate_record")),
    ("json_populate_record", |call, a| populate(call, a, "json_populate_record")),
    ("jsonb_to_record", |call, a| to_record(call, a, "jsonb_to_record")),
    ("json_to_record", |call, a| to_record(call, a, "json_to_record")),
];

pub const SET_BODIES: &[(&str, SetFn)] = &[
    ("jsonb_populate_recordset", |call, a| populate_set(call, a, "jsonb_populate_recordset")),
    ("json_populate_recordset", |call, a| populate_set(call, a, "json_populate_recordset")),
    ("jsonb_to_recordset", |call, a| to_record_set(call, a, "jsonb_to_recordset")),
    ("json_to_recordset", |call, a| to_record_set(call, a, "json_to_recordset")),
];

/// A JSON value of either type.
#[derive(Clone, Copy)]
enum Source<'a> {
    Text(&'a Node<'a>),
    Tree(&'a Jsonb),
}

impl<'a> Source<'a> {
    fn is_null(self) -> bool {
        match self {
            Source::Text(node) => matches!(node.kind, NodeKind::Null),
            Source::Tree(value) => matches!(value, Jsonb::Null),
        }
    }

    /// The content of a JSON string.
    fn string(self) -> Option<&'a str> {
        match self {
            Source::Text(Node { kind: NodeKind::String(text), .. }) => Some(text),
            Source::Tree(Jsonb::String(text)) => Some(text),
            _ => None,
        }
    }

    fn is_object(self) -> bool {
        match self {
            Source::Text(node) => matches!(node.kind, NodeKind::Object(_)),
            Source::Tree(value) => matches!(value, Jsonb::Object(_)),
        }
    }

    fn items(self) -> Option<Vec<Source<'a>>> {
        match self {
            Source::Text(Node { kind: NodeKind::Array(items), .. }) => {
                Some(items.iter().map(Source::Text).collect())
            }
            Source::Tree(Jsonb::Array(array)) => Some(array.items.iter().map(Source::Tree).collect()),
            _ => None,
        }
    }

    fn member(self, key: &str) -> Option<Source<'a>> {
        match self {
            Source::Text(node) => node.get_key(key).map(Source::Text),
            Source::Tree(value) => value.get_key(key).map(Source::Tree),
        }
    }

    fn json_text(self) -> String {
        match self {
            Source::Text(node) => node.text.to_owned(),
            Source::Tree(value) => value.to_string(),
        }
    }

    fn to_jsonb(self) -> Result<Jsonb> {
        match self {
            Source::Text(node) => json::parse(node.text),
            Source::Tree(value) => Ok(value.clone()),
        }
    }
}

/// Runs `body` on the JSON value in argument `i`.
fn with_source<T>(args: &[Datum], i: usize, body: impl FnOnce(Source<'_>) -> Result<T>) -> Result<T> {
    match args.any(i) {
        Datum::Jsonb(value) => body(Source::Tree(value)),
        _ => body(Source::Text(&outline(args.str(i)?)?)),
    }
}

/// The record of an object's members; a field without a member keeps its value of `base`.
fn record_values(
    call: &Call<'_>,
    source: Source<'_>,
    fields: &[RecordField],
    base: Option<&Record>,
) -> Result<Vec<Datum>> {
    if !source.is_object() {
        return Err(if source.items().is_some() {
            invalid("cannot call populate_composite on an array")
        } else {
            invalid("cannot call populate_composite on a scalar")
        });
    }
    let mut values = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        values.push(match source.member(&field.name) {
            Some(member) => convert(call, member, field.type_oid, field.typmod, &field.name)?,
            // The values of a row that is there are as they should be; a null of no row's may be refused.
            None => match base {
                Some(base) => base.values.get(index).cloned().unwrap_or_default(),
                None => io::null(field.type_oid, call.env)?,
            },
        });
    }
    Ok(values)
}

/// A JSON value as a value of an SQL type.
fn convert(call: &Call<'_>, source: Source<'_>, type_oid: Oid, typmod: i32, key: &str) -> Result<Datum> {
    if let Some(TypeShape::Domain { base, typmod }) = call.env.type_shape(type_oid) {
        let value = convert(call, source, base, typmod, key)?;
        call.env.check_domain(type_oid, &value)?;
        return Ok(value);
    }
    if source.is_null() {
        return Ok(Datum::Null);
    }
    match type_oid {
        types::JSON => return Ok(Datum::text(source.json_text())),
        types::JSONB => return Ok(jsonb(source.to_jsonb()?)),
        _ => {}
    }
    // A string is read as the type reads text, whatever the type.
    if let Some(text) = source.string() {
        return io::input(text, type_oid, typmod, call.env);
    }
    match call.env.type_shape(type_oid) {
        Some(TypeShape::Array { element, .. }) => array(call, source, element, typmod, key),
        Some(TypeShape::Composite { fields }) => {
            let values = record_values(call, source, &fields, None)?;
            Ok(Datum::Record(Arc::new(Record { type_oid, fields, values })))
        }
        _ => io::input(&source.json_text(), type_oid, typmod, call.env),
    }
}

fn array(call: &Call<'_>, source: Source<'_>, element: Oid, typmod: i32, key: &str) -> Result<Datum> {
    let mut lengths: Vec<usize> = Vec::new();
    // How deep the arrays are nested: as deep as the first elements say.
    let mut level = Some(source);
    while let Some(items) = level.and_then(Source::items) {
        lengths.push(items.len());
        level = items.first().copied();
    }
    if lengths.is_empty() {
        return Err(err!(INVALID_TEXT_REPRESENTATION, "expected JSON array")
            .hint(format!("See the value of key \"{key}\".")));
    }
    if lengths.len() > crate::array::DIMENSIONS_MAX {
        return Err(err!(
            PROGRAM_LIMIT_EXCEEDED,
            "number of array dimensions ({}) exceeds the maximum allowed ({})",
            lengths.len(),
            crate::array::DIMENSIONS_MAX
        ));
    }
    let mut elements = Vec::new();
    fill(call, source, &lengths, element, typmod, key, &mut elements)?;
    if elements.is_empty() {
        return Ok(Datum::Array(Arc::new(Array::from_elements(element, elements))));
    }
    let dimensions = lengths.iter().map(|length| Dimension { length: *length, lower_bound: 1 }).collect();
    Ok(Datum::Array(Arc::new(Array { element_type: element, dimensions, elements })))
}

fn malformed_array() -> Error {
    err!(INVALID_TEXT_REPRESENTATION, "malformed JSON array")
        .detail("Multidimensional arrays must have sub-arrays with matching dimensions.")
}

fn fill(
    call: &Call<'_>,
    source: Source<'_>,
    lengths: &[usize],
    element: Oid,
    typmod: i32,
    key: &str,
    elements: &mut Vec<Datum>,
) -> Result<()> {
    let Some((length, inner)) = lengths.split_first() else {
        elements.push(convert(call, source, element, typmod, key)?);
        return Ok(());
    };
    let items = source.items().ok_or_else(|| {
        err!(INVALID_TEXT_REPRESENTATION, "expected JSON array")
            .hint(format!("See the value of key \"{key}\"."))
    })?;
    if items.len() != *length {
        return Err(malformed_array());
    }
    for item in items {
        fill(call, item, inner, element, typmod, key, elements)?;
    }
    Ok(())
}

/// The type of the records to make, its fields, and the record that their values come from where JSON has none.
type Base<'a> = (Oid, Arc<[RecordField]>, Option<&'a Record>);

/// The fields of the composite type that a `populate` function makes, and the record to begin with.
fn base_record<'a>(call: &Call<'_>, args: &'a [Datum], name: &str) -> Result<Base<'a>> {
    let type_oid = argument_type(call, 0);
    let base = match args.any(0) {
        Datum::Record(record) => Some(&**record),
        _ => None,
    };
    match (call.env.type_shape(base_type(call, type_oid)), base) {
        (Some(TypeShape::Composite { fields }), _) => Ok((type_oid, fields, base)),
        (_, Some(record)) => Ok((type_oid, record.fields.clone(), base)),
        _ if !call.info.columns.is_empty() => Ok((type_oid, call.info.columns.to_vec().into(), None)),
        _ if type_oid == types::RECORD => Err(err!(
            FEATURE_NOT_SUPPORTED,
            "could not determine row type for result of {name}"
        )
        .hint("Provide a non-null record argument, or call the function in the FROM clause using a column definition list.")),
        _ => Err(err!(DATATYPE_MISMATCH, "first argument of {name} must be a row type")),
    }
}

fn populate(call: &Call<'_>, args: &[Datum], name: &str) -> Result<Datum> {
    let (type_oid, fields, base) = base_record(call, args, name)?;
    if args.is_null(1) {
        return Ok(args.any(0).clone());
    }
    let values = with_source(args, 1, |source| {
        if source.is_null() && base.is_none() {
            return Ok(vec![Datum::Null; fields.len()]);
        }
        record_values(call, source, &fields, base)
    })?;
    let record = Datum::Record(Arc::new(Record { type_oid: base_type(call, type_oid), fields, values }));
    call.env.check_domain(type_oid, &record)?;
    Ok(record)
}

fn column_list(call: &Call<'_>, name: &str) -> Result<Arc<[RecordField]>> {
    if call.info.columns.is_empty() {
        return Err(err!(FEATURE_NOT_SUPPORTED, "could not determine row type for result of {name}")
            .hint("Call the function in the FROM clause using a column definition list."));
    }
    Ok(call.info.columns.to_vec().into())
}

fn to_record(call: &Call<'_>, args: &[Datum], name: &str) -> Result<Datum> {
    let fields = column_list(call, name)?;
    let values = with_source(args, 0, |source| record_values(call, source, &fields, None))?;
    Ok(Datum::Record(Arc::new(Record { type_oid: types::RECORD, fields, values })))
}

/// The values of each object in an array of objects.
fn record_set(
    call: &Call<'_>,
    source: Source<'_>,
    fields: &[RecordField],
    base: Option<&Record>,
    name: &str,
) -> Result<Vec<Row>> {
    let Some(items) = source.items() else {
        return Err(if source.is_object() || matches!(source, Source::Tree(_)) {
            invalid(format!("cannot call {name} on a non-array"))
        } else {
            invalid(format!("cannot call {name} on a scalar"))
        });
    };
    items
        .into_iter()
        .map(|item| {
            if item.is_object() {
                record_values(call, item, fields, base)
            } else {
                Err(invalid(format!("argument of {name} must be an array of objects")))
            }
        })
        .collect()
}

fn to_record_set(call: &Call<'_>, args: &[Datum], name: &str) -> Result<Box<dyn RowStream>> {
    let fields = column_list(call, name)?;
    if args.is_null(0) {
        return Ok(Rows::boxed(Vec::new()));
    }
    Ok(Rows::boxed(with_source(args, 0, |source| record_set(call, source, &fields, None, name))?))
}

fn populate_set(call: &Call<'_>, args: &[Datum], name: &str) -> Result<Box<dyn RowStream>> {
    let (type_oid, fields, base) = base_record(call, args, name)?;
    if args.is_null(1) {
        return Ok(Rows::boxed(Vec::new()));
    }
    let rows = with_source(args, 1, |source| record_set(call, source, &fields, base, name))?;
    if !call.info.columns.is_empty() {
        return Ok(Rows::boxed(rows));
    }
    let records = rows
        .into_iter()
        .map(|values| Datum::Record(Arc::new(Record { type_oid, fields: fields.clone(), values })));
    Ok(Rows::of_values(records.collect::<Vec<_>>()))
}
