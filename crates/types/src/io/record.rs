//! Composite values as text (manual, section 8.16): `(1,"a b",)`.

use std::sync::Arc;

use super::{input_at, is_blank, output};
use crate::{Datum, Env, Error, Oid, Record, RecordField, Result, err};

fn malformed(text: &str, detail: &str) -> Error {
    err!(INVALID_TEXT_REPRESENTATION, "malformed record literal: \"{text}\"").detail(detail)
}

/// Reads a composite value; `depth` is how deep this one is nested in others (0: not).
pub fn record_input(
    text: &str,
    type_oid: Oid,
    fields: &Arc<[RecordField]>,
    env: &dyn Env,
    depth: u32,
) -> Result<Datum> {
    let blank = |c: char| c.is_ascii() && is_blank(c as u8);
    let mut rest = text
        .trim_start_matches(blank)
        .strip_prefix('(')
        .ok_or_else(|| malformed(text, "Missing left parenthesis."))?;
    let mut values = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(',').ok_or_else(|| malformed(text, "Too few columns."))?;
        }
        if rest.starts_with([',', ')']) {
            values.push(super::null(field.type_oid, env)?);
            continue;
        }
        let (column, after) = read_column(text, rest)?;
        values.push(input_at(&column, field.type_oid, field.typmod, env, depth + 1)?);
        rest = after;
    }
    let Some(rest) = rest.strip_prefix(')') else {
        return Err(malformed(text, "Too many columns."));
    };
    if !rest.trim_start_matches(blank).is_empty() {
        return Err(malformed(text, "Junk after right parenthesis."));
    }
    Ok(Datum::Record(Arc::new(Record { type_oid, fields: fields.clone(), values })))
}

/// The text of one column, quotes and escapes resolved, and what follows it.
fn read_column<'a>(text: &str, column: &'a str) -> Result<(String, &'a str)> {
    let mut value = String::new();
    let mut in_quotes = false;
    let mut characters = column.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            ',' | ')' if !in_quotes => return Ok((value, &column[at..])),
            '\\' => match characters.next() {
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            '"' if !in_quotes => in_quotes = true,
            '"' => {
                if characters.next_if(|(_, next)| *next == '"').is_some() {
                    value.push('"');
                } else {
                    in_quotes = false;
                }
            }
            other => value.push(other),
        }
    }
    Err(malformed(text, "Unexpected end of input."))
}

/// Appends a composite value.
pub fn record_output(record: &Record, env: &dyn Env, out: &mut String) -> Result<()> {
    out.push('(');
    for (index, (value, field)) in record.values.iter().zip(record.fields.iter()).enumerate() {
        if index > 0 {
            out.push(',');
        }
        if value.is_null() {
            continue;
        }
        let start = out.len();
        output(value, field.type_oid, env, out)?;
        let text = &out[start..];
        let needs_quotes = text.is_empty()
            || text.bytes().any(|byte| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || is_blank(byte));
        if needs_quotes {
            let text = out.split_off(start);
            out.push('"');
            for character in text.chars() {
                if matches!(character, '"' | '\\') {
                    out.push(character);
                }
                out.push(character);
            }
            out.push('"');
        }
    }
    out.push(')');
    Ok(())
}
