//! PL/pgSQL text to its tree.
//!
//! Tokens come from PostgreSQL's own scanner; only the statement structure is parsed here. The grammar library's own
//! PL/pgSQL output is not used: it loses type modifiers, block scopes and the variable of RETURN.

use cairn_types::{Error, Result, err};
use pg_query::ParserOptions;
use pg_query::protobuf::{ScanToken, Token};

use super::ast::*;

/// Blocks and loops may nest this deep.
const DEPTH_MAX: usize = 200;

/// Parses a body. `function` is the name that qualifies parameters; the parameters are visible by name
/// (where they have one) and as `$1`, `$2`, ... Variables that hide others are handed to `shadowed`.
pub fn parse(
    body: &str,
    function: &str,
    parameters: &[(Option<String>, String)],
    result: ResultKind,
    shadowed: &mut dyn FnMut(Error) -> Result<()>,
) -> Result<Function> {
    let mut parser = Parser::new(body, result, shadowed)?;
    parser.declare_parameters(function, parameters);
    parser.function()
}

struct Parser<'a> {
    body: &'a str,
    tokens: Vec<ScanToken>,
    next: usize,
    variables: Vec<Variable>,
    scopes: Vec<Scope>,
    scope: ScopeId,
    labels: Vec<(Option<String>, LabelKind)>,
    fragment_count: usize,
    found: Slot,
    conflict: VariableConflict,
    print_strict_params: Option<bool>,
    result: ResultKind,
    shadowed: &'a mut dyn FnMut(Error) -> Result<()>,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LabelKind {
    Block,
    Loop,
}

/// What ends a piece of SQL, at parenthesis depth 0.
#[derive(Clone, Copy)]
enum Stop {
    Semicolon,
    Word(&'static str),
    Comma,
    DotDot,
    CloseParen,
    CloseBracket,
    Colon,
}

impl<'a> Parser<'a> {
    fn new(
        body: &'a str,
        result: ResultKind,
        shadowed: &'a mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Self> {
        let scanned = pg_query::scan(body).map_err(|error| err!(SYNTAX_ERROR, "{}", scan_message(&error)))?;
        let tokens = scanned
            .tokens
            .into_iter()
            .filter(|token| !matches!(token.token(), Token::SqlComment | Token::CComment))
            .collect();
        Ok(Parser {
            body,
            tokens,
            next: 0,
            variables: Vec::new(),
            scopes: vec![Scope::default()],
            scope: 0,
            labels: Vec::new(),
            fragment_count: 0,
            found: 0,
            conflict: VariableConflict::Error,
            print_strict_params: None,
            result,
            shadowed,
            depth: 0,
        })
    }

    fn declare_parameters(&mut self, function: &str, parameters: &[(Option<String>, String)]) {
        if let Some(scope) = self.scopes.first_mut() {
            scope.label = Some(function.to_owned());
        }
        for (index, (name, type_name)) in parameters.iter().enumerate() {
            let numbered = format!("${}", index + 1);
            let kind = VariableKind::Typed(type_name.clone());
            let slot = self.add_variable(name.as_deref().unwrap_or(&numbered), kind, 0);
            self.bind(&numbered, slot);
            if let Some(name) = name {
                self.bind(name, slot);
            }
        }
        self.found = self.add_variable("found", VariableKind::Boolean, 0);
        self.bind("found", self.found);
    }

    fn function(mut self) -> Result<Function> {
        self.directives()?;
        let label = self.label()?;
        let line = self.line();
        let block = self.block(label, line)?;
        if self.is(";") {
            self.next += 1;
        }
        if self.next < self.tokens.len() {
            return Err(self.unexpected());
        }
        Ok(Function {
            block,
            variables: self.variables,
            scopes: self.scopes,
            found: self.found,
            fragment_count: self.fragment_count,
            conflict: self.conflict,
            print_strict_params: self.print_strict_params,
        })
    }

    /// `#variable_conflict use_column` and its like, before the outermost block.
    fn directives(&mut self) -> Result<()> {
        while self.is("#") {
            self.next += 1;
            if self.accept("print_strict_params") {
                self.print_strict_params = match self.word().as_deref() {
                    Some("on") => Some(true),
                    Some("off") => Some(false),
                    _ => return Err(self.unexpected()),
                };
                self.next += 1;
                continue;
            }
            if !self.accept("variable_conflict") {
                return Err(self.unexpected());
            }
            self.conflict = match self.word().as_deref() {
                Some("error") => VariableConflict::Error,
                Some("use_variable") => VariableConflict::UseVariable,
                Some("use_column") => VariableConflict::UseColumn,
                _ => return Err(self.unexpected()),
            };
            self.next += 1;
        }
        Ok(())
    }

    // Blocks.

    fn block(&mut self, label: Option<String>, line: usize) -> Result<Block> {
        self.enter()?;
        let outer = self.scope;
        self.scopes.push(Scope { parent: Some(outer), label: label.clone(), names: Default::default() });
        self.scope = self.scopes.len() - 1;
        self.labels.push((label.clone(), LabelKind::Block));
        let mut declared = Vec::new();
        if self.accept("declare") {
            while !self.is("begin") {
                // A repeated DECLARE is allowed.
                if !self.accept("declare") {
                    self.declaration(&mut declared)?;
                }
            }
        }
        self.expect("begin")?;
        let body = self.statements(&["end", "exception"])?;
        let handlers = if self.accept("exception") { Some(self.handlers()?) } else { None };
        self.expect("end")?;
        self.end_label(label.as_deref())?;
        self.labels.pop();
        self.scope = outer;
        self.depth -= 1;
        Ok(Block { label, declared, body, handlers, line })
    }

    fn declaration(&mut self, declared: &mut Vec<(Slot, Option<Fragment>)>) -> Result<()> {
        let line = self.line();
        let name = self.identifier()?;
        if self.scopes.get(self.scope).is_some_and(|scope| scope.names.contains_key(&name)) {
            return Err(err!(SYNTAX_ERROR, "duplicate declaration").context(format!("at or near \"{name}\"")));
        }
        self.note_shadowed(&name)?;
        if self.accept("alias") {
            self.expect("for")?;
            let of = self.identifier()?;
            let slot =
                self.lookup(&of).ok_or_else(|| err!(UNDEFINED_OBJECT, "variable \"{of}\" does not exist"))?;
            self.bind(&name, slot);
            return self.expect(";");
        }
        let scroll = if self.accept("no") {
            self.expect("scroll")?;
            Some(false)
        } else {
            self.accept("scroll").then_some(true)
        };
        if self.accept("cursor") {
            return self.cursor_declaration(name, scroll, line, declared);
        }
        let constant = self.accept("constant");
        let type_begin = self.next;
        let type_name = self.type_name()?;
        if self.accept("collate") {
            self.identifier()?;
        }
        let not_null = self.accept("not");
        if not_null {
            self.expect("null")?;
        }
        let default = if self.is(":=") || self.is("=") || self.is("default") {
            self.next += 1;
            Some(self.fragment(&[Stop::Semicolon])?)
        } else {
            None
        };
        if default.is_none() && not_null {
            self.next = type_begin;
            return Err(err!(
                NULL_VALUE_NOT_ALLOWED,
                "variable \"{name}\" must have a default value, since it's declared NOT NULL"
            ));
        }
        self.expect(";")?;
        let kind = if type_name.eq_ignore_ascii_case("record") {
            VariableKind::Record
        } else {
            VariableKind::Typed(type_name)
        };
        let slot = self.add_variable(&name, kind, line);
        if let Some(variable) = self.variables.get_mut(slot) {
            variable.constant = constant;
            variable.not_null = not_null;
        }
        self.bind(&name, slot);
        declared.push((slot, default));
        Ok(())
    }

