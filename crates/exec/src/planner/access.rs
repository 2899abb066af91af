//! Ways to read one entry of FROM: the table in key order, ranges of a key, single rows; subqueries, functions, VALUES,
//! WITH queries.

use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::{Expr, RangeTableKind};
use cairn_catalog::{Index, Relation, RelationKind};
use cairn_txn::Direction;
use cairn_types::{Error, Result, types};

use super::Planner;
use super::conditions::{RelSet, conjuncts, rels};
use super::estimate::{ENTRY, OPERATOR, ROW, SEEK, array_length, clamp_rows, table_rows};
use super::indexes::{ColumnMatch, KeyMatch};
use super::level::CteBinding;
use super::path::{OrderKey, Path, PathKind};
use crate::activity::Counted;
use crate::node::PlanTree;
use crate::nodes::append::Project;
use crate::nodes::cte::{CteScan, WorkTableScan};
use crate::nodes::simple_scans::{FunctionScan, FunctionSource, Source, ValuesScan};
use crate::nodes::table_scan::TableScan;
use crate::plan::Usage;
use crate::table::bounds::{Bounds, ColumnBound};
use crate::table::{IndexLayout, TableLayout, key_order};
use cairn_analyze::expr_type;

/// A chosen way to read a table.
#[derive(Clone, Debug)]
pub struct TableAccess {
    pub range: usize,
    /// `None`: the table's own keys.
    pub index: Option<Arc<Index>>,
    pub key: KeyMatch,
    /// Conditions that the key answers, for EXPLAIN.
    pub key_conditions: Vec<Expr>,
    pub filter: Vec<Expr>,
    pub direction: Direction,
    pub point: bool,
    /// Chosen for the order of its rows.
    pub ordered: bool,
}

/// A table with fewer rows is read at the price of so many: it may be empty for the moment (a queue), and a plan that is good
/// for it must not become a bad one before anybody has counted again.
const GROWS_TO: f64 = 100.0;

/// Rows of a table, and those that its own conditions keep.
#[derive(Clone, Copy)]
struct Counts {
    rows: f64,
    own_rows: f64,
}

