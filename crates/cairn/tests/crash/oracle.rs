//! What clients attempted, what was acknowledged to them, and whether a database agrees.
//!
//! Each acknowledgement carries a *position*: how long the journal of the disk was when it arrived (0 where there is none). A power loss
//! at an earlier position than that may take it away; [`Oracle::forget_after`] says where the power was lost.
//!
//! [`Oracle::verify`] then holds: everything acknowledged is there, whole; nothing is there that nobody attempted or that
//! was rolled back; what was neither is there whole or not at all. What it finds counts as acknowledged from then on: an answer may
//! only tell what lasts.

use std::collections::{BTreeMap, BTreeSet};

use cairn_testkit::Server;
use postgres::{Client, NoTls};

pub const ACCOUNTS: i32 = 20;
pub const BALANCE: i64 = 1000;
pub const LARGE_ROWS: i32 = 600;
/// Rows of a table of [`Object`].
pub const OBJECT_ROWS: i64 = 300;

pub const SET_UP: &str = "
    create table entry (client int, number int, half int, source int, target int, amount int, note text,
                        primary key (client, number, half));
    create index entry_note on entry (note);
    create table account (id int primary key, balance int not null);
    insert into account select g, 1000 from generate_series(0, 19) g;
    create table queue (id bigint generated always as identity primary key, client int, number int);
    create table done (client int, number int, primary key (client, number));
    create table large (id int primary key, value int not null, filler text);
    insert into large select g, 0, repeat('x', 100) from generate_series(1, 600) g;
    create table lazy (number int, half int, primary key (number, half));
    create table claim (number int primary key);
    create sequence ticket;";

const TABLES: [&str; 7] = ["entry", "account", "queue", "done", "large", "lazy", "claim"];

/// Client and number of a transaction.
pub type Key = (i32, i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub source: i32,
    pub target: i32,
    pub amount: i32,
}

/// A table or database that goes through its steps one after the other, each durable when it is acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub attempted: usize,
    /// Positions of the acknowledgements of the first steps.
    pub acknowledged: Vec<u64>,
}

/// What a table of [`Object`] is after so many steps, and the statement of the next one.
pub const TABLE_STEPS: [&str; 4] = [
    "create table {} as select g as a, repeat('y', 50) as b from generate_series(1, 300) g; create index {}_a on {} (a)",
    "truncate {}",
    "alter table {} add column c int default 5; insert into {} select g, 'z' from generate_series(1, 300) g",
    "drop table {}",
];

pub const DATABASE_STEPS: [&str; 2] = ["create database {}", "drop database {}"];

pub fn is_database(name: &str) -> bool {
    name.starts_with("database")
}

#[derive(Default)]
pub struct Oracle {
    /// May have been committed.
    pub transfers: BTreeMap<Key, Transfer>,
    pub transferred: BTreeMap<Key, u64>,
    pub dequeued: BTreeMap<Key, u64>,
    /// The number that all rows of `large` got: the newest attempted, and acknowledged ones.
    pub large_attempted: i32,
    pub large: Vec<(i32, u64)>,
    /// Committed without waiting, in order, and those that were waited for.
    pub lazy_attempted: i32,
    pub lazy: Vec<(i32, u64)>,
    pub tickets: BTreeMap<i64, u64>,
    /// Numbers that somebody was told are taken, by an error as a rule; and the next one to be tried.
    pub claimed: BTreeMap<i32, u64>,
    pub next_claim: i32,
    pub objects: BTreeMap<String, Object>,
    pub next_object: u32,
    /// Acknowledgements so far.
    pub acknowledgements: u64,
}

impl Oracle {
    /// The power was lost when the journal was so long.
    pub fn forget_after(&mut self, position: u64) {
        self.transferred.retain(|_, at| *at <= position);
        self.dequeued.retain(|_, at| *at <= position);
        self.large.retain(|(_, at)| *at <= position);
        self.lazy.retain(|(_, at)| *at <= position);
        self.tickets.retain(|_, at| *at <= position);
        self.claimed.retain(|_, at| *at <= position);
        for object in self.objects.values_mut() {
            object.acknowledged.retain(|at| *at <= position);
        }
    }

    /// A new journal begins: all that is acknowledged is so from its start. What was dropped cannot come back any more; before
    /// that it can, if the power was lost before the drop.
    pub fn begin_journal(&mut self) {
        self.objects.retain(|name, object| {
            let steps = if is_database(name) { DATABASE_STEPS.len() } else { TABLE_STEPS.len() };
            object.acknowledged.len() < steps
        });
        let positions = (self.transferred.values_mut())
            .chain(self.dequeued.values_mut())
            .chain(self.large.iter_mut().map(|(_, at)| at))
            .chain(self.lazy.iter_mut().map(|(_, at)| at))
            .chain(self.tickets.values_mut())
            .chain(self.claimed.values_mut())
            .chain(self.objects.values_mut().flat_map(|object| &mut object.acknowledged));
        positions.for_each(|at| *at = 0);
    }

