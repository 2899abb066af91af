//! Damaged files: each file of a data directory is changed at single bytes, cut off, emptied and removed, after a clean end and
//! after a kill -9. Then the directory is opened and read: it is refused, or it answers right. It never answers with less than was
//! acknowledged, and no database goes away.
//!
//! One exception, which nobody can tell from what a power loss leaves: after a kill -9, damage to the last write of a log, with no
//! later one behind it, or a log that was cut off.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_txn::{
    Clock, Cluster, Database, Direction, Durability, EngineOptions, Error, KeyRange, Origin, Recovery,
    Resources, StorageError,
};
use common::begin;

const COMMITS: u32 = 90;
const ROWS_PER_COMMIT: u32 = 4;
/// How long the sampled damages may take; those that matter most come first.
const TIME: Duration = Duration::from_secs(50);

fn open(directory: &Path, recovery: Recovery) -> Result<Cluster, Error> {
    let resources = Resources::new(64 << 20, 32 << 20);
    let options = EngineOptions {
        memtable_bytes: 256 << 10,
        garbage_collection: false,
        recovery,
        ..EngineOptions::default()
    };
    Cluster::open_with(directory, options, resources, Clock::system())
}

fn key(commit: u32, row: u32) -> Vec<u8> {
    [1u32, commit, row].iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn commit(database: &Database, number: u32) {
    let txn = begin(database);
    for row in 0..ROWS_PER_COMMIT {
        txn.put(&key(number, row), format!("value {number} {row}").as_bytes()).unwrap();
    }
    txn.commit(Durability::Sync, None).unwrap();
}

/// The number of commits whose rows are all there; a gap is a failure.
fn commits(database: &Database) -> Result<u32, Error> {
    let txn = begin(database);
    let range = KeyRange { low: 1u32.to_be_bytes().to_vec(), high: 2u32.to_be_bytes().to_vec() };
    let mut cursor = txn.scan(&txn.snapshot()?, range, Direction::Forward)?;
    let mut rows = 0;
    while let Some((found, value)) = cursor.next()? {
        let (number, row) = (rows / ROWS_PER_COMMIT, rows % ROWS_PER_COMMIT);
        assert_eq!(found, key(number, row), "a gap");
        assert_eq!(value, format!("value {number} {row}").as_bytes());
        rows += 1;
    }
    assert_eq!(rows % ROWS_PER_COMMIT, 0, "half a transaction");
    Ok(rows / ROWS_PER_COMMIT)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            std::fs::copy(&path, &copied).unwrap();
        }
    }
}

/// In memory if that can be: nothing here rests on the disk.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A directory with one database, in files and in the log; as a clean end leaves it, and as a kill -9 does.
fn data() -> (tempfile::TempDir, tempfile::TempDir) {
    let (stopped, killed) = (scratch(), scratch());
    let cluster = open(stopped.path(), Recovery::default()).unwrap();
    cluster.system_put(b"role/1", b"somebody").unwrap();
    cluster.create_database("d", 10, Origin::Empty).unwrap();
    cluster.system_put(b"role/2", b"else").unwrap();
    let database = cluster.database("d").unwrap();
    for number in 0..COMMITS {
        if number == COMMITS / 3 {
            database.engine().flush().unwrap();
            // As the collector does.
            database.engine().save_manifest().unwrap();
        }
        commit(&database, number);
    }
    // What a crash finds: the beginning of the next flush, say. RocksDB is idle.
    copy(stopped.path(), killed.path());
    drop(database);
    drop(cluster);
    (stopped, killed)
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip { at: u64, bit: u32 },
    Cut { at: u64 },
    Empty,
    Remove,
}

fn damage(file: &Path, damage: Damage) {
    match damage {
        Damage::Flip { at, bit } => {
            let mut bytes = std::fs::read(file).unwrap();
            bytes[at as usize] ^= 1 << bit;
            std::fs::write(file, bytes).unwrap();
        }
        Damage::Cut { at } => std::fs::File::options().write(true).open(file).unwrap().set_len(at).unwrap(),
        Damage::Empty => std::fs::write(file, b"").unwrap(),
        Damage::Remove if file.is_dir() => std::fs::remove_dir_all(file).unwrap(),
        Damage::Remove => std::fs::remove_file(file).unwrap(),
    }
}

/// What a session that reads everything is told.
fn read(directory: &Path) -> Result<u32, Error> {
    let cluster = open(directory, Recovery::default())?;
    let names: Vec<_> = cluster.databases().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["d"]);
    let roles = cluster.system_scan(b"role/")?;
    assert_eq!(roles, [(b"role/1".to_vec(), b"somebody".to_vec()), (b"role/2".to_vec(), b"else".to_vec())]);
    commits(&cluster.database("d")?)
}

