//! Interleaved transactions against a model: a list of committed states and, for each transaction, a map of its
//! own writes that a savepoint simply copies. Flushes, compactions and restarts must not show, nor must it show where own writes
//! are, in memory or in provisional records, and whether those have settled. Whoever writes a key that others may write locks it
//! first, as the floor above does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_txn::{
    BeginOptions, Clock, Cursor, Database, Direction, Durability, EngineOptions, Error, Interrupt, Isolation,
    KeyRange, LockOutcome, Resources, RowLockMode, SavepointId, SessionHandle, Snapshot, StorageId, Store,
    Timestamp, Transaction, WaitPolicy,
};
use proptest::prelude::*;

type Key = Vec<u8>;
type Value = Option<Vec<u8>>;
type Rows = BTreeMap<Key, Vec<u8>>;

const FIXED: StorageId = 7;

/// A transaction of the model. Own writes carry their command.
#[derive(Clone, Default)]
struct Own {
    writes: BTreeMap<Key, Vec<(u32, Value)>>,
    created: Vec<StorageId>,
}

struct Open {
    txn: Arc<dyn Transaction>,
    /// Index of the committed state that a repeatable read transaction sees.
    fixed: Option<usize>,
    repeatable: bool,
    command: u32,
    own: Own,
    savepoints: Vec<(SavepointId, Own)>,
    cursor: Option<OpenCursor>,
}

struct OpenCursor {
    cursor: Box<dyn Cursor>,
    /// The rows that it has still to give, the next one last.
    rows: Vec<(Key, Vec<u8>)>,
    snapshot: Snapshot,
    state: usize,
    direction: Direction,
    storage: StorageId,
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Get(u8),
    Scan { low: u8, high: u8, backward: bool, created: bool },
    ScanNewest { backward: bool },
    OpenCursor { backward: bool, created: bool },
    MoveCursor(u8),
    ResetCursor { low: u8, high: u8 },
    NextCommand,
    Savepoint,
    RollbackTo(u8),
    Release(u8),
    CreateStorage,
    BulkPut(u8),
    PutCreated(u8, bool),
    Commit { synchronous: bool },
    Rollback,
    Flush,
    Compact,
    Restart,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u8>(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        4 => any::<u8>().prop_map(Step::Delete),
        6 => any::<u8>().prop_map(Step::Get),
        6 => (any::<u8>(), any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(low, high, backward, created)| Step::Scan { low, high, backward, created }),
        3 => any::<bool>().prop_map(|backward| Step::ScanNewest { backward }),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(backward, created)| Step::OpenCursor { backward, created }),
        4 => (1u8..6).prop_map(Step::MoveCursor),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(low, high)| Step::ResetCursor { low, high }),
        6 => Just(Step::NextCommand),
        3 => Just(Step::Savepoint),
        2 => any::<u8>().prop_map(Step::RollbackTo),
        2 => any::<u8>().prop_map(Step::Release),
        2 => Just(Step::CreateStorage),
        6 => any::<u8>().prop_map(Step::BulkPut),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(k, delete)| Step::PutCreated(k, delete)),
        3 => any::<bool>().prop_map(|synchronous| Step::Commit { synchronous }),
        1 => Just(Step::Rollback),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Restart),
        1 => Just(Step::Settle),
    ]
}

fn key(storage: StorageId, name: u8) -> Key {
    [&storage.to_be_bytes()[..], &[name % 24]].concat()
}

fn visible(own: &Own, command: u32, key: &Key) -> Option<Value> {
    let versions = own.writes.get(key)?;
    versions.iter().rev().find(|(written, _)| *written < command).map(|(_, value)| value.clone())
}