    /// Reports the name just read if it hides another variable.
    fn note_shadowed(&mut self, name: &str) -> Result<()> {
        if self.lookup(name).is_none() {
            return Ok(());
        }
        let offset = self.offset_of(self.next.saturating_sub(1));
        let error = err!(DUPLICATE_ALIAS, "variable \"{name}\" shadows a previously defined variable");
        (self.shadowed)(error.at(offset))
    }

    fn cursor_declaration(
        &mut self,
        name: String,
        scroll: Option<bool>,
        line: usize,
        declared: &mut Vec<(Slot, Option<Fragment>)>,
    ) -> Result<()> {
        let outer = self.scope;
        self.scopes.push(Scope { parent: Some(outer), ..Scope::default() });
        self.scope = self.scopes.len() - 1;
        let mut args = Vec::new();
        if self.accept("(") {
            loop {
                let arg = self.identifier()?;
                self.note_shadowed(&arg)?;
                let type_name = self.type_name()?;
                let slot = self.add_variable(&arg, VariableKind::Typed(type_name), line);
                self.bind(&arg, slot);
                args.push((arg, slot));
                if !self.accept(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        if !self.accept("is") {
            self.expect("for")?;
        }
        let query = Some(self.fragment(&[Stop::Semicolon])?);
        self.expect(";")?;
        self.scope = outer;
        let declaration = CursorDeclaration { scroll, args, query };
        let slot = self.add_variable(&name, VariableKind::Cursor(Box::new(declaration)), line);
        self.bind(&name, slot);
        declared.push((slot, None));
        Ok(())
    }

    /// A type name up to what can follow it in a declaration.
    fn type_name(&mut self) -> Result<String> {
        let begin = self.next;
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.next) {
            match self.text(token) {
                "(" | "[" => depth += 1,
                ")" | "]" if depth > 0 => depth -= 1,
                ";" | ":=" | "=" | "," | ")" if depth == 0 => break,
                _ if depth == 0 && self.next > begin && self.is_any(&["not", "default", "collate"]) => break,
                _ => {}
            }
            self.next += 1;
        }
        if self.next == begin {
            return Err(err!(SYNTAX_ERROR, "missing data type declaration").context(self.near()));
        }
        Ok(self.source(begin, self.next).to_owned())
    }

    fn handlers(&mut self) -> Result<Handlers> {
        let line = self.line();
        let outer = self.scope;
        self.scopes.push(Scope { parent: Some(outer), ..Scope::default() });
        self.scope = self.scopes.len() - 1;
        let sqlstate = self.add_variable("sqlstate", VariableKind::Text, line);
        let sqlerrm = self.add_variable("sqlerrm", VariableKind::Text, line);
        self.bind("sqlstate", sqlstate);
        self.bind("sqlerrm", sqlerrm);
        let mut handlers = Vec::new();
        while self.accept("when") {
            let mut conditions = vec![self.condition()?];
            while self.accept("or") {
                conditions.push(self.condition()?);
            }
            self.expect("then")?;
            let body = self.statements(&["end", "when"])?;
            handlers.push(Handler { conditions, body });
        }
        self.scope = outer;
        Ok(Handlers { sqlstate, sqlerrm, handlers })
    }

    fn condition(&mut self) -> Result<Condition> {
        let name = self.identifier()?;
        match name.as_str() {
            "others" => Ok(Condition::Others),
            "sqlstate" => Ok(Condition::SqlState(self.sqlstate_literal()?)),
            _ if is_condition(&name) => Ok(Condition::Name(name)),
            _ => Err(err!(UNDEFINED_OBJECT, "unrecognized exception condition \"{name}\"")),
        }
    }

    fn sqlstate_literal(&mut self) -> Result<[u8; 5]> {
        let text = self.string()?;
        let valid = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        match <[u8; 5]>::try_from(text.as_bytes()) {
            Ok(state) if state.iter().all(valid) => Ok(state),
            _ => Err(err!(SYNTAX_ERROR, "invalid SQLSTATE code")),
        }
    }

    // Statements.

    fn statements(&mut self, until: &[&str]) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        while !self.is_any(until) {
            if self.next >= self.tokens.len() {
                return Err(self.unexpected());
            }
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    fn statement(&mut self) -> Result<Statement> {
        let label = self.label()?;
        let line = self.line();
        let word = self.word().unwrap_or_default();
        if label.is_some()
            && !matches!(word.as_str(), "declare" | "begin" | "loop" | "while" | "for" | "foreach")
        {
            return Err(self.unexpected());
        }
        let kind = if self.begins_assignment() {
            self.assignment()?
        } else {
            match word.as_str() {
                "declare" | "begin" => {
                    let block = self.block(label, line)?;
                    self.expect(";")?;
                    StatementKind::Block(block)
                }
                "if" => self.if_statement()?,
                "case" => self.case_statement()?,
                "loop" => {
                    let body = self.loop_body(label.as_deref())?;
                    StatementKind::Loop { label, body }
                }
                "while" => {
                    self.next += 1;
                    let condition = self.fragment(&[Stop::Word("loop")])?;
                    let body = self.loop_body(label.as_deref())?;
                    StatementKind::While { label, condition, body }
                }
                "for" => self.for_statement(label)?,
                "foreach" => self.foreach_statement(label)?,
                "exit" | "continue" => self.exit_statement(word == "exit")?,
                "return" => self.return_statement()?,
                "raise" => self.raise_statement()?,
                "assert" => {
                    self.next += 1;
                    let condition = self.fragment(&[Stop::Comma, Stop::Semicolon])?;
                    let message =
                        if self.accept(",") { Some(self.fragment(&[Stop::Semicolon])?) } else { None };
                    self.expect(";")?;
                    StatementKind::Assert { condition, message }
                }
                "execute" => self.execute_statement()?,
                "perform" => {
                    self.next += 1;
                    let mut statement = self.fragment(&[Stop::Semicolon])?;
                    statement.text = format!("SELECT {}", statement.text);
                    statement.offset = statement.offset.saturating_sub("SELECT ".len());
                    self.expect(";")?;
                    StatementKind::Sql { statement, perform: true, into: None }
                }
                "get" => self.get_diagnostics()?,
                "open" => self.open_statement()?,
                "fetch" | "move" => self.fetch_statement(word == "fetch")?,
                "close" => {
                    self.next += 1;
                    let cursor = self.cursor_variable()?;
                    self.expect(";")?;
                    StatementKind::Close { cursor }
                }
                "commit" | "rollback" => {
                    self.next += 1;
                    let mut chain = false;
                    if self.accept("and") {
                        chain = !self.accept("no");
                        self.expect("chain")?;
                    }
                    self.expect(";")?;
                    if word == "commit" {
                        StatementKind::Commit { chain }
                    } else {
                        StatementKind::Rollback { chain }
                    }
                }
                "null" => {
                    self.next += 1;
                    self.expect(";")?;
                    StatementKind::Null
                }
                _ => self.sql_statement()?,
            }
        };
        Ok(Statement { line, kind })
    }

    fn if_statement(&mut self) -> Result<StatementKind> {
        self.enter()?;
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        self.next += 1;
        loop {
            let condition = self.fragment(&[Stop::Word("then")])?;
            self.expect("then")?;
            branches.push((condition, self.statements(&["elsif", "elseif", "else", "end"])?));
            if self.accept("elsif") || self.accept("elseif") {
                continue;
            }
            if self.accept("else") {
                otherwise = self.statements(&["end"])?;
            }
            break;
        }
        self.expect("end")?;
        self.expect("if")?;
        self.expect(";")?;
        self.depth -= 1;
        Ok(StatementKind::If { branches, otherwise })
    }

    fn case_statement(&mut self) -> Result<StatementKind> {
        self.enter()?;
        self.next += 1;
        let subject = if self.is("when") {
            None
        } else {
            let value = self.fragment(&[Stop::Word("when")])?;
            let name = format!("__case_{}", self.variables.len());
            let slot = self.add_variable(&name, VariableKind::Untyped, value.line);
            self.bind(&name, slot);
            Some((slot, value))
        };
        let mut whens = Vec::new();
        while self.accept("when") {
            let mut condition = self.fragment(&[Stop::Word("then")])?;
            if let Some(name) = subject.as_ref().and_then(|(slot, _)| Some(&self.variables.get(*slot)?.name))
            {
                let before = format!("\"{name}\" IN (");
                condition.offset = condition.offset.saturating_sub(before.len());
                condition.text = format!("{before}{})", condition.text);
            }
            self.expect("then")?;
            whens.push((condition, self.statements(&["when", "else", "end"])?));
        }
        let otherwise = if self.accept("else") { Some(self.statements(&["end"])?) } else { None };
        self.expect("end")?;
        self.expect("case")?;
        self.expect(";")?;
        self.depth -= 1;
        Ok(StatementKind::Case { subject, whens, otherwise })
    }

    /// `LOOP ... END LOOP [label];`
    fn loop_body(&mut self, label: Option<&str>) -> Result<Vec<Statement>> {
        self.enter()?;
        self.labels.push((label.map(str::to_owned), LabelKind::Loop));
        self.expect("loop")?;
        let body = self.statements(&["end"])?;
        self.expect("end")?;
        self.expect("loop")?;
        self.end_label(label)?;
        self.expect(";")?;
        self.labels.pop();
        self.depth -= 1;
        Ok(body)
    }

    fn for_statement(&mut self, label: Option<String>) -> Result<StatementKind> {
        self.next += 1;
        let line = self.line();
        // What kind of loop it is shows only behind IN: remember the names until then.
        let names_begin = self.next;
        let mut names = vec![self.dotted_identifier()?];
        while self.accept(",") {
            names.push(self.dotted_identifier()?);
        }
        let names_end = self.next;
        self.expect("in")?;
        if self.accept("execute") {
            let target = self.reparse_targets(names_begin, names_end)?;
            let text = self.fragment(&[Stop::Word("using"), Stop::Word("loop")])?;
            let using = self.using(&[Stop::Comma, Stop::Word("loop")])?;
            let body = self.loop_body(label.as_deref())?;
            return Ok(StatementKind::ForQuery { label, target, query: Rows::Dynamic { text, using }, body });
        }
        if let Some(cursor) = self.peek_bound_cursor() {
            self.next += 1;
            let args = self.cursor_args(cursor)?;
            let name = names.into_iter().next().unwrap_or_default();
            let outer = self.open_loop_scope();
            let target = self.add_variable(&name, VariableKind::Record, line);
            self.bind(&name, target);
            let body = self.loop_body(label.as_deref())?;
            self.scope = outer;
            return Ok(StatementKind::ForCursor { label, target, cursor, args, body });
        }
        let reverse = self.accept("reverse");
        let first = self.fragment(&[Stop::DotDot, Stop::Word("loop")])?;
        if self.accept("..") {
            let [name] = names.as_slice() else {
                return Err(err!(SYNTAX_ERROR, "integer FOR loop must have only one target variable"));
            };
            let to = self.fragment(&[Stop::Word("by"), Stop::Word("loop")])?;
            let by = if self.accept("by") { Some(self.fragment(&[Stop::Word("loop")])?) } else { None };
            let outer = self.open_loop_scope();
            let variable = self.add_variable(name, VariableKind::Integer, line);
            self.bind(name, variable);
            let body = self.loop_body(label.as_deref())?;
            self.scope = outer;
            return Ok(StatementKind::ForInteger { label, variable, reverse, from: first, to, by, body });
        }
        if reverse {
            return Err(err!(SYNTAX_ERROR, "cannot specify REVERSE in query FOR loop"));
        }
        let target = self.reparse_targets(names_begin, names_end)?;
        let body = self.loop_body(label.as_deref())?;
        Ok(StatementKind::ForQuery { label, target, query: Rows::Static(first), body })
    }

    fn foreach_statement(&mut self, label: Option<String>) -> Result<StatementKind> {
        self.next += 1;
        let target = self.targets()?;
        let slice = if self.accept("slice") {
            let text = self.tokens.get(self.next).map(|token| self.text(token)).unwrap_or_default();
            let slice = text.parse().map_err(|_| self.unexpected())?;
            self.next += 1;
            slice
        } else {
            0
        };
        self.expect("in")?;
        self.expect("array")?;
        let array = self.fragment(&[Stop::Word("loop")])?;
        let body = self.loop_body(label.as_deref())?;
        Ok(StatementKind::ForEach { label, target, slice, array, body })
    }

    fn exit_statement(&mut self, exit: bool) -> Result<StatementKind> {
        self.next += 1;
        let label = if self.is(";") || self.is("when") { None } else { Some(self.identifier()?) };
        let known = match &label {
            None => self.labels.iter().any(|(_, kind)| *kind == LabelKind::Loop),
            Some(label) => {
                let found = self.labels.iter().rev().find(|(name, _)| name.as_ref() == Some(label));
                match found {
                    None => {
                        return Err(err!(
                            SYNTAX_ERROR,
                            "there is no label \"{label}\" attached to any block or loop enclosing this statement"
                        ));
                    }
                    Some((_, LabelKind::Block)) if !exit => {
                        return Err(err!(SYNTAX_ERROR, "block label \"{label}\" cannot be used in CONTINUE"));
                    }
                    Some(_) => true,
                }
            }
        };
        if !known {
            let word = if exit { "EXIT" } else { "CONTINUE" };
            let detail = if exit { ", unless it has a label" } else { "" };
            return Err(err!(SYNTAX_ERROR, "{word} cannot be used outside a loop{detail}"));
        }
        let when = if self.accept("when") { Some(self.fragment(&[Stop::Semicolon])?) } else { None };
        self.expect(";")?;
        Ok(StatementKind::Exit { exit, label, when })
    }

    fn return_statement(&mut self) -> Result<StatementKind> {
        let start = self.offset_of(self.next);
        self.next += 1;
        let offset = self.offset_of(self.next);
        if self.accept("next") {
            let ResultKind::Set { outputs } = self.result else {
                let error = err!(DATATYPE_MISMATCH, "cannot use RETURN NEXT in a non-SETOF function");
                return Err(error.at(start));
            };
            let offset = self.offset_of(self.next);
            let value = match outputs {
                true if !self.is(";") => {
                    let message = "RETURN NEXT cannot have a parameter in function with OUT parameters";
                    return Err(err!(DATATYPE_MISMATCH, "{message}").at(offset));
                }
                true => None,
                false => Some(self.fragment(&[Stop::Semicolon])?),
            };
            self.expect(";")?;
            return Ok(StatementKind::ReturnNext(value));
        }
        if self.accept("query") {
            if !matches!(self.result, ResultKind::Set { .. }) {
                let error = err!(DATATYPE_MISMATCH, "cannot use RETURN QUERY in a non-SETOF function");
                return Err(error.at(start));
            }
            let rows = if self.accept("execute") {
                let text = self.fragment(&[Stop::Word("using"), Stop::Semicolon])?;
                let using = self.using(&[Stop::Comma, Stop::Semicolon])?;
                Rows::Dynamic { text, using }
            } else {
                Rows::Static(self.fragment(&[Stop::Semicolon])?)
            };
            self.expect(";")?;
            return Ok(StatementKind::ReturnQuery(rows));
        }
        let no_value_in = match self.result {
            ResultKind::Value => {
                let value = self.fragment(&[Stop::Semicolon])?;
                self.expect(";")?;
                return Ok(StatementKind::Return(Some(value)));
            }
            ResultKind::Set { .. } => "function returning set",
            ResultKind::Procedure => "a procedure",
            ResultKind::Void => "function returning void",
            ResultKind::Outputs => "function with OUT parameters",
        };
        if self.accept(";") {
            return Ok(StatementKind::Return(None));
        }
        let error = err!(DATATYPE_MISMATCH, "RETURN cannot have a parameter in {no_value_in}").at(offset);
        Err(match self.result {
            ResultKind::Set { .. } => error.hint("Use RETURN NEXT or RETURN QUERY."),
            _ => error,
        })
    }

    fn raise_statement(&mut self) -> Result<StatementKind> {
        self.next += 1;
        let mut raise = Raise {
            level: RaiseLevel::Exception,
            message: None,
            params: Vec::new(),
            condition: None,
            options: Vec::new(),
        };
        let level = match self.word().as_deref() {
            Some("debug") => Some(RaiseLevel::Debug),
            Some("log") => Some(RaiseLevel::Log),
            Some("info") => Some(RaiseLevel::Info),
            Some("notice") => Some(RaiseLevel::Notice),
            Some("warning") => Some(RaiseLevel::Warning),
            Some("exception") => Some(RaiseLevel::Exception),
            _ => None,
        };
        if let Some(level) = level {
            self.next += 1;
            raise.level = level;
        }
        if self.accept(";") {
            if level.is_some() {
                self.next -= 1;
                return Err(self.unexpected());
            }
            return Ok(StatementKind::Raise(raise));
        }
        if self.is_string() {
            let message = self.string()?;
            while self.accept(",") {
                raise.params.push(self.fragment(&[Stop::Comma, Stop::Word("using"), Stop::Semicolon])?);
            }
            let wanted = message.replace("%%", "").matches('%').count();
            if wanted > raise.params.len() {
                return Err(err!(SYNTAX_ERROR, "too few parameters specified for RAISE"));
            }
            if wanted < raise.params.len() {
                return Err(err!(SYNTAX_ERROR, "too many parameters specified for RAISE"));
            }
            raise.message = Some(message);
        } else if !self.is("using") {
            let name = self.identifier()?;
            raise.condition = Some(match name.as_str() {
                "sqlstate" => Condition::SqlState(self.sqlstate_literal()?),
                _ if is_condition(&name) => Condition::Name(name),
                _ => return Err(err!(UNDEFINED_OBJECT, "unrecognized exception condition \"{name}\"")),
            });
        }
        if self.accept("using") {
            loop {
                let option = self.identifier()?;
                const OPTIONS: [&str; 9] = [
                    "errcode",
                    "message",
                    "detail",
                    "hint",
                    "column",
                    "constraint",
                    "datatype",
                    "table",
                    "schema",
                ];
                if !OPTIONS.contains(&option.as_str()) {
                    return Err(err!(SYNTAX_ERROR, "unrecognized RAISE statement option"));
                }
                if !self.accept(":=") {
                    self.expect("=")?;
                }
                let value = self.fragment(&[Stop::Comma, Stop::Semicolon])?;
                raise.options.push((option, value));
                if !self.accept(",") {
                    break;
                }
            }
        }
        self.expect(";")?;
        Ok(StatementKind::Raise(raise))
    }

    fn execute_statement(&mut self) -> Result<StatementKind> {
        self.next += 1;
        let text = self.fragment(&[Stop::Word("into"), Stop::Word("using"), Stop::Semicolon])?;
        let mut into = None;
        let mut using = Vec::new();
        loop {
            if into.is_none() && self.accept("into") {
                let strict = self.accept("strict");
                into = Some(Into { strict, targets: self.targets()? });
            } else if using.is_empty() && self.is("using") {
                using = self.using(&[Stop::Comma, Stop::Word("into"), Stop::Semicolon])?;
            } else {
                break;
            }
        }
        self.expect(";")?;
        Ok(StatementKind::Execute { text, using, into })
    }

    fn using(&mut self, stops: &[Stop]) -> Result<Vec<Fragment>> {
        let mut values = Vec::new();
        if self.accept("using") {
            loop {
                values.push(self.fragment(stops)?);
                if !self.accept(",") {
                    break;
                }
            }
        }
        Ok(values)
    }

    fn get_diagnostics(&mut self) -> Result<StatementKind> {
        self.next += 1;
        let stacked = self.accept("stacked");
        if !stacked {
            self.accept("current");
        }
        self.expect("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.accept(":=") {
                self.expect("=")?;
            }
            let item = self.identifier()?;
            const CURRENT: [&str; 3] = ["row_count", "pg_context", "pg_routine_oid"];
            const STACKED: [&str; 10] = [
                "returned_sqlstate",
                "message_text",
                "pg_exception_detail",
                "pg_exception_hint",
                "pg_exception_context",
                "column_name",
                "constraint_name",
                "pg_datatype_name",
                "table_name",
                "schema_name",
            ];
            let allowed = if stacked { &STACKED[..] } else { &CURRENT[..] };
            if !allowed.contains(&item.as_str()) {
                if CURRENT.contains(&item.as_str()) || STACKED.contains(&item.as_str()) {
                    let form = if stacked { "STACKED" } else { "CURRENT" };
                    let item = item.to_ascii_uppercase();
                    return Err(err!(
                        SYNTAX_ERROR,
                        "diagnostics item {item} is not allowed in GET {form} DIAGNOSTICS"
                    ));
                }
                return Err(err!(SYNTAX_ERROR, "unrecognized GET DIAGNOSTICS item").context(self.near()));
            }
            items.push((target, item));
            if !self.accept(",") {
                break;
            }
        }
        self.expect(";")?;
        Ok(StatementKind::GetDiagnostics { stacked, items })
    }

    fn open_statement(&mut self) -> Result<StatementKind> {
        self.next += 1;
        let cursor = self.cursor_variable()?;
        let scroll = if self.accept("no") {
            self.expect("scroll")?;
            Some(false)
        } else {
            self.accept("scroll").then_some(true)
        };
        let source = if self.accept("for") {
            if self.accept("execute") {
                let text = self.fragment(&[Stop::Word("using"), Stop::Semicolon])?;
                let using = self.using(&[Stop::Comma, Stop::Semicolon])?;
                OpenSource::Rows(Rows::Dynamic { text, using })
            } else {
                OpenSource::Rows(Rows::Static(self.fragment(&[Stop::Semicolon])?))
            }
        } else {
            OpenSource::Bound(self.cursor_args(cursor)?)
        };
        self.expect(";")?;
        Ok(StatementKind::Open { cursor, scroll, source })
    }

    /// The arguments of a declared cursor, in any notation, as one list in the order of its parameters.
    fn cursor_args(&mut self, cursor: Slot) -> Result<Option<Fragment>> {
        let (name, params) = match self.variables.get(cursor) {
            Some(Variable { name, kind: VariableKind::Cursor(declaration), .. }) => {
                let params = declaration.args.iter().map(|(name, _)| name.clone()).collect();
                (name.clone(), params)
            }
            Some(variable) => (variable.name.clone(), Vec::new()),
            None => (String::new(), Vec::new()),
        };
        let offset = self.offset_of(self.next);
        let refuse = |message: String, offset: i32| Err(err!(SYNTAX_ERROR, "{message}").at(offset));
        if !self.is("(") {
            return match params.is_empty() {
                true => Ok(None),
                false => refuse(format!("cursor \"{name}\" has arguments"), offset),
            };
        }
        if params.is_empty() {
            return refuse(format!("cursor \"{name}\" has no arguments"), offset);
        }
        self.next += 1;
        let begin = self.next;
        let mut given: Vec<Option<String>> = vec![None; params.len()];
        for number in 0..params.len() {
            let last = self.offset_of(self.next);
            let notation = self.tokens.get(self.next + 1).map(|token| self.text(token));
            let mut place = number;
            if notation == Some(":=") {
                let wanted = self.identifier()?;
                place = match params.iter().position(|param| *param == wanted) {
                    Some(place) => place,
                    None => {
                        return refuse(format!("cursor \"{name}\" has no argument named \"{wanted}\""), last);
                    }
                };
                self.next += 1;
            }
            let param = &params[place];
            if given[place].is_some() {
                let message =
                    format!("value for parameter \"{param}\" of cursor \"{name}\" specified more than once");
                return refuse(message, last);
            }
            given[place] = Some(self.fragment(&[Stop::Comma, Stop::CloseParen])?.text);
            if self.is(")") && number + 1 < params.len() {
                let at = self.offset_of(self.next);
                return refuse(format!("not enough arguments for cursor \"{name}\""), at);
            }
            if self.is(",") {
                if number + 1 == params.len() {
                    let at = self.offset_of(self.next);
                    return refuse(format!("too many arguments for cursor \"{name}\""), at);
                }
                self.next += 1;
            }
        }
        let mut args = self.fragment_of(begin, self.next);
        let given: Vec<String> = given.into_iter().flatten().collect();
        args.text = given.join(", ");
        self.expect(")")?;
        Ok(Some(args))
    }

    fn fetch_statement(&mut self, fetch: bool) -> Result<StatementKind> {
        self.next += 1;
        let word = self.word().unwrap_or_default();
        let mut explicit = true;
        let direction = match word.as_str() {
            "next" => self.take(FetchDirection::Next),
            "prior" => self.take(FetchDirection::Prior),
            "first" => self.take(FetchDirection::First),
            "last" => self.take(FetchDirection::Last),
            "absolute" | "relative" => {
                self.next += 1;
                let count = self.fragment(&[Stop::Word("from"), Stop::Word("in")])?;
                if word == "absolute" {
                    FetchDirection::Absolute(count)
                } else {
                    FetchDirection::Relative(count)
                }
            }
            "forward" | "backward" => {
                self.next += 1;
                let count = if self.is("from") || self.is("in") {
                    Some(self.made_up_fragment("1"))
                } else if self.accept("all") {
                    None
                } else {
                    Some(self.fragment(&[Stop::Word("from"), Stop::Word("in")])?)
                };
                if word == "forward" {
                    FetchDirection::Forward(count)
                } else {
                    FetchDirection::Backward(count)
                }
            }
            _ => {
                explicit = false;
                FetchDirection::Next
            }
        };
        if !self.accept("from") && !self.accept("in") && explicit && self.cursor_here().is_none() {
            return Err(self.unexpected());
        }
        let cursor = self.cursor_variable()?;
        let into = if fetch {
            self.expect("into")?;
            Some(self.targets()?)
        } else {
            None
        };
        self.expect(";")?;
        Ok(StatementKind::Fetch { cursor, direction, into })
    }

    fn take(&mut self, direction: FetchDirection) -> FetchDirection {
        self.next += 1;
        direction
    }

    /// Any SQL statement; its INTO clause, if it has one of PL/pgSQL's, is taken out.
    fn sql_statement(&mut self) -> Result<StatementKind> {
        let begin = self.next;
        let first = self.word().unwrap_or_default();
        if first.is_empty() && !self.is("(") {
            return Err(self.unexpected());
        }
        let mut into = None;
        let mut blank = None;
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.next) {
            match self.text(token) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                ";" if depth == 0 => break,
                _ if self.is("into")
                    && depth == 0
                    && into.is_none()
                    && !self.into_belongs_to_sql(begin, &first) =>
                {
                    let clause = self.next;
                    self.next += 1;
                    let strict = self.accept("strict");
                    into = Some(Into { strict, targets: self.targets()? });
                    blank = Some((clause, self.next));
                    continue;
                }
                _ => {}
            }
            self.next += 1;
        }
        if self.next >= self.tokens.len() {
            return Err(self.unexpected());
        }
        let mut statement = self.fragment_of(begin, self.next);
        if let Some((from, to)) = blank {
            let start = self.token_start(from).saturating_sub(statement.offset);
            let end = self.token_end(to.saturating_sub(1)).saturating_sub(statement.offset);
            if let (Some(before), Some(after)) = (statement.text.get(..start), statement.text.get(end..)) {
                statement.text = format!("{before}{}{after}", " ".repeat(end - start));
            }
        }
        check_sql(&statement, FragmentKind::Statement)?;
        self.expect(";")?;
        Ok(StatementKind::Sql { statement, perform: false, into })
    }

