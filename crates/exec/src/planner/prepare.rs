//! Rewriting a query before it is planned: names of joins resolved, WITH queries and views put in place, simple
//! subqueries merged into the query around them, `exists` and `in` turned into joins.
//!
//! What comes out has the same meaning; every rewriting here says when it is allowed.

use std::sync::Arc;

use cairn_analyze::query::{
    CommandType, Cte, Distinct, Expr, JoinKind, JoinTree, Materialize, OperatorCall, Query, RangeColumn,
    RangeTableEntry, RangeTableKind, SetOperation, SubLink, SubLinkKind, TargetEntry, Var,
};
use cairn_types::{Result, types};

use super::Planner;
use super::conditions::{
    RelSet, check_size, conjuncts, for_each_subquery_mut, has_set_returning, has_sublink, outer_rels, rels,
};
use cairn_analyze::expr_type;
use cairn_analyze::walk;

/// FROM and WHERE: inner-joined items and the conditions on them.
#[derive(Clone, Debug, Default)]
pub struct FromTree {
    pub items: Vec<FromItem>,
    pub conditions: Vec<Expr>,
}

#[derive(Clone, Debug)]
pub enum FromItem {
    Range(usize),
    /// LEFT or FULL; RIGHT has been turned around.
    Outer {
        full: bool,
        left: Box<FromTree>,
        right: Box<FromTree>,
        conditions: Vec<Expr>,
    },
    /// Keeps rows of the other items that have (anti: have not) a partner here.
    Semi {
        anti: bool,
        right: Box<FromTree>,
        conditions: Vec<Expr>,
    },
}

impl FromTree {
    /// All entries below.
    pub fn rels(&self) -> RelSet {
        self.items.iter().fold(RelSet::EMPTY, |set, item| set.union(item.rels()))
    }
}

impl FromItem {
    pub fn rels(&self) -> RelSet {
        match self {
            FromItem::Range(range) => RelSet::of(*range),
            FromItem::Outer { left, right, .. } => left.rels().union(right.rels()),
            FromItem::Semi { right, .. } => right.rels(),
        }
    }
}

/// Moves references that leave the query by `delta` levels: columns, aggregates, WITH queries. `level`: how deep below the
/// moved piece we are.
fn shift_query(query: &mut Query, level: u32, delta: i64) {
    for entry in &mut query.range_table {
        if let RangeTableKind::Cte { levels_up, .. } = &mut entry.kind
            && *levels_up > level
        {
            *levels_up = (i64::from(*levels_up) + delta) as u32;
        }
    }
    walk::query_expressions_mut(query, &mut |expr| shift_expr(expr, level + 1, delta));
    walk::query_subqueries_mut(query, &mut |query| shift_query(query, level + 1, delta));
}

/// As [`shift_query`]: references with `levels_up >= level` leave the piece.
fn shift_expr(expr: &mut Expr, level: u32, delta: i64) {
    match expr {
        Expr::Var(var) if var.levels_up >= level => var.levels_up = (i64::from(var.levels_up) + delta) as u32,
        Expr::Aggregate(call) if call.levels_up >= level => {
            call.levels_up = (i64::from(call.levels_up) + delta) as u32;
        }
        _ => {}
    }
    walk::children_mut(expr, &mut |child| shift_expr(child, level, delta));
    if let Expr::SubLink(link) = expr {
        for entry in &mut link.query.range_table {
            if let RangeTableKind::Cte { levels_up, .. } = &mut entry.kind
                && *levels_up > level
            {
                *levels_up = (i64::from(*levels_up) + delta) as u32;
            }
        }
        walk::query_expressions_mut(&mut link.query, &mut |expr| shift_expr(expr, level + 1, delta));
        walk::query_subqueries_mut(&mut link.query, &mut |query| shift_query(query, level + 1, delta));
    }
}

/// Moves an expression `delta` levels deeper.
pub fn deepen(expr: &mut Expr, delta: u32) {
    if delta > 0 {
        shift_expr(expr, 0, delta.into());
    }
}

