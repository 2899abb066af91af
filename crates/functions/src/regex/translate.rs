//! From PostgreSQL's advanced regular expressions (manual, section 9.7.3) to the syntax of Rust's regex crates.
//!
//! The parser follows the manual's grammar and refuses what PostgreSQL refuses, with its words. What it hands on
//! besides the pattern is what the matcher must know: whether an engine with backtracking is needed (back
//! references, lookaround), and whether the whole expression prefers the longest or the shortest match.

use cairn_types::{Error, Result, err};

use super::Flags;

/// A pattern in Rust's syntax.
pub struct Translated {
    pub pattern: String,
    /// Back references or lookaround occur.
    pub backtracking: bool,
    /// The expression prefers the shortest match (manual, section 9.7.3.5).
    pub shortest: bool,
    /// Capturing groups.
    pub groups: usize,
}

pub(super) fn invalid(reason: &str) -> Error {
    err!(INVALID_REGULAR_EXPRESSION, "invalid regular expression: {reason}")
}

/// Nesting of parentheses that is accepted.
const NESTING_MAX: usize = 200;
/// The largest count in `{m,n}`.
const REPEAT_MAX: u32 = 255;

pub fn translate(pattern: &str, mut flags: Flags) -> Result<Translated> {
    let mut rest = pattern;
    // Directors and embedded options stand at the very beginning.
    if let Some(literal) = rest.strip_prefix("***=") {
        return Ok(literal_pattern(literal, flags));
    }
    if let Some(after) = rest.strip_prefix("***:") {
        rest = after;
    } else if rest.starts_with("***") {
        return Err(invalid("quantifier operand invalid"));
    }
    if flags.quote {
        return Ok(literal_pattern(rest, flags));
    }
    if let Some(options) = rest.strip_prefix("(?")
        && options.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        let end = options.find(')').ok_or_else(|| invalid("invalid embedded option"))?;
        for option in options[..end].chars() {
            flags.apply_embedded(option).ok_or_else(|| invalid("invalid embedded option"))?;
        }
        rest = &options[end + 1..];
        if flags.quote {
            return Ok(literal_pattern(rest, flags));
        }
    }
    let mut parser = Parser {
        rest: rest.chars().collect(),
        at: 0,
        out: String::with_capacity(rest.len() + 16),
        flags,
        groups: 0,
        open_groups: Vec::new(),
        backtracking: false,
        lookarounds: 0,
    };
    parser.out.push_str(if flags.ignore_case { "(?i)" } else { "" });
    let preference = parser.alternatives(0)?;
    if parser.at < parser.rest.len() {
        return Err(invalid("parentheses () not balanced"));
    }
    Ok(Translated {
        pattern: parser.out,
        backtracking: parser.backtracking,
        shortest: preference == Preference::Shortest,
        groups: parser.groups,
    })
}

fn literal_pattern(text: &str, flags: Flags) -> Translated {
    let mut pattern = String::from(if flags.ignore_case { "(?i)" } else { "" });
    for character in text.chars() {
        push_literal(character, &mut pattern);
    }
    Translated { pattern, backtracking: false, shortest: false, groups: 0 }
}

