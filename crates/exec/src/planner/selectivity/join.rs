//! What part of the pairs of two tables' rows an equality keeps.
//!
//! Where both columns' common values are known they are matched with each other. For all others each value of the
//! column with fewer values is taken to occur in the other one as well: `1 / max(distinct, distinct)`.

use cairn_catalog::ColumnStatistics;

use super::distribution::{Distribution, ordering};

/// How the two lists of common values match.
struct Matches {
    /// Values that are in both.
    count: f64,
    /// Sum of the products of their frequencies; sums of their frequencies on either side.
    product: f64,
    left: f64,
    right: f64,
}

fn sorted(statistics: &ColumnStatistics, blank_padded: bool) -> Vec<(&cairn_types::Datum, f64)> {
    let values = statistics.common_values.iter();
    let mut sorted: Vec<_> = values.zip(statistics.common_frequencies.iter().copied()).collect();
    sorted.sort_by(|(a, _), (b, _)| cairn_types::compare::compare(a, b, blank_padded));
    sorted
}

/// `None` if either side has no list, or the values cannot be compared with each other.
fn matches(left: &Distribution<'_>, right: &Distribution<'_>, right_most: f64) -> Option<Matches> {
    let (a, b) = (left.statistics?, right.statistics?);
    ordering(a.common_values.first()?, b.common_values.first()?, false)?;
    let blank_padded = left.blank_padded || right.blank_padded;
    let b_kept = right_most.max(0.0) as usize;
    let mut kept = b.clone();
    kept.common_values.truncate(b_kept);
    kept.common_frequencies.truncate(b_kept);
    let (a, b) = (sorted(a, blank_padded), sorted(&kept, blank_padded));
    let mut matches = Matches { count: 0.0, product: 0.0, left: 0.0, right: 0.0 };
    let (mut at_a, mut at_b) = (0, 0);
    while let (Some((a_value, a_part)), Some((b_value, b_part))) = (a.get(at_a), b.get(at_b)) {
        match ordering(a_value, b_value, blank_padded)? {
            std::cmp::Ordering::Less => at_a += 1,
            std::cmp::Ordering::Greater => at_b += 1,
            std::cmp::Ordering::Equal => {
                matches.count += 1.0;
                matches.product += a_part * b_part;
                matches.left += a_part;
                matches.right += b_part;
                at_a += 1;
                at_b += 1;
            }
        }
    }
    Some(matches)
}

/// The part of all pairs in which the two columns are equal.
pub fn equal(left: &Distribution<'_>, right: &Distribution<'_>) -> f64 {
    let (left_distinct, right_distinct) = (left.distinct().0, right.distinct().0);
    let (left_nulls, right_nulls) = (left.null_fraction(), right.null_fraction());
    let Some(matches) = matches(left, right, f64::INFINITY) else {
        return ((1.0 - left_nulls) * (1.0 - right_nulls) / left_distinct.max(right_distinct))
            .clamp(0.0, 1.0);
    };
    let common = |side: &Distribution<'_>| {
        side.statistics
            .map_or((0.0, 0.0), |found| (found.common_values.len() as f64, found.common_fraction()))
    };
    let ((left_count, left_common), (right_count, right_common)) = (common(left), common(right));
    // What is common on its side and matches nothing there, and what is not common.
    let left_unmatched = (left_common - matches.left).clamp(0.0, 1.0);
    let right_unmatched = (right_common - matches.right).clamp(0.0, 1.0);
    let left_other = (1.0 - left_nulls - left_common).clamp(0.0, 1.0);
    let right_other = (1.0 - right_nulls - right_common).clamp(0.0, 1.0);
    // Seen from each side; what is unmatched meets the other side's other values.
    let seen = |unmatched: f64, other: f64, distinct: f64, count: f64, met_other: f64, met_unmatched: f64| {
        let mut part = matches.product;
        if distinct > count {
            part += unmatched * met_other / (distinct - count);
        }
        if distinct > matches.count {
            part += other * (met_other + met_unmatched) / (distinct - matches.count);
        }
        part
    };
    let from_left =
        seen(left_unmatched, left_other, right_distinct, right_count, right_other, right_unmatched);
    let from_right =
        seen(right_unmatched, right_other, left_distinct, left_count, left_other, left_unmatched);
    from_left.min(from_right).clamp(0.0, 1.0)
}

/// The part of the left rows that have a partner among `right_rows` rows of the right side.
pub fn semi(left: &Distribution<'_>, right: &Distribution<'_>, right_rows: f64) -> f64 {
    let ((mut left_distinct, left_known), (right_distinct, right_known)) =
        (left.distinct(), right.distinct());
    let mut right_distinct = right_distinct.min(right_rows.max(1.0));
    // Not more different values than rows: that much is known of either side.
    let known = left_known && (right_known || right_rows <= right.distinct().0);
    let nulls = left.null_fraction();
    // Of left values, the part that the right side has too.
    let contained = |left: f64, right: f64| if left <= right || right < 0.0 { 1.0 } else { right / left };
    let part = match matches(left, right, right_distinct) {
        Some(matches) => {
            let uncertain = if known {
                left_distinct -= matches.count;
                right_distinct -= matches.count;
                contained(left_distinct, right_distinct)
            } else {
                0.5
            };
            matches.left + (1.0 - matches.left - nulls).clamp(0.0, 1.0) * uncertain
        }
        None if known => contained(left_distinct, right_distinct) * (1.0 - nulls),
        None => 0.5 * (1.0 - nulls),
    };
    part.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::distribution::tests::{any_statistics, distribution, skewed, uniform};
    use super::*;
    use proptest::prelude::*;

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < expected * 0.03, "{actual} instead of {expected}");
    }

    #[test]
    fn keys_and_references() {
        let statistics = uniform();
        let reference = distribution(&statistics, 1e6);
        let key = Distribution { statistics: None, rows: 1000.0, unique: true, ..reference };
        close(equal(&reference, &key), 0.001);
        close(equal(&key, &reference), 0.001);
        // Every key is referred to; a tenth of the keys are left.
        close(semi(&key, &reference, 1e6), 1.0);
        close(semi(&reference, &key, 100.0), 0.1);
    }

    #[test]
    fn common_values_meet() {
        let statistics = skewed();
        let column = distribution(&statistics, 1e6);
        // 0.5 x 0.5 + 0.25 x 0.25, and 100 other values.
        close(equal(&column, &column), 0.3125 + 0.125 * 0.125 / 100.0);
        close(semi(&column, &column, 1e6), 0.875);
        let mut other = skewed();
        other.common_values = vec![cairn_types::Datum::Int4(7), cairn_types::Datum::Int4(8)];
        assert!(equal(&column, &distribution(&other, 1e6)) < 0.01);
    }

    proptest! {
        #[test]
        fn parts_are_parts(a in any_statistics(), b in any_statistics(), a_rows in 1.0..1e8f64, b_rows in 1.0..1e8f64) {
            let (a, b) = (distribution(&a, a_rows), distribution(&b, b_rows));
            prop_assert!((0.0..=1.0).contains(&equal(&a, &b)));
            prop_assert!((equal(&a, &b) - equal(&b, &a)).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&semi(&a, &b, b_rows / 3.0)));
        }
    }
}
