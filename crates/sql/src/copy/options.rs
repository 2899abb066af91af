//! The options of COPY (manual, COPY): read, checked against each other, given their defaults.

use cairn_types::{Error, Result, err};
use pg_query::protobuf::{DefElem, Node, node::Node as NodeEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    Text,
    Csv,
    Binary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    None,
    /// COPY TO writes one, COPY FROM skips it.
    Present,
    /// COPY FROM compares it with the column names.
    Match,
}

/// Which columns an option is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    None,
    All,
    Named(Vec<String>),
}

impl Columns {
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Columns::None => false,
            Columns::All => true,
            Columns::Named(names) => names.iter().any(|one| one == name),
        }
    }

    pub fn names(&self) -> &[String] {
        match self {
            Columns::Named(names) => names,
            Columns::None | Columns::All => &[],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub freeze: bool,
    pub delimiter: u8,
    pub null: String,
    pub header: Header,
    pub quote: u8,
    pub escape: u8,
    pub force_quote: Columns,
    pub force_not_null: Columns,
    pub force_null: Columns,
}

fn text(element: &DefElem) -> Result<String> {
    match element.arg.as_ref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::String(value)) => Ok(value.sval.clone()),
        Some(NodeEnum::Integer(value)) => Ok(value.ival.to_string()),
        Some(NodeEnum::Boolean(value)) => Ok(if value.boolval { "true" } else { "false" }.to_owned()),
        Some(NodeEnum::Float(value)) => Ok(value.fval.clone()),
        Some(NodeEnum::TypeName(name)) => Ok(crate::nodes::strings(&name.names).join(".")),
        _ => Err(err!(SYNTAX_ERROR, "{} requires a parameter", element.defname)),
    }
}

fn boolean(element: &DefElem) -> Result<bool> {
    if element.arg.is_none() {
        return Ok(true);
    }
    crate::settings::value::parse_bool(&text(element)?)
        .ok_or_else(|| err!(SYNTAX_ERROR, "{} requires a Boolean value", element.defname))
}

fn columns(element: &DefElem, what: &str) -> Result<Columns> {
    match element.arg.as_ref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::AStar(_)) if what == "force_quote" => Ok(Columns::All),
        Some(NodeEnum::List(list)) => Ok(Columns::Named(crate::nodes::strings(&list.items))),
        _ => {
            Err(err!(INVALID_PARAMETER_VALUE, "argument to option \"{what}\" must be a list of column names")
                .at(element.location))
        }
    }
}

impl CopyOptions {
    /// Reads the option list of a COPY statement; `from`: COPY FROM.
    pub fn parse(nodes: &[Node], from: bool) -> Result<CopyOptions> {
        let mut seen: Vec<&str> = Vec::new();
        let mut format = CopyFormat::Text;
        let (mut freeze, mut header) = (false, Header::None);
        let (mut delimiter, mut null, mut quote, mut escape) = (None, None, None, None);
        let (mut force_quote, mut force_not_null, mut force_null) =
            (Columns::None, Columns::None, Columns::None);
        for node in nodes {
            let Some(NodeEnum::DefElem(element)) = &node.node else { continue };
            let name = element.defname.as_str();
            if seen.contains(&name) {
                return Err(err!(SYNTAX_ERROR, "conflicting or redundant options").at(element.location));
            }
            seen.push(name);
            match name {
                "format" => {
                    format = match text(element)?.as_str() {
                        "text" => CopyFormat::Text,
                        "csv" => CopyFormat::Csv,
                        "binary" => CopyFormat::Binary,
                        other => {
                            return Err(err!(
                                INVALID_PARAMETER_VALUE,
                                "COPY format \"{other}\" not recognized"
                            )
                            .at(element.location));
                        }
                    }
                }
                "freeze" => freeze = boolean(element)?,
                "delimiter" => delimiter = Some(text(element)?),
                "null" => null = Some(text(element)?),
                "header" => header = read_header(element, from)?,
                "quote" => quote = Some(text(element)?),
                "escape" => escape = Some(text(element)?),
                "force_quote" => force_quote = columns(element, name)?,
                "force_not_null" => force_not_null = columns(element, name)?,
                "force_null" => force_null = columns(element, name)?,
                "encoding" => {
                    let encoding = text(element)?;
                    crate::settings::encoding(&encoding).ok_or_else(|| {
                        err!(
                            INVALID_PARAMETER_VALUE,
                            "argument to option \"encoding\" must be a valid encoding name"
                        )
                        .at(element.location)
                    })??;
                }
                other => {
                    return Err(err!(SYNTAX_ERROR, "option \"{other}\" not recognized").at(element.location));
                }
            }
        }
        let binary = format == CopyFormat::Binary;
        let csv = format == CopyFormat::Csv;
        let not_in_binary = |given: bool, what: &str| {
            if binary && given {
                Err(err!(SYNTAX_ERROR, "cannot specify {what} in BINARY mode"))
            } else {
                Ok(())
            }
        };
        not_in_binary(delimiter.is_some(), "DELIMITER")?;
        not_in_binary(null.is_some(), "NULL")?;
        if binary && header != Header::None {
            return Err(err!(FEATURE_NOT_SUPPORTED, "cannot specify HEADER in BINARY mode"));
        }
        let delimiter = one_byte(delimiter.as_deref(), if csv { b',' } else { b'\t' }, "delimiter")?;
        if matches!(delimiter, b'\r' | b'\n') {
            return Err(err!(INVALID_PARAMETER_VALUE, "COPY delimiter cannot be newline or carriage return"));
        }
        let null = null.unwrap_or_else(|| if csv { "" } else { "\\N" }.to_owned());
        if null.contains(['\r', '\n']) {
            return Err(err!(
                INVALID_PARAMETER_VALUE,
                "COPY null representation cannot use newline or carriage return"
            ));
        }
        if !csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
            return Err(err!(
                INVALID_PARAMETER_VALUE,
                "COPY delimiter cannot be \"{}\"",
                char::from(delimiter)
            ));
        }
        let csv_only = |given: bool, what: &str| {
            if !csv && given {
                Err(err!(FEATURE_NOT_SUPPORTED, "COPY {what} available only in CSV mode"))
            } else {
                Ok(())
            }
        };
        csv_only(quote.is_some(), "quote")?;
        let quote = one_byte(quote.as_deref(), b'"', "quote")?;
        if csv && delimiter == quote {
            return Err(err!(INVALID_PARAMETER_VALUE, "COPY delimiter and quote must be different"));
        }
        csv_only(escape.is_some(), "escape")?;
        let escape = one_byte(escape.as_deref(), quote, "escape")?;
        csv_only(force_quote != Columns::None, "force quote")?;
        if from && force_quote != Columns::None {
            return Err(err!(FEATURE_NOT_SUPPORTED, "COPY force quote only available using COPY TO"));
        }
        csv_only(force_not_null != Columns::None, "force not null")?;
        if !from && force_not_null != Columns::None {
            return Err(err!(FEATURE_NOT_SUPPORTED, "COPY force not null only available using COPY FROM"));
        }
        csv_only(force_null != Columns::None, "force null")?;
        if !from && force_null != Columns::None {
            return Err(err!(FEATURE_NOT_SUPPORTED, "COPY force null only available using COPY FROM"));
        }
        if null.as_bytes().contains(&delimiter) {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "COPY delimiter must not appear in the NULL specification"
            ));
        }
        if csv && null.as_bytes().contains(&quote) {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "CSV quote character must not appear in the NULL specification"
            ));
        }
        Ok(CopyOptions {
            format,
            freeze,
            delimiter,
            null,
            header,
            quote,
            escape,
            force_quote,
            force_not_null,
            force_null,
        })
    }
}

