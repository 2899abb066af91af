//! Crashes under load, against an oracle of acknowledged commits.
//!
//! | test | the crash | what it proves |
//! |---|---|---|
//! | `kill_9` | kill -9 at a random moment | nothing of a commit is only in the process's memory, recovery works |
//! | `power_loss` | the disk keeps what was synced, and of the rest what chance leaves | everything acknowledged was synced before |
//! | `failing_disk` | an fsync or write fails, then the power goes | nothing is acknowledged over a failure; the server ends |
//! | `a_server_that_does_not_sync_is_found_out` | power loss; commits are not waited for | the test would notice |
//!
//! kill -9 loses no write that reached the operating system, so it says nothing about fsync: the two are counted apart.
//! The disk is simulated below an unchanged server (`cairn_powerloss`). Everything goes on in the same directory from
//! crash to crash, so a crash also meets what the one before left.
//!
//! `scripts/crash` runs many rounds: `CAIRN_CRASH_KILLS`, `CAIRN_CRASH_POWER_LOSSES`, `CAIRN_CRASH_FAULTS` set how many,
//! `CAIRN_CRASH_SEED` where chance begins, `CAIRN_CRASH_JSON` a file for the counts, `CAIRN_CRASH_SERVER` another server than the
//! one built with the test.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod oracle;
mod rounds;
mod workload;

use rounds::{Crash, Trial};

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn run(name: &str, crash: Crash, rounds: u64) {
    if rounds == 0 {
        return;
    }
    let seed = number("CAIRN_CRASH_SEED", 1);
    let mut trial = Trial::new(seed);
    for _ in 0..rounds {
        trial.round(crash).unwrap_or_else(|problem| panic!("{name}, seed {seed}: {problem}"));
    }
    trial.finish().unwrap_or_else(|problem| panic!("{name}, seed {seed}: {problem}"));
    trial.summary.print(name);
    assert!(
        trial.summary.acknowledgements > rounds,
        "too little was acknowledged for the test to mean anything"
    );
}

#[test]
fn kill_9() {
    run("kill -9", Crash::Kill, number("CAIRN_CRASH_KILLS", 4));
}

#[test]
fn power_loss() {
    run("power loss", Crash::PowerLoss, number("CAIRN_CRASH_POWER_LOSSES", 6));
}

#[test]
fn failing_disk() {
    run("failing disk", Crash::Fault, number("CAIRN_CRASH_FAULTS", 4));
}

#[test]
fn a_server_that_does_not_sync_is_found_out() {
    let mut trial = Trial::new(number("CAIRN_CRASH_SEED", 1));
    trial.lies = true;
    let found = (0..20).find_map(|_| trial.round(Crash::PowerLoss).err().or_else(|| trial.finish().err()));
    let found = found.expect("twenty power losses took nothing from a server that does not sync");
    assert!(
        ["lost", "back", "gone", "large: ", "after Object"].iter().any(|word| found.contains(word)),
        "{found}"
    );
}
