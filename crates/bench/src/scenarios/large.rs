//! A large table, statement after statement: loaded, updated, half deleted, emptied, loaded again, and
//! changes rolled back.
//!
//! Nothing is waited for: each step begins when the one before has answered, while the server may still
//! have background work from it. Each variant has a fresh server of each kind. Beside the steps runs a
//! client with point selects on a small table, as fast as it gets answers; its latency shows what a step
//! costs others. A select counts for every step that it overlaps, so a step that is shorter than a select
//! has one or two of them. A select that a step holds up for long is one among thousands: the p99 of a
//! long step may not show it, its maximum does. Every answer is checked.

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};

use crate::lab::{Common, Lab, Latencies, Load, Pair, Report, Session, plain, ratio};

#[derive(Args)]
#[command(after_help = "Example: cairn-bench large --rows 200000 --indexes 2 --snapshot none\n\n\
    The ratio is Cairn's time to PostgreSQL's: above 1, Cairn is slower. The table has the client's p99; \
    --json has its p50 and its maximum, too.")]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Rows of the table.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    rows: u64,
    /// Secondary indexes, made before the load.
    #[arg(long, value_enum, default_value = "both")]
    indexes: Indexes,
    /// Whether another session holds a snapshot from after the first insert to the end.
    #[arg(long, value_enum, default_value = "both")]
    snapshot: Snapshot,
    /// Clients with point selects beside the steps.
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// No client runs beside the steps.
    #[arg(long)]
    no_client: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Indexes {
    #[value(name = "0")]
    None,
    #[value(name = "2")]
    Two,
    /// One variant after the other.
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Snapshot {
    None,
    Held,
    /// One variant after the other.
    Both,
}

/// What one run does differently from another.
#[derive(Clone, Copy)]
struct Variant {
    indexed: bool,
    held: bool,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes = if self.indexed { "2 indexes" } else { "no index" };
        let snapshot = if self.held { "snapshot held" } else { "no snapshot" };
        write!(f, "{indexes}, {snapshot}")
    }
}

/// A statement, and what it has to answer.
struct Statement {
    /// Of its step; empty for one that is not measured.
    name: String,
    text: String,
    /// The only line; empty for a statement without rows.
    answer: String,
}

/// A part of a run.
struct Step {
    name: String,
    /// As the client timed its statement; `None` for the time before the first one.
    ms: Option<f64>,
    from_us: u64,
    to_us: u64,
    /// The point selects beside it.
    client: Latencies,
}

impl Step {
    /// Microseconds; `None` without a client.
    fn client_us(&self, part: f64) -> Option<f64> {
        (self.client.transactions > 0).then(|| (self.client.percentile(part) * 1e3).round())
    }
}

struct Course {
    steps: Vec<Step>,
    memory_mb: f64,
}

/// Measured for so long before the first step.
const BASELINE: Duration = Duration::from_secs(3);
/// For pgbench to connect.
const CONNECT: Duration = Duration::from_secs(1);

const SETUP: [&str; 3] = [
    "create table beside (k int primary key, v text)",
    "insert into beside select g, 'value ' || g from generate_series(1, 10000) g",
    "create table big (id bigint primary key, a int, c text, n numeric(12,2))",
];
const INDEXES: [&str; 2] = ["create index on big (a)", "create index on big (c)"];
const COUNT: &str = "select count(*) from big";

pub fn run(options: &Options) -> io::Result<()> {
    let mut report = Report::new("large", options.common.json);
    report.setting("rows", &options.rows.to_string());
    report.setting("clients beside the steps", &options.clients().to_string());
    for variant in options.variants() {
        let course = Pair::measure_apart(&options.common, &mut report, |lab, index| {
            one_server(options, variant, lab, index)
        })?;
        add_figures(&mut report, variant, &course);
        if !options.common.json {
            print_table(variant, &course);
        }
    }
    if options.common.json {
        report.print();
    }
    Ok(())
}

impl Options {
    fn clients(&self) -> u32 {
        if self.no_client { 0 } else { self.clients }
    }

    fn variants(&self) -> Vec<Variant> {
        let mut variants = Vec::new();
        for (indexed, unless) in [(false, Indexes::Two), (true, Indexes::None)] {
            for (held, other) in [(false, Snapshot::Held), (true, Snapshot::None)] {
                if self.indexes != unless && self.snapshot != other {
                    variants.push(Variant { indexed, held });
                }
            }
        }
        variants
    }
}

