//! LIKE patterns: what begins them, and how much the rest of them keeps.

/// Factors for each part of a pattern: a character that must be there, `_`, `%`.
const CHARACTER: f64 = 0.20;
const ANY_CHARACTER: f64 = 0.9;
const ANY_TEXT: f64 = 5.0;

/// What a LIKE pattern asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Every text that matches begins so.
    pub prefix: String,
    /// There are no wildcards: the prefix is all.
    pub exact: bool,
    /// The part of texts with that prefix that matches, as far as one can guess it.
    pub rest: f64,
}

impl Pattern {
    /// `folds`: of ILIKE, which has no fixed prefix as soon as there are letters.
    pub fn like(text: &str, folds: bool) -> Pattern {
        let mut prefix = String::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.peek().copied() {
            if matches!(character, '%' | '_') || folds && character.is_alphabetic() {
                break;
            }
            characters.next();
            match character {
                '\\' => prefix.extend(characters.next()),
                other => prefix.push(other),
            }
        }
        let exact = characters.peek().is_none();
        let mut rest = 1.0;
        let mut leading = true;
        while let Some(character) = characters.next() {
            match character {
                // What a leading wildcard keeps is in the prefix's share already.
                '%' | '_' if leading => continue,
                '%' => rest *= ANY_TEXT,
                '_' => rest *= ANY_CHARACTER,
                '\\' => {
                    characters.next();
                    rest *= CHARACTER;
                }
                _ => rest *= CHARACTER,
            }
            leading = false;
        }
        Pattern { prefix, exact, rest: f64::min(rest, 1.0) }
    }

    /// The least text that is greater than all texts with this prefix; `None` if there is none.
    pub fn successor(prefix: &str) -> Option<String> {
        let mut end: Vec<char> = prefix.chars().collect();
        loop {
            let last = end.pop()?;
            // Past the surrogates, which are no characters.
            if let Some(next) = (last as u32 + 1..).take(0x900).find_map(char::from_u32) {
                end.push(next);
                return Some(end.into_iter().collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_rests() {
        let like = |text: &str| Pattern::like(text, false);
        assert_eq!(like("abc"), Pattern { prefix: "abc".into(), exact: true, rest: 1.0 });
        assert_eq!(like("abc%"), Pattern { prefix: "abc".into(), exact: false, rest: 1.0 });
        assert_eq!(like("a\\%b%"), Pattern { prefix: "a%b".into(), exact: false, rest: 1.0 });
        let contains = like("%xy%");
        assert_eq!((contains.prefix.as_str(), contains.exact), ("", false));
        assert!((contains.rest - 0.2 * 0.2 * 5.0).abs() < 1e-12);
        assert_eq!(Pattern::like("12ab%", true).prefix, "12");
        assert_eq!(Pattern::successor("abc").as_deref(), Some("abd"));
        assert_eq!(Pattern::successor("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(Pattern::successor(""), None);
    }
}
