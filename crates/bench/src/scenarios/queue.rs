//! A job queue that lives on while somebody holds a snapshot from its beginning.
//!
//! Producers and ten consumers run at one rate over a standing backlog, in stretches of a minute; between the stretches the
//! backlog is levelled, because two random processes of the same rate drift apart. Beside them a control workload on
//! a database of its own shows how the machine's speed drifts. Storage work is counted over producers and consumers together: one
//! job in, one job out.

use std::io;
use std::time::Duration;

use cairn_testkit::Server;
use clap::{Args, ValueEnum};

use crate::lab::{
    Common, Lab, Latencies, Load, Pair, Report, Session, Work, for_server, is_cairn, number, ratio,
    run_script,
};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// In which order jobs are taken, or whether they come back.
    #[arg(long, value_enum, default_value = "fifo")]
    variant: Variant,
    /// Jobs per second.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Seconds on each server.
    #[arg(long, default_value_t = 900)]
    duration: u64,
    /// Seconds between two lines of the report.
    #[arg(long, default_value_t = 60)]
    interval: u64,
    /// Jobs that wait.
    #[arg(long, default_value_t = 1000)]
    backlog: u64,
    /// Nobody holds a snapshot.
    #[arg(long)]
    no_snapshot: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Variant {
    /// The oldest job first, by primary key.
    Fifo,
    /// The newest first, by a descending key.
    Lifo,
    /// By priority and age, through a secondary index.
    Priority,
    /// By time, through a secondary index; a job that was done comes again in an hour.
    Reschedule,
}

pub const CONSUMERS: u32 = 10;
const PRODUCERS: u32 = 4;
/// 128 characters that hardly compress.
const PAYLOAD: &str =
    "md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)";

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../../scenarios/", $name))
    };
}

/// The statements of a queue.
pub struct Queue {
    variant: Variant,
}

impl Queue {
    pub fn new(variant: Variant) -> Queue {
        Queue { variant }
    }

    fn setup(&self) -> &'static str {
        match self.variant {
            Variant::Fifo => scenario!("queue_fifo.sql"),
            Variant::Lifo => scenario!("queue_lifo.sql"),
            Variant::Priority => {
                "drop table if exists job_queue;\n\
                 create table job_queue (id bigint generated always as identity primary key, priority int not null, payload text);\n\
                 create index job_queue_order on job_queue (priority desc, id);\n"
            }
            Variant::Reschedule => {
                "drop table if exists job_queue;\n\
                 create table job_queue (id bigint generated always as identity primary key, run_at timestamptz not null, payload text);\n\
                 create index job_queue_run_at on job_queue (run_at);\n"
            }
        }
    }

    /// Columns and values of a new job.
    fn job(&self) -> (&'static str, &'static str) {
        match self.variant {
            Variant::Fifo | Variant::Lifo => ("account_id", "0"),
            Variant::Priority => ("priority", "1 + (random() * 4)::int"),
            Variant::Reschedule => ("run_at", "now()"),
        }
    }

    fn enqueue(&self) -> String {
        let (column, value) = self.job();
        format!("insert into job_queue ({column}, payload) values ({value}, {PAYLOAD});\n")
    }

    fn dequeue(&self, server: &Server) -> String {
        match self.variant {
            Variant::Fifo => scenario!("dequeue.sql").to_owned(),
            // The key's order is an extension of Cairn's: PostgreSQL is told.
            Variant::Lifo if !is_cairn(server) => scenario!("dequeue.sql")
                .replace("for update skip locked limit 1", "order by account_id desc, id desc limit 1 for update skip locked"),
            Variant::Lifo => scenario!("dequeue.sql").to_owned(),
            Variant::Priority => {
                "\\set id -1\nbegin transaction;\n\
                 select id, payload from job_queue order by priority desc, id limit 1 for update skip locked\n\\aset\n\
                 delete from job_queue where id=:id;\ncommit;\n"
                    .to_owned()
            }
            Variant::Reschedule => {
                "\\set id -1\nbegin transaction;\n\
                 select id, payload from job_queue where run_at <= now() order by run_at limit 1 for update skip locked\n\\aset\n\
                 update job_queue set run_at = now() + interval '1 hour' where id=:id;\ncommit;\n"
                    .to_owned()
            }
        }
    }

    /// Makes the table, with jobs that wait.
    pub fn prepare(&self, lab: &Lab, server: &Server, backlog: u64) -> io::Result<()> {
        run_script(lab, server, "queue-setup", self.setup())?;
        self.add(server, backlog)
    }

    fn add(&self, server: &Server, jobs: u64) -> io::Result<()> {
        let (column, value) = self.job();
        server
            .sql(&format!(
                "insert into job_queue ({column}, payload) select {value}, {PAYLOAD} from generate_series(1, {jobs})"
            ))
            .map(drop)
    }

    /// Jobs that wait.
    pub fn waiting(&self, server: &Server) -> io::Result<f64> {
        let due = if self.variant == Variant::Reschedule { "where run_at <= now()" } else { "" };
        number(server, &format!("select count(*) from job_queue {due}"))
    }

    pub fn producers<'a>(&self, text: &'a str, rate: f64, seconds: u64) -> Load<'a> {
        Load { name: "enqueue", text, clients: PRODUCERS, rate, seconds, database: "postgres" }
    }

    pub fn consumers<'a>(&self, text: &'a str, rate: f64, seconds: u64) -> Load<'a> {
        Load { name: "dequeue", text, clients: CONSUMERS, rate, seconds, database: "postgres" }
    }

    pub fn texts(&self, server: &Server) -> (String, String) {
        (self.enqueue(), for_server(server, &self.dequeue(server)))
    }
}

