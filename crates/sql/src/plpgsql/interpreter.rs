//! Runs a PL/pgSQL tree.
//!
//! A variable is a slot in the frame with a type; a SQL fragment sees the variables of its scope as parameters, numbered in the
//! order in which it first names them. What a fragment was prepared as is kept in [`Routine`], for all calls, as long as
//! the types of its parameters (records change theirs) and the catalog stay as they were.
//!
//! Errors get a line of CONTEXT for every function that they pass, as in PostgreSQL.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use cairn_analyze::{NameConflict, ParamResolver};
use cairn_catalog::TypeRef;
use cairn_types::{
    Array, Datum, Error, Record, RecordField, Result, Row, Severity, SqlState, Text, bail, err, sqlstate,
    types,
};
use parking_lot::Mutex;

use super::ast::*;
use super::parse::{lookup, lookup_qualified};
use crate::settings::value::parse_bool;

use super::spi::{Column, CursorMove, FragmentKind, Prepared, RowSource, Spi};

/// A function, procedure or DO block ready to be called.
pub struct Routine {
    /// `f(integer)`, or `inline_code_block`.
    pub signature: String,
    pub function: Function,
    pub returns: Returns,
    /// Resolved types by slot; records have `types::RECORD`.
    types: Vec<TypeRef>,
    fragments: Vec<Mutex<Option<Arc<PreparedFragment>>>>,
    /// Errors of INTO STRICT show the statement's parameters.
    print_strict_params: bool,
}

/// What a call gives back.
#[derive(Clone, Debug)]
pub enum Returns {
    Void,
    Value(TypeRef),
    /// OUT parameters: their slots make the result.
    Outputs {
        slots: Vec<Slot>,
        /// Of a procedure, or if there are several: a record with a field for each.
        as_row: bool,
        ty: TypeRef,
    },
    /// Rows of a scalar or composite type.
    Set(TypeRef),
    /// RETURNS TABLE and SETOF with OUT parameters: RETURN NEXT takes the slots' values.
    Table {
        slots: Vec<Slot>,
        columns: Vec<TypeRef>,
    },
}

/// What a call gave.
pub struct Outcome {
    pub value: Datum,
    /// Of a set-returning function: one value for a scalar type, one for each column otherwise.
    pub rows: Vec<Row>,
}

struct PreparedFragment {
    prepared: Arc<dyn Prepared>,
    params: Vec<ParamSource>,
    types: Vec<TypeRef>,
    /// Which of the parameters the text names.
    used: Vec<usize>,
}

/// The values of EXECUTE ... USING.
struct DynamicValues {
    datums: Arc<[Datum]>,
    types: Vec<TypeRef>,
}

/// What to do with the rows of a statement.
struct Run<'a> {
    into: Option<&'a Into>,
    needs_destination: bool,
    call: bool,
    dynamic: bool,
    /// What `print_strict_params` shows.
    parameters: Option<String>,
}

/// Where a fragment's parameter comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamSource {
    slot: Slot,
    field: Option<String>,
}

const RECORD: TypeRef = TypeRef { oid: types::RECORD, typmod: -1, collation: 0 };

fn plain(oid: u32) -> TypeRef {
    TypeRef { oid, typmod: -1, collation: 0 }
}

impl Routine {
    /// Resolves the declared types; `parameters` are those of the function's arguments, in slot order.
    pub fn new(
        spi: &dyn Spi,
        signature: String,
        function: Function,
        parameters: &[TypeRef],
        returns: Returns,
    ) -> Result<Routine> {
        let mut resolved = Vec::with_capacity(function.variables.len());
        for (slot, variable) in function.variables.iter().enumerate() {
            let ty = match (&variable.kind, parameters.get(slot)) {
                (_, Some(ty)) => *ty,
                (VariableKind::Typed(name), None) => spi.parse_type(name)?,
                (VariableKind::Record, None) => RECORD,
                (VariableKind::Cursor(_), None) => plain(types::REFCURSOR),
                (VariableKind::Untyped, None) => plain(types::UNKNOWN),
                (VariableKind::Text, None) => {
                    TypeRef { collation: cairn_types::oid::collations::DEFAULT, ..plain(types::TEXT) }
                }
                (VariableKind::Integer, None) => plain(types::INT4),
                (VariableKind::Boolean, None) => plain(types::BOOL),
            };
            resolved.push(ty);
        }
        let fragments = (0..function.fragment_count).map(|_| Mutex::new(None)).collect();
        let print_strict_params = function.print_strict_params.unwrap_or_else(|| {
            spi.env()
                .setting("plpgsql.print_strict_params")
                .is_some_and(|value| parse_bool(&value) == Some(true))
        });
        Ok(Routine { signature, function, returns, types: resolved, fragments, print_strict_params })
    }

    /// Calls it. The arguments have the parameters' types.
    pub fn call(&self, spi: &dyn Spi, args: &[Datum]) -> Result<Outcome> {
        let mut values = vec![Datum::Null; self.types.len()];
        for (value, arg) in values.iter_mut().zip(args) {
            *value = arg.clone();
        }
        let mut frame = Frame {
            routine: self,
            spi,
            values,
            types: self.types.clone(),
            value: None,
            rows: Vec::new(),
            row_count: 0,
            handled: Vec::new(),
        };
        frame.set_found(false);
        let flow = frame
            .block(&self.function.block)
            .map_err(|error| frame.add_context_of_block(error, &self.function.block))?;
        frame.finish(flow)
    }
}

/// One call.
struct Frame<'a> {
    routine: &'a Routine,
    spi: &'a dyn Spi,
    values: Vec<Datum>,
    types: Vec<TypeRef>,
    /// What RETURN gave, with its type.
    value: Option<(Datum, TypeRef)>,
    rows: Vec<Row>,
    row_count: u64,
    /// Errors whose handlers are running, innermost last.
    handled: Vec<Error>,
}

/// How a statement ended.
enum Flow {
    Next,
    Exit(Option<String>),
    Continue(Option<String>),
    Return,
}

