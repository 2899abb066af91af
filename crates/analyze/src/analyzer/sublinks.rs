//! Subqueries in expressions.

use cairn_catalog::TypeRef;
use cairn_types::{Error, Result, err, types};
use pg_query::protobuf::{self, node::Node as NodeEnum};

use super::{
    Analyzer, ExprKind, expr_type,
    names::{QualifiedName, inner, inner_box},
    operators::RowStrategy,
};
use crate::query::*;

impl Analyzer<'_> {
    pub(crate) fn sublink(&mut self, link: &protobuf::SubLink) -> Result<Expr> {
        let location = link.location;
        let kind = self.level_ref().kind;
        let refused = match kind {
            ExprKind::CheckConstraint | ExprKind::DomainCheck => {
                Some("cannot use subquery in check constraint")
            }
            ExprKind::ColumnDefault | ExprKind::FunctionDefault => {
                Some("cannot use subquery in DEFAULT expression")
            }
            ExprKind::IndexExpression => Some("cannot use subquery in index expression"),
            ExprKind::IndexPredicate => Some("cannot use subquery in index predicate"),
            ExprKind::ExecuteParameter => Some("cannot use subquery in EXECUTE parameter"),
            ExprKind::CallArgument => Some("cannot use subquery in CALL argument"),
            ExprKind::CopyWhere => Some("cannot use subquery in COPY FROM WHERE condition"),
            ExprKind::GeneratedColumn => Some("cannot use subquery in column generation expression"),
            _ => None,
        };
        if let Some(message) = refused {
            return Err(err!(FEATURE_NOT_SUPPORTED, "{message}").at(location));
        }
        let link_type = protobuf::SubLinkType::try_from(link.sub_link_type)
            .map_err(|_| Error::internal("unrecognized subquery"))?;
        let query = self.subquery(inner_box(&link.subselect)?, true, true)?;
        if query.command != CommandType::Select {
            return Err(Error::internal("non-SELECT command in SubLink"));
        }
        let bool_type = self.lookup.type_ref(types::BOOL);
        match link_type {
            protobuf::SubLinkType::ExistsSublink => Ok(Expr::SubLink(Box::new(SubLink {
                kind: SubLinkKind::Exists,
                query,
                ty: bool_type,
                location,
            }))),
            protobuf::SubLinkType::ExprSublink | protobuf::SubLinkType::ArraySublink => {
                let columns: Vec<TypeRef> = query
                    .targets
                    .iter()
                    .filter(|target| !target.junk)
                    .map(|target| expr_type(&target.expr))
                    .collect();
                let [column] = columns.as_slice() else {
                    let message = if columns.is_empty() {
                        "subquery must return a column"
                    } else {
                        "subquery must return only one column"
                    };
                    return Err(err!(SYNTAX_ERROR, "{message}").at(location));
                };
                if link_type == protobuf::SubLinkType::ExprSublink {
                    return Ok(Expr::SubLink(Box::new(SubLink {
                        kind: SubLinkKind::Expr,
                        query,
                        ty: *column,
                        location,
                    })));
                }
                // An array of arrays is one array with a dimension more.
                let array = if self.lookup.array_element(column.oid) != 0 {
                    column.oid
                } else {
                    self.lookup.array_of(column.oid)
                };
                if array == 0 {
                    return Err(err!(
                        UNDEFINED_OBJECT,
                        "could not find array type for data type {}",
                        self.type_text(column.oid)
                    )
                    .at(location));
                }
                let ty = TypeRef {
                    typmod: column.typmod,
                    collation: column.collation,
                    ..self.lookup.type_ref(array)
                };
                Ok(Expr::SubLink(Box::new(SubLink { kind: SubLinkKind::Array, query, ty, location })))
            }
            protobuf::SubLinkType::AnySublink | protobuf::SubLinkType::AllSublink => {
                let any = link_type == protobuf::SubLinkType::AnySublink;
                // IN has no operator written.
                let name = if link.oper_name.is_empty() {
                    QualifiedName::operator("=")
                } else {
                    self.qualified_name(&link.oper_name)?
                };
                let left = match inner_box(&link.testexpr)? {
                    NodeEnum::RowExpr(row) => {
                        let mut left = Vec::with_capacity(row.args.len());
                        for arg in &row.args {
                            left.push(self.expression_inner(inner(arg)?)?);
                        }
                        left
                    }
                    other => vec![self.expression_inner(other)?],
                };
                let comparison = self.sublink_comparison(&name, left, &query, location)?;
                let kind = if any { SubLinkKind::Any(comparison) } else { SubLinkKind::All(comparison) };
                Ok(Expr::SubLink(Box::new(SubLink { kind, query, ty: bool_type, location })))
            }
            _ => Err(Error::internal("unrecognized subquery")),
        }
    }

    fn sublink_comparison(
        &mut self,
        name: &QualifiedName,
        left: Vec<Expr>,
        query: &Query,
        location: Location,
    ) -> Result<SubLinkComparison> {
        let columns: Vec<TypeRef> = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| expr_type(&target.expr))
            .collect();
        if left.len() < columns.len() {
            return Err(err!(SYNTAX_ERROR, "subquery has too many columns").at(location));
        }
        if left.len() > columns.len() {
            return Err(err!(SYNTAX_ERROR, "subquery has too few columns").at(location));
        }
        let mut operators = Vec::with_capacity(columns.len());
        let mut coerced_left = Vec::with_capacity(columns.len());
        let mut right_casts = Vec::with_capacity(columns.len());
        let mut any_cast = false;
        for (l, ty) in left.into_iter().zip(&columns) {
            let call = self.operator_call(name, Some(l), Expr::TestValue { ty: *ty }, location)?;
            if call.ty.oid != types::BOOL {
                return Err(err!(
                    DATATYPE_MISMATCH,
                    "row comparison operator must yield type boolean, not type {}",
                    self.type_text(call.ty.oid)
                )
                .at(location));
            }
            if call.returns_set {
                return Err(
                    err!(DATATYPE_MISMATCH, "row comparison operator must not return a set").at(location)
                );
            }
            operators.push((call.operator, call.function));
            let mut args = call.args.into_iter();
            let (Some(l), Some(r)) = (args.next(), args.next()) else {
                return Err(Error::internal("comparison without operands"));
            };
            any_cast |= !matches!(r, Expr::TestValue { .. });
            coerced_left.push(l);
            right_casts.push(r);
        }
        let (mut row_strategy, mut use_or) = (None, false);
        if operators.len() > 1 {
            let oids: Vec<u32> = operators.iter().map(|(operator, _)| *operator).collect();
            match self.row_strategy(&oids, name, location)? {
                RowStrategy::Equal => {}
                RowStrategy::NotEqual => use_or = true,
                RowStrategy::Ordered(strategy) => row_strategy = Some(strategy),
            }
        }
        Ok(SubLinkComparison {
            left: coerced_left,
            operators,
            row_strategy,
            use_or,
            right_casts: if any_cast { right_casts } else { Vec::new() },
            collation: 0,
        })
    }

    /// `(a, b) op (select x, y ...)`: the row against the subquery's one row.
    pub(crate) fn row_compare_sublink(
        &mut self,
        row: &protobuf::RowExpr,
        name: &QualifiedName,
        link: &protobuf::SubLink,
        location: Location,
    ) -> Result<Expr> {
        let mut left = Vec::with_capacity(row.args.len());
        for arg in &row.args {
            left.push(self.expression_inner(inner(arg)?)?);
        }
        let query = self.subquery(inner_box(&link.subselect)?, true, true)?;
        let columns: Vec<TypeRef> = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| expr_type(&target.expr))
            .collect();
        if left.len() < columns.len() {
            return Err(err!(SYNTAX_ERROR, "subquery has too many columns").at(location));
        }
        if left.len() > columns.len() {
            return Err(err!(SYNTAX_ERROR, "subquery has too few columns").at(location));
        }
        let right = self.row_sublink_fields(SubLinkKind::Row, query, link.location)?;
        self.make_row_comparison(name, left, right, location)
    }

    /// The fields of a subquery's one row. Each refers to the same subquery.
    pub(crate) fn row_sublink_fields(
        &mut self,
        kind: SubLinkKind,
        query: Query,
        location: Location,
    ) -> Result<Vec<Expr>> {
        let columns: Vec<TypeRef> = query
            .targets
            .iter()
            .filter(|target| !target.junk)
            .map(|target| expr_type(&target.expr))
            .collect();
        let record = Expr::SubLink(Box::new(SubLink {
            kind,
            query,
            ty: self.lookup.type_ref(types::RECORD),
            location,
        }));
        columns
            .into_iter()
            .enumerate()
            .map(|(index, ty)| {
                Ok(Expr::Field {
                    record: Box::new(record.clone()),
                    number: super::scope::attribute_number(index)?,
                    ty,
                })
            })
            .collect()
    }
}
