//! One row, updated 100,000 times while a snapshot is held: what reading the old version costs, and the new one.

use std::io;

use clap::Args;

use crate::lab::{Common, Lab, Load, Pair, Report, Session, is_cairn, run_script};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Updates in all, by ten clients.
    #[arg(long, default_value_t = 100_000)]
    updates: u64,
}

const CLIENTS: u64 = 10;

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../../scenarios/", $name))
    };
}

/// What reading the row costs.
#[derive(Clone, Copy)]
struct Reading {
    /// PostgreSQL: pages touched.
    seeks: f64,
    nexts: f64,
    hidden: f64,
    ms: f64,
}

struct Course {
    before: Reading,
    old: Reading,
    new: Reading,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("clock", options.common.json);
    report.setting("updates", &options.updates.to_string());
    let mut lab = Lab::start(&options.common, &mut report)?;
    let course = Pair::measure(&mut lab, |lab, index| one_server(options, lab, index))?;
    let extra = |figure: fn(&Reading) -> f64| course.each(|c| Some(figure(&c.old) - figure(&c.before)));
    let extra_new = |figure: fn(&Reading) -> f64| course.each(|c| Some(figure(&c.new) - figure(&c.before)));
    report.figure("behind the newer versions: further seeks | pages", "", &extra(|r| r.seeks), "<= 1");
    report.figure("behind the newer versions: further nexts", "", &extra(|r| r.nexts), "<= 3");
    report.figure("behind the newer versions: further hidden steps", "", &extra(|r| r.hidden), "0");
    report.figure("the newest version: further seeks | pages", "", &extra_new(|r| r.seeks), "<= 1");
    report.figure("the newest version: further nexts", "", &extra_new(|r| r.nexts), "<= 3");
    report.figure("reading before", "ms", &course.each(|c| Some(c.before.ms)), "");
    report.figure("reading behind the newer versions", "ms", &course.each(|c| Some(c.old.ms)), "as before");
    report.figure("reading the newest version", "ms", &course.each(|c| Some(c.new.ms)), "as before");
    report.print();
    Ok(())
}

fn one_server(options: &Options, lab: &Lab, index: usize) -> io::Result<Course> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    run_script(lab, server, "clock-setup", scenario!("clock_setup.sql"))?;
    let mut session = Session::open(server)?;
    session.run("begin transaction isolation level repeatable read")?;
    let cairn = is_cairn(server);
    let before = read(&mut session, cairn)?;
    let seconds = 3600;
    let updates = Load {
        name: "clock-update",
        text: scenario!("clock_update.sql"),
        clients: CLIENTS as u32,
        rate: 0.0,
        seconds,
        database: "postgres",
    };
    lab.progress(server, &format!("{} updates", options.updates));
    updates.start_counted(lab, server, options.updates / CLIENTS)?.finish()?;
    let old = read(&mut session, cairn)?;
    session.run("commit")?;
    let new = read(&mut session, cairn)?;
    Ok(Course { before, old, new })
}

/// Reads the row as the scenario does, after two readings that are not counted: caches, plans.
fn read(session: &mut Session, cairn: bool) -> io::Result<Reading> {
    let query = "select * from speaking_clock where id=42";
    let options = if cairn { "analyze, dist, debug" } else { "analyze, buffers" };
    let explain = format!("explain ({options}, costs off, summary off) {query}");
    for _ in 0..2 {
        session.run(&explain)?;
    }
    let lines = session.run(&explain)?.lines;
    let metric = |name: &str| {
        let line = lines.iter().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let seeks = if cairn { metric("Metric rocksdb_number_db_seek:") } else { metric("Buffers: shared hit=") };
    let ms = crate::lab::median(session.times(query, 51)?);
    Ok(Reading {
        seeks,
        nexts: metric("Metric rocksdb_number_db_next:"),
        hidden: metric("Metric rocksdb_internal_delete_skipped:")
            + metric("Metric rocksdb_internal_key_skipped:"),
        ms,
    })
}