    /// `insert into`, `merge into`, and the targets of `import ... into` are SQL's own.
    fn into_belongs_to_sql(&self, begin: usize, first: &str) -> bool {
        if matches!(first, "import" | "create" | "explain") {
            return true;
        }
        let before = self.next.checked_sub(1).filter(|before| *before >= begin);
        before.is_some_and(|before| {
            let word = self.tokens.get(before).map(|token| self.text(token).to_ascii_lowercase());
            matches!(word.as_deref(), Some("insert" | "merge"))
        })
    }

    // Assignments and their targets.

    fn begins_assignment(&self) -> bool {
        let Some(token) = self.tokens.get(self.next) else { return false };
        let is_name = token.token() == Token::Ident || token.token() == Token::Param || self.word().is_some();
        if !is_name || self.lookup(&self.name_of(token)).is_none() && !self.is_label(&self.name_of(token)) {
            return false;
        }
        let after = self.tokens.get(self.next + 1).map(|token| self.text(token));
        matches!(after, Some(":=" | "=" | "[" | "."))
    }

    fn assignment(&mut self) -> Result<StatementKind> {
        let target = self.target()?;
        if self.variables.get(target.slot).is_some_and(|variable| variable.constant) {
            let name = &target.text;
            return Err(err!(ERROR_IN_ASSIGNMENT, "variable \"{name}\" is declared CONSTANT"));
        }
        if !self.accept(":=") {
            self.expect("=")?;
        }
        let value = self.fragment(&[Stop::Semicolon])?;
        self.expect(";")?;
        Ok(StatementKind::Assign { target, value })
    }

