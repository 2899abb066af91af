//! The session's client at the far end of a socket: what a session says is encoded straight into the output buffer.

use std::io;
use std::sync::Arc;

use cairn_sql::{Client, Debt, Format, ResultShape};
use cairn_types::{Datum, Env, Error, Oid, Result, Severity, err};

use crate::answer::{LATE_ANSWER_BYTES_MAX, LateAnswer};
use crate::stream::{Incoming, Stream};
use crate::wire::{Output, Reader, frontend};

/// So much is gathered before it is sent in the middle of a result.
const FLUSH_BYTES: usize = 64 * 1024;

/// A connection's stream and its output buffer.
pub struct WireClient {
    pub stream: Stream,
    pub output: Output,
    pub message_size_max: usize,
    /// A value's text on its way into the output.
    pub scratch: String,
    /// What must be durable before anything is sent; as soon as there is a session.
    debt: Option<Arc<Debt>>,
    late: Option<Arc<LateAnswer>>,
    /// Writing has failed: part of a message may be out, and nothing may follow it.
    lost: Option<io::ErrorKind>,
}

/// The error of a connection that is gone: nobody will read it, but the log.
pub fn connection_lost(error: &io::Error) -> Error {
    err!(CONNECTION_FAILURE, "connection to client lost: {error}").severity(Severity::Fatal)
}

impl WireClient {
    pub fn new(stream: Stream, message_size_max: usize) -> Self {
        let (output, scratch) = (Output::default(), String::new());
        WireClient { stream, output, message_size_max, scratch, debt: None, late: None, lost: None }
    }

    /// From now on pays for the session before anything is sent.
    pub fn pay_for(&mut self, debt: Option<Arc<Debt>>) {
        self.late = match &debt {
            Some(_) => self.stream.plain_socket().map(LateAnswer::new),
            None => None,
        };
        self.debt = debt;
    }

    /// Nothing is going to be said for a while.
    pub fn rest(&mut self) {
        self.stream.rest();
        self.output.rest();
        self.scratch = String::new();
        if let Some(late) = &self.late {
            late.rest();
        }
    }

    /// Sends what is in the buffer. After an error there is nothing more to send to: it stays.
    pub fn send(&mut self) -> io::Result<()> {
        if let Some(kind) = self.lost {
            self.output.clear();
            return Err(kind.into());
        }
        if !self.output.is_empty() {
            if let Some(debt) = &self.debt {
                debt.pay();
            }
            if let Some(late) = &self.late {
                late.wait();
            }
            let written = self.stream.write_all(self.output.as_bytes());
            self.output.clear();
            self.lost = written.as_ref().err().map(io::Error::kind);
            return written;
        }
        Ok(())
    }

