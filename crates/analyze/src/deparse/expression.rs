//! Expressions as text.

use cairn_catalog::{BtreeStrategy, TypeRef};
use cairn_types::{Datum, Oid, types};

use super::query::without_implicit_casts;
use super::{Deparser, Form, system_column_name};
use crate::expr_type;
use crate::query::*;

/// Where an expression stands inside another, as far as parentheses depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    And,
    Or,
    Not,
    /// An operator with this precedence; `right` for its right operand.
    Operator {
        precedence: u8,
        right: bool,
    },
    /// IS NULL, IN, casts and their like bind their argument tighter than any operator.
    Tight,
}

impl<'a> Deparser<'a> {
    /// Writes an expression; `parent` is what it is an operand of.
    pub(super) fn expr(&mut self, expr: &'a Expr, parent: Option<Parent>) {
        match expr {
            Expr::Const { value, ty, .. } => self.constant(value, *ty, true),
            Expr::Var(var) => self.var(var),
            Expr::Param { number, .. } => self.push(&format!("${number}")),
            Expr::Function(call) => self.function(call, parent),
            Expr::Operator(call) => self.operator(call, parent),
            Expr::DistinctFrom(call) => self.parenthesized(parent, Some(Parent::Tight), |this| {
                this.operand(call.args.first(), Parent::Operator { precedence: 3, right: false });
                this.push(" IS DISTINCT FROM ");
                this.operand(call.args.get(1), Parent::Operator { precedence: 3, right: true });
            }),
            Expr::NullIf(call) => {
                self.push("NULLIF(");
                self.list(&call.args);
                self.push(")");
            }
            Expr::ArrayOperator(call) => self.array_operator(call, parent),
            Expr::And(args) => self.boolean(args, " AND ", Parent::And, parent),
            Expr::Or(args) => self.boolean(args, " OR ", Parent::Or, parent),
            Expr::Not(arg) => self.parenthesized(parent, Some(Parent::Not), |this| {
                this.push("NOT ");
                this.expr(arg, Some(Parent::Not));
            }),
            Expr::SubLink(link) => {
                let again = self.pretty()
                    && parent.is_some()
                    && matches!(link.kind, SubLinkKind::Expr | SubLinkKind::Row | SubLinkKind::RowSource);
                self.push(if again { "(" } else { "" });
                self.sublink(link);
                self.push(if again { ")" } else { "" });
            }
            Expr::Aggregate(call) => self.aggregate(call),
            Expr::Window(call) => self.window(call),
            Expr::Grouping { args, .. } => {
                self.push("GROUPING(");
                self.list(args);
                self.push(")");
            }
            Expr::Subscript(subscript) => self.subscript(subscript),
            Expr::Field { record, number, ty } => self.field(record, *number, *ty),
            Expr::Relabel { arg, ty, form, .. }
            | Expr::CoerceViaIo { arg, ty, form, .. }
            | Expr::ArrayCoerce { arg, ty, form, .. }
            | Expr::ConvertRow { arg, ty, form, .. }
            | Expr::CoerceToDomain { arg, ty, form, .. } => self.cast(arg, *ty, *form),
            Expr::TestValue { .. } => self.push("VALUE"),
            Expr::Collate { arg, collation, .. } => self.parenthesized(parent, Some(Parent::Tight), |this| {
                this.expr(arg, Some(Parent::Tight));
                let name = this.catalog.collation(*collation).map(|collation| collation.name.clone());
                this.push(" COLLATE ");
                this.identifier(name.as_deref().unwrap_or("default"));
            }),
            Expr::Case(case) => self.case(case),
            Expr::Array { elements, ty, .. } => {
                self.push("ARRAY[");
                self.list(elements);
                self.push("]");
                // An empty array's type shows only in a cast.
                if elements.is_empty() {
                    self.push("::");
                    self.type_name(*ty);
                }
            }
            Expr::Row { fields, ty, form, .. } => {
                self.push("ROW(");
                self.list(fields);
                self.push(")");
                if *form == CallForm::ExplicitCast {
                    self.push("::");
                    self.type_name(*ty);
                }
            }
            Expr::RowCompare { strategy, left, right, .. } => {
                let symbol = match strategy {
                    BtreeStrategy::Less => "<",
                    BtreeStrategy::LessEqual => "<=",
                    BtreeStrategy::Equal => "=",
                    BtreeStrategy::GreaterEqual => ">=",
                    BtreeStrategy::Greater => ">",
                };
                self.push("(ROW(");
                self.list(left);
                self.push(&format!(") {symbol} ROW("));
                self.list(right);
                self.push("))");
            }
            Expr::Coalesce { args, .. } => {
                self.push("COALESCE(");
                self.list(args);
                self.push(")");
            }
            Expr::MinMax { greatest, args, .. } => {
                self.push(if *greatest { "GREATEST(" } else { "LEAST(" });
                self.list(args);
                self.push(")");
            }
            Expr::SqlValue { function, ty, .. } => self.sql_value(*function, ty.typmod),
            Expr::NullTest { arg, is_null, .. } => self.parenthesized(parent, Some(Parent::Tight), |this| {
                this.expr(arg, Some(Parent::Tight));
                this.push(if *is_null { " IS NULL" } else { " IS NOT NULL" });
            }),
            Expr::BooleanTest { arg, test, .. } => self.parenthesized(parent, Some(Parent::Tight), |this| {
                this.expr(arg, Some(Parent::Tight));
                this.push(match test {
                    BooleanTest::IsTrue => " IS TRUE",
                    BooleanTest::IsNotTrue => " IS NOT TRUE",
                    BooleanTest::IsFalse => " IS FALSE",
                    BooleanTest::IsNotFalse => " IS NOT FALSE",
                    BooleanTest::IsUnknown => " IS UNKNOWN",
                    BooleanTest::IsNotUnknown => " IS NOT UNKNOWN",
                });
            }),
            Expr::Default { .. } => self.push("DEFAULT"),
            Expr::CurrentOf { cursor } => {
                self.push("CURRENT OF ");
                self.identifier(cursor);
            }
            Expr::NextValue { sequence, .. } => {
                let name = self.reg_constant(types::REGCLASS, *sequence);
                self.push(&format!("nextval({name}::regclass)"));
            }
        }
    }

