//! The protocol over a real socket, in front of a session that only pretends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use cairn_server::{Options, Server};
use cairn_sql::{
    Backend, Bind, Client, Credentials, Format, Frontend, FunctionCall, Outlet, Startup, TransactionStatus,
    Wake,
};
use cairn_types::{Error, Oid, Result, err};
use parking_lot::Mutex;

/// Understands: `begin`, `commit`, `panic`, `copy` (counts the bytes), `big` (a long result), `notice` (raises one and waits until
/// it was heard), `shout` (raises them until nobody hears), `fail`; all else is echoed as a tag.
struct Pretender {
    status: TransactionStatus,
    terminated: Arc<Mutex<bool>>,
    wake_list: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Option<Receiver<()>>>>,
    outlet: Option<Rc<dyn Outlet>>,
}

impl Frontend for Pretender {
    fn status(&self) -> TransactionStatus {
        self.status
    }
    fn initial_parameters(&self) -> Vec<(String, String)> {
        vec![("server_version".into(), "15.0".into())]
    }
    fn pid(&self) -> i32 {
        42
    }
    fn secret(&self) -> i32 {
        4711
    }
    fn simple_query(&mut self, text: &str, client: &mut dyn Client) -> Result<()> {
        match text {
            "" => client.empty_query(),
            "begin" => self.status = TransactionStatus::InTransaction,
            "commit" => self.status = TransactionStatus::Idle,
            "panic" => panic!("as ordered"),
            "copy" => {
                client.copy_in_begin(Format::Text, 1)?;
                let mut data = Vec::new();
                while client.copy_in_read(&mut data)? {}
                client.command_complete(&format!("COPY {}", data.len()));
                return Ok(());
            }
            "big" => {
                for _ in 0..200_000 {
                    client.copy_out_data(b"0123456789")?;
                    if client.wants_flush() {
                        client.flush()?;
                    }
                }
            }
            "notice" => {
                client.copy_out_data(b"before it")?;
                let outlet = self.outlet.as_ref().expect("the server gives one");
                assert!(outlet.notice(&Error::notice("while it runs"))?);
                let heard = self.heard.lock().take().expect("somebody listens");
                heard.recv_timeout(Duration::from_secs(20)).expect("the notice was heard");
            }
            "shout" => {
                let outlet = self.outlet.as_ref().expect("the server gives one");
                let lost = (0..10_000).find_map(|_| {
                    std::thread::sleep(Duration::from_millis(1));
                    outlet.notice(&Error::notice("anybody?")).err()
                });
                // Nothing can be sent behind what was cut off, and whoever asks is told, even with nothing to send.
                let state = |error: Error| error.sqlstate().as_str().to_owned();
                self.wake_list.lock().push(format!(
                    "{:?} {:?}",
                    lost.map(state),
                    client.flush().err().map(state)
                ));
                return Ok(());
            }
            "fail" => {
                self.fail();
                return Err(err!(DIVISION_BY_ZERO, "division by zero").at(2));
            }
            _ => {}
        }
        client.command_complete(text);
        Ok(())
    }
    fn parse(&mut self, _: &str, text: &str, _: &[Oid], _: &mut dyn Client) -> Result<()> {
        if text == "panic" { panic!("as ordered") } else { Ok(()) }
    }
    fn bind(&mut self, bind: Bind<'_>, _: &mut dyn Client) -> Result<()> {
        if bind.statement == "missing" {
            return Err(err!(INVALID_SQL_STATEMENT_NAME, "prepared statement \"missing\" does not exist"));
        }
        Ok(())
    }
    fn describe_statement(&mut self, _: &str, client: &mut dyn Client) -> Result<()> {
        client.parameter_description(&[23]);
        client.no_data();
        Ok(())
    }
    fn describe_portal(&mut self, _: &str, client: &mut dyn Client) -> Result<()> {
        client.no_data();
        Ok(())
    }
    fn execute(&mut self, _: &str, _: u32, client: &mut dyn Client) -> Result<()> {
        client.command_complete("DONE");
        Ok(())
    }
    fn close_statement(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
    fn close_portal(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
    fn call_function(&mut self, call: FunctionCall<'_>, _: &mut dyn Client) -> Result<()> {
        Err(err!(UNDEFINED_FUNCTION, "function with OID {} does not exist", call.function))
    }
    fn sync(&mut self, _: &mut dyn Client) -> Result<()> {
        Ok(())
    }
    fn fail(&mut self) {
        if self.status == TransactionStatus::InTransaction {
            self.status = TransactionStatus::Failed;
        }
    }
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }
    fn say_notices_through(&mut self, outlet: Rc<dyn Outlet>) {
        self.outlet = Some(outlet);
    }
    fn idle_error(&self) -> Error {
        err!(IDLE_IN_TRANSACTION_SESSION_TIMEOUT, "idle")
    }
    fn terminated(&self) -> Option<Error> {
        self.terminated
            .lock()
            .then(|| err!(ADMIN_SHUTDOWN, "terminating connection due to administrator command"))
    }
}

impl Drop for Pretender {
    fn drop(&mut self) {
        self.wake_list.lock().push(format!("dropped {:?}", self.status));
    }
}

#[derive(Default)]
struct PretendingBackend {
    terminated: Arc<Mutex<bool>>,
    events: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Option<Receiver<()>>>>,
}

/// Verifier of the password "secret".
const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

impl Backend for PretendingBackend {
    fn credentials(&self, user: &str, local: bool) -> Result<Credentials> {
        assert!(local);
        Ok(match user {
            "secured" => Credentials::Password(VERIFIER.to_owned()),
            "nobody" => Credentials::Refused { salt: [7; 16] },
            _ => Credentials::Trusted,
        })
    }
    fn open(&self, startup: Startup, _wake: Box<dyn Fn(Wake) + Send + Sync>) -> Result<Box<dyn Frontend>> {
        if startup.database == "nowhere" {
            return Err(err!(INVALID_CATALOG_NAME, "database \"nowhere\" does not exist"));
        }
        Ok(Box::new(Pretender {
            status: TransactionStatus::Idle,
            terminated: Arc::clone(&self.terminated),
            wake_list: Arc::clone(&self.events),
            heard: Arc::clone(&self.heard),
            outlet: None,
        }))
    }
    fn cancel(&self, pid: i32, secret: i32) {
        self.events.lock().push(format!("cancel {pid} {secret}"));
    }
    fn terminate_all(&self) {
        *self.terminated.lock() = true;
    }
}

fn server(change: impl FnOnce(&mut Options)) -> (Server, Arc<PretendingBackend>) {
    let backend = Arc::new(PretendingBackend::default());
    let mut options = Options::new("127.0.0.1:0".parse().expect("an address"));
    change(&mut options);
    (Server::start(options, Arc::clone(&backend) as _).expect("starts"), backend)
}

/// A client that knows bytes only.
struct Raw(TcpStream);

impl Raw {
    fn connect(server: &Server) -> Raw {
        let socket = TcpStream::connect(server.address()).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        Raw(socket)
    }

