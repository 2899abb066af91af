//! CREATE, ALTER FUNCTION and PROCEDURE, and finding them by signature.

use std::sync::Arc;

use cairn_analyze::ExprKind;
use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::*;
use cairn_catalog::system_table::{array_of, blank_row, oidvector, text_array_or_null};
use cairn_catalog::{Proc, ProcKind, RowExt, TypeKind};
use cairn_exec::TxnResultExt;
use cairn_types::oid::languages;
use cairn_types::{Datum, Error, Oid, Result, Text, err, types};
use pg_query::protobuf::{self, FunctionParameterMode as Mode, Node, ObjectType, node::Node as NodeEnum};

use super::context::DdlContext;
use super::depend::{self, Address, Dependency};
use super::node::{boxed, inner, option_bool, option_text, options, qualified, range_var, strings};
use super::{names, rows, text};

/// What the options of CREATE and ALTER FUNCTION say; `None`: not said.
#[derive(Default)]
struct Options {
    language: Option<String>,
    body: Option<Vec<Text>>,
    volatility: Option<u8>,
    strict: Option<bool>,
    security_definer: Option<bool>,
    leakproof: Option<bool>,
    parallel: Option<u8>,
    cost: Option<f32>,
    rows: Option<f32>,
    settings: Vec<Setting>,
}

enum Setting {
    Set(String, String),
    Reset(String),
    ResetAll,
}

fn read_options(nodes: &[Node]) -> Result<Options> {
    let mut result = Options::default();
    let mut seen: Vec<&str> = Vec::new();
    for option in options(nodes) {
        let name = &*option.defname;
        if seen.contains(&name) && name != "set" {
            return Err(err!(SYNTAX_ERROR, "conflicting or redundant options").at(option.location));
        }
        seen.push(name);
        match name {
            "language" => result.language = option_text(option)?,
            "as" => {
                result.body = Some(match option.arg.as_deref() {
                    Some(node) => match inner(node)? {
                        NodeEnum::List(list) => strings(&list.items),
                        NodeEnum::String(string) => vec![string.sval.as_str().into()],
                        _ => Vec::new(),
                    },
                    None => Vec::new(),
                });
            }
            "volatility" => {
                result.volatility = Some(match option_text(option)?.unwrap_or_default().as_str() {
                    "immutable" => b'i',
                    "stable" => b's',
                    _ => b'v',
                });
            }
            "strict" => result.strict = Some(option_bool(option)?),
            "security" => result.security_definer = Some(option_bool(option)?),
            "leakproof" => result.leakproof = Some(option_bool(option)?),
            "parallel" => {
                let word = option_text(option)?.unwrap_or_default();
                result.parallel = Some(match &*word {
                    "safe" => b's',
                    "unsafe" => b'u',
                    "restricted" => b'r',
                    _ => {
                        return Err(err!(
                            SYNTAX_ERROR,
                            "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE"
                        ));
                    }
                });
            }
            "cost" => result.cost = Some(positive(option, "COST")?),
            "rows" => result.rows = Some(positive(option, "ROWS")?),
            "set" => read_setting(option, &mut result.settings)?,
            "window" => return Err(Error::unsupported("window functions of users are")),
            "support" => return Err(Error::unsupported("support functions are")),
            "transform" => return Err(Error::unsupported("TRANSFORM is")),
            other => return Err(err!(SYNTAX_ERROR, "option \"{other}\" not recognized").at(option.location)),
        }
    }
    Ok(result)
}

fn positive(option: &protobuf::DefElem, what: &str) -> Result<f32> {
    let text = option_text(option)?.unwrap_or_default();
    match text.parse::<f32>() {
        Ok(value) if value > 0.0 => Ok(value),
        _ => Err(err!(INVALID_PARAMETER_VALUE, "{what} must be positive")),
    }
}

