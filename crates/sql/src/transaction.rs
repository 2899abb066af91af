//! Transaction blocks (manual, sections 13 and SQL BEGIN, COMMIT, ROLLBACK, SAVEPOINT).
//!
//! ```text
//!            statement                     BEGIN
//!   Idle ---------------> Started --------------------> Block
//!    ^   <--------------- (implicit)                     | | error
//!    |    end of query string / Sync                     | v
//!    +------------------- COMMIT, ROLLBACK ------------ Failed
//! ```
//!
//! `Started` is the implicit transaction of a single statement, of a query string with several statements, or of a
//! pipeline up to Sync. In it BEGIN makes a block of what has been done so far, as in PostgreSQL.
//!
//! The store's transaction begins with the first statement that needs one, not with BEGIN; `now()` is the time of BEGIN all the
//! same. An error in a block without savepoints rolls the store's transaction back at once, so that its locks are free
//! while the client makes up its mind; with savepoints it rolls back to the innermost.

use std::cell::Cell;
use std::sync::Arc;

use cairn_catalog::Catalog;
use cairn_exec::TxnResultExt;
use cairn_exec::dml::ConstraintMark;
use cairn_txn::{BeginOptions, Durability, SavepointId, Transaction};
use cairn_types::{Error, Result, err, sqlstate};
use pg_query::protobuf::{Node, TransactionStmt, TransactionStmtKind, node::Node as NodeEnum};

use crate::client::TransactionStatus;
use crate::core::{Core, isolation_level, isolation_of};
use crate::notify::NotifyMark;
use crate::plpgsql::spi::Subtransaction;
use crate::rights::ActingMark;
use crate::settings::Mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Started,
    Block,
    Failed,
}

/// Where a session stands between BEGIN and COMMIT.
pub(crate) struct Block {
    pub phase: Phase,
    pub isolation: &'static str,
    pub read_only: bool,
    pub deferrable: bool,
    savepoints: Vec<Savepoint>,
}

struct Savepoint {
    name: String,
    id: SavepointId,
    settings: Mark,
    catalog: Option<(u64, Arc<Catalog>)>,
    constraints: ConstraintMark,
    acting: ActingMark,
    notify: NotifyMark,
}

impl Default for Block {
    fn default() -> Self {
        Block {
            phase: Phase::Idle,
            isolation: "read committed",
            read_only: false,
            deferrable: false,
            savepoints: Vec::new(),
        }
    }
}

