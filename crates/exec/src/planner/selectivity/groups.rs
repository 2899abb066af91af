//! How many groups rows fall into: GROUP BY, DISTINCT.

use cairn_analyze::expr_type;
use cairn_analyze::query::{Expr, Var};
use cairn_analyze::walk;
use cairn_types::types;

use super::super::Planner;
use super::super::conditions::{RelSet, rels};
use super::super::estimate::{clamp_rows, strip};
use super::super::prepare::{FromItem, FromTree};
use super::{Distribution, single};
use crate::expr::equal::same;

/// What one table adds to the keys.
struct Part {
    range: usize,
    rows: f64,
    /// Product of the numbers of values of its columns, the largest of them, how many there are.
    product: f64,
    largest: f64,
    columns: usize,
}

impl Planner<'_> {
    /// Groups of `input_rows` rows by these keys; `None` where no key's table was analyzed.
    pub(crate) fn known_groups(&self, keys: &[Expr], input_rows: f64) -> Option<f64> {
        let mut columns: Vec<Expr> = Vec::new();
        let mut factor = 1.0;
        let mut is_known = false;
        for key in keys {
            if self.is_volatile(key) {
                return Some(clamp_rows(input_rows));
            }
            // A condition has two answers.
            if expr_type(key).oid == types::BOOL && !matches!(strip(key), Expr::Var(_)) {
                factor *= 2.0;
                continue;
            }
            if self.distribution(key).is_some() {
                add(&mut columns, strip(key));
                is_known = true;
                continue;
            }
            for var in columns_of(key) {
                let var = Expr::Var(var);
                is_known |= self.distribution(&var).is_some();
                add(&mut columns, &var);
            }
        }
        if !is_known {
            return None;
        }
        let mut parts: Vec<Part> = Vec::new();
        for column in &columns {
            let Some(range) = single(rels(column)) else { continue };
            let known = self.distribution(column);
            let distinct = known
                .as_ref()
                .map_or_else(|| self.distinct_values(column), |known| Distribution::distinct(known).0);
            let rows = known.map_or(distinct, |known| known.rows);
            match parts.iter_mut().find(|part| part.range == range) {
                Some(part) => {
                    part.product *= distinct;
                    part.largest = part.largest.max(distinct);
                    part.columns += 1;
                }
                None => parts.push(Part { range, rows, product: distinct, largest: distinct, columns: 1 }),
            }
        }
        let mut groups = factor;
        for part in parts {
            groups *= self.groups_of(&part).max(1.0);
        }
        Some(clamp_rows(groups.ceil().min(input_rows)))
    }

    fn groups_of(&self, part: &Part) -> f64 {
        // Columns depend on each other, in nature: several of them rarely make as many groups as there are rows.
        let most = if part.columns > 1 { part.rows * 0.1 } else { part.rows };
        let distinct = part.product.min(most.max(part.largest).min(part.rows)).max(1.0);
        // Of groups of n / d rows those are seen that have a row among the ones that the conditions keep.
        let from = &self.level().from;
        let kept = self.kept(from, part.range, part.rows);
        if kept >= part.rows {
            return distinct;
        }
        (distinct * (1.0 - ((part.rows - kept) / part.rows).powf(part.rows / distinct))).round()
    }

    /// Rows of one entry that the conditions on it alone keep.
    fn kept(&self, tree: &FromTree, range: usize, rows: f64) -> f64 {
        let set = RelSet::of(range);
        let mut own: Vec<&Expr> = Vec::new();
        collect(tree, set, &mut own);
        (rows * self.selectivity_of_all(own)).max(1.0)
    }
}

fn collect<'t>(tree: &'t FromTree, set: RelSet, own: &mut Vec<&'t Expr>) {
    let is_own = |condition: &&Expr| {
        let looks_at = rels(condition);
        looks_at.within(set) && !looks_at.is_empty()
    };
    own.extend(tree.conditions.iter().filter(is_own));
    for item in &tree.items {
        match item {
            FromItem::Range(_) => {}
            FromItem::Outer { left, right, .. } => {
                for side in [left, right].into_iter().filter(|side| set.within(side.rels())) {
                    collect(side, set, own);
                }
            }
            FromItem::Semi { right, .. } if set.within(right.rels()) => collect(right, set, own),
            FromItem::Semi { .. } => {}
        }
    }
}

fn add(columns: &mut Vec<Expr>, column: &Expr) {
    if !columns.iter().any(|other| same(other, column)) {
        columns.push(column.clone());
    }
}

fn columns_of(expr: &Expr) -> Vec<Var> {
    let mut columns = Vec::new();
    walk::deep(expr, 0, &mut |expr, level| {
        if let Expr::Var(var) = expr
            && var.levels_up == level
            && level == 0
        {
            columns.push(var.clone());
        }
    });
    columns
}