fn read_setting(option: &protobuf::DefElem, settings: &mut Vec<Setting>) -> Result<()> {
    use protobuf::VariableSetKind as Kind;
    let Some(NodeEnum::VariableSetStmt(set)) = option.arg.as_deref().and_then(|node| node.node.as_ref())
    else {
        return Ok(());
    };
    match set.kind() {
        Kind::VarSetValue => {
            let value = crate::variables::value_text(&set.name, &set.args)?;
            settings.push(Setting::Set(set.name.clone(), value));
        }
        Kind::VarSetCurrent => return Err(Error::unsupported("SET ... FROM CURRENT in a function is")),
        Kind::VarSetDefault | Kind::VarReset => settings.push(Setting::Reset(set.name.clone())),
        Kind::VarResetAll => settings.push(Setting::ResetAll),
        _ => return Err(Error::unsupported("this SET clause is")),
    }
    Ok(())
}

fn apply_settings(old: &[Text], settings: &[Setting]) -> Vec<Text> {
    let mut result = old.to_vec();
    let name_of = |setting: &Text| setting.split('=').next().unwrap_or("").to_owned();
    for setting in settings {
        match setting {
            Setting::Set(name, value) => {
                result.retain(|old| name_of(old) != *name);
                result.push(format!("{name}={value}").into());
            }
            Setting::Reset(name) => result.retain(|old| name_of(old) != *name),
            Setting::ResetAll => result.clear(),
        }
    }
    result
}

/// The parameters of a definition.
#[derive(Default)]
struct Parameters {
    inputs: Vec<Oid>,
    all: Vec<(Oid, u8, String)>,
    variadic: Oid,
    defaults: Vec<String>,
    default_needs: Vec<Address>,
    has_outputs: bool,
    returns_table: bool,
}

fn read_parameters(cx: &DdlContext<'_>, nodes: &[Node], procedure: bool) -> Result<Parameters> {
    let mut result = Parameters::default();
    for node in nodes {
        let NodeEnum::FunctionParameter(parameter) = inner(node)? else { continue };
        let type_name = super::node::required(&parameter.arg_type)?;
        let (oid, _) =
            cairn_analyze::resolve_type_name(type_name, &cx.analyze_context()).map_err(|error| {
                if error.sqlstate() != cairn_types::sqlstate::UNDEFINED_OBJECT {
                    return error;
                }
                err!(UNDEFINED_OBJECT, "type {} does not exist", strings(&type_name.names).join("."))
            })?;
        if type_name.setof {
            return Err(err!(
                INVALID_FUNCTION_DEFINITION,
                "{} cannot accept set arguments",
                if procedure { "procedures" } else { "functions" }
            ));
        }
        let mode = match parameter.mode() {
            Mode::FuncParamOut => b'o',
            Mode::FuncParamInout => b'b',
            Mode::FuncParamVariadic => b'v',
            Mode::FuncParamTable => b't',
            _ => b'i',
        };
        if result.variadic != 0 && matches!(mode, b'i' | b'b' | b'v') {
            return Err(err!(
                INVALID_FUNCTION_DEFINITION,
                "VARIADIC parameter must be the last input parameter"
            ));
        }
        if mode == b'v' {
            let element = cx.catalog.array_element(oid);
            result.variadic = match oid {
                types::ANYARRAY => types::ANYELEMENT,
                types::ANYCOMPATIBLEARRAY => types::ANYCOMPATIBLE,
                types::ANY => types::ANY,
                _ if element != 0 => element,
                _ => {
                    return Err(err!(INVALID_FUNCTION_DEFINITION, "VARIADIC parameter must be an array"));
                }
            };
        }
        let input = matches!(mode, b'i' | b'b' | b'v');
        let name = &parameter.name;
        if !name.is_empty() {
            let clash = result.all.iter().any(|(_, other, known)| {
                let other_output = matches!(other, b'o' | b't');
                let output = matches!(mode, b'o' | b't');
                known == name && (output == other_output || mode == b'b' || *other == b'b')
            });
            if clash {
                return Err(err!(
                    INVALID_FUNCTION_DEFINITION,
                    "parameter name \"{name}\" used more than once"
                ));
            }
        }
        if let Some(default) = boxed(&parameter.defexpr) {
            if !input {
                return Err(err!(
                    INVALID_FUNCTION_DEFINITION,
                    "only input parameters can have default values"
                ));
            }
            let ty = text::type_ref(&cx.catalog, oid, -1);
            let expr = cairn_analyze::analyze_column_expression(
                default,
                None,
                ExprKind::FunctionDefault,
                name,
                ty,
                &cx.analyze_context(),
            )?;
            result.default_needs.extend(depend::of_expression(&expr, 0, &cx.catalog));
            result.defaults.push(text::stored_value(&expr, None, &cx.catalog, cx.env)?);
        } else if input && !result.defaults.is_empty() {
            return Err(err!(
                INVALID_FUNCTION_DEFINITION,
                "input parameters after one with a default value must also have defaults"
            ));
        } else if procedure && mode == b'o' && !result.defaults.is_empty() {
            return Err(err!(
                INVALID_FUNCTION_DEFINITION,
                "procedure OUT parameters cannot appear after one with a default value"
            ));
        }
        if input {
            result.inputs.push(oid);
        }
        result.has_outputs |= mode != b'i' && mode != b'v';
        result.returns_table |= mode == b't';
        result.all.push((oid, mode, name.clone()));
    }
    if result.inputs.len() > 100 {
        return Err(err!(TOO_MANY_ARGUMENTS, "functions cannot have more than 100 arguments"));
    }
    Ok(result)
}

