//! Values of settings: reading them with their units, printing them as SHOW does.

use cairn_types::{Error, Result, Text, err};

use super::definition::{Definition, Kind};

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    /// In the setting's unit.
    Integer(i64),
    Real(f64),
    /// Strings and enums.
    Text(Text),
}

/// Units of one kind, largest first, each with its size in the smallest.
type Units = &'static [(&'static str, f64)];

const MEMORY: Units =
    &[("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];
const TIME: Units = &[
    ("d", 86_400_000_000.0),
    ("h", 3_600_000_000.0),
    ("min", 60_000_000.0),
    ("s", 1_000_000.0),
    ("ms", 1000.0),
    ("us", 1.0),
];

/// The units that values of this setting may carry, and the size of the setting's own.
fn units(definition: &Definition) -> Option<(Units, f64)> {
    let unit = definition.unit?;
    for units in [MEMORY, TIME] {
        if let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) {
            return Some((units, *size));
        }
    }
    // 8kB and the like.
    let (count, unit) = unit.split_at(unit.find(|c: char| !c.is_ascii_digit())?);
    let (_, size) = MEMORY.iter().find(|(name, _)| *name == unit)?;
    Some((MEMORY, count.parse::<f64>().ok()? * size))
}

fn invalid(definition: &Definition, text: &str) -> Error {
    err!(INVALID_PARAMETER_VALUE, "invalid value for parameter \"{}\": \"{text}\"", definition.name)
}

/// Reads a boolean as PostgreSQL does: any beginning of true, false, yes, no, and on, off, 1, 0.
pub fn parse_bool(text: &str) -> Option<bool> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "" | "o" => None,
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        other if "true".starts_with(other) || "yes".starts_with(other) => Some(true),
        other if "false".starts_with(other) || "no".starts_with(other) => Some(false),
        _ => None,
    }
}

impl Value {
    /// Reads a value of the setting; errors as PostgreSQL words them.
    pub fn parse(definition: &Definition, text: &str) -> Result<Value> {
        match definition.kind {
            Kind::Bool => parse_bool(text).map(Value::Bool).ok_or_else(|| {
                err!(INVALID_PARAMETER_VALUE, "parameter \"{}\" requires a Boolean value", definition.name)
            }),
            Kind::Enum => match definition.labels.iter().find(|label| label.eq_ignore_ascii_case(text)) {
                Some(label) => Ok(Value::Text(label.as_str().into())),
                None => match hidden_label(definition.name, text) {
                    Some(label) => Ok(Value::Text(label.into())),
                    None => Err(invalid(definition, text)
                        .hint(format!("Available values: {}.", definition.labels.join(", ")))),
                },
            },
            Kind::String => Ok(Value::Text(text.into())),
            Kind::Integer { min, max } => {
                let value = number(definition, text)?.round_ties_even();
                if value > f64::from(i32::MAX) || value < f64::from(i32::MIN) {
                    return Err(invalid(definition, text).hint("Value exceeds integer range."));
                }
                let value = value as i64;
                if !(min..=max).contains(&value) {
                    return Err(out_of_range(definition, &value.to_string()));
                }
                Ok(Value::Integer(value))
            }
            Kind::Real { min, max } => {
                let value = number(definition, text)?;
                if !(min..=max).contains(&value) {
                    return Err(out_of_range(definition, &print_real(value)));
                }
                Ok(Value::Real(value))
            }
        }
    }

    /// As pg_settings.setting: in the setting's own unit, without naming it.
    pub fn plain(&self) -> String {
        match self {
            Value::Bool(value) => (if *value { "on" } else { "off" }).to_owned(),
            Value::Integer(value) => value.to_string(),
            Value::Real(value) => print_real(*value),
            Value::Text(value) => value.to_string(),
        }
    }

    /// As SHOW prints it: numbers in the largest unit that takes them whole.
    pub fn show(&self, definition: &Definition) -> String {
        let number = match self {
            Value::Integer(value) => *value as f64,
            Value::Real(value) => *value,
            Value::Bool(_) | Value::Text(_) => return self.plain(),
        };
        // 0 and the -1 that means "none" have no unit.
        let Some((units, size)) = units(definition).filter(|_| number > 0.0) else { return self.plain() };
        let base = number * size;
        for (name, unit) in units {
            let count = base / unit;
            if count >= 1.0 && count.fract() == 0.0 {
                return format!("{count}{name}");
            }
        }
        format!("{}{}", self.plain(), definition.unit.unwrap_or_default())
    }
}

fn out_of_range(definition: &Definition, value: &str) -> Error {
    let unit = definition.unit.map(|unit| format!(" {unit}")).unwrap_or_default();
    err!(
        INVALID_PARAMETER_VALUE,
        "{value}{unit} is outside the valid range for parameter \"{}\" ({} .. {})",
        definition.name,
        definition.min.unwrap_or_default(),
        definition.max.unwrap_or_default()
    )
}

