//! Array literals (manual, section 8.15): reading, writing, and the older vector types.

use std::sync::Arc;

use super::{input_at, is_blank, output, parse_int2, parse_oid};
use crate::{Array, Datum, Dimension, Env, Error, Oid, Result, TypeShape, err, types};

/// PostgreSQL's limit on dimensions.
pub const DIMENSIONS_MAX: usize = 6;

fn malformed(text: &str, detail: &str) -> Error {
    err!(INVALID_TEXT_REPRESENTATION, "malformed array literal: \"{text}\"").detail(detail)
}

fn too_many_dimensions(count: usize) -> Error {
    err!(
        PROGRAM_LIMIT_EXCEEDED,
        "number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
    )
}

pub(super) fn array_input(
    text: &str,
    element_type: Oid,
    delimiter: char,
    typmod: i32,
    env: &dyn Env,
    depth: u32,
) -> Result<Datum> {
    let (bounds, body) = read_bounds(text)?;
    if !body.starts_with('{') {
        return Err(malformed(
            text,
            if bounds.is_some() {
                "Array contents must start with \"{\"."
            } else {
                "Array value must start with \"{\" or dimension information."
            },
        ));
    }
    let mut reader = Reader { text, body, delimiter, elements: Vec::new(), lengths: Vec::new() };
    reader.read()?;
    let lengths = if reader.elements.is_empty() { Vec::new() } else { reader.lengths };
    let dimensions = match bounds {
        None => lengths.iter().map(|length| Dimension { length: *length, lower_bound: 1 }).collect(),
        Some(bounds) => {
            if bounds.len() != lengths.len()
                || bounds.iter().zip(&lengths).any(|(bound, length)| bound.length != *length)
            {
                return Err(malformed(text, "Specified array dimensions do not match array contents."));
            }
            bounds
        }
    };
    let elements = reader
        .elements
        .into_iter()
        .map(|element| match element {
            Some(element) => input_at(&element, element_type, typmod, env, depth + 1),
            None => super::null(element_type, env),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Datum::Array(Arc::new(Array { element_type, dimensions, elements })))
}

/// Reads `[l:u][l:u]...=` where it is there; returns the rest without leading blanks.
fn read_bounds(text: &str) -> Result<(Option<Vec<Dimension>>, &str)> {
    let mut rest = skip_blanks(text);
    let mut bounds: Vec<Dimension> = Vec::new();
    while let Some(inner) = rest.strip_prefix('[') {
        if bounds.len() >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(bounds.len() + 1));
        }
        let missing = || malformed(text, "Missing array dimension value.");
        let (first, after) = read_integer(inner)
            .ok_or_else(|| malformed(text, "\"[\" must introduce explicitly-specified array dimensions."))?;
        let (lower, upper, after) = match after.strip_prefix(':') {
            Some(after) => {
                let (upper, after) = read_integer(after).ok_or_else(missing)?;
                (first, upper, after)
            }
            None => (1, first, after),
        };
        rest = after
            .strip_prefix(']')
            .ok_or_else(|| malformed(text, "Missing \"]\" after array dimensions."))?;
        rest = skip_blanks(rest);
        if upper < lower {
            return Err(err!(ARRAY_SUBSCRIPT_ERROR, "upper bound cannot be less than lower bound"));
        }
        let (Ok(length), Ok(lower_bound)) = (usize::try_from(upper - lower + 1), i32::try_from(lower)) else {
            return Err(err!(PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed (134217727)"));
        };
        if i32::try_from(upper).is_err() || upper == i64::from(i32::MAX) {
            return Err(err!(PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed (134217727)"));
        }
        bounds.push(Dimension { length, lower_bound });
    }
    if bounds.is_empty() {
        return Ok((None, rest));
    }
    let rest =
        rest.strip_prefix('=').ok_or_else(|| malformed(text, "Missing \"=\" after array dimensions."))?;
    Ok((Some(bounds), skip_blanks(rest)))
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8))
}

fn read_integer(text: &str) -> Option<(i64, &str)> {
    let digits_from = usize::from(text.starts_with(['+', '-']));
    let digits = text[digits_from..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let (number, rest) = text.split_at(digits_from + digits);
    Some((number.parse::<i64>().unwrap_or(i64::MAX), rest))
}

/// What stands before the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    LevelStarted,
    ElementDone,
    ElementDelimited,
    LevelDone,
    LevelDelimited,
}

struct Reader<'a> {
    text: &'a str,
    body: &'a str,
    delimiter: char,
    /// Elements in row-major order; `None` is null.
    elements: Vec<Option<String>>,
    /// The length of each dimension, known once its first list has ended.
    lengths: Vec<usize>,
}

