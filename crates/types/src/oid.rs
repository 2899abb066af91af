//! PostgreSQL's object identifiers that the code itself refers to. All others live in the catalog data.

/// An object identifier; 0 means none. User objects start at [`FIRST_USER_OID`].
pub type Oid = u32;

pub const INVALID_OID: Oid = 0;
pub const FIRST_USER_OID: Oid = 16384;

macro_rules! oids {
    ($($name:ident = $oid:literal;)*) => { $(pub const $name: Oid = $oid;)* };
}

/// Type oids (pg_type); the array type of `X` is `X_ARRAY`.
pub mod types {
    use super::Oid;
    oids! {
        BOOL = 16; BYTEA = 17; CHAR = 18; NAME = 19; INT8 = 20; INT2 = 21; INT2VECTOR = 22; INT4 = 23;
        REGPROC = 24; TEXT = 25; OID = 26; TID = 27; XID = 28; CID = 29; OIDVECTOR = 30;
        PG_TYPE = 71; PG_ATTRIBUTE = 75; PG_PROC = 81; PG_CLASS = 83; JSON = 114; XML = 142; PG_NODE_TREE = 194;
        POINT = 600; FLOAT4 = 700; FLOAT8 = 701; UNKNOWN = 705; MONEY = 790; MACADDR = 829; INET = 869; CIDR = 650;
        ACLITEM = 1033; BPCHAR = 1042; VARCHAR = 1043; DATE = 1082; TIME = 1083; TIMESTAMP = 1114;
        TIMESTAMPTZ = 1184; INTERVAL = 1186; TIMETZ = 1266; BIT = 1560; VARBIT = 1562; NUMERIC = 1700;
        REFCURSOR = 1790; REGPROCEDURE = 2202; REGOPER = 2203; REGOPERATOR = 2204; REGCLASS = 2205; REGTYPE = 2206;
        RECORD = 2249; CSTRING = 2275; ANY = 2276; ANYARRAY = 2277; VOID = 2278; TRIGGER = 2279;
        LANGUAGE_HANDLER = 2280; INTERNAL = 2281; ANYELEMENT = 2283; ANYNONARRAY = 2776; UUID = 2950; ANYENUM = 3500;
        TSVECTOR = 3614; TSQUERY = 3615; REGCONFIG = 3734; REGDICTIONARY = 3769; JSONB = 3802; ANYRANGE = 3831;
        JSONPATH = 4072; REGNAMESPACE = 4089; REGROLE = 4096; REGCOLLATION = 4191; PG_LSN = 3220; XID8 = 5069;
        ANYMULTIRANGE = 4537; ANYCOMPATIBLE = 5077; ANYCOMPATIBLEARRAY = 5078; ANYCOMPATIBLENONARRAY = 5079;
        ANYCOMPATIBLERANGE = 5080; ANYCOMPATIBLEMULTIRANGE = 4538;
        BOOL_ARRAY = 1000; BYTEA_ARRAY = 1001; CHAR_ARRAY = 1002; NAME_ARRAY = 1003; INT2_ARRAY = 1005;
        INT4_ARRAY = 1007; TEXT_ARRAY = 1009; BPCHAR_ARRAY = 1014; VARCHAR_ARRAY = 1015; INT8_ARRAY = 1016;
        FLOAT4_ARRAY = 1021; FLOAT8_ARRAY = 1022; OID_ARRAY = 1028; ACLITEM_ARRAY = 1034; TIMESTAMP_ARRAY = 1115;
        DATE_ARRAY = 1182; TIME_ARRAY = 1183; TIMESTAMPTZ_ARRAY = 1185; INTERVAL_ARRAY = 1187; NUMERIC_ARRAY = 1231;
        CSTRING_ARRAY = 1263; RECORD_ARRAY = 2287; UUID_ARRAY = 2951; JSON_ARRAY = 199; JSONB_ARRAY = 3807;
        REGCLASS_ARRAY = 2210; REGTYPE_ARRAY = 2211;
    }
}

/// Collation oids (pg_collation).
pub mod collations {
    use super::Oid;
    oids! { DEFAULT = 100; C = 950; POSIX = 951; }
}

/// Namespace oids (pg_namespace).
pub mod namespaces {
    use super::Oid;
    oids! { PG_CATALOG = 11; PG_TOAST = 99; PUBLIC = 2200; INFORMATION_SCHEMA = 13207; CAIRN = 15000; }
}

/// Language oids (pg_language).
pub mod languages {
    use super::Oid;
    oids! { INTERNAL = 12; C = 13; SQL = 14; PLPGSQL = 13563; }
}

/// Oids of system catalogs (pg_class), also used as `classid` in pg_depend and pg_description.
pub mod catalogs {
    use super::Oid;
    oids! {
        PG_TYPE = 1247; PG_ATTRIBUTE = 1249; PG_PROC = 1255; PG_CLASS = 1259; PG_DATABASE = 1262; PG_AUTHID = 1260;
        PG_ATTRDEF = 2604; PG_CONSTRAINT = 2606; PG_INDEX = 2610; PG_NAMESPACE = 2615; PG_REWRITE = 2618;
        PG_DEPEND = 2608; PG_DESCRIPTION = 2609; PG_ENUM = 3501; PG_SEQUENCE = 2224; PG_INHERITS = 2611;
        PG_EXTENSION = 3079; PG_TRIGGER = 2620; PG_COLLATION = 3456; PG_LANGUAGE = 2612; PG_OPERATOR = 2617;
        PG_OPCLASS = 2616; PG_AM = 2601; PG_CAST = 2605; PG_AGGREGATE = 2600;
    }
}

/// Access method oids (pg_am).
pub mod access_methods {
    use super::Oid;
    oids! { HEAP = 2; BTREE = 403; HASH = 405; }
}

/// The role that owns everything built in (pg_authid).
pub const BOOTSTRAP_ROLE: Oid = 10;
