//! A data directory: the databases of one server.
//!
//! ```text
//! <data directory>/
//!   server.pid        text: process id of the server that has it open
//!   system/           store without versions: list of databases, roles, settings
//!   databases/<oid>/  one store each: log, checkpoint and clone of its own
//! ```
//!
//! The lock of the system store (held by the operating system, gone with the process) makes sure that one server
//! has the directory. Databases are opened when first asked for and share cache, write buffers and clock.
//!
//! Records of the system store (`cairn_storage::meta`, kind 30), names in ASCII:
//!
//! ```text
//! database/<oid, 4 bytes big endian>  01, flags u8 (1: is a template, 2: allows connections), owner oid u32,
//!                                     name in UTF-8
//! next-database                       first database oid never used, u32
//! user/<name>                         what the floor above keeps (roles, verifiers); opaque here
//! ```
//!
//! Invariants and recovery: a database exists if its record does. Its directory is complete before the record is
//! written, and removed after the record is; directories without a record are leftovers of a crash and are
//! removed on opening. Every change of a record is durable before the call returns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_storage::log_files::written_bytes;
use cairn_storage::{Clock, Engine, EngineOptions, Error as StorageError, Resources};
use parking_lot::Mutex;

use crate::{Database, Error, Result};

const DATABASE: &[u8] = b"database/";
const NEXT_DATABASE: &[u8] = b"next-database";
const USER: &[u8] = b"user/";

/// Database oids of their own counter; PostgreSQL's own databases are below.
const FIRST_DATABASE_OID: u32 = 16384;

/// A database as the cluster lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseInfo {
    pub oid: u32,
    pub name: String,
    /// Oid of the owning role.
    pub owner: u32,
    pub is_template: bool,
    pub allows_connections: bool,
}

/// What a new database starts as.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// No storage at all.
    Empty,
    /// A copy of this database, as committed now. Nobody may use it meanwhile.
    Template(&'a str),
}

struct Databases {
    by_oid: HashMap<u32, DatabaseInfo>,
    open: HashMap<u32, Database>,
}

pub struct Cluster {
    // Dropped before the system store, whose lock guards the directory.
    databases: Mutex<Databases>,
    directory: PathBuf,
    options: EngineOptions,
    resources: Resources,
    clock: Arc<Clock>,
    system: Engine,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Opens or creates a data directory. [`cairn_storage::Error::Locked`] if another server has it.
    pub fn open(directory: &Path) -> Result<Self> {
        Self::open_with(directory, EngineOptions::default(), Resources::for_this_machine(), Clock::system())
    }

    pub fn open_with(
        directory: &Path,
        options: EngineOptions,
        resources: Resources,
        clock: Clock,
    ) -> Result<Self> {
        let databases = directory.join("databases");
        create_directory(&databases)?;
        let pid_file = directory.join("server.pid");
        let system =
            Engine::open(&directory.join("system"), &options, &resources, &clock).map_err(|error| {
                let holder = || std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok();
                match error {
                    StorageError::Locked { .. } => {
                        StorageError::Locked { path: directory.to_owned(), holder: holder() }
                    }
                    other => other,
                }
            })?;
        std::fs::write(&pid_file, format!("{}\n", std::process::id()))
            .map_err(|source| file_error(&pid_file, source))?;
        // The name of the system store; RocksDB syncs what is in it.
        sync_directory(directory)?;
        let mut by_oid = HashMap::new();
        for (name, value) in system.records(DATABASE)? {
            let info = decode_database(&name, &value)?;
            by_oid.insert(info.oid, info);
        }
        let cluster = Cluster {
            databases: Mutex::new(Databases { by_oid, open: HashMap::new() }),
            directory: directory.to_owned(),
            options,
            resources,
            clock: Arc::new(clock),
            system,
        };
        cluster.remove_leftovers()?;
        Ok(cluster)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Bytes of all files of a database; 0 where there is none. Files that go away meanwhile do not count.
    pub fn database_size(&self, oid: u32) -> u64 {
        fn size(directory: &Path) -> u64 {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            entries
                .map(|entry| match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => size(&entry.path()),
                    Ok(_) if entry.path().extension().is_some_and(|extension| extension == "log") => {
                        written_bytes(&entry.path()).unwrap_or(0)
                    }
                    Ok(metadata) => metadata.len(),
                    Err(_) => 0,
                })
                .sum()
        }
        size(&self.database_directory(oid))
    }

