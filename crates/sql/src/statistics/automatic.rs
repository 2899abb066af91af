//! Tables whose rows have changed are analyzed by themselves (PostgreSQL's autovacuum, as far as it analyzes).
//!
//! One thread for the instance looks at the open databases every `autovacuum_naptime`. A table is due when more rows have been
//! inserted, updated or deleted since it was last analyzed than `autovacuum_analyze_threshold` +
//! `autovacuum_analyze_scale_factor` x its rows (settings of the server; a table may have its own, and
//! `autovacuum_enabled = false`). What counts are the counters of `pg_stat_user_tables`, which begin when a database is opened: changes of
//! an earlier run of the server are forgotten.
//!
//! The work is done by an ordinary session of the role that owns everything, one table a transaction. It waits for nobody: a table
//! that is locked against it is left for the next round, and whoever drops a database ends the session first
//! ([`Automatic::leave`]).

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cairn_catalog::{Catalog, Persistence, Relation, RelationKind};
use cairn_txn::{Event, Interrupt, SessionHandle, Store};
use cairn_types::{Oid, Result, oid};
use parking_lot::{Condvar, Mutex};

use super::Options;
use crate::client::Startup;
use crate::core::User;
use crate::instance::{Instance, OpenDatabase, SessionEntry};
use crate::session::Session;
use crate::settings::definition;

/// By what pg_stat_activity knows the session.
const NAME: &str = "autovacuum worker";
/// PostgreSQL gives an autovacuum worker as long to go away.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often, and when, a table was analyzed since its database was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Analyzed {
    /// Changed rows that had been counted by then.
    changes: u64,
    pub by_hand: u64,
    pub automatic: u64,
    /// Microseconds since 2000-01-01 UTC.
    pub last_by_hand_us: Option<i64>,
    pub last_automatic_us: Option<i64>,
}

/// The same for all tables of a database.
#[derive(Debug, Default)]
pub struct AnalyzeHistory(Mutex<HashMap<Oid, Analyzed>>);

impl AnalyzeHistory {
    pub fn of(&self, table: Oid) -> Analyzed {
        self.0.lock().get(&table).copied().unwrap_or_default()
    }

    /// `changes`: as counted when the sample was taken.
    pub(super) fn note(&self, table: Oid, changes: u64, automatic: bool) {
        let mut tables = self.0.lock();
        let entry = tables.entry(table).or_default();
        entry.changes = changes;
        let now = Some(crate::clock::now_us());
        if automatic {
            entry.automatic += 1;
            entry.last_automatic_us = now;
        } else {
            entry.by_hand += 1;
            entry.last_by_hand_us = now;
        }
    }

    /// Rows changed since the table was last analyzed.
    pub fn changes_since(&self, store: &dyn Store, table: Oid) -> u64 {
        // Counters may have been reset.
        changes(store, table).saturating_sub(self.of(table).changes)
    }

    fn forget_dropped(&self, catalog: &Catalog) {
        self.0.lock().retain(|table, _| catalog.relation(*table).is_some());
    }
}

/// Rows of a table inserted, updated and deleted since the database was opened.
pub(super) fn changes(store: &dyn Store, table: Oid) -> u64 {
    store.known_activity(table).map_or(0, |activity| {
        activity.sum(Event::Insert) + activity.sum(Event::Update) + activity.sum(Event::Delete)
    })
}

/// The thread. Dropping it stops the thread and waits for it.
pub struct Automatic {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the instance knows of the thread.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopping: bool,
    /// The database that is being looked at, and the session in it.
    database: Option<Oid>,
    session: Option<Arc<SessionEntry>>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Has the session in a database end, and waits until the database is let go.
    pub(crate) fn leave(&self, database: Oid) {
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        let mut state = self.state.lock();
        while state.database == Some(database) {
            if let Some(session) = &state.session {
                session.cancel();
            }
            // The session may have begun a moment later, and not heard it.
            self.changed.wait_for(&mut state, Duration::from_millis(50));
            if Instant::now() > deadline {
                return;
            }
        }
    }

    fn enter(&self, database: Option<Oid>, session: Option<Arc<SessionEntry>>) {
        let mut state = self.state.lock();
        state.database = database;
        state.session = session;
        self.changed.notify_all();
    }
}

impl Automatic {
    /// Begins to look after the databases of an instance, unless `autovacuum` is off.
    ///
    /// # Errors
    /// No thread could be made.
    pub fn start(instance: &Arc<Instance>) -> std::io::Result<Automatic> {
        let shared = Arc::clone(instance.automatic());
        if instance.fact("autovacuum").as_deref() == Some("off") {
            return Ok(Automatic { shared, thread: None });
        }
        let (of_thread, weak) = (Arc::clone(&shared), Arc::downgrade(instance));
        let thread = std::thread::Builder::new()
            .name("cairn-analyze".to_owned())
            .stack_size(8 << 20)
            .spawn(move || run(&of_thread, &weak))?;
        Ok(Automatic { shared, thread: Some(thread) })
    }
}

