//! `container[...]`: reading and assigning elements and slices of arrays, keys of jsonb.

use std::sync::Arc;

use cairn_types::{Array, Datum, Dimension, Error, Jsonb, Result, bail, err};

use super::{Code, Subscript};
use crate::context::{ExecContext, Frame};

pub fn eval(subscript: &Subscript, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
    let container = subscript.container.eval(cx, frame)?;
    if subscript.jsonb {
        return jsonb(subscript, container, cx, frame);
    }
    let mut upper = Vec::with_capacity(subscript.upper.len());
    let mut lower = Vec::with_capacity(subscript.lower.len());
    for (codes, bounds) in [(&subscript.upper, &mut upper), (&subscript.lower, &mut lower)] {
        for code in codes {
            let bound = match code {
                None => None,
                Some(code) => match code.eval(cx, frame)? {
                    Datum::Int4(value) => Some(value),
                    Datum::Int2(value) => Some(value.into()),
                    Datum::Null if subscript.assignment.is_some() => {
                        bail!(NULL_VALUE_NOT_ALLOWED, "array subscript in assignment must not be null")
                    }
                    Datum::Null => return Ok(Datum::Null),
                    other => return Err(Error::internal(format!("array subscript {other:?}"))),
                },
            };
            bounds.push(bound);
        }
    }
    match &subscript.assignment {
        None => {
            if let Datum::Text(name) = &container {
                return Ok(name_character(name, &upper));
            }
            let Datum::Array(array) = container else { return Ok(Datum::Null) };
            if subscript.slice { Ok(slice(&array, &lower, &upper)) } else { Ok(element(&array, &upper)) }
        }
        Some(value) => {
            let value = value.eval(cx, frame)?;
            let array = match container {
                Datum::Array(array) => array,
                _ => Arc::new(Array::from_elements(subscript.element_type, Vec::new())),
            };
            if subscript.slice {
                assign_slice(&array, &lower, &upper, value)
            } else {
                assign(&array, &upper, value)
            }
        }
    }
}

/// A name is an array of 64 characters that counts from 0 (`typname[0]`, as pg_dump asks).
fn name_character(name: &str, upper: &[Option<i32>]) -> Datum {
    match upper {
        [Some(at @ 0..64)] => Datum::Char(name.as_bytes().get(*at as usize).copied().unwrap_or(0)),
        _ => Datum::Null,
    }
}

/// Position in row-major order; `None` if a subscript is out of bounds.
fn position(dimensions: &[Dimension], subscripts: &[i32]) -> Option<usize> {
    if dimensions.len() != subscripts.len() {
        return None;
    }
    dimensions.iter().zip(subscripts).try_fold(0usize, |at, (dimension, subscript)| {
        let offset = usize::try_from(i64::from(*subscript) - i64::from(dimension.lower_bound)).ok()?;
        (offset < dimension.length).then_some(at * dimension.length + offset)
    })
}

fn element(array: &Array, upper: &[Option<i32>]) -> Datum {
    let subscripts: Vec<i32> = upper.iter().flatten().copied().collect();
    position(&array.dimensions, &subscripts)
        .and_then(|at| array.elements.get(at))
        .cloned()
        .unwrap_or_default()
}

