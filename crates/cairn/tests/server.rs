//! The server as an administrator meets it: passwords, TLS, what it refuses and how it says so, how it stops, what a full
//! disk does. Whatever goes wrong gets a clear error, and nothing that was acknowledged is lost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cairn_testkit::{Server, SmallDisk, memory_bytes};
use postgres::{Client, NoTls};

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

fn server() -> Server {
    Server::cairn(Path::new(CAIRN)).expect("Cairn starts")
}

fn connect(server: &Server, rest: &str) -> Result<Client, postgres::Error> {
    Client::connect(&format!("host=127.0.0.1 port={} {rest}", server.port()), NoTls)
}

fn state(error: &postgres::Error) -> String {
    error.code().map(|code| code.code().to_owned()).unwrap_or_else(|| error.to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> Output {
    Command::new(CAIRN).args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// A `cairn serve` that must end by itself; what it said on stderr.
fn refused(directory: &Path) -> String {
    let output =
        run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", directory.to_str().expect("a plain path")]);
    assert!(!output.status.success(), "the server refuses to start");
    text(&output.stderr)
}

#[test]
fn passwords() {
    let server = server();
    server.sql("create role secured login password 'right'; create role open login").expect("roles");
    for _ in 0..2 {
        let mut client =
            connect(&server, "user=secured password=right dbname=postgres").expect("the right password");
        let row = client.query_one("select current_user::text", &[]).expect("a row");
        assert_eq!(row.get::<_, String>(0), "secured");
    }
    let error = connect(&server, "user=secured password=wrong dbname=postgres").err().expect("refused");
    assert_eq!(state(&error), "28P01");
    assert_eq!(
        error.as_db_error().expect("an error of the server").message(),
        "password authentication failed for user \"secured\""
    );
    // A password that nobody asks for does no harm.
    connect(&server, "user=open password=any dbname=postgres").expect("no password");
    server.sql("alter role secured password 'other'").expect("changes");
    let error = connect(&server, "user=secured password=right dbname=postgres").err().expect("refused");
    assert_eq!(state(&error), "28P01");
    connect(&server, "user=secured password=other dbname=postgres").expect("the new password");
    server.sql("alter role secured password null").expect("changes");
    connect(&server, "user=secured dbname=postgres").expect("none any more");
}

/// What the server shows of a user before it has proved anything: its messages up to the challenge of SCRAM, without the
/// nonces.
fn shown(server: &Server, user: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).expect("connects");
    let mut message = |kind: Option<u8>, body: &[u8]| {
        let mut packet: Vec<u8> = kind.into_iter().collect();
        packet.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        packet.extend_from_slice(body);
        socket.write_all(&packet).expect("sends");
        let mut header = [0; 5];
        socket.read_exact(&mut header).expect("an answer");
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        socket.read_exact(&mut body).expect("its body");
        (header[0], body)
    };
    let asked = message(None, format!("\0\u{3}\0\0user\0{user}\0database\0postgres\0\0").as_bytes());
    let first = b"n,,n=,r=abcdef";
    let body = [&b"SCRAM-SHA-256\0"[..], &(first.len() as u32).to_be_bytes(), first].concat();
    let (kind, challenge) = message(Some(b'p'), &body);
    let challenge = text(challenge.get(4..).unwrap_or_default());
    let nonce = challenge.split(',').next().unwrap_or_default();
    let proof = "A".repeat(43);
    let (refused, error) = message(Some(b'p'), format!("c=biws,{nonce},p={proof}=").as_bytes());
    let error = text(&error).replace(user, "USER");
    let (_, parameters) = challenge.split_once(',').unwrap_or_default();
    format!("{asked:?} {kind} {parameters} {refused} {error}")
}

#[test]
fn nobody_finds_out_which_users_there_are() {
    let mut server = server();
    server.sql("create role secured login password 'right'; create role late login password 'x' valid until '2001-01-01'").expect("roles");
    let without_salt = |shown: &str| {
        let (before, salt) = shown.split_once("s=").expect("a salt");
        let (salt, after) = salt.split_once(',').expect("more than a salt");
        assert_eq!(salt.len(), 24, "{shown}");
        format!("{before}{after}")
    };
    let known = shown(&server, "secured");
    let (nobody, somebody) = (shown(&server, "nobody"), shown(&server, "somebody"));
    assert_eq!(without_salt(&known), without_salt(&nobody));
    assert_ne!(nobody, somebody, "each has its own salt");
    assert_eq!(without_salt(&known), without_salt(&shown(&server, "late")));
    assert!(known.contains("28P01"), "{known}");
    // A salt that changes would tell.
    server.restart().expect("starts again");
    assert_eq!(shown(&server, "secured"), known);
    assert_eq!(shown(&server, "nobody"), nobody);
}

/// Roles belong to no database: sessions of several ones make them at the same time, and none gets what was another's.
#[test]
fn roles_made_at_the_same_time() {
    const DATABASES: usize = 4;
    const ROLES: usize = 12;
    let server = server();
    let mut client = connect(&server, "user=postgres dbname=postgres").expect("a connection");
    let clients: Vec<Client> = (0..DATABASES)
        .map(|number| {
            client.batch_execute(&format!("create database d{number}")).expect("a database");
            connect(&server, &format!("user=postgres dbname=d{number}")).expect("a connection")
        })
        .collect();
    client.batch_execute("create role all_of_them").expect("a role");
    std::thread::scope(|scope| {
        for (number, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                for role in 0..ROLES {
                    let make = format!("create role r{number}_{role} in role all_of_them; create role gone{number}; drop role gone{number}");
                    client.batch_execute(&make).expect("a role");
                }
            });
        }
    });
    let count =
        |client: &mut Client, query: &str| client.query_one(query, &[]).expect("a count").get::<_, i64>(0);
    let made = (DATABASES * ROLES) as i64;
    assert_eq!(
        count(&mut client, "select count(distinct oid) from pg_roles where rolname ~ '^r[0-9]+_'"),
        made
    );
    assert_eq!(count(&mut client, "select count(*) from pg_auth_members"), made);
    let newest = "select max(oid)::bigint from pg_roles where rolname ~ '^r'";
    client.batch_execute("create role r_last").expect("a role");
    let last = count(&mut client, newest);
    client.batch_execute("drop role r_last; create role r_other").expect("another");
    assert!(count(&mut client, newest) > last, "a dropped role's oid stays its own");
}

