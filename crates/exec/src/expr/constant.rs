//! Evaluation of constant parts while planning.

use std::cell::Cell;

use cairn_catalog::Volatility;
use cairn_functions::Call;
use cairn_types::{Datum, Env, Result};

use super::{Body, Code, Function};

/// The code, with immutable functions of constants replaced by their values. What fails then fails now, as in
/// PostgreSQL; branches that constants rule out are not asked ([`Planner::compile`](crate::Planner) sees to that).
/// With `failed`, what fails stays as it is, and `failed` is set.
pub fn fold(code: Code, env: &dyn Env, failed: Option<&Cell<bool>>) -> Result<Code> {
    let apply = |function: &Function, args: &[Option<&Datum>]| match (apply(function, args, env), failed) {
        (Err(_), Some(failed)) => {
            failed.set(true);
            Ok(None)
        }
        (applied, _) => applied,
    };
    Ok(match code {
        Code::Call1 { function, arg } => match apply(&function, &[arg.as_const()])? {
            Some(value) => Code::Const(value),
            None => Code::Call1 { function, arg },
        },
        Code::Call2 { function, args } => {
            match apply(&function, &[args[0].as_const(), args[1].as_const()])? {
                Some(value) => Code::Const(value),
                None => Code::Call2 { function, args },
            }
        }
        Code::Call { function, args } => {
            let constants: Vec<_> = args.iter().map(Code::as_const).collect();
            match apply(&function, &constants)? {
                Some(value) => Code::Const(value),
                None => Code::Call { function, args },
            }
        }
        Code::Compare { test, blank_padded, args } => match (args[0].as_const(), args[1].as_const()) {
            (Some(Datum::Null), _) | (_, Some(Datum::Null)) => Code::null(),
            (Some(a), Some(b)) => {
                Code::Const(Datum::Bool(test.holds(cairn_types::compare::compare(a, b, blank_padded))))
            }
            _ => Code::Compare { test, blank_padded, args },
        },
        Code::And(args) => junction(args, false),
        Code::Or(args) => junction(args, true),
        Code::Not(arg) => match arg.as_const() {
            Some(Datum::Bool(value)) => Code::Const(Datum::Bool(!value)),
            Some(Datum::Null) => Code::null(),
            _ => Code::Not(arg),
        },
        Code::Int4AsOid(arg) => match arg.as_const() {
            Some(value) => Code::Const(super::eval::int4_as_oid(value.clone())),
            None => Code::Int4AsOid(arg),
        },
        Code::OidAsInt4(arg) => match arg.as_const() {
            Some(value) => Code::Const(super::eval::oid_as_int4(value.clone())),
            None => Code::OidAsInt4(arg),
        },
        Code::NullTest { arg, is_null, row: false } => match arg.as_const() {
            Some(value) => Code::Const(Datum::Bool(value.is_null() == is_null)),
            None => Code::NullTest { arg, is_null, row: false },
        },
        Code::Array { elements, element_type, multidimensional: false } => {
            let constants: Option<Vec<Datum>> =
                elements.iter().map(|code| code.as_const().cloned()).collect();
            match constants {
                Some(values) => Code::Const(Datum::Array(std::sync::Arc::new(
                    cairn_types::Array::from_elements(element_type, values),
                ))),
                None => Code::Array { elements, element_type, multidimensional: false },
            }
        }
        Code::Coalesce(args) => {
            // Leading nulls go; a constant ends the list.
            let mut kept = Vec::new();
            for arg in args {
                match arg.as_const() {
                    Some(Datum::Null) => {}
                    Some(_) => {
                        kept.push(arg);
                        break;
                    }
                    None => kept.push(arg),
                }
            }
            if kept.len() > 1 { Code::Coalesce(kept.into()) } else { kept.pop().unwrap_or_else(Code::null) }
        }
        Code::Case { subject: None, whens, default } => {
            let mut kept = Vec::new();
            for (when, then) in whens {
                match when.as_const() {
                    Some(Datum::Bool(true)) if kept.is_empty() => return Ok(then),
                    Some(Datum::Bool(true)) => {
                        return Ok(Code::Case { subject: None, whens: kept.into(), default: Box::new(then) });
                    }
                    Some(_) => {}
                    None => kept.push((when, then)),
                }
            }
            if kept.is_empty() { *default } else { Code::Case { subject: None, whens: kept.into(), default } }
        }
        other => other,
    })
}

/// AND (`dominant` false) and OR (`dominant` true).
fn junction(args: Box<[Code]>, dominant: bool) -> Code {
    let mut kept = Vec::with_capacity(args.len());
    for arg in args {
        match arg.as_const() {
            Some(Datum::Bool(value)) if *value == dominant => return Code::Const(Datum::Bool(dominant)),
            Some(Datum::Bool(_)) => {}
            _ => kept.push(arg),
        }
    }
    match kept.len() {
        0 => Code::Const(Datum::Bool(!dominant)),
        1 => kept.pop().expect("one is left"),
        _ if dominant => Code::Or(kept.into()),
        _ => Code::And(kept.into()),
    }
}

fn apply(function: &Function, args: &[Option<&Datum>], env: &dyn Env) -> Result<Option<Datum>> {
    if function.proc.volatility != Volatility::Immutable {
        return Ok(None);
    }
    if function.strict && args.iter().flatten().any(|value| value.is_null()) {
        return Ok(Some(Datum::Null));
    }
    let Body::Scalar(body) = function.body else { return Ok(None) };
    let Some(values) = args.iter().map(|value| value.cloned()).collect::<Option<Vec<Datum>>>() else {
        return Ok(None);
    };
    body(&Call { env, info: function.info() }, &values).map(Some)
}
