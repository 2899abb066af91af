//! Pinned read times: what garbage collection must leave readable.
//!
//! A reader's time is protected either because it lies at or above the horizon, or because it is pinned here. Taking a
//! pin is a store and two loads, cheap enough for each statement of a read-committed transaction.
//!
//! ```text
//!  reader                                   collector
//!    choose a time T                          floor := H          (the highest horizon of any storage)
//!    slot := T            (store)             read every slot     (load)
//!    floor <= T ?         (load)              may remove what no slot, and no time >= H, can see
//!      no: choose again
//! ```
//!
//! All of these are sequentially consistent. **The invariant:** a collector reads its horizon first and the slots
//! afterwards. A pin that it misses was stored after it looked, so the reader's check saw that horizon, or a later one,
//! and its time lies at or above it. So the view stays valid however long the collector works with it.
//!
//! A pin stands for one time; one that is *open* stands for all later times as well.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use crate::Timestamp;
use crate::sync::{AtomicU64, Ordering::SeqCst};

/// Why a time is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinKind {
    /// The snapshot of a repeatable read transaction, or one that reads at a time of its choice.
    Transaction,
    /// The snapshot of a statement, or of a cursor that is still open.
    Statement,
    /// A copy of the store is being made.
    Checkpoint,
}

impl PinKind {
    /// As views show it.
    pub fn name(self) -> &'static str {
        match self {
            PinKind::Transaction => "transaction",
            PinKind::Statement => "statement",
            PinKind::Checkpoint => "checkpoint",
        }
    }
}

/// A pin as it was seen at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinInfo {
    pub time: Timestamp,
    /// Whether all times after `time` are pinned too.
    pub open: bool,
    /// The session that holds it, as clients know it; 0: the server itself.
    pub pid: i32,
    pub kind: PinKind,
}

/// One to a cache line: pins of different sessions do not slow each other down.
#[repr(align(64))]
struct Slot {
    /// 0: nothing pinned.
    time: AtomicU64,
    /// 0: free. Otherwise [`TAKEN`], kind, whether it is open, and the process id in the low half.
    holder: AtomicU64,
}

const TAKEN: u64 = 1 << 63;
const OPEN: u64 = 1 << 62;
const KIND_SHIFT: u32 = 32;

const CHUNK_SLOTS: usize = 256;
/// Enough for 65,536 pins at a time.
const CHUNKS_MAX: usize = 256;

type Chunk = Box<[Slot]>;

/// The pinned times of one store.
pub struct Pins {
    chunks: Box<[OnceLock<Chunk>]>,
    /// Slots at or behind this one were never used.
    used: AtomicU64,
    /// The highest horizon of any storage.
    floor: AtomicU64,
}

thread_local! {
    /// Where this thread found its last free slot.
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl std::fmt::Debug for Pins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pins").field("floor", &self.floor).field("pins", &self.pins()).finish_non_exhaustive()
    }
}

impl Default for Pins {
    fn default() -> Self {
        Pins {
            chunks: (0..CHUNKS_MAX).map(|_| OnceLock::new()).collect(),
            used: AtomicU64::new(0),
            floor: AtomicU64::new(0),
        }
    }
}

impl Pins {
    /// Pins the time that `choose` gives, until [`Pins::release`]. It is asked again if the horizon has passed that time
    /// meanwhile, so it must give a time at or above the horizon sooner or later: the newest visible one.
    pub fn acquire(&self, pid: i32, kind: PinKind, choose: impl Fn() -> Timestamp) -> Pin {
        let slot = self.take_slot(pid, kind);
        loop {
            let time = choose();
            self.stored(slot).time.store(time.0, SeqCst);
            if time >= self.floor() {
                return Pin { slot, time };
            }
        }
    }

    pub fn release(&self, pin: Pin) {
        let slot = self.stored(pin.slot);
        slot.time.store(0, SeqCst);
        slot.holder.store(0, SeqCst);
    }

    /// From now on `pin` covers all later times too: `choose`'s, which is the answer, and those that it would give afterwards.
    pub fn open(&self, pin: &Pin, choose: impl Fn() -> Timestamp) -> Timestamp {
        self.stored(pin.slot).holder.fetch_or(OPEN, SeqCst);
        loop {
            let time = choose();
            if time >= self.floor() {
                return time;
            }
        }
    }

    /// [`Pins::acquire`] for those who want to forget about it.
    pub fn pin_newest(self: &Arc<Self>, pid: i32, kind: PinKind, choose: impl Fn() -> Timestamp) -> PinGuard {
        PinGuard { pin: Some(self.acquire(pid, kind, choose)), pins: self.clone() }
    }

    /// Pins a time in the past. Whether it was readable is for the caller to see, afterwards ([`crate::Engine::pin_past`]).
    pub(crate) fn pin_unchecked(self: &Arc<Self>, pid: i32, kind: PinKind, time: Timestamp) -> PinGuard {
        let slot = self.take_slot(pid, kind);
        self.stored(slot).time.store(time.0, SeqCst);
        PinGuard { pin: Some(Pin { slot, time }), pins: self.clone() }
    }