/// Result type and whether it is a set.
fn return_type(
    cx: &DdlContext<'_>,
    statement: &protobuf::CreateFunctionStmt,
    parameters: &Parameters,
) -> Result<(Oid, bool)> {
    let outputs: Vec<Oid> = parameters
        .all
        .iter()
        .filter(|(_, mode, _)| matches!(mode, b'o' | b'b' | b't'))
        .map(|(oid, ..)| *oid)
        .collect();
    let implied = match outputs.as_slice() {
        [] => None,
        [only] if !statement.is_procedure => Some(*only),
        _ => Some(types::RECORD),
    };
    if statement.is_procedure {
        return Ok((implied.unwrap_or(types::VOID), false));
    }
    if parameters.returns_table {
        return Ok((implied.unwrap_or(types::RECORD), true));
    }
    match (&statement.return_type, implied) {
        (Some(name), implied) => {
            let (oid, _) = cairn_analyze::resolve_type_name(name, &cx.analyze_context())?;
            if let Some(implied) = implied.filter(|implied| *implied != oid) {
                return Err(err!(
                    INVALID_FUNCTION_DEFINITION,
                    "function result type must be {} because of OUT parameters",
                    cx.catalog.type_name(implied, &cx.search_path)
                ));
            }
            Ok((oid, name.setof))
        }
        (None, Some(implied)) => Ok((implied, false)),
        (None, None) => Err(err!(INVALID_FUNCTION_DEFINITION, "function result type must be specified")),
    }
}

