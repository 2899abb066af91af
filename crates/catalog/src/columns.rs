//! Column numbers (from 0) of the system catalogs, one module each, and the catalog's oid as `TABLE`.
//! Written by scripts/catalog-columns; do not edit.

pub mod pg_aggregate {
    pub const TABLE: u32 = 2600;
    pub const AGGFNOID: usize = 0;
    pub const AGGKIND: usize = 1;
    pub const AGGNUMDIRECTARGS: usize = 2;
    pub const AGGTRANSFN: usize = 3;
    pub const AGGFINALFN: usize = 4;
    pub const AGGCOMBINEFN: usize = 5;
    pub const AGGSERIALFN: usize = 6;
    pub const AGGDESERIALFN: usize = 7;
    pub const AGGMTRANSFN: usize = 8;
    pub const AGGMINVTRANSFN: usize = 9;
    pub const AGGMFINALFN: usize = 10;
    pub const AGGFINALEXTRA: usize = 11;
    pub const AGGMFINALEXTRA: usize = 12;
    pub const AGGFINALMODIFY: usize = 13;
    pub const AGGMFINALMODIFY: usize = 14;
    pub const AGGSORTOP: usize = 15;
    pub const AGGTRANSTYPE: usize = 16;
    pub const AGGTRANSSPACE: usize = 17;
    pub const AGGMTRANSTYPE: usize = 18;
    pub const AGGMTRANSSPACE: usize = 19;
    pub const AGGINITVAL: usize = 20;
    pub const AGGMINITVAL: usize = 21;
    pub const COLUMN_COUNT: usize = 22;
}

