//! What settings there are: PostgreSQL 15's, as facts, and Cairn's own.

use std::collections::HashMap;
use std::sync::OnceLock;

/// Facts of PostgreSQL's pg_settings; `scripts/dump-catalog` writes the file.
const POSTGRESQL: &str = include_str!("../../../catalog/data/pg_settings.tsv");

/// Cairn's own, in the same columns.
const CAIRN: &str = "\
cairn.read_time\t\t\\N\tCairn\tReads the database as it was at this time; the session becomes read-only.\t\\N\tuser\tstring\t\\N\t\\N\t\\N\t\t
cairn.retention\t900\ts\tCairn\tTime for which deleted and overwritten rows stay readable in the past.\tZero keeps only what open transactions read, -1 keeps everything. Set it for the server, with ALTER DATABASE, or for a table.\tsighup\tinteger\t-1\t2147483647\t\\N\t900\t900
cairn.transaction_memory\t65536\tkB\tCairn\tMemory for the uncommitted writes and row locks of a transaction.\tWhat needs more is kept in the store until the transaction ends.\tuser\tinteger\t64\t2147483647\t\\N\t65536\t65536
retry_backoff_multiplier\t2\t\\N\tCairn\tFactor by which the wait between retries grows.\tAccepted for clients that set it: waiting sessions queue, so that nothing is retried.\tuser\treal\t1\t1e+10\t\\N\t2\t2
retry_max_backoff\t1000\tms\tCairn\tLongest wait between retries.\tAccepted for clients that set it: waiting sessions queue, so that nothing is retried.\tuser\tinteger\t0\t2147483647\t\\N\t1000\t1000
retry_min_backoff\t100\tms\tCairn\tShortest wait between retries.\tAccepted for clients that set it: waiting sessions queue, so that nothing is retried.\tuser\tinteger\t0\t2147483647\t\\N\t100\t100
";

/// Prefixes that belong to Cairn: an unknown name below one is an error, not a placeholder.
pub const OWN_PREFIXES: &[&str] = &["cairn"];

/// When a setting may change (pg_settings.context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    Internal,
    Postmaster,
    Sighup,
    SuperuserBackend,
    Backend,
    Superuser,
    User,
}

impl Context {
    pub fn as_str(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Postmaster => "postmaster",
            Context::Sighup => "sighup",
            Context::SuperuserBackend => "superuser-backend",
            Context::Backend => "backend",
            Context::Superuser => "superuser",
            Context::User => "user",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bool,
    Integer { min: i64, max: i64 },
    Real { min: f64, max: f64 },
    String,
    Enum,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Integer { .. } => "integer",
            Kind::Real { .. } => "real",
            Kind::String => "string",
            Kind::Enum => "enum",
        }
    }
}

/// One setting; the texts are pg_settings' columns.
#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub short_description: &'static str,
    pub extra_description: Option<&'static str>,
    pub context: Context,
    pub kind: Kind,
    /// As pg_settings shows them; empty for other types.
    pub min: Option<&'static str>,
    pub max: Option<&'static str>,
    /// Values of an enum.
    pub labels: Vec<String>,
    pub boot: Option<&'static str>,
    /// Value of a session that says nothing.
    pub default: &'static str,
}

fn parse(line: &'static str) -> Option<Definition> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, _, unit, category, short, extra, context, kind, min, max, labels, boot, reset] = fields[..]
    else {
        return None;
    };
    let optional = |field: &'static str| (field != "\\N").then_some(field);
    let context = match context {
        "internal" => Context::Internal,
        "postmaster" => Context::Postmaster,
        "sighup" => Context::Sighup,
        "superuser-backend" => Context::SuperuserBackend,
        "backend" => Context::Backend,
        "superuser" => Context::Superuser,
        _ => Context::User,
    };
    let kind = match kind {
        "bool" => Kind::Bool,
        "integer" => Kind::Integer { min: min.parse().ok()?, max: max.parse().ok()? },
        "real" => Kind::Real { min: min.parse().ok()?, max: max.parse().ok()? },
        "enum" => Kind::Enum,
        _ => Kind::String,
    };
    let labels = optional(labels).map(array_elements).unwrap_or_default();
    Some(Definition {
        name,
        unit: optional(unit),
        category,
        short_description: short,
        extra_description: optional(extra),
        context,
        kind,
        min: optional(min),
        max: optional(max),
        labels,
        boot: optional(boot),
        default: default_value(name, optional(reset).unwrap_or_default()),
    })
}

/// What the file recorded of the server that it was dumped from, or of its client, does not hold here.
fn default_value(name: &str, recorded: &'static str) -> &'static str {
    match name {
        "application_name"
        | "data_directory"
        | "config_file"
        | "hba_file"
        | "ident_file"
        | "external_pid_file"
        | "unix_socket_directories" => "",
        "client_encoding" => "UTF8",
        "max_connections" => "4000",
        "server_version" => super::SERVER_VERSION,
        "port" => "5433",
        "jit" => "off",
        _ => recorded,
    }
}

/// The elements of a one-dimensional array's text.
fn array_elements(text: &str) -> Vec<String> {
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    let mut elements = vec![String::new()];
    let mut quoted = false;
    for character in inner.chars() {
        match (character, elements.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => elements.push(String::new()),
            (_, Some(last)) => last.push(character),
            (_, None) => {}
        }
    }
    elements
}

/// All settings, in the order of SHOW ALL.
pub fn all() -> &'static [Definition] {
    static ALL: OnceLock<Vec<Definition>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all: Vec<Definition> =
            POSTGRESQL.lines().skip(1).chain(CAIRN.lines()).filter_map(parse).collect();
        all.sort_by_cached_key(|definition| definition.name.to_ascii_lowercase());
        all
    })
}

/// The index into [`all`] of a setting by name, in any case.
pub fn find(name: &str) -> Option<usize> {
    static BY_NAME: OnceLock<HashMap<String, usize>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        all()
            .iter()
            .enumerate()
            .map(|(index, definition)| (definition.name.to_ascii_lowercase(), index))
            .collect()
    });
    by_name.get(name).copied().or_else(|| {
        // Old names that PostgreSQL still knows.
        let lower = name.to_ascii_lowercase();
        let lower = match lower.as_str() {
            "sort_mem" => "work_mem",
            "vacuum_mem" => "maintenance_work_mem",
            other => other,
        };
        by_name.get(lower).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood() {
        assert_eq!(all().len(), POSTGRESQL.lines().count() - 1 + CAIRN.lines().count());
        let isolation = &all()[find("Default_Transaction_Isolation").expect("known")];
        assert_eq!(
            isolation.labels,
            ["serializable", "repeatable read", "read committed", "read uncommitted"]
        );
        assert!(find("no_such_setting").is_none());
    }
}
