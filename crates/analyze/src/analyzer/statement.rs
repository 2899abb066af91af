//! Dispatch over statements.

use cairn_types::{Error, Result, err};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use super::{
    Analyzer,
    names::{inner, inner_box},
};
use crate::query::*;

// Bits of DECLARE's options in the grammar.
const CURSOR_BINARY: i32 = 0x1;
const CURSOR_SCROLL: i32 = 0x2;
const CURSOR_INSENSITIVE: i32 = 0x8;
const CURSOR_HOLD: i32 = 0x20;

impl Analyzer<'_> {
    pub(crate) fn statement(&mut self, node: &NodeEnum) -> Result<Statement> {
        match node {
            NodeEnum::SelectStmt(select) => {
                if let Some(into) = leftmost_into(select) {
                    return self.select_into(select, Box::new(into.clone()));
                }
                self.top_query(node).map(|query| Statement::Query(Box::new(query)))
            }
            NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_) => self.top_query(node).map(|query| Statement::Query(Box::new(query))),
            NodeEnum::ExplainStmt(explain) => {
                let options = explain_options(&explain.options)?;
                self.enter()?;
                let statement = self.statement(inner_box(&explain.query)?);
                self.leave();
                Ok(Statement::Explain(Box::new(Explain { options, statement: statement? })))
            }
            NodeEnum::CreateTableAsStmt(create) => match inner_box(&create.query)? {
                NodeEnum::ExecuteStmt(_) => Ok(Statement::Utility(Box::new(node.clone()))),
                query_node => {
                    let query = self.top_query(query_node)?;
                    Ok(Statement::CreateTableAs { node: create.clone(), query: Box::new(query) })
                }
            },
            NodeEnum::DeclareCursorStmt(declare) => self.declare_cursor(declare),
            NodeEnum::CallStmt(call) => {
                self.push_level();
                let call_node =
                    call.funccall.as_deref().ok_or_else(|| Error::internal("CALL without a call"))?;
                let result = self.call_statement(call_node);
                self.pop_level();
                Ok(Statement::Call(Box::new(result?)))
            }
            other => Ok(Statement::Utility(Box::new(other.clone()))),
        }
    }

    pub(crate) fn top_query(&mut self, node: &NodeEnum) -> Result<Query> {
        self.push_level();
        let result = self.query_statement(node);
        self.pop_level();
        result
    }

    /// SELECT ... INTO is CREATE TABLE AS.
    fn select_into(
        &mut self,
        select: &protobuf::SelectStmt,
        into: Box<protobuf::IntoClause>,
    ) -> Result<Statement> {
        let mut plain = select.clone();
        {
            let mut leftmost = &mut plain;
            while leftmost.larg.is_some() && leftmost.into_clause.is_none() {
                leftmost = match leftmost.larg.as_deref_mut() {
                    Some(left) => left,
                    None => return Err(Error::internal("set operation without a left side")),
                };
            }
            leftmost.into_clause = None;
        }
        let node = NodeEnum::SelectStmt(Box::new(plain));
        let query = self.top_query(&node)?;
        let create = protobuf::CreateTableAsStmt {
            query: Some(Box::new(Node { node: Some(node) })),
            into: Some(into),
            objtype: protobuf::ObjectType::ObjectTable as i32,
            is_select_into: true,
            if_not_exists: false,
        };
        Ok(Statement::CreateTableAs { node: Box::new(create), query: Box::new(query) })
    }

    fn declare_cursor(&mut self, declare: &protobuf::DeclareCursorStmt) -> Result<Statement> {
        let options = declare.options;
        let node = inner_box(&declare.query)?;
        let query = self.top_query(node)?;
        if query.command != CommandType::Select {
            return Err(Error::internal("unexpected non-SELECT command in DECLARE CURSOR"));
        }
        if query.ctes.iter().any(|cte| cte.query.command != CommandType::Select) {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "DECLARE CURSOR must not contain data-modifying statements in WITH"
            ));
        }
        if let Some(mark) = query.row_marks.first() {
            let name = match mark.strength {
                LockStrength::KeyShare => "FOR KEY SHARE",
                LockStrength::Share => "FOR SHARE",
                LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
                LockStrength::Update => "FOR UPDATE",
            };
            let refused = [
                (CURSOR_HOLD, "WITH HOLD", "Holdable cursors must be READ ONLY."),
                (CURSOR_SCROLL, "SCROLL", "Scrollable cursors must be READ ONLY."),
                (CURSOR_INSENSITIVE, "INSENSITIVE", "Insensitive cursors must be READ ONLY."),
            ];
            for (bit, what, detail) in refused {
                if options & bit != 0 {
                    let message = if bit == CURSOR_INSENSITIVE {
                        format!("DECLARE INSENSITIVE CURSOR ... {name} is not valid")
                    } else if bit == CURSOR_SCROLL {
                        format!("DECLARE SCROLL CURSOR ... {name} is not supported")
                    } else {
                        format!("DECLARE CURSOR {what} ... {name} is not supported")
                    };
                    return Err(err!(FEATURE_NOT_SUPPORTED, "{message}").detail(detail));
                }
            }
        }
        Ok(Statement::DeclareCursor {
            name: declare.portalname.as_str().into(),
            scroll: options & CURSOR_SCROLL != 0,
            hold: options & CURSOR_HOLD != 0,
            binary: options & CURSOR_BINARY != 0,
            query: Box::new(query),
        })
    }
}

