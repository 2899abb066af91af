//! Functions and procedures that are written in SQL or PL/pgSQL; CALL and DO.
//!
//! A SQL function's statements are analyzed once per set of argument types and kept as long as the catalog stays as it is. A
//! volatile function's statements are commands of their own, each seeing what the ones before have done; those of others read at the
//! snapshot of the query that calls them (manual, section 38.7).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::{Call, Expr};
use cairn_analyze::{Coercion, NameConflict, ParamResolver, Parameters};
use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::{ArgMode, Proc, ProcKind, TypeKind, TypeRef, Volatility};
use cairn_exec::{ExecContext, FunctionRunner, Plan};
use cairn_functions::{RowStream, Rows};
use cairn_types::oid::languages;
use cairn_types::{
    CallInfo, Datum, Error, Oid, Record, RecordField, Result, Row, Severity, Text, err, types,
};
use hashbrown::HashMap;
use pg_query::protobuf::{self, node::Node as NodeEnum};

use crate::client::ResultColumn;
use crate::core::Core;
use crate::plpgsql;
use crate::statement::{Compiled, Kind, Purpose};
use crate::utility::{self, Invocation, Outcome};

/// What has been prepared of functions.
#[derive(Default)]
pub struct FunctionCache {
    sql: HashMap<(Oid, Vec<Oid>), Rc<SqlFunction>>,
    plpgsql: HashMap<(Oid, Vec<Oid>), (u64, Rc<plpgsql::interpreter::Routine>)>,
    casts: HashMap<(TypeRef, TypeRef), Option<Arc<Plan>>>,
}

/// More than so many prepared functions are forgotten all at once.
const CACHED_MAX: usize = 1000;

/// More lines of CONTEXT than this help nobody.
const CONTEXT_LINES_MAX: usize = 50;

struct SqlFunction {
    /// The definition that it was made from: CREATE OR REPLACE makes another one.
    proc: Arc<Proc>,
    statements: Vec<SqlStatement>,
    arguments: Arguments,
}

/// How far a call of a SQL function has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FunctionStage {
    /// Its statements are being analyzed.
    #[default]
    Startup,
    /// From 1.
    Statement(usize),
    /// PostgreSQL would have put its expression in the place of the call, and knows nothing of the function any more.
    Inlined,
}

impl SqlFunction {
    /// Whether it is a lone expression over its arguments.
    fn is_expression(&self) -> bool {
        let proc = &self.proc;
        let [statement] = self.statements.as_slice() else { return false };
        let pg_query::protobuf::node::Node::SelectStmt(select) = &*statement.raw.node else { return false };
        !proc.returns_set
            && !proc.security_definer
            && proc.config.is_empty()
            && proc.return_type != types::RECORD
            && proc.return_type != types::VOID
            && select.target_list.len() == 1
            && select.from_clause.is_empty()
            && select.where_clause.is_none()
            && select.group_clause.is_empty()
            && select.having_clause.is_none()
            && select.sort_clause.is_empty()
            && select.distinct_clause.is_empty()
            && select.limit_count.is_none()
            && select.limit_offset.is_none()
            && select.with_clause.is_none()
            && select.values_lists.is_empty()
            && select.larg.is_none()
    }
}

struct SqlStatement {
    raw: Arc<cairn_analyze::RawStatement>,
    compiled: RefCell<Option<Rc<Compiled>>>,
}

/// Names and types of a function's input arguments.
struct Arguments {
    function: String,
    names: Vec<String>,
    types: Vec<TypeRef>,
}

impl ParamResolver for Arguments {
    fn by_name(&self, name: &[&str]) -> Option<(u32, TypeRef)> {
        let name = match name {
            [name] => name,
            [function, name] if *function == self.function => name,
            _ => return None,
        };
        let index = self.names.iter().position(|one| one == name && !one.is_empty())?;
        Some((u32::try_from(index + 1).ok()?, *self.types.get(index)?))
    }

    fn by_number(&self, number: u32) -> Option<TypeRef> {
        self.types.get((number as usize).checked_sub(1)?).copied()
    }

    fn on_conflict(&self) -> NameConflict {
        NameConflict::UseColumn
    }
}

