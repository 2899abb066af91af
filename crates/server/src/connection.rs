//! One client's connection, from its first byte to its last: the message loop (manual, section 55.2.2 to 55.2.4).
//!
//! A thread of its own runs it. Answers are gathered and sent when the client waits for them: at ReadyForQuery and
//! Flush, with a notice or an error, or in between when a result is large. After an error in the extended protocol
//! everything up to the next Sync is skipped, so the error leaves at once: the client may be waiting for it before it
//! says Sync. Whatever goes wrong in here, a panic included, ends this connection at most.
//!
//! A connection whose client says nothing for a while *rests*: it gives back buffers, and the stack that statements have used ([`rest`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use cairn_sql::{Bind, Client, Format, Frontend, FunctionCall, TransactionStatus, Wake};
use cairn_types::{Error, Result, Severity, err};

use crate::Shared;
use crate::client::connection_lost;
use crate::rest;
use crate::session_client::SessionClient;
use crate::startup::{Started, start};
use crate::stream::{Bell, Incoming, Stream};
use crate::wire::{Reader, frontend};

/// Serves a connection until it ends.
pub fn serve(stream: Stream, shared: &Arc<Shared>, bell: Arc<Bell>, wake: Box<dyn Fn(Wake) + Send + Sync>) {
    let Some(Started { client, session }) = start(stream, shared, wake) else { return };
    let mut connection = Connection {
        client,
        session,
        bell,
        skipping: false,
        at_rest: true,
        resting: false,
        body: Vec::new(),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| connection.run()));
    let farewell = match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(connection.session.terminated().unwrap_or(error)),
        Err(_) => {
            tracing::error!(pid = connection.session.pid(), "a session panicked and is closed");
            connection.client.wire().output.clear();
            Some(err!(INTERNAL_ERROR, "internal error; the session is closed"))
        }
    };
    if let Some(error) = farewell {
        connection.client.wire().output.report(&error.severity(Severity::Fatal));
    }
    // Dropping the session rolls back what it left open; a panic there must not end more than this thread either.
    let Connection { client, session, .. } = connection;
    if catch_unwind(AssertUnwindSafe(|| drop(session))).is_err() {
        tracing::error!("a session panicked while it was closed");
    }
    if let Err(error) = client.wire().send() {
        tracing::debug!(%error, "client left before the last message");
    }
}

struct Connection {
    client: SessionClient,
    session: Box<dyn Frontend>,
    bell: Arc<Bell>,
    /// After an error in the extended protocol, until Sync.
    skipping: bool,
    /// Everything that the client has said is answered.
    at_rest: bool,
    /// Memory was given back since the client said something.
    resting: bool,
    /// The message at hand, copied out of the stream: the stream goes on during COPY.
    body: Vec<u8>,
}

/// Clients that think for longer than this have memory of theirs taken.
const REST_AFTER: Duration = Duration::from_secs(2);

/// What the loop does after a message.
enum Next {
    Continue,
    Close,
}

impl Connection {
    /// Ends with `Ok` when the client says goodbye or vanishes, with the error that the client is to be told else.
    fn run(&mut self) -> Result<()> {
        loop {
            let timeout = self.session.idle_timeout();
            let until_rest = timeout.map_or(REST_AFTER, |timeout| timeout.min(REST_AFTER));
            let patience = match timeout {
                _ if !self.resting => Some(until_rest),
                Some(timeout) => Some(timeout.saturating_sub(REST_AFTER).max(Duration::from_millis(1))),
                None => None,
            };
            self.client.wire().stream.set_timeout(patience).map_err(|error| connection_lost(&error))?;
            if let Some(error) = self.session.terminated() {
                return Err(error);
            }
            let incoming = self.next().map_err(|error| connection_lost(&error))?;
            if let Incoming::TimedOut = incoming
                && !self.resting
                && timeout.is_none_or(|timeout| timeout > REST_AFTER)
            {
                self.rest();
                continue;
            }
            self.resting = false;
            match incoming {
                Incoming::Message(kind) => {
                    self.at_rest = false;
                    self.body.clear();
                    self.body.extend_from_slice(self.client.wire().stream.body());
                    let body = std::mem::take(&mut self.body);
                    let next = self.message(kind, &body);
                    self.body = body;
                    if self.body.capacity() > 1024 * 1024 {
                        self.body = Vec::new();
                    }
                    match next? {
                        Next::Continue => {}
                        Next::Close => return Ok(()),
                    }
                }
                Incoming::TooLarge { kind, length } => self.too_large(kind, length)?,
                Incoming::InvalidLength => return Err(err!(PROTOCOL_VIOLATION, "invalid message length")),
                Incoming::TimedOut => return Err(self.session.idle_error()),
                Incoming::Rung => {
                    self.notifications();
                    self.client.flush()?;
                }
                Incoming::Closed => {
                    return match self.session.terminated() {
                        Some(error) => Err(error),
                        None => Ok(()),
                    };
                }
            }
        }
    }

