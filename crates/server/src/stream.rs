//! The two ends of a connection: a buffered way in, a way out, plain or through TLS.
//!
//! Both directions use one blocking socket, so that a request costs one `read` and its answer one `write`. The input
//! buffer is small while a client is idle, grows with what actually arrives (a length in a header is a claim, no
//! reason to allocate), and shrinks again after a large message.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What a connection keeps between messages.
const IDLE_BUFFER_BYTES: usize = 8 * 1024;
/// What one keeps that rests.
const RESTING_BUFFER_BYTES: usize = 512;

/// A socket that its thread shares with whoever may have to wake it.
pub struct Socket(pub Arc<TcpStream>);

/// Wakes a connection that waits for its client without ending it. Costs nothing until a session listens.
#[derive(Debug, Default)]
pub struct Bell {
    /// The end that is written, and the one that is waited for.
    ends: OnceLock<(UnixStream, UnixStream)>,
}

impl Bell {
    /// From now on [`Bell::ring`] is heard.
    fn install(&self) -> io::Result<&UnixStream> {
        if self.ends.get().is_none() {
            let ends = UnixStream::pair()?;
            ends.0.set_nonblocking(true)?;
            ends.1.set_nonblocking(true)?;
            // Only the connection's own thread gets here.
            let _ = self.ends.set(ends);
        }
        self.ends.get().map(|ends| &ends.1).ok_or_else(|| io::Error::other("no bell"))
    }

