//! Random list-append histories at every isolation level, searched for the anomalies that the level forbids
//! (Adya 1999, by way of the crate of that name).

use std::path::Path;

use adya::r#gen::GenOpts;
use adya::run::RunOpts;
use adya::{History, Opts, Valid, Workload, check};
use cairn_testkit::Server;

/// Runs a history and checks it; the number of transactions that committed.
fn check_level(url: &str, level: &str, model: &str) -> usize {
    adya::db::postgres::prepare(url).expect("tables are made");
    let connect = || adya::db::postgres::connect(url, level, true);
    // Few keys and long transactions: they meet.
    let generator = GenOpts { key_count: 5, max_txn_len: 6, ..GenOpts::default() };
    let options = RunOpts { processes: 8, txns: 1200, r#gen: generator, seed: 7, ..RunOpts::default() };
    let (history, stats) = adya::run::run(&connect, &options).expect("runs");
    assert_eq!(stats.info, 0, "every outcome is known");
    let history = History::from_json(&history).expect("is a history");
    let options = Opts { models: vec![model.to_owned()], ..Opts::default() };
    let report = check(&history, Workload::ListAppend, &options);
    assert_eq!(report.valid, Valid::True, "{level}: {:?}", report.anomaly_types);
    stats.ok
}

#[test]
fn no_level_shows_what_it_forbids() {
    let server = Server::cairn(Path::new(env!("CARGO_BIN_EXE_cairn"))).expect("Cairn starts");
    let url = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", server.port());
    for (level, model) in [
        ("read-committed", "read-committed"),
        ("repeatable-read", "snapshot-isolation"),
        ("serializable", "strict-serializable"),
    ] {
        let committed = check_level(&url, level, model);
        assert!(committed >= 100, "{level}: only {committed} transactions committed");
    }
}
