//! How much space relations and databases take.
//!
//! A table's rows are in the key space of its primary key, so that index has no size of its own. Out-of-line values are
//! part of their table. Recently written rows count before they reach a file.

use cairn_catalog::columns::pg_database;
use cairn_catalog::{Index, Relation, RelationKind, RowExt};
use cairn_exec::TxnResultExt;
use cairn_types::{Datum, Oid, Result, err, types};

use super::{Arguments, System, values};

/// Tablespace in which all databases live.
const PG_DEFAULT: Oid = 1663;

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    Ok(Some(match system.name {
        "pg_relation_size" => {
            let fork = a.str(1)?;
            match fork {
                "main" => system.of_relation(a.oid(0)?, |relation| system.own_size(relation))?,
                // Other forks do not exist: their size is that of nothing.
                "fsm" | "vm" | "init" => system.of_relation(a.oid(0)?, |_| Ok(0))?,
                _ => {
                    return Err(err!(INVALID_PARAMETER_VALUE, "invalid fork name")
                        .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\"."));
                }
            }
        }
        "pg_table_size" => system.of_relation(a.oid(0)?, |relation| system.own_size(relation))?,
        "pg_indexes_size" => system.of_relation(a.oid(0)?, |relation| system.indexes_size(relation))?,
        "pg_total_relation_size" => system.of_relation(a.oid(0)?, |relation| {
            Ok(system.own_size(relation)? + system.indexes_size(relation)?)
        })?,
        "pg_database_size_oid" => Datum::Int8(clamp(system.host.database_size(a.oid(0)?)?)),
        "pg_database_size_name" => {
            Datum::Int8(clamp(system.host.database_size(system.database(a.str(0)?)?)?))
        }
        "pg_tablespace_size_oid" => system.tablespace_size(a.oid(0)?)?,
        "pg_tablespace_size_name" => {
            let oid = match a.str(0)? {
                "pg_default" => PG_DEFAULT,
                "pg_global" => PG_DEFAULT + 1,
                name => return Err(err!(UNDEFINED_OBJECT, "tablespace \"{name}\" does not exist")),
            };
            system.tablespace_size(oid)?
        }
        "pg_tablespace_location" => Datum::text(""),
        "pg_tablespace_databases" => {
            let rows = if a.oid(0)? == PG_DEFAULT {
                system.catalog.system_rows(pg_database::TABLE)
            } else {
                Vec::new()
            };
            values(types::OID, rows.iter().map(|row| Datum::Oid(row.oid(pg_database::OID))))
        }
        // The storage id is what stands for a file here; it changes as a file's number would.
        "pg_relation_filenode" => match system.catalog.relation(a.oid(0)?) {
            Some(relation) => super::optional_oid(system.storage_of(relation)),
            None => Datum::Null,
        },
        "pg_filenode_relation" => {
            let storage = a.oid(1)?;
            let mut all = system.catalog.user_relations();
            let found = all.find(|relation| relation.storage != 0 && relation.storage == storage);
            found.map_or(Datum::Null, |relation| Datum::Oid(relation.oid))
        }
        // Rows have no file of their own.
        "pg_relation_filepath" => Datum::Null,
        _ => return Ok(None),
    }))
}

/// Sizes are bigint in SQL.
fn clamp(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl System<'_> {
    /// Null where nothing has the oid.
    fn of_relation(&self, oid: Oid, size: impl FnOnce(&Relation) -> Result<u64>) -> Result<Datum> {
        match self.catalog.relation(oid) {
            Some(relation) => Ok(Datum::Int8(clamp(size(relation)?))),
            None => Ok(Datum::Null),
        }
    }

    /// The key space of a relation's own entries; 0 for one that has none.
    fn storage_of(&self, relation: &Relation) -> Oid {
        if let Some(index) = self.catalog.index(relation.oid) {
            let table = self.catalog.relation(index.table);
            return if table.is_some_and(|table| table.is_ordered_by(index)) { 0 } else { index.storage };
        }
        // A system catalog's stored rows are under its own oid.
        if self.catalog.is_system_catalog(relation) { relation.oid } else { relation.storage }
    }

    fn own_size(&self, relation: &Relation) -> Result<u64> {
        match relation.kind {
            RelationKind::View | RelationKind::CompositeType => Ok(0),
            // A sequence is one record.
            RelationKind::Sequence => Ok(std::mem::size_of::<i64>() as u64),
            _ => self.storage_size(self.storage_of(relation)),
        }
    }

    fn indexes_size(&self, relation: &Relation) -> Result<u64> {
        let secondary =
            relation.indexes.iter().filter(|index: &&std::sync::Arc<Index>| !relation.is_ordered_by(index));
        secondary.map(|index| self.storage_size(index.storage)).sum()
    }

    fn storage_size(&self, storage: Oid) -> Result<u64> {
        if storage == 0 {
            return Ok(0);
        }
        let usage = self.host.store().space_usage(storage).sql()?;
        Ok(usage.memtable_bytes.saturating_add(usage.sst_bytes))
    }

    pub(super) fn database(&self, name: &str) -> Result<Oid> {
        let rows = self.catalog.system_rows(pg_database::TABLE);
        let found = rows.iter().find(|row| row.str(pg_database::DATNAME) == name);
        found
            .map(|row| row.oid(pg_database::OID))
            .ok_or_else(|| err!(INVALID_CATALOG_NAME, "database \"{name}\" does not exist"))
    }

    fn tablespace_size(&self, oid: Oid) -> Result<Datum> {
        if oid != PG_DEFAULT {
            return Ok(Datum::Int8(0));
        }
        let mut sum = 0u64;
        for row in self.catalog.system_rows(pg_database::TABLE) {
            sum = sum.saturating_add(self.host.database_size(row.oid(pg_database::OID))?);
        }
        Ok(Datum::Int8(clamp(sum)))
    }
}