    fn database_directory(&self, oid: u32) -> PathBuf {
        self.directory.join("databases").join(oid.to_string())
    }

    fn remove_leftovers(&self) -> Result<()> {
        let directory = self.directory.join("databases");
        let databases = self.databases.lock();
        for entry in std::fs::read_dir(&directory).map_err(|source| file_error(&directory, source))? {
            let path = entry.map_err(|source| file_error(&directory, source))?.path();
            let oid = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            if !oid.is_some_and(|oid: u32| databases.by_oid.contains_key(&oid)) {
                tracing::info!(path = %path.display(), "removing a database that was not created to the end");
                std::fs::remove_dir_all(&path).map_err(|source| file_error(&path, source))?;
            }
        }
        Ok(())
    }

    /// All databases, by oid.
    pub fn databases(&self) -> Vec<DatabaseInfo> {
        let mut all: Vec<_> = self.databases.lock().by_oid.values().cloned().collect();
        all.sort_by_key(|info| info.oid);
        all
    }

    /// The record of a database.
    pub fn database_info(&self, name: &str) -> Option<DatabaseInfo> {
        self.databases.lock().by_oid.values().find(|info| info.name == name).cloned()
    }

    /// The database, opened if it was not yet.
    pub fn database(&self, name: &str) -> Result<Database> {
        let mut databases = self.databases.lock();
        let oid = databases.find(name)?.oid;
        self.open_database(&mut databases, oid)
    }

    fn open_database(&self, databases: &mut Databases, oid: u32) -> Result<Database> {
        if let Some(database) = databases.open.get(&oid) {
            return Ok(database.clone());
        }
        let options = EngineOptions { create: false, ..self.options.clone() };
        let database =
            Database::open(&self.database_directory(oid), &options, &self.resources, self.clock.clone())?;
        databases.open.insert(oid, database.clone());
        Ok(database)
    }

    /// Creates a database; [`Error::DatabaseExists`], [`Error::NoSuchDatabase`] for the template,
    /// [`Error::DatabaseInUse`] if somebody uses the template.
    pub fn create_database(&self, name: &str, owner: u32, origin: Origin<'_>) -> Result<DatabaseInfo> {
        self.create(name, None, owner, origin)
    }

    /// The same under a fixed oid (below 16384: PostgreSQL's own databases).
    pub fn create_database_with_oid(
        &self,
        name: &str,
        oid: u32,
        owner: u32,
        origin: Origin<'_>,
    ) -> Result<DatabaseInfo> {
        self.create(name, Some(oid), owner, origin)
    }

    fn create(
        &self,
        name: &str,
        fixed_oid: Option<u32>,
        owner: u32,
        origin: Origin<'_>,
    ) -> Result<DatabaseInfo> {
        let mut databases = self.databases.lock();
        let oid_taken = fixed_oid.is_some_and(|oid| databases.by_oid.contains_key(&oid));
        if databases.find(name).is_ok() || oid_taken {
            return Err(Error::DatabaseExists(name.to_owned()));
        }
        if let Origin::Template(template) = origin {
            databases.find(template)?;
        }
        let oid = match fixed_oid {
            Some(oid) => oid,
            None => self.next_database_oid()?,
        };
        let path = self.database_directory(oid);
        match origin {
            Origin::Empty => {
                let engine = Engine::open(&path, &self.options, &self.resources, &self.clock)?;
                engine.close(self.clock.now())?;
            }
            Origin::Template(template) => {
                let source = databases.find(template)?.oid;
                let source = self.open_database(&mut databases, source)?;
                // The list holds one handle, this function the other.
                if source.users() > 2 {
                    return Err(Error::DatabaseInUse(template.to_owned()));
                }
                source.checkpoint(&path)?;
                // Settings are of the database, not of what is in it.
                if source.engine().database_retention().is_some() {
                    let engine = Engine::open(&path, &self.options, &self.resources, &self.clock)?;
                    engine.set_retention(None)?;
                    engine.close(self.clock.now())?;
                }
            }
        }
        sync_directory(&path)?;
        sync_directory(&self.directory.join("databases"))?;
        let info =
            DatabaseInfo { oid, name: name.to_owned(), owner, is_template: false, allows_connections: true };
        self.write_database(&info)?;
        databases.by_oid.insert(oid, info.clone());
        Ok(info)
    }

