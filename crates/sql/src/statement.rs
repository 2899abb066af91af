//! A statement from its parse tree to something that runs, and how long that stays good.
//!
//! A [`Compiled`] statement is good for one picture of the catalog and one search path. Who keeps one (a prepared
//! statement, the cache of simple queries, a SQL function) asks [`Compiled::is_current`] and compiles again.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, Statement};
use cairn_analyze::{AnalyzeContext, NameConflict, ParamResolver, Parameters, RawStatement};
use cairn_catalog::{Catalog, Relation, SearchPath, TypeRef};
use cairn_exec::{ExpressionSource, Plan, PlanContext};
use cairn_types::{Oid, Result, types};

use crate::client::ResultColumn;
use crate::core::Core;

/// An analyzed statement, with its plan if it is a query.
pub struct Compiled {
    pub raw: Arc<RawStatement>,
    pub kind: Kind,
    /// What it returns; `None`: no rows.
    pub columns: Option<Arc<[ResultColumn]>>,
    catalog_version: u64,
    path: Arc<SearchPath>,
}

/// How it is run.
pub enum Kind {
    Plan(Arc<Plan>),
    /// Everything that [`crate::utility`] runs.
    Utility(Box<Statement>),
}

impl Compiled {
    /// Analyzes and plans against the session's catalog.
    pub fn new(core: &Core, raw: &Arc<RawStatement>, parameters: Parameters<'_>) -> Result<Compiled> {
        cairn_exec::stack::check()?;
        let (catalog, path) = (core.catalog()?, core.search_path()?);
        let statement = core.with_analyzer(parameters, |context| cairn_analyze::analyze(raw, context))?;
        let (kind, columns) = match statement {
            Statement::Query(query) => {
                let plan = Arc::new(plan_query(core, &catalog, &query, false)?);
                let columns = plan.returns_rows().then(|| result_columns(&catalog, &plan.columns));
                (Kind::Plan(plan), columns)
            }
            other => {
                let columns = crate::utility::result_columns(core, &catalog, &other)?;
                (Kind::Utility(Box::new(other)), columns)
            }
        };
        Ok(Compiled { raw: Arc::clone(raw), kind, columns, catalog_version: catalog.version(), path })
    }

    /// Whether the catalog and the search path are still those that it was made from.
    pub fn is_current(&self, core: &Core) -> Result<bool> {
        let (catalog, path) = (core.catalog()?, core.search_path()?);
        Ok(catalog.version() == self.catalog_version && (Arc::ptr_eq(&path, &self.path) || path == self.path))
    }

    pub fn plan(&self) -> Option<&Arc<Plan>> {
        match &self.kind {
            Kind::Plan(plan) => Some(plan),
            Kind::Utility(_) => None,
        }
    }
}

/// Plans a query against a picture of the catalog.
pub fn plan_query(core: &Core, catalog: &Arc<Catalog>, query: &Query, explain: bool) -> Result<Plan> {
    let expressions = CatalogExpressions { core, catalog };
    cairn_exec::plan(
        query,
        &PlanContext { catalog, env: core, expressions: &expressions, explain, verbose: false },
    )
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
