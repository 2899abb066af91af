//! Qualified names as they are written.

use std::fmt;

use cairn_types::{Error, Result, Text, err};
use pg_query::protobuf::{Node, node::Node as NodeEnum};

/// A name of a function, operator, type or relation with an optional schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    pub schema: Option<Text>,
    pub name: Text,
}

impl QualifiedName {
    pub fn unqualified(name: impl Into<Text>) -> Self {
        QualifiedName { schema: None, name: name.into() }
    }

    /// A plain operator name that the analyzer itself means.
    pub fn operator(name: &str) -> Self {
        QualifiedName::unqualified(name)
    }

    /// From the grammar's list of strings. A leading database name must be the current one. Errors: 42601, 0A000.
    pub fn from_nodes(nodes: &[Node], database: &str) -> Result<Self> {
        let part = |index: usize| nodes.get(index).map_or("", string_value);
        match nodes.len() {
            1 => Ok(QualifiedName { schema: None, name: part(0).into() }),
            2 => Ok(QualifiedName { schema: Some(part(0).into()), name: part(1).into() }),
            3 if part(0) == database => {
                Ok(QualifiedName { schema: Some(part(1).into()), name: part(2).into() })
            }
            3 => Err(err!(
                FEATURE_NOT_SUPPORTED,
                "cross-database references are not implemented: {}",
                joined(nodes)
            )),
            _ => {
                Err(err!(SYNTAX_ERROR, "improper qualified name (too many dotted names): {}", joined(nodes)))
            }
        }
    }
}

impl fmt::Display for QualifiedName {
    /// As PostgreSQL's NameListToString: unquoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The text of a String node; "" for any other.
pub fn string_value(node: &Node) -> &str {
    match &node.node {
        Some(NodeEnum::String(string)) => &string.sval,
        Some(NodeEnum::AStar(_)) => "*",
        _ => "",
    }
}

/// `a.b.c`, unquoted, for messages.
pub fn joined(nodes: &[Node]) -> String {
    nodes.iter().map(string_value).collect::<Vec<_>>().join(".")
}

/// The inner node, or XX000: the grammar always fills what this is called for.
pub(crate) fn inner(node: &Node) -> Result<&NodeEnum> {
    node.node.as_ref().ok_or_else(|| Error::internal("empty node in the parse tree"))
}

pub(crate) fn inner_box(node: &Option<Box<Node>>) -> Result<&NodeEnum> {
    node.as_ref()
        .and_then(|node| node.node.as_ref())
        .ok_or_else(|| Error::internal("missing node in the parse tree"))
}