/// One stretch.
struct Minute {
    jobs: u64,
    work: Work,
    consumers: Latencies,
    control: Latencies,
    bytes: f64,
}

/// The first and the last stretch, and how the size went.
struct Course {
    first: Minute,
    last: Minute,
    middle_bytes: f64,
    /// Bytes of the jobs that passed.
    jobs: u64,
}

impl Course {
    fn growth(&self, figure: impl Fn(&Minute) -> f64) -> Option<f64> {
        ratio(figure(&self.last), figure(&self.first))
    }

    /// Growth of a percentile, relative to the control's.
    fn beyond_drift(&self, part: f64) -> Option<f64> {
        let own = self.growth(|minute| minute.consumers.percentile(part))?;
        let drift = self.growth(|minute| minute.control.percentile(part))?;
        ratio(own, drift)
    }
}

pub fn run(options: &Options) -> io::Result<()> {
    let variant =
        options.variant.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let mut report = Report::new(&format!("queue ({variant})"), options.common.json);
    report.setting("jobs per second", &options.rate.to_string());
    report.setting("consumers", &CONSUMERS.to_string());
    report.setting("standing backlog", &options.backlog.to_string());
    report.setting("seconds", &options.duration.to_string());
    report.setting("snapshot held from the start", if options.no_snapshot { "no" } else { "yes" });
    let mut lab = Lab::start(&options.common, &mut report)?;
    let course = Pair::measure(&mut lab, |lab, index| one_server(options, lab, index, &mut report))?;
    report.figure("jobs", "", &course.each(|course| Some(course.jobs as f64)), "");
    report.figure(
        "storage work per job, first",
        "steps | blocks",
        &course.each(|c| Some(c.first.work.total())),
        "",
    );
    report.figure(
        "storage work per job, last",
        "steps | blocks",
        &course.each(|c| Some(c.last.work.total())),
        "",
    );
    report.figure(
        "storage work per job, last / first",
        "",
        &course.each(|c| c.growth(|m| m.work.total())),
        "<= 1.1",
    );
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let percentile = |minute: &Minute| minute.consumers.percentile(part);
        report.figure(
            format!("dequeue {name}, first"),
            "ms",
            &course.each(|c| Some(percentile(&c.first))),
            "",
        );
        report.figure(format!("dequeue {name}, last"), "ms", &course.each(|c| Some(percentile(&c.last))), "");
        report.figure(
            format!("dequeue {name}, last / first"),
            "",
            &course.each(|c| c.growth(percentile)),
            "",
        );
        report.figure(
            format!("dequeue {name}, last / first, over the control's"),
            "",
            &course.each(|c| c.beyond_drift(part)),
            "<= 1.3",
        );
    }
    report.figure("size at half time", "MB", &course.each(|c| Some(c.middle_bytes / 1e6)), "");
    report.figure("size at the end", "MB", &course.each(|c| Some(c.last.bytes / 1e6)), "levels off");
    report.print();
    Ok(())
}

