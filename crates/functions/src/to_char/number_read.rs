//! to_number: reading text by a numeric template.
//!
//! Every digit position takes a digit if one is there; signs are looked for before the first digit and behind the
//! last; other patterns and text skip characters that cannot belong to a number.

use std::sync::Arc;

use cairn_types::{Datum, Numeric, Result, bail};

use super::number_template::{Key, Node, SignPlace, Template};
use crate::{Args, Call};

pub fn to_number(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (text, format) = (args.str(0)?, args.str(1)?);
    if format.is_empty() {
        return Ok(Datum::Null);
    }
    let template = Template::parse(format)?;
    if template.scientific {
        bail!(FEATURE_NOT_SUPPORTED, "\"EEEE\" not supported for input");
    }
    if template.roman {
        bail!(FEATURE_NOT_SUPPORTED, "\"RN\" not supported for input");
    }
    let mut reader = Reader {
        input: text.chars().collect(),
        at: 0,
        template: &template,
        sign: ' ',
        digits: String::new(),
        before: 0,
        after: 0,
        has_point: false,
        just_read: false,
    };
    reader.run();
    let after = reader.after;
    let number = Numeric::parse(&format!("{}{}", reader.sign, reader.digits.trim_end_matches('.')))?;
    // The value has as many decimals as were read.
    let precision = (template.before + template.shift + after).clamp(1, 1000) as i32;
    let number = number.apply_typmod(((precision << 16) | after.min(1000) as i32) + 4)?;
    let number = if template.has_shift {
        let power = Numeric::from(10).power(&Numeric::from(-(template.shift as i64)))?;
        number.mul(&power)?
    } else {
        number
    };
    Ok(Datum::Numeric(Arc::new(number)))
}

struct Reader<'a> {
    input: Vec<char>,
    at: usize,
    template: &'a Template,
    /// `-`, `+`, or a blank while none was read.
    sign: char,
    digits: String,
    before: usize,
    after: usize,
    has_point: bool,
    just_read: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.input.get(self.at).copied()
    }

    fn run(&mut self) {
        for node in &self.template.nodes {
            if self.at >= self.input.len() {
                break;
            }
            match node {
                Node::Text(_) => self.at += 1,
                Node::Key(key) => self.key(*key),
            }
        }
    }

    /// Skips up to so many characters that cannot belong to a number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            match self.peek() {
                None | Some('0'..='9' | '.' | ',' | '+' | '-') => return,
                Some(_) => self.at += 1,
            }
        }
    }

    fn key(&mut self, key: Key) {
        match key {
            Key::Nine | Key::Zero | Key::Point => {
                self.digit(key);
                self.at += 1;
            }
            Key::Group => {
                if !self.template.fill && self.peek() == Some(',') {
                    self.at += 1;
                }
            }
            Key::Currency => self.skip_other(1),
            Key::Ordinal { .. } => self.skip_other(2),
            Key::Minus => self.own_sign(&['-']),
            Key::Plus => self.own_sign(&['+']),
            Key::SignHere => self.own_sign(&['-', '+']),
            Key::Nothing
            | Key::Blank
            | Key::Fill
            | Key::Sign
            | Key::Brackets
            | Key::Shift
            | Key::Scientific
            | Key::Roman { .. } => {}
        }
    }

    fn own_sign(&mut self, signs: &[char]) {
        match self.peek() {
            Some(c) if signs.contains(&c) => {
                self.sign = c;
                self.at += 1;
            }
            _ => self.skip_other(1),
        }
    }

    /// Leaves `at` on the last character that was used; the caller steps over it. So a position that finds nothing
    /// steps back first.
    fn digit(&mut self, key: Key) {
        if self.peek() == Some(' ') {
            self.at += 1;
        }
        let Some(first) = self.peek() else { return };
        if self.sign == ' ' && key != Key::Point && self.before + self.after == 0 {
            match first {
                '-' | '+' => {
                    self.sign = first;
                    self.at += 1;
                }
                '<' if self.template.brackets => {
                    self.sign = '-';
                    self.at += 1;
                }
                _ => {}
            }
        }
        let Some(c) = self.peek() else { return };
        self.just_read = false;
        if c.is_ascii_digit() {
            if self.has_point && self.after == self.template.after {
                return;
            }
            self.digits.push(c);
            if self.has_point {
                self.after += 1;
            } else {
                self.before += 1;
            }
            self.just_read = true;
        } else if self.template.has_point && !self.has_point && c == '.' {
            self.digits.push('.');
            self.has_point = true;
            self.just_read = true;
        }
        if self.sign == ' ' && self.before + self.after > 0 {
            self.sign_behind();
        }
    }

    /// A sign behind the number's last digit.
    fn sign_behind(&mut self) {
        let next = self.input.get(self.at + 1).copied();
        if self.template.sign != SignPlace::None {
            if self.just_read
                && let Some(sign @ ('-' | '+')) = next
            {
                self.sign = sign;
                self.at += 1;
            }
        } else if !self.just_read
            && (self.template.plus || self.template.minus)
            && let Some(sign @ ('-' | '+')) = self.peek()
        {
            self.sign = sign;
        }
    }
}
