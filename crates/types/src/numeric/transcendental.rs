//! Roots, powers, exponentials and logarithms of `numeric`.
//!
//! The result's scale follows PostgreSQL: at least 16 significant digits and no fewer digits after the point
//! than the argument has. The value is computed in binary fixed point with 64 bits to spare, then rounded.

use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::{Finite, Numeric, RESULT_DIGITS_MIN, RESULT_SCALE_MAX, big_power_of_ten, overflow};
use crate::{Error, Result, err};

const LOG10_E: f64 = std::f64::consts::LOG10_E;
/// `|x|` beyond which PostgreSQL does not compute `exp(x)`.
const EXP_ARGUMENT_MAX: f64 = 6000.0;

fn negative_logarithm() -> Error {
    err!(INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of a negative number")
}

fn zero_logarithm() -> Error {
    err!(INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of zero")
}

fn complex_power() -> Error {
    err!(
        INVALID_ARGUMENT_FOR_POWER_FUNCTION,
        "a negative number raised to a non-integer power yields a complex result"
    )
}

fn result_scale(wanted: i64, arguments: &[&Finite<'_>]) -> u16 {
    let shown = arguments.iter().map(|argument| i64::from(argument.scale())).max().unwrap_or(0);
    wanted.max(shown).clamp(0, RESULT_SCALE_MAX) as u16
}

/// Bits that hold so many decimal digits, and 64 more.
fn bits_for(digits: i64) -> u64 {
    (digits.max(0) as f64 * std::f64::consts::LOG2_10) as u64 + 64
}

/// `log10 |value|` as a double; the value is not zero.
fn log10_magnitude(value: &Finite<'_>) -> f64 {
    let text = value.digit_text();
    let head = &text[..text.len().min(17)];
    head.parse::<f64>().unwrap_or(1.0).log10() + (text.len() - head.len()) as f64 - f64::from(value.scale())
}

/// The decimal weight of `ln(value)`, roughly; decides the scale of logarithms.
fn ln_weight(number: &Numeric, value: &Finite<'_>) -> i64 {
    let (low, high) = (Numeric::new(9, 1), Numeric::new(11, 1));
    if *number >= low && *number <= high {
        let Ok(distance) = number.sub(&Numeric::ONE) else {
            return 0;
        };
        match distance.finite() {
            Some(distance) if distance.signum() != 0 => {
                let group = distance.leading_group();
                group.weight * 4 + i64::from(group.value.ilog10())
            }
            _ => 0,
        }
    } else {
        (log10_magnitude(value) * std::f64::consts::LN_10).abs().log10() as i64
    }
}

/// `value * 2^bits`, rounded down.
fn to_fixed(value: &Finite<'_>, bits: u64) -> BigInt {
    (value.to_big() << bits) / big_power_of_ten(u32::from(value.scale()))
}

/// `fixed / 2^bits`, rounded half away from zero to `scale` decimal digits.
fn from_fixed(fixed: &BigInt, bits: u64, scale: u16) -> Result<Numeric> {
    let scaled = fixed * big_power_of_ten(u32::from(scale));
    let half = BigInt::one() << (bits - 1);
    let rounded = if scaled.is_negative() { -((-scaled + half) >> bits) } else { (scaled + half) >> bits };
    Numeric::from_big(rounded, scale)
}

/// `2 * artanh(1/n) / 2`, that is `artanh(1/n)`, in fixed point.
fn artanh_of_inverse(n: u32, bits: u64) -> BigInt {
    let square = BigInt::from(u64::from(n) * u64::from(n));
    let mut power = (BigInt::one() << bits) / n;
    let mut sum = BigInt::zero();
    let mut odd = 1u32;
    while !power.is_zero() {
        sum += &power / odd;
        power /= &square;
        odd += 2;
    }
    sum
}

fn ln2_fixed(bits: u64) -> BigInt {
    artanh_of_inverse(26, bits) * 18 - artanh_of_inverse(4801, bits) * 2 + artanh_of_inverse(8749, bits) * 8
}

/// `ln(value)` in fixed point; the value is positive.
fn ln_fixed(value: &Finite<'_>, bits: u64) -> BigInt {
    let work = bits + 64;
    let numerator = value.to_big().abs();
    let denominator = big_power_of_ten(u32::from(value.scale()));
    let exponent = numerator.bits() as i64 - denominator.bits() as i64;
    // The mantissa lies in (1/2, 2).
    let mut mantissa = if exponent <= 0 {
        (numerator << (work + exponent.unsigned_abs())) / &denominator
    } else {
        (numerator << work) / (&denominator << exponent as u64)
    };
    // Square roots bring it close to 1, where the series is short.
    let roots = (work as f64).sqrt() as u64 / 4 + 2;
    for _ in 0..roots {
        mantissa = (mantissa << work).sqrt();
    }
    let one = BigInt::one() << work;
    // ln m = 2 artanh((m - 1) / (m + 1))
    let ratio = ((&mantissa - &one) << work) / (&mantissa + &one);
    let square = (&ratio * &ratio) >> work;
    let mut power = ratio;
    let mut sum = BigInt::zero();
    let mut odd = 1u32;
    while power.magnitude() > BigInt::one().magnitude() {
        sum += &power / odd;
        power = (&power * &square) >> work;
        odd += 2;
    }
    let logarithm = (sum << (1 + roots)) + ln2_fixed(work) * exponent;
    logarithm >> (work - bits)
}

/// `e^argument` for an argument in fixed point: a mantissa with `bits` bits after the point, and a power of two.
fn exp_fixed(argument: &BigInt, bits: u64) -> (BigInt, i64) {
    let ln2 = ln2_fixed(bits);
    let doublings = num_integer::Integer::div_floor(argument, &ln2);
    let halvings = (bits as f64).sqrt() as u64 / 2 + 1;
    // The reduced argument gets the bits that squaring the result will lose.
    let work = bits + 2 * halvings + 16;
    let reduced = ((argument << (work - bits)) - &doublings * ln2_fixed(work)) >> halvings;
    let one = BigInt::one() << work;
    let mut term = one.clone();
    let mut sum = one;
    let mut n = 1u32;
    loop {
        term = (&term * &reduced) >> work;
        term /= n;
        if term.magnitude() <= BigInt::one().magnitude() {
            break;
        }
        sum += &term;
        n += 1;
    }
    for _ in 0..halvings {
        sum = (&sum * &sum) >> work;
    }
    (sum >> (work - bits), doublings.to_i64().unwrap_or(0))
}

/// `e^argument` rounded to `scale` digits.
fn exp_rounded(argument: &BigInt, bits: u64, scale: u16) -> Result<Numeric> {
    let (mantissa, doublings) = exp_fixed(argument, bits);
    if doublings >= 0 {
        from_fixed(&(mantissa << doublings as u64), bits, scale)
    } else {
        from_fixed(&mantissa, bits + doublings.unsigned_abs(), scale)
    }
}

impl Numeric {
    /// Errors: 2201F for a negative number.
    pub fn sqrt(&self) -> Result<Numeric> {
        if self.is_negative() {
            return Err(err!(
                INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "cannot take square root of a negative number"
            ));
        }
        let Some(value) = self.finite() else {
            return Ok(self.clone());
        };
        let weight = value.leading_group().weight;
        let root_weight = if weight >= 0 { (weight + 1) * 2 - 1 } else { 1 + weight * 2 };
        self.sqrt_at(result_scale(RESULT_DIGITS_MIN - root_weight, &[&value]))
    }

    /// The square root, of no negative number, rounded to `scale` digits.
    pub(super) fn sqrt_at(&self, scale: u16) -> Result<Numeric> {
        let Some(value) = self.finite() else {
            return Ok(self.clone());
        };
        if value.signum() == 0 {
            return Ok(Numeric::new(0, scale));
        }
        // One digit more than wanted, which then decides the rounding.
        let shift = 2 * (i64::from(scale) + 1) - i64::from(value.scale());
        let radicand = if shift >= 0 {
            value.to_big() * big_power_of_ten(shift as u32)
        } else {
            value.to_big() / big_power_of_ten(shift.unsigned_abs() as u32)
        };
        Numeric::from_big((radicand.sqrt() + 5) / 10, scale)
    }

    /// Errors: 22003 beyond the format.
    pub fn exp(&self) -> Result<Numeric> {
        let Some(value) = self.finite() else {
            return Ok(if self.is_negative() { Numeric::ZERO } else { self.clone() });
        };
        let estimate = self.to_f64_lossy();
        if estimate.abs() >= EXP_ARGUMENT_MAX {
            if estimate > 0.0 {
                return Err(overflow());
            }
            return Ok(Numeric::new(0, RESULT_SCALE_MAX as u16));
        }
        let weight = (estimate * LOG10_E) as i64;
        let scale = result_scale(RESULT_DIGITS_MIN - weight, &[&value]);
        let bits = bits_for(i64::from(scale) + weight.max(0) + 5);
        exp_rounded(&to_fixed(&value, bits), bits, scale)
    }

    /// Natural logarithm. Errors: 2201E for zero and negative numbers.
    pub fn ln(&self) -> Result<Numeric> {
        let Some(value) = self.positive_for_logarithm()? else {
            return Ok(self.clone());
        };
        let scale = result_scale(RESULT_DIGITS_MIN - ln_weight(self, &value), &[&value]);
        let bits = bits_for(i64::from(scale) + 8);
        from_fixed(&ln_fixed(&value, bits), bits, scale)
    }

    /// Logarithm to a base. Errors: as [`Numeric::ln`]; 22012 for base 1.
    pub fn log(&self, base: &Numeric) -> Result<Numeric> {
        if self.is_nan() || base.is_nan() {
            return Ok(Numeric::NAN);
        }
        let base_value = base.positive_for_logarithm()?;
        let value = self.positive_for_logarithm()?;
        let (Some(base_value), Some(value)) = (base_value, value) else {
            return Ok(match (self.is_infinite(), base.is_infinite()) {
                (true, true) => Numeric::NAN,
                (true, false) => Numeric::INFINITY,
                _ => Numeric::ZERO,
            });
        };
        let weight = ln_weight(self, &value) - ln_weight(base, &base_value);
        let scale = result_scale(RESULT_DIGITS_MIN - weight, &[&value, &base_value]);
        // A base near 1 makes the divisor small: its leading zeros are precision lost.
        let lost = (-ln_weight(base, &base_value)).max(0) * 2 + weight.max(0);
        let bits = bits_for(i64::from(scale) + lost + 10);
        let divisor = ln_fixed(&base_value, bits);
        if *base == Numeric::ONE || divisor.is_zero() {
            return Err(err!(DIVISION_BY_ZERO, "division by zero"));
        }
        from_fixed(&((ln_fixed(&value, bits) << bits) / divisor), bits, scale)
    }

    pub fn log10(&self) -> Result<Numeric> {
        self.log(&Numeric::new(10, 0))
    }

    /// `None` for NaN and infinity, which logarithms hand through.
    fn positive_for_logarithm(&self) -> Result<Option<Finite<'_>>> {
        if self.is_nan() {
            return Ok(None);
        }
        match self.signum() {
            -1 => Err(negative_logarithm()),
            0 => Err(zero_logarithm()),
            _ => Ok(self.finite()),
        }
    }

    fn is_integer(&self) -> bool {
        self.trim_scale().scale() == Some(0)
    }

    fn is_odd_integer(&self) -> bool {
        self.is_integer() && self.rem(&Numeric::new(2, 0)).is_ok_and(|rest| !rest.is_zero())
    }

    /// `self ^ exponent`. Errors: 2201F where the result is not a real number, 22003 beyond the format.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        let (Some(base), Some(power)) = (self.finite(), exponent.finite()) else {
            return self.power_special(exponent);
        };
        if base.signum() == 0 && power.signum() < 0 {
            return Err(err!(
                INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined"
            ));
        }
        let integer = exponent.is_integer();
        if base.signum() < 0 && !integer {
            return Err(complex_power());
        }
        if integer && let Ok(power_word) = exponent.to_i32() {
            return self.power_integer(&base, power_word, &power);
        }
        if base.signum() == 0 {
            return Ok(Numeric::new(0, RESULT_DIGITS_MIN as u16));
        }
        let result = self.power_by_logarithm(&base, exponent, &power)?;
        Ok(if base.signum() < 0 && exponent.is_odd_integer() { result.neg() } else { result })
    }

    fn power_by_logarithm(
        &self,
        base: &Finite<'_>,
        exponent: &Numeric,
        power: &Finite<'_>,
    ) -> Result<Numeric> {
        let magnitude = self.abs();
        let coarse_bits = bits_for(40 + (-ln_weight(&magnitude, base)).max(0));
        let coarse = from_fixed(&ln_fixed(base, coarse_bits), coarse_bits, 40)?;
        let estimate = coarse.mul(exponent)?.to_f64_lossy();
        if estimate.abs() > EXP_ARGUMENT_MAX * 1.003_333 {
            if estimate > 0.0 {
                return Err(overflow());
            }
            return Ok(Numeric::new(0, RESULT_SCALE_MAX as u16));
        }
        let weight = (estimate * LOG10_E) as i64;
        let scale = result_scale(RESULT_DIGITS_MIN - weight, &[base, power]);
        Self::power_rounded(base, power, weight, scale)
    }

    /// `|base| ^ power` to `scale` digits, given the decimal weight of the result.
    fn power_rounded(base: &Finite<'_>, power: &Finite<'_>, weight: i64, scale: u16) -> Result<Numeric> {
        let power_digits = power.digits() as i64 - i64::from(power.scale());
        let bits = bits_for(i64::from(scale) + weight.max(0) + power_digits.max(0) + 8);
        let argument = ln_fixed(base, bits) * power.to_big() / big_power_of_ten(u32::from(power.scale()));
        exp_rounded(&argument, bits, scale)
    }

    fn power_integer(&self, base: &Finite<'_>, power: i32, power_value: &Finite<'_>) -> Result<Numeric> {
        let weight = if base.signum() == 0 { 0.0 } else { f64::from(power) * log10_magnitude(base) };
        if weight > 131_072.0 {
            return Err(overflow());
        }
        // Integer powers get their digits after the point, however large the result is.
        let scale = result_scale(RESULT_DIGITS_MIN, &[base, power_value]);
        if weight + 1.0 < -f64::from(scale) {
            return Ok(Numeric::new(0, scale));
        }
        if power == 0 {
            return Numeric::ONE.round(i32::from(scale));
        }
        if base.signum() == 0 {
            return Ok(Numeric::new(0, scale));
        }
        let exact_digits = base.digits() * u64::from(power.unsigned_abs());
        if exact_digits <= 20_000 || i64::from(scale) + (weight.max(0.0) as i64) > 20_000 {
            let coefficient = num_traits::pow(base.to_big(), power.unsigned_abs() as usize);
            let shown = u64::from(base.scale()) * u64::from(power.unsigned_abs());
            return if power > 0 {
                rescale(coefficient, shown, scale)
            } else {
                // 10^shown / coefficient, with one digit to round by.
                let dividend = num_traits::pow(BigInt::from(10u8), shown as usize + usize::from(scale) + 1);
                rescale(dividend / coefficient, u64::from(scale) + 1, scale)
            };
        }
        let result = Self::power_rounded(base, power_value, weight as i64, scale)?;
        Ok(if base.signum() < 0 && power % 2 != 0 { result.neg() } else { result })
    }

    /// Powers where base or exponent is NaN or infinite, by the rules of POSIX `pow`.
    fn power_special(&self, exponent: &Numeric) -> Result<Numeric> {
        if exponent.is_zero() || *self == Numeric::ONE {
            return Ok(Numeric::ONE);
        }
        if self.is_nan() || exponent.is_nan() {
            return Ok(Numeric::NAN);
        }
        if exponent.is_infinite() {
            if self.is_zero() && exponent.is_negative() {
                return Err(err!(
                    INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                    "zero raised to a negative power is undefined"
                ));
            }
            let magnitude = self.abs();
            if magnitude == Numeric::ONE {
                return Ok(Numeric::ONE);
            }
            return Ok(if (magnitude > Numeric::ONE) == (exponent.signum() > 0) {
                Numeric::INFINITY
            } else {
                Numeric::ZERO
            });
        }
        // The base is infinite, the exponent finite.
        if self.is_negative() && !exponent.is_integer() {
            return Err(complex_power());
        }
        if exponent.is_negative() {
            return Ok(Numeric::ZERO);
        }
        Ok(if self.is_negative() && exponent.is_odd_integer() {
            Numeric::NEG_INFINITY
        } else {
            Numeric::INFINITY
        })
    }
}

/// Rounds `coefficient * 10^-from` to `to` digits after the point.
fn rescale(coefficient: BigInt, from: u64, to: u16) -> Result<Numeric> {
    let to_wide = u64::from(to);
    if from <= to_wide {
        return Numeric::from_big(coefficient * big_power_of_ten((to_wide - from) as u32), to);
    }
    let power = num_traits::pow(BigInt::from(10u8), (from - to_wide) as usize);
    let half: BigInt = &power >> 1u8;
    let rounded = if coefficient.is_negative() {
        -((-coefficient + half) / power)
    } else {
        (coefficient + half) / power
    };
    Numeric::from_big(rounded, to)
}
