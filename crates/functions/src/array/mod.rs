//! Functions and operators on arrays (manual, section 9.19).

pub(crate) mod build;
pub(crate) mod search;
pub(crate) mod shape;

use std::cmp::Ordering;

use cairn_types::{Datum, Dimension, Error, Result, compare, err, row, types};

use crate::{Args, ScalarFn};

/// PostgreSQL's limit on dimensions.
pub const DIMENSIONS_MAX: usize = 6;
/// An array takes at most 1 GB, as in PostgreSQL; an element in memory is larger here.
pub const ELEMENTS_MAX: usize = (1 << 30) / size_of::<Datum>();

fn order(args: &[Datum]) -> Result<Ordering> {
    let (a, b) = (args.array(0)?, args.array(1)?);
    if a.element_type != b.element_type {
        return Err(err!(DATATYPE_MISMATCH, "cannot compare arrays of different element types"));
    }
    Ok(compare::compare_arrays(a, b))
}

fn record_order(args: &[Datum]) -> Result<Ordering> {
    let (a, b) = (args.record(0)?, args.record(1)?);
    if a.values.len() != b.values.len() {
        return Err(err!(DATATYPE_MISMATCH, "cannot compare record types with different numbers of columns"));
    }
    for (index, (left, right)) in a.fields.iter().zip(b.fields.iter()).enumerate() {
        if left.type_oid != right.type_oid {
            return Err(err!(
                DATATYPE_MISMATCH,
                "cannot compare dissimilar column types at record column {}",
                index + 1
            ));
        }
    }
    Ok(compare::compare_records(a, b))
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("array_eq", |_, a| Ok(Datum::Bool(order(a)?.is_eq()))),
    ("array_ne", |_, a| Ok(Datum::Bool(order(a)?.is_ne()))),
    ("array_lt", |_, a| Ok(Datum::Bool(order(a)?.is_lt()))),
    ("array_le", |_, a| Ok(Datum::Bool(order(a)?.is_le()))),
    ("array_gt", |_, a| Ok(Datum::Bool(order(a)?.is_gt()))),
    ("array_ge", |_, a| Ok(Datum::Bool(order(a)?.is_ge()))),
    ("btarraycmp", |_, a| Ok(Datum::Int4(order(a)? as i32))),
    ("array_larger", |_, a| Ok(a.any(usize::from(!order(a)?.is_gt())).clone())),
    ("array_smaller", |_, a| Ok(a.any(usize::from(!order(a)?.is_lt())).clone())),
    ("oidvectoreq", |_, a| Ok(Datum::Bool(vector_order(a)?.is_eq()))),
    ("oidvectorne", |_, a| Ok(Datum::Bool(vector_order(a)?.is_ne()))),
    ("oidvectorlt", |_, a| Ok(Datum::Bool(vector_order(a)?.is_lt()))),
    ("oidvectorle", |_, a| Ok(Datum::Bool(vector_order(a)?.is_le()))),
    ("oidvectorgt", |_, a| Ok(Datum::Bool(vector_order(a)?.is_gt()))),
    ("oidvectorge", |_, a| Ok(Datum::Bool(vector_order(a)?.is_ge()))),
    ("btoidvectorcmp", |_, a| Ok(Datum::Int4(vector_order(a)? as i32))),
    ("oidvectortypes", |call, a| {
        let names = a.array(0)?.elements.iter().map(|oid| match oid {
            Datum::Oid(oid) => call.env.format_type(*oid, -1),
            _ => String::new(),
        });
        Ok(Datum::text(names.collect::<Vec<_>>().join(", ")))
    }),
    ("record_eq", |_, a| Ok(Datum::Bool(record_order(a)?.is_eq()))),
    ("record_ne", |_, a| Ok(Datum::Bool(record_order(a)?.is_ne()))),
    ("record_lt", |_, a| Ok(Datum::Bool(record_order(a)?.is_lt()))),
    ("record_le", |_, a| Ok(Datum::Bool(record_order(a)?.is_le()))),
    ("record_gt", |_, a| Ok(Datum::Bool(record_order(a)?.is_gt()))),
    ("record_ge", |_, a| Ok(Datum::Bool(record_order(a)?.is_ge()))),
    ("record_image_eq", |_, a| Ok(Datum::Bool(record_image_order(a)?.is_eq()))),
    ("record_image_ne", |_, a| Ok(Datum::Bool(record_image_order(a)?.is_ne()))),
    ("record_image_lt", |_, a| Ok(Datum::Bool(record_image_order(a)?.is_lt()))),
    ("record_image_le", |_, a| Ok(Datum::Bool(record_image_order(a)?.is_le()))),
    ("record_image_gt", |_, a| Ok(Datum::Bool(record_image_order(a)?.is_gt()))),
    ("record_image_ge", |_, a| Ok(Datum::Bool(record_image_order(a)?.is_ge()))),
    ("btrecordimagecmp", |_, a| Ok(Datum::Int4(record_image_order(a)? as i32))),
    ("btrecordcmp", |_, a| Ok(Datum::Int4(record_order(a)? as i32))),
];

