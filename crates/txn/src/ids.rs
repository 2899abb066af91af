//! Numbers that are never given out twice: oids, storage ids, spill numbers.
//!
//! They are reserved ahead in the store. The reservation is not synced by itself: a number matters after a crash
//! only if something that names it survived, which was written to the log after the reservation.

use cairn_storage::Engine;
use cairn_storage::meta::Counter;
use parking_lot::Mutex;

use crate::{Error, Result};

/// The first number that is given out; those below belong to the catalog's own objects.
pub const FIRST_NORMAL_ID: u32 = 16384;

const RESERVED_AT_ONCE: u64 = 256;

#[derive(Debug)]
struct Range {
    next: u64,
    reserved_up_to: u64,
}

#[derive(Debug)]
pub(crate) struct IdAllocator {
    counter: Counter,
    range: Mutex<Range>,
}

impl IdAllocator {
    pub(crate) fn open(engine: &Engine, counter: Counter) -> Result<Self> {
        let next = engine.counter(counter)?.unwrap_or(u64::from(FIRST_NORMAL_ID));
        Ok(IdAllocator { counter, range: Mutex::new(Range { next, reserved_up_to: next }) })
    }

    pub(crate) fn allocate(&self, engine: &Engine) -> Result<u32> {
        u32::try_from(self.allocate_wide(engine)?)
            .map_err(|_| Error::Misuse("all object numbers are used up"))
    }

    pub(crate) fn allocate_wide(&self, engine: &Engine) -> Result<u64> {
        let mut range = self.range.lock();
        let id = range.next;
        if range.next == range.reserved_up_to {
            self.reserve(engine, range.next + RESERVED_AT_ONCE)?;
            range.reserved_up_to = range.next + RESERVED_AT_ONCE;
        }
        range.next += 1;
        Ok(id)
    }

    fn reserve(&self, engine: &Engine, up_to: u64) -> Result<()> {
        let mut batch = engine.batch();
        batch.set_counter(self.counter, up_to);
        Ok(engine.write(batch)?)
    }

    /// Gives back what was reserved and not used.
    pub(crate) fn close(&self, engine: &Engine) -> Result<()> {
        let mut range = self.range.lock();
        if range.next < range.reserved_up_to {
            self.reserve(engine, range.next)?;
            range.reserved_up_to = range.next;
        }
        Ok(())
    }
}
