//! A session's settings: SET, SHOW, RESET, and what a rolled back transaction takes back.
//!
//! A setting has a session value and a current one; they differ while SET LOCAL is in force. Each change is
//! written down in a journal, with what was there before. The end of a transaction reads it:
//!
//! | event | current | session |
//! |---|---|---|
//! | SET | new | new |
//! | SET LOCAL | new | as it was |
//! | COMMIT | := session | stays |
//! | ROLLBACK, ROLLBACK TO | as before the first change since | as before |
//!
//! Only what was changed is kept; everything else has the value of its [`Definition`]. Settings that are read with
//! each statement have a copy in [`Hot`], which is renewed with every change.

pub mod definition;
pub mod value;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use std::time::Duration;

use cairn_functions::encodings;
use cairn_txn::Retention;
use cairn_types::{
    DateOrder, DateStyle, Error, FormatSettings, IntervalStyle, Result, Severity, Text, datetime, err,
};

pub use definition::{Context, Definition};
pub use value::Value;

use crate::core::identifier_list;

pub const SERVER_VERSION: &str = "15.18 (Cairn)";

/// Settings that the server reports to its client when they change.
pub const REPORTED: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// A setting's name in the journal and the tables: an index for known ones, the name for placeholders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Known(usize),
    Placeholder(String),
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    session: Value,
    current: Value,
}

struct Change {
    key: Key,
    before: Option<Entry>,
}

/// Where a journal stood; see [`Settings::undo_to`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

/// Settings that are looked at for every statement, ready to use.
#[derive(Clone, Debug)]
pub struct Hot {
    pub synchronous_commit: bool,
    /// Zero: none.
    pub lock_timeout: Duration,
    pub statement_timeout: Duration,
    pub idle_in_transaction_session_timeout: Duration,
    pub idle_session_timeout: Duration,
    pub default_read_only: bool,
    pub default_deferrable: bool,
    pub default_isolation: &'static str,
    pub work_mem_bytes: usize,
    pub transaction_memory_bytes: usize,
    pub client_min_messages: Severity,
    pub search_path: Text,
    /// Microseconds since 1970; `None`: the present.
    pub read_time_us: Option<i64>,
}

/// Who asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The startup packet: becomes what RESET goes back to.
    Client,
    /// SET and its like.
    Session,
}

pub struct Settings {
    entries: HashMap<Key, Entry>,
    /// Values from the startup packet, for RESET.
    resets: HashMap<Key, Value>,
    journal: Vec<Change>,
    hot: Hot,
    format: FormatSettings,
    /// Reported settings that changed since the client was told.
    changed: bool,
    /// Something was changed from which `hot` or `format` is derived, or that is reported.
    stale: bool,
    superuser: bool,
}

fn unrecognized(name: &str) -> Error {
    err!(UNDEFINED_OBJECT, "unrecognized configuration parameter \"{name}\"")
}

impl Settings {
    pub fn new(superuser: bool) -> Self {
        let mut settings = Settings {
            entries: HashMap::new(),
            resets: HashMap::new(),
            journal: Vec::new(),
            hot: Hot {
                synchronous_commit: true,
                lock_timeout: Duration::ZERO,
                statement_timeout: Duration::ZERO,
                idle_in_transaction_session_timeout: Duration::ZERO,
                idle_session_timeout: Duration::ZERO,
                default_read_only: false,
                default_deferrable: false,
                default_isolation: "read committed",
                work_mem_bytes: 4 << 20,
                transaction_memory_bytes: cairn_txn::DEFAULT_TRANSACTION_MEMORY,
                client_min_messages: Severity::Notice,
                search_path: "".into(),
                read_time_us: None,
            },
            format: FormatSettings::default(),
            changed: false,
            stale: true,
            superuser,
        };
        settings.refresh();
        settings
    }

    pub fn hot(&self) -> &Hot {
        &self.hot
    }

    pub fn format(&self) -> &FormatSettings {
        &self.format
    }

