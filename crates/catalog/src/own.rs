//! Schema `cairn`: what Cairn has beside PostgreSQL's system catalogs, for people and programs to look at.
//!
//! Each relation of it is a view over a set-returning function of the same name and columns, whose body is in the session
//! (`cairn_sql::system_functions`). Adding one is adding a row to [`RELATIONS`], a name to
//! `cairn_functions::system`, and the body.
//!
//! Oids lie between PostgreSQL's own and the users' first. A relation takes five: function, view, row type, array
//! type, rule. They are stored in no table, so they may change between versions.

use std::sync::Arc;

use cairn_types::oid::{BOOTSTRAP_ROLE, namespaces};
use cairn_types::{Datum, Oid, types};

use crate::columns::{
    pg_attribute, pg_class, pg_depend, pg_extension, pg_namespace, pg_proc, pg_rewrite, pg_type,
};
use crate::system_table::{CatalogRow, SystemTable, array_of, blank_row, oidvector, system_table};

struct Relation {
    /// The first of five.
    oid: Oid,
    name: &'static str,
    /// How the session knows the function.
    source: &'static str,
    columns: &'static [(&'static str, Oid)],
}

const RELATIONS: &[Relation] = &[
    Relation {
        oid: 15010,
        name: "storage_counters",
        source: "cairn_storage_counters",
        columns: &[
            ("transactions", types::INT8),
            ("read_requests", types::INT8),
            ("seeks", types::INT8),
            ("nexts", types::INT8),
            ("hidden_deletes", types::INT8),
            ("hidden_keys", types::INT8),
            ("keys_found", types::INT8),
            ("versions_skipped", types::INT8),
            ("tombstones_skipped", types::INT8),
            ("ranges_skipped", types::INT8),
            ("bytes_read", types::INT8),
        ],
    },
    Relation {
        oid: 15020,
        name: "pins",
        source: "cairn_pins",
        columns: &[
            ("read_time", types::TIMESTAMPTZ),
            ("age", types::INTERVAL),
            ("pid", types::INT4),
            ("kind", types::TEXT),
            ("and_later", types::BOOL),
        ],
    },
    Relation {
        oid: 15030,
        name: "tables",
        source: "cairn_tables",
        columns: &[
            ("schema_name", types::NAME),
            ("table_name", types::NAME),
            ("index_name", types::NAME),
            ("relid", types::OID),
            ("storage_id", types::INT8),
            ("live_rows", types::INT8),
            ("versions", types::INT8),
            ("tombstones", types::INT8),
            ("estimated", types::BOOL),
            ("dead_ranges", types::INT8),
            ("memtable_bytes", types::INT8),
            ("sst_bytes", types::INT8),
            ("wal_bytes", types::INT8),
            ("oldest_pin", types::TIMESTAMPTZ),
            ("oldest_pin_age", types::INTERVAL),
            ("oldest_pin_pid", types::INT4),
            ("oldest_pin_kind", types::TEXT),
        ],
    },
];

const FUNCTION: Oid = 0;
const VIEW: Oid = 1;
const ROW_TYPE: Oid = 2;
const ARRAY_TYPE: Oid = 3;
const RULE: Oid = 4;

/// A row of a catalog, its columns set one by one.
struct Row(Vec<Datum>);

impl Row {
    fn of(catalog: Oid) -> Row {
        let mut blank = blank_row(catalog);
        // Without Cairn's own columns, which only stored rows have.
        blank.truncate(system_table(catalog).map_or(0, |table| table.columns.len()));
        Row(blank)
    }

    fn set(mut self, column: usize, value: Datum) -> Row {
        if let Some(place) = self.0.get_mut(column) {
            *place = value;
        }
        self
    }

    fn done(self) -> CatalogRow {
        Arc::from(self.0)
    }
}

/// The rows that this schema adds to a system catalog.
pub(crate) fn rows(table: &SystemTable) -> Vec<CatalogRow> {
    let each = |row: fn(&Relation) -> CatalogRow| RELATIONS.iter().map(row).collect();
    match table.oid {
        pg_namespace::TABLE => vec![schema()],
        pg_proc::TABLE => each(function),
        pg_class::TABLE => each(view),
        pg_rewrite::TABLE => each(rule),
        pg_type::TABLE => {
            RELATIONS.iter().flat_map(|relation| [row_type(relation), array_type(relation)]).collect()
        }
        pg_attribute::TABLE => RELATIONS.iter().flat_map(attributes).collect(),
        pg_extension::TABLE => vec![extension()],
        pg_depend::TABLE => members().map(|(class, object)| membership(class, object)).collect(),
        _ => Vec::new(),
    }
}

/// Everybody may use it.
fn acl(mine: &str, public: &str) -> Datum {
    let owner = format!("postgres={mine}/postgres");
    let public = format!("={public}/postgres");
    array_of(types::ACLITEM, vec![Datum::text(owner), Datum::text(public)])
}

