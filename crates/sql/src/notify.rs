//! LISTEN, NOTIFY, UNLISTEN (manual, SQL commands; section 34.9).
//!
//! What a transaction says stays with its session ([`Pending`]) until it commits. Then
//!
//! 1. inside the commit section the transaction takes a place in the queue, so places are in commit order;
//! 2. once the commit is durable, its notifications are filled in;
//! 3. whatever is filled in from the head of the queue on goes to the sessions that listen, into their inboxes, and sessions
//!    that wait for their clients are woken.
//!
//! A session hands its inbox to the client when it is idle, never inside a transaction block.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_types::{Oid, Result, Text, err};
use parking_lot::Mutex;

use crate::client::Notification;
use crate::core::Core;
use crate::instance::SessionEntry;

/// Longest channel name, and payload, in bytes.
const CHANNEL_MAX: usize = 63;
const PAYLOAD_MAX: usize = 7999;
/// So many bytes may wait for sessions that do not take them; then NOTIFY fails.
const QUEUE_BYTES_MAX: usize = 256 << 20;

fn size(notification: &Notification) -> usize {
    size_of::<Notification>() + notification.channel.len() + notification.payload.len()
}

/// Who listens to what, and what is on its way. One for all databases.
#[derive(Default)]
pub struct Exchange {
    state: Mutex<State>,
    /// Bytes in inboxes.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    listeners: HashMap<(Oid, Text), Vec<Arc<SessionEntry>>>,
    queue: VecDeque<Place>,
    /// Number of the queue's first place.
    first: u64,
}

/// One commit's place in the queue.
struct Place {
    database: Oid,
    /// `None`: not durable yet.
    notifications: Option<Vec<Notification>>,
}

impl Exchange {
    fn take_place(&self, database: Oid) -> u64 {
        let mut state = self.state.lock();
        state.queue.push_back(Place { database, notifications: None });
        state.first + state.queue.len() as u64 - 1
    }

    /// Fills a place in (with nothing, if the commit failed), and delivers what can be.
    fn fill(&self, place: u64, notifications: Vec<Notification>) {
        let mut state = self.state.lock();
        let index = (place - state.first) as usize;
        if let Some(place) = state.queue.get_mut(index) {
            place.notifications = Some(notifications);
        }
        while state.queue.front().is_some_and(|place| place.notifications.is_some()) {
            state.first += 1;
            let Some(Place { database, notifications: Some(notifications) }) = state.queue.pop_front() else {
                break;
            };
            let mut woken: Vec<Arc<SessionEntry>> = Vec::new();
            for notification in notifications {
                let key = (database, Text::clone(&notification.channel));
                for session in state.listeners.get(&key).into_iter().flatten() {
                    self.waiting.fetch_add(size(&notification), Ordering::Relaxed);
                    session.inbox.lock().push(notification.clone());
                    if !woken.iter().any(|known| Arc::ptr_eq(known, session)) {
                        woken.push(Arc::clone(session));
                    }
                }
            }
            for session in woken {
                session.nudge();
            }
        }
    }

    /// Empties a session's inbox.
    pub(crate) fn take(&self, session: &SessionEntry) -> Vec<Notification> {
        let taken = std::mem::take(&mut *session.inbox.lock());
        self.waiting.fetch_sub(taken.iter().map(size).sum(), Ordering::Relaxed);
        taken
    }

    /// How full the inboxes are, from 0 to 1.
    pub(crate) fn usage(&self) -> f64 {
        self.waiting.load(Ordering::Relaxed) as f64 / QUEUE_BYTES_MAX as f64
    }

    fn listen(&self, session: &Arc<SessionEntry>, channel: &Text) {
        let mut state = self.state.lock();
        let all = state.listeners.entry((session.database.oid, Text::clone(channel))).or_default();
        if !all.iter().any(|known| Arc::ptr_eq(known, session)) {
            all.push(Arc::clone(session));
        }
    }

    fn unlisten(&self, session: &Arc<SessionEntry>, channel: &Text) {
        let mut state = self.state.lock();
        let key = (session.database.oid, Text::clone(channel));
        if let Some(all) = state.listeners.get_mut(&key) {
            all.retain(|known| !Arc::ptr_eq(known, session));
            if all.is_empty() {
                state.listeners.remove(&key);
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Listen(Text),
    Unlisten(Text),
    UnlistenAll,
}

/// What a session listens to, and what its transaction has said so far.
#[derive(Default)]
pub struct Pending {
    /// Committed, in order.
    listening: Vec<Text>,
    actions: Vec<Action>,
    notifications: Vec<Notification>,
}

/// Where a savepoint goes back to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotifyMark {
    actions: usize,
    notifications: usize,
}

/// A commit's notifications on their way. Dropped without [`Posting::deliver`], they are forgotten.
pub(crate) struct Posting<'a> {
    exchange: &'a Exchange,
    database: Oid,
    place: std::cell::Cell<Option<u64>>,
    notifications: Vec<Notification>,
}

impl Posting<'_> {
    /// In the commit section.
    pub fn take_place(&self) {
        if self.place.get().is_none() {
            self.place.set(Some(self.exchange.take_place(self.database)));
        }
    }

