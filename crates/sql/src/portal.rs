//! Portals: statements with their parameters, run in steps (Bind and Execute, cursors).
//!
//! A portal holds its execution between messages; it borrows nothing of the session. It dies with the transaction that made
//! it, or with the savepoint inside which it was made, unless it is a cursor WITH HOLD: that one keeps its
//! rows when the transaction commits.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cairn_exec::execution::Watch;
use cairn_exec::{Execution, Plan};
use cairn_txn::Snapshot;
use cairn_types::{Datum, Error, Result, Row, Text, err};
use hashbrown::HashMap;

use crate::client::ResultShape;
use crate::core::Core;
use crate::run::InUse;
use crate::session::PreparedStatement;
use crate::statement::Compiled;

/// All portals of a session by name; the unnamed one's is empty.
#[derive(Default)]
pub struct Portals {
    by_name: HashMap<Text, Rc<RefCell<Portal>>>,
    last_unnamed_cursor: u64,
}

pub struct Portal {
    pub name: Text,
    /// `None`: an empty query.
    pub compiled: Option<Rc<Compiled>>,
    /// What Bind made it from; compiles the statement again if the catalog changes before it runs.
    pub prepared: Option<Rc<PreparedStatement>>,
    pub params: Arc<[Datum]>,
    pub shape: Option<ResultShape>,
    pub state: State,
    /// From its first row on; a held cursor's tables are free again.
    pub(crate) in_use: Option<InUse>,
    /// Made by DECLARE (or PL/pgSQL): FETCH and pg_cursors see it.
    pub cursor: Option<CursorOptions>,
    pub positions: Positions,
    /// Rows that a running cursor has passed, and whether it has found its end.
    pub passed: usize,
    pub ended: bool,
    /// Open savepoints when it was made.
    depth: usize,
    /// Survived the commit of its transaction.
    pub held: bool,
    pub created_us: i64,
}

/// Of which tables a cursor knows the row that it stands on.
#[derive(Default)]
pub struct Positions {
    pub relations: Vec<cairn_types::Oid>,
    /// Its query locks rows.
    pub locks: bool,
}

/// Whether a cursor may go backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scroll {
    Wanted,
    /// Nothing was said: it may, if it comes to that.
    Possible,
    Forbidden,
}

#[derive(Clone, Debug)]
pub struct CursorOptions {
    pub scroll: Scroll,
    pub hold: bool,
    pub binary: bool,
    pub statement: String,
}

pub enum State {
    Ready,
    Running(Box<Execution>),
    /// All rows are known: results of utilities and of INSERT ... RETURNING, scrollable and held cursors.
    Rows(Stored),
    /// Ran to its end, or failed.
    Done,
}

/// Rows with a position: 0 before the first, n on row n, `rows.len() + 1` after the last.
#[derive(Default)]
pub struct Stored {
    pub rows: Vec<Row>,
    /// The rows' keys in the tables of [`Positions`], if those are kept.
    pub keys: Vec<Row>,
    pub position: usize,
    /// Tag of what made them, where it is not the number of rows.
    pub tag: Option<String>,
}

impl Portals {
    pub fn get(&self, name: &str) -> Option<Rc<RefCell<Portal>>> {
        self.by_name.get(name).cloned()
    }

    /// The portal of this name, or 34000.
    pub fn require(&self, name: &str, what: &str) -> Result<Rc<RefCell<Portal>>> {
        self.get(name).ok_or_else(|| err!(INVALID_CURSOR_NAME, "{what} \"{name}\" does not exist"))
    }

    /// What the portals that have not come to their end read at.
    pub fn running_snapshots(&self) -> Vec<Snapshot> {
        let running = self.by_name.values().filter_map(|portal| match &portal.try_borrow().ok()?.state {
            State::Running(execution) => Some(execution.frame.snapshot),
            State::Ready | State::Rows(_) | State::Done => None,
        });
        running.collect()
    }

    pub fn remove(&mut self, name: &str) -> Option<Rc<RefCell<Portal>>> {
        self.by_name.remove(name)
    }

    pub fn all(&self) -> Vec<Rc<RefCell<Portal>>> {
        self.by_name.values().cloned().collect()
    }

    /// A name for a cursor that was opened without one.
    pub fn unnamed_cursor(&mut self) -> Text {
        loop {
            self.last_unnamed_cursor += 1;
            let name = format!("<unnamed portal {}>", self.last_unnamed_cursor);
            if !self.by_name.contains_key(name.as_str()) {
                return name.into();
            }
        }
    }
}

impl Portal {
    pub fn new(
        core: &Core,
        name: Text,
        compiled: Option<Rc<Compiled>>,
        params: Arc<[Datum]>,
        shape: Option<ResultShape>,
    ) -> Portal {
        Portal {
            name,
            compiled,
            prepared: None,
            params,
            positions: Positions::default(),
            shape,
            state: State::Ready,
            in_use: None,
            cursor: None,
            passed: 0,
            ended: false,
            depth: core.savepoint_depth(),
            held: false,
            created_us: cairn_types::Env::statement_time(core),
        }
    }
}

