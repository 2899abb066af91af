//! Data definition: hands statements to `ddl`.

use cairn_analyze::query::Statement;
use cairn_types::{Error, Result};

use crate::core::Core;
use crate::utility::{Invocation, Outcome};

pub fn run(_invocation: &Invocation<'_>, _statement: &Statement) -> Result<Outcome> {
    Err(Error::unsupported("data definition is"))
}

pub fn drop_temporary_objects(_core: &Core) -> Result<()> {
    Ok(())
}
