//! percentile_cont, percentile_disc, mode (manual, table 9.61).
//!
//! The executor feeds the aggregated argument in the order of WITHIN GROUP, so the state is a sorted list. Nulls
//! do not count. The fraction, or array of fractions, is the direct argument.

use std::sync::Arc;

use cairn_types::{Array, Datum, Interval, Result, bail, types};

use super::collect::heap_bytes;
use super::{Accumulator, Aggregate, fresh};
use crate::datetime::arithmetic::{interval_sum, negate};
use crate::{Args, Call};

pub fn aggregate(transition: &str, final_function: Option<&str>) -> Option<Box<dyn Aggregate>> {
    if transition != "ordered_set_transition" {
        return None;
    }
    Some(match final_function? {
        "percentile_disc_final" | "percentile_disc_multi_final" => fresh::<Sorted<DISCRETE>>(),
        "percentile_cont_float8_final"
        | "percentile_cont_float8_multi_final"
        | "percentile_cont_interval_final"
        | "percentile_cont_interval_multi_final" => fresh::<Sorted<CONTINUOUS>>(),
        "mode_final" => fresh::<Sorted<MODE>>(),
        _ => return None,
    })
}

const DISCRETE: u8 = 0;
const CONTINUOUS: u8 = 1;
const MODE: u8 = 2;

#[derive(Debug, Default)]
struct Sorted<const WHAT: u8> {
    values: Vec<Datum>,
    bytes: usize,
}

impl<const WHAT: u8> Accumulator for Sorted<WHAT> {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        let value = args.any(0);
        if !value.is_null() {
            self.bytes += 32 + heap_bytes(value);
            self.values.push(value.clone());
        }
        Ok(())
    }

    fn finish(&mut self, call: &Call<'_>, direct: &[Datum]) -> Result<Datum> {
        if WHAT == MODE {
            return Ok(self.mode(call));
        }
        match direct.any(0) {
            Datum::Null => Ok(Datum::Null),
            Datum::Array(fractions) => self.percentiles(fractions),
            _ => {
                let fraction = checked_fraction(direct.float8(0)?)?;
                if self.values.is_empty() { Ok(Datum::Null) } else { self.percentile(fraction) }
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

fn checked_fraction(fraction: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&fraction) {
        bail!(
            NUMERIC_VALUE_OUT_OF_RANGE,
            "percentile value {} is not between 0 and 1",
            crate::text::general(fraction)
        );
    }
    Ok(fraction)
}

impl<const WHAT: u8> Sorted<WHAT> {
    fn percentile(&self, fraction: f64) -> Result<Datum> {
        let count = self.values.len();
        let at = |i: usize| self.values.get(i).cloned().unwrap_or_default();
        if WHAT == DISCRETE {
            let row = (fraction * count as f64).ceil() as usize;
            return Ok(at(row.saturating_sub(1)));
        }
        let position = fraction * (count - 1) as f64;
        let (first, second) = (position.floor() as usize, position.ceil() as usize);
        if first == second {
            return Ok(at(first));
        }
        let share = position - first as f64;
        match (at(first), at(second)) {
            (Datum::Float8(low), Datum::Float8(high)) => Ok(Datum::Float8(low + share * (high - low))),
            (Datum::Interval(low), Datum::Interval(high)) => {
                let part = scaled_difference(low, high, share)?;
                Ok(Datum::Interval(interval_sum(low, part)?))
            }
            (other, _) => Ok(other),
        }
    }

    /// One result for each fraction; a null fraction's is null.
    fn percentiles(&self, fractions: &Array) -> Result<Datum> {
        let mut elements = Vec::with_capacity(fractions.elements.len());
        for fraction in &fractions.elements {
            elements.push(match fraction {
                Datum::Float8(fraction) => {
                    let fraction = checked_fraction(*fraction)?;
                    if self.values.is_empty() { Datum::Null } else { self.percentile(fraction)? }
                }
                _ => Datum::Null,
            });
        }
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        let element_type = match self.values.first() {
            Some(value) => element_type(value),
            None => types::TEXT,
        };
        Ok(Datum::Array(Arc::new(Array { element_type, dimensions: fractions.dimensions.clone(), elements })))
    }

    /// The most frequent value; of several the first.
    fn mode(&self, call: &Call<'_>) -> Datum {
        let blank_padded = call.info.arg_types.first() == Some(&types::BPCHAR);
        let mut best: Option<(&Datum, usize)> = None;
        let mut run: Option<(&Datum, usize)> = None;
        for value in &self.values {
            run = match run {
                Some((start, count)) if cairn_types::compare::equal(start, value, blank_padded) => {
                    Some((start, count + 1))
                }
                _ => Some((value, 1)),
            };
            if run.map_or(0, |(_, count)| count) > best.map_or(0, |(_, count)| count) {
                best = run;
            }
        }
        best.map_or(Datum::Null, |(value, _)| value.clone())
    }
}

fn scaled_difference(low: Interval, high: Interval, share: f64) -> Result<Interval> {
    let difference = interval_sum(high, negate(low)?)?;
    crate::datetime::arithmetic::interval_product(difference, share)
}

/// The SQL type of a value whose physical form has only one.
fn element_type(value: &Datum) -> cairn_types::Oid {
    match value {
        Datum::Bool(_) => types::BOOL,
        Datum::Int2(_) => types::INT2,
        Datum::Int4(_) => types::INT4,
        Datum::Int8(_) => types::INT8,
        Datum::Float4(_) => types::FLOAT4,
        Datum::Float8(_) => types::FLOAT8,
        Datum::Numeric(_) => types::NUMERIC,
        Datum::Date(_) => types::DATE,
        Datum::Time(_) => types::TIME,
        Datum::TimeTz(_) => types::TIMETZ,
        Datum::Timestamp(_) => types::TIMESTAMP,
        Datum::TimestampTz(_) => types::TIMESTAMPTZ,
        Datum::Interval(_) => types::INTERVAL,
        Datum::Uuid(_) => types::UUID,
        _ => types::TEXT,
    }
}
