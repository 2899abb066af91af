//! Statements that are not queries: dispatch by parse node.
//!
//! Each returns an [`Outcome`]: a tag, and rows where it has some (SHOW, EXPLAIN, CALL, FETCH, EXECUTE). Only COPY talks to
//! the client itself. What is neither here nor in `ddl` is refused with 0A000.

use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::{Expr, Query, Statement};
use cairn_analyze::{AnalyzeContext, ExprKind, Parameters, RawStatement};
use cairn_catalog::TypeRef;
use cairn_catalog::acl::{self, ObjectKind};
use cairn_exec::Plan;
use cairn_txn::{LockScope, LockTag, TableLockMode, WaitPolicy};
use cairn_types::oid::catalogs;
use cairn_types::{Datum, Env, Error, Result, Row, err, sqlstate};
use pg_query::protobuf::{self, Node, node::Node as NodeEnum};

use crate::client::{Client, ResultColumn};
use crate::core::Core;
use crate::session::PreparedStatement;
use crate::statement::{Kind, Purpose};
use crate::{copy, cursors, explain, maintenance, routines, variables};

/// What a utility statement gave.
#[derive(Debug, Default)]
pub struct Outcome {
    pub tag: String,
    /// `None`: it returns no rows.
    pub columns: Option<Arc<[ResultColumn]>>,
    pub rows: Vec<Row>,
}

impl Outcome {
    pub fn tag(tag: impl Into<String>) -> Self {
        Outcome { tag: tag.into(), ..Outcome::default() }
    }
}

/// A utility statement with its surroundings.
pub struct Invocation<'a> {
    pub core: &'a Rc<Core>,
    pub raw: &'a Arc<RawStatement>,
    /// Values of `$n` in the statement (EXPLAIN, DECLARE).
    pub params: Arc<[Datum]>,
    /// Whether a client sent it as it is, not a function's body.
    pub top_level: bool,
    /// Whether it stands in a transaction block, or is one of several in a query string.
    pub in_block: bool,
    /// For COPY; `None` inside functions.
    pub client: Option<&'a mut dyn Client>,
}

impl<'a> Invocation<'a> {
    pub fn new(core: &'a Rc<Core>, raw: &'a Arc<RawStatement>, in_block: bool) -> Self {
        Invocation { core, raw, params: Arc::from([]), top_level: true, in_block, client: None }
    }

    /// 25001 for a statement that cannot be taken back.
    pub fn prevent_in_block(&self, statement: &str) -> Result<()> {
        if self.in_block {
            return Err(err!(ACTIVE_SQL_TRANSACTION, "{statement} cannot run inside a transaction block"));
        }
        if !self.top_level {
            return Err(err!(ACTIVE_SQL_TRANSACTION, "{statement} cannot be executed from a function"));
        }
        Ok(())
    }

    /// 25P01 for a statement that makes no sense outside of a block.
    pub fn require_block(&self, statement: &str) -> Result<()> {
        if self.top_level && !self.in_block {
            return Err(err!(
                NO_ACTIVE_SQL_TRANSACTION,
                "{statement} can only be used in transaction blocks"
            ));
        }
        Ok(())
    }
}

/// Columns that the statement will return, for Describe.
pub fn result_columns(core: &Core, statement: &Statement) -> Result<Option<Arc<[ResultColumn]>>> {
    Ok(match statement {
        Statement::Explain(explain) => Some(explain::columns(&explain.options)),
        Statement::Utility(node) => match &**node {
            NodeEnum::VariableShowStmt(show) => Some(variables::show_columns(&show.name)),
            NodeEnum::FetchStmt(fetch) if !fetch.ismove => {
                let portal = core.portals.borrow().get(&fetch.portalname);
                portal.and_then(|portal| {
                    portal.try_borrow().ok()?.shape.as_ref().map(|shape| Arc::clone(&shape.columns))
                })
            }
            NodeEnum::ExecuteStmt(execute) => {
                let prepared = core.prepared.borrow().get(&execute.name).ok();
                match prepared {
                    Some(prepared) => prepared.compiled(core)?.and_then(|compiled| compiled.columns.clone()),
                    None => None,
                }
            }
            _ => None,
        },
        _ => None,
    })
}

