//! Splits date and time text into fields, before anyone knows what they mean.

/// One field. Words are lower-cased; numbers keep their text, because their length matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Digits, perhaps with a decimal point.
    Number(String),
    /// Digits or words joined by `-`, `/` or `.`; a zone name with such marks too.
    Date(String),
    /// Digits with colons.
    Time(String),
    /// A sign, then digits: an offset from UTC, or a signed number of an interval.
    Offset(String),
    Word(String),
    /// A sign, then letters: `-infinity`.
    SignedWord(String),
}

/// More fields than any valid value has: beyond it the text is refused.
const MAX_FIELDS: usize = 25;

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    field: String,
}

impl Scanner<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Moves the current byte into the field, lower-cased.
    fn take(&mut self) {
        self.field.push(self.peek().to_ascii_lowercase() as char);
        self.at += 1;
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.at < self.bytes.len() && accept(self.peek()) {
            self.take();
        }
    }

    fn end(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

/// The fields of a text; `None` if a character can start no field, or there are too many.
/// `is_known_word` tells words of the date language from zone names such as `gmt+8`.
pub fn split(text: &str, is_known_word: impl Fn(&str) -> bool) -> Option<Vec<Field>> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, field: String::new() };
    let mut fields = Vec::new();
    while !scanner.end() {
        scanner.field = String::new();
        let first = scanner.peek();
        if first.is_ascii_whitespace() {
            scanner.at += 1;
            continue;
        }
        let field = if first.is_ascii_digit() {
            from_digit(&mut scanner)
        } else if first == b'.' {
            scanner.take();
            scanner.take_while(|c| c.is_ascii_digit());
            Field::Number(std::mem::take(&mut scanner.field))
        } else if first.is_ascii_alphabetic() {
            from_letter(&mut scanner, &is_known_word)
        } else if first == b'+' || first == b'-' {
            scanner.take();
            while scanner.peek().is_ascii_whitespace() {
                scanner.at += 1;
            }
            if scanner.peek().is_ascii_digit() {
                scanner.take();
                scanner.take_while(|c| c.is_ascii_digit() || matches!(c, b':' | b'.' | b'-'));
                Field::Offset(std::mem::take(&mut scanner.field))
            } else if scanner.peek().is_ascii_alphabetic() {
                scanner.take_while(|c| c.is_ascii_alphabetic());
                Field::SignedWord(std::mem::take(&mut scanner.field))
            } else {
                return None;
            }
        } else if first.is_ascii_punctuation() {
            scanner.at += 1;
            continue;
        } else {
            return None;
        };
        if fields.len() >= MAX_FIELDS {
            return None;
        }
        fields.push(field);
    }
    Some(fields)
}

fn from_digit(scanner: &mut Scanner<'_>) -> Field {
    let is_digit = |c: u8| c.is_ascii_digit();
    scanner.take_while(is_digit);
    let mark = scanner.peek();
    if mark == b':' {
        scanner.take_while(|c| is_digit(c) || c == b':' || c == b'.');
        return Field::Time(std::mem::take(&mut scanner.field));
    }
    if !matches!(mark, b'-' | b'/' | b'.') {
        return Field::Number(std::mem::take(&mut scanner.field));
    }
    scanner.take();
    if scanner.peek().is_ascii_digit() {
        // A single dot may be a decimal point; the same mark again makes it a date.
        let mut is_date = mark != b'.';
        scanner.take_while(is_digit);
        if scanner.peek() == mark {
            is_date = true;
            scanner.take_while(|c| is_digit(c) || c == mark);
        }
        let text = std::mem::take(&mut scanner.field);
        return if is_date { Field::Date(text) } else { Field::Number(text) };
    }
    if mark == b'.' && !scanner.peek().is_ascii_alphabetic() {
        return Field::Number(std::mem::take(&mut scanner.field));
    }
    scanner.take_while(|c| c.is_ascii_alphanumeric() || c == mark);
    Field::Date(std::mem::take(&mut scanner.field))
}

fn from_letter(scanner: &mut Scanner<'_>, is_known_word: &impl Fn(&str) -> bool) -> Field {
    scanner.take_while(|c| c.is_ascii_alphabetic());
    // A date that begins with a month (`jan-8-1999`), or a zone name (`america/new_york`, `gmt+8`).
    let joined = match scanner.peek() {
        b'-' | b'/' | b'.' => true,
        c if c == b'+' || c.is_ascii_digit() => !is_known_word(&scanner.field),
        _ => false,
    };
    if !joined {
        return Field::Word(std::mem::take(&mut scanner.field));
    }
    while !scanner.end() {
        let c = scanner.peek();
        if c == b'+'
            || c == b'-'
            || c == b'/'
            || c == b'_'
            || c == b'.'
            || c == b':'
            || c.is_ascii_alphanumeric()
        {
            scanner.take();
        } else {
            break;
        }
    }
    Field::Date(std::mem::take(&mut scanner.field))
}
