//! Parts of a text: substring, left and right, trimming and padding.

use cairn_types::{Datum, Result, bail};

use super::{BYTES_MAX, too_long};
use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("text_substr", |_, a| Ok(Datum::text(substring(a.str(0)?, a.int4(1)?, Some(a.int4(2)?))?))),
    ("text_substr_no_len", |_, a| Ok(Datum::text(substring(a.str(0)?, a.int4(1)?, None)?))),
    ("text_left", |_, a| {
        let text = a.str(0)?;
        let at = match a.int4(1)? {
            count if count >= 0 => byte_of_character(text, count as usize),
            count => byte_from_end(text, count.unsigned_abs() as usize),
        };
        Ok(Datum::text(&text[..at]))
    }),
    ("text_right", |_, a| {
        let text = a.str(0)?;
        let at = match a.int4(1)? {
            count if count >= 0 => byte_from_end(text, count as usize),
            count => byte_of_character(text, count.unsigned_abs() as usize),
        };
        Ok(Datum::text(&text[at..]))
    }),
    ("btrim", |_, a| {
        let set = a.str(1)?;
        Ok(Datum::text(a.str(0)?.trim_matches(|c| set.contains(c))))
    }),
    ("ltrim", |_, a| {
        let set = a.str(1)?;
        Ok(Datum::text(a.str(0)?.trim_start_matches(|c| set.contains(c))))
    }),
    ("rtrim", |_, a| {
        let set = a.str(1)?;
        Ok(Datum::text(a.str(0)?.trim_end_matches(|c| set.contains(c))))
    }),
    ("btrim1", |_, a| Ok(Datum::text(a.str(0)?.trim_matches(' ')))),
    ("ltrim1", |_, a| Ok(Datum::text(a.str(0)?.trim_start_matches(' ')))),
    // Also the cast of char(n) to text, where there is often nothing to trim.
    ("rtrim1", |_, a| {
        let text = a.text(0)?;
        let trimmed = text.trim_end_matches(' ');
        Ok(if trimmed.len() == text.len() { Datum::Text(text.clone()) } else { Datum::text(trimmed) })
    }),
    ("lpad", |_, a| {
        let (text, length, fill) = (a.str(0)?, a.int4(1)?, a.str(2)?);
        let (kept, padding) = pad(text, length, fill)?;
        Ok(Datum::text(padding + kept))
    }),
    ("rpad", |_, a| {
        let (text, length, fill) = (a.str(0)?, a.int4(1)?, a.str(2)?);
        let (kept, padding) = pad(text, length, fill)?;
        Ok(Datum::text(kept.to_owned() + &padding))
    }),
];

/// The byte where the character of this index (from 0) begins; the end if there are fewer.
fn byte_of_character(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// The byte where the last `count` characters begin.
fn byte_from_end(text: &str, count: usize) -> usize {
    if count == 0 {
        return text.len();
    }
    text.char_indices().rev().nth(count - 1).map_or(0, |(at, _)| at)
}

/// `substring(text from start for length)`: the window may begin before the text. Errors: 22011 for a negative
/// length.
pub fn substring(text: &str, start: i32, length: Option<i32>) -> Result<&str> {
    let from = i64::from(start);
    let end = match length {
        Some(length) if length < 0 => bail!(SUBSTRING_ERROR, "negative substring length not allowed"),
        Some(length) => Some(from + i64::from(length)),
        None => None,
    };
    let first = from.max(1) as usize - 1;
    let tail = &text[byte_of_character(text, first)..];
    match end {
        None => Ok(tail),
        Some(end) => {
            let count = usize::try_from(end - from.max(1)).unwrap_or(0);
            Ok(&tail[..byte_of_character(tail, count)])
        }
    }
}

/// What is kept of the text, and what fills it up to `length` characters.
fn pad<'a>(text: &'a str, length: i32, fill: &str) -> Result<(&'a str, String)> {
    let length = usize::try_from(length).unwrap_or(0);
    // The padding cannot be told before counting, but its most can: four bytes a character.
    if length > BYTES_MAX / 4 {
        return Err(too_long());
    }
    let have = text.chars().count();
    if have >= length {
        return Ok((&text[..byte_of_character(text, length)], String::new()));
    }
    Ok((text, fill.chars().cycle().take(length - have).collect()))
}
