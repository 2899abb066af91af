//! Rows that go past the transaction's memory, straight into the store.
//!
//! A key space that this transaction created is invisible to everybody else until the catalog row that names it
//! commits. Its rows need no conflict checks and no memory: they are written in batches of about a megabyte,
//! with times of their own, and a durable pending record says that they are worth nothing before the commit
//! (`cairn_storage::meta`).
//!
//! Times: each command that loads gets one time for its rows, taken when its first row arrives. A snapshot of
//! command c reads the key space at the newest of those times of a command before c, so a command does not see
//! its own rows. All of them are below the commit time.

use std::collections::BTreeMap;

use bytes::Bytes;
use cairn_storage::{Engine, Timestamp};

use crate::{CommandId, Result, StorageId};

/// Rows are handed to the store when so many bytes are together.
const BATCH_BYTES: usize = 1 << 20;

/// The direct writes of one storage.
#[derive(Debug)]
pub(crate) struct Bulk {
    storage: StorageId,
    /// Time of each command that loaded, both ascending.
    commands: Vec<(CommandId, Timestamp)>,
    /// Rows of the last of those commands that the store does not have yet.
    buffer: BTreeMap<Box<[u8]>, Bytes>,
    buffer_bytes: usize,
    /// The largest key that the store has; whoever loads in key order never asks the store about a new key.
    largest_stored: Vec<u8>,
    /// The store has the pending record.
    recorded: bool,
}

impl Bulk {
    pub(crate) fn new(storage: StorageId) -> Self {
        Bulk {
            storage,
            commands: Vec::new(),
            buffer: BTreeMap::new(),
            buffer_bytes: 0,
            largest_stored: Vec::new(),
            recorded: false,
        }
    }

    /// Whether the store has rows, or the pending record, of it.
    pub(crate) fn recorded(&self) -> bool {
        self.recorded
    }

    /// The store has got rows of it in another way, with the pending record.
    pub(crate) fn set_recorded(&mut self) {
        self.recorded = true;
    }

    pub(crate) fn put(
        &mut self,
        engine: &Engine,
        tick: impl FnOnce() -> Timestamp,
        command: CommandId,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if self.commands.last().is_none_or(|(last, _)| *last != command) {
            self.flush(engine)?;
            self.commands.push((command, tick()));
        }
        self.buffer_bytes += key.len() + value.len();
        self.buffer.insert(Box::from(key), Bytes::copy_from_slice(value));
        if self.buffer_bytes >= BATCH_BYTES { self.flush(engine) } else { Ok(()) }
    }

    /// Hands over what is buffered.
    pub(crate) fn flush(&mut self, engine: &Engine) -> Result<()> {
        let (Some((_, time)), Some((last, _))) = (self.commands.last(), self.buffer.last_key_value()) else {
            return Ok(());
        };
        let mut batch = engine.batch();
        if !self.recorded {
            batch.add_pending_storage(self.storage);
        }
        for (key, value) in &self.buffer {
            batch.put(key, *time, value);
        }
        if self.largest_stored[..] < last[..] {
            self.largest_stored = last.to_vec();
        }
        engine.write(batch)?;
        self.recorded = true;
        self.buffer.clear();
        self.buffer_bytes = 0;
        Ok(())
    }

    /// When a snapshot of `command` reads this storage; `None`: it sees no row.
    pub(crate) fn read_time(&self, command: CommandId) -> Option<Timestamp> {
        self.commands.iter().rev().find(|(loaded, _)| *loaded < command).map(|(_, time)| *time)
    }

    /// A row that the store does not have yet.
    pub(crate) fn buffered(&self, key: &[u8]) -> Option<(CommandId, &Bytes)> {
        let (command, _) = self.commands.last()?;
        self.buffer.get(key).map(|value| (*command, value))
    }

    /// Whether the store may have the key.
    pub(crate) fn may_be_stored(&self, key: &[u8]) -> bool {
        self.recorded && key <= &self.largest_stored[..]
    }

    /// The command that wrote the stored row of this time.
    pub(crate) fn command_of(&self, time: Timestamp) -> Option<CommandId> {
        let found = self.commands.binary_search_by_key(&time, |(_, written)| *written).ok()?;
        self.commands.get(found).map(|(command, _)| *command)
    }
}
