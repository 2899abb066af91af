//! Nothing that a client sends panics the server: mangled statements over both protocols, and messages that are none.
//! Connections end with an error at the worst, and the sessions beside them live on.
//!
//! `CAIRN_FUZZ_SECONDS` says how long each test searches (default 4), `CAIRN_FUZZ_SEED` repeats a run. The other two
//! searches of this kind are over the function bodies (`crates/functions/tests/no_panic.rs`) and, in the unit tests of
//! `crates/types`, over the decoders.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use cairn::Database;
use cairn_server::{Options, Server};
use cairn_sql::InstanceBackend;

/// xorshift64*: the same sequence for the same seed, everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn seed() -> u64 {
    number("CAIRN_FUZZ_SEED", 0x00C0_FFEE) | 1
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(number("CAIRN_FUZZ_SECONDS", 4))
}

/// What panicked anywhere in this process since the first call.
fn panics() -> &'static Mutex<Vec<String>> {
    static PANICS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    PANICS.get_or_init(|| {
        std::panic::set_hook(Box::new(|info| {
            let trace = std::backtrace::Backtrace::force_capture();
            PANICS
                .get()
                .expect("it is set")
                .lock()
                .expect("no panic while it is held")
                .push(format!("{info}\n{trace}"));
        }));
        Mutex::default()
    })
}

struct Running {
    server: Option<Server>,
    address: SocketAddr,
    database: Option<Database>,
    _directory: tempfile::TempDir,
}

impl Running {
    fn start() -> Running {
        panics();
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("opens");
        let backend = Arc::new(InstanceBackend(Arc::clone(database.instance())));
        let options = Options::new("127.0.0.1:0".parse().expect("an address"));
        let server = Server::start(options, backend).expect("starts");
        let address = server.address();
        Running { server: Some(server), address, database: Some(database), _directory: directory }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(5));
        }
        drop(self.database.take());
    }
}

/// A client that knows bytes only.
struct Wire(TcpStream);

/// How an exchange ended.
#[derive(Debug, PartialEq)]
enum Ended {
    /// With ReadyForQuery; messages of internal errors on the way.
    Ready(Vec<String>),
    /// The server closed the connection.
    Closed,
    /// Nothing came for long.
    Silent,
}

impl Wire {
    fn connect(address: SocketAddr) -> Wire {
        let socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        socket.set_nodelay(true).expect("sets");
        Wire(socket)
    }

    fn started(address: SocketAddr) -> Wire {
        let mut wire = Wire::connect(address);
        let body = b"\0\x03\0\0user\0postgres\0\0";
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend_from_slice(body);
        wire.0.write_all(&packet).expect("sends");
        assert!(matches!(wire.until_ready(), Ended::Ready(_)), "the session starts");
        wire
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut packet = vec![kind];
        packet.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        packet.extend_from_slice(body);
        packet
    }

