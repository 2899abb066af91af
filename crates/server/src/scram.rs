//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, on encrypted connections also bound to their certificate
//! (SCRAM-SHA-256-PLUS, tls-server-end-point).
//!
//! A password is never stored: what is kept is the verifier in PostgreSQL's format,
//! `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>` (base64), so that one made by either serves both.
//! A client's first and final message are checked here; [`crate::startup`] carries them over the wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use cairn_types::{Result, err};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

pub const MECHANISM: &str = "SCRAM-SHA-256";
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
const BINDING_TYPE: &str = "tls-server-end-point";
/// As [`cairn_sql::password`] makes verifiers.
const ITERATIONS: u32 = 4096;
const NONCE_BYTES: usize = 18;

type Key = [u8; 32];

fn hmac(key: &[u8], message: &[u8]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// A parsed verifier.
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
    /// Nobody knows its password.
    mock: bool,
}

impl Verifier {
    /// For a user that cannot prove anything: the exchange goes as for others, up to its end.
    pub fn mock(salt: &[u8]) -> Self {
        let (stored_key, server_key) = ([0; 32], [0; 32]);
        Verifier { iterations: ITERATIONS, salt: salt.to_vec(), stored_key, server_key, mock: true }
    }

    /// `None` for a text that is no verifier.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('$');
        if parts.next()? != MECHANISM {
            return None;
        }
        let (iterations, salt) = parts.next()?.split_once(':')?;
        let (stored_key, server_key) = parts.next()?.split_once(':')?;
        let key = |text: &str| -> Option<Key> { BASE64.decode(text).ok()?.try_into().ok() };
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|&count| count > 0)?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
            mock: false,
        })
    }
}

/// Whether the exchange is bound to the connection that it runs over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The connection is not encrypted, or its certificate gives nothing to bind to.
    Impossible,
    /// It could be, and the client chose [`MECHANISM`].
    Offered,
    /// The client chose [`MECHANISM_PLUS`]; what both ends must see of the server's certificate.
    Chosen(Vec<u8>),
}

