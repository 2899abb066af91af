//! What the interpreter needs of the session around it: SQL, run inside the caller's transaction.

use std::sync::Arc;

use cairn_analyze::ParamResolver;
use cairn_catalog::TypeRef;
use cairn_types::{Datum, Env, Oid, Result, Row, Text};

/// How a fragment's text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// An expression, possibly with FROM and the like behind it.
    Expression,
    /// A whole statement.
    Statement,
    /// A query that a cursor is opened over.
    Cursor,
}

/// A column of what a statement returns.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: Text,
    pub ty: TypeRef,
}

/// A statement ready to run with parameter values; plans are kept behind it.
pub trait Prepared: Send + Sync {
    /// Empty where it returns no rows.
    fn columns(&self) -> &[Column];
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Rows of a running statement.
pub trait RowSource {
    fn columns(&self) -> &[Column];
    fn next(&mut self, spi: &dyn Spi) -> Result<Option<Row>>;
    /// Rows inserted, updated, deleted or returned, once `next` has said `None`.
    fn processed(&self) -> u64;
    /// Whether it is an INSERT, UPDATE or DELETE.
    fn changes_rows(&self) -> bool;
}

/// SQL for a function that runs.
pub trait Spi {
    fn env(&self) -> &dyn Env;
    /// False once the catalog has changed under it, or where it does not suit the transaction's snapshot: prepare again.
    fn is_current(&self, prepared: &Arc<dyn Prepared>) -> bool;

    /// Parses, analyzes and plans. Errors point into `text`.
    fn prepare(
        &self,
        text: &str,
        kind: FragmentKind,
        variables: &dyn ParamResolver,
    ) -> Result<Arc<dyn Prepared>>;
    /// Parses text that holds one statement with parameters of these types (EXECUTE ... USING).
    fn prepare_dynamic(&self, text: &str, kind: FragmentKind, types: &[TypeRef])
    -> Result<Arc<dyn Prepared>>;
    /// Locks the tables of a statement, which comes before it is started. False: somebody changed the catalog before
    /// the locks were granted, so prepare it again.
    fn lock(&self, prepared: &Arc<dyn Prepared>) -> Result<bool>;
    /// Starts a statement: it reads what the function has done so far, and its writes are seen by the next one.
    fn start(&self, prepared: &Arc<dyn Prepared>, params: Arc<[Datum]>) -> Result<Box<dyn RowSource>>;
    /// The value of an expression that has neither FROM nor aggregates, or `None` if it is no such simple one.
    fn evaluate(&self, prepared: &Arc<dyn Prepared>, params: &[Datum]) -> Option<Result<Datum>>;

    /// A type as written in a declaration, `table.column%type` and `table%rowtype` included.
    fn parse_type(&self, text: &str) -> Result<TypeRef>;
    /// Converts by the assignment cast, or through text if there is none.
    fn cast(&self, value: Datum, from: TypeRef, to: TypeRef) -> Result<Datum>;
    /// The fields of a composite type (`None`: not composite).
    fn composite_fields(&self, type_oid: Oid) -> Option<Arc<[cairn_types::RecordField]>>;

    /// Runs under a savepoint; an error undoes what was done since.
    fn begin_subtransaction(&self) -> Result<Subtransaction>;
    fn release_subtransaction(&self, subtransaction: Subtransaction) -> Result<()>;
    fn rollback_subtransaction(&self, subtransaction: Subtransaction) -> Result<()>;
    /// COMMIT or ROLLBACK in a procedure; 2D000 where the caller's transaction does not allow it.
    fn end_transaction(&self, commit: bool, chain: bool) -> Result<()>;

    /// Opens a portal of that name (`None`: makes one up) over a statement.
    fn open_cursor(
        &self,
        name: Option<&str>,
        scroll: Option<bool>,
        prepared: &Arc<dyn Prepared>,
        params: Arc<[Datum]>,
    ) -> Result<Text>;
    /// Rows of an open cursor; 34000 if there is none of the name.
    fn fetch(&self, cursor: &str, direction: CursorMove) -> Result<(Arc<[Column]>, Vec<Row>)>;
    fn close_cursor(&self, cursor: &str) -> Result<()>;
}

/// A savepoint that PL/pgSQL opened.
pub struct Subtransaction {
    pub id: cairn_txn::SavepointId,
    pub(crate) settings: crate::settings::Mark,
    pub(crate) catalog: Option<(u64, Arc<cairn_catalog::Catalog>)>,
    pub(crate) constraints: cairn_exec::dml::ConstraintMark,
    pub(crate) acting: crate::rights::ActingMark,
    pub(crate) notify: crate::notify::NotifyMark,
}

/// Where a cursor goes; counts as in FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorMove {
    /// Negative: backward. `i64::MAX`: all.
    Forward(i64),
    Absolute(i64),
    Relative(i64),
}
