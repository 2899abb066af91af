//! Coercions (manual, sections 10.3 to 10.5): whether one type can become another in a context, and the expression
//! that does it.

use cairn_catalog::{CastContext, CastMethod, TypeKind, TypeRef};
use cairn_types::{Datum, Error, Oid, Result, err, types};

use super::{Analyzer, expr_location, expr_type, polymorphic};
use crate::query::*;

/// Where a coercion happens; a later one allows all that an earlier one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coercion {
    Implicit,
    Assignment,
    /// plpgsql's assignment: falls back to text output and input.
    Plpgsql,
    Explicit,
}

/// How a value gets from one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pathway {
    None,
    Function(Oid),
    Relabel,
    ArrayCoerce,
    ViaIo,
}

impl Analyzer<'_> {
    pub(crate) fn find_pathway(&self, target: Oid, source: Oid, context: Coercion) -> Pathway {
        let target = self.lookup.base_type(target);
        let source = self.lookup.base_type(source);
        if source == target {
            return Pathway::Relabel;
        }
        if let Some(cast) = self.lookup.cast(source, target) {
            let needed = match cast.context {
                CastContext::Implicit => Coercion::Implicit,
                CastContext::Assignment => Coercion::Assignment,
                CastContext::Explicit => Coercion::Explicit,
            };
            if context < needed {
                return Pathway::None;
            }
            return match cast.method {
                CastMethod::Function(function) => Pathway::Function(function),
                CastMethod::InOut => Pathway::ViaIo,
                CastMethod::Binary => Pathway::Relabel,
            };
        }
        if target != types::OIDVECTOR && target != types::INT2VECTOR {
            let target_element = self.lookup.array_element(target);
            let source_element = self.lookup.array_element(source);
            if target_element != 0 && source_element != 0 {
                return match self.find_pathway(target_element, source_element, context) {
                    Pathway::None => Pathway::None,
                    Pathway::ViaIo | Pathway::Function(_) | Pathway::ArrayCoerce | Pathway::Relabel => {
                        Pathway::ArrayCoerce
                    }
                };
            }
        }
        if (context >= Coercion::Assignment && self.lookup.category(target) == b'S')
            || (context >= Coercion::Explicit && self.lookup.category(source) == b'S')
            || context == Coercion::Plpgsql
        {
            return Pathway::ViaIo;
        }
        Pathway::None
    }

    /// Whether values of the types `inputs` can be handed to parameters of the types `targets`.
    pub(crate) fn can_coerce(&self, inputs: &[Oid], targets: &[Oid], context: Coercion) -> bool {
        let mut polymorphic = false;
        for (&input, &target) in inputs.iter().zip(targets) {
            if input == target || target == types::ANY {
                continue;
            }
            if polymorphic::is_polymorphic(target) {
                polymorphic = true;
                continue;
            }
            if input == types::UNKNOWN {
                continue;
            }
            if self.find_pathway(target, input, context) != Pathway::None {
                continue;
            }
            if input == types::RECORD && self.lookup.is_composite(self.lookup.base_type(target)) {
                continue;
            }
            if input == types::RECORD_ARRAY && self.lookup.is_composite(self.lookup.array_element(target)) {
                continue;
            }
            if target == types::RECORD && self.lookup.is_composite(self.lookup.base_type(input)) {
                continue;
            }
            if target == types::RECORD_ARRAY && self.lookup.is_composite(self.lookup.array_element(input)) {
                continue;
            }
            return false;
        }
        !polymorphic || self.check_polymorphic(inputs, targets)
    }

    /// Coerces to a type with its modifier, or fails with `Ok(None)` if there is no way.
    #[expect(clippy::too_many_arguments, reason = "the coercion's whole situation")]
    pub(crate) fn coerce_to_target(
        &mut self,
        expr: Expr,
        source: Oid,
        target: Oid,
        typmod: i32,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Option<Expr>> {
        if !self.can_coerce(&[source], &[target], context) {
            return Ok(None);
        }
        // COLLATE stays on the outside.
        if let Expr::Collate { arg, collation, location: at } = expr {
            let inner = self.coerce_to_target(*arg, source, target, typmod, context, form, location)?;
            return Ok(inner.map(|inner| {
                if self.lookup.type_collation(target) != 0 {
                    Expr::Collate { arg: Box::new(inner), collation, location: at }
                } else {
                    inner
                }
            }));
        }
        let mut expr = self.coerce_type(expr, source, target, typmod, context, form, location)?;
        // Of the two coercions that `x::numeric(10,2)` may need, only the outer one is shown.
        if source != target
            && typmod >= 0
            && expr_type(&expr).typmod != typmod
            && self.has_length_coercion(target)
        {
            hide_coercion(&mut expr);
        }
        self.coerce_typmod(expr, target, typmod, context, form, location).map(Some)
    }

    fn has_length_coercion(&self, ty: Oid) -> bool {
        let element = self.lookup.array_element(ty);
        let scalar = if element != 0 { element } else { ty };
        matches!(self.lookup.cast(scalar, scalar).map(|cast| cast.method), Some(CastMethod::Function(_)))
    }

    #[expect(clippy::too_many_arguments, reason = "the coercion's whole situation")]
    /// Coerces to a type that [`Self::can_coerce`] has allowed. The modifier matters only to the conversion itself;
    /// the length coercion is [`Self::coerce_typmod`].
    pub(crate) fn coerce_type(
        &mut self,
        expr: Expr,
        source: Oid,
        target: Oid,
        typmod: i32,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Expr> {
        if source == target {
            return Ok(expr);
        }
        if matches!(
            target,
            types::ANY
                | types::ANYELEMENT
                | types::ANYNONARRAY
                | types::ANYCOMPATIBLE
                | types::ANYCOMPATIBLENONARRAY
        ) {
            return Ok(expr);
        }
        if matches!(
            target,
            types::ANYARRAY
                | types::ANYENUM
                | types::ANYRANGE
                | types::ANYMULTIRANGE
                | types::ANYCOMPATIBLEARRAY
                | types::ANYCOMPATIBLERANGE
                | types::ANYCOMPATIBLEMULTIRANGE
        ) && source != types::UNKNOWN
        {
            let base = self.lookup.base_type(source);
            if base != source {
                return Ok(self.relabel(expr, base, -1, CallForm::ImplicitCast, location));
            }
            return Ok(expr);
        }
        if source == types::UNKNOWN {
            match expr {
                Expr::Const { value, location: at, .. } => {
                    return self.coerce_unknown_constant(value, at, target, typmod, context, form, location);
                }
                Expr::Param { number, location: at, .. } => {
                    if let Some(typed) = self.coerce_unknown_parameter(number, target, at, location)? {
                        return Ok(typed);
                    }
                    return self.via_io(expr, target, context, form, location);
                }
                _ => {}
            }
        }
        if let Expr::Collate { arg, collation, location: at } = expr {
            let inner = self.coerce_type(*arg, source, target, typmod, context, form, location)?;
            return Ok(if self.lookup.type_collation(target) != 0 {
                Expr::Collate { arg: Box::new(inner), collation, location: at }
            } else {
                inner
            });
        }
        match self.find_pathway(target, source, context) {
            Pathway::Relabel => {
                // Into a domain the value has to be checked; out of one only the label changes.
                if self.lookup.kind(target) == Some(TypeKind::Domain) {
                    return self.coerce_to_domain(expr, target, typmod, context, form, location, false);
                }
                return Ok(self.relabel(expr, target, -1, form, location));
            }
            Pathway::None => {}
            pathway => {
                let (base, base_typmod) = self.lookup.base_type_and_typmod(target);
                let inner_typmod = if base == target { typmod } else { base_typmod };
                let result =
                    self.build_coercion(expr, pathway, source, base, inner_typmod, context, form, location)?;
                if base != target {
                    return self.coerce_to_domain(result, target, typmod, context, form, location, true);
                }
                return Ok(result);
            }
        }
        if source == types::RECORD && self.lookup.is_composite(self.lookup.base_type(target)) {
            return self.coerce_record(expr, target, context, form, location);
        }
        if target == types::RECORD && self.lookup.is_composite(self.lookup.base_type(source)) {
            return Ok(self.relabel(expr, target, -1, form, location));
        }
        if target == types::RECORD_ARRAY || source == types::RECORD_ARRAY {
            return Ok(self.relabel(expr, target, -1, form, location));
        }
        Err(Error::internal(format!("no conversion from {source} to {target}")))
    }

    pub(crate) fn relabel(
        &self,
        arg: Expr,
        target: Oid,
        typmod: i32,
        form: CallForm,
        location: Location,
    ) -> Expr {
        let ty = TypeRef { typmod, ..self.lookup.type_ref(target) };
        Expr::Relabel { arg: Box::new(arg), ty, form, location }
    }

    fn via_io(
        &mut self,
        arg: Expr,
        target: Oid,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Expr> {
        let base = self.lookup.base_type(target);
        let ty = self.lookup.type_ref(base);
        let expr = Expr::CoerceViaIo { arg: Box::new(arg), ty, form, location };
        if base != target {
            return self.coerce_to_domain(expr, target, -1, context, form, location, false);
        }
        Ok(expr)
    }

    /// A quoted literal gets its type: its text is read by the type's input where that does not depend on the
    /// session, and when the statement runs where it does.
    #[expect(clippy::too_many_arguments, reason = "the coercion's whole situation")]
    fn coerce_unknown_constant(
        &mut self,
        value: Datum,
        at: Location,
        target: Oid,
        typmod: i32,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Expr> {
        let (base, base_typmod) = self.lookup.base_type_and_typmod(target);
        let base_typmod = if base == target { typmod } else { base_typmod };
        // Only interval reads its modifier at input, because '1' alone means different things.
        let input_typmod = if base == types::INTERVAL { base_typmod } else { -1 };
        let ty = TypeRef { typmod: input_typmod, ..self.lookup.type_ref(base) };
        let expr = match &value {
            Datum::Null => Expr::Const { value, ty, location: at },
            Datum::Text(text) => {
                match self.read_literal(text, base, input_typmod).map_err(|error| error.at(at))? {
                    Some(value) => Expr::Const { value, ty, location: at },
                    None => {
                        let literal =
                            Expr::Const { value, ty: self.lookup.type_ref(types::UNKNOWN), location: at };
                        Expr::CoerceViaIo { arg: Box::new(literal), ty, form, location: at }
                    }
                }
            }
            _ => return Err(Error::internal("a literal of type unknown is not text")),
        };
        if base != target {
            return self.coerce_to_domain(expr, target, typmod, context, form, location, false);
        }
        Ok(expr)
    }

    #[expect(clippy::too_many_arguments, reason = "the coercion's whole situation")]
    fn build_coercion(
        &mut self,
        expr: Expr,
        pathway: Pathway,
        source: Oid,
        target: Oid,
        typmod: i32,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Expr> {
        match pathway {
            Pathway::Function(function) => {
                let proc = self.lookup.proc(function)?;
                let mut args = vec![expr];
                if proc.arg_types.len() >= 2 {
                    args.push(self.int4_constant(typmod));
                }
                if proc.arg_types.len() >= 3 {
                    args.push(self.bool_constant(context == Coercion::Explicit));
                }
                let length = if args.len() >= 2 { typmod } else { -1 };
                let ty = TypeRef { typmod: length, ..self.lookup.type_ref(target) };
                Ok(Expr::Function(Box::new(FunctionCall {
                    function,
                    args,
                    ty,
                    returns_set: false,
                    variadic: false,
                    collation: 0,
                    form,
                    location,
                })))
            }
            Pathway::ArrayCoerce => {
                let source_element = self.lookup.array_element(self.lookup.base_type(source));
                let target_element = self.lookup.array_element(target);
                let source_typmod = expr_type(&expr).typmod;
                let test = Expr::TestValue {
                    ty: TypeRef { typmod: source_typmod, ..self.lookup.type_ref(source_element) },
                };
                let element = self.coerce_to_target(
                    test,
                    source_element,
                    target_element,
                    typmod,
                    context,
                    form,
                    location,
                )?;
                let Some(element) = element else {
                    return Err(Error::internal("array element coercion vanished"));
                };
                let ty = TypeRef { typmod: expr_type(&element).typmod, ..self.lookup.type_ref(target) };
                Ok(Expr::ArrayCoerce { arg: Box::new(expr), element: Box::new(element), ty, form, location })
            }
            Pathway::ViaIo => {
                let ty = self.lookup.type_ref(target);
                Ok(Expr::CoerceViaIo { arg: Box::new(expr), ty, form, location })
            }
            Pathway::Relabel => Ok(self.relabel(expr, target, -1, form, location)),
            Pathway::None => Err(Error::internal("no coercion pathway")),
        }
    }

    /// Wraps a value of the domain's base type in the domain's checks. `hide_typmod`: the base type's modifier was
    /// applied by the conversion already.
    #[expect(clippy::too_many_arguments, reason = "the coercion's whole situation")]
    pub(crate) fn coerce_to_domain(
        &mut self,
        expr: Expr,
        domain: Oid,
        typmod: i32,
        context: Coercion,
        form: CallForm,
        location: Location,
        hide_typmod: bool,
    ) -> Result<Expr> {
        let (base, base_typmod) = self.lookup.base_type_and_typmod(domain);
        if base == domain {
            return Ok(expr);
        }
        let source = expr_type(&expr).oid;
        let mut expr = expr;
        if source != base && self.lookup.base_type(source) == base {
            // From another domain over the same base.
            expr = self.relabel(expr, base, -1, CallForm::ImplicitCast, location);
        }
        if !hide_typmod && base_typmod >= 0 {
            expr = self.coerce_typmod(
                expr,
                base,
                base_typmod,
                Coercion::Implicit.max(context),
                CallForm::ImplicitCast,
                location,
            )?;
        }
        let ty = TypeRef { typmod, ..self.lookup.type_ref(domain) };
        Ok(Expr::CoerceToDomain { arg: Box::new(expr), ty, form, location })
    }

    /// Applies a type's modifier through its length coercion function (a cast of the type to itself).
    pub(crate) fn coerce_typmod(
        &mut self,
        expr: Expr,
        target: Oid,
        typmod: i32,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Expr> {
        if typmod < 0 || expr_type(&expr).typmod == typmod {
            return Ok(expr);
        }
        let element = self.lookup.array_element(target);
        let (scalar, is_array) = if element != 0 { (element, true) } else { (target, false) };
        let Some(CastMethod::Function(function)) = self.lookup.cast(scalar, scalar).map(|cast| cast.method)
        else {
            // A type without a length coercion only carries the modifier.
            return Ok(match expr {
                Expr::Const { value, ty, location } => {
                    Expr::Const { value, ty: TypeRef { typmod, ..ty }, location }
                }
                other => other,
            });
        };
        if is_array {
            let test = Expr::TestValue { ty: self.lookup.type_ref(element) };
            let inner = self.build_coercion(
                test,
                Pathway::Function(function),
                element,
                element,
                typmod,
                context,
                form,
                location,
            )?;
            let ty = TypeRef { typmod, ..self.lookup.type_ref(target) };
            return Ok(Expr::ArrayCoerce {
                arg: Box::new(expr),
                element: Box::new(inner),
                ty,
                form,
                location,
            });
        }
        self.build_coercion(
            expr,
            Pathway::Function(function),
            target,
            target,
            typmod,
            context,
            form,
            location,
        )
    }

    /// A row constructor or anonymous row to a named composite type, field by field.
    fn coerce_record(
        &mut self,
        expr: Expr,
        target: Oid,
        context: Coercion,
        form: CallForm,
        location: Location,
    ) -> Result<Expr> {
        let base = self.lookup.base_type(target);
        let target_text = self.type_text(target);
        let cannot = |detail: Option<String>| {
            let error = err!(CANNOT_COERCE, "cannot cast type {} to {}", "record", target_text);
            match detail {
                Some(detail) => error.detail(detail),
                None => error,
            }
            .at(location)
        };
        let fields = match expr {
            Expr::Row { fields, .. } => fields,
            Expr::Var(var) if var.attno == 0 => self.expand_whole_row(&var)?,
            _ => return Err(cannot(None)),
        };
        let columns = self.lookup.composite_columns(base);
        let mut given = fields.into_iter();
        let mut coerced = Vec::with_capacity(columns.len());
        let mut names = Vec::with_capacity(columns.len());
        for (number, column) in columns.iter().enumerate() {
            names.push(column.name.clone());
            if column.dropped {
                coerced.push(Expr::Const {
                    value: Datum::Null,
                    ty: self.lookup.type_ref(types::INT4),
                    location: -1,
                });
                continue;
            }
            let Some(field) = given.next() else {
                return Err(cannot(Some("Input has too few columns.".into())));
            };
            let source = expr_type(&field).oid;
            let value = self.coerce_to_target(
                field,
                source,
                column.ty.oid,
                column.ty.typmod,
                context,
                CallForm::ImplicitCast,
                -1,
            )?;
            match value {
                Some(value) => coerced.push(value),
                None => {
                    return Err(cannot(Some(format!(
                        "Cannot cast type {} to {} in column {}.",
                        self.type_text(source),
                        self.type_text(column.ty.oid),
                        number + 1
                    ))));
                }
            }
        }
        if given.next().is_some() {
            return Err(cannot(Some("Input has too many columns.".into())));
        }
        let ty = self.lookup.type_ref(base);
        let row = Expr::Row { fields: coerced, names, ty, form, location };
        if base != target {
            return self.coerce_to_domain(row, target, -1, context, form, location, false);
        }
        Ok(row)
    }

    /// For WHERE, AND, CHECK...: the expression must be boolean.
    pub(crate) fn coerce_to_boolean(&mut self, expr: Expr, construct: &str) -> Result<Expr> {
        let source = expr_type(&expr).oid;
        if source == types::BOOL {
            return Ok(expr);
        }
        let location = expr_location(&expr);
        let coerced = self.coerce_to_target(
            expr.clone(),
            source,
            types::BOOL,
            -1,
            Coercion::Assignment,
            CallForm::ImplicitCast,
            -1,
        )?;
        match coerced {
            Some(coerced) if !super::returns_set(&coerced) => Ok(coerced),
            Some(_) => {
                Err(err!(DATATYPE_MISMATCH, "argument of {construct} must not return a set").at(location))
            }
            None => Err(err!(
                DATATYPE_MISMATCH,
                "argument of {construct} must be type boolean, not type {}",
                self.type_text(source)
            )
            .at(location)),
        }
    }

    /// For LIMIT, window offsets...: the expression must be of the type.
    pub(crate) fn coerce_to_specific(&mut self, expr: Expr, target: Oid, construct: &str) -> Result<Expr> {
        let source = expr_type(&expr).oid;
        let location = expr_location(&expr);
        let coerced = if source == target {
            expr
        } else {
            match self.coerce_to_target(
                expr,
                source,
                target,
                -1,
                Coercion::Assignment,
                CallForm::ImplicitCast,
                -1,
            )? {
                Some(coerced) => coerced,
                None => {
                    return Err(err!(
                        DATATYPE_MISMATCH,
                        "argument of {construct} must be type {}, not type {}",
                        self.type_text(target),
                        self.type_text(source)
                    )
                    .at(location));
                }
            }
        };
        if super::returns_set(&coerced) {
            return Err(err!(DATATYPE_MISMATCH, "argument of {construct} must not return a set").at(location));
        }
        Ok(coerced)
    }

    /// The type that UNION, CASE, ARRAY and the like give their inputs (manual, section 10.5). With `context` a
    /// mismatch is an error that names the construct; without, it is `None`.
    pub(crate) fn select_common_type(&self, exprs: &[&Expr], context: Option<&str>) -> Result<Option<Oid>> {
        let mut inputs = exprs.iter();
        let Some(first) = inputs.next() else {
            return Err(Error::internal("no input for a common type"));
        };
        let mut chosen = expr_type(first).oid;
        // All the same: no base type search, so that a domain stays.
        if chosen != types::UNKNOWN && exprs[1..].iter().all(|expr| expr_type(expr).oid == chosen) {
            return Ok(Some(chosen));
        }
        chosen = self.lookup.base_type(chosen);
        let (mut category, mut preferred) = self.lookup.category_and_preference(chosen);
        for expr in inputs {
            let next = self.lookup.base_type(expr_type(expr).oid);
            if next == types::UNKNOWN || next == chosen {
                continue;
            }
            let (next_category, next_preferred) = self.lookup.category_and_preference(next);
            if chosen == types::UNKNOWN {
                (chosen, category, preferred) = (next, next_category, next_preferred);
            } else if next_category != category {
                let Some(context) = context else { return Ok(None) };
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "{context} types {} and {} cannot be matched",
                    self.type_text(chosen),
                    self.type_text(next)
                )
                .at(expr_location(expr)));
            } else if !preferred
                && self.can_coerce(&[chosen], &[next], Coercion::Implicit)
                && !self.can_coerce(&[next], &[chosen], Coercion::Implicit)
            {
                (chosen, category, preferred) = (next, next_category, next_preferred);
            }
        }
        // All literals: text.
        if chosen == types::UNKNOWN {
            chosen = types::TEXT;
        }
        Ok(Some(chosen))
    }

    /// The modifier that all inputs of the common type share, or -1.
    pub(crate) fn select_common_typmod(&self, exprs: &[&Expr], common: Oid) -> i32 {
        let mut result: Option<i32> = None;
        for expr in exprs {
            let ty = expr_type(expr);
            if ty.oid != common || result.is_some_and(|typmod| typmod != ty.typmod) {
                return -1;
            }
            result = Some(ty.typmod);
        }
        result.unwrap_or(-1)
    }

    pub(crate) fn coerce_to_common(&mut self, expr: Expr, target: Oid, context: &str) -> Result<Expr> {
        let source = expr_type(&expr).oid;
        if source == target {
            return Ok(expr);
        }
        if self.can_coerce(&[source], &[target], Coercion::Implicit) {
            return self.coerce_type(
                expr,
                source,
                target,
                -1,
                Coercion::Implicit,
                CallForm::ImplicitCast,
                -1,
            );
        }
        Err(err!(
            CANNOT_COERCE,
            "{context} could not convert type {} to {}",
            self.type_text(source),
            self.type_text(target)
        )
        .at(expr_location(&expr)))
    }

    /// Makes a value fit a column (manual, section 10.4); `name` is the column's. Errors: 42804.
    pub(crate) fn coerce_for_column(
        &mut self,
        expr: Expr,
        name: &str,
        ty: TypeRef,
        location: Location,
    ) -> Result<Expr> {
        let source = expr_type(&expr).oid;
        let at = expr_location(&expr);
        match self.coerce_to_target(
            expr,
            source,
            ty.oid,
            ty.typmod,
            Coercion::Assignment,
            CallForm::ImplicitCast,
            -1,
        )? {
            Some(coerced) => Ok(coerced),
            None => {
                let at = if at >= 0 { at } else { location };
                Err(err!(
                    DATATYPE_MISMATCH,
                    "column \"{name}\" is of type {} but expression is of type {}",
                    self.type_text(ty.oid),
                    self.type_text(source)
                )
                .hint("You will need to rewrite or cast the expression.")
                .at(at))
            }
        }
    }

    /// A cast that was written out: `expr::type`, `cast(expr as type)`.
    pub(crate) fn cast(&mut self, expr: Expr, target: Oid, typmod: i32, location: Location) -> Result<Expr> {
        let source = expr_type(&expr).oid;
        if source == 0 {
            return Ok(expr);
        }
        let at = expr_location(&expr);
        match self.coerce_to_target(
            expr,
            source,
            target,
            typmod,
            Coercion::Explicit,
            CallForm::ExplicitCast,
            location,
        )? {
            Some(coerced) => Ok(coerced),
            None => {
                let at = if location >= 0 { location } else { at };
                bail_at!(
                    at,
                    CANNOT_COERCE,
                    "cannot cast type {} to {}",
                    self.type_text(source),
                    self.type_text(target)
                )
            }
        }
    }

    pub(crate) fn int4_constant(&self, value: i32) -> Expr {
        Expr::Const { value: Datum::Int4(value), ty: self.lookup.type_ref(types::INT4), location: -1 }
    }

    pub(crate) fn bool_constant(&self, value: bool) -> Expr {
        Expr::Const { value: Datum::Bool(value), ty: self.lookup.type_ref(types::BOOL), location: -1 }
    }

    /// Literals of unknown type that nobody gave a type become text (select lists, subqueries).
    pub(crate) fn resolve_unknown(&mut self, expr: Expr) -> Result<Expr> {
        if expr_type(&expr).oid == types::UNKNOWN {
            let location = -1;
            return self.coerce_type(
                expr,
                types::UNKNOWN,
                types::TEXT,
                -1,
                Coercion::Implicit,
                CallForm::ImplicitCast,
                location,
            );
        }
        Ok(expr)
    }
}

/// Marks the outermost coercion as one that nobody wrote.
fn hide_coercion(expr: &mut Expr) {
    match expr {
        Expr::Function(call) => call.form = CallForm::ImplicitCast,
        Expr::Relabel { form, .. }
        | Expr::CoerceViaIo { form, .. }
        | Expr::ArrayCoerce { form, .. }
        | Expr::ConvertRow { form, .. }
        | Expr::CoerceToDomain { form, .. } => *form = CallForm::ImplicitCast,
        _ => {}
    }
}
