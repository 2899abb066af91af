//! Access privilege lists (manual, section 5.7): who may do what to an object, and who granted it.
//!
//! A list is an array of `aclitem`s. SQL shows one as `grantee=privileges/grantor`, the grantee empty for PUBLIC, `*` behind
//! what may be passed on. Stored rows name roles by oid, so that a renamed role keeps what it has:
//!
//! ```text
//! item := ["@" grantee oid] "=" (letter ["*"])* "/@" grantor oid
//! ```
//!
//! Rows that come with Cairn, and those that old versions wrote, have names in place of oids. An object without a list
//! has the default of its kind: everything for its owner, and for PUBLIC what [`ObjectKind::public`] says.

use cairn_types::{Datum, Oid};

use crate::system_table::array_of;

/// A set of privileges.
pub type Privileges = u16;

pub const INSERT: Privileges = 1 << 0;
pub const SELECT: Privileges = 1 << 1;
pub const UPDATE: Privileges = 1 << 2;
pub const DELETE: Privileges = 1 << 3;
pub const TRUNCATE: Privileges = 1 << 4;
pub const REFERENCES: Privileges = 1 << 5;
pub const TRIGGER: Privileges = 1 << 6;
pub const EXECUTE: Privileges = 1 << 7;
pub const USAGE: Privileges = 1 << 8;
pub const CREATE: Privileges = 1 << 9;
pub const TEMPORARY: Privileges = 1 << 10;
pub const CONNECT: Privileges = 1 << 11;
pub const SET: Privileges = 1 << 12;
pub const ALTER_SYSTEM: Privileges = 1 << 13;

/// Letter, name and bit of each privilege, in the order in which lists show them.
pub const ALL: &[(char, &str, Privileges)] = &[
    ('a', "INSERT", INSERT),
    ('r', "SELECT", SELECT),
    ('w', "UPDATE", UPDATE),
    ('d', "DELETE", DELETE),
    ('D', "TRUNCATE", TRUNCATE),
    ('x', "REFERENCES", REFERENCES),
    ('t', "TRIGGER", TRIGGER),
    ('X', "EXECUTE", EXECUTE),
    ('U', "USAGE", USAGE),
    ('C', "CREATE", CREATE),
    ('T', "TEMPORARY", TEMPORARY),
    ('c', "CONNECT", CONNECT),
    ('s', "SET", SET),
    ('A', "ALTER SYSTEM", ALTER_SYSTEM),
];

/// The privilege of this name, in any case; `TEMP` is another name of one.
pub fn by_name(name: &str) -> Option<Privileges> {
    let upper = name.to_ascii_uppercase();
    if upper == "TEMP" {
        return Some(TEMPORARY);
    }
    ALL.iter().find(|(_, known, _)| *known == upper).map(|(_, _, bit)| *bit)
}

/// What privileges can be granted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Table,
    Column,
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

impl ObjectKind {
    /// All that can be granted on it, and what its owner has.
    pub fn all(self) -> Privileges {
        match self {
            ObjectKind::Table => INSERT | SELECT | UPDATE | DELETE | TRUNCATE | REFERENCES | TRIGGER,
            ObjectKind::Column => INSERT | SELECT | UPDATE | REFERENCES,
            ObjectKind::Sequence => SELECT | UPDATE | USAGE,
            ObjectKind::Database => CREATE | TEMPORARY | CONNECT,
            ObjectKind::Function => EXECUTE,
            ObjectKind::Schema => USAGE | CREATE,
            ObjectKind::Tablespace => CREATE,
            ObjectKind::Parameter => SET | ALTER_SYSTEM,
            ObjectKind::Language | ObjectKind::Type | ObjectKind::ForeignDataWrapper | ObjectKind::Server => {
                USAGE
            }
        }
    }

    /// What everybody has where no list says otherwise.
    pub fn public(self) -> Privileges {
        match self {
            ObjectKind::Database => TEMPORARY | CONNECT,
            ObjectKind::Function => EXECUTE,
            ObjectKind::Language | ObjectKind::Type => USAGE,
            _ => 0,
        }
    }
}

/// Everybody, as a grantee.
pub const PUBLIC: Oid = 0;

/// One entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub grantee: Oid,
    pub grantor: Oid,
    pub privileges: Privileges,
    /// Those of `privileges` that the grantee may pass on.
    pub options: Privileges,
}

/// Names in lists are quoted only where they have other characters than these.
pub fn quote_role(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A role at the start of the text, and what follows it.
fn take_role(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['=', '/']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, rest)),
        }
    }
}

/// What is wrong with a text that is to be an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    NoEquals,
    Letter(char),
    /// A role that does not exist.
    Role(String),
    Trailing,
}