pub fn create(cx: &mut DdlContext<'_>, statement: &protobuf::CreateFunctionStmt) -> Result<()> {
    let name = range_var(cx, &statement.funcname)?;
    let namespace = names::creation_namespace(cx, &name)?;
    let name = name.relname;
    let read = read_options(&statement.options)?;
    if statement.sql_body.is_some() {
        return Err(Error::unsupported("SQL-standard function bodies (RETURN, BEGIN ATOMIC) are"));
    }
    let body = read
        .body
        .as_deref()
        .ok_or_else(|| err!(INVALID_FUNCTION_DEFINITION, "no function body specified"))?;
    let language =
        read.language.as_deref().ok_or_else(|| err!(INVALID_FUNCTION_DEFINITION, "no language specified"))?;
    let language = language.to_ascii_lowercase();
    let language_oid = match cx.catalog.language_by_name(&language) {
        Some(oid) if matches!(oid, languages::SQL | languages::PLPGSQL) => oid,
        Some(_) => return Err(Error::unsupported(format!("functions in language {language} are"))),
        None => return Err(err!(UNDEFINED_OBJECT, "language \"{language}\" does not exist")),
    };
    let [source] = body else {
        return Err(err!(INVALID_FUNCTION_DEFINITION, "only one AS item needed for language \"{language}\""));
    };
    let parameters = read_parameters(cx, &statement.parameters, statement.is_procedure)?;
    let (result, returns_set) = return_type(cx, statement, &parameters)?;
    for (ty, ..) in &parameters.all {
        super::text::check_type_usage(cx, *ty)?;
    }
    super::text::check_type_usage(cx, result)?;
    check_pseudo_types(cx, &language, &parameters, result)?;
    let mut identity = name.clone();
    identity.push_str(&format!("{:?}", parameters.inputs));
    cx.lock_name(pg_proc::TABLE, namespace, &identity)?;
    let existing = cx
        .catalog
        .procs_by_name(&name)
        .iter()
        .find(|proc| proc.namespace == namespace && proc.arg_types == parameters.inputs)
        .cloned();
    if let Some(existing) = &existing {
        cx.require_owner(ObjectKind::Function, existing.oid)?;
        check_replacement(cx, existing, statement, &parameters, result, returns_set)?;
    }
    let oid = match &existing {
        Some(existing) => existing.oid,
        None => cx.new_oid()?,
    };
    use pg_proc as c;
    let mut row = blank_row(c::TABLE);
    row[c::OID] = Datum::Oid(oid);
    row[c::PRONAME] = Datum::text(&*name);
    row[c::PRONAMESPACE] = Datum::Oid(namespace);
    let owner = existing.as_ref().map_or(cx.user, |existing| existing.owner);
    row[c::PROOWNER] = Datum::Oid(owner);
    if existing.is_some()
        && let Some(old) = cx.catalog.row_by_oid(c::TABLE, oid)
    {
        row[c::PROACL] = old.datum(c::PROACL).clone();
    }
    row[c::PROLANG] = Datum::Oid(language_oid);
    row[c::PROCOST] = Datum::Float4(100.0);
    row[c::PROROWS] = Datum::Float4(if returns_set { 1000.0 } else { 0.0 });
    row[c::PROVARIADIC] = Datum::Oid(parameters.variadic);
    row[c::PROKIND] = Datum::Char(if statement.is_procedure { b'p' } else { b'f' });
    row[c::PRORETSET] = Datum::Bool(returns_set);
    row[c::PROVOLATILE] = Datum::Char(b'v');
    row[c::PROPARALLEL] = Datum::Char(b'u');
    row[c::PRONARGS] = Datum::Int2(parameters.inputs.len() as i16);
    row[c::PRONARGDEFAULTS] = Datum::Int2(parameters.defaults.len() as i16);
    row[c::PRORETTYPE] = Datum::Oid(result);
    row[c::PROARGTYPES] = oidvector(parameters.inputs.iter().copied());
    let only_inputs = parameters.all.iter().all(|(_, mode, _)| *mode == b'i');
    if !only_inputs {
        row[c::PROALLARGTYPES] = rows::oid_array(parameters.all.iter().map(|(oid, ..)| *oid));
        row[c::PROARGMODES] =
            array_of(types::CHAR, parameters.all.iter().map(|(_, mode, _)| Datum::Char(*mode)).collect());
    }
    if parameters.all.iter().any(|(.., name)| !name.is_empty()) {
        row[c::PROARGNAMES] = text_array_or_null(parameters.all.iter().map(|(.., name)| name.as_str()));
    }
    if !parameters.defaults.is_empty() {
        row[c::PROARGDEFAULTS] = Datum::text(parameters.defaults.join(", "));
    }
    row[c::PROSRC] = Datum::Text(source.clone());
    apply(&mut row, &read, &[]);
    let mut on: Vec<Address> = parameters.default_needs.clone();
    on.push(Address::new(pg_namespace::TABLE, namespace));
    let used = parameters.all.iter().map(|(oid, ..)| *oid).chain([result]);
    on.extend(used.filter_map(|oid| depend::of_type(oid, &cx.catalog)));
    cx.change(|writer| {
        let address = Address::new(c::TABLE, oid);
        writer
            .delete_where(pg_depend::TABLE, |row| {
                row.oid(pg_depend::CLASSID) == c::TABLE && row.oid(pg_depend::OBJID) == oid
            })
            .sql()?;
        rows::put(writer, c::TABLE, row)?;
        for on in on {
            depend::record(writer, address, on, Dependency::Normal)?;
        }
        Ok(())
    })?;
    if existing.is_none() {
        super::default_privileges::apply(cx, ObjectKind::Function, oid, owner, namespace)?;
    }
    if cx.env.setting("check_function_bodies").as_deref() != Some("off") {
        let proc = cx
            .catalog
            .proc(oid)
            .cloned()
            .ok_or_else(|| Error::internal("a function that was just made is gone"))?;
        cx.host.check_function(&cx.catalog, &proc)?;
    }
    Ok(())
}

