//! `format()`: `%s`, `%I`, `%L`, with position, width and left alignment (manual, section 9.4.1).

use cairn_types::{Datum, Error, Result, bail, err, io};

use super::{quote_identifier, quote_literal, variadic_arguments};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[("text_format", format), ("text_format_nv", format)];

struct Directive {
    /// Counted from 1; `None`: the next argument.
    position: Option<i32>,
    left: bool,
    width: Width,
    conversion: char,
}

enum Width {
    None,
    Fixed(i32),
    /// Taken from an argument, by position or the next one.
    Argument(Option<i32>),
}

fn format(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    if args.is_null(0) {
        return Ok(Datum::Null);
    }
    let template = args.str(0)?;
    let values =
        if args.len() > 1 { variadic_arguments(call, args, 1)?.unwrap_or_default() } else { Vec::new() };
    let mut next_argument = 0usize;
    let mut out = String::with_capacity(template.len() + 16);
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (directive, after) = parse(rest)?;
        rest = after;
        let mut fetch = |position: Option<i32>| -> Result<(&Datum, u32)> {
            let index = match position {
                Some(position) => position as usize - 1,
                None => next_argument,
            };
            next_argument = index + 1;
            values
                .get(index)
                .copied()
                .ok_or_else(|| err!(INVALID_PARAMETER_VALUE, "too few arguments for format()"))
        };
        let mut left = directive.left;
        let width = match directive.width {
            Width::None => 0,
            Width::Fixed(width) => width,
            Width::Argument(position) => {
                let (value, type_oid) = fetch(position)?;
                width_of(call, value, type_oid)?
            }
        };
        if width < 0 {
            left = true;
        }
        let (value, type_oid) = fetch(directive.position)?;
        let text = convert(call, directive.conversion, value, type_oid)?;
        let padding = (width.unsigned_abs() as usize).saturating_sub(text.chars().count());
        if padding > super::BYTES_MAX {
            return Err(super::too_long());
        }
        if !left {
            out.extend(std::iter::repeat_n(' ', padding));
        }
        out.push_str(&text);
        if left {
            out.extend(std::iter::repeat_n(' ', padding));
        }
    }
    out.push_str(rest);
    Ok(Datum::text(out))
}

fn width_of(call: &Call<'_>, value: &Datum, type_oid: u32) -> Result<i32> {
    match value {
        Datum::Null => Ok(0),
        Datum::Int4(width) => Ok(*width),
        Datum::Int2(width) => Ok(i32::from(*width)),
        other => io::parse_int4(&io::output_string(other, type_oid, call.env)?),
    }
}

fn convert(call: &Call<'_>, conversion: char, value: &Datum, type_oid: u32) -> Result<String> {
    if value.is_null() {
        return match conversion {
            's' => Ok(String::new()),
            'L' => Ok("NULL".to_owned()),
            _ => Err(err!(NULL_VALUE_NOT_ALLOWED, "null values cannot be formatted as an SQL identifier")),
        };
    }
    let text = io::output_string(value, type_oid, call.env)?;
    Ok(match conversion {
        'I' => quote_identifier(&text),
        'L' => quote_literal(&text),
        _ => text,
    })
}

fn unterminated() -> Error {
    err!(INVALID_PARAMETER_VALUE, "unterminated format() type specifier")
        .hint("For a single \"%\" use \"%%\".")
}

/// Reads digits; `None` if there are none.
fn digits(text: &str) -> Result<(Option<i32>, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    if end == 0 {
        return Ok((None, text));
    }
    let number =
        text[..end].parse::<i32>().map_err(|_| err!(NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"))?;
    let rest = &text[end..];
    if rest.is_empty() { Err(unterminated()) } else { Ok((Some(number), rest)) }
}

fn check_position(position: i32) -> Result<i32> {
    if position == 0 {
        bail!(INVALID_PARAMETER_VALUE, "format specifies argument 0, but arguments are numbered from 1");
    }
    Ok(position)
}

/// Parses what follows a `%`.
fn parse(text: &str) -> Result<(Directive, &str)> {
    if text.is_empty() {
        return Err(unterminated());
    }
    let mut directive = Directive { position: None, left: false, width: Width::None, conversion: 's' };
    let (number, mut rest) = digits(text)?;
    let mut width_read = false;
    if let Some(number) = number {
        if let Some(after) = rest.strip_prefix('$') {
            directive.position = Some(check_position(number)?);
            rest = after;
        } else {
            // A number without $ is the width; nothing but the conversion may follow.
            directive.width = Width::Fixed(number);
            width_read = true;
        }
    }
    if !width_read {
        while let Some(after) = rest.strip_prefix('-') {
            directive.left = true;
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('*') {
            let (number, after) = digits(after)?;
            directive.width = match number {
                Some(number) => {
                    rest = after.strip_prefix('$').ok_or_else(|| {
                        err!(INVALID_PARAMETER_VALUE, "width argument position must be ended by \"$\"")
                    })?;
                    Width::Argument(Some(check_position(number)?))
                }
                None => {
                    rest = after;
                    Width::Argument(None)
                }
            };
        } else {
            let (number, after) = digits(rest)?;
            if let Some(number) = number {
                directive.width = Width::Fixed(number);
                rest = after;
            }
        }
    }
    let Some(conversion) = rest.chars().next() else {
        return Err(unterminated());
    };
    if !matches!(conversion, 's' | 'I' | 'L') {
        return Err(err!(INVALID_PARAMETER_VALUE, "unrecognized format() type specifier \"{conversion}\"")
            .hint("For a single \"%\" use \"%%\"."));
    }
    directive.conversion = conversion;
    Ok((directive, &rest[conversion.len_utf8()..]))
}
