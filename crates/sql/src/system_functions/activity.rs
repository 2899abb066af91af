//! Sessions, transactions, locks: what pg_stat_activity, pg_locks and their kin stand on.

use std::collections::HashMap;
use std::time::Instant;

use cairn_txn::LockTag;
use cairn_txn::locks::{LockInfo, LockTarget};
use cairn_types::{Datum, Oid, Result, err, types};

use super::{Arguments, SessionInfo, System, optional_text, values};

pub(super) fn call(system: &System<'_>, a: &Arguments<'_>) -> Result<Option<Datum>> {
    let host = system.host;
    Ok(Some(match system.name {
        "pg_stat_get_activity" => {
            let pid = if a.is_null(0) { None } else { Some(a.int4(0)?) };
            let sessions = host.sessions();
            let rows = sessions.iter().filter(|session| pid.is_none_or(|pid| pid == session.pid));
            let (roles, own) = (host.roles(), host.current_user_oid());
            let all = roles.has_privileges_of(own, crate::rights::READ_ALL_STATS);
            system.rows(
                rows.map(|session| activity_row(session, all || roles.has_privileges_of(own, session.user))),
            )
        }
        // A session's number among the backends is its pid.
        "pg_stat_get_backend_idset" => {
            values(types::INT4, host.sessions().iter().map(|s| Datum::Int4(s.pid)))
        }
        "pg_stat_get_backend_pid" => system.of_session(a, |session| Datum::Int4(session.pid))?,
        "pg_stat_get_backend_dbid" => system.of_session(a, |session| Datum::Oid(session.database))?,
        "pg_stat_get_backend_userid" => system.of_session(a, |session| Datum::Oid(session.user))?,
        "pg_stat_get_backend_activity" => {
            if system.may_watch(a.int4(0)?) {
                system.of_session(a, |session| Datum::Text(session.query.clone()))?
            } else {
                Datum::text("<insufficient privilege>")
            }
        }
        "pg_stat_get_backend_activity_start" => {
            system.of_watched(a, |session| Datum::TimestampTz(session.query_start))?
        }
        "pg_stat_get_backend_start" => {
            system.of_watched(a, |session| Datum::TimestampTz(session.backend_start))?
        }
        "pg_stat_get_backend_xact_start" => system
            .of_watched(a, |session| session.transaction_start.map_or(Datum::Null, Datum::TimestampTz))?,
        "pg_stat_get_backend_client_addr" => system.of_watched(a, address)?,
        "pg_stat_get_backend_client_port" => system.of_watched(a, port)?,
        "pg_stat_get_backend_wait_event" => {
            system.of_watched(a, |session| optional_text(session.wait.map(|(_, event)| event)))?
        }
        "pg_stat_get_backend_wait_event_type" => {
            system.of_watched(a, |session| optional_text(session.wait.map(|(kind, _)| kind)))?
        }
        "inet_client_addr" => system.own(address),
        "inet_client_port" => system.own(port),
        // The listening address is the server's, which sessions do not see.
        "inet_server_addr" => Datum::Null,
        "inet_server_port" => match system.env.setting("port").and_then(|port| port.parse().ok()) {
            Some(port) => Datum::Int4(port),
            None => Datum::Null,
        },
        "current_query" => system.own(|session| Datum::Text(session.query.clone())),
        "pg_cancel_backend" => {
            let pid = a.int4(0)?;
            system.check_may_signal(
                pid,
                "must be a superuser to cancel superuser query",
                "must be a member of the role whose query is being canceled or member of pg_signal_backend",
            )?;
            let sent = system.signal(pid, |pid| host.cancel_session(pid));
            // Who means itself has its answer at once.
            system.env.check_interrupts()?;
            Datum::Bool(sent)
        }
        "pg_terminate_backend" => {
            let pid = a.int4(0)?;
            system.check_may_signal(
                pid,
                "must be a superuser to terminate superuser process",
                "must be a member of the role whose process is being terminated or member of pg_signal_backend",
            )?;
            let timeout_ms = if a.len() > 1 { a.int8(1)? } else { 0 };
            if timeout_ms < 0 {
                return Err(err!(INVALID_PARAMETER_VALUE, "\"timeout\" must not be negative"));
            }
            let sent = system.signal(pid, |pid| host.terminate_session(pid));
            system.env.check_interrupts()?;
            Datum::Bool(sent && system.wait_for_end(pid, timeout_ms)?)
        }
        "pg_blocking_pids" => {
            values(types::INT4, host.store().blocking_pids(a.int4(0)?).into_iter().map(Datum::Int4))
        }
        // Serializable transactions never wait for a safe snapshot.
        "pg_safe_snapshot_blocking_pids" => values(types::INT4, []),
        "pg_isolation_test_session_is_blocked" => {
            let interesting: Vec<i32> = a
                .array(1)?
                .elements
                .iter()
                .filter_map(|pid| match pid {
                    Datum::Int4(pid) => Some(*pid),
                    _ => None,
                })
                .collect();
            Datum::Bool(host.store().blocking_pids(a.int4(0)?).iter().any(|pid| interesting.contains(pid)))
        }
        "pg_lock_status" => {
            let database = host.database_oid();
            let relations: super::ByOid<Oid> = system
                .catalog
                .user_relations()
                .filter(|relation| relation.storage != 0)
                .map(|relation| (relation.storage, relation.oid))
                .collect();
            let locks = host.store().locks();
            system.rows(lock_rows(&locks, database, &relations))
        }
        "pg_prepared_statement" => {
            let mut statements = host.prepared_statements();
            statements.sort_by(|a, b| a.name.cmp(&b.name));
            system.rows(statements.into_iter().map(|statement| {
                vec![
                    Datum::text(statement.name),
                    Datum::Text(statement.statement),
                    Datum::TimestampTz(statement.prepare_time),
                    values(types::REGTYPE, statement.parameter_types.into_iter().map(Datum::Oid)),
                    Datum::Bool(statement.from_sql),
                    // Plans are made once per shape of a statement, for all its executions.
                    Datum::Null,
                    Datum::Null,
                ]
            }))
        }
        "pg_cursor" => system.rows(host.cursors().into_iter().map(|cursor| {
            vec![
                Datum::text(cursor.name),
                Datum::Text(cursor.statement),
                Datum::Bool(cursor.holdable),
                Datum::Bool(cursor.binary),
                Datum::Bool(cursor.scrollable),
                Datum::TimestampTz(cursor.creation_time),
            ]
        })),
        "pg_postmaster_start_time" | "pg_conf_load_time" => Datum::TimestampTz(host.start_time()),
        "pg_current_xact_id" | "pg_current_xact_id_if_assigned" => {
            let transaction = host.transaction()?;
            if system.name.ends_with("assigned") && !transaction.has_writes() {
                return Ok(Some(Datum::Null));
            }
            // Counted from the start of the instance, in microseconds: greater than any number of an earlier run.
            let number = u64::try_from(host.start_time()).unwrap_or(0) + transaction.number();
            // txid_current is the same with another type.
            if system.info.result_type == types::INT8 {
                Datum::Int8(i64::try_from(number).unwrap_or(i64::MAX))
            } else {
                Datum::UInt8(number)
            }
        }
        "pg_notification_queue_usage" => Datum::Float8(host.notification_usage()),
        "pg_notify" => {
            let text = |at| -> Result<&str> { if a.is_null(at) { Ok("") } else { a.str(at) } };
            host.post_notification(text(0)?, text(1)?)?;
            Datum::text("")
        }
        "pg_listening_channels" => {
            values(types::TEXT, host.listening_channels().into_iter().map(Datum::Text))
        }
        // Neither exists in Cairn.
        "pg_prepared_xact"
        | "pg_get_replication_slots"
        | "pg_stat_get_wal_senders"
        | "pg_stat_get_subscription"
        | "pg_stat_get_progress_info"
        | "pg_get_publication_tables" => system.rows([]),
        "pg_reload_conf" => {
            // There is no configuration file that could have changed.
            Datum::Bool(true)
        }
        _ => return Ok(None),
    }))
}

