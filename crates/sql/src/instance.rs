//! One data directory being served: its databases, its roles, its sessions.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cairn_catalog::columns::pg_authid;
use cairn_catalog::{CatalogCache, CatalogRow, ClusterCatalog, RowExt, SharedCatalogs};
use cairn_exec::TxnResultExt;
use cairn_txn::{
    CancelReason, Clock, Cluster, DatabaseInfo, EngineOptions, Interrupt, Origin, Resources, SessionHandle,
    Store,
};
use cairn_types::{Datum, Oid, Result, err, oid};
use parking_lot::{Condvar, Mutex};

use crate::client::{Backend, Credentials, Frontend, Notification, Startup, Wake};
use crate::core::User;
use crate::notify::Exchange;
use crate::session::Session;

/// What the process serves. One per data directory.
pub struct Instance {
    cluster: Arc<Cluster>,
    shared: Arc<ClusterCatalog>,
    databases: Mutex<HashMap<Oid, Weak<OpenDatabase>>>,
    sessions: Mutex<HashMap<i32, Arc<SessionEntry>>>,
    next_pid: AtomicI32,
    watchdog: Arc<Watchdog>,
    pub(crate) exchange: Exchange,
    facts: Mutex<Vec<(&'static str, String)>>,
    /// Who analyzes tables by itself.
    automatic: Arc<crate::statistics::automatic::Shared>,
    start: Instant,
    /// The same moment, in microseconds since 2000-01-01 UTC.
    start_us: i64,
    /// See [`crate::password::mock_salt`].
    mock_secret: Vec<u8>,
}

/// A database with at least one session.
pub struct OpenDatabase {
    pub info: DatabaseInfo,
    pub store: Arc<dyn Store>,
    /// The newest committed picture of the catalog.
    pub catalogs: CatalogCache,
    /// Whether temporary objects of sessions that are gone have been looked for.
    pub(crate) cleaned: AtomicBool,
    /// When its tables were analyzed.
    pub(crate) analyzed: crate::statistics::automatic::AnalyzeHistory,
}

/// What others know of a session: pg_stat_activity, cancel requests.
pub struct SessionEntry {
    pub handle: Arc<SessionHandle>,
    pub secret: i32,
    pub database: DatabaseInfo,
    pub user: String,
    pub user_oid: Oid,
    pub client_address: Option<std::net::SocketAddr>,
    pub tls: Option<crate::client::Tls>,
    /// Microseconds since 2000-01-01 UTC.
    pub backend_start_us: i64,
    pub activity: Mutex<Activity>,
    /// Notifications that the client has not been told yet.
    pub(crate) inbox: Mutex<Vec<Notification>>,
    /// When the running statement is to be stopped, in microseconds since the instance began; 0: never.
    deadline_us: AtomicU64,
    wake: Box<dyn Fn(Wake) + Send + Sync>,
}

/// What a session is doing.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    pub state: &'static str,
    pub query: Arc<str>,
    pub application_name: String,
    pub transaction_start_us: Option<i64>,
    pub query_start_us: i64,
    pub state_change_us: i64,
    /// In `pg_sleep`.
    pub sleeps: bool,
}

impl SessionEntry {
    /// pg_cancel_backend.
    pub fn cancel(&self) {
        self.raise(CancelReason::UserRequest);
    }

    /// pg_terminate_backend.
    pub fn terminate(&self) {
        self.raise(CancelReason::Terminate);
        (self.wake)(Wake::End);
    }

    /// There is something in the inbox.
    pub(crate) fn nudge(&self) {
        (self.wake)(Wake::Notify);
    }

    fn raise(&self, reason: CancelReason) {
        self.handle.interrupt.raise(reason);
    }
}

impl Instance {
    /// Opens or creates a data directory; the database `postgres` and the role `postgres` are there afterwards.
    pub fn open(directory: &Path) -> Result<Arc<Self>> {
        Self::open_with(directory, EngineOptions::default(), Resources::for_this_machine())
    }

    /// [`Instance::open`] with other settings of the stores below, and with the memory that they share.
    pub fn open_with(directory: &Path, options: EngineOptions, resources: Resources) -> Result<Arc<Self>> {
        let cluster = Cluster::open_with(directory, options, resources, Clock::system());
        let cluster = cluster.map_err(cairn_exec::txn_error)?;
        let mock_secret = mock_secret(&cluster)?;
        Self::with_cluster(cluster, mock_secret).map_err(cairn_exec::txn_error)
    }

