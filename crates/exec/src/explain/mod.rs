//! EXPLAIN: the plan as PostgreSQL prints it, in its text and structured formats, and the storage's counters (`dist`, `debug`).

mod structured;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_analyze::query::{ExplainFormat, ExplainOptions};
use cairn_txn::{ReadCounters, Snapshot};
use cairn_types::{Datum, Result};

use crate::context::ExecContext;
use crate::execution::{Execution, Watch};
use crate::instrument::{Instrument, NodeCounters};
use crate::node::PlanTree;
use crate::plan::Plan;

/// What a node tells of itself. Keys are those of PostgreSQL's JSON format.
#[derive(Debug, Default)]
pub struct Properties {
    /// `Node Type`, for example `Index Scan`.
    pub node_type: String,
    /// What the text format adds to the first line after the type: ` using t_pkey on t`.
    pub target: String,
    /// Further lines, in order.
    pub lines: Vec<(String, Value)>,
    /// `Rows Removed by Filter` is of interest.
    pub filtered: bool,
    /// `Rows Removed by Join Filter` is of interest.
    pub join_filtered: bool,
    /// What the text format prints instead of `node_type`.
    pub text_type: Option<String>,
    /// The node is none of PostgreSQL's: its child is shown in its place.
    pub transparent: bool,
    pub sort_method: Option<&'static str>,
}

/// A property's value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Printed as it is.
    Text(String),
    Number(f64),
    Integer(i64),
    Bool(bool),
    List(Vec<String>),
    /// Only in the structured formats (`Relation Name`, `Join Type`).
    Hidden(String),
}

impl Properties {
    pub fn line(&mut self, name: &str, value: Value) {
        self.lines.push((name.to_owned(), value));
    }

    /// A condition; nothing if its text was not kept or is empty.
    pub fn condition(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.line(name, Value::Text(text.to_owned()));
        }
    }
}

/// One node as it will be shown: nodes that PostgreSQL does not have are left out, subqueries and WITH queries are children.
struct Shown<'p> {
    tree: &'p PlanTree,
    properties: Properties,
    /// `Outer`, `Inner`, `InitPlan`, `SubPlan`, `Member`, `Subquery`; empty for the topmost.
    relationship: &'static str,
    /// `InitPlan 1 (returns $0)`, `CTE x`.
    label: String,
    children: Vec<Shown<'p>>,
}

impl<'p> Shown<'p> {
    fn of(tree: &'p PlanTree, plan: &'p Plan, relationship: &'static str, label: String) -> Shown<'p> {
        let mut subplans = tree.subplans.clone();
        let mut ctes = tree.ctes.clone();
        let mut shown = tree;
        let mut properties = Properties::default();
        shown.operator.explain(&mut properties);
        while properties.transparent && shown.children.len() == 1 {
            shown = &shown.children[0];
            subplans.extend(&shown.subplans);
            ctes.extend(&shown.ctes);
            properties = Properties::default();
            shown.operator.explain(&mut properties);
        }
        let mut before = Vec::new();
        let mut after = Vec::new();
        for number in ctes {
            let cte = &plan.ctes[number];
            before.push(Shown::of(&cte.root, plan, "InitPlan", format!("CTE {}", cte.name)));
        }
        for number in subplans {
            let subplan = &plan.subplans[number];
            if subplan.label.starts_with("InitPlan") {
                before.push(Shown::of(&subplan.root, plan, "InitPlan", subplan.label.clone()));
            } else {
                after.push(Shown::of(&subplan.root, plan, "SubPlan", subplan.label.clone()));
            }
        }
        let member = matches!(properties.node_type.as_str(), "Append");
        let subquery = properties.node_type == "Subquery Scan";
        let mut children = before;
        for (index, child) in shown.children.iter().enumerate() {
            let relationship = match index {
                _ if member => "Member",
                _ if subquery => "Subquery",
                0 => "Outer",
                _ => "Inner",
            };
            children.push(Shown::of(child, plan, relationship, String::new()));
        }
        children.extend(after);
        Shown { tree: shown, properties, relationship, label, children }
    }
}

/// What was measured, if anything was.
struct Measured<'m> {
    instrument: Option<&'m Instrument>,
    planning: Option<Duration>,
    execution: Option<Duration>,
    /// All reads of the statement: those of its nodes, and those of locks and checks. Only with `dist`.
    reads: Option<ReadCounters>,
}

impl Measured<'_> {
    fn node(&self, tree: &PlanTree) -> Option<&NodeCounters> {
        self.instrument.and_then(|instrument| instrument.nodes.get(tree.number))
    }
}

/// Shows a plan, running it first if ANALYZE was asked for. Rows of the `QUERY PLAN` column: one per line in the text
/// format, one in all in the others. The caller ends the command afterwards, as for any statement.
pub fn explain(
    plan: &Arc<Plan>,
    options: &ExplainOptions,
    planning: Option<Duration>,
    snapshot: Snapshot,
    params: Arc<[Datum]>,
    cx: &ExecContext<'_>,
) -> Result<Vec<String>> {
    let begin = Instant::now();
    let mut execution = None;
    let mut reads = None;
    if options.analyze {
        cx.txn.watch_reads(true);
        let before = cx.txn.counters();
        let watch = if options.timing { Watch::Timing } else { Watch::Counts };
        let mut run = Execution::start(Arc::clone(plan), params, snapshot, watch);
        let done = run_to_end(&mut run, cx);
        cx.txn.watch_reads(false);
        done?;
        reads = options.dist.then(|| cx.txn.counters().since(&before));
        execution = Some(run);
    }
    let measured = Measured {
        instrument: execution.as_ref().and_then(|run| run.frame.instrument.as_deref()),
        planning,
        execution: options.analyze.then(|| begin.elapsed()),
        reads,
    };
    let shown = Shown::of(&plan.root, plan, "", String::new());
    Ok(match options.format {
        ExplainFormat::Text => text::print(&shown, options, &measured),
        ExplainFormat::Json => vec![structured::json(&shown, options, &measured)],
        ExplainFormat::Yaml => vec![structured::yaml(&shown, options, &measured)],
        ExplainFormat::Xml => vec![structured::xml(&shown, options, &measured)],
    })
}

fn run_to_end(run: &mut Execution, cx: &ExecContext<'_>) -> Result<()> {
    while run.next_row(cx)?.is_some() {}
    run.finish(cx)
}

/// The storage's counters under the seeds' names.
fn metrics(reads: &ReadCounters) -> Vec<(&'static str, f64)> {
    vec![
        ("rocksdb_number_db_seek", reads.seeks as f64),
        ("rocksdb_number_db_next", reads.nexts as f64),
        ("rocksdb_number_db_next_found", reads.nexts as f64),
        ("rocksdb_iter_bytes_read", reads.bytes_read as f64),
        ("docdb_keys_found", reads.keys_found as f64),
        ("cairn_versions_skipped", reads.versions_skipped as f64),
        ("cairn_tombstones_skipped", reads.tombstones_skipped as f64),
        ("cairn_ranges_skipped", reads.ranges_skipped as f64),
        ("rocksdb_internal_delete_skipped", reads.hidden_deletes as f64),
        ("rocksdb_internal_key_skipped", reads.hidden_keys() as f64),
    ]
}

/// Whether the node reads the storage itself.
fn reads_storage(properties: &Properties) -> bool {
    matches!(properties.node_type.as_str(), "Seq Scan" | "Index Scan" | "Index Only Scan")
}