impl Item {
    /// Reads either form. `role` finds a role by name. An item without a grantor has the bootstrap superuser's, as in
    /// PostgreSQL.
    pub fn parse(text: &str, role: &dyn Fn(&str) -> Option<Oid>) -> Result<Item, Malformed> {
        let find = |name: String| -> Result<Oid, Malformed> {
            match name.strip_prefix('@').and_then(|oid| oid.parse().ok()) {
                Some(oid) => Ok(oid),
                None => role(&name).ok_or(Malformed::Role(name)),
            }
        };
        let (grantee, rest) = take_role(text.trim()).ok_or(Malformed::NoEquals)?;
        let grantee = match grantee.trim() {
            "" => PUBLIC,
            name => find(name.to_owned())?,
        };
        let rest = rest.strip_prefix('=').ok_or(Malformed::NoEquals)?;
        let (letters, grantor) = match rest.split_once('/') {
            Some((letters, grantor)) => (letters, Some(grantor)),
            None => (rest, None),
        };
        let (mut privileges, mut options, mut last) = (0, 0, 0);
        for letter in letters.trim().chars() {
            if letter == '*' {
                options |= last;
                continue;
            }
            let known = ALL.iter().find(|(known, _, _)| *known == letter);
            last = known.ok_or(Malformed::Letter(letter))?.2;
            privileges |= last;
        }
        let grantor = match grantor {
            Some(text) => {
                let (name, rest) = take_role(text).ok_or(Malformed::Trailing)?;
                if !rest.trim().is_empty() {
                    return Err(Malformed::Trailing);
                }
                find(name.trim().to_owned())?
            }
            None => cairn_types::oid::BOOTSTRAP_ROLE,
        };
        Ok(Item { grantee, grantor, privileges, options })
    }

    fn letters(&self) -> String {
        let mut letters = String::new();
        for (letter, _, bit) in ALL {
            if self.privileges & bit != 0 {
                letters.push(*letter);
                if self.options & bit != 0 {
                    letters.push('*');
                }
            }
        }
        letters
    }

    /// As rows keep it.
    pub fn stored(&self) -> String {
        let grantee = if self.grantee == PUBLIC { String::new() } else { format!("@{}", self.grantee) };
        format!("{grantee}={}/@{}", self.letters(), self.grantor)
    }

    /// As SQL shows it; a role that is gone is shown by its oid.
    pub fn shown(&self, name: &dyn Fn(Oid) -> Option<String>) -> String {
        let role = |oid| name(oid).map_or_else(|| Oid::to_string(&oid), |name| quote_role(&name));
        let grantee = if self.grantee == PUBLIC { String::new() } else { role(self.grantee) };
        format!("{grantee}={}/{}", self.letters(), role(self.grantor))
    }
}

/// An object's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    pub items: Vec<Item>,
}

/// Privileges cannot be taken back without others that hang on them: 2BP01.
#[derive(Debug)]
pub struct DependentPrivileges;

impl Acl {
    /// What an object of this kind has without a list.
    pub fn default_of(kind: ObjectKind, owner: Oid) -> Acl {
        let mut items = Vec::new();
        if kind.public() != 0 {
            items.push(Item { grantee: PUBLIC, grantor: owner, privileges: kind.public(), options: 0 });
        }
        // A column's privileges are its table's.
        if kind != ObjectKind::Column {
            items.push(Item { grantee: owner, grantor: owner, privileges: kind.all(), options: 0 });
        }
        Acl { items }
    }

    /// The list in a catalog row; NULL is the default. Items that cannot be read grant nothing.
    pub fn of(kind: ObjectKind, owner: Oid, value: &Datum, role: &dyn Fn(&str) -> Option<Oid>) -> Acl {
        match value {
            Datum::Array(array) => Acl::read(&array.elements, role),
            _ => Acl::default_of(kind, owner),
        }
    }

    pub fn read(elements: &[Datum], role: &dyn Fn(&str) -> Option<Oid>) -> Acl {
        let items = elements.iter().filter_map(|element| match element {
            Datum::Text(text) => Item::parse(text, role).ok(),
            _ => None,
        });
        Acl { items: items.collect() }
    }

    /// The value for a catalog row.
    pub fn to_datum(&self) -> Datum {
        let items = self.items.iter().map(|item| Datum::text(item.stored()));
        array_of(cairn_types::types::ACLITEM, items.collect())
    }