    /// Removes a database and its files. [`Error::DatabaseInUse`] while sessions have it.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let mut databases = self.databases.lock();
        let oid = databases.find(name)?.oid;
        if databases.open.get(&oid).is_some_and(|database| database.users() > 1) {
            return Err(Error::DatabaseInUse(name.to_owned()));
        }
        let mut batch = self.system.batch();
        batch.delete_record(&database_record(oid));
        self.system.write(batch)?;
        self.system.sync()?;
        databases.by_oid.remove(&oid);
        databases.open.remove(&oid);
        let path = self.database_directory(oid);
        std::fs::remove_dir_all(&path).map_err(|source| file_error(&path, source))
    }

    /// [`Error::DatabaseInUse`] while sessions have it, as PostgreSQL does.
    pub fn rename_database(&self, name: &str, new_name: &str) -> Result<()> {
        let mut databases = self.databases.lock();
        let mut info = databases.find(name)?.clone();
        if databases.find(new_name).is_ok() {
            return Err(Error::DatabaseExists(new_name.to_owned()));
        }
        if databases.open.get(&info.oid).is_some_and(|database| database.users() > 1) {
            return Err(Error::DatabaseInUse(name.to_owned()));
        }
        info.name = new_name.to_owned();
        self.write_database(&info)?;
        databases.by_oid.insert(info.oid, info);
        Ok(())
    }

    /// Changes owner and flags of a database; the name stays ([`Cluster::rename_database`]).
    pub fn alter_database(&self, changed: &DatabaseInfo) -> Result<()> {
        let mut databases = self.databases.lock();
        let name = databases.find(&changed.name)?.name.clone();
        let oid = databases.find(&changed.name)?.oid;
        let info = DatabaseInfo { oid, name, ..changed.clone() };
        self.write_database(&info)?;
        databases.by_oid.insert(oid, info);
        Ok(())
    }

    fn write_database(&self, info: &DatabaseInfo) -> Result<()> {
        let mut batch = self.system.batch();
        batch.put_record(&database_record(info.oid), &encode_database(info));
        self.system.write(batch)?;
        Ok(self.system.sync()?)
    }

    /// To be called under the lock of the list.
    fn next_database_oid(&self) -> Result<u32> {
        let next = match self.system.record(NEXT_DATABASE)? {
            Some(bytes) => u32::from_be_bytes(
                bytes.as_slice().try_into().map_err(|_| corrupt("next database oid", &bytes))?,
            ),
            None => FIRST_DATABASE_OID,
        };
        let mut batch = self.system.batch();
        batch.put_record(NEXT_DATABASE, &next.saturating_add(1).to_be_bytes());
        self.system.write(batch)?;
        self.system.sync()?;
        Ok(next)
    }

    // ---- records of the floor above ---------------------------------------------------------------------

    pub fn system_get(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.system.record(&user_record(name))?)
    }

    /// Durable when it returns.
    pub fn system_put(&self, name: &[u8], value: &[u8]) -> Result<()> {
        self.system_write(&[(name.to_vec(), Some(value.to_vec()))])
    }

    /// Durable when it returns.
    pub fn system_delete(&self, name: &[u8]) -> Result<()> {
        self.system_write(&[(name.to_vec(), None)])
    }

    /// Several changes at once (`None` deletes), all or nothing; durable when it returns.
    pub fn system_write(&self, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<()> {
        let mut batch = self.system.batch();
        for (name, value) in changes {
            match value {
                Some(value) => batch.put_record(&user_record(name), value),
                None => batch.delete_record(&user_record(name)),
            }
        }
        self.system.write(batch)?;
        Ok(self.system.sync()?)
    }

    /// Records whose name begins with `prefix`, in order.
    pub fn system_scan(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut records = self.system.records(&user_record(prefix))?;
        for (name, _) in &mut records {
            name.drain(..USER.len());
        }
        Ok(records)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let databases = self.databases.get_mut();
        databases.open.clear();
        if let Err(error) = self.system.close(self.clock.now()) {
            tracing::error!(%error, "closing the system store failed");
        }
        // Best effort: the file only makes an error message better.
        let _ = std::fs::remove_file(self.directory.join("server.pid"));
    }
}

