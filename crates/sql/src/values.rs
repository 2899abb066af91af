//! Values as they go to and come from clients: text and binary.

use cairn_types::{Datum, Env, Error, Oid, Result};

pub fn write_text(_env: &dyn Env, _ty: Oid, value: &Datum, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        Datum::Int4(value) => out.extend_from_slice(value.to_string().as_bytes()),
        _ => return Err(Error::unsupported("this type's text form is")),
    }
    Ok(())
}

pub fn write_binary(_env: &dyn Env, _ty: Oid, value: &Datum, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        Datum::Int4(value) => out.extend_from_slice(&value.to_be_bytes()),
        _ => return Err(Error::unsupported("this type's binary form is")),
    }
    Ok(())
}