/// Runs the statement. A transaction is begun for those that need one.
pub fn run(invocation: &mut Invocation<'_>, statement: &Statement) -> Result<Outcome> {
    let core = invocation.core;
    match statement {
        Statement::Query(_) => Err(Error::internal("a query is not a utility")),
        Statement::Explain(explain) => explain::run(invocation, explain),
        Statement::DeclareCursor { name, scroll, hold, binary, query } => {
            cursors::declare(invocation, name, *scroll, *hold, *binary, query)
        }
        Statement::Call(_) => Err(Error::internal("a CALL is prepared before it is run")),
        Statement::CreateTableAs { .. } => crate::definition::run(invocation, statement),
        Statement::Utility(node) => match &**node {
            NodeEnum::TransactionStmt(_) => {
                Err(Error::new(sqlstate::INVALID_TRANSACTION_TERMINATION, "invalid transaction termination"))
            }
            NodeEnum::VariableSetStmt(set) => variables::set(invocation, set),
            NodeEnum::VariableShowStmt(show) => variables::show(core, &show.name),
            NodeEnum::DiscardStmt(discard) => variables::discard(invocation, discard),
            NodeEnum::PrepareStmt(prepare) => self::prepare(invocation, prepare),
            NodeEnum::ExecuteStmt(execute) => self::execute(invocation, execute),
            NodeEnum::DeallocateStmt(deallocate) => {
                let mut prepared = core.prepared.borrow_mut();
                if deallocate.name.is_empty() {
                    prepared.clear();
                    return Ok(Outcome::tag("DEALLOCATE ALL"));
                }
                if !prepared.remove(&deallocate.name) {
                    return Err(err!(
                        INVALID_SQL_STATEMENT_NAME,
                        "prepared statement \"{}\" does not exist",
                        deallocate.name
                    ));
                }
                Ok(Outcome::tag("DEALLOCATE"))
            }
            NodeEnum::FetchStmt(fetch) => cursors::fetch_statement(invocation, fetch),
            NodeEnum::ClosePortalStmt(close) => cursors::close_statement(core, &close.portalname),
            NodeEnum::CopyStmt(copy) => copy::run(invocation, copy),
            NodeEnum::DoStmt(block) => routines::do_statement(invocation, block),
            NodeEnum::LockStmt(lock) => lock_tables(invocation, lock),
            NodeEnum::ConstraintsSetStmt(set) => maintenance::set_constraints(invocation, set),
            NodeEnum::VacuumStmt(vacuum) => maintenance::vacuum(invocation, vacuum),
            NodeEnum::CheckPointStmt(_) => {
                if !core.roles().has_privileges_of(core.user_oid(), crate::rights::CHECKPOINT) {
                    return Err(err!(
                        INSUFFICIENT_PRIVILEGE,
                        "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT"
                    ));
                }
                Ok(Outcome::tag("CHECKPOINT"))
            }
            NodeEnum::ClusterStmt(cluster) => maintenance::cluster(invocation, cluster),
            NodeEnum::ListenStmt(listen) => {
                core.start_implicit();
                core.listen(&listen.conditionname);
                Ok(Outcome::tag("LISTEN"))
            }
            NodeEnum::UnlistenStmt(unlisten) => {
                core.start_implicit();
                let channel = &*unlisten.conditionname;
                core.unlisten((!channel.is_empty()).then_some(channel));
                Ok(Outcome::tag("UNLISTEN"))
            }
            NodeEnum::NotifyStmt(notify) => {
                core.start_implicit();
                core.post(&notify.conditionname, &notify.payload)?;
                Ok(Outcome::tag("NOTIFY"))
            }
            NodeEnum::LoadStmt(_) => Err(Error::unsupported("loading of shared libraries is")),
            NodeEnum::AlterSystemStmt(_) => Err(Error::unsupported("ALTER SYSTEM is")),
            _ => crate::definition::run(invocation, statement),
        },
    }
}

fn prepare(invocation: &Invocation<'_>, statement: &protobuf::PrepareStmt) -> Result<Outcome> {
    let core = invocation.core;
    core.prepared.borrow().check_free(&statement.name)?;
    let node = statement
        .query
        .as_ref()
        .and_then(|node| node.node.clone())
        .ok_or_else(|| Error::internal("PREPARE without a statement"))?;
    let types = core.with_analyzer(Parameters::None, |context| {
        let resolve = |node: &Node| match &node.node {
            Some(NodeEnum::TypeName(name)) => {
                cairn_analyze::resolve_type_name(name, context).map(|(oid, _)| oid)
            }
            _ => Err(Error::internal("a parameter type that is no type")),
        };
        statement.argtypes.iter().map(resolve).collect::<Result<Vec<_>>>()
    })?;
    // Positions point into the text of the PREPARE, which EXECUTE does not have at hand.
    let raw = RawStatement { node: Box::new(node), ..(**invocation.raw).clone() };
    // The whole string that the statement came in, as pg_prepared_statements shows it.
    let text = Arc::clone(&invocation.raw.source);
    let prepared = PreparedStatement::new(core, &statement.name, text, Some(raw), &types, true)?;
    core.prepared.borrow_mut().add(prepared)?;
    Ok(Outcome::tag("PREPARE"))
}

