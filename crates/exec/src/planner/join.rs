//! Join order: the cheapest way to combine the items of FROM, found over all subsets where they are few and greedily
//! where they are many.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::Expr;
use cairn_types::{Error, Result, bail};

use super::Planner;
use super::conditions::{RelSet, rels};
use super::estimate::{HASHED, OPERATOR, ROW, clamp_rows};
use super::path::{JoinPath, OrderKey, Path, PathKind};
use super::prepare::{FromItem, FromTree};
use crate::expr::equal::same;
use crate::nodes::join::JoinType;
use cairn_analyze::expr_type;

/// Most items for which all orders are tried.
const EXHAUSTIVE_MAX: usize = 8;

/// What the query would like to get for free.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// ORDER BY (or GROUP BY, DISTINCT) over plain expressions.
    pub order: Vec<OrderKey>,
    /// Part of the rows that will be read.
    pub fraction: f64,
    /// Rows that will be read (LIMIT), if known.
    pub rows: Option<f64>,
    /// Expressions that have one value in all rows.
    pub constants: Vec<Expr>,
    /// Rows in another order are hashed, not sorted.
    pub hashable: bool,
}

/// One item of FROM with the ways to read it.
struct Leaf {
    rels: RelSet,
    paths: Vec<Path>,
    /// Joined last-side only: semi or anti join with these conditions.
    semi: Option<(JoinType, Vec<Expr>)>,
}

