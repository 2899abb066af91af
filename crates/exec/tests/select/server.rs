//! A small server: CREATE TABLE and CREATE INDEX by hand, everything else through analyzer, planner and executor, over the
//! real store.

#[path = "../support/env.rs"]
mod env;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use cairn_analyze::RawStatement;
use cairn_analyze::query::{Query, Statement};
use cairn_catalog::*;
use cairn_exec::dml::TransactionConstraints;
use cairn_exec::execution::Watch;
use cairn_exec::*;
use cairn_txn::*;
use cairn_types::oid::access_methods;
use cairn_types::{Oid, Result};
use env::{NoFunctions, TestEnv};
use pg_query::protobuf::{ConstrType, CreateStmt, IndexStmt, SortByDir, SortByNulls, node::Node as NodeEnum};

const PUBLIC: Oid = 2200;

pub struct Server {
    pub store: Arc<dyn Store>,
    relations: Vec<Relation>,
    pub env: TestEnv,
    next_oid: Oid,
    handle: Arc<SessionHandle>,
    pub work_mem: usize,
    _directory: tempfile::TempDir,
}

fn env(relations: &[Relation]) -> TestEnv {
    let row_types = relations.iter().map(row_type).collect();
    let catalog = Arc::new(Catalog::with_objects(relations.to_vec(), row_types, Vec::new()));
    TestEnv::new(catalog)
}

fn row_type(relation: &Relation) -> Type {
    Type {
        oid: relation.row_type,
        name: relation.name.clone(),
        namespace: PUBLIC,
        owner: 10,
        kind: TypeKind::Composite,
        category: b'C',
        preferred: false,
        defined: true,
        length: -1,
        by_value: false,
        delimiter: b',',
        relation: relation.oid,
        element: 0,
        array: 0,
        input: 0,
        output: 0,
        receive: 0,
        send: 0,
        typmod_in: 0,
        typmod_out: 0,
        collation: 0,
        base: 0,
        base_typmod: -1,
        not_null: false,
        default: None,
        checks: Vec::new(),
        labels: Vec::new(),
    }
}

impl Server {
    pub fn new() -> Server {
        static NEXT: AtomicI32 = AtomicI32::new(100);
        let directory = tempfile::tempdir().unwrap();
        let resources = Resources::new(16 << 20, 8 << 20);
        let clock = Arc::new(Clock::system());
        let database =
            Database::open(directory.path(), &EngineOptions::default(), &resources, clock).unwrap();
        let pid = NEXT.fetch_add(1, Ordering::Relaxed);
        Server {
            store: Arc::new(database),
            relations: Vec::new(),
            env: env(&[]),
            next_oid: 20000,
            handle: Arc::new(SessionHandle { pid, interrupt: Arc::new(Interrupt::new()) }),
            work_mem: 4 << 20,
            _directory: directory,
        }
    }

    fn oid(&mut self) -> Oid {
        self.next_oid += 1;
        self.next_oid
    }

    /// Runs a script; what psql would print, unaligned and without headers.
    pub fn script(&mut self, sql: &str) -> String {
        let mut out = String::new();
        let statements = match cairn_analyze::parse(sql) {
            Ok(statements) => statements,
            Err(error) => panic!("{error:?}"),
        };
        for statement in statements {
            match self.statement(&statement) {
                Ok(text) => out.push_str(&text),
                Err(error) => out.push_str(&format!("ERROR:  {}\n", error.message())),
            }
        }
        out
    }

    fn statement(&mut self, statement: &RawStatement) -> Result<String> {
        match &*statement.node {
            NodeEnum::CreateStmt(node) => {
                self.create_table(node);
                Ok(String::new())
            }
            NodeEnum::IndexStmt(node) => {
                self.create_index(node, statement.text());
                Ok(String::new())
            }
            _ => {
                let env = &self.env;
                let context = env.analyze_context();
                match cairn_analyze::analyze(statement, &context)? {
                    Statement::Query(query) => self.query(&query),
                    Statement::Explain(explain) => {
                        let Statement::Query(query) = &explain.statement else { panic!("explain what?") };
                        self.explain(query, &explain.options)
                    }
                    _ => Ok(String::new()),
                }
            }
        }
    }

