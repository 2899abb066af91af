//! The check that a grouped query uses only what its groups have: grouped expressions, aggregates, and columns that
//! depend on a grouped primary key.

use std::cell::RefCell;
use std::collections::BTreeSet;

use cairn_types::{Oid, Result, err};

use super::{Analyzer, expr_location};
use crate::{compare::same, query::*};

struct GroupCheck<'c> {
    range_table: &'c [RangeTableEntry],
    /// Grouped expressions with their references; those that are in every grouping set.
    grouped: Vec<(&'c Expr, u32)>,
    /// Columns grouped by, for functional dependency: only those that are in every grouping set.
    common: Vec<(usize, i16)>,
    have_non_var: bool,
    has_sets: bool,
    /// The primary keys that columns were found to depend on.
    keys: RefCell<BTreeSet<Oid>>,
}

impl Analyzer<'_> {
    pub(crate) fn check_aggregates(&mut self, query: &mut Query, has_sets: bool) -> Result<()> {
        let _ = has_sets;
        if query.has_aggregates && uses_self(&self.level_ref().range_table) {
            return Err(err!(
                INVALID_RECURSION,
                "aggregate functions are not allowed in a recursive query's recursive term"
            )
            .at(first_aggregate(query)));
        }
        let needs = query.has_aggregates
            || !query.group.is_empty()
            || query.having.is_some()
            || !query.grouping_sets.is_empty();
        if !needs {
            return Ok(());
        }
        let group_targets: Vec<(Expr, u32)> = query
            .targets
            .iter()
            .filter(|target| query.group.iter().any(|clause| clause.target == target.sort_group_ref))
            .map(|target| (target.expr.clone(), target.sort_group_ref))
            .collect();
        let in_all_sets = |reference: u32| query.grouping_sets.iter().all(|set| set.contains(&reference));
        let common = group_targets
            .iter()
            .filter(|(_, reference)| in_all_sets(*reference))
            .filter_map(|(expr, _)| match expr {
                Expr::Var(var) if var.levels_up == 0 => Some((var.varno, var.attno)),
                _ => None,
            })
            .collect();
        let check = GroupCheck {
            range_table: &self.level_ref().range_table,
            have_non_var: group_targets.iter().any(|(expr, _)| !matches!(expr, Expr::Var(_))),
            grouped: group_targets.iter().map(|(expr, reference)| (expr, *reference)).collect(),
            common,
            has_sets: !query.grouping_sets.is_empty(),
            keys: RefCell::default(),
        };
        for target in &mut query.targets {
            fill_grouping(&mut target.expr, &check)?;
        }
        if let Some(having) = &mut query.having {
            fill_grouping(having, &check)?;
        }
        for target in &query.targets {
            check.expression(&target.expr, 0, false)?;
        }
        if let Some(having) = &query.having {
            check.expression(having, 0, false)?;
        }
        for window in &query.windows {
            for bound in [&window.frame.start, &window.frame.end] {
                if let FrameBound::Preceding(offset) | FrameBound::Following(offset) = bound {
                    check.expression(offset, 0, false)?;
                }
            }
        }
        query.constraints = check.keys.into_inner().into_iter().collect();
        Ok(())
    }
}

fn first_aggregate(query: &Query) -> Location {
    let mut found = None;
    for expr in query.targets.iter().map(|target| &target.expr).chain(&query.having) {
        crate::walk::deep(expr, 0, &mut |expr, level| {
            if let Expr::Aggregate(call) = expr
                && call.levels_up == level
            {
                found.get_or_insert(call.location);
            }
        });
    }
    found.unwrap_or(-1)
}

fn uses_self(range_table: &[RangeTableEntry]) -> bool {
    range_table.iter().any(|entry| matches!(entry.kind, RangeTableKind::Cte { self_reference: true, .. }))
}

/// GROUPING's arguments must be grouped by: finds their references.
fn fill_grouping(expr: &mut Expr, check: &GroupCheck<'_>) -> Result<()> {
    if let Expr::Grouping { args, references, .. } = expr {
        for arg in args.iter() {
            match check.grouped.iter().find(|(grouped, _)| same(grouped, arg)) {
                Some((_, reference)) => references.push(*reference),
                None => {
                    return Err(err!(
                        GROUPING_ERROR,
                        "arguments to GROUPING must be grouping expressions of the associated query level"
                    )
                    .at(expr_location(arg)));
                }
            }
        }
        return Ok(());
    }
    let mut result = Ok(());
    crate::walk::children_mut(expr, &mut |child| {
        if result.is_ok() {
            result = fill_grouping(child, check);
        }
    });
    result
}

