//! The steps of one SELECT over its FROM: grouping, window functions, set-returning functions, DISTINCT, ORDER BY, row locks,
//! LIMIT, output.

use std::sync::Arc;

use cairn_analyze::query::{Distinct, Expr, Query, SortGroupClause, TargetEntry};
use cairn_types::key::ColumnOrder;
use cairn_types::{Datum, Error, Result};

use super::conditions::{RelSet, conjuncts, has_set_returning, rels};
use super::estimate::{clamp_rows, sort_cost};
use super::join::{Wish, is_blank_padded};
use super::path::OrderKey;
use super::prepare::{FromItem, FromTree, conjunction};
use super::{Planned, Planner};
use crate::expr::Code;
use crate::node::PlanTree;
use crate::nodes::append::Project;
use crate::nodes::distinct::Distinct as DistinctNode;
use crate::nodes::limit::Limit;
use crate::nodes::project_set::{ProjectSet, SetCall};
use crate::nodes::sort::Sort;
use cairn_analyze::expr_type;
use cairn_analyze::walk;

/// A plan under construction with what is known of its rows.
pub(crate) struct Stream {
    pub tree: PlanTree,
    /// Registers that whoever keeps rows must save.
    pub live: Vec<usize>,
    pub order: Vec<OrderKey>,
    pub constants: Vec<Expr>,
}

/// Adds conjuncts to a query's WHERE, or to its HAVING where it groups: there they are over group keys.
pub(crate) fn add_conditions(query: &mut Query, conditions: Vec<Expr>) {
    if conditions.is_empty() {
        return;
    }
    // A condition on group keys may be checked before grouping as well: it removes whole groups.
    let mut all = Vec::new();
    if let Some(filter) = query.filter.take() {
        conjuncts(filter, &mut all);
    }
    all.extend(conditions);
    query.filter = conjunction(all);
}

pub(crate) fn target_of<'q>(query: &'q Query, clause: &SortGroupClause) -> Result<&'q TargetEntry> {
    query
        .targets
        .iter()
        .find(|target| target.sort_group_ref == clause.target && clause.target > 0)
        .ok_or_else(|| Error::internal("ORDER BY or GROUP BY names no target"))
}

