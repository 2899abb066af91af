//! Function resolution (manual, section 10.3) and calls: plain functions, aggregates, window functions, casts and
//! field selections in functional notation.

use std::sync::Arc;

use cairn_catalog::{ArgMode, Proc, ProcKind, TypeRef};
use cairn_types::{Error, Oid, Result, Text, err, types};
use pg_query::protobuf::{self, node::Node as NodeEnum};
use smallvec::SmallVec;

use super::{
    Analyzer, ExprKind,
    coerce::{Coercion, Pathway},
    expr_location, expr_type,
    names::{self, QualifiedName},
    operators::{Candidate, Selection},
};
use crate::query::*;

/// PostgreSQL's FUNC_MAX_ARGS.
const ARGUMENTS_MAX: usize = 100;

/// A function that a call may mean, seen from the call.
#[derive(Clone)]
pub(crate) struct FunctionMatch {
    pub proc: Arc<Proc>,
    /// Parameter types in the order of the call's arguments, the variadic one expanded, defaults last.
    pub declared: SmallVec<[Oid; 4]>,
    /// How many arguments go into the variadic array; 0 if it is not expanded.
    pub variadic_count: usize,
    /// How many parameters take their defaults.
    pub default_count: usize,
    /// Named notation: the parameter number of each call argument, then of each defaulted parameter.
    pub numbers: Option<Vec<usize>>,
    path_position: usize,
}

pub(crate) enum FunctionDetail {
    NotFound,
    Ambiguous,
    /// A cast in functional notation, to this type.
    Cast(Oid),
    Found(Box<FunctionMatch>),
}

