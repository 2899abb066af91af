//! What part of a table's rows a comparison of one column keeps, from the column's statistics.
//!
//! A value is a common one, whose frequency is known, or it lies in the histogram; what the common values and nulls leave
//! is shared evenly by the other distinct values. The formulas are PostgreSQL's (manual, section 76.1).

use std::cmp::Ordering;

use cairn_catalog::{BtreeStrategy, ColumnStatistics};
use cairn_types::Datum;
use cairn_types::compare;
use cairn_types::row::PhysicalKind;

use super::scale::position;

/// What PostgreSQL takes for the number of distinct values where it knows nothing.
pub const DISTINCT_VALUES: f64 = 200.0;
/// An inequality with a value that is not known.
pub const INEQUALITY: f64 = 1.0 / 3.0;
/// A range between two values that are not known.
pub const RANGE: f64 = 0.005;

/// The distribution of a column's values over its table's rows.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'s> {
    /// `None`: not gathered; then `unique` or the type may still tell something.
    pub statistics: Option<&'s ColumnStatistics>,
    /// Rows of the table, at least 1.
    pub rows: f64,
    /// No value occurs twice: a unique index says so.
    pub unique: bool,
    pub boolean: bool,
    /// char(n): blanks at the end do not count.
    pub blank_padded: bool,
}

/// The order of two values, if they are of types that compare as they are.
pub fn ordering(a: &Datum, b: &Datum, blank_padded: bool) -> Option<Ordering> {
    let class = |value: &Datum| {
        Some(match PhysicalKind::of(value)? {
            PhysicalKind::Int2 | PhysicalKind::Int4 | PhysicalKind::Int8 => PhysicalKind::Int8,
            PhysicalKind::Float4 | PhysicalKind::Float8 => PhysicalKind::Float8,
            other => other,
        })
    };
    (class(a)? == class(b)?).then(|| compare::compare(a, b, blank_padded))
}

fn holds(strategy: BtreeStrategy, order: Ordering) -> bool {
    match strategy {
        BtreeStrategy::Less => order.is_lt(),
        BtreeStrategy::LessEqual => order.is_le(),
        BtreeStrategy::Equal => order.is_eq(),
        BtreeStrategy::GreaterEqual => order.is_ge(),
        BtreeStrategy::Greater => order.is_gt(),
    }
}

impl<'s> Distribution<'s> {
    pub fn null_fraction(&self) -> f64 {
        self.statistics.map_or(0.0, |statistics| statistics.null_fraction)
    }