impl Core {
    pub fn status(&self) -> TransactionStatus {
        match self.block.borrow().phase {
            Phase::Idle | Phase::Started => TransactionStatus::Idle,
            Phase::Block => TransactionStatus::InTransaction,
            Phase::Failed => TransactionStatus::Failed,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.block.borrow().phase
    }

    /// 25P02 in a failed block, for everything but the statements that end it.
    pub(crate) fn check_not_failed(&self) -> Result<()> {
        if self.phase() == Phase::Failed {
            return Err(err!(
                IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block"
            ));
        }
        Ok(())
    }

    /// A statement begins: an implicit transaction, if none is open.
    pub(crate) fn start_implicit(&self) {
        if self.phase() == Phase::Idle {
            self.new_block(Phase::Started);
        }
    }

    fn new_block(&self, phase: Phase) {
        let isolation = self.default_isolation();
        let (read_only, deferrable) = self.hot(|hot| (hot.default_read_only, hot.default_deferrable));
        *self.block.borrow_mut() = Block { phase, isolation, read_only, deferrable, ..Block::default() };
        self.set_transaction_time(cairn_types::Env::statement_time(self));
    }

    /// The store's transaction of the statement at hand, begun if it was not.
    pub fn ensure_transaction(&self) -> Result<Arc<dyn Transaction>> {
        if let Some(transaction) = self.transaction_if_begun() {
            return Ok(transaction);
        }
        let (isolation, read_only) = {
            let block = self.block.borrow();
            (isolation_of(block.isolation), block.read_only)
        };
        let store = &self.database.store;
        let read_time = self.hot(|hot| hot.read_time_us).map(|time_us| store.timestamp_at(time_us));
        let session = Arc::clone(&self.entry.handle);
        let read_only = read_only || read_time.is_some();
        let transaction = store.begin(BeginOptions { session, isolation, read_only, read_time }).sql()?;
        if read_time.is_some() {
            // Yesterday's rows have yesterday's tables.
            let catalog = Catalog::load(&*transaction, &transaction.snapshot().sql()?).sql()?;
            let shared = Arc::clone(self.instance.shared()) as _;
            self.set_own_catalog(Arc::new(catalog.with_shared(Some(shared))));
            self.read_past.set(true);
            self.block.borrow_mut().read_only = true;
        }
        self.set_transaction(Some(Arc::clone(&transaction)));
        Ok(transaction)
    }

    /// Ends the implicit transaction, if that is what is open.
    pub(crate) fn finish_implicit(&self) -> Result<()> {
        if self.phase() == Phase::Started { self.commit_now() } else { Ok(()) }
    }

    /// Commits what is open; on an error everything is rolled back.
    fn commit_now(&self) -> Result<()> {
        let result = self.before_commit().and_then(|()| self.commit_store());
        if result.is_err() {
            self.owe_what_was_read();
            self.portals_at_rollback(0);
            if let Some(transaction) = self.transaction_if_begun() {
                transaction.rollback();
            }
            self.with_settings(|settings| settings.rollback());
            self.acting_rollback();
        } else {
            self.with_settings_if_changed(|settings| settings.commit());
            self.acting_commit();
        }
        self.leave_block();
        result
    }

    fn before_commit(&self) -> Result<()> {
        self.portals_at_commit()?;
        if self.transaction_if_begun().is_some() {
            crate::run::before_commit(self)?;
            self.run_on_commit()?;
        }
        Ok(())
    }

    fn commit_store(&self) -> Result<()> {
        let posting = self.posting()?;
        let Some(transaction) = self.transaction_if_begun() else {
            self.apply_listening();
            if let Some(posting) = posting {
                posting.deliver();
            }
            return Ok(());
        };
        let own_catalog = self.own_catalog().filter(|_| !self.read_past.get()).map(|(_, catalog)| catalog);
        let durability = match self.hot(|hot| hot.synchronous_commit) {
            false => Durability::Async,
            // Others are going to be told.
            true if own_catalog.is_some() || posting.is_some() => Durability::Sync,
            true => Durability::Promised,
        };
        // What was read must be as durable as the answer claims; a durable commit of our own sees to that by itself.
        if durability == Durability::Async || !transaction.has_writes() {
            self.debt.owe(transaction.settled_at());
        }
        if own_catalog.is_some() {
            self.apply_table_retentions(&transaction)?;
        }
        let published = Cell::new(None);
        let publish = || {
            if let Some(catalog) = &own_catalog {
                published.set(Some(self.database.catalogs.begin_publish(catalog.root())));
            }
            if let Some(posting) = &posting {
                posting.take_place();
            }
        };
        let hook: Option<&dyn Fn()> =
            if own_catalog.is_some() || posting.is_some() { Some(&publish) } else { None };
        let committed = transaction.commit(durability, hook).sql();
        if let Some(publication) = published.get() {
            self.database.catalogs.end_publish(publication, own_catalog.filter(|_| committed.is_ok()));
        }
        if let Some(time) = committed?
            && durability == Durability::Promised
        {
            self.debt.owe(time);
        }
        self.apply_listening();
        if let Some(posting) = posting {
            posting.deliver();
        }
        Ok(())
    }

    /// DDL commits: key spaces get the retention that their table's options ask for, whichever way they came to be.
    fn apply_table_retentions(&self, transaction: &Arc<dyn Transaction>) -> Result<()> {
        let known = self.database.store.storage_retentions();
        let catalog = self.catalog()?;
        for relation in catalog.user_relations() {
            if relation.options.is_empty() && known.is_empty() {
                continue;
            }
            let wanted = crate::ddl::table_retention(relation)?;
            let indexes = relation.indexes.iter().map(|index| index.storage);
            for storage in indexes.chain([relation.storage]).filter(|storage| *storage != 0) {
                if known.get(&storage).copied() != wanted {
                    transaction.set_retention(storage, wanted).sql()?;
                }
            }
        }
        Ok(())
    }

    fn leave_block(&self) {
        self.constraints.reset();
        self.notify_undo_to(NotifyMark::default());
        self.set_transaction(None);
        self.restore_own_catalog(None);
        self.read_past.set(false);
        self.clear_temporary_uncommitted();
        *self.block.borrow_mut() = Block::default();
    }

    /// A statement has failed.
    pub(crate) fn abort(&self) {
        let phase = self.phase();
        let innermost = self.block.borrow().savepoints.last().map(|savepoint| {
            let Savepoint { id, settings, notify, .. } = *savepoint;
            let (catalog, constraints) = (savepoint.catalog.clone(), savepoint.constraints.clone());
            (id, settings, catalog, constraints, savepoint.acting.clone(), notify)
        });
        match (phase, innermost) {
            (Phase::Idle, _) => {}
            (Phase::Block, Some((id, settings, catalog, constraints, acting, notify))) => {
                self.owe_what_was_read();
                self.constraints.rollback_to(&constraints);
                let undone =
                    self.transaction_if_begun().map_or(Ok(()), |transaction| transaction.rollback_to(id));
                if let Err(error) = undone {
                    tracing::error!(%error, "could not roll back to a savepoint");
                }
                self.with_settings(|all| all.undo_to(settings));
                self.acting_undo_to(acting);
                self.notify_undo_to(notify);
                self.restore_own_catalog(catalog);
                self.block.borrow_mut().phase = Phase::Failed;
            }
            (Phase::Block, None) => {
                self.rollback_store();
                self.block.borrow_mut().phase = Phase::Failed;
            }
            (Phase::Failed, _) => {}
            (Phase::Started, _) => {
                self.rollback_store();
                self.leave_block();
            }
        }
    }

    /// An error or a notice tells what was read, and so do rows that have been sent already: commits of others, which may be on their way to the
    /// disk.
    pub(crate) fn owe_what_was_read(&self) {
        if let Some(transaction) = self.transaction_if_begun() {
            self.debt.owe(transaction.settled_at());
        }
    }

    /// Rolls the store's transaction back, with everything that hangs on it.
    fn rollback_store(&self) {
        self.owe_what_was_read();
        self.portals_at_rollback(0);
        if let Some(transaction) = self.transaction_if_begun() {
            transaction.rollback();
        }
        self.set_transaction(None);
        self.restore_own_catalog(None);
        self.clear_temporary_uncommitted();
        self.with_settings_if_changed(|settings| settings.rollback());
        self.acting_rollback();
    }

    /// The session ends.
    pub(crate) fn rollback_everything(&self) {
        self.rollback_store();
        self.leave_block();
    }

    /// Runs BEGIN, COMMIT and their kin; the tag.
    pub(crate) fn transaction_statement(&self, statement: &TransactionStmt) -> Result<&'static str> {
        use TransactionStmtKind as Kind;
        let kind = Kind::try_from(statement.kind).unwrap_or(Kind::Undefined);
        let name = statement.savepoint_name.as_str();
        match kind {
            Kind::TransStmtBegin | Kind::TransStmtStart => {
                self.check_not_failed()?;
                self.begin_block(&statement.options)?;
                Ok(if kind == Kind::TransStmtBegin { "BEGIN" } else { "START TRANSACTION" })
            }
            Kind::TransStmtCommit => self.end_block(true, statement.chain),
            Kind::TransStmtRollback => self.end_block(false, statement.chain),
            Kind::TransStmtSavepoint => {
                self.check_not_failed()?;
                self.savepoint(name)?;
                Ok("SAVEPOINT")
            }
            Kind::TransStmtRelease => {
                self.check_not_failed()?;
                self.release_savepoint(name)?;
                Ok("RELEASE")
            }
            Kind::TransStmtRollbackTo => {
                self.rollback_to_savepoint(name)?;
                Ok("ROLLBACK")
            }
            _ => Err(Error::unsupported("two-phase commit is")),
        }
    }