    fn targets(&mut self) -> Result<Vec<AssignTarget>> {
        let mut targets = vec![self.target()?];
        while self.accept(",") {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    fn target(&mut self) -> Result<AssignTarget> {
        let begin = self.next;
        let mut name = self.identifier()?;
        let mut slot = self.lookup(&name);
        if slot.is_none() && self.is(".") {
            // label.variable
            self.next += 1;
            let inner = self.identifier()?;
            slot = self.lookup_qualified(&name, &inner);
            name = format!("{name}.{inner}");
        }
        let slot = slot.ok_or_else(|| err!(SYNTAX_ERROR, "\"{name}\" is not a known variable"))?;
        let mut path = Vec::new();
        loop {
            if self.accept(".") {
                path.push(PathStep::Field(self.identifier()?));
            } else if self.accept("[") {
                let lower = if self.is(":") {
                    None
                } else {
                    Some(self.fragment(&[Stop::Colon, Stop::CloseBracket])?)
                };
                if self.accept(":") {
                    let upper = if self.is("]") { None } else { Some(self.fragment(&[Stop::CloseBracket])?) };
                    path.push(PathStep::Slice(lower, upper));
                } else if let Some(index) = lower {
                    path.push(PathStep::Subscript(index));
                }
                self.expect("]")?;
            } else {
                break;
            }
        }
        Ok(AssignTarget { slot, path, text: self.source(begin, self.next).to_owned() })
    }

    /// Parses the targets of a FOR loop, whose tokens were passed over.
    fn reparse_targets(&mut self, begin: usize, end: usize) -> Result<Vec<AssignTarget>> {
        let after = self.next;
        self.next = begin;
        let targets = self.targets();
        let reached = self.next;
        self.next = after;
        let targets = targets?;
        if reached != end {
            return Err(self.unexpected());
        }
        Ok(targets)
    }

    fn cursor_variable(&mut self) -> Result<Slot> {
        let name = self.identifier()?;
        self.lookup(&name).ok_or_else(|| err!(SYNTAX_ERROR, "\"{name}\" is not a known variable"))
    }

    fn cursor_here(&self) -> Option<Slot> {
        let token = self.tokens.get(self.next)?;
        self.lookup(&self.name_of(token))
    }

    fn peek_bound_cursor(&self) -> Option<Slot> {
        let slot = self.cursor_here()?;
        matches!(self.variables.get(slot)?.kind, VariableKind::Cursor(_)).then_some(slot)
    }

    // Names.

    fn add_variable(&mut self, name: &str, kind: VariableKind, line: usize) -> Slot {
        self.variables.push(Variable { name: name.to_owned(), kind, constant: false, not_null: false, line });
        self.variables.len() - 1
    }

    fn bind(&mut self, name: &str, slot: Slot) {
        if let Some(scope) = self.scopes.get_mut(self.scope) {
            scope.names.insert(name.to_owned(), slot);
        }
    }

    fn open_loop_scope(&mut self) -> ScopeId {
        let outer = self.scope;
        self.scopes.push(Scope { parent: Some(outer), ..Scope::default() });
        self.scope = self.scopes.len() - 1;
        outer
    }

    fn lookup(&self, name: &str) -> Option<Slot> {
        lookup(&self.scopes, self.scope, Slot::MAX, name)
    }

    fn lookup_qualified(&self, label: &str, name: &str) -> Option<Slot> {
        lookup_qualified(&self.scopes, self.scope, Slot::MAX, label, name)
    }

    fn is_label(&self, name: &str) -> bool {
        let mut scope = Some(self.scope);
        while let Some(current) = scope.and_then(|id| self.scopes.get(id)) {
            if current.label.as_deref() == Some(name) {
                return true;
            }
            scope = current.parent;
        }
        false
    }

    // Tokens.

    fn text(&self, token: &ScanToken) -> &'a str {
        let range = usize::try_from(token.start).unwrap_or(0)..usize::try_from(token.end).unwrap_or(0);
        self.body.get(range).unwrap_or_default()
    }

    fn token_start(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(self.body.len(), |token| usize::try_from(token.start).unwrap_or(0))
    }

    fn token_end(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(self.body.len(), |token| usize::try_from(token.end).unwrap_or(0))
    }

    /// The text of tokens `begin..end`.
    fn source(&self, begin: usize, end: usize) -> &'a str {
        self.body.get(self.token_start(begin)..self.token_end(end.saturating_sub(1))).unwrap_or_default()
    }

