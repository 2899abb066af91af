//! TRUNCATE: new storages in place of the old ones.

use std::sync::Arc;

use cairn_catalog::acl::{self, ObjectKind};
use cairn_catalog::columns::{pg_class, pg_depend};
use cairn_catalog::{Relation, RelationKind, RowExt};
use cairn_txn::TableLockMode;
use cairn_types::{Datum, Oid, Result, err};
use pg_query::protobuf::{self, DropBehavior, node::Node as NodeEnum};

use super::context::DdlContext;
use super::{data, names, sequence};

pub fn truncate(cx: &mut DdlContext<'_>, statement: &protobuf::TruncateStmt) -> Result<()> {
    let cascade = statement.behavior() == DropBehavior::DropCascade;
    let mut tables: Vec<Oid> = Vec::new();
    for node in &statement.relations {
        let NodeEnum::RangeVar(name) = super::node::inner(node)? else { continue };
        let table = names::open_existing(cx, name, TableLockMode::AccessExclusive, &|cx, table| {
            cx.require(ObjectKind::Table, table.oid, acl::TRUNCATE)
        })?;
        if table.kind != RelationKind::Table {
            return Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a table", table.name));
        }
        names::check_not_system(&table)?;
        cx.require_not_in_use(&table, "TRUNCATE")?;
        if !tables.contains(&table.oid) {
            tables.push(table.oid);
        }
    }
    truncate_tables(cx, tables, cascade, statement.restart_seqs)
}

/// Empties tables. With `cascade` those too that refer to them; 0A000 without it if there are such.
pub fn truncate_tables(
    cx: &mut DdlContext<'_>,
    mut tables: Vec<Oid>,
    cascade: bool,
    restart: bool,
) -> Result<()> {
    let mut at = 0;
    while let Some(oid) = tables.get(at).copied() {
        at += 1;
        let table = cx.relation(oid)?;
        for constraint in &table.referenced_by {
            if tables.contains(&constraint.table) {
                continue;
            }
            let referring = cx.relation(constraint.table)?;
            if !cascade {
                return Err(err!(
                    FEATURE_NOT_SUPPORTED,
                    "cannot truncate a table referenced in a foreign key constraint"
                )
                .detail(format!("Table \"{}\" references \"{}\".", referring.name, table.name))
                .hint(format!(
                    "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                    referring.name
                )));
            }
            cx.notice(format!("truncate cascades to table \"{}\"", referring.name));
            cx.lock(pg_class::TABLE, referring.oid, TableLockMode::AccessExclusive)?;
            cx.require(ObjectKind::Table, referring.oid, acl::TRUNCATE)?;
            cx.require_not_in_use(&referring, "TRUNCATE")?;
            tables.push(referring.oid);
        }
    }
    for oid in tables {
        if restart {
            for sequence in owned_sequences(cx, oid) {
                sequence::restart(cx, &sequence)?;
            }
        }
        let table = cx.relation(oid)?;
        data::replace_storage(cx, &table)?;
    }
    Ok(())
}

/// Sequences that belong to columns of a table.
pub fn owned_sequences(cx: &DdlContext<'_>, table: Oid) -> Vec<Arc<Relation>> {
    let key =
        [(pg_depend::REFCLASSID, Datum::Oid(pg_class::TABLE)), (pg_depend::REFOBJID, Datum::Oid(table))];
    let owned = cx.catalog.user_rows_by(pg_depend::TABLE, &key).filter(|row| {
        row.oid(pg_depend::CLASSID) == pg_class::TABLE
            && row.int(pg_depend::REFOBJSUBID) > 0
            && matches!(row.char(pg_depend::DEPTYPE), b'a' | b'i')
    });
    owned
        .filter_map(|row| cx.catalog.relation(row.oid(pg_depend::OBJID)).cloned())
        .filter(|relation| relation.kind == RelationKind::Sequence)
        .collect()
}
