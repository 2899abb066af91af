//! Values as they go to and come from clients: text and binary.

use cairn_types::{Datum, Env, Oid, Result, io};

/// Appends a value's text; `scratch` is memory to be used again. Nulls are the caller's.
pub fn write_text(
    env: &dyn Env,
    ty: Oid,
    value: &Datum,
    scratch: &mut String,
    out: &mut Vec<u8>,
) -> Result<()> {
    // The commonest need neither type nor settings.
    match value {
        Datum::Text(text) if !matches!(ty, cairn_types::types::VOID | cairn_types::types::ACLITEM) => {
            out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        _ => {}
    }
    scratch.clear();
    io::output(value, ty, env, scratch)?;
    out.extend_from_slice(scratch.as_bytes());
    Ok(())
}

/// Appends a value's binary form.
pub fn write_binary(env: &dyn Env, ty: Oid, value: &Datum, out: &mut Vec<u8>) -> Result<()> {
    io::send(value, ty, env, out)
}
