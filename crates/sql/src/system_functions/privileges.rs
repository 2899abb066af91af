//! has_*_privilege, pg_has_role, aclexplode: what a role may do to an object.
//!
//! All has_*_privilege functions take `[user,] object [, column], privileges`, each of user and object by name or oid;
//! which of them a call has follows from its arguments' forms. The privileges are a list: one of them is enough.
//!
//! An access list is an array of `grantee=privileges/grantor`, a `*` behind a privilege meaning that it may be granted
//! on; an empty grantee is everybody. Where an object has no list, its owner has all, and everybody has what PostgreSQL
//! gives by default (manual, section 5.7).

use cairn_catalog::columns::{
    pg_attribute, pg_auth_members, pg_authid, pg_class, pg_database, pg_language, pg_namespace, pg_proc,
    pg_type,
};
use cairn_catalog::{CatalogRow, RowExt};
use cairn_types::oid::BOOTSTRAP_ROLE;
use cairn_types::quote::quote_identifier;
use cairn_types::{Datum, Oid, Result, err, types};

use super::{Arguments, System};

/// Everybody.
const PUBLIC: Oid = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table,
    Column,
    AnyColumn,
    Sequence,
    Database,
    Function,
    Language,
    Schema,
    Type,
    Tablespace,
    ForeignDataWrapper,
    Server,
    Parameter,
}

const KINDS: &[(&str, Kind)] = &[
    ("any_column", Kind::AnyColumn),
    ("column", Kind::Column),
    ("database", Kind::Database),
    ("foreign_data_wrapper", Kind::ForeignDataWrapper),
    ("function", Kind::Function),
    ("language", Kind::Language),
    ("parameter", Kind::Parameter),
    ("schema", Kind::Schema),
    ("sequence", Kind::Sequence),
    ("server", Kind::Server),
    ("table", Kind::Table),
    ("tablespace", Kind::Tablespace),
    ("type", Kind::Type),
];

/// Name and letter of each privilege.
const PRIVILEGES: &[(&str, u8)] = &[
    ("INSERT", b'a'),
    ("SELECT", b'r'),
    ("UPDATE", b'w'),
    ("DELETE", b'd'),
    ("TRUNCATE", b'D'),
    ("REFERENCES", b'x'),
    ("TRIGGER", b't'),
    ("EXECUTE", b'X'),
    ("USAGE", b'U'),
    ("CREATE", b'C'),
    ("TEMPORARY", b'T'),
    ("TEMP", b'T'),
    ("CONNECT", b'c'),
    ("SET", b's'),
    ("ALTER SYSTEM", b'A'),
    ("RULE", 0),
];

impl Kind {
    /// The letters that make sense for it.
    fn letters(self) -> &'static [u8] {
        match self {
            Kind::Table => b"arwdDxt\0",
            Kind::Column | Kind::AnyColumn => b"arwx",
            Kind::Sequence => b"rwU",
            Kind::Database => b"CTc",
            Kind::Function => b"X",
            Kind::Schema => b"UC",
            Kind::Tablespace => b"C",
            Kind::Parameter => b"sA",
            Kind::Language | Kind::Type | Kind::ForeignDataWrapper | Kind::Server => b"U",
        }
    }

    /// What everybody has where no list says otherwise.
    fn public_letters(self) -> &'static [u8] {
        match self {
            Kind::Database => b"Tc",
            Kind::Function => b"X",
            Kind::Language | Kind::Type => b"U",
            _ => b"",
        }
    }
}

/// A privilege asked for.
struct Wanted {
    letter: u8,
    grantable: bool,
}

/// Owner and access list of an object.
struct Access {
    owner: Oid,
    /// `None`: the default.
    list: Option<Vec<Datum>>,
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
fn wanted(kind: Kind, text: &str) -> Result<Vec<Wanted>> {
    text.split(',')
        .map(|part| {
            let upper = part.trim().to_ascii_uppercase();
            let (name, grantable) = match upper.strip_suffix(" WITH GRANT OPTION") {
                Some(name) => (name, true),
                None => (upper.as_str(), false),
            };
            let known = PRIVILEGES
                .iter()
                .find(|(candidate, letter)| *candidate == name && kind.letters().contains(letter));
            match known {
                Some((_, letter)) => Ok(Wanted { letter: *letter, grantable }),
                None => {
                    Err(err!(INVALID_PARAMETER_VALUE, "unrecognized privilege type: \"{}\"", part.trim()))
                }
            }
        })
        .collect()
}

impl System<'_> {
    fn role_named(&self, name: &str) -> Result<Oid> {
        let rows = self.catalog.system_rows(pg_authid::TABLE);
        if let Some(row) = rows.iter().find(|row| row.str(pg_authid::ROLNAME) == name) {
            return Ok(row.oid(pg_authid::OID));
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
            Datum::Oid(oid) => Ok(self.role_row(*oid).map(|_| *oid)),
            _ => Ok(None),
        }
    }

