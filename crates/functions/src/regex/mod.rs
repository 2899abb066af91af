//! Regular expressions with PostgreSQL's syntax and semantics on Rust's engines.
//!
//! PostgreSQL matches the leftmost and then the longest (or, where the expression prefers it, the shortest) text;
//! Rust's engines take the first alternative that matches. So the start comes from the ordinary engine, the end
//! from a lazy automaton that knows no order of alternatives. Expressions with back references or lookaround run
//! on an engine with backtracking, which is bounded and whose matches are the ordinary ones.
//!
//! What falls short of PostgreSQL: among several ways to divide one match between its groups, the one that the
//! ordinary engine finds is taken.

mod functions;
mod similar;
mod translate;

use std::cell::RefCell;
use std::rc::Rc;

use cairn_types::{Result, bail, err};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Anchored, Input, MatchKind};

use translate::invalid;

pub use functions::{BODIES, SET_BODIES};

/// The options of an expression: flags of the functions, embedded options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    pub ignore_case: bool,
    pub expanded: bool,
    /// The whole expression is a literal text.
    pub quote: bool,
    /// `.` and `[^...]` do not match a newline.
    pub newline_stops_dot: bool,
    /// `^` and `$` match at newlines too.
    pub newline_anchors: bool,
}

impl Flags {
    /// Applies one option letter; `None` for an unknown one.
    fn apply_embedded(&mut self, option: char) -> Option<()> {
        match option {
            'b' | 'e' => {}
            'c' => self.ignore_case = false,
            'i' => self.ignore_case = true,
            'm' | 'n' => {
                self.newline_stops_dot = true;
                self.newline_anchors = true;
            }
            'p' => {
                self.newline_stops_dot = true;
                self.newline_anchors = false;
            }
            'q' => self.quote = true,
            's' => {
                self.newline_stops_dot = false;
                self.newline_anchors = false;
            }
            't' => self.expanded = false,
            'w' => {
                self.newline_stops_dot = false;
                self.newline_anchors = true;
            }
            'x' => self.expanded = true,
            _ => return None,
        }
        Some(())
    }

    /// The flags argument of the `regexp_` functions, and whether it says `g`. Errors: 22023.
    pub fn parse(text: &str) -> Result<(Flags, bool)> {
        let mut flags = Flags::default();
        let mut global = false;
        for option in text.chars() {
            if option == 'g' {
                global = true;
            } else if flags.apply_embedded(option).is_none() {
                bail!(INVALID_PARAMETER_VALUE, "invalid regular expression option: \"{option}\"");
            }
        }
        Ok((flags, global))
    }
}

/// Byte offsets of a match and its groups; `groups[0]` is the whole match.
#[derive(Clone, Debug)]
pub struct Match {
    pub groups: Vec<Option<(usize, usize)>>,
}

impl Match {
    pub fn start(&self) -> usize {
        self.groups.first().copied().flatten().map_or(0, |(start, _)| start)
    }

    pub fn end(&self) -> usize {
        self.groups.first().copied().flatten().map_or(0, |(_, end)| end)
    }
}

/// A compiled expression.
pub struct Regex {
    engine: Engine,
    shortest: bool,
    groups: usize,
}

enum Engine {
    Automaton { regex: regex::Regex, pattern: String, end: Option<Box<(DFA, RefCell<Cache>)>> },
    Backtracking(Box<fancy_regex::Regex>),
}

/// Memory that one compiled expression may take.
const COMPILED_BYTES_MAX: usize = 10 << 20;