/// Replaces Vars of the query's own level, at any depth, where `f` says so; what it gives is at the query's level.
fn replace_vars(query: &mut Query, f: &dyn Fn(&Var) -> Option<Expr>) {
    fn in_expr(expr: &mut Expr, level: u32, f: &dyn Fn(&Var) -> Option<Expr>) {
        if let Expr::Var(var) = expr {
            if var.levels_up == level {
                let mut own = var.clone();
                own.levels_up = 0;
                if let Some(mut new) = f(&own) {
                    deepen(&mut new, level);
                    *expr = new;
                }
            }
            return;
        }
        walk::children_mut(expr, &mut |child| in_expr(child, level, f));
        if let Expr::SubLink(link) = expr {
            in_query(&mut link.query, level + 1, f);
        }
    }
    fn in_query(query: &mut Query, level: u32, f: &dyn Fn(&Var) -> Option<Expr>) {
        walk::query_expressions_mut(query, &mut |expr| in_expr(expr, level, f));
        walk::query_subqueries_mut(query, &mut |query| in_query(query, level + 1, f));
    }
    in_query(query, 0, f);
}

fn replace_vars_in_expr(expr: &mut Expr, f: &dyn Fn(&Var) -> Option<Expr>) {
    if let Expr::Var(var) = expr {
        if var.levels_up == 0
            && let Some(new) = f(var)
        {
            *expr = new;
        }
        return;
    }
    walk::children_mut(expr, &mut |child| replace_vars_in_expr(child, f));
}

/// Replaces Vars of any level, outside of subqueries, where `f` says so.
pub fn map_vars(expr: &mut Expr, f: &mut dyn FnMut(&Var) -> Option<Expr>) {
    if let Expr::Var(var) = expr {
        if let Some(new) = f(var) {
            *expr = new;
        }
        return;
    }
    walk::children_mut(expr, &mut |child| map_vars(child, f));
}

/// Columns of joins become the expressions that they stand for.
fn flatten_joins(query: &mut Query) {
    // Inner joins come before the joins over them, so one pass from the front resolves nested ones.
    let mut columns: Vec<Option<Vec<Expr>>> = Vec::with_capacity(query.range_table.len());
    for entry in &query.range_table {
        columns.push(match &entry.kind {
            RangeTableKind::Join { columns: list, .. } => {
                let mut list = list.clone();
                for expr in &mut list {
                    replace_vars_in_expr(expr, &|var| join_column(&columns, var));
                }
                Some(list)
            }
            _ => None,
        });
    }
    if columns.iter().all(Option::is_none) {
        return;
    }
    let names: Vec<Vec<cairn_types::Text>> = query
        .range_table
        .iter()
        .map(|entry| entry.columns.iter().map(|column| Arc::clone(&column.name)).collect())
        .collect();
    replace_vars(query, &|var| {
        if var.attno == 0 {
            let fields = columns.get(var.varno)?.as_ref()?.clone();
            return Some(Expr::Row {
                fields,
                names: names.get(var.varno)?.clone(),
                ty: var.ty,
                form: cairn_analyze::query::CallForm::ImplicitCast,
                location: var.location,
            });
        }
        join_column(&columns, var)
    });
}

fn join_column(columns: &[Option<Vec<Expr>>], var: &Var) -> Option<Expr> {
    let list = columns.get(var.varno)?.as_ref()?;
    list.get((var.attno as usize).checked_sub(1)?).cloned()
}

/// Whether nothing but FROM, WHERE and the select list is there.
fn is_plain(query: &Query) -> bool {
    query.command == CommandType::Select
        && query.group.is_empty()
        && query.grouping_sets.is_empty()
        && query.having.is_none()
        && !query.has_aggregates
        && !query.has_window_functions
        && !query.has_target_srfs
        && query.windows.is_empty()
        && matches!(query.distinct, Distinct::None)
        && query.limit.is_none()
        && query.offset.is_none()
        && query.row_marks.is_empty()
        && query.set_operation.is_none()
        && query.ctes.is_empty()
}

/// The target entries that are output columns.
fn outputs(query: &Query) -> impl Iterator<Item = &TargetEntry> {
    query.targets.iter().filter(|target| !target.junk)
}

fn and(conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 => None,
        1 => conditions.into_iter().next(),
        _ => Some(Expr::And(conditions)),
    }
}

