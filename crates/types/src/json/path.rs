//! `jsonpath`: the SQL/JSON path language (manual, section 9.16.2), as a tree, and as text in PostgreSQL's
//! canonical spelling. What a path finds is computed in `cairn-functions`, which has the regular expressions.

use std::fmt::{self, Write};

use super::escape_into;
use crate::{Error, Numeric, Result, err};

/// A path with its mode.
#[derive(Clone, Debug)]
pub struct JsonPath {
    pub strict: bool,
    pub root: Node,
}

/// An expression or a predicate.
#[derive(Clone, Debug)]
pub enum Node {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    Variable(String),
    Null,
    Bool(bool),
    Number(Numeric),
    String(String),
    /// What accessors are applied to, and the accessors.
    Path(Box<Node>, Vec<Step>),
    Arithmetic(ArithmeticOp, Box<Node>, Box<Node>),
    Plus(Box<Node>),
    Minus(Box<Node>),
    Compare(CompareOp, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    IsUnknown(Box<Node>),
    Exists(Box<Node>),
    StartsWith(Box<Node>, Box<Node>),
    LikeRegex {
        text: Box<Node>,
        pattern: String,
        flags: String,
    },
}

#[derive(Clone, Debug)]
pub enum Step {
    Key(String),
    AnyKey,
    AnyElement,
    /// `.**{first to last}`; `None` is `last`.
    AnyLevel {
        first: Option<u32>,
        last: Option<u32>,
    },
    /// `[a, b to c]`
    Elements(Vec<(Node, Option<Node>)>),
    Filter(Box<Node>),
    Method(Method),
    Datetime(Option<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Abs,
    Size,
    Type,
    Floor,
    Double,
    Ceiling,
    KeyValue,
}

impl ArithmeticOp {
    pub fn symbol(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Subtract => "-",
            ArithmeticOp::Multiply => "*",
            ArithmeticOp::Divide => "/",
            ArithmeticOp::Modulo => "%",
        }
    }
}

impl CompareOp {
    fn symbol(self) -> &'static str {
        match self {
            CompareOp::Equal => "==",
            CompareOp::NotEqual => "!=",
            CompareOp::Less => "<",
            CompareOp::Greater => ">",
            CompareOp::LessOrEqual => "<=",
            CompareOp::GreaterOrEqual => ">=",
        }
    }
}

impl Method {
    const ALL: [Method; 7] = [
        Method::Abs,
        Method::Size,
        Method::Type,
        Method::Floor,
        Method::Double,
        Method::Ceiling,
        Method::KeyValue,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Method::Abs => "abs",
            Method::Size => "size",
            Method::Type => "type",
            Method::Floor => "floor",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::KeyValue => "keyvalue",
        }
    }
}

impl Node {
    /// How tightly an operator binds; operands that bind no tighter are printed in parentheses.
    fn priority(&self) -> u8 {
        match self {
            Node::Or(..) => 0,
            Node::And(..) => 1,
            Node::Compare(..) | Node::StartsWith(..) => 2,
            Node::Arithmetic(ArithmeticOp::Add | ArithmeticOp::Subtract, ..) => 3,
            Node::Arithmetic(..) => 4,
            Node::Plus(_) | Node::Minus(_) => 5,
            _ => 6,
        }
    }

    fn is_predicate(&self) -> bool {
        matches!(
            self,
            Node::Compare(..)
                | Node::And(..)
                | Node::Or(..)
                | Node::Not(_)
                | Node::IsUnknown(_)
                | Node::Exists(_)
                | Node::StartsWith(..)
                | Node::LikeRegex { .. }
        )
    }

