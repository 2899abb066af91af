//! Notices and warnings on their way to the client.
//!
//! A notice is raised in the depth of a statement, by a function or by DDL, where no [`Client`] is at hand. A connection that
//! can be reached from there gives its session an [`Outlet`]: then a notice leaves the moment it is raised, behind the rows
//! that the statement has given so far. Without one (the embedded library), and while the client is in the middle of a
//! row, notices wait here for the statement's next row, or for its end.
//!
//! What a notice tells may come from what its transaction has read. So the session owes before it goes out
//! ([`crate::debt`]), as for rows that leave in the middle of a result.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use cairn_txn::CancelReason;
use cairn_types::Error;

use crate::client::{Client, Outlet};
use crate::core::Core;

#[derive(Default)]
pub(crate) struct Notices {
    /// Not said yet, in order.
    waiting: RefCell<VecDeque<Error>>,
    outlet: RefCell<Option<Rc<dyn Outlet>>>,
    /// What is raised is news to nobody.
    muted: Cell<bool>,
}

impl Notices {
    pub(crate) fn set_outlet(&self, outlet: Rc<dyn Outlet>) {
        *self.outlet.borrow_mut() = Some(outlet);
    }

    /// From now on nobody hears anything.
    pub(crate) fn mute(&self) {
        self.muted.set(true);
    }
}

impl Core {
    /// Says what the client is to hear: at once, or when the statement's caller has its client at hand.
    pub(crate) fn say(&self, notice: Error) {
        let notices = &self.notices;
        if notices.muted.get() {
            return;
        }
        notices.waiting.borrow_mut().push_back(notice);
        let outlet = notices.outlet.borrow().clone();
        if let Some(outlet) = outlet {
            self.owe_what_was_read();
            self.say_waiting(&*outlet);
        }
    }

    fn say_waiting(&self, outlet: &dyn Outlet) {
        let waiting = &self.notices.waiting;
        loop {
            let next = waiting.borrow_mut().pop_front();
            let Some(notice) = next else { return };
            match outlet.notice(&notice) {
                Ok(true) => {}
                Ok(false) => {
                    waiting.borrow_mut().push_front(notice);
                    return;
                }
                // There is nobody to work for any more: the statement ends where it next asks whether it should.
                Err(error) => {
                    tracing::debug!(%error, "a notice could not be sent");
                    waiting.borrow_mut().clear();
                    self.entry.handle.interrupt.raise(CancelReason::ClientLost);
                    return;
                }
            }
        }
    }

    /// Gives the client the notices that have waited for it.
    pub(crate) fn send_notices(&self, client: &mut dyn Client) {
        loop {
            let next = self.notices.waiting.borrow_mut().pop_front();
            let Some(notice) = next else { return };
            client.notice(&notice);
        }
    }

    /// Runs `work`; nobody hears of what it raises.
    pub(crate) fn without_notices<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = self.notices.muted.replace(true);
        let result = work();
        self.notices.muted.set(before);
        result
    }
}
