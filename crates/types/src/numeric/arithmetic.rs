//! Exact arithmetic on `numeric`: sums, products, quotients, rounding.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, Zero};

use super::{
    Finite, Numeric, RESULT_DIGITS_MIN, RESULT_SCALE_MAX, Repr, SCALE_MAX, big_power_of_ten, overflow,
    power_of_ten, small_digits,
};
use crate::{Error, Result, err};

fn division_by_zero() -> Error {
    err!(DIVISION_BY_ZERO, "division by zero")
}

/// Integer quotient rounded half away from zero. The divisor is not zero.
fn divide_rounding(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let (quotient, remainder) = dividend.div_rem(divisor);
    if (remainder.magnitude() << 1u8) >= *divisor.magnitude() {
        if dividend.is_negative() != divisor.is_negative() { quotient - 1 } else { quotient + 1 }
    } else {
        quotient
    }
}

fn small_divide_rounding(dividend: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (dividend / divisor, dividend % divisor);
    // Twice the remainder against the divisor, without overflow.
    if remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs() {
        quotient + if (dividend < 0) != (divisor < 0) { -1 } else { 1 }
    } else {
        quotient
    }
}

/// PostgreSQL's format keeps groups of four decimal digits; result scales depend on where the first
/// group that is not zero stands and what it holds.
pub(super) struct LeadingGroup {
    /// 0 for the group just before the decimal point, rising to the left.
    pub weight: i64,
    pub value: u32,
}

impl Finite<'_> {
    pub(super) fn leading_group(&self) -> LeadingGroup {
        if self.signum() == 0 {
            return LeadingGroup { weight: 0, value: 0 };
        }
        let digits = self.digits() as i64;
        let integer_digits = digits - i64::from(self.scale());
        let weight = (integer_digits - 1).div_euclid(4);
        let wanted = ((integer_digits - 1).rem_euclid(4) + 1) as u32;
        let value = match self {
            Finite::Small(coefficient, _) => {
                let magnitude = coefficient.unsigned_abs();
                let have = small_digits(magnitude);
                if have >= wanted {
                    let power = power_of_ten(have - wanted).unwrap_or(1).unsigned_abs();
                    (magnitude / power) as u32
                } else {
                    magnitude as u32 * 10u32.pow(wanted - have)
                }
            }
            Finite::Big(coefficient, _) => {
                let leading = coefficient.abs() / big_power_of_ten(digits as u32 - wanted);
                leading.iter_u32_digits().next().unwrap_or(0)
            }
        };
        LeadingGroup { weight, value }
    }
}

impl Numeric {
    /// The sum; `inf + -inf` is NaN. Errors: 22003 beyond the format.
    pub fn add(&self, other: &Numeric) -> Result<Numeric> {
        self.add_unbounded(other).bounded()
    }