impl Planner<'_> {
    /// All rewritings of one level. The FROM tree that comes out says the whole of FROM and WHERE.
    pub(crate) fn prepare(&self, query: &Query) -> Result<(Query, FromTree)> {
        let mut query = query.clone();
        self.inline_ctes(&mut query);
        flatten_joins(&mut query);
        if query.set_operation.is_none() {
            self.pull_up_subqueries(&mut query)?;
        }
        let mut tree = self.join_items(&query);
        if let Some(filter) = query.filter.clone() {
            conjuncts(filter, &mut tree.conditions);
        }
        self.sublinks_to_joins(&mut query, &mut tree)?;
        self.reduce_outer_joins(&mut tree);
        check_size(&query)?;
        Ok((query, tree))
    }

    fn join_items(&self, query: &Query) -> FromTree {
        let mut tree = FromTree::default();
        for item in &query.from {
            self.add_join_tree(query, item, &mut tree);
        }
        // The target of UPDATE and DELETE is scanned whether or not FROM names it.
        if let Some(target) = query.result_relation
            && query.command != CommandType::Insert
            && !tree.rels().overlaps(RelSet::of(target))
        {
            tree.items.insert(0, FromItem::Range(target));
        }
        tree
    }

    fn add_join_tree(&self, query: &Query, item: &JoinTree, tree: &mut FromTree) {
        match item {
            JoinTree::Range(range) => {
                if !matches!(query.range_table[*range].kind, RangeTableKind::Result) {
                    tree.items.push(FromItem::Range(*range));
                }
            }
            JoinTree::Join { kind: JoinKind::Inner, left, right, condition, .. } => {
                self.add_join_tree(query, left, tree);
                self.add_join_tree(query, right, tree);
                if let Some(condition) = condition {
                    conjuncts(condition.clone(), &mut tree.conditions);
                }
            }
            JoinTree::Join { kind, left, right, condition, .. } => {
                let (left, right) = if *kind == JoinKind::Right { (right, left) } else { (left, right) };
                let mut sides = [FromTree::default(), FromTree::default()];
                self.add_join_tree(query, left, &mut sides[0]);
                self.add_join_tree(query, right, &mut sides[1]);
                let [left, right] = sides;
                let mut conditions = Vec::new();
                if let Some(condition) = condition {
                    conjuncts(condition.clone(), &mut conditions);
                }
                tree.items.push(FromItem::Outer {
                    full: *kind == JoinKind::Full,
                    left: Box::new(left),
                    right: Box::new(right),
                    conditions,
                });
            }
        }
    }

    /// WITH queries that are read once and have no effects are planned where they are read, as PostgreSQL 12 and
    /// later do.
    fn inline_ctes(&self, query: &mut Query) {
        let mut index = 0;
        while index < query.ctes.len() {
            let cte = &query.ctes[index];
            let wanted = match cte.materialized {
                Materialize::Default => cte.references == 1,
                Materialize::Never => true,
                Materialize::Always => false,
            };
            let possible = !cte.recursive
                && cte.query.command == CommandType::Select
                && cte.query.row_marks.is_empty()
                && !has_modifying_cte(&cte.query)
                && !self.query_is_volatile(&cte.query);
            // What nobody reads is not computed.
            let unread = cte.references == 0 && cte.query.command == CommandType::Select && !cte.recursive;
            if unread {
                query.ctes.remove(index);
            } else if wanted && possible {
                let cte = query.ctes.remove(index);
                inline_in(query, &cte, 0);
            } else {
                index += 1;
            }
        }
    }

    /// Merges simple subqueries of FROM (views, mostly) into the query.
    fn pull_up_subqueries(&self, query: &mut Query) -> Result<()> {
        let from = std::mem::take(&mut query.from);
        let mut result = Vec::with_capacity(from.len());
        for item in from {
            result.push(self.pull_up_item(query, item, false)?);
        }
        query.from = result;
        Ok(())
    }

    fn pull_up_item(&self, query: &mut Query, item: JoinTree, nullable: bool) -> Result<JoinTree> {
        match item {
            JoinTree::Join { kind, left, right, condition, range } => {
                let (left_null, right_null) = match kind {
                    JoinKind::Inner => (nullable, nullable),
                    JoinKind::Left => (nullable, true),
                    JoinKind::Right => (true, nullable),
                    JoinKind::Full => (true, true),
                };
                // The condition is part of the query while the sides are rewritten, so that their columns are replaced
                // in it too.
                let slot = query.from.len();
                query.from.push(JoinTree::Join {
                    kind,
                    left: Box::new(JoinTree::Range(usize::MAX)),
                    right: Box::new(JoinTree::Range(usize::MAX)),
                    condition,
                    range,
                });
                let left = self.pull_up_item(query, *left, left_null)?;
                // Likewise the left side, which the right one's columns may occur in only laterally: it has none.
                query.from.push(left);
                let right = self.pull_up_item(query, *right, right_null)?;
                let left = query.from.pop();
                query.from.truncate(slot + 1);
                match (query.from.pop(), left) {
                    (Some(JoinTree::Join { kind, condition, range, .. }), Some(left)) => Ok(JoinTree::Join {
                        kind,
                        left: Box::new(left),
                        right: Box::new(right),
                        condition,
                        range,
                    }),
                    _ => Err(cairn_types::Error::internal("join tree lost while pulling up")),
                }
            }
            JoinTree::Range(range) => {
                let Some(RangeTableEntry {
                    kind: RangeTableKind::Subquery { query: subquery, .. },
                    lateral,
                    ..
                }) = query.range_table.get(range)
                else {
                    return Ok(JoinTree::Range(range));
                };
                if !self.can_pull_up(subquery, nullable, *lateral) {
                    return Ok(JoinTree::Range(range));
                }
                let mut subquery = (**subquery).clone();
                self.inline_ctes(&mut subquery);
                flatten_joins(&mut subquery);
                let tree = self.merge(query, range, subquery);
                // The merged items may be subqueries themselves.
                self.pull_up_item(query, tree, nullable)
            }
        }
    }

    fn can_pull_up(&self, subquery: &Query, nullable: bool, lateral: bool) -> bool {
        is_plain(subquery)
            && subquery.sort.is_empty()
            && subquery.range_table.len() <= 64
            && outputs(subquery).all(|target| {
                !self.is_volatile(&target.expr)
                    && !has_set_returning(&target.expr)
                    // A computed column of the nullable side must become null with it.
                    && (!nullable || matches!(&target.expr, Expr::Var(var) if var.levels_up == 0))
            })
            && !(nullable && (subquery.from.is_empty() || lateral))
    }

    /// Replaces entry `range` by the contents of its subquery.
    fn merge(&self, query: &mut Query, range: usize, mut subquery: Query) -> JoinTree {
        let offset = query.range_table.len();
        // References out of the subquery come one level nearer, its own entries get new numbers.
        let renumber = |expr: &mut Expr| {
            walk::deep_mut(expr, 0, &mut |expr, level| match expr {
                Expr::Var(var) if var.levels_up == level => var.varno += offset,
                Expr::Var(var) if var.levels_up > level => var.levels_up -= 1,
                Expr::Aggregate(call) if call.levels_up > level => call.levels_up -= 1,
                _ => {}
            });
        };
        // Vars of the level around must not be renumbered, those of the subquery must: one visitor does both, because
        // it sees each Var once.
        walk::query_expressions_mut(&mut subquery, &mut |expr| renumber(expr));
        for entry in &mut subquery.range_table {
            match &mut entry.kind {
                RangeTableKind::Subquery { query: nested, .. } => {
                    walk::deep_query_mut(nested, 1, &mut |expr, level| match expr {
                        Expr::Var(var) if var.levels_up == level => var.varno += offset,
                        Expr::Var(var) if var.levels_up > level => var.levels_up -= 1,
                        Expr::Aggregate(call) if call.levels_up > level => call.levels_up -= 1,
                        _ => {}
                    });
                    lower_cte_references(nested, 1);
                }
                RangeTableKind::Cte { levels_up, .. } if *levels_up > 0 => *levels_up -= 1,
                RangeTableKind::Join { left, right, .. } => {
                    *left += offset;
                    *right += offset;
                }
                _ => {}
            }
        }
        walk::query_expressions_mut(&mut subquery, &mut |expr| lower_cte_references_in_sublinks(expr, 1));
        let targets: Vec<Expr> = outputs(&subquery).map(|target| target.expr.clone()).collect();
        let names: Vec<cairn_types::Text> =
            outputs(&subquery).map(|target| Arc::clone(&target.name)).collect();
        let lateral_parent = query.range_table[range].lateral;
        for mut entry in subquery.range_table {
            entry.lateral |= lateral_parent && !matches!(entry.kind, RangeTableKind::Relation { .. });
            query.range_table.push(entry);
        }
        let mut items: Vec<JoinTree> =
            subquery.from.into_iter().map(|item| renumber_tree(item, offset)).collect();
        // A condition hangs on a join: there must be one.
        while items.is_empty() || (subquery.filter.is_some() && items.len() < 2) {
            query.range_table.push(RangeTableEntry {
                kind: RangeTableKind::Result,
                alias: "*RESULT*".into(),
                columns: Vec::new(),
                lateral: false,
                in_from: true,
            });
            items.push(JoinTree::Range(query.range_table.len() - 1));
        }
        let mut tree = items.remove(0);
        let mut filter = subquery.filter;
        let count = items.len();
        for (index, right) in items.into_iter().enumerate() {
            tree = JoinTree::Join {
                kind: JoinKind::Inner,
                left: Box::new(tree),
                right: Box::new(right),
                condition: if index + 1 == count { filter.take() } else { None },
                range: usize::MAX,
            };
        }
        // The entry stays, unused, so that the numbers of the others hold.
        query.range_table[range].kind = RangeTableKind::Result;
        query.range_table[range].in_from = false;
        replace_vars(query, &|var| {
            if var.varno != range {
                return None;
            }
            if var.attno == 0 {
                return Some(Expr::Row {
                    fields: targets.clone(),
                    names: names.clone(),
                    ty: var.ty,
                    form: cairn_analyze::query::CallForm::ImplicitCast,
                    location: var.location,
                });
            }
            targets.get((var.attno as usize).checked_sub(1)?).cloned()
        });
        tree
    }

    /// `exists (...)`, `x in (...)` among the conjuncts become semi joins, `not exists (...)` anti joins.
    fn sublinks_to_joins(&self, query: &mut Query, tree: &mut FromTree) -> Result<()> {
        let conditions = std::mem::take(&mut tree.conditions);
        for condition in conditions {
            let (link, anti) = match &condition {
                Expr::SubLink(link) => (link, false),
                Expr::Not(inner) => match &**inner {
                    Expr::SubLink(link) => (link, true),
                    _ => {
                        tree.conditions.push(condition);
                        continue;
                    }
                },
                _ => {
                    tree.conditions.push(condition);
                    continue;
                }
            };
            let item = match &link.kind {
                SubLinkKind::Exists => self.exists_to_join(query, link, anti),
                SubLinkKind::Any(_) if !anti => self.any_to_join(query, link),
                _ => None,
            };
            match item {
                Some(item) if !tree.items.is_empty() => tree.items.push(item),
                _ => tree.conditions.push(condition),
            }
        }
        Ok(())
    }

    fn exists_to_join(&self, query: &mut Query, link: &SubLink, anti: bool) -> Option<FromItem> {
        let mut subquery = link.query.clone();
        self.inline_ctes(&mut subquery);
        flatten_joins(&mut subquery);
        // EXISTS does not look at the select list, nor at the order; a constant limit above 0 means nothing.
        let limited = match &subquery.limit {
            None => false,
            Some(Expr::Const { value: cairn_types::Datum::Int8(count), .. }) => *count <= 0,
            Some(_) => true,
        };
        if limited || subquery.offset.is_some() {
            return None;
        }
        subquery.limit = None;
        subquery.sort.clear();
        if !matches!(subquery.distinct, Distinct::On(_)) {
            subquery.distinct = Distinct::None;
        }
        if !is_plain(&subquery) || subquery.from.is_empty() {
            return None;
        }
        if subquery.filter.as_ref().is_some_and(|filter| self.is_volatile(filter)) {
            return None;
        }
        // Only WHERE may look outside, and it must: an uncorrelated EXISTS is one InitPlan.
        let filter = subquery.filter.take();
        subquery.targets.clear();
        if super::conditions::is_correlated(&subquery) || !filter.as_ref().is_some_and(refers_outside) {
            return None;
        }
        if query.range_table.len() + subquery.range_table.len() > 100 {
            return None;
        }
        Some(self.merge_semi(query, subquery, filter, Vec::new(), anti))
    }

    /// The subquery's FROM as the right side of a semi join; `conditions` are over the merged level already.
    fn merge_semi(
        &self,
        query: &mut Query,
        mut subquery: Query,
        filter: Option<Expr>,
        mut conditions: Vec<Expr>,
        anti: bool,
    ) -> FromItem {
        // Merged like a subquery in FROM, under an entry of its own that nobody refers to.
        let range = query.range_table.len();
        query.range_table.push(RangeTableEntry {
            kind: RangeTableKind::Result,
            alias: "*EXISTS*".into(),
            columns: Vec::new(),
            lateral: false,
            in_from: false,
        });
        let offset = query.range_table.len();
        if let Some(mut filter) = filter {
            walk::deep_mut(&mut filter, 0, &mut |expr, level| match expr {
                Expr::Var(var) if var.levels_up == level => var.varno += offset,
                Expr::Var(var) if var.levels_up > level => var.levels_up -= 1,
                Expr::Aggregate(call) if call.levels_up > level => call.levels_up -= 1,
                _ => {}
            });
            lower_cte_references_in_sublinks(&mut filter, 1);
            conjuncts(filter, &mut conditions);
        }
        subquery.filter = None;
        let tree = self.merge(query, range, subquery);
        let mut right = FromTree::default();
        self.add_join_tree(query, &tree, &mut right);
        FromItem::Semi { anti, right: Box::new(right), conditions }
    }

    fn any_to_join(&self, query: &mut Query, link: &SubLink) -> Option<FromItem> {
        let SubLinkKind::Any(comparison) = &link.kind else { return None };
        if comparison.use_or || comparison.row_strategy.is_some() {
            return None;
        }
        if comparison.left.iter().any(|left| self.is_volatile(left) || has_sublink(left))
            || comparison.left.iter().all(|left| rels(left).is_empty())
        {
            return None;
        }
        if super::conditions::is_correlated(&link.query) {
            return None;
        }
        let range = query.range_table.len();
        if range > 90 {
            return None;
        }
        let columns: Vec<RangeColumn> = outputs(&link.query)
            .map(|target| RangeColumn { name: Arc::clone(&target.name), ty: expr_type(&target.expr) })
            .collect();
        let mut conditions = Vec::new();
        for (index, (left, (operator, function))) in
            comparison.left.iter().zip(&comparison.operators).enumerate()
        {
            let column = columns.get(index)?;
            let mut right = Expr::Var(Var {
                varno: range,
                attno: index as i16 + 1,
                levels_up: 0,
                ty: column.ty,
                location: link.location,
            });
            if let Some(cast) = comparison.right_casts.get(index) {
                let mut cast = cast.clone();
                substitute_test_value(&mut cast, &right);
                right = cast;
            }
            conditions.push(Expr::Operator(Box::new(OperatorCall {
                operator: *operator,
                function: *function,
                args: vec![left.clone(), right],
                ty: cairn_catalog::TypeRef { oid: types::BOOL, typmod: -1, collation: 0 },
                returns_set: false,
                collation: comparison.collation,
                location: link.location,
            })));
        }
        query.range_table.push(RangeTableEntry {
            kind: RangeTableKind::Subquery { query: Box::new(link.query.clone()), view: None },
            alias: "ANY_subquery".into(),
            columns,
            lateral: false,
            in_from: true,
        });
        // Merged if it is simple; the conditions are rewritten along by being part of the query meanwhile.
        let saved = query.filter.take();
        query.filter = Some(Expr::And(conditions));
        let tree = self.pull_up_item(query, JoinTree::Range(range), false).ok()?;
        let mut conditions = Vec::new();
        if let Some(filter) = std::mem::replace(&mut query.filter, saved) {
            conjuncts(filter, &mut conditions);
        }
        let mut right = FromTree::default();
        self.add_join_tree(query, &tree, &mut right);
        Some(FromItem::Semi { anti: false, right: Box::new(right), conditions })
    }

    /// An outer join whose null-extended rows are thrown away by a condition above is an inner join.
    fn reduce_outer_joins(&self, tree: &mut FromTree) {
        loop {
            let conditions = &tree.conditions;
            let reducible = tree.items.iter().position(|item| match item {
                FromItem::Outer { full: false, right, .. } => {
                    let nullable = right.rels();
                    conditions.iter().any(|condition| self.rejects_nulls(condition, nullable))
                }
                _ => false,
            });
            match reducible.map(|position| tree.items.remove(position)) {
                Some(FromItem::Outer { left, right, conditions, .. }) => {
                    for side in [*left, *right] {
                        tree.items.extend(side.items);
                        tree.conditions.extend(side.conditions);
                    }
                    tree.conditions.extend(conditions);
                }
                Some(other) => tree.items.push(other),
                None => break,
            }
        }
        for item in &mut tree.items {
            if let FromItem::Outer { left, right, .. } = item {
                self.reduce_outer_joins(left);
                self.reduce_outer_joins(right);
            }
        }
    }
}

