//! The error that a client sees: SQLSTATE, message and the fields of PostgreSQL's ErrorResponse
//! (protocol manual, section 55.8). Every crate from `types` upwards returns it; `storage` and `txn`
//! have errors of their own, which one exhaustive match in `cairn-exec` turns into this one.

use std::fmt;
use std::panic::Location;

pub type Result<T> = std::result::Result<T, Error>;

/// A five-character SQLSTATE code (manual, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! sqlstates {
    ($($name:ident = $code:literal;)*) => {
        /// SQLSTATE constants under the condition names of the manual's appendix A.
        pub mod sqlstate {
            use super::SqlState;
            $(pub const $name: SqlState = SqlState(*$code);)*
            /// Every code above with its condition name, lower case (plpgsql's `exception when`).
            pub const ALL: &[(&str, SqlState)] = &[$((stringify!($name), $name)),*];
        }
    };
}

sqlstates! {
    SUCCESSFUL_COMPLETION = b"00000";
    WARNING = b"01000";
    NO_DATA = b"02000";
    CONNECTION_EXCEPTION = b"08000";
    CONNECTION_FAILURE = b"08006";
    PROTOCOL_VIOLATION = b"08P01";
    TRIGGERED_ACTION_EXCEPTION = b"09000";
    FEATURE_NOT_SUPPORTED = b"0A000";
    DIAGNOSTICS_WITHOUT_HANDLER = b"0Z002";
    CASE_NOT_FOUND = b"20000";
    CARDINALITY_VIOLATION = b"21000";
    DATA_EXCEPTION = b"22000";
    ARRAY_SUBSCRIPT_ERROR = b"2202E";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    DATETIME_FIELD_OVERFLOW = b"22008";
    DIVISION_BY_ZERO = b"22012";
    ERROR_IN_ASSIGNMENT = b"22005";
    INTERVAL_FIELD_OVERFLOW = b"22015";
    INVALID_ARGUMENT_FOR_LOGARITHM = b"2201E";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = b"2201F";
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = b"2201G";
    INVALID_ARGUMENT_FOR_NTILE_FUNCTION = b"22014";
    INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION = b"22016";
    INVALID_CHARACTER_VALUE_FOR_CAST = b"22018";
    INVALID_DATETIME_FORMAT = b"22007";
    INVALID_ESCAPE_CHARACTER = b"22019";
    INVALID_ESCAPE_SEQUENCE = b"22025";
    INVALID_PARAMETER_VALUE = b"22023";
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = b"22013";
    INVALID_REGULAR_EXPRESSION = b"2201B";
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = b"2201W";
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = b"2201X";
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = b"22009";
    INVALID_USE_OF_ESCAPE_CHARACTER = b"2200C";
    NULL_VALUE_NOT_ALLOWED = b"22004";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = b"2200H";
    STRING_DATA_LENGTH_MISMATCH = b"22026";
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    SUBSTRING_ERROR = b"22011";
    FLOATING_POINT_EXCEPTION = b"22P01";
    INVALID_TEXT_REPRESENTATION = b"22P02";
    INVALID_BINARY_REPRESENTATION = b"22P03";
    BAD_COPY_FILE_FORMAT = b"22P04";
    UNTRANSLATABLE_CHARACTER = b"22P05";
    NONSTANDARD_USE_OF_ESCAPE_CHARACTER = b"22P06";
    DUPLICATE_JSON_OBJECT_KEY_VALUE = b"22030";
    INVALID_JSON_TEXT = b"22032";
    INVALID_SQL_JSON_SUBSCRIPT = b"22033";
    NON_NUMERIC_SQL_JSON_ITEM = b"22036";
    SINGLETON_SQL_JSON_ITEM_REQUIRED = b"22038";
    SQL_JSON_ARRAY_NOT_FOUND = b"22039";
    SQL_JSON_MEMBER_NOT_FOUND = b"2203A";
    SQL_JSON_NUMBER_NOT_FOUND = b"2203B";
    SQL_JSON_OBJECT_NOT_FOUND = b"2203C";
    INTEGRITY_CONSTRAINT_VIOLATION = b"23000";
    RESTRICT_VIOLATION = b"23001";
    NOT_NULL_VIOLATION = b"23502";
    FOREIGN_KEY_VIOLATION = b"23503";
    UNIQUE_VIOLATION = b"23505";
    CHECK_VIOLATION = b"23514";
    EXCLUSION_VIOLATION = b"23P01";
    INVALID_CURSOR_STATE = b"24000";
    INVALID_TRANSACTION_STATE = b"25000";
    ACTIVE_SQL_TRANSACTION = b"25001";
    READ_ONLY_SQL_TRANSACTION = b"25006";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    INVALID_SQL_STATEMENT_NAME = b"26000";
    INVALID_GRANT_OPERATION = b"0LP01";
    WARNING_PRIVILEGE_NOT_GRANTED = b"01007";
    WARNING_PRIVILEGE_NOT_REVOKED = b"01006";
    TRIGGERED_DATA_CHANGE_VIOLATION = b"27000";
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000";
    INVALID_PASSWORD = b"28P01";
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    INVALID_TRANSACTION_TERMINATION = b"2D000";
    SQL_ROUTINE_EXCEPTION = b"2F000";
    FUNCTION_EXECUTED_NO_RETURN_STATEMENT = b"2F005";
    INVALID_CURSOR_NAME = b"34000";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    INVALID_CATALOG_NAME = b"3D000";
    INVALID_SCHEMA_NAME = b"3F000";
    TRANSACTION_ROLLBACK = b"40000";
    SERIALIZATION_FAILURE = b"40001";
    TRANSACTION_INTEGRITY_CONSTRAINT_VIOLATION = b"40002";
    DEADLOCK_DETECTED = b"40P01";
    SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION = b"42000";
    SYNTAX_ERROR = b"42601";
    INSUFFICIENT_PRIVILEGE = b"42501";
    CANNOT_COERCE = b"42846";
    GROUPING_ERROR = b"42803";
    WINDOWING_ERROR = b"42P20";
    INVALID_RECURSION = b"42P19";
    INVALID_FOREIGN_KEY = b"42830";
    INVALID_NAME = b"42602";
    NAME_TOO_LONG = b"42622";
    RESERVED_NAME = b"42939";
    DATATYPE_MISMATCH = b"42804";
    INDETERMINATE_DATATYPE = b"42P18";
    COLLATION_MISMATCH = b"42P21";
    INDETERMINATE_COLLATION = b"42P22";
    WRONG_OBJECT_TYPE = b"42809";
    GENERATED_ALWAYS = b"428C9";
    UNDEFINED_COLUMN = b"42703";
    UNDEFINED_FUNCTION = b"42883";
    UNDEFINED_TABLE = b"42P01";
    UNDEFINED_PARAMETER = b"42P02";
    UNDEFINED_OBJECT = b"42704";
    DUPLICATE_COLUMN = b"42701";
    DUPLICATE_CURSOR = b"42P03";
    DUPLICATE_DATABASE = b"42P04";
    DUPLICATE_FUNCTION = b"42723";
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    DUPLICATE_SCHEMA = b"42P06";
    DUPLICATE_TABLE = b"42P07";
    DUPLICATE_ALIAS = b"42712";
    DUPLICATE_OBJECT = b"42710";
    AMBIGUOUS_COLUMN = b"42702";
    AMBIGUOUS_FUNCTION = b"42725";
    AMBIGUOUS_PARAMETER = b"42P08";
    AMBIGUOUS_ALIAS = b"42P09";
    INVALID_COLUMN_REFERENCE = b"42P10";
    INVALID_COLUMN_DEFINITION = b"42611";
    INVALID_CURSOR_DEFINITION = b"42P11";
    INVALID_DATABASE_DEFINITION = b"42P12";
    INVALID_FUNCTION_DEFINITION = b"42P13";
    INVALID_PREPARED_STATEMENT_DEFINITION = b"42P14";
    INVALID_SCHEMA_DEFINITION = b"42P15";
    INVALID_TABLE_DEFINITION = b"42P16";
    INVALID_OBJECT_DEFINITION = b"42P17";
    WITH_CHECK_OPTION_VIOLATION = b"44000";
    INSUFFICIENT_RESOURCES = b"53000";
    DISK_FULL = b"53100";
    OUT_OF_MEMORY = b"53200";
    TOO_MANY_CONNECTIONS = b"53300";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";
    TOO_MANY_COLUMNS = b"54011";
    TOO_MANY_ARGUMENTS = b"54023";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    OBJECT_IN_USE = b"55006";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    LOCK_NOT_AVAILABLE = b"55P03";
    UNSAFE_NEW_ENUM_VALUE_USAGE = b"55P04";
    OPERATOR_INTERVENTION = b"57000";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CRASH_SHUTDOWN = b"57P02";
    CANNOT_CONNECT_NOW = b"57P03";
    DATABASE_DROPPED = b"57P04";
    SYSTEM_ERROR = b"58000";
    IO_ERROR = b"58030";
    UNDEFINED_FILE = b"58P01";
    SNAPSHOT_TOO_OLD = b"72000";
    CONFIG_FILE_ERROR = b"F0000";
    PLPGSQL_ERROR = b"P0000";
    RAISE_EXCEPTION = b"P0001";
    NO_DATA_FOUND = b"P0002";
    TOO_MANY_ROWS = b"P0003";
    ASSERT_FAILURE = b"P0004";
    INTERNAL_ERROR = b"XX000";
    DATA_CORRUPTED = b"XX001";
    INDEX_CORRUPTED = b"XX002";
}