impl Frame<'_> {
    fn finish(mut self, flow: Flow) -> Result<Outcome> {
        let signature = &self.routine.signature;
        let value = match (&self.routine.returns, self.value.take()) {
            (Returns::Void | Returns::Set(_) | Returns::Table { .. }, _) => Datum::Null,
            (Returns::Outputs { slots, as_row: true, ty }, _) => self.outputs(slots, *ty),
            (Returns::Outputs { slots, .. }, _) => slots.first().map_or(Datum::Null, |slot| self.get(*slot)),
            (Returns::Value(ty), Some((value, source))) => {
                self.returned(value, source, *ty).map_err(|error| {
                    error.context(format!(
                        "PL/pgSQL function {signature} while casting return value to function's return type"
                    ))
                })?
            }
            (Returns::Value(_), None) if matches!(flow, Flow::Return) => Datum::Null,
            (Returns::Value(_), None) => {
                let message = "control reached end of function without RETURN";
                let error = err!(FUNCTION_EXECUTED_NO_RETURN_STATEMENT, "{message}");
                return Err(error.context(format!("PL/pgSQL function {signature}")));
            }
        };
        Ok(Outcome { value, rows: self.rows })
    }

    /// The value of RETURN as the function's type. Rows of other types must have the very columns of that type.
    fn returned(&self, value: Datum, source: TypeRef, ty: TypeRef) -> Result<Datum> {
        match &value {
            Datum::Record(record) if ty.oid != types::RECORD && source.oid != ty.oid => {
                let Some(fields) = self.spi.composite_fields(ty.oid) else {
                    return self.spi.cast(value, source, ty);
                };
                let message = "returned record type does not match expected record type";
                let found = record.fields.iter().map(|field| (field.type_oid, field.typmod));
                self.check_columns(message, found, &fields)?;
                let (type_oid, values) = (ty.oid, record.values.clone());
                Ok(Datum::Record(Arc::new(Record { type_oid, fields, values })))
            }
            _ => self.spi.cast(value, source, ty),
        }
    }

    /// 42804 unless columns, given by their types and modifiers, are those of `wanted`.
    fn check_columns(
        &self,
        message: &str,
        found: impl ExactSizeIterator<Item = (u32, i32)>,
        wanted: &[RecordField],
    ) -> Result<()> {
        let (count, expected) = (found.len(), wanted.len());
        if count != expected {
            return Err(err!(DATATYPE_MISMATCH, "{message}").detail(format!(
                "Number of returned columns ({count}) does not match expected column count ({expected})."
            )));
        }
        for (index, ((oid, typmod), wanted)) in found.zip(wanted).enumerate() {
            if oid == wanted.type_oid && (wanted.typmod < 0 || typmod == wanted.typmod) {
                continue;
            }
            let env = self.spi.env();
            let (found, expected) =
                (env.format_type(oid, typmod), env.format_type(wanted.type_oid, wanted.typmod));
            let column = index + 1;
            return Err(err!(DATATYPE_MISMATCH, "{message}").detail(format!(
                "Returned type {found} does not match expected type {expected} in column {column}."
            )));
        }
        Ok(())
    }

    /// Whether values of the type are rows.
    fn is_row_type(&self, oid: u32) -> bool {
        oid == types::RECORD || self.spi.composite_fields(oid).is_some()
    }

    fn outputs(&self, slots: &[Slot], ty: TypeRef) -> Datum {
        let fields = slots.iter().map(|slot| RecordField {
            name: self.name(*slot).into(),
            type_oid: self.type_of(*slot).oid,
            typmod: -1,
        });
        let values = slots.iter().map(|slot| self.get(*slot)).collect();
        Datum::Record(Arc::new(Record { type_oid: ty.oid, fields: fields.collect(), values }))
    }

    // Blocks and statements.

    fn block(&mut self, block: &Block) -> Result<Flow> {
        for (slot, default) in &block.declared {
            let value = match default {
                Some(fragment) => {
                    let (value, ty) = self.evaluate(fragment)?;
                    self.coerce(value, ty, *slot)?
                }
                None => self.initial_value(*slot)?,
            };
            self.check_not_null(*slot, &value)?;
            self.set(*slot, value);
        }
        let Some(handlers) = &block.handlers else {
            let flow = self.statements(&block.body)?;
            return Ok(self.leave_labelled(flow, block.label.as_deref()));
        };
        let subtransaction = self.spi.begin_subtransaction()?;
        match self.statements(&block.body) {
            Ok(flow) => {
                self.spi.release_subtransaction(subtransaction)?;
                Ok(self.leave_labelled(flow, block.label.as_deref()))
            }
            Err(error) => {
                self.spi.rollback_subtransaction(subtransaction)?;
                let Some(handler) = handlers
                    .handlers
                    .iter()
                    .find(|handler| handler.conditions.iter().any(|condition| condition.matches(&error)))
                else {
                    return Err(error);
                };
                self.set(handlers.sqlstate, Datum::text(error.sqlstate().as_str()));
                self.set(handlers.sqlerrm, Datum::text(error.message()));
                self.handled.push(error);
                let flow = self.statements(&handler.body);
                self.handled.pop();
                Ok(self.leave_labelled(flow?, block.label.as_deref()))
            }
        }
    }

    /// EXIT of a labelled block ends there.
    fn leave_labelled(&self, flow: Flow, label: Option<&str>) -> Flow {
        match flow {
            Flow::Exit(Some(name)) if label == Some(name.as_str()) => Flow::Next,
            other => other,
        }
    }

    /// The value on entry of a variable without a default.
    fn initial_value(&self, slot: Slot) -> Result<Datum> {
        match self.variable_kind(slot) {
            // A cursor's portal is called as its variable, unless something else is assigned.
            Some(VariableKind::Cursor(_)) => Ok(Datum::text(self.name(slot))),
            Some(VariableKind::Typed(_)) => {
                // A domain may refuse nulls.
                self.spi.env().check_domain(self.type_of(slot).oid, &Datum::Null)?;
                Ok(Datum::Null)
            }
            _ => Ok(Datum::Null),
        }
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<Flow> {
        for statement in statements {
            self.spi.env().check_interrupts()?;
            let flow = self.statement(statement).map_err(|error| self.add_context(error, statement))?;
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn add_context(&self, error: Error, statement: &Statement) -> Error {
        // The statement inside a block, loop or branch has already said where.
        if error.report().context.iter().any(|line| line.starts_with(&self.context_start())) {
            return error;
        }
        error.context(format!("{}{} at {}", self.context_start(), statement.line, statement.kind.name()))
    }

    fn add_context_of_block(&self, error: Error, block: &Block) -> Error {
        if error.report().context.iter().any(|line| line.starts_with(&self.context_start())) {
            return error;
        }
        error.context(format!(
            "{}{} during statement block local variable initialization",
            self.context_start(),
            block.line
        ))
    }

    fn context_start(&self) -> String {
        format!("PL/pgSQL function {} line ", self.routine.signature)
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow> {
        match &statement.kind {
            StatementKind::Null => {}
            StatementKind::Block(block) => return self.block(block),
            StatementKind::Assign { target, value } => {
                let (value, ty) = self.evaluate(value)?;
                self.assign(target, value, ty)?;
            }
            StatementKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.condition(condition)? {
                        return self.statements(body);
                    }
                }
                return self.statements(otherwise);
            }
            StatementKind::Case { subject, whens, otherwise } => {
                return self.case(subject.as_ref(), whens, otherwise.as_deref());
            }
            StatementKind::Loop { label, body } => {
                return self.repeat(label.as_deref(), body, |_| Ok(true));
            }
            StatementKind::While { label, condition, body } => {
                return self.repeat(label.as_deref(), body, |frame| frame.condition(condition));
            }
            StatementKind::ForInteger { label, variable, reverse, from, to, by, body } => {
                let bounds = IntegerBounds { from, to, by: by.as_ref(), reverse: *reverse };
                return self.for_integer(label.as_deref(), *variable, &bounds, body);
            }
            StatementKind::ForQuery { label, target, query, body } => {
                let source = self.start_rows(query)?;
                return self.for_rows(label.as_deref(), target, source.rows, body);
            }
            StatementKind::ForCursor { label, target, cursor, args, body } => {
                return self.for_cursor(label.as_deref(), *target, *cursor, args.as_ref(), body);
            }
            StatementKind::ForEach { label, target, slice, array, body } => {
                return self.for_each(label.as_deref(), target, *slice, array, body);
            }
            StatementKind::Exit { exit, label, when } => {
                let leave = match when {
                    Some(when) => self.condition(when)?,
                    None => true,
                };
                if leave {
                    return Ok(if *exit { Flow::Exit(label.clone()) } else { Flow::Continue(label.clone()) });
                }
            }
            StatementKind::Return(value) => {
                self.return_value(value.as_ref())?;
                return Ok(Flow::Return);
            }
            StatementKind::ReturnNext(value) => self.return_next(value.as_ref())?,
            StatementKind::ReturnQuery(rows) => self.return_query(rows)?,
            StatementKind::Raise(raise) => self.raise(raise)?,
            StatementKind::Assert { condition, message } => {
                let checked = self.spi.env().setting("plpgsql.check_asserts");
                if checked.and_then(|value| parse_bool(&value)) != Some(false)
                    && !self.condition(condition)?
                {
                    let message = match message {
                        Some(message) => self.text_value(message)?,
                        None => None,
                    };
                    bail!(ASSERT_FAILURE, "{}", message.as_deref().unwrap_or("assertion failed"));
                }
            }
            StatementKind::Sql { statement, perform, into } => {
                let (prepared, values) = self.prepare(statement, FragmentKind::Statement)?;
                let run = Run {
                    into: into.as_ref(),
                    needs_destination: !perform && into.is_none() && !is_call(statement),
                    call: is_call(statement),
                    dynamic: false,
                    parameters: match into {
                        Some(_) => self.shown_parameters(&prepared, &values)?,
                        None => None,
                    },
                };
                let source = self.start_prepared(statement, &prepared, values)?;
                self.run_into(source, &run)?;
            }
            StatementKind::Execute { text, using, into } => {
                let (prepared, values, text) = self.prepare_dynamic(text, using, FragmentKind::Statement)?;
                let parameters = match (into, self.routine.print_strict_params && !using.is_empty()) {
                    (Some(_), true) => {
                        let mut shown = Vec::with_capacity(using.len());
                        for (index, value) in values.datums.iter().enumerate() {
                            let ty = values.types.get(index).copied().unwrap_or(RECORD);
                            shown.push(self.shown_parameter(&format!("${}", index + 1), value, ty)?);
                        }
                        Some(shown.join(", "))
                    }
                    _ => None,
                };
                // Rows of a dynamic statement without INTO are thrown away.
                let found = self.get(self.routine.function.found);
                let run = Run {
                    into: into.as_ref(),
                    needs_destination: false,
                    call: false,
                    dynamic: true,
                    parameters,
                };
                let source = self.start_text(&prepared, values.datums, text)?;
                self.run_into(source, &run)?;
                self.set(self.routine.function.found, found);
            }
            StatementKind::GetDiagnostics { stacked, items } => {
                for (target, item) in items {
                    let (value, ty) = self.diagnostic(*stacked, item, statement.line)?;
                    self.assign(target, value, ty)?;
                }
            }
            StatementKind::Open { cursor, scroll, source } => self.open(*cursor, *scroll, source)?,
            StatementKind::Fetch { cursor, direction, into } => {
                self.fetch(*cursor, direction, into.as_deref())?
            }
            StatementKind::Close { cursor } => {
                let name = self.cursor_name(*cursor)?;
                self.spi.close_cursor(&name)?;
            }
            StatementKind::Commit { chain } => self.spi.end_transaction(true, *chain)?,
            StatementKind::Rollback { chain } => self.spi.end_transaction(false, *chain)?,
        }
        Ok(Flow::Next)
    }

    fn case(
        &mut self,
        subject: Option<&(Slot, Fragment)>,
        whens: &[(Fragment, Vec<Statement>)],
        otherwise: Option<&[Statement]>,
    ) -> Result<Flow> {
        if let Some((slot, value)) = subject {
            let (value, ty) = self.evaluate(value)?;
            if let Some(place) = self.types.get_mut(*slot) {
                *place = ty;
            }
            self.set(*slot, value);
        }
        for (condition, body) in whens {
            if self.condition(condition)? {
                return self.statements(body);
            }
        }
        match otherwise {
            Some(body) => self.statements(body),
            None => Err(err!(CASE_NOT_FOUND, "case not found").hint("CASE statement is missing ELSE part.")),
        }
    }

    // Loops.

    /// Runs a body once; `Some` ends the loop.
    fn pass(&mut self, label: Option<&str>, body: &[Statement]) -> Result<Option<Flow>> {
        let names_this = |name: &Option<String>| name.is_none() || name.as_deref() == label;
        Ok(match self.statements(body)? {
            Flow::Next => None,
            Flow::Continue(name) if names_this(&name) => None,
            Flow::Exit(name) if names_this(&name) => Some(Flow::Next),
            other => Some(other),
        })
    }

    fn repeat(
        &mut self,
        label: Option<&str>,
        body: &[Statement],
        mut go_on: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<Flow> {
        while go_on(self)? {
            self.spi.env().check_interrupts()?;
            if let Some(flow) = self.pass(label, body)? {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn for_integer(
        &mut self,
        label: Option<&str>,
        variable: Slot,
        bounds: &IntegerBounds<'_>,
        body: &[Statement],
    ) -> Result<Flow> {
        let from = self.loop_bound(bounds.from, "lower bound")?;
        let to = self.loop_bound(bounds.to, "upper bound")?;
        let by = match bounds.by {
            Some(by) => self.loop_bound(by, "BY value")?,
            None => 1,
        };
        if by <= 0 {
            bail!(INVALID_PARAMETER_VALUE, "BY value of FOR loop must be greater than zero");
        }
        let mut found = false;
        let mut value = Some(from);
        let mut result = Flow::Next;
        while let Some(current) =
            value.filter(|value| if bounds.reverse { *value >= to } else { *value <= to })
        {
            found = true;
            self.set(variable, Datum::Int4(current));
            if let Some(flow) = self.pass(label, body)? {
                result = flow;
                break;
            }
            value = if bounds.reverse { current.checked_sub(by) } else { current.checked_add(by) };
        }
        self.set_found(found);
        Ok(result)
    }

    fn loop_bound(&mut self, fragment: &Fragment, what: &str) -> Result<i32> {
        let (value, ty) = self.evaluate(fragment)?;
        match self.spi.cast(value, ty, plain(types::INT4))? {
            Datum::Int4(value) => Ok(value),
            _ => Err(err!(NULL_VALUE_NOT_ALLOWED, "{what} of FOR loop cannot be null")),
        }
    }

    fn for_rows(
        &mut self,
        label: Option<&str>,
        target: &[AssignTarget],
        mut source: Box<dyn RowSource>,
        body: &[Statement],
    ) -> Result<Flow> {
        let mut found = false;
        let columns = source.columns().to_vec();
        while let Some(row) = source.next(self.spi)? {
            found = true;
            self.assign_row(target, &columns, Some(row))?;
            if let Some(flow) = self.pass(label, body)? {
                self.set_found(found);
                return Ok(flow);
            }
        }
        if !found {
            self.assign_row(target, &columns, None)?;
        }
        self.set_found(found);
        Ok(Flow::Next)
    }

    fn for_cursor(
        &mut self,
        label: Option<&str>,
        target: Slot,
        cursor: Slot,
        args: Option<&Fragment>,
        body: &[Statement],
    ) -> Result<Flow> {
        let unnamed = self.get(cursor).is_null();
        self.open(cursor, None, &OpenSource::Bound(args.cloned()))?;
        let name = self.cursor_name(cursor)?;
        let target = [AssignTarget { slot: target, path: Vec::new(), text: String::new() }];
        let mut found = false;
        let mut result = Flow::Next;
        loop {
            let (columns, rows) = self.spi.fetch(&name, CursorMove::Forward(1))?;
            let Some(row) = rows.into_iter().next() else { break };
            found = true;
            self.assign_row(&target, &columns, Some(row))?;
            if let Some(flow) = self.pass(label, body)? {
                result = flow;
                break;
            }
        }
        self.spi.close_cursor(&name)?;
        if unnamed {
            self.set(cursor, Datum::Null);
        }
        self.set_found(found);
        Ok(result)
    }

    fn for_each(
        &mut self,
        label: Option<&str>,
        target: &[AssignTarget],
        slice: usize,
        array: &Fragment,
        body: &[Statement],
    ) -> Result<Flow> {
        let (value, ty) = self.evaluate(array)?;
        let array = match value {
            Datum::Array(array) => array,
            Datum::Null => bail!(NULL_VALUE_NOT_ALLOWED, "FOREACH expression must not be null"),
            _ => bail!(
                DATATYPE_MISMATCH,
                "FOREACH expression must yield an array, not type {}",
                self.spi.env().format_type(ty.oid, ty.typmod)
            ),
        };
        let takes_array = match target {
            [target] if target.path.is_empty() => self.array_type(self.type_of(target.slot).oid).is_some(),
            [_] => slice > 0,
            _ => false,
        };
        if slice > 0 && !takes_array {
            bail!(DATATYPE_MISMATCH, "FOREACH ... SLICE loop variable must be of an array type");
        }
        if slice == 0 && takes_array {
            bail!(DATATYPE_MISMATCH, "FOREACH loop variable must not be of an array type");
        }
        if slice > array.dimensions.len() {
            bail!(
                ARRAY_SUBSCRIPT_ERROR,
                "slice dimension ({slice}) is out of the valid range 0..{}",
                array.dimensions.len()
            );
        }
        let element = plain(array.element_type);
        let kept = array.dimensions.len() - slice;
        let width: usize = array.dimensions.iter().skip(kept).map(|dimension| dimension.length).product();
        let mut found = false;
        for part in array.elements.chunks(width.max(1)) {
            found = true;
            if slice == 0 {
                let value = part.first().cloned().unwrap_or_default();
                match (target, value) {
                    ([target], value) => self.assign(target, value, element)?,
                    // Several targets take the fields of a row.
                    (targets, Datum::Record(record)) => {
                        let column = |field: &RecordField| Column {
                            name: field.name.clone(),
                            ty: TypeRef { typmod: field.typmod, ..plain(field.type_oid) },
                        };
                        let columns: Vec<Column> = record.fields.iter().map(column).collect();
                        self.assign_row(targets, &columns, Some(record.values.clone()))?;
                    }
                    (targets, Datum::Null) => self.assign_row(targets, &[], None)?,
                    _ => bail!(DATATYPE_MISMATCH, "cannot assign non-composite value to a row variable"),
                }
            } else if let [target] = target {
                let dimensions = array.dimensions.iter().skip(kept).copied().collect();
                let part = Array { element_type: array.element_type, dimensions, elements: part.to_vec() };
                let ty = self.type_of(target.slot);
                self.assign(target, Datum::Array(Arc::new(part)), ty)?;
            }
            if let Some(flow) = self.pass(label, body)? {
                self.set_found(found);
                return Ok(flow);
            }
        }
        self.set_found(found);
        Ok(Flow::Next)
    }

    // Results.

    /// RETURN; the parser lets only functions of one value give one.
    fn return_value(&mut self, value: Option<&Fragment>) -> Result<()> {
        if let (Returns::Value(ty), Some(fragment)) = (&self.routine.returns, value) {
            let (value, source) = self.evaluate(fragment)?;
            if !value.is_null() && self.is_row_type(ty.oid) && !matches!(value, Datum::Record(_)) {
                bail!(
                    DATATYPE_MISMATCH,
                    "cannot return non-composite value from function returning composite type"
                );
            }
            self.value = Some((value, source));
        }
        Ok(())
    }

    fn return_next(&mut self, value: Option<&Fragment>) -> Result<()> {
        let row = match (&self.routine.returns, value) {
            (Returns::Set(ty), Some(fragment)) => {
                let (value, source) = self.evaluate(fragment)?;
                self.row_of(value, source, *ty)?
            }
            (Returns::Table { slots, .. }, None) => slots.iter().map(|slot| self.get(*slot)).collect(),
            (Returns::Table { .. }, Some(_)) => {
                bail!(
                    DATATYPE_MISMATCH,
                    "RETURN NEXT cannot have a parameter in function with OUT parameters"
                )
            }
            (Returns::Set(_), None) => bail!(SYNTAX_ERROR, "RETURN NEXT must have a parameter"),
            _ => bail!(DATATYPE_MISMATCH, "cannot use RETURN NEXT in a non-SETOF function"),
        };
        self.rows.push(row);
        Ok(())
    }

    /// One result row of a set: the fields of a composite value, or the value itself.
    fn row_of(&self, value: Datum, source: TypeRef, ty: TypeRef) -> Result<Row> {
        if let Datum::Record(record) = &value
            && let Some(fields) = self.spi.composite_fields(ty.oid)
        {
            let cast = |(value, (from, to)): (&Datum, (&RecordField, &RecordField))| {
                self.spi.cast(
                    value.clone(),
                    plain(from.type_oid),
                    TypeRef { typmod: to.typmod, ..plain(to.type_oid) },
                )
            };
            return record.values.iter().zip(record.fields.iter().zip(fields.iter())).map(cast).collect();
        }
        if let (Datum::Record(record), types::RECORD) = (&value, ty.oid) {
            return Ok(record.values.clone());
        }
        Ok(vec![self.spi.cast(value, source, ty)?])
    }

    fn return_query(&mut self, rows: &Rows) -> Result<()> {
        let wanted: Vec<TypeRef> = match &self.routine.returns {
            Returns::Set(ty) => match self.spi.composite_fields(ty.oid) {
                Some(fields) => fields
                    .iter()
                    .map(|field| TypeRef { typmod: field.typmod, ..plain(field.type_oid) })
                    .collect(),
                None if ty.oid == types::RECORD => Vec::new(),
                None => vec![*ty],
            },
            Returns::Table { columns, .. } => columns.clone(),
            _ => bail!(DATATYPE_MISMATCH, "cannot use RETURN QUERY in a non-SETOF function"),
        };
        let mut source = self.start_rows(rows)?;
        let columns = source.rows.columns().to_vec();
        if columns.is_empty() {
            bail!(SYNTAX_ERROR, "cannot use RETURN QUERY with a statement that returns no rows");
        }
        self.check_shape(&columns, &wanted)?;
        let mut count = 0;
        while let Some(row) = source.next(self.spi)? {
            let cast = |(index, value): (usize, Datum)| match (columns.get(index), wanted.get(index)) {
                (Some(column), Some(wanted)) => self.spi.cast(value, column.ty, *wanted),
                _ => Ok(value),
            };
            let row = row.into_iter().enumerate().map(cast).collect::<Result<Row>>()?;
            self.rows.push(row);
            count += 1;
        }
        self.row_count = count;
        self.set_found(count > 0);
        Ok(())
    }

    /// 42804 unless a query's columns are those that the function returns.
    fn check_shape(&self, columns: &[Column], wanted: &[TypeRef]) -> Result<()> {
        if wanted.is_empty() {
            return Ok(());
        }
        let mismatch = || err!(DATATYPE_MISMATCH, "structure of query does not match function result type");
        if columns.len() != wanted.len() {
            let (found, expected) = (columns.len(), wanted.len());
            return Err(mismatch().detail(format!(
                "Number of returned columns ({found}) does not match expected column count ({expected})."
            )));
        }
        for (index, (column, wanted)) in columns.iter().zip(wanted).enumerate() {
            if column.ty.oid != wanted.oid {
                let env = self.spi.env();
                let (found, expected) = (env.format_type(column.ty.oid, -1), env.format_type(wanted.oid, -1));
                return Err(mismatch().detail(format!(
                    "Returned type {found} does not match expected type {expected} in column {}.",
                    index + 1
                )));
            }
        }
        Ok(())
    }

    // SQL.

    /// Prepares a fragment and locks its tables; with the values of its parameters.
    fn prepare(
        &self,
        fragment: &Fragment,
        kind: FragmentKind,
    ) -> Result<(Arc<PreparedFragment>, Vec<Datum>)> {
        // Each round another session's DDL has come in between; it ends when none does.
        loop {
            let (prepared, values) = self.prepare_unlocked(fragment, kind)?;
            let locked = self.spi.lock(&prepared.prepared).map_err(|error| match kind {
                FragmentKind::Statement | FragmentKind::Cursor => {
                    sql_statement_context(error, &fragment.text)
                }
                FragmentKind::Expression => error,
            })?;
            if locked {
                return Ok((prepared, values));
            }
        }
    }

    /// Prepares a fragment, or takes what was prepared before.
    fn prepare_unlocked(
        &self,
        fragment: &Fragment,
        kind: FragmentKind,
    ) -> Result<(Arc<PreparedFragment>, Vec<Datum>)> {
        let Some(cache) = self.routine.fragments.get(fragment.number) else {
            return Err(Error::internal("a fragment has no number of its own"));
        };
        let cached = cache.lock().clone();
        if let Some(cached) = cached.filter(|cached| self.spi.is_current(&cached.prepared)) {
            let (values, types) = self.param_values(&cached.params)?;
            if types == cached.types {
                return Ok((cached, values));
            }
        }
        // The arguments come first, so that `$1` keeps its number.
        let arguments =
            (0..self.routine.function.found).map(|slot| ParamSource { slot, field: None }).collect();
        let resolver = Resolver {
            frame: self,
            scope: fragment.scope,
            visible: fragment.visible,
            params: RefCell::new(arguments),
            used: RefCell::default(),
            error: RefCell::default(),
        };
        let prepared = self.spi.prepare(&fragment.text, kind, &resolver);
        if let Some(error) = resolver.error.take() {
            return Err(error);
        }
        let prepared = prepared.map_err(|error| internal_query(error, &fragment.text))?;
        let (params, used) = (resolver.params.into_inner(), resolver.used.into_inner());
        let (values, types) = self.param_values(&params)?;
        let prepared = Arc::new(PreparedFragment { prepared, params, types, used });
        *cache.lock() = Some(Arc::clone(&prepared));
        Ok((prepared, values))
    }

    fn param_values(&self, params: &[ParamSource]) -> Result<(Vec<Datum>, Vec<TypeRef>)> {
        let mut values = Vec::with_capacity(params.len());
        let mut types = Vec::with_capacity(params.len());
        for param in params {
            let (value, ty) = match &param.field {
                None => (self.get(param.slot), self.type_of(param.slot)),
                Some(field) => self.record_field(param.slot, field)?,
            };
            values.push(value);
            types.push(ty);
        }
        Ok((values, types))
    }

    fn start<'f>(&mut self, fragment: &'f Fragment, kind: FragmentKind) -> Result<Started<'f>> {
        let (prepared, values) = self.prepare(fragment, kind)?;
        self.start_prepared(fragment, &prepared, values)
    }

    fn start_prepared<'f>(
        &self,
        fragment: &'f Fragment,
        prepared: &PreparedFragment,
        values: Vec<Datum>,
    ) -> Result<Started<'f>> {
        let rows = self
            .spi
            .start(&prepared.prepared, values.into())
            .map_err(|error| sql_statement_context(error, &fragment.text))?;
        Ok(Started { rows, text: Cow::Borrowed(&fragment.text) })
    }

    fn start_dynamic(&mut self, text: &Fragment, using: &[Fragment]) -> Result<Started<'static>> {
        let (prepared, params, text) = self.prepare_dynamic(text, using, FragmentKind::Statement)?;
        self.start_text(&prepared, params.datums, text)
    }

    fn start_text(
        &self,
        prepared: &Arc<dyn Prepared>,
        params: Arc<[Datum]>,
        text: Text,
    ) -> Result<Started<'static>> {
        let rows = self.spi.start(prepared, params).map_err(|error| sql_statement_context(error, &text))?;
        Ok(Started { rows, text: Cow::Owned(text.to_string()) })
    }

    /// What `print_strict_params` shows of a statement: the variables that it uses; `None` if that is off.
    fn shown_parameters(&self, prepared: &PreparedFragment, values: &[Datum]) -> Result<Option<String>> {
        if !self.routine.print_strict_params {
            return Ok(None);
        }
        // Variables in the order of their declarations, then fields of records.
        let mut used: Vec<usize> = prepared.used.clone();
        used.sort_by_key(|index| match prepared.params.get(*index) {
            Some(ParamSource { slot, field: None }) => (false, *slot),
            _ => (true, *index),
        });
        let mut shown = Vec::with_capacity(used.len());
        for index in used {
            let (Some(source), Some(ty)) = (prepared.params.get(index), prepared.types.get(index)) else {
                continue;
            };
            let name = source.field.as_deref().unwrap_or(self.name(source.slot));
            let value = values.get(index).unwrap_or(&Datum::Null);
            shown.push(self.shown_parameter(name, value, *ty)?);
        }
        Ok((!shown.is_empty()).then(|| shown.join(", ")))
    }

    fn shown_parameter(&self, name: &str, value: &Datum, ty: TypeRef) -> Result<String> {
        Ok(match self.as_text(value, ty)? {
            Some(text) => format!("{name} = '{}'", text.replace('\'', "''")),
            None => format!("{name} = NULL"),
        })
    }

    fn prepare_dynamic(
        &mut self,
        text: &Fragment,
        using: &[Fragment],
        kind: FragmentKind,
    ) -> Result<(Arc<dyn Prepared>, DynamicValues, Text)> {
        let Some(text) = self.text_value(text)? else {
            bail!(NULL_VALUE_NOT_ALLOWED, "query string argument of EXECUTE is null")
        };
        let mut values = Vec::with_capacity(using.len());
        let mut types = Vec::with_capacity(using.len());
        for fragment in using {
            let (value, ty) = self.evaluate(fragment)?;
            values.push(value);
            types.push(if ty.oid == types::UNKNOWN { plain(types::TEXT) } else { ty });
        }
        loop {
            let prepared = self
                .spi
                .prepare_dynamic(&text, kind, &types)
                .map_err(|error| internal_query(error, &text))?;
            if self.spi.lock(&prepared).map_err(|error| sql_statement_context(error, &text))? {
                return Ok((prepared, DynamicValues { datums: values.into(), types }, text));
            }
        }
    }

    fn start_rows<'f>(&mut self, rows: &'f Rows) -> Result<Started<'f>> {
        match rows {
            Rows::Static(fragment) => self.start(fragment, FragmentKind::Statement),
            Rows::Dynamic { text, using } => self.start_dynamic(text, using),
        }
    }

    /// Runs a statement; the first row goes into the targets. PostgreSQL reads no more rows of a SELECT than INTO needs, unless it
    /// is dynamic, and lets INSERT, UPDATE and DELETE return no second row.
    fn run_into(&mut self, mut source: Started<'_>, run: &Run<'_>) -> Result<()> {
        let columns = source.rows.columns().to_vec();
        if run.needs_destination && !columns.is_empty() {
            return Err(err!(SYNTAX_ERROR, "query has no destination for result data")
                .hint("If you want to discard the results of a SELECT, use PERFORM instead."));
        }
        // How a second row is reported, if at all.
        let too_many = match run.into {
            Some(into) if into.strict || source.rows.changes_rows() && !run.dynamic => Some(Severity::Error),
            Some(_) if !run.dynamic => super::check_level(self.spi.env(), "too_many_rows"),
            _ => None,
        };
        let needed = match run.into {
            Some(_) if too_many.is_some() => 2,
            Some(_) if !run.dynamic => 1,
            _ => u64::MAX,
        };
        let with_parameters = |error: Error| match &run.parameters {
            Some(parameters) => error.detail(format!("parameters: {parameters}")),
            None => error,
        };
        let mut first = None;
        let mut count = 0_u64;
        while count < needed
            && let Some(row) = source.next(self.spi)?
        {
            count += 1;
            first.get_or_insert(row);
        }
        if let Some(severity) = too_many
            && count > 1
        {
            let error = with_parameters(err!(TOO_MANY_ROWS, "query returned more than one row"));
            let hint = "Make sure the query returns a single row, or use LIMIT 1.";
            self.report(if run.dynamic { error } else { error.hint(hint) }, severity)?;
            // What was read beyond the first row counts no more than without the check.
            count = 1;
        }
        self.row_count = source.rows.processed().max(count);
        if !run.call {
            self.set_found(self.row_count > 0);
        }
        if let Some(into) = run.into {
            if into.strict && first.is_none() {
                return Err(with_parameters(err!(NO_DATA_FOUND, "query returned no rows")));
            }
            self.assign_row(&into.targets, &columns, first)?;
        }
        Ok(())
    }

    /// The value of an expression with its type.
    fn evaluate(&mut self, fragment: &Fragment) -> Result<(Datum, TypeRef)> {
        let (prepared, values) = self.prepare(fragment, FragmentKind::Expression)?;
        let ty = match prepared.prepared.columns() {
            [column] => column.ty,
            columns => {
                let count = columns.len();
                bail!(SYNTAX_ERROR, "query returned {count} columns")
            }
        };
        if let Some(value) = self.spi.evaluate(&prepared.prepared, &values) {
            return Ok((value?, ty));
        }
        let mut source = self.spi.start(&prepared.prepared, values.into())?;
        let value = match source.next(self.spi)? {
            Some(row) => row.into_iter().next().unwrap_or_default(),
            None => return Ok((Datum::Null, ty)),
        };
        if source.next(self.spi)?.is_some() {
            bail!(CARDINALITY_VIOLATION, "query returned more than one row");
        }
        Ok((value, ty))
    }

    fn condition(&mut self, fragment: &Fragment) -> Result<bool> {
        let (value, ty) = self.evaluate(fragment)?;
        Ok(matches!(self.spi.cast(value, ty, plain(types::BOOL))?, Datum::Bool(true)))
    }

    /// An expression's value as text; `None` for null.
    fn text_value(&mut self, fragment: &Fragment) -> Result<Option<Text>> {
        let (value, ty) = self.evaluate(fragment)?;
        self.as_text(&value, ty)
    }

    fn as_text(&self, value: &Datum, ty: TypeRef) -> Result<Option<Text>> {
        if value.is_null() {
            return Ok(None);
        }
        let mut text = String::new();
        cairn_types::io::output(value, ty.oid, self.spi.env(), &mut text)?;
        Ok(Some(text.into()))
    }

    // Variables.

    fn get(&self, slot: Slot) -> Datum {
        self.values.get(slot).cloned().unwrap_or_default()
    }

    fn set(&mut self, slot: Slot, value: Datum) {
        if let Some(place) = self.values.get_mut(slot) {
            *place = value;
        }
    }

    fn set_found(&mut self, found: bool) {
        self.set(self.routine.function.found, Datum::Bool(found));
    }

    fn type_of(&self, slot: Slot) -> TypeRef {
        self.types.get(slot).copied().unwrap_or(RECORD)
    }

    fn variable_kind(&self, slot: Slot) -> Option<&VariableKind> {
        Some(&self.routine.function.variables.get(slot)?.kind)
    }

    fn name(&self, slot: Slot) -> &str {
        self.routine.function.variables.get(slot).map_or("?", |variable| variable.name.as_str())
    }

    fn record_field(&self, slot: Slot, field: &str) -> Result<(Datum, TypeRef)> {
        match self.values.get(slot) {
            Some(Datum::Record(record)) => {
                let position = record.fields.iter().position(|known| &*known.name == field);
                let found = position
                    .and_then(|index| Some((record.values.get(index)?.clone(), record.fields.get(index)?)));
                let (value, field) = found.ok_or_else(|| {
                    err!(UNDEFINED_COLUMN, "record \"{}\" has no field \"{field}\"", self.name(slot))
                })?;
                let collation =
                    if is_collatable(field.type_oid) { cairn_types::oid::collations::DEFAULT } else { 0 };
                Ok((value, TypeRef { oid: field.type_oid, typmod: field.typmod, collation }))
            }
            _ => match self.spi.composite_fields(self.type_of(slot).oid) {
                Some(fields) => {
                    let known = fields.iter().find(|known| &*known.name == field);
                    let known = known.ok_or_else(|| {
                        err!(UNDEFINED_COLUMN, "record \"{}\" has no field \"{field}\"", self.name(slot))
                    })?;
                    Ok((Datum::Null, TypeRef { typmod: known.typmod, ..plain(known.type_oid) }))
                }
                None => Err(err!(
                    OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "record \"{}\" is not assigned yet",
                    self.name(slot)
                )
                .detail("The tuple structure of a not-yet-assigned record is indeterminate.")),
            },
        }
    }

    fn check_not_null(&self, slot: Slot, value: &Datum) -> Result<()> {
        let variable = self.routine.function.variables.get(slot);
        if value.is_null() && variable.is_some_and(|variable| variable.not_null) {
            bail!(
                NULL_VALUE_NOT_ALLOWED,
                "null value cannot be assigned to variable \"{}\" declared NOT NULL",
                self.name(slot)
            );
        }
        Ok(())
    }

    /// Converts a value to a variable's type.
    fn coerce(&self, value: Datum, from: TypeRef, slot: Slot) -> Result<Datum> {
        let to = self.type_of(slot);
        if let Datum::Record(record) = &value {
            return self.coerce_record(record, to);
        }
        if to.oid == types::RECORD || self.spi.composite_fields(to.oid).is_some() {
            if value.is_null() {
                return Ok(value);
            }
            bail!(DATATYPE_MISMATCH, "cannot assign non-composite value to a record variable");
        }
        if value.is_null() {
            return Ok(Datum::Null);
        }
        self.spi.cast(value, from, to)
    }

    fn coerce_record(&self, record: &Arc<Record>, to: TypeRef) -> Result<Datum> {
        let Some(fields) = self.spi.composite_fields(to.oid) else {
            return Ok(Datum::Record(Arc::clone(record)));
        };
        let mut values = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            let to = TypeRef { typmod: field.typmod, ..plain(field.type_oid) };
            values.push(match (record.values.get(index), record.fields.get(index)) {
                (Some(value), Some(given)) if !(value.is_null() && given.type_oid == types::UNKNOWN) => {
                    self.spi.cast(value.clone(), plain(given.type_oid), to)?
                }
                // A field that nothing is given for.
                _ => self.spi.cast(Datum::Null, to, to)?,
            });
        }
        Ok(Datum::Record(Arc::new(Record { type_oid: to.oid, fields, values })))
    }

    fn assign(&mut self, target: &AssignTarget, value: Datum, from: TypeRef) -> Result<()> {
        if target.path.is_empty() {
            let value = self.coerce(value, from, target.slot)?;
            self.check_not_null(target.slot, &value)?;
            self.set(target.slot, value);
            return Ok(());
        }
        let ty = self.type_of(target.slot);
        let container = self.get(target.slot);
        let steps = self.evaluate_path(&target.path)?;
        let changed = self.assign_inside(container, ty, &steps, value, from, self.name(target.slot))?;
        self.set(target.slot, changed);
        Ok(())
    }

    fn evaluate_path(&mut self, path: &[PathStep]) -> Result<Vec<Step>> {
        let mut steps = Vec::with_capacity(path.len());
        for step in path {
            steps.push(match step {
                PathStep::Field(name) => Step::Field(name.clone()),
                PathStep::Subscript(index) => Step::Index(self.subscript(index)?),
                PathStep::Slice(lower, upper) => {
                    let lower = lower.as_ref().map(|bound| self.subscript(bound)).transpose()?;
                    let upper = upper.as_ref().map(|bound| self.subscript(bound)).transpose()?;
                    Step::Slice(lower, upper)
                }
            });
        }
        Ok(steps)
    }

    fn subscript(&mut self, fragment: &Fragment) -> Result<i32> {
        let (value, ty) = self.evaluate(fragment)?;
        match self.spi.cast(value, ty, plain(types::INT4))? {
            Datum::Int4(index) => Ok(index),
            _ => Err(err!(NULL_VALUE_NOT_ALLOWED, "array subscript in assignment must not be null")),
        }
    }

    /// A container with one place inside it changed.
    fn assign_inside(
        &self,
        container: Datum,
        ty: TypeRef,
        steps: &[Step],
        value: Datum,
        from: TypeRef,
        name: &str,
    ) -> Result<Datum> {
        let Some((step, rest)) = steps.split_first() else {
            return if value.is_null() { Ok(Datum::Null) } else { self.spi.cast(value, from, ty) };
        };
        match step {
            Step::Field(field) => {
                let (type_oid, fields, mut values) = match &container {
                    Datum::Record(record) => {
                        (record.type_oid, Arc::clone(&record.fields), record.values.clone())
                    }
                    _ => match self.spi.composite_fields(ty.oid) {
                        Some(fields) => (ty.oid, Arc::clone(&fields), vec![Datum::Null; fields.len()]),
                        None => {
                            return Err(err!(
                                OBJECT_NOT_IN_PREREQUISITE_STATE,
                                "record \"{name}\" is not assigned yet"
                            )
                            .detail("The tuple structure of a not-yet-assigned record is indeterminate."));
                        }
                    },
                };
                let index = fields.iter().position(|known| *known.name == **field);
                let place = index.and_then(|index| Some((values.get_mut(index)?, fields.get(index)?)));
                let (place, known) = place
                    .ok_or_else(|| err!(UNDEFINED_COLUMN, "record \"{name}\" has no field \"{field}\""))?;
                let inner = TypeRef { typmod: known.typmod, ..plain(known.type_oid) };
                *place = self.assign_inside(std::mem::take(place), inner, rest, value, from, name)?;
                Ok(Datum::Record(Arc::new(Record { type_oid, fields, values })))
            }
            Step::Index(_) | Step::Slice(..) => {
                let taken = steps.iter().take_while(|step| !matches!(step, Step::Field(_))).count();
                let (subscripts, rest) = steps.split_at(taken);
                self.assign_element(container, ty, subscripts, rest, value, from, name)
            }
        }
    }

    /// The array type and its elements' type, of an array or a domain over one.
    fn array_type(&self, oid: u32) -> Option<(TypeRef, u32)> {
        use cairn_types::TypeShape;
        let mut ty = plain(oid);
        loop {
            match self.spi.env().type_shape(ty.oid)? {
                TypeShape::Array { element, .. } => return Some((ty, element)),
                TypeShape::Domain { base, typmod } => ty = TypeRef { typmod, ..plain(base) },
                _ => return None,
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a recursion over a path carries the value, its type and the place"
    )]
    fn assign_element(
        &self,
        container: Datum,
        ty: TypeRef,
        subscripts: &[Step],
        rest: &[Step],
        value: Datum,
        from: TypeRef,
        name: &str,
    ) -> Result<Datum> {
        let Some((array_type, element_type)) = self.array_type(ty.oid) else {
            bail!(
                DATATYPE_MISMATCH,
                "cannot subscript type {} because it does not support subscripting",
                self.spi.env().format_type(ty.oid, -1)
            )
        };
        if array_type.oid != ty.oid {
            // The whole array must satisfy the domain.
            let changed = self.assign_element(container, array_type, subscripts, rest, value, from, name)?;
            return self.spi.cast(changed, array_type, ty);
        }
        let element = TypeRef { typmod: ty.typmod, ..plain(element_type) };
        let array = match container {
            Datum::Array(array) => Array::clone(&array),
            _ => Array::from_elements(element_type, Vec::new()),
        };
        if subscripts.iter().any(|step| matches!(step, Step::Slice(..))) {
            // Where one subscript is a slice, a plain one is a slice from 1.
            let bounds = subscripts.iter().filter_map(|step| match step {
                Step::Slice(lower, upper) => Some((*lower, *upper)),
                Step::Index(index) => Some((Some(1), Some(*index))),
                Step::Field(_) => None,
            });
            let (lower, upper): (Vec<_>, Vec<_>) = bounds.unzip();
            if !rest.is_empty() {
                return Err(Error::unsupported("assignment to a field of an array slice is"));
            }
            let value = self.spi.cast(value, from, ty)?;
            return cairn_exec::expr::subscript::assign_slice(&array, &lower, &upper, value);
        }
        let indexes: Vec<i32> = subscripts
            .iter()
            .filter_map(|step| if let Step::Index(index) = step { Some(*index) } else { None })
            .collect();
        let old = array_get(&array, &indexes).unwrap_or_default();
        let new = self.assign_inside(old, element, rest, value, from, name)?;
        Ok(Datum::Array(Arc::new(array_set(array, &indexes, new)?)))
    }

    /// Assigns a row's columns to a list of targets, or all of it to one record; nulls without a row.
    fn assign_row(&mut self, targets: &[AssignTarget], columns: &[Column], row: Option<Row>) -> Result<()> {
        if let [target] = targets
            && target.path.is_empty()
            && self.takes_whole_row(target.slot)
        {
            let fields: Arc<[RecordField]> = columns
                .iter()
                .map(|column| RecordField {
                    name: column.name.clone(),
                    type_oid: column.ty.oid,
                    typmod: column.ty.typmod,
                })
                .collect();
            if let Some(fields) = self.spi.composite_fields(self.type_of(target.slot).oid)
                && fields.len() != columns.len()
                && !matches!(columns, [column] if column.ty.oid == self.type_of(target.slot).oid)
            {
                self.report_column_mismatch()?;
            }
            let values = row.unwrap_or_else(|| vec![Datum::Null; columns.len()]);
            let record = Arc::new(Record { type_oid: types::RECORD, fields, values });
            // A single composite column is the row itself.
            let record = match (columns, record.values.as_slice()) {
                ([column], [Datum::Record(inner)]) if column.ty.oid == self.type_of(target.slot).oid => {
                    Arc::clone(inner)
                }
                _ => record,
            };
            let value = self.coerce_record(&record, self.type_of(target.slot))?;
            self.set(target.slot, value);
            return Ok(());
        }
        if targets.len() != columns.len() {
            self.report_column_mismatch()?;
        }
        let mut values = row.unwrap_or_default().into_iter();
        for (index, target) in targets.iter().enumerate() {
            let ty = columns.get(index).map_or(plain(types::UNKNOWN), |column| column.ty);
            self.assign(target, values.next().unwrap_or_default(), ty)?;
        }
        Ok(())
    }

    /// What the check `strict_multi_assignment` says where a row has more or fewer columns than there are targets.
    fn report_column_mismatch(&self) -> Result<()> {
        let check = "strict_multi_assignment";
        let Some(severity) = super::check_level(self.spi.env(), check) else { return Ok(()) };
        let list = if severity == Severity::Error { "extra_errors" } else { "extra_warnings" };
        let message = "number of source and target fields in assignment does not match";
        let error = err!(DATATYPE_MISMATCH, "{message}")
            .detail(format!("{check} check of {list} is active."))
            .hint("Make sure the query returns the exact list of columns.");
        self.report(error, severity)
    }

    /// Raises an error, or shows it as a warning.
    fn report(&self, mut error: Error, severity: Severity) -> Result<()> {
        if severity == Severity::Error {
            return Err(error);
        }
        error.report_mut().severity = severity;
        self.spi.env().notice(error);
        Ok(())
    }

    fn takes_whole_row(&self, slot: Slot) -> bool {
        let oid = self.type_of(slot).oid;
        oid == types::RECORD || self.spi.composite_fields(oid).is_some()
    }

    // Cursors.

    fn cursor_name(&self, slot: Slot) -> Result<Text> {
        match self.get(slot) {
            Datum::Text(name) => Ok(name),
            _ => Err(err!(NULL_VALUE_NOT_ALLOWED, "cursor variable \"{}\" is null", self.name(slot))),
        }
    }

    fn open(&mut self, cursor: Slot, scroll: Option<bool>, source: &OpenSource) -> Result<()> {
        let given = match self.get(cursor) {
            Datum::Text(name) => Some(name),
            _ => None,
        };
        let name = match source {
            OpenSource::Bound(args) => {
                let Some(VariableKind::Cursor(declaration)) = self.variable_kind(cursor) else {
                    bail!(SYNTAX_ERROR, "cursor \"{}\" has no query", self.name(cursor))
                };
                let slots: Vec<Slot> = declaration.args.iter().map(|(_, slot)| *slot).collect();
                let (query, scroll) = (declaration.query.clone(), scroll.or(declaration.scroll));
                self.bind_cursor_args(cursor, &slots, args.as_ref())?;
                let query = query
                    .ok_or_else(|| err!(SYNTAX_ERROR, "cursor \"{}\" has no query", self.name(cursor)))?;
                let (prepared, values) = self.prepare(&query, FragmentKind::Cursor)?;
                self.spi.open_cursor(given.as_deref(), scroll, &prepared.prepared, values.into())?
            }
            OpenSource::Rows(Rows::Static(query)) => {
                let (prepared, values) = self.prepare(query, FragmentKind::Cursor)?;
                self.spi.open_cursor(given.as_deref(), scroll, &prepared.prepared, values.into())?
            }
            OpenSource::Rows(Rows::Dynamic { text, using }) => {
                let (prepared, params, _) = self.prepare_dynamic(text, using, FragmentKind::Cursor)?;
                self.spi.open_cursor(given.as_deref(), scroll, &prepared, params.datums)?
            }
        };
        if given.is_none() {
            let constant = self.routine.function.variables.get(cursor).is_some_and(|one| one.constant);
            if constant {
                bail!(ERROR_IN_ASSIGNMENT, "variable \"{}\" is declared CONSTANT", self.name(cursor));
            }
            self.set(cursor, Datum::Text(name));
        }
        Ok(())
    }

    fn bind_cursor_args(&mut self, cursor: Slot, slots: &[Slot], args: Option<&Fragment>) -> Result<()> {
        let mismatch = |frame: &Self| {
            err!(
                SYNTAX_ERROR,
                "cursor \"{}\" {}",
                frame.name(cursor),
                if slots.is_empty() { "has no arguments" } else { "has arguments" }
            )
        };
        let Some(args) = args else {
            return if slots.is_empty() { Ok(()) } else { Err(mismatch(self)) };
        };
        let mut source = self.start(args, FragmentKind::Expression)?.rows;
        let columns = source.columns().to_vec();
        if columns.len() != slots.len() {
            return Err(mismatch(self));
        }
        let row = source.next(self.spi)?.unwrap_or_default();
        for ((slot, column), value) in slots.iter().zip(&columns).zip(row) {
            let value = self.coerce(value, column.ty, *slot)?;
            self.set(*slot, value);
        }
        Ok(())
    }

    fn fetch(
        &mut self,
        cursor: Slot,
        direction: &FetchDirection,
        into: Option<&[AssignTarget]>,
    ) -> Result<()> {
        let name = self.cursor_name(cursor)?;
        let direction = match direction {
            FetchDirection::Next => CursorMove::Forward(1),
            FetchDirection::Prior => CursorMove::Forward(-1),
            FetchDirection::First => CursorMove::Absolute(1),
            FetchDirection::Last => CursorMove::Absolute(-1),
            FetchDirection::Absolute(count) => CursorMove::Absolute(self.count(count)?),
            FetchDirection::Relative(count) => CursorMove::Relative(self.count(count)?),
            FetchDirection::Forward(Some(count)) => CursorMove::Forward(self.count(count)?),
            FetchDirection::Backward(Some(count)) => CursorMove::Forward(-self.count(count)?),
            FetchDirection::Forward(None) => CursorMove::Forward(i64::MAX),
            FetchDirection::Backward(None) => CursorMove::Forward(-i64::MAX),
        };
        let (columns, rows) = self.spi.fetch(&name, direction)?;
        self.row_count = rows.len() as u64;
        self.set_found(!rows.is_empty());
        if let Some(targets) = into {
            self.assign_row(targets, &columns, rows.into_iter().next())?;
        }
        Ok(())
    }

    fn count(&mut self, fragment: &Fragment) -> Result<i64> {
        let (value, ty) = self.evaluate(fragment)?;
        match self.spi.cast(value, ty, plain(types::INT8))? {
            Datum::Int8(count) => Ok(count),
            _ => Err(err!(NULL_VALUE_NOT_ALLOWED, "relative or absolute cursor position is null")),
        }
    }

    // Messages.

    fn raise(&mut self, raise: &Raise) -> Result<()> {
        let re_raise = raise.message.is_none() && raise.condition.is_none() && raise.options.is_empty();
        if re_raise {
            return match self.handled.last() {
                Some(error) => Err(error.clone()),
                None => Err(err!(
                    DIAGNOSTICS_WITHOUT_HANDLER,
                    "RAISE without parameters cannot be used outside an exception handler"
                )),
            };
        }
        let mut state = raise.condition.as_ref().and_then(condition_state);
        let mut message = match &raise.message {
            Some(format) => Some(self.format_message(format, &raise.params)?),
            None => None,
        };
        let mut error = Error::new(sqlstate::RAISE_EXCEPTION, "");
        for (option, fragment) in &raise.options {
            let Some(value) = self.text_value(fragment)? else {
                bail!(NULL_VALUE_NOT_ALLOWED, "RAISE statement option cannot be null")
            };
            let value = value.to_string();
            let report = error.report_mut();
            let given = match option.as_str() {
                "errcode" => state.is_some(),
                "message" => message.is_some(),
                "detail" => report.detail.is_some(),
                "hint" => report.hint.is_some(),
                "column" => report.column.is_some(),
                "constraint" => report.constraint.is_some(),
                "datatype" => report.data_type.is_some(),
                "table" => report.table.is_some(),
                _ => report.schema.is_some(),
            };
            if given {
                bail!(SYNTAX_ERROR, "RAISE option already specified: {}", option.to_ascii_uppercase());
            }
            match option.as_str() {
                "errcode" => state = Some(state_of_text(&value)?),
                "message" => message = Some(value),
                "detail" => report.detail = Some(value),
                "hint" => report.hint = Some(value),
                "column" => report.column = Some(value),
                "constraint" => report.constraint = Some(value),
                "datatype" => report.data_type = Some(value),
                "table" => report.table = Some(value),
                _ => report.schema = Some(value),
            }
        }
        let report = error.report_mut();
        let default_state = match raise.level {
            RaiseLevel::Exception => sqlstate::RAISE_EXCEPTION,
            RaiseLevel::Warning => sqlstate::WARNING,
            _ => sqlstate::SUCCESSFUL_COMPLETION,
        };
        report.sqlstate = state.unwrap_or(default_state);
        // Without a message, the condition's name is one.
        report.message = message.unwrap_or_else(|| match (&raise.condition, state) {
            (Some(Condition::Name(name)), _) => name.clone(),
            (_, Some(state)) => state.as_str().to_owned(),
            (_, None) => default_state.as_str().to_owned(),
        });
        report.severity = match raise.level {
            RaiseLevel::Debug => Severity::Debug,
            RaiseLevel::Log => Severity::Log,
            RaiseLevel::Info => Severity::Info,
            RaiseLevel::Notice => Severity::Notice,
            RaiseLevel::Warning => Severity::Warning,
            RaiseLevel::Exception => return Err(error),
        };
        self.spi.env().notice(error);
        Ok(())
    }

    /// Puts the parameters in the places of `%`.
    fn format_message(&mut self, format: &str, params: &[Fragment]) -> Result<String> {
        let mut text = String::with_capacity(format.len());
        let mut params = params.iter();
        let mut chars = format.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                text.push(c);
            } else if chars.peek() == Some(&'%') {
                chars.next();
                text.push('%');
            } else if let Some(fragment) = params.next() {
                text.push_str(self.text_value(fragment)?.as_deref().unwrap_or("<NULL>"));
            }
        }
        Ok(text)
    }

    fn diagnostic(&self, stacked: bool, item: &str, line: usize) -> Result<(Datum, TypeRef)> {
        let text = |value: Option<&str>| Ok((Datum::text(value.unwrap_or("")), plain(types::TEXT)));
        if !stacked {
            return match item {
                "row_count" => {
                    Ok((Datum::Int8(i64::try_from(self.row_count).unwrap_or(i64::MAX)), plain(types::INT8)))
                }
                "pg_context" => text(Some(&format!("{}{line} at GET DIAGNOSTICS", self.context_start()))),
                _ => {
                    Err(Error::unsupported(format!("GET DIAGNOSTICS item {} is", item.to_ascii_uppercase())))
                }
            };
        }
        let Some(error) = self.handled.last() else {
            bail!(
                DIAGNOSTICS_WITHOUT_HANDLER,
                "GET STACKED DIAGNOSTICS cannot be used outside an exception handler"
            )
        };
        let report = error.report();
        match item {
            "returned_sqlstate" => text(Some(report.sqlstate.as_str())),
            "message_text" => text(Some(&report.message)),
            "pg_exception_detail" => text(report.detail.as_deref()),
            "pg_exception_hint" => text(report.hint.as_deref()),
            "pg_exception_context" => text(Some(&report.context.join("\n"))),
            "column_name" => text(report.column.as_deref()),
            "constraint_name" => text(report.constraint.as_deref()),
            "pg_datatype_name" => text(report.data_type.as_deref()),
            "table_name" => text(report.table.as_deref()),
            _ => text(report.schema.as_deref()),
        }
    }
}

