//! Cairn and PostgreSQL, side by side, on one machine in one run.
//!
//! Every workload runs on one server and then on the other, in turn, several times over, so that a machine whose
//! speed drifts favours nobody; figures are medians, and what counts is the ratio. Both servers keep
//! their data on the same file system with durable commits. Load comes from stock pgbench.

mod ceiling;
mod lab;
mod scenarios;
mod workload;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cairn_testkit::Server;
use clap::{Parser, Subcommand};

use workload::{Figures, WORKLOADS, Workload};

/// Measures Cairn against PostgreSQL with pgbench.
#[derive(Parser)]
#[command(after_help = "Example: cairn-bench --only point-simple,tpcb --seconds 20 --rounds 5\n\n\
    CAIRN_POSTGRES_BIN names the programs of another PostgreSQL; CAIRN_TEST_DIR the file system that both servers use.")]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    scenario: Option<Scenario>,
    /// Workloads, separated by commas; all without it. `--list` names them.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Prints the workloads and ends.
    #[arg(long)]
    list: bool,
    /// Seconds of each measured run.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Measured runs of each workload on each server; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// pgbench's scale factor: 100,000 accounts each.
    #[arg(long, default_value_t = 10)]
    scale: u32,
    /// The server to measure; the one beside this program without it.
    #[arg(long)]
    cairn: Option<PathBuf>,
    /// Measures Cairn alone.
    #[arg(long)]
    no_postgres: bool,
    /// Prints one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

/// What old snapshots and deleted rows cost; each for minutes, with a course over time.
#[derive(Subcommand)]
enum Scenario {
    /// A job queue at a steady rate while a snapshot is held.
    Queue(scenarios::queue::Options),
    /// The first live row behind half a million deleted ones.
    Graveyard(scenarios::graveyard::Options),
    /// Reading behind 100,000 newer versions of a row.
    Clock(scenarios::clock::Options),
    /// Rows come and go once a second: size and a point read.
    Churn(scenarios::churn::Options),
    /// Long analytic queries beside a job queue
    Analytics(scenarios::analytics::Options),
    /// Four rows that everybody wants, and two thousand sessions in line for one
    Hot(scenarios::hot::Options),
    /// A million rows, statement after statement: load, update, delete, roll back
    Large(scenarios::large::Options),
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.scenario {
        None => run(&options),
        Some(Scenario::Queue(options)) => scenarios::queue::run(options),
        Some(Scenario::Graveyard(options)) => scenarios::graveyard::run(options),
        Some(Scenario::Clock(options)) => scenarios::clock::run(options),
        Some(Scenario::Churn(options)) => scenarios::churn::run(options),
        Some(Scenario::Analytics(options)) => scenarios::analytics::run(options),
        Some(Scenario::Hot(options)) => scenarios::hot::run(options),
        Some(Scenario::Large(options)) => scenarios::large::run(options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cairn-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    if options.list {
        for workload in WORKLOADS {
            println!("{:<20} {}", workload.name, workload.about);
        }
        return Ok(());
    }
    let chosen = chosen(&options.only)?;
    let binary = match &options.cairn {
        Some(path) => path.clone(),
        None => beside_this_program()?,
    };
    let cairn = Server::cairn(&binary)?;
    let postgres = if options.no_postgres { None } else { Server::postgres(&[("max_connections", "500")])? };
    if postgres.is_none() && !options.no_postgres {
        eprintln!("no PostgreSQL is installed: measuring Cairn alone");
    }
    print_settings(&cairn, postgres.as_ref())?;
    let servers: Vec<&Server> = std::iter::once(&cairn).chain(postgres.as_ref()).collect();
    let directory = cairn.data_directory().parent().unwrap_or(Path::new("/tmp")).join("scripts");
    std::fs::create_dir_all(&directory)?;
    let mut report = Vec::new();
    for workload in chosen {
        let ceiling = match workload.ceiling {
            true => {
                Some(median(workload.measure_ceiling(&directory, options.seconds.min(5), options.rounds)?))
            }
            false => None,
        };
        for server in &servers {
            eprint!("\r{:<60}", format!("{}: preparing {}", workload.name, server.name()));
            workload.prepare(server, options.scale, &directory)?;
        }
        let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); servers.len()];
        for round in 1..=options.rounds {
            for (server, runs) in servers.iter().zip(&mut runs) {
                eprint!("\r{:<60}", format!("{}: round {round} on {}", workload.name, server.name()));
                runs.push(workload.measure(server, &directory, options.scale, options.seconds)?);
            }
        }
        eprint!("\r{:<60}\r", "");
        let mut medians = runs.into_iter().map(median);
        let line =
            Line { workload, cairn: medians.next().unwrap_or_default(), postgres: medians.next(), ceiling };
        if !options.json {
            if report.is_empty() {
                print_header(postgres.as_ref().map_or("PostgreSQL", Server::name));
            }
            line.print();
        }
        report.push(line);
    }
    if options.json {
        let rows: Vec<_> = report.iter().map(Line::to_json).collect();
        println!(
            "{}",
            serde_json::json!({ "postgres": postgres.as_ref().map(Server::name), "workloads": rows })
        );
    }
    Ok(())
}

