//! Texts to arrays and rows and back.

use std::sync::Arc;

use cairn_types::{Array, Datum, Result, Text, bail, io, types};

use crate::{Args, Call, RowStream, Rows, ScalarFn, SetFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("split_part", |_, a| split_part(a.str(0)?, a.str(1)?, a.int4(2)?)),
    ("text_to_array", text_to_array),
    ("text_to_array_null", text_to_array),
    ("array_to_text", |call, a| array_to_text(call, a, None)),
    ("array_to_text_null", |call, a| {
        if a.is_null(0) || a.is_null(1) {
            return Ok(Datum::Null);
        }
        let null_text = if a.is_null(2) { None } else { Some(a.str(2)?) };
        array_to_text(call, a, null_text)
    }),
];

pub const SET_BODIES: &[(&str, SetFn)] =
    &[("text_to_table", text_to_table), ("text_to_table_null", text_to_table)];

fn split_part(text: &str, separator: &str, field: i32) -> Result<Datum> {
    if field == 0 {
        bail!(INVALID_PARAMETER_VALUE, "field position must not be zero");
    }
    let index = field.unsigned_abs() as usize - 1;
    // Without a separator the whole text is the first field and the last.
    let part = if separator.is_empty() {
        (index == 0).then_some(text)
    } else if field > 0 {
        text.split(separator).nth(index)
    } else {
        // Fields are counted from the end, but found from the beginning: separators may overlap.
        let parts: Vec<&str> = text.split(separator).collect();
        parts.len().checked_sub(index + 1).and_then(|at| parts.get(at).copied())
    };
    Ok(Datum::text(part.unwrap_or("")))
}

/// The fields of `string_to_array(text, separator [, null text])`; `None` if there is no text.
fn fields(args: &[Datum]) -> Result<Option<Vec<Datum>>> {
    if args.is_null(0) {
        return Ok(None);
    }
    let text = args.str(0)?;
    let null_text = if args.is_null(2) { None } else { Some(args.str(2)?) };
    let field = |part: &str| {
        if null_text == Some(part) { Datum::Null } else { Datum::Text(Text::from(part)) }
    };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    if args.is_null(1) {
        let mut buffer = [0; 4];
        return Ok(Some(text.chars().map(|c| field(c.encode_utf8(&mut buffer))).collect()));
    }
    let separator = args.str(1)?;
    if separator.is_empty() {
        return Ok(Some(vec![field(text)]));
    }
    Ok(Some(text.split(separator).map(field).collect()))
}

fn text_to_array(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(match fields(args)? {
        None => Datum::Null,
        Some(elements) => Datum::Array(Arc::new(Array::from_elements(types::TEXT, elements))),
    })
}

fn text_to_table(_: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    Ok(Rows::of_values(fields(args)?.unwrap_or_default()))
}

/// `array_to_string`: elements of all dimensions in one row; nulls are left out unless there is a text for them.
fn array_to_text(call: &Call<'_>, args: &[Datum], null_text: Option<&str>) -> Result<Datum> {
    let array = args.array(0)?;
    let separator = args.str(1)?;
    let mut out = String::new();
    let mut first = true;
    for element in &array.elements {
        if element.is_null() && null_text.is_none() {
            continue;
        }
        if !first {
            out.push_str(separator);
        }
        first = false;
        match null_text {
            Some(null_text) if element.is_null() => out.push_str(null_text),
            _ => io::output(element, array.element_type, call.env, &mut out)?,
        }
    }
    Ok(Datum::text(out))
}
