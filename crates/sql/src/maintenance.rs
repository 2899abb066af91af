//! VACUUM, ANALYZE, CLUSTER, REINDEX, SET CONSTRAINTS.
//!
//! VACUUM does at once, for its tables, what the collector does by and by: it removes what nobody can see any more, as far as
//! cairn.retention and open snapshots allow; FULL rewrites the table's files as well. There is nothing to cluster and no
//! index that could need to be built again: those commands check what they are given as PostgreSQL does, and are done.
//! ANALYZE is in [`crate::statistics`].

use cairn_catalog::acl::ObjectKind;
use cairn_catalog::columns::pg_index;
use cairn_catalog::{Constraint, Persistence, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_txn::{StorageId, TableLockMode};
use cairn_types::oid::FIRST_USER_OID;
use cairn_types::quote::{quote_identifier, quote_qualified};
use cairn_types::{Env, Error, Oid, Result, err};
use pg_query::protobuf::{self, node::Node as NodeEnum};
use std::sync::Arc;

use crate::statistics;
use crate::utility::{Invocation, Outcome};

pub fn set_constraints(
    invocation: &Invocation<'_>,
    statement: &protobuf::ConstraintsSetStmt,
) -> Result<Outcome> {
    let core = invocation.core;
    if invocation.top_level && !invocation.in_block {
        core.notice(Error::warning(
            cairn_types::sqlstate::NO_ACTIVE_SQL_TRANSACTION,
            "SET CONSTRAINTS can only be used in transaction blocks",
        ));
    }
    core.ensure_transaction()?;
    let (catalog, path) = (core.catalog()?, core.search_path()?);
    let mut chosen = Vec::new();
    for node in &statement.constraints {
        let Some(NodeEnum::RangeVar(range)) = &node.node else { continue };
        let namespaces = if range.schemaname.is_empty() {
            path.namespaces.clone()
        } else {
            let missing = || err!(INVALID_SCHEMA_NAME, "schema \"{}\" does not exist", range.schemaname);
            vec![catalog.resolve_namespace(&path, &range.schemaname).ok_or_else(missing)?]
        };
        // The first schema of the path that has constraints of the name; all of them there.
        let in_schema = |namespace: Oid| {
            let of_name = |constraint: &&Arc<Constraint>| {
                constraint.namespace == namespace && *constraint.name == *range.relname
            };
            let tables = catalog.user_relations();
            let found: Vec<Arc<Constraint>> =
                tables.flat_map(|table| table.constraints.iter().filter(of_name).cloned()).collect();
            found
        };
        let found = namespaces.into_iter().map(in_schema).find(|found| !found.is_empty()).unwrap_or_default();
        if found.is_empty() {
            return Err(err!(UNDEFINED_OBJECT, "constraint \"{}\" does not exist", range.relname));
        }
        for constraint in found {
            if !constraint.deferrable {
                return Err(err!(WRONG_OBJECT_TYPE, "constraint \"{}\" is not deferrable", range.relname));
            }
            chosen.push(constraint.oid);
        }
    }
    let chosen = (!statement.constraints.is_empty()).then_some(chosen);
    core.with_exec(|cx| core.constraints.set_mode(cx, chosen.as_deref(), statement.deferred))?;
    Ok(Outcome::tag("SET CONSTRAINTS"))
}

const VACUUM_OPTIONS: &[&str] = &[
    "full",
    "freeze",
    "verbose",
    "analyze",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];
const ANALYZE_OPTIONS: &[&str] = &["verbose", "skip_locked"];

pub fn vacuum(invocation: &Invocation<'_>, statement: &protobuf::VacuumStmt) -> Result<Outcome> {
    let core = invocation.core;
    let is_vacuum = statement.is_vacuumcmd;
    let command = if is_vacuum { "VACUUM" } else { "ANALYZE" };
    let mut analyze = !is_vacuum;
    let (mut full, mut verbose, mut skip_locked) = (false, false, false);
    for option in &statement.options {
        let Some(NodeEnum::DefElem(element)) = &option.node else { continue };
        let known = if is_vacuum { VACUUM_OPTIONS } else { ANALYZE_OPTIONS };
        if !known.contains(&element.defname.as_str()) {
            return Err(err!(SYNTAX_ERROR, "unrecognized {command} option \"{}\"", element.defname)
                .at(element.location));
        }
        match &*element.defname {
            "analyze" => analyze = boolean_option(element),
            "full" => full = boolean_option(element),
            "verbose" => verbose = boolean_option(element),
            "skip_locked" => skip_locked = boolean_option(element),
            _ => {}
        }
    }
    if is_vacuum {
        invocation.prevent_in_block("VACUUM")?;
        core.start_implicit();
    }
    let catalog = core.catalog()?;
    // With the columns that are named; none: all.
    let mut tables: Vec<(_, Vec<i16>)> = Vec::new();
    for node in &statement.rels {
        let Some(NodeEnum::VacuumRelation(target)) = &node.node else { continue };
        let Some(range) = &target.relation else { continue };
        let relation = crate::names::find_relation(core, range)?;
        let mut columns = Vec::new();
        if !target.va_cols.is_empty() && !analyze {
            return Err(err!(
                FEATURE_NOT_SUPPORTED,
                "ANALYZE option must be specified when a column list is provided"
            ));
        }
        for name in crate::nodes::strings(&target.va_cols) {
            let found = relation.columns.iter().find(|column| !column.dropped && *column.name == *name);
            let Some(column) = found else {
                return Err(err!(
                    UNDEFINED_COLUMN,
                    "column \"{name}\" of relation \"{}\" does not exist",
                    relation.name
                ));
            };
            if columns.contains(&column.attnum) {
                return Err(err!(
                    DUPLICATE_COLUMN,
                    "column \"{name}\" of relation \"{}\" appears more than once",
                    relation.name
                ));
            }
            columns.push(column.attnum);
        }
        match relation.kind {
            RelationKind::Table | RelationKind::MaterializedView | RelationKind::PartitionedTable => {
                tables.push((relation, columns));
            }
            _ => {
                let verb = if is_vacuum { "vacuum" } else { "analyze" };
                crate::utility::warning(
                    core,
                    format!(
                        "skipping \"{}\" --- cannot {verb} non-tables or special system tables",
                        relation.name
                    ),
                );
            }
        }
    }
    if statement.rels.is_empty() {
        tables = catalog
            .user_relations()
            .filter(|relation| {
                let of_others = relation.persistence == Persistence::Temporary
                    && Some(relation.namespace) != core.temporary_namespace();
                matches!(relation.kind, RelationKind::Table | RelationKind::MaterializedView) && !of_others
            })
            .map(|relation| (Arc::clone(relation), Vec::new()))
            .collect();
        tables.sort_by_key(|(table, _)| table.oid);
    }
    let owner = core.database.info.oid;
    let rights = core.rights()?;
    let all = rights.is_owner(core.user_oid(), ObjectKind::Database, owner);
    tables.retain(|(table, _)| {
        let fine = (all && table.oid >= FIRST_USER_OID)
            || rights.is_owner(core.user_oid(), ObjectKind::Table, table.oid);
        if !fine && !statement.rels.is_empty() {
            let verb = if is_vacuum { "vacuum" } else { "analyze" };
            let who = if table.oid < FIRST_USER_OID { "superuser" } else { "table or database owner" };
            let message = format!("skipping \"{}\" --- only {who} can {verb} it", table.name);
            crate::utility::warning(core, message);
        }
        fine
    });
    if is_vacuum {
        // One VACUUM at a time, and no DDL under it.
        let mode = if full { TableLockMode::AccessExclusive } else { TableLockMode::ShareUpdateExclusive };
        for (table, _) in &tables {
            core.lock_relation(table, mode)?;
        }
        let storages: Vec<StorageId> = tables
            .iter()
            .flat_map(|(table, _)| table.indexes.iter().map(|index| index.storage).chain([table.storage]))
            .filter(|storage| *storage != 0)
            .collect();
        let interrupted = || core.check_interrupts().is_err();
        core.database.store.vacuum(&storages, full, &interrupted).sql()?;
        core.check_interrupts()?;
    }
    if analyze {
        let options = statistics::Options { verbose, skip_locked, automatic: false };
        let own_transactions = invocation.top_level && !invocation.in_block;
        for (table, columns) in tables.iter().filter(|(table, _)| table.oid >= FIRST_USER_OID) {
            statistics::analyze_table(core, table, columns, options)?;
            if own_transactions {
                // What is done stays done, and the next table's turn holds nobody up at this one.
                core.finish_implicit()?;
                core.start_implicit();
            }
        }
    }
    Ok(Outcome::tag(command))
}

fn boolean_option(element: &protobuf::DefElem) -> bool {
    match element.arg.as_ref().and_then(|node| node.node.as_ref()) {
        None => true,
        Some(NodeEnum::Boolean(value)) => value.boolval,
        Some(NodeEnum::Integer(value)) => value.ival != 0,
        Some(NodeEnum::String(text)) => crate::settings::value::parse_bool(&text.sval).unwrap_or(true),
        Some(_) => true,
    }
}

pub fn cluster(invocation: &Invocation<'_>, statement: &protobuf::ClusterStmt) -> Result<Outcome> {
    let core = invocation.core;
    if let Some(range) = &statement.relation {
        let relation = crate::names::find_relation(core, range)?;
        let name = &statement.indexname;
        core.rights()?.require_owner(core.user_oid(), ObjectKind::Table, relation.oid)?;
        if !name.is_empty() && !relation.indexes.iter().any(|index| *index.name == **name) {
            return Err(err!(
                UNDEFINED_OBJECT,
                "index \"{name}\" for table \"{}\" does not exist",
                relation.name
            ));
        }
        core.lock_relation(&relation, TableLockMode::AccessExclusive)?;
        let catalog = core.catalog()?;
        if !name.is_empty() {
            // The order of the rows is the primary key's; the choice is kept for dumps and tools.
            let table = quote_qualified(&catalog.namespace_name(relation.namespace), &relation.name);
            let text = format!("alter table {table} cluster on {}", quote_identifier(name));
            crate::definition::run_text(invocation, &text)?;
        } else if !catalog
            .user_rows(pg_index::TABLE)
            .any(|row| row.oid(pg_index::INDRELID) == relation.oid && row.bool(pg_index::INDISCLUSTERED))
        {
            return Err(err!(
                UNDEFINED_OBJECT,
                "there is no previously clustered index for table \"{}\"",
                relation.name
            ));
        }
    } else {
        invocation.prevent_in_block("CLUSTER")?;
    }
    Ok(Outcome::tag("CLUSTER"))
}
