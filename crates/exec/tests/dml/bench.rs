//! A database of hand-made tables and sessions that run single statements over the real store: what crate `sql` does, in small.

#[path = "../support/env.rs"]
mod env;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use cairn_analyze::Parameters;
use cairn_analyze::query::Statement;
use cairn_catalog::*;
use cairn_exec::dml::TransactionConstraints;
use cairn_exec::execution::Watch;
use cairn_exec::*;
use cairn_txn::*;
use cairn_types::{Datum, Error, Oid, Result, types};
use env::{NoFunctions, TestEnv};

pub const PUBLIC: Oid = 2200;

/// Describes a table; oids and storage ids are made from `oid`.
pub struct Table(Relation);

impl Table {
    pub fn new(oid: Oid, name: &str, columns: &[(&str, Oid)]) -> Self {
        let column = |(place, (name, type_oid)): (usize, &(&str, Oid))| Column {
            name: (*name).into(),
            attnum: place as i16 + 1,
            ty: type_ref(*type_oid),
            not_null: false,
            dropped: false,
            default: None,
            generated: false,
            identity: Identity::None,
            identity_sequence: 0,
            missing: None,
        };
        Table(Relation {
            oid,
            name: name.into(),
            namespace: PUBLIC,
            owner: 10,
            kind: RelationKind::Table,
            persistence: Persistence::Permanent,
            row_type: 0,
            storage: oid,
            columns: columns.iter().enumerate().map(column).collect(),
            primary_key: None,
            indexes: Vec::new(),
            constraints: Vec::new(),
            referenced_by: Vec::new(),
            view_query: None,
            sequence: None,
            options: Vec::new(),
            schema_version: 1,
            estimated_rows: 0.0,
            statistics: Default::default(),
        })
    }

    fn attnum(&self, name: &str) -> i16 {
        self.0.columns.iter().find(|column| *column.name == *name).unwrap().attnum
    }

    pub fn change(mut self, column: &str, f: impl FnOnce(&mut Column)) -> Self {
        let at = self.attnum(column) as usize - 1;
        f(&mut self.0.columns[at]);
        self
    }

    pub fn not_null(self, column: &str) -> Self {
        self.change(column, |column| column.not_null = true)
    }

    pub fn check(mut self, name: &str, text: &str) -> Self {
        let mut constraint = self.constraint(name, ConstraintKind::Check, &[]);
        constraint.expression = Some(text.into());
        self.0.constraints.push(Arc::new(constraint));
        self
    }

    fn constraint(&self, name: &str, kind: ConstraintKind, columns: &[&str]) -> Constraint {
        Constraint {
            oid: self.0.oid + 50 + self.0.constraints.len() as Oid,
            name: name.into(),
            namespace: PUBLIC,
            kind,
            table: self.0.oid,
            domain: 0,
            deferrable: false,
            deferred: false,
            validated: true,
            columns: columns.iter().map(|column| self.attnum(column)).collect(),
            expression: None,
            index: 0,
            foreign_table: 0,
            foreign_columns: Vec::new(),
            on_update: ForeignKeyAction::NoAction,
            on_delete: ForeignKeyAction::NoAction,
            on_delete_columns: Vec::new(),
            match_full: false,
        }
    }

    pub fn primary_key(mut self, columns: &[&str]) -> Self {
        for column in columns {
            self = self.not_null(column);
        }
        let name = format!("{}_pkey", self.0.name);
        let storage = self.0.storage;
        self.add_index(&name, columns, storage, |index| {
            index.unique = true;
            index.primary = true;
        });
        self.0.primary_key = self.0.indexes.last().cloned();
        self
    }

    pub fn index(mut self, name: &str, columns: &[&str], f: impl FnOnce(&mut Index)) -> Self {
        let storage = self.0.storage + 1 + self.0.indexes.len() as Oid;
        self.add_index(name, columns, storage, f);
        self
    }

    pub fn unique(self, name: &str, columns: &[&str]) -> Self {
        self.index(name, columns, |index| index.unique = true)
    }

    pub fn deferrable_unique(mut self, name: &str, columns: &[&str], deferred: bool) -> Self {
        let mut constraint = self.constraint(name, ConstraintKind::Unique, columns);
        constraint.deferrable = true;
        constraint.deferred = deferred;
        let oid = constraint.oid;
        self.0.constraints.push(Arc::new(constraint));
        self.index(name, columns, |index| {
            index.unique = true;
            index.deferrable = true;
            index.constraint = oid;
        })
    }