/// Spellings that some enums accept beyond those that they list.
fn hidden_label(name: &str, text: &str) -> Option<&'static str> {
    if matches!(
        name,
        "synchronous_commit"
            | "constraint_exclusion"
            | "backslash_quote"
            | "compute_query_id"
            | "force_parallel_mode"
            | "wal_compression"
    ) {
        return parse_bool(text).map(|value| if value { "on" } else { "off" });
    }
    match (name, text.to_ascii_lowercase().as_str()) {
        ("client_min_messages", "debug") => Some("debug2"),
        ("client_min_messages", "info") => Some("info"),
        ("client_min_messages", "fatal" | "panic") => Some("error"),
        _ => None,
    }
}

/// Reads a number with an optional unit, into the setting's unit.
fn number(definition: &Definition, text: &str) -> Result<f64> {
    let trimmed = text.trim();
    let hexadecimal = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X"));
    let digits_end = match hexadecimal {
        Some(digits) => 2 + digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len()),
        None => number_end(trimmed),
    };
    let (digits, unit) = trimmed.split_at(digits_end);
    let value: f64 = match hexadecimal {
        Some(_) => {
            i64::from_str_radix(digits.get(2..).unwrap_or_default(), 16).map(|value| value as f64).ok()
        }
        None => digits.parse().ok(),
    }
    .filter(|value: &f64| value.is_finite())
    .ok_or_else(|| invalid(definition, text))?;
    let unit = unit.trim();
    if unit.is_empty() {
        return Ok(value);
    }
    let Some((units, own)) = units(definition) else { return Err(invalid(definition, text)) };
    let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) else {
        let mut names: Vec<String> = units.iter().rev().map(|(name, _)| format!("\"{name}\"")).collect();
        if let Some(last) = names.last_mut() {
            *last = format!("and {last}");
        }
        return Err(invalid(definition, text)
            .hint(format!("Valid units for this parameter are {}.", names.join(", "))));
    };
    Ok(value * size / own)
}

/// Where the decimal number at the beginning of a text ends.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    at = digits(at);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(sign);
        if end > sign {
            at = end;
        }
    }
    at
}

/// C's `%g`: six digits, as PostgreSQL prints real settings.
pub fn print_real(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    if (-4..6).contains(&exponent) {
        trim(&format!("{value:.*}", usize::try_from(5 - exponent).unwrap_or(0)))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition;
    use super::*;

    fn shown(name: &str, text: &str) -> std::result::Result<String, String> {
        let definition = &definition::all()[definition::find(name).expect("known")];
        Value::parse(definition, text)
            .map(|value| value.show(definition))
            .map_err(|error| error.message().to_owned())
    }

    #[test]
    fn as_postgresql_15_answers() {
        let ok = |name, text, expected: &str| {
            assert_eq!(shown(name, text).as_deref(), Ok(expected), "{name} {text}")
        };
        ok("work_mem", "4096", "4MB");
        ok("work_mem", "1.5MB", "1536kB");
        ok("work_mem", "0x400", "1MB");
        ok("statement_timeout", "1.5s", "1500ms");
        ok("statement_timeout", "60000", "1min");
        ok("statement_timeout", "0", "0");
        ok("temp_file_limit", "-1", "-1");
        ok("temp_buffers", "8MB", "8MB");
        ok("enable_sort", "TR", "on");
        ok("synchronous_commit", "false", "off");
        ok("random_page_cost", "1.10", "1.1");
        ok("bytea_output", "HEX", "hex");
        let fails = |name, text, expected: &str| assert_eq!(shown(name, text), Err(expected.to_owned()));
        fails(
            "work_mem",
            "1kB",
            "1 kB is outside the valid range for parameter \"work_mem\" (64 .. 2147483647)",
        );
        fails("work_mem", "abc", "invalid value for parameter \"work_mem\": \"abc\"");
        fails("enable_sort", "foo", "parameter \"enable_sort\" requires a Boolean value");
        fails("seq_page_cost", "1ms", "invalid value for parameter \"seq_page_cost\": \"1ms\"");
        fails(
            "random_page_cost",
            "-1",
            "-1 is outside the valid range for parameter \"random_page_cost\" (0 .. 1.79769e+308)",
        );
    }

    #[test]
    fn six_digits() {
        for (value, text) in
            [(0.0025, "0.0025"), (1e10, "1e+10"), (0.1, "0.1"), (100_000.0, "100000"), (1.0, "1")]
        {
            assert_eq!(print_real(value), text);
        }
    }
}
