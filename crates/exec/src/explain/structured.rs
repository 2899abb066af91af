//! JSON, YAML and XML: one tree of properties, printed in three ways.

use std::fmt::Write;

use cairn_analyze::query::ExplainOptions;

use super::{Measured, Shown, Value as Property, metrics, reads_storage};

/// A value of the structured formats.
enum Value {
    Text(String),
    /// Printed as it is.
    Raw(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn node(shown: &Shown<'_>, options: &ExplainOptions, measured: &Measured<'_>) -> Value {
    let properties = &shown.properties;
    let mut out: Vec<(String, Value)> = Vec::new();
    let mut add = |name: &str, value: Value| out.push((name.to_owned(), value));
    add("Node Type", text(&properties.node_type));
    if !shown.relationship.is_empty() {
        add("Parent Relationship", text(shown.relationship));
    }
    if !shown.label.is_empty() {
        add("Subplan Name", text(&shown.label));
    }
    add("Parallel Aware", Value::Raw("false".into()));
    add("Async Capable", Value::Raw("false".into()));
    // What names the node stands before its estimates, conditions behind its measurements.
    for (name, value) in &properties.lines {
        if let Property::Hidden(value) = value {
            add(name, text(value));
        }
    }
    if options.costs {
        let tree = shown.tree;
        add("Startup Cost", Value::Raw(format!("{:.2}", tree.startup_cost)));
        add("Total Cost", Value::Raw(format!("{:.2}", tree.total_cost)));
        add("Plan Rows", Value::Raw(format!("{:.0}", tree.rows)));
        add("Plan Width", Value::Raw(tree.width.to_string()));
    }
    let counters = measured.node(shown.tree).copied().unwrap_or_default();
    if options.analyze {
        let loops = counters.loops.max(1) as f64;
        if options.timing {
            add(
                "Actual Startup Time",
                Value::Raw(format!("{:.3}", counters.startup.as_secs_f64() * 1e3 / loops)),
            );
            add(
                "Actual Total Time",
                Value::Raw(format!("{:.3}", counters.total.as_secs_f64() * 1e3 / loops)),
            );
        }
        add("Actual Rows", Value::Raw(format!("{:.0}", counters.rows as f64 / loops)));
        add("Actual Loops", Value::Raw(counters.loops.to_string()));
    }
    for (name, value) in &properties.lines {
        match value {
            Property::Hidden(_) => {}
            Property::Text(value) => add(name, text(value)),
            Property::Number(value) => add(name, Value::Raw(format!("{value:.3}"))),
            Property::Integer(value) => add(name, Value::Raw(value.to_string())),
            Property::Bool(value) => add(name, Value::Raw(value.to_string())),
            Property::List(list) => add(name, Value::List(list.iter().map(text).collect())),
        }
    }
    if options.analyze {
        if let Some(method) = properties.sort_method {
            let disk = counters.disk_bytes > 0;
            add("Sort Method", text(if disk { "external merge" } else { method }));
            let bytes = if disk { counters.disk_bytes } else { counters.memory_bytes.max(25 << 10) };
            add("Sort Space Used", Value::Raw(bytes.div_ceil(1024).to_string()));
            add("Sort Space Type", text(if disk { "Disk" } else { "Memory" }));
        }
        let loops = counters.loops.max(1) as f64;
        if properties.filtered {
            let rows = counters.removed_by_filter as f64 / loops;
            add("Rows Removed by Filter", Value::Raw(format!("{rows:.0}")));
        }
        if properties.join_filtered {
            let rows = counters.removed_by_join_filter as f64 / loops;
            add("Rows Removed by Join Filter", Value::Raw(format!("{rows:.0}")));
        }
        if options.dist && reads_storage(properties) {
            add("Storage Table Read Requests", Value::Raw(counters.reads.requests.to_string()));
            if options.timing {
                let time = counters.total.as_secs_f64() * 1e3;
                add("Storage Table Read Execution Time", Value::Raw(format!("{time:.3}")));
            }
            add("Storage Table Rows Scanned", Value::Raw(counters.reads.keys_found.to_string()));
        }
        if options.debug && reads_storage(properties) {
            for (name, value) in metrics(&counters.reads) {
                add(&format!("Metric {name}"), Value::Raw(format!("{value:.3}")));
            }
        }
    }
    if !shown.children.is_empty() {
        let children = shown.children.iter().map(|child| node(child, options, measured)).collect();
        add("Plans", Value::List(children));
    }
    Value::Object(out)
}

fn document(shown: &Shown<'_>, options: &ExplainOptions, measured: &Measured<'_>) -> Vec<(String, Value)> {
    let mut out = vec![("Plan".to_owned(), node(shown, options, measured))];
    if options.summary {
        let mut time = |name: &str, value: Option<std::time::Duration>| {
            if let Some(value) = value {
                out.push((name.to_owned(), Value::Raw(format!("{:.3}", value.as_secs_f64() * 1e3))));
            }
        };
        time("Planning Time", measured.planning);
        if options.analyze {
            out.push(("Triggers".to_owned(), Value::List(Vec::new())));
        }
        if let Some(value) = measured.execution {
            out.push(("Execution Time".to_owned(), Value::Raw(format!("{:.3}", value.as_secs_f64() * 1e3))));
        }
        if let Some(reads) = &measured.reads {
            let mut add = |name: String, value: String| out.push((name, Value::Raw(value)));
            add("Storage Read Requests".to_owned(), reads.requests.to_string());
            add("Storage Rows Scanned".to_owned(), reads.keys_found.to_string());
            if options.debug {
                for (name, value) in metrics(reads) {
                    add(format!("Metric {name}"), format!("{value:.3}"));
                }
            }
        }
    }
    out
}

pub fn json(shown: &Shown<'_>, options: &ExplainOptions, measured: &Measured<'_>) -> String {
    let mut out = String::from("[\n  ");
    json_value(&Value::Object(document(shown, options, measured)), 2, &mut out);
    out.push_str("\n]");
    out
}

fn json_string(value: &str, out: &mut String) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn json_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Text(value) => json_string(value, out),
        Value::Raw(value) => out.push_str(value),
        Value::List(list)
            if list.iter().all(|item| !matches!(item, Value::Object(_))) && !list.is_empty() =>
        {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                json_value(item, indent, out);
            }
            out.push(']');
        }
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ",\n" } else { "\n" });
                out.push_str(&" ".repeat(indent + 2));
                json_value(item, indent + 2, out);
            }
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, item)) in members.iter().enumerate() {
                out.push_str(if index > 0 { ",\n" } else { "\n" });
                out.push_str(&" ".repeat(indent + 2));
                json_string(name, out);
                out.push_str(": ");
                json_value(item, indent + 2, out);
            }
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            out.push('}');
        }
    }
}

