//! The catalogs that all databases of a cluster share: databases, roles, memberships, settings.
//!
//! Roles live in the cluster's system store, outside of any database's transactions: a change is durable and seen by
//! everybody when its statement ends, and a rollback does not undo it.
//!
//! ```text
//! record "role/<oid, 4 bytes big endian>"     packed pg_authid row
//! record "member/<role><member>"              packed pg_auth_members row
//! record "setting/<database><role>"           packed pg_db_role_setting row
//! record "comment/<class><oid>"               packed pg_shdescription row
//! record "acl/<database>"                     its access list: stored items (see `acl`), separated by blanks
//! record "last-role-oid"                      4 bytes big endian; none before the first CREATE ROLE
//! ```
//!
//! Sessions of different databases have no lock in common: who reads rows to decide what to write holds
//! [`ClusterCatalog::change`] meanwhile. A dropped role's oid is never given out again: access lists of other
//! databases may still name it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_txn::{Cluster, Result};
use cairn_types::oid::BOOTSTRAP_ROLE;
use cairn_types::row::{RowReader, encode_row};
use cairn_types::{Datum, Oid, Text};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::columns::*;
use crate::system_table::{CatalogRow, RowExt, array_of, system_table};

/// Rows of the shared catalogs.
pub trait SharedCatalogs: Send + Sync {
    /// Goes up with every change of a role or membership.
    fn version(&self) -> u64;

    /// Rows of pg_database, pg_authid, pg_auth_members, ... in PostgreSQL's layout.
    fn rows(&self, catalog: Oid) -> Vec<CatalogRow>;

    fn role_name(&self, oid: Oid) -> Option<Text> {
        let rows = self.rows(pg_authid::TABLE);
        rows.iter().find(|row| row.oid(pg_authid::OID) == oid).map(|row| row.text(pg_authid::ROLNAME))
    }

    fn role(&self, name: &str) -> Option<CatalogRow> {
        self.rows(pg_authid::TABLE).into_iter().find(|row| row.str(pg_authid::ROLNAME) == name)
    }
}

/// The shared catalogs of a cluster.
pub struct ClusterCatalog {
    cluster: Arc<Cluster>,
    /// All records, kept in step with the system store.
    records: RwLock<Records>,
    version: AtomicU64,
    changing: Mutex<()>,
}

#[derive(Default)]
struct Records {
    roles: Vec<CatalogRow>,
    members: Vec<CatalogRow>,
    settings: Vec<CatalogRow>,
    comments: Vec<CatalogRow>,
    /// By database.
    acls: Vec<(Oid, Datum)>,
}

fn corrupt(error: impl std::fmt::Display) -> cairn_txn::Error {
    cairn_storage::Error::Corruption { what: "shared catalog row", detail: error.to_string() }.into()
}

fn decode(catalog: Oid, bytes: &[u8]) -> Result<CatalogRow> {
    let kinds = system_table(catalog).map(|table| table.stored_kinds()).unwrap_or_default();
    let read = RowReader::new(bytes).and_then(|reader| {
        let mut row = reader.decode_all(&kinds)?;
        row.resize(kinds.len(), Datum::Null);
        Ok(row)
    });
    Ok(read.map_err(corrupt)?.into())
}

fn encode(row: &[Datum]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_row(1, row, &mut bytes);
    bytes
}

/// The record's name for a row of a shared catalog.
fn record_name(catalog: Oid, row: &[Datum]) -> Result<Vec<u8>> {
    let (prefix, columns): (&[u8], &[usize]) = match catalog {
        pg_authid::TABLE => (b"role/", &[pg_authid::OID]),
        pg_auth_members::TABLE => (b"member/", &[pg_auth_members::ROLEID, pg_auth_members::MEMBER]),
        pg_db_role_setting::TABLE => {
            (b"setting/", &[pg_db_role_setting::SETDATABASE, pg_db_role_setting::SETROLE])
        }
        pg_shdescription::TABLE => (b"comment/", &[pg_shdescription::CLASSOID, pg_shdescription::OBJOID]),
        _ => return Err(cairn_txn::Error::Misuse("not a shared catalog that can be written")),
    };
    let mut name = prefix.to_vec();
    for column in columns {
        name.extend_from_slice(&row.oid(*column).to_be_bytes());
    }
    Ok(name)
}