fn address(session: &SessionInfo) -> Datum {
    optional_text(session.client_address.map(|address| address.ip().to_string()))
}

fn port(session: &SessionInfo) -> Datum {
    session.client_address.map_or(Datum::Null, |address| Datum::Int4(i32::from(address.port())))
}

/// A row of pg_stat_get_activity; who may not see what the session does, sees that it is there.
fn activity_row(session: &SessionInfo, visible: bool) -> Vec<Datum> {
    let mut row = vec![
        Datum::Oid(session.database),
        Datum::Int4(session.pid),
        Datum::Oid(session.user),
        Datum::text(session.application_name.as_str()),
        Datum::text(session.state),
        Datum::Text(session.query.clone()),
        optional_text(session.wait.map(|(kind, _)| kind)),
        optional_text(session.wait.map(|(_, event)| event)),
        session.transaction_start.map_or(Datum::Null, Datum::TimestampTz),
        Datum::TimestampTz(session.query_start),
        Datum::TimestampTz(session.backend_start),
        Datum::TimestampTz(session.state_change),
        address(session),
        Datum::Null,
        session.client_address.map_or(Datum::Int4(-1), |address| Datum::Int4(i32::from(address.port()))),
        Datum::Null,
        Datum::Null,
        Datum::text("client backend"),
    ];
    row.push(Datum::Bool(session.tls.is_some()));
    if let Some(tls) = &session.tls {
        row.extend([Datum::text(tls.version), Datum::text(tls.cipher.as_str()), Datum::Int4(tls.bits)]);
    }
    // Client certificates and GSS, parallel leader and query id: there are none.
    row.resize(ACTIVITY_COLUMNS, Datum::Null);
    if !visible {
        row[STATE..].fill(Datum::Null);
        row[QUERY] = Datum::text("<insufficient privilege>");
    }
    row
}