fn slice(array: &Array, lower: &[Option<i32>], upper: &[Option<i32>]) -> Datum {
    let empty = || Datum::Array(Arc::new(Array::from_elements(array.element_type, Vec::new())));
    if array.dimensions.is_empty() || array.dimensions.len() < upper.len() {
        return empty();
    }
    let mut ranges = Vec::with_capacity(array.dimensions.len());
    for (index, dimension) in array.dimensions.iter().enumerate() {
        let first = i64::from(dimension.lower_bound);
        let last = first + dimension.length as i64 - 1;
        let from = lower.get(index).copied().flatten().map_or(first, |bound| first.max(bound.into()));
        let to = upper.get(index).copied().flatten().map_or(last, |bound| last.min(bound.into()));
        if from > to {
            return empty();
        }
        ranges.push((from as i32, to as i32));
    }
    let mut elements = Vec::new();
    let mut at: Vec<i32> = ranges.iter().map(|range| range.0).collect();
    'all: loop {
        if let Some(value) = position(&array.dimensions, &at).and_then(|at| array.elements.get(at)) {
            elements.push(value.clone());
        }
        for index in (0..at.len()).rev() {
            if at[index] < ranges[index].1 {
                at[index] += 1;
                continue 'all;
            }
            at[index] = ranges[index].0;
        }
        break;
    }
    let dimensions = ranges
        .iter()
        .map(|(from, to)| Dimension {
            length: (i64::from(*to) - i64::from(*from) + 1) as usize,
            lower_bound: 1,
        })
        .collect();
    Datum::Array(Arc::new(Array { element_type: array.element_type, dimensions, elements }))
}

const ELEMENTS_MAX: usize = 134_217_727;

