//! Data definition: the session as `ddl` sees it, and the life of temporary objects.

use std::sync::Arc;

use cairn_analyze::Parameters;
use cairn_analyze::query::{Query, Statement};
use cairn_catalog::columns::pg_namespace;
use cairn_catalog::{Catalog, Index, Proc, RowExt, SearchPath};
use cairn_exec::{Plan, TxnResultExt};
use cairn_txn::{CommandId, Isolation, Snapshot, Timestamp, Transaction};
use cairn_types::{Datum, Env, Error, Oid, Result};

use crate::core::Core;
use crate::ddl::{self, DdlContext, DdlHost, OnCommit, RowSink};
use crate::utility::{Invocation, Outcome};

/// Everything committed, and everything that the transaction itself has written.
const NEWEST: Snapshot = Snapshot { read_time: Timestamp::MAX, command: CommandId::MAX };

/// Runs a DDL statement.
pub fn run(invocation: &Invocation<'_>, statement: &Statement) -> Result<Outcome> {
    let core = invocation.core;
    let tag = crate::tags::of(&invocation.raw.node);
    core.start_implicit();
    let transaction = core.ensure_transaction()?;
    if core.block.borrow().read_only {
        return Err(crate::run::read_only_error(tag));
    }
    if transaction.isolation() != Isolation::ReadCommitted {
        // The transaction's own reads have a snapshot from before the waits for locks, as in PostgreSQL.
        transaction.snapshot().sql()?;
    }
    let in_block = invocation.in_block || !invocation.top_level;
    let host = Definition { core, in_block, statement: Some(&invocation.raw.source) };
    let done = with_context(&host, &transaction, |cx| match statement {
        Statement::CreateTableAs { node, query } => ddl::create_table_as(cx, node, query).map(Some),
        _ => ddl::execute(cx, invocation.raw),
    })?;
    // The command may have changed what this session itself goes by.
    let tag = done.ok_or_else(|| Error::unsupported(format!("{tag} is")))?;
    transaction.advance_command();
    Ok(Outcome::tag(tag))
}

/// Runs a DDL statement that another statement means.
pub fn run_text(invocation: &Invocation<'_>, text: &str) -> Result<()> {
    for raw in cairn_analyze::parse(text)? {
        let raw = Arc::new(raw);
        let inner = Invocation {
            core: invocation.core,
            raw: &raw,
            params: invocation.params.clone(),
            top_level: invocation.top_level,
            in_block: invocation.in_block,
            client: None,
        };
        run(&inner, &Statement::Utility(raw.node.clone()))?;
    }
    Ok(())
}

fn with_context<R>(
    host: &Definition<'_>,
    transaction: &Arc<dyn Transaction>,
    work: impl FnOnce(&mut DdlContext<'_>) -> Result<R>,
) -> Result<R> {
    let core = host.core;
    let mut cx = DdlContext {
        txn: transaction,
        store: &core.database.store,
        catalog: core.catalog()?,
        search_path: (*core.search_path()?).clone(),
        env: core,
        host,
        shared: Some(Arc::clone(core.instance.shared())),
        user: core.user_oid(),
        roles: core.roles(),
        lock_timeout: core.hot(|hot| hot.lock_timeout),
    };
    work(&mut cx)
}

/// The session around one DDL statement.
struct Definition<'a> {
    core: &'a Core,
    in_block: bool,
    /// The text that the client sent.
    statement: Option<&'a str>,
}

/// Moves an error's position from a function's body to the CREATE FUNCTION that it stands in, if the body is there
/// letter by letter.
pub(crate) fn into_statement(mut error: Error, body: &str, statement: &str) -> Error {
    let report = error.report_mut();
    let at = match (statement.match_indices(body).next(), report.location) {
        (Some((at, _)), Some(_)) if !body.is_empty() && statement.matches(body).count() == 1 => at,
        _ => return error,
    };
    if report.internal_query.as_deref() == Some(body) {
        report.internal_query = None;
        report.context.clear();
        report.location = report.location.map(|location| location + at as u32);
    }
    error
}

/// Which state of the rows a query of a DDL command reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowsOf {
    /// What any statement of the transaction would see.
    Statement,
    /// What there is, whatever the isolation level: the command holds a lock that keeps writers away, and what it makes of
    /// the rows is there for everybody.
    Now,
}

