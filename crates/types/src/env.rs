//! What a function or a type's input and output may ask of the session that runs it.
//!
//! `types` and `functions` know nothing of sessions, catalogs or transactions: they see them through
//! [`Env`], which `cairn-sql` implements.

use crate::{Datum, EnumValue, Oid, Result, Text};

/// The session around a running function. All methods take `&self`; an implementation uses cells.
pub trait Env {
    /// The settings that shape input and output; cheap to read.
    fn format(&self) -> &FormatSettings;
    /// Any setting by name, lower case, as `SHOW` prints it; `None` for an unknown one.
    fn setting(&self, name: &str) -> Option<String>;
    /// `set_config`.
    fn set_setting(&self, name: &str, value: &str, local: bool) -> Result<()>;

    /// Microseconds since 2000-01-01 UTC: `now()`, `statement_timestamp()`, `clock_timestamp()`.
    fn transaction_time(&self) -> i64;
    fn statement_time(&self) -> i64;
    fn clock_time(&self) -> i64;

    /// 57014 if the statement was cancelled or has timed out; long loops call it now and then.
    fn check_interrupts(&self) -> Result<()>;
    /// Sleeps in a way that a cancel request ends (`pg_sleep`).
    fn sleep(&self, seconds: f64) -> Result<()>;
    fn random(&self) -> f64;
    fn set_seed(&self, seed: f64);
    fn notice(&self, notice: crate::Error);

    fn current_user(&self) -> Text;
    fn session_user(&self) -> Text;
    fn current_database(&self) -> Text;
    fn backend_pid(&self) -> i32;

    /// Whether `create extension name` was run in this database: the few built-in functions that an
    /// extension changes ask for it, where they would behave differently, never per row.
    fn extension_installed(&self, name: &str) -> bool;

    // The catalog.
    /// The form in which [`crate::io`] reads and writes the type; `None` if there is no such type.
    fn type_shape(&self, type_oid: Oid) -> Option<TypeShape>;
    /// `format_type(oid, typmod)`, for example `character varying(10)`.
    fn format_type(&self, type_oid: Oid, typmod: i32) -> String;
    /// Parses a type name as written in SQL, with its modifier: `regtype` input, casts in dynamic SQL.
    fn parse_type(&self, name: &str) -> Result<(Oid, i32)>;
    fn enum_label(&self, value: Oid) -> Option<Text>;
    fn enum_value(&self, type_oid: Oid, label: &str) -> Option<EnumValue>;
    /// Output of regclass, regproc, regtype, regnamespace, ...: the name, qualified where the search
    /// path needs it; `None` if nothing has the oid.
    fn reg_name(&self, reg_type: Oid, object: Oid) -> Option<String>;
    /// Input of the reg* types: PostgreSQL's error where there is no such object.
    fn reg_lookup(&self, reg_type: Oid, name: &str) -> Result<Oid>;

    /// Checks a value of a domain's base type by the domain's NOT NULL and CHECK constraints, those of the domains under it
    /// included: 23502, 23514, or an error of a constraint's own. Input calls it for every value of a domain, nulls too.
    fn check_domain(&self, _domain: Oid, _value: &Datum) -> Result<()> {
        Ok(())
    }

    /// Input and output of an access list's item. A value holds its stored form, with roles by oid; SQL shows names.
    fn acl_item_input(&self, text: &str) -> Result<Text> {
        Ok(Text::from(text))
    }
    fn acl_item_output(&self, stored: &str) -> String {
        stored.to_owned()
    }

    /// Functions that need the catalog or the storage (nextval, pg_get_expr, pg_table_size, ...): called by
    /// the bodies registered under `name`, which is the row's `prosrc`.
    fn system_function(&self, name: &str, args: &[Datum], call: &CallInfo<'_>) -> Result<Datum>;
}

/// What a function's body may know of the call that it serves.
#[derive(Clone, Copy)]
pub struct CallInfo<'a> {
    /// The actual argument types (after coercion), one per argument.
    pub arg_types: &'a [Oid],
    pub result_type: Oid,
    pub collation: Oid,
    /// The columns that a record-returning call must deliver: its column definition list
    /// (`as (a int, b text)`) or its OUT parameters; empty for every other call.
    pub columns: &'a [crate::RecordField],
    /// The call said `VARIADIC` (or the analyzer gathered the arguments): the last argument is an array that
    /// carries the variadic ones. Only bodies with `VARIADIC "any"` need it, to tell `concat(array)` from
    /// `concat(variadic array)`.
    pub variadic: bool,
}

/// How a type is read and written.
#[derive(Clone, Debug)]
pub enum TypeShape {
    /// A built-in type, whose oid selects the code.
    Base,
    Array {
        element: Oid,
        delimiter: char,
    },
    Enum,
    Domain {
        base: Oid,
        typmod: i32,
    },
    /// Attribute names and types, dropped ones left out.
    Composite {
        fields: std::sync::Arc<[crate::RecordField]>,
    },
    Pseudo,
}

/// The settings that input and output functions obey.
#[derive(Clone, Debug)]
pub struct FormatSettings {
    pub date_style: DateStyle,
    pub date_order: DateOrder,
    pub interval_style: IntervalStyle,
    pub time_zone: TimeZone,
    /// `extra_float_digits`; above 0 means shortest exact output.
    pub extra_float_digits: i32,
    pub bytea_hex: bool,
    pub standard_conforming_strings: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateStyle {
    Iso,
    Postgres,
    Sql,
    German,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateOrder {
    Mdy,
    Dmy,
    Ymd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalStyle {
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

/// The session's time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeZone {
    /// A zone of the IANA database, by its canonical name.
    Named(jiff::tz::TimeZone),
    /// One that a rule describes (`CET-1CEST,M3.5.0,M10.5.0/3`, `<+03>-03`).
    Posix(std::sync::Arc<crate::datetime::posix_zone::PosixZone>),
    /// A fixed offset in seconds east of UTC.
    Fixed(i32),
}

impl Default for FormatSettings {
    fn default() -> Self {
        FormatSettings {
            date_style: DateStyle::Iso,
            date_order: DateOrder::Mdy,
            interval_style: IntervalStyle::Postgres,
            time_zone: TimeZone::Fixed(0),
            extra_float_digits: 1,
            bytea_hex: true,
            standard_conforming_strings: true,
        }
    }
}