fn refers_outside(expr: &Expr) -> bool {
    let mut found = false;
    walk::deep(expr, 0, &mut |expr, level| {
        if let Expr::Var(var) = expr {
            found |= var.levels_up == level + 1;
        }
    });
    found
}

fn has_modifying_cte(query: &Query) -> bool {
    query.ctes.iter().any(|cte| cte.query.command != CommandType::Select || has_modifying_cte(&cte.query))
}

/// References to WITH queries outside the piece come one level nearer.
fn lower_cte_references(query: &mut Query, level: u32) {
    for entry in &mut query.range_table {
        if let RangeTableKind::Cte { levels_up, .. } = &mut entry.kind
            && *levels_up > level
        {
            *levels_up -= 1;
        }
    }
    for_each_subquery_mut(query, &mut |nested| lower_cte_references(nested, level + 1));
}

fn lower_cte_references_in_sublinks(expr: &mut Expr, level: u32) {
    if let Expr::SubLink(link) = expr {
        lower_cte_references(&mut link.query, level);
    }
    walk::children_mut(expr, &mut |child| lower_cte_references_in_sublinks(child, level));
}

/// Puts a WITH query in the place of its references.
fn inline_in(query: &mut Query, cte: &Cte, level: u32) {
    for entry in &mut query.range_table {
        let RangeTableKind::Cte { name, levels_up, self_reference: false } = &entry.kind else { continue };
        if *levels_up != level || *name != cte.name {
            continue;
        }
        let mut body = cte.query.clone();
        if level > 0 {
            shift_query(&mut body, 0, level.into());
        }
        entry.kind = RangeTableKind::Subquery { query: body, view: None };
    }
    // An inner WITH of the same name hides this one: the analyzer gave its references other levels.
    for_each_subquery_mut(query, &mut |nested| inline_in(nested, cte, level + 1));
}