    /// A value with its length in front. After an error, the caller takes the whole message back.
    fn value(&mut self, ty: Oid, format: Format, env: &dyn Env, value: &Datum) -> Result<()> {
        if value.is_null() {
            self.output.i32(-1);
            return Ok(());
        }
        let at = self.output.len();
        self.output.i32(0);
        let raw = self.output.raw();
        match format {
            Format::Text => cairn_sql::values::write_text(env, ty, value, &mut self.scratch, raw)?,
            Format::Binary => cairn_sql::values::write_binary(env, ty, value, raw)?,
        }
        let length = (self.output.len() - at - 4) as u32;
        self.output.raw()[at..at + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Sends what is in the buffer, or has it sent as soon as may be: what comes next is the client's turn.
    pub fn send_and_go_on(&mut self) -> io::Result<()> {
        match (&self.debt, &self.late) {
            (Some(debt), Some(late))
                if debt.is_open() && self.lost.is_none() && self.output.len() <= LATE_ANSWER_BYTES_MAX =>
            {
                late.wait();
                late.open(self.output.raw());
                debt.pay_with(late.clone());
                Ok(())
            }
            _ => self.send(),
        }
    }
}

impl Client for WireClient {
    fn row_description(&mut self, shape: &ResultShape) {
        let open = self.output.open(b'T');
        self.output.i16(shape.columns.len() as i16);
        for (index, column) in shape.columns.iter().enumerate() {
            self.output.string(&column.name);
            self.output.u32(column.origin_table);
            self.output.i16(column.origin_column);
            self.output.u32(column.ty.oid);
            self.output.i16(column.type_length);
            self.output.i32(column.ty.typmod);
            self.output.i16(shape.format(index).code());
        }
        if let Err(error) = self.output.close(open) {
            tracing::error!(%error, "a row description did not fit the protocol");
        }
    }

    fn no_data(&mut self) {
        self.output.no_data();
    }

    fn parameter_description(&mut self, types: &[Oid]) {
        self.output.parameter_description(types);
    }

    fn row(&mut self, shape: &ResultShape, env: &dyn Env, row: &[Datum]) -> Result<()> {
        let open = self.output.open(b'D');
        let begin = self.output.len() - 5;
        self.output.i16(row.len() as i16);
        for (index, (value, column)) in row.iter().zip(shape.columns.iter()).enumerate() {
            if let Err(error) = self.value(column.ty.oid, shape.format(index), env, value) {
                self.output.truncate(begin);
                return Err(error);
            }
        }
        self.output.close(open)
    }

    fn command_complete(&mut self, tag: &str) {
        self.output.command_complete(tag);
    }

    fn empty_query(&mut self) {
        self.output.empty_query_response();
    }

    fn portal_suspended(&mut self) {
        self.output.portal_suspended();
    }

    fn notice(&mut self, notice: &Error) {
        self.output.report(notice);
    }

    fn parameter_status(&mut self, name: &str, value: &str) {
        self.output.parameter_status(name, value);
    }

    fn wants_flush(&self) -> bool {
        self.output.len() >= FLUSH_BYTES
    }

    fn flush(&mut self) -> Result<()> {
        self.send().map_err(|error| connection_lost(&error))
    }

    fn copy_in_begin(&mut self, format: Format, columns: usize) -> Result<()> {
        self.output.copy_response(b'G', format.code(), columns);
        self.flush()
    }

    fn copy_in_read(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        loop {
            match self.stream.next(self.message_size_max).map_err(|error| connection_lost(&error))? {
                Incoming::Message(frontend::COPY_DATA) => {
                    buffer.extend_from_slice(self.stream.body());
                    return Ok(true);
                }
                Incoming::Message(frontend::COPY_DONE) => return Ok(false),
                Incoming::Message(frontend::COPY_FAIL) => {
                    let reason = Reader::new(self.stream.body()).string()?;
                    return Err(err!(QUERY_CANCELED, "COPY from stdin failed: {reason}"));
                }
                // As the manual asks for: clients of the extended protocol may send these at once.
                Incoming::Message(frontend::FLUSH | frontend::SYNC) => {}
                Incoming::Message(kind) => {
                    return Err(err!(
                        PROTOCOL_VIOLATION,
                        "unexpected message type 0x{kind:02X} during COPY from stdin"
                    )
                    .severity(Severity::Fatal));
                }
                Incoming::TooLarge { length, .. } => {
                    return Err(err!(
                        PROGRAM_LIMIT_EXCEEDED,
                        "message of {length} bytes exceeds the limit of {} bytes",
                        self.message_size_max
                    ));
                }
                Incoming::InvalidLength => {
                    return Err(err!(PROTOCOL_VIOLATION, "invalid message length").severity(Severity::Fatal));
                }
                Incoming::Closed => {
                    return Err(err!(
                        CONNECTION_FAILURE,
                        "unexpected EOF on client connection with an open transaction"
                    )
                    .severity(Severity::Fatal));
                }
                Incoming::TimedOut | Incoming::Rung => {}
            }
        }
    }

    fn copy_out_begin(&mut self, format: Format, columns: usize) -> Result<()> {
        self.output.copy_response(b'H', format.code(), columns);
        Ok(())
    }

    fn copy_out_data(&mut self, data: &[u8]) -> Result<()> {
        self.output.copy_data(data)
    }

    fn copy_out_end(&mut self) -> Result<()> {
        self.output.copy_done();
        Ok(())
    }

    fn function_result(&mut self, ty: Oid, format: Format, env: &dyn Env, value: &Datum) -> Result<()> {
        let open = self.output.open(b'V');
        let begin = self.output.len() - 5;
        if let Err(error) = self.value(ty, format, env, value) {
            self.output.truncate(begin);
            return Err(error);
        }
        self.output.close(open)
    }
}
