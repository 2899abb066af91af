//! Select lists: output columns, their names and origins.

use cairn_types::{Error, Result, Text};
use pg_query::protobuf::{Node, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, expr_location,
    from::figure_column_name,
    names::{inner, inner_box},
    scope::attribute_number,
};
use crate::query::*;

impl Analyzer<'_> {
    /// The select list or RETURNING list, stars expanded.
    pub(crate) fn target_list(&mut self, nodes: &[Node], kind: ExprKind) -> Result<Vec<TargetEntry>> {
        let mut targets: Vec<TargetEntry> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let NodeEnum::ResTarget(target) = inner(node)? else {
                return Err(Error::internal("unrecognized select list item"));
            };
            let value = inner_box(&target.val)?;
            match value {
                NodeEnum::ColumnRef(column) if super::expression::ends_in_star(&column.fields) => {
                    for (expr, name) in self.expand_star_reference(column)? {
                        let target = self.target(expr, name, targets.len())?;
                        targets.push(target);
                    }
                    continue;
                }
                NodeEnum::AIndirection(indirection)
                    if matches!(
                        indirection.indirection.last().and_then(|node| node.node.as_ref()),
                        Some(NodeEnum::AStar(_))
                    ) =>
                {
                    // (composite).*: everything but the star, then its fields.
                    let mut without = (**indirection).clone();
                    without.indirection.pop();
                    let record = if without.indirection.is_empty() {
                        self.expression(inner_box(&without.arg)?, kind)?
                    } else {
                        self.expression(&NodeEnum::AIndirection(Box::new(without)), kind)?
                    };
                    let location = expr_location(&record);
                    for (expr, name) in self.expand_record(record, location)? {
                        let target = self.target(expr, name, targets.len())?;
                        targets.push(target);
                    }
                    continue;
                }
                _ => {}
            }
            let expr = self.expression(value, kind)?;
            let name: Text = if target.name.is_empty() {
                figure_column_name(value).map_or_else(|| "?column?".into(), Into::into)
            } else {
                target.name.as_str().into()
            };
            let target = self.target(expr, name, targets.len())?;
            targets.push(target);
        }
        if targets.len() > 1664 {
            return Err(cairn_types::err!(
                TOO_MANY_COLUMNS,
                "target lists can have at most {} entries",
                1664
            ));
        }
        Ok(targets)
    }

    /// All columns in scope, as `*` gives them.
    pub(crate) fn star_targets(&mut self, location: Location) -> Result<Vec<TargetEntry>> {
        let columns = self.expand_star(location)?;
        let mut targets = Vec::with_capacity(columns.len());
        for (expr, name) in columns {
            let target = self.target(expr, name, targets.len())?;
            targets.push(target);
        }
        Ok(targets)
    }

    pub(crate) fn target(&self, expr: Expr, name: Text, index: usize) -> Result<TargetEntry> {
        let (origin_table, origin_column) = self.origin(&expr);
        Ok(TargetEntry {
            expr,
            resno: attribute_number(index)?,
            name,
            sort_group_ref: 0,
            junk: false,
            origin_table,
            origin_column,
        })
    }

    /// The table and column that a plain column reference comes from, through subqueries, joins and WITH queries.
    fn origin(&self, expr: &Expr) -> (u32, i16) {
        let Expr::Var(var) = expr else { return (0, 0) };
        if var.attno <= 0 {
            return (0, 0);
        }
        let Ok(level) = usize::try_from(var.levels_up) else { return (0, 0) };
        let Some(level) = self.levels().len().checked_sub(level + 1) else { return (0, 0) };
        let Some(entry) = self.levels()[level].range_table.get(var.varno) else { return (0, 0) };
        let index = usize::try_from(var.attno).unwrap_or(1) - 1;
        match &entry.kind {
            RangeTableKind::Relation { relation, .. } => (relation.oid, var.attno),
            // A view's columns are its own.
            RangeTableKind::Subquery { view: Some(view), .. } => (*view, var.attno),
            RangeTableKind::Subquery { query, view: None } => {
                let targets = query.output();
                targets
                    .iter()
                    .filter(|target| !target.junk)
                    .nth(index)
                    .map_or((0, 0), |target| (target.origin_table, target.origin_column))
            }
            RangeTableKind::Join { columns, .. } => match columns.get(index) {
                Some(inner @ Expr::Var(_)) if var.levels_up == 0 => self.origin(inner),
                _ => (0, 0),
            },
            RangeTableKind::Cte { name, levels_up, .. } => {
                let above = usize::try_from(*levels_up).unwrap_or(0);
                let Some(level) = level.checked_sub(above) else { return (0, 0) };
                let cte = self.levels()[level].ctes.iter().find(|cte| cte.cte.name == *name);
                cte.and_then(|cte| cte.cte.query.output().iter().filter(|target| !target.junk).nth(index))
                    .map_or((0, 0), |target| (target.origin_table, target.origin_column))
            }
            RangeTableKind::Function { .. } | RangeTableKind::Values { .. } | RangeTableKind::Result => {
                (0, 0)
            }
        }
    }
}
