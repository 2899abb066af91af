//! A statement from its parse tree to something that runs, and how long that stays good.
//!
//! A [`Compiled`] statement is good for one picture of the catalog and one search path. Who keeps one (a prepared
//! statement, the cache of simple queries, a SQL function) asks [`Compiled::is_current`] and compiles again.
//!
//! A parse tree takes a hundred times the memory of its text. What many sessions keep for long, plans of queries, is kept without.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, Statement};
use cairn_analyze::{AnalyzeContext, NameConflict, ParamResolver, Parameters, RawStatement};
use cairn_catalog::{Catalog, Relation, SearchPath, TypeRef};
use cairn_exec::{ExpressionSource, Plan, PlanContext, ReadTime, ValueClasses};
use cairn_txn::Transaction;
use cairn_types::{Datum, Error, Oid, Result, types};
use pg_query::protobuf::{TransactionStmt, node::Node as NodeEnum};

use parking_lot::Mutex;

use crate::client::ResultColumn;
use crate::core::Core;
use crate::routines::PreparedCall;

/// An analyzed statement, with its plan if it is a query.
pub struct Compiled {
    pub kind: Kind,
    /// What it returns; `None`: no rows.
    pub columns: Option<Arc<[ResultColumn]>>,
    /// What plans for certain values are made from, where those may be better.
    by_value: Option<ByValue>,
    catalog_version: u64,
    path: Arc<SearchPath>,
}

/// How it is run.
pub enum Kind {
    Plan(Arc<Plan>),
    Call(PreparedCall),
    /// Everything that [`crate::utility`] runs; it reads the parse tree.
    Utility(Box<Statement>, Arc<RawStatement>),
}

impl Compiled {
    /// Analyzes and plans against the session's catalog.
    pub fn new(core: &Core, raw: &Arc<RawStatement>, parameters: Parameters<'_>) -> Result<Compiled> {
        Self::for_purpose(core, raw, parameters, Purpose::Statement)
    }

    /// [`Compiled::new`] of a query that a cursor may be opened over, or of a statement that is prepared.
    pub fn for_purpose(
        core: &Core,
        raw: &Arc<RawStatement>,
        parameters: Parameters<'_>,
        purpose: Purpose,
    ) -> Result<Compiled> {
        cairn_exec::stack::check()?;
        let (catalog, path) = (core.catalog()?, core.search_path()?);
        let statement = core.with_analyzer(parameters, |context| cairn_analyze::analyze(raw, context))?;
        let mut by_value = None;
        let (kind, columns) = match statement {
            Statement::Query(query) => {
                let plan = Arc::new(plan_query(core, &catalog, &query, purpose, &[])?);
                if plan.has_failures {
                    by_value = Some(ByValue::of_all_values(&query));
                } else if !matches!(parameters, Parameters::None) {
                    by_value = ByValue::new(core, &catalog, &query, purpose)?;
                }
                let columns = plan.returns_rows().then(|| result_columns(&catalog, &plan.columns));
                (Kind::Plan(plan), columns)
            }
            Statement::Call(call) => {
                let prepared = PreparedCall::new(core, &call, purpose)?;
                let columns = prepared.columns().cloned();
                (Kind::Call(prepared), columns)
            }
            other => {
                let columns = crate::utility::result_columns(core, &other)?;
                (Kind::Utility(Box::new(other), Arc::clone(raw)), columns)
            }
        };
        Ok(Compiled { kind, columns, by_value, catalog_version: catalog.version(), path })
    }

    /// Whether the catalog and the search path are still those that it was made from, and its indexes have what the statement
    /// will see.
    pub fn is_current(&self, core: &Core) -> Result<bool> {
        let (catalog, path) = (core.session_catalog()?, core.search_path()?);
        Ok(catalog.version() == self.catalog_version
            && (Arc::ptr_eq(&path, &self.path) || path == self.path)
            && self.plan().is_none_or(|plan| core.suits(plan)))
    }

