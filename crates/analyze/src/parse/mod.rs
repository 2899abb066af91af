//! Front end: SQL text to PostgreSQL's raw parse trees.
//!
//! The grammar is `pg_query`'s, PostgreSQL 18's own. This module calls it through the C interface, because the Rust
//! one drops the position of an error; gives errors PostgreSQL's SQLSTATE; refuses what is nested too deeply
//! ([`depth`]); and accepts Cairn's extensions of the grammar ([`extensions`]).
//!
//! All positions are byte offsets into the text that was handed in, also where extensions were blanked.

pub mod depth;
pub mod extensions;
pub mod lexer;
pub mod shape;

use std::ffi::{CStr, CString, c_char, c_int};

use cairn_types::{Error, Result, SqlState, Text, sqlstate};
use pg_query::protobuf::{self, node::Node as NodeEnum};
use prost::Message;

pub use extensions::KeyOrder;

/// One statement of a query string.
#[derive(Clone, Debug)]
pub struct RawStatement {
    pub node: Box<NodeEnum>,
    /// The whole string that was parsed; positions point into it.
    pub source: Text,
    /// Where this statement is in `source`, without the semicolon: byte offset and length.
    pub start: usize,
    pub length: usize,
    /// Orders of key columns that the grammar does not know, by position; see [`extensions`].
    pub key_orders: Vec<KeyOrder>,
}

impl RawStatement {
    /// The statement's own text.
    pub fn text(&self) -> &str {
        self.source.get(self.start..self.start + self.length).unwrap_or(&self.source)
    }
}

/// Number forms that PostgreSQL 15 does not know: `0x1F`, `1_000`. Errors: 42601, as 15 words it.
fn check_numbers(source: &str) -> Result<()> {
    let suspicious = source.as_bytes().windows(2).any(|pair| {
        pair[0].is_ascii_digit() && matches!(pair[1], b'x' | b'X' | b'o' | b'O' | b'b' | b'B' | b'_')
    });
    if !suspicious {
        return Ok(());
    }
    let junk = lexer::Lexer::new(source).find(|token| {
        token.kind == lexer::TokenKind::Other && source.as_bytes()[token.start].is_ascii_digit()
    });
    match junk {
        Some(token) => Err(Error::new(
            sqlstate::SYNTAX_ERROR,
            format!("trailing junk after numeric literal at or near \"{}\"", token.text(source)),
        )
        .at(i32::try_from(token.start).unwrap_or(-1))),
        None => Ok(()),
    }
}

/// Parses a query string into its statements; none for an empty one.
///
/// Errors: 42601 and its kin with the position at which PostgreSQL reports them, 54001 for too deep a nesting.
pub fn parse(source: &str) -> Result<Vec<RawStatement>> {
    let (tree, key_orders) = match raw_parse(source, Mode::Statements) {
        Ok(tree) => (tree, Vec::new()),
        Err(error) => match extensions::blank(source) {
            Some((blanked, orders)) => (raw_parse(&blanked, Mode::Statements)?, orders),
            None => return Err(error),
        },
    };
    check_numbers(source)?;
    let source: Text = source.into();
    tree.stmts
        .into_iter()
        .map(|statement| {
            let node = statement
                .stmt
                .and_then(|node| node.node)
                .ok_or_else(|| Error::internal("empty parse tree"))?;
            let start = usize::try_from(statement.stmt_location).unwrap_or(0).min(source.len());
            let length = match usize::try_from(statement.stmt_len) {
                Ok(length) if length > 0 => length.min(source.len() - start),
                _ => source.len() - start,
            };
            // The grammar counts the blanks in front of a statement as its own.
            let text = &source[start..start + length];
            let lead = text.len() - text.trim_start().len();
            let mut node = node;
            let mut orders = extensions::index_orders(&mut node, start + lead);
            orders.extend(
                key_orders.iter().filter(|order| (start..start + length).contains(&order.position)).cloned(),
            );
            Ok(RawStatement {
                node: Box::new(node),
                source: source.clone(),
                start: start + lead,
                length: text.trim().len(),
                key_orders: orders,
            })
        })
        .collect()
}