    fn stored(&self, slot: usize) -> &Slot {
        self.slot(slot).expect("a pin's slot was made when it was taken")
    }

    /// The highest horizon of any storage: unpinned times at or above it are readable everywhere. It only grows.
    pub fn floor(&self) -> Timestamp {
        Timestamp(self.floor.load(SeqCst))
    }

    /// To be called before a collector uses `floor` as a horizon, and before it looks at the pins.
    pub(crate) fn raise_floor(&self, floor: Timestamp) {
        self.floor.fetch_max(floor.0, SeqCst);
    }

    /// All pins, in no order.
    pub fn pins(&self) -> Vec<PinInfo> {
        let mut found = Vec::new();
        self.each(|pin| {
            found.push(pin);
            false
        });
        found
    }

    /// The pin that holds back the most history.
    pub fn oldest_pin(&self) -> Option<PinInfo> {
        let mut oldest: Option<PinInfo> = None;
        self.each(|pin| {
            if oldest.is_none_or(|oldest| pin.time < oldest.time) {
                oldest = Some(pin);
            }
            false
        });
        oldest
    }

    /// Whether any pinned time P has `from <= P < to`. Times that nobody has pinned yet are not asked for: they are at or
    /// above the horizon.
    pub fn pinned_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.each(|pin| pin.time < to && (pin.open || pin.time >= from))
    }

    /// The pins of this moment, for many questions.
    pub fn view(&self) -> PinView {
        let mut times = Vec::new();
        let mut open_from = Timestamp::MAX;
        self.each(|pin| {
            if pin.open {
                open_from = open_from.min(pin.time);
            } else {
                times.push(pin.time);
            }
            false
        });
        times.sort_unstable();
        times.dedup();
        PinView { times, open_from }
    }

    /// Shows every pin until `stop` says true; whether it did.
    fn each(&self, mut stop: impl FnMut(PinInfo) -> bool) -> bool {
        for index in 0..self.used() {
            let Some(slot) = self.slot(index) else { continue };
            let time = slot.time.load(SeqCst);
            let holder = slot.holder.load(SeqCst);
            if time == 0 {
                continue;
            }
            let kind = match (holder >> KIND_SHIFT) & 0xff {
                0 => PinKind::Transaction,
                1 => PinKind::Statement,
                _ => PinKind::Checkpoint,
            };
            let (open, pid) = (holder & OPEN != 0, holder as u32 as i32);
            if stop(PinInfo { time: Timestamp(time), open, pid, kind }) {
                return true;
            }
        }
        false
    }

    fn used(&self) -> usize {
        self.used.load(SeqCst) as usize
    }

    fn slot(&self, index: usize) -> Option<&Slot> {
        self.chunks.get(index / CHUNK_SLOTS)?.get()?.get(index % CHUNK_SLOTS)
    }

    /// Takes a free slot, the one that this thread used last if it can.
    fn take_slot(&self, pid: i32, kind: PinKind) -> usize {
        let kind = match kind {
            PinKind::Transaction => 0,
            PinKind::Statement => 1,
            PinKind::Checkpoint => 2u64,
        };
        let holder = TAKEN | kind << KIND_SHIFT | u64::from(pid as u32);
        let take = |index: usize| {
            self.slot(index)
                .is_some_and(|slot| slot.holder.compare_exchange(0, holder, SeqCst, SeqCst).is_ok())
        };
        let hint = HINT.get();
        if hint < self.used() && take(hint) {
            return hint;
        }
        loop {
            let used = self.used();
            let found = (0..used).find(|index| take(*index));
            let index = found.or_else(|| {
                let index = used;
                self.chunks.get(index / CHUNK_SLOTS)?.get_or_init(|| {
                    let slot = |_| Slot { time: AtomicU64::new(0), holder: AtomicU64::new(0) };
                    (0..CHUNK_SLOTS).map(slot).collect()
                });
                // A collector that reads `used` before this sees no time stored after it: the reader's check covers that.
                self.used.fetch_max(index as u64 + 1, SeqCst);
                take(index).then_some(index)
            });
            if let Some(index) = index {
                HINT.set(index);
                return index;
            }
            // Somebody was quicker, or 65,536 pins are held.
            std::thread::yield_now();
        }
    }
}

/// Pins as they were at one moment; a collector takes it after it has read its horizon.
#[derive(Clone, Debug)]
pub struct PinView {
    /// Ascending.
    times: Vec<Timestamp>,
    /// This time and all later ones are pinned.
    open_from: Timestamp,
}

impl PinView {
    /// Whether any pinned time P has `from <= P < to`.
    #[inline]
    pub fn pinned_between(&self, from: Timestamp, to: Timestamp) -> bool {
        if self.open_from < to {
            return true;
        }
        let first = self.times.partition_point(|time| *time < from);
        self.times.get(first).is_some_and(|time| *time < to)
    }
}

