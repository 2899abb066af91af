//! `numeric`: decimal numbers of any precision with PostgreSQL's semantics (manual, section 8.1.2).
//!
//! A finite value is `coefficient * 10^-scale`. The scale is the *display scale*: it is part of what is
//! printed (`1.50` is not printed `1.5`) and of how results are rounded, but not of comparison or hashing.
//! Coefficients of up to 38 digits live in an `i128`; longer ones in a big integer. The rule that every
//! constructor keeps: a coefficient is `Big` only if it does not fit `i128` (see [`Numeric::from_big`]).

mod accumulate;
mod arithmetic;
mod binary;
mod convert;
mod text;
mod transcendental;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive, Zero};

use crate::{Error, Result, err};

pub use accumulate::{Int8Accumulator, NumericAccumulator};

/// The most digits after the decimal point that a value can have.
pub const SCALE_MAX: u16 = 16383;
/// The most digits before the decimal point that a value can have.
pub const INTEGER_DIGITS_MAX: u64 = 131_072;
/// The most digits after the point that a computed result (division, `ln`, ...) is given.
const RESULT_SCALE_MAX: i64 = 1000;
/// Computed results have at least so many significant digits.
const RESULT_DIGITS_MIN: i64 = 16;

/// An arbitrary precision decimal number, `NaN`, or an infinity.
#[derive(Clone, Debug)]
pub struct Numeric(Repr);

#[derive(Clone, Debug)]
enum Repr {
    NaN,
    PositiveInfinity,
    NegativeInfinity,
    Small { coefficient: i128, scale: u16 },
    Big { coefficient: Box<BigInt>, scale: u16 },
}

/// A finite value's parts, borrowed from a [`Numeric`].
enum Finite<'a> {
    Small(i128, u16),
    Big(&'a BigInt, u16),
}

const POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut i = 1;
    while i < 39 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// `10^exponent`, or `None` where an `i128` does not hold it.
fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS_OF_TEN.get(exponent as usize).copied()
}

fn big_power_of_ten(exponent: u32) -> BigInt {
    match power_of_ten(exponent) {
        Some(power) => BigInt::from(power),
        None => num_traits::pow(BigInt::from(10u8), exponent as usize),
    }
}

/// The number of decimal digits of a magnitude; 0 for zero.
fn small_digits(magnitude: u128) -> u32 {
    magnitude.checked_ilog10().map_or(0, |log| log + 1)
}

fn big_digits(value: &BigInt) -> u64 {
    if value.is_zero() {
        return 0;
    }
    let bits = value.bits();
    // log10(2) from below and from above; only where they differ must the digits be counted.
    let low = ((bits - 1) as f64 * std::f64::consts::LOG10_2) as u64;
    let high = (bits as f64 * std::f64::consts::LOG10_2 + 1e-6) as u64;
    if low == high {
        return low + 1;
    }
    if value.magnitude() >= big_power_of_ten(high as u32).magnitude() { high + 1 } else { high }
}