impl Regex {
    fn compile(pattern: &str, flags: Flags) -> Result<Regex> {
        let translated = translate::translate(pattern, flags)?;
        let too_big = || {
            err!(INVALID_REGULAR_EXPRESSION, "invalid regular expression: regular expression is too complex")
        };
        if translated.backtracking {
            let regex = fancy_regex::RegexBuilder::new(&translated.pattern)
                .delegate_size_limit(COMPILED_BYTES_MAX)
                .build()
                .map_err(|error| invalid(&error.to_string()))?;
            return Ok(Regex {
                engine: Engine::Backtracking(Box::new(regex)),
                shortest: translated.shortest,
                groups: translated.groups,
            });
        }
        let regex = regex::RegexBuilder::new(&translated.pattern)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|_| too_big())?;
        // Without alternatives and quantifiers there is only one end.
        let one_end = !translated.pattern.contains(['|', '*', '+', '?', '{']);
        let end = if one_end {
            None
        } else {
            DFA::builder()
                .configure(DFA::config().match_kind(MatchKind::All).unicode_word_boundary(true))
                .build(&translated.pattern)
                .ok()
                .map(|dfa| {
                    let cache = RefCell::new(dfa.create_cache());
                    Box::new((dfa, cache))
                })
        };
        Ok(Regex {
            engine: Engine::Automaton { regex, pattern: translated.pattern, end },
            shortest: translated.shortest,
            groups: translated.groups,
        })
    }

    /// The number of capturing groups.
    pub fn group_count(&self) -> usize {
        self.groups
    }

    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.engine {
            Engine::Automaton { regex, .. } => Ok(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).map_err(|error| failed(&error)),
        }
    }

    /// The first match that begins at byte `from` or later; what stands before counts as context.
    pub fn find_at(&self, text: &str, from: usize) -> Result<Option<Match>> {
        match &self.engine {
            Engine::Backtracking(regex) => {
                let Some(captures) = regex.captures_from_pos(text, from).map_err(|error| failed(&error))?
                else {
                    return Ok(None);
                };
                let groups = (0..captures.len())
                    .map(|group| captures.get(group).map(|found| (found.start(), found.end())))
                    .collect();
                Ok(Some(Match { groups }))
            }
            Engine::Automaton { regex, pattern, end } => {
                let Some(first) = regex.find_at(text, from) else {
                    return Ok(None);
                };
                let start = first.start();
                let end =
                    end.as_ref().and_then(|dfa| self.preferred_end(dfa, text, start)).unwrap_or(first.end());
                if self.groups == 0 {
                    return Ok(Some(Match { groups: vec![Some((start, end))] }));
                }
                let mut locations = regex.capture_locations();
                if end == first.end() {
                    regex.captures_read_at(&mut locations, text, start);
                } else {
                    // The groups of the way that ends where the match must end.
                    let whole = compiled_whole(pattern)?;
                    if whole.captures_read_at(&mut locations, &text[..end], start).is_none() {
                        return Ok(Some(Match { groups: vec![Some((start, end)); self.groups + 1] }));
                    }
                }
                let mut groups: Vec<_> = (0..=self.groups).map(|group| locations.get(group)).collect();
                groups[0] = Some((start, end));
                Ok(Some(Match { groups }))
            }
        }
    }

    /// The longest (or shortest) end of the matches that begin here.
    fn preferred_end(&self, dfa: &(DFA, RefCell<Cache>), text: &str, start: usize) -> Option<usize> {
        let input = Input::new(text).range(start..).anchored(Anchored::Yes).earliest(self.shortest);
        let mut cache = dfa.1.borrow_mut();
        dfa.0.try_search_fwd(&mut cache, &input).ok().flatten().map(|found| found.offset())
    }
}

/// The expression with an end that is the text's end.
fn compiled_whole(pattern: &str) -> Result<Rc<regex::Regex>> {
    thread_local! {
        static WHOLE: RefCell<Vec<(String, Rc<regex::Regex>)>> = const { RefCell::new(Vec::new()) };
    }
    WHOLE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(at) = cache.iter().position(|(have, _)| have == pattern) {
            return Ok(cache[at].1.clone());
        }
        let regex = regex::RegexBuilder::new(&format!("(?:{pattern})\\z"))
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|_| invalid("regular expression is too complex"))?;
        let regex = Rc::new(regex);
        cache.truncate(CACHED_MAX - 1);
        cache.insert(0, (pattern.to_owned(), regex.clone()));
        Ok(regex)
    })
}

fn failed(error: &fancy_regex::Error) -> cairn_types::Error {
    match error {
        fancy_regex::Error::RuntimeError(_) => {
            err!(INVALID_REGULAR_EXPRESSION, "regular expression failed: regular expression is too complex")
        }
        other => err!(INVALID_REGULAR_EXPRESSION, "regular expression failed: {other}"),
    }
}