    fn role_row(&self, oid: Oid) -> Option<CatalogRow> {
        self.catalog.system_rows(pg_authid::TABLE).into_iter().find(|row| row.oid(pg_authid::OID) == oid)
    }

    /// `pg_get_userbyid`.
    pub(super) fn role_name(&self, oid: Oid) -> Option<cairn_types::Text> {
        self.role_row(oid).map(|row| row.text(pg_authid::ROLNAME))
    }

    fn is_superuser(&self, role: Oid) -> bool {
        role == BOOTSTRAP_ROLE || self.role_row(role).is_some_and(|row| row.bool(pg_authid::ROLSUPER))
    }

    /// The roles whose privileges a role has: itself and, through memberships, others. `inherited`: only where it need
    /// not say SET ROLE.
    fn roles_of(&self, role: Oid, inherited: bool) -> Vec<Oid> {
        let members = self.catalog.system_rows(pg_auth_members::TABLE);
        let mut all = vec![role];
        let mut next = 0;
        while let Some(&current) = all.get(next) {
            next += 1;
            if inherited && self.role_row(current).is_some_and(|row| !row.bool(pg_authid::ROLINHERIT)) {
                continue;
            }
            for row in members.iter().filter(|row| row.oid(pg_auth_members::MEMBER) == current) {
                let group = row.oid(pg_auth_members::ROLEID);
                if !all.contains(&group) {
                    all.push(group);
                }
            }
        }
        all
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
                "MEMBER" => self.is_superuser(user) || self.roles_of(user, false).contains(&role),
                "USAGE" => self.is_superuser(user) || self.roles_of(user, true).contains(&role),
                "MEMBER WITH GRANT OPTION"
                | "MEMBER WITH ADMIN OPTION"
                | "USAGE WITH GRANT OPTION"
                | "USAGE WITH ADMIN OPTION" => self.is_superuser(user) || self.is_admin(user, role),
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

    fn is_admin(&self, user: Oid, role: Oid) -> bool {
        let groups = self.roles_of(user, false);
        self.catalog.system_rows(pg_auth_members::TABLE).iter().any(|row| {
            row.oid(pg_auth_members::ROLEID) == role
                && groups.contains(&row.oid(pg_auth_members::MEMBER))
                && row.bool(pg_auth_members::ADMIN_OPTION)
        })
    }

    fn has_privilege(&self, kind: Kind, a: &Arguments<'_>) -> Result<Datum> {
        let arguments = if kind == Kind::Column { 3 } else { 2 };
        let explicit = a.len() > arguments;
        let user =
            if explicit { self.role_argument(a.any(0), true)? } else { Some(self.host.current_user_oid()) };
        let rest = a.from(usize::from(explicit));
        let Some(user) = user else { return Ok(Datum::Null) };
        let object = self.object_argument(kind, rest.any(0))?;
        let column = match kind {
            Kind::Column => Some(self.column_argument(object, rest.any(1))?),
            _ => None,
        };
        let wanted = wanted(kind, rest.str(arguments - 1)?)?;
        if matches!(kind, Kind::ForeignDataWrapper | Kind::Server | Kind::Parameter | Kind::Tablespace) {
            // There is nothing of these kinds that could be granted: the superuser's.
            return Ok(Datum::Bool(self.is_superuser(user)));
        }
        let Some(access) = self.access(kind, object) else { return Ok(Datum::Null) };
        if column == Some(None) {
            return Ok(Datum::Null);
        }
        let mut allowed = wanted.iter().any(|wanted| self.allows(kind, &access, user, wanted));
        if !allowed && matches!(kind, Kind::Column | Kind::AnyColumn) {
            let columns = self.catalog.system_rows(pg_attribute::TABLE);
            let own = columns.iter().filter(|row| {
                row.oid(pg_attribute::ATTRELID) == object
                    && row.int(pg_attribute::ATTNUM) > 0
                    && column
                        .flatten()
                        .is_none_or(|column| row.int(pg_attribute::ATTNUM) == i64::from(column))
            });
            for row in own.filter(|row| !row.datum(pg_attribute::ATTACL).is_null()) {
                let list = Some(row.elements(pg_attribute::ATTACL).to_vec());
                let access = Access { owner: access.owner, list };
                allowed |= wanted.iter().any(|wanted| self.allows(kind, &access, user, wanted));
            }
        }
        Ok(Datum::Bool(allowed))
    }

    /// `acldefault(kind, owner)`: the list that an object without one has.
    fn default_list(&self, a: &Arguments<'_>) -> Result<Datum> {
        let code = a.char(0)?;
        let kind = match code {
            b'r' => Kind::Table,
            b's' => Kind::Sequence,
            b'd' => Kind::Database,
            b'f' => Kind::Function,
            b'l' => Kind::Language,
            b'n' => Kind::Schema,
            b'T' => Kind::Type,
            b'c' => Kind::Column,
            b't' => Kind::Tablespace,
            b'F' => Kind::ForeignDataWrapper,
            b'S' => Kind::Server,
            b'p' => Kind::Parameter,
            _ => {
                return Err(err!(
                    INVALID_PARAMETER_VALUE,
                    "unrecognized object type abbreviation: {}",
                    char::from(code)
                ));
            }
        };
        let owner = self.role_name(a.oid(1)?).map_or_else(String::new, |name| quote_identifier(&name));
        let letters = |letters: &[u8]| -> String {
            letters.iter().filter(|letter| **letter != 0).map(|letter| char::from(*letter)).collect()
        };
        let mut items = Vec::new();
        if !kind.public_letters().is_empty() {
            items.push(format!("={}/{owner}", letters(kind.public_letters())));
        }
        // A column's privileges are its table's.
        if kind != Kind::Column {
            items.push(format!("{owner}={}/{owner}", letters(kind.letters())));
        }
        Ok(super::values(types::ACLITEM, items.into_iter().map(Datum::text)))
    }

    fn object_argument(&self, kind: Kind, value: &Datum) -> Result<Oid> {
        let name = match value {
            Datum::Oid(oid) => return Ok(*oid),
            Datum::Text(name) => name,
            _ => return Ok(0),
        };
        match kind {
            Kind::Table | Kind::Column | Kind::AnyColumn | Kind::Sequence => {
                let oid = self.env.reg_lookup(types::REGCLASS, name)?;
                let is_sequence =
                    self.catalog.relation(oid).is_some_and(|relation| relation.sequence.is_some());
                if kind == Kind::Sequence && !is_sequence {
                    return Err(err!(WRONG_OBJECT_TYPE, "\"{name}\" is not a sequence"));
                }
                Ok(oid)
            }
            Kind::Database => self.database(name),
            Kind::Function => self.env.reg_lookup(types::REGPROCEDURE, name),
            Kind::Type => self.env.reg_lookup(types::REGTYPE, name),
            Kind::Schema => self
                .catalog
                .resolve_namespace(&self.path, name)
                .ok_or_else(|| err!(INVALID_SCHEMA_NAME, "schema \"{name}\" does not exist")),
            Kind::Language => self
                .catalog
                .language_by_name(name)
                .ok_or_else(|| err!(UNDEFINED_OBJECT, "language \"{name}\" does not exist")),
            Kind::ForeignDataWrapper => {
                Err(err!(UNDEFINED_OBJECT, "foreign-data wrapper \"{name}\" does not exist"))
            }
            Kind::Server => Err(err!(UNDEFINED_OBJECT, "server \"{name}\" does not exist")),
            Kind::Tablespace if matches!(&**name, "pg_default" | "pg_global") => Ok(0),
            Kind::Tablespace => Err(err!(UNDEFINED_OBJECT, "tablespace \"{name}\" does not exist")),
            Kind::Parameter => Ok(0),
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

    /// `None` where there is no such object.
    fn access(&self, kind: Kind, object: Oid) -> Option<Access> {
        let (catalog, owner, list) = match kind {
            Kind::Database => (pg_database::TABLE, pg_database::DATDBA, pg_database::DATACL),
            Kind::Function => (pg_proc::TABLE, pg_proc::PROOWNER, pg_proc::PROACL),
            Kind::Language => (pg_language::TABLE, pg_language::LANOWNER, pg_language::LANACL),
            Kind::Schema => (pg_namespace::TABLE, pg_namespace::NSPOWNER, pg_namespace::NSPACL),
            Kind::Type => (pg_type::TABLE, pg_type::TYPOWNER, pg_type::TYPACL),
            _ => (pg_class::TABLE, pg_class::RELOWNER, pg_class::RELACL),
        };
        let row = match kind {
            Kind::Database => {
                let rows = self.catalog.system_rows(catalog);
                rows.into_iter().find(|row| row.oid(pg_database::OID) == object)?
            }
            _ => self.catalog.row_by_oid(catalog, object)?,
        };
        let list_value = row.datum(list);
        Some(Access {
            owner: row.oid(owner),
            list: (!list_value.is_null()).then(|| row.elements(list).to_vec()),
        })
    }

    fn allows(&self, kind: Kind, access: &Access, user: Oid, wanted: &Wanted) -> bool {
        if wanted.letter == 0 {
            return false;
        }
        if user != PUBLIC {
            if self.is_superuser(user) || self.roles_of(user, true).contains(&access.owner) {
                return true;
            }
        }
        let Some(list) = &access.list else {
            if wanted.grantable {
                return false;
            }
            return kind.public_letters().contains(&wanted.letter);
        };
        let roles = if user == PUBLIC { Vec::new() } else { self.roles_of(user, true) };
        let names: Vec<String> = roles
            .iter()
            .filter_map(|role| self.role_name(*role))
            .map(|name| quote_identifier(&name))
            .collect();
        list.iter().any(|item| {
            let Datum::Text(item) = item else { return false };
            let Some(entry) = AclItem::parse(item) else { return false };
            let applies = entry.grantee.is_empty() || names.iter().any(|name| name == entry.grantee);
            applies && entry.has(wanted)
        })
    }
}

/// `grantee=privileges/grantor`.
struct AclItem<'a> {
    grantee: &'a str,
    privileges: &'a str,
    grantor: &'a str,
}

impl<'a> AclItem<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        // A quoted name may contain anything.
        let equals = match text.strip_prefix('"') {
            Some(rest) => rest.find("\"=")? + 2,
            None => text.find('=')?,
        };
        let (grantee, rest) = (&text[..equals], &text[equals + 1..]);
        let (privileges, grantor) = rest.split_once('/')?;
        Some(AclItem { grantee, privileges, grantor })
    }

