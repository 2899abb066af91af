//! An upper bound for the depth of a statement's parse tree, from its tokens alone.
//!
//! Everything behind the grammar walks trees recursively. A text whose tree could be deeper than
//! [`DEPTH_MAX`] levels is refused with 54001 before any tree is built, so that no walker, and no `Drop`, can run out
//! of stack. The bound is the sum over open parentheses of the operators seen since the last separator: `a, b, c` and
//! `a and b and c` are flat lists in the tree, `a + b + c` nests once an operator.

use super::lexer::{Lexer, TokenKind};

/// Levels of nesting that a statement may have. PostgreSQL's own bound (`max_stack_depth`, 2 MB) allows some
/// thousand.
pub const DEPTH_MAX: usize = 1000;

/// Bound on the nesting of any expression or subquery in `source`; stops counting above [`DEPTH_MAX`].
pub fn depth_bound(source: &str) -> usize {
    // One counter a level of parentheses; `sum` is the total of all of them.
    let mut chains: Vec<usize> = vec![0];
    let mut sum = 0usize;
    let mut deepest = 0usize;
    for token in Lexer::new(source) {
        let nested = chains.len() > 1;
        let chain = chains.last_mut();
        match token.kind {
            TokenKind::Punctuation => match source.as_bytes()[token.start] {
                b'(' | b'[' => {
                    sum += 1;
                    chains.push(1);
                }
                b')' | b']' if nested => sum -= chains.pop().unwrap_or(0),
                b',' | b';' => reset(chain, &mut sum),
                b':' => bump(chain, &mut sum),
                _ => {}
            },
            TokenKind::Operator => bump(chain, &mut sum),
            TokenKind::Word => match word_effect(token.text(source)) {
                Effect::None => {}
                Effect::Nests => bump(chain, &mut sum),
                Effect::Separates => reset(chain, &mut sum),
                Effect::Opens => {
                    sum += 1;
                    chains.push(1);
                }
                Effect::Closes => {
                    if chains.len() > 1 {
                        sum -= chains.pop().unwrap_or(0);
                    }
                }
            },
            _ => {}
        }
        deepest = deepest.max(sum);
        if deepest > DEPTH_MAX {
            break;
        }
    }
    deepest
}

fn bump(chain: Option<&mut usize>, sum: &mut usize) {
    if let Some(chain) = chain {
        *chain += 1;
        *sum += 1;
    }
}

fn reset(chain: Option<&mut usize>, sum: &mut usize) {
    if let Some(chain) = chain {
        *sum -= *chain;
        *chain = 0;
    }
}

enum Effect {
    None,
    Nests,
    Separates,
    Opens,
    Closes,
}

fn word_effect(word: &str) -> Effect {
    // Only short words matter; longer ones need no comparison at all.
    if word.len() > 9 {
        return Effect::None;
    }
    let mut lower = [0u8; 9];
    let lower = &mut lower[..word.len()];
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    match &*lower {
        b"and" | b"or" | b"where" | b"from" | b"when" | b"then" | b"values" | b"set" => Effect::Separates,
        b"not" | b"is" | b"isnull" | b"notnull" | b"collate" | b"at" | b"join" | b"union" | b"except"
        | b"intersect" | b"like" | b"ilike" | b"similar" | b"in" | b"between" | b"explain" | b"overlaps" => {
            Effect::Nests
        }
        b"case" => Effect::Opens,
        b"end" => Effect::Closes,
        _ => Effect::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!(depth_bound("select 1, 2, 3"), 0);
        assert!(depth_bound("select 1 + 2 + 3") >= 2);
        assert!(depth_bound(&format!("select {}1{}", "(".repeat(50), ")".repeat(50))) >= 50);
        assert!(depth_bound(&format!("select 1{}", " or a = 1".repeat(5000))) < 10);
        assert!(depth_bound(&format!("values (1, 'a'){}", ", (1, 'b')".repeat(5000))) < 10);
        assert!(depth_bound(&format!("select 1{}", "+1".repeat(5000))) > DEPTH_MAX);
    }
}