    fn rest(&mut self) {
        self.resting = true;
        self.body = Vec::new();
        self.client.wire().rest();
        rest::release_stack();
    }

    /// The client's next message; for a session that listens, or a bell that rang.
    fn next(&mut self) -> std::io::Result<Incoming> {
        if self.at_rest && self.session.is_listening() {
            self.client.wire().stream.hear(&self.bell)?;
            // What came before the bell could be heard.
            self.notifications();
            self.client.wire().send()?;
            if let Some(incoming) = self.client.wire().stream.wait_or_bell(&self.bell)? {
                return Ok(incoming);
            }
        }
        let mut wire = self.client.wire();
        let size_max = wire.message_size_max;
        wire.stream.next(size_max)
    }

    /// Tells the client what the session has heard, unless it is in the middle of something.
    fn notifications(&mut self) {
        for notification in self.session.notifications() {
            let output = &mut self.client.wire().output;
            output.notification(notification.pid, &notification.channel, &notification.payload);
        }
    }

    fn message(&mut self, kind: u8, body: &[u8]) -> Result<Next> {
        match kind {
            frontend::TERMINATE => return Ok(Next::Close),
            frontend::SYNC => {
                self.skipping = false;
                let synced = Reader::new(body).end().and_then(|()| self.session.sync(&mut self.client));
                self.answer(synced)?;
                self.ready()?;
            }
            _ if self.skipping => {}
            frontend::QUERY => {
                let queried = self.query(body);
                self.answer(queried)?;
                self.ready()?;
            }
            frontend::FUNCTION_CALL => {
                let called = self.function_call(body);
                self.answer(called)?;
                self.ready()?;
            }
            frontend::FLUSH => self.client.flush()?,
            // What remains of a COPY that failed.
            frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => {}
            frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE => {
                if let Err(error) = self.extended(kind, body) {
                    self.skip_to_sync(error)?;
                }
            }
            _ => {
                return Err(err!(PROTOCOL_VIOLATION, "invalid frontend message type {kind}"));
            }
        }
        Ok(Next::Continue)
    }