/// PostgreSQL's message levels, as sent in the S and V fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Error,
    Fatal,
    Panic,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
        }
    }
}

/// Where in Cairn's source an error was raised: the fields F, L and R of the protocol. It says nothing about what went
/// wrong, so any two are equal.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    location: &'static Location<'static>,
    routine: Option<&'static str>,
}

impl Origin {
    pub fn file(&self) -> &'static str {
        self.location.file()
    }

    pub fn line(&self) -> u32 {
        self.location.line()
    }

    /// The function that raised it where clients know that by name, else the module.
    pub fn routine(&self) -> &'static str {
        self.routine.unwrap_or_else(|| {
            let path = self.file().trim_end_matches(".rs");
            let path = path.strip_suffix("/mod").unwrap_or(path);
            path.rsplit('/').next().unwrap_or(path)
        })
    }
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}

/// One error (or notice) with PostgreSQL's fields. Boxed, so that a `Result` stays small.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Report>);

/// The fields of an [`Error`]; see `ErrorResponse` in the protocol manual for each one's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub severity: Severity,
    pub sqlstate: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Byte offset (0-based) into the statement's text; the server turns it into a character position.
    pub location: Option<u32>,
    /// The text of an internally generated statement (plpgsql, sql functions) that `location` points into.
    pub internal_query: Option<String>,
    /// Innermost line first, as in PostgreSQL's CONTEXT.
    pub context: Vec<String>,
    pub schema: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub data_type: Option<String>,
    pub constraint: Option<String>,
    pub origin: Origin,
}

