//! What the storage does and keeps can be seen: `explain (dist, debug)`, schema `cairn`, `pg_stat_user_tables`, sizes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::Path;

use cairn_testkit::Server;
use postgres::{Client, NoTls};

fn start() -> (Server, Client) {
    let server = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).unwrap();
    let client = connect(&server);
    (server, client)
}

fn connect(server: &Server) -> Client {
    let parameters = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    Client::connect(&parameters, NoTls).unwrap()
}

/// The metrics that a statement's plan shows, summed over its nodes.
fn metrics(client: &mut Client, query: &str) -> HashMap<String, f64> {
    let mut metrics = HashMap::new();
    let explain = format!("explain (analyze, dist, debug, costs off, timing off, summary off) {query}");
    for row in client.query(&explain, &[]).unwrap() {
        let line: String = row.get(0);
        let line = line.trim().trim_start_matches("Metric ");
        if let Some((name, value)) = line.split_once(": ")
            && let Ok(value) = value.parse::<f64>()
        {
            *metrics.entry(name.to_owned()).or_default() += value;
        }
    }
    metrics
}

fn counters(client: &mut Client) -> HashMap<String, i64> {
    let row = client.query_one("select * from cairn.storage_counters", &[]).unwrap();
    row.columns().iter().enumerate().map(|(at, column)| (column.name().to_owned(), row.get(at))).collect()
}

#[test]
fn work_of_a_statement() {
    let (_server, mut client) = start();
    client
        .batch_execute(
            "create table jobs (id int primary key, payload text);
             insert into jobs select g, 'x' from generate_series(1, 3000) g;
             delete from jobs where id <= 2000",
        )
        .unwrap();
    let query = "select * from jobs order by id limit 1";
    let walk = metrics(&mut client, query);
    assert_eq!(walk["cairn_tombstones_skipped"], 2000.0, "{walk:?}");
    assert_eq!(walk["Storage Table Read Requests"], 1.0);
    let jump = metrics(&mut client, query);
    assert_eq!(jump["cairn_tombstones_skipped"], 0.0, "{jump:?}");
    assert_eq!(jump["cairn_ranges_skipped"], 1.0);
    assert_eq!(jump["docdb_keys_found"], 1.0);
    assert!(jump["rocksdb_number_db_seek"] <= 2.0 && jump["rocksdb_number_db_next"] <= 2.0, "{jump:?}");
    assert_eq!(jump["rocksdb_internal_delete_skipped"], 0.0);
}

#[test]
fn work_of_a_database() {
    let (server, mut client) = start();
    client
        .batch_execute(
            "create table t (id int primary key, v int);
             insert into t select g, g from generate_series(1, 100) g",
        )
        .unwrap();
    let before = counters(&mut client);
    for id in 1..=50 {
        client.query("select v from t where id = $1", &[&id]).unwrap();
    }
    let after = counters(&mut client);
    let rows = after["keys_found"] - before["keys_found"];
    assert!((50..=60).contains(&rows), "{before:?} {after:?}");
    assert!(after["transactions"] - before["transactions"] >= 50);
    assert!(after["seeks"] - before["seeks"] >= 50);
    // What another session does counts as well; a transaction's reads when it has ended.
    let mut other = connect(&server);
    let mut block = other.transaction().unwrap();
    block.query("select * from t", &[]).unwrap();
    drop(block);
    assert!(counters(&mut client)["keys_found"] - after["keys_found"] >= 100);
}

#[test]
fn versions_and_who_keeps_them() {
    let (server, mut client) = start();
    client
        .batch_execute(
            "create table t (id int primary key, v int); create index t_v on t (v);
             insert into t select g, g from generate_series(1, 100) g",
        )
        .unwrap();
    let mut holder = connect(&server);
    let pid: i32 = holder.query_one("select pg_backend_pid()", &[]).unwrap().get(0);
    let mut snapshot =
        holder.build_transaction().isolation_level(postgres::IsolationLevel::RepeatableRead).start().unwrap();
    snapshot.query("select count(*) from t", &[]).unwrap();
    client.batch_execute("delete from t where id <= 40; update t set v = v + 1000 where id > 90").unwrap();
    let query = "select index_name::text, live_rows, versions, tombstones, estimated, oldest_pin_pid, oldest_pin_kind,
             oldest_pin_age > interval '0', wal_bytes > 0
         from cairn.tables where table_name = 't' order by index_name";
    let rows = client.query(query, &[]).unwrap();
    let figures = |at: usize| -> (String, i64, i64, i64, bool) {
        let row = &rows[at];
        (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))
    };
    assert_eq!(figures(0), ("t_pkey".to_owned(), 60, 150, 40, false));
    // Updated entries are a tombstone and a new entry.
    assert_eq!(figures(1), ("t_v".to_owned(), 60, 160, 50, false));
    assert_eq!(rows[0].get::<_, Option<i32>>(5), Some(pid));
    assert_eq!(rows[0].get::<_, Option<String>>(6).as_deref(), Some("transaction"));
    assert!(rows[0].get::<_, bool>(7) && rows[0].get::<_, bool>(8));
    let pins = "select count(*) from cairn.pins where pid = $1 and kind = 'transaction'";
    assert_eq!(client.query_one(pins, &[&pid]).unwrap().get::<_, i64>(0), 1);
    snapshot.commit().unwrap();
    assert_eq!(client.query_one(pins, &[&pid]).unwrap().get::<_, i64>(0), 0);
    let error = client.batch_execute("create table cairn.mine (i int)").unwrap_err();
    assert_eq!(error.code(), Some(&postgres::error::SqlState::INSUFFICIENT_PRIVILEGE));
}