impl Databases {
    fn find(&self, name: &str) -> Result<&DatabaseInfo> {
        let found = self.by_oid.values().find(|info| info.name == name);
        found.ok_or_else(|| Error::NoSuchDatabase(name.to_owned()))
    }
}

fn file_error(path: &Path, source: std::io::Error) -> Error {
    StorageError::File { path: path.to_owned(), source }.into()
}

/// With all that leads there; the names are durable when it returns.
fn create_directory(path: &Path) -> Result<()> {
    let new: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    std::fs::create_dir_all(path).map_err(|source| file_error(path, source))?;
    for parent in new.iter().filter_map(|created| created.parent()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        sync_directory(parent)?;
    }
    Ok(())
}

fn sync_directory(path: &Path) -> Result<()> {
    std::fs::File::open(path).and_then(|file| file.sync_all()).map_err(|source| file_error(path, source))
}

fn corrupt(what: &'static str, bytes: &[u8]) -> StorageError {
    StorageError::Corruption { what, detail: format!("{bytes:02x?}") }
}

fn database_record(oid: u32) -> Vec<u8> {
    [DATABASE, &oid.to_be_bytes()].concat()
}

fn user_record(name: &[u8]) -> Vec<u8> {
    [USER, name].concat()
}

const IS_TEMPLATE: u8 = 1;
const ALLOWS_CONNECTIONS: u8 = 2;

fn encode_database(info: &DatabaseInfo) -> Vec<u8> {
    let flags = if info.is_template { IS_TEMPLATE } else { 0 }
        | if info.allows_connections { ALLOWS_CONNECTIONS } else { 0 };
    [&[1, flags], &info.owner.to_be_bytes()[..], info.name.as_bytes()].concat()
}

fn decode_database(name: &[u8], value: &[u8]) -> Result<DatabaseInfo> {
    let oid = name.strip_prefix(DATABASE).and_then(|oid| oid.try_into().ok()).map(u32::from_be_bytes);
    let fields = match value {
        [1, flags, rest @ ..] => rest.split_first_chunk::<4>().and_then(|(owner, name)| {
            Some((*flags, u32::from_be_bytes(*owner), std::str::from_utf8(name).ok()?))
        }),
        _ => None,
    };
    match (oid, fields) {
        (Some(oid), Some((flags, owner, name))) => Ok(DatabaseInfo {
            oid,
            name: name.to_owned(),
            owner,
            is_template: flags & IS_TEMPLATE != 0,
            allows_connections: flags & ALLOWS_CONNECTIONS != 0,
        }),
        _ => Err(corrupt("database record", value).into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn record_is_pinned() {
        let info = DatabaseInfo {
            oid: 258,
            name: "dé".to_owned(),
            owner: 10,
            is_template: true,
            allows_connections: false,
        };
        let (name, value) = (database_record(info.oid), encode_database(&info));
        assert_eq!(name, b"database/\0\0\x01\x02");
        assert_eq!(value, [1, 1, 0, 0, 0, 10, b'd', 0xc3, 0xa9]);
        assert_eq!(decode_database(&name, &value).unwrap(), info);
    }

    proptest! {
        #[test]
        fn decoder_never_panics(
            name in proptest::collection::vec(any::<u8>(), 0..16),
            value in proptest::collection::vec(any::<u8>(), 0..16),
        ) {
            let _ = decode_database(&name, &value);
        }
    }
}