struct IntegerBounds<'a> {
    from: &'a Fragment,
    to: &'a Fragment,
    by: Option<&'a Fragment>,
    reverse: bool,
}

/// A step of an assignment's path, evaluated.
enum Step {
    Field(String),
    Index(i32),
    Slice(Option<i32>, Option<i32>),
}

/// The variables of a scope, for the analyzer.
struct Resolver<'a> {
    frame: &'a Frame<'a>,
    scope: ScopeId,
    visible: Slot,
    params: RefCell<Vec<ParamSource>>,
    /// Which of them were asked for.
    used: RefCell<Vec<usize>>,
    /// What the analyzer's own "column does not exist" would hide.
    error: RefCell<Option<Error>>,
}

impl Resolver<'_> {
    fn number(&self, source: ParamSource) -> u32 {
        let mut params = self.params.borrow_mut();
        let index = params.iter().position(|known| *known == source).unwrap_or_else(|| {
            params.push(source);
            params.len() - 1
        });
        self.note_use(index);
        u32::try_from(index + 1).unwrap_or(u32::MAX)
    }

    fn note_use(&self, index: usize) {
        let mut used = self.used.borrow_mut();
        if !used.contains(&index) {
            used.push(index);
        }
    }

    fn variable(&self, slot: Slot) -> (u32, TypeRef) {
        (self.number(ParamSource { slot, field: None }), self.frame.type_of(slot))
    }

    fn field(&self, slot: Slot, field: &str) -> Option<(u32, TypeRef)> {
        if !self.frame.takes_whole_row(slot) {
            return None;
        }
        match self.frame.record_field(slot, field) {
            Ok((_, ty)) => Some((self.number(ParamSource { slot, field: Some(field.to_owned()) }), ty)),
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                None
            }
        }
    }
}

