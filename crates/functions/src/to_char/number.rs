//! to_char of numbers.
//!
//! A number is first written with as many decimals as the template has; the template's digit positions then walk
//! over those digits. Positions to the left of the number are blank (or 0 from the template's first 0 on), and a
//! number too long for the template becomes `#`.

use cairn_types::{Datum, Numeric, Result, bail};

use super::number_template::{Key, Node, SignPlace, Template};
use super::spell::ordinal_ending;
use super::template::Case;
use crate::integer::out_of_range;
use crate::{Args, Call};

/// A number ready for the template: digits with an optional point, sign apart.
struct Written {
    negative: bool,
    digits: String,
}

impl Written {
    fn new(text: &str) -> Self {
        match text.strip_prefix('-') {
            Some(digits) => Written { negative: true, digits: digits.to_owned() },
            None => Written { negative: false, digits: text.to_owned() },
        }
    }

    fn whole_length(&self) -> usize {
        self.digits.find('.').unwrap_or(self.digits.len())
    }
}

pub fn numeric_to_char(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    let (value, template) = (args.numeric(0)?, Template::parse(args.str(1)?)?);
    if args.str(1)?.is_empty() {
        return Ok(Datum::text(""));
    }
    if template.roman {
        let whole = value.round(0)?.to_i32()?;
        return fitted(template, Written::new(&roman(whole)));
    }
    if template.scientific {
        return Ok(Datum::text(numeric_scientific(value, &template)));
    }
    let (shifted, template) = shifted(value, template)?;
    let rounded = shifted.round(template.after as i32)?;
    fitted(template, Written::new(&rounded.to_string()))
}

/// Multiplies by 10 for each digit after `V`, which then count as digits before the point.
fn shifted(value: &Numeric, mut template: Template) -> Result<(Numeric, Template)> {
    if !template.has_shift {
        return Ok((value.clone(), template));
    }
    let power = Numeric::from(10).power(&Numeric::from(template.shift as i64))?;
    template.before += template.shift;
    Ok((value.mul(&power)?, template))
}

pub fn int4_to_char(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    integer_to_char(args.int4(0)?.into(), args.str(1)?)
}

pub fn int8_to_char(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    integer_to_char(args.int8(0)?, args.str(1)?)
}

fn integer_to_char(value: i64, text: &str) -> Result<Datum> {
    if text.is_empty() {
        return Ok(Datum::text(""));
    }
    let template = Template::parse(text)?;
    if template.roman {
        let whole = i32::try_from(value).map_err(|_| out_of_range("integer"))?;
        return fitted(template, Written::new(&roman(whole)));
    }
    if template.has_shift
        && 10i64.checked_pow(template.shift as u32).and_then(|power| value.checked_mul(power)).is_none()
    {
        return Err(out_of_range("bigint"));
    }
    let value = Numeric::from(value);
    if template.scientific {
        return Ok(Datum::text(numeric_scientific(&value, &template)));
    }
    let (shifted, template) = shifted(&value, template)?;
    let rounded = shifted.round(template.after as i32)?;
    fitted(template, Written::new(&rounded.to_string()))
}

pub fn float4_to_char(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    float_to_char(args.float4(0)?.into(), args.str(1)?, 6)
}

pub fn float8_to_char(_: &Call<'_>, args: &[Datum]) -> Result<Datum> {
    float_to_char(args.float8(0)?, args.str(1)?, 15)
}

/// `precision`: how many digits of the type mean something.
fn float_to_char(value: f64, text: &str, precision: usize) -> Result<Datum> {
    if text.is_empty() {
        return Ok(Datum::text(""));
    }
    let mut template = Template::parse(text)?;
    if template.roman {
        let rounded = value.round_ties_even();
        let whole = if rounded.abs() < 1e9 { rounded as i32 } else { i32::MAX };
        return fitted(template, Written::new(&roman(whole)));
    }
    if template.scientific {
        if !value.is_finite() {
            return Ok(Datum::text(scientific_overflow(&template)));
        }
        let text = format!("{value:.*e}", template.after);
        return Ok(Datum::text(c_exponent(&text)));
    }
    let mut value = value;
    if template.has_shift {
        value *= 10f64.powi(template.shift as i32);
        template.before += template.shift;
    }
    if !value.is_finite() {
        let text = if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        template.after = template.after.min(precision - text.trim_start_matches('-').len().min(precision));
        return fitted(template, Written::new(text));
    }
    let whole_digits = format!("{:.0}", value.abs()).len();
    if whole_digits >= precision {
        template.after = 0;
    } else if whole_digits + template.after > precision {
        template.after = precision - whole_digits;
    }
    let text = format!("{value:.*}", template.after);
    fitted(template, Written::new(&text))
}

/// What stands for NaN and infinities in scientific notation.
fn scientific_overflow(template: &Template) -> String {
    let mut text: Vec<char> = vec!['#'; template.before + template.after + 6];
    text[0] = ' ';
    if let Some(point) = text.get_mut(template.before + 1) {
        *point = '.';
    }
    text.into_iter().collect()
}