    pub(super) fn list(&mut self, exprs: &'a [Expr]) {
        for (index, expr) in exprs.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.expr(expr, None);
        }
    }

    fn operand(&mut self, expr: Option<&'a Expr>, parent: Parent) {
        if let Some(expr) = expr {
            self.expr(expr, Some(parent));
        }
    }

    /// Parentheses around what `body` writes: always, but in pretty form only where precedence asks for them.
    fn parenthesized(&mut self, parent: Option<Parent>, own: Option<Parent>, body: impl FnOnce(&mut Self)) {
        let needed =
            if self.pretty() { parent.is_some_and(|parent| needs_parentheses(parent, own)) } else { true };
        if needed {
            self.push("(");
        }
        body(self);
        if needed {
            self.push(")");
        }
    }

    fn boolean(&mut self, args: &'a [Expr], word: &str, own: Parent, parent: Option<Parent>) {
        self.parenthesized(parent, Some(own), |this| {
            for (index, arg) in args.iter().enumerate() {
                if index > 0 {
                    this.push(word);
                }
                this.expr(arg, Some(own));
            }
        });
    }

    fn operator(&mut self, call: &'a OperatorCall, parent: Option<Parent>) {
        let symbol = self.operator_name(call.operator);
        let precedence = precedence(&symbol);
        let own = Parent::Operator { precedence, right: false };
        self.parenthesized(parent, Some(own), |this| match call.args.as_slice() {
            [arg] => {
                this.push(&symbol);
                this.push(" ");
                this.expr(arg, Some(Parent::Tight));
            }
            [left, right] => {
                this.expr(left, Some(Parent::Operator { precedence, right: false }));
                this.push(&format!(" {symbol} "));
                this.expr(right, Some(Parent::Operator { precedence, right: true }));
            }
            _ => this.push("???"),
        });
    }

    fn array_operator(&mut self, call: &'a ArrayOperatorCall, parent: Option<Parent>) {
        let symbol = self.operator_name(call.operator);
        // PostgreSQL puts parentheses around it wherever it is an operand.
        self.parenthesized(parent.map(|_| Parent::Tight), Some(Parent::And), |this| {
            this.expr(&call.left, Some(Parent::Operator { precedence: 4, right: false }));
            this.push(&format!(" {symbol} {} (", if call.any { "ANY" } else { "ALL" }));
            this.expr(&call.array, None);
            // A bare subquery here would be read as ANY (subquery).
            if let Expr::SubLink(link) = &call.array
                && matches!(link.kind, SubLinkKind::Expr)
            {
                this.push("::");
                this.type_name(link.ty);
            }
            this.push(")");
        });
    }

    fn function(&mut self, call: &'a FunctionCall, parent: Option<Parent>) {
        if matches!(call.form, CallForm::ExplicitCast | CallForm::ImplicitCast)
            && let Some(arg) = call.args.first()
        {
            return self.cast(arg, call.ty, call.form);
        }
        if call.form == CallForm::Sql && self.sql_syntax(call, parent) {
            return;
        }
        self.function_name(call.function);
        self.push("(");
        for (index, arg) in call.args.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            if call.variadic && index + 1 == call.args.len() {
                self.push("VARIADIC ");
            }
            self.expr(arg, None);
        }
        self.push(")");
    }

    /// Functions that were written with syntax of their own; `false` if this one has none here.
    fn sql_syntax(&mut self, call: &'a FunctionCall, parent: Option<Parent>) -> bool {
        let Some(proc) = self.catalog.proc(call.function) else { return false };
        let name = proc.name.clone();
        match (&*name, call.args.as_slice()) {
            ("timezone", [zone, time]) => self.parenthesized(parent.or(Some(Parent::Tight)), None, |this| {
                this.expr(without_implicit_casts(time), Some(Parent::Tight));
                this.push(" AT TIME ZONE ");
                this.expr(without_implicit_casts(zone), Some(Parent::Tight));
            }),
            ("extract", [Expr::Const { value: Datum::Text(field), .. }, source]) => {
                let field = field.to_string();
                self.push(&format!("EXTRACT({field} FROM "));
                self.expr(without_implicit_casts(source), None);
                self.push(")");
            }
            ("overlay", [text, placing, from, rest @ ..]) => {
                self.push("OVERLAY(");
                self.expr(without_implicit_casts(text), None);
                self.push(" PLACING ");
                self.expr(without_implicit_casts(placing), None);
                self.push(" FROM ");
                self.expr(without_implicit_casts(from), None);
                if let Some(count) = rest.first() {
                    self.push(" FOR ");
                    self.expr(without_implicit_casts(count), None);
                }
                self.push(")");
            }
            ("position", [text, part]) => {
                self.push("POSITION((");
                self.expr(without_implicit_casts(part), None);
                self.push(") IN (");
                self.expr(without_implicit_casts(text), None);
                self.push("))");
            }
            ("substring", [text, from, rest @ ..]) => {
                self.push("SUBSTRING(");
                self.expr(without_implicit_casts(text), None);
                self.push(" FROM ");
                self.expr(without_implicit_casts(from), None);
                if let Some(count) = rest.first() {
                    self.push(" FOR ");
                    self.expr(without_implicit_casts(count), None);
                }
                self.push(")");
            }
            ("btrim" | "ltrim" | "rtrim", [text, rest @ ..]) => {
                self.push(match &*name {
                    "btrim" => "TRIM(BOTH",
                    "ltrim" => "TRIM(LEADING",
                    _ => "TRIM(TRAILING",
                });
                if let Some(characters) = rest.first() {
                    self.push(" ");
                    self.expr(without_implicit_casts(characters), None);
                }
                self.push(" FROM ");
                self.expr(without_implicit_casts(text), None);
                self.push(")");
            }
            ("overlaps", [a, b, c, d]) => {
                self.push("((");
                self.expr(without_implicit_casts(a), None);
                self.push(", ");
                self.expr(without_implicit_casts(b), None);
                self.push(") OVERLAPS (");
                self.expr(without_implicit_casts(c), None);
                self.push(", ");
                self.expr(without_implicit_casts(d), None);
                self.push("))");
            }
            _ => return false,
        }
        true
    }

    fn cast(&mut self, arg: &'a Expr, ty: TypeRef, _form: CallForm) {
        // A constant that only waits for its length coercion shows the outer type.
        match super::without_implicit_casts(arg) {
            Expr::Const { value, ty: inner, .. } if inner.oid == ty.oid && inner.typmod == -1 => {
                self.constant(value, *inner, false);
            }
            // A cast right behind an array constructor would be one of its elements: what is meant is the array's.
            Expr::Array { elements, ty: inner, .. }
                if self.form == Form::Canonical && !elements.is_empty() =>
            {
                self.push("(");
                self.expr(arg, None);
                self.push("::");
                self.type_name(*inner);
                self.push(")");
            }
            arg if self.pretty() => self.expr(arg, Some(Parent::Tight)),
            arg => {
                self.push("(");
                self.expr(arg, None);
                self.push(")");
            }
        }
        self.push("::");
        self.type_name(ty);
    }

    /// A literal; with `label` its type is written behind it where the literal alone would mean another.
    pub(super) fn constant(&mut self, value: &Datum, ty: TypeRef, label: bool) {
        if value.is_null() {
            self.push("NULL");
            if label && ty.oid != types::UNKNOWN {
                self.push("::");
                self.type_name(ty);
            }
            return;
        }
        let text = self.constant_text(value, ty.oid);
        let needs_label = match ty.oid {
            types::BOOL => {
                self.push(if matches!(value, Datum::Bool(true)) { "true" } else { "false" });
                false
            }
            types::INT4 if !text.starts_with('-') => {
                self.push(&text);
                false
            }
            types::NUMERIC
                if text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['.', 'e', 'E']) =>
            {
                self.push(&text);
                ty.typmod >= 0
            }
            _ => {
                let literal = self.literal(&text);
                self.push(&literal);
                ty.oid != types::UNKNOWN
            }
        };
        if needs_label && label {
            self.push("::");
            self.type_name(ty);
        }
    }

    fn constant_text(&self, value: &Datum, oid: Oid) -> String {
        if let Datum::Oid(object) = value
            && is_reg_type(oid)
            && self.form == Form::Canonical
        {
            return object.to_string();
        }
        let mut text = String::new();
        match cairn_types::io::output(value, oid, self.env, &mut text) {
            Ok(()) => text,
            Err(_) => "???".to_owned(),
        }
    }

    fn reg_constant(&self, reg_type: Oid, object: Oid) -> String {
        self.literal(&self.constant_text(&Datum::Oid(object), reg_type))
    }

    /// A string literal without E: backslashes are doubled only where the session would read them so. What is stored is read
    /// with `standard_conforming_strings` on.
    fn literal(&self, text: &str) -> String {
        let plain = self.form == Form::Canonical || self.env.format().standard_conforming_strings;
        let text = text.replace('\'', "''");
        if plain { format!("'{text}'") } else { format!("'{}'", text.replace('\\', "\\\\")) }
    }

    fn var(&mut self, var: &Var) {
        if let Some(names) = self.names.filter(|_| self.levels.is_empty()) {
            let name = names.name(var);
            return self.push(&name);
        }
        let depth = self.levels.len().checked_sub(var.levels_up as usize + 1);
        let Some(level) = depth.and_then(|depth| self.levels.get(depth)) else {
            // Outside of the query: an enclosing expression's names.
            let name = self.names.map_or_else(|| "???".to_owned(), |names| names.name(var));
            return self.push(&name);
        };
        let alias = level.aliases.get(var.varno).cloned().unwrap_or_default();
        let qualify = level.qualify;
        let column = match usize::try_from(var.attno) {
            Ok(0) => {
                self.identifier(&alias);
                return self.push(".*");
            }
            Ok(attno) => level.columns.get(var.varno).and_then(|columns| columns.get(attno - 1)).cloned(),
            Err(_) => Some(system_column_name(var.attno).to_owned()),
        };
        if qualify && !alias.is_empty() {
            self.identifier(&alias);
            self.push(".");
        }
        self.identifier(column.as_deref().unwrap_or("???"));
    }

    fn field(&mut self, record: &'a Expr, number: i16, _ty: TypeRef) {
        let field = self.field_name(record, number);
        self.push("(");
        self.expr(record, None);
        self.push(").");
        self.identifier(&field);
    }

    fn field_name(&self, record: &'a Expr, number: i16) -> String {
        let index = usize::try_from(number).unwrap_or(1).saturating_sub(1);
        if let Expr::Row { names, .. } = record
            && let Some(name) = names.get(index)
        {
            return name.to_string();
        }
        let composite = |oid: Oid| {
            let relation = self.catalog.relation(self.catalog.type_by_oid(oid)?.relation)?;
            Some(relation.columns.get(index)?.name.to_string())
        };
        composite(expr_type(record).oid).unwrap_or_else(|| format!("f{number}"))
    }

    fn subscript(&mut self, subscript: &'a Subscript) {
        let simple = matches!(subscript.container, Expr::Var(_) | Expr::Param { .. });
        if !simple {
            self.push("(");
        }
        self.expr(&subscript.container, None);
        if !simple {
            self.push(")");
        }
        for (index, upper) in subscript.upper.iter().enumerate() {
            self.push("[");
            if subscript.slice {
                if let Some(Some(lower)) = subscript.lower.get(index) {
                    self.expr(lower, None);
                }
                self.push(":");
            }
            if let Some(upper) = upper {
                self.expr(upper, None);
            }
            self.push("]");
        }
        if let Some(value) = &subscript.assignment {
            self.push(" = ");
            self.expr(value, None);
        }
    }

    fn case(&mut self, case: &'a Case) {
        // In a query, CASE is laid out over lines.
        let outer = self.indent;
        let lines = self.lines;
        if lines {
            self.new_line(8);
        }
        self.push("CASE");
        if let Some(arg) = &case.arg {
            self.push(" ");
            self.expr(arg, None);
        }
        self.indent += 8;
        for (when, then) in &case.whens {
            self.new_line(4);
            self.push("WHEN ");
            // `case x when y`: the comparison's other side is what was written.
            match (case.arg.is_some(), when) {
                (true, Expr::Operator(call)) if call.args.len() == 2 => {
                    let written = call.args.iter().find(|arg| !contains_test_value(arg)).or(call.args.get(1));
                    if let Some(written) = written {
                        self.expr(written, None);
                    }
                }
                _ => self.expr(when, None),
            }
            self.push(" THEN ");
            self.expr(then, None);
        }
        self.new_line(4);
        self.push("ELSE ");
        self.expr(&case.default, None);
        self.new_line(0);
        self.push("END");
        self.indent = outer;
    }

    fn sublink(&mut self, link: &'a SubLink) {
        match &link.kind {
            SubLinkKind::Exists => {
                self.push("(EXISTS (");
                self.subquery(&link.query, false);
                self.push("))");
            }
            SubLinkKind::Any(comparison) | SubLinkKind::All(comparison) => {
                let any = matches!(link.kind, SubLinkKind::Any(_));
                self.push("(");
                if let [single] = comparison.left.as_slice() {
                    self.expr(single, Some(Parent::Tight));
                } else {
                    self.push("(");
                    self.list(&comparison.left);
                    self.push(")");
                }
                let symbol = match comparison.operators.first() {
                    Some((operator, _)) => self.operator_name(*operator),
                    None => "=".to_owned(),
                };
                match (any, symbol.as_str()) {
                    (true, "=") => self.push(" IN ("),
                    (true, _) => self.push(&format!(" {symbol} ANY (")),
                    (false, _) => self.push(&format!(" {symbol} ALL (")),
                }
                self.subquery(&link.query, false);
                self.push("))");
            }
            SubLinkKind::Expr | SubLinkKind::Row | SubLinkKind::RowSource => {
                self.push("(");
                self.subquery(&link.query, false);
                self.push(")");
            }
            SubLinkKind::Array => {
                self.push("ARRAY(");
                self.subquery(&link.query, false);
                self.push(")");
            }
        }
    }

    fn aggregate(&mut self, call: &'a AggregateCall) {
        self.function_name(call.function);
        self.push("(");
        if call.distinct {
            self.push("DISTINCT ");
        }
        let ordered_set = !call.direct_args.is_empty()
            || self.catalog.aggregate(call.function).is_some_and(|aggregate| aggregate.kind != b'n');
        if ordered_set {
            self.list(&call.direct_args);
            self.push(") WITHIN GROUP (ORDER BY ");
            self.aggregate_order(&call.order);
        } else {
            if call.star {
                self.push("*");
            } else {
                for (index, arg) in call.args.iter().enumerate() {
                    if index > 0 {
                        self.push(", ");
                    }
                    if call.variadic && index + 1 == call.args.len() {
                        self.push("VARIADIC ");
                    }
                    self.expr(arg, None);
                }
            }
            if !call.order.is_empty() {
                self.push(" ORDER BY ");
                self.aggregate_order(&call.order);
            }
        }
        self.push(")");
        self.filter(call.filter.as_ref());
    }

    fn filter(&mut self, filter: Option<&'a Expr>) {
        if let Some(filter) = filter {
            self.push(" FILTER (WHERE ");
            self.expr(filter, None);
            self.push(")");
        }
    }

    fn aggregate_order(&mut self, order: &'a [AggregateOrder]) {
        for (index, item) in order.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.clause_expression(&item.expr);
            self.direction(item.descending, item.nulls_first);
        }
    }

    /// What differs from ASC NULLS LAST, or DESC NULLS FIRST.
    pub(super) fn direction(&mut self, descending: bool, nulls_first: bool) {
        self.push(match (descending, nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        });
    }

    fn window(&mut self, call: &'a WindowCall) {
        self.function_name(call.function);
        self.push("(");
        if call.star {
            self.push("*");
        } else {
            self.list(&call.args);
        }
        self.push(")");
        self.filter(call.filter.as_ref());
        self.push(" OVER ");
        self.window_reference(call.window);
    }

    fn sql_value(&mut self, function: SqlValueFunction, typmod: i32) {
        let (word, takes_precision) = match function {
            SqlValueFunction::CurrentDate => ("CURRENT_DATE", false),
            SqlValueFunction::CurrentTime => ("CURRENT_TIME", true),
            SqlValueFunction::CurrentTimestamp => ("CURRENT_TIMESTAMP", true),
            SqlValueFunction::LocalTime => ("LOCALTIME", true),
            SqlValueFunction::LocalTimestamp => ("LOCALTIMESTAMP", true),
            SqlValueFunction::CurrentRole => ("CURRENT_ROLE", false),
            SqlValueFunction::CurrentUser => ("CURRENT_USER", false),
            SqlValueFunction::User => ("USER", false),
            SqlValueFunction::SessionUser => ("SESSION_USER", false),
            SqlValueFunction::CurrentCatalog => ("CURRENT_CATALOG", false),
            SqlValueFunction::CurrentSchema => ("CURRENT_SCHEMA", false),
        };
        self.push(word);
        if takes_precision && typmod >= 0 {
            self.push(&format!("({typmod})"));
        }
    }
}

