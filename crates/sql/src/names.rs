//! Names of catalog objects as this session reads and writes them: its search path decides.

use std::sync::Arc;

use cairn_catalog::{Catalog, Proc, Relation, TypeKind};
use cairn_types::oid::namespaces;
use cairn_types::{Env, Error, Oid, RecordField, Result, TypeShape, err, types};
use pg_query::protobuf::RangeVar;

pub use cairn_types::quote::quote_identifier;

use crate::core::Core;

/// The form in which a type's values are read and written.
pub fn type_shape(catalog: &Catalog, oid: Oid) -> Option<TypeShape> {
    let ty = catalog.type_by_oid(oid)?;
    if catalog.array_element(oid) != 0 {
        let element = catalog.type_by_oid(ty.element)?;
        return Some(TypeShape::Array { element: ty.element, delimiter: char::from(element.delimiter) });
    }
    Some(match ty.kind {
        TypeKind::Base | TypeKind::Range | TypeKind::Multirange => TypeShape::Base,
        TypeKind::Pseudo => TypeShape::Pseudo,
        TypeKind::Enum => TypeShape::Enum,
        TypeKind::Domain => TypeShape::Domain { base: ty.base, typmod: ty.base_typmod },
        TypeKind::Composite => TypeShape::Composite { fields: composite_fields(catalog, oid)? },
    })
}

/// The attributes of a composite type.
pub fn composite_fields(catalog: &Catalog, oid: Oid) -> Option<Arc<[RecordField]>> {
    let ty = catalog.type_by_oid(oid)?;
    let relation = catalog.relation(ty.relation)?;
    let field = |column: &cairn_catalog::Column| RecordField {
        name: Arc::clone(&column.name),
        type_oid: column.ty.oid,
        typmod: column.ty.typmod,
    };
    Some(relation.columns.iter().filter(|column| !column.dropped).map(field).collect())
}

/// `format_type(oid, typmod)`.
pub fn format_type(core: &Core, oid: Oid, typmod: i32) -> String {
    match (core.catalog(), core.search_path()) {
        (Ok(catalog), Ok(path)) => catalog.format_type(oid, typmod, &path),
        _ => "???".to_owned(),
    }
}

/// `name`, or `schema.name` where the path does not find it.
fn qualified(catalog: &Catalog, namespace: Oid, name: &str, visible: bool) -> String {
    if visible {
        quote_identifier(name)
    } else {
        format!("{}.{}", quote_identifier(&catalog.namespace_name(namespace)), quote_identifier(name))
    }
}

/// `f(integer, text)`.
pub fn proc_signature(core: &Core, proc: &Proc) -> String {
    let arguments: Vec<String> = proc.arg_types.iter().map(|oid| format_type(core, *oid, -1)).collect();
    arguments.join(",")
}

/// Output of the reg* types; `None` if there is no such object.
pub fn reg_name(core: &Core, reg_type: Oid, object: Oid) -> Option<String> {
    let (catalog, path) = (core.catalog().ok()?, core.search_path().ok()?);
    match reg_type {
        types::REGCLASS => {
            let relation = catalog.relation(object)?;
            let visible = catalog.is_relation_visible(&path, relation);
            Some(qualified(&catalog, relation.namespace, &relation.name, visible))
        }
        types::REGTYPE => catalog.type_by_oid(object).map(|_| catalog.format_type(object, -1, &path)),
        types::REGPROC => {
            let proc = catalog.proc(object)?;
            let alone = catalog.procs_by_name(&proc.name).len() == 1;
            let visible =
                alone && catalog.is_proc_visible(&path, proc) || path.namespaces.contains(&proc.namespace);
            Some(qualified(&catalog, proc.namespace, &proc.name, visible))
        }
        types::REGPROCEDURE => {
            let proc = catalog.proc(object)?;
            let visible = catalog.is_proc_visible(&path, proc);
            Some(format!(
                "{}({})",
                qualified(&catalog, proc.namespace, &proc.name, visible),
                proc_signature(core, proc)
            ))
        }
        types::REGOPER | types::REGOPERATOR => {
            let operator = catalog.operator(object)?;
            let visible = path.namespaces.contains(&operator.namespace);
            let name = if visible {
                operator.name.to_string()
            } else {
                format!("{}.{}", quote_identifier(&catalog.namespace_name(operator.namespace)), operator.name)
            };
            if reg_type == types::REGOPER {
                return Some(name);
            }
            let side = |oid| if oid == 0 { "NONE".to_owned() } else { catalog.format_type(oid, -1, &path) };
            Some(format!("{name}({},{})", side(operator.left), side(operator.right)))
        }
        types::REGNAMESPACE => catalog.namespace(object).map(|namespace| quote_identifier(&namespace.name)),
        types::REGROLE => {
            use cairn_catalog::SharedCatalogs;
            core.instance.shared().role_name(object).map(|name| quote_identifier(&name))
        }
        types::REGCOLLATION => catalog.collation(object).map(|collation| quote_identifier(&collation.name)),
        _ => None,
    }
}