impl Error {
    #[track_caller]
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> Self {
        Error(Box::new(Report {
            severity: Severity::Error,
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            location: None,
            internal_query: None,
            context: Vec::new(),
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
            origin: Origin { location: Location::caller(), routine: None },
        }))
    }

    /// 0A000, for what Cairn does not have yet; `what` names it: "window functions are not supported yet".
    #[track_caller]
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Error::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("{what} not supported yet"))
    }

    /// XX000, for a broken promise between two parts of Cairn: always a bug.
    #[track_caller]
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(sqlstate::INTERNAL_ERROR, message)
    }

    /// XX001, for bytes on disk that cannot be what they claim to be.
    #[track_caller]
    pub fn corrupted(message: impl Into<String>) -> Self {
        Error::new(sqlstate::DATA_CORRUPTED, message)
    }

    #[track_caller]
    pub fn notice(message: impl Into<String>) -> Self {
        Error::new(sqlstate::SUCCESSFUL_COMPLETION, message).severity(Severity::Notice)
    }

    #[track_caller]
    pub fn warning(sqlstate: SqlState, message: impl Into<String>) -> Self {
        Error::new(sqlstate, message).severity(Severity::Warning)
    }

    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.0.severity = severity;
        self
    }

    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the error's place in the statement text (byte offset); a negative one means unknown, and
    /// a place that is already set stays.
    #[must_use]
    pub fn at(mut self, location: i32) -> Self {
        if let (None, Ok(location)) = (self.0.location, u32::try_from(location)) {
            self.0.location = Some(location);
        }
        self
    }

    /// Adds an outer line of CONTEXT.
    #[must_use]
    pub fn context(mut self, line: impl Into<String>) -> Self {
        self.0.context.push(line.into());
        self
    }

    #[must_use]
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    #[must_use]
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    #[must_use]
    pub fn constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// Names the function of PostgreSQL's that raises this error, where drivers look for it.
    #[must_use]
    pub fn routine(mut self, routine: &'static str) -> Self {
        self.0.origin.routine = Some(routine);
        self
    }

    pub fn report(&self) -> &Report {
        &self.0
    }

    pub fn report_mut(&mut self) -> &mut Report {
        &mut self.0
    }

    pub fn sqlstate(&self) -> SqlState {
        self.0.sqlstate
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.0.severity.as_str(), self.0.message, self.0.sqlstate)
    }
}

impl std::error::Error for Error {}

/// Returns early with an [`Error`]: `bail!(UNDEFINED_COLUMN, "column \"{name}\" does not exist")`.
#[macro_export]
macro_rules! bail {
    ($state:ident, $($arg:tt)*) => {
        return Err($crate::Error::new($crate::sqlstate::$state, format!($($arg)*)))
    };
}

/// Builds an [`Error`]: `err!(DIVISION_BY_ZERO, "division by zero")`.
#[macro_export]
macro_rules! err {
    ($state:ident, $($arg:tt)*) => {
        $crate::Error::new($crate::sqlstate::$state, format!($($arg)*))
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_know_where_they_were_raised() {
        let line = line!() + 1;
        let error = err!(DIVISION_BY_ZERO, "division by zero");
        let origin = error.report().origin;
        assert_eq!((origin.line(), origin.routine()), (line, "error"));
        assert!(origin.file().ends_with("types/src/error.rs"), "{}", origin.file());
        assert_eq!(error.clone().routine("int4div").report().origin.routine(), "int4div");
        assert_eq!(error, err!(DIVISION_BY_ZERO, "division by zero"));
    }
}
