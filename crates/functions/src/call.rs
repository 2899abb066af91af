//! What a body knows of the call that it serves.

use cairn_types::{CallInfo, Env};

/// One call's surroundings. The executor builds it on the stack for each evaluation: it is a few words.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The session: settings, clocks, catalog.
    pub env: &'a dyn Env,
    /// Actual types and collation, fixed when the query was planned.
    pub info: CallInfo<'a>,
}
