//! Cairn's extensions of the grammar: orders of key columns, and tablets.
//!
//! ```sql
//! create table t (a int, b int, primary key (a hash, b desc)) split into 10 tablets;
//! create index on t (a hash, b);
//! ```
//! The grammar does not know `asc`, `desc`, `hash` and `nulls first | last` in keys, nor `split into`. Where it fails,
//! those words are overwritten with blanks of the same length, so that all positions hold, and the text is parsed again.
//! What a key's words said is kept by column name. `split into n tablets` means nothing on one node.
//!
//! Two columns in parentheses at the beginning of a key, `((a, b) hash, c)`, are taken as the columns themselves.

use cairn_types::Text;

use super::lexer::{Lexer, Token, TokenKind};

/// The order of one key column that the grammar does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    /// Byte offset of the order's word in the source.
    pub position: usize,
    /// The column, as the grammar folds its name.
    pub column: Text,
    pub descending: bool,
    pub hash: bool,
    /// `nulls first` or `nulls last` was written.
    pub nulls_first: Option<bool>,
}

/// The text without the extensions, and what they said; `None` if there are none.
pub(crate) fn blank(source: &str) -> Option<(String, Vec<KeyOrder>)> {
    let tokens: Vec<Token> = Lexer::new(source).collect();
    let mut reader = Reader { source, tokens: &tokens, blanked: Vec::new(), orders: Vec::new() };
    reader.read();
    if reader.blanked.is_empty() {
        return None;
    }
    let mut bytes = source.as_bytes().to_vec();
    for token in &reader.blanked {
        bytes[token.start..token.end].fill(b' ');
    }
    Some((String::from_utf8(bytes).ok()?, reader.orders))
}

struct Reader<'a> {
    source: &'a str,
    tokens: &'a [Token],
    blanked: Vec<Token>,
    orders: Vec<KeyOrder>,
}

