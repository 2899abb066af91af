//! Order-preserving ("memcomparable") encoding of datums for keys.
//!
//! Comparing two encodings byte by byte gives the order of the datums under their type's default btree
//! operator class, with the column's ASC/DESC and NULLS FIRST/LAST. Every column's encoding is
//! self-delimiting: no encoding is a proper prefix of another one of the same column, so that columns are
//! simply concatenated. Equal datums encode alike, so the encoding loses what equality ignores (numeric
//! scale, the sign of a zero, blanks at the end of `char(n)`): the value itself is kept in the row.
//!
//! ```text
//! column    := marker body
//! marker    := 00  null, NULLS FIRST
//!            | 01  not null
//!            | 02  null, NULLS LAST
//! ```
//! The marker is never inverted; in a DESC column every byte of the body is.
//!
//! | datum | body |
//! |---|---|
//! | bool, "char" | 1 byte |
//! | int2, int4, int8 | *integer*, see below: one encoding for all widths, so that they compare across types |
//! | oid, xid, cid | 4 bytes, big-endian |
//! | xid8, pg_lsn, tid | 8 bytes, big-endian |
//! | float4, float8 | 8 bytes: the double's bits, sign bit flipped if positive, all bits if negative; -0 as 0, any NaN as FFF8000000000000 |
//! | numeric | *numeric*, see below |
//! | text, varchar, name, "C" order | *bytes* of the UTF-8 text |
//! | char(n) | *bytes* of the text without blanks at its end |
//! | bytea | *bytes* |
//! | date | 4 bytes, big-endian, sign bit flipped |
//! | time, timestamp, timestamptz | 8 bytes, big-endian, sign bit flipped |
//! | timetz | time in UTC (8 bytes, sign bit flipped), zone (4 bytes, sign bit flipped) |
//! | interval | length in microseconds, a month counted as 30 days, a day as 24 hours: 16 bytes, sign bit flipped |
//! | uuid | 16 bytes |
//! | enum | sort order as float4: 4 bytes as for floats |
//! | jsonb | *json*, see below |
//! | array | for each element 01 and its encoding with marker, then 00; then number of dimensions (4 bytes), then length and lower bound of each (4 bytes each, sign bit flipped) |
//! | record | for each field 01 and its encoding with marker, then 00 |
//!
//! *integer*: zero and positive values up to 109 are one byte, `88 + value`; longer ones are `F5 + n` and the n
//! significant bytes, big-endian; negative ones are `88 - n` and the n low bytes of the two's complement
//! number, n being the fewest with `value >= -256^n`.
//!
//! *bytes*: the bytes with each `00` written as `00 FF`, then `00 00`.
//!
//! *numeric*: one byte of class: `10` -infinity, `20` negative, `30` zero, `40` positive, `50` infinity, `60` NaN. Positive
//! and negative values go on with magnitude `0.d1 d2 .. * 100^e`, digits in base 100, `d1 != 0`, none of them 0 at
//! the end: the exponent in one byte, `80 + e` for -80 <= e < 80, else `FF` (above) or `00` (below) and 4 bytes,
//! big-endian, of `e + 80000000`; then a byte `d + 1` for each digit; then `00`. In a negative value the bytes after
//! the class are inverted.
//!
//! *json*: at the top level `00` for an empty array and `01` before everything else. Then `01` null, `02` string and
//! *bytes*, `03` number and *numeric*, `04` false, `05` true, `06` array and number of elements (4 bytes) and
//! elements, `07` object and number of members and each one's key as *bytes* and value.

use crate::{Datum, Error, Interval, Jsonb, Numeric, Result, TimeTz, err, types};

/// How a key column is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ColumnOrder {
    pub desc: bool,
    pub nulls_first: bool,
    /// The column's type is `char(n)`: blanks at the end do not count.
    pub blank_padded: bool,
}

impl ColumnOrder {
    /// ASC NULLS LAST.
    pub const ASC: ColumnOrder = ColumnOrder { desc: false, nulls_first: false, blank_padded: false };
    /// DESC NULLS FIRST.
    pub const DESC: ColumnOrder = ColumnOrder { desc: true, nulls_first: true, blank_padded: false };

