//! The end of a session's temporary objects.

use cairn_types::Result;

use crate::core::Core;

/// DISCARD TEMP.
pub fn discard(core: &Core) -> Result<()> {
    if core.temporary_namespace().is_none() {
        return Ok(());
    }
    crate::definition::drop_temporary_objects(core)
}

/// The session ends: what it kept for itself goes. Failing is no reason to keep the session.
pub fn drop_all(core: &Core) {
    if core.temporary_namespace().is_none() {
        return;
    }
    core.start_implicit();
    let dropped = discard(core).and_then(|()| core.finish_implicit());
    if let Err(error) = dropped {
        tracing::warn!(%error, "could not drop a session's temporary objects");
        core.rollback_everything();
    }
}
