//! One client's session: what the protocol's messages do.
//!
//! The simple protocol runs a string of statements; the extended one parses, binds and executes in steps. Both end in the same
//! places: [`Compiled`] statements, [`Core::run_plan`] and [`utility`]. An error rolls back the statement's
//! transaction, or leaves the block failed ([`crate::transaction`]); the caller tells the client.
//!
//! **Order of an answer.** In an implicit transaction the commit comes before the tag, so that whoever reads
//! `INSERT 0 1` knows that it is durable.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cairn_analyze::{Parameters, RawStatement};
use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::columns::pg_db_role_setting;
use cairn_catalog::{CatalogRow, ProcKind, RowExt, SharedCatalogs};
use cairn_txn::CancelReason;
use cairn_types::{Datum, Env, Error, Oid, Result, Severity, err, io};
use hashbrown::HashMap;
use pg_query::protobuf::{TransactionStmt, node::Node as NodeEnum};

use crate::client::{
    Bind, Client, Format, Frontend, FunctionCall, Notification, Outlet, ResultShape, Startup,
    TransactionStatus, Wake, format_of,
};
use crate::core::{Core, User};
use crate::debt::Debt;
use crate::instance::Instance;
use crate::portal::{Portal, State, Stored};
use crate::run::tag;
use crate::settings::{REPORTED, Source};
use crate::shapes::ShapeCache;
use crate::statement::{Compiled, Kind, Purpose};
use crate::transaction::Phase;
use crate::utility::{self, Invocation, Outcome};

/// What a prepared statement is compiled from.
#[derive(Clone)]
enum Kept {
    /// An empty query.
    Nothing,
    Tree(Arc<RawStatement>),
    /// Its text, which is one query.
    Text,
}

/// A prepared statement, of either protocol. Those of one text share what was compiled.
#[derive(Clone)]
pub struct PreparedStatement {
    pub name: String,
    pub text: Arc<str>,
    kept: Kept,
    pub parameter_types: Arc<[Oid]>,
    compiled: Rc<RefCell<Option<Rc<Compiled>>>>,
    /// Made by PREPARE.
    pub from_sql: bool,
    pub prepared_us: i64,
}

impl PreparedStatement {
    /// Analyzes a statement for later. Types of parameters that are not given (0) are inferred.
    pub fn new(
        core: &Core,
        name: &str,
        text: Arc<str>,
        raw: Option<RawStatement>,
        given: &[Oid],
        from_sql: bool,
    ) -> Result<Self> {
        let types = RefCell::new(given.to_vec());
        let raw = raw.map(Arc::new);
        let compiled = match &raw {
            Some(raw) => {
                let parameters = Parameters::Infer(&types);
                Some(Rc::new(Compiled::for_purpose(core, raw, parameters, Purpose::Prepared)?))
            }
            None => None,
        };
        let is_query = compiled.as_ref().is_some_and(|compiled| compiled.plan().is_some());
        let kept = match raw {
            None => Kept::Nothing,
            // The text of PREPARE is more than the statement.
            Some(_) if is_query && !from_sql => Kept::Text,
            Some(raw) => Kept::Tree(raw),
        };
        Ok(PreparedStatement {
            name: name.to_owned(),
            text,
            kept,
            parameter_types: types.into_inner().into(),
            compiled: Rc::new(RefCell::new(compiled)),
            from_sql,
            prepared_us: core.statement_time(),
        })
    }

    /// `None`: an empty query.
    pub fn raw(&self) -> Result<Option<Arc<RawStatement>>> {
        Ok(match &self.kept {
            Kept::Nothing => None,
            Kept::Tree(raw) => Some(Arc::clone(raw)),
            Kept::Text => cairn_analyze::parse(&self.text)?.pop().map(Arc::new),
        })
    }

    /// Whether it begins or ends a transaction or a savepoint.
    fn is_transaction_statement(&self) -> bool {
        matches!(&self.kept, Kept::Tree(raw) if matches!(&*raw.node, NodeEnum::TransactionStmt(_)))
    }

    /// The statement ready to run against the catalog as it is.
    pub fn compiled(&self, core: &Core) -> Result<Option<Rc<Compiled>>> {
        if matches!(self.kept, Kept::Nothing) {
            return Ok(None);
        }
        let kept = self.compiled.borrow().clone();
        if let Some(kept) = &kept
            && kept.is_current(core)?
        {
            return Ok(Some(Rc::clone(kept)));
        }
        let Some(raw) = self.raw()? else { return Ok(None) };
        let types = RefCell::new(self.parameter_types.to_vec());
        let parameters = Parameters::Infer(&types);
        let fresh = Rc::new(Compiled::for_purpose(core, &raw, parameters, Purpose::Prepared)?);
        // What FETCH and EXECUTE return is not theirs, and told with each Bind.
        if let Some(kept) = kept
            && !matches!(fresh.kind, Kind::Utility(..))
            && !same_columns(&kept, &fresh)
        {
            return Err(result_type_changed());
        }
        *self.compiled.borrow_mut() = Some(Rc::clone(&fresh));
        Ok(Some(fresh))
    }
}

