//! [`Spi`] over a session: how a PL/pgSQL function's SQL runs.

use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::{ParamResolver, Parameters, RawStatement};
use cairn_catalog::TypeRef;
use cairn_exec::execution::Watch;
use cairn_exec::{Execution, RowStore, Usage};
use cairn_txn::Transaction;
use cairn_types::{Datum, Env, Error, Oid, RecordField, Result, Row, Text, err, io};
use pg_query::protobuf::node::Node as NodeEnum;

use super::spi::{Column, CursorMove, FragmentKind, Prepared, RowSource, Spi, Subtransaction};
use crate::core::Core;
use crate::cursors::{self, Motion};
use crate::portal::{CursorOptions, Scroll};
use crate::run::InUse;
use crate::statement::{Compiled, Kind, Purpose};
use crate::utility::{self, Invocation, Outcome};

/// A fragment with its plan.
struct Fragment {
    text: Text,
    compiled: Arc<Compiled>,
    columns: Vec<Column>,
    catalog_version: u64,
}

impl Prepared for Fragment {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn purpose_of(kind: FragmentKind) -> Purpose {
    match kind {
        FragmentKind::Cursor => Purpose::Cursor,
        FragmentKind::Statement | FragmentKind::Expression => Purpose::Statement,
    }
}

/// The fragment behind the interface.
fn fragment(prepared: &Arc<dyn Prepared>) -> Result<&Fragment> {
    prepared.as_any().downcast_ref().ok_or_else(|| Error::internal("a statement of another session"))
}

impl Core {
    fn fragment(
        &self,
        raw: RawStatement,
        parameters: Parameters<'_>,
        purpose: Purpose,
    ) -> Result<Arc<dyn Prepared>> {
        let catalog_version = self.catalog()?.version();
        let text = Text::from(raw.text());
        let compiled = Arc::new(Compiled::for_purpose(self, &Arc::new(raw), parameters, purpose)?);
        let columns = match &compiled.columns {
            Some(columns) => {
                columns.iter().map(|column| Column { name: column.name.clone(), ty: column.ty }).collect()
            }
            None => Vec::new(),
        };
        Ok(Arc::new(Fragment { text, compiled, columns, catalog_version }))
    }

    fn one_statement(&self, text: &str) -> Result<RawStatement> {
        let mut statements = cairn_analyze::parse(text)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(raw), true) => Ok(raw),
            (Some(_), false) => Err(Error::unsupported("several commands in one EXECUTE are")),
            (None, _) => Err(err!(SYNTAX_ERROR, "empty command")),
        }
    }

    /// `table.column%type` and `table%rowtype`; `None` for any other text.
    fn copied_type(&self, text: &str) -> Result<Option<TypeRef>> {
        let Some((name, kind)) = text.rsplit_once('%') else { return Ok(None) };
        let missing = || err!(UNDEFINED_TABLE, "relation \"{}\" does not exist", name.trim());
        let mut parts = crate::names::split_name(name.trim())?;
        let column = match kind.trim().to_ascii_lowercase().as_str() {
            "type" => parts.pop(),
            "rowtype" => None,
            _ => return Ok(None),
        };
        let table = parts.pop().ok_or_else(missing)?;
        let (catalog, path) = (self.catalog()?, self.search_path()?);
        let relation =
            catalog.resolve_relation(&path, parts.last().map(String::as_str), &table).ok_or_else(missing)?;
        let Some(column) = column else { return Ok(Some(self.type_ref(relation.row_type, -1))) };
        let found = relation.columns.iter().find(|one| !one.dropped && *one.name == *column);
        let found = found.ok_or_else(|| {
            err!(UNDEFINED_COLUMN, "column \"{column}\" of relation \"{table}\" does not exist")
        })?;
        Ok(Some(found.ty))
    }
}

/// Rows of a query under way.
struct Running {
    core: Rc<Core>,
    /// Its snapshot is given back to it in the end.
    transaction: Arc<dyn Transaction>,
    columns: Vec<Column>,
    execution: Execution,
    _in_use: InUse,
    /// All rows of a statement that changes something, once it has run: it is over before its first row is looked at, and whatever
    /// becomes of the others.
    stored: Option<RowStore>,
    ended: bool,
    rows: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.transaction.release_snapshot(&self.execution.frame.snapshot);
    }
}

impl Running {
    fn next_stored(&mut self) -> Result<Option<Row>> {
        let stored = match &mut self.stored {
            Some(stored) => stored,
            None => {
                let mut rows = RowStore::default();
                let execution = &mut self.execution;
                self.core.snapshots.borrow_mut().push(execution.frame.snapshot);
                let result = self.core.with_exec(|cx| {
                    while let Some(row) = execution.next_row(cx)? {
                        rows.push(row.to_vec(), cx.work_mem)?;
                    }
                    execution.finish(cx)
                });
                self.core.pop_snapshot();
                result?;
                self.core.transaction()?.advance_command();
                self.stored.insert(rows)
            }
        };
        let row = stored.get(self.rows as usize)?;
        match &row {
            Some(_) => self.rows += 1,
            None => self.ended = true,
        }
        Ok(row)
    }
}

