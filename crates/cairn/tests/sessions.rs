//! Sessions over the wire, with a client library that uses the extended protocol: transactions, portals, COPY, settings,
//! cancelling, and what happens to others when something goes wrong.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use cairn_testkit::Server;
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, IsolationLevel, NoTls};

/// Each test has a server of its own, which ends with the value.
fn server() -> Server {
    Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts")
}

fn connect(server: &Server) -> Client {
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    Client::connect(&config, NoTls).expect("connects")
}

fn state(error: &postgres::Error) -> String {
    error.code().map(|code| code.code().to_owned()).unwrap_or_else(|| error.to_string())
}

#[test]
fn parameters_and_results_are_binary() {
    let server = server();
    let mut client = connect(&server);
    let row = client
        .query_one(
            "select $1::int4 + 1, $2::text || 'x', $3::int8, $4::bool, $5::bytea, null::int4",
            &[&41i32, &"é", &7i64, &true, &&b"\x00\xff"[..]],
        )
        .expect("runs");
    assert_eq!(row.get::<_, i32>(0), 42);
    assert_eq!(row.get::<_, &str>(1), "éx");
    assert_eq!(row.get::<_, i64>(2), 7);
    assert!(row.get::<_, bool>(3));
    assert_eq!(row.get::<_, &[u8]>(4), b"\x00\xff");
    assert_eq!(row.get::<_, Option<i32>>(5), None);
    let statement = client.prepare("select $1 + 1").expect("types are inferred");
    assert_eq!(statement.params(), [postgres::types::Type::INT4]);
    assert_eq!(client.query_one(&statement, &[&1i32]).expect("runs").get::<_, i32>(0), 2);
}

#[test]
fn a_portal_stops_and_goes_on() {
    let server = server();
    let mut client = connect(&server);
    let mut transaction = client.transaction().expect("begins");
    let portal = transaction.bind("select g from generate_series(1, 10) g", &[]).expect("binds");
    let mut counts = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 4).expect("fetches");
        counts.push(rows.len());
        if rows.len() < 4 {
            break;
        }
    }
    assert_eq!(counts, [4, 4, 2]);
}

#[test]
fn a_failed_block_waits_for_its_end() {
    let server = server();
    let mut client = connect(&server);
    client.batch_execute("begin").expect("begins");
    let error = client.batch_execute("select 1/0").expect_err("fails");
    assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
    assert_eq!(state(&client.batch_execute("select 1").expect_err("refused")), "25P02");
    assert_eq!(state(&client.query("select 1", &[]).expect_err("refused")), "25P02");
    client.batch_execute("commit").expect("becomes a rollback");
    client.batch_execute("select 1").expect("works again");
    // Savepoints.
    client.batch_execute("begin; create table failed_block (a int); savepoint s").expect("begins");
    client.batch_execute("insert into failed_block values (1 / 0)").expect_err("fails");
    client.batch_execute("rollback to s; insert into failed_block values (2); commit").expect("recovers");
    assert_eq!(client.query_one("select a from failed_block", &[]).expect("runs").get::<_, i32>(0), 2);
}

#[test]
fn several_statements_are_one_transaction() {
    let server = server();
    let mut client = connect(&server);
    client.batch_execute("create table several (a int)").expect("creates");
    client.batch_execute("insert into several values (1); select 1/0").expect_err("fails");
    assert_eq!(client.query_one("select count(*) from several", &[]).expect("runs").get::<_, i64>(0), 0);
    client.batch_execute("insert into several values (1); commit; select 1/0").expect_err("fails later");
    assert_eq!(client.query_one("select count(*) from several", &[]).expect("runs").get::<_, i64>(0), 1);
}

#[test]
fn isolation_levels() {
    let server = server();
    let mut client = connect(&server);
    client.batch_execute("create table levels (a int); insert into levels values (1)").expect("creates");
    let mut other = connect(&server);
    let mut transaction =
        client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().expect("begins");
    let count = |transaction: &mut postgres::Transaction<'_>| {
        transaction.query_one("select count(*) from levels", &[]).expect("counts").get::<_, i64>(0)
    };
    assert_eq!(count(&mut transaction), 1);
    other.batch_execute("insert into levels values (2)").expect("inserts");
    assert_eq!(count(&mut transaction), 1);
    transaction.commit().expect("commits");
    // Write skew: each reads what the other one writes.
    let serializable = |client: &mut Client, sql: &str| {
        client.batch_execute("begin isolation level serializable").expect("begins");
        client.batch_execute(sql).expect("runs");
    };
    serializable(&mut client, "select sum(a) from levels where a < 10; insert into levels values (20)");
    serializable(&mut other, "select sum(a) from levels where a >= 10; insert into levels values (3)");
    client.batch_execute("commit").expect("the first one commits");
    assert_eq!(state(&other.batch_execute("commit").expect_err("the second one cannot")), "40001");
    assert_eq!(client.query_one("select count(*) from levels", &[]).expect("counts").get::<_, i64>(0), 3);
    let mut read_only = client.build_transaction().read_only(true).start().expect("begins");
    let error = read_only.execute("insert into levels values (3)", &[]).expect_err("refused");
    assert_eq!(state(&error), "25006");
}

