//! Values as numbers: where between the two bounds of a part of a histogram a value lies.
//!
//! Inside of a part values are taken to be spread evenly. What has no scale (uuid and bytea have: their bytes) is taken
//! to lie in the middle.

use cairn_types::Datum;

const DAY_US: f64 = 86_400e6;
/// PostgreSQL's month, in days, for this purpose.
const MONTH_DAYS: f64 = 365.25 / 12.0;
/// Bytes of a text that are looked at behind what the bounds have in common.
const BYTES_MAX: usize = 12;

/// Where `value` lies from `low` (0) to `high` (1).
pub fn position(low: &Datum, high: &Datum, value: &Datum) -> f64 {
    let (low, high, value) = match (low, high, value) {
        (Datum::Text(low), Datum::Text(high), Datum::Text(value)) => {
            scaled(low.as_bytes(), high.as_bytes(), value.as_bytes(), true)
        }
        (Datum::Bytea(low), Datum::Bytea(high), Datum::Bytea(value)) => scaled(low, high, value, false),
        (Datum::Uuid(low), Datum::Uuid(high), Datum::Uuid(value)) => {
            scaled(&low[..], &high[..], &value[..], false)
        }
        _ => match (number(low), number(high), number(value)) {
            (Some(low), Some(high), Some(value)) => (low, high, value),
            _ => return 0.5,
        },
    };
    if high <= low {
        return 0.5;
    }
    let position = if value <= low {
        0.0
    } else if value >= high {
        1.0
    } else {
        (value - low) / (high - low)
    };
    if position.is_nan() { 0.5 } else { position }
}

/// Values of types that can be compared with each other become numbers of one scale.
fn number(value: &Datum) -> Option<f64> {
    Some(match value {
        Datum::Bool(value) => f64::from(u8::from(*value)),
        Datum::Char(value) => f64::from(*value),
        Datum::Int2(value) => f64::from(*value),
        Datum::Int4(value) => f64::from(*value),
        Datum::Int8(value) => *value as f64,
        Datum::Oid(value) => f64::from(*value),
        Datum::UInt8(value) | Datum::Tid(value) => *value as f64,
        Datum::Float4(value) => f64::from(*value),
        Datum::Float8(value) => *value,
        Datum::Numeric(value) => value.to_f64_lossy(),
        Datum::Date(days) => f64::from(*days) * DAY_US,
        Datum::Time(time_us) | Datum::Timestamp(time_us) | Datum::TimestampTz(time_us) => *time_us as f64,
        Datum::TimeTz(value) => value.time_us as f64 + f64::from(value.zone_seconds_west) * 1e6,
        Datum::Interval(value) => {
            value.time_us as f64 + (f64::from(value.days) + f64::from(value.months) * MONTH_DAYS) * DAY_US
        }
        _ => return None,
    })
}

/// Three texts as fractions, to the base of the characters that texts such as these are made of.
fn scaled(low: &[u8], high: &[u8], value: &[u8], is_text: bool) -> (f64, f64, f64) {
    let same = low
        .iter()
        .zip(high)
        .zip(value)
        .take_while(|((low, high), value)| low == high && high == value)
        .count();
    let (low, high, value) = (&low[same..], &high[same..], &value[same..]);
    let (first, last) = if is_text { alphabet(low, high) } else { (0, 255) };
    let base = f64::from(last) - f64::from(first) + 1.0;
    let fraction = |bytes: &[u8]| {
        let mut number = 0.0;
        let mut weight = base;
        for byte in bytes.iter().take(BYTES_MAX) {
            number += (f64::from((*byte).clamp(first, last)) - f64::from(first)) / weight;
            weight *= base;
        }
        number
    };
    (fraction(low), fraction(high), fraction(value))
}

/// The smallest and the largest character: those of the bounds, widened to whole alphabets.
fn alphabet(low: &[u8], high: &[u8]) -> (u8, u8) {
    let bytes = || low.iter().chain(high).copied();
    let (Some(mut first), Some(mut last)) = (bytes().min(), bytes().max()) else { return (b' ', 127) };
    for (from, to) in [(b'A', b'Z'), (b'a', b'z'), (b'0', b'9')] {
        if first <= to && last >= from {
            first = first.min(from);
            last = last.max(to);
        }
    }
    // Too few to tell: any printable character.
    if last - first < 9 { (b' ', 127) } else { (first, last) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_types::Numeric;
    use proptest::prelude::*;

    #[test]
    fn values_lie_where_one_thinks() {
        let text = |text: &str| Datum::text(text);
        assert_eq!(position(&Datum::Int4(0), &Datum::Int4(10), &Datum::Int8(5)), 0.5);
        assert_eq!(position(&Datum::Date(0), &Datum::Date(2), &Datum::TimestampTz(86_400_000_000)), 0.5);
        assert_eq!(position(&text("m"), &text("m"), &text("m")), 0.5);
        let middle = position(&text("user0000"), &text("user9999"), &text("user4999"));
        assert!((0.45..0.55).contains(&middle), "{middle}");
        assert!(position(&text("a"), &text("z"), &text("c")) < 0.2);
        assert_eq!(position(&text("a"), &text("z"), &text("~")), 1.0);
        assert_eq!(position(&Datum::Float8(0.0), &Datum::Float8(f64::INFINITY), &Datum::Float8(1.0)), 0.0);
        let number = |text: &str| Datum::Numeric(Numeric::parse(text).unwrap().into());
        assert_eq!(position(&number("0"), &number("1.0"), &number("0.25")), 0.25);
    }

    proptest! {
        #[test]
        fn positions_are_parts(low in ".{0,8}", high in ".{0,8}", value in ".{0,8}") {
            let text = |text: &str| Datum::text(text);
            let position = position(&text(&low), &text(&high), &text(&value));
            prop_assert!((0.0..=1.0).contains(&position));
        }
    }
}
