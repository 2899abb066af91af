//! The text format.

use std::fmt::Write;

use cairn_analyze::query::ExplainOptions;

use super::{Measured, Shown, Value, metrics, reads_storage};

pub fn print(shown: &Shown<'_>, options: &ExplainOptions, measured: &Measured<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    node(shown, 0, options, measured, &mut lines);
    if options.summary {
        if let Some(time) = measured.planning {
            lines.push(format!("Planning Time: {:.3} ms", time.as_secs_f64() * 1e3));
        }
        if let Some(time) = measured.execution {
            lines.push(format!("Execution Time: {:.3} ms", time.as_secs_f64() * 1e3));
        }
        if let Some(reads) = &measured.reads {
            lines.push(format!("Storage Read Requests: {}", reads.requests));
            lines.push(format!("Storage Rows Scanned: {}", reads.keys_found));
            if options.debug {
                lines.extend(metrics(reads).iter().map(|(name, value)| format!("Metric {name}: {value:.3}")));
            }
        }
    }
    lines
}

/// `indent`: column at which the node's name (or its arrow) begins.
fn node(
    shown: &Shown<'_>,
    indent: usize,
    options: &ExplainOptions,
    measured: &Measured<'_>,
    lines: &mut Vec<String>,
) {
    let mut indent = indent;
    let pad = |indent: usize| " ".repeat(indent);
    if !shown.label.is_empty() {
        lines.push(format!("{}{}", pad(indent), shown.label));
        indent += 2;
    }
    let mut line = pad(indent);
    if indent > 0 {
        line.push_str("->  ");
        indent += 4;
    }
    let properties = &shown.properties;
    line.push_str(properties.text_type.as_deref().unwrap_or(&properties.node_type));
    line.push_str(&properties.target);
    if options.costs {
        let tree = shown.tree;
        let _ = write!(
            line,
            "  (cost={:.2}..{:.2} rows={:.0} width={})",
            tree.startup_cost, tree.total_cost, tree.rows, tree.width
        );
    }
    let counters = measured.node(shown.tree);
    if options.analyze {
        match counters {
            Some(counters) if counters.loops > 0 => {
                let loops = counters.loops as f64;
                let rows = counters.rows as f64 / loops;
                if options.timing {
                    let _ = write!(
                        line,
                        " (actual time={:.3}..{:.3} rows={rows:.0} loops={})",
                        counters.startup.as_secs_f64() * 1e3 / loops,
                        counters.total.as_secs_f64() * 1e3 / loops,
                        counters.loops
                    );
                } else {
                    let _ = write!(line, " (actual rows={rows:.0} loops={})", counters.loops);
                }
            }
            _ => line.push_str(" (never executed)"),
        }
    }
    lines.push(line);
    // A node's properties stand two columns to the right of its name.
    let inner = indent + 2;
    let mut property = |text: String| lines.push(format!("{}{text}", pad(inner)));
    for (name, value) in &properties.lines {
        match value {
            Value::Text(text) => property(format!("{name}: {text}")),
            Value::List(list) => property(format!("{name}: {}", list.join(", "))),
            Value::Number(number) => property(format!("{name}: {number:.3}")),
            Value::Integer(number) => property(format!("{name}: {number}")),
            Value::Bool(value) => property(format!("{name}: {value}")),
            Value::Hidden(_) => {}
        }
    }
    if options.analyze
        && let Some(counters) = counters.filter(|counters| counters.loops > 0)
    {
        if let Some(method) = properties.sort_method {
            if counters.disk_bytes > 0 {
                property(format!(
                    "Sort Method: external merge  Disk: {}kB",
                    counters.disk_bytes.div_ceil(1024)
                ));
            } else {
                property(format!(
                    "Sort Method: {method}  Memory: {}kB",
                    counters.memory_bytes.div_ceil(1024).max(25)
                ));
            }
        }
        if properties.filtered && counters.removed_by_filter > 0 {
            let rows = counters.removed_by_filter as f64 / counters.loops as f64;
            property(format!("Rows Removed by Filter: {rows:.0}"));
        }
        if properties.join_filtered && counters.removed_by_join_filter > 0 {
            let rows = counters.removed_by_join_filter as f64 / counters.loops as f64;
            property(format!("Rows Removed by Join Filter: {rows:.0}"));
        }
        if options.dist && reads_storage(properties) {
            property(format!("Storage Table Read Requests: {}", counters.reads.requests));
            if options.timing {
                property(format!(
                    "Storage Table Read Execution Time: {:.3} ms",
                    counters.total.as_secs_f64() * 1e3
                ));
            }
            property(format!("Storage Table Rows Scanned: {}", counters.reads.keys_found));
        }
        if options.debug && reads_storage(properties) {
            for (name, value) in metrics(&counters.reads) {
                property(format!("Metric {name}: {value:.3}"));
            }
        }
    }
    for child in &shown.children {
        node(child, inner, options, measured, lines);
    }
}
