//! [`Core`] as system functions see it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use cairn_catalog::{Catalog, SearchPath};
use cairn_txn::locks::LockTarget;
use cairn_txn::{LockTag, SessionHandle, Store, Transaction};
use cairn_types::oid::catalogs;
use cairn_types::{Env, Oid, Result, err};

use crate::core::Core;
use crate::settings::definition;
use crate::system_functions::{CursorInfo, Host, PreparedInfo, SequenceMemory, SessionInfo, SettingInfo};

impl Host for Core {
    fn catalog(&self) -> Result<Arc<Catalog>> {
        Core::catalog(self)
    }

    fn search_path(&self) -> Result<Arc<SearchPath>> {
        Core::search_path(self)
    }

    fn store(&self) -> &Arc<dyn Store> {
        &self.database.store
    }

    fn handle(&self) -> &Arc<SessionHandle> {
        &self.entry.handle
    }

    fn transaction(&self) -> Result<Arc<dyn Transaction>> {
        Core::transaction(self)
    }

    fn analyzed(&self, table: Oid) -> crate::statistics::automatic::Analyzed {
        self.database.analyzed.of(table)
    }

    fn changes_since_analyze(&self, table: Oid) -> u64 {
        self.database.analyzed.changes_since(&*self.database.store, table)
    }

    fn current_user_oid(&self) -> Oid {
        self.user_oid()
    }

    fn roles(&self) -> std::rc::Rc<crate::rights::Roles> {
        Core::roles(self)
    }

    fn is_superuser(&self) -> bool {
        Core::is_superuser(self)
    }

    fn post_notification(&self, channel: &str, payload: &str) -> Result<()> {
        self.post(channel, payload)
    }

    fn listening_channels(&self) -> Vec<cairn_types::Text> {
        self.listening()
    }

    fn notification_usage(&self) -> f64 {
        self.instance.exchange.usage()
    }

    fn database_oid(&self) -> Oid {
        self.database.info.oid
    }

    fn is_read_only(&self) -> bool {
        self.block.borrow().read_only
    }

    fn lock_timeout(&self) -> Duration {
        self.hot(|hot| hot.lock_timeout)
    }

    fn sequence_memory(&self) -> &RefCell<SequenceMemory> {
        &self.sequences
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        let mut waits = std::collections::HashMap::new();
        for store in self.instance.open_stores() {
            // Of several that wait for a row, the first waits for the transaction that has it, the others for their turn.
            let mut rows = std::collections::HashSet::new();
            for wait in store.waits() {
                let event = match &wait.target {
                    LockTarget::Row(key) => {
                        if rows.insert(Arc::clone(key)) {
                            "transactionid"
                        } else {
                            "tuple"
                        }
                    }
                    LockTarget::Object(LockTag::Object { class: catalogs::PG_CLASS, .. }) => "relation",
                    LockTarget::Object(LockTag::Object { .. }) => "object",
                    LockTarget::Object(LockTag::Transaction(_)) => "transactionid",
                    LockTarget::Object(_) => "advisory",
                };
                waits.insert(wait.pid, ("Lock", event));
            }
        }
        let info = |entry: &Arc<crate::SessionEntry>| {
            let activity = entry.activity.lock().clone();
            let wait = match activity.state {
                "active" if activity.sleeps => Some(("Timeout", "PgSleep")),
                "active" => waits.get(&entry.handle.pid).copied(),
                _ => Some(("Client", "ClientRead")),
            };
            SessionInfo {
                pid: entry.handle.pid,
                database: entry.database.oid,
                user: entry.user_oid,
                application_name: activity.application_name,
                state: activity.state,
                query: activity.query,
                wait,
                transaction_start: activity.transaction_start_us,
                query_start: activity.query_start_us,
                backend_start: entry.backend_start_us,
                state_change: activity.state_change_us,
                client_address: entry.client_address,
                tls: entry.tls.clone(),
            }
        };
        self.instance.sessions().iter().map(info).collect()
    }

    fn cancel_session(&self, pid: i32) -> bool {
        self.instance.session(pid).map(|entry| entry.cancel()).is_some()
    }

    fn terminate_session(&self, pid: i32) -> bool {
        self.instance.session(pid).map(|entry| entry.terminate()).is_some()
    }

    fn prepared_statements(&self) -> Vec<PreparedInfo> {
        let prepared = self.prepared.borrow();
        let named = prepared.all().filter(|statement| !statement.name.is_empty());
        named
            .map(|statement| PreparedInfo {
                name: statement.name.clone(),
                statement: Arc::clone(&statement.text),
                prepare_time: statement.prepared_us,
                parameter_types: statement.parameter_types.to_vec(),
                from_sql: statement.from_sql,
            })
            .collect()
    }

    fn cursors(&self) -> Vec<CursorInfo> {
        let portals = self.portals.borrow().all();
        // The portal that is running now is borrowed, and no cursor.
        let cursors = portals.iter().filter_map(|portal| {
            let portal = portal.try_borrow().ok()?;
            let options = portal.cursor.as_ref()?;
            Some(CursorInfo {
                name: portal.name.to_string(),
                statement: options.statement.as_str().into(),
                holdable: options.hold,
                binary: options.binary,
                scrollable: options.scroll != crate::portal::Scroll::Forbidden,
                creation_time: portal.created_us,
            })
        });
        let mut cursors: Vec<CursorInfo> = cursors.collect();
        cursors.sort_by(|a, b| a.name.cmp(&b.name));
        cursors
    }

    fn settings(&self) -> Vec<SettingInfo> {
        let owned = |text: Option<&'static str>| text.map(str::to_owned);
        let info = |definition: &definition::Definition| {
            // Facts of the transaction are not in the settings themselves.
            let (plain, reset, set) = self.with_settings_ref(|settings| {
                let name = definition.name;
                (settings.plain(name), settings.reset_plain(name), settings.is_set(name))
            });
            let transaction = matches!(
                definition.name,
                "transaction_isolation"
                    | "transaction_read_only"
                    | "transaction_deferrable"
                    | "role"
                    | "session_authorization"
            );
            let shown = if transaction { self.setting(definition.name) } else { None };
            SettingInfo {
                name: definition.name.to_owned(),
                value: shown.or(plain).unwrap_or_default(),
                unit: owned(definition.unit),
                category: definition.category.to_owned(),
                short_description: definition.short_description.to_owned(),
                extra_description: owned(definition.extra_description),
                context: definition.context.as_str(),
                kind: definition.kind.as_str(),
                source: if set || transaction { "session" } else { "default" },
                min: owned(definition.min),
                max: owned(definition.max),
                labels: (!definition.labels.is_empty()).then(|| definition.labels.clone()),
                boot: owned(definition.boot),
                reset,
            }
        };
        definition::all().iter().map(info).collect()
    }

    fn start_time(&self) -> i64 {
        self.instance.start_us()
    }

    fn database_size(&self, database: Oid) -> Result<u64> {
        let databases = self.instance.cluster().databases();
        if databases.iter().all(|info| info.oid != database) {
            return Err(err!(INVALID_CATALOG_NAME, "database with OID {database} does not exist"));
        }
        Ok(self.instance.cluster().database_size(database))
    }
}
