//! The analyzed form of a statement: every name resolved to an oid or a number, every expression typed, every
//! coercion explicit. The analyzer makes it, the planner reads it, deparse prints it.
//!
//! The shape follows the architecture that PostgreSQL's documentation describes (manual, chapter 52, "The query tree"):
//! a range table, a join tree over it, a target list. A column is a [`Var`]: number of its range table entry,
//! attribute number, and how many query levels up that entry lives.

use std::sync::Arc;

use cairn_catalog::{Relation, TypeRef};
use cairn_types::{Datum, Oid, Text};

/// Byte offset into the statement's text; -1 where unknown.
pub type Location = i32;

/// A statement after analysis.
#[derive(Clone, Debug)]
pub enum Statement {
    /// SELECT, VALUES, INSERT, UPDATE, DELETE, MERGE.
    Query(Box<Query>),
    Explain(Box<Explain>),
    /// `create table as`, `select into`, `create materialized view`: the query that fills it, and the node that names it.
    CreateTableAs {
        node: Box<pg_query::protobuf::CreateTableAsStmt>,
        query: Box<Query>,
    },
    DeclareCursor {
        name: Text,
        scroll: bool,
        hold: bool,
        binary: bool,
        query: Box<Query>,
    },
    Call(Box<Call>),
    /// Everything else: executed from its parse node by `cairn-sql`.
    Utility(Box<pg_query::protobuf::node::Node>),
}

