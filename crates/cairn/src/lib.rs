//! Cairn as a library: sessions over a data directory, without a server.
//!
//! ```no_run
//! let database = cairn::Database::open("./cairn-data".as_ref())?;
//! let mut session = database.session()?;
//! session.query("create table t (a int)")?;
//! for result in session.query("insert into t values (1), (2) returning a")? {
//!     println!("{}: {:?}", result.tag, result.rows);
//! }
//! # Ok::<(), cairn::Error>(())
//! ```
//!
//! Statements are those of the server, with the same transactions and locks: several sessions may run in threads of
//! their own. COPY FROM STDIN is refused here; COPY TO STDOUT gives its lines as rows.

use std::path::Path;
use std::sync::Arc;

use cairn_sql::{Client, Core, Format, Frontend, Instance, ResultShape, Startup, User};
use cairn_types::{Datum, Env, Oid, oid};

pub use cairn_sql::settings::{retention, shared_buffers};
pub use cairn_sql::{EngineOptions, Recovery, Resources};
pub use cairn_types::{Error, Result};

/// A data directory that is open in this process. Only one process can have it.
#[derive(Clone)]
pub struct Database {
    instance: Arc<Instance>,
}

/// What one statement gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryResult {
    /// `SELECT 1`, `CREATE TABLE`, ...
    pub tag: String,
    /// Names of the columns; empty for a statement without rows.
    pub columns: Vec<String>,
    /// Values as text, in the session's formats; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Notices and warnings that came with it.
    pub notices: Vec<String>,
}

impl Database {
    /// Opens or creates a data directory.
    ///
    /// # Errors
    /// 55000 if another process has it open or its format is newer, 58030 if it cannot be read.
    pub fn open(directory: &Path) -> Result<Self> {
        Self::open_with(directory, EngineOptions::default(), Resources::for_this_machine())
    }

    /// [`Database::open`] with other settings of the stores (how long history is kept), and with so much memory for all
    /// of them.
    pub fn open_with(directory: &Path, options: EngineOptions, resources: Resources) -> Result<Self> {
        Ok(Database { instance: Instance::open_with(directory, options, resources)? })
    }

    /// A session in the database `postgres`, as the role `postgres`.
    pub fn session(&self) -> Result<Session> {
        self.session_in("postgres")
    }

    /// A session in a database by name; 3D000 if there is none.
    pub fn session_in(&self, database: &str) -> Result<Session> {
        let user = User { oid: oid::BOOTSTRAP_ROLE, name: "postgres".into(), superuser: true };
        let startup =
            Startup { user: user.name.to_string(), database: database.to_owned(), ..Startup::default() };
        let inner = cairn_sql::Session::open(&self.instance, startup, user, Box::new(|_| ()))?;
        Ok(Session { inner })
    }

    /// What the server serves.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }
}

/// One session. It stays on the thread that opened it; dropping it rolls back what it has not committed.
pub struct Session {
    inner: cairn_sql::Session,
}

impl Session {
    /// Runs one or more statements, separated by semicolons; a result for each. Without BEGIN they are one
    /// transaction, as in PostgreSQL's simple protocol.
    pub fn query(&mut self, text: &str) -> Result<Vec<QueryResult>> {
        let mut collector = Collector::default();
        self.inner.simple_query(text, &mut collector)?;
        Ok(collector.results)
    }

    /// The session's inner state, for tools.
    pub fn core(&self) -> &Core {
        self.inner.core()
    }
}

/// A client that keeps everything.
#[derive(Default)]
struct Collector {
    current: QueryResult,
    results: Vec<QueryResult>,
}

impl Client for Collector {
    fn row_description(&mut self, shape: &ResultShape) {
        self.current.columns = shape.columns.iter().map(|column| column.name.to_string()).collect();
    }

    fn no_data(&mut self) {}

    fn parameter_description(&mut self, _: &[Oid]) {}

    fn row(&mut self, shape: &ResultShape, env: &dyn Env, row: &[Datum]) -> Result<()> {
        let text = |(value, column): (&Datum, &cairn_sql::ResultColumn)| match value {
            Datum::Null => Ok(None),
            value => cairn_types::io::output_string(value, column.ty.oid, env).map(Some),
        };
        let row = row.iter().zip(shape.columns.iter()).map(text).collect::<Result<Vec<_>>>()?;
        self.current.rows.push(row);
        Ok(())
    }

    fn command_complete(&mut self, tag: &str) {
        self.current.tag = tag.to_owned();
        self.results.push(std::mem::take(&mut self.current));
    }

    fn empty_query(&mut self) {}

    fn portal_suspended(&mut self) {}

    fn notice(&mut self, notice: &Error) {
        self.current.notices.push(notice.message().to_owned());
    }

    fn parameter_status(&mut self, _: &str, _: &str) {}

    fn wants_flush(&self) -> bool {
        false
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn copy_in_begin(&mut self, _: Format, _: usize) -> Result<()> {
        Err(Error::unsupported("COPY FROM STDIN in an embedded session is"))
    }

    fn copy_in_read(&mut self, _: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }

    fn copy_out_begin(&mut self, _: Format, _: usize) -> Result<()> {
        self.current.columns = vec!["copy".to_owned()];
        Ok(())
    }

    fn copy_out_data(&mut self, data: &[u8]) -> Result<()> {
        let line = String::from_utf8_lossy(data).trim_end_matches('\n').to_owned();
        self.current.rows.push(vec![Some(line)]);
        Ok(())
    }

    fn copy_out_end(&mut self) -> Result<()> {
        Ok(())
    }

    fn function_result(&mut self, _: Oid, _: Format, _: &dyn Env, _: &Datum) -> Result<()> {
        Ok(())
    }
}
