//! Date and time templates (manual, tables 9.27 and 9.28), taken apart.

/// What a pattern stands for. Patterns that differ only in case share one; [`Case`] keeps the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Hour12,
    Hour24,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    /// FF1 to FF6: digits of the fraction.
    Fraction(u8),
    SecondsOfDay,
    Meridiem {
        dots: bool,
    },
    /// Y,YYY
    YearWithComma,
    /// YYYY, YYY, YY, Y: how many digits.
    Year(u8),
    /// IYYY, IYY, IY, I
    IsoYear(u8),
    Era {
        dots: bool,
    },
    MonthName,
    MonthAbbreviation,
    Month,
    DayName,
    DayAbbreviation,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    WeekOfMonth,
    Week,
    IsoWeek,
    Century,
    Julian,
    Quarter,
    RomanMonth,
    ZoneAbbreviation,
    ZoneHours,
    ZoneMinutes,
    ZoneOffset,
    /// FX: the input must match the template's spacing.
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Upper,
    Capital,
    Lower,
}

/// How a number is followed: `TH` and `th`, `SP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// FM: no padding.
    pub fill: bool,
    /// TM: names in the language of lc_time, which is English here; they are not padded.
    pub translate: bool,
    pub ordinal: Option<Case>,
    pub spelled: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    pub text: &'static str,
    pub field: Field,
    pub case: Case,
    pub modifiers: Modifiers,
    /// Its value begins with a digit, so that a number before it must not take more than its width.
    pub is_digit: bool,
}

#[derive(Clone, Debug)]
pub enum Node {
    Pattern(Pattern),
    /// Text that stands for itself.
    Text(char),
    /// A printable character that is neither letter nor digit: separates fields on input.
    Separator(char),
    Space(char),
}

macro_rules! patterns {
    ($($text:literal $field:expr, $case:ident, $is_digit:literal;)*) => {
        &[$(($text, $field, Case::$case, $is_digit)),*]
    };
}

/// In the order in which they are tried: longer ones before their beginnings.
const PATTERNS: &[(&str, Field, Case, bool)] = patterns! {
    "A.D." Field::Era { dots: true }, Upper, false;
    "A.M." Field::Meridiem { dots: true }, Upper, false;
    "AD" Field::Era { dots: false }, Upper, false;
    "AM" Field::Meridiem { dots: false }, Upper, false;
    "B.C." Field::Era { dots: true }, Upper, false;
    "BC" Field::Era { dots: false }, Upper, false;
    "CC" Field::Century, Upper, true;
    "DAY" Field::DayName, Upper, false;
    "DDD" Field::DayOfYear, Upper, true;
    "DD" Field::Day, Upper, true;
    "DY" Field::DayAbbreviation, Upper, false;
    "Day" Field::DayName, Capital, false;
    "Dy" Field::DayAbbreviation, Capital, false;
    "D" Field::DayOfWeek, Upper, true;
    "FF1" Field::Fraction(1), Upper, false;
    "FF2" Field::Fraction(2), Upper, false;
    "FF3" Field::Fraction(3), Upper, false;
    "FF4" Field::Fraction(4), Upper, false;
    "FF5" Field::Fraction(5), Upper, false;
    "FF6" Field::Fraction(6), Upper, false;
    "FX" Field::Fixed, Upper, false;
    "HH24" Field::Hour24, Upper, true;
    "HH12" Field::Hour12, Upper, true;
    "HH" Field::Hour12, Upper, true;
    "IDDD" Field::IsoDayOfYear, Upper, true;
    "ID" Field::IsoDayOfWeek, Upper, true;
    "IW" Field::IsoWeek, Upper, true;
    "IYYY" Field::IsoYear(4), Upper, true;
    "IYY" Field::IsoYear(3), Upper, true;
    "IY" Field::IsoYear(2), Upper, true;
    "I" Field::IsoYear(1), Upper, true;
    "J" Field::Julian, Upper, true;
    "MI" Field::Minute, Upper, true;
    "MM" Field::Month, Upper, true;
    "MONTH" Field::MonthName, Upper, false;
    "MON" Field::MonthAbbreviation, Upper, false;
    "MS" Field::Millisecond, Upper, true;
    "Month" Field::MonthName, Capital, false;
    "Mon" Field::MonthAbbreviation, Capital, false;
    "OF" Field::ZoneOffset, Upper, false;
    "P.M." Field::Meridiem { dots: true }, Upper, false;
    "PM" Field::Meridiem { dots: false }, Upper, false;
    "Q" Field::Quarter, Upper, true;
    "RM" Field::RomanMonth, Upper, false;
    "SSSSS" Field::SecondsOfDay, Upper, true;
    "SSSS" Field::SecondsOfDay, Upper, true;
    "SS" Field::Second, Upper, true;
    "TZH" Field::ZoneHours, Upper, false;
    "TZM" Field::ZoneMinutes, Upper, true;
    "TZ" Field::ZoneAbbreviation, Upper, false;
    "US" Field::Microsecond, Upper, true;
    "WW" Field::Week, Upper, true;
    "W" Field::WeekOfMonth, Upper, true;
    "Y,YYY" Field::YearWithComma, Upper, true;
    "YYYY" Field::Year(4), Upper, true;
    "YYY" Field::Year(3), Upper, true;
    "YY" Field::Year(2), Upper, true;
    "Y" Field::Year(1), Upper, true;
    "a.d." Field::Era { dots: true }, Lower, false;
    "a.m." Field::Meridiem { dots: true }, Lower, false;
    "ad" Field::Era { dots: false }, Lower, false;
    "am" Field::Meridiem { dots: false }, Lower, false;
    "b.c." Field::Era { dots: true }, Lower, false;
    "bc" Field::Era { dots: false }, Lower, false;
    "cc" Field::Century, Lower, true;
    "day" Field::DayName, Lower, false;
    "ddd" Field::DayOfYear, Lower, true;
    "dd" Field::Day, Lower, true;
    "dy" Field::DayAbbreviation, Lower, false;
    "d" Field::DayOfWeek, Lower, true;
    "ff1" Field::Fraction(1), Lower, false;
    "ff2" Field::Fraction(2), Lower, false;
    "ff3" Field::Fraction(3), Lower, false;
    "ff4" Field::Fraction(4), Lower, false;
    "ff5" Field::Fraction(5), Lower, false;
    "ff6" Field::Fraction(6), Lower, false;
    "fx" Field::Fixed, Lower, false;
    "hh24" Field::Hour24, Lower, true;
    "hh12" Field::Hour12, Lower, true;
    "hh" Field::Hour12, Lower, true;
    "iddd" Field::IsoDayOfYear, Lower, true;
    "id" Field::IsoDayOfWeek, Lower, true;
    "iw" Field::IsoWeek, Lower, true;
    "iyyy" Field::IsoYear(4), Lower, true;
    "iyy" Field::IsoYear(3), Lower, true;
    "iy" Field::IsoYear(2), Lower, true;
    "i" Field::IsoYear(1), Lower, true;
    "j" Field::Julian, Lower, true;
    "mi" Field::Minute, Lower, true;
    "mm" Field::Month, Lower, true;
    "month" Field::MonthName, Lower, false;
    "mon" Field::MonthAbbreviation, Lower, false;
    "ms" Field::Millisecond, Lower, true;
    "of" Field::ZoneOffset, Lower, false;
    "p.m." Field::Meridiem { dots: true }, Lower, false;
    "pm" Field::Meridiem { dots: false }, Lower, false;
    "q" Field::Quarter, Lower, true;
    "rm" Field::RomanMonth, Lower, false;
    "sssss" Field::SecondsOfDay, Lower, true;
    "ssss" Field::SecondsOfDay, Lower, true;
    "ss" Field::Second, Lower, true;
    "tzh" Field::ZoneHours, Lower, false;
    "tzm" Field::ZoneMinutes, Lower, true;
    "tz" Field::ZoneAbbreviation, Lower, false;
    "us" Field::Microsecond, Lower, true;
    "ww" Field::Week, Lower, true;
    "w" Field::WeekOfMonth, Lower, true;
    "y,yyy" Field::YearWithComma, Lower, true;
    "yyyy" Field::Year(4), Lower, true;
    "yyy" Field::Year(3), Lower, true;
    "yy" Field::Year(2), Lower, true;
    "y" Field::Year(1), Lower, true;
};

