//! What a session says to its client, and how.
//!
//! A [`Session`](crate::Session) never sees a socket: it talks to a [`Client`]. The server's client encodes straight
//! into its output buffer; the embedded library's collects rows. Calls arrive in the order in which PostgreSQL's
//! protocol sends the corresponding messages (manual, section 55.2).
//!
//! Errors of a statement are *returned* by the session's methods, not sent here: the caller reports them, because
//! what follows an error (ReadyForQuery, skipping to Sync) is the protocol's business.

use std::rc::Rc;
use std::sync::Arc;

use cairn_catalog::TypeRef;
use cairn_types::{Datum, Env, Error, Oid, Result, Text};

/// Text or binary, as the protocol's format codes 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Binary,
}

impl Format {
    /// The protocol's number for it; 22023 for any other than 0 and 1.
    pub fn from_code(code: i16) -> Result<Self> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(cairn_types::err!(INVALID_PARAMETER_VALUE, "unsupported format code: {code}")),
        }
    }

    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// The format of a value where none means text, and one holds for all.
pub fn format_of(formats: &[Format], index: usize) -> Format {
    match formats {
        [] => Format::Text,
        [one] => *one,
        many => many.get(index).copied().unwrap_or_default(),
    }
}

/// One column of a result, as RowDescription tells it.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    pub name: Text,
    pub ty: TypeRef,
    /// pg_type.typlen.
    pub type_length: i16,
    /// Table and attribute that it comes from; 0 if it is computed.
    pub origin_table: Oid,
    pub origin_column: i16,
}

/// The columns of a result and the format in which each is to be sent.
#[derive(Clone, Debug)]
pub struct ResultShape {
    pub columns: Arc<[ResultColumn]>,
    /// Empty: all text; one: for all columns; else one per column.
    pub formats: Vec<Format>,
}

impl ResultShape {
    pub fn text(columns: Arc<[ResultColumn]>) -> Self {
        ResultShape { columns, formats: Vec::new() }
    }

    pub fn format(&self, column: usize) -> Format {
        format_of(&self.formats, column)
    }
}

/// What the client may ask of the session while it takes or gives data.
pub trait Client {
    /// The columns of the rows that follow (or would follow, for Describe).
    fn row_description(&mut self, shape: &ResultShape);
    /// Describe of something that returns no rows.
    fn no_data(&mut self);
    /// Describe of a statement: the types of its parameters.
    fn parameter_description(&mut self, types: &[Oid]);
    /// One row; `env` gives the settings that shape its text.
    fn row(&mut self, shape: &ResultShape, env: &dyn Env, row: &[Datum]) -> Result<()>;
    /// A statement is done: its tag, for example `INSERT 0 1`.
    fn command_complete(&mut self, tag: &str);
    fn empty_query(&mut self);
    /// Execute reached its row limit; the portal can go on.
    fn portal_suspended(&mut self);
    /// A notice or warning that no [`Outlet`] has taken.
    fn notice(&mut self, notice: &Error);
    /// A setting that clients are told about has changed.
    fn parameter_status(&mut self, name: &str, value: &str);

    /// Whether so much waits to be sent that it should be, before more is added. The session makes sure
    /// that what the rows were read from is durable, then calls [`Client::flush`].
    fn wants_flush(&self) -> bool;
    fn flush(&mut self) -> Result<()>;

    /// COPY FROM STDIN begins: overall format and number of columns.
    fn copy_in_begin(&mut self, format: Format, columns: usize) -> Result<()>;
    /// The next piece of data, appended to `buffer`; `false` at the end. An error if the client gave up.
    fn copy_in_read(&mut self, buffer: &mut Vec<u8>) -> Result<bool>;
    fn copy_out_begin(&mut self, format: Format, columns: usize) -> Result<()>;
    /// One row (or header) of COPY TO STDOUT, as it goes over the wire.
    fn copy_out_data(&mut self, data: &[u8]) -> Result<()>;
    fn copy_out_end(&mut self) -> Result<()>;

    /// What a function gave that the client called by its oid.
    fn function_result(&mut self, ty: Oid, format: Format, env: &dyn Env, value: &Datum) -> Result<()>;
}

/// The way of a notice to the client from within a statement, past whoever holds the [`Client`].
pub trait Outlet {
    /// Sends a notice, behind everything that the client was given before. `false`: not now, for the client is in the middle
    /// of a row; the session gives it to [`Client::notice`] later. An error if the client is gone.
    fn notice(&self, notice: &Error) -> Result<bool>;
}

/// State of the transaction, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// What another session (or this one) has said on a channel that the session listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The session that said it.
    pub pid: i32,
    pub channel: Text,
    pub payload: Text,
}

/// Why a connection's wait for its client's next message is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The session is to end.
    End,
    /// There are notifications for the client.
    Notify,
}

/// What a client says about itself when it connects.
#[derive(Clone, Debug, Default)]
pub struct Startup {
    pub user: String,
    pub database: String,
    /// Settings from the startup packet (`application_name`, `-c` options), in order.
    pub settings: Vec<(String, String)>,
    /// Address of the client, for pg_stat_activity; empty for an embedded session.
    pub client_address: Option<std::net::SocketAddr>,
    /// Set where the connection is encrypted, for pg_stat_ssl.
    pub tls: Option<Tls>,
}

