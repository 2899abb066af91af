//! The state of one session that running statements reach: settings, catalog, clocks, notices.
//!
//! [`Core`] is shared (by reference) between the session, which drives transactions and portals, and whatever runs inside
//! a statement: functions through [`Env`], DDL through [`Context`](crate::context::Context). Everything mutable is in cells, borrowed
//! for moments only; nothing here waits while it holds a borrow.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use cairn_analyze::query::Query;
use cairn_analyze::{AnalyzeContext, Parameters};
use cairn_catalog::acl::{self, Item, Malformed, ObjectKind};
use cairn_catalog::columns::pg_namespace;
use cairn_catalog::{Catalog, RowExt, SearchPath, SharedCatalogs};
use cairn_exec::dml::TransactionConstraints;
use cairn_exec::{Plan, TxnResultExt};
use cairn_txn::{Isolation, Snapshot, Transaction};
use cairn_types::{
    CallInfo, Datum, EnumValue, Env, Error, FormatSettings, Oid, Result, Severity, Text, TypeShape, err,
};

use crate::clock;
use crate::ddl::OnCommit;
use crate::debt::Debt;
use crate::instance::{Instance, OpenDatabase, SessionEntry};
use crate::notices::Notices;
use crate::notify::Pending;
use crate::portal::Portals;
use crate::rights::{AccessMemory, ActingJournal};
use crate::session::PreparedStatements;
use crate::settings::{self, Settings, Source};
use crate::system_functions::SequenceMemory;
use crate::transaction::{Block, Phase};

pub struct Core {
    me: Weak<Core>,
    pub instance: Arc<Instance>,
    pub database: Arc<OpenDatabase>,
    pub entry: Arc<SessionEntry>,
    /// Who connected (`session_user`), and for whom it acts now (`current_user`, SET ROLE).
    session_user: RefCell<User>,
    current_user: RefCell<User>,
    /// Whether the current role is a superuser, and the version of the roles that this holds for.
    pub(crate) superuser: Cell<(bool, u64)>,
    pub(crate) access: AccessMemory,
    /// Who connected, whatever was set since.
    pub(crate) authenticated: User,
    pub(crate) acting_journal: RefCell<ActingJournal>,
    /// How many SECURITY DEFINER functions are running.
    pub(crate) definer_depth: Cell<u32>,
    settings: RefCell<Settings>,
    formats: Formats,
    catalog: RefCell<CatalogState>,
    search_path: RefCell<Option<PathState>>,
    /// The schema of the session's temporary objects, once there is one.
    temporary_namespace: Cell<Option<Oid>>,
    transaction: RefCell<Option<Arc<dyn Transaction>>>,
    /// What must be durable before the client hears anything more.
    pub(crate) debt: Arc<Debt>,
    pub(crate) block: RefCell<Block>,
    /// The transaction reads at a time in the past.
    pub(crate) read_past: Cell<bool>,
    pub(crate) notify: RefCell<Pending>,
    pub(crate) portals: RefCell<Portals>,
    /// Plans that are being run, by statements or open cursors; see [`Core::uses`].
    pub(crate) running: Rc<RefCell<Vec<Arc<Plan>>>>,
    pub(crate) prepared: RefCell<PreparedStatements>,
    pub(crate) functions: RefCell<crate::routines::FunctionCache>,
    /// `select null`, analyzed: what lone expressions are put into.
    pub(crate) lone_select: OnceCell<Box<Query>>,
    /// How values of domains are checked.
    pub(crate) domain_checks: crate::domains::DomainChecks,
    /// Checks that wait for the transaction's end.
    pub(crate) constraints: TransactionConstraints,
    /// Snapshots of the running statements, innermost last: what stable functions read at.
    pub(crate) snapshots: RefCell<Vec<Snapshot>>,
    /// When statements read that are planned now, if they do not take a snapshot themselves; see `read_time`.
    pub(crate) read_time: Cell<Option<cairn_txn::Timestamp>>,
    /// How many functions run around a procedure that would commit; see `atomic_depth_allows_commit`.
    pub(crate) atomic_depth: Cell<u32>,
    /// The innermost PL/pgSQL function is not volatile: its queries see what the query sees that called it.
    pub(crate) reads_as_caller: Cell<bool>,
    /// Where the innermost SQL function is, for the CONTEXT of its errors.
    pub(crate) sql_function_at: Cell<crate::routines::FunctionStage>,
    /// ON COMMIT actions of temporary tables.
    pub(crate) on_commit: RefCell<Vec<(Oid, OnCommit)>>,
    transaction_time_us: Cell<i64>,
    statement_time_us: Cell<i64>,
    pub(crate) notices: Notices,
    random: Cell<u64>,
    pub(crate) sequences: RefCell<SequenceMemory>,
}

