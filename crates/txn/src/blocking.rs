//! The one place where a session's thread goes to sleep.
//!
//! Statements run as plain synchronous code on the threads of a server whose other sessions need those threads.
//! Whoever waits for a lock or for the disk does it inside [`while_waiting`], and the server installs once, with
//! [`set_wait_wrapper`], how a thread is given up meanwhile. Without a wrapper (tests, embedded use) it just waits.

use std::sync::OnceLock;

/// Runs its argument exactly once, after having arranged for the thread to be missed.
pub type WaitWrapper = fn(&mut dyn FnMut());

static WRAPPER: OnceLock<WaitWrapper> = OnceLock::new();

/// Installs the wrapper for the whole process; the first one stays. Returns whether it was this one.
pub fn set_wait_wrapper(wrapper: WaitWrapper) -> bool {
    WRAPPER.set(wrapper).is_ok()
}

/// Runs `wait`, which is expected to sleep.
pub fn while_waiting<R>(wait: impl FnOnce() -> R) -> R {
    let Some(wrapper) = WRAPPER.get() else { return wait() };
    let mut wait = Some(wait);
    let mut result = None;
    wrapper(&mut || {
        if let Some(wait) = wait.take() {
            result = Some(wait());
        }
    });
    result.expect("the wait wrapper runs its argument")
}