#[test]
fn copy_both_ways() {
    let server = server();
    let mut client = connect(&server);
    client.batch_execute("create table copied (a int, b text)").expect("creates");
    let mut writer = client.copy_in("copy copied from stdin").expect("begins");
    writer.write_all(b"1\tone\n2\t\\N\n").expect("sends");
    assert_eq!(writer.finish().expect("ends"), 2);
    let mut text = String::new();
    client
        .copy_out("copy copied to stdout (format csv, null 'nul')")
        .expect("begins")
        .read_to_string(&mut text)
        .expect("reads");
    assert_eq!(text, "1,one\n2,nul\n");
    let mut writer = client.copy_in("copy copied from stdin").expect("begins");
    writer.write_all(b"x\ty\n").expect("sends");
    let error = writer.finish().expect_err("not a number");
    assert_eq!(state(&error), "22P02");
    assert_eq!(client.query_one("select count(*) from copied", &[]).expect("runs").get::<_, i64>(0), 2);
    // A client that gives up.
    let writer = client.copy_in("copy copied from stdin").expect("begins");
    drop(writer);
    assert_eq!(client.query_one("select count(*) from copied", &[]).expect("runs").get::<_, i64>(0), 2);
}

#[test]
fn cancel_and_timeouts() {
    let server = server();
    let mut client = connect(&server);
    let token = client.cancel_token();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        token.cancel_query(NoTls).expect("sends");
    });
    let begin = Instant::now();
    assert_eq!(state(&client.batch_execute("select pg_sleep(30)").expect_err("cancelled")), "57014");
    assert!(begin.elapsed() < Duration::from_secs(5));
    canceller.join().expect("ends");
    client.batch_execute("set statement_timeout = '100ms'").expect("sets");
    let error =
        client.batch_execute("select count(*) from generate_series(1, 1000000000)").expect_err("too slow");
    assert_eq!(state(&error), "57014");
    client.batch_execute("reset statement_timeout; select 1").expect("works again");
    // A lock that somebody else holds.
    client
        .batch_execute("create table timed (a int primary key); insert into timed values (1)")
        .expect("creates");
    let mut holder = connect(&server);
    holder.batch_execute("begin; select * from timed for update").expect("locks");
    client.batch_execute("set lock_timeout = '50ms'").expect("sets");
    assert_eq!(state(&client.batch_execute("update timed set a = 2").expect_err("waits")), "55P03");
}

#[test]
fn settings_follow_the_transaction() {
    let server = server();
    let mut client = connect(&server);
    let show = |client: &mut Client, name: &str| {
        client.simple_query(&format!("show {name}")).expect("shows").into_iter().find_map(|message| {
            match message {
                postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            }
        })
    };
    client.batch_execute("begin; set local work_mem = '1MB'; set enable_sort = off").expect("sets");
    assert_eq!(show(&mut client, "work_mem").as_deref(), Some("1MB"));
    client.batch_execute("commit").expect("commits");
    assert_eq!(show(&mut client, "work_mem").as_deref(), Some("4MB"));
    assert_eq!(show(&mut client, "enable_sort").as_deref(), Some("off"));
    client.batch_execute("begin; set enable_sort = on; rollback").expect("sets");
    assert_eq!(show(&mut client, "enable_sort").as_deref(), Some("off"));
    client.batch_execute("begin; set local retry_max_backoff = '100ms'; select 1; commit").expect("accepted");
    assert_eq!(state(&client.batch_execute("set no_such_setting = 1").expect_err("unknown")), "42704");
}

#[test]
fn a_prepared_statement_survives_ddl_elsewhere() {
    let server = server();
    let mut client = connect(&server);
    client.batch_execute("create table changing (a int); insert into changing values (1)").expect("creates");
    let statement = client.prepare("select * from changing").expect("prepares");
    assert_eq!(client.query(&statement, &[]).expect("runs").len(), 1);
    let mut other = connect(&server);
    other.batch_execute("create index on changing (a)").expect("indexes");
    assert_eq!(client.query(&statement, &[]).expect("runs").len(), 1);
    other.batch_execute("alter table changing add b text").expect("alters");
    let error = client.query(&statement, &[]).expect_err("other columns");
    assert_eq!(
        error.as_db_error().map(|error| error.message()),
        Some("cached plan must not change result type")
    );
}

