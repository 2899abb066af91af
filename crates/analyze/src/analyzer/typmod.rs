//! Type modifiers: `numeric(10, 2)` to the number that pg_attribute.atttypmod holds, and back.

use cairn_types::{Oid, Result, err, types};

/// Bits of interval's fields in its modifier, as the grammar gives them.
const INTERVAL_FULL_RANGE: i32 = 0x7FFF;
const INTERVAL_FULL_PRECISION: i32 = 0xFFFF;

/// The modifier of a type that was written with `(...)`. Errors: 22023, 22P02.
pub(crate) fn typmod_in(ty: Oid, modifiers: &[&str]) -> Result<i32> {
    let mut numbers = Vec::with_capacity(modifiers.len());
    for modifier in modifiers {
        let number: i32 = modifier.trim().parse().map_err(|_| {
            err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type integer: \"{modifier}\"")
        })?;
        numbers.push(number);
    }
    match ty {
        types::NUMERIC => match numbers.as_slice() {
            [precision] => numeric(*precision, 0),
            [precision, scale] => numeric(*precision, *scale),
            _ => Err(err!(INVALID_PARAMETER_VALUE, "invalid NUMERIC type modifier")),
        },
        types::BPCHAR | types::VARCHAR => {
            let name = if ty == types::BPCHAR { "char" } else { "varchar" };
            length(&numbers, name, 10_485_760).map(|length| length + 4)
        }
        types::BIT | types::VARBIT => {
            length(&numbers, if ty == types::BIT { "bit" } else { "varbit" }, 83_886_080)
        }
        types::TIME | types::TIMETZ | types::TIMESTAMP | types::TIMESTAMPTZ => {
            let [precision] = numbers.as_slice() else {
                return Err(err!(INVALID_PARAMETER_VALUE, "invalid type modifier"));
            };
            let name = if matches!(ty, types::TIME | types::TIMETZ) { "TIME" } else { "TIMESTAMP" };
            let zone = if matches!(ty, types::TIMETZ | types::TIMESTAMPTZ) { " WITH TIME ZONE" } else { "" };
            if *precision < 0 {
                return Err(err!(
                    INVALID_PARAMETER_VALUE,
                    "{name}({precision}){zone} precision must not be negative"
                ));
            }
            // PostgreSQL warns and goes on with the most there is.
            Ok((*precision).min(6))
        }
        types::INTERVAL => match numbers.as_slice() {
            [range] => Ok(interval(INTERVAL_FULL_PRECISION, *range)),
            [range, precision] => {
                if *precision < 0 {
                    return Err(err!(
                        INVALID_PARAMETER_VALUE,
                        "INTERVAL({precision}) precision must not be negative"
                    ));
                }
                Ok(interval((*precision).min(6), *range))
            }
            _ => Err(err!(INVALID_PARAMETER_VALUE, "invalid INTERVAL type modifier")),
        },
        _ => Err(err!(INVALID_PARAMETER_VALUE, "invalid type modifier")),
    }
}

fn numeric(precision: i32, scale: i32) -> Result<i32> {
    if !(1..=1000).contains(&precision) {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "NUMERIC precision {precision} must be between 1 and 1000"
        ));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(err!(INVALID_PARAMETER_VALUE, "NUMERIC scale {scale} must be between -1000 and 1000"));
    }
    Ok(((precision << 16) | (scale & 0x7ff)) + 4)
}

fn length(numbers: &[i32], name: &str, max: i32) -> Result<i32> {
    let [length] = numbers else {
        return Err(err!(INVALID_PARAMETER_VALUE, "invalid type modifier"));
    };
    if *length < 1 {
        return Err(err!(INVALID_PARAMETER_VALUE, "length for type {name} must be at least 1"));
    }
    if *length > max {
        return Err(err!(INVALID_PARAMETER_VALUE, "length for type {name} cannot exceed {max}"));
    }
    Ok(*length)
}

fn interval(precision: i32, range: i32) -> i32 {
    (precision & INTERVAL_FULL_PRECISION) | ((range & INTERVAL_FULL_RANGE) << 16)
}
