//! Stored SQL text used in a statement: views, defaults. It is analyzed apart from the statement around it: on its own
//! levels, without the statement's parameters and variables, under a search path of `pg_catalog` only (which is how it
//! was printed).

use std::sync::{Arc, LazyLock};

use cairn_catalog::{Column, Identity, Relation, SearchPath, TypeRef};
use cairn_types::{Error, Result, Text};

use super::{
    Analyzer, Parameters, coerce::Coercion, expr_type, lookup::Lookup, type_names::forget_locations,
};
use crate::query::*;

static STORED_TEXT_PATH: LazyLock<SearchPath> = LazyLock::new(SearchPath::pg_catalog);

impl Analyzer<'_> {
    /// Runs an analysis of stored text; its positions mean nothing in the statement at hand.
    pub(crate) fn isolated<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.enter()?;
        let levels = std::mem::take(self.levels_mut());
        let parameters = std::mem::replace(&mut self.parameters, Parameters::None);
        let lookup =
            std::mem::replace(&mut self.lookup, Lookup::new(self.context.catalog, &STORED_TEXT_PATH));
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || work(self));
        self.lookup = lookup;
        self.parameters = parameters;
        *self.levels_mut() = levels;
        self.leave();
        result.map_err(|mut error: Error| {
            error.report_mut().location = None;
            error
        })
    }

    /// A view in FROM: its query as a subquery.
    pub(crate) fn view_entry(
        &mut self,
        relation: &Arc<Relation>,
        alias: Option<Text>,
        location: Location,
    ) -> Result<RangeTableEntry> {
        let _ = location;
        let text = relation
            .view_query
            .clone()
            .ok_or_else(|| Error::internal(format!("view \"{}\" has no query", relation.name)))?;
        let query = self.isolated(|analyzer| {
            let mut statements = crate::parse::parse(&text)?;
            let statement = statements.pop().ok_or_else(|| Error::internal("empty view"))?;
            analyzer.subquery(&statement.node, false, true)
        })?;
        let columns: Vec<RangeColumn> = relation
            .columns
            .iter()
            .filter(|column| !column.dropped)
            .map(|column| RangeColumn { name: column.name.clone(), ty: column.ty })
            .collect();
        if columns.len() != query.output().iter().filter(|target| !target.junk).count() {
            return Err(Error::internal(format!("view \"{}\" does not fit its columns", relation.name)));
        }
        Ok(RangeTableEntry {
            kind: RangeTableKind::Subquery { query: Box::new(query), view: Some(relation.oid) },
            alias: alias.unwrap_or_else(|| relation.name.clone()),
            columns,
            lateral: false,
            in_from: true,
        })
    }

    /// A SQL expression stored in the catalog, without columns in it: a default.
    pub(crate) fn stored_expression(&mut self, text: &str) -> Result<Expr> {
        self.isolated(|analyzer| {
            let node = crate::parse::parse_expression(text)?;
            analyzer.push_level();
            let mut expr = analyzer.expression_of_kind(Some(&node), super::ExprKind::Other)?;
            forget_locations(&mut expr);
            Ok(expr)
        })
    }

    /// What a column gets that no value is given for: an identity's next number, the column's or its domain's default.
    pub(crate) fn column_default(&mut self, column: &Column) -> Result<Option<Expr>> {
        if column.identity != Identity::None && column.identity_sequence != 0 {
            return Ok(Some(Expr::NextValue {
                sequence: column.identity_sequence,
                ty: TypeRef { typmod: -1, ..column.ty },
            }));
        }
        let text = match &column.default {
            Some(text) if !column.generated => Some(text.clone()),
            Some(_) => None,
            None => self.domain_default(column.ty.oid),
        };
        let Some(text) = text else {
            // A domain has to see the null that it may refuse.
            if self.lookup.base_type(column.ty.oid) != column.ty.oid && !column.generated {
                return self.null_of(column.ty).map(Some);
            }
            return Ok(None);
        };
        let expr = self.stored_expression(&text)?;
        let source = expr_type(&expr).oid;
        let ty = column.ty;
        let coerced = self.coerce_to_target(
            expr,
            source,
            ty.oid,
            ty.typmod,
            Coercion::Assignment,
            CallForm::ImplicitCast,
            -1,
        )?;
        coerced.map(Some).ok_or_else(|| {
            cairn_types::err!(
                DATATYPE_MISMATCH,
                "column \"{}\" is of type {} but default expression is of type {}",
                column.name,
                self.type_text(ty.oid),
                self.type_text(source)
            )
            .hint("You will need to rewrite or cast the expression.")
        })
    }

    fn domain_default(&self, ty: u32) -> Option<Text> {
        let mut ty = ty;
        loop {
            let found = self.lookup.type_by_oid(ty)?;
            if found.kind != cairn_catalog::TypeKind::Domain {
                return None;
            }
            if let Some(default) = &found.default {
                return Some(default.clone());
            }
            ty = found.base;
        }
    }

    /// NULL of a type, checked by the domain if it is one.
    pub(crate) fn null_of(&mut self, ty: TypeRef) -> Result<Expr> {
        let base = self.lookup.base_type(ty.oid);
        let null =
            Expr::Const { value: cairn_types::Datum::Null, ty: self.lookup.type_ref(base), location: -1 };
        if base == ty.oid {
            return Ok(null);
        }
        self.coerce_to_domain(null, ty.oid, -1, Coercion::Implicit, CallForm::ImplicitCast, -1, true)
    }
}
