//! Evaluation.

use std::sync::Arc;

use cairn_analyze::query::{BooleanTest, SqlValueFunction};
use cairn_catalog::BtreeStrategy;
use cairn_types::{Array, Datum, Dimension, Record, RecordField, Result, bail, compare, err, types};
use smallvec::SmallVec;

use super::{Code, DomainCheck, Function};
use crate::context::{ExecContext, Frame};

impl Code {
    /// The value, where it lies somewhere already.
    #[inline]
    fn in_place<'f>(&'f self, frame: &'f Frame) -> Option<&'f Datum> {
        match self {
            Code::Const(value) => Some(value),
            Code::Register(register) => frame.registers.get(*register),
            Code::Param(number) => frame.params.get(*number),
            _ => None,
        }
    }

    /// Evaluates a condition: null counts as false.
    #[inline]
    pub fn holds(&self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        Ok(matches!(self.eval(cx, frame)?, Datum::Bool(true)))
    }

    pub fn eval(&self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
        match self {
            Code::Const(value) => Ok(value.clone()),
            Code::Register(register) => Ok(frame.registers[*register].clone()),
            Code::Param(number) => frame
                .params
                .get(*number)
                .cloned()
                .ok_or_else(|| err!(UNDEFINED_PARAMETER, "there is no parameter ${}", number + 1)),
            Code::Compare { test, blank_padded, args } => {
                let [left, right] = &**args;
                if let (Some(a), Some(b)) = (left.in_place(frame), right.in_place(frame)) {
                    return Ok(compare_values(*test, *blank_padded, a, b));
                }
                let a = left.eval(cx, frame)?;
                if a.is_null() {
                    return Ok(Datum::Null);
                }
                let b = right.eval(cx, frame)?;
                Ok(compare_values(*test, *blank_padded, &a, &b))
            }
            Code::Call1 { function, arg } => {
                let args = [arg.eval(cx, frame)?];
                function.call(cx, &args)
            }
            Code::Call2 { function, args } => {
                let args = [args[0].eval(cx, frame)?, args[1].eval(cx, frame)?];
                function.call(cx, &args)
            }
            Code::Call { function, args } => {
                let args = eval_all(args, cx, frame)?;
                function.call(cx, &args)
            }
            Code::And(args) => {
                let mut unknown = false;
                for arg in args {
                    match arg.eval(cx, frame)? {
                        Datum::Bool(true) => {}
                        Datum::Bool(false) => return Ok(Datum::Bool(false)),
                        _ => unknown = true,
                    }
                }
                Ok(if unknown { Datum::Null } else { Datum::Bool(true) })
            }
            Code::Or(args) => {
                let mut unknown = false;
                for arg in args {
                    match arg.eval(cx, frame)? {
                        Datum::Bool(false) => {}
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        _ => unknown = true,
                    }
                }
                Ok(if unknown { Datum::Null } else { Datum::Bool(false) })
            }
            Code::Not(arg) => Ok(match arg.eval(cx, frame)? {
                Datum::Bool(value) => Datum::Bool(!value),
                _ => Datum::Null,
            }),
            Code::Int4AsOid(arg) => Ok(int4_as_oid(arg.eval(cx, frame)?)),
            Code::OidAsInt4(arg) => Ok(oid_as_int4(arg.eval(cx, frame)?)),
            Code::DistinctFrom { equal, args } => {
                let pair = [args[0].eval(cx, frame)?, args[1].eval(cx, frame)?];
                Ok(Datum::Bool(match (pair[0].is_null(), pair[1].is_null()) {
                    (true, true) => false,
                    (true, false) | (false, true) => true,
                    (false, false) => !matches!(equal.call(cx, &pair)?, Datum::Bool(true)),
                }))
            }
            Code::NullIf { equal, args } => {
                let pair = [args[0].eval(cx, frame)?, args[1].eval(cx, frame)?];
                let same = !pair[0].is_null()
                    && !pair[1].is_null()
                    && matches!(equal.call(cx, &pair)?, Datum::Bool(true));
                let [first, _] = pair;
                Ok(if same { Datum::Null } else { first })
            }
            Code::ArrayOperator { function, any, left, array } => {
                let left = left.eval(cx, frame)?;
                let array = array.eval(cx, frame)?;
                array_operator(function, *any, left, &array, cx)
            }
            Code::Field { record, index } => match record.eval(cx, frame)? {
                Datum::Record(record) => Ok(record.values.get(*index).cloned().unwrap_or_default()),
                _ => Ok(Datum::Null),
            },
            Code::ViaIo { arg, source, target, typmod } => {
                let value = arg.eval(cx, frame)?;
                if value.is_null() {
                    return Ok(Datum::Null);
                }
                let text = cairn_types::io::output_string(&value, *source, cx.env)?;
                cairn_types::io::input(&text, *target, *typmod, cx.env)
            }
            Code::ArrayCoerce { arg, element, register, element_type } => match arg.eval(cx, frame)? {
                Datum::Array(array) => {
                    let mut elements = Vec::with_capacity(array.elements.len());
                    for value in &array.elements {
                        frame.registers[*register] = value.clone();
                        elements.push(element.eval(cx, frame)?);
                    }
                    Ok(Datum::Array(Arc::new(Array {
                        element_type: *element_type,
                        dimensions: array.dimensions.clone(),
                        elements,
                    })))
                }
                other => Ok(other),
            },
            Code::ConvertRow { arg, type_oid, fields } => match arg.eval(cx, frame)? {
                Datum::Record(record) => Ok(Datum::Record(Arc::new(Record {
                    type_oid: *type_oid,
                    fields: Arc::clone(fields),
                    values: record.values.clone(),
                }))),
                other => Ok(other),
            },
            Code::Domain(check) => domain(check, cx, frame),
            Code::Case { subject, whens, default } => {
                if let Some((subject, register)) = subject {
                    let value = subject.eval(cx, frame)?;
                    frame.registers[*register] = value;
                }
                for (when, then) in whens {
                    if when.holds(cx, frame)? {
                        return then.eval(cx, frame);
                    }
                }
                default.eval(cx, frame)
            }
            Code::Array { elements, element_type, multidimensional } => {
                let values = eval_all(elements, cx, frame)?.into_vec();
                if *multidimensional {
                    stack_arrays(*element_type, values)
                } else {
                    Ok(Datum::Array(Arc::new(Array::from_elements(*element_type, values))))
                }
            }
            Code::Row { fields, type_oid, shape } => Ok(Datum::Record(Arc::new(Record {
                type_oid: *type_oid,
                fields: Arc::clone(shape),
                values: eval_all(fields, cx, frame)?.into_vec(),
            }))),
            Code::WholeRow { registers, type_oid, shape } => {
                let values = frame.save(registers);
                if values.iter().all(Datum::is_null) && !values.is_empty() {
                    return Ok(Datum::Null);
                }
                Ok(whole_row(*type_oid, shape, values))
            }
            Code::RowCompare { strategy, equals, left, right } => {
                row_compare(*strategy, equals, left, right, cx, frame)
            }
            Code::Coalesce(args) => {
                for arg in args {
                    let value = arg.eval(cx, frame)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Datum::Null)
            }
            Code::MinMax { greatest, blank_padded, args } => {
                let mut best = Datum::Null;
                for arg in args {
                    let value = arg.eval(cx, frame)?;
                    if value.is_null() {
                        continue;
                    }
                    let order = compare::compare(&value, &best, *blank_padded);
                    if best.is_null() || if *greatest { order.is_gt() } else { order.is_lt() } {
                        best = value;
                    }
                }
                Ok(best)
            }
            Code::SqlValue { function, typmod } => sql_value(*function, *typmod, cx),
            Code::NullTest { arg, is_null, row } => {
                if !*row && let Some(value) = arg.in_place(frame) {
                    return Ok(Datum::Bool(value.is_null() == *is_null));
                }
                let value = arg.eval(cx, frame)?;
                // A row is null if all of its fields are, not null if none is; so both may be false.
                Ok(Datum::Bool(match (&value, *row) {
                    (Datum::Record(record), true) => {
                        record.values.iter().all(|field| field.is_null() == *is_null)
                    }
                    _ => value.is_null() == *is_null,
                }))
            }
            Code::BooleanTest { arg, test } => {
                let value = match arg.eval(cx, frame)? {
                    Datum::Bool(value) => Some(value),
                    _ => None,
                };
                Ok(Datum::Bool(match test {
                    BooleanTest::IsTrue => value == Some(true),
                    BooleanTest::IsNotTrue => value != Some(true),
                    BooleanTest::IsFalse => value == Some(false),
                    BooleanTest::IsNotFalse => value != Some(false),
                    BooleanTest::IsUnknown => value.is_none(),
                    BooleanTest::IsNotUnknown => value.is_some(),
                }))
            }
            Code::NextValue { sequence, ty } => {
                let info = cairn_types::CallInfo {
                    arg_types: &[types::REGCLASS],
                    result_type: types::INT8,
                    collation: 0,
                    columns: &[],
                    variadic: false,
                };
                let value = cx.env.system_function("nextval_oid", &[Datum::Oid(*sequence)], &info)?;
                narrow_integer(value, *ty)
            }
            Code::Subscript(subscript) => super::subscript::eval(subscript, cx, frame),
            Code::SubPlan(number) => crate::subplan::eval(*number, cx, frame),
            Code::SubPlanAgain(number) => crate::subplan::eval_again(*number, frame),
            Code::CurrentOf { cursor, table, key } => {
                let position = cx.runner.cursor_position(cursor, *table)?;
                Ok(Datum::Bool(match (&position, &frame.registers[*key]) {
                    (Some(position), Datum::Bytea(key)) => position[..] == key[..],
                    _ => false,
                }))
            }
            Code::Grouping { register, answers } => match frame.registers[*register] {
                Datum::Int4(set) => Ok(Datum::Int4(
                    usize::try_from(set).ok().and_then(|set| answers.get(set)).copied().unwrap_or(0),
                )),
                _ => Ok(Datum::Int4(0)),
            },
        }
    }
}

