//! Time zones that a text describes by itself: POSIX's TZ rules, as PostgreSQL reads them (manual, appendix B.5).
//!
//! `STD offset [DST [offset] [, rule]]`, such as `EST5EDT`, `<+03>-03` or `CET-1CEST,M3.5.0,M10.5.0/3`. Offsets count
//! west of UTC. PostgreSQL takes any letters for the abbreviations, none at all too (`+02:00` is two hours west), where POSIX
//! and the library want three or more: the library gets names of ours and computes only when summer time is.

use jiff::tz::TimeZone as Iana;

/// The rule of a zone with summer time that does not give one: that of the United States.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";
/// A week, less an hour: the largest number of hours in an offset.
const HOURS_MAX: i32 = 167;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixZone {
    /// The whole text, in upper case: what SHOW prints.
    pub name: String,
    pub standard: Phase,
    pub summer: Option<Summer>,
}

/// Standard time or summer time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    pub abbreviation: String,
    pub seconds_east: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summer {
    pub phase: Phase,
    /// Has the offsets of both phases at the right times; its abbreviations mean nothing.
    pub zone: Iana,
}

/// Reads a rule; `None` if the text is none.
pub fn parse(text: &str) -> Option<PosixZone> {
    let name = text.to_ascii_uppercase();
    let (standard, rest) = abbreviation(&name)?;
    let (west, rest) = offset(rest)?;
    let standard = Phase { abbreviation: standard.to_owned(), seconds_east: -west };
    let summer = if rest.is_empty() { None } else { Some(summer(&standard, rest)?) };
    Some(PosixZone { standard, summer, name })
}

fn summer(standard: &Phase, text: &str) -> Option<Summer> {
    let (name, rest) = abbreviation(text)?;
    if name.is_empty() {
        return None;
    }
    let (seconds_east, rule) = match rest.as_bytes().first() {
        None | Some(b',' | b';') => (standard.seconds_east + 3600, rest),
        Some(_) => offset(rest).map(|(west, rest)| (-west, rest))?,
    };
    let rule = match rule.replace(';', ",") {
        rule if rule.is_empty() => DEFAULT_RULE.to_owned(),
        rule if rule.starts_with(',') => rule,
        _ => return None,
    };
    let zone = format!("STD{}DST{}{rule}", west_text(standard.seconds_east), west_text(seconds_east));
    Some(Summer {
        phase: Phase { abbreviation: name.to_owned(), seconds_east },
        zone: Iana::posix(&zone).ok()?,
    })
}

fn west_text(seconds_east: i32) -> String {
    let (sign, seconds) = (if seconds_east > 0 { '-' } else { '+' }, seconds_east.unsigned_abs());
    format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// An abbreviation and what follows: in angle brackets, or up to a digit, a sign or a comma.
fn abbreviation(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('<') {
        return quoted.split_once('>');
    }
    let end = text.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+')).unwrap_or(text.len());
    Some(text.split_at(end))
}

/// Seconds west of UTC (`[+-]hh[:mm[:ss]]`) and what follows.
fn offset(text: &str) -> Option<(i32, &str)> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (hours, mut rest) = number(text, HOURS_MAX)?;
    let mut seconds = hours * 3600;
    for unit in [60, 1] {
        let Some(more) = rest.strip_prefix(':') else { break };
        // A leap second is a second too.
        let (count, after) = number(more, if unit == 1 { 60 } else { 59 })?;
        seconds += count * unit;
        rest = after;
    }
    Some((sign * seconds, rest))
}

fn number(text: &str, max: i32) -> Option<(i32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let value = text[..end].parse().ok().filter(|value| *value <= max)?;
    Some((value, &text[end..]))
}