#[test]
fn unknown_databases_and_users() {
    let server = server();
    let error = connect(&server, "user=postgres dbname=nowhere").err().expect("refused");
    assert_eq!(state(&error), "3D000");
    assert_eq!(
        error.as_db_error().expect("an error of the server").message(),
        "database \"nowhere\" does not exist"
    );
    server.sql("create role barred nologin").expect("a role");
    let error = connect(&server, "user=barred dbname=postgres").err().expect("refused");
    assert_eq!(state(&error), "28000");
    let error = connect(&server, "user=postgres dbname=template0").err().expect("refused");
    assert_eq!(state(&error), "55000");
}

#[test]
fn tls() {
    let directory = tempfile::tempdir().expect("a directory");
    let (key, certificate) = (directory.path().join("key.pem"), directory.path().join("certificate.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("no openssl that makes certificates is installed: TLS is not tested");
        return;
    }
    let mut child = Command::new(CAIRN)
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(directory.path().join("data"))
        .arg("--tls-cert")
        .arg(&certificate)
        .arg("--tls-key")
        .arg(&key)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("the address");
    let port = line.split("\"port\":").nth(1).expect("a port").chars().take_while(char::is_ascii_digit);
    let port: String = port.collect();
    let psql = |options: &str| {
        let target =
            format!("host=localhost hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres {options}");
        let output = Command::new("psql")
            .args([
                "-XAtq",
                "-c",
                "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()",
                &target,
            ])
            .output()
            .expect("psql starts");
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let root = certificate.display();
    assert_eq!(psql("sslmode=require"), (true, "t|TLSv1.3\n".to_owned(), String::new()));
    assert_eq!(psql(&format!("sslmode=verify-full sslrootcert={root}")).1, "t|TLSv1.3\n");
    assert_eq!(psql("sslmode=disable").1, "f|\n");
    // Passwords are bound to the connection's certificate.
    assert!(psql("sslmode=require channel_binding=disable").0);
    let role = "create role secured login password 'right'";
    let target = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    let made = Command::new("psql").args(["-XAtq", "-c", role, &target]).output().expect("psql starts");
    assert!(made.status.success(), "{}", text(&made.stderr));
    for (binding, answer) in [
        ("sslmode=require channel_binding=require", "t|TLSv1.3\n"),
        ("sslmode=require channel_binding=disable", "t|TLSv1.3\n"),
        ("sslmode=disable channel_binding=prefer", "f|\n"),
    ] {
        let (_, rows, errors) = psql(&format!("{binding} password=right user=secured"));
        assert_eq!((rows.as_str(), errors.as_str()), (answer, ""), "{binding}");
    }
    let (_, _, refused) = psql("sslmode=require channel_binding=require password=wrong user=secured");
    assert!(refused.contains("password authentication failed"), "{refused}");
    let (_, _, refused) = psql("sslmode=disable channel_binding=require password=right user=secured");
    assert!(refused.contains("channel binding required"), "{refused}");
    // SIGTERM ends it in order.
    // SAFETY: a signal to a child of ours that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    assert!(child.wait().expect("ends").success());
}

#[test]
fn a_packet_that_is_too_large() {
    let server = server();
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    // As long as no startup packet is.
    socket.write_all(&[0x10, 0, 0, 0]).expect("sends");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("an answer and the end");
    assert!(text(&answer).contains("C08P01"), "{}", text(&answer));
    // A statement of 1 GB and more is announced and not sent: the server does not wait for memory.
    let mut client = connect(&server, "user=postgres dbname=postgres").expect("connects");
    let long = format!("select length('{}')", "x".repeat(30 << 20));
    let row = client.simple_query(&long).expect("30 MB are not too large");
    assert!(matches!(&row[..], [.., postgres::SimpleQueryMessage::CommandComplete(1)]));
}

/// Programs that `cairn sql` may find: none.
fn without_psql() -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    Command::new(CAIRN)
        .args(["sql", "--listen", "127.0.0.1:1", "--data-dir"])
        .arg(directory.path().join("data"))
        .env("PATH", directory.path())
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

#[test]
fn cairn_sql_starts_psql() {
    let server = server();
    server.sql("create table t (a int); insert into t values (7)").expect("a table");
    let output = run(&[
        "sql",
        "--listen",
        &format!("127.0.0.1:{}", server.port()),
        "--",
        "-XAtq",
        "-c",
        "select a from t",
    ]);
    assert_eq!((text(&output.stdout), output.status.success()), ("7\n".to_owned(), true), "{output:?}");
    // No server: the directory is served while psql runs, and what was written stays.
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let data = data.to_str().expect("a plain path");
    let sql = |statement: &str| {
        run(&["sql", "--listen", "127.0.0.1:1", "--data-dir", data, "--", "-XAtq", "-c", statement])
    };
    let output = sql("create table t (a int); insert into t values (8) returning a");
    assert_eq!(text(&output.stdout), "8\n", "{output:?}");
    assert!(text(&output.stderr).contains("no server on 127.0.0.1:1: serving"), "{output:?}");
    assert_eq!(text(&sql("select a + 1 from t").stdout), "9\n");
    // psql's own failure is the program's.
    let output = sql("select 1 / 0");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("division by zero"), "{output:?}");
    let output = without_psql();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("psql is not installed"), "{output:?}");
}