/// OUT columns of pg_stat_get_activity.
const ACTIVITY_COLUMNS: usize = 30;
const STATE: usize = 4;
const QUERY: usize = 5;

/// The rows of pg_lock_status, as PostgreSQL shows locks: every transaction has itself, and if it has locked or written a
/// row also its number; a locked row is not shown, but who waits for one is: the first for the transaction
/// that has it, the others for the row.
fn lock_rows(locks: &[LockInfo], database: Oid, relations: &super::ByOid<Oid>) -> Vec<Vec<Datum>> {
    let mut rows = Vec::new();
    let mut transactions = std::collections::BTreeMap::new();
    let mut holders: HashMap<&[u8], u64> = HashMap::new();
    let mut queues: HashMap<&[u8], Vec<&LockInfo>> = HashMap::new();
    for lock in locks {
        let own_number = lock.granted && matches!(lock.target, LockTarget::Object(LockTag::Transaction(_)));
        let writes = own_number || matches!(lock.target, LockTarget::Row(_));
        if let Some(number) = lock.transaction {
            *transactions.entry((lock.pid, number)).or_insert(false) |= writes;
        }
        match &lock.target {
            LockTarget::Row(key) if lock.granted => {
                holders.extend(lock.transaction.map(|number| (&**key, number)));
            }
            LockTarget::Row(key) => queues.entry(key).or_default().push(lock),
            // Shown for every transaction that writes, below.
            LockTarget::Object(_) if own_number => {}
            LockTarget::Object(tag) => rows.push(object_lock_row(lock, *tag, database)),
        }
    }
    for ((pid, number), writes) in transactions {
        let mut row = lock_row(pid, Some(number), "ExclusiveLock", None);
        row[LOCKTYPE] = Datum::text("virtualxid");
        row[VIRTUALXID] = Datum::text(format!("{pid}/{number}"));
        row[FASTPATH] = Datum::Bool(true);
        rows.push(row);
        if writes {
            let mut row = lock_row(pid, Some(number), "ExclusiveLock", None);
            row[LOCKTYPE] = Datum::text("transactionid");
            row[TRANSACTIONID] = Datum::Oid(number as u32);
            rows.push(row);
        }
    }
    for (key, mut queue) in queues {
        queue.sort_by_key(|lock| lock.waiting_since);
        let storage = key.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
        let relation = storage.and_then(|storage| relations.get(&storage));
        for (place, lock) in queue.into_iter().enumerate() {
            let mode = match lock.mode {
                "RowKeyShareLock" => "AccessShareLock",
                "RowShareLock" => "RowShareLock",
                "RowNoKeyUpdateLock" => "ExclusiveLock",
                _ => "AccessExclusiveLock",
            };
            let since = lock.waiting_since.filter(|_| place > 0);
            let mut row = lock_row(lock.pid, lock.transaction, mode, since);
            row[LOCKTYPE] = Datum::text("tuple");
            row[DATABASE] = Datum::Oid(database);
            row[RELATION] = relation.map_or(Datum::Null, |relation| Datum::Oid(*relation));
            rows.push(row);
            if place == 0 {
                let mut row = lock_row(lock.pid, lock.transaction, "ShareLock", lock.waiting_since);
                row[LOCKTYPE] = Datum::text("transactionid");
                row[TRANSACTIONID] =
                    holders.get(key).map_or(Datum::Null, |number| Datum::Oid(*number as u32));
                rows.push(row);
            }
        }
    }
    rows
}

