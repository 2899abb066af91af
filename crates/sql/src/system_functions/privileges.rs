//! has_*_privilege, pg_has_role, aclexplode: what a role may do to an object.
//!
//! All has_*_privilege functions take `[user,] object [, column], privileges`, each of user and object by name or oid;
//! which of them a call has follows from its arguments' forms. The privileges are a list: one of them is enough. The
//! answers are those of [`crate::rights`], which also decides whether statements run.

use cairn_catalog::acl::{self, Acl, ObjectKind, PUBLIC, Privileges};
use cairn_types::{Datum, Oid, Result, err, types};

use super::{Arguments, System};
use crate::rights::{Rights, Roles};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object(ObjectKind),
    AnyColumn,
}

const KINDS: &[(&str, Kind)] = &[
    ("any_column", Kind::AnyColumn),
    ("column", Kind::Object(ObjectKind::Column)),
    ("database", Kind::Object(ObjectKind::Database)),
    ("foreign_data_wrapper", Kind::Object(ObjectKind::ForeignDataWrapper)),
    ("function", Kind::Object(ObjectKind::Function)),
    ("language", Kind::Object(ObjectKind::Language)),
    ("parameter", Kind::Object(ObjectKind::Parameter)),
    ("schema", Kind::Object(ObjectKind::Schema)),
    ("sequence", Kind::Object(ObjectKind::Sequence)),
    ("server", Kind::Object(ObjectKind::Server)),
    ("table", Kind::Object(ObjectKind::Table)),
    ("tablespace", Kind::Object(ObjectKind::Tablespace)),
    ("type", Kind::Object(ObjectKind::Type)),
];

impl Kind {
    fn object(self) -> ObjectKind {
        match self {
            Kind::Object(kind) => kind,
            Kind::AnyColumn => ObjectKind::Column,
        }
    }
}

/// A privilege asked for; none of any bit for one that is no more (RULE).
struct Wanted {
    privilege: Privileges,
    grantable: bool,
}

impl Wanted {
    fn is_in(&self, (privileges, options): (Privileges, Privileges)) -> bool {
        self.privilege & if self.grantable { options } else { privileges } != 0
    }
}

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    if system.name.starts_with("pg_has_role_") {
        return system.has_role(a).map(Some);
    }
    if system.name == "aclexplode" {
        return aclexplode(system, a).map(Some);
    }
    if system.name == "acldefault_sql" {
        return system.default_list(a).map(Some);
    }
    let Some(rest) = system.name.strip_prefix("has_") else { return Ok(None) };
    let Some((name, _)) = rest.split_once("_privilege") else { return Ok(None) };
    let Some((_, kind)) = KINDS.iter().find(|(candidate, _)| *candidate == name) else { return Ok(None) };
    system.has_privilege(*kind, a).map(Some)
}

/// `SELECT, UPDATE with grant option`.
fn wanted(kind: ObjectKind, text: &str) -> Result<Vec<Wanted>> {
    text.split(',')
        .map(|part| {
            let upper = part.trim().to_ascii_uppercase();
            let (name, grantable) = match upper.strip_suffix(" WITH GRANT OPTION") {
                Some(name) => (name, true),
                None => (upper.as_str(), false),
            };
            if name == "RULE" && kind == ObjectKind::Table {
                return Ok(Wanted { privilege: 0, grantable });
            }
            match acl::by_name(name).filter(|bit| kind.all() & bit != 0) {
                Some(privilege) => Ok(Wanted { privilege, grantable }),
                None => {
                    Err(err!(INVALID_PARAMETER_VALUE, "unrecognized privilege type: \"{}\"", part.trim()))
                }
            }
        })
        .collect()
}

