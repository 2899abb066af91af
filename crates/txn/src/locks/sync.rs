//! The few primitives that the lock manager stands on, so that a test can replace them: with the feature `shuttle`
//! they are that crate's, which runs a test under many interleavings of its threads.

#[cfg(not(feature = "shuttle"))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
    pub(crate) use std::thread::{Thread, current as current_thread, park, park_timeout};

    pub(crate) use parking_lot::{Mutex, MutexGuard};
}

#[cfg(feature = "shuttle")]
mod real {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicU8, Ordering};
    pub(crate) use shuttle::thread::{Thread, current as current_thread, park, park_timeout};

    /// shuttle's mutex with parking_lot's manners.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }
}

pub(crate) use real::*;
