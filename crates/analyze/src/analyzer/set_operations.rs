//! UNION, INTERSECT, EXCEPT: a tree over subqueries whose columns get common types.

use cairn_catalog::TypeRef;
use cairn_types::{Error, Result, Text, err, types};
use pg_query::protobuf::{self, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind,
    coerce::Coercion,
    expr_location, expr_type,
    from::query_columns,
    scope::{CteProgress, NamespaceColumn, NamespaceItem, attribute_number},
    select::new_query,
};
use crate::query::*;

/// A side of a set operation: its tree, its columns' types, and whether a literal of unknown type gives them.
struct Side {
    tree: SetOperation,
    columns: Vec<SideColumn>,
}

struct SideColumn {
    name: Text,
    ty: TypeRef,
    location: Location,
}

impl Analyzer<'_> {
    pub(crate) fn set_operation_statement(&mut self, select: &protobuf::SelectStmt) -> Result<Query> {
        let mut query = new_query(CommandType::Select);
        // The leftmost SELECT could say INTO.
        let mut leftmost = select;
        while let Some(left) = &leftmost.larg {
            leftmost = left;
        }
        if let Some(into) = &leftmost.into_clause {
            return Err(err!(SYNTAX_ERROR, "SELECT ... INTO is not allowed here")
                .at(into.rel.as_ref().map_or(-1, |rel| rel.location)));
        }
        check_not_locked(select)?;
        if let Some(with) = &select.with_clause {
            self.with_clause(with)?;
        }
        let side = self.set_operation_tree(select, true)?;
        // Targets: the leftmost query's columns by name, of the common types.
        let leftmost_index = leftmost_leaf(&side.tree);
        let mut namespace_columns = Vec::with_capacity(side.columns.len());
        for (index, column) in side.columns.iter().enumerate() {
            let var = Var {
                varno: leftmost_index,
                attno: attribute_number(index)?,
                levels_up: 0,
                ty: column.ty,
                location: column.location,
            };
            namespace_columns.push(NamespaceColumn {
                name: column.name.clone(),
                varno: leftmost_index,
                attno: var.attno,
                ty: column.ty,
            });
            let mut target = self.target(Expr::Var(var), column.name.clone(), index)?;
            target.origin_table = 0;
            target.origin_column = 0;
            query.targets.push(target);
        }
        query.set_operation = Some(Box::new(side.tree));
        // ORDER BY sees the result columns by name, and nothing else.
        let before: Vec<NamespaceItem> = std::mem::take(&mut self.level().namespace);
        self.level().namespace.push(NamespaceItem {
            entry: leftmost_index,
            alias: Text::default(),
            columns: Some(namespace_columns.into()),
            relation_visible: false,
            columns_visible: true,
            lateral_only: false,
            lateral_ok: true,
        });
        let visible = query.targets.len();
        let sort = self.sort_clause(&select.sort_clause, &mut query.targets, ExprKind::OrderBy, true);
        self.level().namespace = before;
        query.sort = sort?;
        if query.targets.len() > visible {
            return Err(err!(FEATURE_NOT_SUPPORTED, "invalid UNION/INTERSECT/EXCEPT ORDER BY clause")
                .detail("Only result column names can be used, not expressions or functions.")
                .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")
                .at(expr_location(&query.targets[visible].expr)));
        }
        query.offset = match &select.limit_offset {
            Some(node) => Some(self.limit_clause(node, ExprKind::Offset, "OFFSET")?),
            None => None,
        };
        self.limit(select, &mut query)?;
        self.finish_query(&mut query);
        self.take_range_table(&mut query);
        Ok(query)
    }

    fn set_operation_tree(&mut self, select: &protobuf::SelectStmt, top: bool) -> Result<Side> {
        self.enter()?;
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || self.set_operation_node(select, top));
        self.leave();
        result
    }

    fn set_operation_node(&mut self, select: &protobuf::SelectStmt, top: bool) -> Result<Side> {
        if let Some(into) = &select.into_clause {
            return Err(err!(SYNTAX_ERROR, "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT")
                .at(into.rel.as_ref().map_or(-1, |rel| rel.location)));
        }
        check_not_locked(select)?;
        let is_leaf = select.op <= protobuf::SetOperation::SetopNone as i32
            || (!top
                && (!select.sort_clause.is_empty()
                    || select.limit_offset.is_some()
                    || select.limit_count.is_some()
                    || select.with_clause.is_some()));
        if is_leaf {
            return self.set_operation_leaf(select);
        }
        let operation = match protobuf::SetOperation::try_from(select.op) {
            Ok(protobuf::SetOperation::SetopUnion) => SetOperator::Union,
            Ok(protobuf::SetOperation::SetopIntersect) => SetOperator::Intersect,
            Ok(protobuf::SetOperation::SetopExcept) => SetOperator::Except,
            _ => return Err(Error::internal("unrecognized set operation")),
        };
        let context = match operation {
            SetOperator::Union => "UNION",
            SetOperator::Intersect => "INTERSECT",
            SetOperator::Except => "EXCEPT",
        };
        let left =
            select.larg.as_deref().ok_or_else(|| Error::internal("set operation without a left side"))?;
        let right =
            select.rarg.as_deref().ok_or_else(|| Error::internal("set operation without a right side"))?;
        let parent_cte = if top { self.level_ref().parent_cte } else { None };
        if let Some((level, cte)) = parent_cte {
            let state = &mut self.levels_mut()[level].ctes[cte];
            state.progress = if operation == SetOperator::Union {
                CteProgress::FirstTerm
            } else {
                CteProgress::NotRecursive
            };
        }
        let mut left = self.set_operation_tree(left, false)?;
        if let Some((level, cte)) = parent_cte
            && operation == SetOperator::Union
        {
            // The non-recursive term gives the WITH query its columns.
            self.settle_recursive_columns(level, cte, &mut left)?;
        }
        let mut right = self.set_operation_tree(right, false)?;
        if left.columns.len() != right.columns.len() {
            let location = right.columns.first().map_or(-1, |column| column.location);
            return Err(
                err!(SYNTAX_ERROR, "each {context} query must have the same number of columns").at(location)
            );
        }
        let mut columns = Vec::with_capacity(left.columns.len());
        let mut column_types = Vec::with_capacity(left.columns.len());
        let mut group = Vec::new();
        for index in 0..left.columns.len() {
            let recursive = parent_cte.is_some() && operation == SetOperator::Union;
            let (l, r) = (self.side_expr(&left, index), self.side_expr(&right, index));
            let location = if expr_type(&l).oid == types::UNKNOWN {
                left.columns[index].location
            } else {
                right.columns[index].location
            };
            let common = self.select_common_type(&[&l, &r], Some(context))?.unwrap_or(types::TEXT);
            let typmod = self.select_common_typmod(&[&l, &r], common);
            let common = if recursive {
                let declared = left.columns[index].ty;
                if declared.oid != common { common } else { declared.oid }
            } else {
                common
            };
            self.settle_leaf_literal(&mut left, index, common, context)?;
            self.settle_leaf_literal(&mut right, index, common, context)?;
            // Columns that cannot become the common type are an error now.
            for (expr, side) in [(l, &left), (r, &right)] {
                let source = expr_type(&expr).oid;
                if source != types::UNKNOWN && !self.can_coerce(&[source], &[common], Coercion::Implicit) {
                    return Err(err!(
                        CANNOT_COERCE,
                        "{context} could not convert type {} to {}",
                        self.type_text(source),
                        self.type_text(common)
                    )
                    .at(side.columns[index].location));
                }
            }
            let collation = merged_collation(left.columns[index].ty, right.columns[index].ty);
            let mut ty = TypeRef { typmod, ..self.lookup.type_ref(common) };
            if ty.collation != 0
                && let Some(collation) = collation
            {
                ty.collation = collation;
            }
            if !(operation == SetOperator::Union && select.all) {
                let (sort_operator, equality) = self.grouping_operators(common, location)?;
                group.push(SortGroupClause {
                    target: u32::try_from(index + 1).unwrap_or(u32::MAX),
                    equality,
                    sort_operator,
                    descending: false,
                    nulls_first: false,
                });
            }
            column_types.push(ty);
            columns.push(SideColumn { name: left.columns[index].name.clone(), ty, location });
        }
        if let Some((level, cte)) = parent_cte
            && operation == SetOperator::Union
        {
            let first: Vec<Location> = left.columns.iter().map(|column| column.location).collect();
            self.check_recursive_types(level, cte, &columns, &first)?;
        }
        Ok(Side {
            tree: SetOperation::Node {
                operation,
                all: select.all,
                left: Box::new(left.tree),
                right: Box::new(right.tree),
                column_types,
                group,
            },
            columns,
        })
    }

    fn set_operation_leaf(&mut self, select: &protobuf::SelectStmt) -> Result<Side> {
        // Literals stay unknown until their common type is known.
        let namespace = std::mem::take(&mut self.level().namespace);
        let query = self.nested(false, false, |analyzer| analyzer.select_query(select));
        self.level().namespace = namespace;
        let query = query?;
        let mut outer = None;
        crate::walk::deep_query(&query, 1, &mut |expr, level| {
            if let Expr::Var(var) = expr
                && var.levels_up == level
            {
                outer.get_or_insert(var.location);
            }
        });
        if let Some(outer) = outer
            && !self.level_ref().namespace.is_empty()
        {
            return Err(err!(
                INVALID_COLUMN_REFERENCE,
                "UNION/INTERSECT/EXCEPT member statement cannot refer to other relations of same query level"
            )
            .at(outer));
        }
        let locations: Vec<Location> = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| expr_location(&target.expr))
            .collect();
        let columns = query_columns(&query);
        let level = self.level();
        let index = level.range_table.len();
        level.range_table.push(RangeTableEntry {
            alias: format!("*SELECT* {}", index + 1).into(),
            columns: columns.clone(),
            kind: RangeTableKind::Subquery { query: Box::new(query), view: None },
            lateral: false,
            in_from: false,
        });
        Ok(Side {
            tree: SetOperation::Leaf(index),
            columns: columns
                .into_iter()
                .zip(locations)
                .map(|(column, location)| SideColumn { name: column.name, ty: column.ty, location })
                .collect(),
        })
    }

    /// An expression that stands for a side's column when common types are chosen.
    fn side_expr(&self, side: &Side, index: usize) -> Expr {
        let column = &side.columns[index];
        Expr::Const { value: cairn_types::Datum::Null, ty: column.ty, location: column.location }
    }

    /// A leaf's literal or parameter of unknown type becomes of the common type.
    fn settle_leaf_literal(
        &mut self,
        side: &mut Side,
        index: usize,
        common: u32,
        context: &str,
    ) -> Result<()> {
        if side.columns[index].ty.oid != types::UNKNOWN {
            return Ok(());
        }
        let SetOperation::Leaf(leaf) = side.tree else { return Ok(()) };
        let taken = {
            let entry = &mut self.level().range_table[leaf];
            let RangeTableKind::Subquery { query, .. } = &mut entry.kind else { return Ok(()) };
            let Some(target) = query.targets.iter_mut().filter(|target| !target.junk).nth(index) else {
                return Ok(());
            };
            std::mem::replace(&mut target.expr, Expr::CurrentOf { cursor: Text::default() })
        };
        let settled = self.coerce_to_common(taken, common, context)?;
        let ty = expr_type(&settled);
        side.columns[index].ty = ty;
        let entry = &mut self.level().range_table[leaf];
        if let Some(column) = entry.columns.get_mut(index) {
            column.ty = ty;
        }
        if let RangeTableKind::Subquery { query, .. } = &mut entry.kind
            && let Some(target) = query.targets.iter_mut().filter(|target| !target.junk).nth(index)
        {
            target.expr = settled;
        }
        Ok(())
    }

    fn settle_recursive_columns(&mut self, level: usize, cte: usize, left: &mut Side) -> Result<()> {
        for index in 0..left.columns.len() {
            self.settle_leaf_literal(left, index, types::TEXT, "UNION")?;
            if left.columns[index].ty.oid == types::UNKNOWN {
                left.columns[index].ty = self.lookup.type_ref(types::TEXT);
            }
        }
        let columns: Vec<RangeColumn> = left
            .columns
            .iter()
            .map(|column| RangeColumn { name: column.name.clone(), ty: column.ty })
            .collect();
        let state = &mut self.levels_mut()[level].ctes[cte];
        let given = state.cte.columns.clone();
        state.cte.columns = columns
            .into_iter()
            .enumerate()
            .map(|(index, column)| RangeColumn {
                name: given.get(index).map_or(column.name, |given| given.name.clone()),
                ty: column.ty,
            })
            .collect();
        state.progress = CteProgress::RecursiveTerm;
        Ok(())
    }

    fn check_recursive_types(
        &self,
        level: usize,
        cte: usize,
        columns: &[SideColumn],
        first: &[Location],
    ) -> Result<()> {
        let state = &self.levels()[level].ctes[cte];
        if !state.cte.recursive {
            return Ok(());
        }
        for (index, (declared, column)) in state.cte.columns.iter().zip(columns).enumerate() {
            if declared.ty.oid != column.ty.oid || declared.ty.typmod != column.ty.typmod {
                let path = self.context.search_path;
                let shown = |ty: TypeRef| self.context.catalog.format_type(ty.oid, ty.typmod, path);
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    state.cte.name,
                    index + 1,
                    shown(declared.ty),
                    shown(column.ty)
                )
                .hint("Cast the output of the non-recursive term to the correct type.")
                .at(first[index]));
            }
        }
        Ok(())
    }
}

/// 0A000 if rows of a set operation are to be locked: they are nobody's.
fn check_not_locked(select: &protobuf::SelectStmt) -> Result<()> {
    match select.locking_clause.first().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::LockingClause(lock)) => Err(err!(
            FEATURE_NOT_SUPPORTED,
            "{} is not allowed with UNION/INTERSECT/EXCEPT",
            super::clauses::lock_name(lock.strength)
        )),
        _ => Ok(()),
    }
}

fn leftmost_leaf(tree: &SetOperation) -> usize {
    match tree {
        SetOperation::Leaf(index) => *index,
        SetOperation::Node { left, .. } => leftmost_leaf(left),
    }
}

fn merged_collation(left: TypeRef, right: TypeRef) -> Option<u32> {
    use cairn_types::oid::collations::DEFAULT;
    match (left.collation, right.collation) {
        (0, other) | (other, 0) | (DEFAULT, other) | (other, DEFAULT) => {
            Some(other).filter(|&other| other != 0)
        }
        (left, right) if left == right => Some(left),
        _ => None,
    }
}