    pub fn ring(&self) {
        if let Some((write, _)) = self.ends.get() {
            // Full means that it has been rung.
            if let Err(error) = (&*write).write(&[0]) {
                tracing::trace!(%error, "a bell that rings already");
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Transport {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Transport {
    fn socket(&self) -> &TcpStream {
        match self {
            Transport::Plain(socket) => &socket.0,
            Transport::Tls(tls) => &tls.sock.0,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.read(buffer),
            Transport::Tls(tls) => match tls.read(buffer) {
                // A peer that closes without TLS's farewell has closed all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        }
    }

    /// Whether TLS has something decrypted that was not read yet.
    fn has_plaintext(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => !tls.conn.wants_read(),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => socket.write_all(bytes),
            Transport::Tls(tls) => {
                tls.write_all(bytes)?;
                tls.flush()
            }
        }
    }
}

/// How reading a message ended.
pub enum Incoming {
    /// A message: its type (0 for the untyped first packet); the body is [`Stream::body`].
    Message(u8),
    /// The length cannot be right: the connection is out of step.
    InvalidLength,
    /// The message was larger than allowed. It was skipped, and the stream is in step.
    TooLarge { kind: u8, length: usize },
    /// The client is gone, or somebody woke us by shutting the read side down.
    Closed,
    /// The read timeout that was set ran out before anything came.
    TimedOut,
    /// The bell rang before anything came; only [`Stream::wait_or_bell`].
    Rung,
}

pub struct Stream {
    transport: Transport,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that have been taken, and that have been read.
    start: usize,
    end: usize,
    body: std::ops::Range<usize>,
    timeout: Option<Duration>,
    /// The buffer is small until something comes.
    resting: bool,
}

impl Stream {
    pub fn new(socket: Socket) -> Self {
        Stream {
            transport: Transport::Plain(socket),
            buffer: vec![0; IDLE_BUFFER_BYTES],
            start: 0,
            end: 0,
            body: 0..0,
            timeout: None,
            resting: false,
        }
    }

    pub fn socket(&self) -> &TcpStream {
        self.transport.socket()
    }

    /// The socket, if what is written to it goes to the client as it is.
    pub fn plain_socket(&self) -> Option<Arc<TcpStream>> {
        match &self.transport {
            Transport::Plain(socket) => Some(socket.0.clone()),
            Transport::Tls(_) => None,
        }
    }

    pub fn is_encrypted(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }

    /// Whether bytes wait in the buffer; before TLS begins there must be none, for somebody else may have put them there.
    pub fn has_buffered(&self) -> bool {
        self.start < self.end
    }

    /// What the connection is encrypted with.
    pub fn tls(&self) -> Option<cairn_sql::Tls> {
        let Transport::Tls(stream) = &self.transport else { return None };
        let version = match stream.conn.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let suite = stream.conn.negotiated_cipher_suite()?.suite().as_str().unwrap_or_default();
        // This library calls a suite of TLS 1.3 `TLS13_AES_256_GCM_SHA384`.
        let cipher = suite.replacen("TLS13_", "TLS_", 1);
        let bits = if cipher.contains("AES_128") { 128 } else { 256 };
        Some(cairn_sql::Tls { version, cipher, bits })
    }

    /// Goes on in TLS.
    pub fn start_tls(self, config: Arc<ServerConfig>) -> io::Result<Self> {
        let Stream { transport, buffer, timeout, .. } = self;
        let Transport::Plain(socket) = transport else {
            return Err(io::Error::other("TLS has begun already"));
        };
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(connection, socket);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock)?;
        }
        let transport = Transport::Tls(Box::new(tls));
        Ok(Stream { transport, buffer, start: 0, end: 0, body: 0..0, timeout, resting: false })
    }

    /// The client is not expected to say anything soon: keeps little memory until it does.
    pub fn rest(&mut self) {
        if self.start == self.end {
            (self.start, self.end, self.body) = (0, 0, 0..0);
            self.buffer = vec![0; RESTING_BUFFER_BYTES];
            self.resting = true;
        }
    }

    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.timeout != timeout {
            self.socket().set_read_timeout(timeout)?;
            self.timeout = timeout;
        }
        Ok(())
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes)
    }

    /// Waits for the first packet, which has no type.
    pub fn next_untyped(&mut self, size_max: usize) -> io::Result<Incoming> {
        self.receive(4, size_max)
    }

    /// Makes sure that the bell is heard: before looking for what it announces.
    pub fn hear(&self, bell: &Bell) -> io::Result<()> {
        bell.install().map(|_| ())
    }

    /// Waits until the client says something (`None`: read it), the timeout runs out, or the bell rings.
    pub fn wait_or_bell(&mut self, bell: &Bell) -> io::Result<Option<Incoming>> {
        if self.has_buffered() || self.transport.has_plaintext() {
            return Ok(None);
        }
        let ring = bell.install()?;
        let timeout = match self.timeout {
            Some(timeout) => Some(Timespec::try_from(timeout).map_err(io::Error::other)?),
            None => None,
        };
        let mut sources =
            [PollFd::new(self.transport.socket(), PollFlags::IN), PollFd::new(ring, PollFlags::IN)];
        let ready = match poll(&mut sources, timeout.as_ref()) {
            Ok(ready) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(Some(Incoming::Rung)),
            Err(error) => return Err(error.into()),
        };
        let [client, bell] = sources.map(|source| !source.revents().is_empty());
        if bell {
            let mut drained = [0; 64];
            while (&*ring).read(&mut drained).is_ok_and(|count| count == drained.len()) {}
            return Ok(Some(Incoming::Rung));
        }
        Ok(match (ready, client) {
            (0, _) => Some(Incoming::TimedOut),
            _ => None,
        })
    }

    /// Waits for the next message. Its body stays until the next call.
    pub fn next(&mut self, size_max: usize) -> io::Result<Incoming> {
        self.receive(5, size_max)
    }

    fn receive(&mut self, header_bytes: usize, size_max: usize) -> io::Result<Incoming> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > 32 * IDLE_BUFFER_BYTES {
                self.buffer = vec![0; IDLE_BUFFER_BYTES];
            } else if !self.resting && self.buffer.len() < IDLE_BUFFER_BYTES {
                self.buffer.resize(IDLE_BUFFER_BYTES, 0);
            }
        }
        match self.fill(header_bytes) {
            Ok(true) => {}
            Ok(false) => return Ok(Incoming::Closed),
            Err(error) if is_timeout(&error) => return Ok(Incoming::TimedOut),
            Err(error) => return Err(error),
        }
        let header = &self.buffer[self.start..self.start + header_bytes];
        let kind = if header_bytes == 5 { header[0] } else { 0 };
        let mut length = [0; 4];
        length.copy_from_slice(&header[header_bytes - 4..]);
        let length = i32::from_be_bytes(length);
        let Some(body_bytes) = usize::try_from(length).ok().and_then(|length| length.checked_sub(4)) else {
            return Ok(Incoming::InvalidLength);
        };
        self.start += header_bytes;
        if body_bytes > size_max {
            // A first packet that claims this much is no first packet: there is nothing to wait for.
            return Ok(if header_bytes == 4 || self.skip(body_bytes)? {
                Incoming::TooLarge { kind, length: body_bytes }
            } else {
                Incoming::Closed
            });
        }
        // A client may be slow in the middle of a message, but then it is not idle.
        loop {
            match self.fill(body_bytes) {
                Ok(true) => break,
                Ok(false) => return Ok(Incoming::Closed),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.body = self.start..self.start + body_bytes;
        self.start = self.body.end;
        self.resting = false;
        Ok(Incoming::Message(kind))
    }

    /// Reads until `wanted` bytes are in the buffer from `start` on; `false` at the end of the stream.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.end - self.start < wanted {
            if self.start + wanted > self.buffer.len() && self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.end == self.buffer.len() {
                self.buffer.resize((self.end * 2).max(IDLE_BUFFER_BYTES), 0);
            }
            match self.transport.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads over so many bytes without keeping them.
    fn skip(&mut self, mut bytes: usize) -> io::Result<bool> {
        loop {
            let taken = bytes.min(self.end - self.start);
            self.start += taken;
            bytes -= taken;
            if bytes == 0 {
                return Ok(true);
            }
            (self.start, self.end) = (0, 0);
            match self.transport.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end = count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted || is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The body of the message that [`Stream::next`] announced.
    pub fn body(&self) -> &[u8] {
        &self.buffer[self.body.clone()]
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