impl System<'_> {
    fn roles(&self) -> std::rc::Rc<Roles> {
        self.host.roles()
    }

    pub(super) fn rights(&self) -> Rights {
        Rights { roles: self.roles(), catalog: std::sync::Arc::clone(&self.catalog) }
    }

    fn role_named(&self, name: &str) -> Result<Oid> {
        if let Some(oid) = self.roles().by_name(name) {
            return Ok(oid);
        }
        // A name that is no role, but connected from this machine, acts for the role that owns everything.
        if name == &*self.env.current_user() || name == &*self.env.session_user() {
            return Ok(self.host.current_user_oid());
        }
        Err(err!(UNDEFINED_OBJECT, "role \"{name}\" does not exist"))
    }

    /// A role as an argument; `public` is everybody. `None` for an oid that is no role.
    fn role_argument(&self, value: &Datum, allow_public: bool) -> Result<Option<Oid>> {
        match value {
            Datum::Text(name) if allow_public && &**name == "public" => Ok(Some(PUBLIC)),
            Datum::Text(name) => self.role_named(name).map(Some),
            Datum::Oid(PUBLIC) if allow_public => Ok(Some(PUBLIC)),
            Datum::Oid(oid) => Ok(self.roles().role(*oid).map(|_| *oid)),
            _ => Ok(None),
        }
    }

    /// `pg_get_userbyid`.
    pub(super) fn role_name(&self, oid: Oid) -> Option<cairn_types::Text> {
        self.roles().name(oid)
    }

    fn has_role(&self, a: &Arguments<'_>) -> Result<Datum> {
        let explicit = a.len() == 3;
        let user =
            if explicit { self.role_argument(a.any(0), false)? } else { Some(self.host.current_user_oid()) };
        let rest = a.from(usize::from(explicit));
        let role = self.role_argument(rest.any(0), false)?;
        let (Some(user), Some(role)) = (user, role) else { return Ok(Datum::Null) };
        let mut any = false;
        for part in rest.str(1)?.split(',') {
            let upper = part.trim().to_ascii_uppercase();
            any |= match upper.as_str() {
                "MEMBER" => self.roles().is_member(user, role),
                "USAGE" => self.roles().has_privileges_of(user, role),
                "MEMBER WITH GRANT OPTION"
                | "MEMBER WITH ADMIN OPTION"
                | "USAGE WITH GRANT OPTION"
                | "USAGE WITH ADMIN OPTION" => self.roles().is_admin(user, role),
                _ => {
                    return Err(err!(
                        INVALID_PARAMETER_VALUE,
                        "unrecognized privilege type: \"{}\"",
                        part.trim()
                    ));
                }
            };
        }
        Ok(Datum::Bool(any))
    }

    fn has_privilege(&self, kind: Kind, a: &Arguments<'_>) -> Result<Datum> {
        let is_column = kind == Kind::Object(ObjectKind::Column);
        let arguments = if is_column { 3 } else { 2 };
        let explicit = a.len() > arguments;
        let user =
            if explicit { self.role_argument(a.any(0), true)? } else { Some(self.host.current_user_oid()) };
        let rest = a.from(usize::from(explicit));
        let Some(user) = user else { return Ok(Datum::Null) };
        let object = self.object_argument(kind.object(), rest.any(0))?;
        let column = if is_column { Some(self.column_argument(object, rest.any(1))?) } else { None };
        let wanted = wanted(kind.object(), rest.str(arguments - 1)?)?;
        let rights = self.rights();
        use ObjectKind::{Column, ForeignDataWrapper, Parameter, Server, Table, Tablespace};
        let looks_at_columns = matches!(kind, Kind::AnyColumn | Kind::Object(Column));
        let kind = match kind.object() {
            // There is nothing of these kinds that could be granted: the superuser's.
            ForeignDataWrapper | Server | Parameter | Tablespace => {
                return Ok(Datum::Bool(user != PUBLIC && rights.roles.is_superuser(user)));
            }
            Column => Table,
            other => other,
        };
        if rights.row(kind, object).is_none() || column == Some(None) {
            return Ok(Datum::Null);
        }
        let whole = rights.privileges(user, kind, object);
        let mut allowed = wanted.iter().any(|wanted| wanted.is_in(whole));
        if !allowed && looks_at_columns {
            let columns = match column.flatten() {
                Some(column) => vec![column],
                None => rights.live_columns(object),
            };
            let by_column = |column: i16| {
                let has = rights.column_privileges(user, object, column);
                wanted.iter().any(|wanted| wanted.is_in(has))
            };
            allowed = columns.into_iter().any(by_column);
        }
        Ok(Datum::Bool(allowed))
    }

    /// `acldefault(kind, owner)`: the list that an object without one has.
    fn default_list(&self, a: &Arguments<'_>) -> Result<Datum> {
        let code = a.char(0)?;
        let kind = match code {
            b'r' => ObjectKind::Table,
            b's' => ObjectKind::Sequence,
            b'd' => ObjectKind::Database,
            b'f' => ObjectKind::Function,
            b'l' => ObjectKind::Language,
            b'n' => ObjectKind::Schema,
            b'T' => ObjectKind::Type,
            b'c' => ObjectKind::Column,
            b't' => ObjectKind::Tablespace,
            b'F' => ObjectKind::ForeignDataWrapper,
            b'S' => ObjectKind::Server,
            b'p' => ObjectKind::Parameter,
            _ => {
                return Err(err!(
                    INVALID_PARAMETER_VALUE,
                    "unrecognized object type abbreviation: {}",
                    char::from(code)
                ));
            }
        };
        let items = Acl::default_of(kind, a.oid(1)?).items;
        Ok(super::values(types::ACLITEM, items.iter().map(|item| Datum::text(item.stored()))))
    }

    fn object_argument(&self, kind: ObjectKind, value: &Datum) -> Result<Oid> {
        let name = match value {
            Datum::Oid(oid) => return Ok(*oid),
            Datum::Text(name) => name,
            _ => return Ok(0),
        };
        match kind {
            ObjectKind::Table | ObjectKind::Column | ObjectKind::Sequence => {
                let oid = self.env.reg_lookup(types::REGCLASS, name)?;
                let is_sequence =
                    self.catalog.relation(oid).is_some_and(|relation| relation.sequence.is_some());
                if kind == ObjectKind::Sequence && !is_sequence {
                    return Err(err!(WRONG_OBJECT_TYPE, "\"{name}\" is not a sequence"));
                }
                Ok(oid)
            }
            ObjectKind::Database => self.database(name),
            ObjectKind::Function => self.env.reg_lookup(types::REGPROCEDURE, name),
            ObjectKind::Type => self.env.reg_lookup(types::REGTYPE, name),
            ObjectKind::Schema => self
                .catalog
                .resolve_namespace(&self.path, name)
                .ok_or_else(|| err!(INVALID_SCHEMA_NAME, "schema \"{name}\" does not exist")),
            ObjectKind::Language => self
                .catalog
                .language_by_name(name)
                .ok_or_else(|| err!(UNDEFINED_OBJECT, "language \"{name}\" does not exist")),
            ObjectKind::ForeignDataWrapper => {
                Err(err!(UNDEFINED_OBJECT, "foreign-data wrapper \"{name}\" does not exist"))
            }
            ObjectKind::Server => Err(err!(UNDEFINED_OBJECT, "server \"{name}\" does not exist")),
            ObjectKind::Tablespace if matches!(&**name, "pg_default" | "pg_global") => Ok(0),
            ObjectKind::Tablespace => Err(err!(UNDEFINED_OBJECT, "tablespace \"{name}\" does not exist")),
            ObjectKind::Parameter => Ok(0),
        }
    }

    /// `None` for a number that no column has.
    fn column_argument(&self, table: Oid, value: &Datum) -> Result<Option<i16>> {
        let Some(relation) = self.catalog.relation(table) else { return Ok(None) };
        let mut live = relation.columns.iter().filter(|column| !column.dropped);
        match value {
            Datum::Int2(number) => {
                Ok(live.find(|column| column.attnum == *number).map(|column| column.attnum))
            }
            Datum::Text(name) => match live.find(|column| column.name == *name) {
                Some(column) => Ok(Some(column.attnum)),
                None => Err(err!(
                    UNDEFINED_COLUMN,
                    "column \"{name}\" of relation \"{}\" does not exist",
                    relation.name
                )),
            },
            _ => Ok(None),
        }
    }
}

/// Columns grantor, grantee, privilege_type, is_grantable.
fn aclexplode(system: &System<'_>, a: &Arguments<'_>) -> Result<Datum> {
    let roles = system.roles();
    let mut rows = Vec::new();
    for item in Acl::read(&a.array(0)?.elements, &|name| roles.by_name(name)).items {
        for (_, name, bit) in acl::ALL.iter().filter(|(_, _, bit)| item.privileges & bit != 0) {
            rows.push(vec![
                Datum::Oid(item.grantor),
                Datum::Oid(item.grantee),
                Datum::text(*name),
                Datum::Bool(item.options & bit != 0),
            ]);
        }
    }
    Ok(system.rows(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_privileges() {
        assert_eq!(wanted(ObjectKind::Table, "select, UPDATE with grant option").unwrap().len(), 2);
        assert!(wanted(ObjectKind::Table, "usage").is_err());
        assert!(wanted(ObjectKind::Schema, "usage,create").is_ok());
    }
}
