//! The check before a plan runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use cairn_analyze::privileges::{RelationAccess, RequiredAccess};
use cairn_catalog::SharedCatalogs;
use cairn_catalog::acl::{self, ObjectKind, Privileges};
use cairn_types::{Oid, Result};

use super::{Rights, Roles};
use crate::core::Core;

/// What a session remembers of roles and access lists.
#[derive(Default)]
pub struct AccessMemory {
    roles: RefCell<Option<Rc<Roles>>>,
    /// Versions of the catalog and the roles that `known` holds for.
    versions: Cell<(u64, u64)>,
    /// What a role may do to a relation as a whole.
    known: RefCell<HashMap<(Oid, Oid), Privileges>>,
}

impl Core {
    /// The roles as they are now.
    pub fn roles(&self) -> Rc<Roles> {
        let shared = self.instance.shared();
        let mut kept = self.access.roles.borrow_mut();
        if let Some(roles) = &*kept
            && roles.version() == shared.version()
        {
            return Rc::clone(roles);
        }
        let owner = self.database.info.oid;
        let owner =
            shared.cluster().databases().iter().find(|info| info.oid == owner).map_or(0, |info| info.owner);
        let roles = Rc::new(Roles::new(&**shared, owner));
        *kept = Some(Rc::clone(&roles));
        roles
    }

    /// Roles and the catalog that statements see now.
    pub fn rights(&self) -> Result<Rights> {
        Ok(Rights { roles: self.roles(), catalog: self.catalog()? })
    }

    /// Whether the current role may do everything.
    pub fn is_superuser(&self) -> bool {
        let version = self.instance.shared().version();
        let (superuser, of) = self.superuser.get();
        if of == version {
            return superuser;
        }
        let superuser = self.roles().is_superuser(self.user_oid());
        self.superuser.set((superuser, version));
        superuser
    }

    /// 42501 unless the roles concerned have what the plan takes. Objects that are gone are somebody else's error.
    pub(crate) fn check_access(&self, required: &RequiredAccess) -> Result<()> {
        if self.is_superuser() && !required.asks_owners {
            return Ok(());
        }
        let current = self.user_oid();
        let catalog = self.catalog()?;
        let roles = self.roles();
        let versions = (catalog.version(), roles.version());
        if self.access.versions.get() != versions {
            self.access.known.borrow_mut().clear();
            self.access.versions.set(versions);
        }
        let rights = Rights { roles, catalog };
        for access in &required.relations {
            let role = access.role.unwrap_or(current);
            if rights.roles.is_superuser(role) || rights.catalog.relation(access.relation).is_none() {
                continue;
            }
            let mut known = self.access.known.borrow_mut();
            let privileges = *known
                .entry((role, access.relation))
                .or_insert_with(|| rights.privileges(role, ObjectKind::Table, access.relation).0);
            drop(known);
            if privileges & access.privileges != access.privileges {
                check_columns(&rights, role, access, privileges)?;
            }
        }
        if !rights.roles.is_superuser(current) {
            for function in &required.functions {
                if rights.catalog.proc(*function).is_some() {
                    rights.require(current, ObjectKind::Function, *function, acl::EXECUTE)?;
                }
            }
        }
        Ok(())
    }
}

/// What the table as a whole does not allow, its columns may.
fn check_columns(rights: &Rights, role: Oid, access: &RelationAccess, allowed: Privileges) -> Result<()> {
    let denied = || rights.require(role, ObjectKind::Table, access.relation, Privileges::MAX);
    let missing = access.privileges & !allowed;
    let by_column =
        [(acl::SELECT, &access.selected), (acl::INSERT, &access.inserted), (acl::UPDATE, &access.updated)];
    if missing & !(acl::SELECT | acl::INSERT | acl::UPDATE) != 0 {
        return denied();
    }
    let has = |column: i16, wanted: Privileges| {
        rights.column_privileges(role, access.relation, column).0 & wanted != 0
    };
    for (wanted, columns) in by_column {
        if missing & wanted == 0 {
            continue;
        }
        let live = || rights.live_columns(access.relation);
        let fine = if columns.is_empty() {
            // Nothing in particular: any column will do.
            live().into_iter().any(|column| has(column, wanted))
        } else {
            columns.iter().all(|column| {
                if *column == 0 {
                    live().into_iter().all(|column| has(column, wanted))
                } else {
                    has(*column, wanted)
                }
            })
        };
        if !fine {
            return denied();
        }
    }
    Ok(())
}
