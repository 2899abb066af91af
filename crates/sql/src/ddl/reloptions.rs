//! Storage options (`with (...)`): checked and kept. Cairn's storage has no use for most of them; they are shown again
//! and dumped as they were given.

use cairn_types::{Error, Result, Text, err};
use pg_query::protobuf::Node;

use super::node::{option_text, options};

/// What values an option takes.
enum Kind {
    Int(i64, i64),
    Float(f64, f64),
    Bool,
    Word(&'static [&'static str]),
    /// As `cairn.retention` of the server takes it.
    Retention,
}

/// How long a table's history is kept.
pub const RETENTION: &str = "cairn.retention";

const TABLE: &[(&str, Kind)] = &[
    (RETENTION, Kind::Retention),
    ("fillfactor", Kind::Int(10, 100)),
    ("parallel_workers", Kind::Int(0, 1024)),
    ("toast_tuple_target", Kind::Int(128, 8160)),
    ("user_catalog_table", Kind::Bool),
    ("vacuum_truncate", Kind::Bool),
    ("vacuum_index_cleanup", Kind::Word(&["auto", "on", "off", "true", "false", "yes", "no", "1", "0"])),
    ("autovacuum_enabled", Kind::Bool),
    ("autovacuum_vacuum_threshold", Kind::Int(0, i32::MAX as i64)),
    ("autovacuum_vacuum_insert_threshold", Kind::Int(-1, i32::MAX as i64)),
    ("autovacuum_analyze_threshold", Kind::Int(0, i32::MAX as i64)),
    ("autovacuum_vacuum_scale_factor", Kind::Float(0.0, 100.0)),
    ("autovacuum_vacuum_insert_scale_factor", Kind::Float(0.0, 100.0)),
    ("autovacuum_analyze_scale_factor", Kind::Float(0.0, 100.0)),
    ("autovacuum_vacuum_cost_delay", Kind::Float(0.0, 100.0)),
    ("autovacuum_vacuum_cost_limit", Kind::Int(1, 10000)),
    ("autovacuum_freeze_min_age", Kind::Int(0, 1_000_000_000)),
    ("autovacuum_freeze_max_age", Kind::Int(100_000, 2_000_000_000)),
    ("autovacuum_freeze_table_age", Kind::Int(0, 2_000_000_000)),
    ("autovacuum_multixact_freeze_min_age", Kind::Int(0, 1_000_000_000)),
    ("autovacuum_multixact_freeze_max_age", Kind::Int(10_000, 2_000_000_000)),
    ("autovacuum_multixact_freeze_table_age", Kind::Int(0, 2_000_000_000)),
    ("log_autovacuum_min_duration", Kind::Int(-1, i32::MAX as i64)),
];

const INDEX: &[(&str, Kind)] = &[
    ("fillfactor", Kind::Int(10, 100)),
    ("deduplicate_items", Kind::Bool),
    ("vacuum_cleanup_index_scale_factor", Kind::Float(0.0, 1e10)),
];

const VIEW: &[(&str, Kind)] = &[
    ("security_barrier", Kind::Bool),
    ("security_invoker", Kind::Bool),
    ("check_option", Kind::Word(&["local", "cascaded"])),
];

/// The option's name; Cairn's own have theirs in front: `cairn.retention`.
fn name_of(option: &pg_query::protobuf::DefElem) -> String {
    let name = option.defname.to_ascii_lowercase();
    if option.defnamespace == "cairn" { format!("cairn.{name}") } else { name }
}