/// Drivers that see this routine prepare their statement again.
pub(crate) fn result_type_changed() -> Error {
    err!(FEATURE_NOT_SUPPORTED, "cached plan must not change result type").routine("RevalidateCachedQuery")
}

fn same_columns(a: &Compiled, b: &Compiled) -> bool {
    match (&a.columns, &b.columns) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|(a, b)| a.ty.oid == b.ty.oid && a.ty.typmod == b.ty.typmod)
        }
        _ => false,
    }
}

/// The statements that a session has prepared, by name.
#[derive(Default)]
pub struct PreparedStatements(HashMap<String, Rc<PreparedStatement>>);

impl PreparedStatements {
    pub fn get(&self, name: &str) -> Result<Rc<PreparedStatement>> {
        self.0.get(name).cloned().ok_or_else(|| {
            if name.is_empty() {
                err!(INVALID_SQL_STATEMENT_NAME, "unnamed prepared statement does not exist")
            } else {
                err!(INVALID_SQL_STATEMENT_NAME, "prepared statement \"{name}\" does not exist")
            }
        })
    }

    /// 42P05 if the name is taken; the unnamed one replaces its predecessor.
    pub fn add(&mut self, statement: PreparedStatement) -> Result<()> {
        self.check_free(&statement.name)?;
        self.0.insert(statement.name.clone(), Rc::new(statement));
        Ok(())
    }

    pub fn check_free(&self, name: &str) -> Result<()> {
        if !name.is_empty() && self.0.contains_key(name) {
            return Err(err!(DUPLICATE_PREPARED_STATEMENT, "prepared statement \"{name}\" already exists"));
        }
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn all(&self) -> impl Iterator<Item = &Rc<PreparedStatement>> {
        self.0.values()
    }
}

/// Statements that were parsed before, by text and given parameter types: drivers that do not prepare send Parse for
/// every execution.
#[derive(Default)]
struct ParsedStatements(HashMap<Arc<str>, Vec<(Vec<Oid>, PreparedStatement)>>);

impl ParsedStatements {
    /// More than so many are forgotten all at once; longer texts are not kept.
    const COUNT_MAX: usize = 1000;
    const LENGTH_MAX: usize = 16 * 1024;

    /// The statement, if nothing has changed under it.
    fn get(&mut self, core: &Core, text: &str, types: &[Oid]) -> Result<Option<&PreparedStatement>> {
        let Some(list) = self.0.get_mut(text) else { return Ok(None) };
        let Some(index) = list.iter().position(|(given, _)| given == types) else { return Ok(None) };
        let current = match &*list[index].1.compiled.borrow() {
            Some(compiled) => compiled.is_current(core)?,
            None => false,
        };
        if !current {
            list.swap_remove(index);
            return Ok(None);
        }
        Ok(list.get(index).map(|(_, statement)| statement))
    }

    fn keep(&mut self, types: &[Oid], statement: &PreparedStatement) {
        let is_kept =
            statement.compiled.borrow().as_ref().is_some_and(|compiled| compiled.is_worth_keeping());
        if !is_kept || statement.text.len() > Self::LENGTH_MAX {
            return;
        }
        if self.0.len() >= Self::COUNT_MAX {
            self.0.clear();
        }
        self.0.entry(Arc::clone(&statement.text)).or_default().push((types.to_vec(), statement.clone()));
    }
}

pub struct Session {
    core: Rc<Core>,
    shapes: ShapeCache,
    parsed: ParsedStatements,
    /// BEGIN, COMMIT and their kin, parsed, by text.
    transactions: HashMap<String, TransactionStmt>,
    /// What the client was last told of each reported setting.
    reported: Vec<(&'static str, String)>,
    /// `statement_timeout` runs: for the statement at hand, or for one whose Execute is still to come.
    timed: bool,
}

impl Session {
    /// Opens a session for a role in a database. `wake` interrupts the client side's wait for messages.
    pub fn open(
        instance: &Arc<Instance>,
        startup: Startup,
        user: User,
        wake: Box<dyn Fn(Wake) + Send + Sync>,
    ) -> Result<Session> {
        let database = instance.database(&startup.database)?;
        if !database.info.allows_connections {
            return Err(err!(
                OBJECT_NOT_IN_PREREQUISITE_STATE,
                "database \"{}\" is not currently accepting connections",
                startup.database
            ));
        }
        let entry = instance.register(&startup, &database, &user, wake);
        let core = Core::new(Arc::clone(instance), database, entry, user);
        let mut session = Session {
            core,
            shapes: ShapeCache::default(),
            parsed: ParsedStatements::default(),
            transactions: HashMap::new(),
            reported: Vec::new(),
            timed: false,
        };
        session.check_connect()?;
        crate::temporary::drop_orphans(&session.core);
        session.apply_stored_settings();
        for (name, value) in &startup.settings {
            session.core.with_settings(|settings| settings.set(name, value, false, Source::Client))?;
        }
        session.reported =
            REPORTED.iter().map(|name| (*name, session.core.show(name).unwrap_or_default())).collect();
        session.core.with_settings(|settings| settings.take_changed());
        session.core.entry.activity.lock().application_name =
            session.core.show("application_name").unwrap_or_default();
        Ok(session)
    }

