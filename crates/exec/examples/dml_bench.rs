//! What single-row statements cost the engine: planned once, run in transactions of their own without waiting for the disk.
//! `cargo run --profile quick -p cairn-exec --example dml_bench`
#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

#[path = "../tests/dml/bench.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod bench;

use bench::{Bench, Table};
use cairn_txn::Resources;
use cairn_types::Datum;
use cairn_types::types::{INT4, TEXT};

const ROWS: usize = 100_000;

fn main() {
    let tables = vec![
        Table::new(20000, "t", &[("a", INT4), ("b", TEXT), ("c", INT4)]).primary_key(&["a"]),
        Table::new(20100, "indexed", &[("a", INT4), ("b", TEXT), ("c", INT4)])
            .primary_key(&["a"])
            .unique("indexed_c_key", &["c"])
            .index("indexed_b", &["b"], |_| {}),
        Table::new(20200, "plain", &[("a", INT4), ("b", TEXT), ("c", INT4)]),
    ];
    let bench = Bench::with_resources(tables, Resources::new(512 << 20, 256 << 20));
    let mut session = bench.session();
    let key = |run: usize| Datum::Int4((run * 7919 % ROWS) as i32);
    let text = || Datum::text("abcdefghijklmnopqrstuvwxyz");
    for table in ["t", "indexed", "plain"] {
        let insert = format!("insert into {table} values ($1, $2, $3)");
        let values = |run: usize| vec![key(run), text(), Datum::Int4(run as i32)];
        println!("insert {table:8} {:?}", session.time(&insert, &[INT4, TEXT, INT4], ROWS, values));
    }
    for table in ["t", "indexed"] {
        let select = format!("select c from {table} where a = $1");
        println!("select {table:8} {:?}", session.time(&select, &[INT4], ROWS, |run| vec![key(run)]));
        let update = format!("update {table} set c = c + $2 where a = $1");
        let by = |run| vec![key(run), Datum::Int4(ROWS as i32)];
        println!("update {table:8} {:?}", session.time(&update, &[INT4, INT4], ROWS, by));
        let lock = format!("select c from {table} where a = $1 for update");
        println!("lock   {table:8} {:?}", session.time(&lock, &[INT4], ROWS, |run| vec![key(run)]));
        let delete = format!("delete from {table} where a = $1");
        println!("delete {table:8} {:?}", session.time(&delete, &[INT4], ROWS, |run| vec![key(run)]));
    }
}
