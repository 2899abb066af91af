//! The times that one transaction reads at, pinned so that garbage collection leaves them alone.
//!
//! A repeatable read transaction has one, from its first snapshot to its end. A read committed one has a new one for
//! every statement, and several at once while functions run statements inside a statement, or cursors stay open; the
//! session says which are still in use where a statement of the client ends ([`SnapshotPins::release_except`]).
//!
//! Past [`EXACT_MAX`] different times the last pin becomes an open one, which covers everything later: a function
//! that runs a million statements holds eight pins, and gives them back when the statement that called it ends.

use std::sync::Arc;

use cairn_storage::{PinGuard, PinKind, Pins, Timestamp};

/// So many times are pinned one by one.
const EXACT_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct SnapshotPins {
    /// Ascending by time.
    held: Vec<PinGuard>,
    /// The last of them covers all later times.
    open: bool,
}

impl SnapshotPins {
    /// Pins the newest visible time and returns it.
    pub(crate) fn take(
        &mut self,
        pins: &Arc<Pins>,
        pid: i32,
        kind: PinKind,
        visible: impl Fn() -> Timestamp,
    ) -> Timestamp {
        if self.open {
            return visible();
        }
        if let Some(last) = self.held.last() {
            let newest = visible();
            if last.time() == newest {
                return newest;
            }
            if self.held.len() >= EXACT_MAX {
                self.open = true;
                return last.open(visible);
            }
        }
        let pin = pins.pin_newest(pid, kind, visible);
        let time = pin.time();
        self.held.push(pin);
        time
    }

    /// Keeps these times only.
    pub(crate) fn release_except(&mut self, used: impl Fn(Timestamp) -> bool, newest_used: Timestamp) {
        let covers_more = self.open && self.held.last().is_some_and(|last| last.time() < newest_used);
        let last = self.held.len().saturating_sub(1);
        let mut index = 0;
        self.held.retain(|pin| {
            let kept = used(pin.time()) || covers_more && index == last;
            index += 1;
            kept
        });
        self.open = covers_more;
    }

    pub(crate) fn release_all(&mut self) {
        self.held.clear();
        self.open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(pins: &Pins) -> Vec<(u64, bool)> {
        let mut all: Vec<_> = pins.pins().iter().map(|pin| (pin.time.0, pin.open)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn pins_follow_the_snapshots_in_use() {
        let pins = Arc::new(Pins::default());
        let mut snapshots = SnapshotPins::default();
        let take = |time: u64, snapshots: &mut SnapshotPins| {
            assert_eq!(snapshots.take(&pins, 1, PinKind::Statement, || Timestamp(time)).0, time);
        };
        take(10, &mut snapshots);
        take(10, &mut snapshots);
        take(20, &mut snapshots);
        assert_eq!(pinned(&pins), [(10, false), (20, false)]);
        snapshots.release_except(|time| time.0 == 10, Timestamp(10));
        assert_eq!(pinned(&pins), [(10, false)]);
        for time in 30..60 {
            take(time, &mut snapshots);
        }
        assert_eq!(pinned(&pins).len(), EXACT_MAX);
        assert_eq!(pinned(&pins).last(), Some(&(36, true)));
        snapshots.release_except(|time| time.0 == 10 || time.0 == 50, Timestamp(50));
        assert_eq!(pinned(&pins), [(10, false), (36, true)], "50 is pinned by the open one");
        snapshots.release_except(|time| time.0 == 10, Timestamp(10));
        assert_eq!(pinned(&pins), [(10, false)]);
        take(70, &mut snapshots);
        snapshots.release_all();
        assert_eq!(pinned(&pins), []);
    }
}
