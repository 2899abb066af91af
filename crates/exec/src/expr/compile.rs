//! From an analyzed expression to [`Code`].

use std::sync::Arc;

use cairn_analyze::query::{ArrayOperatorCall, Expr, FunctionCall, OperatorCall, Var, system_columns};
use cairn_catalog::{BtreeStrategy, Proc, TypeKind, TypeRef};
use cairn_types::oid::languages;
use cairn_types::row::PhysicalKind;
use cairn_types::{Datum, Error, Oid, RecordField, Result, bail, types};

use super::{Body, Code, CompareTest, DomainCheck, Function, Subscript, constant};
use crate::planner::Planner;
use cairn_analyze::expr_type;

impl Planner<'_> {
    /// Compiles an expression of the current query level. Immutable functions of constants are evaluated now.
    pub fn compile(&mut self, expr: &Expr) -> Result<Code> {
        if let Some(register) = self.computed(expr, 0) {
            return Ok(Code::Register(register));
        }
        let code = crate::stack::deep(|| self.compile_plain(expr))?;
        self.fold(code)
    }

    /// Evaluates what is constant. Errors: what fails in it, unless that is left to the execution.
    pub(crate) fn fold(&self, code: Code) -> Result<Code> {
        let failed = self.leaves_failures.then_some(&self.has_failures);
        constant::fold(code, self.cx.env, failed)
    }

    pub fn compile_all(&mut self, exprs: &[Expr]) -> Result<Vec<Code>> {
        exprs.iter().map(|expr| self.compile(expr)).collect()
    }

    /// Compiles operands up to the first constant after which the others do not matter.
    fn compile_until(&mut self, exprs: &[Expr], last: fn(&Datum) -> bool) -> Result<Box<[Code]>> {
        let mut codes = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let code = self.compile(expr)?;
            let done = code.as_const().is_some_and(last);
            codes.push(code);
            if done {
                break;
            }
        }
        Ok(codes.into())
    }

    /// Where a node below has put the expression's value. `levels_up`: of the query level to look at.
    fn computed(&self, expr: &Expr, levels_up: u32) -> Option<usize> {
        let index = self.levels.len().checked_sub(1 + levels_up as usize)?;
        let stage = &self.levels[index].stage;
        if stage.computed.is_empty() {
            return None;
        }
        stage
            .computed
            .iter()
            .find(|(computed, _)| super::equal::same(computed, expr))
            .map(|(_, register)| *register)
    }

    fn compile_plain(&mut self, expr: &Expr) -> Result<Code> {
        Ok(match expr {
            Expr::Const { value, .. } => Code::Const(value.clone()),
            Expr::Var(var) => self.compile_var(var)?,
            Expr::Param { number, .. } => Code::Param((*number as usize).saturating_sub(1)),
            Expr::Function(call) => {
                let code = self.compile_function(call)?;
                // The cast from smallint to oid is made by the function that gives an integer.
                let returned = self.catalog().proc(call.function).map(|proc| proc.return_type);
                let is_oid = self.catalog().physical_kind(call.ty.oid) == PhysicalKind::Oid;
                if returned == Some(types::INT4) && is_oid { Code::Int4AsOid(Box::new(code)) } else { code }
            }
            Expr::Operator(call) => self.compile_operator(call)?,
            Expr::DistinctFrom(call) | Expr::NullIf(call) => {
                let equal = Box::new(self.operator_function(call)?);
                let args = Box::new(self.pair(&call.args)?);
                if matches!(expr, Expr::DistinctFrom(_)) {
                    Code::DistinctFrom { equal, args }
                } else {
                    Code::NullIf { equal, args }
                }
            }
            Expr::ArrayOperator(call) => self.compile_array_operator(call)?,
            Expr::And(args) => {
                Code::And(self.compile_until(args, |value| matches!(value, Datum::Bool(false)))?)
            }
            Expr::Or(args) => Code::Or(self.compile_until(args, |value| matches!(value, Datum::Bool(true)))?),
            Expr::Not(arg) => Code::Not(self.boxed(arg)?),
            Expr::SubLink(link) => self.compile_sublink(link)?,
            Expr::Aggregate(call) => {
                // An aggregate of an outer query was computed there, over that query's own expressions.
                let mut own = (**call).clone();
                own.levels_up = 0;
                for arg in own.direct_args.iter_mut().chain(&mut own.args).chain(own.filter.as_mut()) {
                    lower_levels(arg, call.levels_up);
                }
                for order in &mut own.order {
                    lower_levels(&mut order.expr, call.levels_up);
                }
                match self.computed(&Expr::Aggregate(Box::new(own)), call.levels_up) {
                    Some(register) => Code::Register(register),
                    None => return Err(Error::internal("aggregate outside of an aggregation")),
                }
            }
            Expr::Window(_) => {
                return Err(Error::internal("window function outside of a window aggregation"));
            }
            Expr::Grouping { references, .. } => {
                let Some((register, sets)) = self.level().stage.grouping.clone() else {
                    return Ok(Code::Const(Datum::Int4(0)));
                };
                let answers = sets
                    .iter()
                    .map(|set| {
                        references
                            .iter()
                            .fold(0, |mask, reference| mask << 1 | i32::from(!set.contains(reference)))
                    })
                    .collect();
                Code::Grouping { register, answers }
            }
            Expr::Subscript(subscript) => {
                let container_type = expr_type(&subscript.container).oid;
                let optional = |planner: &mut Self, list: &[Option<Expr>]| -> Result<Vec<Option<Code>>> {
                    list.iter()
                        .map(|item| item.as_ref().map(|item| planner.compile(item)).transpose())
                        .collect()
                };
                let base = self.catalog().base_type(container_type);
                Code::Subscript(Box::new(Subscript {
                    container: self.compile(&subscript.container)?,
                    container_type,
                    element_type: self.catalog().type_by_oid(base).map_or(0, |object| object.element),
                    upper: optional(self, &subscript.upper)?,
                    lower: optional(self, &subscript.lower)?,
                    slice: subscript.slice,
                    assignment: subscript.assignment.as_ref().map(|value| self.compile(value)).transpose()?,
                    jsonb: base == types::JSONB,
                }))
            }
            Expr::Field { record, number, .. } => Code::Field {
                index: self.field_index(expr_type(record), *number),
                record: self.boxed(record)?,
            },
            Expr::Relabel { arg, ty, .. } => {
                let kinds =
                    (self.catalog().physical_kind(expr_type(arg).oid), self.catalog().physical_kind(ty.oid));
                match kinds {
                    (PhysicalKind::Int4, PhysicalKind::Oid) => Code::Int4AsOid(self.boxed(arg)?),
                    (PhysicalKind::Oid, PhysicalKind::Int4) => Code::OidAsInt4(self.boxed(arg)?),
                    _ => self.compile(arg)?,
                }
            }
            Expr::Collate { arg, .. } => self.compile(arg)?,
            Expr::CoerceViaIo { arg, ty, .. } => Code::ViaIo {
                source: expr_type(arg).oid,
                target: ty.oid,
                typmod: ty.typmod,
                arg: self.boxed(arg)?,
            },
            Expr::ArrayCoerce { arg, element, ty, .. } => {
                let register = self.register();
                let arg = self.boxed(arg)?;
                self.test_values.push(register);
                let element = self.boxed(element);
                self.test_values.pop();
                Code::ArrayCoerce {
                    arg,
                    element: element?,
                    register,
                    element_type: self.catalog().array_element(self.catalog().base_type(ty.oid)),
                }
            }
            Expr::ConvertRow { arg, ty, .. } => Code::ConvertRow {
                arg: self.boxed(arg)?,
                type_oid: ty.oid,
                fields: self.record_shape(ty.oid).unwrap_or_default(),
            },
            Expr::TestValue { .. } => match self.test_values.last() {
                Some(register) => Code::Register(*register),
                None => return Err(Error::internal("test value outside of its expression")),
            },
            Expr::CoerceToDomain { arg, ty, .. } => self.compile_domain(arg, *ty)?,
            Expr::Case(case) => {
                let subject = match &case.arg {
                    Some(arg) => {
                        let code = self.boxed(arg)?;
                        Some((code, self.register()))
                    }
                    None => None,
                };
                if let Some((_, register)) = &subject {
                    self.test_values.push(*register);
                }
                let mut whens = Vec::with_capacity(case.whens.len());
                let mut default = None;
                for (when, then) in &case.whens {
                    if let Some((_, register)) = &subject {
                        self.test_values.push(*register);
                    }
                    let when = self.compile(when);
                    if subject.is_some() {
                        self.test_values.pop();
                    }
                    let when = when?;
                    // What a constant condition rules out is not compiled: it might fail.
                    match when.as_const() {
                        Some(Datum::Bool(true)) => {
                            default = Some(self.boxed(then)?);
                            break;
                        }
                        Some(_) => {}
                        None => whens.push((when, self.compile(then)?)),
                    }
                }
                let default = match default {
                    Some(default) => default,
                    None => self.boxed(&case.default)?,
                };
                if whens.is_empty() && subject.is_none() {
                    return Ok(*default);
                }
                Code::Case { subject, whens: whens.into(), default }
            }
            Expr::Array { elements, element_type, multidimensional, .. } => Code::Array {
                elements: self.compile_all(elements)?.into(),
                element_type: *element_type,
                multidimensional: *multidimensional,
            },
            Expr::Row { fields, names, ty, .. } => {
                let fields = &*self.live_fields(fields, *ty);
                let shape = match self.record_shape(ty.oid) {
                    Some(shape) if shape.len() == fields.len() => shape,
                    _ => fields
                        .iter()
                        .enumerate()
                        .map(|(index, field)| {
                            let ty = expr_type(field);
                            RecordField {
                                name: names
                                    .get(index)
                                    .cloned()
                                    .unwrap_or_else(|| format!("f{}", index + 1).into()),
                                type_oid: ty.oid,
                                typmod: ty.typmod,
                            }
                        })
                        .collect(),
                };
                Code::Row { fields: self.compile_all(fields)?.into(), type_oid: ty.oid, shape }
            }
            Expr::RowCompare { strategy, operators, left, right, .. } => {
                self.compile_row_compare(*strategy, operators, left, right)?
            }
            Expr::Coalesce { args, .. } => {
                Code::Coalesce(self.compile_until(args, |value| !value.is_null())?)
            }
            Expr::MinMax { greatest, args, ty, .. } => Code::MinMax {
                greatest: *greatest,
                blank_padded: ty.oid == types::BPCHAR,
                args: self.compile_all(args)?.into(),
            },
            Expr::SqlValue { function, ty, .. } => Code::SqlValue { function: *function, typmod: ty.typmod },
            Expr::NullTest { arg, is_null, row_type, .. } => {
                Code::NullTest { arg: self.boxed(arg)?, is_null: *is_null, row: *row_type }
            }
            Expr::BooleanTest { arg, test, .. } => Code::BooleanTest { arg: self.boxed(arg)?, test: *test },
            Expr::Default { .. } => return Err(Error::internal("DEFAULT left in a query")),
            Expr::CurrentOf { cursor } => {
                let target = self.level().query.result_relation;
                let Some(target) = target else {
                    return Err(Error::unsupported("WHERE CURRENT OF in this place is"));
                };
                let key = self.need_key(target);
                let table = self.rel(target).relation.as_ref().map_or(0, |relation| relation.oid);
                Code::CurrentOf { cursor: Arc::clone(cursor), table, key }
            }
            Expr::NextValue { sequence, ty } => Code::NextValue { sequence: *sequence, ty: ty.oid },
        })
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<Code>> {
        Ok(Box::new(self.compile(expr)?))
    }

    fn pair(&mut self, args: &[Expr]) -> Result<[Code; 2]> {
        let [left, right] = args else { return Err(Error::internal("an operator of two operands expected")) };
        Ok([self.compile(left)?, self.compile(right)?])
    }

    fn compile_var(&mut self, var: &Var) -> Result<Code> {
        if var.levels_up > 0 {
            let mut own = var.clone();
            own.levels_up = 0;
            if let Some(register) = self.computed(&Expr::Var(own), var.levels_up) {
                return Ok(Code::Register(register));
            }
        }
        let index = (self.levels.len())
            .checked_sub(1 + var.levels_up as usize)
            .ok_or_else(|| Error::internal("a Var of a query level that is not there"))?;
        let level = &self.levels[index];
        let Some(rel) = level.rels.get(var.varno) else {
            return Err(Error::internal("a Var of a range table entry that is not there"));
        };
        match var.attno {
            0 => {
                let columns: Vec<i16> = match &rel.relation {
                    Some(relation) => relation
                        .columns
                        .iter()
                        .filter(|column| !column.dropped)
                        .map(|column| column.attnum)
                        .collect(),
                    None => (1..=rel.columns as i16).collect(),
                };
                Ok(Code::WholeRow {
                    registers: columns.into_iter().map(|attno| rel.register(attno)).collect(),
                    type_oid: if rel.row_type == types::RECORD { var.ty.oid } else { rel.row_type },
                    shape: Arc::clone(&rel.shape),
                })
            }
            system_columns::TABLEOID => {
                Ok(Code::Const(Datum::Oid(rel.relation.as_ref().map_or(0, |relation| relation.oid))))
            }
            system_columns::CTID => match rel.tid {
                Some(register) => Ok(Code::Register(register)),
                None => Err(Error::unsupported("system column ctid here is")),
            },
            attno if attno < 0 => Err(Error::unsupported(format!("system column number {attno} is"))),
            attno => {
                if level.stage.closed && var.levels_up == 0 {
                    return Err(Error::internal(format!(
                        "column {attno} of entry {} is not grouped",
                        var.varno
                    )));
                }
                Ok(Code::Register(rel.register(attno)))
            }
        }
    }

    /// The function behind an oid with the types of one call; 0A000 if Cairn has no body for it.
    pub fn function(
        &self,
        oid: Oid,
        arg_types: Vec<Oid>,
        result_type: Oid,
        collation: Oid,
        variadic: bool,
    ) -> Result<Function> {
        let Some(proc) = self.catalog().proc(oid) else {
            bail!(UNDEFINED_FUNCTION, "function with OID {oid} does not exist");
        };
        let body = match proc.language {
            languages::INTERNAL | languages::C => {
                let scalar = cairn_functions::scalar(&proc.source).map(Body::Scalar);
                let set = || cairn_functions::set_returning(&proc.source).map(Body::Set);
                let body = if proc.returns_set { set().or(scalar) } else { scalar.or_else(set) };
                body.ok_or_else(|| cairn_functions::missing(&self.signature(proc)))?
            }
            // Most built-in functions in language sql are computed without a query.
            languages::SQL => cairn_functions::built_in_sql(oid).map_or(Body::Runner, Body::Scalar),
            _ => Body::Runner,
        };
        let columns = self.output_columns(proc);
        Ok(Function {
            proc: Arc::clone(proc),
            strict: proc.strict,
            body,
            arg_types: arg_types.into(),
            result_type,
            collation,
            variadic,
            columns,
        })
    }

    /// The OUT parameters of a record-returning function.
    fn output_columns(&self, proc: &Proc) -> Box<[RecordField]> {
        use cairn_catalog::ArgMode;
        if proc.return_type != types::RECORD {
            return Box::default();
        }
        proc.arg_modes
            .iter()
            .zip(&proc.all_arg_types)
            .enumerate()
            .filter(|(_, (mode, _))| matches!(mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table))
            .map(|(index, (_, type_oid))| RecordField {
                name: proc.arg_names.get(index).cloned().unwrap_or_default(),
                type_oid: *type_oid,
                typmod: -1,
            })
            .collect()
    }

    fn signature(&self, proc: &Proc) -> String {
        let args: Vec<String> = proc.arg_types.iter().map(|oid| self.cx.env.format_type(*oid, -1)).collect();
        format!("{}({})", proc.name, args.join(", "))
    }

    pub fn operator_function(&self, call: &OperatorCall) -> Result<Function> {
        let arg_types = call.args.iter().map(|arg| expr_type(arg).oid).collect();
        self.function(call.function, arg_types, call.ty.oid, call.collation, false)
    }

    /// A call's function with its arguments compiled.
    pub fn function_call(&mut self, call: &FunctionCall) -> Result<(Function, Vec<Code>)> {
        let arg_types = call.args.iter().map(|arg| expr_type(arg).oid).collect();
        let function = self.function(call.function, arg_types, call.ty.oid, call.collation, call.variadic)?;
        Ok((function, self.compile_all(&call.args)?))
    }

    fn compile_function(&mut self, call: &FunctionCall) -> Result<Code> {
        if call.returns_set {
            bail!(FEATURE_NOT_SUPPORTED, "set-valued function called in context that cannot accept a set");
        }
        let (function, args) = self.function_call(call)?;
        Ok(build_call(function, args))
    }

    fn compile_operator(&mut self, call: &OperatorCall) -> Result<Code> {
        let function = self.operator_function(call)?;
        if let (Some((test, blank_padded)), [_, _]) = (plain_comparison(&function), call.args.as_slice()) {
            return Ok(Code::Compare { test, blank_padded, args: Box::new(self.pair(&call.args)?) });
        }
        let args = self.compile_all(&call.args)?;
        Ok(build_call(function, args))
    }

    fn compile_array_operator(&mut self, call: &ArrayOperatorCall) -> Result<Code> {
        let array_type = expr_type(&call.array).oid;
        let element = self.catalog().array_element(self.catalog().base_type(array_type));
        let function = self.function(
            call.function,
            vec![expr_type(&call.left).oid, element],
            types::BOOL,
            call.collation,
            false,
        )?;
        Ok(Code::ArrayOperator {
            function: Box::new(function),
            any: call.any,
            left: self.boxed(&call.left)?,
            array: self.boxed(&call.array)?,
        })
    }

    /// Row-wise comparison: for each column its equality and its operator.
    pub fn row_compare_functions(
        &self,
        operators: &[Oid],
        operand_types: &[(TypeRef, TypeRef)],
    ) -> Result<Box<[(Function, Function)]>> {
        operators
            .iter()
            .zip(operand_types)
            .map(|(oid, (left, right))| {
                let operator = self
                    .catalog()
                    .operator(*oid)
                    .ok_or_else(|| Error::internal(format!("operator {oid} does not exist")))?;
                let equal = self
                    .catalog()
                    .operator_memberships(*oid)
                    .iter()
                    .find_map(|member| {
                        self.catalog().opfamily_operator(
                            member.family,
                            member.left,
                            member.right,
                            BtreeStrategy::Equal,
                        )
                    })
                    .and_then(|equal| self.catalog().operator(equal))
                    .ok_or_else(|| Error::internal(format!("operator {oid} has no equality beside it")))?;
                let arg_types = || vec![left.oid, right.oid];
                Ok((
                    self.function(equal.code, arg_types(), types::BOOL, left.collation, false)?,
                    self.function(operator.code, arg_types(), types::BOOL, left.collation, false)?,
                ))
            })
            .collect()
    }

    fn compile_row_compare(
        &mut self,
        strategy: BtreeStrategy,
        operators: &[Oid],
        left: &[Expr],
        right: &[Expr],
    ) -> Result<Code> {
        let operand_types: Vec<_> =
            left.iter().zip(right).map(|(a, b)| (expr_type(a), expr_type(b))).collect();
        Ok(Code::RowCompare {
            strategy,
            equals: self.row_compare_functions(operators, &operand_types)?,
            left: self.compile_all(left)?.into(),
            right: self.compile_all(right)?.into(),
        })
    }

    /// Fields of a composite type; `None` for an anonymous record.
    pub fn record_shape(&self, type_oid: Oid) -> Option<Arc<[RecordField]>> {
        let object = self.catalog().type_by_oid(self.catalog().base_type(type_oid))?;
        if object.kind != TypeKind::Composite {
            return None;
        }
        let relation = self.catalog().relation(object.relation)?;
        let fields = relation.columns.iter().filter(|column| !column.dropped).map(|column| RecordField {
            name: Arc::clone(&column.name),
            type_oid: column.ty.oid,
            typmod: column.ty.typmod,
        });
        Some(fields.collect())
    }

    /// The fields of a row that its type still has: the analyzer gives one for each attribute number, and dropped attributes
    /// have no value.
    fn live_fields<'e>(&self, fields: &'e [Expr], ty: TypeRef) -> std::borrow::Cow<'e, [Expr]> {
        let relation = self
            .catalog()
            .type_by_oid(self.catalog().base_type(ty.oid))
            .filter(|object| object.kind == TypeKind::Composite)
            .and_then(|object| self.catalog().relation(object.relation))
            .filter(|relation| relation.columns.len() == fields.len())
            .filter(|relation| relation.columns.iter().any(|column| column.dropped));
        match relation {
            Some(relation) => fields
                .iter()
                .zip(&relation.columns)
                .filter(|(_, column)| !column.dropped)
                .map(|(field, _)| field.clone())
                .collect(),
            None => fields.into(),
        }
    }

    /// Where in a record's values an attribute is: dropped attributes have no value.
    fn field_index(&self, ty: TypeRef, number: i16) -> usize {
        let relation = self
            .catalog()
            .type_by_oid(self.catalog().base_type(ty.oid))
            .filter(|object| object.kind == TypeKind::Composite)
            .and_then(|object| self.catalog().relation(object.relation));
        let position = (number as usize).saturating_sub(1);
        match relation {
            Some(relation) => {
                position - relation.columns.iter().take(position).filter(|column| column.dropped).count()
            }
            None => position,
        }
    }

    fn compile_domain(&mut self, arg: &Expr, ty: TypeRef) -> Result<Code> {
        let arg = self.compile(arg)?;
        let register = self.register();
        let mut check = DomainCheck {
            arg,
            domain: ty.oid,
            name: Default::default(),
            not_null: false,
            checks: Vec::new(),
            register,
        };
        // The checks of the inner domains come first.
        let mut layers = Vec::new();
        let mut oid = ty.oid;
        while let Some(object) =
            self.catalog().type_by_oid(oid).filter(|object| object.kind == TypeKind::Domain)
        {
            if layers.is_empty() {
                check.name = Arc::clone(&object.name);
            }
            layers.push(Arc::clone(object));
            oid = object.base;
        }
        for layer in layers.iter().rev() {
            check.not_null |= layer.not_null;
            for constraint in &layer.checks {
                let Some(text) = &constraint.expression else { continue };
                let expr = self.cx.expressions.over_domain(layer.oid, text)?;
                self.test_values.push(register);
                let code = self.compile(&expr);
                self.test_values.pop();
                check.checks.push((Arc::clone(&constraint.name), code?));
            }
        }
        Ok(Code::Domain(Box::new(check)))
    }
}

