//! The few primitives that the dead-range index and the pins stand on, so that a test can replace them: with the feature
//! `shuttle` they are that crate's, which runs a test under many interleavings of its threads.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

    pub(crate) use parking_lot::{Mutex, RwLock};
}

#[cfg(feature = "shuttle")]
mod real {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    /// shuttle's mutex with parking_lot's manners.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }

    /// shuttle's lock with parking_lot's manners.
    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            match self.0.read() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            match self.0.write() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }
}

pub(crate) use real::*;