    fn with_cluster(cluster: Cluster, mock_secret: Vec<u8>) -> cairn_txn::Result<Arc<Self>> {
        // PostgreSQL's own oids of these databases.
        for (name, oid, template) in [("template1", 1, true), ("template0", 4, true), ("postgres", 5, false)]
        {
            if cluster.databases().is_empty() || cluster.database_info(name).is_none() {
                let info = cluster.create_database_with_oid(name, oid, oid::BOOTSTRAP_ROLE, Origin::Empty)?;
                cluster.alter_database(&DatabaseInfo {
                    is_template: template,
                    allows_connections: name != "template0",
                    ..info
                })?;
            }
        }
        let directory = cluster.directory().display().to_string();
        let shared_buffers = crate::settings::shared_buffers_text(cluster.resources().cache_bytes());
        let cluster = Arc::new(cluster);
        let shared = Arc::new(ClusterCatalog::open(Arc::clone(&cluster))?);
        Ok(Arc::new(Instance {
            cluster,
            shared,
            databases: Mutex::default(),
            sessions: Mutex::default(),
            next_pid: AtomicI32::new(1),
            watchdog: Arc::new(Watchdog::default()),
            exchange: Exchange::default(),
            facts: Mutex::new(vec![
                ("data_directory", directory),
                (crate::settings::SHARED_BUFFERS, shared_buffers),
            ]),
            automatic: Arc::default(),
            start: Instant::now(),
            start_us: crate::clock::now_us(),
            mock_secret,
        }))
    }

    /// Tells sessions opened from now on what SHOW is to answer about the server (`port`, `max_connections`, ...).
    pub fn set_fact(&self, name: &'static str, value: impl Into<String>) {
        self.facts.lock().push((name, value.into()));
    }

    /// What was told of a setting.
    pub(crate) fn fact(&self, name: &str) -> Option<String> {
        let facts = self.facts.lock();
        facts.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    pub(crate) fn automatic(&self) -> &Arc<crate::statistics::automatic::Shared> {
        &self.automatic
    }

    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        self.facts.lock().clone()
    }

    /// Roles and databases.
    pub fn shared(&self) -> &Arc<ClusterCatalog> {
        &self.shared
    }

    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// When the instance was opened, in microseconds since 2000-01-01 UTC.
    pub fn start_us(&self) -> i64 {
        self.start_us
    }

    /// All sessions, by pid.
    pub fn sessions(&self) -> Vec<Arc<SessionEntry>> {
        let mut all: Vec<_> = self.sessions.lock().values().cloned().collect();
        all.sort_by_key(|entry| entry.handle.pid);
        all
    }

    pub fn session(&self, pid: i32) -> Option<Arc<SessionEntry>> {
        self.sessions.lock().get(&pid).cloned()
    }

    /// The stores of all databases that somebody has open.
    pub(crate) fn open_stores(&self) -> Vec<Arc<dyn Store>> {
        let databases = self.databases.lock();
        databases.values().filter_map(Weak::upgrade).map(|open| Arc::clone(&open.store)).collect()
    }

    /// Databases that somebody has open.
    pub(crate) fn open_databases(&self) -> Vec<Oid> {
        let databases = self.databases.lock();
        databases.iter().filter(|(_, open)| open.strong_count() > 0).map(|(oid, _)| *oid).collect()
    }

    pub(crate) fn database_if_open(&self, database: Oid) -> Option<Arc<OpenDatabase>> {
        self.databases.lock().get(&database).and_then(Weak::upgrade)
    }

    /// The database by name, opened if nobody has it yet; 3D000 if there is none.
    pub fn database(&self, name: &str) -> Result<Arc<OpenDatabase>> {
        let missing = || err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist");
        let info = self.cluster.database_info(name).ok_or_else(missing)?;
        if let Some(open) = self.database_if_open(info.oid) {
            return Ok(open);
        }
        // Without the lock: opening a database may mean to replay its log.
        let (info, database) = self.cluster.database_with_info(name).map_err(cairn_exec::txn_error)?;
        let mut databases = self.databases.lock();
        if let Some(open) = databases.get(&info.oid).and_then(Weak::upgrade) {
            return Ok(open);
        }
        let store: Arc<dyn Store> = Arc::new(database);
        let catalogs = CatalogCache::new(Some(Arc::clone(&self.shared) as Arc<dyn SharedCatalogs>));
        let open = Arc::new(OpenDatabase {
            store,
            catalogs,
            cleaned: AtomicBool::new(false),
            analyzed: Default::default(),
            info,
        });
        databases.insert(open.info.oid, Arc::downgrade(&open));
        Ok(open)
    }

