//! Expressions: one function a node of the grammar.

use cairn_catalog::TypeRef;
use cairn_types::{Datum, Error, Oid, Result, Text, err, types};
use pg_query::protobuf::{self, Node, a_const::Val, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind,
    coerce::Coercion,
    expr_location, expr_type,
    names::{self, QualifiedName, inner, inner_box},
};
use crate::query::*;

impl Analyzer<'_> {
    /// Analyzes an expression in a clause, which decides what may appear in it.
    pub(crate) fn expression_of_kind(&mut self, node: Option<&Node>, kind: ExprKind) -> Result<Expr> {
        let node = node.ok_or_else(|| Error::internal("missing expression"))?;
        self.expression(inner(node)?, kind)
    }

    pub(crate) fn expression(&mut self, node: &NodeEnum, kind: ExprKind) -> Result<Expr> {
        let before = std::mem::replace(&mut self.level().kind, kind);
        let result = self.expression_inner(node);
        self.level().kind = before;
        result
    }

    /// WHERE and its kin: a boolean.
    pub(crate) fn condition(&mut self, node: &Node, kind: ExprKind, construct: &str) -> Result<Expr> {
        let expr = self.expression_of_kind(Some(node), kind)?;
        self.coerce_to_boolean(expr, construct)
    }

    /// Analyzes an expression within the clause at hand.
    pub(crate) fn expression_inner(&mut self, node: &NodeEnum) -> Result<Expr> {
        self.enter()?;
        // Recursion is bounded by the text's depth; the stack is grown where a thread's own does not do.
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || self.expression_node(node));
        self.leave();
        result
    }

    pub(crate) fn expression_boxed(&mut self, node: &Option<Box<Node>>) -> Result<Expr> {
        self.expression_inner(inner_box(node)?)
    }

    fn expression_list(&mut self, nodes: &[Node]) -> Result<Vec<Expr>> {
        nodes.iter().map(|node| self.expression_inner(inner(node)?)).collect()
    }

    fn expression_node(&mut self, node: &NodeEnum) -> Result<Expr> {
        match node {
            NodeEnum::ColumnRef(column) => self.column_reference(column),
            NodeEnum::AConst(constant) => self.constant(constant),
            NodeEnum::ParamRef(param) => self.parameter(param.number, param.location),
            NodeEnum::AExpr(expr) => self.operator_expression(expr),
            NodeEnum::FuncCall(call) => self.function_call(call),
            NodeEnum::TypeCast(cast) => self.type_cast(cast),
            NodeEnum::BoolExpr(expr) => self.bool_expression(expr),
            NodeEnum::NullTest(test) => self.null_test(test),
            NodeEnum::SubLink(link) => self.sublink(link),
            NodeEnum::CaseExpr(case) => self.case_expression(case),
            NodeEnum::CoalesceExpr(coalesce) => {
                let args = self.expression_list(&coalesce.args)?;
                let (args, ty) = self.common_args(args, "COALESCE")?;
                Ok(Expr::Coalesce { args, ty, location: coalesce.location })
            }
            NodeEnum::MinMaxExpr(minmax) => {
                let greatest = minmax.op == protobuf::MinMaxOp::IsGreatest as i32;
                let args = self.expression_list(&minmax.args)?;
                let (args, ty) = self.common_args(args, if greatest { "GREATEST" } else { "LEAST" })?;
                Ok(Expr::MinMax { greatest, args, ty, location: minmax.location })
            }
            NodeEnum::AArrayExpr(array) => self.array_expression(array, 0, 0, -1),
            NodeEnum::RowExpr(row) => self.row_expression(row),
            NodeEnum::AIndirection(indirection) => self.indirection(indirection),
            NodeEnum::BooleanTest(test) => self.boolean_test(test),
            NodeEnum::CollateClause(collate) => {
                let arg = self.expression_boxed(&collate.arg)?;
                self.collate(arg, &collate.collname, collate.location)
            }
            NodeEnum::SqlvalueFunction(function) => self.sql_value_function(function),
            NodeEnum::GroupingFunc(grouping) => self.grouping_function(grouping),
            NodeEnum::SetToDefault(default) => {
                Err(err!(SYNTAX_ERROR, "DEFAULT is not allowed in this context").at(default.location))
            }
            NodeEnum::CurrentOfExpr(current) => {
                if self.target_relation().is_none() {
                    return Err(Error::internal("WHERE CURRENT OF outside of UPDATE and DELETE"));
                }
                Ok(Expr::CurrentOf { cursor: current.cursor_name.as_str().into() })
            }
            NodeEnum::NamedArgExpr(named) => {
                Err(err!(SYNTAX_ERROR, "named argument \"{}\" is not allowed here", named.name)
                    .at(named.location))
            }
            NodeEnum::MultiAssignRef(_) => Err(err!(
                SYNTAX_ERROR,
                "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression"
            )),
            NodeEnum::XmlExpr(xml) => Err(Error::unsupported("XML functions are").at(xml.location)),
            NodeEnum::XmlSerialize(xml) => Err(Error::unsupported("XML functions are").at(xml.location)),
            NodeEnum::JsonIsPredicate(json) => Err(self.after_15("IS JSON", json.location)),
            NodeEnum::JsonObjectConstructor(json) => Err(self.after_15("JSON_OBJECT", json.location)),
            NodeEnum::JsonArrayConstructor(json) => Err(self.after_15("JSON_ARRAY", json.location)),
            NodeEnum::JsonArrayQueryConstructor(json) => Err(self.after_15("JSON_ARRAY", json.location)),
            NodeEnum::JsonFuncExpr(json) => Err(self.after_15("SQL/JSON query functions", json.location)),
            NodeEnum::JsonParseExpr(json) => Err(self.after_15("JSON()", json.location)),
            NodeEnum::JsonScalarExpr(json) => Err(self.after_15("JSON_SCALAR", json.location)),
            NodeEnum::JsonSerializeExpr(json) => Err(self.after_15("JSON_SERIALIZE", json.location)),
            NodeEnum::JsonObjectAgg(_) => Err(self.after_15("JSON_OBJECTAGG", -1)),
            NodeEnum::JsonArrayAgg(_) => Err(self.after_15("JSON_ARRAYAGG", -1)),
            NodeEnum::MergeSupportFunc(merge) => Err(self.after_15("MERGE_ACTION", merge.location)),
            _ => Err(Error::internal("unrecognized node in an expression")),
        }
    }

    /// Syntax that the grammar of 18 has and PostgreSQL 15 has not.
    pub(crate) fn after_15(&self, what: &str, location: Location) -> Error {
        err!(SYNTAX_ERROR, "syntax error at or near \"{what}\"").at(location)
    }

    fn constant(&mut self, constant: &protobuf::AConst) -> Result<Expr> {
        let location = constant.location;
        let make = |value: Datum, ty: TypeRef| Ok(Expr::Const { value, ty, location });
        match &constant.val {
            None => make(Datum::Null, self.lookup.type_ref(types::UNKNOWN)),
            Some(Val::Ival(integer)) => make(Datum::Int4(integer.ival), self.lookup.type_ref(types::INT4)),
            Some(Val::Sval(text)) => {
                make(Datum::text(text.sval.as_str()), self.lookup.type_ref(types::UNKNOWN))
            }
            Some(Val::Boolval(value)) => make(Datum::Bool(value.boolval), self.lookup.type_ref(types::BOOL)),
            Some(Val::Fval(number)) => {
                if let Some((value, ty)) = numeric_literal(&number.fval) {
                    return make(value, self.lookup.type_ref(ty));
                }
                match self
                    .read_literal(&number.fval, types::NUMERIC, -1)
                    .map_err(|error| error.at(location))?
                {
                    Some(value) => make(value, self.lookup.type_ref(types::NUMERIC)),
                    None => Err(Error::internal("numeric literal without a value")),
                }
            }
            Some(Val::Bsval(bits)) => {
                match self.read_literal(&bits.bsval, types::BIT, -1).map_err(|error| error.at(location))? {
                    Some(value) => make(value, self.lookup.type_ref(types::BIT)),
                    None => Err(Error::unsupported("bit string constants are").at(location)),
                }
            }
        }
    }

    fn operator_expression(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        use protobuf::AExprKind as Kind;
        let location = expr.location;
        match Kind::try_from(expr.kind).unwrap_or(Kind::Undefined) {
            Kind::AexprOp => self.plain_operator(expr),
            Kind::AexprOpAny | Kind::AexprOpAll => {
                let any = expr.kind == Kind::AexprOpAny as i32;
                let name = self.qualified_name(&expr.name)?;
                let left = self.expression_boxed(&expr.lexpr)?;
                let right = self.expression_boxed(&expr.rexpr)?;
                self.make_array_operator(&name, any, left, right, location)
            }
            Kind::AexprDistinct | Kind::AexprNotDistinct => {
                let negate = expr.kind == Kind::AexprNotDistinct as i32;
                self.distinct_from(expr, negate)
            }
            Kind::AexprNullif => {
                let left = self.expression_boxed(&expr.lexpr)?;
                let right = self.expression_boxed(&expr.rexpr)?;
                let name = self.qualified_name(&expr.name)?;
                let mut call = self.operator_call(&name, Some(left), right, location)?;
                if call.ty.oid != types::BOOL {
                    return Err(
                        err!(DATATYPE_MISMATCH, "NULLIF requires = operator to yield boolean").at(location)
                    );
                }
                if call.returns_set {
                    return Err(err!(DATATYPE_MISMATCH, "{} must not return a set", "NULLIF").at(location));
                }
                // The result is the first argument.
                call.ty = call.args.first().map_or(call.ty, expr_type);
                Ok(Expr::NullIf(Box::new(call)))
            }
            Kind::AexprIn => self.in_list(expr),
            Kind::AexprLike | Kind::AexprIlike | Kind::AexprSimilar => self.plain_operator(expr),
            Kind::AexprBetween | Kind::AexprNotBetween | Kind::AexprBetweenSym | Kind::AexprNotBetweenSym => {
                self.between(expr)
            }
            Kind::Undefined => Err(Error::internal("unrecognized operator expression")),
        }
    }

    fn plain_operator(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        let location = expr.location;
        let left_node = expr.lexpr.as_ref().and_then(|node| node.node.as_ref());
        let right_node = inner_box(&expr.rexpr)?;
        // `row op (subquery)` compares the row with the subquery's one row.
        if let (Some(NodeEnum::RowExpr(row)), NodeEnum::SubLink(link)) = (left_node, right_node)
            && link.sub_link_type == protobuf::SubLinkType::ExprSublink as i32
        {
            let name = self.qualified_name(&expr.name)?;
            return self.row_compare_sublink(row, &name, link, location);
        }
        if let (Some(NodeEnum::RowExpr(left)), NodeEnum::RowExpr(right)) = (left_node, right_node) {
            let name = self.qualified_name(&expr.name)?;
            let left = self.expression_list(&left.args)?;
            let right = self.expression_list(&right.args)?;
            return self.make_row_comparison(&name, left, right, location);
        }
        let left = match left_node {
            Some(node) => Some(self.expression_inner(node)?),
            None => None,
        };
        let right = self.expression_inner(right_node)?;
        match expr.name.as_slice() {
            [single] => {
                let name = QualifiedName::unqualified(names::string_value(single));
                self.make_operator(&name, left, right, location)
            }
            nodes => {
                let name = self.qualified_name(nodes)?;
                self.make_operator(&name, left, right, location)
            }
        }
    }

    fn distinct_from(&mut self, expr: &protobuf::AExpr, negate: bool) -> Result<Expr> {
        let location = expr.location;
        let left_node = inner_box(&expr.lexpr)?;
        let right_node = inner_box(&expr.rexpr)?;
        // A side that is plainly NULL makes it a null test.
        if is_null_constant(right_node) || is_null_constant(left_node) {
            let operand = if is_null_constant(right_node) { left_node } else { right_node };
            let arg = self.expression_inner(operand)?;
            return Ok(Expr::NullTest { arg: Box::new(arg), is_null: negate, row_type: false, location });
        }
        let distinct = if let (NodeEnum::RowExpr(left), NodeEnum::RowExpr(right)) = (left_node, right_node) {
            let left = self.expression_list(&left.args)?;
            let right = self.expression_list(&right.args)?;
            self.make_row_distinct(left, right, location)?
        } else {
            let left = self.expression_inner(left_node)?;
            let right = self.expression_inner(right_node)?;
            self.make_distinct(left, right, location)?
        };
        Ok(if negate { Expr::Not(Box::new(distinct)) } else { distinct })
    }

    /// `x in (a, b, c)`: an array operator over those that have no columns in them, ORed with the others one by one.
    fn in_list(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        let location = expr.location;
        let name = self.qualified_name(&expr.name)?;
        let use_or = &*name.name != "<>";
        let NodeEnum::List(list) = inner_box(&expr.rexpr)? else {
            return Err(Error::internal("IN without a list"));
        };
        let left_node = inner_box(&expr.lexpr)?;
        if let NodeEnum::RowExpr(left_row) = left_node {
            let mut tests = Vec::with_capacity(list.items.len());
            for item in &list.items {
                let NodeEnum::RowExpr(right_row) = inner(item)? else {
                    let left = self.expression_inner(left_node)?;
                    let right = self.expression_inner(inner(item)?)?;
                    tests.push(self.make_operator(&name, Some(left), right, location)?);
                    continue;
                };
                let left = self.expression_list(&left_row.args)?;
                let right = self.expression_list(&right_row.args)?;
                tests.push(self.make_row_comparison(&name, left, right, location)?);
            }
            return Ok(combine(tests, use_or));
        }
        let left = self.expression_inner(left_node)?;
        let mut with_vars = Vec::new();
        let mut without = Vec::new();
        for item in &list.items {
            let expr = self.expression_inner(inner(item)?)?;
            if contains_vars(&expr) { with_vars.push(expr) } else { without.push(expr) }
        }
        let mut tests = Vec::new();
        if without.len() > 1 {
            let mut all: Vec<&Expr> = vec![&left];
            all.extend(without.iter());
            let scalar = self.select_common_type(&all, None)?;
            let array_type = match scalar {
                Some(scalar)
                    if scalar != types::RECORD
                        && all.iter().all(|expr| {
                            self.can_coerce(&[expr_type(expr).oid], &[scalar], Coercion::Implicit)
                        }) =>
                {
                    self.lookup.array_of(scalar)
                }
                _ => 0,
            };
            if let (Some(scalar), true) = (scalar, array_type != 0) {
                let mut elements = Vec::with_capacity(without.len());
                for element in std::mem::take(&mut without) {
                    elements.push(self.coerce_to_common(element, scalar, "IN")?);
                }
                let array = Expr::Array {
                    elements,
                    element_type: scalar,
                    multidimensional: false,
                    ty: self.lookup.type_ref(array_type),
                    location: -1,
                };
                tests.push(self.make_array_operator(&name, use_or, left.clone(), array, location)?);
            }
        }
        without.extend(with_vars);
        for item in without {
            let test = self.make_operator(&name, Some(left.clone()), item, location)?;
            tests.push(self.coerce_to_boolean(test, "IN")?);
        }
        Ok(combine(tests, use_or))
    }

    fn between(&mut self, expr: &protobuf::AExpr) -> Result<Expr> {
        use protobuf::AExprKind as Kind;
        let location = expr.location;
        let NodeEnum::List(list) = inner_box(&expr.rexpr)? else {
            return Err(Error::internal("BETWEEN without bounds"));
        };
        let [low, high] = list.items.as_slice() else {
            return Err(Error::internal("BETWEEN without two bounds"));
        };
        let value = self.expression_boxed(&expr.lexpr)?;
        let low = self.expression_inner(inner(low)?)?;
        let high = self.expression_inner(inner(high)?)?;
        let mut compare = |operator: &str, bound: &Expr| {
            self.make_operator(
                &QualifiedName::operator(operator),
                Some(value.clone()),
                bound.clone(),
                location,
            )
        };
        Ok(match Kind::try_from(expr.kind).unwrap_or(Kind::Undefined) {
            Kind::AexprBetween => Expr::And(vec![compare(">=", &low)?, compare("<=", &high)?]),
            Kind::AexprNotBetween => Expr::Or(vec![compare("<", &low)?, compare(">", &high)?]),
            Kind::AexprBetweenSym => Expr::Or(vec![
                Expr::And(vec![compare(">=", &low)?, compare("<=", &high)?]),
                Expr::And(vec![compare(">=", &high)?, compare("<=", &low)?]),
            ]),
            _ => Expr::And(vec![
                Expr::Or(vec![compare("<", &low)?, compare(">", &high)?]),
                Expr::Or(vec![compare("<", &high)?, compare(">", &low)?]),
            ]),
        })
    }

    fn bool_expression(&mut self, expr: &protobuf::BoolExpr) -> Result<Expr> {
        let (construct, is_or) = match protobuf::BoolExprType::try_from(expr.boolop) {
            Ok(protobuf::BoolExprType::NotExpr) => {
                let arg = expr.args.first().ok_or_else(|| Error::internal("NOT without an operand"))?;
                let arg = self.expression_inner(inner(arg)?)?;
                return Ok(Expr::Not(Box::new(self.coerce_to_boolean(arg, "NOT")?)));
            }
            Ok(protobuf::BoolExprType::OrExpr) => ("OR", true),
            _ => ("AND", false),
        };
        let mut args = Vec::with_capacity(expr.args.len());
        for arg in &expr.args {
            let arg = self.expression_inner(inner(arg)?)?;
            args.push(self.coerce_to_boolean(arg, construct)?);
        }
        Ok(if is_or { Expr::Or(args) } else { Expr::And(args) })
    }

    fn null_test(&mut self, test: &protobuf::NullTest) -> Result<Expr> {
        let arg = self.expression_boxed(&test.arg)?;
        let ty = expr_type(&arg).oid;
        let row_type = ty == types::RECORD || self.lookup.is_composite(ty);
        Ok(Expr::NullTest {
            arg: Box::new(arg),
            is_null: test.nulltesttype == protobuf::NullTestType::IsNull as i32,
            row_type,
            location: test.location,
        })
    }

    fn boolean_test(&mut self, test: &protobuf::BooleanTest) -> Result<Expr> {
        use protobuf::BoolTestType as Kind;
        let (kind, construct) = match Kind::try_from(test.booltesttype).unwrap_or(Kind::Undefined) {
            Kind::IsTrue => (BooleanTest::IsTrue, "IS TRUE"),
            Kind::IsNotTrue => (BooleanTest::IsNotTrue, "IS NOT TRUE"),
            Kind::IsFalse => (BooleanTest::IsFalse, "IS FALSE"),
            Kind::IsNotFalse => (BooleanTest::IsNotFalse, "IS NOT FALSE"),
            Kind::IsUnknown => (BooleanTest::IsUnknown, "IS UNKNOWN"),
            Kind::IsNotUnknown => (BooleanTest::IsNotUnknown, "IS NOT UNKNOWN"),
            Kind::Undefined => return Err(Error::internal("unrecognized boolean test")),
        };
        let arg = self.expression_boxed(&test.arg)?;
        let arg = self.coerce_to_boolean(arg, construct)?;
        Ok(Expr::BooleanTest { arg: Box::new(arg), test: kind, location: test.location })
    }

    fn case_expression(&mut self, case: &protobuf::CaseExpr) -> Result<Expr> {
        let mut arg = None;
        let mut test_value = None;
        if let Some(node) = &case.arg {
            let expr = self.expression_inner(inner(node)?)?;
            // An unknown literal has to become something that the whens can be compared with.
            let expr = self.resolve_unknown(expr)?;
            test_value = Some(Expr::TestValue { ty: expr_type(&expr) });
            arg = Some(expr);
        }
        let mut conditions = Vec::with_capacity(case.args.len());
        let mut results = Vec::with_capacity(case.args.len() + 1);
        for when in &case.args {
            let NodeEnum::CaseWhen(when) = inner(when)? else {
                return Err(Error::internal("CASE without WHEN"));
            };
            let condition = match &test_value {
                Some(test) => {
                    let value = self.expression_boxed(&when.expr)?;
                    self.make_operator(
                        &QualifiedName::operator("="),
                        Some(test.clone()),
                        value,
                        when.location,
                    )?
                }
                None => self.expression_boxed(&when.expr)?,
            };
            conditions.push(self.coerce_to_boolean(condition, "CASE/WHEN")?);
            results.push(self.expression_boxed(&when.result)?);
        }
        let default = match &case.defresult {
            Some(node) => self.expression_inner(inner(node)?)?,
            None => {
                Expr::Const { value: Datum::Null, ty: self.lookup.type_ref(types::UNKNOWN), location: -1 }
            }
        };
        // The default counts first when the common type is chosen.
        let mut all: Vec<&Expr> = vec![&default];
        all.extend(results.iter());
        let common = self.select_common_type(&all, Some("CASE"))?.unwrap_or(types::TEXT);
        let typmod = self.select_common_typmod(&all, common);
        let default = self.coerce_to_common(default, common, "CASE/ELSE")?;
        let mut whens = Vec::with_capacity(conditions.len());
        for (condition, result) in conditions.into_iter().zip(results) {
            whens.push((condition, self.coerce_to_common(result, common, "CASE/WHEN")?));
        }
        for (_, result) in &whens {
            self.refuse_set_in(result, "CASE")?;
        }
        self.refuse_set_in(&default, "CASE")?;
        let ty = TypeRef { typmod, ..self.lookup.type_ref(common) };
        Ok(Expr::Case(Box::new(Case { arg, whens, default, ty, location: case.location })))
    }

    fn refuse_set_in(&self, expr: &Expr, construct: &str) -> Result<()> {
        if crate::walk::any(expr, &mut |expr| super::returns_set(expr)) {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "set-returning functions are not allowed in {construct}"
            )
            .hint("You might be able to move the set-returning function into a LATERAL FROM item.")
            .at(expr_location(expr)));
        }
        Ok(())
    }

    /// COALESCE, GREATEST, LEAST: all arguments to their common type.
    fn common_args(&mut self, args: Vec<Expr>, context: &str) -> Result<(Vec<Expr>, TypeRef)> {
        let refs: Vec<&Expr> = args.iter().collect();
        let common = self.select_common_type(&refs, Some(context))?.unwrap_or(types::TEXT);
        let typmod = self.select_common_typmod(&refs, common);
        let mut coerced = Vec::with_capacity(args.len());
        for arg in args {
            if context == "COALESCE" {
                self.refuse_set_in(&arg, "COALESCE")?;
            }
            coerced.push(self.coerce_to_common(arg, common, context)?);
        }
        Ok((coerced, TypeRef { typmod, ..self.lookup.type_ref(common) }))
    }

    /// ARRAY[...]; `array_type` is set inside a cast that gives it, so that elements are read as of that type.
    fn array_expression(
        &mut self,
        array: &protobuf::AArrayExpr,
        array_type: Oid,
        element_type: Oid,
        typmod: i32,
    ) -> Result<Expr> {
        let location = array.location;
        let mut elements = Vec::with_capacity(array.elements.len());
        let mut multidimensional = false;
        for node in &array.elements {
            match inner(node)? {
                NodeEnum::AArrayExpr(nested) => {
                    multidimensional = true;
                    self.enter()?;
                    let nested = self.array_expression(nested, array_type, element_type, typmod);
                    self.leave();
                    elements.push(nested?);
                }
                other => {
                    let expr = self.expression_inner(other)?;
                    let ty = expr_type(&expr).oid;
                    if ty != types::INT2VECTOR && ty != types::OIDVECTOR && self.lookup.array_element(ty) != 0
                    {
                        multidimensional = true;
                    }
                    elements.push(expr);
                }
            }
        }
        let (array_type, element_type, cast_to) = if array_type != 0 {
            let target = if multidimensional { array_type } else { element_type };
            (array_type, element_type, Some(target))
        } else {
            if elements.is_empty() {
                return Err(err!(INDETERMINATE_DATATYPE, "cannot determine type of empty array")
                    .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].")
                    .at(location));
            }
            let refs: Vec<&Expr> = elements.iter().collect();
            let common = self.select_common_type(&refs, Some("ARRAY"))?.unwrap_or(types::TEXT);
            if multidimensional {
                let element = self.lookup.array_element(common);
                if element == 0 {
                    return Err(err!(
                        UNDEFINED_OBJECT,
                        "could not find element type for data type {}",
                        self.type_text(common)
                    )
                    .at(location));
                }
                (common, element, None)
            } else {
                let array = self.lookup.array_of(common);
                if array == 0 {
                    return Err(err!(
                        UNDEFINED_OBJECT,
                        "could not find array type for data type {}",
                        self.type_text(common)
                    )
                    .at(location));
                }
                (array, common, None)
            }
        };
        let mut coerced = Vec::with_capacity(elements.len());
        for element in elements {
            let at = expr_location(&element);
            let source = expr_type(&element).oid;
            coerced.push(match cast_to {
                Some(target) => {
                    let result = self.coerce_to_target(
                        element,
                        source,
                        target,
                        typmod,
                        Coercion::Explicit,
                        CallForm::ExplicitCast,
                        -1,
                    )?;
                    result.ok_or_else(|| {
                        err!(
                            CANNOT_COERCE,
                            "cannot cast type {} to {}",
                            self.type_text(source),
                            self.type_text(target)
                        )
                        .at(at)
                    })?
                }
                None => {
                    let target = if multidimensional { array_type } else { element_type };
                    self.coerce_to_common(element, target, "ARRAY")?
                }
            });
        }
        Ok(Expr::Array {
            elements: coerced,
            element_type,
            multidimensional,
            ty: self.lookup.type_ref(array_type),
            location,
        })
    }

    fn row_expression(&mut self, row: &protobuf::RowExpr) -> Result<Expr> {
        let mut fields = Vec::with_capacity(row.args.len());
        for node in &row.args {
            match inner(node)? {
                NodeEnum::ColumnRef(column) if ends_in_star(&column.fields) => {
                    for (expr, _) in self.expand_star_reference(column)? {
                        fields.push(expr);
                    }
                }
                other => {
                    let expr = self.expression_inner(other)?;
                    fields.push(expr);
                }
            }
        }
        if fields.len() > 1664 {
            return Err(
                err!(TOO_MANY_COLUMNS, "ROW expressions can have at most {} entries", 1664).at(row.location)
            );
        }
        let names: Vec<Text> = (1..=fields.len()).map(|i| format!("f{i}").into()).collect();
        let form = if row.row_format == protobuf::CoercionForm::CoerceExplicitCall as i32 {
            CallForm::Call
        } else {
            CallForm::ImplicitCast
        };
        Ok(Expr::Row { fields, names, ty: self.lookup.type_ref(types::RECORD), form, location: row.location })
    }

    fn type_cast(&mut self, cast: &protobuf::TypeCast) -> Result<Expr> {
        let type_name = cast.type_name.as_ref().ok_or_else(|| Error::internal("cast without a type"))?;
        let (target, typmod) = self.resolve_type(type_name)?;
        let location = if cast.location >= 0 { cast.location } else { type_name.location };
        // ARRAY[...]::type[] reads its elements as of the type.
        if let NodeEnum::AArrayExpr(array) = inner_box(&cast.arg)? {
            let (base, base_typmod) = self.lookup.base_type_and_typmod(target);
            let base_typmod = if base == target { typmod } else { base_typmod };
            let element = self.lookup.array_element(base);
            if element != 0 {
                let expr = self.array_expression(array, base, element, base_typmod)?;
                return self.cast(expr, target, typmod, location);
            }
        }
        let arg = self.expression_boxed(&cast.arg)?;
        self.cast(arg, target, typmod, location)
    }

    pub(crate) fn collate(&mut self, arg: Expr, name: &[Node], location: Location) -> Result<Expr> {
        let ty = expr_type(&arg);
        if ty.oid != types::UNKNOWN && self.lookup.type_collation(ty.oid) == 0 {
            return Err(err!(
                DATATYPE_MISMATCH,
                "collations are not supported by type {}",
                self.type_text(ty.oid)
            )
            .at(location));
        }
        let collation = self.collation_by_name(name).map_err(|error| error.at(location))?;
        Ok(Expr::Collate { arg: Box::new(arg), collation, location })
    }

    fn sql_value_function(&mut self, function: &protobuf::SqlValueFunction) -> Result<Expr> {
        use protobuf::SqlValueFunctionOp as Op;
        let (function_kind, ty, typmod) = match Op::try_from(function.op)
            .unwrap_or(Op::SqlvalueFunctionOpUndefined)
        {
            Op::SvfopCurrentDate => (SqlValueFunction::CurrentDate, types::DATE, -1),
            Op::SvfopCurrentTime => (SqlValueFunction::CurrentTime, types::TIMETZ, -1),
            Op::SvfopCurrentTimeN => (SqlValueFunction::CurrentTime, types::TIMETZ, function.typmod),
            Op::SvfopCurrentTimestamp => (SqlValueFunction::CurrentTimestamp, types::TIMESTAMPTZ, -1),
            Op::SvfopCurrentTimestampN => {
                (SqlValueFunction::CurrentTimestamp, types::TIMESTAMPTZ, function.typmod)
            }
            Op::SvfopLocaltime => (SqlValueFunction::LocalTime, types::TIME, -1),
            Op::SvfopLocaltimeN => (SqlValueFunction::LocalTime, types::TIME, function.typmod),
            Op::SvfopLocaltimestamp => (SqlValueFunction::LocalTimestamp, types::TIMESTAMP, -1),
            Op::SvfopLocaltimestampN => (SqlValueFunction::LocalTimestamp, types::TIMESTAMP, function.typmod),
            Op::SvfopCurrentRole => (SqlValueFunction::CurrentRole, types::NAME, -1),
            Op::SvfopCurrentUser => (SqlValueFunction::CurrentUser, types::NAME, -1),
            Op::SvfopUser => (SqlValueFunction::User, types::NAME, -1),
            Op::SvfopSessionUser => (SqlValueFunction::SessionUser, types::NAME, -1),
            Op::SvfopCurrentCatalog => (SqlValueFunction::CurrentCatalog, types::NAME, -1),
            Op::SvfopCurrentSchema => (SqlValueFunction::CurrentSchema, types::NAME, -1),
            Op::SqlvalueFunctionOpUndefined => {
                return Err(Error::internal("unrecognized SQL value function"));
            }
        };
        let typmod = typmod.min(6);
        let ty = TypeRef { typmod, ..self.lookup.type_ref(ty) };
        Ok(Expr::SqlValue { function: function_kind, ty, location: function.location })
    }

    /// `expr[1].field[2:3].*`.
    fn indirection(&mut self, indirection: &protobuf::AIndirection) -> Result<Expr> {
        let arg_node = inner_box(&indirection.arg)?;
        let mut result = self.expression_inner(arg_node)?;
        let location = expr_location(&result);
        let mut subscripts: Vec<&protobuf::AIndices> = Vec::new();
        for step in &indirection.indirection {
            match inner(step)? {
                NodeEnum::AIndices(indices) => subscripts.push(indices),
                NodeEnum::AStar(_) => {
                    return Err(err!(FEATURE_NOT_SUPPORTED, "row expansion via \"*\" is not supported here")
                        .at(location));
                }
                NodeEnum::String(name) => {
                    if !subscripts.is_empty() {
                        result = self.subscript(result, &std::mem::take(&mut subscripts), None)?;
                    }
                    result = self.field_or_function(result, &name.sval, location)?;
                }
                _ => return Err(Error::internal("unrecognized indirection")),
            }
        }
        if !subscripts.is_empty() {
            result = self.subscript(result, &subscripts, None)?;
        }
        Ok(result)
    }

    /// `expr.name`: a field, or a function of one argument in attribute notation. Errors: 42703.
    pub(crate) fn field_or_function(&mut self, record: Expr, name: &str, location: Location) -> Result<Expr> {
        if let Some(field) = self.select_field(&record, name, location)? {
            return Ok(field);
        }
        let source = expr_type(&record).oid;
        if let Some(call) = self.attribute_function(record.clone(), name, location)? {
            return Ok(call);
        }
        if let Expr::Var(var) = &record
            && var.attno == 0
        {
            let relation = self.entry_of(var).alias.clone();
            return Err(err!(UNDEFINED_COLUMN, "column {relation}.{name} does not exist").at(location));
        }
        if self.lookup.is_composite(self.lookup.base_type(source)) {
            return Err(err!(
                UNDEFINED_COLUMN,
                "column \"{name}\" not found in data type {}",
                self.type_text(source)
            )
            .at(location));
        }
        if source == types::RECORD {
            return Err(err!(UNDEFINED_COLUMN, "could not identify column \"{name}\" in record data type")
                .at(location));
        }
        Err(err!(
            WRONG_OBJECT_TYPE,
            "column notation .{name} applied to type {}, which is not a composite type",
            self.type_text(source)
        )
        .at(location))
    }

    /// A field of a composite value by name.
    pub(crate) fn select_field(
        &self,
        record: &Expr,
        name: &str,
        _location: Location,
    ) -> Result<Option<Expr>> {
        let Some(columns) = self.record_columns(record) else { return Ok(None) };
        // A whole row of a table is not built only to be taken apart.
        for (index, column) in columns.iter().enumerate() {
            if *column.name == *name && !column.name.is_empty() {
                let number = i16::try_from(index + 1).map_err(|_| Error::internal("too many columns"))?;
                if let Expr::Var(var) = record
                    && var.attno == 0
                    && matches!(
                        self.entry_of(var).kind,
                        RangeTableKind::Relation { .. }
                            | RangeTableKind::Subquery { .. }
                            | RangeTableKind::Values { .. }
                            | RangeTableKind::Cte { .. }
                            | RangeTableKind::Function { .. }
                    )
                    && self.entry_of(var).columns.get(index).is_some_and(|found| found.ty == column.ty)
                {
                    return Ok(Some(Expr::Var(Var { attno: number, ty: column.ty, ..var.clone() })));
                }
                return Ok(Some(Expr::Field { record: Box::new(record.clone()), number, ty: column.ty }));
            }
        }
        Ok(None)
    }

    /// Reads or (with `assignment`) writes a subscripted value.
    pub(crate) fn subscript(
        &mut self,
        container: Expr,
        indices: &[&protobuf::AIndices],
        assignment: Option<Assignment<'_>>,
    ) -> Result<Expr> {
        let location = expr_location(&container);
        let ty = expr_type(&container);
        let (base, base_typmod) = self.lookup.base_type_and_typmod(ty.oid);
        let typmod = if base == ty.oid { ty.typmod } else { base_typmod };
        // Vectors subscript as the arrays that they are.
        let base = match base {
            types::INT2VECTOR => types::INT2_ARRAY,
            types::OIDVECTOR => types::OID_ARRAY,
            other => other,
        };
        let slice = indices.iter().any(|index| index.is_slice);
        if base == types::JSONB {
            return self.jsonb_subscript(container, indices, assignment, location);
        }
        let element = match base {
            // name and point subscript as fixed-length arrays do.
            types::NAME => types::CHAR,
            types::POINT => types::FLOAT8,
            _ => self.lookup.array_element(base),
        };
        if element == 0 {
            return Err(err!(
                DATATYPE_MISMATCH,
                "cannot subscript type {} because it does not support subscripting",
                self.type_text(ty.oid)
            )
            .at(location));
        }
        let container = if base != ty.oid && assignment.is_none() && self.lookup.base_type(ty.oid) == base {
            self.relabel(container, base, typmod, CallForm::ImplicitCast, -1)
        } else {
            container
        };
        if indices.len() > 6 {
            return Err(err!(
                PROGRAM_LIMIT_EXCEEDED,
                "number of array dimensions ({}) exceeds the maximum allowed ({})",
                indices.len(),
                6
            ));
        }
        let mut upper = Vec::with_capacity(indices.len());
        let mut lower = Vec::new();
        for index in indices {
            if slice {
                lower.push(match &index.lidx {
                    Some(node) => Some(self.array_index(node)?),
                    // `[n]` among slices means `[1:n]`.
                    None if !index.is_slice => Some(self.int4_constant(1)),
                    None => None,
                });
            }
            upper.push(match &index.uidx {
                Some(node) => Some(self.array_index(node)?),
                None => None,
            });
        }
        let result = if slice {
            TypeRef { typmod, ..self.lookup.type_ref(base) }
        } else {
            TypeRef { typmod, ..self.lookup.type_ref(element) }
        };
        let Some(assignment) = assignment else {
            return Ok(Expr::Subscript(Box::new(Subscript {
                container,
                upper,
                lower,
                slice,
                assignment: None,
                ty: result,
                location,
            })));
        };
        let value = self.assigned_value(assignment, result, location)?;
        Ok(Expr::Subscript(Box::new(Subscript {
            container,
            upper,
            lower,
            slice,
            assignment: Some(value),
            ty,
            location,
        })))
    }

    fn array_index(&mut self, node: &Node) -> Result<Expr> {
        let expr = self.expression_inner(inner(node)?)?;
        let source = expr_type(&expr).oid;
        let at = expr_location(&expr);
        self.coerce_to_target(
            expr,
            source,
            types::INT4,
            -1,
            Coercion::Assignment,
            CallForm::ImplicitCast,
            -1,
        )?
        .ok_or_else(|| err!(DATATYPE_MISMATCH, "array subscript must have type integer").at(at))
    }

    fn jsonb_subscript(
        &mut self,
        container: Expr,
        indices: &[&protobuf::AIndices],
        assignment: Option<Assignment<'_>>,
        location: Location,
    ) -> Result<Expr> {
        if let Some(index) = indices.iter().find(|index| index.is_slice) {
            let at = match index.uidx.as_deref().or(index.lidx.as_deref()) {
                Some(node) => expr_location(&self.expression_inner(inner(node)?)?),
                None => location,
            };
            return Err(err!(DATATYPE_MISMATCH, "jsonb subscript does not support slices").at(at));
        }
        let mut upper = Vec::with_capacity(indices.len());
        for index in indices {
            let node = index.uidx.as_deref().ok_or_else(|| Error::internal("subscript without an index"))?;
            let expr = self.expression_inner(inner(node)?)?;
            let source = expr_type(&expr).oid;
            let at = expr_location(&expr);
            let target = if source != types::UNKNOWN
                && self.can_coerce(&[source], &[types::INT4], Coercion::Implicit)
            {
                types::INT4
            } else {
                types::TEXT
            };
            let coerced = self.coerce_to_target(
                expr,
                source,
                target,
                -1,
                Coercion::Implicit,
                CallForm::ImplicitCast,
                -1,
            )?;
            upper.push(Some(coerced.ok_or_else(|| {
                err!(DATATYPE_MISMATCH, "subscript type {} is not supported", self.type_text(source))
                    .hint("jsonb subscript must be coercible to either integer or text.")
                    .at(at)
            })?));
        }
        let ty = self.lookup.type_ref(types::JSONB);
        let assignment = match assignment {
            Some(assignment) => Some(self.assigned_value(assignment, ty, location)?),
            None => None,
        };
        Ok(Expr::Subscript(Box::new(Subscript {
            container,
            upper,
            lower: Vec::new(),
            slice: false,
            assignment,
            ty,
            location,
        })))
    }
}