pub fn is_separator(c: char) -> bool {
    c.is_ascii_graphic() && !c.is_ascii_alphanumeric()
}

/// Parses a template. Nothing is an error: what is no pattern stands for itself.
pub fn parse(template: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let mut modifiers = Modifiers::default();
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            modifiers.fill = true;
            rest = after;
        } else if let Some(after) = rest.strip_prefix("TM").or_else(|| rest.strip_prefix("tm")) {
            modifiers.translate = true;
            rest = after;
        }
        if let Some((text, field, case, is_digit)) = PATTERNS.iter().find(|(text, ..)| rest.starts_with(text))
        {
            rest = &rest[text.len()..];
            for (suffix, apply) in SUFFIXES {
                if let Some(after) = rest.strip_prefix(suffix) {
                    apply(&mut modifiers);
                    rest = after;
                    break;
                }
            }
            nodes.push(Node::Pattern(Pattern {
                text,
                field: *field,
                case: *case,
                modifiers,
                is_digit: *is_digit,
            }));
            continue;
        }
        let Some(c) = rest.chars().next() else { break };
        if c == '"' {
            rest = quoted(&rest[1..], &mut nodes);
            continue;
        }
        // Outside quotes a backslash only escapes a quote.
        let c = if rest.starts_with("\\\"") {
            rest = &rest[1..];
            '"'
        } else {
            c
        };
        rest = &rest[c.len_utf8()..];
        nodes.push(if is_separator(c) {
            Node::Separator(c)
        } else if c.is_ascii_whitespace() {
            Node::Space(c)
        } else {
            Node::Text(c)
        });
    }
    nodes
}

type ApplySuffix = fn(&mut Modifiers);

const SUFFIXES: [(&str, ApplySuffix); 3] = [
    ("TH", |modifiers| modifiers.ordinal = Some(Case::Upper)),
    ("th", |modifiers| modifiers.ordinal = Some(Case::Lower)),
    ("SP", |modifiers| modifiers.spelled = true),
];

/// Text up to the closing quote; a backslash escapes any character. Returns what follows.
fn quoted<'a>(text: &'a str, nodes: &mut Vec<Node>) -> &'a str {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return &text[at + 1..],
            '\\' => match chars.next() {
                Some((_, escaped)) => nodes.push(Node::Text(escaped)),
                None => nodes.push(Node::Text('\\')),
            },
            c => nodes.push(Node::Text(c)),
        }
    }
    ""
}
