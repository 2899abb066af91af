//! The text of functions: `create function` statements, argument lists, results.

use std::sync::Arc;

use cairn_catalog::columns::pg_proc;
use cairn_catalog::{ArgMode, Proc, ProcKind, RowExt, Volatility};
use cairn_types::quote::{quote_identifier, quote_literal, quote_qualified};
use cairn_types::{Oid, Result, err, oid::languages, types};

use super::System;

/// One argument of any mode.
struct Argument<'a> {
    mode: ArgMode,
    name: Option<&'a str>,
    type_oid: Oid,
}

impl Argument<'_> {
    fn is_input(&self) -> bool {
        matches!(self.mode, ArgMode::In | ArgMode::InOut | ArgMode::Variadic)
    }
}

fn arguments(proc: &Proc) -> Vec<Argument<'_>> {
    let types = if proc.all_arg_types.is_empty() { &proc.arg_types } else { &proc.all_arg_types };
    let argument = |(position, type_oid): (usize, &Oid)| Argument {
        mode: proc.arg_modes.get(position).copied().unwrap_or(ArgMode::In),
        name: proc.arg_names.get(position).map(|name| &**name).filter(|name| !name.is_empty()),
        type_oid: *type_oid,
    };
    types.iter().enumerate().map(argument).collect()
}

/// Settings whose value is a list of identifiers and is written as one.
const LIST_SETTINGS: &[&str] =
    &["search_path", "datestyle", "temp_tablespaces", "session_preload_libraries", "local_preload_libraries"];

