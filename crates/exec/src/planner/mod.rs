//! From a [`Query`] to a [`Plan`].
//!
//! One [`Planner`] makes one plan, its subqueries and WITH queries included. While it descends into them it keeps a
//! stack of [`Level`]s, innermost last, in which a `Var`'s `levels_up` is an index from the end. All columns
//! get registers when a level is entered, so expressions can be compiled in any order.
//!
//! Order of work for one query: [`prepare`] rewrites the tree (join aliases, views and simple subqueries pulled up, `exists` and
//! `in` turned into joins), [`join`] chooses the join order over the paths that [`access`] finds for each table,
//! [`select`] puts grouping, windows, distinct, sorting, locking and limits on top.

pub mod access;
pub mod aggregate;
pub mod conditions;
pub mod cte;
pub mod estimate;
pub mod indexes;
pub mod join;
pub mod level;
pub mod path;
pub mod prepare;
pub mod select;
pub mod selectivity;
pub mod setop;
pub mod sublink;
pub mod system;
pub mod value_classes;
pub mod value_dependent;
pub mod window;

use std::cell::Cell;
use std::sync::Arc;

use cairn_analyze::query::{CommandType, Query};
use cairn_catalog::{Catalog, Index, Relation};
use cairn_txn::{Timestamp, Transaction};
use cairn_types::{Env, Oid, Result};

pub use level::{Level, Rel};

use crate::expr::Code;
use crate::node::{Operator, PlanTree};
use crate::plan::{CtePlan, IndexUse, Plan, RelationUse, ResultColumn, Usage};
use crate::subplan::SubPlan;

/// What planning may look at.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    pub catalog: &'a Arc<Catalog>,
    pub env: &'a dyn Env,
    /// Parses and analyzes the texts that the catalog keeps (index expressions, predicates, domain checks).
    pub expressions: &'a dyn ExpressionSource,
    /// The plan will be shown: nodes keep the text of their conditions.
    pub explain: bool,
    /// `explain (verbose)`.
    pub verbose: bool,
    /// Values that parameters are expected to have: estimates go by them, the plan holds for all others as well. Empty:
    /// nothing is expected.
    pub values: &'a [cairn_types::Datum],
    /// The time that the plan is going to read at, if it is known. None: one from which on every index of the catalog is
    /// complete.
    pub read_time: Option<ReadTime<'a>>,
}

/// A time that may lie before the making of some of the catalog's indexes.
#[derive(Clone, Copy)]
pub struct ReadTime<'a> {
    pub time: Timestamp,
    pub transaction: &'a dyn Transaction,
}

/// Analyzed forms of expressions that the catalog keeps as canonical SQL text. Crate `sql` (or a test) implements it
/// over the analyzer.
pub trait ExpressionSource {
    /// An expression over the columns of a table, which is range table entry 0.
    fn over_table(
        &self,
        relation: &Arc<cairn_catalog::Relation>,
        text: &str,
    ) -> Result<cairn_analyze::query::Expr>;
    /// A column's default or what it is generated from (in the same scope), coerced to the column as an assignment.
    fn of_column(
        &self,
        relation: &Arc<cairn_catalog::Relation>,
        column: usize,
        text: &str,
    ) -> Result<cairn_analyze::query::Expr>;
    /// A domain's check: `value` is `Expr::TestValue`.
    fn over_domain(&self, domain: Oid, text: &str) -> Result<cairn_analyze::query::Expr>;
    /// The text of an expression, for EXPLAIN: Vars are named by the queries around them, innermost last.
    fn deparse(&self, expr: &cairn_analyze::query::Expr, queries: &[&Query], qualify: bool) -> String;
}

/// Makes a plan. Errors are those of constant folding (a division by zero in a constant that is surely evaluated is left to
/// the execution), 0A000 for what cannot be planned, 54001.
pub fn plan(query: &Query, cx: &PlanContext<'_>) -> Result<Plan> {
    plan_with(query, Planner::new(*cx))
}

/// [`plan`] for a cursor, whose current row WHERE CURRENT OF may name.
pub fn plan_cursor(query: &Query, cx: &PlanContext<'_>) -> Result<Plan> {
    plan_with(query, Planner { is_cursor: true, ..Planner::new(*cx) })
}