impl Analyzer<'_> {
    /// All functions of the name that this many arguments could be meant for.
    fn function_candidates(
        &self,
        name: &QualifiedName,
        arg_count: usize,
        arg_names: &[Text],
        expand_variadic: bool,
        expand_defaults: bool,
        out_arguments: bool,
    ) -> Result<Vec<FunctionMatch>> {
        let mut found: Vec<FunctionMatch> = Vec::new();
        for (proc, path_position) in self.lookup.functions(name)? {
            let proc = proc.clone();
            // CALL matches a procedure's output parameters too.
            let all_types: &[Oid] =
                if out_arguments && !proc.all_arg_types.is_empty() && proc.kind == ProcKind::Procedure {
                    &proc.all_arg_types
                } else {
                    &proc.arg_types
                };
            let parameter_count = all_types.len();
            let variadic =
                expand_variadic && arg_names.is_empty() && proc.variadic != 0 && arg_count >= parameter_count;
            let defaults = if arg_count < parameter_count && expand_defaults {
                let missing = parameter_count - arg_count;
                if missing > proc.arg_defaults.len() {
                    continue;
                }
                missing
            } else if arg_count == parameter_count || variadic {
                0
            } else {
                continue;
            };
            let mut numbers = None;
            let mut declared: SmallVec<[Oid; 4]>;
            if arg_names.is_empty() {
                declared = SmallVec::from_slice(all_types);
                if variadic {
                    declared.pop();
                    while declared.len() < arg_count {
                        declared.push(proc.variadic);
                    }
                }
            } else {
                let Some(order) = match_named(&proc, arg_count, arg_names, parameter_count, out_arguments)
                else {
                    continue;
                };
                declared = order.iter().map(|&number| all_types[number]).collect();
                numbers = Some(order);
            }
            let candidate = FunctionMatch {
                variadic_count: if variadic { arg_count + 1 - parameter_count } else { 0 },
                default_count: defaults,
                proc,
                declared,
                numbers,
                path_position,
            };
            add_candidate(&mut found, candidate, arg_count);
        }
        // A candidate that was found ambiguous loses out to none: it stays twice and resolution reports it.
        Ok(found)
    }

    pub(crate) fn function_detail(
        &self,
        name: &QualifiedName,
        inputs: &[Oid],
        first_arg: Option<&Expr>,
        arg_names: &[Text],
        expand_variadic: bool,
        out_arguments: bool,
    ) -> Result<FunctionDetail> {
        let candidates =
            self.function_candidates(name, inputs.len(), arg_names, expand_variadic, true, out_arguments)?;
        let exact = |candidate: &&FunctionMatch| candidate.declared.get(..inputs.len()) == Some(inputs);
        let mut exact_matches = candidates.iter().filter(exact);
        if let Some(found) = exact_matches.next() {
            if exact_matches.next().is_some() {
                return Ok(FunctionDetail::Ambiguous);
            }
            return Ok(FunctionDetail::Found(Box::new(found.clone())));
        }
        // `typename(x)` is a cast if there is a cheap one.
        if let (1, Some(_), true) = (inputs.len(), first_arg, arg_names.is_empty())
            && let Some(target) = self.lookup.type_by_name(name)?
        {
            let source = inputs[0];
            let is_cast = if source == types::UNKNOWN {
                true
            } else {
                match self.find_pathway(target, source, Coercion::Explicit) {
                    Pathway::Relabel => true,
                    Pathway::ViaIo => {
                        !((source == types::RECORD || self.lookup.is_composite(source))
                            && self.lookup.category(target) == b'S')
                    }
                    _ => false,
                }
            };
            if is_cast {
                return Ok(FunctionDetail::Cast(target));
            }
        }
        let candidates: Vec<Candidate<FunctionMatch>> = candidates
            .into_iter()
            .map(|item| Candidate { args: SmallVec::from_slice(&item.declared[..inputs.len()]), item })
            .collect();
        Ok(match self.select_candidate(inputs, candidates) {
            Selection::None => FunctionDetail::NotFound,
            Selection::Many => FunctionDetail::Ambiguous,
            Selection::One(found) => FunctionDetail::Found(Box::new(found)),
        })
    }

    /// `name(integer, text)` for messages.
    pub(crate) fn signature(&self, name: &str, arg_names: &[Text], inputs: &[Oid]) -> String {
        let positional = inputs.len() - arg_names.len();
        let args: Vec<String> = inputs
            .iter()
            .enumerate()
            .map(|(i, &ty)| match i.checked_sub(positional).and_then(|named| arg_names.get(named)) {
                Some(arg) => format!("{arg} => {}", self.type_text(ty)),
                None => self.type_text(ty),
            })
            .collect();
        format!("{name}({})", args.join(", "))
    }

    pub(crate) fn function_call(&mut self, call: &protobuf::FuncCall) -> Result<Expr> {
        // WITHIN GROUP's ORDER BY expressions are arguments too.
        let mut arg_nodes: Vec<&protobuf::Node> = call.args.iter().collect();
        if call.agg_within_group {
            for order in &call.agg_order {
                if let NodeEnum::SortBy(sort) = names::inner(order)? {
                    arg_nodes.extend(sort.node.as_deref());
                }
            }
        }
        if arg_nodes.len() > ARGUMENTS_MAX {
            return Err(err!(
                TOO_MANY_ARGUMENTS,
                "cannot pass more than {ARGUMENTS_MAX} arguments to a function"
            )
            .at(call.location));
        }
        let mut args = Vec::with_capacity(arg_nodes.len());
        let mut arg_names: Vec<Text> = Vec::new();
        for (index, node) in arg_nodes.iter().enumerate() {
            match names::inner(node)? {
                NodeEnum::NamedArgExpr(named) => {
                    if arg_names.iter().any(|name| **name == *named.name) {
                        return Err(err!(
                            SYNTAX_ERROR,
                            "argument name \"{}\" used more than once",
                            named.name
                        )
                        .at(named.location));
                    }
                    arg_names.push(named.name.as_str().into());
                    args.push(self.expression_inner(names::inner_box(&named.arg)?)?);
                }
                other => {
                    let expr = self.expression_inner(other)?;
                    if !arg_names.is_empty() {
                        return Err(err!(SYNTAX_ERROR, "positional argument cannot follow named argument")
                            .at(expr_location(&expr)));
                    }
                    // Set-returning calls in arguments and FILTER are checked by kind below.
                    let _ = index;
                    args.push(expr);
                }
            }
        }
        self.function_or_column(call, args, arg_names)
    }

    /// A call with analyzed arguments; may turn out to be a field selection or a cast.
    fn function_or_column(
        &mut self,
        call: &protobuf::FuncCall,
        mut args: Vec<Expr>,
        arg_names: Vec<Text>,
    ) -> Result<Expr> {
        let location = call.location;
        let name = self.qualified_name(&call.funcname).map_err(|error| error.at(location))?;
        if !call.agg_within_group {
            drop_void_parameters(&mut args, arg_names.len());
        }
        let filter = match &call.agg_filter {
            Some(filter) => Some(self.filter_clause(filter)?),
            None => None,
        };
        let mut inputs: SmallVec<[Oid; 4]> = args.iter().map(|arg| expr_type(arg).oid).collect();
        let decorated = call.agg_star
            || call.agg_distinct
            || call.agg_within_group
            || !call.agg_order.is_empty()
            || call.agg_filter.is_some()
            || call.over.is_some()
            || call.func_variadic;
        let could_be_projection = args.len() == 1
            && !decorated
            && arg_names.is_empty()
            && name.schema.is_none()
            && (inputs[0] == types::RECORD || self.lookup.is_composite(inputs[0]));
        let detail = self
            .function_detail(&name, &inputs, args.first(), &arg_names, !call.func_variadic, false)
            .map_err(|error| error.at(location))?;
        let found = match detail {
            FunctionDetail::Found(found) => found,
            FunctionDetail::Cast(target) => {
                if decorated {
                    return Err(self.not_an_aggregate(call, &name));
                }
                let Some(arg) = args.pop() else { return Err(Error::internal("cast without an operand")) };
                let source = inputs[0];
                return self.coerce_type(
                    arg,
                    source,
                    target,
                    -1,
                    Coercion::Explicit,
                    CallForm::Call,
                    location,
                );
            }
            other => {
                if could_be_projection
                    && let Some(field) = self.select_field(&args[0], &name.name, location)?
                {
                    return Ok(field);
                }
                return Err(self.no_function(
                    call,
                    &name,
                    &arg_names,
                    &inputs,
                    matches!(other, FunctionDetail::Ambiguous),
                ));
            }
        };
        let FunctionMatch { proc, declared, variadic_count, default_count, numbers, .. } = *found;
        if proc.kind == ProcKind::Procedure {
            return Err(err!(
                WRONG_OBJECT_TYPE,
                "{} is a procedure",
                self.signature(&name.to_string(), &arg_names, &inputs)
            )
            .hint("To call a procedure, use CALL.")
            .at(location));
        }
        let mut declared = declared;
        let is_window_call = call.over.is_some();
        let aggregate =
            if proc.kind == ProcKind::Aggregate { Some(self.lookup.aggregate(proc.oid)?) } else { None };
        self.check_call_form(call, &proc, aggregate, &name, &arg_names, &inputs, variadic_count, &args)?;

        if default_count > 0 {
            let defaults = self.default_arguments(&proc, &numbers, args.len(), default_count)?;
            for default in defaults {
                inputs.push(expr_type(&default).oid);
                args.push(default);
            }
        }
        let result = self.enforce_polymorphic(&inputs, &mut declared, proc.return_type)?;
        self.coerce_arguments(&mut args, &inputs, &declared)?;
        if let Some(order) = numbers {
            let mut placed: Vec<(usize, Expr)> = order.into_iter().zip(args).collect();
            placed.sort_by_key(|(number, _)| *number);
            args = placed.into_iter().map(|(_, arg)| arg).collect();
        }
        let mut variadic = call.func_variadic;
        if variadic_count > 0 && proc.variadic != types::ANY {
            let rest = args.split_off(args.len() - variadic_count);
            let element = declared.last().copied().unwrap_or(0);
            let array = self.lookup.array_of(element);
            if array == 0 {
                return Err(err!(
                    UNDEFINED_OBJECT,
                    "could not find array type for data type {}",
                    self.type_text(element)
                )
                .at(location));
            }
            let at = rest.first().map_or(-1, expr_location);
            args.push(Expr::Array {
                elements: rest,
                element_type: element,
                multidimensional: false,
                ty: self.lookup.type_ref(array),
                location: at,
            });
            variadic = true;
        }
        // VARIADIC "any" with the keyword needs an array.
        if call.func_variadic && proc.variadic == types::ANY {
            let last = args.last().map_or(0, |arg| expr_type(arg).oid);
            if self.lookup.array_element(self.lookup.base_type(last)) == 0 {
                return Err(err!(DATATYPE_MISMATCH, "VARIADIC argument must be an array")
                    .at(args.last().map_or(-1, expr_location)));
            }
        }
        let ty = self.lookup.type_ref(result);
        if proc.returns_set {
            self.note_set_returning_function(location)?;
        }
        if is_window_call {
            return self.window_call(call, &proc, aggregate.is_some(), args, filter, ty);
        }
        if let Some(aggregate) = aggregate {
            return self.aggregate_call(call, &proc, aggregate, args, filter, variadic, ty);
        }
        let form = match protobuf::CoercionForm::try_from(call.funcformat) {
            Ok(protobuf::CoercionForm::CoerceSqlSyntax) => CallForm::Sql,
            _ => CallForm::Call,
        };
        Ok(Expr::Function(Box::new(FunctionCall {
            function: proc.oid,
            args,
            ty,
            returns_set: proc.returns_set,
            variadic,
            collation: 0,
            form,
            location,
        })))
    }

    /// The default expressions of the parameters that the call leaves out, in the order of `numbers`.
    fn default_arguments(
        &mut self,
        proc: &Proc,
        numbers: &Option<Vec<usize>>,
        given: usize,
        count: usize,
    ) -> Result<Vec<Expr>> {
        let first_default = proc.arg_types.len() - proc.arg_defaults.len();
        let wanted: Vec<usize> = match numbers {
            Some(numbers) => numbers[given..].to_vec(),
            None => (proc.arg_types.len() - count..proc.arg_types.len()).collect(),
        };
        wanted
            .into_iter()
            .map(|number| {
                let text = number
                    .checked_sub(first_default)
                    .and_then(|index| proc.arg_defaults.get(index))
                    .ok_or_else(|| Error::internal("parameter without a default"))?;
                let expr = self.stored_expression(text)?;
                // The text says what was written; the cast to the parameter's type goes without saying.
                let (source, target) = (super::expr_type(&expr).oid, proc.arg_types[number]);
                let pseudo = self
                    .lookup
                    .type_by_oid(target)
                    .is_none_or(|ty| ty.kind == cairn_catalog::TypeKind::Pseudo);
                if source == target || pseudo {
                    return Ok(expr);
                }
                let how = Coercion::Assignment;
                let coerced =
                    self.coerce_to_target(expr, source, target, -1, how, CallForm::ImplicitCast, -1)?;
                coerced.ok_or_else(|| Error::internal("a parameter's default does not fit its type"))
            })
            .collect()
    }

    fn not_an_aggregate(&self, call: &protobuf::FuncCall, name: &QualifiedName) -> Error {
        let error = if call.agg_star {
            err!(WRONG_OBJECT_TYPE, "{name}(*) specified, but {name} is not an aggregate function")
        } else if call.agg_distinct {
            err!(WRONG_OBJECT_TYPE, "DISTINCT specified, but {name} is not an aggregate function")
        } else if call.agg_within_group {
            err!(WRONG_OBJECT_TYPE, "WITHIN GROUP specified, but {name} is not an aggregate function")
        } else if !call.agg_order.is_empty() {
            err!(WRONG_OBJECT_TYPE, "ORDER BY specified, but {name} is not an aggregate function")
        } else if call.agg_filter.is_some() {
            err!(WRONG_OBJECT_TYPE, "FILTER specified, but {name} is not an aggregate function")
        } else {
            err!(
                WRONG_OBJECT_TYPE,
                "OVER specified, but {name} is not a window function nor an aggregate function"
            )
        };
        error.at(call.location)
    }

    #[expect(clippy::too_many_arguments, reason = "the call and what was found for it")]
    fn check_call_form(
        &self,
        call: &protobuf::FuncCall,
        proc: &Proc,
        aggregate: Option<&cairn_catalog::Aggregate>,
        name: &QualifiedName,
        arg_names: &[Text],
        inputs: &[Oid],
        variadic_count: usize,
        args: &[Expr],
    ) -> Result<()> {
        let location = call.location;
        let signature = || self.signature(&name.to_string(), arg_names, inputs);
        match proc.kind {
            ProcKind::Function | ProcKind::Procedure => {
                let decorated = call.agg_star
                    || call.agg_distinct
                    || call.agg_within_group
                    || !call.agg_order.is_empty()
                    || call.agg_filter.is_some()
                    || call.over.is_some();
                if decorated {
                    return Err(self.not_an_aggregate(call, name));
                }
            }
            ProcKind::Aggregate => {
                let kind = aggregate.map_or(b'n', |aggregate| aggregate.kind);
                let direct =
                    aggregate.map_or(0, |aggregate| usize::try_from(aggregate.direct_args).unwrap_or(0));
                if kind == b'n' {
                    if call.agg_within_group {
                        return Err(err!(
                            WRONG_OBJECT_TYPE,
                            "{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
                        )
                        .at(location));
                    }
                } else {
                    if !call.agg_within_group {
                        return Err(err!(
                            WRONG_OBJECT_TYPE,
                            "WITHIN GROUP is required for ordered-set aggregate {name}"
                        )
                        .at(location));
                    }
                    if call.over.is_some() {
                        return Err(err!(
                            FEATURE_NOT_SUPPORTED,
                            "OVER is not supported for ordered-set aggregate {name}"
                        )
                        .at(location));
                    }
                    let given_direct = call.args.len();
                    let mismatch = if proc.variadic == 0 || variadic_count == 0 && !call.func_variadic {
                        given_direct != direct
                    } else {
                        given_direct < direct.min(given_direct)
                    };
                    if mismatch {
                        return Err(err!(UNDEFINED_FUNCTION, "function {} does not exist", signature())
                            .hint(format!(
                                "There is an ordered-set aggregate {name}, but it requires {direct} direct argument{}, not {given_direct}.",
                                if direct == 1 { "" } else { "s" }
                            ))
                            .at(location));
                    }
                    if kind == b'h' && given_direct != call.agg_order.len() {
                        return Err(err!(UNDEFINED_FUNCTION, "function {} does not exist", signature())
                            .hint(format!(
                                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {given_direct}) must match the number of ordering columns (here {}).",
                                call.agg_order.len()
                            ))
                            .at(location));
                    }
                    if call.agg_distinct {
                        return Err(
                            err!(FEATURE_NOT_SUPPORTED, "cannot use DISTINCT with WITHIN GROUP").at(location)
                        );
                    }
                }
                if inputs.is_empty() && !call.agg_star && kind == b'n' {
                    return Err(err!(
                        WRONG_OBJECT_TYPE,
                        "{name}(*) must be used to call a parameterless aggregate function"
                    )
                    .at(location));
                }
                if proc.returns_set {
                    return Err(
                        err!(INVALID_FUNCTION_DEFINITION, "aggregates cannot return sets").at(location)
                    );
                }
                if !arg_names.is_empty() {
                    return Err(
                        err!(FEATURE_NOT_SUPPORTED, "aggregates cannot use named arguments").at(location)
                    );
                }
                if call.over.is_some() {
                    if call.agg_distinct {
                        return Err(err!(
                            FEATURE_NOT_SUPPORTED,
                            "DISTINCT is not implemented for window functions"
                        )
                        .at(location));
                    }
                    if !call.agg_order.is_empty() {
                        return Err(err!(
                            FEATURE_NOT_SUPPORTED,
                            "aggregate ORDER BY is not implemented for window functions"
                        )
                        .at(location));
                    }
                }
            }
            ProcKind::Window => {
                if call.over.is_none() {
                    return Err(err!(WRONG_OBJECT_TYPE, "window function {name} requires an OVER clause")
                        .at(location));
                }
                if call.agg_within_group {
                    return Err(err!(WRONG_OBJECT_TYPE, "window function {name} cannot have WITHIN GROUP")
                        .at(location));
                }
                if call.agg_distinct {
                    return Err(err!(
                        FEATURE_NOT_SUPPORTED,
                        "DISTINCT is not implemented for window functions"
                    )
                    .at(location));
                }
                if !call.agg_order.is_empty() {
                    return Err(err!(
                        FEATURE_NOT_SUPPORTED,
                        "aggregate ORDER BY is not implemented for window functions"
                    )
                    .at(location));
                }
                if call.agg_star {
                    return Err(err!(
                        WRONG_OBJECT_TYPE,
                        "{name}(*) must be used to call a parameterless aggregate function"
                    )
                    .at(location));
                }
                if call.agg_filter.is_some() {
                    return Err(err!(
                        FEATURE_NOT_SUPPORTED,
                        "FILTER is not implemented for non-aggregate window functions"
                    )
                    .at(location));
                }
                if proc.returns_set {
                    return Err(
                        err!(INVALID_FUNCTION_DEFINITION, "window functions cannot return sets").at(location)
                    );
                }
            }
        }
        let _ = args;
        Ok(())
    }

    fn no_function(
        &self,
        call: &protobuf::FuncCall,
        name: &QualifiedName,
        arg_names: &[Text],
        inputs: &[Oid],
        ambiguous: bool,
    ) -> Error {
        let signature = self.signature(&name.to_string(), arg_names, inputs);
        if ambiguous {
            return err!(AMBIGUOUS_FUNCTION, "function {signature} is not unique")
                .hint(
                    "Could not choose a best candidate function. You might need to add explicit type casts.",
                )
                .at(call.location);
        }
        if call.agg_order.len() > 1 && !call.agg_within_group {
            return err!(UNDEFINED_FUNCTION, "function {signature} does not exist")
                .hint(
                    "No aggregate function matches the given name and argument types. Perhaps you misplaced ORDER BY; \
                     ORDER BY must appear after all regular arguments of the aggregate.",
                )
                .at(call.location);
        }
        err!(UNDEFINED_FUNCTION, "function {signature} does not exist")
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
            .at(call.location)
    }

    fn filter_clause(&mut self, filter: &protobuf::Node) -> Result<Expr> {
        self.condition(filter, ExprKind::Filter, "FILTER")
    }

    /// CALL: the procedure, its input arguments and its output columns.
    pub(crate) fn call_statement(&mut self, call: &protobuf::FuncCall) -> Result<Call> {
        let location = call.location;
        let name = self.qualified_name(&call.funcname).map_err(|error| error.at(location))?;
        let mut args = Vec::with_capacity(call.args.len());
        let mut arg_names: Vec<Text> = Vec::new();
        for node in &call.args {
            match names::inner(node)? {
                NodeEnum::NamedArgExpr(named) => {
                    arg_names.push(named.name.as_str().into());
                    args.push(self.expression_of_kind(named.arg.as_deref(), ExprKind::CallArgument)?);
                }
                _ if !arg_names.is_empty() => {
                    return Err(
                        err!(SYNTAX_ERROR, "positional argument cannot follow named argument").at(location)
                    );
                }
                _ => args.push(self.expression_of_kind(Some(node), ExprKind::CallArgument)?),
            }
        }
        let mut inputs: SmallVec<[Oid; 4]> = args.iter().map(|arg| expr_type(arg).oid).collect();
        let signature = self.signature(&name.to_string(), &arg_names, &inputs);
        let detail = self
            .function_detail(&name, &inputs, None, &arg_names, !call.func_variadic, true)
            .map_err(|error| error.at(location))?;
        let found = match detail {
            FunctionDetail::Found(found) if found.proc.kind == ProcKind::Procedure => found,
            FunctionDetail::Found(_) => {
                return Err(err!(WRONG_OBJECT_TYPE, "{signature} is not a procedure")
                    .hint("To call a function, use SELECT.")
                    .at(location));
            }
            FunctionDetail::Ambiguous => {
                return Err(err!(AMBIGUOUS_FUNCTION, "procedure {signature} is not unique")
                    .hint("Could not choose a best candidate procedure. You might need to add explicit type casts.")
                    .at(location));
            }
            FunctionDetail::NotFound | FunctionDetail::Cast(_) => {
                return Err(err!(UNDEFINED_FUNCTION, "procedure {signature} does not exist")
                    .hint(
                        "No procedure matches the given name and argument types. You might need to add explicit type \
                         casts.",
                    )
                    .at(location));
            }
        };
        let FunctionMatch { proc, mut declared, default_count, numbers, variadic_count, .. } = *found;
        if default_count > 0 {
            for default in self.default_arguments(&proc, &numbers, args.len(), default_count)? {
                inputs.push(expr_type(&default).oid);
                args.push(default);
            }
        }
        self.enforce_polymorphic(&inputs, &mut declared, types::VOID)?;
        self.coerce_arguments(&mut args, &inputs, &declared)?;
        if let Some(order) = numbers {
            let mut placed: Vec<(usize, Expr)> = order.into_iter().zip(args).collect();
            placed.sort_by_key(|(number, _)| *number);
            args = placed.into_iter().map(|(_, arg)| arg).collect();
        }
        if variadic_count > 0 && proc.variadic != types::ANY {
            let rest = args.split_off(args.len() - variadic_count);
            let element = rest.first().map_or(0, |arg| expr_type(arg).oid);
            let array = self.lookup.array_of(element);
            args.push(Expr::Array {
                elements: rest,
                element_type: element,
                multidimensional: false,
                ty: self.lookup.type_ref(array),
                location: -1,
            });
        }
        let mut outputs = Vec::new();
        if !proc.arg_modes.is_empty() {
            // Values given for OUT parameters are not evaluated.
            let mut kept = Vec::new();
            let takes_out = args.len() == proc.all_arg_types.len();
            for (index, arg) in args.into_iter().enumerate() {
                let out =
                    takes_out && matches!(proc.arg_modes.get(index), Some(ArgMode::Out | ArgMode::Table));
                if !out {
                    kept.push(arg);
                }
            }
            args = kept;
            for (index, mode) in proc.arg_modes.iter().enumerate() {
                if matches!(mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table) {
                    let name = match proc.arg_names.get(index) {
                        Some(name) if !name.is_empty() => name.clone(),
                        _ => format!("column{}", outputs.len() + 1).into(),
                    };
                    outputs.push((name, self.lookup.type_ref(proc.all_arg_types[index])));
                }
            }
        }
        for arg in &mut args {
            self.assign_expression_collations(arg)?;
        }
        Ok(Call { procedure: proc.oid, args, outputs })
    }

    /// Columns of a function's composite result, where it has one: from its type or its output parameters.
    pub(crate) fn function_result_columns(
        &self,
        proc: &Proc,
        result: Oid,
        args: &[Expr],
    ) -> Option<Vec<RangeColumn>> {
        let base = self.lookup.base_type(result);
        if self.lookup.is_composite(base) {
            let columns = self.lookup.composite_columns(base);
            return Some(
                columns
                    .iter()
                    .map(|column| RangeColumn {
                        name: if column.dropped { "".into() } else { column.name.clone() },
                        ty: column.ty,
                    })
                    .collect(),
            );
        }
        if result != types::RECORD || proc.arg_modes.is_empty() {
            return None;
        }
        let mut declared: Vec<Oid> = proc.all_arg_types.clone();
        if declared.iter().any(|&ty| super::polymorphic::is_polymorphic(ty)) {
            // Output parameters take their concrete types from the arguments.
            let inputs: Vec<Oid> = args.iter().map(|arg| expr_type(arg).oid).collect();
            for (index, ty) in declared.iter_mut().enumerate() {
                if matches!(proc.arg_modes[index], ArgMode::Out | ArgMode::Table)
                    && super::polymorphic::is_polymorphic(*ty)
                {
                    let mut parameters = proc.arg_types.clone();
                    *ty = self.enforce_polymorphic(&inputs, &mut parameters, *ty).ok()?;
                }
            }
        }
        let mut columns = Vec::new();
        for (index, mode) in proc.arg_modes.iter().enumerate() {
            if matches!(mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table) {
                let name: Text = match proc.arg_names.get(index) {
                    Some(name) if !name.is_empty() => name.clone(),
                    _ => format!("column{}", columns.len() + 1).into(),
                };
                let ty: TypeRef = self.lookup.type_ref(declared[index]);
                columns.push(RangeColumn { name, ty });
            }
        }
        if columns.is_empty() { None } else { Some(columns) }
    }
}