/// Whether an argument is given by the caller.
fn is_input(mode: ArgMode) -> bool {
    matches!(mode, ArgMode::In | ArgMode::InOut | ArgMode::Variadic)
}

fn is_output(mode: ArgMode) -> bool {
    matches!(mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table)
}

/// Modes of all arguments, in order.
fn modes(proc: &Proc) -> Vec<ArgMode> {
    if proc.arg_modes.is_empty() { vec![ArgMode::In; proc.arg_types.len()] } else { proc.arg_modes.clone() }
}

/// Declared types of all arguments, in order.
fn all_types(proc: &Proc) -> &[Oid] {
    if proc.all_arg_types.is_empty() { &proc.arg_types } else { &proc.all_arg_types }
}

fn name_of(proc: &Proc, index: usize) -> String {
    proc.arg_names.get(index).map(|name| name.to_string()).unwrap_or_default()
}

impl Core {
    pub(crate) fn type_ref(&self, oid: Oid, typmod: i32) -> TypeRef {
        let collation = self
            .catalog()
            .ok()
            .and_then(|catalog| catalog.type_by_oid(oid).map(|ty| ty.collation))
            .unwrap_or(0);
        TypeRef { oid, typmod, collation }
    }

    /// Converts a value by the assignment cast; 42804-like `None` where there is none.
    pub(crate) fn cast_assigned(&self, value: Datum, from: TypeRef, to: TypeRef) -> Result<Option<Datum>> {
        if from.oid == to.oid && to.typmod < 0 {
            return Ok(Some(value));
        }
        let kept = self.functions.borrow().casts.get(&(from, to)).cloned();
        let plan = match kept {
            Some(plan) => plan,
            None => {
                let expression = self.with_analyzer(Parameters::None, |context| {
                    cairn_analyze::coercion_expression(from, to, Coercion::Assignment, context)
                })?;
                let plan = match expression {
                    Some(mut expression) => {
                        replace_test_value(&mut expression);
                        let query = utility::select_of(self, vec![expression])?;
                        Some(Arc::new(crate::statement::plan_query(
                            self,
                            &self.catalog()?,
                            &query,
                            Purpose::Statement,
                            &[],
                        )?))
                    }
                    None => None,
                };
                let mut functions = self.functions.borrow_mut();
                // User casts and domains may change with any DDL; only built-in types' casts are kept.
                let lasting =
                    from.oid < cairn_types::oid::FIRST_USER_OID && to.oid < cairn_types::oid::FIRST_USER_OID;
                if lasting {
                    functions.casts.insert((from, to), plan.clone());
                }
                plan
            }
        };
        let Some(plan) = plan else { return Ok(None) };
        let mut result = Datum::Null;
        self.run_plan(&plan, Arc::from([value]), &mut |row| {
            result = row.first().cloned().unwrap_or_default();
            Ok(())
        })?;
        Ok(Some(result))
    }

    /// The SQL function ready to run.
    fn sql_function(&self, proc: &Arc<Proc>, argument_types: &[Oid]) -> Result<Rc<SqlFunction>> {
        let key = (proc.oid, argument_types.to_vec());
        if let Some(kept) = self.functions.borrow().sql.get(&key)
            && (Arc::ptr_eq(&kept.proc, proc)
                || kept.proc.source == proc.source && kept.proc.sql_body == proc.sql_body)
        {
            return Ok(Rc::clone(kept));
        }
        let text: &str = proc.sql_body.as_deref().unwrap_or(&proc.source);
        let statements = cairn_analyze::parse(text).map_err(|error| in_body(error, text))?;
        let names = modes(proc)
            .iter()
            .enumerate()
            .filter(|(_, mode)| is_input(**mode))
            .map(|(index, _)| name_of(proc, index))
            .collect();
        // Polymorphic arguments have the types of the call.
        let types = proc
            .arg_types
            .iter()
            .enumerate()
            .map(|(index, declared)| {
                self.type_ref(argument_types.get(index).copied().unwrap_or(*declared), -1)
            })
            .collect();
        let function = Rc::new(SqlFunction {
            proc: Arc::clone(proc),
            statements: statements
                .into_iter()
                .map(|raw| SqlStatement { raw: Arc::new(raw), compiled: RefCell::new(None) })
                .collect(),
            arguments: Arguments { function: proc.name.to_string(), names, types },
        });
        let mut cache = self.functions.borrow_mut();
        if cache.sql.len() >= CACHED_MAX {
            cache.sql.clear();
        }
        cache.sql.insert(key, Rc::clone(&function));
        Ok(function)
    }

