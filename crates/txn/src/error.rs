//! What can go wrong below SQL. Typed, so that one exhaustive match in `cairn-exec` gives each its SQLSTATE;
//! sources are kept, so that a log line tells the whole story.

use std::path::PathBuf;

use cairn_storage::{StorageId, Timestamp};

use crate::SavepointId;

/// Why a statement was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelReason {
    /// A cancel request, `pg_cancel_backend`.
    UserRequest,
    /// `statement_timeout`.
    StatementTimeout,
    /// `idle_in_transaction_session_timeout`.
    IdleInTransactionTimeout,
    /// The client cannot be told anything any more.
    ClientLost,
    /// The session or the server is being shut down (`pg_terminate_backend`).
    Terminate,
}

/// What another transaction did to a row that a repeatable read transaction wanted to change, or a serializable one relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conflict {
    Update,
    Delete,
    /// Somebody wrote what a serializable transaction has read.
    ReadWrite,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] cairn_storage::Error),
    /// `detail` tells who waits for whom, one line each.
    #[error("deadlock detected")]
    Deadlock { detail: String },
    /// `lock_timeout` ran out.
    #[error("canceling statement due to lock timeout")]
    LockTimeout,
    /// NOWAIT.
    #[error("could not obtain lock")]
    LockNotAvailable,
    #[error("canceled: {0:?}")]
    Cancelled(CancelReason),
    /// First updater wins, or a serializable transaction's reads are not true any more.
    #[error("could not serialize access due to {}", match .0 {
        Conflict::Update => "concurrent update",
        Conflict::Delete => "concurrent delete",
        Conflict::ReadWrite => "read/write dependencies among transactions",
    })]
    Serialization(Conflict),
    #[error("cannot write in a read-only transaction")]
    ReadOnly,
    #[error("nextval: reached {} value of sequence ({limit})", if *.ascending { "maximum" } else { "minimum" })]
    SequenceExhausted { limit: i64, ascending: bool },
    /// The options of a sequence contradict each other or its state.
    #[error("sequence value {value} is out of bounds ({min}..{max})")]
    SequenceOutOfBounds { value: i64, min: i64, max: i64 },
    #[error("savepoint {0:?} does not exist")]
    NoSuchSavepoint(SavepointId),
    /// The caller broke a rule: a finished transaction, a key without storage id, a bulk load that is not allowed.
    #[error("{0}")]
    Misuse(&'static str),
    #[error("storage {0} does not accept a bulk load in this transaction")]
    NoBulkLoad(StorageId),
    /// The past that was asked for lies before the retained history.
    #[error("time {requested:?} is not readable; history begins at {oldest:?}")]
    HistoryGone { requested: Timestamp, oldest: Timestamp },
    #[error("database \"{0}\" already exists")]
    DatabaseExists(String),
    #[error("database \"{0}\" does not exist")]
    NoSuchDatabase(String),
    /// Sessions still use it.
    #[error("database \"{0}\" is being accessed by other users")]
    DatabaseInUse(String),
    /// Directories of databases that the list of databases does not have: it has lost records.
    #[error("the list of databases lacks {}", paths_text(.paths))]
    UnlistedDatabases { paths: Vec<PathBuf> },
}

fn paths_text(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths.iter().map(|path| format!("\"{}\"", path.display())).collect();
    quoted.join(", ")
}
