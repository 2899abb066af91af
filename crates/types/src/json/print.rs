//! `jsonb` as text, plain and pretty.

use std::fmt::Write;

use super::Jsonb;

/// Appends a JSON string literal with its quotes.
pub fn escape_into(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

impl Jsonb {
    /// Appends the value as PostgreSQL prints jsonb: one line, a blank behind each comma and colon.
    pub fn print(&self, out: &mut String) {
        match self {
            Jsonb::Array(array) => {
                out.push('[');
                for (index, item) in array.items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    item.print(out);
                }
                out.push(']');
            }
            Jsonb::Object(object) => {
                out.push('{');
                for (index, (key, value)) in object.members.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    escape_into(key, out);
                    out.push_str(": ");
                    value.print(out);
                }
                out.push('}');
            }
            scalar => scalar.print_scalar(out),
        }
    }

    fn print_scalar(&self, out: &mut String) {
        match self {
            Jsonb::Null => out.push_str("null"),
            Jsonb::Bool(true) => out.push_str("true"),
            Jsonb::Bool(false) => out.push_str("false"),
            Jsonb::Number(number) => number.print(out),
            Jsonb::String(text) => escape_into(text, out),
            Jsonb::Array(_) | Jsonb::Object(_) => {}
        }
    }

    /// Appends the value as `jsonb_pretty` shows it: a line for each element, indented by four blanks a level.
    pub fn print_pretty(&self, out: &mut String) {
        self.pretty_at(0, out);
    }

    fn pretty_at(&self, level: usize, out: &mut String) {
        let line = |level: usize, out: &mut String| {
            out.push('\n');
            out.extend(std::iter::repeat_n("    ", level));
        };
        match self {
            Jsonb::Array(array) => {
                out.push('[');
                for (index, item) in array.items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    line(level + 1, out);
                    item.pretty_at(level + 1, out);
                }
                line(level, out);
                out.push(']');
            }
            Jsonb::Object(object) => {
                out.push('{');
                for (index, (key, value)) in object.members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    line(level + 1, out);
                    escape_into(key, out);
                    out.push_str(": ");
                    value.pretty_at(level + 1, out);
                }
                line(level, out);
                out.push('}');
            }
            scalar => scalar.print_scalar(out),
        }
    }

    /// The text of `->>`: strings without quotes; `None` for JSON null.
    pub fn to_plain_text(&self) -> Option<String> {
        match self {
            Jsonb::Null => None,
            Jsonb::String(text) => Some(text.to_string()),
            other => Some(other.to_string()),
        }
    }
}

impl std::fmt::Display for Jsonb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.print(&mut text);
        f.write_str(&text)
    }
}
