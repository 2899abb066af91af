//! Finding deadlocks, at the moment when the edge that closes one is added.
//!
//! Nodes are sessions, for a session's thread waits for one lock at a time. Edges of a waiting session:
//! - *hard*: to each holder whose lock conflicts with what it asks for;
//! - *soft*: to each waiter in front of it in the queue whose request conflicts with its own. A soft edge can be turned
//!   around by changing places in the queue; so a cycle with a soft edge in it is not yet a deadlock.
//!
//! ```text
//! A thread enters a queue (under its shard's mutex), and then, under the graph's mutex:
//!   waiting[session] := waiter
//!   quick look: walk from its lock to the locks that its holders wait for, one shard at a time.
//!               Can the walk come back? It over-estimates (every holder blocks, every earlier waiter blocks).
//!   if it can:  with all shards locked, search for a cycle through this session.
//!               none                       -> wait
//!               one with soft edges        -> reverse one of them, re-sort that queue, search again from every
//!                                             session concerned; if some set of reversals leaves no cycle, apply it
//!               one that stays, or no soft edge -> deadlock: this request is the victim
//! ```
//! Why adding an edge is the only moment to look: edges appear only when a request enters a queue. A lock that
//! passes on to a waiter turns that waiter's followers' soft edges into hard ones, but it is still the same
//! node that they point to; whoever is granted a lock without waiting, be it past others who wait for it, runs, and looks itself
//! when it queues for something. The graph's mutex orders the searches, so that of two requests that close a
//! cycle together the later one sees the earlier.
//!
//! The quick look is what hot rows pay: a queue whose holder runs costs one step, however long the queue is.

use std::collections::HashSet;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use super::queue::{Agent, Granted, SESSION_SCOPE, SessionId, Waiter};
use super::table::{AllShards, LockKey, LockTable};
use crate::LockTag;

/// Who waits for what. Entries of waiters that were granted meanwhile linger until they wake up.
#[derive(Debug, Default)]
pub(super) struct WaitGraph {
    pub(super) waiting: HashMap<SessionId, Arc<Waiter>>,
}

/// What became of a look for deadlocks.
pub(super) enum Verdict {
    Wait,
    /// The request got its lock, or others got theirs, by a change in some queue's order; they are to be woken.
    Reordered(Granted),
    Deadlock {
        detail: String,
    },
}

/// How many queue changes one solution may consist of, and how many are tried in all.
const REVERSALS_MAX: usize = 16;
const TRIALS_MAX: usize = 500;

impl WaitGraph {
    pub(super) fn add(&mut self, table: &LockTable, waiter: &Arc<Waiter>) -> Verdict {
        self.waiting.insert(waiter.agent.session, waiter.clone());
        if !self.may_be_cyclic(table, waiter) {
            return Verdict::Wait;
        }
        let shards = table.lock_all();
        if !waiter.is_waiting() {
            return Verdict::Wait;
        }
        let mut search = Search { graph: self, shards, trials: 0 };
        let mut reversals = Vec::new();
        match search.solve(waiter, &mut reversals) {
            Err(cycle) => Verdict::Deadlock { detail: detail(&cycle) },
            Ok(()) if reversals.is_empty() => Verdict::Wait,
            Ok(()) => Verdict::Reordered(search.apply(&reversals)),
        }
    }

    fn waiter_of(&self, session: SessionId) -> Option<&Arc<Waiter>> {
        self.waiting.get(&session).filter(|waiter| waiter.is_waiting())
    }

