//! Catalog objects in the form that name resolution, planning and execution use.
//!
//! Each is built from rows of the system catalogs: built-in rows come with Cairn (facts of PostgreSQL 15, in
//! `data/`), the others are versioned rows of the store, written by DDL inside its transaction. A
//! [`Catalog`](crate::Catalog) is an immutable picture of all of them at one time.

use std::sync::Arc;

use cairn_txn::StorageId;
use cairn_types::{Datum, EnumValue, Oid, Text};

/// A column's or expression's type with its modifier (-1: none) and collation (0: not collatable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef {
    pub oid: Oid,
    pub typmod: i32,
    pub collation: Oid,
}

/// pg_type.typtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Base,
    Composite,
    Domain,
    Enum,
    Pseudo,
    Range,
    Multirange,
}

#[derive(Clone, Debug)]
pub struct Type {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    pub owner: Oid,
    pub kind: TypeKind,
    /// pg_type.typcategory, for example b'N' for numeric types.
    pub category: u8,
    pub preferred: bool,
    /// False while only `create type name` was said.
    pub defined: bool,
    pub length: i16,
    pub by_value: bool,
    pub delimiter: u8,
    /// pg_class row of a composite type.
    pub relation: Oid,
    /// Element type, for arrays and subscriptable types.
    pub element: Oid,
    pub array: Oid,
    /// prosrc-independent: oids of the I/O functions.
    pub input: Oid,
    pub output: Oid,
    pub receive: Oid,
    pub send: Oid,
    pub typmod_in: Oid,
    pub typmod_out: Oid,
    pub collation: Oid,
    /// Domains: base type, its modifier, NOT NULL, default (SQL text), checks.
    pub base: Oid,
    pub base_typmod: i32,
    pub not_null: bool,
    pub default: Option<Text>,
    pub checks: Vec<Arc<Constraint>>,
    /// Enums: labels in sort order.
    pub labels: Vec<EnumLabel>,
}

