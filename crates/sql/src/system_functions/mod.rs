//! What SQL functions may ask of the catalog, the store and the session: the bodies behind
//! [`Env::system_function`](cairn_types::Env::system_function), one arm for each `prosrc` that
//! `cairn_functions::system` routes here.
//!
//! A body sees the session through [`Host`] only. Each file is a family: text of definitions, visibility, privileges,
//! sequences, sizes, advisory locks, descriptions of objects, activity. Set-returning functions answer with an array of
//! records (or of plain values), as `cairn_functions::system` wants it.
//!
//! Three rules:
//! - An oid that nothing has is no error where PostgreSQL makes none: the answer is null, as clients that walk a
//!   catalog while it changes expect.
//! - What Cairn does not count (buffer hits, tuples per table) is null, "not known", never an invented 0.
//! - What Cairn cannot have (publications, replication slots, partitions) is an empty set.

mod activity;
mod advisory;
mod definitions;
mod describe;
pub mod extensions;
mod function_text;
mod privileges;
mod sequences;
mod settings;
mod sizes;
mod statistics;
mod storage;
mod visibility;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_analyze::{AnalyzeContext, Parameters};
use cairn_catalog::{Catalog, SearchPath};
use cairn_functions::Args;
use cairn_txn::{SessionHandle, Store, Transaction};
use cairn_types::{Array, CallInfo, Datum, Env, Error, Oid, Record, Result, types};

pub use describe::object_description;
pub use sequences::SequenceMemory;

/// The session as system functions see it.
pub trait Host: Env {
    fn catalog(&self) -> Result<Arc<Catalog>>;
    fn search_path(&self) -> Result<Arc<SearchPath>>;
    fn store(&self) -> &Arc<dyn Store>;
    fn handle(&self) -> &Arc<SessionHandle>;
    /// The transaction of the running statement.
    fn transaction(&self) -> Result<Arc<dyn Transaction>>;
    fn current_user_oid(&self) -> Oid;
    /// Of a table, since the database was opened.
    fn analyzed(&self, table: Oid) -> crate::statistics::automatic::Analyzed;
    fn changes_since_analyze(&self, table: Oid) -> u64;
    fn roles(&self) -> std::rc::Rc<crate::rights::Roles>;
    fn is_superuser(&self) -> bool;
    fn post_notification(&self, channel: &str, payload: &str) -> Result<()>;
    fn listening_channels(&self) -> Vec<cairn_types::Text>;
    fn notification_usage(&self) -> f64;
    fn database_oid(&self) -> Oid;
    /// `transaction_read_only`.
    fn is_read_only(&self) -> bool;
    /// `lock_timeout`; zero: without end.
    fn lock_timeout(&self) -> Duration;
    fn sequence_memory(&self) -> &RefCell<SequenceMemory>;

    /// All sessions of the instance, this one included.
    fn sessions(&self) -> Vec<SessionInfo>;
    /// Asks a session to stop its statement; false if there is no such session.
    fn cancel_session(&self, pid: i32) -> bool;
    /// Asks a session to end; false if there is no such session.
    fn terminate_session(&self, pid: i32) -> bool;
    fn prepared_statements(&self) -> Vec<PreparedInfo>;
    fn cursors(&self) -> Vec<CursorInfo>;
    /// All settings, as SHOW and pg_settings tell them, by name.
    fn settings(&self) -> Vec<SettingInfo>;
    /// When the instance started, in microseconds since 2000-01-01 UTC.
    fn start_time(&self) -> i64;
    /// Bytes that a database occupies on disk; 3D000 where there is none.
    fn database_size(&self, database: Oid) -> Result<u64>;
}

/// One row of pg_stat_activity. Times are microseconds since 2000-01-01 UTC.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    pub pid: i32,
    pub database: Oid,
    pub user: Oid,
    pub application_name: String,
    /// `active`, `idle`, `idle in transaction`, ...
    pub state: &'static str,
    pub query: Arc<str>,
    /// Type and name of what it waits for.
    pub wait: Option<(&'static str, &'static str)>,
    /// `None`: no transaction is open.
    pub transaction_start: Option<i64>,
    pub query_start: i64,
    pub backend_start: i64,
    pub state_change: i64,
    pub client_address: Option<std::net::SocketAddr>,
    pub tls: Option<crate::client::Tls>,
}

/// One row of pg_prepared_statements.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    pub name: String,
    pub statement: Arc<str>,
    pub prepare_time: i64,
    pub parameter_types: Vec<Oid>,
    pub from_sql: bool,
}

/// One row of pg_cursors.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    pub name: String,
    pub statement: Arc<str>,
    pub holdable: bool,
    pub binary: bool,
    pub scrollable: bool,
    pub creation_time: i64,
}