fn schema() -> CatalogRow {
    use pg_namespace as c;
    Row::of(c::TABLE)
        .set(c::OID, Datum::Oid(namespaces::CAIRN))
        .set(c::NSPNAME, Datum::text("cairn"))
        .set(c::NSPOWNER, Datum::Oid(BOOTSTRAP_ROLE))
        .set(c::NSPACL, acl("UC", "U"))
        .done()
}

/// The extension that the schema and what is in it belong to: so `pg_dump` leaves them out.
const EXTENSION: Oid = 15001;

fn extension() -> CatalogRow {
    use pg_extension as c;
    Row::of(c::TABLE)
        .set(c::OID, Datum::Oid(EXTENSION))
        .set(c::EXTNAME, Datum::text("cairn"))
        .set(c::EXTOWNER, Datum::Oid(BOOTSTRAP_ROLE))
        .set(c::EXTNAMESPACE, Datum::Oid(namespaces::CAIRN))
        .set(c::EXTVERSION, Datum::text(env!("CARGO_PKG_VERSION")))
        .set(c::EXTCONFIG, Datum::Null)
        .set(c::EXTCONDITION, Datum::Null)
        .done()
}

/// Catalog and oid of what belongs to the extension.
fn members() -> impl Iterator<Item = (Oid, Oid)> {
    let parts = RELATIONS.iter().flat_map(|relation| {
        [(pg_proc::TABLE, relation.oid + FUNCTION), (pg_class::TABLE, relation.oid + VIEW)]
    });
    std::iter::once((pg_namespace::TABLE, namespaces::CAIRN)).chain(parts)
}

fn membership(class: Oid, object: Oid) -> CatalogRow {
    use pg_depend as c;
    Row::of(c::TABLE)
        .set(c::CLASSID, Datum::Oid(class))
        .set(c::OBJID, Datum::Oid(object))
        .set(c::REFCLASSID, Datum::Oid(pg_extension::TABLE))
        .set(c::REFOBJID, Datum::Oid(EXTENSION))
        .set(c::DEPTYPE, Datum::Char(b'e'))
        .done()
}

fn function(relation: &Relation) -> CatalogRow {
    use pg_proc as c;
    let types_of = relation.columns.iter().map(|(_, type_oid)| Datum::Oid(*type_oid)).collect();
    let modes = relation.columns.iter().map(|_| Datum::Char(b'o')).collect();
    let names = relation.columns.iter().map(|(name, _)| Datum::text(*name)).collect();
    Row::of(c::TABLE)
        .set(c::OID, Datum::Oid(relation.oid + FUNCTION))
        .set(c::PRONAME, Datum::text(relation.name))
        .set(c::PRONAMESPACE, Datum::Oid(namespaces::CAIRN))
        .set(c::PROOWNER, Datum::Oid(BOOTSTRAP_ROLE))
        .set(c::PROLANG, Datum::Oid(cairn_types::oid::languages::INTERNAL))
        .set(c::PROCOST, Datum::Float4(1.0))
        .set(c::PROROWS, Datum::Float4(100.0))
        .set(c::PROKIND, Datum::Char(b'f'))
        .set(c::PROISSTRICT, Datum::Bool(true))
        .set(c::PRORETSET, Datum::Bool(true))
        .set(c::PROVOLATILE, Datum::Char(b'v'))
        .set(c::PROPARALLEL, Datum::Char(b'r'))
        .set(c::PRORETTYPE, Datum::Oid(types::RECORD))
        .set(c::PROARGTYPES, oidvector([]))
        .set(c::PROALLARGTYPES, array_of(types::OID, types_of))
        .set(c::PROARGMODES, array_of(types::CHAR, modes))
        .set(c::PROARGNAMES, array_of(types::TEXT, names))
        .set(c::PROSRC, Datum::text(relation.source))
        .done()
}

fn view(relation: &Relation) -> CatalogRow {
    use pg_class as c;
    Row::of(c::TABLE)
        .set(c::OID, Datum::Oid(relation.oid + VIEW))
        .set(c::RELNAME, Datum::text(relation.name))
        .set(c::RELNAMESPACE, Datum::Oid(namespaces::CAIRN))
        .set(c::RELTYPE, Datum::Oid(relation.oid + ROW_TYPE))
        .set(c::RELOWNER, Datum::Oid(BOOTSTRAP_ROLE))
        .set(c::RELTUPLES, Datum::Float4(-1.0))
        .set(c::RELPERSISTENCE, Datum::Char(b'p'))
        .set(c::RELKIND, Datum::Char(b'v'))
        .set(c::RELNATTS, Datum::Int2(relation.columns.len() as i16))
        .set(c::RELHASRULES, Datum::Bool(true))
        .set(c::RELISPOPULATED, Datum::Bool(true))
        .set(c::RELREPLIDENT, Datum::Char(b'n'))
        .set(c::RELACL, acl("arwdDxt", "r"))
        .done()
}