impl System<'_> {
    fn type_text(&self, oid: Oid) -> String {
        self.catalog.type_name(oid, &self.path)
    }

    /// `pg_get_function_arguments`, and without defaults `pg_get_function_identity_arguments`.
    pub(super) fn function_arguments(&self, oid: Oid, defaults: bool) -> Result<Option<String>> {
        self.catalog.proc(oid).map(|proc| self.argument_list(proc, defaults, false)).transpose()
    }

    fn argument_list(&self, proc: &Proc, defaults: bool, table: bool) -> Result<String> {
        let all = arguments(proc);
        let inputs = all.iter().filter(|argument| argument.is_input()).count();
        let first_default = inputs.saturating_sub(proc.arg_defaults.len());
        // An ordered-set aggregate's direct arguments come before ORDER BY.
        let aggregate = self.catalog.aggregate(proc.oid).filter(|aggregate| aggregate.kind != b'n');
        let order_by = aggregate.map(|aggregate| aggregate.direct_args.max(0) as usize);
        let (mut text, mut shown, mut input) = (String::new(), 0usize, 0usize);
        for argument in &all {
            let this_input = input;
            input += usize::from(argument.is_input());
            if (argument.mode == ArgMode::Table) != table {
                continue;
            }
            if order_by == Some(shown) {
                if shown > 0 {
                    text.push(' ');
                }
                text.push_str("ORDER BY ");
            } else if shown > 0 {
                text.push_str(", ");
            }
            shown += 1;
            text.push_str(match argument.mode {
                ArgMode::In if proc.kind == ProcKind::Procedure => "IN ",
                ArgMode::In | ArgMode::Table => "",
                ArgMode::Out => "OUT ",
                ArgMode::InOut => "INOUT ",
                ArgMode::Variadic => "VARIADIC ",
            });
            if let Some(name) = argument.name {
                text.push_str(&quote_identifier(name));
                text.push(' ');
            }
            text.push_str(&self.type_text(argument.type_oid));
            if defaults
                && argument.is_input()
                && this_input >= first_default
                && let Some(default) = proc.arg_defaults.get(this_input - first_default)
            {
                text.push_str(" DEFAULT ");
                text.push_str(&self.displayed(default, None, false)?);
            }
            // A hypothetical-set aggregate's last argument stands on both sides.
            if order_by == Some(shown) && shown == all.len() {
                let last = text.clone();
                text.push_str(" ORDER BY ");
                text.push_str(&last);
            }
        }
        Ok(text)
    }

    /// `pg_get_function_result`; `None` for a procedure.
    pub(super) fn function_result(&self, oid: Oid) -> Option<String> {
        let proc = self.catalog.proc(oid)?;
        if proc.kind == ProcKind::Procedure {
            return None;
        }
        if proc.arg_modes.contains(&ArgMode::Table) {
            let columns = self.argument_list(proc, false, true).unwrap_or_default();
            return Some(format!("TABLE({columns})"));
        }
        let set = if proc.returns_set { "SETOF " } else { "" };
        Some(format!("{set}{}", self.type_text(proc.return_type)))
    }

    /// The default of an argument, counted from 1 over all modes.
    pub(super) fn function_argument_default(&self, oid: Oid, number: i32) -> Result<Option<String>> {
        let Some(proc) = self.catalog.proc(oid) else { return Ok(None) };
        let all = arguments(proc);
        let Some(position) = usize::try_from(number - 1).ok().filter(|position| *position < all.len()) else {
            return Ok(None);
        };
        if !all[position].is_input() {
            return Ok(None);
        }
        let inputs = all.iter().filter(|argument| argument.is_input()).count();
        let input = all[..position].iter().filter(|argument| argument.is_input()).count();
        let default =
            (input + proc.arg_defaults.len()).checked_sub(inputs).and_then(|at| proc.arg_defaults.get(at));
        default.map(|default| self.displayed(default, None, false)).transpose()
    }

    /// The body of a function in SQL-standard form.
    pub(super) fn function_body(&self, oid: Oid) -> Option<String> {
        self.catalog.proc(oid)?.sql_body.as_ref().map(|body| body.to_string())
    }

    pub(super) fn function_definition(&self, oid: Oid) -> Result<Option<String>> {
        let Some(proc) = self.catalog.proc(oid) else { return Ok(None) };
        if proc.kind == ProcKind::Aggregate {
            return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is an aggregate function", proc.name));
        }
        let procedure = proc.kind == ProcKind::Procedure;
        let what = if procedure { "PROCEDURE" } else { "FUNCTION" };
        let mut text = format!(
            "CREATE OR REPLACE {what} {}({})\n",
            quote_qualified(&self.catalog.namespace_name(proc.namespace), &proc.name),
            self.argument_list(proc, true, false)?
        );
        if let Some(result) = self.function_result(oid) {
            text.push_str(&format!(" RETURNS {result}\n"));
        }
        let language = self.catalog.language_name(proc.language).cloned().unwrap_or_else(|| "?".into());
        text.push_str(&format!(" LANGUAGE {}\n", quote_identifier(&language)));
        let options = self.function_options(proc);
        if !options.is_empty() {
            text.push_str(&format!("{options}\n"));
        }
        for (name, value) in &proc.config {
            let list = LIST_SETTINGS.contains(&name.to_ascii_lowercase().as_str());
            // A list's members are shown as literals, one by one.
            let members = if list { crate::core::identifier_list(value) } else { None };
            let value = match members {
                Some(members) if !members.is_empty() => {
                    members.iter().map(|member| quote_literal(member)).collect::<Vec<_>>().join(", ")
                }
                _ => quote_literal(value),
            };
            text.push_str(&format!(" SET {} TO {value}\n", quote_identifier(name)));
        }
        match &proc.sql_body {
            Some(body) => text.push_str(body),
            None => {
                let mut tag = format!("${}", what.to_ascii_lowercase());
                while proc.source.contains(tag.as_str()) {
                    tag.push('x');
                }
                text.push_str(&format!("AS {tag}${}{tag}$", proc.source));
            }
        }
        text.push('\n');
        Ok(Some(text))
    }

    /// What was said between LANGUAGE and AS, defaults left out; empty or beginning with a space.
    fn function_options(&self, proc: &Arc<Proc>) -> String {
        use pg_proc as c;
        let mut text = String::new();
        if proc.kind == ProcKind::Window {
            text.push_str(" WINDOW");
        }
        match proc.volatility {
            Volatility::Immutable => text.push_str(" IMMUTABLE"),
            Volatility::Stable => text.push_str(" STABLE"),
            Volatility::Volatile => {}
        }
        let row = self.catalog.row_by_oid(c::TABLE, proc.oid);
        match row.as_ref().map(|row| row.char(c::PROPARALLEL)) {
            Some(b's') => text.push_str(" PARALLEL SAFE"),
            Some(b'r') => text.push_str(" PARALLEL RESTRICTED"),
            _ => {}
        }
        if proc.strict {
            text.push_str(" STRICT");
        }
        if proc.security_definer {
            text.push_str(" SECURITY DEFINER");
        }
        let Some(row) = row else { return text };
        if row.bool(c::PROLEAKPROOF) {
            text.push_str(" LEAKPROOF");
        }
        let float = |column: usize| match row.datum(column) {
            cairn_types::Datum::Float4(value) => *value,
            _ => 0.0,
        };
        let usual_cost =
            if matches!(proc.language, languages::INTERNAL | languages::C) { 1.0 } else { 100.0 };
        if float(c::PROCOST) != usual_cost && float(c::PROCOST) != 0.0 {
            text.push_str(&format!(" COST {}", float(c::PROCOST)));
        }
        if proc.returns_set && float(c::PROROWS) != 1000.0 && float(c::PROROWS) != 0.0 {
            text.push_str(&format!(" ROWS {}", float(c::PROROWS)));
        }
        let support = row.oid(c::PROSUPPORT);
        if support != 0 {
            let name = self.env.reg_name(types::REGPROC, support);
            text.push_str(&format!(" SUPPORT {}", name.unwrap_or_default()));
        }
        text
    }
}