/// A role as a session knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub oid: Oid,
    pub name: Text,
    pub superuser: bool,
}

/// The picture that statements are analyzed against.
#[expect(
    clippy::redundant_allocation,
    reason = "the outer count is the session's own, the inner one all sessions share"
)]
struct CatalogState {
    /// The committed picture of this generation.
    committed: Option<(u64, Rc<Arc<Catalog>>)>,
    /// The transaction's own, once it has changed something, and the generation that it includes.
    own: Option<(u64, Arc<Catalog>)>,
}

struct PathState {
    catalog_version: u64,
    setting: Text,
    user: Oid,
    /// Version of the roles; 0 for a superuser, whose path does not depend on them.
    roles_version: u64,
    temporary: Option<Oid>,
    path: Arc<SearchPath>,
}

/// The format settings of the session, old ones included: what a running function borrowed stays valid when the setting
/// changes under it. Each combination is kept once; the current one is found from the front.
struct Formats {
    first: FormatNode,
    current: Cell<usize>,
}

struct FormatNode {
    value: FormatSettings,
    next: OnceCell<Box<FormatNode>>,
}

impl Formats {
    fn new(value: FormatSettings) -> Self {
        Formats { first: FormatNode { value, next: OnceCell::new() }, current: Cell::new(0) }
    }

    fn get(&self) -> &FormatSettings {
        let mut node = &self.first;
        for _ in 0..self.current.get() {
            match node.next.get() {
                Some(next) => node = next,
                None => break,
            }
        }
        &node.value
    }

    fn set(&self, value: &FormatSettings) {
        let same = |a: &FormatSettings| {
            a.date_style == value.date_style
                && a.date_order == value.date_order
                && a.interval_style == value.interval_style
                && a.time_zone == value.time_zone
                && a.extra_float_digits == value.extra_float_digits
                && a.bytea_hex == value.bytea_hex
                && a.standard_conforming_strings == value.standard_conforming_strings
        };
        let mut node = &self.first;
        let mut index = 0;
        while !same(&node.value) {
            node = node
                .next
                .get_or_init(|| Box::new(FormatNode { value: value.clone(), next: OnceCell::new() }));
            index += 1;
        }
        self.current.set(index);
    }
}

impl Core {
    pub(crate) fn new(
        instance: Arc<Instance>,
        database: Arc<OpenDatabase>,
        entry: Arc<SessionEntry>,
        user: User,
    ) -> Rc<Self> {
        let mut settings = Settings::new(user.superuser);
        settings.set_fact("is_superuser", if user.superuser { "on" } else { "off" });
        for (name, value) in instance.facts() {
            settings.set_fact(name, &value);
        }
        let retention = settings::retention_text(database.store.retention());
        settings.set_fact(settings::RETENTION, &retention);
        let formats = Formats::new(settings.format().clone());
        let seed = clock::now_us() as u64 ^ u64::from(entry.secret.unsigned_abs()) << 32;
        Rc::new_cyclic(|me| Core {
            me: Weak::clone(me),
            session_user: RefCell::new(user.clone()),
            superuser: Cell::new((user.superuser, instance.shared().version())),
            access: AccessMemory::default(),
            authenticated: user.clone(),
            acting_journal: RefCell::default(),
            definer_depth: Cell::new(0),
            current_user: RefCell::new(user),
            settings: RefCell::new(settings),
            formats,
            catalog: RefCell::new(CatalogState { committed: None, own: None }),
            search_path: RefCell::new(None),
            temporary_namespace: Cell::new(None),
            transaction: RefCell::new(None),
            debt: Arc::new(Debt::new(database.store.clone())),
            block: RefCell::default(),
            read_past: Cell::new(false),
            notify: RefCell::default(),
            portals: RefCell::default(),
            running: Rc::default(),
            prepared: RefCell::default(),
            functions: RefCell::default(),
            lone_select: OnceCell::new(),
            domain_checks: Default::default(),
            constraints: TransactionConstraints::new(),
            snapshots: RefCell::default(),
            read_time: Cell::default(),
            atomic_depth: Cell::new(0),
            reads_as_caller: Cell::new(false),
            sql_function_at: Cell::default(),
            on_commit: RefCell::default(),
            transaction_time_us: Cell::new(clock::now_us()),
            statement_time_us: Cell::new(clock::now_us()),
            notices: Notices::default(),
            random: Cell::new(seed),
            sequences: RefCell::default(),
            instance,
            database,
            entry,
        })
    }

