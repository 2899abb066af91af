//! The texts of the system views give the columns that PostgreSQL's views have.

mod support;

use cairn_analyze::query::Statement;
use cairn_analyze::{AnalyzeContext, Parameters, expr_type};
use cairn_catalog::columns::pg_class;
use cairn_catalog::{RowExt, SearchPath};
use support::TestEnv;

#[test]
fn columns_have_postgresqls_names_and_types() {
    let env = TestEnv::new();
    let path = SearchPath::pg_catalog();
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in env.catalog.system_rows(pg_class::TABLE) {
        let Some(view) = env.catalog.relation(row.oid(pg_class::OID)) else { continue };
        let Some(text) = &view.view_query else { continue };
        count += 1;
        let context = AnalyzeContext {
            catalog: &env.catalog,
            search_path: &path,
            env: &env,
            parameters: Parameters::None,
        };
        let raw =
            cairn_analyze::parse(text).unwrap_or_else(|error| panic!("{}: {error}", view.name)).remove(0);
        let query = match cairn_analyze::analyze(&raw, &context) {
            Ok(Statement::Query(query)) => query,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                wrong.push(format!("{}: {error}", view.name));
                continue;
            }
        };
        let show = |name: &str, oid| format!("{name} {}", env.catalog.format_type(oid, -1, &path));
        let got: Vec<String> = query
            .output()
            .iter()
            .filter(|target| !target.junk)
            .map(|target| show(&target.name, expr_type(&target.expr).oid))
            .collect();
        let expected: Vec<String> =
            view.columns.iter().map(|column| show(&column.name, column.ty.oid)).collect();
        if got != expected {
            let differing = got.iter().zip(&expected).filter(|(got, expected)| got != expected);
            let first: Vec<String> = differing.map(|(got, expected)| format!("{got} / {expected}")).collect();
            wrong.push(format!(
                "{}: {} and {} columns; {}",
                view.name,
                got.len(),
                expected.len(),
                first.join(", ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 90);
}