impl Reader<'_> {
    fn is_word(&self, at: usize, word: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_word(self.source, word))
    }

    fn is_punctuation(&self, at: usize, byte: u8) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_punctuation(self.source, byte))
    }

    fn read(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            if self.is_word(at, "primary") && self.is_word(at + 1, "key") && self.is_punctuation(at + 2, b'(')
            {
                at = self.key(at + 3, true);
            } else if self.is_word(at, "unique") && self.is_punctuation(at + 1, b'(') {
                at = self.key(at + 2, true);
            } else if self.is_word(at, "index") {
                at = self.index(at + 1);
            } else if self.is_word(at, "split") && self.is_word(at + 1, "into") {
                at = self.split(at);
            } else {
                at += 1;
            }
        }
    }

    /// The parenthesis of `index name on table [using method] (`.
    fn index(&mut self, mut at: usize) -> usize {
        let limit = at + 16;
        while at < limit.min(self.tokens.len()) {
            if self.is_punctuation(at, b'(') {
                return self.key(at + 1, false);
            }
            if self.is_punctuation(at, b';') {
                return at;
            }
            at += 1;
        }
        at
    }

    fn split(&mut self, at: usize) -> usize {
        let is_count = self.tokens.get(at + 2).is_some_and(|token| token.kind == TokenKind::Integer);
        if is_count && self.is_word(at + 3, "tablets") {
            self.blanked.extend_from_slice(&self.tokens[at..at + 4]);
            return at + 4;
        }
        at + 1
    }

    /// Columns up to the closing parenthesis. In an index the grammar knows all words but `hash`.
    fn key(&mut self, mut at: usize, constraint: bool) -> usize {
        // `((a, b) hash, c)`: the inner parentheses go.
        let grouped = constraint && self.is_punctuation(at, b'(');
        if grouped {
            self.blanked.push(self.tokens[at]);
            at += 1;
        }
        let mut columns: Vec<Text> = Vec::new();
        let mut depth = 0;
        while let Some(token) = self.tokens.get(at).copied() {
            if token.is_punctuation(self.source, b'(') {
                depth += 1;
                columns.clear();
            } else if token.is_punctuation(self.source, b')') {
                if depth == 0 {
                    if !(grouped && self.is_word(at + 1, "hash")) {
                        return at + 1;
                    }
                    self.blanked.push(token);
                } else {
                    depth -= 1;
                }
            } else if token.is_punctuation(self.source, b',') && depth == 0 {
                let keep = grouped && self.orders.is_empty() && !columns.is_empty();
                if !keep {
                    columns.clear();
                }
            } else if depth == 0 {
                at = self.key_word(at, token, constraint, &mut columns);
            }
            at += 1;
        }
        at
    }

    /// A column's name or a word behind it; returns the last token that was used.
    fn key_word(&mut self, at: usize, token: Token, constraint: bool, columns: &mut Vec<Text>) -> usize {
        let word = |word: &str| token.is_word(self.source, word);
        let first = columns.is_empty() || self.is_punctuation(at.wrapping_sub(1), b',');
        if first {
            if let Some(name) = self.name(token) {
                columns.push(name);
            }
            return at;
        }
        let order = |descending, hash, nulls_first| (descending, hash, nulls_first);
        let (length, (descending, hash, nulls_first)) = if word("hash") {
            (1, order(false, true, None))
        } else if constraint && word("asc") {
            (1, order(false, false, None))
        } else if constraint && word("desc") {
            (1, order(true, false, None))
        } else if constraint && word("nulls") && self.is_word(at + 1, "first") {
            (2, order(false, false, Some(true)))
        } else if constraint && word("nulls") && self.is_word(at + 1, "last") {
            (2, order(false, false, Some(false)))
        } else {
            return at;
        };
        for column in columns.iter() {
            self.orders.push(KeyOrder {
                position: token.start,
                column: column.clone(),
                descending,
                hash,
                nulls_first,
            });
        }
        self.blanked.extend_from_slice(&self.tokens[at..at + length]);
        at + length - 1
    }

    fn name(&self, token: Token) -> Option<Text> {
        let text = token.text(self.source);
        match token.kind {
            TokenKind::Word => Some(text.to_lowercase().into()),
            TokenKind::QuotedIdentifier => {
                let inner = text.strip_prefix('"')?.strip_suffix('"')?;
                Some(inner.replace("\"\"", "\"").into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(source: &str) -> (String, Vec<(String, bool, bool)>) {
        let (text, orders) = blank(source).unwrap();
        assert_eq!(text.len(), source.len());
        (text, orders.iter().map(|order| (order.column.to_string(), order.descending, order.hash)).collect())
    }

    #[test]
    fn keys() {
        let (text, found) = orders("create table t (a int, b int, primary key (a, b asc))");
        assert_eq!(text, "create table t (a int, b int, primary key (a, b    ))");
        assert_eq!(found, [("b".to_owned(), false, false)]);
        let (text, found) = orders(
            "create table t (primary key(\"A\" hash, b desc nulls last), a int) split into 10 tablets",
        );
        assert_eq!(text.trim_end(), "create table t (primary key(\"A\"     , b                ), a int)");
        assert_eq!(found[0], ("A".to_owned(), false, true));
        assert_eq!(found[1], ("b".to_owned(), true, false));
        let (text, found) = orders("create table t (primary key((a, b) hash, c asc))");
        assert_eq!(text, "create table t (primary key( a, b      , c    ))");
        assert_eq!(found[..2], [("a".to_owned(), false, true), ("b".to_owned(), false, true)]);
        assert_eq!(orders("create index i on t (a hash, b desc)").0, "create index i on t (a     , b desc)");
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(blank("select a from t order by a desc"), None);
        assert_eq!(blank("select 'primary key (a asc)'"), None);
        assert_eq!(blank("create table t (asc int, primary key (asc))"), None);
    }
}
