//! What Cairn accepts beyond PostgreSQL's grammar, for the sake of schemas written for distributed databases:
//!
//! - `primary key (a, b asc)`, `unique (a hash, b desc)`: orders in a table's keys, also `((a, b) hash, c)`;
//! - `create index on t (a hash)`;
//! - `split into 10 tablets`, `split at values (...)`: without meaning on one node.
//!
//! The words are replaced by blanks of the same length, so that all positions in the text stay what they were, and the
//! orders are handed out beside the tree. This happens only after the grammar refused the text: whatever parses
//! without it means what PostgreSQL says.

use pg_query::protobuf::{Node, node::Node as NodeEnum};

use super::lexer::{Lexer, Token, TokenKind};

/// The order of one key column that the grammar does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOrder {
    /// Byte offset of the order's word in the source.
    pub position: usize,
    /// The column's name; empty for an expression.
    pub column: String,
    pub descending: bool,
    pub hash: bool,
}

/// The text with extensions blanked and the orders that were found; `None` if there is nothing to blank.
pub(super) fn blank(source: &str) -> Option<(String, Vec<KeyOrder>)> {
    let tokens: Vec<Token> = Lexer::new(source).collect();
    let mut blanks: Vec<Token> = Vec::new();
    let mut orders = Vec::new();
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(source, word));
    let mark = |at: usize, byte: u8| tokens.get(at).is_some_and(|token| token.is_punctuation(source, byte));
    let mut at = 0;
    while at < tokens.len() {
        if word(at, "primary") && word(at + 1, "key") && mark(at + 2, b'(') {
            key_list(source, &tokens, at + 2, &mut blanks, &mut orders);
        } else if word(at, "unique") && mark(at + 1, b'(') {
            key_list(source, &tokens, at + 1, &mut blanks, &mut orders);
        } else if word(at, "split") && word(at + 1, "into") && word(at + 3, "tablets") {
            blanks.extend(&tokens[at..at + 4]);
        } else if word(at, "split") && word(at + 1, "at") && word(at + 2, "values") && mark(at + 3, b'(') {
            let end = closing(source, &tokens, at + 3);
            blanks.extend(&tokens[at..(end + 1).min(tokens.len())]);
        }
        at += 1;
    }
    if blanks.is_empty() {
        return None;
    }
    let mut bytes = source.as_bytes().to_vec();
    for token in blanks {
        bytes[token.start..token.end].fill(b' ');
    }
    // Whole tokens were replaced by ASCII, so this cannot fail.
    String::from_utf8(bytes).ok().map(|blanked| (blanked, orders))
}

/// Index of the parenthesis that closes the one at `open`, or of the last token.
fn closing(source: &str, tokens: &[Token], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.is_punctuation(source, b'(') {
            depth += 1;
        } else if token.is_punctuation(source, b')') {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return index;
            }
        }
    }
    tokens.len().saturating_sub(1)
}

/// Blanks the orders of a key's columns, between the parenthesis at `open` and its end.
fn key_list(
    source: &str,
    tokens: &[Token],
    open: usize,
    blanks: &mut Vec<Token>,
    orders: &mut Vec<KeyOrder>,
) {
    let end = closing(source, tokens, open);
    let mut at = open + 1;
    while at < end {
        if tokens[at].is_punctuation(source, b'(') {
            // ((a, b) hash, ...): the group stands for its columns.
            let group_end = closing(source, tokens, at);
            if let Some(token) = tokens.get(group_end + 1)
                && token.is_word(source, "hash")
                && group_end < end
            {
                blanks.extend([tokens[at], tokens[group_end], *token]);
                for column in &tokens[at + 1..group_end] {
                    if let Some(name) = identifier(source, column) {
                        orders.push(KeyOrder {
                            position: token.start,
                            column: name,
                            descending: false,
                            hash: true,
                        });
                    }
                }
            }
            at = group_end + 1;
            continue;
        }
        if let (Some(column), Some(order)) = (identifier(source, &tokens[at]), tokens.get(at + 1)) {
            let (descending, hash) = match order.text(source).to_ascii_lowercase().as_str() {
                "asc" => (false, false),
                "desc" => (true, false),
                "hash" => (false, true),
                _ => {
                    at += 1;
                    continue;
                }
            };
            let ends = at + 2 == end || tokens[at + 2].is_punctuation(source, b',');
            if order.kind == TokenKind::Word && ends {
                blanks.push(*order);
                orders.push(KeyOrder { position: order.start, column, descending, hash });
                at += 1;
            }
        }
        at += 1;
    }
}

/// A column's name as the grammar would read it; `None` for any other token.
fn identifier(source: &str, token: &Token) -> Option<String> {
    let text = token.text(source);
    match token.kind {
        TokenKind::Word => Some(text.to_ascii_lowercase()),
        TokenKind::QuotedIdentifier => {
            text.strip_prefix('"')?.strip_suffix('"').map(|inner| inner.replace("\"\"", "\""))
        }
        _ => None,
    }
}

/// `create index on t (a hash)` parses: to the grammar `hash` is an operator class, which does not exist. Takes it out of
/// the tree.
pub(super) fn index_orders(node: &mut NodeEnum, position: usize) -> Vec<KeyOrder> {
    let NodeEnum::IndexStmt(index) = node else { return Vec::new() };
    let mut orders = Vec::new();
    for Node { node } in &mut index.index_params {
        let Some(NodeEnum::IndexElem(element)) = node else { continue };
        let is_hash = matches!(element.opclass.as_slice(), [Node { node: Some(NodeEnum::String(name)) }]
            if name.sval == "hash");
        if is_hash {
            element.opclass.clear();
            orders.push(KeyOrder { position, column: element.name.clone(), descending: false, hash: true });
        }
    }
    orders
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    fn orders(source: &str) -> Vec<(String, bool, bool)> {
        let statements = parse(source).unwrap();
        statements
            .iter()
            .flat_map(|statement| &statement.key_orders)
            .map(|order| (order.column.clone(), order.descending, order.hash))
            .collect()
    }

    #[test]
    fn key_orders_are_found() {
        assert_eq!(
            orders("create table q (primary key (account_id, id asc), id bigint, account_id int)"),
            [("id".to_owned(), false, false)]
        );
        assert_eq!(
            orders(
                "create table q (a int, b int, primary key ((a, \"B\") hash, c desc)) split into 10 tablets"
            ),
            [("a".to_owned(), false, true), ("B".to_owned(), false, true), ("c".to_owned(), true, false)]
        );
        assert_eq!(orders("create index i on t (a hash, b desc)"), [("a".to_owned(), false, true)]);
        assert_eq!(orders("alter table q add primary key (a asc, b)"), [("a".to_owned(), false, false)]);
        // What PostgreSQL knows is left alone.
        assert!(orders("create table q (a int, primary key (a))").is_empty());
    }

    #[test]
    fn positions_hold() {
        let source = "create table é (a int, primary key (a asc), b nope nope)";
        let error = parse(source).unwrap_err();
        assert_eq!(error.report().location.map(|at| &source[at as usize..]), Some("nope)"));
        let source = "create table t (a int, primary key (a asc, b up))";
        let error = parse(source).unwrap_err();
        assert_eq!(error.report().location.map(|at| &source[at as usize..]), Some("up))"));
    }
}
