//! Small readings of raw parse trees.

use pg_query::protobuf::{Node, node::Node as NodeEnum};

/// The texts of a list of string nodes; others are left out.
pub fn strings(nodes: &[Node]) -> Vec<String> {
    nodes
        .iter()
        .filter_map(|node| match &node.node {
            Some(NodeEnum::String(text)) => Some(text.sval.clone()),
            _ => None,
        })
        .collect()
}