#[inline]
fn compare_values(test: super::CompareTest, blank_padded: bool, a: &Datum, b: &Datum) -> Datum {
    if a.is_null() || b.is_null() {
        return Datum::Null;
    }
    Datum::Bool(test.holds(compare::compare(a, b, blank_padded)))
}

pub fn eval_all(codes: &[Code], cx: &ExecContext<'_>, frame: &mut Frame) -> Result<SmallVec<[Datum; 4]>> {
    let mut values = SmallVec::with_capacity(codes.len());
    for code in codes {
        values.push(code.eval(cx, frame)?);
    }
    Ok(values)
}

/// A whole row, with the fields that the row type has.
pub fn whole_row(type_oid: cairn_types::Oid, shape: &Arc<[RecordField]>, values: Vec<Datum>) -> Datum {
    Datum::Record(Arc::new(Record { type_oid, fields: Arc::clone(shape), values }))
}

/// `left op any (array)` with SQL's three-valued logic.
pub fn array_operator(
    function: &Function,
    any: bool,
    left: Datum,
    array: &Datum,
    cx: &ExecContext<'_>,
) -> Result<Datum> {
    let Datum::Array(array) = array else { return Ok(Datum::Null) };
    if array.elements.is_empty() {
        return Ok(Datum::Bool(!any));
    }
    if function.strict && left.is_null() {
        return Ok(Datum::Null);
    }
    let mut unknown = false;
    let mut pair = [left, Datum::Null];
    for element in &array.elements {
        pair[1] = element.clone();
        match function.call(cx, &pair)? {
            Datum::Bool(value) if value == any => return Ok(Datum::Bool(any)),
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown { Datum::Null } else { Datum::Bool(!any) })
}

fn narrow_integer(value: Datum, ty: cairn_types::Oid) -> Result<Datum> {
    let Datum::Int8(number) = value else { return Ok(value) };
    match ty {
        types::INT4 => i32::try_from(number)
            .map(Datum::Int4)
            .map_err(|_| err!(NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")),
        types::INT2 => i16::try_from(number)
            .map(Datum::Int2)
            .map_err(|_| err!(NUMERIC_VALUE_OUT_OF_RANGE, "smallint out of range")),
        _ => Ok(value),
    }
}

/// ARRAY[[...], [...]]: arrays of equal shape become one of a dimension more.
fn stack_arrays(element_type: cairn_types::Oid, values: Vec<Datum>) -> Result<Datum> {
    let mismatch = || {
        err!(
            ARRAY_SUBSCRIPT_ERROR,
            "multidimensional arrays must have array expressions with matching dimensions"
        )
    };
    let mut inner: Option<Vec<Dimension>> = None;
    let mut elements = Vec::new();
    let mut count = 0;
    for value in values {
        // A null or empty element counts as an empty array.
        let Datum::Array(array) = value else { continue };
        if array.dimensions.is_empty() {
            continue;
        }
        match &inner {
            None => inner = Some(array.dimensions.clone()),
            Some(dimensions) => {
                if *dimensions != array.dimensions {
                    return Err(mismatch());
                }
            }
        }
        count += 1;
        elements.extend(array.elements.iter().cloned());
    }
    let Some(inner) = inner else {
        return Ok(Datum::Array(Arc::new(Array::from_elements(element_type, Vec::new()))));
    };
    if inner.len() >= 6 {
        bail!(PROGRAM_LIMIT_EXCEEDED, "number of array dimensions (7) exceeds the maximum allowed (6)");
    }
    let mut dimensions = vec![Dimension { length: count, lower_bound: 1 }];
    dimensions.extend(inner);
    Ok(Datum::Array(Arc::new(Array { element_type, dimensions, elements })))
}

fn row_compare(
    strategy: BtreeStrategy,
    functions: &[(Function, Function)],
    left: &[Code],
    right: &[Code],
    cx: &ExecContext<'_>,
    frame: &mut Frame,
) -> Result<Datum> {
    let inclusive = matches!(strategy, BtreeStrategy::LessEqual | BtreeStrategy::GreaterEqual);
    for (((equal, operator), left), right) in functions.iter().zip(left).zip(right) {
        let pair = [left.eval(cx, frame)?, right.eval(cx, frame)?];
        match equal.call(cx, &pair)? {
            Datum::Bool(true) => {}
            Datum::Bool(false) => return operator.call(cx, &pair),
            _ => return Ok(Datum::Null),
        }
    }
    Ok(Datum::Bool(inclusive))
}

fn domain(check: &DomainCheck, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<Datum> {
    let value = check.arg.eval(cx, frame)?;
    let shown = || cx.env.format_type(check.domain, -1);
    if check.not_null && value.is_null() {
        let mut error = err!(NOT_NULL_VIOLATION, "domain {} does not allow null values", shown());
        error.report_mut().data_type = Some(check.name.to_string());
        return Err(error);
    }
    if !check.checks.is_empty() {
        frame.registers[check.register] = value.clone();
        for (name, code) in &check.checks {
            if matches!(code.eval(cx, frame)?, Datum::Bool(false)) {
                let mut error = err!(
                    CHECK_VIOLATION,
                    "value for domain {} violates check constraint \"{name}\"",
                    shown()
                )
                .constraint(name.to_string());
                error.report_mut().data_type = Some(check.name.to_string());
                return Err(error);
            }
        }
    }
    Ok(value)
}

fn sql_value(function: SqlValueFunction, typmod: i32, cx: &ExecContext<'_>) -> Result<Datum> {
    let text = |value: &str| Datum::text(value);
    // The transaction's time, read as the type's text would be: this keeps the rules for zones and precisions
    // in one place.
    let now = Datum::TimestampTz(cx.env.transaction_time());
    let through = |target| {
        let written = cairn_types::io::output_string(&now, types::TIMESTAMPTZ, cx.env)?;
        cairn_types::io::input(&written, target, typmod, cx.env)
    };
    match function {
        SqlValueFunction::CurrentDate => through(types::DATE),
        SqlValueFunction::CurrentTime => through(types::TIMETZ),
        SqlValueFunction::CurrentTimestamp if typmod < 0 => Ok(now),
        SqlValueFunction::CurrentTimestamp => through(types::TIMESTAMPTZ),
        SqlValueFunction::LocalTime => through(types::TIME),
        SqlValueFunction::LocalTimestamp => through(types::TIMESTAMP),
        SqlValueFunction::CurrentRole | SqlValueFunction::CurrentUser | SqlValueFunction::User => {
            Ok(text(&cx.env.current_user()))
        }
        SqlValueFunction::SessionUser => Ok(text(&cx.env.session_user())),
        SqlValueFunction::CurrentCatalog => Ok(text(&cx.env.current_database())),
        SqlValueFunction::CurrentSchema => {
            let info = cairn_types::CallInfo {
                arg_types: &[],
                result_type: types::NAME,
                collation: 0,
                columns: &[],
                variadic: false,
            };
            cx.env.system_function("current_schema", &[], &info)
        }
    }
}

/// `array(select ...)`: the array of the elements; elements that are arrays become one of a dimension more.
pub fn collect_array(element_type: cairn_types::Oid, elements: Vec<Datum>) -> Result<Datum> {
    if elements.iter().any(|element| matches!(element, Datum::Array(_))) {
        return stack_arrays(element_type, elements);
    }
    Ok(Datum::Array(Arc::new(Array::from_elements(element_type, elements))))
}

pub(super) fn int4_as_oid(value: Datum) -> Datum {
    match value {
        Datum::Int4(value) => Datum::Oid(value.cast_unsigned()),
        other => other,
    }
}

pub(super) fn oid_as_int4(value: Datum) -> Datum {
    match value {
        Datum::Oid(value) => Datum::Int4(value.cast_signed()),
        other => other,
    }
}