    /// 42501 unless the role may connect to the database.
    fn check_connect(&self) -> Result<()> {
        let core = &self.core;
        if core.is_superuser() {
            return Ok(());
        }
        let info = &core.database.info;
        if core.rights()?.privileges(core.user_oid(), ObjectKind::Database, info.oid).0 & acl::CONNECT == 0 {
            return Err(crate::rights::denied("database", &format!("\"{}\"", info.name))
                .detail("User does not have CONNECT privilege."));
        }
        Ok(())
    }

    /// ALTER DATABASE ... SET and ALTER ROLE ... SET, the more specific after the less. One that is no good any more is
    /// a warning, not a reason to keep the user out.
    fn apply_stored_settings(&self) {
        let core = &self.core;
        let (database, role) = (core.database.info.oid, core.user().oid);
        let rows = core.instance.shared().rows(pg_db_role_setting::TABLE);
        for (of_database, of_role) in [(0, 0), (database, 0), (0, role), (database, role)] {
            let fits = |row: &&CatalogRow| {
                row.oid(pg_db_role_setting::SETDATABASE) == of_database
                    && row.oid(pg_db_role_setting::SETROLE) == of_role
            };
            let Some(row) = rows.iter().find(fits) else { continue };
            let Datum::Array(list) = &row[pg_db_role_setting::SETCONFIG] else { continue };
            for element in &list.elements {
                let Datum::Text(text) = element else { continue };
                let Some((name, value)) = text.split_once('=') else { continue };
                // Of the database, not of its sessions.
                if name.eq_ignore_ascii_case(crate::settings::RETENTION) {
                    continue;
                }
                let set = core.with_settings(|settings| settings.set(name, value, false, Source::Client));
                if let Err(error) = set {
                    core.notice(error.severity(Severity::Warning));
                }
            }
        }
    }

    pub fn core(&self) -> &Rc<Core> {
        &self.core
    }

    fn begin_message(&mut self, text: Arc<str>) -> Result<()> {
        let now = crate::clock::now_us();
        let core = &self.core;
        core.set_statement_time(now);
        {
            let mut activity = core.entry.activity.lock();
            activity.state = "active";
            activity.query = text;
            activity.transaction_start_us.get_or_insert(now);
            activity.query_start_us = now;
            activity.state_change_us = now;
        }
        self.start_timeout()
    }

    /// Has `statement_timeout` run, as PostgreSQL does: from a statement's first message on to the Execute that completes
    /// it (or to Sync). 57014 if it has run out since the last message.
    fn start_timeout(&mut self) -> Result<()> {
        self.check_timeout()?;
        // A cancel request that came while the client had the word was for nothing that runs now.
        self.core.entry.handle.interrupt.clear();
        self.arm_timeout();
        Ok(())
    }

    /// Sets the clock, unless it runs already.
    fn arm_timeout(&mut self) {
        let core = &self.core;
        let timeout = core.hot(|hot| hot.statement_timeout);
        if timeout.is_zero() {
            self.stop_timeout();
        } else if !self.timed {
            core.instance.arm(&core.entry, timeout);
            self.timed = true;
        }
    }

    fn check_timeout(&self) -> Result<()> {
        let core = &self.core;
        if self.timed && core.entry.handle.interrupt.raised() == Some(CancelReason::StatementTimeout) {
            core.check_interrupts()?;
        }
        Ok(())
    }

    fn stop_timeout(&mut self) {
        self.timed = false;
        self.core.instance.disarm(&self.core.entry);
    }

    /// What follows every message that ran something: an error is dealt with, and `statement_timeout` is over if the
    /// statement is (`ended`).
    fn end_message(
        &mut self,
        result: Result<()>,
        ended: bool,
        text: &str,
        client: &mut dyn Client,
    ) -> Result<()> {
        if ended || result.is_err() {
            self.stop_timeout();
        }
        let core = &self.core;
        if result.is_err() {
            core.abort();
        }
        core.release_snapshots();
        core.send_notices(client);
        self.report_settings(client);
        result.map_err(|error| locate(error, text))
    }

    fn report_settings(&mut self, client: &mut dyn Client) {
        if !self.core.with_settings_ref(|settings| settings.take_changed()) {
            return;
        }
        for (name, told) in &mut self.reported {
            let value = self.core.show(name).unwrap_or_default();
            if value != *told {
                client.parameter_status(name, &value);
                if *name == "application_name" {
                    self.core.entry.activity.lock().application_name.clone_from(&value);
                }
                *told = value;
            }
        }
    }