fn assign(array: &Array, upper: &[Option<i32>], value: Datum) -> Result<Datum> {
    let subscripts: Vec<i32> = upper.iter().flatten().copied().collect();
    let mut array = array.clone();
    if array.dimensions.is_empty() {
        array.dimensions =
            subscripts.iter().map(|subscript| Dimension { length: 1, lower_bound: *subscript }).collect();
        array.elements = vec![value];
        return Ok(Datum::Array(Arc::new(array)));
    }
    if array.dimensions.len() != subscripts.len() {
        bail!(ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts");
    }
    if let Some(at) = position(&array.dimensions, &subscripts) {
        if let Some(slot) = array.elements.get_mut(at) {
            *slot = value;
        }
        return Ok(Datum::Array(Arc::new(array)));
    }
    let ([dimension], [subscript]) = (array.dimensions.as_mut_slice(), subscripts.as_slice()) else {
        bail!(ARRAY_SUBSCRIPT_ERROR, "array subscript out of range");
    };
    // A one-dimensional array grows to the new place; what lies between is null.
    grow(dimension, &mut array.elements, *subscript, *subscript)?;
    let at = (i64::from(*subscript) - i64::from(dimension.lower_bound)) as usize;
    array.elements[at] = value;
    Ok(Datum::Array(Arc::new(array)))
}

fn grow(dimension: &mut Dimension, elements: &mut Vec<Datum>, first: i32, last: i32) -> Result<()> {
    let too_large =
        || err!(PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    let before = i64::from(dimension.lower_bound) - i64::from(first);
    if before > 0 {
        let before = usize::try_from(before).map_err(|_| too_large())?;
        if elements.len() + before > ELEMENTS_MAX {
            return Err(too_large());
        }
        elements.splice(0..0, std::iter::repeat_n(Datum::Null, before));
        dimension.lower_bound = first;
    }
    let length = i64::from(last) - i64::from(dimension.lower_bound) + 1;
    let length = usize::try_from(length).unwrap_or(0);
    if length > ELEMENTS_MAX {
        return Err(too_large());
    }
    if length > elements.len() {
        elements.resize(length, Datum::Null);
    }
    dimension.length = elements.len();
    Ok(())
}

/// `array[lower:upper] = value`; bounds that are left out are those of the array. Errors: those of PostgreSQL's slice
/// assignment, 0A000 for several dimensions.
pub fn assign_slice(
    array: &Array,
    lower: &[Option<i32>],
    upper: &[Option<i32>],
    value: Datum,
) -> Result<Datum> {
    let Datum::Array(source) = value else { return Ok(Datum::Array(Arc::new(array.clone()))) };
    if array.dimensions.len() > 1 || upper.len() > 1 {
        return Err(Error::unsupported("assignment to a slice of a multidimensional array is"));
    }
    let mut array = array.clone();
    if array.dimensions.is_empty() {
        let from = lower.first().copied().flatten().unwrap_or(1);
        array.dimensions = vec![Dimension { length: 0, lower_bound: from }];
    }
    let dimension = &mut array.dimensions[0];
    let from = lower.first().copied().flatten().unwrap_or(dimension.lower_bound);
    let to = match upper.first().copied().flatten() {
        Some(to) => to,
        None => (i64::from(dimension.lower_bound) + dimension.length as i64 - 1) as i32,
    };
    if from > to {
        bail!(ARRAY_SUBSCRIPT_ERROR, "upper bound cannot be less than lower bound");
    }
    let count = (i64::from(to) - i64::from(from) + 1) as usize;
    if source.elements.len() < count {
        bail!(ARRAY_SUBSCRIPT_ERROR, "source array too small");
    }
    grow(dimension, &mut array.elements, from, to)?;
    let at = (i64::from(from) - i64::from(dimension.lower_bound)) as usize;
    for (slot, value) in array.elements[at..].iter_mut().zip(&source.elements[..count]) {
        slot.clone_from(value);
    }
    Ok(Datum::Array(Arc::new(array)))
}

fn jsonb(subscript: &Subscript, container: Datum, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
    if subscript.slice {
        bail!(DATATYPE_MISMATCH, "jsonb subscript does not support slices");
    }
    if let Some(value) = &subscript.assignment {
        return assign_jsonb(subscript, value, container, cx, frame);
    }
    let Datum::Jsonb(value) = container else { return Ok(Datum::Null) };
    let mut at: &Jsonb = &value;
    for code in subscript.upper.iter().flatten() {
        let key = code.eval(cx, frame)?;
        let next = match (at, &key) {
            (Jsonb::Object(object), Datum::Text(key)) => object
                .members
                .iter()
                .find(|(name, _)| name.as_bytes() == key.as_bytes())
                .map(|(_, value)| value),
            (Jsonb::Array(array), Datum::Int4(index)) => nth(&array.items, i64::from(*index)),
            (Jsonb::Array(array), Datum::Text(key)) => {
                key.parse::<i64>().ok().and_then(|index| nth(&array.items, index))
            }
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Ok(Datum::Null),
        }
    }
    Ok(Datum::Jsonb(Arc::new(at.clone())))
}

fn assign_jsonb(
    subscript: &Subscript,
    value: &Code,
    container: Datum,
    cx: &ExecContext<'_>,
    frame: &mut Frame,
) -> Result<Datum> {
    let mut path = Vec::with_capacity(subscript.upper.len());
    let mut first_is_index = None;
    for code in subscript.upper.iter().flatten() {
        let step = match code.eval(cx, frame)? {
            Datum::Int4(index) => {
                first_is_index.get_or_insert(true);
                index.to_string()
            }
            Datum::Text(key) => {
                first_is_index.get_or_insert(false);
                key.to_string()
            }
            Datum::Null => {
                bail!(NULL_VALUE_NOT_ALLOWED, "jsonb subscript in assignment must not be null")
            }
            other => return Err(Error::internal(format!("jsonb subscript {other:?}"))),
        };
        path.push(step);
    }
    // SQL's null is stored as JSON's.
    let value = match value.eval(cx, frame)? {
        Datum::Jsonb(value) => (*value).clone(),
        Datum::Null => Jsonb::Null,
        other => return Err(Error::internal(format!("jsonb element {other:?}"))),
    };
    let container = match &container {
        Datum::Jsonb(container) => Some(&**container),
        _ => None,
    };
    let steps: Vec<&str> = path.iter().map(String::as_str).collect();
    let assigned = Jsonb::assign(container, &steps, first_is_index.unwrap_or(false), &value)?;
    Ok(Datum::Jsonb(Arc::new(assigned)))
}

fn nth(items: &[Jsonb], index: i64) -> Option<&Jsonb> {
    let index = if index < 0 { index + items.len() as i64 } else { index };
    items.get(usize::try_from(index).ok()?)
}
