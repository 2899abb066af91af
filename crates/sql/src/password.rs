//! Passwords: what is stored of them.

use cairn_types::{Error, Result};

/// The verifier of a password, as PostgreSQL makes it (4096 iterations, salt of 16 bytes).
pub fn scram_verifier(password: &str) -> Result<String> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt)
        .map_err(|error| Error::internal(format!("could not generate random salt: {error}")))?;
    Ok(scram_verifier_with_salt(password, &salt))
}

/// The salt that is shown for a user that has no verifier: always the same for a name, and unknown to those who do not know
/// the server's secret.
pub fn mock_salt(secret: &[u8], user: &str) -> [u8; 16] {
    use hmac::{Hmac, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(user.as_bytes());
    let mut salt = [0; 16];
    salt.copy_from_slice(&mac.finalize().into_bytes()[..16]);
    salt
}

fn scram_verifier_with_salt(password: &str, salt: &[u8]) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use hmac::{Hmac, Mac};
    use sha2::{Digest, Sha256};
    const ITERATIONS: u32 = 4096;
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, ITERATIONS);
    let keyed = |message: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&salted).expect("HMAC takes keys of any length");
        mac.update(message);
        mac.finalize().into_bytes()
    };
    let stored_key = Sha256::digest(keyed(b"Client Key"));
    let server_key = keyed(b"Server Key");
    let (salt, stored_key, server_key) =
        (BASE64.encode(salt), BASE64.encode(stored_key), BASE64.encode(server_key));
    format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored_key}:{server_key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mock_salt_is_a_names_own() {
        assert_eq!(mock_salt(b"secret", "a"), mock_salt(b"secret", "a"));
        assert_ne!(mock_salt(b"secret", "a"), mock_salt(b"secret", "b"));
        assert_ne!(mock_salt(b"secret", "a"), mock_salt(b"other", "a"));
    }

    #[test]
    fn verifier_of_rfc_7677() {
        let salt =
            [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];
        assert_eq!(
            scram_verifier_with_salt("pencil", &salt),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }
}