impl GroupCheck<'_> {
    /// `depth`: levels between the grouped query and the expression.
    fn expression(&self, expr: &Expr, depth: u32, in_direct_arg: bool) -> Result<()> {
        match expr {
            Expr::Const { .. } | Expr::Param { .. } => return Ok(()),
            Expr::Aggregate(call) => {
                if call.levels_up == depth {
                    // Its arguments are of the ungrouped rows, but not its direct ones.
                    for arg in &call.direct_args {
                        self.expression(arg, depth, true)?;
                    }
                    return Ok(());
                }
                if call.levels_up > depth {
                    return Ok(());
                }
            }
            Expr::Grouping { .. } if depth == 0 => return Ok(()),
            _ => {}
        }
        if (self.have_non_var || !matches!(expr, Expr::Var(_))) && self.is_grouped(expr, depth) {
            return Ok(());
        }
        if let Expr::Var(var) = expr {
            return self.var(var, depth, in_direct_arg);
        }
        let mut result = Ok(());
        crate::walk::children(expr, &mut |child| {
            if result.is_ok() {
                result = self.expression(child, depth, in_direct_arg);
            }
        });
        result?;
        if let Expr::SubLink(link) = expr {
            self.query(&link.query, depth + 1)?;
        }
        Ok(())
    }

    fn query(&self, query: &Query, depth: u32) -> Result<()> {
        let mut result = Ok(());
        crate::walk::query_expressions(query, &mut |expr| {
            if result.is_ok() {
                result = self.expression(expr, depth, false);
            }
        });
        crate::walk::query_subqueries(query, &mut |nested| {
            if result.is_ok() {
                result = self.query(nested, depth + 1);
            }
        });
        result
    }

    fn is_grouped(&self, expr: &Expr, depth: u32) -> bool {
        if depth == 0 {
            return self.grouped.iter().any(|(grouped, _)| same(grouped, expr));
        }
        // Inside of a subquery only columns are compared, as PostgreSQL does.
        match expr {
            Expr::Var(var) => var.levels_up == depth && self.var_is_grouped(var),
            _ => false,
        }
    }

    fn var_is_grouped(&self, var: &Var) -> bool {
        self.grouped.iter().any(|(grouped, _)| {
            matches!(grouped, Expr::Var(other)
                if other.levels_up == 0 && other.varno == var.varno && other.attno == var.attno)
        })
    }

    fn var(&self, var: &Var, depth: u32, in_direct_arg: bool) -> Result<()> {
        if var.levels_up != depth || self.var_is_grouped(var) {
            return Ok(());
        }
        let Some(entry) = self.range_table.get(var.varno) else { return Ok(()) };
        if let RangeTableKind::Relation { relation, .. } = &entry.kind
            && let Some(key) = primary_key_columns(relation)
            && !key.is_empty()
            && key.iter().all(|attno| self.common.contains(&(var.varno, *attno)))
        {
            let is_key = |constraint: &&cairn_catalog::Constraint| {
                constraint.kind == cairn_catalog::ConstraintKind::PrimaryKey
            };
            if let Some(constraint) = relation.constraints.iter().map(|c| &**c).find(is_key) {
                self.keys.borrow_mut().insert(constraint.oid);
            }
            return Ok(());
        }
        let name = match usize::try_from(var.attno).ok().and_then(|attno| attno.checked_sub(1)) {
            Some(index) => entry.columns.get(index).map_or("?", |column| &column.name).to_owned(),
            None if var.attno == 0 => "*".to_owned(),
            None => ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"]
                .get(usize::from(var.attno.unsigned_abs()) - 1)
                .map_or("?", |name| name)
                .to_owned(),
        };
        let _ = self.has_sets;
        let column = format!("{}.{name}", entry.alias);
        if depth > 0 {
            return Err(err!(GROUPING_ERROR, "subquery uses ungrouped column \"{column}\" from outer query")
                .at(var.location));
        }
        let error = err!(
            GROUPING_ERROR,
            "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
        );
        let error = if in_direct_arg {
            error.detail("Direct arguments of an ordered-set aggregate must use only grouped columns.")
        } else {
            error
        };
        Err(error.at(var.location))
    }
}

/// Attribute numbers of a table's (not deferrable) primary key.
fn primary_key_columns(relation: &cairn_catalog::Relation) -> Option<Vec<i16>> {
    let key = relation.indexes.iter().find(|index| index.primary && !index.deferrable)?;
    key.keys
        .iter()
        .map(|column| match column.key {
            cairn_catalog::IndexKeyColumn::Attribute(attno) => Some(attno),
            cairn_catalog::IndexKeyColumn::Expression(_) => None,
        })
        .collect()
}