/// [`plan`] for a statement that may never run: what fails in its constants fails when it does. Such a plan says so
/// ([`Plan::has_failures`]).
pub fn plan_prepared(query: &Query, cx: &PlanContext<'_>) -> Result<Plan> {
    plan_with(query, Planner { leaves_failures: true, ..Planner::new(*cx) })
}

fn plan_with(query: &Query, mut planner: Planner<'_>) -> Result<Plan> {
    let cx = planner.cx;
    planner.qualify = cx.explain && entries(query) > 1;
    let columns = result_columns(query);
    let planned = planner.plan_query(query)?;
    Ok(Plan {
        command: query.command,
        root: planned.tree,
        outputs: planned.outputs,
        columns,
        registers: planner.registers,
        nodes: planner.nodes,
        subplans: planner.subplans,
        ctes: planner.ctes,
        modifies: planner.modifies,
        relations: planner.relations,
        indexes: planner.indexes,
        passed_over: cx.read_time.filter(|_| planner.passed_over.get()).map(|read| read.time),
        positions: planner.positions,
        has_failures: planner.has_failures.get(),
        access: cairn_analyze::privileges::required_access(query, cx.catalog),
    })
}

/// Entries of all range tables.
fn entries(query: &Query) -> usize {
    let mut count = query.range_table.len();
    conditions::for_each_subquery(query, &mut |subquery| count += entries(subquery));
    count
}

/// Columns that the query returns.
pub fn result_columns(query: &Query) -> Arc<[ResultColumn]> {
    let list = if query.command == CommandType::Select { &query.targets } else { &query.returning };
    list.iter()
        .filter(|target| !target.junk)
        .map(|target| ResultColumn {
            name: Arc::clone(&target.name),
            ty: cairn_analyze::expr_type(&target.expr),
            origin_table: target.origin_table,
            origin_column: target.origin_column,
        })
        .collect()
}

/// A planned (sub)query: its rows are `outputs` over the registers after each `next` of `tree`.
#[derive(Debug)]
pub struct Planned {
    pub tree: PlanTree,
    pub outputs: Vec<Code>,
}

pub struct Planner<'a> {
    pub cx: PlanContext<'a>,
    pub(crate) levels: Vec<Level>,
    pub(crate) registers: usize,
    nodes: usize,
    pub(crate) subplans: Vec<SubPlan>,
    pub(crate) ctes: Vec<CtePlan>,
    /// A statement that writes or locks.
    pub modifies: bool,
    relations: Vec<RelationUse>,
    indexes: Vec<IndexUse>,
    /// An index could not be considered, because it is younger than the time that the plan reads at.
    passed_over: Cell<bool>,
    /// Registers of the values that `Expr::TestValue` means, innermost last.
    pub(crate) test_values: Vec<usize>,
    /// Subplans made since the list was last taken: they belong to the node that is being built.
    pub(crate) fresh_subplans: Vec<usize>,
    /// Names that EXPLAIN has given to tables.
    pub(crate) used_aliases: std::collections::HashSet<String>,
    /// EXPLAIN names columns with their table: there is more than one.
    pub(crate) qualify: bool,
    /// Number of WITH RECURSIVE queries.
    pub(crate) working_tables: usize,
    /// For a cursor: where it stands can be asked.
    pub(crate) is_cursor: bool,
    /// Functions of constants that fail do so when the plan runs.
    pub(crate) leaves_failures: bool,
    /// There was one.
    pub(crate) has_failures: Cell<bool>,
    pub(crate) positions: Vec<crate::plan::Position>,
}

impl<'a> Planner<'a> {
    pub fn new(cx: PlanContext<'a>) -> Self {
        Planner {
            cx,
            levels: Vec::new(),
            registers: 0,
            nodes: 0,
            subplans: Vec::new(),
            ctes: Vec::new(),
            modifies: false,
            relations: Vec::new(),
            indexes: Vec::new(),
            passed_over: Cell::new(false),
            test_values: Vec::new(),
            fresh_subplans: Vec::new(),
            working_tables: 0,
            qualify: false,
            used_aliases: Default::default(),
            is_cursor: false,
            leaves_failures: false,
            has_failures: Cell::new(false),
            positions: Vec::new(),
        }
    }

