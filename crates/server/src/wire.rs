//! PostgreSQL's frontend/backend protocol, version 3 (manual, chapter 55), as bytes.
//!
//! Every message after the first is
//!
//! ```text
//! +------+--------------------+---------------------+
//! | type | length (4 bytes,   | body                |
//! | byte | counts itself)     | (length - 4 bytes)  |
//! +------+--------------------+---------------------+
//! ```
//!
//! integers big endian, strings ended by a zero byte. The first message has no type byte.
//!
//! - [`Reader`] takes a body apart. It trusts nothing: what is missing or left over is 08P01.
//! - [`Output`] is the buffer that answers are written into. A message is opened with its type, its length is
//!   filled in when it is closed; rows are encoded in place, so that a value is copied once.
//! - [`startup`] reads the untyped first packet.
//!
//! The buffer is handed to the socket as a whole, one `write` for all that answers one request.

use cairn_types::{Error, Result, Severity, err};

/// Largest message that is read into memory, as in PostgreSQL: a gigabyte. A larger one is skipped and refused.
pub const MESSAGE_SIZE_MAX: usize = (1 << 30) - 1;
/// Largest first packet.
pub const STARTUP_SIZE_MAX: usize = 10_000;

/// Message types that a client sends.
pub mod frontend {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    /// PasswordMessage, SASLInitialResponse and SASLResponse.
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// Takes the body of one message apart.
pub struct Reader<'a> {
    rest: &'a [u8],
}

fn truncated() -> Error {
    err!(PROTOCOL_VIOLATION, "insufficient data left in message")
}

impl<'a> Reader<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or_else(truncated)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or_else(truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A count of things that follow; a negative one is a violation. (PostgreSQL's counts are 16 bits, unsigned
    /// where it matters: 65,535 parameters.)
    pub fn count(&mut self) -> Result<usize> {
        Ok(usize::from(u16::from_be_bytes(self.array()?)))
    }

    /// A string up to its zero byte, as UTF-8.
    pub fn string(&mut self) -> Result<&'a str> {
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or_else(|| err!(PROTOCOL_VIOLATION, "invalid string in message"))?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        utf8(text)
    }

    /// A value with its 4-byte length in front; -1 is NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.bytes(usize::try_from(length).map_err(|_| truncated())?).map(Some),
        }
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// To be called when all has been read.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(err!(PROTOCOL_VIOLATION, "invalid message format")) }
    }
}

/// Text from a client; PostgreSQL's error for what is not UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let from = error.valid_up_to();
        let lead = bytes.get(from).copied().unwrap_or(0);
        let expected = match lead {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        let listed: Vec<String> =
            bytes[from..].iter().take(expected).map(|byte| format!("0x{byte:02x}")).collect();
        err!(CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": {}", listed.join(" "))
    })
}

/// The answers that wait to be sent.
#[derive(Default)]
pub struct Output {
    bytes: Vec<u8>,
}

/// Where an open message began; given back to [`Output::close`].
#[must_use]
pub struct Open(usize);