#[test]
fn signals_stop_it_in_order() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let server = Server::cairn_at(Path::new(CAIRN), &data).expect("Cairn starts");
        server.sql("create table t (a int)").expect("a table");
        let mut committed = connect(&server, "user=postgres dbname=postgres").expect("connects");
        committed.batch_execute("insert into t values (1)").expect("inserts");
        let mut open = connect(&server, "user=postgres dbname=postgres").expect("connects");
        open.batch_execute("begin; insert into t values (2)").expect("inserts");
        let mut busy = server.client("psql");
        let busy = busy
            .args(["-X", "-c", "select pg_sleep(60)"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("psql starts");
        let is_busy =
            "select count(*) from pg_stat_activity where state = 'active' and query like '%sleep(60)%'";
        while server.sql(is_busy).expect("a count") != "2\n" {
            std::thread::sleep(Duration::from_millis(20));
        }
        let begin = Instant::now();
        // SAFETY: a signal to a child of the test kit's, which has not been waited for.
        unsafe { libc::kill(server.pid() as libc::pid_t, signal) };
        // Who runs something is told why it ends.
        let said = text(&busy.wait_with_output().expect("psql ends").stderr);
        assert!(said.starts_with("FATAL:  terminating connection due to administrator command"), "{said}");
        assert!(open.batch_execute("commit").is_err(), "the session has ended");
        let (_, status) = server.stop().expect("ends");
        assert!(status.success(), "{status}");
        assert!(begin.elapsed() < Duration::from_secs(20), "it ends soon");
        let again = Server::cairn_at(Path::new(CAIRN), &data).expect("Cairn starts again");
        assert_eq!(again.sql("select a from t").expect("rows"), "1\n");
    }
}

