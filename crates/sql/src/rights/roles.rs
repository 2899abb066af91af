//! Who may act for whom: a picture of the cluster's roles and memberships.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use cairn_catalog::columns::{pg_auth_members, pg_authid};
use cairn_catalog::{RowExt, SharedCatalogs};
use cairn_types::oid::BOOTSTRAP_ROLE;
use cairn_types::{Oid, Text};

/// Its members are the owners of the current database.
const DATABASE_OWNER: Oid = 6171;
pub const READ_ALL_DATA: Oid = 6181;
pub const WRITE_ALL_DATA: Oid = 6182;
pub const READ_ALL_STATS: Oid = 3375;
pub const SIGNAL_BACKEND: Oid = 4200;
pub const CHECKPOINT: Oid = 4544;

/// Attributes of a role.
#[derive(Clone, Debug)]
pub struct Role {
    pub name: Text,
    pub superuser: bool,
    pub inherit: bool,
    pub create_role: bool,
    pub create_database: bool,
    pub replication: bool,
    pub bypass_row_security: bool,
}

/// All roles as they were at one moment.
pub struct Roles {
    version: u64,
    database_owner: Oid,
    roles: HashMap<Oid, Role>,
    by_name: HashMap<Text, Oid>,
    /// Member, group, whether the member may admit others.
    members: Vec<(Oid, Oid, bool)>,
    /// What has been worked out: the roles whose privileges a role has, with and without SET ROLE.
    known: RefCell<HashMap<(Oid, bool), Rc<[Oid]>>>,
}

impl Roles {
    pub fn new(shared: &dyn SharedCatalogs, database_owner: Oid) -> Roles {
        let version = shared.version();
        let mut roles = HashMap::new();
        let mut by_name = HashMap::new();
        for row in shared.rows(pg_authid::TABLE) {
            let oid = row.oid(pg_authid::OID);
            let name = row.text(pg_authid::ROLNAME);
            by_name.insert(name.clone(), oid);
            let role = Role {
                name,
                superuser: oid == BOOTSTRAP_ROLE || row.bool(pg_authid::ROLSUPER),
                inherit: row.bool(pg_authid::ROLINHERIT),
                create_role: row.bool(pg_authid::ROLCREATEROLE),
                create_database: row.bool(pg_authid::ROLCREATEDB),
                replication: row.bool(pg_authid::ROLREPLICATION),
                bypass_row_security: row.bool(pg_authid::ROLBYPASSRLS),
            };
            roles.insert(oid, role);
        }
        let rows = shared.rows(pg_auth_members::TABLE);
        let members = rows.iter().map(|row| {
            (
                row.oid(pg_auth_members::MEMBER),
                row.oid(pg_auth_members::ROLEID),
                row.bool(pg_auth_members::ADMIN_OPTION),
            )
        });
        let members = members.collect();
        Roles { version, database_owner, roles, by_name, members, known: RefCell::default() }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn role(&self, oid: Oid) -> Option<&Role> {
        self.roles.get(&oid)
    }

    pub fn name(&self, oid: Oid) -> Option<Text> {
        self.roles.get(&oid).map(|role| role.name.clone())
    }

    pub fn by_name(&self, name: &str) -> Option<Oid> {
        self.by_name.get(name).copied()
    }

    pub fn is_superuser(&self, oid: Oid) -> bool {
        oid == BOOTSTRAP_ROLE || self.roles.get(&oid).is_some_and(|role| role.superuser)
    }

    /// Whether the role has an attribute; a superuser has them all.
    pub fn has(&self, oid: Oid, attribute: impl FnOnce(&Role) -> bool) -> bool {
        self.is_superuser(oid) || self.roles.get(&oid).is_some_and(attribute)
    }

    /// The role itself and those that it is a member of, directly or not. `inherited`: only where it has their
    /// privileges without SET ROLE.
    pub fn groups(&self, role: Oid, inherited: bool) -> Rc<[Oid]> {
        if let Some(known) = self.known.borrow().get(&(role, inherited)) {
            return Rc::clone(known);
        }
        let mut all = vec![role];
        let mut next = 0;
        while let Some(&current) = all.get(next) {
            next += 1;
            if inherited && self.roles.get(&current).is_some_and(|role| !role.inherit) {
                continue;
            }
            let mut join = |group: Oid| {
                if !all.contains(&group) {
                    all.push(group);
                }
            };
            for (member, group, _) in &self.members {
                if *member == current {
                    join(*group);
                }
            }
            if current == self.database_owner {
                join(DATABASE_OWNER);
            }
        }
        let all: Rc<[Oid]> = all.into();
        self.known.borrow_mut().insert((role, inherited), Rc::clone(&all));
        all
    }

    /// Whether `member` has the privileges of `role` now.
    pub fn has_privileges_of(&self, member: Oid, role: Oid) -> bool {
        member == role || self.is_superuser(member) || self.groups(member, true).contains(&role)
    }

    /// Whether `member` may SET ROLE to `role`.
    pub fn is_member(&self, member: Oid, role: Oid) -> bool {
        member == role || self.is_superuser(member) || self.groups(member, false).contains(&role)
    }

    /// [`Roles::is_member`], without what superusers may.
    pub fn is_listed_member(&self, member: Oid, role: Oid) -> bool {
        self.groups(member, false).contains(&role)
    }

    /// Whether `member` may admit others to `role`.
    pub fn is_admin(&self, member: Oid, role: Oid) -> bool {
        if self.is_superuser(member) {
            return true;
        }
        let groups = self.groups(member, false);
        self.members.iter().any(|(of, group, admin)| *group == role && *admin && groups.contains(of))
    }
}
