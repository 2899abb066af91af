//! Making arrays of arrays and elements: append, prepend, concatenation, fill.

use std::sync::Arc;

use cairn_types::{Array, Datum, Dimension, Error, Result, bail, err};

use super::{DIMENSIONS_MAX, ELEMENTS_MAX, subscript_error, too_many_elements};
use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("array_append", |call, a| with_element(call, a.any(0), a.any(1), false)),
    ("array_prepend", |call, a| with_element(call, a.any(1), a.any(0), true)),
    ("array_cat", |_, a| {
        // A null array is as good as none.
        match (a.is_null(0), a.is_null(1)) {
            (true, _) => Ok(a.any(1).clone()),
            (_, true) => Ok(a.any(0).clone()),
            _ => concatenate(a.array(0)?, a.array(1)?),
        }
    }),
    ("array_fill", |call, a| fill(call, a)),
    ("array_fill_with_lower_bounds", |call, a| fill(call, a)),
];

/// The element type of an array type.
fn element_type_of(call: &Call<'_>, array_type: u32) -> Result<u32> {
    match call.env.type_shape(array_type) {
        Some(cairn_types::TypeShape::Array { element, .. }) => Ok(element),
        _ => Err(Error::internal(format!("type {array_type} is not an array"))),
    }
}

fn with_element(call: &Call<'_>, array: &Datum, element: &Datum, front: bool) -> Result<Datum> {
    let array = match array {
        Datum::Null => {
            let element_type = element_type_of(call, call.info.result_type)?;
            &Arc::new(Array::from_elements(element_type, Vec::new()))
        }
        other => std::slice::from_ref(other).array(0)?,
    };
    let lower_bound = match array.dimensions.as_slice() {
        [] => 1,
        [only] => only.lower_bound,
        _ => return Err(err!(DATA_EXCEPTION, "argument must be empty or one-dimensional array")),
    };
    let mut elements = Vec::with_capacity(array.elements.len() + 1);
    if front {
        elements.push(element.clone());
    }
    elements.extend_from_slice(&array.elements);
    if !front {
        elements.push(element.clone());
    }
    if elements.len() > ELEMENTS_MAX {
        return Err(too_many_elements(Some(elements.len())));
    }
    // The lower bound stays, also where the new element comes first.
    let dimensions = vec![Dimension { length: elements.len(), lower_bound }];
    Ok(Datum::Array(Arc::new(Array { element_type: array.element_type, dimensions, elements })))
}

fn incompatible(detail: &str) -> Error {
    subscript_error("cannot concatenate incompatible arrays").detail(detail)
}

/// `a || b`: two arrays of as many dimensions, or one that is an element of the other.
fn concatenate(a: &Arc<Array>, b: &Arc<Array>) -> Result<Datum> {
    if a.element_type != b.element_type {
        bail!(DATATYPE_MISMATCH, "cannot concatenate incompatible arrays");
    }
    if a.dimensions.is_empty() {
        return Ok(Datum::Array(b.clone()));
    }
    if b.dimensions.is_empty() {
        return Ok(Datum::Array(a.clone()));
    }
    let (count_a, count_b) = (a.dimensions.len(), b.dimensions.len());
    let dimensions = if count_a == count_b {
        if a.dimensions[1..] != b.dimensions[1..] {
            return Err(incompatible(
                "Arrays with differing element dimensions are not compatible for concatenation.",
            ));
        }
        let mut dimensions = a.dimensions.clone();
        dimensions[0].length += b.dimensions[0].length;
        dimensions
    } else if count_a == count_b + 1 || count_b == count_a + 1 {
        let (outer, inner) = if count_a > count_b { (a, b) } else { (b, a) };
        if outer.dimensions[1..] != inner.dimensions {
            return Err(incompatible(
                "Arrays with differing dimensions are not compatible for concatenation.",
            ));
        }
        let mut dimensions = outer.dimensions.clone();
        dimensions[0].length += 1;
        dimensions
    } else {
        return Err(incompatible(&format!(
            "Arrays of {count_a} and {count_b} dimensions are not compatible for concatenation."
        )));
    };
    if a.elements.len() + b.elements.len() > ELEMENTS_MAX {
        return Err(too_many_elements(Some(a.elements.len() + b.elements.len())));
    }
    let elements = a.elements.iter().chain(&b.elements).cloned().collect();
    Ok(Datum::Array(Arc::new(Array { element_type: a.element_type, dimensions, elements })))
}

/// The numbers of a one-dimensional integer array that may hold no null.
fn integers(array: &Array) -> Result<Vec<i32>> {
    if array.dimensions.len() > 1 {
        return Err(subscript_error("wrong number of array subscripts")
            .detail("Dimension array must be one dimensional."));
    }
    array
        .elements
        .iter()
        .map(|element| match element {
            Datum::Int4(value) => Ok(*value),
            _ => Err(err!(NULL_VALUE_NOT_ALLOWED, "dimension values cannot be null")),
        })
        .collect()
}

/// `array_fill(element, lengths [, lower bounds])`.
fn fill(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    if args.is_null(1) || (args.len() > 2 && args.is_null(2)) {
        bail!(NULL_VALUE_NOT_ALLOWED, "dimension array or low bound array cannot be null");
    }
    let element_type = call.info.arg_types.first().copied().unwrap_or_default();
    let lengths = integers(args.array(1)?)?;
    let bounds = if args.len() > 2 { integers(args.array(2)?)? } else { vec![1; lengths.len()] };
    if lengths.len() > DIMENSIONS_MAX {
        bail!(
            PROGRAM_LIMIT_EXCEEDED,
            "number of array dimensions ({}) exceeds the maximum allowed ({DIMENSIONS_MAX})",
            lengths.len()
        );
    }
    if bounds.len() != lengths.len() {
        return Err(subscript_error("wrong number of array subscripts")
            .detail("Low bound array has different size than dimensions array."));
    }
    let mut count = 1usize;
    let mut dimensions = Vec::with_capacity(lengths.len());
    for (length, lower_bound) in lengths.iter().zip(bounds) {
        let length = usize::try_from(*length).map_err(|_| too_many_elements(None))?;
        let product = count.checked_mul(length);
        count = product.filter(|count| *count <= ELEMENTS_MAX).ok_or_else(|| too_many_elements(product))?;
        if i64::from(lower_bound) + length as i64 > i64::from(i32::MAX) {
            bail!(PROGRAM_LIMIT_EXCEEDED, "array lower bound is too large: {lower_bound}");
        }
        dimensions.push(Dimension { length, lower_bound });
    }
    if dimensions.is_empty() || count == 0 {
        return Ok(Datum::Array(Arc::new(Array::from_elements(element_type, Vec::new()))));
    }
    let elements = vec![args.any(0).clone(); count];
    Ok(Datum::Array(Arc::new(Array { element_type, dimensions, elements })))
}