    /// The order for a column of a type.
    pub fn of_type(type_oid: crate::Oid, desc: bool, nulls_first: bool) -> Self {
        ColumnOrder { desc, nulls_first, blank_padded: type_oid == types::BPCHAR }
    }
}

const NULL_FIRST: u8 = 0x00;
const NOT_NULL: u8 = 0x01;
const NULL_LAST: u8 = 0x02;

const INTEGER_ZERO: u8 = 0x88;
const INTEGER_SMALL_MAX: i64 = 109;
const INTEGER_LARGE: u8 = 0xF5;

/// The longest key that is written: the columns of a primary key or of an index entry, encoded. Whoever reads, sorts or locks a
/// key copies it some dozen times, so one without a limit would take any amount of memory.
///
/// PostgreSQL's limit is 2,704 bytes after compression. What fits into that, compressed as well as pglz can (less than 100
/// times), fits into this, at up to 16 bytes for each of PostgreSQL's.
pub const KEY_BYTES_MAX: usize = 4 << 20;

/// 54000 if a key has more bytes than [`KEY_BYTES_MAX`].
pub fn check_key_size(bytes: usize) -> Result<()> {
    if bytes <= KEY_BYTES_MAX {
        return Ok(());
    }
    // What PostgreSQL says of values that are as long as this.
    Err(err!(PROGRAM_LIMIT_EXCEEDED, "index row requires {bytes} bytes, maximum size is {KEY_BYTES_MAX}"))
}

/// Appends one column of a key. Errors: 0A000 for a value that has no order.
pub fn encode_key_column(value: &Datum, order: ColumnOrder, out: &mut Vec<u8>) -> Result<()> {
    if value.is_null() {
        out.push(if order.nulls_first { NULL_FIRST } else { NULL_LAST });
        return Ok(());
    }
    out.push(NOT_NULL);
    let start = out.len();
    encode_body(value, order.blank_padded, out)?;
    if order.desc {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
    Ok(())
}

/// The smallest key that is greater than every key that begins with `prefix`; `None` if there is none.
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut successor = prefix[..=keep].to_vec();
    successor[keep] += 1;
    Some(successor)
}

/// True where the key does not give back the exact value of the type (see the module's first lines).
pub fn is_lossy(type_oid: crate::Oid) -> bool {
    !matches!(
        type_oid,
        types::BOOL
            | types::CHAR
            | types::INT2
            | types::INT4
            | types::INT8
            | types::OID
            | types::TEXT
            | types::VARCHAR
            | types::NAME
            | types::BYTEA
            | types::DATE
            | types::TIME
            | types::TIMESTAMP
            | types::TIMESTAMPTZ
            | types::UUID
    )
}

fn encode_body(value: &Datum, blank_padded: bool, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Null => return Err(Error::internal("null inside a key column")),
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Char(value) => out.push(*value),
        Datum::Int2(value) => encode_integer(i64::from(*value), out),
        Datum::Int4(value) => encode_integer(i64::from(*value), out),
        Datum::Int8(value) => encode_integer(*value, out),
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::UInt8(value) | Datum::Tid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float4(value) => encode_float(f64::from(*value), out),
        Datum::Float8(value) => encode_float(*value, out),
        Datum::Numeric(value) => encode_numeric(value, out),
        Datum::Text(text) => {
            let text = if blank_padded { text.trim_end_matches(' ') } else { text };
            encode_bytes(text.as_bytes(), out);
        }
        Datum::Bytea(bytes) => encode_bytes(bytes, out),
        Datum::Date(days) => encode_i32(*days, out),
        Datum::Time(us) | Datum::Timestamp(us) | Datum::TimestampTz(us) => encode_i64(*us, out),
        Datum::TimeTz(value) => {
            encode_i64(timetz_utc_us(value), out);
            encode_i32(value.zone_seconds_west, out);
        }
        Datum::Interval(value) => {
            out.extend_from_slice(&(interval_us(value) as u128 ^ (1 << 127)).to_be_bytes());
        }
        Datum::Uuid(bytes) => out.extend_from_slice(bytes),
        Datum::Enum(value) => {
            let bits = (value.sort_order + 0.0).to_bits();
            let bits = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
            out.extend_from_slice(&bits.to_be_bytes());
        }
        Datum::Jsonb(value) => encode_json(value, out),
        Datum::Array(array) => {
            let inner = ColumnOrder::of_type(array.element_type, false, false);
            for element in &array.elements {
                out.push(1);
                encode_key_column(element, inner, out)?;
            }
            out.push(0);
            out.extend_from_slice(&(array.dimensions.len() as u32).to_be_bytes());
            for dimension in &array.dimensions {
                out.extend_from_slice(&(dimension.length as u32).to_be_bytes());
            }
            for dimension in &array.dimensions {
                encode_i32(dimension.lower_bound, out);
            }
        }
        Datum::Record(record) => {
            for (value, field) in record.values.iter().zip(record.fields.iter()) {
                out.push(1);
                encode_key_column(value, ColumnOrder::of_type(field.type_oid, false, false), out)?;
            }
            out.push(0);
        }
    }
    Ok(())
}