    /// The plan that serves all values of the parameters.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        match &self.kind {
            Kind::Plan(plan) => Some(plan),
            Kind::Call(_) | Kind::Utility(..) => None,
        }
    }

    /// Whether it is worth keeping for when the same text comes again.
    pub fn is_worth_keeping(&self) -> bool {
        matches!(self.kind, Kind::Plan(_) | Kind::Call(_)) || self.transaction_statement().is_some()
    }

    /// What it returns if it runs now: what a FETCH or an EXECUTE names may not have been there when it was compiled.
    pub fn columns_now(&self, core: &Core) -> Result<Option<Arc<[ResultColumn]>>> {
        match &self.kind {
            Kind::Utility(statement, _) => crate::utility::result_columns(core, statement),
            Kind::Plan(_) | Kind::Call(_) => Ok(self.columns.clone()),
        }
    }

    /// Whether running it fails already when it is planned for its values: at Bind, as in PostgreSQL.
    pub fn is_planned_at_bind(&self) -> bool {
        self.plan().is_some_and(|plan| plan.has_failures)
    }

    /// The statement, if it begins or ends a transaction or a savepoint.
    pub fn transaction_statement(&self) -> Option<&TransactionStmt> {
        match &self.kind {
            Kind::Utility(_, raw) => match &*raw.node {
                NodeEnum::TransactionStmt(statement) => Some(statement),
                _ => None,
            },
            Kind::Plan(_) | Kind::Call(_) => None,
        }
    }

    /// The plan to run with these values, once its tables are locked. Errors: XX000 for a command, those of planning.
    pub fn plan_for(&self, core: &Core, params: &[Datum]) -> Result<Arc<Plan>> {
        let Kind::Plan(plan) = &self.kind else {
            return Err(Error::internal("a query has become a command"));
        };
        match &self.by_value {
            Some(by_value) => by_value.plan(core, params),
            None => Ok(Arc::clone(plan)),
        }
    }
}

/// A query whose plan may depend on the values of some parameters.
///
/// Without some values certain plans are impossible ([`cairn_exec::value_dependent_parameters`]): in the plans these are
/// constants, as they would be if the client had written them into the statement. Others only decide which plan is
/// the best ([`ValueClasses`]): it is kept for all values of a class.
struct ByValue {
    query: Box<Query>,
    purpose: Purpose,
    constants: Vec<u32>,
    classes: ValueClasses,
    /// Plans for constants and classes that were met, the newest last.
    plans: Mutex<Vec<(Vec<Datum>, Vec<i8>, Arc<Plan>)>>,
}

impl ByValue {
    /// More values than these are planned anew.
    const PLANS_MAX: usize = 16;

    fn new(core: &Core, catalog: &Arc<Catalog>, query: &Query, purpose: Purpose) -> Result<Option<ByValue>> {
        let expressions = CatalogExpressions { core, catalog };
        let context = expressions.plan_context();
        let constants = cairn_exec::value_dependent_parameters(query, &context)?;
        let classes = ValueClasses::of(query, catalog);
        // With its values, it is planned to run.
        let purpose = if purpose == Purpose::Prepared { Purpose::Statement } else { purpose };
        Ok((!constants.is_empty() || !classes.is_empty()).then(|| ByValue {
            query: Box::new(query.clone()),
            purpose,
            constants,
            classes,
            plans: Mutex::default(),
        }))
    }

    /// For a query in which constants fail: it is planned for the values that it runs with, and fails then, unless they rule
    /// the failure out (`case when $1 then 1 / 0 end`).
    fn of_all_values(query: &Query) -> ByValue {
        let mut constants = Vec::new();
        cairn_analyze::walk::deep_query(query, 0, &mut |expr, _| {
            if let Expr::Param { number, .. } = expr
                && !constants.contains(number)
            {
                constants.push(*number);
            }
        });
        ByValue {
            query: Box::new(query.clone()),
            purpose: Purpose::Statement,
            constants,
            classes: ValueClasses::default(),
            plans: Mutex::default(),
        }
    }

