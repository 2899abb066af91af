//! `numeric` as text.

use std::fmt;

use num_bigint::BigInt;
use num_traits::Signed;

use super::{Finite, Numeric, Repr, SCALE_MAX, big_power_of_ten, overflow, power_of_ten};
use crate::{Result, err};

impl Numeric {
    /// Reads PostgreSQL's input syntax: blanks around, sign, digits with an optional point and exponent, `NaN`,
    /// `Infinity`, `inf`. Errors: 22P02, and 22003 for what the format cannot hold.
    pub fn parse(text: &str) -> Result<Numeric> {
        match parse_finite(text.as_bytes()) {
            Parsed::Number(number) => Ok(number),
            Parsed::Overflow => Err(overflow()),
            Parsed::Other => parse_special(text).ok_or_else(|| {
                err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type numeric: \"{text}\"")
            }),
        }
    }

    /// Appends the value as PostgreSQL prints it.
    pub fn print(&self, out: &mut String) {
        match &self.0 {
            Repr::NaN => out.push_str("NaN"),
            Repr::PositiveInfinity => out.push_str("Infinity"),
            Repr::NegativeInfinity => out.push_str("-Infinity"),
            Repr::Small { coefficient, scale } => {
                if *coefficient < 0 {
                    out.push('-');
                }
                let magnitude = coefficient.unsigned_abs();
                let mut buffer = itoa::Buffer::new();
                let digits = match u64::try_from(magnitude) {
                    Ok(word) => buffer.format(word),
                    Err(_) => buffer.format(magnitude),
                };
                print_digits(digits, *scale, out);
            }
            Repr::Big { coefficient, scale } => {
                if coefficient.is_negative() {
                    out.push('-');
                }
                print_digits(&coefficient.magnitude().to_str_radix(10), *scale, out);
            }
        }
    }
}

fn print_digits(digits: &str, scale: u16, out: &mut String) {
    let scale = usize::from(scale);
    if scale == 0 {
        out.push_str(digits);
    } else if digits.len() > scale {
        let (integer, fraction) = digits.split_at(digits.len() - scale);
        out.push_str(integer);
        out.push('.');
        out.push_str(fraction);
    } else {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', scale - digits.len()));
        out.push_str(digits);
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.print(&mut text);
        f.write_str(&text)
    }
}

enum Parsed {
    Number(Numeric),
    Overflow,
    /// Not a number of digits.
    Other,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

fn parse_special(text: &str) -> Option<Numeric> {
    let text = text.trim_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    let (negative, name) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if name.eq_ignore_ascii_case("infinity") || name.eq_ignore_ascii_case("inf") {
        return Some(if negative { Numeric::NEG_INFINITY } else { Numeric::INFINITY });
    }
    text.eq_ignore_ascii_case("nan").then_some(Numeric::NAN)
}

fn parse_finite(bytes: &[u8]) -> Parsed {
    let mut rest = trim(bytes);
    let negative = match rest.first() {
        Some(b'-') => {
            rest = &rest[1..];
            true
        }
        Some(b'+') => {
            rest = &rest[1..];
            false
        }
        _ => false,
    };
    // The digits, the point taken out, as a number where they are few and as text where they are many.
    let mut small: i128 = 0;
    let mut significant = 0usize;
    let mut long: Vec<u8> = Vec::new();
    let mut digits_seen = 0usize;
    let mut scale: i64 = 0;
    let mut point_seen = false;
    let mut at = 0;
    while let Some(&byte) = rest.get(at) {
        match byte {
            b'0'..=b'9' => {
                digits_seen += 1;
                if significant > 0 || byte != b'0' {
                    significant += 1;
                }
                if significant <= 38 {
                    small = small * 10 + i128::from(byte - b'0');
                } else {
                    if long.is_empty() {
                        long.extend_from_slice(small.to_string().as_bytes());
                    }
                    long.push(byte);
                }
                if point_seen {
                    scale += 1;
                }
            }
            b'.' if !point_seen => point_seen = true,
            _ => break,
        }
        at += 1;
    }
    if digits_seen == 0 {
        return Parsed::Other;
    }
    let mut exponent: i64 = 0;
    if let Some(b'e' | b'E') = rest.get(at) {
        at += 1;
        let exponent_negative = match rest.get(at) {
            Some(b'-') => {
                at += 1;
                true
            }
            Some(b'+') => {
                at += 1;
                false
            }
            _ => false,
        };
        let start = at;
        while let Some(byte @ b'0'..=b'9') = rest.get(at) {
            exponent = (exponent * 10 + i64::from(byte - b'0')).min(1 << 40);
            at += 1;
        }
        if at == start {
            return Parsed::Other;
        }
        if exponent_negative {
            exponent = -exponent;
        }
    }
    if at != rest.len() {
        return Parsed::Other;
    }
    if exponent.abs() >= i64::from(i32::MAX / 2) {
        return Parsed::Overflow;
    }
    scale -= exponent;
    let is_zero = small == 0 && long.is_empty();
    if scale > i64::from(SCALE_MAX)
        || (!is_zero && significant as i64 - scale > super::INTEGER_DIGITS_MAX as i64)
    {
        return Parsed::Overflow;
    }
    let shift = (-scale).max(0) as u32;
    let scale = scale.max(0) as u16;
    if is_zero {
        return Parsed::Number(Numeric::new(0, scale));
    }
    if long.is_empty()
        && let Some(coefficient) = power_of_ten(shift).and_then(|power| small.checked_mul(power))
    {
        return Parsed::Number(Numeric::new(if negative { -coefficient } else { coefficient }, scale));
    }
    let mut coefficient = if long.is_empty() {
        BigInt::from(small)
    } else {
        match BigInt::parse_bytes(&long, 10) {
            Some(coefficient) => coefficient,
            None => return Parsed::Other,
        }
    };
    if shift > 0 {
        coefficient *= big_power_of_ten(shift);
    }
    if negative {
        coefficient = -coefficient;
    }
    match Numeric::from_big(coefficient, scale) {
        Ok(number) => Parsed::Number(number),
        Err(_) => Parsed::Overflow,
    }
}

impl Finite<'_> {
    /// The decimal digits of the coefficient's magnitude.
    pub(super) fn digit_text(&self) -> String {
        match self {
            Finite::Small(coefficient, _) => coefficient.unsigned_abs().to_string(),
            Finite::Big(coefficient, _) => coefficient.magnitude().to_str_radix(10),
        }
    }
}