    fn query_string(&mut self, text: &str, client: &mut dyn Client) -> Result<()> {
        let core = Rc::clone(&self.core);
        core.prepared.borrow_mut().remove("");
        let unnamed = core.portals.borrow().get("");
        if let Some(portal) = unnamed {
            core.close(&portal)?;
        }
        if core.phase() != Phase::Failed {
            core.start_implicit();
            if let Some(cached) = self.shapes.get(&core, text)? {
                let (compiled, params) = (Rc::clone(&cached.compiled), Arc::clone(&cached.params));
                let done = match &compiled.kind {
                    Kind::Call(call) => {
                        let outcome = call.run(&core, params, core.phase() == Phase::Block);
                        outcome.and_then(|outcome| finish_utility(&core, outcome, true, client))
                    }
                    _ => self.run_compiled(compiled, params, &mut || cached.recompile(&core), true, client),
                };
                return done.map_err(|error| cached.for_client(error));
            }
        }
        if let Some(statement) = self.transactions.get(text) {
            let tag = core.transaction_statement(statement)?;
            core.send_notices(client);
            client.command_complete(tag);
            return Ok(());
        }
        let statements = cairn_analyze::parse(text)?;
        if statements.is_empty() {
            core.finish_implicit()?;
            client.empty_query();
            return Ok(());
        }
        let many = statements.len() > 1;
        if let ([RawStatement { node, .. }], true) = (statements.as_slice(), text.len() < 100)
            && let NodeEnum::TransactionStmt(statement) = &**node
        {
            if self.transactions.len() >= 100 {
                self.transactions.clear();
            }
            self.transactions.insert(text.to_owned(), statement.clone());
        }
        let last = statements.len() - 1;
        for (index, raw) in statements.into_iter().enumerate() {
            if index > 0 {
                core.set_statement_time(crate::clock::now_us());
                // Each statement has the whole time, and the timeout that the one before may have set.
                self.stop_timeout();
                self.arm_timeout();
            }
            self.statement(Arc::new(raw), many, index == last, client)?;
        }
        Ok(())
    }

    /// One statement of a query string.
    fn statement(
        &mut self,
        raw: Arc<RawStatement>,
        many: bool,
        last: bool,
        client: &mut dyn Client,
    ) -> Result<()> {
        let core = Rc::clone(&self.core);
        if let NodeEnum::TransactionStmt(statement) = &*raw.node {
            let tag = core.transaction_statement(statement)?;
            core.send_notices(client);
            client.command_complete(tag);
            return Ok(());
        }
        core.check_not_failed()?;
        core.start_implicit();
        let mut compile = || Ok(Rc::new(Compiled::new(&core, &raw, Parameters::None)?));
        let compiled = compile()?;
        let in_block = many || core.phase() == Phase::Block;
        let outcome = match &compiled.kind {
            Kind::Plan(_) => None,
            Kind::Call(call) => Some(call.run(&core, Arc::from([]), in_block)?),
            Kind::Utility(statement, raw) => {
                let mut invocation = Invocation::new(&core, raw, in_block);
                invocation.client = Some(&mut *client);
                Some(utility::run(&mut invocation, statement)?)
            }
        };
        if let Some(outcome) = outcome {
            return finish_utility(&core, outcome, last, client);
        }
        self.run_compiled(compiled, Arc::from([]), &mut compile, last, client)
    }

    fn run_compiled(
        &self,
        compiled: Rc<Compiled>,
        params: Arc<[Datum]>,
        compile: &mut dyn FnMut() -> Result<Rc<Compiled>>,
        last: bool,
        client: &mut dyn Client,
    ) -> Result<()> {
        let core = &self.core;
        let compiled = core.prepare_to_run(compiled, compile)?;
        let plan = &compiled.plan_for(core, &params)?;
        let count = match &compiled.columns {
            Some(columns) => {
                let shape = ResultShape::text(Arc::clone(columns));
                client.row_description(&shape);
                core.run_plan(plan, params, &mut |row| core.send_row(client, &shape, plan, row))?
            }
            None => core.run_plan(plan, params, &mut |_| Ok(()))?,
        };
        if last && core.phase() == Phase::Started {
            core.finish_implicit()?;
        } else {
            core.settle(plan);
        }
        core.send_notices(client);
        client.command_complete(&tag(plan.command, count));
        Ok(())
    }

    fn check_runnable(&self, is_transaction_statement: bool) -> Result<()> {
        if is_transaction_statement { Ok(()) } else { self.core.check_not_failed() }
    }

