//! One crash after the other on the same directory, and what they came to.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cairn_powerloss::{Chance, Fault, FaultyCall, Image, Journal, Operation, Recorder};
use cairn_testkit::{Server, succeed};

use super::oracle::{Oracle, SET_UP, connect};
use super::workload::{Running, Workload};

/// How often a dump of everything is made.
const DUMP_EVERY: u64 = 25;
/// Longest time of work before a crash, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(2);
/// A server whose disk failed ends within this time.
const END_WITHIN: Duration = Duration::from_secs(20);

/// How the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// kill -9: the operating system keeps what was written.
    Kill,
    /// The machine loses its power.
    PowerLoss,
    /// A call of the server fails, and then the machine loses its power.
    Fault,
}

/// What happened in a series of rounds.
#[derive(Debug, Default)]
pub struct Summary {
    pub crashes: u64,
    pub acknowledgements: u64,
    /// Servers that ended by themselves.
    pub ended: u64,
    /// Servers that went on: the disk had room again, or a store that could not be opened was opened anew.
    pub survived: u64,
    pub dumps: u64,
    pub seconds: f64,
    /// By kind of file and call: how many calls were made to fail.
    pub faults: std::collections::BTreeMap<String, u64>,
}

impl Summary {
    pub fn print(&self, name: &str) {
        println!(
            "{name}: {} crashes, {} acknowledgements kept, nothing torn, no lock left behind; {} dumps, {:.0} s",
            self.crashes, self.acknowledgements, self.dumps, self.seconds
        );
        for (fault, count) in &self.faults {
            println!("  {fault}: {count}");
        }
        if !self.faults.is_empty() {
            println!("  the server ended by itself: {}; went on: {}", self.ended, self.survived);
        }
        let Some(path) = std::env::var_os("CAIRN_CRASH_JSON") else { return };
        let line = serde_json::json!({
            "test": name, "crashes": self.crashes, "acknowledgements": self.acknowledgements,
            "dumps": self.dumps, "seconds": self.seconds, "faults": self.faults, "ended": self.ended,
            "survived": self.survived,
        });
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).unwrap();
    }
}

/// A data directory, and what its clients were promised.
pub struct Trial {
    /// Stays when a round fails.
    directory: Option<tempfile::TempDir>,
    data: PathBuf,
    journal: PathBuf,
    oracle: Arc<Mutex<Oracle>>,
    chance: Chance,
    /// Clients commit asynchronously without telling.
    pub lies: bool,
    pub summary: Summary,
    begin: Instant,
}

/// A server under load.
struct Round {
    server: Server,
    clients: Option<Running>,
}

impl Trial {
    /// A new directory with the tables.
    pub fn new(seed: u64) -> Trial {
        let directory = match std::env::var_os("CAIRN_TEST_DIR") {
            Some(base) => tempfile::tempdir_in(base).unwrap(),
            None => tempfile::tempdir().unwrap(),
        };
        let data = directory.path().join("data");
        let journal = directory.path().join("journal");
        let mut trial = Trial {
            directory: Some(directory),
            data,
            journal,
            oracle: Arc::default(),
            chance: Chance::new(seed),
            lies: false,
            summary: Summary::default(),
            begin: Instant::now(),
        };
        trial.set_up();
        trial
    }

    /// A new directory, whose server ends in order. The instrument is tested with it: the journal has all that the directory
    /// has. Then it turns out that the power was lost when the tables were there: their directories' names had to be
    /// synced, too.
    fn set_up(&mut self) {
        let recorder = Recorder::start(&self.data, &self.journal).unwrap();
        let server = self.serve(Some(&recorder), None).unwrap();
        connect(server.port(), "postgres").unwrap().batch_execute(SET_UP).unwrap();
        let acknowledged = recorder.position();
        let (_, status) = server.stop().unwrap();
        assert!(status.success(), "{status}");
        let journal = recorder.journal().unwrap();
        let disk = recorder.disk_at(&journal, journal.end()).unwrap();
        let differences = disk.as_written().differences(&Image::of_directory(&self.data).unwrap());
        assert_eq!(differences, Vec::<String>::new(), "the journal misses something");
        self.switch_on(&recorder, &journal, acknowledged).unwrap();
    }