    /// Whether a reported setting may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn key(name: &str) -> Key {
        match definition::find(name) {
            Some(index) => Key::Known(index),
            None => Key::Placeholder(name.to_ascii_lowercase()),
        }
    }

    fn value(&self, key: &Key) -> Option<Value> {
        if let Some(entry) = self.entries.get(key) {
            return Some(entry.current.clone());
        }
        self.reset_value(key)
    }

    fn reset_value(&self, key: &Key) -> Option<Value> {
        if let Some(value) = self.resets.get(key) {
            return Some(value.clone());
        }
        match key {
            Key::Known(index) => defaults().get(*index).cloned(),
            Key::Placeholder(_) => None,
        }
    }

    /// As SHOW prints it; `None` for an unknown name.
    pub fn show(&self, name: &str) -> Option<String> {
        let key = Self::key(name);
        let value = self.value(&key)?;
        Some(match key {
            Key::Known(index) => value.show(&definition::all()[index]),
            Key::Placeholder(_) => value.plain(),
        })
    }

    /// [`Settings::show`], or 42704.
    pub fn show_or_error(&self, name: &str) -> Result<String> {
        self.show(name).ok_or_else(|| unrecognized(name))
    }

    /// In the setting's own unit, as pg_settings shows it.
    pub fn plain(&self, name: &str) -> Option<String> {
        self.value(&Self::key(name)).map(|value| value.plain())
    }

    /// What RESET would make it, as pg_settings.reset_val.
    pub fn reset_plain(&self, name: &str) -> Option<String> {
        self.reset_value(&Self::key(name)).map(|value| value.plain())
    }

    /// Whether it was changed in this session (pg_settings.source).
    pub fn is_set(&self, name: &str) -> bool {
        self.entries.contains_key(&Self::key(name))
    }

    /// Names and values of placeholders, in order.
    pub fn placeholders(&self) -> BTreeMap<String, String> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| match key {
                Key::Placeholder(name) => Some((name.clone(), entry.current.plain())),
                Key::Known(_) => None,
            })
            .collect()
    }

    /// SET (`local`: SET LOCAL). The name may be in any case.
    pub fn set(&mut self, name: &str, text: &str, local: bool, source: Source) -> Result<()> {
        let key = Self::key(name);
        let value = match &key {
            Key::Known(index) => {
                let definition = &definition::all()[*index];
                check_context(definition, source, self.superuser)?;
                check(definition, Value::parse(definition, text)?)?
            }
            Key::Placeholder(lower) => {
                check_placeholder_name(name, lower)?;
                Value::Text(text.into())
            }
        };
        if source == Source::Client {
            self.stale = true;
            self.resets.insert(key, value);
        } else {
            self.change(key, Some(value), local);
        }
        self.refresh();
        Ok(())
    }

    /// Whether the current role may change what only superusers may.
    pub fn set_superuser(&mut self, superuser: bool) {
        self.superuser = superuser;
        self.set_fact("is_superuser", if superuser { "on" } else { "off" });
    }

    /// States a fact that clients can only read (`is_superuser`).
    pub fn set_fact(&mut self, name: &str, value: &str) {
        let key = Self::key(name);
        let value = match &key {
            Key::Known(index) => Value::parse(&definition::all()[*index], value),
            Key::Placeholder(_) => Ok(Value::Text(value.into())),
        };
        if let Ok(value) = value {
            self.resets.insert(key, value);
        }
        self.changed = true;
    }

    /// RESET name, SET name TO DEFAULT.
    pub fn reset(&mut self, name: &str, local: bool) -> Result<()> {
        let key = Self::key(name);
        match &key {
            Key::Known(index) => check_context(&definition::all()[*index], Source::Session, self.superuser)?,
            Key::Placeholder(_) if self.entries.contains_key(&key) || name.contains('.') => {}
            Key::Placeholder(_) => return Err(unrecognized(name)),
        }
        let value = self
            .reset_value(&key)
            .or_else(|| matches!(key, Key::Placeholder(_)).then(|| Value::Text("".into())));
        self.change(key, value, local);
        self.refresh();
        Ok(())
    }

    /// RESET ALL, DISCARD ALL.
    pub fn reset_all(&mut self) {
        let keys: Vec<Key> = self.entries.keys().cloned().collect();
        for key in keys {
            let excepted = match &key {
                Key::Known(index) => matches!(
                    definition::all()[*index].name,
                    "transaction_isolation" | "transaction_read_only" | "transaction_deferrable"
                ),
                Key::Placeholder(_) => false,
            };
            if !excepted {
                let value = self.reset_value(&key).unwrap_or_else(|| Value::Text("".into()));
                self.change(key, Some(value), false);
            }
        }
        self.refresh();
    }

    fn change(&mut self, key: Key, value: Option<Value>, local: bool) {
        let before = self.entries.get(&key).cloned();
        let Some(value) = value else { return };
        let session = match (&before, local) {
            (_, false) => value.clone(),
            (Some(entry), true) => entry.session.clone(),
            (None, true) => self.reset_value(&key).unwrap_or_else(|| Value::Text("".into())),
        };
        self.stale |= is_derived_from(&key);
        self.entries.insert(key.clone(), Entry { session, current: value });
        self.journal.push(Change { key, before });
    }

    /// Whether anything was changed since the transaction began.
    pub fn has_journal(&self) -> bool {
        !self.journal.is_empty()
    }

    /// The journal's end now, to go back to with [`Settings::undo_to`].
    pub fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Takes back every change since the mark: ROLLBACK TO, the end of a function with SET clauses.
    pub fn undo_to(&mut self, mark: Mark) {
        if self.journal.len() <= mark.0 {
            return;
        }
        while self.journal.len() > mark.0 {
            if let Some(Change { key, before }) = self.journal.pop() {
                self.stale |= is_derived_from(&key);
                match before {
                    Some(entry) => self.entries.insert(key, entry),
                    None => self.entries.remove(&key),
                };
            }
        }
        self.refresh();
    }

    pub fn rollback(&mut self) {
        self.undo_to(Mark(0));
    }

    /// Ends SET LOCAL.
    pub fn commit(&mut self) {
        if self.journal.is_empty() {
            return;
        }
        for Change { key, .. } in std::mem::take(&mut self.journal) {
            if let Some(entry) = self.entries.get_mut(&key)
                && entry.current != entry.session
            {
                entry.current = entry.session.clone();
                self.stale |= is_derived_from(&key);
            }
        }
        self.refresh();
    }

    /// Computes what is derived from the settings.
    fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        self.changed = true;
        let text = |name: &str| self.plain(name).unwrap_or_default();
        let milliseconds = |name: &str| Duration::from_millis(text(name).parse::<u64>().unwrap_or(0));
        let on = |name: &str| text(name) == "on";
        let hot = Hot {
            synchronous_commit: text("synchronous_commit") != "off",
            lock_timeout: milliseconds("lock_timeout"),
            statement_timeout: milliseconds("statement_timeout"),
            idle_in_transaction_session_timeout: milliseconds("idle_in_transaction_session_timeout"),
            idle_session_timeout: milliseconds("idle_session_timeout"),
            default_read_only: on("default_transaction_read_only"),
            default_deferrable: on("default_transaction_deferrable"),
            default_isolation: match text("default_transaction_isolation").as_str() {
                "serializable" => "serializable",
                "repeatable read" => "repeatable read",
                "read uncommitted" => "read uncommitted",
                _ => "read committed",
            },
            work_mem_bytes: text("work_mem").parse::<usize>().unwrap_or(4096) * 1024,
            transaction_memory_bytes: text("cairn.transaction_memory")
                .parse::<usize>()
                .map_or(cairn_txn::DEFAULT_TRANSACTION_MEMORY, |kilobytes| kilobytes * 1024),
            client_min_messages: match text("client_min_messages").as_str() {
                "log" => Severity::Log,
                "info" => Severity::Info,
                "notice" => Severity::Notice,
                "warning" => Severity::Warning,
                "error" => Severity::Error,
                _ => Severity::Debug,
            },
            search_path: text("search_path").into(),
            read_time_us: read_time(&text("cairn.read_time")).unwrap_or_default(),
        };
        let date = date_style(&text("DateStyle"), (DateStyle::Iso, DateOrder::Mdy))
            .unwrap_or((DateStyle::Iso, DateOrder::Mdy));
        let format = FormatSettings {
            date_style: date.0,
            date_order: date.1,
            interval_style: match text("IntervalStyle").as_str() {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            time_zone: datetime::zone::zone_by_name(&text("TimeZone"))
                .unwrap_or(cairn_types::TimeZone::Fixed(0)),
            extra_float_digits: text("extra_float_digits").parse().unwrap_or(1),
            bytea_hex: text("bytea_output") == "hex",
            standard_conforming_strings: on("standard_conforming_strings"),
        };
        self.hot = hot;
        self.format = format;
    }
}