    fn parse_message(&mut self, name: &str, text: &str, types: &[Oid]) -> Result<()> {
        let core = &self.core;
        core.prepared.borrow().check_free(name)?;
        if core.phase() != Phase::Failed
            && let Some(known) = self.parsed.get(core, text, types)?
        {
            core.start_implicit();
            let statement = PreparedStatement {
                name: name.to_owned(),
                prepared_us: core.statement_time(),
                ..PreparedStatement::clone(known)
            };
            return core.prepared.borrow_mut().add(statement);
        }
        let mut statements = cairn_analyze::parse(text)?;
        if statements.len() > 1 {
            return Err(err!(SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement"));
        }
        let raw = statements.pop();
        self.check_runnable(matches!(&raw, Some(raw) if matches!(&*raw.node, NodeEnum::TransactionStmt(_))))?;
        core.start_implicit();
        let statement = PreparedStatement::new(core, name, text.into(), raw, types, false)?;
        self.parsed.keep(types, &statement);
        core.prepared.borrow_mut().add(statement)
    }

    fn bind_message(&mut self, bind: &Bind<'_>) -> Result<()> {
        let core = &self.core;
        let statement = core.prepared.borrow().get(bind.statement)?;
        self.check_runnable(statement.is_transaction_statement())?;
        core.start_implicit();
        let expected = statement.parameter_types.len();
        if bind.parameters.len() != expected {
            return Err(err!(
                PROTOCOL_VIOLATION,
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {expected}",
                bind.parameters.len(),
                bind.statement
            ));
        }
        let compiled = statement.compiled(core)?;
        let mut params = Vec::with_capacity(expected);
        for (index, (value, ty)) in bind.parameters.iter().zip(statement.parameter_types.iter()).enumerate() {
            let format = format_of(&bind.parameter_formats, index);
            params.push(match value {
                None => Datum::Null,
                Some(bytes) => read_parameter(core, bytes, *ty, format).map_err(|error| {
                    let portal = match bind.portal {
                        "" => "unnamed portal".to_owned(),
                        name => format!("portal \"{name}\""),
                    };
                    // The value itself is not told: `log_parameter_max_length_on_error` is 0.
                    let value = if format == Format::Text { " = '...'" } else { "" };
                    error.context(format!("{portal} parameter ${}{value}", index + 1))
                })?,
            });
        }
        if let Some(compiled) = compiled.as_ref().filter(|compiled| compiled.is_planned_at_bind()) {
            compiled.plan_for(core, &params)?;
        }
        let columns = match &compiled {
            Some(compiled) => compiled.columns_now(core)?,
            None => None,
        };
        if bind.result_formats.len() > 1 {
            let count = columns.as_ref().map_or(0, |columns| columns.len());
            if bind.result_formats.len() != count {
                return Err(err!(
                    PROTOCOL_VIOLATION,
                    "bind message has {} result formats but query has {count} columns",
                    bind.result_formats.len()
                ));
            }
        }
        let shape = columns.map(|columns| ResultShape { columns, formats: bind.result_formats.clone() });
        let mut portal = Portal::new(core, bind.portal.into(), compiled, params.into(), shape);
        portal.prepared = Some(statement);
        core.add_portal(portal)?;
        Ok(())
    }

    /// FunctionCall: runs `select function($1, ...)`, so that rights and strictness are looked after as in statements.
    fn function_message(&mut self, call: &FunctionCall<'_>, client: &mut dyn Client) -> Result<()> {
        let core = Rc::clone(&self.core);
        core.check_not_failed()?;
        core.start_implicit();
        let catalog = core.catalog()?;
        let proc = catalog
            .proc(call.function)
            .ok_or_else(|| err!(UNDEFINED_FUNCTION, "function with OID {} does not exist", call.function))?;
        if proc.kind != ProcKind::Function || proc.returns_set {
            let name = &proc.name;
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "cannot call function \"{name}\" via fastpath interface"
            ));
        }
        let (given, expected) = (call.arguments.len(), proc.arg_types.len());
        if given != expected {
            return Err(err!(
                PROTOCOL_VIOLATION,
                "function call message contains {given} arguments but function requires {expected}"
            ));
        }
        if call.argument_formats.len() > 1 && call.argument_formats.len() != given {
            return Err(err!(
                PROTOCOL_VIOLATION,
                "function call message contains {} argument formats but {given} arguments",
                call.argument_formats.len()
            ));
        }
        let mut params = Vec::with_capacity(given);
        let mut arguments = Vec::with_capacity(given);
        for (index, (value, ty)) in call.arguments.iter().zip(&proc.arg_types).enumerate() {
            params.push(match value {
                None => Datum::Null,
                Some(bytes) => read_parameter(&core, bytes, *ty, format_of(&call.argument_formats, index))?,
            });
            let variadic = if proc.variadic != 0 && index + 1 == expected { "variadic " } else { "" };
            arguments.push(format!("{variadic}${}", index + 1));
        }
        let quote = crate::names::quote_identifier;
        let schema = quote(&catalog.namespace_name(proc.namespace));
        let text = format!("select {schema}.{}({})", quote(&proc.name), arguments.join(", "));
        let raw = cairn_analyze::parse(&text)?.pop().map(Arc::new);
        let raw = raw.ok_or_else(|| Error::internal("a call of a function does not parse"))?;
        let mut compile = || {
            let types = RefCell::new(proc.arg_types.clone());
            Ok(Rc::new(Compiled::new(&core, &raw, Parameters::Infer(&types))?))
        };
        let compiled = compile()?;
        let compiled = core.prepare_to_run(compiled, &mut compile)?;
        let params: Arc<[Datum]> = params.into();
        let plan = &compiled.plan_for(&core, &params)?;
        let mut result = Datum::Null;
        core.run_plan(plan, params, &mut |row| {
            result = row.first().cloned().unwrap_or_default();
            Ok(())
        })?;
        if core.phase() == Phase::Started {
            core.finish_implicit()?;
        } else {
            core.settle(plan);
        }
        core.send_notices(client);
        let ty =
            compiled.columns.as_ref().and_then(|columns| columns.first()).map_or(0, |column| column.ty.oid);
        client.function_result(ty, call.result_format, &*core, &result)
    }