impl ParamResolver for Resolver<'_> {
    fn by_name(&self, name: &[&str]) -> Option<(u32, TypeRef)> {
        let scopes = &self.frame.routine.function.scopes;
        let named = |name| lookup(scopes, self.scope, self.visible, name);
        let labelled = |label, name| lookup_qualified(scopes, self.scope, self.visible, label, name);
        match name {
            [name] => named(name).map(|slot| self.variable(slot)),
            [first, second] => match named(first) {
                Some(slot) => self.field(slot, second),
                None => labelled(first, second).map(|slot| self.variable(slot)),
            },
            [label, variable, field] => labelled(label, variable).and_then(|slot| self.field(slot, field)),
            _ => None,
        }
    }

    fn by_number(&self, number: u32) -> Option<TypeRef> {
        let slot = usize::try_from(number).ok()?.checked_sub(1)?;
        if slot >= self.frame.routine.function.found {
            return None;
        }
        self.note_use(slot);
        Some(self.frame.type_of(slot))
    }

    fn on_conflict(&self) -> NameConflict {
        match self.frame.routine.function.conflict {
            VariableConflict::Error => NameConflict::Error,
            VariableConflict::UseVariable => NameConflict::UseVariable,
            VariableConflict::UseColumn => NameConflict::UseColumn,
        }
    }
}

