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
//! The topmost 2^52 values are no times: they stand in the keys of uncommitted writes ([`crate::spills`]). They
//! would be the last twelve days of 2112.

/// A point in the history of a store. See the module for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// Bits of the logical counter.
pub const LOGICAL_BITS: u32 = 12;

const FIRST_PROVISIONAL: u64 = 0xFFF0_0000_0000_0000;

impl Timestamp {
    /// Before every version.
    pub const MIN: Timestamp = Timestamp(0);
    /// After every version: what a read of the newest version asks for.
    pub const MAX: Timestamp = Timestamp(u64::MAX);
    /// The last one that a version may have.
    pub const LAST: Timestamp = Timestamp(FIRST_PROVISIONAL - 1);

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

    /// What stands for a time in the keys of uncommitted writes of this spill.
    pub(crate) fn provisional(spill: u64) -> Self {
        debug_assert!(spill < 1 << 52, "spill numbers have 52 bits");
        Timestamp(FIRST_PROVISIONAL | spill)
    }

    /// Whether it stands in the key of an uncommitted write; later than every time.
    #[inline]
    pub fn is_provisional(self) -> bool {
        self.0 >= FIRST_PROVISIONAL
    }

    /// The spill whose uncommitted write has it in its key.
    pub(crate) fn spill(self) -> u64 {
        self.0 & !FIRST_PROVISIONAL
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
        assert_eq!(Timestamp::provisional(5).0, 0xFFF0_0000_0000_0005);
        assert_eq!(Timestamp::provisional(5).spill(), 5);
        assert!(Timestamp::provisional(0).is_provisional() && !Timestamp::LAST.is_provisional());
    }
}
