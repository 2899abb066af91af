//! Cursors: DECLARE, FETCH, MOVE, CLOSE (manual, SQL commands).
//!
//! A cursor keeps its execution and fetches as it is asked, as long as it goes forward. The first time that it is to go elsewhere
//! its query is run again, at the same snapshot, and all rows are kept.

use std::rc::Rc;
use std::sync::Arc;

use cairn_analyze::query::Query;
use cairn_exec::execution::Watch;
use cairn_exec::{Execution, Plan, plan::Usage};
use cairn_types::{Datum, Error, Oid, Result, Row, Text, err};
use pg_query::protobuf::{FetchDirection, FetchStmt, node::Node as NodeEnum};

use crate::client::{Format, ResultColumn, ResultShape};
use crate::core::Core;
use crate::portal::{CursorOptions, Portal, Positions, Scroll, State, Stored};
use crate::statement::{Kind, Purpose, plan_query, result_columns};
use crate::utility::{Invocation, Outcome};

pub fn declare(
    invocation: &Invocation<'_>,
    name: &Text,
    scroll: bool,
    hold: bool,
    binary: bool,
    query: &Query,
) -> Result<Outcome> {
    if !hold {
        invocation.require_block("DECLARE CURSOR")?;
    }
    let core = invocation.core;
    if name.is_empty() {
        return Err(err!(INVALID_CURSOR_NAME, "invalid cursor name: must not be empty"));
    }
    let no_scroll = match &*invocation.raw.node {
        NodeEnum::DeclareCursorStmt(declare) => declare.options & CURSOR_OPTION_NO_SCROLL != 0,
        _ => false,
    };
    let scroll = match (scroll, no_scroll) {
        (true, _) => Scroll::Wanted,
        (false, true) => Scroll::Forbidden,
        (false, false) => Scroll::Possible,
    };
    let options = CursorOptions { scroll, hold, binary, statement: invocation.raw.source.to_string() };
    open(core, Arc::clone(name), query, Arc::clone(&invocation.params), options)?;
    Ok(Outcome::tag("DECLARE CURSOR"))
}

/// Bit of DECLARE's options in the parse tree.
const CURSOR_OPTION_NO_SCROLL: i32 = 4;

/// Opens a cursor over a query.
pub(crate) fn open(
    core: &Core,
    name: Text,
    query: &Query,
    params: Arc<[Datum]>,
    options: CursorOptions,
) -> Result<()> {
    let transaction = core.ensure_transaction()?;
    // Again, if the catalog changed while we waited for the tables.
    loop {
        let catalog = core.catalog()?;
        let plan = Arc::new(plan_query(core, &catalog, query, Purpose::Cursor, &params)?);
        core.lock_relations(&plan, &transaction)?;
        if core.catalog()?.version() == catalog.version() {
            let columns = result_columns(&catalog, &plan.columns);
            return open_plan(core, name, plan, columns, params, options);
        }
    }
}

/// Opens a cursor over a plan whose tables are locked.
pub(crate) fn open_plan(
    core: &Core,
    name: Text,
    plan: Arc<Plan>,
    columns: Arc<[ResultColumn]>,
    params: Arc<[Datum]>,
    options: CursorOptions,
) -> Result<()> {
    let transaction = core.ensure_transaction()?;
    let formats = if options.binary { vec![Format::Binary] } else { Vec::new() };
    let snapshot = core.snapshot_for(&plan, &transaction)?;
    let mut portal =
        Portal::new(core, name, None, Arc::clone(&params), Some(ResultShape { columns, formats }));
    portal.positions = Positions {
        relations: plan.positions.iter().map(|position| position.relation).collect(),
        locks: plan.relations.iter().any(|used| matches!(used.usage, Usage::Lock(_))),
    };
    portal.in_use = Some(core.uses(&plan));
    portal.state = State::Running(Box::new(Execution::start(plan, params, snapshot, Watch::Off)));
    portal.cursor = Some(options);
    core.add_portal(portal)?;
    Ok(())
}

