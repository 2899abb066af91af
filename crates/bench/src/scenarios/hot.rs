//! Four rows that everybody wants: throughput and fairness by number of clients, and two thousand sessions in line for one row.

use std::io;
use std::time::{Duration, Instant};

use cairn_testkit::Server;
use clap::Args;

use crate::lab::{Common, Lab, Latencies, Load, Pair, Report, Session, is_cairn, number, ratio, run_script};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Seconds of each measured run.
    #[arg(long, default_value_t = 10)]
    duration: u64,
    /// Numbers of clients, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 400])]
    clients: Vec<u32>,
    /// Sessions that wait for one row of Cairn while its holder commits; 0: not measured.
    #[arg(long, default_value_t = 2000)]
    waiting: u32,
}

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../../scenarios/", $name))
    };
}

const SETUP: &str = scenario!("daily_setup.sql");

const SCRIPTS: [(&str, &str); 3] = [
    ("for update", scenario!("daily_for_update.sql")),
    ("update returning", scenario!("daily_returning.sql")),
    ("call", scenario!("daily_call.sql")),
];

/// One run of pgbench.
#[derive(Clone)]
struct Run {
    per_second: f64,
    latencies: Latencies,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("hot", options.common.json);
    report.setting("seconds of each run", &options.duration.to_string());
    let mut lab = Lab::start(&options.common, &mut report)?;
    for server in &lab.servers {
        run_script(&lab, server, "daily-setup", SETUP)?;
    }
    for (name, text) in SCRIPTS {
        for clients in &options.clients {
            let runs =
                Pair::measure(&mut lab, |lab, index| one_run(options, lab, index, name, text, *clients))?;
            let label = |what: &str| format!("{name}, {clients} clients: {what}");
            report.figure(label("per second"), "", &runs.each(|run| Some(run.per_second)), "");
            report.figure(label("p50"), "ms", &runs.each(|run| Some(run.latencies.percentile(0.5))), "");
            let unfairness = |run: &Run| ratio(run.latencies.percentile(0.99), run.latencies.percentile(0.5));
            report.figure(label("p99 / p50"), "", &runs.each(unfairness), "");
        }
    }
    if options.waiting > 0
        && let Some(server) = lab.servers.iter().find(|server| is_cairn(server))
    {
        in_line(&lab, server, options.waiting, &mut report)?;
    }
    report.print();
    Ok(())
}

fn one_run(
    options: &Options,
    lab: &Lab,
    index: usize,
    name: &str,
    text: &str,
    clients: u32,
) -> io::Result<Run> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    lab.progress(server, &format!("{name}, {clients} clients"));
    let seconds = options.duration;
    let load = Load { name: "hot", text, clients, rate: 0.0, seconds, database: "postgres" };
    let latencies = load.start(lab, server)?.finish()?;
    Ok(Run { per_second: latencies.transactions as f64 / seconds as f64, latencies })
}

/// Sessions wait for a row; its holder commits; all of them get it, one after the other.
fn in_line(lab: &Lab, server: &Server, sessions: u32, report: &mut Report) -> io::Result<()> {
    let mut holder = Session::open(server)?;
    let update =
        "update daily_limit set daily_limit = daily_limit - 1 where customer_id = 1 and day = now()::date";
    holder.run("begin")?;
    holder.run(update)?;
    let before = resident_mb(server)?;
    let text = format!("{update};\n");
    let waiters =
        Load { name: "line", text: &text, clients: sessions, rate: 0.0, seconds: 0, database: "postgres" };
    let running = waiters.start_counted(lab, server, 1)?;
    let begin = Instant::now();
    let waiting = || number(server, "select count(*) from pg_stat_activity where wait_event_type = 'Lock'");
    while waiting()? < f64::from(sessions) {
        if begin.elapsed() > Duration::from_secs(120) {
            return Err(io::Error::other(format!("only {} sessions wait", waiting()?)));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let memory = resident_mb(server)? - before;
    // The holder goes on while they wait, and ends.
    let statement = holder.run(update)?.time;
    let commit = holder.run("commit")?.time;
    let begin = Instant::now();
    running.finish()?;
    let ms = |time: Duration| Some(time.as_secs_f64() * 1e3);
    report.figure(format!("{sessions} sessions wait: their memory"), "MB", &[Some(memory), None], "");
    report.figure(
        format!("{sessions} sessions wait: a statement of the holder"),
        "ms",
        &[ms(statement), None],
        "",
    );
    report.figure(format!("{sessions} sessions wait: the holder's commit"), "ms", &[ms(commit), None], "");
    report.figure(
        format!("{sessions} sessions wait: until all are done"),
        "ms",
        &[ms(begin.elapsed()), None],
        "",
    );
    Ok(())
}

fn resident_mb(server: &Server) -> io::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.map(|kb| kb / 1024.0).ok_or_else(|| io::Error::other("the server's memory is unknown"))
}