    /// Whether the portal came to its end.
    fn execute_message(&mut self, name: &str, max_rows: u32, client: &mut dyn Client) -> Result<bool> {
        let core = Rc::clone(&self.core);
        let portal = core.portals.borrow().require(name, "portal")?;
        let mut portal = portal.try_borrow_mut().map_err(|_| crate::cursors::cannot_be_run(name))?;
        let Some(compiled) = portal.compiled.clone() else {
            client.empty_query();
            return Ok(true);
        };
        if let Some(statement) = compiled.transaction_statement() {
            let statement = statement.clone();
            drop(portal);
            let tag = core.transaction_statement(&statement)?;
            core.send_notices(client);
            client.command_complete(tag);
            return Ok(true);
        }
        core.check_not_failed()?;
        core.start_implicit();
        let max_rows = max_rows as usize;
        let result = match &compiled.kind {
            Kind::Plan(_) => execute_plan(&core, &mut portal, compiled, max_rows, client),
            Kind::Call(_) | Kind::Utility(..) => {
                execute_utility(&core, &mut portal, &compiled, max_rows, client)
            }
        };
        if result.is_err() {
            portal.state = State::Done;
            portal.in_use = None;
        }
        result
    }
}

/// Reads a parameter's value as its type's input function does.
fn read_parameter(core: &Core, bytes: &[u8], ty: Oid, format: Format) -> Result<Datum> {
    match format {
        Format::Binary => io::recv(bytes, ty, -1, core),
        Format::Text => {
            let text = std::str::from_utf8(bytes).map_err(|error| {
                let byte = bytes.get(error.valid_up_to()).copied().unwrap_or(0);
                err!(CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}")
            })?;
            if text.contains('\0') {
                return Err(err!(
                    CHARACTER_NOT_IN_REPERTOIRE,
                    "invalid byte sequence for encoding \"UTF8\": 0x00"
                ));
            }
            io::input(text, ty, -1, core)
        }
    }
}

/// Rows and tag of a utility in the simple protocol.
fn finish_utility(core: &Core, outcome: Outcome, last: bool, client: &mut dyn Client) -> Result<()> {
    if let Some(columns) = &outcome.columns {
        let shape = ResultShape::text(Arc::clone(columns));
        core.send_notices(client);
        client.row_description(&shape);
        for row in &outcome.rows {
            client.row(&shape, core, row)?;
            if client.wants_flush() {
                client.flush()?;
            }
        }
    }
    if last {
        core.finish_implicit()?;
    }
    core.send_notices(client);
    client.command_complete(&outcome.tag);
    Ok(())
}

/// Execute of a query's portal: rows up to the limit. Whether it came to its end.
fn execute_plan(
    core: &Rc<Core>,
    portal: &mut Portal,
    compiled: Rc<Compiled>,
    max_rows: usize,
    client: &mut dyn Client,
) -> Result<bool> {
    if matches!(portal.state, State::Ready) {
        let compiled = core.prepare_portal(portal, compiled)?;
        let plan = &compiled.plan_for(core, &portal.params)?;
        if max_rows == 0 || !plan.returns_rows() {
            let shape = portal.shape.take();
            let count = match &shape {
                Some(shape) => core.run_plan(plan, Arc::clone(&portal.params), &mut |row| {
                    core.send_row(client, shape, plan, row)
                }),
                None => core.run_plan(plan, Arc::clone(&portal.params), &mut |_| Ok(())),
            };
            portal.shape = shape;
            portal.state = State::Done;
            let count = count?;
            core.settle(plan);
            core.send_notices(client);
            client.command_complete(&tag(plan.command, count));
            return Ok(true);
        }
        core.start_portal(portal, plan)?;
        portal.compiled = Some(compiled);
    }
    let Some(shape) = portal.shape.clone() else { return Err(Error::internal("rows without columns")) };
    match &mut portal.state {
        State::Running(execution) => {
            let plan = Arc::clone(execution.plan());
            core.snapshots.borrow_mut().push(execution.frame.snapshot);
            let sent = core.with_exec(|cx| {
                let mut sent = 0;
                while max_rows == 0 || sent < max_rows {
                    match execution.next_row(cx)? {
                        Some(row) => core.send_row(client, &shape, &plan, row)?,
                        None => {
                            execution.finish(cx)?;
                            return Ok((sent, true));
                        }
                    }
                    sent += 1;
                }
                Ok((sent, false))
            });
            core.pop_snapshot();
            let (sent, ended) = sent?;
            portal.passed += sent;
            portal.ended |= ended;
            core.settle(&plan);
            core.send_notices(client);
            if ended {
                portal.state = State::Done;
                portal.in_use = None;
                client.command_complete(&format!("SELECT {sent}"));
            } else {
                client.portal_suspended();
            }
            Ok(ended)
        }
        State::Rows(_) => send_stored(core, portal, max_rows, client),
        State::Ready | State::Done => {
            // Run again after its end, a portal is empty.
            client.command_complete(&match portal.compiled.as_ref().and_then(|compiled| compiled.plan()) {
                Some(plan) => tag(plan.command, 0),
                None => "SELECT 0".to_owned(),
            });
            Ok(true)
        }
    }
}

/// Rows of a portal that has run to its end. Whether they were the last ones.
fn send_stored(core: &Core, portal: &mut Portal, max_rows: usize, client: &mut dyn Client) -> Result<bool> {
    let Some(shape) = portal.shape.clone() else { return Err(Error::internal("rows without columns")) };
    let State::Rows(stored) = &mut portal.state else { return Ok(true) };
    let sent = {
        let rows = stored.take_forward(max_rows);
        for row in rows {
            client.row(&shape, core, row)?;
            if client.wants_flush() {
                client.flush()?;
            }
        }
        rows.len()
    };
    core.send_notices(client);
    if max_rows > 0 && sent == max_rows && !stored.is_exhausted() {
        client.portal_suspended();
        return Ok(false);
    }
    client.command_complete(&stored.tag.clone().unwrap_or_else(|| format!("SELECT {sent}")));
    Ok(true)
}

fn execute_utility(
    core: &Rc<Core>,
    portal: &mut Portal,
    compiled: &Compiled,
    max_rows: usize,
    client: &mut dyn Client,
) -> Result<bool> {
    if matches!(portal.state, State::Ready) {
        let (params, in_block) = (Arc::clone(&portal.params), core.phase() == Phase::Block);
        let outcome = match &compiled.kind {
            Kind::Plan(_) => return Err(Error::internal("a query is not a utility")),
            Kind::Call(call) => call.run(core, params, in_block)?,
            Kind::Utility(statement, raw) => {
                let mut invocation = Invocation::new(core, raw, in_block);
                invocation.params = params;
                invocation.client = Some(&mut *client);
                utility::run(&mut invocation, statement)?
            }
        };
        let Some(columns) = outcome.columns else {
            portal.state = State::Done;
            core.send_notices(client);
            client.command_complete(&outcome.tag);
            return Ok(true);
        };
        // A FETCH whose cursor was not there at Bind.
        portal.shape.get_or_insert_with(|| ResultShape::text(columns));
        portal.state =
            State::Rows(Stored { rows: outcome.rows, tag: Some(outcome.tag), ..Stored::default() });
    }
    match portal.state {
        State::Rows(_) => send_stored(core, portal, max_rows, client),
        _ => {
            client.command_complete("SELECT 0");
            Ok(true)
        }
    }
}

/// Turns an error's byte offset into a character offset of the text that it belongs to.
fn locate(mut error: Error, text: &str) -> Error {
    let report = error.report_mut();
    if let Some(location) = report.location {
        let text = report.internal_query.as_deref().unwrap_or(text);
        let end = (location as usize).min(text.len());
        let characters = text.as_bytes().iter().take(end).filter(|byte| (**byte & 0xC0) != 0x80).count();
        report.location = u32::try_from(characters).ok();
    }
    error
}

impl Frontend for Session {
    fn status(&self) -> TransactionStatus {
        let status = self.core.status();
        let mut activity = self.core.entry.activity.lock();
        activity.state = match status {
            TransactionStatus::Idle => "idle",
            TransactionStatus::InTransaction => "idle in transaction",
            TransactionStatus::Failed => "idle in transaction (aborted)",
        };
        activity.transaction_start_us =
            (status != TransactionStatus::Idle).then(|| self.core.transaction_time());
        status
    }