const LOCKTYPE: usize = 0;
const DATABASE: usize = 1;
const RELATION: usize = 2;
const VIRTUALXID: usize = 5;
const TRANSACTIONID: usize = 6;
const CLASSID: usize = 7;
const OBJID: usize = 8;
const OBJSUBID: usize = 9;
const VIRTUALTRANSACTION: usize = 10;
const PID: usize = 11;
const MODE: usize = 12;
const GRANTED: usize = 13;
const FASTPATH: usize = 14;
const WAITSTART: usize = 15;
const LOCK_COLUMNS: usize = 16;

/// What all rows have. `since`: it is waited for.
fn lock_row(pid: i32, transaction: Option<u64>, mode: &str, since: Option<Instant>) -> Vec<Datum> {
    let mut row = vec![Datum::Null; LOCK_COLUMNS];
    let transaction = transaction.unwrap_or(0);
    row[VIRTUALTRANSACTION] = Datum::text(format!("{pid}/{transaction}"));
    row[PID] = Datum::Int4(pid);
    row[MODE] = Datum::text(mode);
    row[GRANTED] = Datum::Bool(since.is_none());
    row[FASTPATH] = Datum::Bool(false);
    if let Some(since) = since {
        let waited_us = i64::try_from(since.elapsed().as_micros()).unwrap_or(0);
        row[WAITSTART] = Datum::TimestampTz(crate::clock::now_us() - waited_us);
    }
    row
}

fn object_lock_row(lock: &LockInfo, tag: LockTag, database: Oid) -> Vec<Datum> {
    let mut row = lock_row(lock.pid, lock.transaction, lock.mode, lock.waiting_since);
    row[DATABASE] = Datum::Oid(database);
    let advisory = |row: &mut Vec<Datum>, high: u32, low: u32, words: i16| {
        row[LOCKTYPE] = Datum::text("advisory");
        row[CLASSID] = Datum::Oid(high);
        row[OBJID] = Datum::Oid(low);
        row[OBJSUBID] = Datum::Int2(words);
    };
    match tag {
        LockTag::Object { class: cairn_types::oid::catalogs::PG_CLASS, object } => {
            row[LOCKTYPE] = Datum::text("relation");
            row[RELATION] = Datum::Oid(object);
        }
        LockTag::Object { class, object } => {
            row[LOCKTYPE] = Datum::text("object");
            row[CLASSID] = Datum::Oid(class);
            row[OBJID] = Datum::Oid(object);
            row[OBJSUBID] = Datum::Int2(0);
        }
        LockTag::Advisory(key) => {
            let bits = key as u64;
            advisory(&mut row, (bits >> 32) as u32, bits as u32, 1);
        }
        LockTag::AdvisoryPair(first, second) => advisory(&mut row, first as u32, second as u32, 2),
        LockTag::Transaction(number) => {
            row[LOCKTYPE] = Datum::text("transactionid");
            row[DATABASE] = Datum::Null;
            // Transaction ids are as narrow as PostgreSQL's.
            row[TRANSACTIONID] = Datum::Oid(number as u32);
        }
    }
    row
}