/// Parses a lone scalar expression, as stored for defaults, checks and index keys.
pub fn parse_expression(source: &str) -> Result<protobuf::Node> {
    let select = parse_plpgsql_expression(source)?;
    let syntax = || Error::new(sqlstate::SYNTAX_ERROR, "syntax error in expression").at(0);
    match select.target_list.into_iter().next().and_then(|node| node.node) {
        Some(NodeEnum::ResTarget(target)) => target.val.map(|node| *node).ok_or_else(syntax),
        _ => Err(syntax()),
    }
}

/// Parses what plpgsql calls an expression: a SELECT without its first word.
pub fn parse_plpgsql_expression(source: &str) -> Result<Box<protobuf::SelectStmt>> {
    let mut tree = raw_parse(source, Mode::Expression)?;
    match tree.stmts.pop().and_then(|statement| statement.stmt).and_then(|node| node.node) {
        Some(NodeEnum::SelectStmt(select)) => Ok(select),
        _ => Err(Error::new(sqlstate::SYNTAX_ERROR, "syntax error in expression").at(0)),
    }
}

/// Parses a type's name with its modifier: `varchar(10)[]`.
pub fn parse_type_name(source: &str) -> Result<protobuf::TypeName> {
    let invalid = || Error::new(sqlstate::SYNTAX_ERROR, format!("invalid type name \"{source}\""));
    // The library cannot hand out the tree of its own mode for this, so the name is parsed as a cast's.
    let tree = raw_parse(&format!("NULL::{source}"), Mode::Expression).map_err(|mut error| {
        if let Some(location) = &mut error.report_mut().location {
            *location = location.saturating_sub(6);
        }
        error.context(format!("invalid type name \"{source}\""))
    })?;
    let [statement] = tree.stmts.as_slice() else { return Err(invalid()) };
    let Some(NodeEnum::SelectStmt(select)) = statement.stmt.as_ref().and_then(|node| node.node.as_ref())
    else {
        return Err(invalid());
    };
    // Anything besides the name would show in the statement.
    let plain = protobuf::SelectStmt { target_list: select.target_list.clone(), ..Default::default() };
    let rest = protobuf::SelectStmt { limit_option: plain.limit_option, op: plain.op, ..(**select).clone() };
    match select.target_list.as_slice() {
        [target] if rest == plain => match target.node.as_ref() {
            Some(NodeEnum::ResTarget(target)) if target.name.is_empty() => {
                match target.val.as_ref().and_then(|value| value.node.as_ref()) {
                    Some(NodeEnum::TypeCast(cast)) => cast.type_name.clone().ok_or_else(invalid),
                    _ => Err(invalid()),
                }
            }
            _ => Err(invalid()),
        },
        _ => Err(invalid()),
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Statements = 0,
    Expression = 2,
}

/// Nesting from which on a text is parsed on a stack of its own.
const DEPTH_ON_CALLERS_STACK: usize = 40;
const DEEP_STACK_BYTES: usize = 64 << 20;

fn raw_parse(source: &str, mode: Mode) -> Result<protobuf::ParseResult> {
    // A level needs two bytes of text at least.
    let depth = if source.len() < 2 * DEPTH_ON_CALLERS_STACK { 0 } else { depth::depth_bound(source) };
    if depth > depth::DEPTH_MAX {
        return Err(too_deep());
    }
    if depth <= DEPTH_ON_CALLERS_STACK {
        return call_grammar(source, mode);
    }
    // The C code measures its stack against the thread's, so a deep text needs a thread, not just a switched stack.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(DEEP_STACK_BYTES)
            .spawn_scoped(scope, || call_grammar(source, mode))
            .map_err(|error| {
                Error::new(sqlstate::INSUFFICIENT_RESOURCES, format!("could not start a thread: {error}"))
            })?
            .join()
            .map_err(|_| Error::internal("the parser panicked"))?
    })
}

/// 54001, as PostgreSQL words it.
pub fn too_deep() -> Error {
    Error::new(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").hint(
        "Increase the configuration parameter \"max_stack_depth\" (currently 2048kB), after ensuring the platform's \
         stack depth limit is adequate.",
    )
}

