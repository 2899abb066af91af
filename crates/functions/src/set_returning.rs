//! Functions that return rows.
//!
//! A body returns a [`RowStream`], which the executor drains row by row: `generate_series(1, 1e9)` under a
//! LIMIT costs what the LIMIT takes.

use std::sync::Arc;

use cairn_types::{Datum, Numeric, Result, Row, bail};

use crate::{Args, Call};

/// A body that returns rows. The caller has handled `proisstrict` (a strict function of a null: no rows).
pub type SetFn = fn(&Call<'_>, &[Datum]) -> Result<Box<dyn RowStream>>;

/// The rows of one call.
pub trait RowStream: Send {
    /// Replaces the contents of `row` by the next row: one value for a function that returns a scalar type, one
    /// per OUT column otherwise. False, with `row` untouched or empty, after the last. The caller checks for
    /// cancellation.
    fn next(&mut self, call: &Call<'_>, row: &mut Row) -> Result<bool>;
}

/// Rows that were all made at once.
pub struct Rows(std::vec::IntoIter<Row>);

impl Rows {
    pub fn boxed(rows: Vec<Row>) -> Box<dyn RowStream> {
        Box::new(Rows(rows.into_iter()))
    }

    /// One-column rows.
    pub fn of_values(values: impl IntoIterator<Item = Datum>) -> Box<dyn RowStream> {
        Rows::boxed(values.into_iter().map(|value| vec![value]).collect())
    }
}

impl RowStream for Rows {
    fn next(&mut self, _: &Call<'_>, row: &mut Row) -> Result<bool> {
        match self.0.next() {
            Some(next) => {
                *row = next;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

pub const BODIES: &[(&str, SetFn)] = &[
    ("generate_series_numeric", generate_series_numeric),
    ("generate_series_step_numeric", generate_series_numeric),
    ("generate_series_int4", generate_series_int4),
    ("generate_series_step_int4", generate_series_int4),
    ("generate_series_int8", generate_series_int8),
    ("generate_series_step_int8", generate_series_int8),
];

/// `None` once the series has ended; it also ends where the next value would overflow.
struct Series {
    next: Option<i64>,
    stop: i64,
    step: i64,
    make: fn(i64) -> Datum,
}

impl RowStream for Series {
    fn next(&mut self, _: &Call<'_>, row: &mut Row) -> Result<bool> {
        let Some(value) = self.next else { return Ok(false) };
        if (self.step > 0 && value > self.stop) || (self.step < 0 && value < self.stop) {
            self.next = None;
            return Ok(false);
        }
        self.next = value.checked_add(self.step);
        row.clear();
        row.push((self.make)(value));
        Ok(true)
    }
}

fn series(start: i64, stop: i64, step: i64, make: fn(i64) -> Datum) -> Result<Box<dyn RowStream>> {
    if step == 0 {
        bail!(INVALID_PARAMETER_VALUE, "step size cannot equal zero");
    }
    Ok(Box::new(Series { next: Some(start), stop, step, make }))
}

fn generate_series_int4(_: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    let step = if args.len() > 2 { args.int4(2)? } else { 1 };
    // Between the bounds of `integer`, so the cast back loses nothing.
    series(args.int4(0)?.into(), args.int4(1)?.into(), step.into(), |value| Datum::Int4(value as i32))
}

fn generate_series_int8(_: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    let step = if args.len() > 2 { args.int8(2)? } else { 1 };
    series(args.int8(0)?, args.int8(1)?, step, Datum::Int8)
}

struct NumericSeries {
    /// `None` where the step leads beyond the format, and so beyond the end.
    next: Option<Numeric>,
    stop: Numeric,
    step: Numeric,
}

impl RowStream for NumericSeries {
    fn next(&mut self, _: &Call<'_>, row: &mut Row) -> Result<bool> {
        let Some(value) = self.next.take() else { return Ok(false) };
        let over = if self.step.is_negative() { value < self.stop } else { value > self.stop };
        if over {
            return Ok(false);
        }
        self.next = value.add(&self.step).ok();
        row.clear();
        row.push(Datum::Numeric(Arc::new(value)));
        Ok(true)
    }
}

fn generate_series_numeric(_: &Call<'_>, args: &[Datum]) -> Result<Box<dyn RowStream>> {
    let (start, stop) = (args.numeric(0)?, args.numeric(1)?);
    let step = if args.len() > 2 { (**args.numeric(2)?).clone() } else { Numeric::ONE };
    for (value, name) in [(&**start, "start value"), (&**stop, "stop value"), (&step, "step size")] {
        if value.is_nan() {
            bail!(INVALID_PARAMETER_VALUE, "{name} cannot be NaN");
        }
        if value.is_infinite() {
            bail!(INVALID_PARAMETER_VALUE, "{name} cannot be infinity");
        }
    }
    if step.is_zero() {
        bail!(INVALID_PARAMETER_VALUE, "step size cannot equal zero");
    }
    Ok(Box::new(NumericSeries { next: Some((**start).clone()), stop: (**stop).clone(), step }))
}