impl Definition<'_> {
    fn run_plan(&self, catalog: &Arc<Catalog>, query: &Query, rows: RowsOf, sink: RowSink<'_>) -> Result<()> {
        let core = self.core;
        let plan = || -> Result<Arc<Plan>> {
            let purpose = crate::statement::Purpose::Statement;
            Ok(Arc::new(crate::statement::plan_query(core, catalog, query, purpose, &[])?))
        };
        let transaction = core.transaction()?;
        transaction.advance_command();
        let mut more = true;
        let mut each = |row: &[Datum]| {
            if more {
                more = sink(row.to_vec())?;
            }
            Ok(())
        };
        if rows == RowsOf::Statement {
            core.run_plan(&plan()?, Arc::from([]), &mut each)?;
            return Ok(());
        }
        let now = transaction.newest_snapshot().sql()?;
        // Functions that the query calls see what they see in any statement.
        let of_functions = core.push_snapshot(&transaction);
        let result = of_functions.and_then(|of_functions| {
            let planned = {
                let _reading = core.read_at(Some(now));
                plan()
            };
            let result = planned.and_then(|plan| core.run_plan_at(&plan, Arc::from([]), now, &mut each));
            core.pop_snapshot();
            transaction.release_snapshot(&of_functions);
            result
        });
        transaction.release_snapshot(&now);
        result.map(|_| ())
    }
}

impl DdlHost for Definition<'_> {
    fn select(&self, catalog: &Arc<Catalog>, text: &str, sink: RowSink<'_>) -> Result<()> {
        let raw =
            cairn_analyze::parse(text)?.pop().ok_or_else(|| Error::internal("an empty query in DDL"))?;
        let path = SearchPath::pg_catalog();
        let context = cairn_analyze::AnalyzeContext {
            catalog,
            search_path: &path,
            env: self.core,
            parameters: Parameters::None,
        };
        match cairn_analyze::analyze(&raw, &context)? {
            Statement::Query(query) => self.run_plan(catalog, &query, RowsOf::Now, sink),
            _ => Err(Error::internal("DDL runs queries only")),
        }
    }

    fn run_query(&self, catalog: &Arc<Catalog>, query: &Query, sink: RowSink<'_>) -> Result<()> {
        self.core.check_access(&cairn_analyze::privileges::required_access(query, catalog))?;
        self.run_plan(catalog, query, RowsOf::Statement, sink)
    }

    fn read_rows(&self, catalog: &Arc<Catalog>, query: &Query, sink: RowSink<'_>) -> Result<()> {
        self.core.check_access(&cairn_analyze::privileges::required_access(query, catalog))?;
        self.run_plan(catalog, query, RowsOf::Now, sink)
    }

    fn refresh_catalog(&self, _seen: &Arc<Catalog>) -> Result<Arc<Catalog>> {
        self.core.catalog()
    }

    fn set_catalog(&self, catalog: &Arc<Catalog>) {
        self.core.set_own_catalog(Arc::clone(catalog));
    }

    fn set_temporary_namespace(&self, oid: Oid) {
        self.core.set_temporary_namespace(Some(oid));
    }

    fn on_commit(&self, table: Oid, action: OnCommit) {
        self.core.on_commit.borrow_mut().push((table, action));
    }

    fn in_transaction_block(&self) -> bool {
        self.in_block
    }

    fn check_function(&self, _catalog: &Arc<Catalog>, proc: &Arc<Proc>) -> Result<()> {
        if self.core.show("check_function_bodies").as_deref() == Some("off") {
            return Ok(());
        }
        let body: &str = proc.sql_body.as_deref().unwrap_or(&proc.source);
        let statement = self.statement.unwrap_or_default();
        let warn = |warning| self.core.notice(into_statement(warning, body, statement));
        self.core.check_function(proc, &warn).map_err(|error| into_statement(error, body, statement))
    }

    fn password_verifier(&self, password: &str) -> Result<String> {
        if password.starts_with("SCRAM-SHA-256$") {
            return Ok(password.to_owned());
        }
        crate::password::scram_verifier(password)
    }

    fn is_in_use(&self, relation: Oid) -> bool {
        self.core.is_in_use(relation)
    }

    fn is_index_in_use(&self, index: &Index) -> bool {
        self.core.is_index_in_use(index)
    }

    fn has_pending_checks(&self, table: Oid) -> Result<bool> {
        self.core.with_exec(|cx| self.core.constraints.has_pending(cx, table))
    }

    fn stop_automatic_work(&self, database: Oid) {
        self.core.instance.automatic().leave(database);
    }

    fn terminate_sessions_of(&self, database: &str) -> Result<()> {
        let own = self.core.backend_pid();
        let others = || {
            self.core
                .instance
                .sessions()
                .into_iter()
                .filter(|entry| entry.database.name == database && entry.handle.pid != own)
        };
        // PostgreSQL waits five seconds as well.
        for _ in 0..500 {
            let mut any = false;
            for entry in others() {
                entry.terminate();
                any = true;
            }
            if !any {
                return Ok(());
            }
            self.core.sleep(0.01)?;
        }
        Ok(())
    }
}

