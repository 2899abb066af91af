//! to_char, to_number, to_date, to_timestamp (manual, section 9.8).
//!
//! `template` takes date and time templates apart, `datetime` writes by them and `read` reads by them;
//! `number_template`, `number` and `number_read` do the same for numbers; `spell` knows ordinals and, for `SP`
//! with the extension orafce, number words. Month and day names are English: lc_time is C.

mod datetime;
mod number;
mod number_read;
mod number_template;
mod read;
mod spell;
mod template;

use crate::ScalarFn;

pub const BODIES: &[(&str, ScalarFn)] = &[
    ("timestamp_to_char", datetime::timestamp_to_char),
    ("timestamptz_to_char", datetime::timestamptz_to_char),
    ("interval_to_char", datetime::interval_to_char),
    ("numeric_to_char", number::numeric_to_char),
    ("int4_to_char", number::int4_to_char),
    ("int8_to_char", number::int8_to_char),
    ("float4_to_char", number::float4_to_char),
    ("float8_to_char", number::float8_to_char),
    ("numeric_to_number", number_read::to_number),
    ("to_timestamp", read::to_timestamp),
    ("to_date", read::to_date),
];