    fn started(server: &Server) -> Raw {
        let mut raw = Raw::connect(server);
        raw.start("user\0postgres\0\0");
        raw.until_ready();
        raw
    }

    fn start(&mut self, parameters: &str) {
        let mut packet = vec![0, 3, 0, 0];
        packet.extend_from_slice(parameters.as_bytes());
        self.untyped(&packet);
    }

    fn untyped(&mut self, body: &[u8]) {
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend_from_slice(body);
        self.0.write_all(&packet).expect("sends");
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let mut packet = vec![kind];
        packet.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        packet.extend_from_slice(body);
        self.0.write_all(&packet).expect("sends");
    }

    /// The next message, `None` at the end.
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.0.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).ok()?;
        Some((header[0], body))
    }

    /// Types of the messages up to ReadyForQuery, its status last; errors as E and their SQLSTATE.
    fn until_ready(&mut self) -> String {
        let mut seen = String::new();
        while let Some((kind, body)) = self.next() {
            seen.push(char::from(kind));
            match kind {
                b'E' => seen.push_str(&format!("[{}]", state(&body))),
                b'C' => seen.push_str(&format!("[{}]", String::from_utf8_lossy(&body[..body.len() - 1]))),
                b'Z' => {
                    seen.push(char::from(body[0]));
                    return seen;
                }
                _ => {}
            }
        }
        seen.push_str(" end");
        seen
    }

    fn query(&mut self, text: &str) -> String {
        self.send(b'Q', format!("{text}\0").as_bytes());
        self.until_ready()
    }
}

