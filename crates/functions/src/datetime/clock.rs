//! The current time: `now()` and its kin, and the SQL words without parentheses (`current_date`, ...), which are
//! expressions rather than functions and are called by the executor.

use cairn_types::datetime::calendar::{
    DAYS, MONTHS, US_PER_DAY, US_PER_SECOND, civil_from_timestamp, day_of_week,
};
use cairn_types::datetime::zone::{info_at, offset_at};
use cairn_types::datetime::{adjust_time, adjust_timestamp};
use cairn_types::{Datum, Env, Result, TimeTz};

use super::to_local;
use crate::ScalarFn;

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("now", |call, _| Ok(Datum::TimestampTz(call.env.transaction_time()))),
    ("statement_timestamp", |call, _| Ok(Datum::TimestampTz(call.env.statement_time()))),
    ("clock_timestamp", |call, _| Ok(Datum::TimestampTz(call.env.clock_time()))),
    ("timeofday", |call, _| Ok(Datum::text(time_of_day(call.env)))),
];

pub fn current_date(env: &dyn Env) -> Datum {
    Datum::Date(to_local(env, env.transaction_time()).div_euclid(US_PER_DAY) as i32)
}

/// `current_time`; `typmod` is its precision or -1.
pub fn current_time(env: &dyn Env, typmod: i32) -> Datum {
    let now = env.transaction_time();
    let zone_seconds_west = -offset_at(&env.format().time_zone, now);
    let time_us = to_local(env, now).rem_euclid(US_PER_DAY);
    Datum::TimeTz(TimeTz { time_us: adjust_time(time_us, typmod), zone_seconds_west })
}

pub fn current_timestamp(env: &dyn Env, typmod: i32) -> Result<Datum> {
    adjust_timestamp(env.transaction_time(), typmod).map(Datum::TimestampTz)
}

pub fn local_time(env: &dyn Env, typmod: i32) -> Datum {
    let time_us = to_local(env, env.transaction_time()).rem_euclid(US_PER_DAY);
    Datum::Time(adjust_time(time_us, typmod))
}

pub fn local_timestamp(env: &dyn Env, typmod: i32) -> Result<Datum> {
    adjust_timestamp(to_local(env, env.transaction_time()), typmod).map(Datum::Timestamp)
}

/// `Wed Feb 26 15:02:14.123456 2020 CET`
fn time_of_day(env: &dyn Env) -> String {
    let now = env.clock_time();
    let info = info_at(&env.format().time_zone, now);
    let local = now + i64::from(info.seconds_east) * US_PER_SECOND;
    let civil = civil_from_timestamp(local);
    let weekday = DAYS[day_of_week(local.div_euclid(US_PER_DAY)) as usize];
    format!(
        "{} {} {:02} {:02}:{:02}:{:02}.{:06} {:04} {}",
        &weekday[..3],
        MONTHS[(civil.month - 1) as usize],
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        civil.us,
        civil.year,
        info.abbreviation
    )
}
