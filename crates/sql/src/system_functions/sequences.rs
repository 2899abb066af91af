//! nextval and its kin. Sequences stand outside of transactions; what a session remembers of them is in
//! [`SequenceMemory`].

use std::collections::HashMap;
use std::sync::Arc;

use cairn_catalog::acl::{self, ObjectKind, Privileges};
use cairn_catalog::{Persistence, Relation, RelationKind, SequenceInfo};
use cairn_exec::{TxnResultExt, txn_error};
use cairn_txn::{Error as TxnError, LockScope, LockTag, SequenceOptions, TableLockMode, WaitPolicy};
use cairn_types::oid::catalogs;
use cairn_types::{Datum, Error, Oid, Result, err};

use super::{Arguments, System};

/// What `currval` and `lastval` answer; one for each session, across its transactions.
#[derive(Default, Debug)]
pub struct SequenceMemory {
    pub values: HashMap<Oid, i64>,
    pub last: Option<Oid>,
}

impl SequenceMemory {
    /// DISCARD SEQUENCES.
    pub fn clear(&mut self) {
        self.values.clear();
        self.last = None;
    }
}

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    Ok(Some(match system.name {
        "nextval_oid" => Datum::Int8(system.next_value(a.oid(0)?)?),
        "currval_oid" => Datum::Int8(system.current_value(a.oid(0)?)?),
        "lastval" => Datum::Int8(system.last_value()?),
        "setval_oid" => system.set_value(a.oid(0)?, a.int8(1)?, true)?,
        "setval3_oid" => system.set_value(a.oid(0)?, a.int8(1)?, a.bool(2)?)?,
        "pg_sequence_parameters" => {
            let (relation, info) = system.sequence(a.oid(0)?)?;
            system.require_any(relation, acl::USAGE | acl::SELECT | acl::UPDATE)?;
            system.record(vec![
                Datum::Int8(info.start),
                Datum::Int8(info.min),
                Datum::Int8(info.max),
                Datum::Int8(info.increment),
                Datum::Bool(info.cycle),
                Datum::Int8(info.cache),
                Datum::Oid(info.type_oid),
            ])
        }
        "pg_sequence_last_value" => {
            let (relation, _) = system.sequence(a.oid(0)?)?;
            if system.require_any(relation, acl::USAGE | acl::SELECT).is_err() {
                return Ok(Some(Datum::Null));
            }
            match system.host.store().sequence_state(relation.storage).sql()? {
                Some(state) if state.is_called => Datum::Int8(state.last_value),
                _ => Datum::Null,
            }
        }
        _ => return Ok(None),
    }))
}

/// How the store counts a sequence.
pub(crate) fn sequence_options(info: &SequenceInfo) -> SequenceOptions {
    SequenceOptions {
        start: info.start,
        increment: info.increment,
        min: info.min,
        max: info.max,
        cycle: info.cycle,
    }
}

/// The floor below knows no names.
fn named(error: TxnError, name: &str) -> Error {
    match error {
        TxnError::SequenceExhausted { limit, ascending } => {
            let end = if ascending { "maximum" } else { "minimum" };
            err!(
                SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "nextval: reached {end} value of sequence \"{name}\" ({limit})"
            )
        }
        other => txn_error(other),
    }
}

