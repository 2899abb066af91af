//! Functions on text: `text`, `varchar`, `char(n)`, `name`, `"char"`.
//!
//! Positions and lengths count characters, from 1. `char(n)` comes blank-padded; what PostgreSQL's bodies take as
//! `bpchar` ignores the padding, what they take as `text` has lost it in a cast.

pub(crate) mod case;
pub(crate) mod cut;
pub(crate) mod format;
pub(crate) mod like;
pub(crate) mod quote;
pub(crate) mod split;

pub use cairn_types::quote::{quote_identifier, quote_literal};
pub(crate) use like::invalid_escape_string;
pub use like::{LikePattern, like};

use cairn_types::{Datum, Error, Result, Text, bail, err, io};

use crate::{Args, Call, ScalarFn};

/// PostgreSQL's largest value, 1 GB less a header.
const BYTES_MAX: usize = 0x3fff_fff8;

pub(crate) fn too_long() -> Error {
    err!(PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

pub(crate) fn int4(value: usize) -> Result<Datum> {
    i32::try_from(value)
        .map(Datum::Int4)
        .map_err(|_| err!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("textlen", |_, a| int4(a.str(0)?.chars().count())),
    ("textoctetlen", |_, a| int4(a.str(0)?.len())),
    ("bpcharlen", |_, a| int4(a.str(0)?.trim_end_matches(' ').chars().count())),
    ("bpcharoctetlen", |_, a| int4(a.str(0)?.len())),
    ("textcat", |_, a| {
        let (left, right) = (a.text(0)?, a.text(1)?);
        // The common appends to nothing, and of nothing, share the text.
        Ok(Datum::Text(match (left.is_empty(), right.is_empty()) {
            (true, _) => right.clone(),
            (_, true) => left.clone(),
            _ => Text::from([&**left, &**right].concat()),
        }))
    }),
    ("text_concat", concat),
    ("text_concat_ws", concat_ws),
    ("repeat", |_, a| {
        let count = usize::try_from(a.int4(1)?).unwrap_or(0);
        let text = a.str(0)?;
        match text.len().checked_mul(count) {
            Some(length) if length <= BYTES_MAX => Ok(Datum::text(text.repeat(count))),
            _ => Err(too_long()),
        }
    }),
    ("replace_text", |_, a| {
        let (text, from) = (a.text(0)?, a.str(1)?);
        if from.is_empty() || !text.contains(from) {
            return Ok(Datum::Text(text.clone()));
        }
        Ok(Datum::text(text.replace(from, a.str(2)?)))
    }),
    ("translate", |_, a| {
        let (from, to): (Vec<char>, Vec<char>) = (a.str(1)?.chars().collect(), a.str(2)?.chars().collect());
        let translated = a.str(0)?.chars().filter_map(|c| match from.iter().position(|f| *f == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        });
        Ok(Datum::text(translated.collect::<String>()))
    }),
    ("text_reverse", |_, a| Ok(Datum::text(a.str(0)?.chars().rev().collect::<String>()))),
    ("ascii", |_, a| Ok(Datum::Int4(a.str(0)?.chars().next().map_or(0, |c| c as i32)))),
    ("chr", chr),
    ("textpos", |_, a| {
        let (text, part) = (a.str(0)?, a.str(1)?);
        int4(text.find(part).map_or(0, |at| text[..at].chars().count() + 1))
    }),
    ("textoverlay", |_, a| {
        let length = a.int4(3)?;
        overlay(a.str(0)?, a.str(1)?, a.int4(2)?, length)
    }),
    ("textoverlay_no_len", |_, a| {
        let length = i32::try_from(a.str(1)?.chars().count()).unwrap_or(i32::MAX);
        overlay(a.str(0)?, a.str(1)?, a.int4(2)?, length)
    }),
    ("unistr", |_, a| unistr(a.str(0)?)),
    // Casts.
    ("bpchar", |_, a| modified(a, cairn_types::types::BPCHAR)),
    ("varchar", |_, a| modified(a, cairn_types::types::VARCHAR)),
    ("text_name", |_, a| Ok(Datum::text(io::clip_name(a.str(0)?)))),
    ("bpchar_name", |_, a| Ok(Datum::text(io::clip_name(a.str(0)?).trim_end_matches(' ')))),
    ("name_text", |_, a| Ok(Datum::Text(a.text(0)?.clone()))),
    ("name_bpchar", |_, a| Ok(Datum::Text(a.text(0)?.clone()))),
    ("char_text", |_, a| Ok(char_text(a.char(0)?))),
    ("char_bpchar", |_, a| Ok(char_text(a.char(0)?))),
    ("text_char", |_, a| Ok(Datum::Char(io::parse_char(a.str(0)?)))),
    ("nameconcatoid", |_, a| {
        let suffix = format!("_{}", a.oid(1)?);
        let mut name = a.str(0)?;
        while name.len() + suffix.len() > 63 {
            let end = name.char_indices().next_back().map_or(0, |(at, _)| at);
            name = &name[..end];
        }
        Ok(Datum::text(format!("{name}{suffix}")))
    }),
    ("unicode_normalize_func", |_, a| Ok(Datum::text(normalized(a.str(0)?, a.str(1)?)?))),
    ("unicode_is_normalized", |_, a| Ok(Datum::Bool(normalized(a.str(0)?, a.str(1)?)? == a.str(0)?))),
];

fn char_text(value: u8) -> Datum {
    let mut text = String::new();
    io::print_char(value, &mut text);
    Datum::text(text)
}

/// `varchar(value, typmod, explicit)` and the same of bpchar: the length coercion functions.
fn modified(args: &[Datum], type_oid: u32) -> Result<Datum> {
    io::apply_typmod(args.any(0).clone(), type_oid, args.int4(1)?, args.bool(2)?)
}

fn chr(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let code = args.int4(0)?;
    if code < 0 {
        bail!(INVALID_PARAMETER_VALUE, "character number must be positive");
    }
    if code == 0 {
        bail!(PROGRAM_LIMIT_EXCEEDED, "null character not permitted");
    }
    if code > 0x10_FFFF {
        bail!(PROGRAM_LIMIT_EXCEEDED, "requested character too large for encoding: {code}");
    }
    match char::from_u32(code as u32) {
        Some(character) => Ok(Datum::text(character.to_string())),
        None => bail!(PROGRAM_LIMIT_EXCEEDED, "requested character not valid for encoding: {code}"),
    }
}

/// The arguments of a function with `VARIADIC "any"` from `first` on, with their types: spread out if the call
/// passed them as an array. `None` if that array is null.
pub(crate) fn variadic_arguments<'a>(
    call: &Call<'_>,
    args: &'a [Datum],
    first: usize,
) -> Result<Option<Vec<(&'a Datum, u32)>>> {
    if !call.info.variadic {
        let types = call.info.arg_types.get(first..).unwrap_or_default();
        return Ok(Some(args.get(first..).unwrap_or_default().iter().zip(types.iter().copied()).collect()));
    }
    if args.is_null(first) {
        return Ok(None);
    }
    let array = args.array(first)?;
    Ok(Some(array.elements.iter().map(|element| (element, array.element_type)).collect()))
}

/// `concat`: the texts of all arguments that are not null.
fn concat(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let Some(values) = variadic_arguments(call, args, 0)? else {
        return Ok(Datum::Null);
    };
    let mut out = String::new();
    for (value, type_oid) in values {
        io::output(value, type_oid, call.env, &mut out)?;
    }
    Ok(Datum::text(out))
}

fn concat_ws(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    if args.is_null(0) {
        return Ok(Datum::Null);
    }
    let separator = args.str(0)?;
    let Some(values) = variadic_arguments(call, args, 1)? else {
        return Ok(Datum::Null);
    };
    let mut out = String::new();
    let mut first = true;
    for (value, type_oid) in values.into_iter().filter(|(value, _)| !value.is_null()) {
        if !first {
            out.push_str(separator);
        }
        first = false;
        io::output(value, type_oid, call.env, &mut out)?;
    }
    Ok(Datum::text(out))
}

/// Replaces `length` characters of `text` from `start` on.
fn overlay(text: &str, replacement: &str, start: i32, length: i32) -> Result<Datum> {
    if start <= 0 {
        bail!(SUBSTRING_ERROR, "negative substring length not allowed");
    }
    let Some(rest_from) = start.checked_add(length) else {
        bail!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    };
    let head = cut::substring(text, 1, Some(start - 1))?;
    let tail = cut::substring(text, rest_from, None)?;
    Ok(Datum::text([head, replacement, tail].concat()))
}

/// Resolves `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX`.
fn unistr(text: &str) -> Result<Datum> {
    let invalid = || {
        err!(SYNTAX_ERROR, "invalid Unicode escape")
            .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
    };
    let mut out = String::with_capacity(text.len());
    let mut high: Option<u32> = None;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if character != '\\' {
            if high.is_some() {
                bail!(SYNTAX_ERROR, "invalid Unicode surrogate pair");
            }
            out.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        rest = &rest[1..];
        if high.is_none() && rest.starts_with('\\') {
            out.push('\\');
            rest = &rest[1..];
            continue;
        }
        let (skip, digits) = match rest.chars().next() {
            Some('+') => (1, 6),
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            _ => (0, 4),
        };
        let hex = rest.get(skip..skip + digits).ok_or_else(invalid)?;
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let code = u32::from_str_radix(hex, 16).map_err(|_| invalid())?;
        rest = &rest[skip + digits..];
        match (code, high.take()) {
            (0xD800..=0xDBFF, None) => high = Some(code),
            (0xDC00..=0xDFFF, Some(high)) => {
                let combined = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                out.extend(char::from_u32(combined));
            }
            (0xD800..=0xDFFF, _) | (_, Some(_)) => bail!(SYNTAX_ERROR, "invalid Unicode surrogate pair"),
            (code, None) => match char::from_u32(code).filter(|c| *c != '\0') {
                Some(character) => out.push(character),
                None => bail!(SYNTAX_ERROR, "invalid Unicode code point: {code:04X}"),
            },
        }
    }
    if high.is_some() {
        bail!(SYNTAX_ERROR, "invalid Unicode surrogate pair");
    }
    Ok(Datum::text(out))
}

fn normalized(text: &str, form: &str) -> Result<String> {
    use unicode_normalization::UnicodeNormalization;
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => bail!(INVALID_PARAMETER_VALUE, "invalid normalization form: {form}"),
    })
}
