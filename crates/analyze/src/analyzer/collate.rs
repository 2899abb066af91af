//! Collations (manual, section 24.2.1): each expression that has one gets it from its operands, bottom up. COLLATE
//! beats columns, columns beat literals; two different ones of equal rank are a conflict, which is an error where both
//! were written out and makes the collation unknown (0) otherwise.

use cairn_types::oid::collations;
use cairn_types::{Oid, Result, err};

use super::{Analyzer, expr_type};
use crate::query::*;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    None,
    Implicit,
    Conflict,
    Explicit,
}

#[derive(Clone, Copy)]
struct State {
    collation: Oid,
    strength: Strength,
    location: Location,
}

const NOTHING: State = State { collation: 0, strength: Strength::None, location: -1 };

impl State {
    fn implicit(collation: Oid, location: Location) -> State {
        if collation == 0 { NOTHING } else { State { collation, strength: Strength::Implicit, location } }
    }
}

impl Analyzer<'_> {
    /// Assigns the collations of all expressions of the query's own level; nested queries have theirs already.
    pub(crate) fn assign_query_collations(&mut self, query: &mut Query) -> Result<()> {
        let mut result = Ok(());
        crate::walk::query_expressions_mut(query, &mut |expr| {
            if result.is_ok() {
                result = self.collate_expr(expr).map(|_| ());
            }
        });
        result
    }

    pub(crate) fn assign_expression_collations(&self, expr: &mut Expr) -> Result<()> {
        self.collate_expr(expr).map(|_| ())
    }

    fn merge(&self, into: &mut State, other: State) -> Result<()> {
        if other.strength > into.strength {
            *into = other;
        } else if other.strength == into.strength && other.collation != into.collation {
            match other.strength {
                Strength::None | Strength::Conflict => {}
                Strength::Implicit => {
                    // The default collation gives way to any other.
                    if into.collation == collations::DEFAULT {
                        *into = other;
                    } else if other.collation != collations::DEFAULT {
                        *into =
                            State { collation: 0, strength: Strength::Conflict, location: other.location };
                    }
                }
                Strength::Explicit => {
                    let name = |oid| {
                        self.lookup
                            .catalog
                            .collation(oid)
                            .map_or_else(String::new, |found| found.name.to_string())
                    };
                    return Err(err!(
                        COLLATION_MISMATCH,
                        "collation mismatch between explicit collations \"{}\" and \"{}\"",
                        name(into.collation),
                        name(other.collation)
                    )
                    .at(other.location));
                }
            }
        }
        Ok(())
    }

    fn collate_all<'e>(&self, args: impl IntoIterator<Item = &'e mut Expr>) -> Result<State> {
        let mut state = NOTHING;
        for arg in args {
            let found = self.collate_expr(arg)?;
            self.merge(&mut state, found)?;
        }
        Ok(state)
    }

    /// What a node makes of its operands' collation: `own` is its type's, 0 if it has none.
    fn result(&self, inputs: State, own: &mut Oid, location: Location) -> State {
        if *own == 0 {
            return NOTHING;
        }
        match inputs.strength {
            // No operand has one: the type's default.
            Strength::None => State::implicit(*own, location),
            _ => {
                *own = inputs.collation;
                if *own == 0 {
                    *own = collations::DEFAULT;
                }
                inputs
            }
        }
    }

    fn collate_expr(&self, expr: &mut Expr) -> Result<State> {
        Ok(match expr {
            Expr::Const { ty, location, .. } => State::implicit(ty.collation, *location),
            Expr::Var(var) => State::implicit(var.ty.collation, var.location),
            Expr::Param { ty, location, .. }
            | Expr::SqlValue { ty, location, .. }
            | Expr::Default { ty, location } => State::implicit(ty.collation, *location),
            Expr::TestValue { ty } | Expr::NextValue { ty, .. } => State::implicit(ty.collation, -1),
            Expr::CurrentOf { .. } => NOTHING,
            Expr::Collate { arg, collation, location } => {
                self.collate_expr(arg)?;
                State { collation: *collation, strength: Strength::Explicit, location: *location }
            }
            Expr::Function(call) => {
                let inputs = self.collate_all(&mut call.args)?;
                call.collation = inputs.collation;
                self.result(inputs, &mut call.ty.collation, call.location)
            }
            Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => {
                let inputs = self.collate_all(&mut call.args)?;
                call.collation = inputs.collation;
                self.result(inputs, &mut call.ty.collation, call.location)
            }
            Expr::ArrayOperator(call) => {
                let inputs = self.collate_all([&mut call.left, &mut call.array])?;
                call.collation = inputs.collation;
                NOTHING
            }
            Expr::And(args) | Expr::Or(args) => {
                for arg in args {
                    self.collate_expr(arg)?;
                }
                NOTHING
            }
            Expr::Not(arg) | Expr::NullTest { arg, .. } | Expr::BooleanTest { arg, .. } => {
                self.collate_expr(arg)?;
                NOTHING
            }
            Expr::SubLink(link) => {
                let location = link.location;
                match &mut link.kind {
                    SubLinkKind::Any(comparison) | SubLinkKind::All(comparison) => {
                        let mut inputs = self.collate_all(&mut comparison.left)?;
                        for target in link.query.targets.iter().filter(|target| !target.junk) {
                            let column = State::implicit(expr_type(&target.expr).collation, location);
                            self.merge(&mut inputs, column)?;
                        }
                        for cast in &mut comparison.right_casts {
                            self.collate_expr(cast)?;
                        }
                        comparison.collation = inputs.collation;
                        NOTHING
                    }
                    SubLinkKind::Expr | SubLinkKind::Array => {
                        if link.ty.collation != 0
                            && let Some(target) = link.query.targets.iter().find(|target| !target.junk)
                        {
                            let collation = expr_type(&target.expr).collation;
                            if collation != 0 {
                                link.ty.collation = collation;
                            }
                        }
                        State::implicit(link.ty.collation, location)
                    }
                    SubLinkKind::Exists | SubLinkKind::Row | SubLinkKind::RowSource => NOTHING,
                }
            }
            Expr::Aggregate(call) => {
                self.collate_all(&mut call.direct_args)?;
                let inputs = self.collate_all(&mut call.args)?;
                for order in &mut call.order {
                    self.collate_expr(&mut order.expr)?;
                }
                if let Some(filter) = &mut call.filter {
                    self.collate_expr(filter)?;
                }
                call.collation = inputs.collation;
                self.result(inputs, &mut call.ty.collation, call.location)
            }
            Expr::Window(call) => {
                let inputs = self.collate_all(&mut call.args)?;
                if let Some(filter) = &mut call.filter {
                    self.collate_expr(filter)?;
                }
                call.collation = inputs.collation;
                self.result(inputs, &mut call.ty.collation, call.location)
            }
            Expr::Grouping { .. } => NOTHING,
            Expr::Subscript(subscript) => {
                for index in subscript.upper.iter_mut().chain(&mut subscript.lower).flatten() {
                    self.collate_expr(index)?;
                }
                let container = self.collate_expr(&mut subscript.container)?;
                if let Some(value) = &mut subscript.assignment {
                    self.collate_expr(value)?;
                }
                self.result(container, &mut subscript.ty.collation, subscript.location)
            }
            Expr::Field { record, ty, .. } => {
                self.collate_expr(record)?;
                State::implicit(ty.collation, -1)
            }
            Expr::Relabel { arg, ty, location, .. } | Expr::CoerceViaIo { arg, ty, location, .. } => {
                let inputs = self.collate_expr(arg)?;
                self.result(inputs, &mut ty.collation, *location)
            }
            Expr::ArrayCoerce { arg, element, ty, location, .. } => {
                let inputs = self.collate_expr(arg)?;
                self.collate_expr(element)?;
                self.result(inputs, &mut ty.collation, *location)
            }
            Expr::ConvertRow { arg, .. } => {
                self.collate_expr(arg)?;
                NOTHING
            }
            Expr::CoerceToDomain { arg, ty, location, .. } => {
                let inputs = self.collate_expr(arg)?;
                if self.lookup.type_collation(ty.oid) == collations::DEFAULT {
                    self.result(inputs, &mut ty.collation, *location)
                } else {
                    State::implicit(ty.collation, *location)
                }
            }
            Expr::Case(case) => {
                if let Some(arg) = &mut case.arg {
                    self.collate_expr(arg)?;
                }
                for (when, _) in &mut case.whens {
                    self.collate_expr(when)?;
                }
                let results = case.whens.iter_mut().map(|(_, then)| then).chain([&mut case.default]);
                let inputs = self.collate_all(results)?;
                self.result(inputs, &mut case.ty.collation, case.location)
            }
            Expr::Array { elements, ty, location, .. } => {
                let inputs = self.collate_all(elements)?;
                self.result(inputs, &mut ty.collation, *location)
            }
            Expr::Row { fields, .. } => {
                for field in fields {
                    self.collate_expr(field)?;
                }
                NOTHING
            }
            Expr::RowCompare { left, right, .. } => {
                for (l, r) in left.iter_mut().zip(right) {
                    self.collate_all([l, r])?;
                }
                NOTHING
            }
            Expr::Coalesce { args, ty, location } | Expr::MinMax { args, ty, location, .. } => {
                let inputs = self.collate_all(args)?;
                self.result(inputs, &mut ty.collation, *location)
            }
        })
    }
}
