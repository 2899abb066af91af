//! Clients that keep the server busy with everything that writes, and tell the oracle what they were promised.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::{Client, Error};

use super::oracle::{ACCOUNTS, DATABASE_STEPS, Oracle, TABLE_STEPS, Transfer, connect, is_database, note};
use cairn_powerloss::Chance;

const TRANSFERRING: i32 = 4;

/// What the clients share.
pub struct Workload {
    pub port: u16,
    pub seed: u64,
    pub oracle: Arc<Mutex<Oracle>>,
    /// How long the disk's journal is.
    pub position: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Sessions commit asynchronously, and the oracle is not told: it has to notice.
    pub lies: bool,
}

/// Clients at work.
pub struct Running {
    clients: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Running {
    /// Waits for the clients. The server is gone, or they stop at their next transaction.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().unwrap();
        }
    }
}

/// One client's connection; made again when it broke while the server lives.
struct Worker {
    workload: Arc<Workload>,
    chance: Chance,
    connection: Client,
}

type Step = fn(&mut Worker, u64) -> Result<(), Error>;

impl Workload {
    pub fn start(self) -> Running {
        let workload = Arc::new(self);
        let stop = Arc::new(AtomicBool::new(false));
        let mut steps: Vec<Step> =
            vec![dequeue, dequeue, write_large, commit_lazily, take_ticket, change_objects, keep_up];
        steps.extend([claim as Step; 3]);
        steps.extend([transfer as Step; TRANSFERRING as usize]);
        let spawn = |(number, step): (usize, Step)| {
            let (workload, stop) = (Arc::clone(&workload), Arc::clone(&stop));
            thread::spawn(move || workload.run(number as u64, step, &stop))
        };
        let clients = steps.into_iter().enumerate().map(spawn).collect();
        Running { clients, stop }
    }