impl Planner<'_> {
    /// Enters a query and plans its FROM and WHERE: after each row the registers hold the joined row.
    pub fn plan_source(&mut self, query: &Query) -> Result<PlanTree> {
        self.enter(query)?;
        let wish = Wish { fraction: 1.0, ..Wish::default() };
        Ok(self.source(&wish)?.tree)
    }

    fn source(&mut self, wish: &Wish) -> Result<Stream> {
        let from = Arc::clone(&self.level().from);
        let mut wish = wish.clone();
        wish.constants = super::join::constants(&from.conditions, self);
        let path = self.plan_from(&from, &wish)?;
        let tree = self.build(&path)?;
        let live = self.registers_of(path.rels);
        Ok(Stream { tree, live, order: path.order, constants: wish.constants })
    }

    /// The conditions of WHERE and of joins that look at an entry, for the re-check of a row that changed while it was
    /// being locked: compiled over the registers.
    pub fn recheck_condition(&mut self, range: usize) -> Result<Option<Code>> {
        let mut found = Vec::new();
        collect_conditions(&self.level().from, RelSet::of(range), &mut found);
        match conjunction(found) {
            Some(expr) => Ok(Some(self.compile(&expr)?)),
            None => Ok(None),
        }
    }

    pub(crate) fn plan_select(&mut self, query: &Query) -> Result<Planned> {
        if let Some(rewritten) = self.min_max_by_index(query)? {
            return self.plan_plain_select(&rewritten);
        }
        self.plan_plain_select(query)
    }

    fn plan_plain_select(&mut self, query: &Query) -> Result<Planned> {
        let query = self.enter(query)?;
        if query.set_operation.is_some() {
            return self.plan_set_query(&query);
        }
        let wish = self.wish(&query)?;
        let mut stream = self.source(&wish)?;
        if query.has_aggregates
            || !query.group.is_empty()
            || !query.grouping_sets.is_empty()
            || query.having.is_some()
        {
            stream = self.plan_aggregation(stream, &query)?;
        }
        self.finish_select(stream, &query)
    }

    /// Everything above grouping.
    pub(crate) fn finish_select(&mut self, mut stream: Stream, query: &Arc<Query>) -> Result<Planned> {
        if query.has_window_functions {
            stream = self.plan_windows(stream, query)?;
        }
        stream = self.plan_set_returning(stream, query)?;
        match &query.distinct {
            Distinct::None => {
                stream = self.plan_sort(stream, query, &query.sort)?;
            }
            Distinct::All(_) => {
                stream = self.plan_distinct(stream, query)?;
                stream = self.plan_sort(stream, query, &query.sort)?;
            }
            Distinct::On(clauses) => {
                let sort = if query.sort.is_empty() { clauses } else { &query.sort };
                stream = self.plan_sort(stream, query, sort)?;
                let mut registers = Vec::new();
                let mut blank_padded = Vec::new();
                for clause in clauses {
                    let target = target_of(query, clause)?.expr.clone();
                    blank_padded.push(is_blank_padded(self, &target));
                    registers.push(self.in_register(&mut stream, &target)?);
                }
                stream.tree = self.node(
                    DistinctNode { registers, blank_padded, sorted: true, key_texts: Vec::new() },
                    vec![stream.tree],
                );
            }
        }
        if !query.row_marks.is_empty() {
            stream.tree = crate::dml::plan_lock_rows(self, stream.tree, query)?;
        }
        if query.limit.is_some() || query.offset.is_some() {
            stream = self.plan_limit(stream, query)?;
        }
        let mut outputs = Vec::new();
        for target in query.targets.iter().filter(|target| !target.junk) {
            outputs.push(self.compile(&target.expr)?);
        }
        stream.tree.width = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| {
                self.known_width(&target.expr).unwrap_or_else(|| self.type_width(expr_type(&target.expr)))
            })
            .sum();
        Ok(Planned { tree: stream.tree, outputs })
    }

    /// What the query would like of its FROM.
    fn wish(&mut self, query: &Query) -> Result<Wish> {
        let mut wish = Wish { fraction: 1.0, ..Wish::default() };
        let grouped = query.has_aggregates || !query.group.is_empty();
        if !query.grouping_sets.is_empty() || query.has_window_functions || query.has_target_srfs {
            return Ok(wish);
        }
        let mut order = Vec::new();
        let clauses: Vec<&SortGroupClause> = match &query.distinct {
            Distinct::On(on) if query.sort.is_empty() => on.iter().collect(),
            Distinct::All(_) => Vec::new(),
            _ => query.sort.iter().collect(),
        };
        for clause in clauses {
            let target = target_of(query, clause)?;
            if grouped && !query.group.iter().any(|group| group.target == clause.target) {
                return Ok(wish);
            }
            order.push(OrderKey {
                expr: target.expr.clone(),
                descending: clause.descending,
                nulls_first: clause.nulls_first,
            });
        }
        for clause in &query.group {
            let target = target_of(query, clause)?;
            if !order.iter().any(|key| crate::expr::equal::same(&key.expr, &target.expr)) {
                order.push(OrderKey {
                    expr: target.expr.clone(),
                    descending: clause.descending,
                    nulls_first: clause.nulls_first,
                });
            }
        }
        if order.iter().any(|key| self.is_volatile(&key.expr)) {
            order.clear();
        }
        // Without ORDER BY groups are hashed where they do not come in order.
        wish.hashable = grouped && query.sort.is_empty();
        wish.order = order;
        if let Some(limit) = &query.limit
            && matches!(query.distinct, Distinct::None)
            && !(grouped && query.group.is_empty())
        {
            let number = |expr: &Expr| match expr {
                Expr::Const { value: Datum::Int8(value), .. } => Some(*value as f64),
                _ => None,
            };
            match (number(limit), query.offset.as_ref().map(&number)) {
                (Some(limit), None) => wish.rows = Some(limit.max(1.0)),
                (Some(limit), Some(Some(offset))) => wish.rows = Some((limit + offset).max(1.0)),
                _ => wish.fraction = 0.1,
            }
            if grouped {
                // A group takes several rows.
                wish.rows = wish.rows.map(|rows| rows * 10.0);
            }
        }
        Ok(wish)
    }

    /// The register that holds an expression's value from here on; computed by a node of its own if it has none yet.
    pub(crate) fn in_register(&mut self, stream: &mut Stream, expr: &Expr) -> Result<usize> {
        match self.compile(expr)? {
            Code::Register(register) if stream.live.contains(&register) => Ok(register),
            code => {
                let register = self.register();
                let child = std::mem::replace(&mut stream.tree, super::path::placeholder());
                let (rows, width) = (child.rows, child.width);
                stream.tree = self.node(
                    Project {
                        computed: vec![(register, code)],
                        filter: None,
                        reset_ctes: Vec::new(),
                        alias: String::new(),
                        filter_text: String::new(),
                    },
                    vec![child],
                );
                stream.tree.rows = rows;
                stream.tree.width = width;
                stream.live.push(register);
                // Rows that are locked later may change: what they are sorted by is computed again for the output.
                if self.level().query.row_marks.is_empty() || self.is_volatile(expr) {
                    self.level_mut().stage.computed.push((expr.clone(), register));
                }
                Ok(register)
            }
        }
    }

    /// Sorts by clauses of the query, if the rows do not come so already.
    pub(crate) fn plan_sort(
        &mut self,
        mut stream: Stream,
        query: &Query,
        clauses: &[SortGroupClause],
    ) -> Result<Stream> {
        if clauses.is_empty() {
            return Ok(stream);
        }
        let mut wanted = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let target = target_of(query, clause)?;
            wanted.push(OrderKey {
                expr: target.expr.clone(),
                descending: clause.descending,
                nulls_first: clause.nulls_first,
            });
        }
        let wish = Wish { order: wanted.clone(), constants: stream.constants.clone(), ..Wish::default() };
        if self.satisfies(&stream.order, &wish) && !wanted.iter().any(|key| self.is_volatile(&key.expr)) {
            return Ok(stream);
        }
        let bound = if query.limit_with_ties
            || !query.row_marks.is_empty()
            || matches!(query.distinct, Distinct::On(_))
        {
            None
        } else {
            match &query.limit {
                Some(limit) if !self.is_volatile(limit) => {
                    let limit = self.compile(limit)?;
                    let offset = query.offset.as_ref().map(|offset| self.compile(offset)).transpose()?;
                    Some((limit, offset))
                }
                _ => None,
            }
        };
        self.sort_by(stream.take(), wanted, bound)
    }

    /// A sort node.
    pub(crate) fn sort_by(
        &mut self,
        mut stream: Stream,
        wanted: Vec<OrderKey>,
        bound: Option<(Code, Option<Code>)>,
    ) -> Result<Stream> {
        let mut keys: Vec<(usize, ColumnOrder)> = Vec::with_capacity(wanted.len());
        let mut key_texts = Vec::new();
        for key in &wanted {
            let text = self.text(&key.expr);
            if !text.is_empty() {
                let simple = matches!(super::estimate::strip(&key.expr), Expr::Var(_));
                let mut text = if simple || text.starts_with('(') { text } else { format!("({text})") };
                if key.descending {
                    text.push_str(" DESC");
                }
                if key.nulls_first != key.descending {
                    text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
                }
                key_texts.push(text);
            }
            let register = self.in_register(&mut stream, &key.expr)?;
            let position = stream
                .live
                .iter()
                .position(|live| *live == register)
                .ok_or_else(|| Error::internal("a sort column is not kept"))?;
            keys.push((
                position,
                ColumnOrder {
                    desc: key.descending,
                    nulls_first: key.nulls_first,
                    blank_padded: is_blank_padded(self, &key.expr),
                },
            ));
        }
        let (rows, total, width) = (stream.tree.rows, stream.tree.total_cost, stream.tree.width);
        let registers = stream.live.clone();
        let mut tree = self.node(Sort { keys, registers, bound, key_texts }, vec![stream.tree]);
        tree.rows = rows;
        tree.width = width;
        tree.startup_cost = total + sort_cost(rows);
        tree.total_cost = tree.startup_cost + rows * 0.0025;
        Ok(Stream { tree, live: stream.live, order: wanted, constants: stream.constants })
    }

    /// DISTINCT over all output columns.
    fn plan_distinct(&mut self, mut stream: Stream, query: &Query) -> Result<Stream> {
        let mut registers = Vec::new();
        let mut blank_padded = Vec::new();
        let mut computed = Vec::new();
        let mut key_texts = Vec::new();
        let keys: Vec<Expr> =
            query.targets.iter().filter(|target| !target.junk).map(|target| target.expr.clone()).collect();
        // Of groups nothing is known any more.
        let known_groups =
            if self.level().stage.closed { None } else { self.known_groups(&keys, stream.tree.rows) };
        for target in query.targets.iter().filter(|target| !target.junk) {
            let register = self.in_register(&mut stream, &target.expr)?;
            blank_padded.push(is_blank_padded(self, &target.expr));
            registers.push(register);
            computed.push((target.expr.clone(), register));
            let text = self.text(&target.expr);
            if !text.is_empty() {
                key_texts.push(text);
            }
        }
        // Constants stay what they are; the rest of the row means nothing any more.
        let stage = &mut self.level_mut().stage;
        stage.computed = computed;
        stage.closed = true;
        let (rows, total) = (stream.tree.rows, stream.tree.total_cost);
        let mut tree = self.node(
            DistinctNode { registers: registers.clone(), blank_padded, sorted: false, key_texts },
            vec![stream.tree],
        );
        tree.rows = known_groups.unwrap_or_else(|| clamp_rows(rows.min(200.0f64.max(rows / 10.0))));
        tree.total_cost = total + rows * 0.01;
        registers.sort_unstable();
        registers.dedup();
        Ok(Stream { tree, live: registers, order: Vec::new(), constants: Vec::new() })
    }

    fn plan_limit(&mut self, stream: Stream, query: &Query) -> Result<Stream> {
        let limit = query.limit.as_ref().map(|limit| self.compile(limit)).transpose()?;
        let offset = query.offset.as_ref().map(|offset| self.compile(offset)).transpose()?;
        let mut stream = stream;
        let ties = if query.limit_with_ties {
            let mut registers = Vec::new();
            let mut blank_padded = Vec::new();
            for clause in &query.sort {
                let expr = target_of(query, clause)?.expr.clone();
                blank_padded.push(is_blank_padded(self, &expr));
                registers.push(self.in_register(&mut stream, &expr)?);
            }
            Some((registers, blank_padded))
        } else {
            None
        };
        let count = |code: &Option<Code>| match code.as_ref().and_then(Code::as_const) {
            Some(Datum::Int8(count)) => Some(*count as f64),
            _ => None,
        };
        let rows = stream.tree.rows;
        let skipped = count(&offset).unwrap_or(0.0);
        let kept = count(&limit).unwrap_or(if limit.is_some() { (rows * 0.1).max(1.0) } else { rows });
        let child = stream.tree;
        let (startup, total) = (child.startup_cost, child.total_cost);
        let mut tree = self.node(Limit { limit, offset, ties }, vec![child]);
        tree.rows = clamp_rows(kept.min((rows - skipped).max(1.0)));
        tree.startup_cost = startup + (total - startup) * (skipped / rows.max(1.0)).min(1.0);
        tree.total_cost = startup + (total - startup) * ((skipped + kept) / rows.max(1.0)).min(1.0);
        stream.tree = tree;
        Ok(stream)
    }

    /// Set-returning functions of the select list, innermost first.
    fn plan_set_returning(&mut self, mut stream: Stream, query: &Query) -> Result<Stream> {
        if !query.targets.iter().any(|target| has_set_returning(&target.expr)) {
            return Ok(stream);
        }
        loop {
            let mut calls: Vec<Expr> = Vec::new();
            for target in &query.targets {
                self.collect_set_calls(&target.expr, &mut calls);
            }
            if calls.is_empty() {
                return Ok(stream);
            }
            let mut nodes = Vec::new();
            let mut computed = Vec::new();
            for call in calls {
                let (function, args, ty) = match &call {
                    Expr::Function(call) => {
                        let (function, args) = self.function_call(call)?;
                        (function, args, call.ty)
                    }
                    Expr::Operator(operator) => {
                        (self.operator_function(operator)?, self.compile_all(&operator.args)?, operator.ty)
                    }
                    _ => continue,
                };
                let register = self.register();
                let shape = match self.record_shape(ty.oid) {
                    Some(shape) => Some((ty.oid, shape)),
                    None if function.columns.len() > 1 => {
                        Some((ty.oid, function.columns.iter().cloned().collect()))
                    }
                    None => None,
                };
                nodes.push(SetCall { function, args, register, shape });
                stream.live.push(register);
                computed.push((call, register));
            }
            self.level_mut().stage.computed.extend(computed);
            let rows = stream.tree.rows;
            stream.tree = self.node(ProjectSet { calls: nodes }, vec![stream.tree]);
            stream.tree.rows = clamp_rows(rows * 1000.0);
            stream.order = Vec::new();
        }
    }

    /// Calls whose arguments hold no call that is still to be computed.
    fn collect_set_calls(&self, expr: &Expr, out: &mut Vec<Expr>) -> bool {
        if self.level().stage.computed.iter().any(|(computed, _)| crate::expr::equal::same(computed, expr)) {
            return false;
        }
        let mut below = false;
        walk::children(expr, &mut |child| below |= self.collect_set_calls(child, out));
        let is_call = match expr {
            Expr::Function(call) => call.returns_set,
            Expr::Operator(call) => call.returns_set,
            _ => false,
        };
        if is_call && !below && !out.iter().any(|other| crate::expr::equal::same(other, expr)) {
            out.push(expr.clone());
        }
        is_call || below
    }
}

impl Stream {
    fn take(&mut self) -> Stream {
        Stream {
            tree: std::mem::replace(&mut self.tree, super::path::placeholder()),
            live: std::mem::take(&mut self.live),
            order: std::mem::take(&mut self.order),
            constants: std::mem::take(&mut self.constants),
        }
    }
}

fn collect_conditions(tree: &FromTree, range: RelSet, out: &mut Vec<Expr>) {
    let concerns = |condition: &&Expr| rels(condition).overlaps(range);
    out.extend(tree.conditions.iter().filter(concerns).cloned());
    for item in &tree.items {
        match item {
            FromItem::Range(_) => {}
            FromItem::Outer { full, left, right, .. } => {
                // Only the preserved side's rows can be locked.
                if !full {
                    collect_conditions(left, range, out);
                }
                if right.rels().overlaps(range) && *full {
                    collect_conditions(right, range, out);
                }
            }
            // The partner's columns are still in their registers; an anti join has none.
            FromItem::Semi { anti: false, conditions, .. } => {
                out.extend(conditions.iter().filter(concerns).cloned());
            }
            FromItem::Semi { anti: true, .. } => {}
        }
    }
}
