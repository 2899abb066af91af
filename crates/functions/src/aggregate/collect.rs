//! array_agg and string_agg.

use std::sync::Arc;

use cairn_types::{Array, Datum, Dimension, Result, bail};

use super::{Accumulator, Aggregate, fresh};
use crate::{Args, Call};

pub fn aggregate(transition: &str) -> Option<Box<dyn Aggregate>> {
    Some(match transition {
        "array_agg_transfn" => fresh::<ArrayAgg>(),
        "array_agg_array_transfn" => fresh::<ArrayOfArrays>(),
        "string_agg_transfn" => fresh::<StringAgg>(),
        "bytea_string_agg_transfn" => fresh::<BytesAgg>(),
        _ => return None,
    })
}

/// Heap behind a datum, roughly.
pub fn heap_bytes(value: &Datum) -> usize {
    match value {
        Datum::Text(text) => text.len() + 16,
        Datum::Bytea(bytes) => bytes.len() + 16,
        Datum::Numeric(_) => 48,
        Datum::Array(array) => {
            array.elements.iter().map(heap_bytes).sum::<usize>() + 64 + array.elements.len() * 32
        }
        Datum::Record(record) => {
            record.values.iter().map(heap_bytes).sum::<usize>() + 64 + record.values.len() * 32
        }
        Datum::Jsonb(_) => 128,
        _ => 0,
    }
}

/// `array_agg(x)`: nulls become elements; no rows, no array.
#[derive(Debug, Default)]
struct ArrayAgg {
    elements: Vec<Datum>,
    bytes: usize,
}

impl Accumulator for ArrayAgg {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        let value = args.any(0);
        self.bytes += 32 + heap_bytes(value);
        self.elements.push(value.clone());
        Ok(())
    }

    fn finish(&mut self, call: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        if self.elements.is_empty() {
            return Ok(Datum::Null);
        }
        let element_type = call.info.arg_types.first().copied().unwrap_or_default();
        Ok(Datum::Array(Arc::new(Array::from_elements(element_type, self.elements.clone()))))
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

/// `array_agg(anyarray)`: arrays of equal dimensions become one with one dimension more.
#[derive(Debug, Default)]
struct ArrayOfArrays {
    inner: Vec<Dimension>,
    element_type: cairn_types::Oid,
    count: usize,
    elements: Vec<Datum>,
    bytes: usize,
}

impl Accumulator for ArrayOfArrays {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if args.is_null(0) {
            bail!(NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays");
        }
        let array = args.array(0)?;
        if array.dimensions.is_empty() {
            bail!(ARRAY_SUBSCRIPT_ERROR, "cannot accumulate empty arrays");
        }
        if self.count == 0 {
            if array.dimensions.len() >= 6 {
                bail!(
                    PROGRAM_LIMIT_EXCEEDED,
                    "number of array dimensions ({}) exceeds the maximum allowed (6)",
                    array.dimensions.len() + 1
                );
            }
            self.inner.clone_from(&array.dimensions);
            self.element_type = array.element_type;
        } else if self.inner != array.dimensions {
            bail!(ARRAY_SUBSCRIPT_ERROR, "cannot accumulate arrays of different dimensionality");
        }
        self.count += 1;
        self.bytes += heap_bytes(args.any(0));
        self.elements.extend(array.elements.iter().cloned());
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let mut dimensions = vec![Dimension { length: self.count, lower_bound: 1 }];
        dimensions.extend(self.inner.iter().copied());
        Ok(Datum::Array(Arc::new(Array {
            element_type: self.element_type,
            dimensions,
            elements: self.elements.clone(),
        })))
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

/// `string_agg(value, delimiter)`: a null value counts for nothing, its delimiter neither.
#[derive(Debug, Default)]
struct StringAgg {
    text: Option<String>,
}

impl Accumulator for StringAgg {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if args.is_null(0) {
            return Ok(());
        }
        let value = args.str(0)?;
        match &mut self.text {
            None => self.text = Some(value.to_owned()),
            Some(text) => {
                if !args.is_null(1) {
                    text.push_str(args.str(1)?);
                }
                text.push_str(value);
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        Ok(self.text.as_deref().map_or(Datum::Null, Datum::text))
    }

    fn heap_bytes(&self) -> usize {
        self.text.as_ref().map_or(0, String::capacity)
    }
}

/// `string_agg(bytea, bytea)`
#[derive(Debug, Default)]
struct BytesAgg {
    bytes: Option<Vec<u8>>,
}

impl Accumulator for BytesAgg {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if args.is_null(0) {
            return Ok(());
        }
        let value = args.bytea(0)?;
        match &mut self.bytes {
            None => self.bytes = Some(value.to_vec()),
            Some(bytes) => {
                if !args.is_null(1) {
                    bytes.extend_from_slice(args.bytea(1)?);
                }
                bytes.extend_from_slice(value);
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        Ok(self.bytes.as_deref().map_or(Datum::Null, |bytes| Datum::Bytea(bytes.into())))
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, Vec::capacity)
    }
}
