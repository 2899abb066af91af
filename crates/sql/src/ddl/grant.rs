//! GRANT and REVOKE on objects: the access privilege lists of the catalogs, as PostgreSQL writes them
//! (manual, section 5.7): `grantee=privileges/grantor`, the grantee empty for PUBLIC, `*` behind what may be passed on.

use std::sync::Arc;

use cairn_catalog::columns::*;
use cairn_catalog::system_table::array_of;
use cairn_catalog::{Relation, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::TableLockMode;
use cairn_types::{Datum, Error, Oid, Result, Text, err, types};
use pg_query::protobuf::{self, GrantTargetType, ObjectType, RoleSpecType, node::Node as NodeEnum};

use super::context::DdlContext;
use super::names;
use super::node::{inner, string, strings};

/// Privileges by letter, in the order in which lists show them.
const WORDS: &[(&str, char)] = &[
    ("insert", 'a'),
    ("select", 'r'),
    ("update", 'w'),
    ("delete", 'd'),
    ("truncate", 'D'),
    ("references", 'x'),
    ("trigger", 't'),
    ("execute", 'X'),
    ("usage", 'U'),
    ("create", 'C'),
    ("temporary", 'T'),
    ("temp", 'T'),
    ("connect", 'c'),
];

const ORDER: &str = "arwdDxtXUCTc";

/// One kind of object: all its privileges, what its owner and PUBLIC have without a list, and where the list is.
struct Kind {
    name: &'static str,
    all: &'static str,
    public: &'static str,
    catalog: Oid,
    owner_column: usize,
    acl_column: usize,
}

const TABLE: Kind = Kind {
    name: "relation",
    all: "arwdDxt",
    public: "",
    catalog: pg_class::TABLE,
    owner_column: pg_class::RELOWNER,
    acl_column: pg_class::RELACL,
};
const SEQUENCE: Kind = Kind { name: "sequence", all: "rwU", ..TABLE };
const SCHEMA: Kind = Kind {
    name: "schema",
    all: "UC",
    public: "",
    catalog: pg_namespace::TABLE,
    owner_column: pg_namespace::NSPOWNER,
    acl_column: pg_namespace::NSPACL,
};
const FUNCTION: Kind = Kind {
    name: "function",
    all: "X",
    public: "X",
    catalog: pg_proc::TABLE,
    owner_column: pg_proc::PROOWNER,
    acl_column: pg_proc::PROACL,
};
const TYPE: Kind = Kind {
    name: "type",
    all: "U",
    public: "U",
    catalog: pg_type::TABLE,
    owner_column: pg_type::TYPOWNER,
    acl_column: pg_type::TYPACL,
};

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    /// `None`: PUBLIC.
    grantee: Option<Text>,
    grantor: Text,
    /// Letter, and whether it may be passed on.
    privileges: Vec<(char, bool)>,
}

impl Item {
    fn parse(text: &str) -> Option<Item> {
        let (grantee, rest) = text.split_once('=')?;
        let (letters, grantor) = rest.split_once('/')?;
        let mut privileges: Vec<(char, bool)> = Vec::new();
        for letter in letters.chars() {
            if letter == '*' {
                privileges.last_mut()?.1 = true;
            } else {
                privileges.push((letter, false));
            }
        }
        let grantee = (!grantee.is_empty()).then(|| Text::from(unquote(grantee)));
        Some(Item { grantee, grantor: unquote(grantor).into(), privileges })
    }

    fn text(&self) -> String {
        let mut privileges = self.privileges.clone();
        privileges.sort_by_key(|(letter, _)| ORDER.find(*letter));
        let letters: String = privileges
            .iter()
            .map(|(letter, option)| if *option { format!("{letter}*") } else { letter.to_string() })
            .collect();
        let grantee = self.grantee.as_deref().map_or_else(String::new, quote);
        format!("{grantee}={letters}/{}", quote(&self.grantor))
    }
}

