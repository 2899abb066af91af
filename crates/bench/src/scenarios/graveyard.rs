//! A million rows, half of them deleted: what it costs to get past the dead ones.
//!
//! Each query runs on the table with dead rows and on a twin in which they never were. Dead rows lie before the live ones for
//! scans forward, behind them for scans backward. A snapshot from before the delete reads too. The
//! index of dead ranges is in memory, so both servers are restarted, and asked at once; restarted again, and asked a while
//! later.

use std::io;
use std::time::Duration;

use cairn_testkit::Server;
use clap::Args;

use crate::lab::{Common, Lab, Pair, Report, Session, is_cairn, median, ratio};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Rows of the table; the first half is deleted.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Runs of each query, each beside one of its twin; the median of their ratios counts.
    #[arg(long, default_value_t = 2001)]
    runs: usize,
    /// Seconds between the second restart and the first query.
    #[arg(long, default_value_t = 10)]
    settle: u64,
}

/// One query on the table with dead rows, and on its twin.
struct Timing {
    name: &'static str,
    /// The very first run after the delete (or the restart).
    first_touch_ms: f64,
    second_touch_ms: f64,
    ms: f64,
    twin_ms: f64,
    /// Of each run to the run of the twin beside it: answers take 15 us or 100, as cores sleep or not, and that changes while a
    /// query is measured.
    ratio: f64,
    /// Seeks and steps, where the server tells.
    work: Option<f64>,
    twin_work: Option<f64>,
}

struct Course {
    delete_ms: f64,
    restart_ms: f64,
    timings: Vec<Timing>,
}

/// Name, query, with `{t}` for the table and `{half}` for the boundary. Twins have what is alive only.
const QUERIES: [(&str, &str, &str); 4] = [
    ("first row", "front", "select id from {t} order by id limit 1"),
    ("count below the boundary", "front", "select count(*) from {t} where id <= {half}"),
    ("last row", "back", "select id from {t} order by id desc limit 1"),
    ("count above the boundary", "back", "select count(*) from {t} where id > {half}"),
];

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("graveyard", options.common.json);
    report.setting("rows", &options.rows.to_string());
    report.setting("deleted", &(options.rows / 2).to_string());
    report.setting("runs of each query", &options.runs.to_string());
    let mut lab = Lab::start(&options.common, &mut report)?;
    let course = Pair::measure(&mut lab, |lab, index| one_server(options, lab, index))?;
    report.figure("deleting", "ms", &course.each(|c| Some(c.delete_ms)), "");
    report.figure("restarting", "ms", &course.each(|c| Some(c.restart_ms)), "");
    let names: Vec<&str> = match course.cairn.as_ref().or(course.postgres.as_ref()) {
        Some(course) => course.timings.iter().map(|timing| timing.name).collect(),
        None => Vec::new(),
    };
    for (at, name) in names.iter().enumerate() {
        let of = |figure: fn(&Timing) -> Option<f64>| course.each(|c| c.timings.get(at).and_then(figure));
        report.figure(format!("{name}: first touch"), "ms", &of(|t| Some(t.first_touch_ms)), "");
        report.figure(format!("{name}: second touch"), "ms", &of(|t| Some(t.second_touch_ms)), "");
        report.figure(format!("{name}: median"), "ms", &of(|t| Some(t.ms)), "");
        report.figure(format!("{name}: none deleted"), "ms", &of(|t| Some(t.twin_ms)), "");
        report.figure(format!("{name}: with / none deleted"), "", &of(|t| Some(t.ratio)), "<= 1.2");
        report.figure(format!("{name}: steps"), "", &of(|t| t.work), "");
        report.figure(format!("{name}: steps, none deleted"), "", &of(|t| t.twin_work), "");
    }
    report.print();
    Ok(())
}

