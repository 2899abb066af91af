//! Operations on the type `json`, which keeps its text: parts are taken out as they were written, blanks,
//! key order and duplicate keys included.

use super::operations::parse_index;
use super::parse::{Builder, parse_with};
use crate::Result;

/// A value inside of JSON text.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The text of the value, without blanks around.
    pub text: &'a str,
    pub kind: NodeKind<'a>,
}

#[derive(Clone, Debug)]
pub enum NodeKind<'a> {
    Null,
    Bool(bool),
    Number,
    /// Without quotes and escapes.
    String(String),
    Array(Vec<Node<'a>>),
    /// In the text's order, duplicates included.
    Object(Vec<(String, Node<'a>)>),
}

struct Outline;

impl<'a> Builder<'a> for Outline {
    type Value = Node<'a>;
    const UNESCAPE: bool = true;
    fn null(&mut self, text: &'a str) -> Node<'a> {
        Node { text, kind: NodeKind::Null }
    }
    fn bool(&mut self, value: bool, text: &'a str) -> Node<'a> {
        Node { text, kind: NodeKind::Bool(value) }
    }
    fn number(&mut self, text: &'a str) -> Result<Node<'a>> {
        Ok(Node { text, kind: NodeKind::Number })
    }
    fn string(&mut self, value: String, text: &'a str) -> Node<'a> {
        Node { text, kind: NodeKind::String(value) }
    }
    fn array(&mut self, items: Vec<Node<'a>>, text: &'a str) -> Result<Node<'a>> {
        Ok(Node { text, kind: NodeKind::Array(items) })
    }
    fn object(&mut self, members: Vec<(String, Node<'a>)>, text: &'a str) -> Result<Node<'a>> {
        Ok(Node { text, kind: NodeKind::Object(members) })
    }
}

/// Parses JSON text into an outline of where its values are.
pub fn outline(text: &str) -> Result<Node<'_>> {
    parse_with(text, &mut Outline)
}

impl<'a> Node<'a> {
    /// `json -> text`: of duplicate keys the last one counts.
    pub fn get_key(&self, key: &str) -> Option<&Node<'a>> {
        match &self.kind {
            NodeKind::Object(members) => {
                members.iter().rev().find(|(have, _)| have == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// `json -> integer`; a negative index counts from the end.
    pub fn get_index(&self, index: i64) -> Option<&Node<'a>> {
        match &self.kind {
            NodeKind::Array(items) => {
                let index = if index < 0 { index + items.len() as i64 } else { index };
                items.get(usize::try_from(index).ok()?)
            }
            _ => None,
        }
    }

    /// `json #> text[]`.
    pub fn get_path(&self, path: &[Option<&str>]) -> Option<&Node<'a>> {
        let mut node = self;
        for step in path {
            let step = (*step)?;
            node = match node.kind {
                NodeKind::Object(_) => node.get_key(step)?,
                NodeKind::Array(_) => node.get_index(parse_index(step)?)?,
                _ => return None,
            };
        }
        Some(node)
    }

    /// The text of `->>`: strings without quotes; `None` for JSON null.
    pub fn plain_text(&self) -> Option<String> {
        match &self.kind {
            NodeKind::Null => None,
            NodeKind::String(text) => Some(text.clone()),
            _ => Some(self.text.to_owned()),
        }
    }

    /// `json_typeof`.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Null => "null",
            NodeKind::Bool(_) => "boolean",
            NodeKind::Number => "number",
            NodeKind::String(_) => "string",
            NodeKind::Array(_) => "array",
            NodeKind::Object(_) => "object",
        }
    }

    /// Appends the value without members that are null (`json_strip_nulls`) and without blanks.
    pub fn print_without_nulls(&self, out: &mut String) {
        match &self.kind {
            NodeKind::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.print_without_nulls(out);
                }
                out.push(']');
            }
            NodeKind::Object(members) => {
                out.push('{');
                let kept = members.iter().filter(|(_, node)| !matches!(node.kind, NodeKind::Null));
                for (index, (key, node)) in kept.enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    super::escape_into(key, out);
                    out.push(':');
                    node.print_without_nulls(out);
                }
                out.push('}');
            }
            NodeKind::String(text) => super::escape_into(text, out),
            _ => out.push_str(self.text),
        }
    }
}