fn state(body: &[u8]) -> String {
    body.split(|&byte| byte == 0)
        .find_map(|field| field.strip_prefix(b"C"))
        .map(|code| String::from_utf8_lossy(code).into_owned())
        .expect("an error has a SQLSTATE")
}

#[test]
fn startup_and_queries() {
    let (server, backend) = server(|_| ());
    let mut raw = Raw::connect(&server);
    raw.untyped(&[4, 210, 22, 48]);
    let mut answer = [0];
    raw.0.read_exact(&mut answer).expect("GSSENC is answered");
    assert_eq!(&answer, b"N");
    raw.untyped(&[4, 210, 22, 47]);
    raw.0.read_exact(&mut answer).expect("SSL is answered");
    assert_eq!(&answer, b"N");
    raw.start("user\0postgres\0\0");
    assert_eq!(raw.until_ready(), "RSKZI");
    assert_eq!(raw.query("SELECT 1"), "C[SELECT 1]ZI");
    assert_eq!(raw.query(""), "IC[]ZI");
    assert_eq!(raw.query("begin"), "C[begin]ZT");
    assert_eq!(raw.query("fail"), "E[22012]ZE");
    // A client that vanishes leaves a session that is dropped with its transaction.
    drop(raw);
    let begin = std::time::Instant::now();
    while backend.events.lock().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(backend.events.lock().as_slice(), ["dropped Failed"]);
    assert!(server.stop(Duration::from_secs(5)));
}

#[test]
fn a_notice_leaves_at_once_behind_what_was_said() {
    let (server, backend) = server(|_| ());
    let mut raw = Raw::started(&server);
    let (heard, listens) = channel();
    *backend.heard.lock() = Some(listens);
    raw.send(b'Q', b"notice\0");
    assert_eq!(raw.next().expect("a row"), (b'd', b"before it".to_vec()));
    let (kind, body) = raw.next().expect("a notice");
    assert_eq!((kind, state(&body)), (b'N', "00000".to_owned()));
    heard.send(()).expect("the statement still waits");
    assert_eq!(raw.until_ready(), "C[notice]ZI");
}