/// A pinned time. It stays pinned until it is given back: whoever has one has the [`Pins`] at hand too, and one counter
/// less that all sessions share.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the time stays pinned until it is released"]
pub struct Pin {
    slot: usize,
    time: Timestamp,
}

impl Pin {
    pub fn time(&self) -> Timestamp {
        self.time
    }
}

/// Keeps a time readable until it is dropped.
pub struct PinGuard {
    pins: Arc<Pins>,
    /// `None` only while it is being dropped.
    pin: Option<Pin>,
}

impl std::fmt::Debug for PinGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PinGuard").field(&self.time()).finish()
    }
}

impl PinGuard {
    pub fn time(&self) -> Timestamp {
        self.pin.as_ref().map_or(Timestamp::MIN, Pin::time)
    }
}

impl Drop for PinGuard {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.pins.release(pin);
        }
    }
}

/// A collector's side of the registry, for the test of interleavings.
#[cfg(feature = "shuttle")]
pub mod model {
    use super::{PinView, Pins};
    use crate::Timestamp;

    pub fn collector_looks(pins: &Pins, horizon: Timestamp) -> PinView {
        pins.raise_floor(horizon);
        pins.view()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn at(time: u64) -> impl Fn() -> Timestamp {
        move || Timestamp(time)
    }

    #[test]
    fn pins_are_seen_until_dropped() {
        let pins = Arc::new(Pins::default());
        assert_eq!(pins.oldest_pin(), None);
        let first = pins.pin_newest(7, PinKind::Transaction, at(50));
        let second = pins.acquire(8, PinKind::Statement, at(30));
        let oldest = PinInfo { time: Timestamp(30), open: false, pid: 8, kind: PinKind::Statement };
        assert_eq!(pins.oldest_pin(), Some(oldest));
        assert_eq!(pins.pins().len(), 2);
        let between = |from, to| {
            let (from, to) = (Timestamp(from), Timestamp(to));
            assert_eq!(pins.pinned_between(from, to), pins.view().pinned_between(from, to));
            pins.pinned_between(from, to)
        };
        assert!(between(50, 51) && between(30, 31) && between(0, 100) && between(31, 51));
        assert!(!between(51, 90) && !between(31, 50) && !between(0, 30));
        assert_eq!(pins.open(&second, at(31)), Timestamp(31));
        assert!(between(31, 50) && between(80, 90) && !between(0, 30));
        pins.release(second);
        assert!(!between(31, 50) && !between(80, 90) && between(50, 51));
        drop(first);
        assert_eq!(pins.pins(), []);
    }

    #[test]
    fn slots_are_used_again() {
        let pins = Arc::new(Pins::default());
        for time in 1..1000 {
            let _pin = pins.pin_newest(1, PinKind::Statement, at(time));
        }
        assert_eq!(pins.used.load(SeqCst), 1);
        let many: Vec<_> = (1..1000).map(|time| pins.pin_newest(1, PinKind::Statement, at(time))).collect();
        assert_eq!(pins.pins().len(), 999);
        drop(many);
        assert_eq!(pins.pins().len(), 0);
    }

    #[test]
    fn times_below_the_floor_are_not_taken() {
        let pins = Arc::new(Pins::default());
        pins.raise_floor(Timestamp(100));
        pins.raise_floor(Timestamp(90));
        let calls = Cell::new(98);
        let pin = pins.pin_newest(1, PinKind::Statement, || Timestamp(calls.replace(calls.get() + 1)));
        assert_eq!(pin.time(), Timestamp(100));
    }

    /// A collector raises the floor and looks at the pins; whoever it does not see has a time at or above the floor.
    #[test]
    fn no_pin_slips_through() {
        let pins = Arc::new(Pins::default());
        let visible = Arc::new(AtomicU64::new(1));
        // The highest horizon that may have been used to remove something no pin protected then.
        let removed = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..3)
            .map(|pid| {
                let (pins, visible, removed, stop) =
                    (pins.clone(), visible.clone(), removed.clone(), stop.clone());
                std::thread::spawn(move || {
                    while !stop.load(SeqCst) {
                        let pin =
                            pins.pin_newest(pid, PinKind::Statement, || Timestamp(visible.load(SeqCst)));
                        for _ in 0..10 {
                            assert!(removed.load(SeqCst) <= pin.time().0, "a pinned time was removed");
                        }
                    }
                })
            })
            .collect();
        for time in 2..20_000u64 {
            visible.store(time, SeqCst);
            pins.raise_floor(Timestamp(time));
            if !pins.pinned_between(Timestamp::MIN, Timestamp(time)) {
                removed.store(time, SeqCst);
            }
        }
        stop.store(true, SeqCst);
        for reader in readers {
            reader.join().unwrap();
        }
    }
}
