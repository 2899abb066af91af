//! Which parameters a plan should know the values of.
//!
//! A plan serves all values of its parameters, so it can only use what holds for all of them. Three things hold for
//! constants alone: that a condition implies a partial index's predicate (`state = 'queued'`), that an expression is the one
//! of an index (`document ->> 'name'`), and that a LIKE pattern has a prefix. Whoever turns constants into parameters
//! asks here which ones had better stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, RangeTableEntry, RangeTableKind};
use cairn_analyze::walk;
use cairn_catalog::{IndexKeyColumn, Relation};
use cairn_types::Result;

use super::PlanContext;

/// Numbers of the parameters whose values may decide the plan, in order. It may name some that would not; it leaves
/// out only what lies behind derived columns of subqueries.
pub fn value_dependent_parameters(query: &Query, cx: &PlanContext<'_>) -> Result<Vec<u32>> {
    let mut search = Search::default();
    search.query(query, cx)?;
    let mut found = BTreeSet::new();
    walk::deep_query(query, 0, &mut |expr, _| search.expression(expr, cx, &mut found));
    arbiter_parameters(query, &mut found);
    Ok(found.into_iter().collect())
}

/// Which partial indexes arbitrate an ON CONFLICT depends on its condition.
fn arbiter_parameters(query: &Query, found: &mut BTreeSet<u32>) {
    if let Some(partial) = query.on_conflict.as_ref().and_then(|conflict| conflict.partial.as_ref()) {
        parameters(&partial.condition, found);
    }
    for cte in &query.ctes {
        arbiter_parameters(&cte.query, found);
    }
}

#[derive(Default)]
struct Search {
    /// Columns, of whatever table, that partial indexes compare with constants.
    predicates: BTreeSet<i16>,
    /// Columns in indexed expressions that have constants.
    expressions: BTreeSet<i16>,
    /// Columns of keys, for LIKE.
    keys: BTreeSet<i16>,
    /// A view lies over such a table: its columns have other numbers.
    everything: bool,
}

impl Search {
    fn query(&mut self, query: &Query, cx: &PlanContext<'_>) -> Result<()> {
        for entry in &query.range_table {
            match entry {
                RangeTableEntry {
                    kind: RangeTableKind::Relation { relation, .. }, in_from: true, ..
                } => {
                    self.relation(relation, cx)?;
                }
                RangeTableEntry { kind: RangeTableKind::Subquery { query, view }, .. } => {
                    let before = self.predicates.len() + self.expressions.len();
                    self.query(query, cx)?;
                    if view.is_some() && self.predicates.len() + self.expressions.len() > before {
                        self.everything = true;
                    }
                }
                _ => {}
            }
        }
        let mut result = Ok(());
        walk::query_expressions(query, &mut |expr| {
            walk::any(expr, &mut |expr| {
                if let (Expr::SubLink(link), true) = (expr, result.is_ok()) {
                    result = self.query(&link.query, cx);
                }
                false
            });
        });
        result?;
        query.ctes.iter().try_for_each(|cte| self.query(&cte.query, cx))
    }

    fn relation(&mut self, relation: &Arc<Relation>, cx: &PlanContext<'_>) -> Result<()> {
        for index in &relation.indexes {
            if let Some(text) = &index.predicate {
                constant_columns(&cx.expressions.over_table(relation, text)?, &mut self.predicates);
            }
            for key in &index.keys {
                match &key.key {
                    IndexKeyColumn::Attribute(attno) => {
                        self.keys.insert(*attno);
                    }
                    IndexKeyColumn::Expression(text) => {
                        let expr = cx.expressions.over_table(relation, text)?;
                        columns(&expr, &mut self.keys);
                        constant_columns(&expr, &mut self.expressions);
                    }
                }
            }
        }
        Ok(())
    }

    fn expression(&self, expr: &Expr, cx: &PlanContext<'_>, found: &mut BTreeSet<u32>) {
        if self.everything {
            parameters(expr, found);
            return;
        }
        let mentions = |expr: &Expr, columns: &BTreeSet<i16>| {
            !columns.is_empty()
                && walk::any(expr, &mut |expr| matches!(expr, Expr::Var(var) if columns.contains(&var.attno)))
        };
        match expr {
            Expr::Operator(call) => {
                let is_like =
                    || cx.catalog.proc(call.function).is_some_and(|proc| &*proc.source == "textlike");
                if mentions(expr, &self.predicates) || mentions(expr, &self.keys) && is_like() {
                    parameters(expr, found);
                }
            }
            Expr::ArrayOperator(_) | Expr::DistinctFrom(_) if mentions(expr, &self.predicates) => {
                parameters(expr, found);
            }
            _ => {}
        }
        walk::children(expr, &mut |operand| {
            if mentions(operand, &self.expressions) {
                parameters(operand, found);
            }
        });
    }
}

/// Columns of an expression that has constants.
fn constant_columns(expr: &Expr, found: &mut BTreeSet<i16>) {
    if walk::any(expr, &mut |expr| matches!(expr, Expr::Const { .. })) {
        columns(expr, found);
    }
}

fn columns(expr: &Expr, found: &mut BTreeSet<i16>) {
    walk::any(expr, &mut |expr| {
        if let Expr::Var(var) = expr {
            found.insert(var.attno);
        }
        false
    });
}

fn parameters(expr: &Expr, found: &mut BTreeSet<u32>) {
    walk::any(expr, &mut |expr| {
        if let Expr::Param { number, .. } = expr {
            found.insert(*number);
        }
        false
    });
}
