//! The command line: `cairn serve` and `cairn sql`.

mod psql;
mod serve;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// RocksDB's too (the library takes malloc's name): blocks and memtables of all sizes come and go, which the system's
/// allocator answers with twice the memory that is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const EXAMPLES: &str = "\
Examples:
  cairn serve                                     serve ./cairn-data on 127.0.0.1:5433
  cairn serve --listen 0.0.0.0:5432 --data-dir /srv/cairn --tls-cert server.crt --tls-key server.key
  cairn sql                                       psql on the running server, or on ./cairn-data itself
  cairn sql -- -c 'select version()'              what follows -- goes to psql
  psql -h 127.0.0.1 -p 5433 -U postgres           any PostgreSQL client works as well";

/// PostgreSQL-compatible database in which deleted rows never slow anyone down.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a data directory until Ctrl-C or SIGTERM
    Serve(ServeArguments),
    /// Start psql against the running server, or against the data directory
    Sql(SqlArguments),
}

#[derive(Args)]
struct ServeArguments {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// Directory with the data; created if it is not there
    #[arg(long, value_name = "DIR", default_value = "./cairn-data")]
    data_dir: PathBuf,
    /// Certificate chain (PEM) to offer TLS with
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Most clients at a time; more are told 53300
    #[arg(long, value_name = "N", default_value_t = 4000)]
    max_connections: usize,
    /// How long deleted and overwritten rows stay readable in the past (cairn.retention): 15min, 1h, 0, -1 for ever
    #[arg(long, value_name = "TIME", default_value = "15min", allow_hyphen_values = true)]
    retention: String,
    /// Memory for data in use, read and written (shared_buffers): 512MB, 8GB; a quarter of the machine's or container's
    /// without it, between 64MB and 16GB
    #[arg(long, value_name = "SIZE")]
    shared_buffers: Option<String>,
    /// Bytes at which a memtable becomes a file; tests make it small
    #[arg(long, value_name = "BYTES", hide = true)]
    memtable_bytes: Option<usize>,
    /// Whether tables are analyzed by themselves when many of their rows have changed
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    autovacuum: String,
    /// How often to look for such tables, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=2_147_483))]
    autovacuum_naptime: u32,
    /// Put databases whose directories are there, but which the list of databases has lost, into the list: as
    /// recovered_<oid>, owned by postgres
    #[arg(long)]
    adopt_databases: bool,
    /// Open a database whose write-ahead log is damaged with what lies before the damage; what lies behind is given up
    #[arg(long)]
    truncate_damaged_log: bool,
    /// Print the address as JSON, one line, once clients can connect
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SqlArguments {
    /// Server to connect to, if one runs there
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// Data directory to serve while psql runs, if no server does
    #[arg(long, value_name = "DIR", default_value = "./cairn-data")]
    data_dir: PathBuf,
    /// Database
    #[arg(long, short, default_value = "postgres")]
    database: String,
    /// User
    #[arg(long, short = 'U', default_value = "postgres")]
    user: String,
    /// Arguments for psql
    #[arg(last = true)]
    psql: Vec<std::ffi::OsString>,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CAIRN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sql(arguments) => psql::run(&arguments),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            eprintln!("cairn: {message}");
            ExitCode::FAILURE
        }
    }
}
