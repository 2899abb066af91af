//! Where times come from: one clock for all stores of a server.
//!
//! It follows the wall clock, never goes back, and never gives the same time twice. A store makes it safe across
//! restarts: commits carry a ceiling in the same atomic batch ([`crate::Engine::write_at`]), and opening the
//! store moves the clock above that ceiling. Recovery rule: every version that survives a crash is at or below
//! the ceiling that survives with it, because both were in one batch or the ceiling came earlier in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Timestamp;

/// The wall clock; tests bring their own.
pub trait TimeSource: Send + Sync {
    /// Microseconds since 1970-01-01 00:00 UTC.
    fn now_micros(&self) -> i64;
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemTime;

impl TimeSource for SystemTime {
    fn now_micros(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

pub struct Clock {
    source: Arc<dyn TimeSource>,
    /// The latest time given out or observed.
    last: AtomicU64,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("last", &self.last).finish()
    }
}

impl Clock {
    pub fn new(source: Arc<dyn TimeSource>) -> Self {
        Clock { source, last: AtomicU64::new(0) }
    }

    pub fn system() -> Self {
        Self::new(Arc::new(SystemTime))
    }

    /// A time that nobody had before, later than all of those.
    pub fn tick(&self) -> Timestamp {
        let wall = Timestamp::from_micros(self.source.now_micros()).0;
        let after = |last: u64| wall.max(last.saturating_add(1));
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = after(last);
            match self.last.compare_exchange_weak(last, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Timestamp(next),
                Err(seen) => last = seen,
            }
        }
    }

    /// The present, without moving the clock: at or above every time given out.
    pub fn now(&self) -> Timestamp {
        let wall = Timestamp::from_micros(self.source.now_micros());
        wall.max(Timestamp(self.last.load(Ordering::Acquire)))
    }

    /// From now on all times are later than `time`.
    pub fn advance_past(&self, time: Timestamp) {
        self.last.fetch_max(time.0, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;

    #[derive(Default)]
    struct Hand(AtomicI64);
    impl TimeSource for Hand {
        fn now_micros(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
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
