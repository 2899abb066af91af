//! Values of parameters that change what the planner expects: a common value and a rare one, a wide range and a narrow one.
//!
//! A plan made for `state = $1` is right for every value, but the best one for a value that half of the rows have reads
//! the table, and the best one for a value in ten rows an index. So whoever keeps plans keeps one for each *class*
//! of values, planned with the first values of the class as estimates ([`super::PlanContext::values`]): values whose conditions keep about the
//! same part of the rows, by the power of two. Finding the class looks at nothing but the column's statistics.
//!
//! Looked for are only comparisons that may make a difference: with columns that have statistics of a table that is not
//! small, and whose values are not equally frequent (`=`) or have a histogram (`<`), in a query that can choose: because it joins, or
//! because an index has the column. A lookup by a unique key has no classes.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, RangeTableKind};
use cairn_analyze::walk;
use cairn_catalog::{BtreeStrategy, Catalog, ColumnStatistics, IndexKeyColumn, Relation};
use cairn_types::{Datum, types};

use super::estimate::strip;
use super::indexes::commuted;
use super::selectivity::distribution::{Distribution, between};

/// Smaller tables cost the same whatever the plan.
const ROWS_MIN: f64 = 1000.0;
/// A most common value that is less than so many times as frequent as the average makes no difference.
const SKEW_MIN: f64 = 4.0;

/// The conditions of a query whose values decide.
#[derive(Debug, Default)]
pub struct ValueClasses {
    tests: Vec<Test>,
}

/// What is compared with one column, by numbers of parameters.
#[derive(Debug)]
struct Test {
    relation: Arc<Relation>,
    /// The entry of its query's range table, and of which query.
    place: (usize, usize),
    attno: i16,
    blank_padded: bool,
    compared: Compared,
}

#[derive(Debug)]
enum Compared {
    Equal(u32),
    Any(u32),
    Range { low: Option<(BtreeStrategy, u32)>, high: Option<(BtreeStrategy, u32)> },
}

impl ValueClasses {
    pub fn of(query: &Query, catalog: &Catalog) -> ValueClasses {
        let mut search = Search { catalog, joins: tables(query) > 1, queries: 0, tests: Vec::new() };
        search.query(query);
        ValueClasses { tests: search.tests }
    }

    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The class of these values: one number for each condition.
    pub fn class(&self, params: &[Datum]) -> Vec<i8> {
        self.tests.iter().map(|test| test.class(params)).collect()
    }
}

impl Test {
    fn class(&self, params: &[Datum]) -> i8 {
        let column = Distribution {
            statistics: self.relation.statistics.get(self.relation.oid, self.attno),
            rows: self.relation.estimated_rows.max(1.0),
            unique: false,
            boolean: false,
            blank_padded: self.blank_padded,
        };
        let value = |number: &u32| params.get((*number as usize).wrapping_sub(1)).unwrap_or(&Datum::Null);
        let part = match &self.compared {
            Compared::Equal(number) => column.equal_to(value(number)),
            Compared::Any(number) => match value(number) {
                Datum::Array(array) => array.elements.iter().map(|value| column.equal_to(value)).sum(),
                _ => 0.0,
            },
            Compared::Range { low, high } => {
                let side = |side: &Option<(BtreeStrategy, u32)>| {
                    let (strategy, number) = side.as_ref()?;
                    column.compared_with(*strategy, value(number))
                };
                match (side(low), side(high)) {
                    (Some(low), Some(high)) => between(low, high, column.null_fraction()),
                    (Some(one), None) | (None, Some(one)) => one,
                    (None, None) => return i8::MIN,
                }
            }
        };
        // From 0 for all rows down to -40 for none of them.
        part.max(1e-12).log2().round() as i8
    }
}

/// Tables that the query reads, those of its subqueries included.
fn tables(query: &Query) -> usize {
    let is_table = |kind: &RangeTableKind| matches!(kind, RangeTableKind::Relation { .. });
    let mut count = query.range_table.iter().filter(|entry| entry.in_from && is_table(&entry.kind)).count();
    super::conditions::for_each_subquery(query, &mut |subquery| count += tables(subquery));
    count
}

struct Search<'a> {
    catalog: &'a Catalog,
    joins: bool,
    queries: usize,
    tests: Vec<Test>,
}