impl Condition {
    fn matches(&self, error: &Error) -> bool {
        // The session is about to end: there is nothing to go on with.
        if error.report().severity >= Severity::Fatal {
            return false;
        }
        let state = error.sqlstate();
        match self {
            // Cancelling and failed assertions are not for OTHERS.
            Condition::Others => state != sqlstate::QUERY_CANCELED && state != sqlstate::ASSERT_FAILURE,
            Condition::SqlState(wanted) => state_matches(state, SqlState(*wanted)),
            Condition::Name(_) => condition_state(self).is_some_and(|wanted| state_matches(state, wanted)),
        }
    }
}

/// A condition whose code ends in 000 stands for its whole class.
fn state_matches(state: SqlState, wanted: SqlState) -> bool {
    state == wanted || wanted.0.ends_with(b"000") && state.0.first_chunk::<2>() == wanted.0.first_chunk::<2>()
}

fn condition_state(condition: &Condition) -> Option<SqlState> {
    match condition {
        Condition::SqlState(state) => Some(SqlState(*state)),
        Condition::Name(name) => {
            sqlstate::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, state)| *state)
        }
        Condition::Others => None,
    }
}

/// `errcode = 'AB123'`, or a condition's name.
fn state_of_text(text: &str) -> Result<SqlState> {
    if let Ok(state) = <[u8; 5]>::try_from(text.as_bytes())
        && state.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    {
        return Ok(SqlState(state));
    }
    condition_state(&Condition::Name(text.to_owned()))
        .ok_or_else(|| err!(UNDEFINED_OBJECT, "unrecognized exception condition \"{text}\""))
}

