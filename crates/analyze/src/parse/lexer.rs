//! PostgreSQL's lexical rules (manual, section 4.1) as a cheap scanner over tokens.
//!
//! The grammar has a lexer of its own. This one serves what has to happen before the grammar sees the text: bounding
//! its depth ([`super::depth`]), blanking Cairn's extensions ([`super::extensions`]) and replacing literals
//! ([`super::shape`]). It never fails: what it does not understand is [`TokenKind::Other`], and the grammar will say
//! what is wrong with it. Assumes `standard_conforming_strings = on`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Unquoted identifier or key word.
    Word,
    /// `"..."` (also `U&"..."`).
    QuotedIdentifier,
    /// `'...'` without any prefix and without escapes; adjacent ones are not joined.
    String,
    /// `E'...'`, `B'...'`, `X'...'`, `N'...'`, `U&'...'`.
    PrefixedString,
    /// `$tag$...$tag$`.
    DollarString,
    Integer,
    /// A number with a point or an exponent.
    Decimal,
    /// `$1`.
    Parameter,
    /// One or more operator characters.
    Operator,
    /// `( ) [ ] , ; : .` and what else stands alone, one byte each.
    Punctuation,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    /// Byte offsets.
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        &source[self.start..self.end]
    }

    /// Whether it is this key word, given in lower case.
    pub fn is_word(&self, source: &str, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text(source).eq_ignore_ascii_case(word)
    }

    pub fn is_punctuation(&self, source: &str, byte: u8) -> bool {
        self.kind == TokenKind::Punctuation && source.as_bytes()[self.start] == byte
    }
}

/// Iterates over the tokens of a text; white space and comments are left out.
#[derive(Clone)]
pub struct Lexer<'a> {
    source: &'a str,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(source: &'a str) -> Self {
        Lexer { source, bytes: source.as_bytes(), position: 0 }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn skip_blank(&mut self) {
        loop {
            match self.byte(self.position) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.position += 1,
                b'-' if self.byte(self.position + 1) == b'-' => {
                    let rest = &self.bytes[self.position..];
                    let length = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
                    self.position += length;
                }
                b'/' if self.byte(self.position + 1) == b'*' => self.skip_block_comment(),
                _ => return,
            }
        }
    }

    /// Block comments nest. An unterminated one swallows the rest, about which the grammar will complain.
    fn skip_block_comment(&mut self) {
        let mut depth = 0usize;
        while self.position < self.bytes.len() {
            match (self.byte(self.position), self.byte(self.position + 1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.position += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.position += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.position += 1,
            }
        }
    }

    /// End of a quoted run that starts at `open` (the quote); a doubled quote stands for itself.
    fn quoted_end(&self, open: usize, quote: u8, backslash: bool) -> usize {
        let mut at = open + 1;
        while at < self.bytes.len() {
            let byte = self.bytes[at];
            if byte == quote {
                if self.byte(at + 1) == quote {
                    at += 2;
                    continue;
                }
                return at + 1;
            }
            at += if backslash && byte == b'\\' { 2 } else { 1 };
        }
        self.bytes.len()
    }

    fn word_end(&self, start: usize) -> usize {
        let mut at = start;
        while is_identifier_part(self.byte(at)) {
            at += 1;
        }
        at
    }

    fn dollar_string_end(&self, start: usize) -> Option<usize> {
        let mut at = start + 1;
        while is_identifier_part(self.byte(at)) && self.byte(at) != b'$' {
            at += 1;
        }
        if self.byte(at) != b'$' {
            return None;
        }
        let tag = &self.source[start..=at];
        let body = at + 1;
        Some(self.source[body..].find(tag).map_or(self.bytes.len(), |found| body + found + tag.len()))
    }

    fn number(&self, start: usize) -> (TokenKind, usize) {
        let digits = |mut at: usize| {
            while self.byte(at).is_ascii_digit() {
                at += 1;
            }
            at
        };
        let mut at = digits(start);
        let mut kind = TokenKind::Integer;
        // `1..10` is a range of plpgsql's FOR, not a number with a point.
        if self.byte(at) == b'.' && self.byte(at + 1) != b'.' {
            kind = TokenKind::Decimal;
            at = digits(at + 1);
        }
        if matches!(self.byte(at), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(at + 1), b'+' | b'-'));
            if self.byte(at + 1 + sign).is_ascii_digit() {
                kind = TokenKind::Decimal;
                at = digits(at + 1 + sign);
            }
        }
        // Trailing junk is an error that the grammar reports; keep it in one token.
        if is_identifier_start(self.byte(at)) {
            return (TokenKind::Other, self.word_end(at));
        }
        (kind, at)
    }

    fn operator_end(&self, start: usize) -> usize {
        let mut at = start;
        while is_operator(self.byte(at)) {
            if at > start {
                match (self.byte(at), self.byte(at + 1)) {
                    (b'-', b'-') | (b'/', b'*') => return at,
                    _ => {}
                }
            }
            at += 1;
        }
        // A multi-character operator cannot end in + or - unless it has one of the special characters.
        let special =
            |byte: &u8| matches!(byte, b'~' | b'!' | b'@' | b'#' | b'%' | b'^' | b'&' | b'|' | b'`' | b'?');
        while at > start + 1
            && matches!(self.byte(at - 1), b'+' | b'-')
            && !self.bytes[start..at].iter().any(special)
        {
            at -= 1;
        }
        at
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        self.skip_blank();
        let start = self.position;
        if start >= self.bytes.len() {
            return None;
        }
        let first = self.bytes[start];
        let (kind, end) = match first {
            b'\'' => (TokenKind::String, self.quoted_end(start, b'\'', false)),
            b'"' => (TokenKind::QuotedIdentifier, self.quoted_end(start, b'"', false)),
            b'e' | b'E' if self.byte(start + 1) == b'\'' => {
                (TokenKind::PrefixedString, self.quoted_end(start + 1, b'\'', true))
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if self.byte(start + 1) == b'\'' => {
                (TokenKind::PrefixedString, self.quoted_end(start + 1, b'\'', false))
            }
            b'u' | b'U' if self.byte(start + 1) == b'&' && self.byte(start + 2) == b'\'' => {
                (TokenKind::PrefixedString, self.quoted_end(start + 2, b'\'', false))
            }
            b'u' | b'U' if self.byte(start + 1) == b'&' && self.byte(start + 2) == b'"' => {
                (TokenKind::QuotedIdentifier, self.quoted_end(start + 2, b'"', false))
            }
            b'0'..=b'9' => self.number(start),
            b'.' if self.byte(start + 1).is_ascii_digit() => self.number(start),
            b'$' if self.byte(start + 1).is_ascii_digit() => {
                let mut at = start + 1;
                while self.byte(at).is_ascii_digit() {
                    at += 1;
                }
                (TokenKind::Parameter, at)
            }
            b'$' => match self.dollar_string_end(start) {
                Some(end) => (TokenKind::DollarString, end),
                None => (TokenKind::Other, start + 1),
            },
            _ if is_identifier_start(first) => (TokenKind::Word, self.word_end(start)),
            _ if is_operator(first) => (TokenKind::Operator, self.operator_end(start)),
            _ => (TokenKind::Punctuation, start + 1),
        };
        self.position = end;
        Some(Token { kind, start, end })
    }
}