impl Search<'_> {
    fn query(&mut self, query: &Query) {
        self.queries += 1;
        let number = self.queries;
        let mut conditions: Vec<Expr> = Vec::new();
        walk::query_expressions(query, &mut |expr| {
            walk::any(expr, &mut |expr| {
                if matches!(expr, Expr::Operator(_) | Expr::ArrayOperator(_)) {
                    conditions.push(expr.clone());
                }
                false
            });
        });
        for condition in &conditions {
            self.condition(query, number, condition);
        }
        super::conditions::for_each_subquery(query, &mut |subquery| self.query(subquery));
    }

    fn condition(&mut self, query: &Query, number: usize, condition: &Expr) {
        let strategy =
            |operator: u32| self.catalog.operator_memberships(operator).first().map(|member| member.strategy);
        let (column, strategy, parameter, any) = match condition {
            Expr::Operator(call) => {
                let [left, right] = call.args.as_slice() else { return };
                let Some(strategy) = strategy(call.operator) else { return };
                match (strip(left), strip(right)) {
                    (column, Expr::Param { number, .. }) => (column, strategy, *number, false),
                    (Expr::Param { number, .. }, column) => (column, commuted(strategy), *number, false),
                    _ => return,
                }
            }
            Expr::ArrayOperator(call) if call.any => match (strategy(call.operator), strip(&call.array)) {
                (Some(BtreeStrategy::Equal), Expr::Param { number, .. }) => {
                    (strip(&call.left), BtreeStrategy::Equal, *number, true)
                }
                _ => return,
            },
            _ => return,
        };
        let Some((relation, varno, attno)) = base_column(query, column) else { return };
        if !self.matters(&relation, attno, strategy) {
            return;
        }
        let place = (number, varno);
        let compared = match strategy {
            BtreeStrategy::Equal if any => Compared::Any(parameter),
            BtreeStrategy::Equal => Compared::Equal(parameter),
            BtreeStrategy::Greater | BtreeStrategy::GreaterEqual => {
                Compared::Range { low: Some((strategy, parameter)), high: None }
            }
            BtreeStrategy::Less | BtreeStrategy::LessEqual => {
                Compared::Range { low: None, high: Some((strategy, parameter)) }
            }
        };
        // Two bounds on a column are one range.
        if let Compared::Range { low: new_low, high: new_high } = &compared {
            for test in self.tests.iter_mut().filter(|test| test.place == place && test.attno == attno) {
                if let Compared::Range { low, high } = &mut test.compared {
                    let free = if new_low.is_some() { low.is_none() } else { high.is_none() };
                    if free {
                        *low = low.or(*new_low);
                        *high = high.or(*new_high);
                        return;
                    }
                }
            }
        }
        let ty = relation.columns.get(attno as usize - 1).map_or(0, |column| column.ty.oid);
        let blank_padded = self.catalog.base_type(ty) == types::BPCHAR;
        self.tests.push(Test { relation, place, attno, blank_padded, compared });
    }

    fn matters(&self, relation: &Relation, attno: i16, strategy: BtreeStrategy) -> bool {
        let Some(statistics) = relation.statistics.get(relation.oid, attno) else { return false };
        if relation.estimated_rows < ROWS_MIN {
            return false;
        }
        let has = |position: &dyn Fn(usize) -> bool, index: &cairn_catalog::Index| {
            let mut keys = index.keys.iter().enumerate();
            keys.any(|(at, key)| position(at) && key.key == IndexKeyColumn::Attribute(attno))
        };
        let is_unique = relation
            .indexes
            .iter()
            .any(|index| index.unique && index.keys.len() == 1 && has(&|_| true, index));
        match strategy {
            BtreeStrategy::Equal => {
                let indexed = relation.indexes.iter().any(|index| has(&|_| true, index));
                !is_unique && (self.joins || indexed) && is_skewed(statistics, relation.estimated_rows)
            }
            _ => {
                // The rows' own order serves any range of it as well as it can be served.
                let chosen = relation
                    .indexes
                    .iter()
                    .any(|index| !relation.is_ordered_by(index) && has(&|_| true, index));
                let has_values = statistics.histogram.len() >= 2 || !statistics.common_values.is_empty();
                (self.joins || chosen) && has_values
            }
        }
    }
}

fn is_skewed(statistics: &ColumnStatistics, rows: f64) -> bool {
    let distribution = Distribution {
        statistics: Some(statistics),
        rows: rows.max(1.0),
        unique: false,
        boolean: false,
        blank_padded: false,
    };
    let average = 1.0 / distribution.distinct().0;
    // A value that is missing among few of them is as far from the average as a frequent one.
    let rarest = statistics.common_frequencies.last().copied().unwrap_or(average);
    statistics
        .common_frequencies
        .first()
        .is_some_and(|most| *most > SKEW_MIN * average || rarest < average / SKEW_MIN)
}

/// The table's column that an expression of the query is, through subqueries that pass it on.
fn base_column(query: &Query, expr: &Expr) -> Option<(Arc<Relation>, usize, i16)> {
    let Expr::Var(var) = expr else { return None };
    if var.levels_up > 0 || var.attno <= 0 || crate::stack::check().is_err() {
        return None;
    }
    match &query.range_table.get(var.varno)?.kind {
        RangeTableKind::Relation { relation, .. } => Some((Arc::clone(relation), var.varno, var.attno)),
        RangeTableKind::Join { columns, .. } => {
            base_column(query, strip(columns.get(var.attno as usize - 1)?))
        }
        RangeTableKind::Subquery { query: subquery, .. } => {
            let mut targets = subquery.targets.iter().filter(|target| !target.junk);
            let target = targets.nth(var.attno as usize - 1)?;
            let (relation, _, attno) = base_column(subquery, strip(&target.expr))?;
            Some((relation, var.varno, attno))
        }
        _ => None,
    }
}