fn push_literal(character: char, out: &mut String) {
    if character.is_ascii_punctuation() {
        out.push('\\');
        out.push(character);
    } else if character.is_ascii_control() || character == ' ' {
        out.push_str(&format!("\\x{{{:x}}}", character as u32));
    } else {
        out.push(character);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Preference {
    None,
    Longest,
    Shortest,
}

/// What an atom was, for the quantifier that may follow.
enum Atom {
    Matches(Preference),
    /// `^`, `$`, lookaround, word boundaries: no quantifier may follow.
    Constraint,
}

struct Parser {
    rest: Vec<char>,
    at: usize,
    out: String,
    flags: Flags,
    groups: usize,
    /// Numbers of the capturing groups that are not closed yet.
    open_groups: Vec<usize>,
    backtracking: bool,
    /// How many lookarounds are open: groups in them capture nothing, and back references are refused.
    lookarounds: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += 1;
        Some(character)
    }

    /// In expanded syntax, skips blanks and comments. Comments `(?#...)` go in any syntax.
    fn skip_ignored(&mut self) {
        loop {
            match self.peek() {
                Some(c) if self.flags.expanded && c.is_whitespace() => self.at += 1,
                Some('#') if self.flags.expanded => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                Some('(') if self.peek_at(1) == Some('?') && self.peek_at(2) == Some('#') => {
                    while self.peek().is_some_and(|c| c != ')') {
                        self.at += 1;
                    }
                    self.at += 1;
                }
                _ => return,
            }
        }
    }

    fn alternatives(&mut self, depth: usize) -> Result<Preference> {
        if depth > NESTING_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut preference = self.branch(depth)?;
        while self.peek() == Some('|') {
            self.at += 1;
            self.out.push('|');
            self.branch(depth)?;
            preference = Preference::Longest;
        }
        Ok(preference)
    }

    fn branch(&mut self, depth: usize) -> Result<Preference> {
        let mut preference = Preference::None;
        loop {
            self.skip_ignored();
            match self.peek() {
                None | Some('|') => return Ok(preference),
                Some(')') if depth > 0 => return Ok(preference),
                Some(')') => return Err(invalid("parentheses () not balanced")),
                Some('*' | '+' | '?') => return Err(invalid("quantifier operand invalid")),
                Some('{') if self.peek_at(1).is_some_and(|c| c.is_ascii_digit()) => {
                    return Err(invalid("quantifier operand invalid"));
                }
                Some(_) => {}
            }
            let start = self.out.len();
            let atom = self.atom(depth)?;
            self.skip_ignored();
            let own = self.quantifier(start, &atom)?;
            if preference == Preference::None {
                preference = own;
            }
        }
    }

    fn is_quantifier(&self) -> bool {
        match self.peek() {
            Some('*' | '+' | '?') => true,
            Some('{') => self.peek_at(1).is_some_and(|c| c.is_ascii_digit()),
            _ => false,
        }
    }

    /// Reads the quantifier behind the atom that begins at `start` in the output.
    fn quantifier(&mut self, start: usize, atom: &Atom) -> Result<Preference> {
        if !self.is_quantifier() {
            return Ok(match atom {
                Atom::Matches(preference) => *preference,
                Atom::Constraint => Preference::None,
            });
        }
        if matches!(atom, Atom::Constraint) {
            return Err(invalid("quantifier operand invalid"));
        }
        let (low, high) = match self.next() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            _ => self.counts()?,
        };
        let lazy = self.peek() == Some('?');
        if lazy {
            self.at += 1;
        }
        self.skip_ignored();
        if self.is_quantifier() {
            return Err(invalid("quantifier operand invalid"));
        }
        // The atom must be one unit for Rust's quantifier too.
        let unit = self.out.split_off(start);
        self.out.push_str("(?:");
        self.out.push_str(&unit);
        self.out.push(')');
        match (low, high) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (low, None) => self.out.push_str(&format!("{{{low},}}")),
            (low, Some(high)) => self.out.push_str(&format!("{{{low},{high}}}")),
        }
        if lazy {
            self.out.push('?');
        }
        // An exact count leaves the atom's own preference.
        if high == Some(low) {
            return Ok(match atom {
                Atom::Matches(preference) => *preference,
                Atom::Constraint => Preference::None,
            });
        }
        Ok(if lazy { Preference::Shortest } else { Preference::Longest })
    }

    /// `m}`, `m,}` or `m,n}`.
    fn counts(&mut self) -> Result<(u32, Option<u32>)> {
        let low = self.count()?;
        let high = match self.next() {
            Some('}') => return Self::check_counts(low, Some(low)),
            Some(',') if self.peek() == Some('}') => None,
            Some(',') => Some(self.count()?),
            Some(_) => return Err(invalid("invalid repetition count(s)")),
            None => return Err(invalid("braces {} not balanced")),
        };
        match self.next() {
            Some('}') => Self::check_counts(low, high),
            Some(_) => Err(invalid("invalid repetition count(s)")),
            None => Err(invalid("braces {} not balanced")),
        }
    }

    fn check_counts(low: u32, high: Option<u32>) -> Result<(u32, Option<u32>)> {
        if high.is_some_and(|high| high < low) {
            return Err(invalid("invalid repetition count(s)"));
        }
        Ok((low, high))
    }

    fn count(&mut self) -> Result<u32> {
        let mut value = 0u32;
        let mut seen = false;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            seen = true;
            value = value * 10 + digit;
            if value > REPEAT_MAX {
                return Err(invalid("invalid repetition count(s)"));
            }
            self.at += 1;
        }
        if seen {
            Ok(value)
        } else if self.peek().is_none() {
            Err(invalid("braces {} not balanced"))
        } else {
            Err(invalid("invalid repetition count(s)"))
        }
    }

    fn atom(&mut self, depth: usize) -> Result<Atom> {
        let any = Atom::Matches(Preference::None);
        match self.next() {
            Some('(') => self.group(depth),
            Some('[') => self.bracket(),
            Some('.') => {
                self.out.push_str(if self.flags.newline_stops_dot { "[^\\n]" } else { "(?s:.)" });
                Ok(any)
            }
            Some('^') => {
                self.out.push_str(if self.flags.newline_anchors { "(?m:^)" } else { "\\A" });
                Ok(Atom::Constraint)
            }
            Some('$') => {
                self.out.push_str(if self.flags.newline_anchors { "(?m:$)" } else { "\\z" });
                Ok(Atom::Constraint)
            }
            Some('\\') => self.escape(),
            Some(literal) => {
                push_literal(literal, &mut self.out);
                Ok(any)
            }
            None => Ok(any),
        }
    }

    fn group(&mut self, depth: usize) -> Result<Atom> {
        let mut constraint = false;
        let mut number = None;
        if self.peek() == Some('?') {
            let opening = match (self.peek_at(1), self.peek_at(2)) {
                (Some(':'), _) => "(?:",
                (Some('='), _) => "(?=",
                (Some('!'), _) => "(?!",
                (Some('<'), Some('=')) => "(?<=",
                (Some('<'), Some('!')) => "(?<!",
                _ => return Err(invalid("quantifier operand invalid")),
            };
            constraint = opening != "(?:";
            self.backtracking |= constraint;
            self.at += opening.len() - 1;
            self.lookarounds += usize::from(constraint);
            self.out.push_str(opening);
        } else if self.lookarounds > 0 {
            self.out.push_str("(?:");
        } else {
            self.groups += 1;
            number = Some(self.groups);
            self.open_groups.push(self.groups);
            self.out.push('(');
        }
        let preference = self.alternatives(depth + 1)?;
        if self.next() != Some(')') {
            return Err(invalid("parentheses () not balanced"));
        }
        if number.is_some() {
            self.open_groups.pop();
        }
        self.lookarounds -= usize::from(constraint);
        self.out.push(')');
        Ok(if constraint { Atom::Constraint } else { Atom::Matches(preference) })
    }

    fn bad_escape() -> Error {
        invalid("invalid escape \\ sequence")
    }

    /// An escape outside of brackets.
    fn escape(&mut self) -> Result<Atom> {
        let any = Atom::Matches(Preference::None);
        let Some(character) = self.next() else {
            return Err(Self::bad_escape());
        };
        let constraint = match character {
            'A' => "\\A",
            'Z' => "\\z",
            'm' => "\\b{start}",
            'M' => "\\b{end}",
            'y' => "\\b",
            'Y' => "\\B",
            'd' => {
                self.out.push_str("[[:digit:]]");
                return Ok(any);
            }
            'D' => {
                self.out.push_str("[^[:digit:]]");
                return Ok(any);
            }
            's' => {
                self.out.push_str("\\s");
                return Ok(any);
            }
            'S' => {
                self.out.push_str("\\S");
                return Ok(any);
            }
            'w' => {
                self.out.push_str("[\\p{Alphabetic}\\p{N}_]");
                return Ok(any);
            }
            'W' => {
                self.out.push_str("[^\\p{Alphabetic}\\p{N}_]");
                return Ok(any);
            }
            '1'..='9' => return self.back_reference(character),
            other => {
                let literal = self.character_escape(other)?;
                push_literal(literal, &mut self.out);
                return Ok(any);
            }
        };
        self.out.push_str(constraint);
        Ok(Atom::Constraint)
    }

    /// `\1`...: a back reference if there is such a group (one digit: always); else an octal number.
    fn back_reference(&mut self, first: char) -> Result<Atom> {
        let start = self.at - 1;
        let mut number = first.to_digit(10).unwrap_or(0) as usize;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(digit as usize);
            self.at += 1;
        }
        let single = self.at - start == 1;
        if single || number <= self.groups {
            if number > self.groups || self.open_groups.contains(&number) || self.lookarounds > 0 {
                return Err(invalid("invalid backreference number"));
            }
            self.backtracking = true;
            // In a group, so that a digit that follows is no part of the number.
            self.out.push_str(&format!("(?:\\{number})"));
            return Ok(Atom::Matches(Preference::None));
        }
        self.at = start;
        let literal = self.octal()?;
        push_literal(literal, &mut self.out);
        Ok(Atom::Matches(Preference::None))
    }

    fn octal(&mut self) -> Result<char> {
        let mut code = 0;
        let mut digits = 0;
        while digits < 3
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(8))
        {
            code = code * 8 + digit;
            digits += 1;
            self.at += 1;
        }
        if digits == 0 {
            return Err(Self::bad_escape());
        }
        char::from_u32(code).ok_or_else(Self::bad_escape)
    }

    fn hexadecimal(&mut self, least: usize, most: usize) -> Result<char> {
        let mut code = 0u32;
        let mut digits = 0;
        while digits < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(16))
        {
            code = code.wrapping_mul(16).wrapping_add(digit);
            digits += 1;
            self.at += 1;
        }
        if digits < least {
            return Err(Self::bad_escape());
        }
        char::from_u32(code).ok_or_else(Self::bad_escape)
    }

    /// Escapes that stand for one character, inside and outside of brackets.
    fn character_escape(&mut self, character: char) -> Result<char> {
        Ok(match character {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'c' => match self.next() {
                Some(control) => char::from_u32(control as u32 & 31).unwrap_or('\0'),
                None => return Err(Self::bad_escape()),
            },
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'u' => self.hexadecimal(4, 4)?,
            'U' => self.hexadecimal(8, 8)?,
            'x' => self.hexadecimal(1, 255)?,
            '0' => {
                self.at -= 1;
                self.octal()?
            }
            other if other.is_alphanumeric() => return Err(Self::bad_escape()),
            other => other,
        })
    }

    /// A bracket expression, behind its `[`.
    fn bracket(&mut self) -> Result<Atom> {
        // [[:<:]] and [[:>:]] are word boundaries.
        for (spelling, boundary) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
            if self.rest[self.at..].iter().copied().take(6).eq(spelling.chars()) {
                self.at += 6;
                self.out.push_str(boundary);
                return Ok(Atom::Constraint);
            }
        }
        let negated = self.peek() == Some('^');
        if negated {
            self.at += 1;
        }
        self.out.push_str(if negated { "[^" } else { "[" });
        if negated && self.flags.newline_stops_dot {
            self.out.push_str("\\n");
        }
        let start = self.at;
        let mut members = 0;
        loop {
            let Some(character) = self.peek() else {
                return Err(invalid("brackets [] not balanced"));
            };
            if character == ']' && self.at > start {
                self.at += 1;
                break;
            }
            members += 1;
            let Some(low) = self.bracket_member()? else {
                // A class cannot begin a range.
                if self.peek() == Some('-') && self.peek_at(1).is_some_and(|c| c != ']') {
                    return Err(invalid("invalid character range"));
                }
                continue;
            };
            let is_range = self.peek() == Some('-') && self.peek_at(1).is_some_and(|c| c != ']');
            if !is_range {
                push_literal(low, &mut self.out);
                continue;
            }
            self.at += 1;
            let high = self.bracket_member()?.ok_or_else(|| invalid("invalid character range"))?;
            if high < low {
                return Err(invalid("invalid character range"));
            }
            push_literal(low, &mut self.out);
            self.out.push('-');
            push_literal(high, &mut self.out);
        }
        if members == 0 {
            return Err(invalid("brackets [] not balanced"));
        }
        self.out.push(']');
        Ok(Atom::Matches(Preference::None))
    }

    /// One member of a bracket expression: a character, or `None` for a class, which is written at once.
    fn bracket_member(&mut self) -> Result<Option<char>> {
        let Some(character) = self.next() else {
            return Err(invalid("brackets [] not balanced"));
        };
        match (character, self.peek()) {
            ('[', Some(kind @ (':' | '.' | '='))) => {
                self.at += 1;
                let name = self.delimited(kind)?;
                if kind == ':' {
                    let class = class_named(&name).ok_or_else(|| invalid("invalid character class"))?;
                    self.out.push_str(class);
                    return Ok(None);
                }
                let mut characters = name.chars();
                match (characters.next(), characters.next()) {
                    (Some(single), None) => Ok(Some(single)),
                    _ => {
                        collating_element(&name).map(Some).ok_or_else(|| invalid("invalid collating element"))
                    }
                }
            }
            ('\\', _) => {
                let Some(escaped) = self.next() else {
                    return Err(Self::bad_escape());
                };
                let class = match escaped {
                    'd' => "[:digit:]",
                    's' => "\\s",
                    'w' => "\\p{Alphabetic}\\p{N}_",
                    'D' => "[:^digit:]",
                    'S' => "\\S",
                    'W' => "[^\\p{Alphabetic}\\p{N}_]",
                    other => return Ok(Some(self.character_escape(other)?)),
                };
                self.out.push_str(class);
                Ok(None)
            }
            _ => Ok(Some(character)),
        }
    }

    /// The name in `[:name:]`, behind its opening.
    fn delimited(&mut self, kind: char) -> Result<String> {
        let mut name = String::new();
        loop {
            match self.next() {
                Some(c) if c == kind && self.peek() == Some(']') => {
                    self.at += 1;
                    return Ok(name);
                }
                Some(c) => name.push(c),
                None => return Err(invalid("brackets [] not balanced")),
            }
        }
    }
}