    /// The owning reference, for what outlives a call (rows of a running statement).
    pub(crate) fn rc(&self) -> Rc<Core> {
        self.me.upgrade().expect("the core is alive while it is used")
    }

    // Users.

    pub fn session_user(&self) -> User {
        self.session_user.borrow().clone()
    }

    pub fn user(&self) -> User {
        self.current_user.borrow().clone()
    }

    pub fn user_oid(&self) -> Oid {
        self.current_user.borrow().oid
    }

    pub(crate) fn set_user(&self, user: User) {
        *self.current_user.borrow_mut() = user;
        // The next question asks the roles.
        self.superuser.set((false, u64::MAX));
    }

    pub(crate) fn set_session_user(&self, user: User) {
        *self.session_user.borrow_mut() = user.clone();
        self.set_user(user);
    }

    /// The role with this name; 42704 if there is none.
    pub fn role(&self, name: &str) -> Result<User> {
        if *name == *self.session_user.borrow().name {
            return Ok(self.session_user());
        }
        let row = self
            .instance
            .shared()
            .role(name)
            .ok_or_else(|| err!(UNDEFINED_OBJECT, "role \"{name}\" does not exist"))?;
        Ok(crate::instance::user_of(&row))
    }

    pub(crate) fn in_security_definer(&self) -> bool {
        self.definer_depth.get() > 0
    }

    // Settings.

    /// Runs with the settings; not to be called while another borrow is alive.
    pub(crate) fn with_settings<R>(&self, work: impl FnOnce(&mut Settings) -> R) -> R {
        let mut settings = self.settings.borrow_mut();
        let result = work(&mut settings);
        self.formats.set(settings.format());
        result
    }

    /// Names the combination of format settings that is in force: the same number, the same formats.
    pub(crate) fn formats_number(&self) -> usize {
        self.formats.current.get()
    }

    /// [`Core::with_settings`] at a transaction's end: nothing to do where nothing was set in it.
    pub(crate) fn with_settings_if_changed(&self, work: impl FnOnce(&mut Settings)) {
        if self.settings.borrow().has_journal() {
            self.with_settings(work);
        }
    }

    /// Reads or marks the settings without touching what is derived from them.
    pub(crate) fn with_settings_ref<R>(&self, work: impl FnOnce(&mut Settings) -> R) -> R {
        work(&mut self.settings.borrow_mut())
    }

