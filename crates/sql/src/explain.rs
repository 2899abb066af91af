//! EXPLAIN: which statement, which options; the plan is shown by the executor.

use std::sync::Arc;

use cairn_analyze::query::{Explain, ExplainFormat, ExplainOptions};
use cairn_types::{Error, Result, types};

use crate::client::ResultColumn;
use crate::statement::plain_column;
use crate::utility::{Invocation, Outcome};

pub fn columns(options: &ExplainOptions) -> Arc<[ResultColumn]> {
    let ty = match options.format {
        ExplainFormat::Json => types::JSON,
        ExplainFormat::Xml => types::XML,
        ExplainFormat::Text | ExplainFormat::Yaml => types::TEXT,
    };
    Arc::from([plain_column("QUERY PLAN", ty)])
}

pub fn run(_invocation: &Invocation<'_>, _explain: &Explain) -> Result<Outcome> {
    Err(Error::unsupported("EXPLAIN is"))
}

/// The text of an expression inside a plan.
pub(crate) fn expression_text(
    _source: &crate::statement::CatalogExpressions<'_>,
    _expr: &cairn_analyze::query::Expr,
    _queries: &[&cairn_analyze::query::Query],
    _qualify: bool,
) -> String {
    String::new()
}