    /// Small memtables, so that files come and go, and history that goes at once.
    fn serve(&self, recorder: Option<&Recorder>, fault: Option<&Fault>) -> std::io::Result<Server> {
        let other = std::env::var_os("CAIRN_CRASH_SERVER").map(PathBuf::from);
        let binary = other.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_cairn")));
        Server::cairn_with(&binary, &self.data, |command: &mut Command| {
            command.args(["--retention", "0", "--memtable-bytes", "200000"]);
            if let Some(recorder) = recorder {
                recorder.watch(command, 2000, fault);
            }
        })
    }

    fn load(&mut self, server: Server, recorder: Option<&Arc<Recorder>>) -> Round {
        let position: Arc<dyn Fn() -> u64 + Send + Sync> = match recorder.cloned() {
            Some(recorder) => Arc::new(move || recorder.position()),
            None => Arc::new(|| 0),
        };
        let oracle = Arc::clone(&self.oracle);
        let workload =
            Workload { port: server.port(), seed: self.chance.number(), oracle, position, lies: self.lies };
        Round { server, clients: Some(workload.start()) }
    }

    /// Compares the directory that a crash left with what was promised.
    fn verify(&mut self, server: &Server, recorder: Option<&Recorder>) -> Result<(), String> {
        let position = || recorder.map_or(0, Recorder::position);
        self.oracle.lock().unwrap().verify(server, &position)?;
        if self.summary.crashes % DUMP_EVERY == DUMP_EVERY - 1 {
            self.summary.dumps += 1;
            let dump = server.client("pg_dump").output().map_err(|error| error.to_string())?;
            let text = succeed("pg_dump", dump).map_err(|error| error.to_string())?;
            if !text.contains("CREATE TABLE public.account") {
                return Err(format!("the dump is not whole:\n{text}"));
            }
        }
        Ok(())
    }

    /// One round of work and its crash.
    ///
    /// # Errors
    ///
    /// What the crash took away that it should not have, with the server's log.
    pub fn round(&mut self, crash: Crash) -> Result<(), String> {
        let told = self.oracle.lock().unwrap().acknowledgements;
        let result = match crash {
            Crash::Kill => self.kill(),
            Crash::PowerLoss => self.lose_power(),
            Crash::Fault => self.fail(),
        };
        self.summary.crashes += 1;
        self.summary.acknowledgements += self.oracle.lock().unwrap().acknowledgements - told;
        self.summary.seconds = self.begin.elapsed().as_secs_f64();
        result.map_err(|problem| {
            let log = std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default();
            let kept = self.directory.take().map(tempfile::TempDir::keep);
            format!("round {}, {crash:?}: {problem}\n{log}\nkept: {kept:?}", self.summary.crashes)
        })
    }

