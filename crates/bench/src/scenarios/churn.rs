//! Rows come, are deleted, and come again, once a second: does the table's size level off, does a point read stay quick?
//!
//! The scenario's own script measures both, with and without a primary key, in two databases at the same time.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use cairn_testkit::{Server, succeed};
use clap::Args;

use crate::lab::{Common, Lab, Pair, Report, is_cairn, ratio, set_retention};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Seconds on each server.
    #[arg(long, default_value_t = 1800)]
    duration: u64,
    /// Seconds between two lines of the report.
    #[arg(long, default_value_t = 60)]
    interval: u64,
    /// Cycles per second.
    #[arg(long, default_value_t = 1.0)]
    rate: f64,
}

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../../scenarios/", $name))
    };
}

/// Database and set-up.
const KINDS: [(&str, &str); 2] =
    [("churn_key", scenario!("churn_setup.sql")), ("churn_nokey", scenario!("churn_setup_nokey.sql"))];

/// What the script recorded in one stretch.
#[derive(Clone, Copy, Default)]
struct Stretch {
    cycles: f64,
    table_mb: f64,
    database_mb: f64,
    read_ms: f64,
}

/// With and without a key.
struct Course {
    middle: [Stretch; 2],
    first: [Stretch; 2],
    last: [Stretch; 2],
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("churn", options.common.json);
    report.setting("cycles per second", &options.rate.to_string());
    report.setting("seconds", &options.duration.to_string());
    let mut lab = Lab::start(&options.common, &mut report)?;
    let course = Pair::measure(&mut lab, |lab, index| one_server(options, lab, index, &mut report))?;
    for (at, name) in ["with key", "without key"].into_iter().enumerate() {
        let of = |stretches: &[Stretch; 2]| stretches.get(at).copied().unwrap_or_default();
        report.figure(
            format!("{name}: cycles in the last stretch"),
            "",
            &course.each(|c| Some(of(&c.last).cycles)),
            "",
        );
        report.figure(
            format!("{name}: table size at half time"),
            "MB",
            &course.each(|c| Some(of(&c.middle).table_mb)),
            "",
        );
        report.figure(
            format!("{name}: table size at the end"),
            "MB",
            &course.each(|c| Some(of(&c.last).table_mb)),
            "levels off",
        );
        report.figure(
            format!("{name}: table size, end / half time"),
            "",
            &course.each(|c| ratio(of(&c.last).table_mb, of(&c.middle).table_mb)),
            "about 1",
        );
        report.figure(
            format!("{name}: database size, end / half time"),
            "",
            &course.each(|c| ratio(of(&c.last).database_mb, of(&c.middle).database_mb)),
            "about 1",
        );
        report.figure(
            format!("{name}: point read, first"),
            "ms",
            &course.each(|c| Some(of(&c.first).read_ms)),
            "",
        );
        report.figure(
            format!("{name}: point read, last"),
            "ms",
            &course.each(|c| Some(of(&c.last).read_ms)),
            "flat",
        );
    }
    report.print();
    Ok(())
}

fn psql(server: &Server, database: &str, arguments: &[&str]) -> io::Result<String> {
    let mut command = server.client("psql");
    command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database]).args(arguments);
    succeed("psql", command.output()?)
}

fn one_server(options: &Options, lab: &Lab, index: usize, report: &mut Report) -> io::Result<Course> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    for (database, setup) in KINDS {
        server.sql(&format!("create database {database}"))?;
        if is_cairn(server) {
            set_retention(server, database, &options.common.retention);
        }
        psql(server, database, &["-c", setup])?;
    }
    let cycle = lab.directory.join("churn-cycle.sql");
    std::fs::write(&cycle, scenario!("churn_cycle.sql"))?;
    let cycle = cycle.to_string_lossy().into_owned();
    let begin = Instant::now();
    let end = begin + Duration::from_secs(options.duration);
    let mut stretches: Vec<[Stretch; 2]> = Vec::new();
    let churn = |database: &str| -> io::Result<()> {
        let mut due = begin;
        while Instant::now() < end {
            psql(server, database, &["-f", &cycle])?;
            due += Duration::from_secs_f64(1.0 / options.rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    };
    thread::scope(|scope| -> io::Result<()> {
        let workers: Vec<_> = KINDS.iter().map(|(database, _)| scope.spawn(|| churn(database))).collect();
        let mut next = begin;
        while next < end {
            next = (next + Duration::from_secs(options.interval)).min(end);
            crate::lab::wait(next.saturating_duration_since(Instant::now()), |_| {
                lab.progress(server, &format!("stretch {}", stretches.len() + 1));
            });
            lab.progress_done();
            let mut both = [Stretch::default(); 2];
            for ((database, _), stretch) in KINDS.iter().zip(&mut both) {
                *stretch = recorded(server, database)?;
            }
            let [key, nokey] = both;
            report.line(
                server.name(),
                &[
                    ("seconds", begin.elapsed().as_secs() as f64),
                    ("key cycles", key.cycles),
                    ("key MB", key.table_mb),
                    ("key db MB", key.database_mb),
                    ("key read ms", key.read_ms),
                    ("none cycles", nokey.cycles),
                    ("none MB", nokey.table_mb),
                    ("none db MB", nokey.database_mb),
                    ("none read ms", nokey.read_ms),
                ],
            );
            stretches.push(both);
        }
        for worker in workers {
            worker.join().map_err(|_| io::Error::other("a churning thread panicked"))??;
        }
        Ok(())
    })?;
    let at = |index: usize| stretches.get(index).copied().unwrap_or_default();
    Ok(Course {
        first: at(0),
        middle: at(stretches.len().saturating_sub(1) / 2),
        last: at(stretches.len().saturating_sub(1)),
    })
}

/// What the script recorded since the last call; its tables are emptied.
fn recorded(server: &Server, database: &str) -> io::Result<Stretch> {
    let query =
        "select count(*), coalesce(percentile_disc(0.5) within group (order by ms), 0) from metric_query;
         select coalesce(avg(size), 0)::bigint from metric_table_size where name = 'public.demo';
         select pg_database_size(current_database());
         truncate metric_query, metric_table_size";
    let answer = psql(server, database, &["-c", query])?;
    let mut numbers = answer.split(['|', '\n']).filter_map(|field| field.trim().parse::<f64>().ok());
    let mut next = || numbers.next().unwrap_or(0.0);
    Ok(Stretch { cycles: next(), read_ms: next(), table_mb: next() / 1e6, database_mb: next() / 1e6 })
}
