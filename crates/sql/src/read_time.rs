//! The time that a statement reads at, as far as it is known before the statement runs.
//!
//! The catalog is read at the head, rows at a snapshot; a snapshot that is older than an index must not be read by it. Plans
//! are made for the time that is known ([`cairn_exec::ReadTime`]), and one that was kept is asked whether it suits it
//! ([`Core::suits`]).

use cairn_exec::Plan;
use cairn_txn::{Snapshot, Timestamp};

use crate::core::Core;

/// Until it is dropped, statements read at what [`Core::read_at`] was given.
pub(crate) struct ReadingAt<'a> {
    core: &'a Core,
    outer: Option<Timestamp>,
}

impl Drop for ReadingAt<'_> {
    fn drop(&mut self) {
        self.core.read_time.set(self.outer);
    }
}

impl Core {
    /// Statements that are planned from now on read at this snapshot; `None`: at one that they take themselves.
    pub(crate) fn read_at(&self, snapshot: Option<Snapshot>) -> ReadingAt<'_> {
        let outer = self.read_time.replace(snapshot.map(|snapshot| snapshot.read_time));
        ReadingAt { core: self, outer }
    }

    /// When a statement reads that is planned now; `None`: at a time that is still to come, from which on all indexes of the
    /// catalog are complete.
    pub(crate) fn known_read_time(&self) -> Option<Timestamp> {
        self.read_time.get().or_else(|| self.transaction_if_begun()?.fixed_time())
    }

    /// Whether a plan that was kept is right, and none better, for a statement that runs now.
    pub(crate) fn suits(&self, plan: &Plan) -> bool {
        if plan.indexes.is_empty() && plan.passed_over.is_none() {
            return true;
        }
        plan.suits(self.known_read_time(), self.transaction_if_begun().as_deref())
    }
}