fn one_server(options: &Options, lab: &mut Lab, index: usize) -> io::Result<Course> {
    let half = options.rows / 2;
    let (rows, runs) = (options.rows, options.runs);
    let mut timings = Vec::new();
    let mut delete_ms = 0.0;
    {
        let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
        lab.progress(server, "loading");
        for (table, from, to) in
            [("front", 1, rows), ("back", 1, rows), ("front_twin", half + 1, rows), ("back_twin", 1, half)]
        {
            server.sql(&format!(
                "create table {table} (id bigint primary key, payload text);
                 insert into {table} select g, md5(g::text) from generate_series({from}, {to}) g;
                 analyze {table}"
            ))?;
        }
        server.sql("checkpoint")?;
        let mut old = Session::open(server)?;
        old.run("begin isolation level repeatable read")?;
        for (_, table, query) in QUERIES {
            old.run(&fill(query, table, half))?;
        }
        let mut session = Session::open(server)?;
        lab.progress(server, "deleting");
        for delete in
            [format!("delete from front where id <= {half}"), format!("delete from back where id > {half}")]
        {
            delete_ms += session.run(&delete)?.time.as_secs_f64() * 1e3;
        }
        for (name, table, query) in QUERIES {
            lab.progress(server, name);
            timings.push(time(server, &mut session, name, table, query, half, runs)?);
        }
        lab.progress(server, "reading from before the delete");
        for (name, (_, table, query)) in
            ["first row, old snapshot", "last row, old snapshot"].into_iter().zip([QUERIES[0], QUERIES[2]])
        {
            timings.push(time(server, &mut old, name, table, query, half, runs)?);
        }
        // An old snapshot that keeps history while rows die: fresh readers once more.
        let (_, table, query) = QUERIES[0];
        timings.push(time(server, &mut session, "first row, snapshot still held", table, query, half, runs)?);
    }
    let at_once = [
        "first row, at once after a restart",
        "count below, at once after a restart",
        "last row, at once after a restart",
    ];
    let restart_ms = restarted(options, lab, index, Duration::ZERO, at_once, &mut timings)?;
    let later = [
        "first row, a while after a restart",
        "count below, a while after a restart",
        "last row, a while after a restart",
    ];
    restarted(options, lab, index, Duration::from_secs(options.settle), later, &mut timings)?;
    Ok(Course { delete_ms, restart_ms, timings })
}

/// Restarts the server, waits, and measures; how long the restart took, in milliseconds.
fn restarted(
    options: &Options,
    lab: &mut Lab,
    index: usize,
    pause: Duration,
    names: [&'static str; 3],
    timings: &mut Vec<Timing>,
) -> io::Result<f64> {
    let Some(server) = lab.servers.get_mut(index) else { return Err(io::Error::other("no such server")) };
    let restart_ms = server.restart()?.as_secs_f64() * 1e3;
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    let mut session = Session::open(server)?;
    // What the session needs of the catalog is not what is measured. It opens the database, too.
    session.run("select count(*) from front_twin where id = 1")?;
    session.run("select count(*) from back_twin where id = 1")?;
    crate::lab::wait(pause, |_| lab.progress(server, "restarted; the index of dead ranges is learned again"));
    for (name, (_, table, query)) in names.into_iter().zip(QUERIES) {
        lab.progress(server, name);
        timings.push(time(server, &mut session, name, table, query, options.rows / 2, options.runs)?);
    }
    Ok(restart_ms)
}

fn fill(query: &str, table: &str, half: u64) -> String {
    query.replace("{t}", table).replace("{half}", &half.to_string())
}

fn time(
    server: &Server,
    session: &mut Session,
    name: &'static str,
    table: &str,
    query: &str,
    half: u64,
    runs: usize,
) -> io::Result<Timing> {
    let (own, twin) = (fill(query, table, half), fill(query, &format!("{table}_twin"), half));
    // The twin first: the plan's shape and the caches are warm then, what is left is the dead rows' share.
    session.times(&twin, 3)?;
    let first_touch_ms = session.run(&own)?.time.as_secs_f64() * 1e3;
    let second_touch_ms = session.run(&own)?.time.as_secs_f64() * 1e3;
    // In turn, so that the machine's drift is the same for both.
    let (mut own_ms, mut twin_ms) = (Vec::new(), Vec::new());
    // A query that takes long is not run as often.
    let runs = if second_touch_ms > 20.0 { runs.min(21) } else { runs };
    for _ in 0..runs {
        own_ms.extend(session.times(&own, 1)?);
        twin_ms.extend(session.times(&twin, 1)?);
    }
    let (work, twin_work) = match is_cairn(server) {
        true => (Some(steps(session, &own)?), Some(steps(session, &twin)?)),
        false => (None, None),
    };
    Ok(Timing {
        name,
        first_touch_ms,
        second_touch_ms,
        ratio: median(own_ms.iter().zip(&twin_ms).filter_map(|(own, twin)| ratio(*own, *twin)).collect()),
        ms: median(own_ms),
        twin_ms: median(twin_ms),
        work,
        twin_work,
    })
}

/// Seeks and steps, hidden ones too.
fn steps(session: &mut Session, query: &str) -> io::Result<f64> {
    let lines = session
        .run(&format!("explain (analyze, dist, debug, costs off, timing off, summary off) {query}"))?
        .lines;
    let metrics = [
        "rocksdb_number_db_seek",
        "rocksdb_number_db_next",
        "rocksdb_internal_delete_skipped",
        "rocksdb_internal_key_skipped",
    ];
    let value = |line: &String| {
        let (name, value) = line.trim().strip_prefix("Metric ")?.split_once(": ")?;
        metrics.contains(&name).then(|| value.parse::<f64>().ok())?
    };
    Ok(lines.iter().filter_map(value).sum())
}