/// The moment of the day in UTC that a timetz names, by which it is ordered before its zone.
pub(crate) fn timetz_utc_us(value: &TimeTz) -> i64 {
    value.time_us.saturating_add(i64::from(value.zone_seconds_west) * 1_000_000)
}

/// The length by which intervals are compared: 30 days a month, 24 hours a day.
pub(crate) fn interval_us(value: &Interval) -> i128 {
    let days = i64::from(value.months) * 30 + i64::from(value.days);
    i128::from(days) * 86_400_000_000 + i128::from(value.time_us)
}

fn encode_i32(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value as u32 ^ 1 << 31).to_be_bytes());
}

fn encode_i64(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value as u64 ^ 1 << 63).to_be_bytes());
}

fn encode_integer(value: i64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    if (0..=INTEGER_SMALL_MAX).contains(&value) {
        out.push(INTEGER_ZERO + value as u8);
    } else if value > 0 {
        let zeros = value.leading_zeros() as usize / 8;
        out.push(INTEGER_LARGE + (8 - zeros) as u8);
        out.extend_from_slice(&bytes[zeros..]);
    } else {
        // The sign is in the count of bytes: all of their bits are the number's.
        let ones = (value.leading_ones() as usize / 8).min(7);
        out.push(INTEGER_ZERO - (8 - ones) as u8);
        out.extend_from_slice(&bytes[ones..]);
    }
}