/// EXECUTE's prepared statement with the values of its parameters.
pub(crate) fn executed(
    invocation: &Invocation<'_>,
    statement: &protobuf::ExecuteStmt,
) -> Result<(Rc<PreparedStatement>, Arc<[Datum]>)> {
    let core = invocation.core;
    let prepared = core.prepared.borrow().get(&statement.name)?;
    let expected = prepared.parameter_types.len();
    if statement.params.len() != expected {
        return Err(err!(
            SYNTAX_ERROR,
            "wrong number of parameters for prepared statement \"{}\"",
            statement.name
        )
        .detail(format!("Expected {expected} parameters but got {}.", statement.params.len())));
    }
    let catalog = core.catalog()?;
    let expressions = core.with_analyzer(Parameters::None, |context| {
        let typed = statement.params.iter().zip(prepared.parameter_types.iter()).enumerate();
        let analyze = |(index, (node, ty)): (usize, (&Node, &u32))| {
            let collation = catalog.type_by_oid(*ty).map_or(0, |ty| ty.collation);
            let target = TypeRef { oid: *ty, typmod: -1, collation };
            cairn_analyze::analyze_column_expression(
                node,
                None,
                ExprKind::ExecuteParameter,
                &format!("${}", index + 1),
                target,
                context,
            )
        };
        typed.map(analyze).collect::<Result<Vec<_>>>()
    })?;
    let values = evaluate(core, expressions, Arc::clone(&invocation.params))?;
    Ok((prepared, values.into()))
}

fn execute(invocation: &mut Invocation<'_>, statement: &protobuf::ExecuteStmt) -> Result<Outcome> {
    let (prepared, params) = executed(invocation, statement)?;
    let core = Rc::clone(invocation.core);
    let Some(compiled) = prepared.compiled(&core)? else { return Ok(Outcome::default()) };
    if let Some(statement) = compiled.transaction_statement() {
        return Ok(Outcome::tag(core.transaction_statement(statement)?));
    }
    let mut again = || prepared.compiled(&core)?.ok_or_else(|| Error::internal("a statement has vanished"));
    let compiled = core.prepare_to_run(compiled, &mut again)?;
    match &compiled.kind {
        Kind::Plan(_) => {
            let plan = &compiled.plan_for(&core, &params)?;
            let mut rows = Vec::new();
            let count = core.run_plan(plan, params, &mut |row| {
                rows.push(row.to_vec());
                Ok(())
            })?;
            core.settle(plan);
            Ok(Outcome { tag: crate::run::tag(plan.command, count), columns: compiled.columns.clone(), rows })
        }
        Kind::Call(call) => {
            let atomic = invocation.in_block || !invocation.top_level;
            call.run(&core, params, atomic)
        }
        Kind::Utility(statement, raw) => {
            let client: Option<&mut dyn Client> = match &mut invocation.client {
                Some(client) => Some(&mut **client),
                None => None,
            };
            let mut inner = Invocation {
                core: &core,
                raw,
                params,
                top_level: invocation.top_level,
                in_block: invocation.in_block,
                client,
            };
            run(&mut inner, statement)
        }
    }
}

/// The values of expressions that stand alone.
pub(crate) fn evaluate(core: &Core, expressions: Vec<Expr>, params: Arc<[Datum]>) -> Result<Vec<Datum>> {
    if expressions.is_empty() {
        return Ok(Vec::new());
    }
    core.start_implicit();
    only_row(core, &Arc::new(plan_of(core, expressions, Purpose::Statement)?), params)
}

/// A plan that gives the values of expressions in its only row.
pub(crate) fn plan_of(core: &Core, expressions: Vec<Expr>, purpose: Purpose) -> Result<Plan> {
    let query = select_of(core, expressions)?;
    crate::statement::plan_query(core, &core.catalog()?, &query, purpose, &[])
}

