//! Each scenario for a second or two, on Cairn alone: it runs to its end and says what it should. No figure is looked at.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// The report of a scenario; `None` where the server is not built (`cargo test -p cairn-bench` alone does not).
fn run(arguments: &[&str]) -> Option<serde_json::Value> {
    let bench = Path::new(env!("CARGO_BIN_EXE_cairn-bench"));
    if !bench.with_file_name("cairn").exists() {
        eprintln!("the cairn binary is not built: nothing is tested");
        return None;
    }
    let output = Command::new(bench).args(arguments).args(["--no-postgres", "--json"]).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn figure(report: &serde_json::Value, name: &str) -> f64 {
    let figures = report["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.and_then(|figure| figure["cairn"].as_f64()).unwrap_or_else(|| panic!("no {name:?} in {report}"))
}

#[test]
fn queues() {
    for variant in ["fifo", "reschedule"] {
        let arguments = [
            "queue",
            "--variant",
            variant,
            "--rate",
            "20",
            "--duration",
            "4",
            "--interval",
            "2",
            "--backlog",
            "50",
        ];
        let Some(report) = run(&arguments) else { return };
        assert!(figure(&report, "jobs") > 0.0);
        assert!(figure(&report, "storage work per job, last") > 0.0);
        assert_eq!(report["series"]["Cairn"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn graveyard() {
    let Some(report) = run(&["graveyard", "--rows", "2000", "--runs", "3", "--settle", "0"]) else { return };
    assert!(figure(&report, "first row: steps") < 1000.0, "the second touch jumps");
}

#[test]
fn clock() {
    let Some(report) = run(&["clock", "--updates", "100"]) else { return };
    assert!(figure(&report, "behind the newer versions: further nexts") <= 3.0);
}

#[test]
fn churn() {
    // One stretch, long enough for a cycle on a machine that has other things to do.
    let Some(report) = run(&["churn", "--duration", "8", "--interval", "8"]) else { return };
    assert!(figure(&report, "without key: table size at the end") > 0.0);
}

#[test]
fn analytics() {
    let arguments =
        ["analytics", "--rate", "20", "--duration", "2", "--interval", "1", "--query-seconds", "1"];
    let Some(report) = run(&arguments) else { return };
    assert!(figure(&report, "analytic queries that ended") >= 3.0);
}

#[test]
fn large() {
    // That the answers are right the scenario checks itself.
    let arguments = ["large", "--rows", "2000", "--indexes", "2", "--snapshot", "held"];
    let Some(report) = run(&arguments) else { return };
    let variant = "2 indexes, snapshot held";
    assert!(figure(&report, &format!("{variant}: delete half: rollback")) > 0.0);
    assert!(figure(&report, &format!("{variant}: before the first step: client p99")) > 0.0);
    assert!(figure(&report, &format!("{variant}: memory at the end")) > 0.0);
    let arguments = ["large", "--rows", "2000", "--indexes", "0", "--snapshot", "none", "--no-client"];
    let Some(report) = run(&arguments) else { return };
    assert!(figure(&report, "no index, no snapshot: range by the primary key") > 0.0);
}