    /// Runs a SQL function; `sink` gets the rows of its last statement, as far as it returns some.
    fn run_sql_function(
        &self,
        function: &SqlFunction,
        args: &[Datum],
        sink: &mut dyn FnMut(&[TypeRef], &[Datum]) -> Result<bool>,
    ) -> Result<()> {
        let proc = &function.proc;
        let params: Arc<[Datum]> = args.into();
        let last = function.statements.len().saturating_sub(1);
        let volatile = proc.volatility == Volatility::Volatile;
        let snapshot = if volatile { None } else { self.snapshots.borrow().last().copied() };
        let _reading = self.read_at(snapshot);
        for (index, statement) in function.statements.iter().enumerate() {
            let text = &statement.raw.source;
            let located = |error: Error| in_body(error, text);
            let mut compile = || -> Result<Rc<Compiled>> {
                if let Some(kept) = &*statement.compiled.borrow()
                    && kept.is_current(self)?
                {
                    return Ok(Rc::clone(kept));
                }
                let fresh =
                    Rc::new(Compiled::new(self, &statement.raw, Parameters::Resolver(&function.arguments))?);
                *statement.compiled.borrow_mut() = Some(Rc::clone(&fresh));
                Ok(fresh)
            };
            let compiled = compile().map_err(located)?;
            let compiled = self.prepare_to_run(compiled, &mut compile).map_err(located)?;
            self.sql_function_at.set(match function.is_expression() {
                true => FunctionStage::Inlined,
                false => FunctionStage::Statement(index + 1),
            });
            match &compiled.kind {
                Kind::Plan(_) => {
                    let plan = &compiled.plan_for(self, &params).map_err(located)?;
                    if !volatile {
                        self.forbid_changes(plan)?;
                    }
                    let columns: Vec<TypeRef> = match &compiled.columns {
                        Some(columns) if index == last => columns.iter().map(|column| column.ty).collect(),
                        _ => Vec::new(),
                    };
                    let mut wanted = index == last && compiled.columns.is_some();
                    let mut each = |row: &[Datum]| {
                        if wanted {
                            wanted = sink(&columns, row)?;
                        }
                        Ok(())
                    };
                    match snapshot {
                        Some(snapshot) => {
                            self.run_plan_at(plan, Arc::clone(&params), snapshot, &mut each)?;
                        }
                        None => {
                            let transaction = self.transaction()?;
                            if transaction.has_writes() {
                                transaction.advance_command();
                            }
                            self.run_plan(plan, Arc::clone(&params), &mut each)?;
                        }
                    }
                }
                Kind::Call(call) => {
                    call.run(&self.rc(), Arc::clone(&params), true)?;
                }
                Kind::Utility(statement, raw) => {
                    let core = self.rc();
                    let mut invocation = Invocation::new(&core, raw, true);
                    invocation.top_level = false;
                    invocation.params = Arc::clone(&params);
                    utility::run(&mut invocation, statement)?;
                }
            }
        }
        Ok(())
    }

    /// The result of a call from the first row that it gave.
    fn function_value(
        &self,
        proc: &Proc,
        info: &CallInfo<'_>,
        columns: &[TypeRef],
        row: &[Datum],
    ) -> Result<Datum> {
        let target = self.type_ref(result_type(proc, info), -1);
        let fields = self.result_fields(proc, info);
        match fields {
            Some(fields) => {
                // One column of the right row type is the result itself, but never a procedure's: that has a column for
                // each output, even if there is only one.
                if let ([column], [value]) = (columns, row)
                    && proc.kind != ProcKind::Procedure
                    && (column.oid == target.oid || matches!(value, Datum::Record(_)) && fields.len() != 1)
                {
                    return Ok(value.clone());
                }
                let values = self.convert_row(proc, &fields, columns, row)?;
                Ok(Datum::Record(Arc::new(Record { type_oid: target.oid, fields, values })))
            }
            None => {
                let value = row.first().cloned().unwrap_or_default();
                let from = columns.first().copied().unwrap_or(target);
                self.cast_assigned(value, from, target)?.ok_or_else(|| self.mismatch(proc, target.oid))
            }
        }
    }