    pub(crate) fn default_isolation(&self) -> &'static str {
        self.hot(|hot| hot.default_isolation)
    }

    /// Whether a procedure may end the transaction: no function or query runs around it.
    pub(crate) fn atomic_depth_allows_commit(&self) -> bool {
        self.atomic_depth.get() == 0
    }

    /// A copy of what statements look at often.
    pub fn hot<R>(&self, read: impl FnOnce(&settings::Hot) -> R) -> R {
        read(self.settings.borrow().hot())
    }

    /// The setting as SHOW prints it, those that are facts of the transaction included.
    pub fn show(&self, name: &str) -> Option<String> {
        let on = |value: bool| if value { "on" } else { "off" }.to_owned();
        let lower = name.to_ascii_lowercase();
        let block = self.block.borrow();
        Some(match lower.as_str() {
            "transaction_isolation" => match block.phase {
                Phase::Idle => self.settings.borrow().show("default_transaction_isolation")?,
                _ => block.isolation.to_owned(),
            },
            "transaction_read_only" => match block.phase {
                Phase::Idle => on(self.hot(|hot| hot.default_read_only)),
                _ => on(block.read_only),
            },
            "transaction_deferrable" => match block.phase {
                Phase::Idle => on(self.hot(|hot| hot.default_deferrable)),
                _ => on(block.deferrable),
            },
            "session_authorization" => self.session_user.borrow().name.to_string(),
            "role" => {
                let (session, current) = (self.session_user.borrow(), self.current_user.borrow());
                if session.oid == current.oid { "none".to_owned() } else { current.name.to_string() }
            }
            _ => return self.settings.borrow().show(name),
        })
    }

    /// SET, `set_config`, SET clauses of functions.
    pub fn set_config(&self, name: &str, value: &str, local: bool) -> Result<()> {
        match name.to_ascii_lowercase().as_str() {
            "session_authorization" => self.set_session_authorization(Some(value), local),
            "role" => self.set_role(value, local),
            "transaction_isolation" | "transaction_read_only" | "transaction_deferrable" => {
                self.set_transaction_characteristic(&name.to_ascii_lowercase(), value)
            }
            "seed" => {
                let seed: f64 =
                    value.parse().ok().filter(|seed| (-1.0..=1.0).contains(seed)).ok_or_else(|| {
                        err!(INVALID_PARAMETER_VALUE, "invalid value for parameter \"seed\": \"{value}\"")
                    })?;
                self.set_seed(seed);
                Ok(())
            }
            _ => self.with_settings(|settings| settings.set(name, value, local, Source::Session)),
        }
    }

    /// SET TRANSACTION: only as long as the transaction has not begun to read.
    pub(crate) fn set_transaction_characteristic(&self, name: &str, value: &str) -> Result<()> {
        let begun = self.transaction_if_begun();
        let in_savepoint = self.savepoint_depth() > 0;
        let mut block = self.block.borrow_mut();
        // Whether the transaction can still have other options: it may have begun with a lock.
        let change = |isolation: &str, read_only: bool| {
            begun.as_ref().is_none_or(|begun| begun.set_options(isolation_of(isolation), read_only))
        };
        match name {
            "transaction_isolation" => {
                let level = isolation_level(value)?;
                if level != block.isolation {
                    if !change(block.isolation, block.read_only) {
                        return Err(err!(
                            ACTIVE_SQL_TRANSACTION,
                            "SET TRANSACTION ISOLATION LEVEL must be called before any query"
                        ));
                    }
                    if in_savepoint {
                        return Err(err!(
                            ACTIVE_SQL_TRANSACTION,
                            "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"
                        ));
                    }
                    change(level, block.read_only);
                }
                block.isolation = level;
            }
            "transaction_read_only" => {
                let read_only = settings::value::parse_bool(value).ok_or_else(|| {
                    err!(
                        INVALID_PARAMETER_VALUE,
                        "parameter \"transaction_read_only\" requires a Boolean value"
                    )
                })?;
                if block.read_only && !read_only && in_savepoint {
                    return Err(err!(
                        ACTIVE_SQL_TRANSACTION,
                        "cannot set transaction read-write mode inside a read-only transaction"
                    ));
                }
                if block.read_only && !read_only && !change(block.isolation, false) {
                    return Err(err!(
                        ACTIVE_SQL_TRANSACTION,
                        "transaction read-write mode must be set before any query"
                    ));
                }
                block.read_only = read_only;
            }
            _ => {
                let deferrable = settings::value::parse_bool(value).ok_or_else(|| {
                    err!(
                        INVALID_PARAMETER_VALUE,
                        "parameter \"transaction_deferrable\" requires a Boolean value"
                    )
                })?;
                block.deferrable = deferrable;
            }
        }
        Ok(())
    }

    // The transaction.

    /// The transaction that the running statement belongs to.
    pub fn transaction(&self) -> Result<Arc<dyn Transaction>> {
        self.transaction.borrow().clone().ok_or_else(|| Error::internal("no transaction is running"))
    }

    pub(crate) fn transaction_if_begun(&self) -> Option<Arc<dyn Transaction>> {
        self.transaction.borrow().clone()
    }

    pub(crate) fn set_transaction(&self, transaction: Option<Arc<dyn Transaction>>) {
        *self.transaction.borrow_mut() = transaction;
    }

    pub(crate) fn set_transaction_time(&self, time_us: i64) {
        self.transaction_time_us.set(time_us);
    }

    pub(crate) fn set_statement_time(&self, time_us: i64) {
        self.statement_time_us.set(time_us);
    }

    // The catalog.

    /// The picture that a statement of this session sees now: the newest committed one, or the transaction's own.
    pub fn catalog(&self) -> Result<Arc<Catalog>> {
        Ok(Arc::clone(&*self.session_catalog()?))
    }

    /// [`Core::catalog`] for those who look often: all sessions share the picture's own counter, and each look would change it.
    #[expect(
        clippy::redundant_allocation,
        reason = "the outer count is the session's own, the inner one all sessions share"
    )]
    pub(crate) fn session_catalog(&self) -> Result<Rc<Arc<Catalog>>> {
        let mut state = self.catalog.borrow_mut();
        if let Some((generation, own)) = &state.own {
            let newest = self.database.catalogs.generation();
            if *generation == newest || self.read_past.get() {
                return Ok(Rc::new(Arc::clone(own)));
            }
            // Others have changed the catalog meanwhile: look at all of it again.
            let own = self.load_newest_catalog()?;
            state.own = Some((newest, Arc::clone(&own)));
            return Ok(Rc::new(own));
        }
        if let Some((generation, catalog)) = &state.committed
            && *generation == self.database.catalogs.generation()
        {
            return Ok(Rc::clone(catalog));
        }
        let (generation, newest) =
            self.database.catalogs.current(&*self.database.store, &self.entry.handle).sql()?;
        let newest = Rc::new(newest);
        state.committed = Some((generation, Rc::clone(&newest)));
        Ok(newest)
    }

    /// After a statement has written catalog rows: the picture with its changes, for the rest of the transaction.
    pub fn set_own_catalog(&self, catalog: Arc<Catalog>) {
        let generation = self.database.catalogs.generation();
        let mut state = self.catalog.borrow_mut();
        // What was made from an older picture stays one, so that the next look sees the difference.
        let generation = state.own.as_ref().map_or_else(
            || state.committed.as_ref().map_or(generation, |(generation, _)| *generation),
            |(generation, _)| *generation,
        );
        state.own = Some((generation, catalog));
    }

    pub(crate) fn own_catalog(&self) -> Option<(u64, Arc<Catalog>)> {
        self.catalog.borrow().own.clone()
    }

    /// Back to what a savepoint saw, or to the committed picture.
    pub(crate) fn restore_own_catalog(&self, catalog: Option<(u64, Arc<Catalog>)>) {
        self.catalog.borrow_mut().own = catalog;
    }

    pub fn temporary_namespace(&self) -> Option<Oid> {
        self.temporary_namespace.get()
    }

    pub fn set_temporary_namespace(&self, namespace: Option<Oid>) {
        self.temporary_namespace.set(namespace);
    }

    /// The schemas that unqualified names mean now.
    pub fn search_path(&self) -> Result<Arc<SearchPath>> {
        let catalog = self.session_catalog()?;
        let setting = self.hot(|hot| hot.search_path.clone());
        let superuser = self.is_superuser();
        let roles_version = if superuser { 0 } else { self.instance.shared().version() };
        let user = self.current_user.borrow();
        let temporary = self.temporary_namespace.get();
        let mut cached = self.search_path.borrow_mut();
        if let Some(state) = &*cached
            && state.catalog_version == catalog.version()
            && state.user == user.oid
            && state.roles_version == roles_version
            && state.temporary == temporary
            && (Arc::ptr_eq(&state.setting, &setting) || state.setting == setting)
        {
            return Ok(Arc::clone(&state.path));
        }
        let names = identifier_list(&setting).ok_or_else(|| {
            err!(INVALID_PARAMETER_VALUE, "invalid value for parameter \"search_path\": \"{setting}\"")
        })?;
        let mut path = SearchPath::new(&catalog, &names, &user.name, temporary);
        if !superuser {
            let rights = crate::rights::Rights { roles: self.roles(), catalog: Arc::clone(&catalog) };
            let closed =
                catalog.system_rows(pg_namespace::TABLE).into_iter().map(|row| row.oid(pg_namespace::OID));
            let closed = closed.filter(|oid| {
                Some(*oid) != temporary
                    && rights.privileges(user.oid, ObjectKind::Schema, *oid).0 & acl::USAGE == 0
            });
            path = path.without(closed.collect());
        }
        let path = Arc::new(path);
        *cached = Some(PathState {
            catalog_version: catalog.version(),
            setting,
            user: user.oid,
            roles_version,
            temporary,
            path: Arc::clone(&path),
        });
        Ok(path)
    }

    /// Analyzes under the session's catalog and search path.
    pub fn with_analyzer<R>(
        &self,
        parameters: Parameters<'_>,
        work: impl FnOnce(&AnalyzeContext<'_>) -> Result<R>,
    ) -> Result<R> {
        let (catalog, path) = (self.catalog()?, self.search_path()?);
        work(&AnalyzeContext { catalog: &catalog, search_path: &path, env: self, parameters })
    }

    /// Forgets a temporary schema that a rolled back transaction made.
    pub(crate) fn clear_temporary_uncommitted(&self) {
        if let Some(namespace) = self.temporary_namespace.get()
            && self.catalog().is_ok_and(|catalog| catalog.namespace(namespace).is_none())
        {
            self.temporary_namespace.set(None);
        }
    }
}

