//! The counters of the table or index that a plan works on, looked up once for each plan.

use std::sync::{Arc, OnceLock};

use cairn_txn::{Activity, Event};
use cairn_types::Oid;

use crate::context::ExecContext;

/// Plans outlive a statement and belong to one database, and so does this.
#[derive(Clone, Debug)]
pub struct Counted {
    object: Oid,
    activity: OnceLock<Arc<Activity>>,
}

impl Counted {
    pub fn new(object: Oid) -> Counted {
        Counted { object, activity: OnceLock::new() }
    }

    #[inline]
    pub fn activity(&self, cx: &ExecContext<'_>) -> &Arc<Activity> {
        self.activity.get_or_init(|| cx.store.activity(self.object))
    }

    #[inline]
    pub fn count(&self, cx: &ExecContext<'_>, event: Event, times: u64) {
        self.activity(cx).count(event, times);
    }
}
