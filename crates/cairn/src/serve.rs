//! `cairn serve`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cairn::{Database, EngineOptions, Recovery, Resources};
use cairn_server::{Options, Server};
use cairn_sql::{Automatic, InstanceBackend};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::ServeArguments;

/// How long sessions may take to end when the server stops.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server with the data that it serves.
pub struct Serving {
    server: Server,
    // Ends before the directory is closed.
    _automatic: Automatic,
    // Dropped after the server's sessions have gone: closes the directory.
    _database: Database,
}

impl Serving {
    /// `settings`: what the server's settings are where they are not the usual ones.
    pub fn start(
        options: Options,
        directory: &Path,
        engine: EngineOptions,
        resources: Resources,
        settings: &[(&'static str, String)],
    ) -> Result<Self, String> {
        let database =
            Database::open_with(directory, engine, resources).map_err(|error| describe(directory, &error))?;
        let instance = database.instance();
        for (name, value) in settings {
            instance.set_fact(name, value.clone());
        }
        instance.set_fact("max_connections", options.connections_max.to_string());
        instance.set_fact("ssl", if options.tls.is_some() { "on" } else { "off" });
        instance.set_fact("listen_addresses", options.listen.ip().to_string());
        let backend = Arc::new(InstanceBackend(Arc::clone(database.instance())));
        let listen = options.listen;
        let server = Server::start(options, backend).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("could not listen on {listen}: the address is in use; is another server running?")
            }
            _ => format!("could not listen on {listen}: {error}"),
        })?;
        database.instance().set_fact("port", server.address().port().to_string());
        let automatic = Automatic::start(database.instance())
            .map_err(|error| format!("could not start the thread that analyzes tables: {error}"))?;
        Ok(Serving { server, _automatic: automatic, _database: database })
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Ends all sessions and closes the directory.
    pub fn stop(self) {
        if !self.server.stop(PATIENCE) {
            tracing::warn!("some sessions did not end in time; what they had not committed is lost");
        }
    }
}

/// The error of opening a data directory, with what to do about it.
fn describe(directory: &Path, error: &cairn::Error) -> String {
    let report = error.report();
    let mut text = format!("could not open \"{}\": {}", directory.display(), report.message);
    for line in [&report.detail, &report.hint].into_iter().flatten() {
        text.push_str("\n  ");
        text.push_str(line);
    }
    text
}

pub fn run(arguments: &ServeArguments) -> Result<ExitCode, String> {
    let mut options = Options::new(arguments.listen);
    options.connections_max = arguments.max_connections;
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        options.tls = Some(cairn_server::tls::load(certificate, key).map_err(|error| error.to_string())?);
    }
    // Before the directory is opened, so that Ctrl-C at any time ends in order.
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("could not watch for signals: {error}"))?;
    let retention = cairn::retention(&arguments.retention)
        .map_err(|error| format!("--retention: {}", error.report().message))?;
    let resources = match &arguments.shared_buffers {
        Some(size) => Resources::with_cache(
            cairn::shared_buffers(size)
                .map_err(|error| format!("--shared-buffers: {}", error.report().message))?,
        ),
        None => Resources::for_this_machine(),
    };
    let recovery = Recovery {
        adopt_databases: arguments.adopt_databases,
        truncate_damaged_log: arguments.truncate_damaged_log,
    };
    let mut engine = EngineOptions { retention, recovery, ..EngineOptions::default() };
    if let Some(bytes) = arguments.memtable_bytes {
        engine.memtable_bytes = bytes;
        engine.file_bytes = bytes as u64;
    }
    let settings = [
        ("autovacuum", arguments.autovacuum.clone()),
        ("autovacuum_naptime", arguments.autovacuum_naptime.to_string()),
    ];
    let serving = Serving::start(options, &arguments.data_dir, engine, resources, &settings)?;
    announce(serving.address(), arguments).map_err(|error| format!("could not write to stdout: {error}"))?;
    if let Some(signal) = signals.forever().next() {
        tracing::info!(signal, "stopping");
    }
    serving.stop();
    Ok(ExitCode::SUCCESS)
}

fn announce(address: SocketAddr, arguments: &ServeArguments) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if arguments.json {
        let directory = arguments.data_dir.display().to_string();
        let line = serde_json::json!({ "host": address.ip(), "port": address.port(), "data_dir": directory });
        writeln!(stdout, "{line}")?;
    } else {
        let host =
            if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() };
        writeln!(stdout, "Cairn {} serves {}", env!("CARGO_PKG_VERSION"), arguments.data_dir.display())?;
        writeln!(stdout, "connect with: psql -h {host} -p {} -U postgres", address.port())?;
        writeln!(stdout, "          or: postgresql://postgres@{host}:{}/postgres", address.port())?;
        writeln!(stdout, "stop with Ctrl-C")?;
    }
    stdout.flush()
}
