//! The clock: where times come from, one clock for all stores of a server.
//!
//! It never goes back and never gives the same time twice. A store makes it safe across restarts: commits carry a ceiling in the same
//! atomic batch ([`crate::Engine::write_at`]), and opening the store moves the clock above that ceiling. Recovery rule: every
//! version that survives a crash is at or below the ceiling that survives with it, because both were in one batch or
//! the ceiling came earlier in the log.
//!
//! **The wall clock may be wrong.** The clock advances with the machine's monotonic clock, from an offset that follows the wall clock:
//!
//! ```text
//! wall clock ahead of it       the offset jumps forward (retention does not count the jump: `gc/horizon.rs`)
//! wall clock behind it         time goes on at 15/16 of its speed until the wall clock has caught up ([`Clock::adjust`])
//! wall clock past the year 2100   it is not believed
//! ```
//!
//! So a wall clock that is set back by a year stops nothing, and ages nothing. While the clock is ahead of the wall clock, wall clock
//! times are translated by how much ([`Clock::lead_micros`]): a minute ago is a minute ago.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use crate::Timestamp;

/// 2100-01-01 00:00 UTC. A wall clock at or past it is wrong.
const WALL_MAX_MICROS: i64 = 4_102_444_800_000_000;

/// The last hour before the end of time: a clock that gets there has been damaged.
pub(crate) const TICK_MAX: Timestamp =
    Timestamp(Timestamp::LAST.0 - ((3_600 * 1_000_000) << crate::timestamp::LOGICAL_BITS));

/// A lead of less is the play of two clocks, and counts as none.
const LEAD_MIN_MICROS: i64 = 100_000;

/// While it is ahead, the clock loses one part in so many of its speed.
const SLOWED_PART: i64 = 16;

/// The machine's clocks; tests bring their own.
pub trait TimeSource: Send + Sync {
    /// Microseconds since 1970-01-01 00:00 UTC, as the wall clock has it.
    fn now_micros(&self) -> i64;
    /// Microseconds since some moment: never goes back, and knows nothing of how the wall clock is set.
    fn monotonic_micros(&self) -> i64 {
        self.now_micros()
    }
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTime;

impl TimeSource for SystemTime {
    fn now_micros(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic_micros(&self) -> i64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

pub struct Clock {
    source: Arc<dyn TimeSource>,
    /// The latest time given out or observed.
    last: AtomicU64,
    /// What is added to the monotonic clock.
    offset: AtomicI64,
    /// The monotonic clock at the last adjustment.
    adjusted: AtomicI64,
    /// The wall clock was not believed, and that was said.
    disbelieved: AtomicBool,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("last", &self.last).finish()
    }
}

impl Clock {
    pub fn new(source: Arc<dyn TimeSource>) -> Self {
        let monotonic = source.monotonic_micros();
        Clock {
            source,
            last: AtomicU64::new(0),
            offset: AtomicI64::new(-monotonic),
            adjusted: AtomicI64::new(monotonic),
            disbelieved: AtomicBool::new(false),
        }
    }

    pub fn system() -> Self {
        Self::new(Arc::new(SystemTime))
    }

    /// Microseconds since 1970 as the clock has it, which may be ahead of the wall clock.
    fn micros(&self) -> i64 {
        let monotonic = self.source.monotonic_micros();
        let wall = self.source.now_micros();
        let offset = self.offset.load(Ordering::Acquire);
        let micros = monotonic.saturating_add(offset);
        if wall <= micros {
            return micros;
        }
        if wall >= WALL_MAX_MICROS {
            if !self.disbelieved.swap(true, Ordering::Relaxed) {
                tracing::error!(
                    wall,
                    "the wall clock is past the year 2100: it is not believed; please set it right"
                );
            }
            return micros;
        }
        self.offset.fetch_max(wall - monotonic, Ordering::AcqRel);
        wall
    }

    /// A time that nobody had before, later than all of those.
    pub fn tick(&self) -> Timestamp {
        let physical = Timestamp::from_micros(self.micros()).0;
        let after = |last: u64| physical.max(last.saturating_add(1));
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = after(last);
            if next >= TICK_MAX.0 {
                end_of_time(next);
            }
            match self.last.compare_exchange_weak(last, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Timestamp(next),
                Err(seen) => last = seen,
            }
        }
    }

    /// The present: at or above every time given out, and below all that are still to be given out, or equal.
    pub fn now(&self) -> Timestamp {
        let physical = Timestamp::from_micros(self.micros());
        Timestamp(self.last.fetch_max(physical.0, Ordering::AcqRel)).max(physical)
    }

    /// From now on all times are later than `time`.
    pub fn advance_past(&self, time: Timestamp) {
        self.last.fetch_max(time.0, Ordering::AcqRel);
        // From there the clock goes on at its speed, whatever the wall clock says.
        self.offset.fetch_max(time.micros() - self.source.monotonic_micros(), Ordering::AcqRel);
    }

    /// To be called every second or so: brings a clock that is ahead of the wall clock nearer to it.
    pub fn adjust(&self) {
        let monotonic = self.source.monotonic_micros();
        let elapsed = monotonic - self.adjusted.swap(monotonic, Ordering::AcqRel);
        let lead = self.micros() - self.source.now_micros();
        let less = lead.min(elapsed / SLOWED_PART);
        if less > 0 {
            self.offset.fetch_sub(less, Ordering::AcqRel);
        }
    }