fn internal_query(mut error: Error, text: &str) -> Error {
    let report = error.report_mut();
    if report.location.is_some() && report.internal_query.is_none() {
        report.internal_query = Some(text.to_owned());
    }
    error
}

/// A statement under way.
struct Started<'f> {
    rows: Box<dyn RowSource>,
    text: Cow<'f, str>,
}

impl Started<'_> {
    /// The next row of a statement that nothing runs between the rows of: its errors are the statement's.
    fn next(&mut self, spi: &dyn Spi) -> Result<Option<Row>> {
        self.rows.next(spi).map_err(|error| sql_statement_context(error, &self.text))
    }
}

fn sql_statement_context(error: Error, text: &str) -> Error {
    error.context(format!("SQL statement \"{text}\""))
}

fn is_call(statement: &Fragment) -> bool {
    statement.text.trim_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case("call"))
}

fn is_collatable(oid: u32) -> bool {
    matches!(oid, types::TEXT | types::VARCHAR | types::BPCHAR | types::NAME)
}

/// The place of an element among `elements`.
fn array_place(array: &Array, indexes: &[i32]) -> Option<usize> {
    if indexes.len() != array.dimensions.len() {
        return None;
    }
    let mut place = 0;
    for (dimension, index) in array.dimensions.iter().zip(indexes) {
        let offset = usize::try_from(i64::from(*index) - i64::from(dimension.lower_bound)).ok()?;
        if offset >= dimension.length {
            return None;
        }
        place = place * dimension.length + offset;
    }
    Some(place)
}

