//! Operator resolution (manual, section 10.2) and the expressions made of operators.

use std::sync::Arc;

use cairn_catalog::{BtreeStrategy, Operator};
use cairn_types::{Error, Oid, Result, err, types};
use smallvec::SmallVec;

use super::{Analyzer, coerce::Coercion, expr_type, names::QualifiedName};
use crate::query::*;

impl Analyzer<'_> {
    /// The operator for two operands.
    pub(crate) fn binary_operator(
        &self,
        name: &QualifiedName,
        left: Oid,
        right: Oid,
        location: Location,
    ) -> Result<Arc<Operator>> {
        // The exact match, an unknown literal taken as of the other side's type.
        let (exact_left, exact_right) = match (left, right) {
            (types::UNKNOWN, types::UNKNOWN) => (left, right),
            (types::UNKNOWN, other) | (other, types::UNKNOWN) => (other, other),
            other => other,
        };
        if let Some(found) = self.lookup.operator_exact(name, exact_left, exact_right)? {
            return Ok(found);
        }
        if left == types::UNKNOWN || right == types::UNKNOWN {
            let base = self.lookup.base_type(exact_left);
            if base != exact_left
                && let Some(found) = self.lookup.operator_exact(name, base, base)?
            {
                return Ok(found);
            }
        }
        let candidates = self.lookup.operators(name, true)?;
        let inputs = [left, right];
        let candidates: Vec<Candidate<Arc<Operator>>> = candidates
            .into_iter()
            .map(|operator| Candidate {
                args: SmallVec::from_slice(&[operator.left, operator.right]),
                item: operator,
            })
            .collect();
        match self.select_candidate(&inputs, candidates) {
            Selection::One(found) => Ok(found),
            selection => Err(self.operator_error(
                name,
                Some(left),
                right,
                matches!(selection, Selection::Many),
                location,
            )),
        }
    }

    pub(crate) fn prefix_operator(
        &self,
        name: &QualifiedName,
        operand: Oid,
        location: Location,
    ) -> Result<Arc<Operator>> {
        if let Some(found) = self.lookup.operator_exact(name, 0, operand)? {
            return Ok(found);
        }
        let candidates: Vec<Candidate<Arc<Operator>>> = self
            .lookup
            .operators(name, false)?
            .into_iter()
            .map(|operator| Candidate { args: SmallVec::from_slice(&[operator.right]), item: operator })
            .collect();
        match self.select_candidate(&[operand], candidates) {
            Selection::One(found) => Ok(found),
            selection => {
                Err(self.operator_error(name, None, operand, matches!(selection, Selection::Many), location))
            }
        }
    }

    fn operator_error(
        &self,
        name: &QualifiedName,
        left: Option<Oid>,
        right: Oid,
        ambiguous: bool,
        location: Location,
    ) -> Error {
        let signature = match left {
            Some(left) => format!("{} {} {}", self.type_text(left), name, self.type_text(right)),
            None => format!("{} {}", name, self.type_text(right)),
        };
        if ambiguous {
            return err!(AMBIGUOUS_FUNCTION, "operator is not unique: {signature}")
                .hint(
                    "Could not choose a best candidate operator. You might need to add explicit type casts.",
                )
                .at(location);
        }
        let hint = if left.is_some() {
            "No operator matches the given name and argument types. You might need to add explicit type casts."
        } else {
            "No operator matches the given name and argument type. You might need to add an explicit type cast."
        };
        err!(UNDEFINED_FUNCTION, "operator does not exist: {signature}").hint(hint).at(location)
    }

    /// `left op right`, or `op right` where there is no left side.
    pub(crate) fn make_operator(
        &mut self,
        name: &QualifiedName,
        left: Option<Expr>,
        right: Expr,
        location: Location,
    ) -> Result<Expr> {
        let call = self.operator_call(name, left, right, location)?;
        Ok(Expr::Operator(Box::new(call)))
    }

    pub(crate) fn operator_call(
        &mut self,
        name: &QualifiedName,
        left: Option<Expr>,
        right: Expr,
        location: Location,
    ) -> Result<OperatorCall> {
        let (operator, mut args, actual, mut declared): (
            _,
            Vec<Expr>,
            SmallVec<[Oid; 2]>,
            SmallVec<[Oid; 2]>,
        ) = match left {
            Some(left) => {
                let inputs = [expr_type(&left).oid, expr_type(&right).oid];
                let operator = self.binary_operator(name, inputs[0], inputs[1], location)?;
                let declared = SmallVec::from_slice(&[operator.left, operator.right]);
                (operator, vec![left, right], SmallVec::from_slice(&inputs), declared)
            }
            None => {
                let input = expr_type(&right).oid;
                let operator = self.prefix_operator(name, input, location)?;
                let declared = SmallVec::from_slice(&[operator.right]);
                (operator, vec![right], SmallVec::from_slice(&[input]), declared)
            }
        };
        let result = self.enforce_polymorphic(&actual, &mut declared, operator.result)?;
        self.coerce_arguments(&mut args, &actual, &declared)?;
        let returns_set = self.lookup.proc(operator.code)?.returns_set;
        if returns_set {
            self.note_set_returning(location)?;
        }
        Ok(OperatorCall {
            operator: operator.oid,
            function: operator.code,
            args,
            ty: self.lookup.type_ref(result),
            returns_set,
            collation: 0,
            location,
        })
    }

    /// `left op any (array)`, `left op all (array)`.
    pub(crate) fn make_array_operator(
        &mut self,
        name: &QualifiedName,
        any: bool,
        left: Expr,
        array: Expr,
        location: Location,
    ) -> Result<Expr> {
        let left_type = expr_type(&left).oid;
        let array_type = expr_type(&array).oid;
        let element = if array_type == types::UNKNOWN {
            types::UNKNOWN
        } else {
            match self.lookup.array_element(self.lookup.base_type(array_type)) {
                0 => {
                    return Err(err!(WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side")
                        .at(location));
                }
                element => element,
            }
        };
        let operator = self.binary_operator(name, left_type, element, location)?;
        let actual = [left_type, element];
        let mut declared = [operator.left, operator.right];
        let result = self.enforce_polymorphic(&actual, &mut declared, operator.result)?;
        if result != types::BOOL {
            return Err(
                err!(WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires operator to yield boolean").at(location)
            );
        }
        if self.lookup.proc(operator.code)?.returns_set {
            return Err(err!(WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires operator not to return a set")
                .at(location));
        }
        let declared_array =
            if super::polymorphic::is_polymorphic(operator.right) && element != types::UNKNOWN {
                array_type
            } else {
                match self.lookup.array_of(declared[1]) {
                    0 => {
                        return Err(err!(
                            UNDEFINED_OBJECT,
                            "could not find array type for data type {}",
                            self.type_text(declared[1])
                        )
                        .at(location));
                    }
                    array => array,
                }
            };
        let mut args = vec![left, array];
        self.coerce_arguments(&mut args, &[left_type, array_type], &[declared[0], declared_array])?;
        let array = args.pop();
        let left = args.pop();
        match (left, array) {
            (Some(left), Some(array)) => Ok(Expr::ArrayOperator(Box::new(ArrayOperatorCall {
                operator: operator.oid,
                function: operator.code,
                any,
                left,
                array,
                collation: 0,
                location,
            }))),
            _ => Err(Error::internal("array operator without operands")),
        }
    }

    /// Coerces each argument to its parameter's type.
    pub(crate) fn coerce_arguments(
        &mut self,
        args: &mut [Expr],
        actual: &[Oid],
        declared: &[Oid],
    ) -> Result<()> {
        for ((arg, &actual), &declared) in args.iter_mut().zip(actual).zip(declared) {
            if actual != declared {
                let given = std::mem::replace(arg, Expr::CurrentOf { cursor: Default::default() });
                *arg = self.coerce_type(
                    given,
                    actual,
                    declared,
                    -1,
                    Coercion::Implicit,
                    CallForm::ImplicitCast,
                    -1,
                )?;
            }
        }
        Ok(())
    }

    /// `row op row` for =, <>, <, <=, >, >=.
    pub(crate) fn make_row_comparison(
        &mut self,
        name: &QualifiedName,
        left: Vec<Expr>,
        right: Vec<Expr>,
        location: Location,
    ) -> Result<Expr> {
        if left.len() != right.len() {
            return Err(err!(SYNTAX_ERROR, "unequal number of entries in row expressions").at(location));
        }
        if left.is_empty() {
            return Err(err!(FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length").at(location));
        }
        let mut calls = Vec::with_capacity(left.len());
        for (l, r) in left.into_iter().zip(right) {
            let call = self.operator_call(name, Some(l), r, location)?;
            if call.ty.oid != types::BOOL {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "row comparison operator must yield type boolean, not type {}",
                    self.type_text(call.ty.oid)
                )
                .at(location));
            }
            if call.returns_set {
                return Err(
                    err!(DATATYPE_MISMATCH, "row comparison operator must not return a set").at(location)
                );
            }
            calls.push(call);
        }
        if calls.len() == 1 {
            return Ok(match calls.pop() {
                Some(call) => Expr::Operator(Box::new(call)),
                None => return Err(Error::internal("row comparison without columns")),
            });
        }
        let operators: Vec<Oid> = calls.iter().map(|call| call.operator).collect();
        match self.row_strategy(&operators, name, location)? {
            RowStrategy::Equal => {
                Ok(Expr::And(calls.into_iter().map(|call| Expr::Operator(Box::new(call))).collect()))
            }
            RowStrategy::NotEqual => {
                Ok(Expr::Or(calls.into_iter().map(|call| Expr::Operator(Box::new(call))).collect()))
            }
            RowStrategy::Ordered(strategy) => {
                let mut left = Vec::with_capacity(calls.len());
                let mut right = Vec::with_capacity(calls.len());
                for call in calls {
                    let mut args = call.args.into_iter();
                    left.extend(args.next());
                    right.extend(args.next());
                }
                Ok(Expr::RowCompare { strategy, operators, left, right, location })
            }
        }
    }

    /// What a row-wise comparison with these operators means: they must all play the same part in some btree family.
    pub(crate) fn row_strategy(
        &self,
        operators: &[Oid],
        name: &QualifiedName,
        location: Location,
    ) -> Result<RowStrategy> {
        const ALL: [RowStrategy; 6] = [
            RowStrategy::Ordered(BtreeStrategy::Less),
            RowStrategy::Ordered(BtreeStrategy::LessEqual),
            RowStrategy::Equal,
            RowStrategy::Ordered(BtreeStrategy::GreaterEqual),
            RowStrategy::Ordered(BtreeStrategy::Greater),
            RowStrategy::NotEqual,
        ];
        for strategy in ALL {
            let plays = |&operator: &Oid| match strategy {
                RowStrategy::Equal => self.lookup.has_strategy(operator, BtreeStrategy::Equal),
                RowStrategy::NotEqual => self.lookup.is_not_equal(operator),
                RowStrategy::Ordered(strategy) => self.lookup.has_strategy(operator, strategy),
            };
            if operators.iter().all(plays) {
                return Ok(strategy);
            }
        }
        Err(err!(
            FEATURE_NOT_SUPPORTED,
            "could not determine interpretation of row comparison operator {name}"
        )
        .hint("Row comparison operators must be associated with btree operator families.")
        .at(location))
    }

    /// `row is distinct from row`: OR of the columns' tests.
    pub(crate) fn make_row_distinct(
        &mut self,
        left: Vec<Expr>,
        right: Vec<Expr>,
        location: Location,
    ) -> Result<Expr> {
        if left.len() != right.len() {
            return Err(err!(SYNTAX_ERROR, "unequal number of entries in row expressions").at(location));
        }
        let mut tests = Vec::with_capacity(left.len());
        for (l, r) in left.into_iter().zip(right) {
            tests.push(self.make_distinct(l, r, location)?);
        }
        Ok(match tests.len() {
            0 => self.bool_constant(false),
            1 => tests.swap_remove(0),
            _ => Expr::Or(tests),
        })
    }

    pub(crate) fn make_distinct(&mut self, left: Expr, right: Expr, location: Location) -> Result<Expr> {
        let call = self.operator_call(&QualifiedName::operator("="), Some(left), right, location)?;
        if call.ty.oid != types::BOOL {
            return Err(
                err!(DATATYPE_MISMATCH, "IS DISTINCT FROM requires = operator to yield boolean").at(location)
            );
        }
        if call.returns_set {
            return Err(err!(DATATYPE_MISMATCH, "{} must not return a set", "IS DISTINCT FROM").at(location));
        }
        Ok(Expr::DistinctFrom(Box::new(call)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowStrategy {
    Equal,
    NotEqual,
    Ordered(BtreeStrategy),
}

/// A function or operator that may be meant, with the types of the parameters that the arguments would meet.
pub(crate) struct Candidate<T> {
    pub args: SmallVec<[Oid; 4]>,
    pub item: T,
}

pub(crate) enum Selection<T> {
    None,
    One(T),
    Many,
}

impl Analyzer<'_> {
    /// The best candidate by the manual's rules 4 (operators) and 4 (functions) of sections 10.2 and 10.3: those that
    /// the arguments can be coerced to, then those with most exact matches, then those with most preferred types, then
    /// by the category of the unknown ones.
    pub(crate) fn select_candidate<T>(&self, inputs: &[Oid], candidates: Vec<Candidate<T>>) -> Selection<T> {
        let mut candidates: Vec<Candidate<T>> = candidates
            .into_iter()
            .filter(|candidate| self.can_coerce(inputs, &candidate.args, Coercion::Implicit))
            .collect();
        match candidates.len() {
            0 => return Selection::None,
            1 => return take(candidates),
            _ => {}
        }
        let bases: SmallVec<[Oid; 4]> = inputs
            .iter()
            .map(|&input| if input == types::UNKNOWN { types::UNKNOWN } else { self.lookup.base_type(input) })
            .collect();
        let unknown = inputs.iter().filter(|&&input| input == types::UNKNOWN).count();
        let known = |i: &usize| bases[*i] != types::UNKNOWN;
        keep_best(&mut candidates, |candidate| {
            (0..bases.len()).filter(known).filter(|&i| candidate.args[i] == bases[i]).count()
        });
        if candidates.len() == 1 {
            return take(candidates);
        }
        let categories: SmallVec<[u8; 4]> = bases.iter().map(|&base| self.lookup.category(base)).collect();
        keep_best(&mut candidates, |candidate| {
            (0..bases.len())
                .filter(known)
                .filter(|&i| {
                    candidate.args[i] == bases[i] || {
                        let (category, preferred) = self.lookup.category_and_preference(candidate.args[i]);
                        category == categories[i] && preferred
                    }
                })
                .count()
        });
        if candidates.len() == 1 {
            return take(candidates);
        }
        if unknown == 0 {
            return Selection::Many;
        }
        // The category that candidates agree on for each unknown argument; string wins where any takes it.
        let mut slots: SmallVec<[Option<(u8, bool)>; 4]> = SmallVec::new();
        let mut resolved = true;
        for i in 0..bases.len() {
            if known(&i) {
                slots.push(None);
                continue;
            }
            let mut slot: Option<(u8, bool)> = None;
            let mut conflict = false;
            for candidate in &candidates {
                let (category, preferred) = self.lookup.category_and_preference(candidate.args[i]);
                match &mut slot {
                    None => slot = Some((category, preferred)),
                    Some((chosen, has_preferred)) if *chosen == category => *has_preferred |= preferred,
                    Some(chosen) if category == b'S' => {
                        *chosen = (b'S', preferred);
                    }
                    Some((b'S', _)) => {}
                    Some(_) => conflict = true,
                }
            }
            if conflict && slot.is_none_or(|(category, _)| category != b'S') {
                resolved = false;
                break;
            }
            slots.push(slot);
        }
        if resolved {
            let fits = |candidate: &Candidate<T>| {
                slots.iter().enumerate().all(|(i, slot)| match slot {
                    None => true,
                    Some((category, has_preferred)) => {
                        let (found, preferred) = self.lookup.category_and_preference(candidate.args[i]);
                        found == *category && (preferred || !has_preferred)
                    }
                })
            };
            if candidates.iter().any(fits) {
                candidates.retain(fits);
            }
            if candidates.len() == 1 {
                return take(candidates);
            }
        }
        // Last: all known arguments of one type, so take the unknown ones to be of it too.
        if unknown < bases.len() {
            let mut common = types::UNKNOWN;
            for &base in &bases {
                if base == types::UNKNOWN {
                    continue;
                }
                if common == types::UNKNOWN {
                    common = base;
                } else if common != base {
                    common = types::UNKNOWN;
                    break;
                }
            }
            if common != types::UNKNOWN {
                let assumed: SmallVec<[Oid; 4]> = bases.iter().map(|_| common).collect();
                let mut fitting = candidates
                    .into_iter()
                    .filter(|candidate| self.can_coerce(&assumed, &candidate.args, Coercion::Implicit));
                if let (Some(only), None) = (fitting.next(), fitting.next()) {
                    return Selection::One(only.item);
                }
            }
        }
        Selection::Many
    }
}

fn take<T>(mut candidates: Vec<Candidate<T>>) -> Selection<T> {
    match candidates.pop() {
        Some(candidate) => Selection::One(candidate.item),
        None => Selection::None,
    }
}

fn keep_best<T>(candidates: &mut Vec<Candidate<T>>, score: impl Fn(&Candidate<T>) -> usize) {
    let best = candidates.iter().map(&score).max().unwrap_or(0);
    candidates.retain(|candidate| score(candidate) == best);
}