    /// Columns in parentheses are expressions.
    fn add_index(&mut self, name: &str, columns: &[&str], storage: Oid, f: impl FnOnce(&mut Index)) {
        let key = |text: &&str| {
            let (key, ty) = match text.strip_prefix('(') {
                Some(expr) => {
                    (IndexKeyColumn::Expression(expr.trim_end_matches(';').into()), type_ref(types::TEXT))
                }
                None => {
                    let attnum = self.attnum(text);
                    (IndexKeyColumn::Attribute(attnum), self.0.columns[attnum as usize - 1].ty)
                }
            };
            let builtin = Catalog::builtin();
            let opclass = builtin.default_opclass(cairn_types::oid::access_methods::BTREE, ty.oid).unwrap();
            let (opclass, opfamily) = (opclass.oid, opclass.family);
            IndexKey { key, ty, opclass, opfamily, descending: false, nulls_first: false, hash: false }
        };
        let mut index = Index {
            oid: self.0.oid + 20 + self.0.indexes.len() as Oid,
            name: name.into(),
            namespace: PUBLIC,
            table: self.0.oid,
            storage,
            keys: columns.iter().map(key).collect(),
            include: Vec::new(),
            unique: false,
            primary: false,
            nulls_not_distinct: false,
            predicate: None,
            valid: true,
            constraint: 0,
            deferrable: false,
        };
        f(&mut index);
        self.0.indexes.push(Arc::new(index));
    }

    /// `parent` must have an index over exactly these columns. It is told too.
    pub fn references(
        mut self,
        columns: &[&str],
        parent: &mut Table,
        parent_columns: &[&str],
        f: impl FnOnce(&mut Constraint),
    ) -> Self {
        let name = format!("{}_{}_fkey", self.0.name, columns.join("_"));
        let mut constraint = self.constraint(&name, ConstraintKind::ForeignKey, columns);
        constraint.foreign_table = parent.0.oid;
        constraint.foreign_columns = parent_columns.iter().map(|column| parent.attnum(column)).collect();
        let fits = |index: &&Arc<Index>| {
            index.unique
                && index.keys.len() == parent_columns.len()
                && index.keys.iter().all(|key| {
                    matches!(key.key, IndexKeyColumn::Attribute(attnum) if constraint.foreign_columns.contains(&attnum))
                })
        };
        constraint.index = parent.0.indexes.iter().find(fits).unwrap().oid;
        f(&mut constraint);
        let constraint = Arc::new(constraint);
        parent.0.referenced_by.push(constraint.clone());
        self.0.constraints.push(constraint);
        self
    }

    pub fn references_itself(mut self, columns: &[&str], parent_columns: &[&str]) -> Self {
        let mut parent = Table(self.0.clone());
        self = self.references(columns, &mut parent, parent_columns, |_| {});
        self.0.referenced_by = parent.0.referenced_by;
        self
    }
}

fn type_ref(oid: Oid) -> TypeRef {
    TypeRef { oid, typmod: -1, collation: if oid == types::TEXT { 100 } else { 0 } }
}

pub struct Bench {
    pub catalog: Arc<Catalog>,
    pub store: Arc<dyn Store>,
    directory: tempfile::TempDir,
}

impl Bench {
    pub fn new(tables: Vec<Table>) -> Arc<Bench> {
        Self::with_resources(tables, Resources::new(16 << 20, 8 << 20))
    }

    pub fn with_resources(tables: Vec<Table>, resources: Resources) -> Arc<Bench> {
        Self::open(tables, resources, tempfile::tempdir().unwrap(), Clock::system())
    }

    pub fn open(
        tables: Vec<Table>,
        resources: Resources,
        directory: tempfile::TempDir,
        clock: Clock,
    ) -> Arc<Bench> {
        let options = EngineOptions::default();
        let database = Database::open(directory.path(), &options, &resources, Arc::new(clock)).unwrap();
        let relations = tables.into_iter().map(|table| table.0).collect();
        let catalog = Arc::new(Catalog::with_objects(relations, Vec::new(), Vec::new()));
        Arc::new(Bench { catalog, store: Arc::new(database), directory })
    }

    /// Closes the store; no session is left.
    pub fn close(self: Arc<Self>) -> tempfile::TempDir {
        let Bench { store, directory, .. } = Arc::into_inner(self).unwrap();
        drop(store);
        directory
    }

    pub fn session(self: &Arc<Self>) -> Session {
        static NEXT: AtomicI32 = AtomicI32::new(100);
        let pid = NEXT.fetch_add(1, Ordering::Relaxed);
        Session {
            env: TestEnv::new(self.catalog.clone()),
            handle: Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::new()) }),
            bench: self.clone(),
            txn: None,
            constraints: TransactionConstraints::new(),
            lock_timeout: Duration::from_secs(10),
        }
    }
}