    /// Whether a walk over holders can come back to the waiter. Sees each lock at a different moment; it may say yes
    /// wrongly, never no.
    fn may_be_cyclic(&self, table: &LockTable, waiter: &Arc<Waiter>) -> bool {
        let mut visited: SmallVec<[&LockKey; 4]> = smallvec![&waiter.key];
        let mut pending: SmallVec<[&Arc<Waiter>; 4]> = smallvec![waiter];
        while let Some(current) = pending.pop() {
            let mut shard = table.shard(current.hash);
            let Some(state) = shard.state(current.hash, current.key.as_ref()) else { continue };
            for hold in &state.holds {
                if hold.agent.session == waiter.agent.session {
                    if Arc::ptr_eq(current, waiter) && hold.agent.is_one_with(&waiter.agent, waiter.mode) {
                        continue;
                    }
                    return true;
                }
                let Some(next) = self.waiter_of(hold.agent.session) else { continue };
                if next.key == waiter.key {
                    return true;
                }
                if !visited.contains(&&next.key) {
                    visited.push(&next.key);
                    pending.push(next);
                }
            }
        }
        false
    }
}

/// `waiter` waits for `blocker`.
#[derive(Clone, Debug)]
struct Edge {
    waiter: Arc<Waiter>,
    blocker: Agent,
    /// Set for a soft edge: the blocker's own request.
    soft: Option<Arc<Waiter>>,
}

/// `first` is to stand before `second` in the queue of their lock.
struct Reversal {
    first: Arc<Waiter>,
    second: Arc<Waiter>,
}

impl Reversal {
    fn concerns(&self, a: &Arc<Waiter>, b: &Arc<Waiter>) -> bool {
        (Arc::ptr_eq(&self.first, a) && Arc::ptr_eq(&self.second, b))
            || (Arc::ptr_eq(&self.first, b) && Arc::ptr_eq(&self.second, a))
    }
}

struct Search<'a> {
    graph: &'a WaitGraph,
    shards: AllShards<'a>,
    trials: usize,
}

