//! Statements that would run for hours end by their timeout, and by a cancel request, wherever they are.

use std::path::Path;
use std::time::{Duration, Instant};

use cairn_testkit::Server;
use postgres::error::SqlState;
use postgres::{Client, NoTls};

/// A statement that has not ended by then does not listen. (Not the time that it should take: the machine may be busy.)
const DEAF: Duration = Duration::from_secs(20);

fn start() -> (Server, Client) {
    let server = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts");
    let options = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    let mut client = Client::connect(&options, NoTls).expect("a connection");
    client
        .batch_execute(
            "create table a as select g as x, g % 7 as y, 'text ' || g as t from generate_series(1, 20000) g;
             create table same as select 1 as x from generate_series(1, 20000);
             create table keyed (id int primary key, v int);
             insert into keyed select g, 0 from generate_series(1, 20000) g;
             create function endless() returns int language plpgsql as
                 $$ declare n int := 0; begin loop n := (n + 1) % 1000; end loop; return n; end $$;
             create function slow(int) returns bool immutable language plpgsql as
                 $$ begin perform pg_sleep(0.001); return false; end $$;",
        )
        .expect("tables");
    (server, client)
}

const STATEMENTS: &[&str] = &[
    // Joins that reject everything.
    "select count(*) from a p, a q where (p.x = q.y and p.y = 8) or (p.x = -q.x and p.t = q.t) or p.x + q.x < 0",
    "select count(*) from a p left join a q on p.x + q.x < 0",
    "select count(*) from same p join same q using (x) where p.x + q.x < 0",
    "select count(*) from same p full join same q on p.x = q.x and random() < 0",
    "select 1 from a p, a q, a r where p.x + q.x + r.x < 0",
    // Subqueries.
    "select count(*) from a p where exists (select 1 from a q where q.x + p.x < 0)",
    "select count(*) from a p where p.x = any (select q.x + p.x from a q)",
    "select count(*) from a p where p.x < all (select -q.x from a q, a r)",
    "select array(select p.x from a p, a q, a r)",
    "with c as materialized (select p.x from a p, a q) select count(*) from c where x < 0",
    "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r",
    "with recursive r(n) as (select 1 union select (n + 1) % 100000000 from r) select max(n) from r",
    // Aggregates, sets, windows, order.
    "select count(distinct p.x + q.x * 20000) from a p, a q",
    "select p.x, q.x, count(*) from a p, a q group by 1, 2 limit 1",
    "select sum(p.x) over (order by q.x rows between 5000 preceding and 5000 following exclude current row) from a p, a q",
    "select p.x from a p, a q except select q.x from a p, a q",
    "select p.x, q.t from a p, a q order by q.t, p.x limit 200000",
    "select p.x, q.t from a p, a q order by 1, 2",
    "select distinct p.x, q.x from a p, a q order by 1 desc, 2",
    "select count(*) from generate_series(1, 1000000000000) g where g < 0",
    "select count(*) from (select generate_series(1, 1000000000000) g) s where g < 0",
    // Functions.
    "select endless()",
    "select count(*) from a where slow(x)",
    "select pg_sleep(3600)",
    "select count(*) from a p, a q where q.t || p.t ~ '(a|b|c)*d$'",
    // Changes.
    "update keyed set v = v + 1 from a p, a q where p.x + q.x < 0",
    "delete from keyed using a p, a q where p.x + q.x < 0",
    "insert into keyed select p.x + q.x * 1000000, 1 from a p, a q",
    "insert into keyed select q.x, 1 from a p, a q on conflict (id) do nothing",
    "create table copied as select p.x, q.t from a p, a q",
    "create index on a (slow(x))",
    "alter table a add constraint c check (slow(x) is not null)",
    "alter table a alter x type bool using slow(x)",
    "set work_mem = '1GB'; select p.x, q.t from a p, a q order by 2, 1",
    "do $$ begin loop perform 1; end loop; end $$",
    "do $$ begin perform count(*) from a p, a q, a r; end $$",
    "explain analyze select count(*) from a p, a q where p.x + q.x < 0",
];

/// What does not run, for another reason than the one tested, is told apart.
fn refused(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::FEATURE_NOT_SUPPORTED)
}

/// The statement that began then has ended by a cancel request or timeout, in good time.
fn assert_cancelled(statement: &str, error: &postgres::Error, begin: Instant) {
    let took = begin.elapsed();
    println!("{:>6} ms  {statement}", took.as_millis());
    if refused(error) {
        return;
    }
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{statement}: {error}");
    assert!(took < DEAF, "{statement}: {took:?}");
}

#[test]
fn every_statement_hears_its_timeout() {
    let (_server, mut client) = start();
    client.batch_execute("set statement_timeout = '100ms'").expect("a setting");
    for statement in STATEMENTS {
        let begin = Instant::now();
        let error = client.batch_execute(statement).expect_err(statement);
        assert_cancelled(statement, &error, begin);
    }
}

#[test]
fn every_statement_hears_a_cancel_request() {
    let (_server, mut client) = start();
    for (number, statement) in STATEMENTS.iter().enumerate() {
        let token = client.cancel_token();
        let begin = Instant::now();
        let error = std::thread::scope(|scope| {
            scope.spawn(move || {
                // At different moments, so that each is met in another place.
                std::thread::sleep(Duration::from_millis(20 + 13 * (number as u64 % 9)));
                token.cancel_query(NoTls).expect("the request is sent");
            });
            client.batch_execute(statement).expect_err(statement)
        });
        assert_cancelled(statement, &error, begin);
    }
}