#[derive(Clone, Debug)]
pub struct Explain {
    pub options: ExplainOptions,
    pub statement: Statement,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainOptions {
    pub analyze: bool,
    pub verbose: bool,
    pub costs: bool,
    pub settings: bool,
    pub buffers: bool,
    pub wal: bool,
    pub timing: bool,
    pub summary: bool,
    pub format: ExplainFormat,
    /// Cairn: print the storage's counters.
    pub dist: bool,
    pub debug: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    Text,
    Json,
    Xml,
    Yaml,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub procedure: Oid,
    /// Input arguments, defaults filled in.
    pub args: Vec<Expr>,
    /// Result columns of OUT and INOUT arguments.
    pub outputs: Vec<(Text, TypeRef)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandType {
    Select,
    Insert,
    Update,
    Delete,
}

#[derive(Clone, Debug)]
pub struct Query {
    pub command: CommandType,
    /// Range table; a `Var`'s `varno` is an index into it (from 0).
    pub range_table: Vec<RangeTableEntry>,
    /// FROM items (implicitly cross-joined) and WHERE.
    pub from: Vec<JoinTree>,
    pub filter: Option<Expr>,
    /// SELECT: output and resjunk columns. INSERT, UPDATE: new values, each with the target column in `resno`.
    pub targets: Vec<TargetEntry>,
    /// INSERT, UPDATE, DELETE: the target's range table index.
    pub result_relation: Option<usize>,
    pub on_conflict: Option<Box<OnConflict>>,
    pub returning: Vec<TargetEntry>,
    /// INSERT: the columns that the statement itself names (or means), defaults not counted: what INSERT privileges
    /// are needed on.
    pub assigned: Vec<i16>,
    /// INSERT: `overriding system value | user value`.
    pub overriding: Overriding,
    pub ctes: Vec<Cte>,
    pub recursive: bool,
    pub group: Vec<SortGroupClause>,
    /// GROUPING SETS, already expanded to lists of `group` references; empty for a plain GROUP BY.
    pub grouping_sets: Vec<Vec<u32>>,
    pub has_aggregates: bool,
    pub has_window_functions: bool,
    pub has_target_srfs: bool,
    pub having: Option<Expr>,
    pub windows: Vec<WindowClause>,
    pub distinct: Distinct,
    pub sort: Vec<SortGroupClause>,
    pub offset: Option<Expr>,
    pub limit: Option<Expr>,
    pub limit_with_ties: bool,
    /// FOR UPDATE and its kin, strongest first per relation.
    pub row_marks: Vec<RowMark>,
    /// Constraints without which the query would be wrong: primary keys, on whose columns others depend in GROUP BY.
    pub constraints: Vec<Oid>,
    /// UNION etc.; its leaves are subquery entries of `range_table`, and `targets` are Vars of the leftmost.
    pub set_operation: Option<Box<SetOperation>>,
}

impl Query {
    /// The target list that a client or an outer query sees: the select list, or RETURNING. May hold junk entries.
    pub fn output(&self) -> &[TargetEntry] {
        if self.command == CommandType::Select { &self.targets } else { &self.returning }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    None,
    SystemValue,
    UserValue,
}

#[derive(Clone, Debug)]
pub enum Distinct {
    None,
    /// DISTINCT: over all output columns, in these clauses.
    All(Vec<SortGroupClause>),
    /// DISTINCT ON.
    On(Vec<SortGroupClause>),
}

#[derive(Clone, Debug)]
pub struct TargetEntry {
    pub expr: Expr,
    /// Output position from 1; for INSERT and UPDATE the target's attribute number.
    pub resno: i16,
    pub name: Text,
    /// Number by which `SortGroupClause`s refer to it; 0 if none does.
    pub sort_group_ref: u32,
    /// Needed for sorting or grouping, not part of the output.
    pub junk: bool,
    /// Table and attribute that the column comes from, for RowDescription; 0 if computed.
    pub origin_table: Oid,
    pub origin_column: i16,
}

#[derive(Clone, Debug)]
pub struct RangeTableEntry {
    pub kind: RangeTableKind,
    /// Name by which columns are qualified.
    pub alias: Text,
    /// Output columns, by attribute number - 1. Dropped columns keep their place, with an empty name.
    pub columns: Vec<RangeColumn>,
    pub lateral: bool,
    /// False for the entry of an INSERT target, and others that are not scanned.
    pub in_from: bool,
}

#[derive(Clone, Debug)]
pub struct RangeColumn {
    pub name: Text,
    pub ty: TypeRef,
}

#[derive(Clone, Debug)]
pub enum RangeTableKind {
    /// A table, or a system catalog (whose rows come from the catalog itself).
    Relation {
        relation: Arc<Relation>,
        sample: Option<TableSample>,
    },
    /// A subquery in FROM, or an expanded view (`view` names it, for EXPLAIN and deparse).
    Subquery {
        query: Box<Query>,
        view: Option<Oid>,
    },
    /// A JOIN's merged columns; each is an expression over the entries it joins.
    Join {
        kind: JoinKind,
        left: usize,
        right: usize,
        using: Vec<Text>,
        columns: Vec<Expr>,
    },
    /// Set-returning (or scalar) functions in FROM; more than one: ROWS FROM.
    Function {
        functions: Vec<RangeFunction>,
        ordinality: bool,
    },
    Values {
        rows: Vec<Vec<Expr>>,
    },
    /// Reference to a WITH query `levels_up` query levels above; `self_reference` inside its own recursive term.
    Cte {
        name: Text,
        levels_up: u32,
        self_reference: bool,
    },
    /// SELECT without FROM has no entry; this stands for an empty one where the planner needs it.
    Result,
}

#[derive(Clone, Debug)]
pub struct TableSample {
    pub method: Text,
    pub args: Vec<Expr>,
    pub repeatable: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct RangeFunction {
    pub call: Expr,
    /// How many of the entry's columns it gives.
    pub column_count: usize,
    /// Column types, where the function returns record (column definition list) or a composite type.
    pub column_types: Vec<TypeRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug)]
pub enum JoinTree {
    Range(usize),
    Join {
        kind: JoinKind,
        left: Box<JoinTree>,
        right: Box<JoinTree>,
        condition: Option<Expr>,
        /// The join's own range table entry.
        range: usize,
    },
}

#[derive(Clone, Debug)]
pub struct SortGroupClause {
    /// A target's `sort_group_ref`.
    pub target: u32,
    pub equality: Oid,
    /// The `<` or `>` operator; 0 if the type can only be hashed.
    pub sort_operator: Oid,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct RowMark {
    pub range: usize,
    pub strength: LockStrength,
    pub wait: LockWait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    Block,
    Skip,
    Error,
}

#[derive(Clone, Debug)]
pub struct Cte {
    pub name: Text,
    pub columns: Vec<RangeColumn>,
    pub query: Box<Query>,
    pub materialized: Materialize,
    pub recursive: bool,
    /// References to it in the query.
    pub references: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Materialize {
    Default,
    Always,
    Never,
}

#[derive(Clone, Debug)]
pub enum SetOperation {
    Leaf(usize),
    Node {
        operation: SetOperator,
        all: bool,
        left: Box<SetOperation>,
        right: Box<SetOperation>,
        column_types: Vec<TypeRef>,
        /// One per column; empty for UNION ALL.
        group: Vec<SortGroupClause>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub struct OnConflict {
    /// Indexes that arbitrate whatever the values; empty, with no `partial` ones: any unique violation (DO NOTHING only).
    pub arbiters: Vec<Oid>,
    /// Partial indexes over the named columns, which arbitrate where ON CONFLICT's own condition implies their predicates.
    /// With parameters in the condition, that depends on their values.
    pub partial: Option<PartialArbiters>,
    /// None: DO NOTHING.
    pub update: Option<OnConflictUpdate>,
}

#[derive(Clone, Debug)]
pub struct PartialArbiters {
    pub indexes: Vec<Oid>,
    /// `on conflict (...) where ...`, over the target.
    pub condition: Expr,
}

#[derive(Clone, Debug)]
pub struct OnConflictUpdate {
    /// New values; Vars of `result_relation` are the existing row, those of `excluded` the proposed one.
    pub targets: Vec<TargetEntry>,
    pub filter: Option<Expr>,
    /// Range table index of `excluded`.
    pub excluded: usize,
}

#[derive(Clone, Debug)]
pub struct WindowClause {
    pub name: Option<Text>,
    pub partition: Vec<SortGroupClause>,
    pub order: Vec<SortGroupClause>,
    pub frame: WindowFrame,
}

#[derive(Clone, Debug)]
pub struct WindowFrame {
    pub mode: FrameMode,
    pub start: FrameBound,
    pub end: FrameBound,
    pub exclusion: FrameExclusion,
    /// True where the frame was written out (deparse).
    pub explicit: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameMode {
    Range,
    Rows,
    Groups,
}

#[derive(Clone, Debug)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    None,
    CurrentRow,
    Group,
    Ties,
}

/// A column reference. `attno` > 0: a column; 0: the whole row; < 0: a system column (see [`system_columns`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    pub varno: usize,
    pub attno: i16,
    pub levels_up: u32,
    pub ty: TypeRef,
    pub location: Location,
}

/// System columns and their attribute numbers, as in PostgreSQL.
pub mod system_columns {
    pub const CTID: i16 = -1;
    pub const XMIN: i16 = -2;
    pub const CMIN: i16 = -3;
    pub const XMAX: i16 = -4;
    pub const CMAX: i16 = -5;
    pub const TABLEOID: i16 = -6;
}

/// How a function call was written; decides how deparse prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    Call,
    ExplicitCast,
    ImplicitCast,
    /// Special syntax: extract(...), overlay(... placing ...), trim(...), at time zone.
    Sql,
}

#[derive(Clone, Debug)]
pub enum Expr {
    Const {
        value: Datum,
        ty: TypeRef,
        location: Location,
    },
    Var(Var),
    /// `$n` (from 1): a client's parameter, or an argument of a SQL function or plpgsql variable.
    Param {
        number: u32,
        ty: TypeRef,
        location: Location,
    },
    Function(Box<FunctionCall>),
    Operator(Box<OperatorCall>),
    /// `a is distinct from b`; the operator is the equality.
    DistinctFrom(Box<OperatorCall>),
    NullIf(Box<OperatorCall>),
    /// `x op any (array)` / `x op all (array)`, also IN with constants.
    ArrayOperator(Box<ArrayOperatorCall>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    SubLink(Box<SubLink>),
    Aggregate(Box<AggregateCall>),
    Window(Box<WindowCall>),
    /// GROUPING(...): `sort_group_ref`s of its arguments.
    Grouping {
        args: Vec<Expr>,
        references: Vec<u32>,
        location: Location,
    },
    Subscript(Box<Subscript>),
    Field {
        record: Box<Expr>,
        number: i16,
        ty: TypeRef,
    },
    /// Binary-coercible cast: changes the type, not the value.
    Relabel {
        arg: Box<Expr>,
        ty: TypeRef,
        form: CallForm,
        location: Location,
    },
    /// Cast through the types' text output and input.
    CoerceViaIo {
        arg: Box<Expr>,
        ty: TypeRef,
        form: CallForm,
        location: Location,
    },
    /// Array cast, element by element; `element` is applied to [`Expr::CoerceTestValue`].
    ArrayCoerce {
        arg: Box<Expr>,
        element: Box<Expr>,
        ty: TypeRef,
        form: CallForm,
        location: Location,
    },
    /// Cast between row types of one shape.
    ConvertRow {
        arg: Box<Expr>,
        ty: TypeRef,
        form: CallForm,
        location: Location,
    },
    /// The value being cast by `ArrayCoerce`, compared by `Case`, or checked by a domain.
    TestValue {
        ty: TypeRef,
    },
    CoerceToDomain {
        arg: Box<Expr>,
        ty: TypeRef,
        form: CallForm,
        location: Location,
    },
    Collate {
        arg: Box<Expr>,
        collation: Oid,
        location: Location,
    },
    Case(Box<Case>),
    /// ARRAY[...]; `multidimensional` where the elements are arrays.
    Array {
        elements: Vec<Expr>,
        element_type: Oid,
        multidimensional: bool,
        ty: TypeRef,
        location: Location,
    },
    /// ROW(...), typed RECORD or a named composite type.
    Row {
        fields: Vec<Expr>,
        names: Vec<Text>,
        ty: TypeRef,
        form: CallForm,
        location: Location,
    },
    /// Row comparison other than = and <>, which become AND / OR.
    RowCompare {
        strategy: cairn_catalog::BtreeStrategy,
        operators: Vec<Oid>,
        left: Vec<Expr>,
        right: Vec<Expr>,
        location: Location,
    },
    Coalesce {
        args: Vec<Expr>,
        ty: TypeRef,
        location: Location,
    },
    /// GREATEST / LEAST.
    MinMax {
        greatest: bool,
        args: Vec<Expr>,
        ty: TypeRef,
        location: Location,
    },
    /// CURRENT_DATE and its kin.
    SqlValue {
        function: SqlValueFunction,
        ty: TypeRef,
        location: Location,
    },
    NullTest {
        arg: Box<Expr>,
        is_null: bool,
        row_type: bool,
        location: Location,
    },
    BooleanTest {
        arg: Box<Expr>,
        test: BooleanTest,
        location: Location,
    },
    /// DEFAULT in INSERT or UPDATE: replaced by the column's default before planning.
    Default {
        ty: TypeRef,
        location: Location,
    },
    /// `where current of cursor`: of the table that the query changes, which is entry 0.
    CurrentOf {
        cursor: Text,
    },
    /// `nextval` of an identity column, free of the caller's privileges.
    NextValue {
        sequence: Oid,
        ty: TypeRef,
    },
}

#[derive(Clone, Debug)]
pub struct FunctionCall {
    pub function: Oid,
    pub args: Vec<Expr>,
    pub ty: TypeRef,
    pub returns_set: bool,
    /// The last argument is an array that carries the variadic ones.
    pub variadic: bool,
    /// Collation that the function uses (of its inputs).
    pub collation: Oid,
    pub form: CallForm,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub struct OperatorCall {
    pub operator: Oid,
    /// pg_operator.oprcode.
    pub function: Oid,
    /// One (prefix) or two.
    pub args: Vec<Expr>,
    pub ty: TypeRef,
    pub returns_set: bool,
    pub collation: Oid,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub struct ArrayOperatorCall {
    pub operator: Oid,
    pub function: Oid,
    /// ANY (true) or ALL.
    pub any: bool,
    pub left: Expr,
    pub array: Expr,
    pub collation: Oid,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub struct SubLink {
    pub kind: SubLinkKind,
    pub query: Query,
    pub ty: TypeRef,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub enum SubLinkKind {
    Exists,
    /// `(left...) op ANY (subquery)`: the comparisons are over [`SubLinkOutput`](SubLinkComparison).
    Any(SubLinkComparison),
    All(SubLinkComparison),
    /// A scalar subquery.
    Expr,
    /// `(a, b) = (select ...)`: a record of all columns.
    Row,
    /// The source of `update ... set (a, b) = (select ...)`: a record of all columns. Each target has a copy of it, but it runs
    /// once for a row.
    RowSource,
    /// `array(select ...)`.
    Array,
}

/// Row-wise comparison with each row of a subquery: `left[i] operators[i] column i`.
#[derive(Clone, Debug)]
pub struct SubLinkComparison {
    pub left: Vec<Expr>,
    /// Comparison operators with their functions, one per column; more than one are ANDed (`=`), ORed (`<>`), or compared row-wise.
    pub operators: Vec<(Oid, Oid)>,
    /// Set for a row-wise `<`, `<=`, `>=`, `>` of more than one column.
    pub row_strategy: Option<cairn_catalog::BtreeStrategy>,
    /// `<>` over several columns is an OR.
    pub use_or: bool,
    /// Casts of the subquery's columns, each over `TestValue`; empty where none is needed.
    pub right_casts: Vec<Expr>,
    pub collation: Oid,
}

#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: Oid,
    pub direct_args: Vec<Expr>,
    pub args: Vec<Expr>,
    /// `count(*)`.
    pub star: bool,
    pub distinct: bool,
    /// ORDER BY inside the call (or WITHIN GROUP).
    pub order: Vec<AggregateOrder>,
    pub filter: Option<Expr>,
    pub variadic: bool,
    pub ty: TypeRef,
    pub collation: Oid,
    /// Query level that it belongs to.
    pub levels_up: u32,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub struct AggregateOrder {
    pub expr: Expr,
    pub sort_operator: Oid,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct WindowCall {
    pub function: Oid,
    pub args: Vec<Expr>,
    pub star: bool,
    pub filter: Option<Expr>,
    /// Whether the function is a plain aggregate.
    pub aggregate: bool,
    /// Index into `Query::windows`.
    pub window: usize,
    pub ty: TypeRef,
    pub collation: Oid,
    pub location: Location,
}

/// `container[...]`, reading; with `assignment` (an UPDATE target) writing.
#[derive(Clone, Debug)]
pub struct Subscript {
    pub container: Expr,
    pub upper: Vec<Option<Expr>>,
    /// Lower bounds of a slice; empty for element access.
    pub lower: Vec<Option<Expr>>,
    pub slice: bool,
    pub assignment: Option<Expr>,
    pub ty: TypeRef,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub struct Case {
    /// `case arg when ...`: the whens compare [`Expr::TestValue`].
    pub arg: Option<Expr>,
    pub whens: Vec<(Expr, Expr)>,
    pub default: Expr,
    pub ty: TypeRef,
    pub location: Location,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlValueFunction {
    CurrentDate,
    CurrentTime,
    CurrentTimestamp,
    LocalTime,
    LocalTimestamp,
    CurrentRole,
    CurrentUser,
    User,
    SessionUser,
    CurrentCatalog,
    CurrentSchema,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BooleanTest {
    IsTrue,
    IsNotTrue,
    IsFalse,
    IsNotFalse,
    IsUnknown,
    IsNotUnknown,
}
