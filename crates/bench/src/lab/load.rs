//! Load from stock pgbench, at a rate, with a latency of each transaction from its log.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cairn_testkit::{Server, succeed};

use super::Lab;

/// A pgbench run to come.
pub struct Load<'a> {
    /// Names its files.
    pub name: &'a str,
    pub text: &'a str,
    pub clients: u32,
    /// Transactions per second; 0: as fast as it can.
    pub rate: f64,
    pub seconds: u64,
    pub database: &'a str,
}

/// A pgbench that is running.
pub struct Running {
    child: Child,
    prefix: PathBuf,
    name: String,
}

/// One transaction of a run.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it ended, in microseconds since 1970.
    pub end_us: u64,
    /// Microseconds from when it was due to its end.
    pub us: u64,
}

impl Sample {
    /// Whether it ran during a part of that time, in microseconds since 1970.
    pub fn overlaps(&self, from_us: u64, to_us: u64) -> bool {
        self.end_us >= from_us && self.end_us.saturating_sub(self.us) <= to_us
    }
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    pub transactions: u64,
    /// Milliseconds from when a transaction was due to its end, ascending.
    pub ms: Vec<f64>,
}

impl Latencies {
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Latencies {
        let mut ms: Vec<f64> = samples.into_iter().map(|sample| sample.us as f64 / 1e3).collect();
        ms.sort_by(f64::total_cmp);
        Latencies { transactions: ms.len() as u64, ms }
    }

    pub fn percentile(&self, part: f64) -> f64 {
        percentile(&self.ms, part)
    }
}

/// Of ascending values; 0 if there are none.
pub fn percentile(ascending: &[f64], part: f64) -> f64 {
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
}

impl Load<'_> {
    pub fn start(&self, lab: &Lab, server: &Server) -> io::Result<Running> {
        self.start_until(lab, server, "simple", &["-T", &self.seconds.to_string()])
    }

    /// With prepared statements.
    pub fn start_prepared(&self, lab: &Lab, server: &Server) -> io::Result<Running> {
        self.start_until(lab, server, "prepared", &["-T", &self.seconds.to_string()])
    }

    /// So many transactions for each client instead of a time.
    pub fn start_counted(&self, lab: &Lab, server: &Server, transactions: u64) -> io::Result<Running> {
        self.start_until(lab, server, "simple", &["-t", &transactions.to_string()])
    }

    fn start_until(&self, lab: &Lab, server: &Server, mode: &str, end: &[&str]) -> io::Result<Running> {
        let script = lab.directory.join(format!("{}.sql", self.name));
        fs::write(&script, self.text)?;
        let prefix = lab.directory.join(format!("{}.log", self.name));
        remove_logs(&prefix);
        let mut command = server.client("pgbench");
        command.env("PGDATABASE", self.database);
        command.args(["-n", "-j", "1", "--log", "-M", mode, "--max-tries=10"]);
        command.arg(format!("--log-prefix={}", prefix.display()));
        command.args(["-c", &self.clients.to_string()]).args(end);
        if self.rate > 0.0 {
            command.args(["--rate", &format!("{:.3}", self.rate)]);
        }
        command.arg("-f").arg(&script);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(Running { child, prefix, name: self.name.to_owned() })
    }
}

impl Running {
    /// Waits for its end.
    pub fn finish(self) -> io::Result<Latencies> {
        Ok(Latencies::of(&self.samples()?))
    }

    /// Ends a run with a time before that time is over: each client ends its transaction.
    pub fn stop(self) -> io::Result<Vec<Sample>> {
        // By the signal that pgbench has the kernel send at the end of `-T`.
        let output = Command::new("kill").args(["-ALRM", &self.child.id().to_string()]).output()?;
        succeed("kill", output)?;
        self.samples()
    }

    /// Waits for its end; each transaction, as it was logged.
    fn samples(self) -> io::Result<Vec<Sample>> {
        let output = self.child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        succeed(&format!("pgbench ({})", self.name), output)?;
        if let Some(line) = errors.lines().find(|line| line.contains("aborted")) {
            return Err(io::Error::other(format!("{}: {line}", self.name)));
        }
        let mut samples = Vec::new();
        for path in logs(&self.prefix) {
            for line in BufReader::new(fs::File::open(&path)?).lines() {
                samples.extend(sample(&line?));
            }
        }
        remove_logs(&self.prefix);
        Ok(samples)
    }
}

/// Of a line of pgbench's log; `None` for a transaction that failed.
fn sample(line: &str) -> Option<Sample> {
    // client, number, microseconds since it was due, script, end in seconds, and microseconds, lag
    let mut fields = line.split(' ').skip(2);
    let us = fields.next()?.parse().ok()?;
    let seconds: u64 = fields.nth(1)?.parse().ok()?;
    let micros: u64 = fields.next()?.parse().ok()?;
    Some(Sample { end_us: seconds * 1_000_000 + micros, us })
}

/// pgbench adds its process id, and a number for each further thread.
fn logs(prefix: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (prefix.parent(), prefix.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let ours = |path: &PathBuf| {
        path.file_name()
            .and_then(|found| found.to_str()?.strip_prefix(name)?.strip_prefix('.'))
            .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    entries.flatten().map(|entry| entry.path()).filter(ours).collect()
}

fn remove_logs(prefix: &Path) {
    for path in logs(prefix) {
        let _ = fs::remove_file(path);
    }
}