fn overflow() -> Error {
    err!(NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

impl Numeric {
    pub const NAN: Numeric = Numeric(Repr::NaN);
    pub const INFINITY: Numeric = Numeric(Repr::PositiveInfinity);
    pub const NEG_INFINITY: Numeric = Numeric(Repr::NegativeInfinity);
    pub const ZERO: Numeric = Numeric::new(0, 0);
    pub const ONE: Numeric = Numeric::new(1, 0);

    /// `coefficient * 10^-scale`, printed with `scale` digits after the point.
    pub const fn new(coefficient: i128, scale: u16) -> Self {
        Numeric(Repr::Small { coefficient, scale })
    }

    /// As [`Numeric::new`] with a coefficient of any size; 22003 if the format cannot hold the value.
    fn from_big(coefficient: BigInt, scale: u16) -> Result<Self> {
        Numeric::from_big_unbounded(coefficient, scale).bounded()
    }

    /// As [`Numeric::from_big`] without the bounds of the format: for intermediate results.
    fn from_big_unbounded(coefficient: BigInt, scale: u16) -> Self {
        match coefficient.to_i128() {
            Some(small) => Numeric::new(small, scale),
            None => Numeric(Repr::Big { coefficient: Box::new(coefficient), scale }),
        }
    }

    /// The value itself; 22003 if it has more digits before the point than the format.
    fn bounded(self) -> Result<Self> {
        // 131072 digits are some 435,000 bits: below that there is nothing to count.
        if let Repr::Big { coefficient, scale } = &self.0
            && coefficient.bits() > 435_000
            && big_digits(coefficient).saturating_sub(u64::from(*scale)) > INTEGER_DIGITS_MAX
        {
            return Err(overflow());
        }
        Ok(self)
    }

    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::PositiveInfinity | Repr::NegativeInfinity)
    }

    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small { .. } | Repr::Big { .. })
    }

    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small { coefficient: 0, .. })
    }

    pub fn is_negative(&self) -> bool {
        match &self.0 {
            Repr::NaN | Repr::PositiveInfinity => false,
            Repr::NegativeInfinity => true,
            Repr::Small { coefficient, .. } => *coefficient < 0,
            Repr::Big { coefficient, .. } => coefficient.is_negative(),
        }
    }

    /// -1, 0 or 1; 0 for NaN (callers that care ask [`Numeric::is_nan`] first).
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::NaN => 0,
            Repr::PositiveInfinity => 1,
            Repr::NegativeInfinity => -1,
            Repr::Small { coefficient, .. } => coefficient.signum() as i32,
            Repr::Big { coefficient, .. } => match coefficient.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
        }
    }

    /// The digits after the decimal point that are printed; `None` for NaN and infinities (`scale()`).
    pub fn scale(&self) -> Option<u16> {
        match &self.0 {
            Repr::Small { scale, .. } | Repr::Big { scale, .. } => Some(*scale),
            _ => None,
        }
    }

    /// Coefficient and scale of a value whose coefficient fits `i128`.
    pub(crate) fn small_parts(&self) -> Option<(i128, u16)> {
        match self.0 {
            Repr::Small { coefficient, scale } => Some((coefficient, scale)),
            _ => None,
        }
    }

    fn finite(&self) -> Option<Finite<'_>> {
        match &self.0 {
            Repr::Small { coefficient, scale } => Some(Finite::Small(*coefficient, *scale)),
            Repr::Big { coefficient, scale } => Some(Finite::Big(coefficient, *scale)),
            _ => None,
        }
    }

    /// Where a value that is not finite stands in the order of all values: -inf < finite < inf < NaN.
    fn special_rank(&self) -> i8 {
        match self.0 {
            Repr::NegativeInfinity => -1,
            Repr::Small { .. } | Repr::Big { .. } => 0,
            Repr::PositiveInfinity => 1,
            Repr::NaN => 2,
        }
    }

    /// The value without trailing zeros after the point (`trim_scale`).
    #[must_use]
    pub fn trim_scale(&self) -> Numeric {
        match &self.0 {
            Repr::Small { coefficient, scale } => {
                let (mut coefficient, mut scale) = (*coefficient, *scale);
                if coefficient == 0 {
                    return Numeric::ZERO;
                }
                while scale > 0 && coefficient % 10 == 0 {
                    coefficient /= 10;
                    scale -= 1;
                }
                Numeric::new(coefficient, scale)
            }
            Repr::Big { coefficient, scale } => {
                let digits = coefficient.magnitude().to_str_radix(10);
                let zeros = digits.len() - digits.trim_end_matches('0').len();
                let cut = zeros.min(usize::from(*scale)) as u32;
                if cut == 0 {
                    return self.clone();
                }
                let shorter = coefficient.as_ref() / big_power_of_ten(cut);
                Numeric::from_big(shorter, scale - cut as u16).unwrap_or_else(|_| self.clone())
            }
            _ => self.clone(),
        }
    }

    /// The smallest scale that still shows the value exactly (`min_scale`); `None` if not finite.
    pub fn min_scale(&self) -> Option<u16> {
        self.trim_scale().scale()
    }

    /// Sign, decimal exponent and significant digits, for key encoding: the magnitude is
    /// `0.d1 d2 d3... * 10^exponent` with `d1 != 0` and no trailing zeros. `None` unless finite and not zero.
    pub(crate) fn scientific(&self) -> Option<(bool, i32, Vec<u8>)> {
        let (negative, mut digits, scale) = match self.finite()? {
            Finite::Small(0, _) => return None,
            Finite::Small(coefficient, scale) => {
                let mut digits = Vec::with_capacity(20);
                let mut magnitude = coefficient.unsigned_abs();
                if let Ok(mut word) = u64::try_from(magnitude) {
                    while word > 0 {
                        digits.push((word % 10) as u8);
                        word /= 10;
                    }
                } else {
                    while magnitude > 0 {
                        digits.push((magnitude % 10) as u8);
                        magnitude /= 10;
                    }
                }
                digits.reverse();
                (coefficient < 0, digits, scale)
            }
            Finite::Big(coefficient, scale) => {
                let mut digits = coefficient.magnitude().to_str_radix(10).into_bytes();
                for digit in &mut digits {
                    *digit -= b'0';
                }
                (coefficient.is_negative(), digits, scale)
            }
        };
        let exponent = digits.len() as i32 - i32::from(scale);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Some((negative, exponent, digits))
    }
}

