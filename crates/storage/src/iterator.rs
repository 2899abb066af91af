//! RocksDB iterators that own their store, and a place to keep them between uses.
//!
//! Making an iterator costs more than the seek that it is made for. One that is refreshed instead only takes a
//! new sequence number as long as no memtable or file came or went. An idle iterator keeps the memtables and
//! files that it was made on, so [`Pool::sweep`] drops those that nobody used for a while.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rocksdb::{DB, DBRawIterator, ReadOptions};

use crate::Result;

/// A raw iterator together with the store it reads: the iterator is dropped first.
pub(crate) struct OwnedIterator {
    iterator: ManuallyDrop<DBRawIterator<'static>>,
    /// Keeps the store alive for the iterator's `'static`.
    db: ManuallyDrop<Arc<DB>>,
    /// For building seek targets without allocating.
    pub(crate) target: Vec<u8>,
    used_at: u64,
}

impl OwnedIterator {
    fn new(db: Arc<DB>, options: ReadOptions) -> Self {
        let iterator = db.raw_iterator_opt(options);
        // SAFETY: the lifetime stands for the borrow of `*db`. The Arc is stored beside the iterator, never given
        // out or replaced, and dropped after it (see Drop), so the store outlives every use of the iterator; an
        // Arc's target does not move when the Arc does.
        let iterator = unsafe { std::mem::transmute::<DBRawIterator<'_>, DBRawIterator<'static>>(iterator) };
        OwnedIterator {
            iterator: ManuallyDrop::new(iterator),
            db: ManuallyDrop::new(db),
            target: Vec::with_capacity(64),
            used_at: 0,
        }
    }
}

impl Drop for OwnedIterator {
    fn drop(&mut self) {
        // SAFETY: both are dropped here and nowhere else; the iterator goes before the store it borrows.
        unsafe {
            ManuallyDrop::drop(&mut self.iterator);
            ManuallyDrop::drop(&mut self.db);
        }
    }
}

impl std::ops::Deref for OwnedIterator {
    type Target = DBRawIterator<'static>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.iterator
    }
}

impl std::ops::DerefMut for OwnedIterator {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.iterator
    }
}

/// What an iterator is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Versions of one key: uses the prefix filters, ends with the key.
    Point,
    /// Everything in order.
    Range,
}

/// Idle iterators of one store, the most recently used on top.
pub(crate) struct Pool {
    point: Mutex<Vec<OwnedIterator>>,
    range: Mutex<Vec<OwnedIterator>>,
    sweeps: AtomicU64,
}

/// Beyond so many idle iterators, further ones are dropped.
const IDLE_MAX: usize = 64;

impl Pool {
    pub(crate) fn new() -> Self {
        Pool { point: Mutex::new(Vec::new()), range: Mutex::new(Vec::new()), sweeps: AtomicU64::new(0) }
    }

    fn shelf(&self, mode: Mode) -> &Mutex<Vec<OwnedIterator>> {
        match mode {
            Mode::Point => &self.point,
            Mode::Range => &self.range,
        }
    }

    /// An iterator that sees everything written before the call.
    pub(crate) fn take(&self, db: &Arc<DB>, mode: Mode) -> Result<OwnedIterator> {
        let idle = self.shelf(mode).lock().pop();
        if let Some(mut iterator) = idle {
            iterator.refresh()?;
            return Ok(iterator);
        }
        let mut options = ReadOptions::default();
        options.set_background_purge_on_iterator_cleanup(true);
        match mode {
            Mode::Point => options.set_prefix_same_as_start(true),
            Mode::Range => options.set_total_order_seek(true),
        }
        Ok(OwnedIterator::new(db.clone(), options))
    }

    pub(crate) fn give_back(&self, mode: Mode, mut iterator: OwnedIterator) {
        iterator.used_at = self.sweeps.load(Ordering::Relaxed);
        let mut shelf = self.shelf(mode).lock();
        if shelf.len() < IDLE_MAX {
            shelf.push(iterator);
        }
    }

    /// Drops iterators that were not used since the sweep before the last one.
    pub(crate) fn sweep(&self) {
        let sweep = self.sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        for mode in [Mode::Point, Mode::Range] {
            let old: Vec<OwnedIterator> = {
                let mut shelf = self.shelf(mode).lock();
                let young = shelf.iter().position(|it| it.used_at + 2 > sweep).unwrap_or(shelf.len());
                shelf.drain(..young).collect()
            };
            drop(old);
        }
    }

    pub(crate) fn clear(&self) {
        for mode in [Mode::Point, Mode::Range] {
            let all = std::mem::take(&mut *self.shelf(mode).lock());
            drop(all);
        }
    }
}