    fn plan(&self, core: &Core, params: &[Datum]) -> Result<Arc<Plan>> {
        let values: Vec<Datum> = self.constants.iter().map(|number| value_of(params, *number)).collect();
        let class = self.classes.class(params);
        let same = |kept: &[Datum]| kept.iter().zip(&values).all(|(a, b)| same_constant(a, b));
        let is_wanted =
            |(kept, of_class, _): &(Vec<Datum>, Vec<i8>, Arc<Plan>)| same(kept) && *of_class == class;
        let kept = self.plans.lock().iter().find(|kept| is_wanted(kept)).map(|(.., plan)| Arc::clone(plan));
        if let Some(plan) = kept.filter(|plan| core.suits(plan)) {
            return Ok(plan);
        }
        let plan = plan_query(core, &core.catalog()?, &self.query(params), self.purpose, params)?;
        let plan = Arc::new(plan);
        let mut plans = self.plans.lock();
        plans.retain(|kept| !is_wanted(kept));
        if plans.len() >= Self::PLANS_MAX {
            plans.remove(0);
        }
        plans.push((values, class, Arc::clone(&plan)));
        Ok(plan)
    }

    /// The query with constants in place of the parameters that matter.
    fn query(&self, params: &[Datum]) -> Query {
        let mut query = Query::clone(&self.query);
        cairn_analyze::walk::deep_query_mut(&mut query, 0, &mut |expr, _| {
            if let Expr::Param { number, ty, location } = *expr
                && self.constants.contains(&number)
            {
                *expr = Expr::Const { value: value_of(params, number), ty, location };
            }
        });
        query
    }
}

/// The query that is planned where these values are known (EXPLAIN); `None`: the query itself.
pub fn query_for(
    core: &Core,
    catalog: &Arc<Catalog>,
    query: &Query,
    params: &[Datum],
) -> Result<Option<Query>> {
    Ok(if params.is_empty() {
        None
    } else {
        ByValue::new(core, catalog, query, Purpose::Statement)?.map(|by_value| by_value.query(params))
    })
}

fn value_of(params: &[Datum], number: u32) -> Datum {
    params.get(number as usize - 1).cloned().unwrap_or_default()
}

/// Whether two values surely are the same to the last bit; other types than these are not worth the look.
fn same_constant(a: &Datum, b: &Datum) -> bool {
    match (a, b) {
        (Datum::Null, Datum::Null) => true,
        (Datum::Bool(a), Datum::Bool(b)) => a == b,
        (Datum::Int2(a), Datum::Int2(b)) => a == b,
        (Datum::Int4(a), Datum::Int4(b)) => a == b,
        (Datum::Int8(a), Datum::Int8(b)) => a == b,
        (Datum::Oid(a), Datum::Oid(b)) => a == b,
        (Datum::Text(a), Datum::Text(b)) => a == b,
        _ => false,
    }
}

/// Plans a query against a picture of the catalog, for the time that a statement reads at which runs now. `values`: what its
/// parameters are expected to be; may be empty.
pub fn plan_query(
    core: &Core,
    catalog: &Arc<Catalog>,
    query: &Query,
    purpose: Purpose,
    values: &[Datum],
) -> Result<Plan> {
    let expressions = CatalogExpressions { core, catalog };
    let transaction = core.transaction_if_begun();
    let read_time = read_time(core, transaction.as_deref());
    let context = PlanContext { values, read_time, ..expressions.plan_context() };
    match purpose {
        Purpose::Statement => cairn_exec::plan(query, &context),
        Purpose::Prepared => cairn_exec::plan_prepared(query, &context),
        Purpose::Cursor => cairn_exec::plan_cursor(query, &context),
    }
}

/// The time that a statement reads at which is planned now, for the planner.
pub(crate) fn read_time<'a>(core: &Core, transaction: Option<&'a dyn Transaction>) -> Option<ReadTime<'a>> {
    Some(ReadTime { time: core.known_read_time()?, transaction: transaction? })
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Statement,
    /// To be run later, or never: what fails in its constants fails when it runs.
    Prepared,
    /// Where it stands may be asked (`where current of`).
    Cursor,
}

/// A plan's columns as the protocol describes them.
pub fn result_columns(catalog: &Catalog, columns: &[cairn_exec::ResultColumn]) -> Arc<[ResultColumn]> {
    columns
        .iter()
        .map(|column| {
            let ty = sent_type(catalog, column.ty);
            ResultColumn {
                name: Arc::clone(&column.name),
                ty,
                type_length: type_length(catalog, ty.oid),
                origin_table: column.origin_table,
                origin_column: column.origin_column,
            }
        })
        .collect()
}

