//! Small readers of parse tree nodes.

use cairn_types::{Error, Result, Text, err};
use pg_query::protobuf::{self, Node, RangeVar, RoleSpec, RoleSpecType, a_const, node::Node as NodeEnum};

use super::context::DdlContext;

/// The inner node; XX000 where the grammar should have put one.
pub fn inner(node: &Node) -> Result<&NodeEnum> {
    node.node.as_ref().ok_or_else(|| Error::internal("empty node in a parse tree"))
}

pub fn boxed(node: &Option<Box<Node>>) -> Option<&Node> {
    node.as_deref()
}

pub fn required<T>(node: &Option<T>) -> Result<&T> {
    node.as_ref().ok_or_else(|| Error::internal("missing node in a parse tree"))
}

/// The text of a String node.
pub fn string(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::String(string) => Some(&string.sval),
        _ => None,
    }
}

pub fn strings(nodes: &[Node]) -> Vec<Text> {
    nodes.iter().filter_map(string).map(Text::from).collect()
}

/// The elements of a List node.
pub fn list(node: &Node) -> &[Node] {
    match &node.node {
        Some(NodeEnum::List(list)) => &list.items,
        _ => &[],
    }
}

/// Schema (empty: none) and name of a dotted name. Errors: 42601, 0A000 for another database.
pub fn qualified(cx: &DdlContext<'_>, nodes: &[Node]) -> Result<(String, String)> {
    let parts = strings(nodes);
    match parts.as_slice() {
        [name] => Ok((String::new(), name.to_string())),
        [schema, name] => Ok((schema.to_string(), name.to_string())),
        [database, schema, name] => {
            if **database != *cx.env.current_database() {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "cross-database references are not implemented: {}",
                    parts.join(".")
                ));
            }
            Ok((schema.to_string(), name.to_string()))
        }
        _ => Err(err!(SYNTAX_ERROR, "improper qualified name (too many dotted names): {}", parts.join("."))),
    }
}

/// A RangeVar out of a dotted name.
pub fn range_var(cx: &DdlContext<'_>, nodes: &[Node]) -> Result<RangeVar> {
    let (schemaname, relname) = qualified(cx, nodes)?;
    Ok(RangeVar { schemaname, relname, relpersistence: "p".into(), ..RangeVar::default() })
}

/// The words of a DefElem's argument, as PostgreSQL's defGetString reads them.
pub fn option_text(option: &protobuf::DefElem) -> Result<Option<String>> {
    let Some(node) = option.arg.as_deref() else { return Ok(None) };
    Ok(Some(match inner(node)? {
        NodeEnum::String(string) => string.sval.clone(),
        NodeEnum::Integer(integer) => integer.ival.to_string(),
        NodeEnum::Float(float) => float.fval.clone(),
        NodeEnum::Boolean(boolean) => (if boolean.boolval { "true" } else { "false" }).to_owned(),
        NodeEnum::TypeName(name) => strings(&name.names).join("."),
        NodeEnum::AConst(constant) => constant_text(constant),
        NodeEnum::List(list) => strings(&list.items).join("."),
        NodeEnum::AStar(_) => "*".to_owned(),
        _ => return Err(Error::unsupported(format!("this value of option {} is", option.defname))),
    }))
}

pub fn constant_text(constant: &protobuf::AConst) -> String {
    match &constant.val {
        Some(a_const::Val::Ival(value)) => value.ival.to_string(),
        Some(a_const::Val::Fval(value)) => value.fval.clone(),
        Some(a_const::Val::Boolval(value)) => (if value.boolval { "true" } else { "false" }).to_owned(),
        Some(a_const::Val::Sval(value)) => value.sval.clone(),
        Some(a_const::Val::Bsval(value)) => value.bsval.clone(),
        None => String::new(),
    }
}

/// Boolean options: absent means true (defGetBoolean).
pub fn option_bool(option: &protobuf::DefElem) -> Result<bool> {
    match option_text(option)?.as_deref() {
        None => Ok(true),
        Some(text) if matches!(text.to_ascii_lowercase().as_str(), "true" | "on" | "1") => Ok(true),
        Some(text) if matches!(text.to_ascii_lowercase().as_str(), "false" | "off" | "0") => Ok(false),
        Some(_) => Err(err!(SYNTAX_ERROR, "{} requires a Boolean value", option.defname)),
    }
}

pub fn option_int(option: &protobuf::DefElem) -> Result<i64> {
    let text = option_text(option)?
        .ok_or_else(|| err!(SYNTAX_ERROR, "{} requires a numeric value", option.defname))?;
    text.parse()
        .map_err(|_| err!(INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bigint: \"{text}\""))
}

/// DefElems of a list of options.
pub fn options(nodes: &[Node]) -> impl Iterator<Item = &protobuf::DefElem> {
    nodes.iter().filter_map(|node| match &node.node {
        Some(NodeEnum::DefElem(option)) => Some(&**option),
        _ => None,
    })
}

/// The role that a RoleSpec names.
pub fn role(cx: &DdlContext<'_>, spec: &RoleSpec) -> Result<u32> {
    match spec.roletype() {
        RoleSpecType::RolespecCurrentRole | RoleSpecType::RolespecCurrentUser => Ok(cx.user),
        RoleSpecType::RolespecSessionUser => cx.role(&cx.env.session_user()),
        RoleSpecType::RolespecPublic => {
            Err(err!(RESERVED_NAME, "role name \"public\" is reserved").at(spec.location))
        }
        _ => cx.role(&spec.rolename),
    }
}