/// One row of pg_settings.
#[derive(Clone, Debug, Default)]
pub struct SettingInfo {
    pub name: String,
    /// In the setting's unit, without it.
    pub value: String,
    pub unit: Option<String>,
    pub category: String,
    pub short_description: String,
    pub extra_description: Option<String>,
    pub context: &'static str,
    pub kind: &'static str,
    /// `default`, `session`, `client`, `configuration file`.
    pub source: &'static str,
    pub min: Option<String>,
    pub max: Option<String>,
    /// Labels of an enum.
    pub labels: Option<Vec<String>>,
    pub boot: Option<String>,
    pub reset: Option<String>,
}

/// What one call works with.
pub(crate) struct System<'a> {
    host: &'a dyn Host,
    env: &'a dyn Env,
    catalog: Arc<Catalog>,
    path: Arc<SearchPath>,
    /// Types of the call's arguments and result.
    info: &'a CallInfo<'a>,
    /// The function's `prosrc`.
    name: &'a str,
}

/// The value of a system function. `env` is the host itself. Errors: 0A000 for a name that has no body here.
pub fn call(
    host: &dyn Host,
    env: &dyn Env,
    name: &str,
    args: &[Datum],
    info: &CallInfo<'_>,
) -> Result<Datum> {
    let system = System { host, env, catalog: host.catalog()?, path: host.search_path()?, info, name };
    type Family = fn(&System<'_>, &Arguments<'_>) -> Result<Option<Datum>>;
    // The commonest first: nextval is called once a row.
    const FAMILIES: &[Family] = &[
        sequences::call,
        definitions::call,
        visibility::call,
        privileges::call,
        describe::call,
        sizes::call,
        advisory::call,
        activity::call,
        settings::call,
        statistics::call,
        storage::call,
    ];
    for family in FAMILIES {
        if let Some(value) = family(&system, &Arguments(args))? {
            return Ok(value);
        }
    }
    Err(Error::unsupported(format_args!("function {name} is")))
}

/// A call's arguments. (Both catalog rows and arguments are slices with typed getters: this tells them apart.)
pub(crate) struct Arguments<'a>(&'a [Datum]);

impl Arguments<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn any(&self, i: usize) -> &Datum {
        Args::any(self.0, i)
    }

    fn is_null(&self, i: usize) -> bool {
        self.any(i).is_null()
    }

    fn bool(&self, i: usize) -> Result<bool> {
        Args::bool(self.0, i)
    }

    fn char(&self, i: usize) -> Result<u8> {
        Args::char(self.0, i)
    }

    fn int2(&self, i: usize) -> Result<i16> {
        Args::int2(self.0, i)
    }

    fn int4(&self, i: usize) -> Result<i32> {
        Args::int4(self.0, i)
    }

    fn int8(&self, i: usize) -> Result<i64> {
        Args::int8(self.0, i)
    }

    fn oid(&self, i: usize) -> Result<Oid> {
        Args::oid(self.0, i)
    }

    fn str(&self, i: usize) -> Result<&str> {
        Args::str(self.0, i)
    }

    fn array(&self, i: usize) -> Result<&Arc<Array>> {
        Args::array(self.0, i)
    }

    /// Without the first so many.
    fn from(&self, first: usize) -> Arguments<'_> {
        Arguments(self.0.get(first..).unwrap_or_default())
    }
}

impl System<'_> {
    fn analyze_context<'c>(&'c self, path: &'c SearchPath) -> AnalyzeContext<'c> {
        AnalyzeContext {
            catalog: &self.catalog,
            search_path: path,
            env: self.env,
            parameters: Parameters::None,
        }
    }

    /// An anonymous record with the call's OUT columns.
    fn record(&self, values: Vec<Datum>) -> Datum {
        Datum::Record(Arc::new(Record { type_oid: types::RECORD, fields: self.info.columns.into(), values }))
    }

    /// The rows of a set-returning function with several columns.
    fn rows(&self, rows: impl IntoIterator<Item = Vec<Datum>>) -> Datum {
        let rows = rows.into_iter().map(|row| self.record(row)).collect();
        Datum::Array(Arc::new(Array::from_elements(types::RECORD, rows)))
    }
}

/// The rows of a set-returning function with one column, or an array of them.
fn values(element_type: Oid, values: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(Arc::new(Array::from_elements(element_type, values.into_iter().collect())))
}

fn texts<T: AsRef<str>>(list: impl IntoIterator<Item = T>) -> Datum {
    values(types::TEXT, list.into_iter().map(|text| Datum::text(text.as_ref())))
}

fn optional_text(text: Option<impl AsRef<str>>) -> Datum {
    text.map_or(Datum::Null, |text| Datum::text(text.as_ref()))
}

fn optional_oid(oid: Oid) -> Datum {
    if oid == 0 { Datum::Null } else { Datum::Oid(oid) }
}

fn void() -> Datum {
    cairn_functions::session::void()
}

/// By kind and key, for look-ups within one call.
type ByOid<T> = HashMap<Oid, T>;
