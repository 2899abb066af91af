//! Hidden row numbers, for tables without a primary key.
//!
//! A number is taken from the store's clock, and one more than the last one where the clock has not moved: unique and
//! increasing in the whole process, without a write. After a restart the clock begins above all commits, hence above
//! every number that was committed. (A clock tick is worth 4,096 numbers a microsecond, so numbers never run ahead of it.)

use std::sync::atomic::{AtomicU64, Ordering};

use cairn_txn::Store;

static LAST: AtomicU64 = AtomicU64::new(0);

/// A number that no row of any table has.
pub fn next(store: &dyn Store) -> u64 {
    let now = store.now().0;
    let mut last = LAST.load(Ordering::Relaxed);
    loop {
        let number = now.max(last + 1);
        match LAST.compare_exchange_weak(last, number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return number,
            Err(seen) => last = seen,
        }
    }
}
