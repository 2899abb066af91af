//! The workloads under `scenarios/`, with stock psql and pgbench, each for a few seconds: nothing fails, nothing
//! hangs, and the data is right afterwards. Speed is measured elsewhere (`cairn-bench`).

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Output;

use cairn_testkit::{Server, succeed};

fn start() -> Server {
    Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).unwrap()
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn pgbench_output(server: &Server, arguments: &[&str]) -> Output {
    server.client("timeout").args(["120", "pgbench", "-n"]).args(arguments).output().unwrap()
}

/// Runs pgbench, which must succeed without an aborted client; what it printed.
fn pgbench(server: &Server, arguments: &[&str]) -> String {
    let output = pgbench_output(server, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text =
        succeed("pgbench", output).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", server.log()));
    assert!(!errors.contains("aborted"), "{arguments:?}: {errors}");
    assert!(text.contains("number of transactions actually processed"), "{text}");
    text
}

fn script(name: &str) -> String {
    scenario(name).to_str().unwrap().to_owned()
}

/// Transactions that pgbench says it did.
fn processed(text: &str) -> u64 {
    let line =
        text.lines().find(|line| line.starts_with("number of transactions actually processed")).unwrap();
    line.split_once(": ").unwrap().1.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn queue_in_both_orders() {
    let server = start();
    for setup in ["queue_fifo.sql", "queue_lifo.sql"] {
        server.sql_file(&scenario(setup)).unwrap();
        let enqueued = processed(&pgbench(&server, &["-f", &script("enqueue.sql"), "-c", "10", "-t", "100"]));
        assert_eq!(enqueued, 1000);
        pgbench(&server, &["-f", &script("dequeue.sql"), "-c", "10", "-t", "60"]);
        // SKIP LOCKED may leave a worker without a job, but never gives a job twice.
        let left: u64 = server.sql("select count(*) from job_queue").unwrap().trim().parse().unwrap();
        assert!((400..=500).contains(&left), "{setup}: {left} jobs left of 1000 after 600 dequeues");
        let order = if setup == "queue_fifo.sql" { "asc" } else { "desc" };
        let first = server.sql("select id from job_queue where account_id = 0 limit 1").unwrap();
        let expected = server.sql(&format!("select id from job_queue order by id {order} limit 1")).unwrap();
        assert_eq!(first, expected, "{setup}: the key's order is the order in which jobs are read");
    }
}

#[test]
fn hot_rows_in_every_variant() {
    let server = start();
    server.sql_file(&scenario("daily_setup.sql")).unwrap();
    let mut done = 0;
    for mode in ["simple", "extended", "prepared"] {
        for name in ["daily_for_update.sql", "daily_returning.sql"] {
            done += processed(&pgbench(&server, &["-f", &script(name), "-M", mode, "-c", "20", "-t", "20"]));
        }
    }
    done += processed(&pgbench(&server, &["-f", &script("daily_backoff.sql"), "-c", "20", "-t", "20"]));
    done += processed(&pgbench(&server, &["-f", &script("daily_call.sql"), "-c", "20", "-t", "20"]));
    let spent: i64 = server
        .sql("select sum(1e9 - daily_limit)::bigint from daily_limit where day = now()::date")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    // Each transaction takes 1 to 10.
    assert!((done as i64..=10 * done as i64).contains(&spent), "{done} transactions took {spent}");
}

#[test]
fn shared_locks_deadlock_and_end() {
    let server = start();
    server.sql_file(&scenario("daily_setup.sql")).unwrap();
    let output = pgbench_output(
        &server,
        &["-f", &script("daily_for_share.sql"), "-c", "20", "-t", "20", "--max-tries=100"],
    );
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = succeed("pgbench", output).unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
    assert_eq!(processed(&text), 400, "{errors}");
}

#[test]
fn churn_with_and_without_a_key() {
    let server = start();
    for setup in ["churn_setup.sql", "churn_setup_nokey.sql"] {
        server.sql("drop table if exists demo, metric_table_size, metric_query").unwrap();
        server.sql_file(&scenario(setup)).unwrap();
        for _ in 0..3 {
            server.sql_file(&scenario("churn_cycle.sql")).unwrap();
        }
        assert_eq!(
            server.sql("select count(*), count(distinct rows) from metric_query").unwrap().trim(),
            "3|1"
        );
        assert_eq!(server.sql("select count(*) from demo").unwrap().trim(), "0");
        let measured = server
            .sql("select count(*) from metric_table_size where name = 'public.demo' and size > 0")
            .unwrap();
        assert_eq!(measured.trim(), "3");
    }
}

#[test]
fn speaking_clock() {
    let server = start();
    server.sql_file(&scenario("clock_setup.sql")).unwrap();
    pgbench(&server, &["-f", &script("clock_update.sql"), "-c", "10", "-t", "20", "--max-tries=10"]);
    let message = server.sql("select message from speaking_clock").unwrap();
    assert!(message.starts_with("At the third stroke, it will be "), "{message}");
    assert!(
        message.contains(" hours ") && message.contains(" minutes and") && !message.contains("SP"),
        "{message}"
    );
    assert!(!message.contains(|c: char| c.is_ascii_digit()), "the numbers are spelled out: {message}");
}

#[test]
fn deletion_set_up() {
    let server = start();
    let output = server
        .client("psql")
        .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-v", "n=5000", "-f"])
        .arg(scenario("deletion_setup.sql"))
        .output();
    succeed("psql", output.unwrap()).unwrap();
    assert_eq!(server.sql("delete from t1 where v < 5; select count(*) from t1").unwrap().trim(), "4500");
}

#[test]
fn pgbench_built_in_scripts() {
    let server = start();
    let output = server.client("pgbench").args(["-i", "-q", "-s", "1"]).output().unwrap();
    succeed("pgbench -i", output).unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
    for mode in ["simple", "extended", "prepared"] {
        for script in ["-S", "-N", "-btpcb-like"] {
            pgbench(&server, &[script, "-M", mode, "-c", "5", "-t", "20"]);
        }
    }
    let sums = server
        .sql(
            "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
                    (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches),
                    (select count(*) from pgbench_history)",
        )
        .unwrap();
    assert_eq!(sums.trim(), "t|t|600");
    let again = server.client("pgbench").args(["-i", "-q", "-s", "1"]).output().unwrap();
    succeed("pgbench -i on existing tables", again).unwrap();
}

#[test]
fn a_stopped_server_comes_back_with_everything() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let binary = Path::new(env!("CARGO_BIN_EXE_cairn"));
    let server = Server::cairn_at(binary, &data).unwrap();
    server.sql("create table kept (a int primary key, b text); insert into kept values (1, 'x')").unwrap();
    server.sql("create database other").unwrap();
    let (_, status) = server.stop().unwrap();
    assert!(status.success(), "{status}");
    let server = Server::cairn_at(binary, &data).unwrap();
    assert_eq!(server.sql("select b from kept").unwrap().trim(), "x");
    assert!(server.sql("select datname from pg_database").unwrap().contains("other"));
    let second = Server::cairn_at(binary, &data);
    let refusal = second.err().expect("a second server on the same directory is refused").to_string();
    assert!(refusal.contains("another") || refusal.contains("in use"), "{refusal}");
}