/// Values of settings that nobody has set.
fn defaults() -> &'static [Value] {
    static DEFAULTS: OnceLock<Vec<Value>> = OnceLock::new();
    DEFAULTS.get_or_init(|| {
        // A recorded default that its own rules refuse (an empty enum) is shown as it is.
        let value = |definition: &Definition| {
            Value::parse(definition, definition.default)
                .unwrap_or_else(|_| Value::Text(definition.default.into()))
        };
        definition::all().iter().map(value).collect()
    })
}

/// Whether a change of the setting makes [`Hot`] or the format settings stale, or has to be reported.
fn is_derived_from(key: &Key) -> bool {
    const DERIVED: &[&str] = &[
        "synchronous_commit",
        "lock_timeout",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
        "work_mem",
        "cairn.transaction_memory",
        "client_min_messages",
        "search_path",
        "cairn.read_time",
        "extra_float_digits",
        "bytea_output",
        "default_transaction_isolation",
        "default_transaction_deferrable",
    ];
    static KNOWN: OnceLock<Vec<bool>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let derived = |name: &str| DERIVED.contains(&name) || REPORTED.contains(&name);
        definition::all().iter().map(|definition| derived(definition.name)).collect()
    });
    matches!(key, Key::Known(index) if known.get(*index) == Some(&true))
}