/// Takes parameters of type void off the positional arguments, as PostgreSQL does for JDBC, which sends one for each OUT
/// parameter of a function. (In CALL they stay, see [`Analyzer::parameter`].)
fn drop_void_parameters(args: &mut Vec<Expr>, named: usize) {
    let mut positional = args.len() - named;
    args.retain(|arg| {
        let is_positional = positional > 0;
        positional = positional.saturating_sub(1);
        !(is_positional && matches!(arg, Expr::Param { ty, .. } if ty.oid == types::VOID))
    });
}

/// Named and mixed notation: parameter numbers of the call's arguments and then of the parameters left to their
/// defaults. `None`: the names do not fit.
fn match_named(
    proc: &Proc,
    arg_count: usize,
    arg_names: &[Text],
    parameter_count: usize,
    out_arguments: bool,
) -> Option<Vec<usize>> {
    let positional = arg_count - arg_names.len();
    let mut order: Vec<usize> = (0..positional).collect();
    let mut used = vec![false; parameter_count];
    for slot in used.iter_mut().take(positional) {
        *slot = true;
    }
    for wanted in arg_names {
        let mut input = 0usize;
        let mut found = None;
        for (index, name) in proc.arg_names.iter().enumerate() {
            let mode = proc.arg_modes.get(index).copied().unwrap_or(ArgMode::In);
            let counts = out_arguments || matches!(mode, ArgMode::In | ArgMode::InOut | ArgMode::Variadic);
            if !counts {
                continue;
            }
            if name == wanted {
                found = Some(input);
                break;
            }
            input += 1;
        }
        let number = found?;
        if *used.get(number)? {
            return None;
        }
        used[number] = true;
        order.push(number);
    }
    if arg_count < parameter_count {
        let first_default = parameter_count - proc.arg_defaults.len();
        for (number, used) in used.iter().enumerate() {
            if !used {
                if number < first_default {
                    return None;
                }
                order.push(number);
            }
        }
    }
    Some(order)
}

/// Adds a candidate unless one with the same parameters hides it: one of a schema earlier in the search path, or of
/// the same schema without variadic expansion or with fewer defaults.
fn add_candidate(found: &mut Vec<FunctionMatch>, candidate: FunctionMatch, arg_count: usize) {
    let same = |other: &FunctionMatch| {
        other.declared.get(..arg_count.min(other.declared.len()))
            == candidate.declared.get(..arg_count.min(candidate.declared.len()))
    };
    if let Some(index) = found.iter().position(same) {
        let other = &found[index];
        if candidate.path_position != other.path_position {
            if candidate.path_position < other.path_position {
                found[index] = candidate;
            }
            return;
        }
        match (candidate.variadic_count > 0, other.variadic_count > 0) {
            (true, false) => return,
            (false, true) => {
                found[index] = candidate;
                return;
            }
            _ => {}
        }
        // Equal but for defaults: only an exact number of parameters beats the others.
        match (candidate.default_count > 0, other.default_count > 0) {
            (true, false) => return,
            (false, true) => {
                found[index] = candidate;
                return;
            }
            _ => {}
        }
    }
    found.push(candidate);
}