/// Schema and name of a possibly qualified name, folded and unquoted.
fn split(text: &str) -> Result<(Option<String>, String)> {
    let mut parts = split_name(text)?;
    let name = parts.pop().ok_or_else(|| err!(INVALID_NAME, "invalid name syntax"))?;
    match parts.len() {
        0 => Ok((None, name)),
        1 | 2 => Ok((parts.pop(), name)),
        _ => Err(err!(SYNTAX_ERROR, "improper qualified name (too many dotted names): {text}")),
    }
}

/// The parts of a dotted name, folded and unquoted.
pub fn split_name(text: &str) -> Result<Vec<String>> {
    let invalid = || err!(INVALID_NAME, "invalid name syntax");
    let mut parts: Vec<String> = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut characters = quoted.char_indices().peekable();
            let mut end = None;
            while let Some((at, character)) = characters.next() {
                if character != '"' {
                    name.push(character);
                } else if characters.peek().is_some_and(|(_, next)| *next == '"') {
                    name.push('"');
                    characters.next();
                } else {
                    end = Some(at + 1);
                    break;
                }
            }
            rest = quoted.get(end.ok_or_else(invalid)?..).unwrap_or_default();
            part = name;
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            part = rest[..end].trim().to_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(tail) => rest = tail.trim_start(),
            None if rest.is_empty() => break,
            None => return Err(invalid()),
        }
    }
    Ok(parts)
}

/// Input of the reg* types; PostgreSQL's error where there is no such object.
pub fn reg_lookup(core: &Core, reg_type: Oid, text: &str) -> Result<Oid> {
    let (catalog, path) = (core.catalog()?, core.search_path()?);
    match reg_type {
        types::REGCLASS => {
            let (schema, name) = split(text)?;
            if let Some(schema) = &schema
                && catalog.resolve_namespace(&path, schema).is_none()
            {
                return Err(err!(UNDEFINED_TABLE, "relation \"{schema}.{name}\" does not exist"));
            }
            catalog.resolve_relation(&path, schema.as_deref(), &name).map(|relation| relation.oid).ok_or_else(
                || {
                    let full = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
                    err!(UNDEFINED_TABLE, "relation \"{full}\" does not exist")
                },
            )
        }
        types::REGTYPE => core.parse_type(text).map(|(oid, _)| oid),
        types::REGPROC => {
            let (schema, name) = split(text)?;
            let found = find_procs(&catalog, &path, schema.as_deref(), &name)?;
            match found.as_slice() {
                [] => Err(err!(UNDEFINED_FUNCTION, "function \"{text}\" does not exist")),
                [one] => Ok(one.oid),
                _ => Err(err!(AMBIGUOUS_FUNCTION, "more than one function named \"{text}\"")),
            }
        }
        types::REGPROCEDURE => {
            let (name, arguments) = text
                .split_once('(')
                .and_then(|(name, rest)| Some((name, rest.trim_end().strip_suffix(')')?)))
                .ok_or_else(|| err!(INVALID_TEXT_REPRESENTATION, "expected a left parenthesis"))?;
            let (schema, name) = split(name)?;
            let arguments = arguments
                .split(',')
                .map(str::trim)
                .filter(|argument| !argument.is_empty())
                .map(|argument| core.parse_type(argument).map(|(oid, _)| oid))
                .collect::<Result<Vec<_>>>()?;
            find_procs(&catalog, &path, schema.as_deref(), &name)?
                .into_iter()
                .find(|proc| proc.arg_types == arguments)
                .map(|proc| proc.oid)
                .ok_or_else(|| err!(UNDEFINED_FUNCTION, "function \"{text}\" does not exist"))
        }
        types::REGOPER | types::REGOPERATOR => {
            let (name, sides) = match text.split_once('(') {
                Some((name, rest)) => (name.trim(), rest.trim_end().strip_suffix(')')),
                None => (text.trim(), None),
            };
            let missing = || err!(UNDEFINED_FUNCTION, "operator does not exist: {text}");
            let name = match name.rsplit_once('.') {
                Some((schema, name)) => {
                    // All operators are PostgreSQL's own.
                    let schema = unqualified(schema)?;
                    match namespace_named(&catalog, &path, &schema) {
                        Ok(namespaces::PG_CATALOG) => name,
                        Ok(_) => return Err(missing()),
                        Err(_) if reg_type == types::REGOPERATOR => return Err(missing()),
                        Err(error) => return Err(error),
                    }
                }
                None => name,
            };
            match sides.and_then(|sides| sides.split_once(',')) {
                Some((left, right)) => {
                    let side = |text: &str| {
                        if text.trim().eq_ignore_ascii_case("none") {
                            Ok(0)
                        } else {
                            core.parse_type(text.trim()).map(|(oid, _)| oid)
                        }
                    };
                    catalog
                        .operator_by(name, side(left)?, side(right)?)
                        .map(|operator| operator.oid)
                        .ok_or_else(missing)
                }
                None => match catalog.operators_by_name(name) {
                    [] => Err(missing()),
                    [one] => Ok(one.oid),
                    _ => Err(err!(AMBIGUOUS_FUNCTION, "more than one operator named {text}")),
                },
            }
        }
        types::REGNAMESPACE => {
            let name = unqualified(text)?;
            catalog
                .resolve_namespace(&path, &name)
                .ok_or_else(|| err!(INVALID_SCHEMA_NAME, "schema \"{name}\" does not exist"))
        }
        types::REGROLE => {
            let name = unqualified(text)?;
            core.role(&name).map(|user| user.oid)
        }
        types::REGCOLLATION => {
            let (schema, name) = split(text)?;
            let namespace =
                schema.as_deref().map(|schema| namespace_named(&catalog, &path, schema)).transpose()?;
            // All collations are PostgreSQL's own.
            let found = catalog
                .collation_by_name(&name)
                .filter(|_| namespace.is_none_or(|namespace| namespace == namespaces::PG_CATALOG));
            found.map(|collation| collation.oid).ok_or_else(|| {
                let full = schema.map_or_else(|| name.clone(), |schema| format!("{schema}.{name}"));
                err!(UNDEFINED_OBJECT, "collation \"{full}\" for encoding \"UTF8\" does not exist")
            })
        }
        _ => Err(Error::unsupported("text search objects are")),
    }
}

