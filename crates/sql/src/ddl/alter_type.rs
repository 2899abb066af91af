//! ALTER TABLE ... ALTER COLUMN ... TYPE.

use std::sync::Arc;

use cairn_analyze::ExprKind;
use cairn_analyze::query::Expr;
use cairn_catalog::columns::*;
use cairn_catalog::{Relation, RelationKind, RowExt, TypeRef};
use cairn_exec::TxnResultExt;
use cairn_types::{Datum, Error, Result, Text, err};
use pg_query::protobuf::{self, AlterTableCmd, node::Node as NodeEnum};

use super::alter_table::{bump_schema, column_number, refresh_indexes, same_columns, update_attribute};
use super::context::DdlContext;
use super::data::{self, NewColumn};
use super::depend::{self, Address, Dependency};
use super::node::inner;
use super::{rows, table, text};

pub fn alter_column_type(
    cx: &mut DdlContext<'_>,
    relation: &Arc<Relation>,
    command: &AlterTableCmd,
) -> Result<()> {
    let definition = command.def.as_deref().ok_or_else(|| Error::internal("no column type"))?;
    let NodeEnum::ColumnDef(node) = inner(definition)? else {
        return Err(Error::internal("a column type that is none"));
    };
    let number = column_number(relation, &command.name)?;
    let at = number as usize - 1;
    let column = relation.columns[at].clone();
    let target = table::column_type(cx, node)?;
    text::check_column_type(cx, &column.name, target.oid)?;
    check_users(cx, relation, number)?;
    let value = conversion(cx, relation, at, node, target)?;
    let default = converted_default(cx, relation, at, target)?;
    let before = cx.catalog.clone();
    let old = relation.clone();
    let texts = stored_texts(relation, number);
    let catalog = cx.catalog.clone();
    cx.change(|writer| {
        // Values of another type say nothing of the new one's.
        crate::statistics::forget(writer, relation.oid, number)?;
        let is_expression =
            |key: &cairn_catalog::IndexKey| matches!(key.key, cairn_catalog::IndexKeyColumn::Expression(_));
        for index in relation.indexes.iter().filter(|index| index.keys.iter().any(is_expression)) {
            crate::statistics::forget(writer, index.oid, 0)?;
        }
        update_attribute(writer, relation.oid, number, |row| {
            rows::set_attribute_type(&catalog, row, target);
            row[pg_attribute::ATTNDIMS] =
                Datum::Int4(node.type_name.as_ref().map_or(0, |name| name.array_bounds.len() as i32));
            row[pg_attribute::ATTHASMISSING] = Datum::Bool(false);
            row[pg_attribute::ATTMISSINGVAL] = Datum::Null;
        })?;
        writer
            .delete_where(pg_depend::TABLE, |row| {
                use pg_depend as d;
                row.oid(d::CLASSID) == pg_class::TABLE
                    && row.oid(d::OBJID) == relation.oid
                    && row.int(d::OBJSUBID) == i64::from(number)
                    && row.oid(d::REFCLASSID) == pg_type::TABLE
            })
            .sql()?;
        if let Some(on) = depend::of_type(target.oid, &catalog) {
            depend::record(writer, Address::column(relation.oid, number), on, Dependency::Normal)?;
        }
        bump_schema(writer, relation.oid, None)
    })?;
    if let Some(stored) = default {
        cx.change(|writer| {
            writer
                .update_where(
                    pg_attrdef::TABLE,
                    |row| {
                        row.oid(pg_attrdef::ADRELID) == relation.oid
                            && row.int(pg_attrdef::ADNUM) == i64::from(number)
                    },
                    |row| row[pg_attrdef::ADBIN] = Datum::text(&*stored),
                )
                .sql()?;
            Ok(())
        })?;
    }
    let changed = cx.relation(relation.oid)?;
    refresh_indexes(cx, &changed, number)?;
    refresh_texts(cx, relation, texts)?;
    if relation.kind != RelationKind::Table {
        return Ok(());
    }
    let mut columns = same_columns(&old);
    columns[at] = NewColumn::Expression(Box::new(value));
    data::rewrite(cx, &before, &old, columns)?;
    let constraints: Vec<_> =
        cx.relation(relation.oid)?.constraints.iter().map(|c| (c.oid, c.validated)).collect();
    for (oid, validated) in constraints {
        if validated {
            data::validate(cx, oid)?;
        }
    }
    Ok(())
}

