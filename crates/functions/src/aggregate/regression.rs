//! corr, covar_*, regr_*: aggregates of pairs (Y, X) of double precision. Pairs with a null do not count.

use cairn_types::{Datum, Result, err};

use super::{Accumulator, Aggregate, fresh};
use crate::{Args, Call};

pub fn aggregate(transition: &str, final_function: Option<&str>) -> Option<Box<dyn Aggregate>> {
    if transition == "int8inc_float8_float8" {
        return Some(fresh::<Regression<COUNT>>());
    }
    if transition != "float8_regr_accum" {
        return None;
    }
    Some(match final_function? {
        "float8_regr_sxx" => fresh::<Regression<SXX>>(),
        "float8_regr_syy" => fresh::<Regression<SYY>>(),
        "float8_regr_sxy" => fresh::<Regression<SXY>>(),
        "float8_regr_avgx" => fresh::<Regression<AVG_X>>(),
        "float8_regr_avgy" => fresh::<Regression<AVG_Y>>(),
        "float8_covar_pop" => fresh::<Regression<COVAR_POP>>(),
        "float8_covar_samp" => fresh::<Regression<COVAR_SAMP>>(),
        "float8_corr" => fresh::<Regression<CORR>>(),
        "float8_regr_r2" => fresh::<Regression<R2>>(),
        "float8_regr_slope" => fresh::<Regression<SLOPE>>(),
        "float8_regr_intercept" => fresh::<Regression<INTERCEPT>>(),
        _ => return None,
    })
}

const COUNT: u8 = 0;
const SXX: u8 = 1;
const SYY: u8 = 2;
const SXY: u8 = 3;
const AVG_X: u8 = 4;
const AVG_Y: u8 = 5;
const COVAR_POP: u8 = 6;
const COVAR_SAMP: u8 = 7;
const CORR: u8 = 8;
const R2: u8 = 9;
const SLOPE: u8 = 10;
const INTERCEPT: u8 = 11;

/// Sums, and sums of products of differences from the means.
#[derive(Debug, Default)]
struct Regression<const WHAT: u8> {
    count: f64,
    sum_x: f64,
    sum_y: f64,
    sxx: f64,
    syy: f64,
    sxy: f64,
}

impl<const WHAT: u8> Accumulator for Regression<WHAT> {
    fn accumulate(&mut self, _: &Call<'_>, args: &[Datum]) -> Result<()> {
        if args.is_null(0) || args.is_null(1) {
            return Ok(());
        }
        let (y, x) = (args.float8(0)?, args.float8(1)?);
        let before = self.count;
        let (before_x, before_y) = (self.sum_x, self.sum_y);
        self.count += 1.0;
        self.sum_x += x;
        self.sum_y += y;
        if before > 0.0 {
            let difference_x = x * self.count - self.sum_x;
            let difference_y = y * self.count - self.sum_y;
            let scale = 1.0 / (self.count * before);
            self.sxx += difference_x * difference_x * scale;
            self.syy += difference_y * difference_y * scale;
            self.sxy += difference_x * difference_y * scale;
            let overflowed =
                [self.sum_x, self.sxx, self.sum_y, self.syy, self.sxy].iter().any(|sum| sum.is_infinite());
            if overflowed {
                let was_finite = |sum: f64, value: f64| !sum.is_infinite() && !value.is_infinite();
                if ((self.sum_x.is_infinite() || self.sxx.is_infinite()) && was_finite(before_x, x))
                    || ((self.sum_y.is_infinite() || self.syy.is_infinite()) && was_finite(before_y, y))
                    || (self.sxy.is_infinite() && was_finite(before_x, x) && was_finite(before_y, y))
                {
                    return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
                }
                for sum in [&mut self.sxx, &mut self.syy, &mut self.sxy] {
                    if sum.is_infinite() {
                        *sum = f64::NAN;
                    }
                }
            }
        } else {
            if !x.is_finite() {
                (self.sxx, self.sxy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.syy, self.sxy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &Call<'_>, _: &[Datum]) -> Result<Datum> {
        let Regression { count, sum_x, sum_y, sxx, syy, sxy } = *self;
        if WHAT == COUNT {
            return Ok(Datum::Int8(count as i64));
        }
        if count < 1.0 || (WHAT == COVAR_SAMP && count < 2.0) {
            return Ok(Datum::Null);
        }
        let flat_x = sxx == 0.0;
        let flat_y = syy == 0.0;
        Ok(match WHAT {
            SXX => Datum::Float8(sxx),
            SYY => Datum::Float8(syy),
            SXY => Datum::Float8(sxy),
            AVG_X => Datum::Float8(sum_x / count),
            AVG_Y => Datum::Float8(sum_y / count),
            COVAR_POP => Datum::Float8(sxy / count),
            COVAR_SAMP => Datum::Float8(sxy / (count - 1.0)),
            CORR if flat_x || flat_y => Datum::Null,
            CORR => Datum::Float8(sxy / (sxx * syy).sqrt()),
            R2 if flat_x => Datum::Null,
            R2 if flat_y => Datum::Float8(1.0),
            R2 => Datum::Float8(sxy * sxy / (sxx * syy)),
            _ if flat_x => Datum::Null,
            SLOPE => Datum::Float8(sxy / sxx),
            _ => Datum::Float8((sum_y - sum_x * sxy / sxx) / count),
        })
    }
}