impl Core {
    /// The picture after what this transaction and others have done, for one that has changed the catalog itself.
    pub(crate) fn load_newest_catalog(&self) -> Result<Arc<Catalog>> {
        let transaction = self.transaction()?;
        let catalog = Catalog::load(&*transaction, &NEWEST).sql()?;
        // What a commit has written that is still under way is in the picture: it is over before anybody reads by it.
        transaction.release_snapshot(&transaction.newest_snapshot().sql()?);
        Ok(Arc::new(catalog.with_shared(Some(Arc::clone(self.instance.shared()) as _))))
    }

    /// ON COMMIT of temporary tables. Tables that are gone are forgotten.
    pub(crate) fn run_on_commit(&self) -> Result<()> {
        if self.on_commit.borrow().is_empty() || self.transaction_if_begun().is_none() {
            return Ok(());
        }
        let catalog = self.catalog()?;
        self.on_commit.borrow_mut().retain(|(table, _)| catalog.relation(*table).is_some());
        let actions = self.on_commit.borrow().clone();
        let transaction = self.transaction()?;
        if !transaction.has_writes() {
            return Ok(());
        }
        for (table, action) in actions {
            let Some(relation) = catalog.relation(table) else { continue };
            let host = Definition { core: self, in_block: true, statement: None };
            let name = cairn_types::quote::quote_qualified(
                &catalog.namespace_name(relation.namespace),
                &relation.name,
            );
            match action {
                OnCommit::DeleteRows => {
                    with_context(&host, &transaction, |cx| {
                        ddl::truncate_tables(cx, vec![table], false, false)
                    })?;
                }
                OnCommit::Drop => {
                    self.run_definition(&host, &transaction, &format!("drop table {name} cascade"))?
                }
            }
        }
        Ok(())
    }

    fn run_definition(
        &self,
        host: &Definition<'_>,
        transaction: &Arc<dyn Transaction>,
        text: &str,
    ) -> Result<()> {
        for raw in cairn_analyze::parse(text)? {
            with_context(host, transaction, |cx| ddl::execute(cx, &raw))?;
        }
        Ok(())
    }
}

/// Drops temporary schemas of sessions that are gone: a server that was killed could not do it.
pub fn drop_orphans(core: &Core) -> Result<()> {
    let is_orphan = |name: &str| {
        let pid = name.strip_prefix("pg_temp_").and_then(|pid| pid.parse::<i32>().ok());
        pid.is_some_and(|pid| pid == core.backend_pid() || core.instance.session(pid).is_none())
    };
    let orphans: Vec<String> = core
        .catalog()?
        .user_rows(pg_namespace::TABLE)
        .map(|row| row.str(pg_namespace::NSPNAME).to_owned())
        .filter(|name| is_orphan(name))
        .collect();
    if orphans.is_empty() {
        return Ok(());
    }
    core.start_implicit();
    let transaction = core.ensure_transaction()?;
    for name in orphans {
        drop_schema(core, &transaction, &name)?;
    }
    core.finish_implicit()
}

fn drop_schema(core: &Core, transaction: &Arc<dyn Transaction>, name: &str) -> Result<()> {
    let host = Definition { core, in_block: true, statement: None };
    let schema = cairn_types::quote::quote_identifier(name);
    // What goes with it is no news to anybody.
    core.without_notices(|| core.run_definition(&host, transaction, &format!("drop schema {schema} cascade")))
}

/// Drops everything in the session's temporary schema.
pub fn drop_temporary_objects(core: &Core) -> Result<()> {
    let Some(namespace) = core.temporary_namespace() else { return Ok(()) };
    core.start_implicit();
    let transaction = core.ensure_transaction()?;
    let catalog = core.catalog()?;
    if catalog.namespace(namespace).is_none() {
        core.set_temporary_namespace(None);
        return Ok(());
    }
    drop_schema(core, &transaction, &catalog.namespace_name(namespace))?;
    core.set_temporary_namespace(None);
    core.on_commit.borrow_mut().clear();
    Ok(())
}