impl Reader<'_> {
    fn malformed(&self, detail: &str) -> Error {
        malformed(self.text, detail)
    }

    fn unexpected(&self, character: char) -> Error {
        self.malformed(&format!("Unexpected \"{character}\" character."))
    }

    fn read(&mut self) -> Result<()> {
        let mut state = State::Start;
        // How many elements each open level has so far.
        let mut counts: Vec<usize> = Vec::new();
        let mut known: Vec<Option<usize>> = Vec::new();
        // The depth at which elements stand.
        let mut leaf_depth: Option<usize> = None;
        let mut rest = self.body;
        loop {
            let Some(character) = rest.chars().next() else {
                return Err(self.malformed("Unexpected end of input."));
            };
            if character.is_ascii() && is_blank(character as u8) {
                rest = &rest[1..];
                continue;
            }
            match character {
                '{' => {
                    if !matches!(state, State::Start | State::LevelStarted | State::LevelDelimited) {
                        return Err(self.unexpected('{'));
                    }
                    if counts.len() >= DIMENSIONS_MAX {
                        return Err(too_many_dimensions(counts.len() + 1));
                    }
                    if leaf_depth.is_some_and(|depth| counts.len() >= depth) {
                        return Err(self.mismatch());
                    }
                    counts.push(0);
                    if known.len() < counts.len() {
                        known.push(None);
                    }
                    state = State::LevelStarted;
                    rest = &rest[1..];
                }
                '}' => {
                    let empty = state == State::LevelStarted && counts.len() == 1;
                    if !matches!(state, State::ElementDone | State::LevelDone) && !empty {
                        return Err(self.unexpected('}'));
                    }
                    let Some(count) = counts.pop() else {
                        return Err(self.malformed("Unmatched \"}\" character."));
                    };
                    let level = counts.len();
                    match known[level] {
                        Some(length) if length != count => return Err(self.mismatch()),
                        _ => known[level] = Some(count),
                    }
                    rest = &rest[1..];
                    match counts.last_mut() {
                        Some(outer) => *outer += 1,
                        None => break,
                    }
                    state = State::LevelDone;
                }
                character if character == self.delimiter => {
                    state = match state {
                        State::ElementDone => State::ElementDelimited,
                        State::LevelDone => State::LevelDelimited,
                        _ => return Err(self.unexpected(character)),
                    };
                    rest = &rest[character.len_utf8()..];
                }
                _ => {
                    if !matches!(state, State::LevelStarted | State::ElementDelimited) {
                        return Err(if character == '\\' {
                            self.unexpected('\\')
                        } else {
                            self.malformed("Unexpected array element.")
                        });
                    }
                    if *leaf_depth.get_or_insert(counts.len()) != counts.len() {
                        return Err(self.mismatch());
                    }
                    rest = self.element(rest)?;
                    if let Some(count) = counts.last_mut() {
                        *count += 1;
                    }
                    state = State::ElementDone;
                }
            }
        }
        if !skip_blanks(rest).is_empty() {
            return Err(self.malformed("Junk after closing right brace."));
        }
        self.lengths = known.into_iter().map(|length| length.unwrap_or(0)).collect();
        Ok(())
    }

    fn mismatch(&self) -> Error {
        self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.")
    }

    /// Reads one element and returns what follows it.
    fn element<'t>(&mut self, text: &'t str) -> Result<&'t str> {
        let mut value = String::new();
        let mut quoted = false;
        if let Some(inner) = text.strip_prefix('"') {
            let mut characters = inner.char_indices();
            while let Some((at, character)) = characters.next() {
                match character {
                    '"' => {
                        self.elements.push(Some(value));
                        let rest = &inner[at + 1..];
                        return match skip_blanks(rest).chars().next() {
                            Some(next)
                                if next == '"' || next == '\\' || next == '{' || !self.is_special(next) =>
                            {
                                Err(if matches!(next, '\\' | '{') {
                                    self.unexpected(next)
                                } else {
                                    self.malformed("Unexpected array element.")
                                })
                            }
                            _ => Ok(rest),
                        };
                    }
                    '\\' => match characters.next() {
                        Some((_, escaped)) => value.push(escaped),
                        None => break,
                    },
                    other => value.push(other),
                }
            }
            return Err(self.malformed("Unexpected end of input."));
        }
        // Blanks at the end count only where escaped.
        let mut kept = 0;
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    quoted = true;
                    match characters.next() {
                        Some((_, escaped)) => value.push(escaped),
                        None => break,
                    }
                    kept = value.len();
                }
                '"' => return Err(self.malformed("Unexpected array element.")),
                '{' => return Err(self.unexpected('{')),
                '}' => {
                    self.push_unquoted(value, kept, quoted);
                    return Ok(&text[at..]);
                }
                other if other == self.delimiter => {
                    self.push_unquoted(value, kept, quoted);
                    return Ok(&text[at..]);
                }
                other => {
                    value.push(other);
                    if !(other.is_ascii() && is_blank(other as u8)) {
                        kept = value.len();
                    }
                }
            }
        }
        Err(self.malformed("Unexpected end of input."))
    }

    fn is_special(&self, character: char) -> bool {
        matches!(character, '{' | '}') || character == self.delimiter
    }

    fn push_unquoted(&mut self, mut value: String, kept: usize, quoted: bool) {
        value.truncate(kept);
        let is_null = !quoted && value.eq_ignore_ascii_case("null");
        self.elements.push((!is_null).then_some(value));
    }
}

