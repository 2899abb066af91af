//! Text forms of the types whose values have no parts: booleans, integers, oids, names, uuids, positions.

use super::{invalid_syntax, is_blank};
use crate::{Result, err};

fn trim_blanks(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii() && is_blank(c as u8))
}

/// Any unambiguous beginning of true, false, yes, no, on, off; or 1, 0.
pub fn parse_bool(text: &str) -> Result<bool> {
    let trimmed = trim_blanks(text);
    let is_start_of = |word: &str, least: usize| {
        trimmed.len() >= least
            && trimmed.len() <= word.len()
            && word[..trimmed.len()].eq_ignore_ascii_case(trimmed)
    };
    if trimmed.is_ascii() {
        if is_start_of("true", 1) || is_start_of("yes", 1) || is_start_of("on", 2) || trimmed == "1" {
            return Ok(true);
        }
        if is_start_of("false", 1) || is_start_of("no", 1) || is_start_of("off", 2) || trimmed == "0" {
            return Ok(false);
        }
    }
    Err(invalid_syntax("boolean", text))
}

/// `None` for what is not an integer; `Some(None)` for one that `i64` does not hold.
fn parse_decimal(text: &str) -> Option<Option<i64>> {
    let mut rest = trim_blanks(text).as_bytes();
    let negative = match rest.first()? {
        b'-' => {
            rest = &rest[1..];
            true
        }
        b'+' => {
            rest = &rest[1..];
            false
        }
        _ => false,
    };
    if rest.is_empty() {
        return None;
    }
    // Counted downwards, because the smallest number has no positive counterpart.
    let mut value = Some(0i64);
    for byte in rest {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        value = value.and_then(|value| value.checked_mul(10)?.checked_sub(digit));
    }
    Some(if negative { value } else { value.and_then(i64::checked_neg) })
}

fn parse_integer<T: TryFrom<i64>>(text: &str, type_name: &str) -> Result<T> {
    match parse_decimal(text) {
        None => Err(invalid_syntax(type_name, text)),
        Some(value) => value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
            err!(NUMERIC_VALUE_OUT_OF_RANGE, "value \"{text}\" is out of range for type {type_name}")
        }),
    }
}

pub fn parse_int2(text: &str) -> Result<i16> {
    parse_integer(text, "smallint")
}

pub fn parse_int4(text: &str) -> Result<i32> {
    parse_integer(text, "integer")
}

pub fn parse_int8(text: &str) -> Result<i64> {
    parse_integer(text, "bigint")
}

/// oid input; negative numbers down to the smallest integer wrap around, as they always did in PostgreSQL.
pub fn parse_oid(text: &str, type_name: &str) -> Result<u32> {
    match parse_decimal(text) {
        None => Err(invalid_syntax(type_name, text)),
        Some(Some(value)) if value >= i64::from(i32::MIN) && value <= i64::from(u32::MAX) => Ok(value as u32),
        Some(_) => {
            Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "value \"{text}\" is out of range for type {type_name}"))
        }
    }
}

/// The number that a text begins with, as C reads it: what follows is ignored.
fn leading_number(text: &str) -> u64 {
    let text = text.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match hexadecimal {
        Some(digits) => (digits, 16),
        None if digits.starts_with('0') => (digits, 8),
        None => (digits, 10),
    };
    // Past the largest number it stays there, whatever its sign.
    let value = digits
        .chars()
        .map_while(|c| c.to_digit(radix))
        .try_fold(0u64, |value, digit| value.checked_mul(radix.into())?.checked_add(digit.into()));
    let Some(value) = value else { return u64::MAX };
    if negative { value.wrapping_neg() } else { value }
}

/// xid and cid input never fails.
pub fn parse_xid(text: &str) -> u32 {
    leading_number(text) as u32
}

/// xid8 input never fails.
pub fn parse_xid8(text: &str) -> u64 {
    leading_number(text)
}

/// `"char"` input: the first byte, or an octal escape.
pub fn parse_char(text: &str) -> u8 {
    match text.as_bytes() {
        [b'\\', a @ b'0'..=b'7', b @ b'0'..=b'7', c @ b'0'..=b'7'] => {
            ((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0')
        }
        [first, ..] => *first,
        [] => 0,
    }
}

pub fn print_char(value: u8, out: &mut String) {
    match value {
        0 => {}
        1..=0x7F => out.push(char::from(value)),
        _ => {
            out.push('\\');
            for shift in [6, 3, 0] {
                out.push(char::from(b'0' + ((value >> shift) & 7)));
            }
        }
    }
}

/// A name is cut to 63 bytes, at a character's end.
pub fn clip_name(text: &str) -> &str {
    let mut end = text.len().min(63);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Hexadecimal digits, a hyphen allowed after each group of four, the whole in braces or not.
pub fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    parse_uuid_digits(text.as_bytes()).ok_or_else(|| invalid_syntax("uuid", text))
}

fn parse_uuid_digits(text: &[u8]) -> Option<[u8; 16]> {
    let mut rest = match text {
        [b'{', inner @ .., b'}'] => inner,
        [b'{', ..] => return None,
        plain => plain,
    };
    let mut uuid = [0u8; 16];
    for (index, byte) in uuid.iter_mut().enumerate() {
        let [high, low, tail @ ..] = rest else {
            return None;
        };
        *byte = (super::bytea::hex_digit(*high)? << 4) | super::bytea::hex_digit(*low)?;
        rest = tail;
        if index % 2 == 1
            && index < 15
            && let [b'-', tail @ ..] = rest
        {
            rest = tail;
        }
    }
    rest.is_empty().then_some(uuid)
}

pub fn print_uuid(uuid: &[u8; 16], out: &mut String) {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        super::bytea::push_hex(*byte, out);
    }
}

/// pg_lsn: two hexadecimal halves.
pub fn parse_lsn(text: &str) -> Result<u64> {
    let half = |digits: &str| {
        if (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            u64::from_str_radix(digits, 16).ok()
        } else {
            None
        }
    };
    text.split_once('/')
        .and_then(|(high, low)| Some((half(high)? << 32) | half(low)?))
        .ok_or_else(|| invalid_syntax("pg_lsn", text))
}

pub fn print_lsn(value: u64, out: &mut String) {
    out.push_str(&format!("{:X}/{:X}", value >> 32, value & 0xFFFF_FFFF));
}

/// tid as `(block,offset)`; Cairn's row number is the two halves put together, 16 bits of offset. A negative block
/// is the unsigned number with the same 32 bits.
pub fn parse_tid(text: &str) -> Result<u64> {
    let parts =
        text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).and_then(|rest| rest.split_once(','));
    parts
        .and_then(|(block, offset)| {
            let block = block.trim_start().parse::<i64>().ok()?;
            let block = match i32::try_from(block) {
                Ok(block) => u64::from(block as u32),
                Err(_) => u64::try_from(block).ok().filter(|block| *block < 1 << 48)?,
            };
            Some((block << 16) | u64::from(offset.trim_start().parse::<u16>().ok()?))
        })
        .ok_or_else(|| invalid_syntax("tid", text))
}

pub fn print_tid(value: u64, out: &mut String) {
    out.push_str(&format!("({},{})", value >> 16, value & 0xFFFF));
}