pub struct Session {
    bench: Arc<Bench>,
    env: TestEnv,
    handle: Arc<SessionHandle>,
    txn: Option<Arc<dyn Transaction>>,
    pub constraints: TransactionConstraints,
    pub lock_timeout: Duration,
}

/// What a statement answered: its rows as text, and how many it wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub rows: Vec<String>,
    pub processed: u64,
}

impl Session {
    pub fn begin(&mut self, isolation: Isolation) {
        let session = self.handle.clone();
        let options = BeginOptions { session, isolation, read_only: false, read_time: None };
        self.txn = Some(self.bench.store.begin(options).unwrap());
    }

    pub fn rollback(&mut self) {
        self.txn.take().unwrap().rollback();
        self.constraints.reset();
    }

    pub fn commit(&mut self) -> Result<()> {
        let checked = self.with_context(|cx, _| cx.constraints.check(cx));
        let txn = self.txn.take().unwrap();
        self.constraints.reset();
        match checked {
            Ok(()) => txn.commit(Durability::Async, None).map(|_| ()).map_err(txn_error),
            Err(error) => {
                txn.rollback();
                Err(error)
            }
        }
    }

    pub fn with_context<T>(&self, f: impl FnOnce(&ExecContext<'_>, &PlanContext<'_>) -> T) -> T {
        let cx = ExecContext {
            txn: self.txn.as_ref().unwrap(),
            store: &self.bench.store,
            catalog: &self.bench.catalog,
            env: &self.env,
            runner: &NoFunctions,
            work_mem: 4 << 20,
            lock_timeout: self.lock_timeout,
            constraints: &self.constraints,
        };
        let plan = PlanContext {
            catalog: &self.bench.catalog,
            env: &self.env,
            expressions: &self.env,
            explain: false,
            verbose: false,
            values: &[],
            read_time: None,
        };
        f(&cx, &plan)
    }

    /// Runs one statement; in a transaction of its own if none is open. Statement-level rollback as a session does it.
    pub fn run(&mut self, sql: &str) -> Result<Answer> {
        let own = self.txn.is_none();
        if own {
            self.begin(Isolation::ReadCommitted);
        }
        let savepoint = self.txn.as_ref().unwrap().savepoint();
        let result = self.with_context(|cx, plan| self.execute(cx, plan, sql));
        match &result {
            Ok(_) => self.txn.as_ref().unwrap().release(savepoint).unwrap(),
            Err(_) => self.txn.as_ref().unwrap().rollback_to(savepoint).unwrap(),
        }
        if own {
            if result.is_ok() {
                self.commit()?;
            } else {
                self.rollback();
            }
        }
        result
    }

    fn execute(&self, cx: &ExecContext<'_>, plan: &PlanContext<'_>, sql: &str) -> Result<Answer> {
        let statement = cairn_analyze::parse(sql)?.remove(0);
        let context = self.env.analyze_context();
        let Statement::Query(query) = cairn_analyze::analyze(&statement, &context)? else {
            panic!("not a query")
        };
        let planned = Arc::new(cairn_exec::plan(&query, plan)?);
        let types: Vec<Oid> = planned.columns.iter().map(|column| column.ty.oid).collect();
        let snapshot = cx.txn.snapshot().map_err(txn_error)?;
        let mut execution = Execution::start(planned, Arc::from([]), snapshot, Watch::Off);
        let mut rows = Vec::new();
        while let Some(row) = execution.next_row(cx)? {
            let text = |(value, oid): (&Datum, &Oid)| match value {
                Datum::Null => "null".to_owned(),
                value => cairn_types::io::output_string(value, *oid, &self.env).unwrap(),
            };
            rows.push(row.iter().zip(&types).map(text).collect::<Vec<_>>().join("|"));
        }
        execution.finish(cx)?;
        cx.txn.advance_command();
        Ok(Answer { rows, processed: execution.processed() })
    }

    /// Plans once, runs many times with parameters, each in a transaction of its own; processor time of one run.
    pub fn time(
        &mut self,
        sql: &str,
        types: &[Oid],
        runs: usize,
        params: impl Fn(usize) -> Vec<Datum>,
    ) -> Duration {
        let types: Vec<TypeRef> = types.iter().map(|oid| type_ref(*oid)).collect();
        let statement = cairn_analyze::parse(sql).unwrap().remove(0);
        let mut context = self.env.analyze_context();
        context.parameters = Parameters::Fixed(&types);
        let Statement::Query(query) = cairn_analyze::analyze(&statement, &context).unwrap() else {
            panic!("not a query")
        };
        self.begin(Isolation::ReadCommitted);
        let planned = Arc::new(self.with_context(|_, plan| cairn_exec::plan(&query, plan)).unwrap());
        self.rollback();
        let params: Vec<Arc<[Datum]>> = (0..runs).map(|run| params(run).into()).collect();
        let begin = processor_time();
        for params in params {
            self.begin(Isolation::ReadCommitted);
            self.with_context(|cx, _| {
                let snapshot = cx.txn.snapshot().unwrap();
                let mut execution = Execution::start(planned.clone(), params, snapshot, Watch::Off);
                while execution.next_row(cx).unwrap().is_some() {}
                execution.finish(cx).unwrap();
            });
            self.commit().unwrap();
        }
        (processor_time() - begin) / runs as u32
    }

