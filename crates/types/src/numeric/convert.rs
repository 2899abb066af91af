//! `numeric` to and from machine numbers.

use num_traits::{Signed, ToPrimitive};

use super::{Finite, Numeric, Repr};
use crate::{Error, Result, err};

impl From<i64> for Numeric {
    fn from(value: i64) -> Self {
        Numeric::new(i128::from(value), 0)
    }
}

impl From<i32> for Numeric {
    fn from(value: i32) -> Self {
        Numeric::new(i128::from(value), 0)
    }
}

impl From<u64> for Numeric {
    fn from(value: u64) -> Self {
        Numeric::new(i128::from(value), 0)
    }
}

impl From<i128> for Numeric {
    fn from(value: i128) -> Self {
        Numeric::new(value, 0)
    }
}

fn out_of_range(type_name: &str) -> Error {
    err!(NUMERIC_VALUE_OUT_OF_RANGE, "{type_name} out of range")
}

impl Numeric {
    /// Rounded half away from zero; `None` beyond `i128`, NaN and infinities included.
    fn to_integer(&self) -> Option<i128> {
        match self.round(0).ok()?.0 {
            Repr::Small { coefficient, .. } => Some(coefficient),
            _ => None,
        }
    }

    fn to_integer_type<T: TryFrom<i128>>(&self, name: &str) -> Result<T> {
        match &self.0 {
            Repr::NaN => Err(err!(FEATURE_NOT_SUPPORTED, "cannot convert NaN to {name}")),
            Repr::PositiveInfinity | Repr::NegativeInfinity => {
                Err(err!(FEATURE_NOT_SUPPORTED, "cannot convert infinity to {name}"))
            }
            _ => {
                self.to_integer().and_then(|value| T::try_from(value).ok()).ok_or_else(|| out_of_range(name))
            }
        }
    }

    /// The cast to smallint, rounding half away from zero. Errors: 22003; 0A000 for NaN and infinity.
    pub fn to_i16(&self) -> Result<i16> {
        self.to_integer_type("smallint")
    }

    /// The cast to integer; see [`Numeric::to_i16`].
    pub fn to_i32(&self) -> Result<i32> {
        self.to_integer_type("integer")
    }

    /// The cast to bigint; see [`Numeric::to_i16`].
    pub fn to_i64(&self) -> Result<i64> {
        self.to_integer_type("bigint")
    }

    /// The cast to double precision. Errors: 22003 for values beyond its range.
    pub fn to_f64(&self) -> Result<f64> {
        let value = self.to_f64_lossy();
        if value.is_infinite() && self.is_finite() {
            return Err(err!(
                NUMERIC_VALUE_OUT_OF_RANGE,
                "\"{self}\" is out of range for type double precision"
            ));
        }
        if value == 0.0 && !self.is_zero() {
            return Err(err!(
                NUMERIC_VALUE_OUT_OF_RANGE,
                "\"{self}\" is out of range for type double precision"
            ));
        }
        Ok(value)
    }

    /// The cast to real. Errors: 22003 for values beyond its range.
    pub fn to_f32(&self) -> Result<f32> {
        let value: f32 = match &self.0 {
            Repr::NaN => f32::NAN,
            Repr::PositiveInfinity => f32::INFINITY,
            Repr::NegativeInfinity => f32::NEG_INFINITY,
            _ => self.exponent_text().parse().unwrap_or(f32::NAN),
        };
        if (value.is_infinite() && self.is_finite()) || (value == 0.0 && !self.is_zero()) {
            return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "\"{self}\" is out of range for type real"));
        }
        Ok(value)
    }

    /// The nearest double, infinite or zero where it is out of range.
    pub fn to_f64_lossy(&self) -> f64 {
        match &self.0 {
            Repr::NaN => f64::NAN,
            Repr::PositiveInfinity => f64::INFINITY,
            Repr::NegativeInfinity => f64::NEG_INFINITY,
            // Both exact in a double, so that the quotient is rounded once.
            Repr::Small { coefficient, scale }
                if coefficient.unsigned_abs() < 1 << 53 && usize::from(*scale) <= 22 =>
            {
                *coefficient as f64 / super::POWERS_OF_TEN[usize::from(*scale)] as f64
            }
            Repr::Big { coefficient, scale: 0 } => coefficient.to_f64().unwrap_or(f64::INFINITY),
            _ => self.exponent_text().parse().unwrap_or(f64::NAN),
        }
    }

    /// `-12345e-3`, which Rust's float parser rounds correctly.
    fn exponent_text(&self) -> String {
        let Some(value) = self.finite() else {
            return "nan".to_owned();
        };
        let sign = match &value {
            Finite::Small(coefficient, _) if *coefficient < 0 => "-",
            Finite::Big(coefficient, _) if coefficient.is_negative() => "-",
            _ => "",
        };
        format!("{sign}{}e-{}", value.digit_text(), value.scale())
    }

    /// The cast from double precision: 15 significant digits, as PostgreSQL does it.
    pub fn from_f64(value: f64) -> Numeric {
        Self::from_float(value, 15)
    }

    /// The cast from real: 6 significant digits.
    pub fn from_f32(value: f32) -> Numeric {
        Self::from_float(f64::from(value), 6)
    }

    fn from_float(value: f64, digits: usize) -> Numeric {
        if value.is_nan() {
            return Numeric::NAN;
        }
        if value.is_infinite() {
            return if value > 0.0 { Numeric::INFINITY } else { Numeric::NEG_INFINITY };
        }
        // As C's %.*g: trailing zeros dropped, and never more digits than asked for.
        let text = format!("{:.*e}", digits - 1, value);
        let Some((mantissa, exponent)) = text.split_once('e') else {
            return Numeric::NAN;
        };
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        Numeric::parse(&format!("{mantissa}e{exponent}")).unwrap_or(Numeric::NAN)
    }
}
