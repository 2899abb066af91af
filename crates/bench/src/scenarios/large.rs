//! One transaction over many rows: time and the server's memory, and what a rollback of it costs.
//!
//! Memory is sampled every 100 ms (PSS, so that what PostgreSQL's processes share counts once). It includes the caches, whose
//! size does not depend on the transaction: Cairn's may use a quarter of the machine. What counts is that the
//! peak does not grow with the rows: run it with two numbers of them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cairn_testkit::Server;
use clap::Args;

use crate::lab::{Common, Lab, Pair, Report, Session};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Rows of the table.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
}

/// Samples a server's memory until it is asked.
struct Watch {
    peak_bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start(server: &Server) -> Watch {
        let (peak_bytes, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (peak, stopped, pid) = (Arc::clone(&peak_bytes), Arc::clone(&stop), server.pid());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                peak.fetch_max(cairn_testkit::memory_bytes(pid), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(100));
            }
        });
        Watch { peak_bytes, stop, thread }
    }

    fn peak_mb(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        // It does nothing that can fail.
        let _ = self.thread.join();
        self.peak_bytes.load(Ordering::Relaxed) as f64 / 1e6
    }
}

/// What one statement took.
struct Step {
    name: &'static str,
    seconds: f64,
    peak_mb: f64,
}

struct Course {
    before_mb: f64,
    after_mb: f64,
    /// From the last statement on, until the server has nothing to do.
    idle_seconds: f64,
    /// A point read of another session in the middle of the update.
    read_ms: f64,
    steps: Vec<Step>,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("large", options.common.json);
    report.setting("rows", &options.rows.to_string());
    let mut lab = Lab::start(&options.common, &mut report)?;
    let course = Pair::measure(&mut lab, |lab, index| one_server(options, lab, index))?;
    let names: Vec<&str> = match course.cairn.as_ref().or(course.postgres.as_ref()) {
        Some(course) => course.steps.iter().map(|step| step.name).collect(),
        None => Vec::new(),
    };
    for (at, name) in names.iter().enumerate() {
        let of = |figure: fn(&Step) -> f64| course.each(|c| c.steps.get(at).map(figure));
        let goal = if *name == "rollback of the update" { "at once" } else { "" };
        report.figure(*name, "s", &of(|step| step.seconds), goal);
    }
    report.figure("until nothing is done in the background", "s", &course.each(|c| Some(c.idle_seconds)), "");
    report.figure("another session's point read meanwhile", "ms", &course.each(|c| Some(c.read_ms)), "");
    report.figure("memory before", "MB", &course.each(|c| Some(c.before_mb)), "");
    for (at, name) in names.iter().enumerate() {
        let peaks = course.each(|c| c.steps.get(at).map(|step| step.peak_mb));
        report.figure(format!("memory, peak: {name}"), "MB", &peaks, "does not grow with the rows");
    }
    report.figure("memory after", "MB", &course.each(|c| Some(c.after_mb)), "");
    report.print();
    Ok(())
}

fn one_server(options: &Options, lab: &mut Lab, index: usize) -> io::Result<Course> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    let memory_mb = || cairn_testkit::memory_bytes(server.pid()) as f64 / 1e6;
    let mut session = Session::open(server)?;
    let mut reader = Session::open(server)?;
    session.run("create table large (id bigint primary key, value bigint not null, filler text)")?;
    let before_mb = memory_mb();
    let rows = options.rows;
    let update = "update large set value = value + 1";
    let insert = format!(
        "insert into large select g, 0, 'filler of some forty characters, or so it is' from generate_series(1, {rows}) g"
    );
    let mut steps = Vec::new();
    let mut read_ms = 0.0;
    let script: [(&'static str, &str); 10] = [
        ("insert", &insert),
        ("", "begin"),
        ("update", update),
        ("sum over own writes", "select sum(value) from large"),
        ("rollback of the update", "rollback"),
        ("", "begin"),
        ("update again", update),
        ("commit", "commit"),
        ("sum after the commit", "select sum(value) from large"),
        ("delete", "delete from large"),
    ];
    for (name, statement) in script {
        lab.progress(server, statement);
        let watch = Watch::start(server);
        let answer = session.run(statement);
        let peak_mb = watch.peak_mb();
        let answer = answer?;
        if statement.starts_with("select") {
            let expected = rows.to_string();
            if answer.lines.first() != Some(&expected) {
                return Err(io::Error::other(format!("{name}: {:?}, not {expected}", answer.lines)));
            }
        }
        if name == "update" {
            let middle = format!("select value from large where id = {}", rows / 2);
            read_ms = crate::lab::median(reader.times(&middle, 51)?);
            if reader.run(&middle)?.lines != ["0"] {
                return Err(io::Error::other("another session sees what is not committed"));
            }
        }
        if !name.is_empty() {
            steps.push(Step { name, seconds: answer.time.as_secs_f64(), peak_mb });
        }
    }
    let idle_seconds = until_idle(server);
    Ok(Course { before_mb, after_mb: memory_mb(), idle_seconds, read_ms, steps })
}

/// Until the server has nothing to do any more: Cairn moves what was committed to where it belongs, PostgreSQL vacuums.
fn until_idle(server: &Server) -> f64 {
    let begin = Instant::now();
    loop {
        let (before, window) = (server.cpu_time(), Duration::from_millis(500));
        thread::sleep(window);
        if server.cpu_time() - before < window / 10 || begin.elapsed() > Duration::from_secs(600) {
            return begin.elapsed().as_secs_f64();
        }
    }
}
