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
//! Invariants and recovery ([`crate::system_store`] has the records):
//! - A database exists if its record does. Its directory is complete before the record is written.
//! - A start removes a directory only if a record says that its database was being created or dropped. That record is
//!   durable before the directory is made, or before its removal begins, and it goes when the removal is durable.
//! - A directory that has an oid for its name and no record at all means that the list has lost records: the start is
//!   refused, and nothing is changed. Other names in `databases/` are somebody else's, and are left alone.
//!
//! Locks, in this order: a database's slot (while it is opened, copied, renamed or dropped: only sessions that want the same
//! database wait), `changes` (while records of databases are written), `databases` (the list in memory: for moments only,
//! never while something is read or written).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_storage::log_files::written_bytes;
use cairn_storage::{Clock, Engine, EngineOptions, Error as StorageError, Resources};
use parking_lot::Mutex;

use crate::system_store::{SystemStore, Unfinished};
use crate::{Database, Error, Result};

/// Database oids of their own counter; PostgreSQL's own databases are below.
const FIRST_DATABASE_OID: u32 = 16384;

/// What a database is called that is adopted under one of PostgreSQL's own oids, whether it is a template, and whether it
/// allows connections.
const OWN_DATABASES: [(u32, &str, bool, bool); 3] =
    [(1, "template1", true, true), (4, "template0", true, false), (5, "postgres", false, true)];
/// Who owns an adopted database: PostgreSQL's first role.
const ADOPTED_OWNER: u32 = 10;

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

/// A database that is open, if it is.
type Slot = Mutex<Option<Database>>;

struct Listed {
    info: DatabaseInfo,
    slot: Arc<Slot>,
}

#[derive(Default)]
struct Databases {
    by_oid: HashMap<u32, Listed>,
    /// Names that databases are about to have.
    reserved: HashSet<String>,
}

pub struct Cluster {
    // Dropped before the system store, whose lock guards the directory.
    databases: Mutex<Databases>,
    /// Taken by whoever changes records of databases, until the list in memory has the change.
    changes: Mutex<()>,
    directory: PathBuf,
    options: EngineOptions,
    resources: Resources,
    clock: Arc<Clock>,
    system: SystemStore,
}

