//! A server that only reads requests and sends fixed answers: what pgbench and the protocol leave for a
//! database on this machine. It frames messages, answers by the statement's first word, and does nothing else.

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

pub struct Ceiling {
    port: u16,
}

impl Ceiling {
    /// Serves until the process ends, a thread for each connection.
    pub fn start() -> io::Result<Ceiling> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        Ok(Ceiling { port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Ends, quietly, when the client goes or says what it should not.
fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::with_capacity(16 * 1024, stream.try_clone().ok()?);
    let mut buffer = vec![0; 64 * 1024];
    // Refuse encryption until the real start-up packet comes.
    loop {
        let length = read_length(&mut input, &mut buffer)?;
        let code = buffer.get(..length)?.first_chunk::<4>()?;
        if i32::from_be_bytes(*code) == 196_608 {
            break;
        }
        stream.write_all(b"N").ok()?;
    }
    let mut out = Vec::new();
    message(&mut out, b'R', &[0, 0, 0, 0]);
    message(&mut out, b'S', b"client_encoding\0UTF8\0");
    message(&mut out, b'S', b"server_version\x0015.0\0");
    message(&mut out, b'Z', b"I");
    stream.write_all(&out).ok()?;
    let mut in_block = false;
    loop {
        out.clear();
        let mut ready = false;
        while !ready {
            let mut kind = [0];
            input.read_exact(&mut kind).ok()?;
            let length = read_length(&mut input, &mut buffer)?;
            let body = buffer.get(..length)?;
            match kind[0] {
                b'Q' => {
                    answer(&mut out, body, &mut in_block, true);
                    ready = true;
                }
                b'P' => message(&mut out, b'1', &[]),
                b'B' => message(&mut out, b'2', &[]),
                b'D' => row_description(&mut out),
                b'E' => answer(&mut out, b"select", &mut in_block, false),
                b'S' => ready = true,
                b'X' => return None,
                _ => {}
            }
        }
        message(&mut out, b'Z', if in_block { b"T" } else { b"I" });
        stream.write_all(&out).ok()?;
    }
}

fn answer(out: &mut Vec<u8>, statement: &[u8], in_block: &mut bool, describe: bool) {
    let tag: &[u8] = match statement.first().map(u8::to_ascii_lowercase) {
        Some(b's') => {
            if describe {
                row_description(out);
            }
            message(out, b'D', &[0, 1, 0, 0, 0, 1, b'0']);
            b"SELECT 1\0"
        }
        Some(b'u') => b"UPDATE 1\0",
        Some(b'i') => b"INSERT 0 1\0",
        Some(b'b') => {
            *in_block = true;
            b"BEGIN\0"
        }
        _ => {
            *in_block = false;
            b"COMMIT\0"
        }
    };
    message(out, b'C', tag);
}

/// One column, `abalance`, of type int4.
fn row_description(out: &mut Vec<u8>) {
    let mut body = vec![0, 1];
    body.extend_from_slice(b"abalance\0");
    body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 4, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    message(out, b'T', &body);
}

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

/// Reads a message's length and its body into the buffer; the body's length.
fn read_length(stream: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok()?.checked_sub(4)?;
    stream.read_exact(buffer.get_mut(..length)?).ok()?;
    Some(length)
}
