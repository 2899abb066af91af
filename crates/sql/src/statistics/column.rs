//! From a sample of a column's values to its statistics.
//!
//! The sample is sorted; values that are equal lie side by side then and make a *run*. Everything follows from the runs:
//!
//! - The number of distinct values in the whole table is the estimate of Haas and Stokes (Duj1): `n d / (n - f1 + f1 n / N)`
//!   for d runs, f1 of them of one row, in n of N rows. A sample without repetition means a column without; one in which
//!   everything repeats has probably shown all values there are.
//! - Common values are the longest runs: all that repeat if the sample is the table or has shown every value there is,
//!   otherwise those that are more frequent than the average of the rest by two standard errors.
//! - What is left is divided into parts of the same size: the histogram.
//! - Correlation is that of the values' ranks with the rows' places.
//!
//! All of it as in PostgreSQL, so that the same sample gives the same numbers. Values of more than 1 kB are counted, but
//! neither compared nor kept.

use std::cmp::Ordering;

use cairn_catalog::ColumnStatistics;
use cairn_types::{Datum, compare};

use super::width::width;

/// Values wider than this are too dear to sort and to keep.
const WIDTH_MAX: usize = 1024;
/// A column with more distinct values than this part of the rows is taken to have more of them as it grows.
const GROWING: f64 = 0.1;

/// The values of one column in the rows of a sample.
pub struct Values<'a> {
    /// In the order of the rows.
    pub values: &'a [Datum],
    /// Rows of the whole table (those that an index has, for an indexed expression).
    pub total_rows: f64,
    /// Most common values and parts of the histogram at most.
    pub target: usize,
    /// Length of the type where all values have the same (pg_type.typlen).
    pub fixed_width: Option<usize>,
    /// Values are stored in rows, whose short ones have a short header (others have been computed).
    pub stored: bool,
    /// Whether the type has an order; without one only nulls and widths are counted.
    pub ordered: bool,
    /// char(n): blanks at the end do not count.
    pub blank_padded: bool,
}

/// Equal values of the sorted sample.
struct Run {
    first: usize,
    length: usize,
}

/// The statistics of a column; `None` for a sample without rows.
pub fn statistics_of(sample: &Values<'_>) -> Option<ColumnStatistics> {
    let rows = sample.values.len();
    if rows == 0 {
        return None;
    }
    let mut width_sum = 0.0;
    let (mut not_null, mut too_wide) = (0usize, 0usize);
    // The value with its place among those that are compared.
    let mut sorted: Vec<(&Datum, usize)> = Vec::with_capacity(rows);
    for value in sample.values.iter().filter(|value| !value.is_null()) {
        not_null += 1;
        if sample.fixed_width.is_none() {
            let width = width(value, sample.stored);
            width_sum += width as f64;
            if width > WIDTH_MAX {
                too_wide += 1;
                continue;
            }
        }
        sorted.push((value, sorted.len()));
    }
    let mut statistics = ColumnStatistics {
        null_fraction: (rows - not_null) as f64 / rows as f64,
        average_width: match sample.fixed_width {
            Some(width) => width as i32,
            None => (width_sum / (not_null as f64).max(1.0)) as i32,
        },
        ..ColumnStatistics::default()
    };
    if not_null == 0 || !sample.ordered {
        return Some(statistics);
    }
    if sorted.is_empty() {
        // All of them are too wide to compare: all different, one supposes.
        statistics.distinct = -(1.0 - statistics.null_fraction);
        return Some(statistics);
    }
    let order = |a: &Datum, b: &Datum| compare::compare(a, b, sample.blank_padded);
    sorted.sort_by(|(a, a_place), (b, b_place)| order(a, b).then(a_place.cmp(b_place)));
    let runs = runs(&sorted, order);
    let repeated = runs.iter().filter(|run| run.length > 1).count();
    statistics.distinct =
        distinct(&runs, repeated, too_wide, not_null, sample.total_rows, statistics.null_fraction);
    let common = common_values(&runs, repeated, too_wide, &statistics, sample);
    for run in &common {
        statistics.common_values.push(sorted[run.first].0.clone());
        statistics.common_frequencies.push(run.length as f64 / rows as f64);
    }
    statistics.histogram = histogram(&sorted, runs.len(), &common, sample.target);
    statistics.correlation = correlation(&sorted);
    Some(statistics)
}

fn runs(sorted: &[(&Datum, usize)], order: impl Fn(&Datum, &Datum) -> Ordering) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, (value, _)) in sorted.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if order(sorted[run.first].0, value).is_eq() => run.length += 1,
            _ => runs.push(Run { first: at, length: 1 }),
        }
    }
    runs
}

/// Distinct values of the whole table, in pg_statistic's form.
fn distinct(
    runs: &[Run],
    repeated: usize,
    too_wide: usize,
    not_null: usize,
    total_rows: f64,
    null_fraction: f64,
) -> f64 {
    if repeated == 0 {
        // Nothing repeats: the column is taken for unique.
        return -(1.0 - null_fraction);
    }
    let estimate = if too_wide == 0 && repeated == runs.len() {
        repeated as f64
    } else {
        let once = (runs.len() - repeated + too_wide) as f64;
        duj1(not_null as f64, once + repeated as f64, once, total_rows * (1.0 - null_fraction))
    };
    if estimate > GROWING * total_rows { -(estimate / total_rows) } else { estimate }
}

