//! What `explain analyze` counts: per node time to the first row, total time, rows and loops.

use std::time::{Duration, Instant};

use cairn_txn::ReadCounters;
use cairn_types::Result;

use crate::context::{ExecContext, Frame};
use crate::node::Node;

#[derive(Clone, Copy, Debug, Default)]
pub struct NodeCounters {
    /// Summed over all loops.
    pub startup: Duration,
    pub total: Duration,
    pub rows: u64,
    pub loops: u64,
    pub removed_by_filter: u64,
    pub removed_by_join_filter: u64,
    /// What a scan asked of the storage.
    pub reads: ReadCounters,
    /// Sort: bytes held in memory or on disk; hash: likewise.
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

/// Counters of all nodes of a plan, by node number.
#[derive(Debug, Default)]
pub struct Instrument {
    pub nodes: Vec<NodeCounters>,
    pub timing: bool,
}

impl Instrument {
    pub fn new(nodes: usize, timing: bool) -> Self {
        Instrument { nodes: vec![NodeCounters::default(); nodes], timing }
    }
}

/// Wraps a node where a statement is being watched.
pub struct Instrumented {
    pub inner: Box<dyn Node>,
    pub number: usize,
    /// Time that the current loop took so far.
    elapsed: Duration,
    running: bool,
    /// A node without children: its storage reads are its own.
    leaf: bool,
}

impl Instrumented {
    pub fn new(inner: Box<dyn Node>, number: usize, leaf: bool) -> Self {
        Instrumented { inner, number, elapsed: Duration::ZERO, running: false, leaf }
    }
}

impl Node for Instrumented {
    fn next(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<bool> {
        let timing = frame.instrument.as_ref().is_some_and(|instrument| instrument.timing);
        let reads_before = self.leaf.then(|| cx.txn.counters());
        let begin = timing.then(Instant::now);
        let result = self.inner.next(cx, frame);
        let spent = begin.map_or(Duration::ZERO, |begin| begin.elapsed());
        if let Some(counters) =
            frame.instrument.as_mut().and_then(|instrument| instrument.nodes.get_mut(self.number))
        {
            if !self.running {
                self.running = true;
                counters.loops += 1;
                self.elapsed = Duration::ZERO;
                counters.startup += spent;
            }
            self.elapsed += spent;
            counters.total += spent;
            if let Some(before) = reads_before {
                counters.reads.add(&cx.txn.counters().since(&before));
            }
            if matches!(result, Ok(true)) {
                counters.rows += 1;
            }
        }
        result
    }

    fn rescan(&mut self, cx: &ExecContext<'_>, frame: &mut Frame) -> Result<()> {
        self.running = false;
        self.inner.rescan(cx, frame)
    }
}

/// Adds to one counter of a node, if somebody watches.
#[inline]
pub fn count(frame: &mut Frame, number: usize, add: impl FnOnce(&mut NodeCounters)) {
    if let Some(counters) = frame.instrument.as_mut().and_then(|instrument| instrument.nodes.get_mut(number))
    {
        add(counters);
    }
}
