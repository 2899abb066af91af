//! Order, equality and hashing of datums by their types' default btree and hash operator classes: what
//! sorting, grouping, hash joins, unique checks and `array`/`record` comparison use.
//!
//! Both datums are of one type, integers of different widths and floats of different widths excepted. Null counts
//! as equal to null and greater than everything (grouping and sorting; the operators are strict and never
//! get here with a null). Encodings of keys ([`crate::key`]) have exactly this order.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::key::{ColumnOrder, interval_us, timetz_utc_us};
use crate::{Array, Datum, Oid, Record, types};

/// `blank_padded`: the type is `char(n)`, whose blanks at the end do not count.
pub fn compare(a: &Datum, b: &Datum, blank_padded: bool) -> Ordering {
    match (a, b) {
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => {
            if blank_padded {
                a.trim_end_matches(' ').as_bytes().cmp(b.trim_end_matches(' ').as_bytes())
            } else {
                a.as_bytes().cmp(b.as_bytes())
            }
        }
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
        (Datum::UInt8(a), Datum::UInt8(b)) | (Datum::Tid(a), Datum::Tid(b)) => a.cmp(b),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b))
        | (Datum::Timestamp(a), Datum::Timestamp(b))
        | (Datum::TimestampTz(a), Datum::TimestampTz(b)) => a.cmp(b),
        (Datum::TimeTz(a), Datum::TimeTz(b)) => {
            timetz_utc_us(a).cmp(&timetz_utc_us(b)).then(a.zone_seconds_west.cmp(&b.zone_seconds_west))
        }
        (Datum::Interval(a), Datum::Interval(b)) => interval_us(a).cmp(&interval_us(b)),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => a.cmp(b),
        (Datum::Enum(a), Datum::Enum(b)) => compare_floats(f64::from(a.sort_order), f64::from(b.sort_order)),
        (Datum::Array(a), Datum::Array(b)) => compare_arrays(a, b),
        (Datum::Record(a), Datum::Record(b)) => compare_records(a, b),
        _ => compare_across(a, b),
    }
}

/// Integers of different widths, floats of different widths; anything else by kind, which is arbitrary but
/// consistent (the analyzer never lets it happen).
fn compare_across(a: &Datum, b: &Datum) -> Ordering {
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return a.cmp(&b);
    }
    if let (Some(a), Some(b)) = (float(a), float(b)) {
        return compare_floats(a, b);
    }
    kind(a).cmp(&kind(b))
}

fn integer(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        Datum::Oid(value) => Some(i64::from(*value)),
        _ => None,
    }
}

fn float(value: &Datum) -> Option<f64> {
    match value {
        Datum::Float4(value) => Some(f64::from(*value)),
        Datum::Float8(value) => Some(*value),
        _ => None,
    }
}

fn kind(value: &Datum) -> u8 {
    crate::row::PhysicalKind::of(value).map_or(0, |kind| kind as u8)
}

/// PostgreSQL's order of floats: -0 equals 0; NaN equals NaN and is greater than everything.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn is_blank_padded(type_oid: Oid) -> bool {
    type_oid == types::BPCHAR
}

/// Element by element, then by number of elements, of dimensions, by lengths, by lower bounds.
pub fn compare_arrays(a: &Array, b: &Array) -> Ordering {
    let blank_padded = is_blank_padded(a.element_type);
    for (a, b) in a.elements.iter().zip(&b.elements) {
        let order = compare(a, b, blank_padded);
        if order.is_ne() {
            return order;
        }
    }
    let lengths = |array: &Array| array.dimensions.iter().map(|d| d.length).collect::<Vec<_>>();
    let bounds = |array: &Array| array.dimensions.iter().map(|d| d.lower_bound).collect::<Vec<_>>();
    a.elements
        .len()
        .cmp(&b.elements.len())
        .then_with(|| a.dimensions.len().cmp(&b.dimensions.len()))
        .then_with(|| lengths(a).cmp(&lengths(b)))
        .then_with(|| bounds(a).cmp(&bounds(b)))
}

/// Field by field, then by number of fields.
pub fn compare_records(a: &Record, b: &Record) -> Ordering {
    for ((a, b), field) in a.values.iter().zip(&b.values).zip(a.fields.iter()) {
        let order = compare(a, b, is_blank_padded(field.type_oid));
        if order.is_ne() {
            return order;
        }
    }
    a.values.len().cmp(&b.values.len())
}

