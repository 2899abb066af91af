//! Candidate ways to compute a part of FROM, compared by cost and turned into plan nodes once the choice is made.

use std::rc::Rc;

use cairn_analyze::query::Expr;
use cairn_types::{Datum, Result};

use super::Planner;
use super::access::TableAccess;
use super::conditions::{RelSet, conjuncts};
use super::prepare::conjunction;
use super::system::SystemAccess;
use crate::expr::Code;
use crate::node::PlanTree;
use crate::nodes::append::Project;
use crate::nodes::cte::Materialize;
use crate::nodes::distinct::Distinct;
use crate::nodes::join::{HashJoin, HashNode, JoinType, NestedLoop};
use crate::nodes::simple_scans::ResultNode;

/// One column of an order: entry, attribute (or a key expression of an index).
#[derive(Clone, Debug)]
pub struct OrderKey {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct Path {
    pub kind: PathKind,
    /// Entries that it joins.
    pub rels: RelSet,
    /// Entries whose rows must be there already (nested loop around).
    pub params: RelSet,
    pub rows: f64,
    pub startup_cost: f64,
    pub total_cost: f64,
    pub order: Vec<OrderKey>,
}

#[derive(Clone, Debug)]
pub enum PathKind {
    Table(Rc<TableAccess>),
    System(Rc<SystemAccess>),
    /// Planned already; further conditions are put on top.
    Built(Rc<PlanTree>, Vec<Expr>),
    /// No entry at all: one row.
    One,
    Nested(Rc<JoinPath>),
    Hash(Rc<JoinPath>),
    Materialize(Rc<Path>),
    /// Only if conditions hold that do not depend on its rows.
    OneTime(Rc<Path>, Vec<Expr>),
    /// Rows that differ in these expressions.
    Unique(Rc<Path>, Vec<Expr>),
}

#[derive(Clone, Debug)]
pub struct JoinPath {
    pub kind: JoinType,
    pub outer: Path,
    pub inner: Path,
    /// Hash join: pairs of outer and inner expression, with the condition that they come from.
    pub keys: Vec<(Expr, Expr, Expr)>,
    /// Conditions of the join itself.
    pub conditions: Vec<Expr>,
    /// Conditions on joined rows (outer joins only; elsewhere they are join conditions).
    pub filter: Vec<Expr>,
}

impl Path {
    pub fn one() -> Path {
        Path {
            kind: PathKind::One,
            rels: RelSet::EMPTY,
            params: RelSet::EMPTY,
            rows: 1.0,
            startup_cost: 0.0,
            total_cost: 0.01,
            order: Vec::new(),
        }
    }

    /// The scan that gives the order is shown as one over its key.
    pub fn show_order(&mut self) {
        match &mut self.kind {
            PathKind::Table(access) => Rc::make_mut(access).ordered = true,
            PathKind::Nested(join) | PathKind::Hash(join) => Rc::make_mut(join).outer.show_order(),
            PathKind::OneTime(child, _) => Rc::make_mut(child).show_order(),
            PathKind::System(_)
            | PathKind::Built(..)
            | PathKind::One
            | PathKind::Materialize(_)
            | PathKind::Unique(..) => {}
        }
    }

    /// Cost of the first `fraction` of the rows.
    pub fn fractional_cost(&self, fraction: f64) -> f64 {
        self.startup_cost + fraction.clamp(0.0, 1.0) * (self.total_cost - self.startup_cost)
    }
}

impl Planner<'_> {
    /// The conjunction of some conditions, compiled, and its text if that is wanted.
    pub fn compile_conditions(&mut self, conditions: &[Expr]) -> Result<(Option<Code>, String)> {
        let Some(expr) = conjunction(conditions.to_vec()) else { return Ok((None, String::new())) };
        // Cheap ones first; none of them may rely on another one's coming before it.
        let mut ordered = conditions.to_vec();
        ordered.sort_by_key(|condition| self.expense(condition));
        let code = match conjunction(ordered) {
            Some(ordered) => self.compile(&ordered)?,
            None => Code::TRUE,
        };
        let text = self.text(&expr);
        Ok((Some(code), text))
    }

    /// How dear a condition is: 0 operators, 1 functions that ask the catalog or are not built in, 2 subqueries.
    fn expense(&self, condition: &Expr) -> u8 {
        let mut expense = 0;
        cairn_analyze::walk::deep(condition, 0, &mut |expr, _| match expr {
            Expr::SubLink(_) => expense = 2,
            Expr::Function(call) => {
                let dear = self.catalog().proc(call.function).is_none_or(|proc| {
                    !matches!(proc.language, cairn_types::oid::languages::INTERNAL)
                        || cairn_functions::system::NAMES.contains(&&*proc.source)
                });
                expense = expense.max(u8::from(dear));
            }
            _ => {}
        });
        expense
    }

    /// The text of an expression of the current level, if the plan will be shown. Subqueries are named, not spelled out.
    pub fn text(&self, expr: &Expr) -> String {
        if !self.cx.explain {
            return String::new();
        }
        self.text_of(expr.clone(), self.qualify, &mut Vec::new())
    }