/// Distinct values among `rows`, of which `sampled` show `seen`, `once` of them in one row only.
fn duj1(sampled: f64, seen: f64, once: f64, rows: f64) -> f64 {
    if rows <= 0.0 {
        return 0.0;
    }
    let estimate = sampled * seen / ((sampled - once) + once * sampled / rows);
    // Not below what was seen, not above what there is, should rounding lead there.
    (estimate.max(seen).min(rows.max(seen)) + 0.5).floor()
}

/// The runs that are kept as common values, longest first.
fn common_values<'r>(
    runs: &'r [Run],
    repeated: usize,
    too_wide: usize,
    statistics: &ColumnStatistics,
    sample: &Values<'_>,
) -> Vec<&'r Run> {
    let mut longest: Vec<&Run> = runs.iter().filter(|run| run.length > 1).collect();
    longest.sort_by_key(|run| std::cmp::Reverse(run.length));
    longest.truncate(sample.target);
    // Every value there is has been seen, and there is room for all.
    let complete =
        repeated == runs.len() && longest.len() == runs.len() && too_wide == 0 && statistics.distinct > 0.0;
    if !complete {
        let keep = significant(&longest, statistics, sample.values.len() as f64, sample.total_rows);
        longest.truncate(keep);
    }
    longest
}

/// How many of the longest runs are more than chance: each must be longer than a value outside of the list would be on
/// average, by two standard errors of drawing without replacement (hypergeometric).
fn significant(longest: &[&Run], statistics: &ColumnStatistics, sampled: f64, rows: f64) -> usize {
    // Of a whole table nothing is chance.
    if sampled >= rows || rows <= 1.0 {
        return longest.len();
    }
    let all_distinct =
        if statistics.distinct < 0.0 { -statistics.distinct * rows } else { statistics.distinct };
    let mut keep = longest.len();
    let mut longer: f64 = longest.iter().rev().skip(1).map(|run| run.length as f64).sum();
    while keep > 0 {
        let length = longest[keep - 1].length as f64;
        let mut other = (1.0 - longer / sampled - statistics.null_fraction).clamp(0.0, 1.0);
        let others = all_distinct - (keep - 1) as f64;
        if others > 1.0 {
            other /= others;
        }
        let of_table = rows * length / sampled;
        let variance =
            sampled * of_table * (rows - of_table) * (rows - sampled) / (rows * rows * (rows - 1.0));
        if length > other * sampled + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        keep -= 1;
        if keep > 0 {
            longer -= longest[keep - 1].length as f64;
        }
    }
    keep
}

/// Bounds of parts with the same number of values, common values left out; none if there are not two different ones.
fn histogram(sorted: &[(&Datum, usize)], distinct: usize, common: &[&Run], target: usize) -> Vec<Datum> {
    let bounds = (distinct - common.len()).min(target + 1);
    if bounds < 2 {
        return Vec::new();
    }
    let mut skipped: Vec<&&Run> = common.iter().collect();
    skipped.sort_by_key(|run| run.first);
    let mut rest: Vec<&Datum> = Vec::with_capacity(sorted.len());
    let mut from = 0;
    for run in skipped {
        rest.extend(sorted[from..run.first].iter().map(|(value, _)| *value));
        from = run.first + run.length;
    }
    rest.extend(sorted[from..].iter().map(|(value, _)| *value));
    // Whole numbers: the first bound is the first value and the last one the last.
    (0..bounds).map(|bound| rest[bound * (rest.len() - 1) / (bounds - 1)].clone()).collect()
}