/// Whether an operand that is itself of kind `own` must stand in parentheses under `parent`, in pretty form.
fn needs_parentheses(parent: Parent, own: Option<Parent>) -> bool {
    match (parent, own) {
        (_, None) => true,
        (Parent::And, Some(Parent::Or)) => true,
        (Parent::And | Parent::Or, _) => false,
        (Parent::Not, Some(Parent::And | Parent::Or)) => true,
        (Parent::Not, _) => false,
        // Only arithmetic is left without parentheses inside of operators.
        (Parent::Operator { precedence, right }, Some(Parent::Operator { precedence: inner, .. })) => {
            let arithmetic = precedence >= 6 && inner >= 6;
            !arithmetic || inner < precedence || inner == precedence && right
        }
        (Parent::Operator { .. } | Parent::Tight, _) => true,
    }
}

/// The grammar's precedence (manual, section 4.1.6): higher binds tighter.
fn precedence(symbol: &str) -> u8 {
    match symbol {
        "^" => 8,
        "*" | "/" | "%" => 7,
        "+" | "-" => 6,
        "<" | ">" | "=" | "<=" | ">=" | "<>" => 4,
        _ => 5,
    }
}

fn contains_test_value(expr: &Expr) -> bool {
    match expr {
        Expr::TestValue { .. } => true,
        Expr::Relabel { arg, .. } | Expr::CoerceViaIo { arg, .. } => contains_test_value(arg),
        Expr::Function(call) => call.args.iter().any(contains_test_value),
        _ => false,
    }
}

fn is_reg_type(oid: Oid) -> bool {
    matches!(
        oid,
        types::REGPROC
            | types::REGPROCEDURE
            | types::REGOPER
            | types::REGOPERATOR
            | types::REGCLASS
            | types::REGTYPE
            | types::REGCONFIG
            | types::REGDICTIONARY
            | types::REGNAMESPACE
            | types::REGROLE
            | types::REGCOLLATION
    )
}

/// The type of a set operation's output column, which is a column of its leftmost branch.
pub(super) fn var_type(expr: &Expr) -> Option<TypeRef> {
    match expr {
        Expr::Var(var) => Some(var.ty),
        _ => None,
    }
}
