//! The proleptic Gregorian calendar over days since 2000-01-01, as PostgreSQL counts it.
//!
//! Years are astronomical inside: year 0 is 1 BC, year -1 is 2 BC. Only input and output speak of BC.

pub const US_PER_SECOND: i64 = 1_000_000;
pub const US_PER_MINUTE: i64 = 60 * US_PER_SECOND;
pub const US_PER_HOUR: i64 = 60 * US_PER_MINUTE;
pub const US_PER_DAY: i64 = 24 * US_PER_HOUR;

/// The Julian day of 2000-01-01.
pub const POSTGRES_EPOCH_JULIAN: i32 = 2_451_545;
/// The Julian day of 1970-01-01.
pub const UNIX_EPOCH_JULIAN: i32 = 2_440_588;
/// Seconds from 1970-01-01 to 2000-01-01.
pub const UNIX_TO_POSTGRES_SECONDS: i64 = 946_684_800;

/// First day of the type date, 4714-11-24 BC, and the day after its last, 5874897-12-31.
pub const DATE_MIN: i32 = -POSTGRES_EPOCH_JULIAN;
pub const DATE_END: i32 = 2_145_031_949;
/// First microsecond of the timestamp types, 4714-11-24 BC, and the one after their last, 294276-12-31.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

pub const DATE_NEG_INFINITY: i32 = i32::MIN;
pub const DATE_INFINITY: i32 = i32::MAX;
pub const TIMESTAMP_NEG_INFINITY: i64 = i64::MIN;
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;

/// Broken-down local time. Months and days count from 1; the year is astronomical.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Civil {
    pub year: i32,
    pub month: i32,
    pub day: i32,
    pub hour: i32,
    pub minute: i32,
    pub second: i32,
    pub us: i32,
}

pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month that is 1 to 12.
pub fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 2000-01-01 of a date whose month is 1 to 12; the day may lie outside the month.
pub fn days_from_civil(year: i32, month: i32, day: i32) -> i64 {
    // Years that begin in March put the leap day last, so that a month's first day is linear in its number.
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    // 730,425 days lie between 0000-03-01 and 2000-01-01.
    era * 146_097 + day_of_era - 730_425
}

/// Year, month and day of a number of days since 2000-01-01.
pub fn civil_from_days(days: i64) -> (i32, i32, i32) {
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as i32, day as i32)
}

/// Whether date arithmetic on the year and month cannot leave the range of Julian days.
pub fn is_valid_julian(year: i32, month: i32) -> bool {
    (year > -4713 || (year == -4713 && month >= 11)) && (year < 5_874_898 || (year == 5_874_898 && month < 6))
}

/// The local time of a finite timestamp.
pub fn civil_from_timestamp(timestamp_us: i64) -> Civil {
    let (year, month, day) = civil_from_days(timestamp_us.div_euclid(US_PER_DAY));
    let (hour, minute, second, us) = split_time(timestamp_us.rem_euclid(US_PER_DAY));
    Civil { year, month, day, hour, minute, second, us }
}

/// The finite timestamp of a local time; `None` if it is outside the type's range. Hour 24 and second 60 carry.
pub fn timestamp_from_civil(civil: &Civil) -> Option<i64> {
    if !is_valid_julian(civil.year, civil.month) {
        return None;
    }
    let days = days_from_civil(civil.year, civil.month, civil.day);
    let time = join_time(civil.hour, civil.minute, civil.second, civil.us);
    in_timestamp_range(days.checked_mul(US_PER_DAY)?.checked_add(time)?)
}

/// The value if it is a finite timestamp.
pub fn in_timestamp_range(timestamp_us: i64) -> Option<i64> {
    (TIMESTAMP_MIN..TIMESTAMP_END).contains(&timestamp_us).then_some(timestamp_us)
}

/// The value if it is a finite date.
pub fn in_date_range(days: i64) -> Option<i32> {
    i32::try_from(days).ok().filter(|days| (DATE_MIN..DATE_END).contains(days))
}

/// Hours, minutes, seconds and microseconds of a time that is not negative.
pub fn split_time(time_us: i64) -> (i32, i32, i32, i32) {
    (
        (time_us / US_PER_HOUR) as i32,
        (time_us / US_PER_MINUTE % 60) as i32,
        (time_us / US_PER_SECOND % 60) as i32,
        (time_us % US_PER_SECOND) as i32,
    )
}

pub fn join_time(hour: i32, minute: i32, second: i32, us: i32) -> i64 {
    i64::from(hour) * US_PER_HOUR
        + i64::from(minute) * US_PER_MINUTE
        + i64::from(second) * US_PER_SECOND
        + i64::from(us)
}

/// Sunday is 0.
pub fn day_of_week(days: i64) -> i32 {
    // 2000-01-01 was a Saturday.
    (days + 6).rem_euclid(7) as i32
}

/// From 1.
pub fn day_of_year(year: i32, month: i32, day: i32) -> i32 {
    (days_from_civil(year, month, day) - days_from_civil(year, 1, 1)) as i32 + 1
}

/// Days since 2000-01-01 of the Monday with which an ISO 8601 year begins.
pub fn iso_year_start(iso_year: i32) -> i64 {
    // The week with 4 January is the first.
    let fourth = days_from_civil(iso_year, 1, 4);
    fourth - i64::from((day_of_week(fourth) + 6) % 7)
}

/// ISO 8601 year and week.
pub fn iso_week(year: i32, month: i32, day: i32) -> (i32, i32) {
    let days = days_from_civil(year, month, day);
    let mut iso_year = year + 1;
    while days < iso_year_start(iso_year) {
        iso_year -= 1;
    }
    (iso_year, ((days - iso_year_start(iso_year)) / 7) as i32 + 1)
}

pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
pub const MONTHS_FULL: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// By [`day_of_week`].
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(days_from_civil(2000, 1, 1), 0);
        assert_eq!(days_from_civil(1970, 1, 1), -10_957);
        assert_eq!(days_from_civil(-4713, 11, 24), i64::from(DATE_MIN));
        assert_eq!(days_from_civil(5_874_898, 1, 1), i64::from(DATE_END));
        assert_eq!(days_from_civil(294_277, 1, 1) * US_PER_DAY, TIMESTAMP_END);
        assert_eq!(days_from_civil(-4713, 11, 24) * US_PER_DAY, TIMESTAMP_MIN);
        assert_eq!(day_of_week(days_from_civil(2026, 11, 21)), 6);
        assert_eq!(iso_week(2021, 1, 3), (2020, 53));
        assert_eq!(iso_week(2024, 12, 30), (2025, 1));
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (DATE_MIN..DATE_END).step_by(99_991) {
            let (year, month, day) = civil_from_days(days.into());
            assert!((1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day));
            assert_eq!(days_from_civil(year, month, day), i64::from(days));
        }
    }
}
