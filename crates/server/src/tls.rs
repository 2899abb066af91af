//! The server's certificate.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// What the server shows of itself to clients that ask for TLS.
pub struct Identity {
    pub config: Arc<ServerConfig>,
    /// What SCRAM-SHA-256-PLUS is bound to ([`end_point`]).
    pub end_point: Option<Vec<u8>>,
}

/// Reads a PEM certificate chain and its private key. Errors name the file.
pub fn load(certificate: &Path, key: &Path) -> io::Result<Arc<Identity>> {
    let named = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("could not load \"{}\": {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| named(certificate, &error))?;
    let Some(own) = chain.first() else { return Err(named(certificate, &"no certificate in it")) };
    let end_point = end_point(own);
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|error| named(certificate, &error))?;
    Ok(Arc::new(Identity { config: Arc::new(config), end_point }))
}

/// The certificate's hash by the function of its own signature, SHA-256 in place of MD5 and SHA-1: channel binding
/// `tls-server-end-point` (RFC 5929, section 4.1). `None` for a signature that has no such function (Ed25519), and for what is
/// no certificate.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const SEQUENCE: u8 = 0x30;
    let (SEQUENCE, fields, _) = element(certificate)? else { return None };
    let (_, _, behind_the_certificate_itself) = element(fields)?;
    let (SEQUENCE, algorithm, _) = element(behind_the_certificate_itself)? else { return None };
    Some(match signature_hash(algorithm)? {
        Hash::Sha224 => Sha224::digest(certificate).to_vec(),
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

enum Hash {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// The hash function of an AlgorithmIdentifier (its fields: an object identifier, parameters).
fn signature_hash(algorithm: &[u8]) -> Option<Hash> {
    /// 1.2.840.113549.1.1, PKCS #1; 1.2.840.10045.4, ECDSA; 2.16.840.1.101.3.4.2, the SHA-2 family.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    const SHA_2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
    const OBJECT_IDENTIFIER: u8 = 0x06;
    const FIRST_FIELD: u8 = 0xa0;
    let (OBJECT_IDENTIFIER, name, parameters) = element(algorithm)? else { return None };
    if let Some(rsa) = name.strip_prefix(RSA) {
        return match rsa {
            // MD5 and SHA-1.
            [4 | 5] => Some(Hash::Sha256),
            // RSASSA-PSS: the function stands in the parameters, SHA-1 if it does not.
            [10] => {
                let (_, fields, _) = element(parameters)?;
                match element(fields) {
                    Some((FIRST_FIELD, hash, _)) => {
                        let (_, hash, _) = element(hash)?;
                        let (OBJECT_IDENTIFIER, name, _) = element(hash)? else { return None };
                        match name.strip_prefix(SHA_2) {
                            Some([1]) => Some(Hash::Sha256),
                            Some([2]) => Some(Hash::Sha384),
                            Some([3]) => Some(Hash::Sha512),
                            Some([4]) => Some(Hash::Sha224),
                            _ => None,
                        }
                    }
                    _ => Some(Hash::Sha256),
                }
            }
            [11] => Some(Hash::Sha256),
            [12] => Some(Hash::Sha384),
            [13] => Some(Hash::Sha512),
            [14] => Some(Hash::Sha224),
            _ => None,
        };
    }
    match name.strip_prefix(ECDSA)? {
        // SHA-1.
        [1] => Some(Hash::Sha256),
        [3, 1] => Some(Hash::Sha224),
        [3, 2] => Some(Hash::Sha256),
        [3, 3] => Some(Hash::Sha384),
        [3, 4] => Some(Hash::Sha512),
        _ => None,
    }
}

/// The first element of DER: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, short], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        // The length's own length, at most what a message can have.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A certificate with this AlgorithmIdentifier, as far as anybody looks here.
    fn certificate(algorithm: &[u8]) -> Vec<u8> {
        let wrap = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
        wrap(0x30, &[wrap(0x30, b"to be signed"), wrap(0x30, algorithm), wrap(0x03, b"signature")].concat())
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let length = |algorithm: &[u8]| end_point(&certificate(algorithm)).map(|hash| hash.len());
        let rsa = |last: u8| [&[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, last][..], &[5, 0]].concat();
        assert_eq!(length(&rsa(5)), Some(32));
        assert_eq!(length(&rsa(11)), Some(32));
        assert_eq!(length(&rsa(12)), Some(48));
        assert_eq!(length(&rsa(13)), Some(64));
        assert_eq!(length(&[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3]), Some(48));
        // Ed25519.
        assert_eq!(length(&[6, 3, 0x2b, 0x65, 0x70]), None);
        let made = certificate(&rsa(11));
        assert_eq!(end_point(&made), Some(Sha256::digest(&made).to_vec()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = end_point(&bytes);
            let _ = end_point(&certificate(&bytes));
        }
    }
}
