//! uuid: making random ones. Comparison is in [`crate::compare`].

use cairn_types::{Datum, Error};

use crate::ScalarFn;

pub const BODIES: &[(&str, ScalarFn)] = &[("gen_random_uuid", |_, _| {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|_| Error::internal("could not generate random values"))?;
    // Version 4, variant of RFC 4122.
    bytes[6] = (bytes[6] & 0x0F) | 0x40;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    Ok(Datum::Uuid(bytes))
})];