    fn line(&self) -> usize {
        self.line_at(self.token_start(self.next))
    }

    /// Lines count from 1, where the text right behind `$$` is line 1.
    fn line_at(&self, offset: usize) -> usize {
        1 + self.body.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
    }

    /// The next token as a lower-case word, if it is an unquoted one.
    fn word(&self) -> Option<String> {
        let text = self.text(self.tokens.get(self.next)?);
        let first = text.as_bytes().first()?;
        (first.is_ascii_alphabetic() || *first == b'_' || *first >= 0x80).then(|| text.to_ascii_lowercase())
    }

    /// Whether the next token is this symbol or (unquoted, any case) word.
    fn is(&self, expected: &str) -> bool {
        self.tokens.get(self.next).is_some_and(|token| self.text(token).eq_ignore_ascii_case(expected))
    }

    fn is_any(&self, expected: &[&str]) -> bool {
        expected.iter().any(|word| self.is(word))
    }

    fn accept(&mut self, expected: &str) -> bool {
        let found = self.is(expected);
        if found {
            self.next += 1;
        }
        found
    }

    fn expect(&mut self, expected: &str) -> Result<()> {
        if self.accept(expected) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// A token's name: folded to lower case, or what its quotes hold.
    fn name_of(&self, token: &ScanToken) -> String {
        let text = self.text(token);
        match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => text.to_lowercase(),
        }
    }