/// SQL and plpgsql functions take and return real types, polymorphic ones, and a few pseudo-types.
fn check_pseudo_types(
    cx: &DdlContext<'_>,
    language: &str,
    parameters: &Parameters,
    result: Oid,
) -> Result<()> {
    let language_name = if language == "sql" { "SQL" } else { "PL/pgSQL" };
    let is_pseudo =
        |oid: Oid| cx.catalog.type_by_oid(oid).is_some_and(|object| object.kind == TypeKind::Pseudo);
    let polymorphic = |oid: Oid| {
        matches!(
            oid,
            types::ANYELEMENT
                | types::ANYARRAY
                | types::ANYNONARRAY
                | types::ANYENUM
                | types::ANYRANGE
                | types::ANYMULTIRANGE
                | types::ANYCOMPATIBLE
                | types::ANYCOMPATIBLEARRAY
                | types::ANYCOMPATIBLENONARRAY
                | types::ANYCOMPATIBLERANGE
                | types::ANYCOMPATIBLEMULTIRANGE
        )
    };
    if result == types::TRIGGER {
        return Err(Error::unsupported("trigger functions are"));
    }
    if is_pseudo(result) && !polymorphic(result) && !matches!(result, types::VOID | types::RECORD) {
        return Err(err!(
            INVALID_FUNCTION_DEFINITION,
            "{language_name} functions cannot return type {}",
            cx.catalog.type_name(result, &cx.search_path)
        ));
    }
    for oid in &parameters.inputs {
        if is_pseudo(*oid) && !polymorphic(*oid) && *oid != types::RECORD {
            return Err(err!(
                INVALID_FUNCTION_DEFINITION,
                "{language_name} functions cannot accept type {}",
                cx.catalog.type_name(*oid, &cx.search_path)
            ));
        }
    }
    if polymorphic(result) && !parameters.inputs.iter().any(|oid| polymorphic(*oid)) {
        return Err(err!(INVALID_FUNCTION_DEFINITION, "cannot determine result data type").detail(format!(
            "A result of type {0} requires at least one input of type anyelement, anyarray, anynonarray, anyenum, anyrange, or anymultirange.",
            cx.catalog.type_name(result, &cx.search_path)
        )));
    }
    Ok(())
}

