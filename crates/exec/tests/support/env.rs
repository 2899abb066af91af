//! A session's environment over a catalog, without a session.

use std::sync::Arc;

use cairn_analyze::query::{Expr, Query};
use cairn_analyze::{AnalyzeContext, Parameters};
use cairn_catalog::*;
use cairn_exec::*;
use cairn_functions::RowStream;
use cairn_types::*;

pub struct TestEnv {
    pub catalog: Arc<Catalog>,
    pub path: SearchPath,
    settings: FormatSettings,
}

impl TestEnv {
    /// `public` is searched.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        let path = SearchPath::new(&catalog, &["public".into()], "postgres", None);
        TestEnv { catalog, path, settings: FormatSettings::default() }
    }

    pub fn analyze_context(&self) -> AnalyzeContext<'_> {
        AnalyzeContext {
            catalog: &self.catalog,
            search_path: &self.path,
            env: self,
            parameters: Parameters::None,
        }
    }
}

impl ExpressionSource for TestEnv {
    fn over_table(&self, relation: &Arc<Relation>, text: &str) -> Result<Expr> {
        cairn_analyze::analyze_expression(text, Some(relation), &self.analyze_context())
    }
    fn of_column(&self, relation: &Arc<Relation>, column: usize, text: &str) -> Result<Expr> {
        let context = self.analyze_context();
        cairn_analyze::analyze_stored_value(text, relation, &relation.columns[column], &context)
    }
    fn over_domain(&self, _: Oid, _: &str) -> Result<Expr> {
        Err(Error::internal("no domains here"))
    }
    fn deparse(&self, expr: &Expr, queries: &[&Query], qualify: bool) -> String {
        let context = cairn_analyze::deparse::DeparseContext {
            catalog: &self.catalog,
            path: &self.path,
            env: self,
            form: cairn_analyze::deparse::Form::Display { pretty: false },
        };
        cairn_analyze::deparse::deparse_in_queries(expr, queries, qualify, &context)
    }
}

impl Env for TestEnv {
    cairn_testkit::env_of_an_idle_session!(database: "postgres", time: 0);
    cairn_testkit::env_without_objects!();
    fn format(&self) -> &FormatSettings {
        &self.settings
    }
    fn extension_installed(&self, _: &str) -> bool {
        false
    }
    fn type_shape(&self, type_oid: Oid) -> Option<TypeShape> {
        let found = self.catalog.type_by_oid(type_oid)?;
        let element = self.catalog.array_element(type_oid);
        Some(match found.kind {
            _ if element != 0 => TypeShape::Array { element, delimiter: ',' },
            TypeKind::Pseudo => TypeShape::Pseudo,
            _ => TypeShape::Base,
        })
    }
    fn format_type(&self, type_oid: Oid, typmod: i32) -> String {
        self.catalog.format_type(type_oid, typmod, &self.path)
    }
    fn parse_type(&self, name: &str) -> Result<(Oid, i32)> {
        cairn_analyze::parse_type_name(name, &self.analyze_context())
    }
}

pub struct NoFunctions;

impl FunctionRunner for NoFunctions {
    fn call(&self, _: &ExecContext<'_>, _: &Arc<Proc>, _: &[Datum], _: &CallInfo<'_>) -> Result<Datum> {
        Err(Error::internal("no functions here"))
    }
    fn call_set(
        &self,
        _: &ExecContext<'_>,
        _: &Arc<Proc>,
        _: &[Datum],
        _: &CallInfo<'_>,
    ) -> Result<Box<dyn RowStream>> {
        Err(Error::internal("no functions here"))
    }
    fn system_rows(&self, _: &ExecContext<'_>, _: Oid) -> Result<Option<Vec<Arc<[Datum]>>>> {
        Ok(None)
    }
    fn cursor_position(&self, _: &str, _: Oid) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}