#[test]
fn a_session_that_is_ended_leaves_others_alone() {
    let server = server();
    let mut client = connect(&server);
    let pid: i32 = client.query_one("select pg_backend_pid()", &[]).expect("runs").get(0);
    let mut other = connect(&server);
    assert!(other.query_one("select pg_terminate_backend($1)", &[&pid]).expect("runs").get::<_, bool>(0));
    let begin = Instant::now();
    while client.batch_execute("select 1").is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    other.batch_execute("select 1").expect("lives");
}

#[test]
fn rows_stream_through() {
    let server = server();
    let mut client = connect(&server);
    let rows =
        client.query_raw("select g, repeat('x', 100) from generate_series(1, 20000) g", Vec::<i32>::new());
    assert_eq!(rows.expect("runs").count().expect("reads"), 20_000);
}

fn connect_as(server: &Server, user: &str, database: &str) -> Result<Client, postgres::Error> {
    let config = format!("host=127.0.0.1 port={} user={user} dbname={database}", server.port());
    Client::connect(&config, NoTls)
}

#[test]
fn unknown_users_come_in_until_somebody_administers() {
    let server = server();
    let mut stranger = connect_as(&server, "stranger", "postgres").expect("nobody has made a role");
    assert_eq!(stranger.query_one("show is_superuser", &[]).expect("runs").get::<_, &str>(0), "on");
    stranger.batch_execute("create database books").expect("acts for postgres");
    stranger.batch_execute("create role clerk login").expect("acts for postgres");
    // Roles are administered now: a stranger is asked for a password like everybody who has one.
    let config = format!("host=127.0.0.1 port={} user=stranger password=x dbname=postgres", server.port());
    assert_eq!(state(&Client::connect(&config, NoTls).err().expect("refused")), "28P01");
    let mut clerk = connect_as(&server, "clerk", "postgres").expect("a role without a password, from here");
    let denied = clerk.batch_execute("create table public.t (a int)").expect_err("no CREATE on public");
    assert_eq!(state(&denied), "42501");
    connect(&server).batch_execute("revoke connect on database books from public").expect("runs");
    assert_eq!(state(&connect_as(&server, "clerk", "books").err().expect("no CONNECT")), "42501");
    connect(&server).batch_execute("alter role clerk password 'secret'").expect("runs");
    assert!(connect_as(&server, "clerk", "postgres").is_err(), "a role with a password is asked for it");
    // Rights change under a session that is connected.
    clerk.batch_execute("select 1").expect("lives on");
    connect(&server).batch_execute("alter role clerk superuser").expect("runs");
    clerk.batch_execute("create table public.t (a int)").expect("a superuser now");
    connect(&server).batch_execute("alter role clerk nosuperuser").expect("runs");
    assert!(clerk.batch_execute("create table public.u (a int)").is_err());
}

#[test]
fn an_idle_session_is_told_and_databases_do_not_hear_each_other() {
    let server = server();
    let mut speaker = connect(&server);
    speaker.batch_execute("create database elsewhere").expect("runs");
    let mut listener = connect(&server);
    let mut stranger = connect_as(&server, "postgres", "elsewhere").expect("connects");
    for client in [&mut listener, &mut stranger] {
        client.batch_execute("listen news").expect("listens");
    }
    let begin = Instant::now();
    for n in 0..50 {
        speaker.batch_execute(&format!("notify news, '{n}'")).expect("speaks");
    }
    let mut heard = listener.notifications();
    let mut heard = heard.timeout_iter(Duration::from_secs(10));
    for n in 0..50 {
        let told = heard.next().expect("reads").expect("in time");
        assert_eq!((told.channel(), told.payload()), ("news", &*n.to_string()));
    }
    assert!(begin.elapsed() < Duration::from_secs(10));
    let mut silence = stranger.notifications();
    assert!(silence.timeout_iter(Duration::from_millis(200)).next().expect("reads").is_none());
}

#[test]
fn what_sessions_wait_for_can_be_seen() {
    let server = server();
    let (mut first, mut observer) = (connect(&server), connect(&server));
    first
        .batch_execute("create table t (a int primary key, b int); insert into t values (1, 1)")
        .expect("runs");
    first.batch_execute("begin; update t set b = 2").expect("runs");
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let mut client = connect(&server);
            let thread = std::thread::spawn(move || client.batch_execute("update t set b = b + 1"));
            std::thread::sleep(Duration::from_millis(150));
            thread
        })
        .collect();
    let events = observer
        .query(
            "select wait_event_type, wait_event, xact_start is not null from pg_stat_activity
             where query like 'update t set b = b + 1%' order by query_start",
            &[],
        )
        .expect("runs");
    let events: Vec<(&str, &str, bool)> =
        events.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(events, [("Lock", "transactionid", true), ("Lock", "tuple", true)]);
    let locks = observer
        .query("select locktype, mode from pg_locks where not granted order by 1 desc", &[])
        .expect("runs");
    let locks: Vec<(&str, &str)> = locks.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(locks, [("tuple", "ExclusiveLock"), ("transactionid", "ShareLock")]);
    let idle = "select wait_event, state from pg_stat_activity where query like '%update t set b = 2'";
    let row = observer.query_one(idle, &[]).expect("runs");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("ClientRead", "idle in transaction"));
    first.batch_execute("commit").expect("runs");
    for thread in waiting {
        thread.join().expect("ends").expect("runs");
    }
}