pub mod pg_am {
    pub const TABLE: u32 = 2601;
    pub const OID: usize = 0;
    pub const AMNAME: usize = 1;
    pub const AMHANDLER: usize = 2;
    pub const AMTYPE: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_amop {
    pub const TABLE: u32 = 2602;
    pub const OID: usize = 0;
    pub const AMOPFAMILY: usize = 1;
    pub const AMOPLEFTTYPE: usize = 2;
    pub const AMOPRIGHTTYPE: usize = 3;
    pub const AMOPSTRATEGY: usize = 4;
    pub const AMOPPURPOSE: usize = 5;
    pub const AMOPOPR: usize = 6;
    pub const AMOPMETHOD: usize = 7;
    pub const AMOPSORTFAMILY: usize = 8;
    pub const COLUMN_COUNT: usize = 9;
}

pub mod pg_amproc {
    pub const TABLE: u32 = 2603;
    pub const OID: usize = 0;
    pub const AMPROCFAMILY: usize = 1;
    pub const AMPROCLEFTTYPE: usize = 2;
    pub const AMPROCRIGHTTYPE: usize = 3;
    pub const AMPROCNUM: usize = 4;
    pub const AMPROC: usize = 5;
    pub const COLUMN_COUNT: usize = 6;
}

pub mod pg_attrdef {
    pub const TABLE: u32 = 2604;
    pub const OID: usize = 0;
    pub const ADRELID: usize = 1;
    pub const ADNUM: usize = 2;
    pub const ADBIN: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_attribute {
    pub const TABLE: u32 = 1249;
    pub const ATTRELID: usize = 0;
    pub const ATTNAME: usize = 1;
    pub const ATTTYPID: usize = 2;
    pub const ATTSTATTARGET: usize = 3;
    pub const ATTLEN: usize = 4;
    pub const ATTNUM: usize = 5;
    pub const ATTNDIMS: usize = 6;
    pub const ATTCACHEOFF: usize = 7;
    pub const ATTTYPMOD: usize = 8;
    pub const ATTBYVAL: usize = 9;
    pub const ATTALIGN: usize = 10;
    pub const ATTSTORAGE: usize = 11;
    pub const ATTCOMPRESSION: usize = 12;
    pub const ATTNOTNULL: usize = 13;
    pub const ATTHASDEF: usize = 14;
    pub const ATTHASMISSING: usize = 15;
    pub const ATTIDENTITY: usize = 16;
    pub const ATTGENERATED: usize = 17;
    pub const ATTISDROPPED: usize = 18;
    pub const ATTISLOCAL: usize = 19;
    pub const ATTINHCOUNT: usize = 20;
    pub const ATTCOLLATION: usize = 21;
    pub const ATTACL: usize = 22;
    pub const ATTOPTIONS: usize = 23;
    pub const ATTFDWOPTIONS: usize = 24;
    pub const ATTMISSINGVAL: usize = 25;
    pub const COLUMN_COUNT: usize = 26;
}

pub mod pg_auth_members {
    pub const TABLE: u32 = 1261;
    pub const ROLEID: usize = 0;
    pub const MEMBER: usize = 1;
    pub const GRANTOR: usize = 2;
    pub const ADMIN_OPTION: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_authid {
    pub const TABLE: u32 = 1260;
    pub const OID: usize = 0;
    pub const ROLNAME: usize = 1;
    pub const ROLSUPER: usize = 2;
    pub const ROLINHERIT: usize = 3;
    pub const ROLCREATEROLE: usize = 4;
    pub const ROLCREATEDB: usize = 5;
    pub const ROLCANLOGIN: usize = 6;
    pub const ROLREPLICATION: usize = 7;
    pub const ROLBYPASSRLS: usize = 8;
    pub const ROLCONNLIMIT: usize = 9;
    pub const ROLPASSWORD: usize = 10;
    pub const ROLVALIDUNTIL: usize = 11;
    pub const COLUMN_COUNT: usize = 12;
}

pub mod pg_cast {
    pub const TABLE: u32 = 2605;
    pub const OID: usize = 0;
    pub const CASTSOURCE: usize = 1;
    pub const CASTTARGET: usize = 2;
    pub const CASTFUNC: usize = 3;
    pub const CASTCONTEXT: usize = 4;
    pub const CASTMETHOD: usize = 5;
    pub const COLUMN_COUNT: usize = 6;
}

pub mod pg_class {
    pub const TABLE: u32 = 1259;
    pub const OID: usize = 0;
    pub const RELNAME: usize = 1;
    pub const RELNAMESPACE: usize = 2;
    pub const RELTYPE: usize = 3;
    pub const RELOFTYPE: usize = 4;
    pub const RELOWNER: usize = 5;
    pub const RELAM: usize = 6;
    pub const RELFILENODE: usize = 7;
    pub const RELTABLESPACE: usize = 8;
    pub const RELPAGES: usize = 9;
    pub const RELTUPLES: usize = 10;
    pub const RELALLVISIBLE: usize = 11;
    pub const RELTOASTRELID: usize = 12;
    pub const RELHASINDEX: usize = 13;
    pub const RELISSHARED: usize = 14;
    pub const RELPERSISTENCE: usize = 15;
    pub const RELKIND: usize = 16;
    pub const RELNATTS: usize = 17;
    pub const RELCHECKS: usize = 18;
    pub const RELHASRULES: usize = 19;
    pub const RELHASTRIGGERS: usize = 20;
    pub const RELHASSUBCLASS: usize = 21;
    pub const RELROWSECURITY: usize = 22;
    pub const RELFORCEROWSECURITY: usize = 23;
    pub const RELISPOPULATED: usize = 24;
    pub const RELREPLIDENT: usize = 25;
    pub const RELISPARTITION: usize = 26;
    pub const RELREWRITE: usize = 27;
    pub const RELFROZENXID: usize = 28;
    pub const RELMINMXID: usize = 29;
    pub const RELACL: usize = 30;
    pub const RELOPTIONS: usize = 31;
    pub const RELPARTBOUND: usize = 32;
    pub const COLUMN_COUNT: usize = 33;
}

pub mod pg_collation {
    pub const TABLE: u32 = 3456;
    pub const OID: usize = 0;
    pub const COLLNAME: usize = 1;
    pub const COLLNAMESPACE: usize = 2;
    pub const COLLOWNER: usize = 3;
    pub const COLLPROVIDER: usize = 4;
    pub const COLLISDETERMINISTIC: usize = 5;
    pub const COLLENCODING: usize = 6;
    pub const COLLCOLLATE: usize = 7;
    pub const COLLCTYPE: usize = 8;
    pub const COLLICULOCALE: usize = 9;
    pub const COLLVERSION: usize = 10;
    pub const COLUMN_COUNT: usize = 11;
}

pub mod pg_constraint {
    pub const TABLE: u32 = 2606;
    pub const OID: usize = 0;
    pub const CONNAME: usize = 1;
    pub const CONNAMESPACE: usize = 2;
    pub const CONTYPE: usize = 3;
    pub const CONDEFERRABLE: usize = 4;
    pub const CONDEFERRED: usize = 5;
    pub const CONVALIDATED: usize = 6;
    pub const CONRELID: usize = 7;
    pub const CONTYPID: usize = 8;
    pub const CONINDID: usize = 9;
    pub const CONPARENTID: usize = 10;
    pub const CONFRELID: usize = 11;
    pub const CONFUPDTYPE: usize = 12;
    pub const CONFDELTYPE: usize = 13;
    pub const CONFMATCHTYPE: usize = 14;
    pub const CONISLOCAL: usize = 15;
    pub const CONINHCOUNT: usize = 16;
    pub const CONNOINHERIT: usize = 17;
    pub const CONKEY: usize = 18;
    pub const CONFKEY: usize = 19;
    pub const CONPFEQOP: usize = 20;
    pub const CONPPEQOP: usize = 21;
    pub const CONFFEQOP: usize = 22;
    pub const CONFDELSETCOLS: usize = 23;
    pub const CONEXCLOP: usize = 24;
    pub const CONBIN: usize = 25;
    pub const COLUMN_COUNT: usize = 26;
}

pub mod pg_conversion {
    pub const TABLE: u32 = 2607;
    pub const OID: usize = 0;
    pub const CONNAME: usize = 1;
    pub const CONNAMESPACE: usize = 2;
    pub const CONOWNER: usize = 3;
    pub const CONFORENCODING: usize = 4;
    pub const CONTOENCODING: usize = 5;
    pub const CONPROC: usize = 6;
    pub const CONDEFAULT: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_database {
    pub const TABLE: u32 = 1262;
    pub const OID: usize = 0;
    pub const DATNAME: usize = 1;
    pub const DATDBA: usize = 2;
    pub const ENCODING: usize = 3;
    pub const DATLOCPROVIDER: usize = 4;
    pub const DATISTEMPLATE: usize = 5;
    pub const DATALLOWCONN: usize = 6;
    pub const DATCONNLIMIT: usize = 7;
    pub const DATFROZENXID: usize = 8;
    pub const DATMINMXID: usize = 9;
    pub const DATTABLESPACE: usize = 10;
    pub const DATCOLLATE: usize = 11;
    pub const DATCTYPE: usize = 12;
    pub const DATICULOCALE: usize = 13;
    pub const DATCOLLVERSION: usize = 14;
    pub const DATACL: usize = 15;
    pub const COLUMN_COUNT: usize = 16;
}

pub mod pg_db_role_setting {
    pub const TABLE: u32 = 2964;
    pub const SETDATABASE: usize = 0;
    pub const SETROLE: usize = 1;
    pub const SETCONFIG: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_default_acl {
    pub const TABLE: u32 = 826;
    pub const OID: usize = 0;
    pub const DEFACLROLE: usize = 1;
    pub const DEFACLNAMESPACE: usize = 2;
    pub const DEFACLOBJTYPE: usize = 3;
    pub const DEFACLACL: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_depend {
    pub const TABLE: u32 = 2608;
    pub const CLASSID: usize = 0;
    pub const OBJID: usize = 1;
    pub const OBJSUBID: usize = 2;
    pub const REFCLASSID: usize = 3;
    pub const REFOBJID: usize = 4;
    pub const REFOBJSUBID: usize = 5;
    pub const DEPTYPE: usize = 6;
    pub const COLUMN_COUNT: usize = 7;
}

pub mod pg_description {
    pub const TABLE: u32 = 2609;
    pub const OBJOID: usize = 0;
    pub const CLASSOID: usize = 1;
    pub const OBJSUBID: usize = 2;
    pub const DESCRIPTION: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_enum {
    pub const TABLE: u32 = 3501;
    pub const OID: usize = 0;
    pub const ENUMTYPID: usize = 1;
    pub const ENUMSORTORDER: usize = 2;
    pub const ENUMLABEL: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_event_trigger {
    pub const TABLE: u32 = 3466;
    pub const OID: usize = 0;
    pub const EVTNAME: usize = 1;
    pub const EVTEVENT: usize = 2;
    pub const EVTOWNER: usize = 3;
    pub const EVTFOID: usize = 4;
    pub const EVTENABLED: usize = 5;
    pub const EVTTAGS: usize = 6;
    pub const COLUMN_COUNT: usize = 7;
}

pub mod pg_extension {
    pub const TABLE: u32 = 3079;
    pub const OID: usize = 0;
    pub const EXTNAME: usize = 1;
    pub const EXTOWNER: usize = 2;
    pub const EXTNAMESPACE: usize = 3;
    pub const EXTRELOCATABLE: usize = 4;
    pub const EXTVERSION: usize = 5;
    pub const EXTCONFIG: usize = 6;
    pub const EXTCONDITION: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_foreign_data_wrapper {
    pub const TABLE: u32 = 2328;
    pub const OID: usize = 0;
    pub const FDWNAME: usize = 1;
    pub const FDWOWNER: usize = 2;
    pub const FDWHANDLER: usize = 3;
    pub const FDWVALIDATOR: usize = 4;
    pub const FDWACL: usize = 5;
    pub const FDWOPTIONS: usize = 6;
    pub const COLUMN_COUNT: usize = 7;
}

pub mod pg_foreign_server {
    pub const TABLE: u32 = 1417;
    pub const OID: usize = 0;
    pub const SRVNAME: usize = 1;
    pub const SRVOWNER: usize = 2;
    pub const SRVFDW: usize = 3;
    pub const SRVTYPE: usize = 4;
    pub const SRVVERSION: usize = 5;
    pub const SRVACL: usize = 6;
    pub const SRVOPTIONS: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_foreign_table {
    pub const TABLE: u32 = 3118;
    pub const FTRELID: usize = 0;
    pub const FTSERVER: usize = 1;
    pub const FTOPTIONS: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_index {
    pub const TABLE: u32 = 2610;
    pub const INDEXRELID: usize = 0;
    pub const INDRELID: usize = 1;
    pub const INDNATTS: usize = 2;
    pub const INDNKEYATTS: usize = 3;
    pub const INDISUNIQUE: usize = 4;
    pub const INDNULLSNOTDISTINCT: usize = 5;
    pub const INDISPRIMARY: usize = 6;
    pub const INDISEXCLUSION: usize = 7;
    pub const INDIMMEDIATE: usize = 8;
    pub const INDISCLUSTERED: usize = 9;
    pub const INDISVALID: usize = 10;
    pub const INDCHECKXMIN: usize = 11;
    pub const INDISREADY: usize = 12;
    pub const INDISLIVE: usize = 13;
    pub const INDISREPLIDENT: usize = 14;
    pub const INDKEY: usize = 15;
    pub const INDCOLLATION: usize = 16;
    pub const INDCLASS: usize = 17;
    pub const INDOPTION: usize = 18;
    pub const INDEXPRS: usize = 19;
    pub const INDPRED: usize = 20;
    pub const COLUMN_COUNT: usize = 21;
}

pub mod pg_inherits {
    pub const TABLE: u32 = 2611;
    pub const INHRELID: usize = 0;
    pub const INHPARENT: usize = 1;
    pub const INHSEQNO: usize = 2;
    pub const INHDETACHPENDING: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_init_privs {
    pub const TABLE: u32 = 3394;
    pub const OBJOID: usize = 0;
    pub const CLASSOID: usize = 1;
    pub const OBJSUBID: usize = 2;
    pub const PRIVTYPE: usize = 3;
    pub const INITPRIVS: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_language {
    pub const TABLE: u32 = 2612;
    pub const OID: usize = 0;
    pub const LANNAME: usize = 1;
    pub const LANOWNER: usize = 2;
    pub const LANISPL: usize = 3;
    pub const LANPLTRUSTED: usize = 4;
    pub const LANPLCALLFOID: usize = 5;
    pub const LANINLINE: usize = 6;
    pub const LANVALIDATOR: usize = 7;
    pub const LANACL: usize = 8;
    pub const COLUMN_COUNT: usize = 9;
}

pub mod pg_largeobject {
    pub const TABLE: u32 = 2613;
    pub const LOID: usize = 0;
    pub const PAGENO: usize = 1;
    pub const DATA: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_largeobject_metadata {
    pub const TABLE: u32 = 2995;
    pub const OID: usize = 0;
    pub const LOMOWNER: usize = 1;
    pub const LOMACL: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_namespace {
    pub const TABLE: u32 = 2615;
    pub const OID: usize = 0;
    pub const NSPNAME: usize = 1;
    pub const NSPOWNER: usize = 2;
    pub const NSPACL: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_opclass {
    pub const TABLE: u32 = 2616;
    pub const OID: usize = 0;
    pub const OPCMETHOD: usize = 1;
    pub const OPCNAME: usize = 2;
    pub const OPCNAMESPACE: usize = 3;
    pub const OPCOWNER: usize = 4;
    pub const OPCFAMILY: usize = 5;
    pub const OPCINTYPE: usize = 6;
    pub const OPCDEFAULT: usize = 7;
    pub const OPCKEYTYPE: usize = 8;
    pub const COLUMN_COUNT: usize = 9;
}

pub mod pg_operator {
    pub const TABLE: u32 = 2617;
    pub const OID: usize = 0;
    pub const OPRNAME: usize = 1;
    pub const OPRNAMESPACE: usize = 2;
    pub const OPROWNER: usize = 3;
    pub const OPRKIND: usize = 4;
    pub const OPRCANMERGE: usize = 5;
    pub const OPRCANHASH: usize = 6;
    pub const OPRLEFT: usize = 7;
    pub const OPRRIGHT: usize = 8;
    pub const OPRRESULT: usize = 9;
    pub const OPRCOM: usize = 10;
    pub const OPRNEGATE: usize = 11;
    pub const OPRCODE: usize = 12;
    pub const OPRREST: usize = 13;
    pub const OPRJOIN: usize = 14;
    pub const COLUMN_COUNT: usize = 15;
}

pub mod pg_opfamily {
    pub const TABLE: u32 = 2753;
    pub const OID: usize = 0;
    pub const OPFMETHOD: usize = 1;
    pub const OPFNAME: usize = 2;
    pub const OPFNAMESPACE: usize = 3;
    pub const OPFOWNER: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_parameter_acl {
    pub const TABLE: u32 = 6243;
    pub const OID: usize = 0;
    pub const PARNAME: usize = 1;
    pub const PARACL: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_partitioned_table {
    pub const TABLE: u32 = 3350;
    pub const PARTRELID: usize = 0;
    pub const PARTSTRAT: usize = 1;
    pub const PARTNATTS: usize = 2;
    pub const PARTDEFID: usize = 3;
    pub const PARTATTRS: usize = 4;
    pub const PARTCLASS: usize = 5;
    pub const PARTCOLLATION: usize = 6;
    pub const PARTEXPRS: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_policy {
    pub const TABLE: u32 = 3256;
    pub const OID: usize = 0;
    pub const POLNAME: usize = 1;
    pub const POLRELID: usize = 2;
    pub const POLCMD: usize = 3;
    pub const POLPERMISSIVE: usize = 4;
    pub const POLROLES: usize = 5;
    pub const POLQUAL: usize = 6;
    pub const POLWITHCHECK: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_proc {
    pub const TABLE: u32 = 1255;
    pub const OID: usize = 0;
    pub const PRONAME: usize = 1;
    pub const PRONAMESPACE: usize = 2;
    pub const PROOWNER: usize = 3;
    pub const PROLANG: usize = 4;
    pub const PROCOST: usize = 5;
    pub const PROROWS: usize = 6;
    pub const PROVARIADIC: usize = 7;
    pub const PROSUPPORT: usize = 8;
    pub const PROKIND: usize = 9;
    pub const PROSECDEF: usize = 10;
    pub const PROLEAKPROOF: usize = 11;
    pub const PROISSTRICT: usize = 12;
    pub const PRORETSET: usize = 13;
    pub const PROVOLATILE: usize = 14;
    pub const PROPARALLEL: usize = 15;
    pub const PRONARGS: usize = 16;
    pub const PRONARGDEFAULTS: usize = 17;
    pub const PRORETTYPE: usize = 18;
    pub const PROARGTYPES: usize = 19;
    pub const PROALLARGTYPES: usize = 20;
    pub const PROARGMODES: usize = 21;
    pub const PROARGNAMES: usize = 22;
    pub const PROARGDEFAULTS: usize = 23;
    pub const PROTRFTYPES: usize = 24;
    pub const PROSRC: usize = 25;
    pub const PROBIN: usize = 26;
    pub const PROSQLBODY: usize = 27;
    pub const PROCONFIG: usize = 28;
    pub const PROACL: usize = 29;
    pub const COLUMN_COUNT: usize = 30;
}

pub mod pg_publication {
    pub const TABLE: u32 = 6104;
    pub const OID: usize = 0;
    pub const PUBNAME: usize = 1;
    pub const PUBOWNER: usize = 2;
    pub const PUBALLTABLES: usize = 3;
    pub const PUBINSERT: usize = 4;
    pub const PUBUPDATE: usize = 5;
    pub const PUBDELETE: usize = 6;
    pub const PUBTRUNCATE: usize = 7;
    pub const PUBVIAROOT: usize = 8;
    pub const COLUMN_COUNT: usize = 9;
}

pub mod pg_publication_namespace {
    pub const TABLE: u32 = 6237;
    pub const OID: usize = 0;
    pub const PNPUBID: usize = 1;
    pub const PNNSPID: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_publication_rel {
    pub const TABLE: u32 = 6106;
    pub const OID: usize = 0;
    pub const PRPUBID: usize = 1;
    pub const PRRELID: usize = 2;
    pub const PRQUAL: usize = 3;
    pub const PRATTRS: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_range {
    pub const TABLE: u32 = 3541;
    pub const RNGTYPID: usize = 0;
    pub const RNGSUBTYPE: usize = 1;
    pub const RNGMULTITYPID: usize = 2;
    pub const RNGCOLLATION: usize = 3;
    pub const RNGSUBOPC: usize = 4;
    pub const RNGCANONICAL: usize = 5;
    pub const RNGSUBDIFF: usize = 6;
    pub const COLUMN_COUNT: usize = 7;
}

pub mod pg_replication_origin {
    pub const TABLE: u32 = 6000;
    pub const ROIDENT: usize = 0;
    pub const RONAME: usize = 1;
    pub const COLUMN_COUNT: usize = 2;
}

pub mod pg_rewrite {
    pub const TABLE: u32 = 2618;
    pub const OID: usize = 0;
    pub const RULENAME: usize = 1;
    pub const EV_CLASS: usize = 2;
    pub const EV_TYPE: usize = 3;
    pub const EV_ENABLED: usize = 4;
    pub const IS_INSTEAD: usize = 5;
    pub const EV_QUAL: usize = 6;
    pub const EV_ACTION: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_seclabel {
    pub const TABLE: u32 = 3596;
    pub const OBJOID: usize = 0;
    pub const CLASSOID: usize = 1;
    pub const OBJSUBID: usize = 2;
    pub const PROVIDER: usize = 3;
    pub const LABEL: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_sequence {
    pub const TABLE: u32 = 2224;
    pub const SEQRELID: usize = 0;
    pub const SEQTYPID: usize = 1;
    pub const SEQSTART: usize = 2;
    pub const SEQINCREMENT: usize = 3;
    pub const SEQMAX: usize = 4;
    pub const SEQMIN: usize = 5;
    pub const SEQCACHE: usize = 6;
    pub const SEQCYCLE: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_shdepend {
    pub const TABLE: u32 = 1214;
    pub const DBID: usize = 0;
    pub const CLASSID: usize = 1;
    pub const OBJID: usize = 2;
    pub const OBJSUBID: usize = 3;
    pub const REFCLASSID: usize = 4;
    pub const REFOBJID: usize = 5;
    pub const DEPTYPE: usize = 6;
    pub const COLUMN_COUNT: usize = 7;
}

pub mod pg_shdescription {
    pub const TABLE: u32 = 2396;
    pub const OBJOID: usize = 0;
    pub const CLASSOID: usize = 1;
    pub const DESCRIPTION: usize = 2;
    pub const COLUMN_COUNT: usize = 3;
}

pub mod pg_shseclabel {
    pub const TABLE: u32 = 3592;
    pub const OBJOID: usize = 0;
    pub const CLASSOID: usize = 1;
    pub const PROVIDER: usize = 2;
    pub const LABEL: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_statistic {
    pub const TABLE: u32 = 2619;
    pub const STARELID: usize = 0;
    pub const STAATTNUM: usize = 1;
    pub const STAINHERIT: usize = 2;
    pub const STANULLFRAC: usize = 3;
    pub const STAWIDTH: usize = 4;
    pub const STADISTINCT: usize = 5;
    pub const STAKIND1: usize = 6;
    pub const STAKIND2: usize = 7;
    pub const STAKIND3: usize = 8;
    pub const STAKIND4: usize = 9;
    pub const STAKIND5: usize = 10;
    pub const STAOP1: usize = 11;
    pub const STAOP2: usize = 12;
    pub const STAOP3: usize = 13;
    pub const STAOP4: usize = 14;
    pub const STAOP5: usize = 15;
    pub const STACOLL1: usize = 16;
    pub const STACOLL2: usize = 17;
    pub const STACOLL3: usize = 18;
    pub const STACOLL4: usize = 19;
    pub const STACOLL5: usize = 20;
    pub const STANUMBERS1: usize = 21;
    pub const STANUMBERS2: usize = 22;
    pub const STANUMBERS3: usize = 23;
    pub const STANUMBERS4: usize = 24;
    pub const STANUMBERS5: usize = 25;
    pub const STAVALUES1: usize = 26;
    pub const STAVALUES2: usize = 27;
    pub const STAVALUES3: usize = 28;
    pub const STAVALUES4: usize = 29;
    pub const STAVALUES5: usize = 30;
    pub const COLUMN_COUNT: usize = 31;
}

pub mod pg_statistic_ext {
    pub const TABLE: u32 = 3381;
    pub const OID: usize = 0;
    pub const STXRELID: usize = 1;
    pub const STXNAME: usize = 2;
    pub const STXNAMESPACE: usize = 3;
    pub const STXOWNER: usize = 4;
    pub const STXSTATTARGET: usize = 5;
    pub const STXKEYS: usize = 6;
    pub const STXKIND: usize = 7;
    pub const STXEXPRS: usize = 8;
    pub const COLUMN_COUNT: usize = 9;
}

pub mod pg_statistic_ext_data {
    pub const TABLE: u32 = 3429;
    pub const STXOID: usize = 0;
    pub const STXDINHERIT: usize = 1;
    pub const STXDNDISTINCT: usize = 2;
    pub const STXDDEPENDENCIES: usize = 3;
    pub const STXDMCV: usize = 4;
    pub const STXDEXPR: usize = 5;
    pub const COLUMN_COUNT: usize = 6;
}

pub mod pg_subscription {
    pub const TABLE: u32 = 6100;
    pub const OID: usize = 0;
    pub const SUBDBID: usize = 1;
    pub const SUBSKIPLSN: usize = 2;
    pub const SUBNAME: usize = 3;
    pub const SUBOWNER: usize = 4;
    pub const SUBENABLED: usize = 5;
    pub const SUBBINARY: usize = 6;
    pub const SUBSTREAM: usize = 7;
    pub const SUBTWOPHASESTATE: usize = 8;
    pub const SUBDISABLEONERR: usize = 9;
    pub const SUBCONNINFO: usize = 10;
    pub const SUBSLOTNAME: usize = 11;
    pub const SUBSYNCCOMMIT: usize = 12;
    pub const SUBPUBLICATIONS: usize = 13;
    pub const COLUMN_COUNT: usize = 14;
}

pub mod pg_subscription_rel {
    pub const TABLE: u32 = 6102;
    pub const SRSUBID: usize = 0;
    pub const SRRELID: usize = 1;
    pub const SRSUBSTATE: usize = 2;
    pub const SRSUBLSN: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_tablespace {
    pub const TABLE: u32 = 1213;
    pub const OID: usize = 0;
    pub const SPCNAME: usize = 1;
    pub const SPCOWNER: usize = 2;
    pub const SPCACL: usize = 3;
    pub const SPCOPTIONS: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_transform {
    pub const TABLE: u32 = 3576;
    pub const OID: usize = 0;
    pub const TRFTYPE: usize = 1;
    pub const TRFLANG: usize = 2;
    pub const TRFFROMSQL: usize = 3;
    pub const TRFTOSQL: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_trigger {
    pub const TABLE: u32 = 2620;
    pub const OID: usize = 0;
    pub const TGRELID: usize = 1;
    pub const TGPARENTID: usize = 2;
    pub const TGNAME: usize = 3;
    pub const TGFOID: usize = 4;
    pub const TGTYPE: usize = 5;
    pub const TGENABLED: usize = 6;
    pub const TGISINTERNAL: usize = 7;
    pub const TGCONSTRRELID: usize = 8;
    pub const TGCONSTRINDID: usize = 9;
    pub const TGCONSTRAINT: usize = 10;
    pub const TGDEFERRABLE: usize = 11;
    pub const TGINITDEFERRED: usize = 12;
    pub const TGNARGS: usize = 13;
    pub const TGATTR: usize = 14;
    pub const TGARGS: usize = 15;
    pub const TGQUAL: usize = 16;
    pub const TGOLDTABLE: usize = 17;
    pub const TGNEWTABLE: usize = 18;
    pub const COLUMN_COUNT: usize = 19;
}

pub mod pg_ts_config {
    pub const TABLE: u32 = 3602;
    pub const OID: usize = 0;
    pub const CFGNAME: usize = 1;
    pub const CFGNAMESPACE: usize = 2;
    pub const CFGOWNER: usize = 3;
    pub const CFGPARSER: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_ts_config_map {
    pub const TABLE: u32 = 3603;
    pub const MAPCFG: usize = 0;
    pub const MAPTOKENTYPE: usize = 1;
    pub const MAPSEQNO: usize = 2;
    pub const MAPDICT: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}

pub mod pg_ts_dict {
    pub const TABLE: u32 = 3600;
    pub const OID: usize = 0;
    pub const DICTNAME: usize = 1;
    pub const DICTNAMESPACE: usize = 2;
    pub const DICTOWNER: usize = 3;
    pub const DICTTEMPLATE: usize = 4;
    pub const DICTINITOPTION: usize = 5;
    pub const COLUMN_COUNT: usize = 6;
}

pub mod pg_ts_parser {
    pub const TABLE: u32 = 3601;
    pub const OID: usize = 0;
    pub const PRSNAME: usize = 1;
    pub const PRSNAMESPACE: usize = 2;
    pub const PRSSTART: usize = 3;
    pub const PRSTOKEN: usize = 4;
    pub const PRSEND: usize = 5;
    pub const PRSHEADLINE: usize = 6;
    pub const PRSLEXTYPE: usize = 7;
    pub const COLUMN_COUNT: usize = 8;
}

pub mod pg_ts_template {
    pub const TABLE: u32 = 3764;
    pub const OID: usize = 0;
    pub const TMPLNAME: usize = 1;
    pub const TMPLNAMESPACE: usize = 2;
    pub const TMPLINIT: usize = 3;
    pub const TMPLLEXIZE: usize = 4;
    pub const COLUMN_COUNT: usize = 5;
}

pub mod pg_type {
    pub const TABLE: u32 = 1247;
    pub const OID: usize = 0;
    pub const TYPNAME: usize = 1;
    pub const TYPNAMESPACE: usize = 2;
    pub const TYPOWNER: usize = 3;
    pub const TYPLEN: usize = 4;
    pub const TYPBYVAL: usize = 5;
    pub const TYPTYPE: usize = 6;
    pub const TYPCATEGORY: usize = 7;
    pub const TYPISPREFERRED: usize = 8;
    pub const TYPISDEFINED: usize = 9;
    pub const TYPDELIM: usize = 10;
    pub const TYPRELID: usize = 11;
    pub const TYPSUBSCRIPT: usize = 12;
    pub const TYPELEM: usize = 13;
    pub const TYPARRAY: usize = 14;
    pub const TYPINPUT: usize = 15;
    pub const TYPOUTPUT: usize = 16;
    pub const TYPRECEIVE: usize = 17;
    pub const TYPSEND: usize = 18;
    pub const TYPMODIN: usize = 19;
    pub const TYPMODOUT: usize = 20;
    pub const TYPANALYZE: usize = 21;
    pub const TYPALIGN: usize = 22;
    pub const TYPSTORAGE: usize = 23;
    pub const TYPNOTNULL: usize = 24;
    pub const TYPBASETYPE: usize = 25;
    pub const TYPTYPMOD: usize = 26;
    pub const TYPNDIMS: usize = 27;
    pub const TYPCOLLATION: usize = 28;
    pub const TYPDEFAULTBIN: usize = 29;
    pub const TYPDEFAULT: usize = 30;
    pub const TYPACL: usize = 31;
    pub const COLUMN_COUNT: usize = 32;
}

pub mod pg_user_mapping {
    pub const TABLE: u32 = 1418;
    pub const OID: usize = 0;
    pub const UMUSER: usize = 1;
    pub const UMSERVER: usize = 2;
    pub const UMOPTIONS: usize = 3;
    pub const COLUMN_COUNT: usize = 4;
}
