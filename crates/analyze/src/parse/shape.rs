//! The shape of a statement: its text with literals replaced by parameters, so that one plan serves all statements that
//! differ in their literals only. Clients that write values into the text (pgbench's simple protocol, many drivers)
//! would otherwise have every statement parsed, analyzed and planned anew.
//!
//! A literal becomes `$n` with the type that the grammar gives it: integer, bigint, numeric, or *unknown* for a quoted
//! string, whose type analysis then infers from the place, exactly as for a client's parameter of unknown type; its
//! text goes through that type's input before the plan runs.
//!
//! **The rule**: a replaced statement means what the original means, or it is not replaced. Whatever is doubtful stays
//! as it is: numbers after LIMIT, OFFSET, FETCH and in ORDER BY (positions), type modifiers, typed literals
//! (`date '...'`), places where the grammar wants a constant. Statements in which the analyzer compares expressions with
//! one another (GROUP BY, DISTINCT, windows, set operations) have no shape at all, nor has anything but SELECT, INSERT,
//! UPDATE, DELETE and CALL. A statement without literals is its own shape. Where the analysis of a shape fails, analyze the original: the error's position is there, and a
//! few literals (of `format('%s', 'x')`) may remain of unknown type while a parameter may not.

use cairn_types::{Datum, Oid, types};
use smallvec::SmallVec;

use super::lexer::{Lexer, Token, TokenKind};

/// Statements with more literals than this (bulk inserts) are not worth a plan of their own shape.
const LITERALS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralClass {
    Int4,
    Int8,
    Numeric,
    /// A quoted string.
    Unknown,
}

impl LiteralClass {
    pub fn type_oid(self) -> Oid {
        match self {
            LiteralClass::Int4 => types::INT4,
            LiteralClass::Int8 => types::INT8,
            LiteralClass::Numeric => types::NUMERIC,
            LiteralClass::Unknown => types::UNKNOWN,
        }
    }
}

/// A literal that became a parameter.
#[derive(Clone, Debug)]
pub struct Literal {
    pub class: LiteralClass,
    /// The value; for `Unknown` its text, which is still to be read by the input of the parameter's inferred type.
    pub value: Datum,
    /// Byte offset of the literal in the source, for the position of an input error.
    pub position: usize,
}

#[derive(Clone, Debug)]
pub struct Shape {
    key: String,
    text_length: usize,
    pub literals: SmallVec<[Literal; 4]>,
}

impl Shape {
    /// What the plan is cached under: the text and the classes of its literals.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The statement to parse, with `$1`, `$2`, ... in place of the literals.
    pub fn text(&self) -> &str {
        &self.key[..self.text_length]
    }

    /// Types of the parameters, for [`crate::Parameters::Infer`].
    pub fn parameter_types(&self) -> Vec<Oid> {
        self.literals.iter().map(|literal| literal.class.type_oid()).collect()
    }
}

/// What the scan knows about the parenthesis that it is in.
#[derive(Clone, Copy, Default)]
struct Nesting {
    /// Literals stay: type modifiers, column definitions, arguments that must be constants.
    keep: bool,
    /// Within ORDER BY, LIMIT, OFFSET, FETCH or an ON CONFLICT target, until this parenthesis closes.
    clause: bool,
}