/// Views and generated columns would have to change with it. 0A000.
fn check_users(cx: &DdlContext<'_>, relation: &Relation, number: i16) -> Result<()> {
    use pg_depend as d;
    let column = &relation.columns[number as usize - 1].name;
    for row in cx.catalog.user_rows(d::TABLE) {
        if row.oid(d::REFCLASSID) != pg_class::TABLE
            || row.oid(d::REFOBJID) != relation.oid
            || row.int(d::REFOBJSUBID) != i64::from(number)
        {
            continue;
        }
        let user = Address {
            class: row.oid(d::CLASSID),
            object: row.oid(d::OBJID),
            sub: row.int(d::OBJSUBID) as i32,
        };
        if user.class == pg_rewrite::TABLE {
            return Err(err!(FEATURE_NOT_SUPPORTED, "cannot alter type of a column used by a view or rule")
                .detail(format!(
                    "{} depends on column \"{column}\"",
                    depend::describe(&cx.catalog, &cx.search_path, user)
                )));
        }
        if user.class == pg_class::TABLE && user.object == relation.oid && user.sub != 0 {
            let by = &relation.columns[user.sub as usize - 1].name;
            return Err(err!(SYNTAX_ERROR, "cannot alter type of a column used by a generated column")
                .detail(format!("Column \"{column}\" is used by generated column \"{by}\".")));
        }
    }
    // The row type of the table may be in use elsewhere.
    for row in cx.catalog.user_rows(pg_attribute::TABLE) {
        if relation.row_type != 0
            && row.oid(pg_attribute::ATTTYPID) == relation.row_type
            && !row.bool(pg_attribute::ATTISDROPPED)
        {
            let user = cx.relation(row.oid(pg_attribute::ATTRELID))?;
            let what = if relation.kind == RelationKind::CompositeType { "type" } else { "table" };
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "cannot alter {what} \"{}\" because column \"{}.{}\" uses its row type",
                relation.name,
                user.name,
                row.str(pg_attribute::ATTNAME)
            ));
        }
    }
    Ok(())
}

/// The new value as an expression over the old row. 42804.
fn conversion(
    cx: &DdlContext<'_>,
    relation: &Arc<Relation>,
    at: usize,
    node: &protobuf::ColumnDef,
    target: TypeRef,
) -> Result<Expr> {
    let column = &relation.columns[at];
    let using = node.raw_default.as_deref();
    if column.generated && using.is_some() {
        return Err(err!(
            INVALID_COLUMN_DEFINITION,
            "cannot specify USING when altering type of generated column"
        )
        .detail(format!("Column \"{}\" is a generated column.", column.name)));
    }
    let source = match using {
        Some(node) => cairn_analyze::analyze_expression_node(
            node,
            Some(relation),
            ExprKind::Other,
            &cx.analyze_context(),
        )?,
        None => {
            let name = cairn_types::quote::quote_identifier(&column.name);
            text::read_expression(&name, Some(relation), &cx.catalog, cx.env)?
        }
    };
    let type_name = cx.catalog.format_type(target.oid, target.typmod, &cx.search_path);
    let plain = cx.catalog.type_name(target.oid, &cx.search_path);
    text::coerce(cx, source, target)?.ok_or_else(|| {
        if using.is_some() {
            err!(
                DATATYPE_MISMATCH,
                "result of USING clause for column \"{}\" cannot be cast automatically to type {plain}",
                column.name
            )
            .hint("You might need to add an explicit cast.")
        } else {
            let name = cairn_types::quote::quote_identifier(&column.name);
            err!(DATATYPE_MISMATCH, "column \"{}\" cannot be cast automatically to type {plain}", column.name)
                .hint(format!("You might need to specify \"USING {name}::{type_name}\"."))
        }
    })
}

