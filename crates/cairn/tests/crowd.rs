//! Many sessions at once: in line for one row, and idle.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use cairn_testkit::{Server, memory_bytes};
use postgres::{Client, NoTls};

const SESSIONS: usize = 300;

/// A client of the simple protocol that does not wait for answers unless it is told to.
struct Session {
    socket: TcpStream,
    pid: i32,
}

impl Session {
    fn open(server: &Server) -> Session {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        let mut session = Session { socket, pid: 0 };
        let body = [&196_608i32.to_be_bytes()[..], b"user\0postgres\0database\0postgres\0\0"].concat();
        session.send(&[], &body);
        session.wait();
        session
    }

    fn send(&mut self, kind: &[u8], body: &[u8]) {
        let length = (body.len() as i32 + 4).to_be_bytes();
        self.socket.write_all(&[kind, &length, body].concat()).expect("sent");
    }

    fn query(&mut self, text: &str) {
        self.send(b"Q", &[text.as_bytes(), b"\0"].concat());
    }

    /// Reads to ReadyForQuery.
    fn wait(&mut self) {
        loop {
            let mut header = [0; 5];
            self.socket.read_exact(&mut header).expect("an answer");
            let length = i32::from_be_bytes([header[1], header[2], header[3], header[4]]);
            let mut body = vec![0; length as usize - 4];
            self.socket.read_exact(&mut body).expect("its body");
            assert_ne!(header[0], b'E', "{}", String::from_utf8_lossy(&body));
            if header[0] == b'K' {
                self.pid = i32::from_be_bytes([body[0], body[1], body[2], body[3]]);
            }
            if header[0] == b'Z' {
                return;
            }
        }
    }
}

fn start() -> (Server, Client) {
    let server = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts");
    let options = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    let client = Client::connect(&options, NoTls).expect("a connection");
    (server, client)
}

/// Hundreds of sessions wait for a row. Its holder goes on as if they were not there; then all get it, in the order in which they came.
#[test]
fn in_line_for_a_row() {
    let (server, mut holder) = start();
    let setup = "create table hot (id int primary key, n int); insert into hot values (1, 0), (2, 0);
        create table served (at int generated always as identity primary key, pid int)";
    holder.batch_execute(setup).expect("tables");
    holder.batch_execute("begin; update hot set n = n + 1 where id = 1").expect("the row");
    let mut waiting: Vec<Session> = (0..SESSIONS).map(|_| Session::open(&server)).collect();
    // One comes after the other.
    let in_line = holder.prepare("select count(*) from pg_locks where not granted").expect("the view");
    let begin = Instant::now();
    let mut line: Vec<i32> = Vec::new();
    for session in &mut waiting {
        session.query(
            "update hot set n = n + 1 where id = 1; insert into served (pid) values (pg_backend_pid())",
        );
        line.push(session.pid);
        while holder.query_one(&in_line, &[]).expect("pg_locks").get::<_, i64>(0) < line.len() as i64 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} do not wait", line.len());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let begin = Instant::now();
    holder.batch_execute("update hot set n = n + 1 where id in (1, 2)").expect("the holder goes on");
    holder.batch_execute("commit").expect("the commit");
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?} with {SESSIONS} sessions in line");
    waiting.iter_mut().for_each(Session::wait);
    let served = holder.query("select pid from served order by at", &[]).expect("all are served");
    assert_eq!(served.len(), SESSIONS);
    assert_eq!(served.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), line);
    let n: i32 = holder.query_one("select n from hot where id = 1", &[]).expect("a row").get(0);
    assert_eq!(n as usize, SESSIONS + 2);
}

/// What a session has used for its statements is given back when its client is silent for a while.
#[test]
fn idle_sessions_take_little_memory() {
    let (server, mut client) = start();
    client
        .batch_execute("create table t (a int primary key, b text); insert into t values (1, 'x')")
        .expect("a table");
    let run = |sessions: &mut [Session], text: &str| {
        for session in sessions {
            session.query(text);
            session.wait();
        }
    };
    // The first of them make the server take what it needs anyway.
    let mut sessions: Vec<Session> = (0..SESSIONS / 3).map(|_| Session::open(&server)).collect();
    run(&mut sessions, "select b from t where a = 1");
    let before = memory_bytes(server.pid());
    let more = SESSIONS as u64;
    sessions.extend((0..more).map(|_| Session::open(&server)));
    run(&mut sessions, "select b from t where a = 1");
    let each = |server: &Server| memory_bytes(server.pid()).saturating_sub(before) / more;
    // 48 kB in an optimized build, of 1,950 sessions. Sessions whose stacks are not given back take 130 kB in this one.
    const BOUND: u64 = 90_000;
    let begin = Instant::now();
    while each(&server) > BOUND {
        let elapsed = begin.elapsed();
        assert!(elapsed < Duration::from_secs(20), "{} bytes a session, {elapsed:?} later", each(&server));
        std::thread::sleep(Duration::from_millis(100));
    }
    run(&mut sessions, "select b from t where a = 1");
}