impl Search<'_> {
    /// Extends `reversals` until no cycle is left; `Err` is the cycle that cannot be broken.
    fn solve(&mut self, start: &Arc<Waiter>, reversals: &mut Vec<Reversal>) -> Result<(), Vec<Edge>> {
        let Some(cycle) = self.any_cycle(start, reversals) else { return Ok(()) };
        // Who has waited longest goes first: in PostgreSQL it would be the first to look for deadlocks.
        let mut by_age: Vec<&Edge> = cycle.iter().collect();
        by_age.sort_by_key(|edge| edge.waiter.since());
        for edge in by_age {
            let Some(blocker) = &edge.soft else { continue };
            if reversals.len() >= REVERSALS_MAX || self.trials >= TRIALS_MAX {
                break;
            }
            if reversals.iter().any(|reversal| reversal.concerns(&edge.waiter, blocker)) {
                continue;
            }
            self.trials += 1;
            let kept = reversals.len();
            reversals.push(Reversal { first: edge.waiter.clone(), second: blocker.clone() });
            if self.order(&edge.waiter, reversals).is_some() && self.solve(start, reversals).is_ok() {
                return Ok(());
            }
            reversals.truncate(kept);
        }
        Err(cycle)
    }

    /// A cycle through the starting request, or through one whose place is to change.
    fn any_cycle(&self, start: &Arc<Waiter>, reversals: &[Reversal]) -> Option<Vec<Edge>> {
        let changed = reversals.iter().flat_map(|reversal| [&reversal.first, &reversal.second]);
        std::iter::once(start).chain(changed).find_map(|waiter| self.cycle_through(waiter, reversals))
    }

    /// Depth-first search with a stack of its own: chains of waiting sessions may be long.
    fn cycle_through(&self, start: &Arc<Waiter>, reversals: &[Reversal]) -> Option<Vec<Edge>> {
        let mut visited = HashSet::from([start.agent.session]);
        let mut path: Vec<Edge> = Vec::new();
        let mut pending = vec![self.edges(start, reversals).into_iter()];
        while let Some(edges) = pending.last_mut() {
            let Some(edge) = edges.next() else {
                pending.pop();
                path.pop();
                continue;
            };
            let blocker = edge.blocker.session;
            if blocker == start.agent.session {
                path.push(edge);
                return Some(path);
            }
            if let Some(next) = self.graph.waiter_of(blocker)
                && visited.insert(blocker)
            {
                path.push(edge);
                pending.push(self.edges(next, reversals).into_iter());
            }
        }
        None
    }

    fn edges(&self, waiter: &Arc<Waiter>, reversals: &[Reversal]) -> Vec<Edge> {
        let Some(state) = self.shards.state(waiter.hash, &waiter.key) else { return Vec::new() };
        let hard = state.blocking_holds(waiter).map(|hold| Edge {
            waiter: waiter.clone(),
            blocker: hold.agent,
            soft: None,
        });
        let mut edges: Vec<Edge> = hard.collect();
        let conflicts = waiter.mode.conflicts();
        let order = self.order(waiter, reversals).unwrap_or_default();
        for other in order.iter().take_while(|other| !Arc::ptr_eq(other, waiter)) {
            if super::modes::ModeSet::of(other.mode).intersects(conflicts)
                && !other.agent.is_one_with(&waiter.agent, waiter.mode)
            {
                edges.push(Edge { waiter: waiter.clone(), blocker: other.agent, soft: Some(other.clone()) });
            }
        }
        edges
    }

    /// The queue that the waiter stands in, re-sorted as the reversals ask, otherwise as it is; `None` if they
    /// contradict each other.
    fn order(&self, waiter: &Arc<Waiter>, reversals: &[Reversal]) -> Option<Vec<Arc<Waiter>>> {
        let state = self.shards.state(waiter.hash, &waiter.key)?;
        let mut rest: Vec<Arc<Waiter>> = state.waiters.iter().cloned().collect();
        let wanted: Vec<&Reversal> = reversals.iter().filter(|r| r.first.key == waiter.key).collect();
        if wanted.is_empty() {
            return Some(rest);
        }
        let mut sorted = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let must_wait = |candidate: &Arc<Waiter>| {
                wanted.iter().any(|reversal| {
                    Arc::ptr_eq(&reversal.second, candidate)
                        && rest.iter().any(|other| Arc::ptr_eq(other, &reversal.first))
                })
            };
            let next = rest.iter().position(|candidate| !must_wait(candidate))?;
            sorted.push(rest.remove(next));
        }
        Some(sorted)
    }

    fn apply(&mut self, reversals: &[Reversal]) -> Granted {
        let mut granted = Granted::new();
        for reversal in reversals {
            // Several reversals of one queue: the order obeys all of them, and setting it twice does no harm;
            // but whoever was granted the first time is gone from the queue by then.
            let Some(order) = self.order(&reversal.first, reversals) else { continue };
            if let Some(state) = self.shards.state_mut(reversal.first.hash, &reversal.first.key) {
                state.waiters = order.into();
                state.grant_waiters(&mut granted);
            }
        }
        granted
    }
}

/// PostgreSQL's lines: one per edge, the victim's first.
fn detail(cycle: &[Edge]) -> String {
    let line = |edge: &Edge| {
        let what = match &edge.waiter.key {
            // Whoever waits for a row waits for the transaction that has it.
            LockKey::Row(_) => format!("ShareLock on transaction {}", edge.blocker.number),
            LockKey::Object(tag) => format!("{} on {}", edge.waiter.mode.name(), describe(*tag)),
        };
        format!(
            "Process {} waits for {what}; blocked by process {}.",
            edge.waiter.agent.pid, edge.blocker.pid
        )
    };
    cycle.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn describe(tag: LockTag) -> String {
    /// pg_class itself: objects of this class are relations.
    const PG_CLASS: u32 = 1259;
    match tag {
        LockTag::Object { class: PG_CLASS, object } => format!("relation {object}"),
        LockTag::Object { class, object } => format!("object {object} of class {class}"),
        LockTag::Advisory(key) => format!("advisory lock [{},{},1]", (key as u64) >> 32, key as u32),
        LockTag::Transaction(number) => format!("transaction {number}"),
        LockTag::AdvisoryPair(a, b) => format!("advisory lock [{},{},2]", a as u32, b as u32),
    }
}

/// The transaction of an agent, if the lock is one's.
pub(super) fn transaction_of(agent: &Agent) -> Option<u64> {
    (agent.number != SESSION_SCOPE).then_some(agent.number)
}
