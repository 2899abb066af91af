//! EXPLAIN: which statement, which options; the plan is shown by the executor.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cairn_analyze::deparse::{DeparseContext, Form, deparse_in_queries};
use cairn_analyze::query::{Explain, ExplainFormat, ExplainOptions, Expr, Query, Statement};
use cairn_exec::{Plan, PlanContext};
use cairn_types::{Datum, Error, Result, err, types};
use pg_query::protobuf::node::Node as NodeEnum;

use crate::client::ResultColumn;
use crate::core::Core;
use crate::statement::{CatalogExpressions, plain_column};
use crate::utility::{Invocation, Outcome};

pub fn columns(options: &ExplainOptions) -> Arc<[ResultColumn]> {
    let ty = match options.format {
        ExplainFormat::Json => types::JSON,
        ExplainFormat::Xml => types::XML,
        ExplainFormat::Text | ExplainFormat::Yaml => types::TEXT,
    };
    Arc::from([plain_column("QUERY PLAN", ty)])
}

pub fn run(invocation: &Invocation<'_>, explain: &Explain) -> Result<Outcome> {
    let core = invocation.core;
    let options = &explain.options;
    let lines = match &explain.statement {
        Statement::Query(query) => show_query(core, query, options, Arc::clone(&invocation.params))?,
        Statement::DeclareCursor { query, .. } => {
            show_query(core, query, options, Arc::clone(&invocation.params))?
        }
        Statement::CreateTableAs { query, .. } => {
            if options.analyze {
                return Err(Error::unsupported("EXPLAIN ANALYZE of CREATE TABLE AS is"));
            }
            show_query(core, query, options, Arc::clone(&invocation.params))?
        }
        Statement::Utility(node) => match &**node {
            NodeEnum::ExecuteStmt(statement) => {
                let (prepared, params) = crate::utility::executed(invocation, statement)?;
                let raw =
                    prepared.raw()?.ok_or_else(|| err!(SYNTAX_ERROR, "the prepared statement is empty"))?;
                let types: Vec<_> =
                    prepared.parameter_types.iter().map(|ty| core.type_ref(*ty, -1)).collect();
                let statement = core.with_analyzer(cairn_analyze::Parameters::Fixed(&types), |context| {
                    cairn_analyze::analyze(&raw, context)
                })?;
                let Statement::Query(query) = statement else {
                    return Err(Error::unsupported("EXPLAIN EXECUTE of a utility statement is"));
                };
                show_query(core, &query, options, params)?
            }
            _ => utility_lines(options),
        },
        Statement::Explain(_) | Statement::Call(_) => utility_lines(options),
    };
    let value = |line: String| vec![Datum::text(line)];
    Ok(Outcome {
        tag: "EXPLAIN".into(),
        columns: Some(columns(options)),
        rows: lines.into_iter().map(value).collect(),
    })
}

/// What PostgreSQL says of statements that have no plan.
fn utility_lines(options: &ExplainOptions) -> Vec<String> {
    match options.format {
        ExplainFormat::Text => vec!["Utility statements have no plan structure".to_owned()],
        ExplainFormat::Json => vec!["[\n  \"Utility Statement\"\n]".to_owned()],
        ExplainFormat::Yaml => vec!["- \"Utility Statement\"".to_owned()],
        ExplainFormat::Xml => vec![
            "<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Utility-Statement/>\n</explain>"
                .to_owned(),
        ],
    }
}

fn show_query(
    core: &Rc<Core>,
    query: &Query,
    options: &ExplainOptions,
    params: Arc<[Datum]>,
) -> Result<Vec<String>> {
    let transaction = core.ensure_transaction()?;
    // Again, if the catalog changed while we waited for the tables.
    let (plan, planning) = loop {
        let catalog = core.catalog()?;
        let begin = Instant::now();
        let plan: Arc<Plan> = {
            let expressions = CatalogExpressions { core, catalog: &catalog };
            let context = PlanContext {
                explain: true,
                verbose: options.verbose,
                values: &params,
                read_time: crate::statement::read_time(core, Some(&*transaction)),
                ..expressions.plan_context()
            };
            let by_value = crate::statement::query_for(core, &catalog, query, &params)?;
            Arc::new(cairn_exec::plan(by_value.as_ref().unwrap_or(query), &context)?)
        };
        let planning = begin.elapsed();
        if options.analyze {
            core.check_plan_writes(&plan)?;
        }
        core.lock_relations(&plan, &transaction)?;
        if core.catalog()?.version() == catalog.version() {
            break (plan, planning);
        }
    };
    let snapshot = core.push_snapshot(&transaction)?;
    let _in_use = core.uses(&plan);
    let lines = core.with_exec(|cx| {
        let planning = options.summary.then_some(planning);
        cairn_exec::explain::explain(&plan, options, planning, snapshot, params, cx)
    });
    core.pop_snapshot();
    let lines = lines?;
    if options.analyze && plan.modifies {
        transaction.advance_command();
    }
    core.settle(&plan);
    Ok(lines)
}

/// The text of an expression inside a plan.
pub(crate) fn expression_text(
    source: &CatalogExpressions<'_>,
    expr: &Expr,
    queries: &[&Query],
    qualify: bool,
) -> String {
    let Ok(path) = source.core.search_path() else { return String::new() };
    let context = DeparseContext {
        catalog: source.catalog,
        path: &path,
        env: source.core,
        form: Form::Display { pretty: false },
    };
    deparse_in_queries(expr, queries, qualify, &context)
}