fn encode_float(value: f64, out: &mut Vec<u8>) {
    let bits = if value.is_nan() {
        0x7FF8_0000_0000_0000
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    };
    let ordered = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[0, 0xFF]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

fn encode_numeric(value: &Numeric, out: &mut Vec<u8>) {
    let Some((negative, exponent, digits)) = value.scientific() else {
        out.push(if value.is_nan() {
            0x60
        } else if value.is_zero() {
            0x30
        } else if value.is_negative() {
            0x10
        } else {
            0x50
        });
        return;
    };
    out.push(if negative { 0x20 } else { 0x40 });
    let start = out.len();
    // An odd decimal exponent moves the pairs of digits by one.
    let exponent_100 = exponent.div_euclid(2) + exponent.rem_euclid(2);
    let odd = exponent.rem_euclid(2) == 1;
    match u8::try_from(exponent_100 + 0x80) {
        Ok(byte) if (-80..80).contains(&exponent_100) => out.push(byte),
        _ => {
            out.push(if exponent_100 < 0 { 0x00 } else { 0xFF });
            encode_i32(exponent_100, out);
        }
    }
    let mut rest = digits.as_slice();
    if odd {
        out.push(rest[0] + 1);
        rest = &rest[1..];
    }
    for pair in rest.chunks(2) {
        out.push(pair[0] * 10 + pair.get(1).copied().unwrap_or(0) + 1);
    }
    out.push(0);
    if negative {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

fn encode_json(value: &Jsonb, out: &mut Vec<u8>) {
    if let Jsonb::Array(array) = value
        && array.items.is_empty()
    {
        out.push(0);
        return;
    }
    out.push(1);
    encode_json_nested(value, out);
}

fn encode_json_nested(value: &Jsonb, out: &mut Vec<u8>) {
    match value {
        Jsonb::Null => out.push(1),
        Jsonb::String(text) => {
            out.push(2);
            encode_bytes(text.as_bytes(), out);
        }
        Jsonb::Number(number) => {
            out.push(3);
            encode_numeric(number, out);
        }
        Jsonb::Bool(value) => out.push(4 + u8::from(*value)),
        Jsonb::Array(array) => {
            out.push(6);
            out.extend_from_slice(&(array.items.len() as u32).to_be_bytes());
            for item in &array.items {
                encode_json_nested(item, out);
            }
        }
        Jsonb::Object(object) => {
            out.push(7);
            out.extend_from_slice(&(object.members.len() as u32).to_be_bytes());
            for (key, value) in &object.members {
                encode_bytes(key.as_bytes(), out);
                encode_json_nested(value, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::compare;
    use crate::test_datums::{datum_pair, same_kind_datums};

    fn encode(value: &Datum, order: ColumnOrder) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key_column(value, order, &mut out).unwrap();
        out
    }

    /// Pins the format: these bytes are on disk.
    #[test]
    fn bytes_of_the_format() {
        let hex = |value: Datum| {
            encode(&value, ColumnOrder::ASC).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(hex(Datum::Null), "02");
        assert_eq!(hex(Datum::Int4(0)), "0188");
        assert_eq!(hex(Datum::Int8(109)), "01f5");
        assert_eq!(hex(Datum::Int8(110)), "01f66e");
        assert_eq!(hex(Datum::Int8(256)), "01f70100");
        assert_eq!(hex(Datum::Int2(-1)), "0187ff");
        assert_eq!(hex(Datum::Int2(-256)), "018700");
        assert_eq!(hex(Datum::Int4(-257)), "0186feff");
        assert_eq!(hex(Datum::Int8(i64::MIN)), "01808000000000000000");
        assert_eq!(hex(Datum::text("a\0b")), "016100ff620000");
        let numeric = |text| Datum::Numeric(std::sync::Arc::new(Numeric::parse(text).unwrap()));
        assert_eq!(hex(numeric("0")), "0130");
        assert_eq!(hex(numeric("1.50")), "014081023300");
        assert_eq!(hex(numeric("-1.5")), "01207efdccff");
        assert_eq!(encode(&Datum::Int4(1), ColumnOrder::DESC), [0x01, 0x76]);
        assert_eq!(prefix_successor(&[1, 0xFF, 0xFF]), Some(vec![2]));
        assert_eq!(prefix_successor(&[0xFF]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn order_is_preserved_and_no_key_is_a_prefix((a, b) in datum_pair()) {
            for desc in [false, true] {
                let order = ColumnOrder { desc, nulls_first: false, blank_padded: false };
                let (key_a, key_b) = (encode(&a, order), encode(&b, order));
                let expected = compare(&a, &b, false);
                let expected = if desc { expected.reverse() } else { expected };
                prop_assert_eq!(key_a.cmp(&key_b), expected, "{:?} {:?}", a, b);
                if expected.is_ne() {
                    prop_assert!(!key_a.starts_with(&key_b) && !key_b.starts_with(&key_a));
                }
                let null_last = encode(&Datum::Null, order);
                prop_assert!(key_a < null_last);
                let null_first = encode(&Datum::Null, ColumnOrder { nulls_first: true, ..order });
                prop_assert!(key_a > null_first);
                let end = prefix_successor(&key_a).unwrap();
                prop_assert!(key_a < end);
            }
        }

        #[test]
        fn composite_keys_keep_the_order(a in same_kind_datums(), b in same_kind_datums()) {
            // Keys of two columns of the same kinds, compared lexicographically.
            if std::mem::discriminant(&a.0) == std::mem::discriminant(&b.0)
                && std::mem::discriminant(&a.1) == std::mem::discriminant(&b.1)
                && !matches!(a.0, Datum::Array(_)) && !matches!(a.1, Datum::Array(_))
            {
                let key = |pair: &(Datum, Datum)| {
                    let mut out = encode(&pair.0, ColumnOrder::ASC);
                    encode_key_column(&pair.1, ColumnOrder::DESC, &mut out).unwrap();
                    out
                };
                let expected = compare(&a.0, &b.0, false).then(compare(&a.1, &b.1, false).reverse());
                prop_assert_eq!(key(&a).cmp(&key(&b)), expected);
            }
        }
    }
}
