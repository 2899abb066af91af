//! SELECT and VALUES.

use cairn_types::{Error, Result, Text, err, types};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, coerce::Coercion, expr_location, expr_type, names::inner, scope::NamespaceItem,
};
use crate::query::*;

/// An empty query of a command.
pub(crate) fn new_query(command: CommandType) -> Query {
    Query {
        command,
        range_table: Vec::new(),
        from: Vec::new(),
        filter: None,
        targets: Vec::new(),
        result_relation: None,
        on_conflict: None,
        returning: Vec::new(),
        assigned: Vec::new(),
        overriding: Overriding::None,
        ctes: Vec::new(),
        recursive: false,
        group: Vec::new(),
        grouping_sets: Vec::new(),
        has_aggregates: false,
        has_window_functions: false,
        has_target_srfs: false,
        having: None,
        windows: Vec::new(),
        distinct: Distinct::None,
        sort: Vec::new(),
        offset: None,
        limit: None,
        limit_with_ties: false,
        row_marks: Vec::new(),
        constraints: Vec::new(),
        set_operation: None,
    }
}

impl Analyzer<'_> {
    /// A query nested in another: one level deeper. `is_sublink`: inside of an expression rather than FROM.
    pub(crate) fn subquery(
        &mut self,
        node: &NodeEnum,
        is_sublink: bool,
        resolve_unknowns: bool,
    ) -> Result<Query> {
        self.nested(is_sublink, resolve_unknowns, |analyzer| analyzer.query_statement(node))
    }

    /// Analysis on a level of its own.
    pub(crate) fn nested(
        &mut self,
        is_sublink: bool,
        resolve_unknowns: bool,
        work: impl FnOnce(&mut Self) -> Result<Query>,
    ) -> Result<Query> {
        self.enter()?;
        self.push_level();
        self.level().is_sublink = is_sublink;
        self.level().resolve_unknowns = resolve_unknowns;
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || work(self));
        self.pop_level();
        self.leave();
        result
    }

    /// A statement that is a query, at the level that was just pushed.
    pub(crate) fn query_statement(&mut self, node: &NodeEnum) -> Result<Query> {
        let mut query = match node {
            NodeEnum::SelectStmt(select) => return self.select_query(select),
            NodeEnum::InsertStmt(insert) => self.insert_statement(insert)?,
            NodeEnum::UpdateStmt(update) => self.update_statement(update)?,
            NodeEnum::DeleteStmt(delete) => self.delete_statement(delete)?,
            NodeEnum::MergeStmt(_) => return Err(Error::unsupported("MERGE is")),
            _ => return Err(Error::internal("unexpected statement in a query")),
        };
        self.assign_query_collations(&mut query)?;
        Ok(query)
    }

    pub(crate) fn select_query(&mut self, select: &protobuf::SelectStmt) -> Result<Query> {
        let mut query = self.select_statement(select)?;
        self.assign_query_collations(&mut query)?;
        Ok(query)
    }

    pub(crate) fn select_statement(&mut self, select: &protobuf::SelectStmt) -> Result<Query> {
        if select.op > protobuf::SetOperation::SetopNone as i32 {
            return self.set_operation_statement(select);
        }
        if !select.values_lists.is_empty() {
            return self.values_statement(select);
        }
        let mut query = new_query(CommandType::Select);
        if let Some(with) = &select.with_clause {
            self.with_clause(with)?;
        }
        if let Some(into) = &select.into_clause {
            return Err(err!(SYNTAX_ERROR, "SELECT ... INTO is not allowed here")
                .at(into.rel.as_ref().map_or(-1, |rel| rel.location)));
        }
        self.note_window_definitions(&select.window_clause)?;
        query.from = self.analyze_from(&select.from_clause)?;
        query.targets = self.target_list(&select.target_list, ExprKind::SelectTarget)?;
        if let Some(filter) = &select.where_clause {
            query.filter = Some(self.condition(filter, ExprKind::Where, "WHERE")?);
        }
        if let Some(having) = &select.having_clause {
            query.having = Some(self.condition(having, ExprKind::Having, "HAVING")?);
        }
        query.sort = self.sort_clause(&select.sort_clause, &mut query.targets, ExprKind::OrderBy, true)?;
        let grouping =
            self.group_clause(&select.group_clause, select.group_distinct, &mut query.targets, &query.sort)?;
        query.group = grouping.clauses;
        query.grouping_sets = grouping.sets;
        let has_grouping_sets = grouping.has_sets;
        query.distinct = self.distinct_clause(&select.distinct_clause, &mut query.targets, &query.sort)?;
        query.offset = match &select.limit_offset {
            Some(node) => Some(self.limit_clause(node, ExprKind::Offset, "OFFSET")?),
            None => None,
        };
        self.limit(select, &mut query)?;
        query.windows = self.finish_windows(&mut query.targets)?;
        if self.level_ref().resolve_unknowns {
            self.resolve_target_unknowns(&mut query.targets)?;
        }
        self.finish_query(&mut query);
        // Before aggregates are looked at: what cannot be locked is not asked for its GROUP BY.
        self.locking_clauses(&select.locking_clause, &mut query)?;
        self.check_aggregates(&mut query, has_grouping_sets)?;
        self.take_range_table(&mut query);
        Ok(query)
    }

    /// Copies what the level has gathered into the query; the range table stays until the end, because later checks
    /// still look names up.
    pub(crate) fn finish_query(&mut self, query: &mut Query) {
        let level = self.level();
        query.has_aggregates = level.has_aggregates;
        query.has_window_functions = level.has_window_functions;
        query.has_target_srfs = level.has_target_srfs;
        query.recursive = level.recursive;
    }

    pub(crate) fn take_range_table(&mut self, query: &mut Query) {
        let level = self.level();
        query.range_table = std::mem::take(&mut level.range_table);
        query.ctes = std::mem::take(&mut level.ctes).into_iter().map(|state| state.cte).collect();
        query.recursive = level.recursive;
    }

    pub(crate) fn limit(&mut self, select: &protobuf::SelectStmt, query: &mut Query) -> Result<()> {
        query.limit_with_ties = select.limit_option == protobuf::LimitOption::WithTies as i32;
        let Some(node) = &select.limit_count else { return Ok(()) };
        let name = if query.limit_with_ties { "FETCH FIRST ... WITH TIES" } else { "LIMIT" };
        let _ = name;
        if query.limit_with_ties {
            if is_null(node) {
                return Err(err!(
                    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
                    "row count cannot be null in FETCH FIRST ... WITH TIES clause"
                ));
            }
            if query.sort.is_empty() {
                return Err(err!(SYNTAX_ERROR, "WITH TIES cannot be specified without ORDER BY clause"));
            }
            if let Some(NodeEnum::LockingClause(lock)) =
                select.locking_clause.first().and_then(|node| node.node.as_ref())
                && lock.wait_policy == protobuf::LockWaitPolicy::LockWaitSkip as i32
            {
                return Err(err!(
                    SYNTAX_ERROR,
                    "{} and {} options cannot be used together",
                    "SKIP LOCKED",
                    "WITH TIES"
                ));
            }
        }
        // LIMIT ALL and LIMIT NULL mean none.
        query.limit = Some(self.limit_clause(node, ExprKind::Limit, "LIMIT")?);
        Ok(())
    }

    pub(crate) fn limit_clause(&mut self, node: &Node, kind: ExprKind, construct: &str) -> Result<Expr> {
        let expr = self.expression_of_kind(Some(node), kind)?;
        let expr = self.coerce_to_specific(expr, types::INT8, construct)?;
        let mut location = None;
        crate::walk::deep(&expr, 0, &mut |expr, level| {
            if let Expr::Var(var) = expr
                && var.levels_up == level
                && location.is_none()
            {
                location = Some(var.location);
            }
        });
        if let Some(location) = location {
            return Err(err!(INVALID_COLUMN_REFERENCE, "argument of {construct} must not contain variables")
                .at(location));
        }
        Ok(expr)
    }

    // ----- VALUES

    fn values_statement(&mut self, select: &protobuf::SelectStmt) -> Result<Query> {
        let mut query = new_query(CommandType::Select);
        if let Some(with) = &select.with_clause {
            self.with_clause(with)?;
        }
        let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(select.values_lists.len());
        for list in &select.values_lists {
            let NodeEnum::List(list) = inner(list)? else {
                return Err(Error::internal("VALUES without a list"));
            };
            let row = self.value_list(&list.items, ExprKind::Values)?;
            if let Some(first) = rows.first()
                && first.len() != row.len()
            {
                return Err(err!(SYNTAX_ERROR, "VALUES lists must all be the same length")
                    .at(row.first().map_or(-1, expr_location)));
            }
            rows.push(row);
        }
        let width = rows.first().map_or(0, Vec::len);
        let mut columns = Vec::with_capacity(width);
        for index in 0..width {
            let refs: Vec<&Expr> = rows.iter().map(|row| &row[index]).collect();
            let common = self.select_common_type(&refs, Some("VALUES"))?.unwrap_or(types::TEXT);
            let typmod = self.select_common_typmod(&refs, common);
            for row in &mut rows {
                let value = std::mem::replace(&mut row[index], Expr::CurrentOf { cursor: Text::default() });
                row[index] = self.coerce_to_common(value, common, "VALUES")?;
            }
            let ty = cairn_catalog::TypeRef { typmod, ..self.lookup.type_ref(common) };
            columns.push(RangeColumn { name: format!("column{}", index + 1).into(), ty });
        }
        let mut lateral = false;
        for expr in rows.iter().flatten() {
            crate::walk::deep(expr, 0, &mut |expr, level| {
                lateral |= matches!(expr, Expr::Var(var) if var.levels_up == level);
            });
        }
        let alias: Text = "*VALUES*".into();
        let level = self.level();
        level.range_table.push(RangeTableEntry {
            kind: RangeTableKind::Values { rows },
            alias: alias.clone(),
            columns,
            lateral,
            in_from: true,
        });
        let index = level.range_table.len() - 1;
        level.namespace.push(NamespaceItem::whole(index, alias));
        query.from.push(JoinTree::Range(index));
        query.targets = self.star_targets(-1)?;
        query.sort = self.sort_clause(&select.sort_clause, &mut query.targets, ExprKind::OrderBy, true)?;
        query.offset = match &select.limit_offset {
            Some(node) => Some(self.limit_clause(node, ExprKind::Offset, "OFFSET")?),
            None => None,
        };
        self.limit(select, &mut query)?;
        if let Some(NodeEnum::LockingClause(lock)) =
            select.locking_clause.first().and_then(|node| node.node.as_ref())
        {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "{} cannot be applied to VALUES",
                super::clauses::lock_name(lock.strength)
            ));
        }
        self.finish_query(&mut query);
        self.take_range_table(&mut query);
        Ok(query)
    }

    /// One row of VALUES.
    pub(crate) fn value_list(&mut self, nodes: &[Node], kind: ExprKind) -> Result<Vec<Expr>> {
        let mut row = Vec::with_capacity(nodes.len());
        for node in nodes {
            match inner(node)? {
                NodeEnum::ColumnRef(column) if super::expression::ends_in_star(&column.fields) => {
                    row.extend(self.expand_star_reference(column)?.into_iter().map(|(expr, _)| expr));
                }
                NodeEnum::SetToDefault(default)
                    if kind == ExprKind::Values || kind == ExprKind::ValuesSingle =>
                {
                    if !self.level_ref().allows_default {
                        return Err(
                            err!(SYNTAX_ERROR, "DEFAULT is not allowed in this context").at(default.location)
                        );
                    }
                    row.push(Expr::Default {
                        ty: self.lookup.type_ref(types::UNKNOWN),
                        location: default.location,
                    });
                }
                other => row.push(self.expression(other, kind)?),
            }
        }
        Ok(row)
    }

    // ----- FOR UPDATE and its kin

    pub(crate) fn locking_clauses(&mut self, clauses: &[Node], query: &mut Query) -> Result<()> {
        for clause in clauses {
            let NodeEnum::LockingClause(clause) = inner(clause)? else {
                return Err(Error::internal("unrecognized locking clause"));
            };
            let strength = super::clauses::lock_strength(clause.strength)?;
            let wait = super::clauses::lock_wait(clause.wait_policy);
            let name = super::clauses::lock_name(clause.strength);
            check_lockable(query, name)?;
            let lock = Lock { strength, wait, name };
            if clause.locked_rels.is_empty() {
                lock_all(&mut self.level().range_table, &mut query.row_marks, &lock)?;
                continue;
            }
            for node in &clause.locked_rels {
                let NodeEnum::RangeVar(range) = inner(node)? else {
                    return Err(Error::internal("unrecognized locked relation"));
                };
                if !range.schemaname.is_empty() || !range.catalogname.is_empty() {
                    return Err(err!(SYNTAX_ERROR, "{name} must specify unqualified relation names")
                        .at(range.location));
                }
                let level = self.level();
                let found = level.range_table.iter().position(|entry| {
                    entry.in_from
                        && *entry.alias == *range.relname
                        && !(matches!(&entry.kind, RangeTableKind::Join { .. })
                            && &*entry.alias == "unnamed_join")
                });
                let Some(index) = found else {
                    return Err(err!(
                        UNDEFINED_TABLE,
                        "relation \"{}\" in {name} clause not found in FROM clause",
                        range.relname
                    )
                    .at(range.location));
                };
                let refuse = |what: &str| {
                    err!(FEATURE_NOT_SUPPORTED, "{name} cannot be applied to {what}").at(range.location)
                };
                match &mut level.range_table[index].kind {
                    RangeTableKind::Relation { .. } => add_mark(&mut query.row_marks, index, &lock),
                    RangeTableKind::Subquery { query: nested, view } => {
                        lock_subquery(nested, view.is_some(), &lock)?;
                        add_mark(&mut query.row_marks, index, &lock);
                    }
                    RangeTableKind::Join { .. } => return Err(refuse("a join")),
                    RangeTableKind::Function { .. } => return Err(refuse("a function")),
                    RangeTableKind::Values { .. } => return Err(refuse("VALUES")),
                    RangeTableKind::Cte { .. } => return Err(refuse("a WITH query")),
                    RangeTableKind::Result => return Err(refuse("a result")),
                }
            }
        }
        Ok(())
    }

    pub(crate) fn resolve_target_unknowns(&mut self, targets: &mut [TargetEntry]) -> Result<()> {
        for target in targets {
            if expr_type(&target.expr).oid == types::UNKNOWN {
                let expr = std::mem::replace(&mut target.expr, Expr::CurrentOf { cursor: Text::default() });
                target.expr = self.coerce_type(
                    expr,
                    types::UNKNOWN,
                    types::TEXT,
                    -1,
                    Coercion::Implicit,
                    CallForm::ImplicitCast,
                    -1,
                )?;
            }
        }
        Ok(())
    }

    /// A set-returning function or operator was met: is it welcome here? Errors: 0A000.
    pub(crate) fn note_set_returning(&mut self, location: Location) -> Result<()> {
        self.note_set_returning_function(location)
    }

    pub(crate) fn note_set_returning_function(&mut self, location: Location) -> Result<()> {
        let level = self.level();
        let kind = level.kind;
        match kind {
            ExprKind::SelectTarget | ExprKind::GroupBy | ExprKind::OrderBy | ExprKind::DistinctOn => {
                level.has_target_srfs = true;
                Ok(())
            }
            ExprKind::InsertTarget | ExprKind::FromFunction | ExprKind::Other | ExprKind::ValuesSingle => {
                level.has_target_srfs |= kind == ExprKind::ValuesSingle;
                Ok(())
            }
            ExprKind::WindowPartition
            | ExprKind::WindowOrder
            | ExprKind::WindowFrameRange
            | ExprKind::WindowFrameRows
            | ExprKind::WindowFrameGroups => Err(err!(
                FEATURE_NOT_SUPPORTED,
                "set-returning functions are not allowed in window definitions"
            )
            .at(location)),
            _ => Err(err!(
                FEATURE_NOT_SUPPORTED,
                "set-returning functions are not allowed in {}",
                kind.phrase()
            )
            .at(location)),
        }
    }
}