/// The session does not sleep any more.
struct Awake<'a>(&'a SessionEntry);

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.activity.lock().sleeps = false;
    }
}

/// What a level's name stands for.
pub(crate) fn isolation_of(level: &str) -> Isolation {
    match level {
        "repeatable read" => Isolation::RepeatableRead,
        "serializable" => Isolation::Serializable,
        _ => Isolation::ReadCommitted,
    }
}

/// PostgreSQL's name of a level.
pub(crate) fn isolation_level(text: &str) -> Result<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "read committed" => Ok("read committed"),
        "read uncommitted" => Ok("read uncommitted"),
        "repeatable read" => Ok("repeatable read"),
        "serializable" => Ok("serializable"),
        _ => Err(err!(
            INVALID_PARAMETER_VALUE,
            "invalid value for parameter \"transaction_isolation\": \"{text}\""
        )
        .hint("Available values: serializable, repeatable read, read committed, read uncommitted.")),
    }
}

/// The elements of a comma-separated list of identifiers, folded and unquoted; `None` if it is malformed.
pub fn identifier_list(text: &str) -> Option<Vec<Text>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let name;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut unquoted = String::new();
            let mut characters = quoted.char_indices().peekable();
            let mut end = None;
            while let Some((at, character)) = characters.next() {
                if character != '"' {
                    unquoted.push(character);
                } else if characters.peek().is_some_and(|(_, next)| *next == '"') {
                    unquoted.push('"');
                    characters.next();
                } else {
                    end = Some(at + 1);
                    break;
                }
            }
            rest = quoted.get(end?..)?.trim_start();
            // An empty one too: `set search_path = ''` is a path of one schema that does not exist.
            name = unquoted;
        } else {
            let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
            name = rest[..end].to_lowercase();
            if name.is_empty() {
                return None;
            }
            rest = rest[end..].trim_start();
        }
        names.push(Text::from(name));
        match rest.strip_prefix(',') {
            Some(tail) => rest = tail.trim_start(),
            None => return rest.is_empty().then_some(names),
        }
    }
}