impl Output {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the buffer; its memory is kept for the next answer unless that was an unusually large one.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(256 * 1024);
    }

    /// Gives the memory back as well.
    pub fn rest(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Takes back what was written since the buffer had this length.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    pub fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub fn open(&mut self, kind: u8) -> Open {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0]);
        Open(at)
    }

    /// Fills in the message's length; an error, with the message taken back, if it is too long for the protocol.
    pub fn close(&mut self, open: Open) -> Result<()> {
        let length = self.bytes.len() - open.0 - 1;
        if length > MESSAGE_SIZE_MAX {
            self.bytes.truncate(open.0);
            return Err(err!(PROGRAM_LIMIT_EXCEEDED, "message of {length} bytes is too long"));
        }
        let length = u32::try_from(length).expect("checked against a smaller limit");
        self.bytes[open.0 + 1..open.0 + 5].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// A message that is short by construction.
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Self)) {
        let open = self.open(kind);
        body(self);
        let at = open.0;
        if self.close(open).is_err() {
            tracing::error!(kind = %char::from(kind), at, "a message did not fit the protocol");
        }
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn i16(&mut self, value: i16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// A string and its end; a zero byte inside would end it early and is left out.
    pub fn string(&mut self, value: &str) {
        if value.as_bytes().contains(&0) {
            self.bytes.extend(value.bytes().filter(|&byte| byte != 0));
        } else {
            self.bytes.extend_from_slice(value.as_bytes());
        }
        self.bytes.push(0);
    }

    // The messages, in the order of the manual's section 55.7.

    pub fn authentication_ok(&mut self) {
        self.message(b'R', |out| out.i32(0));
    }

    pub fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        self.message(b'R', |out| {
            out.i32(10);
            mechanisms.iter().for_each(|name| out.string(name));
            out.u8(0);
        });
    }

    pub fn authentication_sasl_continue(&mut self, data: &str) {
        self.message(b'R', |out| {
            out.i32(11);
            out.bytes.extend_from_slice(data.as_bytes());
        });
    }

    pub fn authentication_sasl_final(&mut self, data: &str) {
        self.message(b'R', |out| {
            out.i32(12);
            out.bytes.extend_from_slice(data.as_bytes());
        });
    }

    pub fn backend_key_data(&mut self, pid: i32, secret: i32) {
        self.message(b'K', |out| {
            out.i32(pid);
            out.i32(secret);
        });
    }

    pub fn bind_complete(&mut self) {
        self.message(b'2', |_| ());
    }

    pub fn close_complete(&mut self) {
        self.message(b'3', |_| ());
    }

    pub fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |out| out.string(tag));
    }

    pub fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let open = self.open(b'd');
        self.bytes.extend_from_slice(data);
        self.close(open)
    }

    pub fn copy_done(&mut self) {
        self.message(b'c', |_| ());
    }

    /// CopyInResponse (`G`) or CopyOutResponse (`H`): all columns in one format.
    pub fn copy_response(&mut self, kind: u8, format: i16, columns: usize) {
        self.message(kind, |out| {
            out.u8(u8::from(format != 0));
            out.i16(columns as i16);
            for _ in 0..columns {
                out.i16(format);
            }
        });
    }

    pub fn empty_query_response(&mut self) {
        self.message(b'I', |_| ());
    }

    /// ErrorResponse, or NoticeResponse for what is less than an error.
    pub fn report(&mut self, error: &Error) {
        let report = error.report();
        let kind = if report.severity >= Severity::Error { b'E' } else { b'N' };
        self.message(kind, |out| {
            let mut field = |code: u8, value: &str| {
                out.u8(code);
                out.string(value);
            };
            let mut optional = |code: u8, value: Option<&str>| {
                if let Some(value) = value {
                    field(code, value);
                }
            };
            optional(b'S', Some(report.severity.as_str()));
            optional(b'V', Some(report.severity.as_str()));
            optional(b'C', Some(report.sqlstate.as_str()));
            optional(b'M', Some(&report.message));
            optional(b'D', report.detail.as_deref());
            optional(b'H', report.hint.as_deref());
            let position = report.location.map(|location| (location.saturating_add(1)).to_string());
            if report.internal_query.is_some() {
                optional(b'p', position.as_deref());
                optional(b'q', report.internal_query.as_deref());
            } else {
                optional(b'P', position.as_deref());
            }
            if !report.context.is_empty() {
                optional(b'W', Some(&report.context.join("\n")));
            }
            optional(b's', report.schema.as_deref());
            optional(b't', report.table.as_deref());
            optional(b'c', report.column.as_deref());
            optional(b'd', report.data_type.as_deref());
            optional(b'n', report.constraint.as_deref());
            optional(b'F', Some(report.origin.file()));
            optional(b'L', Some(&report.origin.line().to_string()));
            optional(b'R', Some(report.origin.routine()));
            out.u8(0);
        });
    }

    pub fn negotiate_protocol_version(&mut self, newest_minor: i32, unknown_options: &[String]) {
        self.message(b'v', |out| {
            out.i32(newest_minor);
            out.i32(unknown_options.len() as i32);
            unknown_options.iter().for_each(|name| out.string(name));
        });
    }

    pub fn no_data(&mut self) {
        self.message(b'n', |_| ());
    }

    pub fn parameter_description(&mut self, types: &[u32]) {
        self.message(b't', |out| {
            out.i16(types.len() as i16);
            types.iter().for_each(|&oid| out.u32(oid));
        });
    }

    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            out.string(name);
            out.string(value);
        });
    }

    pub fn notification(&mut self, pid: i32, channel: &str, payload: &str) {
        self.message(b'A', |out| {
            out.i32(pid);
            out.string(channel);
            out.string(payload);
        });
    }

    pub fn parse_complete(&mut self) {
        self.message(b'1', |_| ());
    }

    pub fn portal_suspended(&mut self) {
        self.message(b's', |_| ());
    }

    /// `status`: `I` idle, `T` in a transaction block, `E` in a failed one.
    pub fn ready_for_query(&mut self, status: u8) {
        self.message(b'Z', |out| out.u8(status));
    }
}