    fn mismatch(&self, proc: &Proc, result: Oid) -> Error {
        err!(
            INVALID_FUNCTION_DEFINITION,
            "return type mismatch in function declared to return {}",
            crate::names::format_type(self, result, -1)
        )
        .context(format!("SQL function \"{}\"", proc.name))
    }

    fn convert_row(
        &self,
        proc: &Proc,
        fields: &[RecordField],
        columns: &[TypeRef],
        row: &[Datum],
    ) -> Result<Row> {
        if row.len() != fields.len() {
            return Err(self.mismatch(proc, proc.return_type));
        }
        let mut values = Vec::with_capacity(row.len());
        for ((value, from), field) in row.iter().zip(columns).zip(fields) {
            let to = self.type_ref(field.type_oid, field.typmod);
            let value = self.cast_assigned(value.clone(), *from, to)?;
            values.push(value.ok_or_else(|| self.mismatch(proc, proc.return_type))?);
        }
        Ok(values)
    }

    /// Columns of a function that returns a row: OUT arguments, a composite type, a column definition list.
    fn result_fields(&self, proc: &Proc, info: &CallInfo<'_>) -> Option<Arc<[RecordField]>> {
        if !info.columns.is_empty() {
            return Some(info.columns.into());
        }
        let outputs: Vec<RecordField> = modes(proc)
            .iter()
            .enumerate()
            .filter(|(_, mode)| is_output(**mode))
            .map(|(index, _)| RecordField {
                name: name_of(proc, index).into(),
                type_oid: all_types(proc).get(index).copied().unwrap_or(0),
                typmod: -1,
            })
            .collect();
        let many = outputs.len() > 1 || proc.kind == ProcKind::Procedure && !outputs.is_empty();
        if many {
            return Some(outputs.into());
        }
        let catalog = self.catalog().ok()?;
        let ty = catalog.type_by_oid(catalog.base_type(result_type(proc, info)))?;
        (ty.kind == TypeKind::Composite).then(|| crate::names::composite_fields(&catalog, ty.oid)).flatten()
    }

    /// Runs inside the function's own settings and rights; what they changed is taken back.
    fn inside_function<R>(&self, proc: &Proc, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.atomic_depth.set(self.atomic_depth.get() + 1);
        let stage_outside = self.sql_function_at.replace(FunctionStage::Startup);
        let user = proc.security_definer.then(|| self.user());
        let mark = (!proc.config.is_empty()).then(|| self.with_settings(|settings| settings.mark()));
        let result = (|| {
            if user.is_some() {
                self.definer_depth.set(self.definer_depth.get() + 1);
                if let Some(owner) = self.roles().role(proc.owner) {
                    let (name, superuser) = (owner.name.clone(), owner.superuser);
                    self.set_user(crate::core::User { oid: proc.owner, name, superuser });
                }
            }
            for (name, value) in &proc.config {
                self.set_config(name, value, true)?;
            }
            work()
        })();
        if let Some(mark) = mark {
            self.with_settings(|settings| settings.undo_to(mark));
        }
        if let Some(user) = user {
            self.definer_depth.set(self.definer_depth.get() - 1);
            self.set_user(user);
        }
        self.atomic_depth.set(self.atomic_depth.get() - 1);
        let stage = self.sql_function_at.replace(stage_outside);
        result.map_err(|error| match (proc.language, stage) {
            // Endless recursion has thousands of these, all alike.
            _ if error.report().context.len() >= CONTEXT_LINES_MAX => error,
            (languages::SQL, FunctionStage::Startup) => {
                error.context(format!("SQL function \"{}\" during startup", proc.name))
            }
            (languages::SQL, FunctionStage::Statement(number)) => {
                error.context(format!("SQL function \"{}\" statement {number}", proc.name))
            }
            _ => error,
        })
    }

