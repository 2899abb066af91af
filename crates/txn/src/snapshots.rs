//! The times that one transaction reads at, pinned so that garbage collection leaves them alone.
//!
//! A repeatable read transaction has one, from its first snapshot to its end, and newer ones while DDL reads. A read committed one has a new one for
//! every statement, and several at once while functions run statements inside a statement, or cursors stay open; the
//! session says which are still in use where a statement of the client ends ([`SnapshotPins::release_except`]).
//!
//! Statements inside functions give theirs back one by one ([`SnapshotPins::release_one`]). Past [`EXACT_MAX`] different times
//! the last pin becomes an open one, which covers everything later, until the client's statement ends.

use cairn_storage::{Pin, PinKind, Pins, Timestamp};

/// So many times are pinned one by one.
const EXACT_MAX: usize = 8;

#[derive(Debug)]
struct Held {
    pin: Pin,
    /// Snapshots of this time that are in use.
    snapshots: u32,
}

/// To be emptied before it is dropped.
#[derive(Debug, Default)]
pub(crate) struct SnapshotPins {
    /// Ascending by time.
    held: Vec<Held>,
    /// The last of them covers all later times.
    open: bool,
}

impl SnapshotPins {
    /// Pins the newest visible time and returns it.
    pub(crate) fn take(
        &mut self,
        pins: &Pins,
        pid: i32,
        kind: PinKind,
        visible: impl Fn() -> Timestamp,
    ) -> Timestamp {
        if self.open {
            return visible();
        }
        if let Some(last) = self.held.last_mut() {
            let newest = visible();
            if last.pin.time() == newest {
                last.snapshots += 1;
                return newest;
            }
            if self.held.len() >= EXACT_MAX {
                self.open = true;
                return self.held.last().map_or(newest, |last| pins.open(&last.pin, visible));
            }
        }
        let pin = pins.acquire(pid, kind, visible);
        let time = pin.time();
        self.held.push(Held { pin, snapshots: 1 });
        time
    }

    /// A snapshot of this time is in use once more. (One that an open pin covers needs nothing.)
    pub(crate) fn hold(&mut self, time: Timestamp) {
        if let Some(held) = self.held.iter_mut().rfind(|held| held.pin.time() == time) {
            held.snapshots += 1;
        }
    }

    /// One snapshot of this time is no longer in use.
    pub(crate) fn release_one(&mut self, pins: &Pins, time: Timestamp) {
        let Some(index) = self.held.iter().rposition(|held| held.pin.time() == time) else { return };
        if self.open && index + 1 == self.held.len() {
            // It stands for others as well.
            return;
        }
        let held = &mut self.held[index];
        held.snapshots -= 1;
        if held.snapshots == 0 {
            pins.release(self.held.remove(index).pin);
        }
    }

    /// Snapshots of these times are in use, and no others.
    pub(crate) fn release_except(&mut self, pins: &Pins, used: &[Timestamp]) {
        if used.is_empty() {
            return self.release_all(pins);
        }
        let newest = used.iter().max().copied().unwrap_or(Timestamp::MIN);
        self.open &= self.held.last().is_some_and(|last| last.pin.time() < newest);
        let last = self.held.len().saturating_sub(1);
        let held = std::mem::take(&mut self.held);
        for (index, Held { pin, .. }) in held.into_iter().enumerate() {
            let snapshots = used.iter().filter(|time| **time == pin.time()).count();
            let snapshots = u32::try_from(snapshots).unwrap_or(u32::MAX);
            if snapshots > 0 || self.open && index == last {
                self.held.push(Held { pin, snapshots });
            } else {
                pins.release(pin);
            }
        }
    }

    pub(crate) fn release_all(&mut self, pins: &Pins) {
        for held in self.held.drain(..) {
            pins.release(held.pin);
        }
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
        let pins = Pins::default();
        let mut snapshots = SnapshotPins::default();
        let take = |time: u64, snapshots: &mut SnapshotPins| {
            assert_eq!(snapshots.take(&pins, 1, PinKind::Statement, || Timestamp(time)).0, time);
        };
        take(10, &mut snapshots);
        snapshots.hold(Timestamp(10));
        take(20, &mut snapshots);
        assert_eq!(pinned(&pins), [(10, false), (20, false)]);
        snapshots.release_except(&pins, &[Timestamp(10)]);
        assert_eq!(pinned(&pins), [(10, false)]);
        for time in 30..60 {
            take(time, &mut snapshots);
        }
        assert_eq!(pinned(&pins).len(), EXACT_MAX);
        assert_eq!(pinned(&pins).last(), Some(&(36, true)));
        snapshots.release_one(&pins, Timestamp(36));
        snapshots.release_except(&pins, &[Timestamp(10), Timestamp(50)]);
        assert_eq!(pinned(&pins), [(10, false), (36, true)], "50 is pinned by the open one");
        snapshots.release_except(&pins, &[Timestamp(10)]);
        assert_eq!(pinned(&pins), [(10, false)]);
        take(70, &mut snapshots);
        snapshots.release_all(&pins);
        assert_eq!(pinned(&pins), []);
    }

    #[test]
    fn statements_inside_functions_give_theirs_back() {
        let pins = Pins::default();
        let mut snapshots = SnapshotPins::default();
        let take = |time: u64, snapshots: &mut SnapshotPins| {
            snapshots.take(&pins, 1, PinKind::Statement, || Timestamp(time));
        };
        take(10, &mut snapshots);
        for time in 10..100 {
            take(time, &mut snapshots);
            snapshots.release_one(&pins, Timestamp(time));
        }
        assert_eq!(pinned(&pins), [(10, false)], "the first one is the caller's");
        snapshots.release_one(&pins, Timestamp(10));
        assert_eq!(pinned(&pins), []);
    }
}