#[test]
fn a_second_server_on_the_directory_is_refused() {
    let server = server();
    server.sql("create table t (a int)").expect("a table");
    let said = refused(server.data_directory());
    assert!(said.contains("could not open") && said.contains("another"), "{said}");
    // The first one is not troubled.
    assert_eq!(server.sql("insert into t values (1) returning a").expect("inserts"), "1\n");
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    Server::cairn_at(Path::new(CAIRN), &data).expect("Cairn starts").stop().expect("stops");
    {
        let options = rocksdb::Options::default();
        let path = data.join("system");
        let families = rocksdb::DB::list_cf(&options, &path).expect("a store");
        let store = rocksdb::DB::open_cf(&options, &path, families).expect("opens");
        let meta = store.cf_handle("meta").expect("the family of facts about the store");
        store.put_cf(meta, [1], 4_000_000_u32.to_be_bytes()).expect("writes");
    }
    let said = refused(&data);
    assert!(said.contains("has format 4000000; this version of Cairn reads formats up to"), "{said}");
}

/// A lost list of databases, and what the message tells to do about it.
#[test]
fn databases_without_a_list() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Server::cairn_at(Path::new(CAIRN), &data).expect("starts");
    server.sql("create table precious (id int); insert into precious values (1), (2)").expect("rows");
    server.sql("create database more").expect("a database");
    server.stop().expect("stops");
    std::fs::remove_dir_all(data.join("system")).expect("is there");
    for _ in 0..2 {
        let said = refused(&data);
        assert!(said.contains("databases/5\"") && said.contains("databases/16384\""), "{said}");
        assert!(said.contains("--adopt-databases"), "{said}");
    }
    let adopt = |command: &mut Command| {
        command.arg("--adopt-databases");
    };
    let server = Server::cairn_with(Path::new(CAIRN), &data, adopt).expect("starts");
    let names = server.sql("select string_agg(datname, ' ' order by oid) from pg_database").expect("a list");
    assert_eq!(names.trim(), "template1 template0 postgres recovered_16384");
    assert_eq!(server.sql("select count(*) from precious").expect("a table").trim(), "2");
    server.sql("alter database recovered_16384 rename to more").expect("a new name");
    server.stop().expect("stops");
    let server = Server::cairn_at(Path::new(CAIRN), &data).expect("starts");
    assert_eq!(server.sql("select count(*) from precious").expect("a table").trim(), "2");
}

/// A changed bit in the middle of a database's newest log: whoever connects is told, and other databases go on.
#[test]
fn a_damaged_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Server::cairn_at(Path::new(CAIRN), &data).expect("starts");
    server.sql("create database d").expect("a database");
    let mut client = connect(&server, "user=postgres dbname=d").expect("a connection");
    client.batch_execute("create table t (id int)").expect("a table");
    for number in 0..50 {
        client.batch_execute(&format!("insert into t values ({number})")).expect("a row");
    }
    server.kill().expect("is killed");
    let logs = std::fs::read_dir(data.join("databases/16384")).expect("is there");
    let logs = logs.map(|entry| entry.expect("an entry").path());
    let newest = logs.filter(|path| path.extension().is_some_and(|found| found == "log")).max();
    let newest = newest.expect("a log");
    let mut bytes = std::fs::read(&newest).expect("a log");
    let length = bytes.iter().rposition(|&byte| byte != 0).expect("commits");
    bytes[length * 3 / 4] ^= 1;
    std::fs::write(&newest, bytes).expect("writes");
    let server = Server::cairn_at(Path::new(CAIRN), &data).expect("starts");
    assert_eq!(server.sql("select 1").expect("another database").trim(), "1");
    let error = connect(&server, "user=postgres dbname=d").err().expect("refused");
    assert_eq!(state(&error), "XX001");
    let error = error.as_db_error().expect("an error of the server");
    assert!(error.message().contains(&newest.display().to_string()), "{error}");
    assert!(error.hint().expect("what to do").contains("--truncate-damaged-log"), "{error}");
    server.stop().expect("stops");
    let give_up = |command: &mut Command| {
        command.arg("--truncate-damaged-log");
    };
    let server = Server::cairn_with(Path::new(CAIRN), &data, give_up).expect("starts");
    let mut client = connect(&server, "user=postgres dbname=d").expect("a connection");
    let left: i64 = client.query_one("select count(*) from t", &[]).expect("a count").get(0);
    assert!((1..50).contains(&left), "{left}");
    assert!(server.log().contains("given up"), "{}", server.log());
}

