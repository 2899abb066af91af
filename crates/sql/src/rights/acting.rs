//! For whom a session acts: SET ROLE, SET SESSION AUTHORIZATION.
//!
//! Both are settings in that they end with the transaction that failed, and with LOCAL at its end in any case.

use cairn_types::{Result, err};

use crate::core::{Core, User};
use crate::transaction::Phase;

/// The session's user and the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acting {
    pub session: User,
    pub current: User,
}

/// What the transaction at hand has changed.
#[derive(Default, Debug)]
pub struct ActingJournal {
    /// `None`: nothing yet.
    change: Option<Change>,
}

#[derive(Clone, Debug)]
struct Change {
    /// Before the transaction.
    before: Acting,
    /// After it, if it commits: what LOCAL has not changed.
    after: Acting,
}

/// Where a savepoint goes back to: now, and what a commit would have left. `None`: to where the transaction began.
pub type ActingMark = Option<(Acting, Acting)>;

/// As the value of a setting: 22023.
fn no_such_role(name: &str) -> cairn_types::Error {
    err!(INVALID_PARAMETER_VALUE, "role \"{name}\" does not exist")
}

impl Core {
    fn acting(&self) -> Acting {
        Acting { session: self.session_user(), current: self.user() }
    }

    fn act(&self, acting: Acting) {
        self.set_session_user(acting.session);
        self.set_user(acting.current);
        self.tell_superuser();
    }

    /// `is_superuser` for the client and for settings.
    fn tell_superuser(&self) {
        let superuser = self.is_superuser();
        self.with_settings(|settings| settings.set_superuser(superuser));
    }

    fn change_acting(&self, acting: Acting, local: bool) {
        let inside = self.phase() != Phase::Idle;
        {
            let mut journal = self.acting_journal.borrow_mut();
            if inside {
                let now = self.acting();
                let change = journal.change.get_or_insert_with(|| Change { before: now.clone(), after: now });
                if !local {
                    change.after = acting.clone();
                }
            }
        }
        self.act(acting);
    }

    /// SET ROLE; `none` is the session's user.
    pub(crate) fn set_role(&self, name: &str, local: bool) -> Result<()> {
        if self.in_security_definer() {
            return Err(err!(
                INSUFFICIENT_PRIVILEGE,
                "cannot set parameter \"role\" within security-definer function"
            ));
        }
        let session = self.session_user();
        let current = if name == "none" {
            session.clone()
        } else {
            let role = self.role(name).map_err(|_| no_such_role(name))?;
            if !self.roles().is_member(session.oid, role.oid) {
                return Err(err!(INSUFFICIENT_PRIVILEGE, "permission denied to set role \"{name}\""));
            }
            role
        };
        self.change_acting(Acting { session, current }, local);
        Ok(())
    }

    /// SET SESSION AUTHORIZATION; `None` is who connected.
    pub(crate) fn set_session_authorization(&self, name: Option<&str>, local: bool) -> Result<()> {
        if self.in_security_definer() {
            return Err(err!(
                INSUFFICIENT_PRIVILEGE,
                "cannot set parameter \"session_authorization\" within security-definer function"
            ));
        }
        let user = match name {
            None => self.authenticated.clone(),
            Some(name) => {
                let user = self.role(name).map_err(|_| no_such_role(name))?;
                let may =
                    user.oid == self.authenticated.oid || self.roles().is_superuser(self.authenticated.oid);
                if !may {
                    return Err(err!(
                        INSUFFICIENT_PRIVILEGE,
                        "permission denied to set session authorization"
                    ));
                }
                user
            }
        };
        self.change_acting(Acting { session: user.clone(), current: user }, local);
        Ok(())
    }

    pub(crate) fn acting_commit(&self) {
        let change = self.acting_journal.borrow_mut().change.take();
        if let Some(change) = change {
            self.act(change.after);
        }
    }

    pub(crate) fn acting_rollback(&self) {
        let change = self.acting_journal.borrow_mut().change.take();
        if let Some(change) = change {
            self.act(change.before);
        }
    }

    pub(crate) fn acting_mark(&self) -> ActingMark {
        let journal = self.acting_journal.borrow();
        journal.change.as_ref().map(|change| (self.acting(), change.after.clone()))
    }

    pub(crate) fn acting_undo_to(&self, mark: ActingMark) {
        let Some((now, after)) = mark else { return self.acting_rollback() };
        if let Some(change) = &mut self.acting_journal.borrow_mut().change {
            change.after = after;
        }
        self.act(now);
    }
}