/// Appends an array literal. `type_oid` is the array's own type, which decides the delimiter.
pub fn array_output(array: &Array, type_oid: Oid, env: &dyn Env, out: &mut String) -> Result<()> {
    if matches!(type_oid, types::INT2VECTOR | types::OIDVECTOR) {
        for (index, element) in array.elements.iter().enumerate() {
            if index > 0 {
                out.push(' ');
            }
            output(element, array.element_type, env, out)?;
        }
        return Ok(());
    }
    // Only arrays of box, which Cairn does not have, are delimited by anything but a comma; other base types
    // need no look at the catalog.
    let delimiter = if array.element_type < crate::oid::FIRST_USER_OID {
        ','
    } else {
        match env.type_shape(type_oid) {
            Some(TypeShape::Array { delimiter, .. }) => delimiter,
            _ => ',',
        }
    };
    if array.elements.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    if array.dimensions.iter().any(|dimension| dimension.lower_bound != 1) {
        for dimension in &array.dimensions {
            let upper = i64::from(dimension.lower_bound) + dimension.length as i64 - 1;
            out.push_str(&format!("[{}:{upper}]", dimension.lower_bound));
        }
        out.push('=');
    }
    let mut elements = array.elements.iter();
    print_level(array, 0, &mut elements, delimiter, env, out)
}

fn print_level(
    array: &Array,
    level: usize,
    elements: &mut std::slice::Iter<'_, Datum>,
    delimiter: char,
    env: &dyn Env,
    out: &mut String,
) -> Result<()> {
    out.push('{');
    let length = array.dimensions.get(level).map_or(0, |dimension| dimension.length);
    for index in 0..length {
        if index > 0 {
            out.push(delimiter);
        }
        if level + 1 < array.dimensions.len() {
            print_level(array, level + 1, elements, delimiter, env, out)?;
        } else if let Some(element) = elements.next() {
            array_element_output(element, array.element_type, delimiter, env, out)?;
        }
    }
    out.push('}');
    Ok(())
}

/// Appends one element, quoted where it must be.
pub fn array_element_output(
    element: &Datum,
    element_type: Oid,
    delimiter: char,
    env: &dyn Env,
    out: &mut String,
) -> Result<()> {
    if element.is_null() {
        out.push_str("NULL");
        return Ok(());
    }
    let start = out.len();
    output(element, element_type, env, out)?;
    // Numbers never need quotes.
    if matches!(element, Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Bool(_) | Datum::Oid(_) if !super::is_reg_type(element_type))
    {
        return Ok(());
    }
    let text = &out[start..];
    let needs_quotes = text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.chars().any(|c| {
            matches!(c, '"' | '\\' | '{' | '}') || c == delimiter || (c.is_ascii() && is_blank(c as u8))
        });
    if needs_quotes {
        let text = out.split_off(start);
        out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
        out.push('"');
    }
    Ok(())
}

/// int2vector and oidvector: numbers with blanks between, counted from 0.
pub(super) fn vector_input(text: &str, type_oid: Oid) -> Result<Datum> {
    let is_int2 = type_oid == types::INT2VECTOR;
    let elements =
        text.split(|c: char| c.is_ascii() && is_blank(c as u8))
            .filter(|part| !part.is_empty())
            .map(|part| {
                if is_int2 {
                    parse_int2(part).map(Datum::Int2)
                } else {
                    parse_oid(part, "oid").map(Datum::Oid)
                }
            })
            .collect::<Result<Vec<_>>>()?;
    let element_type = if is_int2 { types::INT2 } else { types::OID };
    let dimensions = vec![Dimension { length: elements.len(), lower_bound: 0 }];
    Ok(Datum::Array(Arc::new(Array { element_type, dimensions, elements })))
}