/// Keeps all of a cursor's rows, so that it can go anywhere and outlive its transaction; it stays where it is.
pub(crate) fn store_rows(core: &Core, portal: &mut Portal) -> Result<()> {
    let (passed, ended) = (portal.passed, portal.ended);
    let State::Running(execution) = &mut portal.state else { return Ok(()) };
    if passed > 0 {
        let (plan, snapshot) = (Arc::clone(execution.plan()), execution.frame.snapshot);
        **execution = Execution::start(plan, Arc::clone(&portal.params), snapshot, Watch::Off);
    }
    core.snapshots.borrow_mut().push(execution.frame.snapshot);
    let rows = core.with_exec(|cx| {
        let mut rows: Vec<Row> = Vec::new();
        let mut keys: Vec<Row> = Vec::new();
        while let Some(row) = execution.next_row(cx)? {
            rows.push(row.to_vec());
            if !execution.plan().positions.is_empty() {
                keys.push(execution.position());
            }
        }
        execution.finish(cx)?;
        Ok((rows, keys))
    });
    core.pop_snapshot();
    let (rows, keys) = rows?;
    let mut stored = Stored { keys, ..Stored::new(rows) };
    stored.position = if ended { stored.rows.len() + 1 } else { passed };
    portal.state = State::Rows(stored);
    Ok(())
}

/// Where a FETCH goes; `i64::MAX` is ALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    Forward(i64),
    Backward(i64),
    Absolute(i64),
    Relative(i64),
}

/// Starts a portal that Bind has made and no Execute has run. Errors: 55000 for one that returns no rows.
fn start(core: &Core, portal: &mut Portal) -> Result<()> {
    core.ensure_transaction()?;
    let Some(compiled) = portal.compiled.clone() else { return Err(cannot_be_run(&portal.name)) };
    let outcome = match &compiled.kind {
        Kind::Plan(plan) if plan.returns_rows() => {
            let compiled = core.prepare_portal(portal, Rc::clone(&compiled))?;
            let plan = compiled.plan_for(core, &portal.params)?;
            core.start_portal(portal, &plan)?;
            portal.compiled = Some(compiled);
            return Ok(());
        }
        Kind::Call(call) if compiled.columns.is_some() => {
            call.run(&core.rc(), Arc::clone(&portal.params), true)?
        }
        Kind::Utility(statement, raw) if portal.shape.is_some() => {
            let core = core.rc();
            let mut invocation = Invocation::new(&core, raw, true);
            invocation.params = Arc::clone(&portal.params);
            crate::utility::run(&mut invocation, statement)?
        }
        Kind::Plan(_) | Kind::Call(_) | Kind::Utility(..) => return Err(cannot_be_run(&portal.name)),
    };
    portal.state = State::Rows(Stored { rows: outcome.rows, tag: Some(outcome.tag), ..Stored::default() });
    Ok(())
}

/// Moves the cursor and returns the rows that it passed, as FETCH shows them.
pub(crate) fn fetch(core: &Core, portal: &mut Portal, motion: Motion) -> Result<Vec<Row>> {
    if matches!(portal.state, State::Ready) {
        start(core, portal)?;
    }
    // A portal of the protocol goes forward only.
    let scroll = portal.cursor.as_ref().map_or(Scroll::Forbidden, |cursor| cursor.scroll);
    let simple = matches!(motion, Motion::Forward(count) if count > 0) || motion == Motion::Relative(1);
    if simple {
        let count = if let Motion::Forward(count) = motion { count } else { 1 };
        if let State::Running(execution) = &mut portal.state {
            core.snapshots.borrow_mut().push(execution.frame.snapshot);
            let fetched = core.with_exec(|cx| {
                let mut rows: Vec<Row> = Vec::new();
                while i64::try_from(rows.len()).unwrap_or(i64::MAX) < count {
                    match execution.next_row(cx)? {
                        Some(row) => rows.push(row.to_vec()),
                        None => break,
                    }
                }
                Ok(rows)
            });
            core.pop_snapshot();
            let rows = fetched?;
            portal.passed += rows.len();
            portal.ended |= i64::try_from(rows.len()).unwrap_or(i64::MAX) < count;
            return Ok(rows);
        }
    }
    let backward = match motion {
        Motion::Forward(count) | Motion::Relative(count) => count < 0,
        Motion::Backward(count) => count > 0,
        Motion::Absolute(_) => true,
    };
    if backward && scroll == Scroll::Forbidden {
        return Err(err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
            .hint("Declare it with SCROLL option to enable backward scan."));
    }
    store_rows(core, portal)?;
    let State::Rows(stored) = &mut portal.state else { return Ok(Vec::new()) };
    Ok(stored.fetch(motion))
}

