//! The network side of Cairn: PostgreSQL's wire protocol over TCP and TLS.
//!
//! ```text
//! listener thread --accept--> one thread a connection: startup -> message loop -> Frontend (a session)
//! ```
//!
//! A connection's thread runs its statements itself, as plain blocking code: no hand-over between threads, and
//! sessions that wait (for a lock, the disk, their client) hold up nobody (docs/decisions/thread-per-connection.md).
//! What is above the protocol is behind [`cairn_sql::Backend`] and [`cairn_sql::Frontend`], so that the protocol is
//! tested without a database.

mod answer;
mod client;
mod connection;
mod rest;
mod scram;
mod session_client;
mod startup;
mod stream;
pub mod tls;
pub mod wire;

use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cairn_sql::{Backend, Wake};
use cairn_types::{Severity, err};
use parking_lot::{Condvar, Mutex};

use crate::stream::{Bell, Socket, Stream};

/// Address space for a connection's stack. Only what is touched takes memory; deep recursion is stopped before its end
/// (`cairn_exec::stack`).
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// How the server is to listen.
#[derive(Clone)]
pub struct Options {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Offered to clients that ask for TLS.
    pub tls: Option<Arc<tls::Identity>>,
    /// More get 53300.
    pub connections_max: usize,
    /// Larger messages are skipped and refused with 54000.
    pub message_size_max: usize,
}

impl Options {
    pub fn new(listen: SocketAddr) -> Self {
        Options { listen, tls: None, connections_max: 4000, message_size_max: wire::MESSAGE_SIZE_MAX }
    }
}

/// What all connections share.
struct Shared {
    options: Options,
    backend: Arc<dyn Backend>,
    stopping: AtomicBool,
    connections: Mutex<Connections>,
    /// Notified when a connection has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Connections {
    last: u64,
    open: HashMap<u64, Arc<TcpStream>>,
}

/// A running server; [`Server::stop`] ends it.
pub struct Server {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Binds the address and serves until [`Server::stop`].
    pub fn start(options: Options, backend: Arc<dyn Backend>) -> io::Result<Self> {
        let listener = Arc::new(listen(options.listen)?);
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            options,
            backend,
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Condvar::new(),
        });
        let accepting = {
            let (listener, shared) = (Arc::clone(&listener), Arc::clone(&shared));
            thread::Builder::new().name("listener".into()).spawn(move || accept(&listener, &shared))?
        };
        Ok(Server { shared, listener, address, accepting: Some(accepting) })
    }

    /// The address that it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nobody any more, tells every session to end (57P01), and waits for them, at most for so long.
    /// Returns whether all have ended.
    pub fn stop(mut self, patience: Duration) -> bool {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener's thread from its `accept`.
        if let Err(error) = socket2::SockRef::from(&*self.listener).shutdown(Shutdown::Both) {
            tracing::debug!(%error, "the listening socket was closed already");
        }
        if let Some(accepting) = self.accepting.take()
            && accepting.join().is_err()
        {
            tracing::error!("the listener panicked");
        }
        self.shared.backend.terminate_all();
        let deadline = Instant::now() + patience;
        let mut connections = self.shared.connections.lock();
        for socket in connections.open.values() {
            wake(socket);
        }
        while !connections.open.is_empty() {
            if self.shared.ended.wait_until(&mut connections, deadline).timed_out() {
                return connections.open.is_empty();
            }
        }
        true
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    // Hundreds of clients may come at once.
    socket.listen(4096)?;
    Ok(socket.into())
}

/// Ends a connection's wait for its client: reading finds the end of the stream, writing still works.
fn wake(socket: &TcpStream) {
    if let Err(error) = socket.shutdown(Shutdown::Read) {
        tracing::debug!(%error, "a connection was closed already");
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stopping.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok((socket, _)) => begin(socket, shared),
            Err(error) if shared.stopping.load(Ordering::SeqCst) => {
                tracing::debug!(%error, "the listener ends");
            }
            Err(error) => {
                // Out of file descriptors, mostly: connections that end will free some.
                tracing::warn!(%error, "could not accept a connection");
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Gives a new connection its thread.
fn begin(socket: TcpStream, shared: &Arc<Shared>) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
    let socket = Arc::new(socket);
    let id = {
        let mut connections = shared.connections.lock();
        if connections.open.len() >= shared.options.connections_max {
            drop(connections);
            return refuse(&socket);
        }
        connections.last += 1;
        let id = connections.last;
        connections.open.insert(id, Arc::clone(&socket));
        id
    };
    let guard = Registered { id, shared: Arc::clone(shared) };
    let for_thread = Arc::clone(&socket);
    let spawned =
        thread::Builder::new().name(format!("session {id}")).stack_size(STACK_BYTES).spawn(move || {
            let shared = Arc::clone(&guard.shared);
            let weak = Arc::downgrade(&for_thread);
            let bell = Arc::new(Bell::default());
            let ringing = Arc::clone(&bell);
            let wake_up = Box::new(move |reason| match reason {
                Wake::Notify => ringing.ring(),
                Wake::End => {
                    if let Some(socket) = weak.upgrade() {
                        wake(&socket);
                    }
                }
            });
            connection::serve(Stream::new(Socket(for_thread)), &shared, bell, wake_up);
            drop(guard);
        });
    if let Err(error) = spawned {
        tracing::warn!(%error, "could not start a thread for a connection");
        refuse(&socket);
    }
}

/// Takes the connection off the list when its thread ends, however that happens.
struct Registered {
    id: u64,
    shared: Arc<Shared>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.connections.lock().open.remove(&self.id);
        self.shared.ended.notify_all();
    }
}

/// Tells a client that there is no room for it. On a small thread of its own: the client's first packet is read
/// before, because closing a socket with unread bytes takes the answer back.
fn refuse(socket: &Arc<TcpStream>) {
    use std::io::{Read, Write};
    let mut socket = Socket(Arc::clone(socket));
    let refuse = move || {
        let mut output = wire::Output::default();
        let error = err!(TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        output.report(&error.severity(Severity::Fatal));
        let mut ignored = [0; 1024];
        let told = socket
            .0
            .set_read_timeout(Some(Duration::from_millis(500)))
            .and_then(|()| socket.read(&mut ignored))
            .and_then(|_| socket.write_all(output.as_bytes()))
            .and_then(|()| socket.0.shutdown(Shutdown::Write))
            .and_then(|()| socket.read(&mut ignored));
        if let Err(error) = told {
            tracing::debug!(%error, "could not tell a client that there are too many");
        }
    };
    if let Err(error) = thread::Builder::new().name("refusal".into()).stack_size(64 * 1024).spawn(refuse) {
        tracing::warn!(%error, "could not start a thread to refuse a connection");
    }
}
