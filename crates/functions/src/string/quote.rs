//! Quoting for SQL text as SQL functions ([`cairn_types::quote`] does it); taking qualified names apart.

use std::sync::Arc;

use cairn_types::quote::{quote_identifier, quote_literal};
use cairn_types::{Array, Datum, Result, Text, bail, err, types};

use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("quote_ident", |_, a| Ok(Datum::text(quote_identifier(a.str(0)?)))),
    ("quote_literal", |_, a| Ok(Datum::text(quote_literal(a.str(0)?)))),
    ("quote_nullable", |_, a| {
        Ok(Datum::text(if a.is_null(0) { "NULL".to_owned() } else { quote_literal(a.str(0)?) }))
    }),
    ("parse_ident", |_, a| {
        let parts = parse_ident(a.str(0)?, a.bool(1)?)?;
        let elements = parts.into_iter().map(Datum::text).collect();
        Ok(Datum::Array(Arc::new(Array::from_elements(types::TEXT, elements))))
    }),
];

/// Splits a qualified name into its identifiers, folding those without quotes to lower case.
fn parse_ident(text: &str, strict: bool) -> Result<Vec<Text>> {
    let invalid = || err!(INVALID_PARAMETER_VALUE, "string is not a valid identifier: \"{text}\"");
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    loop {
        let mut missing = false;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut characters = quoted.char_indices().peekable();
            let end = loop {
                match characters.next() {
                    Some((_, '"')) if characters.next_if(|(_, next)| *next == '"').is_some() => {
                        part.push('"')
                    }
                    Some((at, '"')) => break at,
                    Some((_, other)) => part.push(other),
                    None => return Err(invalid().detail("String has unclosed double quotes.")),
                }
            };
            if part.is_empty() {
                return Err(invalid().detail("Quoted identifier must not be empty."));
            }
            parts.push(Text::from(part));
            rest = &quoted[end + 1..];
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()) {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()))
                .unwrap_or(rest.len());
            parts.push(Text::from(rest[..end].to_ascii_lowercase()));
            rest = &rest[end..];
        } else {
            missing = true;
        }
        if missing {
            if rest.starts_with('.') {
                return Err(invalid().detail("No valid identifier before \".\"."));
            }
            if !parts.is_empty() {
                return Err(invalid().detail("No valid identifier after \".\"."));
            }
            return Err(invalid());
        }
        rest = rest.trim_start_matches(blank);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after.trim_start_matches(blank);
        } else if rest.is_empty() || !strict {
            return Ok(parts);
        } else {
            bail!(INVALID_PARAMETER_VALUE, "string is not a valid identifier: \"{text}\"");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(quote_identifier("abc_1"), "abc_1");
        assert_eq!(quote_identifier("Abc"), "\"Abc\"");
        assert_eq!(quote_identifier("select"), "\"select\"");
        assert_eq!(quote_identifier(""), "\"\"");
        assert_eq!(quote_literal("a'b"), "'a''b'");
        assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
    }
}