    fn print(&self, brackets: bool, out: &mut String) {
        let binary = |left: &Node, symbol: &str, right: &Node, out: &mut String| {
            if brackets {
                out.push('(');
            }
            left.print(left.priority() <= self.priority(), out);
            out.push(' ');
            out.push_str(symbol);
            out.push(' ');
            right.print(right.priority() <= self.priority(), out);
            if brackets {
                out.push(')');
            }
        };
        match self {
            Node::Root => out.push('$'),
            Node::Current => out.push('@'),
            Node::Last => out.push_str("last"),
            Node::Variable(name) => {
                out.push('$');
                escape_into(name, out);
            }
            Node::Null => out.push_str("null"),
            Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Node::Number(number) => number.print(out),
            Node::String(text) => escape_into(text, out),
            Node::Path(base, steps) => {
                let number = matches!(**base, Node::Number(_));
                if number {
                    out.push('(');
                }
                base.print(true, out);
                if number {
                    out.push(')');
                }
                for step in steps {
                    step.print(out);
                }
            }
            Node::Arithmetic(op, left, right) => binary(left, op.symbol(), right, out),
            Node::Compare(op, left, right) => binary(left, op.symbol(), right, out),
            Node::And(left, right) => binary(left, "&&", right, out),
            Node::Or(left, right) => binary(left, "||", right, out),
            Node::StartsWith(left, right) => binary(left, "starts with", right, out),
            Node::Plus(arg) | Node::Minus(arg) => {
                if brackets {
                    out.push('(');
                }
                out.push(if matches!(self, Node::Plus(_)) { '+' } else { '-' });
                arg.print(arg.priority() <= self.priority(), out);
                if brackets {
                    out.push(')');
                }
            }
            Node::Not(arg) => {
                out.push_str("!(");
                arg.print(false, out);
                out.push(')');
            }
            Node::IsUnknown(arg) => {
                out.push('(');
                arg.print(false, out);
                out.push_str(") is unknown");
            }
            Node::Exists(arg) => {
                out.push_str("exists (");
                arg.print(false, out);
                out.push(')');
            }
            Node::LikeRegex { text, pattern, flags } => {
                if brackets {
                    out.push('(');
                }
                text.print(text.priority() <= self.priority(), out);
                out.push_str(" like_regex ");
                escape_into(pattern, out);
                if !flags.is_empty() {
                    let _ = write!(out, " flag \"{flags}\"");
                }
                if brackets {
                    out.push(')');
                }
            }
        }
    }
}

impl Step {
    fn print(&self, out: &mut String) {
        let level = |level: &Option<u32>| level.map_or_else(|| "last".to_owned(), |level| level.to_string());
        match self {
            Step::Key(key) => {
                out.push('.');
                escape_into(key, out);
            }
            Step::AnyKey => out.push_str(".*"),
            Step::AnyElement => out.push_str("[*]"),
            Step::AnyLevel { first: Some(0), last: None } => out.push_str(".**"),
            Step::AnyLevel { first, last } if first == last => {
                let _ = write!(out, ".**{{{}}}", level(first));
            }
            Step::AnyLevel { first, last } => {
                let _ = write!(out, ".**{{{} to {}}}", level(first), level(last));
            }
            Step::Elements(elements) => {
                out.push('[');
                for (index, (from, to)) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    from.print(false, out);
                    if let Some(to) = to {
                        out.push_str(" to ");
                        to.print(false, out);
                    }
                }
                out.push(']');
            }
            Step::Filter(predicate) => {
                out.push_str("?(");
                predicate.print(false, out);
                out.push(')');
            }
            Step::Method(method) => {
                let _ = write!(out, ".{}()", method.name());
            }
            Step::Datetime(template) => {
                out.push_str(".datetime(");
                if let Some(template) = template {
                    escape_into(template, out);
                }
                out.push(')');
            }
        }
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::from(if self.strict { "strict " } else { "" });
        self.root.print(true, &mut out);
        f.write_str(&out)
    }
}

