//! The workloads: how each is set up, and the pgbench command that is measured.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cairn_testkit::{Server, own_cpu_time, succeed};

use crate::ceiling;

/// What one pgbench run showed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Transactions per second.
    pub per_second: f64,
    /// Average latency of a transaction.
    pub latency_ms: f64,
    /// The server's CPU time (user and system) for each transaction.
    pub cpu_us: f64,
}

impl Figures {
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({ "per_second": self.per_second, "latency_ms": self.latency_ms, "cpu_us": self.cpu_us })
    }
}

pub struct Workload {
    pub name: &'static str,
    pub about: &'static str,
    setup: Setup,
    script: Script,
    clients: u32,
    mode: &'static str,
    /// Whether a server that only answers is measured too.
    pub ceiling: bool,
}

enum Setup {
    /// pgbench -i.
    Pgbench,
    /// A file under `scenarios/`.
    Scenario {
        text: &'static str,
        then: &'static str,
    },
    Statements(&'static str),
}

enum Script {
    Builtin(&'static str),
    Text(&'static str),
}

macro_rules! scenario {
    ($name:literal) => {
        include_str!(concat!("../../../scenarios/", $name))
    };
}

const HOT: Setup = Setup::Scenario { text: scenario!("daily_setup.sql"), then: "" };
const SINGLE_INSERT: &str =
    "insert into single (payload) values ('a payload of some forty characters, or so');\n";
const INSERT_SETUP: Setup = Setup::Statements(
    "drop table if exists single; create table single (id bigint generated always as identity primary key, payload text)",
);

pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "point-simple",
        about: "select by primary key, simple protocol, 10 clients",
        setup: Setup::Pgbench,
        script: Script::Builtin("select-only"),
        clients: 10,
        mode: "simple",
        ceiling: true,
    },
    Workload {
        name: "point-extended",
        about: "the same, extended protocol",
        setup: Setup::Pgbench,
        script: Script::Builtin("select-only"),
        clients: 10,
        mode: "extended",
        ceiling: false,
    },
    Workload {
        name: "point-prepared",
        about: "the same, prepared statement",
        setup: Setup::Pgbench,
        script: Script::Builtin("select-only"),
        clients: 10,
        mode: "prepared",
        ceiling: true,
    },
    Workload {
        name: "tpcb",
        about: "pgbench's TPC-B, simple protocol, 10 clients",
        setup: Setup::Pgbench,
        script: Script::Builtin("tpcb-like"),
        clients: 10,
        mode: "simple",
        ceiling: true,
    },
    Workload {
        name: "tpcb-prepared",
        about: "the same, prepared statements",
        setup: Setup::Pgbench,
        script: Script::Builtin("tpcb-like"),
        clients: 10,
        mode: "prepared",
        ceiling: false,
    },
    Workload {
        name: "insert",
        about: "single-row insert, each durable, 10 clients",
        setup: INSERT_SETUP,
        script: Script::Text(SINGLE_INSERT),
        clients: 10,
        mode: "simple",
        ceiling: false,
    },
    Workload {
        name: "enqueue",
        about: "queue: insert a job, 10 clients",
        setup: Setup::Scenario { text: scenario!("queue_fifo.sql"), then: "" },
        script: Script::Text(scenario!("enqueue.sql")),
        clients: 10,
        mode: "simple",
        ceiling: false,
    },
    Workload {
        name: "queue",
        about: "queue: each transaction adds a job and takes the first, 10 clients",
        setup: Setup::Scenario {
            text: scenario!("queue_fifo.sql"),
            then: "insert into job_queue (account_id) select 0 from generate_series(1, 1000)",
        },
        script: Script::Text(concat!(scenario!("enqueue.sql"), scenario!("dequeue.sql"))),
        clients: 10,
        mode: "simple",
        ceiling: false,
    },
    Workload {
        name: "hot-for-update",
        about: "4 hot rows, select for update, 100 clients",
        setup: HOT,
        script: Script::Text(scenario!("daily_for_update.sql")),
        clients: 100,
        mode: "extended",
        ceiling: false,
    },
    Workload {
        name: "hot-returning",
        about: "4 hot rows, update returning, 100 clients",
        setup: HOT,
        script: Script::Text(scenario!("daily_returning.sql")),
        clients: 100,
        mode: "extended",
        ceiling: false,
    },
    Workload {
        name: "hot-call",
        about: "4 hot rows, procedure, 100 clients",
        setup: HOT,
        script: Script::Text(scenario!("daily_call.sql")),
        clients: 100,
        mode: "simple",
        ceiling: false,
    },
];

impl Workload {
    pub fn prepare(&self, server: &Server, scale: u32, directory: &Path) -> io::Result<()> {
        match &self.setup {
            Setup::Pgbench => {
                // The workloads that use it share one set of tables.
                let loaded = server.sql(&format!("select count(*) = {scale} from pgbench_branches"));
                if loaded.is_ok_and(|answer| answer.trim() == "t") {
                    return Ok(());
                }
                let output =
                    server.client("pgbench").args(["-i", "-q", "-s", &scale.to_string()]).output()?;
                succeed("pgbench -i", output)?;
            }
            Setup::Scenario { text, then } => {
                // The order in a key is an extension of Cairn's grammar.
                let text = if server.name() == "Cairn" {
                    (*text).to_owned()
                } else {
                    text.replace("id asc)", "id)")
                };
                let path = directory.join(format!("{}-setup.sql", self.name));
                fs::write(&path, text)?;
                server.sql_file(&path)?;
                if !then.is_empty() {
                    server.sql(then)?;
                }
            }
            Setup::Statements(statements) => {
                server.sql(statements)?;
            }
        }
        server.sql("checkpoint")?;
        Ok(())
    }

