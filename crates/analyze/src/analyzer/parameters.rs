//! `$n`: types that are given, or inferred from where the parameter stands.

use cairn_catalog::TypeRef;
use cairn_types::{Oid, Result, err, types};

use super::{Analyzer, ExprKind, Parameters};
use crate::query::*;

/// PostgreSQL's bound on parameter numbers (the protocol's 16 bits).
const PARAMETERS_MAX: usize = 65535;

impl Analyzer<'_> {
    pub(crate) fn parameter(&mut self, number: i32, location: Location) -> Result<Expr> {
        let missing = || err!(UNDEFINED_PARAMETER, "there is no parameter ${number}").at(location);
        let index =
            usize::try_from(number).ok().and_then(|number| number.checked_sub(1)).ok_or_else(missing)?;
        let number = u32::try_from(number).map_err(|_| missing())?;
        let ty = match self.parameters {
            Parameters::None => return Err(missing()),
            Parameters::Fixed(types) => match types.get(index) {
                Some(ty) if ty.oid != 0 => *ty,
                _ => return Err(missing()),
            },
            Parameters::Resolver(resolver) => resolver.by_number(number).ok_or_else(missing)?,
            Parameters::Infer(inferred) => {
                if index >= PARAMETERS_MAX {
                    return Err(missing());
                }
                let is_call_argument = self.level().kind == ExprKind::CallArgument;
                let mut inferred = inferred.borrow_mut();
                if inferred.len() <= index {
                    inferred.resize(index + 1, 0);
                }
                let known = &mut inferred[index];
                // JDBC says void for the OUT arguments of a procedure too, which has a parameter of some type there.
                if *known == 0 || *known == types::VOID && is_call_argument {
                    *known = types::UNKNOWN;
                }
                let ty = *known;
                drop(inferred);
                self.lookup.type_ref(ty)
            }
        };
        Ok(Expr::Param { number, ty, location })
    }

    /// A parameter of unknown type meets a type: that is its type from now on. `None` where types are not inferred.
    pub(crate) fn coerce_unknown_parameter(
        &mut self,
        number: u32,
        target: Oid,
        location: Location,
        _coercion: Location,
    ) -> Result<Option<Expr>> {
        let Parameters::Infer(inferred) = self.parameters else { return Ok(None) };
        let index = number as usize - 1;
        let mut inferred = inferred.borrow_mut();
        let known = inferred.get(index).copied().unwrap_or(0);
        if known == types::UNKNOWN || known == 0 {
            if let Some(slot) = inferred.get_mut(index) {
                *slot = target;
            }
        } else if known != target {
            return Err(err!(AMBIGUOUS_PARAMETER, "inconsistent types deduced for parameter ${number}")
                .detail(format!("{} versus {}", self.type_text(known), self.type_text(target)))
                .at(location));
        }
        drop(inferred);
        // The modifier is none of the client's business: the length coercion is applied to the value.
        let ty = TypeRef { typmod: -1, ..self.lookup.type_ref(target) };
        Ok(Some(Expr::Param { number, ty, location }))
    }

    /// After analysis every parameter must have found a type, those too that the statement does not mention (`$1` of
    /// `select $2`). Errors: 42P18.
    pub(crate) fn check_inferred_parameters(&self) -> Result<()> {
        let Parameters::Infer(inferred) = self.parameters else { return Ok(()) };
        for (index, ty) in inferred.borrow().iter().enumerate() {
            if *ty == types::UNKNOWN || *ty == 0 {
                return Err(err!(
                    INDETERMINATE_DATATYPE,
                    "could not determine data type of parameter ${}",
                    index + 1
                ));
            }
        }
        Ok(())
    }
}
