//! The extensions that `create extension` accepts: those whose content Cairn has built in.

pub struct Extension {
    pub name: &'static str,
    pub version: &'static str,
    pub comment: &'static str,
}

/// By name.
pub const AVAILABLE: &[Extension] = &[
    Extension {
        name: "orafce",
        version: "4.9",
        comment: "functions and operators that emulate another database",
    },
    Extension { name: "plpgsql", version: "1.0", comment: "PL/pgSQL procedural language" },
];

/// Those that come with PostgreSQL 15 and have no content here yet.
pub const MISSING: &[&str] = &[
    "adminpack",
    "amcheck",
    "autoinc",
    "bloom",
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "dblink",
    "dict_int",
    "dict_xsyn",
    "earthdistance",
    "file_fdw",
    "fuzzystrmatch",
    "hstore",
    "insert_username",
    "intagg",
    "intarray",
    "isn",
    "lo",
    "ltree",
    "moddatetime",
    "old_snapshot",
    "pageinspect",
    "pg_buffercache",
    "pg_freespacemap",
    "pg_prewarm",
    "pg_stat_statements",
    "pg_surgery",
    "pg_trgm",
    "pg_visibility",
    "pg_walinspect",
    "pgcrypto",
    "pgrowlocks",
    "pgstattuple",
    "postgres_fdw",
    "refint",
    "seg",
    "sslinfo",
    "tablefunc",
    "tcn",
    "tsm_system_rows",
    "tsm_system_time",
    "unaccent",
    "uuid-ossp",
    "xml2",
];