impl Core {
    /// Makes a portal known. The unnamed one replaces its predecessor, another name must be free.
    pub(crate) fn add_portal(&self, portal: Portal) -> Result<Rc<RefCell<Portal>>> {
        let name = Arc::clone(&portal.name);
        let old = self.portals.borrow().get(&name);
        if let Some(old) = old {
            if !name.is_empty() {
                return Err(err!(DUPLICATE_CURSOR, "cursor \"{name}\" already exists"));
            }
            self.close(&old)?;
        }
        let portal = Rc::new(RefCell::new(portal));
        self.portals.borrow_mut().by_name.insert(name, Rc::clone(&portal));
        Ok(portal)
    }

    /// Starts a query's portal whose rows are taken in portions. One that changes something runs to its end now, whatever
    /// is taken of its rows.
    pub(crate) fn start_portal(&self, portal: &mut Portal, plan: &Arc<Plan>) -> Result<()> {
        if plan.modifies {
            let mut rows = Vec::new();
            let count = self.run_plan(plan, Arc::clone(&portal.params), &mut |row| {
                rows.push(row.to_vec());
                Ok(())
            })?;
            self.settle(plan);
            let tag = crate::run::tag(plan.command, count);
            portal.state = State::Rows(Stored { rows, tag: Some(tag), ..Stored::default() });
        } else {
            let transaction = self.ensure_transaction()?;
            let snapshot = self.push_snapshot(&transaction)?;
            self.pop_snapshot();
            let params = Arc::clone(&portal.params);
            let execution = Execution::start(Arc::clone(plan), params, snapshot, Watch::Off);
            portal.in_use = Some(self.uses(plan));
            portal.state = State::Running(Box::new(execution));
        }
        Ok(())
    }

    /// The statement of a query's portal ready to run, compiled again if the catalog has changed since Bind.
    pub(crate) fn prepare_portal(&self, portal: &Portal, compiled: Rc<Compiled>) -> Result<Rc<Compiled>> {
        let mut compile = || match &portal.prepared {
            Some(prepared) => {
                prepared.compiled(self)?.ok_or_else(|| Error::internal("a statement has vanished"))
            }
            None => Err(crate::session::result_type_changed()),
        };
        self.prepare_to_run(compiled, &mut compile)
    }

    /// Ends a portal's execution, so that a data-modifying statement is completed; it is forgotten.
    pub(crate) fn close(&self, portal: &Rc<RefCell<Portal>>) -> Result<()> {
        let (name, state) = {
            let Ok(mut portal) = portal.try_borrow_mut() else { return Err(self.cannot_drop(portal)) };
            portal.in_use = None;
            (Arc::clone(&portal.name), std::mem::replace(&mut portal.state, State::Done))
        };
        self.portals.borrow_mut().remove(&name);
        if let State::Running(mut execution) = state
            && self.transaction_if_begun().is_some()
        {
            self.with_exec(|cx| execution.finish(cx))?;
        }
        Ok(())
    }

    /// 24000 for a portal that is running.
    fn cannot_drop(&self, portal: &Rc<RefCell<Portal>>) -> Error {
        let portals = self.portals.borrow();
        let entry = portals.by_name.iter().find(|(_, known)| Rc::ptr_eq(known, portal));
        let name = entry.map_or("", |(name, _)| name);
        err!(INVALID_CURSOR_STATE, "cannot drop active portal \"{name}\"")
    }

    /// COMMIT: cursors WITH HOLD keep their rows, all other portals go.
    pub(crate) fn portals_at_commit(&self) -> Result<()> {
        if self.portals.borrow().by_name.is_empty() {
            return Ok(());
        }
        let all = self.portals.borrow().all();
        for portal in all {
            let (held, holds) = match portal.try_borrow() {
                Ok(portal) => (portal.held, portal.cursor.as_ref().is_some_and(|cursor| cursor.hold)),
                // It is the one that runs the COMMIT (a procedure's).
                Err(_) => continue,
            };
            if held {
                continue;
            }
            if holds {
                crate::cursors::store_rows(self, &mut portal.borrow_mut())?;
                let mut portal = portal.borrow_mut();
                portal.held = true;
                portal.in_use = None;
            } else {
                self.close(&portal)?;
            }
        }
        Ok(())
    }

    /// ROLLBACK (depth 0), ROLLBACK TO: portals made since are forgotten.
    pub(crate) fn portals_at_rollback(&self, depth: usize) {
        self.portals.borrow_mut().by_name.retain(|_, portal| match portal.try_borrow() {
            Ok(portal) => portal.held || depth > 0 && portal.depth < depth,
            Err(_) => depth > 0,
        });
    }

    /// RELEASE: portals of the released savepoint belong to the one around it.
    pub(crate) fn portals_at_release(&self, depth: usize) {
        let portals = self.portals.borrow().all();
        for portal in portals {
            if let Ok(mut portal) = portal.try_borrow_mut() {
                portal.depth = portal.depth.min(depth);
            }
        }
    }
}

impl Stored {
    pub fn new(rows: Vec<Row>) -> Self {
        Stored { rows, ..Stored::default() }
    }

    /// Rows that have not been passed yet, at most so many (0: all); the position moves behind them.
    pub fn take_forward(&mut self, count: usize) -> &[Row] {
        let from = self.position.min(self.rows.len());
        let limit = if count == 0 { usize::MAX } else { count };
        let to = from.saturating_add(limit).min(self.rows.len());
        self.position = to;
        &self.rows[from..to]
    }

    pub fn is_exhausted(&self) -> bool {
        self.position >= self.rows.len()
    }
}
