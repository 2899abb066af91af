//! Wall clock time as SQL counts it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds from 1970 to 2000, where timestamps begin.
pub const EPOCH_OFFSET_US: i64 = 946_684_800_000_000;

/// Microseconds since 2000-01-01 00:00 UTC.
pub fn now_us() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros());
    i64::try_from(since_1970).unwrap_or(i64::MAX).saturating_sub(EPOCH_OFFSET_US)
}