/// Compiled expressions that a thread keeps, the latest used first.
const CACHED_MAX: usize = 32;

/// The compiled expression, from the thread's cache if it is there. Errors: 2201B.
pub fn compiled(pattern: &str, flags: Flags) -> Result<Rc<Regex>> {
    type Entry = (String, Flags, Rc<Regex>);
    thread_local! {
        static CACHE: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    }
    CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        if let Some(at) = cache.iter().position(|(text, have, _)| *have == flags && text == pattern) {
            cache[..=at].rotate_right(1);
            return Ok(cache[0].2.clone());
        }
        let regex = Rc::new(Regex::compile(pattern, flags)?);
        cache.truncate(CACHED_MAX - 1);
        cache.insert(0, (pattern.to_owned(), flags, regex.clone()));
        Ok(regex)
    })
}

/// Position of the next character, or behind the end.
fn after_character(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

/// All matches from byte `from` on, as the functions with a `g` flag see them: an empty match is found again only
/// a character later.
pub fn find_all(regex: &Regex, text: &str, from: usize) -> Result<Vec<Match>> {
    let mut found = Vec::new();
    let mut at = from;
    while at <= text.len() {
        let Some(next) = regex.find_at(text, at)? else {
            break;
        };
        at = if next.end() > next.start() { next.end() } else { after_character(text, next.end()) };
        found.push(next);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
        let regex = compiled(pattern, Flags::default()).unwrap();
        let found = regex.find_at(text, 0).unwrap()?;
        Some(found.groups.iter().map(|group| group.map(|(start, end)| text[start..end].to_owned())).collect())
    }

    fn whole(pattern: &str, text: &str) -> Option<String> {
        groups(pattern, text).map(|groups| groups[0].clone().unwrap())
    }

    /// Examples of the manual, section 9.7.3.5, and answers of PostgreSQL 15.
    #[test]
    fn longest_and_shortest() {
        assert_eq!(whole("foo|foobar", "foobar").unwrap(), "foobar");
        assert_eq!(groups("Y*?([0-9]{1,3})", "XY1234Z").unwrap()[1].as_deref(), Some("1"));
        assert_eq!(groups("Y*([0-9]{1,3})", "XY1234Z").unwrap()[1].as_deref(), Some("123"));
        assert_eq!(whole("(a|ab)(c|bcd)(d*)", "abcd").unwrap(), "abcd");
        assert_eq!(whole("x.*?y", "xayby").unwrap(), "xay");
        assert_eq!(whole("(\\w)\\1", "hello").unwrap(), "ll");
        assert_eq!(whole("a(?=b)", "acab").unwrap(), "a");
        assert_eq!(whole("[[:<:]]b\\w*", "ab bc").unwrap(), "bc");
        assert_eq!(whole("[a&&b]+", "&&a").unwrap(), "&&a");
        assert_eq!(whole("(?i)ABC", "xabcx").unwrap(), "abc");
    }

    #[test]
    fn refusals() {
        for (pattern, reason) in [
            ("a**", "quantifier operand invalid"),
            ("(a", "parentheses () not balanced"),
            ("a)", "parentheses () not balanced"),
            ("[a", "brackets [] not balanced"),
            ("a{2,1}", "invalid repetition count(s)"),
            ("\\", "invalid escape \\ sequence"),
            ("\\q", "invalid escape \\ sequence"),
            ("(a)\\2", "invalid backreference number"),
            ("[b-a]", "invalid character range"),
            ("[[:foo:]]", "invalid character class"),
            ("*a", "quantifier operand invalid"),
            ("^*", "quantifier operand invalid"),
            ("a{1", "braces {} not balanced"),
            ("a{256}", "invalid repetition count(s)"),
            ("(?z)a", "invalid embedded option"),
            ("(?<a)a", "quantifier operand invalid"),
            ("a???", "quantifier operand invalid"),
            ("\\x", "invalid escape \\ sequence"),
        ] {
            let error = Regex::compile(pattern, Flags::default()).err().unwrap();
            assert_eq!(error.message(), format!("invalid regular expression: {reason}"), "{pattern}");
        }
    }
}