/// The order of `*<` and its kin, by the bytes of the values: it tells apart what is equal but not the same, such as
/// 1.0 and 1.00, and its numbers of fixed width have no sign. Values of other types come in their usual order first.
fn record_image_order(args: &[Datum]) -> Result<Ordering> {
    // Refuses what cannot be compared.
    record_order(args)?;
    let (a, b) = (args.record(0)?, args.record(1)?);
    let columns = a.values.iter().zip(&b.values).map(|(a, b)| image_order(a, b));
    Ok(columns.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

fn image_order(a: &Datum, b: &Datum) -> Ordering {
    if let (Some(a), Some(b)) = (word(a), word(b)) {
        return a.cmp(&b);
    }
    let image = |value: &Datum| {
        let mut bytes = Vec::new();
        row::encode_datum(value, &mut bytes);
        bytes
    };
    compare::compare(a, b, false).then_with(|| image(a).cmp(&image(b)))
}

/// A value of fixed width as PostgreSQL has it in a machine word; `None` for other values.
fn word(value: &Datum) -> Option<u64> {
    Some(match value {
        Datum::Bool(value) => u64::from(*value),
        Datum::Char(value) => i64::from(*value as i8) as u64,
        Datum::Int2(value) => i64::from(*value) as u64,
        Datum::Int4(value) | Datum::Date(value) => i64::from(*value) as u64,
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::TimestampTz(value) => {
            *value as u64
        }
        Datum::Oid(value) => u64::from(*value),
        Datum::UInt8(value) => *value,
        Datum::Float4(value) => i64::from(value.to_bits() as i32) as u64,
        Datum::Float8(value) => value.to_bits(),
        _ => return None,
    })
}

/// oidvectors are ordered by length first.
fn vector_order(args: &[Datum]) -> Result<Ordering> {
    let (a, b) = (args.array(0)?, args.array(1)?);
    Ok(a.elements.len().cmp(&b.elements.len()).then_with(|| compare::compare_arrays(a, b)))
}

/// Elements compare as `char(n)`.
fn blank_padded(element_type: u32) -> bool {
    element_type == types::BPCHAR
}

/// Equality of elements; null equals nothing but null.
fn same(a: &Datum, b: &Datum, element_type: u32) -> bool {
    compare::equal(a, b, blank_padded(element_type))
}

fn subscript_error(message: &str) -> Error {
    err!(ARRAY_SUBSCRIPT_ERROR, "{message}")
}

/// The refusal of a length; it names PostgreSQL's limit where that is what stands in the way.
fn too_many_elements(count: Option<usize>) -> Error {
    const POSTGRESQL_MAX: usize = 134_217_727;
    let limit =
        if count.is_some_and(|count| count <= POSTGRESQL_MAX) { ELEMENTS_MAX } else { POSTGRESQL_MAX };
    err!(PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed ({limit})")
}

/// The upper bound of a dimension.
fn upper_bound(dimension: &Dimension) -> i64 {
    i64::from(dimension.lower_bound) + dimension.length as i64 - 1
}