/// A name that nobody else can give a database meanwhile.
struct Reservation<'cluster> {
    cluster: &'cluster Cluster,
    name: &'cluster str,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.cluster.databases.lock().reserved.remove(self.name);
    }
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

    /// The same with other settings. [`Error::UnlistedDatabases`] if there are databases that the list does not have.
    pub fn open_with(
        directory: &Path,
        options: EngineOptions,
        resources: Resources,
        clock: Clock,
    ) -> Result<Self> {
        let databases = directory.join("databases");
        create_directory(&databases)?;
        let system_directory = directory.join("system");
        if !options.recovery.adopt_databases && !system_directory.join("CURRENT").exists() {
            // A new list would be empty.
            let found = database_directories(&databases)?;
            if !found.is_empty() {
                return Err(unlisted(&databases, found.into_keys()));
            }
        }
        let pid_file = directory.join("server.pid");
        let system = SystemStore::open(&system_directory, &options, &resources, &clock).map_err(|error| {
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
        let cluster = Cluster {
            databases: Mutex::default(),
            changes: Mutex::default(),
            directory: directory.to_owned(),
            options,
            resources,
            clock: Arc::new(clock),
            system,
        };
        for info in cluster.system.databases()? {
            cluster.list(info);
        }
        cluster.compare_with_directories()?;
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

    fn databases_directory(&self) -> PathBuf {
        self.directory.join("databases")
    }

    fn database_directory(&self, oid: u32) -> PathBuf {
        self.databases_directory().join(oid.to_string())
    }

    /// Puts a database into the list, or replaces what the list has of it.
    fn list(&self, info: DatabaseInfo) {
        let mut databases = self.databases.lock();
        match databases.by_oid.get_mut(&info.oid) {
            Some(listed) => listed.info = info,
            None => {
                databases.by_oid.insert(info.oid, Listed { info, slot: Arc::default() });
            }
        }
    }

    /// Ends what a crash has interrupted; refuses a directory of databases that the list does not have.
    fn compare_with_directories(&self) -> Result<()> {
        let mut unlisted_oids = database_directories(&self.databases_directory())?;
        unlisted_oids.retain(|oid, _| !self.databases.lock().by_oid.contains_key(oid));
        let unfinished = self.system.unfinished()?;
        for (&oid, what) in &unfinished {
            if unlisted_oids.remove(&oid).is_some() {
                let path = self.database_directory(oid);
                match what {
                    Unfinished::Created => {
                        tracing::info!(path = %path.display(), "removing a database that was not created to the end");
                    }
                    Unfinished::Dropped => {
                        tracing::info!(path = %path.display(), "removing the rest of a database that was dropped");
                    }
                }
                self.remove_directory(oid)?;
            }
        }
        if self.options.recovery.adopt_databases {
            for oid in
                unlisted_oids.extract_if(|_, is_store| *is_store).map(|(oid, _)| oid).collect::<Vec<_>>()
            {
                self.adopt(oid)?;
            }
        }
        if !unlisted_oids.is_empty() {
            return Err(unlisted(&self.databases_directory(), unlisted_oids.into_keys()));
        }
        if !unfinished.is_empty() {
            let mut changes = self.system.changes();
            unfinished.keys().for_each(|&oid| changes.delete_unfinished(oid));
            self.system.write(changes)?;
        }
        Ok(())
    }

    /// Writes the record of a database whose directory is there.
    fn adopt(&self, oid: u32) -> Result<()> {
        let own = OWN_DATABASES.into_iter().find(|(own, ..)| *own == oid);
        let (name, is_template, allows_connections) = match own {
            Some((_, name, is_template, allows_connections)) if self.databases.lock().find(name).is_err() => {
                (name.to_owned(), is_template, allows_connections)
            }
            _ => (format!("recovered_{oid}"), false, true),
        };
        self.databases.lock().check_name(&name)?;
        let info = DatabaseInfo { oid, name, owner: ADOPTED_OWNER, is_template, allows_connections };
        tracing::warn!(path = %self.database_directory(oid).display(), name = info.name, "adopting a database");
        let mut changes = self.system.changes();
        changes.put_database(&info);
        let next = self.system.next_database()?.unwrap_or(FIRST_DATABASE_OID);
        changes.put_next_database(next.max(oid.saturating_add(1)));
        self.system.write(changes)?;
        self.list(info);
        Ok(())
    }

    /// To be called if a record says that nobody needs the directory. Durable when it returns.
    fn remove_directory(&self, oid: u32) -> Result<()> {
        let path = self.database_directory(oid);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(file_error(&path, error)),
            _ => sync_directory(&self.databases_directory()),
        }
    }

    /// All databases, by oid.
    pub fn databases(&self) -> Vec<DatabaseInfo> {
        let mut all: Vec<_> =
            self.databases.lock().by_oid.values().map(|listed| listed.info.clone()).collect();
        all.sort_by_key(|info| info.oid);
        all
    }

    /// The record of a database.
    pub fn database_info(&self, name: &str) -> Option<DatabaseInfo> {
        self.databases.lock().find(name).ok().map(|listed| listed.info.clone())
    }

    /// The database, opened if it was not yet.
    pub fn database(&self, name: &str) -> Result<Database> {
        Ok(self.database_with_info(name)?.1)
    }

    /// The same with its record, which nobody renames or deletes while the handle is there.
    pub fn database_with_info(&self, name: &str) -> Result<(DatabaseInfo, Database)> {
        self.with_slot(name, |info, open| Ok((info.clone(), self.open_database(info.oid, open)?)))
    }

    /// Runs `work` while nobody else opens, copies, renames or drops the database.
    fn with_slot<T>(
        &self,
        name: &str,
        work: impl FnOnce(&DatabaseInfo, &mut Option<Database>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let (oid, slot) = {
                let databases = self.databases.lock();
                let listed = databases.find(name)?;
                (listed.info.oid, listed.slot.clone())
            };
            let mut open = slot.lock();
            let info = self.databases.lock().by_oid.get(&oid).map(|listed| listed.info.clone());
            // Whoever had the slot may have renamed or dropped it.
            if let Some(info) = info.filter(|info| info.name == name) {
                return work(&info, &mut open);
            }
        }
    }

    fn open_database(&self, oid: u32, open: &mut Option<Database>) -> Result<Database> {
        if let Some(database) = open {
            return Ok(database.clone());
        }
        let options = EngineOptions { create: false, ..self.options.clone() };
        let database =
            Database::open(&self.database_directory(oid), &options, &self.resources, self.clock.clone())?;
        Ok(open.insert(database).clone())
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
        let oid_taken = fixed_oid.is_some_and(|oid| self.databases.lock().by_oid.contains_key(&oid));
        if oid_taken {
            return Err(Error::DatabaseExists(name.to_owned()));
        }
        let reservation = self.reserve(name)?;
        let info = |oid| DatabaseInfo {
            oid,
            name: name.to_owned(),
            owner,
            is_template: false,
            allows_connections: true,
        };
        let created = match origin {
            Origin::Empty => self.create_from(fixed_oid, &info, &|path| {
                let engine = Engine::open(path, &self.options, &self.resources, &self.clock)?;
                Ok(engine.close(self.clock.now())?)
            }),
            Origin::Template(template) => self.with_slot(template, |source, open| {
                let source = self.open_database(source.oid, open)?;
                // The slot holds one handle, this function the other.
                if source.users() > 2 {
                    return Err(Error::DatabaseInUse(template.to_owned()));
                }
                self.create_from(fixed_oid, &info, &|path| {
                    source.checkpoint(path)?;
                    // Settings are of the database, not of what is in it.
                    if source.engine().database_retention().is_some() {
                        let engine = Engine::open(path, &self.options, &self.resources, &self.clock)?;
                        engine.set_retention(None)?;
                        engine.close(self.clock.now())?;
                    }
                    Ok(())
                })
            }),
        };
        drop(reservation);
        created
    }

    /// Creates a database whose directory is filled by `fill`.
    fn create_from(
        &self,
        fixed_oid: Option<u32>,
        info: &dyn Fn(u32) -> DatabaseInfo,
        fill: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<DatabaseInfo> {
        let oid = self.begin_creating(fixed_oid)?;
        let info = info(oid);
        let path = self.database_directory(oid);
        let made = fill(&path)
            .and_then(|()| sync_directory(&path))
            .and_then(|()| sync_directory(&self.databases_directory()))
            .and_then(|()| {
                let _one_at_a_time = self.changes.lock();
                let mut changes = self.system.changes();
                changes.put_database(&info);
                changes.delete_unfinished(oid);
                self.system.write(changes)?;
                self.list(info.clone());
                Ok(())
            });
        match made {
            Ok(()) => Ok(info),
            Err(error) => {
                self.finish_removal(oid);
                Err(error)
            }
        }
    }

    /// The oid of a new database, whose directory may be made, and removed, from now on.
    fn begin_creating(&self, fixed_oid: Option<u32>) -> Result<u32> {
        let _one_at_a_time = self.changes.lock();
        let mut changes = self.system.changes();
        let oid = match fixed_oid {
            Some(oid) => oid,
            None => {
                let next = self.system.next_database()?.unwrap_or(FIRST_DATABASE_OID);
                changes.put_next_database(next.saturating_add(1));
                next
            }
        };
        let path = self.database_directory(oid);
        // Whatever it is, this server has not made it.
        if path.symlink_metadata().is_ok() {
            return Err(file_error(&path, std::io::ErrorKind::AlreadyExists.into()));
        }
        changes.put_unfinished(oid, Unfinished::Created);
        self.system.write(changes)?;
        Ok(oid)
    }

    /// Removes a directory that has an unfinished record. If that fails, the next start tries again.
    fn finish_removal(&self, oid: u32) {
        let removed = self.remove_directory(oid).and_then(|()| {
            let mut changes = self.system.changes();
            changes.delete_unfinished(oid);
            self.system.write(changes)
        });
        if let Err(error) = removed {
            let path = self.database_directory(oid);
            tracing::warn!(%error, path = %path.display(), "a database's files are left until the next start");
        }
    }

    /// Removes a database and its files. [`Error::DatabaseInUse`] while sessions have it.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let (oid, database) = self.with_slot(name, |info, open| {
            if open.as_ref().is_some_and(|database| database.users() > 1) {
                return Err(Error::DatabaseInUse(name.to_owned()));
            }
            let _one_at_a_time = self.changes.lock();
            let mut changes = self.system.changes();
            changes.delete_database(info.oid);
            changes.put_unfinished(info.oid, Unfinished::Dropped);
            self.system.write(changes)?;
            self.databases.lock().by_oid.remove(&info.oid);
            Ok((info.oid, open.take()))
        })?;
        // Closes it, which may take as long as a compaction.
        drop(database);
        self.finish_removal(oid);
        Ok(())
    }

    /// [`Error::DatabaseInUse`] while sessions have it, as PostgreSQL does.
    pub fn rename_database(&self, name: &str, new_name: &str) -> Result<()> {
        self.with_slot(name, |info, open| {
            let _reservation = self.reserve(new_name)?;
            if open.as_ref().is_some_and(|database| database.users() > 1) {
                return Err(Error::DatabaseInUse(name.to_owned()));
            }
            self.change(info.oid, |info| new_name.clone_into(&mut info.name))
        })
    }

    /// Changes owner and flags of a database; the name stays ([`Cluster::rename_database`]).
    pub fn alter_database(&self, changed: &DatabaseInfo) -> Result<()> {
        let oid = self.databases.lock().find(&changed.name)?.info.oid;
        self.change(oid, |info| {
            let (oid, name) = (info.oid, std::mem::take(&mut info.name));
            *info = DatabaseInfo { oid, name, ..changed.clone() };
        })
    }

    fn change(&self, oid: u32, change: impl FnOnce(&mut DatabaseInfo)) -> Result<()> {
        let _one_at_a_time = self.changes.lock();
        let info = self.databases.lock().by_oid.get(&oid).map(|listed| listed.info.clone());
        let mut info = info.ok_or_else(|| Error::NoSuchDatabase(oid.to_string()))?;
        change(&mut info);
        let mut changes = self.system.changes();
        changes.put_database(&info);
        self.system.write(changes)?;
        self.list(info);
        Ok(())
    }

    /// [`Error::DatabaseExists`] if a database has the name, or is about to have it.
    fn reserve<'cluster>(&'cluster self, name: &'cluster str) -> Result<Reservation<'cluster>> {
        let mut databases = self.databases.lock();
        databases.check_name(name)?;
        databases.reserved.insert(name.to_owned());
        Ok(Reservation { cluster: self, name })
    }

    // ---- records of the floor above ---------------------------------------------------------------------

    pub fn system_get(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.system.user_record(name)
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
    pub fn system_write(&self, records: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<()> {
        let mut changes = self.system.changes();
        for (name, value) in records {
            changes.put_user_record(name, value.as_deref());
        }
        self.system.write(changes)
    }

    /// Records whose name begins with `prefix`, in order.
    pub fn system_scan(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.system.user_records(prefix)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.databases.get_mut().by_oid.clear();
        if let Err(error) = self.system.close(&self.clock) {
            tracing::error!(%error, "closing the system store failed");
        }
        // Best effort: the file only makes an error message better.
        let _ = std::fs::remove_file(self.directory.join("server.pid"));
    }
}

impl Databases {
    fn find(&self, name: &str) -> Result<&Listed> {
        let found = self.by_oid.values().find(|listed| listed.info.name == name);
        found.ok_or_else(|| Error::NoSuchDatabase(name.to_owned()))
    }

    fn check_name(&self, name: &str) -> Result<()> {
        if self.find(name).is_ok() || self.reserved.contains(name) {
            return Err(Error::DatabaseExists(name.to_owned()));
        }
        Ok(())
    }
}

/// The entries of `databases/` that have an oid for a name, and whether they look like a store.
fn database_directories(directory: &Path) -> Result<HashMap<u32, bool>> {
    let mut found = HashMap::new();
    for entry in std::fs::read_dir(directory).map_err(|source| file_error(directory, source))? {
        let path = entry.map_err(|source| file_error(directory, source))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name.parse::<u32>() {
            // As this server writes it: not +5, not 005.
            Ok(oid) if oid.to_string() == name => {
                found.insert(oid, path.join("CURRENT").exists());
            }
            _ => {
                tracing::warn!(path = %path.display(), "this is not a database of the server, and is ignored")
            }
        }
    }
    Ok(found)
}

fn unlisted(databases: &Path, oids: impl Iterator<Item = u32>) -> Error {
    let mut oids: Vec<u32> = oids.collect();
    oids.sort_unstable();
    let paths = oids.iter().map(|oid| databases.join(oid.to_string())).collect();
    Error::UnlistedDatabases { paths }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path) -> Result<Cluster> {
        let resources = Resources::new(16 << 20, 8 << 20);
        Cluster::open_with(directory, EngineOptions::default(), resources, Clock::system())
    }

    /// A crash may leave any part of a database that was being created or dropped.
    #[test]
    fn what_was_not_finished_is_removed_by_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let (made, dropped);
        {
            let cluster = open(directory.path()).unwrap();
            cluster.create_database("stays", 10, Origin::Empty).unwrap();
            made = cluster.begin_creating(None).unwrap();
            std::fs::create_dir(cluster.database_directory(made)).unwrap();
            std::fs::write(cluster.database_directory(made).join("CURRENT"), "half").unwrap();
            dropped = cluster.create_database("goes", 10, Origin::Empty).unwrap().oid;
            let mut changes = cluster.system.changes();
            changes.delete_database(dropped);
            changes.put_unfinished(dropped, Unfinished::Dropped);
            cluster.system.write(changes).unwrap();
            // Its directory was never made.
            cluster.begin_creating(None).unwrap();
        }
        for _ in 0..2 {
            let cluster = open(directory.path()).unwrap();
            let names: Vec<_> = cluster.databases().into_iter().map(|info| info.name).collect();
            assert_eq!(names, ["stays"]);
            assert!(cluster.database("stays").is_ok());
            assert!(!cluster.database_directory(made).exists());
            assert!(!cluster.database_directory(dropped).exists());
            assert!(cluster.system.unfinished().unwrap().is_empty());
        }
    }

    /// Nobody needs the locks of another database, nor waits for them to read the list.
    #[test]
    fn a_slow_database_keeps_nobody_from_another() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = open(directory.path()).unwrap();
        for name in ["slow", "other", "template"] {
            cluster.create_database(name, 10, Origin::Empty).unwrap();
        }
        std::thread::scope(|scope| {
            // Whoever opens, copies or drops a database has its slot, and nothing else.
            let (entered, is_in) = std::sync::mpsc::channel();
            let (leave, may_leave) = std::sync::mpsc::channel::<()>();
            let cluster = &cluster;
            let slow = scope.spawn(move || {
                cluster.with_slot("slow", |info, open| {
                    entered.send(()).unwrap();
                    may_leave.recv().unwrap();
                    cluster.open_database(info.oid, open).map(drop)
                })
            });
            is_in.recv().unwrap();
            let waiting = scope.spawn(move || cluster.database("slow").map(drop));
            assert_eq!(cluster.databases().len(), 3);
            cluster.database("other").unwrap();
            cluster.create_database("copy", 10, Origin::Template("template")).unwrap();
            cluster.rename_database("copy", "copied").unwrap();
            let info = cluster.database_info("slow").unwrap();
            cluster.alter_database(&DatabaseInfo { owner: 11, ..info }).unwrap();
            cluster.drop_database("copied").unwrap();
            assert!(!waiting.is_finished());
            leave.send(()).unwrap();
            slow.join().unwrap().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(cluster.database_info("slow").unwrap().owner, 11);
    }

    /// Sessions that want the same names at the same time: one of each wins.
    #[test]
    fn names_are_given_once() {
        let directory = tempfile::tempdir().unwrap();
        let cluster = open(directory.path()).unwrap();
        cluster.create_database("a", 10, Origin::Empty).unwrap();
        for round in 0..4 {
            let (cluster, name) = (&cluster, &*format!("new{round}"));
            let won = std::thread::scope(|scope| {
                let work: Vec<_> = (0..6)
                    .map(|number| {
                        scope.spawn(move || match number {
                            0 => cluster.rename_database("a", name),
                            1 => cluster.create_database(name, 10, Origin::Template("a")).map(drop),
                            2 => cluster.drop_database(name),
                            _ => cluster.create_database(name, 10, Origin::Empty).map(drop),
                        })
                    })
                    .collect();
                let won = |work: std::thread::ScopedJoinHandle<'_, Result<()>>| match work.join().unwrap() {
                    Ok(()) => true,
                    Err(Error::DatabaseExists(_) | Error::NoSuchDatabase(_) | Error::DatabaseInUse(_)) => {
                        false
                    }
                    Err(other) => panic!("{other}"),
                };
                work.into_iter().map(won).collect::<Vec<_>>()
            });
            let owners = won.iter().enumerate().filter(|(number, won)| *number != 2 && **won).count();
            let there = usize::from(cluster.database_info(name).is_some());
            assert_eq!(owners, there + usize::from(won[2]), "{won:?}");
            if cluster.database_info("a").is_none() {
                cluster.create_database("a", 10, Origin::Empty).unwrap();
            }
        }
        let listed = cluster.databases().len();
        drop(cluster);
        assert_eq!(open(directory.path()).unwrap().databases().len(), listed);
    }
}
