//! WITH queries that are computed once, and recursion.

use std::sync::Arc;

use cairn_analyze::query::{CommandType, Cte, Query, RangeTableKind, SetOperation, SetOperator};
use cairn_types::{Error, Result};

use super::conditions::is_correlated;
use super::level::CteBinding;
use super::{Planned, Planner};
use crate::nodes::cte::RecursiveUnion;
use crate::plan::CtePlan;

impl Planner<'_> {
    /// Plans the WITH queries of the entered query, in their order: later ones may read earlier ones.
    pub(crate) fn bind_ctes(&mut self, query: &Query) -> Result<()> {
        for cte in &query.ctes {
            let correlated = is_correlated(&cte.query);
            let fresh = std::mem::take(&mut self.fresh_subplans);
            let planned = if cte.recursive && refers_to_itself(&cte.query, 1) {
                self.plan_recursive(cte)
            } else {
                self.plan_query(&cte.query)
            };
            let own = std::mem::replace(&mut self.fresh_subplans, fresh);
            let mut planned = planned?;
            planned.tree.subplans.extend(own);
            let modifies = cte.query.command != CommandType::Select;
            let number = self.ctes.len();
            self.ctes.push(CtePlan {
                name: Arc::clone(&cte.name),
                root: planned.tree,
                outputs: planned.outputs,
                modifies,
                correlated,
            });
            self.level_mut().ctes.insert(Arc::clone(&cte.name), CteBinding::Shared(number));
            self.level_mut().own_ctes.push(number);
        }
        Ok(())
    }

    /// WITH queries of a planned query that look outside of it.
    pub(crate) fn correlated_ctes(&self, planned: &Planned) -> Vec<usize> {
        planned.tree.ctes.iter().copied().filter(|cte| self.ctes[*cte].correlated).collect()
    }

    fn plan_recursive(&mut self, cte: &Cte) -> Result<Planned> {
        let query = &cte.query;
        let Some(SetOperation::Node {
            operation: SetOperator::Union, all, left, right, column_types, ..
        }) = query.set_operation.as_deref()
        else {
            return Err(Error::unsupported("this form of WITH RECURSIVE is"));
        };
        let (SetOperation::Leaf(first), SetOperation::Leaf(second)) = (&**left, &**right) else {
            return Err(Error::unsupported("nested set operations in WITH RECURSIVE are"));
        };
        if !query.sort.is_empty() || query.limit.is_some() || query.offset.is_some() {
            return Err(Error::unsupported("ORDER BY, LIMIT and OFFSET in a recursive query are"));
        }
        let slot = self.working_tables;
        self.working_tables += 1;
        // The terms lie two levels below the query that has the WITH list; the level between is the union's.
        let shell = Query { set_operation: None, ..(**query).clone() };
        self.level_mut().ctes.insert(Arc::clone(&cte.name), CteBinding::Working { slot });
        let depth = self.levels.len();
        let entered = self.enter_as_is(Arc::new(shell))?;
        // A WITH list of the union itself: both terms may read it.
        self.bind_ctes(&entered)?;
        let term = |planner: &mut Self, range: usize| -> Result<Planned> {
            match &entered.range_table.get(range).map(|entry| &entry.kind) {
                Some(RangeTableKind::Subquery { query, .. }) => planner.plan_query(query),
                _ => Err(Error::internal("a term of a recursive query is no subquery")),
            }
        };
        let types = |range: usize| -> Vec<cairn_catalog::TypeRef> {
            match &entered.range_table[range].kind {
                RangeTableKind::Subquery { query, .. } => {
                    let targets = query.targets.iter().filter(|target| !target.junk);
                    targets.map(|target| cairn_analyze::expr_type(&target.expr)).collect()
                }
                _ => Vec::new(),
            }
        };
        let ranges = [*first, *second];
        let mut terms = Vec::new();
        for range in ranges {
            let mut planned = term(self, range)?;
            let outputs = std::mem::take(&mut planned.outputs);
            for ((code, from), to) in outputs.into_iter().zip(types(range)).zip(column_types) {
                planned.outputs.push(self.coerce_code(code, from, *to)?);
            }
            terms.push(planned);
        }
        let (Some(second), Some(first)) = (terms.pop(), terms.pop()) else {
            return Err(Error::internal("a recursive query has two terms"));
        };
        let own_ctes = self.levels.get(depth).map(|level| level.own_ctes.clone()).unwrap_or_default();
        self.levels.truncate(depth);
        let reset_ctes = self.correlated_ctes(&second);
        let registers: Vec<usize> = column_types.iter().map(|_| self.register()).collect();
        let blank_padded = column_types
            .iter()
            .map(|ty| self.catalog().base_type(ty.oid) == cairn_types::types::BPCHAR)
            .collect();
        let outputs = registers.iter().map(|register| crate::expr::Code::Register(*register)).collect();
        let rows = first.tree.rows + 10.0 * second.tree.rows;
        let total = first.tree.total_cost + 10.0 * second.tree.total_cost;
        let mut tree = self.node(
            RecursiveUnion {
                slot,
                distinct: !all,
                reset_ctes,
                blank_padded,
                outputs: [first.outputs, second.outputs],
                registers,
            },
            vec![first.tree, second.tree],
        );
        tree.rows = rows;
        tree.total_cost = total;
        tree.ctes.extend(own_ctes);
        Ok(Planned { tree, outputs })
    }
}

/// Whether the query reads its own WITH name.
fn refers_to_itself(query: &Query, level: u32) -> bool {
    let own = query.range_table.iter().any(|entry| {
        matches!(&entry.kind, RangeTableKind::Cte { self_reference: true, levels_up, .. } if *levels_up == level)
    });
    let mut found = own;
    super::conditions::for_each_subquery(query, &mut |nested| found |= refers_to_itself(nested, level + 1));
    found
}