    fn defer_debt(&self) -> Option<Arc<Debt>> {
        self.core.debt.defer();
        Some(self.core.debt.clone())
    }

    fn say_notices_through(&mut self, outlet: Rc<dyn Outlet>) {
        self.core.notices.set_outlet(outlet);
    }

    fn initial_parameters(&self) -> Vec<(String, String)> {
        self.reported.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn pid(&self) -> i32 {
        self.core.entry.handle.pid
    }

    fn secret(&self) -> i32 {
        self.core.entry.secret
    }

    fn simple_query(&mut self, text: &str, client: &mut dyn Client) -> Result<()> {
        let result = self.begin_message(text.into()).and_then(|()| self.query_string(text, client));
        self.end_message(result, true, text, client)
    }

    fn parse(&mut self, name: &str, text: &str, types: &[Oid], client: &mut dyn Client) -> Result<()> {
        let result = self.begin_message(text.into()).and_then(|()| self.parse_message(name, text, types));
        self.end_message(result, false, text, client)
    }

    fn bind(&mut self, bind: Bind<'_>, client: &mut dyn Client) -> Result<()> {
        self.core.set_statement_time(crate::clock::now_us());
        let result = self.start_timeout().and_then(|()| self.bind_message(&bind));
        self.end_message(result, false, "", client)
    }

    fn describe_statement(&mut self, name: &str, client: &mut dyn Client) -> Result<()> {
        let core = Rc::clone(&self.core);
        let result = self.start_timeout().and_then(|()| {
            let statement = core.prepared.borrow().get(name)?;
            self.check_runnable(statement.is_transaction_statement())?;
            core.start_implicit();
            let compiled = statement.compiled(&core)?;
            client.parameter_description(&statement.parameter_types);
            match compiled.and_then(|compiled| compiled.columns.clone()) {
                Some(columns) => client.row_description(&ResultShape::text(columns)),
                None => client.no_data(),
            }
            Ok(())
        });
        self.end_message(result, false, "", client)
    }

    fn describe_portal(&mut self, name: &str, client: &mut dyn Client) -> Result<()> {
        let core = Rc::clone(&self.core);
        let result = self.start_timeout().and_then(|()| {
            let portal = core.portals.borrow().require(name, "portal")?;
            let portal = portal.try_borrow().map_err(|_| crate::cursors::cannot_be_run(name))?;
            match &portal.shape {
                Some(shape) => client.row_description(shape),
                None => client.no_data(),
            }
            Ok(())
        });
        self.end_message(result, false, "", client)
    }

    fn execute(&mut self, portal: &str, max_rows: u32, client: &mut dyn Client) -> Result<()> {
        let text: Arc<str> = self
            .core
            .portals
            .borrow()
            .get(portal)
            .and_then(|portal| {
                portal.try_borrow().ok()?.prepared.as_ref().map(|prepared| Arc::clone(&prepared.text))
            })
            .unwrap_or_else(|| "".into());
        let begun = self.begin_message(Arc::clone(&text));
        let (ended, result) = match begun.and_then(|()| self.execute_message(portal, max_rows, client)) {
            Ok(ended) => (ended, Ok(())),
            Err(error) => (true, Err(error)),
        };
        self.end_message(result, ended, &text, client)
    }

    fn close_statement(&mut self, name: &str) -> Result<()> {
        self.core.prepared.borrow_mut().remove(name);
        Ok(())
    }

    fn close_portal(&mut self, name: &str) -> Result<()> {
        let portal = self.core.portals.borrow().get(name);
        match portal {
            Some(portal) => self.core.close(&portal).inspect_err(|_| self.core.abort()),
            None => Ok(()),
        }
    }

    fn call_function(&mut self, call: FunctionCall<'_>, client: &mut dyn Client) -> Result<()> {
        let begun = self.begin_message("<function call>".into());
        let result = begun.and_then(|()| self.function_message(&call, client)).map_err(|mut error| {
            // Of the statement that nobody has sent.
            if error.report().internal_query.is_none() {
                error.report_mut().location = None;
            }
            error
        });
        self.end_message(result, true, "", client)
    }

    fn sync(&mut self, client: &mut dyn Client) -> Result<()> {
        let result = self.check_timeout().and_then(|()| self.core.finish_implicit());
        self.end_message(result, true, "", client)
    }

    fn fail(&mut self) {
        self.stop_timeout();
        self.core.abort();
    }

    fn idle_timeout(&self) -> Option<Duration> {
        let timeout = self.core.hot(|hot| match self.core.status() {
            TransactionStatus::Idle => hot.idle_session_timeout,
            TransactionStatus::InTransaction | TransactionStatus::Failed => {
                hot.idle_in_transaction_session_timeout
            }
        });
        (!timeout.is_zero()).then_some(timeout)
    }

    fn idle_error(&self) -> Error {
        match self.core.status() {
            TransactionStatus::Idle => Error::new(
                cairn_types::SqlState(*b"57P05"),
                "terminating connection due to idle-session timeout",
            ),
            TransactionStatus::InTransaction | TransactionStatus::Failed => err!(
                IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout"
            ),
        }
        .severity(Severity::Fatal)
    }

    fn is_listening(&self) -> bool {
        self.core.is_listening()
    }

    fn notifications(&mut self) -> Vec<Notification> {
        if self.core.status() != TransactionStatus::Idle {
            return Vec::new();
        }
        let core = &self.core;
        if core.entry.inbox.lock().is_empty() { Vec::new() } else { core.instance.exchange.take(&core.entry) }
    }

    fn terminated(&self) -> Option<Error> {
        (self.core.entry.handle.interrupt.raised() == Some(CancelReason::Terminate)).then(|| {
            err!(ADMIN_SHUTDOWN, "terminating connection due to administrator command")
                .severity(Severity::Fatal)
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let core = &self.core;
        core.notices.mute();
        core.rollback_everything();
        core.stop_listening();
        crate::temporary::drop_all(core);
        core.database.store.unlock_all(&core.entry.handle);
        core.instance.unregister(&core.entry);
    }
}