fn expected(
    committed: &Rows,
    open: &Open,
    command: u32,
    range: &KeyRange,
    direction: Direction,
) -> Vec<(Key, Vec<u8>)> {
    let mut rows = committed.clone();
    for key in open.own.writes.keys() {
        match visible(&open.own, command, key) {
            Some(Some(value)) => drop(rows.insert(key.clone(), value)),
            Some(None) => drop(rows.remove(key)),
            None => {}
        }
    }
    let mut rows: Vec<_> =
        rows.into_iter().filter(|(key, _)| *key >= range.low && *key < range.high).collect();
    if direction == Direction::Backward {
        rows.reverse();
    }
    rows
}

/// Whether the transaction may write the key: nobody else has it, or has changed it since its snapshot.
fn locks(open: &Open, key: &[u8]) -> bool {
    match open.txn.lock_row(key, RowLockMode::Update, WaitPolicy::Skip) {
        Ok(outcome) => outcome != LockOutcome::Skipped,
        Err(Error::Serialization(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn write(own: &mut Own, key: Key, command: u32, value: Value) {
    own.writes.entry(key).or_default().push((command, value));
}

struct World {
    database: Option<Database>,
    /// What was committed, after each commit.
    states: Vec<Rows>,
    open: Vec<Option<Open>>,
    turn: u8,
    /// Bytes that the transaction in each place keeps in memory.
    memory: [usize; 3],
    dead_ranges: bool,
    /// Last, for it goes last: threads of the database still write into it.
    directory: tempfile::TempDir,
}

impl World {
    fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.open.iter_mut().for_each(|open| *open = None);
        self.database = None;
        let options = EngineOptions {
            memtable_bytes: 64 << 10,
            file_bytes: 64 << 10,
            dead_range_bytes: if self.dead_ranges { 1 << 20 } else { 0 },
            ..EngineOptions::default()
        };
        let resources = Resources::new(8 << 20, 1 << 20);
        let clock = Arc::new(Clock::system());
        self.database = Some(Database::open(self.directory.path(), &options, &resources, clock).unwrap());
    }

    fn begin(&mut self, slot: usize) {
        let repeatable = slot.is_multiple_of(2);
        let session = Arc::new(SessionHandle { pid: slot as i32, interrupt: Arc::new(Interrupt::default()) });
        let isolation = if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let options = BeginOptions { session, isolation, read_only: false, read_time: None };
        let txn = self.database().begin(options).unwrap();
        txn.set_memory_limit(self.memory[slot]);
        self.open[slot] = Some(Open {
            txn,
            fixed: None,
            repeatable,
            command: 0,
            own: Own::default(),
            savepoints: Vec::new(),
            cursor: None,
        });
    }

    fn run(&mut self, slot: usize, step: &Step) {
        if self.open[slot].is_none() {
            self.begin(slot);
        }
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn;
        let newest_state = self.states.len() - 1;
        let database = self.database.clone().unwrap();
        let open = self.open[slot].as_mut().unwrap();
        // The snapshot for this step, in both worlds.
        let snapshot = open.txn.snapshot().unwrap();
        assert_eq!(snapshot.command, open.command);
        let state = match (open.repeatable, open.fixed) {
            (true, Some(fixed)) => fixed,
            _ => newest_state,
        };
        if open.repeatable {
            open.fixed = Some(state);
        }
        let storage_for = |open: &Open, created: bool| match open.own.created.last() {
            Some(storage) if created => *storage,
            _ => FIXED,
        };
        match step {
            Step::Put(name, value) => {
                let key = key(FIXED, *name);
                if !locks(open, &key) {
                    return;
                }
                let newest = open.txn.newest_of_locked(&key).unwrap();
                assert_eq!(newest, open.txn.newest(&key).unwrap());
                open.txn.put(&key, &[*value, turn]).unwrap();
                write(&mut open.own, key, open.command, Some(vec![*value, turn]));
            }
            Step::Delete(name) => {
                let key = key(FIXED, *name);
                if !locks(open, &key) {
                    return;
                }
                open.txn.delete(&key).unwrap();
                write(&mut open.own, key, open.command, None);
            }
            Step::PutCreated(name, delete) => {
                let key = key(storage_for(open, true), *name);
                if !locks(open, &key) {
                    return;
                }
                let value = (!delete).then(|| vec![turn]);
                match &value {
                    Some(value) => open.txn.put(&key, value).unwrap(),
                    None => open.txn.delete(&key).unwrap(),
                }
                write(&mut open.own, key, open.command, value);
            }
            Step::Get(name) => {
                for key in [key(FIXED, *name), key(storage_for(open, true), *name)] {
                    let committed = self.states[state].get(&key).cloned();
                    let wanted = visible(&open.own, open.command, &key).unwrap_or(committed);
                    let found = open.txn.get(&snapshot, &key).unwrap().map(|value| value.to_vec());
                    assert_eq!(found, wanted);
                    let batch = open.txn.get_batch(&snapshot, &[key.clone(), key.clone()]).unwrap();
                    assert!(batch.iter().all(|value| value.as_ref().map(|value| value.to_vec()) == wanted));
                    let newest = open.txn.newest(&key).unwrap();
                    let own = open.own.writes.get(&key).and_then(|versions| versions.last());
                    assert_eq!(newest.own_command, own.map(|(command, _)| *command));
                    let committed = self.states[newest_state].get(&key).cloned();
                    let wanted = own.map_or(committed, |(_, value)| value.clone());
                    assert_eq!(newest.value.map(|value| value.to_vec()), wanted);
                }
            }
            Step::Scan { low, high, backward, created } => {
                let storage = storage_for(open, *created);
                let range = KeyRange { low: key(storage, *low), high: key(storage, *high) };
                let direction = if *backward { Direction::Backward } else { Direction::Forward };
                let mut cursor = open.txn.scan(&snapshot, range.clone(), direction).unwrap();
                let mut rows = Vec::new();
                while let Some((key, value)) = cursor.next().unwrap() {
                    rows.push((key.to_vec(), value.to_vec()));
                }
                drop(cursor);
                assert_eq!(rows, expected(&self.states[state], open, open.command, &range, direction));
                let counted = open.txn.count(&snapshot, range, &mut || true).unwrap();
                assert_eq!(counted, rows.len() as u64);
            }
            Step::ScanNewest { backward } => {
                let range = KeyRange { low: key(FIXED, 0), high: (FIXED + 1).to_be_bytes().to_vec() };
                let direction = if *backward { Direction::Backward } else { Direction::Forward };
                let newest = Snapshot { read_time: Timestamp::MAX, command: u32::MAX };
                let mut cursor = open.txn.scan(&newest, range.clone(), direction).unwrap();
                let mut rows = Vec::new();
                while let Some((key, value)) = cursor.next().unwrap() {
                    rows.push((key.to_vec(), value.to_vec()));
                }
                drop(cursor);
                assert_eq!(rows, expected(&self.states[newest_state], open, u32::MAX, &range, direction));
            }
            Step::OpenCursor { backward, created } => {
                let storage = storage_for(open, *created);
                let direction = if *backward { Direction::Backward } else { Direction::Forward };
                let range = KeyRange {
                    low: storage.to_be_bytes().to_vec(),
                    high: (storage + 1).to_be_bytes().to_vec(),
                };
                let cursor = open.txn.scan(&snapshot, range.clone(), direction).unwrap();
                let mut rows = expected(&self.states[state], open, open.command, &range, direction);
                rows.reverse();
                open.cursor = Some(OpenCursor { cursor, rows, snapshot, state, direction, storage });
            }
            Step::MoveCursor(times) => {
                if let Some(OpenCursor { cursor, rows, .. }) = &mut open.cursor {
                    for _ in 0..*times {
                        let found = cursor.next().unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()));
                        assert_eq!(found, rows.pop());
                    }
                }
            }
            Step::ResetCursor { low, high } => {
                if let Some(mut opened) = open.cursor.take() {
                    let range = KeyRange { low: key(opened.storage, *low), high: key(opened.storage, *high) };
                    opened.cursor.reset(range.clone()).unwrap();
                    let command = opened.snapshot.command;
                    opened.rows =
                        expected(&self.states[opened.state], open, command, &range, opened.direction);
                    opened.rows.reverse();
                    open.cursor = Some(opened);
                }
            }
            Step::NextCommand => {
                open.command += 1;
                assert_eq!(open.txn.advance_command(), open.command);
            }
            Step::Savepoint => {
                let id = open.txn.savepoint();
                open.savepoints.push((id, open.own.clone()));
            }
            Step::RollbackTo(which) => {
                if !open.savepoints.is_empty() {
                    let at = usize::from(*which) % open.savepoints.len();
                    open.savepoints.truncate(at + 1);
                    let (id, own) = open.savepoints[at].clone();
                    // Cursors opened since end with it; here, all do.
                    open.cursor = None;
                    open.txn.rollback_to(id).unwrap();
                    open.own = own;
                }
            }
            Step::Release(which) => {
                if !open.savepoints.is_empty() {
                    let at = usize::from(*which) % open.savepoints.len();
                    open.txn.release(open.savepoints[at].0).unwrap();
                    open.savepoints.truncate(at);
                }
            }
            Step::CreateStorage => open.own.created.push(open.txn.create_storage().unwrap()),
            Step::BulkPut(name) => {
                if let Some(storage) = open.own.created.last().copied() {
                    let key = key(storage, *name);
                    let in_level =
                        open.savepoints.last().is_none_or(|(_, own)| !own.created.contains(&storage));
                    assert_eq!(open.txn.can_bulk_load(storage), in_level);
                    if in_level && open.txn.newest(&key).unwrap().value.is_none() {
                        open.txn.bulk_put(&key, &[turn]).unwrap();
                        write(&mut open.own, key, open.command, Some(vec![turn]));
                    }
                }
            }
            Step::Commit { synchronous } => {
                let durability = if *synchronous { Durability::Sync } else { Durability::Async };
                open.cursor = None;
                open.txn.commit(durability, None).unwrap();
                let mut rows = self.states[newest_state].clone();
                for (key, versions) in &open.own.writes {
                    match &versions.last().unwrap().1 {
                        Some(value) => drop(rows.insert(key.clone(), value.clone())),
                        None => drop(rows.remove(key)),
                    }
                }
                self.states.push(rows);
                self.open[slot] = None;
            }
            Step::Rollback => self.open[slot] = None,
            Step::Settle => database.settle_large_transactions().unwrap(),
            Step::Flush => database.engine().flush().unwrap(),
            Step::Compact => database.engine().compact(),
            Step::Restart => {
                drop(database);
                self.reopen();
            }
        }
    }

    /// Everything that was committed, and nothing else.
    fn check_all(&mut self) {
        self.reopen();
        self.begin(0);
        let txn = self.open[0].as_ref().unwrap().txn.clone();
        let range = KeyRange { low: vec![0; 4], high: vec![0xff; 4] };
        let mut cursor = txn.scan(&txn.snapshot().unwrap(), range, Direction::Forward).unwrap();
        let mut rows = Rows::new();
        while let Some((key, value)) = cursor.next().unwrap() {
            rows.insert(key.to_vec(), value.to_vec());
        }
        assert_eq!(&rows, self.states.last().unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn transactions_agree_with_the_model(
        steps in proptest::collection::vec((0usize..3, step()), 1..120),
        memory in prop_oneof![
            1 => Just([usize::MAX; 3]),
            // Every write spills, every few do, none does.
            3 => Just([0, 800, usize::MAX]).prop_shuffle(),
        ],
        dead_ranges in any::<bool>(),
    ) {
        let mut world = World {
            directory: tempfile::tempdir().unwrap(),
            database: None,
            states: vec![Rows::new()],
            open: vec![None, None, None],
            turn: 0,
            memory,
            dead_ranges,
        };
        world.reopen();
        for (slot, step) in &steps {
            world.run(*slot, step);
        }
        world.check_all();
    }
}