    /// Lets the clients work until a random moment: so many acknowledgements, and a little more.
    fn work(&mut self, most: u64) {
        let told = || self.oracle.lock().unwrap().acknowledgements;
        let (begin, before) = (Instant::now(), told());
        let enough = before + self.chance.below(most);
        while told() < enough && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(self.chance.below(5000)));
    }

    fn kill(&mut self) -> Result<(), String> {
        self.oracle.lock().unwrap().begin_journal();
        let server = self.serve(None, None).map_err(|error| error.to_string())?;
        self.verify(&server, None)?;
        self.oracle.lock().unwrap().reset(&server);
        let mut round = self.load(server, None);
        self.work(160);
        round.server.kill().map_err(|error| error.to_string())?;
        round.clients.take().into_iter().for_each(Running::stop);
        Ok(())
    }

    fn lose_power(&mut self) -> Result<(), String> {
        let recorder =
            Arc::new(Recorder::start(&self.data, &self.journal).map_err(|error| error.to_string())?);
        self.oracle.lock().unwrap().begin_journal();
        let server = self.serve(Some(&recorder), None).map_err(|error| error.to_string())?;
        self.verify(&server, Some(&recorder))?;
        let mut server = server;
        // Before that nothing is lost but a recovery; a reset is only known to have happened.
        let mut earliest = 0;
        if self.oracle.lock().unwrap().reset(&server) {
            earliest = recorder.position();
        } else if self.chance.below(4) == 0 {
            // A killed server first: its successor recovers what is not durable yet.
            let mut round = self.load(server, Some(&recorder));
            self.work(60);
            round.server.kill().map_err(|error| error.to_string())?;
            round.clients.take().into_iter().for_each(Running::stop);
            server = self.serve(Some(&recorder), None).map_err(|error| error.to_string())?;
            self.verify(&server, Some(&recorder))?;
        }
        let mut round = self.load(server, Some(&recorder));
        self.work(160);
        round.server.kill().map_err(|error| error.to_string())?;
        round.clients.take().into_iter().for_each(Running::stop);
        let journal = recorder.journal().map_err(|error| error.to_string())?;
        let moment = self.moment(&journal, earliest);
        self.switch_on(&recorder, &journal, moment)
    }

    /// When the power goes: at the end, or around one of the rarer changes, of names.
    fn moment(&mut self, journal: &Journal, earliest: u64) -> u64 {
        let ends: Vec<(u64, bool)> = journal
            .records()
            .map(|record| {
                let of_names = !matches!(
                    record.operation,
                    Operation::Write { .. } | Operation::SyncBegin { .. } | Operation::SyncEnd { .. }
                );
                (record.end, of_names)
            })
            .filter(|(end, _)| *end >= earliest)
            .collect();
        let rare: Vec<usize> = (0..ends.len()).filter(|at| ends[*at].1).collect();
        if self.chance.below(2) == 0 || rare.is_empty() {
            return journal.end();
        }
        let at = rare[self.chance.below(rare.len() as u64) as usize] as u64;
        let around = (at + self.chance.below(12)).saturating_sub(4);
        ends[(around as usize).min(ends.len() - 1)].0
    }

    /// Gives the directory what the disk has kept.
    fn switch_on(&mut self, recorder: &Recorder, journal: &Journal, moment: u64) -> Result<(), String> {
        let disk = recorder.disk_at(journal, moment)?;
        self.oracle.lock().unwrap().forget_after(moment);
        disk.after_power_loss(&mut self.chance).write_to(&self.data).map_err(|error| error.to_string())
    }

    /// A server whose fsync or write fails once, at a random moment.
    fn fail(&mut self) -> Result<(), String> {
        let fault = self.choose_fault();
        let recorder =
            Arc::new(Recorder::start(&self.data, &self.journal).map_err(|error| error.to_string())?);
        self.oracle.lock().unwrap().begin_journal();
        let log = self.data.with_extension("log");
        match self.serve(Some(&recorder), Some(&fault)) {
            Ok(server) => {
                let mut round = self.load(server, Some(&recorder));
                // RocksDB's record of its options is not read by us: the server may do without.
                let must_end = fault.error != libc::ENOSPC && fault.part != ".dbtmp";
                self.watch_failing(&mut round, &recorder, must_end)
                    .map_err(|problem| format!("{fault:?}: {problem}"))?;
                drop(round.server);
                round.clients.take().into_iter().for_each(Running::stop);
            }
            // The disk failed while the directory was opened.
            Err(error) => {
                let text = error.to_string();
                if !text.contains("ended at start") || !text.contains("rror") {
                    return Err(format!("{fault:?}: {text}"));
                }
                self.summary.ended += 1;
            }
        }
        let journal = recorder.journal().map_err(|error| error.to_string())?;
        for path in journal.faults() {
            *self.summary.faults.entry(describe(&fault, &path)).or_default() += 1;
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        // The page cache may tell the successor another story than the disk: both must do.
        if self.chance.below(4) > 0 {
            self.switch_on(&recorder, &journal, journal.end())?;
        }
        let server =
            self.serve(None, None).map_err(|error| format!("{fault:?}: {error}\nbefore that: {said}"))?;
        self.verify(&server, None).map_err(|error| format!("{fault:?}: {error}\nbefore that: {said}"))?;
        self.oracle.lock().unwrap().reset(&server);
        server.kill().map_err(|error| error.to_string())
    }

    fn choose_fault(&mut self) -> Fault {
        let chance = &mut self.chance;
        let call = if chance.below(2) == 0 { FaultyCall::Sync } else { FaultyCall::Write };
        // Files, and which of their fsyncs and writes at most: so many happen in a second or so.
        let kinds =
            [(".log", 40, 250), (".sst", 5, 40), ("MANIFEST", 8, 45), (".dbtmp", 4, 4), ("", 60, 400)];
        let (part, syncs, writes) = kinds[chance.below(kinds.len() as u64) as usize];
        let most = if call == FaultyCall::Sync { syncs } else { writes };
        let full = call == FaultyCall::Write && chance.below(2) == 0;
        Fault {
            call,
            error: if full { libc::ENOSPC } else { libc::EIO },
            part: part.to_owned(),
            first: 1 + chance.below(most),
            count: if full { 1 + chance.below(5) } else { 1 },
        }
    }

    /// Waits until the fault has struck, and then for the server's end, if it must come.
    fn watch_failing(
        &mut self,
        round: &mut Round,
        recorder: &Recorder,
        must_end: bool,
    ) -> Result<(), String> {
        let begin = Instant::now();
        let mut struck = None;
        loop {
            thread::sleep(Duration::from_millis(20));
            let ended = round.server.ended().map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                let log = round.server.log();
                if status.success() || !log.contains("FATAL") {
                    return Err(format!("the server ended with {status} and did not say why: {log}"));
                }
                self.summary.ended += 1;
                return Ok(());
            }
            let journal = recorder.journal().map_err(|error| error.to_string())?;
            if struck.is_none() {
                struck = (!journal.faults().is_empty()).then(Instant::now);
            }
            let must_end = must_end && !opened_anew(&journal);
            match struck {
                None if begin.elapsed() > Duration::from_millis(2500) => return Ok(()),
                Some(since) if must_end && since.elapsed() > END_WITHIN => {
                    return Err(format!("the disk failed and the server goes on: {}", round.server.log()));
                }
                Some(since) if !must_end && since.elapsed() > Duration::from_millis(700) => {
                    self.summary.survived += 1;
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// The last crash's outcome, and the server's end in order.
    pub fn finish(&mut self) -> Result<(), String> {
        let server = self.serve(None, None).map_err(|error| error.to_string())?;
        self.verify(&server, None)?;
        let (_, status) = server.stop().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(status.to_string()) }
    }
}

/// Whether the fault kept a store from being opened, and the next session opened it: nothing was acknowledged, and recovery
/// began from the start. Each opening makes a new info log.
fn opened_anew(journal: &Journal) -> bool {
    let mut failed = None;
    journal.records().any(|record| match record.operation {
        Operation::Fault { path, .. } => {
            failed = path.rsplit_once('/').map(|(directory, _)| directory);
            false
        }
        Operation::Create { name, .. } => match (name.strip_suffix("/LOG"), failed) {
            (Some(store), Some(failed)) => failed.ends_with(store),
            _ => false,
        },
        _ => false,
    })
}

/// "fsync of .log: EIO"
fn describe(fault: &Fault, path: &str) -> String {
    let call = if fault.call == FaultyCall::Sync { "fsync" } else { "write" };
    let error = if fault.error == libc::EIO { "input/output error" } else { "no space left" };
    let name = path.rsplit('/').next().unwrap_or(path);
    let kind = match name.rsplit_once('.') {
        Some((_, extension)) => format!("*.{extension}"),
        None if name.starts_with("MANIFEST") => "MANIFEST-*".to_owned(),
        None => "a directory".to_owned(),
    };
    format!("{call} of {kind}: {error}")
}