fn array_get(array: &Array, indexes: &[i32]) -> Option<Datum> {
    array.elements.get(array_place(array, indexes)?).cloned()
}

/// Sets an element; a one-dimensional array grows, with nulls in between (manual, section 8.15.4).
fn array_set(mut array: Array, indexes: &[i32], value: Datum) -> Result<Array> {
    const ELEMENTS_MAX: i64 = 134_217_727;
    if let Some(place) = array_place(&array, indexes) {
        if let Some(element) = array.elements.get_mut(place) {
            *element = value;
        }
        return Ok(array);
    }
    let [index] = indexes else {
        if array.dimensions.is_empty() {
            array.dimensions = indexes
                .iter()
                .map(|index| cairn_types::Dimension { length: 1, lower_bound: *index })
                .collect();
            array.elements = vec![value];
            return Ok(array);
        }
        bail!(ARRAY_SUBSCRIPT_ERROR, "array subscript out of range");
    };
    let Some(dimension) = array.dimensions.first().copied() else {
        array.dimensions = vec![cairn_types::Dimension { length: 1, lower_bound: *index }];
        array.elements = vec![value];
        return Ok(array);
    };
    if array.dimensions.len() > 1 {
        bail!(ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts");
    }
    let offset = i64::from(*index) - i64::from(dimension.lower_bound);
    if offset.abs() >= ELEMENTS_MAX {
        bail!(PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    }
    let mut lower_bound = dimension.lower_bound;
    if offset < 0 {
        let mut grown = vec![Datum::Null; usize::try_from(-offset).unwrap_or(0)];
        grown.append(&mut array.elements);
        array.elements = grown;
        if let Some(first) = array.elements.first_mut() {
            *first = value;
        }
        lower_bound = *index;
    } else {
        array.elements.resize(usize::try_from(offset).unwrap_or(0), Datum::Null);
        array.elements.push(value);
    }
    array.dimensions = vec![cairn_types::Dimension { length: array.elements.len(), lower_bound }];
    Ok(array)
}

impl StatementKind {
    /// How PostgreSQL's CONTEXT names it.
    fn name(&self) -> &'static str {
        match self {
            StatementKind::Block(_) => "statement block",
            StatementKind::Assign { .. } => "assignment",
            StatementKind::If { .. } => "IF",
            StatementKind::Case { .. } => "CASE",
            StatementKind::Loop { .. } => "LOOP",
            StatementKind::While { .. } => "WHILE",
            StatementKind::ForInteger { .. } => "FOR with integer loop variable",
            StatementKind::ForQuery { query: Rows::Static(_), .. } => "FOR over SELECT rows",
            StatementKind::ForQuery { query: Rows::Dynamic { .. }, .. } => "FOR over EXECUTE statement",
            StatementKind::ForCursor { .. } => "FOR over cursor",
            StatementKind::ForEach { .. } => "FOREACH over array",
            StatementKind::Exit { exit: true, .. } => "EXIT",
            StatementKind::Exit { exit: false, .. } => "CONTINUE",
            StatementKind::Return(_) => "RETURN",
            StatementKind::ReturnNext(_) => "RETURN NEXT",
            StatementKind::ReturnQuery(_) => "RETURN QUERY",
            StatementKind::Raise(_) => "RAISE",
            StatementKind::Assert { .. } => "ASSERT",
            StatementKind::Sql { perform: true, .. } => "PERFORM",
            StatementKind::Sql { statement, .. } if is_call(statement) => "CALL",
            StatementKind::Sql { .. } => "SQL statement",
            StatementKind::Execute { .. } => "EXECUTE",
            StatementKind::GetDiagnostics { stacked: true, .. } => "GET STACKED DIAGNOSTICS",
            StatementKind::GetDiagnostics { stacked: false, .. } => "GET DIAGNOSTICS",
            StatementKind::Open { .. } => "OPEN",
            StatementKind::Fetch { into: Some(_), .. } => "FETCH",
            StatementKind::Fetch { into: None, .. } => "MOVE",
            StatementKind::Close { .. } => "CLOSE",
            StatementKind::Commit { .. } => "COMMIT",
            StatementKind::Rollback { .. } => "ROLLBACK",
            StatementKind::Null => "NULL",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i32]) -> Array {
        Array::from_elements(types::INT4, values.iter().map(|value| Datum::Int4(*value)).collect())
    }

    #[test]
    fn arrays_grow_at_both_ends() {
        let array = array_set(ints(&[1, 2]), &[4], Datum::Int4(9)).unwrap();
        assert_eq!(array.elements.len(), 4);
        assert!(array.elements[2].is_null());
        let array = array_set(array, &[-1], Datum::Int4(7)).unwrap();
        assert_eq!(array.dimensions[0], cairn_types::Dimension { length: 6, lower_bound: -1 });
        assert!(matches!(array_get(&array, &[-1]), Some(Datum::Int4(7))));
        assert!(matches!(array_get(&array, &[4]), Some(Datum::Int4(9))));
        assert!(array_get(&array, &[5]).is_none());
        assert!(array_set(ints(&[1]), &[i32::MAX], Datum::Null).is_err());
    }

    #[test]
    fn a_condition_ending_in_000_is_its_class() {
        let overflow = err!(NUMERIC_VALUE_OUT_OF_RANGE, "x");
        assert!(Condition::Name("data_exception".into()).matches(&overflow));
        assert!(!Condition::Name("integrity_constraint_violation".into()).matches(&overflow));
        assert!(Condition::SqlState(*b"22003").matches(&overflow));
        assert!(!Condition::Others.matches(&err!(QUERY_CANCELED, "x")));
    }
}