    /// A new register.
    pub fn register(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    /// `count` consecutive registers; the first one's number.
    pub fn register_block(&mut self, count: usize) -> usize {
        let first = self.registers;
        self.registers += count;
        first
    }

    /// Puts a node on its children. Estimates are set by the caller afterwards.
    pub fn node(&mut self, operator: impl Operator + 'static, children: Vec<PlanTree>) -> PlanTree {
        self.shared_node(Arc::new(operator), children)
    }

    pub fn shared_node(&mut self, operator: Arc<dyn Operator>, children: Vec<PlanTree>) -> PlanTree {
        let number = self.nodes;
        self.nodes += 1;
        let (startup_cost, total_cost, rows, width) = children.first().map_or((0.0, 0.01, 1.0, 0), |child| {
            (child.startup_cost, child.total_cost, child.rows, child.width)
        });
        PlanTree {
            operator,
            children,
            number,
            startup_cost,
            total_cost,
            rows,
            width,
            subplans: self.take_correlated(),
            ctes: Vec::new(),
        }
    }

    /// Fresh subplans that belong to the node that evaluates them; the others run once for the whole query.
    fn take_correlated(&mut self) -> Vec<usize> {
        let (once, again) = std::mem::take(&mut self.fresh_subplans)
            .into_iter()
            .partition(|number| self.subplans[*number].label.starts_with("InitPlan"));
        self.fresh_subplans = once;
        again
    }

    /// Notes that the plan touches a table.
    pub fn uses(&mut self, relation: Oid, usage: Usage) {
        let rank = |usage: Usage| match usage {
            Usage::Read => 0,
            Usage::Lock(_) => 1,
            Usage::Write => 2,
        };
        if usage != Usage::Read {
            self.modifies = true;
        }
        match self.relations.iter_mut().find(|entry| entry.relation == relation) {
            Some(entry) if rank(entry.usage) >= rank(usage) => {}
            Some(entry) => entry.usage = usage,
            None => self.relations.push(RelationUse { relation, usage }),
        }
    }

    /// Whether the plan may read the index. What else an index says of its table (that values are unique) is asked of the
    /// newest state, or is no more than an estimate.
    pub(crate) fn may_read(&self, relation: &Relation, index: &Index) -> bool {
        let serves =
            |read: ReadTime<'_>| read.transaction.index_serves(read.time, relation.storage, index.storage);
        if !index.valid {
            return false;
        }
        let serves = self.cx.read_time.is_none_or(serves);
        if !serves {
            self.passed_over.set(true);
        }
        serves
    }

    /// Notes that the plan reads an index other than the one that its table is ordered by.
    pub(crate) fn uses_index(&mut self, relation: &Relation, index: &Index) {
        let used = IndexUse { table: relation.storage, index: index.storage };
        if !self.indexes.contains(&used) {
            self.indexes.push(used);
        }
    }

    /// Plans a query one level below the current one.
    pub fn plan_query(&mut self, query: &Query) -> Result<Planned> {
        crate::stack::check()?;
        let depth = self.levels.len();
        let around = std::mem::take(&mut self.fresh_subplans);
        let result = match query.command {
            CommandType::Select => self.plan_select(query),
            CommandType::Insert | CommandType::Update | CommandType::Delete => crate::dml::plan(self, query),
        };
        let own_ctes = self.levels.get(depth).map(|level| level.own_ctes.clone()).unwrap_or_default();
        self.levels.truncate(depth);
        let fresh = std::mem::replace(&mut self.fresh_subplans, around);
        let mut planned = result?;
        // What no node has taken hangs on the topmost one: InitPlans, and those of the output.
        planned.tree.subplans.extend(fresh);
        planned.tree.ctes.extend(own_ctes);
        Ok(planned)
    }

    pub fn catalog(&self) -> &'a Arc<Catalog> {
        self.cx.catalog
    }
}
