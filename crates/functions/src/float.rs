//! real and double precision: arithmetic, casts, mathematics (manual, tables 9.5 to 9.8).
//!
//! PostgreSQL refuses results that left the range although no operand was infinite or zero: [`checked`] and its
//! kin are on every path that can do so.

use cairn_types::{Datum, Error, Numeric, Result, bail, err};

use crate::integer::{division_by_zero, out_of_range};
use crate::{Args, Call, ScalarFn};

#[cold]
fn overflow() -> Error {
    err!(NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[cold]
fn underflow() -> Error {
    err!(NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

#[cold]
fn input_out_of_range() -> Error {
    err!(NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// The two float types behind one set of arithmetic bodies.
trait Float: Copy + PartialEq {
    fn infinite(self) -> bool;
    fn zero(self) -> bool;
    fn datum(self) -> Datum;
}

impl Float for f32 {
    fn infinite(self) -> bool {
        self.is_infinite()
    }
    fn zero(self) -> bool {
        self == 0.0
    }
    fn datum(self) -> Datum {
        Datum::Float4(self)
    }
}

impl Float for f64 {
    fn infinite(self) -> bool {
        self.is_infinite()
    }
    fn zero(self) -> bool {
        self == 0.0
    }
    fn datum(self) -> Datum {
        Datum::Float8(self)
    }
}

/// The result of an addition or subtraction.
#[inline]
fn sum<F: Float>(result: F, a: F, b: F) -> Result<Datum> {
    if result.infinite() && !a.infinite() && !b.infinite() {
        return Err(overflow());
    }
    Ok(result.datum())
}

#[inline]
fn product<F: Float>(result: F, a: F, b: F) -> Result<Datum> {
    if result.infinite() && !a.infinite() && !b.infinite() {
        return Err(overflow());
    }
    if result.zero() && !a.zero() && !b.zero() {
        return Err(underflow());
    }
    Ok(result.datum())
}

#[inline]
fn quotient<F: Float + std::ops::Div<Output = F>>(a: F, b: F, a_is_nan: bool) -> Result<Datum> {
    if b.zero() && !a_is_nan {
        return Err(division_by_zero());
    }
    let result = a / b;
    if result.infinite() && !a.infinite() {
        return Err(overflow());
    }
    if result.zero() && !a.zero() && !b.infinite() {
        return Err(underflow());
    }
    Ok(result.datum())
}

macro_rules! arithmetic {
    ($($prefix:literal, $args:ident => $a:expr, $b:expr;)*) => {
        &[$(
            (concat!($prefix, "pl"), |_, $args| { let (a, b) = ($a, $b); sum(a + b, a, b) }),
            (concat!($prefix, "mi"), |_, $args| { let (a, b) = ($a, $b); sum(a - b, a, b) }),
            (concat!($prefix, "mul"), |_, $args| { let (a, b) = ($a, $b); product(a * b, a, b) }),
            (concat!($prefix, "div"), |_, $args| { let (a, b) = ($a, $b); quotient(a, b, a.is_nan()) }),
        )*]
    };
}

pub const ARITHMETIC: &[(&str, ScalarFn)] = arithmetic! {
    "float4", a => a.float4(0)?, a.float4(1)?;
    "float8", a => a.float8(0)?, a.float8(1)?;
    "float48", a => f64::from(a.float4(0)?), a.float8(1)?;
    "float84", a => a.float8(0)?, f64::from(a.float4(1)?);
};

/// A function whose result is infinite or zero only by leaving the range, given a finite argument.
fn checked(x: f64, result: f64) -> Result<Datum> {
    if result.is_infinite() && x.is_finite() {
        return Err(overflow());
    }
    Ok(Datum::Float8(result))
}

/// Trigonometry has no answer for infinity.
fn of_finite(a: &[Datum], function: fn(f64) -> f64) -> Result<Datum> {
    let x = a.float8(0)?;
    if x.is_infinite() {
        return Err(input_out_of_range());
    }
    checked(x, function(x))
}

/// Inverse functions that are defined on -1 to 1 only.
fn of_unit(a: &[Datum], function: fn(f64) -> f64) -> Result<Datum> {
    let x = a.float8(0)?;
    if !x.is_nan() && !(-1.0..=1.0).contains(&x) {
        return Err(input_out_of_range());
    }
    Ok(Datum::Float8(function(x)))
}

fn plain(a: &[Datum], function: fn(f64) -> f64) -> Result<Datum> {
    Ok(Datum::Float8(function(a.float8(0)?)))
}

macro_rules! to_integer {
    ($value:expr, $type:ty, $variant:ident, $name:literal) => {{
        // Ties go to the even neighbour; the upper bound is exclusive because it is exact as a float, the type's
        // maximum is not.
        let value = f64::from($value).round_ties_even();
        if value >= <$type>::MIN as f64 && value < -(<$type>::MIN as f64) {
            Ok(Datum::$variant(value as $type))
        } else {
            Err(out_of_range($name))
        }
    }};
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("float4um", |_, a| Ok(Datum::Float4(-a.float4(0)?))),
    ("float4up", |_, a| Ok(Datum::Float4(a.float4(0)?))),
    ("float4abs", |_, a| Ok(Datum::Float4(a.float4(0)?.abs()))),
    ("float8um", |_, a| Ok(Datum::Float8(-a.float8(0)?))),
    ("float8up", |_, a| Ok(Datum::Float8(a.float8(0)?))),
    ("float8abs", |_, a| Ok(Datum::Float8(a.float8(0)?.abs()))),
    // Casts.
    ("ftod", |_, a| Ok(Datum::Float8(a.float4(0)?.into()))),
    ("dtof", |_, a| {
        let value = a.float8(0)?;
        let result = value as f32;
        if result.is_infinite() && !value.is_infinite() {
            return Err(overflow());
        }
        if result == 0.0 && value != 0.0 {
            return Err(underflow());
        }
        Ok(Datum::Float4(result))
    }),
    ("ftoi2", |_, a| to_integer!(a.float4(0)?, i16, Int2, "smallint")),
    ("ftoi4", |_, a| to_integer!(a.float4(0)?, i32, Int4, "integer")),
    ("ftoi8", |_, a| to_integer!(a.float4(0)?, i64, Int8, "bigint")),
    ("dtoi2", |_, a| to_integer!(a.float8(0)?, i16, Int2, "smallint")),
    ("dtoi4", |_, a| to_integer!(a.float8(0)?, i32, Int4, "integer")),
    ("dtoi8", |_, a| to_integer!(a.float8(0)?, i64, Int8, "bigint")),
    ("i2tof", |_, a| Ok(Datum::Float4(a.int2(0)?.into()))),
    ("i4tof", |_, a| Ok(Datum::Float4(a.int4(0)? as f32))),
    ("i8tof", |_, a| Ok(Datum::Float4(a.int8(0)? as f32))),
    ("i2tod", |_, a| Ok(Datum::Float8(a.int2(0)?.into()))),
    ("i4tod", |_, a| Ok(Datum::Float8(a.int4(0)?.into()))),
    ("i8tod", |_, a| Ok(Datum::Float8(a.int8(0)? as f64))),
    ("float4_numeric", |_, a| Ok(Datum::Numeric(Numeric::from_f32(a.float4(0)?).into()))),
    ("float8_numeric", |_, a| Ok(Datum::Numeric(Numeric::from_f64(a.float8(0)?).into()))),
    // Rounding.
    ("dround", |_, a| plain(a, f64::round_ties_even)),
    ("dceil", |_, a| plain(a, f64::ceil)),
    ("dfloor", |_, a| plain(a, f64::floor)),
    ("dtrunc", |_, a| plain(a, f64::trunc)),
    ("dsign", |_, a| {
        let x = a.float8(0)?;
        Ok(Datum::Float8(if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            0.0
        }))
    }),
    // Powers and logarithms.
    ("dsqrt", |_, a| {
        let x = a.float8(0)?;
        if x < 0.0 {
            bail!(INVALID_ARGUMENT_FOR_POWER_FUNCTION, "cannot take square root of a negative number");
        }
        Ok(Datum::Float8(x.sqrt()))
    }),
    ("dcbrt", |_, a| plain(a, f64::cbrt)),
    ("dpow", |_, a| power(a.float8(0)?, a.float8(1)?)),
    ("dexp", |_, a| {
        let x = a.float8(0)?;
        let result = x.exp();
        if result == 0.0 && x.is_finite() {
            return Err(underflow());
        }
        checked(x, result)
    }),
    ("dlog1", |_, a| logarithm(a.float8(0)?, f64::ln)),
    ("dlog10", |_, a| logarithm(a.float8(0)?, f64::log10)),
    // Trigonometry.
    ("dsin", |_, a| of_finite(a, f64::sin)),
    ("dcos", |_, a| of_finite(a, f64::cos)),
    ("dtan", |_, a| {
        let x = a.float8(0)?;
        if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(x.tan())) }
    }),
    ("dcot", |_, a| {
        let x = a.float8(0)?;
        if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(1.0 / x.tan())) }
    }),
    ("dasin", |_, a| of_unit(a, f64::asin)),
    ("dacos", |_, a| of_unit(a, f64::acos)),
    ("datan", |_, a| plain(a, f64::atan)),
    ("datan2", |_, a| Ok(Datum::Float8(a.float8(0)?.atan2(a.float8(1)?)))),
    ("dsinh", |_, a| {
        // The library's overflow is the answer here.
        plain(a, f64::sinh)
    }),
    ("dcosh", |_, a| plain(a, f64::cosh)),
    ("dtanh", |_, a| plain(a, f64::tanh)),
    ("dasinh", |_, a| plain(a, |x| c_math::asinh(x))),
    ("dacosh", |_, a| {
        let x = a.float8(0)?;
        if x < 1.0 { Err(input_out_of_range()) } else { Ok(Datum::Float8(c_math::acosh(x))) }
    }),
    ("datanh", |_, a| of_unit(a, |x| c_math::atanh(x))),
    ("degrees", |_, a| {
        let x = a.float8(0)?;
        checked(x, x / RADIANS_PER_DEGREE)
    }),
    ("radians", |_, a| plain(a, |x| x * RADIANS_PER_DEGREE)),
    ("dpi", |_, _| Ok(Datum::Float8(std::f64::consts::PI))),
    // Trigonometry in degrees.
    ("dsind", |_, a| of_finite(a, degrees::sin)),
    ("dcosd", |_, a| of_finite(a, degrees::cos)),
    ("dtand", |_, a| {
        let x = a.float8(0)?;
        if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(degrees::tan(x))) }
    }),
    ("dcotd", |_, a| {
        let x = a.float8(0)?;
        if x.is_infinite() { Err(input_out_of_range()) } else { Ok(Datum::Float8(degrees::cot(x))) }
    }),
    ("dasind", |_, a| of_unit(a, degrees::asin)),
    ("dacosd", |_, a| of_unit(a, degrees::acos)),
    ("datand", |_, a| plain(a, degrees::atan)),
    ("datan2d", |_, a| Ok(Datum::Float8(degrees::atan2(a.float8(0)?, a.float8(1)?)))),
    // Random numbers, histograms.
    ("drandom", |call, _| Ok(Datum::Float8(call.env.random()))),
    ("setseed", set_seed),
    ("width_bucket_float8", |_, a| width_bucket(a.float8(0)?, a.float8(1)?, a.float8(2)?, a.int4(3)?)),
];

