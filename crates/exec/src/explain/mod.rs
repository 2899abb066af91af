//! EXPLAIN: the plan as PostgreSQL prints it.

/// What a node tells of itself. Keys are those of PostgreSQL's JSON format.
#[derive(Debug, Default)]
pub struct Properties {
    /// `Node Type`, for example `Index Scan`.
    pub node_type: String,
    /// What the text format adds to the first line after the type: `using t_pkey on t`.
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
