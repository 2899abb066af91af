//! `cairn sql`: psql against the running server, or against the data directory itself.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitCode};
use std::time::Duration;

use cairn_server::Options;

use crate::SqlArguments;
use crate::serve::Serving;

/// Whether somebody listens there.
fn is_running(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
}

pub fn run(arguments: &SqlArguments) -> Result<ExitCode, String> {
    if is_running(arguments.listen) {
        return psql(arguments, arguments.listen);
    }
    eprintln!("no server on {}: serving {} while psql runs", arguments.listen, arguments.data_dir.display());
    let options = Options::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (engine, resources) = (cairn::EngineOptions::default(), cairn::Resources::for_this_machine());
    let serving = Serving::start(options, &arguments.data_dir, engine, resources, &[])?;
    // Ctrl-C is psql's to handle; it must not end the server under it.
    let ignored = signal_hook::flag::register(signal_hook::consts::SIGINT, Default::default())
        .map_err(|error| format!("could not watch for signals: {error}"))?;
    let result = psql(arguments, serving.address());
    signal_hook::low_level::unregister(ignored);
    serving.stop();
    result
}

fn psql(arguments: &SqlArguments, address: SocketAddr) -> Result<ExitCode, String> {
    let status = Command::new("psql")
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
        .args(["-U", &arguments.user, "-d", &arguments.database])
        .args(&arguments.psql)
        .status();
    match status {
        Ok(status) => Ok(status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err("psql is not installed. It comes with PostgreSQL's client programs:\n  \
             apt install postgresql-client | dnf install postgresql | brew install libpq"
                .to_owned())
        }
        Err(error) => Err(format!("could not start psql: {error}")),
    }
}