    /// Registers a new session.
    pub(crate) fn register(
        self: &Arc<Self>,
        startup: &Startup,
        database: &OpenDatabase,
        user: &User,
        wake: Box<dyn Fn(Wake) + Send + Sync>,
    ) -> Arc<SessionEntry> {
        let mut sessions = self.sessions.lock();
        let mut pid = self.next_pid.fetch_add(1, Ordering::Relaxed);
        // Wraps around after two billion sessions; numbers in use are passed over.
        while pid <= 0 || sessions.contains_key(&pid) {
            if pid <= 0 {
                self.next_pid.store(1, Ordering::Relaxed);
            }
            pid = self.next_pid.fetch_add(1, Ordering::Relaxed);
        }
        let mut secret = [0; 4];
        if let Err(error) = getrandom::fill(&mut secret) {
            tracing::error!(%error, "no random numbers: cancel requests are unprotected");
        }
        let now = crate::clock::now_us();
        let entry = Arc::new(SessionEntry {
            handle: Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::new()) }),
            secret: i32::from_be_bytes(secret),
            database: database.info.clone(),
            user: startup.user.clone(),
            user_oid: user.oid,
            client_address: startup.client_address,
            tls: startup.tls.clone(),
            backend_start_us: now,
            activity: Mutex::new(Activity { state: "idle", state_change_us: now, ..Activity::default() }),
            inbox: Mutex::default(),
            deadline_us: AtomicU64::new(0),
            wake,
        });
        sessions.insert(pid, Arc::clone(&entry));
        entry
    }

    pub(crate) fn unregister(&self, entry: &SessionEntry) {
        self.sessions.lock().remove(&entry.handle.pid);
    }

    /// Has the running statement of a session stopped after so long, unless [`Instance::disarm`] comes first.
    pub(crate) fn arm(self: &Arc<Self>, entry: &SessionEntry, timeout: Duration) {
        let deadline = self.start.elapsed().saturating_add(timeout);
        entry
            .deadline_us
            .store(u64::try_from(deadline.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Release);
        self.watchdog.wake(self);
    }

    /// Also where no timeout is set any more: the statement that ends may have been the one that reset it.
    pub(crate) fn disarm(&self, entry: &SessionEntry) {
        if entry.deadline_us.load(Ordering::Relaxed) != 0 {
            entry.deadline_us.store(0, Ordering::Release);
        }
    }

    /// Raises what has run out; returns whether any deadline is left.
    fn check_deadlines(&self) -> bool {
        let now = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut armed = false;
        for entry in self.sessions.lock().values() {
            let deadline = entry.deadline_us.load(Ordering::Acquire);
            if deadline == 0 {
                continue;
            }
            armed = true;
            if deadline <= now
                && entry
                    .deadline_us
                    .compare_exchange(deadline, 0, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                entry.raise(CancelReason::StatementTimeout);
            }
        }
        armed
    }
}

/// One thread that looks after `statement_timeout` for all sessions. It runs while anybody has a deadline, and looks
/// every few milliseconds: exact enough for a timeout, and nothing to do per statement but a store.
#[derive(Default)]
struct Watchdog {
    state: Mutex<WatchdogState>,
    armed: Condvar,
}

#[derive(Default)]
struct WatchdogState {
    running: bool,
    wanted: bool,
}

const WATCHDOG_INTERVAL: Duration = Duration::from_millis(5);
/// So long the thread waits for another deadline before it ends.
const WATCHDOG_LINGER: Duration = Duration::from_secs(5);

impl Watchdog {
    fn wake(self: &Arc<Self>, instance: &Arc<Instance>) {
        let mut state = self.state.lock();
        state.wanted = true;
        if state.running {
            self.armed.notify_one();
            return;
        }
        let (watchdog, instance) = (Arc::clone(self), Arc::downgrade(instance));
        let spawned =
            std::thread::Builder::new().name("watchdog".into()).spawn(move || watchdog.run(&instance));
        match spawned {
            Ok(_) => state.running = true,
            Err(error) => tracing::error!(%error, "no thread for timeouts: statement_timeout has no effect"),
        }
    }