    /// The text of conditions of a scan: the scanned entry's own columns without their table's name.
    pub fn scan_text(&self, conditions: &[Expr], range: usize) -> String {
        if !self.cx.explain {
            return String::new();
        }
        let Some(mut expr) = conjunction(conditions.to_vec()) else { return String::new() };
        let mut named = Vec::new();
        self.name_foreign(&mut expr, range, &mut named);
        self.text_of(expr, self.cx.verbose && self.qualify, &mut named)
    }

    /// Puts parameters in the place of columns of other entries.
    fn name_foreign(&self, expr: &mut Expr, range: usize, named: &mut Vec<(String, String)>) {
        if let Expr::Var(var) = expr
            && (var.varno != range || var.levels_up > 0)
        {
            let placeholder = 2_000_000 + named.len() as u32;
            let ty = var.ty;
            named.push((format!("${placeholder}"), self.text_of(expr.clone(), true, &mut Vec::new())));
            *expr = Expr::Param { number: placeholder, ty, location: -1 };
            return;
        }
        if !matches!(expr, Expr::SubLink(_)) {
            cairn_analyze::walk::children_mut(expr, &mut |child| self.name_foreign(child, range, named));
        }
    }

    fn text_of(&self, mut expr: Expr, qualify: bool, named: &mut Vec<(String, String)>) -> String {
        let queries: Vec<&cairn_analyze::query::Query> =
            self.levels.iter().map(|level| &*level.query).collect();
        self.name_subplans(&mut expr, named);
        let mut text = self.cx.expressions.deparse(&expr, &queries, qualify);
        for (placeholder, name) in named {
            text = text.replace(&*placeholder, name);
        }
        text
    }

    /// Puts parameters in the place of subqueries: what each is to be printed as.
    fn name_subplans(&self, expr: &mut Expr, named: &mut Vec<(String, String)>) {
        if let Expr::SubLink(link) = expr {
            let known =
                self.level().sublinks.iter().find(|(known, _)| super::sublink::same_sublink(known, link));
            if let Some((_, number)) = known {
                let subplan = &self.subplans[*number];
                let name = match &subplan.kind {
                    _ if subplan.label.starts_with("InitPlan") => format!("${number}"),
                    crate::subplan::SubPlanKind::HashedAny { .. } => format!("(hashed {})", subplan.label),
                    _ => format!("({})", subplan.label),
                };
                // Far above any parameter's number.
                let placeholder = 1_000_000 + *number as u32;
                named.push((format!("${placeholder}"), name));
                let ty = cairn_analyze::expr_type(expr);
                *expr = Expr::Param { number: placeholder, ty, location: -1 };
            }
            return;
        }
        cairn_analyze::walk::children_mut(expr, &mut |child| self.name_subplans(child, named));
    }

    /// The registers of the entries of a set, as far as they are scanned.
    pub fn registers_of(&self, set: RelSet) -> Vec<usize> {
        set.iter().filter_map(|range| self.level().rels.get(range)).flat_map(|rel| rel.registers()).collect()
    }

    /// Turns the chosen path into nodes.
    pub fn build(&mut self, path: &Path) -> Result<PlanTree> {
        crate::stack::check()?;
        let mut tree = match &path.kind {
            PathKind::One => self.node(
                ResultNode {
                    one_time: None,
                    filter: None,
                    one_time_text: String::new(),
                    filter_text: String::new(),
                },
                Vec::new(),
            ),
            PathKind::Table(access) => self.build_table_access(access)?,
            PathKind::System(access) => self.build_system_access(access)?,
            PathKind::Built(tree, conditions) => {
                let tree = (**tree).clone();
                if conditions.is_empty() {
                    tree
                } else {
                    let (filter, filter_text) = self.compile_conditions(conditions)?;
                    self.node(
                        Project {
                            computed: Vec::new(),
                            filter,
                            reset_ctes: Vec::new(),
                            alias: String::new(),
                            filter_text,
                        },
                        vec![tree],
                    )
                }
            }
            PathKind::OneTime(child, conditions) => {
                let child = self.build(child)?;
                let (one_time, one_time_text) = self.compile_conditions(conditions)?;
                // What never runs is not shown.
                let never = matches!(one_time, Some(Code::Const(Datum::Bool(false) | Datum::Null)));
                let children = if never { Vec::new() } else { vec![child] };
                let operator =
                    ResultNode { one_time, filter: None, one_time_text, filter_text: String::new() };
                self.node(operator, children)
            }
            PathKind::Materialize(child) => {
                let registers = self.registers_of(child.rels);
                let child = self.build(child)?;
                // What is kept must not change: in a correlated subquery it may, with the outer row.
                if child.reads_working_table() || self.level().correlated {
                    return Ok(child);
                }
                self.node(Materialize { registers }, vec![child])
            }
            PathKind::Unique(child, exprs) => {
                let mut computed = Vec::new();
                let mut registers = Vec::new();
                let mut blank_padded = Vec::new();
                let tree = self.build(child)?;
                for expr in exprs {
                    blank_padded.push(
                        self.catalog().base_type(cairn_analyze::expr_type(expr).oid)
                            == cairn_types::types::BPCHAR,
                    );
                    match self.compile(expr)? {
                        Code::Register(register) => registers.push(register),
                        code => {
                            let register = self.register();
                            computed.push((register, code));
                            registers.push(register);
                        }
                    }
                }
                let tree = if computed.is_empty() {
                    tree
                } else {
                    self.node(
                        Project {
                            computed,
                            filter: None,
                            reset_ctes: Vec::new(),
                            alias: String::new(),
                            filter_text: String::new(),
                        },
                        vec![tree],
                    )
                };
                let key_texts =
                    exprs.iter().map(|expr| self.text(expr)).filter(|text| !text.is_empty()).collect();
                self.node(Distinct { registers, blank_padded, sorted: false, key_texts }, vec![tree])
            }
            PathKind::Nested(join) => {
                let outer = self.build(&join.outer)?;
                let inner = self.build(&join.inner)?;
                let (condition, condition_text) = self.compile_conditions(&join.conditions)?;
                let (filter, filter_text) = self.compile_conditions(&join.filter)?;
                let inner_registers = self.registers_of(join.inner.rels);
                self.node(
                    NestedLoop {
                        kind: join.kind,
                        condition,
                        filter,
                        inner_registers,
                        inner_unique: false,
                        condition_text,
                        filter_text,
                    },
                    vec![outer, inner],
                )
            }
            PathKind::Hash(join) => self.build_hash(join)?,
        };
        // Of a lookup a part of a row may be expected.
        tree.rows = super::estimate::clamp_rows(path.rows);
        tree.startup_cost = path.startup_cost;
        tree.total_cost = path.total_cost;
        tree.width = self.width_of(path.rels);
        Ok(tree)
    }

