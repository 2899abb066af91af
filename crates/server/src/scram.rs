//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side.
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
}

impl Verifier {
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
        })
    }
}

/// One exchange: [`Exchange::first`], then [`Exchange::last`].
pub struct Exchange {
    verifier: Verifier,
    gs2_header: String,
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
    pub fn first(verifier: Verifier, message: &str) -> Result<(Self, String)> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|error| err!(INTERNAL_ERROR, "could not generate random nonce: {error}"))?;
        Self::first_with_nonce(verifier, message, &BASE64.encode(nonce))
    }

    fn first_with_nonce(verifier: Verifier, message: &str, server_nonce: &str) -> Result<(Self, String)> {
        let mut parts = message.splitn(3, ',');
        let flag = parts.next().unwrap_or_default();
        let authorization = parts.next().ok_or_else(|| malformed("The message is too short."))?;
        let bare = parts.next().ok_or_else(|| malformed("The message is too short."))?;
        match flag {
            // `y`: the client could do channel binding and believes that we cannot, which is so.
            "n" | "y" => {}
            _ if flag.starts_with("p=") => {
                return Err(malformed(
                    "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.",
                ));
            }
            _ => return Err(malformed("Unexpected channel-binding flag.")),
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
            gs2_header: format!("{flag},,"),
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
        if binding != BASE64.encode(&self.gs2_header) {
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
        if difference != 0 {
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
        };
        let (exchange, answer) = Exchange::first_with_nonce(
            verifier,
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

    #[test]
    fn verifiers() {
        let text = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert!(Verifier::parse(text).is_some());
        assert!(Verifier::parse("md5abc").is_none());
        assert!(Verifier::parse("SCRAM-SHA-256$0:AA==$AA==:AA==").is_none());
    }
}
