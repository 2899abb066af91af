//! What a DDL command runs in, and what it asks of the session around it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cairn_analyze::query::Query;
use cairn_analyze::{AnalyzeContext, Parameters};
use cairn_catalog::acl::{ObjectKind, Privileges};
use cairn_catalog::{
    Catalog, CatalogWriter, ClusterCatalog, Index, Proc, Relation, SearchPath, SharedCatalogs,
};
use cairn_exec::TxnResultExt;
use cairn_txn::{LockOutcome, LockScope, LockTag, Store, TableLockMode, Transaction, WaitPolicy};
use cairn_types::{Datum, Env, Error, Oid, Result, Text, err};

use crate::rights::{Rights, Roles};

/// Receives the rows of a query; `false` ends it.
pub type RowSink<'a> = &'a mut dyn FnMut(Vec<Datum>) -> Result<bool>;

/// The session, as DDL needs it.
pub trait DdlHost {
    /// Runs a SELECT over the rows that there are now: all that is committed, at every isolation level, and the transaction's own
    /// writes so far. The command has locked the tables. The text is resolved over `catalog`, with `pg_catalog` alone in
    /// the search path.
    fn select(&self, catalog: &Arc<Catalog>, text: &str, sink: RowSink<'_>) -> Result<()>;
    /// [`DdlHost::select`] of an analyzed query.
    fn read_rows(&self, catalog: &Arc<Catalog>, query: &Query, sink: RowSink<'_>) -> Result<()>;
    /// Runs a query of the client (`create table as`), which sees what any statement of the transaction sees.
    fn run_query(&self, catalog: &Arc<Catalog>, query: &Query, sink: RowSink<'_>) -> Result<()>;
    /// The newest picture, own changes included; `seen` itself if nobody has changed anything since.
    fn refresh_catalog(&self, seen: &Arc<Catalog>) -> Result<Arc<Catalog>>;
    /// From now on statements see this picture.
    fn set_catalog(&self, catalog: &Arc<Catalog>);
    /// The session's temporary schema was created.
    fn set_temporary_namespace(&self, oid: Oid);
    /// `on commit` of a temporary table.
    fn on_commit(&self, table: Oid, action: OnCommit);
    /// Whether a transaction block is open (or the statement is one of several): CREATE DATABASE refuses.
    fn in_transaction_block(&self) -> bool;
    /// Checks the body of a new function; its error is that of the statement.
    fn check_function(&self, catalog: &Arc<Catalog>, proc: &Arc<Proc>) -> Result<()>;
    /// The verifier that is stored for a password (SCRAM-SHA-256); one that is a verifier already is kept.
    fn password_verifier(&self, password: &str) -> Result<String>;
    /// Whether a running statement or an open cursor of the session reads or writes the relation.
    fn is_in_use(&self, relation: Oid) -> bool;
    /// The same of an index.
    fn is_index_in_use(&self, index: &Index) -> bool;
    /// Whether rows of the table wait for a check at the transaction's end.
    fn has_pending_checks(&self, table: Oid) -> Result<bool>;
    /// Work that the server does in a database by itself ends, so that it does not hold up who wants it for itself.
    fn stop_automatic_work(&self, database: Oid);
    /// `drop database ... with (force)`: ends the sessions of a database and waits for them.
    fn terminate_sessions_of(&self, database: &str) -> Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    DeleteRows,
    Drop,
}

pub struct DdlContext<'a> {
    pub txn: &'a Arc<dyn Transaction>,
    pub store: &'a Arc<dyn Store>,
    /// What this command sees; replaced by each step that changes something.
    pub catalog: Arc<Catalog>,
    pub search_path: SearchPath,
    pub env: &'a dyn Env,
    pub host: &'a dyn DdlHost,
    /// Databases and roles; `None` in an embedded database without a cluster.
    pub shared: Option<Arc<ClusterCatalog>>,
    /// The current role.
    pub user: Oid,
    /// Who may act for whom.
    pub roles: Rc<Roles>,
    /// Zero: without end.
    pub lock_timeout: Duration,
}

impl<'a> DdlContext<'a> {
    /// Applies changes to catalog rows and goes on with the picture that has them.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut CatalogWriter<'_>) -> Result<T>) -> Result<T> {
        let mut writer = CatalogWriter::new(&**self.txn, self.catalog.clone());
        let result = change(&mut writer)?;
        self.catalog = writer.catalog();
        self.txn.advance_command();
        self.host.set_catalog(&self.catalog);
        Ok(result)
    }

    pub fn rights(&self) -> Rights {
        Rights { roles: Rc::clone(&self.roles), catalog: Arc::clone(&self.catalog) }
    }

    /// 42501 unless the current role has the privileges.
    pub fn require(&self, kind: ObjectKind, object: Oid, wanted: Privileges) -> Result<()> {
        if self.roles.is_superuser(self.user) {
            return Ok(());
        }
        self.rights().require(self.user, kind, object, wanted)
    }

    /// 42501 unless the object is the current role's.
    pub fn require_owner(&self, kind: ObjectKind, object: Oid) -> Result<()> {
        if self.roles.is_superuser(self.user) {
            return Ok(());
        }
        self.rights().require_owner(self.user, kind, object)
    }

    /// [`DdlContext::require_owner`] of a relation.
    pub fn require_table_owner(&self, relation: &Relation) -> Result<()> {
        if self.roles.has_privileges_of(self.user, relation.owner) {
            return Ok(());
        }
        self.require_owner(ObjectKind::Table, relation.oid)
    }

    /// 55006 if statements or cursors of this session are reading or writing the table, or if deferred checks still have to look
    /// at its rows: the command would take them away from under them.
    pub fn require_not_in_use(&self, relation: &Relation, command: &str) -> Result<()> {
        if self.host.is_in_use(relation.oid) {
            return Err(in_use(&relation.name, command));
        }
        if self.host.has_pending_checks(relation.oid)? {
            return Err(err!(
                OBJECT_IN_USE,
                "cannot {command} \"{}\" because it has pending trigger events",
                relation.name
            ));
        }
        Ok(())
    }

    /// The same of an index.
    pub fn require_index_not_in_use(&self, index: Oid, command: &str) -> Result<()> {
        match self.catalog.index(index) {
            Some(index) if self.host.is_index_in_use(index) => Err(in_use(&index.name, command)),
            _ => Ok(()),
        }
    }

    pub fn analyze_context(&self) -> AnalyzeContext<'_> {
        AnalyzeContext {
            catalog: &self.catalog,
            search_path: &self.search_path,
            env: self.env,
            parameters: Parameters::None,
        }
    }