    /// Rows written.
    pub fn ok(&mut self, sql: &str) -> u64 {
        self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}")).processed
    }

    pub fn rows(&mut self, sql: &str) -> Vec<String> {
        self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}")).rows
    }

    /// `SQLSTATE message / detail`.
    pub fn fails(&mut self, sql: &str) -> String {
        match self.run(sql) {
            Ok(answer) => panic!("{sql}: an error expected, not {answer:?}"),
            Err(error) => report(&error),
        }
    }

    /// The whole table in key order, read through the storage; index entries are checked against it.
    pub fn table(&mut self, name: &str) -> Vec<String> {
        let own = self.txn.is_none();
        if own {
            self.begin(Isolation::ReadCommitted);
        }
        let relation = self.bench.catalog.relation_by_name(PUBLIC, name).unwrap().clone();
        let rows = self.with_context(|cx, plan| read_and_check(cx, plan, &relation));
        if own {
            self.rollback();
        }
        rows
    }
}

/// What this thread has had of a processor; the machine may be busy with other things.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

pub fn report(error: &Error) -> String {
    let report = error.report();
    let detail = report.detail.as_ref().map_or(String::new(), |detail| format!(" / {detail}"));
    format!("{} {}{detail}", report.sqlstate, report.message)
}

/// Reads a table, and compares every index with one that is computed anew from its rows.
fn read_and_check(cx: &ExecContext<'_>, _: &PlanContext<'_>, relation: &Arc<Relation>) -> Vec<String> {
    use cairn_exec::table::{IndexLayout, TableLayout, storage_range};
    let layout = TableLayout::new(relation, cx.catalog).unwrap();
    let snapshot = cx.txn.snapshot().unwrap();
    let mut rows = Vec::new();
    let mut keyed = Vec::new();
    let mut cursor = cx.txn.scan(&snapshot, storage_range(relation.storage), Direction::Forward).unwrap();
    while let Some((key, row)) = cursor.next().unwrap() {
        let values = layout.decode_all(row).unwrap();
        let text = |(value, column): (&Datum, &Column)| match value {
            Datum::Null => "null".to_owned(),
            value => cairn_types::io::output_string(value, column.ty.oid, cx.env).unwrap(),
        };
        rows.push(values.iter().zip(&relation.columns).map(text).collect::<Vec<_>>().join("|"));
        keyed.push((key.to_vec(), values));
    }
    for index in &relation.indexes {
        if index.storage == relation.storage || index.predicate.is_some() {
            continue;
        }
        let attribute = |key: &IndexKey| match key.key {
            IndexKeyColumn::Attribute(attnum) => Some(attnum as usize - 1),
            IndexKeyColumn::Expression(_) => None,
        };
        let Some(columns) = index.keys.iter().map(attribute).collect::<Option<Vec<_>>>() else { continue };
        let entries = IndexLayout::new(index, cx.catalog);
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = keyed
            .iter()
            .map(|(key, values)| {
                let columns: Vec<Datum> = columns.iter().map(|column| values[*column].clone()).collect();
                entries.entry(&columns, key).unwrap()
            })
            .collect();
        expected.sort();
        let mut found = Vec::new();
        let mut cursor = cx.txn.scan(&snapshot, storage_range(index.storage), Direction::Forward).unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            found.push((key.to_vec(), value.to_vec()));
        }
        assert_eq!(found, expected, "entries of {}", index.name);
    }
    rows
}

/// Number of entries of an index.
pub fn entries(session: &mut Session, index: &str) -> usize {
    let index =
        session.bench.catalog.user_relations().flat_map(|r| &r.indexes).find(|i| *i.name == *index).unwrap();
    let storage = index.storage;
    session.begin(Isolation::ReadCommitted);
    let count = session.with_context(|cx, _| {
        let snapshot = cx.txn.snapshot().unwrap();
        let range = cairn_exec::table::storage_range(storage);
        let mut cursor = cx.txn.scan(&snapshot, range, Direction::Forward).unwrap();
        let mut count = 0;
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        count
    });
    session.rollback();
    count
}