impl Stored {
    /// `position` is that of the current row: 0 before the first, `rows.len() + 1` after the last.
    fn fetch(&mut self, motion: Motion) -> Vec<Row> {
        let end = i64::try_from(self.rows.len()).unwrap_or(i64::MAX - 1) + 1;
        let here = i64::try_from(self.position).unwrap_or(i64::MAX);
        let row = |at: i64| usize::try_from(at - 1).ok().and_then(|index| self.rows.get(index)).cloned();
        let (position, rows): (i64, Vec<Row>) = match motion {
            Motion::Forward(0) | Motion::Backward(0) | Motion::Relative(0) => {
                (here, row(here).into_iter().collect())
            }
            Motion::Forward(count) if count < 0 => {
                return self.fetch(Motion::Backward(count.saturating_neg()));
            }
            Motion::Backward(count) if count < 0 => {
                return self.fetch(Motion::Forward(count.saturating_neg()));
            }
            Motion::Forward(count) => {
                let last = here.saturating_add(count).min(end);
                (last, (here + 1..=last.min(end - 1)).filter_map(row).collect())
            }
            Motion::Backward(count) => {
                let last = here.saturating_sub(count).max(0);
                (last, (last.max(1)..here).rev().filter_map(row).collect())
            }
            Motion::Absolute(count) => {
                let at = if count >= 0 { count.min(end) } else { (end + count).max(0) };
                (at, row(at).into_iter().collect())
            }
            Motion::Relative(count) => {
                let at = here.saturating_add(count).clamp(0, end);
                (at, row(at).into_iter().collect())
            }
        };
        self.position = usize::try_from(position).unwrap_or(0);
        rows
    }
}

fn motion(statement: &FetchStmt) -> Motion {
    let count = statement.how_many;
    match FetchDirection::try_from(statement.direction).unwrap_or(FetchDirection::Undefined) {
        FetchDirection::FetchBackward => Motion::Backward(count),
        FetchDirection::FetchAbsolute => Motion::Absolute(count),
        FetchDirection::FetchRelative => Motion::Relative(count),
        FetchDirection::FetchForward | FetchDirection::Undefined => Motion::Forward(count),
    }
}

/// 55000 for a portal that gives no rows, or whose own query asks for its rows.
pub(crate) fn cannot_be_run(name: &str) -> Error {
    err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "portal \"{name}\" cannot be run")
}

pub fn fetch_statement(invocation: &Invocation<'_>, statement: &FetchStmt) -> Result<Outcome> {
    let core = invocation.core;
    let portal = core.portals.borrow().require(&statement.portalname, "cursor")?;
    let mut portal = portal.try_borrow_mut().map_err(|_| cannot_be_run(&statement.portalname))?;
    if matches!(portal.state, State::Running(_)) {
        core.ensure_transaction()?;
    }
    let rows = fetch(core, &mut portal, motion(statement))?;
    if statement.ismove {
        return Ok(Outcome::tag(format!("MOVE {}", rows.len())));
    }
    let columns = portal.shape.as_ref().map(|shape| Arc::clone(&shape.columns));
    Ok(Outcome { tag: format!("FETCH {}", rows.len()), columns, rows })
}