/// A clause that locks rows.
struct Lock {
    strength: LockStrength,
    wait: LockWait,
    /// As its writer calls it: `FOR UPDATE`.
    name: &'static str,
}

/// 0A000 if the query's rows are not rows of its tables, one for one.
fn check_lockable(query: &Query, name: &str) -> Result<()> {
    let refuse = |what: &str| err!(FEATURE_NOT_SUPPORTED, "{name} is not allowed with {what}");
    if query.set_operation.is_some() {
        return Err(refuse("UNION/INTERSECT/EXCEPT"));
    }
    if !matches!(query.distinct, Distinct::None) {
        return Err(refuse("DISTINCT clause"));
    }
    if !query.group.is_empty() || !query.grouping_sets.is_empty() {
        return Err(refuse("GROUP BY clause"));
    }
    if query.having.is_some() {
        return Err(refuse("HAVING clause"));
    }
    if query.has_aggregates {
        return Err(refuse("aggregate functions"));
    }
    if query.has_window_functions {
        return Err(refuse("window functions"));
    }
    if query.has_target_srfs {
        return Err(refuse("set-returning functions in the target list"));
    }
    Ok(())
}

fn add_mark(marks: &mut Vec<RowMark>, range: usize, lock: &Lock) {
    let Lock { strength, wait, .. } = *lock;
    if let Some(mark) = marks.iter_mut().find(|mark| mark.range == range) {
        // The strongest lock wins, and the most impatient wait.
        mark.strength = mark.strength.max(strength);
        let rank = |wait: LockWait| match wait {
            LockWait::Block => 0,
            LockWait::Skip => 1,
            LockWait::Error => 2,
        };
        if rank(wait) > rank(mark.wait) {
            mark.wait = wait;
        }
        return;
    }
    marks.push(RowMark { range, strength, wait });
}