/// Reads a path. Errors: 42601 with PostgreSQL's words, 22P02 for an empty text.
pub fn parse_path(text: &str) -> Result<JsonPath> {
    let tokens = tokenize(text)?;
    if tokens.len() == 1 {
        return Err(err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type jsonpath: \"{text}\""));
    }
    let mut parser = Parser { tokens, at: 0, depth: 0, parts: 0 };
    let mut strict = false;
    if let Some(Token::Word(word)) = parser.peek() {
        match word.to_ascii_lowercase().as_str() {
            "strict" => {
                strict = true;
                parser.at += 1;
            }
            "lax" => parser.at += 1,
            _ => {}
        }
    }
    let root = parser.or()?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    check_places(&root, false, false)?;
    Ok(JsonPath { strict, root })
}

/// `@` belongs inside of filters, `last` inside of subscripts.
fn check_places(node: &Node, in_filter: bool, in_subscript: bool) -> Result<()> {
    let here = |node: &Node| check_places(node, in_filter, in_subscript);
    match node {
        Node::Current if !in_filter => Err(err!(SYNTAX_ERROR, "@ is not allowed in root expressions")),
        Node::Last if !in_subscript => Err(err!(SYNTAX_ERROR, "LAST is allowed only in array subscripts")),
        Node::Path(base, steps) => {
            here(base)?;
            for step in steps {
                match step {
                    Step::Filter(predicate) => check_places(predicate, true, in_subscript)?,
                    Step::Elements(elements) => {
                        for (from, to) in elements {
                            check_places(from, in_filter, true)?;
                            if let Some(to) = to {
                                check_places(to, in_filter, true)?;
                            }
                        }
                    }
                    _ => {}
                }
            }
            Ok(())
        }
        Node::Arithmetic(_, left, right)
        | Node::Compare(_, left, right)
        | Node::And(left, right)
        | Node::Or(left, right)
        | Node::StartsWith(left, right) => {
            here(left)?;
            here(right)
        }
        Node::Plus(arg) | Node::Minus(arg) | Node::Not(arg) | Node::IsUnknown(arg) | Node::Exists(arg) => {
            here(arg)
        }
        Node::LikeRegex { text, .. } => here(text),
        _ => Ok(()),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// Punctuation and operators.
    Symbol(&'static str),
    Word(String),
    Quoted(String),
    Variable(String),
    Integer(String),
    Decimal(String),
    End,
}

struct Spanned {
    token: Token,
    text: String,
}

const SYMBOLS: [&str; 29] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "$", "@", ".", "[", "]", "{", "}", "(", ")", "?", "*",
    "/", "%", "+", "-", ",", "<", ">", "!", "=", ":",
];

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !"?%$.[]{}()|&!=<>@#,*:-+/\"\\".contains(c)
}

fn end_of_input() -> Error {
    err!(SYNTAX_ERROR, "syntax error at end of jsonpath input")
}

fn near(message: &str, text: &str) -> Error {
    err!(SYNTAX_ERROR, "{message} at or near \"{text}\" of jsonpath input")
}

fn tokenize(text: &str) -> Result<Vec<Spanned>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment
                .find("*/")
                .ok_or_else(|| err!(SYNTAX_ERROR, "unexpected end of comment at end of jsonpath input"))?;
            rest = &comment[end + 2..];
            continue;
        }
        let Some(first) = rest.chars().next() else {
            tokens.push(Spanned { token: Token::End, text: String::new() });
            return Ok(tokens);
        };
        let before = rest;
        let number_follows = rest[first.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
        let token = if first == '"' {
            let (value, after) = quoted(&rest[1..])?;
            rest = after;
            Token::Quoted(value)
        } else if first.is_ascii_digit() || (first == '.' && number_follows) {
            let (token, after) = number(rest)?;
            rest = after;
            token
        } else if first == '$' && rest[1..].starts_with('"') {
            let (value, after) = quoted(&rest[2..])?;
            rest = after;
            Token::Variable(value)
        } else if first == '$' && rest[1..].starts_with(is_word) {
            let (value, after) = word(&rest[1..])?;
            rest = after;
            Token::Variable(value)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            rest = &rest[symbol.len()..];
            Token::Symbol(symbol)
        } else {
            let (value, after) = word(rest)?;
            if after.len() == rest.len() {
                return Err(near("syntax error", &first.to_string()));
            }
            rest = after;
            Token::Word(value)
        };
        tokens.push(Spanned { token, text: before[..before.len() - rest.len()].to_owned() });
    }
}