/// Whether a role may set it, at this moment.
fn check_context(definition: &Definition, source: Source, superuser: bool) -> Result<()> {
    let name = definition.name;
    let refused = |why: &str| err!(CANT_CHANGE_RUNTIME_PARAM, "parameter \"{name}\" cannot be {why}");
    match definition.context {
        Context::Internal => Err(refused("changed")),
        Context::Postmaster => Err(refused("changed without restarting the server")),
        Context::Sighup => Err(refused("changed now")),
        Context::Backend | Context::SuperuserBackend if source == Source::Session => {
            Err(refused("set after connection start"))
        }
        Context::Superuser | Context::SuperuserBackend if !superuser => {
            Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to set parameter \"{name}\""))
        }
        _ => Ok(()),
    }
}

/// Checks a value that is to be set in sessions to come (ALTER ROLE ... SET); the setting's name as it is stored.
/// Errors are those of [`Settings::set`].
pub fn check_for_later(name: &str, text: &str, superuser: bool) -> Result<String> {
    match Settings::key(name) {
        Key::Known(index) => {
            let definition = &definition::all()[index];
            check_context(definition, Source::Client, superuser)?;
            check(definition, Value::parse(definition, text)?)?;
            Ok(definition.name.to_owned())
        }
        // The roles of a session are no settings of its own.
        Key::Placeholder(lower) if matches!(&*lower, "role" | "session_authorization") => Ok(lower),
        Key::Placeholder(lower) => {
            check_placeholder_name(name, &lower)?;
            Ok(name.to_owned())
        }
    }
}

/// Checks that need more than the type; may put the value into its canonical form.
fn check(definition: &Definition, value: Value) -> Result<Value> {
    let Value::Text(text) = &value else { return Ok(value) };
    let invalid =
        || err!(INVALID_PARAMETER_VALUE, "invalid value for parameter \"{}\": \"{text}\"", definition.name);
    Ok(match definition.name {
        "DateStyle" => {
            let (style, order) = date_style(text, (DateStyle::Iso, DateOrder::Mdy))?;
            Value::Text(print_date_style(style, order).into())
        }
        "TimeZone" | "log_timezone" => {
            let zone = datetime::zone::check_time_zone(definition.name, text)?.ok_or_else(invalid)?;
            Value::Text(datetime::zone::time_zone_name(&zone).into())
        }
        "client_encoding" => Value::Text(encoding(text).ok_or_else(invalid)??.into()),
        "search_path" if identifier_list(text).is_none() => {
            return Err(invalid().detail("List syntax is invalid."));
        }
        "session_replication_role" if text.as_ref() != "origin" => {
            return Err(Error::unsupported(format!("session_replication_role = {text} is")));
        }
        "cairn.read_time" => {
            read_time(text).map_err(|_| {
                invalid().hint("Use a timestamp with its zone, for example '2026-01-31 12:00:00+00'.")
            })?;
            value
        }
        _ => value,
    })
}

