//! ANALYZE and what the planner makes of it: row estimates beside PostgreSQL's, plans that follow from them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

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

/// Three tables with values that are spread evenly, skewed, correlated with the key and with each other, and often null. The last is
/// larger than its sample.
const TABLES: &str = "
    create table customer (id int primary key, country text, vip bool, joined date, referrer int, note text);
    insert into customer
        select g, case when g % 10 < 6 then 'de' when g % 10 < 9 then 'fr' else 'c' || g % 40 end, g % 20 = 0,
               date '2020-01-01' + g / 4, case when g % 8 = 0 then g / 8 end, 'note ' || g % 500
        from generate_series(1, 2000) g;
    create table orders (id int primary key, customer int, state text, amount numeric, placed timestamptz, pos int);
    insert into orders
        select g, 1 + g * 7919 % 2000, case when g % 1000 < 3 then 'new' when g % 50 = 0 then 'open' else 'done' end,
               (g * 31 % 1000)::numeric / 4, timestamptz '2024-01-01 00:00:00+00' + g * interval '10 min', g * 13 % 20000
        from generate_series(1, 20000) g;
    create index orders_customer on orders (customer);
    create index orders_state on orders (state);
    create table item (orders int, line int, product int, price float8, gift bool, primary key (orders, line));
    insert into item
        select 1 + g / 2, 1 + g % 2, case when g % 3 = 0 then 1 else g * 17 % 400 end, g % 977, case when g % 5 > 0 then g % 7 = 0 end
        from generate_series(0, 39999) g;
    create index item_product on item (product);
    analyze customer, orders, item;
";

/// Queries with the number of rows that PostgreSQL 15 expects them to have. Those over `item` vary with the sample, by a few
/// per cent.
const ESTIMATES: &[(&str, f64)] = &[
    ("select from customer where id = 77", 1.0),
    ("select from customer where id between 100 and 299", 200.0),
    ("select from customer where id > 1500", 500.0),
    ("select from customer where id <> 5", 1999.0),
    ("select from customer where country = 'de'", 1200.0),
    ("select from customer where country = 'c9'", 50.0),
    ("select from customer where country in ('fr', 'c19', 'c29')", 700.0),
    ("select from customer where country <> 'de'", 800.0),
    ("select from customer where vip", 100.0),
    ("select from customer where not vip", 1900.0),
    ("select from customer where vip is not true", 1900.0),
    ("select from customer where joined < date '2020-03-01'", 243.0),
    ("select from customer where joined >= date '2021-01-01' and joined < date '2021-02-01'", 124.0),
    ("select from customer where referrer is null", 1750.0),
    ("select from customer where referrer is not null", 250.0),
    ("select from customer where referrer < 50", 49.0),
    ("select from customer where note like 'note 1%'", 444.0),
    ("select from customer where note not like 'note 1%'", 1556.0),
    ("select from customer where note like '%99'", 16.0),
    ("select from customer where note = 'note 7' or country = 'fr'", 603.0),
    ("select from customer where country = 'de' and vip", 60.0),
    ("select from customer where not (country = 'de')", 800.0),
    ("select from customer where referrer is distinct from 7", 1999.0),
    ("select from orders where state = 'new'", 60.0),
    ("select from orders where state = 'open'", 380.0),
    ("select from orders where state = 'done'", 19560.0),
    ("select from orders where state = 'none'", 1.0),
    ("select from orders where state > 'done'", 440.0),
    ("select from orders where amount < 50", 4000.0),
    ("select from orders where amount between 100 and 110", 820.0),
    ("select from orders where placed >= '2024-05-01' and placed < '2024-05-08'", 1008.0),
    ("select from orders where placed > timestamptz '2024-05-01' + interval '3 days'", 2144.0),
    ("select from orders where pos < 1000", 1000.0),
    ("select from orders where pos + 0 = 5", 100.0),
    ("select from item where product = 1", 13429.0),
    ("select from item where product = 50", 66.0),
    ("select from item where product > 350", 3308.0),
    ("select from item where price >= 900", 3141.0),
    ("select from item where gift", 4613.0),
    ("select from item where gift is null", 8009.0),
    ("select from item where orders = 500", 2.0),
    ("select from item where orders = any (array[5, 6, 7])", 6.0),
    ("select from item where orders < 1000 and line = 2", 1006.0),
    ("select from orders o join customer c on c.id = o.customer", 20000.0),
    ("select from orders o join customer c on c.id = o.customer where c.country = 'fr'", 6000.0),
    ("select from orders o join customer c on c.id = o.customer where o.state = 'new'", 60.0),
    ("select from orders o join item i on i.orders = o.id where o.state = 'open'", 760.0),
    ("select from item a join item b on a.product = b.product where a.orders < 100", 965223.0),
    ("select from customer c join customer r on r.id = c.referrer", 250.0),
    (
        "select from item i join orders o on o.id = i.orders join customer c on c.id = o.customer where c.vip",
        1999.0,
    ),
    (
        "select from item i join orders o on o.id = i.orders join customer c on c.id = o.customer where c.country = 'c9' and o.state = 'done'",
        978.0,
    ),
    (
        "select from customer c where exists (select from orders o where o.customer = c.id and o.state = 'new')",
        60.0,
    ),
    (
        "select from customer c where not exists (select from orders o where o.customer = c.id and o.state = 'new')",
        1940.0,
    ),
    ("select from customer c where id in (select referrer from customer)", 250.0),
    ("select from customer c left join orders o on o.customer = c.id and o.state = 'new'", 2000.0),
    ("select country from customer group by country", 6.0),
    ("select distinct state from orders", 3.0),
    ("select customer, state from orders group by customer, state", 2000.0),
    ("select product from item group by product", 400.0),
    ("select date_trunc('month', placed) from orders group by 1", 20000.0),
    ("select c.country, o.state from orders o join customer c on c.id = o.customer group by 1, 2", 18.0),
    ("select count(*) from item where product = 1", 1.0),
    ("select distinct customer from orders where state = 'open'", 349.0),
];

