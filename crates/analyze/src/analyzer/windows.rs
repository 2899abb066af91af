//! Window functions: OVER, the WINDOW clause, frames.

use cairn_catalog::{Proc, TypeRef};
use cairn_types::{Error, Result, Text, err, types};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{Analyzer, ExprKind, coerce::Coercion, expr_location, expr_type, names::inner};
use crate::query::*;

/// A window that was named or used, before its expressions are analyzed (which happens after the select list).
#[derive(Clone)]
pub(crate) struct WindowState {
    definition: protobuf::WindowDef,
}

// Bits of the grammar's frame_options.
const NONDEFAULT: i32 = 0x1;
const RANGE: i32 = 0x2;
const ROWS: i32 = 0x4;
const GROUPS: i32 = 0x8;
const START_UNBOUNDED_PRECEDING: i32 = 0x20;
const END_UNBOUNDED_FOLLOWING: i32 = 0x100;
const START_CURRENT_ROW: i32 = 0x200;
const END_CURRENT_ROW: i32 = 0x400;
const START_OFFSET_PRECEDING: i32 = 0x800;
const END_OFFSET_PRECEDING: i32 = 0x1000;
const START_OFFSET_FOLLOWING: i32 = 0x2000;
const EXCLUDE_CURRENT_ROW: i32 = 0x8000;
const EXCLUDE_GROUP: i32 = 0x10000;
const EXCLUDE_TIES: i32 = 0x20000;

