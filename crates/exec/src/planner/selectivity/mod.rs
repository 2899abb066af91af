//! What part of the rows a condition keeps.
//!
//! Where ANALYZE has been, the statistics of the column that a condition looks at tell ([`distribution`], [`join`]); a table
//! that was never analyzed keeps the guesses of [`super::estimate`]. Statistics are looked up in the relation that the
//! query's range table holds; the arrays of a column are unpacked when the first plan asks for them.
//!
//! A value that is not known while planning (a parameter, a column of another table) stands for the average one.
//! Stable functions (`now()`) are evaluated for the estimate, and only for it.

pub mod distribution;
mod groups;
mod join;
mod pattern;
mod scale;

use std::sync::Arc;

use cairn_analyze::expr_type;
use cairn_analyze::query::{BooleanTest, Expr, OperatorCall};
use cairn_catalog::{BtreeStrategy, IndexKeyColumn, Operator, Relation, Volatility};
use cairn_functions::Call;
use cairn_types::{Datum, io, types};

use super::Planner;
use super::conditions::{RelSet, rels};
use super::estimate::{array_length, strip, table_rows};
use super::indexes::{ColumnMatch, commuted};
use crate::expr::Body;
use crate::expr::equal::same;
use distribution::{Distribution, INEQUALITY, RANGE, between};
use pattern::Pattern;

/// LIKE and its kin where a histogram cannot say better.
const MATCH: f64 = 0.005;
/// A histogram with fewer bounds says nothing of a pattern; one with this many says all.
const PATTERN_BOUNDS_MIN: usize = 10;
const PATTERN_BOUNDS: f64 = 100.0;

/// One side of a range: what is compared, and what it keeps.
struct Bound {
    expr: Expr,
    upper: bool,
    /// `None`: the value is not known.
    part: Option<f64>,
    nulls: f64,
}

