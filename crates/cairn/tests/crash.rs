//! kill -9 under load, again and again, against an oracle of acknowledged commits.
//!
//! Clients commit transactions of several statements and remember each acknowledged one; the server is killed at a random
//! moment; after the restart every acknowledged transaction must be there whole, no other may be there in
//! part, the index must agree with the table, and no lock may be left.
//!
//! kill -9 loses no write that reached the operating system, so this test says nothing about fsync.
//! `CAIRN_CRASH_ROUNDS` sets the number of kills (default 6).

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cairn_testkit::Server;
use postgres::{Client, NoTls};

const CLIENTS: i32 = 6;

/// (client, number of the transaction): what was acknowledged, and what may have been committed besides.
#[derive(Default)]
struct Oracle {
    acknowledged: BTreeSet<(i32, i32)>,
    attempted: BTreeSet<(i32, i32)>,
}

#[test]
fn kill_9_loses_nothing_acknowledged_and_tears_nothing() {
    let rounds: u64 =
        std::env::var("CAIRN_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let oracle = Arc::new(Mutex::new(Oracle::default()));
    let mut next_number = 0;
    for round in 0..=rounds {
        let server = Server::cairn_at(Path::new(env!("CARGO_BIN_EXE_cairn")), &data).unwrap();
        if round == 0 {
            set_up(&server);
        } else {
            verify(&server, &oracle.lock().unwrap(), round);
        }
        if round == rounds {
            break;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (oracle, stop, port, first) =
                    (Arc::clone(&oracle), Arc::clone(&stop), server.port(), next_number);
                thread::spawn(move || work(port, client, first, &oracle, &stop))
            })
            .collect();
        // Spread over the phases of a commit by a stride that shares no factor with a millisecond.
        thread::sleep(Duration::from_micros(250_000 + round * 37_211 % 400_000));
        server.kill().unwrap();
        stop.store(true, Ordering::Relaxed);
        next_number = workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap() + 1;
    }
    let oracle = oracle.lock().unwrap();
    assert!(
        oracle.acknowledged.len() as u64 > rounds,
        "too little was committed for the test to mean anything"
    );
}

fn connect(port: u16) -> Client {
    let parameters = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    Client::connect(&parameters, NoTls).unwrap()
}

fn set_up(server: &Server) {
    connect(server.port())
        .batch_execute(
            "create table entry (client int, number int, half int, note text, primary key (client, number, half));
             create index entry_note on entry (note);
             create table counter (client int primary key, value int not null);
             insert into counter select c, 0 from generate_series(0, 99) c;
             create table queue (id bigint generated always as identity primary key, client int, number int);",
        )
        .unwrap();
}

/// Commits transactions until the server dies; the next unused number.
fn work(port: u16, client: i32, first: i32, oracle: &Mutex<Oracle>, stop: &AtomicBool) -> i32 {
    let mut connection = connect(port);
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        oracle.lock().unwrap().attempted.insert((client, number));
        let done = (|| -> Result<(), postgres::Error> {
            let mut transaction = connection.transaction()?;
            for half in [0, 1] {
                transaction.execute(
                    "insert into entry values ($1, $2, $3, $4)",
                    &[&client, &number, &half, &format!("note {client} {number}")],
                )?;
            }
            transaction.execute("update counter set value = value + 1 where client = $1", &[&client])?;
            transaction.execute("insert into queue (client, number) values ($1, $2)", &[&client, &number])?;
            transaction.commit()
        })();
        match done {
            Ok(()) => oracle.lock().unwrap().acknowledged.insert((client, number)),
            Err(_) => break,
        };
        number += 1;
    }
    number
}

fn verify(server: &Server, oracle: &Oracle, round: u64) {
    let mut connection = connect(server.port());
    connection.batch_execute("set lock_timeout = '5s'").unwrap();
    let mut halves = std::collections::BTreeMap::<(i32, i32), i64>::new();
    for row in connection.query("select client, number, count(*) from entry group by 1, 2", &[]).unwrap() {
        halves.insert((row.get(0), row.get(1)), row.get(2));
    }
    for key in &oracle.acknowledged {
        assert!(halves.contains_key(key), "round {round}: acknowledged transaction {key:?} is lost");
    }
    for (key, count) in &halves {
        assert_eq!(*count, 2, "round {round}: transaction {key:?} is torn");
        assert!(oracle.attempted.contains(key), "round {round}: {key:?} was never attempted");
    }
    let queued: BTreeSet<(i32, i32)> = connection
        .query("select client, number from queue", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    assert_eq!(
        queued,
        halves.keys().copied().collect(),
        "round {round}: two tables of one transaction differ"
    );
    for client in 0..CLIENTS {
        let expected = halves.keys().filter(|(of, _)| *of == client).count() as i32;
        let row = connection
            .query_one("select value from counter where client = $1 for update", &[&client])
            .unwrap();
        assert_eq!(row.get::<_, i32>(0), expected, "round {round}: counter of client {client}");
    }
    // The same rows through the index as through the table.
    for (client, number) in oracle.acknowledged.iter().rev().take(20) {
        let note = format!("note {client} {number}");
        let row = connection.query_one("select count(*) from entry where note = $1", &[&note]).unwrap();
        assert_eq!(row.get::<_, i64>(0), 2, "round {round}: {note} through the index");
    }
}