/// Files and directories that are to be damaged, below the data directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for store in ["system", "databases/16384"] {
        for entry in std::fs::read_dir(directory.join(store)).unwrap() {
            let name = entry.unwrap().file_name();
            // RocksDB's account of what it did.
            if !name.to_str().unwrap().starts_with("LOG") {
                found.push(Path::new(store).join(name));
            }
        }
    }
    found.sort();
    found
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Damages of a file, in rounds: each round has a few of every file.
fn damages(file: &Path, round: u64, random: &mut Random) -> Vec<Damage> {
    let bytes = std::fs::read(file).unwrap();
    // Without the room ahead of a log.
    let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1);
    let mut damages = Vec::new();
    if round == 0 {
        damages.extend([Damage::Empty, Damage::Remove]);
    }
    if length == 0 {
        return damages;
    }
    if length <= 80 {
        // Every byte in the end.
        let each = (0..length).filter(|at| at % 8 == round % 8);
        damages.extend(each.map(|at| Damage::Flip { at, bit: random.below(8) as u32 }));
    } else {
        for _ in 0..5 {
            damages.push(Damage::Flip { at: random.below(length), bit: random.below(8) as u32 });
        }
    }
    for _ in 0..3 {
        damages.push(Damage::Cut { at: random.below(length) });
    }
    damages
}

#[test]
fn damage_is_refused_or_harmless() {
    let (stopped, killed) = data();
    assert_eq!(read_copy(stopped.path(), |_| {}).unwrap(), COMMITS);
    assert_eq!(read_copy(killed.path(), |_| {}).unwrap(), COMMITS);
    let begin = Instant::now();
    let mut random = Random(20);
    let mut outcomes: BTreeMap<(&str, String), [u32; 3]> = BTreeMap::new();
    for round in 0..8 {
        for (kind, directory) in [("killed", killed.path()), ("stopped", stopped.path())] {
            for file in files(directory) {
                for change in damages(&directory.join(&file), round, &mut random) {
                    if begin.elapsed() > TIME {
                        break;
                    }
                    let what = format!("{kind}, {}: {change:?}", file.display());
                    let found = read_copy(directory, |copied| damage(&copied.join(&file), change));
                    let extension = file.extension().and_then(|extension| extension.to_str());
                    // A log may end early: by its last write, or by all if nothing tells that there were more.
                    let may_lack = match change {
                        _ if kind == "stopped" || extension != Some("log") => 0,
                        Damage::Flip { .. } => 1,
                        Damage::Cut { .. } | Damage::Empty => COMMITS,
                        Damage::Remove => 0,
                    };
                    let outcome = match found {
                        Ok(COMMITS) => 0,
                        Ok(found) => {
                            assert!(
                                found + may_lack >= COMMITS,
                                "{what}: {found} of {COMMITS} commits are left"
                            );
                            1
                        }
                        Err(error) => {
                            assert!(error.to_string().len() > 10, "{what}: {error}");
                            2
                        }
                    };
                    let name = file.file_name().unwrap().to_str().unwrap();
                    let name: String = name.chars().filter(|character| !character.is_ascii_digit()).collect();
                    outcomes.entry((kind, name)).or_default()[outcome] += 1;
                }
            }
        }
    }
    let mut all = [0; 3];
    for ((kind, name), counts) in &outcomes {
        println!(
            "{kind:8} {name:16} right {:3}, without the log's end {:3}, refused {:3}",
            counts[0], counts[1], counts[2]
        );
        (0..3).for_each(|outcome| all[outcome] += counts[outcome]);
    }
    println!("{all:?} in {:?}", begin.elapsed());
    assert!(all[0] > 20 && all[2] > 20, "{all:?}");
    for store in ["system", "databases/16384"] {
        for directory in [killed.path(), stopped.path()] {
            let found = read_copy(directory, |copied| damage(&copied.join(store), Damage::Remove));
            assert!(found.is_err(), "{store} is gone: {found:?}");
        }
    }
}

/// Damages a copy of the directory and reads it.
fn read_copy(directory: &Path, damage: impl FnOnce(&Path)) -> Result<u32, Error> {
    let copied = scratch();
    copy(directory, copied.path());
    damage(copied.path());
    // Unless that is the damage.
    let database = copied.path().join("databases/16384");
    let was_there = database.exists();
    let found = read(copied.path());
    assert_eq!(database.exists(), was_there, "a database was removed, or begun anew");
    found
}

/// One changed bit in the newest log of a killed server. The acknowledged commits behind it are given up only on demand.
#[test]
fn a_damaged_log_is_given_up_on_demand() {
    let (_, killed) = data();
    let copied = scratch();
    copy(killed.path(), copied.path());
    let database = copied.path().join("databases/16384");
    let logs = std::fs::read_dir(&database).unwrap().map(|entry| entry.unwrap().path());
    let newest = logs.filter(|path| path.extension().is_some_and(|found| found == "log")).max().unwrap();
    let length = std::fs::read(&newest).unwrap().iter().rposition(|&byte| byte != 0).unwrap() as u64;
    damage(&newest, Damage::Flip { at: length / 5, bit: 0 });
    for _ in 0..2 {
        match read(copied.path()) {
            Err(Error::Storage(error @ StorageError::DamagedLog { offset, batches, .. })) => {
                assert!(offset <= length / 5 && offset > length / 6, "{error}");
                assert!(batches >= u64::from(COMMITS) / 3, "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    let given_up = Recovery { truncate_damaged_log: true, ..Recovery::default() };
    let cluster = open(copied.path(), given_up).unwrap();
    let left = commits(&cluster.database("d").unwrap()).unwrap();
    assert!((COMMITS / 3..COMMITS).contains(&left), "{left}");
    commit(&cluster.database("d").unwrap(), left);
    drop(cluster);
    let cluster = open(copied.path(), Recovery::default()).unwrap();
    assert_eq!(commits(&cluster.database("d").unwrap()).unwrap(), left + 1);
}
