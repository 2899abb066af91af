//! UPDATE and DELETE. The target table is the first item of `from`, because its rows are what the others are
//! joined with.

use std::sync::Arc;

use cairn_catalog::{Identity, Relation};
use cairn_types::{Error, Result, err};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind,
    insert::column_of,
    names::{inner, inner_box},
    scope::NamespaceItem,
    select::new_query,
};
use crate::query::*;

impl Analyzer<'_> {
    pub(crate) fn update_statement(&mut self, update: &protobuf::UpdateStmt) -> Result<Query> {
        let mut query = new_query(CommandType::Update);
        if let Some(with) = &update.with_clause {
            self.with_clause(with)?;
        }
        let range = update.relation.as_ref().ok_or_else(|| Error::internal("UPDATE without a table"))?;
        let relation = self.open_target(range, "updating")?;
        let target = self.target_in_scope(&relation, range)?;
        query.result_relation = Some(target);
        query.from.push(JoinTree::Range(target));
        query.from.extend(self.other_tables(target, &update.from_clause)?);
        if let Some(filter) = &update.where_clause {
            query.filter = Some(self.condition(filter, ExprKind::Where, "WHERE")?);
        }
        if let Some(returning) = &update.returning_clause {
            query.returning = self.returning_list(returning)?;
        }
        query.targets = self.update_targets(&update.target_list, &relation, target)?;
        self.finish_query(&mut query);
        self.take_range_table(&mut query);
        Ok(query)
    }

    pub(crate) fn delete_statement(&mut self, delete: &protobuf::DeleteStmt) -> Result<Query> {
        let mut query = new_query(CommandType::Delete);
        if let Some(with) = &delete.with_clause {
            self.with_clause(with)?;
        }
        let range = delete.relation.as_ref().ok_or_else(|| Error::internal("DELETE without a table"))?;
        let relation = self.open_target(range, "deleting from")?;
        let target = self.target_in_scope(&relation, range)?;
        query.result_relation = Some(target);
        query.from.push(JoinTree::Range(target));
        query.from.extend(self.other_tables(target, &delete.using_clause)?);
        if let Some(filter) = &delete.where_clause {
            query.filter = Some(self.condition(filter, ExprKind::Where, "WHERE")?);
        }
        if let Some(returning) = &delete.returning_clause {
            query.returning = self.returning_list(returning)?;
        }
        self.finish_query(&mut query);
        self.take_range_table(&mut query);
        Ok(query)
    }

    fn target_in_scope(&mut self, relation: &Arc<Relation>, range: &protobuf::RangeVar) -> Result<usize> {
        let target = self.add_target(relation.clone(), range.alias.as_ref(), true);
        if let Some(alias) = &range.alias {
            super::from::rename_columns(&mut self.level().range_table[target], &alias.colnames)?;
        }
        let alias = self.level_ref().range_table[target].alias.clone();
        self.level().namespace.push(NamespaceItem::whole(target, alias));
        Ok(target)
    }

    /// FROM and USING: LATERAL items see each other, but not the target.
    fn other_tables(&mut self, target: usize, nodes: &[Node]) -> Result<Vec<JoinTree>> {
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        for item in &mut self.level().namespace {
            if item.entry == target {
                item.lateral_only = true;
                item.lateral_ok = false;
            }
        }
        let trees = self.analyze_from_beside(nodes);
        for item in &mut self.level().namespace {
            item.lateral_only = false;
            item.lateral_ok = true;
        }
        trees
    }

    /// SET: new values by attribute number. Generated columns and those set to DEFAULT without one are left as said
    /// by [`super::insert`].
    pub(crate) fn update_targets(
        &mut self,
        nodes: &[Node],
        relation: &Arc<Relation>,
        target: usize,
    ) -> Result<Vec<TargetEntry>> {
        let mut targets: Vec<TargetEntry> = Vec::with_capacity(nodes.len());
        // The analyzed sources of `(a, b) = ...`, taken one by one.
        let mut sources: std::collections::VecDeque<Expr> = std::collections::VecDeque::new();
        for node in nodes {
            let NodeEnum::ResTarget(assignment) = inner(node)? else {
                return Err(Error::internal("unrecognized SET item"));
            };
            let location = assignment.location;
            let column = self.target_column(relation, &assignment.name, location)?.clone();
            let attno = column.attnum;
            let value = match inner_box(&assignment.val)? {
                NodeEnum::SetToDefault(default) => {
                    Expr::Default { ty: column.ty, location: default.location }
                }
                NodeEnum::MultiAssignRef(multi) => {
                    if multi.colno == 1 {
                        sources = self.multi_assignment(multi)?;
                    }
                    sources.pop_front().ok_or_else(|| Error::internal("assignment without a source"))?
                }
                other => self.expression(other, ExprKind::UpdateSource)?,
            };
            if !matches!(value, Expr::Default { .. }) {
                if column.generated {
                    return Err(err!(
                        GENERATED_ALWAYS,
                        "column \"{}\" can only be updated to DEFAULT",
                        column.name
                    )
                    .detail(format!("Column \"{}\" is a generated column.", column.name)));
                }
                if column.identity == Identity::Always {
                    return Err(err!(
                        GENERATED_ALWAYS,
                        "column \"{}\" can only be updated to DEFAULT",
                        column.name
                    )
                    .detail(format!(
                        "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                        column.name
                    )));
                }
            }
            let earlier = targets.iter().position(|target| target.resno == attno);
            if let Some(earlier) = earlier {
                let partial = |expr: &Expr| {
                    // A domain is checked when all its parts are there.
                    let expr = match expr {
                        Expr::CoerceToDomain { arg, .. } => arg,
                        other => other,
                    };
                    matches!(expr, Expr::Subscript(subscript) if subscript.assignment.is_some())
                        || matches!(expr, Expr::Row { form: CallForm::ImplicitCast, .. })
                };
                if assignment.indirection.is_empty() || !partial(&targets[earlier].expr) {
                    return Err(err!(
                        SYNTAX_ERROR,
                        "multiple assignments to same column \"{}\"",
                        column_of(relation, attno)?.name
                    ));
                }
            }
            // A second part of a column is put into the result of the first.
            let current = match earlier {
                _ if assignment.indirection.is_empty() => None,
                Some(earlier) => Some(match targets[earlier].expr.clone() {
                    Expr::CoerceToDomain { arg, .. } => *arg,
                    other => other,
                }),
                None => Some(Expr::Var(Var { varno: target, attno, levels_up: 0, ty: column.ty, location })),
            };
            let before = std::mem::replace(&mut self.level().kind, ExprKind::UpdateTarget);
            let value = self.assigned(relation, attno, &assignment.indirection, value, current, location);
            self.level().kind = before;
            let mut value = value?;
            if matches!(value, Expr::Default { .. }) {
                if column.generated {
                    continue;
                }
                value = match self.column_default(&column)? {
                    Some(default) => default,
                    None => self.null_of(column.ty)?,
                };
            }
            if let Some(earlier) = earlier {
                targets[earlier].expr = value;
                continue;
            }
            targets.push(TargetEntry {
                expr: value,
                resno: attno,
                name: column.name.clone(),
                sort_group_ref: 0,
                junk: false,
                origin_table: 0,
                origin_column: 0,
            });
        }
        targets.sort_by_key(|target| target.resno);
        Ok(targets)
    }

    /// `(a, b) = (1, 2)`, `(a, b) = (select ...)`: one source a column.
    fn multi_assignment(
        &mut self,
        multi: &protobuf::MultiAssignRef,
    ) -> Result<std::collections::VecDeque<Expr>> {
        let columns = usize::try_from(multi.ncolumns).unwrap_or(0);
        match inner_box(&multi.source)? {
            NodeEnum::SubLink(link) if link.sub_link_type == protobuf::SubLinkType::ExprSublink as i32 => {
                let before = std::mem::replace(&mut self.level().kind, ExprKind::UpdateSource);
                let query = self.subquery(inner_box(&link.subselect)?, true, true);
                self.level().kind = before;
                let query = query?;
                let given = query.targets.iter().filter(|target| !target.junk).count();
                if given != columns {
                    return Err(err!(SYNTAX_ERROR, "number of columns does not match number of values")
                        .at(link.location));
                }
                Ok(self.row_sublink_fields(SubLinkKind::RowSource, query, link.location)?.into())
            }
            NodeEnum::RowExpr(row) => {
                if row.args.len() != columns {
                    return Err(err!(SYNTAX_ERROR, "number of columns does not match number of values")
                        .at(row.location));
                }
                let mut values = std::collections::VecDeque::with_capacity(columns);
                for arg in &row.args {
                    values.push_back(match inner(arg)? {
                        NodeEnum::SetToDefault(default) => Expr::Default {
                            ty: self.lookup.type_ref(cairn_types::types::UNKNOWN),
                            location: default.location,
                        },
                        other => self.expression(other, ExprKind::UpdateSource)?,
                    });
                }
                Ok(values)
            }
            other => {
                let at = self
                    .expression(other, ExprKind::UpdateSource)
                    .map_or(-1, |expr| super::expr_location(&expr));
                Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression"
                )
                .at(at))
            }
        }
    }
}
