//! Type names: from the parse tree to an oid and modifier, and back to text.

use cairn_types::{Oid, Result, err};
use pg_query::protobuf::{self, Node, a_const::Val, node::Node as NodeEnum};

use super::{
    Analyzer, QualifiedName,
    names::{inner, joined, string_value},
};

impl Analyzer<'_> {
    /// The type and modifier that a name means; a shell type counts as missing. Errors: 42704, 42601, 22023.
    pub(crate) fn resolve_type(&self, name: &protobuf::TypeName) -> Result<(Oid, i32)> {
        let location = name.location;
        if name.type_oid != 0 {
            return Ok((name.type_oid, name.typemod));
        }
        let mut oid = if name.pct_type {
            self.type_of_column(name)?
        } else {
            let qualified = self.qualified_name(&name.names).map_err(|error| error.at(location))?;
            match self.lookup.type_by_name(&qualified).map_err(|error| error.at(location))? {
                Some(oid) => oid,
                None => {
                    let shown = shown_type_name(name);
                    return Err(err!(UNDEFINED_OBJECT, "type \"{shown}\" does not exist").at(location));
                }
            }
        };
        if let Some(found) = self.lookup.type_by_oid(oid)
            && !found.defined
        {
            return Err(
                err!(UNDEFINED_OBJECT, "type \"{}\" is only a shell", shown_type_name(name)).at(location)
            );
        }
        let typmod = if name.typmods.is_empty() { name.typemod } else { self.type_modifier(oid, name)? };
        if !name.array_bounds.is_empty() {
            oid = match self.lookup.array_of(oid) {
                0 => {
                    return Err(err!(
                        UNDEFINED_OBJECT,
                        "type \"{}[]\" does not exist",
                        shown_type_name(name)
                    )
                    .at(location));
                }
                array => array,
            };
        }
        Ok((oid, typmod))
    }

    /// `table.column%type`.
    fn type_of_column(&self, name: &protobuf::TypeName) -> Result<Oid> {
        let location = name.location;
        let improper = || {
            err!(SYNTAX_ERROR, "improper %TYPE reference (too few dotted names): {}", joined(&name.names))
                .at(location)
        };
        let (column, table) = name.names.split_last().ok_or_else(improper)?;
        if table.is_empty() {
            return Err(improper());
        }
        let qualified = self.qualified_name(table).map_err(|error| error.at(location))?;
        let relation = match &qualified.schema {
            Some(schema) => {
                self.lookup.check_schema(schema)?;
                self.lookup.relation_in_schema(schema, &qualified.name)
            }
            None => self.lookup.relation_by_name(&qualified.name),
        };
        let relation = relation
            .ok_or_else(|| err!(UNDEFINED_TABLE, "relation \"{qualified}\" does not exist").at(location))?;
        let column = string_value(column);
        relation
            .columns
            .iter()
            .find(|found| !found.dropped && *found.name == *column)
            .map(|found| found.ty.oid)
            .ok_or_else(|| {
                err!(UNDEFINED_COLUMN, "column \"{column}\" of relation \"{}\" does not exist", relation.name)
                    .at(location)
            })
    }

    fn type_modifier(&self, oid: Oid, name: &protobuf::TypeName) -> Result<i32> {
        let location = name.location;
        let element = self.lookup.type_by_oid(oid);
        if element.is_none_or(|found| found.typmod_in == 0) {
            return Err(err!(
                SYNTAX_ERROR,
                "type modifier is not allowed for type \"{}\"",
                shown_type_name(name)
            )
            .at(location));
        }
        // The input functions take the modifiers as text.
        let mut modifiers = Vec::with_capacity(name.typmods.len());
        for modifier in &name.typmods {
            let text = match inner(modifier)? {
                NodeEnum::AConst(constant) => match &constant.val {
                    Some(Val::Ival(value)) => Some(value.ival.to_string()),
                    Some(Val::Fval(value)) => Some(value.fval.clone()),
                    Some(Val::Sval(value)) => Some(value.sval.clone()),
                    _ => None,
                },
                NodeEnum::ColumnRef(column) => match column.fields.as_slice() {
                    [single] => Some(string_value(single).to_owned()),
                    _ => None,
                },
                _ => None,
            };
            modifiers.push(text.ok_or_else(|| {
                err!(SYNTAX_ERROR, "type modifiers must be simple constants or identifiers").at(location)
            })?);
        }
        let modifiers: Vec<&str> = modifiers.iter().map(String::as_str).collect();
        super::typmod::typmod_in(oid, &modifiers).map_err(|error| error.at(location))
    }

    pub(crate) fn qualified_name(&self, nodes: &[Node]) -> Result<QualifiedName> {
        if let [single] = nodes {
            return Ok(QualifiedName::unqualified(string_value(single)));
        }
        QualifiedName::from_nodes(nodes, &self.context.env.current_database())
    }

    pub(crate) fn collation_by_name(&self, nodes: &[Node]) -> Result<Oid> {
        let name = self.qualified_name(nodes)?;
        self.lookup.collation_by_name(&name).ok_or_else(|| {
            err!(UNDEFINED_OBJECT, "collation \"{name}\" for encoding \"UTF8\" does not exist")
        })
    }
}

/// Positions inside of stored text mean nothing in the statement that uses it.
pub(crate) fn forget_locations(expr: &mut crate::query::Expr) {
    use crate::query::Expr;
    crate::walk::deep_mut(expr, 0, &mut |expr, _| match expr {
        Expr::Const { location, .. }
        | Expr::Param { location, .. }
        | Expr::Grouping { location, .. }
        | Expr::Relabel { location, .. }
        | Expr::CoerceViaIo { location, .. }
        | Expr::ArrayCoerce { location, .. }
        | Expr::ConvertRow { location, .. }
        | Expr::CoerceToDomain { location, .. }
        | Expr::Collate { location, .. }
        | Expr::Array { location, .. }
        | Expr::Row { location, .. }
        | Expr::RowCompare { location, .. }
        | Expr::Coalesce { location, .. }
        | Expr::MinMax { location, .. }
        | Expr::SqlValue { location, .. }
        | Expr::NullTest { location, .. }
        | Expr::BooleanTest { location, .. }
        | Expr::Default { location, .. } => *location = -1,
        Expr::Var(var) => var.location = -1,
        Expr::Function(call) => call.location = -1,
        Expr::Operator(call) | Expr::DistinctFrom(call) | Expr::NullIf(call) => call.location = -1,
        Expr::ArrayOperator(call) => call.location = -1,
        Expr::SubLink(link) => link.location = -1,
        Expr::Aggregate(call) => call.location = -1,
        Expr::Window(call) => call.location = -1,
        Expr::Subscript(subscript) => subscript.location = -1,
        Expr::Case(case) => case.location = -1,
        Expr::And(_)
        | Expr::Or(_)
        | Expr::Not(_)
        | Expr::Field { .. }
        | Expr::TestValue { .. }
        | Expr::CurrentOf { .. }
        | Expr::NextValue { .. } => {}
    });
}

/// The name as messages show it: dotted, with `[]`, without modifiers.
fn shown_type_name(name: &protobuf::TypeName) -> String {
    let mut shown = joined(&name.names);
    if name.pct_type {
        shown.push_str("%TYPE");
    }
    if !name.array_bounds.is_empty() {
        shown.push_str("[]");
    }
    shown
}
