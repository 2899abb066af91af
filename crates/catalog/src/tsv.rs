//! Reader of the embedded data files: COPY text format under a header line with column names.

use std::borrow::Cow;

/// A data file, split into lines and fields. `None` is a null.
pub(crate) struct Tsv {
    pub header: Vec<&'static str>,
    lines: std::str::Lines<'static>,
}

impl Tsv {
    pub fn new(text: &'static str) -> Self {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or("").split('\t').collect();
        Tsv { header, lines }
    }
}

impl Iterator for Tsv {
    type Item = Vec<Option<Cow<'static, str>>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.lines.next()?.split('\t').map(field).collect())
    }
}

fn field(text: &'static str) -> Option<Cow<'static, str>> {
    if text == "\\N" {
        return None;
    }
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    Some(Cow::Owned(plain))
}
