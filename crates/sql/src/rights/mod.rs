//! Access privileges: what the current role may do (manual, chapter 5.7 and chapter 22).
//!
//! - [`Roles`] knows who is a superuser and who is a member of what;
//! - [`Rights`] asks an object's access list in a picture of the catalog;
//! - [`Core::check_access`] asks for a plan, before it runs.
//!
//! **Cost.** A superuser's statement pays for one load and two comparisons. For others the answers are kept by role and
//! relation for as long as neither the catalog nor the roles change.
//!
//! Lists themselves are in `cairn_catalog::acl`, GRANT and REVOKE in `ddl/grant.rs`, the `has_*_privilege` functions in
//! `system_functions/privileges.rs`.

mod acting;
mod check;
mod roles;

use std::rc::Rc;
use std::sync::Arc;

use cairn_catalog::acl::{self, Acl, ObjectKind, Privileges};
use cairn_catalog::columns::{
    pg_attribute, pg_class, pg_database, pg_language, pg_namespace, pg_proc, pg_type,
};
use cairn_catalog::{Catalog, CatalogRow, RelationKind, RowExt};
use cairn_types::oid::{FIRST_USER_OID, namespaces};
use cairn_types::{Error, Oid, Result, err};

pub use acting::{ActingJournal, ActingMark};
pub use check::AccessMemory;
pub use roles::{CHECKPOINT, READ_ALL_DATA, READ_ALL_STATS, Role, Roles, SIGNAL_BACKEND, WRITE_ALL_DATA};

/// Roles and a picture of the catalog: what can be asked of access lists.
#[derive(Clone)]
pub struct Rights {
    pub roles: Rc<Roles>,
    pub catalog: Arc<Catalog>,
}

/// An object's owner and list.
pub struct Access {
    pub owner: Oid,
    pub acl: Acl,
}

/// Catalog of a kind of object, and where in its rows owner and list are.
pub fn columns_of(kind: ObjectKind) -> (Oid, usize, usize) {
    match kind {
        ObjectKind::Database => (pg_database::TABLE, pg_database::DATDBA, pg_database::DATACL),
        ObjectKind::Function => (pg_proc::TABLE, pg_proc::PROOWNER, pg_proc::PROACL),
        ObjectKind::Language => (pg_language::TABLE, pg_language::LANOWNER, pg_language::LANACL),
        ObjectKind::Schema => (pg_namespace::TABLE, pg_namespace::NSPOWNER, pg_namespace::NSPACL),
        ObjectKind::Type => (pg_type::TABLE, pg_type::TYPOWNER, pg_type::TYPACL),
        _ => (pg_class::TABLE, pg_class::RELOWNER, pg_class::RELACL),
    }
}

impl Rights {
    /// The catalog row of an object.
    pub fn row(&self, kind: ObjectKind, object: Oid) -> Option<CatalogRow> {
        let (catalog, _, _) = columns_of(kind);
        if kind == ObjectKind::Database {
            let rows = self.catalog.system_rows(catalog);
            return rows.into_iter().find(|row| row.oid(pg_database::OID) == object);
        }
        self.catalog.row_by_oid(catalog, object)
    }

    /// `None`: there is no such object.
    pub fn access(&self, kind: ObjectKind, object: Oid) -> Option<Access> {
        let (_, owner, list) = columns_of(kind);
        let row = self.row(kind, object)?;
        let owner = row.oid(owner);
        Some(Access { owner, acl: Acl::of(kind, owner, row.datum(list), &|name| self.roles.by_name(name)) })
    }

    /// What a role may do to an object, and what of it it may pass on; nothing if there is no such object.
    /// A relation's columns are not looked at.
    pub fn privileges(&self, role: Oid, kind: ObjectKind, object: Oid) -> (Privileges, Privileges) {
        if self.roles.is_superuser(role) {
            return (Privileges::MAX, Privileges::MAX);
        }
        let Some(access) = self.access(kind, object) else { return (0, 0) };
        let has = |other: Oid| self.roles.has_privileges_of(role, other);
        let (mut privileges, options) = access.acl.allowed(access.owner, kind.all(), &has);
        match kind {
            ObjectKind::Table | ObjectKind::Sequence => {
                if has(READ_ALL_DATA) {
                    privileges |= acl::SELECT;
                }
                if has(WRITE_ALL_DATA) {
                    privileges |= acl::INSERT | acl::UPDATE | acl::DELETE;
                }
                // Nobody else changes the system's own tables, whatever was granted.
                let system = object < FIRST_USER_OID
                    && self
                        .catalog
                        .relation(object)
                        .is_some_and(|relation| relation.kind == RelationKind::Table);
                if system {
                    privileges &= !(acl::INSERT | acl::UPDATE | acl::DELETE | acl::TRUNCATE | acl::USAGE);
                }
            }
            ObjectKind::Schema => {
                if has(READ_ALL_DATA) || has(WRITE_ALL_DATA) {
                    privileges |= acl::USAGE;
                }
                // A temporary schema is its session's.
                if self.catalog.namespace_name(object).starts_with("pg_temp_") {
                    privileges |= acl::USAGE | acl::CREATE;
                }
            }
            _ => {}
        }
        (privileges, options)
    }

