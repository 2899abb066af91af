//! Four rows that everybody wants: throughput and fairness by number of clients, and two thousand sessions in line for one row.

use std::io;
use std::time::{Duration, Instant};

use cairn_testkit::{Server, memory_bytes};
use clap::Args;

use crate::lab::{Common, Lab, Latencies, Load, Pair, Report, Session, number, ratio, run_script};

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
    /// Sessions that wait for one row while its holder commits; 0: not measured.
    #[arg(long, default_value_t = 2000)]
    waiting: u32,
}

/// Connections beside those of the load.
const OTHERS: u32 = 20;

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../../scenarios/", $name))
    };
}

const SETUP: &str = scenario!("daily_setup.sql");

/// Name, script, and what is wanted of 100 clients.
const SCRIPTS: [(&str, &str, &str); 3] = [
    ("for update", scenario!("daily_for_update.sql"), "ratio >= 5 (PostgreSQL 18)"),
    ("update returning", scenario!("daily_returning.sql"), "ratio >= 6 (PostgreSQL 18)"),
    ("call", scenario!("daily_call.sql"), "ratio >= 10 (PostgreSQL 18)"),
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
    let most = options.clients.iter().copied().max().unwrap_or(0).max(options.waiting);
    let mut lab = Lab::start_for(most + OTHERS, &options.common, &mut report)?;
    for server in &lab.servers {
        run_script(&lab, server, "daily-setup", SETUP)?;
    }
    for (name, text, goal) in SCRIPTS {
        for clients in &options.clients {
            let runs =
                Pair::measure(&mut lab, |lab, index| one_run(options, lab, index, name, text, *clients))?;
            let label = |what: &str| format!("{name}, {clients} clients: {what}");
            let goal = if *clients == 100 { goal } else { "" };
            report.figure(label("per second"), "", &runs.each(|run| Some(run.per_second)), goal);
            report.figure(label("p50"), "ms", &runs.each(|run| Some(run.latencies.percentile(0.5))), "");
            let unfairness = |run: &Run| ratio(run.latencies.percentile(0.99), run.latencies.percentile(0.5));
            report.figure(label("p99 / p50"), "", &runs.each(unfairness), "");
        }
    }
    if options.waiting > 0 {
        let lines = Pair::measure(&mut lab, |lab, index| match lab.servers.get(index) {
            Some(server) => in_line(lab, server, options.waiting),
            None => Err(io::Error::other("no such server")),
        })?;
        let label = |what: &str| format!("{} sessions wait: {what}", options.waiting);
        let mut figure = |what, unit, value: fn(&Line) -> f64, goal| {
            report.figure(label(what), unit, &lines.each(|line| Some(value(line))), goal);
        };
        figure("their memory", "MB", |line| line.memory_mb, "");
        figure("the holder's statement before", "ms", |line| line.alone_ms, "");
        figure("the holder's statement", "ms", |line| line.statement_ms, "as before");
        figure("the holder's commit", "ms", |line| line.commit_ms, "as if nobody waited");
        figure("until all are done", "ms", |line| line.all_ms, "");
        figure("served out of turn", "", |line| line.out_of_turn, "0");
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

/// What came of a row that many wait for.
struct Line {
    memory_mb: f64,
    alone_ms: f64,
    statement_ms: f64,
    commit_ms: f64,
    all_ms: f64,
    out_of_turn: f64,
}

/// The view of those who wait, kept. The first in line is shown without its place: it waits for the transaction.
const IN_LINE: &str = "insert into in_line
    select pid, waitstart from pg_locks where locktype = 'tuple' and waitstart is not null";

/// Those who came later than one that got the row after them. Times in the view are off by some microseconds.
const OUT_OF_TURN: &str = "select count(*) from (
    select waitstart, max(waitstart) over (order by at rows between unbounded preceding and 1 preceding) as latest
    from served join in_line using (pid)) s where waitstart < latest - interval '200 microseconds'";

/// Sessions wait for a row; its holder commits; all of them get it, one after the other.
fn in_line(lab: &Lab, server: &Server, sessions: u32) -> io::Result<Line> {
    let mut holder = Session::open(server)?;
    holder.run("create table served (at int generated always as identity primary key, pid int)")?;
    holder.run("create table in_line (pid int, waitstart timestamptz)")?;
    let update =
        "update daily_limit set daily_limit = daily_limit - 1 where customer_id = 1 and day = now()::date";
    holder.run("begin")?;
    holder.run(update)?;
    let alone = holder.run(update)?.time;
    let before = memory_bytes(server.pid());
    let text = format!("begin;\n{update};\ninsert into served (pid) values (pg_backend_pid());\ncommit;\n");
    let waiters =
        Load { name: "line", text: &text, clients: sessions, rate: 0.0, seconds: 0, database: "postgres" };
    let running = waiters.start_counted(lab, server, 1)?;
    let begin = Instant::now();
    let waiting = || number(server, "select count(*) from pg_stat_activity where wait_event_type = 'Lock'");
    while waiting()? < f64::from(sessions) {
        lab.progress(server, &format!("{} of {sessions} sessions wait", waiting()?));
        if begin.elapsed() > Duration::from_secs(300) {
            return Err(io::Error::other(format!("only {} sessions wait", waiting()?)));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let memory = memory_bytes(server.pid()).saturating_sub(before);
    server.sql(IN_LINE)?;
    // The holder goes on while they wait, and ends.
    let statement = holder.run(update)?.time;
    let commit = holder.run("commit")?.time;
    let begin = Instant::now();
    lab.progress(server, "all get the row");
    running.finish()?;
    let all = begin.elapsed();
    let served = number(server, "select count(*) from served")?;
    if served != f64::from(sessions) {
        return Err(io::Error::other(format!("{served} of {sessions} sessions got the row")));
    }
    let out_of_turn = number(server, OUT_OF_TURN)?;
    server.sql("drop table served, in_line")?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Line {
        memory_mb: memory as f64 / f64::from(1 << 20),
        alone_ms: ms(alone),
        statement_ms: ms(statement),
        commit_ms: ms(commit),
        all_ms: ms(all),
        out_of_turn,
    })
}
