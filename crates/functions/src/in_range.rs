//! RANGE frames of windows: `in_range(value, base, offset, sub, less)` says whether `value` is at most (`less`) or
//! at least `base - offset` (`sub`) or `base + offset`.

use std::cmp::Ordering;

use cairn_types::{Datum, Result, TimeTz, err};

use crate::{Args, Call, ScalarFn};

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("in_range_int2_int2", |_, a| in_range(a, integer)),
    ("in_range_int2_int4", |_, a| in_range(a, integer)),
    ("in_range_int2_int8", |_, a| in_range(a, integer)),
    ("in_range_int4_int2", |_, a| in_range(a, integer)),
    ("in_range_int4_int4", |_, a| in_range(a, integer)),
    ("in_range_int4_int8", |_, a| in_range(a, integer)),
    ("in_range_int8_int8", |_, a| in_range(a, integer)),
    ("in_range_float4_float8", |call, a| in_range_float(call, a)),
    ("in_range_float8_float8", |call, a| in_range_float(call, a)),
    ("in_range_numeric_numeric", |_, a| in_range_numeric(a)),
    ("in_range_date_interval", |call, a| in_range_time(call, a)),
    ("in_range_timestamp_interval", |call, a| in_range_time(call, a)),
    ("in_range_timestamptz_interval", |call, a| in_range_time(call, a)),
    ("in_range_time_interval", |_, a| in_range_clock(a)),
    ("in_range_timetz_interval", |_, a| in_range_clock(a)),
    ("in_range_interval_interval", |_, a| in_range_interval(a)),
];

fn bad_offset() -> cairn_types::Error {
    err!(INVALID_PRECEDING_OR_FOLLOWING_SIZE, "invalid preceding or following size in window function")
}

fn side(order: Ordering, less: bool) -> Datum {
    Datum::Bool(if less { order.is_le() } else { order.is_ge() })
}

fn integer(value: &Datum) -> Result<i128> {
    match value {
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok((*value).into()),
        other => std::slice::from_ref(other).int8(0).map(i128::from),
    }
}

fn in_range(args: &[Datum], number: impl Fn(&Datum) -> Result<i128>) -> Result<Datum> {
    let (value, base, offset) = (number(args.any(0))?, number(args.any(1))?, number(args.any(2))?);
    if offset < 0 {
        return Err(bad_offset());
    }
    let limit = if args.bool(3)? { base - offset } else { base + offset };
    Ok(side(value.cmp(&limit), args.bool(4)?))
}

fn in_range_float(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let number = |i: usize| match args.any(i) {
        Datum::Float4(value) => Ok(f64::from(*value)),
        _ => args.float8(i),
    };
    let (value, base, offset) = (number(0)?, number(1)?, number(2)?);
    if offset.is_nan() || offset < 0.0 {
        return Err(bad_offset());
    }
    let (sub, less) = (args.bool(3)?, args.bool(4)?);
    // NaN is a value of its own, above all others and equal to itself.
    if value.is_nan() || base.is_nan() {
        return Ok(side(crate::compare::float8_order(value, base), less));
    }
    if base.is_infinite() && offset.is_infinite() && (base > 0.0) == sub {
        // The difference of two infinities: everything is within it.
        return Ok(Datum::Bool(true));
    }
    let limit = if sub { base - offset } else { base + offset };
    Ok(side(crate::compare::float8_order(value, limit), less))
}

fn in_range_numeric(args: &[Datum]) -> Result<Datum> {
    let (value, base, offset) = (args.numeric(0)?, args.numeric(1)?, args.numeric(2)?);
    if offset.is_nan() || offset.is_negative() {
        return Err(bad_offset());
    }
    let (sub, less) = (args.bool(3)?, args.bool(4)?);
    if value.is_nan() || base.is_nan() {
        return Ok(side(value.cmp(base), less));
    }
    let limit = if sub { base.sub(offset)? } else { base.add(offset)? };
    if limit.is_nan() {
        return Ok(Datum::Bool(true));
    }
    Ok(side((**value).cmp(&limit), less))
}

fn in_range_time(call: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    use crate::datetime::arithmetic::{date_to_timestamp, negate, timestamp_plus, timestamptz_plus};
    let offset = args.interval(2)?;
    if crate::compare::interval_span(offset) < 0 {
        return Err(bad_offset());
    }
    let (sub, less) = (args.bool(3)?, args.bool(4)?);
    let step = if sub { negate(offset)? } else { offset };
    let (value, limit) = match (args.any(0), args.any(1)) {
        (Datum::Date(value), Datum::Date(base)) => {
            (date_to_timestamp(*value)?, timestamp_plus(date_to_timestamp(*base)?, step)?)
        }
        (Datum::TimestampTz(value), Datum::TimestampTz(base)) => {
            (*value, timestamptz_plus(call.env, *base, step)?)
        }
        _ => (args.timestamp(0)?, timestamp_plus(args.timestamp(1)?, step)?),
    };
    Ok(side(value.cmp(&limit), less))
}

/// Of the offset only the time counts, as when it is added to a time of day.
fn in_range_clock(args: &[Datum]) -> Result<Datum> {
    let offset_us = args.interval(2)?.time_us;
    if offset_us < 0 {
        return Err(bad_offset());
    }
    let (sub, less) = (args.bool(3)?, args.bool(4)?);
    // No time of day reaches a limit that overflows.
    let moved = |base_us: i64| base_us.saturating_add(if sub { -offset_us } else { offset_us });
    let order = match (args.any(0), args.any(1)) {
        (Datum::TimeTz(value), Datum::TimeTz(base)) => {
            let limit = TimeTz { time_us: moved(base.time_us), ..*base };
            let utc_us =
                |time: TimeTz| i128::from(time.time_us) + i128::from(time.zone_seconds_west) * 1_000_000;
            let zones = value.zone_seconds_west.cmp(&limit.zone_seconds_west);
            utc_us(*value).cmp(&utc_us(limit)).then(zones)
        }
        _ => args.time(0)?.cmp(&moved(args.time(1)?)),
    };
    Ok(side(order, less))
}

fn in_range_interval(args: &[Datum]) -> Result<Datum> {
    use crate::compare::interval_span;
    use crate::datetime::arithmetic::{interval_sum, negate};
    let (value, base, offset) = (args.interval(0)?, args.interval(1)?, args.interval(2)?);
    if interval_span(offset) < 0 {
        return Err(bad_offset());
    }
    let (sub, less) = (args.bool(3)?, args.bool(4)?);
    let limit = interval_sum(base, if sub { negate(offset)? } else { offset })?;
    Ok(side(interval_span(value).cmp(&interval_span(limit)), less))
}
