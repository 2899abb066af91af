//! Hidden row numbers, for tables without a primary key.
//!
//! A number is a time that the store's clock gives to nobody else: unique and increasing in the whole server, without a
//! write. Rows are put under their numbers without a look at what is there, so **none may ever come again**: giving one moves the
//! clock, whatever the machine's clock does. So the commit of its row gets a later time, and as a restarted clock begins
//! above all commits, it does above every number that a row has. (A microsecond has room for 4,096 of them, so the
//! numbers do not run ahead of the time of day.)

use cairn_txn::Store;

/// A number that no row of any table has, larger than those before.
pub fn next(store: &dyn Store) -> u64 {
    store.tick().0
}
