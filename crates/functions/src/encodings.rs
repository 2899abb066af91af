//! PostgreSQL's encodings by name and number (manual 24.3). Cairn itself speaks UTF8 only; the others are known so that
//! they can be named, and refused as what they are.

pub struct Encoding {
    pub name: &'static str,
    /// Bytes of a character at most.
    pub max_bytes: i32,
}

const fn encoding(name: &'static str, max_bytes: i32) -> Encoding {
    Encoding { name, max_bytes }
}

/// By number.
const ENCODINGS: [Encoding; 42] = [
    encoding("SQL_ASCII", 1),
    encoding("EUC_JP", 3),
    encoding("EUC_CN", 3),
    encoding("EUC_KR", 3),
    encoding("EUC_TW", 4),
    encoding("EUC_JIS_2004", 3),
    encoding("UTF8", 4),
    encoding("MULE_INTERNAL", 4),
    encoding("LATIN1", 1),
    encoding("LATIN2", 1),
    encoding("LATIN3", 1),
    encoding("LATIN4", 1),
    encoding("LATIN5", 1),
    encoding("LATIN6", 1),
    encoding("LATIN7", 1),
    encoding("LATIN8", 1),
    encoding("LATIN9", 1),
    encoding("LATIN10", 1),
    encoding("WIN1256", 1),
    encoding("WIN1258", 1),
    encoding("WIN866", 1),
    encoding("WIN874", 1),
    encoding("KOI8R", 1),
    encoding("WIN1251", 1),
    encoding("WIN1252", 1),
    encoding("ISO_8859_5", 1),
    encoding("ISO_8859_6", 1),
    encoding("ISO_8859_7", 1),
    encoding("ISO_8859_8", 1),
    encoding("WIN1250", 1),
    encoding("WIN1253", 1),
    encoding("WIN1254", 1),
    encoding("WIN1255", 1),
    encoding("WIN1257", 1),
    encoding("KOI8U", 1),
    encoding("SJIS", 2),
    encoding("BIG5", 2),
    encoding("GBK", 2),
    encoding("UHC", 2),
    encoding("GB18030", 4),
    encoding("JOHAB", 3),
    encoding("SHIFT_JIS_2004", 2),
];

/// Other names, plain (see [`number`]), and what they stand for.
const ALIASES: &[(&str, &str)] = &[
    ("abc", "WIN1258"),
    ("alt", "WIN866"),
    ("iso88591", "LATIN1"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("koi8", "KOI8R"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("unicode", "UTF8"),
    ("vscii", "WIN1258"),
    ("win", "WIN1251"),
    ("win932", "SJIS"),
    ("win936", "GBK"),
    ("win949", "UHC"),
    ("win950", "BIG5"),
    ("windows932", "SJIS"),
    ("windows936", "GBK"),
    ("windows949", "UHC"),
    ("windows950", "BIG5"),
];

pub fn by_number(number: i32) -> Option<&'static Encoding> {
    usize::try_from(number).ok().and_then(|number| ENCODINGS.get(number))
}

/// The number of a name or another name for it; case and punctuation do not count.
pub fn number(name: &str) -> Option<i32> {
    let plain = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let mut wanted = plain(name);
    if let Some((_, target)) = ALIASES.iter().find(|(alias, _)| *alias == wanted) {
        wanted = plain(target);
    } else if let Some(page) = wanted.strip_prefix("windows") {
        wanted = format!("win{page}");
    }
    ENCODINGS.iter().position(|encoding| plain(encoding.name) == wanted).map(|number| number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static str {
        number(name).and_then(by_number).map_or("", |encoding| encoding.name)
    }

    #[test]
    fn names_are_found_as_postgresql_finds_them() {
        for (name, found) in [
            ("utf-8", "UTF8"),
            ("Unicode", "UTF8"),
            ("sql_ascii", "SQL_ASCII"),
            ("ISO 8859-15", "LATIN9"),
            ("iso-8859-5", "ISO_8859_5"),
            ("windows-1252", "WIN1252"),
            ("windows949", "UHC"),
            ("", ""),
            ("latin11", ""),
        ] {
            assert_eq!(named(name), found, "{name}");
        }
        for (alias, target) in ALIASES {
            assert_eq!(named(alias), *target);
        }
    }
}