/// `cairn.read_time`'s value in microseconds since 1970; the empty text means the present.
fn read_time(text: &str) -> Result<Option<i64>> {
    const SECONDS_1970_TO_2000: i64 = 946_684_800;
    if text.is_empty() {
        return Ok(None);
    }
    let format = FormatSettings::default();
    let now_us = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_micros() as i64);
    let since_2000 = datetime::parse_timestamptz(text, &format, now_us - SECONDS_1970_TO_2000 * 1_000_000)?;
    Ok(since_2000.checked_add(SECONDS_1970_TO_2000 * 1_000_000))
}

/// The setting's name.
pub const RETENTION: &str = "cairn.retention";

/// A value of `cairn.retention`, with its unit (seconds, if it has none). Errors: 22023.
pub fn retention(text: &str) -> Result<Retention> {
    Ok(Retention::from_micros(integer(RETENTION, text)?.saturating_mul(1_000_000)))
}

/// A value of a setting that is a whole number, in the setting's unit.
fn integer(name: &str, text: &str) -> Result<i64> {
    let definition = definition::find(name).and_then(|index| definition::all().get(index));
    match Value::parse(definition.ok_or_else(|| unrecognized(name))?, text)? {
        Value::Integer(number) => Ok(number),
        _ => Err(Error::internal(format!("{name} is not a number"))),
    }
}

/// The setting's name: memory for blocks of files and for memtables.
pub const SHARED_BUFFERS: &str = "shared_buffers";
/// With less, memtables would become files all the time.
const SHARED_BUFFERS_MIN: usize = 16 << 20;
/// PostgreSQL's block.
const SHARED_BUFFERS_UNIT: usize = 8192;

/// A value of `shared_buffers`, with its unit (8 kB, if it has none), in bytes. Errors: 22023, below 16 MB too.
pub fn shared_buffers(text: &str) -> Result<usize> {
    let blocks = usize::try_from(integer(SHARED_BUFFERS, text)?).unwrap_or(0);
    let bytes = blocks.saturating_mul(SHARED_BUFFERS_UNIT);
    if bytes < SHARED_BUFFERS_MIN {
        let least = SHARED_BUFFERS_MIN >> 20;
        return Err(err!(
            INVALID_PARAMETER_VALUE,
            "{text} is less than {least}MB, the least that Cairn works with"
        ));
    }
    Ok(bytes)
}

/// As the setting reads it.
pub fn shared_buffers_text(bytes: usize) -> String {
    (bytes / SHARED_BUFFERS_UNIT).to_string()
}

/// As `SHOW cairn.retention` reads it: seconds.
pub fn retention_text(retention: Retention) -> String {
    match retention {
        Retention::Micros(micros) => (micros / 1_000_000).to_string(),
        Retention::Forever => "-1".to_owned(),
    }
}

/// PostgreSQL's name of an encoding that Cairn speaks; `None`: no encoding; an error: one that Cairn does not speak.
pub fn encoding(text: &str) -> Option<Result<&'static str>> {
    let encoding = encodings::number(text).and_then(encodings::by_number)?;
    Some(match encoding.name {
        // The latter is without conversion, which is what the bytes of a UTF-8 database are.
        "UTF8" | "SQL_ASCII" => Ok(encoding.name),
        _ => Err(Error::unsupported(format!("client encoding {text} is"))),
    })
}

fn print_date_style(style: DateStyle, order: DateOrder) -> String {
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Postgres => "Postgres",
        DateStyle::Sql => "SQL",
        DateStyle::German => "German",
    };
    let order = match order {
        DateOrder::Mdy => "MDY",
        DateOrder::Dmy => "DMY",
        DateOrder::Ymd => "YMD",
    };
    format!("{style}, {order}")
}

/// Reads `datestyle`; what it does not name stays as in `base`, as PostgreSQL does with its default.
fn date_style(text: &str, base: (DateStyle, DateOrder)) -> Result<(DateStyle, DateOrder)> {
    let (mut style, mut order, mut order_given) = (base.0, base.1, false);
    for word in text.split(',').map(str::trim) {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "iso" => style = DateStyle::Iso,
            "sql" => style = DateStyle::Sql,
            _ if lower.starts_with("postgres") => style = DateStyle::Postgres,
            _ if lower.starts_with("german") => {
                style = DateStyle::German;
                if !order_given {
                    order = DateOrder::Dmy;
                }
            }
            "ymd" => (order, order_given) = (DateOrder::Ymd, true),
            "dmy" => (order, order_given) = (DateOrder::Dmy, true),
            _ if lower.starts_with("euro") => (order, order_given) = (DateOrder::Dmy, true),
            "mdy" | "us" => (order, order_given) = (DateOrder::Mdy, true),
            _ if lower.starts_with("noneuro") => (order, order_given) = (DateOrder::Mdy, true),
            "default" => {}
            _ => {
                return Err(err!(
                    INVALID_PARAMETER_VALUE,
                    "invalid value for parameter \"DateStyle\": \"{text}\""
                )
                .detail(format!("Unrecognized key word: \"{word}\".")));
            }
        }
    }
    Ok((style, order))
}