fn numeric_scientific(value: &Numeric, template: &Template) -> String {
    if !value.is_finite() {
        return scientific_overflow(template);
    }
    let text = value.abs().to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let whole = text.find('.').unwrap_or(text.len()) as i64;
    let first = digits.find(|c| c != '0');
    let mut exponent = first.map_or(0, |first| whole - 1 - first as i64);
    // The significant digits, rounded half up to the template's.
    let significant = first.map_or("0", |first| &digits[first..]);
    let keep = template.after + 1;
    let mut kept: Vec<u8> = significant.bytes().chain(std::iter::repeat(b'0')).take(keep).collect();
    if significant.as_bytes().get(keep).is_some_and(|digit| *digit >= b'5') {
        let mut at = keep;
        loop {
            if at == 0 {
                kept.insert(0, b'1');
                kept.pop();
                exponent += 1;
                break;
            }
            at -= 1;
            if kept[at] == b'9' {
                kept[at] = b'0';
            } else {
                kept[at] += 1;
                break;
            }
        }
    }
    let kept = String::from_utf8_lossy(&kept);
    let sign = if value.is_negative() { '-' } else { ' ' };
    let (head, tail) = kept.split_at(1);
    let point = if tail.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{head}{point}{tail}e{exponent_sign}{:02}", exponent.abs())
}

/// Rust's `1.5e3` as C's `%+e` with the plus blanked: ` 1.5e+03`.
fn c_exponent(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let lead = if mantissa.starts_with('-') { "" } else { " " };
    format!("{lead}{mantissa}e{sign}{:02}", exponent.abs())
}