    fn identifier(&mut self) -> Result<String> {
        let Some(token) = self.tokens.get(self.next) else { return Err(self.unexpected()) };
        let quoted = self.text(token).starts_with('"');
        if !quoted && self.word().is_none() && token.token() != Token::Param {
            return Err(self.unexpected());
        }
        let name = self.name_of(token);
        self.next += 1;
        Ok(name)
    }

    /// `a` or `a.b`: passes over it, the last name counts.
    fn dotted_identifier(&mut self) -> Result<String> {
        let mut name = self.identifier()?;
        while self.accept(".") {
            name = self.identifier()?;
        }
        Ok(name)
    }

    fn is_string(&self) -> bool {
        self.tokens
            .get(self.next)
            .is_some_and(|token| matches!(token.token(), Token::Sconst | Token::Usconst))
    }

    /// A string literal's value.
    fn string(&mut self) -> Result<String> {
        if !self.is_string() {
            return Err(self.unexpected());
        }
        let literal = self.tokens.get(self.next).map(|token| self.text(token)).unwrap_or_default();
        self.next += 1;
        // The grammar knows every form of literal: let it say the value.
        let parsed = pg_query::parse(&format!("SELECT {literal}"), ParserOptions::DEFAULT)
            .map_err(|_| self.unexpected())?;
        string_constant(&parsed.protobuf).ok_or_else(|| self.unexpected())
    }

