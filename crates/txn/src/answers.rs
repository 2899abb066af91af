//! What somebody is told as soon as it is durable, and the thread that tells it while the next fsync runs.
//!
//! The thread that has made something durable gives the answers itself: that spares a change of threads. But while others wait
//! for the next fsync already, the disk would stand still for as long as the answers take. Then the sync thread leaves them here
//! ([`crate::group_sync`]), begins the fsync, and the thread in [`AnswerQueue::run`] gives them meanwhile.
//!
//! What is left here is due, so nothing has to be known about it any more but this: **each answer that was left is given
//! once, and all of them are before `run` returns**. It returns after [`AnswerQueue::close`], when nothing is left.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// What is to be done as soon as something is durable.
pub trait Answer: Send + Sync {
    /// Runs on a thread for which others wait: must not block, and not take long. Of two answers that are open at once either
    /// may be given first.
    fn give(&self);
}

#[derive(Default)]
struct State {
    /// Left, and not taken by the thread yet.
    answers: Vec<Arc<dyn Answer>>,
    closed: bool,
}

/// Answers that are due, on their way to the thread that gives them.
#[derive(Default)]
pub(crate) struct AnswerQueue {
    state: Mutex<State>,
    wake: Condvar,
}

impl AnswerQueue {
    /// Takes all of `answers`. Costs one wake-up, or none if the thread is still giving others.
    pub(crate) fn leave(&self, answers: &mut Vec<Arc<dyn Answer>>) {
        self.state.lock().answers.append(answers);
        // Outside of the mutex, which the thread would otherwise have to wait for.
        self.wake.notify_one();
    }

    /// The body of the thread.
    pub(crate) fn run(&self) {
        let mut answers = Vec::new();
        let mut state = self.state.lock();
        loop {
            std::mem::swap(&mut answers, &mut state.answers);
            if !answers.is_empty() {
                drop(state);
                answers.drain(..).for_each(|answer| answer.give());
                state = self.state.lock();
            } else if state.closed {
                return;
            } else {
                self.wake.wait(&mut state);
            }
        }
    }

    /// Nobody leaves any more.
    fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_one();
    }

    /// Closes the queue when it is dropped, be it by a panic.
    pub(crate) fn closing(&self) -> Closing<'_> {
        Closing(self)
    }
}

pub(crate) struct Closing<'queue>(&'queue AnswerQueue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
