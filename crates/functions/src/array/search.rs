//! Looking for elements, removing and replacing them; containment and overlap.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use cairn_types::{Array, Datum, Dimension, Error, Result, compare, err, types};

use super::{blank_padded, same};
use crate::{Args, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("arraycontains", |_, a| Ok(Datum::Bool(contains(a.array(0)?, a.array(1)?)?))),
    ("arraycontained", |_, a| Ok(Datum::Bool(contains(a.array(1)?, a.array(0)?)?))),
    ("arrayoverlap", |_, a| Ok(Datum::Bool(overlap(a.array(0)?, a.array(1)?)?))),
    ("array_position", |_, a| position(a)),
    ("array_position_start", |_, a| position(a)),
    ("array_positions", |_, a| {
        if a.is_null(0) {
            return Ok(Datum::Null);
        }
        let array = a.array(0)?;
        let lower_bound =
            one_dimensional(array, "searching for elements in multidimensional arrays is not supported")?;
        let found = array
            .elements
            .iter()
            .enumerate()
            .filter(|(_, element)| same(element, a.any(1), array.element_type));
        let subscripts = found.map(|(index, _)| Datum::Int4(lower_bound + index as i32)).collect();
        Ok(Datum::Array(Arc::new(Array::from_elements(types::INT4, subscripts))))
    }),
    ("array_remove", |_, a| {
        if a.is_null(0) {
            return Ok(Datum::Null);
        }
        let array = a.array(0)?;
        if array.dimensions.len() > 1 {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "removing elements from multidimensional arrays is not supported"
            ));
        }
        let kept: Vec<Datum> = array
            .elements
            .iter()
            .filter(|element| !same(element, a.any(1), array.element_type))
            .cloned()
            .collect();
        if kept.len() == array.elements.len() {
            return Ok(Datum::Array(array.clone()));
        }
        if kept.is_empty() {
            return Ok(Datum::Array(Arc::new(Array::from_elements(array.element_type, kept))));
        }
        let dimensions = vec![Dimension { length: kept.len(), lower_bound: array.dimensions[0].lower_bound }];
        Ok(Datum::Array(Arc::new(Array { element_type: array.element_type, dimensions, elements: kept })))
    }),
    ("array_replace", |_, a| {
        if a.is_null(0) {
            return Ok(Datum::Null);
        }
        let array = a.array(0)?;
        let replaced = array.elements.iter().map(|element| {
            if same(element, a.any(1), array.element_type) { a.any(2).clone() } else { element.clone() }
        });
        let elements = replaced.collect();
        let dimensions = array.dimensions.clone();
        Ok(Datum::Array(Arc::new(Array { element_type: array.element_type, dimensions, elements })))
    }),
    ("width_bucket_array", |_, a| {
        let (operand, thresholds) = (a.any(0), a.array(1)?);
        if thresholds.dimensions.len() > 1 {
            return Err(err!(ARRAY_SUBSCRIPT_ERROR, "thresholds must be one-dimensional array"));
        }
        if thresholds.elements.iter().any(Datum::is_null) {
            return Err(err!(NULL_VALUE_NOT_ALLOWED, "thresholds array must not contain NULLs"));
        }
        let padded = blank_padded(thresholds.element_type);
        let bucket = thresholds.elements.partition_point(|t| compare::compare(t, operand, padded).is_le());
        crate::string::int4(bucket)
    }),
];

/// The lower bound of an array that has one dimension (or none).
fn one_dimensional(array: &Array, refusal: &str) -> Result<i32> {
    match array.dimensions.as_slice() {
        [] => Ok(1),
        [only] => Ok(only.lower_bound),
        _ => Err(err!(FEATURE_NOT_SUPPORTED, "{refusal}")),
    }
}

fn position(args: &[Datum]) -> Result<Datum> {
    if args.is_null(0) {
        return Ok(Datum::Null);
    }
    let array = args.array(0)?;
    let lower_bound =
        one_dimensional(array, "searching for elements in multidimensional arrays is not supported")?;
    let mut skip = 0;
    if args.len() > 2 {
        if args.is_null(2) {
            return Err(err!(NULL_VALUE_NOT_ALLOWED, "initial position must not be null"));
        }
        skip = usize::try_from(i64::from(args.int4(2)?) - i64::from(lower_bound)).unwrap_or(0);
    }
    let found = array
        .elements
        .iter()
        .enumerate()
        .skip(skip)
        .find(|(_, element)| same(element, args.any(1), array.element_type));
    Ok(found.map_or(Datum::Null, |(index, _)| Datum::Int4(lower_bound + index as i32)))
}

fn check_types(a: &Array, b: &Array) -> Result<()> {
    if a.element_type == b.element_type { Ok(()) } else { Err(different_types()) }
}

fn different_types() -> Error {
    err!(DATATYPE_MISMATCH, "cannot compare arrays of different element types")
}

/// A set of an array's elements, so that containment of long arrays stays linear.
struct ElementSet<'a> {
    by_hash: HashMap<u64, Vec<&'a Datum>>,
    element_type: u32,
}

fn hash(value: &Datum, element_type: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    compare::hash(value, blank_padded(element_type), &mut hasher);
    hasher.finish()
}

impl<'a> ElementSet<'a> {
    fn of(array: &'a Array) -> Self {
        let mut by_hash: HashMap<u64, Vec<&Datum>> = HashMap::with_capacity(array.elements.len());
        for element in &array.elements {
            by_hash.entry(hash(element, array.element_type)).or_default().push(element);
        }
        ElementSet { by_hash, element_type: array.element_type }
    }

    fn has(&self, value: &Datum) -> bool {
        self.by_hash
            .get(&hash(value, self.element_type))
            .is_some_and(|candidates| candidates.iter().any(|have| same(have, value, self.element_type)))
    }
}

/// Below so many pairs, comparing all of them is cheaper than hashing.
const PAIRS_MAX: usize = 256;

/// Each element of `wanted` is in `array`; a null is in nothing.
fn contains(array: &Array, wanted: &Array) -> Result<bool> {
    check_types(array, wanted)?;
    if wanted.elements.iter().any(Datum::is_null) {
        return Ok(false);
    }
    if array.elements.len() * wanted.elements.len() <= PAIRS_MAX {
        return Ok(wanted
            .elements
            .iter()
            .all(|value| array.elements.iter().any(|have| same(have, value, array.element_type))));
    }
    let set = ElementSet::of(array);
    Ok(wanted.elements.iter().all(|value| set.has(value)))
}

fn overlap(a: &Array, b: &Array) -> Result<bool> {
    check_types(a, b)?;
    let present = |value: &&Datum| !value.is_null();
    if a.elements.len() * b.elements.len() <= PAIRS_MAX {
        return Ok(b
            .elements
            .iter()
            .filter(present)
            .any(|value| a.elements.iter().any(|have| same(have, value, a.element_type))));
    }
    let set = ElementSet::of(a);
    Ok(b.elements.iter().filter(present).any(|value| set.has(value)))
}