/// The cheapest form for the number of arguments.
pub fn build_call(function: Function, args: Vec<Code>) -> Code {
    let function = Box::new(function);
    match <[Code; 1]>::try_from(args) {
        Ok([arg]) => Code::Call1 { function, arg: Box::new(arg) },
        Err(args) => match <[Code; 2]>::try_from(args) {
            Ok(args) => Code::Call2 { function, args: Box::new(args) },
            Err(args) => Code::Call { function, args: args.into() },
        },
    }
}

/// Makes an expression that lives `delta` levels down one of the level that it refers to.
fn lower_levels(expr: &mut Expr, delta: u32) {
    if delta == 0 {
        return;
    }
    cairn_analyze::walk::deep_mut(expr, 0, &mut |expr, level| {
        if let Expr::Var(var) = expr
            && var.levels_up >= level + delta
        {
            var.levels_up -= delta;
        }
    });
}

/// Whether the function is a comparison that [`cairn_types::compare`] does as well: which one, and whether blanks at
/// the end do not count.
pub fn plain_comparison(function: &Function) -> Option<(CompareTest, bool)> {
    if !matches!(function.body, Body::Scalar(_)) {
        return None;
    }
    const PREFIXES: &[&str] = &[
        "int2",
        "int4",
        "int8",
        "int24",
        "int28",
        "int42",
        "int48",
        "int82",
        "int84",
        "bool",
        "char",
        "oid",
        "float4",
        "float8",
        "float48",
        "float84",
        "text",
        "text_",
        "bpchar",
        "name",
        "date_",
        "timestamp_",
        "timestamptz_",
        "time_",
        "timetz_",
        "interval_",
        "uuid_",
        "numeric_",
        "bytea",
        "enum_",
        "jsonb_",
        "array_",
        "record_",
    ];
    let source: &str = &function.proc.source;
    let (prefix, test) = source.split_at_checked(source.len().checked_sub(2)?)?;
    let test = match test {
        "eq" => CompareTest::Equal,
        "ne" => CompareTest::NotEqual,
        "lt" => CompareTest::Less,
        "le" => CompareTest::LessEqual,
        "gt" => CompareTest::Greater,
        "ge" => CompareTest::GreaterEqual,
        _ => return None,
    };
    PREFIXES.contains(&prefix).then_some((test, prefix == "bpchar"))
}
