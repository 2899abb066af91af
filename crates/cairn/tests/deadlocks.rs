//! Deadlocks over the wire: rows in all modes, tables, advisory locks, mixed in one cycle.
//!
//! Each cycle costs exactly one of its members its transaction (40P01); the others go on. A storm of random locks ends,
//! leaves no lock, and loses no update.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cairn_testkit::Server;
use postgres::{Client, NoTls};

/// A wedge: far longer than anything here takes on a busy machine.
const WEDGED: Duration = Duration::from_secs(120);

fn server() -> Server {
    let server = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).unwrap();
    server
        .sql(
            "create table counter (id int primary key, value int not null, note text);
             insert into counter select g, 0, 'x' from generate_series(0, 7) g;
             create table child (id int primary key, counter int references counter);
             create table other (a int);
             create table third (a int)",
        )
        .unwrap();
    server
}

fn connect(port: u16) -> Client {
    let config = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    Client::connect(&config, NoTls).unwrap()
}

fn is_deadlock(error: &postgres::Error) -> bool {
    let report = error.as_db_error();
    let code = report.map(|report| report.code().code());
    assert_eq!(code, Some("40P01"), "{error:?}");
    let detail = report.and_then(|report| report.detail()).unwrap_or_default();
    assert!(detail.contains("waits for") && detail.contains("blocked by process"), "{detail}");
    true
}

/// Something that one session can hold, in a way that another one cannot.
const RESOURCES: [[&str; 2]; 7] = [
    ["select 1 from counter where id = 0 for update", "select 1 from counter where id = 0 for key share"],
    ["select pg_advisory_xact_lock(1)", "select pg_advisory_xact_lock_shared(1)"],
    ["lock table other in share row exclusive mode", "insert into other values (1)"],
    ["update counter set value = value where id = 1", "select 1 from counter where id = 1 for share"],
    ["insert into child values (1, 2)", "delete from counter where id = 2"],
    ["lock table third in access exclusive mode", "select * from third"],
    ["select 1 from counter where id = 3 for share", "update counter set note = 'y' where id = 3"],
];

#[test]
fn each_cycle_has_one_victim() {
    let server = server();
    for length in 2..=RESOURCES.len() {
        for first in 0..3 {
            let resource = |at: usize| RESOURCES[(first + at) % RESOURCES.len()];
            let mut sessions: Vec<Client> = (0..length).map(|_| connect(server.port())).collect();
            for (at, session) in sessions.iter_mut().enumerate() {
                session.batch_execute(&format!("begin; {}", resource(at)[0])).unwrap();
            }
            let (ended, results) = mpsc::channel();
            for (at, mut session) in sessions.into_iter().enumerate() {
                let (ended, wanted) = (ended.clone(), resource((at + 1) % length)[1]);
                thread::spawn(move || {
                    let result = session.batch_execute(wanted);
                    let _ = session.batch_execute("rollback");
                    let _ = ended.send(result);
                });
            }
            let victims = (0..length)
                .map(|_| results.recv_timeout(WEDGED).expect("a session waits for ever"))
                .filter(|result| result.as_ref().is_err_and(is_deadlock))
                .count();
            assert_eq!(victims, 1, "a cycle of {length} from {first}");
        }
    }
    nothing_is_left(&server);
}

/// Every lock that a statement can take, at random.
fn random_lock(next: &mut impl FnMut(u64) -> u64, updates: &mut Vec<u64>) -> String {
    let row = next(8);
    match next(12) {
        0..=3 => {
            let mode = ["update", "no key update", "share", "key share"][next(4) as usize];
            format!("select 1 from counter where id = {row} for {mode}")
        }
        4 | 5 => {
            updates.push(row);
            format!("update counter set value = value + 1 where id = {row}")
        }
        6 => format!("insert into child values ({}, {row})", next(1 << 30)),
        7 => {
            let mode = [
                "access share",
                "row share",
                "row exclusive",
                "share update exclusive",
                "share",
                "share row exclusive",
                "exclusive",
                "access exclusive",
            ][next(8) as usize];
            format!("lock table {} in {mode} mode", ["other", "third"][next(2) as usize])
        }
        8 => format!("insert into {} values (1)", ["other", "third"][next(2) as usize]),
        9 => format!("select pg_advisory_xact_lock({})", next(3)),
        10 => format!("select pg_advisory_xact_lock_shared({})", next(3)),
        _ => format!("savepoint s; select 1 from counter where id = {row} for update; rollback to s"),
    }
}

