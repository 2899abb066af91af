//! Quoted literals: when their text can be read once, at analysis, and when only as the statement runs.

use cairn_catalog::TypeKind;
use cairn_types::{Datum, Oid, Result, types};

use super::Analyzer;

impl Analyzer<'_> {
    /// Reads a literal with a type's input. `None`: the result would depend on the session's settings or the clock
    /// ('now', a time without a zone), so that the text has to be kept. Errors: the input's own.
    pub(crate) fn read_literal(&self, text: &str, ty: Oid, typmod: i32) -> Result<Option<Datum>> {
        let same_always = self.reads_the_same_always(text, ty);
        // Also what is read again later is read now: what is wrong with it should be said with its position.
        let value = if same_always || self.can_be_read(ty) {
            cairn_types::io::input(text, ty, typmod, self.context.env)?
        } else {
            Datum::Null
        };
        Ok(same_always.then_some(value))
    }

    /// Whether the type's input needs nothing but the session and the catalog.
    fn can_be_read(&self, ty: Oid) -> bool {
        let element = self.lookup.array_element(ty);
        let of_catalog = |ty| matches!(self.lookup.kind(ty), Some(TypeKind::Composite | TypeKind::Domain));
        of_catalog(ty)
            || element != 0 && of_catalog(element)
            || matches!(
                ty,
                types::DATE
                    | types::TIMESTAMP
                    | types::TIMESTAMPTZ
                    | types::TIME
                    | types::TIMETZ
                    | types::INTERVAL
            )
    }

    fn reads_the_same_always(&self, text: &str, ty: Oid) -> bool {
        match ty {
            types::DATE => is_iso_date(text),
            types::TIMESTAMP => is_iso_timestamp(text) == Some(false),
            types::TIMESTAMPTZ => is_iso_timestamp(text) == Some(true),
            types::TIME => {
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'))
            }
            types::TIMETZ => false,
            // A sign's reach depends on intervalstyle.
            types::INTERVAL => !text.trim_start().starts_with('-'),
            types::RECORD | types::MONEY => false,
            _ => match self.lookup.kind(ty) {
                Some(TypeKind::Composite | TypeKind::Domain | TypeKind::Range | TypeKind::Multirange) => {
                    false
                }
                Some(TypeKind::Pseudo) => matches!(ty, types::CSTRING | types::VOID),
                _ => {
                    let element = self.lookup.array_element(ty);
                    if element == 0 {
                        return true;
                    }
                    // An array reads as its elements do; braces and quotes hide them, so only ask about the type.
                    !matches!(
                        element,
                        types::DATE
                            | types::TIMESTAMP
                            | types::TIMESTAMPTZ
                            | types::TIME
                            | types::TIMETZ
                            | types::INTERVAL
                            | types::RECORD
                            | types::MONEY
                    ) && self.reads_the_same_always("", element)
                }
            },
        }
    }
}

fn digits(text: &[u8], positions: std::ops::Range<usize>) -> bool {
    text.get(positions).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
}

/// `yyyy-mm-dd`: means one day whatever datestyle says.
fn is_iso_date(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() == 10 && digits(b, 0..4) && b[4] == b'-' && digits(b, 5..7) && b[7] == b'-' && digits(b, 8..10)
}

/// `yyyy-mm-dd hh:mm[:ss[.f]][zone]`: whether it has a zone (Z or a numeric offset); `None` for any other form.
fn is_iso_timestamp(text: &str) -> Option<bool> {
    if is_iso_date(text) {
        return Some(false);
    }
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    if !is_iso_date(date) || !rest.starts_with([' ', 'T']) {
        return None;
    }
    let time = &rest[1..];
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let plain = !clock.is_empty() && clock.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
    if !plain {
        return None;
    }
    match zone {
        "" => Some(false),
        "Z" => Some(true),
        _ if zone[1..].bytes().all(|b| b.is_ascii_digit() || b == b':') && zone.len() > 2 => Some(true),
        _ => None,
    }
}