    /// False if the server has gone.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    fn simple(text: &str) -> Vec<u8> {
        Self::message(b'Q', format!("{text}\0").as_bytes())
    }

    /// Parse, Bind without values, Describe, Execute, Sync.
    fn extended(text: &str, binary: bool) -> Vec<u8> {
        let mut packet = Self::message(b'P', format!("\0{text}\0\0\0").as_bytes());
        let formats: &[u8] = if binary { &[0, 0, 0, 0, 0, 0, 0, 1, 0, 1] } else { &[0, 0, 0, 0, 0, 0, 0, 0] };
        packet.extend(Self::message(b'B', formats));
        packet.extend(Self::message(b'D', b"P\0"));
        packet.extend(Self::message(b'E', b"\0\0\0\0\0"));
        packet.extend(Self::message(b'S', b""));
        packet
    }

    fn until_ready(&mut self) -> Ended {
        let mut internal = Vec::new();
        loop {
            let mut header = [0; 5];
            if let Err(error) = self.0.read_exact(&mut header) {
                let silent =
                    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
                return if silent { Ended::Silent } else { Ended::Closed };
            }
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            let mut body = vec![0; length.saturating_sub(4)];
            if self.0.read_exact(&mut body).is_err() {
                return Ended::Closed;
            }
            match header[0] {
                b'Z' => return Ended::Ready(internal),
                // COPY from the client: none of it.
                b'G' if !self.send(&Self::message(b'f', b"no data\0")) => return Ended::Closed,
                b'E' => {
                    let fields: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
                    if fields.contains(&&b"CXX000"[..]) {
                        internal.push(
                            fields
                                .iter()
                                .map(|field| String::from_utf8_lossy(field))
                                .collect::<Vec<_>>()
                                .join(" "),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    fn query(&mut self, text: &str) -> Ended {
        if self.send(&Self::simple(text)) { self.until_ready() } else { Ended::Closed }
    }
}

/// The statements of all golden scripts, split roughly: what is torn apart is a test case as well.
fn statements() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/postgres");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the golden scripts are there") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let text = std::fs::read_to_string(&path).expect("readable");
            all.extend(text.split(";\n").map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
        }
    }
    all.sort();
    all
}

const WORDS: &[&str] = &[
    "null",
    "''",
    "0",
    "-1",
    "1e400",
    "'{}'",
    "array[]",
    "(select 1)",
    "*",
    "(",
    ")",
    ",",
    "$1",
    "::int",
    "::text[]",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "'infinity'",
    "over ()",
    "distinct",
    "lateral",
    "group by 1",
    "order by 99",
    "limit -1",
    "for update",
    "returning *",
    "with recursive",
    "not",
    "is distinct from",
    "between",
    "'\\x'",
    "'nan'",
    "row()",
    "cross join",
    "e'\\u0001'",
    "'a'::name",
    "interval '1 month'",
    "current of c",
];

fn mangle(random: &mut Random, all: &[String]) -> String {
    let statement = random.of(all);
    let mut words: Vec<String> = statement.split(' ').map(str::to_owned).collect();
    for _ in 0..random.below(4) {
        let at = random.below(words.len());
        match random.below(6) {
            0 => {
                words.remove(at);
            }
            1 => words[at] = (*random.of(WORDS)).to_owned(),
            2 => words.insert(at, (*random.of(WORDS)).to_owned()),
            3 => {
                let donors: Vec<&str> = random.of(all).split(' ').collect();
                words[at] = (*random.of(&donors)).to_owned();
            }
            4 => {
                let with = random.below(words.len());
                words.swap(at, with);
            }
            _ => {
                // A torn character sequence; the text stays UTF-8.
                let mut characters: Vec<char> = words[at].chars().collect();
                if !characters.is_empty() {
                    let place = random.below(characters.len());
                    characters[place] =
                        *random.of(&['\'', '"', '(', '\\', '%', ';', '\u{1F600}', '\n', '-', '9']);
                }
                words[at] = characters.into_iter().collect();
            }
        }
        if words.is_empty() {
            words.push(String::new());
        }
    }
    words.join(" ")
}

/// What waits on purpose, or takes the server or its roles away, would end the search and not the bug.
fn is_harmless(statement: &str) -> bool {
    let lower = statement.to_ascii_lowercase();
    !["sleep", "database", "role", "user", "terminate", "cancel", "owner", "authorization", "timeout", "\0"]
        .iter()
        .any(|word| lower.contains(word))
}

fn assert_no_panics(seed: u64) {
    let panics = panics().lock().expect("no panic while it is held");
    assert!(panics.is_empty(), "seed {seed}: {} panics:\n{}", panics.len(), panics.join("\n----\n"));
}

#[test]
fn mangled_statements() {
    let running = Running::start();
    let seed = seed();
    let all = statements();
    let mut bystander = Wire::started(running.address);
    assert_eq!(bystander.query("begin; create temp table kept (a int)"), Ended::Ready(Vec::new()));
    let mut random = Random(seed);
    let mut wire = Wire::started(running.address);
    let deadline = deadline();
    let mut internal = Vec::new();
    let mut sent = 0_u64;
    while Instant::now() < deadline {
        let statement = mangle(&mut random, &all);
        if !is_harmless(&statement) {
            continue;
        }
        if sent % 50 == 0 {
            // Leaves a failed block, and sets what a statement may have set.
            wire.query("rollback");
            wire.query("reset all");
            wire.query("set statement_timeout = '500ms'");
            wire.query("set lock_timeout = '100ms'");
        }
        sent += 1;
        let packet = match random.below(3) {
            0 => Wire::simple(&statement),
            1 => Wire::extended(&statement, false),
            _ => Wire::extended(&statement, true),
        };
        let ended = if wire.send(&packet) { wire.until_ready() } else { Ended::Closed };
        match ended {
            Ended::Ready(errors) => {
                internal.extend(errors.into_iter().map(|error| format!("{error}: {statement}")))
            }
            Ended::Closed => {
                assert_no_panics(seed);
                panic!("seed {seed}, statement {sent}: the connection closed after\n{statement}");
            }
            Ended::Silent => panic!("seed {seed}, statement {sent}: no answer to\n{statement}"),
        }
    }
    assert_no_panics(seed);
    assert!(sent > 20, "only {sent} statements");
    assert_eq!(
        bystander.query("select * from kept"),
        Ended::Ready(Vec::new()),
        "the session beside lives on"
    );
    // An internal error is a bug as well, if a lesser one.
    internal.sort();
    internal.dedup();
    assert!(
        internal.is_empty(),
        "seed {seed}: {} internal errors:\n{}",
        internal.len(),
        internal.join("\n----\n")
    );
}

/// Messages of the protocol, some sound, some torn, and bytes that are none.
fn garbage(random: &mut Random) -> Vec<u8> {
    let body: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
    match random.below(8) {
        0 => (0..random.below(60)).map(|_| random.next() as u8).collect(),
        1 => Wire::message(random.next() as u8, &body),
        2 => Wire::message(*random.of(b"QPBDECHSFdcfpX"), &body),
        3 => {
            // A length that lies.
            let mut packet = Wire::message(*random.of(b"QPBDEC"), &body);
            let length = *random.of(&[0_u32, 1, 3, 4, 5, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]);
            packet[1..5].copy_from_slice(&length.to_be_bytes());
            packet
        }
        4 => {
            let mut packet = Wire::extended("select $1::int, $2::text", true);
            for _ in 0..=random.below(4) {
                let at = random.below(packet.len());
                packet[at] = random.next() as u8;
            }
            packet
        }
        5 => {
            let mut packet = Wire::simple("copy pg_temp.t from stdin (format binary)");
            packet.extend(Wire::message(b'd', &body));
            packet.extend(Wire::message(*random.of(b"cfdQ"), &body));
            packet
        }
        6 => Wire::message(b'B', &[&b"p\0s\0"[..], &body].concat()),
        _ => Wire::simple(&String::from_utf8_lossy(&body)),
    }
}

#[test]
fn garbage_messages() {
    let running = Running::start();
    let seed = seed();
    let mut random = Random(seed.rotate_left(17) | 1);
    let mut bystander = Wire::started(running.address);
    assert_eq!(bystander.query("create temp table kept (a int)"), Ended::Ready(Vec::new()));
    let deadline = deadline();
    let mut connections = 0;
    while Instant::now() < deadline {
        connections += 1;
        let mut wire;
        if random.below(4) == 0 {
            // Instead of a startup packet.
            wire = Wire::connect(running.address);
            let body: Vec<u8> = (0..random.below(50)).map(|_| random.next() as u8).collect();
            let mut packet = match random.below(3) {
                0 => body.len() as u32 + 4,
                1 => random.next() as u32,
                _ => 8,
            }
            .to_be_bytes()
            .to_vec();
            if random.below(2) == 0 {
                packet.extend_from_slice(&[0, 3, 0, random.below(3) as u8]);
            }
            packet.extend_from_slice(&body);
            wire.send(&packet);
        } else {
            wire = Wire::started(running.address);
            wire.query("create temp table t (a int, b text)");
            for _ in 0..=random.below(4) {
                if !wire.send(&garbage(&mut random)) {
                    break;
                }
            }
        }
        // Who cannot be understood may be told so or be left; whoever still listens is asked to stop.
        wire.0.shutdown(std::net::Shutdown::Write).ok();
        wire.0.set_read_timeout(Some(Duration::from_secs(10))).expect("sets");
        let mut rest = Vec::new();
        let read = (&mut wire.0).take(10 << 20).read_to_end(&mut rest);
        if let Err(error) = read {
            let silent =
                matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            assert!(!silent, "seed {seed}, connection {connections}: the server neither answers nor closes");
        }
    }
    assert_no_panics(seed);
    assert!(connections > 5, "only {connections} connections");
    assert_eq!(
        bystander.query("select * from kept"),
        Ended::Ready(Vec::new()),
        "the session beside lives on"
    );
}