fn check_placeholder_name(name: &str, lower: &str) -> Result<()> {
    let Some((prefix, _)) = lower.split_once('.') else { return Err(unrecognized(name)) };
    let simple = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii())
    };
    if !lower.split('.').all(simple) {
        return Err(err!(INVALID_NAME, "invalid configuration parameter name \"{name}\"")
            .detail("Custom parameter names must be two or more simple identifiers separated by dots."));
    }
    if definition::OWN_PREFIXES.contains(&prefix) {
        return Err(err!(INVALID_NAME, "invalid configuration parameter name \"{name}\"")
            .detail(format!("\"{prefix}\" is a reserved prefix.")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &mut Settings, name: &str, value: &str, local: bool) {
        settings.set(name, value, local, Source::Session).expect("valid");
    }

    #[test]
    fn local_ends_with_the_transaction() {
        let mut settings = Settings::new(true);
        set(&mut settings, "work_mem", "1MB", false);
        set(&mut settings, "work_mem", "2MB", true);
        assert_eq!(settings.show("work_mem").as_deref(), Some("2MB"));
        assert_eq!(settings.hot().work_mem_bytes, 2 << 20);
        settings.commit();
        assert_eq!(settings.show("WORK_MEM").as_deref(), Some("1MB"));
        set(&mut settings, "work_mem", "3MB", false);
        let savepoint = settings.mark();
        set(&mut settings, "work_mem", "4MB", false);
        set(&mut settings, "a.b", "x", false);
        settings.undo_to(savepoint);
        assert_eq!(settings.show("work_mem").as_deref(), Some("3MB"));
        assert_eq!(settings.show("a.b"), None);
        settings.rollback();
        assert_eq!(settings.show("work_mem").as_deref(), Some("1MB"));
    }

    #[test]
    fn canonical_forms() {
        let mut settings = Settings::new(true);
        set(&mut settings, "datestyle", "german", false);
        assert_eq!(settings.show("datestyle").as_deref(), Some("German, DMY"));
        set(&mut settings, "client_encoding", "utf-8", false);
        assert_eq!(settings.show("client_encoding").as_deref(), Some("UTF8"));
        set(&mut settings, "timezone", "europe/berlin", false);
        assert_eq!(settings.show("timezone").as_deref(), Some("Europe/Berlin"));
        set(&mut settings, "cairn.read_time", "2020-01-01 00:00:01+00", false);
        assert_eq!(settings.hot().read_time_us, Some(1_577_836_801_000_000));
        let fails = |settings: &mut Settings, name: &str, value: &str| {
            settings.set(name, value, false, Source::Session).expect_err("refused").sqlstate().to_string()
        };
        assert_eq!(fails(&mut settings, "client_encoding", "latin1"), "0A000");
        assert_eq!(fails(&mut settings, "client_encoding", "foo"), "22023");
        assert_eq!(fails(&mut settings, "timezone", "nowhere"), "22023");
        assert_eq!(fails(&mut settings, "search_path", "a,,b"), "22023");
        assert_eq!(fails(&mut settings, "server_version", "1"), "55P02");
        assert_eq!(fails(&mut settings, "nothing", "1"), "42704");
        assert_eq!(fails(&mut settings, "1x.b", "1"), "42602");
        assert_eq!(fails(&mut settings, "cairn.unknown", "1"), "42602");
    }

    #[test]
    fn startup_values_are_what_reset_returns_to() {
        let mut settings = Settings::new(true);
        settings.set("work_mem", "1MB", false, Source::Client).expect("valid");
        set(&mut settings, "work_mem", "2MB", false);
        settings.reset("work_mem", false).expect("valid");
        assert_eq!(settings.show("work_mem").as_deref(), Some("1MB"));
        set(&mut settings, "enable_sort", "off", false);
        settings.reset_all();
        assert_eq!(settings.show("enable_sort").as_deref(), Some("on"));
    }
}