fn class_named(name: &str) -> Option<&'static str> {
    Some(match name {
        "alpha" => "\\p{Alphabetic}",
        "alnum" => "\\p{Alphabetic}\\p{N}",
        "digit" => "[:digit:]",
        "lower" => "\\p{Lowercase}",
        "upper" => "\\p{Uppercase}",
        "space" => "\\s",
        "blank" => "[:blank:]",
        "punct" => "[:punct:]",
        "cntrl" => "[:cntrl:]",
        "graph" => "[^\\s\\p{C}]",
        "print" => "[^\\p{C}]",
        "xdigit" => "[:xdigit:]",
        "ascii" => "[:ascii:]",
        "word" => "\\p{Alphabetic}\\p{N}_",
        _ => return None,
    })
}

/// The names of POSIX that are in use.
fn collating_element(name: &str) -> Option<char> {
    Some(match name {
        "NUL" => '\0',
        "tab" => '\t',
        "newline" => '\n',
        "carriage-return" => '\r',
        "space" => ' ',
        "hyphen" | "hyphen-minus" => '-',
        "period" | "full-stop" => '.',
        "slash" | "solidus" => '/',
        "backslash" | "reverse-solidus" => '\\',
        "left-square-bracket" => '[',
        "right-square-bracket" => ']',
        "circumflex" | "circumflex-accent" => '^',
        "underscore" | "low-line" => '_',
        _ => return None,
    })
}