/// What is read and written stays within what the server was given, about.
#[test]
fn memory_as_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::cairn_with(Path::new(CAIRN), &directory.path().join("data"), |command| {
        command.args(["--shared-buffers", "32MB"]);
    })
    .expect("Cairn starts");
    let mut client = connect(&server, "user=postgres dbname=postgres").expect("a connection");
    let row = client
        .query_one(
            "select setting, unit, current_setting(name) from pg_settings where name = 'shared_buffers'",
            &[],
        )
        .expect("the setting");
    assert_eq!([0, 1, 2].map(|column| row.get::<_, String>(column)), ["4096", "8kB", "32MB"]);
    let before = memory_bytes(server.pid());
    // 160 MB, read twice.
    client.batch_execute("create table large (id int primary key, body text)").expect("a table");
    for thousand in 0..20 {
        let load = format!(
            "insert into large select g, repeat(md5(g::text), 250)
                from generate_series({thousand} * 1000 + 1, {thousand} * 1000 + 1000) g"
        );
        client.batch_execute(&load).expect("rows");
    }
    client.batch_execute("checkpoint").expect("files");
    for _ in 0..2 {
        let read = "select sum(length(body)) from large";
        assert_eq!(client.query_one(read, &[]).expect("a sum").get::<_, i64>(0), 20_000 * 250 * 32);
    }
    let grown = memory_bytes(server.pid()).saturating_sub(before);
    assert!(grown < 128 << 20, "{} MB more than at the start", grown >> 20);
    let too_little = run(&["serve", "--data-dir", "/nowhere", "--shared-buffers", "1MB"]);
    assert!(!too_little.status.success());
    assert!(text(&too_little.stderr).contains("--shared-buffers: 1MB is less than 16MB"), "{too_little:?}");
}

#[test]
fn a_full_disk() {
    let Some(disk) = SmallDisk::mount(256).expect("a directory") else { return };
    let ballast = disk.path().join("ballast");
    let data = disk.path().join("data");
    let server = Server::cairn_at(Path::new(CAIRN), &data).expect("Cairn starts");
    server.sql("create table t (a int primary key, b bytea)").expect("a table");
    std::fs::write(&ballast, vec![0; 96 << 20]).expect("there is room");
    let mut client = connect(&server, "user=postgres dbname=postgres").expect("connects");
    let insert = "insert into t select $1, repeat('x', 1000000)::bytea";
    let mut acknowledged = 0_i32;
    let error = loop {
        match client.execute(insert, &[&(acknowledged + 1)]) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 2000, "256 MB hold no 500 MB");
    };
    assert_eq!(state(&error), "53100", "{error}");
    assert!(acknowledged > 3, "{acknowledged}");
    // Who only reads goes on.
    let count =
        |server: &Server| server.sql("select count(*), count(b) from t where a > 0").expect("a count");
    assert_eq!(count(&server), format!("{acknowledged}|{acknowledged}\n"));
    // With room again the same server writes again.
    std::fs::remove_file(&ballast).expect("removes");
    let begin = Instant::now();
    while server.sql("insert into t values (1000000, 'x')").is_err() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", server.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    server.kill().expect("kills");
    let again = Server::cairn_at(Path::new(CAIRN), &data).expect("Cairn starts again");
    assert_eq!(count(&again), format!("{}|{}\n", acknowledged + 1, acknowledged + 1));
    drop(again);
}