impl RowSource for Running {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self, _: &dyn Spi) -> Result<Option<Row>> {
        if self.ended {
            return Ok(None);
        }
        let plan = self.execution.plan();
        let writes = || plan.relations.iter().any(|used| matches!(used.usage, Usage::Write));
        if plan.modifies && plan.returns_rows() && writes() {
            return self.next_stored();
        }
        let core = Rc::clone(&self.core);
        core.snapshots.borrow_mut().push(self.execution.frame.snapshot);
        let result = core.with_exec(|cx| {
            if self.execution.plan().returns_rows()
                && let Some(row) = self.execution.next_row(cx)?
            {
                return Ok(Some(row.to_vec()));
            }
            self.execution.finish(cx)?;
            Ok(None)
        });
        core.pop_snapshot();
        let row = result?;
        match &row {
            Some(_) => self.rows += 1,
            None => {
                self.ended = true;
                if self.execution.plan().modifies {
                    core.transaction()?.advance_command();
                }
            }
        }
        Ok(row)
    }

    fn processed(&self) -> u64 {
        match self.execution.plan().command {
            cairn_analyze::query::CommandType::Select => self.rows,
            _ => self.execution.processed(),
        }
    }

    fn changes_rows(&self) -> bool {
        self.execution.plan().command != cairn_analyze::query::CommandType::Select
    }
}

/// Rows of a utility statement, all at once.
struct Finished {
    columns: Vec<Column>,
    rows: std::vec::IntoIter<Row>,
    processed: u64,
}

fn finished(outcome: Outcome) -> Box<dyn RowSource> {
    let columns = outcome.columns.iter().flat_map(|columns| columns.iter());
    let columns = columns.map(|column| Column { name: column.name.clone(), ty: column.ty }).collect();
    // `FETCH 3`, `CREATE TABLE AS 5`; commands without a number count their rows.
    let counted = outcome.tag.rsplit(' ').next().and_then(|count| count.parse().ok());
    let processed = counted.unwrap_or(outcome.rows.len() as u64);
    Box::new(Finished { columns, rows: outcome.rows.into_iter(), processed })
}

impl RowSource for Finished {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn next(&mut self, _: &dyn Spi) -> Result<Option<Row>> {
        Ok(self.rows.next())
    }

    fn processed(&self) -> u64 {
        self.processed
    }

    fn changes_rows(&self) -> bool {
        false
    }
}

impl Spi for Core {
    fn env(&self) -> &dyn Env {
        self
    }

    fn is_current(&self, prepared: &Arc<dyn Prepared>) -> bool {
        let (Ok(fragment), Ok(catalog)) = (fragment(prepared), self.catalog()) else { return false };
        catalog.version() == fragment.catalog_version
            && fragment.compiled.plan().is_none_or(|plan| self.suits(plan))
    }

    fn prepare(
        &self,
        text: &str,
        kind: FragmentKind,
        variables: &dyn ParamResolver,
    ) -> Result<Arc<dyn Prepared>> {
        let raw = match kind {
            FragmentKind::Statement | FragmentKind::Cursor => self.one_statement(text)?,
            FragmentKind::Expression => {
                let select = cairn_analyze::parse::parse_plpgsql_expression(text)?;
                RawStatement {
                    node: Box::new(NodeEnum::SelectStmt(select)),
                    source: text.into(),
                    start: 0,
                    length: text.len(),
                    key_orders: Vec::new(),
                }
            }
        };
        self.fragment(raw, Parameters::Resolver(variables), purpose_of(kind))
    }

    fn prepare_dynamic(
        &self,
        text: &str,
        kind: FragmentKind,
        types: &[TypeRef],
    ) -> Result<Arc<dyn Prepared>> {
        let raw = self.one_statement(text)?;
        self.fragment(raw, Parameters::Fixed(types), purpose_of(kind))
    }

    fn lock(&self, prepared: &Arc<dyn Prepared>) -> Result<bool> {
        let fragment = fragment(prepared)?;
        match fragment.compiled.plan() {
            Some(plan) if !plan.relations.is_empty() => {
                let transaction = self.ensure_transaction()?;
                self.check_plan_writes(plan)?;
                self.lock_relations(plan, &transaction)?;
                Ok(self.is_current(prepared))
            }
            _ => Ok(true),
        }
    }