/// 1 to 3999; anything else has no Roman numeral and is shown as `#`.
fn roman(value: i32) -> String {
    if !(1..=3999).contains(&value) {
        return "#".repeat(15);
    }
    const NUMERALS: [(i32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut rest = value;
    let mut text = String::new();
    for (size, numeral) in NUMERALS {
        while rest >= size {
            text.push_str(numeral);
            rest -= size;
        }
    }
    text
}

/// The template filled with a number; one too long for it is shown as `#`.
fn fitted(template: Template, written: Written) -> Result<Datum> {
    if template.roman {
        return Writer::new(template, written, 0).run().map(Datum::text);
    }
    let whole = written.whole_length();
    let blanks = template.before.saturating_sub(whole);
    let mut written = written;
    if whole > template.before {
        let mut overflow: Vec<char> = vec!['#'; template.before + template.after + 1];
        if let Some(point) = overflow.get_mut(template.before) {
            *point = '.';
        }
        written.digits = overflow.into_iter().collect();
    }
    Writer::new(template, written, blanks).run().map(Datum::text)
}

/// Walks the template's positions over a number's characters.
struct Writer {
    template: Template,
    negative: bool,
    number: Vec<char>,
    /// Next character of `number`.
    at: usize,
    /// Digit positions of the template passed so far.
    position: usize,
    /// Positions before the number's first digit.
    blanks: usize,
    /// How many positions there are, the sign's among them; -1 for a template without any.
    positions: i64,
    sign_done: bool,
    inside: bool,
    /// The number was shorter than the template (NaN, a float's missing digits): nothing follows, as in PostgreSQL.
    exhausted: bool,
    /// FM: the last character of `number` that is shown, trailing zeros left out.
    last: Option<usize>,
    zero_start: usize,
    out: String,
}

impl Writer {
    fn new(mut template: Template, written: Written, blanks: usize) -> Self {
        let number: Vec<char> = written.digits.chars().collect();
        let negative = written.negative;
        if template.roman {
            template.before = 0;
            template.after = 0;
        }
        let mut sign_done = false;
        if template.plus || template.minus {
            // MI and SG write a sign of their own; PL alone leaves a minus to the number.
            sign_done = template.minus;
        } else {
            if !negative && template.fill {
                template.brackets = false;
                sign_done = template.sign == SignPlace::None;
            }
            if template.sign == SignPlace::Before && template.before == template.before_sign {
                template.sign = SignPlace::After;
            }
        }
        let mut last = None;
        if template.fill && template.has_point {
            last = number
                .iter()
                .position(|c| *c == '.')
                .map(|point| number.iter().rposition(|c| *c != '0').map_or(point, |end| end.max(point)));
            // Digits that a 0 demands stay.
            if let Some(end) = last
                && template.zero_end > blanks
                && !number.is_empty()
            {
                last = Some(end.max((template.zero_end - blanks).min(number.len() - 1)));
            }
        }
        let mut positions = (template.after + template.before) as i64 - 1;
        if !sign_done && blanks == 0 {
            positions += 1;
        }
        let zero_start = template.zero_start.saturating_sub(1);
        Writer {
            template,
            negative,
            number,
            at: 0,
            position: 0,
            blanks,
            positions,
            sign_done,
            inside: false,
            exhausted: false,
            last,
            zero_start,
            out: String::new(),
        }
    }

    fn run(mut self) -> Result<String> {
        let nodes = std::mem::take(&mut self.template.nodes);
        for node in nodes {
            if self.exhausted {
                break;
            }
            match node {
                Node::Text(c) => self.out.push(c),
                Node::Key(key) => self.key(key)?,
            }
        }
        Ok(self.out)
    }

    fn key(&mut self, key: Key) -> Result<()> {
        match key {
            Key::Nine | Key::Zero | Key::Point => self.digit(key),
            Key::Group => {
                if self.inside {
                    self.out.push(',');
                } else if !self.template.fill {
                    self.out.push(' ');
                }
            }
            // The C locale has no currency symbol: a blank stands for it.
            Key::Currency => self.out.push(' '),
            Key::Roman { upper } => {
                let text: String = self.number.iter().collect();
                let text = if upper { text } else { text.to_lowercase() };
                if self.template.fill {
                    self.out.push_str(&text);
                } else {
                    self.out.push_str(&format!("{text:>15}"));
                }
            }
            Key::Ordinal { upper } => {
                let overflowed = self.number.first() == Some(&'#');
                if !self.template.roman && !overflowed && !self.negative && !self.template.has_point {
                    let text: String = self.number.iter().collect();
                    if !text.ends_with(|c: char| c.is_ascii_digit()) {
                        bail!(INVALID_TEXT_REPRESENTATION, "\"{text}\" is not a number");
                    }
                    let case = if upper { Case::Upper } else { Case::Lower };
                    self.out.push_str(ordinal_ending(&text, case));
                }
            }
            Key::Minus => self.own_sign(self.negative, '-'),
            Key::Plus => self.own_sign(!self.negative, '+'),
            Key::SignHere => self.out.push(self.sign_char()),
            Key::Nothing
            | Key::Blank
            | Key::Scientific
            | Key::Fill
            | Key::Sign
            | Key::Brackets
            | Key::Shift => {}
        }
        Ok(())
    }

    fn sign_char(&self) -> char {
        if self.negative { '-' } else { '+' }
    }

    fn own_sign(&mut self, shown: bool, sign: char) {
        if shown {
            self.out.push(sign);
        } else if !self.template.fill {
            self.out.push(' ');
        }
    }

    /// The number has begun with a lone 0 before the point, which 9 does not show.
    fn at_hidden_zero(&self) -> bool {
        !self.template.has_zero
            && self.at == 0
            && self.number.first() == Some(&'0')
            && self.template.after != 0
    }

    fn last_is_point(&self) -> bool {
        self.last.is_some_and(|last| self.number.get(last) == Some(&'.'))
    }

    fn digit(&mut self, key: Key) {
        if self.template.roman {
            return;
        }
        self.inside = false;
        let in_zeros = self.template.has_zero && self.zero_start <= self.position;
        let at_number = self.position >= self.blanks;
        let starts = at_number || (self.template.has_zero && self.zero_start == self.position);
        if !self.sign_done && starts && (!self.at_hidden_zero() || self.last_is_point()) {
            self.leading_sign();
        }
        if !at_number && !in_zeros {
            if !self.template.fill {
                self.out.push(' ');
            }
        } else if !at_number {
            self.out.push('0');
            self.inside = true;
        } else {
            self.number_char(key);
        }
        if !self.exhausted {
            self.trailing_sign();
        }
        self.position += 1;
    }

    fn leading_sign(&mut self) {
        match self.template.sign {
            SignPlace::Before => {
                self.out.push(self.sign_char());
                self.sign_done = true;
            }
            SignPlace::After => {}
            SignPlace::None => {
                if self.template.brackets {
                    self.out.push(if self.negative { '<' } else { ' ' });
                } else if self.negative {
                    self.out.push('-');
                } else if !self.template.fill {
                    self.out.push(' ');
                }
                self.sign_done = true;
            }
        }
    }

    fn number_char(&mut self, key: Key) {
        let Some(&c) = self.number.get(self.at) else {
            self.exhausted = self.last.is_none() || key == Key::Zero;
            return;
        };
        if c == '.' {
            // FM with nothing after the point still shows the point.
            if !self.last_is_point() || self.template.fill {
                self.out.push('.');
            }
        } else if self.last.is_some_and(|last| self.at > last) && key != Key::Zero {
            // A trailing zero that FM drops.
        } else if self.at_hidden_zero() {
            if !self.template.fill {
                self.out.push(' ');
            } else if self.last_is_point() {
                self.out.push('0');
            }
        } else {
            self.out.push(c);
            self.inside = true;
        }
        self.at += 1;
    }

    fn trailing_sign(&mut self) {
        let mut end = self.positions + i64::from(self.blanks > 0) + i64::from(self.template.has_point);
        if self.last.is_some_and(|last| last == self.at) {
            end = self.position as i64;
        }
        if self.position as i64 + 1 != end {
            return;
        }
        if self.sign_done && self.template.brackets {
            self.out.push(if self.negative { '>' } else { ' ' });
        } else if self.template.sign == SignPlace::After {
            self.out.push(self.sign_char());
        }
    }
}