    /// As [`Numeric::add`] without the bounds of the format: for intermediate results.
    pub(super) fn add_unbounded(&self, other: &Numeric) -> Numeric {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            return match (self.special_rank(), other.special_rank()) {
                (2, _) | (_, 2) | (1, -1) | (-1, 1) => Numeric::NAN,
                (0, _) => other.clone(),
                _ => self.clone(),
            };
        };
        let scale = a.scale().max(b.scale());
        if let (Some(x), Some(y)) = (a.small_at(scale), b.small_at(scale))
            && let Some(sum) = x.checked_add(y)
        {
            return Numeric::new(sum, scale);
        }
        Numeric::from_big_unbounded(a.to_big_at(scale) + b.to_big_at(scale), scale)
    }

    pub fn sub(&self, other: &Numeric) -> Result<Numeric> {
        self.add(&other.neg())
    }

    /// The product; 0 times an infinity is NaN. Errors: 22003 beyond the format.
    pub fn mul(&self, other: &Numeric) -> Result<Numeric> {
        let product = self.mul_unbounded(other);
        match product.scale() {
            Some(scale) if scale > SCALE_MAX => product.round(SCALE_MAX.into()),
            _ => product.bounded(),
        }
    }

    /// The exact product, without the bounds of the format: for intermediate results. The operands' scales
    /// together are no more than a `u16` holds; twice [`SCALE_MAX`] is less.
    pub(super) fn mul_unbounded(&self, other: &Numeric) -> Numeric {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            if self.is_nan() || other.is_nan() {
                return Numeric::NAN;
            }
            return match self.signum() * other.signum() {
                0 => Numeric::NAN,
                1 => Numeric::INFINITY,
                _ => Numeric::NEG_INFINITY,
            };
        };
        let scale = a.scale() + b.scale();
        if let (Finite::Small(x, _), Finite::Small(y, _)) = (&a, &b)
            && let Some(product) = x.checked_mul(*y)
        {
            return Numeric::new(product, scale);
        }
        Numeric::from_big_unbounded(a.to_big() * b.to_big(), scale)
    }

    /// The quotient, rounded to the scale that PostgreSQL gives a quotient: at least 16 significant digits and
    /// no fewer digits after the point than either operand. Errors: 22012, 22003.
    pub fn div(&self, other: &Numeric) -> Result<Numeric> {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            if self.is_nan() || other.is_nan() {
                return Ok(Numeric::NAN);
            }
            if self.is_infinite() {
                return match other.signum() {
                    _ if other.is_infinite() => Ok(Numeric::NAN),
                    0 => Err(division_by_zero()),
                    sign if sign == self.signum() => Ok(Numeric::INFINITY),
                    _ => Ok(Numeric::NEG_INFINITY),
                };
            }
            return Ok(Numeric::ZERO);
        };
        if b.signum() == 0 {
            return Err(division_by_zero());
        }
        let scale = quotient_scale(&a, &b);
        quotient_at(&a, &b, scale)
    }

    /// The quotient truncated to an integer (`div()`).
    pub fn div_truncated(&self, other: &Numeric) -> Result<Numeric> {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            return self.div(other);
        };
        if b.signum() == 0 {
            return Err(division_by_zero());
        }
        let scale = a.scale().max(b.scale());
        if let (Some(x), Some(y)) = (a.small_at(scale), b.small_at(scale)) {
            return Ok(Numeric::new(x / y, 0));
        }
        Numeric::from_big(a.to_big_at(scale) / b.to_big_at(scale), 0)
    }

    /// The remainder of a truncated division; its sign is the dividend's.
    pub fn rem(&self, other: &Numeric) -> Result<Numeric> {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            if self.is_nan() || other.is_nan() {
                return Ok(Numeric::NAN);
            }
            if self.is_infinite() {
                return if other.is_zero() { Err(division_by_zero()) } else { Ok(Numeric::NAN) };
            }
            return Ok(self.clone());
        };
        if b.signum() == 0 {
            return Err(division_by_zero());
        }
        let scale = a.scale().max(b.scale());
        if let (Some(x), Some(y)) = (a.small_at(scale), b.small_at(scale)) {
            return Ok(Numeric::new(x % y, scale));
        }
        Numeric::from_big(a.to_big_at(scale) % b.to_big_at(scale), scale)
    }

    #[must_use]
    pub fn neg(&self) -> Numeric {
        Numeric(match &self.0 {
            Repr::NaN => Repr::NaN,
            Repr::PositiveInfinity => Repr::NegativeInfinity,
            Repr::NegativeInfinity => Repr::PositiveInfinity,
            Repr::Small { coefficient, scale } => match coefficient.checked_neg() {
                Some(coefficient) => Repr::Small { coefficient, scale: *scale },
                None => Repr::Big { coefficient: Box::new(-BigInt::from(*coefficient)), scale: *scale },
            },
            Repr::Big { coefficient, scale } => {
                let negated = -coefficient.as_ref();
                match i128::try_from(&negated) {
                    Ok(coefficient) => Repr::Small { coefficient, scale: *scale },
                    Err(_) => Repr::Big { coefficient: Box::new(negated), scale: *scale },
                }
            }
        })
    }

    #[must_use]
    pub fn abs(&self) -> Numeric {
        if self.is_negative() { self.neg() } else { self.clone() }
    }

    /// `sign()`: -1, 0, 1 or NaN.
    #[must_use]
    pub fn sign(&self) -> Numeric {
        if self.is_nan() { Numeric::NAN } else { Numeric::new(i128::from(self.signum()), 0) }
    }

    /// Rounded half away from zero to `scale` digits after the point; a negative scale rounds before it.
    /// A scale above the value's own pads with zeros. Values that are not finite stay as they are.
    pub fn round(&self, scale: i32) -> Result<Numeric> {
        // The largest values round up at -131,072 and down one digit further.
        self.with_scale(scale.clamp(-131_073, i32::from(SCALE_MAX)), true)
    }

    /// As [`Numeric::round`], towards zero.
    pub fn trunc(&self, scale: i32) -> Result<Numeric> {
        self.with_scale(scale.clamp(-131_072, i32::from(SCALE_MAX)), false)
    }

    fn with_scale(&self, scale: i32, rounding: bool) -> Result<Numeric> {
        let Some(value) = self.finite() else {
            return Ok(self.clone());
        };
        let own = i32::from(value.scale());
        let shown = scale.max(0) as u16;
        if scale >= own {
            return match value.small_at(shown) {
                Some(coefficient) => Ok(Numeric::new(coefficient, shown)),
                None => Numeric::from_big(value.to_big_at(shown), shown),
            };
        }
        let cut = (own - scale) as u32;
        let refill = (-scale).max(0) as u32;
        if let (Finite::Small(coefficient, _), Some(power)) = (&value, power_of_ten(cut)) {
            let kept =
                if rounding { small_divide_rounding(*coefficient, power) } else { coefficient / power };
            if let Some(coefficient) = power_of_ten(refill).and_then(|power| kept.checked_mul(power)) {
                return Ok(Numeric::new(coefficient, shown));
            }
        }
        if u64::from(cut) > value.digits() + 1 {
            return Ok(Numeric::new(0, shown));
        }
        let power = big_power_of_ten(cut);
        let whole = value.to_big();
        let kept = if rounding { divide_rounding(&whole, &power) } else { whole / power };
        Numeric::from_big(if refill > 0 { kept * big_power_of_ten(refill) } else { kept }, shown)
    }

    pub fn ceil(&self) -> Result<Numeric> {
        let truncated = self.trunc(0)?;
        if truncated < *self { truncated.add(&Numeric::ONE) } else { Ok(truncated) }
    }

    pub fn floor(&self) -> Result<Numeric> {
        let truncated = self.trunc(0)?;
        if truncated > *self { truncated.sub(&Numeric::ONE) } else { Ok(truncated) }
    }

    /// Greatest common divisor; NaN where an operand is not finite.
    pub fn gcd(&self, other: &Numeric) -> Result<Numeric> {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            return Ok(Numeric::NAN);
        };
        let scale = a.scale().max(b.scale());
        Numeric::from_big(a.to_big_at(scale).gcd(&b.to_big_at(scale)), scale)
    }

    /// Least common multiple; NaN where an operand is not finite.
    pub fn lcm(&self, other: &Numeric) -> Result<Numeric> {
        let (Some(a), Some(b)) = (self.finite(), other.finite()) else {
            return Ok(Numeric::NAN);
        };
        let scale = a.scale().max(b.scale());
        let (a, b) = (a.to_big_at(scale), b.to_big_at(scale));
        if a.is_zero() || b.is_zero() {
            return Ok(Numeric::new(0, scale));
        }
        let multiple = (&a / a.gcd(&b)) * &b;
        Numeric::from_big(multiple.abs(), scale)
    }

    /// `factorial(n)`; errors: 22003 for a negative number and beyond the format.
    pub fn factorial(n: i64) -> Result<Numeric> {
        if n < 0 {
            return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "factorial of a negative number is undefined"));
        }
        // 32178! is the first one that the format cannot hold.
        if n > 32177 {
            return Err(overflow());
        }
        let mut product = BigInt::from(1u8);
        let mut word: u64 = 1;
        for factor in 2..=n as u64 {
            match word.checked_mul(factor) {
                Some(next) => word = next,
                None => {
                    product *= word;
                    word = factor;
                }
            }
        }
        Numeric::from_big(product * word, 0)
    }

    /// `width_bucket(operand, low, high, count)` (manual, table 9.5).
    pub fn width_bucket(&self, low: &Numeric, high: &Numeric, count: i32) -> Result<i32> {
        if count <= 0 {
            return Err(err!(INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, "count must be greater than zero"));
        }
        if self.is_nan() || low.is_nan() || high.is_nan() {
            return Err(err!(
                INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
                "operand, lower bound, and upper bound cannot be NaN"
            ));
        }
        if low.is_infinite() || high.is_infinite() {
            return Err(err!(
                INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
                "lower and upper bounds must be finite"
            ));
        }
        let beyond =
            || count.checked_add(1).ok_or_else(|| err!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
        let (distance, width) = match low.cmp(high) {
            std::cmp::Ordering::Equal => {
                return Err(err!(
                    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
                    "lower bound cannot equal upper bound"
                ));
            }
            std::cmp::Ordering::Less if self < low => return Ok(0),
            std::cmp::Ordering::Less if self >= high => return beyond(),
            std::cmp::Ordering::Less => (self.sub(low)?, high.sub(low)?),
            std::cmp::Ordering::Greater if self > low => return Ok(0),
            std::cmp::Ordering::Greater if self <= high => return beyond(),
            std::cmp::Ordering::Greater => (low.sub(self)?, low.sub(high)?),
        };
        let bucket = distance.mul(&Numeric::from(i64::from(count)))?.div_truncated(&width)?;
        bucket.add(&Numeric::ONE)?.to_i32()
    }

    /// Applies the modifier of `numeric(precision, scale)`; -1 for none. Errors: 22003.
    pub fn apply_typmod(&self, typmod: i32) -> Result<Numeric> {
        let Some((precision, scale)) = unpack_typmod(typmod) else {
            return Ok(self.clone());
        };
        if self.is_nan() {
            return Ok(Numeric::NAN);
        }
        if self.is_infinite() {
            return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(format!(
                "A field with precision {precision}, scale {scale} cannot hold an infinite value."
            )));
        }
        let rounded = self.round(scale)?;
        let integer_digits_max = i64::from(precision - scale);
        if let Some(value) = rounded.finite()
            && value.signum() != 0
        {
            // A negative scale's zeros before the point count as digits too.
            let integer_digits = value.digits() as i64 - i64::from(value.scale());
            if integer_digits > integer_digits_max {
                let bound =
                    if integer_digits_max == 0 { "1".to_owned() } else { format!("10^{integer_digits_max}") };
                return Err(err!(NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(format!(
                    "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
                )));
            }
        }
        Ok(rounded)
    }
}

