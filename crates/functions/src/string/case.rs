//! Letter case. As in the C.UTF-8 collation each character is mapped by itself: where Unicode makes several
//! characters of one (upper case of ß), it stays.

use cairn_types::Datum;

use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("lower", |_, a| Ok(Datum::text(lower(a.str(0)?)))),
    ("upper", |_, a| Ok(Datum::text(upper(a.str(0)?)))),
    ("initcap", |_, a| {
        let mut in_word = false;
        let capitalized = a.str(0)?.chars().map(|c| {
            let mapped = if in_word { lower_char(c) } else { upper_char(c) };
            in_word = c.is_alphanumeric();
            mapped
        });
        Ok(Datum::text(capitalized.collect::<String>()))
    }),
];

pub fn lower_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

pub fn upper_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

pub fn lower(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().map(lower_char).collect() }
}

pub fn upper(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_uppercase() } else { text.chars().map(upper_char).collect() }
}