fn renumber_tree(tree: JoinTree, offset: usize) -> JoinTree {
    match tree {
        JoinTree::Range(range) => JoinTree::Range(range + offset),
        JoinTree::Join { kind, left, right, condition, range } => JoinTree::Join {
            kind,
            left: Box::new(renumber_tree(*left, offset)),
            right: Box::new(renumber_tree(*right, offset)),
            condition,
            range: range.saturating_add(offset),
        },
    }
}

/// Puts an expression in the place of the test value.
pub fn substitute_test_value(expr: &mut Expr, value: &Expr) {
    if matches!(expr, Expr::TestValue { .. }) {
        *expr = value.clone();
        return;
    }
    // An array cast and a case have test values of their own.
    match expr {
        Expr::ArrayCoerce { arg, .. } => substitute_test_value(arg, value),
        other => walk::children_mut(other, &mut |child| substitute_test_value(child, value)),
    }
}

/// The leaves of a set operation.
pub fn leaves(operation: &SetOperation, out: &mut Vec<usize>) {
    match operation {
        SetOperation::Leaf(range) => out.push(*range),
        SetOperation::Node { left, right, .. } => {
            leaves(left, out);
            leaves(right, out);
        }
    }
}

/// A condition list as one expression.
pub fn conjunction(conditions: Vec<Expr>) -> Option<Expr> {
    and(conditions)
}

/// Entries around that a lateral entry needs.
pub fn lateral_rels(entry: &RangeTableEntry) -> RelSet {
    match &entry.kind {
        RangeTableKind::Subquery { query, .. } => outer_rels(query),
        RangeTableKind::Function { functions, .. } => {
            functions.iter().fold(RelSet::EMPTY, |set, function| set.union(rels(&function.call)))
        }
        RangeTableKind::Values { rows } => {
            rows.iter().flatten().fold(RelSet::EMPTY, |set, expr| set.union(rels(expr)))
        }
        RangeTableKind::Relation { .. }
        | RangeTableKind::Join { .. }
        | RangeTableKind::Cte { .. }
        | RangeTableKind::Result => RelSet::EMPTY,
    }
}