/// Of rank and place; both are the numbers from 0.
fn correlation(sorted: &[(&Datum, usize)]) -> Option<f64> {
    if sorted.len() < 2 {
        return None;
    }
    let n = sorted.len() as f64;
    let products: f64 = sorted.iter().enumerate().map(|(rank, (_, place))| rank as f64 * *place as f64).sum();
    let sum = (n - 1.0) * n / 2.0;
    let squares = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
    Some((n * products - sum * sum) / (n * squares - sum * sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(values: &[Datum], total_rows: f64, target: usize) -> ColumnStatistics {
        statistics_of(&Values {
            values,
            total_rows,
            target,
            fixed_width: Some(4),
            stored: true,
            ordered: true,
            blank_padded: false,
        })
        .unwrap()
    }

    fn ints(values: impl IntoIterator<Item = i32>) -> Vec<Datum> {
        values.into_iter().map(Datum::Int4).collect()
    }

    fn numbers(values: &[Datum]) -> Vec<i32> {
        let number = |value: &Datum| if let Datum::Int4(value) = value { *value } else { i32::MIN };
        values.iter().map(number).collect()
    }

    #[test]
    fn a_unique_column() {
        let values = ints(0..1000);
        let statistics = sample(&values, 1000.0, 10);
        assert_eq!(statistics.distinct, -1.0);
        assert!(statistics.common_values.is_empty());
        let bounds: Vec<i32> = (0..=10).map(|bound| bound * 999 / 10).collect();
        assert_eq!(numbers(&statistics.histogram), bounds);
        assert_eq!(statistics.correlation, Some(1.0));
        assert_eq!(sample(&ints((0..1000).rev()), 1000.0, 10).correlation, Some(-1.0));
    }

    #[test]
    fn few_values_are_all_common_and_leave_no_histogram() {
        let values = ints((0..1000).map(|i| i % 4));
        let statistics = sample(&values, 1_000_000.0, 100);
        assert_eq!(statistics.distinct, 4.0);
        assert_eq!(numbers(&statistics.common_values), [0, 1, 2, 3]);
        assert_eq!(statistics.common_frequencies, [0.25; 4]);
        assert!(statistics.histogram.is_empty());
    }

    #[test]
    fn chance_is_not_common_but_skew_is() {
        // 200 rows of 100,000 show two values twice, by chance.
        let mut values: Vec<i32> = (0..200).collect();
        values[1] = 0;
        values[3] = 2;
        assert!(sample(&ints(values.clone()), 100_000.0, 100).common_values.is_empty());
        values[100..].fill(-5);
        let statistics = sample(&ints(values.clone()), 100_000.0, 100);
        assert_eq!(numbers(&statistics.common_values), [-5]);
        assert_eq!(statistics.common_frequencies, [0.5]);
        assert_eq!(statistics.histogram.len(), 98);
        // Of a whole table nothing is chance.
        assert_eq!(numbers(&sample(&ints(values), 200.0, 100).common_values), [-5, 0, 2]);
    }

    #[test]
    fn distinct_values_are_estimated_from_those_seen_once() {
        assert_eq!(duj1(1000.0, 500.0, 0.0, 1e6), 500.0);
        assert_eq!(duj1(1000.0, 1000.0, 1000.0, 1e6), 1e6);
        assert_eq!(duj1(1000.0, 900.0, 800.0, 1e6), 4482.0);
        assert_eq!(duj1(1000.0, 900.0, 800.0, 0.0), 0.0);
        // A part of the rows where it is more than a tenth of them.
        let values = ints((0..1000).map(|i| if i < 900 { i } else { i - 100 }));
        assert_eq!(sample(&values, 1000.0, 100).distinct, -0.9);
    }

    #[test]
    fn nulls_and_wide_values() {
        let mut values = vec![Datum::Null; 50];
        values.extend((0..50).map(|i| Datum::text(format!("{i:05}"))));
        let text = |values: &[Datum]| {
            statistics_of(&Values {
                values,
                total_rows: 100.0,
                target: 100,
                fixed_width: None,
                stored: true,
                ordered: true,
                blank_padded: false,
            })
            .unwrap()
        };
        let statistics = text(&values);
        assert_eq!((statistics.null_fraction, statistics.average_width), (0.5, 6));
        assert_eq!(statistics.distinct, -0.5);
        let wide = vec![Datum::text("x".repeat(2000)); 100];
        let statistics = text(&wide);
        assert_eq!((statistics.distinct, statistics.average_width), (-1.0, 2004));
        assert!(statistics.histogram.is_empty() && statistics.common_values.is_empty());
        let statistics = text(&[Datum::Null, Datum::Null]);
        assert_eq!((statistics.null_fraction, statistics.distinct), (1.0, 0.0));
    }

    proptest! {
        #[test]
        fn statistics_are_in_their_bounds(
            values in prop::collection::vec(prop::option::weighted(0.8, 0..60i32), 1..400),
            factor in 1..1000u32,
            target in 1..120usize,
        ) {
            let datums: Vec<Datum> =
                values.iter().map(|value| value.map_or(Datum::Null, Datum::Int4)).collect();
            let total = datums.len() as f64 * f64::from(factor);
            let statistics = sample(&datums, total, target);
            prop_assert!((0.0..=1.0).contains(&statistics.null_fraction));
            prop_assert!(statistics.common_values.len() <= target);
            prop_assert!(statistics.histogram.len() <= target + 1 && statistics.histogram.len() != 1);
            prop_assert!(statistics.histogram.is_sorted_by(|a, b| compare::compare(a, b, false).is_le()));
            prop_assert!(statistics.common_frequencies.is_sorted_by(|a, b| a >= b));
            prop_assert!(statistics.common_fraction() + statistics.null_fraction <= 1.0 + 1e-9);
            prop_assert!(statistics.distinct >= -1.0 && statistics.distinct <= total);
            let seen = values.iter().flatten().collect::<std::collections::HashSet<_>>().len() as f64;
            let distinct = if statistics.distinct < 0.0 { -statistics.distinct * total } else { statistics.distinct };
            prop_assert!(distinct >= seen - 0.5);
            prop_assert!(statistics.correlation.is_none_or(|c| (-1.0..=1.0 + 1e-9).contains(&c) || c.is_nan()));
            let bounds = numbers(&statistics.histogram);
            prop_assert!(numbers(&statistics.common_values).iter().all(|value| !bounds.contains(value)));
        }
    }
}
