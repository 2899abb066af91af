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

/// The first session in a database looks for what a killed server has left.
pub fn drop_orphans(core: &Core) {
    if core.database.cleaned.swap(true, std::sync::atomic::Ordering::AcqRel) {
        return;
    }
    if let Err(error) = crate::definition::drop_orphans(core) {
        tracing::warn!(%error, "could not drop temporary objects of an earlier run");
        core.rollback_everything();
    }
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