    /// Reports a failed message; passes on an error that ends the connection.
    fn answer(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if error.report().severity >= Severity::Fatal => Err(error),
            Err(error) => {
                self.client.wire().output.report(&error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Reports a failed message of the extended protocol at once, and skips what follows up to Sync.
    fn skip_to_sync(&mut self, error: Error) -> Result<()> {
        self.skipping = true;
        self.answer(Err(error))?;
        self.client.flush()
    }

    fn ready(&mut self) -> Result<()> {
        let status = self.session.status();
        self.notifications();
        self.client.wire().output.ready_for_query(match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        });
        self.at_rest = true;
        self.client.wire().send_and_go_on().map_err(|error| connection_lost(&error))
    }

    fn query(&mut self, body: &[u8]) -> Result<()> {
        let text = self.well_formed(|| {
            let mut reader = Reader::new(body);
            let text = reader.string()?;
            reader.end()?;
            Ok(text)
        })?;
        self.session.simple_query(text, &mut self.client)
    }

    fn function_call(&mut self, body: &[u8]) -> Result<()> {
        let call = self.well_formed(|| read_function_call(Reader::new(body)))?;
        self.session.call_function(call, &mut self.client)
    }

    /// Takes a message apart; a malformed one counts as a failed statement.
    fn well_formed<T>(&mut self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        read().inspect_err(|_| self.session.fail())
    }

    fn extended(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let mut reader = Reader::new(body);
        match kind {
            frontend::PARSE => {
                let (name, text, types) = self.well_formed(|| {
                    let (name, text) = (reader.string()?, reader.string()?);
                    let types = (0..reader.count()?).map(|_| reader.u32()).collect::<Result<Vec<_>>>()?;
                    reader.end()?;
                    Ok((name, text, types))
                })?;
                self.session.parse(name, text, &types, &mut self.client)?;
                self.client.wire().output.parse_complete();
            }
            frontend::BIND => {
                let bind = self.well_formed(|| read_bind(reader))?;
                self.session.bind(bind, &mut self.client)?;
                self.client.wire().output.bind_complete();
            }
            frontend::DESCRIBE => match self.well_formed(|| read_target(reader, "DESCRIBE"))? {
                Target::Statement(name) => self.session.describe_statement(name, &mut self.client)?,
                Target::Portal(name) => self.session.describe_portal(name, &mut self.client)?,
            },
            frontend::EXECUTE => {
                let (portal, max_rows) = self.well_formed(|| {
                    let (portal, max_rows) = (reader.string()?, reader.i32()?);
                    reader.end()?;
                    Ok((portal, max_rows))
                })?;
                // PostgreSQL reads a negative limit as none.
                let max_rows = u32::try_from(max_rows).unwrap_or(0);
                self.session.execute(portal, max_rows, &mut self.client)?;
            }
            _ => {
                match self.well_formed(|| read_target(reader, "CLOSE"))? {
                    Target::Statement(name) => self.session.close_statement(name)?,
                    Target::Portal(name) => self.session.close_portal(name)?,
                }
                self.client.wire().output.close_complete();
            }
        }
        if self.client.wants_flush() {
            self.client.flush()?;
        }
        Ok(())
    }

    fn too_large(&mut self, kind: u8, length: usize) -> Result<()> {
        if self.skipping && kind != frontend::SYNC {
            return Ok(());
        }
        let error = err!(
            PROGRAM_LIMIT_EXCEEDED,
            "message of {length} bytes exceeds the limit of {} bytes",
            self.client.wire().message_size_max
        );
        match kind {
            frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => Ok(()),
            frontend::QUERY | frontend::FUNCTION_CALL => {
                self.session.fail();
                self.answer(Err(error))?;
                self.ready()
            }
            frontend::PARSE | frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE | frontend::CLOSE => {
                self.session.fail();
                self.skip_to_sync(error)
            }
            _ => Err(err!(PROTOCOL_VIOLATION, "invalid message length")),
        }
    }
}

fn read_formats(reader: &mut Reader<'_>) -> Result<Vec<Format>> {
    (0..reader.count()?).map(|_| Format::from_code(reader.i16()?)).collect()
}

fn read_function_call(mut reader: Reader<'_>) -> Result<FunctionCall<'_>> {
    let function = reader.u32()?;
    let argument_formats = read_formats(&mut reader)?;
    let arguments = (0..reader.count()?).map(|_| reader.value()).collect::<Result<Vec<_>>>()?;
    let result_format = Format::from_code(reader.i16()?)?;
    reader.end()?;
    Ok(FunctionCall { function, argument_formats, arguments, result_format })
}

fn read_bind(mut reader: Reader<'_>) -> Result<Bind<'_>> {
    let (portal, statement) = (reader.string()?, reader.string()?);
    let parameter_formats = read_formats(&mut reader)?;
    let count = reader.count()?;
    if parameter_formats.len() > 1 && parameter_formats.len() != count {
        return Err(err!(
            PROTOCOL_VIOLATION,
            "bind message has {} parameter formats but {count} parameters",
            parameter_formats.len()
        ));
    }
    let parameters = (0..count).map(|_| reader.value()).collect::<Result<Vec<_>>>()?;
    let result_formats = read_formats(&mut reader)?;
    reader.end()?;
    Ok(Bind { portal, statement, parameter_formats, parameters, result_formats })
}

enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

fn read_target<'a>(mut reader: Reader<'a>, message: &str) -> Result<Target<'a>> {
    let kind = reader.u8()?;
    let name = reader.string()?;
    reader.end()?;
    match kind {
        b'S' => Ok(Target::Statement(name)),
        b'P' => Ok(Target::Portal(name)),
        _ => Err(err!(PROTOCOL_VIOLATION, "invalid {message} message subtype {kind}")),
    }
}