fn one_server(options: &Options, variant: Variant, lab: &Lab, index: usize) -> io::Result<Course> {
    let Some(server) = lab.servers.get(index) else { return Err(io::Error::other("no such server")) };
    let mut session = Session::open(server)?;
    for statement in SETUP.iter().chain(INDEXES.iter().filter(|_| variant.indexed)) {
        session.run(statement)?;
    }
    let mut steps = Vec::new();
    let load = Load {
        name: "beside",
        text: "\\set k random(1, 10000)\nselect v from beside where k = :k;\n",
        clients: options.clients(),
        rate: 0.0,
        // It is stopped long before.
        seconds: 1_000_000,
        database: "postgres",
    };
    let client = match options.clients() {
        0 => None,
        _ => Some(load.start_prepared(lab, server)?),
    };
    if client.is_some() {
        crate::lab::wait(CONNECT, |_| lab.progress(server, "the client connects"));
        let from_us = now_us()?;
        crate::lab::wait(BASELINE, |_| lab.progress(server, "the client alone"));
        let name = "before the first step".to_owned();
        steps.push(Step { name, ms: None, from_us, to_us: now_us()?, client: Latencies::default() });
    }
    let mut measure = |session: &mut Session, statement: &Statement| -> io::Result<()> {
        lab.progress(server, &format!("{variant}: {}", statement.name));
        steps.extend(step(session, statement)?);
        Ok(())
    };
    measure(&mut session, &Statement::new("insert", insert(options.rows, 1, options.rows)))?;
    let mut holder = match variant.held {
        true => Some(Session::open(server)?),
        false => None,
    };
    if let Some(holder) = &mut holder {
        holder.run("begin isolation level repeatable read")?;
        measure(holder, &Statement::new("the snapshot's first count", COUNT).answers(options.rows))?;
    }
    for statement in script(options.rows, variant) {
        measure(&mut session, &statement)?;
    }
    if let Some(holder) = &mut holder {
        measure(holder, &Statement::new("the snapshot's last count", COUNT).answers(options.rows))?;
    }
    let memory_mb = cairn_testkit::memory_bytes(server.pid()) as f64 / 1e6;
    if let Some(client) = client {
        let samples = client.stop()?;
        for step in &mut steps {
            let beside = samples.iter().filter(|sample| sample.overlaps(step.from_us, step.to_us));
            step.client = Latencies::of(beside);
        }
    }
    Ok(Course { steps, memory_mb })
}

/// Runs a statement and checks its answer; `None` if it is not measured.
fn step(session: &mut Session, statement: &Statement) -> io::Result<Option<Step>> {
    let Statement { name, text, answer: expected } = statement;
    let from_us = now_us()?;
    let answer = session.run(text)?;
    let to_us = now_us()?;
    let found = answer.lines.join("\n");
    if found != *expected {
        return Err(io::Error::other(format!("{name}: {text:?} answers {found:?}, not {expected:?}")));
    }
    let ms = Some(answer.time.as_secs_f64() * 1e3);
    Ok((!name.is_empty()).then(|| Step {
        name: name.clone(),
        ms,
        from_us,
        to_us,
        client: Latencies::default(),
    }))
}

/// By the clock of pgbench's log.
fn now_us() -> io::Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    Ok(since.as_micros() as u64)
}

impl Statement {
    fn new(name: impl Into<String>, text: impl Into<String>) -> Statement {
        Statement { name: name.into(), text: text.into(), answer: String::new() }
    }

    fn answers(self, answer: impl ToString) -> Statement {
        Statement { answer: answer.to_string(), ..self }
    }
}

/// `a` spreads over all of 0 to `rows` - 1, out of the order of the primary key.
fn insert(rows: u64, from: u64, to: u64) -> String {
    format!(
        "insert into big select g, ((g * 7919) % {rows})::int, 'c' || (g * 31 % 1000), g % 10000
         from generate_series({from}::bigint, {to}::bigint) g"
    )
}

/// What comes after the first insert.
fn script(rows: u64, variant: Variant) -> Vec<Statement> {
    let half = rows / 2;
    let step = |name: &str, text: &str| Statement::new(name, text);
    let first = "select id from big order by id limit 1";
    let last = "select id from big order by id desc limit 1";
    let update = "update big set a = a + 1";
    let delete_half = format!("delete from big where id <= {half}");
    let mut script = vec![
        step("count", COUNT).answers(rows),
        step("update all", update),
        step("count after the update", COUNT).answers(rows),
        step("delete half", &delete_half),
        step("first row, first touch", first).answers(half + 1),
        step("first row, second touch", first).answers(half + 1),
        step("last row, first touch", last).answers(rows),
        step("last row, second touch", last).answers(rows),
        step("first row where id > 0", "select id from big where id > 0 order by id limit 1")
            .answers(half + 1),
        step("count after the delete", COUNT).answers(rows - half),
        range(rows, variant),
        step("delete the rest", "delete from big"),
        step("count of the empty table", COUNT).answers(0),
        step("insert again", &insert(rows, 1, rows)),
        step("count after the second insert", COUNT).answers(rows),
    ];
    let further = insert(rows, rows + 1, rows + half);
    for (what, text) in [
        ("insert half", further.as_str()),
        ("update all", update),
        ("delete half", &delete_half),
        ("delete all", "delete from big"),
    ] {
        script.push(step("", "begin"));
        script.push(step(&format!("{what} (rolled back)"), text));
        script.push(step(&format!("{what}: rollback"), "rollback"));
        script.push(step(&format!("{what}: count after the rollback"), COUNT).answers(rows));
    }
    script
}

