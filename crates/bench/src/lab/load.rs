//! Load from stock pgbench, at a rate, with a latency of each transaction from its log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

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

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    pub transactions: u64,
    /// Milliseconds from when a transaction was due to its end, ascending.
    pub ms: Vec<f64>,
}

impl Latencies {
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
        self.start_until(lab, server, &["-T", &self.seconds.to_string()])
    }

    /// So many transactions for each client instead of a time.
    pub fn start_counted(&self, lab: &Lab, server: &Server, transactions: u64) -> io::Result<Running> {
        self.start_until(lab, server, &["-t", &transactions.to_string()])
    }

    fn start_until(&self, lab: &Lab, server: &Server, end: &[&str]) -> io::Result<Running> {
        let script = lab.directory.join(format!("{}.sql", self.name));
        fs::write(&script, self.text)?;
        let prefix = lab.directory.join(format!("{}.log", self.name));
        remove_logs(&prefix);
        let mut command = server.client("pgbench");
        command.env("PGDATABASE", self.database);
        command.args(["-n", "-j", "1", "--log", "-M", "simple", "--max-tries=10"]);
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
        let output = self.child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        succeed(&format!("pgbench ({})", self.name), output)?;
        if let Some(line) = errors.lines().find(|line| line.contains("aborted")) {
            return Err(io::Error::other(format!("{}: {line}", self.name)));
        }
        let mut ms = Vec::new();
        for path in logs(&self.prefix) {
            for line in fs::read_to_string(&path)?.lines() {
                // client, number, microseconds since it was due, script, end, end, lag
                let time = line.split(' ').nth(2).and_then(|time| time.parse::<f64>().ok());
                ms.extend(time.map(|us| us / 1e3));
            }
        }
        remove_logs(&self.prefix);
        ms.sort_by(f64::total_cmp);
        Ok(Latencies { transactions: ms.len() as u64, ms })
    }
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