impl Analyzer<'_> {
    /// Remembers the WINDOW clause.
    pub(crate) fn note_window_definitions(&mut self, nodes: &[Node]) -> Result<()> {
        for node in nodes {
            let NodeEnum::WindowDef(definition) = inner(node)? else {
                return Err(Error::internal("unrecognized window definition"));
            };
            let known = self.level_ref().windows.iter().any(|window| {
                !window.definition.name.is_empty() && window.definition.name == definition.name
            });
            if known {
                return Err(err!(WINDOWING_ERROR, "window \"{}\" is already defined", definition.name)
                    .at(definition.location));
            }
            self.level().windows.push(WindowState { definition: (**definition).clone() });
        }
        Ok(())
    }

    pub(crate) fn window_call(
        &mut self,
        call: &protobuf::FuncCall,
        proc: &Proc,
        aggregate: bool,
        args: Vec<Expr>,
        filter: Option<Expr>,
        ty: TypeRef,
    ) -> Result<Expr> {
        let location = call.location;
        let over = call.over.as_deref().ok_or_else(|| Error::internal("window call without OVER"))?;
        for arg in &args {
            let mut nested = None;
            crate::walk::any(arg, &mut |expr| {
                if let Expr::Window(window) = expr {
                    nested = Some(window.location);
                }
                false
            });
            if let Some(nested) = nested {
                return Err(err!(WINDOWING_ERROR, "window function calls cannot be nested").at(nested));
            }
            if crate::walk::any(arg, &mut |expr| super::returns_set(expr)) {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "window function calls cannot contain set-returning function calls"
                )
                .hint("You might be able to move the set-returning function into a LATERAL FROM item.")
                .at(expr_location(arg)));
            }
        }
        let kind = self.level_ref().kind;
        let message = match kind {
            ExprKind::SelectTarget | ExprKind::OrderBy | ExprKind::DistinctOn => None,
            ExprKind::Other if !self.level_ref().range_table.is_empty() => None,
            ExprKind::WindowPartition
            | ExprKind::WindowOrder
            | ExprKind::WindowFrameRange
            | ExprKind::WindowFrameRows
            | ExprKind::WindowFrameGroups => {
                Some("window functions are not allowed in window definitions".to_owned())
            }
            other => Some(format!("window functions are not allowed in {}", other.phrase())),
        };
        if let Some(message) = message {
            return Err(err!(WINDOWING_ERROR, "{message}").at(location));
        }
        let window = if !over.name.is_empty() {
            let found =
                self.level_ref().windows.iter().position(|window| window.definition.name == over.name);
            found.ok_or_else(|| {
                err!(UNDEFINED_OBJECT, "window \"{}\" does not exist", over.name).at(over.location)
            })?
        } else {
            let found = self.level_ref().windows.iter().position(|window| {
                window.definition.name.is_empty() && same_definition(&window.definition, over)
            });
            match found {
                Some(found) => found,
                None => {
                    let level = self.level();
                    level.windows.push(WindowState { definition: over.clone() });
                    level.windows.len() - 1
                }
            }
        };
        self.level().has_window_functions = true;
        Ok(Expr::Window(Box::new(WindowCall {
            function: proc.oid,
            args,
            star: call.agg_star,
            filter,
            aggregate,
            window,
            ty,
            collation: 0,
            location,
        })))
    }

    /// Analyzes the windows' own expressions, which join the select list as junk.
    pub(crate) fn finish_windows(&mut self, targets: &mut Vec<TargetEntry>) -> Result<Vec<WindowClause>> {
        let definitions: Vec<protobuf::WindowDef> =
            self.level().windows.iter().map(|window| window.definition.clone()).collect();
        let mut clauses: Vec<WindowClause> = Vec::with_capacity(definitions.len());
        for definition in &definitions {
            let base = if definition.refname.is_empty() {
                None
            } else {
                let found =
                    definitions[..clauses.len()].iter().position(|other| other.name == definition.refname);
                Some(found.ok_or_else(|| {
                    err!(UNDEFINED_OBJECT, "window \"{}\" does not exist", definition.refname)
                        .at(definition.location)
                })?)
            };
            let order = self.sort_clause(&definition.order_clause, targets, ExprKind::WindowOrder, false)?;
            let mut partition = self.partition_clause(&definition.partition_clause, targets, &order)?;
            let mut final_order = order.clone();
            if let Some(base) = base {
                let referenced = &clauses[base];
                if !partition.is_empty() {
                    return Err(err!(
                        WINDOWING_ERROR,
                        "cannot override PARTITION BY clause of window \"{}\"",
                        definition.refname
                    )
                    .at(definition.location));
                }
                if !order.is_empty() && !referenced.order.is_empty() {
                    return Err(err!(
                        WINDOWING_ERROR,
                        "cannot override ORDER BY clause of window \"{}\"",
                        definition.refname
                    )
                    .at(definition.location));
                }
                if referenced.frame.explicit {
                    let error = err!(
                        WINDOWING_ERROR,
                        "cannot copy window \"{}\" because it has a frame clause",
                        definition.refname
                    );
                    let plain = !definition.name.is_empty()
                        || !order.is_empty()
                        || definition.frame_options & NONDEFAULT != 0;
                    let error =
                        if plain { error } else { error.hint("Omit the parentheses in this OVER clause.") };
                    return Err(error.at(definition.location));
                }
                partition = referenced.partition.clone();
                if order.is_empty() {
                    final_order = referenced.order.clone();
                }
            }
            let frame = self.window_frame(definition, &final_order, targets)?;
            clauses.push(WindowClause {
                name: (!definition.name.is_empty()).then(|| Text::from(definition.name.as_str())),
                partition,
                order: final_order,
                frame,
            });
        }
        Ok(clauses)
    }

    fn partition_clause(
        &mut self,
        nodes: &[Node],
        targets: &mut Vec<TargetEntry>,
        order: &[SortGroupClause],
    ) -> Result<Vec<SortGroupClause>> {
        let mut clauses: Vec<SortGroupClause> = Vec::new();
        for node in nodes {
            self.add_partition(inner(node)?, targets, order, &mut clauses)?;
        }
        Ok(clauses)
    }

    fn window_frame(
        &mut self,
        definition: &protobuf::WindowDef,
        order: &[SortGroupClause],
        targets: &[TargetEntry],
    ) -> Result<WindowFrame> {
        let options = definition.frame_options;
        let mode = if options & ROWS != 0 {
            FrameMode::Rows
        } else if options & GROUPS != 0 {
            FrameMode::Groups
        } else {
            debug_assert!(options == 0 || options & RANGE != 0);
            FrameMode::Range
        };
        if mode == FrameMode::Groups && order.is_empty() {
            return Err(
                err!(WINDOWING_ERROR, "GROUPS mode requires an ORDER BY clause").at(definition.location)
            );
        }
        let has_offset = definition.start_offset.is_some() || definition.end_offset.is_some();
        if mode == FrameMode::Range && has_offset && order.len() != 1 {
            return Err(err!(
                WINDOWING_ERROR,
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"
            )
            .at(definition.location));
        }
        let order_type = order.first().and_then(|clause| {
            targets
                .iter()
                .find(|target| target.sort_group_ref == clause.target)
                .map(|target| expr_type(&target.expr))
        });
        let start = if options & START_UNBOUNDED_PRECEDING != 0 || options & !NONDEFAULT == 0 {
            FrameBound::UnboundedPreceding
        } else if options & START_CURRENT_ROW != 0 {
            FrameBound::CurrentRow
        } else {
            let offset = Box::new(self.frame_offset(&definition.start_offset, mode, order_type)?);
            if options & START_OFFSET_PRECEDING != 0 {
                FrameBound::Preceding(offset)
            } else if options & START_OFFSET_FOLLOWING != 0 {
                FrameBound::Following(offset)
            } else {
                return Err(Error::internal("unrecognized frame start"));
            }
        };
        let end = if options & END_UNBOUNDED_FOLLOWING != 0 {
            FrameBound::UnboundedFollowing
        } else if options & END_CURRENT_ROW != 0 || options & !NONDEFAULT == 0 {
            FrameBound::CurrentRow
        } else {
            let offset = Box::new(self.frame_offset(&definition.end_offset, mode, order_type)?);
            if options & END_OFFSET_PRECEDING != 0 {
                FrameBound::Preceding(offset)
            } else {
                FrameBound::Following(offset)
            }
        };
        let exclusion = if options & EXCLUDE_CURRENT_ROW != 0 {
            FrameExclusion::CurrentRow
        } else if options & EXCLUDE_GROUP != 0 {
            FrameExclusion::Group
        } else if options & EXCLUDE_TIES != 0 {
            FrameExclusion::Ties
        } else {
            FrameExclusion::None
        };
        Ok(WindowFrame { mode, start, end, exclusion, explicit: options & NONDEFAULT != 0 })
    }

    fn frame_offset(
        &mut self,
        node: &Option<Box<Node>>,
        mode: FrameMode,
        order_type: Option<TypeRef>,
    ) -> Result<Expr> {
        let (kind, construct) = match mode {
            FrameMode::Range => (ExprKind::WindowFrameRange, "RANGE"),
            FrameMode::Rows => (ExprKind::WindowFrameRows, "ROWS"),
            FrameMode::Groups => (ExprKind::WindowFrameGroups, "GROUPS"),
        };
        let expr = self.expression_of_kind(node.as_deref(), kind)?;
        let location = expr_location(&expr);
        let expr = if mode == FrameMode::Range {
            let order = order_type.map_or(0, |ty| self.lookup.base_type(ty.oid));
            let given = expr_type(&expr).oid;
            // Which types in_range takes for each ordered type; the last is the preferred one for a literal.
            let accepted: &[u32] = match order {
                types::INT2 | types::INT4 => &[types::INT2, types::INT8, types::INT4],
                types::INT8 => &[types::INT8],
                types::FLOAT4 | types::FLOAT8 => &[types::FLOAT8],
                types::NUMERIC => &[types::NUMERIC],
                types::DATE
                | types::TIMESTAMP
                | types::TIMESTAMPTZ
                | types::TIME
                | types::TIMETZ
                | types::INTERVAL => &[types::INTERVAL],
                _ => &[],
            };
            if accepted.is_empty() {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                    self.type_text(order)
                )
                .at(location));
            }
            let target = if accepted.contains(&given) {
                given
            } else {
                let fitting = accepted
                    .iter()
                    .rev()
                    .copied()
                    .find(|&target| self.can_coerce(&[given], &[target], Coercion::Implicit));
                match fitting {
                    Some(target) => target,
                    None => {
                        return Err(err!(
                            FEATURE_NOT_SUPPORTED,
                            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
                            self.type_text(order),
                            self.type_text(given)
                        )
                        .hint("Cast the offset value to an appropriate type.")
                        .at(location));
                    }
                }
            };
            self.coerce_to_specific(expr, target, "RANGE")?
        } else {
            self.coerce_to_specific(expr, types::INT8, construct)?
        };
        let mut column = None;
        crate::walk::deep(&expr, 0, &mut |expr, level| {
            if let Expr::Var(var) = expr
                && var.levels_up == level
            {
                column.get_or_insert(var.location);
            }
        });
        if let Some(column) = column {
            return Err(err!(INVALID_COLUMN_REFERENCE, "argument of {construct} must not contain variables")
                .at(column));
        }
        Ok(expr)
    }
}

