//! Any SQL value as JSON: `to_json`, `to_jsonb`, `row_to_json`, `array_to_json`.

use cairn_types::{
    Array, DateStyle, Datum, FormatSettings, Jsonb, Numeric, Record, Result, Text, datetime, io, json, types,
};

use super::{invalid, jsonb};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("to_json", |call, a| one_argument(call, a)),
    ("to_jsonb", |call, a| Ok(jsonb(to_jsonb(call, a.any(0), argument_type(call, 0))?))),
    ("row_to_json", |call, a| one_argument(call, a)),
    ("array_to_json", |call, a| one_argument(call, a)),
    ("row_to_json_pretty", |call, a| {
        let mut out = String::new();
        record_json(call, a.record(0)?, a.bool(1)?, &mut out)?;
        Ok(Datum::text(out))
    }),
    ("array_to_json_pretty", |call, a| {
        let mut out = String::new();
        array_json(call, a.array(0)?, a.bool(1)?, &mut out)?;
        Ok(Datum::text(out))
    }),
];

pub(super) fn argument_type(call: &Call<'_>, i: usize) -> u32 {
    call.info.arg_types.get(i).copied().unwrap_or(types::UNKNOWN)
}

fn one_argument(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let mut out = String::new();
    push_json(call, args.any(0), argument_type(call, 0), &mut out)?;
    Ok(Datum::text(out))
}

/// Numbers that JSON can write as numbers.
fn is_finite_number(value: &Datum) -> bool {
    match value {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => true,
        Datum::Float4(value) => value.is_finite(),
        Datum::Float8(value) => value.is_finite(),
        Datum::Numeric(value) => value.is_finite(),
        _ => false,
    }
}

fn is_json_type(call: &Call<'_>, type_oid: u32) -> bool {
    type_oid == types::JSON
        || (type_oid >= cairn_types::oid::FIRST_USER_OID && base_type(call, type_oid) == types::JSON)
}

/// The base type of a domain, or the type itself.
pub(super) fn base_type(call: &Call<'_>, type_oid: u32) -> u32 {
    let mut oid = type_oid;
    // Domains over domains end somewhere.
    for _ in 0..64 {
        match call.env.type_shape(oid) {
            Some(cairn_types::TypeShape::Domain { base, .. }) => oid = base,
            _ => break,
        }
    }
    oid
}

/// Dates and times as XML Schema writes them, whatever DateStyle says. `None` for other values.
fn date_text(call: &Call<'_>, value: &Datum) -> Option<String> {
    let settings = FormatSettings { date_style: DateStyle::Iso, ..call.env.format().clone() };
    let mut text = String::new();
    match value {
        Datum::Date(days) => datetime::format_date(*days, &settings, &mut text),
        Datum::Timestamp(us) => datetime::format_timestamp(*us, &settings, &mut text),
        Datum::TimestampTz(us) => {
            datetime::format_timestamptz(*us, &settings, &mut text);
            let (moment, era) = match text.strip_suffix(" BC") {
                Some(moment) => (moment.to_owned(), " BC"),
                None => (text.clone(), ""),
            };
            // +02 becomes +02:00.
            let short = moment.len() >= 3
                && moment.as_bytes()[moment.len() - 3..].first().is_some_and(|c| matches!(c, b'+' | b'-'));
            text = format!("{moment}{}{era}", if short { ":00" } else { "" });
        }
        _ => return None,
    }
    if !matches!(value, Datum::Date(_)) {
        text = text.replacen(' ', "T", 1);
    }
    // A year before Christ ends the text as it does elsewhere.
    Some(text.strip_suffix("TBC").map(|moment| format!("{moment} BC")).unwrap_or(text))
}

/// Appends a value as `json`.
pub(crate) fn push_json(call: &Call<'_>, value: &Datum, type_oid: u32, out: &mut String) -> Result<()> {
    match value {
        Datum::Null => out.push_str("null"),
        Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Datum::Array(array) => array_json(call, array, false, out)?,
        Datum::Record(record) => record_json(call, record, false, out)?,
        Datum::Jsonb(value) => value.print(out),
        Datum::Text(text) if is_json_type(call, type_oid) => out.push_str(text),
        Datum::Text(text) => json::escape_into(text, out),
        number if is_finite_number(number) => io::output(number, type_oid, call.env, out)?,
        other => match date_text(call, other) {
            Some(text) => json::escape_into(&text, out),
            None => json::escape_into(&io::output_string(other, type_oid, call.env)?, out),
        },
    }
    Ok(())
}