    pub fn new_oid(&self) -> Result<Oid> {
        self.store.allocate_oid().sql()
    }

    pub fn notice(&self, message: impl Into<String>) {
        self.env.notice(Error::notice(message));
    }

    pub fn wait(&self) -> WaitPolicy {
        WaitPolicy::Block { timeout: self.lock_timeout }
    }

    /// Locks an object of the catalog to the end of the transaction. The picture is brought up to date afterwards:
    /// whoever held the lock may have changed it.
    pub fn lock(&mut self, class: Oid, object: Oid, mode: TableLockMode) -> Result<()> {
        let tag = LockTag::Object { class, object };
        match self.txn.lock_object(tag, mode, LockScope::Transaction, self.wait()).sql()? {
            LockOutcome::Acquired { .. } => {}
            LockOutcome::Skipped => return Err(Error::internal("a lock that waits was skipped")),
        }
        self.catalog = self.host.refresh_catalog(&self.catalog)?;
        Ok(())
    }

    /// Locks a name in a schema, so that nobody else creates an object with it at the same time.
    pub fn lock_name(&mut self, class: Oid, namespace: Oid, name: &str) -> Result<()> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (namespace, name).hash(&mut hasher);
        // Names share the tags of objects; a collision makes somebody wait, no more.
        self.lock(class, hasher.finish() as u32 | 0x8000_0000, TableLockMode::Exclusive)
    }

    /// The relation as it is now; XX000 if it is gone.
    pub fn relation(&self, oid: Oid) -> Result<Arc<Relation>> {
        self.catalog
            .relation(oid)
            .cloned()
            .ok_or_else(|| cairn_types::err!(INTERNAL_ERROR, "could not open relation with OID {oid}"))
    }

    pub fn index(&self, oid: Oid) -> Result<Arc<Index>> {
        self.catalog
            .index(oid)
            .cloned()
            .ok_or_else(|| cairn_types::err!(INTERNAL_ERROR, "could not open index with OID {oid}"))
    }

    pub fn role_name(&self, oid: Oid) -> Option<Text> {
        self.shared.as_ref()?.role_name(oid)
    }

    pub fn role(&self, name: &str) -> Result<Oid> {
        let missing = || cairn_types::err!(UNDEFINED_OBJECT, "role \"{name}\" does not exist");
        let row = self.shared.as_ref().and_then(|shared| shared.role(name)).ok_or_else(missing)?;
        Ok(cairn_catalog::RowExt::oid(&*row, cairn_catalog::columns::pg_authid::OID))
    }
}

#[cold]
fn in_use(name: &str, command: &str) -> Error {
    err!(
        OBJECT_IN_USE,
        "cannot {command} \"{name}\" because it is being used by active queries in this session"
    )
}