/// The order of a sort column, nulls included.
pub fn compare_ordered(a: &Datum, b: &Datum, order: ColumnOrder) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if order.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if order.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let ascending = compare(a, b, order.blank_padded);
            if order.desc { ascending.reverse() } else { ascending }
        }
    }
}

/// Equality as for grouping: null equals null.
pub fn equal(a: &Datum, b: &Datum, blank_padded: bool) -> bool {
    match (a, b) {
        // No order is needed, so lengths decide first.
        (Datum::Text(a), Datum::Text(b)) if !blank_padded => a == b,
        (Datum::Bytea(a), Datum::Bytea(b)) => a == b,
        _ => compare(a, b, blank_padded).is_eq(),
    }
}

/// Datums that are [`equal`] hash alike, integers and floats across their widths too.
pub fn hash<H: Hasher>(value: &Datum, blank_padded: bool, state: &mut H) {
    match value {
        Datum::Null => state.write_u8(0xFF),
        Datum::Bool(value) => state.write_u8(u8::from(*value)),
        Datum::Char(value) => state.write_u8(*value),
        Datum::Int2(value) => state.write_i64(i64::from(*value)),
        Datum::Int4(value) => state.write_i64(i64::from(*value)),
        Datum::Int8(value) => state.write_i64(*value),
        Datum::Oid(value) => state.write_i64(i64::from(*value)),
        Datum::UInt8(value) | Datum::Tid(value) => state.write_u64(*value),
        Datum::Float4(value) => hash_float(f64::from(*value), state),
        Datum::Float8(value) => hash_float(*value, state),
        Datum::Numeric(value) => value.hash(state),
        Datum::Text(text) => {
            let text = if blank_padded { text.trim_end_matches(' ') } else { text };
            text.hash(state);
        }
        Datum::Bytea(bytes) => bytes.hash(state),
        Datum::Date(days) => state.write_i32(*days),
        Datum::Time(us) | Datum::Timestamp(us) | Datum::TimestampTz(us) => state.write_i64(*us),
        Datum::TimeTz(value) => {
            state.write_i64(timetz_utc_us(value));
            state.write_i32(value.zone_seconds_west);
        }
        Datum::Interval(value) => state.write_i128(interval_us(value)),
        Datum::Uuid(bytes) => state.write(bytes),
        Datum::Jsonb(value) => value.hash(state),
        Datum::Enum(value) => state.write_u32((value.sort_order + 0.0).to_bits()),
        Datum::Array(array) => {
            let blank_padded = is_blank_padded(array.element_type);
            state.write_usize(array.elements.len());
            for element in &array.elements {
                hash(element, blank_padded, state);
            }
        }
        Datum::Record(record) => {
            state.write_usize(record.values.len());
            for (value, field) in record.values.iter().zip(record.fields.iter()) {
                hash(value, is_blank_padded(field.type_oid), state);
            }
        }
    }
}

fn hash_float<H: Hasher>(value: f64, state: &mut H) {
    state.write_u64(if value.is_nan() { 0x7FF8 << 48 } else { (value + 0.0).to_bits() });
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use proptest::prelude::*;

    use super::*;
    use crate::test_datums::datum_pair;

    fn hash_of(value: &Datum) -> u64 {
        let mut hasher = DefaultHasher::new();
        hash(value, false, &mut hasher);
        hasher.finish()
    }

    proptest! {
        #[test]
        fn equal_datums_hash_alike_and_order_is_antisymmetric((a, b) in datum_pair()) {
            prop_assert_eq!(compare(&a, &b, false), compare(&b, &a, false).reverse());
            prop_assert!(compare(&a, &a, false).is_eq());
            if equal(&a, &b, false) {
                prop_assert_eq!(hash_of(&a), hash_of(&b));
            }
        }
    }

    #[test]
    fn zeros_nan_and_widths() {
        let pairs = [
            (Datum::Float8(-0.0), Datum::Float8(0.0)),
            (Datum::Float8(f64::NAN), Datum::Float8(-f64::NAN)),
            (Datum::Float4(1.5), Datum::Float8(1.5)),
            (Datum::Int2(7), Datum::Int8(7)),
        ];
        for (a, b) in pairs {
            assert!(equal(&a, &b, false), "{a:?} {b:?}");
            assert_eq!(hash_of(&a), hash_of(&b));
        }
        assert!(compare(&Datum::Float8(f64::INFINITY), &Datum::Float8(f64::NAN), false).is_lt());
        assert!(equal(&Datum::text("a  "), &Datum::text("a"), true));
    }
}
