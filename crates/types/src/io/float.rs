//! real and double precision as text: the shortest digits that read back as the same number.

use super::{invalid_syntax, is_blank};
use crate::{Result, err};

pub fn parse_float8(text: &str) -> Result<f64> {
    let (value, digits) = parse_special_or::<f64>(text, "double precision")?;
    check_range(value.is_infinite(), value == 0.0, digits, text, "double precision")?;
    Ok(value)
}

pub fn parse_float4(text: &str) -> Result<f32> {
    let (value, digits) = parse_special_or::<f32>(text, "real")?;
    check_range(value.is_infinite(), value == 0.0, digits, text, "real")?;
    Ok(value)
}

/// An infinity or a zero that the text does not say is a number out of range.
fn check_range(infinite: bool, zero: bool, digits: Option<&str>, text: &str, type_name: &str) -> Result<()> {
    let Some(digits) = digits else {
        return Ok(());
    };
    let mantissa = digits.split(['e', 'E']).next().unwrap_or("");
    let says_zero = !mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if infinite || (zero && !says_zero) {
        let shown = text.trim_matches(|c: char| c.is_ascii() && is_blank(c as u8));
        return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "\"{shown}\" is out of range for type {type_name}"));
    }
    Ok(())
}

/// The number, and its digits unless it is `NaN` or an infinity.
fn parse_special_or<'a, F: std::str::FromStr>(
    text: &'a str,
    type_name: &str,
) -> Result<(F, Option<&'a str>)> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii() && is_blank(c as u8));
    let unsigned = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let special = ["nan", "inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word));
    // Rust reads fewer forms than C: no second sign, no hexadecimal. It has none that C lacks but these words.
    let decimal = unsigned.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    if (special || decimal)
        && let Ok(value) = trimmed.parse::<F>()
    {
        return Ok((value, decimal.then_some(unsigned)));
    }
    Err(invalid_syntax(type_name, text))
}

/// `extra_float_digits` above 0: shortest; else so many digits more (fewer) than the 15 that are always exact.
pub fn print_float8(value: f64, extra_float_digits: i32, out: &mut String) {
    if print_special(value, out) {
        return;
    }
    if extra_float_digits > 0 {
        print_decimal(&format!("{value:e}"), 15, out);
    } else {
        print_general(value, (15 + extra_float_digits).max(1) as usize, out);
    }
}

/// As [`print_float8`], with 6 digits in place of 15.
pub fn print_float4(value: f32, extra_float_digits: i32, out: &mut String) {
    if print_special(f64::from(value), out) {
        return;
    }
    if extra_float_digits > 0 {
        print_decimal(&format!("{value:e}"), 6, out);
    } else {
        print_general(f64::from(value), (6 + extra_float_digits).max(1) as usize, out);
    }
}

fn print_special(value: f64, out: &mut String) -> bool {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value == f64::INFINITY {
        out.push_str("Infinity");
    } else if value == f64::NEG_INFINITY {
        out.push_str("-Infinity");
    } else if value == 0.0 {
        out.push_str(if value.is_sign_negative() { "-0" } else { "0" });
    } else {
        return false;
    }
    true
}

/// Lays out `d.ddde-x` as C's %g does: plain digits for exponents from -4 to below `precision`.
fn print_decimal(scientific: &str, precision: i32, out: &mut String) {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        out.push_str(scientific);
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mantissa = match mantissa.strip_prefix('-') {
        Some(rest) => {
            out.push('-');
            rest
        }
        None => mantissa,
    };
    if exponent < -4 || exponent >= precision {
        out.push_str(mantissa);
        out.push('e');
        out.push(if exponent < 0 { '-' } else { '+' });
        let magnitude = exponent.unsigned_abs();
        if magnitude < 10 {
            out.push('0');
        }
        out.push_str(itoa::Buffer::new().format(magnitude));
        return;
    }
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(first);
        out.push_str(rest);
        return;
    }
    let exponent = exponent as usize;
    out.push_str(first);
    if rest.len() <= exponent {
        out.push_str(rest);
        out.extend(std::iter::repeat_n('0', exponent - rest.len()));
    } else {
        let (integer, fraction) = rest.split_at(exponent);
        out.push_str(integer);
        out.push('.');
        out.push_str(fraction);
    }
}

/// C's `%.*g`.
fn print_general(value: f64, digits: usize, out: &mut String) {
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return;
    };
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    print_decimal(&format!("{mantissa}e{exponent}"), digits as i32, out);
}