impl Env for Core {
    fn check_domain(&self, domain: Oid, value: &Datum) -> Result<()> {
        crate::domains::check(self, domain, value)
    }

    fn format(&self) -> &FormatSettings {
        self.formats.get()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.show(name)
    }

    fn set_setting(&self, name: &str, value: &str, local: bool) -> Result<()> {
        self.set_config(name, value, local)
    }

    fn transaction_time(&self) -> i64 {
        self.transaction_time_us.get()
    }

    fn statement_time(&self) -> i64 {
        self.statement_time_us.get()
    }

    fn clock_time(&self) -> i64 {
        clock::now_us()
    }

    fn check_interrupts(&self) -> Result<()> {
        self.entry.handle.interrupt.check().sql()
    }

    fn sleep(&self, seconds: f64) -> Result<()> {
        // In slices, so that a cancel request is heard.
        const SLICE: std::time::Duration = std::time::Duration::from_millis(5);
        let begin = std::time::Instant::now();
        let whole =
            std::time::Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(std::time::Duration::MAX);
        self.entry.activity.lock().sleeps = true;
        let _awake = Awake(&self.entry);
        loop {
            self.check_interrupts()?;
            let left = whole.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            cairn_txn::while_waiting(|| std::thread::sleep(left.min(SLICE)));
        }
    }

