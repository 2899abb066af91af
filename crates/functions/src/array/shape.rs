//! What an array looks like: dimensions, bounds, lengths; and taking it apart.

use std::sync::Arc;

use cairn_types::{Array, Datum, Dimension, Result, bail};

use super::upper_bound;
use crate::string::int4;
use crate::{Args, Call, RowStream, Rows, ScalarFn, SetFn};

/// The dimension of this number, counted from 1.
fn dimension(array: &Array, number: i32) -> Option<&Dimension> {
    array.dimensions.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("array_ndims", |_, a| match a.array(0)?.dimensions.len() {
        0 => Ok(Datum::Null),
        count => int4(count),
    }),
    ("array_dims", |_, a| {
        let array = a.array(0)?;
        if array.dimensions.is_empty() {
            return Ok(Datum::Null);
        }
        let bounds = array.dimensions.iter().map(|d| format!("[{}:{}]", d.lower_bound, upper_bound(d)));
        Ok(Datum::text(bounds.collect::<String>()))
    }),
    ("array_length", |_, a| match dimension(a.array(0)?, a.int4(1)?) {
        Some(dimension) => int4(dimension.length),
        None => Ok(Datum::Null),
    }),
    ("array_lower", |_, a| {
        Ok(dimension(a.array(0)?, a.int4(1)?).map_or(Datum::Null, |d| Datum::Int4(d.lower_bound)))
    }),
    ("array_upper", |_, a| {
        Ok(dimension(a.array(0)?, a.int4(1)?).map_or(Datum::Null, |d| Datum::Int4(upper_bound(d) as i32)))
    }),
    ("array_cardinality", |_, a| int4(a.array(0)?.elements.len())),
    ("trim_array", |_, a| {
        let (array, count) = (a.array(0)?, a.int4(1)?);
        let length = array.dimensions.first().map_or(0, |d| d.length);
        let Some(kept) = usize::try_from(count).ok().and_then(|count| length.checked_sub(count)) else {
            bail!(ARRAY_SUBSCRIPT_ERROR, "number of elements to trim must be between 0 and {length}");
        };
        if kept == 0 {
            return Ok(Datum::Array(Arc::new(Array::from_elements(array.element_type, Vec::new()))));
        }
        let mut dimensions = array.dimensions.clone();
        dimensions[0] = Dimension { length: kept, lower_bound: 1 };
        let elements = array.elements[..array.elements.len() / length * kept].to_vec();
        Ok(Datum::Array(Arc::new(Array { element_type: array.element_type, dimensions, elements })))
    }),
];

pub const SET_BODIES: &[(&str, SetFn)] = &[
    ("array_unnest", |_, a| {
        Ok(Box::new(Elements { array: a.array(0)?.clone(), next: 0 }) as Box<dyn RowStream>)
    }),
    ("generate_subscripts", |_, a| subscripts(a, a.bool(2)?)),
    ("generate_subscripts_nodir", |_, a| subscripts(a, false)),
];

struct Elements {
    array: Arc<Array>,
    next: usize,
}

impl RowStream for Elements {
    fn next(&mut self, _: &Call<'_>, row: &mut cairn_types::Row) -> Result<bool> {
        let Some(element) = self.array.elements.get(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        row.clear();
        row.push(element.clone());
        Ok(true)
    }
}

fn subscripts(args: &[Datum], reverse: bool) -> Result<Box<dyn RowStream>> {
    let Some(dimension) = dimension(args.array(0)?, args.int4(1)?) else {
        return Ok(Rows::of_values([]));
    };
    let bounds = i64::from(dimension.lower_bound)..=upper_bound(dimension);
    let subscript = |value: i64| Datum::Int4(value as i32);
    Ok(if reverse {
        Rows::of_values(bounds.rev().map(subscript))
    } else {
        Rows::of_values(bounds.map(subscript))
    })
}
