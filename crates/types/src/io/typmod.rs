//! Type modifiers: `varchar(3)`, `char(5)`, `numeric(10,2)`, `timestamp(0)`.

use std::sync::Arc;

use crate::{Array, Datum, Oid, Result, Text, datetime, err, types};

/// The cast of a value of a type to the same type with a modifier (-1: none). Text that is too long loses its
/// end in an explicit cast; otherwise only blanks may go (22001). Arrays apply it to each element.
pub fn apply_typmod(value: Datum, type_oid: Oid, typmod: i32, explicit_cast: bool) -> Result<Datum> {
    if typmod < 0 {
        return Ok(value);
    }
    Ok(match value {
        Datum::Text(text) if matches!(type_oid, types::VARCHAR | types::BPCHAR) => {
            return apply_to_text(text, type_oid, typmod, explicit_cast);
        }
        Datum::Numeric(number) => Datum::Numeric(Arc::new(number.apply_typmod(typmod)?)),
        Datum::Time(us) => Datum::Time(datetime::adjust_time(us, typmod)),
        Datum::TimeTz(mut time) => {
            time.time_us = datetime::adjust_time(time.time_us, typmod);
            Datum::TimeTz(time)
        }
        Datum::Timestamp(us) => Datum::Timestamp(datetime::adjust_timestamp(us, typmod)?),
        Datum::TimestampTz(us) => Datum::TimestampTz(datetime::adjust_timestamp(us, typmod)?),
        Datum::Interval(interval) => Datum::Interval(datetime::adjust_interval(interval, typmod)?),
        Datum::Array(array) => {
            let elements = array
                .elements
                .iter()
                .map(|element| apply_typmod(element.clone(), array.element_type, typmod, explicit_cast))
                .collect::<Result<Vec<_>>>()?;
            Datum::Array(Arc::new(Array {
                element_type: array.element_type,
                dimensions: array.dimensions.clone(),
                elements,
            }))
        }
        other => other,
    })
}

/// The greatest length that `char(n)` can have.
const LENGTH_MAX: usize = 10_485_760;

pub(super) fn apply_to_text(text: Text, type_oid: Oid, typmod: i32, explicit_cast: bool) -> Result<Datum> {
    // The modifier counts a four-byte header that PostgreSQL once had.
    let Some(length) = usize::try_from(typmod).ok().and_then(|typmod| typmod.checked_sub(4)) else {
        return Ok(Datum::Text(text));
    };
    let padded = type_oid == types::BPCHAR;
    // A text has at most as many characters as bytes.
    let characters = if text.len() <= length && !padded { text.len() } else { text.chars().count() };
    if characters > length {
        let cut = text.char_indices().nth(length).map_or(text.len(), |(at, _)| at);
        if !explicit_cast && text[cut..].bytes().any(|byte| byte != b' ') {
            let name = if padded { "character" } else { "character varying" };
            return Err(err!(STRING_DATA_RIGHT_TRUNCATION, "value too long for type {name}({length})"));
        }
        return Ok(Datum::text(&text[..cut]));
    }
    if padded && characters < length {
        if length > LENGTH_MAX {
            return Err(err!(PROGRAM_LIMIT_EXCEEDED, "requested length too large"));
        }
        let mut wide = String::with_capacity(text.len() + length - characters);
        wide.push_str(&text);
        wide.extend(std::iter::repeat_n(' ', length - characters));
        return Ok(Datum::text(wide));
    }
    Ok(Datum::Text(text))
}