impl Planner<'_> {
    /// Paths of a table under conditions that look at it alone, or also at entries of `around` (nested loops).
    pub(crate) fn table_paths(
        &self,
        range: usize,
        relation: &Arc<Relation>,
        own: &[Expr],
        joins: &[Expr],
    ) -> Result<Vec<Path>> {
        let set = RelSet::of(range);
        let rows = table_rows(relation);
        let mut paths = Vec::new();
        // The table in key order, with every own condition as a filter.
        let own_rows = clamp_rows(rows * self.selectivity_of_all(own));
        let scan_cost = SEEK + rows.max(GROWS_TO) * (ROW + OPERATOR * own.len() as f64);
        for direction in [Direction::Forward, Direction::Backward] {
            let order = match &relation.primary_key {
                Some(key) => self.key_order_of(relation, key, direction, range)?,
                None => Vec::new(),
            };
            if direction == Direction::Backward && order.is_empty() {
                continue;
            }
            paths.push(Path {
                kind: PathKind::Table(Rc::new(TableAccess {
                    range,
                    index: None,
                    key: KeyMatch::default(),
                    key_conditions: Vec::new(),
                    filter: own.to_vec(),
                    direction,
                    point: false,
                    ordered: false,
                })),
                rels: set,
                params: RelSet::EMPTY,
                rows: own_rows,
                startup_cost: 0.0,
                total_cost: if direction == Direction::Forward { scan_cost } else { scan_cost * 1.001 },
                order,
            });
        }
        // Sets of other entries whose columns the join conditions compare with this table's.
        let mut around: Vec<RelSet> = vec![RelSet::EMPTY];
        let mut all = RelSet::EMPTY;
        for join in joins {
            let others = rels(join).minus(set);
            all = all.union(others);
            if !around.contains(&others) {
                around.push(others);
            }
        }
        if !around.contains(&all) {
            around.push(all);
        }
        for index in &relation.indexes {
            if !self.may_read(relation, index) {
                continue;
            }
            let own_refs: Vec<&Expr> = own.iter().collect();
            if !self.implies_predicate(relation, index, &own_refs, range)? {
                continue;
            }
            for params in &around {
                let usable: Vec<&Expr> = own
                    .iter()
                    .chain(joins.iter().filter(|join| rels(join).minus(set).within(*params)))
                    .collect();
                let key = self.match_key(relation, &index.keys, &usable, range)?;
                let used = key
                    .answered
                    .iter()
                    .fold(RelSet::EMPTY, |all, at| all.union(rels(usable[*at])))
                    .minus(set);
                // A join condition that the key cannot use is the join's business; and each set of parameters once.
                if used != *params {
                    continue;
                }
                let counts = Counts { rows, own_rows };
                self.index_paths(range, relation, index, key, &usable, own, counts, *params, &mut paths)?;
            }
        }
        Ok(paths)
    }

    fn key_order_of(
        &self,
        relation: &Arc<Relation>,
        index: &Index,
        direction: Direction,
        range: usize,
    ) -> Result<Vec<OrderKey>> {
        index
            .keys
            .iter()
            .map(|key| {
                let backward = direction == Direction::Backward;
                Ok(OrderKey {
                    expr: self.key_expression(relation, key, range)?,
                    descending: key.descending != backward,
                    nulls_first: key.nulls_first != backward,
                })
            })
            .collect()
    }

    #[expect(clippy::too_many_arguments, reason = "one caller; the arguments are the facts about one index")]
    fn index_paths(
        &self,
        range: usize,
        relation: &Arc<Relation>,
        index: &Arc<Index>,
        key: KeyMatch,
        usable: &[&Expr],
        own: &[Expr],
        Counts { rows, own_rows }: Counts,
        params: RelSet,
        paths: &mut Vec<Path>,
    ) -> Result<()> {
        let bound = !key.columns.is_empty();
        // Without a bound the index is of use for its order, or because it is partial.
        let unique = index.unique
            && key.columns.len() == index.keys.len()
            && key.columns.iter().all(|column| matches!(column, ColumnMatch::Equal(_)));
        let mut selectivity = 1.0;
        let mut seeks = 1.0;
        let has_statistics = !relation.statistics.is_empty();
        for (column, part) in key.columns.iter().zip(&index.keys) {
            if let ColumnMatch::Any(array) = column {
                seeks *= array_length(array).max(1.0);
            }
            if has_statistics
                && let Some(known) =
                    self.key_selectivity(&self.key_expression(relation, part, range)?, column)
            {
                selectivity *= known;
                continue;
            }
            selectivity *= match column {
                ColumnMatch::Equal(_) | ColumnMatch::IsNull => 0.005,
                ColumnMatch::Any(array) => (0.005 * array_length(array)).min(1.0),
                ColumnMatch::Range { low, high } => match (low, high) {
                    (Some(_), Some(_)) => 0.005,
                    (None, None) => 0.995,
                    _ => 1.0 / 3.0,
                },
            };
        }
        let all_single = key.columns.len() == index.keys.len()
            && key.columns.iter().all(|column| matches!(column, ColumnMatch::Equal(_) | ColumnMatch::Any(_)));
        let mut found = clamp_rows(rows * selectivity);
        if index.unique && all_single {
            found = found.min(seeks);
        }
        if unique {
            found = 1.0;
        }
        if index.predicate.is_some() {
            // The predicate is among the conditions.
            found = clamp_rows(found * self.predicate_selectivity(relation, index, range)?);
        }
        let answered: Vec<Expr> = key.answered.iter().map(|at| usable[*at].clone()).collect();
        let filter: Vec<Expr> = own
            .iter()
            .filter(|condition| !key.answered.iter().any(|at| std::ptr::eq(usable[*at], *condition)))
            .cloned()
            .collect();
        let out_rows = if !has_statistics {
            clamp_rows(found * self.selectivity_of_all(&filter))
        } else if params.is_empty() {
            own_rows
        } else {
            // As many rows as a join by the same conditions would find in all, for each outer one.
            let joins = answered.iter().filter(|condition| !rels(condition).within(RelSet::of(range)));
            let joined: f64 = joins.map(|condition| self.join_selectivity(condition)).product();
            (own_rows * joined).max(1e-6)
        };
        let ordered = relation.is_ordered_by(index);
        let per_row = if ordered { ROW } else { ENTRY + SEEK };
        let cost = SEEK * seeks + found * (per_row + OPERATOR * filter.len() as f64);
        for direction in [Direction::Forward, Direction::Backward] {
            if direction == Direction::Backward && unique {
                continue;
            }
            if !bound && ordered {
                // Already there as the table in key order.
                continue;
            }
            paths.push(Path {
                kind: PathKind::Table(Rc::new(TableAccess {
                    range,
                    index: (!ordered).then(|| Arc::clone(index)),
                    key: key.clone(),
                    key_conditions: answered.clone(),
                    filter: filter.clone(),
                    direction,
                    point: unique && ordered,
                    ordered: false,
                })),
                rels: RelSet::of(range),
                params,
                rows: out_rows,
                startup_cost: 0.0,
                total_cost: if direction == Direction::Forward { cost } else { cost * 1.001 },
                order: self.key_order_of(relation, index, direction, range)?,
            });
        }
        Ok(())
    }

    /// The part of the table's rows that a partial index has.
    fn predicate_selectivity(&self, relation: &Arc<Relation>, index: &Index, range: usize) -> Result<f64> {
        // Its entries are few: why else have it.
        const GUESS: f64 = 0.1;
        let Some(text) = index.predicate.as_ref().filter(|_| !relation.statistics.is_empty()) else {
            return Ok(GUESS);
        };
        let mut predicate = self.cx.expressions.over_table(relation, text)?;
        super::indexes::renumber(&mut predicate, range);
        Ok(self.selectivity(&predicate))
    }

    pub(crate) fn build_table_access(&mut self, access: &TableAccess) -> Result<PlanTree> {
        let rel = self.rel(access.range).clone();
        let Some(relation) = &rel.relation else { return Err(Error::internal("table access to no table")) };
        let layout = TableLayout::new(relation, self.catalog())?;
        let keys = match &access.index {
            Some(index) => index.keys.clone(),
            None => relation.primary_key.as_ref().map(|index| index.keys.clone()).unwrap_or_default(),
        };
        let mut bounds = Bounds::default();
        for (column, key) in access.key.columns.iter().zip(&keys) {
            let mut edge = |edge: &Option<(Expr, bool)>| -> Result<Option<(crate::expr::Code, bool)>> {
                edge.as_ref().map(|(expr, inclusive)| Ok((self.compile(expr)?, *inclusive))).transpose()
            };
            let bound = match column {
                ColumnMatch::Equal(value) => ColumnBound::Equal(self.compile(value)?),
                ColumnMatch::Any(array) => ColumnBound::Any(self.compile(array)?),
                ColumnMatch::IsNull => ColumnBound::IsNull,
                ColumnMatch::Range { low, high } => ColumnBound::Range { low: edge(low)?, high: edge(high)? },
            };
            bounds.columns.push((bound, key_order(key, self.catalog())));
        }
        let (filter, _) = self.compile_conditions(&access.filter)?;
        let filter_text = self.scan_text(&access.filter, access.range);
        let index_condition = self.scan_text(&access.key_conditions, access.range);
        let alias = self.level().aliases[access.range].clone();
        self.uses(relation.oid, Usage::Read);
        let ordered = access.ordered || access.direction == Direction::Backward;
        let by_index = ordered || !access.key.columns.is_empty();
        let by_primary = relation.primary_key.as_ref().filter(|_| by_index);
        let scanned = access.index.as_ref().or(by_primary).map_or(relation.oid, |index| index.oid);
        if let Some(index) = &access.index {
            self.uses_index(relation, index);
        }
        let index = access.index.as_ref().map(|index| IndexLayout::new(index, self.cx.catalog));
        Ok(self.node(
            TableScan {
                layout: Arc::new(layout),
                index,
                bounds,
                point: access.point,
                direction: access.direction,
                first: rel.first,
                wanted: rel.used.iter().map(|attno| *attno as usize - 1).collect(),
                key: rel.key,
                tid: rel.tid,
                filter,
                alias,
                by_index,
                counted: Counted::new(scanned),
                index_condition,
                filter_text,
            },
            Vec::new(),
        ))
    }

    /// The paths of one entry of FROM. `own` are conditions on it alone, `joins` those that also look at others.
    pub(crate) fn entry_paths(&mut self, range: usize, own: Vec<Expr>, joins: &[Expr]) -> Result<Vec<Path>> {
        let query = Arc::clone(&self.level().query);
        let entry = &query.range_table[range];
        let set = RelSet::of(range);
        let params = super::prepare::lateral_rels(entry);
        let tree = match &entry.kind {
            RangeTableKind::Relation { sample: Some(_), .. } => {
                return Err(Error::unsupported("TABLESAMPLE is"));
            }
            RangeTableKind::Relation { relation, sample: None } => match relation.kind {
                _ if self.catalog().is_system_catalog(relation)
                    || relation.storage == 0
                    || relation.kind == RelationKind::Sequence =>
                {
                    if relation.kind == RelationKind::Sequence {
                        self.uses(relation.oid, Usage::Read);
                    }
                    return self.system_paths(range, relation, own, joins);
                }
                RelationKind::Table | RelationKind::MaterializedView | RelationKind::Toast => {
                    return self.table_paths(range, relation, &own, joins);
                }
                RelationKind::PartitionedTable => return Err(Error::unsupported("partitioned tables are")),
                RelationKind::View
                | RelationKind::CompositeType
                | RelationKind::Index
                | RelationKind::Sequence => {
                    return Err(Error::internal(format!("relation \"{}\" cannot be scanned", relation.name)));
                }
            },
            RangeTableKind::Subquery { query: subquery, .. } => {
                let (inside, outside) = self.push_down(subquery, range, own);
                let mut subquery = (**subquery).clone();
                super::select::add_conditions(&mut subquery, inside);
                let planned = self.plan_query(&subquery)?;
                let reset_ctes = self.correlated_ctes(&planned);
                let first = self.rel(range).first;
                let used = self.rel(range).used.clone();
                let computed = planned
                    .outputs
                    .into_iter()
                    .enumerate()
                    .filter(|(index, _)| used.contains(&(*index as i16 + 1)))
                    .map(|(index, code)| (first + index, code))
                    .collect();
                let (filter, filter_text) = self.compile_conditions(&outside)?;
                let alias = self.level().aliases[range].clone();
                let rows = planned.tree.rows * self.selectivity_of_all(&outside);
                let mut tree = self
                    .node(Project { computed, filter, reset_ctes, alias, filter_text }, vec![planned.tree]);
                tree.rows = clamp_rows(rows);
                tree
            }
            RangeTableKind::Function { functions, ordinality } => {
                let mut sources = Vec::with_capacity(functions.len());
                let mut name = String::new();
                let mut rows = 1.0f64;
                let mut first_column = 0;
                for function in functions {
                    let (source, estimate) =
                        self.function_source(function, entry, first_column, &mut name)?;
                    first_column += function.column_count;
                    rows = rows.max(estimate);
                    sources.push(source);
                }
                let (filter, _) = self.compile_conditions(&own)?;
                let filter_text = self.scan_text(&own, range);
                let mut tree = self.node(
                    FunctionScan {
                        sources,
                        ordinality: *ordinality,
                        first: self.rel(range).first,
                        filter,
                        name: if functions.len() == 1 { name } else { String::new() },
                        alias: self.level().aliases[range].clone(),
                        filter_text,
                    },
                    Vec::new(),
                );
                tree.rows = clamp_rows(rows * self.selectivity_of_all(&own));
                tree.total_cost = rows * ROW;
                tree
            }
            RangeTableKind::Values { rows } => {
                let mut list = Vec::with_capacity(rows.len());
                for row in rows {
                    list.push(self.compile_all(row)?);
                }
                let (filter, _) = self.compile_conditions(&own)?;
                let filter_text = self.scan_text(&own, range);
                let count = list.len() as f64;
                let mut tree = self.node(
                    ValuesScan {
                        rows: list,
                        first: self.rel(range).first,
                        filter,
                        alias: self.level().aliases[range].clone(),
                        filter_text,
                    },
                    Vec::new(),
                );
                tree.rows = clamp_rows(count * self.selectivity_of_all(&own));
                tree.total_cost = count * ROW;
                tree
            }
            RangeTableKind::Cte { name, levels_up, .. } => {
                let index = self.levels.len().checked_sub(1 + *levels_up as usize);
                let binding = index.and_then(|index| self.levels[index].ctes.get(name).cloned());
                let (filter, _) = self.compile_conditions(&own)?;
                let filter_text = self.scan_text(&own, range);
                let rel = self.rel(range);
                let registers = (rel.first..rel.first + rel.columns).collect();
                let (name, alias) = (name.to_string(), self.level().aliases[range].clone());
                match binding {
                    Some(CteBinding::Shared(cte)) => {
                        let rows = self.ctes[cte].root.rows;
                        let mut tree = self
                            .node(CteScan { cte, registers, filter, name, alias, filter_text }, Vec::new());
                        tree.rows = clamp_rows(rows * self.selectivity_of_all(&own));
                        tree.total_cost = rows * ROW;
                        tree
                    }
                    Some(CteBinding::Working { slot }) => {
                        let mut tree = self.node(
                            WorkTableScan { slot, registers, filter, name, alias, filter_text },
                            Vec::new(),
                        );
                        tree.rows = 100.0;
                        tree.total_cost = 100.0 * ROW;
                        tree
                    }
                    None => return Err(Error::internal(format!("WITH query \"{name}\" has no plan"))),
                }
            }
            RangeTableKind::Result => return Ok(vec![Path { rels: set, ..Path::one() }]),
            RangeTableKind::Join { .. } => return Err(Error::internal("a join is no entry of FROM")),
        };
        let order = Vec::new();
        Ok(vec![Path {
            rels: set,
            params,
            rows: tree.rows,
            startup_cost: tree.startup_cost,
            total_cost: tree.total_cost + tree.rows * 0.001,
            order,
            kind: PathKind::Built(Rc::new(tree), Vec::new()),
        }])
    }

    fn function_source(
        &mut self,
        function: &cairn_analyze::query::RangeFunction,
        entry: &cairn_analyze::query::RangeTableEntry,
        first_column: usize,
        name: &mut String,
    ) -> Result<(Source, f64)> {
        let ty = expr_type(&function.call);
        // A dropped column has no name.
        let own = entry.columns.iter().skip(first_column).take(function.column_count);
        let live: Box<[usize]> = match self.record_shape(ty.oid) {
            Some(_) => own.enumerate().filter(|(_, one)| !one.name.is_empty()).map(|(at, _)| at).collect(),
            None => Box::default(),
        };
        let composite =
            function.column_count != 1 || ty.oid == types::RECORD || self.record_shape(ty.oid).is_some();
        let Expr::Function(call) = &function.call else {
            let code = self.compile(&function.call)?;
            return Ok((Source::Scalar { code, columns: function.column_count, live, composite }, 1.0));
        };
        let (mut compiled, args) = self.function_call(call)?;
        *name = compiled.proc.name.to_string();
        if !function.column_types.is_empty() && compiled.columns.is_empty() {
            let fields = entry.columns.iter().zip(&function.column_types);
            compiled.columns = fields
                .map(|(column, ty)| cairn_types::RecordField {
                    name: Arc::clone(&column.name),
                    type_oid: ty.oid,
                    typmod: ty.typmod,
                })
                .collect();
        }
        let rows = if compiled.proc.returns_set { 1000.0 } else { 1.0 };
        let columns = function.column_count;
        Ok((
            Source::Function(Box::new(FunctionSource { function: compiled, args, columns, live, composite })),
            rows,
        ))
    }

    /// Conditions that may move into a subquery, over its own columns, and those that must stay outside.
    fn push_down(
        &self,
        subquery: &cairn_analyze::query::Query,
        range: usize,
        conditions: Vec<Expr>,
    ) -> (Vec<Expr>, Vec<Expr>) {
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        for condition in conditions {
            match self.pushed_down(subquery, range, &condition) {
                Some(pushed) => conjuncts(pushed, &mut inside),
                None => outside.push(condition),
            }
        }
        (inside, outside)
    }

    /// The condition over the subquery's columns, if the subquery's rows do not depend on each other where it matters.
    fn pushed_down(
        &self,
        subquery: &cairn_analyze::query::Query,
        range: usize,
        condition: &Expr,
    ) -> Option<Expr> {
        use cairn_analyze::query::{CommandType, Distinct};
        if subquery.command != CommandType::Select
            || subquery.limit.is_some()
            || subquery.offset.is_some()
            || subquery.has_window_functions
            || subquery.has_target_srfs
            || subquery.set_operation.is_some()
            || !subquery.grouping_sets.is_empty()
            || matches!(subquery.distinct, Distinct::On(_))
            || !subquery.row_marks.is_empty()
            || self.is_volatile(condition)
            || super::conditions::has_sublink(condition)
        {
            return None;
        }
        let targets: Vec<&cairn_analyze::query::TargetEntry> =
            subquery.targets.iter().filter(|target| !target.junk).collect();
        let mut condition = condition.clone();
        let mut possible = true;
        super::prepare::map_vars(&mut condition, &mut |var| {
            if var.levels_up > 0 {
                // One level deeper now.
                let mut outer = var.clone();
                outer.levels_up += 1;
                return Some(Expr::Var(outer));
            }
            let target = (var.attno as usize).checked_sub(1).and_then(|index| targets.get(index));
            let plain = subquery.group.is_empty() && !subquery.has_aggregates;
            match target {
                Some(target)
                    if var.varno == range
                        && !self.is_volatile(&target.expr)
                        && !super::conditions::has_sublink(&target.expr)
                        && (plain || is_group_key(subquery, target)) =>
                {
                    Some(target.expr.clone())
                }
                _ => {
                    possible = false;
                    None
                }
            }
        });
        possible.then_some(condition)
    }
}

fn is_group_key(query: &cairn_analyze::query::Query, target: &cairn_analyze::query::TargetEntry) -> bool {
    target.sort_group_ref > 0 && query.group.iter().any(|clause| clause.target == target.sort_group_ref)
}