fn call_grammar(source: &str, mode: Mode) -> Result<protobuf::ParseResult> {
    let input = CString::new(source).map_err(|error| {
        Error::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": 0x00")
            .at(i32::try_from(error.nul_position()).unwrap_or(-1))
    })?;
    // SAFETY: `input` is a NUL-terminated string that outlives the call. The result's pointers are valid until it is
    // freed, which happens once, after everything has been copied out of it. The library keeps its state in
    // thread-local variables, so calls on several threads do not meet.
    unsafe {
        let result = pg_query_parse_protobuf_opts(input.as_ptr(), mode as c_int);
        let parsed = match result.error.as_ref() {
            Some(error) => Err(syntax_error(source, error)),
            None => {
                let data =
                    std::slice::from_raw_parts(result.parse_tree.data.cast::<u8>(), result.parse_tree.len);
                protobuf::ParseResult::decode(data)
                    .map_err(|error| Error::internal(format!("parse tree: {error}")))
            }
        };
        pg_query_free_protobuf_parse_result(result);
        parsed
    }
}

/// The grammar's error with PostgreSQL's SQLSTATE, which the library does not hand out.
unsafe fn syntax_error(source: &str, error: &PgQueryError) -> Error {
    // SAFETY: the caller holds a live error, whose message is a NUL-terminated string.
    let message = unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned();
    // The position counts characters from 1; 0 is unknown.
    let location = usize::try_from(error.cursorpos)
        .ok()
        .and_then(|position| position.checked_sub(1))
        .and_then(|characters| {
            source.char_indices().map(|(byte, _)| byte).chain([source.len()]).nth(characters)
        })
        .and_then(|byte| i32::try_from(byte).ok())
        .unwrap_or(-1);
    let state = state_of(&message);
    if state == sqlstate::STATEMENT_TOO_COMPLEX {
        return too_deep();
    }
    // PostgreSQL 15 gives this one no position.
    let location = if message.starts_with("WITH TIES cannot be specified") { -1 } else { location };
    Error::new(state, message).at(location)
}

/// SQLSTATE of a message of PostgreSQL's lexer and grammar.
fn state_of(message: &str) -> SqlState {
    const STATES: &[(&str, SqlState)] = &[
        ("stack depth limit exceeded", sqlstate::STATEMENT_TOO_COMPLEX),
        ("nested too deeply", sqlstate::STATEMENT_TOO_COMPLEX),
        ("not yet implemented", sqlstate::FEATURE_NOT_SUPPORTED),
        ("not implemented", sqlstate::FEATURE_NOT_SUPPORTED),
        ("is not supported", sqlstate::FEATURE_NOT_SUPPORTED),
        ("are not supported", sqlstate::FEATURE_NOT_SUPPORTED),
        ("cannot be changed", sqlstate::FEATURE_NOT_SUPPORTED),
        ("constraints cannot be marked", sqlstate::FEATURE_NOT_SUPPORTED),
        ("precision for type float must be", sqlstate::INVALID_PARAMETER_VALUE),
        ("invalid Unicode surrogate pair", sqlstate::INVALID_ESCAPE_SEQUENCE),
        ("invalid Unicode escape", sqlstate::INVALID_ESCAPE_SEQUENCE),
        ("unsafe use of \\'", sqlstate::NONSTANDARD_USE_OF_ESCAPE_CHARACTER),
        ("invalid byte sequence", sqlstate::CHARACTER_NOT_IN_REPERTOIRE),
        ("must not be null", sqlstate::NULL_VALUE_NOT_ALLOWED),
        ("frame start cannot be", sqlstate::WINDOWING_ERROR),
        ("frame end cannot be", sqlstate::WINDOWING_ERROR),
        ("frame starting from", sqlstate::WINDOWING_ERROR),
        ("unrecognized role option", sqlstate::SYNTAX_ERROR),
    ];
    STATES.iter().find(|(part, _)| message.contains(part)).map_or(sqlstate::SYNTAX_ERROR, |(_, state)| *state)
}

#[repr(C)]
struct PgQueryError {
    message: *mut c_char,
    function_name: *mut c_char,
    file_name: *mut c_char,
    line_number: c_int,
    cursorpos: c_int,
    context: *mut c_char,
}

#[repr(C)]
struct PgQueryProtobuf {
    len: usize,
    data: *mut c_char,
}

#[repr(C)]
struct PgQueryProtobufParseResult {
    parse_tree: PgQueryProtobuf,
    stderr_buffer: *mut c_char,
    error: *mut PgQueryError,
}

// Declared as in the library's pg_query.h (version 18.1.0); the crate links it.
unsafe extern "C" {
    fn pg_query_parse_protobuf_opts(input: *const c_char, options: c_int) -> PgQueryProtobufParseResult;
    fn pg_query_free_protobuf_parse_result(result: PgQueryProtobufParseResult);
}
