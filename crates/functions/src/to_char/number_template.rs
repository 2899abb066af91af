//! Numeric templates (manual, tables 9.29 and 9.30), taken apart and checked.

use cairn_types::{Error, Result, err};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `9`: a digit, blank if it is a leading zero.
    Nine,
    /// `0`: a digit.
    Zero,
    /// `.` and `D`
    Point,
    /// `,` and `G`
    Group,
    Currency,
    /// `C`: read and without effect.
    Nothing,
    Blank,
    Scientific,
    Fill,
    Minus,
    Plus,
    /// `SG`
    SignHere,
    /// `S`: a sign next to the number.
    Sign,
    /// `PR`: negative numbers in angle brackets.
    Brackets,
    Roman {
        upper: bool,
    },
    Ordinal {
        upper: bool,
    },
    /// `V`: shifts by so many digits as follow.
    Shift,
}

#[derive(Clone, Debug)]
pub enum Node {
    Key(Key),
    Text(char),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignPlace {
    #[default]
    None,
    Before,
    After,
}

/// A template and what it says as a whole.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pub nodes: Vec<Node>,
    /// Digits before and after the point.
    pub before: usize,
    pub after: usize,
    /// Digits after `V`.
    pub shift: usize,
    /// Where zeros begin (from 1; 0: nowhere) and end.
    pub zero_start: usize,
    pub zero_end: usize,
    pub sign: SignPlace,
    /// Digits before `S`.
    pub before_sign: usize,
    pub has_zero: bool,
    pub has_point: bool,
    pub has_shift: bool,
    pub fill: bool,
    pub plus: bool,
    pub minus: bool,
    pub brackets: bool,
    pub roman: bool,
    pub scientific: bool,
    blank: bool,
}

const KEYS: &[(&str, Key)] = &[
    (",", Key::Group),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("C", Key::Nothing),
    ("D", Key::Point),
    ("EEEE", Key::Scientific),
    ("FM", Key::Fill),
    ("G", Key::Group),
    ("L", Key::Currency),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Brackets),
    ("RN", Key::Roman { upper: true }),
    ("SG", Key::SignHere),
    ("SP", Key::Blank),
    ("S", Key::Sign),
    ("TH", Key::Ordinal { upper: true }),
    ("V", Key::Shift),
    ("b", Key::Blank),
    ("c", Key::Nothing),
    ("d", Key::Point),
    ("eeee", Key::Scientific),
    ("fm", Key::Fill),
    ("g", Key::Group),
    ("l", Key::Currency),
    ("mi", Key::Minus),
    ("pl", Key::Plus),
    ("pr", Key::Brackets),
    ("rn", Key::Roman { upper: false }),
    ("sg", Key::SignHere),
    ("sp", Key::Blank),
    ("s", Key::Sign),
    ("th", Key::Ordinal { upper: false }),
    ("v", Key::Shift),
];

fn conflict(message: &str) -> Error {
    err!(SYNTAX_ERROR, "{message}")
}

impl Template {
    /// Errors: 42601 for patterns that cannot stand together.
    pub fn parse(text: &str) -> Result<Template> {
        let mut template = Template::default();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((name, key)) = KEYS.iter().find(|(name, _)| rest.starts_with(name)) {
                rest = &rest[name.len()..];
                // `SP` has no meaning for numbers, but is read as one pattern.
                if !name.eq_ignore_ascii_case("sp") {
                    template.note(*key)?;
                    template.nodes.push(Node::Key(*key));
                }
                continue;
            }
            let mut chars = rest.chars();
            let Some(c) = chars.next() else { break };
            rest = chars.as_str();
            if c == '"' {
                rest = template.quoted(rest);
            } else if c == '\\' && rest.starts_with('"') {
                rest = &rest[1..];
                template.nodes.push(Node::Text('"'));
            } else {
                template.nodes.push(Node::Text(c));
            }
        }
        Ok(template)
    }

    fn quoted<'a>(&mut self, text: &'a str) -> &'a str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => self.nodes.push(Node::Text(chars.next().unwrap_or('\\'))),
                c => self.nodes.push(Node::Text(c)),
            }
        }
        chars.as_str()
    }

    fn note(&mut self, key: Key) -> Result<()> {
        if self.scientific && key != Key::Scientific {
            return Err(conflict("\"EEEE\" must be the last pattern used"));
        }
        let other_sign = self.plus || self.minus || self.brackets;
        match key {
            Key::Nine => {
                if self.brackets {
                    return Err(conflict("\"9\" must be ahead of \"PR\""));
                }
                self.count_digit();
            }
            Key::Zero => {
                if self.brackets {
                    return Err(conflict("\"0\" must be ahead of \"PR\""));
                }
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = self.before + 1;
                }
                if self.has_point {
                    self.after += 1;
                } else {
                    self.before += 1;
                }
                self.zero_end = self.before + self.after;
            }
            Key::Blank => {
                if self.before == 0 && self.after == 0 && !self.has_zero {
                    self.blank = true;
                }
            }
            Key::Point => {
                if self.has_point {
                    return Err(conflict("multiple decimal points"));
                }
                if self.has_shift {
                    return Err(conflict("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
            }
            Key::Fill => self.fill = true,
            Key::Sign => {
                if self.sign != SignPlace::None {
                    return Err(conflict("cannot use \"S\" twice"));
                }
                if other_sign {
                    return Err(conflict("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                if self.has_point {
                    self.sign = SignPlace::After;
                } else {
                    self.sign = SignPlace::Before;
                    self.before_sign = self.before;
                }
            }
            Key::Minus => {
                self.no_s("MI")?;
                self.minus = true;
            }
            Key::Plus => {
                self.no_s("PL")?;
                self.plus = true;
            }
            Key::SignHere => {
                self.no_s("SG")?;
                self.minus = true;
                self.plus = true;
            }
            Key::Brackets => {
                if self.sign != SignPlace::None || self.plus || self.minus {
                    return Err(conflict("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.brackets = true;
            }
            Key::Roman { .. } => self.roman = true,
            Key::Shift => {
                if self.has_point {
                    return Err(conflict("cannot use \"V\" and decimal point together"));
                }
                self.has_shift = true;
            }
            Key::Scientific => {
                if self.scientific {
                    return Err(conflict("cannot use \"EEEE\" twice"));
                }
                if self.blank
                    || self.fill
                    || self.sign != SignPlace::None
                    || other_sign
                    || self.roman
                    || self.has_shift
                {
                    return Err(conflict("\"EEEE\" is incompatible with other formats").detail(
                        "\"EEEE\" may only be used together with digit and decimal point patterns.",
                    ));
                }
                self.scientific = true;
            }
            Key::Group | Key::Currency | Key::Nothing | Key::Ordinal { .. } => {}
        }
        Ok(())
    }

    fn no_s(&self, name: &str) -> Result<()> {
        if self.sign != SignPlace::None {
            return Err(conflict(&format!("cannot use \"S\" and \"{name}\" together")));
        }
        Ok(())
    }

    fn count_digit(&mut self) {
        if self.has_shift {
            self.shift += 1;
        } else if self.has_point {
            self.after += 1;
        } else {
            self.before += 1;
        }
    }
}