#[test]
fn a_storm_ends() {
    const SESSIONS: u64 = 16;
    const TRANSACTIONS: u64 = 20;
    let server = server();
    let (ended, results) = mpsc::channel();
    for seed in 1..=SESSIONS {
        let (ended, port) = (ended.clone(), server.port());
        thread::spawn(move || {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut next = |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let mut session = connect(port);
            let (mut committed, mut deadlocks) = ([0i32; 8], 0);
            for _ in 0..TRANSACTIONS {
                let mut updates = Vec::new();
                session.batch_execute("begin").unwrap();
                let done = (0..2 + next(5))
                    .try_for_each(|_| session.batch_execute(&random_lock(&mut next, &mut updates)));
                match done.and_then(|()| session.batch_execute("commit")) {
                    Ok(()) => updates.iter().for_each(|row| committed[*row as usize] += 1),
                    Err(error) => {
                        deadlocks += i32::from(is_deadlock(&error));
                        session.batch_execute("rollback").unwrap();
                    }
                }
            }
            let _ = ended.send((committed, deadlocks));
        });
    }
    drop(ended);
    let (mut expected, mut deadlocks) = ([0; 8], 0);
    for _ in 0..SESSIONS {
        let (committed, of_session) = results.recv_timeout(WEDGED).unwrap_or_else(|error| {
            let locks =
                server.sql("select pid, locktype, mode, granted, pg_blocking_pids(pid) from pg_locks");
            panic!("{error}: {}\n{}", locks.unwrap_or_default(), server.log());
        });
        expected.iter_mut().zip(committed).for_each(|(sum, count)| *sum += count);
        deadlocks += of_session;
    }
    assert!(deadlocks > 0, "no deadlock: the storm is none");
    assert!(deadlocks < (SESSIONS * TRANSACTIONS) as i32, "nobody got through");
    let mut client = connect(server.port());
    let rows = client.query("select value from counter order by id", &[]).unwrap();
    let values: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(values, expected);
    nothing_is_left(&server);
}

/// Statements that each write one row by itself, found by the one or the other unique index, wait for each other in one order.
#[test]
fn single_rows_do_not_deadlock() {
    const STATEMENTS: [&str; 9] = [
        "insert into up (u) values (1) on conflict (u) do update set n = up.n + 1",
        "insert into up (id, u) values (7, 1) on conflict (u) do update set n = up.n + 1",
        "insert into up (id, u) values (7, 1) on conflict (u) do nothing",
        "insert into up (id, u) values (7, 1) on conflict do nothing",
        "insert into up (id, u) values (7, 1)",
        "delete from up where u = 1",
        "delete from up where id = 7",
        "update up set u = null where u = 1",
        "update up set n = n + 1, u = u where id = 7",
    ];
    const ROUNDS: usize = 100;
    let server = server();
    server.sql("create sequence ids start 100").unwrap();
    server
        .sql("create table up (id int primary key default nextval('ids'), u int unique, n int default 0)")
        .unwrap();
    let (ended, results) = mpsc::channel();
    for statement in STATEMENTS {
        let (ended, port) = (ended.clone(), server.port());
        thread::spawn(move || {
            let mut session = connect(port);
            let mut unexpected = Vec::new();
            for _ in 0..ROUNDS {
                if let Err(error) = session.batch_execute(statement) {
                    let code = error.as_db_error().map(|error| error.code().code().to_owned());
                    if code.as_deref() != Some("23505") {
                        unexpected.push(format!("{statement}: {error:?}"));
                    }
                }
            }
            let _ = ended.send(unexpected);
        });
    }
    drop(ended);
    for _ in STATEMENTS {
        assert_eq!(results.recv_timeout(WEDGED).unwrap(), Vec::<String>::new());
    }
    // The rows and the index tell the same.
    let wrong =
        "select count(*) from up a where u is not null and id <> (select id from up b where b.u = a.u)";
    assert_eq!(server.sql(wrong).unwrap().trim(), "0");
    assert_eq!(server.sql("select count(*) <= 1 from up where u = 1").unwrap().trim(), "t");
    nothing_is_left(&server);
}

fn nothing_is_left(server: &Server) {
    let left = server.sql("select count(*) from pg_locks where pid <> pg_backend_pid()").unwrap();
    assert_eq!(left.trim(), "0");
}