impl Finite<'_> {
    fn scale(&self) -> u16 {
        match self {
            Finite::Small(_, scale) | Finite::Big(_, scale) => *scale,
        }
    }

    fn to_big(&self) -> BigInt {
        match self {
            Finite::Small(coefficient, _) => BigInt::from(*coefficient),
            Finite::Big(coefficient, _) => (*coefficient).clone(),
        }
    }

    /// The coefficient at a scale that is at least the value's own.
    fn to_big_at(&self, scale: u16) -> BigInt {
        let shift = u32::from(scale.saturating_sub(self.scale()));
        if shift == 0 { self.to_big() } else { self.to_big() * big_power_of_ten(shift) }
    }

    fn small_at(&self, scale: u16) -> Option<i128> {
        match self {
            Finite::Small(coefficient, own) if *own == scale => Some(*coefficient),
            Finite::Small(coefficient, own) => {
                coefficient.checked_mul(power_of_ten(u32::from(scale.checked_sub(*own)?))?)
            }
            Finite::Big(..) => None,
        }
    }

    /// Digits of the coefficient, 0 for zero.
    fn digits(&self) -> u64 {
        match self {
            Finite::Small(coefficient, _) => u64::from(small_digits(coefficient.unsigned_abs())),
            Finite::Big(coefficient, _) => big_digits(coefficient),
        }
    }

    fn signum(&self) -> i32 {
        match self {
            Finite::Small(coefficient, _) => coefficient.signum() as i32,
            Finite::Big(coefficient, _) => {
                if coefficient.is_negative() {
                    -1
                } else {
                    1
                }
            }
        }
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// PostgreSQL's order: by value, whatever the scales; NaN equals NaN and is greater than everything.
impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            return self.special_rank().cmp(&other.special_rank());
        };
        let signs = a.signum().cmp(&b.signum());
        // Zeros are equal, whatever their scales.
        if signs != Ordering::Equal || a.signum() == 0 {
            return signs;
        }
        let scale = a.scale().max(b.scale());
        if let (Some(a), Some(b)) = (a.small_at(scale), b.small_at(scale)) {
            return a.cmp(&b);
        }
        // Values of different magnitude need no multiplication.
        let weight_a = a.digits() as i64 - i64::from(a.scale());
        let weight_b = b.digits() as i64 - i64::from(b.scale());
        if weight_a != weight_b {
            let by_magnitude = weight_a.cmp(&weight_b);
            return if a.signum() < 0 { by_magnitude.reverse() } else { by_magnitude };
        }
        a.to_big_at(scale).cmp(&b.to_big_at(scale))
    }
}

/// Equal values hash alike, whatever their scales.
impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.trim_scale().0 {
            Repr::Small { coefficient, scale } => {
                state.write_i128(*coefficient);
                state.write_u16(*scale);
            }
            Repr::Big { coefficient, scale } => {
                coefficient.hash(state);
                state.write_u16(*scale);
            }
            special => state.write_u8(match special {
                Repr::NaN => 1,
                Repr::PositiveInfinity => 2,
                _ => 3,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