fn rule(relation: &Relation) -> CatalogRow {
    use pg_rewrite as c;
    let columns: Vec<String> = relation.columns.iter().map(|(name, _)| format!("x.{name}")).collect();
    let query = format!("select {} from cairn.{}() x", columns.join(", "), relation.name);
    Row::of(c::TABLE)
        .set(c::OID, Datum::Oid(relation.oid + RULE))
        .set(c::RULENAME, Datum::text("_RETURN"))
        .set(c::EV_CLASS, Datum::Oid(relation.oid + VIEW))
        .set(c::EV_TYPE, Datum::Char(b'1'))
        .set(c::EV_ENABLED, Datum::Char(b'O'))
        .set(c::IS_INSTEAD, Datum::Bool(true))
        .set(c::EV_QUAL, Datum::text("<>"))
        .set(c::EV_ACTION, Datum::text(query))
        .done()
}

fn type_row(oid: Oid, name: String) -> Row {
    use pg_type as c;
    Row::of(c::TABLE)
        .set(c::OID, Datum::Oid(oid))
        .set(c::TYPNAME, Datum::text(name))
        .set(c::TYPNAMESPACE, Datum::Oid(namespaces::CAIRN))
        .set(c::TYPOWNER, Datum::Oid(BOOTSTRAP_ROLE))
        .set(c::TYPLEN, Datum::Int2(-1))
        .set(c::TYPISDEFINED, Datum::Bool(true))
        .set(c::TYPDELIM, Datum::Char(b','))
        .set(c::TYPALIGN, Datum::Char(b'd'))
        .set(c::TYPSTORAGE, Datum::Char(b'x'))
        .set(c::TYPTYPMOD, Datum::Int4(-1))
}

fn row_type(relation: &Relation) -> CatalogRow {
    use pg_type as c;
    type_row(relation.oid + ROW_TYPE, relation.name.to_owned())
        .set(c::TYPTYPE, Datum::Char(b'c'))
        .set(c::TYPCATEGORY, Datum::Char(b'C'))
        .set(c::TYPRELID, Datum::Oid(relation.oid + VIEW))
        .set(c::TYPARRAY, Datum::Oid(relation.oid + ARRAY_TYPE))
        .set(c::TYPINPUT, Datum::Oid(2290))
        .set(c::TYPOUTPUT, Datum::Oid(2291))
        .set(c::TYPRECEIVE, Datum::Oid(2402))
        .set(c::TYPSEND, Datum::Oid(2403))
        .done()
}

fn array_type(relation: &Relation) -> CatalogRow {
    use pg_type as c;
    type_row(relation.oid + ARRAY_TYPE, format!("_{}", relation.name))
        .set(c::TYPTYPE, Datum::Char(b'b'))
        .set(c::TYPCATEGORY, Datum::Char(b'A'))
        .set(c::TYPSUBSCRIPT, Datum::Oid(6179))
        .set(c::TYPELEM, Datum::Oid(relation.oid + ROW_TYPE))
        .set(c::TYPINPUT, Datum::Oid(750))
        .set(c::TYPOUTPUT, Datum::Oid(751))
        .set(c::TYPRECEIVE, Datum::Oid(2400))
        .set(c::TYPSEND, Datum::Oid(2401))
        .set(c::TYPANALYZE, Datum::Oid(3816))
        .done()
}

fn attributes(relation: &Relation) -> Vec<CatalogRow> {
    use pg_attribute as c;
    let row = |(position, (name, type_oid)): (usize, &(&str, Oid))| {
        let (length, by_value, align, storage) = match *type_oid {
            types::INT8 | types::TIMESTAMPTZ => (8, true, b'd', b'p'),
            types::INT4 | types::OID => (4, true, b'i', b'p'),
            types::BOOL => (1, true, b'c', b'p'),
            types::INTERVAL => (16, false, b'd', b'p'),
            types::NAME => (64, false, b'c', b'p'),
            _ => (-1, false, b'i', b'x'),
        };
        let collation = match *type_oid {
            types::NAME => 950,
            types::TEXT => 100,
            _ => 0,
        };
        Row::of(c::TABLE)
            .set(c::ATTRELID, Datum::Oid(relation.oid + VIEW))
            .set(c::ATTNAME, Datum::text(*name))
            .set(c::ATTTYPID, Datum::Oid(*type_oid))
            .set(c::ATTSTATTARGET, Datum::Int4(-1))
            .set(c::ATTLEN, Datum::Int2(length))
            .set(c::ATTNUM, Datum::Int2(position as i16 + 1))
            .set(c::ATTCACHEOFF, Datum::Int4(-1))
            .set(c::ATTTYPMOD, Datum::Int4(-1))
            .set(c::ATTBYVAL, Datum::Bool(by_value))
            .set(c::ATTALIGN, Datum::Char(align))
            .set(c::ATTSTORAGE, Datum::Char(storage))
            .set(c::ATTISLOCAL, Datum::Bool(true))
            .set(c::ATTCOLLATION, Datum::Oid(collation))
            .done()
    };
    relation.columns.iter().enumerate().map(row).collect()
}
