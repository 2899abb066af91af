//! Reading JSON text: one recursive-descent parser for `json` (checked, kept as text) and `jsonb` (built).
//!
//! Errors are PostgreSQL's: 22P02 "invalid input syntax for type json" with what was wrong in DETAIL and the
//! line up to the offending token in CONTEXT.

use super::{DEPTH_MAX, Jsonb};
use crate::{Error, Numeric, Result, Text, err};

/// Parses `jsonb` input.
pub fn parse(text: &str) -> Result<Jsonb> {
    parse_with(text, &mut Tree)
}

/// Checks `json` input, which is then stored as it stands.
pub fn validate(text: &str) -> Result<()> {
    parse_with(text, &mut Check)
}

/// What a parse makes of the values that it meets.
pub(super) trait Builder<'a> {
    type Value;
    /// Strings and keys are wanted without their escapes.
    const UNESCAPE: bool;
    fn null(&mut self, span: &'a str) -> Self::Value;
    fn bool(&mut self, value: bool, span: &'a str) -> Self::Value;
    fn number(&mut self, span: &'a str) -> Result<Self::Value>;
    fn string(&mut self, value: String, span: &'a str) -> Self::Value;
    fn array(&mut self, items: Vec<Self::Value>, span: &'a str) -> Result<Self::Value>;
    fn object(&mut self, members: Vec<(String, Self::Value)>, span: &'a str) -> Result<Self::Value>;
}

struct Check;

impl<'a> Builder<'a> for Check {
    type Value = ();
    const UNESCAPE: bool = false;
    fn null(&mut self, _: &'a str) {}
    fn bool(&mut self, _: bool, _: &'a str) {}
    fn number(&mut self, _: &'a str) -> Result<()> {
        Ok(())
    }
    fn string(&mut self, _: String, _: &'a str) {}
    fn array(&mut self, _: Vec<()>, _: &'a str) -> Result<()> {
        Ok(())
    }
    fn object(&mut self, _: Vec<(String, ())>, _: &'a str) -> Result<()> {
        Ok(())
    }
}

struct Tree;

impl<'a> Builder<'a> for Tree {
    type Value = Jsonb;
    const UNESCAPE: bool = true;
    fn null(&mut self, _: &'a str) -> Jsonb {
        Jsonb::Null
    }
    fn bool(&mut self, value: bool, _: &'a str) -> Jsonb {
        Jsonb::Bool(value)
    }
    fn number(&mut self, span: &'a str) -> Result<Jsonb> {
        Ok(Jsonb::number(Numeric::parse(span)?))
    }
    fn string(&mut self, value: String, _: &'a str) -> Jsonb {
        Jsonb::string(value)
    }
    fn array(&mut self, items: Vec<Jsonb>, _: &'a str) -> Result<Jsonb> {
        Jsonb::array(items)
    }
    fn object(&mut self, members: Vec<(String, Jsonb)>, _: &'a str) -> Result<Jsonb> {
        Jsonb::object(members.into_iter().map(|(key, value)| (Text::from(key), value)).collect())
    }
}

pub(super) fn parse_with<'a, B: Builder<'a>>(text: &'a str, builder: &mut B) -> Result<B::Value> {
    let mut parser =
        Parser { text, token: Token::End, start: 0, end: 0, string: String::new(), unescape: B::UNESCAPE };
    parser.advance()?;
    let value = parser.value(builder, 0)?;
    if parser.token != Token::End {
        return Err(parser.expected("Expected end of input"));
    }
    Ok(value)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    String,
    Number,
    True,
    False,
    Null,
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// The token that is looked at, its place, and its content if it is a string.
    token: Token,
    start: usize,
    end: usize,
    string: String,
    unescape: bool,
}

impl<'a> Parser<'a> {
    fn value<B: Builder<'a>>(&mut self, builder: &mut B, depth: u16) -> Result<B::Value> {
        let (start, end) = (self.start, self.end);
        let span = &self.text[start..end];
        match self.token {
            Token::ObjectStart => self.object(builder, depth),
            Token::ArrayStart => self.array(builder, depth),
            Token::String => {
                let string = std::mem::take(&mut self.string);
                self.advance()?;
                Ok(builder.string(string, span))
            }
            Token::Number => {
                let value = builder.number(span)?;
                self.advance()?;
                Ok(value)
            }
            Token::True | Token::False => {
                let value = self.token == Token::True;
                self.advance()?;
                Ok(builder.bool(value, span))
            }
            Token::Null => {
                self.advance()?;
                Ok(builder.null(span))
            }
            _ => Err(self.expected("Expected JSON value")),
        }
    }

    fn check_depth(depth: u16) -> Result<()> {
        if depth < DEPTH_MAX { Ok(()) } else { Err(super::too_deep()) }
    }

    fn array<B: Builder<'a>>(&mut self, builder: &mut B, depth: u16) -> Result<B::Value> {
        Self::check_depth(depth)?;
        let start = self.start;
        self.advance()?;
        let mut items = Vec::new();
        if self.token != Token::ArrayEnd {
            loop {
                items.push(self.value(builder, depth + 1)?);
                match self.token {
                    Token::Comma => self.advance()?,
                    Token::ArrayEnd => break,
                    _ => return Err(self.expected("Expected \",\" or \"]\"")),
                }
            }
        }
        let span = &self.text[start..self.end];
        self.advance()?;
        builder.array(items, span)
    }

    fn object<B: Builder<'a>>(&mut self, builder: &mut B, depth: u16) -> Result<B::Value> {
        Self::check_depth(depth)?;
        let start = self.start;
        self.advance()?;
        let mut members = Vec::new();
        if self.token != Token::ObjectEnd {
            if self.token != Token::String {
                return Err(self.expected("Expected string or \"}\""));
            }
            loop {
                if self.token != Token::String {
                    return Err(self.expected("Expected string"));
                }
                let key = std::mem::take(&mut self.string);
                self.advance()?;
                if self.token != Token::Colon {
                    return Err(self.expected("Expected \":\""));
                }
                self.advance()?;
                let value = self.value(builder, depth + 1)?;
                members.push((key, value));
                match self.token {
                    Token::Comma => self.advance()?,
                    Token::ObjectEnd => break,
                    _ => return Err(self.expected("Expected \",\" or \"}\"")),
                }
            }
        }
        let span = &self.text[start..self.end];
        self.advance()?;
        builder.object(members, span)
    }

    /// Moves to the next token.
    fn advance(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let mut at = self.end;
        while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            at += 1;
        }
        self.start = at;
        self.end = at + 1;
        self.token = match bytes.get(at) {
            None => {
                self.end = at;
                Token::End
            }
            Some(b'{') => Token::ObjectStart,
            Some(b'}') => Token::ObjectEnd,
            Some(b'[') => Token::ArrayStart,
            Some(b']') => Token::ArrayEnd,
            Some(b',') => Token::Comma,
            Some(b':') => Token::Colon,
            Some(b'"') => {
                self.lex_string()?;
                Token::String
            }
            Some(b'-' | b'0'..=b'9') => {
                self.lex_number()?;
                Token::Number
            }
            Some(_) => {
                self.end = self.word_end(at);
                match &self.text[at..self.end] {
                    "true" => Token::True,
                    "false" => Token::False,
                    "null" => Token::Null,
                    _ => return Err(self.invalid_token()),
                }
            }
        };
        Ok(())
    }

    /// The end of the run of letters, digits and non-ASCII characters that begins here; at least one character.
    fn word_end(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = at;
        while bytes
            .get(end)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80)
        {
            end += 1;
        }
        end.max(at + 1)
    }

    fn lex_number(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut at = self.start;
        let mut valid = true;
        if bytes.get(at) == Some(&b'-') {
            at += 1;
        }
        match bytes.get(at) {
            Some(b'0') => at += 1,
            Some(b'1'..=b'9') => at = digits(at),
            _ => valid = false,
        }
        if valid && bytes.get(at) == Some(&b'.') {
            at += 1;
            valid = bytes.get(at).is_some_and(u8::is_ascii_digit);
            at = digits(at);
        }
        if valid && matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1;
            if matches!(bytes.get(at), Some(b'+' | b'-')) {
                at += 1;
            }
            valid = bytes.get(at).is_some_and(u8::is_ascii_digit);
            at = digits(at);
        }
        let mut end = at;
        while bytes
            .get(end)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80)
        {
            end += 1;
        }
        self.end = end;
        if valid && end == at { Ok(()) } else { Err(self.invalid_token()) }
    }

    fn lex_string(&mut self) -> Result<()> {
        let bytes = self.text.as_bytes();
        self.string.clear();
        let mut at = self.start + 1;
        let mut plain = at;
        let mut high_surrogate: Option<u32> = None;
        loop {
            match bytes.get(at) {
                None => {
                    self.end = bytes.len();
                    return Err(self.invalid_token());
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    if self.unescape {
                        self.string.push_str(&self.text[plain..at]);
                    }
                    if high_surrogate.is_some() && bytes.get(at + 1).is_some_and(|byte| *byte != b'u') {
                        let width = self.text[at + 1..].chars().next().map_or(0, char::len_utf8);
                        return Err(self.bad_string(at + 1 + width, LONE_LOW));
                    }
                    at = self.lex_escape(at + 1, &mut high_surrogate)?;
                    plain = at;
                }
                Some(byte @ 0..=0x1F) => {
                    return Err(
                        self.bad_string(at, &format!("Character with value 0x{byte:02x} must be escaped."))
                    );
                }
                Some(_) => {
                    if high_surrogate.is_some() {
                        let width = self.text[at..].chars().next().map_or(1, char::len_utf8);
                        return Err(self.bad_string(at + width, LONE_LOW));
                    }
                    at += 1;
                }
            }
        }
        if high_surrogate.is_some() {
            return Err(self.bad_string(at + 1, LONE_LOW));
        }
        if self.unescape {
            self.string.push_str(&self.text[plain..at]);
        }
        self.end = at + 1;
        Ok(())
    }

    /// Reads an escape sequence behind its backslash and returns where it ends.
    fn lex_escape(&mut self, at: usize, high_surrogate: &mut Option<u32>) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let plain = match bytes.get(at) {
            Some(b'u') => return self.lex_unicode_escape(at + 1, high_surrogate),
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            None => {
                self.end = bytes.len();
                return Err(self.invalid_token());
            }
            Some(_) => {
                let character = self.text[at..].chars().next().unwrap_or(' ');
                let message = format!("Escape sequence \"\\{character}\" is invalid.");
                return Err(self.bad_string(at + character.len_utf8(), &message));
            }
        };
        if self.unescape {
            self.string.push(plain);
        }
        Ok(at + 1)
    }

    fn lex_unicode_escape(&mut self, start: usize, high_surrogate: &mut Option<u32>) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let mut code = 0u32;
        for at in start..start + 4 {
            let Some(byte) = bytes.get(at) else {
                self.end = bytes.len();
                return Err(self.invalid_token());
            };
            let Some(digit) = char::from(*byte).to_digit(16) else {
                let width = self.text[at..].chars().next().map_or(1, char::len_utf8);
                let detail = "\"\\u\" must be followed by four hexadecimal digits.";
                return Err(self.bad_string(at + width, detail));
            };
            code = code * 16 + digit;
        }
        let end = start + 4;
        if !self.unescape {
            return Ok(end);
        }
        match (code, high_surrogate.take()) {
            (0xD800..=0xDBFF, None) => *high_surrogate = Some(code),
            (0xD800..=0xDBFF, Some(_)) => {
                return Err(self.bad_string(end, "Unicode high surrogate must not follow a high surrogate."));
            }
            (0xDC00..=0xDFFF, Some(high)) => {
                let combined = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                self.string.push(char::from_u32(combined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (0xDC00..=0xDFFF, None) | (_, Some(_)) => return Err(self.bad_string(end, LONE_LOW)),
            (0, None) => {
                self.end = end;
                return Err(err!(UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
                    .detail("\\u0000 cannot be converted to text.")
                    .context(self.context_line()));
            }
            (_, None) => self.string.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
        Ok(end)
    }

    fn syntax_error(&self, detail: String) -> Error {
        err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .detail(detail)
            .context(self.context_line())
    }

    fn bad_string(&mut self, end: usize, detail: &str) -> Error {
        self.end = end.min(self.text.len());
        self.syntax_error(detail.to_owned())
    }

    fn invalid_token(&self) -> Error {
        self.syntax_error(format!("Token \"{}\" is invalid.", &self.text[self.start..self.end]))
    }

    fn expected(&self, what: &str) -> Error {
        if self.token == Token::End {
            return self.syntax_error("The input string ended unexpectedly.".to_owned());
        }
        self.syntax_error(format!("{what}, but found \"{}\".", &self.text[self.start..self.end]))
    }

    /// `JSON data, line 1: ...`: the line up to the end of the offending token, its last 50 bytes or so.
    fn context_line(&self) -> String {
        let end = self.end;
        let head = &self.text[..self.start.min(end)];
        let line_start = head.rfind('\n').map_or(0, |at| at + 1);
        let line_number = head.matches('\n').count() + 1;
        let mut start = line_start;
        while end - start >= 50 {
            start += self.text[start..].chars().next().map_or(1, char::len_utf8);
        }
        // Three dots in place of at most three characters would save nothing.
        if start - line_start <= 3 {
            start = line_start;
        }
        let prefix = if start > line_start { "..." } else { "" };
        let more = self.text.as_bytes().get(end).is_some_and(|byte| !matches!(byte, b'\n' | b'\r'));
        let suffix = if self.token_is_end() || !more { "" } else { "..." };
        format!("JSON data, line {line_number}: {prefix}{}{suffix}", &self.text[start..end])
    }

    fn token_is_end(&self) -> bool {
        self.token == Token::End && self.start == self.text.len()
    }
}

const LONE_LOW: &str = "Unicode low surrogate must follow a high surrogate.";