/// Two inline windows written alike share one evaluation.
fn same_definition(a: &protobuf::WindowDef, b: &protobuf::WindowDef) -> bool {
    let mut a = a.clone();
    let mut b = b.clone();
    a.location = 0;
    b.location = 0;
    // Positions inside of the expressions differ; compare what has none.
    if a.partition_clause.is_empty()
        && b.partition_clause.is_empty()
        && a.order_clause.is_empty()
        && b.order_clause.is_empty()
    {
        return a == b;
    }
    let plain = |nodes: &[Node]| -> Option<Vec<(Vec<String>, i32, i32)>> {
        nodes
            .iter()
            .map(|node| {
                let (node, direction, nulls) = match node.node.as_ref()? {
                    NodeEnum::SortBy(sort) if sort.use_op.is_empty() => {
                        (sort.node.as_ref()?.node.as_ref()?, sort.sortby_dir, sort.sortby_nulls)
                    }
                    other => (other, 0, 0),
                };
                match node {
                    NodeEnum::ColumnRef(column) => Some((
                        column
                            .fields
                            .iter()
                            .map(|field| super::names::string_value(field).to_owned())
                            .collect(),
                        direction,
                        nulls,
                    )),
                    _ => None,
                }
            })
            .collect()
    };
    let shapes = |definition: &protobuf::WindowDef| {
        Some((plain(&definition.partition_clause)?, plain(&definition.order_clause)?))
    };
    a.start_offset.is_none()
        && b.start_offset.is_none()
        && a.end_offset.is_none()
        && b.end_offset.is_none()
        && a.frame_options == b.frame_options
        && a.refname == b.refname
        && matches!((shapes(&a), shapes(&b)), (Some(x), Some(y)) if x == y)
}