/// The statement's shape; `None` if it must be read as it is.
pub fn shape(source: &str) -> Option<Shape> {
    let mut tokens = Lexer::new(source).peekable();
    let first = *tokens.peek()?;
    let is_insert = first.is_word(source, "insert");
    let kept = ["select", "update", "delete", "with", "call"];
    if !is_insert && !kept.iter().any(|word| first.is_word(source, word)) {
        return None;
    }
    let mut key = String::with_capacity(source.len() + 16);
    let mut literals: SmallVec<[Literal; 4]> = SmallVec::new();
    // How much of the source is in `key`.
    let mut copied = 0usize;
    let mut nesting: SmallVec<[Nesting; 8]> = SmallVec::new();
    nesting.push(Nesting::default());
    let mut previous = Previous::Start;
    // A minus that may belong to the number after it.
    let mut sign: Option<Token> = None;
    let mut index = 0usize;
    while let Some(token) = tokens.next() {
        index += 1;
        let current = nesting.last().copied().unwrap_or_default();
        let text = token.text(source);
        let pending_sign = sign.take();
        match token.kind {
            TokenKind::Parameter | TokenKind::Other => return None,
            TokenKind::Integer | TokenKind::Decimal | TokenKind::String => {
                let next = tokens.peek().copied();
                let replaceable = !current.keep
                    && !current.clause
                    && match (pending_sign, token.kind) {
                        (Some(_), TokenKind::String) => true,
                        (Some(_), _) => next.is_none_or(|next| !binds_tighter(source, &next)),
                        (None, _) => previous == Previous::BeforeExpression,
                    }
                    && (token.kind != TokenKind::String || !must_stay(source, next, &mut tokens.clone()));
                if replaceable {
                    let negative = pending_sign.is_some() && token.kind != TokenKind::String;
                    let start = match pending_sign {
                        Some(minus) if negative => minus.start,
                        _ => token.start,
                    };
                    if let Some(literal) = read(text, token.kind, negative, start) {
                        if literals.len() == LITERALS_MAX {
                            return None;
                        }
                        literals.push(literal);
                        key.push_str(&source[copied..start]);
                        // `select-1` and `where 1` must not run together with what is before.
                        key.push('$');
                        push_number(&mut key, literals.len());
                        // A digit or letter right behind would change the parameter's number.
                        if source.as_bytes().get(token.end).is_some_and(u8::is_ascii_alphanumeric) {
                            key.push(' ');
                        }
                        copied = token.end;
                    }
                }
                previous = Previous::Value;
            }
            TokenKind::PrefixedString | TokenKind::DollarString | TokenKind::QuotedIdentifier => {
                previous = Previous::Value;
            }
            TokenKind::Operator => {
                let unary = previous != Previous::Value;
                if text == "-" && unary {
                    sign = Some(token);
                }
                previous = Previous::BeforeExpression;
            }
            TokenKind::Punctuation => match text.as_bytes().first() {
                Some(b'(') => {
                    nesting.push(Nesting {
                        keep: current.keep || previous == Previous::KeepGroup,
                        clause: current.clause,
                    });
                    previous = if previous == Previous::KeepFirst {
                        Previous::Other
                    } else {
                        Previous::BeforeExpression
                    };
                }
                Some(b'[') => {
                    nesting.push(current);
                    previous = Previous::BeforeExpression;
                }
                Some(b')' | b']') => {
                    nesting.pop();
                    if nesting.is_empty() {
                        return None;
                    }
                    previous = Previous::Value;
                }
                Some(b',') => previous = Previous::BeforeExpression,
                Some(b';') => {
                    // Only at the very end.
                    if tokens.peek().is_some() {
                        return None;
                    }
                }
                Some(b':') => {
                    // The second colon of a cast; what follows is a type.
                    previous = Previous::Type;
                }
                _ => previous = Previous::Other,
            },
            TokenKind::Word => {
                let word = Keyword::of(text);
                match word {
                    Keyword::NoShape => return None,
                    Keyword::Into if !(is_insert && index == 2) => return None,
                    Keyword::Clause => {
                        if let Some(top) = nesting.last_mut() {
                            top.clause = true;
                        }
                    }
                    Keyword::EndsClause => {
                        if let Some(top) = nesting.last_mut() {
                            top.clause = false;
                        }
                    }
                    _ => {}
                }
                previous = match word {
                    Keyword::BeforeExpression => Previous::BeforeExpression,
                    Keyword::EndsClause => Previous::Other,
                    Keyword::As => Previous::Type,
                    Keyword::TypeWithModifier => Previous::KeepGroup,
                    Keyword::ConstantFirst => Previous::KeepFirst,
                    // A type's name may have several words: `character varying (10)`.
                    _ if matches!(previous, Previous::Type | Previous::KeepGroup) => Previous::KeepGroup,
                    Keyword::Plain => Previous::Value,
                    _ => Previous::Other,
                };
            }
        }
    }
    if nesting.len() != 1 {
        return None;
    }
    key.push_str(&source[copied..]);
    let text_length = key.len();
    key.push('\0');
    key.extend(literals.iter().map(|literal| match literal.class {
        LiteralClass::Int4 => '4',
        LiteralClass::Int8 => '8',
        LiteralClass::Numeric => 'n',
        LiteralClass::Unknown => '?',
    }));
    Some(Shape { key, text_length, literals })
}