    fn run(&self, instance: &Weak<Instance>) {
        loop {
            std::thread::sleep(WATCHDOG_INTERVAL);
            let armed = instance.upgrade().is_some_and(|instance| instance.check_deadlines());
            let mut state = self.state.lock();
            if armed {
                continue;
            }
            state.wanted = false;
            while !state.wanted {
                if self.armed.wait_for(&mut state, WATCHDOG_LINGER).timed_out() && !state.wanted {
                    state.running = false;
                    return;
                }
            }
        }
    }
}

/// Record of the system store: what the salts of users are made from that have none.
const MOCK_SECRET: &[u8] = b"mock-authentication-secret";

/// The directory's own, made when it is opened for the first time: a salt that changes with each start would tell that its
/// user does not exist.
fn mock_secret(cluster: &Cluster) -> Result<Vec<u8>> {
    if let Some(secret) = cluster.system_get(MOCK_SECRET).sql()? {
        return Ok(secret);
    }
    let mut secret = vec![0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| err!(INTERNAL_ERROR, "could not generate random numbers: {error}"))?;
    cluster.system_put(MOCK_SECRET, &secret).sql()?;
    Ok(secret)
}

/// [`Instance`] as the server sees it.
pub struct InstanceBackend(pub Arc<Instance>);

impl InstanceBackend {
    /// The pg_authid row that a user name stands for. As long as nobody has made a role or set a password, any name may connect
    /// from this machine and acts for the role that owns everything (`None`).
    fn role(&self, user: &str) -> Result<Option<CatalogRow>> {
        match self.0.shared.role(user) {
            Some(row) => Ok(Some(row)),
            None if !self.0.shared.is_administered() => {
                tracing::info!(
                    user,
                    "no such role: the session acts for postgres, as no role and no password was ever set"
                );
                Ok(None)
            }
            None => Err(err!(INVALID_AUTHORIZATION_SPECIFICATION, "role \"{user}\" does not exist")),
        }
    }
}

/// A role as sessions know it, from its row in pg_authid.
pub fn user_of(row: &CatalogRow) -> User {
    User {
        oid: row.oid(pg_authid::OID),
        name: row.text(pg_authid::ROLNAME),
        superuser: matches!(row[pg_authid::ROLSUPER], Datum::Bool(true)),
    }
}

impl Backend for InstanceBackend {
    fn credentials(&self, user: &str, local: bool) -> Result<Credentials> {
        let shared = &self.0.shared;
        if !local && !shared.is_administered() {
            return Err(err!(
                INVALID_AUTHORIZATION_SPECIFICATION,
                "role \"{user}\" has no password and may connect from the server's own machine only"
            )
            .hint("Connect from there and say ALTER ROLE ... PASSWORD '...'."));
        }
        let refused = |why: &str| {
            tracing::info!(user, why, "a client is going to be refused");
            Ok(Credentials::Refused { salt: crate::password::mock_salt(&self.0.mock_secret, user) })
        };
        let Some(row) = shared.role(user) else {
            return if shared.is_administered() { refused("no such role") } else { Ok(Credentials::Trusted) };
        };
        match (&row[pg_authid::ROLPASSWORD], &row[pg_authid::ROLVALIDUNTIL]) {
            (Datum::Text(_), Datum::TimestampTz(until)) if *until < crate::clock::now_us() => {
                refused("the password has expired")
            }
            (Datum::Text(verifier), _) => Ok(Credentials::Password(verifier.to_string())),
            _ if local => Ok(Credentials::Trusted),
            _ => refused("no password"),
        }
    }

    fn open(&self, startup: Startup, wake: Box<dyn Fn(Wake) + Send + Sync>) -> Result<Box<dyn Frontend>> {
        let user = match self.role(&startup.user)? {
            Some(row) if !matches!(row[pg_authid::ROLCANLOGIN], Datum::Bool(true)) => {
                return Err(err!(
                    INVALID_AUTHORIZATION_SPECIFICATION,
                    "role \"{}\" is not permitted to log in",
                    startup.user
                ));
            }
            Some(row) => user_of(&row),
            None => User { oid: oid::BOOTSTRAP_ROLE, name: startup.user.as_str().into(), superuser: true },
        };
        Ok(Box::new(Session::open(&self.0, startup, user, wake)?))
    }

    fn cancel(&self, pid: i32, secret: i32) {
        if let Some(entry) = self.0.session(pid).filter(|entry| entry.secret == secret) {
            entry.cancel();
        }
    }

    fn terminate_all(&self) {
        for entry in self.0.sessions() {
            entry.terminate();
        }
    }
}
