//! From an accepted socket to an authenticated session: TLS, the startup packet, passwords (manual, section 55.2.1).

use std::sync::Arc;
use std::time::Duration;

use cairn_sql::{Credentials, Frontend, Startup, Wake};
use cairn_types::{Error, Result, Severity, err};

use crate::Shared;
use crate::client::{WireClient, connection_lost};
use crate::scram;
use crate::session_client::SessionClient;
use crate::stream::{Incoming, Stream};
use crate::wire::{self, FirstPacket, frontend};

/// How long a client may take to prove who it is, as PostgreSQL's `authentication_timeout`.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that is ready for its first query.
pub struct Started {
    pub client: SessionClient,
    pub session: Box<dyn Frontend>,
}

/// `None`: there is nothing more to do (a cancel request, or a client that left or was refused).
pub fn start(stream: Stream, shared: &Shared, wake: Box<dyn Fn(Wake) + Send + Sync>) -> Option<Started> {
    let mut client = WireClient::new(stream, shared.options.message_size_max);
    if client.stream.set_timeout(Some(AUTHENTICATION_TIMEOUT)).is_err() {
        return None;
    }
    let parameters;
    (client, parameters) = match negotiate(client, shared) {
        Ok(Some(ready)) => ready,
        Ok(None) => return None,
        Err(failed) => {
            let (mut client, error) = *failed;
            refuse(&mut client, error);
            return None;
        }
    };
    match authenticate(&mut client, shared, parameters, wake) {
        Ok(mut session) => {
            client.pay_for(session.defer_debt());
            let client = SessionClient::new(client);
            session.say_notices_through(client.outlet());
            Some(Started { client, session })
        }
        Err(error) => {
            refuse(&mut client, error);
            None
        }
    }
}

fn refuse(client: &mut WireClient, error: Error) {
    tracing::debug!(%error, "connection refused");
    client.output.report(&error.severity(Severity::Fatal));
    // The client may be gone already; then nobody needs the answer.
    if let Err(error) = client.send() {
        tracing::debug!(%error, "could not tell the client why it was refused");
    }
}

type Parameters = Vec<(String, String)>;

/// Up to and with the startup packet.
fn negotiate(
    mut client: WireClient,
    shared: &Shared,
) -> std::result::Result<Option<(WireClient, Parameters)>, Box<(WireClient, Error)>> {
    loop {
        let packet = match client.stream.next_untyped(wire::STARTUP_SIZE_MAX) {
            Ok(Incoming::Message(_)) => wire::startup(client.stream.body()),
            Ok(Incoming::InvalidLength | Incoming::TooLarge { .. }) => {
                Err(err!(PROTOCOL_VIOLATION, "invalid length of startup packet"))
            }
            Ok(Incoming::Closed) | Err(_) => return Ok(None),
            Ok(Incoming::TimedOut | Incoming::Rung) => {
                Err(err!(QUERY_CANCELED, "canceling authentication due to timeout"))
            }
        };
        match packet {
            Ok(FirstPacket::Ssl) => {
                let tls = shared.options.tls.clone().filter(|_| !client.stream.is_encrypted());
                let answer: &[u8] = if tls.is_some() { b"S" } else { b"N" };
                if client.stream.has_buffered() {
                    let error = err!(PROTOCOL_VIOLATION, "received unencrypted data after SSL request")
                        .detail("This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.");
                    return Err(Box::new((client, error)));
                }
                if client.stream.write_all(answer).is_err() {
                    return Ok(None);
                }
                if let Some(tls) = tls {
                    match client.stream.start_tls(Arc::clone(&tls.config)) {
                        Ok(stream) => client = WireClient::new(stream, client.message_size_max),
                        Err(error) => {
                            tracing::info!(%error, "could not accept SSL connection");
                            return Ok(None);
                        }
                    }
                }
            }
            Ok(FirstPacket::GssEncryption) => {
                if client.stream.write_all(b"N").is_err() {
                    return Ok(None);
                }
            }
            Ok(FirstPacket::Cancel { pid, secret }) => {
                shared.backend.cancel(pid, secret);
                return Ok(None);
            }
            Ok(FirstPacket::Startup { minor, parameters }) => {
                let unknown: Vec<String> = parameters
                    .iter()
                    .filter(|(name, _)| name.starts_with("_pq_."))
                    .map(|(name, _)| name.clone())
                    .collect();
                if minor > 0 || !unknown.is_empty() {
                    client.output.negotiate_protocol_version(0, &unknown);
                }
                return Ok(Some((client, parameters)));
            }
            Err(error) => return Err(Box::new((client, error))),
        }
    }
}

fn authenticate(
    client: &mut WireClient,
    shared: &Shared,
    parameters: Parameters,
    wake: Box<dyn Fn(Wake) + Send + Sync>,
) -> Result<Box<dyn Frontend>> {
    let startup = read_parameters(parameters, client)?;
    let local =
        client.stream.socket().peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let failed = || err!(INVALID_PASSWORD, "password authentication failed for user \"{}\"", startup.user);
    let verifier = match shared.backend.credentials(&startup.user, local)? {
        Credentials::Trusted => None,
        Credentials::Password(text) => Some(scram::Verifier::parse(&text).ok_or_else(failed)?),
        Credentials::Refused { salt } => Some(scram::Verifier::mock(&salt)),
    };
    if let Some(verifier) = verifier {
        let tls = shared.options.tls.as_ref().filter(|_| client.stream.is_encrypted());
        let end_point = tls.and_then(|tls| tls.end_point.as_deref());
        if !check_password(client, verifier, end_point)? {
            return Err(failed());
        }
    }
    client.output.authentication_ok();
    let session = shared.backend.open(startup, wake)?;
    for (name, value) in session.initial_parameters() {
        client.output.parameter_status(&name, &value);
    }
    client.output.backend_key_data(session.pid(), session.secret());
    client.output.ready_for_query(b'I');
    client.send().and_then(|()| client.stream.set_timeout(None)).map_err(|error| connection_lost(&error))?;
    Ok(session)
}