#[test]
fn a_notice_finds_out_that_the_client_is_gone() {
    let (server, backend) = server(|_| ());
    let mut raw = Raw::started(&server);
    raw.send(b'Q', b"shout\0");
    raw.next().expect("a notice");
    drop(raw);
    let begin = std::time::Instant::now();
    while backend.events.lock().len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(*backend.events.lock(), [r#"Some("08006") Some("08006")"#, "dropped Idle"]);
}

#[test]
fn extended_protocol_skips_to_sync_after_an_error() {
    let (server, _) = server(|_| ());
    let mut raw = Raw::started(&server);
    raw.send(b'P', b"\0select $1\0\0\0");
    raw.send(b'B', b"\0\0\0\0\0\0\0\0");
    raw.send(b'D', b"S\0");
    raw.send(b'E', b"\0\0\0\0\0");
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), "12tnC[DONE]ZI");
    raw.send(b'B', b"\0missing\0\0\0\0\0\0\0");
    raw.send(b'E', b"\0\0\0\0\0");
    raw.send(b'P', b"\0not parsed\0\0\0");
    raw.send(b'Q', b"not run\0");
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), "E[26000]ZI");
    // Flush sends what there is, without a Sync.
    raw.send(b'P', b"\0select\0\0\0");
    raw.send(b'H', b"");
    assert_eq!(raw.next().expect("an answer").0, b'1');
    raw.send(b'F', b"\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(raw.until_ready(), "E[42883]ZI");
    // An error leaves without either.
    raw.send(b'B', b"\0missing\0\0\0\0\0\0\0");
    assert_eq!(raw.next().expect("an error").0, b'E');
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), "ZI");
    raw.send(b'X', b"");
    assert!(raw.next().is_none());
}

#[test]
fn malformed_messages() {
    let (server, _) = server(|options| options.message_size_max = 100_000);
    let mut raw = Raw::started(&server);
    raw.send(b'Q', b"no end");
    assert_eq!(raw.until_ready(), "E[08P01]ZI");
    raw.send(b'Q', b"not \xff utf8\0");
    assert_eq!(raw.until_ready(), "E[22021]ZI");
    raw.send(b'B', b"\0\0\xff\xff");
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), "E[08P01]ZI");
    raw.send(b'D', b"x\0");
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), "E[08P01]ZI");
    // A packet that is too large is skipped; the transaction fails, the session lives.
    raw.query("begin");
    raw.send(b'Q', &vec![b' '; 200_000]);
    assert_eq!(raw.until_ready(), "E[54000]ZE");
    raw.send(b'P', &vec![b' '; 200_000]);
    raw.send(b'E', b"\0\0\0\0\0");
    raw.send(b'S', b"");
    assert_eq!(raw.until_ready(), "E[54000]ZE");
    assert_eq!(raw.query("commit"), "C[commit]ZI");
    // What cannot be understood at all ends the connection.
    raw.send(b'?', b"");
    assert_eq!(raw.until_ready(), "E[08P01] end");
    let mut raw = Raw::started(&server);
    raw.0.write_all(&[b'Q', 0, 0, 0, 1]).expect("sends");
    assert_eq!(raw.until_ready(), "E[08P01] end");
}

#[test]
fn refused_at_startup() {
    let (server, backend) = server(|options| options.connections_max = 2);
    let first = |parameters: &str| {
        let mut raw = Raw::connect(&server);
        raw.start(parameters);
        raw.until_ready()
    };
    assert_eq!(first("user\0me\0database\0nowhere\0\0"), "RE[3D000] end");
    assert_eq!(first("database\0d\0\0"), "E[28000] end");
    assert_eq!(first("user\0me"), "E[08P01] end");
    assert_eq!(first("user\0me\0replication\0database\0\0"), "E[0A000] end");
    let mut raw = Raw::connect(&server);
    raw.untyped(&[0, 2, 0, 0, 0]);
    assert_eq!(raw.until_ready(), "E[0A000] end");
    let mut raw = Raw::connect(&server);
    raw.0.write_all(&[0x7f, 0xff, 0xff, 0xff]).expect("sends");
    assert_eq!(raw.until_ready(), "E[08P01] end");
    let mut raw = Raw::connect(&server);
    raw.untyped(&[&[4, 210, 22, 46][..], &7i32.to_be_bytes(), &8i32.to_be_bytes()].concat());
    assert!(raw.next().is_none());
    assert!(backend.events.lock().contains(&"cancel 7 8".to_owned()));
    let (_one, _two) = (Raw::started(&server), Raw::started(&server));
    assert_eq!(first("user\0me\0\0"), "E[53300] end");
}

