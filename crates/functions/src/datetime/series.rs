//! generate_series over timestamps.

use cairn_types::{Datum, Env, Interval, Result, Row, bail};

use super::arithmetic::{timestamp_plus, timestamptz_plus};
use crate::compare::interval_span;
use crate::set_returning::{RowStream, SetFn};
use crate::{Args, Call};

pub const BODIES: &[(&str, SetFn)] = &[
    ("generate_series_timestamp", |_, a| series::<false>(a.timestamp(0)?, a.timestamp(1)?, a.interval(2)?)),
    ("generate_series_timestamptz", |_, a| {
        series::<true>(a.timestamptz(0)?, a.timestamptz(1)?, a.interval(2)?)
    }),
];

struct Series<const ZONED: bool> {
    next: i64,
    stop: i64,
    step: Interval,
    ascending: bool,
}

fn series<const ZONED: bool>(start: i64, stop: i64, step: Interval) -> Result<Box<dyn RowStream>> {
    let span = interval_span(step);
    if span == 0 {
        bail!(INVALID_PARAMETER_VALUE, "step size cannot equal zero");
    }
    Ok(Box::new(Series::<ZONED> { next: start, stop, step, ascending: span > 0 }))
}

fn plus<const ZONED: bool>(env: &dyn Env, value: i64, step: Interval) -> Result<i64> {
    if ZONED { timestamptz_plus(env, value, step) } else { timestamp_plus(value, step) }
}

impl<const ZONED: bool> RowStream for Series<ZONED> {
    fn next(&mut self, call: &Call<'_>, row: &mut Row) -> Result<bool> {
        if if self.ascending { self.next > self.stop } else { self.next < self.stop } {
            return Ok(false);
        }
        row.clear();
        row.push(if ZONED { Datum::TimestampTz(self.next) } else { Datum::Timestamp(self.next) });
        self.next = plus::<ZONED>(call.env, self.next, self.step)?;
        Ok(true)
    }
}