impl ClusterCatalog {
    /// Reads all records; makes the superuser `postgres` in a new cluster.
    pub fn open(cluster: Arc<Cluster>) -> Result<Self> {
        let catalog = ClusterCatalog {
            cluster,
            records: RwLock::default(),
            version: AtomicU64::new(0),
            changing: Mutex::default(),
        };
        catalog.reload()?;
        if catalog.role_row(BOOTSTRAP_ROLE).is_none() {
            catalog.put(pg_authid::TABLE, bootstrap_role())?;
        }
        Ok(catalog)
    }

    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    fn reload(&self) -> Result<()> {
        let read = |prefix: &[u8], catalog| -> Result<Vec<CatalogRow>> {
            self.cluster.system_scan(prefix)?.iter().map(|(_, value)| decode(catalog, value)).collect()
        };
        // Nobody's older reading replaces a newer one.
        let mut records = self.records.write();
        *records = Records {
            roles: read(b"role/", pg_authid::TABLE)?,
            members: read(b"member/", pg_auth_members::TABLE)?,
            settings: read(b"setting/", pg_db_role_setting::TABLE)?,
            comments: read(b"comment/", pg_shdescription::TABLE)?,
            acls: self
                .cluster
                .system_scan(ACLS)?
                .iter()
                .map(|(name, value)| decode_acl(name, value))
                .collect::<Result<_>>()?,
        };
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn role_row(&self, oid: Oid) -> Option<CatalogRow> {
        self.records.read().roles.iter().find(|row| row.oid(pg_authid::OID) == oid).cloned()
    }

    /// Inserts or replaces a row of pg_authid, pg_auth_members, pg_db_role_setting or pg_shdescription.
    pub fn put(&self, catalog: Oid, row: Vec<Datum>) -> Result<()> {
        self.cluster.system_put(&record_name(catalog, &row)?, &encode(&row))?;
        self.reload()
    }

    pub fn delete(&self, catalog: Oid, row: &[Datum]) -> Result<()> {
        self.cluster.system_delete(&record_name(catalog, row)?)?;
        self.reload()
    }

    /// Sets a database's access list; NULL is the default.
    pub fn put_database_acl(&self, database: Oid, acl: &Datum) -> Result<()> {
        let name = acl_record(database);
        match acl {
            Datum::Array(array) => {
                let items: Vec<&str> = array
                    .elements
                    .iter()
                    .filter_map(|item| match item {
                        Datum::Text(text) => Some(&**text),
                        _ => None,
                    })
                    .collect();
                self.cluster.system_put(&name, items.join(" ").as_bytes())?;
            }
            _ => self.cluster.system_delete(&name)?,
        }
        self.reload()
    }

    /// Whether somebody has made it their own: there is a role besides the first, or a password.
    pub fn is_administered(&self) -> bool {
        let records = self.records.read();
        records.roles.iter().any(|row| {
            row.oid(pg_authid::OID) != BOOTSTRAP_ROLE || !row.datum(pg_authid::ROLPASSWORD).is_null()
        })
    }

    /// To be held from the first look at what a change depends on until it is written.
    pub fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// An oid for a new role, which no role had before. They are counted apart from the databases' objects.
    pub fn new_role_oid(&self) -> Result<Oid> {
        let last = match self.cluster.system_get(LAST_ROLE_OID)? {
            Some(bytes) => Oid::from_be_bytes(bytes.try_into().map_err(|_| corrupt("the last role's oid"))?),
            None => cairn_types::oid::FIRST_USER_OID - 1,
        };
        let highest = self.records.read().roles.iter().map(|row| row.oid(pg_authid::OID)).max().unwrap_or(0);
        let oid = last.max(highest).checked_add(1);
        let oid = oid.ok_or(cairn_txn::Error::Misuse("all oids of roles were given out"))?;
        self.cluster.system_put(LAST_ROLE_OID, &oid.to_be_bytes())?;
        Ok(oid)
    }
}

const LAST_ROLE_OID: &[u8] = b"last-role-oid";
const ACLS: &[u8] = b"acl/";

fn acl_record(database: Oid) -> Vec<u8> {
    [ACLS, &database.to_be_bytes()].concat()
}

fn decode_acl(name: &[u8], value: &[u8]) -> Result<(Oid, Datum)> {
    let oid = name.get(ACLS.len()..).and_then(|oid| oid.try_into().ok());
    let oid = oid.ok_or_else(|| corrupt("the name of an access list's record"))?;
    let text = std::str::from_utf8(value).map_err(corrupt)?;
    let items = text.split_ascii_whitespace().map(Datum::text).collect();
    Ok((Oid::from_be_bytes(oid), array_of(cairn_types::types::ACLITEM, items)))
}

impl SharedCatalogs for ClusterCatalog {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn rows(&self, catalog: Oid) -> Vec<CatalogRow> {
        let records = self.records.read();
        match catalog {
            pg_authid::TABLE => builtin_roles().into_iter().chain(records.roles.iter().cloned()).collect(),
            pg_auth_members::TABLE => records.members.clone(),
            pg_db_role_setting::TABLE => records.settings.clone(),
            pg_shdescription::TABLE => records.comments.clone(),
            pg_tablespace::TABLE => tablespaces(),
            pg_database::TABLE => {
                let acl = |oid| records.acls.iter().find(|(of, _)| *of == oid).map(|(_, acl)| acl.clone());
                let databases = self.cluster.databases();
                databases.iter().map(|info| database_row(info, acl(info.oid).unwrap_or_default())).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn database_row(info: &cairn_txn::DatabaseInfo, acl: Datum) -> CatalogRow {
    use pg_database as c;
    let mut row = vec![Datum::Null; c::COLUMN_COUNT];
    row[c::OID] = Datum::Oid(info.oid);
    row[c::DATNAME] = Datum::text(info.name.as_str());
    row[c::DATDBA] = Datum::Oid(info.owner);
    row[c::ENCODING] = Datum::Int4(6);
    row[c::DATLOCPROVIDER] = Datum::Char(b'c');
    row[c::DATISTEMPLATE] = Datum::Bool(info.is_template);
    row[c::DATALLOWCONN] = Datum::Bool(info.allows_connections);
    row[c::DATCONNLIMIT] = Datum::Int4(-1);
    row[c::DATFROZENXID] = Datum::Oid(0);
    row[c::DATMINMXID] = Datum::Oid(0);
    row[c::DATTABLESPACE] = Datum::Oid(1663);
    row[c::DATCOLLATE] = Datum::text("C.UTF-8");
    row[c::DATCTYPE] = Datum::text("C.UTF-8");
    row[c::DATACL] = acl;
    row.into()
}

fn tablespaces() -> Vec<CatalogRow> {
    [(1663, "pg_default"), (1664, "pg_global")]
        .into_iter()
        .map(|(oid, name)| -> CatalogRow {
            Arc::from([
                Datum::Oid(oid),
                Datum::text(name),
                Datum::Oid(BOOTSTRAP_ROLE),
                Datum::Null,
                Datum::Null,
            ])
        })
        .collect()
}

/// A pg_authid row with PostgreSQL's defaults for a new role.
pub fn role_row(oid: Oid, name: &str, login: bool) -> Vec<Datum> {
    use pg_authid as c;
    let mut row = vec![Datum::Bool(false); c::COLUMN_COUNT];
    row[c::OID] = Datum::Oid(oid);
    row[c::ROLNAME] = Datum::text(name);
    row[c::ROLINHERIT] = Datum::Bool(true);
    row[c::ROLCANLOGIN] = Datum::Bool(login);
    row[c::ROLCONNLIMIT] = Datum::Int4(-1);
    row[c::ROLPASSWORD] = Datum::Null;
    row[c::ROLVALIDUNTIL] = Datum::Null;
    row
}

fn bootstrap_role() -> Vec<Datum> {
    use pg_authid as c;
    let mut row = role_row(BOOTSTRAP_ROLE, "postgres", true);
    for column in [c::ROLSUPER, c::ROLCREATEROLE, c::ROLCREATEDB, c::ROLREPLICATION, c::ROLBYPASSRLS] {
        row[column] = Datum::Bool(true);
    }
    row
}

/// PostgreSQL's predefined roles (manual, section 22.5).
fn builtin_roles() -> Vec<CatalogRow> {
    [
        (6171, "pg_database_owner"),
        (6181, "pg_read_all_data"),
        (6182, "pg_write_all_data"),
        (3373, "pg_monitor"),
        (3374, "pg_read_all_settings"),
        (3375, "pg_read_all_stats"),
        (3377, "pg_stat_scan_tables"),
        (4569, "pg_read_server_files"),
        (4570, "pg_write_server_files"),
        (4571, "pg_execute_server_program"),
        (4200, "pg_signal_backend"),
        (4544, "pg_checkpoint"),
    ]
    .into_iter()
    .map(|(oid, name)| role_row(oid, name, false).into())
    .collect()
}
