//! The one place where an error of the key-value floor gets its SQLSTATE and PostgreSQL's words.

use cairn_storage::Error as StorageError;
use cairn_txn::{CancelReason, Conflict, Error as TxnError};
use cairn_types::{Error, Result, Severity, err, sqlstate};

/// As a client sees it. Exhaustive on purpose: a new error below must be given its code here.
pub fn txn_error(error: TxnError) -> Error {
    match error {
        TxnError::Storage(error) => storage_error(error),
        TxnError::Deadlock { detail } => err!(DEADLOCK_DETECTED, "deadlock detected")
            .detail(detail)
            .hint("See server log for query details."),
        TxnError::LockTimeout => err!(LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"),
        TxnError::LockNotAvailable => err!(LOCK_NOT_AVAILABLE, "could not obtain lock"),
        TxnError::Cancelled(CancelReason::UserRequest) => {
            err!(QUERY_CANCELED, "canceling statement due to user request")
        }
        TxnError::Cancelled(CancelReason::StatementTimeout) => {
            err!(QUERY_CANCELED, "canceling statement due to statement timeout")
        }
        TxnError::Cancelled(CancelReason::IdleInTransactionTimeout) => err!(
            IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            "terminating connection due to idle-in-transaction timeout"
        )
        .severity(Severity::Fatal),
        TxnError::Cancelled(CancelReason::ClientLost) => {
            err!(CONNECTION_FAILURE, "connection to client lost").severity(Severity::Fatal)
        }
        TxnError::Cancelled(CancelReason::Terminate) => {
            err!(ADMIN_SHUTDOWN, "terminating connection due to administrator command")
                .severity(Severity::Fatal)
        }
        TxnError::Serialization(Conflict::Update) => {
            err!(SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        }
        TxnError::Serialization(Conflict::Delete) => {
            err!(SERIALIZATION_FAILURE, "could not serialize access due to concurrent delete")
        }
        TxnError::Serialization(Conflict::ReadWrite) => err!(
            SERIALIZATION_FAILURE,
            "could not serialize access due to read/write dependencies among transactions"
        )
        .detail("Another transaction changed what this one has read, and committed first.")
        .hint("The transaction might succeed if retried."),
        TxnError::ReadOnly => {
            err!(READ_ONLY_SQL_TRANSACTION, "cannot execute statement in a read-only transaction")
        }
        TxnError::SequenceExhausted { limit, ascending } => {
            let end = if ascending { "maximum" } else { "minimum" };
            err!(SEQUENCE_GENERATOR_LIMIT_EXCEEDED, "nextval: reached {end} value of sequence ({limit})")
        }
        TxnError::SequenceOutOfBounds { value, min, max } => {
            err!(
                NUMERIC_VALUE_OUT_OF_RANGE,
                "setval: value {value} is out of bounds for sequence ({min}..{max})"
            )
        }
        TxnError::NoSuchSavepoint(id) => Error::internal(format!("savepoint {id:?} does not exist")),
        TxnError::Misuse(what) => Error::internal(what),
        TxnError::NoBulkLoad(storage) => {
            Error::internal(format!("storage {storage} does not accept a bulk load"))
        }
        TxnError::HistoryGone { requested, oldest } => err!(
            SNAPSHOT_TOO_OLD,
            "cairn.read_time \"{}\" is older than the history that is kept (since {})",
            time_text(requested),
            time_text(oldest)
        )
        .hint("cairn.retention is the time for which history is kept, of the database or of a table."),
        TxnError::DatabaseExists(name) => err!(DUPLICATE_DATABASE, "database \"{name}\" already exists"),
        TxnError::NoSuchDatabase(name) => err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"),
        TxnError::DatabaseInUse(name) => {
            err!(OBJECT_IN_USE, "database \"{name}\" is being accessed by other users")
        }
        error @ TxnError::UnlistedDatabases { .. } => err!(DATA_CORRUPTED, "{error}")
            .detail("The list is kept in the directory \"system\": it is gone, or has lost records. Nothing was changed.")
            .hint(
                "Restore \"system\" together with \"databases\" from a backup; or start with --adopt-databases, \
                 which puts these databases into the list (roles and settings are not brought back; \
                 what is left of \"system\" must be moved away first if it has no CURRENT); \
                 or move the directories away if they are not this server's.",
            ),
    }
}

/// A time in UTC, as clients write one.
fn time_text(time: cairn_txn::Timestamp) -> String {
    const MICROS_1970_TO_2000: i64 = 946_684_800_000_000;
    let mut text = String::new();
    let micros = time.micros().saturating_sub(MICROS_1970_TO_2000);
    cairn_types::datetime::format_timestamptz(micros, &cairn_types::FormatSettings::default(), &mut text);
    text
}

fn storage_error(error: StorageError) -> Error {
    match error {
        StorageError::Corruption { what, detail } => Error::corrupted(format!("corrupt {what}: {detail}")),
        StorageError::DiskFull(text) => {
            err!(DISK_FULL, "could not write to the database: {text}").hint("Check free disk space.")
        }
        StorageError::Io(text) => err!(IO_ERROR, "input/output error: {text}"),
        StorageError::File { path, source } => err!(IO_ERROR, "{}: {source}", path.display()),
        error @ (StorageError::Locked { .. }
        | StorageError::NewerFormat { .. }
        | StorageError::OldRecords { .. }) => {
            err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "{error}")
        }
        error @ StorageError::DamagedLog { .. } => err!(DATA_CORRUPTED, "{error}").hint(
            "Restore the file from a backup; or start the server with --truncate-damaged-log, which gives up everything \
             from that byte on.",
        ),
        StorageError::Engine(source) => Error::new(sqlstate::IO_ERROR, format!("storage engine: {source}")),
    }
}

/// NOWAIT tells which table the row belongs to.
pub fn row_lock_error(error: TxnError, relation: &str) -> Error {
    match error {
        TxnError::LockNotAvailable => {
            err!(LOCK_NOT_AVAILABLE, "could not obtain lock on row in relation \"{relation}\"")
        }
        other => txn_error(other),
    }
}

/// `result.sql()?` wherever the executor calls the key-value floor.
pub trait TxnResultExt<T> {
    fn sql(self) -> Result<T>;
}

impl<T> TxnResultExt<T> for std::result::Result<T, TxnError> {
    #[inline]
    fn sql(self) -> Result<T> {
        self.map_err(txn_error)
    }
}