/// What CREATE OR REPLACE may not change. 42723, 42P13, 42809.
fn check_replacement(
    cx: &DdlContext<'_>,
    existing: &Arc<Proc>,
    statement: &protobuf::CreateFunctionStmt,
    parameters: &Parameters,
    result: Oid,
    returns_set: bool,
) -> Result<()> {
    let name = &existing.name;
    if !statement.replace {
        return Err(err!(DUPLICATE_FUNCTION, "function \"{name}\" already exists with same argument types"));
    }
    let is_procedure = existing.kind == ProcKind::Procedure;
    let what = if is_procedure { "procedure" } else { "function" };
    if is_procedure != statement.is_procedure {
        return Err(
            err!(WRONG_OBJECT_TYPE, "cannot change routine kind").detail(format!("\"{name}\" is a {what}."))
        );
    }
    let signature = depend::proc_signature(&cx.catalog, &cx.search_path, existing.oid);
    let hint = format!("Use DROP {} {signature} first.", what.to_uppercase());
    if existing.return_type != result || existing.returns_set != returns_set {
        let message = if is_procedure {
            "cannot change whether a procedure has output parameters"
        } else {
            "cannot change return type of existing function"
        };
        return Err(err!(INVALID_FUNCTION_DEFINITION, "{message}").hint(hint));
    }
    let outputs_of = |proc: &Proc| -> Vec<(Oid, String)> {
        proc.arg_modes
            .iter()
            .enumerate()
            .filter(|(_, mode)| {
                matches!(
                    mode,
                    cairn_catalog::ArgMode::Out
                        | cairn_catalog::ArgMode::InOut
                        | cairn_catalog::ArgMode::Table
                )
            })
            .map(|(at, _)| {
                let name = proc.arg_names.get(at).map_or_else(String::new, |name| name.to_string());
                (proc.all_arg_types.get(at).copied().unwrap_or(0), name)
            })
            .collect()
    };
    let new_outputs: Vec<(Oid, String)> = parameters
        .all
        .iter()
        .filter(|(_, mode, _)| matches!(mode, b'o' | b'b' | b't'))
        .map(|(oid, _, name)| (*oid, name.clone()))
        .collect();
    if result == types::RECORD && outputs_of(existing) != new_outputs {
        return Err(err!(INVALID_FUNCTION_DEFINITION, "cannot change return type of existing function")
            .detail("Row type defined by OUT parameters is different.")
            .hint(hint));
    }
    // Callers may use input names.
    let old_names = existing.arg_names.iter().enumerate().filter(|(at, _)| {
        !matches!(
            existing.arg_modes.get(*at),
            Some(cairn_catalog::ArgMode::Out | cairn_catalog::ArgMode::Table)
        )
    });
    let new_names: Vec<&str> = parameters
        .all
        .iter()
        .filter(|(_, mode, _)| !matches!(mode, b'o' | b't'))
        .map(|(.., name)| name.as_str())
        .collect();
    for (position, (_, old)) in old_names.enumerate() {
        let new = new_names.get(position).copied().unwrap_or("");
        if !old.is_empty() && **old != *new {
            return Err(err!(INVALID_FUNCTION_DEFINITION, "cannot change name of input parameter \"{old}\"")
                .hint(hint));
        }
    }
    if existing.arg_defaults.len() > parameters.defaults.len() {
        return Err(err!(
            INVALID_FUNCTION_DEFINITION,
            "cannot remove parameter defaults from existing function"
        )
        .hint(hint));
    }
    Ok(())
}

/// Puts what was said into a pg_proc row.
fn apply(row: &mut [Datum], read: &Options, old_settings: &[Text]) {
    use pg_proc as c;
    if let Some(code) = read.volatility {
        row[c::PROVOLATILE] = Datum::Char(code);
    }
    if let Some(strict) = read.strict {
        row[c::PROISSTRICT] = Datum::Bool(strict);
    }
    if let Some(definer) = read.security_definer {
        row[c::PROSECDEF] = Datum::Bool(definer);
    }
    if let Some(leakproof) = read.leakproof {
        row[c::PROLEAKPROOF] = Datum::Bool(leakproof);
    }
    if let Some(code) = read.parallel {
        row[c::PROPARALLEL] = Datum::Char(code);
    }
    if let Some(cost) = read.cost {
        row[c::PROCOST] = Datum::Float4(cost);
    }
    if let Some(rows) = read.rows {
        row[c::PROROWS] = Datum::Float4(rows);
    }
    row[c::PROCONFIG] = text_array_or_null(apply_settings(old_settings, &read.settings));
}

pub fn alter(cx: &mut DdlContext<'_>, statement: &protobuf::AlterFunctionStmt) -> Result<()> {
    let signature = super::node::required(&statement.func)?;
    let proc = find(cx, signature, statement.objtype(), false)?
        .ok_or_else(|| Error::internal("a function that is not there"))?;
    if proc.oid < cairn_types::oid::FIRST_USER_OID {
        return Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "permission denied: \"{}\" is a system function",
            proc.name
        ));
    }
    cx.require_owner(ObjectKind::Function, proc.oid)?;
    let read = read_options(&statement.actions)?;
    if read.rows.is_some() && !proc.returns_set {
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "ROWS is not applicable when function does not return a set"
        ));
    }
    cx.change(|writer| {
        writer
            .update_where(
                pg_proc::TABLE,
                |row| row.oid(pg_proc::OID) == proc.oid,
                |row| {
                    let settings = row.texts(pg_proc::PROCONFIG);
                    apply(row, &read, &settings);
                },
            )
            .sql()?;
        Ok(())
    })
}