    /// Until the server is gone.
    fn run(self: &Arc<Self>, number: u64, step: Step, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let Ok(mut connection) = connect(self.port, "postgres") else {
                if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
                    return;
                }
                continue;
            };
            if self.lies && connection.batch_execute("set synchronous_commit = off").is_err() {
                return;
            }
            let chance = Chance::new(self.seed ^ number << 32);
            let mut worker = Worker { workload: Arc::clone(self), chance, connection };
            while !stop.load(Ordering::Relaxed) && !worker.connection.is_closed() {
                if let Err(error) = step(&mut worker, number) {
                    // Deadlocks, a full disk: the transaction is rolled back, and another one tries.
                    if error.as_db_error().is_none() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    fn tell(&self, what: impl FnOnce(&mut Oracle, u64)) {
        // The position first: it is later than what caused the answer, and that is all that counts.
        let position = (self.position)();
        let mut oracle = self.oracle.lock().unwrap();
        oracle.acknowledgements += 1;
        what(&mut oracle, position);
    }

    fn oracle<T>(&self, look: impl FnOnce(&mut Oracle) -> T) -> T {
        look(&mut self.oracle.lock().unwrap())
    }
}

/// A transaction of several statements on five tables.
fn transfer(worker: &mut Worker, client: u64) -> Result<(), Error> {
    let client = client as i32;
    let account = |chance: &mut Chance| chance.below(ACCOUNTS as u64) as i32;
    let (source, target) = (account(&mut worker.chance), account(&mut worker.chance));
    let transfer = Transfer { source, target, amount: worker.chance.below(100) as i32 };
    let rolled_back = worker.chance.below(10) == 0;
    let key = worker.workload.oracle(|oracle| {
        let newest = oracle.transfers.range((client, 0)..(client + 1, 0)).next_back();
        let key = (client, newest.map_or(1, |((_, number), _)| number + 1));
        oracle.transfers.insert(key, transfer);
        key
    });
    let mut committing = false;
    let done = (|| {
        let mut transaction = worker.connection.transaction()?;
        let insert = "insert into entry values ($1, $2, $3, $4, $5, $6, $7)";
        let Transfer { source, target, amount } = transfer;
        transaction.execute(insert, &[&key.0, &key.1, &0, &source, &target, &amount, &note(key)])?;
        let update = "update account set balance = balance + $2 where id = $1";
        transaction.execute(update, &[&source, &-amount])?;
        transaction.execute(update, &[&target, &amount])?;
        transaction.execute(insert, &[&key.0, &key.1, &1, &0, &0, &0, &note(key)])?;
        transaction.execute("insert into queue (client, number) values ($1, $2)", &[&key.0, &key.1])?;
        if rolled_back {
            return transaction.rollback();
        }
        committing = true;
        transaction.commit()
    })();
    let workload = &worker.workload;
    match done {
        Ok(()) if !rolled_back => workload.tell(|oracle, position| {
            oracle.transferred.insert(key, position);
        }),
        // Whether a commit that had no answer happened is open; everything else did not.
        Err(error) if committing => return Err(error),
        other => {
            workload.oracle(|oracle| oracle.transfers.remove(&key));
            return other;
        }
    }
    Ok(())
}

/// Takes the oldest job: the front of the queue is deleted rows.
fn dequeue(worker: &mut Worker, _: u64) -> Result<(), Error> {
    let statement = "with job as (delete from queue where id = (select id from queue order by id limit 1 for update skip locked)
                                  returning client, number)
                     insert into done select client, number from job returning client, number";
    let rows = worker.connection.query(statement, &[])?;
    match rows.first() {
        Some(row) => worker.workload.tell(|oracle, position| {
            oracle.dequeued.insert((row.get(0), row.get(1)), position);
        }),
        None => thread::sleep(Duration::from_millis(2)),
    }
    Ok(())
}

/// A transaction that goes past its memory; some are rolled back.
fn write_large(worker: &mut Worker, _: u64) -> Result<(), Error> {
    worker.connection.batch_execute("set cairn.transaction_memory = '64kB'")?;
    let value = worker.workload.oracle(|oracle| {
        let acknowledged = oracle.large.iter().map(|(value, _)| *value).max().unwrap_or(0);
        oracle.large_attempted = oracle.large_attempted.max(acknowledged + 1);
        oracle.large_attempted
    });
    let mut transaction = worker.connection.transaction()?;
    if worker.chance.below(4) == 0 {
        transaction.execute("update large set value = -1", &[])?;
        return transaction.rollback();
    }
    transaction.execute("update large set value = -2 where id % 2 = 0", &[])?;
    transaction.execute("update large set value = $1", &[&value])?;
    transaction.commit()?;
    worker.workload.tell(|oracle, position| oracle.large.push((value, position)));
    Ok(())
}

/// Asynchronous commits, one after the other, in two sessions; every eighth waits for all before it.
fn commit_lazily(worker: &mut Worker, _: u64) -> Result<(), Error> {
    let mut other = connect(worker.workload.port, "postgres")?;
    for session in [&mut worker.connection, &mut other] {
        session.batch_execute("set synchronous_commit = off")?;
    }
    loop {
        let number = worker.workload.oracle(|oracle| {
            oracle.lazy_attempted += 1;
            oracle.lazy_attempted
        });
        let waits = number % 8 == 0 && !worker.workload.lies;
        let session = if worker.chance.below(2) == 0 { &mut worker.connection } else { &mut other };
        let done = (|| {
            let mut transaction = session.transaction()?;
            if waits {
                transaction.batch_execute("set local synchronous_commit = on")?;
            }
            for half in [0, 1] {
                transaction.execute("insert into lazy values ($1, $2)", &[&number, &half])?;
            }
            transaction.commit()
        })();
        if let Err(error) = done {
            // If it did not happen, the next one gets its number.
            let newest =
                worker.connection.query_one("select coalesce(max(number), 0) from lazy", &[])?.get(0);
            worker.workload.oracle(|oracle| oracle.lazy_attempted = newest);
            return Err(error);
        }
        if waits {
            worker.workload.tell(|oracle, position| oracle.lazy.push((number, position)));
        }
    }
}

fn take_ticket(worker: &mut Worker, _: u64) -> Result<(), Error> {
    let value: i64 = worker.connection.query_one("select nextval('ticket')", &[])?.get(0);
    worker.workload.tell(|oracle, position| {
        let before = oracle.tickets.insert(value, position);
        assert_eq!(before, None, "the sequence gave {value} twice");
    });
    thread::sleep(Duration::from_millis(1));
    Ok(())
}

/// Several want the same number: one gets it, the others are told that it is taken, which must last as well.
fn claim(worker: &mut Worker, _: u64) -> Result<(), Error> {
    let number = worker.workload.oracle(|oracle| oracle.next_claim);
    let taken = match worker.connection.execute("insert into claim values ($1)", &[&number]) {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(()),
        Err(error) => Err(error),
    };
    if taken.is_ok() {
        worker.workload.tell(|oracle, position| {
            oracle.claimed.entry(number).or_insert(position);
            oracle.next_claim = oracle.next_claim.max(number + 1);
        });
    }
    taken
}

/// Creates, truncates, alters, drops.
fn change_objects(worker: &mut Worker, _: u64) -> Result<(), Error> {
    let few = worker.chance.below(3) == 0;
    let database = worker.chance.below(16) == 0;
    let (name, step) = worker.workload.oracle(|oracle| {
        let unfinished = oracle.objects.iter().find(|(name, object)| {
            let steps = if is_database(name) { DATABASE_STEPS.len() } else { TABLE_STEPS.len() };
            (few || is_database(name)) && object.acknowledged.len() < steps
        });
        let name = match unfinished {
            Some((name, _)) => name.clone(),
            None => {
                oracle.next_object += 1;
                let kind = if database { "database" } else { "object" };
                format!("{kind}{}", oracle.next_object)
            }
        };
        let object = oracle.objects.entry(name.clone()).or_default();
        object.attempted = object.acknowledged.len() + 1;
        (name, object.acknowledged.len())
    });
    let statements = if is_database(&name) { &DATABASE_STEPS[..] } else { &TABLE_STEPS[..] };
    let done = worker.connection.batch_execute(&statements[step].replace("{}", &name));
    match done {
        Ok(()) => worker.workload.tell(|oracle, position| {
            if let Some(object) = oracle.objects.get_mut(&name) {
                object.acknowledged.push(position);
            }
        }),
        // An error that arrived is no: only a connection that broke leaves it open.
        Err(error) => {
            if error.as_db_error().is_some() && !worker.connection.is_closed() {
                worker.workload.oracle(|oracle| {
                    if let Some(object) = oracle.objects.get_mut(&name) {
                        object.attempted = object.acknowledged.len();
                    }
                });
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Makes files: what was written goes to tables, tables are rewritten.
fn keep_up(worker: &mut Worker, _: u64) -> Result<(), Error> {
    thread::sleep(Duration::from_millis(30 + worker.chance.below(60)));
    let statement = match worker.chance.below(5) {
        0 => "vacuum queue",
        1 => "vacuum full queue",
        2 => "vacuum large",
        _ => "checkpoint",
    };
    worker.connection.batch_execute(statement)
}
