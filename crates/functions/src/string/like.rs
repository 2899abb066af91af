//! LIKE and ILIKE.
//!
//! A pattern is matched by characters with one point of return: when a later part fails, only the last `%` can
//! take in more, because an earlier one gains nothing from it. So a match costs at most text times pattern.

use cairn_types::{Datum, Error, Result, err};

use super::case::lower;
use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("textlike", |_, a| Ok(Datum::Bool(like(a.str(0)?, a.str(1)?)?))),
    ("textnlike", |_, a| Ok(Datum::Bool(!like(a.str(0)?, a.str(1)?)?))),
    ("namelike", |_, a| Ok(Datum::Bool(like(a.str(0)?, a.str(1)?)?))),
    ("namenlike", |_, a| Ok(Datum::Bool(!like(a.str(0)?, a.str(1)?)?))),
    ("texticlike", |_, a| Ok(Datum::Bool(ilike(a.str(0)?, a.str(1)?)?))),
    ("texticnlike", |_, a| Ok(Datum::Bool(!ilike(a.str(0)?, a.str(1)?)?))),
    ("nameiclike", |_, a| Ok(Datum::Bool(ilike(a.str(0)?, a.str(1)?)?))),
    ("nameicnlike", |_, a| Ok(Datum::Bool(!ilike(a.str(0)?, a.str(1)?)?))),
    ("bytealike", |_, a| Ok(Datum::Bool(like_bytes(a.bytea(0)?, a.bytea(1)?)?))),
    ("byteanlike", |_, a| Ok(Datum::Bool(!like_bytes(a.bytea(0)?, a.bytea(1)?)?))),
    ("like_escape", |_, a| Ok(Datum::text(like_escape(a.str(0)?, a.str(1)?)?))),
];

fn ends_with_escape() -> Error {
    err!(INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

pub(crate) fn invalid_escape_string() -> Error {
    err!(INVALID_ESCAPE_SEQUENCE, "invalid escape string")
        .hint("Escape string must be empty or one character.")
}

/// `text LIKE pattern`, the escape character being a backslash. Errors: 22025.
pub fn like(text: &str, pattern: &str) -> Result<bool> {
    matches::<true>(text.as_bytes(), pattern.as_bytes())
}

fn like_bytes(bytes: &[u8], pattern: &[u8]) -> Result<bool> {
    matches::<false>(bytes, pattern)
}

fn ilike(text: &str, pattern: &str) -> Result<bool> {
    like(&lower(text), &lower(pattern))
}

/// How many bytes `_` takes in here.
fn character_width<const UTF8: bool>(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(first) if UTF8 && *first >= 0x80 => (first.leading_ones() as usize).clamp(1, bytes.len()),
        _ => 1,
    }
}

fn matches<const UTF8: bool>(mut text: &[u8], mut pattern: &[u8]) -> Result<bool> {
    // Where to go on if what follows the last % does not fit: the pattern behind it, and the text it may skip.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let fits = match pattern {
            [b'%', rest @ ..] => {
                if rest.is_empty() {
                    return Ok(true);
                }
                retry = Some((rest, text));
                pattern = rest;
                continue;
            }
            [] if text.is_empty() => return Ok(true),
            [] => false,
            _ if text.is_empty() => return Ok(false),
            [b'_', rest @ ..] => {
                pattern = rest;
                text = &text[character_width::<UTF8>(text)..];
                true
            }
            [b'\\', rest @ ..] => {
                let [escaped, rest @ ..] = rest else {
                    return Err(ends_with_escape());
                };
                let same = text[0] == *escaped;
                if same {
                    (pattern, text) = (rest, &text[1..]);
                }
                same
            }
            [byte, rest @ ..] => {
                let same = text[0] == *byte;
                if same {
                    (pattern, text) = (rest, &text[1..]);
                }
                same
            }
        };
        if !fits {
            let Some((after, skipped)) = retry else {
                return Ok(false);
            };
            if skipped.is_empty() {
                return Ok(false);
            }
            let skipped = &skipped[character_width::<UTF8>(skipped)..];
            retry = Some((after, skipped));
            (pattern, text) = (after, skipped);
        }
    }
}

/// Rewrites a pattern with another escape character (or none) into one whose escape is the backslash.
fn like_escape(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let escape = match (characters.next(), characters.next()) {
        (None, _) => return Ok(pattern.replace('\\', "\\\\")),
        (Some('\\'), None) => return Ok(pattern.to_owned()),
        (Some(single), None) => single,
        _ => return Err(invalid_escape_string()),
    };
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut after_escape = false;
    for character in pattern.chars() {
        if character == escape && !after_escape {
            out.push('\\');
            after_escape = true;
        } else {
            // A backslash means itself here, unless the escape before it already says so.
            if character == '\\' && !after_escape {
                out.push('\\');
            }
            out.push(character);
            after_escape = false;
        }
    }
    Ok(out)
}

/// What a LIKE pattern says about the texts that match it, for index scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikePattern {
    /// Every match begins with this.
    pub prefix: String,
    /// The pattern has no wildcard: only the prefix itself matches.
    pub exact: bool,
}

impl LikePattern {
    pub fn of(pattern: &str) -> LikePattern {
        let mut prefix = String::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' | '_' => return LikePattern { prefix, exact: false },
                '\\' => match characters.next() {
                    Some(escaped) => prefix.push(escaped),
                    None => return LikePattern { prefix, exact: false },
                },
                other => prefix.push(other),
            }
        }
        LikePattern { prefix, exact: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%b%", true),
            ("abc", "_b_", true),
            ("aéc", "a_c", true),
            ("abc", "a_", false),
            ("", "%", true),
            ("", "_", false),
            ("abcabd", "%abd", true),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aaab", "%a%ab", true),
            ("mississippi", "%iss%ip%i", true),
        ] {
            assert_eq!(like(text, pattern).unwrap(), expected, "{text} like {pattern}");
        }
        assert!(like("ab", "a\\").is_err());
        assert!(!like("a", "a\\").unwrap());
        assert_eq!(like_escape("a#%b\\", "#").unwrap(), "a\\%b\\\\");
        assert_eq!(LikePattern::of("ab\\%c%d").prefix, "ab%c");
    }
}