    /// Compares the database with what was promised. `position`: of the journal, asked after each answer.
    ///
    /// # Errors
    ///
    /// What was lost, torn or left behind.
    pub fn verify(&mut self, server: &Server, position: &dyn Fn() -> u64) -> Result<(), String> {
        let mut client =
            connect(server.port(), "postgres").map_err(|error| format!("no connection: {error}"))?;
        self.locks_are_free(&mut client).map_err(|error| format!("a lock was left behind: {error}"))?;
        let client = &mut client;
        self.transfers(client, position)?;
        self.numbers(client, position)?;
        self.objects(server, client, position)
    }

    fn locks_are_free(&self, client: &mut Client) -> Result<(), String> {
        let mut run = |statement: &str| {
            client.batch_execute(statement).map_err(|error| format!("{statement}: {}", describe(&error)))
        };
        for table in TABLES {
            run(&format!("begin; select 1 from {table} for update nowait"))?;
            run("rollback")?;
            run(&format!("begin; lock table {table} in access exclusive mode nowait; rollback"))?;
        }
        Ok(())
    }

    fn transfers(&mut self, client: &mut Client, position: &dyn Fn() -> u64) -> Result<(), String> {
        let mut found = BTreeMap::<Key, (i64, Transfer)>::new();
        let query = "select client, number, count(*), sum(source)::int, sum(target)::int, sum(amount)::int
                     from entry group by 1, 2";
        for row in client.query(query, &[]).map_err(failed)? {
            let transfer = Transfer { source: row.get(3), target: row.get(4), amount: row.get(5) };
            found.insert((row.get(0), row.get(1)), (row.get(2), transfer));
        }
        let lost: Vec<_> = self.transferred.keys().filter(|key| !found.contains_key(key)).collect();
        if let Some(first) = lost.first() {
            return Err(format!("{} acknowledged transactions are lost, the first is {first:?}", lost.len()));
        }
        let mut balances = vec![BALANCE; ACCOUNTS as usize];
        for (key, (rows, transfer)) in &found {
            if *rows != 2 {
                return Err(format!("transaction {key:?} is torn: {rows} of 2 rows"));
            }
            match self.transfers.get(key) {
                Some(attempted) if attempted == transfer => {}
                other => return Err(format!("{key:?} has {transfer:?}; attempted was {other:?}")),
            }
            balances[transfer.source as usize] -= i64::from(transfer.amount);
            balances[transfer.target as usize] += i64::from(transfer.amount);
        }
        let rows = client.query("select balance::bigint from account order by id", &[]).map_err(failed)?;
        let actual: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if actual != balances {
            return Err(format!("balances do not agree with the transfers: {actual:?}, not {balances:?}"));
        }
        // Every entry is in the queue or done, once.
        let rows = client
            .query("select client, number from queue union all select client, number from done", &[])
            .map_err(failed)?;
        let places: Vec<Key> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let distinct: BTreeSet<Key> = places.iter().copied().collect();
        if places.len() != distinct.len() || !distinct.iter().eq(found.keys()) {
            return Err(format!(
                "{} entries, {} places, {} distinct",
                found.len(),
                places.len(),
                distinct.len()
            ));
        }
        let rows = client.query("select client, number from done", &[]).map_err(failed)?;
        let done: BTreeSet<Key> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        if let Some(key) = self.dequeued.keys().find(|key| !done.contains(key)) {
            return Err(format!("{key:?} was taken from the queue and is back"));
        }
        // The same rows through the index as through the table.
        for (number, key) in found.keys().enumerate() {
            if number % 40 == 0 {
                let note = note(*key);
                let row = client
                    .query_one("select count(*) from entry where note = $1", &[&note])
                    .map_err(failed)?;
                if row.get::<_, i64>(0) != 2 {
                    return Err(format!("{note} through the index: {} rows", row.get::<_, i64>(0)));
                }
            }
        }
        let at = position();
        self.transfers.retain(|key, _| found.contains_key(key));
        for key in found.keys() {
            self.transferred.entry(*key).or_insert(at);
        }
        for key in done {
            self.dequeued.entry(key).or_insert(at);
        }
        Ok(())
    }

