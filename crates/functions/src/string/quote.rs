//! Quoting for SQL text: identifiers and literals; taking qualified names apart.

use std::sync::Arc;

use cairn_types::{Array, Datum, Result, Text, bail, err, io, types};

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

/// PostgreSQL 15's keywords that cannot be column names without quotes, or only as type or function names;
/// and those that can be but are quoted by `quote_ident` all the same (all that are not "unreserved").
const QUOTED_KEYWORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// An identifier as it must be written in SQL: in double quotes only where it needs them.
pub fn quote_identifier(name: &str) -> String {
    let mut bytes = name.bytes();
    let plain = bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && QUOTED_KEYWORDS.binary_search(&name).is_err();
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A string literal; with backslashes in it, an `E''` one, which means the same whatever
/// `standard_conforming_strings` is.
pub fn quote_literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 3);
    if text.contains('\\') {
        out.push('E');
    }
    out.push('\'');
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            out.push(character);
        }
        out.push(character);
    }
    out.push('\'');
    out
}

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
            return Ok(parts.iter().map(|part| Text::from(io::clip_name(part))).collect());
        } else {
            bail!(INVALID_PARAMETER_VALUE, "string is not a valid identifier: \"{text}\"");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(QUOTED_KEYWORDS.is_sorted());
    }

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