    /// The commit is durable.
    pub fn deliver(mut self) {
        self.take_place();
        let notifications = std::mem::take(&mut self.notifications);
        if let Some(place) = self.place.take() {
            self.exchange.fill(place, notifications);
        }
    }
}

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.exchange.fill(place, Vec::new());
        }
    }
}

impl Core {
    pub(crate) fn listen(&self, channel: &str) {
        self.notify.borrow_mut().actions.push(Action::Listen(channel.into()));
    }

    /// `None`: from everything.
    pub(crate) fn unlisten(&self, channel: Option<&str>) {
        let mut pending = self.notify.borrow_mut();
        if pending.listening.is_empty() && pending.actions.is_empty() {
            return;
        }
        pending.actions.push(match channel {
            Some(channel) => Action::Unlisten(channel.into()),
            None => Action::UnlistenAll,
        });
    }

    /// Says something when the transaction commits; the same thing only once. 22023.
    pub(crate) fn post(&self, channel: &str, payload: &str) -> Result<()> {
        if channel.is_empty() {
            return Err(err!(INVALID_PARAMETER_VALUE, "channel name cannot be empty"));
        }
        if channel.len() > CHANNEL_MAX {
            return Err(err!(INVALID_PARAMETER_VALUE, "channel name too long"));
        }
        if payload.len() > PAYLOAD_MAX {
            return Err(err!(INVALID_PARAMETER_VALUE, "payload string too long"));
        }
        let notification =
            Notification { pid: self.entry.handle.pid, channel: channel.into(), payload: payload.into() };
        let mut pending = self.notify.borrow_mut();
        if !pending.notifications.contains(&notification) {
            pending.notifications.push(notification);
        }
        Ok(())
    }

    /// `pg_listening_channels`.
    pub(crate) fn listening(&self) -> Vec<Text> {
        self.notify.borrow().listening.clone()
    }

    pub(crate) fn is_listening(&self) -> bool {
        !self.notify.borrow().listening.is_empty()
    }

    pub(crate) fn notify_mark(&self) -> NotifyMark {
        let pending = self.notify.borrow();
        NotifyMark { actions: pending.actions.len(), notifications: pending.notifications.len() }
    }

    pub(crate) fn notify_undo_to(&self, mark: NotifyMark) {
        let mut pending = self.notify.borrow_mut();
        pending.actions.truncate(mark.actions);
        pending.notifications.truncate(mark.notifications);
    }

    /// Before the commit: what it will say. 54000 where nobody takes anything any more.
    pub(crate) fn posting(&self) -> Result<Option<Posting<'_>>> {
        let notifications = std::mem::take(&mut self.notify.borrow_mut().notifications);
        if notifications.is_empty() {
            return Ok(None);
        }
        let exchange = &self.instance.exchange;
        if exchange.usage() >= 1.0 {
            return Err(err!(PROGRAM_LIMIT_EXCEEDED, "too many notifications in the NOTIFY queue"));
        }
        let database = self.entry.database.oid;
        Ok(Some(Posting { exchange, database, place: std::cell::Cell::new(None), notifications }))
    }

    /// The transaction has committed: LISTEN and UNLISTEN take effect.
    pub(crate) fn apply_listening(&self) {
        let actions = std::mem::take(&mut self.notify.borrow_mut().actions);
        for action in actions {
            let mut pending = self.notify.borrow_mut();
            match action {
                Action::Listen(channel) => {
                    if !pending.listening.contains(&channel) {
                        self.instance.exchange.listen(&self.entry, &channel);
                        pending.listening.push(channel);
                    }
                }
                Action::Unlisten(channel) => {
                    self.instance.exchange.unlisten(&self.entry, &channel);
                    pending.listening.retain(|known| *known != channel);
                }
                Action::UnlistenAll => {
                    for channel in std::mem::take(&mut pending.listening) {
                        self.instance.exchange.unlisten(&self.entry, &channel);
                    }
                }
            }
        }
    }

    /// The session ends.
    pub(crate) fn stop_listening(&self) {
        self.notify_undo_to(NotifyMark::default());
        self.unlisten(None);
        self.apply_listening();
        self.instance.exchange.take(&self.entry);
    }
}
