//! ORDER BY, GROUP BY, DISTINCT: references to the select list, by name, by number or by expression.

use cairn_types::{Error, Oid, Result, err, types};
use pg_query::protobuf::{self, Node, a_const::Val, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, expr_location, expr_type,
    names::{QualifiedName, inner, inner_box, string_value},
};
use crate::{compare::same, query::*};

pub(crate) struct Grouping {
    pub clauses: Vec<SortGroupClause>,
    pub sets: Vec<Vec<u32>>,
    /// GROUPING SETS, ROLLUP, CUBE or `()` was written.
    pub has_sets: bool,
}

/// GROUP BY item after its expressions were found in the select list.
#[derive(Clone)]
enum GroupItem {
    Simple(Vec<u32>),
    Rollup(Vec<GroupItem>),
    Cube(Vec<GroupItem>),
    Sets(Vec<GroupItem>),
}

/// GROUPING SETS may not expand to more than this.
const GROUPING_SETS_MAX: usize = 4096;

impl Analyzer<'_> {
    // ----- Finding the target

    /// SQL92: a name or number of the select list first; then as an expression. Gives the target's index.
    fn find_target(
        &mut self,
        node: &NodeEnum,
        targets: &mut Vec<TargetEntry>,
        kind: ExprKind,
    ) -> Result<usize> {
        match node {
            NodeEnum::ColumnRef(column) if column.fields.len() == 1 => {
                if let Some(NodeEnum::String(name)) = &column.fields[0].node {
                    let mut name = Some(name.sval.as_str());
                    // In GROUP BY a column of FROM goes before a name of the select list.
                    if kind == ExprKind::GroupBy
                        && let Some(wanted) = name
                        && self.is_column_in_scope(wanted, column.location)?
                    {
                        name = None;
                    }
                    if let Some(name) = name {
                        let mut found: Option<usize> = None;
                        for (index, target) in targets.iter().enumerate() {
                            if target.junk || *target.name != *name {
                                continue;
                            }
                            match found {
                                None => found = Some(index),
                                Some(other) if same(&targets[other].expr, &target.expr) => {}
                                Some(_) => {
                                    return Err(err!(
                                        AMBIGUOUS_COLUMN,
                                        "{} \"{name}\" is ambiguous",
                                        kind.name()
                                    )
                                    .at(column.location));
                                }
                            }
                        }
                        if let Some(found) = found {
                            check_grouped(&targets[found].expr, kind)?;
                            return Ok(found);
                        }
                    }
                }
            }
            NodeEnum::AConst(constant) => {
                let Some(Val::Ival(number)) = &constant.val else {
                    return Err(
                        err!(SYNTAX_ERROR, "non-integer constant in {}", kind.name()).at(constant.location)
                    );
                };
                let position = usize::try_from(number.ival).unwrap_or(0);
                let mut visible = targets.iter().enumerate().filter(|(_, target)| !target.junk);
                return match position.checked_sub(1).and_then(|skip| visible.nth(skip)) {
                    Some((index, target)) => check_grouped(&target.expr, kind).map(|()| index),
                    None => Err(err!(
                        INVALID_COLUMN_REFERENCE,
                        "{} position {} is not in select list",
                        kind.name(),
                        number.ival
                    )
                    .at(constant.location)),
                };
            }
            _ => {}
        }
        self.find_target_expression(node, targets, kind)
    }

    /// SQL99: an expression that equals one of the select list, or is added to it as junk.
    fn find_target_expression(
        &mut self,
        node: &NodeEnum,
        targets: &mut Vec<TargetEntry>,
        kind: ExprKind,
    ) -> Result<usize> {
        let expr = self.expression(node, kind)?;
        let plain = strip_implicit(&expr);
        if let Some(found) = targets.iter().position(|target| same(strip_implicit(&target.expr), plain)) {
            return Ok(found);
        }
        let mut target = self.target(expr, "?column?".into(), targets.len())?;
        target.junk = true;
        targets.push(target);
        Ok(targets.len() - 1)
    }

    fn is_column_in_scope(&mut self, name: &str, location: Location) -> Result<bool> {
        let level = self.level_ref();
        let _ = location;
        for item in &level.namespace {
            if !item.columns_visible {
                continue;
            }
            let found = match &item.columns {
                Some(columns) => columns.iter().any(|column| *column.name == *name),
                None => level.range_table[item.entry].columns.iter().any(|column| *column.name == *name),
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    // ----- ORDER BY

    /// `by_name`: names and numbers of the select list count (not so within aggregates and windows).
    pub(crate) fn sort_clause(
        &mut self,
        nodes: &[Node],
        targets: &mut Vec<TargetEntry>,
        kind: ExprKind,
        by_name: bool,
    ) -> Result<Vec<SortGroupClause>> {
        let mut clauses: Vec<SortGroupClause> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let NodeEnum::SortBy(sort) = inner(node)? else {
                return Err(Error::internal("unrecognized ORDER BY item"));
            };
            let expr = inner_box(&sort.node)?;
            let index = if by_name {
                self.find_target(expr, targets, kind)?
            } else {
                self.find_target_expression(expr, targets, kind)?
            };
            self.add_sort_clause(sort, index, targets, &mut clauses)?;
        }
        Ok(clauses)
    }

    pub(crate) fn add_sort_clause(
        &mut self,
        sort: &protobuf::SortBy,
        index: usize,
        targets: &mut [TargetEntry],
        clauses: &mut Vec<SortGroupClause>,
    ) -> Result<()> {
        let location = if sort.location >= 0 { sort.location } else { expr_location(&targets[index].expr) };
        self.settle_unknown(&mut targets[index])?;
        let ty = expr_type(&targets[index].expr).oid;
        let direction =
            protobuf::SortByDir::try_from(sort.sortby_dir).unwrap_or(protobuf::SortByDir::SortbyDefault);
        let (sort_operator, equality, descending) = match direction {
            protobuf::SortByDir::SortbyUsing => {
                let name = self.qualified_name(&sort.use_op)?;
                let operator = self.binary_operator(&name, ty, ty, location)?;
                let descending =
                    self.lookup.has_strategy(operator.oid, cairn_catalog::BtreeStrategy::Greater);
                let equality =
                    self.lookup.catalog.operator_memberships(operator.oid).iter().find_map(|member| {
                        self.lookup.catalog.opfamily_operator(
                            member.family,
                            member.left,
                            member.right,
                            cairn_catalog::BtreeStrategy::Equal,
                        )
                    });
                let Some(equality) = equality.filter(|_| {
                    descending || self.lookup.has_strategy(operator.oid, cairn_catalog::BtreeStrategy::Less)
                }) else {
                    return Err(err!(
                        WRONG_OBJECT_TYPE,
                        "operator {} is not a valid ordering operator",
                        sort.use_op.last().map_or("", string_value)
                    )
                    .hint("Ordering operators must be \"<\" or \">\" members of btree operator families.")
                    .at(location));
                };
                (operator.oid, equality, descending)
            }
            _ => {
                let operators = self.ordering_operators(ty, location)?;
                if direction == protobuf::SortByDir::SortbyDesc {
                    (operators.1, operators.2, true)
                } else {
                    (operators.0, operators.2, false)
                }
            }
        };
        let nulls_first = match protobuf::SortByNulls::try_from(sort.sortby_nulls) {
            Ok(protobuf::SortByNulls::SortbyNullsFirst) => true,
            Ok(protobuf::SortByNulls::SortbyNullsLast) => false,
            _ => descending,
        };
        let target = reference(index, targets);
        // The same column again adds nothing.
        if clauses.iter().any(|clause| clause.target == target) {
            return Ok(());
        }
        clauses.push(SortGroupClause { target, equality, sort_operator, descending, nulls_first });
        Ok(())
    }

    /// `<`, `>` and `=` of a type. Errors: 42883.
    pub(crate) fn ordering_operators(&self, ty: Oid, location: Location) -> Result<(Oid, Oid, Oid)> {
        match self.lookup.sort_operators(ty) {
            Some(operators) => Ok((operators.less, operators.greater, operators.equal)),
            None => Err(err!(
                UNDEFINED_FUNCTION,
                "could not identify an ordering operator for type {}",
                self.type_text(ty)
            )
            .hint("Use an explicit ordering operator or modify the query.")
            .at(location)),
        }
    }

    /// How values of a type are grouped: by order where there is one, else by hash. Errors: 42883.
    pub(crate) fn grouping_operators(&self, ty: Oid, location: Location) -> Result<(Oid, Oid)> {
        if let Some(operators) = self.lookup.sort_operators(ty) {
            return Ok((operators.less, operators.equal));
        }
        let equal = self.lookup.operator_exact(&QualifiedName::operator("="), ty, ty)?;
        match equal {
            Some(operator) if operator.can_hash => Ok((0, operator.oid)),
            _ => Err(err!(
                UNDEFINED_FUNCTION,
                "could not identify an equality operator for type {}",
                self.type_text(ty)
            )
            .at(location)),
        }
    }

    /// A literal that is sorted or grouped by is text.
    fn settle_unknown(&mut self, target: &mut TargetEntry) -> Result<()> {
        if expr_type(&target.expr).oid == types::UNKNOWN {
            let expr = std::mem::replace(&mut target.expr, Expr::CurrentOf { cursor: "".into() });
            target.expr = self.resolve_unknown(expr)?;
        }
        Ok(())
    }

    fn group_clause_for(
        &mut self,
        index: usize,
        targets: &mut [TargetEntry],
        clauses: &mut Vec<SortGroupClause>,
        sort: &[SortGroupClause],
        location: Location,
    ) -> Result<u32> {
        self.settle_unknown(&mut targets[index])?;
        let target = reference(index, targets);
        if clauses.iter().any(|clause| clause.target == target) {
            return Ok(target);
        }
        // As ORDER BY has it, so that one sort serves both.
        if let Some(clause) = sort.iter().find(|clause| clause.target == target) {
            clauses.push(clause.clone());
            return Ok(target);
        }
        let at = self.location_or(&targets[index].expr, location);
        let (sort_operator, equality) = self.grouping_operators(expr_type(&targets[index].expr).oid, at)?;
        clauses.push(SortGroupClause {
            target,
            equality,
            sort_operator,
            descending: false,
            nulls_first: false,
        });
        Ok(target)
    }

    /// One item of a window's PARTITION BY.
    pub(crate) fn add_partition(
        &mut self,
        node: &NodeEnum,
        targets: &mut Vec<TargetEntry>,
        order: &[SortGroupClause],
        clauses: &mut Vec<SortGroupClause>,
    ) -> Result<()> {
        let index = self.find_target_expression(node, targets, ExprKind::WindowPartition)?;
        self.group_clause_for(index, targets, clauses, order, -1)?;
        Ok(())
    }

    // ----- GROUP BY

    pub(crate) fn group_clause(
        &mut self,
        nodes: &[Node],
        distinct_sets: bool,
        targets: &mut Vec<TargetEntry>,
        sort: &[SortGroupClause],
    ) -> Result<Grouping> {
        let mut clauses = Vec::new();
        let mut items = Vec::new();
        let mut has_sets = false;
        for node in nodes {
            items.push(self.group_item(inner(node)?, targets, &mut clauses, sort, &mut has_sets, true)?);
        }
        let mut sets = Vec::new();
        if has_sets {
            sets = expand(&items)?;
            if distinct_sets {
                let mut unique: Vec<Vec<u32>> = Vec::new();
                for set in sets {
                    let mut key = set.clone();
                    key.sort_unstable();
                    let known = unique.iter().any(|other| {
                        let mut other = other.clone();
                        other.sort_unstable();
                        other == key
                    });
                    if !known {
                        unique.push(set);
                    }
                }
                sets = unique;
            }
        }
        Ok(Grouping { clauses, sets, has_sets })
    }

    fn group_item(
        &mut self,
        node: &NodeEnum,
        targets: &mut Vec<TargetEntry>,
        clauses: &mut Vec<SortGroupClause>,
        sort: &[SortGroupClause],
        has_sets: &mut bool,
        top: bool,
    ) -> Result<GroupItem> {
        match node {
            // GROUP BY (a, b) without ROW is a, b.
            NodeEnum::RowExpr(row) if row.row_format == protobuf::CoercionForm::CoerceImplicitCast as i32 => {
                let mut references = Vec::new();
                for arg in &row.args {
                    match self.group_item(inner(arg)?, targets, clauses, sort, has_sets, false)? {
                        GroupItem::Simple(inner) => references.extend(inner),
                        _ => return Err(Error::internal("grouping set inside of a row")),
                    }
                }
                Ok(GroupItem::Simple(references))
            }
            NodeEnum::GroupingSet(set) => {
                *has_sets = true;
                let mut content = Vec::new();
                for node in &set.content {
                    content.push(self.group_item(inner(node)?, targets, clauses, sort, has_sets, false)?);
                }
                use protobuf::GroupingSetKind as Kind;
                Ok(match Kind::try_from(set.kind).unwrap_or(Kind::Undefined) {
                    Kind::GroupingSetEmpty => GroupItem::Simple(Vec::new()),
                    Kind::GroupingSetRollup => GroupItem::Rollup(content),
                    Kind::GroupingSetCube => {
                        if content.len() > 12 {
                            return Err(
                                err!(TOO_MANY_COLUMNS, "CUBE is limited to 12 elements").at(set.location)
                            );
                        }
                        GroupItem::Cube(content)
                    }
                    Kind::GroupingSetSets => GroupItem::Sets(content),
                    Kind::GroupingSetSimple | Kind::Undefined => {
                        let mut references = Vec::new();
                        for item in content {
                            if let GroupItem::Simple(inner) = item {
                                references.extend(inner);
                            }
                        }
                        GroupItem::Simple(references)
                    }
                })
            }
            other => {
                let _ = top;
                let index = self.find_target(other, targets, ExprKind::GroupBy)?;
                check_group_target(&targets[index].expr)?;
                let reference = self.group_clause_for(index, targets, clauses, sort, -1)?;
                Ok(GroupItem::Simple(vec![reference]))
            }
        }
    }

    // ----- DISTINCT

    pub(crate) fn distinct_clause(
        &mut self,
        nodes: &[Node],
        targets: &mut Vec<TargetEntry>,
        sort: &[SortGroupClause],
    ) -> Result<Distinct> {
        match nodes {
            [] => Ok(Distinct::None),
            // A list of one empty node is plain DISTINCT.
            [Node { node: None }] => self.distinct_all(targets, sort).map(Distinct::All),
            _ => self.distinct_on(nodes, targets, sort).map(Distinct::On),
        }
    }

    fn distinct_all(
        &mut self,
        targets: &mut [TargetEntry],
        sort: &[SortGroupClause],
    ) -> Result<Vec<SortGroupClause>> {
        let mut clauses: Vec<SortGroupClause> = Vec::new();
        for clause in sort {
            let target = targets.iter().find(|target| target.sort_group_ref == clause.target);
            if let Some(target) = target
                && target.junk
            {
                return Err(err!(
                    INVALID_COLUMN_REFERENCE,
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
                )
                .at(expr_location(&target.expr)));
            }
            clauses.push(clause.clone());
        }
        for index in 0..targets.len() {
            if !targets[index].junk {
                let location = expr_location(&targets[index].expr);
                self.group_clause_for(index, targets, &mut clauses, sort, location)?;
            }
        }
        if clauses.is_empty() {
            return Err(err!(SYNTAX_ERROR, "SELECT DISTINCT must have at least one column"));
        }
        Ok(clauses)
    }

    fn distinct_on(
        &mut self,
        nodes: &[Node],
        targets: &mut Vec<TargetEntry>,
        sort: &[SortGroupClause],
    ) -> Result<Vec<SortGroupClause>> {
        let mut references: Vec<(u32, usize)> = Vec::new();
        for node in nodes {
            let index = self.find_target(inner(node)?, targets, ExprKind::DistinctOn)?;
            self.settle_unknown(&mut targets[index])?;
            references.push((reference(index, targets), index));
        }
        let mut clauses: Vec<SortGroupClause> = Vec::new();
        let mut skipped: Option<u32> = None;
        let mismatch = |index: usize, targets: &[TargetEntry]| {
            err!(
                INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
            )
            .at(expr_location(&targets[index].expr))
        };
        for clause in sort {
            if let Some((_, index)) = references.iter().find(|(reference, _)| *reference == clause.target) {
                if skipped.is_some() {
                    return Err(mismatch(*index, targets));
                }
                clauses.push(clause.clone());
            } else if skipped.is_none() {
                skipped = Some(clause.target);
            }
        }
        for (reference, index) in references {
            if clauses.iter().any(|clause| clause.target == reference) {
                continue;
            }
            if skipped.is_some() {
                return Err(mismatch(index, targets));
            }
            self.group_clause_for(index, targets, &mut clauses, sort, -1)?;
        }
        Ok(clauses)
    }
}

/// The number by which clauses refer to a target, given on first use.
pub(crate) fn reference(index: usize, targets: &mut [TargetEntry]) -> u32 {
    if targets[index].sort_group_ref == 0 {
        let highest = targets.iter().map(|target| target.sort_group_ref).max().unwrap_or(0);
        targets[index].sort_group_ref = highest + 1;
    }
    targets[index].sort_group_ref
}

/// An expression without the relabelings that nobody wrote.
fn strip_implicit(expr: &Expr) -> &Expr {
    match expr {
        Expr::Relabel { arg, form: CallForm::ImplicitCast, .. } => strip_implicit(arg),
        other => other,
    }
}

/// Whether what a name or a number of the select list stands for may be grouped by. Errors: 42803, 42P20.
fn check_group_target(expr: &Expr) -> Result<()> {
    let mut result = Ok(());
    crate::walk::deep(expr, 0, &mut |expr, level| {
        let aggregate =
            |location| err!(GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY").at(location);
        let error = match expr {
            Expr::Aggregate(call) if call.levels_up == level => aggregate(call.location),
            Expr::Grouping { location, .. } if level == 0 => aggregate(*location),
            Expr::Window(call) if level == 0 => {
                err!(WINDOWING_ERROR, "window functions are not allowed in GROUP BY").at(call.location)
            }
            _ => return,
        };
        if result.is_ok() {
            result = Err(error);
        }
    });
    result
}

/// All grouping sets that a GROUP BY list means: the product of its items' sets.
fn expand(items: &[GroupItem]) -> Result<Vec<Vec<u32>>> {
    let mut result: Vec<Vec<u32>> = vec![Vec::new()];
    for item in items {
        let sets = expand_item(item)?;
        let mut product = Vec::with_capacity(result.len() * sets.len());
        for left in &result {
            for right in &sets {
                let mut joined = left.clone();
                for reference in right {
                    if !joined.contains(reference) {
                        joined.push(*reference);
                    }
                }
                product.push(joined);
            }
        }
        if product.len() > GROUPING_SETS_MAX {
            return Err(err!(
                STATEMENT_TOO_COMPLEX,
                "too many grouping sets present (maximum {GROUPING_SETS_MAX})"
            ));
        }
        result = product;
    }
    Ok(result)
}

fn expand_item(item: &GroupItem) -> Result<Vec<Vec<u32>>> {
    let simple = |item: &GroupItem| match item {
        GroupItem::Simple(references) => references.clone(),
        _ => Vec::new(),
    };
    Ok(match item {
        GroupItem::Simple(references) => vec![references.clone()],
        GroupItem::Rollup(content) => (0..=content.len())
            .rev()
            .map(|length| content[..length].iter().flat_map(simple).collect())
            .collect(),
        GroupItem::Cube(content) => {
            let mut sets = Vec::new();
            for mask in (0u32..1 << content.len()).rev() {
                // The first element varies slowest.
                let chosen = |index: &usize| mask & (1 << (content.len() - 1 - index)) != 0;
                sets.push(
                    (0..content.len()).filter(chosen).flat_map(|index| simple(&content[index])).collect(),
                );
            }
            sets.sort_by_key(|set: &Vec<u32>| std::cmp::Reverse(set.len()));
            sets
        }
        GroupItem::Sets(content) => {
            let mut sets = Vec::new();
            for inner in content {
                sets.extend(expand_item(inner)?);
                if sets.len() > GROUPING_SETS_MAX {
                    return Err(err!(
                        STATEMENT_TOO_COMPLEX,
                        "too many grouping sets present (maximum {GROUPING_SETS_MAX})"
                    ));
                }
            }
            sets
        }
    })
}

pub(crate) fn lock_strength(strength: i32) -> Result<LockStrength> {
    use protobuf::LockClauseStrength as Strength;
    Ok(match Strength::try_from(strength) {
        Ok(Strength::LcsForkeyshare) => LockStrength::KeyShare,
        Ok(Strength::LcsForshare) => LockStrength::Share,
        Ok(Strength::LcsFornokeyupdate) => LockStrength::NoKeyUpdate,
        Ok(Strength::LcsForupdate) => LockStrength::Update,
        _ => return Err(Error::internal("unrecognized lock strength")),
    })
}

pub(crate) fn lock_wait(policy: i32) -> LockWait {
    use protobuf::LockWaitPolicy as Policy;
    match Policy::try_from(policy) {
        Ok(Policy::LockWaitSkip) => LockWait::Skip,
        Ok(Policy::LockWaitError) => LockWait::Error,
        _ => LockWait::Block,
    }
}

pub(crate) fn lock_name(strength: i32) -> &'static str {
    use protobuf::LockClauseStrength as Strength;
    match Strength::try_from(strength) {
        Ok(Strength::LcsForkeyshare) => "FOR KEY SHARE",
        Ok(Strength::LcsForshare) => "FOR SHARE",
        Ok(Strength::LcsFornokeyupdate) => "FOR NO KEY UPDATE",
        _ => "FOR UPDATE",
    }
}

/// Refuses a column of the select list that GROUP BY names and that holds an aggregate or a window function.
fn check_grouped(expr: &Expr, kind: ExprKind) -> Result<()> {
    if kind != ExprKind::GroupBy {
        return Ok(());
    }
    let mut refused = None;
    crate::walk::any(expr, &mut |expr| {
        refused = match expr {
            Expr::Window(call) => {
                Some(err!(WINDOWING_ERROR, "window functions are not allowed in GROUP BY").at(call.location))
            }
            Expr::Aggregate(call) if call.levels_up == 0 => Some(
                err!(GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY").at(call.location),
            ),
            _ => None,
        };
        refused.is_some()
    });
    refused.map_or(Ok(()), Err)
}