/// Precision and scale of a `numeric` type modifier.
pub fn unpack_typmod(typmod: i32) -> Option<(i32, i32)> {
    if typmod < 4 {
        return None;
    }
    let packed = typmod - 4;
    // The scale is an 11-bit two's complement number.
    Some(((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024))
}

fn quotient_scale(a: &Finite<'_>, b: &Finite<'_>) -> u16 {
    let (first, second) = (a.leading_group(), b.leading_group());
    let mut weight = first.weight - second.weight;
    if first.value <= second.value {
        weight -= 1;
    }
    let wanted = (RESULT_DIGITS_MIN - weight * 4).max(i64::from(a.scale())).max(i64::from(b.scale()));
    wanted.clamp(0, RESULT_SCALE_MAX) as u16
}

fn quotient_at(a: &Finite<'_>, b: &Finite<'_>, scale: u16) -> Result<Numeric> {
    // a.c / 10^a.s / (b.c / 10^b.s) * 10^scale
    let shift = i64::from(scale) + i64::from(b.scale()) - i64::from(a.scale());
    if let (Finite::Small(x, _), Finite::Small(y, _)) = (a, b) {
        let scaled = if shift >= 0 {
            power_of_ten(shift as u32).and_then(|power| x.checked_mul(power)).zip(Some(*y))
        } else {
            Some(*x).zip(power_of_ten((-shift) as u32).and_then(|power| y.checked_mul(power)))
        };
        if let Some((x, y)) = scaled
            && x != i128::MIN
        {
            return Ok(Numeric::new(small_divide_rounding(x, y), scale));
        }
    }
    let (mut dividend, mut divisor) = (a.to_big(), b.to_big());
    if shift >= 0 {
        dividend *= big_power_of_ten(shift as u32);
    } else {
        divisor *= big_power_of_ten((-shift) as u32);
    }
    Numeric::from_big(divide_rounding(&dividend, &divisor), scale)
}
