//! The hash table of all locks that are held or waited for, in shards with a mutex each.
//!
//! A row's key is stored once, shared by its entry, its holders' lists and its waiters: that is the only allocation
//! that an uncontended lock makes.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::queue::LockState;
use super::sync::{Mutex, MutexGuard};
use crate::LockTag;

/// What a lock is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LockKey {
    Row(Arc<[u8]>),
    Object(LockTag),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum KeyRef<'a> {
    Row(&'a [u8]),
    Object(LockTag),
}

impl LockKey {
    pub(super) fn as_ref(&self) -> KeyRef<'_> {
        match self {
            LockKey::Row(key) => KeyRef::Row(key),
            LockKey::Object(tag) => KeyRef::Object(*tag),
        }
    }
}

impl KeyRef<'_> {
    pub(super) fn is(&self, key: &LockKey) -> bool {
        match (self, key) {
            (KeyRef::Row(a), LockKey::Row(b)) => **a == **b,
            (KeyRef::Object(a), LockKey::Object(b)) => a == b,
            (KeyRef::Row(_), LockKey::Object(_)) | (KeyRef::Object(_), LockKey::Row(_)) => false,
        }
    }

    pub(super) fn to_key(self) -> LockKey {
        match self {
            KeyRef::Row(key) => LockKey::Row(Arc::from(key)),
            KeyRef::Object(tag) => LockKey::Object(tag),
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: LockKey,
    pub(super) hash: u64,
    pub(super) state: LockState,
}

#[derive(Debug, Default)]
pub(super) struct Shard(pub(super) HashTable<Entry>);

impl Shard {
    pub(super) fn state(&mut self, hash: u64, key: KeyRef<'_>) -> Option<&mut LockState> {
        self.0.find_mut(hash, |entry| key.is(&entry.key)).map(|entry| &mut entry.state)
    }

    /// Forgets the lock if nobody holds it or waits for it.
    pub(super) fn remove_unused(&mut self, hash: u64, key: KeyRef<'_>) {
        if let Ok(entry) = self.0.find_entry(hash, |entry| key.is(&entry.key))
            && entry.get().state.is_unused()
        {
            entry.remove();
        }
    }
}

/// Shards are apart by more than a cache line, so that two threads in two of them do not disturb each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

const SHARDS: usize = if cfg!(feature = "shuttle") { 2 } else { 128 };

#[derive(Debug)]
pub(super) struct LockTable {
    shards: Box<[Padded]>,
    hasher: DefaultHashBuilder,
}

impl LockTable {
    pub(super) fn new() -> Self {
        LockTable {
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub(super) fn hash(&self, key: KeyRef<'_>) -> u64 {
        match key {
            KeyRef::Row(key) => self.hasher.hash_one(key),
            KeyRef::Object(tag) => self.hasher.hash_one(tag),
        }
    }

    fn shard_of(hash: u64) -> usize {
        // The table inside a shard uses the low bits for places and the top ones for tags.
        (hash >> 32) as usize % SHARDS
    }

    pub(super) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shards[Self::shard_of(hash)].0.lock()
    }

    /// Gives back memory that many locks have needed which are gone.
    pub(super) fn shrink(&self) {
        self.each_shard(|shard| {
            if shard.0.capacity() > 4 * (shard.0.len() + 16) {
                shard.0.shrink_to_fit(|entry| entry.hash);
            }
        });
    }

    /// All shards at once, in their order: nothing changes while the guards live.
    pub(super) fn lock_all(&self) -> AllShards<'_> {
        AllShards(self.shards.iter().map(|shard| shard.0.lock()).collect())
    }

    /// Shard after shard; other shards change meanwhile.
    pub(super) fn each_shard(&self, mut visit: impl FnMut(&mut Shard)) {
        for shard in &self.shards {
            visit(&mut shard.0.lock());
        }
    }
}

/// The whole table, held still.
pub(super) struct AllShards<'a>(Vec<MutexGuard<'a, Shard>>);

impl AllShards<'_> {
    pub(super) fn state(&self, hash: u64, key: &LockKey) -> Option<&LockState> {
        let shard = &self.0[LockTable::shard_of(hash)];
        shard.0.find(hash, |entry| entry.key == *key).map(|entry| &entry.state)
    }

    pub(super) fn state_mut(&mut self, hash: u64, key: &LockKey) -> Option<&mut LockState> {
        self.0[LockTable::shard_of(hash)].state(hash, key.as_ref())
    }
}