impl System<'_> {
    fn sequence(&self, oid: Oid) -> Result<(&Relation, &SequenceInfo)> {
        let relation = self
            .catalog
            .relation(oid)
            .ok_or_else(|| err!(UNDEFINED_TABLE, "could not open relation with OID {oid}"))?;
        match &relation.sequence {
            Some(info) if relation.kind == RelationKind::Sequence => Ok((relation, info)),
            _ => Err(err!(WRONG_OBJECT_TYPE, "\"{}\" is not a sequence", relation.name)),
        }
    }

    /// 42501 unless the role has one of the privileges.
    fn require_any(&self, relation: &Relation, wanted: Privileges) -> Result<()> {
        if self.host.is_superuser() {
            return Ok(());
        }
        let has =
            self.rights().privileges(self.host.current_user_oid(), ObjectKind::Sequence, relation.oid).0;
        if has & wanted != 0 { Ok(()) } else { Err(crate::rights::denied("sequence", &relation.name)) }
    }

    /// Keeps the sequence from being dropped or altered to the end of the transaction. The answer sees the catalog as it is
    /// under the lock: whoever dropped or altered the sequence before has committed, and its old storage id is not to be
    /// written any more.
    fn hold(&self, oid: Oid) -> Result<System<'_>> {
        let tag = LockTag::Object { class: catalogs::PG_CLASS, object: oid };
        let wait = WaitPolicy::Block { timeout: self.host.lock_timeout() };
        let transaction = self.host.transaction()?;
        transaction.lock_object(tag, TableLockMode::RowExclusive, LockScope::Transaction, wait).sql()?;
        let catalog = self.host.catalog()?;
        if catalog.relation(oid).is_none() && self.catalog.relation(oid).is_some() {
            return Err(Error::internal(format!("could not open relation with OID {oid}")));
        }
        Ok(System { catalog, path: Arc::clone(&self.path), ..*self })
    }

    fn check_writable(&self, relation: &Relation, function: &str) -> Result<()> {
        if relation.persistence != Persistence::Temporary && self.host.is_read_only() {
            return Err(err!(
                READ_ONLY_SQL_TRANSACTION,
                "cannot execute {function}() in a read-only transaction"
            ));
        }
        Ok(())
    }

    fn next_value(&self, oid: Oid) -> Result<i64> {
        let held = self.hold(oid)?;
        let (relation, info) = held.sequence(oid)?;
        self.require_any(relation, acl::USAGE | acl::UPDATE)?;
        self.check_writable(relation, "nextval")?;
        let next = self.host.store().sequence_next(relation.storage, &sequence_options(info));
        let value = next.map_err(|error| named(error, &relation.name))?;
        let mut memory = self.host.sequence_memory().borrow_mut();
        memory.values.insert(oid, value);
        memory.last = Some(oid);
        Ok(value)
    }

    fn current_value(&self, oid: Oid) -> Result<i64> {
        let held = self.hold(oid)?;
        let (relation, _) = held.sequence(oid)?;
        self.require_any(relation, acl::USAGE | acl::SELECT)?;
        self.host.sequence_memory().borrow().values.get(&oid).copied().ok_or_else(|| {
            err!(
                OBJECT_NOT_IN_PREREQUISITE_STATE,
                "currval of sequence \"{}\" is not yet defined in this session",
                relation.name
            )
        })
    }

    fn last_value(&self) -> Result<i64> {
        let memory = self.host.sequence_memory().borrow();
        // A sequence that was dropped since then is forgotten.
        let last = memory.last.filter(|oid| self.catalog.relation(*oid).is_some());
        if let Some(relation) = last.and_then(|oid| self.catalog.relation(oid)) {
            self.require_any(relation, acl::USAGE | acl::SELECT)?;
        }
        last.and_then(|oid| memory.values.get(&oid).copied()).ok_or_else(|| {
            err!(OBJECT_NOT_IN_PREREQUISITE_STATE, "lastval is not yet defined in this session")
        })
    }

    fn set_value(&self, oid: Oid, value: i64, is_called: bool) -> Result<Datum> {
        let held = self.hold(oid)?;
        let (relation, info) = held.sequence(oid)?;
        self.require_any(relation, acl::UPDATE)?;
        self.check_writable(relation, "setval")?;
        if value < info.min || value > info.max {
            return Err(err!(
                NUMERIC_VALUE_OUT_OF_RANGE,
                "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                relation.name,
                info.min,
                info.max
            ));
        }
        self.host.store().sequence_set(relation.storage, value, is_called).sql()?;
        if is_called {
            self.host.sequence_memory().borrow_mut().values.insert(oid, value);
        }
        Ok(Datum::Int8(value))
    }
}