    pub fn with<T>(&self, f: impl FnOnce(&ExecContext<'_>, &PlanContext<'_>) -> T) -> T {
        let options = BeginOptions {
            session: self.handle.clone(),
            isolation: Isolation::ReadCommitted,
            read_only: false,
            read_time: None,
        };
        let txn = self.store.begin(options).unwrap();
        let constraints = TransactionConstraints::new();
        let cx = ExecContext {
            txn: &txn,
            store: &self.store,
            catalog: &self.env.catalog,
            env: &self.env,
            runner: &NoFunctions,
            work_mem: self.work_mem,
            lock_timeout: Duration::from_secs(10),
            constraints: &constraints,
        };
        let plan = PlanContext {
            catalog: &self.env.catalog,
            env: &self.env,
            expressions: &self.env,
            explain: true,
            verbose: false,
            values: &[],
            read_time: None,
        };
        let result = f(&cx, &plan);
        txn.commit(Durability::Async, None).unwrap();
        result
    }

    fn query(&self, query: &Query) -> Result<String> {
        self.with(|cx, plan| {
            let planned = Arc::new(cairn_exec::plan(query, plan)?);
            let types: Vec<Oid> = planned.columns.iter().map(|column| column.ty.oid).collect();
            let snapshot = cx.txn.snapshot().map_err(txn_error)?;
            let mut execution = Execution::start(planned, Arc::from([]), snapshot, Watch::Off);
            let mut out = String::new();
            while let Some(row) = execution.next_row(cx)? {
                for (index, (value, oid)) in row.iter().zip(&types).enumerate() {
                    if index > 0 {
                        out.push('|');
                    }
                    if value.is_null() {
                        out.push_str("<null>");
                    } else {
                        cairn_types::io::output(value, *oid, &self.env, &mut out)?;
                    }
                }
                out.push('\n');
            }
            execution.finish(cx)?;
            Ok(out)
        })
    }

    fn explain(&self, query: &Query, options: &cairn_analyze::query::ExplainOptions) -> Result<String> {
        self.with(|cx, plan| {
            let planned = Arc::new(cairn_exec::plan(query, plan)?);
            let snapshot = cx.txn.snapshot().map_err(txn_error)?;
            let lines = cairn_exec::explain::explain(&planned, options, None, snapshot, Arc::from([]), cx)?;
            Ok(lines.iter().map(|line| format!("{line}\n")).collect())
        })
    }