fn read_parameters(parameters: Parameters, client: &WireClient) -> Result<Startup> {
    let mut startup = Startup {
        client_address: client.stream.socket().peer_addr().ok(),
        tls: client.stream.tls(),
        ..Startup::default()
    };
    for (name, value) in parameters {
        match name.as_str() {
            "user" => startup.user = value,
            "database" => startup.database = value,
            "options" => startup.settings.extend(command_line_settings(&value)?),
            "replication" => {
                if !matches!(value.as_str(), "off" | "false" | "no" | "0") {
                    return Err(Error::unsupported("replication connections are"));
                }
            }
            _ if name.starts_with("_pq_.") => {}
            _ => startup.settings.push((name, value)),
        }
    }
    if startup.user.is_empty() {
        return Err(err!(
            INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet"
        ));
    }
    if startup.database.is_empty() {
        startup.database = startup.user.clone();
    }
    Ok(startup)
}

/// `-c name=value`, `-cname=value` and `--name=value` of the `options` parameter; a backslash keeps a blank.
fn command_line_settings(options: &str) -> Result<Vec<(String, String)>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        if character.is_ascii_whitespace() {
            words.extend(word.take());
        } else {
            let literal = if character == '\\' { characters.next() } else { Some(character) };
            word.get_or_insert_default().extend(literal);
        }
    }
    words.extend(word);
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(rest) => rest.to_owned(),
            None => {
                return Err(err!(SYNTAX_ERROR, "invalid command-line argument for server process: {word}"));
            }
        };
        let (name, value) = assignment
            .split_once('=')
            .ok_or_else(|| err!(SYNTAX_ERROR, "-c {assignment} requires a value"))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// The exchange of SCRAM; whether the client knows the password. `end_point`: what a client may bind it to, on an encrypted
/// connection.
fn check_password(
    client: &mut WireClient,
    verifier: scram::Verifier,
    end_point: Option<&[u8]>,
) -> Result<bool> {
    match end_point {
        Some(_) => client.output.authentication_sasl(&[scram::MECHANISM_PLUS, scram::MECHANISM]),
        None => client.output.authentication_sasl(&[scram::MECHANISM]),
    }
    let body = ask(client)?;
    let mut reader = wire::Reader::new(&body);
    let binding = match (reader.string()?, end_point) {
        (scram::MECHANISM_PLUS, Some(end_point)) => scram::Binding::Chosen(end_point.to_vec()),
        (scram::MECHANISM, Some(_)) => scram::Binding::Offered,
        (scram::MECHANISM, None) => scram::Binding::Impossible,
        _ => {
            return Err(err!(PROTOCOL_VIOLATION, "client selected an invalid SASL authentication mechanism"));
        }
    };
    let first = reader.value()?.unwrap_or_default();
    let (exchange, answer) = scram::Exchange::first(verifier, binding, wire::utf8(first)?)?;
    client.output.authentication_sasl_continue(&answer);
    let body = ask(client)?;
    let Some(proof) = exchange.last(wire::utf8(&body)?)? else { return Ok(false) };
    client.output.authentication_sasl_final(&proof);
    Ok(true)
}

/// Sends what is in the buffer and waits for the client's password message.
fn ask(client: &mut WireClient) -> Result<Vec<u8>> {
    let lost = |error| connection_lost(&error);
    client.send().map_err(lost)?;
    match client.stream.next(wire::STARTUP_SIZE_MAX).map_err(lost)? {
        Incoming::Message(frontend::PASSWORD) => Ok(client.stream.body().to_vec()),
        Incoming::Message(kind) => {
            Err(err!(PROTOCOL_VIOLATION, "expected SASL response, got message type {kind}"))
        }
        Incoming::TimedOut | Incoming::Rung => {
            Err(err!(QUERY_CANCELED, "canceling authentication due to timeout"))
        }
        Incoming::InvalidLength | Incoming::TooLarge { .. } => {
            Err(err!(PROTOCOL_VIOLATION, "invalid message length"))
        }
        // psql asks its user for the password and comes back.
        Incoming::Closed => Err(err!(CONNECTION_FAILURE, "client left during authentication")),
    }
}

#[cfg(test)]
mod tests {
    use super::command_line_settings;

    #[test]
    fn options_parameter() {
        let settings =
            command_line_settings("-c search_path=a\\ b --work-mem=4MB -cgeqo=off").expect("valid");
        let expected = [("search_path", "a b"), ("work_mem", "4MB"), ("geqo", "off")];
        assert_eq!(settings, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(command_line_settings("-x").is_err());
        assert!(command_line_settings("-c nothing").is_err());
    }
}