pub fn yaml(shown: &Shown<'_>, options: &ExplainOptions, measured: &Measured<'_>) -> String {
    let mut out = String::new();
    yaml_members(&document(shown, options, measured), 2, true, &mut out);
    out.truncate(out.trim_end().len());
    out
}

/// `dash`: the first member stands behind a list's dash.
fn yaml_members(members: &[(String, Value)], indent: usize, dash: bool, out: &mut String) {
    for (index, (name, value)) in members.iter().enumerate() {
        if index == 0 && dash {
            out.push_str(&" ".repeat(indent - 2));
            out.push_str("- ");
        } else {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str(name);
        out.push(':');
        match value {
            Value::Text(value) => {
                out.push(' ');
                json_string(value, out);
                out.push('\n');
            }
            Value::Raw(value) => {
                let _ = writeln!(out, " {value}");
            }
            Value::List(list) => {
                out.push('\n');
                for item in list {
                    match item {
                        Value::Object(members) => yaml_members(members, indent + 4, true, out),
                        Value::Text(value) => {
                            out.push_str(&" ".repeat(indent + 2));
                            out.push_str("- ");
                            json_string(value, out);
                            out.push('\n');
                        }
                        Value::Raw(value) => {
                            let _ = writeln!(out, "{}- {value}", " ".repeat(indent + 2));
                        }
                        Value::List(_) => {}
                    }
                }
            }
            Value::Object(members) => {
                out.push('\n');
                yaml_members(members, indent + 2, false, out);
            }
        }
    }
}

pub fn xml(shown: &Shown<'_>, options: &ExplainOptions, measured: &Measured<'_>) -> String {
    let mut out = String::from("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n");
    for (name, value) in document(shown, options, measured) {
        xml_value(&name, &value, 4, &mut out);
    }
    out.push_str("  </Query>\n</explain>");
    out
}

fn xml_value(name: &str, value: &Value, indent: usize, out: &mut String) {
    let tag: String = name.chars().map(|c| if c == ' ' { '-' } else { c }).collect();
    let pad = " ".repeat(indent);
    match value {
        Value::Text(value) | Value::Raw(value) => {
            let escaped = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = writeln!(out, "{pad}<{tag}>{escaped}</{tag}>");
        }
        Value::List(list) => {
            let _ = writeln!(out, "{pad}<{tag}>");
            let item_name = if name == "Plans" { "Plan" } else { "Item" };
            for item in list {
                xml_value(item_name, item, indent + 2, out);
            }
            let _ = writeln!(out, "{pad}</{tag}>");
        }
        Value::Object(members) => {
            let _ = writeln!(out, "{pad}<{tag}>");
            for (name, item) in members {
                xml_value(name, item, indent + 2, out);
            }
            let _ = writeln!(out, "{pad}</{tag}>");
        }
    }
}