fn one_server(options: &Options, lab: &Lab, index: usize, report: &mut Report) -> io::Result<Course> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    let queue = Queue::new(options.variant);
    lab.progress(server, "preparing");
    queue.prepare(lab, server, options.backlog)?;
    server.sql("create database control")?;
    let control_setup = "create table control (id int primary key, payload text);\n\
         insert into control select g, md5(g::text) from generate_series(1, 100000) g;\n";
    let path = lab.directory.join("control-setup.sql");
    std::fs::write(&path, control_setup)?;
    let mut psql = server.client("psql");
    psql.args(["-XAtq", "-d", "control", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&path);
    cairn_testkit::succeed("psql", psql.output()?)?;
    let holder = if options.no_snapshot {
        None
    } else {
        let mut holder = Session::open(server)?;
        holder.hold_snapshot()?;
        holder.run("select count(*) from job_queue")?;
        Some(holder)
    };
    let (enqueue, dequeue) = queue.texts(server);
    let stretches = options.duration.div_ceil(options.interval.max(1)).max(1);
    let mut first = None;
    let mut last = None;
    let mut middle_bytes = 0.0;
    let mut jobs = 0;
    for stretch in 0..stretches {
        let waiting = queue.waiting(server)?;
        let missing = options.backlog as f64 - waiting;
        if missing > 0.0 {
            queue.add(server, missing as u64)?;
        }
        // Too many are worked off in the next stretch.
        let extra = (-missing).max(0.0) / options.interval as f64;
        let work = Work::so_far(server)?;
        let seconds = options.interval;
        let control = Load {
            name: "control",
            text: "\\set id random(1, 100000)\nselect payload from control where id = :id;\n",
            clients: 1,
            rate: 50.0,
            seconds,
            database: "control",
        };
        let control = control.start(lab, server)?;
        let producers = queue.producers(&enqueue, options.rate, seconds).start(lab, server)?;
        let consumers = queue.consumers(&dequeue, options.rate + extra, seconds).start(lab, server)?;
        crate::lab::wait(Duration::from_secs(seconds), |_| {
            lab.progress(server, &format!("minute {} of {stretches}, {waiting:.0} jobs wait", stretch + 1));
        });
        lab.progress_done();
        let consumers = consumers.finish()?;
        let producers = producers.finish()?;
        let control = control.finish()?;
        let minute = Minute {
            jobs: consumers.transactions,
            work: Work::so_far(server)?.since(work, consumers.transactions),
            bytes: number(server, "select pg_database_size(current_database())")?,
            consumers,
            control,
        };
        jobs += minute.jobs;
        report.line(
            server.name(),
            &[
                ("stretch", (stretch + 1) as f64),
                ("waiting", waiting),
                ("enqueued", producers.transactions as f64),
                ("dequeued", minute.jobs as f64),
                ("work/job", minute.work.total()),
                ("seeks/job", minute.work.seeks),
                ("nexts/job", minute.work.nexts),
                ("hidden/job", minute.work.hidden),
                ("p50 ms", minute.consumers.percentile(0.5)),
                ("p99 ms", minute.consumers.percentile(0.99)),
                ("enqueue p99", producers.percentile(0.99)),
                ("control p50", minute.control.percentile(0.5)),
                ("control p99", minute.control.percentile(0.99)),
                ("size MB", minute.bytes / 1e6),
            ],
        );
        if stretch == (stretches - 1) / 2 {
            middle_bytes = minute.bytes;
        }
        if first.is_none() {
            first = Some(minute);
        } else {
            last = Some(minute);
        }
    }
    drop(holder);
    let Some(first) = first else { return Err(io::Error::other("no stretch was run")) };
    let last = match last {
        Some(last) => last,
        None => return Err(io::Error::other("the duration must be at least two intervals")),
    };
    Ok(Course { first, last, middle_bytes, jobs })
}