#[test]
fn a_wrong_password_is_refused() {
    let (server, _) = server(|_| ());
    refuses_a_password(&server, "secured");
    // A user that is none goes the same way.
    refuses_a_password(&server, "nobody");
}

fn refuses_a_password(server: &Server, user: &str) {
    let mut raw = Raw::connect(server);
    raw.start(&format!("user\0{user}\0\0"));
    assert_eq!(raw.next().expect("SASL").1, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let first = b"n,,n=,r=abcdef";
    let body = [&b"SCRAM-SHA-256\0"[..], &(first.len() as i32).to_be_bytes(), first].concat();
    raw.send(b'p', &body);
    let (_, answer) = raw.next().expect("challenge");
    let answer = String::from_utf8(answer[4..].to_vec()).expect("text");
    let nonce = answer.split(',').next().expect("a nonce");
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    raw.send(b'p', format!("c=biws,{nonce},p={proof}").as_bytes());
    assert_eq!(raw.until_ready(), "E[28P01] end");
}

#[test]
fn a_panic_ends_its_own_session_only() {
    let (server, _) = server(|_| ());
    let mut other = Raw::started(&server);
    other.query("begin");
    for message in [&b"Qpanic\0"[..], b"P\0panic\0\0\0"] {
        let mut raw = Raw::started(&server);
        raw.send(message[0], &message[1..]);
        assert_eq!(raw.until_ready(), "E[XX000] end");
    }
    assert_eq!(other.query("still here"), "C[still here]ZT");
}

#[test]
fn copy_in_and_large_results() {
    let (server, _) = server(|_| ());
    let mut raw = Raw::started(&server);
    raw.send(b'Q', b"copy\0");
    assert_eq!(raw.next().expect("CopyIn").0, b'G');
    raw.send(b'd', b"hello\n");
    raw.send(b'H', b"");
    raw.send(b'd', b"you\n");
    raw.send(b'c', b"");
    assert_eq!(raw.until_ready(), "C[COPY 10]ZI");
    raw.send(b'Q', b"copy\0");
    raw.next();
    raw.send(b'f', b"no more\0");
    assert_eq!(raw.until_ready(), "E[57014]ZI");
    // What a client sent before it heard of the failure is ignored.
    raw.send(b'd', b"late");
    raw.send(b'c', b"");
    assert_eq!(raw.query("on"), "C[on]ZI");
    let answer = raw.query("big");
    assert_eq!(answer.len(), 200_000 + "C[big]ZI".len());
}

#[test]
fn stopping_tells_sessions() {
    let (server, _) = server(|_| ());
    let mut idle = Raw::started(&server);
    let _not_started = Raw::connect(&server);
    let begin = std::time::Instant::now();
    assert!(server.stop(Duration::from_secs(10)));
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(idle.until_ready(), "E[57P01] end");
}

/// Random bytes after a good start: the server must answer or close, and go on serving others.
#[test]
fn garbage_harms_nobody() {
    use proptest::prelude::*;
    let (server, _) = server(|options| options.message_size_max = 1 << 20);
    let mut bystander = Raw::started(&server);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    let message = (
        prop::sample::select(b"QPBDECSHFXdcfp?\0".to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
        prop::option::weighted(0.1, any::<u32>()),
    );
    runner
        .run(&(prop::collection::vec(message, 0..8), any::<bool>()), |(messages, started)| {
            let mut raw = if started { Raw::started(&server) } else { Raw::connect(&server) };
            for (kind, body, false_length) in messages {
                let length = false_length.unwrap_or(body.len() as u32 + 4);
                let packet = [&[kind][..], &length.to_be_bytes(), &body].concat();
                if raw.0.write_all(&packet).is_err() {
                    break;
                }
            }
            let _ = raw.0.shutdown(std::net::Shutdown::Write);
            while raw.next().is_some() {}
            Ok(())
        })
        .expect("no case fails");
    assert_eq!(bystander.query("fine"), "C[fine]ZI");
}