#[test]
fn statistics_of_tables() {
    let (_server, mut client) = start();
    for statement in [
        "create table s (id int primary key, w int)",
        "create index s_w on s (w)",
        "insert into s select g, g % 10 from generate_series(1, 1000) g",
        "update s set w = 3 where id <= 50",
        "delete from s where id > 900",
    ] {
        client.batch_execute(statement).unwrap();
    }
    client.query("select * from s", &[]).unwrap();
    client.query("select * from s where w = 5", &[]).unwrap();
    let query = "select n_tup_ins, n_tup_upd, n_tup_del, seq_scan > 0, idx_scan > 0, n_live_tup, n_dead_tup,
             pg_table_size(relid) > 0, pg_total_relation_size(relid) > pg_table_size(relid)
         from pg_stat_user_tables where relname = 's'";
    let row = client.query_one(query, &[]).unwrap();
    let changes: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(changes, [1000, 50, 100]);
    assert!(row.get::<_, bool>(3) && row.get::<_, bool>(4));
    let versions: [i64; 2] = [row.get(5), row.get(6)];
    assert_eq!(versions, [900, 250], "of 1150 versions");
    assert!(row.get::<_, bool>(7) && row.get::<_, bool>(8));
    let read = "select idx_tup_read from pg_stat_user_indexes where indexrelname = 's_w'";
    assert_eq!(client.query_one(read, &[]).unwrap().get::<_, i64>(0), 85);
    client.query("select pg_stat_reset()", &[]).unwrap();
    assert_eq!(client.query_one(query, &[]).unwrap().get::<_, i64>(0), 0);
    client.execute("insert into s values (5000, 1)", &[]).unwrap();
    assert_eq!(client.query_one(query, &[]).unwrap().get::<_, i64>(0), 1);
}

/// A plan leaves out an index that is younger than the snapshot, and takes it again when it may.
#[test]
fn plans_under_an_old_snapshot() {
    let (server, mut client) = start();
    client
        .batch_execute(
            "create table t (id int primary key, a int);
             insert into t select g, g % 100 from generate_series(1, 1000) g",
        )
        .unwrap();
    let mut reader = connect(&server);
    let plan = |reader: &mut Client, query: &str| -> String {
        let rows = reader.query(&format!("explain (costs off) {query}"), &[]).unwrap();
        rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
    };
    let query = "select count(*) from t where a = 5";
    reader
        .batch_execute(&format!(
            "prepare q as {query};
             create function f() returns bigint language plpgsql as 'begin return ({query}); end';
             execute q; select f()"
        ))
        .unwrap();
    reader.batch_execute("begin isolation level repeatable read; select 1").unwrap();
    client.batch_execute("delete from t where id = 105; create index t_a on t (a)").unwrap();
    let counted = |reader: &mut Client, query: &str| -> i64 {
        match &reader.simple_query(query).unwrap()[1] {
            postgres::SimpleQueryMessage::Row(row) => row.get(0).unwrap().parse().unwrap(),
            _ => panic!("no row"),
        }
    };
    let activity = |client: &mut Client| -> i64 {
        let query = "select idx_scan from pg_stat_user_indexes where indexrelname = 't_a'";
        client.query_one(query, &[]).unwrap().get(0)
    };
    for statement in [query, "execute q", "select f()"] {
        assert_eq!(counted(&mut reader, statement), 10, "{statement}");
    }
    assert!(plan(&mut reader, query).contains("Seq Scan"));
    assert_eq!(activity(&mut client), 0);
    reader.batch_execute("commit").unwrap();
    for (at, statement) in [query, "execute q", "select f()"].into_iter().enumerate() {
        assert_eq!(counted(&mut reader, statement), 9, "{statement}");
        assert_eq!(activity(&mut client), at as i64 + 1, "{statement}");
    }
    assert!(plan(&mut reader, query).contains("Index Scan using t_a"));
    // The other way round: what was planned for the present does not serve a snapshot that is older than its index.
    reader.batch_execute("begin isolation level repeatable read; select 1").unwrap();
    client.batch_execute("delete from t where id = 205; reindex index t_a").unwrap();
    for statement in [query, "execute q", "select f()"] {
        assert_eq!(counted(&mut reader, statement), 9, "{statement}");
    }
    reader.batch_execute("commit").unwrap();
}

/// A time in the past has the tables and indexes of then.
#[test]
fn the_past_has_its_own_indexes() {
    let (_server, mut client) = start();
    let count = |client: &mut Client, query: &str| -> i64 { client.query_one(query, &[]).unwrap().get(0) };
    client
        .batch_execute(
            "create table t (id int primary key, a int);
             insert into t select g, g % 100 from generate_series(1, 1000) g",
        )
        .unwrap();
    let mut times: Vec<String> = Vec::new();
    let note = |client: &mut Client, times: &mut Vec<String>| {
        times.push(client.query_one("select clock_timestamp()::text", &[]).unwrap().get(0));
    };
    note(&mut client, &mut times);
    client.batch_execute("delete from t where id = 105; create index t_a on t (a)").unwrap();
    note(&mut client, &mut times);
    client.batch_execute("delete from t where id = 205; alter table t alter id type bigint").unwrap();
    note(&mut client, &mut times);
    client.batch_execute("delete from t where id = 305; reindex table t").unwrap();
    note(&mut client, &mut times);
    let query = "select count(*) from t where a = 5";
    assert_eq!(count(&mut client, query), 7);
    for (time, wanted) in times.iter().zip([10, 9, 8, 7]) {
        client.batch_execute(&format!("set cairn.read_time = '{time}'")).unwrap();
        assert_eq!(count(&mut client, query), wanted, "{time}");
        assert_eq!(count(&mut client, "select count(*) from t"), 1000 - 10 + wanted);
    }
    client.batch_execute("reset cairn.read_time").unwrap();
    assert_eq!(count(&mut client, query), 7);
}