    fn begin_block(&self, options: &[Node]) -> Result<()> {
        match self.phase() {
            Phase::Block | Phase::Failed => {
                self.warn(sqlstate::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
            }
            Phase::Idle => self.new_block(Phase::Block),
            Phase::Started => self.block.borrow_mut().phase = Phase::Block,
        }
        self.transaction_options(options, true).inspect_err(|_| {
            // BEGIN itself has failed: PostgreSQL leaves no block behind.
            if self.transaction_if_begun().is_none() {
                self.leave_block();
            }
        })
    }

    /// Options of BEGIN and SET TRANSACTION; with `transaction` false, of SET SESSION CHARACTERISTICS.
    pub(crate) fn transaction_options(&self, options: &[Node], transaction: bool) -> Result<()> {
        for option in options {
            let Some(NodeEnum::DefElem(element)) = &option.node else { continue };
            let value = match element.arg.as_ref().and_then(|node| node.node.as_ref()) {
                Some(NodeEnum::AConst(constant)) => match &constant.val {
                    Some(pg_query::protobuf::a_const::Val::Sval(text)) => text.sval.clone(),
                    Some(pg_query::protobuf::a_const::Val::Ival(number)) => number.ival.to_string(),
                    _ => String::new(),
                },
                _ => String::new(),
            };
            let name = element.defname.as_str();
            if name == "transaction_isolation" {
                isolation_level(&value)?;
            }
            if transaction {
                self.set_transaction_characteristic(name, &value)?;
            } else {
                self.set_config(&format!("default_{name}"), &value, false)?;
            }
        }
        Ok(())
    }

    fn end_block(&self, commit: bool, chain: bool) -> Result<&'static str> {
        let phase = self.phase();
        let what = if commit { "COMMIT" } else { "ROLLBACK" };
        if matches!(phase, Phase::Idle | Phase::Started) {
            if chain {
                return Err(Error::new(
                    sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                    format!("{what} AND CHAIN can only be used in transaction blocks"),
                ));
            }
            self.warn(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let options = {
            let block = self.block.borrow();
            (block.isolation, block.read_only, block.deferrable)
        };
        let commits = commit && phase != Phase::Failed;
        if commits {
            self.commit_now()?;
        } else {
            self.rollback_store();
            self.leave_block();
        }
        if chain {
            self.new_block(Phase::Block);
            let mut block = self.block.borrow_mut();
            (block.isolation, block.read_only, block.deferrable) = options;
        }
        Ok(if commits { "COMMIT" } else { "ROLLBACK" })
    }

    fn savepoint(&self, name: &str) -> Result<()> {
        self.require_block("SAVEPOINT")?;
        let id = self.ensure_transaction()?.savepoint();
        let settings = self.with_settings(|settings| settings.mark());
        let catalog = self.own_catalog();
        let constraints = self.constraints.mark();
        let acting = self.acting_mark();
        let notify = self.notify_mark();
        let savepoint =
            Savepoint { name: name.to_owned(), id, settings, catalog, constraints, acting, notify };
        self.block.borrow_mut().savepoints.push(savepoint);
        Ok(())
    }

    fn require_block(&self, what: &str) -> Result<()> {
        if matches!(self.phase(), Phase::Idle | Phase::Started) {
            return Err(Error::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            ));
        }
        Ok(())
    }

    /// Index of the innermost savepoint with the name.
    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let block = self.block.borrow();
        block
            .savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| err!(INVALID_SAVEPOINT_SPECIFICATION, "savepoint \"{name}\" does not exist"))
    }

    fn release_savepoint(&self, name: &str) -> Result<()> {
        self.require_block("RELEASE SAVEPOINT")?;
        let index = self.find_savepoint(name)?;
        let id = self.block.borrow().savepoints.get(index).map(|savepoint| savepoint.id);
        if let (Some(id), Some(transaction)) = (id, self.transaction_if_begun()) {
            transaction.release(id).sql()?;
        }
        self.block.borrow_mut().savepoints.truncate(index);
        self.portals_at_release(index);
        Ok(())
    }

    fn rollback_to_savepoint(&self, name: &str) -> Result<()> {
        self.require_block("ROLLBACK TO SAVEPOINT")?;
        let index = self.find_savepoint(name)?;
        let (id, settings, catalog, constraints, acting, notify) = {
            let mut block = self.block.borrow_mut();
            block.savepoints.truncate(index + 1);
            let savepoint = &block.savepoints[index];
            let Savepoint { id, settings, notify, .. } = *savepoint;
            let (catalog, constraints) = (savepoint.catalog.clone(), savepoint.constraints.clone());
            (id, settings, catalog, constraints, savepoint.acting.clone(), notify)
        };
        self.constraints.rollback_to(&constraints);
        self.portals_at_rollback(index + 1);
        if let Some(transaction) = self.transaction_if_begun() {
            transaction.rollback_to(id).sql()?;
        }
        self.with_settings(|all| all.undo_to(settings));
        self.acting_undo_to(acting);
        self.notify_undo_to(notify);
        self.restore_own_catalog(catalog);
        self.block.borrow_mut().phase = Phase::Block;
        Ok(())
    }

    /// How many savepoints are open: what is made now dies with the innermost.
    pub(crate) fn savepoint_depth(&self) -> usize {
        self.block.borrow().savepoints.len()
    }

    fn warn(&self, state: cairn_types::SqlState, message: &str) {
        cairn_types::Env::notice(self, Error::warning(state, message));
    }

    // PL/pgSQL.

    /// A savepoint that no client sees: PL/pgSQL's blocks with EXCEPTION.
    pub(crate) fn open_subtransaction(&self) -> Result<Subtransaction> {
        Ok(Subtransaction {
            id: self.ensure_transaction()?.savepoint(),
            settings: self.with_settings_ref(|settings| settings.mark()),
            catalog: self.own_catalog(),
            constraints: self.constraints.mark(),
            acting: self.acting_mark(),
            notify: self.notify_mark(),
        })
    }

    pub(crate) fn close_subtransaction(&self, subtransaction: &Subtransaction, keep: bool) -> Result<()> {
        let transaction = self.transaction()?;
        if !keep {
            transaction.rollback_to(subtransaction.id).sql()?;
            self.with_settings(|all| all.undo_to(subtransaction.settings));
            self.acting_undo_to(subtransaction.acting.clone());
            self.notify_undo_to(subtransaction.notify);
            self.restore_own_catalog(subtransaction.catalog.clone());
            self.constraints.rollback_to(&subtransaction.constraints);
        }
        transaction.release(subtransaction.id).sql()
    }

    /// COMMIT or ROLLBACK in a procedure that was called outside of any block.
    pub fn end_transaction_in_procedure(&self, commit: bool, chain: bool) -> Result<()> {
        if self.phase() != Phase::Started || !self.atomic_depth_allows_commit() {
            return Err(Error::new(
                sqlstate::INVALID_TRANSACTION_TERMINATION,
                "invalid transaction termination",
            ));
        }
        let options = {
            let block = self.block.borrow();
            (block.isolation, block.read_only, block.deferrable)
        };
        if commit {
            self.commit_now()?;
        } else {
            self.rollback_store();
            self.leave_block();
        }
        self.set_statement_time(crate::clock::now_us());
        self.new_block(Phase::Started);
        if chain {
            let mut block = self.block.borrow_mut();
            (block.isolation, block.read_only, block.deferrable) = options;
        }
        Ok(())
    }
}