/// What stood before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Start,
    /// An operator, a comma, an opening parenthesis, or a key word after which an expression begins.
    BeforeExpression,
    /// The end of an expression: a minus after it subtracts.
    Value,
    /// `::` or AS.
    Type,
    /// A type's name: a parenthesis after it holds modifiers.
    KeepGroup,
    /// A function whose first argument must stay a constant.
    KeepFirst,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Plain,
    BeforeExpression,
    /// The whole statement has no shape.
    NoShape,
    Into,
    As,
    Clause,
    EndsClause,
    TypeWithModifier,
    ConstantFirst,
    Other,
}

impl Keyword {
    fn of(word: &str) -> Keyword {
        const LONGEST: usize = 17;
        if word.len() > LONGEST || word.len() < 2 {
            return Keyword::Plain;
        }
        let mut lower = [0u8; LONGEST];
        let lower = &mut lower[..word.len()];
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        match &*lower {
            b"select" | b"where" | b"and" | b"or" | b"not" | b"then" | b"else" | b"when" | b"case"
            | b"between" | b"symmetric" | b"like" | b"ilike" | b"on" | b"returning" | b"values" => {
                Keyword::BeforeExpression
            }
            b"group" | b"distinct" | b"union" | b"intersect" | b"except" | b"over" | b"window"
            | b"having" | b"within" | b"filter" | b"uescape" | b"recursive" | b"tablesample"
            | b"xmltable" | b"json_table" => Keyword::NoShape,
            b"into" => Keyword::Into,
            b"as" => Keyword::As,
            b"order" | b"limit" | b"offset" | b"fetch" | b"conflict" => Keyword::Clause,
            b"do" | b"for" => Keyword::EndsClause,
            b"varchar" | b"char" | b"character" | b"varying" | b"numeric" | b"decimal" | b"dec" | b"bit"
            | b"nchar" | b"float" | b"time" | b"timestamp" | b"interval" | b"timetz" | b"timestamptz"
            | b"bpchar" | b"varbit" | b"current_time" | b"current_timestamp" | b"localtime"
            | b"localtimestamp" => Keyword::TypeWithModifier,
            b"extract" | b"nextval" | b"currval" | b"setval" => Keyword::ConstantFirst,
            b"from" | b"by" | b"zone" | b"escape" | b"to" | b"is" | b"set" | b"in" | b"any" | b"all"
            | b"some" | b"placing" | b"using" | b"join" | b"collate" | b"with" | b"default" => Keyword::Other,
            _ => Keyword::Plain,
        }
    }
}

/// `-1::text` negates the cast, `-1[...]` the element: no sign may go into the number there.
fn binds_tighter(source: &str, next: &Token) -> bool {
    next.kind == TokenKind::Punctuation && matches!(source.as_bytes()[next.start], b':' | b'[' | b'.')
        || next.is_word(source, "collate")
        || next.is_word(source, "at")
}

/// A string that goes on in the next token, or is read together with its type's modifier.
fn must_stay(source: &str, next: Option<Token>, rest: &mut impl Iterator<Item = Token>) -> bool {
    let Some(next) = next else { return false };
    if matches!(next.kind, TokenKind::String | TokenKind::PrefixedString) {
        return true;
    }
    // 'x'::interval hour
    next.is_punctuation(source, b':') && rest.nth(2).is_some_and(|token| token.is_word(source, "interval"))
}

fn read(text: &str, kind: TokenKind, negative: bool, position: usize) -> Option<Literal> {
    let (class, value) = match kind {
        TokenKind::String => {
            let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
            let value = if inner.contains('\'') { inner.replace("''", "'").into() } else { inner.into() };
            (LiteralClass::Unknown, Datum::Text(value))
        }
        TokenKind::Integer => {
            let value: Option<i64> =
                if negative { format!("-{text}").parse().ok() } else { text.parse().ok() };
            match value {
                Some(value) => match i32::try_from(value) {
                    Ok(value) => (LiteralClass::Int4, Datum::Int4(value)),
                    Err(_) => (LiteralClass::Int8, Datum::Int8(value)),
                },
                None => (LiteralClass::Numeric, numeric(text, negative)?),
            }
        }
        _ => (LiteralClass::Numeric, numeric(text, negative)?),
    };
    Some(Literal { class, value, position })
}

fn numeric(text: &str, negative: bool) -> Option<Datum> {
    let signed;
    let text = if negative {
        signed = format!("-{text}");
        &signed
    } else {
        text
    };
    cairn_types::Numeric::parse(text).ok().map(|value| Datum::Numeric(value.into()))
}