/// One exchange: [`Exchange::first`], then [`Exchange::last`].
pub struct Exchange {
    verifier: Verifier,
    /// What the final message must repeat: the GS2 header, and what the exchange is bound to.
    bound: Vec<u8>,
    is_bound: bool,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

fn malformed(detail: &str) -> cairn_types::Error {
    err!(PROTOCOL_VIOLATION, "malformed SCRAM message").detail(detail)
}

/// The value of attribute `name` in a message's part.
fn attribute(part: Option<&str>, name: char) -> Result<&str> {
    part.and_then(|part| part.strip_prefix(name))
        .and_then(|part| part.strip_prefix('='))
        .ok_or_else(|| malformed(&format!("Expected attribute \"{name}\".")))
}

impl Exchange {
    /// Takes the client's first message; the answer is in the second value.
    pub fn first(verifier: Verifier, binding: Binding, message: &str) -> Result<(Self, String)> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|error| err!(INTERNAL_ERROR, "could not generate random nonce: {error}"))?;
        Self::first_with_nonce(verifier, binding, message, &BASE64.encode(nonce))
    }

    fn first_with_nonce(
        verifier: Verifier,
        binding: Binding,
        message: &str,
        server_nonce: &str,
    ) -> Result<(Self, String)> {
        let mut parts = message.splitn(3, ',');
        let flag = parts.next().unwrap_or_default();
        let authorization = parts.next().ok_or_else(|| malformed("The message is too short."))?;
        let bare = parts.next().ok_or_else(|| malformed("The message is too short."))?;
        match (flag, &binding) {
            ("n" | "y", Binding::Chosen(_)) => {
                return Err(malformed(
                    "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.",
                ));
            }
            // It has not seen our offer: somebody between us may have taken it out.
            ("y", Binding::Offered) => {
                return Err(err!(
                    INVALID_AUTHORIZATION_SPECIFICATION,
                    "SCRAM channel binding negotiation error"
                )
                .detail(
                    "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding.",
                ));
            }
            ("n" | "y", _) => {}
            _ => {
                let kind =
                    flag.strip_prefix("p=").ok_or_else(|| malformed("Unexpected channel-binding flag."))?;
                if !matches!(binding, Binding::Chosen(_)) {
                    return Err(malformed(
                        "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.",
                    ));
                }
                if kind != BINDING_TYPE {
                    return Err(err!(
                        PROTOCOL_VIOLATION,
                        "unsupported SCRAM channel-binding type \"{kind}\""
                    ));
                }
            }
        }
        let mut bound = format!("{flag},,").into_bytes();
        let is_bound = matches!(binding, Binding::Chosen(_));
        if let Binding::Chosen(end_point) = binding {
            bound.extend(end_point);
        }
        if !authorization.is_empty() {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "client uses authorization identity, but it is not supported"
            ));
        }
        if bare.starts_with("m=") {
            return Err(err!(FEATURE_NOT_SUPPORTED, "client requires an unsupported SCRAM extension"));
        }
        let mut attributes = bare.split(',');
        // The user name was in the startup packet; what stands here is ignored, as PostgreSQL does.
        attribute(attributes.next(), 'n')?;
        let client_nonce = attribute(attributes.next(), 'r')?;
        if client_nonce.is_empty() || !client_nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed("Non-printable characters in SCRAM nonce."));
        }
        let nonce = format!("{client_nonce}{server_nonce}");
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let exchange = Exchange {
            verifier,
            bound,
            is_bound,
            client_first_bare: bare.to_owned(),
            server_first: server_first.clone(),
            nonce,
        };
        Ok((exchange, server_first))
    }

    /// Takes the client's final message; `Ok(None)` for a wrong password, else the server's proof.
    pub fn last(&self, message: &str) -> Result<Option<String>> {
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or_else(|| malformed("Expected attribute \"p\"."))?;
        let mut attributes = without_proof.split(',');
        let binding = attribute(attributes.next(), 'c')?;
        if binding != BASE64.encode(&self.bound) {
            if self.is_bound {
                return Err(err!(INVALID_AUTHORIZATION_SPECIFICATION, "SCRAM channel binding check failed"));
            }
            return Err(err!(
                PROTOCOL_VIOLATION,
                "unexpected SCRAM channel-binding attribute in client-final-message"
            ));
        }
        if attribute(attributes.next(), 'r')? != self.nonce {
            return Err(err!(PROTOCOL_VIOLATION, "invalid SCRAM response").detail("Nonce does not match."));
        }
        let proof: Key = BASE64
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or_else(|| malformed("Malformed proof in client-final-message."))?;
        let signed = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = hmac(&self.verifier.stored_key, signed.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        let claimed: Key = Sha256::digest(client_key).into();
        // Every byte is looked at, so that the time taken tells nothing.
        let difference = claimed.iter().zip(&self.verifier.stored_key).fold(0, |sum, (a, b)| sum | (a ^ b));
        if difference != 0 || self.verifier.mock {
            return Ok(None);
        }
        Ok(Some(format!("v={}", BASE64.encode(hmac(&self.verifier.server_key, signed.as_bytes())))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange that RFC 7677 prints (user "user", password "pencil").
    #[test]
    fn rfc_7677() {
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(
            b"pencil",
            &BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64"),
            4096,
        );
        let verifier = Verifier {
            iterations: 4096,
            salt: BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64"),
            stored_key: Sha256::digest(hmac(&salted, b"Client Key")).into(),
            server_key: hmac(&salted, b"Server Key"),
            mock: false,
        };
        let (exchange, answer) = Exchange::first_with_nonce(
            verifier,
            Binding::Impossible,
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .expect("first");
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let proof = exchange.last(last).expect("well-formed").expect("right password");
        assert_eq!(proof, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let wrong = last.replace("p=dHz", "p=dHy");
        assert!(exchange.last(&wrong).expect("well-formed").is_none());
        assert!(exchange.last("c=biws,r=other,p=AAAA").is_err());
    }

    /// Whether the exchange begins so, with what SQLSTATE not.
    fn begins(binding: Binding, message: &str) -> std::result::Result<(), String> {
        let begun = Exchange::first(Verifier::mock(&[7; 16]), binding, message);
        begun.map(|_| ()).map_err(|error| error.sqlstate().to_string())
    }

    #[test]
    fn binding_to_the_connection() {
        let chosen = || Binding::Chosen(vec![1, 2, 3]);
        let bound = "p=tls-server-end-point,,n=,r=abc";
        assert_eq!(begins(chosen(), bound), Ok(()));
        assert_eq!(begins(Binding::Offered, "n,,n=,r=abc"), Ok(()));
        assert_eq!(begins(Binding::Impossible, "y,,n=,r=abc"), Ok(()));
        let refused = |state: &str| Err(state.to_owned());
        assert_eq!(begins(chosen(), "n,,n=,r=abc"), refused("08P01"));
        assert_eq!(begins(chosen(), "p=tls-unique,,n=,r=abc"), refused("08P01"));
        assert_eq!(begins(Binding::Offered, bound), refused("08P01"));
        // Somebody between the two has taken the offer out.
        assert_eq!(begins(Binding::Offered, "y,,n=,r=abc"), refused("28000"));
        // The client sees another certificate.
        let verifier = Verifier::mock(&[7; 16]);
        let (exchange, _) = Exchange::first_with_nonce(verifier, chosen(), bound, "def").expect("begins");
        let last = |bound: &[u8]| {
            exchange.last(&format!("c={},r=abcdef,p={}", BASE64.encode(bound), BASE64.encode([0; 32])))
        };
        let error = last(b"p=tls-server-end-point,,\x01\x02\x04").expect_err("another end point");
        assert_eq!(error.message(), "SCRAM channel binding check failed");
        assert_eq!(last(b"p=tls-server-end-point,,\x01\x02\x03").expect("goes on"), None);
    }

    #[test]
    fn verifiers() {
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert!(Verifier::parse(text).is_some());
        assert!(Verifier::parse("md5abc").is_none());
        assert!(Verifier::parse("SCRAM-SHA-256$0:AA==$AA==:AA==").is_none());
    }
}