fn read(nodes: &[Node], known: &[(&str, Kind)]) -> Result<Vec<Text>> {
    let mut result = Vec::new();
    for option in options(nodes) {
        let name = name_of(option);
        if name == "oids" && option.defnamespace.is_empty() {
            if super::node::option_bool(option)? {
                return Err(err!(FEATURE_NOT_SUPPORTED, "tables declared WITH OIDS are not supported"));
            }
            continue;
        }
        if !matches!(&*option.defnamespace, "" | "toast" | "cairn") {
            return Err(err!(
                INVALID_PARAMETER_VALUE,
                "unrecognized parameter namespace \"{}\"",
                option.defnamespace
            ));
        }
        let Some((_, kind)) = known.iter().find(|(known, _)| *known == name) else {
            return Err(err!(INVALID_PARAMETER_VALUE, "unrecognized parameter \"{name}\""));
        };
        let value = option_text(option)?.unwrap_or_else(|| "true".to_owned());
        check(&name, &value, kind)?;
        if option.defnamespace != "toast" {
            result.push(Text::from(format!("{name}={value}")));
        } else {
            result.push(Text::from(format!("toast.{name}={value}")));
        }
    }
    Ok(result)
}

fn check(name: &str, value: &str, kind: &Kind) -> Result<()> {
    let bounds = |low: &dyn std::fmt::Display, high: &dyn std::fmt::Display| -> Error {
        err!(INVALID_PARAMETER_VALUE, "value {value} out of bounds for option \"{name}\"")
            .detail(format!("Valid values are between \"{low}\" and \"{high}\"."))
    };
    match kind {
        Kind::Int(low, high) => {
            let number: i64 = value.parse().map_err(|_| {
                err!(INVALID_PARAMETER_VALUE, "invalid value for integer option \"{name}\": {value}")
            })?;
            if number < *low || number > *high {
                return Err(bounds(low, high));
            }
        }
        Kind::Float(low, high) => {
            let number: f64 = value.parse().map_err(|_| {
                err!(INVALID_PARAMETER_VALUE, "invalid value for floating point option \"{name}\": {value}")
            })?;
            if number < *low || number > *high {
                return Err(bounds(low, high));
            }
        }
        Kind::Bool => {
            if !matches!(
                value.to_ascii_lowercase().as_str(),
                "true" | "false" | "on" | "off" | "yes" | "no" | "1" | "0"
            ) {
                return Err(err!(
                    INVALID_PARAMETER_VALUE,
                    "invalid value for boolean option \"{name}\": {value}"
                ));
            }
        }
        Kind::Retention => {
            crate::settings::retention(value)?;
        }
        Kind::Word(words) => {
            if !words.contains(&value.to_ascii_lowercase().as_str()) {
                return Err(err!(
                    INVALID_PARAMETER_VALUE,
                    "invalid value for enum option \"{name}\": {value}"
                ));
            }
        }
    }
    Ok(())
}

pub fn table_options(nodes: &[Node]) -> Result<Vec<Text>> {
    read(nodes, TABLE)
}

pub fn index_options(nodes: &[Node]) -> Result<Vec<Text>> {
    read(nodes, INDEX)
}

pub fn view_options(nodes: &[Node]) -> Result<Vec<Text>> {
    read(nodes, VIEW)
}

/// `old` with the options of `set (...)`, or without those of `reset (...)`.
pub fn changed(old: &[Text], nodes: &[Node], reset: bool, index: bool) -> Result<Vec<Text>> {
    let set_name = |option: &Text| option.split('=').next().unwrap_or("").to_owned();
    let mut result = old.to_vec();
    if reset {
        for option in options(nodes) {
            let prefix = if option.defnamespace == "toast" { "toast." } else { "" };
            let name = format!("{prefix}{}", name_of(option));
            result.retain(|old| set_name(old) != name);
        }
        return Ok(result);
    }
    for option in if index { index_options(nodes)? } else { table_options(nodes)? } {
        result.retain(|old| set_name(old) != set_name(&option));
        result.push(option);
    }
    Ok(result)
}

/// The retention that a table's options ask for.
pub fn retention(options: &[Text]) -> Result<Option<cairn_txn::Retention>> {
    let value = options.iter().find_map(|option| option.strip_prefix(RETENTION)?.strip_prefix('='));
    value.map(crate::settings::retention).transpose()
}

/// There is one place for everything.
pub fn check_tablespace(name: &str) -> Result<()> {
    if name.is_empty() || name == "pg_default" {
        return Ok(());
    }
    Err(err!(UNDEFINED_OBJECT, "tablespace \"{name}\" does not exist"))
}