    fn start(&self, prepared: &Arc<dyn Prepared>, params: Arc<[Datum]>) -> Result<Box<dyn RowSource>> {
        let fragment = fragment(prepared)?;
        let core = self.rc();
        match &fragment.compiled.kind {
            Kind::Plan(_) => {
                let plan = fragment.compiled.plan_for(self, &params)?;
                let transaction = self.transaction()?;
                if transaction.has_writes() && !self.reads_as_caller.get() {
                    transaction.advance_command();
                }
                let snapshot = self.snapshot_for(&plan, &transaction)?;
                let in_use = self.uses(&plan);
                let execution = Execution::start(plan, params, snapshot, Watch::Off);
                Ok(Box::new(Running {
                    core,
                    transaction,
                    columns: fragment.columns.clone(),
                    execution,
                    _in_use: in_use,
                    stored: None,
                    ended: false,
                    rows: 0,
                }))
            }
            Kind::Call(call) => {
                self.ensure_transaction()?;
                Ok(finished(call.run(&core, params, core.atomic_depth.get() > 0)?))
            }
            Kind::Utility(statement, raw) => {
                let mut invocation = Invocation::new(&core, raw, core.atomic_depth.get() > 0);
                // Procedures that a procedure calls may end the transaction as it may.
                invocation.top_level = core.atomic_depth.get() == 0
                    && matches!(&*raw.node, NodeEnum::CallStmt(_) | NodeEnum::DoStmt(_));
                invocation.params = params;
                if matches!(&*raw.node, NodeEnum::CopyStmt(_)) {
                    return Err(Error::unsupported("COPY to or from the client in a function is"));
                }
                self.ensure_transaction()?;
                Ok(finished(utility::run(&mut invocation, statement)?))
            }
        }
    }

    fn evaluate(&self, _: &Arc<dyn Prepared>, _: &[Datum]) -> Option<Result<Datum>> {
        None
    }

    fn parse_type(&self, text: &str) -> Result<TypeRef> {
        if let Some(ty) = self.copied_type(text)? {
            return Ok(ty);
        }
        let (oid, typmod) =
            self.with_analyzer(Parameters::None, |context| cairn_analyze::parse_type_name(text, context))?;
        Ok(self.type_ref(oid, typmod))
    }

    fn cast(&self, value: Datum, from: TypeRef, to: TypeRef) -> Result<Datum> {
        if from.oid == to.oid && (to.typmod < 0 || value.is_null()) {
            return Ok(value);
        }
        if from.oid == to.oid {
            return io::apply_typmod(value, to.oid, to.typmod, false);
        }
        match self.cast_assigned(value.clone(), from, to)? {
            Some(value) => Ok(value),
            None if value.is_null() => Ok(value),
            None => io::input(&io::output_string(&value, from.oid, self)?, to.oid, to.typmod, self),
        }
    }

    fn composite_fields(&self, type_oid: Oid) -> Option<Arc<[RecordField]>> {
        crate::names::composite_fields(&*self.catalog().ok()?, type_oid)
    }

    fn begin_subtransaction(&self) -> Result<Subtransaction> {
        self.open_subtransaction()
    }

    fn release_subtransaction(&self, subtransaction: Subtransaction) -> Result<()> {
        self.close_subtransaction(&subtransaction, true)
    }

    fn rollback_subtransaction(&self, subtransaction: Subtransaction) -> Result<()> {
        self.close_subtransaction(&subtransaction, false)
    }

    fn end_transaction(&self, commit: bool, chain: bool) -> Result<()> {
        self.end_transaction_in_procedure(commit, chain)?;
        self.ensure_transaction().map(|_| ())
    }

    fn open_cursor(
        &self,
        name: Option<&str>,
        scroll: Option<bool>,
        prepared: &Arc<dyn Prepared>,
        params: Arc<[Datum]>,
    ) -> Result<Text> {
        let fragment = fragment(prepared)?;
        if fragment.compiled.plan().is_none() {
            return Err(err!(INVALID_CURSOR_DEFINITION, "cannot open a cursor over a utility statement"));
        }
        let plan = fragment.compiled.plan_for(self, &params)?;
        let name = match name {
            Some(name) => Text::from(name),
            None => self.portals.borrow_mut().unnamed_cursor(),
        };
        let options = CursorOptions {
            scroll: match scroll {
                Some(true) => Scroll::Wanted,
                Some(false) => Scroll::Forbidden,
                None => Scroll::Possible,
            },
            hold: false,
            binary: false,
            statement: fragment.text.to_string(),
        };
        let columns = fragment.compiled.columns.clone().unwrap_or_else(|| Arc::from([]));
        cursors::open_plan(self, Text::clone(&name), plan, columns, params, options)?;
        Ok(name)
    }

    fn fetch(&self, cursor: &str, direction: CursorMove) -> Result<(Arc<[Column]>, Vec<Row>)> {
        let portal = self.portals.borrow().require(cursor, "cursor")?;
        let mut portal = portal.try_borrow_mut().map_err(|_| cursors::cannot_be_run(cursor))?;
        let motion = match direction {
            CursorMove::Forward(count) => Motion::Forward(count),
            CursorMove::Absolute(count) => Motion::Absolute(count),
            CursorMove::Relative(count) => Motion::Relative(count),
        };
        let rows = cursors::fetch(self, &mut portal, motion)?;
        let columns = match &portal.shape {
            Some(shape) => shape
                .columns
                .iter()
                .map(|column| Column { name: column.name.clone(), ty: column.ty })
                .collect(),
            None => Arc::from([]),
        };
        Ok((columns, rows))
    }

    fn close_cursor(&self, cursor: &str) -> Result<()> {
        let portal = self.portals.borrow().require(cursor, "cursor")?;
        self.close(&portal)
    }
}
