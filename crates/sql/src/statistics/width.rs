//! How wide a value is in PostgreSQL's format (pg_stats.avg_width), headers included: what its planner counts in.

use cairn_types::Datum;

/// Header of a value of variable length, and of one in a stored row if header and value have at most so many bytes.
const HEADER: usize = 4;
const SHORT_HEADER: usize = 1;
const SHORT_MAX: usize = 127;

/// Bytes of a value. `stored`: in a row, where short values have a short header.
pub fn width(value: &Datum, stored: bool) -> usize {
    match value {
        Datum::Null => 0,
        Datum::Bool(_) | Datum::Char(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Oid(_) | Datum::Float4(_) | Datum::Date(_) | Datum::Enum(_) => 4,
        Datum::Int8(_)
        | Datum::UInt8(_)
        | Datum::Float8(_)
        | Datum::Time(_)
        | Datum::Timestamp(_)
        | Datum::TimestampTz(_) => 8,
        Datum::Tid(_) => 6,
        Datum::TimeTz(_) => 12,
        Datum::Interval(_) | Datum::Uuid(_) => 16,
        Datum::Text(text) => with_header(text.len(), stored),
        Datum::Bytea(bytes) => with_header(bytes.len(), stored),
        Datum::Numeric(number) => {
            // The wire format begins with the number of digits of base 10,000, of two bytes each.
            let mut wire = Vec::new();
            number.send(&mut wire);
            let digits = wire.first_chunk::<2>().map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
            with_header(2 + 2 * digits, stored)
        }
        Datum::Jsonb(_) => {
            let mut bytes = Vec::new();
            cairn_types::row::encode_datum(value, &mut bytes);
            with_header(bytes.len(), stored)
        }
        Datum::Array(array) => {
            let elements: usize = array.elements.iter().map(|element| aligned(width(element, false))).sum();
            let dimensions = 8 * array.dimensions.len();
            with_header(12 + dimensions + elements, stored)
        }
        Datum::Record(record) => {
            // A row's own header has 24 bytes, four of them those of every value.
            let values: usize = record.values.iter().map(|value| width(value, true)).sum();
            with_header(20 + values, stored)
        }
    }
}

fn with_header(length: usize, stored: bool) -> usize {
    if stored && length + SHORT_HEADER <= SHORT_MAX { length + SHORT_HEADER } else { length + HEADER }
}

fn aligned(width: usize) -> usize {
    if width < 4 { width } else { width.next_multiple_of(4) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_types::{Array, types};
    use std::sync::Arc;

    #[test]
    fn as_postgresql_counts() {
        assert_eq!(width(&Datum::text("abc"), true), 4);
        assert_eq!(width(&Datum::text("abc"), false), 7);
        assert_eq!(width(&Datum::text("x".repeat(126)), true), 127);
        assert_eq!(width(&Datum::text("x".repeat(127)), true), 131);
        let number = |text: &str| Datum::Numeric(cairn_types::Numeric::parse(text).unwrap().into());
        assert_eq!(width(&number("0"), true), 3);
        assert_eq!(width(&number("1.5"), true), 7);
        assert_eq!(width(&number("10000"), true), 5);
        let array = Array::from_elements(types::INT4, vec![Datum::Int4(1), Datum::Int4(2)]);
        assert_eq!(width(&Datum::Array(Arc::new(array)), true), 29);
    }
}