/// The default as a value of the new type, to be stored in place of the old; `None` if there is none.
fn converted_default(
    cx: &DdlContext<'_>,
    relation: &Arc<Relation>,
    at: usize,
    target: TypeRef,
) -> Result<Option<String>> {
    let column = &relation.columns[at];
    let Some(stored) = &column.default else { return Ok(None) };
    let over = column.generated.then_some(relation);
    let expr = text::read_expression(stored, over, &cx.catalog, cx.env)?;
    let Some(value) = text::coerce(cx, expr, target)? else {
        let what = if column.generated { "generation expression" } else { "default" };
        return Err(err!(
            DATATYPE_MISMATCH,
            "{what} for column \"{}\" cannot be cast automatically to type {}",
            column.name,
            cx.catalog.type_name(target.oid, &cx.search_path)
        ));
    };
    Ok(Some(text::stored_value(&value, over, &cx.catalog, cx.env)?))
}

/// Expressions of constraints and indexes that use the column: where they are stored, and their text.
enum Stored {
    Check(u32, Text),
    Index { oid: u32, expressions: Vec<Text>, predicate: Option<Text> },
}

fn stored_texts(relation: &Relation, number: i16) -> Vec<Stored> {
    let mut found = Vec::new();
    for constraint in &relation.constraints {
        if let Some(text) = constraint.expression.as_ref().filter(|_| constraint.columns.contains(&number)) {
            found.push(Stored::Check(constraint.oid, text.clone()));
        }
    }
    for index in &relation.indexes {
        let expressions: Vec<Text> = index
            .keys
            .iter()
            .filter_map(|key| match &key.key {
                cairn_catalog::IndexKeyColumn::Expression(text) => Some(text.clone()),
                cairn_catalog::IndexKeyColumn::Attribute(_) => None,
            })
            .collect();
        if !expressions.is_empty() || index.predicate.is_some() {
            found.push(Stored::Index { oid: index.oid, expressions, predicate: index.predicate.clone() });
        }
    }
    found
}

/// Reads the texts again over the column's new type and stores what comes out.
fn refresh_texts(cx: &mut DdlContext<'_>, relation: &Relation, texts: Vec<Stored>) -> Result<()> {
    let changed = cx.relation(relation.oid)?;
    let again = |cx: &DdlContext<'_>, stored: &str| -> Result<String> {
        let expr =
            text::read_expression(stored, Some(&changed), &cx.catalog, cx.env).map_err(|mut error| {
                error.report_mut().location = None;
                error
            })?;
        text::stored_expression(&expr, Some(&changed), &cx.catalog, cx.env)
    };
    for stored in texts {
        match stored {
            Stored::Check(oid, text) => {
                let text = again(cx, &text)?;
                super::alter_table::update_constraint(cx, oid, |row| {
                    row[pg_constraint::CONBIN] = Datum::text(&*text);
                })?;
            }
            Stored::Index { oid, expressions, predicate } => {
                let expressions =
                    expressions.iter().map(|text| again(cx, text)).collect::<Result<Vec<_>>>()?;
                let predicate = predicate.as_deref().map(|text| again(cx, text)).transpose()?;
                cx.change(|writer| {
                    writer
                        .update_where(
                            pg_index::TABLE,
                            |row| row.oid(pg_index::INDEXRELID) == oid,
                            |row| {
                                if !expressions.is_empty() {
                                    row[pg_index::INDEXPRS] = Datum::text(expressions.join(", "));
                                }
                                row[pg_index::INDPRED] =
                                    predicate.as_deref().map_or(Datum::Null, Datum::text);
                            },
                        )
                        .sql()?;
                    Ok(())
                })?;
            }
        }
    }
    Ok(())
}