    fn numbers(&mut self, client: &mut Client, position: &dyn Fn() -> u64) -> Result<(), String> {
        let row =
            client.query_one("select count(*), min(value), max(value) from large", &[]).map_err(failed)?;
        let (rows, least, most): (i64, i32, i32) = (row.get(0), row.get(1), row.get(2));
        if rows != i64::from(LARGE_ROWS) || least != most {
            return Err(format!("a large transaction is torn: {rows} rows, {least} to {most}"));
        }
        let acknowledged = self.large.iter().map(|(value, _)| *value).max().unwrap_or(0);
        if most < acknowledged || most > self.large_attempted {
            return Err(format!("large: {most}, not {acknowledged} to {}", self.large_attempted));
        }
        self.large_attempted = most;
        self.large.push((most, position()));

        // Commits that nobody waited for may be lost from the end, never from the middle, never half.
        let row = client
            .query_one(
                "select count(*), count(*) filter (where half = 0), coalesce(max(number), 0) from lazy",
                &[],
            )
            .map_err(failed)?;
        let (rows, first_halves, newest): (i64, i64, i32) = (row.get(0), row.get(1), row.get(2));
        if rows != 2 * i64::from(newest) || first_halves != i64::from(newest) {
            return Err(format!(
                "asynchronous commits are torn or have holes: {rows} rows, {first_halves} first halves, up to {newest}"
            ));
        }
        let acknowledged = self.lazy.iter().map(|(number, _)| *number).max().unwrap_or(0);
        if newest < acknowledged || newest > self.lazy_attempted {
            return Err(format!("lazy: {newest}, not {acknowledged} to {}", self.lazy_attempted));
        }
        self.lazy_attempted = newest;
        self.lazy.push((newest, position()));

        let row = client.query_one("select nextval('ticket')", &[]).map_err(failed)?;
        if self.tickets.insert(row.get(0), position()).is_some() {
            return Err(format!("the sequence gave {} twice", row.get::<_, i64>(0)));
        }

        let rows = client.query("select number from claim", &[]).map_err(failed)?;
        let found: BTreeSet<i32> = rows.iter().map(|row| row.get(0)).collect();
        if let Some(lost) = self.claimed.keys().find(|number| !found.contains(number)) {
            return Err(format!("claim {lost} is gone, of which somebody was told that it is taken"));
        }
        if let Some(made_up) = found.iter().find(|number| **number > self.next_claim) {
            return Err(format!("nobody has claimed {made_up}"));
        }
        let at = position();
        self.claimed.extend(found.into_iter().map(|number| (number, at)));
        Ok(())
    }

    fn objects(
        &mut self,
        server: &Server,
        client: &mut Client,
        position: &dyn Fn() -> u64,
    ) -> Result<(), String> {
        let rows = client
            .query(
                "select relname::text from pg_class where relname like 'object%' and relkind = 'r'
             union all select datname::text from pg_database where datname like 'database%'",
                &[],
            )
            .map_err(failed)?;
        let names: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        if let Some(name) = names.iter().find(|name| !self.objects.contains_key(*name)) {
            return Err(format!("{name} exists, and was dropped or never created"));
        }
        for (name, object) in &mut self.objects {
            let state = match (names.contains(name), is_database(name)) {
                (false, _) => None,
                (true, true) => {
                    let mut other = connect(server.port(), name).map_err(failed)?;
                    other.query_one("select count(*) from pg_class", &[]).map_err(failed)?;
                    Some((0, 0))
                }
                (true, false) => {
                    let row = client
                        .query_one(&format!("select count(*), count(a) from {name}"), &[])
                        .map_err(failed)?;
                    let columns = client.query_one(
                        "select count(*) from pg_attribute where attrelid = $1::text::regclass and attnum > 0",
                        &[name]
                    ).map_err(failed)?;
                    let indexed = client
                        .query_one(&format!("select count(*) from {name} where a > 0"), &[])
                        .map_err(failed)?;
                    if row.get::<_, i64>(0) != indexed.get::<_, i64>(0) {
                        return Err(format!("{name}: its index disagrees"));
                    }
                    Some((row.get::<_, i64>(0), columns.get::<_, i64>(0)))
                }
            };
            let after = |step: usize| match (step, is_database(name)) {
                (0, _) => None,
                (1, true) => Some((0, 0)),
                (1, false) => Some((OBJECT_ROWS, 2)),
                (2, false) => Some((0, 2)),
                (3, false) => Some((OBJECT_ROWS, 3)),
                _ => None,
            };
            let mut possible = object.acknowledged.len()..=object.attempted;
            let Some(step) = possible.find(|step| after(*step) == state) else {
                return Err(format!("{name} is {state:?}, after {object:?}"));
            };
            object.attempted = step;
            object.acknowledged.resize(step, position());
        }
        Ok(())
    }

    /// Begins anew when there is so much that looking through it takes long; whether it did.
    pub fn reset(&mut self, server: &Server) -> bool {
        if self.transferred.len() < 1500 && self.lazy_attempted < 1500 {
            return false;
        }
        let mut client = connect(server.port(), "postgres").unwrap();
        client.batch_execute("truncate entry, queue, done, lazy; update account set balance = 1000").unwrap();
        self.transfers.clear();
        self.transferred.clear();
        self.dequeued.clear();
        self.lazy_attempted = 0;
        self.lazy.clear();
        true
    }
}

pub fn note((client, number): Key) -> String {
    format!("note {client} {number}")
}

pub fn connect(port: u16, database: &str) -> Result<Client, postgres::Error> {
    let parameters = format!("host=127.0.0.1 port={port} user=postgres dbname={database} connect_timeout=10");
    Client::connect(&parameters, NoTls)
}

fn failed(error: postgres::Error) -> String {
    format!("a query failed: {}", describe(&error))
}

/// With the server's message.
pub fn describe(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(report) => format!("{}: {}", report.code().code(), report.message()),
        None => error.to_string(),
    }
}
