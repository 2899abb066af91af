//! Subqueries in expressions that did not become joins.

use std::sync::Arc;

use cairn_analyze::query::{Expr, SubLink, SubLinkComparison, SubLinkKind};
use cairn_types::{Error, RecordField, Result, types};

use super::Planner;
use super::conditions::is_correlated;
use crate::expr::compile::{build_call, plain_comparison};
use crate::expr::{Code, CompareTest};
use crate::subplan::{SubPlan, SubPlanKind};
use cairn_analyze::expr_type;

impl Planner<'_> {
    pub(crate) fn compile_sublink(&mut self, link: &SubLink) -> Result<Code> {
        let correlated = is_correlated(&link.query);
        // A condition may be compiled in two places (an index bound and the re-check after a lock): it is one subquery
        // still, whose answer both see.
        let is_source = matches!(link.kind, SubLinkKind::RowSource);
        if (!correlated || is_source)
            && let Some((_, number)) =
                self.level().sublinks.iter().find(|(known, _)| same_sublink(known, link))
        {
            // Targets are evaluated in the order in which they are compiled: the first one has run it.
            return Ok(if correlated { Code::SubPlanAgain(*number) } else { Code::SubPlan(*number) });
        }
        // The outer sides are compiled in the outer query's terms, before the subquery is entered.
        let outer = match &link.kind {
            SubLinkKind::Any(comparison) | SubLinkKind::All(comparison) => {
                self.compile_all(&comparison.left)?
            }
            SubLinkKind::Exists
            | SubLinkKind::Expr
            | SubLinkKind::Row
            | SubLinkKind::RowSource
            | SubLinkKind::Array => Vec::new(),
        };
        let outer_subplans = std::mem::take(&mut self.fresh_subplans);
        let first_cte = self.ctes.len();
        let planned = self.plan_query(&link.query);
        let inner_subplans = std::mem::replace(&mut self.fresh_subplans, outer_subplans);
        let mut planned = planned?;
        planned.tree.subplans.extend(inner_subplans);
        let ctes = (first_cte..self.ctes.len()).filter(|cte| self.ctes[*cte].correlated).collect();
        let columns: Vec<&cairn_analyze::query::TargetEntry> =
            link.query.targets.iter().filter(|target| !target.junk).collect();
        let kind = match &link.kind {
            SubLinkKind::Exists => SubPlanKind::Exists,
            SubLinkKind::Expr => SubPlanKind::Scalar,
            SubLinkKind::Row | SubLinkKind::RowSource => SubPlanKind::Row {
                shape: columns
                    .iter()
                    .map(|target| {
                        let ty = expr_type(&target.expr);
                        RecordField { name: Arc::clone(&target.name), type_oid: ty.oid, typmod: ty.typmod }
                    })
                    .collect(),
            },
            SubLinkKind::Array => {
                let array = self.catalog().array_element(self.catalog().base_type(link.ty.oid));
                SubPlanKind::Array { element_type: array }
            }
            SubLinkKind::Any(comparison) => {
                match self.hashed_any(comparison, &outer, &columns, correlated)? {
                    Some(kind) => kind,
                    None => {
                        let (registers, test) = self.sublink_test(comparison, outer, &columns)?;
                        SubPlanKind::Any { registers, test }
                    }
                }
            }
            SubLinkKind::All(comparison) => {
                let (registers, test) = self.sublink_test(comparison, outer, &columns)?;
                SubPlanKind::All { registers, test }
            }
        };
        let number = self.subplans.len();
        let plain = matches!(
            kind,
            SubPlanKind::Exists | SubPlanKind::Scalar | SubPlanKind::Row { .. } | SubPlanKind::Array { .. }
        );
        let label = if plain && !correlated {
            format!("InitPlan {} (returns ${})", number + 1, number)
        } else {
            format!("SubPlan {}", number + 1)
        };
        self.subplans.push(SubPlan {
            root: planned.tree,
            outputs: planned.outputs,
            kind,
            correlated,
            read_again: correlated && is_source,
            ctes,
            label,
        });
        self.fresh_subplans.push(number);
        if self.cx.explain || !correlated || is_source {
            self.level_mut().sublinks.push((link.clone(), number));
        }
        Ok(Code::SubPlan(number))
    }

    /// `= any` over an uncorrelated subquery, if the operators are plain equalities.
    fn hashed_any(
        &mut self,
        comparison: &SubLinkComparison,
        outer: &[Code],
        columns: &[&cairn_analyze::query::TargetEntry],
        correlated: bool,
    ) -> Result<Option<SubPlanKind>> {
        if correlated || comparison.row_strategy.is_some() || comparison.use_or {
            return Ok(None);
        }
        let has_cast = comparison
            .right_casts
            .iter()
            .any(|cast| !matches!(cast, Expr::TestValue { .. } | Expr::Relabel { .. }));
        if has_cast {
            return Ok(None);
        }
        let mut blank_padded = Vec::new();
        for ((_, function), (left, column)) in
            comparison.operators.iter().zip(comparison.left.iter().zip(columns))
        {
            let function = self.function(
                *function,
                vec![expr_type(left).oid, expr_type(&column.expr).oid],
                types::BOOL,
                comparison.collation,
                false,
            )?;
            match plain_comparison(&function) {
                Some((CompareTest::Equal, padded)) => blank_padded.push(padded),
                _ => return Ok(None),
            }
        }
        Ok(Some(SubPlanKind::HashedAny { left: outer.to_vec(), blank_padded }))
    }

    /// The comparison of the outer side with a row of the subquery in fresh registers.
    fn sublink_test(
        &mut self,
        comparison: &SubLinkComparison,
        outer: Vec<Code>,
        columns: &[&cairn_analyze::query::TargetEntry],
    ) -> Result<(Vec<usize>, Code)> {
        let registers: Vec<usize> = columns.iter().map(|_| self.register()).collect();
        let mut right = Vec::with_capacity(columns.len());
        let mut right_types = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let (code, ty) = match comparison.right_casts.get(index) {
                Some(cast) => {
                    self.test_values.push(registers[index]);
                    let code = self.compile(cast);
                    self.test_values.pop();
                    (code?, expr_type(cast))
                }
                None => (Code::Register(registers[index]), expr_type(&column.expr)),
            };
            right.push(code);
            right_types.push(ty);
        }
        if let Some(strategy) = comparison.row_strategy {
            let operators: Vec<u32> = comparison.operators.iter().map(|(operator, _)| *operator).collect();
            let operand_types: Vec<_> = comparison
                .left
                .iter()
                .zip(&right_types)
                .map(|(left, right)| (expr_type(left), *right))
                .collect();
            let equals = self.row_compare_functions(&operators, &operand_types)?;
            return Ok((
                registers,
                Code::RowCompare { strategy, equals, left: outer.into(), right: right.into() },
            ));
        }
        let mut tests = Vec::new();
        for (index, (left, right)) in outer.into_iter().zip(right).enumerate() {
            let Some((_, function)) = comparison.operators.get(index) else {
                return Err(Error::internal("a subquery comparison without operator"));
            };
            let arg_types = vec![expr_type(&comparison.left[index]).oid, right_types[index].oid];
            let function = self.function(*function, arg_types, types::BOOL, comparison.collation, false)?;
            tests.push(build_call(function, vec![left, right]));
        }
        let test = match tests.len() {
            1 => tests.remove(0),
            _ if comparison.use_or => Code::Or(tests.into()),
            _ => Code::And(tests.into()),
        };
        Ok((registers, test))
    }
}

/// Whether two subqueries are copies of one in the statement.
pub(crate) fn same_sublink(a: &SubLink, b: &SubLink) -> bool {
    let shape = |link: &SubLink| format!("{:?} {:?}", link.query.targets, link.query.filter);
    a.location == b.location
        && a.query.range_table.len() == b.query.range_table.len()
        && std::mem::discriminant(&a.kind) == std::mem::discriminant(&b.kind)
        && a.query.range_table.iter().zip(&b.query.range_table).all(|(a, b)| a.alias == b.alias)
        && shape(a) == shape(b)
}