#[derive(Clone, Debug)]
pub struct EnumLabel {
    pub value: EnumValue,
    pub label: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcKind {
    Function,
    Procedure,
    Aggregate,
    Window,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

/// pg_proc.proargmodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgMode {
    In,
    Out,
    InOut,
    Variadic,
    Table,
}

#[derive(Clone, Debug)]
pub struct Proc {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    pub owner: Oid,
    pub language: Oid,
    pub kind: ProcKind,
    pub strict: bool,
    pub returns_set: bool,
    pub volatility: Volatility,
    pub security_definer: bool,
    pub return_type: Oid,
    /// Types of the input arguments (IN, INOUT, VARIADIC), which resolution matches.
    pub arg_types: Vec<Oid>,
    /// Element type of the variadic argument; 0 if none.
    pub variadic: Oid,
    /// All arguments' types, modes and names; empty where all are IN (types) or unnamed.
    pub all_arg_types: Vec<Oid>,
    pub arg_modes: Vec<ArgMode>,
    pub arg_names: Vec<Text>,
    /// Defaults (SQL text) of the last so many input arguments.
    pub arg_defaults: Vec<Text>,
    /// Internal functions: the body's name. SQL and plpgsql: the source text.
    pub source: Text,
    /// SQL-standard bodies (`begin atomic`, `return`): canonical SQL text.
    pub sql_body: Option<Text>,
    /// `set name = value` clauses.
    pub config: Vec<(Text, Text)>,
}

#[derive(Clone, Debug)]
pub struct Operator {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    /// 0 for a prefix operator.
    pub left: Oid,
    pub right: Oid,
    pub result: Oid,
    pub code: Oid,
    pub commutator: Oid,
    pub negator: Oid,
    pub can_hash: bool,
    pub can_merge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastContext {
    Implicit,
    Assignment,
    Explicit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastMethod {
    Function(Oid),
    Binary,
    InOut,
}

#[derive(Clone, Copy, Debug)]
pub struct Cast {
    pub source: Oid,
    pub target: Oid,
    pub context: CastContext,
    pub method: CastMethod,
}

/// pg_aggregate; the accumulator's code is found by the function's oid.
#[derive(Clone, Debug)]
pub struct Aggregate {
    pub function: Oid,
    /// b'n' normal, b'o' ordered-set, b'h' hypothetical-set.
    pub kind: u8,
    pub direct_args: i16,
    pub transition: Oid,
    pub final_function: Oid,
    pub transition_type: Oid,
    /// Operator whose first row in sort order is the answer (min, max); 0 if none.
    pub sort_operator: Oid,
    pub initial: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    Table,
    Index,
    Sequence,
    View,
    MaterializedView,
    CompositeType,
    PartitionedTable,
    Toast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    Permanent,
    Unlogged,
    Temporary,
}

/// A table, view, sequence, composite type or index, with all that reading and writing it needs.
#[derive(Clone, Debug)]
pub struct Relation {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    pub owner: Oid,
    pub kind: RelationKind,
    pub persistence: Persistence,
    /// Row type (pg_type); 0 for indexes and sequences.
    pub row_type: Oid,
    /// Key space of the rows; 0 where there are none (views), and for system catalogs.
    pub storage: StorageId,
    /// By attribute number - 1, dropped ones included.
    pub columns: Vec<Column>,
    /// Index through which rows are ordered in the key space (the primary key, unless it is deferrable); `None`: rows
    /// have a hidden number.
    pub primary_key: Option<Arc<Index>>,
    /// All indexes, the primary key's row included, by oid.
    pub indexes: Vec<Arc<Index>>,
    /// Constraints on this relation, by name.
    pub constraints: Vec<Arc<Constraint>>,
    /// Foreign keys of other tables (or this one) that refer to this one.
    pub referenced_by: Vec<Arc<Constraint>>,
    /// Canonical SQL text of a view's query.
    pub view_query: Option<Text>,
    /// Only for sequences.
    pub sequence: Option<SequenceInfo>,
    /// Reloptions, as `name=value`.
    pub options: Vec<Text>,
    /// Goes up with each change of the row's form; stored with every row.
    pub schema_version: u32,
    /// pg_class.reltuples: -1 where nobody has counted them yet.
    pub estimated_rows: f64,
    pub statistics: crate::TableStatistics,
}

impl Relation {
    /// Whether the rows lie in the order of this index, and are its entries. A deferrable primary key is kept beside
    /// the rows, for two of them may have one value for a while.
    pub fn is_ordered_by(&self, index: &Index) -> bool {
        self.primary_key.as_ref().is_some_and(|primary| primary.oid == index.oid)
    }
}

/// pg_attribute.attgenerated / attidentity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    None,
    Always,
    ByDefault,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: Text,
    /// From 1, never reused.
    pub attnum: i16,
    pub ty: TypeRef,
    pub not_null: bool,
    pub dropped: bool,
    /// Default or generation expression as canonical SQL text (pg_attrdef.adbin).
    pub default: Option<Text>,
    /// `generated always as (...) stored`: `default` is the expression.
    pub generated: bool,
    pub identity: Identity,
    /// Sequence of an identity column.
    pub identity_sequence: Oid,
    /// Value of rows that were written before `add column ... default`.
    pub missing: Option<Datum>,
}

#[derive(Clone, Debug)]
pub struct SequenceInfo {
    pub type_oid: Oid,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cache: i64,
    pub cycle: bool,
}

#[derive(Clone, Debug)]
pub struct Index {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    pub table: Oid,
    /// Key space of the entries. A primary key that is not deferrable has none of its own: its table's rows are the
    /// entries, and this is the table's storage.
    pub storage: StorageId,
    /// Key columns, in order; `include` columns are not part of it.
    pub keys: Vec<IndexKey>,
    /// Attribute numbers of INCLUDE columns.
    pub include: Vec<i16>,
    pub unique: bool,
    pub primary: bool,
    pub nulls_not_distinct: bool,
    /// Partial index: canonical SQL text of the predicate.
    pub predicate: Option<Text>,
    pub valid: bool,
    /// Unique constraint that it stands for; 0 if none.
    pub constraint: Oid,
    pub deferrable: bool,
}

#[derive(Clone, Debug)]
pub struct IndexKey {
    pub key: IndexKeyColumn,
    pub ty: TypeRef,
    pub opclass: Oid,
    pub opfamily: Oid,
    pub descending: bool,
    pub nulls_first: bool,
    /// `hash` was written; kept and shown, orders ascending.
    pub hash: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKeyColumn {
    Attribute(i16),
    /// Canonical SQL text over the table's columns.
    Expression(Text),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    Check,
    ForeignKey,
    PrimaryKey,
    Unique,
    NotNull,
    Exclusion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

#[derive(Clone, Debug)]
pub struct Constraint {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    pub kind: ConstraintKind,
    /// Table, or 0 for a domain's.
    pub table: Oid,
    pub domain: Oid,
    pub deferrable: bool,
    pub deferred: bool,
    pub validated: bool,
    /// Attribute numbers that it constrains.
    pub columns: Vec<i16>,
    /// CHECK: canonical SQL text.
    pub expression: Option<Text>,
    /// The index that stands behind a key or, for a foreign key, the referenced unique index.
    pub index: Oid,
    pub foreign_table: Oid,
    pub foreign_columns: Vec<i16>,
    pub on_update: ForeignKeyAction,
    pub on_delete: ForeignKeyAction,
    /// Columns of `on delete set null (a, b)`; empty: all.
    pub on_delete_columns: Vec<i16>,
    pub match_full: bool,
}

#[derive(Clone, Debug)]
pub struct Namespace {
    pub oid: Oid,
    pub name: Text,
    pub owner: Oid,
}

/// Btree strategy numbers (pg_amop.amopstrategy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BtreeStrategy {
    Less,
    LessEqual,
    Equal,
    GreaterEqual,
    Greater,
}

/// An operator's membership in a btree operator family.
#[derive(Clone, Copy, Debug)]
pub struct OpfamilyMember {
    pub family: Oid,
    pub left: Oid,
    pub right: Oid,
    pub strategy: BtreeStrategy,
    pub operator: Oid,
}

#[derive(Clone, Debug)]
pub struct Opclass {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
    pub method: Oid,
    pub family: Oid,
    pub input_type: Oid,
    pub default: bool,
}

/// pg_collation. All of Cairn's order by code point (C.UTF-8).
#[derive(Clone, Debug)]
pub struct Collation {
    pub oid: Oid,
    pub name: Text,
    pub namespace: Oid,
}

/// The operators by which a type's values are sorted, grouped and compared: its default btree operator class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOperators {
    pub less: Oid,
    pub equal: Oid,
    pub greater: Oid,
    pub opclass: Oid,
    pub opfamily: Oid,
    /// The operator class's type, which may be another than the one asked for (varchar: text; enums: anyenum).
    pub input_type: Oid,
    /// Whether `equal` can be hashed.
    pub can_hash: bool,
}