fn push_number(out: &mut String, number: usize) {
    use std::fmt::Write;
    // Writing into a String cannot fail.
    let _ = write!(out, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> String {
        match shape(source) {
            None => "-".to_owned(),
            Some(shape) => {
                let values: Vec<String> = shape
                    .literals
                    .iter()
                    .map(|literal| match &literal.value {
                        Datum::Int4(value) => value.to_string(),
                        Datum::Int8(value) => format!("{value}L"),
                        Datum::Numeric(value) => format!("{value}n"),
                        Datum::Text(text) => format!("'{text}'"),
                        other => format!("{other:?}"),
                    })
                    .collect();
                format!("{} <- {}", shape.text(), values.join(" "))
            }
        }
    }

    #[test]
    fn shapes() {
        for (source, expected) in [
            ("select a from t where id = 42", "select a from t where id = $1 <- 42"),
            (
                "SELECT abalance FROM pgbench_accounts WHERE aid = 5;",
                "SELECT abalance FROM pgbench_accounts WHERE aid = $1; <- 5",
            ),
            ("update t set a = a + -5 where id=7", "update t set a = a + $1 where id=$2 <- -5 7"),
            (
                "update t set a = a - 5 where id = -3000000000",
                "update t set a = a - $1 where id = $2 <- 5 -3000000000L",
            ),
            ("insert into t(a, b) values (1, 'it''s')", "insert into t(a, b) values ($1, $2) <- 1 'it's'"),
            ("select 1.5, 'x', 99999999999999999999", "select $1, $2, $3 <- 1.5n 'x' 99999999999999999999n"),
            (
                "select a from t where a = 1 order by 2 limit 3 offset 4",
                "select a from t where a = $1 order by 2 limit 3 offset 4 <- 1",
            ),
            (
                "select a::varchar(3), cast('5' as numeric(10,2)), 'x'::char(2)",
                "select a::varchar(3), cast($1 as numeric(10,2)), $2::char(2) <- '5' 'x'",
            ),
            (
                "select date '2026-01-01', interval '1' hour, '1'::interval hour, f(1)",
                "select date '2026-01-01', interval '1' hour, '1'::interval hour, f($1) <- 1",
            ),
            (
                "select extract('year' from d), nextval('s'), a at time zone 'UTC', 1",
                "select extract('year' from d), nextval('s'), a at time zone 'UTC', $1 <- 1",
            ),
            (
                "select * from x where a in (1, 2) and b between 3 and 4",
                "select * from x where a in ($1, $2) and b between $3 and $4 <- 1 2 3 4",
            ),
            (
                "select string_agg(a, ',' order by 1) from t where b like 'x%'",
                "select string_agg(a, $1 order by 1) from t where b like $2 <- ',' 'x%'",
            ),
            (
                "select -9223372036854775808, -9223372036854775809",
                "select $1, $2 <- -9223372036854775808L -9223372036854775809n",
            ),
            ("select -1::text, - 2, 3-1", "select -1::text, $1, $2-$3 <- -2 3 1"),
            (
                "insert into t values (1) on conflict (lower('x')) where b > 2 do update set a = 3",
                "insert into t values ($1) on conflict (lower('x')) where b > 2 do update set a = $2 <- 1 3",
            ),
            (
                "select * from json_to_record('{}') as x(a int, b varchar(10))",
                "select * from json_to_record($1) as x(a int, b varchar(10)) <- '{}'",
            ),
            ("select current_timestamp(3), 1", "select current_timestamp(3), $1 <- 1"),
            ("select 1where 2=2", "-"),
            ("select a+1 from t group by a+1", "-"),
            ("select distinct 1", "-"),
            ("select $1, 2", "-"),
            ("select 1; select 2", "-"),
            ("select 1 into x", "-"),
            ("create table t (a varchar(10))", "-"),
            ("select a from t", "select a from t <- "),
            ("call p(1, a => 'x')", "call p($1, a => $2) <- 1 'x'"),
            ("select 'a'\n'b', 1", "select 'a'\n'b', $1 <- 1"),
        ] {
            assert_eq!(shown(source), expected, "{source}");
        }
    }

    proptest::proptest! {
        /// Putting the literals back gives the source.
        #[test]
        fn replaced_text_is_the_source(source in "select [-a-z0-9'(), .=+:]{0,40}") {
            if let Some(shape) = shape(&source) {
                assert!(shape.literals.iter().all(|literal| literal.position < source.len()));
                assert!(!shape.text().is_empty());
            }
        }
    }
}