    /// How far the clock is ahead of the wall clock; 0 where that is play.
    pub fn lead_micros(&self) -> i64 {
        let lead = self.micros() - self.source.now_micros();
        if lead < LEAD_MIN_MICROS { 0 } else { lead }
    }
}

/// No version may have such a time. Going on would give the same time again and again.
#[cold]
fn end_of_time(time: u64) -> ! {
    tracing::error!(time, "the clock is at the end of its range; the server ends");
    eprintln!("FATAL: the clock is at the end of its range: a data directory has times of the year 2112");
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Hand(AtomicI64);
    impl TimeSource for Hand {
        fn now_micros(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// Both clocks, set apart.
    #[derive(Default)]
    struct Two {
        wall: AtomicI64,
        monotonic: AtomicI64,
    }
    impl Two {
        fn pass(&self, micros: i64) {
            self.wall.fetch_add(micros, Ordering::Relaxed);
            self.monotonic.fetch_add(micros, Ordering::Relaxed);
        }
    }
    impl TimeSource for Two {
        fn now_micros(&self) -> i64 {
            self.wall.load(Ordering::Relaxed)
        }
        fn monotonic_micros(&self) -> i64 {
            self.monotonic.load(Ordering::Relaxed)
        }
    }

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;
    /// In the year 2026.
    const TODAY: i64 = 1_790_000_000 * SECOND;

    fn two() -> (Arc<Two>, Clock) {
        let source = Arc::new(Two::default());
        source.wall.store(TODAY, Ordering::Relaxed);
        (source.clone(), Clock::new(source))
    }

    #[test]
    fn a_wall_clock_that_is_set_back_stops_nothing() {
        let (source, clock) = two();
        assert_eq!(clock.tick().micros(), TODAY);
        source.wall.fetch_sub(HOUR, Ordering::Relaxed);
        assert_eq!(clock.tick().micros(), TODAY, "as late as before");
        let mut before = clock.now();
        for _ in 0..60 {
            source.pass(SECOND);
            clock.adjust();
            let now = clock.now();
            let passed = now.micros() - before.micros();
            assert!((SECOND * 9 / 10..=SECOND).contains(&passed), "{passed}");
            assert!(clock.tick() > now);
            before = now;
        }
        assert!((HOUR - 10 * SECOND..HOUR).contains(&clock.lead_micros()), "{}", clock.lead_micros());
        for _ in 0..17 {
            source.pass(HOUR);
            clock.adjust();
        }
        assert_eq!(clock.lead_micros(), 0);
        assert_eq!(clock.now().micros(), source.now_micros(), "it follows the wall clock again");
    }

    #[test]
    fn a_wall_clock_of_another_century_is_not_believed() {
        let (source, clock) = two();
        let before = clock.tick();
        // The year 2113.
        source.wall.store(4_512_000_000 * SECOND, Ordering::Relaxed);
        source.monotonic.fetch_add(SECOND, Ordering::Relaxed);
        assert_eq!(clock.tick().micros(), before.micros() + SECOND);
        source.wall.store(TODAY + 2 * SECOND, Ordering::Relaxed);
        source.monotonic.fetch_add(SECOND, Ordering::Relaxed);
        assert_eq!(clock.tick().micros(), TODAY + 2 * SECOND);
        // 1970, as machines without a battery have it.
        source.wall.store(5, Ordering::Relaxed);
        source.monotonic.fetch_add(SECOND, Ordering::Relaxed);
        assert_eq!(clock.tick().micros(), TODAY + 3 * SECOND);
    }

    #[test]
    fn a_restart_behind_the_ceiling_goes_on_from_there() {
        let (source, clock) = two();
        clock.advance_past(Timestamp::from_micros(TODAY + HOUR));
        let first = clock.tick();
        assert!(first > Timestamp::from_micros(TODAY + HOUR));
        source.pass(SECOND);
        assert_eq!(clock.tick().micros(), first.micros() + SECOND);
    }

    #[test]
    fn the_present_is_never_before_an_earlier_present() {
        let (source, clock) = two();
        let before = clock.now();
        source.wall.fetch_sub(HOUR, Ordering::Relaxed);
        assert!(clock.tick() > before);
    }

    #[test]
    fn times_increase_whatever_the_wall_clock_does() {
        let hand = Arc::new(Hand::default());
        let clock = Clock::new(hand.clone());
        hand.0.store(1_000_000, Ordering::Relaxed);
        let first = clock.tick();
        assert_eq!(first, Timestamp::from_micros(1_000_000));
        assert_eq!(clock.tick(), first.next());
        hand.0.store(500_000, Ordering::Relaxed);
        assert_eq!(clock.tick(), first.next().next());
        hand.0.store(2_000_000, Ordering::Relaxed);
        assert_eq!(clock.tick(), Timestamp::from_micros(2_000_000));
        clock.advance_past(Timestamp::from_micros(9_000_000));
        assert_eq!(clock.tick(), Timestamp::from_micros(9_000_000).next());
        assert!(clock.now() >= Timestamp::from_micros(9_000_000));
    }
}