/// The key of the row that a cursor stands on, for WHERE CURRENT OF; `None` where an outer join made the row up.
/// Errors: 34000 without such a cursor, 24000 for one that stands on no row of the table.
pub(crate) fn position(core: &Core, cursor: &str, table: Oid) -> Result<Option<Vec<u8>>> {
    let portal = core.portals.borrow().require(cursor, "cursor")?;
    let portal = portal.try_borrow().map_err(|_| cannot_be_run(cursor))?;
    if portal.cursor.is_none() {
        return Err(err!(INVALID_CURSOR_STATE, "cursor \"{cursor}\" is not a SELECT query"));
    }
    if portal.held {
        return Err(err!(INVALID_CURSOR_STATE, "cursor \"{cursor}\" is held from a previous transaction"));
    }
    let mut places =
        portal.positions.relations.iter().enumerate().filter(|(_, relation)| **relation == table);
    let (place, second) = (places.next().map(|(place, _)| place), places.next());
    let name = || -> Result<String> {
        Ok(core.catalog()?.relation(table).map(|relation| relation.name.to_string()).unwrap_or_default())
    };
    let Some(place) = place else {
        let name = name()?;
        return Err(if portal.positions.locks {
            err!(
                INVALID_CURSOR_STATE,
                "cursor \"{cursor}\" does not have a FOR UPDATE/SHARE reference to table \"{name}\""
            )
        } else {
            err!(
                INVALID_CURSOR_STATE,
                "cursor \"{cursor}\" is not a simply updatable scan of table \"{name}\""
            )
        });
    };
    if second.is_some() {
        return Err(err!(
            INVALID_CURSOR_STATE,
            "cursor \"{cursor}\" has multiple FOR UPDATE/SHARE references to table \"{}\"",
            name()?
        ));
    }
    let keys = match &portal.state {
        State::Running(execution) if portal.passed > 0 && !portal.ended => Some(execution.position()),
        State::Rows(stored) => stored.position.checked_sub(1).and_then(|row| stored.keys.get(row)).cloned(),
        State::Running(_) | State::Ready | State::Done => None,
    };
    match keys.as_ref().and_then(|keys| keys.get(place)) {
        Some(Datum::Bytea(key)) => Ok(Some(key.to_vec())),
        Some(_) => Ok(None),
        None => Err(err!(INVALID_CURSOR_STATE, "cursor \"{cursor}\" is not positioned on a row")),
    }
}

pub fn close_statement(core: &Rc<Core>, name: &str) -> Result<Outcome> {
    if name.is_empty() {
        let portals = core.portals.borrow().all();
        for portal in portals {
            let is_cursor = portal.try_borrow().is_ok_and(|portal| portal.cursor.is_some());
            if is_cursor {
                core.close(&portal)?;
            }
        }
        return Ok(Outcome::tag("CLOSE CURSOR ALL"));
    }
    let portal = core.portals.borrow().require(name, "cursor")?;
    core.close(&portal)?;
    Ok(Outcome::tag("CLOSE CURSOR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(rows: Vec<Row>) -> Vec<i32> {
        rows.iter().map(|row| if let Datum::Int4(value) = row[0] { value } else { 0 }).collect()
    }

    #[test]
    fn motions_are_those_of_fetch() {
        let mut stored = Stored::new((1..=3).map(|value| vec![Datum::Int4(value)]).collect());
        let mut go = |motion| numbers(stored.fetch(motion));
        assert_eq!(go(Motion::Forward(2)), [1, 2]);
        assert_eq!(go(Motion::Forward(0)), [2]);
        assert_eq!(go(Motion::Backward(1)), [1]);
        assert_eq!(go(Motion::Forward(i64::MAX)), [2, 3]);
        assert_eq!(go(Motion::Forward(1)), [0; 0]);
        assert_eq!(go(Motion::Backward(i64::MAX)), [3, 2, 1]);
        assert_eq!(go(Motion::Backward(1)), [0; 0]);
        assert_eq!(go(Motion::Absolute(2)), [2]);
        assert_eq!(go(Motion::Absolute(-1)), [3]);
        assert_eq!(go(Motion::Relative(-2)), [1]);
        assert_eq!(go(Motion::Relative(5)), [0; 0]);
        assert_eq!(go(Motion::Absolute(0)), [0; 0]);
        assert_eq!(go(Motion::Forward(1)), [1]);
    }
}