/// Names in lists are quoted only where they have other characters than these.
fn quote(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

fn unquote(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

pub fn grant(cx: &mut DdlContext<'_>, statement: &protobuf::GrantStmt) -> Result<()> {
    if statement.targtype() == GrantTargetType::AclTargetDefaults {
        return Err(Error::unsupported("ALTER DEFAULT PRIVILEGES is"));
    }
    let grantees = grantees(cx, statement)?;
    for (kind, oid) in targets(cx, statement)? {
        let letters = letters(statement, kind)?;
        change(cx, kind, oid, statement, &grantees, &letters)?;
    }
    Ok(())
}

fn grantees(cx: &DdlContext<'_>, statement: &protobuf::GrantStmt) -> Result<Vec<Option<Text>>> {
    let mut result = Vec::new();
    for node in &statement.grantees {
        let NodeEnum::RoleSpec(spec) = inner(node)? else { continue };
        if spec.roletype() == RoleSpecType::RolespecPublic {
            if statement.grant_option && statement.is_grant {
                return Err(err!(INVALID_GRANT_OPERATION, "grant options can only be granted to roles"));
            }
            result.push(None);
            continue;
        }
        let oid = super::node::role(cx, spec)?;
        result.push(Some(cx.role_name(oid).unwrap_or_else(|| Text::from(""))));
    }
    Ok(result)
}

/// The letters of the privileges that were named. 0LP01 for one that the kind does not have.
fn letters(statement: &protobuf::GrantStmt, kind: &Kind) -> Result<Vec<char>> {
    if statement.privileges.is_empty() {
        return Ok(kind.all.chars().collect());
    }
    let mut result = Vec::new();
    for node in &statement.privileges {
        let NodeEnum::AccessPriv(privilege) = inner(node)? else { continue };
        if !privilege.cols.is_empty() {
            return Err(Error::unsupported("privileges on columns are"));
        }
        let word = privilege.priv_name.to_ascii_lowercase();
        let letter = WORDS.iter().find(|(known, _)| *known == word).map(|(_, letter)| *letter);
        let letter = letter.ok_or_else(|| err!(SYNTAX_ERROR, "unrecognized privilege type \"{word}\""))?;
        if !kind.all.contains(letter) {
            return Err(err!(
                INVALID_GRANT_OPERATION,
                "invalid privilege type {} for {}",
                word.to_uppercase(),
                kind.name
            ));
        }
        result.push(letter);
    }
    Ok(result)
}

fn relation_kind(relation: &Relation) -> &'static Kind {
    if relation.kind == RelationKind::Sequence { &SEQUENCE } else { &TABLE }
}

/// The objects that the statement is about.
fn targets(cx: &mut DdlContext<'_>, statement: &protobuf::GrantStmt) -> Result<Vec<(&'static Kind, Oid)>> {
    let in_schema = statement.targtype() == GrantTargetType::AclTargetAllInSchema;
    let mut result = Vec::new();
    for node in &statement.objects {
        if in_schema {
            let name = string(node).unwrap_or("");
            let namespace = names::namespace(cx, name)?;
            all_in_schema(cx, statement.objtype(), namespace, &mut result)?;
            continue;
        }
        match statement.objtype() {
            ObjectType::ObjectTable | ObjectType::ObjectSequence => {
                let NodeEnum::RangeVar(name) = inner(node)? else { continue };
                let relation: Arc<Relation> = names::open(cx, name, TableLockMode::AccessShare)?;
                if relation.oid < cairn_types::oid::FIRST_USER_OID {
                    return Err(Error::unsupported("privileges on system catalogs are"));
                }
                if relation.kind == RelationKind::Index {
                    return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is an index", relation.name));
                }
                if statement.objtype() == ObjectType::ObjectSequence
                    && relation.kind != RelationKind::Sequence
                {
                    return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a sequence", relation.name));
                }
                result.push((relation_kind(&relation), relation.oid));
            }
            ObjectType::ObjectSchema => {
                result.push((&SCHEMA, names::namespace(cx, string(node).unwrap_or(""))?));
            }
            kind @ (ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine) => {
                let NodeEnum::ObjectWithArgs(signature) = inner(node)? else { continue };
                let found = super::function::find(cx, signature, kind, false)?;
                let proc = found.ok_or_else(|| Error::internal("a function that is not there"))?;
                if proc.oid < cairn_types::oid::FIRST_USER_OID {
                    return Err(Error::unsupported("privileges on system functions are"));
                }
                result.push((&FUNCTION, proc.oid));
            }
            ObjectType::ObjectType | ObjectType::ObjectDomain => {
                let parts = strings(super::node::list(node));
                let (schema, name) = match parts.as_slice() {
                    [schema, name] => (Some(&**schema), name),
                    [name] => (None, name),
                    _ => return Err(Error::internal("a type without a name")),
                };
                let object = cx.catalog.resolve_type(&cx.search_path, schema, name);
                let object =
                    object.ok_or_else(|| err!(UNDEFINED_OBJECT, "type \"{name}\" does not exist"))?;
                result.push((&TYPE, object.oid));
            }
            ObjectType::ObjectLanguage => {
                let name = string(node).unwrap_or("");
                if cx.catalog.language_by_name(name).is_none() {
                    return Err(err!(UNDEFINED_OBJECT, "language \"{name}\" does not exist"));
                }
                return Err(Error::unsupported("privileges on languages are"));
            }
            ObjectType::ObjectDatabase => return Err(Error::unsupported("privileges on databases are")),
            _ => return Err(Error::unsupported("privileges on this kind of object are")),
        }
    }
    Ok(result)
}

fn all_in_schema(
    cx: &DdlContext<'_>,
    kind: ObjectType,
    namespace: Oid,
    result: &mut Vec<(&'static Kind, Oid)>,
) -> Result<()> {
    match kind {
        ObjectType::ObjectTable | ObjectType::ObjectSequence => {
            let sequences = kind == ObjectType::ObjectSequence;
            let relations = cx.catalog.user_relations().filter(|relation| {
                relation.namespace == namespace
                    && match relation.kind {
                        RelationKind::Sequence => sequences,
                        RelationKind::Table | RelationKind::View | RelationKind::MaterializedView => {
                            !sequences
                        }
                        _ => false,
                    }
            });
            result.extend(relations.map(|relation| (relation_kind(relation), relation.oid)));
            Ok(())
        }
        ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine => {
            let procs = cx.catalog.user_procs().filter(|proc| {
                proc.namespace == namespace
                    && match kind {
                        ObjectType::ObjectFunction => proc.kind != cairn_catalog::ProcKind::Procedure,
                        ObjectType::ObjectProcedure => proc.kind == cairn_catalog::ProcKind::Procedure,
                        _ => true,
                    }
            });
            result.extend(procs.map(|proc| (&FUNCTION, proc.oid)));
            Ok(())
        }
        _ => Err(Error::unsupported("privileges on all objects of this kind are")),
    }
}

/// Changes one object's list.
fn change(
    cx: &mut DdlContext<'_>,
    kind: &Kind,
    oid: Oid,
    statement: &protobuf::GrantStmt,
    grantees: &[Option<Text>],
    letters: &[char],
) -> Result<()> {
    let row =
        cx.catalog.row_by_oid(kind.catalog, oid).ok_or_else(|| Error::internal("an object without a row"))?;
    let owner = cx.role_name(row.oid(kind.owner_column)).unwrap_or_else(|| Text::from("postgres"));
    let mut items: Vec<Item> = match row.datum(kind.acl_column) {
        Datum::Array(_) => row.texts(kind.acl_column).iter().filter_map(|text| Item::parse(text)).collect(),
        _ => default_items(kind, &owner),
    };
    for grantee in grantees {
        apply(&mut items, grantee, &owner, statement, letters);
    }
    items.retain(|item| !item.privileges.is_empty());
    let acl = array_of(types::ACLITEM, items.iter().map(|item| Datum::text(item.text())).collect());
    let mut row = row.to_vec();
    row[kind.acl_column] = acl;
    cx.change(|writer| writer.put(kind.catalog, row).sql())
}

/// What holds while there is no list.
fn default_items(kind: &Kind, owner: &Text) -> Vec<Item> {
    let privileges = |letters: &str| letters.chars().map(|letter| (letter, false)).collect();
    let mut items = Vec::new();
    if !kind.public.is_empty() {
        items.push(Item { grantee: None, grantor: owner.clone(), privileges: privileges(kind.public) });
    }
    items.push(Item {
        grantee: Some(owner.clone()),
        grantor: owner.clone(),
        privileges: privileges(kind.all),
    });
    items
}

fn apply(
    items: &mut Vec<Item>,
    grantee: &Option<Text>,
    grantor: &Text,
    statement: &protobuf::GrantStmt,
    letters: &[char],
) {
    let position = items.iter().position(|item| item.grantee == *grantee && item.grantor == *grantor);
    if !statement.is_grant {
        let Some(item) = position.and_then(|position| items.get_mut(position)) else { return };
        if statement.grant_option {
            for (letter, option) in &mut item.privileges {
                *option &= !letters.contains(letter);
            }
        } else {
            item.privileges.retain(|(letter, _)| !letters.contains(letter));
        }
        return;
    }
    let position = position.unwrap_or_else(|| {
        items.push(Item { grantee: grantee.clone(), grantor: grantor.clone(), privileges: Vec::new() });
        items.len() - 1
    });
    let Some(item) = items.get_mut(position) else { return };
    for letter in letters {
        match item.privileges.iter_mut().find(|(known, _)| known == letter) {
            Some((_, option)) => *option |= statement.grant_option,
            None => item.privileges.push((*letter, statement.grant_option)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_and_written() {
        for text in ["postgres=arwdDxt/postgres", "=r/postgres", "bob=r*w/postgres", "\"a b\"=X/postgres"] {
            assert_eq!(Item::parse(text).unwrap().text(), text);
        }
        assert_eq!(Item::parse("nonsense"), None);
    }
}