impl Drop for Automatic {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.stopping = true;
            if let Some(session) = &state.session {
                session.cancel();
            }
            self.shared.changed.notify_all();
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that analyzes tables ended by a panic");
        }
    }
}

/// A setting of the server that is a number.
fn number(instance: &Instance, name: &str) -> f64 {
    let default = || {
        let known = definition::find(name).and_then(|index| definition::all().get(index));
        known.map(|definition| definition.default.to_owned())
    };
    instance.fact(name).or_else(default).and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn run(shared: &Shared, instance: &Weak<Instance>) {
    loop {
        let Some(naptime) = instance.upgrade().map(|instance| number(&instance, "autovacuum_naptime")) else {
            return;
        };
        let wake = Instant::now() + Duration::from_secs_f64(naptime.clamp(1.0, 2_147_483.0));
        {
            let mut state = shared.state.lock();
            while !state.stopping && Instant::now() < wake {
                shared.changed.wait_until(&mut state, wake);
            }
            if state.stopping {
                return;
            }
        }
        let Some(instance) = instance.upgrade() else { return };
        for database in instance.open_databases() {
            if shared.is_stopping() {
                return;
            }
            shared.enter(Some(database), None);
            let worked = instance.database_if_open(database).map(|open| work(shared, &instance, &open));
            shared.enter(None, None);
            if let Some(Err(error)) = worked {
                tracing::info!(%error, "analyzing tables ended early");
            }
        }
    }
}

/// Analyzes what is due in one database.
fn work(shared: &Shared, instance: &Arc<Instance>, open: &OpenDatabase) -> Result<()> {
    let nobody = Arc::new(SessionHandle { pid: 0, interrupt: Arc::new(Interrupt::new()) });
    let (_, catalog) = open.catalogs.current(&*open.store, &nobody).map_err(cairn_exec::txn_error)?;
    open.analyzed.forget_dropped(&catalog);
    let due: Vec<Arc<Relation>> = catalog
        .user_relations()
        .filter(|table| {
            matches!(table.kind, RelationKind::Table | RelationKind::MaterializedView)
                && table.persistence != Persistence::Temporary
                && is_due(instance, open, table)
        })
        .cloned()
        .collect();
    if due.is_empty() {
        return Ok(());
    }
    let user = User { oid: oid::BOOTSTRAP_ROLE, name: "postgres".into(), superuser: true };
    let startup = Startup {
        user: user.name.to_string(),
        database: open.info.name.clone(),
        settings: vec![("application_name".to_owned(), NAME.to_owned())],
        ..Startup::default()
    };
    let session = Session::open(instance, startup, user, Box::new(|_| ()))?;
    let core = session.core();
    shared.enter(Some(open.info.oid), Some(Arc::clone(&core.entry)));
    for table in due {
        if shared.is_stopping() {
            break;
        }
        let name = catalog.namespace_name(table.namespace);
        {
            let mut activity = core.entry.activity.lock();
            activity.state = "active";
            activity.query = format!("autovacuum: ANALYZE {name}.{}", table.name).into();
            activity.query_start_us = crate::clock::now_us();
        }
        core.start_implicit();
        core.ensure_transaction()?.leave_uncounted();
        let options = Options { skip_locked: true, automatic: true, verbose: false };
        let analyzed = super::analyze_table(core, &table, &[], options).and_then(|()| core.finish_implicit());
        if let Err(error) = analyzed {
            core.rollback_everything();
            return Err(error);
        }
        tracing::debug!(table = %table.name, "analyzed");
    }
    Ok(())
}

fn is_due(instance: &Instance, open: &OpenDatabase, table: &Relation) -> bool {
    let changes = open.analyzed.changes_since(&*open.store, table.oid);
    if changes == 0 {
        return false;
    }
    let own = |name: &str| {
        table
            .options
            .iter()
            .find_map(|option| option.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    if own("autovacuum_enabled").is_some_and(|on| crate::settings::value::parse_bool(&on) == Some(false)) {
        return false;
    }
    let setting =
        |name: &str| own(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| number(instance, name));
    let rows = table.estimated_rows.max(0.0);
    let threshold =
        setting("autovacuum_analyze_threshold") + setting("autovacuum_analyze_scale_factor") * rows;
    changes as f64 > threshold
}
