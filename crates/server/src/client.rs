//! The session's client at the far end of a socket: what a session says is encoded straight into the output buffer.

use std::io;

use cairn_sql::{Client, Format, ResultShape};
use cairn_types::{Datum, Env, Error, Oid, Result, Severity, err};

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
}

/// The error of a connection that is gone: nobody will read it, but the log.
pub fn connection_lost(error: &io::Error) -> Error {
    err!(CONNECTION_FAILURE, "connection to client lost: {error}").severity(Severity::Fatal)
}

impl WireClient {
    /// Sends what is in the buffer.
    pub fn send(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(self.output.as_bytes())?;
            self.output.clear();
        }
        Ok(())
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
            if value.is_null() {
                self.output.i32(-1);
                continue;
            }
            let at = self.output.len();
            self.output.i32(0);
            let raw = self.output.raw();
            let encoded = match shape.format(index) {
                Format::Text => {
                    cairn_sql::values::write_text(env, column.ty.oid, value, &mut self.scratch, raw)
                }
                Format::Binary => cairn_sql::values::write_binary(env, column.ty.oid, value, raw),
            };
            if let Err(error) = encoded {
                self.output.truncate(begin);
                return Err(error);
            }
            let length = (self.output.len() - at - 4) as u32;
            self.output.raw()[at..at + 4].copy_from_slice(&length.to_be_bytes());
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
}