    /// Calls a function or procedure of a language that runs here: rows of its result, converted to the declared types.
    fn call_routine(
        &self,
        proc: &Arc<Proc>,
        args: &[Datum],
        info: &CallInfo<'_>,
        set: bool,
    ) -> Result<(Datum, Vec<Row>)> {
        match proc.language {
            languages::SQL => {
                let function = self.sql_function(proc, info.arg_types)?;
                if result_type(proc, info) == types::VOID && !set {
                    self.run_sql_function(&function, args, &mut |_, _| Ok(false))?;
                    return Ok((Datum::Null, Vec::new()));
                }
                if set {
                    let fields = self.result_fields(proc, info);
                    let mut rows = Vec::new();
                    self.run_sql_function(&function, args, &mut |columns, row| {
                        rows.push(match (&fields, columns, row) {
                            (Some(_), [_], [Datum::Record(record)]) => record.values.clone(),
                            (Some(fields), _, _) => self.convert_row(proc, fields, columns, row)?,
                            (None, _, _) => vec![self.function_value(proc, info, columns, row)?],
                        });
                        Ok(true)
                    })?;
                    return Ok((Datum::Null, rows));
                }
                let mut value = None;
                self.run_sql_function(&function, args, &mut |columns, row| {
                    value = Some(self.function_value(proc, info, columns, row)?);
                    Ok(false)
                })?;
                Ok((value.unwrap_or_default(), Vec::new()))
            }
            languages::PLPGSQL => {
                let routine = self.plpgsql_routine(proc, info)?;
                // A slot for each argument, OUT ones included.
                let mut given = args.iter();
                let slots: Vec<Datum> = modes(proc)
                    .iter()
                    .map(|mode| {
                        if is_input(*mode) { given.next().cloned().unwrap_or_default() } else { Datum::Null }
                    })
                    .collect();
                let outside = self.reads_as_caller.replace(proc.volatility != Volatility::Volatile);
                let outcome = routine.call(self, &slots);
                self.reads_as_caller.set(outside);
                let outcome = outcome?;
                Ok((outcome.value, outcome.rows))
            }
            other => {
                let name =
                    self.catalog()?.language_name(other).map(|name| name.to_string()).unwrap_or_default();
                Err(Error::unsupported(format!("functions in language {name} are")))
            }
        }
    }

    fn plpgsql_routine(
        &self,
        proc: &Arc<Proc>,
        info: &CallInfo<'_>,
    ) -> Result<Rc<plpgsql::interpreter::Routine>> {
        let version = self.catalog()?.version();
        let key = (proc.oid, info.arg_types.to_vec());
        if let Some((of, kept)) = self.functions.borrow().plpgsql.get(&key)
            && *of == version
        {
            return Ok(Rc::clone(kept));
        }
        let routine = Rc::new(self.compile_plpgsql(proc, info, None)?);
        let mut cache = self.functions.borrow_mut();
        if cache.plpgsql.len() >= CACHED_MAX {
            cache.plpgsql.clear();
        }
        cache.plpgsql.insert(key, (version, Rc::clone(&routine)));
        Ok(routine)
    }

