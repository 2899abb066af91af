//! The time of a version: a hybrid logical clock in 64 bits.
//!
//! ```text
//!  63                                        12 11          0
//! +--------------------------------------------+-------------+
//! | microseconds since 1970-01-01 00:00 UTC     | logical     |
//! +--------------------------------------------+-------------+
//! ```
//!
//! Invariants: unsigned order is time order; 52 bits of microseconds last until the year 2112; the logical part
//! counts events within one microsecond and carries into the microseconds when it is full, which is harmless:
//! the clock only ever has to be increasing, not exact. Zero is the time before everything: no version carries it.
//!
//! The largest value is no time: it is a bound behind every version.

/// A point in the history of a store. See the module for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// Bits of the logical counter.
pub const LOGICAL_BITS: u32 = 12;

impl Timestamp {
    /// Before every version.
    pub const MIN: Timestamp = Timestamp(0);
    /// After every version: what a read of the newest version asks for.
    pub const MAX: Timestamp = Timestamp(u64::MAX);
    /// The last one that a version may have.
    pub const LAST: Timestamp = Timestamp(u64::MAX - 1);

    /// The first timestamp of a microsecond; times before 1970 or past the range are clamped.
    pub fn from_micros(micros_since_1970: i64) -> Self {
        let micros = u64::try_from(micros_since_1970).unwrap_or(0).min(u64::MAX >> LOGICAL_BITS);
        Timestamp(micros << LOGICAL_BITS)
    }

    /// The last timestamp of a microsecond: reading at it sees everything committed up to then.
    pub fn last_of_micros(micros_since_1970: i64) -> Self {
        Timestamp(Self::from_micros(micros_since_1970).0 | ((1 << LOGICAL_BITS) - 1))
    }

    /// Microseconds since 1970, rounded down.
    pub fn micros(self) -> i64 {
        (self.0 >> LOGICAL_BITS) as i64
    }

    /// The next timestamp; [`Timestamp::MAX`] stays.
    pub fn next(self) -> Self {
        Timestamp(self.0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_pinned() {
        assert_eq!(Timestamp::from_micros(1).0, 4096);
        assert_eq!(Timestamp::last_of_micros(1).0, 8191);
        assert_eq!(Timestamp(8191).micros(), 1);
        assert_eq!(Timestamp(8191).next().micros(), 2);
        assert_eq!(Timestamp::from_micros(-5), Timestamp::MIN);
        assert_eq!(Timestamp::from_micros(i64::MAX).0, !4095);
    }
}