fn is_identifier_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_identifier_part(byte: u8) -> bool {
    is_identifier_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn is_operator(byte: u8) -> bool {
    matches!(
        byte,
        b'+' | b'-'
            | b'*'
            | b'/'
            | b'<'
            | b'>'
            | b'='
            | b'~'
            | b'!'
            | b'@'
            | b'#'
            | b'%'
            | b'^'
            | b'&'
            | b'|'
            | b'`'
            | b'?'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(TokenKind, &str)> {
        Lexer::new(source).map(|token| (token.kind, token.text(source))).collect()
    }

    #[test]
    fn tokens() {
        use TokenKind::*;
        assert_eq!(
            kinds("select 'a''b', E'\\'x', $1, $q$ x $q$, 1.5e3, 1..2 -- c\n/* a /* b */ */ \"q\"\"r\" <=-1"),
            [
                (Word, "select"),
                (String, "'a''b'"),
                (Punctuation, ","),
                (PrefixedString, "E'\\'x'"),
                (Punctuation, ","),
                (Parameter, "$1"),
                (Punctuation, ","),
                (DollarString, "$q$ x $q$"),
                (Punctuation, ","),
                (Decimal, "1.5e3"),
                (Punctuation, ","),
                (Integer, "1"),
                (Punctuation, "."),
                (Decimal, ".2"),
                (QuotedIdentifier, "\"q\"\"r\""),
                (Operator, "<="),
                (Operator, "-"),
                (Integer, "1"),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_covers(source in "[ -~é\n]{0,60}") {
            let mut last = 0;
            for token in Lexer::new(&source) {
                assert!(token.start >= last && token.end > token.start);
                assert!(source.is_char_boundary(token.start) && source.is_char_boundary(token.end.min(source.len())));
                last = token.end;
            }
        }
    }
}