    pub fn measure(
        &self,
        server: &Server,
        directory: &Path,
        scale: u32,
        seconds: u32,
    ) -> io::Result<Figures> {
        let mut command = server.client("pgbench");
        self.arguments(&mut command, directory, seconds)?;
        if matches!(self.setup, Setup::Pgbench) {
            command.args(["-s", &scale.to_string()]);
        }
        let before = server.cpu_time();
        let parsed = parse(&succeed(self.name, command.output()?)?)?;
        Ok(parsed.with_cpu(server.cpu_time().saturating_sub(before)))
    }

    /// The same load on a server that only reads requests and sends fixed answers.
    pub fn measure_ceiling(&self, directory: &Path, seconds: u32, rounds: usize) -> io::Result<Vec<Figures>> {
        let server = ceiling::Ceiling::start()?;
        let run = |_| {
            let mut command = Command::new("pgbench");
            command
                .env("PGHOST", "127.0.0.1")
                .env("PGPORT", server.port().to_string())
                .env("PGUSER", "postgres");
            command.env("PGDATABASE", "postgres");
            self.load(&mut command, seconds);
            // A built-in script would ask the server for the tables that it stands on: this one has none.
            let path = directory.join(format!("{}-ceiling.sql", self.name));
            fs::write(&path, self.text())?;
            command.args(["-D", "scale=10", "-f"]).arg(path);
            // The server that only answers is this process.
            let before = own_cpu_time();
            let parsed = parse(&succeed("ceiling", command.output()?)?)?;
            Ok(parsed.with_cpu(own_cpu_time().saturating_sub(before)))
        };
        (0..rounds).map(run).collect()
    }

    fn load(&self, command: &mut Command, seconds: u32) {
        command.args(["-n", "-M", self.mode, "-T", &seconds.to_string()]);
        command.args(["-c", &self.clients.to_string(), "-j", "1"]);
    }

    /// The script's statements, those of pgbench's built-in ones too.
    fn text(&self) -> &'static str {
        match self.script {
            Script::Text(text) => text,
            Script::Builtin("select-only") => {
                "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
            }
            Script::Builtin(_) => concat!(
                "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\\set tid random(1, 10 * :scale)\n",
                "\\set delta random(-5000, 5000)\nBEGIN;\n",
                "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n",
                "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n",
                "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n",
                "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n",
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n",
                "END;\n",
            ),
        }
    }

    fn arguments(&self, command: &mut Command, directory: &Path, seconds: u32) -> io::Result<()> {
        self.load(command, seconds);
        match self.script {
            Script::Builtin(name) => command.args(["-b", name]),
            Script::Text(text) => {
                let path = directory.join(format!("{}.sql", self.name));
                fs::write(&path, text)?;
                command.arg("-f").arg(path)
            }
        };
        Ok(())
    }
}

struct Parsed {
    figures: Figures,
    transactions: f64,
}

impl Parsed {
    /// The server has used so much.
    fn with_cpu(self, used: Duration) -> Figures {
        Figures { cpu_us: used.as_secs_f64() * 1e6 / self.transactions.max(1.0), ..self.figures }
    }
}

/// Reads pgbench's closing summary.
fn parse(text: &str) -> io::Result<Parsed> {
    let value = |prefix: &str| -> io::Result<f64> {
        let line = text.lines().find(|line| line.starts_with(prefix));
        let number = line.and_then(|line| {
            line.get(prefix.len()..)?.split([' ', '/']).find(|word| !word.is_empty())?.parse().ok()
        });
        number.ok_or_else(|| io::Error::other(format!("pgbench printed no {prefix:?}:\n{text}")))
    };
    let figures =
        Figures { per_second: value("tps = ")?, latency_ms: value("latency average = ")?, cpu_us: 0.0 };
    Ok(Parsed { figures, transactions: value("number of transactions actually processed: ")? })
}