    fn label(&mut self) -> Result<Option<String>> {
        if !self.accept("<<") {
            return Ok(None);
        }
        let label = self.identifier()?;
        self.expect(">>")?;
        Ok(Some(label))
    }

    fn end_label(&mut self, label: Option<&str>) -> Result<()> {
        if self.is(";") || self.next >= self.tokens.len() {
            return Ok(());
        }
        let end = self.identifier()?;
        match label {
            Some(label) if label == end => Ok(()),
            Some(label) => {
                Err(err!(SYNTAX_ERROR, "end label \"{end}\" differs from block's label \"{label}\""))
            }
            None => Err(err!(SYNTAX_ERROR, "end label \"{end}\" specified for unlabeled block")),
        }
    }

    // Fragments of SQL.

    /// Reads up to one of `stops`, which stays; checks that it is an expression or query.
    fn fragment(&mut self, stops: &[Stop]) -> Result<Fragment> {
        let begin = self.next;
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.next) {
            let text = self.text(token);
            if depth == 0 && stops.iter().any(|stop| stop.matches(text)) {
                break;
            }
            match text {
                "(" | "[" => depth += 1,
                ")" | "]" if depth == 0 => {
                    return Err(err!(SYNTAX_ERROR, "mismatched parentheses").context(self.near()));
                }
                ")" | "]" => depth -= 1,
                ";" => break,
                _ => {}
            }
            self.next += 1;
        }
        let stopped = self.tokens.get(self.next).is_some_and(|token| {
            let text = self.text(token);
            stops.iter().any(|stop| stop.matches(text))
        });
        if !stopped {
            if depth > 0 {
                return Err(err!(SYNTAX_ERROR, "mismatched parentheses").context(self.near()));
            }
            return Err(match stops.last() {
                Some(Stop::Word(word)) => {
                    err!(SYNTAX_ERROR, "missing \"{}\" at end of SQL expression", word.to_ascii_uppercase())
                }
                Some(Stop::Semicolon) => err!(SYNTAX_ERROR, "missing \";\" at end of SQL expression"),
                _ => self.unexpected(),
            });
        }
        if self.next == begin {
            let near = self.tokens.get(begin).map(|token| self.text(token)).unwrap_or_default();
            let error = err!(SYNTAX_ERROR, "missing expression at or near \"{near}\"");
            return Err(error.at(self.offset_of(begin)));
        }
        let fragment = self.fragment_of(begin, self.next);
        let first =
            self.tokens.get(begin).map(|token| self.text(token).to_ascii_lowercase()).unwrap_or_default();
        const STATEMENTS: [&str; 7] = ["select", "with", "values", "table", "insert", "update", "delete"];
        // A parenthesis opens an expression or a query.
        if STATEMENTS.contains(&first.as_str()) {
            check_sql(&fragment, FragmentKind::Statement)?;
        } else if first != "(" {
            check_sql(&fragment, FragmentKind::Expression)?;
        }
        Ok(fragment)
    }

    fn fragment_of(&mut self, begin: usize, end: usize) -> Fragment {
        let offset = self.token_start(begin);
        let fragment = Fragment {
            number: self.fragment_count,
            text: self.source(begin, end).to_owned(),
            offset,
            line: self.line_at(offset),
            scope: self.scope,
            visible: self.variables.len(),
        };
        self.fragment_count += 1;
        fragment
    }

    fn made_up_fragment(&mut self, text: &str) -> Fragment {
        let offset = self.token_start(self.next);
        self.fragment_count += 1;
        let number = self.fragment_count - 1;
        Fragment {
            number,
            text: text.to_owned(),
            offset,
            line: self.line_at(offset),
            scope: self.scope,
            visible: self.variables.len(),
        }
    }

