//! Which conditions a key can answer.

use std::sync::Arc;

use cairn_analyze::query::{BooleanTest, Expr, OnConflict, Var};
use cairn_catalog::{BtreeStrategy, Index, IndexKey, IndexKeyColumn, Relation};
use cairn_types::row::PhysicalKind;
use cairn_types::{Datum, Oid, Result, err, types};

use super::Planner;
use super::conditions::{RelSet, conjuncts, rels};
use super::estimate::strip;
use crate::expr::equal::same;
use cairn_analyze::expr_type;
use cairn_analyze::walk;

/// A condition on one key column.
#[derive(Clone, Debug)]
pub enum KeyCondition {
    Equal(Expr),
    Any(Expr),
    IsNull,
    IsNotNull,
    /// Strategy seen from the column: `column < value`.
    Compare(BtreeStrategy, Expr),
    /// A condition that implies this range and says more: it must be checked as well.
    Within {
        low: Option<(Expr, bool)>,
        high: Option<(Expr, bool)>,
    },
}

/// What a key can do for a list of conditions.
#[derive(Clone, Debug, Default)]
pub struct KeyMatch {
    /// For the first columns of the key.
    pub columns: Vec<ColumnMatch>,
    /// Positions of the conditions that are answered completely.
    pub answered: Vec<usize>,
}

#[derive(Clone, Debug)]
pub enum ColumnMatch {
    Equal(Expr),
    Any(Expr),
    IsNull,
    Range { low: Option<(Expr, bool)>, high: Option<(Expr, bool)> },
}

/// The strategy with its sides exchanged.
pub(super) fn commuted(strategy: BtreeStrategy) -> BtreeStrategy {
    match strategy {
        BtreeStrategy::Less => BtreeStrategy::Greater,
        BtreeStrategy::LessEqual => BtreeStrategy::GreaterEqual,
        BtreeStrategy::Equal => BtreeStrategy::Equal,
        BtreeStrategy::GreaterEqual => BtreeStrategy::LessEqual,
        BtreeStrategy::Greater => BtreeStrategy::Less,
    }
}

