//! bytea as text: the hex format and the older escape format (manual, section 8.4).

use crate::{Result, err};

pub(super) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

pub(super) fn push_hex(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Appends two hexadecimal digits for each byte.
pub fn encode_hex_into(bytes: &[u8], out: &mut String) {
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        push_hex(*byte, out);
    }
}

/// Decodes pairs of hexadecimal digits; blanks between pairs are skipped. Errors: 22023.
pub fn decode_hex(text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len() / 2);
    let mut at = 0;
    let digit_at = |at: usize| {
        hex_digit(bytes[at]).ok_or_else(|| {
            let character = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('?');
            err!(INVALID_PARAMETER_VALUE, "invalid hexadecimal digit: \"{character}\"")
        })
    };
    while at < bytes.len() {
        if matches!(bytes[at], b' ' | b'\n' | b'\t' | b'\r') {
            at += 1;
            continue;
        }
        let high = digit_at(at)?;
        if at + 1 >= bytes.len() {
            return Err(err!(INVALID_PARAMETER_VALUE, "invalid hexadecimal data: odd number of digits"));
        }
        out.push((high << 4) | digit_at(at + 1)?);
        at += 2;
    }
    Ok(out)
}

pub fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => decode_hex(hex),
        None => decode_escape(text)
            .ok_or_else(|| err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea")),
    }
}

/// The escape format: `\\` and `\ooo`, other bytes as they are. `None` for a bad escape.
fn decode_escape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        if *byte != b'\\' {
            out.push(*byte);
            rest = tail;
            continue;
        }
        rest = match tail {
            [b'\\', tail @ ..] => {
                out.push(b'\\');
                tail
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                tail
            }
            _ => return None,
        };
    }
    Some(out)
}

pub fn print_bytea(bytes: &[u8], hex: bool, out: &mut String) {
    if hex {
        out.push_str("\\x");
        encode_hex_into(bytes, out);
        return;
    }
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7E => out.push(char::from(*byte)),
            _ => {
                out.push('\\');
                for shift in [6, 3, 0] {
                    out.push(char::from(b'0' + ((byte >> shift) & 7)));
                }
            }
        }
    }
}
