//! Guesses: what reading costs, and how many rows a condition keeps where nothing was gathered
//! ([`super::selectivity`] otherwise). The unit is PostgreSQL's: about one page read in sequence.

use cairn_analyze::query::Expr;
use cairn_catalog::{BtreeStrategy, Relation};
use cairn_types::Datum;

use super::Planner;
use super::conditions::rels;
use super::selectivity::distribution::{DISTINCT_VALUES, INEQUALITY};

/// A row of a scan in key order.
pub const ROW: f64 = 0.015;
/// A seek: the start of a scan, a get by key.
pub const SEEK: f64 = 0.3;
/// An index entry.
pub const ENTRY: f64 = 0.008;
/// An operator evaluated.
pub const OPERATOR: f64 = 0.0025;
/// A row put into a hash table or read from one.
pub const HASHED: f64 = 0.012;

/// What PostgreSQL assumes without statistics.
const EQUAL: f64 = 1.0 / DISTINCT_VALUES;

/// Rows of a table; one that was never counted is taken for a small one.
pub fn table_rows(relation: &Relation) -> f64 {
    if !relation.statistics.is_empty() && relation.estimated_rows > 0.0 {
        return relation.estimated_rows;
    }
    if relation.estimated_rows > 0.0 { relation.estimated_rows.max(10.0) } else { 1000.0 }
}

pub fn clamp_rows(rows: f64) -> f64 {
    if rows.is_finite() { rows.round().max(1.0) } else { 1e100 }
}

pub fn sort_cost(rows: f64) -> f64 {
    2.0 * OPERATOR * rows * rows.max(2.0).log2()
}

/// Elements of `= any (array)`.
pub fn array_length(array: &Expr) -> f64 {
    match array {
        Expr::Const { value: Datum::Array(array), .. } => array.elements.len() as f64,
        Expr::Array { elements, .. } => elements.len() as f64,
        Expr::Relabel { arg, .. } | Expr::ArrayCoerce { arg, .. } => array_length(arg),
        _ => 10.0,
    }
}

impl Planner<'_> {
    /// The btree strategy of an operator, in any family.
    pub fn strategy(&self, operator: u32) -> Option<BtreeStrategy> {
        self.catalog().operator_memberships(operator).first().map(|member| member.strategy)
    }

    /// The part of the rows that a condition keeps: from statistics where there are any, else PostgreSQL's guesses.
    pub fn selectivity(&self, condition: &Expr) -> f64 {
        if let Some(known) = self.known_selectivity(condition) {
            return known.clamp(0.0, 1.0);
        }
        let guess = match condition {
            Expr::Const { value: Datum::Bool(true), .. } => 1.0,
            Expr::Const { .. } => 0.0,
            Expr::And(args) => self.selectivity_of_all(args),
            Expr::Or(args) => 1.0 - args.iter().map(|arg| 1.0 - self.selectivity(arg)).product::<f64>(),
            Expr::Not(arg) => 1.0 - self.selectivity(arg),
            Expr::Operator(call) => match self.strategy(call.operator) {
                Some(BtreeStrategy::Equal) => EQUAL,
                Some(_) => INEQUALITY,
                None => {
                    let name = self.catalog().operator(call.operator).map(|operator| operator.name.clone());
                    match name.as_deref() {
                        Some("<>") => 1.0 - EQUAL,
                        Some("~~" | "~~*" | "~" | "~*" | "@>" | "<@" | "?" | "&&") => 0.005,
                        Some("!~~" | "!~~*" | "!~" | "!~*") => 0.995,
                        _ => 0.5,
                    }
                }
            },
            Expr::ArrayOperator(call) if call.any => match self.strategy(call.operator) {
                Some(BtreeStrategy::Equal) => (EQUAL * array_length(&call.array)).min(1.0),
                _ => 0.5,
            },
            Expr::NullTest { is_null: true, .. } => 0.005,
            Expr::NullTest { is_null: false, .. } => 0.995,
            Expr::SubLink(_) => 0.5,
            _ => 0.5,
        };
        guess.clamp(0.0, 1.0)
    }

    /// The part of the pairs that a join condition keeps.
    pub fn join_selectivity(&self, condition: &Expr) -> f64 {
        let Expr::Operator(call) = condition else { return self.selectivity(condition) };
        if self.strategy(call.operator) != Some(BtreeStrategy::Equal) {
            return self.selectivity(condition);
        }
        if let Some(known) = self.known_join_selectivity(condition) {
            return known;
        }
        let distinct = call.args.iter().map(|side| self.distinct_values(side)).fold(1.0, f64::max);
        1.0 / distinct
    }

    /// How many different values a join column has.
    pub(super) fn distinct_values(&self, expr: &Expr) -> f64 {
        let range = match rels(expr).iter().next() {
            Some(range) => range,
            None => return 1.0,
        };
        let Some(relation) = self.level().rels.get(range).and_then(|rel| rel.relation.as_ref()) else {
            return DISTINCT_VALUES;
        };
        let rows = table_rows(relation);
        let Expr::Var(var) = strip(expr) else { return DISTINCT_VALUES.min(rows) };
        let unique = relation.indexes.iter().any(|index| {
            index.unique
                && index.keys.len() == 1
                && index.keys[0].key == cairn_catalog::IndexKeyColumn::Attribute(var.attno)
        });
        if unique { rows } else { DISTINCT_VALUES.min(rows) }
    }
}

/// Without casts that do not change the value.
pub fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Relabel { arg, .. } => strip(arg),
        other => other,
    }
}