/// No estimate may be farther away than this from PostgreSQL's.
const FACTOR_MAX: f64 = 2.0;

/// Rows that the topmost node is expected to give.
fn estimate(client: &mut Client, query: &str) -> f64 {
    let plan = simple(client, &format!("explain (format json) {query}"));
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    plan[0]["Plan"]["Plan Rows"].as_f64().unwrap()
}

/// The first column of the first row, as text.
fn simple(client: &mut Client, query: &str) -> String {
    let messages = client.simple_query(query).unwrap();
    let mut rows = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.next().and_then(|row| row.get(0)).unwrap().to_owned()
}

fn plan(client: &mut Client, query: &str) -> String {
    let rows = client.query(&format!("explain (costs off) {query}"), &[]).unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

fn text(client: &mut Client, query: &str) -> Option<String> {
    client.query_one(query, &[]).unwrap().get(0)
}

#[test]
fn estimates_are_postgresqls() {
    let (_server, mut client) = start();
    client.batch_execute(TABLES).unwrap();
    let mut far = Vec::new();
    println!("{:>10} {:>10}", "PostgreSQL", "Cairn");
    for (query, expected) in ESTIMATES {
        let actual = estimate(&mut client, query);
        println!("{expected:>10} {actual:>10} {query}");
        if (actual / expected).max(expected / actual) > FACTOR_MAX {
            far.push(format!("{query}: {actual} rows instead of {expected}"));
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
}

#[test]
fn values_decide_between_index_and_table() {
    let (_server, mut client) = start();
    client.batch_execute(TABLES).unwrap();
    let by_index = |client: &mut Client, query: &str| plan(client, query).contains("Index Scan");
    assert!(!by_index(&mut client, "select * from orders where state = 'done'"));
    assert!(by_index(&mut client, "select * from orders where state = 'new'"));
    assert!(by_index(&mut client, "select * from item where product > 395"));
    assert!(!by_index(&mut client, "select * from item where product > 10"));
    // A prepared statement's plan goes by the values too, and gives the right rows whichever it is.
    client.batch_execute("prepare by_state(text) as select count(*) from orders where state = $1").unwrap();
    assert!(by_index(&mut client, "execute by_state('new')"));
    assert!(!by_index(&mut client, "execute by_state('done')"));
    let statement = client.prepare("select count(*) from orders where state = $1").unwrap();
    for (state, count) in
        [("new", 60i64), ("done", 19560), ("open", 380), ("new", 60), ("none", 0), ("done", 19560)]
    {
        assert_eq!(client.query_one(&statement, &[&state]).unwrap().get::<_, i64>(0), count, "{state}");
        // The same as literals, whose plans are kept by the statement's shape.
        let query = format!("select count(*) from orders where state = '{state}'");
        assert_eq!(simple(&mut client, &query), count.to_string(), "{state}");
    }
}

#[test]
fn join_order_follows_the_statistics() {
    let (_server, mut client) = start();
    client.batch_execute(TABLES.replace("analyze customer, orders, item;", "").as_str()).unwrap();
    let first = |plan: &str| plan.find(" on customer").unwrap() < plan.find(" on orders").unwrap();
    // Any state is taken for a rare one as long as nobody has counted; then it is the country that is rare.
    let query = "select * from orders o join customer c on c.id = o.customer where o.state = 'done' and c.country = 'c9'";
    let before = plan(&mut client, query);
    assert!(!first(&before), "{before}");
    client.batch_execute("analyze customer, orders").unwrap();
    let after = plan(&mut client, query);
    assert!(after.starts_with("Nested Loop") && first(&after), "{after}");
    // 60 new orders look up their customers; most of all orders are joined by hashing.
    let query = "select * from orders o join customer c on c.id = o.customer where o.state = 'new' and c.country = 'de'";
    let few = plan(&mut client, query);
    assert!(few.starts_with("Nested Loop") && !first(&few), "{few}");
    client.batch_execute("update orders set state = 'new' where id % 3 > 0; analyze orders").unwrap();
    let now = plan(&mut client, query);
    assert!(now.starts_with("Hash Join"), "{now}");
}

#[test]
fn statistics_survive_a_restart_and_die_with_a_rollback() {
    let (mut server, mut client) = start();
    client
        .batch_execute(
            "create table t (a int); insert into t select g % 10 from generate_series(1, 500) g; analyze t",
        )
        .unwrap();
    let values = "select most_common_vals::text from pg_stats where tablename = 't'";
    let known = text(&mut client, values);
    assert!(known.is_some());
    client.batch_execute("begin; delete from t where a > 2; analyze t").unwrap();
    assert_ne!(text(&mut client, values), known);
    client.batch_execute("rollback").unwrap();
    assert_eq!(text(&mut client, values), known);
    drop(client);
    server.restart().unwrap();
    let mut client = connect(&server);
    assert_eq!(text(&mut client, values), known);
    assert_eq!(estimate(&mut client, "select from t where a = 3"), 50.0);
}

#[test]
fn a_table_larger_than_its_sample() {
    let (_server, mut client) = start();
    client
        .batch_execute(
            "create table t (id int primary key, v int, w text);
             insert into t select g, g % 100, 'w' || g % 7 from generate_series(1, 40000) g;
             set default_statistics_target = 10;
             analyze t",
        )
        .unwrap();
    let row = client
        .query_one(
            "select c.reltuples::float8, s.n_distinct::float8, array_length(s.histogram_bounds::text::int[], 1),
                    (s.histogram_bounds::text::int[])[6], s.correlation::float8
             from pg_class c join pg_stats s on s.tablename = c.relname where s.attname = 'id' and c.relname = 't'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, f64>(0), 40000.0);
    assert_eq!(row.get::<_, f64>(1), -1.0);
    assert_eq!(row.get::<_, i32>(2), 11);
    let middle = row.get::<_, i32>(3);
    assert!((18000..22000).contains(&middle), "{middle}");
    assert!(row.get::<_, f64>(4) > 0.999);
    let distinct: f64 = client
        .query_one("select n_distinct::float8 from pg_stats where tablename = 't' and attname = 'v'", &[])
        .unwrap()
        .get(0);
    assert_eq!(distinct, 100.0);
}

/// What is run, not only what EXPLAIN shows, goes by the values: scans of the table and of its index are counted.
#[test]
fn executions_go_by_the_values() {
    let (_server, mut client) = start();
    client.batch_execute(TABLES).unwrap();
    let scans = |client: &mut Client| -> (i64, i64) {
        let query = "select t.seq_scan, i.idx_scan from pg_stat_user_tables t
                     join pg_stat_user_indexes i using (relid) where i.indexrelname = 'orders_state'";
        let row = client.query_one(query, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    let statement = client.prepare("select count(*) from orders where state = $1").unwrap();
    for round in 0..3 {
        for (state, by_index) in [("new", true), ("done", false), ("open", true), ("none", true)] {
            let before = scans(&mut client);
            client.query_one(&statement, &[&state]).unwrap();
            simple(&mut client, &format!("select count(*) from orders where state = '{state}'"));
            let after = scans(&mut client);
            let expected = if by_index { (0, 2) } else { (2, 0) };
            assert_eq!((after.0 - before.0, after.1 - before.1), expected, "{state}, round {round}");
        }
    }
}

/// The thread that analyzes tables by itself looks every second.
#[test]
fn changed_tables_are_analyzed_by_themselves() {
    let binary = Path::new(env!("CARGO_BIN_EXE_cairn"));
    let directory = tempfile::tempdir().unwrap();
    let server = Server::cairn_with(binary, &directory.path().join("data"), |command| {
        command.args(["--autovacuum-naptime", "1"]);
    })
    .unwrap();
    let mut client = connect(&server);
    client
        .batch_execute(
            "create table many (a int);
             create table few (a int);
             create table never (a int) with (autovacuum_enabled = false);
             create table soon (a int) with (autovacuum_analyze_threshold = 5);
             insert into many select g % 3 from generate_series(1, 100) g;
             insert into few select g from generate_series(1, 40) g;
             insert into never select g from generate_series(1, 100) g;
             insert into soon select g from generate_series(1, 6) g",
        )
        .unwrap();
    let counts =
        "select string_agg(relname || autoanalyze_count, ' ' order by relname) from pg_stat_user_tables";
    let wait_for = |client: &mut Client, wanted: &str| {
        for _ in 0..600 {
            if text(client, counts).as_deref() == Some(wanted) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{:?} instead of {wanted}", text(client, counts));
    };
    wait_for(&mut client, "few0 many1 never0 soon1");
    assert_eq!(
        text(&mut client, "select most_common_vals::text from pg_stats where tablename = 'many'").unwrap(),
        "{1,0,2}"
    );
    let row = client
        .query_one("select n_mod_since_analyze, last_autoanalyze is not null, last_analyze is null from pg_stat_user_tables where relname = 'many'", &[])
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1), row.get::<_, bool>(2)), (0, true, true));
    assert_eq!(text(&mut client, "select current_setting('autovacuum_naptime')").unwrap(), "1s");
    // 50 and a tenth of 100 rows.
    client.batch_execute("update many set a = 7 where ctid in (select ctid from many limit 60)").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    wait_for(&mut client, "few0 many1 never0 soon1");
    client.batch_execute("delete from many where ctid in (select ctid from many limit 1)").unwrap();
    wait_for(&mut client, "few0 many2 never0 soon1");
    // What it reads is not the clients' work.
    let rows_read = |client: &mut Client| {
        let row = client.query_one("select keys_found from cairn.storage_counters", &[]).unwrap();
        row.get::<_, i64>(0)
    };
    client
        .batch_execute("create table big (a int); insert into big select generate_series(1, 20000)")
        .unwrap();
    let before = rows_read(&mut client);
    wait_for(&mut client, "big1 few0 many2 never0 soon1");
    // Its transaction has ended by then.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(rows_read(&mut client) - before < 15_000);
    // It holds up nobody who wants the database for himself.
    client.batch_execute("create database other").unwrap();
    let parameters = format!("host=127.0.0.1 port={} user=postgres dbname=other", server.port());
    let mut other = Client::connect(&parameters, NoTls).unwrap();
    other.batch_execute("create table t (a int); insert into t select generate_series(1, 20000)").unwrap();
    drop(other);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    client.batch_execute("drop database other with (force)").unwrap();
}
