//! Conditions as lists of conjuncts, and what they look at.

use cairn_analyze::query::{Expr, Query, RangeTableKind};
use cairn_catalog::Volatility;
use cairn_types::{Datum, Error, Result};

use super::Planner;
use cairn_analyze::walk;

/// A set of range table entries of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelSet(pub u128);

impl RelSet {
    pub const EMPTY: RelSet = RelSet(0);

    /// Entries past the 128th cannot be told apart: [`check_size`] refuses such queries.
    pub fn of(range: usize) -> Self {
        RelSet(1u128.checked_shl(range as u32).unwrap_or(0))
    }

    pub fn union(self, other: RelSet) -> Self {
        RelSet(self.0 | other.0)
    }

    pub fn minus(self, other: RelSet) -> Self {
        RelSet(self.0 & !other.0)
    }

    pub fn within(self, other: RelSet) -> bool {
        self.0 & !other.0 == 0
    }

    pub fn overlaps(self, other: RelSet) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..128).filter(move |range| self.0 >> range & 1 == 1)
    }
}

pub fn check_size(query: &Query) -> Result<()> {
    if query.range_table.len() > 128 {
        return Err(Error::unsupported("more than 128 tables and joins in one query are"));
    }
    Ok(())
}

/// Splits at ANDs.
pub fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::And(args) => args.into_iter().for_each(|arg| conjuncts(arg, out)),
        Expr::Const { value: Datum::Bool(true), .. } => {}
        other => out.push(other),
    }
}

/// The entries of the expression's own level that it looks at, through subqueries too.
pub fn rels(expr: &Expr) -> RelSet {
    let mut set = RelSet::EMPTY;
    walk::deep(expr, 0, &mut |expr, level| match expr {
        Expr::Var(var) if var.levels_up == level => set = set.union(RelSet::of(var.varno)),
        // It is about the table that is changed, which is the first of a query's entries.
        Expr::CurrentOf { .. } if level == 0 => set = set.union(RelSet::of(0)),
        _ => {}
    });
    set
}

/// The entries of the level around a subquery that the subquery looks at.
pub fn outer_rels(query: &Query) -> RelSet {
    let mut set = RelSet::EMPTY;
    walk::deep_query(query, 0, &mut |expr, level| {
        if let Expr::Var(var) = expr
            && var.levels_up == level + 1
        {
            set = set.union(RelSet::of(var.varno));
        }
    });
    set
}

/// Whether a query refers to any level outside: columns, aggregates, or WITH queries that do.
pub fn is_correlated(query: &Query) -> bool {
    let mut found = false;
    walk::deep_query(query, 0, &mut |expr, level| match expr {
        Expr::Var(var) => found |= var.levels_up > level,
        Expr::Aggregate(call) => found |= call.levels_up > level,
        _ => {}
    });
    found || reads_working_table(query, 0)
}

/// Whether it reads the working table of a recursion outside.
fn reads_working_table(query: &Query, level: u32) -> bool {
    let mut found = query.range_table.iter().any(|entry| {
        matches!(entry.kind, RangeTableKind::Cte { self_reference: true, levels_up, .. } if levels_up > level)
    });
    for_each_subquery(query, &mut |subquery| found |= reads_working_table(subquery, level + 1));
    found
}

/// Calls `f` with every query one level down: in the range table, in WITH, in expressions.
pub fn for_each_subquery(query: &Query, f: &mut dyn FnMut(&Query)) {
    walk::query_subqueries(query, f);
    fn sublinks(expr: &Expr, f: &mut dyn FnMut(&Query)) {
        if let Expr::SubLink(link) = expr {
            f(&link.query);
        }
        walk::children(expr, &mut |child| sublinks(child, f));
    }
    walk::query_expressions(query, &mut |expr| sublinks(expr, f));
}

