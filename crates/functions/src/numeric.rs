//! numeric: operators, casts and functions. The arithmetic itself is the type's, in `cairn-types`.

use std::sync::Arc;

use cairn_types::{Datum, Numeric, Result};

use crate::{Args, ScalarFn};

fn number(value: Numeric) -> Result<Datum> {
    Ok(Datum::Numeric(Arc::new(value)))
}

fn scale(value: Option<u16>) -> Result<Datum> {
    Ok(value.map_or(Datum::Null, |scale| Datum::Int4(scale.into())))
}

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("numeric_add", |_, a| number(a.numeric(0)?.add(a.numeric(1)?)?)),
    ("numeric_sub", |_, a| number(a.numeric(0)?.sub(a.numeric(1)?)?)),
    ("numeric_mul", |_, a| number(a.numeric(0)?.mul(a.numeric(1)?)?)),
    ("numeric_div", |_, a| number(a.numeric(0)?.div(a.numeric(1)?)?)),
    ("numeric_div_trunc", |_, a| number(a.numeric(0)?.div_truncated(a.numeric(1)?)?)),
    ("numeric_mod", |_, a| number(a.numeric(0)?.rem(a.numeric(1)?)?)),
    ("numeric_inc", |_, a| number(a.numeric(0)?.add(&Numeric::ONE)?)),
    ("numeric_uminus", |_, a| number(a.numeric(0)?.neg())),
    ("numeric_uplus", |_, a| Ok(a.any(0).clone())),
    ("numeric_abs", |_, a| number(a.numeric(0)?.abs())),
    ("numeric_sign", |_, a| number(a.numeric(0)?.sign())),
    ("numeric_round", |_, a| number(a.numeric(0)?.round(a.int4(1)?)?)),
    ("numeric_trunc", |_, a| number(a.numeric(0)?.trunc(a.int4(1)?)?)),
    ("numeric_ceil", |_, a| number(a.numeric(0)?.ceil()?)),
    ("numeric_floor", |_, a| number(a.numeric(0)?.floor()?)),
    ("numeric_sqrt", |_, a| number(a.numeric(0)?.sqrt()?)),
    ("numeric_exp", |_, a| number(a.numeric(0)?.exp()?)),
    ("numeric_ln", |_, a| number(a.numeric(0)?.ln()?)),
    // log(base, x)
    ("numeric_log", |_, a| number(a.numeric(1)?.log(a.numeric(0)?)?)),
    ("numeric_power", |_, a| number(a.numeric(0)?.power(a.numeric(1)?)?)),
    ("numeric_gcd", |_, a| number(a.numeric(0)?.gcd(a.numeric(1)?)?)),
    ("numeric_lcm", |_, a| number(a.numeric(0)?.lcm(a.numeric(1)?)?)),
    ("numeric_fac", |_, a| number(Numeric::factorial(a.int8(0)?)?)),
    ("numeric_scale", |_, a| scale(a.numeric(0)?.scale())),
    ("numeric_min_scale", |_, a| scale(a.numeric(0)?.min_scale())),
    ("numeric_trim_scale", |_, a| number(a.numeric(0)?.trim_scale())),
    ("width_bucket_numeric", |_, a| {
        a.numeric(0)?.width_bucket(a.numeric(1)?, a.numeric(2)?, a.int4(3)?).map(Datum::Int4)
    }),
    ("numeric_eq", |_, a| Ok(Datum::Bool(a.numeric(0)? == a.numeric(1)?))),
    ("numeric_ne", |_, a| Ok(Datum::Bool(a.numeric(0)? != a.numeric(1)?))),
    ("numeric_lt", |_, a| Ok(Datum::Bool(a.numeric(0)? < a.numeric(1)?))),
    ("numeric_le", |_, a| Ok(Datum::Bool(a.numeric(0)? <= a.numeric(1)?))),
    ("numeric_gt", |_, a| Ok(Datum::Bool(a.numeric(0)? > a.numeric(1)?))),
    ("numeric_ge", |_, a| Ok(Datum::Bool(a.numeric(0)? >= a.numeric(1)?))),
    ("numeric_cmp", |_, a| Ok(Datum::Int4(a.numeric(0)?.cmp(a.numeric(1)?) as i32))),
    ("numeric_larger", |_, a| Ok(a.any(if a.numeric(0)? > a.numeric(1)? { 0 } else { 1 }).clone())),
    ("numeric_smaller", |_, a| Ok(a.any(if a.numeric(0)? < a.numeric(1)? { 0 } else { 1 }).clone())),
    // Casts.
    ("numeric", |_, a| number(a.numeric(0)?.apply_typmod(a.int4(1)?)?)),
    ("int2_numeric", |_, a| number(Numeric::from(i32::from(a.int2(0)?)))),
    ("int4_numeric", |_, a| number(Numeric::from(a.int4(0)?))),
    ("int8_numeric", |_, a| number(Numeric::from(a.int8(0)?))),
    ("numeric_int2", |_, a| a.numeric(0)?.to_i16().map(Datum::Int2)),
    ("numeric_int4", |_, a| a.numeric(0)?.to_i32().map(Datum::Int4)),
    ("numeric_int8", |_, a| a.numeric(0)?.to_i64().map(Datum::Int8)),
    ("numeric_float4", |_, a| a.numeric(0)?.to_f32().map(Datum::Float4)),
    ("numeric_float8", |_, a| a.numeric(0)?.to_f64().map(Datum::Float8)),
];
