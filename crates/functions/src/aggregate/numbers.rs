//! count, sum, avg, variance and standard deviation.
//!
//! Nulls never count. Sums of integers are exact; those of floats follow PostgreSQL's algorithm (Youngs and
//! Cramer), so that variances agree to the last digit.

use cairn_types::numeric::{Int8Accumulator, NumericAccumulator};
use cairn_types::{Datum, Numeric, Result, err};

use super::{Accumulator, Aggregate, fresh};
use crate::{Args, Call};

/// The aggregate of a pair of `prosrc`s.
pub fn aggregate(transition: &str, final_function: Option<&str>) -> Option<Box<dyn Aggregate>> {
    Some(match (transition, final_function) {
        ("int8inc", None) => fresh::<CountRows>(),
        ("int8inc_any", None) => fresh::<CountValues>(),
        ("int2_sum" | "int4_sum", None) => fresh::<SumToBigint>(),
        ("int8_avg_accum", Some("numeric_poly_sum")) => fresh::<SumToNumeric>(),
        ("int2_avg_accum" | "int4_avg_accum", Some("int8_avg")) => fresh::<IntegerAverage>(),
        ("int8_avg_accum", Some("numeric_poly_avg")) => fresh::<IntegerAverage>(),
        ("numeric_avg_accum", Some("numeric_sum")) => fresh::<NumericSum>(),
        ("numeric_avg_accum", Some("numeric_avg")) => fresh::<NumericAverage>(),
        ("int2_accum" | "int4_accum" | "int8_accum" | "numeric_accum", Some(name)) => match name {
            "numeric_var_pop" | "numeric_poly_var_pop" => fresh::<NumericVariance<false, false>>(),
            "numeric_var_samp" | "numeric_poly_var_samp" => fresh::<NumericVariance<true, false>>(),
            "numeric_stddev_pop" | "numeric_poly_stddev_pop" => fresh::<NumericVariance<false, true>>(),
            "numeric_stddev_samp" | "numeric_poly_stddev_samp" => fresh::<NumericVariance<true, true>>(),
            _ => return None,
        },
        ("float4_accum" | "float8_accum", Some(name)) => match name {
            "float8_avg" => fresh::<FloatMoments<AVERAGE>>(),
            "float8_var_pop" => fresh::<FloatMoments<VAR_POP>>(),
            "float8_var_samp" => fresh::<FloatMoments<VAR_SAMP>>(),
            "float8_stddev_pop" => fresh::<FloatMoments<STDDEV_POP>>(),
            "float8_stddev_samp" => fresh::<FloatMoments<STDDEV_SAMP>>(),
            _ => return None,
        },
        _ => return None,
    })
}

/// `count(*)`
#[derive(Debug, Default)]
struct CountRows(i64);

impl Accumulator for CountRows {
    fn accumulate(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn accumulate_rows(&mut self, rows: u64) -> bool {
        self.0 += rows as i64;
        true
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::Int8(self.0))
    }
}

/// `count(x)`
#[derive(Debug, Default)]
struct CountValues(i64);

impl Accumulator for CountValues {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        self.0 += i64::from(!args.is_null(0));
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        Ok(Datum::Int8(self.0))
    }
}

/// An integer of any width; `None` for null.
fn integer(args: &[Datum]) -> Result<Option<i64>> {
    Ok(match args.any(0) {
        Datum::Null => None,
        Datum::Int2(value) => Some((*value).into()),
        Datum::Int4(value) => Some((*value).into()),
        _ => Some(args.int8(0)?),
    })
}

/// `sum(smallint)`, `sum(integer)`: bigint
#[derive(Debug, Default)]
struct SumToBigint(Int8Accumulator);