pub fn for_each_subquery_mut(query: &mut Query, f: &mut dyn FnMut(&mut Query)) {
    walk::query_subqueries_mut(query, f);
    fn sublinks(expr: &mut Expr, f: &mut dyn FnMut(&mut Query)) {
        if let Expr::SubLink(link) = expr {
            f(&mut link.query);
        }
        walk::children_mut(expr, &mut |child| sublinks(child, f));
    }
    walk::query_expressions_mut(query, &mut |expr| sublinks(expr, f));
}

pub fn has_sublink(expr: &Expr) -> bool {
    walk::any(expr, &mut |expr| matches!(expr, Expr::SubLink(_)))
}

pub fn has_set_returning(expr: &Expr) -> bool {
    walk::any(expr, &mut |expr| match expr {
        Expr::Function(call) => call.returns_set,
        Expr::Operator(call) => call.returns_set,
        _ => false,
    })
}

impl Planner<'_> {
    pub fn function_volatility(&self, function: u32) -> Volatility {
        self.catalog().proc(function).map_or(Volatility::Volatile, |proc| proc.volatility)
    }

    /// Whether evaluating it twice may give different answers, or do something.
    pub fn is_volatile(&self, expr: &Expr) -> bool {
        let mut found = false;
        walk::deep(expr, 0, &mut |expr, _| found |= self.node_is_volatile(expr));
        found
    }

    fn node_is_volatile(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Function(call) => self.function_volatility(call.function) == Volatility::Volatile,
            Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => {
                self.function_volatility(call.function) == Volatility::Volatile
            }
            Expr::ArrayOperator(call) => self.function_volatility(call.function) == Volatility::Volatile,
            Expr::NextValue { .. } => true,
            _ => false,
        }
    }

    pub fn query_is_volatile(&self, query: &Query) -> bool {
        let mut found = false;
        walk::deep_query(query, 0, &mut |expr, _| found |= self.node_is_volatile(expr));
        found
    }

    /// Whether the condition cannot be true where all columns of `set` are null.
    pub fn rejects_nulls(&self, expr: &Expr, set: RelSet) -> bool {
        match expr {
            Expr::And(args) => args.iter().any(|arg| self.rejects_nulls(arg, set)),
            Expr::Or(args) => args.iter().all(|arg| self.rejects_nulls(arg, set)),
            Expr::NullTest { arg, is_null: false, row_type: false, .. } => self.is_null_for_nulls(arg, set),
            Expr::BooleanTest { arg, test, .. } => {
                use cairn_analyze::query::BooleanTest;
                matches!(test, BooleanTest::IsTrue | BooleanTest::IsFalse | BooleanTest::IsNotUnknown)
                    && self.is_null_for_nulls(arg, set)
            }
            Expr::ArrayOperator(call) if call.any => {
                self.is_null_for_nulls(&call.left, set) && self.is_strict(call.function)
            }
            other => self.is_null_for_nulls(other, set),
        }
    }

    fn is_strict(&self, function: u32) -> bool {
        self.catalog().proc(function).is_some_and(|proc| proc.strict)
    }

    /// Whether the expression is null where all columns of `set` are.
    fn is_null_for_nulls(&self, expr: &Expr, set: RelSet) -> bool {
        match expr {
            Expr::Var(var) => var.levels_up == 0 && var.attno != 0 && RelSet::of(var.varno).within(set),
            Expr::Function(call) => {
                self.is_strict(call.function) && call.args.iter().any(|arg| self.is_null_for_nulls(arg, set))
            }
            Expr::Operator(call) => {
                self.is_strict(call.function) && call.args.iter().any(|arg| self.is_null_for_nulls(arg, set))
            }
            Expr::Relabel { arg, .. }
            | Expr::Collate { arg, .. }
            | Expr::CoerceViaIo { arg, .. }
            | Expr::ArrayCoerce { arg, .. } => self.is_null_for_nulls(arg, set),
            Expr::Not(arg) => self.is_null_for_nulls(arg, set),
            _ => false,
        }
    }
}