/// The C library's inverse hyperbolic functions, which PostgreSQL uses too; those of Rust's library overflow for large
/// arguments and round differently.
mod c_math {
    unsafe extern "C" {
        pub safe fn asinh(x: f64) -> f64;
        pub safe fn acosh(x: f64) -> f64;
        pub safe fn atanh(x: f64) -> f64;
    }
}

const RADIANS_PER_DEGREE: f64 = 0.017_453_292_519_943_295;

fn set_seed(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let seed = args.float8(0)?;
    if !(-1.0..=1.0).contains(&seed) {
        bail!(INVALID_PARAMETER_VALUE, "setseed parameter {seed} is out of allowed range [-1,1]");
    }
    call.env.set_seed(seed);
    // A function that returns void returns an empty value, not null.
    Ok(Datum::text(""))
}

fn logarithm(x: f64, function: fn(f64) -> f64) -> Result<Datum> {
    if x == 0.0 {
        bail!(INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of zero");
    }
    if x < 0.0 {
        bail!(INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of a negative number");
    }
    checked(x, function(x))
}

fn power(x: f64, y: f64) -> Result<Datum> {
    // The standard's two cases in which NaN does not win: 1 ^ NaN and NaN ^ 0.
    if x.is_nan() || y.is_nan() {
        let result = if x == 1.0 || y == 0.0 { 1.0 } else { f64::NAN };
        return Ok(Datum::Float8(result));
    }
    if x == 0.0 && y < 0.0 {
        bail!(INVALID_ARGUMENT_FOR_POWER_FUNCTION, "zero raised to a negative power is undefined");
    }
    if x < 0.0 && y.is_finite() && y.fract() != 0.0 {
        bail!(
            INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "a negative number raised to a non-integer power yields a complex result"
        );
    }
    let result = x.powf(y);
    if x.is_finite() && y.is_finite() {
        if result.is_infinite() {
            return Err(overflow());
        }
        if result == 0.0 && x != 0.0 {
            return Err(underflow());
        }
    }
    Ok(Datum::Float8(result))
}

fn width_bucket(operand: f64, low: f64, high: f64, count: i32) -> Result<Datum> {
    if count <= 0 {
        bail!(INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, "count must be greater than zero");
    }
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        bail!(
            INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
            "operand, lower bound, and upper bound cannot be NaN"
        );
    }
    if low.is_infinite() || high.is_infinite() {
        bail!(INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, "lower and upper bounds must be finite");
    }
    if low == high {
        bail!(INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, "lower bound cannot equal upper bound");
    }
    let above = || count.checked_add(1).map(Datum::Int4).ok_or_else(|| out_of_range("integer"));
    let place = |distance: f64, width: f64| -> Result<Datum> {
        let bucket = (f64::from(count) * (distance / width)) as i64;
        // Rounding may reach the bound itself.
        Ok(Datum::Int4(bucket.min(i64::from(count) - 1) as i32 + 1))
    };
    if low < high {
        if operand < low {
            Ok(Datum::Int4(0))
        } else if operand >= high {
            above()
        } else if (high - low).is_infinite() {
            place(operand / 2.0 - low / 2.0, high / 2.0 - low / 2.0)
        } else {
            place(operand - low, high - low)
        }
    } else if operand > low {
        Ok(Datum::Int4(0))
    } else if operand <= high {
        above()
    } else if (low - high).is_infinite() {
        place(low / 2.0 - operand / 2.0, low / 2.0 - high / 2.0)
    } else {
        place(low - operand, low - high)
    }
}

/// Trigonometry in degrees that is exact where the answer is: `sind(30)` is 0.5.
///
/// Angles are reduced to the first quadrant, and each half of it is scaled by the library's own value at 30 or
/// 60 degrees, so that its rounding cancels at the well-known angles.
mod degrees {
    use super::RADIANS_PER_DEGREE;

    fn sin_to_30(x: f64) -> f64 {
        let sin_30 = (30.0 * RADIANS_PER_DEGREE).sin();
        (x * RADIANS_PER_DEGREE).sin() / sin_30 / 2.0
    }

    fn cos_to_60(x: f64) -> f64 {
        let one_minus_cos_60 = 1.0 - (60.0 * RADIANS_PER_DEGREE).cos();
        1.0 - (1.0 - (x * RADIANS_PER_DEGREE).cos()) / one_minus_cos_60 / 2.0
    }

    fn sin_quadrant(x: f64) -> f64 {
        if x <= 30.0 { sin_to_30(x) } else { cos_to_60(90.0 - x) }
    }

    fn cos_quadrant(x: f64) -> f64 {
        if x <= 60.0 { cos_to_60(x) } else { sin_to_30(90.0 - x) }
    }

    /// Angle in the first quadrant, sign of the sine, sign of the cosine.
    fn reduce(x: f64) -> (f64, f64, f64) {
        let mut x = x % 360.0;
        let mut sin_sign = 1.0;
        let mut cos_sign = 1.0;
        if x < 0.0 {
            x = -x;
            sin_sign = -sin_sign;
        }
        if x > 180.0 {
            x = 360.0 - x;
            sin_sign = -sin_sign;
        }
        if x > 90.0 {
            x = 180.0 - x;
            cos_sign = -cos_sign;
        }
        (x, sin_sign, cos_sign)
    }

    pub fn sin(x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        let (angle, sign, _) = reduce(x);
        sign * sin_quadrant(angle)
    }

    pub fn cos(x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        let (angle, _, sign) = reduce(x);
        sign * cos_quadrant(angle)
    }

    /// -0 is not an answer.
    fn positive_zero(x: f64) -> f64 {
        if x == 0.0 { 0.0 } else { x }
    }

    pub fn tan(x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        let tan_45 = sin_quadrant(45.0) / cos_quadrant(45.0);
        let (angle, sin_sign, cos_sign) = reduce(x);
        positive_zero(sin_sign * cos_sign * (sin_quadrant(angle) / cos_quadrant(angle) / tan_45))
    }

    pub fn cot(x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        let cot_45 = cos_quadrant(45.0) / sin_quadrant(45.0);
        let (angle, sin_sign, cos_sign) = reduce(x);
        positive_zero(sin_sign * cos_sign * (cos_quadrant(angle) / sin_quadrant(angle) / cot_45))
    }

    fn asin_quadrant(x: f64) -> f64 {
        if x <= 0.5 { x.asin() / 0.5f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5f64.acos() * 60.0 }
    }

    fn acos_quadrant(x: f64) -> f64 {
        if x <= 0.5 { 90.0 - x.asin() / 0.5f64.asin() * 30.0 } else { x.acos() / 0.5f64.acos() * 60.0 }
    }

    pub fn asin(x: f64) -> f64 {
        if x >= 0.0 { asin_quadrant(x) } else { -asin_quadrant(-x) }
    }

    pub fn acos(x: f64) -> f64 {
        if x >= 0.0 { acos_quadrant(x) } else { 90.0 + asin_quadrant(-x) }
    }

    pub fn atan(x: f64) -> f64 {
        x.atan() / 1.0f64.atan() * 45.0
    }

    pub fn atan2(y: f64, x: f64) -> f64 {
        y.atan2(x) / 1.0f64.atan() * 45.0
    }
}