    fn build_hash(&mut self, join: &JoinPath) -> Result<PlanTree> {
        let outer = self.build(&join.outer)?;
        let inner = self.build(&join.inner)?;
        let hash = self.node(HashNode, vec![inner]);
        let mut outer_keys = Vec::new();
        let mut inner_keys = Vec::new();
        let mut blank_padded = Vec::new();
        let mut key_conditions = Vec::new();
        for (outer, inner, condition) in &join.keys {
            blank_padded.push(
                self.catalog().base_type(cairn_analyze::expr_type(outer).oid) == cairn_types::types::BPCHAR,
            );
            outer_keys.push(self.compile(outer)?);
            inner_keys.push(self.compile(inner)?);
            conjuncts(condition.clone(), &mut key_conditions);
        }
        let (condition, condition_text) = self.compile_conditions(&join.conditions)?;
        let (filter, filter_text) = self.compile_conditions(&join.filter)?;
        let hash_text = conjunction(key_conditions).map_or(String::new(), |expr| self.text(&expr));
        // In a correlated subquery the inner side may change with the outer row.
        let keep_table =
            join.inner.params.is_empty() && !self.level().correlated && !hash.reads_working_table();
        let operator = HashJoin {
            kind: join.kind,
            outer_keys,
            inner_keys,
            blank_padded,
            condition,
            filter,
            outer_registers: self.registers_of(join.outer.rels),
            inner_registers: self.registers_of(join.inner.rels),
            keep_table,
            hash_text,
            condition_text,
            filter_text,
        };
        Ok(self.node(operator, vec![outer, hash]))
    }

    /// Bytes of a row of these entries, as far as columns are used.
    pub fn width_of(&self, set: RelSet) -> u32 {
        let mut width = 0;
        for range in set.iter() {
            let Some(rel) = self.level().rels.get(range) else { continue };
            let entry = &self.level().query.range_table[range];
            for attno in &rel.used {
                let Some(column) = entry.columns.get(*attno as usize - 1) else { continue };
                let statistics =
                    rel.relation.as_ref().and_then(|table| table.statistics.get(table.oid, *attno));
                let measured = statistics.and_then(|found| u32::try_from(found.average_width).ok());
                width += measured.filter(|width| *width > 0).unwrap_or_else(|| self.type_width(column.ty));
            }
        }
        width
    }

    pub fn type_width(&self, ty: cairn_catalog::TypeRef) -> u32 {
        match self.catalog().type_by_oid(ty.oid).map_or(-1, |object| object.length) {
            length if length > 0 => length as u32,
            // varchar(n): as PostgreSQL guesses without statistics.
            _ if ty.typmod > 4 && ty.oid != cairn_types::types::NUMERIC => {
                ((ty.typmod - 4) as u32 / 2).clamp(4, 1000)
            }
            _ => 32,
        }
    }
}

/// Stands where a tree was taken out; never run.
pub(crate) fn placeholder() -> PlanTree {
    PlanTree {
        operator: std::sync::Arc::new(HashNode),
        children: Vec::new(),
        number: 0,
        startup_cost: 0.0,
        total_cost: 0.0,
        rows: 0.0,
        width: 0,
        subplans: Vec::new(),
        ctes: Vec::new(),
    }
}