/// What protects a connection.
#[derive(Clone, Debug)]
pub struct Tls {
    /// As PostgreSQL names it: `TLSv1.3`.
    pub version: &'static str,
    /// As OpenSSL names it: `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// Length of the cipher's key.
    pub bits: i32,
}

/// One client's session as the protocol drives it. [`Session`](crate::Session) implements it; protocol tests have
/// a simple one of their own.
///
/// After an error the caller must stop feeding the extended protocol until Sync, as PostgreSQL does.
/// Locations in errors are character offsets into the text that the error belongs to.
pub trait Frontend {
    fn status(&self) -> TransactionStatus;
    /// Settings to be reported when the session begins.
    fn initial_parameters(&self) -> Vec<(String, String)>;
    fn pid(&self) -> i32;
    /// Secret that a cancel request must know.
    fn secret(&self) -> i32;

    fn simple_query(&mut self, text: &str, client: &mut dyn Client) -> Result<()>;
    fn parse(
        &mut self,
        name: &str,
        text: &str,
        parameter_types: &[Oid],
        client: &mut dyn Client,
    ) -> Result<()>;
    fn bind(&mut self, bind: Bind<'_>, client: &mut dyn Client) -> Result<()>;
    fn describe_statement(&mut self, name: &str, client: &mut dyn Client) -> Result<()>;
    fn describe_portal(&mut self, name: &str, client: &mut dyn Client) -> Result<()>;
    /// `max_rows` 0: all.
    fn execute(&mut self, portal: &str, max_rows: u32, client: &mut dyn Client) -> Result<()>;
    fn close_statement(&mut self, name: &str) -> Result<()>;
    fn close_portal(&mut self, name: &str) -> Result<()>;
    /// Calls a function without a statement; it is a transaction of its own, if no block is open.
    fn call_function(&mut self, call: FunctionCall<'_>, client: &mut dyn Client) -> Result<()>;
    /// Ends the implicit transaction, if no block is open.
    fn sync(&mut self, client: &mut dyn Client) -> Result<()>;
    /// The protocol itself failed (bad message): as if the current statement had.
    fn fail(&mut self);
    /// How long the session may stay idle now before it must be ended with [`Frontend::idle_error`]; `None`: for ever.
    fn idle_timeout(&self) -> Option<std::time::Duration>;
    fn idle_error(&self) -> Error;
    /// Whether the session was told to end (shutdown, pg_terminate_backend); asked when it would wait for its client.
    fn terminated(&self) -> Option<Error>;
    /// The caller undertakes to pay before it sends anything of what the session says. Without it, the session waits by itself.
    fn defer_debt(&self) -> Option<Arc<crate::Debt>> {
        None
    }
    /// From now on notices go this way, the moment they are raised. Without it, they wait for the statement's next row or its end.
    fn say_notices_through(&mut self, _outlet: Rc<dyn Outlet>) {}
    /// Whether notifications may come while the client says nothing.
    fn is_listening(&self) -> bool {
        false
    }
    /// What the client is to be told now; nothing inside of a transaction block.
    fn notifications(&mut self) -> Vec<Notification> {
        Vec::new()
    }
}

/// A Bind message, its values still raw.
#[derive(Clone, Debug)]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    /// As in [`ResultShape::formats`].
    pub parameter_formats: Vec<Format>,
    pub parameters: Vec<Option<&'a [u8]>>,
    pub result_formats: Vec<Format>,
}

/// A FunctionCall message, its values still raw.
#[derive(Clone, Debug)]
pub struct FunctionCall<'a> {
    pub function: Oid,
    /// As in [`ResultShape::formats`].
    pub argument_formats: Vec<Format>,
    pub arguments: Vec<Option<&'a [u8]>>,
    pub result_format: Format,
}

/// How a user proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all.
    Trusted,
    /// By a password, of which this is the verifier (`SCRAM-SHA-256$...`).
    Password(String),
    /// It cannot: there is no such role, or it has no password that holds. The client goes through the same exchange as with
    /// one, over this salt, and is refused at the end of it, so that nobody finds out which roles there are.
    Refused { salt: [u8; 16] },
}

/// Where sessions come from; the server holds one. [`Instance`](crate::Instance) implements it.
pub trait Backend: Send + Sync {
    /// What a client must prove to be this user. `local`: it connects from this machine. 28000 from elsewhere, as long as no
    /// role has a password.
    fn credentials(&self, user: &str, local: bool) -> Result<Credentials>;
    /// Opens a session for an authenticated client; 28000 for a role that may not log in. `wake` ends a wait for the client's next message.
    fn open(&self, startup: Startup, wake: Box<dyn Fn(Wake) + Send + Sync>) -> Result<Box<dyn Frontend>>;
    /// A cancel request; wrong ones are ignored.
    fn cancel(&self, pid: i32, secret: i32);
    /// Tells every session to end.
    fn terminate_all(&self);
}