impl Accumulator for SumToBigint {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if let Some(value) = integer(args)? {
            self.0.add(value);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        if self.0.count == 0 {
            return Ok(Datum::Null);
        }
        let sum = i64::try_from(self.0.sum);
        sum.map(Datum::Int8).map_err(|_| err!(NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"))
    }
}

fn number(value: Option<Numeric>) -> Result<Datum> {
    Ok(value.map_or(Datum::Null, |value| Datum::Numeric(value.into())))
}

/// `sum(bigint)`: numeric
#[derive(Debug, Default)]
struct SumToNumeric(Int8Accumulator);

impl Accumulator for SumToNumeric {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if let Some(value) = integer(args)? {
            self.0.add(value);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        number(self.0.sum())
    }
}

/// `avg` of all integers: numeric
#[derive(Debug, Default)]
struct IntegerAverage(Int8Accumulator);

impl Accumulator for IntegerAverage {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if let Some(value) = integer(args)? {
            self.0.add(value);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        number(self.0.average()?)
    }
}

#[derive(Debug)]
struct NumericSum(NumericAccumulator);

impl Default for NumericSum {
    fn default() -> Self {
        NumericSum(NumericAccumulator::new(false))
    }
}

impl Accumulator for NumericSum {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if !args.is_null(0) {
            self.0.add(args.numeric(0)?);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        number(self.0.sum()?)
    }
}

#[derive(Debug)]
struct NumericAverage(NumericAccumulator);

impl Default for NumericAverage {
    fn default() -> Self {
        NumericAverage(NumericAccumulator::new(false))
    }
}

impl Accumulator for NumericAverage {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if !args.is_null(0) {
            self.0.add(args.numeric(0)?);
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        number(self.0.average()?)
    }
}

/// Variance, or its root, of integers and numerics.
#[derive(Debug)]
struct NumericVariance<const SAMPLE: bool, const ROOT: bool>(NumericAccumulator);

impl<const SAMPLE: bool, const ROOT: bool> Default for NumericVariance<SAMPLE, ROOT> {
    fn default() -> Self {
        NumericVariance(NumericAccumulator::new(true))
    }
}

impl<const SAMPLE: bool, const ROOT: bool> Accumulator for NumericVariance<SAMPLE, ROOT> {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        match args.any(0) {
            Datum::Null => {}
            Datum::Numeric(value) => self.0.add(value),
            _ => {
                if let Some(value) = integer(args)? {
                    self.0.add(&Numeric::from(value));
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        number(self.0.variance(SAMPLE, ROOT)?)
    }
}

const AVERAGE: u8 = 0;
const VAR_POP: u8 = 1;
const VAR_SAMP: u8 = 2;
const STDDEV_POP: u8 = 3;
const STDDEV_SAMP: u8 = 4;

/// Count, sum and sum of squared differences from the mean.
#[derive(Debug, Default)]
pub struct Moments {
    pub count: f64,
    pub sum: f64,
    pub squares: f64,
}

impl Moments {
    pub fn add(&mut self, value: f64) -> Result<()> {
        let (count, before) = (self.count, self.sum);
        self.count += 1.0;
        self.sum += value;
        if count > 0.0 {
            let difference = value * self.count - self.sum;
            self.squares += difference * difference / (self.count * count);
            if self.sum.is_infinite() || self.squares.is_infinite() {
                if !before.is_infinite() && !value.is_infinite() {
                    return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct FloatMoments<const WHAT: u8>(Moments);

impl<const WHAT: u8> Accumulator for FloatMoments<WHAT> {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        match args.any(0) {
            Datum::Null => Ok(()),
            Datum::Float4(value) => self.0.add((*value).into()),
            _ => self.0.add(args.float8(0)?),
        }
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        let Moments { count, sum, squares } = self.0;
        let sample = WHAT == VAR_SAMP || WHAT == STDDEV_SAMP;
        if count == 0.0 || (sample && count == 1.0) {
            return Ok(Datum::Null);
        }
        Ok(Datum::Float8(match WHAT {
            AVERAGE => sum / count,
            VAR_POP => squares / count,
            VAR_SAMP => squares / (count - 1.0),
            STDDEV_POP => (squares / count).sqrt(),
            _ => (squares / (count - 1.0)).sqrt(),
        }))
    }
}