/// A hundredth of the table, by the index on `a` or by the primary key.
fn range(rows: u64, variant: Variant) -> Statement {
    let (from, to) = (rows / 4 * 3, rows / 4 * 3 + rows / 100);
    let (name, column) = match variant.indexed {
        true => ("range by the index on a", "a"),
        false => ("range by the primary key", "id"),
    };
    // What the insert, the update and the delete have left.
    let key = |id: u64| if variant.indexed { id * 7919 % rows + 1 } else { id };
    let found = (rows / 2 + 1..=rows).filter(|id| (from..=to).contains(&key(*id)));
    let sum = found.map(|id| id % 10_000).reduce(|sum, n| sum + n);
    Statement::new(name, format!("select sum(n) from big where {column} between {from} and {to}"))
        .answers(sum.map_or(String::new(), |sum| format!("{sum}.00")))
}

/// The steps of both servers side by side.
fn side_by_side(course: &Pair<Course>) -> Vec<(&str, [Option<&Step>; 2])> {
    let both = [course.cairn.as_ref(), course.postgres.as_ref()];
    let steps = both.into_iter().flatten().next().map_or(0, |course| course.steps.len());
    let at = |at: usize| {
        let both = both.map(|course| course?.steps.get(at));
        let name = both.into_iter().flatten().next()?.name.as_str();
        Some((name, both))
    };
    (0..steps).filter_map(at).collect()
}

fn add_figures(report: &mut Report, variant: Variant, course: &Pair<Course>) {
    for (name, steps) in side_by_side(course) {
        let ms = steps.map(|step| step?.ms);
        if ms.iter().any(Option::is_some) {
            report.figure(format!("{variant}: {name}"), "ms", &ms, "");
        }
        for (what, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let us = steps.map(|step| step?.client_us(part));
            if us.iter().any(Option::is_some) {
                report.figure(format!("{variant}: {name}: client {what}"), "us", &us, "");
            }
        }
    }
    let memory = course.each(|course| Some(course.memory_mb));
    report.figure(format!("{variant}: memory at the end"), "MB", &memory, "");
}

fn print_table(variant: Variant, course: &Pair<Course>) {
    println!(
        "\n{:<38} {:>10} {:>13} {:>7} {:>19} {:>16}",
        variant.to_string(),
        "Cairn ms",
        "PostgreSQL ms",
        "ratio",
        "client p99 us Cairn",
        "client p99 us PG"
    );
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), plain);
    let mut ratios = Vec::new();
    for (name, steps) in side_by_side(course) {
        let [cairn_ms, postgres_ms] = steps.map(|step| step?.ms);
        let [cairn_us, postgres_us] = steps.map(|step| step?.client_us(0.99));
        let ratio = cairn_ms.zip(postgres_ms).and_then(|(cairn, postgres)| ratio(cairn, postgres));
        ratios.extend(ratio.map(|ratio| (name, ratio)));
        println!(
            "{name:<38} {:>10} {:>13} {:>7} {:>19} {:>16}",
            optional(cairn_ms),
            optional(postgres_ms),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            optional(cairn_us),
            optional(postgres_us)
        );
    }
    let [cairn_mb, postgres_mb] = course.each(|course| Some(course.memory_mb.round()));
    println!("{:<38} {:>10} {:>13}", "memory at the end, MB", optional(cairn_mb), optional(postgres_mb));
    if !ratios.is_empty() {
        let above_2 = named(&ratios, |ratio| ratio > 2.0 && ratio <= 3.0);
        let above_3 = named(&ratios, |ratio| ratio > 3.0);
        println!("above 2x, up to 3x: {above_2}; above 3x: {above_3}");
    }
}

/// The steps whose ratio is wanted.
fn named(ratios: &[(&str, f64)], wanted: impl Fn(f64) -> bool) -> String {
    let found: Vec<String> = ratios
        .iter()
        .filter(|(_, ratio)| wanted(*ratio))
        .map(|(name, ratio)| format!("{name} ({ratio:.2})"))
        .collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}