    fn create_table(&mut self, node: &CreateStmt) {
        let name = node.relation.as_ref().unwrap().relname.clone();
        let oid = self.oid();
        let row_type = self.oid();
        let mut relation = Relation {
            oid,
            name: name.as_str().into(),
            namespace: PUBLIC,
            owner: 10,
            kind: RelationKind::Table,
            persistence: Persistence::Permanent,
            row_type,
            storage: oid,
            columns: Vec::new(),
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
        };
        let mut keys: Vec<(Vec<String>, bool)> = Vec::new();
        for element in &node.table_elts {
            match element.node.as_ref().unwrap() {
                NodeEnum::ColumnDef(column) => {
                    let context = self.env.analyze_context();
                    let type_name = column.type_name.as_ref().unwrap();
                    let (type_oid, typmod) = cairn_analyze::resolve_type_name(type_name, &context).unwrap();
                    let collation = self.env.catalog.type_by_oid(type_oid).unwrap().collation;
                    relation.columns.push(Column {
                        name: column.colname.as_str().into(),
                        attnum: relation.columns.len() as i16 + 1,
                        ty: TypeRef { oid: type_oid, typmod, collation },
                        not_null: false,
                        dropped: false,
                        default: None,
                        generated: false,
                        identity: Identity::None,
                        identity_sequence: 0,
                        missing: None,
                    });
                    for constraint in &column.constraints {
                        let NodeEnum::Constraint(constraint) = constraint.node.as_ref().unwrap() else {
                            continue;
                        };
                        match constraint.contype() {
                            ConstrType::ConstrPrimary => keys.push((vec![column.colname.clone()], true)),
                            ConstrType::ConstrUnique => keys.push((vec![column.colname.clone()], false)),
                            _ => relation.columns.last_mut().unwrap().not_null = true,
                        }
                    }
                }
                NodeEnum::Constraint(constraint) => {
                    let columns = constraint
                        .keys
                        .iter()
                        .map(|key| match key.node.as_ref().unwrap() {
                            NodeEnum::String(text) => text.sval.clone(),
                            _ => panic!("key"),
                        })
                        .collect();
                    keys.push((columns, constraint.contype() == ConstrType::ConstrPrimary));
                }
                other => panic!("{other:?}"),
            }
        }
        for (columns, primary) in keys {
            let suffix = if primary { "pkey".to_owned() } else { format!("{}_key", columns.join("_")) };
            let keys = columns.iter().map(|column| self.key(&relation, column)).collect();
            let index_oid = self.oid();
            let index = Arc::new(Index {
                oid: index_oid,
                name: format!("{name}_{suffix}").into(),
                namespace: PUBLIC,
                table: oid,
                storage: if primary { oid } else { index_oid },
                keys,
                include: Vec::new(),
                unique: true,
                primary,
                nulls_not_distinct: false,
                predicate: None,
                valid: true,
                constraint: 0,
                deferrable: false,
            });
            if primary {
                relation.primary_key = Some(index.clone());
            }
            relation.indexes.push(index);
        }
        self.relations.push(relation);
        self.env = env(&self.relations);
    }

    fn key(&self, relation: &Relation, column: &str) -> IndexKey {
        let column = relation.columns.iter().find(|other| *other.name == *column).unwrap();
        self.key_of(IndexKeyColumn::Attribute(column.attnum), column.ty)
    }

    fn key_of(&self, key: IndexKeyColumn, ty: TypeRef) -> IndexKey {
        let class = self.env.catalog.default_opclass(access_methods::BTREE, ty.oid).unwrap();
        IndexKey {
            key,
            ty,
            opclass: class.oid,
            opfamily: class.family,
            descending: false,
            nulls_first: false,
            hash: false,
        }
    }

    /// Before rows are inserted.
    fn create_index(&mut self, node: &IndexStmt, text: &str) {
        let table = node.relation.as_ref().unwrap().relname.clone();
        let oid = self.oid();
        let position = self.relations.iter().position(|relation| *relation.name == *table).unwrap();
        let mut keys = Vec::new();
        for param in &node.index_params {
            let NodeEnum::IndexElem(element) = param.node.as_ref().unwrap() else { continue };
            let relation = Arc::new(self.relations[position].clone());
            let mut key = if element.name.is_empty() {
                // ((expression))
                let from = text.find("((").unwrap() + 2;
                let to = text.rfind("))").unwrap();
                let expr = self.env.over_table(&relation, &text[from..to]).unwrap();
                self.key_of(
                    IndexKeyColumn::Expression(text[from..to].into()),
                    cairn_analyze::expr_type(&expr),
                )
            } else {
                self.key(&relation, &element.name)
            };
            key.descending = element.ordering() == SortByDir::SortbyDesc;
            key.nulls_first = match element.nulls_ordering() {
                SortByNulls::SortbyNullsFirst => true,
                SortByNulls::SortbyNullsLast => false,
                _ => key.descending,
            };
            keys.push(key);
        }
        let index = Index {
            oid,
            name: node.idxname.as_str().into(),
            namespace: PUBLIC,
            table: self.relations[position].oid,
            storage: oid,
            keys,
            include: Vec::new(),
            unique: node.unique,
            primary: false,
            nulls_not_distinct: false,
            predicate: node
                .where_clause
                .as_ref()
                .map(|_| text[text.find(" where ").unwrap() + 7..].trim_end_matches(';').into()),
            valid: true,
            constraint: 0,
            deferrable: false,
        };
        self.relations[position].indexes.push(Arc::new(index));
        self.env = env(&self.relations);
    }
}