    fn common(&self) -> impl Iterator<Item = (&'s Datum, f64)> + use<'s> {
        let statistics = self.statistics.into_iter();
        statistics.flat_map(|statistics| {
            statistics.common_values.iter().zip(statistics.common_frequencies.iter().copied())
        })
    }

    /// How many different values there are, at least 1, and whether that is more than a guess.
    pub fn distinct(&self) -> (f64, bool) {
        let known = match self.statistics {
            Some(statistics) => statistics.distinct,
            None if self.boolean => 2.0,
            None => 0.0,
        };
        let known = if self.unique { -(1.0 - self.null_fraction()) } else { known };
        let whole = |distinct: f64| distinct.round().max(1.0);
        if known > 0.0 {
            (whole(known), true)
        } else if known < 0.0 {
            (whole(-known * self.rows), true)
        } else if self.rows < DISTINCT_VALUES {
            (whole(self.rows), true)
        } else {
            (DISTINCT_VALUES, false)
        }
    }

    /// `column = value`.
    pub fn equal_to(&self, value: &Datum) -> f64 {
        if value.is_null() {
            return 0.0;
        }
        if self.unique {
            return (1.0 / self.rows).min(1.0);
        }
        let Some(statistics) = self.statistics else { return 1.0 / self.distinct().0 };
        let mut comparable = true;
        for (common, frequency) in self.common() {
            match ordering(common, value, self.blank_padded) {
                Some(order) if order.is_eq() => return frequency.clamp(0.0, 1.0),
                Some(_) => {}
                None => comparable = false,
            }
        }
        if !comparable {
            return self.equal_to_unknown();
        }
        // One of the other values, each as frequent as the next, and none more than the rarest common one.
        let mut part = (1.0 - statistics.common_fraction() - statistics.null_fraction).clamp(0.0, 1.0);
        let others = self.distinct().0 - statistics.common_values.len() as f64;
        if others > 1.0 {
            part /= others;
        }
        statistics.common_frequencies.last().map_or(part, |rarest| part.min(*rarest))
    }

    /// `column = value` for whatever value it turns out to be.
    pub fn equal_to_unknown(&self) -> f64 {
        if self.unique {
            return (1.0 / self.rows).min(1.0);
        }
        let part = (1.0 - self.null_fraction()) / self.distinct().0;
        let most = self.statistics.and_then(|statistics| statistics.common_frequencies.first());
        most.map_or(part, |most| part.min(*most)).clamp(0.0, 1.0)
    }

    /// `column < value` and its kin; `None`: nothing is known that would tell.
    pub fn compared_with(&self, strategy: BtreeStrategy, value: &Datum) -> Option<f64> {
        if strategy == BtreeStrategy::Equal {
            return Some(self.equal_to(value));
        }
        if value.is_null() {
            return Some(0.0);
        }
        let statistics = self.statistics?;
        let mut common = 0.0;
        for (value_there, frequency) in self.common() {
            if holds(strategy, ordering(value_there, value, self.blank_padded)?) {
                common += frequency;
            }
        }
        let rest = (1.0 - statistics.null_fraction - statistics.common_fraction()).max(0.0);
        let of_rest = match self.histogram_part(strategy, value) {
            Some(part) => part,
            // All values are common: what is left is rounding.
            None if !statistics.common_values.is_empty() => 0.5,
            None => return None,
        };
        Some((rest * of_rest + common).clamp(0.0, 1.0))
    }

    /// The part of the histogram's values for which the comparison holds.
    pub fn histogram_part(&self, strategy: BtreeStrategy, value: &Datum) -> Option<f64> {
        let statistics = self.statistics?;
        let bounds = &statistics.histogram[..];
        let parts = bounds.len().checked_sub(1).filter(|parts| *parts > 0)?;
        // The first bound that is not below the value; for <= and >, not at it either.
        let below = |bound: &Datum| {
            let order = ordering(bound, value, self.blank_padded)?;
            Some(match strategy {
                BtreeStrategy::Less | BtreeStrategy::GreaterEqual => order.is_lt(),
                _ => order.is_le(),
            })
        };
        below(&bounds[0])?;
        let at = bounds.partition_point(|bound| below(bound).unwrap_or(false));
        let smaller = if at == 0 {
            0.0
        } else if at > parts {
            1.0
        } else {
            let within = position(&bounds[at - 1], &bounds[at], value);
            let mut smaller = ((at - 1) as f64 + within) / parts as f64;
            let excludes = matches!(strategy, BtreeStrategy::Less | BtreeStrategy::GreaterEqual);
            if at == 1 || excludes {
                // Rows with the value itself: the even spread counts them up to it.
                let others = self.distinct().0 - statistics.common_values.len() as f64;
                let equal = if others > 1.0 { 1.0 / others } else { 0.0 };
                if at == 1 {
                    // The smallest value is in no part before it.
                    smaller += equal * (1.0 - within);
                }
                if excludes {
                    smaller -= equal;
                }
            }
            smaller
        };
        let part = match strategy {
            BtreeStrategy::Less | BtreeStrategy::LessEqual => smaller,
            _ => 1.0 - smaller,
        };
        // The ends of the sample are not the ends of the table.
        let unseen = 0.01 / parts as f64;
        Some(part.clamp(unseen, 1.0 - unseen))
    }

    /// Rows for which a boolean column is true; `None` if nothing is known.
    pub fn is_true(&self) -> Option<f64> {
        self.statistics?;
        Some(self.equal_to(&Datum::Bool(true)))
    }

    /// The part of all rows that have a common value for which `test` holds, and the part that has any common value.
    pub fn common_matching(&self, test: &dyn Fn(&Datum) -> bool) -> (f64, f64) {
        self.common().fold((0.0, 0.0), |(matching, all), (value, frequency)| {
            (if test(value) { matching + frequency } else { matching }, all + frequency)
        })
    }
}

/// Rows between two bounds, from the parts that each bound alone keeps.
pub fn between(above: f64, below: f64, null_fraction: f64) -> f64 {
    // Both keep what lies between, and together all rows that are not null once.
    let part = above + below - 1.0 + null_fraction;
    if part > 0.0 {
        part.min(1.0)
    } else if part < -0.01 {
        // They contradict each other, or the figures do.
        RANGE
    } else {
        1e-10
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn distribution(statistics: &ColumnStatistics, rows: f64) -> Distribution<'_> {
        Distribution {
            statistics: Some(statistics),
            rows,
            unique: false,
            boolean: false,
            blank_padded: false,
        }
    }

    fn ints(values: impl IntoIterator<Item = i32>) -> Vec<Datum> {
        values.into_iter().map(Datum::Int4).collect()
    }

    /// 1 to 1000, each in a thousandth of the rows.
    pub fn uniform() -> ColumnStatistics {
        ColumnStatistics {
            average_width: 4,
            distinct: 1000.0,
            histogram: ints((0..=100).map(|bound| 1 + bound * 999 / 100)),
            correlation: Some(0.0),
            ..ColumnStatistics::default()
        }
    }

    /// 0 in half of the rows, 1 in a quarter, null in an eighth; the rest is 100 to 199.
    pub fn skewed() -> ColumnStatistics {
        ColumnStatistics {
            null_fraction: 0.125,
            average_width: 4,
            distinct: 102.0,
            common_values: ints([0, 1]),
            common_frequencies: vec![0.5, 0.25],
            histogram: ints((0..=10).map(|bound| 100 + bound * 99 / 10)),
            correlation: Some(0.0),
        }
    }

    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 0.005 + expected * 0.02, "{actual} instead of {expected}");
    }

    #[test]
    fn even_values() {
        let statistics = uniform();
        let column = distribution(&statistics, 1e6);
        close(column.equal_to(&Datum::Int4(500)), 0.001);
        close(column.equal_to_unknown(), 0.001);
        for (strategy, expected) in [
            (BtreeStrategy::Less, 0.249),
            (BtreeStrategy::LessEqual, 0.25),
            (BtreeStrategy::Greater, 0.75),
            (BtreeStrategy::GreaterEqual, 0.751),
        ] {
            let part = column.compared_with(strategy, &Datum::Int4(250)).unwrap();
            assert!((part - expected).abs() < 0.0005, "{strategy:?}: {part}");
        }
        let below = column.compared_with(BtreeStrategy::LessEqual, &Datum::Int8(300)).unwrap();
        let above = column.compared_with(BtreeStrategy::GreaterEqual, &Datum::Int8(201)).unwrap();
        close(between(above, below, 0.0), 0.1);
        // Outside of what was seen there is nearly nothing, but not nothing.
        let part = column.compared_with(BtreeStrategy::Greater, &Datum::Int4(5000)).unwrap();
        assert!(part > 0.0 && part < 0.001);
    }

    #[test]
    fn common_values_and_the_rest() {
        let statistics = skewed();
        let column = distribution(&statistics, 1e6);
        assert_eq!(column.equal_to(&Datum::Int4(0)), 0.5);
        assert_eq!(column.equal_to(&Datum::Int8(1)), 0.25);
        close(column.equal_to(&Datum::Int4(150)), 0.00125);
        assert_eq!(column.equal_to(&Datum::Null), 0.0);
        close(column.compared_with(BtreeStrategy::Less, &Datum::Int4(100)).unwrap(), 0.75);
        close(column.compared_with(BtreeStrategy::Greater, &Datum::Int4(0)).unwrap(), 0.375);
        close(column.compared_with(BtreeStrategy::Less, &Datum::Int4(150)).unwrap(), 0.8125);
        assert!(column.compared_with(BtreeStrategy::Less, &Datum::text("a")).is_none());
        let unique = Distribution { unique: true, ..column };
        assert_eq!(unique.equal_to(&Datum::Int4(0)), 1e-6);
    }

    #[test]
    fn without_statistics() {
        let none =
            Distribution { statistics: None, rows: 1e6, unique: false, boolean: false, blank_padded: false };
        assert_eq!(none.distinct(), (200.0, false));
        assert_eq!(Distribution { rows: 20.0, ..none }.distinct(), (20.0, true));
        assert_eq!(Distribution { unique: true, ..none }.distinct(), (1e6, true));
        assert_eq!(Distribution { boolean: true, ..none }.distinct(), (2.0, true));
        assert!(none.compared_with(BtreeStrategy::Less, &Datum::Int4(1)).is_none());
    }

    pub fn any_statistics() -> impl Strategy<Value = ColumnStatistics> {
        let bounds = prop::collection::btree_set(-1000..1000i32, 2..20);
        let common = prop::collection::btree_set(-1000..1000i32, 0..8);
        (bounds, common, 0.0..1.0f64, 0.0..1.0f64, -1.0..500.0f64).prop_map(
            |(bounds, common, null_fraction, common_part, distinct)| {
                let common: Vec<i32> = common.difference(&bounds).copied().collect();
                let part = (1.0 - null_fraction) * common_part / common.len().max(1) as f64;
                ColumnStatistics {
                    null_fraction,
                    average_width: 4,
                    distinct,
                    common_frequencies: vec![part; common.len()],
                    common_values: ints(common),
                    histogram: ints(bounds),
                    correlation: None,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn parts_are_parts_and_add_up(statistics in any_statistics(), value in -1200..1200i32, rows in 1.0..1e9f64) {
            use BtreeStrategy::*;
            let column = distribution(&statistics, rows);
            let value = Datum::Int4(value);
            for part in [column.equal_to(&value), column.equal_to_unknown(), column.equal_to(&Datum::Null)] {
                prop_assert!((0.0..=1.0).contains(&part));
            }
            let part = |strategy| column.compared_with(strategy, &value).unwrap();
            for strategy in [Less, LessEqual, Greater, GreaterEqual] {
                prop_assert!((0.0..=1.0).contains(&part(strategy)), "{}", part(strategy));
            }
            // Below, at and above the value, and nulls: all rows.
            let not_null = 1.0 - statistics.null_fraction;
            prop_assert!((part(Less) + part(GreaterEqual) - not_null).abs() < 1e-6);
            prop_assert!((part(LessEqual) + part(Greater) - not_null).abs() < 1e-6);
            prop_assert!(part(Less) <= part(LessEqual) + 1e-6);
        }

        #[test]
        fn larger_values_have_more_below_them(statistics in any_statistics(), a in -1200..1200i32, b in -1200..1200i32) {
            let column = distribution(&statistics, 1e6);
            let below = |value: i32| column.compared_with(BtreeStrategy::LessEqual, &Datum::Int4(value)).unwrap();
            let others = column.distinct().0 - statistics.common_values.len() as f64;
            let slack = 1.0 / others.max(1.0) + 1e-6;
            prop_assert!(below(a.min(b)) <= below(a.max(b)) + slack);
        }

        #[test]
        fn ranges_are_parts(above in 0.0..1.0f64, below in 0.0..1.0f64, nulls in 0.0..1.0f64) {
            prop_assert!((0.0..=1.0).contains(&between(above, below, nulls)));
        }
    }
}