    /// CREATE FUNCTION: whether the body can be read at all.
    pub(crate) fn check_function(&self, proc: &Arc<Proc>, warn: &dyn Fn(Error)) -> Result<()> {
        let info = CallInfo {
            arg_types: &proc.arg_types,
            result_type: proc.return_type,
            collation: 0,
            columns: &[],
            variadic: false,
        };
        let polymorphic = proc.arg_types.iter().any(|oid| {
            self.catalog()
                .is_ok_and(|catalog| catalog.type_by_oid(*oid).is_some_and(|ty| ty.kind == TypeKind::Pseudo))
        });
        match proc.language {
            languages::SQL => {
                let function = self.sql_function(proc, &proc.arg_types)?;
                for statement in &function.statements {
                    // Polymorphic bodies are checked when they are called.
                    if !polymorphic {
                        let parameters = Parameters::Resolver(&function.arguments);
                        let compiled =
                            Compiled::for_purpose(self, &statement.raw, parameters, Purpose::Prepared)
                                .map_err(|error| in_body(error, &statement.raw.source))?;
                        *statement.compiled.borrow_mut() = Some(Rc::new(compiled));
                    }
                }
                if polymorphic { Ok(()) } else { self.check_result(&function, &info) }
            }
            languages::PLPGSQL => self.compile_plpgsql(proc, &info, Some(warn)).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Whether the last statement of a SQL function gives what the function is declared to return.
    fn check_result(&self, function: &SqlFunction, info: &CallInfo<'_>) -> Result<()> {
        let proc = &function.proc;
        let result = proc.return_type;
        let is_pseudo = self
            .catalog()?
            .type_by_oid(result)
            .is_some_and(|ty| ty.kind == TypeKind::Pseudo && result != types::RECORD);
        if is_pseudo || proc.kind == ProcKind::Procedure {
            return Ok(());
        }
        let mismatch = |detail: String| Err(self.mismatch(proc, result).detail(detail));
        let last = function.statements.last().and_then(|statement| statement.compiled.borrow().clone());
        let Some(columns) = last.and_then(|compiled| compiled.columns.clone()) else {
            return mismatch(
                "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.".to_owned(),
            );
        };
        if self.result_fields(proc, info).is_some() || result == types::RECORD {
            return Ok(());
        }
        let [column] = &*columns else {
            return mismatch("Final statement must return exactly one column.".to_owned());
        };
        let target = self.type_ref(result, -1);
        let way = self.with_analyzer(Parameters::None, |context| {
            cairn_analyze::coercion_expression(column.ty, target, Coercion::Assignment, context)
        })?;
        if way.is_none() && column.ty.oid != result {
            let actual = crate::names::format_type(self, column.ty.oid, -1);
            return mismatch(format!("Actual return type is {actual}."));
        }
        Ok(())
    }

    /// The body of a function; `creating`: with the checks that are made once, and where their warnings go.
    fn compile_plpgsql(
        &self,
        proc: &Arc<Proc>,
        info: &CallInfo<'_>,
        creating: Option<&dyn Fn(Error)>,
    ) -> Result<plpgsql::interpreter::Routine> {
        use plpgsql::ast::ResultKind;
        use plpgsql::interpreter::{Returns, Routine};
        let declared = all_types(proc);
        let modes = modes(proc);
        let mut input = 0;
        let mut parameter_types = Vec::with_capacity(declared.len());
        let mut parameters = Vec::with_capacity(declared.len());
        for (index, (ty, mode)) in declared.iter().zip(&modes).enumerate() {
            let actual = if is_input(*mode) {
                input += 1;
                info.arg_types.get(input - 1).copied().unwrap_or(*ty)
            } else {
                *ty
            };
            parameter_types.push(self.type_ref(actual, -1));
            let name = name_of(proc, index);
            parameters
                .push(((!name.is_empty()).then_some(name), crate::names::format_type(self, actual, -1)));
        }
        let output_slots: Vec<usize> =
            modes.iter().enumerate().filter(|(_, mode)| is_output(**mode)).map(|(index, _)| index).collect();
        let result = self.type_ref(result_type(proc, info), -1);
        let result_kind = match (proc.returns_set, output_slots.is_empty()) {
            (true, inputs_only) => ResultKind::Set { outputs: !inputs_only },
            _ if proc.kind == cairn_catalog::ProcKind::Procedure => ResultKind::Procedure,
            _ if result.oid == types::VOID => ResultKind::Void,
            (false, false) => ResultKind::Outputs,
            (false, true) => ResultKind::Value,
        };
        let returns = match (proc.returns_set, output_slots.is_empty()) {
            (true, true) => Returns::Set(result),
            (true, false) => Returns::Table {
                columns: output_slots.iter().map(|slot| parameter_types[*slot]).collect(),
                slots: output_slots,
            },
            (false, true) if result.oid == types::VOID || proc.kind == ProcKind::Procedure => Returns::Void,
            (false, true) => Returns::Value(result),
            (false, false) => Returns::Outputs {
                as_row: proc.kind == ProcKind::Procedure || output_slots.len() > 1,
                slots: output_slots,
                ty: result,
            },
        };
        let mut shadowed = |error: Error| {
            let Some(warn) = creating else { return Ok(()) };
            match plpgsql::check_level(self, "shadowed_variables") {
                Some(Severity::Error) => return Err(error),
                Some(severity) => {
                    let mut warning = in_body(error, &proc.source);
                    warning.report_mut().severity = severity;
                    warn(warning);
                }
                None => {}
            }
            Ok(())
        };
        let function =
            plpgsql::parse::parse(&proc.source, &proc.name, &parameters, result_kind, &mut shadowed)
                .map_err(|error| in_body(error, &proc.source))
                .map_err(|error| {
                    error.context(format!("compilation of PL/pgSQL function \"{}\"", proc.name))
                })?;
        let signature = format!("{}({})", proc.name, crate::names::proc_signature(self, proc));
        Routine::new(self, signature, function, &parameter_types, returns)
    }
}

/// The type that a call gives: the declared one, unless that is polymorphic.
fn result_type(proc: &Proc, info: &CallInfo<'_>) -> Oid {
    if info.result_type != 0 { info.result_type } else { proc.return_type }
}

/// `Expr::TestValue` becomes `$1`.
fn replace_test_value(expression: &mut Expr) {
    cairn_analyze::walk::deep_mut(expression, 0, &mut |expr, _| {
        if let Expr::TestValue { ty } = expr {
            *expr = Expr::Param { number: 1, ty: *ty, location: -1 };
        }
    });
}

/// An error inside a function's body points into the body.
fn in_body(mut error: Error, text: &str) -> Error {
    let report = error.report_mut();
    if report.internal_query.is_none() && report.location.is_some() {
        report.internal_query = Some(text.to_owned());
    }
    error
}

impl FunctionRunner for Core {
    fn call(
        &self,
        _: &ExecContext<'_>,
        proc: &Arc<Proc>,
        args: &[Datum],
        info: &CallInfo<'_>,
    ) -> Result<Datum> {
        self.inside_function(proc, || Ok(self.call_routine(proc, args, info, false)?.0))
    }

    fn call_set(
        &self,
        _: &ExecContext<'_>,
        proc: &Arc<Proc>,
        args: &[Datum],
        info: &CallInfo<'_>,
    ) -> Result<Box<dyn RowStream>> {
        let (_, rows) = self.inside_function(proc, || self.call_routine(proc, args, info, true))?;
        Ok(Rows::boxed(rows))
    }

    fn system_rows(&self, _: &ExecContext<'_>, relation: Oid) -> Result<Option<Vec<Arc<[Datum]>>>> {
        use cairn_catalog::SharedCatalogs;
        let shared = cairn_catalog::system_table::system_table(relation).is_some_and(|table| table.shared);
        Ok(shared.then(|| self.instance.shared().rows(relation)))
    }

    fn cursor_position(&self, cursor: &str, table: Oid) -> Result<Option<Vec<u8>>> {
        crate::cursors::position(self, cursor, table)
    }
}

/// A CALL whose procedure is known and whose arguments are planned: clients send the same one again and again.
pub struct PreparedCall {
    procedure: Oid,
    /// Gives the input arguments in one row; `None`: there are none.
    arguments: Option<Arc<Plan>>,
    argument_types: Vec<Oid>,
    outputs: Vec<RecordField>,
    /// What a client is told about the outputs; `None`: there are none.
    columns: Option<Arc<[ResultColumn]>>,
}

impl PreparedCall {
    pub fn new(core: &Core, call: &Call, purpose: Purpose) -> Result<Self> {
        let arguments = match call.args.is_empty() {
            true => None,
            false => Some(Arc::new(utility::plan_of(core, call.args.clone(), purpose)?)),
        };
        let output = |(name, ty): &(Text, TypeRef)| RecordField {
            name: name.clone(),
            type_oid: ty.oid,
            typmod: ty.typmod,
        };
        let catalog = core.catalog()?;
        let column = |(name, ty): &(Text, TypeRef)| ResultColumn {
            name: name.clone(),
            ty: *ty,
            type_length: crate::statement::type_length(&catalog, ty.oid),
            origin_table: 0,
            origin_column: 0,
        };
        Ok(PreparedCall {
            procedure: call.procedure,
            arguments,
            argument_types: call.args.iter().map(|arg| cairn_analyze::expr_type(arg).oid).collect(),
            outputs: call.outputs.iter().map(output).collect(),
            columns: (!call.outputs.is_empty()).then(|| call.outputs.iter().map(column).collect()),
        })
    }

    pub fn columns(&self) -> Option<&Arc<[ResultColumn]>> {
        self.columns.as_ref()
    }

    /// Calls the procedure. `atomic`: it may not end the transaction, because something runs around it.
    pub fn run(&self, core: &Rc<Core>, params: Arc<[Datum]>, atomic: bool) -> Result<Outcome> {
        core.start_implicit();
        core.ensure_transaction()?;
        let args = match &self.arguments {
            Some(plan) => utility::only_row(core, plan, params)?,
            None => Vec::new(),
        };
        let catalog = core.catalog()?;
        let proc = catalog
            .proc(self.procedure)
            .ok_or_else(|| Error::internal(format!("cache lookup failed for function {}", self.procedure)))?;
        if !core.is_superuser() {
            core.rights()?.require(core.user_oid(), ObjectKind::Function, proc.oid, acl::EXECUTE)?;
        }
        let info = CallInfo {
            arg_types: &self.argument_types,
            result_type: if self.outputs.is_empty() { types::VOID } else { types::RECORD },
            collation: 0,
            columns: &self.outputs,
            variadic: false,
        };
        let depth = core.atomic_depth.get();
        core.atomic_depth.set(if atomic { depth + 1 } else { depth });
        let result = if proc.config.is_empty() && !proc.security_definer {
            core.call_routine(proc, &args, &info, false)
        } else {
            core.inside_function(proc, || core.call_routine(proc, &args, &info, false))
        };
        core.atomic_depth.set(depth);
        let (value, _) = result?;
        let rows = match (self.outputs.len(), value) {
            (0, _) => Vec::new(),
            (_, Datum::Record(record)) => vec![record.values.clone()],
            (count, Datum::Null) => vec![vec![Datum::Null; count]],
            (_, value) => vec![vec![value]],
        };
        Ok(Outcome { tag: "CALL".into(), columns: self.columns.clone(), rows })
    }
}

/// DO.
pub fn do_statement(invocation: &Invocation<'_>, statement: &protobuf::DoStmt) -> Result<Outcome> {
    let core = invocation.core;
    let (mut body, mut language) = (None, "plpgsql".to_owned());
    for node in &statement.args {
        let Some(NodeEnum::DefElem(element)) = &node.node else { continue };
        let Some(NodeEnum::String(text)) = element.arg.as_ref().and_then(|node| node.node.as_ref()) else {
            continue;
        };
        match element.defname.as_str() {
            "as" => body = Some(text.sval.clone()),
            _ => language.clone_from(&text.sval),
        }
    }
    let body = body.ok_or_else(|| err!(SYNTAX_ERROR, "no inline code specified"))?;
    match core.catalog()?.language_by_name(&language) {
        Some(languages::PLPGSQL) => {}
        Some(_) => {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "language \"{language}\" does not support inline code execution"
            ));
        }
        None => return Err(err!(UNDEFINED_OBJECT, "language \"{language}\" does not exist")),
    }
    core.ensure_transaction()?;
    let void = plpgsql::ast::ResultKind::Void;
    let function = plpgsql::parse::parse(&body, "inline_code_block", &[], void, &mut |_| Ok(()))
        .map_err(|error| in_body(error, &body))
        .map_err(|error| error.context("compilation of PL/pgSQL function \"inline_code_block\""))
        .map_err(|error| crate::definition::into_statement(error, &body, &invocation.raw.source))?;
    let routine = plpgsql::interpreter::Routine::new(
        &**core,
        "inline_code_block".to_owned(),
        function,
        &[],
        plpgsql::interpreter::Returns::Void,
    )?;
    let depth = core.atomic_depth.get();
    let atomic = invocation.in_block || !invocation.top_level;
    core.atomic_depth.set(if atomic { depth + 1 } else { depth });
    let outside = core.reads_as_caller.replace(false);
    let result = routine.call(&**core, &[]);
    core.reads_as_caller.set(outside);
    core.atomic_depth.set(depth);
    result?;
    Ok(Outcome::tag("DO"))
}