impl Planner<'_> {
    /// The distribution of an expression's values over the rows of its table; `None` where its table was never analyzed
    /// or it is no column and no indexed expression.
    pub(crate) fn distribution(&self, expr: &Expr) -> Option<Distribution<'_>> {
        let expr = strip(expr);
        let ty = expr_type(expr).oid;
        let flags = |relation: &Relation| {
            let base = self.catalog().base_type(ty);
            Distribution {
                statistics: None,
                rows: table_rows(relation).max(1.0),
                unique: false,
                boolean: base == types::BOOL,
                blank_padded: base == types::BPCHAR,
            }
        };
        if let Expr::Var(var) = expr {
            if var.levels_up > 0 || var.attno <= 0 {
                return None;
            }
            let relation = self.level().rels.get(var.varno)?.relation.as_ref()?;
            if relation.statistics.is_empty() {
                return None;
            }
            let unique = relation.indexes.iter().any(|index| {
                index.unique
                    && index.predicate.is_none()
                    && matches!(&index.keys[..], [key] if key.key == IndexKeyColumn::Attribute(var.attno))
            });
            let statistics = relation.statistics.get(relation.oid, var.attno);
            return Some(Distribution { statistics, unique, ..flags(relation) });
        }
        // An expression that an index has.
        let range = single(rels(expr))?;
        let relation = self.level().rels.get(range)?.relation.as_ref()?;
        for index in &relation.indexes {
            for (position, key) in index.keys.iter().enumerate() {
                if let IndexKeyColumn::Expression(_) = key.key
                    && let Some(statistics) = relation.statistics.get(index.oid, position as i16 + 1)
                    && self.key_expression(relation, key, range).is_ok_and(|key| same(strip(&key), expr))
                {
                    let unique = index.unique && index.keys.len() == 1 && index.predicate.is_none();
                    return Some(Distribution { statistics: Some(statistics), unique, ..flags(relation) });
                }
            }
        }
        None
    }

    /// A value that is known while planning, if only for an estimate.
    fn estimated_value(&self, expr: &Expr) -> Option<Datum> {
        if crate::stack::check().is_err() {
            return None;
        }
        match expr {
            Expr::Const { value, .. } => Some(value.clone()),
            Expr::Param { number, .. } => self.cx.values.get((*number as usize).checked_sub(1)?).cloned(),
            Expr::Relabel { arg, .. } | Expr::Collate { arg, .. } => self.estimated_value(arg),
            Expr::Function(call) if !call.returns_set => {
                let types = call.args.iter().map(|arg| expr_type(arg).oid).collect();
                let function =
                    self.function(call.function, types, call.ty.oid, call.collation, call.variadic).ok()?;
                self.apply(&function, call.args.iter().map(|arg| self.estimated_value(arg)))
            }
            Expr::Operator(call) if !call.returns_set => {
                let function = self.operator_function(call).ok()?;
                self.apply(&function, call.args.iter().map(|arg| self.estimated_value(arg)))
            }
            Expr::CoerceViaIo { arg, ty, .. } => {
                let value = self.estimated_value(arg)?;
                if value.is_null() {
                    return Some(value);
                }
                let text = match &value {
                    Datum::Text(text) => text.to_string(),
                    other => io::output_string(other, expr_type(arg).oid, self.cx.env).ok()?,
                };
                io::input(&text, ty.oid, ty.typmod, self.cx.env).ok()
            }
            Expr::SqlValue { function, .. } => {
                use cairn_analyze::query::SqlValueFunction::{CurrentDate, CurrentTimestamp, LocalTimestamp};
                let now = self.cx.env.transaction_time();
                match function {
                    CurrentTimestamp => Some(Datum::TimestampTz(now)),
                    // Off by the zone's offset, which an estimate can bear.
                    LocalTimestamp => Some(Datum::Timestamp(now)),
                    CurrentDate => i32::try_from(now.div_euclid(86_400_000_000)).ok().map(Datum::Date),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A built-in function's answer, unless it is volatile, fails, or an argument is not known.
    fn apply(
        &self,
        function: &crate::expr::Function,
        args: impl Iterator<Item = Option<Datum>>,
    ) -> Option<Datum> {
        let Body::Scalar(body) = function.body else { return None };
        if function.proc.volatility == Volatility::Volatile {
            return None;
        }
        let args = args.collect::<Option<Vec<Datum>>>()?;
        if function.strict && args.iter().any(Datum::is_null) {
            return Some(Datum::Null);
        }
        body(&Call { env: self.cx.env, info: function.info() }, &args).ok()
    }

    /// An operator whose one side is a column (or indexed expression) and whose other side does not look at its table: the column,
    /// the other side, and whether the column is on the left.
    fn column_and_value<'e>(&self, call: &'e OperatorCall) -> Option<(&'e Expr, &'e Expr, bool)> {
        let [left, right] = call.args.as_slice() else { return None };
        let (left_set, right_set) = (rels(left), rels(right));
        if single(left_set).is_some() && !right_set.overlaps(left_set) {
            Some((left, right, true))
        } else if single(right_set).is_some() && !left_set.overlaps(right_set) {
            Some((right, left, false))
        } else {
            None
        }
    }

    /// The part of the rows that a condition keeps, from statistics; `None` where there are none that tell.
    pub(super) fn known_selectivity(&self, condition: &Expr) -> Option<f64> {
        match condition {
            Expr::Operator(call) => self.operator_selectivity(call, call.operator),
            Expr::DistinctFrom(call) => {
                let (column, value, _) = self.column_and_value(call)?;
                let column = self.distribution(column)?;
                Some(1.0 - self.equality(&column, value))
            }
            Expr::Not(arg) => match &**arg {
                // What is null is in neither.
                Expr::Operator(call) => {
                    let negator = self.catalog().operator(call.operator)?.negator;
                    if negator == 0 { None } else { self.operator_selectivity(call, negator) }
                }
                Expr::Var(_) => {
                    let column = self.distribution(arg)?;
                    column.statistics?;
                    Some(column.equal_to(&Datum::Bool(false)))
                }
                _ => None,
            },
            Expr::Var(_) if expr_type(condition).oid == types::BOOL => {
                self.distribution(condition)?.is_true()
            }
            Expr::NullTest { arg, is_null, row_type: false, .. } => {
                let nulls = self.distribution(arg)?.statistics?.null_fraction;
                Some(if *is_null { nulls } else { 1.0 - nulls })
            }
            Expr::BooleanTest { arg, test, .. } => {
                let column = self.distribution(arg)?;
                let nulls = column.statistics?.null_fraction;
                let is_true = column.equal_to(&Datum::Bool(true));
                let is_false = (1.0 - nulls - is_true).max(0.0);
                Some(match test {
                    BooleanTest::IsTrue => is_true,
                    BooleanTest::IsNotTrue => 1.0 - is_true,
                    BooleanTest::IsFalse => is_false,
                    BooleanTest::IsNotFalse => 1.0 - is_false,
                    BooleanTest::IsUnknown => nulls,
                    BooleanTest::IsNotUnknown => 1.0 - nulls,
                })
            }
            Expr::ArrayOperator(call) => {
                let operator = self.catalog().operator(call.operator)?;
                let equal = if call.any { call.operator } else { operator.negator };
                // `= any` and `<> all`.
                if self.strategy(equal) != Some(BtreeStrategy::Equal)
                    || rels(&call.array).overlaps(rels(&call.left))
                {
                    return None;
                }
                let column = self.distribution(&call.left)?;
                let any = self.any_of(&column, &call.array);
                Some(if call.any { any } else { (1.0 - any - column.null_fraction()).max(0.0) })
            }
            _ => None,
        }
    }

    /// `column = any (array)`: elements exclude each other.
    fn any_of(&self, column: &Distribution<'_>, array: &Expr) -> f64 {
        let part = match array {
            Expr::Const { value: Datum::Array(array), .. } => {
                array.elements.iter().map(|element| column.equal_to(element)).sum()
            }
            Expr::Array { elements, .. } => {
                elements.iter().map(|element| self.equality(column, element)).sum()
            }
            Expr::Relabel { arg, .. } => self.any_of(column, arg),
            _ => match self.estimated_value(array) {
                Some(Datum::Array(array)) => {
                    array.elements.iter().map(|element| column.equal_to(element)).sum()
                }
                _ => column.equal_to_unknown() * array_length(array),
            },
        };
        f64::min(part, 1.0)
    }

    fn equality(&self, column: &Distribution<'_>, value: &Expr) -> f64 {
        match self.estimated_value(value) {
            Some(value) => column.equal_to(&value),
            None => column.equal_to_unknown(),
        }
    }

    /// `operator` may be the negator of the call's.
    fn operator_selectivity(&self, call: &OperatorCall, operator: u32) -> Option<f64> {
        let (column, value, on_left) = self.column_and_value(call)?;
        let column = self.distribution(column)?;
        let row: &Arc<Operator> = self.catalog().operator(operator)?;
        match self.strategy(operator) {
            Some(BtreeStrategy::Equal) => Some(self.equality(&column, value)),
            Some(strategy) => {
                let strategy = if on_left { strategy } else { commuted(strategy) };
                column.statistics?;
                Some(match self.estimated_value(value) {
                    Some(value) => column.compared_with(strategy, &value).unwrap_or(INEQUALITY),
                    None => INEQUALITY,
                })
            }
            None if self.strategy(row.negator) == Some(BtreeStrategy::Equal) => {
                Some((1.0 - self.equality(&column, value) - column.null_fraction()).clamp(0.0, 1.0))
            }
            None if on_left => self.pattern_selectivity(&column, row, value),
            None => None,
        }
    }

    /// LIKE, ILIKE, regular expressions, and what is none of them.
    fn pattern_selectivity(
        &self,
        column: &Distribution<'_>,
        operator: &Operator,
        pattern: &Expr,
    ) -> Option<f64> {
        let (negated, positive) = match &*operator.name {
            "~~" | "~~*" | "~" | "~*" => (false, operator),
            "!~~" | "!~~*" | "!~" | "!~*" => (true, &**self.catalog().operator(operator.negator)?),
            _ => return None,
        };
        let statistics = column.statistics?;
        let Some(Datum::Text(text)) = self.estimated_value(pattern) else { return None };
        let is_like = matches!(&*positive.name, "~~" | "~~*");
        let shape = is_like.then(|| Pattern::like(&text, &*positive.name == "~~*"));
        let nulls = statistics.null_fraction;
        let finish = |part: f64| (if negated { 1.0 - part - nulls } else { part }).clamp(0.0, 1.0);
        if let Some(shape) = shape.as_ref().filter(|shape| shape.exact) {
            return Some(finish(column.equal_to(&Datum::text(&*shape.prefix))));
        }
        let arg_types = vec![positive.left, positive.right];
        let collation = expr_type(pattern).collation;
        let function = self.function(positive.code, arg_types, types::BOOL, collation, false).ok()?;
        let value = Datum::Text(text);
        let test = |candidate: &Datum| {
            let args = [Some(candidate.clone()), Some(value.clone())];
            matches!(self.apply(&function, args.into_iter()), Some(Datum::Bool(true)))
        };
        // The bounds of the histogram are a sample themselves; the outermost ones are exceptions.
        let bounds = &statistics.histogram[..];
        let sampled = (bounds.len() >= PATTERN_BOUNDS_MIN).then(|| {
            let inner = &bounds[1..bounds.len() - 1];
            inner.iter().filter(|bound| test(bound)).count() as f64 / inner.len() as f64
        });
        let weight = if sampled.is_some() { (bounds.len() as f64 / PATTERN_BOUNDS).min(1.0) } else { 0.0 };
        let guessed = || match &shape {
            Some(shape) if !shape.prefix.is_empty() => self.prefix_part(column, &shape.prefix) * shape.rest,
            Some(shape) => shape.rest,
            None => MATCH,
        };
        let part = if weight < 1.0 {
            sampled.unwrap_or(0.0) * weight + guessed() * (1.0 - weight)
        } else {
            sampled.unwrap_or(MATCH)
        };
        let part = part.clamp(0.0001, 0.9999);
        let (matching, common) = column.common_matching(&test);
        Some(finish(part * (1.0 - nulls - common).max(0.0) + matching))
    }

    /// The part of the values that are not common that begins so.
    fn prefix_part(&self, column: &Distribution<'_>, prefix: &str) -> f64 {
        let low = Datum::text(prefix);
        let Some(from) = column.histogram_part(BtreeStrategy::GreaterEqual, &low) else { return MATCH };
        let below = Pattern::successor(prefix)
            .and_then(|end| column.histogram_part(BtreeStrategy::Less, &Datum::text(end)));
        let part = below.map_or(from, |below| from + below - 1.0);
        part.max(column.equal_to(&low)).max(1e-10)
    }

    /// The part of the rows that all of the conditions keep. Two bounds on one column count as the range between them.
    pub fn selectivity_of_all<'e>(&self, conditions: impl IntoIterator<Item = &'e Expr>) -> f64 {
        let mut part = 1.0;
        let mut bounds: Vec<Bound> = Vec::new();
        for condition in conditions {
            match self.bound(condition) {
                Some(bound) => bounds.push(bound),
                None => part *= self.selectivity(condition),
            }
        }
        while let Some(bound) = bounds.pop() {
            let other =
                bounds.iter().position(|other| other.upper != bound.upper && same(&other.expr, &bound.expr));
            part *= match other.map(|at| bounds.swap_remove(at)) {
                Some(other) => match (bound.part, other.part) {
                    (Some(a), Some(b)) => between(a, b, bound.nulls),
                    _ => RANGE,
                },
                None => bound.part.unwrap_or(INEQUALITY),
            };
        }
        part
    }

    /// An inequality on a column with statistics.
    fn bound(&self, condition: &Expr) -> Option<Bound> {
        let Expr::Operator(call) = condition else { return None };
        let strategy = self.strategy(call.operator).filter(|strategy| *strategy != BtreeStrategy::Equal)?;
        let (expr, value, on_left) = self.column_and_value(call)?;
        let column = self.distribution(expr)?;
        column.statistics?;
        let strategy = if on_left { strategy } else { commuted(strategy) };
        let value = self.estimated_value(value);
        Some(Bound {
            expr: strip(expr).clone(),
            upper: matches!(strategy, BtreeStrategy::Less | BtreeStrategy::LessEqual),
            part: value.and_then(|value| column.compared_with(strategy, &value)),
            nulls: column.null_fraction(),
        })
    }

    /// The part of a key's entries that a bound of one of its columns selects; `None` where nothing is known of the column.
    pub(super) fn key_selectivity(&self, key: &Expr, bound: &ColumnMatch) -> Option<f64> {
        let column = self.distribution(key)?;
        let side = |strategy: BtreeStrategy, value: &Expr| {
            self.estimated_value(value).and_then(|value| column.compared_with(strategy, &value))
        };
        Some(match bound {
            ColumnMatch::Equal(value) => self.equality(&column, value),
            ColumnMatch::Any(array) => self.any_of(&column, array),
            ColumnMatch::IsNull => column.statistics?.null_fraction,
            ColumnMatch::Range { low, high } => {
                let nulls = column.statistics?.null_fraction;
                let low = low.as_ref().map(|(value, inclusive)| {
                    side(if *inclusive { BtreeStrategy::GreaterEqual } else { BtreeStrategy::Greater }, value)
                });
                let high = high.as_ref().map(|(value, inclusive)| {
                    side(if *inclusive { BtreeStrategy::LessEqual } else { BtreeStrategy::Less }, value)
                });
                match (low, high) {
                    (Some(Some(low)), Some(Some(high))) => between(low, high, nulls),
                    (Some(_), Some(_)) => RANGE,
                    (Some(one), None) | (None, Some(one)) => one.unwrap_or(INEQUALITY),
                    (None, None) => 1.0 - nulls,
                }
            }
        })
    }

    /// The part of the pairs that an equality between two tables keeps; `None` where neither side has statistics.
    pub(super) fn known_join_selectivity(&self, condition: &Expr) -> Option<f64> {
        let (left, right) = self.join_columns(condition)?;
        Some(join::equal(&left, &right))
    }

    /// The part of the left rows (`outer`) that have a partner among `inner_rows`; `None` as above.
    pub(super) fn known_semi_selectivity(
        &self,
        condition: &Expr,
        outer: RelSet,
        inner_rows: f64,
    ) -> Option<f64> {
        let (left, right) = self.join_columns(condition)?;
        let Expr::Operator(call) = condition else { return None };
        let outer_is_left = rels(call.args.first()?).within(outer);
        let (outer, inner) = if outer_is_left { (left, right) } else { (right, left) };
        Some(join::semi(&outer, &inner, inner_rows))
    }

    /// Both sides of an equality that joins. One that has no statistics is taken to have the usual number of values.
    fn join_columns(&self, condition: &Expr) -> Option<(Distribution<'_>, Distribution<'_>)> {
        let Expr::Operator(call) = condition else { return None };
        let [left, right] = call.args.as_slice() else { return None };
        if self.strategy(call.operator) != Some(BtreeStrategy::Equal) {
            return None;
        }
        let (left_known, right_known) = (self.distribution(left), self.distribution(right));
        if left_known.is_none() && right_known.is_none() {
            return None;
        }
        let guess = |expr: &Expr| Distribution {
            statistics: None,
            rows: self.distinct_values(expr),
            unique: true,
            boolean: false,
            blank_padded: false,
        };
        Some((left_known.unwrap_or_else(|| guess(left)), right_known.unwrap_or_else(|| guess(right))))
    }

    /// Average width of an expression's values, if it was measured.
    pub(crate) fn known_width(&self, expr: &Expr) -> Option<u32> {
        let Expr::Var(var) = strip(expr) else { return None };
        if var.levels_up > 0 || self.level().rels.get(var.varno).is_none() {
            return None;
        }
        let width = self.distribution(expr)?.statistics?.average_width;
        u32::try_from(width).ok().filter(|width| *width > 0)
    }
}

/// The end of the range of texts that begin so; `None` if there is none.
pub(super) fn prefix_end(prefix: &str) -> Option<String> {
    Pattern::successor(prefix)
}

/// The only member of a set.
fn single(set: RelSet) -> Option<usize> {
    let mut members = set.iter();
    let first = members.next()?;
    members.next().is_none().then_some(first)
}