fn leftmost_into(select: &protobuf::SelectStmt) -> Option<&protobuf::IntoClause> {
    let mut select = select;
    loop {
        if let Some(into) = &select.into_clause {
            return Some(into);
        }
        select = select.larg.as_deref()?;
    }
}

/// EXPLAIN's options. Errors: 42601 for unknown ones, 22023 for values.
fn explain_options(nodes: &[Node]) -> Result<ExplainOptions> {
    let mut options = ExplainOptions {
        analyze: false,
        verbose: false,
        costs: true,
        settings: false,
        buffers: false,
        wal: false,
        timing: false,
        summary: false,
        format: ExplainFormat::Text,
        dist: false,
        debug: false,
    };
    let (mut timing, mut summary) = (None, None);
    for node in nodes {
        let NodeEnum::DefElem(option) = inner(node)? else {
            return Err(Error::internal("unrecognized EXPLAIN option"));
        };
        let flag = || definition_boolean(option);
        match option.defname.as_str() {
            "analyze" => options.analyze = flag()?,
            "verbose" => options.verbose = flag()?,
            "costs" => options.costs = flag()?,
            "buffers" => options.buffers = flag()?,
            "wal" => options.wal = flag()?,
            "settings" => options.settings = flag()?,
            "timing" => timing = Some(flag()?),
            "summary" => summary = Some(flag()?),
            "dist" => options.dist = flag()?,
            "debug" => options.debug = flag()?,
            "format" => {
                let value = definition_text(option).unwrap_or_default();
                options.format = match value.as_str() {
                    "text" => ExplainFormat::Text,
                    "xml" => ExplainFormat::Xml,
                    "json" => ExplainFormat::Json,
                    "yaml" => ExplainFormat::Yaml,
                    _ => {
                        return Err(err!(
                            INVALID_PARAMETER_VALUE,
                            "unrecognized value for EXPLAIN option \"{}\": \"{value}\"",
                            option.defname
                        )
                        .at(option.location));
                    }
                };
            }
            other => {
                return Err(err!(SYNTAX_ERROR, "unrecognized EXPLAIN option \"{other}\"").at(option.location));
            }
        }
    }
    if options.wal && !options.analyze {
        return Err(err!(INVALID_PARAMETER_VALUE, "EXPLAIN option WAL requires ANALYZE"));
    }
    options.timing = timing.unwrap_or(options.analyze);
    if options.timing && !options.analyze {
        return Err(err!(INVALID_PARAMETER_VALUE, "EXPLAIN option TIMING requires ANALYZE"));
    }
    options.summary = summary.unwrap_or(options.analyze);
    Ok(options)
}

/// The text of an option's value.
pub(crate) fn definition_text(option: &protobuf::DefElem) -> Option<String> {
    match option.arg.as_ref()?.node.as_ref()? {
        NodeEnum::String(text) => Some(text.sval.clone()),
        NodeEnum::Integer(value) => Some(value.ival.to_string()),
        NodeEnum::Float(value) => Some(value.fval.clone()),
        NodeEnum::Boolean(value) => Some(if value.boolval { "true" } else { "false" }.to_owned()),
        NodeEnum::TypeName(name) => name.names.last().map(|name| super::names::string_value(name).to_owned()),
        _ => None,
    }
}

/// A boolean option: absent means true. Errors: 42601.
pub(crate) fn definition_boolean(option: &protobuf::DefElem) -> Result<bool> {
    if option.arg.is_none() {
        return Ok(true);
    }
    match definition_text(option).map(|text| text.to_ascii_lowercase()).as_deref() {
        Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        _ => Err(err!(SYNTAX_ERROR, "{} requires a Boolean value", option.defname)),
    }
}