impl System<'_> {
    /// A fact of the session that the first argument names; null if there is none.
    fn of_session(&self, a: &Arguments<'_>, fact: impl FnOnce(&SessionInfo) -> Datum) -> Result<Datum> {
        let pid = a.int4(0)?;
        Ok(self.host.sessions().iter().find(|session| session.pid == pid).map_or(Datum::Null, fact))
    }

    /// [`System::of_session`]; null where what the session does is not the role's business.
    fn of_watched(&self, a: &Arguments<'_>, fact: impl FnOnce(&SessionInfo) -> Datum) -> Result<Datum> {
        if self.may_watch(a.int4(0)?) { self.of_session(a, fact) } else { Ok(Datum::Null) }
    }

    /// Whether the current role may see what a session does.
    fn may_watch(&self, pid: i32) -> bool {
        let (roles, own) = (self.host.roles(), self.host.current_user_oid());
        roles.has_privileges_of(own, crate::rights::READ_ALL_STATS)
            || self
                .host
                .sessions()
                .iter()
                .find(|session| session.pid == pid)
                .is_none_or(|session| roles.has_privileges_of(own, session.user))
    }

    fn own(&self, fact: impl FnOnce(&SessionInfo) -> Datum) -> Datum {
        let pid = self.env.backend_pid();
        self.host.sessions().iter().find(|session| session.pid == pid).map_or(Datum::Null, fact)
    }

    /// 42501 unless the session is the role's own, or that of a role whose privileges it has.
    fn check_may_signal(&self, pid: i32, superuser: &str, member: &str) -> Result<()> {
        let sessions = self.host.sessions();
        let Some(session) = sessions.iter().find(|session| session.pid == pid) else { return Ok(()) };
        let (roles, own) = (self.host.roles(), self.host.current_user_oid());
        if roles.is_superuser(session.user) && !roles.is_superuser(own) {
            return Err(err!(INSUFFICIENT_PRIVILEGE, "{superuser}"));
        }
        if roles.has_privileges_of(own, session.user)
            || roles.has_privileges_of(own, crate::rights::SIGNAL_BACKEND)
        {
            return Ok(());
        }
        Err(err!(INSUFFICIENT_PRIVILEGE, "{member}"))
    }

    /// Waits until a session has ended, at most so long; whether it has. Zero does not wait, and says yes.
    fn wait_for_end(&self, pid: i32, timeout_ms: i64) -> Result<bool> {
        let mut left_ms = timeout_ms;
        while left_ms > 0 {
            if !self.host.sessions().iter().any(|session| session.pid == pid) {
                return Ok(true);
            }
            self.env.sleep(0.005)?;
            left_ms -= 5;
        }
        if timeout_ms > 0 {
            let message =
                format!("backend with PID {pid} did not terminate within {timeout_ms} milliseconds");
            self.env.notice(cairn_types::Error::warning(cairn_types::sqlstate::WARNING, message));
        }
        Ok(timeout_ms == 0)
    }

    /// A pid that is no session's gets a warning and false.
    fn signal(&self, pid: i32, send: impl FnOnce(i32) -> bool) -> bool {
        let sent = send(pid);
        if !sent {
            let message = format!("PID {pid} is not a PostgreSQL backend process");
            self.env.notice(cairn_types::Error::warning(cairn_types::sqlstate::WARNING, message));
        }
        sent
    }
}