/// What an assignment to an array element puts there.
pub(crate) struct Assignment<'n> {
    /// The target column, for messages.
    pub name: &'n str,
    /// Builds the value for the element's type: the rest of the indirection is handled by the caller.
    pub value: Expr,
}

impl Analyzer<'_> {
    fn assigned_value(
        &mut self,
        assignment: Assignment<'_>,
        ty: TypeRef,
        location: Location,
    ) -> Result<Expr> {
        let source = expr_type(&assignment.value).oid;
        let at = expr_location(&assignment.value);
        let coerced = self.coerce_to_target(
            assignment.value,
            source,
            ty.oid,
            ty.typmod,
            Coercion::Assignment,
            CallForm::ImplicitCast,
            -1,
        )?;
        coerced.ok_or_else(|| {
            err!(
                DATATYPE_MISMATCH,
                "subscripted assignment to \"{}\" requires type {} but expression is of type {}",
                assignment.name,
                self.type_text(ty.oid),
                self.type_text(source)
            )
            .hint("You will need to rewrite or cast the expression.")
            .at(if at >= 0 { at } else { location })
        })
    }
}

fn combine(mut tests: Vec<Expr>, use_or: bool) -> Expr {
    if tests.len() == 1 {
        return tests.swap_remove(0);
    }
    if use_or { Expr::Or(tests) } else { Expr::And(tests) }
}

fn contains_vars(expr: &Expr) -> bool {
    let mut found = false;
    crate::walk::deep(expr, 0, &mut |expr, level| {
        found |= matches!(expr, Expr::Var(var) if var.levels_up == level);
    });
    found
}

pub(crate) fn ends_in_star(fields: &[Node]) -> bool {
    matches!(fields.last().and_then(|node| node.node.as_ref()), Some(NodeEnum::AStar(_)))
}

fn is_null_constant(node: &NodeEnum) -> bool {
    matches!(node, NodeEnum::AConst(constant) if constant.isnull)
}

/// A number too large for the grammar's int4, or with a point: bigint where it fits, else none (numeric).
fn numeric_literal(text: &str) -> Option<(Datum, Oid)> {
    text.parse::<i64>().ok().map(|value| match i32::try_from(value) {
        Ok(value) => (Datum::Int4(value), types::INT4),
        Err(_) => (Datum::Int8(value), types::INT8),
    })
}