impl Planner<'_> {
    /// Plans FROM and WHERE; the best path for what is wished.
    pub(crate) fn plan_from(&mut self, tree: &FromTree, wish: &Wish) -> Result<Path> {
        let paths = self.paths_of(tree, Vec::new(), &[], wish)?;
        let best = paths.into_iter().filter(|path| path.params.is_empty()).min_by(|a, b| {
            let cost = |path: &Path| self.wished_cost(path, wish);
            cost(a).total_cmp(&cost(b))
        });
        let mut best = best.ok_or_else(|| Error::internal("no plan for FROM"))?;
        if !wish.order.is_empty() && self.satisfies(&best.order, wish) {
            best.show_order();
        }
        Ok(best)
    }

    /// What a path costs with what the query still has to do: sort, if it is not in order, all rows then.
    fn wished_cost(&self, path: &Path, wish: &Wish) -> f64 {
        let fraction = match wish.rows {
            Some(rows) => (rows / path.rows.max(1.0)).min(1.0),
            None => wish.fraction,
        };
        if wish.order.is_empty() || self.satisfies(&path.order, wish) {
            path.fractional_cost(fraction)
        } else if wish.hashable {
            path.total_cost + path.rows * HASHED
        } else {
            path.total_cost + super::estimate::sort_cost(path.rows)
        }
    }

    /// Whether rows in `order` are in the wished order.
    pub(crate) fn satisfies(&self, order: &[OrderKey], wish: &Wish) -> bool {
        let constant = |expr: &Expr| {
            wish.constants
                .iter()
                .any(|constant| same(super::estimate::strip(constant), super::estimate::strip(expr)))
        };
        let mut given = order.iter().filter(|key| !constant(&key.expr));
        wish.order.iter().filter(|key| !constant(&key.expr)).all(|wanted| {
            given.next().is_some_and(|given| {
                same(super::estimate::strip(&given.expr), super::estimate::strip(&wanted.expr))
                    && given.descending == wanted.descending
                    && given.nulls_first == wanted.nulls_first
            })
        })
    }

    /// Paths for all items of a tree under further conditions; `joins`: conditions that look at entries outside as well,
    /// of use to nested loops.
    fn paths_of(
        &mut self,
        tree: &FromTree,
        extra: Vec<Expr>,
        joins: &[Expr],
        wish: &Wish,
    ) -> Result<Vec<Path>> {
        crate::stack::check()?;
        let mut conditions = tree.conditions.clone();
        conditions.extend(extra);
        let all = tree.rels();
        // Conditions on nothing, or only on entries outside: one-time filters on the whole.
        let (constant, conditions): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|condition| !rels(condition).overlaps(all));
        let mut leaves = Vec::with_capacity(tree.items.len());
        let mut pending: Vec<Expr> = conditions;
        // The distinct values of `x in (...)` may drive lookups of x.
        let mut joins = joins.to_vec();
        for item in &tree.items {
            if let FromItem::Semi { anti: false, right, conditions } = item {
                let right = right.rels();
                joins.extend(conditions.iter().filter(|condition| !rels(condition).within(right)).cloned());
            }
        }
        let joins = &joins[..];
        for item in &tree.items {
            let leaf = self.leaf(item, &mut pending, joins, wish)?;
            leaves.push(leaf);
        }
        let mut paths = match leaves.len() {
            0 => vec![Path::one()],
            1 if leaves[0].semi.is_none() => std::mem::take(&mut leaves[0].paths),
            _ if leaves.len() <= EXHAUSTIVE_MAX => self.exhaustive(&leaves, &pending, wish)?,
            _ => self.greedy(leaves, &pending, wish)?,
        };
        if !constant.is_empty() {
            paths = paths.into_iter().map(|path| one_time(path, &constant)).collect();
        }
        Ok(paths)
    }

    /// An item with the conditions that concern it alone.
    fn leaf(
        &mut self,
        item: &FromItem,
        pending: &mut Vec<Expr>,
        joins: &[Expr],
        wish: &Wish,
    ) -> Result<Leaf> {
        let set = item.rels();
        match item {
            FromItem::Range(range) => {
                let (own, rest): (Vec<Expr>, Vec<Expr>) =
                    std::mem::take(pending).into_iter().partition(|condition| rels(condition).within(set));
                *pending = rest;
                let mut around: Vec<Expr> =
                    pending.iter().filter(|condition| rels(condition).overlaps(set)).cloned().collect();
                around.extend(joins.iter().filter(|condition| rels(condition).overlaps(set)).cloned());
                let mut paths = self.entry_paths(*range, own, &around)?;
                self.prune(&mut paths, wish);
                Ok(Leaf { rels: set, paths, semi: None })
            }
            FromItem::Outer { full, left, right, conditions } => {
                // A condition above may go into the preserved side if it looks at nothing else.
                let left_set = left.rels();
                let (down, rest): (Vec<Expr>, Vec<Expr>) =
                    std::mem::take(pending).into_iter().partition(|condition| {
                        !full && rels(condition).within(left_set) && !rels(condition).is_empty()
                    });
                let (own, rest): (Vec<Expr>, Vec<Expr>) =
                    rest.into_iter().partition(|condition| rels(condition).within(set));
                *pending = rest;
                let paths = self.outer_join_paths(*full, left, right, conditions, down, own, wish)?;
                Ok(Leaf { rels: set, paths, semi: None })
            }
            FromItem::Semi { anti, right, conditions } => {
                let right_set = right.rels();
                let (inside, between): (Vec<Expr>, Vec<Expr>) =
                    conditions.iter().cloned().partition(|condition| rels(condition).within(right_set));
                let paths =
                    self.paths_of(right, inside, &between, &Wish { fraction: 1.0, ..Wish::default() })?;
                let kind = if *anti { JoinType::Anti } else { JoinType::Semi };
                Ok(Leaf { rels: set, paths, semi: Some((kind, between)) })
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one caller; the arguments are the parts of an outer join")]
    fn outer_join_paths(
        &mut self,
        full: bool,
        left: &FromTree,
        right: &FromTree,
        conditions: &[Expr],
        down: Vec<Expr>,
        filter: Vec<Expr>,
        wish: &Wish,
    ) -> Result<Vec<Path>> {
        let right_set = right.rels();
        // What the ON clause says of the nullable side alone decides which of its rows are partners.
        let (inside, between): (Vec<Expr>, Vec<Expr>) = conditions
            .iter()
            .cloned()
            .partition(|condition| !full && rels(condition).within(right_set) && !rels(condition).is_empty());
        let whole = Wish { fraction: 1.0, ..Wish::default() };
        let outers = self.paths_of(left, down, &[], if full { &whole } else { wish })?;
        let inners = self.paths_of(right, inside, if full { &[] } else { &between }, &whole)?;
        let kind = if full { JoinType::Full } else { JoinType::Left };
        let mut paths = Vec::new();
        for outer in outers.iter().filter(|path| path.params.is_empty()) {
            for inner in &inners {
                self.join_two(kind, outer, inner, &between, &filter, &mut paths);
            }
        }
        if paths.is_empty() {
            if full {
                bail!(
                    FEATURE_NOT_SUPPORTED,
                    "FULL JOIN is only supported with merge-joinable or hash-joinable join conditions"
                );
            }
            return Err(Error::internal("no plan for an outer join"));
        }
        self.prune(&mut paths, wish);
        Ok(paths)
    }

    /// Keeps what may be part of the best plan: for each set of parameters the cheapest, the cheapest in the wished
    /// order and the one that starts soonest.
    fn prune(&self, paths: &mut Vec<Path>, wish: &Wish) {
        let mut kept: Vec<Path> = Vec::new();
        let mut groups: Vec<RelSet> = Vec::new();
        for path in paths.iter() {
            if !groups.contains(&path.params) {
                groups.push(path.params);
            }
        }
        for params in groups {
            let group: Vec<&Path> = paths.iter().filter(|path| path.params == params).collect();
            let cheapest = group.iter().min_by(|a, b| a.total_cost.total_cmp(&b.total_cost));
            kept.extend(cheapest.map(|path| (*path).clone()));
            if !wish.order.is_empty() {
                let ordered = group.iter().filter(|path| self.satisfies(&path.order, wish));
                kept.extend(
                    ordered.min_by(|a, b| a.total_cost.total_cmp(&b.total_cost)).map(|path| (*path).clone()),
                );
            }
        }
        *paths = kept;
    }

    /// Conditions that can be checked once these two sets are joined, and not before.
    fn applicable(pending: &[Expr], a: RelSet, b: RelSet) -> Vec<&Expr> {
        let both = a.union(b);
        pending
            .iter()
            .filter(|condition| {
                let set = rels(condition);
                set.within(both) && !set.within(a) && !set.within(b)
            })
            .collect()
    }

    /// Adds the ways to join two paths. `filter`: checked after an outer join.
    fn join_two(
        &self,
        kind: JoinType,
        outer: &Path,
        inner: &Path,
        conditions: &[Expr],
        filter: &[Expr],
        out: &mut Vec<Path>,
    ) {
        // The outer side must not depend on the inner one; the inner one only on the outer.
        if outer.params.overlaps(inner.rels) {
            return;
        }
        let outside = inner.params.minus(outer.rels);
        let lateral = !inner.params.is_empty();
        if lateral && kind == JoinType::Full {
            return;
        }
        // What a parameterized index scan has checked already need not be checked again.
        let answered = answered(inner);
        let left_over: Vec<Expr> = conditions
            .iter()
            .filter(|condition| !answered.iter().any(|done| same(done, condition)))
            .cloned()
            .collect();
        let selectivity: f64 = left_over.iter().map(|condition| self.join_selectivity(condition)).product();
        let pairs = outer.rows * inner.rows * selectivity;
        let rows = match kind {
            JoinType::Inner => pairs,
            JoinType::Left => pairs.max(outer.rows),
            JoinType::Right => pairs.max(inner.rows),
            JoinType::Full => pairs.max(outer.rows).max(inner.rows),
            JoinType::Semi | JoinType::Anti => {
                let partnered = match self.semi_selectivity(outer, inner, conditions) {
                    Some(part) => outer.rows * part,
                    None if kind == JoinType::Semi => pairs.min(outer.rows * 0.5),
                    None => outer.rows * 0.5,
                };
                if kind == JoinType::Semi { partnered } else { outer.rows - partnered }
            }
        };
        let rows = clamp_rows(rows * self.selectivity_of_all(filter));
        let set = outer.rels.union(inner.rels);
        let params = outer.params.union(outside).minus(set);
        if kind != JoinType::Full {
            // A nested loop; an inner side that does not change is kept.
            // In a query that looks outside, kept rows would be those of an earlier outer row.
            let (inner_path, rescan) = if lateral || is_cheap_rescan(inner) || self.level().correlated {
                (inner.clone(), inner.total_cost)
            } else {
                let kept = Path { kind: PathKind::Materialize(Rc::new(inner.clone())), ..inner.clone() };
                (kept, inner.rows * OPERATOR)
            };
            let checks = outer.rows * inner.rows * OPERATOR * (left_over.len() as f64 + 0.5);
            let stop_early = if matches!(kind, JoinType::Semi | JoinType::Anti) { 0.5 } else { 1.0 };
            let total = outer.total_cost
                + inner.total_cost
                + (outer.rows - 1.0).max(0.0) * rescan * stop_early
                + checks * stop_early
                + rows * ROW * 0.5;
            out.push(Path {
                kind: PathKind::Nested(Rc::new(JoinPath {
                    kind,
                    outer: outer.clone(),
                    inner: inner_path,
                    keys: Vec::new(),
                    conditions: left_over.clone(),
                    filter: filter.to_vec(),
                })),
                rels: set,
                params,
                rows,
                startup_cost: outer.startup_cost + inner.startup_cost,
                total_cost: total,
                order: outer.order.clone(),
            });
        }
        if lateral {
            return;
        }
        let mut keys = Vec::new();
        let mut rest = Vec::new();
        for condition in conditions {
            match self.hash_key(condition, outer.rels, inner.rels) {
                Some(key) => keys.push(key),
                None => rest.push(condition.clone()),
            }
        }
        if keys.is_empty() {
            return;
        }
        let build = inner.total_cost + inner.rows * HASHED;
        let total = outer.total_cost
            + build
            + outer.rows * HASHED
            + rows * (ROW * 0.5 + OPERATOR * rest.len() as f64);
        out.push(Path {
            kind: PathKind::Hash(Rc::new(JoinPath {
                kind,
                outer: outer.clone(),
                inner: inner.clone(),
                keys,
                conditions: rest,
                filter: filter.to_vec(),
            })),
            rels: set,
            params,
            rows,
            startup_cost: outer.startup_cost + build,
            total_cost: total,
            // A table that does not fit into memory is joined part by part.
            order: Vec::new(),
        });
    }

    /// The part of the outer rows that have a partner, where statistics tell.
    fn semi_selectivity(&self, outer: &Path, inner: &Path, conditions: &[Expr]) -> Option<f64> {
        let mut part = 1.0;
        let mut is_known = false;
        // A lookup has found its partners; what counts is how many rows there are to look among.
        let inner_rows = if inner.params.is_empty() { inner.rows } else { f64::INFINITY };
        for condition in conditions {
            part *= match self.known_semi_selectivity(condition, outer.rels, inner_rows) {
                Some(known) => {
                    is_known = true;
                    known
                }
                None => self.selectivity(condition),
            };
        }
        is_known.then_some(part)
    }

    /// The two sides of a condition that a hash join can use: an equality whose datums are equal as the operator says.
    fn hash_key(&self, condition: &Expr, outer: RelSet, inner: RelSet) -> Option<(Expr, Expr, Expr)> {
        let Expr::Operator(call) = condition else { return None };
        let [left, right] = call.args.as_slice() else { return None };
        if self.is_volatile(condition) {
            return None;
        }
        let function = self.operator_function(call).ok()?;
        let (test, _) = crate::expr::compile::plain_comparison(&function)?;
        if test != crate::expr::CompareTest::Equal {
            return None;
        }
        let (left_set, right_set) = (rels(left), rels(right));
        let usable = |set: RelSet, side: RelSet| !set.is_empty() && set.within(side);
        if usable(left_set, outer) && usable(right_set, inner) {
            Some((left.clone(), right.clone(), condition.clone()))
        } else if usable(right_set, outer) && usable(left_set, inner) {
            Some((right.clone(), left.clone(), condition.clone()))
        } else {
            None
        }
    }

    /// Joins two groups of paths in every way that their kinds allow.
    fn join_groups(
        &self,
        a: (&[Path], Option<&(JoinType, Vec<Expr>)>),
        b: (&[Path], Option<&(JoinType, Vec<Expr>)>),
        pending: &[Expr],
        out: &mut Vec<Path>,
    ) {
        let (Some(first), Some(second)) = (a.0.first(), b.0.first()) else { return };
        let conditions: Vec<Expr> =
            Self::applicable(pending, first.rels, second.rels).into_iter().cloned().collect();
        match (a.1, b.1) {
            (None, None) => {
                for outer in a.0 {
                    for inner in b.0 {
                        self.join_two(JoinType::Inner, outer, inner, &conditions, &[], out);
                    }
                }
            }
            (None, Some((kind, between))) => {
                // The outer side must have everything that the conditions look at.
                let needed = between.iter().fold(RelSet::EMPTY, |set, condition| set.union(rels(condition)));
                if !needed.minus(second.rels).within(first.rels) {
                    return;
                }
                for outer in a.0 {
                    for inner in b.0 {
                        self.join_two(*kind, outer, inner, between, &[], out);
                    }
                }
                if *kind == JoinType::Semi {
                    self.join_unique(a.0, b.0, between, out);
                }
            }
            (Some(_), _) => {}
        }
    }

    /// `x in (...)` the other way round: the distinct values drive lookups of x.
    fn join_unique(&self, outers: &[Path], inners: &[Path], between: &[Expr], out: &mut Vec<Path>) {
        let Some(inner) = inners
            .iter()
            .filter(|path| path.params.is_empty())
            .min_by(|a, b| a.total_cost.total_cmp(&b.total_cost))
        else {
            return;
        };
        let mut exprs = Vec::new();
        for condition in between {
            let Some(outer) = outers.first() else { return };
            match self.hash_key(condition, outer.rels, inner.rels) {
                Some((_, inner_side, _)) => exprs.push(inner_side),
                None => return,
            }
        }
        if exprs.is_empty() {
            return;
        }
        let rows = self.known_groups(&exprs, inner.rows).unwrap_or(inner.rows);
        let unique = Path {
            kind: PathKind::Unique(Rc::new(inner.clone()), exprs),
            rows,
            total_cost: inner.total_cost + inner.rows * HASHED,
            startup_cost: inner.total_cost,
            order: Vec::new(),
            ..inner.clone()
        };
        for outer in outers {
            self.join_two(JoinType::Inner, &unique, outer, between, &[], out);
        }
    }

    fn exhaustive(&self, leaves: &[Leaf], pending: &[Expr], wish: &Wish) -> Result<Vec<Path>> {
        let count = leaves.len();
        let full = (1usize << count) - 1;
        let mut best: HashMap<usize, Vec<Path>> = HashMap::new();
        for (index, leaf) in leaves.iter().enumerate() {
            best.insert(1 << index, leaf.paths.clone());
        }
        let semi_of = |mask: usize| {
            (mask.count_ones() == 1).then(|| leaves[mask.trailing_zeros() as usize].semi.as_ref()).flatten()
        };
        for connected_only in [true, false] {
            let mut masks: Vec<usize> = (1..=full).filter(|mask| mask.count_ones() >= 2).collect();
            masks.sort_by_key(|mask| mask.count_ones());
            for mask in masks {
                let mut paths = best.remove(&mask).unwrap_or_default();
                let mut part = (mask - 1) & mask;
                while part > 0 {
                    let rest = mask & !part;
                    if let (Some(a), Some(b)) = (best.get(&part), best.get(&rest))
                        && let (Some(first), Some(second)) = (a.first(), b.first())
                    {
                        // Products of unrelated sets are tried only if nothing else covers the query.
                        let related = !Self::applicable(pending, first.rels, second.rels).is_empty()
                            || semi_of(rest).is_some()
                            || b.iter().any(|path| path.params.overlaps(first.rels));
                        if related || !connected_only {
                            self.join_groups((a, semi_of(part)), (b, semi_of(rest)), pending, &mut paths);
                        }
                    }
                    part = (part - 1) & mask;
                }
                if !paths.is_empty() {
                    self.prune(&mut paths, wish);
                    best.insert(mask, paths);
                }
            }
            if let Some(paths) = best.remove(&full) {
                if paths.iter().any(|path| path.params.is_empty() || !connected_only) {
                    return Ok(paths);
                }
                best.insert(full, paths);
            }
        }
        Err(Error::internal("no join order found"))
    }

    /// Many items: always the cheapest next join.
    fn greedy(&self, mut leaves: Vec<Leaf>, pending: &[Expr], wish: &Wish) -> Result<Vec<Path>> {
        while leaves.len() > 1 {
            let mut choice: Option<Choice> = None;
            for a in 0..leaves.len() {
                for b in 0..leaves.len() {
                    if a == b {
                        continue;
                    }
                    let mut paths = Vec::new();
                    self.join_groups(
                        (&leaves[a].paths, leaves[a].semi.as_ref()),
                        (&leaves[b].paths, leaves[b].semi.as_ref()),
                        pending,
                        &mut paths,
                    );
                    self.prune(&mut paths, wish);
                    let Some(cheapest) = paths
                        .iter()
                        .filter(|path| path.params.is_empty())
                        .map(|path| path.total_cost + path.rows)
                        .min_by(f64::total_cmp)
                    else {
                        continue;
                    };
                    let product = Self::applicable(pending, leaves[a].rels, leaves[b].rels).is_empty()
                        && leaves[b].semi.is_none()
                        && !leaves[b].paths.iter().any(|path| path.params.overlaps(leaves[a].rels));
                    let rank = (product, cheapest);
                    if choice.as_ref().is_none_or(|(_, _, _, best)| {
                        (rank.0, rank.1).partial_cmp(&(best.0, best.1)).is_some_and(|order| order.is_lt())
                    }) {
                        choice = Some((a, b, paths, rank));
                    }
                }
            }
            let Some((a, b, paths, _)) = choice else { return Err(Error::internal("no join order found")) };
            let joined = Leaf { rels: leaves[a].rels.union(leaves[b].rels), paths, semi: None };
            leaves[a] = joined;
            leaves.remove(b);
        }
        Ok(leaves.pop().map(|leaf| leaf.paths).unwrap_or_default())
    }
}

/// The conditions that index scans inside the path answer by their keys, for all of its rows.
fn answered(path: &Path) -> Vec<Expr> {
    match &path.kind {
        PathKind::Table(access) => access.key_conditions.clone(),
        PathKind::System(access) => access.key_conditions(),
        PathKind::Nested(join) | PathKind::Hash(join) => match join.kind {
            JoinType::Inner => [answered(&join.outer), answered(&join.inner)].concat(),
            // The other side's rows may be missing.
            JoinType::Left | JoinType::Semi | JoinType::Anti => answered(&join.outer),
            JoinType::Right | JoinType::Full => Vec::new(),
        },
        PathKind::Materialize(child) | PathKind::OneTime(child, _) | PathKind::Unique(child, _) => {
            answered(child)
        }
        PathKind::Built(..) | PathKind::One => Vec::new(),
    }
}

/// Reading it again costs no more than keeping it.
fn is_cheap_rescan(path: &Path) -> bool {
    match &path.kind {
        PathKind::One => true,
        PathKind::Table(access) => access.point,
        PathKind::System(access) => access.is_lookup(),
        _ => false,
    }
}

/// A condition that does not depend on the path's rows.
fn one_time(path: Path, conditions: &[Expr]) -> Path {
    Path {
        rels: path.rels,
        params: path.params,
        rows: path.rows,
        startup_cost: path.startup_cost,
        total_cost: path.total_cost,
        order: path.order.clone(),
        kind: PathKind::OneTime(Rc::new(path), conditions.to_vec()),
    }
}

/// Two leaves with the ways to join them, and how good that is: no product of unrelated sets, then cheap.
type Choice = (usize, usize, Vec<Path>, (bool, f64));

/// Expressions that a conjunct equates with something that is the same for all rows.
pub fn constants(conditions: &[Expr], planner: &Planner<'_>) -> Vec<Expr> {
    let mut found = Vec::new();
    for condition in conditions {
        let Expr::Operator(call) = condition else { continue };
        let [left, right] = call.args.as_slice() else { continue };
        if planner.strategy(call.operator) != Some(cairn_catalog::BtreeStrategy::Equal) {
            continue;
        }
        for (side, other) in [(left, right), (right, left)] {
            if rels(other).is_empty() && !planner.is_volatile(other) && !rels(side).is_empty() {
                found.push(side.clone());
            }
        }
    }
    found
}

/// Whether the expression's type is char(n).
pub fn is_blank_padded(planner: &Planner<'_>, expr: &Expr) -> bool {
    let catalog: &Arc<cairn_catalog::Catalog> = planner.catalog();
    catalog.base_type(expr_type(expr).oid) == cairn_types::types::BPCHAR
}