    // Errors.

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(err!(STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        Ok(())
    }

    fn near(&self) -> String {
        match self.tokens.get(self.next) {
            Some(token) => format!("at or near \"{}\"", self.text(token)),
            None => "at end of input".to_owned(),
        }
    }

    /// Where a token begins, for an error's position.
    fn offset_of(&self, token: usize) -> i32 {
        i32::try_from(self.token_start(token)).unwrap_or(-1)
    }

    fn unexpected(&self) -> Error {
        err!(SYNTAX_ERROR, "syntax error {}", self.near()).at(self.offset_of(self.next))
    }
}

impl Stop {
    fn matches(self, text: &str) -> bool {
        match self {
            Stop::Semicolon => text == ";",
            Stop::Word(word) => text.eq_ignore_ascii_case(word),
            Stop::Comma => text == ",",
            Stop::DotDot => text == "..",
            Stop::CloseParen => text == ")",
            Stop::CloseBracket => text == "]",
            Stop::Colon => text == ":",
        }
    }
}

/// The slot below `visible` that a name means in a scope.
pub fn lookup(scopes: &[Scope], scope: ScopeId, visible: Slot, name: &str) -> Option<Slot> {
    let mut next = Some(scope);
    while let Some(current) = next.and_then(|id| scopes.get(id)) {
        if let Some(slot) = current.names.get(name).filter(|slot| **slot < visible) {
            return Some(*slot);
        }
        next = current.parent;
    }
    None
}

/// The slot below `visible` that `label.name` means in a scope.
pub fn lookup_qualified(
    scopes: &[Scope],
    scope: ScopeId,
    visible: Slot,
    label: &str,
    name: &str,
) -> Option<Slot> {
    let mut next = Some(scope);
    while let Some(current) = next.and_then(|id| scopes.get(id)) {
        if current.label.as_deref() == Some(label)
            && let Some(slot) = current.names.get(name).filter(|slot| **slot < visible)
        {
            return Some(*slot);
        }
        next = current.parent;
    }
    None
}

/// Whether a name is one of the manual's condition names (appendix A).
fn is_condition(name: &str) -> bool {
    cairn_types::sqlstate::ALL.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// Syntax check at CREATE time, as PostgreSQL does: what is wrong in a fragment is said before it ever runs.
fn check_sql(fragment: &Fragment, kind: FragmentKind) -> Result<()> {
    let parsed = match kind {
        FragmentKind::Statement => cairn_analyze::parse(&fragment.text).map(drop),
        FragmentKind::Expression => cairn_analyze::parse::parse_plpgsql_expression(&fragment.text).map(drop),
    };
    parsed.map_err(|mut error| {
        // The position is one in the function's body.
        let within = error.report().location.unwrap_or(0);
        error.report_mut().location = u32::try_from(fragment.offset).ok().map(|offset| offset + within);
        error
    })
}

/// What a piece of SQL in a body is.
#[derive(Clone, Copy)]
enum FragmentKind {
    Statement,
    Expression,
}

fn scan_message(error: &pg_query::Error) -> String {
    match error {
        pg_query::Error::Parse(message) | pg_query::Error::Scan(message) => message.clone(),
        other => other.to_string(),
    }
}

/// The value of `SELECT 'literal'`.
fn string_constant(parsed: &pg_query::protobuf::ParseResult) -> Option<String> {
    use pg_query::NodeEnum;
    use pg_query::protobuf::a_const::Val;
    let NodeEnum::SelectStmt(select) = parsed.stmts.first()?.stmt.as_ref()?.node.as_ref()? else {
        return None;
    };
    let NodeEnum::ResTarget(target) = select.target_list.first()?.node.as_ref()? else { return None };
    let NodeEnum::AConst(constant) = target.val.as_ref()?.node.as_ref()? else { return None };
    match constant.val.as_ref()? {
        Val::Sval(text) => Some(text.sval.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Function {
        let parameters = [(Some("n".into()), "int".into()), (None, "text".into())];
        parse(body, "f", &parameters, ResultKind::Set { outputs: false }, &mut |_| Ok(())).unwrap()
    }

    fn message(body: &str) -> String {
        parse(body, "f", &[], ResultKind::Void, &mut |_| Ok(())).unwrap_err().message().to_owned()
    }

    #[test]
    fn every_statement_is_understood() {
        let function = parsed(
            "<<outer>> declare r record; x numeric(10,2) not null := n + 1; c cursor (k int) for select * from t where a = k;
               arr int[]; k constant int := 5; two alias for $2; rc refcursor; loud t.a%type; whole t%rowtype;
             begin
               if n > 1 then x := 2; elsif n = 0 then null; else raise notice 'hi %%%', n using errcode = '22012', hint = 'h'; end if;
               for i in reverse 1..n by 2 loop x := x + i; end loop;
               for r in select * from t loop r.a := 5; continue when r.a > 1; end loop;
               for r in execute 'select 1' using 5, n loop exit; end loop;
               <<again>> while true loop exit again when x = 1; end loop again;
               foreach x slice 1 in array arr loop null; end loop;
               execute format('x %s', n) into strict x, r using n, 5;
               select a, b into x, two from t where a = n;
               insert into t values (x) returning a into x;
               perform f(x); get diagnostics x = row_count; open c(5); fetch prior from c into x; move c; close c;
               open rc for execute 'select 1' using x; for rec in c(1) loop null; end loop;
               arr[2] := 5; arr[1:2] := array[1, 2]; outer.x := 3; r.a.b := 1;
               declare x int; begin x := 1 / 0;
                 exception when division_by_zero or sqlstate '22003' then raise; when others then get stacked diagnostics two = message_text; end;
               case x when 1, 2 then null; else null; end case; case when x > 1 then null; end case;
               return next 5; return query select 1; return query execute 'select 2' using 3;
               commit; rollback and chain; call p(x); assert x = 1, 'no'; return;
             end outer;",
        );
        assert_eq!(function.block.body.len(), 32);
        assert_eq!(function.found, 2);
    }

    #[test]
    fn into_is_blanked_and_positions_hold() {
        let function = parsed("declare a int; begin select 1 into strict a from t; end");
        let StatementKind::Sql { statement, into, .. } = &function.block.body[0].kind else { panic!() };
        assert_eq!(statement.text, format!("select 1 {} from t", " ".repeat("into strict a".len())));
        assert!(into.as_ref().unwrap().strict);
    }

    #[test]
    fn inner_names_hide_outer_ones() {
        let function = parsed("declare x int; begin declare x text; begin x := 'a'; end; x := 1; end");
        let StatementKind::Block(inner) = &function.block.body[0].kind else { panic!() };
        let StatementKind::Assign { target: inner_target, .. } = &inner.body[0].kind else { panic!() };
        let StatementKind::Assign { target: outer_target, .. } = &function.block.body[1].kind else {
            panic!()
        };
        assert_ne!(inner_target.slot, outer_target.slot);
    }

    #[test]
    fn errors_are_postgresqls() {
        assert_eq!(message("begin retrun 1; end"), "syntax error at or near \"retrun\"");
        assert_eq!(message("begin if 1 then null; end"), "syntax error at end of input");
        assert_eq!(message("begin exit; end"), "EXIT cannot be used outside a loop, unless it has a label");
        assert_eq!(message("begin raise notice '%'; end"), "too few parameters specified for RAISE");
        assert_eq!(message("declare x int; begin x := ; end"), "missing expression at or near \";\"");
        assert_eq!(
            message("declare x int not null; begin end"),
            "variable \"x\" must have a default value, since it's declared NOT NULL"
        );
        assert_eq!(message("begin select 1 into nope; end"), "\"nope\" is not a known variable");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let body = format!("{}null;{}", "begin ".repeat(5000), "end;".repeat(5000));
        // Sessions run on large stacks; the test harness does not.
        let parse = move || parse(&body, "f", &[], ResultKind::Void, &mut |_| Ok(())).unwrap_err().sqlstate();
        let thread = std::thread::Builder::new().stack_size(32 << 20).spawn(parse).unwrap();
        assert_eq!(thread.join().unwrap(), cairn_types::sqlstate::STATEMENT_TOO_COMPLEX);
    }
}