#[test]
fn idle_sessions_are_ended() {
    let server = server();
    for (setting, then, expected) in [
        ("idle_in_transaction_session_timeout", "begin", "25P03"),
        ("idle_session_timeout", "select 1", "57P05"),
    ] {
        let mut client = connect(&server);
        client.batch_execute(&format!("set {setting} = '100ms'")).expect("runs");
        client.batch_execute(then).expect("runs");
        std::thread::sleep(Duration::from_millis(500));
        let ended = client.batch_execute("select 1").expect_err("the session is over");
        let told = ended.code().map(|code| code.code().to_owned());
        assert!(told.is_none_or(|told| told == expected), "{ended}");
        assert!(client.is_closed());
    }
    let mut victim = connect(&server);
    let pid: i32 = victim.query_one("select pg_backend_pid()", &[]).expect("runs").get(0);
    let ended = connect(&server).query_one("select pg_terminate_backend($1, 5000)", &[&pid]);
    assert!(ended.expect("runs").get::<_, bool>(0));
    assert!(victim.batch_execute("select 1").is_err());
}

#[test]
fn a_notice_leaves_while_its_statement_goes_on() {
    let server = server();
    let mut holder = connect(&server);
    holder.batch_execute("select pg_advisory_lock(1)").expect("locks");
    let (heard, notices) = std::sync::mpsc::channel();
    let mut config: postgres::Config =
        format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port())
            .parse()
            .expect("valid");
    config.notice_callback(move |notice| {
        // The receiver may have failed its test.
        let _ = heard.send(notice.message().to_owned());
    });
    let mut client = config.connect(NoTls).expect("connects");
    let statement = std::thread::spawn(move || {
        client.batch_execute(
            "do $$ begin raise notice 'before'; perform pg_advisory_lock(1); raise warning 'after'; end $$",
        )
    });
    let patience = Duration::from_secs(30);
    assert_eq!(notices.recv_timeout(patience).expect("heard while the lock is held"), "before");
    assert!(!statement.is_finished());
    holder.batch_execute("select pg_advisory_unlock(1)").expect("unlocks");
    assert_eq!(notices.recv_timeout(patience).expect("heard"), "after");
    statement.join().expect("ends").expect("runs");
}

#[test]
fn a_statement_ends_that_raises_notices_for_nobody() {
    let server = server();
    let mut observer = connect(&server);
    let mut lost = std::net::TcpStream::connect(("127.0.0.1", server.port())).expect("connects");
    let parameters = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    lost.write_all(&(parameters.len() as u32 + 4).to_be_bytes()).expect("sends");
    lost.write_all(parameters).expect("sends");
    let query = b"do $$ begin loop begin raise notice 'anybody?'; perform pg_sleep(0.001);
        exception when others then null; end; end loop; end $$\0";
    lost.write_all(b"Q").expect("sends");
    lost.write_all(&(query.len() as u32 + 4).to_be_bytes()).expect("sends");
    lost.write_all(query).expect("sends");
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("anybody?") {
        let mut piece = [0; 1000];
        let length = lost.read(&mut piece).expect("the session begins");
        assert!(length > 0, "the connection was closed");
        answer.extend_from_slice(&piece[..length]);
    }
    let mut runs = || {
        let row = observer.query_one(
            "select count(*) from pg_stat_activity where query like 'do %' and pid <> pg_backend_pid()",
            &[],
        );
        row.expect("runs").get::<_, i64>(0)
    };
    assert_eq!(runs(), 1);
    drop(lost);
    let begin = Instant::now();
    while runs() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "it still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A session that is about to end does not keep its database from being dropped.
#[test]
fn dropping_a_database_waits_for_sessions_that_end() {
    let server = server();
    let mut client = connect(&server);
    client.batch_execute("create database short_lived").expect("a database");
    let options = format!("host=127.0.0.1 port={} user=postgres dbname=short_lived", server.port());
    let mut inside = Client::connect(&options, NoTls).expect("a connection");
    inside.batch_execute("select 1").expect("an answer");
    let error = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(inside);
        });
        client.batch_execute("drop database short_lived").err()
    });
    assert!(error.is_none(), "{error:?}");
}