/// Locks every table of a range table, those of its subqueries too.
fn lock_all(range_table: &mut [RangeTableEntry], marks: &mut Vec<RowMark>, lock: &Lock) -> Result<()> {
    for (index, entry) in range_table.iter_mut().enumerate() {
        if !entry.in_from {
            continue;
        }
        match &mut entry.kind {
            RangeTableKind::Relation { .. } => add_mark(marks, index, lock),
            RangeTableKind::Subquery { query, view } => {
                lock_subquery(query, view.is_some(), lock)?;
                add_mark(marks, index, lock);
            }
            RangeTableKind::Join { .. }
            | RangeTableKind::Function { .. }
            | RangeTableKind::Values { .. }
            | RangeTableKind::Cte { .. }
            | RangeTableKind::Result => {}
        }
    }
    Ok(())
}

/// Locks the tables that a subquery or a view reads.
fn lock_subquery(query: &mut Query, is_view: bool, lock: &Lock) -> Result<()> {
    // PostgreSQL passes a view that is a set operation by, and locks nothing in it.
    if !(is_view && query.set_operation.is_some()) {
        check_lockable(query, lock.name)?;
    }
    lock_all(&mut query.range_table, &mut query.row_marks, lock)
}

fn is_null(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::AConst(constant)) if constant.isnull)
}
