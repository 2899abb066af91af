//! What the scenarios share: two servers, load, sessions that stay open, and the report.

mod load;
mod report;
mod session;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use cairn_testkit::Server;
use clap::Args;

pub use load::{Latencies, Load, percentile};
pub use report::{Report, median, plain, ratio};
pub use session::Session;

/// Options of every scenario.
#[derive(Args, Clone)]
pub struct Common {
    /// The server to measure; the one beside this program without it.
    #[arg(long)]
    pub cairn: Option<PathBuf>,
    /// Measures Cairn alone.
    #[arg(long)]
    pub no_postgres: bool,
    /// Measures PostgreSQL alone.
    #[arg(long)]
    pub no_cairn: bool,
    /// Prints one JSON object instead of the tables.
    #[arg(long)]
    pub json: bool,
    /// How long Cairn keeps history (`cairn.retention`).
    #[arg(long, default_value = "1min")]
    pub retention: String,
}

/// The servers of one run, Cairn first.
pub struct Lab {
    pub servers: Vec<Server>,
    /// For scripts and logs of pgbench.
    pub directory: PathBuf,
    begin: Instant,
}

impl Lab {
    pub fn start(common: &Common, report: &mut Report) -> io::Result<Lab> {
        Self::start_for(500, common, report)
    }

    /// With room for so many connections.
    pub fn start_for(connections: u32, common: &Common, report: &mut Report) -> io::Result<Lab> {
        let mut servers = Vec::new();
        if !common.no_cairn {
            let binary = match &common.cairn {
                Some(path) => path.clone(),
                None => crate::beside_this_program()?,
            };
            servers.push(Server::cairn(&binary)?);
        }
        if !common.no_postgres {
            match Server::postgres(&[("max_connections", &connections.to_string())])? {
                Some(server) => servers.push(server),
                None => eprintln!("no PostgreSQL is installed: measuring Cairn alone"),
            }
        }
        let Some(first) = servers.first() else { return Err(io::Error::other("nothing to measure")) };
        let directory = first.data_directory().parent().unwrap_or(Path::new("/tmp")).join("bench");
        std::fs::create_dir_all(&directory)?;
        let lab = Lab { servers, directory, begin: Instant::now() };
        let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
        report.setting("cores", &cores.to_string());
        report.setting("data under", &lab.directory.display().to_string());
        report.setting("retention (Cairn)", &common.retention);
        for server in &lab.servers {
            if is_cairn(server) {
                set_retention(server, "postgres", &common.retention);
            }
            for name in ["fsync", "synchronous_commit", "server_version"] {
                let value = server.sql(&format!("show {name}"))?;
                report.setting(&format!("{} {name}", server.name()), value.trim());
            }
        }
        report.print_settings();
        Ok(lab)
    }

    /// One line that the next one overwrites, for who watches.
    pub fn progress(&self, server: &Server, text: &str) {
        if !io::stderr().is_terminal() {
            return;
        }
        let elapsed = self.begin.elapsed().as_secs();
        eprint!("\r{:<100}", format!("[{:>4} s] {}: {text}", elapsed, server.name()));
    }

    pub fn progress_done(&self) {
        if io::stderr().is_terminal() {
            eprint!("\r{:<100}\r", "");
        }
    }
}

pub fn is_cairn(server: &Server) -> bool {
    server.name() == "Cairn"
}

/// Sets `cairn.retention` of a database; says so if the server does not know it.
pub fn set_retention(server: &Server, database: &str, retention: &str) {
    if let Err(error) = server.sql(&format!("alter database {database} set cairn.retention = '{retention}'"))
    {
        eprintln!("the retention stays as it is: {}", error.to_string().trim());
    }
}

/// The text of a scenario file for one server: the order in a key is an extension of Cairn's grammar.
pub fn for_server(server: &Server, text: &str) -> String {
    if is_cairn(server) {
        return text.to_owned();
    }
    text.replace("id asc)", "id)")
        .replace("id desc)", "id)")
        .replace("create extension if not exists orafce;\n", "")
}

/// Runs a script through psql.
pub fn run_script(lab: &Lab, server: &Server, name: &str, text: &str) -> io::Result<String> {
    let path = lab.directory.join(format!("{name}.sql"));
    std::fs::write(&path, for_server(server, text))?;
    server.sql_file(&path)
}