/// Runs such a plan.
pub(crate) fn only_row(core: &Core, plan: &Arc<Plan>, params: Arc<[Datum]>) -> Result<Row> {
    let mut values = Row::new();
    core.run_plan(plan, params, &mut |row| {
        values = row.to_vec();
        Ok(())
    })?;
    Ok(values)
}

/// `select` of these expressions, without FROM.
pub(crate) fn select_of(core: &Core, expressions: Vec<Expr>) -> Result<Query> {
    let mut query = match core.lone_select.get() {
        Some(query) => query.clone(),
        None => {
            let raw = cairn_analyze::parse("select null")?
                .pop()
                .ok_or_else(|| Error::internal("a constant statement does not parse"))?;
            let analyze = |context: &AnalyzeContext<'_>| cairn_analyze::analyze(&raw, context);
            let Statement::Query(query) = core.with_analyzer(Parameters::None, analyze)? else {
                return Err(Error::internal("a SELECT is no query"));
            };
            core.lone_select.get_or_init(|| query).clone()
        }
    };
    let template = query.targets.pop().ok_or_else(|| Error::internal("a SELECT without targets"))?;
    for (index, expr) in expressions.into_iter().enumerate() {
        let mut target = template.clone();
        target.resno = i16::try_from(index + 1).map_err(|_| err!(TOO_MANY_ARGUMENTS, "too many values"))?;
        target.expr = expr;
        query.targets.push(target);
    }
    Ok(*query)
}

fn lock_tables(invocation: &Invocation<'_>, statement: &protobuf::LockStmt) -> Result<Outcome> {
    invocation.require_block("LOCK TABLE")?;
    let core = invocation.core;
    let transaction = core.ensure_transaction()?;
    let mode = match statement.mode {
        1 => TableLockMode::AccessShare,
        2 => TableLockMode::RowShare,
        3 => TableLockMode::RowExclusive,
        4 => TableLockMode::ShareUpdateExclusive,
        5 => TableLockMode::Share,
        6 => TableLockMode::ShareRowExclusive,
        7 => TableLockMode::Exclusive,
        _ => TableLockMode::AccessExclusive,
    };
    for node in &statement.relations {
        let Some(NodeEnum::RangeVar(range)) = &node.node else { continue };
        loop {
            let relation = crate::names::find_relation(core, range)?;
            if !core.is_superuser() {
                let has = core.rights()?.privileges(core.user_oid(), ObjectKind::Table, relation.oid).0;
                let needed = match mode {
                    TableLockMode::AccessShare => acl::SELECT,
                    TableLockMode::RowExclusive => acl::INSERT | acl::UPDATE | acl::DELETE | acl::TRUNCATE,
                    _ => acl::UPDATE | acl::DELETE | acl::TRUNCATE,
                };
                if has & needed == 0 {
                    return Err(crate::rights::denied("table", &relation.name));
                }
            }
            let tag = LockTag::Object { class: catalogs::PG_CLASS, object: relation.oid };
            let wait = if statement.nowait {
                WaitPolicy::Error
            } else {
                WaitPolicy::Block { timeout: core.hot(|hot| hot.lock_timeout) }
            };
            transaction.lock_object(tag, mode, LockScope::Transaction, wait).map_err(
                |error| match error {
                    cairn_txn::Error::LockNotAvailable => {
                        err!(LOCK_NOT_AVAILABLE, "could not obtain lock on relation \"{}\"", relation.name)
                    }
                    other => cairn_exec::txn_error(other),
                },
            )?;
            // Somebody may have renamed or dropped it while we waited.
            if crate::names::find_relation(core, range)?.oid == relation.oid {
                break;
            }
        }
    }
    Ok(Outcome::tag("LOCK TABLE"))
}

/// Reads a query as a statement of its own (COPY, cursors), with the text of the statement that it stands in.
pub(crate) fn inner_query(raw: &RawStatement, node: Option<&Node>) -> Result<Arc<RawStatement>> {
    let node = node
        .and_then(|node| node.node.clone())
        .ok_or_else(|| Error::internal("a statement without its query"))?;
    Ok(Arc::new(RawStatement { node: Box::new(node), ..raw.clone() }))
}

/// A warning from a utility.
pub(crate) fn warning(core: &Core, message: impl Into<String>) {
    core.notice(Error::warning(sqlstate::WARNING, message));
}