fn array_json(call: &Call<'_>, array: &Array, line_feeds: bool, out: &mut String) -> Result<()> {
    if array.elements.is_empty() {
        out.push_str("[]");
        return Ok(());
    }
    let lengths: Vec<usize> = array.dimensions.iter().map(|dimension| dimension.length).collect();
    let mut elements = array.elements.iter();
    array_level(call, array.element_type, &lengths, &mut elements, line_feeds, out)
}

fn array_level(
    call: &Call<'_>,
    element_type: u32,
    lengths: &[usize],
    elements: &mut std::slice::Iter<'_, Datum>,
    line_feeds: bool,
    out: &mut String,
) -> Result<()> {
    let Some((length, inner)) = lengths.split_first() else {
        return Ok(());
    };
    out.push('[');
    for index in 0..*length {
        if index > 0 {
            out.push_str(if line_feeds { ",\n " } else { "," });
        }
        if !inner.is_empty() {
            // Only the outermost level is spread over lines.
            array_level(call, element_type, inner, elements, false, out)?;
        } else if let Some(element) = elements.next() {
            push_json(call, element, element_type, out)?;
        }
    }
    out.push(']');
    Ok(())
}

fn record_json(call: &Call<'_>, record: &Record, line_feeds: bool, out: &mut String) -> Result<()> {
    out.push('{');
    for (index, (value, field)) in record.values.iter().zip(record.fields.iter()).enumerate() {
        if index > 0 {
            out.push_str(if line_feeds { ",\n " } else { "," });
        }
        json::escape_into(&field.name, out);
        out.push(':');
        push_json(call, value, field.type_oid, out)?;
    }
    out.push('}');
    Ok(())
}

/// A value as `jsonb`.
pub(crate) fn to_jsonb(call: &Call<'_>, value: &Datum, type_oid: u32) -> Result<Jsonb> {
    Ok(match value {
        Datum::Null => Jsonb::Null,
        Datum::Bool(value) => Jsonb::Bool(*value),
        Datum::Int2(value) => Jsonb::number(Numeric::from(i64::from(*value))),
        Datum::Int4(value) => Jsonb::number(Numeric::from(i64::from(*value))),
        Datum::Int8(value) => Jsonb::number(Numeric::from(*value)),
        Datum::Numeric(value) if value.is_finite() => Jsonb::Number(value.clone()),
        Datum::Float4(_) | Datum::Float8(_) if is_finite_number(value) => {
            Jsonb::number(Numeric::parse(&io::output_string(value, type_oid, call.env)?)?)
        }
        Datum::Jsonb(value) => (**value).clone(),
        Datum::Text(text) if is_json_type(call, type_oid) => json::parse(text)?,
        Datum::Text(text) => Jsonb::String(text.clone()),
        Datum::Array(array) => {
            let lengths: Vec<usize> = array.dimensions.iter().map(|dimension| dimension.length).collect();
            let mut elements = array.elements.iter();
            if lengths.is_empty() {
                Jsonb::array(Vec::new())?
            } else {
                array_jsonb(call, array.element_type, &lengths, &mut elements)?
            }
        }
        Datum::Record(record) => {
            let mut members: Vec<(Text, Jsonb)> = Vec::with_capacity(record.values.len());
            for (value, field) in record.values.iter().zip(record.fields.iter()) {
                members.push((field.name.clone(), to_jsonb(call, value, field.type_oid)?));
            }
            Jsonb::object(members)?
        }
        other => match date_text(call, other) {
            Some(text) => Jsonb::string(text),
            None => Jsonb::string(io::output_string(other, type_oid, call.env)?),
        },
    })
}

fn array_jsonb(
    call: &Call<'_>,
    element_type: u32,
    lengths: &[usize],
    elements: &mut std::slice::Iter<'_, Datum>,
) -> Result<Jsonb> {
    let Some((length, inner)) = lengths.split_first() else {
        return Ok(Jsonb::Null);
    };
    let mut items = Vec::with_capacity(*length);
    for _ in 0..*length {
        if !inner.is_empty() {
            items.push(array_jsonb(call, element_type, inner, elements)?);
        } else if let Some(element) = elements.next() {
            items.push(to_jsonb(call, element, element_type)?);
        }
    }
    Jsonb::array(items)
}

/// A value as the key of an object: its text. Errors: 22023 for null and for values with parts.
pub(crate) fn key_text(call: &Call<'_>, value: &Datum, type_oid: u32) -> Result<String> {
    let composite = matches!(value, Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_));
    if composite || (matches!(value, Datum::Text(_)) && is_json_type(call, type_oid)) {
        return Err(invalid("key value must be scalar, not array, composite, or json"));
    }
    match (value, date_text(call, value)) {
        (Datum::Bool(value), _) => Ok(value.to_string()),
        (_, Some(text)) => Ok(text),
        (value, None) => io::output_string(value, type_oid, call.env),
    }
}