impl Planner<'_> {
    /// The key column as an expression over entry `range`.
    pub fn key_expression(&self, relation: &Arc<Relation>, key: &IndexKey, range: usize) -> Result<Expr> {
        match &key.key {
            IndexKeyColumn::Attribute(attno) => {
                let ty = relation.columns.get(*attno as usize - 1).map_or(key.ty, |column| column.ty);
                Ok(Expr::Var(Var { varno: range, attno: *attno, levels_up: 0, ty, location: -1 }))
            }
            IndexKeyColumn::Expression(text) => {
                let mut expr = self.cx.expressions.over_table(relation, text)?;
                renumber(&mut expr, range);
                Ok(expr)
            }
        }
    }

    /// Whether values of the type can be encoded like those of the key column: one encoding, one order.
    fn same_encoding(&self, key: Oid, value: Oid) -> bool {
        let class = |oid: Oid| {
            let kind = self.catalog().physical_kind(oid);
            match kind {
                PhysicalKind::Int2 | PhysicalKind::Int4 | PhysicalKind::Int8 => PhysicalKind::Int8,
                PhysicalKind::Float4 | PhysicalKind::Float8 => PhysicalKind::Float8,
                other => other,
            }
        };
        if class(key) != class(value) {
            return false;
        }
        // char(n) ignores blanks that text does not.
        (self.catalog().base_type(key) == types::BPCHAR) == (self.catalog().base_type(value) == types::BPCHAR)
    }

    /// What a condition says of a key column, if its other side does not look at entry `range`.
    fn key_condition(
        &self,
        condition: &Expr,
        key: &Expr,
        column: &IndexKey,
        range: usize,
    ) -> Option<KeyCondition> {
        let foreign = |expr: &Expr| !rels(expr).overlaps(RelSet::of(range)) && !self.is_volatile(expr);
        let is_key = |expr: &Expr| same(strip(expr), strip(key));
        let member = |operator: Oid| {
            self.catalog()
                .operator_memberships(operator)
                .iter()
                .find(|member| member.family == column.opfamily)
                .copied()
        };
        match condition {
            Expr::Operator(call) if let Some(range) = self.like_range(call, &is_key) => Some(range),
            // (a, b) > (x, y) implies a >= x.
            Expr::RowCompare { strategy, operators, left, right, .. } => {
                let (left, right) = (left.first()?, right.first()?);
                let usable = is_key(left) && foreign(right) && member(*operators.first()?).is_some();
                if !usable || !self.same_encoding(expr_type(key).oid, expr_type(right).oid) {
                    return None;
                }
                let bound = Some((right.clone(), true));
                match strategy {
                    BtreeStrategy::Less | BtreeStrategy::LessEqual => {
                        Some(KeyCondition::Within { low: None, high: bound })
                    }
                    BtreeStrategy::Greater | BtreeStrategy::GreaterEqual => {
                        Some(KeyCondition::Within { low: bound, high: None })
                    }
                    BtreeStrategy::Equal => None,
                }
            }
            Expr::Operator(call) => {
                let [left, right] = call.args.as_slice() else { return None };
                let (value, strategy) = if is_key(left) && foreign(right) {
                    (right, member(call.operator)?.strategy)
                } else if is_key(right) && foreign(left) {
                    (left, commuted(member(call.operator)?.strategy))
                } else {
                    return None;
                };
                if !self.same_encoding(expr_type(key).oid, expr_type(value).oid) {
                    return None;
                }
                Some(match strategy {
                    BtreeStrategy::Equal => KeyCondition::Equal(value.clone()),
                    other => KeyCondition::Compare(other, value.clone()),
                })
            }
            Expr::ArrayOperator(call) if call.any && is_key(&call.left) && foreign(&call.array) => {
                let element =
                    self.catalog().array_element(self.catalog().base_type(expr_type(&call.array).oid));
                (member(call.operator)?.strategy == BtreeStrategy::Equal
                    && self.same_encoding(expr_type(key).oid, element))
                .then(|| KeyCondition::Any(call.array.clone()))
            }
            Expr::NullTest { arg, is_null, row_type: false, .. } if is_key(arg) => {
                Some(if *is_null { KeyCondition::IsNull } else { KeyCondition::IsNotNull })
            }
            // A boolean column is a condition by itself.
            Expr::Var(_) if expr_type(condition).oid == types::BOOL && is_key(condition) => {
                Some(KeyCondition::Equal(boolean(true)))
            }
            Expr::Not(arg) if expr_type(arg).oid == types::BOOL && is_key(arg) => {
                Some(KeyCondition::Equal(boolean(false)))
            }
            Expr::BooleanTest { arg, test: BooleanTest::IsTrue, .. } if is_key(arg) => {
                Some(KeyCondition::Equal(boolean(true)))
            }
            Expr::BooleanTest { arg, test: BooleanTest::IsFalse, .. } if is_key(arg) => {
                Some(KeyCondition::Equal(boolean(false)))
            }
            _ => None,
        }
    }

    /// `column like 'abc%'`: the texts that begin with the pattern's fixed part. Only bytewise order makes them neighbours,
    /// and that is the only one there is.
    fn like_range(
        &self,
        call: &cairn_analyze::query::OperatorCall,
        is_key: &dyn Fn(&Expr) -> bool,
    ) -> Option<KeyCondition> {
        let [column, Expr::Const { value: Datum::Text(pattern), ty, location }] = call.args.as_slice() else {
            return None;
        };
        let function = self.catalog().proc(call.function)?;
        if &*function.source != "textlike" || !is_key(column) || expr_type(column).oid == types::BPCHAR {
            return None;
        }
        let fixed = pattern.find(['%', '_', '\\']).unwrap_or(pattern.len());
        let prefix = &pattern[..fixed];
        let high = super::selectivity::prefix_end(prefix)?;
        let text = |value: &str| Expr::Const { value: Datum::text(value), ty: *ty, location: *location };
        Some(KeyCondition::Within { low: Some((text(prefix), true)), high: Some((text(&high), false)) })
    }

    /// Matches conditions with a key's columns, as far as they bind its beginning.
    pub fn match_key(
        &self,
        relation: &Arc<Relation>,
        keys: &[IndexKey],
        conditions: &[&Expr],
        range: usize,
    ) -> Result<KeyMatch> {
        let mut matched = KeyMatch::default();
        for column in keys {
            let key = self.key_expression(relation, column, range)?;
            let mut found: Vec<(usize, KeyCondition)> = Vec::new();
            for (position, condition) in conditions.iter().enumerate() {
                if let Some(condition) = self.key_condition(condition, &key, column, range) {
                    found.push((position, condition));
                }
            }
            let pick =
                |wanted: fn(&KeyCondition) -> bool| found.iter().find(|(_, condition)| wanted(condition));
            let single = pick(|condition| matches!(condition, KeyCondition::Equal(_)))
                .or_else(|| pick(|condition| matches!(condition, KeyCondition::IsNull)))
                .or_else(|| pick(|condition| matches!(condition, KeyCondition::Any(_))));
            if let Some((position, condition)) = single {
                matched.answered.push(*position);
                matched.columns.push(match condition.clone() {
                    KeyCondition::Equal(value) => ColumnMatch::Equal(value),
                    KeyCondition::Any(array) => ColumnMatch::Any(array),
                    KeyCondition::IsNull
                    | KeyCondition::IsNotNull
                    | KeyCondition::Compare(..)
                    | KeyCondition::Within { .. } => ColumnMatch::IsNull,
                });
                continue;
            }
            let (mut low, mut high, mut not_null) = (None, None, false);
            for (position, condition) in found {
                match condition {
                    KeyCondition::Compare(strategy, value) => {
                        let inclusive =
                            matches!(strategy, BtreeStrategy::LessEqual | BtreeStrategy::GreaterEqual);
                        let upper = matches!(strategy, BtreeStrategy::Less | BtreeStrategy::LessEqual);
                        let slot = if upper { &mut high } else { &mut low };
                        // Of two bounds on one side one is used, the other one filters.
                        if slot.is_none() {
                            *slot = Some((value, inclusive));
                            matched.answered.push(position);
                        }
                    }
                    KeyCondition::Within { low: from, high: to } => {
                        low = low.or(from);
                        high = high.or(to);
                    }
                    KeyCondition::IsNotNull => {
                        not_null = true;
                        matched.answered.push(position);
                    }
                    KeyCondition::Equal(_) | KeyCondition::Any(_) | KeyCondition::IsNull => {}
                }
            }
            if low.is_some() || high.is_some() || not_null {
                matched.columns.push(ColumnMatch::Range { low, high });
            }
            break;
        }
        Ok(matched)
    }

    /// Whether the conditions imply a partial index's predicate.
    pub fn implies_predicate(
        &self,
        relation: &Arc<Relation>,
        index: &Index,
        conditions: &[&Expr],
        range: usize,
    ) -> Result<bool> {
        let Some(text) = &index.predicate else { return Ok(true) };
        let mut predicate = self.cx.expressions.over_table(relation, text)?;
        renumber(&mut predicate, range);
        let mut parts = Vec::new();
        conjuncts(predicate, &mut parts);
        Ok(parts.iter().all(|part| conditions.iter().any(|condition| self.implies(condition, part))))
    }

    /// The indexes that arbitrate an ON CONFLICT. 42P10 if its condition implies the predicate of none.
    pub fn arbiters(&self, clause: &OnConflict, relation: &Arc<Relation>, range: usize) -> Result<Vec<Oid>> {
        let mut found = clause.arbiters.clone();
        let Some(partial) = &clause.partial else { return Ok(found) };
        // A plan for all values is never run where parameters decide: it stands for what is to come.
        let open = walk::any(&partial.condition, &mut |expr| matches!(expr, Expr::Param { .. }));
        let mut conditions = Vec::new();
        conjuncts(partial.condition.clone(), &mut conditions);
        let conditions: Vec<&Expr> = conditions.iter().collect();
        for oid in &partial.indexes {
            let Some(index) = relation.indexes.iter().find(|index| index.oid == *oid) else { continue };
            if open || self.implies_predicate(relation, index, &conditions, range)? {
                found.push(*oid);
            }
        }
        if found.is_empty() {
            return Err(err!(
                INVALID_COLUMN_REFERENCE,
                "there is no unique or exclusion constraint matching the ON CONFLICT specification"
            ));
        }
        Ok(found)
    }

    fn implies(&self, condition: &Expr, part: &Expr) -> bool {
        if same(condition, part) {
            return true;
        }
        match (condition, part) {
            // What is stronger than IS NOT NULL.
            (_, Expr::NullTest { arg, is_null: false, row_type: false, .. }) => {
                let set = rels(arg);
                matches!(strip(arg), Expr::Var(_))
                    && mentions(condition, strip(arg))
                    && matches!(condition, Expr::Operator(_) | Expr::ArrayOperator(_))
                    && self.rejects_nulls(condition, set)
                    && direct_operand(condition, strip(arg))
            }
            (_, Expr::Or(alternatives)) => alternatives.iter().any(|part| self.implies(condition, part)),
            // `x = 5` implies `x > 3`, `x in (5, 6)`.
            (Expr::Operator(a), Expr::Operator(b)) => {
                let ([column, value], [other, bound]) = (a.args.as_slice(), b.args.as_slice()) else {
                    return false;
                };
                same(strip(column), strip(other))
                    && self.comparison_implies(a.operator, value, b.operator, bound)
            }
            (Expr::Operator(a), Expr::ArrayOperator(b)) if b.any => {
                let [column, Expr::Const { value, .. }] = a.args.as_slice() else { return false };
                let Expr::Const { value: Datum::Array(array), .. } = &b.array else { return false };
                a.operator == b.operator
                    && same(strip(column), strip(&b.left))
                    && self.strategy(a.operator) == Some(BtreeStrategy::Equal)
                    && array.elements.iter().any(|element| cairn_types::compare::equal(element, value, false))
            }
            _ => false,
        }
    }

    fn comparison_implies(&self, a: Oid, value: &Expr, b: Oid, bound: &Expr) -> bool {
        use BtreeStrategy::*;
        let (Expr::Const { value, ty, .. }, Expr::Const { value: bound, ty: bound_type, .. }) =
            (value, bound)
        else {
            return false;
        };
        if value.is_null() || bound.is_null() || ty.oid != bound_type.oid {
            return false;
        }
        let (Some(a), Some(b)) = (self.strategy(a), self.strategy(b)) else { return false };
        let order = cairn_types::compare::compare(value, bound, ty.oid == types::BPCHAR);
        match (a, b) {
            (Equal, Equal) => order.is_eq(),
            (Equal | Less | LessEqual, LessEqual) => order.is_le(),
            (Equal | LessEqual, Less) => order.is_lt(),
            (Less, Less) => order.is_le(),
            (Equal | Greater | GreaterEqual, GreaterEqual) => order.is_ge(),
            (Equal | GreaterEqual, Greater) => order.is_gt(),
            (Greater, Greater) => order.is_ge(),
            _ => false,
        }
    }
}

fn boolean(value: bool) -> Expr {
    Expr::Const {
        value: Datum::Bool(value),
        ty: cairn_catalog::TypeRef { oid: types::BOOL, typmod: -1, collation: 0 },
        location: -1,
    }
}

fn mentions(expr: &Expr, part: &Expr) -> bool {
    walk::any(expr, &mut |expr| same(expr, part))
}

fn direct_operand(condition: &Expr, part: &Expr) -> bool {
    match condition {
        Expr::Operator(call) => call.args.iter().any(|arg| same(strip(arg), part)),
        Expr::ArrayOperator(call) => same(strip(&call.left), part),
        _ => false,
    }
}

/// Entry 0 of a catalog expression becomes `range`.
pub fn renumber(expr: &mut Expr, range: usize) {
    if let Expr::Var(var) = expr {
        var.varno = range;
    }
    walk::children_mut(expr, &mut |child| renumber(child, range));
}