/// The first packet of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum FirstPacket {
    Ssl,
    GssEncryption,
    Cancel { pid: i32, secret: i32 },
    Startup { minor: u16, parameters: Vec<(String, String)> },
}

const SSL_REQUEST: u32 = (1234 << 16) | 5679;
const GSS_ENCRYPTION_REQUEST: u32 = (1234 << 16) | 5680;
const CANCEL_REQUEST: u32 = (1234 << 16) | 5678;

/// Reads the body of the first packet (without its length).
pub fn startup(body: &[u8]) -> Result<FirstPacket> {
    let mut reader = Reader::new(body);
    let invalid =
        || err!(PROTOCOL_VIOLATION, "invalid startup packet layout: expected terminator as last byte");
    let code = reader.u32().map_err(|_| err!(PROTOCOL_VIOLATION, "invalid length of startup packet"))?;
    match code {
        SSL_REQUEST => return Ok(FirstPacket::Ssl),
        GSS_ENCRYPTION_REQUEST => return Ok(FirstPacket::GssEncryption),
        CANCEL_REQUEST => {
            let pid = reader.i32()?;
            return Ok(FirstPacket::Cancel { pid, secret: reader.i32()? });
        }
        _ => {}
    }
    let (major, minor) = ((code >> 16) as u16, code as u16);
    if major != 3 {
        return Err(err!(
            FEATURE_NOT_SUPPORTED,
            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"
        ));
    }
    let mut parameters = Vec::new();
    loop {
        let name = reader.string().map_err(|_| invalid())?;
        if name.is_empty() {
            break;
        }
        let value = reader.string().map_err(|_| invalid())?;
        parameters.push((name.to_owned(), value.to_owned()));
    }
    reader.end().map_err(|_| invalid())?;
    Ok(FirstPacket::Startup { minor, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_reads_past_the_end() {
        let mut reader = Reader::new(&[0, 0, 0, 5, b'a']);
        assert!(reader.value().is_err());
        assert!(Reader::new(b"no end").string().is_err());
        assert!(Reader::new(&[0xff; 4]).value().expect("NULL").is_none());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xfe]).value().is_err());
        assert!(Reader::new(b"x").end().is_err());
    }

    #[test]
    fn lengths_are_filled_in() {
        let mut output = Output::default();
        output.ready_for_query(b'I');
        output.command_complete("SELECT 1");
        assert_eq!(output.as_bytes(), b"Z\0\0\0\x05IC\0\0\0\x0dSELECT 1\0");
    }

    #[test]
    fn startup_packets() {
        assert_eq!(startup(&SSL_REQUEST.to_be_bytes()).expect("ssl"), FirstPacket::Ssl);
        let body = b"\0\x03\0\0user\0me\0database\0d\0\0";
        let expected = FirstPacket::Startup {
            minor: 0,
            parameters: vec![("user".into(), "me".into()), ("database".into(), "d".into())],
        };
        assert_eq!(startup(body).expect("valid"), expected);
        for end in 0..body.len() {
            assert!(startup(&body[..end]).is_err(), "{end}");
        }
        assert!(startup(b"\0\x02\0\0\0").is_err());
    }

    #[test]
    fn wrong_utf8_is_named_as_postgresql_does() {
        let error = utf8(b"a\xff").expect_err("not UTF-8");
        assert_eq!(error.message(), "invalid byte sequence for encoding \"UTF8\": 0xff");
    }
}