    /// What a role may do to a column beyond what it may do to the table.
    pub fn column_privileges(&self, role: Oid, table: Oid, column: i16) -> (Privileges, Privileges) {
        let key = [cairn_types::Datum::Oid(table), cairn_types::Datum::Int2(column)];
        let Some(row) = self.catalog.row(pg_attribute::TABLE, &key) else { return (0, 0) };
        let value = row.datum(pg_attribute::ATTACL);
        if value.is_null() {
            return (0, 0);
        }
        let acl = Acl::of(ObjectKind::Column, 0, value, &|name| self.roles.by_name(name));
        // Column lists say nothing about owners.
        acl.allowed(Oid::MAX, 0, &|other| self.roles.has_privileges_of(role, other))
    }

    /// Columns of a table that are not dropped, with its number.
    pub fn live_columns(&self, table: Oid) -> Vec<i16> {
        self.catalog.relation(table).map_or_else(Vec::new, |relation| {
            relation.columns.iter().filter(|column| !column.dropped).map(|column| column.attnum).collect()
        })
    }

    /// 42501 unless the role has all of these privileges.
    pub fn require(&self, role: Oid, kind: ObjectKind, object: Oid, wanted: Privileges) -> Result<()> {
        if self.roles.is_superuser(role) || self.privileges(role, kind, object).0 & wanted == wanted {
            return Ok(());
        }
        Err(denied(self.noun(kind, object), &self.name(kind, object)))
    }

    /// 42501 `must be owner of ...` unless the role owns the object.
    pub fn require_owner(&self, role: Oid, kind: ObjectKind, object: Oid) -> Result<()> {
        if self.is_owner(role, kind, object) {
            return Ok(());
        }
        Err(err!(
            INSUFFICIENT_PRIVILEGE,
            "must be owner of {} {}",
            self.noun(kind, object),
            self.name(kind, object)
        ))
    }

    pub fn is_owner(&self, role: Oid, kind: ObjectKind, object: Oid) -> bool {
        if self.roles.is_superuser(role) {
            return true;
        }
        let (_, owner, _) = columns_of(kind);
        self.row(kind, object).is_some_and(|row| self.roles.has_privileges_of(role, row.oid(owner)))
    }

    /// How messages call the object.
    fn noun(&self, kind: ObjectKind, object: Oid) -> &'static str {
        match kind {
            ObjectKind::Table | ObjectKind::Sequence | ObjectKind::Column => {
                match self.catalog.relation(object).map(|relation| relation.kind) {
                    Some(RelationKind::View) => "view",
                    Some(RelationKind::MaterializedView) => "materialized view",
                    Some(RelationKind::Sequence) => "sequence",
                    Some(RelationKind::Index) => "index",
                    Some(RelationKind::CompositeType) => "type",
                    _ => "table",
                }
            }
            ObjectKind::Database => "database",
            ObjectKind::Function => match self.catalog.proc(object).map(|proc| proc.kind) {
                Some(cairn_catalog::ProcKind::Procedure) => "procedure",
                Some(cairn_catalog::ProcKind::Aggregate) => "aggregate",
                _ => "function",
            },
            ObjectKind::Language => "language",
            ObjectKind::Schema => "schema",
            ObjectKind::Type => match self.catalog.type_by_oid(object).map(|ty| ty.kind) {
                Some(cairn_catalog::TypeKind::Domain) => "domain",
                _ => "type",
            },
            ObjectKind::Tablespace => "tablespace",
            ObjectKind::ForeignDataWrapper => "foreign-data wrapper",
            ObjectKind::Server => "foreign server",
            ObjectKind::Parameter => "parameter",
        }
    }

    fn name(&self, kind: ObjectKind, object: Oid) -> String {
        let name = match kind {
            ObjectKind::Function => self.catalog.proc(object).map(|proc| proc.name.to_string()),
            ObjectKind::Schema => Some(self.catalog.namespace_name(object).to_string()),
            ObjectKind::Type => {
                let path = cairn_catalog::SearchPath::pg_catalog();
                self.catalog.type_by_oid(object).map(|ty| {
                    if ty.namespace == namespaces::PG_CATALOG {
                        self.catalog.format_type(object, -1, &path)
                    } else {
                        ty.name.to_string()
                    }
                })
            }
            ObjectKind::Language => self.catalog.language_name(object).map(|name| name.to_string()),
            ObjectKind::Database => {
                self.row(kind, object).map(|row| row.str(pg_database::DATNAME).to_owned())
            }
            _ => self.catalog.relation(object).map(|relation| relation.name.to_string()),
        };
        name.unwrap_or_else(|| object.to_string())
    }
}

/// 42501.
pub fn denied(noun: &str, name: &str) -> Error {
    err!(INSUFFICIENT_PRIVILEGE, "permission denied for {noun} {name}")
}