    /// What a role may do, and what of it it may pass on. `has` tells whether it has the privileges of another role (its
    /// own included). An owner can always grant, even what it has taken from itself.
    pub fn allowed(
        &self,
        owner: Oid,
        kind_all: Privileges,
        has: &dyn Fn(Oid) -> bool,
    ) -> (Privileges, Privileges) {
        let (mut privileges, mut options) = (0, if has(owner) { kind_all } else { 0 });
        for item in &self.items {
            if item.grantee == PUBLIC || has(item.grantee) {
                privileges |= item.privileges;
                options |= item.options;
            }
        }
        (privileges, options)
    }

    /// What was granted to this very role or to PUBLIC that it may pass on.
    fn options_of(&self, role: Oid, owner: Oid, all: Privileges) -> Privileges {
        if role == owner {
            return all;
        }
        let own = self.items.iter().filter(|item| item.grantee == role);
        own.fold(0, |options, item| options | item.options)
    }

    pub fn grant(&mut self, grantee: Oid, grantor: Oid, privileges: Privileges, options: Privileges) {
        if privileges == 0 {
            return;
        }
        let known = self.items.iter_mut().find(|item| item.grantee == grantee && item.grantor == grantor);
        match known {
            Some(item) => {
                item.privileges |= privileges;
                item.options |= options;
            }
            None => self.items.push(Item { grantee, grantor, privileges, options }),
        }
    }

    /// Takes privileges back, or only the right to pass them on; with `cascade` also what was passed on.
    ///
    /// # Errors
    /// What was passed on is in the way.
    pub fn revoke(
        &mut self,
        grantee: Oid,
        grantor: Oid,
        privileges: Privileges,
        options_only: bool,
        owner: Oid,
        cascade: bool,
    ) -> Result<(), DependentPrivileges> {
        let found = self.items.iter_mut().find(|item| item.grantee == grantee && item.grantor == grantor);
        let Some(item) = found else { return Ok(()) };
        let lost = item.options & privileges;
        item.options &= !privileges;
        if !options_only {
            item.privileges &= !privileges;
        }
        self.items.retain(|item| item.privileges != 0);
        if lost == 0 || grantee == PUBLIC {
            return Ok(());
        }
        // Another grantor may have given the same.
        let lost = lost & !self.options_of(grantee, owner, Privileges::MAX);
        while let Some(passed) = self
            .items
            .iter()
            .find(|item| item.grantor == grantee && item.grantee != grantee && item.privileges & lost != 0)
            .copied()
        {
            if !cascade {
                return Err(DependentPrivileges);
            }
            self.revoke(passed.grantee, grantee, lost, false, owner, true)?;
        }
        Ok(())
    }

    /// The list after the object has gone to another owner.
    pub fn change_owner(&mut self, old: Oid, new: Oid) {
        let items = std::mem::take(&mut self.items);
        for mut item in items {
            if item.grantee == old {
                item.grantee = new;
            }
            if item.grantor == old {
                item.grantor = new;
            }
            self.grant(item.grantee, item.grantor, item.privileges, item.options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str) -> Option<Oid> {
        match name {
            "postgres" => Some(10),
            "bob" => Some(20),
            "a \"b" => Some(30),
            _ => None,
        }
    }

    fn name(oid: Oid) -> Option<String> {
        match oid {
            10 => Some("postgres".into()),
            20 => Some("bob".into()),
            30 => Some("a \"b".into()),
            _ => None,
        }
    }

    #[test]
    fn items_are_read_and_written() {
        for text in ["postgres=arwdDxt/postgres", "=r/postgres", "bob=r*w/postgres", "\"a \"\"b\"=X/bob"] {
            let item = Item::parse(text, &role).unwrap();
            assert_eq!(item.shown(&name), text);
            assert_eq!(Item::parse(&item.stored(), &|_| None), Ok(item));
        }
        assert_eq!(Item::parse("nonsense", &role), Err(Malformed::Role("nonsense".into())));
        assert_eq!(Item::parse("bob", &role), Err(Malformed::NoEquals));
        assert_eq!(Item::parse("bob=q/bob", &role), Err(Malformed::Letter('q')));
        assert_eq!(Item::parse("bob=r", &role).unwrap().grantor, 10);
    }

    #[test]
    fn what_was_passed_on_is_taken_back_too() {
        let mut acl = Acl::default_of(ObjectKind::Table, 1);
        acl.grant(2, 1, SELECT | UPDATE, SELECT);
        acl.grant(3, 2, SELECT, 0);
        assert!(acl.clone().revoke(2, 1, SELECT, false, 1, false).is_err());
        acl.revoke(2, 1, SELECT, false, 1, true).unwrap();
        let of = |role: Oid| acl.allowed(1, ObjectKind::Table.all(), &|other| other == role);
        assert_eq!(of(2), (UPDATE, 0));
        assert_eq!(of(3), (0, 0));
        assert_eq!(of(1), (ObjectKind::Table.all(), ObjectKind::Table.all()));
    }
}
