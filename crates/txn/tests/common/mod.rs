//! What several tests of this crate share.

use std::sync::Arc;

use cairn_txn::{BeginOptions, Database, Interrupt, Isolation, SessionHandle, Store, Transaction};

/// A read committed transaction of a session of its own.
pub fn begin(database: &Database) -> Arc<dyn Transaction> {
    let session = Arc::new(SessionHandle { pid: 1, interrupt: Arc::new(Interrupt::default()) });
    database
        .begin(BeginOptions {
            session,
            isolation: Isolation::ReadCommitted,
            read_only: false,
            read_time: None,
        })
        .unwrap()
}