fn kind_matches(kind: ObjectType, proc: &Proc) -> bool {
    match kind {
        ObjectType::ObjectFunction => proc.kind != ProcKind::Procedure,
        ObjectType::ObjectProcedure => proc.kind == ProcKind::Procedure,
        ObjectType::ObjectAggregate => proc.kind == ProcKind::Aggregate,
        _ => true,
    }
}

/// The function that a signature names. `None` only with `missing_ok` (the notice is out). 42883, 42725, 42809.
pub fn find(
    cx: &mut DdlContext<'_>,
    signature: &protobuf::ObjectWithArgs,
    kind: ObjectType,
    missing_ok: bool,
) -> Result<Option<Arc<Proc>>> {
    let (schema, name) = qualified(cx, &signature.objname)?;
    let what = match kind {
        ObjectType::ObjectProcedure => "procedure",
        ObjectType::ObjectRoutine => "routine",
        ObjectType::ObjectAggregate => "aggregate",
        _ => "function",
    };
    let shown = if schema.is_empty() { name.clone() } else { format!("{schema}.{name}") };
    let namespaces: Vec<Oid> = if schema.is_empty() {
        cx.search_path.namespaces.clone()
    } else {
        match cx.catalog.resolve_namespace(&cx.search_path, &schema) {
            Some(oid) => vec![oid],
            None if missing_ok => {
                cx.notice(format!("schema \"{schema}\" does not exist, skipping"));
                return Ok(None);
            }
            None => return Err(cx.catalog.missing_namespace(&cx.search_path, &schema)),
        }
    };
    let visible = |namespace: Oid| -> Vec<Arc<Proc>> {
        cx.catalog.procs_by_name(&name).iter().filter(|proc| proc.namespace == namespace).cloned().collect()
    };
    if signature.args_unspecified {
        let all: Vec<Arc<Proc>> = namespaces
            .iter()
            .flat_map(|namespace| visible(*namespace))
            .filter(|proc| kind_matches(kind, proc))
            .collect();
        return match all.as_slice() {
            [only] => Ok(Some(only.clone())),
            [] if missing_ok => {
                cx.notice(format!("{what} {shown}() does not exist, skipping"));
                Ok(None)
            }
            [] => Err(err!(UNDEFINED_FUNCTION, "could not find a {what} named \"{shown}\"")),
            _ => Err(err!(AMBIGUOUS_FUNCTION, "{what} name \"{shown}\" is not unique")
                .hint(format!("Specify the argument list to select the {what} unambiguously."))),
        };
    }
    let mut args = Vec::new();
    for node in &signature.objargs {
        let NodeEnum::TypeName(type_name) = inner(node)? else { continue };
        match cairn_analyze::resolve_type_name(type_name, &cx.analyze_context()) {
            Ok((oid, _)) => args.push(oid),
            Err(error) if missing_ok && error.sqlstate() == cairn_types::sqlstate::UNDEFINED_OBJECT => {
                cx.notice(format!("{}, skipping", error.message()));
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    let list =
        args.iter().map(|oid| cx.catalog.type_name(*oid, &cx.search_path)).collect::<Vec<_>>().join(", ");
    let full = |proc: &Proc| -> bool {
        // DROP PROCEDURE may list OUT parameters as well.
        proc.arg_types == args
            || (kind != ObjectType::ObjectFunction && proc.all_arg_types == args && !args.is_empty())
    };
    let found = namespaces.iter().flat_map(|namespace| visible(*namespace)).find(|proc| full(proc));
    match found {
        Some(found) if kind_matches(kind, &found) => Ok(Some(found)),
        Some(_) => {
            let article = if what == "aggregate" { "an" } else { "a" };
            Err(err!(WRONG_OBJECT_TYPE, "{shown}({list}) is not {article} {what}"))
        }
        None if missing_ok => {
            cx.notice(format!("{what} {shown}({list}) does not exist, skipping"));
            Ok(None)
        }
        None => Err(err!(UNDEFINED_FUNCTION, "{what} {shown}({list}) does not exist")),
    }
}