/// A name that no schema can stand before.
fn unqualified(text: &str) -> Result<String> {
    match split(text)? {
        (None, name) => Ok(name),
        (Some(_), _) => Err(err!(INVALID_NAME, "invalid name syntax")),
    }
}

fn namespace_named(catalog: &Catalog, path: &cairn_catalog::SearchPath, schema: &str) -> Result<Oid> {
    catalog
        .resolve_namespace(path, schema)
        .ok_or_else(|| err!(INVALID_SCHEMA_NAME, "schema \"{schema}\" does not exist"))
}

fn find_procs(
    catalog: &Catalog,
    path: &cairn_catalog::SearchPath,
    schema: Option<&str>,
    name: &str,
) -> Result<Vec<Arc<Proc>>> {
    let namespaces = match schema {
        Some(schema) => {
            let oid = catalog
                .resolve_namespace(path, schema)
                .ok_or_else(|| err!(INVALID_SCHEMA_NAME, "schema \"{schema}\" does not exist"))?;
            vec![oid]
        }
        None => path.namespaces.clone(),
    };
    Ok(catalog
        .procs_by_name(name)
        .iter()
        .filter(|proc| namespaces.contains(&proc.namespace))
        .cloned()
        .collect())
}

/// The relation that a statement names; 42P01 with its position, 3F000.
pub fn find_relation(core: &Core, range: &RangeVar) -> Result<Arc<Relation>> {
    let (catalog, path) = (core.catalog()?, core.search_path()?);
    if !range.catalogname.is_empty() && range.catalogname != core.database.info.name {
        return Err(err!(
            FEATURE_NOT_SUPPORTED,
            "cross-database references are not implemented: \"{}.{}.{}\"",
            range.catalogname,
            range.schemaname,
            range.relname
        )
        .at(range.location));
    }
    let schema = (!range.schemaname.is_empty()).then_some(range.schemaname.as_str());
    match catalog.resolve_relation(&path, schema, &range.relname) {
        Some(relation) => Ok(Arc::clone(relation)),
        None => {
            let full = match schema {
                Some(schema) => format!("{schema}.{}", range.relname),
                None => range.relname.clone(),
            };
            Err(err!(UNDEFINED_TABLE, "relation \"{full}\" does not exist"))
        }
    }
}
