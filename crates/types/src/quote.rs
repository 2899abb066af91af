//! Quoting of identifiers and literals, as SQL text that PostgreSQL prints has them.

/// Key words that are quoted where they stand as identifiers: all categories but "unreserved" (manual, appendix C,
/// PostgreSQL 15). Sorted.
const QUOTED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Appends an identifier, in double quotes where SQL needs them.
pub fn push_identifier(name: &str, out: &mut String) {
    let mut bytes = name.bytes();
    let plain = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && QUOTED.binary_search(&name).is_err();
    if plain {
        out.push_str(name);
        return;
    }
    out.push('"');
    for character in name.chars() {
        if character == '"' {
            out.push('"');
        }
        out.push(character);
    }
    out.push('"');
}

/// `name`, in double quotes where SQL needs them (`quote_ident`).
pub fn quote_identifier(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    push_identifier(name, &mut out);
    out
}

/// `schema.name`, each quoted where SQL needs it.
pub fn quote_qualified(schema: &str, name: &str) -> String {
    let mut out = String::with_capacity(schema.len() + name.len() + 1);
    push_identifier(schema, &mut out);
    out.push('.');
    push_identifier(name, &mut out);
    out
}

/// A string literal (`quote_literal`): with backslashes as an E string.
pub fn quote_literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    if text.contains('\\') {
        out.push('E');
    }
    out.push('\'');
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            out.push(character);
        }
        out.push(character);
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        assert!(QUOTED.is_sorted());
        assert_eq!(quote_identifier("job_queue"), "job_queue");
        assert_eq!(quote_identifier("select"), "\"select\"");
        assert_eq!(quote_identifier("Job"), "\"Job\"");
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_identifier(""), "\"\"");
        assert_eq!(quote_qualified("s", "t 1"), "s.\"t 1\"");
        assert_eq!(quote_literal("it's \\"), "E'it''s \\\\'");
    }
}