/// One number.
pub fn number(server: &Server, query: &str) -> io::Result<f64> {
    let answer = server.sql(query)?;
    let last = answer.lines().last().unwrap_or("").trim();
    last.parse().map_err(|_| io::Error::other(format!("{query}: {answer:?} is no number")))
}

/// Work of the storage: for Cairn seeks, steps and steps hidden in RocksDB, for PostgreSQL blocks touched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    pub seeks: f64,
    pub nexts: f64,
    pub hidden: f64,
    pub blocks: f64,
}

impl Work {
    /// Of all ended transactions so far.
    pub fn so_far(server: &Server) -> io::Result<Work> {
        if !is_cairn(server) {
            let query =
                "select blks_hit + blks_read from pg_stat_database where datname = current_database()";
            return Ok(Work { blocks: number(server, query)?, ..Work::default() });
        }
        let answer =
            server.sql("select seeks, nexts, hidden_deletes + hidden_keys from cairn.storage_counters")?;
        let mut fields = answer.trim().split('|').map(str::parse::<f64>);
        let mut next = || match fields.next() {
            Some(Ok(number)) => Ok(number),
            _ => Err(io::Error::other(format!("cairn.storage_counters: {answer:?}"))),
        };
        Ok(Work { seeks: next()?, nexts: next()?, hidden: next()?, blocks: 0.0 })
    }

    /// For each of so many jobs.
    pub fn since(self, before: Work, jobs: u64) -> Work {
        let each = |now: f64, before: f64| (now - before) / jobs.max(1) as f64;
        Work {
            seeks: each(self.seeks, before.seeks),
            nexts: each(self.nexts, before.nexts),
            hidden: each(self.hidden, before.hidden),
            blocks: each(self.blocks, before.blocks),
        }
    }

    pub fn total(self) -> f64 {
        self.seeks + self.nexts + self.hidden + self.blocks
    }
}

/// Sleeps in short pieces, with a progress line in each.
pub fn wait(duration: Duration, mut progress: impl FnMut(Duration)) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        progress(begin.elapsed());
        thread::sleep(Duration::from_millis(500).min(duration.saturating_sub(begin.elapsed())));
    }
}

/// One result from each server.
pub struct Pair<T> {
    pub cairn: Option<T>,
    pub postgres: Option<T>,
}

impl<T> Pair<T> {
    /// Runs on one server after the other.
    pub fn measure(
        lab: &mut Lab,
        mut run: impl FnMut(&mut Lab, usize) -> io::Result<T>,
    ) -> io::Result<Pair<T>> {
        let mut pair = Pair { cairn: None, postgres: None };
        for index in 0..lab.servers.len() {
            let result = Some(run(lab, index)?);
            lab.progress_done();
            if lab.servers.get(index).is_some_and(is_cairn) {
                pair.cairn = result;
            } else {
                pair.postgres = result;
            }
        }
        Ok(pair)
    }

    /// Runs on a fresh server of each kind. The first has ended when the second starts, so that the
    /// background work of one does not run beside the other.
    pub fn measure_apart(
        common: &Common,
        report: &mut Report,
        mut run: impl FnMut(&mut Lab, usize) -> io::Result<T>,
    ) -> io::Result<Pair<T>> {
        let mut pair = Pair { cairn: None, postgres: None };
        if !common.no_cairn {
            let mut lab = Lab::start(&Common { no_postgres: true, ..common.clone() }, report)?;
            pair.cairn = Pair::measure(&mut lab, &mut run)?.cairn;
        }
        if pair.cairn.is_some() && !common.no_postgres && cairn_testkit::postgres_bin().is_none() {
            eprintln!("no PostgreSQL is installed: measuring Cairn alone");
        } else if !common.no_postgres || common.no_cairn {
            let mut lab = Lab::start(&Common { no_cairn: true, ..common.clone() }, report)?;
            pair.postgres = Pair::measure(&mut lab, &mut run)?.postgres;
        }
        Ok(pair)
    }

    /// A figure of each.
    pub fn each(&self, figure: impl Fn(&T) -> Option<f64>) -> [Option<f64>; 2] {
        [self.cairn.as_ref().and_then(&figure), self.postgres.as_ref().and_then(&figure)]
    }
}