/// An unquoted word, escapes resolved.
fn word(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\\' {
            rest = escape(&rest[1..], &mut value)?;
        } else if is_word(c) {
            value.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            break;
        }
    }
    Ok((value, rest))
}

/// A string behind its opening quote.
fn quoted(text: &str) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let c = rest
            .chars()
            .next()
            .ok_or_else(|| err!(SYNTAX_ERROR, "unterminated quoted string at end of jsonpath input"))?;
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => return Ok((value, rest)),
            '\\' => rest = escape(rest, &mut value)?,
            other => value.push(other),
        }
    }
}

/// What follows a backslash; returns the rest.
fn escape<'a>(text: &'a str, out: &mut String) -> Result<&'a str> {
    let c = text
        .chars()
        .next()
        .ok_or_else(|| err!(SYNTAX_ERROR, "unexpected end after backslash at end of jsonpath input"))?;
    let rest = &text[c.len_utf8()..];
    match c {
        'b' => out.push('\x08'),
        'f' => out.push('\x0c'),
        'n' => out.push('\n'),
        'r' => out.push('\r'),
        't' => out.push('\t'),
        'v' => out.push('\x0b'),
        'x' => {
            let (code, rest) = hex(rest, 2)?;
            out.extend(char::from_u32(code));
            return Ok(rest);
        }
        'u' => {
            let (mut code, mut rest) = match rest.strip_prefix('{') {
                Some(inner) => {
                    let end =
                        inner.find('}').ok_or_else(|| near("invalid Unicode escape sequence", "\\u{"))?;
                    let code = u32::from_str_radix(&inner[..end], 16)
                        .map_err(|_| near("invalid Unicode escape sequence", &inner[..end]))?;
                    (code, &inner[end + 1..])
                }
                None => hex(rest, 4)?,
            };
            if (0xD800..0xDC00).contains(&code)
                && let Some(second) = rest.strip_prefix("\\u")
            {
                let (low, after) = hex(second, 4)?;
                if (0xDC00..0xE000).contains(&low) {
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                    rest = after;
                }
            }
            if code == 0 {
                return Err(err!(UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
                    .detail("\\u0000 cannot be converted to text."));
            }
            out.push(char::from_u32(code).ok_or_else(|| {
                err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type jsonpath")
                    .detail("Unicode low surrogate must follow a high surrogate.")
            })?);
            return Ok(rest);
        }
        other => out.push(other),
    }
    Ok(rest)
}

fn hex(text: &str, digits: usize) -> Result<(u32, &str)> {
    let bad = || near("invalid hexadecimal character sequence", text.get(..digits).unwrap_or(text));
    let code =
        text.get(..digits).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())).ok_or_else(bad)?;
    Ok((u32::from_str_radix(code, 16).map_err(|_| bad())?, &text[digits..]))
}

fn number(text: &str) -> Result<(Token, &str)> {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut end = digits(0);
    let mut decimal = false;
    let leading_zero = end > 1 && bytes[0] == b'0';
    if bytes.get(end) == Some(&b'.') {
        decimal = true;
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            decimal = true;
            end = digits(end + 1 + sign);
        }
    }
    let junk = text[end..].chars().next().filter(|c| c.is_ascii_alphabetic() || *c == '_');
    if let Some(junk) = junk {
        return Err(near("trailing junk after numeric literal", &format!("{}{junk}", &text[..end])));
    }
    if leading_zero {
        return Err(near(
            "trailing junk after numeric literal",
            text[..end].get(..2).unwrap_or(&text[..end]),
        ));
    }
    let token = text[..end].to_owned();
    Ok((if decimal { Token::Decimal(token) } else { Token::Integer(token) }, &text[end..]))
}

/// Nesting that is accepted.
const NESTING_MAX: usize = 200;

