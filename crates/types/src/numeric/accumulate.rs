//! Running sums for `sum`, `avg`, `variance` and their like, in machine words as long as they fit.

use super::Numeric;
use crate::Result;

/// Sum and count of integers; exact, never overflows (`i128` holds 2^64 bigints).
#[derive(Clone, Debug, Default)]
pub struct Int8Accumulator {
    pub sum: i128,
    pub count: i64,
}

impl Int8Accumulator {
    pub fn add(&mut self, value: i64) {
        self.sum += i128::from(value);
        self.count += 1;
    }

    pub fn merge(&mut self, other: &Int8Accumulator) {
        self.sum += other.sum;
        self.count += other.count;
    }

    /// `None` without values.
    pub fn sum(&self) -> Option<Numeric> {
        (self.count > 0).then(|| Numeric::from(self.sum))
    }

    pub fn average(&self) -> Result<Option<Numeric>> {
        match self.sum() {
            Some(sum) => Ok(Some(sum.div(&Numeric::from(self.count))?)),
            None => Ok(None),
        }
    }
}

/// Sum, count and, if asked for, sum of squares of numerics. The sums are exact and may exceed the format;
/// only what is computed from them has to fit.
#[derive(Clone, Debug)]
pub struct NumericAccumulator {
    count: i64,
    sum: Numeric,
    sum_of_squares: Option<Numeric>,
}

impl NumericAccumulator {
    pub fn new(with_squares: bool) -> Self {
        NumericAccumulator {
            count: 0,
            sum: Numeric::ZERO,
            sum_of_squares: with_squares.then_some(Numeric::ZERO),
        }
    }

    pub fn add(&mut self, value: &Numeric) {
        self.sum = self.sum.add_unbounded(value);
        if let Some(squares) = &mut self.sum_of_squares {
            *squares = squares.add_unbounded(&value.mul_unbounded(value));
        }
        self.count += 1;
    }

    pub fn count(&self) -> i64 {
        self.count
    }

    /// `None` without values. Errors: 22003 beyond the format.
    pub fn sum(&self) -> Result<Option<Numeric>> {
        (self.count > 0).then(|| self.sum.clone().bounded()).transpose()
    }

    pub fn average(&self) -> Result<Option<Numeric>> {
        if self.count == 0 {
            return Ok(None);
        }
        Ok(Some(self.sum.div(&Numeric::from(self.count))?))
    }

    /// `var_samp` / `var_pop`, or their square roots; `None` where there are too few values.
    pub fn variance(&self, sample: bool, root: bool) -> Result<Option<Numeric>> {
        let Some(squares) = &self.sum_of_squares else {
            return Ok(None);
        };
        if self.count == 0 || (sample && self.count == 1) {
            return Ok(None);
        }
        if !self.sum.is_finite() || !squares.is_finite() {
            return Ok(Some(Numeric::NAN));
        }
        let count = Numeric::from(self.count);
        // (n * sum(x^2) - sum(x)^2) / (n * (n - 1 or 0))
        let numerator = count.mul_unbounded(squares).add_unbounded(&self.sum.mul_unbounded(&self.sum).neg());
        if numerator.signum() <= 0 {
            return Ok(Some(Numeric::ZERO));
        }
        let divisor = if sample { Numeric::from(self.count - 1) } else { count.clone() };
        let variance = numerator.div(&count.mul(&divisor)?)?;
        // The root has the digits of the quotient.
        let scale = variance.scale().unwrap_or(0);
        Ok(Some(if root { variance.sqrt_at(scale)? } else { variance }))
    }
}