    /// Letter and whether it may be granted on.
    fn letters(&self) -> impl Iterator<Item = (u8, bool)> + '_ {
        let bytes = self.privileges.as_bytes();
        bytes
            .iter()
            .enumerate()
            .filter(|(_, letter)| **letter != b'*')
            .map(|(at, letter)| (*letter, bytes.get(at + 1) == Some(&b'*')))
    }

    fn has(&self, wanted: &Wanted) -> bool {
        self.letters().any(|(letter, grantable)| letter == wanted.letter && (grantable || !wanted.grantable))
    }
}

/// Columns grantor, grantee, privilege_type, is_grantable.
fn aclexplode(system: &System<'_>, a: &Arguments<'_>) -> Result<Datum> {
    let role = |name: &str| -> Datum {
        let plain = name.trim_matches('"').replace("\"\"", "\"");
        Datum::Oid(if plain.is_empty() { PUBLIC } else { system.role_named(&plain).unwrap_or(PUBLIC) })
    };
    let mut rows = Vec::new();
    for item in &a.array(0)?.elements {
        let Datum::Text(item) = item else { continue };
        let Some(entry) = AclItem::parse(item) else { continue };
        for (letter, grantable) in entry.letters() {
            let Some((name, _)) = PRIVILEGES.iter().find(|(_, candidate)| *candidate == letter) else {
                continue;
            };
            rows.push(vec![
                role(entry.grantor),
                role(entry.grantee),
                Datum::text(*name),
                Datum::Bool(grantable),
            ]);
        }
    }
    Ok(system.rows(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_access_lists() {
        let item = AclItem::parse("ann=r*w/postgres").unwrap();
        assert_eq!((item.grantee, item.grantor), ("ann", "postgres"));
        assert_eq!(item.letters().collect::<Vec<_>>(), [(b'r', true), (b'w', false)]);
        assert!(item.has(&Wanted { letter: b'r', grantable: true }));
        assert!(!item.has(&Wanted { letter: b'w', grantable: true }));
        assert_eq!(AclItem::parse("=U/\"a=b\"").unwrap().grantee, "");
        assert_eq!(AclItem::parse("\"a=b\"=U/x").unwrap().grantee, "\"a=b\"");
        assert!(AclItem::parse("nonsense").is_none());
    }

    #[test]
    fn lists_of_privileges() {
        assert_eq!(wanted(Kind::Table, "select, UPDATE with grant option").unwrap().len(), 2);
        assert!(wanted(Kind::Table, "usage").is_err());
        assert!(wanted(Kind::Schema, "usage,create").is_ok());
    }
}