/// Operators and accessors in one path: a long chain of either is as deep as nesting.
const PARTS_MAX: usize = 1000;

struct Parser {
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
    parts: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        match &self.tokens.get(self.at)?.token {
            Token::End => None,
            token => Some(token),
        }
    }

    fn unexpected(&self) -> Error {
        match self.tokens.get(self.at) {
            Some(spanned) if spanned.token != Token::End => near("syntax error", &spanned.text),
            _ => end_of_input(),
        }
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Some(Token::Symbol(have)) if *have == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead).map(|spanned| &spanned.token),
            Some(Token::Word(have)) if have.eq_ignore_ascii_case(word))
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.at += usize::from(found);
        found
    }

    fn count_part(&mut self) -> Result<()> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(err!(STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        Ok(())
    }

    fn predicate(&self, node: Node) -> Result<Node> {
        if node.is_predicate() { Ok(node) } else { Err(self.unexpected()) }
    }

    fn expression(&self, node: Node) -> Result<Node> {
        if node.is_predicate() { Err(self.unexpected()) } else { Ok(node) }
    }

    fn or(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(err!(STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        let mut left = self.and()?;
        while self.is_symbol("||") {
            self.count_part()?;
            left = self.predicate(left)?;
            self.at += 1;
            let right = self.and()?;
            left = Node::Or(Box::new(left), Box::new(self.predicate(right)?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Node> {
        let mut left = self.comparison()?;
        while self.is_symbol("&&") {
            self.count_part()?;
            left = self.predicate(left)?;
            self.at += 1;
            let right = self.comparison()?;
            left = Node::And(Box::new(left), Box::new(self.predicate(right)?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Node> {
        let left = self.additive()?;
        let op = match self.peek() {
            Some(Token::Symbol("==")) => CompareOp::Equal,
            Some(Token::Symbol("!=" | "<>")) => CompareOp::NotEqual,
            Some(Token::Symbol("<")) => CompareOp::Less,
            Some(Token::Symbol(">")) => CompareOp::Greater,
            Some(Token::Symbol("<=")) => CompareOp::LessOrEqual,
            Some(Token::Symbol(">=")) => CompareOp::GreaterOrEqual,
            _ if self.is_word(0, "starts") && self.is_word(1, "with") => {
                let left = self.expression(left)?;
                self.at += 2;
                let prefix = match self.peek() {
                    Some(Token::Quoted(text)) => Node::String(text.clone()),
                    Some(Token::Variable(name)) => Node::Variable(name.clone()),
                    _ => return Err(self.unexpected()),
                };
                self.at += 1;
                return Ok(Node::StartsWith(Box::new(left), Box::new(prefix)));
            }
            _ if self.is_word(0, "like_regex") => {
                let left = self.expression(left)?;
                self.at += 1;
                return self.like_regex(left);
            }
            _ => return Ok(left),
        };
        let left = self.expression(left)?;
        self.at += 1;
        let right = self.additive()?;
        Ok(Node::Compare(op, Box::new(left), Box::new(self.expression(right)?)))
    }

    fn like_regex(&mut self, text: Node) -> Result<Node> {
        let Some(Token::Quoted(pattern)) = self.peek().cloned() else {
            return Err(self.unexpected());
        };
        self.at += 1;
        let mut given = String::new();
        if self.accept_word("flag") {
            let Some(Token::Quoted(flags)) = self.peek().cloned() else {
                return Err(self.unexpected());
            };
            self.at += 1;
            given = flags;
        }
        for flag in given.chars() {
            match flag {
                'i' | 's' | 'm' | 'q' => {}
                'x' => {
                    return Err(err!(
                        FEATURE_NOT_SUPPORTED,
                        "XQuery \"x\" flag (expanded regular expressions) is not implemented"
                    ));
                }
                other => {
                    return Err(err!(SYNTAX_ERROR, "invalid input syntax for type jsonpath").detail(
                        format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate."),
                    ));
                }
            }
        }
        // In the order in which PostgreSQL prints them.
        let flags = ['i', 's', 'm', 'q'].into_iter().filter(|flag| given.contains(*flag)).collect();
        Ok(Node::LikeRegex { text: Box::new(text), pattern, flags })
    }

    fn additive(&mut self) -> Result<Node> {
        let mut left = self.multiplicative()?;
        loop {
            let op = match self.peek() {
                Some(Token::Symbol("+")) => ArithmeticOp::Add,
                Some(Token::Symbol("-")) => ArithmeticOp::Subtract,
                _ => return Ok(left),
            };
            self.count_part()?;
            left = self.expression(left)?;
            self.at += 1;
            let right = self.multiplicative()?;
            left = Node::Arithmetic(op, Box::new(left), Box::new(self.expression(right)?));
        }
    }

    fn multiplicative(&mut self) -> Result<Node> {
        let mut left = self.unary()?;
        loop {
            let op = match self.peek() {
                Some(Token::Symbol("*")) => ArithmeticOp::Multiply,
                Some(Token::Symbol("/")) => ArithmeticOp::Divide,
                Some(Token::Symbol("%")) => ArithmeticOp::Modulo,
                _ => return Ok(left),
            };
            self.count_part()?;
            left = self.expression(left)?;
            self.at += 1;
            let right = self.unary()?;
            left = Node::Arithmetic(op, Box::new(left), Box::new(self.expression(right)?));
        }
    }

    fn unary(&mut self) -> Result<Node> {
        let mut signs = Vec::new();
        while self.is_symbol("+") || self.is_symbol("-") {
            signs.push(self.accept("-"));
            if signs.last() == Some(&false) {
                self.at += 1;
            }
            self.count_part()?;
        }
        let mut node = self.postfix()?;
        for negative in signs.into_iter().rev() {
            node = self.expression(node)?;
            node = match (node, negative) {
                (Node::Number(number), true) => Node::Number(number.neg()),
                (Node::Number(number), false) => Node::Number(number),
                (other, true) => Node::Minus(Box::new(other)),
                (other, false) => Node::Plus(Box::new(other)),
            };
        }
        Ok(node)
    }

    /// A primary with its accessors.
    fn postfix(&mut self) -> Result<Node> {
        let base = self.primary()?;
        if self.is_word(0, "is") && self.is_word(1, "unknown") && base.is_predicate() {
            self.at += 2;
            return Ok(Node::IsUnknown(Box::new(base)));
        }
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            self.count_part()?;
            steps.push(step);
        }
        Ok(match (steps.is_empty(), base) {
            (true, base) => base,
            (false, Node::Path(base, mut first)) => {
                first.append(&mut steps);
                Node::Path(base, first)
            }
            (false, base) => Node::Path(Box::new(base), steps),
        })
    }

    fn primary(&mut self) -> Result<Node> {
        let Some(token) = self.peek().cloned() else {
            return Err(end_of_input());
        };
        let bad = self.unexpected();
        self.at += 1;
        Ok(match token {
            Token::Symbol("$") => Node::Root,
            Token::Symbol("@") => Node::Current,
            Token::Symbol("(") => {
                let inner = self.or()?;
                self.expect(")")?;
                inner
            }
            Token::Symbol("!") => {
                // Only a predicate in parentheses, or exists, may follow.
                if !self.is_symbol("(") && !self.is_word(0, "exists") {
                    return Err(self.unexpected());
                }
                let parenthesized = self.is_symbol("(");
                if parenthesized {
                    self.at += 1;
                }
                let inner = if parenthesized { self.or()? } else { self.primary()? };
                let inner = self.predicate(inner)?;
                if parenthesized {
                    self.expect(")")?;
                }
                Node::Not(Box::new(inner))
            }
            Token::Quoted(text) => Node::String(text),
            Token::Variable(name) => Node::Variable(name),
            Token::Integer(text) | Token::Decimal(text) => Node::Number(Numeric::parse(&text)?),
            Token::Word(word) => match word.as_str() {
                "null" => Node::Null,
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                _ if word.eq_ignore_ascii_case("last") => Node::Last,
                _ if word.eq_ignore_ascii_case("exists") => {
                    self.expect("(")?;
                    let inner = self.or()?;
                    let inner = self.expression(inner)?;
                    self.expect(")")?;
                    Node::Exists(Box::new(inner))
                }
                _ => return Err(if self.peek().is_none() { end_of_input() } else { bad }),
            },
            _ => return Err(bad),
        })
    }

    fn step(&mut self) -> Result<Option<Step>> {
        if self.accept("?") {
            self.expect("(")?;
            let predicate = self.or()?;
            let predicate = self.predicate(predicate)?;
            self.expect(")")?;
            return Ok(Some(Step::Filter(Box::new(predicate))));
        }
        if self.accept("[") {
            if self.accept("*") {
                self.expect("]")?;
                return Ok(Some(Step::AnyElement));
            }
            return self.elements().map(Some);
        }
        if !self.accept(".") {
            return Ok(None);
        }
        match self.peek().cloned() {
            Some(Token::Symbol("*")) => {
                self.at += 1;
                Ok(Some(Step::AnyKey))
            }
            Some(Token::Symbol("**")) => {
                self.at += 1;
                self.any_level().map(Some)
            }
            Some(Token::Quoted(key)) => {
                self.at += 1;
                Ok(Some(Step::Key(key)))
            }
            Some(Token::Word(word)) => {
                self.at += 1;
                if !self.is_symbol("(") {
                    return Ok(Some(Step::Key(word)));
                }
                if word.eq_ignore_ascii_case("datetime") {
                    self.at += 1;
                    let mut template = None;
                    if let Some(Token::Quoted(text)) = self.peek().cloned() {
                        self.at += 1;
                        template = Some(text);
                    }
                    self.expect(")")?;
                    return Ok(Some(Step::Datetime(template)));
                }
                let Some(method) =
                    Method::ALL.into_iter().find(|method| word.eq_ignore_ascii_case(method.name()))
                else {
                    return Err(self.unexpected());
                };
                self.at += 1;
                self.expect(")")?;
                Ok(Some(Step::Method(method)))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn elements(&mut self) -> Result<Step> {
        let mut elements = Vec::new();
        loop {
            let from = self.additive()?;
            let from = self.expression(from)?;
            let to = if self.accept_word("to") {
                let to = self.additive()?;
                Some(self.expression(to)?)
            } else {
                None
            };
            elements.push((from, to));
            if !self.accept(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(Step::Elements(elements))
    }

    fn level(&mut self) -> Result<Option<u32>> {
        if self.accept_word("last") {
            return Ok(None);
        }
        match self.peek() {
            Some(Token::Integer(text)) => {
                let level = text.parse().map_err(|_| {
                    err!(NUMERIC_VALUE_OUT_OF_RANGE, "value \"{text}\" is out of range for type integer")
                })?;
                self.at += 1;
                Ok(Some(level))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn any_level(&mut self) -> Result<Step> {
        if !self.accept("{") {
            return Ok(Step::AnyLevel { first: Some(0), last: None });
        }
        let first = self.level()?;
        let last = if self.accept_word("to") { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::AnyLevel { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::parse_path;

    fn shown(text: &str) -> String {
        match parse_path(text) {
            Ok(path) => path.to_string(),
            Err(error) => format!("ERR {} {}", error.sqlstate(), error.message()),
        }
    }

    /// PostgreSQL 15's answers.
    #[test]
    fn canonical_spelling() {
        let cases = include_str!("path_golden.txt").lines().map(|line| line.split_once(" => ").unwrap());
        let wrong: Vec<_> = cases.filter(|(text, expected)| shown(text) != **expected).collect();
        let got: Vec<_> = wrong.iter().map(|(text, _)| shown(text)).collect();
        assert!(wrong.is_empty(), "{wrong:#?} {got:#?}");
    }
}