    fn random(&self) -> f64 {
        // splitmix64; 53 bits make a double below 1.
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }

    fn set_seed(&self, seed: f64) {
        self.random.set(seed.to_bits());
    }

    fn notice(&self, notice: Error) {
        let severity = notice.report().severity;
        // INFO goes to the client whatever it asked for.
        if severity == Severity::Info || severity >= self.hot(|hot| hot.client_min_messages) {
            self.say(notice);
        }
    }

    fn current_user(&self) -> Text {
        self.current_user.borrow().name.clone()
    }

    fn session_user(&self) -> Text {
        self.session_user.borrow().name.clone()
    }

    fn current_database(&self) -> Text {
        self.database.info.name.as_str().into()
    }

    fn backend_pid(&self) -> i32 {
        self.entry.handle.pid
    }

    fn extension_installed(&self, name: &str) -> bool {
        self.catalog().is_ok_and(|catalog| catalog.extension(name).is_some())
    }

    fn type_shape(&self, type_oid: Oid) -> Option<TypeShape> {
        crate::names::type_shape(&*self.catalog().ok()?, type_oid)
    }

    fn format_type(&self, type_oid: Oid, typmod: i32) -> String {
        crate::names::format_type(self, type_oid, typmod)
    }

    fn parse_type(&self, name: &str) -> Result<(Oid, i32)> {
        self.with_analyzer(Parameters::None, |context| cairn_analyze::parse_type_name(name, context))
    }

    fn enum_label(&self, value: Oid) -> Option<Text> {
        self.catalog().ok()?.enum_label(value).map(|(_, label)| label.label.clone())
    }

    fn enum_value(&self, type_oid: Oid, label: &str) -> Option<EnumValue> {
        self.catalog().ok()?.enum_value(type_oid, label)
    }

    fn reg_name(&self, reg_type: Oid, object: Oid) -> Option<String> {
        crate::names::reg_name(self, reg_type, object)
    }

    fn reg_lookup(&self, reg_type: Oid, name: &str) -> Result<Oid> {
        crate::names::reg_lookup(self, reg_type, name)
    }

    fn acl_item_input(&self, text: &str) -> Result<Text> {
        let roles = self.roles();
        Item::parse(text, &|name| roles.by_name(name)).map(|item| item.stored().into()).map_err(|malformed| {
            match malformed {
                Malformed::Role(name) if text.contains('=') => {
                    err!(UNDEFINED_OBJECT, "role \"{name}\" does not exist")
                }
                Malformed::Letter(_) => err!(
                    INVALID_TEXT_REPRESENTATION,
                    "invalid mode character: must be one of \"arwdDxtXUCTcsA\""
                ),
                Malformed::Trailing => {
                    err!(INVALID_TEXT_REPRESENTATION, "extra garbage at the end of the ACL specification")
                }
                Malformed::NoEquals | Malformed::Role(_) => {
                    err!(INVALID_TEXT_REPRESENTATION, "missing \"=\" sign")
                }
            }
        })
    }

    fn acl_item_output(&self, stored: &str) -> String {
        let roles = self.roles();
        let name = |oid| roles.name(oid).map(|name| name.to_string());
        match Item::parse(stored, &|name| roles.by_name(name)) {
            Ok(item) => item.shown(&name),
            Err(_) => stored.to_owned(),
        }
    }

    fn system_function(&self, name: &str, args: &[Datum], call: &CallInfo<'_>) -> Result<Datum> {
        crate::system_functions::call(self, self, name, args, call)
    }
}

#[cfg(test)]
mod tests {
    use super::identifier_list;

    #[test]
    fn lists_of_identifiers() {
        let list = |text| {
            identifier_list(text).map(|names| names.iter().map(|name| name.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(list("\"$user\", public"), Some(vec!["$user".into(), "public".into()]));
        assert_eq!(list("A,\"B \"\"c\""), Some(vec!["a".into(), "B \"c".into()]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("\"\""), Some(vec![String::new()]));
        assert_eq!(list("a, \"\""), Some(vec!["a".into(), String::new()]));
        assert_eq!(list("a,"), None);
        assert_eq!(list("a,,b"), None);
        assert_eq!(list("\"a"), None);
        assert_eq!(list("a b"), None);
    }
}