fn read_header(element: &DefElem, from: bool) -> Result<Header> {
    if element.arg.is_none() {
        return Ok(Header::Present);
    }
    let value = text(element)?;
    if value.eq_ignore_ascii_case("match") {
        if !from {
            return Err(err!(FEATURE_NOT_SUPPORTED, "cannot use \"match\" with HEADER in COPY TO"));
        }
        return Ok(Header::Match);
    }
    match crate::settings::value::parse_bool(&value) {
        Some(true) => Ok(Header::Present),
        Some(false) => Ok(Header::None),
        None => Err(err!(SYNTAX_ERROR, "header requires a Boolean value or \"match\"")),
    }
}

fn one_byte(given: Option<&str>, default: u8, what: &str) -> Result<u8> {
    match given.map(str::as_bytes) {
        None => Ok(default),
        Some([byte]) => Ok(*byte),
        Some(_) => Err(Error::new(
            cairn_types::sqlstate::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(sql: &str) -> std::result::Result<CopyOptions, String> {
        let tree = pg_query::parse(sql, 0).expect("parses");
        let node = tree.protobuf.stmts[0].stmt.as_ref().and_then(|node| node.node.clone());
        let Some(NodeEnum::CopyStmt(copy)) = node else { panic!("not COPY") };
        CopyOptions::parse(&copy.options, copy.is_from).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn as_postgresql_15_answers() {
        let csv = options("copy t from stdin (format csv, header match, null 'nul')").expect("valid");
        assert_eq!((csv.delimiter, csv.header, csv.null.as_str()), (b',', Header::Match, "nul"));
        assert!(options("copy t from stdin with (freeze on)").expect("valid").freeze);
        assert_eq!(options("copy t from stdin csv header").expect("old syntax").header, Header::Present);
        for (sql, message) in [
            ("copy t from stdin (format foo)", "COPY format \"foo\" not recognized"),
            ("copy t from stdin (delimiter 'xx')", "COPY delimiter must be a single one-byte character"),
            ("copy t from stdin (quote '\"')", "COPY quote available only in CSV mode"),
            ("copy t from stdin (format binary, delimiter ',')", "cannot specify DELIMITER in BINARY mode"),
            ("copy t from stdin (nonsense)", "option \"nonsense\" not recognized"),
            (
                "copy t to stdout (format csv, force_not_null (a))",
                "COPY force not null only available using COPY FROM",
            ),
            (
                "copy t from stdin (format csv, force_quote (a))",
                "COPY force quote only available using COPY TO",
            ),
            ("copy t to stdout (delimiter 'a')", "COPY delimiter cannot be \"a\""),
            ("copy t to stdout (format text, format csv)", "conflicting or redundant options"),
        ] {
            assert_eq!(options(sql), Err(message.to_owned()), "{sql}");
        }
    }
}
