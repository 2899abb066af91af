//! An answer that leaves its connection from another thread: the one that has just made durable what it tells.
//!
//! The connection's own thread goes on to wait for its client's next message and need not be woken in between. Before it
//! writes to the socket itself again, it waits until this answer is on its way ([`LateAnswer::wait`]), so that
//! the client receives everything in order.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cairn_sql::Answer;
use parking_lot::Mutex;
use rustix::net::{SendFlags, send};

/// Larger answers are sent by the connection itself, after it has waited.
pub const LATE_ANSWER_BYTES_MAX: usize = 8 << 10;

const SENT: u32 = 0;
const OPEN: u32 = 1;
/// Open, and the connection's thread sleeps until it is sent.
const AWAITED: u32 = 2;

/// One connection's; at most one answer is open at a time.
#[derive(Debug)]
pub struct LateAnswer {
    socket: Arc<TcpStream>,
    bytes: Mutex<Vec<u8>>,
    state: AtomicU32,
    me: std::sync::Weak<LateAnswer>,
}

impl LateAnswer {
    pub fn new(socket: Arc<TcpStream>) -> Arc<Self> {
        Arc::new_cyclic(|me| LateAnswer {
            socket,
            bytes: Mutex::default(),
            state: AtomicU32::new(SENT),
            me: me.clone(),
        })
    }

    /// Takes over the bytes of an answer, and gives an empty buffer for the next. None may be open.
    pub fn open(&self, answer: &mut Vec<u8>) {
        let mut bytes = self.bytes.lock();
        debug_assert!(bytes.is_empty());
        std::mem::swap(&mut *bytes, answer);
        self.state.store(OPEN, Ordering::Release);
    }

    /// Gives back the memory of answers that were sent.
    pub fn rest(&self) {
        let mut bytes = self.bytes.lock();
        if bytes.is_empty() {
            *bytes = Vec::new();
        }
    }

    /// Returns when no answer is open.
    pub fn wait(&self) {
        if self.state.load(Ordering::Acquire) == SENT {
            return;
        }
        let exchanged = self.state.compare_exchange(OPEN, AWAITED, Ordering::AcqRel, Ordering::Acquire);
        if exchanged.is_ok() {
            while self.state.load(Ordering::Acquire) == AWAITED {
                atomic_wait::wait(&self.state, AWAITED);
            }
        }
    }

    fn sent(&self) {
        if self.state.swap(SENT, Ordering::AcqRel) == AWAITED {
            atomic_wait::wake_all(&self.state);
        }
    }
}

impl Answer for LateAnswer {
    fn give(&self) {
        let mut bytes = self.bytes.lock();
        // A socket that fails is found broken when its connection reads from it.
        let sent = match send(&*self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => 0,
            Err(_) => bytes.len(),
        };
        if sent == bytes.len() {
            bytes.clear();
            bytes.shrink_to(LATE_ANSWER_BYTES_MAX);
            drop(bytes);
            return self.sent();
        }
        // The client does not read what it is sent: somebody else waits for it.
        let rest = bytes.split_off(sent);
        bytes.clear();
        drop(bytes);
        let Some(me) = self.me.upgrade() else { return };
        let spawned = std::thread::Builder::new().name("late answer".to_owned()).spawn(move || {
            if let Err(error) = (&*me.socket).write_all(&rest) {
                tracing::debug!(%error, "client left before its answer");
            }
            me.sent();
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for a slow client: it is disconnected");
            // Only a socket that is closed already cannot be shut down.
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
            self.sent();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    fn connected() -> (TcpStream, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Arc::new(listener.accept().unwrap().0))
    }

    fn read(client: &mut TcpStream, bytes: usize) -> Vec<u8> {
        let mut received = vec![0; bytes];
        client.read_exact(&mut received).unwrap();
        received
    }

    #[test]
    fn leaves_from_another_thread_and_in_order() {
        let (mut client, socket) = connected();
        let late = LateAnswer::new(socket.clone());
        for round in 0..200_u8 {
            let mut answer = vec![round; 3];
            late.open(&mut answer);
            assert!(answer.is_empty(), "the next answer begins with an empty buffer");
            let giver = late.clone();
            let thread = std::thread::spawn(move || giver.give());
            late.wait();
            (&*socket).write_all(&[255]).unwrap();
            thread.join().unwrap();
            assert_eq!(read(&mut client, 4), [round, round, round, 255]);
        }
    }

    #[test]
    fn a_client_that_does_not_read_holds_nobody_up() {
        let (mut client, socket) = connected();
        // Fills the socket.
        let mut before = 0;
        while let Ok(count) = send(&*socket, &[1; 4096], SendFlags::DONTWAIT) {
            before += count;
        }
        let late = LateAnswer::new(socket);
        late.open(&mut vec![2; LATE_ANSWER_BYTES_MAX]);
        late.give();
        assert_ne!(late.state.load(Ordering::Acquire), SENT);
        assert!(read(&mut client, before).iter().all(|&byte| byte == 1));
        assert_eq!(read(&mut client, LATE_ANSWER_BYTES_MAX), [2; LATE_ANSWER_BYTES_MAX]);
        late.wait();
    }

    #[test]
    fn a_client_that_left_is_no_reason_to_wait() {
        let (client, socket) = connected();
        drop(client);
        let late = LateAnswer::new(socket);
        for _ in 0..3 {
            late.open(&mut vec![3; 10]);
            late.give();
            late.wait();
        }
    }
}