/// A column that a utility statement makes up.
pub fn plain_column(name: &str, ty: Oid) -> ResultColumn {
    let type_length = match ty {
        types::BOOL | types::CHAR => 1,
        types::INT2 => 2,
        types::INT4 | types::OID => 4,
        types::INT8 => 8,
        _ => -1,
    };
    ResultColumn {
        name: name.into(),
        ty: TypeRef { oid: ty, typmod: -1, collation: 0 },
        type_length,
        origin_table: 0,
        origin_column: 0,
    }
}

/// The protocol shows a domain as what it is made of.
fn sent_type(catalog: &Catalog, mut ty: TypeRef) -> TypeRef {
    while let Some(domain) =
        catalog.type_by_oid(ty.oid).filter(|found| found.kind == cairn_catalog::TypeKind::Domain)
    {
        ty = TypeRef { oid: domain.base, typmod: domain.base_typmod, ..ty };
    }
    ty
}

pub fn type_length(catalog: &Catalog, ty: Oid) -> i16 {
    catalog.type_by_oid(ty).map_or(-1, |ty| ty.length)
}

/// Expressions that the catalog keeps as text. They were written under `pg_catalog` alone, and are read so.
pub struct CatalogExpressions<'a> {
    pub core: &'a Core,
    pub catalog: &'a Arc<Catalog>,
}

impl CatalogExpressions<'_> {
    /// For a plan that is not shown, of which neither values nor the time are known.
    pub fn plan_context(&self) -> PlanContext<'_> {
        PlanContext {
            catalog: self.catalog,
            env: self.core,
            expressions: self,
            explain: false,
            verbose: false,
            values: &[],
            read_time: None,
        }
    }

    fn analyze(
        &self,
        relation: Option<&Arc<Relation>>,
        text: &str,
        parameters: Parameters<'_>,
    ) -> Result<Expr> {
        let path = SearchPath::pg_catalog();
        cairn_analyze::analyze_expression(text, relation, &self.context(&path, parameters))
    }

    fn context<'a>(&'a self, path: &'a SearchPath, parameters: Parameters<'a>) -> AnalyzeContext<'a> {
        AnalyzeContext { catalog: self.catalog, search_path: path, env: self.core, parameters }
    }
}

/// `value` in a domain's check.
struct DomainValue(TypeRef);

impl ParamResolver for DomainValue {
    fn by_name(&self, name: &[&str]) -> Option<(u32, TypeRef)> {
        (name == ["value"]).then_some((1, self.0))
    }

    fn by_number(&self, number: u32) -> Option<TypeRef> {
        (number == 1).then_some(self.0)
    }

    fn on_conflict(&self) -> NameConflict {
        NameConflict::UseVariable
    }
}

impl ExpressionSource for CatalogExpressions<'_> {
    fn over_table(&self, relation: &Arc<Relation>, text: &str) -> Result<Expr> {
        self.analyze(Some(relation), text, Parameters::None)
    }

    fn of_column(&self, relation: &Arc<Relation>, column: usize, text: &str) -> Result<Expr> {
        let path = SearchPath::pg_catalog();
        let context = self.context(&path, Parameters::None);
        cairn_analyze::analyze_stored_value(text, relation, &relation.columns[column], &context)
    }

    fn over_domain(&self, domain: Oid, text: &str) -> Result<Expr> {
        // `value` is read as the one parameter, and becomes what the executor puts the value into.
        let ty = self.core.type_ref(self.catalog.base_type(domain), -1);
        let mut expr = self.analyze(None, text, Parameters::Resolver(&DomainValue(ty)))?;
        cairn_analyze::walk::deep_mut(&mut expr, 0, &mut |expr, _| {
            if let Expr::Param { ty, .. } = expr {
                *expr = Expr::TestValue { ty: *ty };
            }
        });
        Ok(expr)
    }

    fn deparse(&self, expr: &Expr, queries: &[&Query], qualify: bool) -> String {
        crate::explain::expression_text(self, expr, queries, qualify)
    }
}
