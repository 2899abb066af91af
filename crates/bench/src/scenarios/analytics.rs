//! Three overlapping analytic queries of two minutes each, beside a queue: does a backlog build up?
//!
//! An analytic query reads a table of events and takes its time, two minutes by sleeping in between, so that there is always a
//! snapshot that is one to two minutes old; its share of processor time is small, because what is asked here is what
//! the old snapshot costs the queue. The consumers may take a quarter more jobs than come in.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;

use super::queue::{Queue, Variant};
use crate::lab::{Common, Lab, Pair, Report, Session, is_cairn};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Jobs per second.
    #[arg(long, default_value_t = 800.0)]
    rate: f64,
    /// Seconds on each server.
    #[arg(long, default_value_t = 600)]
    duration: u64,
    /// Seconds between two lines of the report.
    #[arg(long, default_value_t = 60)]
    interval: u64,
    /// Seconds that an analytic query takes.
    #[arg(long, default_value_t = 120.0)]
    query_seconds: f64,
}

const QUERIES: u32 = 3;
const EVENTS: u32 = 200_000;
/// A query sleeps that often.
const SLEEPS: u32 = 400;

struct Course {
    /// Jobs that wait, at the end of each stretch.
    waiting: Vec<f64>,
    p99: Vec<f64>,
    queries: u64,
}

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("analytics", options.common.json);
    report.setting("jobs per second", &options.rate.to_string());
    report.setting("seconds", &options.duration.to_string());
    report.setting("analytic queries at a time", &QUERIES.to_string());
    report.setting("seconds of each", &options.query_seconds.to_string());
    let mut lab = Lab::start(&options.common, &mut report)?;
    let course = Pair::measure(&mut lab, |lab, index| one_server(options, lab, index, &mut report))?;
    let highest = |values: &Vec<f64>| values.iter().copied().reduce(f64::max);
    report.figure("analytic queries that ended", "", &course.each(|c| Some(c.queries as f64)), "");
    report.figure("jobs that wait, most", "", &course.each(|c| highest(&c.waiting)), "no backlog");
    report.figure(
        "jobs that wait, at the end",
        "",
        &course.each(|c| c.waiting.last().copied()),
        "no backlog",
    );
    report.figure("dequeue p99, first", "ms", &course.each(|c| c.p99.first().copied()), "");
    report.figure("dequeue p99, last", "ms", &course.each(|c| c.p99.last().copied()), "");
    report.print();
    Ok(())
}

fn one_server(options: &Options, lab: &Lab, index: usize, report: &mut Report) -> io::Result<Course> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    let queue = Queue::new(Variant::Fifo);
    lab.progress(server, "preparing");
    queue.prepare(lab, server, 100)?;
    server.sql(&format!(
        "create table events (id int primary key, amount int, note text);
         insert into events select g, g % 1000, md5(g::text) from generate_series(1, {EVENTS}) g;
         analyze"
    ))?;
    let analytic = format!(
        "select count(*), sum(amount), avg(length(note)) from events \
         where id % {} <> 0 or pg_sleep({}) is not null",
        EVENTS / SLEEPS,
        options.query_seconds / f64::from(SLEEPS)
    );
    let (enqueue, dequeue) = queue.texts(server);
    let over = AtomicBool::new(false);
    let queries = AtomicU64::new(0);
    let analyst = |number: u32| -> io::Result<()> {
        // One begins when another is a third of the way.
        let late = Duration::from_secs_f64(options.query_seconds / f64::from(QUERIES) * f64::from(number));
        crate::lab::wait(late.min(Duration::from_secs(options.duration)), |_| {});
        let mut session = Session::open(server)?;
        if !is_cairn(server) {
            // Workers would share the sleep among them.
            session.run("set max_parallel_workers_per_gather = 0")?;
        }
        while !over.load(Ordering::Relaxed) {
            session.run(&analytic)?;
            queries.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let mut course = Course { waiting: Vec::new(), p99: Vec::new(), queries: 0 };
    thread::scope(|scope| -> io::Result<()> {
        let analysts: Vec<_> = (0..QUERIES).map(|number| scope.spawn(move || analyst(number))).collect();
        let measured = stretches(options, lab, index, report, &queue, (&enqueue, &dequeue), &mut course);
        over.store(true, Ordering::Relaxed);
        if measured.is_err() {
            // The queries would go on for minutes.
            let _ = server
                .sql("select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep%'");
        }
        lab.progress(server, "the last analytic queries end");
        for analyst in analysts {
            let ended = analyst.join().map_err(|_| io::Error::other("an analyst's thread panicked"))?;
            if measured.is_ok() {
                ended?;
            }
        }
        measured
    })?;
    course.queries = queries.into_inner();
    Ok(course)
}

fn stretches(
    options: &Options,
    lab: &Lab,
    index: usize,
    report: &mut Report,
    queue: &Queue,
    (enqueue, dequeue): (&str, &str),
    course: &mut Course,
) -> io::Result<()> {
    let Some(server) = lab.servers.get(index) else { return Ok(()) };
    let stretches = options.duration.div_ceil(options.interval.max(1)).max(1);
    for stretch in 0..stretches {
        let producers = queue.producers(enqueue, options.rate, options.interval).start(lab, server)?;
        let consumers = queue.consumers(dequeue, options.rate * 1.25, options.interval).start(lab, server)?;
        crate::lab::wait(Duration::from_secs(options.interval), |_| {
            lab.progress(server, &format!("stretch {} of {stretches}", stretch + 1));
        });
        lab.progress_done();
        let (producers, consumers) = (producers.finish()?, consumers.finish()?);
        let waiting = queue.waiting(server)?;
        report.line(
            server.name(),
            &[
                ("stretch", (stretch + 1) as f64),
                ("enqueued", producers.transactions as f64),
                ("waiting", waiting),
                ("p50 ms", consumers.percentile(0.5)),
                ("p99 ms", consumers.percentile(0.99)),
            ],
        );
        course.waiting.push(waiting);
        course.p99.push(consumers.percentile(0.99));
    }
    Ok(())
}
