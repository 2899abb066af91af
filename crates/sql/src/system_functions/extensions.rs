//! The extensions that `create extension` accepts: their functions are built in, or they need none.

pub struct Extension {
    pub name: &'static str,
    pub version: &'static str,
    pub comment: &'static str,
}

/// By name.
pub const AVAILABLE: &[Extension] = &[
    Extension { name: "btree_gin", version: "1.3", comment: "support for indexing common datatypes in GIN" },
    Extension {
        name: "btree_gist",
        version: "1.7",
        comment: "support for indexing common datatypes in GiST",
    },
    Extension {
        name: "orafce",
        version: "4.9",
        comment: "functions and operators that emulate another database",
    },
    Extension {
        name: "pg_stat_statements",
        version: "1.10",
        comment: "track planning and execution statistics of all SQL statements executed",
    },
    Extension { name: "pgcrypto", version: "1.3", comment: "cryptographic functions" },
    Extension { name: "plpgsql", version: "1.0", comment: "PL/pgSQL procedural language" },
    Extension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
    },
];