struct Line {
    workload: &'static Workload,
    cairn: Figures,
    postgres: Option<Figures>,
    ceiling: Option<Figures>,
}

impl Line {
    fn print(&self) {
        let optional =
            |value: Option<f64>, digits| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        println!(
            "{:<20} {:>10.0} {:>10} {:>6} {:>9} {:>9.3} {:>9} {:>9.1} {:>9} {:>9}",
            self.workload.name,
            self.cairn.per_second,
            optional(self.postgres.map(|figures| figures.per_second), 0),
            optional(self.ratio(), 2),
            optional(self.ceiling.map(|figures| figures.per_second), 0),
            self.cairn.latency_ms,
            optional(self.postgres.map(|figures| figures.latency_ms), 3),
            self.cairn.cpu_us,
            optional(self.postgres.map(|figures| figures.cpu_us), 1),
            optional(self.ceiling.map(|figures| figures.cpu_us), 1),
        );
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.cairn.per_second / self.postgres?.per_second)
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "workload": self.workload.name,
            "cairn": self.cairn.to_json(),
            "postgres": self.postgres.map(|figures| figures.to_json()),
            "ratio": self.ratio(),
            "ceiling": self.ceiling.map(|figures| figures.to_json()),
        })
    }
}

fn print_header(postgres: &str) {
    println!(
        "{:<20} {:>10} {:>10} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "transactions/s",
        "Cairn",
        postgres.split(' ').next_back().unwrap_or(postgres),
        "ratio",
        "ceiling",
        "ms",
        "ms",
        "CPU us",
        "CPU us",
        "ceiling's"
    );
}

fn print_settings(cairn: &Server, postgres: Option<&Server>) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    eprintln!("{cores} cores; data under {}", cairn.data_directory().display());
    for server in std::iter::once(cairn).chain(postgres) {
        let settings = server.sql("show fsync; show synchronous_commit; show server_version")?;
        let mut lines = settings.lines();
        let mut next = || lines.next().unwrap_or("?").to_owned();
        eprintln!(
            "{}: fsync {}, synchronous_commit {}, server_version {}",
            server.name(),
            next(),
            next(),
            next()
        );
    }
    Ok(())
}

fn chosen(names: &[String]) -> io::Result<Vec<&'static Workload>> {
    if names.is_empty() {
        return Ok(WORKLOADS.iter().collect());
    }
    let find = |name: &String| {
        let found = WORKLOADS.iter().find(|workload| workload.name == name);
        found.ok_or_else(|| io::Error::other(format!("no workload {name:?}; --list names them")))
    };
    names.iter().map(find).collect()
}

fn beside_this_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("cairn");
    if path.exists() {
        return Ok(path);
    }
    Err(io::Error::other(format!(
        "{} is not there: build it (cargo build --release) or name it with --cairn",
        path.display()
    )))
}

/// The run in the middle by throughput.
fn median(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}
